// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Ledgers: budgets of observation. What an observation will cost at most is charged
 * before anything of it is kept, on all axes at once, and never given back: what
 * became of it changes nothing. So a ledger can be trusted after its process has
 * died in the middle of a step: it is the domain's, and waits for a new holder.
 */
#include "internal.h"

/* ---- sums and limits ---- */

/* False if one of the sums does not fit. */
static bool add(struct capkm_usage *sum, const struct capkm_usage *a,
		const struct capkm_usage *b)
{
	return !check_add_overflow(a->captures, b->captures, &sum->captures) &&
	       !check_add_overflow(a->retained_bytes, b->retained_bytes,
				   &sum->retained_bytes) &&
	       !check_add_overflow(a->host_bytes, b->host_bytes,
				   &sum->host_bytes) &&
	       !check_add_overflow(a->encoded_bytes, b->encoded_bytes,
				   &sum->encoded_bytes);
}

static u64 on_axis(const struct capkm_usage *u, u32 axis)
{
	switch (axis) {
	case CAPKM_AXIS_CAPTURES:
		return u->captures;
	case CAPKM_AXIS_RETAINED:
		return u->retained_bytes;
	case CAPKM_AXIS_HOST:
		return u->host_bytes;
	default:
		return u->encoded_bytes;
	}
}

/* The first axis on which @u is more than @most; as much is allowed. */
static u32 exceeded(const struct capkm_usage *u, const struct capkm_usage *most)
{
	u32 axis;

	for (axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++)
		if (on_axis(u, axis) > on_axis(most, axis))
			return axis;
	return CAPKM_AXIS_NONE;
}

/*
 * @sum and what is charged now. It stops at the highest number, which is as good as
 * no limit, and above any other: what is only compared needs no more.
 */
static void add_up(struct capkm_usage *sum, const struct capkm_usage *u)
{
	const struct capkm_usage most = {
		U64_MAX - u->captures, U64_MAX - u->retained_bytes,
		U64_MAX - u->host_bytes, U64_MAX - u->encoded_bytes,
	};

	sum->captures = min(sum->captures, most.captures) + u->captures;
	sum->retained_bytes = min(sum->retained_bytes, most.retained_bytes) +
			      u->retained_bytes;
	sum->host_bytes = min(sum->host_bytes, most.host_bytes) + u->host_bytes;
	sum->encoded_bytes = min(sum->encoded_bytes, most.encoded_bytes) +
			     u->encoded_bytes;
}

static struct capkm_usage larger(const struct capkm_usage *a,
				 const struct capkm_usage *b)
{
	return (struct capkm_usage) {
		.captures = max(a->captures, b->captures),
		.retained_bytes = max(a->retained_bytes, b->retained_bytes),
		.host_bytes = max(a->host_bytes, b->host_bytes),
		.encoded_bytes = max(a->encoded_bytes, b->encoded_bytes),
	};
}

/*
 * What an administrator allows all ledgers of the domain together, those that are
 * destroyed by now too: else who may make ledgers would have as much as he likes. What
 * one inherits was charged before or elsewhere, and only counts for itself. It may be
 * lowered below what was charged: then nothing more is.
 */
static struct capkm_usage allowed(const struct domain *d)
{
	return (struct capkm_usage) {
		.captures = d->limit[CAPKM_LIMIT_LEDGER_CAPTURES],
		.retained_bytes = d->limit[CAPKM_LIMIT_LEDGER_RETAINED],
		.host_bytes = d->limit[CAPKM_LIMIT_LEDGER_HOST],
		.encoded_bytes = d->limit[CAPKM_LIMIT_LEDGER_ENCODED],
	};
}

static int limit_reached(struct call *c, u32 axis)
{
	return ck_limit_reached(c, CAPKM_LIMIT_LEDGER_CAPTURES + axis -
				   CAPKM_AXIS_CAPTURES);
}

u64 ck_ledgers_charged(const struct domain *d, u32 limit)
{
	return on_axis(&d->charged, limit - CAPKM_LIMIT_LEDGER_CAPTURES +
				    CAPKM_AXIS_CAPTURES);
}

/* ---- charging ---- */

/* Which limit is in the way. */
struct refusal {
	u32 axis, bound;
	u64 used, most;
};

/* Is @would, which @now would become, within @most? */
static bool within(const struct capkm_usage *would,
		   const struct capkm_usage *now,
		   const struct capkm_usage *most, u32 bound, struct refusal *r)
{
	const u32 axis = exceeded(would, most);

	if (!axis)
		return true;
	r->axis = axis;
	r->bound = bound;
	r->used = on_axis(now, axis);
	r->most = on_axis(most, axis);
	return false;
}

/* The first of a step, so that a run that skips all it meets floods nobody. */
static void tell(struct call *c, struct ledger *l, const struct refusal *r)
{
	if (l->told)
		return;
	l->told = true;
	ck_event(c->domain, CAPKM_EVENT_LEDGER_REFUSED, &(struct event_of) {
		.who = &c->client->who, .ledger = l->node.id,
		.axis = r->axis, .bound = r->bound,
	});
}

/* On all axes, or @r->axis says on which it does not fit; -EOVERFLOW. */
static int charge(struct call *c, struct ledger *l, const struct capkm_usage *u,
		  struct refusal *r)
{
	struct domain *d = c->domain;
	const struct capkm_usage most = allowed(d);
	const struct capkm_usage used = larger(&l->total, &d->charged);
	struct capkm_usage step, total, sum = d->charged, would;

	memset(r, 0, sizeof(*r));
	if (!add(&step, &l->step, u) || !add(&total, &l->total, u))
		return -EOVERFLOW;
	add_up(&sum, u);
	would = larger(&total, &sum);
	if (within(&step, &l->step, &l->per_step, CAPKM_BOUND_STEP, r) &&
	    within(&total, &l->total, &l->cumulative, CAPKM_BOUND_TOTAL, r) &&
	    within(&would, &used, &most, CAPKM_BOUND_DOMAIN, r)) {
		l->step = step;
		l->total = total;
		d->charged = sum;
		l->reserved++;
	} else {
		tell(c, l, r);
	}
	host_trace(ledger_reserve, d, l, c->session->id, u, r->axis, r->bound);
	return 0;
}

int ck_ledger_retain(struct call *c, u64 bytes)
{
	const struct capkm_usage u = { .host_bytes = bytes };
	struct ledger *l = c->domain->ledger;
	struct refusal r;
	int err;

	if (!l)
		return 0;
	err = charge(c, l, &u, &r);
	if (err)
		return err;
	return r.axis ? limit_reached(c, r.axis) : 0;
}

/* ---- who has one ---- */

static struct ledger *find(const struct call *c, u64 id)
{
	return id_entry(ck_id_find(&c->domain->ledgers, id), struct ledger,
			node);
}

/* One that the caller's session holds. */
static int own(struct call *c, u64 id, struct ledger **out)
{
	struct ledger *l = find(c, id);

	if (!l)
		return -ENOENT;
	if (l->holder != c->session)
		return -EPERM;
	*out = l;
	return 0;
}

static bool is_owner(const struct call *c)
{
	return c->who->uid == c->domain->uid;
}

static void hold(struct call *c, struct ledger *l)
{
	l->holder = c->session;
	link_move_tail(&l->sib, &c->session->ledgers);
	ck_who_copy(&l->who, &c->client->who);
}

/* Who has a description that no client uses could not go on with it. */
static bool is_orphaned(const struct ledger *l)
{
	return !l->holder || !l->holder->clients_n;
}

void ck_ledgers_leave(struct capkm_session *s)
{
	struct ledger *l;

	while (!link_empty(&s->ledgers)) {
		l = link_first(&s->ledgers, struct ledger, sib);
		link_del(&l->sib);
		l->holder = NULL;
	}
}

static void free_ledger(struct domain *d, struct ledger *l)
{
	host_trace(ledger_destroy, d, l);
	if (d->ledger == l)
		d->ledger = NULL;
	link_del(&l->sib);
	ck_id_erase(&d->ledgers, &l->node);
	ck_who_put(&l->who);
	host_free(l);
}

void ck_ledgers_free(struct domain *d)
{
	struct id_node *node;

	while ((node = ck_id_first(&d->ledgers)))
		free_ledger(d, container_of(node, struct ledger, node));
}

/* ---- making one ---- */

/* What can be wrong with a new one that is charged with @l->total already. */
static int check_new(struct call *c, const struct ledger *l)
{
	const struct capkm_usage most = allowed(c->domain);
	u32 axis;
	int err;

	if (l->flags & CAPKM_LEDGER_F_DOMAIN) {
		if (!is_owner(c))
			return -EPERM;
		if (c->domain->ledger)
			return -EEXIST;
	}
	err = ck_limit(c, c->domain, CAPKM_LIMIT_LEDGERS,
		       c->domain->ledgers.count);
	if (err)
		return err;
	axis = exceeded(&l->total, &l->cumulative);
	if (!axis)
		axis = exceeded(&l->total, &most);
	return axis ? limit_reached(c, axis) : 0;
}

/* The session holds it, or it is freed. */
static int add_new(struct call *c, struct ledger *l, const struct array *label)
{
	struct domain *d = c->domain;
	int err = check_new(c, l);

	if (err) {
		host_free(l);
		return err;
	}
	memcpy(l->label, label->data, label->len);
	l->inherited = l->total;
	l->created_ns = host_time_ns();
	l->node.id = ++d->next_ledger;
	ck_id_insert(&d->ledgers, &l->node);
	hold(c, l);
	if (l->flags & CAPKM_LEDGER_F_DOMAIN)
		d->ledger = l;
	ck_tick(d);
	host_trace(ledger_create, d, l);
	return 0;
}

static struct ledger *alloc_ledger(struct call *c, u32 on_limit, int *err)
{
	struct ledger *l;

	*err = -EINVAL;
	if (on_limit > CAPKM_ON_LIMIT_SKIP)
		return NULL;
	l = ck_call_alloc(c, sizeof(*l), err);
	if (l)
		link_init(&l->sib);
	return l;
}

int ck_op_ledger_create(struct call *c)
{
	struct capkm_ledger_create *a = c->arg;
	struct ledger *l;
	int err;

	l = alloc_ledger(c, a->on_limit, &err);
	if (!l)
		return err;
	l->flags = a->flags;
	l->on_limit = a->on_limit;
	l->per_step = a->per_step;
	l->cumulative = a->cumulative;
	l->total = a->inherited;
	err = add_new(c, l, &c->array[0]);
	if (!err)
		a->out_ledger = l->node.id;
	return err;
}

int ck_op_ledger_fork(struct call *c)
{
	struct capkm_ledger_fork *a = c->arg;
	struct ledger *l, *parent;
	int err;

	l = alloc_ledger(c, a->on_limit, &err);
	if (!l)
		return err;
	err = own(c, a->ledger, &parent);
	if (err) {
		host_free(l);
		return err;
	}
	l->parent = parent->node.id;
	l->flags = a->flags;
	l->on_limit = a->on_limit;
	l->per_step = a->per_step;
	l->cumulative = a->cumulative;
	l->total = parent->total;
	err = add_new(c, l, &c->array[0]);
	if (err)
		return err;
	a->out_ledger = l->node.id;
	a->out_inherited = l->inherited;
	return 0;
}

/* ---- using one ---- */

int ck_op_ledger_begin_step(struct call *c)
{
	struct capkm_ledger_begin_step *a = c->arg;
	struct ledger *l;
	int err;

	err = own(c, a->ledger, &l);
	if (err)
		return err;
	memset(&l->step, 0, sizeof(l->step));
	l->told = false;
	a->out_steps = ++l->steps;
	ck_tick(c->domain);
	host_trace(ledger_step, c->domain, l);
	return 0;
}

int ck_op_ledger_reserve(struct call *c)
{
	struct capkm_ledger_reserve *a = c->arg;
	struct ledger *l = find(c, a->ledger);
	struct refusal r;
	int err;

	if (!l)
		return -ENOENT;
	if (l->holder != c->session && !(l->flags & CAPKM_LEDGER_F_SHARED))
		return -EPERM;
	err = charge(c, l, &a->usage, &r);
	if (err)
		return err;
	l->refused += r.axis != CAPKM_AXIS_NONE;
	ck_tick(c->domain);
	a->out_axis = r.axis;
	a->out_bound = r.bound;
	a->out_used = r.used;
	a->out_most = r.most;
	if (!r.axis)
		a->out_result = CAPKM_CLEAN;
	else
		a->out_result = l->on_limit == CAPKM_ON_LIMIT_SKIP ?
				CAPKM_SKIPPED : CAPKM_REFUSED;
	return 0;
}

int ck_op_ledger_adopt(struct call *c)
{
	const struct capkm_ledger_adopt *a = c->arg;
	struct ledger *l = find(c, a->ledger);

	if (!l)
		return -ENOENT;
	if (!is_owner(c))
		return -EPERM;
	if (l->holder == c->session)
		return 0;
	if (!is_orphaned(l))
		return -EBUSY;
	hold(c, l);
	ck_tick(c->domain);
	host_trace(ledger_adopt, c->domain, l);
	return 0;
}

int ck_op_ledger_destroy(struct call *c)
{
	const struct capkm_ledger_destroy *a = c->arg;
	struct ledger *l;
	int err;

	err = own(c, a->ledger, &l);
	if (err)
		return err;
	free_ledger(c->domain, l);
	ck_tick(c->domain);
	return 0;
}

static void fill(const struct ledger *l, struct capkm_ledger_query *q)
{
	q->out_ledger = l->node.id;
	q->out_holder = l->holder ? l->holder->id : 0;
	q->out_parent = l->parent;
	q->out_flags = l->flags;
	q->out_on_limit = l->on_limit;
	q->out_per_step = l->per_step;
	q->out_cumulative = l->cumulative;
	q->out_inherited = l->inherited;
	q->out_step = l->step;
	q->out_total = l->total;
	q->out_steps = l->steps;
	q->out_reserved = l->reserved;
	q->out_refused = l->refused;
	q->out_created_ns = l->created_ns;
	memcpy(q->out_label, l->label, sizeof(q->out_label));
}

int ck_op_ledger_query(struct call *c)
{
	struct capkm_ledger_query *a = c->arg;
	const struct id_map *ledgers = &c->domain->ledgers;
	const struct ledger *l;

	l = id_entry(a->flags & CAPKM_LEDGER_QUERY_F_NEXT ?
			ck_id_from(ledgers, a->ledger) :
			ck_id_find(ledgers, a->ledger), struct ledger, node);
	if (!l)
		return -ENOENT;
	fill(l, a);
	return 0;
}

/* ---- without a session ---- */

void ck_ledger_fill(const struct domain *d, const struct ledger *l,
		    struct capkm_ledger_view *v)
{
	fill(l, &v->query);
	v->limit = allowed(d);
	v->charged = d->charged;
	v->orphaned = is_orphaned(l);
	v->pid = host_proc_pid(l->who.proc);
	v->uid = host_uid_view(l->who.uid);
	memcpy(v->comm, l->who.comm, sizeof(v->comm));
}

/* With the lock of @d. */
static int del(struct domain *d, u64 id)
{
	struct ledger *l = id_entry(ck_id_find(&d->ledgers, id), struct ledger,
				    node);

	if (!l)
		return -ENOENT;
	if (!is_orphaned(l))
		return -EBUSY;
	free_ledger(d, l);
	ck_tick(d);
	return 0;
}

int capkm_ledger_del(u64 domain, u64 ledger, const struct capkm_caller *who)
{
	struct domain *d = ck_domain_find_for(domain, who);
	bool unlist = false;
	int err;

	if (!d)
		return -ENOENT;
	err = ck_domain_readable(d, who) ? -EPERM : -ENOENT;
	if (who->uid == d->uid || who->admin) {
		host_lock(&d->lock);
		err = del(d, ledger);
		/* It may have been all that kept a domain that nobody uses. */
		unlist = !err && ck_domain_idle(d);
		host_unlock(&d->lock);
	}
	if (unlist)
		ck_domain_unlist(d);
	ck_domain_put(d);
	return err;
}
