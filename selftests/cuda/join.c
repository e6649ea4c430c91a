// SPDX-License-Identifier: GPL-2.0-only
/* Streams that enter a capture by events, seen by the bridge or behind its back. */
#include "bridge.h"

#include <pthread.h>

/* Fork to the second stream, join back. */
static void fork_to(struct gpu *g, cu_stream s, cu_stream t)
{
	cu_event e = c_event();

	c_event_record(g, e, s);
	c_wait(g, t, e);
	capkm_cuda_event_forget(g->b, e);
	CU_DO(cuEventDestroy(e));
}

/*
 * Work of both streams is in one window, in the order of the events:
 * a = 5 + 1; b = a on the other stream, b + 1; out = a + b = 6 + 7.
 */
TEST_F(bridge, fork_and_join)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 0), out = c_new(g, s, 0), graph, w;
	struct capkm_window_query q;

	w = c_record(g, s);
	c_inc(g, s, a);
	fork_to(g, s, t);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, b_state(g, &self->on_t));
	c_copy(g, t, b, a);
	c_inc(g, t, b);
	fork_to(g, t, s);
	c_add(g, s, out, a, b);
	q = b_window(g, w);
	ASSERT_EQ(1, q.out_members);
	ASSERT_EQ(4, q.out_launches);
	ASSERT_EQ(3, q.out_recorded);
	graph = c_end(g, s);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	c_holds(a, 5);
	c_replay(g, s, graph);
	c_is(g, s, out, 13);
	c_replay(g, s, graph);
	c_is(g, s, out, 15);		/* 7 + 8 */
	ASSERT_EQ(4, c_query(g, graph).kernels);
	NOTHING_BROKE();
	b_usable(g, t, &self->on_t);
}

/*
 * The same behind the bridge's back: it finds the stream in the window's capture, and
 * what it issues there belongs to the window.
 */
TEST_F(bridge, joined_behind_its_back)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, t, 50), graph, w;
	cu_event e = c_event(), f = c_event();

	w = c_record(g, s);
	c_inc(g, s, a);
	CU(cuEventRecord(e, s));
	CU(cuStreamWaitEvent(t, e, 0));
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	c_inc(g, t, b);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, b_state(g, &self->on_t));
	ASSERT_EQ(w, b_slot(g, &self->on_t).out_window);
	ASSERT_EQ(2, b_window(g, w).out_launches);
	CU(cuEventRecord(f, t));
	CU(cuStreamWaitEvent(s, f, 0));
	graph = c_end(g, s);
	c_is(g, t, b, 50);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	c_is(g, t, b, 51);
	NOTHING_BROKE();
	b_usable(g, t, &self->on_t);
}

/* Forked and never joined back: 904; the window is none, both streams are usable. */
TEST_F(bridge, not_joined_back)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, t, 50);
	struct capkm_report r;

	c_record(g, s);
	c_inc(g, s, a);
	fork_to(g, s, t);
	c_inc(g, t, b);
	c_end_fails(g, s, -EBUSY);
	ASSERT_EQ(904, err.code);
	r = c_is_tainted(g, a, CAPKM_KIND_DRIVER);
	HAS(r.text, "UNJOINED");
	c_is_tainted(g, b, CAPKM_KIND_DRIVER);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	c_write(g, s, a, 5);
	c_write(g, t, b, 50);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* A stream with a window of its own joins no other; both windows go on. */
TEST_F(bridge, own_window_is_in_the_way)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;
	cu_event e = c_event();

	c_record(g, s);
	c_inc(g, s, a);
	c_event_record(g, e, s);
	c_prepare(g, t);
	REFUSED(-EBUSY, capkm_cuda_stream_wait(g->b, t, e, &err));
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	c_begin(g, t);
	REFUSED(-EBUSY, capkm_cuda_stream_wait(g->b, t, e, &err));
	graph = c_end(g, t);
	c_destroy(g, graph);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	NOTHING_BROKE();
}

/*
 * A stream is still in the driver's capture of a window that was abandoned: it gets none
 * of its own before that capture has ended.
 */
TEST_F(bridge, window_of_others_was_abandoned)
{
	G;
	const uint64_t w = c_record(g, s);

	fork_to(g, s, t);
	OK(capkm_window_abandon(g->c, w, &err));
	FAILS(-EBUSY, "which another stream has begun",
	      capkm_cuda_graph_prepare(g->b, t, NULL, NULL, &err));
	FAILS(-EBUSY, "which another stream has begun", capkm_cuda_graph_begin(g->b, t, &err));
	FAILS(-EBUSY, "already", capkm_cuda_graph_attach(g->b, t, NULL, NULL, &err));
	c_abort(g, s);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	ASSERT_EQ(0, b_domain(g).out_windows);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* A member has no window to prepare or to end; its read and its synchronise are refused. */
TEST_F(bridge, member)
{
	G;
	uint64_t a = c_new(g, s, 5), graph = 77, w;
	uint32_t words[WORDS];

	w = c_record(g, s);
	c_inc(g, s, a);
	fork_to(g, s, t);
	REFUSED(-EBUSY, capkm_cuda_graph_prepare(g->b, t, NULL, NULL, &err));
	ASSERT_NE(0, capkm_cuda_graph_end(g->b, t, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	REFUSED(-EBUSY, capkm_cuda_stream_sync(g->b, t, &err));
	ASSERT_EQ(-EBUSY, c_try_read(g, t, a, words));
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, b_window(g, w).out_state);
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	fork_to(g, t, s);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	NOTHING_BROKE();
}

/*
 * A member is unbound, and another stream gets bound meanwhile. What that one does runs,
 * so it must not count as recorded: it is read at once, and no replay does it again.
 */
TEST_F(bridge, member_is_unbound)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), w, recorded;
	cu_stream other = NULL;
	struct capkm_where where;

	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	w = c_record(g, s);
	c_inc(g, s, a);
	fork_to(g, s, t);
	fork_to(g, t, s);
	OK(capkm_cuda_stream_unbind(g->b, t, &err));
	recorded = b_window(g, w).out_launches;
	where = c_bind(g, other);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &where));
	c_inc(g, other, b);
	c_is(g, other, b, 51);
	ASSERT_EQ(recorded, b_window(g, w).out_launches);
	c_end(g, s);
	b_usable(g, s, &self->on_s);
	b_usable(g, other, &where);
}

/* An event that is not the window's brings nobody into it. */
TEST_F(bridge, waits_for_work_before)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, t, 50), graph;
	cu_event e = c_event();

	c_inc(g, t, b);
	c_event_record(g, e, t);
	c_record(g, s);
	c_inc(g, s, a);
	graph = c_end(g, s);
	c_wait(g, s, e);
	c_replay(g, s, graph);
	c_copy(g, s, a, b);
	c_is(g, s, a, 51);
}

/* The driver does not let the stream wait: the window is what it was, or it is doomed. */
TEST_F(bridge, wait_fails)
{
	G;
	uint64_t a = c_new(g, s, 5);
	cu_event e = c_event();

	ONLY_STANDIN();
	c_record(g, s);
	c_inc(g, s, a);
	c_event_record(g, e, s);
	standin.fail("cuStreamWaitEvent", 1, 801);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_wait(g->b, t, e, &err));
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	capkm_cuda_graph_abort(g->b, s, NULL);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* Bad input: an event that the bridge has not recorded. */
TEST_F(bridge, unknown_event)
{
	G;
	cu_event e = c_event();

	CU(cuEventRecord(e, s));
	REFUSED(-ENOENT, capkm_cuda_stream_wait(g->b, t, e, &err));
	REFUSED(-ENOENT, capkm_cuda_event_sync(g->b, e, &err));
	capkm_cuda_event_forget(g->b, e);
	c_event_record(g, e, s);
	c_wait(g, t, e);
	capkm_cuda_event_forget(g->b, e);
	REFUSED(-ENOENT, capkm_cuda_stream_wait(g->b, t, e, &err));
}

/* An event of a window does not happen: to ask for it is refused, not left to the driver. */
TEST_F(bridge, event_of_a_window)
{
	G;
	cu_event e = c_event();
	uint64_t a = c_new(g, s, 5), graph;
	int done = 77;

	c_record(g, s);
	c_inc(g, s, a);
	c_event_record(g, e, s);
	REFUSED(-EBUSY, capkm_cuda_event_sync(g->b, e, &err));
	REFUSED(-EBUSY, capkm_cuda_event_query(g->b, e, &done, &err));
	ASSERT_EQ(77, done);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	/* Recorded again, outside, it is an event like any. */
	c_event_record(g, e, s);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	NOTHING_BROKE();
}

/* The same in a capture that somebody else began, without a window. */
TEST_F(bridge, event_of_a_foreign_capture)
{
	G;
	cu_event e = c_event();
	cu_graph raw = NULL;
	int done = 77;

	CU(cuStreamBeginCapture(s, CU_MODE_RELAXED));
	if (!capkm_cuda_event_record(g->b, e, s, &err)) {
		REFUSED(-EBUSY, capkm_cuda_event_query(g->b, e, &done, &err));
		REFUSED(-EBUSY, capkm_cuda_event_sync(g->b, e, &err));
	}
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));
	NOTHING_BROKE();
}

/* A member's thread works while the owner ends the window: an error or a record, no harm. */
TEST_F(bridge, member_works_meanwhile)
{
	G;
	struct setter w = { .g = g, .stream = t, .memory = c_new(g, t, 0) };
	uint64_t a = c_new(g, s, 5), graph;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, b_set_on, &w));
	for (int i = 0; i < 30; i++) {
		cu_event e = c_event();

		c_record(g, s);
		c_inc(g, s, a);
		if (!capkm_cuda_event_record(g->b, e, s, &err))
			capkm_cuda_stream_wait(g->b, t, e, &err);
		if (capkm_cuda_graph_end(g->b, s, &graph, NULL, &err))
			c_write(g, s, a, 5);
		else
			c_destroy(g, graph);
		capkm_cuda_event_forget(g->b, e);
		CU(cuEventDestroy(e));
	}
	w.stop = true;
	pthread_join(thread, NULL);
	capkm_cuda_graph_abort(g->b, t, &err);
	b_usable(g, s, &self->on_s);
}

CUDA_TEST_MAIN
