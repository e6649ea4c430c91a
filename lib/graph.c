// SPDX-License-Identifier: MIT
#include "internal.h"

#include <inttypes.h>

#define CLAIMS_PAGE 64u /* claims asked for at once */

static int replay(struct capkm *c, struct capkm_graph_replay_begin *arg,
		  uint32_t retry_ms, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_GRAPH_REPLAY_BEGIN;
	struct retry retry;
	int rc;

	capkm_retry_init(&retry, c, retry_ms);
	do {
		rc = capkm_do(c, nr, arg, err, "graph %" PRIu64,
			      (uint64_t)arg->graph);
		if (rc || arg->out_result != CAPKM_IN_PROGRESS)
			return rc;
	} while (capkm_retry_wait(&retry));
	return capkm_late(err, nr, retry.ms,
			  (void *)(uintptr_t)arg->reports_uptr);
}

int capkm_graph_replay_begin(struct capkm *c, uint64_t graph,
			     const struct capkm_where *where,
			     const struct capkm_replay_opts *opts,
			     uint32_t *result, struct capkm_report *why,
			     struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_GRAPH_REPLAY_BEGIN;
	struct capkm_report own;
	struct capkm_replay_opts o;
	struct capkm_graph_replay_begin arg = {
		.size = sizeof(arg),
		.graph = graph,
		.reports_uptr = uptr(why ? why : &own),
		.reports_len = 1,
	};
	int rc = capkm_opts(&o, sizeof(o), opts, capkm_op_name(nr), err);

	if (rc)
		return rc;
	arg.flags = o.flags;
	rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
	if (!rc)
		rc = replay(c, &arg, o.retry_ms, err);
	if (!rc)
		*result = arg.out_result;
	return rc;
}

int capkm_graph_replay_end(struct capkm *c, uint64_t graph, uint32_t flags,
			   struct capkm_error *err)
{
	struct capkm_graph_replay_end arg = {
		.size = sizeof(arg),
		.flags = flags,
		.graph = graph,
	};

	return capkm_do(c, CAPKM_NR_GRAPH_REPLAY_END, &arg, err,
			"graph %" PRIu64, graph);
}

int capkm_graph_replay_fail(struct capkm *c, uint64_t graph,
			    const struct capkm_cause *cause, uint64_t *failure,
			    struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_GRAPH_REPLAY_END;
	struct capkm_graph_replay_end arg = {
		.size = sizeof(arg),
		.flags = CAPKM_SCOPE_EXIT_F_FAILED,
		.graph = graph,
	};
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, nr, err);

	if (rc)
		return rc;
	arg.flags |= k.flags;
	arg.kind = k.kind ? k.kind : CAPKM_KIND_GENERIC;
	arg.code = k.code;
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	rc = capkm_do(c, nr, &arg, err, "graph %" PRIu64, graph);
	if (!rc && failure)
		*failure = arg.out_failure;
	return rc;
}

int capkm_graph_update(struct capkm *c, uint64_t graph, uint64_t window,
		       uint32_t flags, struct capkm_answer *answer,
		       struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_GRAPH_UPDATE;
	struct capkm_answer a;
	struct capkm_graph_update arg = {
		.size = sizeof(arg),
		.flags = flags,
		.graph = graph,
		.window = window,
	};
	int rc = capkm_answer_get(&a, answer, nr, err);

	if (rc)
		return rc;
	arg.reports_uptr = uptr(a.reports);
	arg.reports_len = a.reports_len;
	rc = capkm_do(c, nr, &arg, err,
		      "graph %" PRIu64 " with window %" PRIu64, graph, window);
	if (rc)
		return rc;
	a.out_reports = arg.out_reports;
	a.out_result = arg.out_result;
	capkm_answer_put(answer, &a);
	return 0;
}

/* Destroying twice is harmless: a stale id names no other graph. */
int capkm_graph_destroy(struct capkm *c, uint64_t graph,
			struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_GRAPH_DESTROY;
	struct capkm_graph_destroy arg = { .size = sizeof(arg), .graph = graph };
	int rc = capkm_call(c, nr, &arg);

	if (!rc || rc == -ENOENT)
		return 0;
	return capkm_refuse(c, err, nr, rc, &arg, "graph %" PRIu64, graph);
}

int capkm_graph_query(struct capkm *c, struct capkm_graph_query *query,
		      struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_GRAPH_QUERY, query, err,
			"graph %" PRIu64, (uint64_t)query->graph);
}

int capkm_graph_each_claim(struct capkm *c, uint64_t graph, uint32_t flags,
			   void (*f)(void *context,
				     const struct capkm_claim *claim),
			   void *context, struct capkm_error *err)
{
	struct capkm_claim page[CLAIMS_PAGE];
	struct capkm_graph_query q = {
		.size = sizeof(q), .flags = flags, .graph = graph,
		.claims_uptr = uptr(page), .claims_len = CLAIMS_PAGE,
	};
	uint32_t i;
	int rc;

	do {
		rc = capkm_graph_query(c, &q, err);
		for (i = 0; !rc && i < q.out_claims; i++)
			f(context, &page[i]);
		if (!rc && i) {
			q.from = page[i - 1];
			q.from.end++;
		}
	} while (!rc && q.out_claims == CLAIMS_PAGE);
	return rc;
}
