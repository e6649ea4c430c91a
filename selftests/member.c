// SPDX-License-Identifier: GPL-2.0-only
/*
 * Windows over several slots: members that joined, child windows, work that
 * escapes; streams that are destroyed; graphs that are updated.
 */
#include "capkm_test.h"

#define OWNER	1
#define MEMBER	2
#define OTHER	3
#define THIRD	4

FIXTURE(member)
{
	struct cl *a;
	u_int64_t x;
};

FIXTURE_SETUP(member)
{
	self->a = t_client();
	t_domain(self->a);
	self->x = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(member)
{
	t_close(self->a);
	t_no_leaks();
}

static void is_on(struct __test_metadata *_metadata, struct cl *a, u_int64_t stream,
		  unsigned int state, u_int64_t window)
{
	struct capkm_stream_query q = t_slot(a, stream);

	ASSERT_EQ(state, q.out_state);
	ASSERT_EQ(window, q.out_window);
}

/* ----------------------------------------------------------------- members */

TEST_F(member, records_there)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_window q;
	struct capkm_window_end e;

	t_join(self->a, w, MEMBER);
	t_join(self->a, w, T_GPU(1) | 7);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w);
	ASSERT_EQ(OWNER, t_slot(self->a, MEMBER).out_owner);
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_write(self->a, MEMBER, C({ self->x, 20, 30 }));
	t_write(self->a, MEMBER + 32, C({ self->x, 40, 50 }));
	t_write(self->a, T_GPU(1) | 7, C({ self->x, 60, 70 }));
	t_write(self->a, OTHER, C({ self->x, 80, 90 }));
	/* Nothing of it is written yet, and the window is seen through. */
	t_ranges_are(self->a, self->x, { 0, 10, w, CAPKM_RANGE_RECORDED },
		     { 20, 30, w, CAPKM_RANGE_RECORDED },
		     { 40, 50, w, CAPKM_RANGE_RECORDED },
		     { 60, 70, w, CAPKM_RANGE_RECORDED });
	q = t_window(self->a, w);
	ASSERT_EQ(2, q.q.out_members);
	for (int i = 0; i < 2; i++) {
		bool gpu = q.m[i].device[0];

		ASSERT_EQ(gpu ? 7 : MEMBER, q.m[i].slot);
		ASSERT_EQ(gpu ? 7 : MEMBER, q.m[i].stream);
		ASSERT_EQ(gpu ? 1 : 2, q.m[i].launches);
		ASSERT_EQ(0, q.m[i].scopes);
	}
	ASSERT_NE(q.m[0].slot, q.m[1].slot);
	ASSERT_EQ(4, q.q.out_launches);
	e = t_end(self->a, OWNER);
	ASSERT_EQ(4, e.out_recorded);
	ASSERT_EQ(0, e.out_doomed);
	ASSERT_EQ(CAPKM_VERDICT_OWNED, e.out_verdict);
	t_graph_is(self->a, t_seal(self->a, w), 0,
		   C({ self->x, 0, 10 }, { self->x, 20, 30 }, { self->x, 40, 50 },
		     { self->x, 60, 70 }));
}

/* A scope of the window that is open on a member is counted there. */
TEST_F(member, open_scopes)
{
	u_int64_t w = t_record(self->a, OWNER), s;

	t_join(self->a, w, MEMBER);
	s = t_enter(self->a, MEMBER, NO_CLAIMS, C({ self->x, 0, 10 }));
	ASSERT_EQ(1, t_window(self->a, w).m[0].scopes);
	t_exit(self->a, s);
	ASSERT_EQ(0, t_window(self->a, w).m[0].scopes);
	s = t_enter(self->a, MEMBER, NO_CLAIMS, C({ self->x, 0, 10 }));
	/* Closed under it */
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	ASSERT_EQ(CAPKM_KIND_INCOMPLETE, t_window(self->a, w).r[0].kind);
	t_exit(self->a, s);
	ASSERT_EQ(CAPKM_KIND_INCOMPLETE, t_seal_refused(self->a, w).r[1].kind);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_REFUSED);
}

/* What is recorded on one is seen through on the other, and its inputs are known. */
TEST_F(member, sees_through)
{
	u_int64_t w, g;

	t_fail(self->a, OTHER, C({ self->x, 0, 10 }), "before");
	w = t_record(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_exit(self->a, t_enter(self->a, MEMBER, C({ self->x, 0, 20 }),
				C({ self->x, 20, 30 })));
	t_end(self->a, OWNER);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_INPUTS, C({ self->x, 10, 20 }));
}

/* A failure on a member dooms the window. */
TEST_F(member, failure_dooms)
{
	u_int64_t w = t_record(self->a, OWNER), f;

	t_join(self->a, w, MEMBER);
	f = t_fail(self->a, MEMBER, C({ self->x, 0, 10 }), "on a member");
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(f, t_window(self->a, w).r[0].failure);
	/* A window that is doomed takes no members. */
	T_REFUSED(self->a, -EINVAL, t_try_join(self->a, w, OTHER, 0).rc);
	/* It keeps those that it has, and a join of them changes nothing. */
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w);
}

/* A fault of a member's device */
TEST_F(member, fault_dooms)
{
	u_int64_t w = t_record(self->a, OWNER), w2 = t_record(self->a, OTHER), f;

	t_join(self->a, w, T_GPU(1) | 2);
	f = t_fault(self->a, T_GPU(1) | 5, "lost");
	ASSERT_EQ(f, t_window(self->a, w).r[0].failure);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_window(self->a, w2).q.out_doomed);
	ASSERT_EQ(f, t_skip(self->a, T_GPU(1) | 2, NULL, NO_CLAIMS,
			    C({ self->x, 0, 10 })));
}

/* Joining the window's own slot, or again, changes nothing. */
TEST_F(member, no_ops)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_joined j;

	j = t_try_join(self->a, w, OWNER, 0);
	ASSERT_EQ(0, j.rc);
	ASSERT_EQ(CAPKM_CLEAN, j.result);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, j.state);
	T_REFUSED(self->a, 0, t_try_join(self->a, w, OWNER, 0).rc);
	T_REFUSED(self->a, 0, t_try_join(self->a, w, OWNER + 32, 0).rc);
	ASSERT_EQ(0, t_window(self->a, w).q.out_members);
	j = t_try_join(self->a, w, MEMBER, 0);
	ASSERT_EQ(0, j.rc);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, j.state);
	T_REFUSED(self->a, 0, t_try_join(self->a, w, MEMBER, 0).rc);
	T_REFUSED(self->a, 0, t_try_join(self->a, w, MEMBER + 32, 0).rc);
	ASSERT_EQ(1, t_window(self->a, w).q.out_members);
	/* Also while a scope is open on it */
	t_enter(self->a, MEMBER, NO_CLAIMS, C({ self->x, 0, 10 }));
	T_REFUSED(self->a, 0, t_try_join(self->a, w, MEMBER, 0).rc);
}

/* Who cannot join */
TEST_F(member, refused)
{
	u_int64_t w, w2, prepared, closing, s, others;
	struct cl *b = t_client();
	struct t_joined j;

	t_attach(b, self->a->domain);
	others = t_stream(b);
	prepared = t_prepare(self->a, 5);
	closing = t_record(self->a, 6);
	t_end(self->a, 6);
	w = t_record(self->a, OWNER);
	w2 = t_record(self->a, OTHER);
	T_REFUSED(self->a, -ENOENT, t_try_join(self->a, w + 1000, MEMBER, 0).rc);
	T_REFUSED(self->a, -ENOENT, t_try_join(self->a, w, others + 1000, 0).rc);
	T_REFUSED(self->a, -EPERM, t_try_join(self->a, w, others, 0).rc);
	T_REFUSED(self->a, -EPERM, t_try_join(b, w, MEMBER, 0).rc);
	/* It does not record */
	T_REFUSED(self->a, -EINVAL, t_try_join(self->a, prepared, MEMBER, 0).rc);
	T_REFUSED(self->a, -EINVAL, t_try_join(self->a, closing, MEMBER, 0).rc);
	/* The slot has a window: nothing is doomed, and the state says why. */
	j = t_try_join(self->a, w, OTHER, 0);
	ASSERT_EQ(-EBUSY, j.rc);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, j.state);
	j = t_try_join(self->a, w, 5, 0);
	ASSERT_EQ(-EBUSY, j.rc);
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, j.state);
	/* C32: it is a member of another one, STREAM_QUERY says of which. */
	t_join(self->a, w2, MEMBER);
	j = t_try_join(self->a, w, MEMBER, 0);
	ASSERT_EQ(-EBUSY, j.rc);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, j.state);
	T_REFUSED(self->a, -EBUSY, t_try_join(self->a, w, MEMBER, 0).rc);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w2);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(0, t_window(self->a, w2).q.out_doomed);
	/* A scope is open on it. */
	s = t_enter(self->a, THIRD, NO_CLAIMS, C({ self->x, 0, 10 }));
	T_REFUSED(self->a, -EBUSY, t_try_join(self->a, w, THIRD, 0).rc);
	t_exit(self->a, s);
	t_join(self->a, w, THIRD);
	t_close(b);
}

/* What a member's slot cannot do meanwhile */
TEST_F(member, slot_is_taken)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_state st;

	t_join(self->a, w, MEMBER);
	st = t_try_prepare(self->a, MEMBER);
	ASSERT_EQ(-EBUSY, st.rc);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, st.state);
	T_REFUSED(self->a, -EBUSY, t_try_prepare(self->a, MEMBER).rc);
	T_REFUSED(self->a, -EINVAL, t_try_end(self->a, MEMBER, 0).rc);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w);
	/* A replay there is refused and dooms, as on the window's own slot. */
	{
		struct t_replay r;
		u_int64_t g = t_graph(self->a, OTHER, NO_CLAIMS, C({ self->x, 50, 60 }));

		r = t_try_replay(self->a, g, MEMBER);
		ASSERT_EQ(0, r.rc);
		ASSERT_EQ(CAPKM_REFUSED, r.result);
		ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	}
}

/* All are let go when the window is closed, and can be prepared at once. */
TEST_F(member, end_lets_go)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_join(self->a, w, MEMBER);
	t_join(self->a, w, OTHER);
	t_write(self->a, MEMBER, C({ self->x, 0, 10 }));
	t_end(self->a, OWNER);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_NONE, 0);
	is_on(_metadata, self->a, OTHER, CAPKM_WINDOW_NONE, 0);
	ASSERT_EQ(0, t_window(self->a, w).q.out_members);
	t_prepare(self->a, MEMBER);
	t_write(self->a, OTHER, C({ self->x, 20, 30 }));
	t_graph_is(self->a, t_seal(self->a, w), 0, C({ self->x, 0, 10 }));
	/* So when it is aborted, abandoned or its stream destroyed. */
	t_abort(self->a, MEMBER);
	w = t_record(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	t_abort(self->a, OWNER);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_NONE, 0);
	w = t_record(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	ASSERT_EQ(0, t_abandon(self->a, w));
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_NONE, 0);
	w = t_record(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	ASSERT_EQ(1, t_destroy_stream(self->a, OWNER));
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_NONE, 0);
}

/* A hardware slot: they are let go with the first of the two calls. */
TEST(end_lets_go_on_hardware)
{
	struct cl *a = t_client();
	u_int64_t w;

	t_domain_backend(a, CAPKM_BACKEND_HARDWARE);
	w = t_prepare(a, OWNER);
	ASSERT_EQ(0, t_try_begin(a, OWNER, 0).rc);
	T_REFUSED(a, -EINVAL, t_try_join(a, w, MEMBER, 0).rc);
	ASSERT_EQ(0, t_try_begin(a, OWNER, CAPKM_WINDOW_F_DRIVER_DONE).rc);
	t_join(a, w, MEMBER);
	ASSERT_EQ(0, t_try_end(a, OWNER, 0).rc);
	is_on(_metadata, a, MEMBER, CAPKM_WINDOW_NONE, 0);
	t_prepare(a, MEMBER);
	ASSERT_EQ(0, t_try_end(a, OWNER, CAPKM_WINDOW_F_DRIVER_DONE).rc);
	t_seal(a, w);
	t_close(a);
	t_no_leaks();
}

/* The driver has merged two captures: both are doomed. */
TEST_F(member, driver_merged)
{
	u_int64_t w = t_record(self->a, OWNER), w2 = t_record(self->a, OTHER), w3;
	struct t_joined j;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_write(self->a, OTHER, C({ self->x, 20, 30 }));
	j = t_try_join(self->a, w, OTHER, CAPKM_WINDOW_JOIN_F_DRIVER_MERGED);
	ASSERT_EQ(0, j.rc);
	ASSERT_EQ(CAPKM_REFUSED, j.result);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(1, t_window(self->a, w2).q.out_doomed);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_window(self->a, w).r[0].kind);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_window(self->a, w2).r[0].kind);
	is_on(_metadata, self->a, OTHER, CAPKM_WINDOW_CAPTURE, w2);
	t_end(self->a, OWNER);
	t_end(self->a, OTHER);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_seal_refused(self->a, w).r[1].kind);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_seal_refused(self->a, w2).r[1].kind);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_REFUSED);
	t_is_tainted(self->a, self->x, 20, 30, CAPKM_KIND_REFUSED);
	/* A member of the other one */
	w = t_record(self->a, OWNER);
	w3 = t_record(self->a, OTHER);
	t_join(self->a, w3, MEMBER);
	j = t_try_join(self->a, w, MEMBER, CAPKM_WINDOW_JOIN_F_DRIVER_MERGED);
	ASSERT_EQ(0, j.rc);
	ASSERT_EQ(CAPKM_REFUSED, j.result);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_window(self->a, w).r[0].kind);
	ASSERT_EQ(CAPKM_KIND_MERGE, t_window(self->a, w3).r[0].kind);
}

/* There is no other capture: a free slot joins as without the flag. */
TEST_F(member, driver_merged_nothing)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct t_joined j;

	j = t_try_join(self->a, w, MEMBER, CAPKM_WINDOW_JOIN_F_DRIVER_MERGED);
	ASSERT_EQ(0, j.rc);
	ASSERT_EQ(CAPKM_CLEAN, j.result);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
}

/* The client ends: its window's members end with it. */
TEST_F(member, death)
{
	struct cl *b = t_process();
	u_int64_t x, w;

	t_attach(b, self->a->domain);
	x = t_shared(self->a, 100);
	t_open(b, x);
	w = t_record(b, OWNER);
	t_join(b, w, MEMBER);
	t_write(b, MEMBER, C({ x, 0, 10 }));
	t_enter(b, MEMBER, NO_CLAIMS, C({ x, 20, 30 }));
	t_kill(b);
	t_is_tainted(self->a, x, 0, 10, CAPKM_KIND_OWNER_DIED);
	t_is_tainted(self->a, x, 20, 30, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(0, t_window(self->a, w).q.out_members);
	ASSERT_EQ(0, t_abandon(self->a, w));
}

/* ---------------------------------------------------------------- children */

/* Sealed, it is no graph: its writes are seen by the parent, its inputs are read. */
TEST_F(member, child)
{
	u_int64_t w = t_record(self->a, OWNER), c, g;
	struct t_seal s;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	c = t_record_child(self->a, OTHER, w);
	ASSERT_EQ(w, t_window(self->a, c).q.out_parent);
	ASSERT_EQ(0, t_window(self->a, w).q.out_parent);
	ASSERT_EQ(1, t_window(self->a, w).q.out_children);
	t_exit(self->a, t_enter(self->a, OTHER, C({ self->x, 0, 20 }),
				C({ self->x, 30, 40 })));
	t_end(self->a, OTHER);
	ASSERT_EQ(1, t_window(self->a, w).q.out_children);
	s = t_try_seal(self->a, c, 0);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_CLEAN, s.result);
	ASSERT_EQ(0, s.graph);
	ASSERT_EQ(0, s.reports);
	ASSERT_EQ(0, t_window(self->a, w).q.out_children);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, t_window(self->a, c).q.out_state);
	ASSERT_EQ(0, t_window(self->a, c).q.out_graph);
	/* Its recorded claims are the parent's now. */
	t_ranges_are(self->a, self->x, { 0, 10, w, CAPKM_RANGE_RECORDED },
		     { 30, 40, w, CAPKM_RANGE_RECORDED });
	t_end(self->a, OWNER);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->x, 0, 10 }));
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_SEEN, C({ self->x, 30, 40 }));
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_INPUTS, C({ self->x, 10, 20 }));
}

/* What the child wrote may not have run: the parent's later read is an input. */
TEST_F(member, child_may_not_run)
{
	u_int64_t w = t_record(self->a, OWNER), c, f;

	c = t_record_child(self->a, OTHER, w);
	t_write(self->a, OTHER, C({ self->x, 0, 10 }));
	t_end(self->a, OTHER);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	t_end(self->a, OWNER);
	{
		u_int64_t g = t_seal(self->a, w);

		/* Seen claims are judged at a replay, and not released by it. */
		f = t_fail(self->a, THIRD, C({ self->x, 0, 10 }), "bad");
		ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, g, THIRD).result);
		t_is_failed(self->a, self->x, 0, 10, f);
		t_written(self->a, C({ self->x, 0, 10 }));
		t_replay_begin(self->a, g, THIRD);
		f = t_replay_end(self->a, g, "failed");
		t_is_failed(self->a, self->x, 0, 10, f);
	}
}

/* It sees what its ancestors wrote. */
TEST_F(member, child_sees_ancestors)
{
	u_int64_t w, c, c2;

	t_fail(self->a, THIRD, C({ self->x, 0, 20 }), "before");
	w = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	c = t_record_child(self->a, OTHER, w);
	t_exit(self->a, t_enter(self->a, OTHER, C({ self->x, 0, 10 }),
				C({ self->x, 10, 20 })));
	c2 = t_record_child(self->a, MEMBER, c);
	t_exit(self->a, t_enter(self->a, MEMBER, C({ self->x, 0, 20 }),
				C({ self->x, 30, 40 })));
	t_end(self->a, MEMBER);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c2, 0).result);
	t_end(self->a, OTHER);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	t_end(self->a, OWNER);
	{
		u_int64_t g = t_seal(self->a, w);

		t_graph_is(self->a, g, 0, C({ self->x, 0, 10 }));
		t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_SEEN,
			   C({ self->x, 10, 20 }, { self->x, 30, 40 }));
		t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_INPUTS, NO_CLAIMS);
	}
}

/* From its begin on, work on the parent is refused and dooms the parent. */
TEST_F(member, parent_is_suspended)
{
	u_int64_t w = t_record(self->a, OWNER), c;
	struct t_enter e;

	t_join(self->a, w, MEMBER);
	c = t_prepare_child(self->a, OTHER, w);
	/* Prepared only, it does not. */
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_write(self->a, MEMBER, C({ self->x, 10, 20 }));
	t_begin(self->a, OTHER);
	e = t_try_enter(self->a, MEMBER, 0, NULL, NO_CLAIMS, C({ self->x, 40, 50 }));
	ASSERT_EQ(0, e.rc);
	ASSERT_EQ(CAPKM_REFUSED, e.result);
	ASSERT_EQ(0, e.scope);
	t_is_tainted(self->a, self->x, 40, 50, CAPKM_KIND_REFUSED);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(CAPKM_KIND_REFUSED, t_window(self->a, w).r[0].kind);
	e = t_try_enter(self->a, OWNER, 0, NULL, NO_CLAIMS, C({ self->x, 60, 70 }));
	ASSERT_EQ(CAPKM_REFUSED, e.result);
	t_is_tainted(self->a, self->x, 60, 70, CAPKM_KIND_REFUSED);
	/* The child is not doomed by that. */
	ASSERT_EQ(0, t_window(self->a, c).q.out_doomed);
	t_write(self->a, OTHER, C({ self->x, 80, 90 }));
	t_end(self->a, OTHER);
	e = t_try_enter(self->a, OWNER, 0, NULL, NO_CLAIMS, C({ self->x, 60, 70 }));
	ASSERT_EQ(CAPKM_REFUSED, e.result);
	/* Once it is sealed or refused, the parent records again. */
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	t_write(self->a, OWNER, C({ self->x, 60, 70 }));
}

/* The parent cannot end before it. */
TEST_F(member, parent_ends_after)
{
	u_int64_t w = t_record(self->a, OWNER), c, c2;

	c = t_prepare_child(self->a, OTHER, w);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	t_begin(self->a, OTHER);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	t_end(self->a, OTHER);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	/* A second child, while the first is closing */
	c2 = t_record_child(self->a, MEMBER, w);
	ASSERT_EQ(2, t_window(self->a, w).q.out_children);
	t_end(self->a, MEMBER);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	T_REFUSED(self->a, -EBUSY, t_try_end(self->a, OWNER, 0).rc);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c2, 0).result);
	t_end(self->a, OWNER);
	t_seal(self->a, w);
}

/* A child that is refused dooms its parent, with what refused it. */
TEST_F(member, child_refused)
{
	u_int64_t w = t_record(self->a, OWNER), c;
	struct t_seal s;

	c = t_record_child(self->a, OTHER, w);
	t_write(self->a, OTHER, C({ self->x, 0, 10 }));
	t_end(self->a, OTHER);
	t_refuse(self->a, c, "the driver says no");
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_DRIVER);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_STREQ("the driver says no", (char *)t_window(self->a, w).r[0].text);
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	s = t_seal_refused(self->a, w);
	ASSERT_STREQ("the driver says no", (char *)s.r[1].text);
}

/* Doomed, it is refused when it should be sealed, and so dooms its parent. */
TEST_F(member, child_doomed)
{
	u_int64_t w = t_record(self->a, OWNER), c;
	struct t_seal s;

	c = t_record_child(self->a, OTHER, w);
	t_fail(self->a, OTHER, C({ self->x, 0, 10 }), "in the child");
	t_end(self->a, OTHER);
	s = t_seal_refused(self->a, c);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(s.r[0].failure, t_window(self->a, w).r[0].failure);
	/* Aborting it refuses it too. */
	w = t_record(self->a, MEMBER);
	t_record_child(self->a, OTHER, w);
	t_abort(self->a, OTHER);
	ASSERT_EQ(CAPKM_KIND_ABORTED, t_window(self->a, w).r[0].kind);
	/* Abandoning it, too. */
	w = t_record(self->a, THIRD);
	c = t_record_child(self->a, OTHER, w);
	ASSERT_EQ(0, t_abandon(self->a, c));
	ASSERT_EQ(CAPKM_KIND_ABANDONED, t_window(self->a, w).r[0].kind);
}

/* Aborted while it was only prepared: there was nothing to refuse. */
TEST_F(member, child_not_begun)
{
	u_int64_t w = t_record(self->a, OWNER);

	t_prepare_child(self->a, OTHER, w);
	t_abort(self->a, OTHER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_children);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	t_end(self->a, OWNER);
	t_seal(self->a, w);
}

/* When the parent is refused, its children are refused first, the same way. */
TEST_F(member, parent_refused)
{
	u_int64_t w = t_record(self->a, OWNER), c, c2, prepared;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	c = t_record_child(self->a, OTHER, w);
	t_write(self->a, OTHER, C({ self->x, 20, 30 }));
	c2 = t_record_child(self->a, MEMBER, c);
	t_write(self->a, MEMBER, C({ self->x, 40, 50 }));
	prepared = t_prepare_child(self->a, THIRD, c2);
	t_abort(self->a, OWNER);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, c).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, c2).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, prepared).q.out_state);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_ABORTED);
	t_is_tainted(self->a, self->x, 20, 30, CAPKM_KIND_ABORTED);
	t_is_tainted(self->a, self->x, 40, 50, CAPKM_KIND_ABORTED);
	for (u_int64_t s = 1; s <= 4; s++)
		is_on(_metadata, self->a, s, CAPKM_WINDOW_NONE, 0);
}

/* The end of the client takes all of them. */
TEST_F(member, death_of_family)
{
	struct cl *b = t_process();
	u_int64_t x = t_shared(self->a, 100), w, c;

	t_attach(b, self->a->domain);
	t_open(b, x);
	w = t_record(b, OWNER);
	t_write(b, OWNER, C({ x, 0, 10 }));
	c = t_record_child(b, OTHER, w);
	t_write(b, OTHER, C({ x, 20, 30 }));
	t_kill(b);
	t_is_tainted(self->a, x, 0, 10, CAPKM_KIND_OWNER_DIED);
	t_is_tainted(self->a, x, 20, 30, CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, c).q.out_state);
	/* In any order */
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_abandon(self->a, c);
	ASSERT_EQ(0, t_domain_query(self->a).out_orphans);
}

/* At least 8 below each other, and no more than the limit */
TEST(depth)
{
	struct cl *a = t_client();
	u_int64_t w[10], x, max;
	int rc;

	t_domain(a);
	max = t_limit(a, CAPKM_LIMIT_DEPTH);
	ASSERT_GE(max, 8);
	t_close(a);
	a = t_client();
	t_domain_limit(a, CAPKM_LIMIT_DEPTH, 8);
	x = t_buffer(a, 100);
	for (int i = 0; i < 9; i++) {
		w[i] = i ? t_record_child(a, i, w[i - 1]) : t_record(a, i);
		t_write(a, i, C({ x, i, i + 1 }));
	}
	T_REFUSED(a, -EDQUOT, (t_try_prepare_flags(a, 9, w[8], 0, &rc), rc));
	ASSERT_EQ(CAPKM_LIMIT_DEPTH, ({
		t_try_prepare_flags(a, 9, w[8], 0, &rc);
		a->limit;
	}));
	/* It has nothing to do with how many there are beside each other. */
	for (int i = 8; i > 0; i--) {
		t_end(a, i);
		ASSERT_EQ(CAPKM_CLEAN, t_try_seal(a, w[i], 0).result);
	}
	t_end(a, 0);
	{
		u_int64_t g = t_seal(a, w[0]);

		t_graph_is(a, g, 0, C({ x, 0, 1 }));
		ASSERT_EQ(8, t_graph_query(a, g, 0).q.out_seen);
	}
	t_close(a);
	t_no_leaks();
}

/* Who can be a parent */
TEST_F(member, bad_parents)
{
	u_int64_t w = t_record(self->a, OWNER), prepared = t_prepare(self->a, 5), closing;
	struct cl *b = t_client();
	int rc;

	t_attach(b, self->a->domain);
	closing = t_record(self->a, 6);
	t_end(self->a, 6);
	T_REFUSED(self->a, -ENOENT,
		  (t_try_prepare_flags(self->a, OTHER, w + 1000, 0, &rc), rc));
	T_REFUSED(self->a, -EPERM, (t_try_prepare_flags(b, OTHER, w, 0, &rc), rc));
	T_REFUSED(self->a, -EINVAL,
		  (t_try_prepare_flags(self->a, OTHER, prepared, 0, &rc), rc));
	T_REFUSED(self->a, -EINVAL,
		  (t_try_prepare_flags(self->a, OTHER, closing, 0, &rc), rc));
	/* On another slot than the parent's, its members' included */
	T_REFUSED(self->a, -EBUSY, (t_try_prepare_flags(self->a, OWNER, w, 0, &rc), rc));
	t_join(self->a, w, MEMBER);
	T_REFUSED(self->a, -EBUSY, (t_try_prepare_flags(self->a, MEMBER, w, 0, &rc), rc));
	t_window_fail(self->a, w, OWNER, 1, "op", "doomed");
	T_REFUSED(self->a, -EINVAL, (t_try_prepare_flags(self->a, OTHER, w, 0, &rc), rc));
	t_close(b);
}

/* Doomed between PREPARE and BEGIN of the child: nothing is lost. */
TEST_F(member, parent_doomed_before_begin)
{
	u_int64_t w = t_record(self->a, OWNER), c = t_prepare_child(self->a, OTHER, w);

	t_window_fail(self->a, w, OWNER, 1, "op", "doomed");
	if (!t_try_begin(self->a, OTHER, 0).rc) {
		t_end(self->a, OTHER);
		t_try_seal(self->a, c, 0);
	} else {
		t_abort(self->a, OTHER);
	}
	t_end(self->a, OWNER);
	t_seal_refused(self->a, w);
}

/* A child takes members of its own. */
TEST_F(member, child_with_member)
{
	u_int64_t w = t_record(self->a, OWNER), c;

	c = t_record_child(self->a, OTHER, w);
	t_join(self->a, c, MEMBER);
	t_write(self->a, MEMBER, C({ self->x, 0, 10 }));
	t_end(self->a, OTHER);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_NONE, 0);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	t_end(self->a, OWNER);
	t_graph_is(self->a, t_seal(self->a, w), CAPKM_GRAPH_QUERY_F_SEEN,
		   C({ self->x, 0, 10 }));
}

/* ------------------------------------------------------------ escaped work */

/* Work of the owner or a member's stream elsewhere is counted. */
TEST_F(member, escaped)
{
	u_int64_t w, g = t_graph(self->a, 9, NO_CLAIMS, C({ self->x, 90, 100 }));

	w = t_record(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	ASSERT_EQ(0, t_window(self->a, w).q.out_strict);
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_write(self->a, OTHER, C({ self->x, 10, 20 }));
	ASSERT_EQ(0, t_window(self->a, w).q.out_escaped);
	/* On another device, and so on another slot */
	t_write(self->a, T_GPU(1) | OWNER, C({ self->x, 20, 30 }));
	t_write(self->a, T_GPU(1) | MEMBER, C({ self->x, 30, 40 }));
	ASSERT_EQ(2, t_window(self->a, w).q.out_escaped);
	t_replay(self->a, g, T_GPU(1) | OWNER);
	ASSERT_EQ(3, t_window(self->a, w).q.out_escaped);
	/* The owner on a member's slot has not escaped. */
	{
		struct capkm_scope_enter e = {
			.flags = CAPKM_PLACE_F_SLOT,
			.place = { .stream = OWNER, .slot = MEMBER },
		};

		T_OK(self->a, SCOPE_ENTER, &e);
		t_exit(self->a, e.out_scope);
	}
	ASSERT_EQ(3, t_window(self->a, w).q.out_escaped);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	t_end(self->a, OWNER);
	t_seal(self->a, w);
	/* Not while it does not record */
	w = t_prepare(self->a, OWNER);
	t_write(self->a, T_GPU(1) | OWNER, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_window(self->a, w).q.out_escaped);
}

TEST_F(member, strict)
{
	u_int64_t w = t_prepare_strict(self->a, OWNER);
	struct capkm_report r;

	ASSERT_EQ(1, t_window(self->a, w).q.out_strict);
	/* Warm-up is not recorded, and does not escape. */
	t_write(self->a, T_GPU(1) | OWNER, C({ self->x, 0, 10 }));
	t_begin(self->a, OWNER);
	t_write(self->a, OTHER, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	t_write(self->a, OWNER, C({ self->x, 40, 50 }));
	t_write(self->a, T_GPU(1) | OWNER, C({ self->x, 60, 70 }));
	/* The work itself is good. */
	t_is_clean(self->a, self->x, 60, 70);
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	ASSERT_EQ(1, t_window(self->a, w).q.out_escaped);
	r = t_window(self->a, w).r[0];
	ASSERT_EQ(CAPKM_KIND_ESCAPED, r.kind);
	ASSERT_EQ(w, r.window);
	t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_KIND_ESCAPED, t_seal_refused(self->a, w).r[1].kind);
	t_is_tainted(self->a, self->x, 40, 50, CAPKM_KIND_REFUSED);
}

/* A member's stream, and a replay */
TEST_F(member, strict_member)
{
	u_int64_t g = t_graph(self->a, 9, NO_CLAIMS, C({ self->x, 90, 100 })), w;

	w = t_prepare_strict(self->a, OWNER);
	t_begin(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	t_replay(self->a, g, T_GPU(1) | MEMBER);
	ASSERT_EQ(CAPKM_KIND_ESCAPED, t_window(self->a, w).r[0].kind);
}

/* ---------------------------------------------------------- STREAM_DESTROY */

TEST_F(member, destroy)
{
	u_int64_t s = t_stream(self->a), s2 = t_stream(self->a);

	ASSERT_EQ(2, t_domain_query(self->a).out_streams);
	ASSERT_EQ(0, t_destroy_stream(self->a, s));
	ASSERT_EQ(1, t_domain_query(self->a).out_streams);
	/* Gone for good */
	T_REFUSED(self->a, -ENOENT, t_try_destroy_stream(self->a, s));
	T_REFUSED(self->a, -ENOENT, t_try_prepare(self->a, s).rc);
	T_REFUSED(self->a, -ENOENT,
		  t_try_enter(self->a, s, 0, NULL, NO_CLAIMS, NO_CLAIMS).rc);
	ASSERT_GT(t_stream(self->a), s2);
	/* One of the caller's own may be used again. */
	T_REFUSED(self->a, 0, 0);
	ASSERT_EQ(0, t_destroy_stream(self->a, 5));
	ASSERT_EQ(0, t_destroy_stream(self->a, 5));
	t_write(self->a, 5, C({ self->x, 0, 10 }));
	t_prepare(self->a, s2);
	{
		struct cl *b = t_client();

		t_attach(b, self->a->domain);
		T_REFUSED(self->a, -EPERM, t_try_destroy_stream(b, s2));
		t_close(b);
	}
}

/* Its windows that are open are refused, others are left. */
TEST_F(member, destroy_owner)
{
	u_int64_t s = t_stream(self->a), prepared, recording, closing, foreign;

	prepared = t_prepare(self->a, s);
	recording = t_prepare(self->a, T_GPU(1) | 1);
	t_abort(self->a, T_GPU(1) | 1);
	{
		/* s is the owner of two more windows, on other devices. */
		struct capkm_window_prepare p = { .place = { .stream = s } };
		struct capkm_window_begin b = { .place = { .stream = s } };
		struct capkm_window_end e = { .place = { .stream = s } };

		p.place.device[0] = b.place.device[0] = e.place.device[0] = 2;
		T_OK(self->a, WINDOW_PREPARE, &p);
		T_OK(self->a, WINDOW_BEGIN, &b);
		closing = p.out_window;
		T_OK(self->a, WINDOW_END, &e);
		p.place.device[0] = b.place.device[0] = 1;
		T_OK(self->a, WINDOW_PREPARE, &p);
		T_OK(self->a, WINDOW_BEGIN, &b);
		recording = p.out_window;
	}
	{
		struct capkm_claim c = { self->x, 0, 10 };
		struct capkm_scope_enter e = {
			.place = { .stream = s, .device[0] = 1 },
			.writes_uptr = t_ptr(&c), .writes_len = 1,
		};

		T_OK(self->a, SCOPE_ENTER, &e);
		t_exit(self->a, e.out_scope);
	}
	foreign = t_record(self->a, OWNER);
	ASSERT_EQ(2, t_destroy_stream(self->a, s));
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, prepared).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, recording).q.out_state);
	ASSERT_EQ(CAPKM_KIND_ABORTED, t_window(self->a, recording).r[0].kind);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_ABORTED);
	/* One that is closing is for its client to seal. */
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(self->a, closing).q.out_state);
	t_seal(self->a, closing);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(self->a, foreign).q.out_state);
}

/* A member's stream: its slot is let go, what it recorded stays. */
TEST_F(member, destroy_member)
{
	u_int64_t s = t_stream(self->a), w = t_record(self->a, OWNER), open;

	ASSERT_NE(OWNER, s % 32);
	t_join(self->a, w, s);
	t_join(self->a, w, MEMBER);
	t_write(self->a, s, C({ self->x, 0, 10 }));
	open = t_enter(self->a, s, NO_CLAIMS, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_destroy_stream(self->a, s));
	is_on(_metadata, self->a, s % 32, CAPKM_WINDOW_NONE, 0);
	is_on(_metadata, self->a, MEMBER, CAPKM_WINDOW_MEMBER, w);
	ASSERT_EQ(1, t_window(self->a, w).q.out_members);
	/* Its scopes stay open, and belong where they were entered. */
	t_exit(self->a, open);
	t_write(self->a, s % 32, C({ self->x, 40, 50 }));
	ASSERT_EQ(0, t_end(self->a, OWNER).out_doomed);
	t_graph_is(self->a, t_seal(self->a, w), 0,
		   C({ self->x, 0, 10 }, { self->x, 20, 30 }));
}

/* ------------------------------------------------------------ GRAPH_UPDATE */

/* A window that is CLOSING on @stream, with these claims. */
static u_int64_t t_closing(struct cl *a, u_int64_t stream,
			   const struct capkm_claim *reads, size_t n_reads,
			   const struct capkm_claim *writes, size_t n_writes)
{
	u_int64_t w = t_prepare_cookie(a, stream, 77);

	t_begin(a, stream);
	t_exit(a, t_enter(a, stream, reads, n_reads, writes, n_writes));
	return w;
}

/* C91: success replaces everything at once. */
TEST_F(member, update)
{
	u_int64_t g = t_graph(self->a, OWNER, C({ self->x, 0, 10 }), C({ self->x, 20, 30 }));
	u_int64_t w = t_closing(self->a, OWNER, C({ self->x, 40, 50 }),
				C({ self->x, 60, 70 }, { self->x, 20, 25 })), f;
	struct capkm_graph_query q;

	ASSERT_EQ(0, t_retain(self->a, w, 0x1000, 10, CAPKM_RETAIN_READ));
	ASSERT_EQ(0, t_try_record(self->a, w, CAPKM_WINDOW_RECORD_F_SEEN, NO_CLAIMS,
				  C({ self->x, 80, 90 })));
	t_end(self->a, OWNER);
	t_update(self->a, g, w);
	q = t_graph_query(self->a, g, 0).q;
	ASSERT_EQ(1, q.out_updates);
	ASSERT_EQ(0, q.out_failed_updates);
	ASSERT_EQ(77, q.out_cookie);
	ASSERT_EQ(w, q.out_window);
	ASSERT_EQ(1, q.out_retained);
	ASSERT_EQ(10, q.out_retained_bytes);
	t_graph_is(self->a, g, 0, C({ self->x, 20, 25 }, { self->x, 60, 70 }));
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_INPUTS, C({ self->x, 40, 50 }));
	t_graph_is(self->a, g, CAPKM_GRAPH_QUERY_F_SEEN, C({ self->x, 80, 90 }));
	ASSERT_EQ(CAPKM_WINDOW_SEALED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(g, t_window(self->a, w).q.out_graph);
	ASSERT_EQ(1, t_domain_query(self->a).out_graphs);
	t_no_ranges(self->a, self->x);
	/* A replay judges and writes what is new, and nothing of what was. */
	f = t_fail(self->a, OTHER, C({ self->x, 0, 10 }, { self->x, 25, 30 },
				     { self->x, 60, 65 }), "old input");
	t_replay(self->a, g, OWNER);
	t_is_failed(self->a, self->x, 25, 30, f);
	t_is_clean(self->a, self->x, 60, 70);
	t_fail(self->a, OTHER, C({ self->x, 40, 41 }), "new input");
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, g, OWNER).result);
}

/* Replays look at no inputs any more, or again. */
TEST_F(member, update_no_inputs)
{
	u_int64_t g = t_graph(self->a, OWNER, C({ self->x, 0, 10 }), C({ self->x, 20, 30 }));
	u_int64_t w;
	struct t_seal s;

	w = t_closing(self->a, OWNER, C({ self->x, 0, 10 }), C({ self->x, 20, 30 }));
	t_end(self->a, OWNER);
	s = t_try_update(self->a, g, w, CAPKM_GRAPH_UPDATE_F_NO_INPUTS);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_CLEAN, s.result);
	t_fail(self->a, OTHER, C({ self->x, 0, 10 }), "bad");
	t_replay(self->a, g, OWNER);
	t_written(self->a, C({ self->x, 0, 10 }));
	w = t_closing(self->a, OWNER, C({ self->x, 0, 10 }), C({ self->x, 20, 30 }));
	t_end(self->a, OWNER);
	t_update(self->a, g, w);
	t_fail(self->a, OTHER, C({ self->x, 0, 10 }), "bad");
	ASSERT_EQ(CAPKM_SKIPPED, t_try_replay(self->a, g, OWNER).result);
}

/* C91: a driver that refuses is counted, and the graph is as before. */
TEST_F(member, update_failed)
{
	u_int64_t g = t_graph(self->a, OWNER, NO_CLAIMS, C({ self->x, 20, 30 })), w, g2;

	w = t_closing(self->a, OWNER, NO_CLAIMS, C({ self->x, 20, 30 }, { self->x, 0, 10 }));
	t_end(self->a, OWNER);
	for (int i = 1; i <= 5; i++) {
		ASSERT_EQ(0, t_try_update(self->a, g, w, CAPKM_GRAPH_UPDATE_F_FAILED).rc);
		ASSERT_EQ(i, t_graph_query(self->a, g, 0).q.out_failed_updates);
	}
	ASSERT_EQ(0, t_graph_query(self->a, g, 0).q.out_updates);
	t_graph_is(self->a, g, 0, C({ self->x, 20, 30 }));
	t_replay(self->a, g, OWNER);
	/* The window can still be sealed. */
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t_window(self->a, w).q.out_state);
	g2 = t_seal(self->a, w);
	t_replay(self->a, g2, OWNER);
	t_graph_is(self->a, g2, 0, C({ self->x, 0, 10 }, { self->x, 20, 30 }));
}

/* A doomed window is refused, its claims are tainted, the graph is as before. */
TEST_F(member, update_refused)
{
	u_int64_t g = t_graph(self->a, OWNER, NO_CLAIMS, C({ self->x, 20, 30 })), w;
	struct t_seal s;

	w = t_closing(self->a, OWNER, NO_CLAIMS, C({ self->x, 0, 10 }));
	t_window_fail(self->a, w, OWNER, 5, "op", "doomed");
	t_end(self->a, OWNER);
	s = t_try_update(self->a, g, w, 0);
	ASSERT_EQ(0, s.rc);
	ASSERT_EQ(CAPKM_REFUSED, s.result);
	ASSERT_EQ(2, s.reports);
	ASSERT_STREQ("doomed", (char *)s.r[1].text);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	t_graph_is(self->a, g, 0, C({ self->x, 20, 30 }));
	ASSERT_EQ(0, t_graph_query(self->a, g, 0).q.out_updates);
	t_replay(self->a, g, OWNER);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_REFUSED);
	/* An abandoned one as well */
	w = t_closing(self->a, OWNER, NO_CLAIMS, C({ self->x, 40, 50 }));
	t_end(self->a, OWNER + 32);
	s = t_try_update(self->a, g, w, 0);
	ASSERT_EQ(CAPKM_REFUSED, s.result);
	t_is_tainted(self->a, self->x, 40, 50, CAPKM_KIND_ABANDONED);
	t_replay(self->a, g, OWNER);
}

TEST_F(member, update_bad)
{
	u_int64_t g = t_graph(self->a, OWNER, NO_CLAIMS, C({ self->x, 20, 30 }));
	u_int64_t w = t_closing(self->a, OWNER, NO_CLAIMS, C({ self->x, 0, 10 })), c, parent;
	struct cl *b = t_client();

	t_attach(b, self->a->domain);
	/* Not closing */
	T_REFUSED(self->a, -EINVAL, t_try_update(self->a, g, w, 0).rc);
	t_end(self->a, OWNER);
	T_REFUSED(self->a, -ENOENT, t_try_update(self->a, g + 1000, w, 0).rc);
	T_REFUSED(self->a, -ENOENT, t_try_update(self->a, g, w + 1000, 0).rc);
	T_REFUSED(self->a, -EPERM, t_try_update(b, g, w, 0).rc);
	t_replay_begin(self->a, g, OTHER);
	T_REFUSED(self->a, -EBUSY, t_try_update(self->a, g, w, 0).rc);
	t_replay_end(self->a, g, NULL);
	/* A child's claims are its parent's. */
	parent = t_record(self->a, OWNER);
	c = t_record_child(self->a, OTHER, parent);
	t_end(self->a, OTHER);
	T_REFUSED(self->a, -EINVAL, t_try_update(self->a, g, c, 0).rc);
	t_update(self->a, g, w);
	/* It is closed now. */
	T_REFUSED(self->a, -ENOENT, t_try_update(self->a, g, w, 0).rc);
	t_close(b);
}

/* The driver has not closed it yet. */
TEST(update_on_hardware)
{
	struct cl *a = t_client();
	u_int64_t x, g = 0, w;

	t_domain_backend(a, CAPKM_BACKEND_HARDWARE);
	x = t_buffer(a, 10);
	for (int i = 0; i < 2; i++) {
		w = t_prepare(a, OWNER);
		ASSERT_EQ(0, t_try_begin(a, OWNER, 0).rc);
		ASSERT_EQ(0, t_try_begin(a, OWNER, CAPKM_WINDOW_F_DRIVER_DONE).rc);
		t_write(a, OWNER, C({ x, 5 * i, 5 * i + 5 }));
		ASSERT_EQ(0, t_try_end(a, OWNER, 0).rc);
		if (i)
			T_REFUSED(a, -EBUSY, t_try_update(a, g, w, 0).rc);
		ASSERT_EQ(0, t_try_end(a, OWNER, CAPKM_WINDOW_F_DRIVER_DONE).rc);
		if (!i)
			g = t_seal(a, w);
	}
	t_update(a, g, w);
	t_graph_is(a, g, 0, C({ x, 5, 10 }));
	t_close(a);
	t_no_leaks();
}

/* Buffers that only the old claims named are let go, those of the new are kept. */
TEST_F(member, update_keeps_buffers)
{
	u_int64_t y = t_buffer(self->a, 10), z = t_buffer(self->a, 10), g, w;

	g = t_graph(self->a, OWNER, NO_CLAIMS, C({ y, 0, 10 }));
	w = t_closing(self->a, OWNER, NO_CLAIMS, C({ z, 0, 10 }));
	t_end(self->a, OWNER);
	ASSERT_EQ(0, t_drop(self->a, y));
	ASSERT_EQ(0, t_drop(self->a, z));
	ASSERT_EQ(3, t_domain_query(self->a).out_buffers);
	t_update(self->a, g, w);
	ASSERT_EQ(2, t_domain_query(self->a).out_buffers);
	t_replay(self->a, g, OWNER);
	ASSERT_EQ(0, t_destroy(self->a, g));
	ASSERT_EQ(1, t_domain_query(self->a).out_buffers);
}

/* -------------------------------------------------------------- no memory */

/* A sealed child whose claims the parent cannot take in */
TEST_F(member, seal_child_without_memory)
{
	u_int64_t w, c;

	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	w = t_record(self->a, OWNER);
	for (unsigned int n = 1;; n++) {
		char *before;
		struct t_seal s;
		u_int64_t at = n % 90;

		c = t_record_child(self->a, OTHER, w);
		for (int i = 0; i < 3; i++)
			t_exit(self->a, t_enter(self->a, OTHER,
						C({ self->x, at + i, at + i + 1 }),
						C({ self->x, at + i, at + i + 2 })));
		t_end(self->a, OTHER);
		before = t_dump(self->a);
		capkm_test_fail_alloc(n);
		s = t_try_seal(self->a, c, 0);
		capkm_test_fail_alloc(0);
		if (!s.rc) {
			free(before);
			break;
		}
		ASSERT_EQ(-ENOMEM, s.rc);
		t_unchanged(self->a, before);
		ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	}
	t_end(self->a, OWNER);
	t_seal(self->a, w);
}

TEST_HARNESS_MAIN
