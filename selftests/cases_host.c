// SPDX-License-Identifier: GPL-2.0-only
/*
 * Field cases of capture windows that need a runtime to happen, on the executor: what
 * a graph needs is reserved, kept alive, or its replay refused. See cases.c.
 */
#include "host_test.h"

FIXTURE(cases_host)
{
	struct cl *a;
	struct ex x;
};

FIXTURE_SETUP(cases_host)
{
	self->a = t_client();
	h_domain(self->a);
	h_create(&self->x, self->a, NULL);
}

FIXTURE_TEARDOWN(cases_host)
{
	capkm_host_destroy(self->x.h);
	t_is_empty(self->a);
	t_close(self->a);
	t_no_leaks();
}

/*
 * C23: a handler of errors ended a capture for the second time, and destroyed a graph
 * that it had never got. The second end finds nothing recording, whoever asks; it
 * changes nothing, and gives no graph that could be destroyed.
 */
TEST_F(cases_host, c23_second_end)
{
	static const uint64_t who[] = { 1, 33, 2, 1 };
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), g = 0, again, w;

	for (int how = 0; how < 2; how++) {
		w = h_record(x, 1);
		h_add(x, 1, out, in, 1 + how);
		if (how) {
			/* The first one was refused. */
			ASSERT_EQ(CAPKM_REFUSED, h_try_write(x, 1, in, 6).result);
			h_end_refused(x, 1);
		} else {
			g = h_end(x, 1);
		}
		for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
			struct t_window before = t_window(self->a, w);

			again = 0xcccccccc;
			REFUSED(-EINVAL, capkm_host_graph_end(x->h, who[i], &again, NULL, &err));
			BEGINS("end_capture: ");
			SAYS("nothing recording");
			ASSERT_EQ(0, again);
			ASSERT_EQ(before.q.out_state, t_window(self->a, w).q.out_state);
			ASSERT_EQ(1, h_stats(x).graphs);
			/* What a handler would do with it is harmless. */
			h_destroy(x, again);
		}
	}
	h_write(x, 1, in, 5);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	h_destroy(x, g);
}

/*
 * C25: after one failed capture every later replay died of a message that said nothing,
 * for a half-built graph was kept. Here each replay of what never became a graph names
 * the failure that doomed its window, and a new capture on the same slot works.
 */
TEST_F(cases_host, c25_replay_of_what_never_was)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), bad = h_new(x, 2, 0), out = h_new(x, 1, 3), k, g = 77;
	uint64_t failures;

	k = h_kernel(x, "fail", fn_fail, "no graph executable");
	h_launch(x, 2, k, 0, ARGS(W(bad)));
	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	ASSERT_EQ(CAPKM_SKIPPED, h_try_launch(x, 1, x->add, 1, ARGS(W(in), R(bad)), 0).result);
	/* Its first failure, not the last. */
	ASSERT_EQ(CAPKM_REFUSED, h_try_write(x, 1, in, 6).result);
	REFUSED(-ESTALE, capkm_host_graph_end(x->h, 1, &g, NULL, &err));
	ASSERT_EQ(0, g);
	h_is_tainted(x, out, CAPKM_KIND_REFUSED);
	failures = t_failures(self->a);
	for (int i = 0; i < 100; i++) {
		REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
		SAYS("no graph executable");
		ASSERT_NE(0, err.failure);
	}
	ASSERT_EQ(failures, t_failures(self->a));
	/* Another slot's windows have nothing to do with it. */
	REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 3, g, NULL, &err));
	ASSERT_EQ(NULL, strstr(err.text, "no graph executable"));

	h_write(x, 1, in, 7);
	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	g = h_end(x, 1);
	for (int i = 0; i < 100; i++)
		h_replay(x, 1, g);
	h_is(x, 1, out, 8);
}

/*
 * C29: memory that a graph needed was allocated when it was first missed; when there was
 * none left, that program ran without its graph for the rest of its life and said so to
 * nobody. What is declared is reserved when the window is prepared: if that fails the
 * preparation does, nothing is left of it, and the domain counts who had to do without.
 */
TEST_F(cases_host, c29_working_set_is_reserved)
{
	const struct capkm_pool_area area = {
		.kind = CAPKM_POOL_SLICED, .page_bytes = 4096, .capacity = 8 * 4096,
	};
	const uint64_t fits[] = { SIZE, SIZE, 4 * SIZE };
	const uint64_t too_much[] = { SIZE, 1ull << 62, SIZE };
	struct capkm_pool_stats before, after;
	struct ex *x = &self->x;
	struct capkm_domain_query q;
	uint64_t in, out, tmp, g, w = 77;

	capkm_host_destroy(x->h);
	h_create(x, self->a, WITH(struct capkm_host_opts, .areas = &area, .areas_len = 1));
	in = h_new(x, 1, 5);
	out = h_new(x, 1, 0);
	before = h_pool(x, 1);
	for (int i = 1; i <= 3; i++) {
		int rc = capkm_host_graph_prepare(x->h, 1, WITH(struct capkm_host_graph_opts,
				.sizes = too_much, .sizes_len = 3), &w, &err);

		ASSERT_GT(0, rc);
		ASSERT_EQ(rc, err.err);
		BEGINS("graph_prepare: ");
		SAYS("4611686018427387904");
		ASSERT_EQ(77, w);
		ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 1).out_state);
		after = h_pool(x, 1);
		ASSERT_EQ(0, after.capture);
		ASSERT_EQ(before.used, after.used);
		ASSERT_EQ(before.slices, after.slices);
		ASSERT_EQ(0, h_stats(x).prepared);
		q = t_domain_query(self->a);
		ASSERT_EQ(i, q.out_given_up);
		ASSERT_EQ(0, q.out_sealed);
		/* The eager run still works. */
		h_add(x, 1, out, in, i);
		h_is(x, 1, out, 5 + i);
	}

	/* Had what it declares, the recording asks the system for nothing. */
	OK(capkm_host_graph_prepare(x->h, 1, WITH(struct capkm_host_graph_opts, .sizes = fits,
				    .sizes_len = 3), &w, &err));
	h_begin(x, 1);
	before = h_pool(x, 1);
	tmp = h_alloc(x, 1);
	h_add(x, 1, tmp, in, 10);
	h_add(x, 1, out, tmp, 100);
	h_free(x, tmp);
	tmp = h_alloc(x, 1);
	h_free(x, tmp);
	tmp = h_alloc_bytes(x, 1, 4 * SIZE);
	h_free(x, tmp);
	after = h_pool(x, 1);
	ASSERT_EQ(before.grown, after.grown);
	ASSERT_EQ(before.bytes, after.bytes);
	g = h_end(x, 1);
	q = t_domain_query(self->a);
	ASSERT_EQ(3, q.out_given_up);
	ASSERT_EQ(1, q.out_sealed);
	h_replay(x, 1, g);
	h_is(x, 1, out, 115);
	/* A doomed one has to do without, too. */
	h_record(x, 1);
	ASSERT_EQ(CAPKM_REFUSED, h_try_write(x, 1, out, 6).result);
	h_end_refused(x, 1);
	ASSERT_EQ(4, t_domain_query(self->a).out_given_up);
}

/*
 * C44: a workspace that was kept for ever was first allocated inside a capture, and got
 * the block of a temporary that the graph had freed: each replay overwrote it. Here
 * what was freed in a window is not handed out again in it, and after the capture
 * the graph keeps what it writes.
 */
TEST_F(cases_host, c44_workspace_first_allocated_in_the_capture)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), t, ws[3], g;
	struct capkm_claim claims[3];

	/* Allocated before the capture, in it, and after it. */
	for (int warm = 0; warm < 2; warm++) {
		ws[0] = h_new(x, 1, 12345);
		h_prepare(x, 1);
		if (warm) {
			/* The warm-up makes a free block of just this size. */
			t = h_alloc(x, 1);
			h_add(x, 1, t, in, 1);
			h_free(x, t);
		}
		h_begin(x, 1);
		t = h_alloc(x, 1);
		h_add(x, 1, t, in, 10);
		h_add(x, 1, out, t, 100);
		h_free(x, t);
		ws[1] = h_alloc(x, 1);
		g = h_end(x, 1);
		ws[2] = h_alloc(x, 1);
		for (int i = 0; i < 3; i++) {
			claims[i] = h_claim(x, ws[i]);
			h_write(x, 1, ws[i], 12345 + i);
		}
		for (int i = 0; i < 3; i++) {
			h_replay(x, 1, g);
			h_is(x, 1, out, 115);
			for (int j = 0; j < 3; j++)
				h_is(x, 1, ws[j], 12345 + j);
		}
		/* The authority says the same: the graph writes none of these bytes. */
		for (int j = 0; j < 3; j++) {
			struct t_graph q = t_graph_query(self->a, h_find_graph(x, g), 0);

			for (unsigned int i = 0; i < q.q.out_claims; i++)
				ASSERT_TRUE(q.c[i].buffer != claims[j].buffer ||
					    q.c[i].end <= claims[j].start ||
					    claims[j].end <= q.c[i].start);
		}
		h_destroy(x, g);
		for (int i = 0; i < 3; i++)
			h_free(x, ws[i]);
	}
}

/*
 * C45: a pool gave its memory back to the driver, and a replay wrote through addresses of
 * before: a page fault. A reset makes graphs of before stale: each replay is refused,
 * what they would have written is as it was, and a new capture works.
 */
TEST_F(cases_host, c45_pool_was_reset)
{
	struct ex *x = &self->x;
	struct capkm_pool_stats pool;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), g, g2, ran;

	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	/* While it records, too. */
	h_record(x, 2);
	h_add(x, 2, out, in, 2);
	ran = load(&x->ran);
	pool = h_pool(x, 1);
	OK(capkm_host_reset(x->h, &err));
	ASSERT_EQ(pool.epoch + 1, h_pool(x, 1).epoch);
	ASSERT_EQ(0, h_pool(x, 1).bytes);
	ASSERT_EQ(0, h_stats(x).recording);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 2).out_state);
	REFUSED(-ENOENT, capkm_host_free(x->h, in, &err));
	for (int i = 0; i < 3; i++) {
		REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
		BEGINS("graph_replay: ");
		SAYS("reset");
		SAYS("again");
		in = h_new(x, 1, 50 + i);
		out = h_new(x, 1, 60 + i);
	}
	h_sync(x, 1);
	h_is(x, 1, in, 52);
	h_is(x, 1, out, 62);
	ASSERT_EQ(ran, load(&x->ran));
	ASSERT_EQ(0, h_stats(x).failed);

	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	g2 = h_end(x, 1);
	h_replay(x, 1, g2);
	h_is(x, 1, out, 53);
	REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	h_destroy(x, g);
	REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	h_replay(x, 1, g2);
	h_is(x, 1, out, 53);
}

/* C45: what its outputs carried before, they still carry. */
TEST_F(cases_host, c45_stale_replay_changes_no_taint)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 1), b = h_new(x, 1, 2), k, g;
	struct capkm_report r;

	k = h_kernel(x, "fail", fn_fail, "before");
	h_record(x, 1);
	h_add(x, 1, a, in, 1);
	h_add(x, 1, b, in, 2);
	g = h_end(x, 1);
	h_launch(x, 1, k, 0, ARGS(W(a)));
	r = h_is_tainted(x, a, FAILED);
	h_free(x, in);
	for (int i = 0; i < 3; i++) {
		REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
		ASSERT_EQ(r.failure, h_is_tainted(x, a, FAILED).failure);
		h_is(x, 1, b, 2);
	}
	ASSERT_EQ(0, load(&x->ran));
}

/*
 * C47: a cache was cleared and allocated anew, somewhere else; the captured graph read
 * the old addresses, and the next request died. A replay whose input was freed is
 * refused with that reason; the new memory is another one, wherever it lies, and the
 * outputs are as they were.
 */
TEST_F(cases_host, c47_input_was_freed)
{
	struct ex *x = &self->x;
	uint64_t kv = h_new(x, 1, 5), out = h_new(x, 1, 0), again[8], g;
	char id[32];

	h_record(x, 1);
	h_add(x, 1, out, kv, 1);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	snprintf(id, sizeof(id), "%" PRIu64, kv);
	h_free(x, kv);
	for (int i = 0; i < 8; i++) {
		/* One of these has its bytes. */
		again[i] = h_new(x, 1, 70 + i);
		ASSERT_NE(kv, again[i]);
		REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
		SAYS("input freed");
		SAYS(id);
		h_is(x, 1, out, 6);
	}
	for (int i = 0; i < 8; i++)
		h_is(x, 1, again[i], 70 + i);
	h_record(x, 1);
	h_add(x, 1, out, again[0], 1);
	h_destroy(x, g);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 71);
}

/* C47: freed while a replay is queued: that one still reads it, the next is refused. */
TEST_F(cases_host, c47_input_is_freed_behind_a_replay)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t kv = h_new(x, 1, 5), out = h_new(x, 1, 0), next, k, g;

	k = h_kernel(x, "gated", fn_gated, &gate);
	h_record(x, 1);
	h_add(x, 1, out, kv, 1);
	g = h_end(x, 1);
	h_launch(x, 1, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_replay(x, 1, g);
	h_free(x, kv);
	next = h_alloc(x, 1);
	h_set(x, 2, next, 70);
	h_is(x, 2, next, 70);
	REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	gate_open(&gate);
	h_is(x, 1, out, 6);
	h_is(x, 1, next, 70);
	/* What the graph writes before it reads it is no input. */
	kv = h_new(x, 1, 8);
	h_record(x, 1);
	h_add(x, 1, kv, next, 1);
	h_add(x, 1, out, kv, 1);
	g = h_end(x, 1);
	h_free(x, kv);
	h_replay(x, 1, g);
	h_is(x, 1, out, 72);
	/* What it reads and then writes in place is one. */
	kv = h_new(x, 1, 8);
	h_record(x, 1);
	h_launch(x, 1, x->add, 1, ARGS(RW(kv), R(kv)));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, kv, 9);
	h_free(x, kv);
	REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
}

TEST_HARNESS_MAIN
