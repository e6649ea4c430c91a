// SPDX-License-Identifier: GPL-2.0-only
/*
 * Buffers that several sessions or clients use: who may, who wrote them last, and
 * what a second client of a session changes.
 */
#include "capkm_test.h"

FIXTURE(share)
{
	struct cl *a, *b;
};

FIXTURE_SETUP(share)
{
	self->a = t_process();
	self->b = t_client();
	t_domain(self->b);
	t_attach(self->a, self->b->domain);
}

FIXTURE_TEARDOWN(share)
{
	if (self->a)
		t_close(self->a);
	t_close(self->b);
	t_no_leaks();
}

static unsigned int state_of(struct cl *cl, u_int64_t buffer)
{
	return t_buffer_query(cl, buffer).q.out_state;
}

/* ------------------------------------------------------------ SESSION_JOIN */

TEST_F(share, join)
{
	struct cl *c = t_second(self->a);
	struct capkm_session_join j = { 0 };
	u_int64_t x, p, s;

	ASSERT_EQ(2, t_domain_query(self->b).out_clients);
	p = t_buffer(self->a, 100);
	ASSERT_EQ(0, state_of(self->a, p));
	/* It is no client yet. */
	T_REFUSED(self->a, -EPERM, t_try_enter(c, 1, 0, NULL, NO_CLAIMS, NO_CLAIMS).rc);
	T_OK(c, SESSION_JOIN, &j);
	ASSERT_EQ(self->a->domain, j.out_domain);
	ASSERT_EQ(self->a->session, j.out_session);
	ASSERT_EQ(CAPKM_RIGHT_READ | CAPKM_RIGHT_WRITE, j.out_rights);
	ASSERT_EQ(CAPKM_BACKEND_SOFTWARE, j.out_backend);
	ASSERT_EQ(32, j.out_max_streams);
	ASSERT_EQ(3, t_domain_query(self->b).out_clients);
	ASSERT_EQ(2, t_domain_query(self->b).out_sessions);
	/* Joining again changes nothing, nor does it for the first client. */
	T_REFUSED(self->a, 0, t_try_join_session(c));
	T_REFUSED(self->a, 0, t_try_join_session(self->a));

	/* The session's buffers, which are shared now, and those that it makes */
	ASSERT_EQ(CAPKM_BUFFER_SHARED, state_of(c, p));
	ASSERT_EQ(1, t_buffer_query(c, p).q.out_holders);
	x = t_buffer(c, 100);
	ASSERT_EQ(CAPKM_BUFFER_SHARED, state_of(self->a, x));
	/* Slots of its own */
	t_record(self->a, 1);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(c, 1).out_state);
	t_write(c, 1, C({ x, 0, 10 }));
	t_is_clean(self->a, x, 0, 100);
	/* Scopes of its own */
	s = t_enter(c, 2, NO_CLAIMS, C({ p, 0, 10 }));
	T_REFUSED(self->a, -EPERM, t_try_exit(self->a, s));
	t_is_open(self->a, p, 0, 10, s);
	ASSERT_EQ(0, t_slot(self->a, 2).out_scopes);
	/* Streams are the session's. */
	s = t_stream(self->a);
	t_write(c, s, C({ x, 10, 20 }));
	T_REFUSED(self->a, -EPERM, t_try_prepare(self->b, s).rc);
	t_close(c);
	/* It is not exported by that. */
	{
		struct capkm_buffer_open o = { .buffer = p };

		T_REFUSED(self->a, -EACCES, t_call(self->b, CAPKM_NR_BUFFER_OPEN, &o));
	}
	/* Once shared, for ever */
	ASSERT_EQ(CAPKM_BUFFER_SHARED, state_of(self->a, x));
	ASSERT_EQ(CAPKM_BUFFER_SHARED, state_of(self->a, t_buffer(self->a, 10)));
}

/* Before it is attached: one attaches for both. */
TEST(join_unattached)
{
	struct cl *a = t_process(), *b = t_second(a), *c = t_client();

	ASSERT_EQ(0, t_try_join_session(b));
	ASSERT_EQ(0, b->domain);
	ASSERT_EQ(0, b->session);
	t_domain(c);
	t_attach(b, c->domain);
	ASSERT_EQ(3, t_domain_query(c).out_clients);
	t_write(a, 1, C({ t_buffer(b, 10), 0, 10 }));
	t_close(a);
	t_write(b, 1, C({ t_buffer(b, 10), 0, 10 }));
	t_close(b);
	ASSERT_EQ(1, t_domain_query(c).out_clients);
	t_close(c);
	t_no_leaks();
}

/* What the first client has not confirmed is unconfirmed as a whole. */
TEST_F(share, join_dirty)
{
	u_int64_t p = t_buffer(self->a, 100), q = t_buffer(self->a, 100), r;
	struct cl *c;

	t_write_enqueued(self->a, 3, C({ q, 10, 20 }));
	t_confirm(self->a, 3);
	t_write_enqueued(self->a, 3, C({ p, 10, 20 }));
	r = t_buffer(self->a, 100);
	t_write(self->a, 3, C({ r, 0, 1 }));
	c = t_join_session(self->a);
	t_ranges_are(c, p, { 0, 100, self->a->session, CAPKM_RANGE_UNCONFIRMED });
	t_no_ranges(c, q);
	t_no_ranges(c, r);
	ASSERT_EQ(1, t_slot(self->a, 3).out_unconfirmed);
	t_write(c, 1, C({ p, 0, 50 }));
	t_is_pending(c, p, 50, 100);
	t_confirm(self->a, 3);
	t_is_confirmed(c, p, 0, 100);
	t_close(c);
}

/* Each client's work is its own: the end of one leaves the other's. */
TEST_F(share, end_of_one)
{
	struct cl *c = t_join_session(self->a);
	u_int64_t x = t_buffer(self->a, 100), w, w2, g, s;

	t_write_enqueued(c, 1, C({ x, 0, 10 }));
	t_write_enqueued(self->a, 1, C({ x, 20, 30 }));
	s = t_enter(self->a, 2, NO_CLAIMS, C({ x, 40, 50 }));
	t_enter(c, 2, NO_CLAIMS, C({ x, 60, 70 }));
	w = t_record(self->a, 3);
	w2 = t_record(c, 3);
	g = t_graph(c, 4, NO_CLAIMS, C({ x, 80, 90 }));
	T_REFUSED(self->a, -EPERM, t_destroy(self->a, g));
	t_kill(c);
	t_is_tainted(self->a, x, 0, 10, CAPKM_KIND_UNCONFIRMED);
	t_is_pending(self->a, x, 20, 30);
	t_is_open(self->a, x, 40, 50, s);
	t_is_tainted(self->a, x, 60, 70, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w2).q.out_state);
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	/* The session has a living client: nothing of it is abandoned. */
	ASSERT_EQ(0, state_of(self->a, x) & CAPKM_BUFFER_ABANDONED);
	t_exit(self->a, s);
	ASSERT_EQ(0, t_abandon(self->a, w2));
}

/* The first client may go, and the second one goes on. */
TEST_F(share, end_of_first)
{
	struct cl *c = t_join_session(self->a);
	u_int64_t x = t_buffer(self->a, 100);

	t_write_enqueued(self->a, 1, C({ x, 0, 10 }));
	t_kill(self->a);
	self->a = c;
	t_is_tainted(c, x, 0, 10, CAPKM_KIND_UNCONFIRMED);
	t_write(c, 1, C({ x, 0, 100 }));
	t_is_clean(c, x, 0, 100);
	t_record(c, 5);
}

/* All its clients have ended, and somebody holds the descriptor. */
TEST_F(share, join_after_end)
{
	struct cl *c = t_join_session(self->a), *d;
	u_int64_t x = t_shared(self->a, 10);

	t_open(self->b, x);
	d = t_second(self->a);
	t_kill(self->a);
	ASSERT_EQ(0, state_of(self->b, x) & CAPKM_BUFFER_ABANDONED);
	t_kill(c);
	self->a = NULL;
	/* Nobody is left who could do anything with it, but the session is there. */
	ASSERT_EQ(CAPKM_BUFFER_ABANDONED, state_of(self->b, x) & CAPKM_BUFFER_ABANDONED);
	ASSERT_EQ(2, t_domain_query(self->b).out_sessions);
	ASSERT_EQ(1, t_domain_query(self->b).out_clients);
	ASSERT_EQ(0, t_try_join_session(d));
	ASSERT_EQ(0, state_of(self->b, x) & CAPKM_BUFFER_ABANDONED);
	t_write(d, 1, C({ x, 0, 10 }));
	t_close(d);
	ASSERT_EQ(1, t_domain_query(self->b).out_sessions);
}

/* The domain was destroyed. */
TEST_F(share, join_destroyed)
{
	struct cl *c = t_second(self->a), *root = t_client();
	struct capkm_domain_destroy d = {
		.domain = self->b->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};

	T_OK(root, DOMAIN_DESTROY, &d);
	ASSERT_EQ(-ECANCELED, t_try_join_session(c));
	t_close(root);
	t_close(c);
}

/* No memory, or too little: it has not joined and nothing is shared. */
TEST(join_without_memory)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1;; n++) {
		struct cl *a = t_process(), *b;
		u_int64_t p, q;
		char *before;
		int rc;

		t_domain(a);
		p = t_buffer(a, 10);
		q = t_buffer(a, 10);
		for (int i = 0; i < 3; i++)
			t_write_enqueued(a, i, C({ p, i, i + 1 }, { q, i, i + 1 }));
		b = t_second(a);
		before = t_dump(a);
		capkm_test_fail_alloc(n);
		rc = t_try_join_session(b);
		capkm_test_fail_alloc(0);
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			t_unchanged(a, before);
			T_REFUSED(a, -EPERM, t_try_prepare(b, 1).rc);
			ASSERT_EQ(0, t_try_join_session(b));
		} else {
			free(before);
		}
		t_is_pending(b, p, 0, 10);
		t_is_pending(b, q, 9, 10);
		t_close(b);
		t_close(a);
		if (!rc) {
			ASSERT_GT(n, 1);
			break;
		}
	}
	t_no_leaks();
}

/* --------------------------------------------------------- last writers */

TEST_F(share, writers)
{
	u_int64_t x = t_buffer_on(self->a, 0, 100, CAPKM_BUFFER_CREATE_F_EXPORT), n1, n2, n3;
	u_int64_t s = t_stream(self->a), as = self->a->session, bs = self->b->session;

	t_open(self->b, x);
	t_no_writers(self->b, x);
	n1 = t_write(self->a, s, C({ x, 0, 50 }));
	t_writers_are(self->b, x, { 0, 50, as, s, n1 });
	n2 = t_write_enqueued(self->b, 7, C({ x, 40, 60 }));
	n3 = t_write(self->a, 3, C({ x, 10, 20 }));
	t_writers_are(self->b, x, { 0, 10, as, s, n1 }, { 10, 20, as, 3, n3 },
		      { 20, 40, as, s, n1 }, { 40, 60, bs, 7, n2 });
	/* A failure is no writer, and takes nobody's place. */
	t_fail(self->a, 3, C({ x, 0, 5 }), "failed");
	t_taint(self->a, "tainted", C({ x, 5, 8 }));
	t_writers_are(self->b, x, { 0, 10, as, s, n1 }, { 10, 20, as, 3, n3 },
		      { 20, 40, as, s, n1 }, { 40, 60, bs, 7, n2 });
	/* Of WRITTEN it is the session, and no stream. */
	{
		struct capkm_claim c = { x, 45, 70 };
		struct capkm_written w = { .claims_uptr = t_ptr(&c), .claims_len = 1 };

		T_OK(self->a, WRITTEN, &w);
		t_writers_are(self->b, x, { 0, 10, as, s, n1 }, { 10, 20, as, 3, n3 },
			      { 20, 40, as, s, n1 }, { 40, 45, bs, 7, n2 },
			      { 45, 70, as, 0, w.out_sequence });
	}
	/* A reset removes it. */
	ASSERT_EQ(0, t_reset(self->a, x, 0, 45));
	t_no_ranges(self->b, x);
	{
		struct capkm_writer w[1] = { 0 };
		struct capkm_buffer_query q = {
			.buffer = x, .writers_uptr = t_ptr(w), .writers_len = 1,
		};

		T_OK(self->b, BUFFER_QUERY, &q);
		ASSERT_EQ(1, q.out_writers);
		ASSERT_EQ(45, w[0].start);
	}
}

/* Read in pieces */
TEST_F(share, writers_in_pieces)
{
	u_int64_t x = t_fresh(self->a, 100), from = 0;
	struct capkm_writer w[2];
	unsigned int n = 0;

	for (int i = 0; i < 5; i++)
		t_write(self->a, 1, C({ x, 10 * i, 10 * i + 5 }));
	do {
		struct capkm_buffer_query q = {
			.buffer = x, .from = from, .writers_uptr = t_ptr(w),
			.writers_len = 2,
		};

		T_OK(self->a, BUFFER_QUERY, &q);
		if (!q.out_writers)
			break;
		for (u_int32_t i = 0; i < q.out_writers; i++, n++)
			ASSERT_EQ(10 * n, w[i].start);
		from = w[q.out_writers - 1].end;
	} while (n < 100);
	ASSERT_EQ(5, n);
	/* From the first that ends after it on */
	{
		struct capkm_buffer_query q = {
			.buffer = x, .from = 14, .writers_uptr = t_ptr(w), .writers_len = 2,
		};

		T_OK(self->a, BUFFER_QUERY, &q);
		ASSERT_EQ(10, w[0].start);
		q.from = 15;
		T_OK(self->a, BUFFER_QUERY, &q);
		ASSERT_EQ(20, w[0].start);
	}
}

/* Of a private buffer only if it is asked for; of a shared one from then on. */
TEST_F(share, writers_of_private)
{
	u_int64_t p = t_buffer(self->a, 100), f = t_fresh(self->a, 100), n, s;

	t_write(self->a, 1, C({ p, 0, 10 }));
	n = t_write(self->a, 1, C({ f, 0, 10 }));
	t_no_writers(self->a, p);
	t_writers_are(self->a, f, { 0, 10, self->a->session, 1, n });
	ASSERT_EQ(CAPKM_BUFFER_FRESH, state_of(self->a, f));
	ASSERT_EQ(0, t_export(self->a, p));
	t_no_writers(self->a, p);
	n = t_write(self->a, 1, C({ p, 20, 30 }));
	t_writers_are(self->a, p, { 20, 30, self->a->session, 1, n });
	/* The scope must have entered then. */
	p = t_buffer(self->a, 100);
	s = t_enter(self->a, 1, NO_CLAIMS, C({ p, 0, 10 }));
	ASSERT_EQ(0, t_export(self->a, p));
	t_exit(self->a, s);
	t_no_writers(self->a, p);
}

/* The last exit has the bytes, whoever entered first; a replay is a writer. */
TEST_F(share, last_exit)
{
	u_int64_t x = t_fresh(self->a, 100), s = t_enter(self->a, 1, NO_CLAIMS, C({ x, 0, 10 }));
	struct capkm_scope_exit e = {
		.scope = s, .flags = CAPKM_SCOPE_EXIT_F_COMPLETE,
	};
	struct capkm_graph_replay_end r = { .flags = CAPKM_SCOPE_EXIT_F_COMPLETE };
	u_int64_t g, w;

	t_write(self->a, 2, C({ x, 0, 10 }));
	T_OK(self->a, SCOPE_EXIT, &e);
	t_writers_are(self->a, x, { 0, 10, self->a->session, 1, e.out_sequence });
	/* Recording is not writing. */
	w = t_record(self->a, 4);
	t_write(self->a, 4, C({ x, 0, 10 }));
	t_end(self->a, 4);
	g = t_seal(self->a, w);
	t_writers_are(self->a, x, { 0, 10, self->a->session, 1, e.out_sequence });
	t_replay_begin(self->a, g, 5);
	r.graph = g;
	T_OK(self->a, GRAPH_REPLAY_END, &r);
	t_writers_are(self->a, x, { 0, 10, self->a->session, 5, r.out_sequence });
}

/* ------------------------------------------------------------- freshness */

TEST_F(share, freshness)
{
	u_int64_t x = t_fresh(self->a, 100), n, f;
	struct t_check c;

	n = t_write(self->a, 1, C({ x, 0, 50 }));
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, n - 1, C({ x, 0, 50 }));
	ASSERT_EQ(CAPKM_CLEAN, c.result);
	/* After it, not at it */
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, n,
			  C({ x, 0, 50 }, { x, 10, 10 }, { x, 60, 70 }));
	ASSERT_EQ(CAPKM_STALE, c.result);
	ASSERT_EQ(2, c.reports);
	ASSERT_EQ(CAPKM_KIND_STALE, c.r[0].kind);
	ASSERT_EQ(x, c.r[0].buffer);
	ASSERT_EQ(0, c.r[0].start);
	ASSERT_EQ(60, c.r[1].start);
	ASSERT_EQ(0, c.r[0].failure);
	/* Never written is stale for any sequence. */
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, 0, C({ x, 40, 60 }));
	ASSERT_EQ(CAPKM_STALE, c.result);
	ASSERT_EQ(50, c.r[0].start);
	/* Each byte, also when several have written them */
	t_write(self->a, 1, C({ x, 0, 25 }));
	t_written(self->a, C({ x, 25, 49 }));
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, n, C({ x, 0, 49 }));
	ASSERT_EQ(CAPKM_CLEAN, c.result);
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, n, C({ x, 0, 50 }));
	ASSERT_EQ(CAPKM_STALE, c.result);
	ASSERT_EQ(49, c.r[0].start);
	/* Taint comes first, then what is pending. */
	t_write_enqueued(self->a, 1, C({ x, 0, 10 }));
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN | CAPKM_CHECK_F_CONFIRMED,
			  c.sequence + 100, C({ x, 0, 10 }));
	ASSERT_EQ(CAPKM_PENDING, c.result);
	f = t_taint(self->a, "bad", C({ x, 49, 50 }));
	c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, n, C({ x, 0, 50 }));
	ASSERT_EQ(CAPKM_TAINTED, c.result);
	ASSERT_EQ(f, c.r[0].failure);
}

TEST_F(share, freshness_bad)
{
	u_int64_t x = t_fresh(self->a, 100), p = t_buffer(self->a, 100);
	struct capkm_claim c[] = { { x, 0, 10 }, { p, 0, 10 } };
	struct capkm_check k = {
		.claims_uptr = t_ptr(c), .claims_len = 2, .flags = CAPKM_CHECK_F_WRITTEN,
	};

	T_REFUSED(self->a, -EOPNOTSUPP, t_call(self->a, CAPKM_NR_CHECK, &k));
	ASSERT_EQ(1, k.out_error_index);
	k.claims_len = 1;
	k.flags |= CAPKM_CHECK_F_UNCHANGED;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_CHECK, &k));
	k.flags = 0;
	k.since = 1;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_CHECK, &k));
	k.flags = CAPKM_CHECK_F_CONFIRMED;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_CHECK, &k));
}

/* ----------------------------------------------------------------- export */

/* Shared when it was created, by an export, by a second client */
TEST_F(share, states)
{
	u_int64_t x = t_shared(self->a, 10), p = t_buffer(self->a, 10), u;

	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED, state_of(self->a, x));
	ASSERT_EQ(0, state_of(self->a, p));
	ASSERT_EQ(0, t_export(self->a, p));
	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED, state_of(self->a, p));
	T_REFUSED(self->a, 0, t_export(self->a, p));
	u = t_unallocated(self->a, 10);
	ASSERT_EQ(0, t_export(self->a, u));
	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED | CAPKM_BUFFER_UNALLOCATED,
		  state_of(self->a, u));
}

/* What was tainted, open or recorded before the export is so afterwards. */
TEST_F(share, export_keeps_claims)
{
	u_int64_t p = t_buffer(self->a, 100), f, s, w;

	f = t_fail(self->a, 1, C({ p, 0, 10 }), "before");
	s = t_enter(self->a, 1, NO_CLAIMS, C({ p, 20, 30 }));
	w = t_record(self->a, 2);
	t_write(self->a, 2, C({ p, 40, 50 }));
	ASSERT_EQ(0, t_export(self->a, p));
	t_open(self->b, p);
	t_ranges_are(self->b, p, { 0, 10, f, CAPKM_RANGE_FAILED },
		     { 20, 30, s, CAPKM_RANGE_OPEN }, { 40, 50, w, CAPKM_RANGE_RECORDED });
	/* The scope that entered before leaves unconfirmed bytes behind it. */
	t_exit_enqueued(self->a, s);
	t_is_pending(self->b, p, 20, 30);
	t_confirm(self->a, 1);
	t_is_confirmed(self->b, p, 20, 30);
}

/* A fault taints private buffers as a whole, shared ones by range. */
TEST_F(share, fault_after_export)
{
	u_int64_t p = t_buffer_on(self->a, T_GPU(1), 100, 0), f;

	t_write(self->a, T_GPU(1) | 1, C({ p, 0, 100 }));
	ASSERT_EQ(0, t_export(self->a, p));
	t_write_enqueued(self->a, T_GPU(1) | 1, C({ p, 0, 10 }));
	f = t_fault(self->a, T_GPU(1) | 1, "lost");
	t_ranges_are(self->a, p, { 0, 10, f, CAPKM_RANGE_FAILED });
}

/* A session that is gone leaves its buffer to the others. */
TEST_F(share, creator_gone)
{
	u_int64_t x = t_shared(self->a, 10), session = self->a->session;

	t_open(self->b, x);
	t_write(self->a, 1, C({ x, 0, 10 }));
	t_close(self->a);
	self->a = NULL;
	ASSERT_EQ(CAPKM_BUFFER_EXPORTED | CAPKM_BUFFER_SHARED | CAPKM_BUFFER_ABANDONED,
		  state_of(self->b, x));
	ASSERT_EQ(session, t_buffer_query(self->b, x).q.out_session);
	t_is_clean(self->b, x, 0, 10);
}

TEST_HARNESS_MAIN
