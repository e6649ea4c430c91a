// SPDX-License-Identifier: MIT
/* Graphs: replay, destroy, what they need. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void capkm_cuda_graph_add(struct capkm_cuda *cuda, struct graph *g)
{
	pthread_mutex_lock(&cuda->lock);
	SLIST_INSERT_HEAD(&cuda->graphs, g, next);
	pthread_mutex_unlock(&cuda->lock);
}

int capkm_cuda_graph_get(struct capkm_cuda *cuda, uint64_t id, const char *call,
			 struct graph **out, struct capkm_error *err)
{
	struct graph *g;

	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(g, &cuda->graphs, next)
		if (g->id == id)
			break;
	if (g)
		g->refs++;
	pthread_mutex_unlock(&cuda->lock);
	*out = g;
	if (g)
		return 0;
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
		"%s: unknown or already-destroyed graph %" PRIu64, call, id);
}

static void graph_free(struct capkm_cuda *cuda, struct graph *g)
{
	const char *call = "graph_destroy";
	int mode = capkm_cu_relax(cuda);

	if (g->exec && g->owned)
		cu_call_on(cuda, g->stream, NULL, call, cuGraphExecDestroy,
			   g->exec);
	if (g->raw)
		cu_call_on(cuda, g->stream, NULL, call, cuGraphDestroy, g->raw);
	if (g->replayed)
		cu_call_on(cuda, g->stream, NULL, call, cuEventDestroy,
			   g->replayed);
	capkm_cu_restore(cuda, mode);
	if (g->id)
		capkm_graph_destroy(cuda->c, g->id, NULL);
	if (cuda->cache && g->id)
		capkm_cache_release(cuda->cache, g->id);
	capkm_pool_pins_put(g->pins);
	capkm_retained_free(&g->retained);
	while (g->children_len)
		capkm_cuda_graph_put(cuda, g->children[--g->children_len]);
	free(g->children);
	if (g->stream)
		capkm_stream_put(cuda, g->stream);
	free(g->inputs);
	free(g);
}

void capkm_cuda_graph_put(struct capkm_cuda *cuda, struct graph *g)
{
	bool last;

	pthread_mutex_lock(&cuda->lock);
	last = !--g->refs;
	pthread_mutex_unlock(&cuda->lock);
	if (!last)
		return;
	graph_free(cuda, g);
	capkm_cuda_sweep(cuda);
}

struct collecting {
	struct capkm_claim *claims;
	uint32_t len, capacity;
};

static void collect(void *context, const struct capkm_claim *claim)
{
	struct collecting *to = context;

	if (to->len < to->capacity)
		to->claims[to->len++] = *claim;
}

/* All claims of one kind, malloc()ed. */
static int claims_of(struct capkm_cuda *cuda, uint64_t graph, uint32_t flags,
		     struct collecting *out, struct capkm_error *err)
{
	struct capkm_graph_query q = { .size = sizeof(q), .graph = graph };
	int rc = capkm_graph_query(cuda->c, &q, err);

	*out = (struct collecting){ .claims = NULL };
	if (rc)
		return rc;
	out->capacity = flags & CAPKM_GRAPH_QUERY_F_INPUTS ? q.out_inputs :
							     q.out_writes;
	out->claims = calloc(out->capacity + 1, sizeof(*out->claims));
	if (!out->claims)
		return capkm_no_memory("graph_query", err);
	rc = capkm_graph_each_claim(cuda->c, graph, flags, collect, out, err);
	if (rc) {
		free(out->claims);
		out->claims = NULL;
	}
	return rc;
}

int capkm_cuda_graph_inputs(struct capkm_cuda *cuda, struct graph *g,
			    struct capkm_error *err)
{
	struct collecting inputs;
	uint64_t *buffers;
	uint32_t i, n = 0;
	int rc = claims_of(cuda, g->id, CAPKM_GRAPH_QUERY_F_INPUTS, &inputs,
			   err);

	if (rc)
		return rc;
	buffers = calloc(inputs.len + 1, sizeof(*buffers));
	/* They come in order of their buffers. */
	for (i = 0; buffers && i < inputs.len; i++)
		if (!n || buffers[n - 1] != inputs.claims[i].buffer)
			buffers[n++] = inputs.claims[i].buffer;
	free(inputs.claims);
	if (!buffers)
		return capkm_no_memory("end_capture", err);
	free(g->inputs);
	g->inputs = buffers;
	g->inputs_len = n;
	g->looked = UINT64_MAX;		/* nobody has looked for these */
	return 0;
}

/* replay */

static int check(struct capkm_cuda *cuda, struct graph *g,
		 struct capkm_error *err)
{
	uint64_t ended;

	if (g->broken)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"graph_replay: an update of graph %" PRIu64 " has failed; destroy it, and capture again",
			g->id);
	if (!g->exec)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"graph_replay: graph %" PRIu64 " was sealed without its executable; whoever has that launches it",
			g->id);
	if (cuda->pool && g->epoch != capkm_pool_epoch(cuda->pool))
		return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, 0,
			"graph_replay: the pool was reset since graph %" PRIu64 " was captured; capture it again",
			g->id);
	ended = capkm_cuda_find_ended(cuda, g->inputs, g->inputs_len, &g->looked);
	if (!ended)
		return 0;
	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, 0,
		"graph_replay: input freed: buffer %" PRIu64 ", which graph %" PRIu64 " reads; capture it again",
		ended, g->id);
}

/* The event of another context: waits for the last replay there. */
static void drop_event(struct capkm_cuda *cuda, struct graph *g,
		       const char *call)
{
	capkm_cu_error_at(cuda, g->event_context,
			  cuda->cu.cuEventSynchronize(g->replayed), call,
			  "cuEventSynchronize", NULL);
	capkm_cu_error_at(cuda, g->event_context,
			  cuda->cu.cuEventDestroy(g->replayed), call,
			  "cuEventDestroy", NULL);
	g->replayed = NULL;
}

/* An event of the stream's context, before anything is launched. */
static int make_event(struct capkm_cuda *cuda, struct graph *g,
		      const struct stream *s, struct capkm_error *err)
{
	const char *call = "graph_replay";
	cu_event event;
	int mode, rc;

	if (g->replayed && g->event_context == s->context)
		return 0;
	rc = capkm_cuda_event_new(cuda, s->context, call, &event, err);
	if (rc)
		return rc;
	if (g->replayed) {
		mode = capkm_cu_relax(cuda);
		drop_event(cuda, g, call);
		capkm_cu_restore(cuda, mode);
	}
	g->replayed = event;
	g->event_context = s->context;
	return 0;
}

/* What is behind the last replay can be waited for. */
static void mark(struct capkm_cuda *cuda, struct graph *g, struct stream *s)
{
	struct stream *old;

	g->unsure = cu_call_on(cuda, s, NULL, "graph_replay", cuEventRecord,
			       g->replayed, s->handle) != 0;
	pthread_mutex_lock(&cuda->lock);
	old = g->stream;
	g->stream = s;
	s->refs++;
	pthread_mutex_unlock(&cuda->lock);
	if (old)
		capkm_stream_put(cuda, old);
}

static int launch(struct capkm_cuda *cuda, struct stream *s, struct graph *g,
		  struct capkm_error *err)
{
	const bool was_lost = atomic_load(&s->context->lost);
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];
	int result = cuda->cu.cuGraphLaunch(g->exec, s->handle);

	if (!result) {
		capkm_context_works(s->context, was_lost);
		mark(cuda, g, s);
		return capkm_graph_replay_end(cuda->c, g->id, 0, err);
	}
	capkm_cu_cause(cuda, result, "cuGraphLaunch", &cause, text,
		       sizeof(text));
	capkm_graph_replay_fail(cuda->c, g->id, &cause, NULL, NULL);
	return capkm_cu_error_on(cuda, s, result, "graph_replay",
				 "cuGraphLaunch", err);
}

static int replay(struct capkm_cuda *cuda, struct stream *s, struct graph *g,
		  uint32_t *result, struct capkm_report *why,
		  struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(s);
	int rc = make_event(cuda, g, s, err);

	if (!rc)
		rc = capkm_graph_replay_begin(cuda->c, g->id, &where, NULL,
					      result, why, err);
	if (rc || *result != CAPKM_CLEAN)
		return rc;
	return launch(cuda, s, g, err);
}

/*
 * A launch into a capture breaks it, so the graph is added as a node, behind all that
 * the stream has recorded so far. The driver copies it.
 */
static int add_node(struct capkm_cuda *cuda, const struct stream *s,
		    const struct graph *g)
{
	const struct cu_driver *cu = &cuda->cu;
	const cu_node *dependencies;
	cu_graph graph;
	cu_node node;
	uint64_t id;
	size_t n;
	int status;
	int result = cu->cuStreamGetCaptureInfo(s->handle, &status, &id, &graph,
						&dependencies, &n);

	if (!result)
		result = cu->cuGraphAddChildGraphNode(&node, graph,
						      dependencies, n, g->raw);
	if (!result)
		result = cu->cuStreamUpdateCaptureDependencies(s->handle, &node,
			1, CU_SET_CAPTURE_DEPENDENCIES);
	return result;
}

/* Into a capture: the graph becomes a node, with all that it reads and writes. */
static int record(struct capkm_cuda *cuda, struct stream *s, struct graph *g,
		  const struct capture *capture, uint32_t *result,
		  struct capkm_report *why, struct capkm_error *err)
{
	const struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = "graph");
	struct collecting reads = { .claims = NULL }, writes = reads;
	struct capkm_scope scope;
	int rc;

	if (!g->raw)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"graph_replay: graph %" PRIu64 " was captured by somebody else, who has the CUgraph; add it to the capture, and call window_record()",
			g->id);
	rc = claims_of(cuda, g->id, CAPKM_GRAPH_QUERY_F_INPUTS, &reads, err);
	if (!rc)
		rc = claims_of(cuda, g->id, 0, &writes, err);
	if (!rc && capkm_window_keep(cuda, capture->window, g))
		rc = capkm_no_memory("graph_replay", err);
	if (!rc)
		rc = capkm_work_enter(cuda, s, capture, "graph_replay",
				      reads.claims, reads.len, writes.claims,
				      writes.len, &opts, &scope, why, err);
	if (!rc) {
		*result = scope.result;
		if (scope.id)
			rc = capkm_work_end(cuda, s, &scope,
					    add_node(cuda, s, g), "graph_replay",
					    "cuGraphAddChildGraphNode", err);
	}
	free(reads.claims);
	free(writes.claims);
	return rc;
}

/* Where it was replayed last, a reference; or NULL. */
static struct stream *replayed_on(struct capkm_cuda *cuda, const struct graph *g)
{
	struct stream *s;

	pthread_mutex_lock(&cuda->lock);
	s = g->stream;
	if (s)
		s->refs++;
	pthread_mutex_unlock(&cuda->lock);
	return s;
}

static bool captures(struct capkm_cuda *cuda, struct stream *s)
{
	bool records;
	int status, rc;

	pthread_mutex_lock(&cuda->lock);
	records = s->window && s->window->begun;
	pthread_mutex_unlock(&cuda->lock);
	if (records || s->legacy || !capkm_stream_is_mine(s))
		return records;
	rc = capkm_stream_status(cuda, s, "graph_destroy", &status, NULL);
	return rc ? rc == -EBUSY : status != CU_CAPTURE_NONE;
}

/* All that it writes is as if its last replay, on @s, had failed. */
static void taint(struct capkm_cuda *cuda, struct graph *g,
		  const struct stream *s, int result)
{
	const struct capkm_where where = capkm_stream_place(s);
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];
	uint32_t answer;

	capkm_cu_cause(cuda, result, "cuEventSynchronize", &cause, text,
		       sizeof(text));
	if (!capkm_graph_replay_begin(cuda->c, g->id, &where, NULL, &answer,
				      NULL, NULL) && answer == CAPKM_CLEAN)
		capkm_graph_replay_fail(cuda->c, g->id, &cause, NULL, NULL);
}

/*
 * For the event behind the last replay, not for the stream, which has other work; for the
 * stream, if it does not capture, where the event could not be recorded. CUresult
 */
static int wait_driver(struct capkm_cuda *cuda, const struct graph *g,
		       struct stream *s)
{
	struct capture on = { .how = CAPTURES };
	int result;

	if (g->unsure && capkm_stream_is_mine(s))
		capkm_stream_look(cuda, s, "graph_destroy", &on, NULL);
	if (on.looked) {
		capkm_capture_waits(cuda, &on);
		result = cuda->cu.cuStreamSynchronize(s->handle);
	} else {
		result = cuda->cu.cuEventSynchronize(g->replayed);
	}
	capkm_capture_put(cuda, &on);
	return result;
}

/* Until its last replay, on @s or on none, is done. */
static int wait_for(struct capkm_cuda *cuda, struct graph *g, struct stream *s,
		    struct capkm_error *err)
{
	int mode, result;

	if (!s)
		return 0;
	mode = capkm_cu_relax(cuda);
	result = wait_driver(cuda, g, s);
	capkm_cu_restore(cuda, mode);
	if (!result)
		return 0;
	taint(cuda, g, s, result);
	return capkm_cu_error_on(cuda, s, result, "graph_destroy",
				 "cuEventSynchronize", err);
}

/* Of a graph that was taken off its list. False: its stream captures, not now. */
static bool finish(struct capkm_cuda *cuda, struct graph *g,
		   struct capkm_error *err, int *rc)
{
	struct stream *s = replayed_on(cuda, g);
	const bool now = !s || !captures(cuda, s);

	if (now)
		*rc = wait_for(cuda, g, s, err);
	if (s)
		capkm_stream_put(cuda, s);
	return now;
}

static void put_off(struct capkm_cuda *cuda, struct graph *g)
{
	pthread_mutex_lock(&cuda->lock);
	SLIST_INSERT_HEAD(&cuda->late, g, next);
	pthread_mutex_unlock(&cuda->lock);
}

/* Graphs that were destroyed while a stream captured, and are done by now. */
static void sweep_late(struct capkm_cuda *cuda)
{
	SLIST_HEAD(, graph) list;
	struct graph *g;
	int rc;

	pthread_mutex_lock(&cuda->lock);
	SLIST_FIRST(&list) = SLIST_FIRST(&cuda->late);
	SLIST_INIT(&cuda->late);
	pthread_mutex_unlock(&cuda->lock);
	while ((g = SLIST_FIRST(&list))) {
		SLIST_REMOVE_HEAD(&list, next);
		if (finish(cuda, g, NULL, &rc))
			capkm_cuda_graph_put(cuda, g);
		else
			put_off(cuda, g);
	}
}

int capkm_cuda_graph_replay(struct capkm_cuda *cuda, cu_stream handle,
			    uint64_t graph, uint32_t *result,
			    struct capkm_report *why, struct capkm_error *err)
{
	const char *call = "graph_replay";
	struct capture capture;
	struct graph *g;
	struct stream *s;
	uint32_t own;
	int rc;

	rc = capkm_stream_get(cuda, handle, call, &s, &capture, err);
	if (rc)
		return rc;
	if (!result)
		result = &own;
	rc = capkm_cuda_graph_get(cuda, graph, call, &g, err);
	if (!rc) {
		rc = check(cuda, g, err);
		if (!rc && capture.how == CAPTURES)
			rc = capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
				"%s: the stream captures without a window; cuda_graph_attach() makes one",
				call);
		else if (!rc)
			rc = capture.how == RECORDS ?
				record(cuda, s, g, &capture, result, why, err) :
				replay(cuda, s, g, result, why, err);
		capkm_cuda_graph_put(cuda, g);
	}
	capkm_capture_put(cuda, &capture);
	capkm_stream_put(cuda, s);
	if (capture.how == NOT_CAPTURING)
		sweep_late(cuda);
	return rc;
}

/* destroy */

static bool unlist(struct capkm_cuda *cuda, struct graph *g)
{
	bool listed;

	pthread_mutex_lock(&cuda->lock);
	listed = !g->gone;
	if (listed) {
		g->gone = true;
		SLIST_REMOVE(&cuda->graphs, g, graph, next);
	}
	pthread_mutex_unlock(&cuda->lock);
	return listed;
}

int capkm_cuda_graph_destroy(struct capkm_cuda *cuda, uint64_t graph,
			     struct capkm_error *err)
{
	struct graph *g;
	int rc = capkm_cuda_usable(cuda, "graph_destroy", err);

	if (rc)
		return rc;
	if (capkm_cuda_graph_get(cuda, graph, "graph_destroy", &g, NULL))
		return 0;
	if (!unlist(cuda, g)) {
		capkm_cuda_graph_put(cuda, g);
		return 0;
	}
	capkm_cuda_graph_put(cuda, g);	/* the list's is left */
	if (!finish(cuda, g, err, &rc)) {
		put_off(cuda, g);
		return 0;
	}
	capkm_cuda_graph_put(cuda, g);
	sweep_late(cuda);
	return rc;
}

/* No stream captures any more. */
void capkm_cuda_graphs_close(struct capkm_cuda *cuda)
{
	struct graph *g;

	while ((g = SLIST_FIRST(&cuda->graphs)))
		capkm_cuda_graph_destroy(cuda, g->id, NULL);
	sweep_late(cuda);
}

/* Its own, and its bodies'. Graphs that are nodes of it answer for themselves. */
static uint64_t retained_by(const struct graph *g)
{
	uint64_t n = g->retained_len;
	uint32_t i;

	for (i = 0; i < g->children_len; i++)
		if (g->children[i]->body.graph)
			n += retained_by(g->children[i]);
	return n;
}

int capkm_cuda_graph_query(struct capkm_cuda *cuda, uint64_t graph,
			   struct capkm_cuda_graph_query *query,
			   struct capkm_error *err)
{
	const char *call = "cuda_graph_query";
	struct capkm_cuda_graph_query q;
	const size_t sz = query->sz;
	struct graph *g;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_opts(&q, sizeof(q), query, call, err);
	if (!rc)
		rc = capkm_cuda_graph_get(cuda, graph, call, &g, err);
	if (rc)
		return rc;
	q = (struct capkm_cuda_graph_query){
		.sz = sz,
		.nodes = g->found.nodes,
		.kernels = g->found.kernels,
		.copies = g->found.copies,
		.opaque = g->found.opaque,
		.seen = g->found.seen,
		.retained = retained_by(g),
		.host_unchecked = g->found.host_unchecked +
				  g->found.host_unchecked_calls,
		.exec = g->exec,
	};
	capkm_cuda_graph_put(cuda, g);
	memcpy(query, &q, sz < sizeof(q) ? sz : sizeof(q));
	return 0;
}

int capkm_cuda_set_pool(struct capkm_cuda *cuda, struct capkm_pool *pool,
			struct capkm_cache *cache, struct capkm_error *err)
{
	struct stream *s;
	bool busy;
	int rc = capkm_cuda_usable(cuda, "cuda_set_pool", err);

	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	busy = !SLIST_EMPTY(&cuda->graphs) || !SLIST_EMPTY(&cuda->late);
	SLIST_FOREACH(s, &cuda->streams, next)
		busy |= s->window != NULL;
	if (!busy) {
		cuda->pool = pool;
		cuda->cache = cache;
	}
	pthread_mutex_unlock(&cuda->lock);
	return busy ? capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"cuda_set_pool: a window is active, or there are graphs") : 0;
}
