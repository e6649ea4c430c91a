// SPDX-License-Identifier: GPL-2.0-only
/*
 * The queues of errors: each failed exit waits once on its slot for the stream that
 * owns it (SC-25 to SC-30, T-95). They block nothing and hold nothing.
 */
#include "capkm_test.h"

#define PEEK	CAPKM_STREAM_FLUSH_F_PEEK
#define OWN	CAPKM_STREAM_FLUSH_F_OWN
#define SHARED	CAPKM_STREAM_FLUSH_F_SHARED
#define EVERY	CAPKM_STREAM_FLUSH_F_EVERY

/* Three streams on slot 1. */
#define S1	1
#define S2	33
#define S3	65

FIXTURE(flush)
{
	struct cl *a;
	u_int64_t x;
};

FIXTURE_SETUP(flush)
{
	self->a = t_client();
	t_domain(self->a);
	self->x = t_shared(self->a, 1000);
}

FIXTURE_TEARDOWN(flush)
{
	t_close(self->a);
	t_no_leaks();
}

static u_int64_t fail(struct cl *a, u_int64_t stream, u_int64_t x, const char *text)
{
	return t_fail(a, stream, C({ x, 0, 1 }), text);
}

static u_int64_t n_fail(struct cl *a, u_int64_t stream, u_int64_t x, unsigned int n)
{
	u_int64_t f = 0;

	while (n--)
		f = fail(a, stream, x, "one of many");
	return f;
}

static unsigned int queued(struct cl *a, u_int64_t stream)
{
	return t_slot(a, stream).out_queued;
}

/* Nothing has failed. */
TEST_F(flush, empty)
{
	struct t_flush f = t_flush(self->a, S1, 0);

	ASSERT_EQ(0, f.reports);
	ASSERT_EQ(0, f.left);
	ASSERT_EQ(0, f.dropped);
	t_write(self->a, S1, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, t_flush(self->a, S1, EVERY).reports);
	ASSERT_EQ(0, queued(self->a, S1));
}

/* SC-25: a stream gets its own errors, once, in order. */
TEST_F(flush, own)
{
	u_int64_t f1, f2, f3;
	struct t_flush f;

	f1 = fail(self->a, S1, self->x, "one");
	f2 = fail(self->a, S2, self->x, "two");
	f3 = fail(self->a, S1, self->x, "three");
	ASSERT_EQ(2, queued(self->a, S1));
	ASSERT_EQ(1, queued(self->a, S2));
	ASSERT_EQ(0, queued(self->a, S3));
	f = t_flush(self->a, S3, 0);
	ASSERT_EQ(0, f.reports);
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(2, f.reports);
	ASSERT_EQ(0, f.left);
	ASSERT_EQ(f1, f.r[0].failure);
	ASSERT_STREQ("one", (char *)f.r[0].text);
	ASSERT_EQ(CAPKM_KIND_LAUNCH, f.r[0].kind);
	ASSERT_EQ(-700, f.r[0].code);
	ASSERT_EQ(S1, f.r[0].stream);
	ASSERT_EQ(self->a->session, f.r[0].session);
	ASSERT_EQ(f3, f.r[1].failure);
	ASSERT_STREQ("three", (char *)f.r[1].text);
	ASSERT_EQ(0, t_flush(self->a, S1, 0).reports);
	f = t_flush(self->a, S2, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(f2, f.r[0].failure);
	/* Another slot has a queue of its own. */
	fail(self->a, 2, self->x, "slot 2");
	ASSERT_EQ(0, t_flush(self->a, S1, EVERY).reports);
	ASSERT_EQ(1, t_flush(self->a, 2, 0).reports);
}

/* SC-28: looking takes nothing. */
TEST_F(flush, peek)
{
	u_int64_t f1 = fail(self->a, S1, self->x, "one");
	struct t_flush f;

	fail(self->a, S2, self->x, "two");
	T_REFUSED(self->a, 0, t_flush(self->a, S1, PEEK).rc);
	f = t_flush(self->a, S1, PEEK);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(1, f.left);
	ASSERT_EQ(f1, f.r[0].failure);
	ASSERT_EQ(2, t_flush(self->a, S1, PEEK | EVERY).reports);
	ASSERT_EQ(1, t_flush(self->a, S1, 0).reports);
}

/* What does not fit stays. */
TEST_F(flush, in_pieces)
{
	struct t_flush f;

	for (int i = 0; i < 5; i++)
		fail(self->a, S1, self->x, (const char *[]){ "0", "1", "2", "3", "4" }[i]);
	f = t_flush_some(self->a, S1, 0, 0);
	ASSERT_EQ(0, f.reports);
	ASSERT_EQ(5, f.left);
	f = t_flush_some(self->a, S1, 0, 2);
	ASSERT_EQ(2, f.reports);
	ASSERT_EQ(3, f.left);
	ASSERT_STREQ("0", (char *)f.r[0].text);
	ASSERT_STREQ("1", (char *)f.r[1].text);
	f = t_flush_some(self->a, S1, 0, 3);
	ASSERT_EQ(3, f.reports);
	ASSERT_EQ(0, f.left);
	ASSERT_STREQ("2", (char *)f.r[0].text);
	ASSERT_STREQ("4", (char *)f.r[2].text);
}

/* F_OWN leaves the shared ones, F_SHARED the own ones, F_EVERY takes all. */
TEST_F(flush, flags)
{
	u_int64_t fault;
	struct t_flush f;

	fail(self->a, S1, self->x, "own");
	fault = t_fault(self->a, S2, "anybody's");
	t_renew(self->a, 0);
	fail(self->a, S3, self->x, "another's");
	ASSERT_EQ(2, queued(self->a, S1));
	ASSERT_EQ(1, queued(self->a, S2));
	T_REFUSED(self->a, -EINVAL, t_try_flush(self->a, S1, OWN | SHARED, 1).rc);
	T_REFUSED(self->a, -EINVAL, t_try_flush(self->a, S1, OWN | EVERY, 1).rc);
	T_REFUSED(self->a, -EINVAL, t_try_flush(self->a, S1, SHARED | EVERY, 1).rc);
	T_REFUSED(self->a, -EINVAL, t_try_flush(self->a, S1, SHARED | EVERY | OWN, 1).rc);
	f = t_flush(self->a, S1, OWN);
	ASSERT_EQ(1, f.reports);
	ASSERT_STREQ("own", (char *)f.r[0].text);
	ASSERT_EQ(0, t_flush(self->a, S1, OWN).reports);
	f = t_flush(self->a, S1, SHARED | PEEK);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(fault, f.r[0].failure);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, f.r[0].kind);
	f = t_flush(self->a, S1, EVERY);
	ASSERT_EQ(2, f.reports);
	ASSERT_EQ(fault, f.r[0].failure);
	ASSERT_STREQ("another's", (char *)f.r[1].text);
	ASSERT_EQ(0, t_flush(self->a, S1, EVERY).reports);
}

/* SC-27: a fault is shared; whoever flushes first takes it, once. */
TEST_F(flush, fault_is_anybodys)
{
	u_int64_t fault;
	struct t_flush f;

	t_write_enqueued(self->a, S1, C({ self->x, 0, 10 }));
	fault = t_fault(self->a, S1, "lost");
	f = t_flush(self->a, S3, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(fault, f.r[0].failure);
	ASSERT_EQ(0, t_flush(self->a, S1, 0).reports);
	/* Only on its slot */
	t_renew(self->a, 0);
	t_fault(self->a, S1, "again");
	ASSERT_EQ(0, t_flush(self->a, 2, 0).reports);
	ASSERT_EQ(1, t_flush(self->a, S1, 0).reports);
	/* That fault, told again, is no other error. */
	t_fault(self->a, S1, "still");
	ASSERT_EQ(0, t_flush(self->a, S1, EVERY).reports);
}

/* Every way to fail at an exit; what was never entered has no exit. */
TEST_F(flush, what_is_queued)
{
	u_int64_t bad, g, s;
	struct t_enter e;
	struct t_flush f;

	bad = t_taint(self->a, "input", C({ self->x, 500, 510 }));
	t_skip(self->a, S1, NULL, C({ self->x, 500, 510 }), C({ self->x, 0, 10 }));
	ASSERT_EQ(0, t_flush(self->a, S1, EVERY).reports);
	e = t_try_enter(self->a, S1, CAPKM_SCOPE_ENTER_F_POISON, NULL,
			C({ self->x, 500, 510 }), C({ self->x, 0, 10 }));
	ASSERT_EQ(bad, t_exit(self->a, e.scope));
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(bad, f.r[0].failure);
	/* A replay */
	g = t_graph(self->a, 3, NO_CLAIMS, C({ self->x, 20, 30 }));
	t_replay_begin(self->a, g, S2);
	bad = t_replay_end(self->a, g, "replay failed");
	f = t_flush(self->a, S2, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(bad, f.r[0].failure);
	ASSERT_EQ(g, f.r[0].graph);
	/* Work that was under way at a fault: the fault, and the exit */
	s = t_enter(self->a, S1, NO_CLAIMS, C({ self->x, 40, 50 }));
	bad = t_fault(self->a, S2, "lost");
	ASSERT_EQ(bad, t_exit(self->a, s));
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(2, f.reports);
	ASSERT_EQ(bad, f.r[0].failure);
	ASSERT_EQ(bad, f.r[1].failure);
}

/* A scope without outputs fails as well as others. */
TEST_F(flush, without_outputs)
{
	u_int64_t s = t_enter(self->a, S1, NO_CLAIMS, NO_CLAIMS);
	struct t_flush f;

	t_exit_failed(self->a, s, "no output");
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_STREQ("no output", (char *)f.r[0].text);
}

/* SC-29: errors raised inside a window belong to its owner. */
TEST_F(flush, window_owner)
{
	u_int64_t w = t_record(self->a, S1);
	struct t_flush f;

	fail(self->a, S2, self->x, "by a neighbour");
	ASSERT_EQ(0, t_flush(self->a, S2, 0).reports);
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_STREQ("by a neighbour", (char *)f.r[0].text);
	ASSERT_EQ(S2, f.r[0].stream);
	ASSERT_EQ(w, f.r[0].window);
}

/* A member's errors are its window owner's, on the slot where they happened. */
TEST_F(flush, window_owner_of_member)
{
	u_int64_t w = t_record(self->a, S1);

	t_join(self->a, w, 2);
	fail(self->a, 2, self->x, "on a member");
	ASSERT_EQ(0, t_flush(self->a, 2, 0).reports);
	ASSERT_EQ(1, t_flush(self->a, 2, EVERY | PEEK).reports);
	{
		struct capkm_report r;
		struct capkm_stream_flush a = {
			.flags = CAPKM_PLACE_F_SLOT,
			.place = { .stream = S1, .slot = 2 },
			.reports_uptr = t_ptr(&r), .reports_len = 1,
		};

		T_OK(self->a, STREAM_FLUSH, &a);
		ASSERT_EQ(1, a.out_reports);
		ASSERT_STREQ("on a member", (char *)r.text);
	}
}

/* SC-30: a queued error blocks nothing, and holds no node of the error graph. */
TEST_F(flush, blocks_nothing)
{
	u_int64_t id = fail(self->a, S1, self->x, "kept as a copy");
	struct t_flush f;

	t_write(self->a, S1, C({ self->x, 0, 1 }));
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(-ENOENT, t_try_failure(self->a, id, 0).rc);
	t_is_clean(self->a, self->x, 0, 1000);
	f = t_flush(self->a, S1, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(id, f.r[0].failure);
	ASSERT_STREQ("kept as a copy", (char *)f.r[0].text);
}

/* T-95, SC-26: 128 failures of one stream leave 32 that are its own, 96 shared. */
TEST_F(flush, t95_oldest_become_shared)
{
	u_int64_t first = fail(self->a, S1, self->x, "first"), last;
	struct t_flush f;

	last = n_fail(self->a, S1, self->x, 127);
	ASSERT_EQ(128, queued(self->a, S1));
	ASSERT_EQ(96, queued(self->a, S2));
	f = t_flush_some(self->a, S1, OWN | PEEK, 48);
	ASSERT_EQ(32, f.reports);
	ASSERT_EQ(32, f.left);
	ASSERT_EQ(last, f.r[31].failure);
	/* take(none) leaves the owned ones. */
	f = t_flush_some(self->a, S2, SHARED, 48);
	ASSERT_EQ(48, f.reports);
	ASSERT_EQ(48, f.left);
	ASSERT_EQ(first, f.r[0].failure);
	ASSERT_EQ(0, f.dropped);
	f = t_flush_some(self->a, S2, 0, 48);
	ASSERT_EQ(48, f.reports);
	ASSERT_EQ(0, f.left);
	ASSERT_EQ(0, t_flush(self->a, S3, 0).reports);
	/* take_all takes them. */
	f = t_flush_some(self->a, S3, EVERY, 48);
	ASSERT_EQ(32, f.reports);
	ASSERT_EQ(0, t_flush(self->a, S1, 0).reports);
}

/* The limit is for each stream. */
TEST_F(flush, limit_of_each_stream)
{
	n_fail(self->a, S1, self->x, 32);
	n_fail(self->a, S2, self->x, 32);
	ASSERT_EQ(32, queued(self->a, S1));
	ASSERT_EQ(32, queued(self->a, S2));
	ASSERT_EQ(0, queued(self->a, S3));
	n_fail(self->a, S2, self->x, 1);
	ASSERT_EQ(33, queued(self->a, S1));
	ASSERT_EQ(1, queued(self->a, S3));
}

/* More than 256 shared ones: the oldest are only counted. */
TEST_F(flush, dropped)
{
	struct t_flush f;
	u_int64_t second;

	fail(self->a, S1, self->x, "the first to go");
	second = fail(self->a, S1, self->x, "second");
	n_fail(self->a, S1, self->x, 256 + 32 - 2);
	ASSERT_EQ(0, t_flush_some(self->a, S2, PEEK, 0).dropped);
	fail(self->a, S1, self->x, "one too many");
	f = t_flush_some(self->a, S2, PEEK, 1);
	ASSERT_EQ(1, f.dropped);
	ASSERT_EQ(256, f.left);
	ASSERT_EQ(second, f.r[0].failure);
	n_fail(self->a, S1, self->x, 9);
	/* Who takes no shared ones is not told, nor does a look take it. */
	ASSERT_EQ(0, t_flush_some(self->a, S1, OWN, 1).dropped);
	ASSERT_EQ(10, t_flush_some(self->a, S3, PEEK, 0).dropped);
	ASSERT_EQ(10, t_flush_some(self->a, S3, 0, 1).dropped);
	/* Counted since then */
	ASSERT_EQ(0, t_flush_some(self->a, S3, 0, 1).dropped);
	for (int i = 0; i < 6; i++)
		t_flush_some(self->a, S3, 0, 48);
	ASSERT_EQ(0, queued(self->a, S3));
	ASSERT_EQ(31, queued(self->a, S1));
}

/* Limits of a domain that are other ones */
TEST(small_limits)
{
	struct cl *a = t_client();
	struct capkm_limit_value l[] = {
		{ .limit = CAPKM_LIMIT_QUEUED, .value = 2 },
		{ .limit = CAPKM_LIMIT_QUEUED_SHARED, .value = 3 },
	};
	struct capkm_domain_create d = { .limits_uptr = t_ptr(l), .limits_len = 2 };
	u_int64_t x;

	T_OK(a, DOMAIN_CREATE, &d);
	x = t_shared(a, 10);
	n_fail(a, S1, x, 5);
	ASSERT_EQ(3, queued(a, S2));
	ASSERT_EQ(5, queued(a, S1));
	n_fail(a, S1, x, 2);
	ASSERT_EQ(2, t_flush(a, S2, SHARED).dropped);
	ASSERT_EQ(2, t_flush(a, S1, OWN).reports);
	/* An end of the client with errors that nobody has taken */
	n_fail(a, S1, x, 9);
	t_close(a);
	t_no_leaks();
}

/* The errors of a stream that is gone become shared. */
TEST_F(flush, destroyed_stream)
{
	u_int64_t s = t_stream(self->a), f1;
	struct t_flush f;

	f1 = fail(self->a, s, self->x, "of a stream that is gone");
	ASSERT_EQ(0, t_flush(self->a, s % 32, 0).reports);
	t_destroy_stream(self->a, s);
	f = t_flush(self->a, s % 32, 0);
	ASSERT_EQ(1, f.reports);
	ASSERT_EQ(f1, f.r[0].failure);
	/* One of the caller's own, which may be used again */
	fail(self->a, S1, self->x, "one of the caller's own");
	t_destroy_stream(self->a, S1);
	ASSERT_EQ(1, t_flush(self->a, S2, 0).reports);
	fail(self->a, S1, self->x, "used again");
	ASSERT_EQ(0, t_flush(self->a, S2, 0).reports);
	ASSERT_EQ(1, t_flush(self->a, S1, 0).reports);
}

/* Slots, and their queues, are a client's own. */
TEST_F(flush, each_client)
{
	struct cl *b = t_client(), *second = t_join_session(self->a);

	t_attach(b, self->a->domain);
	fail(self->a, S1, self->x, "mine");
	ASSERT_EQ(0, t_flush(b, S1, EVERY).reports);
	ASSERT_EQ(0, t_flush(second, S1, EVERY).reports);
	ASSERT_EQ(1, t_flush(self->a, S1, EVERY).reports);
	t_close(second);
	t_close(b);
}

TEST_F(flush, bad_places)
{
	struct cl *b = t_client();
	u_int64_t others;
	struct capkm_stream_flush f = {
		.flags = CAPKM_PLACE_F_SLOT, .place.slot = 1 << 20,
	};

	t_attach(b, self->a->domain);
	others = t_stream(b);
	T_REFUSED(self->a, -EPERM, t_try_flush(self->a, others, 0, 1).rc);
	T_REFUSED(self->a, -ENOENT, t_try_flush(self->a, others + 1000, 0, 1).rc);
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_STREAM_FLUSH, &f));
	t_close(b);
}

/* No memory: nothing is taken. */
TEST_F(flush, without_memory)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	n_fail(self->a, S1, self->x, 3);
	for (unsigned int n = 1;; n++) {
		char *before = t_dump(self->a);
		struct t_flush f;

		capkm_test_fail_alloc(n);
		f = t_try_flush(self->a, S1, 0, 3);
		capkm_test_fail_alloc(0);
		if (!f.rc) {
			free(before);
			ASSERT_EQ(3, f.reports);
			ASSERT_GT(n, 1);
			break;
		}
		ASSERT_EQ(-ENOMEM, f.rc);
		t_unchanged(self->a, before);
	}
}

TEST_HARNESS_MAIN
