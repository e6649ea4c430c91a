// SPDX-License-Identifier: GPL-2.0-only
/*
 * Work that is enqueued and not known to be finished: who sees that, what confirms
 * it, and what becomes of it when its client ends or its device faults.
 */
#include "capkm_test.h"

#define GPU	T_GPU(1)
#define GPU2	T_GPU(2)
#define STREAM	(GPU | 1)
#define OTHER	(GPU | 2)

FIXTURE(confirm)
{
	struct cl *a, *b;
	u_int64_t x;		/* a's and shared, b holds it */
	u_int64_t p;		/* a's own, on the device */
};

FIXTURE_SETUP(confirm)
{
	self->a = t_process();
	self->b = t_client();
	t_domain(self->b);
	t_attach(self->a, self->b->domain);
	self->x = t_buffer_on(self->a, GPU, 100, CAPKM_BUFFER_CREATE_F_EXPORT);
	self->p = t_buffer_on(self->a, GPU, 100, 0);
	t_open(self->b, self->x);
}

FIXTURE_TEARDOWN(confirm)
{
	if (self->a)
		t_close(self->a);
	if (self->b)
		t_close(self->b);
	t_no_leaks();
}

/* A range of BUFFER_QUERY that @cl has not confirmed. */
#define UNCONFIRMED(start, end, cl) { start, end, (cl)->session, CAPKM_RANGE_UNCONFIRMED }
#define FAILED(start, end, f) { start, end, f, CAPKM_RANGE_FAILED }

static bool is_dirty(struct cl *cl, u_int64_t buffer)
{
	return t_buffer_query(cl, buffer).q.out_state & CAPKM_BUFFER_DIRTY;
}

/* ------------------------------------------------------------ confirmation */

TEST_F(confirm, pending)
{
	struct capkm_report r;
	struct t_check c;
	u_int64_t n;

	ASSERT_EQ(0, t_slot(self->a, STREAM).out_confirmed);
	n = t_write_enqueued(self->a, STREAM, C({ self->x, 10, 20 }));
	ASSERT_EQ(n, t_slot(self->a, STREAM).out_sequence);
	t_ranges_are(self->b, self->x, UNCONFIRMED(10, 20, self->a));
	ASSERT_TRUE(is_dirty(self->b, self->x));
	ASSERT_EQ(1, t_slot(self->a, STREAM).out_unconfirmed);
	ASSERT_EQ(1, t_domain_query(self->b).out_unconfirmed);
	ASSERT_EQ(1, t_domain_query(self->b).out_claims);
	/* It is no failure. */
	ASSERT_EQ(0, t_failures(self->b));
	ASSERT_EQ(0, t_buffer_query(self->b, self->x).q.out_failures);
	/* It changes nothing for readers, but for those who ask. */
	t_is_clean(self->b, self->x, 0, 100);
	c = t_check(self->b, C({ self->x, 0, 100 }, { self->x, 0, 10 },
			       { self->x, 19, 20 }));
	ASSERT_EQ(2, c.unconfirmed);
	r = t_is_pending(self->b, self->x, 0, 100);
	ASSERT_EQ(10, r.start);
	ASSERT_EQ(20, r.end);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_EQ(t_pid(self->a), r.pid);
	t_is_confirmed(self->b, self->x, 0, 10);
	t_is_confirmed(self->b, self->x, 20, 100);
	t_is_confirmed(self->b, self->x, 15, 15);
	t_exit(self->b, t_enter(self->b, 1, C({ self->x, 0, 100 }), NO_CLAIMS));

	ASSERT_EQ(0, t_confirm_to(self->a, STREAM, n));
	ASSERT_EQ(n, t_slot(self->a, STREAM).out_confirmed);
	ASSERT_EQ(0, t_slot(self->a, STREAM).out_unconfirmed);
	ASSERT_EQ(0, t_domain_query(self->b).out_unconfirmed);
	ASSERT_FALSE(is_dirty(self->b, self->x));
	t_is_confirmed(self->b, self->x, 0, 100);
	t_no_ranges(self->b, self->x);
}

/* Of several claims each that is not confirmed has a report; taint comes first. */
TEST_F(confirm, pending_in_order)
{
	u_int64_t f;
	struct t_check c;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }, { self->x, 20, 30 }));
	c = t_check_flags(self->b, CAPKM_CHECK_F_CONFIRMED, 0,
			  C({ self->x, 10, 20 }, { self->x, 25, 40 }, { self->x, 5, 6 }));
	ASSERT_EQ(CAPKM_PENDING, c.result);
	ASSERT_EQ(2, c.reports);
	ASSERT_EQ(2, c.unconfirmed);
	ASSERT_EQ(25, c.r[0].start);
	ASSERT_EQ(5, c.r[1].start);
	/* It is asked before what has changed. */
	c = t_check_flags(self->b, CAPKM_CHECK_F_CONFIRMED | CAPKM_CHECK_F_UNCHANGED, 0,
			  C({ self->x, 0, 1 }));
	ASSERT_EQ(CAPKM_PENDING, c.result);
	c = t_check_flags(self->b, CAPKM_CHECK_F_CONFIRMED | CAPKM_CHECK_F_UNCHANGED, 0,
			  C({ self->x, 10, 20 }));
	ASSERT_EQ(CAPKM_CHANGED, c.result);
	f = t_taint(self->b, "bad", C({ self->x, 50, 60 }));
	c = t_check_flags(self->b, CAPKM_CHECK_F_CONFIRMED, 0,
			  C({ self->x, 0, 10 }, { self->x, 50, 51 }));
	ASSERT_EQ(CAPKM_TAINTED, c.result);
	ASSERT_EQ(1, c.reports);
	ASSERT_EQ(f, c.r[0].failure);
}

/* Finished work, WRITTEN, failed and recorded work have nothing to confirm. */
TEST_F(confirm, nothing_to_confirm)
{
	u_int64_t w;

	t_write(self->a, STREAM, C({ self->x, 0, 10 }));
	t_written(self->a, C({ self->x, 10, 20 }));
	t_fail(self->a, STREAM, C({ self->x, 20, 30 }), "failed");
	t_written(self->a, C({ self->x, 20, 30 }));
	t_no_ranges(self->b, self->x);
	t_write(self->a, STREAM, C({ self->p, 0, 10 }));
	t_written(self->a, C({ self->p, 10, 20 }));
	ASSERT_FALSE(is_dirty(self->a, self->p));
	w = t_record(self->a, STREAM);
	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }, { self->p, 0, 10 }));
	t_ranges_are(self->b, self->x, { 0, 10, w, CAPKM_RANGE_RECORDED });
	ASSERT_FALSE(is_dirty(self->a, self->p));
	ASSERT_EQ(0, t_domain_query(self->b).out_unconfirmed);
}

/* A replay writes all that its graph writes. */
TEST_F(confirm, replay)
{
	u_int64_t g = t_graph(self->a, STREAM, NO_CLAIMS,
			      C({ self->x, 0, 10 }, { self->p, 0, 10 }));

	t_replay_enqueued(self->a, g, OTHER);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->a));
	ASSERT_TRUE(is_dirty(self->a, self->p));
	t_is_pending(self->b, self->x, 0, 100);
	t_confirm(self->a, STREAM);
	ASSERT_TRUE(is_dirty(self->a, self->p));
	t_confirm(self->a, OTHER);
	t_no_ranges(self->b, self->x);
	ASSERT_FALSE(is_dirty(self->a, self->p));
	t_replay(self->a, g, OTHER);
	t_no_ranges(self->b, self->x);
	ASSERT_FALSE(is_dirty(self->a, self->p));
}

/* ------------------------------------------- what a replay may have written */

/* A graph that was seen to be given the claims, and writes nothing. */
static u_int64_t seeing(struct cl *cl, unsigned int flags, const struct capkm_claim *seen,
			size_t n)
{
	u_int64_t w = t_record_(cl, STREAM);

	if (t_try_record(cl, w, CAPKM_WINDOW_RECORD_F_SEEN, NULL, 0, seen, n))
		t_die("WINDOW_RECORD");
	t_end_(cl, STREAM);
	return t_seal_(cl, w, flags);
}
#define seeing(...) (T_AT, seeing(__VA_ARGS__))

/* It is unconfirmed, and what others have there stays. */
TEST_F(confirm, seen)
{
	u_int64_t g = seeing(self->a, 0, C({ self->x, 10, 20 }, { self->p, 0, 10 })), n;

	t_write_enqueued(self->b, STREAM, C({ self->x, 0, 40 }));
	n = t_domain_query(self->b).out_sequence;
	t_replay_enqueued(self->a, g, OTHER);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 40, self->b),
		     UNCONFIRMED(10, 20, self->a));
	ASSERT_EQ(1, t_slot(self->a, OTHER).out_unconfirmed);
	t_is_clean(self->b, self->x, 0, 100);
	ASSERT_TRUE(is_dirty(self->a, self->p));
	t_is_pending(self->a, self->p, 50, 60);
	/* Nobody knows whether it was written. */
	ASSERT_EQ(CAPKM_STALE, t_check_flags(self->b, CAPKM_CHECK_F_WRITTEN, n,
					     C({ self->x, 10, 20 })).result);
	t_confirm(self->b, STREAM);
	t_ranges_are(self->b, self->x, UNCONFIRMED(10, 20, self->a));
	t_is_confirmed(self->b, self->x, 0, 10);
	ASSERT_EQ(self->a->session, t_is_pending(self->b, self->x, 0, 100).session);
	t_confirm(self->a, STREAM);
	t_is_pending(self->b, self->x, 0, 100);
	ASSERT_TRUE(is_dirty(self->a, self->p));
	t_confirm(self->a, OTHER);
	t_no_ranges(self->b, self->x);
	ASSERT_FALSE(is_dirty(self->a, self->p));
	/* Finished: nothing is left. */
	t_replay(self->a, g, OTHER);
	t_no_ranges(self->b, self->x);
	ASSERT_FALSE(is_dirty(self->a, self->p));
}

/* What the slot itself had not confirmed there is said anew, and so they do not pile up. */
TEST_F_TIMEOUT(confirm, seen_again, 120)
{
	u_int64_t g = seeing(self->a, CAPKM_WINDOW_SEAL_F_NO_INPUTS,
			     C({ self->x, 10, 20 }, { self->x, 15, 30 }));
	u_int64_t n = t_write_enqueued(self->a, OTHER, C({ self->x, 0, 100 })), s;

	t_write_enqueued(self->a, STREAM, C({ self->x, 90, 100 }));
	for (int i = 0; i < 1000; i++) {
		t_replay_enqueued(self->a, g, OTHER);
		/* Who writes in the middle of it leaves two parts. */
		t_write(self->b, 1, C({ self->x, 12, 13 }));
	}
	t_replay_enqueued(self->a, g, OTHER);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->a),
		     UNCONFIRMED(10, 20, self->a), UNCONFIRMED(15, 30, self->a),
		     UNCONFIRMED(30, 90, self->a), UNCONFIRMED(90, 100, self->a));
	ASSERT_EQ(5, t_domain_query(self->b).out_unconfirmed);
	ASSERT_EQ(5, t_domain_query(self->b).out_claims);
	t_confirm_to(self->a, OTHER, n);
	t_is_confirmed(self->b, self->x, 0, 10);
	t_is_confirmed(self->b, self->x, 30, 90);
	t_is_pending(self->b, self->x, 10, 11);
	t_is_pending(self->b, self->x, 29, 30);
	/* A later one takes its bytes out, also if it was open before the last replay. */
	s = t_enter(self->b, 1, NO_CLAIMS, C({ self->x, 10, 15 }));
	t_exit(self->b, s);
	s = t_enter(self->b, 1, NO_CLAIMS, C({ self->x, 15, 20 }));
	t_replay_enqueued(self->a, g, OTHER);
	t_exit(self->b, s);
	t_is_pending(self->b, self->x, 15, 20);
	t_confirm(self->a, OTHER);
	t_ranges_are(self->b, self->x, UNCONFIRMED(90, 100, self->a));
}

/* Written and seen: it counts as written. */
TEST_F(confirm, written_and_seen)
{
	u_int64_t w = t_record(self->a, STREAM), g;

	t_exit(self->a, t_enter(self->a, STREAM, NO_CLAIMS, C({ self->x, 0, 20 })));
	ASSERT_EQ(0, t_try_record(self->a, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->x, 10, 30 })));
	t_end(self->a, STREAM);
	g = t_seal(self->a, w);
	t_write_enqueued(self->b, STREAM, C({ self->x, 0, 100 }));
	t_replay_enqueued(self->a, g, OTHER);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 20, self->a),
		     UNCONFIRMED(10, 30, self->a), UNCONFIRMED(20, 100, self->b));
}

/* While a replay is open it may be writing that: not in progress, and not confirmed. */
TEST_F(confirm, seen_while_open)
{
	u_int64_t g = seeing(self->a, 0, C({ self->x, 10, 20 }, { self->p, 0, 10 }));
	u_int64_t h = seeing(self->a, 0, C({ self->x, 15, 30 }));
	struct capkm_report r;

	t_write_enqueued(self->b, STREAM, C({ self->x, 18, 19 }));
	t_replay_begin(self->a, g, OTHER);
	t_is_clean(self->b, self->x, 0, 100);
	r = t_is_pending(self->b, self->x, 0, 100);
	ASSERT_EQ(10, r.start);
	ASSERT_EQ(20, r.end);
	ASSERT_EQ(g, r.graph);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_EQ(t_pid(self->a), r.pid);
	ASSERT_EQ(self->b->session, t_is_pending(self->b, self->x, 18, 30).session);
	ASSERT_EQ(1, t_check(self->b, C({ self->x, 0, 11 })).unconfirmed);
	t_is_confirmed(self->b, self->x, 0, 10);
	t_is_confirmed(self->b, self->x, 20, 100);
	r = t_is_pending(self->a, self->p, 5, 100);
	ASSERT_EQ(5, r.start);
	ASSERT_EQ(10, r.end);
	t_is_confirmed(self->a, self->p, 10, 100);
	ASSERT_TRUE(is_dirty(self->a, self->p));
	/* It cannot be confirmed, for it is not over. */
	t_confirm(self->a, OTHER);
	t_confirm(self->b, STREAM);
	t_is_pending(self->b, self->x, 0, 100);
	/* Others may read it, and replay what was given it. */
	t_exit(self->b, t_enter(self->b, 1, C({ self->x, 0, 100 }), NO_CLAIMS));
	t_replay_begin(self->a, h, STREAM);
	ASSERT_EQ(10, t_is_pending(self->b, self->x, 0, 100).start);
	ASSERT_EQ(0, t_replay_end(self->a, g, NULL));
	r = t_is_pending(self->b, self->x, 0, 100);
	ASSERT_EQ(15, r.start);
	ASSERT_EQ(h, r.graph);
	t_is_confirmed(self->a, self->p, 0, 100);
	ASSERT_FALSE(is_dirty(self->a, self->p));
	ASSERT_EQ(0, t_replay_end(self->a, h, NULL));
	t_is_confirmed(self->b, self->x, 0, 100);
}

/* The context is lost before it is confirmed, or the process. */
TEST_F(confirm, seen_and_fault)
{
	u_int64_t g = seeing(self->a, CAPKM_WINDOW_SEAL_F_NO_INPUTS,
			     C({ self->x, 10, 30 })), before, f;
	u_int64_t q = t_buffer_on(self->a, GPU2, 10, 0);
	u_int64_t h = seeing(self->a, 0, C({ q, 0, 1 }));

	before = t_taint(self->b, "before", C({ self->x, 0, 20 }));
	t_replay_enqueued(self->a, g, OTHER);
	t_replay_enqueued(self->a, h, OTHER);
	/* It releases nothing. */
	t_is_failed(self->b, self->x, 10, 20, before);
	t_is_clean(self->b, self->x, 20, 30);
	f = t_fault(self->a, STREAM, "Xid 79");
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, t_is_failed(self->b, self->x, 20, 30, f).kind);
	t_ranges_are(self->b, self->x, FAILED(0, 20, before), FAILED(10, 30, f));
	t_is_clean(self->b, self->x, 30, 100);
	/* Through that slot, wherever it is, and as a whole */
	t_is_failed(self->a, q, 0, 10, f);
	ASSERT_EQ(0, t_domain_query(self->b).out_unconfirmed);
}

TEST_F(confirm, seen_and_death)
{
	struct cl *keeper = t_second(self->a);
	u_int64_t g = seeing(self->a, 0, C({ self->x, 10, 20 }, { self->p, 0, 1 }));
	u_int64_t h = seeing(self->a, 0, C({ self->x, 40, 50 }));
	u_int64_t session = self->a->session;
	struct capkm_report r;

	t_replay(self->a, h, STREAM);
	t_replay_enqueued(self->a, g, OTHER);
	/* What the graph did is remembered when it is gone. */
	ASSERT_EQ(0, t_destroy(self->a, g));
	ASSERT_TRUE(is_dirty(self->a, self->p));
	t_kill(self->a);
	self->a = keeper;
	r = t_is_tainted(self->b, self->x, 0, 100, CAPKM_KIND_UNCONFIRMED);
	ASSERT_EQ(10, r.start);
	ASSERT_EQ(20, r.end);
	ASSERT_EQ(session, r.session);
	t_is_clean(self->b, self->x, 20, 100);
	t_is_failed(keeper, self->p, 0, 100, r.failure);
}

/* A buffer that becomes shared, before it is replayed or under the replay. */
TEST_F(confirm, seen_and_exported)
{
	u_int64_t q = t_buffer_on(self->a, GPU, 100, 0);
	u_int64_t g = seeing(self->a, 0, C({ self->p, 10, 20 })), n;
	u_int64_t h = seeing(self->a, 0, C({ q, 10, 20 }, { q, 30, 40 }));

	t_replay_enqueued(self->a, g, OTHER);
	n = t_slot(self->a, OTHER).out_sequence;
	ASSERT_EQ(0, t_export(self->a, self->p));
	t_ranges_are(self->a, self->p, UNCONFIRMED(0, 100, self->a));
	t_confirm_to(self->a, OTHER, n);
	t_no_ranges(self->a, self->p);
	t_replay_begin(self->a, h, OTHER);
	ASSERT_EQ(0, t_export(self->a, q));
	t_is_pending(self->a, q, 0, 20);
	ASSERT_EQ(0, t_replay_end_enqueued(self->a, h));
	t_ranges_are(self->a, q, UNCONFIRMED(10, 20, self->a),
		     UNCONFIRMED(30, 40, self->a));
	t_confirm(self->a, OTHER);
	t_no_ranges(self->a, q);
}

/* Past the limit of a slot it widens as what was written does. */
TEST(seen_widens)
{
	struct cl *a = t_client();
	u_int64_t x, g;

	t_domain_limit(a, CAPKM_LIMIT_UNCONFIRMED, 4);
	x = t_shared(a, 1000);
	g = seeing(a, 0, C({ x, 0, 1 }, { x, 2, 3 }, { x, 4, 5 }, { x, 6, 7 }, { x, 8, 9 }));
	for (int i = 0; i < 3; i++) {
		t_replay_enqueued(a, g, STREAM);
		ASSERT_EQ(1, t_slot(a, STREAM).out_unconfirmed);
		t_ranges_are(a, x, UNCONFIRMED(0, 1000, a));
	}
	t_confirm(a, STREAM);
	t_no_ranges(a, x);
	t_close(a);
	t_no_leaks();
}

/* Its begin asks for the ranges that its end may add. */
TEST(seen_ranges)
{
	struct cl *a = t_client();
	u_int64_t x, g, h;

	t_domain_limit(a, CAPKM_LIMIT_RANGES, 5);
	x = t_shared(a, 100);
	g = seeing(a, 0, C({ x, 0, 1 }, { x, 2, 3 }, { x, 4, 5 }));
	h = seeing(a, 0, C({ x, 10, 11 }, { x, 12, 13 }, { x, 14, 15 }));
	t_replay_begin(a, g, STREAM);
	T_REFUSED(a, -ENOSPC, t_try_replay(a, h, OTHER).rc);
	ASSERT_EQ(0, t_replay_end(a, g, NULL));
	t_replay_begin(a, h, OTHER);
	ASSERT_EQ(0, t_replay_end_enqueued(a, h));
	T_REFUSED(a, -ENOSPC, t_try_replay(a, g, STREAM).rc);
	t_confirm(a, OTHER);
	t_replay(a, g, STREAM);
	t_close(a);
	t_no_leaks();
}

#define SPANS	100u

/* Memory is bought at the begin, whatever is to be split; the end takes none. */
TEST(seen_without_memory)
{
	struct capkm_claim c[SPANS];
	bool over = false;

	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1; !over; n++) {
		struct cl *a = t_client();
		u_int64_t x, p, g;
		char *before;
		int rc;

		t_domain(a);
		x = t_shared(a, 4 * SPANS);
		p = t_buffer(a, 4 * SPANS);
		for (unsigned int i = 0; i < SPANS; i++)
			c[i] = (struct capkm_claim){ i % 2 ? x : p, 4 * i + 1, 4 * i + 3 };
		g = seeing(a, 0, c, SPANS);
		t_write_enqueued(a, STREAM, C({ x, 0, 4 * SPANS }, { p, 0, 10 }));
		before = t_dump(a);
		capkm_test_fail_alloc(n);
		rc = t_try_replay(a, g, STREAM).rc;
		capkm_test_fail_alloc(0);
		over = !rc;
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			t_unchanged(a, before);
			t_replay_begin(a, g, STREAM);
		} else {
			ASSERT_GT(n, 1);
			free(before);
		}
		ASSERT_EQ(0, t_export(a, p));
		capkm_test_fail_alloc(1);
		ASSERT_EQ(0, t_replay_end_enqueued(a, g));
		capkm_test_fail_alloc(0);
		/* Half of the spans, what is around them, and the other buffer. */
		ASSERT_EQ(SPANS / 2 + SPANS / 2 + 1 + SPANS / 2 + 1,
			  t_slot(a, STREAM).out_unconfirmed);
		t_close(a);
	}
	t_no_leaks();
}

/* Up to the sequence that was sampled, and on that slot */
TEST_F(confirm, up_to)
{
	u_int64_t n1, n2, n3;

	n1 = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	n2 = t_write_enqueued(self->a, STREAM, C({ self->x, 20, 30 }));
	n3 = t_write_enqueued(self->a, OTHER, C({ self->x, 40, 50 }));
	ASSERT_LT(n1, n2);
	ASSERT_LT(n2, n3);
	ASSERT_EQ(2, t_confirm_to(self->a, STREAM, n1 - 1));
	ASSERT_EQ(1, t_confirm_to(self->a, STREAM, n1));
	t_ranges_are(self->b, self->x, UNCONFIRMED(20, 30, self->a),
		     UNCONFIRMED(40, 50, self->a));
	ASSERT_EQ(n1, t_slot(self->a, STREAM).out_confirmed);
	/* An older one changes nothing. */
	ASSERT_EQ(1, t_confirm_to(self->a, STREAM, n1 - 1));
	ASSERT_EQ(n1, t_slot(self->a, STREAM).out_confirmed);
	T_REFUSED(self->a, -EINVAL, t_try_confirm(self->a, STREAM, n2 + 1, 0));
	T_REFUSED(self->a, -EINVAL, t_try_confirm(self->a, STREAM, UINT64_MAX, 0));
	/* Stream 33 is on the same slot; it does not matter who asks. */
	ASSERT_EQ(0, t_confirm_to(self->a, STREAM + 32, n2));
	t_ranges_are(self->b, self->x, UNCONFIRMED(40, 50, self->a));
	ASSERT_EQ(0, t_confirm_to(self->a, OTHER, n3));
	t_no_ranges(self->b, self->x);
	/* A slot that was never used */
	ASSERT_EQ(0, t_confirm_to(self->a, GPU | 5, 0));
	T_REFUSED(self->a, -EINVAL, t_try_confirm(self->a, GPU | 5, n1, 0));
}

/* The slot's sequence does not go on with what others do. */
TEST_F(confirm, sequence_of_slot)
{
	u_int64_t n = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));

	t_write(self->b, 1, C({ self->x, 50, 60 }));
	t_write_enqueued(self->a, OTHER, C({ self->x, 20, 30 }));
	ASSERT_EQ(n, t_slot(self->a, STREAM).out_sequence);
	T_REFUSED(self->a, -EINVAL,
		  t_try_confirm(self->a, STREAM, t_domain_query(self->a).out_sequence, 0));
}

/* Somebody else has seen that it is finished: what he can read of it is confirmed. */
TEST_F(confirm, by_another)
{
	u_int64_t id = t_slot(self->a, STREAM).out_client, n1, n2, n3, left = 77;

	ASSERT_NE(0, id);
	ASSERT_NE(id, t_slot(self->b, STREAM).out_client);
	n1 = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	n2 = t_write_enqueued(self->a, STREAM, C({ self->x, 20, 30 }, { self->p, 0, 10 }));
	n3 = t_write_enqueued(self->a, OTHER, C({ self->x, 40, 50 }));
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, STREAM, n1 - 1, &left));
	ASSERT_EQ(2, left);
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, STREAM, n1, &left));
	ASSERT_EQ(1, left);
	t_ranges_are(self->b, self->x, UNCONFIRMED(20, 30, self->a),
		     UNCONFIRMED(40, 50, self->a));
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, STREAM, n2, &left));
	ASSERT_EQ(0, left);
	t_ranges_are(self->b, self->x, UNCONFIRMED(40, 50, self->a));
	t_is_confirmed(self->b, self->x, 0, 30);
	/* What is the writer's own stays for it to say. */
	ASSERT_TRUE(is_dirty(self->a, self->p));
	ASSERT_EQ(0, t_slot(self->a, STREAM).out_confirmed);
	t_confirm(self->a, STREAM);
	ASSERT_FALSE(is_dirty(self->a, self->p));
	/* It may ask itself by its id. */
	ASSERT_EQ(0, t_try_confirm_other(self->a, id, OTHER, n3, &left));
	ASSERT_EQ(n3, t_slot(self->a, OTHER).out_confirmed);
	t_no_ranges(self->b, self->x);
}

/* Its end does not take back what was seen to be finished before. */
TEST_F(confirm, by_another_then_death)
{
	u_int64_t id = t_slot(self->a, STREAM).out_client, n;

	n = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	t_write_enqueued(self->a, STREAM, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, STREAM, n, NULL));
	t_kill(self->a);
	self->a = NULL;
	t_is_clean(self->b, self->x, 0, 20);
	t_is_tainted(self->b, self->x, 20, 30, CAPKM_KIND_UNCONFIRMED);
	/* It is too late for the rest. */
	T_REFUSED(self->b, -ENOENT, t_try_confirm_other(self->b, id, STREAM, n, NULL));
}

TEST_F(confirm, by_another_refused)
{
	u_int64_t id = t_slot(self->a, STREAM).out_client, n;
	struct capkm_stream_confirm c = { .client = id };
	struct cl *far = t_client();

	n = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	T_REFUSED(self->b, -EINVAL, t_try_confirm_other(self->b, id, STREAM, n + 1, NULL));
	T_REFUSED(self->b, -EINVAL, t_try_confirm_other(self->b, id, OTHER, n, NULL));
	T_REFUSED(self->b, -EINVAL, t_try_confirm_other(self->b, id, GPU2 | 1, n, NULL));
	T_REFUSED(self->b, -EINVAL, t_try_confirm_other(self->b, id, GPU | 5000, n, NULL));
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, GPU | 5000, 0, NULL));
	T_REFUSED(self->b, -ENOENT, t_try_confirm_other(self->b, 1000, STREAM, n, NULL));
	/* Which slot of another's, a stream of one's own does not say; nor all of them. */
	c.place = t_place(STREAM);
	c.sequence = n;
	T_REFUSED(self->b, -EINVAL, t_call(self->b, CAPKM_NR_STREAM_CONFIRM, &c));
	c.flags = CAPKM_STREAM_CONFIRM_F_DEVICE;
	T_REFUSED(self->b, -EINVAL, t_call(self->b, CAPKM_NR_STREAM_CONFIRM, &c));
	c.flags = CAPKM_PLACE_F_SLOT;
	c.place.slot = 1;
	c.place.stream = t_stream(self->a);
	T_REFUSED(self->b, -EPERM, t_call(self->b, CAPKM_NR_STREAM_CONFIRM, &c));
	/* Ids are a domain's. */
	t_domain(far);
	T_REFUSED(far, -ENOENT, t_try_confirm_other(far, id + 1000, STREAM, 0, NULL));
	t_close(far);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->a));
}

/* Buffers that only the clients of one session have are not for others to confirm. */
TEST_F(confirm, by_another_not_exported)
{
	struct cl *second = t_join_session(self->a);
	u_int64_t id = t_slot(self->a, STREAM).out_client, n, left = 77;

	ASSERT_NE(id, t_slot(second, STREAM).out_client);
	t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	n = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	t_write_enqueued(second, STREAM, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_try_confirm_other(self->b, id, STREAM, n, &left));
	ASSERT_EQ(1, left);
	t_ranges_are(self->a, self->p, UNCONFIRMED(0, 10, self->a));
	/* Nor are the slots of the two the same. */
	t_ranges_are(self->b, self->x, UNCONFIRMED(20, 30, self->a));
	ASSERT_EQ(0, t_try_confirm_other(second, id, STREAM, n, &left));
	t_ranges_are(self->a, self->p, UNCONFIRMED(0, 10, self->a));
	t_confirm(self->a, STREAM);
	t_no_ranges(self->a, self->p);
	t_close(second);
}

TEST_F(confirm, bad_places)
{
	u_int64_t mine = t_stream(self->a), others = t_stream(self->b);
	struct capkm_stream_confirm c = {
		.flags = CAPKM_PLACE_F_SLOT, .place.slot = 1 << 20,
	};

	T_REFUSED(self->a, -ENOENT, t_try_confirm(self->a, mine + 1000, 0, 0));
	T_REFUSED(self->a, -EPERM, t_try_confirm(self->a, others, 0, 0));
	T_REFUSED(self->a, -EPERM, t_try_confirm(self->a, others, 0,
						 CAPKM_STREAM_CONFIRM_F_DEVICE));
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_STREAM_CONFIRM, &c));
	T_REFUSED(self->a, -ENOENT, t_try_fault(self->a, mine + 1000));
	T_REFUSED(self->a, -EPERM, t_try_fault(self->a, others));
}

/* The context was synchronised: all slots of the device, no other device's. */
TEST_F(confirm, device)
{
	u_int64_t n;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	t_write_enqueued(self->a, OTHER, C({ self->x, 20, 30 }));
	t_write_enqueued(self->a, GPU2 | 1, C({ self->x, 40, 50 }));
	n = t_domain_query(self->a).out_sequence;
	t_write_enqueued(self->a, OTHER, C({ self->x, 60, 70 }));
	t_write_enqueued(self->b, STREAM, C({ self->x, 80, 90 }));
	T_REFUSED(self->a, -EINVAL,
		  t_try_confirm(self->a, STREAM, n + 10 * CAPKM_SEQUENCE_STEP, CAPKM_STREAM_CONFIRM_F_DEVICE));
	ASSERT_EQ(0, t_try_confirm(self->a, STREAM, n, CAPKM_STREAM_CONFIRM_F_DEVICE));
	t_ranges_are(self->b, self->x, UNCONFIRMED(40, 50, self->a),
		     UNCONFIRMED(60, 70, self->a), UNCONFIRMED(80, 90, self->b));
	t_confirm_device(self->a, STREAM);
	t_ranges_are(self->b, self->x, UNCONFIRMED(40, 50, self->a),
		     UNCONFIRMED(80, 90, self->b));
	t_confirm_device(self->a, GPU2 | 7);
	t_confirm_device(self->b, STREAM);
	t_no_ranges(self->b, self->x);
	/* A device that the client has never used */
	t_confirm_device(self->a, T_GPU(7));
}

/* Whoever writes a byte later takes it out of everybody's unconfirmed set. */
TEST_F(confirm, later_writer)
{
	u_int64_t f;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 100 }));
	t_write(self->b, 1, C({ self->x, 10, 20 }));
	t_written(self->b, C({ self->x, 30, 40 }));
	f = t_fail(self->b, 1, C({ self->x, 50, 60 }), "failed");
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->a),
		     UNCONFIRMED(20, 30, self->a), UNCONFIRMED(40, 50, self->a),
		     FAILED(50, 60, f), UNCONFIRMED(60, 100, self->a));
	ASSERT_EQ(4, t_slot(self->a, STREAM).out_unconfirmed);
	t_is_confirmed(self->b, self->x, 10, 20);
	/* So does memory that serves something else. */
	ASSERT_EQ(0, t_reset(self->b, self->x, 60, 100));
	t_written(self->a, C({ self->x, 50, 60 }));
	t_write_enqueued(self->b, STREAM, C({ self->x, 0, 50 }));
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 50, self->b));
	ASSERT_EQ(0, t_slot(self->a, STREAM).out_unconfirmed);
	t_confirm(self->a, STREAM);
	t_is_pending(self->a, self->x, 0, 50);
	t_confirm(self->b, STREAM);
	t_no_ranges(self->b, self->x);
}

/* Scopes that overlap: both have written, and both must confirm. */
TEST_F(confirm, overlap)
{
	u_int64_t early = t_enter(self->b, STREAM, NO_CLAIMS, C({ self->x, 0, 10 }));

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, t_exit_enqueued(self->b, early));
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->a),
		     UNCONFIRMED(0, 10, self->b));
	t_confirm(self->b, STREAM);
	t_is_pending(self->b, self->x, 0, 10);
	t_confirm(self->a, STREAM);
	t_is_confirmed(self->b, self->x, 0, 10);
}

/* A recorded write has not happened: it takes out nothing. A refusal has. */
TEST_F(confirm, recorded_writer)
{
	u_int64_t w;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 100 }));
	w = t_record(self->b, 1);
	t_write(self->b, 1, C({ self->x, 0, 10 }));
	t_end(self->b, 1);
	t_is_pending(self->b, self->x, 0, 10);
	t_refuse(self->b, w, "refused");
	t_is_tainted(self->b, self->x, 0, 10, CAPKM_KIND_DRIVER);
	t_write_enqueued(self->b, 1, C({ self->x, 0, 10 }));
	t_is_pending(self->b, self->x, 10, 100);
	t_confirm(self->a, STREAM);
	t_ranges_are(self->b, self->x, UNCONFIRMED(0, 10, self->b));
}

/* -------------------------------------------------------- private buffers */

TEST_F(confirm, private_buffer)
{
	struct capkm_report r;

	ASSERT_FALSE(is_dirty(self->a, self->p));
	t_write_enqueued(self->a, STREAM, C({ self->p, 10, 20 }));
	t_no_ranges(self->a, self->p);
	ASSERT_TRUE(is_dirty(self->a, self->p));
	ASSERT_EQ(0, t_slot(self->a, STREAM).out_unconfirmed);
	/* Only known as a whole */
	r = t_is_pending(self->a, self->p, 50, 60);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_EQ(0, t_check(self->a, C({ self->p, 50, 60 })).unconfirmed);
	t_written(self->a, C({ self->p, 0, 100 }));
	t_is_pending(self->a, self->p, 50, 60);
	t_confirm(self->a, STREAM);
	t_is_confirmed(self->a, self->p, 0, 100);
	ASSERT_FALSE(is_dirty(self->a, self->p));
}

/* Until all slots that may have written it are confirmed */
TEST_F(confirm, private_buffer_of_slots)
{
	u_int64_t q = t_buffer_on(self->a, GPU, 10, 0), n;

	/* s of STREAM < d of p < s of OTHER <= d of q */
	n = t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	t_write_enqueued(self->a, OTHER, C({ q, 0, 10 }));
	t_confirm(self->a, OTHER);
	t_is_pending(self->a, self->p, 0, 100);
	t_is_pending(self->a, q, 0, 10);
	t_write_enqueued(self->a, OTHER, C({ q, 0, 10 }));
	t_confirm_to(self->a, STREAM, n);
	t_is_confirmed(self->a, self->p, 0, 100);
	t_is_pending(self->a, q, 0, 10);
	t_confirm(self->a, OTHER);
	t_is_confirmed(self->a, q, 0, 10);
}

/* A confirmation that leaves some work leaves what was written since. */
TEST_F(confirm, private_buffer_partly)
{
	u_int64_t q = t_buffer_on(self->a, GPU, 10, 0), n;

	n = t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	t_write_enqueued(self->a, STREAM, C({ q, 0, 10 }));
	t_confirm_to(self->a, STREAM, n);
	t_is_confirmed(self->a, self->p, 0, 100);
	t_is_pending(self->a, q, 0, 10);
	/* What exits after the sample stays, also of the same buffer. */
	t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	t_confirm_to(self->a, STREAM, n);
	t_is_pending(self->a, self->p, 0, 100);
	t_confirm(self->a, STREAM);
	t_is_confirmed(self->a, self->p, 0, 100);
}

/* Exporting it makes the past shared as well. */
TEST_F(confirm, exported)
{
	t_write_enqueued(self->a, STREAM, C({ self->p, 10, 20 }));
	t_write_enqueued(self->a, GPU2 | 3, C({ self->p, 10, 20 }));
	ASSERT_EQ(0, t_export(self->a, self->p));
	t_open(self->b, self->p);
	t_ranges_are(self->b, self->p, UNCONFIRMED(0, 100, self->a),
		     UNCONFIRMED(0, 100, self->a));
	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED | CAPKM_BUFFER_DIRTY,
		  t_buffer_query(self->b, self->p).q.out_state);
	t_is_pending(self->b, self->p, 99, 100);
	/* From now on by range */
	t_write(self->b, 1, C({ self->p, 0, 50 }));
	t_is_confirmed(self->b, self->p, 0, 50);
	t_confirm(self->a, STREAM);
	t_is_pending(self->b, self->p, 50, 51);
	t_confirm(self->a, GPU2 | 3);
	t_no_ranges(self->b, self->p);
	/* What was confirmed before is clean from the start. */
	self->p = t_buffer(self->a, 10);
	t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	t_confirm(self->a, STREAM);
	ASSERT_EQ(0, t_export(self->a, self->p));
	t_no_ranges(self->a, self->p);
}

/* What is known to be finished is the slot's work up to its last exit before. */
TEST_F(confirm, exported_after_sample)
{
	u_int64_t n = t_write_enqueued(self->a, STREAM, C({ self->p, 10, 20 })), m, l;

	m = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, t_export(self->a, self->p));
	l = t_write_enqueued(self->a, STREAM, C({ self->x, 20, 30 }));
	ASSERT_EQ(3, t_confirm_to(self->a, STREAM, n));
	t_is_pending(self->a, self->p, 0, 100);
	ASSERT_EQ(1, t_confirm_to(self->a, STREAM, m));
	t_is_confirmed(self->a, self->p, 0, 100);
	ASSERT_EQ(0, t_confirm_to(self->a, STREAM, l));
}

/* A scope that is open then does not take its bytes out of the past. */
TEST_F(confirm, exported_under_scope)
{
	u_int64_t s;

	t_write_enqueued(self->a, STREAM, C({ self->p, 0, 100 }));
	s = t_enter(self->a, OTHER, NO_CLAIMS, C({ self->p, 0, 50 }));
	ASSERT_EQ(0, t_export(self->a, self->p));
	ASSERT_EQ(0, t_exit(self->a, s));
	t_is_pending(self->a, self->p, 0, 10);
	t_write(self->a, OTHER, C({ self->p, 0, 50 }));
	t_is_confirmed(self->a, self->p, 0, 50);
	t_is_pending(self->a, self->p, 50, 100);
}

/* ------------------------------------------------------------------- limit */

/* Past the limit ranges widen to the whole buffer, and nothing is forgotten. */
TEST(widens)
{
	struct cl *a = t_client(), *b = t_client();
	u_int64_t x, y, n = 0;

	t_domain_limit(a, CAPKM_LIMIT_UNCONFIRMED, 4);
	t_attach(b, a->domain);
	x = t_shared(a, 1000);
	y = t_shared(a, 1000);
	t_open(b, x);
	t_write_enqueued(a, STREAM, C({ y, 0, 10 }, { y, 20, 30 }));
	for (int i = 0; i < 2; i++)
		n = t_write_enqueued(a, STREAM, C({ x, 100 * i, 100 * i + 10 }));
	ASSERT_EQ(4, t_slot(a, STREAM).out_unconfirmed);
	t_write_enqueued(a, OTHER, C({ x, 900, 910 }));
	t_write_enqueued(a, STREAM, C({ x, 500, 510 }));
	ASSERT_LE(t_slot(a, STREAM).out_unconfirmed, 4);
	/* All that was unconfirmed still is, under the date of the last exit. */
	t_is_pending(b, x, 0, 1);
	t_is_pending(b, x, 100, 101);
	t_is_pending(b, x, 700, 800);
	t_is_pending(a, y, 0, 1);
	t_is_pending(a, y, 20, 21);
	t_confirm_to(a, STREAM, n);
	t_is_confirmed(a, y, 0, 1000);
	t_is_pending(b, x, 0, 1);
	t_confirm(a, STREAM);
	t_is_confirmed(b, x, 0, 900);
	t_is_pending(b, x, 900, 910);
	t_confirm(a, OTHER);
	t_no_ranges(b, x);
	/* A scope of more ranges than that, too. */
	t_write_enqueued(a, STREAM, C({ x, 0, 1 }, { x, 2, 3 }, { x, 4, 5 }, { x, 6, 7 },
				      { x, 8, 9 }, { x, 10, 11 }, { y, 0, 1 }));
	ASSERT_LE(t_slot(a, STREAM).out_unconfirmed, 4);
	for (int i = 0; i < 11; i += 2)
		t_is_pending(b, x, i, i + 1);
	t_is_pending(a, y, 0, 1);
	t_kill(b);
	t_fault(a, STREAM, "lost");
	for (int i = 0; i < 11; i += 2)
		t_is_tainted(a, x, i, i + 1, CAPKM_KIND_DEVICE_FAULT);
	t_is_tainted(a, y, 0, 1, CAPKM_KIND_DEVICE_FAULT);
	t_close(a);
	t_no_leaks();
}

/* ------------------------------------------------------------------- death */

/* Rule 8: what its client had not confirmed cannot be trusted. */
TEST_F(confirm, death)
{
	struct capkm_report r, r2;
	u_int64_t session = self->a->session;
	int pid = t_pid(self->a);

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	t_write_enqueued(self->a, OTHER, C({ self->x, 20, 30 }));
	t_write_enqueued(self->a, GPU2 | 1, C({ self->x, 40, 50 }));
	t_write(self->a, STREAM, C({ self->x, 60, 70 }));
	t_write_enqueued(self->a, STREAM, C({ self->x, 80, 90 }));
	t_write(self->b, 1, C({ self->x, 80, 85 }));
	t_kill(self->a);
	self->a = NULL;
	r = t_is_tainted(self->b, self->x, 0, 10, CAPKM_KIND_UNCONFIRMED);
	ASSERT_EQ(session, r.session);
	ASSERT_EQ(pid, r.pid);
	/* One failure for each device */
	t_is_failed(self->b, self->x, 20, 30, r.failure);
	t_is_failed(self->b, self->x, 85, 90, r.failure);
	r2 = t_is_tainted(self->b, self->x, 40, 50, CAPKM_KIND_UNCONFIRMED);
	ASSERT_NE(r.failure, r2.failure);
	t_is_clean(self->b, self->x, 60, 85);
	ASSERT_EQ(2, t_failures(self->b));
	ASSERT_EQ(0, t_domain_query(self->b).out_unconfirmed);
	ASSERT_TRUE(t_buffer_query(self->b, self->x).q.out_state & CAPKM_BUFFER_ABANDONED);
	t_write(self->b, 1, C({ self->x, 0, 100 }));
	t_is_clean(self->b, self->x, 0, 100);
	ASSERT_EQ(0, t_failures(self->b));
}

/* The failure has the date of the work: who entered after that has replaced it. */
TEST_F(confirm, death_and_later_scope)
{
	u_int64_t early = t_enter(self->b, 1, NO_CLAIMS, C({ self->x, 0, 10 })), late;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 20 }));
	late = t_enter(self->b, 2, NO_CLAIMS, C({ self->x, 10, 20 }));
	t_close(self->a);
	self->a = NULL;
	ASSERT_EQ(0, t_exit(self->b, late));
	t_is_clean(self->b, self->x, 10, 20);
	t_exit(self->b, early);
	t_is_tainted(self->b, self->x, 0, 10, CAPKM_KIND_UNCONFIRMED);
}

/* A session that lives on keeps its private buffers, and they are tainted whole. */
TEST_F(confirm, death_and_session_lives)
{
	struct cl *keeper = t_second(self->a);
	u_int64_t q = t_buffer(self->a, 10), r = t_buffer_on(self->a, GPU, 10, 0);

	t_write(self->a, STREAM, C({ q, 0, 10 }, { r, 0, 10 }));
	t_write_enqueued(self->a, STREAM, C({ self->p, 10, 20 }));
	t_kill(self->a);
	t_is_tainted(keeper, self->p, 0, 1, CAPKM_KIND_UNCONFIRMED);
	t_is_tainted(keeper, self->p, 99, 100, CAPKM_KIND_UNCONFIRMED);
	/* Finished work is finished, and its device has not faulted. */
	t_is_clean(keeper, q, 0, 10);
	t_is_clean(keeper, r, 0, 10);
	self->a = keeper;
}

/* ------------------------------------------------------------------ faults */

/* Rule 10: the ranges that are not confirmed and the private buffers there */
TEST_F(confirm, fault)
{
	u_int64_t other = t_buffer_on(self->a, GPU2, 10, 0), host = t_buffer(self->a, 10);
	u_int64_t through = t_buffer(self->a, 10), f;
	struct capkm_stream_query q;
	struct capkm_report r;

	t_write(self->a, GPU2 | 1, C({ other, 0, 10 }));
	t_write(self->a, 1, C({ host, 0, 10 }));
	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	t_confirm(self->a, STREAM);
	t_write_enqueued(self->a, STREAM, C({ self->x, 20, 30 }));
	t_write(self->a, STREAM, C({ self->x, 40, 50 }));
	t_write_enqueued(self->a, GPU2 | 1, C({ self->x, 60, 70 }));
	t_write_enqueued(self->b, STREAM, C({ self->x, 80, 90 }));
	t_write_enqueued(self->a, OTHER, C({ through, 0, 1 }));
	f = t_fault(self->a, STREAM, "Xid 79");

	r = t_is_tainted(self->b, self->x, 20, 30, CAPKM_KIND_DEVICE_FAULT);
	ASSERT_EQ(f, r.failure);
	ASSERT_EQ(700, r.code);
	ASSERT_STREQ("Xid 79", (char *)r.text);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_EQ(1, r.stream);
	ASSERT_EQ(t_pid(self->a), r.pid);
	t_is_failed(self->a, self->p, 0, 1, f);
	t_is_failed(self->a, self->p, 99, 100, f);
	t_is_failed(self->a, through, 0, 10, f);
	/* Confirmed, finished, of another device, of another client */
	t_is_clean(self->b, self->x, 0, 20);
	t_is_clean(self->b, self->x, 30, 100);
	t_is_clean(self->a, host, 0, 10);
	t_is_clean(self->a, other, 0, 10);
	t_ranges_are(self->b, self->x, FAILED(20, 30, f), UNCONFIRMED(60, 70, self->a),
		     UNCONFIRMED(80, 90, self->b));

	q = t_slot(self->a, OTHER);
	ASSERT_EQ(f, q.out_failure);
	ASSERT_EQ(1, q.out_epoch);
	ASSERT_EQ(0, t_slot(self->a, GPU2 | 1).out_failure);
	ASSERT_EQ(0, t_slot(self->a, GPU2 | 1).out_epoch);
	ASSERT_EQ(0, t_slot(self->b, STREAM).out_failure);
	ASSERT_EQ(1, t_domain_query(self->b).out_faulted);
}

/* A text is optional. */
TEST_F(confirm, fault_without_text)
{
	u_int64_t f = t_fault(self->a, STREAM, NULL);
	struct capkm_report r = t_is_failed(self->a, self->p, 0, 100, f);

	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, r.kind);
	ASSERT_NE(0, r.text[0]);
}

/* Another fault before the context is renewed changes nothing. */
TEST_F(confirm, fault_again)
{
	u_int64_t f = t_fault(self->a, STREAM, "first"), f2;
	struct capkm_stream_fault again = { .place = t_place(OTHER) };
	char *before = t_dump(self->a);

	T_OK(self->a, STREAM_FAULT, &again);
	ASSERT_EQ(f, again.out_failure);
	ASSERT_EQ(1, again.out_epoch);
	t_unchanged(self->a, before);
	ASSERT_EQ(1, t_renew(self->a, GPU));
	f2 = t_fault(self->a, OTHER, "second");
	ASSERT_NE(f, f2);
	ASSERT_EQ(2, t_slot(self->a, STREAM).out_epoch);
	ASSERT_EQ(f2, t_slot(self->a, STREAM).out_failure);
	/* The memory was lost again. */
	t_is_failed(self->a, self->p, 0, 100, f2);
}

/* Nothing enters on the device until the context is renewed. */
TEST_F(confirm, skipped_until_renewed)
{
	u_int64_t q = t_buffer(self->a, 100), g, f;
	struct t_enter e;
	struct t_replay r;

	g = t_graph(self->a, 3, NO_CLAIMS, C({ q, 50, 60 }));
	f = t_fault(self->a, STREAM, "lost");
	ASSERT_EQ(f, t_skip(self->a, OTHER, "label", NO_CLAIMS, C({ q, 0, 10 })));
	t_is_failed(self->a, q, 0, 10, f);
	/* It need not even write, and does not look at its inputs. */
	ASSERT_EQ(f, t_skip(self->a, OTHER, NULL, C({ self->x, 0, 100 }), NO_CLAIMS));
	e = t_try_enter(self->a, OTHER, CAPKM_SCOPE_ENTER_F_POISON, NULL, NO_CLAIMS,
			C({ q, 20, 30 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_SKIPPED, e.result);
	ASSERT_EQ(f, e.r.failure);
	t_is_failed(self->a, q, 20, 30, f);
	r = t_try_replay(self->a, g, OTHER);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(f, r.r.failure);
	t_is_failed(self->a, q, 50, 60, f);
	ASSERT_EQ(1, t_graph_query(self->a, g, 0).q.out_failed_replays);
	/* Other devices, other clients */
	t_write(self->a, 1, C({ q, 0, 10 }));
	t_write(self->a, GPU2 | 1, C({ q, 20, 30 }));
	t_replay(self->a, g, 4);
	t_is_clean(self->a, q, 0, 100);
	t_write(self->b, STREAM, C({ self->x, 0, 10 }));

	ASSERT_EQ(1, t_renew(self->a, GPU));
	ASSERT_EQ(0, t_slot(self->a, STREAM).out_failure);
	ASSERT_EQ(1, t_slot(self->a, STREAM).out_epoch);
	ASSERT_EQ(0, t_domain_query(self->a).out_faulted);
	/* What was tainted stays so until it is written. */
	t_is_failed(self->a, self->p, 0, 100, f);
	t_write(self->a, STREAM, C({ self->p, 0, 100 }));
	t_is_clean(self->a, self->p, 0, 100);
	t_replay(self->a, g, OTHER);
}

TEST_F(confirm, renew)
{
	/* Never used */
	T_REFUSED(self->a, -ENOENT, t_try_renew(self->a, T_GPU(9)));
	t_write(self->a, STREAM, C({ self->p, 0, 10 }));
	/* Nothing to renew */
	T_REFUSED(self->a, 0, t_try_renew(self->a, GPU));
	ASSERT_EQ(0, t_renew(self->a, GPU));
}

/* Work that is under way has failed, whatever it says. */
TEST_F(confirm, open_scopes)
{
	u_int64_t well = t_enter(self->a, STREAM, NO_CLAIMS, C({ self->x, 0, 10 }));
	u_int64_t bad = t_enter(self->a, OTHER, NO_CLAIMS, C({ self->x, 20, 30 }));
	u_int64_t other = t_enter(self->a, GPU2 | 1, NO_CLAIMS, C({ self->x, 40, 50 }));
	u_int64_t foreign = t_enter(self->b, STREAM, NO_CLAIMS, C({ self->x, 60, 70 }));
	u_int64_t f = t_fault(self->a, STREAM, "lost"), own;

	t_is_open(self->b, self->x, 0, 10, well);
	ASSERT_EQ(f, t_exit(self->a, well));
	t_is_failed(self->b, self->x, 0, 10, f);
	own = t_exit_failed(self->a, bad, "its own");
	ASSERT_NE(f, own);
	t_is_failed(self->b, self->x, 20, 30, own);
	ASSERT_EQ(0, t_exit(self->a, other));
	ASSERT_EQ(0, t_exit(self->b, foreign));
	t_is_clean(self->b, self->x, 40, 100);
}

/* Also after the context was renewed: the work was lost with the old one. */
TEST_F(confirm, old_epoch)
{
	u_int64_t g = t_graph(self->a, 3, NO_CLAIMS, C({ self->x, 50, 60 }));
	u_int64_t s = t_enter(self->a, STREAM, NO_CLAIMS, C({ self->x, 0, 10 })), f, f2, s2;

	t_replay_begin(self->a, g, OTHER);
	f = t_fault(self->a, STREAM, "lost");
	t_renew(self->a, GPU);
	s2 = t_enter(self->a, STREAM, NO_CLAIMS, C({ self->x, 20, 30 }));
	ASSERT_EQ(f, t_exit(self->a, s));
	t_is_failed(self->b, self->x, 0, 10, f);
	ASSERT_EQ(f, t_replay_end(self->a, g, NULL));
	t_is_failed(self->b, self->x, 50, 60, f);
	/* What entered afterwards belongs to the new context. */
	f2 = t_fault(self->a, STREAM, "lost again");
	ASSERT_EQ(f2, t_exit(self->a, s2));
	t_renew(self->a, GPU);
	t_write(self->a, STREAM, C({ self->x, 0, 100 }));
	t_is_clean(self->b, self->x, 0, 100);
}

/* Two faults since the enter: it failed with the last one. */
TEST_F(confirm, two_epochs)
{
	u_int64_t s = t_enter(self->a, STREAM, NO_CLAIMS, C({ self->x, 0, 10 })), f2;

	t_fault(self->a, STREAM, "one");
	t_renew(self->a, GPU);
	f2 = t_fault(self->a, STREAM, "two");
	t_renew(self->a, GPU);
	ASSERT_EQ(f2, t_exit(self->a, s));
	t_is_failed(self->b, self->x, 0, 10, f2);
}

/* The first of these counts: its own failure, the fault, the poison. */
TEST_F(confirm, first_reason_counts)
{
	u_int64_t bad = t_taint(self->a, "bad input", C({ self->x, 90, 100 })), f;
	struct t_enter e;

	e = t_try_enter(self->a, STREAM, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->x, 90, 100 }), C({ self->x, 0, 10 }));
	ASSERT_EQ(CAPKM_CLEAN, e.result);
	f = t_fault(self->a, STREAM, "lost");
	ASSERT_EQ(f, t_exit(self->a, e.scope));
	t_is_failed(self->b, self->x, 0, 10, f);
	t_renew(self->a, GPU);
	e = t_try_enter(self->a, STREAM, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->x, 90, 100 }), C({ self->x, 0, 10 }));
	ASSERT_EQ(bad, t_exit(self->a, e.scope));
}

/* A confirmation that was sampled before the fault comes too late. */
TEST_F(confirm, confirmed_after_fault)
{
	u_int64_t n = t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 })), f;

	t_write_enqueued(self->a, STREAM, C({ self->p, 0, 10 }));
	f = t_fault(self->a, STREAM, "lost");
	ASSERT_EQ(0, t_confirm_to(self->a, STREAM, n));
	t_confirm_device(self->a, STREAM);
	t_is_failed(self->b, self->x, 0, 10, f);
	t_is_failed(self->a, self->p, 0, 100, f);
	t_renew(self->a, GPU);
	t_confirm_device(self->a, STREAM);
	t_is_failed(self->b, self->x, 0, 10, f);
}

/* The failure has the date of the work, not that of the fault. */
TEST_F(confirm, date_of_fault)
{
	u_int64_t s, f;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 20 }));
	s = t_enter(self->b, 1, NO_CLAIMS, C({ self->x, 0, 10 }));
	f = t_fault(self->a, STREAM, "lost");
	ASSERT_EQ(0, t_exit(self->b, s));
	t_is_clean(self->b, self->x, 0, 10);
	t_is_failed(self->b, self->x, 10, 20, f);
	/* A private buffer is tainted at the fault, also what was tainted before. */
	t_renew(self->a, GPU);
	t_written(self->a, C({ self->p, 0, 100 }));
	t_fail(self->a, STREAM, C({ self->p, 0, 10 }), "earlier");
	f = t_fault(self->a, STREAM, "lost again");
	t_ranges_are(self->a, self->p, FAILED(0, 100, f));
}

/* Windows there are doomed, but for those that are only prepared. */
TEST_F(confirm, windows)
{
	u_int64_t prepared = t_prepare(self->a, GPU | 3), capture, closing, other, f;
	struct t_seal s;

	capture = t_record(self->a, GPU | 4);
	t_write(self->a, GPU | 4, C({ self->x, 0, 10 }));
	closing = t_record(self->a, GPU | 5);
	t_write(self->a, GPU | 5, C({ self->x, 20, 30 }));
	t_end(self->a, GPU | 5);
	other = t_record(self->a, GPU2 | 1);
	f = t_fault(self->a, STREAM, "lost");

	ASSERT_EQ(0, t_window(self->a, prepared).q.out_doomed);
	ASSERT_EQ(0, t_window(self->a, other).q.out_doomed);
	ASSERT_EQ(1, t_window(self->a, capture).q.out_doomed);
	ASSERT_EQ(f, t_window(self->a, capture).r[0].failure);
	ASSERT_EQ(1, t_window(self->a, closing).q.out_doomed);
	/* What was recorded has not run; it is tainted when the window is refused. */
	t_is_clean(self->b, self->x, 0, 100);
	s = t_seal_refused(self->a, closing);
	ASSERT_EQ(f, s.r[1].failure);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, s.r[1].kind);
	t_is_failed(self->b, self->x, 20, 30, s.r[0].failure);
	ASSERT_EQ(1, t_end(self->a, GPU | 4).out_doomed);
	s = t_seal_refused(self->a, capture);
	t_is_failed(self->b, self->x, 0, 10, s.r[0].failure);
	t_end(self->a, GPU2 | 1);
	t_seal(self->a, other);
	/* The prepared one records again after the context was renewed. */
	t_renew(self->a, GPU);
	t_begin(self->a, GPU | 3);
	t_write(self->a, GPU | 3, C({ self->x, 40, 50 }));
	t_end(self->a, GPU | 3);
	t_seal(self->a, prepared);
}

/* A window that the driver opens, too. */
TEST(window_opening)
{
	struct cl *a = t_client();
	u_int64_t w, f;

	t_domain_backend(a, CAPKM_BACKEND_HARDWARE);
	w = t_prepare(a, STREAM);
	ASSERT_EQ(0, t_try_begin(a, STREAM, 0).rc);
	ASSERT_EQ(CAPKM_WINDOW_OPENING, t_slot(a, STREAM).out_state);
	f = t_fault(a, OTHER, "lost");
	ASSERT_EQ(1, t_window(a, w).q.out_doomed);
	ASSERT_EQ(f, t_window(a, w).r[0].failure);
	t_close(a);
	t_no_leaks();
}

/* What has doomed a window before stays its first failure. */
TEST_F(confirm, doomed_before)
{
	u_int64_t w = t_record(self->a, STREAM);

	t_window_fail(self->a, w, 1, 901, "op", "first");
	t_fault(self->a, OTHER, "second");
	ASSERT_STREQ("first", (char *)t_window(self->a, w).r[0].text);
	ASSERT_EQ(2, t_window(self->a, w).q.out_failures);
}

/* The end of a client that has faulted: it is not faulted any more. */
TEST_F(confirm, death_after_fault)
{
	u_int64_t f;

	t_write_enqueued(self->a, STREAM, C({ self->x, 0, 10 }));
	f = t_fault(self->a, STREAM, "lost");
	ASSERT_EQ(1, t_domain_query(self->b).out_faulted);
	t_kill(self->a);
	self->a = NULL;
	ASSERT_EQ(0, t_domain_query(self->b).out_faulted);
	t_is_failed(self->b, self->x, 0, 10, f);
}

/* The first thing that a client ever does there: takes memory, may meet limits. */
TEST(first_use)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1;; n++) {
		struct cl *a = t_client();
		u_int64_t p;
		char *before;
		int rc;

		t_domain(a);
		p = t_buffer_on(a, GPU, 10, 0);
		before = t_dump(a);
		capkm_test_fail_alloc(n);
		rc = t_try_fault(a, STREAM);
		capkm_test_fail_alloc(0);
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			t_unchanged(a, before);
			ASSERT_EQ(0, t_try_fault(a, STREAM));
		} else {
			free(before);
		}
		t_is_tainted(a, p, 0, 10, CAPKM_KIND_DEVICE_FAULT);
		t_close(a);
		if (!rc) {
			ASSERT_GT(n, 1);
			break;
		}
	}
	t_no_leaks();
}

/* No memory when a buffer becomes shared */
TEST(export_without_memory)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1;; n++) {
		struct cl *a = t_client();
		u_int64_t p;
		char *before;
		int rc;

		t_domain(a);
		p = t_buffer(a, 10);
		for (int i = 0; i < 8; i++)
			t_write_enqueued(a, GPU | i, C({ p, i, i + 1 }));
		before = t_dump(a);
		capkm_test_fail_alloc(n);
		rc = t_export(a, p);
		capkm_test_fail_alloc(0);
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			t_unchanged(a, before);
		} else {
			free(before);
			t_is_pending(a, p, 0, 10);
		}
		t_close(a);
		if (!rc) {
			ASSERT_GT(n, 1);
			break;
		}
	}
	t_no_leaks();
}

/* ----------------------------------------------------- a fault of the device */

static void become(uid_t uid)
{
	if (seteuid(0) || setegid(uid) || (uid && seteuid(uid)))
		t_die("cannot become user %u", uid);
}

/* A monitor saw an Xid: it is a fault for everybody who uses the device. */
TEST(device_fault)
{
	struct cl *admin, *a, *b, *c, *d, *e;
	u_int64_t x, p, q, r, s, t;
	unsigned int n;
	const u_int64_t dev = T_GPU(0xd1);

	if (getuid())
		SKIP(return, "needs root");
	admin = t_client();	/* in no domain */
	a = t_process();
	b = t_client();
	c = t_client();		/* another domain */
	d = t_client();		/* holds a buffer there, has done nothing */
	e = t_client();		/* has nothing to do with it */
	t_domain(a);
	t_attach(b, a->domain);
	t_domain(c);
	t_attach(d, c->domain);
	t_attach(e, c->domain);
	x = t_shared(a, 100);
	p = t_buffer_on(a, dev, 10, 0);
	q = t_buffer_on(c, dev, 10, 0);
	r = t_buffer_on(d, dev, 10, 0);
	s = t_shared(e, 10);
	t_open(b, x);
	t_write_enqueued(a, dev | 1, C({ x, 0, 10 }));
	t_write_enqueued(a, GPU | 1, C({ x, 20, 30 }));
	t_write_enqueued(b, dev | 1, C({ x, 40, 50 }));
	t_write(c, dev | 1, C({ q, 0, 10 }));
	t_write_enqueued(e, 1, C({ s, 0, 10 }));
	t = t_record(b, dev | 2);

	T_REFUSED(a, -EINVAL, t_device_fault(admin, 0, "host", &n));
	become(65534);
	{
		struct cl *nobody = t_client();

		T_REFUSED(a, -EPERM, t_device_fault(nobody, dev, "no", &n));
		t_close(nobody);
	}
	become(0);
	ASSERT_EQ(0, t_device_fault(admin, dev, "fell off the bus", &n));
	ASSERT_EQ(4, n);
	ASSERT_STREQ("fell off the bus",
		     (char *)t_is_tainted(a, x, 0, 10, CAPKM_KIND_DEVICE_FAULT).text);
	ASSERT_EQ(79, t_is_tainted(a, x, 40, 50, CAPKM_KIND_DEVICE_FAULT).code);
	t_is_clean(a, x, 50, 100);
	t_is_clean(a, x, 20, 40);
	t_is_tainted(a, p, 0, 10, CAPKM_KIND_DEVICE_FAULT);
	t_is_tainted(c, q, 0, 10, CAPKM_KIND_DEVICE_FAULT);
	t_is_tainted(d, r, 0, 10, CAPKM_KIND_DEVICE_FAULT);
	t_is_clean(e, s, 0, 10);
	ASSERT_EQ(1, t_window(b, t).q.out_doomed);
	ASSERT_EQ(2, t_domain_query(a).out_faulted);
	ASSERT_EQ(2, t_domain_query(c).out_faulted);
	ASSERT_EQ(t_slot(a, dev | 1).out_failure,
		  t_skip(a, dev | 1, NULL, NO_CLAIMS, C({ p, 0, 1 })));
	/* Each renews for itself. */
	ASSERT_EQ(1, t_renew(a, dev));
	t_write(a, dev | 1, C({ p, 0, 10 }));
	t_skip(b, dev | 1, NULL, NO_CLAIMS, C({ x, 0, 1 }));
	ASSERT_EQ(1, t_renew(d, dev));
	/* Who has faulted already is not told again. */
	ASSERT_EQ(0, t_device_fault(admin, dev, NULL, &n));
	ASSERT_EQ(2, n);
	/* Nobody */
	ASSERT_EQ(0, t_device_fault(admin, T_GPU(0xd2), NULL, &n));
	ASSERT_EQ(0, n);
	t_close(e);
	t_close(d);
	t_close(c);
	t_close(b);
	t_close(a);
	t_close(admin);
	t_no_leaks();
}

/*
 * Who lacks memory is not told, all others are, in his domain and in others; and the
 * call can be made again.
 */
TEST(device_fault_without_memory)
{
	const u_int64_t dev = T_GPU(0xd3);
	bool missed[3] = { 0 };

	if (!t_embedded() || getuid())
		SKIP(return, "needs the library's allocator, and root");
	for (unsigned int n = 1;; n++) {
		struct capkm_device_fault f = { .size = sizeof(f), .device[0] = 0xd3 };
		struct cl *cl[3] = { t_client(), t_client(), t_client() };
		u_int64_t p[3];
		unsigned int told;
		int rc;

		t_domain(cl[0]);
		t_attach(cl[1], cl[0]->domain);
		t_domain(cl[2]);
		for (int i = 0; i < 3; i++)
			p[i] = t_buffer_on(cl[i], dev, 10, 0);
		capkm_test_fail_alloc(n);
		rc = t_raw(cl[0], CAPKM_NR_DEVICE_FAULT, &f, sizeof(f));
		capkm_test_fail_alloc(0);
		told = f.out_clients;
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			ASSERT_EQ(2, told);
			for (int i = 0; i < 3; i++) {
				if (t_check(cl[i], C({ p[i], 0, 10 })).result != CAPKM_CLEAN)
					continue;
				missed[i] = true;
				told++;
			}
			ASSERT_EQ(0, t_raw(cl[0], CAPKM_NR_DEVICE_FAULT, &f, sizeof(f)));
			ASSERT_EQ(1, f.out_clients);
		}
		ASSERT_EQ(3, told);
		for (int i = 0; i < 3; i++)
			t_is_tainted(cl[i], p[i], 0, 10, CAPKM_KIND_DEVICE_FAULT);
		for (int i = 2; i >= 0; i--)
			t_close(cl[i]);
		if (!rc)
			break;
	}
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(missed[i]);
	t_no_leaks();
}

TEST_HARNESS_MAIN
