// SPDX-License-Identifier: GPL-2.0-only
/*
 * Many ranges, and no memory: a million failed ranges in one buffer, and what
 * a clean scope allocates. Nothing here looks at a clock.
 */
#include "capkm_test.h"

FIXTURE(scale)
{
	struct cl *a;
};

FIXTURE_SETUP(scale)
{
	self->a = t_client();
	t_domain(self->a);
}

FIXTURE_TEARDOWN(scale)
{
	t_close(self->a);
	t_no_leaks();
}

/* In an order that is neither ascending nor descending; @n is a power of two. */
static u_int64_t shuffled(u_int64_t i, u_int64_t n)
{
	return i * 0x9e3779b1 & (n - 1);
}

static u_int64_t ranges(void)
{
	u_int64_t n = t_param("CAPKM_TEST_RANGES", 1 << 20, 1 << 16), p = 1;

	while (p * 2 <= n)
		p *= 2;
	return p;
}

#define BATCH 64

/* Each region [8i, 8i + 4) fails by itself, the rest stays clean. */
TEST_F_TIMEOUT(scale, disjoint_failures, 1200)
{
	u_int64_t n = ranges(), b, *failure = calloc(n, sizeof(*failure));
	struct capkm_domain_query d;

	ASSERT_NE(NULL, failure);
	b = t_buffer(self->a, 8 * n);
	for (u_int64_t i = 0; i < n; i++) {
		u_int64_t at = shuffled(i, n);
		struct capkm_claim c = { b, 8 * at, 8 * at + 4 };

		failure[at] = t_fail_(self->a, at, &c, 1, "x");
	}
	d = t_domain_query(self->a);
	ASSERT_EQ(n, d.out_failures);
	ASSERT_EQ(n, d.out_claims);
	ASSERT_EQ(n, t_buffer_query(self->a, b).q.out_failures);
	for (u_int64_t i = 0; i < n; i++) {
		u_int64_t at = shuffled(i * 3, n);
		struct capkm_report r;

		r = t_is_failed(self->a, b, 8 * at, 8 * at + 8, failure[at]);
		ASSERT_EQ(8 * at, r.start);
		ASSERT_EQ(8 * at + 4, r.end);
		if (!(i % 16))
			t_is_clean(self->a, b, 8 * at + 4, 8 * at + 8);
		/* From the clean part on the next region is named. */
		if (!(i % 16) && at + 1 < n)
			t_is_failed(self->a, b, 8 * at + 4, 8 * n, failure[at + 1]);
	}
	/* Rewritten one by one, in another order: each removes only its own. */
	for (u_int64_t i = 0; i < n / 2; i++) {
		u_int64_t at = shuffled(i * 5, n);
		struct capkm_claim c = { b, 8 * at, 8 * at + 4 };

		t_write_(self->a, at, &c, 1);
	}
	ASSERT_EQ(n / 2, t_failures(self->a));
	for (u_int64_t i = 0; i < n; i += 7) {
		u_int64_t at = shuffled(i * 5, n);

		if (i < n / 2)
			t_is_clean(self->a, b, 8 * at, 8 * at + 8);
		else
			t_is_failed(self->a, b, 8 * at, 8 * at + 8, failure[at]);
	}
	/* And the rest at once. */
	t_write(self->a, 1, C({ b, 0, 8 * n }));
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(0, t_domain_query(self->a).out_claims);
	t_no_ranges(self->a, b);
	free(failure);
}

/* One failure over many regions: each write splits it, at the end it is gone. */
TEST_F_TIMEOUT(scale, split_often, 1200)
{
	u_int64_t n = ranges(), b = t_buffer(self->a, 2 * n), f;

	f = t_fail(self->a, 1, C({ b, 0, 2 * n }), "x");
	for (u_int64_t i = 0; i < n; i += BATCH) {
		struct capkm_claim c[BATCH];

		for (int j = 0; j < BATCH; j++) {
			u_int64_t at = shuffled(i + j, n);

			c[j] = (struct capkm_claim){ b, 2 * at, 2 * at + 1 };
		}
		t_write_(self->a, 1, c, BATCH);
	}
	ASSERT_EQ(1, t_failures(self->a));
	ASSERT_EQ(n, t_domain_query(self->a).out_claims);
	ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
	for (u_int64_t i = 0; i < n; i += 5) {
		t_is_clean(self->a, b, 2 * i, 2 * i + 1);
		t_is_failed(self->a, b, 2 * i, 2 * n, f);
	}
	ASSERT_EQ(0, t_reset(self->a, b, 0, 2 * n));
	ASSERT_EQ(0, t_failures(self->a));
}

/* Many buffers carry one failure; closing them is enough. */
TEST_F_TIMEOUT(scale, many_carriers, 1200)
{
	u_int64_t n = ranges() / 16, *b = calloc(n, sizeof(*b)), f = 0;
	struct t_failure q;

	for (u_int64_t i = 0; i < n; i++)
		b[i] = t_buffer_(self->a, 16, 0);
	for (u_int64_t i = 0; i < n; i += BATCH) {
		struct capkm_claim c[BATCH];

		for (int j = 0; j < BATCH; j++)
			c[j] = (struct capkm_claim){ b[i + j], 0, 8 };
		f = t_taint_(self->a, c, BATCH, f, f ? NULL : "x");
	}
	q = t_failure(self->a, f, 0);
	ASSERT_EQ(n, q.r.carriers);
	ASSERT_EQ(ARRAY_SIZE(q.c), q.q.out_carriers);
	ASSERT_EQ(b[0], q.c[0].buffer);
	for (u_int64_t i = 0; i < n; i++)
		ASSERT_EQ(0, t_drop(self->a, b[shuffled(i, n)]));
	t_is_empty(self->a);
	free(b);
}

/* A client that dies with much open: all of it is torn, nothing is forgotten. */
TEST_F_TIMEOUT(scale, much_is_torn, 1200)
{
	u_int64_t n = ranges() / 256, b;
	struct cl *d = t_process();
	struct capkm_domain_query q;

	b = t_shared(self->a, 8 * n);
	t_attach(d, self->a->domain);
	t_open(d, b);
	for (u_int64_t i = 0; i < n; i++)
		t_enter(d, i, NO_CLAIMS, C({ b, 8 * i, 8 * i + 4 }));
	ASSERT_EQ(n, t_domain_query(self->a).out_scopes);
	t_kill(d);
	q = t_domain_query(self->a);
	ASSERT_EQ(0, q.out_scopes);
	ASSERT_EQ(n, q.out_failures);
	for (u_int64_t i = 0; i < n; i++)
		ASSERT_EQ(i, t_is_tainted(self->a, b, 8 * i, 8 * i + 8,
					  CAPKM_KIND_TORN_DOWN).stream);
	t_written(self->a, C({ b, 0, 8 * n }));
	ASSERT_EQ(0, t_failures(self->a));
}

/* A window and a graph with many claims, replayed */
TEST_F_TIMEOUT(scale, large_graph, 1200)
{
	u_int64_t n = ranges() / 256, b = t_buffer(self->a, 8 * n), w, g, f;

	w = t_record(self->a, 1);
	for (u_int64_t i = 0; i < n; i++) {
		u_int64_t at = shuffled(i, n);
		struct capkm_claim c = { b, 8 * at, 8 * at + 4 };
		struct capkm_claim r = { b, 8 * at + 4, 8 * at + 6 };

		t_exit_(self->a, t_enter_(self->a, 1, &r, 1, &c, 1));
	}
	ASSERT_EQ(n, t_end(self->a, 1).out_recorded);
	g = t_seal(self->a, w);
	ASSERT_EQ(n, t_graph_query(self->a, g, 0).q.out_writes);
	ASSERT_EQ(n, t_graph_query(self->a, g, 0).q.out_inputs);
	ASSERT_EQ(0, t_domain_query(self->a).out_claims);
	t_replay(self->a, g, 1);
	t_replay_begin(self->a, g, 1);
	f = t_replay_end(self->a, g, "x");
	ASSERT_EQ(1, t_failures(self->a));
	for (u_int64_t i = 0; i < n; i += 3) {
		t_is_failed(self->a, b, 8 * i, 8 * i + 4, f);
		t_is_clean(self->a, b, 8 * i + 4, 8 * i + 8);
	}
	t_replay(self->a, g, 1);
	ASSERT_EQ(0, t_failures(self->a));
}

/* Ids grow and are never reused, however much comes and goes. */
TEST_F_TIMEOUT(scale, coming_and_going, 1200)
{
	u_int64_t n = ranges() / 16, last = 0, live;

	t_buffer(self->a, 8);
	live = capkm_test_alloc_live();
	for (u_int64_t i = 0; i < n; i++) {
		u_int64_t b = t_buffer_(self->a, 8, 0);

		ASSERT_GT(b, last);
		last = b;
		t_fail_(self->a, 1, C({ b, 0, 8 }), "x");
		ASSERT_EQ(0, t_drop(self->a, b));
	}
	ASSERT_EQ(0, t_failures(self->a));
	/*
	 * What a session keeps in stock, and the errors that wait to be flushed, 32
	 * of one stream and 256 of anybody, do not grow with it.
	 */
	if (t_embedded())
		ASSERT_LT(capkm_test_alloc_live(), live + 256 + 2 * (32 + 256));
}

/* T-47 T-28: a clean scope over 1, 2, 4 buffers allocates nothing */
TEST_F(scale, clean_scope_allocates_nothing)
{
	u_int64_t b[4], in;

	if (!t_embedded())
		SKIP(return, "counts the library's allocations");
	in = t_buffer(self->a, 64);
	for (int i = 0; i < 4; i++)
		b[i] = t_buffer(self->a, 64);
	for (int n = 1; n <= 4; n *= 2) {
		struct capkm_claim c[4], r = { in, 0, 64 };
		u_int64_t before, live;

		for (int i = 0; i < n; i++)
			c[i] = (struct capkm_claim){ b[i], 8, 40 };
		for (int i = 0; i < 10; i++)
			t_exit_(self->a, t_enter_(self->a, 1, &r, 1, c, n));
		before = capkm_test_alloc_count();
		live = capkm_test_alloc_live();
		for (int i = 0; i < 1000; i++)
			t_exit_(self->a, t_enter_(self->a, 1, &r, 1, c, n));
		ASSERT_EQ(before, capkm_test_alloc_count()) {
			TH_LOG("over %d buffers", n);
		}
		ASSERT_EQ(live, capkm_test_alloc_live());
	}
}

/* T-28: also when it fails and is rewritten, or is skipped, in turns */
TEST_F(scale, failures_give_back)
{
	u_int64_t b = t_buffer(self->a, 64), out = t_buffer(self->a, 64), live = 0, count = 0;

	if (!t_embedded())
		SKIP(return, "counts the library's allocations");
	for (int i = 0; i < 2000; i++) {
		t_fail_(self->a, 1, C({ b, 8, 40 }), "x");
		t_skip_(self->a, 1, "k", C({ b, 0, 64 }), C({ out, 0, 64 }));
		t_write_(self->a, 1, C({ b, 0, 64 }, { out, 0, 64 }));
		/* As many errors as may wait for a flush do so by then. */
		if (i == 400) {
			live = capkm_test_alloc_live();
			count = capkm_test_alloc_count();
		}
		if (i >= 400) {
			ASSERT_EQ(live, capkm_test_alloc_live());
			ASSERT_EQ(count, capkm_test_alloc_count());
		}
	}
}

/* A failure remembers the last skips, the session's stock has the memory of the others */
TEST_F(scale, skips_allocate_nothing)
{
	u_int64_t b = t_buffer(self->a, 64), out = t_buffer(self->a, 64), count = 0;

	if (!t_embedded())
		SKIP(return, "counts the library's allocations");
	t_fail_(self->a, 1, C({ b, 8, 40 }), "x");
	for (int i = 0; i < 1100; i++) {
		t_skip_(self->a, 1, "k", C({ b, 0, 64 }), C({ out, 0, 64 }));
		if (i == 100)
			count = capkm_test_alloc_count();
	}
	ASSERT_EQ(count, capkm_test_alloc_count());
}

/* CHECK and a replay in steady state allocate nothing either. */
TEST_F(scale, check_and_replay_allocate_nothing)
{
	u_int64_t b = t_buffer(self->a, 64), g, before;

	if (!t_embedded())
		SKIP(return, "counts the library's allocations");
	g = t_graph(self->a, 1, C({ b, 0, 8 }), C({ b, 8, 64 }));
	for (int i = 0; i < 10; i++) {
		t_replay(self->a, g, 1);
		t_is_clean(self->a, b, 0, 64);
	}
	before = capkm_test_alloc_count();
	for (int i = 0; i < 1000; i++) {
		struct capkm_claim c = { b, 0, 64 };
		struct capkm_check k = { .claims_uptr = t_ptr(&c), .claims_len = 1 };

		t_replay(self->a, g, 1);
		T_OK(self->a, CHECK, &k);
	}
	ASSERT_EQ(before, capkm_test_alloc_count());
}

TEST_HARNESS_MAIN
