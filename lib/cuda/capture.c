// SPDX-License-Identifier: MIT
/*
 * Windows around the driver's captures: prepare, begin, attach. The authority's state
 * changes first, then the driver's: a call that the authority refuses does nothing to a
 * capture. Then the authority hears that the driver has done it.
 */
#include "window.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *mode_name(int mode)
{
	static const char *const names[] = {
		[CU_MODE_GLOBAL] = "global",
		[CU_MODE_THREAD_LOCAL] = "thread-local",
		[CU_MODE_RELAXED] = "relaxed",
	};

	return names[mode];
}

static int choose_mode(const struct capkm_cuda_graph_opts *o,
		       const char *call, int *mode, struct capkm_error *err)
{
	const uint32_t known = CAPKM_CUDA_GRAPH_F_STRICT |
			       CAPKM_CUDA_GRAPH_F_FREES |
			       CAPKM_CUDA_GRAPH_F_HOST_UNCHECKED;

	if (o->flags & ~known || o->mode > CAPKM_CUDA_MODE_RELAXED)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: flags are CAPKM_CUDA_GRAPH_F_*, not 0x%x, and the mode one of CAPKM_CUDA_MODE_*, not %" PRIu32,
			call, o->flags, o->mode);
	if (o->mode)
		*mode = (int)o->mode - CAPKM_CUDA_MODE_GLOBAL;
	else
		*mode = o->flags & CAPKM_CUDA_GRAPH_F_STRICT ?
			CU_MODE_THREAD_LOCAL : CU_MODE_RELAXED;
	return 0;
}

void capkm_stream_clear(struct capkm_cuda *cuda, struct stream *s)
{
	struct capkm_window_query q = { .size = sizeof(q) };
	struct window *w = capkm_window_own(cuda, s);

	if (!w)
		return;
	q.window = w->id;
	if (capkm_window_query(cuda->c, &q, NULL) ||
	    q.out_state >= CAPKM_WINDOW_SEALED)
		capkm_window_drop(cuda, w);
	capkm_window_put(cuda, w);
}

int capkm_window_prepare_on(struct capkm_cuda *cuda, struct stream *s,
			    struct window *w, uint64_t cookie, const char *call,
			    uint64_t *window, struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);
	const struct capkm_window_opts opts = CAPKM_OPTS(struct capkm_window_opts,
		.mode = mode_name(w->mode), .cookie = cookie,
		.parent = w->parent ? w->parent->id : 0,
		.flags = w->flags & CAPKM_CUDA_GRAPH_F_STRICT ?
			 CAPKM_WINDOW_PREPARE_F_STRICT : 0);
	int rc = capkm_window_prepare(cuda->c, &where, &opts, &w->id, err);

	if (rc) {
		free(w);
		return rc;
	}
	w->stream = capkm_stream_current();
	w->origin = s;
	pthread_rwlock_init(&w->issue, NULL);
	if (!capkm_window_set(cuda, s, w)) {
		capkm_window_abort(cuda->c, &where, w->id, NULL, NULL);
		pthread_rwlock_destroy(&w->issue);
		free(w);
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream's window is being taken away", call);
	}
	if (cuda->pool)
		rc = capkm_pool_capture_begin(cuda->pool, s->slot, err);
	if (rc)
		capkm_stream_drop_window(cuda, s);
	else if (window)
		*window = w->id;
	return rc;
}

static int prepare(struct capkm_cuda *cuda, struct stream *s,
		   const struct capkm_cuda_graph_opts *o, const char *call,
		   uint64_t *window, struct capkm_error *err)
{
	struct window *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return capkm_no_memory(call, err);
	w->flags = o->flags;
	rc = choose_mode(o, call, &w->mode, err);
	if (rc) {
		free(w);
		return rc;
	}
	capkm_stream_clear(cuda, s);
	return capkm_window_prepare_on(cuda, s, w, o->cookie, call, window, err);
}

void capkm_stream_release(struct capkm_cuda *cuda, struct stream *s)
{
	capkm_stream_unclaim(cuda, s);
	capkm_stream_put(cuda, s);
}

/* The stream is the calling thread's alone, until the release; @on: as it is captured. */
static int claim(struct capkm_cuda *cuda, cu_stream handle, const char *call,
		 struct stream **out, struct capture *on,
		 struct capkm_error *err)
{
	struct stream *s;
	int rc = capkm_stream_find(cuda, handle, call, &s, err);

	if (rc)
		return rc;
	if (s->legacy)
		rc = capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"%s: the legacy default stream cannot capture; use one of cuStreamCreate()",
			call);
	if (!rc)
		rc = capkm_stream_claim(cuda, s, call, err);
	if (rc) {
		capkm_stream_put(cuda, s);
		return rc;
	}
	rc = capkm_stream_look(cuda, s, call, on, err);
	if (rc)
		capkm_stream_release(cuda, s);
	*out = s;
	return rc;
}

int capkm_stream_claim_idle(struct capkm_cuda *cuda, cu_stream handle,
			    const char *call, struct stream **s,
			    struct capkm_error *err)
{
	struct capture on;
	int rc = claim(cuda, handle, call, s, &on, err);

	if (rc)
		return rc;
	if (on.how == CAPTURES)
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream captures already, for somebody else; cuda_graph_attach() makes a window of that",
			call);
	else if (on.how == RECORDS && on.window->origin != *s)
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream is part of the capture of window %" PRIu64 ", which another stream has begun",
			call, on.window->id);
	capkm_capture_put(cuda, &on);
	if (rc)
		capkm_stream_release(cuda, *s);
	return rc;
}

int capkm_cuda_graph_prepare(struct capkm_cuda *cuda, cu_stream handle,
			     const struct capkm_cuda_graph_opts *opts,
			     uint64_t *window, struct capkm_error *err)
{
	const char *call = "graph_prepare";
	struct capkm_cuda_graph_opts o;
	struct stream *s;
	int rc = capkm_opts(&o, sizeof(o), opts, call, err);

	if (!rc)
		rc = capkm_stream_claim_idle(cuda, handle, call, &s, err);
	if (rc)
		return rc;
	rc = prepare(cuda, s, &o, call, window, err);
	capkm_stream_release(cuda, s);
	return rc;
}

static void set_begun(struct capkm_cuda *cuda, struct window *w, uint64_t id)
{
	pthread_mutex_lock(&cuda->lock);
	w->capture = id;
	w->begun = true;
	pthread_mutex_unlock(&cuda->lock);
}

/* The graph lacks a body that it was to have. */
static void doom_parent(struct capkm_cuda *cuda, const struct window *w,
			int result)
{
	const char *function = "cuStreamBeginCaptureToGraph";
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];

	capkm_cu_cause(cuda, result, function, &cause, text, sizeof(text));
	capkm_window_fail(cuda->c, w->parent->id, 0, "cuda_body_begin", &cause,
			  NULL);
}

static int begin_body(struct capkm_cuda *cuda, const struct window *w,
		      struct capkm_error *err)
{
	int result = cuda->cu.cuStreamBeginCaptureToGraph(w->origin->handle,
		w->body.graph, NULL, NULL, 0, w->mode);

	if (result)
		doom_parent(cuda, w, result);
	return capkm_cu_error_on(cuda, w->origin, result, "cuda_body_begin",
				 "cuStreamBeginCaptureToGraph", err);
}

static int begin_driver(struct capkm_cuda *cuda, struct window *w,
			struct capkm_error *err)
{
	uint64_t id = 0;
	int status, rc = w->parent ? begin_body(cuda, w, err) :
		cu_call_on(cuda, w->origin, err, "begin_capture",
			   cuStreamBeginCapture, w->origin->handle, w->mode);

	if (rc)
		return rc;
	rc = capkm_stream_ask(cuda, w->origin, "begin_capture", &status, &id,
			      err);
	if (rc) {
		capkm_window_discard_capture(cuda, w);
		return rc;
	}
	set_begun(cuda, w, id);
	return 0;
}

static int begin_window(struct capkm_cuda *cuda, struct window *w,
			struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(w->origin);
	int rc = 0;

	if (cuda->pool)
		rc = capkm_pool_priming_end(cuda->pool, w->origin->slot, err);
	if (!rc)
		rc = begin_driver(cuda, w, err);
	if (!rc)
		rc = capkm_window_begin(cuda->c, &where,
					CAPKM_WINDOW_F_DRIVER_DONE, NULL, err);
	if (rc)
		capkm_window_drop(cuda, w);
	return rc;
}

/* The authority first: it says so when there is nothing to begin. None looks meanwhile. */
static int begin_on(struct capkm_cuda *cuda, struct stream *s,
		    struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);
	struct window *w;
	int rc = capkm_window_begin(cuda->c, &where, 0, NULL, err);

	if (rc)
		return rc;
	w = capkm_window_own(cuda, s);
	if (!w) {
		capkm_window_abort(cuda->c, &where, 0, NULL, NULL);
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"begin_capture: the window was not prepared by the bridge; it was aborted");
	}
	rc = begin_window(cuda, w, err);
	capkm_window_put(cuda, w);
	return rc;
}

int capkm_window_begin_on(struct capkm_cuda *cuda, struct stream *s,
			  struct capkm_error *err)
{
	int rc = capkm_stream_begins(cuda, s, "begin_capture", err);

	if (rc)
		return rc;
	rc = begin_on(cuda, s, err);
	capkm_stream_begun(cuda, s);
	return rc;
}

int capkm_cuda_graph_begin(struct capkm_cuda *cuda, cu_stream handle,
			   struct capkm_error *err)
{
	struct stream *s;
	int rc = capkm_stream_claim_idle(cuda, handle, "begin_capture", &s, err);

	if (rc)
		return rc;
	rc = capkm_window_begin_on(cuda, s, err);
	capkm_stream_release(cuda, s);
	return rc;
}

/* Is it a capture that somebody else has begun? */
static int check_attach(const struct stream *s, const struct capture *on,
			const char *call, struct capkm_error *err)
{
	if (on->how == RECORDS && (!on->window->attached || on->window->origin != s))
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream's capture is that of window %" PRIu64 " already",
			call, on->window->id);
	if (on->status == CU_CAPTURE_ACTIVE)
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the stream %s", call,
		on->status ? "has a capture that was invalidated" :
			     "does not capture");
}

static int begin_attached(struct capkm_cuda *cuda, struct window *w,
			  uint64_t id, struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(w->origin);
	int rc = capkm_window_begin(cuda->c, &where, 0, NULL, err);

	if (!rc)
		rc = capkm_window_begin(cuda->c, &where,
					CAPKM_WINDOW_F_DRIVER_DONE, NULL, err);
	if (!rc && cuda->pool)
		rc = capkm_pool_priming_end(cuda->pool, w->origin->slot, err);
	if (rc)
		capkm_window_drop(cuda, w);
	else
		set_begun(cuda, w, id);
	return rc;
}

static int attach(struct capkm_cuda *cuda, struct stream *s, uint64_t id,
		  const struct capkm_cuda_graph_opts *o, const char *call,
		  uint64_t *window, struct capkm_error *err)
{
	struct window *w;
	int rc = prepare(cuda, s, o, call, window, err);

	if (rc)
		return rc;
	w = capkm_window_own(cuda, s);
	w->attached = true;
	rc = begin_attached(cuda, w, id, err);
	capkm_window_put(cuda, w);
	return rc;
}

int capkm_cuda_graph_attach(struct capkm_cuda *cuda, cu_stream handle,
			    const struct capkm_cuda_graph_opts *opts,
			    uint64_t *window, struct capkm_error *err)
{
	const char *call = "cuda_graph_attach";
	struct capkm_cuda_graph_opts o;
	struct capture on;
	struct stream *s;
	int rc = capkm_opts(&o, sizeof(o), opts, call, err);

	if (!rc)
		rc = claim(cuda, handle, call, &s, &on, err);
	if (rc)
		return rc;
	rc = check_attach(s, &on, call, err);
	capkm_capture_put(cuda, &on);
	if (!rc)
		rc = attach(cuda, s, on.id, &o, call, window, err);
	capkm_stream_release(cuda, s);
	return rc;
}
