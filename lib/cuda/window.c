// SPDX-License-Identifier: MIT
/*
 * The window of a stream: whose it is, and how it goes. The driver's capture is always
 * ended, whatever becomes of the window.
 */
#include "window.h"

#include <stdlib.h>

bool capkm_window_set(struct capkm_cuda *cuda, struct stream *s,
		      struct window *w)
{
	struct window *joined;
	bool is_free;

	pthread_mutex_lock(&cuda->lock);
	joined = s->window;
	is_free = !joined || joined->origin != s;
	if (is_free) {
		s->window = w;
		w->refs++;
		if (w->parent)
			w->parent->refs++;
	}
	pthread_mutex_unlock(&cuda->lock);
	if (is_free && joined)
		capkm_window_put(cuda, joined);
	return is_free;
}

struct window *capkm_window_own(struct capkm_cuda *cuda, struct stream *s)
{
	struct window *w;

	pthread_mutex_lock(&cuda->lock);
	w = s->window && s->window->origin == s ? s->window : NULL;
	if (w)
		w->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return w;
}

void capkm_window_put(struct capkm_cuda *cuda, struct window *w)
{
	bool last;

	pthread_mutex_lock(&cuda->lock);
	last = !--w->refs;
	pthread_mutex_unlock(&cuda->lock);
	if (!last)
		return;
	pthread_rwlock_destroy(&w->issue);
	capkm_retained_free(&w->retained);
	while (w->children_len)
		capkm_cuda_graph_put(cuda, w->children[--w->children_len]);
	free(w->children);
	free(w->named);
	if (w->parent)
		capkm_window_put(cuda, w->parent);
	free(w);
}

int capkm_window_keep(struct capkm_cuda *cuda, struct window *w,
		      struct graph *g)
{
	void *children;
	int rc = -ENOMEM;

	pthread_mutex_lock(&cuda->lock);
	children = realloc(w->children, (w->children_len + 1) *
			   sizeof(*w->children));
	if (children) {
		w->children = children;
		w->children[w->children_len++] = g;
		g->refs++;
		rc = 0;
	}
	pthread_mutex_unlock(&cuda->lock);
	return rc;
}

void capkm_window_detach(struct capkm_cuda *cuda, struct window *w)
{
	struct stream *s;

	pthread_mutex_lock(&cuda->lock);
	w->refs++;
	SLIST_FOREACH(s, &cuda->streams, next) {
		if (s->window != w)
			continue;
		s->window = NULL;
		w->refs--;
	}
	pthread_mutex_unlock(&cuda->lock);
	capkm_window_put(cuda, w);
	capkm_streams_sweep(cuda);
}

void capkm_window_disarm(struct capkm_cuda *cuda, const struct stream *s)
{
	if (cuda->pool)
		capkm_pool_capture_end(cuda->pool, s->slot, NULL, NULL);
}

void capkm_window_stop_issue(struct window *w)
{
	pthread_rwlock_wrlock(&w->issue);
	w->ending = true;
	pthread_rwlock_unlock(&w->issue);
}

static bool is_invalidated(struct capkm_cuda *cuda, const struct stream *s)
{
	uint64_t id;
	int status;

	return !capkm_stream_ask(cuda, s, "end_capture", &status, &id, NULL) &&
	       status == CU_CAPTURE_INVALIDATED;
}

/*
 * A driver that ends the capture of a body with an error frees the body, and leaves it in
 * its parent's graph: whatever walks that graph later ends the process. So the graph is
 * left, never freed; and of captures that are both invalidated only the outermost is
 * ended, with which all of it goes. Streams whose captures are left stay in them.
 */
int capkm_window_end_capture(struct capkm_cuda *cuda, struct window *w,
			     cu_graph *raw)
{
	const bool leave = w->lacks_body ||
		(w->parent && is_invalidated(cuda, w->parent->origin));
	int result;

	if (leave && is_invalidated(cuda, w->origin))
		return CU_CAPTURE_INVALID;
	result = cuda->cu.cuStreamEndCapture(w->origin->handle, raw);
	if (w->lacks_body)
		*raw = NULL;
	for (w = result ? w->parent : NULL; w; w = w->parent)
		w->lacks_body = true;
	return result;
}

/* A body goes with the graph that its node is in. */
void capkm_window_discard_capture(struct capkm_cuda *cuda, struct window *w)
{
	const char *call = "window_abort";
	cu_graph raw = NULL;
	int result = capkm_window_end_capture(cuda, w, &raw);

	capkm_cu_error_on(cuda, w->origin, result, call, "cuStreamEndCapture",
			  NULL);
	if (raw && !w->parent)
		cu_call_on(cuda, w->origin, NULL, call, cuGraphDestroy, raw);
}

/* Ends the window's capture, and no other that the stream may have by now. */
static void end_driver(struct capkm_cuda *cuda, struct window *w)
{
	uint64_t id;
	int status;

	if (!w->begun || w->attached)
		return;
	if (capkm_stream_ask(cuda, w->origin, "window_abort", &status, &id,
			     NULL) ||
	    status == CU_CAPTURE_NONE ||
	    (status == CU_CAPTURE_ACTIVE && id != w->capture))
		return;
	capkm_window_discard_capture(cuda, w);
}

struct stream *capkm_window_body(struct capkm_cuda *cuda, const struct window *w)
{
	struct stream *s;

	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(s, &cuda->streams, next)
		if (s->window && s->window->origin == s &&
		    s->window->parent == w)
			break;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return s;
}

/*
 * The authority aborts bodies with their window. The driver's captures end from the
 * innermost on, for each goes into a graph of the next.
 */
void capkm_window_drop(struct capkm_cuda *cuda, struct window *w)
{
	const struct capkm_where where = capkm_stream_place(w->origin);

	capkm_window_abort(cuda->c, &where, w->id, NULL, NULL);
	capkm_window_stop_issue(w);
	capkm_window_drop_bodies(cuda, w);
	end_driver(cuda, w);
	/* What a window keeps goes with it: the authority has none of it any more. */
	capkm_window_disarm(cuda, w->origin);
	if (cuda->cache)
		capkm_cache_discard(cuda->cache, w->id);
	capkm_window_detach(cuda, w);
	capkm_cuda_sweep(cuda);
}

/* No body begins any more: whoever does that has the parent's @issue. */
void capkm_window_drop_bodies(struct capkm_cuda *cuda, const struct window *w)
{
	struct stream *s;
	struct window *body;

	while ((s = capkm_window_body(cuda, w))) {
		capkm_stream_await(cuda, s);
		body = capkm_window_own(cuda, s);
		if (body && body->parent == w)
			capkm_window_drop(cuda, body);
		if (body)
			capkm_window_put(cuda, body);
		capkm_stream_unclaim(cuda, s);
		capkm_stream_put(cuda, s);
	}
}

void capkm_stream_drop_window(struct capkm_cuda *cuda, struct stream *s)
{
	struct window *w = capkm_window_own(cuda, s);

	if (!w)
		return;
	capkm_window_drop(cuda, w);
	capkm_window_put(cuda, w);
}
