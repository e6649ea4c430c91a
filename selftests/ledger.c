// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ledgers: what is reserved is charged on all axes or on none, never above a limit and
 * never given back, whoever asks at the same time and whoever dies. The last test
 * compares random operations with a model.
 */
#include <pthread.h>

#include "calls.h"
#include "ledger_model.h"
#include "process.h"

/* @n on one axis, @rest on the others. */
static struct capkm_usage on(int i, u_int64_t n, u_int64_t rest)
{
	u_int64_t v[AXES] = { rest, rest, rest, rest };

	v[i] = n;
	return usage_of(v);
}

#define SAME(a, b) ({							\
	const struct capkm_usage a_ = (a), b_ = (b);			\
									\
	!memcmp(&a_, &b_, sizeof(a_));					\
})

static struct capkm_ledger_create with(struct capkm_usage per_step,
				       struct capkm_usage cumulative)
{
	return (struct capkm_ledger_create){
		.per_step = per_step, .cumulative = cumulative,
	};
}

static u_int64_t create(struct cl *cl, struct capkm_ledger_create a)
{
	T_OK(cl, LEDGER_CREATE, &a);
	return a.out_ledger;
}

static int try_fork(struct cl *cl, u_int64_t parent, u_int64_t most, u_int64_t *child)
{
	struct capkm_ledger_fork a = {
		.ledger = parent, .per_step = t_usage(most), .cumulative = t_usage(most),
	};
	int rc = t_call(cl, CAPKM_NR_LEDGER_FORK, &a);

	*child = a.out_ledger;
	return rc;
}

/* The reservation is charged. */
#define CHARGED(cl, ledger, u) do {					\
	struct t_reserve r_ = t_reserve(cl, ledger, u);			\
									\
	ASSERT_EQ(0, r_.rc);						\
	ASSERT_EQ(CAPKM_CLEAN, r_.a.out_result);			\
	ASSERT_EQ(CAPKM_AXIS_NONE, r_.a.out_axis);			\
	ASSERT_EQ(CAPKM_BOUND_NONE, r_.a.out_bound);			\
} while (0)

/* It is not, and nothing else is: the answer says where and why. */
#define NOT_CHARGED(cl, ledger, u, result, axis, bound) do {		\
	struct capkm_ledger_query was_ = t_ledger_query(cl, ledger), is_; \
	struct t_reserve r_ = t_reserve(cl, ledger, u);			\
									\
	ASSERT_EQ(0, r_.rc);						\
	ASSERT_EQ(result, r_.a.out_result);				\
	ASSERT_EQ(axis, r_.a.out_axis);					\
	ASSERT_EQ(bound, r_.a.out_bound);				\
	is_ = t_ledger_query(cl, ledger);				\
	ASSERT_TRUE(SAME(was_.out_step, is_.out_step));			\
	ASSERT_TRUE(SAME(was_.out_total, is_.out_total));		\
	ASSERT_EQ(was_.out_reserved, is_.out_reserved);			\
	ASSERT_EQ(was_.out_refused + 1, is_.out_refused);		\
} while (0)

FIXTURE(ledger)
{
	struct cl *a, *b;
};

FIXTURE_SETUP(ledger)
{
	self->a = t_client();
	self->b = t_client();
	t_domain_mode(self->a, 0666);
	t_attach(self->b, self->a->domain);
}

FIXTURE_TEARDOWN(ledger)
{
	t_close(self->b);
	end(self->a);
	t_no_leaks();
}

/* ------------------------------------------------------------ charging */

/* A new one is as it was asked for, and charged with nothing. */
TEST_F(ledger, created)
{
	struct capkm_ledger_create c = {
		.flags = CAPKM_LEDGER_F_SHARED, .per_step = { 1, 2, 3, 4 },
		.cumulative = { 5, 6, 7, 8 }, .on_limit = SKIPS,
		.label_uptr = t_ptr("decode"), .label_len = 6,
	};
	u_int64_t l = create(self->a, c);
	struct capkm_ledger_query q = t_ledger_query(self->b, l);

	ASSERT_EQ(l, q.out_ledger);
	ASSERT_EQ(self->a->session, q.out_holder);
	ASSERT_EQ(0, q.out_parent);
	ASSERT_EQ(CAPKM_LEDGER_F_SHARED, q.out_flags);
	ASSERT_EQ(SKIPS, q.out_on_limit);
	ASSERT_TRUE(SAME(c.per_step, q.out_per_step));
	ASSERT_TRUE(SAME(c.cumulative, q.out_cumulative));
	ASSERT_TRUE(SAME(t_usage(0), q.out_inherited));
	ASSERT_TRUE(SAME(t_usage(0), q.out_step));
	ASSERT_TRUE(SAME(t_usage(0), q.out_total));
	ASSERT_EQ(0, q.out_steps + q.out_reserved + q.out_refused);
	ASSERT_NE(0, q.out_created_ns);
	ASSERT_STREQ("decode", (char *)q.out_label);
	/* Ids are never used again. */
	ASSERT_EQ(0, t_ledger_destroy(self->a, l));
	ASSERT_EQ(l + 1, t_ledger(self->a, 0, 0, FAIL));
	c.on_limit = SKIPS + 1;
	ASSERT_EQ(-EINVAL, t_call(self->a, CAPKM_NR_LEDGER_CREATE, &c));
}

/* A walk by id meets each once, whatever has gone in between. */
TEST_F(ledger, walked)
{
	struct capkm_ledger_query q = { .flags = CAPKM_LEDGER_QUERY_F_NEXT };
	u_int64_t l[4];

	for (int i = 0; i < 4; i++)
		l[i] = t_ledger(self->a, 0, i, FAIL);
	ASSERT_EQ(0, t_ledger_destroy(self->a, l[1]));
	for (int i = 0; i < 4; i += 1 + !i) {
		T_OK(self->b, LEDGER_QUERY, &q);
		ASSERT_EQ(l[i], q.out_ledger);
		ASSERT_EQ(i, q.out_total.captures + q.out_cumulative.captures);
		q.ledger = q.out_ledger + 1;
	}
	ASSERT_EQ(-ENOENT, t_call(self->b, CAPKM_NR_LEDGER_QUERY, &q));
}

/* ER-10: a step begins with nothing, the total stays. */
TEST_F(ledger, step)
{
	u_int64_t l = create(self->a, with(t_usage(10), t_usage(25)));
	struct capkm_ledger_query q;

	/* What comes before the first step counts as one. */
	CHARGED(self->a, l, t_usage(10));
	NOT_CHARGED(self->a, l, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_STEP);
	ASSERT_EQ(1, t_step(self->a, l));
	q = t_ledger_query(self->a, l);
	ASSERT_TRUE(SAME(t_usage(0), q.out_step));
	ASSERT_TRUE(SAME(t_usage(10), q.out_total));
	CHARGED(self->a, l, t_usage(10));
	ASSERT_EQ(2, t_step(self->a, l));
	CHARGED(self->a, l, t_usage(5));
	NOT_CHARGED(self->a, l, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	q = t_ledger_query(self->a, l);
	ASSERT_TRUE(SAME(t_usage(5), q.out_step));
	ASSERT_TRUE(SAME(t_usage(25), q.out_total));
	ASSERT_EQ(2, q.out_steps);
	ASSERT_EQ(3, q.out_reserved);
	ASSERT_EQ(2, q.out_refused);
}

/* C96: the step's budget is fine all the time, and the total is used up at a step. */
TEST_F(ledger, c96_cumulative)
{
	u_int64_t l = create(self->a, with(t_usage(10), t_usage(133)));

	for (u_int64_t k = 1; k <= 13; k++) {
		ASSERT_EQ(k, t_step(self->a, l));
		CHARGED(self->a, l, t_usage(10));
	}
	t_step(self->a, l);
	NOT_CHARGED(self->a, l, t_usage(10), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	CHARGED(self->a, l, t_usage(3));
}

/* T-133: each budget, for a step and in all, and both answers. As much is allowed. */
TEST_F(ledger, t133_each_budget)
{
	for (int i = 0; i < AXES; i++) {
		for (unsigned int policy = FAIL; policy <= SKIPS; policy++) {
			for (int total = 0; total < 2; total++) {
				struct capkm_usage tight = on(i, 100, 1000);
				struct capkm_usage wide = t_usage(1000);
				struct capkm_ledger_create c =
					total ? with(wide, tight) : with(tight, wide);
				struct t_reserve r;
				u_int64_t l;

				c.on_limit = policy;
				l = create(self->a, c);
				CHARGED(self->a, l, on(i, 60, 1));
				NOT_CHARGED(self->a, l, on(i, 41, 1),
					    policy ? CAPKM_SKIPPED : CAPKM_REFUSED, axes[i],
					    total ? CAPKM_BOUND_TOTAL : CAPKM_BOUND_STEP);
				r = t_reserve(self->a, l, on(i, 41, 1));
				ASSERT_EQ(0, r.rc);
				ASSERT_EQ(60, r.a.out_used);
				ASSERT_EQ(100, r.a.out_most);
				CHARGED(self->a, l, on(i, 40, 1));
				ASSERT_EQ(0, t_ledger_destroy(self->a, l));
			}
		}
	}
}

/* ER-4, ER-11: the step before the total, and of the axes the first. */
TEST_F(ledger, order_of_limits)
{
	u_int64_t l = create(self->a, with((struct capkm_usage){ 9, 9, 9, 5 },
					   (struct capkm_usage){ 9, 5, 5, 9 }));

	NOT_CHARGED(self->a, l, t_usage(6), CAPKM_REFUSED, CAPKM_AXIS_ENCODED,
		    CAPKM_BOUND_STEP);
	NOT_CHARGED(self->a, l, on(3, 5, 6), CAPKM_REFUSED, CAPKM_AXIS_RETAINED,
		    CAPKM_BOUND_TOTAL);
	NOT_CHARGED(self->a, l, t_usage(10), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_STEP);
	CHARGED(self->a, l, t_usage(5));
	/* Nothing is always charged, also when all is used. */
	CHARGED(self->a, l, t_usage(0));
}

/* T-136: a sum that does not fit is an error before any limit is. */
TEST_F(ledger, t136_overflow)
{
	for (int i = 0; i < AXES; i++) {
		u_int64_t l = create(self->a, with(on(i, MAX, 10), on(i, MAX, 10)));
		u_int64_t full = t_ledger(self->a, 0, 1, SKIPS);

		CHARGED(self->a, l, on(i, MAX, 0));
		T_REFUSED(self->a, -EOVERFLOW, t_reserve(self->a, l, on(i, 1, 0)).rc);
		/* Beside an axis that is over its limit, too. */
		T_REFUSED(self->a, -EOVERFLOW, t_reserve(self->a, l, on(i, 1, 11)).rc);
		CHARGED(self->a, l, on(i, 0, 10));
		/* In a new step only the total is. */
		t_step(self->a, l);
		T_REFUSED(self->a, -EOVERFLOW, t_reserve(self->a, l, on(i, MAX, 0)).rc);
		CHARGED(self->a, l, t_usage(0));
		CHARGED(self->a, full, t_usage(1));
		T_REFUSED(self->a, -EOVERFLOW, t_reserve(self->a, full, on(i, MAX, 0)).rc);
		ASSERT_EQ(0, t_ledger_destroy(self->a, l));
		ASSERT_EQ(0, t_ledger_destroy(self->a, full));
	}
}

/* T-145: what was charged before a step failed stays, and the next one fails too. */
TEST_F(ledger, t145_no_refund)
{
	u_int64_t l = create(self->a, with(t_usage(10), t_usage(15)));

	CHARGED(self->a, l, t_usage(9));
	t_step(self->a, l);
	CHARGED(self->a, l, t_usage(6));
	NOT_CHARGED(self->a, l, t_usage(4), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	for (int i = 0; i < 3; i++) {
		t_step(self->a, l);
		NOT_CHARGED(self->a, l, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
			    CAPKM_BOUND_TOTAL);
	}
}

/* ----------------------------------------------------------- inheriting */

/* ER-13: a ledger that begins with what another run has used. */
TEST_F(ledger, inherited)
{
	struct capkm_ledger_create c = with(t_usage(10), t_usage(100));
	struct capkm_ledger_query q;
	u_int64_t l;

	c.inherited = t_usage(95);
	l = create(self->a, c);
	q = t_ledger_query(self->a, l);
	ASSERT_TRUE(SAME(t_usage(95), q.out_inherited));
	ASSERT_TRUE(SAME(t_usage(95), q.out_total));
	ASSERT_TRUE(SAME(t_usage(0), q.out_step));
	NOT_CHARGED(self->a, l, t_usage(6), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	CHARGED(self->a, l, t_usage(5));
	c.inherited = t_usage(100);
	create(self->a, c);
	for (int i = 0; i < AXES; i++) {
		c.inherited = on(i, 101, 100);
		T_REFUSED(self->a, -EDQUOT,
			  t_call(self->a, CAPKM_NR_LEDGER_CREATE, &c));
		ASSERT_EQ(-EDQUOT, t_call(self->a, CAPKM_NR_LEDGER_CREATE, &c));
		ASSERT_EQ(CAPKM_LIMIT_LEDGER_CAPTURES + i, self->a->limit);
	}
}

/* T-143, ER-45, ER-46: a fork inherits, and then neither knows of the other. */
TEST_F(ledger, t143_fork)
{
	u_int64_t l = t_ledger(self->a, 0, 100, FAIL), child, none;
	struct capkm_ledger_query q;

	CHARGED(self->a, l, t_usage(30));
	ASSERT_EQ(0, try_fork(self->a, l, 50, &child));
	ASSERT_NE(l, child);
	q = t_ledger_query(self->a, child);
	ASSERT_EQ(l, q.out_parent);
	ASSERT_EQ(self->a->session, q.out_holder);
	ASSERT_TRUE(SAME(t_usage(30), q.out_inherited));
	ASSERT_TRUE(SAME(t_usage(30), q.out_total));
	ASSERT_TRUE(SAME(t_usage(0), q.out_step));
	CHARGED(self->a, child, t_usage(20));
	CHARGED(self->a, l, t_usage(60));
	ASSERT_TRUE(SAME(t_usage(90), t_ledger_query(self->a, l).out_total));
	ASSERT_TRUE(SAME(t_usage(50), t_ledger_query(self->a, child).out_total));
	/* Limits that are what is inherited leave no room; lower ones are refused. */
	ASSERT_EQ(0, try_fork(self->a, l, 90, &none));
	NOT_CHARGED(self->a, none, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	T_REFUSED(self->a, -EDQUOT, try_fork(self->a, l, 89, &none));
	/* The parent is not needed any more. */
	ASSERT_EQ(0, t_ledger_destroy(self->a, l));
	ASSERT_EQ(l, t_ledger_query(self->a, child).out_parent);
	T_REFUSED(self->a, -ENOENT, try_fork(self->a, l, 200, &none));
	T_REFUSED(self->b, -EPERM, try_fork(self->b, child, 200, &none));
}

/* ------------------------------------------------------- holder and others */

TEST_F(ledger, of_another_session)
{
	u_int64_t own = t_ledger(self->a, 0, 100, FAIL);
	u_int64_t shared = t_ledger(self->a, CAPKM_LEDGER_F_SHARED, 100, FAIL);

	T_REFUSED(self->b, -EPERM, t_reserve(self->b, own, t_usage(1)).rc);
	T_REFUSED(self->b, -EPERM, try_step(self->b, own));
	T_REFUSED(self->b, -EPERM, t_ledger_destroy(self->b, own));
	T_REFUSED(self->b, -EBUSY, t_adopt(self->b, own));
	/* All may reserve in this one, no more. */
	CHARGED(self->b, shared, t_usage(60));
	NOT_CHARGED(self->a, shared, t_usage(41), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_STEP);
	T_REFUSED(self->b, -EPERM, try_step(self->b, shared));
	T_REFUSED(self->b, -EPERM, t_ledger_destroy(self->b, shared));
	T_REFUSED(self->b, -EBUSY, t_adopt(self->b, shared));
	/* What one holds may be adopted for ever, and nothing happens. */
	T_REFUSED(self->a, 0, t_adopt(self->a, own));
}

/* A ledger is its session's, so that all clients of that use it. */
TEST_F(ledger, second_client)
{
	struct cl *a = t_process(), *second;
	u_int64_t l;

	t_attach(a, self->a->domain);
	l = t_ledger(a, 0, 100, FAIL);
	second = t_join_session(a);
	CHARGED(second, l, t_usage(10));
	ASSERT_EQ(1, t_step(second, l));
	t_kill(a);
	/* The session goes on with it, and so nobody may take it away. */
	CHARGED(second, l, t_usage(10));
	T_REFUSED(self->b, -EBUSY, t_adopt(self->b, l));
	t_kill(second);
	ASSERT_EQ(0, t_ledger_query(self->b, l).out_holder);
	ASSERT_EQ(0, t_adopt(self->b, l));
	ASSERT_TRUE(SAME(t_usage(20), t_ledger_query(self->b, l).out_total));
}

/* Its process dies in mid-step: all is there for the next one, and only for one. */
TEST_F(ledger, adopted)
{
	struct capkm_ledger_query was, is;
	struct cl *dying;
	u_int64_t l;

	for (int close = 0; close < 2; close++) {
		dying = t_process();
		t_attach(dying, self->a->domain);
		l = t_ledger(dying, 0, 100, SKIPS);
		CHARGED(dying, l, t_usage(30));
		t_step(dying, l);
		CHARGED(dying, l, t_usage(20));
		NOT_CHARGED(dying, l, t_usage(51), CAPKM_SKIPPED, CAPKM_AXIS_CAPTURES,
			    CAPKM_BOUND_TOTAL);
		was = t_ledger_query(self->b, l);
		if (close)
			t_close(dying);
		else
			t_kill(dying);
		is = t_ledger_query(self->b, l);
		ASSERT_EQ(0, is.out_holder);
		is.out_holder = was.out_holder;
		ASSERT_EQ(0, memcmp(&was, &is, sizeof(was)));
		/* Until then it is nobody's. */
		T_REFUSED(self->b, -EPERM, t_reserve(self->b, l, t_usage(1)).rc);
		T_REFUSED(self->b, -EPERM, try_step(self->b, l));
		T_REFUSED(self->b, -EPERM, t_ledger_destroy(self->b, l));
		ASSERT_EQ(0, t_adopt(self->b, l));
		T_REFUSED(self->a, -EBUSY, t_adopt(self->a, l));
		is = t_ledger_query(self->b, l);
		ASSERT_EQ(self->b->session, is.out_holder);
		is.out_holder = was.out_holder;
		ASSERT_EQ(0, memcmp(&was, &is, sizeof(was)));
		/* In the same step, then in the next. */
		CHARGED(self->b, l, t_usage(1));
		ASSERT_EQ(2, t_step(self->b, l));
		CHARGED(self->b, l, t_usage(49));
		NOT_CHARGED(self->b, l, t_usage(1), CAPKM_SKIPPED, CAPKM_AXIS_CAPTURES,
			    CAPKM_BOUND_TOTAL);
	}
}

/* One that all may use is used on after its holder's death, in its last step. */
TEST_F(ledger, shared_without_holder)
{
	struct cl *dying = t_process();
	u_int64_t l;

	t_attach(dying, self->a->domain);
	l = t_ledger(dying, CAPKM_LEDGER_F_SHARED, 100, FAIL);
	CHARGED(dying, l, t_usage(50));
	t_kill(dying);
	CHARGED(self->a, l, t_usage(50));
	NOT_CHARGED(self->b, l, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_STEP);
	T_REFUSED(self->a, -EPERM, try_step(self->a, l));
}

/* Only the domain's owner adopts, whatever the mode lets others do. */
TEST_F(ledger, owner_adopts)
{
	struct cl *other, *dying;
	struct capkm_ledger_create c = { .flags = CAPKM_LEDGER_F_DOMAIN };
	u_int64_t l;

	if (getuid())
		SKIP(return, "needs root");
	ASSERT_EQ(0, seteuid(65534));
	other = t_process();
	t_attach(other, self->a->domain);
	dying = t_process();
	t_attach(dying, self->a->domain);
	ASSERT_EQ(0, seteuid(0));
	l = t_ledger(dying, 0, 100, FAIL);
	CHARGED(dying, l, t_usage(10));
	t_kill(dying);
	/* Not even whose it was; it may have ledgers, but not that of the domain. */
	T_REFUSED(other, -EPERM, t_adopt(other, l));
	T_REFUSED(other, -EPERM, t_call(other, CAPKM_NR_LEDGER_CREATE, &c));
	t_ledger(other, 0, 100, FAIL);
	ASSERT_EQ(0, t_adopt(self->b, l));
	t_close(other);
}

/* A ledger keeps its domain as a report does: to be looked at, no more. */
TEST(defunct)
{
	struct cl *a = t_client(), *b = t_client();
	struct capkm_domain_attach at;
	struct capkm_domain_destroy d = { 0 };
	u_int64_t l;

	t_domain(a);
	at = (struct capkm_domain_attach){ .domain = a->domain };
	d.domain = a->domain;
	l = t_ledger(a, 0, 100, FAIL);
	t_charge(a, l, 1);
	t_close(a);
	ASSERT_EQ(-ENOENT, t_call(b, CAPKM_NR_DOMAIN_ATTACH, &at));
	/* It is there nevertheless. */
	ASSERT_EQ(0, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &d));
	ASSERT_EQ(-ENOENT, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &d));
	/* One whose ledgers were destroyed is gone at once. */
	a = t_client();
	d.domain = t_domain(a);
	l = t_ledger(a, 0, 100, FAIL);
	ASSERT_EQ(0, t_ledger_destroy(a, l));
	t_close(a);
	ASSERT_EQ(-ENOENT, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &d));
	t_close(b);
	t_no_leaks();
}

/* A persistent domain outlives all its processes, and its ledger with it. */
TEST(persistent)
{
	struct capkm_domain_create c = { .flags = CAPKM_DOMAIN_CREATE_F_PERSISTENT };
	struct capkm_domain_destroy d = { 0 };
	struct cl *a = t_process();
	u_int64_t l;

	T_OK(a, DOMAIN_CREATE, &c);
	d.domain = c.out_domain;
	l = t_ledger(a, 0, 100, FAIL);
	t_charge(a, l, 70);
	t_kill(a);
	a = t_process();
	t_attach(a, d.domain);
	ASSERT_EQ(0, t_adopt(a, l));
	NOT_CHARGED(a, l, t_usage(31), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES, CAPKM_BOUND_STEP);
	CHARGED(a, l, t_usage(30));
	T_OK(a, DOMAIN_DESTROY, &d);
	t_close(a);
	t_no_leaks();
}

/* ---------------------------------------------- retained bytes of windows */

TEST_F(ledger, retained)
{
	u_int64_t l, w = t_record(self->a, 1), g;
	struct capkm_ledger_create c = { .flags = CAPKM_LEDGER_F_DOMAIN };
	struct capkm_ledger_query q;

	/* Without one there is no limit; and other ledgers are not charged. */
	ASSERT_EQ(0, t_retain(self->a, w, 0x1000, 1 << 20, CAPKM_RETAIN_READ));
	l = create(self->b, with(t_usage(0), t_usage(0)));
	ASSERT_EQ(0, t_retain(self->a, w, 0x2000, 1 << 20, CAPKM_RETAIN_READ));
	ASSERT_EQ(0, t_ledger_query(self->a, l).out_total.host_bytes);

	c.per_step = on(2, 100, 0);
	c.cumulative = on(2, 150, 0);
	c.on_limit = SKIPS;
	l = create(self->b, c);
	T_REFUSED(self->a, -EEXIST, t_call(self->a, CAPKM_NR_LEDGER_CREATE, &c));
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 60, CAPKM_RETAIN_READ));
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 40, CAPKM_RETAIN_WRITE));
	T_REFUSED(self->a, -EDQUOT, t_retain(self->a, w, 0x3000, 1, CAPKM_RETAIN_READ));
	t_retain(self->a, w, 0x3000, 1, CAPKM_RETAIN_READ);
	ASSERT_EQ(CAPKM_LIMIT_LEDGER_HOST, self->a->limit);
	t_step(self->b, l);
	T_REFUSED(self->a, -EDQUOT, t_retain(self->a, w, 0x3000, 51, CAPKM_RETAIN_READ));
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 50, CAPKM_RETAIN_READ));
	T_REFUSED(self->a, -EOVERFLOW,
		  t_retain(self->a, w, 0x3000, MAX, CAPKM_RETAIN_READ));
	q = t_ledger_query(self->a, l);
	ASSERT_TRUE(SAME(on(2, 150, 0), q.out_total));
	ASSERT_EQ(3, q.out_reserved);
	/* Neither the graph's end nor a refusal gives anything back. */
	t_end(self->a, 1);
	g = t_seal(self->a, w);
	ASSERT_EQ(0, t_destroy(self->a, g));
	w = t_record(self->a, 1);
	t_abort(self->a, 1);
	ASSERT_TRUE(SAME(on(2, 150, 0), t_ledger_query(self->a, l).out_total));
	/* What cannot be done for another reason is not charged. */
	ASSERT_EQ(-EINVAL, t_retain(self->a, w, 0x3000, 0, CAPKM_RETAIN_READ));
	ASSERT_EQ(3, t_ledger_query(self->a, l).out_reserved);
	/* The domain has none when it is gone. */
	ASSERT_EQ(0, t_ledger_destroy(self->b, l));
	w = t_record(self->a, 1);
	ASSERT_EQ(0, t_retain(self->a, w, 0x3000, 1 << 20, CAPKM_RETAIN_READ));
	create(self->a, c);
}

/* ------------------------------------------------------------------ limits */

TEST(how_many)
{
	struct cl *a = t_client(), *b = t_client();
	u_int64_t l, none;

	t_domain_limit(a, CAPKM_LIMIT_LEDGERS, 2);
	t_attach(b, a->domain);
	l = t_ledger(a, 0, 0, FAIL);
	t_ledger(b, 0, 0, FAIL);
	T_REFUSED(a, -ENOSPC, try_fork(a, l, 0, &none));
	ASSERT_EQ(-ENOSPC, try_fork(a, l, 0, &none));
	ASSERT_EQ(CAPKM_LIMIT_LEDGERS, a->limit);
	/* Those that nobody holds count; their domain's owner takes them away. */
	t_close(b);
	ASSERT_EQ(-ENOSPC, try_fork(a, l, 0, &none));
	ASSERT_EQ(0, t_adopt(a, l + 1));
	ASSERT_EQ(0, t_ledger_destroy(a, l + 1));
	ASSERT_EQ(0, try_fork(a, l, 0, &none));
	end(a);
	t_no_leaks();
}

/*
 * What an administrator allows bounds each ledger, whatever it was created with, and all
 * of them together, whoever makes how many of them.
 */
TEST(of_the_domain)
{
	for (int i = 0; i < AXES; i++) {
		struct capkm_ledger_create c = with(t_usage(MAX), t_usage(MAX));
		struct cl *a = t_client();
		struct t_reserve r;
		u_int64_t l, m;

		t_domain_limit(a, CAPKM_LIMIT_LEDGER_CAPTURES + i, 100);
		l = create(a, c);
		m = create(a, c);
		CHARGED(a, l, on(i, 60, 1000));
		t_step(a, l);
		NOT_CHARGED(a, l, on(i, 41, 0), CAPKM_REFUSED, axes[i],
			    CAPKM_BOUND_DOMAIN);
		r = t_reserve(a, l, on(i, 41, 0));
		ASSERT_EQ(60, r.a.out_used);
		ASSERT_EQ(100, r.a.out_most);
		CHARGED(a, l, on(i, 30, 0));
		NOT_CHARGED(a, m, on(i, 11, 0), CAPKM_REFUSED, axes[i],
			    CAPKM_BOUND_DOMAIN);
		r = t_reserve(a, m, on(i, 11, 0));
		ASSERT_EQ(90, r.a.out_used);
		CHARGED(a, m, on(i, 5, 0));
		/* Neither one that is new, nor one less, is room for more. */
		ASSERT_EQ(0, t_ledger_destroy(a, l));
		l = create(a, c);
		NOT_CHARGED(a, l, on(i, 6, 0), CAPKM_REFUSED, axes[i], CAPKM_BOUND_DOMAIN);
		/* What is inherited is no charge, but counts for the ledger itself. */
		c.inherited = on(i, 98, 0);
		l = create(a, c);
		ASSERT_EQ(0, try_fork(a, l, MAX, &m));
		ASSERT_TRUE(SAME(on(i, 95, 1000), t_domain_query(a).out_charged));
		r = t_reserve(a, m, on(i, 3, 0));
		ASSERT_EQ(CAPKM_BOUND_DOMAIN, r.a.out_bound);
		ASSERT_EQ(98, r.a.out_used);
		CHARGED(a, m, on(i, 2, 0));
		CHARGED(a, l, on(i, 2, 0));
		NOT_CHARGED(a, l, on(i, 1, 0), CAPKM_REFUSED, axes[i], CAPKM_BOUND_DOMAIN);
		ASSERT_TRUE(SAME(on(i, 99, 1000), t_domain_query(a).out_charged));
		c.inherited = on(i, 101, 0);
		T_REFUSED(a, -EDQUOT, t_call(a, CAPKM_NR_LEDGER_CREATE, &c));
		ASSERT_EQ(-EDQUOT, t_call(a, CAPKM_NR_LEDGER_CREATE, &c));
		ASSERT_EQ(CAPKM_LIMIT_LEDGER_CAPTURES + i, a->limit);
		end(a);
	}
	t_no_leaks();
}

/* The sum of a domain stops at the highest number: it is in nobody's way without a limit. */
TEST_F(ledger, of_the_domain_highest)
{
	u_int64_t l[3];

	for (int i = 0; i < 3; i++) {
		l[i] = create(self->a, with(t_usage(MAX), t_usage(MAX)));
		CHARGED(self->a, l[i], on(1, MAX - 1, 7));
		ASSERT_TRUE(SAME(on(1, i ? MAX : MAX - 1, 7 * (i + 1)),
				 t_domain_query(self->a).out_charged));
	}
	ASSERT_EQ(3, t_domain_query(self->a).out_ledgers);
	/* What did not fit is in no sum. */
	T_REFUSED(self->a, -EOVERFLOW, t_reserve(self->a, l[0], on(1, 2, 1)).rc);
	ASSERT_EQ(0, t_ledger_destroy(self->a, l[0]));
	ASSERT_EQ(2, t_domain_query(self->a).out_ledgers);
	ASSERT_TRUE(SAME(on(1, MAX, 21), t_domain_query(self->a).out_charged));
}

/* ------------------------------------------------------------------ events */

static int read_fn(struct capkm *c, void *arg)
{
	unsigned int n = 0;

	capkm_events_read(c, arg, 1, 0, &n, NULL);
	return n;
}

static bool next_refusal(struct cl *cl, struct capkm_event *e)
{
	while (t_run(cl, read_fn, e, sizeof(*e)) == 1)
		if (e->type == CAPKM_EVENT_LEDGER_REFUSED)
			return true;
	return false;
}

/* The first refusal of each step is told, and the others are counted. */
TEST_F(ledger, events)
{
	struct capkm_ledger_create c = with(on(2, 5, 9), on(0, 7, MAX));
	struct capkm_event e;
	u_int64_t l, w;

	c.flags = CAPKM_LEDGER_F_SHARED | CAPKM_LEDGER_F_DOMAIN;
	c.on_limit = SKIPS;
	l = create(self->a, c);
	CHARGED(self->b, l, t_usage(5));
	ASSERT_FALSE(next_refusal(self->a, &e));
	NOT_CHARGED(self->b, l, t_usage(2), CAPKM_SKIPPED, CAPKM_AXIS_HOST,
		    CAPKM_BOUND_STEP);
	NOT_CHARGED(self->b, l, t_usage(9), CAPKM_SKIPPED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_STEP);
	ASSERT_TRUE(next_refusal(self->a, &e));
	ASSERT_EQ(l, e.ledger);
	ASSERT_EQ(CAPKM_AXIS_HOST, e.axis);
	ASSERT_EQ(CAPKM_BOUND_STEP, e.bound);
	ASSERT_EQ(self->b->session, e.session);
	ASSERT_EQ(0, e.window | e.graph | e.failure | e.count);
	ASSERT_FALSE(next_refusal(self->a, &e));
	t_step(self->a, l);
	NOT_CHARGED(self->b, l, t_usage(3), CAPKM_SKIPPED, CAPKM_AXIS_CAPTURES,
		    CAPKM_BOUND_TOTAL);
	ASSERT_TRUE(next_refusal(self->a, &e));
	ASSERT_EQ(CAPKM_AXIS_CAPTURES, e.axis);
	ASSERT_EQ(CAPKM_BOUND_TOTAL, e.bound);
	ASSERT_FALSE(next_refusal(self->a, &e));
	/* What a window could not retain is told as well. */
	t_step(self->a, l);
	w = t_record(self->b, 1);
	ASSERT_EQ(-EDQUOT, t_retain(self->b, w, 0x1000, 6, CAPKM_RETAIN_READ));
	ASSERT_TRUE(next_refusal(self->a, &e));
	ASSERT_EQ(CAPKM_AXIS_HOST, e.axis);
}

/* -------------------------------------------------------------- the library */

TEST_F(ledger, library)
{
	struct capkm *c = self->a->c;
	struct capkm_reservation r = CAPKM_OPTS(struct capkm_reservation);
	struct capkm_usage u = { 1, 20, 300, 4000 }, inherited;
	struct capkm_ledger_query q = {
		.size = sizeof(q), .flags = CAPKM_LEDGER_QUERY_F_NEXT,
	};
	u_int64_t l, child, steps;

	/* Nothing said is nothing allowed. */
	OK(capkm_ledger_create(c, NULL, &l, &err));
	REFUSED(-EDQUOT, capkm_ledger_reserve(c, l, &u, NULL, &err));
	SAYS("ledger_reserve: ledger 1: limit 'captures' of 0 in a step: 0 are used, and 1 more are asked for");
	OK(capkm_ledger_destroy(c, l, &err));

	OK(capkm_ledger_create(c, WITH(struct capkm_ledger_opts, .label = "a run",
				       .per_step = t_usage(5000),
				       .cumulative = t_usage(7000)), &l, &err));
	OK(capkm_ledger_begin_step(c, l, &steps, &err));
	ASSERT_EQ(1, steps);
	OK(capkm_ledger_begin_step(c, l, NULL, &err));
	OK(capkm_ledger_reserve(c, l, &u, &r, &err));
	ASSERT_EQ(CAPKM_CLEAN, r.out_result);
	REFUSED(-EDQUOT, capkm_ledger_reserve(c, l, &u, &r, &err));
	SAYS("limit 'encoded' of 5000 in a step: 4000 are used, and 4000 more are asked for");
	ASSERT_EQ(CAPKM_REFUSED, r.out_result);
	ASSERT_EQ(CAPKM_AXIS_ENCODED, r.out_axis);
	ASSERT_EQ(CAPKM_BOUND_STEP, r.out_bound);
	ASSERT_EQ(4000, r.out_used);
	ASSERT_EQ(5000, r.out_most);
	OK(capkm_ledger_begin_step(c, l, NULL, &err));
	REFUSED(-EDQUOT, capkm_ledger_reserve(c, l, &u, NULL, &err));
	SAYS("of 7000 in all: ");
	u.host_bytes = MAX;
	REFUSED(-EOVERFLOW, capkm_ledger_reserve(c, l, &u, &r, &err));
	SAYS("do not fit into 64 bits");
	REFUSED(-ENOENT, capkm_ledger_reserve(c, 99, &u, &r, &err));
	SAYS("ledger 99: no such id in this domain");
	r.sz = 0;
	REFUSED(-EINVAL, capkm_ledger_reserve(c, l, &u, &r, &err));
	SAYS("CAPKM_OPTS()");

	/* One that skips answers, and is no error. */
	REFUSED(-EINVAL, capkm_ledger_fork(c, l, WITH(struct capkm_ledger_opts,
		.inherited.captures = 1), &child, NULL, &err));
	SAYS("inherited must be 0");
	REFUSED(-EDQUOT, capkm_ledger_fork(c, l, NULL, &child, NULL, &err));
	SAYS("ledger_fork: ledger 2: limit 'captures of a ledger' is reached");
	ASSERT_EQ(CAPKM_LIMIT_LEDGER_CAPTURES, err.limit);
	OK(capkm_ledger_fork(c, l, WITH(struct capkm_ledger_opts, .on_limit = SKIPS,
		.per_step = t_usage(4000), .cumulative = t_usage(4000)), &child,
		&inherited, &err));
	ASSERT_EQ(4000, inherited.encoded_bytes);
	r.sz = sizeof(r);
	u = (struct capkm_usage){ 0, 0, 0, 1 };
	OK(capkm_ledger_reserve(c, child, &u, &r, &err));
	ASSERT_EQ(CAPKM_SKIPPED, r.out_result);
	ASSERT_EQ(CAPKM_BOUND_TOTAL, r.out_bound);

	OK(capkm_ledger_query(c, &q, &err));
	ASSERT_EQ(l, q.out_ledger);
	ASSERT_STREQ("a run", (char *)q.out_label);
	REFUSED(-EPERM, capkm_ledger_destroy(self->b->c, l, &err));
	SAYS("another session holds it");
	REFUSED(-EBUSY, capkm_ledger_adopt(self->b->c, l, &err));
	SAYS("ledger_adopt: ledger 2: another session holds it, and a process of that lives");
	OK(capkm_ledger_adopt(c, l, &err));
	REFUSED(-EINVAL, capkm_ledger_create(c, WITH(struct capkm_ledger_opts,
		.on_limit = 7), &l, &err));
	SAYS("CAPKM_ON_LIMIT_");

	ASSERT_STREQ("captures", capkm_axis_name(CAPKM_AXIS_CAPTURES));
	ASSERT_STREQ("retention", capkm_axis_name(CAPKM_AXIS_RETAINED));
	ASSERT_STREQ("host", capkm_axis_name(CAPKM_AXIS_HOST));
	ASSERT_STREQ("encoded", capkm_axis_name(CAPKM_AXIS_ENCODED));
	ASSERT_STREQ("none", capkm_axis_name(CAPKM_AXIS_NONE));
	ASSERT_STREQ("unknown", capkm_axis_name(99));
	ASSERT_STREQ("ledger refused", capkm_event_name(CAPKM_EVENT_LEDGER_REFUSED));
}

/* ------------------------------------------------------------ at the same time */

struct asker {
	struct capkm *c;
	u_int64_t ledger;
	struct capkm_usage each;
	unsigned int times;
	u_int64_t charged, refused;
	int rc;
	pthread_barrier_t *all;
};

static void *ask(void *arg)
{
	struct asker *t = arg;

	pthread_barrier_wait(t->all);
	for (unsigned int i = 0; i < t->times && !t->rc; i++) {
		t->rc = capkm_ledger_reserve(t->c, t->ledger, &t->each, NULL, NULL);
		if (t->rc == -EDQUOT) {
			t->refused++;
			t->rc = 0;
		} else if (!t->rc) {
			t->charged++;
		}
	}
	return NULL;
}

/* C93: four requests of 75 MiB at once, where 218 are free: two are admitted. */
TEST_F(ledger, c93_four_threads)
{
	pthread_barrier_t all;
	pthread_t thread[4];
	struct asker t[4];

	pthread_barrier_init(&all, NULL, 4);
	for (int round = 0; round < 50; round++) {
		u_int64_t l = t_ledger(self->a, CAPKM_LEDGER_F_SHARED, 218ull << 20, FAIL);
		u_int64_t charged = 0;

		for (int i = 0; i < 4; i++) {
			t[i] = (struct asker){
				.c = i % 2 ? self->a->c : self->b->c, .ledger = l,
				.each = on(1, 75ull << 20, 1), .times = 1, .all = &all,
			};
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, ask, &t[i]));
		}
		for (int i = 0; i < 4; i++) {
			ASSERT_EQ(0, pthread_join(thread[i], NULL));
			ASSERT_EQ(0, t[i].rc);
			charged += t[i].charged;
		}
		ASSERT_EQ(2, charged);
		ASSERT_TRUE(SAME(on(1, 150ull << 20, 2),
				 t_ledger_query(self->a, l).out_total));
		ASSERT_EQ(0, t_ledger_destroy(self->a, l));
	}
	pthread_barrier_destroy(&all);
}

/* What a process has been told of its reservations, where the test sees it. */
struct racer {
	u_int64_t ledger;
	u_int64_t charged;	/* it knows of so many, each of 3 on each axis */
	u_int64_t until;	/* then it ends; or at the first that does not fit */
	int rc;
};

static int race_fn(struct capkm *c, void *arg)
{
	struct racer *r = arg;
	const struct capkm_usage three = { 3, 3, 3, 3 };
	struct capkm_reservation a = CAPKM_OPTS(struct capkm_reservation);

	for (;;) {
		r->rc = capkm_ledger_reserve(c, r->ledger, &three, &a, NULL);
		if (r->rc || a.out_result != CAPKM_CLEAN)
			return r->rc;
		if (__atomic_add_fetch(&r->charged, 1, __ATOMIC_SEQ_CST) == r->until)
			return 0;
	}
}

/* t_run() in two halves, so that several run at once. */
static struct racer *go(struct cl *cl, struct racer r)
{
	struct racer *there = (void *)cl->rpc->arg;

	*there = r;
	cl->rpc->fn = race_fn;
	if (write(cl->sock, "", 1) != 1)
		t_die("the process of a client is gone");
	return there;
}

static void finish(struct cl *cl)
{
	char token;

	if (read(cl->sock, &token, 1) != 1)
		t_die("the process of a client is gone");
}

/* Two processes on one ledger: never above the limit, and nothing is lost. */
TEST_F(ledger, race)
{
	struct cl *p[2];
	struct racer *r[2];
	u_int64_t l;

	ONLY_KERNEL();
	for (int i = 0; i < 2; i++) {
		p[i] = t_process();
		t_attach(p[i], self->a->domain);
	}
	for (int round = 0; round < 5; round++) {
		l = t_ledger(self->a, CAPKM_LEDGER_F_SHARED, 10000, SKIPS);
		for (int i = 0; i < 2; i++)
			r[i] = go(p[i], (struct racer){ .ledger = l, .until = MAX });
		for (int i = 0; i < 2; i++) {
			finish(p[i]);
			ASSERT_EQ(0, r[i]->rc);
		}
		ASSERT_EQ(3333, r[0]->charged + r[1]->charged);
		ASSERT_TRUE(SAME(t_usage(9999), t_ledger_query(self->a, l).out_total));
		ASSERT_EQ(0, t_ledger_destroy(self->a, l));
	}
	t_close(p[0]);
	t_close(p[1]);
}

/*
 * One of them holds it and is killed in the middle of a step: what it knew of is
 * charged, and at most the one reservation that was under way beside it. Somebody else
 * adopts it and goes on to the limit.
 */
TEST_F(ledger, killed_in_mid_step)
{
	struct capkm_ledger_query q;
	struct cl *p[2];
	struct racer *r[2];
	u_int64_t l, known, other;

	ONLY_KERNEL();
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 2; i++) {
			p[i] = t_process();
			t_attach(p[i], self->a->domain);
		}
		l = t_ledger(p[0], CAPKM_LEDGER_F_SHARED, 3000000, FAIL);
		t_step(p[0], l);
		r[0] = go(p[0], (struct racer){ .ledger = l, .until = MAX });
		r[1] = go(p[1], (struct racer){ .ledger = l, .until = 2000 });
		UNTIL(__atomic_load_n(&r[0]->charged, __ATOMIC_SEQ_CST) > 500);
		kill(p[0]->pid, SIGKILL);
		waitpid(p[0]->pid, NULL, 0);
		known = r[0]->charged;
		finish(p[1]);
		ASSERT_EQ(0, r[1]->rc);
		other = r[1]->charged;
		ASSERT_EQ(2000, other);
		UNTIL(!t_ledger_query(self->b, l).out_holder);
		q = t_ledger_query(self->b, l);
		ASSERT_GE(q.out_reserved, known + other);
		ASSERT_LE(q.out_reserved, known + other + 1);
		ASSERT_TRUE(SAME(t_usage(3 * q.out_reserved), q.out_total));
		ASSERT_TRUE(SAME(q.out_total, q.out_step));
		ASSERT_EQ(1, q.out_steps);
		ASSERT_EQ(0, t_adopt(self->b, l));
		NOT_CHARGED(self->b, l, t_usage(3000001 - q.out_total.captures),
			    CAPKM_REFUSED, CAPKM_AXIS_CAPTURES, CAPKM_BOUND_STEP);
		CHARGED(self->b, l, t_usage(3000000 - q.out_total.captures));
		t_step(self->b, l);
		NOT_CHARGED(self->b, l, t_usage(1), CAPKM_REFUSED, CAPKM_AXIS_CAPTURES,
			    CAPKM_BOUND_TOTAL);
		ASSERT_EQ(0, t_ledger_destroy(self->b, l));
		t_kill(p[0]);
		t_close(p[1]);
	}
}

static void world_run(u_int64_t seed, unsigned int operations)
{
	struct world w = { .seed = seed, .choices.rng = seed };

	world_begin(&w);
	for (w.at = 0; w.at < operations; w.at++) {
		operate(&w);
		if (t_embedded() || w.at % 16 == 15 || w.at + 1 == operations)
			world_look(&w);
	}
	world_end(&w);
}

TEST(against_the_model)
{
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);
	u_int64_t runs = t_param("CAPKM_TEST_RUNS", 100, 6);

	for (; runs; runs--, seed++)
		world_run(seed, 400);
	t_no_leaks();
}

TEST_HARNESS_MAIN
