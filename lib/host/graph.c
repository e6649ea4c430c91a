// SPDX-License-Identifier: MIT
/* Windows, the graphs that they become, and replays. */
#include "host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY	16u

/* recording */

int capkm_recording_lost(struct slot *slot, const char *call,
			 struct capkm_error *err)
{
	slot->recording->lost = true;
	return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0,
		"%s: window %" PRIu64 ", which recorded here, was taken away; end or abort it",
		call, slot->recording->window);
}

static int grow(struct recording *rec)
{
	uint32_t capacity = rec->capacity ? rec->capacity * 2 : FIRST_CAPACITY;
	void *list = realloc(rec->list, capacity * sizeof(*rec->list));

	if (!list)
		return -ENOMEM;
	rec->list = list;
	rec->capacity = capacity;
	return 0;
}

/* Entered; in the window that it belongs in, or that one is gone. */
static int leave(struct slot *slot, struct capkm_scope *scope,
		  const char *why, const char *call, uint32_t *result,
		  struct capkm_error *err)
{
	struct capkm *c = slot->host->c;
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_LAUNCH, .code = -ENOEXEC, .text = why);

	if (scope->window != slot->recording->window) {
		cause.code = -ECANCELED;
		cause.text = "it was to be recorded in a window that was taken away";
		capkm_scope_fail(c, scope, &cause, NULL);
		return capkm_recording_lost(slot, call, err);
	}
	if (why) {
		*result = CAPKM_TAINTED;
		return capkm_scope_fail(c, scope, &cause, err);
	}
	return capkm_scope_exit(c, scope, 0, err);
}

static bool writes_nowhere(const struct dispatch *d)
{
	uint32_t i;

	for (i = 0; i < d->uses_len; i++)
		if (d->uses[i].access & CAPKM_HOST_WRITE &&
		    !d->uses[i].memory->address)
			return true;
	return false;
}

static int add(struct slot *slot, struct dispatch *d, const char *why,
	       const char *call, uint32_t *result, struct capkm_error *err)
{
	struct recording *rec = slot->recording;
	const struct capkm_where where = capkm_host_where(d->stream);
	const struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = d->kernel->name, .flags = d->poison);
	struct capkm_scope scope;
	int rc;

	if (rec->lost)
		return capkm_recording_lost(slot, call, err);
	if (writes_nowhere(d))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: it writes memory that was never allocated, so there is nothing to record",
			call);
	if (rec->len == rec->capacity && grow(rec))
		return capkm_no_memory(call, err);
	rc = capkm_scope_enter(slot->host->c, &where, d->reads,
			       why ? 0 : d->reads_len, d->writes,
			       d->writes_len, &opts, &scope, NULL, err);
	if (rc)
		return rc;
	*result = scope.result;
	if (!scope.id) {
		slot->skipped++;
		return 0;
	}
	rc = leave(slot, &scope, why, call, result, err);
	if (rc || why) {
		slot->failed++;
		return rc;
	}
	rec->list[rec->len++] = d;
	return 0;
}

int capkm_recording_add(struct slot *slot, struct dispatch *d, const char *why,
			const char *call, uint32_t *result,
			struct capkm_error *err)
{
	const uint32_t before = slot->recording->len;
	int rc = add(slot, d, why, call, result, err);

	if (slot->recording->len == before)
		capkm_dispatch_free(slot->host, d);
	return rc;
}

void capkm_recording_doom(struct slot *slot, uint64_t stream,
			  const char *label, int rc)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_LAUNCH, .code = rc,
		.text = "it could not be recorded");

	if (capkm_window_fail(slot->host->c, slot->recording->window, stream,
			      label, &cause, NULL))
		slot->recording->missed = rc;
}

int capkm_recording_join(struct slot *slot, uint64_t stream,
			 struct recording *rec, struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	int rc;

	if (slot->recording)
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"host_event_wait: the slot has window %" PRIu64 ", so it cannot join window %" PRIu64,
			slot->recording->window, rec->window);
	rc = capkm_window_join(slot->host->c, rec->window, &where, 0, NULL, err);
	if (!rc)
		slot->recording = rec;
	return rc;
}

/* It is nobody's any more; its members work for themselves. */
static struct recording *detach(struct slot *slot)
{
	struct capkm_host *host = slot->host;
	struct recording *rec = slot->recording;
	uint32_t i;

	for (i = 0; i < host->slots_len; i++)
		if (host->slots[i] && host->slots[i]->recording == rec)
			host->slots[i]->recording = NULL;
	return rec;
}

static void recording_free(struct capkm_host *host, struct recording *rec)
{
	while (rec->len)
		capkm_dispatch_free(host, rec->list[--rec->len]);
	free(rec->list);
	free(rec);
}

static void drop(struct slot *slot)
{
	struct capkm_host *host = slot->host;
	struct recording *rec = detach(slot);

	/* In a child the cache's lock may be held by nobody that there is. */
	if (!capkm_host_inherited(host)) {
		capkm_pool_capture_end(host->pool, slot->index, NULL, NULL);
		capkm_pool_capture_end(host->metadata, slot->index, NULL, NULL);
		capkm_cache_discard(host->cache, rec->window);
	}
	recording_free(host, rec);
}

void capkm_recording_give_up(struct slot *slot)
{
	struct capkm_host *host = slot->host;
	const struct capkm_where where = {
		.slot = slot->index, .flags = CAPKM_WHERE_SLOT
	};

	if (!capkm_host_inherited(host))
		capkm_window_abort(host->c, &where, slot->recording->window,
				   NULL, NULL);
	drop(slot);
}

/* graphs */

void capkm_graph_put(struct capkm_host *host, struct graph *g)
{
	if (--g->refs)
		return;
	if (!capkm_host_inherited(host)) {
		if (g->authority)
			capkm_graph_destroy(host->c, g->authority, NULL);
		capkm_cache_release(host->cache, g->id);
	}
	capkm_pool_pins_put(g->pins);
	capkm_pool_pins_put(g->metadata_pins);
	while (g->uses_len) {
		struct use *use = &g->uses[--g->uses_len];

		if (use->access & CAPKM_HOST_WRITE)
			capkm_memory_unuse(host, use->memory);
		capkm_memory_put(use->memory);
	}
	free(g->uses);
	while (g->len)
		capkm_dispatch_free(host, g->list[--g->len]);
	free(g->list);
	free(g);
}

static int by_memory(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	return (x->memory > y->memory) - (x->memory < y->memory);
}

/* Each memory that the recording uses, once; room was made. No references yet. */
static void merge_uses(struct graph *g, const struct recording *rec)
{
	uint32_t i, j, n = 0;

	for (i = 0; i < rec->len; i++)
		for (j = 0; j < rec->list[i]->uses_len; j++)
			g->uses[n++] = rec->list[i]->uses[j];
	qsort(g->uses, n, sizeof(*g->uses), by_memory);
	for (i = 0; i < n; i++) {
		if (g->uses_len &&
		    g->uses[g->uses_len - 1].memory == g->uses[i].memory)
			g->uses[g->uses_len - 1].access |= g->uses[i].access;
		else
			g->uses[g->uses_len++] = g->uses[i];
	}
}

/* The authority knows, byte by byte, what the graph needs from outside. */
static void mark_input(void *context, const struct capkm_claim *input)
{
	struct graph *g = context;
	uint32_t i;

	for (i = 0; i < g->uses_len; i++) {
		const struct capkm_claim *all = &g->uses[i].memory->claim;

		if (all->buffer == input->buffer && all->start <= input->start &&
		    input->end <= all->end)
			g->uses[i].access |= USE_INPUT;
	}
}

/*
 * The graph keeps what it writes. What it only reads may be freed, and then it
 * cannot be replayed: whoever frees an input has no use for what comes of it.
 */
static void take_over(struct capkm_host *host, struct graph *g,
		      struct recording *rec)
{
	uint32_t i;

	for (i = 0; i < g->uses_len; i++) {
		capkm_memory_get(g->uses[i].memory);
		if (g->uses[i].access & CAPKM_HOST_WRITE)
			capkm_memory_use(g->uses[i].memory);
	}
	for (i = 0; i < rec->len; i++)
		capkm_dispatch_forget(host, rec->list[i]);
	g->list = rec->list;
	g->len = rec->len;
	rec->list = NULL;
	rec->len = 0;
}

/* All that the end needs, before anything has changed. */
static struct graph *graph_new(struct slot *slot, const char *call,
			       struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	const struct recording *rec = slot->recording;
	struct graph *g = calloc(1, sizeof(*g));
	uint32_t i, uses = 1;
	int rc = -ENOMEM;

	for (i = 0; i < rec->len; i++)
		uses += rec->list[i]->uses_len;
	if (g)
		g->uses = calloc(uses, sizeof(*g->uses));
	if (g && g->uses)
		rc = capkm_table_add(&host->graphs, g, &g->id);
	if (!rc)
		rc = capkm_pool_capture_end(host->pool, slot->index, &g->pins,
					    NULL);
	if (!rc)
		rc = capkm_pool_capture_end(host->metadata, slot->index,
					    &g->metadata_pins, NULL);
	if (!rc) {
		g->refs = 1;
		g->epoch = capkm_pool_epoch(host->pool);
		return g;
	}
	capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: out of memory", call);
	if (g) {
		capkm_table_remove(&host->graphs, g->id);
		capkm_pool_pins_put(g->pins);
		free(g->uses);
		free(g);
	}
	return NULL;
}

/* 1: the lock was released meanwhile. */
static int settle_list(struct slot *slot)
{
	const struct recording *rec = slot->recording;
	uint32_t i;
	int rc = 0;

	/* After a wait the recording may be gone. */
	for (i = 0; !rc && rec && i < rec->len; i++)
		rc = capkm_uses_settle(slot->host, rec->list[i]->uses,
				       rec->list[i]->uses_len);
	return rc;
}

/*
 * What was issued before has run: on the slot, and on others what uses memory that
 * was recorded, for it is tainted if the window is refused.
 */
static int drained(struct slot *slot, const char *call,
		   struct capkm_error *err)
{
	int rc = capkm_slot_drain(slot);

	while (!rc) {
		rc = settle_list(slot);
		if (!rc)
			return 0;
		rc = rc > 0 ? capkm_slot_drain(slot) : rc;
	}
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"%s: no thread could be started for what was issued before",
		call);
}

/* prepare */

/* The declared sizes, all at once, so that the recording finds them. */
static int prime(struct capkm_host *host, uint32_t slot,
		 const struct capkm_host_graph_opts *o,
		 struct capkm_error *err)
{
	uint64_t *had = calloc(o->sizes_len + 1, sizeof(*had));
	struct capkm_error why = CAPKM_OPTS(struct capkm_error);
	uint32_t i, n = 0;
	int rc = had ? 0 : -ENOMEM;

	while (!rc && n < o->sizes_len) {
		rc = capkm_pool_alloc(host->pool, slot, o->sizes[n], &had[n],
				      &why);
		n += !rc;
	}
	for (i = 0; i < n; i++)
		capkm_pool_free(host->pool, had[i], NULL);
	free(had);
	if (rc)
		capkm_error_set(err, rc, n, 0,
			"graph_prepare: declared size %" PRIu32 " cannot be had: %s",
			n, had ? why.text : "out of memory");
	return rc;
}

static int prepare(struct slot *slot, uint64_t stream,
		   const struct capkm_host_graph_opts *o, uint64_t *window,
		   struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	const struct capkm_where where = capkm_host_where(stream);
	const struct capkm_window_opts opts = CAPKM_OPTS(struct capkm_window_opts,
		.cookie = o->cookie, .mode = o->mode, .flags = o->flags);
	struct recording *rec = calloc(1, sizeof(*rec));
	int rc;

	if (!rec)
		return capkm_no_memory("graph_prepare", err);
	rec->slot = slot->index;
	rc = capkm_window_prepare(host->c, &where, &opts, &rec->window, err);
	if (rc) {
		free(rec);
		return rc;
	}
	/* An older window of the slot was taken away, or there would be no new one. */
	if (capkm_slot_is_origin(slot))
		drop(slot);
	slot->recording = rec;
	rc = capkm_pool_capture_begin(host->pool, slot->index, err);
	if (!rc)
		rc = capkm_pool_capture_begin(host->metadata, slot->index, err);
	if (!rc)
		rc = prime(host, slot->index, o, err);
	if (rc) {
		capkm_recording_give_up(slot);
		return rc;
	}
	slot->window = rec->window;
	if (window)
		*window = rec->window;
	return 0;
}

int capkm_host_graph_prepare(struct capkm_host *host, uint64_t stream,
			     const struct capkm_host_graph_opts *opts,
			     uint64_t *window, struct capkm_error *err)
{
	const char *call = "graph_prepare";
	struct capkm_host_graph_opts o;
	struct slot *slot;
	int rc = capkm_opts(&o, sizeof(o), opts, call, err);

	if (!rc && o.sizes_len && !o.sizes)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				     "graph_prepare: sizes is NULL");
	if (!rc)
		rc = capkm_host_enter(host, call, err);
	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc)
		rc = drained(slot, call, err);
	if (!rc)
		rc = prepare(slot, stream, &o, window, err);
	capkm_host_leave(host);
	return rc;
}

/* begin */

/* The warm-up has run to its end, and the slot can go on. */
static int finish_warm_up(struct slot *slot, uint64_t stream,
			  struct capkm_error *err)
{
	struct capkm *c = slot->host->c;
	struct capkm_stream_query q = {
		.size = sizeof(q), .place.stream = stream
	};
	int rc = capkm_stream_query(c, &q, err);

	if (rc || !q.out_failure)
		return rc;
	return capkm_error_set(err, -EIO, CAPKM_NO_INDEX, q.out_failure,
		"begin_capture: the context has faulted (failure %" PRIu64 "); renew it, and prepare again",
		(uint64_t)q.out_failure);
}

static int begin(struct slot *slot, uint64_t stream, struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	const struct capkm_where where = capkm_host_where(stream);
	struct recording *rec = slot->recording;
	int rc;

	if (!capkm_slot_is_origin(slot)) {
		rc = capkm_window_begin(host->c, &where, 0, NULL, err);
		if (rc)
			return rc;
		/* Who prepared it by himself has nobody who would record. */
		capkm_window_abort(host->c, &where, 0, NULL, NULL);
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"begin_capture: the window was not prepared by the executor; it was aborted");
	}
	rc = capkm_window_begin(host->c, &where, 0, NULL, err);
	if (rc)
		return rc;
	rec->begun = true;
	rc = finish_warm_up(slot, stream, err);
	if (!rc)
		rc = capkm_pool_priming_end(host->pool, slot->index, err);
	if (!rc)
		rc = capkm_pool_priming_end(host->metadata, slot->index, err);
	if (rc)
		capkm_recording_give_up(slot);
	return rc;
}

int capkm_host_graph_begin(struct capkm_host *host, uint64_t stream,
			   struct capkm_error *err)
{
	const char *call = "begin_capture";
	struct slot *slot;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc)
		rc = drained(slot, call, err);
	if (!rc)
		rc = begin(slot, stream, err);
	capkm_host_leave(host);
	return rc;
}

/* end */

/* The slot records no window of the executor, or its own that is only a member. */
static int end_without(struct slot *slot, uint64_t stream,
		       struct capkm_answer *answer, struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	uint64_t graph = 0;
	int rc = capkm_window_close(slot->host->c, &where, &graph, answer, err);

	if (rc)
		return rc;
	/* A window of somebody who knows no more of it than the executor does. */
	capkm_graph_destroy(slot->host->c, graph, NULL);
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"end_capture: the window was not prepared by the executor; there is nothing to replay");
}

static void refuse_graph(struct slot *slot, struct graph *g)
{
	struct capkm_host *host = slot->host;

	capkm_table_remove(&host->graphs, g->id);
	g->uses_len = 0;
	capkm_graph_put(host, g);
	drop(slot);
}

static int end(struct slot *slot, uint64_t stream, uint64_t *graph,
	       struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	const struct capkm_where where = capkm_host_where(stream);
	struct graph *g;
	struct recording *rec;
	int rc = slot->recording->missed;

	if (rc) {
		capkm_recording_give_up(slot);
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"end_capture: a launch could not be recorded, and the authority not be told; the window was aborted");
	}
	g = graph_new(slot, "end_capture", err);
	if (!g) {
		capkm_recording_give_up(slot);
		return -ENOMEM;
	}
	rc = capkm_window_close(host->c, &where, &g->authority, answer, err);
	if (rc) {
		/* If it is still there (a child window is open), it goes. */
		capkm_window_abort(host->c, &where, slot->recording->window,
				   NULL, NULL);
		refuse_graph(slot, g);
		return rc;
	}
	merge_uses(g, slot->recording);
	rc = capkm_graph_each_claim(host->c, g->authority,
				    CAPKM_GRAPH_QUERY_F_INPUTS, mark_input, g,
				    err);
	if (rc) {
		refuse_graph(slot, g);
		return rc;
	}
	rec = detach(slot);
	take_over(host, g, rec);
	capkm_cache_commit(host->cache, rec->window, g->id);
	recording_free(host, rec);
	*graph = g->id;
	return 0;
}

int capkm_host_graph_end(struct capkm_host *host, uint64_t stream,
			 uint64_t *graph, struct capkm_answer *answer,
			 struct capkm_error *err)
{
	const char *call = "end_capture";
	struct slot *slot;
	int rc;

	*graph = 0;
	rc = capkm_host_enter(host, call, err);
	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc)
		rc = drained(slot, call, err);
	if (!rc && capkm_slot_is_origin(slot))
		rc = end(slot, stream, graph, answer, err);
	else if (!rc)
		rc = end_without(slot, stream, answer, err);
	capkm_host_leave(host);
	return rc;
}

int capkm_host_graph_abort(struct capkm_host *host, uint64_t stream,
			   struct capkm_error *err)
{
	const char *call = "window_abort";
	struct slot *slot;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc)
		rc = drained(slot, call, err);
	if (!rc && capkm_slot_is_origin(slot))
		capkm_recording_give_up(slot);
	capkm_host_leave(host);
	return rc;
}

/* replay */

/* Claims of a launch without work stay, so nobody may have needed them gone. */
static int check_work(struct dispatch *d, char *why, size_t why_size)
{
	if (!d->has_grid)
		return 1;
	memcpy(d->grid, d->grid_at, sizeof(d->grid));
	if (d->grid[0] && d->grid[1] && d->grid[2])
		return 1;
	if (!d->stale)
		return 0;
	snprintf(why, why_size,
		 "its grid was empty, and what it would write was tainted before");
	return -ENODATA;
}

int capkm_graph_run(struct slot *slot, struct task *task)
{
	const struct graph *g = task->graph;
	char why[128];
	uint32_t i;
	int rc;

	for (i = 0; i < g->len; i++) {
		struct dispatch *d = g->list[i];

		rc = check_work(d, why, sizeof(why));
		if (!rc)
			continue;
		task->ran += rc > 0;
		rc = rc < 0 ? rc : capkm_dispatch_run(slot->host, d, why,
						      sizeof(why));
		if (!rc)
			continue;
		snprintf(task->why, sizeof(task->why),
			 "%s, %" PRIu32 " of %" PRIu32 ": %s", d->kernel->name,
			 i + 1, g->len, why);
		return rc;
	}
	return 0;
}

void capkm_graph_find_stale(struct slot *slot, struct graph *g)
{
	uint32_t i;

	for (i = 0; i < g->len; i++) {
		struct dispatch *d = g->list[i];
		struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);

		if (d->has_grid)
			d->stale = capkm_check(slot->host->c, d->writes,
					       d->writes_len, &a, NULL) ||
				   a.out_result != CAPKM_CLEAN;
	}
}

/* What the last window of the slot says to a caller who has no graph of it. */
static int no_graph(struct slot *slot, struct capkm_error *err)
{
	char text[400];
	const uint64_t failure = capkm_window_why(slot->host->c, slot->window,
						  text, sizeof(text));

	if (!*text)
		return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
			"graph_replay: 0 is no graph; end_capture gives one");
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, failure,
		"graph_replay: 0 is no graph; the last window here, %" PRIu64 ", was refused: %s",
		slot->window, text);
}

static int check_graph(struct capkm_host *host, const struct graph *g,
		       struct capkm_error *err)
{
	uint32_t i;

	if (g->epoch != capkm_pool_epoch(host->pool))
		return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, 0,
			"graph_replay: the executor was reset since graph %" PRIu64 " was captured; capture it again",
			g->id);
	for (i = 0; i < g->uses_len; i++) {
		const struct use *use = &g->uses[i];

		if (use->memory->freed && (use->access & USE_INPUT ||
					   !(use->access & CAPKM_HOST_WRITE)))
			return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, 0,
				"graph_replay: input freed: memory %" PRIu64 ", which graph %" PRIu64 " reads; capture it again",
				use->memory->id, g->id);
	}
	return 0;
}

/* On a slot that records: the authority refuses it, and taints what it writes. */
static int refuse_replay(struct slot *slot, uint64_t stream,
			 const struct graph *g, uint32_t *result,
			 struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	struct capkm *c = slot->host->c;
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.text = "it was issued in a window that was taken away");
	struct capkm_report why;
	int rc;

	if (slot->recording->lost)
		return capkm_recording_lost(slot, "graph_replay", err);
	rc = capkm_graph_replay_begin(c, g->authority, &where, NULL, result,
				      &why, err);
	if (rc)
		return rc;
	if (*result == CAPKM_CLEAN) {
		capkm_graph_replay_fail(c, g->authority, &cause, NULL, NULL);
		return capkm_recording_lost(slot, "graph_replay", err);
	}
	return capkm_error_set(err, 0, CAPKM_NO_INDEX, why.failure, "%s",
			       (const char *)why.text);
}

static int replay(struct slot *slot, uint64_t stream, struct graph *g,
		  struct task *task, uint32_t *result, struct capkm_error *err)
{
	struct capkm_host *host = slot->host;
	uint32_t i;
	int rc;

	*result = CAPKM_CLEAN;
	do {
		rc = check_graph(host, g, err);
		if (rc)
			return rc;
		if (!capkm_slot_records(slot)) {
			rc = capkm_slot_room(slot);
			continue;
		}
		/* Of two replays that only read none waits for the other's memory. */
		rc = capkm_mark_settle(host, g->replayed);
		if (!rc)
			rc = capkm_uses_settle(host, g->uses, g->uses_len);
		if (!rc)
			return refuse_replay(slot, stream, g, result, err);
	} while (rc > 0);
	if (rc)
		return capkm_host_no_thread(rc, "graph_replay", err);
	g->refs++;
	for (i = 0; i < g->uses_len; i++)
		capkm_memory_use(g->uses[i].memory);
	task->graph = g;
	capkm_task_issue(slot, task, g->uses, g->uses_len);
	return 0;
}

static int find_graph(struct capkm_host *host, uint64_t id, const char *call,
		      struct graph **out, struct capkm_error *err)
{
	*out = capkm_table_find(&host->graphs, id);
	if (*out)
		return 0;
	if (id && capkm_table_is_foreign(&host->graphs, id))
		return capkm_host_unknown(&host->graphs, id, call, "graph",
					  CAPKM_NO_INDEX, err);
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
		"%s: unknown or already-destroyed graph %" PRIu64, call, id);
}

int capkm_host_graph_replay(struct capkm_host *host, uint64_t stream,
			    uint64_t graph, uint32_t *result,
			    struct capkm_error *err)
{
	const char *call = "graph_replay";
	struct graph *g;
	struct slot *slot;
	struct task *task;
	uint32_t own;
	int rc = capkm_host_enter(host, call, err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc && !graph)
		rc = no_graph(slot, err);
	else if (!rc)
		rc = find_graph(host, graph, call, &g, err);
	if (rc)
		goto out;
	task = capkm_task_new(host, stream);
	if (!task) {
		rc = capkm_no_memory("graph_replay", err);
		goto out;
	}
	g->refs++;
	rc = replay(slot, stream, g, task, result ? result : &own, err);
	if (!task->graph)
		capkm_task_free(host, task);
	capkm_graph_put(host, g);
out:
	capkm_host_leave(host);
	return rc;
}

int capkm_host_graph_destroy(struct capkm_host *host, uint64_t graph,
			     struct capkm_error *err)
{
	struct graph *g;
	int rc = capkm_host_enter(host, "graph_destroy", err);

	if (rc)
		return rc;
	g = capkm_table_find(&host->graphs, graph);
	if (g) {
		capkm_table_remove(&host->graphs, graph);
		capkm_graph_put(host, g);
	} else if (graph && capkm_table_is_foreign(&host->graphs, graph)) {
		rc = capkm_host_unknown(&host->graphs, graph, "graph_destroy",
					"graph", CAPKM_NO_INDEX, err);
	}
	capkm_host_leave(host);
	return rc;
}

int capkm_host_graph_find(struct capkm_host *host, uint64_t graph,
			  uint64_t *authority, struct capkm_error *err)
{
	struct graph *g;
	int rc = capkm_host_enter(host, "host_graph_find", err);

	if (rc)
		return rc;
	rc = find_graph(host, graph, "host_graph_find", &g, err);
	if (!rc)
		*authority = g->authority;
	capkm_host_leave(host);
	return rc;
}
