// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows around captures of the driver: what is recorded, who may end it, what becomes
 * of the window, the capture and the memory when something goes wrong. Attaching, fork
 * and join, updates, host memory and failing calls are in files of their own.
 */
#include "bridge.h"

#include <pthread.h>

/* T-100/hw: recording does not run anything, each replay does once. */
TEST_F(bridge, records)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 1), graph;
	struct capkm_cuda_graph_query q;

	graph = b_graph_copy(g, s, to, from);
	c_is(g, s, to, 1);
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	q = c_query(g, graph);
	ASSERT_EQ(1, q.nodes);
	ASSERT_EQ(1, q.kernels);
	ASSERT_EQ(0, q.copies);
	ASSERT_EQ(0, q.opaque);
	ASSERT_EQ(0, q.seen);
	ASSERT_EQ(0, q.retained);
	ASSERT_EQ(0, q.host_unchecked);
	ASSERT_NE(NULL, q.exec);
	NOTHING_BROKE();
}

/* T-103/hw, GR-25: a replay reads what its input holds now. */
TEST_F(bridge, input_is_rewritten)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 1);
	uint64_t graph = b_graph_copy(g, s, to, from);

	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	c_write(g, s, from, 12);
	c_replay(g, s, graph);
	c_is(g, s, to, 12);
}

/*
 * T-104/hw, C40, C44: memory between two launches was freed after the capture. A replay
 * still has it: nothing that is allocated later is overwritten, and the result is right.
 */
TEST_F(bridge, freed_between)
{
	G;
	uint64_t from = c_new(g, s, 5), between = c_new(g, s, 0), to = c_new(g, s, 1);
	uint64_t later[8], graph;

	c_record(g, s);
	c_copy(g, s, between, from);
	c_copy(g, s, to, between);
	graph = c_end(g, s);
	c_free(g, between);
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		later[i] = c_new(g, s, 99);
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		c_is(g, s, later[i], 99);
	/* Its owner has given it up: it is not known by its address any more. */
	REFUSED(-ENOENT, capkm_cuda_free(g->b, between, &err));
}

/* T-105/hw: 150 launches; the recorded pass did not run, two replays run all of them. */
TEST_F(bridge, many_launches)
{
	G;
	uint64_t m = c_new(g, s, 3), graph, w;

	w = c_record(g, s);
	for (int i = 0; i < 150; i++)
		c_inc(g, s, m);
	ASSERT_EQ(150, b_window(g, w).out_launches);
	ASSERT_EQ(1, b_window(g, w).out_recorded);
	graph = c_end(g, s);
	c_is(g, s, m, 3);
	c_replay(g, s, graph);
	c_is(g, s, m, 153);
	c_write(g, s, m, 1000);
	c_replay(g, s, graph);
	c_is(g, s, m, 1150);
	ASSERT_EQ(150, c_query(g, graph).kernels);
}

/* T-106/hw: calls in the wrong order are refused, and then a capture works. */
TEST_F(bridge, wrong_order)
{
	G;

	FAILS(-EINVAL, "begin_capture: ", capkm_cuda_graph_begin(g->b, s, &err));
	c_end_fails(g, s, -EINVAL);
	c_prepare(g, s);
	FAILS(-EBUSY, "graph_prepare: ", capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err));
	c_begin(g, s);
	FAILS(-EBUSY, "graph_prepare: ", capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err));
	FAILS(-EBUSY, "begin_capture: ", capkm_cuda_graph_begin(g->b, s, &err));
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	c_end(g, s);
	c_end_fails(g, s, -EINVAL);
	b_usable(g, s, &self->on_s);
}

/* GR-4: the warm-up runs, and is not recorded. */
TEST_F(bridge, warm_up_runs)
{
	G;
	uint64_t m = c_new(g, s, 0), graph, w;

	w = c_prepare(g, s);
	c_inc(g, s, m);
	c_is(g, s, m, 1);
	ASSERT_EQ(0, b_window(g, w).out_launches);
	c_begin(g, s);
	c_inc(g, s, m);
	graph = c_end(g, s);
	c_is(g, s, m, 1);
	c_replay(g, s, graph);
	c_is(g, s, m, 2);
}

/* T-107/hw, CW-35: a read inside of the window is refused; the capture goes on. */
TEST_F(bridge, read_is_refused)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	uint32_t words[WORDS];

	c_record(g, s);
	c_inc(g, s, m);
	ASSERT_EQ(-EBUSY, c_try_read(g, s, m, words));
	SAYS("cuda_read: ");
	ASSERT_EQ(0xcccccccc, words[0]);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	NOTHING_BROKE();
}

/* CW-36: a write inside of the window is recorded, with where it goes. */
TEST_F(bridge, write_is_recorded)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	uint32_t words[WORDS];
	uint32_t result = 77;

	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = 8;
	c_record(g, s);
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = m,
		.from = (uintptr_t)words, .bytes = BYTES,
		.flags = CAPKM_CUDA_COPY_F_OWN_COPY), &result, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	c_inc(g, s, m);
	graph = c_end(g, s);
	c_is(g, s, m, 5);
	c_replay(g, s, graph);
	c_replay(g, s, graph);
	c_is(g, s, m, 9);
	ASSERT_EQ(1, c_query(g, graph).copies);
	ASSERT_EQ(1, c_query(g, graph).retained);
}

/* T-110/hw: the graph goes, and what it had is reused, with a replay just issued. */
TEST_F(bridge, destroyed_behind_replay)
{
	G;
	uint64_t from = c_new(g, s, 5), between = c_new(g, s, 0), to = c_new(g, s, 1);
	uint64_t graph, later;

	c_record(g, s);
	c_copy(g, s, between, from);
	c_copy(g, s, to, between);
	graph = c_end(g, s);
	c_free(g, between);
	c_replay(g, s, graph);
	c_destroy(g, graph);
	later = c_new(g, t, 99);
	c_is(g, s, to, 5);
	c_is(g, t, later, 99);
}

/* T-111/hw: another stream works while the window is open, and is not in it. */
TEST_F(bridge, another_stream_works)
{
	G;
	uint64_t m = c_new(g, s, 5), other = c_new(g, t, 10), graph, w;

	w = c_record(g, s);
	c_inc(g, s, m);
	c_inc(g, t, other);
	c_is(g, t, other, 11);
	c_inc(g, s, m);
	c_inc(g, t, other);
	ASSERT_EQ(2, b_window(g, w).out_launches);
	graph = c_end(g, s);
	c_is(g, t, other, 12);
	ASSERT_EQ(2, c_query(g, graph).nodes);
	c_replay(g, s, graph);
	c_is(g, s, m, 7);
	c_is(g, t, other, 12);
	NOTHING_BROKE();
}

/* T-114/hw, GR-14: after a warm-up that failed, end is the only call that is left. */
TEST_F(bridge, end_of_prepared)
{
	G;

	c_prepare(g, s);
	c_end_fails(g, s, -EINVAL);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_s));
	b_usable(g, s, &self->on_s);
}

/* T-115/hw, GR-7, CW-13: the driver does not begin: nothing is open, and it can be tried again. */
TEST_F(bridge, driver_does_not_begin)
{
	G;

	ONLY_STANDIN();
	c_prepare(g, s);
	standin.fail("cuStreamBeginCapture", 1, 801);
	FAILS(-EREMOTEIO, "begin_capture: cuStreamBeginCapture: ",
	      capkm_cuda_graph_begin(g->b, s, &err));
	ASSERT_EQ(801, err.code);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_s));
	b_usable(g, s, &self->on_s);
}

/* CW-13: what the authority refuses does nothing to the driver. */
TEST_F(bridge, authority_goes_first)
{
	G;
	uint64_t calls;

	ONLY_STANDIN();
	calls = standin.calls("cuStreamBeginCapture") + standin.calls("cuStreamEndCapture");
	REFUSED(-EINVAL, capkm_cuda_graph_begin(g->b, s, &err));
	c_end_fails(g, s, -EINVAL);
	c_prepare(g, s);
	c_end_fails(g, s, -EINVAL);
	ASSERT_EQ(calls, standin.calls("cuStreamBeginCapture") +
			 standin.calls("cuStreamEndCapture"));
}

/* T-116/hw, GR-26: twice, or what never was: nothing happens. */
TEST_F(bridge, destroyed_twice)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = b_graph_copy(g, s, m, c_new(g, s, 6));

	c_destroy(g, graph);
	c_destroy(g, graph);
	c_destroy(g, 12345);
	c_destroy(g, 0);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	/* GR-19: and a replay of it is an error that taints nothing. */
	ASSERT_EQ(-ENOENT, c_try_replay(g, s, graph).rc);
	SAYS("already-destroyed graph");
	c_is(g, s, m, 5);
}

/* The mode is the caller's choice, and shown. */
TEST_F(bridge, modes)
{
	static const struct {
		uint32_t mode, flags;
		const char *name;
	} modes[] = {
		{ CAPKM_CUDA_MODE_DEFAULT, 0, "relaxed" },
		{ CAPKM_CUDA_MODE_DEFAULT, CAPKM_CUDA_GRAPH_F_STRICT, "thread-local" },
		{ CAPKM_CUDA_MODE_GLOBAL, 0, "global" },
		{ CAPKM_CUDA_MODE_THREAD_LOCAL, 0, "thread-local" },
		{ CAPKM_CUDA_MODE_RELAXED, CAPKM_CUDA_GRAPH_F_STRICT, "relaxed" },
	};
	G;
	struct capkm_window_query q;
	uint64_t w;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		w = c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
			.mode = modes[i].mode, .flags = modes[i].flags, .cookie = 40 + i));
		q = b_window(g, w);
		ASSERT_STREQ(modes[i].name, (char *)q.out_mode);
		ASSERT_EQ(!!modes[i].flags, q.out_strict);
		ASSERT_EQ(40 + i, q.out_cookie);
		c_end(g, s);
	}
	REFUSED(-EINVAL, capkm_cuda_graph_prepare(g->b, s, WITH(struct capkm_cuda_graph_opts,
		.mode = 4), NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_graph_prepare(g->b, s, WITH(struct capkm_cuda_graph_opts,
		.flags = 1u << 31), NULL, &err));
	b_usable(g, s, &self->on_s);
}

/* The window's owner is a logical stream, which may have moved to another thread. */
TEST_F(bridge, another_thread_ends)
{
	G;
	uint64_t m = c_new(g, s, 5);
	struct ending e;

	c_record(g, s);
	c_inc(g, s, m);
	e = b_end_elsewhere(g, s, false);
	ASSERT_EQ(0, e.rc) {
		TH_LOG("%s", e.err.text);
	}
	c_replay(g, s, e.graph);
	c_is(g, s, m, 6);
}

/*
 * In the other modes the driver does not let another thread end it (908): its capture is
 * gone, and so is the window, with what it recorded (GR-10, GR-15).
 */
TEST_F(bridge, another_thread_cannot_end)
{
	static const uint32_t modes[] = {
		CAPKM_CUDA_MODE_GLOBAL, CAPKM_CUDA_MODE_THREAD_LOCAL
	};
	G;
	uint64_t m = c_new(g, s, 5);
	struct capkm_report r;
	struct ending e;

	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		c_record_with(g, s, WITH(struct capkm_cuda_graph_opts, .mode = modes[i]));
		c_inc(g, s, m);
		e = b_end_elsewhere(g, s, false);
		ASSERT_EQ(-EBUSY, e.rc);
		ASSERT_EQ(908, e.err.code);
		ASSERT_EQ(0, e.graph);
		r = c_is_tainted(g, m, CAPKM_KIND_DRIVER);
		HAS(r.text, "WRONG_THREAD");
		c_write(g, s, m, 5);
		b_usable(g, s, &self->on_s);
	}
}

/* CW-23: another logical stream closes the window, which is no graph; both are named. */
TEST_F(bridge, another_stream_ends)
{
	G;
	uint64_t m = c_new(g, s, 5), own = capkm_stream_current(), other, w;
	char name[40];

	OK(capkm_stream_create(g->c, NULL, &other, &err));
	w = c_record(g, s);
	c_inc(g, s, m);
	capkm_stream_pin(other);
	c_end_refused(g, s);
	capkm_stream_unpin();
	snprintf(name, sizeof(name), "stream %" PRIu64, own);
	SAYS(name);
	snprintf(name, sizeof(name), "stream %" PRIu64, other);
	SAYS(name);
	ASSERT_EQ(CAPKM_VERDICT_ABANDONED, b_window(g, w).out_verdict);
	c_is_tainted(g, m, CAPKM_KIND_ABANDONED);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* The same with a doomed window: the doom is the second reason. */
TEST_F(bridge, another_stream_ends_doomed)
{
	G;
	uint64_t other;

	OK(capkm_stream_create(g->c, NULL, &other, &err));
	OK(capkm_window_fail(g->c, c_record(g, s), 0, "op",
			     WITH(struct capkm_cause, .text = "it burns"), &err));
	capkm_stream_pin(other);
	c_end_refused(g, s);
	capkm_stream_unpin();
	SAYS("it burns");
	ASSERT_LT((uintptr_t)strstr(err.text, "closed by"), (uintptr_t)strstr(err.text, "burns"));
	b_usable(g, s, &self->on_s);
}

/*
 * T-112/hw, GR-9, GR-10, GR-15: a launch in the window fails. There is no graph, but the
 * driver's capture is closed; all that was recorded reads as failed, and names the cause.
 */
TEST_F(bridge, failed_launch_dooms)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), w;
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(b) };
	uint32_t n = WORDS;
	void *params[] = { &b, &a, &n };
	struct capkm_report r;

	w = c_record(g, s);
	c_inc(g, s, a);
	/* More threads in a block than any device has. */
	REFUSED(-EINVAL, capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch,
		.function = g->k.copy, .grid = { 1, 1, 1 }, .block = { 4096, 1, 1 },
		.params = params), WITH(struct capkm_cuda_work, .label = "too large",
		.reads = reads, .reads_len = 1, .writes = writes, .writes_len = 1), NULL,
		&err));
	ASSERT_EQ(1, err.code);
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	SAYS("too large");
	r = c_is_tainted(g, a, 0);
	HAS(r.text, "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");
	r = c_is_tainted(g, b, 0);
	/* What writes them well makes them good again. */
	c_write(g, s, a, 7);
	c_write(g, s, b, 8);
	c_is(g, s, a, 7);
	c_is(g, s, b, 8);
	b_usable(g, s, &self->on_s);
}

struct replayer {
	struct gpu *g;
	uint64_t graph;
};

/* The second time, nothing behind it can be waited for. */
static void replay_there(void *arg)
{
	struct replayer *r = arg;

	c_bind_(r->g, CU_STREAM_IS_PER_THREAD);
	c_replay_(r->g, CU_STREAM_IS_PER_THREAD, r->graph);
	standin.fail("cuEventRecord", 1, 801);
	c_replay_(r->g, CU_STREAM_IS_PER_THREAD, r->graph);
}

/* Another thread's default stream has the handle of one's own, which is not waited for. */
TEST_F(bridge, replayed_on_the_default_stream_of_a_thread)
{
	G;
	uint64_t m = c_new(g, s, 0);
	struct replayer r = { .g = g };

	ONLY_STANDIN();
	c_record(g, s);
	c_inc(g, s, m);
	r.graph = c_end(g, s);
	c_bind(g, CU_STREAM_IS_PER_THREAD);
	b_elsewhere(g, replay_there, &r);
	c_record(g, CU_STREAM_IS_PER_THREAD);
	c_destroy(g, r.graph);
	NOTHING_BROKE();
	c_destroy(g, c_end(g, CU_STREAM_IS_PER_THREAD));
}

/* It cannot capture, so nothing that was replayed there is put off. */
TEST_F(bridge, replayed_on_the_legacy_stream)
{
	G;
	uint64_t m = c_new(g, s, 6), graph;
	cu_stream u = NULL;

	CU(cuStreamCreate(&u, 0));
	c_bind(g, u);
	c_bind(g, NULL);
	c_record(g, s);
	c_inc(g, s, m);
	graph = c_end(g, s);
	c_replay(g, NULL, graph);
	c_sync(g, NULL);
	c_record(g, u);
	c_destroy(g, graph);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	NOTHING_BROKE();
	c_abort(g, u);
}

/* GR-10: a doomed window ends the driver's capture although nobody wants the graph. */
TEST_F(bridge, doomed_is_closed)
{
	G;
	uint64_t m = c_new(g, s, 5), w = c_record(g, s);

	c_inc(g, s, m);
	OK(capkm_window_fail(g->c, w, 0, "op", WITH(struct capkm_cause, .text = "it burns"),
			     &err));
	c_inc(g, s, m);		/* CW-26: it goes on until it is closed */
	c_end_refused(g, s);
	SAYS("it burns");
	c_is_tainted(g, m, 0);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* Aborted: no window, no capture; what it recorded is tainted. */
TEST_F(bridge, aborted)
{
	G;
	uint64_t m = c_new(g, s, 5);

	c_record(g, s);
	c_inc(g, s, m);
	c_abort(g, s);
	c_is_tainted(g, m, CAPKM_KIND_ABORTED);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
	c_prepare(g, s);
	c_abort(g, s);
	b_usable(g, s, &self->on_s);
}

/* An administrator abandons the window: the end says so, and closes the capture. */
TEST_F(bridge, abandoned_meanwhile)
{
	G;
	uint64_t m = c_new(g, s, 5), w = c_record(g, s);

	c_inc(g, s, m);
	OK(capkm_window_abandon(g->c, w, &err));
	c_end_refused(g, s);
	SAYS("was taken away");
	SAYS("abandoned");
	ASSERT_NE(0, err.failure);
	c_is_tainted(g, m, CAPKM_KIND_ABANDONED);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/*
 * The same, and work is issued before the end: the driver records it, and it will never
 * run. So what it would have written must not become good.
 */
TEST_F(bridge, work_after_abandoned)
{
	G;
	uint64_t m = c_new(g, s, 5), w = c_record(g, s);

	OK(capkm_window_abandon(g->c, w, &err));
	ASSERT_EQ(-EBUSY, c_try_set(g, s, m, 6).rc);
	c_end_refused(g, s);
	c_holds(m, 5);
	c_is_tainted(g, m, 0);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* The same, and its owner begins anew instead of ending it: no capture stays open. */
TEST_F(bridge, prepared_after_abandoned)
{
	G;
	uint64_t w = c_record(g, s);

	OK(capkm_window_abandon(g->c, w, &err));
	if (!capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err) &&
	    !capkm_cuda_graph_begin(g->b, s, &err))
		c_end(g, s);
	else
		OK(capkm_cuda_graph_abort(g->b, s, &err));
	b_usable(g, s, &self->on_s);
}

/* Of a window that is only prepared, nothing is left either. */
TEST_F(bridge, prepared_is_abandoned)
{
	G;
	uint64_t w = c_prepare(g, s);

	OK(capkm_window_abandon(g->c, w, &err));
	c_record(g, s);
	c_end(g, s);
	b_usable(g, s, &self->on_s);
}

/*
 * Bad input: somebody breaks the capture by a call of his own. The end tells the
 * driver's reason, what was recorded is tainted with it, and the stream is usable.
 */
TEST_F(bridge, invalidated_by_somebody)
{
	G;
	uint64_t m = c_new(g, s, 5);
	struct capkm_report r;

	c_record(g, s);
	c_inc(g, s, m);
	CU_IS(900, cuCtxSynchronize());
	ASSERT_EQ(CU_CAPTURE_INVALIDATED, cu_status(s));
	c_end_fails(g, s, -EBUSY);
	ASSERT_EQ(901, err.code);
	SAYS("cuStreamEndCapture: ");
	r = c_is_tainted(g, m, CAPKM_KIND_DRIVER);
	HAS(r.text, "INVALIDATED");
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* Work that is issued on it meanwhile fails, and dooms the window. */
TEST_F(bridge, work_in_invalidated)
{
	G;
	uint64_t m = c_new(g, s, 5), w;
	struct c_result r;

	w = c_record(g, s);
	CU_IS(900, cuStreamSynchronize(s));
	r = c_try_inc(g, s, m);
	ASSERT_NE(0, r.rc);
	ASSERT_EQ(901, err.code);
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_is_tainted(g, m, 0);
	c_end_refused(g, s);
	b_usable(g, s, &self->on_s);
}

/* Somebody ends the capture: no work is recorded as if it went on, and the end fails. */
TEST_F(bridge, ended_by_somebody)
{
	G;
	uint64_t m = c_new(g, s, 5);
	cu_graph raw = NULL;
	struct c_result r;
	uint64_t graph = 77;

	c_record(g, s);
	c_inc(g, s, m);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));
	r = c_try_set(g, s, m, 6);
	ASSERT_EQ(-EBUSY, r.rc);
	SAYS("does not capture any more");
	ASSERT_NE(0, capkm_cuda_graph_end(g->b, s, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	c_is_tainted(g, m, 0);
	c_holds(m, 5);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* Nobody has used the stream between: then it is the driver that refuses the end. */
TEST_F(bridge, ended_by_somebody_unnoticed)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 77;
	cu_graph raw = NULL;

	c_record(g, s);
	c_inc(g, s, m);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));
	ASSERT_NE(0, capkm_cuda_graph_end(g->b, s, &graph, NULL, &err));
	ASSERT_NE(0, err.code);
	ASSERT_EQ(0, graph);
	c_is_tainted(g, m, CAPKM_KIND_DRIVER);
	b_usable(g, s, &self->on_s);
}

/*
 * GR-11, CW-37: memory that the graph allocates itself: its first launch would succeed
 * and every other fail. Unless it frees what it allocates, and the caller says so.
 */
TEST_F(bridge, memory_nodes)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	cu_address inside;

	for (int frees = 0; frees < 2; frees++) {
		c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
			.flags = frees ? CAPKM_CUDA_GRAPH_F_FREES : 0));
		CU(cuMemAllocAsync(&inside, BYTES, s));
		c_inc(g, s, m);
		CU(cuMemFreeAsync(inside, s));
		if (frees)
			break;
		c_end_fails(g, s, -EINVAL);
		SAYS("memory nodes");
		c_is_tainted(g, m, CAPKM_KIND_VALIDATION);
		c_write(g, s, m, 5);
		b_usable(g, s, &self->on_s);
	}
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_replay(g, s, graph);
	c_is(g, s, m, 7);
	ASSERT_EQ(3, c_query(g, graph).nodes);
}

/*
 * T-101/hw, C53: an allocation inside of the window, of a size that the warm-up has not
 * seen, is found at the close, not at the second replay. The memory is there.
 */
TEST_F(bridge, allocation_inside)
{
	G;
	uint64_t m = c_new(g, s, 5), inside, w;

	w = c_record(g, s);
	c_inc(g, s, m);
	inside = c_alloc_bytes(g, 12345 * 4);
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	c_is_tainted(g, m, 0);
	c_write(g, s, inside, 3);
	c_is(g, s, inside, 3);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

/* C37: two windows at once, each with its own cookie, mode and recording. */
TEST_F(bridge, two_windows)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, t, 50), v, w, x, y;
	struct capkm_window_query q;

	v = c_record_with(g, s, WITH(struct capkm_cuda_graph_opts, .cookie = 111));
	c_inc(g, s, a);
	w = c_record_with(g, t, WITH(struct capkm_cuda_graph_opts, .cookie = 222));
	c_inc(g, t, b);
	c_inc(g, s, a);
	x = c_end(g, s);
	c_inc(g, t, b);
	c_inc(g, t, b);
	y = c_end(g, t);
	q = b_window(g, v);
	ASSERT_EQ(111, q.out_cookie);
	ASSERT_EQ(2, q.out_launches);
	ASSERT_EQ(x, q.out_graph);
	q = b_window(g, w);
	ASSERT_EQ(222, q.out_cookie);
	ASSERT_EQ(3, q.out_launches);
	ASSERT_EQ(y, q.out_graph);
	c_replay(g, s, x);
	c_replay(g, t, y);
	c_is(g, s, a, 7);
	c_is(g, t, b, 53);
	NOTHING_BROKE();
}

/* The legacy default stream cannot capture. */
TEST_F(bridge, legacy_cannot_capture)
{
	G;

	c_bind(g, NULL);
	FAILS(-EOPNOTSUPP, "legacy default stream",
	      capkm_cuda_graph_prepare(g->b, NULL, NULL, NULL, &err));
	FAILS(-EOPNOTSUPP, "legacy default stream",
	      capkm_cuda_graph_attach(g->b, NULL, NULL, NULL, &err));
}

/* A window and its capture end with the stream's binding ... */
TEST_F(bridge, unbound_while_recording)
{
	G;
	uint64_t m = c_new(g, s, 5);

	c_record(g, s);
	c_inc(g, s, m);
	OK(capkm_cuda_stream_unbind(g->b, s, &err));
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
	c_is_tainted(g, m, CAPKM_KIND_ABORTED);
	c_bind(g, s);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* ... and with the bridge. */
TEST_F(bridge, closed_while_recording)
{
	G;
	uint64_t m = c_new(g, s, 5);

	c_record(g, s);
	c_inc(g, s, m);
	c_prepare(g, t);
	capkm_cuda_close(g->b);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
	ASSERT_EQ(0, b_domain(g).out_windows);
	ASSERT_EQ(0, b_domain(g).out_buffers);
	OK(capkm_cuda_open(g->c, NULL, &g->b, &err));
	c_bind(g, s);
	b_usable(g, s, &self->on_s);
}

struct waiter {
	struct gpu *g;
	cu_stream s;
	uint64_t memory;
	_Atomic bool done;
};

/* Wants to read in a window what is being written outside; waits for that. */
static void *wait_to_read(void *arg)
{
	struct waiter *w = arg;
	const struct capkm_cuda_range reads[] = { ALL(w->memory) };
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	struct capkm_scope scope;

	CU_DO(cuCtxSetCurrent(w->g->context));
	capkm_cuda_scope_begin(w->g->b, w->s, WITH(struct capkm_cuda_work, .reads = reads,
						   .reads_len = 1, .retry_ms = 60000),
			       &scope, NULL, &e);
	w->done = true;
	return NULL;
}

static void *abort_window(void *arg)
{
	struct waiter *w = arg;
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);

	CU_DO(cuCtxSetCurrent(w->g->context));
	if (capkm_cuda_graph_abort(w->g->b, w->s, &e))
		t_die("abort: %s", e.text);
	return NULL;
}

/* An abort waits for who issues into its own capture; nobody else waits for it. */
TEST_F(bridge, others_end_meanwhile)
{
	G;
	const cu_stream u = b_stream(g);
	struct waiter w = { .g = g, .s = s, .memory = c_new(g, s, 1) };
	const struct capkm_cuda_range writes[] = { ALL(w.memory) };
	uint64_t m = c_new(g, t, 5), window, graph;
	struct capkm_scope scope;
	pthread_t reader, aborter;

	OK(capkm_cuda_scope_begin(g->b, u, WITH(struct capkm_cuda_work, .writes = writes,
						.writes_len = 1), &scope, NULL, &err));
	window = c_record(g, s);
	c_record(g, t);
	c_inc(g, t, m);
	ASSERT_EQ(0, pthread_create(&reader, NULL, wait_to_read, &w));
	usleep(50 * 1000);
	ASSERT_EQ(0, pthread_create(&aborter, NULL, abort_window, &w));
	while (b_window(g, window).out_state < CAPKM_WINDOW_SEALED)
		usleep(1000);
	usleep(50 * 1000);
	graph = c_end(g, t);
	ASSERT_FALSE(w.done);
	OK(capkm_cuda_scope_end(g->b, u, &scope, 0, &err));
	pthread_join(reader, NULL);
	pthread_join(aborter, NULL);
	c_replay(g, t, graph);
	c_is(g, t, m, 6);
	b_usable(g, s, &self->on_s);
}

/* GR-20, T-113/hw: a replay that the driver refuses taints all that the graph writes. */
TEST_F(bridge, failed_replay)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph;
	struct capkm_report r;

	ONLY_STANDIN();
	c_record(g, s);
	c_inc(g, s, a);
	c_inc(g, s, b);
	graph = c_end(g, s);
	standin.fail("cuGraphLaunch", 1, 801);
	ASSERT_EQ(-EREMOTEIO, c_try_replay(g, s, graph).rc);
	ASSERT_EQ(801, err.code);
	r = c_is_tainted(g, a, CAPKM_KIND_DRIVER);
	ASSERT_EQ(801, r.code);
	ASSERT_EQ(graph, r.graph);
	ASSERT_EQ(r.failure, c_is_tainted(g, b, CAPKM_KIND_DRIVER).failure);
	/* It reads what it tainted: nothing but new contents help. */
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	c_write(g, s, a, 5);
	c_write(g, s, b, 50);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	c_is(g, s, b, 51);
}

/* T-113/hw: a graph that only writes is good again after its next replay. */
TEST_F(bridge, failed_replay_heals)
{
	G;
	uint64_t to = c_new(g, s, 1), from = c_new(g, s, 5), graph;

	ONLY_STANDIN();
	graph = b_graph_copy(g, s, to, from);
	standin.fail("cuGraphLaunch", 1, 801);
	ASSERT_EQ(-EREMOTEIO, c_try_replay(g, s, graph).rc);
	c_is_tainted(g, to, CAPKM_KIND_DRIVER);
	c_is_clean(g, from);
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
}

/* A replay whose input is tainted is skipped; what it writes names the root. */
TEST_F(bridge, skipped_replay)
{
	G;
	uint64_t to = c_new(g, s, 1), from = c_new(g, s, 5), graph, failure;
	struct capkm_claim claim;
	struct capkm_report why;
	uint32_t result = 77;

	graph = b_graph_copy(g, s, to, from);
	claim = c_claim(g, from);
	OK(capkm_taint(g->c, &claim, 1, 0, WITH(struct capkm_cause, .text = "it burns"),
		       &failure, &err));
	OK(capkm_cuda_graph_replay(g->b, s, graph, &result, &why, &err));
	ASSERT_EQ(CAPKM_SKIPPED, result);
	ASSERT_EQ(failure, why.failure);
	ASSERT_EQ(failure, c_is_tainted(g, to, 0).failure);
	c_holds(to, 1);
	c_write(g, s, from, 6);
	c_replay(g, s, graph);
	c_is(g, s, to, 6);
}

/* GR-27: the wait for the last replay fails: what the graph writes is tainted. */
TEST_F(bridge, wait_fails)
{
	G;
	uint64_t to = c_new(g, s, 1), from = c_new(g, s, 5), graph;

	ONLY_STANDIN();
	graph = b_graph_copy(g, s, to, from);
	c_replay(g, s, graph);
	standin.fail("cuEventSynchronize", 1, 801);
	REFUSED(-EREMOTEIO, capkm_cuda_graph_destroy(g->b, graph, &err));
	ASSERT_EQ(801, err.code);
	c_is_tainted(g, to, 0);
	c_is_clean(g, from);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	/* Gone all the same. */
	ASSERT_EQ(-ENOENT, c_try_replay(g, s, graph).rc);
}

/*
 * GR-27: a graph is destroyed while its stream records the next one: the capture is not
 * disturbed, and the graph goes later.
 */
TEST_F(bridge, destroyed_while_recording)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), first, second;

	c_record(g, s);
	c_inc(g, s, a);
	first = c_end(g, s);
	c_replay(g, s, first);
	c_record(g, s);
	c_inc(g, s, b);
	c_destroy(g, first);
	c_destroy(g, first);
	ASSERT_EQ(-ENOENT, c_try_replay(g, t, first).rc);
	second = c_end(g, s);
	c_replay(g, s, second);
	c_is(g, s, a, 6);
	c_is(g, s, b, 51);
	c_destroy(g, second);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	NOTHING_BROKE();
}

/* A graph whose stream was destroyed can be destroyed. */
TEST_F(bridge, destroyed_after_its_stream)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	cu_stream other = b_stream(g);

	c_record(g, other);
	c_inc(g, other, m);
	graph = c_end(g, other);
	c_replay(g, other, graph);
	c_sync(g, other);
	OK(capkm_cuda_stream_unbind(g->b, other, &err));
	CU(cuStreamDestroy(other));
	c_destroy(g, graph);
	c_is(g, s, m, 6);
}

/* T-123/hw: begins and ends that do not match count nothing, and everybody sees the count. */
TEST_F(bridge, t123_hw_shared_counters)
{
	G;
	struct cl *other = c_client(capkm_domain_id(g->c));
	uint64_t graph, ws, wt, m = c_new(g, s, 5);

	for (uint64_t i = 0; i < 2; i++) {
		graph = 77;
		ASSERT_GT(0, capkm_cuda_graph_begin(g->b, s, &err));
		ASSERT_GT(0, capkm_cuda_graph_end(g->b, s, &graph, NULL, &err));
		capkm_cuda_graph_abort(g->b, s, NULL);
		ASSERT_EQ(0, t_domain_query(other).out_windows);
		ws = c_prepare(g, s);
		wt = c_prepare(g, t);
		ASSERT_GT(0, capkm_cuda_graph_prepare(g->b, t, NULL, NULL, &err));
		ASSERT_EQ(2, t_domain_query(other).out_windows);
		c_begin(g, t);
		ASSERT_GT(0, capkm_cuda_graph_begin(g->b, t, &err));
		ASSERT_EQ(CAPKM_WINDOW_PREPARE, t_window(other, ws).q.out_state);
		ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(other, wt).q.out_state);
		c_inc(g, t, m);
		c_abort(g, s);
		graph = c_end(g, t);
		ASSERT_GT(0, capkm_cuda_graph_end(g->b, t, &graph, NULL, &err));
		ASSERT_EQ(0, t_domain_query(other).out_windows);
		ASSERT_EQ(i + 1, t_domain_query(other).out_sealed);
		ASSERT_EQ(i + 1, t_domain_query(other).out_graphs);
	}
	t_close(other);
	NOTHING_BROKE();
}

CUDA_TEST_MAIN
