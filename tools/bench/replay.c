// SPDX-License-Identifier: GPL-2.0-only
/* Begin and end of a replay, of graphs that write more and more buffers. */
#include "bench.h"

#include <stdlib.h>

#define BYTES	4096u

struct graph {
	struct capkm *c;
	struct capkm_where where;
	uint64_t id;
};

/* Recorded by one scope: it reads one buffer, and writes a buffer for each claim. */
static void record(struct graph *g, const struct through *t, uint32_t claims)
{
	struct capkm_claim *writes = allocated(calloc(claims, sizeof(*writes)));
	struct capkm_claim in = { .end = BYTES };
	struct capkm_scope scope;

	*g = (struct graph){ .c = open_domain(t, 0, claims + 1), .where = { .stream = 1 } };
	in.buffer = buffer(g->c, BYTES);
	for (uint32_t i = 0; i < claims; i++)
		writes[i] = (struct capkm_claim){ .buffer = buffer(g->c, BYTES), .end = BYTES };
	TRY(capkm_window_prepare(g->c, &g->where, NULL, NULL, &err));
	TRY(capkm_window_begin(g->c, &g->where, 0, NULL, &err));
	TRY(capkm_scope_enter(g->c, &g->where, &in, 1, writes, claims, NULL, &scope, NULL, &err));
	TRY(capkm_scope_exit(g->c, &scope, 0, &err));
	TRY(capkm_window_close(g->c, &g->where, &g->id, NULL, &err));
	free(writes);
}

static void replay(void *state, uint64_t n)
{
	const struct graph *g = state;
	uint32_t result;

	while (n--) {
		TRY(capkm_graph_replay_begin(g->c, g->id, &g->where, NULL, &result, NULL, &err));
		if (result != CAPKM_CLEAN)
			die(FAILED, "a replay is %s", capkm_result_name(result));
		TRY(capkm_graph_replay_end(g->c, g->id, 0, &err));
	}
}

void measure_replay(void)
{
	static const uint32_t claims[] = { 10, 100, 500, 2000 };
	const struct through *const *t = throughs();
	const size_t n = throughs_len() * ARRAY_SIZE(claims);
	struct graph graphs[n];
	struct op ops[n];

	for (size_t i = 0; i < n; i++) {
		const struct through *by = t[i / ARRAY_SIZE(claims)];
		const uint32_t size = claims[i % ARRAY_SIZE(claims)];

		record(&graphs[i], by, size);
		ops[i] = (struct op){ .operation = "begin and end", .through = by->name,
			.size = size, .run = replay, .state = &graphs[i] };
	}
	measure("replay", ops, n);
	for (size_t i = 0; i < n; i++)
		capkm_close(graphs[i].c);
}
