// SPDX-License-Identifier: GPL-2.0-only
/* Events: how far a stream was, or where in a capture. */
#include "sim.h"

static SLIST_HEAD(, CUevent_st) events = SLIST_HEAD_INITIALIZER(events);

static bool exists(cu_event event)
{
	cu_event e;

	SLIST_FOREACH(e, &events, next)
		if (e == event)
			return true;
	return false;
}

/* NULL is an error, what was destroyed is a crash. */
static int check_event(cu_event event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	if (!exists(event))
		gone("event", event);
	return 0;
}

static void forget(cu_event e)
{
	if (e->stream)
		stream_put(e->stream);
	free(e->ends);
	e->stream = NULL;
	e->ends = NULL;
	e->ends_len = 0;
	e->capture = 0;
}

CALL(cuEventCreate, (cu_event *event, unsigned int flags), (event, flags))
{
	cu_context context;
	int rc = need_context(&context);

	if (rc)
		return rc;
	*event = calloc(1, sizeof(**event));
	(*event)->context = context;
	SLIST_INSERT_HEAD(&events, *event, next);
	return 0;
}

static void end(cu_event event)
{
	forget(event);
	SLIST_REMOVE(&events, event, CUevent_st, next);
	free(event);
}

void events_end(cu_context context)
{
	cu_event e, next;

	for (e = SLIST_FIRST(&events); e; e = next) {
		next = SLIST_NEXT(e, next);
		if (e->context == context)
			end(e);
	}
}

CALL(cuEventDestroy, (cu_event event), (event))
{
	int rc = check_event(event);

	if (!rc)
		end(event);
	return rc;
}

static void record_in_capture(cu_event e, struct stream *s)
{
	e->capture = s->capture->id;
	e->ends_len = s->ends_len;
	e->ends = calloc(s->ends_len + 1, sizeof(*e->ends));
	if (s->ends_len)
		memcpy(e->ends, s->ends, s->ends_len * sizeof(*e->ends));
}

CALL(cuEventRecord, (cu_event event, cu_stream stream), (event, stream))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = check_event(event);
	if (!rc)
		rc = implicit_use(s, "cuEventRecord");
	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (rc)
		return rc;
	forget(event);
	if (s->capture) {
		record_in_capture(event, s);
	} else {
		event->stream = stream_get(s);
		event->sequence = s->queued;
	}
	return 0;
}

/* It does not happen, but at each replay. */
static int captured(cu_event e, const char *name)
{
	struct capture *c = capture_by_id(e->capture);

	if (!e->capture)
		return 0;
	if (!c)
		return CU_INVALID_VALUE;	/* one that has ended */
	invalidate(c, name);
	return CAPTURED_EVENT;
}

static int check(cu_event e, const char *name)
{
	int rc = check_event(e);

	if (!rc)
		rc = captured(e, name);
	if (!rc)
		rc = unsafe(name);
	if (!rc && e->stream)
		rc = e->stream->context->lost;
	return rc;
}

CALL(cuEventQuery, (cu_event event), (event))
{
	int rc = check(event, "cuEventQuery");

	if (rc || !event->stream)
		return rc;
	return poll_for(event->stream, event->sequence);
}

CALL(cuEventSynchronize, (cu_event event), (event))
{
	int rc = check(event, "cuEventSynchronize");
	cu_context context;

	if (rc || !event->stream)
		return rc;
	context = event->stream->context;
	wait_for(event->stream, event->sequence);
	return know(context);
}

/* Both depend on the event from now on. */
static void join_ends(struct stream *s, const cu_event e)
{
	size_t i, k, n = s->ends_len;
	cu_node *all = calloc(n + e->ends_len + 1, sizeof(*all));

	for (i = 0; i < n; i++)
		all[i] = s->ends[i];
	for (i = 0; i < e->ends_len; i++) {
		for (k = 0; k < n && all[k] != e->ends[i]; k++)
			;
		if (k == n)
			all[n++] = e->ends[i];
	}
	set_ends(s, all, n);
	free(all);
}

static int wait_in_capture(struct stream *s, cu_event e)
{
	struct capture *c = capture_by_id(e->capture);

	if (!c) {
		if (s->capture)
			invalidate(s->capture, "cuStreamWaitEvent");
		return CU_INVALID_VALUE;	/* of one that has ended */
	}
	if (c->status == CU_CAPTURE_INVALIDATED)
		return INVALIDATED;
	if (s->capture && s->capture != c) {
		invalidate(c, "cuStreamWaitEvent");
		invalidate(s->capture, "cuStreamWaitEvent");
		return MERGE;
	}
	s->capture = c;
	join_ends(s, e);
	return 0;
}

CALL(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned int flags),
     (stream, event, flags))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = check_event(event);
	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (rc)
		return rc;
	if (event->capture)
		return wait_in_capture(s, event);
	if (s->capture && event->stream) {
		invalidate(s->capture, "cuStreamWaitEvent");
		return ISOLATION;
	}
	return event->stream ? enqueue_wait(s, event->stream, event->sequence) : 0;
}
