// SPDX-License-Identifier: MIT
/*
 * The end of windows: the capture ends, what it has recorded is looked at, and a graph is
 * sealed from it or refused.
 */
#include "window.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int capkm_end_refuse(struct closing *c, int rc, int code, const char *text)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = code ? CAPKM_KIND_DRIVER : CAPKM_KIND_VALIDATION,
		.code = code, .text = text);

	capkm_window_refuse(c->cuda->c, c->window->id, &cause, c->answer, NULL);
	return rc;
}

int capkm_end_refuse_driver(struct closing *c, int result, const char *function)
{
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];
	int rc = capkm_cu_error_on(c->cuda, c->window->origin, result,
				   "end_capture", function, c->err);

	capkm_cu_cause(c->cuda, result, function, &cause, text, sizeof(text));
	return capkm_end_refuse(c, rc, result, text);
}

int capkm_end_refuse_found(struct closing *c, const char *text)
{
	capkm_error_set(c->err, -EINVAL, CAPKM_NO_INDEX, 0, "end_capture: %s",
			text);
	return capkm_end_refuse(c, -EINVAL, 0, text);
}

int capkm_end_inspect(struct closing *c, cu_graph raw)
{
	const uint32_t flags = c->window->flags;
	struct found *f = &c->found;
	char text[160];
	int rc = capkm_graph_walk(c->cuda, c->window, raw, "end_capture", f,
				  c->err);

	if (rc < 0)
		return capkm_end_refuse(c, rc, 0, "its nodes could not be looked at");
	if (rc && !(flags & CAPKM_CUDA_GRAPH_F_FREES))
		return capkm_end_refuse_found(c, "the graph owns memory nodes: its first launch would succeed and every other fail; allocate before the window, or say CAPKM_CUDA_GRAPH_F_FREES if it frees all that it allocates");
	if (f->host_unchecked && !(flags & CAPKM_CUDA_GRAPH_F_HOST_UNCHECKED)) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " host addresses that nobody retains would be used by each replay; give them a release callback, or have them copied",
			 f->host_unchecked);
		return capkm_end_refuse_found(c, text);
	}
	if (f->seen && flags & CAPKM_CUDA_GRAPH_F_STRICT) {
		snprintf(text, sizeof(text),
			 "strict: its nodes are given %" PRIu64 " known buffers that no scope named",
			 f->seen);
		return capkm_end_refuse_found(c, text);
	}
	return 0;
}

static int instantiate(struct closing *c, cu_graph raw)
{
	struct capkm_cuda *cuda = c->cuda;
	int result = cuda->cu.cuGraphInstantiateWithFlags(&c->graph->exec, raw, 0);

	if (result)
		return capkm_end_refuse_driver(c, result, "cuGraphInstantiate");
	c->graph->owned = true;
	/* A graph that was not uploaded is uploaded by its first launch. */
	cu_call_on(cuda, c->window->origin, NULL, "end_capture", cuGraphUpload,
		   c->graph->exec, c->window->origin->handle);
	return 0;
}

bool capkm_end_is_lost(const struct closing *c)
{
	return c->closed.out_doomed ||
	       c->closed.out_verdict == CAPKM_VERDICT_ABANDONED;
}

int capkm_end_seal(struct closing *c)
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

void capkm_end_graph_keeps(struct closing *c)
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

/* @raw: of the capture, or NULL. There is memory for what it becomes. */
static int settle(struct closing *c, cu_graph raw, bool make_exec)
{
	int rc;

	if (capkm_end_is_lost(c))
		return capkm_end_seal(c);	/* says why not */
	if (!raw)
		return capkm_end_refuse_found(c, "the capture gave no graph");
	rc = capkm_end_inspect(c, raw);
	if (!rc && make_exec)
		rc = instantiate(c, raw);
	if (!rc)
		rc = capkm_end_seal(c);
	if (!rc)
		capkm_end_graph_keeps(c);
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
		capkm_window_drop(cuda, w);
	return rc;
}

void capkm_end_drop_graph(struct capkm_cuda *cuda, struct graph *g)
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

	capkm_window_stop_issue(c->window);
	/* Those whose own windows were taken away: they go into this one's graph. */
	capkm_window_drop_bodies(cuda, c->window);
	mode = capkm_cu_relax(cuda);
	c->graph = graph_new(cuda, c->window->origin);
	rc = finish(c, context);
	capkm_cu_restore(cuda, mode);
	capkm_window_disarm(cuda, c->window->origin);
	if (rc && cuda->cache)
		capkm_cache_discard(cuda->cache, c->window->id);
	capkm_window_detach(cuda, c->window);
	if (rc && c->graph)
		capkm_end_drop_graph(cuda, c->graph);
	if (rc)
		capkm_cuda_sweep(cuda);
	return rc;
}

/* The stream is claimed; @w: its own window, or NULL. */
static int end(struct capkm_cuda *cuda, struct stream *s, struct window *w,
	       const struct ending *e, void *context,
	       struct capkm_answer *answer, struct capkm_error *err)
{
	struct closing c = {
		.cuda = cuda, .window = w, .answer = answer, .err = err
	};
	int rc = e->check(cuda, s, w, e->call, context, err);

	if (rc)
		return rc;
	rc = close_window(&c, s, err);
	if (rc)
		return end_nothing(cuda, w, rc, err);
	if (w)
		return end_window(&c, e->finish, context);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the window was not prepared by the bridge; seal or refuse it by window_seal()",
		e->call);
}

/* @w: a reference to the stream's own window, or NULL. */
static int claim(struct capkm_cuda *cuda, cu_stream handle, const char *call,
		 struct stream **s, struct window **w, struct capkm_error *err)
{
	int rc = capkm_stream_find(cuda, handle, call, s, err);

	if (rc)
		return rc;
	rc = capkm_stream_claim(cuda, *s, call, err);
	if (rc)
		capkm_stream_put(cuda, *s);
	else
		*w = capkm_window_own(cuda, *s);
	return rc;
}

static void release(struct capkm_cuda *cuda, struct stream *s, struct window *w)
{
	if (w)
		capkm_window_put(cuda, w);
	capkm_stream_release(cuda, s);
}

int capkm_end_on(struct capkm_cuda *cuda, cu_stream handle,
		 const struct ending *e, void *context,
		 struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_answer a;	/* the bridge's copy, which is whole */
	struct stream *s;
	struct window *w;
	int rc = capkm_answer_get(&a, answer, e->nr, err);

	if (!rc)
		rc = claim(cuda, handle, e->call, &s, &w, err);
	if (rc)
		return rc;
	a.sz = sizeof(a);
	rc = end(cuda, s, w, e, context, &a, err);
	release(cuda, s, w);
	if (answer) {
		a.sz = answer->sz;
		capkm_answer_put(answer, &a);
	}
	return rc;
}

int capkm_end_no_memory(struct closing *c)
{
	capkm_no_memory("end_capture", c->err);
	return capkm_end_refuse(c, -ENOMEM, 0, "out of memory");
}

int capkm_end_capture(struct closing *c, cu_graph *raw)
{
	int result = capkm_window_end_capture(c->cuda, c->window, raw);

	driver_has_closed(c);
	if (result && !capkm_end_is_lost(c))
		return capkm_end_refuse_driver(c, result, "cuStreamEndCapture");
	return c->graph ? 0 : capkm_end_no_memory(c);
}

static int finish_own(struct closing *c, void *context)
{
	cu_graph raw = NULL;
	int rc = capkm_end_capture(c, &raw);

	if (!rc)
		rc = settle(c, raw, true);
	if (c->graph)
		c->graph->raw = raw;
	else if (raw)
		cu_call_on(c->cuda, c->window->origin, NULL, "end_capture",
			   cuGraphDestroy, raw);
	if (!rc)
		capkm_cuda_graph_add(c->cuda, c->graph);
	*(uint64_t *)context = rc ? 0 : c->graph->id;
	return rc;
}

int capkm_end_check_no_body(const struct window *w, const char *call,
			    struct capkm_error *err)
{
	if (!w || !w->parent)
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the window is a body of window %" PRIu64 "; cuda_body_end() ends it",
		call, w->parent->id);
}

static int check_own(struct capkm_cuda *cuda, const struct stream *s,
		     const struct window *w, const char *call, void *context,
		     struct capkm_error *err)
{
	(void)cuda;
	(void)s;
	(void)context;
	if (!w || !w->attached)
		return capkm_end_check_no_body(w, call, err);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: the capture was begun by somebody else, who ends it; then cuda_graph_seal()",
		call);
}

int capkm_cuda_graph_end(struct capkm_cuda *cuda, cu_stream handle,
			 uint64_t *graph, struct capkm_answer *answer,
			 struct capkm_error *err)
{
	static const struct ending ending = {
		"end_capture", CAPKM_NR_WINDOW_END, check_own, finish_own
	};

	*graph = 0;
	return capkm_end_on(cuda, handle, &ending, graph, answer, err);
}

struct given {
	cu_graph raw;
	cu_exec exec;
	uint64_t graph;
};

static int finish_given(struct closing *c, void *context)
{
	struct given *given = context;
	int rc;

	driver_has_closed(c);
	rc = c->graph ? settle(c, given->raw, false) : capkm_end_no_memory(c);
	if (rc)
		return rc;
	c->graph->exec = given->exec;
	capkm_cuda_graph_add(c->cuda, c->graph);
	given->graph = c->graph->id;
	return 0;
}

/* Somebody else has ended the capture of the window that is attached to it. */
static int check_ended(struct capkm_cuda *cuda, const struct stream *s,
		       const struct window *w, const char *call, void *context,
		       struct capkm_error *err)
{
	uint64_t id;
	int status, rc;

	(void)context;
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
	static const struct ending ending = {
		"cuda_graph_seal", CAPKM_NR_WINDOW_END, check_ended, finish_given
	};
	struct given given = { .raw = raw, .exec = exec };
	int rc = capkm_end_on(cuda, handle, &ending, &given, answer, err);

	*graph = given.graph;
	return rc;
}

int capkm_cuda_graph_abort(struct capkm_cuda *cuda, cu_stream handle,
			   struct capkm_error *err)
{
	struct stream *s;
	struct window *w;
	int rc = claim(cuda, handle, "window_abort", &s, &w, err);

	if (rc)
		return rc;
	if (w)
		capkm_window_drop(cuda, w);
	release(cuda, s, w);
	return 0;
}
