// SPDX-License-Identifier: MIT
/*
 * How long a stream's work takes, by two events of the driver. While a window records it
 * does not run, so there is nothing to measure: that costs the time, not the work.
 */
#include "cuda.h"

#include <string.h>

enum state {
	NOT_BEGUN,
	REFUSED,
	MEASURES,
};

/* @s: whose they are, or NULL. */
static void destroy_events(struct capkm_cuda *cuda, const struct stream *s,
			   struct capkm_cuda_profile *p, const char *call)
{
	if (p->start)
		cu_call_on(cuda, s, NULL, call, cuEventDestroy, p->start);
	if (p->stop)
		cu_call_on(cuda, s, NULL, call, cuEventDestroy, p->stop);
	p->start = NULL;
	p->stop = NULL;
}

/* Both at once, so that the end needs none. The stream's context. */
static int create_events(struct capkm_cuda *cuda, const struct stream *s,
			 struct capkm_cuda_profile *p, const char *call,
			 struct capkm_error *err)
{
	int rc = capkm_cuda_push(cuda, s->context, call, err);

	if (rc)
		return rc;
	rc = cu_call_on(cuda, s, err, call, cuEventCreate, &p->start, 0);
	if (!rc)
		rc = cu_call_on(cuda, s, err, call, cuEventCreate, &p->stop, 0);
	capkm_cuda_pop(cuda);
	return rc;
}

/* 1: it may be measured; 0: not now. */
static int may(struct capkm_cuda *cuda, const struct stream *s,
	       const struct capture *capture, const char *call,
	       struct capkm_error *err)
{
	int rc;

	if (capture->how != NOT_CAPTURING || !cuda->cu.cuEventElapsedTime)
		return 0;
	rc = capkm_stream_refuse(cuda, s, CAPKM_REFUSE_PROFILE, call, err);
	return rc == -EBUSY ? 0 : rc ? rc : 1;
}

static int record(struct capkm_cuda *cuda, const struct stream *s,
		  cu_event event, const char *call, struct capkm_error *err)
{
	return cu_call_on(cuda, s, err, call, cuEventRecord, event, s->handle);
}

int capkm_cuda_profile_begin(struct capkm_cuda *cuda, cu_stream handle,
			     struct capkm_cuda_profile *profile,
			     struct capkm_error *err)
{
	const char *call = "cuda_profile_begin";
	struct capkm_cuda_profile p = { .state = REFUSED };
	struct capture capture;
	struct stream *s;
	int rc = capkm_stream_get(cuda, handle, call, &s, &capture, err);
	int mode;

	if (rc)
		return rc;
	mode = capkm_cu_relax(cuda);
	rc = may(cuda, s, &capture, call, err);
	if (rc > 0) {
		p.state = MEASURES;
		p.stream = handle;
		rc = create_events(cuda, s, &p, call, err);
		if (!rc)
			rc = record(cuda, s, p.start, call, err);
	}
	if (rc)
		destroy_events(cuda, s, &p, call);
	capkm_cu_restore(cuda, mode);
	capkm_capture_put(cuda, &capture);
	capkm_stream_put(cuda, s);
	if (!rc)
		*profile = p;
	return rc;
}

static int measure(struct capkm_cuda *cuda, const struct stream *s,
		   struct capkm_cuda_profile *p, const char *call,
		   struct capkm_error *err)
{
	float ms = 0;
	int rc = capkm_cuda_stream_sync(cuda, p->stream, err);

	if (!rc)
		rc = cu_call_on(cuda, s, err, call, cuEventElapsedTime, &ms,
				p->start, p->stop);
	if (rc)
		return rc;
	p->ns = (uint64_t)((double)ms * 1e6);
	p->timed = 1;
	return 0;
}

/* The last event is recorded and waited for, unless a window is in the way. */
static int stop(struct capkm_cuda *cuda, struct capkm_cuda_profile *p,
		const char *call, struct capkm_error *err)
{
	struct capture capture;
	struct stream *s;
	bool measures;
	int rc = capkm_stream_get(cuda, p->stream, call, &s, &capture, err);

	if (rc) {
		destroy_events(cuda, NULL, p, call);
		return rc;
	}
	rc = may(cuda, s, &capture, call, err);
	measures = rc > 0;
	if (measures)
		rc = record(cuda, s, p->stop, call, err);
	capkm_capture_put(cuda, &capture);
	if (measures && !rc)
		rc = measure(cuda, s, p, call, err);
	destroy_events(cuda, s, p, call);
	capkm_stream_put(cuda, s);
	return rc;
}

int capkm_cuda_profile_end(struct capkm_cuda *cuda,
			   struct capkm_cuda_profile *profile,
			   struct capkm_error *err)
{
	const char *call = "cuda_profile_end";
	struct capkm_cuda_profile p;
	int mode, rc = capkm_cuda_usable(cuda, call, err);

	if (rc)
		return rc;
	if (profile->state != REFUSED && profile->state != MEASURES)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the measurement was not begun, or has ended", call);
	p = *profile;
	memset(profile, 0, sizeof(*profile));
	mode = capkm_cu_relax(cuda);
	if (p.state == MEASURES)
		rc = stop(cuda, &p, call, err);
	capkm_cu_restore(cuda, mode);
	if (rc)
		return rc;
	profile->ns = p.ns;
	profile->timed = p.timed;
	return 0;
}
