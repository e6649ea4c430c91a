// SPDX-License-Identifier: GPL-2.0-only
/*
 * Taint and the error graph: what bytes carry, what reports say, how long
 * failures live. The rules are those of Documentation/design/bytes.rst.
 */
#include "capkm_test.h"

FIXTURE(taint)
{
	struct cl *a;
	u_int64_t b;
};

FIXTURE_SETUP(taint)
{
	self->a = t_client();
	t_domain(self->a);
	self->b = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(taint)
{
	t_close(self->a);
	t_no_leaks();
}

#define FAILURES() t_failures(self->a)

/* T-25 SC-12: a clean scope leaves nothing */
TEST_F(taint, clean_scope)
{
	u_int64_t s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 100 }));

	t_is_open(self->a, self->b, 0, 100, s);
	t_ranges_are(self->a, self->b, { 0, 100, s, CAPKM_RANGE_OPEN });
	ASSERT_EQ(1, t_domain_query(self->a).out_scopes);
	ASSERT_EQ(0, t_exit(self->a, s));
	t_is_clean(self->a, self->b, 0, 100);
	t_no_ranges(self->a, self->b);
	ASSERT_EQ(0, FAILURES());
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	ASSERT_EQ(0, t_domain_query(self->a).out_claims);
	/* It is over. */
	T_REFUSED(self->a, -ENOENT, t_try_exit(self->a, s));
}

/* T-26 T-53 SC-13: a failed scope: the caller's reason, and only it */
TEST_F(taint, failed_scope)
{
	struct capkm_claim c = { self->b, 10, 20 };
	struct capkm_scope_enter e = {
		.place.stream = 7, .writes_uptr = t_ptr(&c), .writes_len = 1,
		.label_uptr = t_ptr("gemm"), .label_len = 4,
	};
	struct capkm_scope_exit x = {
		.flags = CAPKM_SCOPE_EXIT_F_FAILED | CAPKM_SCOPE_EXIT_F_COMPLETE,
		.kind = CAPKM_KIND_VALIDATION, .code = -7,
		.text_uptr = t_ptr("illegal address"), .text_len = 15,
		.stack_uptr = t_ptr("\1\0\2"), .stack_len = 3,
	};
	struct capkm_report r;
	struct t_failure f;

	T_OK(self->a, SCOPE_ENTER, &e);
	x.scope = e.out_scope;
	T_OK(self->a, SCOPE_EXIT, &x);
	r = t_is_failed(self->a, self->b, 0, 100, x.out_failure);
	ASSERT_EQ(CAPKM_KIND_VALIDATION, r.kind);
	ASSERT_EQ(-7, r.code);
	ASSERT_EQ(10, r.start);
	ASSERT_EQ(20, r.end);
	ASSERT_EQ(e.out_scope, r.scope);
	ASSERT_EQ(0, r.graph);
	ASSERT_EQ(0, r.window);
	ASSERT_EQ(7, r.stream);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_NE(0, r.sequence);
	ASSERT_NE(0, r.time_ns);
	ASSERT_EQ(getpid(), r.pid);
	ASSERT_EQ(getuid(), r.uid);
	ASSERT_EQ(1, r.carriers);
	ASSERT_EQ(0, r.hops);
	ASSERT_EQ(15, r.text_len);
	ASSERT_STREQ("gemm", (char *)r.label);
	ASSERT_STREQ("illegal address", (char *)r.text);
	ASSERT_NE(0, strlen((char *)r.comm));
	t_is_clean(self->a, self->b, 0, 10);
	t_is_clean(self->a, self->b, 20, 100);
	ASSERT_EQ(1, FAILURES());

	f = t_failure(self->a, x.out_failure, 0);
	ASSERT_EQ(0, f.q.out_hops);
	ASSERT_EQ(1, f.q.out_carriers);
	ASSERT_EQ(self->b, f.c[0].buffer);
	ASSERT_EQ(0, f.c[0].start);
	ASSERT_EQ(100, f.c[0].end);
	ASSERT_EQ(0, f.q.out_skips);
	ASSERT_EQ(3, f.q.out_stack);
	ASSERT_EQ(0, memcmp(f.stack, "\1\0\2", 3));
	ASSERT_STREQ("illegal address", (char *)f.r.text);

	t_write(self->a, 1, C({ self->b, 10, 20 }));
	ASSERT_EQ(0, FAILURES());
	ASSERT_EQ(-ENOENT, t_try_failure(self->a, x.out_failure, 0).rc);
}

/* T-27 SC-15: torn in the middle; a later write recovers */
TEST_F(taint, torn_scope)
{
	struct cl *b = t_process();
	u_int64_t buffer = t_shared(self->a, 64), s;
	struct capkm_report r;
	char pid[16];

	t_attach(b, self->a->domain);
	t_open(b, buffer);
	snprintf(pid, sizeof(pid), "%d", t_pid(b));
	s = t_enter(b, 77, NO_CLAIMS, C({ buffer, 0, 64 }));
	t_is_open(self->a, buffer, 0, 64, s);
	t_kill(b);
	r = t_is_tainted(self->a, buffer, 0, 64, CAPKM_KIND_TORN_DOWN);
	ASSERT_NE(NULL, strstr((char *)r.text, "torn down"));
	ASSERT_NE(NULL, strstr((char *)r.text, pid));
	ASSERT_NE(NULL, strstr((char *)r.text, (char *)r.comm));
	ASSERT_NE(NULL, strstr((char *)r.text, "77"));
	ASSERT_EQ(s, r.scope);
	ASSERT_EQ(77, r.stream);
	ASSERT_EQ(1, FAILURES());
	t_write(self->a, 1, C({ buffer, 0, 64 }));
	t_is_clean(self->a, buffer, 0, 64);
	ASSERT_EQ(0, FAILURES());
}

/* SC-16: a scope over tainted bytes takes them over */
TEST_F(taint, takes_over)
{
	u_int64_t f1 = t_fail(self->a, 1, C({ self->b, 0, 50 }), "one"), f2, s;

	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 50 }));
	t_is_open(self->a, self->b, 0, 50, s);
	f2 = t_exit_failed(self->a, s, "two");
	ASSERT_NE(f1, f2);
	ASSERT_EQ(1, FAILURES());
	t_is_failed(self->a, self->b, 0, 50, f2);
	ASSERT_EQ(-ENOENT, t_try_failure(self->a, f1, 0).rc);
}

/* T-29 SC-10 SC-14: skipped: not run, same failure, the reads name the root */
TEST_F(taint, skipped)
{
	u_int64_t out = t_buffer(self->a, 10), f;
	struct t_enter e;
	struct t_failure q;

	f = t_fail(self->a, 1, C({ self->b, 40, 50 }), "root cause");
	e = t_try_enter(self->a, 2, 0, "softmax", C({ self->b, 0, 100 }),
			C({ out, 2, 8 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_SKIPPED, e.result);
	ASSERT_EQ(0, e.scope);
	ASSERT_EQ(1, e.reports);
	ASSERT_EQ(f, e.r.failure);
	ASSERT_EQ(self->b, e.r.buffer);
	ASSERT_EQ(40, e.r.start);
	ASSERT_EQ(50, e.r.end);
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	t_ranges_are(self->a, out, { 2, 8, f, CAPKM_RANGE_FAILED });
	ASSERT_STREQ("root cause", (char *)t_is_failed(self->a, out, 0, 10, f).text);
	q = t_failure(self->a, f, out);
	ASSERT_EQ(2, q.q.out_carriers);
	ASSERT_EQ(1, q.q.out_hops);
	ASSERT_EQ(self->b, q.h[0].needed);
	ASSERT_STREQ("softmax", (char *)q.h[0].label);
	ASSERT_NE(0, q.h[0].time_ns);
	ASSERT_EQ(1, q.q.out_skips);
	ASSERT_EQ(0, q.q.out_dropped);
}

/* T-30 SC-17: partial writes */
TEST_F(taint, partial_write)
{
	u_int64_t f = t_fail(self->a, 1, C({ self->b, 0, 100 }), "reason");

	t_write(self->a, 1, C({ self->b, 25, 50 }));
	t_is_clean(self->a, self->b, 25, 50);
	t_is_failed(self->a, self->b, 0, 25, f);
	t_is_failed(self->a, self->b, 0, 100, f);
	t_is_failed(self->a, self->b, 49, 51, f);
	ASSERT_EQ(50, t_is_failed(self->a, self->b, 25, 100, f).start);
}

/* T-40 TA-3 TA-6: a write in the middle splits, one node */
TEST_F(taint, split)
{
	u_int64_t f = t_fail(self->a, 1, C({ self->b, 0, 100 }), "x");

	t_written(self->a, C({ self->b, 40, 60 }));
	t_ranges_are(self->a, self->b, { 0, 40, f, CAPKM_RANGE_FAILED },
		     { 60, 100, f, CAPKM_RANGE_FAILED });
	t_is_failed(self->a, self->b, 0, 40, f);
	t_is_clean(self->a, self->b, 40, 60);
	t_is_failed(self->a, self->b, 60, 100, f);
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(1, t_buffer_query(self->a, self->b).q.out_failures);
	ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
	t_written(self->a, C({ self->b, 0, 40 }, { self->b, 60, 100 }));
	ASSERT_EQ(0, FAILURES());
	t_no_ranges(self->a, self->b);
}

/* T-41: two failures answer per region */
TEST_F(taint, two_regions)
{
	u_int64_t f = t_taint(self->a, "one", C({ self->b, 0, 10 }));
	u_int64_t g = t_taint(self->a, "two", C({ self->b, 50, 60 }));

	ASSERT_NE(f, g);
	t_is_failed(self->a, self->b, 0, 10, f);
	t_is_failed(self->a, self->b, 50, 60, g);
	t_is_failed(self->a, self->b, 0, 100, f);
	t_is_failed(self->a, self->b, 10, 100, g);
	ASSERT_EQ(2, FAILURES());
	ASSERT_EQ(2, t_buffer_query(self->a, self->b).q.out_failures);
	t_written(self->a, C({ self->b, 0, 10 }));
	ASSERT_EQ(1, FAILURES());
	t_is_failed(self->a, self->b, 0, 100, g);
	ASSERT_EQ(-ENOENT, t_try_failure(self->a, f, 0).rc);
}

/* T-42 TA-2: a newer failure takes the bytes it covers */
TEST_F(taint, newer_takes_bytes)
{
	u_int64_t f = t_taint(self->a, "one", C({ self->b, 0, 60 }));
	u_int64_t g = t_taint(self->a, "two", C({ self->b, 40, 100 }));

	t_ranges_are(self->a, self->b, { 0, 40, f, CAPKM_RANGE_FAILED },
		     { 40, 100, g, CAPKM_RANGE_FAILED });
	ASSERT_EQ(40, t_is_failed(self->a, self->b, 0, 100, f).end);
	f = t_taint(self->a, "three", C({ self->b, 0, 100 }));
	ASSERT_EQ(1, FAILURES());
	t_ranges_are(self->a, self->b, { 0, 100, f, CAPKM_RANGE_FAILED });
}

/* T-43 TA-1 TA-2: the same failure again changes nothing */
TEST_F(taint, same_failure_again)
{
	u_int64_t f = t_taint(self->a, "x", C({ self->b, 0, 10 }));

	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(f, t_taint_with(self->a, f, C({ self->b, 0, 10 })));
		ASSERT_EQ(1, FAILURES());
		ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
	}
	t_written(self->a, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, FAILURES());
}

/* T-44: ranges of one failure fuse; they are one failure at one date */
TEST_F(taint, fuse)
{
	u_int64_t f = t_taint(self->a, "x", C({ self->b, 0, 10 }, { self->b, 20, 30 },
					      { self->b, 10, 20 }));

	t_ranges_are(self->a, self->b, { 0, 30, f, CAPKM_RANGE_FAILED });
	ASSERT_EQ(30, t_is_failed(self->a, self->b, 0, 100, f).end);
	t_written(self->a, C({ self->b, 0, 30 }));
	ASSERT_EQ(0, FAILURES());
}

/* T-44: also when they came one by one; the reports see one run */
TEST_F(taint, fuse_later)
{
	u_int64_t f = t_taint(self->a, "x", C({ self->b, 0, 10 }));

	t_taint_with(self->a, f, C({ self->b, 20, 30 }));
	t_taint_with(self->a, f, C({ self->b, 10, 20 }));
	ASSERT_EQ(30, t_is_failed(self->a, self->b, 0, 100, f).end);
	ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
	t_written(self->a, C({ self->b, 0, 30 }));
	ASSERT_EQ(0, FAILURES());
}

/* BUFFER_QUERY in pieces, also where ranges start at the same byte */
TEST_F(taint, query_in_pieces)
{
	struct capkm_range all[8], got[8];
	struct capkm_buffer_query q = {
		.buffer = self->b, .ranges_uptr = t_ptr(all), .ranges_len = 8,
	};
	u_int64_t s[3];
	unsigned int n = 0;

	t_taint(self->a, "x", C({ self->b, 0, 10 }));
	for (int i = 0; i < 3; i++)
		s[i] = t_enter(self->a, i, NO_CLAIMS, C({ self->b, 20, 30 + i }));
	t_taint(self->a, "y", C({ self->b, 40, 50 }, { self->b, 60, 61 }));
	T_OK(self->a, BUFFER_QUERY, &q);
	ASSERT_EQ(6, q.out_ranges);
	ASSERT_EQ(6, q.out_claims);
	for (unsigned int len = 1; len < 4; len++) {
		q.from = q.skip = n = 0;
		q.ranges_len = len;
		do {
			q.ranges_uptr = t_ptr(got + n);
			T_OK(self->a, BUFFER_QUERY, &q);
			ASSERT_LE(q.out_ranges, len);
			ASSERT_EQ(6, q.out_claims);
			for (unsigned int i = 0; i < q.out_ranges; i++, n++) {
				ASSERT_LT(n, 6);
				if (got[n].start != q.from)
					q.skip = 0;
				q.from = got[n].start;
				q.skip++;
			}
		} while (q.out_ranges == len && n < 6);
		ASSERT_EQ(6, n);
		ASSERT_EQ(0, memcmp(all, got, 6 * sizeof(*all)));
	}
	q.from = 61;
	q.skip = 0;
	T_OK(self->a, BUFFER_QUERY, &q);
	ASSERT_EQ(0, q.out_ranges);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, t_exit(self->a, s[i]));
}

/* T-45 TA-5: reset of the whole clears all */
TEST_F(taint, clear)
{
	t_taint(self->a, "one", C({ self->b, 0, 10 }));
	t_taint(self->a, "two", C({ self->b, 5, 50 }));
	t_taint(self->a, "three", C({ self->b, 60, 70 }));
	ASSERT_EQ(3, FAILURES());
	ASSERT_EQ(0, t_reset(self->a, self->b, 0, 100));
	ASSERT_EQ(0, FAILURES());
	t_no_ranges(self->a, self->b);
}

/* T-46 TA-4: empty ranges */
TEST_F(taint, empty_range)
{
	u_int64_t s;

	ASSERT_EQ(0, t_taint(self->a, "x", C({ self->b, 10, 10 })));
	ASSERT_EQ(0, t_taint(self->a, "x", NO_CLAIMS));
	t_no_ranges(self->a, self->b);
	ASSERT_EQ(0, FAILURES());
	t_taint(self->a, "x", C({ self->b, 0, 100 }));
	t_is_clean(self->a, self->b, 50, 50);
	t_is_clean(self->a, self->b, 100, 100);
	t_is_clean(self->a, self->b, 0, 0);
	/* A read of nothing skips nothing. */
	s = t_enter(self->a, 1, C({ self->b, 50, 50 }), C({ self->b, 10, 10 }));
	t_written(self->a, C({ self->b, 0, 100 }));
	ASSERT_EQ(0, t_exit(self->a, s));
	t_no_ranges(self->a, self->b);
	/* A failed scope that writes nothing leaves no failure. */
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 10, 10 }));
	ASSERT_EQ(0, t_exit_failed(self->a, s, "nothing"));
	s = t_enter(self->a, 1, NO_CLAIMS, NO_CLAIMS);
	ASSERT_EQ(0, t_exit_failed(self->a, s, "nothing"));
	ASSERT_EQ(0, FAILURES());
}

/* T-50 T-51 T-52 EG-3 EG-4 EG-11: a node lives as long as a buffer carries it */
TEST_F(taint, life_of_a_node)
{
	u_int64_t b2 = t_buffer(self->a, 10), b3 = t_buffer(self->a, 10), f;

	f = t_fail(self->a, 1, C({ self->b, 0, 10 }, { b2, 0, 10 }, { b3, 0, 10 }), "x");
	ASSERT_EQ(3, t_failure(self->a, f, 0).r.carriers);
	t_written(self->a, C({ b2, 0, 10 }));
	ASSERT_EQ(2, t_failure(self->a, f, 0).r.carriers);
	/* Closing a buffer sheds its taint. */
	ASSERT_EQ(0, t_drop(self->a, b3));
	ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
	ASSERT_EQ(1, FAILURES());
	t_written(self->a, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, FAILURES());
	ASSERT_EQ(-ENOENT, t_try_failure(self->a, f, 0).rc);
	T_REFUSED(self->a, -ENOENT, t_try_taint(self->a, C({ self->b, 0, 1 }), f, NULL, &f));
}

/* T-54 EG-8: the chain, newest hop first */
TEST_F(taint, chain)
{
	u_int64_t b[4], f, lone = t_buffer(self->a, 10);
	static const char *const labels[] = { "k0", "k1", "k2" };
	struct t_failure q;

	for (int i = 0; i < 4; i++)
		b[i] = t_buffer(self->a, 10);
	f = t_fail(self->a, 1, C({ b[0], 0, 10 }), "the root");
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(f, t_skip(self->a, 1, labels[i], C({ b[i], 0, 10 }),
				    C({ b[i + 1], 0, 10 })));
	ASSERT_EQ(1, FAILURES());
	q = t_failure(self->a, f, b[3]);
	ASSERT_STREQ("the root", (char *)q.r.text);
	ASSERT_EQ(4, q.q.out_carriers);
	ASSERT_EQ(3, q.q.out_hops);
	for (int i = 0; i < 3; i++) {
		ASSERT_STREQ(labels[2 - i], (char *)q.h[i].label);
		ASSERT_EQ(b[2 - i], q.h[i].needed);
	}
	/* In the middle of the chain only the older ones. */
	q = t_failure(self->a, f, b[1]);
	ASSERT_EQ(1, q.q.out_hops);
	ASSERT_STREQ("k0", (char *)q.h[0].label);
	/* A buffer that no record produced: the root only. */
	ASSERT_EQ(0, t_failure(self->a, f, b[0]).q.out_hops);
	t_taint_with(self->a, f, C({ lone, 0, 10 }));
	ASSERT_EQ(0, t_failure(self->a, f, lone).q.out_hops);
	ASSERT_EQ(0, t_failure(self->a, f, 0).q.out_hops);
	/* CHECK says how long the chain is. */
	ASSERT_EQ(3, t_is_failed(self->a, b[3], 0, 10, f).hops);
	/* Records keep no memory: the buffers go, the ids stay. */
	ASSERT_EQ(0, t_drop(self->a, b[1]));
	ASSERT_EQ(0, t_drop(self->a, b[2]));
	q = t_failure(self->a, f, b[3]);
	ASSERT_EQ(3, q.q.out_hops);
	ASSERT_EQ(b[2], q.h[0].needed);
}

/* EG-8: only records that are older than the one just used */
TEST_F(taint, chain_goes_back_in_time)
{
	u_int64_t x = t_buffer(self->a, 10), y = t_buffer(self->a, 10), f;
	struct t_failure q;

	f = t_fail(self->a, 1, C({ x, 0, 10 }), "root");
	t_skip(self->a, 1, "x to y", C({ x, 0, 10 }), C({ y, 0, 10 }));
	t_skip(self->a, 1, "y to x", C({ y, 0, 10 }), C({ x, 0, 10 }));
	q = t_failure(self->a, f, x);
	ASSERT_EQ(2, q.q.out_hops);
	ASSERT_STREQ("y to x", (char *)q.h[0].label);
	ASSERT_STREQ("x to y", (char *)q.h[1].label);
	q = t_failure(self->a, f, y);
	ASSERT_EQ(1, q.q.out_hops);
}

/* T-55 T-59 EG-7: at most 16 are remembered, the newest */
TEST_F(taint, long_chain)
{
	u_int64_t b[21], f;
	struct t_failure q;

	for (int i = 0; i < 21; i++)
		b[i] = t_buffer(self->a, 10);
	f = t_fail(self->a, 1, C({ b[0], 0, 10 }), "root");
	for (int i = 0; i < 20; i++)
		t_skip(self->a, 1, NULL, C({ b[i], 0, 10 }), C({ b[i + 1], 0, 10 }));
	q = t_failure(self->a, f, b[20]);
	ASSERT_EQ(16, q.q.out_hops);
	ASSERT_EQ(20, q.q.out_skips);
	ASSERT_EQ(4, q.q.out_dropped);
	ASSERT_EQ(b[19], q.h[0].needed);
	ASSERT_EQ(b[4], q.h[15].needed);
	ASSERT_EQ(21, q.q.out_carriers);
	/* The chain of an early one is forgotten. */
	ASSERT_EQ(0, t_failure(self->a, f, b[3]).q.out_hops);
	/* More skips keep it at that. */
	for (int i = 0; i < 100; i++)
		t_skip(self->a, 1, NULL, C({ b[0], 0, 10 }), C({ b[1], 0, 10 }));
	q = t_failure(self->a, f, b[1]);
	ASSERT_EQ(120, q.q.out_skips);
	ASSERT_EQ(104, q.q.out_dropped);
	ASSERT_EQ(1, q.q.out_hops);
}

/* A skip without outputs is counted as well. */
TEST_F(taint, skip_without_outputs)
{
	u_int64_t f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "root");

	ASSERT_EQ(f, t_skip(self->a, 1, NULL, C({ self->b, 0, 10 }), NO_CLAIMS));
	ASSERT_EQ(1, t_failure(self->a, f, 0).q.out_skips);
	t_ranges_are(self->a, self->b, { 0, 10, f, CAPKM_RANGE_FAILED });
}

/* T-56 EG-10 T-118: memory that never came */
TEST_F(taint, unallocated)
{
	u_int64_t u = t_unallocated(self->a, 50), f;
	struct capkm_report r;

	r = t_is_tainted(self->a, u, 0, 50, CAPKM_KIND_UNALLOCATED);
	ASSERT_EQ(0, r.failure);
	ASSERT_EQ(u, r.buffer);
	ASSERT_NE(NULL, strstr((char *)r.text, "never allocated"));
	ASSERT_EQ(0, FAILURES());
	/* Nothing can be written to memory that is not there. */
	{
		struct capkm_claim c[] = { { self->b, 0, 1 }, { u, 0, 50 } };
		struct capkm_written v = { .claims_uptr = t_ptr(c), .claims_len = 2 };

		T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WRITTEN, &v));
		ASSERT_EQ(1, v.out_error_index);
		T_REFUSED(self->a, -EINVAL, t_try_enter(self->a, 1, 0, NULL, NO_CLAIMS,
							c, 2).rc);
	}
	ASSERT_EQ(CAPKM_BUFFER_UNALLOCATED, t_buffer_query(self->a, u).q.out_state);
	/* With a reason it is that reason. */
	f = t_taint(self->a, "pool is full", C({ u, 0, 50 }));
	r = t_is_failed(self->a, u, 0, 50, f);
	ASSERT_STREQ("pool is full", (char *)r.text);
	ASSERT_EQ(1, FAILURES());
	/* A part of it is not the whole. */
	ASSERT_EQ(0, t_reset(self->a, u, 0, 10));
	t_is_tainted(self->a, u, 0, 10, CAPKM_KIND_UNALLOCATED);
	ASSERT_EQ(0, t_reset(self->a, u, 0, 50));
	t_is_clean(self->a, u, 0, 50);
	ASSERT_EQ(0, t_buffer_query(self->a, u).q.out_state);
	ASSERT_EQ(0, FAILURES());
}

/* What reads it is skipped, and the outputs say why. */
TEST_F(taint, reads_unallocated)
{
	u_int64_t u = t_unallocated(self->a, 50), f;
	struct t_enter e;

	e = t_try_enter(self->a, 1, 0, "k", C({ u, 0, 50 }), C({ self->b, 0, 10 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_SKIPPED, e.result);
	ASSERT_EQ(1, e.reports);
	ASSERT_EQ(CAPKM_KIND_UNALLOCATED, e.r.kind);
	ASSERT_EQ(u, e.r.buffer);
	f = t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_UNALLOCATED).failure;
	ASSERT_NE(0, f);
	ASSERT_EQ(1, FAILURES());
	t_write(self->a, 1, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, FAILURES());
	t_is_tainted(self->a, u, 0, 50, CAPKM_KIND_UNALLOCATED);
}

/* T-57 EG-9: one report for each failure, in the order of the claims */
TEST_F(taint, reports)
{
	u_int64_t u = t_unallocated(self->a, 10), f, g, s, b2 = t_buffer(self->a, 100);
	struct t_check c;

	f = t_fail(self->a, 1, C({ self->b, 0, 10 }, { b2, 0, 10 }), "one");
	g = t_fail(self->a, 1, C({ self->b, 20, 30 }), "two");
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 40, 50 }));
	c = t_check(self->a, C({ self->b, 20, 30 }, { u, 0, 10 }, { b2, 0, 100 },
			       { self->b, 0, 100 }, { self->b, 40, 50 }, { u, 5, 10 },
			       { self->b, 90, 100 }, { self->b, 30, 100 }));
	ASSERT_EQ(CAPKM_TAINTED, c.result);
	ASSERT_EQ(5, c.reports);
	ASSERT_EQ(g, c.r[0].failure);
	ASSERT_EQ(0, c.r[1].failure);
	ASSERT_EQ(u, c.r[1].buffer);
	ASSERT_EQ(f, c.r[2].failure);
	ASSERT_EQ(b2, c.r[2].buffer);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, c.r[3].kind);
	ASSERT_EQ(40, c.r[3].start);
	ASSERT_EQ(50, c.r[3].end);
	ASSERT_EQ(s, c.r[3].scope);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, c.r[4].kind);
	ASSERT_EQ(40, c.r[4].start);
}

/* More reports than there is room for are counted. */
TEST_F(taint, reports_too_many)
{
	struct capkm_report r[3];
	struct capkm_claim c[4] = {
		{ self->b, 0, 10 }, { self->b, 10, 20 }, { self->b, 20, 30 },
		{ self->b, 30, 40 },
	};
	struct capkm_check a = {
		.claims_uptr = t_ptr(c), .claims_len = 4, .reports_uptr = t_ptr(r),
		.reports_len = 2,
	};

	for (int i = 0; i < 4; i++)
		t_taint(self->a, "x", &c[i], 1);
	memset(r, 0xcc, sizeof(r));
	T_OK(self->a, CHECK, &a);
	ASSERT_EQ(4, a.out_reports);
	ASSERT_EQ(0, r[0].start);
	ASSERT_EQ(10, r[1].start);
	for (unsigned int i = 0; i < sizeof(r[2]); i++)
		ASSERT_EQ(0xcc, ((unsigned char *)&r[2])[i]);
	a.reports_len = 0;
	a.reports_uptr = 0;
	T_OK(self->a, CHECK, &a);
	ASSERT_EQ(4, a.out_reports);
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
}

/* T-58 EG-1 EG-2: ids are never reused */
TEST_F(taint, ids_never_reused)
{
	u_int64_t last = 0, f;

	for (int i = 0; i < 20; i++) {
		f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "x");
		ASSERT_GT(f, last);
		last = f;
		t_written(self->a, C({ self->b, 0, 10 }));
		ASSERT_EQ(0, FAILURES());
	}
}

/* EG-12: no latch: work that shares no bytes with a failure is free */
TEST_F(taint, no_latch)
{
	u_int64_t b2 = t_buffer(self->a, 10);

	t_fail(self->a, 1, C({ self->b, 0, 100 }), "x");
	ASSERT_EQ(0, t_exit(self->a, t_enter(self->a, 1, C({ b2, 0, 10 }),
					     C({ b2, 0, 10 }))));
	t_is_clean(self->a, b2, 0, 10);
}

/* RESET: -EBUSY under an open scope, exactly where it is */
TEST_F(taint, reset_under_scope)
{
	u_int64_t f = t_fail(self->a, 1, C({ self->b, 0, 100 }), "x"), s;

	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 40, 60 }));
	T_REFUSED(self->a, -EBUSY, t_reset(self->a, self->b, 0, 100));
	T_REFUSED(self->a, -EBUSY, t_reset(self->a, self->b, 59, 60));
	T_REFUSED(self->a, -EBUSY, t_reset(self->a, self->b, 0, 41));
	ASSERT_EQ(0, t_reset(self->a, self->b, 0, 40));
	ASSERT_EQ(0, t_reset(self->a, self->b, 50, 50));
	ASSERT_EQ(0, t_reset(self->a, self->b, 60, 100));
	t_is_clean(self->a, self->b, 0, 40);
	t_ranges_are(self->a, self->b, { 40, 60, f, CAPKM_RANGE_FAILED },
		     { 40, 60, s, CAPKM_RANGE_OPEN });
	ASSERT_EQ(0, t_exit(self->a, s));
	t_no_ranges(self->a, self->b);
}

/* Rule 2: a success clears only what was before its enter */
TEST_F(taint, overlap_failure_after_enter)
{
	u_int64_t a, b, f;

	a = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 60 }));
	b = t_enter(self->a, 2, NO_CLAIMS, C({ self->b, 40, 100 }));
	f = t_exit_failed(self->a, b, "b");
	/* Under a it is still in progress. */
	t_is_open(self->a, self->b, 0, 100, a);
	t_is_failed(self->a, self->b, 60, 100, f);
	ASSERT_EQ(0, t_exit(self->a, a));
	t_is_clean(self->a, self->b, 0, 40);
	t_is_failed(self->a, self->b, 40, 100, f);
	/* A scope that enters after it does clear it. */
	t_write(self->a, 1, C({ self->b, 40, 100 }));
	ASSERT_EQ(0, FAILURES());
}

/* Rule 1: of several that remain the earliest is named */
TEST_F(taint, overlap_earliest_named)
{
	u_int64_t a, b, c, fa, fb;

	a = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 50 }));
	b = t_enter(self->a, 2, NO_CLAIMS, C({ self->b, 0, 50 }));
	c = t_enter(self->a, 3, NO_CLAIMS, C({ self->b, 0, 50 }));
	fb = t_exit_failed(self->a, b, "b");
	fa = t_exit_failed(self->a, a, "a");
	ASSERT_EQ(2, FAILURES());
	ASSERT_EQ(0, t_exit(self->a, c));
	t_is_failed(self->a, self->b, 0, 50, fb);
	ASSERT_EQ(2, FAILURES());
	t_ranges_are(self->a, self->b, { 0, 50, fa, CAPKM_RANGE_FAILED },
		     { 0, 50, fb, CAPKM_RANGE_FAILED });
	t_write(self->a, 1, C({ self->b, 0, 50 }));
	ASSERT_EQ(0, FAILURES());
}

/* TAINT, WRITTEN while a scope is open: scopes of zero length */
TEST_F(taint, zero_length_under_scope)
{
	u_int64_t s, f;

	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 50 }));
	f = t_taint(self->a, "during", C({ self->b, 0, 20 }));
	t_written(self->a, C({ self->b, 0, 10 }));
	t_is_open(self->a, self->b, 0, 100, s);
	ASSERT_EQ(0, t_exit(self->a, s));
	t_is_clean(self->a, self->b, 0, 10);
	t_is_failed(self->a, self->b, 10, 20, f);
	t_is_clean(self->a, self->b, 20, 100);
}

/* A scope that reads what is being written is told to wait, nothing changes. */
TEST_F(taint, in_progress)
{
	u_int64_t b2 = t_buffer(self->a, 10), s, f;
	struct t_enter e;
	char *before;

	f = t_fail(self->a, 1, C({ self->b, 60, 70 }), "x");
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 20, 30 }));
	before = t_dump(self->a);
	e = t_try_enter(self->a, 2, 0, NULL, C({ self->b, 0, 100 }), C({ b2, 0, 10 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.result);
	ASSERT_EQ(0, e.scope);
	ASSERT_EQ(1, e.reports);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, e.r.kind);
	ASSERT_EQ(s, e.r.scope);
	ASSERT_EQ(20, e.r.start);
	ASSERT_EQ(30, e.r.end);
	/* Poison waits as well. */
	e = t_try_enter(self->a, 2, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->b, 0, 100 }), C({ b2, 0, 10 }));
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.result);
	/* The scope's own stream too: what it reads it has not written yet. */
	e = t_try_enter(self->a, 1, 0, NULL, C({ self->b, 29, 31 }), NO_CLAIMS);
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.result);
	t_unchanged(self->a, before);
	/* The first claim that is not clean decides. */
	ASSERT_EQ(f, t_skip(self->a, 2, NULL, C({ self->b, 30, 100 }, { self->b, 0, 30 }),
			    C({ b2, 0, 10 })));
	ASSERT_EQ(0, t_exit(self->a, s));
}

/* Writes over what is being written are let in. */
TEST_F(taint, writers_do_not_wait)
{
	u_int64_t a = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 100 }));
	u_int64_t b = t_enter(self->a, 2, NO_CLAIMS, C({ self->b, 0, 100 }));

	ASSERT_EQ(0, t_exit(self->a, b));
	t_is_open(self->a, self->b, 0, 100, a);
	ASSERT_EQ(0, t_exit(self->a, a));
	t_is_clean(self->a, self->b, 0, 100);
}

/* POISON: it must run; its outputs carry the input's failure */
TEST_F(taint, poison)
{
	u_int64_t out = t_buffer(self->a, 10), f;
	struct t_enter e;

	f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "input");
	e = t_try_enter(self->a, 2, CAPKM_SCOPE_ENTER_F_POISON, "allreduce",
			C({ self->b, 0, 100 }), C({ out, 0, 10 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_CLEAN, e.result);
	ASSERT_NE(0, e.scope);
	t_is_open(self->a, out, 0, 10, e.scope);
	/* The scope keeps the failure, whatever happens to the input. */
	t_written(self->a, C({ self->b, 0, 100 }));
	ASSERT_EQ(f, t_exit(self->a, e.scope));
	ASSERT_STREQ("input", (char *)t_is_failed(self->a, out, 0, 10, f).text);
	ASSERT_EQ(1, FAILURES());
	t_written(self->a, C({ out, 0, 10 }));
	ASSERT_EQ(0, FAILURES());
}

/* Poisoned and failed by itself: its own failure */
TEST_F(taint, poison_fails)
{
	u_int64_t out = t_buffer(self->a, 10), f, g;
	struct t_enter e;

	f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "input");
	e = t_try_enter(self->a, 2, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->b, 0, 10 }), C({ out, 0, 10 }));
	t_written(self->a, C({ self->b, 0, 100 }));
	g = t_exit_failed(self->a, e.scope, "itself");
	ASSERT_NE(f, g);
	t_is_failed(self->a, out, 0, 10, g);
	ASSERT_EQ(1, FAILURES());
}

/* Clean inputs: poison is like any other scope */
TEST_F(taint, poison_with_clean_inputs)
{
	struct t_enter e = t_try_enter(self->a, 2, CAPKM_SCOPE_ENTER_F_POISON, NULL,
				       C({ self->b, 0, 10 }), C({ self->b, 0, 10 }));

	ASSERT_EQ(CAPKM_CLEAN, e.result);
	ASSERT_EQ(0, t_exit(self->a, e.scope));
	t_no_ranges(self->a, self->b);
}

/* Poison inside a window dooms it. */
TEST_F(taint, poison_in_window)
{
	u_int64_t out = t_buffer(self->a, 10), f, w;
	struct t_enter e;

	f = t_fail(self->a, 9, C({ self->b, 0, 10 }), "input");
	w = t_record(self->a, 1);
	e = t_try_enter(self->a, 1, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->b, 0, 10 }), C({ out, 0, 10 }));
	ASSERT_EQ(CAPKM_CLEAN, e.result);
	ASSERT_EQ(f, t_exit(self->a, e.scope));
	t_is_failed(self->a, out, 0, 10, f);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_STREQ("input", (char *)t_window(self->a, w).r[0].text);
	ASSERT_EQ(0, t_end(self->a, 1).out_recorded);
}

/* A claim may name bytes twice: it is one scope. */
TEST_F(taint, overlapping_claims_of_one_scope)
{
	u_int64_t s = t_enter(self->a, 1, NO_CLAIMS,
			      C({ self->b, 0, 50 }, { self->b, 0, 50 },
				{ self->b, 25, 75 }));
	u_int64_t f;

	t_is_open(self->a, self->b, 74, 100, s);
	t_is_clean(self->a, self->b, 75, 100);
	f = t_exit_failed(self->a, s, "x");
	t_ranges_are(self->a, self->b, { 0, 75, f, CAPKM_RANGE_FAILED });
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 50, 75 }, { self->b, 0, 60 }));
	ASSERT_EQ(0, t_exit(self->a, s));
	t_no_ranges(self->a, self->b);
}

/* The read-modify-write: reads and writes the same bytes */
TEST_F(taint, in_place)
{
	u_int64_t f, g;

	ASSERT_EQ(0, t_exit(self->a, t_enter(self->a, 1, C({ self->b, 0, 50 }),
					     C({ self->b, 0, 50 }))));
	f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "x");
	g = t_skip(self->a, 1, NULL, C({ self->b, 0, 50 }), C({ self->b, 0, 50 }));
	ASSERT_EQ(f, g);
	t_ranges_are(self->a, self->b, { 0, 50, f, CAPKM_RANGE_FAILED });
}

/* CHECK, unchanged since: for readers that copy */
TEST_F(taint, unchanged_since)
{
	u_int64_t b2 = t_buffer(self->a, 10), s;
	struct capkm_claim c = { self->b, 0, 10 };
	struct capkm_check a = { .claims_uptr = t_ptr(&c), .claims_len = 1 };

#define SINCE(expected) do {						\
	a.flags = CAPKM_CHECK_F_UNCHANGED;				\
	T_OK(self->a, CHECK, &a);					\
	ASSERT_EQ(expected, a.out_result);				\
	a.flags = 0;							\
	a.since = 0;							\
	T_OK(self->a, CHECK, &a);					\
	a.since = a.out_sequence;					\
} while (0)

	T_OK(self->a, CHECK, &a);
	a.since = a.out_sequence;
	SINCE(CAPKM_CLEAN);
	/* Other buffers do not count. */
	t_write(self->a, 1, C({ b2, 0, 10 }));
	SINCE(CAPKM_CLEAN);
	/* This one does, as a whole. */
	t_write(self->a, 1, C({ self->b, 90, 100 }));
	SINCE(CAPKM_CHANGED);
	SINCE(CAPKM_CLEAN);
	s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 50, 60 }));
	SINCE(CAPKM_CHANGED);
	ASSERT_EQ(0, t_exit(self->a, s));
	SINCE(CAPKM_CHANGED);
	ASSERT_EQ(0, t_reset(self->a, self->b, 90, 100));
	SINCE(CAPKM_CHANGED);
	t_written(self->a, C({ self->b, 90, 100 }));
	SINCE(CAPKM_CHANGED);
	/* Taint says more than that it has changed. */
	t_taint(self->a, "x", C({ self->b, 0, 1 }));
	SINCE(CAPKM_TAINTED);
#undef SINCE
}

/* Every change is a tick of the domain and of its buffer. */
TEST_F(taint, sequence)
{
	struct capkm_claim c = { self->b, 0, 10 };
	struct capkm_scope_enter e = {
		.place.stream = 1, .writes_uptr = t_ptr(&c), .writes_len = 1,
	};
	struct capkm_scope_exit x = { 0 };
	u_int64_t q, d, b2 = t_buffer(self->a, 10), q2;

	/* A fast enter makes no sequence of its own. */
	capkm_fast_path(self->a->c, false);
	q = t_buffer_query(self->a, self->b).q.out_sequence;
	q2 = t_buffer_query(self->a, b2).q.out_sequence;
	d = t_domain_query(self->a).out_sequence;
	T_OK(self->a, SCOPE_ENTER, &e);
	ASSERT_GT(e.out_sequence, d);
	ASSERT_EQ(e.out_sequence, t_buffer_query(self->a, self->b).q.out_sequence);
	ASSERT_GT(e.out_sequence, q);
	x.scope = e.out_scope;
	T_OK(self->a, SCOPE_EXIT, &x);
	ASSERT_GT(x.out_sequence, e.out_sequence);
	ASSERT_EQ(x.out_sequence, t_slot(self->a, 1).out_sequence);
	ASSERT_EQ(x.out_sequence, t_buffer_query(self->a, self->b).q.out_sequence);
	ASSERT_EQ(q2, t_buffer_query(self->a, b2).q.out_sequence);
}

/* SC-22: a text that is too long, a stack that is too long */
TEST_F(taint, too_long)
{
	static char text[CAPKM_STACK_MAX + 1];
	u_int64_t s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 10 }));
	struct capkm_scope_exit x = {
		.scope = s, .flags = CAPKM_SCOPE_EXIT_F_FAILED,
		.kind = CAPKM_KIND_GENERIC, .text_uptr = t_ptr(text),
		.text_len = CAPKM_TEXT_MAX + 1,
	};
	struct capkm_report r;

	memset(text, 'x', sizeof(text));
	T_REFUSED(self->a, -EMSGSIZE, t_call(self->a, CAPKM_NR_SCOPE_EXIT, &x));
	x.text_len = 0;
	x.text_uptr = 0;
	x.stack_uptr = t_ptr(text);
	x.stack_len = CAPKM_STACK_MAX + 1;
	T_REFUSED(self->a, -EMSGSIZE, t_call(self->a, CAPKM_NR_SCOPE_EXIT, &x));
	x.stack_len = CAPKM_STACK_MAX;
	x.text_uptr = t_ptr(text);
	x.text_len = CAPKM_TEXT_MAX;
	T_OK(self->a, SCOPE_EXIT, &x);
	r = t_is_failed(self->a, self->b, 0, 10, x.out_failure);
	ASSERT_EQ(CAPKM_TEXT_MAX, r.text_len);
	ASSERT_EQ(CAPKM_TEXT_MAX, strlen((char *)r.text));
	ASSERT_EQ(CAPKM_STACK_MAX, t_failure(self->a, x.out_failure, 0).q.out_stack);
}

/* Only kinds of the caller may be given. */
TEST_F(taint, kinds_of_the_caller)
{
	u_int64_t s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 10 }));
	struct capkm_claim c = { self->b, 20, 30 };
	static const unsigned int bad[] = {
		CAPKM_KIND_NONE, CAPKM_KIND_DRIVER + 1, CAPKM_KIND_TORN_DOWN,
		CAPKM_KIND_REFUSED, CAPKM_KIND_IN_PROGRESS, 1u << 31,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		struct capkm_scope_exit x = {
			.scope = s, .flags = CAPKM_SCOPE_EXIT_F_FAILED, .kind = bad[i],
		};
		struct capkm_taint t = {
			.claims_uptr = t_ptr(&c), .claims_len = 1, .kind = bad[i],
		};

		T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_SCOPE_EXIT, &x));
		T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_TAINT, &t));
	}
	for (unsigned int kind = CAPKM_KIND_GENERIC; kind <= CAPKM_KIND_DRIVER; kind++) {
		struct capkm_taint t = {
			.claims_uptr = t_ptr(&c), .claims_len = 1, .kind = kind,
		};

		T_OK(self->a, TAINT, &t);
		ASSERT_EQ(kind, t_is_failed(self->a, self->b, 20, 30, t.out_failure).kind);
	}
	ASSERT_EQ(0, t_exit(self->a, s));
}

/* A success has neither kind nor code nor text. */
TEST_F(taint, success_with_reason)
{
	u_int64_t s = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 10 }));
	struct capkm_scope_exit x = { .scope = s, .kind = CAPKM_KIND_GENERIC };

	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_SCOPE_EXIT, &x));
	x.kind = 0;
	x.code = 1;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_SCOPE_EXIT, &x));
	x.code = 0;
	x.flags = CAPKM_SCOPE_EXIT_F_COMPLETE;
	T_OK(self->a, SCOPE_EXIT, &x);
	ASSERT_EQ(0, x.out_failure);
}

/* TAINT with an existing failure takes no other reason. */
TEST_F(taint, existing_failure_with_reason)
{
	u_int64_t f = t_fail(self->a, 1, C({ self->b, 0, 10 }), "x");
	struct capkm_claim c = { self->b, 20, 30 };
	struct capkm_taint t = {
		.claims_uptr = t_ptr(&c), .claims_len = 1, .failure = f,
		.kind = CAPKM_KIND_IO,
	};

	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_TAINT, &t));
	t.kind = 0;
	t.code = 5;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_TAINT, &t));
	t.code = 0;
	T_OK(self->a, TAINT, &t);
	ASSERT_EQ(f, t.out_failure);
	t_is_failed(self->a, self->b, 20, 30, f);
}

/* Claims must lie inside their buffer. */
TEST_F(taint, bad_ranges)
{
	const struct capkm_claim bad[] = {
		{ self->b, 0, 101 }, { self->b, 101, 101 }, { self->b, 10, 9 },
		{ self->b, 1, UINT64_MAX }, { self->b, UINT64_MAX, 0 },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		struct capkm_claim c[] = { { self->b, 0, 1 }, bad[i], { self->b, 2, 3 } };
		u_int64_t f;
		struct t_enter e;

		T_REFUSED(self->a, -EINVAL, t_reset(self->a, self->b, bad[i].start,
						    bad[i].end));
		T_REFUSED(self->a, -EINVAL, t_try_taint(self->a, c, 3, 0, NULL, &f));
		e = t_try_enter(self->a, 1, 0, NULL, c, 3, NO_CLAIMS);
		ASSERT_EQ(-EINVAL, e.rc);
		ASSERT_EQ(1, e.error_index);
		e = t_try_enter(self->a, 1, 0, NULL, c, 1, c, 3);
		ASSERT_EQ(-EINVAL, e.rc);
		ASSERT_EQ(2, e.error_index);
	}
	t_no_ranges(self->a, self->b);
}

/* A buffer that is closed under an open scope stays until the scope is left. */
TEST_F(taint, closed_under_scope)
{
	u_int64_t b2 = t_buffer(self->a, 10), s, f;

	s = t_enter(self->a, 1, NO_CLAIMS, C({ b2, 0, 10 }, { self->b, 0, 10 }));
	ASSERT_EQ(0, t_drop(self->a, b2));
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	T_REFUSED(self->a, -ENOENT, t_drop(self->a, b2));
	T_REFUSED(self->a, -ENOENT, t_reset(self->a, b2, 0, 10));
	f = t_exit_failed(self->a, s, "x");
	ASSERT_EQ(1, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(1, t_failure(self->a, f, 0).r.carriers);
}

/* TA-13: new memory is clean although its content is arbitrary */
TEST_F(taint, new_memory)
{
	t_is_clean(self->a, t_buffer(self->a, UINT64_MAX), 0, UINT64_MAX);
	t_no_ranges(self->a, self->b);
}

/*
 * C46: two writers that are not ordered. The older scope's late success does
 * not matter, its late failure taints what the newer one wrote.
 */
TEST_F(taint, c46_late_success)
{
	u_int64_t a = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 100 }));

	t_write(self->a, 2, C({ self->b, 0, 64 }));
	t_is_open(self->a, self->b, 0, 64, a);
	ASSERT_EQ(0, t_exit(self->a, a));
	t_is_clean(self->a, self->b, 0, 100);
}

TEST_F(taint, c46_late_failure)
{
	u_int64_t a = t_enter(self->a, 1, NO_CLAIMS, C({ self->b, 0, 100 })), f;

	t_write(self->a, 2, C({ self->b, 0, 64 }));
	f = t_exit_failed(self->a, a, "late");
	t_is_failed(self->a, self->b, 0, 64, f);
}

/* C61: errors are of an operation, never sticky; a missing exit is a failure */
TEST_F(taint, c61_not_sticky)
{
	u_int64_t b2 = t_buffer(self->a, 10), x = t_shared(self->a, 10);
	struct cl *b = t_process();

	t_fail(self->a, 1, C({ self->b, 0, 10 }), "ignored");
	t_write(self->a, 1, C({ b2, 0, 10 }));
	t_is_clean(self->a, b2, 0, 10);

	t_attach(b, self->a->domain);
	t_open(b, x);
	t_enter(b, 1, NO_CLAIMS, C({ x, 0, 10 }));
	t_kill(b);
	t_is_tainted(self->a, x, 0, 10, CAPKM_KIND_TORN_DOWN);
}

/* EG-11: when all is given back the graph is empty */
TEST_F(taint, empty_in_the_end)
{
	u_int64_t b2 = t_buffer(self->a, 10);

	t_fail(self->a, 1, C({ self->b, 0, 10 }, { b2, 0, 5 }), "x");
	t_fail(self->a, 1, C({ self->b, 5, 20 }), "y");
	t_skip(self->a, 1, NULL, C({ self->b, 0, 100 }), C({ b2, 3, 10 }));
	ASSERT_EQ(0, t_drop(self->a, self->b));
	ASSERT_EQ(1, FAILURES());
	ASSERT_EQ(0, t_drop(self->a, b2));
	t_is_empty(self->a);
}

TEST_HARNESS_MAIN
