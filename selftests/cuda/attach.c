// SPDX-License-Identifier: GPL-2.0-only
/* Captures that a framework began itself; and graphs that are updated. */
#include "bridge.h"

/* The framework's: it captures on @s, and gets the graph. */
static void framework_begins(cu_stream s)
{
	CU_DO(cuStreamBeginCapture(s, CU_MODE_GLOBAL));
}

static cu_exec framework_ends(cu_stream s, cu_graph *raw)
{
	cu_exec exec = NULL;

	CU_DO(cuStreamEndCapture(s, raw));
	CU_DO(cuGraphInstantiateWithFlags(&exec, *raw, 0));
	return exec;
}

static void framework_forgets(cu_graph raw, cu_exec exec)
{
	CU_DO(cuGraphExecDestroy(exec));
	CU_DO(cuGraphDestroy(raw));
}

/* Attached to, sealed from the raw graph and its executable, replayed by the bridge. */
TEST_F(bridge, attach_and_seal)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 0, w = 0;
	struct capkm_cuda_graph_query q;
	cu_graph raw = NULL;
	cu_exec exec;

	framework_begins(s);
	OK(capkm_cuda_graph_attach(g->b, s, WITH(struct capkm_cuda_graph_opts,
		.cookie = 42, .mode = CAPKM_CUDA_MODE_GLOBAL), &w, &err));
	ASSERT_STREQ("global", (char *)b_window(g, w).out_mode);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, b_state(g, &self->on_s));
	c_inc(g, s, m);
	exec = framework_ends(s, &raw);
	OK(capkm_cuda_graph_seal(g->b, s, raw, exec, &graph, NULL, &err));
	q = c_query(g, graph);
	ASSERT_EQ(1, q.kernels);
	ASSERT_EQ(0, q.seen);
	ASSERT_EQ((uintptr_t)exec, (uintptr_t)q.exec);
	c_is(g, s, m, 5);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	c_destroy(g, graph);
	/* Both stayed his. */
	CU(cuGraphLaunch(exec, s));
	c_sync(g, s);
	framework_forgets(raw, exec);
	b_usable(g, s, &self->on_s);
	NOTHING_BROKE();
}

/* Sealed without the executable: he replays, in brackets. */
TEST_F(bridge, sealed_without_exec)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 0;
	uint32_t result = 77;
	cu_graph raw = NULL;
	cu_exec exec;

	framework_begins(s);
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_inc(g, s, m);
	exec = framework_ends(s, &raw);
	OK(capkm_cuda_graph_seal(g->b, s, raw, NULL, &graph, NULL, &err));
	ASSERT_EQ(-EINVAL, c_try_replay(g, s, graph).rc);
	SAYS("without its executable");
	OK(capkm_graph_replay_begin(g->c, graph, &self->on_s, NULL, &result, NULL, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	CU(cuGraphLaunch(exec, s));
	OK(capkm_graph_replay_end(g->c, graph, 0, &err));
	c_is(g, s, m, 6);
	c_destroy(g, graph);
	framework_forgets(raw, exec);
}

/* His capture failed: there is no graph, and what was recorded is tainted. */
TEST_F(bridge, his_capture_failed)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 77;
	cu_graph raw = NULL;

	framework_begins(s);
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_inc(g, s, m);
	CU_IS(900, cuCtxSynchronize());
	CU_IS(901, cuStreamEndCapture(s, &raw));
	ASSERT_EQ(NULL, raw);
	REFUSED(-EINVAL, capkm_cuda_graph_seal(g->b, s, NULL, NULL, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	c_is_tainted(g, m, CAPKM_KIND_VALIDATION);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* Bad input: nothing to attach to; not attached; sealed too early, or ended by us. */
TEST_F(bridge, attach_wrongly)
{
	G;
	uint64_t graph = 77;
	cu_graph raw = NULL;
	cu_exec exec;

	FAILS(-EINVAL, "does not capture", capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	framework_begins(s);
	FAILS(-EBUSY, "cuda_graph_attach()",
	      capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err));
	FAILS(-EBUSY, "without a window", capkm_cuda_set(g->b, s, c_alloc(g), BYTES, 4, 1,
							 NULL, &err));
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	REFUSED(-EBUSY, capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_alloc(g);	/* dooms it, see below */
	FAILS(-EINVAL, "somebody else", capkm_cuda_graph_end(g->b, s, &graph, NULL, &err));
	FAILS(-EBUSY, "still captures",
	      capkm_cuda_graph_seal(g->b, s, raw, NULL, &graph, NULL, &err));
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	exec = framework_ends(s, &raw);
	REFUSED(-ESTALE, capkm_cuda_graph_seal(g->b, s, raw, exec, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	framework_forgets(raw, exec);
	/* There is none any more. */
	REFUSED(-EINVAL, capkm_cuda_graph_seal(g->b, s, NULL, NULL, &graph, NULL, &err));
	/* And one of our own is not sealed so. */
	c_record(g, s);
	FAILS(-EINVAL, "no window that was attached",
	      capkm_cuda_graph_seal(g->b, s, NULL, NULL, &graph, NULL, &err));
	FAILS(-EBUSY, "already", capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_end(g, s);
	NOTHING_BROKE();
	/* Invalidated before. */
	framework_begins(s);
	CU_IS(900, cuCtxSynchronize());
	FAILS(-EINVAL, "invalidated", capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	CU_IS(901, cuStreamEndCapture(s, &raw));
	b_usable(g, s, &self->on_s);
}

/* The window is given up; the capture goes on, for it is his. */
TEST_F(bridge, attached_is_aborted)
{
	G;
	uint64_t m = c_new(g, s, 5);
	cu_graph raw = NULL;

	framework_begins(s);
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_inc(g, s, m);
	c_abort(g, s);
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	c_is_tainted(g, m, CAPKM_KIND_ABORTED);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/*
 * He has ended his capture, and something is issued before the seal: it is refused, but
 * the window, whose end that was, is still good.
 */
TEST_F(bridge, issued_before_seal)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 0;
	cu_graph raw = NULL;
	cu_exec exec;

	framework_begins(s);
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	c_inc(g, s, m);
	exec = framework_ends(s, &raw);
	ASSERT_EQ(-EBUSY, c_try_inc(g, s, m).rc);
	OK(capkm_cuda_graph_seal(g->b, s, raw, exec, &graph, NULL, &err));
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	c_destroy(g, graph);
	framework_forgets(raw, exec);
}

/* What was recorded before the attach is found in the nodes. */
TEST_F(bridge, attached_late)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 0;
	uint32_t n = WORDS;
	void *params[] = { &m, &n };
	cu_graph raw = NULL;
	cu_exec exec;

	framework_begins(s);
	CU(cuLaunchKernel(g->k.inc, 1, 1, 1, WORDS, 1, 1, 0, s, params, NULL));
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	exec = framework_ends(s, &raw);
	OK(capkm_cuda_graph_seal(g->b, s, raw, exec, &graph, NULL, &err));
	ASSERT_EQ(1, c_query(g, graph).seen);
	c_destroy(g, graph);
	framework_forgets(raw, exec);
}

/* ------------------------------------------------------------------ update */

static int try_update(struct gpu *g, cu_stream s, uint64_t graph)
{
	return capkm_cuda_graph_update(g->b, s, graph, NULL, &err);
}

/* The graph does what the new window recorded, and writes what that named. */
TEST_F(bridge, updated)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), y = c_new(g, s, 2), graph;
	struct capkm_graph_query q = { .size = sizeof(q) };
	struct capkm_claim claim[2];

	graph = b_graph_copy(g, s, x, from);
	c_record(g, s);
	c_copy(g, s, y, from);
	OK(try_update(g, s, graph));
	c_replay(g, s, graph);
	c_is(g, s, x, 1);
	c_is(g, s, y, 5);
	q.graph = graph;
	q.claims_uptr = t_ptr(claim);
	q.claims_len = 2;
	OK(capkm_graph_query(g->c, &q, &err));
	ASSERT_EQ(1, q.out_claims);
	ASSERT_EQ(c_claim(g, y).buffer, claim[0].buffer);
	ASSERT_EQ(1, q.out_updates);
	b_usable(g, s, &self->on_s);
}

/* C91: 910, another kind of node: the graph is as it was, the window is none; counted. */
TEST_F(bridge, cannot_be_updated)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), y = c_new(g, s, 2), graph, second;
	struct capkm_graph_query q = { .size = sizeof(q) };

	graph = b_graph_copy(g, s, x, from);
	c_record(g, s);
	c_set(g, s, y, 9);
	ASSERT_EQ(-EREMOTEIO, try_update(g, s, graph));
	ASSERT_EQ(910, err.code);
	c_is_tainted(g, y, CAPKM_KIND_DRIVER);
	c_is_clean(g, x);
	q.graph = graph;
	OK(capkm_graph_query(g->c, &q, &err));
	ASSERT_EQ(0, q.out_updates);
	ASSERT_EQ(1, q.out_failed_updates);
	c_replay(g, s, graph);
	c_is(g, s, x, 5);
	/* Captured again it is another graph. */
	c_record(g, s);
	c_set(g, s, y, 9);
	second = c_end(g, s);
	c_replay(g, s, second);
	c_is(g, s, y, 9);
	b_usable(g, s, &self->on_s);
}

/* Another failure: nobody knows what the executable is now. It is tainted, and over. */
TEST_F(bridge, update_breaks_it)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), graph;

	ONLY_STANDIN();
	graph = b_graph_copy(g, s, x, from);
	c_record(g, s);
	c_copy(g, s, x, from);
	standin.fail("cuGraphExecUpdate", 1, 999);
	ASSERT_EQ(-EREMOTEIO, try_update(g, s, graph));
	ASSERT_EQ(999, err.code);
	c_is_tainted(g, x, 0);
	ASSERT_NE(0, c_try_replay(g, s, graph).rc);
	c_is_tainted(g, x, 0);
	c_destroy(g, graph);
}

/* A window that is doomed updates nothing. */
TEST_F(bridge, doomed_updates_nothing)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), graph, w;

	graph = b_graph_copy(g, s, x, from);
	w = c_record(g, s);
	OK(capkm_window_fail(g->c, w, 0, "op", WITH(struct capkm_cause, .text = "it burns"),
			     &err));
	ASSERT_EQ(-ESTALE, try_update(g, s, graph));
	SAYS("it burns");
	c_replay(g, s, graph);
	c_is(g, s, x, 5);
	b_usable(g, s, &self->on_s);
}

/*
 * The authority cannot take the update (a replay is open): the driver's executable and
 * the claims must not part, and the window must not stay closed for ever.
 */
TEST_F(bridge, updated_while_replayed)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), y = c_new(g, s, 2), graph, w;
	uint32_t result;

	graph = b_graph_copy(g, s, x, from);
	OK(capkm_graph_replay_begin(g->c, graph, &self->on_t, NULL, &result, NULL, &err));
	w = c_record(g, s);
	c_copy(g, s, y, from);
	ASSERT_NE(0, try_update(g, s, graph));
	OK(capkm_graph_replay_end(g->c, graph, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	ASSERT_NE(CAPKM_WINDOW_CLOSING, b_window(g, w).out_state);
	c_write(g, s, x, 1);
	c_write(g, s, y, 2);
	if (!c_try_replay(g, s, graph).rc) {
		c_is(g, s, x, 5);
		c_holds(y, 2);
	}
	b_usable(g, s, &self->on_s);
}

/* Bad input: no window; a graph that is not there; one that was given to us. */
TEST_F(bridge, update_wrongly)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), graph, w;

	REFUSED(-ENOENT, try_update(g, s, 12345));
	graph = b_graph_copy(g, s, x, from);
	REFUSED(-EINVAL, try_update(g, s, graph));
	/* The window is still there after a wrong id. */
	w = c_record(g, s);
	REFUSED(-ENOENT, try_update(g, s, 12345));
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, b_window(g, w).out_state);
	c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, x, 5);
}

CUDA_TEST_MAIN
