// SPDX-License-Identifier: MIT
/* Graphs whose executable takes what a window has recorded. */
#include "window.h"

#include <inttypes.h>
#include <stdlib.h>

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
	return capkm_end_refuse_driver(c, result, "cuGraphExecUpdate");
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
		return capkm_end_refuse(c, rc, 0, "the graph could not be updated");
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
	int rc = capkm_end_capture(c, &raw);

	if (!rc && capkm_end_is_lost(c))
		rc = capkm_end_seal(c);
	else if (!rc)
		rc = raw ? capkm_end_inspect(c, raw) :
			   capkm_end_refuse_found(c, "the capture gave no graph");
	if (!rc)
		rc = update(c, g, raw);
	if (raw)
		cu_call_on(c->cuda, c->window->origin, NULL, "end_capture",
			   cuGraphDestroy, raw);
	if (rc)
		return rc;
	/* What the window's pool touched is the updated graph's, too. */
	old = g->pins;
	g->pins = c->graph->pins;
	c->graph->pins = old;
	if (c->cuda->cache)
		capkm_cache_commit(c->cuda->cache, c->window->id, g->id);
	capkm_end_drop_graph(c->cuda, c->graph);
	return 0;
}

static int check_update(struct capkm_cuda *cuda, const struct stream *s,
			const struct window *w, const char *call, void *context,
			struct capkm_error *err)
{
	const struct graph *g = context;

	(void)cuda;
	(void)s;
	if (g->owned && !g->broken)
		return capkm_end_check_no_body(w, call, err);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: graph %" PRIu64 " was not made by cuda_graph_end(), or an update of it has failed",
		call, g->id);
}

int capkm_cuda_graph_update(struct capkm_cuda *cuda, cu_stream handle,
			    uint64_t graph, struct capkm_answer *answer,
			    struct capkm_error *err)
{
	static const struct ending ending = {
		"cuda_graph_update", CAPKM_NR_GRAPH_UPDATE, check_update, finish_update
	};
	struct graph *g;
	int rc = capkm_cuda_usable(cuda, ending.call, err);

	if (!rc)
		rc = capkm_cuda_graph_get(cuda, graph, ending.call, &g, err);
	if (rc)
		return rc;
	rc = capkm_end_on(cuda, handle, &ending, g, answer, err);
	capkm_cuda_graph_put(cuda, g);
	return rc;
}
