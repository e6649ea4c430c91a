// SPDX-License-Identifier: GPL-2.0-only
/*
 * Graphs: what a sealed window writes, reads and was seen to be given, and what
 * its replays do to bytes.
 */
#include "capkm_test.h"

FIXTURE(graph)
{
	struct cl *a;
	u_int64_t in, out, b;
};

FIXTURE_SETUP(graph)
{
	self->a = t_client();
	t_domain(self->a);
	self->in = t_buffer(self->a, 100);
	self->out = t_buffer(self->a, 100);
	self->b = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(graph)
{
	t_close(self->a);
	t_no_leaks();
}

#define INPUTS CAPKM_GRAPH_QUERY_F_INPUTS
#define SEEN CAPKM_GRAPH_QUERY_F_SEEN
#define FAILURES() t_failures(self->a)

/* A launch inside a window. */
static void launch(struct cl *cl, u_int64_t stream, const struct capkm_claim *reads,
		   size_t n_reads, const struct capkm_claim *writes, size_t n_writes)
{
	u_int64_t f = t_exit_(cl, t_enter_(cl, stream, reads, n_reads, writes, n_writes));

	if (f)
		t_die("a launch carries failure %" PRIu64, f);
}
#define launch(...) (T_AT, launch(__VA_ARGS__))

/* T-100: what the graph knows, and a replay */
TEST_F(graph, seal_and_replay)
{
	u_int64_t w = t_prepare_cookie(self->a, 1, 0xabcdef), g, d;
	struct t_graph q;

	t_begin(self->a, 1);
	launch(self->a, 1, C({ self->in, 0, 100 }), C({ self->out, 0, 50 }));
	launch(self->a, 1, C({ self->out, 0, 50 }), C({ self->out, 50, 100 }));
	t_end(self->a, 1);
	g = t_seal(self->a, w);
	q = t_graph_query(self->a, g, 0);
	ASSERT_EQ(w, q.q.out_window);
	ASSERT_EQ(self->a->session, q.q.out_session);
	ASSERT_EQ(1, q.q.out_owner);
	ASSERT_EQ(0xabcdef, q.q.out_cookie);
	ASSERT_EQ(2, q.q.out_writes);
	ASSERT_EQ(1, q.q.out_inputs);
	ASSERT_EQ(0, q.q.out_seen);
	ASSERT_EQ(0, q.q.out_replays);
	ASSERT_EQ(0, q.q.out_failed_replays);
	ASSERT_EQ(getpid(), q.q.out_pid);
	ASSERT_EQ(0, q.q.out_replaying);
	t_graph_is(self->a, g, 0, C({ self->out, 0, 50 }, { self->out, 50, 100 }));
	t_graph_is(self->a, g, INPUTS, C({ self->in, 0, 100 }));
	t_graph_is(self->a, g, SEEN, NO_CLAIMS);
	ASSERT_EQ(1, t_domain_query(self->a).out_graphs);
	ASSERT_EQ(1, t_buffer_query(self->a, self->in).q.out_uses);
	ASSERT_EQ(1, t_buffer_query(self->a, self->out).q.out_uses);
	ASSERT_EQ(0, t_buffer_query(self->a, self->b).q.out_uses);

	d = t_domain_query(self->a).out_sequence;
	t_replay_begin(self->a, g, 1);
	ASSERT_GT(t_domain_query(self->a).out_sequence, d);
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_replaying);
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	q = t_graph_query(self->a, g, 0);
	ASSERT_EQ(1, q.q.out_replays);
	ASSERT_EQ(0, q.q.out_replaying);
	t_is_clean(self->a, self->out, 0, 100);
	ASSERT_EQ(0, FAILURES());
}

/* GRAPH_QUERY from a key on */
TEST_F(graph, query_in_pieces)
{
	u_int64_t w = t_record(self->a, 1), g;
	struct capkm_claim c[2];
	struct capkm_graph_query q = { .claims_uptr = t_ptr(c), .claims_len = 2 };

	for (int i = 0; i < 4; i++)
		launch(self->a, 1, NO_CLAIMS, C({ self->out, 10 * i, 10 * i + 10 }));
	launch(self->a, 1, NO_CLAIMS, C({ self->out, 10, 30 }));
	t_end(self->a, 1);
	g = t_seal(self->a, w);
	q.graph = g;
	T_OK(self->a, GRAPH_QUERY, &q);
	ASSERT_EQ(2, q.out_claims);
	ASSERT_EQ(5, q.out_writes);
	ASSERT_EQ(10, c[1].start);
	ASSERT_EQ(20, c[1].end);
	q.from = c[1];
	q.from.end++;
	T_OK(self->a, GRAPH_QUERY, &q);
	ASSERT_EQ(2, q.out_claims);
	ASSERT_EQ(10, c[0].start);
	ASSERT_EQ(30, c[0].end);
	q.from = c[1];
	q.from.end++;
	T_OK(self->a, GRAPH_QUERY, &q);
	ASSERT_EQ(1, q.out_claims);
	ASSERT_EQ(30, c[0].start);
	q.from.buffer = self->out + 1;
	q.from.start = 0;
	T_OK(self->a, GRAPH_QUERY, &q);
	ASSERT_EQ(0, q.out_claims);
}

/* GR-20 T-113: success releases, failure taints all, the next success releases */
TEST_F(graph, replay_ok_and_failed)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS,
			      C({ self->out, 0, 50 }, { self->b, 10, 20 })), f, h;
	struct capkm_report r;

	f = t_fail(self->a, 9, C({ self->out, 0, 100 }), "before");
	t_replay(self->a, g, 1);
	t_is_clean(self->a, self->out, 0, 50);
	t_is_failed(self->a, self->out, 50, 100, f);

	t_replay_begin(self->a, g, 33);
	h = t_replay_end(self->a, g, "enqueue failed");
	ASSERT_NE(0, h);
	r = t_is_failed(self->a, self->out, 0, 100, h);
	ASSERT_EQ(0, r.start);
	ASSERT_EQ(50, r.end);
	ASSERT_EQ(CAPKM_KIND_DRIVER, r.kind);
	ASSERT_EQ(719, r.code);
	ASSERT_EQ(g, r.graph);
	ASSERT_EQ(0, r.scope);
	ASSERT_EQ(33, r.stream);
	ASSERT_STREQ("enqueue failed", (char *)r.text);
	ASSERT_EQ(2, r.carriers);
	t_is_failed(self->a, self->b, 10, 20, h);
	t_is_clean(self->a, self->b, 20, 100);
	ASSERT_EQ(2, FAILURES());
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_failed_replays);
	/* GR-24: what was before is ignored. */
	t_replay(self->a, g, 1);
	t_is_clean(self->a, self->out, 0, 50);
	t_is_clean(self->a, self->b, 0, 100);
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(2, t_graph_query(self->a, g, 0).q.out_replays);
}

/* While it runs its writes are in progress, by the graph. */
TEST_F(graph, replay_in_progress)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 10, 50 }));
	struct capkm_report r;
	struct t_enter e;

	t_replay_begin(self->a, g, 1);
	r = t_is_tainted(self->a, self->out, 0, 100, CAPKM_KIND_IN_PROGRESS);
	ASSERT_EQ(10, r.start);
	ASSERT_EQ(50, r.end);
	ASSERT_EQ(g, r.graph);
	ASSERT_EQ(0, r.scope);
	ASSERT_EQ(0, r.failure);
	t_is_clean(self->a, self->out, 0, 10);
	t_is_clean(self->a, self->out, 50, 100);
	e = t_try_enter(self->a, 1, 0, NULL, C({ self->out, 0, 100 }),
			C({ self->b, 0, 10 }));
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.result);
	ASSERT_EQ(g, e.r.graph);
	T_REFUSED(self->a, -EBUSY, t_reset(self->a, self->out, 0, 100));
	T_REFUSED(self->a, -EBUSY, t_reset(self->a, self->out, 49, 50));
	ASSERT_EQ(0, t_reset(self->a, self->out, 50, 100));
	/* It is being replayed, whoever asks. */
	T_REFUSED(self->a, -EBUSY, t_try_replay(self->a, g, 1).rc);
	T_REFUSED(self->a, -EBUSY, t_try_replay(self->a, g, 9).rc);
	T_REFUSED(self->a, -EBUSY, t_destroy(self->a, g));
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	t_is_clean(self->a, self->out, 0, 100);
	T_REFUSED(self->a, -EINVAL, t_try_replay_end(self->a, g));
}

/* Two graphs that write the same bytes at once */
TEST_F(graph, two_replays)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 60 }));
	u_int64_t h = t_graph(self->a, 2, NO_CLAIMS, C({ self->out, 40, 100 })), f;

	t_replay_begin(self->a, g, 1);
	t_replay_begin(self->a, h, 2);
	f = t_replay_end(self->a, h, "h");
	ASSERT_EQ(g, t_is_tainted(self->a, self->out, 0, 100,
				  CAPKM_KIND_IN_PROGRESS).graph);
	t_is_failed(self->a, self->out, 60, 100, f);
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	/* h failed after g began. */
	t_is_clean(self->a, self->out, 0, 40);
	t_is_failed(self->a, self->out, 40, 100, f);
	t_replay(self->a, g, 1);
	t_is_failed(self->a, self->out, 0, 100, f);
	ASSERT_EQ(60, t_is_failed(self->a, self->out, 0, 100, f).start);
}

/* A failure that came during a replay is later than its begin. */
TEST_F(graph, failure_during_replay)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 60 })), f;

	t_replay_begin(self->a, g, 1);
	f = t_taint(self->a, "during", C({ self->out, 20, 30 }));
	t_written(self->a, C({ self->out, 25, 30 }));
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	t_ranges_are(self->a, self->out, { 20, 25, f, CAPKM_RANGE_FAILED });
}

/* External inputs: read and not written before, to the byte */
TEST_F(graph, external_inputs)
{
	u_int64_t w = t_record(self->a, 1), g, s, r;

	launch(self->a, 1, C({ self->in, 0, 50 }), C({ self->out, 10, 20 }));
	/* [10,20) comes from the window itself. */
	launch(self->a, 1, C({ self->out, 0, 30 }), NO_CLAIMS);
	/* A scope does not see its own writes, they come after its reads. */
	launch(self->a, 1, C({ self->b, 0, 10 }), C({ self->b, 0, 10 }));
	launch(self->a, 1, C({ self->b, 0, 10 }), NO_CLAIMS);
	/* A scope that had entered before the write was left reads the old bytes. */
	r = t_enter(self->a, 1, C({ self->b, 40, 50 }), NO_CLAIMS);
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 40, 50 }));
	ASSERT_EQ(0, t_exit(self->a, s));
	ASSERT_EQ(0, t_exit(self->a, r));
	ASSERT_EQ(0, t_try_record(self->a, w, 0, NO_CLAIMS, C({ self->b, 60, 70 })));
	launch(self->a, 1, C({ self->b, 60, 71 }), NO_CLAIMS);
	t_end(self->a, 1);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, INPUTS,
		   C({ self->in, 0, 50 }, { self->out, 0, 10 }, { self->out, 20, 30 },
		     { self->b, 0, 10 }, { self->b, 40, 50 }, { self->b, 70, 71 }));
	t_graph_is(self->a, g, 0, C({ self->out, 10, 20 }, { self->b, 0, 10 },
				    { self->b, 40, 50 }, { self->b, 60, 70 }));
}

/* A tainted external input skips the replay like a launch. */
TEST_F(graph, skipped_replay)
{
	u_int64_t g = t_graph(self->a, 1, C({ self->in, 20, 60 }),
			      C({ self->out, 0, 50 })), f;
	struct t_failure q;
	struct t_replay r;

	t_fail(self->a, 9, C({ self->in, 0, 20 }, { self->in, 60, 100 }), "not an input");
	t_replay(self->a, g, 1);
	f = t_fail(self->a, 9, C({ self->in, 50, 70 }), "bad input");
	r = t_try_replay(self->a, g, 1);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(1, r.reports);
	ASSERT_EQ(f, r.r.failure);
	ASSERT_EQ(self->in, r.r.buffer);
	ASSERT_EQ(50, r.r.start);
	ASSERT_EQ(60, r.r.end);
	ASSERT_EQ(0, t_graph_query(self->a, g, 0).q.out_replaying);
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_failed_replays);
	t_ranges_are(self->a, self->out, { 0, 50, f, CAPKM_RANGE_FAILED });
	q = t_failure(self->a, f, self->out);
	ASSERT_EQ(1, q.q.out_hops);
	ASSERT_EQ(self->in, q.h[0].needed);
	T_REFUSED(self->a, -EINVAL, t_try_replay_end(self->a, g));
	/* Recovery: the input is written, the replay releases the outputs. */
	t_write(self->a, 9, C({ self->in, 0, 100 }));
	t_replay(self->a, g, 1);
	ASSERT_EQ(0, FAILURES());
}

/* An external input that is being written: try again, nothing has changed. */
TEST_F(graph, input_in_progress)
{
	u_int64_t g = t_graph(self->a, 1, C({ self->in, 20, 60 }),
			      C({ self->out, 0, 50 })), s, f;
	struct t_replay r;
	char *before;

	f = t_fail(self->a, 9, C({ self->in, 40, 60 }), "x");
	s = t_enter(self->a, 9, NO_CLAIMS, C({ self->in, 0, 30 }));
	before = t_dump(self->a);
	r = t_try_replay(self->a, g, 1);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_IN_PROGRESS, r.result);
	ASSERT_EQ(1, r.reports);
	ASSERT_EQ(s, r.r.scope);
	ASSERT_EQ(20, r.r.start);
	ASSERT_EQ(30, r.r.end);
	t_unchanged(self->a, before);
	ASSERT_EQ(0, t_exit(self->a, s));
	r = t_try_replay(self->a, g, 1);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(f, r.r.failure);
	/* Writes beside the input do not matter. */
	t_write(self->a, 9, C({ self->in, 0, 100 }));
	s = t_enter(self->a, 9, NO_CLAIMS, C({ self->in, 0, 20 }, { self->in, 60, 100 }));
	t_replay(self->a, g, 1);
	ASSERT_EQ(0, t_exit(self->a, s));
}

/* An input that a window before had written well is read after its replay. */
TEST_F(graph, chain_of_graphs)
{
	u_int64_t g = t_graph(self->a, 1, C({ self->in, 0, 100 }), C({ self->b, 0, 100 }));
	u_int64_t h = t_graph(self->a, 1, C({ self->b, 0, 100 }), C({ self->out, 0, 100 }));
	u_int64_t f;
	struct t_failure q;

	t_replay_begin(self->a, g, 1);
	ASSERT_EQ(CAPKM_IN_PROGRESS, t_try_replay(self->a, h, 2).result);
	f = t_replay_end(self->a, g, "g failed");
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, h, 2).result);
	t_is_failed(self->a, self->out, 0, 100, f);
	q = t_failure(self->a, f, self->out);
	ASSERT_EQ(1, q.q.out_hops);
	ASSERT_EQ(self->b, q.h[0].needed);
	t_replay(self->a, g, 1);
	t_replay(self->a, h, 2);
	ASSERT_EQ(0, FAILURES());
}

/* A graph that reads what it writes is skipped after its own failure. */
TEST_F(graph, in_place)
{
	u_int64_t g = t_graph(self->a, 1, C({ self->b, 0, 10 }), C({ self->b, 0, 10 })), f;

	t_replay(self->a, g, 1);
	t_replay_begin(self->a, g, 1);
	f = t_replay_end(self->a, g, "x");
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, g, 1).result);
	t_is_failed(self->a, self->b, 0, 10, f);
	t_written(self->a, C({ self->b, 0, 10 }));
	t_replay(self->a, g, 1);
}

/* NO_INPUTS: replays look neither at inputs nor at what was seen (GR-22) */
TEST_F(graph, no_inputs)
{
	u_int64_t w = t_record(self->a, 1), g, s;

	launch(self->a, 1, C({ self->in, 0, 100 }), C({ self->out, 0, 50 }));
	ASSERT_EQ(0, t_try_record(self->a, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->b, 0, 40 })));
	t_end(self->a, 1);
	g = t_seal_flags(self->a, w, CAPKM_WINDOW_SEAL_F_NO_INPUTS);
	t_fail(self->a, 9, C({ self->in, 0, 100 }, { self->b, 0, 100 }), "x");
	t_replay(self->a, g, 1);
	s = t_enter(self->a, 9, NO_CLAIMS, C({ self->in, 0, 100 }));
	t_replay(self->a, g, 1);
	t_is_clean(self->a, self->out, 0, 100);
	ASSERT_EQ(0, t_exit(self->a, s));
}

/* SEEN: checked before, tainted by a failure, never released by a success */
TEST_F(graph, seen)
{
	u_int64_t w = t_record(self->a, 1), g, f, h;
	struct t_replay r;

	launch(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 }));
	ASSERT_EQ(0, t_try_record(self->a, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->b, 0, 40 })));
	t_end(self->a, 1);
	t_take_is(self->a, w, C({ self->out, 0, 50 }));
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->out, 0, 50 }));
	t_graph_is(self->a, g, INPUTS, NO_CLAIMS);
	t_graph_is(self->a, g, SEEN, C({ self->b, 0, 40 }));
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_seen);
	ASSERT_EQ(1, t_buffer_query(self->a, self->b).q.out_uses);

	/* Checked. */
	f = t_fail(self->a, 9, C({ self->b, 30, 50 }), "seen");
	r = t_try_replay(self->a, g, 1);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(self->b, r.r.buffer);
	t_is_failed(self->a, self->out, 0, 50, f);
	t_is_clean(self->a, self->b, 0, 30);
	t_written(self->a, C({ self->b, 0, 100 }));
	/* Not in progress while it runs: it is not known to be written. */
	t_replay_begin(self->a, g, 1);
	t_is_clean(self->a, self->b, 0, 100);
	f = t_taint(self->a, "during", C({ self->b, 35, 45 }));
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	/* Never released. */
	t_is_failed(self->a, self->b, 35, 45, f);
	t_written(self->a, C({ self->b, 0, 100 }));
	/* Tainted by a failure. */
	t_replay_begin(self->a, g, 1);
	h = t_replay_end(self->a, g, "x");
	t_is_failed(self->a, self->b, 0, 100, h);
	t_is_clean(self->a, self->b, 40, 100);
	t_is_failed(self->a, self->out, 0, 50, h);
	/* and so the next replay is skipped until it is written */
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, g, 1).result);
	t_written(self->a, C({ self->b, 0, 100 }));
	t_replay(self->a, g, 1);
	ASSERT_EQ(0, FAILURES());
}

/* GR-15: refusal taints all that was recorded */
TEST_F(graph, refusal_taints)
{
	u_int64_t w = t_record(self->a, 1);
	struct t_seal s;

	launch(self->a, 1, C({ self->in, 0, 100 }), C({ self->out, 0, 50 }));
	ASSERT_EQ(0, t_try_record(self->a, w, 0, NO_CLAIMS, C({ self->out, 70, 80 })));
	ASSERT_EQ(0, t_try_record(self->a, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->b, 0, 10 })));
	t_end(self->a, 1);
	s = t_refuse(self->a, w, "graph owns memory nodes");
	t_is_failed(self->a, self->out, 0, 50, s.r[0].failure);
	t_is_clean(self->a, self->out, 50, 70);
	t_is_failed(self->a, self->out, 70, 80, s.r[0].failure);
	/* Inputs and what was merely seen are as they were. */
	t_is_clean(self->a, self->in, 0, 100);
	t_is_clean(self->a, self->b, 0, 100);
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(0, t_buffer_query(self->a, self->in).q.out_uses);
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
}

/* GR-18 as changed: between seal and replay memory reads as before the window */
TEST_F(graph, before_first_replay)
{
	u_int64_t f = t_fail(self->a, 9, C({ self->out, 0, 30 }), "before"), g;

	g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 }));
	t_is_failed(self->a, self->out, 0, 100, f);
	t_is_clean(self->a, self->out, 30, 100);
	t_replay(self->a, g, 1);
	t_is_clean(self->a, self->out, 0, 100);
}

/* GR-19 T-113: unknown ids taint nothing; 0 is not a graph */
TEST_F(graph, unknown)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 }));

	T_REFUSED(self->a, -ENOENT, t_try_replay(self->a, 12345, 1).rc);
	T_REFUSED(self->a, -ENOENT, t_try_replay_end(self->a, 12345));
	T_REFUSED(self->a, -ENOENT, t_destroy(self->a, 12345));
	T_REFUSED(self->a, -EINVAL, t_destroy(self->a, 0));
	T_REFUSED(self->a, -EINVAL, t_try_replay_end(self->a, g));
	ASSERT_EQ(0, t_destroy(self->a, g));
	T_REFUSED(self->a, -ENOENT, t_try_replay(self->a, g, 1).rc);
	T_REFUSED(self->a, -ENOENT, t_destroy(self->a, g));
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
	ASSERT_EQ(0, t_buffer_query(self->a, self->out).q.out_uses);
}

/* Destroying a graph changes no taint. */
TEST_F(graph, destroy_changes_no_taint)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 })), f;

	t_replay_begin(self->a, g, 1);
	f = t_replay_end(self->a, g, "x");
	ASSERT_EQ(0, t_destroy(self->a, g));
	t_is_failed(self->a, self->out, 0, 50, f);
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(CAPKM_WINDOW_SEALED, t_window(self->a, 1).q.out_state);
}

/* GR-21: the graph pins its buffers */
TEST_F(graph, pins_buffers)
{
	u_int64_t g = t_graph(self->a, 1, C({ self->in, 0, 10 }), C({ self->out, 0, 10 }));
	u_int64_t f;

	ASSERT_EQ(0, t_drop(self->a, self->in));
	ASSERT_EQ(0, t_drop(self->a, self->out));
	ASSERT_EQ(3, t_domain_query(self->a).out_buffers);
	t_graph_is(self->a, g, 0, C({ self->out, 0, 10 }));
	t_replay(self->a, g, 1);
	t_replay_begin(self->a, g, 1);
	f = t_replay_end(self->a, g, "x");
	ASSERT_EQ(1, t_failure(self->a, f, 0).q.out_carriers);
	ASSERT_EQ(0, t_destroy(self->a, g));
	ASSERT_EQ(1, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(0, FAILURES());
}

/* CW-29 GR-23: a replay inside a software window: refused, tainted, doomed */
TEST_F(graph, replay_inside_window)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 })), w;
	struct capkm_report c;
	struct t_replay r;

	w = t_record(self->a, 1);
	r = t_try_replay(self->a, g, 33);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_REFUSED, r.result);
	c = t_is_tainted(self->a, self->out, 0, 100, CAPKM_KIND_REFUSED);
	ASSERT_NE(0, c.failure);
	ASSERT_EQ(0, c.start);
	ASSERT_EQ(50, c.end);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(1, t_window(self->a, w).q.out_failures);
	ASSERT_EQ(0, t_graph_query(self->a, g, 0).q.out_replaying);
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_failed_replays);
	/* Elsewhere it may run. */
	t_replay(self->a, g, 9);
	t_is_clean(self->a, self->out, 0, 100);
	t_end(self->a, 1);
	t_seal_refused(self->a, w);
	/* In PREPARE it may too. */
	t_prepare(self->a, 1);
	t_replay(self->a, g, 1);
}

/* A driver's window refuses without doing anything: record the child's claims. */
TEST(replay_inside_hardware_window)
{
	struct cl *a = t_client();
	u_int64_t b, w, g;

	t_domain_backend(a, CAPKM_BACKEND_HARDWARE);
	b = t_buffer(a, 10);
	for (int i = 0; i < 2; i++) {
		w = t_prepare(a, 1);
		ASSERT_EQ(0, t_try_begin(a, 1, 0).rc);
		ASSERT_EQ(0, t_try_begin(a, 1, CAPKM_WINDOW_F_DRIVER_DONE).rc);
		if (i)
			break;
		t_write(a, 1, C({ b, 0, 10 }));
		ASSERT_EQ(0, t_try_end(a, 1, 0).rc);
		ASSERT_EQ(0, t_try_end(a, 1, CAPKM_WINDOW_F_DRIVER_DONE).rc);
		g = t_seal(a, w);
	}
	T_REFUSED(a, -EOPNOTSUPP, t_try_replay(a, g, 1).rc);
	ASSERT_EQ(0, t_window(a, w).q.out_doomed);
	t_close(a);
}

/* An open replay keeps a window off its slot, as a scope does. */
TEST_F(graph, window_does_not_straddle_replay)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 }));

	t_replay_begin(self->a, g, 1);
	t_prepare(self->a, 33);
	T_REFUSED(self->a, -EBUSY, t_try_begin(self->a, 33, 0).rc);
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	t_begin(self->a, 33);
}

/* A replay that began before a window opened elsewhere goes on. */
TEST_F(graph, replay_beside_window)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 })), w;

	t_replay_begin(self->a, g, 2);
	w = t_record(self->a, 1);
	launch(self->a, 1, NO_CLAIMS, C({ self->out, 0, 50 }));
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	t_end(self->a, 1);
	t_seal(self->a, w);
	t_no_ranges(self->a, self->out);
}

/* A graph without claims */
TEST_F(graph, empty)
{
	u_int64_t w = t_record(self->a, 1), g;

	t_end(self->a, 1);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, NO_CLAIMS);
	t_replay(self->a, g, 1);
	t_replay_begin(self->a, g, 1);
	ASSERT_EQ(0, t_replay_end(self->a, g, "x"));
	ASSERT_EQ(0, FAILURES());
	ASSERT_EQ(0, t_destroy(self->a, g));
}

/* T-110 GR-21: many graphs over one buffer, each with its own replay */
TEST_F(graph, many_graphs)
{
	u_int64_t g[16], f;

	for (int i = 0; i < 16; i++)
		g[i] = t_graph(self->a, 1, NO_CLAIMS,
			       C({ self->out, 0, 10 }, { self->b, 4 * i, 4 * i + 8 }));
	ASSERT_EQ(16, t_buffer_query(self->a, self->out).q.out_uses);
	for (int i = 0; i < 16; i++)
		t_replay_begin(self->a, g[i], 1);
	f = t_replay_end(self->a, g[7], "seven");
	for (int i = 0; i < 16; i++)
		if (i != 7)
			ASSERT_EQ(0, t_replay_end(self->a, g[i], NULL));
	/* All of them began before it failed. */
	t_is_failed(self->a, self->out, 0, 10, f);
	t_ranges_are(self->a, self->b, { 28, 36, f, CAPKM_RANGE_FAILED });
	t_replay(self->a, g[0], 1);
	t_is_clean(self->a, self->out, 0, 10);
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(0, t_destroy(self->a, g[i]));
	ASSERT_EQ(0, t_buffer_query(self->a, self->out).q.out_uses);
}

/* A graph belongs to its client: others may look, no more. */
TEST_F(graph, of_its_client)
{
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ self->out, 0, 10 }));
	struct cl *b = t_process();

	t_attach(b, self->a->domain);
	T_REFUSED(self->a, -EPERM, t_try_replay(b, g, 1).rc);
	T_REFUSED(self->a, -EPERM, t_destroy(b, g));
	t_graph_is(b, g, 0, C({ self->out, 0, 10 }));
	t_replay_begin(self->a, g, 1);
	T_REFUSED(self->a, -EPERM, t_try_replay_end(b, g));
	ASSERT_EQ(1, t_graph_query(b, g, 0).q.out_replaying);
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	t_close(b);
}

TEST_HARNESS_MAIN
