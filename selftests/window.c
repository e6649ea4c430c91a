// SPDX-License-Identifier: GPL-2.0-only
/*
 * Capture windows: who may do what when, what a window records, and what
 * happens to it when it closes.
 */
#include "capkm_test.h"

/* Streams: 1 owns, 33 is its neighbour on slot 1 of 32, 9 is somewhere else. */
#define OWNER 1
#define NEIGHBOUR 33
#define OTHER 9

FIXTURE(window)
{
	struct cl *a;
	u_int64_t b;
};

FIXTURE_SETUP(window)
{
	self->a = t_client();
	t_domain(self->a);
	self->b = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(window)
{
	t_close(self->a);
	t_no_leaks();
}

static void is_slot(struct __test_metadata *_metadata, struct cl *cl, u_int64_t stream,
		    unsigned int state, u_int64_t window, u_int64_t owner)
{
	struct capkm_stream_query s = t_slot(cl, stream);
	struct capkm_window_query w = { .place.stream = stream };

	ASSERT_EQ(state, s.out_state);
	ASSERT_EQ(window, s.out_window);
	ASSERT_EQ(owner, s.out_owner);
	/* WINDOW_QUERY by place says the same. */
	T_OK(cl, WINDOW_QUERY, &w);
	ASSERT_EQ(window, w.out_window);
	ASSERT_EQ(state, w.out_state);
	ASSERT_EQ(owner, w.out_owner);
}

/* CW-4, T-13 */
static bool in_cache_mode(struct cl *cl, u_int64_t stream)
{
	struct capkm_window_query w = { .place.stream = stream };

	T_OK(cl, WINDOW_QUERY, &w);
	return w.out_capture_cache;
}

#define IS_SLOT(...) is_slot(_metadata, self->a, __VA_ARGS__)

/* A transition that is rejected: errno, state of the slot, and nothing else. */
#define REJECTED(try, errno_, state_) do {				\
	char *before_ = t_dump(self->a);				\
	struct t_state s_ = try;					\
									\
	ASSERT_EQ(errno_, s_.rc);					\
	ASSERT_EQ(state_, s_.state);					\
	t_unchanged(self->a, before_);					\
} while (0)

/* T-1 T-2 T-13 CW-1 CW-2 CW-3 CW-4 CW-5 CW-6 CW-7: the whole table, one owner */
TEST_F(window, transitions)
{
	struct capkm_window_end e;
	u_int64_t w;

	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	ASSERT_FALSE(in_cache_mode(self->a, OWNER));
	REJECTED(t_try_begin(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_NONE);
	REJECTED(t_try_end(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_NONE);

	w = t_prepare(self->a, OWNER);
	IS_SLOT(OWNER, CAPKM_WINDOW_PREPARE, w, OWNER);
	IS_SLOT(NEIGHBOUR, CAPKM_WINDOW_PREPARE, w, OWNER);
	IS_SLOT(OTHER, CAPKM_WINDOW_NONE, 0, 0);
	ASSERT_TRUE(in_cache_mode(self->a, OWNER));
	REJECTED(t_try_prepare(self->a, OWNER), -EBUSY, CAPKM_WINDOW_PREPARE);
	REJECTED(t_try_prepare(self->a, NEIGHBOUR), -EBUSY, CAPKM_WINDOW_PREPARE);
	REJECTED(t_try_end(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_PREPARE);

	ASSERT_EQ(w, t_begin(self->a, OWNER));
	IS_SLOT(OWNER, CAPKM_WINDOW_CAPTURE, w, OWNER);
	ASSERT_TRUE(in_cache_mode(self->a, OWNER));
	REJECTED(t_try_begin(self->a, OWNER, 0), -EBUSY, CAPKM_WINDOW_CAPTURE);
	REJECTED(t_try_prepare(self->a, OWNER), -EBUSY, CAPKM_WINDOW_CAPTURE);
	REJECTED(t_try_prepare(self->a, NEIGHBOUR), -EBUSY, CAPKM_WINDOW_CAPTURE);

	e = t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, e.out_verdict);
	ASSERT_EQ(CAPKM_WINDOW_NONE, e.out_state);
	ASSERT_EQ(w, e.out_window);
	ASSERT_EQ(OWNER, e.out_owner);
	ASSERT_EQ(0, e.out_recorded);
	ASSERT_EQ(0, e.out_doomed);
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	ASSERT_FALSE(in_cache_mode(self->a, OWNER));
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(self->a, w).q.out_state);
	REJECTED(t_try_end(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_NONE);
	t_seal(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, t_window(self->a, w).q.out_state);
}

/* T-11: a rejected prepare leaves the window, which then begins */
TEST_F(window, rejected_prepare_keeps_window)
{
	u_int64_t w = t_prepare(self->a, OWNER);

	ASSERT_EQ(-EBUSY, t_try_prepare(self->a, NEIGHBOUR).rc);
	IS_SLOT(OWNER, CAPKM_WINDOW_PREPARE, w, OWNER);
	ASSERT_EQ(w, t_begin(self->a, OWNER));
	IS_SLOT(OWNER, CAPKM_WINDOW_CAPTURE, w, OWNER);
}

/* T-16 CW-8 D-2: any stream of the client begins, the preparer stays owner */
TEST_F(window, neighbour_begins)
{
	struct capkm_window_begin a = { .place.stream = NEIGHBOUR };
	u_int64_t w = t_prepare(self->a, OWNER);

	T_OK(self->a, WINDOW_BEGIN, &a);
	ASSERT_EQ(w, a.out_window);
	ASSERT_EQ(OWNER, a.out_owner);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, a.out_state);
	IS_SLOT(OWNER, CAPKM_WINDOW_CAPTURE, w, OWNER);
	t_end(self->a, OWNER);
	t_seal(self->a, w);
}

/* T-3 T-10 CW-9 CW-23: a foreign end closes, and the report names both */
TEST_F(window, foreign_end)
{
	struct capkm_window_end e;
	struct t_seal s;
	u_int64_t w = t_record(self->a, OWNER);

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	e = t_end(self->a, NEIGHBOUR);
	ASSERT_EQ(CAPKM_VERDICT_ABANDONED, e.out_verdict);
	ASSERT_EQ(OWNER, e.out_owner);
	ASSERT_EQ(w, e.out_window);
	ASSERT_EQ(1, e.out_recorded);
	ASSERT_EQ(1, e.out_doomed);
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);

	s = t_seal_refused(self->a, w);
	ASSERT_EQ(1, s.reports);
	ASSERT_EQ(CAPKM_KIND_ABANDONED, s.r[0].kind);
	ASSERT_NE(NULL, strstr((char *)s.r[0].text, "1"));
	ASSERT_NE(NULL, strstr((char *)s.r[0].text, "33"));
	ASSERT_EQ(w, s.r[0].window);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_ABANDONED);
	t_is_clean(self->a, self->b, 10, 100);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_VERDICT_ABANDONED, t_window(self->a, w).q.out_verdict);
}

/* T-10: doomed and abandoned: explanation first, doom second */
TEST_F(window, foreign_end_of_doomed)
{
	struct t_seal s;
	u_int64_t w = t_record(self->a, OWNER);

	t_fail(self->a, OWNER, C({ self->b, 0, 10 }), "the body's reason");
	t_end(self->a, NEIGHBOUR);
	s = t_seal_refused(self->a, w);
	ASSERT_EQ(2, s.reports);
	ASSERT_EQ(CAPKM_KIND_ABANDONED, s.r[0].kind);
	ASSERT_EQ(CAPKM_KIND_LAUNCH, s.r[1].kind);
	ASSERT_STREQ("the body's reason", (char *)s.r[1].text);
}

/* T-4 CW-10: the slot is free at once; the late owner closes a newer window */
TEST_F(window, late_owner_after_foreign_end)
{
	struct capkm_window_end e;
	u_int64_t old, w;

	old = t_record(self->a, OWNER);
	t_end(self->a, NEIGHBOUR);
	REJECTED(t_try_end(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_NONE);

	w = t_record(self->a, NEIGHBOUR);
	ASSERT_NE(old, w);
	e = t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_VERDICT_ABANDONED, e.out_verdict);
	ASSERT_EQ(w, e.out_window);
	ASSERT_EQ(NEIGHBOUR, e.out_owner);
	t_seal_refused(self->a, w);
	t_seal_refused(self->a, old);
	/* and it can be prepared by anyone */
	w = t_record(self->a, OWNER);
	t_end(self->a, OWNER);
	t_seal(self->a, w);
}

/* An end that names a window closes no other one. */
TEST_F(window, end_by_id)
{
	struct capkm_window_end a = { .place.stream = OWNER };
	u_int64_t old, w;

	old = t_record(self->a, OWNER);
	t_end(self->a, NEIGHBOUR);
	w = t_record(self->a, NEIGHBOUR);
	a.window = old;
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_END, &a));
	a.window = 12345;
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_END, &a));
	a.window = w;
	T_OK(self->a, WINDOW_END, &a);
	ASSERT_EQ(w, a.out_window);
}

/* T-5 CW-18 CW-22: sorted, each once; handed out once */
TEST_F(window, take_sorted)
{
	u_int64_t b2 = t_buffer(self->a, 50), b3 = t_buffer(self->a, 50), w;
	struct t_take t;

	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ b3, 0, 50 }, { b2, 0, 50 }));
	t_write(self->a, OWNER, C({ b2, 0, 50 }, { self->b, 0, 100 }));
	t_write(self->a, OWNER, C({ b3, 0, 50 }));
	T_REFUSED(self->a, -EINVAL, t_try_take(self->a, w, 0).rc);
	ASSERT_EQ(3, t_window(self->a, w).q.out_recorded);
	ASSERT_EQ(200, t_window(self->a, w).q.out_bytes);
	ASSERT_EQ(3, t_end(self->a, OWNER).out_recorded);
	t_take_is(self->a, w, C({ self->b, 0, 100 }, { b2, 0, 50 }, { b3, 0, 50 }));
	t = t_take(self->a, w, 0);
	ASSERT_EQ(0, t.claims);
	ASSERT_EQ(0, t.retained);
	ASSERT_EQ(0, t.reports);
	/* The graph has all of it whether it was taken or not. */
	t_graph_is(self->a, t_seal(self->a, w), 0,
		   C({ self->b, 0, 100 }, { b2, 0, 50 }, { b3, 0, 50 }));
}

/* T-7: a claim's key is buffer, start and end */
TEST_F(window, siblings_are_two_claims)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_write(self->a, OWNER, C({ self->b, 4, 8 }));
	t_write(self->a, OWNER, C({ self->b, 0, 4 }));
	t_write(self->a, OWNER, C({ self->b, 4, 8 }));
	t_write(self->a, OWNER, C({ self->b, 2, 6 }, { self->b, 0, 8 }));
	t_write(self->a, OWNER, C({ self->b, 9, 9 }));
	t_end(self->a, OWNER);
	t_take_is(self->a, w, C({ self->b, 0, 4 }, { self->b, 0, 8 }, { self->b, 2, 6 },
				{ self->b, 4, 8 }));
}

/* WINDOW_TAKE in pieces, and from the start again */
TEST_F(window, take_in_pieces)
{
	struct capkm_claim c[3];
	struct capkm_window_take a = { .claims_uptr = t_ptr(c), .claims_len = 2 };
	u_int64_t w = t_record(self->a, OWNER);

	for (int i = 0; i < 5; i++)
		t_write(self->a, OWNER, C({ self->b, 10 * i, 10 * i + 5 }));
	t_end(self->a, OWNER);
	a.window = w;
	for (unsigned int i = 0; i < 5; i += 2) {
		memset(c, 0xcc, sizeof(c));
		T_OK(self->a, WINDOW_TAKE, &a);
		ASSERT_EQ(i < 4 ? 2 : 1, a.out_claims);
		for (unsigned int j = 0; j < a.out_claims; j++) {
			ASSERT_EQ(10 * (i + j), c[j].start);
			ASSERT_EQ(10 * (i + j) + 5, c[j].end);
		}
		ASSERT_EQ(0xccccccccccccccccull, c[a.out_claims].start);
	}
	T_OK(self->a, WINDOW_TAKE, &a);
	ASSERT_EQ(0, a.out_claims);
	a.flags = CAPKM_WINDOW_TAKE_F_REWIND;
	T_OK(self->a, WINDOW_TAKE, &a);
	ASSERT_EQ(2, a.out_claims);
	ASSERT_EQ(0, c[0].start);
	/* A length of 0 takes nothing and loses nothing. */
	a.claims_len = 0;
	a.claims_uptr = 0;
	T_OK(self->a, WINDOW_TAKE, &a);
	ASSERT_EQ(0, a.out_claims);
	a.claims_len = 2;
	a.claims_uptr = t_ptr(c);
	a.flags = 0;
	T_OK(self->a, WINDOW_TAKE, &a);
	ASSERT_EQ(2, a.out_claims);
	ASSERT_EQ(0, c[0].start);
}

/* T-6 CW-15 GR-4: only what is inside the window is recorded */
TEST_F(window, warmup_is_not_recorded)
{
	u_int64_t w, f;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	w = t_prepare(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 10, 20 }));
	f = t_fail(self->a, OWNER, C({ self->b, 20, 30 }), "warm-up fails");
	ASSERT_EQ(0, t_try_record(self->a, w, 0, NO_CLAIMS, C({ self->b, 30, 40 })));
	t_begin(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 40, 50 }));
	t_end(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 50, 60 }));
	t_take_is(self->a, w, C({ self->b, 40, 50 }));
	t_seal(self->a, w);
	/* Warm-up works for real. */
	t_is_failed(self->a, self->b, 0, 100, f);
}

/* T-14 CW-16: fail counts while it records; the first is kept, the last too */
TEST_F(window, first_failure_wins)
{
	struct capkm_window_fail f;
	struct t_window q;
	struct t_seal s;
	struct t_take t;
	u_int64_t w = t_prepare(self->a, OWNER);

	f = t_window_fail(self->a, w, OWNER, 1, "warmup", "does not count");
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, f.out_state);
	ASSERT_EQ(0, f.out_failures);
	t_begin(self->a, OWNER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	f = t_window_fail(self->a, w, OWNER, 900, "first", "first reason");
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, f.out_state);
	ASSERT_EQ(1, f.out_failures);
	f = t_window_fail(self->a, w, OWNER, 901, "second", "second reason");
	ASSERT_EQ(2, f.out_failures);
	q = t_window(self->a, w);
	ASSERT_EQ(1, q.q.out_doomed);
	ASSERT_EQ(2, q.q.out_failures);
	ASSERT_EQ(2, q.q.out_reports);
	ASSERT_EQ(900, q.r[0].code);
	ASSERT_STREQ("first", (char *)q.r[0].label);
	ASSERT_STREQ("first reason", (char *)q.r[0].text);
	ASSERT_EQ(901, q.r[1].code);
	ASSERT_STREQ("second", (char *)q.r[1].label);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	/* CLOSING is doomed as well, and the first stays. */
	f = t_window_fail(self->a, w, OWNER, 902, "third", NULL);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, f.out_state);
	ASSERT_EQ(3, f.out_failures);
	t = t_take(self->a, w, 0);
	ASSERT_EQ(1, t.reports);
	ASSERT_EQ(900, t.r[0].code);
	ASSERT_EQ(0, t_take(self->a, w, 0).reports);
	s = t_seal_refused(self->a, w);
	ASSERT_EQ(2, s.reports);
	ASSERT_EQ(900, s.r[1].code);
	/* The history has it. */
	q = t_window(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, q.q.out_state);
	ASSERT_EQ(3, q.q.out_failures);
	ASSERT_EQ(900, q.r[0].code);
	ASSERT_EQ(902, q.r[1].code);
}

/* One failure is first and last: it is reported once. */
TEST_F(window, one_failure_one_report)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_window q;

	ASSERT_EQ(0, t_window(self->a, w).q.out_reports);
	t_window_fail(self->a, w, OWNER, 900, NULL, NULL);
	q = t_window(self->a, w);
	ASSERT_EQ(1, q.q.out_failures);
	ASSERT_EQ(1, q.q.out_reports);
	ASSERT_EQ(900, q.r[0].code);
}

/* A CLOSING window that was well can still be doomed, then not be sealed. */
TEST_F(window, doomed_while_closing)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_end(self->a, OWNER).out_doomed);
	t_window_fail(self->a, w, OWNER, 900, NULL, "late");
	t_seal_refused(self->a, w);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_REFUSED);
}

/* T-31 T-33 CW-24 CW-26 T-112: a failed scope dooms and records nothing */
TEST_F(window, failed_scope_dooms)
{
	u_int64_t w = t_record(self->a, OWNER), f;
	struct capkm_report r;
	struct t_take t;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	f = t_fail(self->a, OWNER, C({ self->b, 20, 30 }), "the body's reason");
	/* It taints at once ... */
	t_is_failed(self->a, self->b, 20, 30, f);
	/* ... and goes on recording. */
	t_write(self->a, OWNER, C({ self->b, 40, 50 }));
	ASSERT_EQ(2, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(1, t_window(self->a, w).q.out_failed_after);
	t_is_clean(self->a, self->b, 0, 20);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	t = t_take(self->a, w, 0);
	ASSERT_EQ(2, t.claims);
	ASSERT_EQ(0, t.c[0].start);
	ASSERT_EQ(40, t.c[1].start);
	ASSERT_EQ(1, t.reports);
	ASSERT_EQ(f, t.r[0].failure);
	ASSERT_STREQ("the body's reason", (char *)t.r[0].text);
	/* GR-15: everything recorded becomes unreadable and names the cause. */
	t_seal_refused(self->a, w);
	r = t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_REFUSED);
	ASSERT_NE(NULL, strstr((char *)r.text, "the body's reason"));
	ASSERT_EQ(w, r.window);
	t_is_tainted(self->a, self->b, 40, 50, CAPKM_KIND_REFUSED);
	t_is_failed(self->a, self->b, 20, 30, f);
	/* A rewrite recovers. */
	t_write(self->a, OWNER, C({ self->b, 0, 100 }));
	t_is_clean(self->a, self->b, 0, 100);
	ASSERT_EQ(0, t_failures(self->a));
}

/* T-32: a scope that is skipped inside the window dooms it with its input */
TEST_F(window, skipped_scope_dooms)
{
	u_int64_t in = t_buffer(self->a, 10), w, f;
	struct t_take t;

	f = t_fail(self->a, OTHER, C({ in, 0, 10 }), "bad input");
	w = t_record(self->a, OWNER);
	ASSERT_EQ(f, t_skip(self->a, OWNER, "k", C({ in, 0, 10 }), C({ self->b, 0, 10 })));
	t_is_failed(self->a, self->b, 0, 10, f);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	t = t_take(self->a, w, 0);
	ASSERT_EQ(0, t.claims);
	ASSERT_EQ(1, t.reports);
	ASSERT_STREQ("bad input", (char *)t.r[0].text);
	t_seal_refused(self->a, w);
}

/* T-34: scopes outside a window inform none, also not on its neighbour slot */
TEST_F(window, outside_informs_none)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_write(self->a, OTHER, C({ self->b, 0, 10 }));
	t_fail(self->a, OTHER, C({ self->b, 10, 20 }), "elsewhere");
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	ASSERT_EQ(0, t_end(self->a, OWNER).out_recorded);
	t_seal(self->a, w);
}

/* CW-25 D-1: a neighbour's launch on the slot is recorded, or dooms */
TEST_F(window, neighbour_launches)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_window q;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	t_write(self->a, NEIGHBOUR, C({ self->b, 10, 20 }));
	q = t_window(self->a, w);
	ASSERT_EQ(2, q.q.out_launches);
	ASSERT_EQ(1, q.q.out_foreign_launches);
	ASSERT_EQ(0, q.q.out_doomed);
	t_fail(self->a, NEIGHBOUR, C({ self->b, 20, 30 }), "neighbour");
	q = t_window(self->a, w);
	ASSERT_EQ(1, q.q.out_doomed);
	ASSERT_EQ(2, q.q.out_failed_after);
	ASSERT_EQ(NEIGHBOUR, q.r[0].stream);
}

/* T-8 CW-17 CW-19: retained host bytes, in order, handed out once */
TEST_F(window, retained)
{
	struct t_take t;
	struct t_graph g;
	u_int64_t w = t_prepare(self->a, OWNER);

	T_REFUSED(self->a, -EINVAL, t_retain(self->a, w, 0x1000, 5, CAPKM_RETAIN_READ));
	t_begin(self->a, OWNER);
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 5, CAPKM_RETAIN_WRITE));
	ASSERT_EQ(0, t_retain(self->a, w, 0x1000, 7, CAPKM_RETAIN_READ));
	T_REFUSED(self->a, -EINVAL, t_retain(self->a, w, 0x1000, 0, CAPKM_RETAIN_READ));
	T_REFUSED(self->a, -EOVERFLOW,
		  t_retain(self->a, w, 0x1000, UINT64_MAX, CAPKM_RETAIN_READ));
	ASSERT_EQ(2, t_window(self->a, w).q.out_retained);
	ASSERT_EQ(12, t_window(self->a, w).q.out_retained_bytes);
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_retain(self->a, w, 0x2000, 1, CAPKM_RETAIN_READ));
	t = t_take(self->a, w, 0);
	ASSERT_EQ(3, t.retained);
	ASSERT_EQ(0x3000, t.h[0].address);
	ASSERT_EQ(5, t.h[0].bytes);
	ASSERT_EQ(0x3001, t.h[0].cookie);
	ASSERT_EQ(3, t.h[0].epoch);
	ASSERT_EQ(CAPKM_RETAIN_WRITE, t.h[0].mode);
	ASSERT_EQ(0x1000, t.h[1].address);
	ASSERT_EQ(0x2000, t.h[2].address);
	ASSERT_EQ(0, t_take(self->a, w, 0).retained);
	g = t_graph_query(self->a, t_seal(self->a, w), 0);
	ASSERT_EQ(3, g.q.out_retained);
	ASSERT_EQ(13, g.q.out_retained_bytes);
	/* After an abort and a new window there is nothing. */
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 5, CAPKM_RETAIN_READ));
	t_abort(self->a, OWNER);
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_retained);
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_take(self->a, w, 0).retained);
}

/* T-9 T-12 T-15 CW-12 CW-20 CW-21: abort and leftovers */
TEST_F(window, abort)
{
	u_int64_t w, old;

	/* Nothing there: nothing happens. */
	T_REFUSED(self->a, 0, (t_abort(self->a, OWNER) ? 1 : 0));
	w = t_prepare(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 90, 100 }));
	ASSERT_EQ(w, t_abort(self->a, OWNER));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	/* From PREPARE it changes no taint. */
	t_is_clean(self->a, self->b, 0, 100);

	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(w, t_abort(self->a, NEIGHBOUR));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_ABORTED);
	t_is_clean(self->a, self->b, 10, 100);
	ASSERT_EQ(0, t_buffer_query(self->a, self->b).q.out_uses);

	/* T-9: the next window is empty; T-15: a CLOSING one keeps what it has. */
	old = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 20, 30 }));
	t_end(self->a, NEIGHBOUR);
	ASSERT_EQ(1, t_take(self->a, old, 0).claims);
	w = t_record(self->a, OWNER);
	ASSERT_EQ(-EBUSY, t_try_prepare(self->a, NEIGHBOUR).rc);
	t_take_is(self->a, old, C({ self->b, 20, 30 }));
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_take(self->a, w, 0).claims);
	t_seal(self->a, w);
	t_take_is(self->a, old, C({ self->b, 20, 30 }));
	t_refuse(self->a, old, NULL);
}

/* An abort while a scope of the window is open: its exit is a failure. */
TEST_F(window, abort_under_scope)
{
	u_int64_t s, w = t_record(self->a, OWNER), f;

	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 0, 10 }));
	ASSERT_EQ(w, t_abort(self->a, OWNER));
	t_is_open(self->a, self->b, 0, 10, s);
	f = t_exit(self->a, s);
	ASSERT_NE(0, f);
	ASSERT_EQ(CAPKM_KIND_ABORTED, t_is_failed(self->a, self->b, 0, 10, f).kind);
}

/* WINDOW_REFUSE gives the driver's reason. */
TEST_F(window, refuse)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct capkm_window_refuse a = { .window = w };
	struct capkm_report r;
	struct t_seal s;

	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WINDOW_REFUSE, &a));
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	t_end(self->a, OWNER);
	s = t_refuse(self->a, w, "instantiate failed");
	ASSERT_EQ(1, s.reports);
	ASSERT_EQ(901, s.r[0].code);
	ASSERT_NE(NULL, strstr((char *)s.r[0].text, "instantiate failed"));
	r = t_is_tainted(self->a, self->b, 0, 10, s.r[0].kind);
	ASSERT_EQ(s.r[0].failure, r.failure);
	ASSERT_EQ(901, r.code);
	ASSERT_NE(NULL, strstr((char *)r.text, "instantiate failed"));
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(0, t_window(self->a, w).q.out_graph);
	ASSERT_NE(0, t_window(self->a, w).q.out_closed_ns);
	/* It is over; nothing can be done with it again. */
	a.window = w;
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_REFUSE, &a));
	T_REFUSED(self->a, -ENOENT, t_try_seal(self->a, w, 0).rc);
	T_REFUSED(self->a, -ENOENT, t_try_take(self->a, w, 0).rc);
	T_REFUSED(self->a, -ENOENT, t_retain(self->a, w, 1, 1, 0));
	T_REFUSED(self->a, -ENOENT, t_abandon(self->a, w));
	T_REFUSED(self->a, -ENOENT,
		  t_try_record(self->a, w, 0, NO_CLAIMS, C({ self->b, 0, 1 })));
}

/* A doomed window that is refused: why first, what doomed it second. */
TEST_F(window, refuse_doomed)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_seal s;

	t_window_fail(self->a, w, OWNER, 900, "op", "doom");
	t_end(self->a, OWNER);
	s = t_refuse(self->a, w, "driver says no");
	ASSERT_EQ(2, s.reports);
	ASSERT_EQ(901, s.r[0].code);
	ASSERT_EQ(900, s.r[1].code);
}

/* Refusal follows the rule of overlap: what came later keeps its verdict. */
TEST_F(window, refusal_and_later_writes)
{
	u_int64_t w = t_record(self->a, OWNER), f;

	t_write(self->a, OWNER, C({ self->b, 0, 100 }));
	t_write(self->a, OTHER, C({ self->b, 10, 20 }));
	f = t_fail(self->a, OTHER, C({ self->b, 30, 40 }), "later");
	ASSERT_EQ(0, t_reset(self->a, self->b, 50, 60));
	t_written(self->a, C({ self->b, 70, 80 }));
	t_end(self->a, OWNER);
	t_refuse(self->a, w, NULL);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_DRIVER);
	t_is_clean(self->a, self->b, 10, 20);
	t_is_tainted(self->a, self->b, 20, 30, CAPKM_KIND_DRIVER);
	t_is_failed(self->a, self->b, 30, 40, f);
	t_is_clean(self->a, self->b, 50, 60);
	t_is_clean(self->a, self->b, 70, 80);
	t_is_tainted(self->a, self->b, 80, 100, CAPKM_KIND_DRIVER);
}

/* GR-18 as changed: recording is not writing. */
TEST_F(window, recording_is_not_writing)
{
	u_int64_t f = t_fail(self->a, OTHER, C({ self->b, 0, 50 }), "before"), w, s;

	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 0, 100 }));
	t_is_failed(self->a, self->b, 0, 100, f);
	t_is_clean(self->a, self->b, 50, 100);
	t_ranges_are(self->a, self->b, { 0, 50, f, CAPKM_RANGE_FAILED },
		     { 0, 100, w, CAPKM_RANGE_RECORDED });
	/* The window sees through its own writes, others do not. */
	s = t_enter(self->a, OWNER, C({ self->b, 0, 100 }), NO_CLAIMS);
	ASSERT_EQ(0, t_exit(self->a, s));
	ASSERT_EQ(f, t_skip(self->a, OTHER, NULL, C({ self->b, 0, 100 }), NO_CLAIMS));
	/* but not through failures that came after its write */
	t_fail(self->a, OTHER, C({ self->b, 60, 70 }), "after");
	ASSERT_EQ(CAPKM_SKIPPED, t_try_enter(self->a, OWNER, 0, NULL,
					     C({ self->b, 0, 100 }), NO_CLAIMS).result);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	t_refuse(self->a, w, NULL);
}

/* A report ends where the window does not hide an earlier failure any more. */
TEST_F(window, report_ends_with_what_hides)
{
	u_int64_t s, late, f;
	struct t_enter e;

	t_record(self->a, OWNER);
	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 0, 40 }));
	late = t_enter(self->a, OTHER, NO_CLAIMS, C({ self->b, 0, 100 }));
	t_fail(self->a, OTHER, C({ self->b, 0, 100 }), "before");
	ASSERT_EQ(0, t_exit(self->a, s));
	f = t_exit_failed(self->a, late, "after");
	e = t_try_enter(self->a, OWNER, 0, NULL, C({ self->b, 10, 100 }), NO_CLAIMS);
	ASSERT_EQ(CAPKM_SKIPPED, e.result);
	ASSERT_EQ(f, e.r.failure);
	ASSERT_EQ(10, e.r.start);
	ASSERT_EQ(40, e.r.end);
	t_end(self->a, OWNER);
}

/* A sealed window leaves memory as it was before it. */
TEST_F(window, seal_leaves_memory)
{
	u_int64_t f = t_fail(self->a, OTHER, C({ self->b, 0, 50 }), "before");

	t_graph(self->a, OWNER, NO_CLAIMS, C({ self->b, 0, 100 }));
	t_ranges_are(self->a, self->b, { 0, 50, f, CAPKM_RANGE_FAILED });
}

/* "A scope belongs to the window that was recording when it was entered." */
TEST_F(window, scope_bound_at_entry)
{
	u_int64_t s, w, next;
	struct t_window q;

	/* A window never straddles a scope. */
	w = t_prepare(self->a, OWNER);
	s = t_enter(self->a, NEIGHBOUR, NO_CLAIMS, C({ self->b, 0, 10 }));
	REJECTED(t_try_begin(self->a, OWNER, 0), -EBUSY, CAPKM_WINDOW_PREPARE);
	ASSERT_EQ(0, t_exit(self->a, s));
	t_begin(self->a, OWNER);

	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 20, 30 }));
	ASSERT_EQ(1, t_slot(self->a, OWNER).out_scopes);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	next = t_prepare(self->a, OWNER);
	REJECTED(t_try_begin(self->a, OWNER, 0), -EBUSY, CAPKM_WINDOW_PREPARE);
	t_exit(self->a, s);
	ASSERT_EQ(0, t_slot(self->a, OWNER).out_scopes);
	t_begin(self->a, OWNER);
	q = t_window(self->a, next);
	ASSERT_EQ(0, q.q.out_recorded);
	ASSERT_EQ(0, q.q.out_doomed);
	t_end(self->a, OWNER);
	t_seal(self->a, next);
	t_seal_refused(self->a, w);
}

/* Closed while a scope is open: kind INCOMPLETE, its set counts as recorded. */
TEST_F(window, incomplete)
{
	u_int64_t s, w = t_record(self->a, OWNER), f;
	struct capkm_window_end e;
	struct t_seal r;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 20, 30 }));
	e = t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, e.out_verdict);
	ASSERT_EQ(1, e.out_doomed);
	ASSERT_EQ(2, e.out_recorded);
	t_take_is(self->a, w, C({ self->b, 0, 10 }, { self->b, 20, 30 }));
	ASSERT_EQ(CAPKM_KIND_INCOMPLETE, t_window(self->a, w).r[0].kind);
	r = t_seal_refused(self->a, w);
	ASSERT_EQ(2, r.reports);
	ASSERT_EQ(CAPKM_KIND_INCOMPLETE, r.r[1].kind);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_REFUSED);
	t_is_open(self->a, self->b, 20, 30, s);
	/* Its exit cannot make it good. */
	f = t_exit(self->a, s);
	ASSERT_NE(0, f);
	t_is_failed(self->a, self->b, 20, 30, f);
	ASSERT_EQ(f, t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_REFUSED).failure);
}

/* The same with the exit between END and SEAL. */
TEST_F(window, incomplete_left_before_refusal)
{
	u_int64_t s, w = t_record(self->a, OWNER);

	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 20, 30 }));
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_exit(self->a, s));
	t_is_clean(self->a, self->b, 0, 100);
	t_take_is(self->a, w, C({ self->b, 20, 30 }));
	t_seal_refused(self->a, w);
	t_is_tainted(self->a, self->b, 20, 30, CAPKM_KIND_REFUSED);
}

/* WINDOW_RECORD: claims of work that had no scope */
TEST_F(window, record_without_scope)
{
	u_int64_t b2 = t_buffer(self->a, 10), w, g;

	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, t_try_record(self->a, w, 0, C({ b2, 0, 10 }), C({ self->b, 0, 10 })));
	t_end(self->a, OWNER);
	/* CLOSING too: the driver may say late what it recorded. */
	ASSERT_EQ(0, t_try_record(self->a, w, 0, C({ self->b, 5, 15 }),
				  C({ self->b, 20, 30 })));
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->b, 0, 10 }, { self->b, 20, 30 }));
	/* [5,10) was written by the window before it was read. */
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_INPUTS,
		   C({ self->b, 10, 15 }, { b2, 0, 10 }));
}

/* A bad claim in the middle: which one, and nothing recorded */
TEST_F(window, record_bad_claim)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct capkm_claim r[] = { { self->b, 0, 1 }, { self->b, 1, 2 } };
	struct capkm_claim v[] = { { self->b, 0, 1 }, { 999, 0, 1 }, { self->b, 1, 2 } };
	struct capkm_window_record a = {
		.window = w, .reads_uptr = t_ptr(r), .reads_len = 2,
		.writes_uptr = t_ptr(v), .writes_len = 3,
	};

	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_RECORD, &a));
	ASSERT_EQ(3, a.out_error_index);
}

/* What the opener said and when; ids are never reused; the slot is as named. */
TEST_F(window, query)
{
	struct capkm_window_prepare a = {
		.place = { .stream = 5, .device = { 1, 2, 3 }, .slot = 7 },
		.flags = CAPKM_PLACE_F_SLOT,
		.cookie = 0x1122334455667788, .mode_uptr = t_ptr("thread_local"),
		.mode_len = 12,
	};
	struct capkm_window_begin b = { .place = a.place, .flags = CAPKM_PLACE_F_SLOT };
	struct capkm_window_end e = { .place = a.place, .flags = CAPKM_PLACE_F_SLOT };
	struct t_window q;

	T_OK(self->a, WINDOW_PREPARE, &a);
	ASSERT_EQ(7, a.out_slot);
	q = t_window(self->a, a.out_window);
	ASSERT_EQ(5, q.q.out_owner);
	ASSERT_EQ(self->a->session, q.q.out_session);
	ASSERT_EQ(0x1122334455667788, q.q.out_cookie);
	ASSERT_EQ(0, q.q.out_graph);
	ASSERT_EQ(0, memcmp(q.q.out_device, a.place.device, 16));
	ASSERT_EQ(7, q.q.out_slot);
	ASSERT_EQ(CAPKM_VERDICT_NONE, q.q.out_verdict);
	ASSERT_EQ(0, q.q.out_strict);
	ASSERT_EQ(getpid(), q.q.out_pid);
	ASSERT_EQ(getuid(), q.q.out_uid);
	ASSERT_STREQ("thread_local", (char *)q.q.out_mode);
	ASSERT_NE(0, strlen((char *)q.q.out_comm));
	ASSERT_NE(0, q.q.out_prepared_ns);
	ASSERT_EQ(0, q.q.out_begun_ns);
	ASSERT_EQ(0, q.q.out_closed_ns);
	/* Stream 5 of the same device has another slot, slot 7 elsewhere none. */
	IS_SLOT(5, CAPKM_WINDOW_NONE, 0, 0);
	IS_SLOT(7, CAPKM_WINDOW_NONE, 0, 0);

	T_OK(self->a, WINDOW_BEGIN, &b);
	q = t_window(self->a, a.out_window);
	ASSERT_NE(0, q.q.out_begun_ns);
	T_OK(self->a, WINDOW_END, &e);
	q = t_window(self->a, a.out_window);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, q.q.out_verdict);
	ASSERT_EQ(t_seal(self->a, a.out_window), t_window(self->a, a.out_window).q.out_graph);
	ASSERT_NE(0, t_window(self->a, a.out_window).q.out_closed_ns);
	ASSERT_NE(a.out_window, t_prepare(self->a, OWNER));
}

/* An abort that names a window aborts no other one. */
TEST_F(window, abort_by_id)
{
	struct capkm_window_abort a = { .place.stream = OWNER, .window = 12345 };
	u_int64_t w;

	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_ABORT, &a));
	w = t_record(self->a, OWNER);
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_ABORT, &a));
	a.window = w;
	T_OK(self->a, WINDOW_ABORT, &a);
	ASSERT_EQ(w, a.out_window);
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_ABORT, &a));
}

/* Places: the slot must exist, and is only read with F_SLOT. */
TEST_F(window, bad_place)
{
	struct capkm_window_prepare a = {
		.place = { .stream = 1, .slot = 32 }, .flags = CAPKM_PLACE_F_SLOT,
	};

	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WINDOW_PREPARE, &a));
	a.flags = 0;
	a.place.slot = 1;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WINDOW_PREPARE, &a));
	/* A stream that was never handed out. */
	a.place.slot = 0;
	a.place.stream = CAPKM_STREAM_FIRST + 1000;
	T_REFUSED(self->a, -ENOENT, t_call(self->a, CAPKM_NR_WINDOW_PREPARE, &a));
}

/* WINDOW_FAIL from another session names that session. */
TEST_F(window, fail_from_another_session)
{
	struct cl *b = t_client();
	u_int64_t w = t_record(self->a, OWNER);
	struct t_window q;

	t_attach(b, self->a->domain);
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	t_window_fail(b, w, OTHER, 900, "cudaEventQuery", "not permitted");
	q = t_window(self->a, w);
	ASSERT_EQ(1, q.q.out_doomed);
	ASSERT_EQ(OTHER, q.r[0].stream);
	ASSERT_EQ(b->session, q.r[0].session);
	ASSERT_EQ(w, q.r[0].window);
	ASSERT_EQ(900, q.r[0].code);
	ASSERT_EQ(1, q.q.out_failed_after);
	/* The rest is the opener's alone. */
	t_end(self->a, OWNER);
	T_REFUSED(self->a, -EPERM, t_try_take(b, w, 0).rc);
	T_REFUSED(self->a, -EPERM, t_try_seal(b, w, 0).rc);
	T_REFUSED(self->a, -EPERM, t_retain(b, w, 1, 1, 0));
	T_REFUSED(self->a, -EPERM, t_try_record(b, w, 0, NO_CLAIMS, NO_CLAIMS));
	/* The same domain's owner may abandon it. */
	ASSERT_EQ(0, t_abandon(b, w));
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_ABANDONED);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(b, w).q.out_state);
	T_REFUSED(self->a, -ENOENT, t_try_seal(self->a, w, 0).rc);
	t_close(b);
}

/* WINDOW_ABANDON in each state */
TEST_F(window, abandon)
{
	u_int64_t w;

	T_REFUSED(self->a, -ENOENT, t_abandon(self->a, 12345));
	w = t_prepare(self->a, OWNER);
	ASSERT_EQ(0, t_abandon(self->a, w));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	t_no_ranges(self->a, self->b);
	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_abandon(self->a, w));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_ABANDONED);
	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 20, 30 }));
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_is_tainted(self->a, self->b, 20, 30, CAPKM_KIND_ABANDONED);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	ASSERT_EQ(3, t_domain_query(self->a).out_history);
}

/* The history keeps the last 64. */
TEST_F(window, history)
{
	u_int64_t first = 0, w = 0;
	struct capkm_window_query q = { 0 };

	for (int i = 0; i < 65; i++) {
		w = t_record(self->a, OWNER);
		if (!first)
			first = w;
		t_end(self->a, OWNER);
		t_refuse(self->a, w, NULL);
	}
	ASSERT_EQ(64, t_domain_query(self->a).out_history);
	q.window = first;
	ASSERT_EQ(-ENOENT, t_call(self->a, CAPKM_NR_WINDOW_QUERY, &q));
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, first + 1).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	T_REFUSED(self->a, -ENOENT, t_try_seal(self->a, first, 0).rc);
}

/* A recorded buffer that is closed lives as long as the window needs it. */
TEST_F(window, recorded_buffer_is_kept)
{
	u_int64_t b = t_buffer(self->a, 10), w = t_record(self->a, OWNER);

	t_write(self->a, OWNER, C({ b, 0, 10 }));
	ASSERT_EQ(1, t_buffer_query(self->a, b).q.out_uses);
	ASSERT_EQ(0, t_drop(self->a, b));
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	t_end(self->a, OWNER);
	t_take_is(self->a, w, C({ b, 0, 10 }));
	t_refuse(self->a, w, NULL);
	/* Nobody can read what the refusal tainted: it goes with the buffer. */
	ASSERT_EQ(1, t_domain_query(self->a).out_buffers);
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(0, t_domain_query(self->a).out_claims);
}

/* ---------------------------------------------------------------- hardware */

FIXTURE(hardware)
{
	struct cl *a;
	u_int64_t b;
};

FIXTURE_SETUP(hardware)
{
	self->a = t_client();
	t_domain_backend(self->a, CAPKM_BACKEND_HARDWARE);
	self->b = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(hardware)
{
	t_close(self->a);
	t_no_leaks();
}

#define DONE CAPKM_WINDOW_F_DRIVER_DONE

/* A window of a driver, up to CAPTURE. */
static u_int64_t hw_record(struct cl *cl, u_int64_t stream)
{
	u_int64_t w = t_prepare(cl, stream);
	struct t_state s = t_try_begin(cl, stream, 0);

	if (s.rc || s.state != CAPKM_WINDOW_OPENING)
		t_die("WINDOW_BEGIN: %d, state %u", s.rc, s.state);
	s = t_try_begin(cl, stream, DONE);
	if (s.rc || s.state != CAPKM_WINDOW_CAPTURE)
		t_die("WINDOW_BEGIN, done: %d, state %u", s.rc, s.state);
	return w;
}

/* CW-13, architecture 4: the driver's work lies between two states */
TEST_F(hardware, two_calls)
{
	u_int64_t w, g;
	struct t_state s;

	REJECTED(t_try_begin(self->a, OWNER, DONE), -EINVAL, CAPKM_WINDOW_NONE);
	w = t_prepare(self->a, OWNER);
	REJECTED(t_try_begin(self->a, OWNER, DONE), -EINVAL, CAPKM_WINDOW_PREPARE);
	s = t_try_begin(self->a, OWNER, 0);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_WINDOW_OPENING, s.state);
	IS_SLOT(OWNER, CAPKM_WINDOW_OPENING, w, OWNER);
	ASSERT_TRUE(in_cache_mode(self->a, OWNER));
	s = t_try_begin(self->a, OWNER, DONE);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, s.state);
	REJECTED(t_try_begin(self->a, OWNER, DONE), -EBUSY, CAPKM_WINDOW_CAPTURE);
	REJECTED(t_try_end(self->a, OWNER, DONE), -EINVAL, CAPKM_WINDOW_CAPTURE);
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	s = t_try_end(self->a, OWNER, 0);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, s.state);
	IS_SLOT(OWNER, CAPKM_WINDOW_CLOSING, w, OWNER);
	T_REFUSED(self->a, -EBUSY, t_try_seal(self->a, w, 0).rc);
	s = t_try_end(self->a, OWNER, DONE);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_WINDOW_NONE, s.state);
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->b, 0, 10 }));
}

/* OPENING holds the slot: everything else is EBUSY and nothing is doomed. */
TEST_F(hardware, opening_holds_slot)
{
	u_int64_t g, w;

	w = hw_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	t_try_end(self->a, OWNER, 0);
	t_try_end(self->a, OWNER, DONE);
	g = t_seal(self->a, w);

	w = t_prepare(self->a, OWNER);
	ASSERT_EQ(0, t_try_begin(self->a, OWNER, 0).rc);
	T_REFUSED(self->a, -EBUSY, t_try_enter(self->a, NEIGHBOUR, 0, NULL, NO_CLAIMS,
					       C({ self->b, 0, 10 })).rc);
	REJECTED(t_try_prepare(self->a, NEIGHBOUR), -EBUSY, CAPKM_WINDOW_OPENING);
	REJECTED(t_try_begin(self->a, OWNER, 0), -EBUSY, CAPKM_WINDOW_OPENING);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	T_REFUSED(self->a, -EBUSY, t_try_replay(self->a, g, OWNER).rc);
	/* Elsewhere work goes on. */
	t_write(self->a, OTHER, C({ self->b, 0, 10 }));
	t_replay(self->a, g, OTHER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_try_begin(self->a, OWNER, DONE).rc);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
}

/* T-115: the driver did not begin */
TEST_F(hardware, abort_while_opening)
{
	u_int64_t w = t_prepare(self->a, OWNER);

	ASSERT_EQ(0, t_try_begin(self->a, OWNER, 0).rc);
	ASSERT_EQ(w, t_abort(self->a, OWNER));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	REJECTED(t_try_begin(self->a, OWNER, DONE), -EINVAL, CAPKM_WINDOW_NONE);
	t_no_ranges(self->a, self->b);
	hw_record(self->a, OWNER);
}

/* A failure while the driver opens it dooms the window. */
TEST_F(hardware, fail_while_opening)
{
	u_int64_t w = t_prepare(self->a, OWNER);
	struct capkm_window_fail f;

	ASSERT_EQ(0, t_try_begin(self->a, OWNER, 0).rc);
	f = t_window_fail(self->a, w, OTHER, 900, NULL, NULL);
	ASSERT_EQ(CAPKM_WINDOW_OPENING, f.out_state);
	ASSERT_EQ(1, f.out_failures);
	ASSERT_EQ(0, t_try_begin(self->a, OWNER, DONE).rc);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
}

/* CLOSING holds the slot until the driver has closed it. */
TEST_F(hardware, closing_holds_slot)
{
	u_int64_t w = hw_record(self->a, OWNER), g;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	T_REFUSED(self->a, -EBUSY, t_try_enter(self->a, OWNER, 0, NULL, NO_CLAIMS,
					       C({ self->b, 0, 10 })).rc);
	REJECTED(t_try_prepare(self->a, OWNER), -EBUSY, CAPKM_WINDOW_CLOSING);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_try_end(self->a, OWNER, DONE).rc);
	g = t_seal(self->a, w);

	/* A replay is kept out as well. */
	w = hw_record(self->a, OWNER);
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	T_REFUSED(self->a, -EBUSY, t_try_replay(self->a, g, OWNER).rc);
	/* WINDOW_REFUSE lets the slot go. */
	t_refuse(self->a, w, "EndCapture failed");
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	t_replay(self->a, g, OWNER);
	REJECTED(t_try_end(self->a, OWNER, DONE), -EINVAL, CAPKM_WINDOW_NONE);
}

/* C20: the state is known before the driver's outcome is */
TEST_F(hardware, c20_driver_fails_to_close)
{
	u_int64_t w = hw_record(self->a, OWNER);
	struct t_seal s;

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, t_window(self->a, w).q.out_verdict);
	s = t_refuse(self->a, w, "cuStreamEndCapture: 901");
	ASSERT_EQ(1, s.reports);
	ASSERT_EQ(CAPKM_KIND_DRIVER, s.r[0].kind);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_DRIVER);
	hw_record(self->a, OWNER);
}

/* Abort and abandon while the slot is held let it go. */
TEST_F(hardware, abort_while_closing)
{
	u_int64_t w = hw_record(self->a, OWNER);

	t_write(self->a, OWNER, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	ASSERT_EQ(w, t_abort(self->a, OWNER));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	t_is_tainted(self->a, self->b, 0, 10, CAPKM_KIND_ABORTED);
	w = hw_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->b, 20, 30 }));
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	ASSERT_EQ(0, t_abandon(self->a, w));
	IS_SLOT(OWNER, CAPKM_WINDOW_NONE, 0, 0);
	t_is_tainted(self->a, self->b, 20, 30, CAPKM_KIND_ABANDONED);
}

/* A scope of the window may be left while the slot is held. */
TEST_F(hardware, exit_while_closing)
{
	u_int64_t w = hw_record(self->a, OWNER), s;

	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->b, 0, 10 }));
	ASSERT_EQ(0, t_try_end(self->a, OWNER, 0).rc);
	t_exit(self->a, s);
	ASSERT_EQ(0, t_try_end(self->a, OWNER, DONE).rc);
	ASSERT_EQ(CAPKM_KIND_INCOMPLETE, t_seal_refused(self->a, w).r[1].kind);
}

/* F_DRIVER_DONE is for slots with a driver. */
TEST_F(window, driver_done_on_software)
{
	t_prepare(self->a, OWNER);
	T_REFUSED(self->a, -EOPNOTSUPP, t_try_begin(self->a, OWNER, DONE).rc);
	t_begin(self->a, OWNER);
	T_REFUSED(self->a, -EOPNOTSUPP, t_try_end(self->a, OWNER, DONE).rc);
}

/* GR-29: no graphs: prepare does nothing, begin and end are not supported */
TEST(backend_none)
{
	struct cl *a = t_client();
	struct capkm_window_prepare p = { .place.stream = OWNER };

	t_domain_backend(a, CAPKM_BACKEND_NONE);
	T_OK(a, WINDOW_PREPARE, &p);
	ASSERT_EQ(0, p.out_window);
	ASSERT_EQ(CAPKM_WINDOW_NONE, p.out_state);
	T_REFUSED(a, 0, t_call(a, CAPKM_NR_WINDOW_PREPARE, &p));
	T_REFUSED(a, -EOPNOTSUPP, t_try_begin(a, OWNER, 0).rc);
	T_REFUSED(a, -EOPNOTSUPP, t_try_end(a, OWNER, 0).rc);
	ASSERT_EQ(0, t_domain_query(a).out_windows);
	ASSERT_EQ(0, t_abort(a, OWNER));
	t_close(a);
}

/* ------------------------------------------------- what users of others hit */

/* C01: a helper thread's query fails inside the window of another stream */
TEST_F(window, c01_helper_thread_fails)
{
	u_int64_t b2 = t_buffer(self->a, 10), w = t_record(self->a, OWNER);
	struct capkm_window_end e;
	struct t_window q;

	t_window_fail(self->a, w, OTHER, 900, "cudaEventQuery", NULL);
	for (int i = 0; i < 3; i++)
		t_write(self->a, OWNER, C({ self->b, 10 * i, 10 * i + 10 }));
	t_write(self->a, OTHER, C({ b2, 0, 10 }));
	e = t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, e.out_verdict);
	ASSERT_EQ(1, e.out_doomed);
	ASSERT_EQ(3, e.out_recorded);
	q = t_window(self->a, w);
	ASSERT_EQ(1, q.q.out_reports);
	ASSERT_EQ(900, q.r[0].code);
	ASSERT_EQ(OTHER, q.r[0].stream);
	ASSERT_NE(0, q.r[0].sequence);
	ASSERT_EQ(0, q.q.out_failed_after);
	t_prepare(self->a, OWNER);
	t_seal_refused(self->a, w);
	t_is_clean(self->a, b2, 0, 10);
}

/* C02: the window dies once, the other stream's good write stays good */
TEST_F(window, c02_pin_thread_fails)
{
	u_int64_t b2 = t_buffer(self->a, 10), w = t_record(self->a, OWNER);

	t_write(self->a, 2, C({ b2, 0, 10 }));
	t_window_fail(self->a, w, 2, 900, "cudaHostAlloc", NULL);
	t_is_clean(self->a, b2, 0, 10);
	t_end(self->a, OWNER);
	t_seal_refused(self->a, w);
	/* Later work of stream 2 is not refused because of it. */
	ASSERT_EQ(0, t_exit(self->a, t_enter(self->a, 2, C({ b2, 0, 10 }),
					     C({ b2, 0, 10 }))));
	t_is_clean(self->a, b2, 0, 10);
}

/* C14: only the first failure is the cause; destroying nothing is EINVAL */
TEST_F(window, c14_null_graph)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_window_fail(self->a, w, OWNER, 900, "module_load", NULL);
	t_end(self->a, OWNER);
	T_REFUSED(self->a, -EINVAL, t_destroy(self->a, 0));
	ASSERT_EQ(900, t_seal_refused(self->a, w).r[1].code);
	T_REFUSED(self->a, -EINVAL, t_destroy(self->a, 0));
	ASSERT_EQ(900, t_window(self->a, w).r[0].code);
}

/* C15: no warm-up; and the close does not hide the first error */
TEST_F(window, c15_first_error_first)
{
	u_int64_t w;
	struct t_seal s;

	REJECTED(t_try_begin(self->a, OWNER, 0), -EINVAL, CAPKM_WINDOW_NONE);
	w = t_record(self->a, OWNER);
	t_window_fail(self->a, w, OWNER, 1, "cublas", "NOT_INITIALIZED");
	t_end(self->a, OWNER);
	s = t_refuse(self->a, w, "operation failed due to a previous error");
	ASSERT_EQ(2, s.reports);
	ASSERT_STREQ("NOT_INITIALIZED", (char *)s.r[1].text);
}

/* C19: an interrupted capture gives back what it held */
TEST_F(window, c19_abort_gives_back)
{
	struct capkm_domain_query before = t_domain_query(self->a), after;
	u_int64_t w;

	for (int begun = 0; begun < 2; begun++) {
		w = t_prepare(self->a, OWNER);
		if (begun) {
			t_begin(self->a, OWNER);
			for (int i = 0; i < 3; i++)
				ASSERT_EQ(0, t_retain(self->a, w, 0x1000 * i, 100, 0));
			t_write(self->a, OWNER, C({ self->b, 0, 10 }));
		}
		t_abort(self->a, OWNER);
		/* What it recorded is tainted until it is written. */
		t_written(self->a, C({ self->b, 0, 100 }));
		after = t_domain_query(self->a);
		ASSERT_EQ(before.out_windows, after.out_windows);
		ASSERT_EQ(before.out_failures, after.out_failures);
		ASSERT_EQ(before.out_claims, after.out_claims);
		ASSERT_EQ(0, t_buffer_query(self->a, self->b).q.out_uses);
	}
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_recorded);
	ASSERT_EQ(0, t_window(self->a, w).q.out_retained);
}

/* C21: one cause and forty consequences; the null graph writes nothing */
TEST_F(window, c21_forty_consequences)
{
	u_int64_t w = t_record(self->a, OWNER), f;
	struct t_window q;

	f = t_fail(self->a, OTHER, C({ self->b, 0, 100 }), "stale");
	t_window_fail(self->a, w, OWNER, 900, "site A", NULL);
	for (int i = 0; i < 40; i++)
		t_window_fail(self->a, w, OWNER, 901, "site B", NULL);
	t_end(self->a, OWNER);
	t_seal_refused(self->a, w);
	q = t_window(self->a, w);
	ASSERT_EQ(41, q.q.out_failures);
	ASSERT_EQ(900, q.r[0].code);
	ASSERT_STREQ("site A", (char *)q.r[0].label);
	T_REFUSED(self->a, -ENOENT, t_try_replay(self->a, 0, OWNER).rc);
	t_is_failed(self->a, self->b, 0, 100, f);
}

TEST_HARNESS_MAIN
