// SPDX-License-Identifier: GPL-2.0-only
/*
 * The fast path: the same answers as by calls, and each transition that takes a buffer,
 * or a session, out of it.
 */
#include "capkm_test.h"

#include <pthread.h>
#include <sys/mman.h>

#define BYTES	4096u
#define BUFFERS	4u

FIXTURE(fast)
{
	struct cl *a;			/* whose fast path it is */
	struct cl *b;			/* another session of the domain */
	u_int64_t x[BUFFERS];		/* private buffers of @a */
	struct capkm_error err;
};

#define OK(call) T_IS_OK(self, call)
#define T_IS_OK(self, call) do {					\
	int rc_ = (call);						\
	if (rc_)							\
		t_die("%s: %d: %s", #call, rc_, (self)->err.text);	\
} while (0)

FIXTURE_SETUP(fast)
{
	self->err.sz = sizeof(self->err);
	self->a = t_client();
	t_domain(self->a);
	self->b = t_client();
	t_attach(self->b, self->a->domain);
	for (unsigned int i = 0; i < BUFFERS; i++)
		OK(capkm_buffer_create(self->a->c, BYTES, NULL, &self->x[i], &self->err));
}

FIXTURE_TEARDOWN(fast)
{
	if (self->a)
		t_close(self->a);
	if (self->b)
		t_close(self->b);
	t_no_leaks();
}

#define SELF FIXTURE_DATA(fast)

static struct capkm_fast_stats stats_of(struct cl *cl)
{
	struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);

	if (capkm_fast_query(cl->c, &s, NULL))
		t_die("fast_query");
	return s;
}

static struct capkm_claim all_of(u_int64_t buffer)
{
	return (struct capkm_claim){ buffer, 0, BYTES };
}

/* Over the first @n buffers. */
static struct capkm_scope enter(SELF *self, unsigned int n)
{
	struct capkm_claim writes[BUFFERS];
	struct capkm_scope s;

	for (unsigned int i = 0; i < n; i++)
		writes[i] = all_of(self->x[i]);
	OK(capkm_scope_enter(self->a->c, NULL, NULL, 0, writes, n, NULL, &s, NULL,
			     &self->err));
	return s;
}

static void leave(SELF *self, struct capkm_scope *s)
{
	OK(capkm_scope_exit(self->a->c, s, 0, &self->err));
}

/* The place and an entry are asked for once; from then on it is fast. */
static void warm_up(SELF *self)
{
	struct capkm_fast_stats s;

	for (int i = 0; i < 3; i++) {
		struct capkm_scope scope = enter(self, BUFFERS);

		leave(self, &scope);
	}
	s = stats_of(self->a);
	if (!s.on || !s.entered)
		t_die("it is not fast");
}

/* A scope over all buffers, which is fast. */
static struct capkm_scope enter_fast(SELF *self)
{
	const struct capkm_fast_stats before = stats_of(self->a);
	struct capkm_scope s = enter(self, BUFFERS);

	if (!(s.id & CAPKM_SCOPE_FAST) || stats_of(self->a).entered != before.entered + 1)
		t_die("the scope is not fast");
	return s;
}

static unsigned int check(SELF *self, u_int64_t buffer, struct capkm_report *r)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_claim c = all_of(buffer);

	answer.reports = r;
	answer.reports_len = !!r;
	OK(capkm_check(self->a->c, &c, 1, &answer, &self->err));
	return answer.out_result;
}

/* That of each of the session's buffers, by calls. */
static void all_are(SELF *self, unsigned int result, unsigned int kind)
{
	struct capkm_report r;

	capkm_fast_path(self->a->c, false);
	for (unsigned int i = 0; i < BUFFERS; i++) {
		if (check(self, self->x[i], &r) != result)
			t_die("buffer %u is not %u", i, result);
		if (result == CAPKM_TAINTED && r.kind != kind)
			t_die("buffer %u: kind %u", i, r.kind);
	}
	capkm_fast_path(self->a->c, true);
}

/* ------------------------------------------------------------------ clean work */

TEST_F(fast, clean_scopes)
{
	struct capkm_fast_stats before, after;
	struct capkm_scope s;

	warm_up(self);
	before = stats_of(self->a);
	for (int i = 0; i < 1000; i++) {
		s = enter_fast(self);
		leave(self, &s);
		ASSERT_EQ(0, s.id);
		ASSERT_EQ(0, s.failure);
		for (unsigned int b = 0; b < BUFFERS; b++)
			ASSERT_EQ(CAPKM_CLEAN, check(self, self->x[b], NULL));
	}
	after = stats_of(self->a);
	ASSERT_EQ(before.entered + 1000, after.entered);
	/* Nothing of it was a call that names a buffer. */
	ASSERT_EQ(0, memcmp(before.transitions, after.transitions,
			    sizeof(before.transitions)));
	all_are(self, CAPKM_CLEAN, 0);
}

/* An open scope is seen by every check, and what it leaves by every call. */
TEST_F(fast, open_scope)
{
	struct capkm_report r;
	struct capkm_scope s;

	warm_up(self);
	s = enter_fast(self);
	ASSERT_EQ(1, t_slot(self->a, capkm_stream_current()).out_scopes);
	ASSERT_EQ(1, t_domain_query(self->a).out_scopes);
	ASSERT_EQ(1, t_domain_query(self->b).out_scopes);
	ASSERT_EQ(0, stats_of(self->a).migrated);
	ASSERT_EQ(CAPKM_TAINTED, check(self, self->x[1], &r));
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, r.kind);
	ASSERT_EQ(capkm_stream_current(), r.stream);
	ASSERT_EQ(s.id, r.scope);
	/* It is an ordinary one now, over all its buffers. */
	ASSERT_EQ(1, stats_of(self->a).migrated);
	ASSERT_EQ(1, t_slot(self->a, capkm_stream_current()).out_scopes);
	ASSERT_EQ(1, t_domain_query(self->b).out_scopes);
	all_are(self, CAPKM_TAINTED, CAPKM_KIND_IN_PROGRESS);
	leave(self, &s);
	ASSERT_EQ(0, t_slot(self->a, capkm_stream_current()).out_scopes);
	ASSERT_EQ(0, t_domain_query(self->b).out_scopes);
	all_are(self, CAPKM_CLEAN, 0);
	s = enter_fast(self);
	leave(self, &s);
}

/* A scope that fails leaves what any does; what rewrites it makes it fast again. */
TEST_F(fast, failed)
{
	struct capkm_cause why = CAPKM_OPTS(struct capkm_cause, .code = 7, .text = "no such luck");
	struct capkm_report r;
	struct capkm_scope s;
	u_int64_t id;

	warm_up(self);
	s = enter_fast(self);
	id = s.id;
	OK(capkm_scope_fail(self->a->c, &s, &why, &self->err));
	ASSERT_NE(0, s.failure);
	ASSERT_EQ(CAPKM_TAINTED, check(self, self->x[2], &r));
	ASSERT_EQ(CAPKM_KIND_GENERIC, r.kind);
	ASSERT_EQ(7, r.code);
	ASSERT_EQ(s.failure, r.failure);
	ASSERT_EQ(id, r.scope);
	all_are(self, CAPKM_TAINTED, CAPKM_KIND_GENERIC);
	s = enter(self, BUFFERS);
	ASSERT_FALSE(s.id & CAPKM_SCOPE_FAST);
	leave(self, &s);
	s = enter_fast(self);
	leave(self, &s);
	all_are(self, CAPKM_CLEAN, 0);
}

/* Left twice, or by an id that was never given: nothing has changed. */
TEST_F(fast, wrong_exits)
{
	struct capkm_scope s, again;

	warm_up(self);
	s = again = enter_fast(self);
	leave(self, &s);
	ASSERT_EQ(-ENOENT, capkm_scope_exit(self->a->c, &again, 0, NULL));
	again.id |= 0xffffff;
	ASSERT_EQ(-ENOENT, capkm_scope_exit(self->a->c, &again, 0, NULL));
	again.id = CAPKM_SCOPE_FAST;
	ASSERT_EQ(-ENOENT, capkm_scope_exit(self->a->c, &again, 0, NULL));
	s = enter_fast(self);
	again = s;
	again.id += CAPKM_TABLE_ENTRIES;
	ASSERT_EQ(-ENOENT, capkm_scope_exit(self->a->c, &again, 0, NULL));
	leave(self, &s);
	all_are(self, CAPKM_CLEAN, 0);
}

static u_int64_t sequence_of(SELF *self)
{
	u_int64_t sequence;

	OK(capkm_stream_sequence(self->a->c, NULL, &sequence, &self->err));
	return sequence;
}

static unsigned int is_confirmed(SELF *self, unsigned int i)
{
	struct capkm_claim c = all_of(self->x[i]);
	struct capkm_check_opts o = CAPKM_OPTS(struct capkm_check_opts,
					       .flags = CAPKM_CHECK_F_CONFIRMED);
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);

	OK(capkm_check_with(self->a->c, &c, 1, &o, &answer, &self->err));
	return answer.out_result;
}

/* What fast scopes leave is unconfirmed up to a sample, and of the exit's own sequence. */
TEST_F(fast, confirm)
{
	u_int64_t first, second;
	struct capkm_scope s;

	warm_up(self);
	OK(capkm_confirm(self->a->c, NULL, sequence_of(self), NULL, &self->err));
	for (unsigned int i = 0; i < BUFFERS; i++)
		ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, i));
	s = enter_fast(self);
	leave(self, &s);
	first = s.sequence;
	ASSERT_EQ(first, sequence_of(self));
	s = enter_fast(self);
	leave(self, &s);
	second = s.sequence;
	ASSERT_LT(first, second);
	ASSERT_EQ(CAPKM_PENDING, is_confirmed(self, 0));
	OK(capkm_confirm(self->a->c, NULL, first, NULL, &self->err));
	ASSERT_EQ(CAPKM_PENDING, is_confirmed(self, 0));
	ASSERT_EQ(-EINVAL, capkm_confirm(self->a->c, NULL, second + 1, NULL, NULL));
	OK(capkm_confirm(self->a->c, NULL, second, NULL, &self->err));
	ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, 0));
	/* What is finished at its exit needs none. */
	s = enter_fast(self);
	OK(capkm_scope_exit(self->a->c, &s, CAPKM_SCOPE_EXIT_F_COMPLETE, &self->err));
	ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, 0));
}

/* The sequence of any exit is the slot's, and can be confirmed. */
TEST_F(fast, confirm_finished)
{
	u_int64_t last = 0, sample;
	struct capkm_claim c = all_of(self->x[0]);
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_scope s;

	warm_up(self);
	for (unsigned int i = 0; i < 8; i++) {
		const bool complete = i % 4 < 2;

		s = enter_fast(self);
		OK(capkm_scope_exit(self->a->c, &s, complete ? CAPKM_SCOPE_EXIT_F_COMPLETE : 0,
				    &self->err));
		ASSERT_LT(last, s.sequence);
		last = s.sequence;
		ASSERT_EQ(last, sequence_of(self));
		OK(capkm_sequence(self->a->c, &sample, &self->err));
		ASSERT_LE(last, sample);
		OK(capkm_check_unchanged(self->a->c, &c, 1, sample, &answer, &self->err));
		ASSERT_EQ(CAPKM_CLEAN, answer.out_result);
		if (!complete)
			ASSERT_EQ(CAPKM_PENDING, is_confirmed(self, 0));
		OK(capkm_confirm(self->a->c, NULL, last, NULL, &self->err));
		ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, 0));
	}
}

/* A sample of the domain is before all that comes, and after all that was. */
TEST_F(fast, sample)
{
	static const unsigned char host[16];
	struct capkm_scope s;
	u_int64_t sample;

	warm_up(self);
	for (int i = 0; i < 10; i++) {
		s = enter_fast(self);
		leave(self, &s);
		OK(capkm_sequence(self->a->c, &sample, &self->err));
		ASSERT_LE(s.sequence, sample);
		s = enter_fast(self);
		leave(self, &s);
		ASSERT_LT(sample, s.sequence);
		OK(capkm_confirm_device(self->a->c, host, sample, NULL, &self->err));
		ASSERT_EQ(CAPKM_PENDING, is_confirmed(self, 0));
		OK(capkm_sequence(self->a->c, &sample, &self->err));
		OK(capkm_confirm_device(self->a->c, host, sample, NULL, &self->err));
		ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, 0));
	}
}

/* More exits than there are sequences between two of the domain's. */
TEST_F(fast, sequences_run_out)
{
	u_int64_t last = 0;
	struct capkm_scope s;

	warm_up(self);
	for (unsigned int i = 0; i < 3 * CAPKM_SEQUENCE_STEP; i++) {
		s = enter(self, 1);
		leave(self, &s);
		ASSERT_LT(last, s.sequence);
		last = s.sequence;
	}
	OK(capkm_confirm(self->a->c, NULL, last, NULL, &self->err));
	ASSERT_EQ(CAPKM_CLEAN, is_confirmed(self, 0));
}

/* A reader that copies sees each scope that came between. */
TEST_F(fast, unchanged_since)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer), again = answer;
	struct capkm_claim c[2] = { all_of(self->x[0]), all_of(self->x[1]) };
	struct capkm_scope s;

	warm_up(self);
	for (int complete = 0; complete < 2; complete++) {
		for (int n = 1; n <= 2; n++) {
			OK(capkm_check(self->a->c, c, n, &answer, &self->err));
			OK(capkm_check_unchanged(self->a->c, c, n, answer.out_sequence,
						 &again, &self->err));
			ASSERT_EQ(CAPKM_CLEAN, again.out_result);
			s = enter_fast(self);
			OK(capkm_scope_exit(self->a->c, &s, complete ?
					    CAPKM_SCOPE_EXIT_F_COMPLETE : 0, &self->err));
			OK(capkm_check_unchanged(self->a->c, c, n, answer.out_sequence,
						 &again, &self->err));
			ASSERT_EQ(CAPKM_CHANGED, again.out_result);
		}
	}
}

/* Whatever is wrong with a claim is said as by a call. */
TEST_F(fast, wrong_claims)
{
	const struct capkm_claim good = all_of(self->x[0]);
	const struct capkm_claim bad[] = {
		{ self->x[1], 0, BYTES + 1 }, { self->x[1], 2, 1 },
		{ self->x[1] + 100, 0, 1 }, { 0, 0, 1 }, { ~0ull, 0, 1 },
		{ self->x[1] + CAPKM_FAST_BUFFERS, 0, 1 },
		{ self->x[1] + ((u_int64_t)CAPKM_FAST_BUFFERS << 24), 0, 1 },
	};
	struct capkm_scope s;

	warm_up(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		const struct capkm_claim c[] = { good, bad[i] };

		for (int on = 0; on < 2; on++) {
			struct capkm_error err = CAPKM_OPTS(struct capkm_error);

			capkm_fast_path(self->a->c, on);
			ASSERT_EQ(i < 2 ? -EINVAL : -ENOENT,
				  capkm_check(self->a->c, c, 2, NULL, &err));
			ASSERT_EQ(1, err.index);
			ASSERT_EQ(i < 2 ? -EINVAL : -ENOENT,
				  capkm_scope_enter(self->a->c, NULL, NULL, 0, c, 2, NULL, &s,
						    NULL, &err));
			ASSERT_EQ(1, err.index);
			ASSERT_EQ(i < 2 ? -EINVAL : -ENOENT,
				  capkm_scope_enter(self->a->c, NULL, &c[1], 1, &good, 1, NULL,
						    &s, NULL, &err));
			ASSERT_EQ(0, err.index);
		}
	}
	all_are(self, CAPKM_CLEAN, 0);
}

/* ------------------------------------------------------------------ transitions */

struct took {
	SELF *self;
	struct capkm_fast_stats before;
	struct capkm_scope s;
};

static struct took begin(SELF *self)
{
	struct took t = { .self = self };

	warm_up(self);
	t.s = enter_fast(self);
	t.before = stats_of(self->a);
	return t;
}

/* The scope has become an ordinary one, by @why, and nothing was overlooked. */
static void took(struct took *t, unsigned int why)
{
	const struct capkm_fast_stats now = stats_of(t->self->a);

	if (now.migrated != t->before.migrated + 1)
		t_die("%llu migrated", (unsigned long long)now.migrated);
	if (now.transitions[why] <= t->before.transitions[why])
		t_die("transition %u has not happened", why);
	if (now.transitions[CAPKM_FAST_MISSED] || now.dropped || now.revoked)
		t_die("missed or dropped");
}

static void begin_twice(SELF *self, struct took *t)
{
	leave(self, &t->s);
	*t = begin(self);
}

TEST_F(fast, named)
{
	struct took t = begin(self);
	struct capkm_claim c = all_of(self->x[0]);
	struct capkm_report r;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer, .reports = &r,
						.reports_len = 1);
	struct capkm_scope other;
	u_int64_t failure;

	/* Each kind of call that may name a buffer. */
	OK(capkm_check_unchanged(self->a->c, &c, 1, ~0ull, &answer, &self->err));
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, r.kind);
	took(&t, CAPKM_FAST_NAMED);
	begin_twice(self, &t);
	OK(capkm_taint(self->a->c, &c, 1, 0, NULL, &failure, &self->err));
	took(&t, CAPKM_FAST_NAMED);
	leave(self, &t.s);
	/* Of two overlapping writers the later one has the say: T-5. */
	ASSERT_EQ(CAPKM_TAINTED, check(self, self->x[0], NULL));
	OK(capkm_written(self->a->c, &c, 1, &self->err));
	t = begin(self);
	OK(capkm_written(self->a->c, &c, 1, &self->err));
	took(&t, CAPKM_FAST_NAMED);
	begin_twice(self, &t);
	ASSERT_EQ(-EBUSY, capkm_buffer_reset(self->a->c, self->x[0], 0, BYTES, NULL));
	took(&t, CAPKM_FAST_NAMED);
	begin_twice(self, &t);
	OK(capkm_scope_enter(self->a->c, NULL, NULL, 0, &c, 1, NULL, &other, NULL, &self->err));
	ASSERT_FALSE(other.id & CAPKM_SCOPE_FAST);
	took(&t, CAPKM_FAST_NAMED);
	leave(self, &other);
	begin_twice(self, &t);
	OK(capkm_buffer_export(self->a->c, self->x[0], &self->err));
	took(&t, CAPKM_FAST_NAMED);
	/* The other session sees the open scope. */
	OK(capkm_buffer_open(self->b->c, self->x[0], NULL, &self->err));
	ASSERT_EQ(1, t_check(self->b, C({ self->x[0], 0, 1 })).reports);
	leave(self, &t.s);
	ASSERT_EQ(0, t_check(self->b, C({ self->x[0], 0, 1 })).reports);
	ASSERT_EQ(1, t_check(self->b, C({ self->x[0], 0, 1 })).unconfirmed);
}

TEST_F(fast, beside)
{
	struct took t = begin(self);

	check(self, self->x[3], NULL);
	took(&t, CAPKM_FAST_BESIDE);
	ASSERT_EQ(t.before.transitions[CAPKM_FAST_BESIDE] + BUFFERS - 1,
		  stats_of(self->a).transitions[CAPKM_FAST_BESIDE]);
	leave(self, &t.s);
}

TEST_F(fast, left_by_a_call)
{
	struct took t = begin(self);
	struct capkm_scope_exit a = { .size = sizeof(a), .scope = t.s.id };

	OK(capkm_call(self->a->c, CAPKM_NR_SCOPE_EXIT, &a));
	took(&t, CAPKM_FAST_LEFT);
	all_are(self, CAPKM_CLEAN, 0);
}

TEST_F(fast, window)
{
	struct took t = begin(self);
	struct capkm_where there = { .stream = 5 };
	u_int64_t w;

	/* Also one on another slot: then scopes may escape it. */
	OK(capkm_window_prepare(self->a->c, &there, NULL, &w, &self->err));
	took(&t, CAPKM_FAST_WINDOW);
	ASSERT_EQ(0, stats_of(self->a).on);
	leave(self, &t.s);
	t.s = enter(self, 1);
	ASSERT_FALSE(t.s.id & CAPKM_SCOPE_FAST);
	leave(self, &t.s);
	OK(capkm_window_abort(self->a->c, &there, 0, &w, &self->err));
	ASSERT_EQ(1, stats_of(self->a).on);
	t.s = enter_fast(self);
	leave(self, &t.s);
}

/* CW-9: no window begins over a scope that is open on its slot. */
TEST_F(fast, window_over_a_scope)
{
	struct took t = begin(self);
	u_int64_t w;

	OK(capkm_window_prepare(self->a->c, NULL, NULL, &w, &self->err));
	took(&t, CAPKM_FAST_WINDOW);
	ASSERT_EQ(-EBUSY, capkm_window_begin(self->a->c, NULL, 0, NULL, NULL));
	leave(self, &t.s);
	OK(capkm_window_begin(self->a->c, NULL, 0, NULL, &self->err));
	t.s = enter(self, 1);
	ASSERT_EQ(w, t.s.window);
	leave(self, &t.s);
	OK(capkm_window_abort(self->a->c, NULL, 0, &w, &self->err));
}

TEST_F(fast, fault)
{
	static const unsigned char host[16];
	struct took t = begin(self);
	u_int64_t failure;

	OK(capkm_stream_fault(self->a->c, NULL, NULL, &failure, NULL, &self->err));
	took(&t, CAPKM_FAST_FAULT);
	ASSERT_EQ(0, stats_of(self->a).on);
	/* The exit says that it went well, of a device that has faulted meanwhile. */
	leave(self, &t.s);
	ASSERT_EQ(failure, t.s.failure);
	all_are(self, CAPKM_TAINTED, CAPKM_KIND_DEVICE_FAULT);
	OK(capkm_context_renew(self->a->c, host, NULL, &self->err));
	t.s = enter(self, BUFFERS);
	leave(self, &t.s);
	t.s = enter_fast(self);
	leave(self, &t.s);
}

/* A fault takes along what is unconfirmed elsewhere, which nobody has named. */
TEST_F(fast, swept)
{
	struct took t = begin(self);

	leave(self, &t.s);
	OK(capkm_stream_fault(self->a->c, NULL, NULL, NULL, NULL, &self->err));
	ASSERT_EQ(t.before.transitions[CAPKM_FAST_SWEPT] + BUFFERS,
		  stats_of(self->a).transitions[CAPKM_FAST_SWEPT]);
	all_are(self, CAPKM_TAINTED, CAPKM_KIND_DEVICE_FAULT);
}

TEST_F(fast, joined)
{
	struct took t = begin(self);
	struct cl *c = t_second(self->a);

	ASSERT_EQ(0, t_try_join_session(c));
	took(&t, CAPKM_FAST_JOINED);
	ASSERT_EQ(0, stats_of(self->a).on);
	all_are(self, CAPKM_TAINTED, CAPKM_KIND_IN_PROGRESS);
	ASSERT_EQ(1, t_check(c, C({ self->x[0], 0, 1 })).reports);
	leave(self, &t.s);
	ASSERT_EQ(0, t_check(c, C({ self->x[0], 0, 1 })).reports);
	ASSERT_EQ(1, t_check(c, C({ self->x[0], 0, 1 })).unconfirmed);
	/* For good. */
	t_close(c);
	t.s = enter(self, 1);
	ASSERT_FALSE(t.s.id & CAPKM_SCOPE_FAST);
	leave(self, &t.s);
	ASSERT_EQ(0, stats_of(self->a).on);
}

TEST_F(fast, destroyed)
{
	struct took t = begin(self);
	struct capkm_claim c = all_of(self->x[0]);
	u_int64_t idle;

	OK(capkm_buffer_create(self->a->c, BYTES, NULL, &idle, &self->err));
	ASSERT_EQ(CAPKM_CLEAN, check(self, idle, NULL));
	OK(capkm_domain_destroy(self->b->c, 0, CAPKM_DOMAIN_DESTROY_F_FORCE, &self->err));
	took(&t, CAPKM_FAST_ENDED);
	ASSERT_LT(t.before.transitions[CAPKM_FAST_SWEPT] +
		  t.before.transitions[CAPKM_FAST_CLOSED],
		  stats_of(self->a).transitions[CAPKM_FAST_SWEPT] +
		  stats_of(self->a).transitions[CAPKM_FAST_CLOSED]);
	ASSERT_EQ(-ECANCELED, capkm_check(self->a->c, &c, 1, NULL, NULL));
	ASSERT_EQ(-ECANCELED, capkm_scope_exit(self->a->c, &t.s, 0, NULL));
	ASSERT_EQ(-ECANCELED, capkm_scope_enter(self->a->c, NULL, NULL, 0, &c, 1, NULL, &t.s,
						NULL, NULL));
	ASSERT_EQ(-ECANCELED, capkm_is_recording(self->a->c, NULL, NULL));
	t_close(self->a);
	self->a = NULL;
}

/* Who closes a buffer under an open scope hides it; another one may have its index. */
TEST_F(fast, closed)
{
	struct took t = begin(self);
	struct capkm_claim c = all_of(self->x[0]);

	OK(capkm_buffer_close(self->a->c, self->x[0], &self->err));
	took(&t, CAPKM_FAST_NAMED);
	ASSERT_EQ(-ENOENT, capkm_check(self->a->c, &c, 1, NULL, NULL));
	leave(self, &t.s);
	ASSERT_EQ(-ENOENT, capkm_check(self->a->c, &c, 1, NULL, NULL));
	OK(capkm_buffer_create(self->a->c, BYTES, NULL, &self->x[0], &self->err));
	t.s = enter_fast(self);
	leave(self, &t.s);
}

/*
 * An input of a graph is not fast, although no call has named it since the scope that read
 * it was left: a replay would not see who writes to it.
 */
TEST_F(fast, input_of_a_graph)
{
	const struct capkm_claim in = all_of(self->x[1]), out = all_of(self->x[0]);
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	const struct capkm_where there = { .stream = 5 };
	struct capkm_replay_opts o = CAPKM_OPTS(struct capkm_replay_opts,
						.retry_ms = CAPKM_RETRY_NONE);
	struct capkm_scope s;
	u_int64_t graph, w;
	u_int32_t result;

	warm_up(self);
	OK(capkm_window_prepare(self->a->c, &there, NULL, &w, &self->err));
	OK(capkm_window_begin(self->a->c, &there, 0, &w, &self->err));
	OK(capkm_scope_enter(self->a->c, &there, &in, 1, &out, 1, NULL, &s, NULL, &self->err));
	leave(self, &s);
	OK(capkm_window_close(self->a->c, &there, &graph, &answer, &self->err));
	ASSERT_EQ(1, stats_of(self->a).on);
	OK(capkm_scope_enter(self->a->c, NULL, NULL, 0, &in, 1, NULL, &s, NULL, &self->err));
	ASSERT_FALSE(s.id & CAPKM_SCOPE_FAST);
	ASSERT_EQ(-EAGAIN, capkm_graph_replay_begin(self->a->c, graph, &there, &o, &result, NULL,
						    NULL));
	leave(self, &s);
	OK(capkm_graph_destroy(self->a->c, graph, &self->err));
	s = enter_fast(self);
	leave(self, &s);
}

/* ------------------------------------------------------------------ threads */

struct hand {
	SELF *self;
	struct capkm_scope scope;
	int rc;
};

static void *leave_there(void *arg)
{
	struct hand *h = arg;

	h->rc = capkm_scope_exit(h->self->a->c, &h->scope, 0, NULL);
	return NULL;
}

/* No thread is part of an identity: a scope is left by whoever has it. */
TEST_F(fast, left_by_another_thread)
{
	struct hand h = { .self = self };
	pthread_t thread;

	warm_up(self);
	for (int i = 0; i < 100; i++) {
		h.scope = enter_fast(self);
		ASSERT_EQ(0, pthread_create(&thread, NULL, leave_there, &h));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		ASSERT_EQ(0, h.rc);
	}
	all_are(self, CAPKM_CLEAN, 0);
	ASSERT_EQ(0, stats_of(self->a).migrated);
}

static void *enter_and_end(void *arg)
{
	struct hand *h = arg;
	struct capkm_claim c = all_of(h->self->x[0]);
	struct capkm_scope s;

	for (int i = 0; i < 3 && !h->rc; i++) {
		h->rc = capkm_scope_enter(h->self->a->c, NULL, NULL, 0, &c, 1, NULL, &s, NULL,
					  NULL);
		if (!h->rc)
			h->rc = capkm_scope_exit(h->self->a->c, &s, 0, NULL);
	}
	if (!h->rc)
		h->rc = capkm_scope_enter(h->self->a->c, NULL, NULL, 0, &c, 1, NULL, &h->scope,
					  NULL, NULL);
	return NULL;
}

/* Entries come back: more threads than there are entries, one after the other. */
TEST_F(fast, threads_end)
{
	struct capkm_report r;
	pthread_t thread;

	warm_up(self);
	for (unsigned int i = 0; i < 3 * CAPKM_TABLE_ENTRIES; i++) {
		struct hand h = { .self = self };

		ASSERT_EQ(0, pthread_create(&thread, NULL, enter_and_end, &h));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		ASSERT_EQ(0, h.rc);
		ASSERT_TRUE(h.scope.id & CAPKM_SCOPE_FAST);
		/* The thread that had entered it is gone; every check sees it all the same. */
		if (i % 2) {
			ASSERT_EQ(CAPKM_TAINTED, check(self, self->x[0], &r));
			ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, r.kind);
		}
		leave(self, &h.scope);
		ASSERT_EQ(CAPKM_CLEAN, check(self, self->x[0], NULL));
	}
}

/* ------------------------------------------------------------------ slots */

struct poller {
	SELF *self;
	_Atomic int stop, wrong;
	_Atomic unsigned long asked, recording;
};

static void *poll_state(void *arg)
{
	const struct capkm_where there = { .stream = 5 };
	struct poller *p = arg;

	while (!p->stop) {
		int rc = capkm_is_recording(p->self->a->c, &there, NULL);

		p->wrong |= rc < 0;
		p->asked++;
		p->recording += rc == 1;
	}
	return NULL;
}

/* C104: is a capture in progress? A million times, without a call. */
TEST_F(fast, is_recording)
{
	const struct capkm_where there = { .stream = 5 };
	struct poller p = { .self = self };
	pthread_t thread;
	u_int64_t w;

	warm_up(self);
	ASSERT_EQ(0, pthread_create(&thread, NULL, poll_state, &p));
	for (int i = 0; i < 200 || !p.recording || p.asked < (t_embedded() ? 1000000 : 10000);
	     i++) {
		ASSERT_EQ(0, capkm_is_recording(self->a->c, &there, &self->err));
		OK(capkm_window_prepare(self->a->c, &there, NULL, &w, &self->err));
		ASSERT_EQ(0, capkm_is_recording(self->a->c, &there, &self->err));
		OK(capkm_window_begin(self->a->c, &there, 0, NULL, &self->err));
		ASSERT_EQ(1, capkm_is_recording(self->a->c, &there, &self->err));
		ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_slot(self->a, 5).out_state);
		OK(capkm_window_abort(self->a->c, &there, 0, &w, &self->err));
		ASSERT_EQ(0, capkm_is_recording(self->a->c, &there, &self->err));
	}
	p.stop = 1;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, p.wrong);
}

TEST_F(fast, health)
{
	struct capkm_health h = CAPKM_OPTS(struct capkm_health);
	static const unsigned char host[16];

	for (int on = 0; on < 2; on++) {
		capkm_fast_path(self->a->c, true);
		warm_up(self);
		capkm_fast_path(self->a->c, on);
		OK(capkm_health(self->a->c, &h, &self->err));
		ASSERT_EQ(0, h.faulted);
		ASSERT_EQ(0, h.orphans);
		ASSERT_LE(t_domain_query(self->b).out_sequence, h.sequence + CAPKM_SEQUENCE_STEP);
		OK(capkm_stream_fault(self->a->c, NULL, NULL, NULL, NULL, &self->err));
		OK(capkm_health(self->a->c, &h, &self->err));
		ASSERT_EQ(1, h.faulted);
		OK(capkm_context_renew(self->a->c, host, NULL, &self->err));
		for (unsigned int i = 0; i < BUFFERS; i++) {
			struct capkm_claim c = all_of(self->x[i]);

			OK(capkm_written(self->a->c, &c, 1, &self->err));
		}
		OK(capkm_health(self->a->c, &h, &self->err));
		ASSERT_EQ(0, h.faulted);
	}
}

/* A stream that is destroyed is no place any more, fast or not. */
TEST_F(fast, stream_destroyed)
{
	struct capkm_where there = { 0 };
	struct capkm_claim c = all_of(self->x[0]);
	struct capkm_scope s;

	warm_up(self);
	OK(capkm_stream_create(self->a->c, "s", &there.stream, &self->err));
	for (int i = 0; i < 3; i++) {
		OK(capkm_scope_enter(self->a->c, &there, NULL, 0, &c, 1, NULL, &s, NULL,
				     &self->err));
		ASSERT_TRUE(s.id & CAPKM_SCOPE_FAST);
		leave(self, &s);
	}
	OK(capkm_stream_destroy(self->a->c, there.stream, NULL, &self->err));
	ASSERT_EQ(-ENOENT, capkm_scope_enter(self->a->c, &there, NULL, 0, &c, 1, NULL, &s, NULL,
					     NULL));
}

/* Where the limit is small, it holds as by calls. */
TEST_F(fast, limit_scopes)
{
	struct capkm_limit_value limit = { .limit = CAPKM_LIMIT_SCOPES, .value = 2 };
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts, .limits = &limit,
						.limits_len = 1);
	struct capkm_scope s[3];
	struct capkm_claim c;
	struct capkm *h;

	OK(capkm_open(t_transport(), NULL, &h, &self->err));
	OK(capkm_domain_create(h, NULL, &o, &self->err));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++) {
			OK(capkm_buffer_create(h, 1, NULL, (uint64_t *)&c.buffer, &self->err));
			c.start = 0;
			c.end = 1;
			ASSERT_EQ(i < 2 ? 0 : -EDQUOT,
				  capkm_scope_enter(h, NULL, NULL, 0, &c, 1, NULL, &s[i], NULL,
						    NULL));
		}
		for (int i = 0; i < 2; i++)
			OK(capkm_scope_exit(h, &s[i], 0, &self->err));
	}
	capkm_close(h);
}

TEST_HARNESS_MAIN
