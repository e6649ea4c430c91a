// SPDX-License-Identifier: GPL-2.0-only
/*
 * Field cases on CUDA that the other programs do not have: C07, C10, C13, C42, C48, C68,
 * C70, C72, and a producer of shared memory that goes.
 */
#include "bridge.h"

/*
 * C07: whether a call breaks a capture is the driver's to say, not the mode's: the same
 * calls in each mode, and the window is what the driver reported.
 */
TEST_F(bridge, c07_driver_decides)
{
	static const uint32_t modes[] = {
		CAPKM_CUDA_MODE_GLOBAL, CAPKM_CUDA_MODE_THREAD_LOCAL, CAPKM_CUDA_MODE_RELAXED
	};
	G;
	uint64_t m = c_new(g, s, 5), w, graph = 77;
	cu_address other = 0;
	int rc, status;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		w = c_record_with(g, s, WITH(struct capkm_cuda_graph_opts, .mode = modes[i]));
		c_inc(g, s, m);
		rc = cu.cuMemAlloc(&other, BYTES);
		status = cu_status(s);
		ASSERT_EQ(rc ? CU_CAPTURE_INVALIDATED : CU_CAPTURE_ACTIVE, status);
		/* Nothing is inferred. */
		ASSERT_EQ(0, b_window(g, w).out_doomed);
		if (rc) {
			c_end_fails(g, s, -EBUSY);
			ASSERT_EQ(CAPKM_WINDOW_REFUSED, b_window(g, w).out_state);
			c_write(g, s, m, 5);
		} else {
			graph = c_end(g, s);
			ASSERT_EQ(CAPKM_WINDOW_SEALED, b_window(g, w).out_state);
			c_destroy(g, graph);
			CU(cuMemFree(other));
		}
		b_usable(g, s, &self->on_s);
	}
}

/*
 * C10: a library that does not know its caller captures asks the authority, which needs
 * no call of the driver, and disturbs nothing.
 */
TEST_F(bridge, c10_who_captures)
{
	G;
	uint64_t w = c_record(g, s);
	struct capkm_window_query opened;
	struct capkm_stream_query q;

	q = b_slot(g, &self->on_s);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, q.out_state);
	ASSERT_EQ(w, q.out_window);
	ASSERT_EQ(capkm_stream_current(), q.out_owner);
	opened = b_window(g, w);
	ASSERT_TRUE(b_is_of(opened.out_pid, opened.out_comm, t_pid(g->cl)));
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	NOTHING_BROKE();
	c_end(g, s);
}

/* C13: a hook that looks at values while the stream records is told so, and dooms nothing. */
TEST_F(bridge, c13_hook_in_a_window)
{
	G;
	uint64_t m = c_new(g, s, 5), w = c_record(g, s);
	uint32_t words[WORDS];
	struct capkm_report r;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);

	c_inc(g, s, m);
	OK(capkm_refused(g->c, &self->on_s, CAPKM_REFUSE_READ, NULL, 0, &a, &err));
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_EQ(w, r.window);
	ASSERT_EQ(-EBUSY, c_try_read(g, s, m, words));
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	c_replay(g, s, c_end(g, s));
	c_is(g, s, m, 6);
}

/* C42: what cannot be asked is not clean: no shortcut while a window records. */
TEST_F(bridge, c42_cannot_ask)
{
	G;
	uint64_t m = b_shared(g, t, 5);
	cu_event e = c_event();
	int done = 77;

	c_inc(g, t, m);
	c_record(g, s);
	/* The work of @t is not known to be done because @s records. */
	b_is_pending(g, m);
	REFUSED(-EBUSY, capkm_cuda_context_sync(g->b, &err));
	b_is_pending(g, m);
	c_event_record(g, e, s);
	REFUSED(-EBUSY, capkm_cuda_event_query(g->b, e, &done, &err));
	ASSERT_EQ(77, done);
	b_is_pending(g, m);
	c_sync(g, t);
	b_is_confirmed(g, m);
	c_end(g, s);
}

/* C48: the caller swallows the error of a replay; its reader does not. */
TEST_F(bridge, c48_swallowed_error)
{
	G;
	uint64_t x = c_new(g, s, 5), y = c_new(g, s, 6), graph;
	struct capkm_graph_query q = { .size = sizeof(q) };
	uint32_t words[WORDS];

	ONLY_STANDIN();
	c_record(g, s);
	c_set(g, s, x, 1);
	c_set(g, s, y, 2);
	graph = c_end(g, s);
	for (uint64_t n = 1; n < 4; n++) {
		standin.fail("cuGraphLaunch", 1, 719 - 18);
		(void)c_try_replay(g, s, graph);
		ASSERT_EQ(-ESTALE, c_try_read(g, s, x, words));
		SAYS("cuGraphLaunch");
		ASSERT_EQ(-ESTALE, c_try_read(g, s, y, words));
		q.graph = graph;
		OK(capkm_graph_query(g->c, &q, &err));
		ASSERT_EQ(n, q.out_failed_replays);
	}
	c_replay(g, s, graph);
	c_is(g, s, x, 1);
	c_is(g, s, y, 2);
}

/*
 * C68, C70: the limit of all this. Bytes that were written by something that told nobody
 * are not noticed: the read goes well and gives them.
 */
TEST_F(bridge, c68_untold_write)
{
	G;
	uint64_t m = c_new(g, s, 5);

	CU(cuMemsetD32Async(m, 0, WORDS, s));
	c_is(g, s, m, 0);
	c_is_clean(g, m);
}

/* C72: temporary graphs, twenty times: everything is as it was, in authority and driver. */
TEST_F(bridge, c72_nothing_is_left)
{
	G;
	uint64_t m = c_new(g, s, 0), host_made = 0, host_gone = 0, graph;
	uint32_t words[WORDS] = { 0 };
	struct capkm_domain_query before, after;

	if (is_standin) {
		host_made = standin.calls("cuUserObjectCreate");
		host_gone = standin.calls("cuGraphExecDestroy");
	}
	before = b_domain(g);
	for (int i = 0; i < 20; i++) {
		uint64_t temporary = c_alloc(g);

		c_record(g, s);
		OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = temporary,
			.from = (uintptr_t)words, .bytes = BYTES,
			.flags = CAPKM_CUDA_COPY_F_OWN_COPY), NULL, &err));
		c_add(g, s, m, m, temporary);
		graph = c_end(g, s);
		c_free(g, temporary);
		c_replay(g, s, graph);
		c_destroy(g, graph);
	}
	after = b_domain(g);
	ASSERT_EQ(before.out_buffers, after.out_buffers);
	ASSERT_EQ(before.out_graphs, after.out_graphs);
	ASSERT_EQ(before.out_windows, after.out_windows);
	ASSERT_EQ(before.out_claims, after.out_claims);
	ASSERT_EQ(before.out_failures, after.out_failures);
	if (is_standin) {
		ASSERT_EQ(20, standin.calls("cuUserObjectCreate") - host_made);
		ASSERT_EQ(20, standin.calls("cuGraphExecDestroy") - host_gone);
	}
	c_is(g, s, m, 0);
}

/* C72: an export that fails inside of a window does no harm to it. */
TEST_F(bridge, c72_export_in_a_window)
{
	G;
	uint64_t m = c_new(g, s, 5), w = c_record(g, s);
	struct capkm_cuda_ipc ipc;
	int fd;

	c_inc(g, s, m);
	REFUSED(-ENOENT, capkm_cuda_ipc_export(g->b, 4096, &ipc, &fd, &err));
	OK(capkm_cuda_ipc_export(g->b, m, &ipc, &fd, &err));
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	c_replay(g, s, c_end(g, s));
	c_is(g, s, m, 6);
	NOTHING_BROKE();
}

/* -------------------------------------------------------- a producer is gone */

/* A producer that is played; processes.c has real ones. */
TEST_F(bridge, producer_is_gone)
{
	G;
	struct gpu producer = *g;
	uint64_t m;
	struct capkm_claim claim;
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	cu_stream u = NULL;
	int pid;

	if (!t_embedded())
		SKIP(return, "only the embedded engine plays processes");
	pid = t_new_pid();
	capkm_test_become(pid);
	producer.cl = c_client(g->cl->domain);
	producer.c = producer.cl->c;
	OK(capkm_cuda_open(producer.c, NULL, &producer.b, &err));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	c_bind(&producer, u);
	m = b_shared(&producer, u, 5);
	claim = c_claim(&producer, m);
	c_inc(&producer, u, m);
	capkm_test_become(0);
	OK(capkm_buffer_open(g->c, claim.buffer, NULL, &err));
	OK(capkm_check(g->c, &claim, 1, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(1, a.out_unconfirmed);
	capkm_test_die(producer.c, pid);
	OK(capkm_check(g->c, &claim, 1, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	ASSERT_EQ(CAPKM_KIND_UNCONFIRMED, r.kind);
	ASSERT_EQ((uint32_t)pid, r.pid);
	OK(capkm_buffer_close(g->c, claim.buffer, &err));
	/* What is left of it goes without the authority. */
	capkm_test_become(pid);
	capkm_cuda_close(producer.b);
	capkm_test_become(0);
	CU(cuStreamDestroy(u));
	t_close(producer.cl);
}

CUDA_TEST_MAIN
