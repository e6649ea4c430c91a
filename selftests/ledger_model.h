/* SPDX-License-Identifier: GPL-2.0-only */
/* Ledgers as they should be: a model that shares no code with the engine. */
#ifndef LEDGER_MODEL_H
#define LEDGER_MODEL_H

#include "capkm_test.h"
#include "choices.h"

#define MAX	UINT64_MAX
#define FAIL	CAPKM_ON_LIMIT_FAIL
#define SKIPS	CAPKM_ON_LIMIT_SKIP

#define AXES	4
static const unsigned int axes[AXES] = {
	CAPKM_AXIS_CAPTURES, CAPKM_AXIS_RETAINED, CAPKM_AXIS_HOST, CAPKM_AXIS_ENCODED,
};

/* A usage as an array, in the order of the axes. */
static void spread(const struct capkm_usage *u, u_int64_t v[AXES])
{
	v[0] = u->captures;
	v[1] = u->retained_bytes;
	v[2] = u->host_bytes;
	v[3] = u->encoded_bytes;
}

static struct capkm_usage usage_of(const u_int64_t v[AXES])
{
	return (struct capkm_usage){ v[0], v[1], v[2], v[3] };
}

static int try_step(struct cl *cl, u_int64_t ledger)
{
	struct capkm_ledger_begin_step a = { .ledger = ledger };

	return t_call(cl, CAPKM_NR_LEDGER_BEGIN_STEP, &a);
}

/* Closes the last session of a domain, which is not to linger for its ledgers. */
static void end(struct cl *cl)
{
	struct capkm_domain_destroy d = { .domain = cl->domain };

	T_OK(cl, DOMAIN_DESTROY, &d);
	t_close(cl);
}

typedef unsigned __int128 big;

#define LEDGERS	24
#define ACTORS	4

/* A ledger as it should be. What it was charged with is kept as a sum of all charges. */
struct model {
	bool there;
	int holder;		/* -1: nobody */
	bool shared;
	unsigned int on_limit;
	u_int64_t per_step[AXES], cumulative[AXES], inherited[AXES];
	big step[AXES], charges[AXES];
	u_int64_t steps, reserved, refused;
};

struct world {
	u_int64_t seed;
	struct choices choices;
	unsigned int at;		/* step, for messages */
	struct cl *keeper;		/* keeps the domain, does nothing */
	struct cl *actor[ACTORS];
	u_int64_t cap[AXES];
	big charged[AXES];		/* all charges, whatever has become of the ledger */
	struct model m[LEDGERS + 1];	/* by id */
	unsigned int n;			/* ids so far */
};

static u_int64_t roll(struct world *w, u_int64_t n)
{
	return choose(&w->choices, n);
}

/* Small, large, and the values beside which sums go wrong. */
static u_int64_t amount(struct world *w)
{
	static const u_int64_t edges[] = {
		0, 0, 0, 1, 2, 1ull << 31, 1ull << 32, 1ull << 63, MAX - 1, MAX,
	};

	return roll(w, 4) ? roll(w, 40) : edges[roll(w, ARRAY_SIZE(edges))];
}

static void amounts(struct world *w, u_int64_t v[AXES])
{
	for (int i = 0; i < AXES; i++)
		v[i] = amount(w);
}

/* Mostly one that there is. */
static u_int64_t any_ledger(struct world *w)
{
	return w->n && roll(w, 20) ? 1 + roll(w, w->n) : 1 + roll(w, LEDGERS + 5);
}

static struct model *model_of(struct world *w, u_int64_t id)
{
	return id && id <= w->n && w->m[id].there ? &w->m[id] : NULL;
}

static big total(const struct model *m, int i)
{
	return m->inherited[i] + m->charges[i];
}

#define WORLD_SAYS(w, cond, fmt, ...) do {				\
	if (!(cond))							\
		t_die("seed %" PRIu64 " operation %u: " fmt, (w)->seed, (w)->at, \
		      ##__VA_ARGS__);					\
} while (0)

static void same_usage(struct world *w, u_int64_t id, const char *what,
		       struct capkm_usage is, const big should[AXES])
{
	u_int64_t v[AXES];

	spread(&is, v);
	for (int i = 0; i < AXES; i++)
		WORLD_SAYS(w, v[i] == should[i],
			   "ledger %" PRIu64 ": %s on axis %d is %" PRIu64 ", not %" PRIu64,
			   id, what, i, v[i], (u_int64_t)should[i]);
}

/* I-7 to I-9, and all that is told of it. */
static void compare(struct world *w, u_int64_t id)
{
	struct capkm_ledger_query q = { .ledger = id };
	int rc = t_call(w->keeper, CAPKM_NR_LEDGER_QUERY, &q);
	struct model *m = model_of(w, id);
	big sum[AXES];

	WORLD_SAYS(w, rc == (m ? 0 : -ENOENT), "ledger %" PRIu64 ": query %d", id, rc);
	if (!m)
		return;
	for (int i = 0; i < AXES; i++) {
		sum[i] = total(m, i);
		/* What the model lets through must be within the limits, too. */
		WORLD_SAYS(w, m->step[i] <= m->per_step[i] && sum[i] <= m->cumulative[i] &&
			   sum[i] <= w->cap[i], "the model is above a limit");
	}
	same_usage(w, id, "step", q.out_step, m->step);
	same_usage(w, id, "total", q.out_total, sum);
	WORLD_SAYS(w, q.out_steps == m->steps && q.out_reserved == m->reserved &&
		   q.out_refused == m->refused, "ledger %" PRIu64 ": counts", id);
	WORLD_SAYS(w, q.out_holder == (m->holder < 0 ? 0 : w->actor[m->holder]->session),
		   "ledger %" PRIu64 ": holder %llu", id, q.out_holder);
}

/* Of the domain: all charges of each ledger that there ever was, and how many there are. */
static void compare_sum(struct world *w)
{
	struct capkm_domain_query q = t_domain_query(w->keeper);
	u_int64_t sum[AXES], ledgers = 0;

	spread(&q.out_charged, sum);
	for (int i = 0; i < AXES; i++) {
		WORLD_SAYS(w, sum[i] == (w->charged[i] < MAX ? w->charged[i] : MAX),
			   "charged on axis %d is %" PRIu64, i, sum[i]);
		WORLD_SAYS(w, w->cap[i] == MAX || w->charged[i] <= w->cap[i],
			   "the model is above the limit of the domain");
	}
	for (unsigned int id = 1; id <= w->n; id++)
		ledgers += w->m[id].there;
	WORLD_SAYS(w, q.out_ledgers == ledgers, "%llu ledgers", q.out_ledgers);
}

/* Where it does not fit, by the first bound that is passed and its first axis. */
static bool fits(struct world *w, const struct model *m, const u_int64_t v[AXES],
		 unsigned int *bound, int *axis, u_int64_t *used, u_int64_t *most)
{
	for (*bound = CAPKM_BOUND_STEP; *bound <= CAPKM_BOUND_DOMAIN; ++*bound) {
		for (*axis = 0; *axis < AXES; ++*axis) {
			big now = *bound == CAPKM_BOUND_STEP ? m->step[*axis] :
							      total(m, *axis);

			if (*bound == CAPKM_BOUND_DOMAIN && w->charged[*axis] > now)
				now = w->charged[*axis];
			*most = *bound == CAPKM_BOUND_STEP ? m->per_step[*axis] :
				*bound == CAPKM_BOUND_TOTAL ? m->cumulative[*axis] :
							     w->cap[*axis];
			*used = now < MAX ? now : MAX;
			if (now + v[*axis] > *most && !(*bound == CAPKM_BOUND_DOMAIN &&
							*most == MAX))
				return false;
		}
	}
	return true;
}

static void do_reserve(struct world *w, int who)
{
	u_int64_t id = any_ledger(w), v[AXES], used, most;
	struct model *m = model_of(w, id);
	struct t_reserve r;
	unsigned int bound, want;
	int axis, rc = 0;

	amounts(w, v);
	if (!m)
		rc = -ENOENT;
	else if (m->holder != who && !m->shared)
		rc = -EPERM;
	for (int i = 0; !rc && i < AXES; i++)
		if (m->step[i] + v[i] > MAX || total(m, i) + v[i] > MAX)
			rc = -EOVERFLOW;
	r = t_reserve(w->actor[who], id, usage_of(v));
	WORLD_SAYS(w, r.rc == rc, "ledger %" PRIu64 ": reserve %d, not %d", id, r.rc, rc);
	if (rc)
		return;
	if (fits(w, m, v, &bound, &axis, &used, &most)) {
		WORLD_SAYS(w, r.a.out_result == CAPKM_CLEAN, "it fits, result %u axis %u",
			   r.a.out_result, r.a.out_axis);
		for (int i = 0; i < AXES; i++) {
			m->step[i] += v[i];
			m->charges[i] += v[i];
			w->charged[i] += v[i];
		}
		m->reserved++;
		return;
	}
	want = m->on_limit == SKIPS ? CAPKM_SKIPPED : CAPKM_REFUSED;
	WORLD_SAYS(w, r.a.out_result == want && r.a.out_axis == axes[axis] &&
		   r.a.out_bound == bound && r.a.out_used == used && r.a.out_most == most,
		   "result %u axis %u bound %u used %llu of %llu, not %u %u %u %" PRIu64
		   " of %" PRIu64, r.a.out_result, r.a.out_axis, r.a.out_bound,
		   r.a.out_used, r.a.out_most, want, axes[axis], bound, used, most);
	m->refused++;
}

/* A new one is in the model if what it begins with is allowed. */
static int model_new(struct world *w, int who, const u_int64_t per_step[AXES],
		     const u_int64_t cumulative[AXES], const u_int64_t inherited[AXES],
		     unsigned int flags, unsigned int on_limit)
{
	struct model *m = &w->m[w->n + 1];

	for (int i = 0; i < AXES; i++)
		if (inherited[i] > cumulative[i] || inherited[i] > w->cap[i])
			return -EDQUOT;
	memset(m, 0, sizeof(*m));
	m->there = true;
	m->holder = who;
	m->shared = flags & CAPKM_LEDGER_F_SHARED;
	m->on_limit = on_limit;
	memcpy(m->per_step, per_step, sizeof(m->per_step));
	memcpy(m->cumulative, cumulative, sizeof(m->cumulative));
	memcpy(m->inherited, inherited, sizeof(m->inherited));
	w->n++;
	return 0;
}

static void limits(struct world *w, u_int64_t per_step[AXES], u_int64_t cumulative[AXES])
{
	amounts(w, per_step);
	amounts(w, cumulative);
	for (int i = 0; i < AXES; i++) {
		per_step[i] += roll(w, 2) && per_step[i] < 1000 ? 50 : 0;
		cumulative[i] += roll(w, 2) && cumulative[i] < 1000 ? 200 : 0;
	}
}

static void do_create(struct world *w, int who)
{
	u_int64_t per_step[AXES], cumulative[AXES], inherited[AXES] = { 0 };
	struct capkm_ledger_create a = {
		.flags = roll(w, 2), .on_limit = roll(w, 2),
	};
	int rc, want;

	limits(w, per_step, cumulative);
	if (!roll(w, 3))
		amounts(w, inherited);
	a.per_step = usage_of(per_step);
	a.cumulative = usage_of(cumulative);
	a.inherited = usage_of(inherited);
	rc = t_call(w->actor[who], CAPKM_NR_LEDGER_CREATE, &a);
	want = model_new(w, who, per_step, cumulative, inherited, a.flags, a.on_limit);
	WORLD_SAYS(w, rc == want, "create: %d, not %d", rc, want);
	if (!rc)
		WORLD_SAYS(w, a.out_ledger == w->n, "create: id %llu", a.out_ledger);
}

static void do_fork(struct world *w, int who)
{
	u_int64_t id = any_ledger(w), per_step[AXES], cumulative[AXES], inherited[AXES];
	struct capkm_ledger_fork a = {
		.ledger = id, .flags = roll(w, 2), .on_limit = roll(w, 2),
	};
	struct model *m = model_of(w, id);
	int rc, want = !m ? -ENOENT : m->holder != who ? -EPERM : 0;

	limits(w, per_step, cumulative);
	a.per_step = usage_of(per_step);
	a.cumulative = usage_of(cumulative);
	rc = t_call(w->actor[who], CAPKM_NR_LEDGER_FORK, &a);
	if (!want) {
		for (int i = 0; i < AXES; i++)
			inherited[i] = total(m, i);
		want = model_new(w, who, per_step, cumulative, inherited, a.flags,
				 a.on_limit);
	}
	WORLD_SAYS(w, rc == want, "fork of %" PRIu64 ": %d, not %d", id, rc, want);
}

static void do_step(struct world *w, int who)
{
	u_int64_t id = any_ledger(w);
	struct model *m = model_of(w, id);
	int want = !m ? -ENOENT : m->holder != who ? -EPERM : 0;

	WORLD_SAYS(w, try_step(w->actor[who], id) == want, "step of %" PRIu64, id);
	if (want)
		return;
	memset(m->step, 0, sizeof(m->step));
	m->steps++;
}

static void do_adopt(struct world *w, int who)
{
	u_int64_t id = any_ledger(w);
	struct model *m = model_of(w, id);
	int want = !m ? -ENOENT : m->holder >= 0 && m->holder != who ? -EBUSY : 0;

	WORLD_SAYS(w, t_adopt(w->actor[who], id) == want, "adopt %" PRIu64, id);
	if (!want)
		m->holder = who;
}

static void do_destroy(struct world *w, int who)
{
	u_int64_t id = any_ledger(w);
	struct model *m = model_of(w, id);
	int want = !m ? -ENOENT : m->holder != who ? -EPERM : 0;

	WORLD_SAYS(w, t_ledger_destroy(w->actor[who], id) == want, "destroy %" PRIu64, id);
	if (!want)
		m->there = false;
}

static void do_die(struct world *w, int who)
{
	t_kill(w->actor[who]);
	w->actor[who] = t_process();
	t_attach(w->actor[who], w->keeper->domain);
	for (unsigned int id = 1; id <= w->n; id++)
		if (w->m[id].holder == who)
			w->m[id].holder = -1;
}

static void operate(struct world *w)
{
	int who = roll(w, ACTORS);
	unsigned int what = roll(w, 100);

	if ((what < 12 || !w->n) && w->n < LEDGERS)
		do_create(w, who);
	else if (what < 18 && w->n < LEDGERS)
		do_fork(w, who);
	else if (what < 28)
		do_step(w, who);
	else if (what < 38)
		do_adopt(w, who);
	else if (what < 41)
		do_destroy(w, who);
	else if (what < 43)
		do_die(w, who);
	else
		do_reserve(w, who);
}

/* With its choices made to be drawn. */
static void world_begin(struct world *w)
{
	struct capkm_limit_value caps[AXES];
	struct capkm_domain_create d = {
		.limits_uptr = t_ptr(caps), .limits_len = AXES,
	};

	for (int i = 0; i < AXES; i++) {
		w->cap[i] = roll(w, 2) ? MAX : 60 + roll(w, 200);
		caps[i] = (struct capkm_limit_value){
			.limit = CAPKM_LIMIT_LEDGER_CAPTURES + i, .value = w->cap[i],
		};
	}
	w->keeper = t_client();
	T_OK(w->keeper, DOMAIN_CREATE, &d);
	w->keeper->domain = d.out_domain;
	for (int i = 0; i < ACTORS; i++) {
		w->actor[i] = t_process();
		t_attach(w->actor[i], d.out_domain);
	}
}

/* All that there is to be seen. */
static void world_look(struct world *w)
{
	for (unsigned int id = 1; id <= w->n; id++)
		compare(w, id);
	compare_sum(w);
}

static void world_end(struct world *w)
{
	for (int i = 0; i < ACTORS; i++)
		t_close(w->actor[i]);
	end(w->keeper);
}

#endif /* LEDGER_MODEL_H */
