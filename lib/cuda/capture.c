// SPDX-License-Identifier: MIT
/*
 * Windows around the driver's captures. The authority's state changes first, then the
 * driver's (a call that the authority refuses does nothing to a capture), then the
 * authority hears that the driver has done it. The driver's capture is always ended,
 * whatever becomes of the window.
 */
#include "cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The authority has said that the stream is free, so what it had joined it has left. A
 * window of its own may still be on its way out, together with its parent: false.
 */
static bool set_window(struct capkm_cuda *cuda, struct stream *s,
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

/* No stream records in it any more. */
static void detach(struct capkm_cuda *cuda, struct window *w)
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

/* The window that has begun on the stream, or is prepared there: a reference, or NULL. */
static struct window *own_window(struct capkm_cuda *cuda, struct stream *s)
{
	struct window *w;

	pthread_mutex_lock(&cuda->lock);
	w = s->window && s->window->origin == s ? s->window : NULL;
	if (w)
		w->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return w;
}

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

static void disarm(struct capkm_cuda *cuda, const struct stream *s)
{
	if (cuda->pool)
		capkm_pool_capture_end(cuda->pool, s->slot, NULL, NULL);
}

/* Waits for work that is being issued into the capture; no more will be. */
static void stop_issue(struct window *w)
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
static int end_in_driver(struct capkm_cuda *cuda, struct window *w,
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
static void discard_capture(struct capkm_cuda *cuda, struct window *w)
{
	cu_graph raw = NULL;

	end_in_driver(cuda, w, &raw);
	if (raw && !w->parent)
		cuda->cu.cuGraphDestroy(raw);
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
	discard_capture(cuda, w);
}

/* Where a body of the window records, or has; a reference, or NULL. */
static struct stream *body_of(struct capkm_cuda *cuda, const struct window *w)
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

static void drop_bodies(struct capkm_cuda *cuda, const struct window *w);

/*
 * The authority aborts bodies with their window. The driver's captures end from the
 * innermost on, for each goes into a graph of the next.
 */
static void drop(struct capkm_cuda *cuda, struct window *w)
{
	const struct capkm_where where = capkm_stream_place(w->origin);

	capkm_window_abort(cuda->c, &where, w->id, NULL, NULL);
	stop_issue(w);
	drop_bodies(cuda, w);
	end_driver(cuda, w);
	/* What a window keeps goes with it: the authority has none of it any more. */
	disarm(cuda, w->origin);
	if (cuda->cache)
		capkm_cache_discard(cuda->cache, w->id);
	detach(cuda, w);
	capkm_cuda_sweep(cuda);
}

/* No body begins any more: whoever does that has the parent's @issue. */
static void drop_bodies(struct capkm_cuda *cuda, const struct window *w)
{
	struct stream *s;
	struct window *body;

	while ((s = body_of(cuda, w))) {
		capkm_stream_await(cuda, s);
		body = own_window(cuda, s);
		if (body && body->parent == w)
			drop(cuda, body);
		if (body)
			capkm_window_put(cuda, body);
		capkm_stream_unclaim(cuda, s);
		capkm_stream_put(cuda, s);
	}
}

void capkm_window_drop(struct capkm_cuda *cuda, struct stream *s)
{
	struct window *w = own_window(cuda, s);

	if (!w)
		return;
	drop(cuda, w);
	capkm_window_put(cuda, w);
}

/* prepare */

/* A window that the authority does not have any more (it was abandoned) leaves the stream. */
static void clear(struct capkm_cuda *cuda, struct stream *s)
{
	struct capkm_window_query q = { .size = sizeof(q) };
	struct window *w = own_window(cuda, s);

	if (!w)
		return;
	q.window = w->id;
	if (capkm_window_query(cuda->c, &q, NULL) ||
	    q.out_state >= CAPKM_WINDOW_SEALED)
		drop(cuda, w);
	capkm_window_put(cuda, w);
}

/* @w: filled but for its id; it is the callee's. */
static int prepare_window(struct capkm_cuda *cuda, struct stream *s,
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
	w->origin = s;
	pthread_rwlock_init(&w->issue, NULL);
	if (!set_window(cuda, s, w)) {
		capkm_window_abort(cuda->c, &where, w->id, NULL, NULL);
		pthread_rwlock_destroy(&w->issue);
		free(w);
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream's window is being taken away", call);
	}
	if (cuda->pool)
		rc = capkm_pool_capture_begin(cuda->pool, s->slot, err);
	if (rc)
		capkm_window_drop(cuda, s);
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
	clear(cuda, s);
	return prepare_window(cuda, s, w, o->cookie, call, window, err);
}

static void release(struct capkm_cuda *cuda, struct stream *s)
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
		release(cuda, s);
	*out = s;
	return rc;
}

/* Its capture, if it has one, is that of a window of its own. */
static int claim_idle(struct capkm_cuda *cuda, cu_stream handle,
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
		release(cuda, *s);
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
		rc = claim_idle(cuda, handle, call, &s, err);
	if (rc)
		return rc;
	rc = prepare(cuda, s, &o, call, window, err);
	release(cuda, s);
	return rc;
}

/* begin */

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
	return capkm_cu_error(cuda, result, "cuda_body_begin",
			      "cuStreamBeginCaptureToGraph", err);
}

static int begin_driver(struct capkm_cuda *cuda, struct window *w,
			struct capkm_error *err)
{
	uint64_t id = 0;
	int status, rc = w->parent ? begin_body(cuda, w, err) :
		cu_call(cuda, err, "begin_capture", cuStreamBeginCapture,
			w->origin->handle, w->mode);

	if (rc)
		return rc;
	rc = capkm_stream_ask(cuda, w->origin, "begin_capture", &status, &id,
			      err);
	if (rc) {
		discard_capture(cuda, w);
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
		drop(cuda, w);
	return rc;
}

/* The authority first: it says so when there is nothing to begin. */
static int begin(struct capkm_cuda *cuda, struct stream *s,
		 struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);
	struct window *w;
	int rc = capkm_window_begin(cuda->c, &where, 0, NULL, err);

	if (rc)
		return rc;
	w = own_window(cuda, s);
	if (!w) {
		capkm_window_abort(cuda->c, &where, 0, NULL, NULL);
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"begin_capture: the window was not prepared by the bridge; it was aborted");
	}
	rc = begin_window(cuda, w, err);
	capkm_window_put(cuda, w);
	return rc;
}

int capkm_cuda_graph_begin(struct capkm_cuda *cuda, cu_stream handle,
			   struct capkm_error *err)
{
	struct stream *s;
	int rc = claim_idle(cuda, handle, "begin_capture", &s, err);

	if (rc)
		return rc;
	rc = begin(cuda, s, err);
	release(cuda, s);
	return rc;
}

/* attach */

/* The id of the capture that somebody else has begun. */
static int check_attach(struct capkm_cuda *cuda, const struct stream *s,
			const struct capture *on, const char *call,
			uint64_t *id, struct capkm_error *err)
{
	int status, rc;

	if (on->how == RECORDS && (!on->window->attached || on->window->origin != s))
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the stream's capture is that of window %" PRIu64 " already",
			call, on->window->id);
	rc = capkm_stream_ask(cuda, s, call, &status, id, err);
	if (rc || status == CU_CAPTURE_ACTIVE)
		return rc;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the stream %s", call,
		status ? "has a capture that was invalidated" :
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
		drop(cuda, w);
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
	w = own_window(cuda, s);
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
	uint64_t id;
	int rc = capkm_opts(&o, sizeof(o), opts, call, err);

	if (!rc)
		rc = claim(cuda, handle, call, &s, &on, err);
	if (rc)
		return rc;
	rc = check_attach(cuda, s, &on, call, &id, err);
	capkm_capture_put(cuda, &on);
	if (!rc)
		rc = attach(cuda, s, id, &o, call, window, err);
	release(cuda, s);
	return rc;
}

/* end */

/* A closed window, on its way to be a graph. */
struct closing {
	struct capkm_cuda *cuda;
	struct window *window;
	struct capkm_window_end closed;
	struct graph *graph;	/* what it becomes */
	struct found found;
	struct capkm_answer *answer;
	struct capkm_error *err;
};

/* It will be none: the authority hears why, and so does the caller. */
static int refuse(struct closing *c, int rc, int code, const char *text)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = code ? CAPKM_KIND_DRIVER : CAPKM_KIND_VALIDATION,
		.code = code, .text = text);

	capkm_window_refuse(c->cuda->c, c->window->id, &cause, c->answer, NULL);
	return rc;
}

static int refuse_driver(struct closing *c, int result, const char *function)
{
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];
	int rc = capkm_cu_error(c->cuda, result, "end_capture", function,
				c->err);

	capkm_cu_cause(c->cuda, result, function, &cause, text, sizeof(text));
	return refuse(c, rc, result, text);
}

static int refuse_found(struct closing *c, const char *text)
{
	capkm_error_set(c->err, -EINVAL, CAPKM_NO_INDEX, 0, "end_capture: %s",
			text);
	return refuse(c, -EINVAL, 0, text);
}

/* What the driver recorded is looked at before it is trusted. */
static int inspect(struct closing *c, cu_graph raw)
{
	const uint32_t flags = c->window->flags;
	struct found *f = &c->found;
	char text[160];
	int rc = capkm_graph_walk(c->cuda, c->window, raw, "end_capture", f,
				  c->err);

	if (rc < 0)
		return refuse(c, rc, 0, "its nodes could not be looked at");
	if (rc && !(flags & CAPKM_CUDA_GRAPH_F_FREES))
		return refuse_found(c, "the graph owns memory nodes: its first launch would succeed and every other fail; allocate before the window, or say CAPKM_CUDA_GRAPH_F_FREES if it frees all that it allocates");
	if (f->host_unchecked && !(flags & CAPKM_CUDA_GRAPH_F_HOST_UNCHECKED)) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " host addresses that nobody retains would be used by each replay; give them a release callback, or have them copied",
			 f->host_unchecked);
		return refuse_found(c, text);
	}
	if (f->seen && flags & CAPKM_CUDA_GRAPH_F_STRICT) {
		snprintf(text, sizeof(text),
			 "strict: its nodes are given %" PRIu64 " known buffers that no scope named",
			 f->seen);
		return refuse_found(c, text);
	}
	return 0;
}

static int instantiate(struct closing *c, cu_graph raw)
{
	struct capkm_cuda *cuda = c->cuda;
	int result = cuda->cu.cuGraphInstantiateWithFlags(&c->graph->exec, raw, 0);

	if (result)
		return refuse_driver(c, result, "cuGraphInstantiate");
	c->graph->owned = true;
	/* A graph that was not uploaded is uploaded by its first launch. */
	cuda->cu.cuGraphUpload(c->graph->exec, c->window->origin->handle);
	return 0;
}

/* Doomed or abandoned: sealing says so, and nothing else needs to be looked at. */
static bool is_lost(const struct closing *c)
{
	return c->closed.out_doomed ||
	       c->closed.out_verdict == CAPKM_VERDICT_ABANDONED;
}

static int seal(struct closing *c)
{
	int rc = capkm_window_finish(c->cuda->c, &c->closed, &c->graph->id,
				     c->answer, c->err);

	if (rc || c->window->parent)
		return rc;
	rc = capkm_cuda_graph_inputs(c->cuda, c->graph, c->err);
	if (rc)
		capkm_graph_destroy(c->cuda->c, c->graph->id, NULL);
	return rc;
}

static void graph_keeps(struct closing *c)
{
	struct graph *g = c->graph;

	g->found = c->found;
	g->retained = c->window->retained;
	g->retained_len = c->window->retained_len;
	SLIST_INIT(&c->window->retained);
	g->children = c->window->children;
	g->children_len = c->window->children_len;
	c->window->children = NULL;
	c->window->children_len = 0;
	if (c->cuda->cache && g->id)
		capkm_cache_commit(c->cuda->cache, c->window->id, g->id);
}

static struct graph *graph_new(struct capkm_cuda *cuda, struct stream *s)
{
	struct graph *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->refs = 1;
	if (cuda->pool &&
	    capkm_pool_capture_end(cuda->pool, s->slot, &g->pins, NULL)) {
		free(g);
		return NULL;
	}
	if (cuda->pool)
		g->epoch = capkm_pool_epoch(cuda->pool);
	return g;
}

/* Not lost. @raw: of the capture, or NULL; @exec: of somebody else, or NULL. */
static int settle(struct closing *c, cu_graph raw, bool make_exec)
{
	int rc;

	if (!raw)
		return refuse_found(c, "the capture gave no graph");
	rc = inspect(c, raw);
	if (!rc && make_exec)
		rc = instantiate(c, raw);
	if (!rc)
		rc = seal(c);
	if (!rc)
		graph_keeps(c);
	return rc;
}

/* The states of the window around the end of the capture. */
static int close_window(struct closing *c, const struct stream *s,
			struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);

	c->closed.size = sizeof(c->closed);
	return capkm_window_end(c->cuda->c, &where, 0, 0, &c->closed, err);
}

static void driver_has_closed(struct closing *c)
{
	const struct capkm_where where = capkm_stream_place(c->window->origin);

	capkm_window_end(c->cuda->c, &where, c->window->id,
			 CAPKM_WINDOW_F_DRIVER_DONE, NULL, NULL);
}

/* Somebody else has closed the window while it recorded. */
static int taken_away(struct capkm_cuda *cuda, const struct window *w,
		      struct capkm_error *err)
{
	char text[400];
	const uint64_t failure = capkm_window_why(cuda->c, w->id, text,
						  sizeof(text));

	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, failure,
		"end_capture: window %" PRIu64 " was taken away: %s", w->id,
		*text ? text : "it is not known any more");
}

/*
 * The end was refused. If it is for good (the window was only prepared, was taken away by
 * an administrator, the domain is gone), the stream has no window, and no capture.
 */
static int end_nothing(struct capkm_cuda *cuda, struct window *w, int rc,
		       struct capkm_error *err)
{
	if (!w)
		return rc;
	if (rc == -EINVAL && w->begun)
		rc = taken_away(cuda, w, err);
	if (rc != -EPERM && rc != -EBUSY)
		drop(cuda, w);
	return rc;
}

/* What there is to say, also of a window that was refused with another errno. */
static void give_answer(struct capkm_answer *given, struct capkm_answer *known)
{
	if (!given)
		return;
	known->sz = given->sz;
	capkm_answer_put(given, known);
}

static void drop_graph(struct capkm_cuda *cuda, struct graph *g)
{
	g->id = 0;
	capkm_cuda_graph_put(cuda, g);
}

/* @finish makes of the closed window what the caller wants. */
static int end_window(struct closing *c, int (*finish)(struct closing *c, void *context),
		      void *context)
{
	struct capkm_cuda *cuda = c->cuda;
	int mode, rc;

	stop_issue(c->window);
	/* Those whose own windows were taken away: they go into this one's graph. */
	drop_bodies(cuda, c->window);
	mode = capkm_cu_relax(cuda);
	c->graph = graph_new(cuda, c->window->origin);
	rc = finish(c, context);
	capkm_cu_restore(cuda, mode);
	disarm(cuda, c->window->origin);
	if (rc && cuda->cache)
		capkm_cache_discard(cuda->cache, c->window->id);
	detach(cuda, c->window);
	if (rc && c->graph)
		drop_graph(cuda, c->graph);
	if (rc)
		capkm_cuda_sweep(cuda);
	return rc;
}

/* The stream is claimed. @w: its own window, or NULL. */
static int end(struct capkm_cuda *cuda, struct stream *s, struct window *w,
	       const char *call, int (*finish)(struct closing *c, void *context),
	       void *context, struct capkm_answer *answer,
	       struct capkm_error *err)
{
	struct closing c = {
		.cuda = cuda, .window = w, .answer = answer, .err = err
	};
	int rc = close_window(&c, s, err);

	answer->sz = sizeof(*answer);	/* the bridge's copy, which is whole */
	if (rc)
		return end_nothing(cuda, w, rc, err);
	if (w)
		return end_window(&c, finish, context);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the window was not prepared by the bridge; seal or refuse it by window_seal()",
		call);
}

static int no_memory(struct closing *c)
{
	capkm_no_memory("end_capture", c->err);
	return refuse(c, -ENOMEM, 0, "out of memory");
}

static int end_capture(struct closing *c, cu_graph *raw)
{
	int result = end_in_driver(c->cuda, c->window, raw);

	driver_has_closed(c);
	if (result && !is_lost(c))
		return refuse_driver(c, result, "cuStreamEndCapture");
	return 0;
}

static int finish_own(struct closing *c, void *context)
{
	cu_graph raw = NULL;
	int rc = end_capture(c, &raw);

	if (!rc && !c->graph)
		rc = no_memory(c);
	if (!rc && is_lost(c))
		rc = seal(c);		/* says why not */
	else if (!rc)
		rc = settle(c, raw, true);
	if (c->graph)
		c->graph->raw = raw;
	else if (raw)
		c->cuda->cu.cuGraphDestroy(raw);
	if (!rc)
		capkm_cuda_graph_add(c->cuda, c->graph);
	*(uint64_t *)context = rc ? 0 : c->graph->id;
	return rc;
}

/*
 * A stream to end its window: the calling thread's alone, until let_go(). @w: a reference
 * to its own window, or NULL.
 */
static int claim_to_end(struct capkm_cuda *cuda, cu_stream handle,
			const char *call, struct stream **s, struct window **w,
			struct capkm_error *err)
{
	int rc = capkm_stream_find(cuda, handle, call, s, err);

	if (rc)
		return rc;
	rc = capkm_stream_claim(cuda, *s, call, err);
	if (rc)
		capkm_stream_put(cuda, *s);
	else
		*w = own_window(cuda, *s);
	return rc;
}

static void let_go(struct capkm_cuda *cuda, struct stream *s, struct window *w)
{
	if (w)
		capkm_window_put(cuda, w);
	release(cuda, s);
}

static int check_no_body(const struct window *w, const char *call,
			 struct capkm_error *err)
{
	if (!w || !w->parent)
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the window is a body of window %" PRIu64 "; cuda_body_end() ends it",
		call, w->parent->id);
}

int capkm_cuda_graph_end(struct capkm_cuda *cuda, cu_stream handle,
			 uint64_t *graph, struct capkm_answer *answer,
			 struct capkm_error *err)
{
	const char *call = "end_capture";
	struct capkm_answer a;
	struct stream *s;
	struct window *w;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_END, err);

	*graph = 0;
	if (!rc)
		rc = claim_to_end(cuda, handle, call, &s, &w, err);
	if (rc)
		return rc;
	rc = check_no_body(w, call, err);
	if (!rc && w && w->attached)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the capture was begun by somebody else, who ends it; then cuda_graph_seal()",
			call);
	if (!rc)
		rc = end(cuda, s, w, call, finish_own, graph, &a, err);
	let_go(cuda, s, w);
	give_answer(answer, &a);
	return rc;
}

struct given {
	cu_graph raw;
	cu_exec exec;
	uint64_t graph;
};

static int finish_given(struct closing *c, void *context)
{
	struct given *given = context;
	int rc = 0;

	driver_has_closed(c);
	if (!c->graph)
		rc = no_memory(c);
	if (!rc && is_lost(c))
		rc = seal(c);
	else if (!rc)
		rc = settle(c, given->raw, false);
	if (rc)
		return rc;
	c->graph->exec = given->exec;
	capkm_cuda_graph_add(c->cuda, c->graph);
	given->graph = c->graph->id;
	return 0;
}

/* Somebody else has ended the capture of the window that is attached to it. */
static int check_ended(struct capkm_cuda *cuda, const struct stream *s,
		       const struct window *w, const char *call,
		       struct capkm_error *err)
{
	uint64_t id;
	int status, rc;

	if (!w || !w->attached)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the stream has no window that was attached", call);
	rc = capkm_stream_ask(cuda, s, call, &status, &id, err);
	if (rc || status == CU_CAPTURE_NONE)
		return rc;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: the stream still captures; whoever began that ends it first",
		call);
}

int capkm_cuda_graph_seal(struct capkm_cuda *cuda, cu_stream handle,
			  cu_graph raw, cu_exec exec, uint64_t *graph,
			  struct capkm_answer *answer, struct capkm_error *err)
{
	const char *call = "cuda_graph_seal";
	struct given given = { .raw = raw, .exec = exec };
	struct capkm_answer a;
	struct stream *s;
	struct window *w;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_END, err);

	*graph = 0;
	if (!rc)
		rc = claim_to_end(cuda, handle, call, &s, &w, err);
	if (rc)
		return rc;
	rc = check_ended(cuda, s, w, call, err);
	if (!rc)
		rc = end(cuda, s, w, call, finish_given, &given, &a, err);
	let_go(cuda, s, w);
	*graph = given.graph;
	give_answer(answer, &a);
	return rc;
}

int capkm_cuda_graph_abort(struct capkm_cuda *cuda, cu_stream handle,
			   struct capkm_error *err)
{
	struct stream *s;
	struct window *w;
	int rc = claim_to_end(cuda, handle, "window_abort", &s, &w, err);

	if (rc)
		return rc;
	if (w)
		drop(cuda, w);
	let_go(cuda, s, w);
	return 0;
}

/* update */

/* All that the graph writes, as a replay that failed does; it cannot be trusted again. */
static void break_graph(struct closing *c, struct graph *g, int result)
{
	const struct capkm_where where = capkm_stream_place(c->window->origin);
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];
	uint32_t answer;

	g->broken = true;
	capkm_cu_cause(c->cuda, result, "cuGraphExecUpdate", &cause, text,
		       sizeof(text));
	if (!capkm_graph_replay_begin(c->cuda->c, g->id, &where, NULL, &answer,
				      NULL, NULL) && answer == CAPKM_CLEAN)
		capkm_graph_replay_fail(c->cuda->c, g->id, &cause, NULL, NULL);
}

static int update_failed(struct closing *c, struct graph *g, int result)
{
	capkm_graph_update(c->cuda->c, g->id, c->window->id,
			   CAPKM_GRAPH_UPDATE_F_FAILED, NULL, NULL);
	if (result != CU_UPDATE_FAILURE)
		break_graph(c, g, result);
	return refuse_driver(c, result, "cuGraphExecUpdate");
}

/* What the window kept is kept beside what the graph has: the driver may share nodes. */
static int adopt(struct graph *g, struct window *w)
{
	const uint32_t n = g->children_len + w->children_len;
	struct retained *r;
	void *children = n ? realloc(g->children, n * sizeof(*g->children)) :
			     NULL;

	if (n && !children)
		return -ENOMEM;
	if (n)
		g->children = children;
	while (w->children_len)
		g->children[g->children_len++] = w->children[--w->children_len];
	while ((r = SLIST_FIRST(&w->retained))) {
		SLIST_REMOVE_HEAD(&w->retained, next);
		SLIST_INSERT_HEAD(&g->retained, r, next);
		g->retained_len++;
	}
	return 0;
}

/* The driver has the new graph; if the authority does not take it, nobody can use it. */
static int update(struct closing *c, struct graph *g, cu_graph raw)
{
	struct cu_update_info info = { .result = 0 };
	int rc, result = c->cuda->cu.cuGraphExecUpdate(g->exec, raw, &info);

	if (result)
		return update_failed(c, g, result);
	rc = adopt(g, c->window);
	if (rc)
		capkm_no_memory("cuda_graph_update", c->err);
	else
		rc = capkm_graph_update(c->cuda->c, g->id, c->window->id, 0,
					c->answer, c->err);
	if (rc) {
		break_graph(c, g, CU_UPDATE_FAILURE);
		return refuse(c, rc, 0, "the graph could not be updated");
	}
	g->found = c->found;
	rc = capkm_cuda_graph_inputs(c->cuda, g, c->err);
	if (rc)
		break_graph(c, g, CU_UPDATE_FAILURE);
	return rc;
}

static int finish_update(struct closing *c, void *context)
{
	struct graph *g = context;
	struct capkm_pool_pins *old;
	cu_graph raw = NULL;
	int rc = end_capture(c, &raw);

	if (!rc && !c->graph)
		rc = no_memory(c);
	if (!rc && is_lost(c))
		rc = seal(c);
	else if (!rc)
		rc = raw ? inspect(c, raw) :
			   refuse_found(c, "the capture gave no graph");
	if (!rc)
		rc = update(c, g, raw);
	if (raw)
		c->cuda->cu.cuGraphDestroy(raw);
	if (rc)
		return rc;
	/* What the window's pool touched is the updated graph's, too. */
	old = g->pins;
	g->pins = c->graph->pins;
	c->graph->pins = old;
	if (c->cuda->cache)
		capkm_cache_commit(c->cuda->cache, c->window->id, g->id);
	drop_graph(c->cuda, c->graph);
	return 0;
}

static int check_update(const struct graph *g, const struct window *w,
			const char *call, struct capkm_error *err)
{
	if (g->owned && !g->broken)
		return check_no_body(w, call, err);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: graph %" PRIu64 " was not made by cuda_graph_end(), or an update of it has failed",
		call, g->id);
}

int capkm_cuda_graph_update(struct capkm_cuda *cuda, cu_stream handle,
			    uint64_t graph, struct capkm_answer *answer,
			    struct capkm_error *err)
{
	const char *call = "cuda_graph_update";
	struct capkm_answer a;
	struct stream *s;
	struct window *w;
	struct graph *g;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_GRAPH_UPDATE, err);

	if (!rc)
		rc = claim_to_end(cuda, handle, call, &s, &w, err);
	if (rc)
		return rc;
	rc = capkm_cuda_graph_get(cuda, graph, call, &g, err);
	if (!rc) {
		rc = check_update(g, w, call, err);
		if (!rc)
			rc = end(cuda, s, w, call, finish_update, g, &a, err);
		capkm_cuda_graph_put(cuda, g);
	}
	let_go(cuda, s, w);
	give_answer(answer, &a);
	return rc;
}

/* bodies of conditional nodes */

static int check_body(struct capkm_cuda *cuda, const struct capkm_cuda_body *b,
		      const char *call, struct capkm_error *err)
{
	const int version = cuda->cu.version;

	if (!cuda->cu.cuStreamBeginCaptureToGraph)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"%s: the driver is of CUDA %d.%d and lacks cuStreamBeginCaptureToGraph; CUDA 12.3 or newer is needed",
			call, version / 1000, version % 1000 / 10);
	if (!b->node || !b->graph || !b->bodies || b->__reserved)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a body has a node, a graph and the number of the node's bodies",
			call);
	return 0;
}

/* Was the graph recorded in the window before? Its nodes would count twice. */
static bool has_body(struct capkm_cuda *cuda, const struct window *w,
		     cu_graph graph)
{
	bool has = false;
	uint32_t i;

	pthread_mutex_lock(&cuda->lock);
	for (i = 0; i < w->children_len; i++)
		has |= w->children[i]->body.graph == graph;
	pthread_mutex_unlock(&cuda->lock);
	return has;
}

/* Can a body be captured on @s now, for the window that records on @p? */
static int check_parent(struct capkm_cuda *cuda, const struct stream *s,
			const struct stream *p, const struct capture *on,
			const struct capkm_cuda_body *b, const char *call,
			struct capkm_error *err)
{
	struct stream *other;
	uint64_t id;
	int status, rc;

	if (s == p)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a body is captured on another stream than what it is in",
			call);
	if (on->how != RECORDS)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: no window records on the parent's stream", call);
	if (p->context != s->context)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the stream is of another context than the parent's",
			call);
	rc = capkm_stream_ask(cuda, p, call, &status, &id, err);
	if (rc)
		return rc;
	if (status != CU_CAPTURE_ACTIVE)
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the parent's capture was invalidated; end it", call);
	if (has_body(cuda, on->window, b->graph))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the body was recorded already", call);
	other = body_of(cuda, on->window);
	if (!other)
		return 0;
	capkm_stream_put(cuda, other);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: another body of window %" PRIu64 " records; end it first",
		call, on->window->id);
}

/* The stream is claimed. */
static int body_begin(struct capkm_cuda *cuda, struct stream *s,
		      struct window *parent, const struct capkm_cuda_body *b,
		      uint64_t *window, const char *call,
		      struct capkm_error *err)
{
	struct window *w = calloc(1, sizeof(*w));
	uint64_t id;
	int rc;

	if (!w)
		return capkm_no_memory(call, err);
	w->flags = parent->flags;
	w->mode = parent->mode;
	w->parent = parent;
	w->body = (struct body){ b->graph, b->node, b->bodies };
	rc = prepare_window(cuda, s, w, 0, call, &id, err);
	if (!rc)
		rc = begin(cuda, s, err);
	if (!rc && window)
		*window = id;
	return rc;
}

/* Nobody ends the parent's capture meanwhile: it is held. */
static int body_in(struct capkm_cuda *cuda, struct stream *s,
		   const struct capkm_cuda_body *b, uint64_t *window,
		   const char *call, struct capkm_error *err)
{
	struct capture on;
	struct stream *p;
	int rc = capkm_stream_get(cuda, b->parent, call, &p, &on, err);

	if (rc)
		return rc;
	rc = check_parent(cuda, s, p, &on, b, call, err);
	if (!rc)
		rc = body_begin(cuda, s, on.window, b, window, call, err);
	capkm_capture_put(cuda, &on);
	capkm_stream_put(cuda, p);
	return rc;
}

int capkm_cuda_body_begin(struct capkm_cuda *cuda, cu_stream handle,
			  const struct capkm_cuda_body *body, uint64_t *window,
			  struct capkm_error *err)
{
	const char *call = "cuda_body_begin";
	struct capkm_cuda_body b;
	struct stream *s;
	int rc = capkm_opts(&b, sizeof(b), body, call, err);

	if (!rc)
		rc = check_body(cuda, &b, call, err);
	if (!rc)
		rc = claim_idle(cuda, handle, call, &s, err);
	if (rc)
		return rc;
	clear(cuda, s);
	rc = body_in(cuda, s, &b, window, call, err);
	release(cuda, s);
	return rc;
}

static int keep_body(struct closing *c)
{
	int rc = inspect(c, c->window->body.graph);

	if (rc)
		return rc;
	c->graph->body = c->window->body;
	return capkm_window_keep(c->cuda, c->window->parent, c->graph) ?
		no_memory(c) : 0;
}

/* The parent keeps what it keeps, and knows what was found in it. */
static int finish_body(struct closing *c, void *context)
{
	cu_graph raw = NULL;	/* the body, which is its node's */
	int rc = end_capture(c, &raw);

	(void)context;
	if (!rc && !c->graph)
		rc = no_memory(c);
	if (!rc && !is_lost(c))
		rc = keep_body(c);
	if (!rc)
		rc = seal(c);
	if (rc)
		return rc;
	graph_keeps(c);
	drop_graph(c->cuda, c->graph);
	return 0;
}

int capkm_cuda_body_end(struct capkm_cuda *cuda, cu_stream handle,
			struct capkm_answer *answer, struct capkm_error *err)
{
	const char *call = "cuda_body_end";
	struct capkm_answer a;
	struct stream *s;
	struct window *w;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_END, err);

	if (!rc)
		rc = claim_to_end(cuda, handle, call, &s, &w, err);
	if (rc)
		return rc;
	if (w && w->parent)
		rc = end(cuda, s, w, call, finish_body, NULL, &a, err);
	else
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: no body is captured on the stream", call);
	let_go(cuda, s, w);
	give_answer(answer, &a);
	return rc;
}
