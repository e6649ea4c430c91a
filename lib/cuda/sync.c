// SPDX-License-Identifier: MIT
/* Events and synchronisation: what was issued is known to be done, or to be lost. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* After a wait of the driver for what the stream had done up to @sequence. */
static int waited(struct capkm_cuda *cuda, const struct stream *s,
		  uint64_t sequence, int result, const char *call,
		  const char *function, struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);

	if (result)
		return capkm_cu_error_on(cuda, s, result, call, function, err);
	return capkm_confirm(cuda->c, &where, sequence, NULL, err);
}

/* Behind all that it has been given, which is up to @sequence. */
static int mark(struct capkm_cuda *cuda, const struct stream *s,
		cu_event event, const char *call, uint64_t *sequence,
		struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);
	const bool was_lost = atomic_load(&s->context->lost);
	int rc = capkm_stream_sequence(cuda->c, &where, sequence, err);

	if (!rc)
		rc = cu_call_on(cuda, s, err, call, cuEventRecord, event,
				s->handle);
	if (!rc)
		capkm_context_works(s->context, was_lost);
	return rc;
}

/*
 * By an event: a capture that begins during the wait is not broken by that, and does not
 * have to wait for it.
 */
int capkm_stream_finish(struct capkm_cuda *cuda, struct stream *s,
			struct capture *on, const char *call,
			struct capkm_error *err)
{
	uint64_t sequence;
	cu_event event;
	int mode, result, rc;

	rc = capkm_cuda_event_new(cuda, s->context, call, &event, err);
	if (rc) {
		capkm_capture_put(cuda, on);
		return rc;
	}
	rc = mark(cuda, s, event, call, &sequence, err);
	capkm_capture_put(cuda, on);
	mode = capkm_cu_relax(cuda);
	if (!rc) {
		result = cuda->cu.cuEventSynchronize(event);
		rc = waited(cuda, s, sequence, result, call,
			    "cuEventSynchronize", err);
	}
	cu_call_on(cuda, s, NULL, call, cuEventDestroy, event);
	capkm_cu_restore(cuda, mode);
	return rc;
}

int capkm_cuda_stream_sync(struct capkm_cuda *cuda, cu_stream handle,
			   struct capkm_error *err)
{
	const char *call = "cuda_stream_sync";
	struct capture on;
	struct stream *s;
	int rc;

	rc = capkm_stream_get(cuda, handle, call, &s, &on, err);
	if (rc)
		return rc;
	if (on.how == CAPTURES)
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream captures; a synchronise would break that",
			call);
	else
		rc = capkm_stream_refuse(cuda, s, CAPKM_REFUSE_SYNC, call, err);
	/* The authority does not have that window any more, the driver's capture is open. */
	if (!rc && on.window)
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: window %" PRIu64 " was taken away while the stream captures; end or abort it",
			call, on.window->id);
	if (rc)
		capkm_capture_put(cuda, &on);
	else
		rc = capkm_stream_finish(cuda, s, &on, call, err);
	capkm_stream_put(cuda, s);
	return rc;
}

/* A context's synchronise breaks every capture in it, whatever its mode. */
static int check_streams(struct capkm_cuda *cuda, struct stream *const *streams,
			 uint32_t len, const char *call,
			 struct capkm_error *err)
{
	uint32_t i;
	int status, rc = 0;

	for (i = 0; i < len && !rc; i++) {
		if (streams[i]->unbound)
			continue;
		rc = capkm_stream_refuse(cuda, streams[i], CAPKM_REFUSE_SYNC,
					 call, err);
		/* The driver knows this thread's default stream only. */
		if (rc || !capkm_stream_is_mine(streams[i]))
			continue;
		rc = capkm_stream_status(cuda, streams[i], call, &status, err);
		if (!rc && status != CU_CAPTURE_NONE)
			rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
				"%s: stream %p captures; a synchronise would break that",
				call, (void *)streams[i]->handle);
	}
	return rc;
}

/* What each had issued is done. Other contexts of the device were not waited for. */
static int sync_all(struct capkm_cuda *cuda, struct context *context,
		    struct stream *const *streams, uint64_t *sequences,
		    uint32_t len, const char *call, struct capkm_error *err)
{
	const bool was_lost = atomic_load(&context->lost);
	struct capkm_where where;
	uint32_t i;
	int mode, result, rc = 0;

	for (i = 0; i < len && !rc; i++) {
		where = capkm_stream_place(streams[i]);
		rc = capkm_stream_sequence(cuda->c, &where, &sequences[i], err);
	}
	if (rc)
		return rc;
	mode = capkm_cu_relax(cuda);
	result = cuda->cu.cuCtxSynchronize();
	capkm_cu_restore(cuda, mode);
	if (result)
		return capkm_cu_error_on(cuda, len ? streams[0] : NULL, result,
					 call, "cuCtxSynchronize", err);
	capkm_context_works(context, was_lost);
	for (i = 0; i < len && !rc; i++) {
		where = capkm_stream_place(streams[i]);
		rc = capkm_confirm(cuda->c, &where, sequences[i], NULL, err);
	}
	return rc;
}

int capkm_cuda_context_sync(struct capkm_cuda *cuda, struct capkm_error *err)
{
	const char *call = "cuda_context_sync";
	struct context *context;
	struct stream **streams;
	uint64_t *sequences;
	uint32_t len;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_cuda_context(cuda, call, &context, err);
	if (!rc)
		rc = capkm_streams_of(cuda, context, call, &streams, &len, err);
	if (rc)
		return rc;
	sequences = calloc(len + 1, sizeof(*sequences));
	rc = sequences ? check_streams(cuda, streams, len, call, err) :
		capkm_no_memory(call, err);
	if (!rc)
		rc = sync_all(cuda, context, streams, sequences, len, call,
			      err);
	free(sequences);
	capkm_streams_put(cuda, streams, len);
	capkm_streams_sweep(cuda);
	return rc;
}

/* events */

/* Under the lock. */
static struct event *find(struct capkm_cuda *cuda, cu_event handle)
{
	struct event *e;

	SLIST_FOREACH(e, &cuda->events, next)
		if (e->handle == handle)
			return e;
	return NULL;
}

/* What is known of it, with a reference to the stream. */
static int get(struct capkm_cuda *cuda, cu_event handle, const char *call,
	       struct event *out, struct capkm_error *err)
{
	struct event *e;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	e = find(cuda, handle);
	if (e) {
		*out = *e;
		if (e->stream)
			e->stream->refs++;
	}
	pthread_mutex_unlock(&cuda->lock);
	if (e)
		return 0;
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
		"%s: event %p was not recorded by cuda_event_record()", call,
		(void *)handle);
}

static void put(struct capkm_cuda *cuda, const struct event *e)
{
	if (e->stream)
		capkm_stream_put(cuda, e->stream);
}

/*
 * Who has opened an exported event confirms what its stream had done when it was
 * exported; so only that stream, on which this is then done too, records it.
 */
static int check_record(struct capkm_cuda *cuda, cu_event handle,
			const struct stream *s, const char *call,
			struct capkm_error *err)
{
	const struct event *e;
	int rc = 0;

	pthread_mutex_lock(&cuda->lock);
	e = find(cuda, handle);
	if (e && !e->stream)
		rc = -EINVAL;
	else if (e && e->exported && e->stream != s)
		rc = -EBUSY;
	pthread_mutex_unlock(&cuda->lock);
	if (rc == -EINVAL)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: event %p is of another process, which alone records it",
			call, (void *)handle);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: event %p was exported as of another stream; create one for this stream",
			call, (void *)handle);
	return 0;
}

/* The stream's reference moves into the event. @fresh is freed or used. */
static void remember(struct capkm_cuda *cuda, struct event *fresh)
{
	struct event *e;
	struct stream *old = NULL;

	pthread_mutex_lock(&cuda->lock);
	e = find(cuda, fresh->handle);
	if (e) {
		old = e->stream;
		e->stream = fresh->stream;
		e->sequence = fresh->sequence;
		e->window = fresh->window;
	} else {
		SLIST_INSERT_HEAD(&cuda->events, fresh, next);
	}
	pthread_mutex_unlock(&cuda->lock);
	if (e)
		free(fresh);
	if (old)
		capkm_stream_put(cuda, old);
}

int capkm_cuda_event_record(struct capkm_cuda *cuda, cu_event handle,
			    cu_stream stream, struct capkm_error *err)
{
	const char *call = "cuda_event_record";
	struct capkm_where where;
	struct capture capture;
	struct event *e;
	struct stream *s;
	int rc;

	rc = capkm_stream_get(cuda, stream, call, &s, &capture, err);
	if (rc)
		return rc;
	where = capkm_stream_place(s);
	e = calloc(1, sizeof(*e));
	if (e && capture.window)
		e->window = capture.window->id;
	if (capture.how == CAPTURES)
		rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream captures without a window; cuda_graph_attach() makes one",
			call);
	else if (!e)
		rc = capkm_no_memory(call, err);
	if (!rc)
		rc = check_record(cuda, handle, s, call, err);
	if (!rc)
		rc = capkm_stream_sequence(cuda->c, &where, &e->sequence, err);
	if (!rc)
		rc = cu_call_on(cuda, s, err, call, cuEventRecord, handle,
				s->handle);
	capkm_capture_put(cuda, &capture);
	if (rc) {
		free(e);
		capkm_stream_put(cuda, s);
		return rc;
	}
	e->handle = handle;
	e->stream = s;
	remember(cuda, e);
	return 0;
}

/* The window that the event was recorded in, if that still records. Under the lock. */
static struct window *window_of(struct capkm_cuda *cuda, uint64_t id)
{
	struct stream *s;

	SLIST_FOREACH(s, &cuda->streams, next)
		if (id && s->window && s->window->id == id)
			return s->window;
	return NULL;
}

/*
 * The driver makes the stream a part of the capture: so does the authority, before. An
 * event of a capture that has ended would break the one that waits. @capture: of the
 * event's window, held until the driver has been told.
 */
static int join(struct capkm_cuda *cuda, struct stream *s, uint64_t id,
		const char *call, struct capture *capture,
		struct capkm_error *err)
{
	struct window *w;
	bool own;
	int rc;

	pthread_mutex_lock(&cuda->lock);
	w = window_of(cuda, id);
	own = w && s->window == w;
	if (w)
		w->refs++;
	pthread_mutex_unlock(&cuda->lock);
	if (!w)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the event was recorded in window %" PRIu64 ", which has ended",
			call, id);
	capture->window = w;
	rc = capkm_capture_hold(cuda, capture, call, err);
	if (!rc && !own) {
		rc = capkm_stream_join(cuda, s, w, err);
		if (rc)
			capkm_capture_put(cuda, capture);
	}
	return rc;
}

/* An event of outside: the stream must not capture, nor begin to while it is looked at. */
static int wait_outside(struct capkm_cuda *cuda, struct stream *s,
			const struct event *e, const struct capture *on,
			const char *call, struct capkm_error *err)
{
	if (on->how == NOT_CAPTURING)
		return cu_call_on(cuda, s, err, call, cuStreamWaitEvent,
				  s->handle, e->handle, 0);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: the stream captures, and the event was recorded outside; to wait for it would break the capture",
		call);
}

/*
 * An event of a window, which is held instead of the look: with it the stream begins to
 * capture.
 */
static int wait_inside(struct capkm_cuda *cuda, struct stream *s,
		       const struct event *e, struct capture *on,
		       const char *call, struct capkm_error *err)
{
	int rc;

	capkm_capture_put(cuda, on);
	rc = capkm_stream_begins(cuda, s, call, err);
	if (rc)
		return rc;
	rc = join(cuda, s, e->window, call, on, err);
	if (!rc)
		rc = cu_call_on(cuda, s, err, call, cuStreamWaitEvent,
				s->handle, e->handle, 0);
	capkm_stream_begun(cuda, s);
	return rc;
}

int capkm_cuda_stream_wait(struct capkm_cuda *cuda, cu_stream stream,
			   cu_event handle, struct capkm_error *err)
{
	const char *call = "cuda_stream_wait";
	struct capture on;
	struct event e;
	struct stream *s;
	int rc = get(cuda, handle, call, &e, err);

	if (rc)
		return rc;
	put(cuda, &e);
	rc = capkm_stream_get(cuda, stream, call, &s, &on, err);
	if (rc)
		return rc;
	rc = e.window ? wait_inside(cuda, s, &e, &on, call, err) :
			wait_outside(cuda, s, &e, &on, call, err);
	capkm_capture_put(cuda, &on);
	capkm_stream_put(cuda, s);
	return rc;
}

void capkm_cuda_event_forget(struct capkm_cuda *cuda, cu_event handle)
{
	struct event *e;

	if (capkm_cuda_usable(cuda, "cuda_event_forget", NULL))
		return;
	pthread_mutex_lock(&cuda->lock);
	e = find(cuda, handle);
	if (e)
		SLIST_REMOVE(&cuda->events, e, event, next);
	pthread_mutex_unlock(&cuda->lock);
	if (e)
		put(cuda, e);
	free(e);
}

/*
 * After a wait of the driver for the event. A process that has ended has nothing left to
 * confirm: what it had not confirmed is tainted.
 */
static int happened(struct capkm_cuda *cuda, const struct event *e, int result,
		    const char *call, const char *function,
		    struct capkm_error *err)
{
	int rc;

	if (e->stream)
		return waited(cuda, e->stream, e->sequence, result, call,
			      function, err);
	if (result)
		return capkm_cu_error_at(cuda, e->context, result, call,
					 function, err);
	rc = capkm_confirm_other(cuda->c, e->client, &e->where, e->sequence,
				 NULL, err);
	return rc == -ENOENT ? 0 : rc;
}

/* An event of a capture is a node; asking for it would break the capture. */
static int check_event(const struct event *e, const char *call,
		       struct capkm_error *err)
{
	if (!e->window)
		return 0;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: the event was recorded in a window; it does not happen now",
		call);
}

int capkm_cuda_event_sync(struct capkm_cuda *cuda, cu_event handle,
			  struct capkm_error *err)
{
	const char *call = "cuda_event_sync";
	struct event e;
	int mode, result, rc = get(cuda, handle, call, &e, err);

	if (rc)
		return rc;
	rc = check_event(&e, call, err);
	if (!rc) {
		mode = capkm_cu_relax(cuda);
		result = cuda->cu.cuEventSynchronize(handle);
		capkm_cu_restore(cuda, mode);
		rc = happened(cuda, &e, result, call, "cuEventSynchronize", err);
	}
	put(cuda, &e);
	return rc;
}

int capkm_cuda_event_query(struct capkm_cuda *cuda, cu_event handle, int *done,
			   struct capkm_error *err)
{
	const char *call = "cuda_event_query";
	struct event e;
	int mode, result = 0, rc = get(cuda, handle, call, &e, err);

	if (rc)
		return rc;
	rc = check_event(&e, call, err);
	if (!rc) {
		mode = capkm_cu_relax(cuda);
		result = cuda->cu.cuEventQuery(handle);
		capkm_cu_restore(cuda, mode);
	}
	if (!rc && result != CU_NOT_READY)
		rc = happened(cuda, &e, result, call, "cuEventQuery", err);
	if (!rc)
		*done = result != CU_NOT_READY;
	put(cuda, &e);
	return rc;
}

/* other processes */

static int own_client(struct capkm_cuda *cuda, uint64_t *client,
		      struct capkm_error *err)
{
	struct capkm_stream_query q = { .size = sizeof(q) };
	int rc = capkm_stream_query(cuda->c, &q, err);

	*client = q.out_client;
	return rc;
}

static int get_handle(struct capkm_cuda *cuda, const struct event *e,
		      struct cu_ipc_handle *handle, const char *call,
		      struct capkm_error *err)
{
	int mode = capkm_cu_relax(cuda);
	int result = cuda->cu.cuIpcGetEventHandle(handle, e->handle);

	capkm_cu_restore(cuda, mode);
	if (result != CU_INVALID_HANDLE && result != CU_INVALID_VALUE)
		return capkm_cu_error_on(cuda, e->stream, result, call,
					 "cuIpcGetEventHandle", err);
	capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
		"%s: CUDA cannot share event %p (%s): it has to be created with CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING",
		call, (void *)e->handle, capkm_cu_name(cuda, result));
	capkm_error_code(err, result);
	return -EOPNOTSUPP;
}

/* From now on it is recorded on that stream only. Up to where it is now. */
static int set_exported(struct capkm_cuda *cuda, cu_event handle,
			const struct stream *s, uint64_t *sequence)
{
	struct event *e;
	bool same;

	pthread_mutex_lock(&cuda->lock);
	e = find(cuda, handle);
	same = e && e->stream == s && !e->window;
	if (same) {
		e->exported = true;
		*sequence = e->sequence;
	}
	pthread_mutex_unlock(&cuda->lock);
	return same ? 0 : -EBUSY;
}

static int export(struct capkm_cuda *cuda, const struct event *e,
		  struct capkm_cuda_event_ipc *ipc, const char *call,
		  struct capkm_error *err)
{
	struct capkm_where where;
	struct cu_ipc_handle handle;
	int rc = check_event(e, call, err);

	if (!rc && !e->stream)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: event %p is of another process, which alone exports it",
			call, (void *)e->handle);
	if (!rc)
		rc = own_client(cuda, &ipc->client, err);
	if (!rc)
		rc = get_handle(cuda, e, &handle, call, err);
	if (rc)
		return rc;
	if (set_exported(cuda, e->handle, e->stream, &ipc->sequence))
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: another thread has recorded event %p meanwhile",
			call, (void *)e->handle);
	where = capkm_stream_place(e->stream);
	ipc->slot = where.slot;
	memcpy(ipc->device, where.device, sizeof(ipc->device));
	memcpy(ipc->handle, handle.bytes, sizeof(ipc->handle));
	return 0;
}

int capkm_cuda_event_export(struct capkm_cuda *cuda, cu_event event,
			    struct capkm_cuda_event_ipc *ipc,
			    struct capkm_error *err)
{
	const char *call = "cuda_event_export";
	struct capkm_cuda_event_ipc out = {
		.size = sizeof(out), .domain = capkm_domain_id(cuda->c),
	};
	struct event e;
	int rc = get(cuda, event, call, &e, err);

	if (rc)
		return rc;
	rc = export(cuda, &e, &out, call, err);
	put(cuda, &e);
	if (!rc)
		*ipc = out;
	return rc;
}

/* For the current context, @context. */
static int check_ipc(struct capkm_cuda *cuda,
		     const struct capkm_cuda_event_ipc *ipc, const char *call,
		     struct context **context, struct capkm_error *err)
{
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_cuda_context(cuda, call, context, err);
	if (rc)
		return rc;
	if (ipc->size != sizeof(*ipc) || !ipc->client)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: that is not what cuda_event_export() gives", call);
	if (ipc->domain != capkm_domain_id(cuda->c))
		return capkm_error_set(err, -EXDEV, CAPKM_NO_INDEX, 0,
			"%s: the event is of domain %" PRIu64 ", this handle of %" PRIu64,
			call, ipc->domain, capkm_domain_id(cuda->c));
	if (memcmp(ipc->device, (*context)->uuid, sizeof(ipc->device)))
		return capkm_error_set(err, -ENODEV, CAPKM_NO_INDEX, 0,
			"%s: the event is on another device than the current context",
			call);
	return 0;
}

int capkm_cuda_event_open(struct capkm_cuda *cuda,
			  const struct capkm_cuda_event_ipc *ipc,
			  cu_event *event, struct capkm_error *err)
{
	const char *call = "cuda_event_open";
	struct context *context;
	struct cu_ipc_handle handle;
	struct event *e;
	int mode, result, rc = check_ipc(cuda, ipc, call, &context, err);

	if (rc)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e)
		return capkm_no_memory(call, err);
	memcpy(handle.bytes, ipc->handle, sizeof(handle.bytes));
	mode = capkm_cu_relax(cuda);
	result = cuda->cu.cuIpcOpenEventHandle(&e->handle, handle);
	capkm_cu_restore(cuda, mode);
	rc = capkm_cu_error_sent(cuda, result, call, "cuIpcOpenEventHandle",
		"the handle is not what cuda_event_export() gives", err);
	if (rc) {
		free(e);
		return rc;
	}
	e->context = context;
	e->client = ipc->client;
	e->sequence = ipc->sequence;
	/* Whatever stream the caller is, it says nothing of the other's slot. */
	e->where = (struct capkm_where){
		.stream = 1, .slot = ipc->slot, .flags = CAPKM_WHERE_SLOT
	};
	memcpy(e->where.device, ipc->device, sizeof(e->where.device));
	*event = e->handle;
	pthread_mutex_lock(&cuda->lock);
	SLIST_INSERT_HEAD(&cuda->events, e, next);
	pthread_mutex_unlock(&cuda->lock);
	return 0;
}

void capkm_cuda_events_close(struct capkm_cuda *cuda)
{
	struct event *e;

	while ((e = SLIST_FIRST(&cuda->events))) {
		SLIST_REMOVE_HEAD(&cuda->events, next);
		put(cuda, e);
		free(e);
	}
}
