// SPDX-License-Identifier: MIT
/* Streams: which one a handle means, and whether and how it is captured. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct capkm_where capkm_stream_place(const struct stream *stream)
{
	struct capkm_where where = {
		.slot = stream->slot, .flags = CAPKM_WHERE_SLOT
	};

	memcpy(where.device, stream->context->uuid, sizeof(where.device));
	return where;
}

void capkm_stream_put(struct capkm_cuda *cuda, struct stream *stream)
{
	bool last;

	pthread_mutex_lock(&cuda->lock);
	last = !--stream->refs;
	pthread_mutex_unlock(&cuda->lock);
	if (last)
		free(stream);
}

/* The default streams have names of their own. */
static cu_stream normalise(const struct capkm_cuda *cuda, cu_stream handle)
{
	if (handle)
		return handle;
	return cuda->per_thread ? CU_STREAM_IS_PER_THREAD : CU_STREAM_IS_LEGACY;
}

bool capkm_stream_is_mine(const struct stream *s)
{
	return !s->per_thread || pthread_equal(s->thread, pthread_self());
}

static bool is_same(const struct stream *s, cu_stream handle,
		    const struct context *context)
{
	return s->handle == handle && capkm_stream_is_mine(s) &&
	       (!context || s->context == context);
}

/* A default stream is one of each context. Under the lock. */
static struct stream *find(struct capkm_cuda *cuda, cu_stream handle,
			   const struct context *context)
{
	struct stream *s;

	SLIST_FOREACH(s, &cuda->streams, next)
		if (!s->unbound && is_same(s, handle, context))
			return s;
	return NULL;
}

static bool is_default(cu_stream handle)
{
	return handle == CU_STREAM_IS_LEGACY ||
	       handle == CU_STREAM_IS_PER_THREAD;
}

static int find_bound(struct capkm_cuda *cuda, cu_stream handle,
		      const char *call, struct stream **out,
		      struct capkm_error *err)
{
	struct context *context = NULL;
	int rc = is_default(handle) ?
		capkm_cuda_context(cuda, call, &context, err) : 0;

	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	*out = find(cuda, handle, context);
	if (*out)
		(*out)->refs++;
	pthread_mutex_unlock(&cuda->lock);
	if (*out)
		return 0;
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
		"%s: stream %p is not bound; cuda_stream_bind() makes it known%s",
		call, (void *)handle,
		handle == CU_STREAM_IS_PER_THREAD ?
		", for one thread each" : "");
}

int capkm_stream_ask(struct capkm_cuda *cuda, const struct stream *s,
		     const char *call, int *status, uint64_t *id,
		     struct capkm_error *err)
{
	int result;

	*status = CU_CAPTURE_NONE;
	*id = 0;
	result = cuda->cu.cuStreamGetCaptureInfo(s->handle, status, id, NULL,
						 NULL, NULL);
	if (result != CU_CAPTURE_IMPLICIT || !s->legacy)
		return capkm_cu_error_on(cuda, s, result, call,
					 "cuStreamGetCaptureInfo", err);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: another stream of the context captures, and the legacy default stream would break that",
		call);
}

/* Not of a stream that captures: that would break the capture. */
static int check_id(struct capkm_cuda *cuda, const struct stream *s,
		    const char *call, struct capkm_error *err)
{
	unsigned long long id = s->id;
	int rc = s->legacy ? 0 :
		cu_call_on(cuda, s, err, call, cuStreamGetId, s->handle, &id);

	if (rc || id == s->id)
		return rc;
	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, 0,
		"%s: stream %p was destroyed, and its handle is another stream's now; unbind it, and bind that one",
		call, (void *)s->handle);
}

/* Under the lock. */
static struct window *window_of(struct capkm_cuda *cuda, uint64_t capture)
{
	struct stream *s;

	SLIST_FOREACH(s, &cuda->streams, next)
		if (s->window && s->window->begun &&
		    s->window->capture == capture)
			return s->window;
	return NULL;
}

int capkm_stream_join(struct capkm_cuda *cuda, struct stream *stream,
		      struct window *window, struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(stream);
	int rc = capkm_window_join(cuda->c, window->id, &where, 0, NULL, err);

	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	if (!stream->window) {
		stream->window = window;
		window->refs++;
	}
	pthread_mutex_unlock(&cuda->lock);
	return 0;
}

/* By another thread, since the caller has found it. */
static int not_bound_any_more(const char *call, struct capkm_error *err)
{
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
		"%s: the stream is not bound any more", call);
}

int capkm_stream_claim(struct capkm_cuda *cuda, struct stream *s,
		       const char *call, struct capkm_error *err)
{
	bool busy, unbound;

	pthread_mutex_lock(&cuda->lock);
	busy = s->changing;
	unbound = s->unbound;
	s->changing = busy || !unbound;
	pthread_mutex_unlock(&cuda->lock);
	if (unbound)
		return not_bound_any_more(call, err);
	return busy ? capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: another thread prepares, begins or ends a window on the stream",
		call) : 0;
}

void capkm_stream_await(struct capkm_cuda *cuda, struct stream *s)
{
	pthread_mutex_lock(&cuda->lock);
	while (s->changing)
		pthread_cond_wait(&cuda->settled, &cuda->lock);
	s->changing = true;
	pthread_mutex_unlock(&cuda->lock);
}

void capkm_stream_unclaim(struct capkm_cuda *cuda, struct stream *s)
{
	pthread_mutex_lock(&cuda->lock);
	s->changing = false;
	pthread_cond_broadcast(&cuda->settled);
	pthread_mutex_unlock(&cuda->lock);
}

void capkm_capture_put(struct capkm_cuda *cuda, struct capture *capture)
{
	if (capture->window) {
		pthread_rwlock_unlock(&capture->window->issue);
		capkm_window_put(cuda, capture->window);
		capture->window = NULL;
	}
	if (!capture->looked)
		return;
	pthread_mutex_lock(&cuda->lock);
	capture->looked->waits -= capture->waits;
	if (!--capture->looked->looks)
		pthread_cond_broadcast(&cuda->settled);
	pthread_mutex_unlock(&cuda->lock);
	capture->looked = NULL;
	capture->waits = false;
}

void capkm_capture_waits(struct capkm_cuda *cuda, struct capture *capture)
{
	pthread_mutex_lock(&cuda->lock);
	capture->waits = true;
	capture->looked->waits++;
	pthread_mutex_unlock(&cuda->lock);
}

int capkm_capture_hold(struct capkm_cuda *cuda, struct capture *capture,
		       const char *call, struct capkm_error *err)
{
	uint64_t id = capture->window->id;

	pthread_rwlock_rdlock(&capture->window->issue);
	if (!capture->window->ending)
		return 0;
	capkm_capture_put(cuda, capture);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: window %" PRIu64 " is being ended", call, id);
}

/*
 * The driver has made the stream a part of a window's capture by itself (an event that
 * the bridge did not see): so it joins. Or the capture is nobody's that the bridge knows.
 */
static int classify(struct capkm_cuda *cuda, struct stream *s,
		    struct capture *capture, const char *call,
		    struct capkm_error *err)
{
	struct window *w;
	int rc;

	pthread_mutex_lock(&cuda->lock);
	w = window_of(cuda, capture->id);
	if (w)
		w->refs++;
	pthread_mutex_unlock(&cuda->lock);
	capture->how = w ? RECORDS : CAPTURES;
	if (!w)
		return 0;
	capture->window = w;
	/* Held before it is joined: who ends it takes it off the streams that have. */
	rc = capkm_capture_hold(cuda, capture, call, err);
	if (rc || w->origin == s)	/* its own, begun meanwhile */
		return rc;
	rc = capkm_stream_join(cuda, s, w, err);
	if (rc)
		capkm_capture_put(cuda, capture);
	return rc;
}

/*
 * The driver has no capture any more where a window records. If the bridge was to end
 * it, that is the end of the window; if somebody else was, he will seal it.
 */
static int vanished(struct capkm_cuda *cuda, const struct stream *s,
		    const struct window *w, const char *call,
		    struct capkm_error *err)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_DRIVER,
		.text = "the stream does not capture any more; somebody else ended it");

	if (!w->attached)
		capkm_window_fail(cuda->c, w->id, 0, call, &cause, NULL);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: window %" PRIu64 " records on stream %p, which does not capture any more: end, seal or abort the window first",
		call, w->id, (void *)s->handle);
}

/*
 * A driver that is asked about a capture while another thread ends it crashes (seen on an
 * H200). So the stream's begun window is held while it is asked, and issued to; and if
 * there is none, none begins. Until capkm_capture_put().
 */
static int look_begin(struct capkm_cuda *cuda, struct stream *s,
		      const char *call, struct capture *on,
		      struct capkm_error *err)
{
	*on = (struct capture){ .how = NOT_CAPTURING };
	pthread_mutex_lock(&cuda->lock);
	while (s->beginning)
		pthread_cond_wait(&cuda->settled, &cuda->lock);
	if (s->window && s->window->begun) {
		on->window = s->window;
		on->window->refs++;
	} else if (!s->unbound) {
		on->looked = s;
		s->looks++;
	}
	pthread_mutex_unlock(&cuda->lock);
	if (on->window)
		return capkm_capture_hold(cuda, on, call, err);
	return on->looked ? 0 : not_bound_any_more(call, err);
}

int capkm_stream_begins(struct capkm_cuda *cuda, struct stream *s,
			const char *call, struct capkm_error *err)
{
	bool waits;

	pthread_mutex_lock(&cuda->lock);
	while (s->beginning)
		pthread_cond_wait(&cuda->settled, &cuda->lock);
	s->beginning = true;
	while (s->looks && !s->waits)
		pthread_cond_wait(&cuda->settled, &cuda->lock);
	waits = s->waits;
	if (waits) {
		s->beginning = false;
		pthread_cond_broadcast(&cuda->settled);
	}
	pthread_mutex_unlock(&cuda->lock);
	return !waits ? 0 : capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: another thread reads from the stream, and waits for its work; try again when it is done",
		call);
}

void capkm_stream_begun(struct capkm_cuda *cuda, struct stream *s)
{
	pthread_mutex_lock(&cuda->lock);
	s->beginning = false;
	pthread_cond_broadcast(&cuda->settled);
	pthread_mutex_unlock(&cuda->lock);
}

int capkm_stream_status(struct capkm_cuda *cuda, struct stream *s,
			const char *call, int *status, struct capkm_error *err)
{
	struct capture on;
	uint64_t id;
	int rc = look_begin(cuda, s, call, &on, err);

	if (rc)
		return rc;
	rc = capkm_stream_ask(cuda, s, call, status, &id, err);
	capkm_capture_put(cuda, &on);
	return rc;
}

/* The driver does not say which capture it was that has become invalid. */
static bool is_of(const struct window *w, int status, uint64_t id)
{
	return w && (status == CU_CAPTURE_INVALIDATED || w->capture == id);
}

static int judge(struct capkm_cuda *cuda, struct stream *s, const char *call,
		 struct capture *capture, struct capkm_error *err)
{
	struct window *w = capture->window;

	if (capture->status == CU_CAPTURE_NONE)
		return w ? vanished(cuda, s, w, call, err) : 0;
	if (is_of(w, capture->status, capture->id)) {
		capture->how = RECORDS;
		return 0;
	}
	capkm_capture_put(cuda, capture);	/* of a window that it is not in */
	return classify(cuda, s, capture, call, err);
}

int capkm_stream_look(struct capkm_cuda *cuda, struct stream *s,
		      const char *call, struct capture *capture,
		      struct capkm_error *err)
{
	int rc = look_begin(cuda, s, call, capture, err);

	if (rc)
		return rc;
	rc = capkm_stream_ask(cuda, s, call, &capture->status, &capture->id,
			      err);
	if (!rc && capture->status == CU_CAPTURE_NONE)
		rc = check_id(cuda, s, call, err);
	if (!rc)
		rc = judge(cuda, s, call, capture, err);
	if (rc)
		capkm_capture_put(cuda, capture);
	return rc;
}

int capkm_stream_find(struct capkm_cuda *cuda, cu_stream handle,
		      const char *call, struct stream **out,
		      struct capkm_error *err)
{
	int rc = capkm_cuda_usable(cuda, call, err);

	return rc ? rc : find_bound(cuda, normalise(cuda, handle), call, out,
				    err);
}

int capkm_stream_get(struct capkm_cuda *cuda, cu_stream handle,
		     const char *call, struct stream **out,
		     struct capture *capture, struct capkm_error *err)
{
	int rc = capkm_stream_find(cuda, handle, call, out, err);

	if (rc)
		return rc;
	rc = capkm_stream_look(cuda, *out, call, capture, err);
	if (rc)
		capkm_stream_put(cuda, *out);
	return rc;
}

int capkm_stream_refuse(struct capkm_cuda *cuda, const struct stream *stream,
			uint32_t what, const char *call,
			struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(stream);
	struct capkm_report why;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &why, .reports_len = 1);
	int rc = capkm_refused(cuda->c, &where, what, NULL, 0, &answer, err);

	if (rc || answer.out_result == CAPKM_CLEAN)
		return rc;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0, "%s: %s", call,
			       (const char *)why.text);
}

/* Fills what there is room for; how many there are. */
static uint32_t list_streams(struct capkm_cuda *cuda,
			     const struct context *context, struct stream **to,
			     uint32_t room)
{
	struct stream *s;
	uint32_t n = 0, i;

	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(s, &cuda->streams, next) {
		if (s->context != context)
			continue;
		if (n < room)
			to[n] = s;
		n++;
	}
	for (i = 0; n <= room && i < n; i++)
		to[i]->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return n;
}

int capkm_streams_of(struct capkm_cuda *cuda, const struct context *context,
		     const char *call, struct stream ***out, uint32_t *len,
		     struct capkm_error *err)
{
	uint32_t room = 16;

	for (;;) {
		*out = calloc(room, sizeof(**out));
		if (!*out)
			return capkm_no_memory(call, err);
		*len = list_streams(cuda, context, *out, room);
		if (*len <= room)
			return 0;
		free(*out);
		room = *len;
	}
}

void capkm_streams_put(struct capkm_cuda *cuda, struct stream **streams,
		       uint32_t len)
{
	while (len)
		capkm_stream_put(cuda, streams[--len]);
	free(streams);
}

int capkm_stream_state(struct capkm_cuda *cuda, const struct stream *s,
		       struct capkm_stream_query *q, struct capkm_error *err)
{
	*q = (struct capkm_stream_query){
		.size = sizeof(*q), .flags = CAPKM_PLACE_F_SLOT,
		.place.slot = s->slot,
	};
	memcpy(q->place.device, s->context->uuid, sizeof(q->place.device));
	return capkm_stream_query(cuda->c, q, err);
}

static bool is_confirmed(struct capkm_cuda *cuda, const struct stream *s)
{
	struct capkm_stream_query q;

	return capkm_stream_state(cuda, s, &q, NULL) ||
	       q.out_sequence <= q.out_confirmed;
}

/* The next one that is unbound and records nowhere; a reference. */
static struct stream *idle(struct capkm_cuda *cuda, uint32_t skip)
{
	struct stream *s;

	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(s, &cuda->streams, next)
		if (s->unbound && !s->window && !skip--)
			break;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return s;
}

void capkm_streams_sweep(struct capkm_cuda *cuda)
{
	struct stream *s;
	uint32_t skip = 0;
	bool go;

	while ((s = idle(cuda, skip))) {
		go = is_confirmed(cuda, s);
		pthread_mutex_lock(&cuda->lock);
		go = go && s->listed && !s->window;
		if (go) {
			SLIST_REMOVE(&cuda->streams, s, stream, next);
			s->listed = false;
			s->refs--;
		} else {
			skip++;
		}
		pthread_mutex_unlock(&cuda->lock);
		capkm_stream_put(cuda, s);
	}
}

/* bind */

static bool is_taken(struct capkm_cuda *cuda, const struct context *context,
		     uint32_t slot)
{
	struct stream *s;

	SLIST_FOREACH(s, &cuda->streams, next)
		if (s->slot == slot && !memcmp(s->context->uuid, context->uuid,
					       sizeof(context->uuid)))
			return true;
	return false;
}

/* Under the lock. */
static int choose_slot(struct capkm_cuda *cuda, struct stream *s,
		       const struct capkm_cuda_stream_opts *o,
		       struct capkm_error *err)
{
	const uint32_t max = cuda->c->max_streams;

	if (o->flags & CAPKM_CUDA_STREAM_F_SLOT) {
		s->slot = o->slot;
		if (s->slot >= max)
			return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				"cuda_stream_bind: slot %" PRIu32 "; the session has %" PRIu32,
				s->slot, max);
		if (is_taken(cuda, s->context, s->slot))
			return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
				"cuda_stream_bind: another stream has slot %" PRIu32,
				s->slot);
		return 0;
	}
	while (s->slot < max && is_taken(cuda, s->context, s->slot))
		s->slot++;
	if (s->slot < max)
		return 0;
	return capkm_error_set(err, -ENOSPC, CAPKM_NO_INDEX, 0,
		"cuda_stream_bind: the session has %" PRIu32 " slots for a device, and all are taken (also by streams that were unbound and never synchronised); attach with a larger max_streams",
		max);
}

/* The default streams too are a green context's while that is current. */
static bool is_green(struct capkm_cuda *cuda, cu_stream handle)
{
	void *green = NULL;

	return cuda->cu.cuStreamGetGreenCtx &&
	       !cu_call(cuda, NULL, "cuda_stream_bind", cuStreamGetGreenCtx,
			handle, &green) && green;
}

static int refuse_green(struct capkm_error *err)
{
	return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
		"cuda_stream_bind: a stream of a green context cannot be bound");
}

/* What a stream is, asked while it does not capture. */
static int ask_stream(struct capkm_cuda *cuda, struct stream *s,
		      struct capkm_error *err)
{
	const char *call = "cuda_stream_bind";
	cu_context handle;
	int rc;

	if (is_green(cuda, s->handle))
		return refuse_green(err);
	if (is_default(s->handle)) {
		rc = capkm_cuda_context(cuda, call, &s->context, err);
	} else {
		rc = cu_call_on(cuda, s, err, call, cuStreamGetCtx, s->handle,
				&handle);
		if (!rc)
			rc = cu_call_on(cuda, s, err, call, cuCtxPushCurrent,
					handle);
		if (!rc) {
			rc = capkm_cuda_context(cuda, call, &s->context, err);
			capkm_cuda_pop(cuda);
		}
	}
	if (!rc && !s->legacy)
		rc = cu_call_on(cuda, s, err, call, cuStreamGetId, s->handle,
				&s->id);
	return rc;
}

static int check_capture(struct capkm_cuda *cuda, const struct stream *s,
			 struct capkm_error *err)
{
	uint64_t id;
	int status;
	int rc = capkm_stream_ask(cuda, s, "cuda_stream_bind", &status, &id, err);

	if (rc || status == CU_CAPTURE_NONE)
		return rc;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"cuda_stream_bind: the stream captures; bind it before, since asking for its id now would break the capture");
}

/* Known and the same: nothing to do. Known by its handle only: it has to go first. */
static int add(struct capkm_cuda *cuda, struct stream *s,
	       const struct capkm_cuda_stream_opts *o, struct stream **out,
	       struct capkm_error *err)
{
	struct stream *known;
	int rc = 0;

	pthread_mutex_lock(&cuda->lock);
	known = find(cuda, s->handle, is_default(s->handle) ? s->context : NULL);
	if (known && known->id != s->id) {
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"cuda_stream_bind: a stream that was destroyed is bound by that handle; unbind it first");
	} else if (!known) {
		rc = choose_slot(cuda, s, o, err);
		s->listed = !rc;
		if (!rc)
			SLIST_INSERT_HEAD(&cuda->streams, s, next);
	}
	*out = known ? known : s;
	pthread_mutex_unlock(&cuda->lock);
	return rc;
}

/* @known: NULL if it is not. */
static int look_if_bound(struct capkm_cuda *cuda, cu_stream handle,
			 const char *call, struct stream **known,
			 struct capture *on, struct capkm_error *err)
{
	int rc;

	while (!find_bound(cuda, handle, call, known, NULL)) {
		rc = look_begin(cuda, *known, call, on, err);
		if (rc != -ENOENT)
			return rc;
		/* It has been unbound since it was found. */
		capkm_stream_put(cuda, *known);
	}
	*known = NULL;
	return 0;
}

/*
 * Bound already, it may capture, or begin to. Not yet: nobody else binds it meanwhile, and
 * begins a capture, for one thread binds at a time.
 */
static int bind(struct capkm_cuda *cuda, struct stream *s,
		const struct capkm_cuda_stream_opts *o, struct stream **bound,
		struct capkm_error *err)
{
	const char *call = "cuda_stream_bind";
	struct capture on = { .how = NOT_CAPTURING };
	struct stream *known;
	int rc = look_if_bound(cuda, s->handle, call, &known, &on, err);

	if (!rc)
		rc = check_capture(cuda, s, err);
	/* A green context has no per-thread stream, the driver says: an invalid handle. */
	if (rc == -EINVAL && s->per_thread && is_green(cuda, CU_STREAM_IS_LEGACY))
		rc = refuse_green(err);
	if (!rc)
		rc = ask_stream(cuda, s, err);
	if (!rc)
		rc = add(cuda, s, o, bound, err);
	capkm_capture_put(cuda, &on);
	if (known)
		capkm_stream_put(cuda, known);
	return rc;
}

int capkm_cuda_stream_bind(struct capkm_cuda *cuda, cu_stream handle,
			   const struct capkm_cuda_stream_opts *opts,
			   struct capkm_where *where, struct capkm_error *err)
{
	const char *call = "cuda_stream_bind";
	struct capkm_cuda_stream_opts o;
	struct stream *s, *bound = NULL;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_opts(&o, sizeof(o), opts, call, err);
	if (rc)
		return rc;
	if (o.flags & ~CAPKM_CUDA_STREAM_F_SLOT)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_stream_bind: flags 0x%x; only CAPKM_CUDA_STREAM_F_SLOT is known",
			o.flags);
	s = calloc(1, sizeof(*s));
	if (!s)
		return capkm_no_memory(call, err);
	s->refs = 1;
	s->handle = normalise(cuda, handle);
	s->legacy = s->handle == CU_STREAM_IS_LEGACY;
	s->per_thread = s->handle == CU_STREAM_IS_PER_THREAD;
	s->thread = pthread_self();
	capkm_streams_sweep(cuda);
	pthread_mutex_lock(&cuda->binding);
	rc = bind(cuda, s, &o, &bound, err);
	pthread_mutex_unlock(&cuda->binding);
	if (!rc && where)
		*where = capkm_stream_place(bound);
	if (rc || bound != s)
		free(s);
	return rc;
}

int capkm_cuda_stream_unbind(struct capkm_cuda *cuda, cu_stream handle,
			     struct capkm_error *err)
{
	const char *call = "cuda_stream_unbind";
	struct stream *s;
	int rc = capkm_stream_find(cuda, handle, call, &s, err);

	if (rc)
		return rc;
	rc = capkm_stream_claim(cuda, s, call, err);
	if (rc) {
		capkm_stream_put(cuda, s);
		return rc;
	}
	/* What follows by that handle, and begins there, does not know of old looks. */
	rc = capkm_stream_begins(cuda, s, call, err);
	if (!rc) {
		capkm_stream_drop_window(cuda, s);
		pthread_mutex_lock(&cuda->lock);
		s->unbound = true;
		pthread_mutex_unlock(&cuda->lock);
		capkm_stream_begun(cuda, s);
	}
	capkm_stream_unclaim(cuda, s);
	capkm_stream_put(cuda, s);
	capkm_streams_sweep(cuda);
	return rc;
}

/* A window that the bridge did not begin makes the slot record, too. */
int capkm_cuda_stream_query(struct capkm_cuda *cuda, cu_stream handle,
			    struct capkm_cuda_stream_query *query,
			    struct capkm_error *err)
{
	const char *call = "cuda_stream_query";
	struct capkm_cuda_stream_query q;
	struct capkm_stream_query slot;
	struct capture on;
	struct stream *s;
	int rc = capkm_opts(&q, sizeof(q), query, call, err);

	if (!rc)
		rc = capkm_stream_get(cuda, handle, call, &s, &on, err);
	if (rc)
		return rc;
	q.where = capkm_stream_place(s);
	q.context = s->context->handle;
	q.window = on.window ? on.window->id : 0;
	q.captures = on.how != NOT_CAPTURING;
	q.__reserved = 0;
	rc = capkm_stream_state(cuda, s, &slot, err);
	if (!rc && (slot.out_state == CAPKM_WINDOW_OPENING ||
		    slot.out_state == CAPKM_WINDOW_CAPTURE ||
		    slot.out_state == CAPKM_WINDOW_MEMBER))
		q.window = slot.out_window;
	capkm_capture_put(cuda, &on);
	capkm_stream_put(cuda, s);
	if (!rc)
		capkm_opts_put(query, &q, sizeof(q));
	return rc;
}
