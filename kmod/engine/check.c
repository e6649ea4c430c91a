// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* May these bytes be read; and the scopes of zero length, TAINT and WRITTEN. */
#include "internal.h"

/* EG-9: has this check already met the failure, or the buffer without memory? */
static bool met(const struct fault *fault, struct buffer *b, u64 stamp)
{
	u64 *seen;

	if (fault->failure)
		seen = &fault->failure->stamp;
	else if (fault->unallocated)
		seen = &b->stamp;
	else
		return false;
	if (*seen == stamp)
		return true;
	*seen = stamp;
	return false;
}

/* The first byte with work that was left and is not confirmed; whose that is. */
static bool find_left(const struct capkm_session *s, const struct target *t,
		      struct capkm_report *r)
{
	const struct claim *c = ck_taint_unconfirmed(t);
	const struct slot *slot = c ? c->slot : NULL;
	const struct link *l;

	/* A private buffer is one client's, and unconfirmed as a whole. */
	if (!c && s && !t->buffer->shared)
		link_for_each(l, &s->clients) {
			slot = ck_buffer_dirty_slot(t->buffer, link_entry(l, struct client, sib));
			if (slot)
				break;
		}
	if (!slot)
		return false;
	r->start = c ? max(c->span.start, t->start) : t->start;
	r->end = c ? min(c->span.end, t->end) : t->end;
	r->sequence = c ? c->done : slot->last;
	ck_who_report(&slot->client->who, r);
	return true;
}

/* The first byte that nobody has confirmed yet; who wrote it, or may just do so. */
bool ck_unconfirmed_report(const struct capkm_session *s,
			   const struct target *t, struct capkm_report *r)
{
	const struct graph *g;
	u64 start, end;
	bool left;

	if (t->start == t->end)
		return false;
	left = find_left(s, t, r);
	g = ck_graph_seeing(t, &start, &end);
	if (!left && !g)
		return false;
	if (!left || (g && start < r->start)) {
		r->start = start;
		r->end = end;
		r->sequence = g->enter;
		r->graph = g->node.id;
		ck_who_report(&g->client->who, r);
	}
	r->kind = CAPKM_KIND_UNCONFIRMED;
	r->buffer = t->buffer->node.id;
	return true;
}

static bool find_stale(const struct target *t, u64 since,
		       struct capkm_report *r)
{
	const struct claim *writer;

	r->buffer = t->buffer->node.id;
	r->start = ck_writer_stale(t, since, &writer);
	r->end = t->end;
	r->kind = CAPKM_KIND_STALE;
	if (writer) {
		r->session = writer->session;
		r->stream = writer->stream;
		r->sequence = writer->span.date;
	}
	return r->start < t->end;
}

/*
 * Of clean claims: how many are unconfirmed, or stale. Reports if it is asked; else the
 * work of the caller's own session on private buffers is not counted.
 */
static u32 find_more(struct call *c, const struct array *claims, bool stale,
		     u64 since, struct array *reports)
{
	struct capkm_report *out, r;
	struct target t;
	u32 i, n = 0;

	for (i = 0; i < claims->len; i++) {
		t = claims->target[i];
		host_relax();
		memset(&r, 0, sizeof(r));
		if (!(stale ? find_stale(&t, since, &r) :
			      ck_unconfirmed_report(reports ? c->session : NULL, &t, &r)))
			continue;
		n++;
		if (reports && reports->used < reports->len) {
			out = reports->data;
			out[reports->used++] = r;
		}
	}
	return n;
}

/* F_WRITTEN is a question that only some buffers can answer. */
static int check_writers_kept(struct call *c, const struct array *claims,
			      u32 *bad)
{
	u32 i;

	for (i = 0; i < claims->len; i++) {
		if (ck_writer_kept(claims->target[i].buffer))
			continue;
		*bad = i;
		c->say_error = true;
		return -EOPNOTSUPP;
	}
	return 0;
}

static u32 find_faults(struct call *c, const struct array *claims,
		       struct array *reports)
{
	struct capkm_report *r = reports->data;
	u64 stamp = ++c->domain->stamp;
	struct fault fault;
	struct target t;
	u32 i, n = 0;

	for (i = 0; i < claims->len; i++) {
		t = claims->target[i];
		host_relax();
		if (!ck_taint_find(&t, NULL, &fault) ||
		    met(&fault, t.buffer, stamp))
			continue;
		if (reports->used < reports->len)
			ck_fault_report(&fault, &t, &r[reports->used++]);
		n++;
	}
	return n;
}

/* When something of their buffers changed last. */
static u64 touched(struct call *c, const struct array *claims)
{
	struct buffer *b;
	u64 last = 0;
	u32 i;

	for (i = 0; i < claims->len; i++) {
		b = claims->target[i].buffer;
		last = max(last, max(b->sequence, ck_graph_touched(b)));
	}
	return last;
}

int ck_op_check(struct call *c)
{
	struct capkm_check *a = c->arg;
	struct array *claims = &c->array[0], *reports = &c->array[1];
	const u32 which = a->flags & (CAPKM_CHECK_F_UNCHANGED |
				      CAPKM_CHECK_F_WRITTEN);
	const bool confirmed = a->flags & CAPKM_CHECK_F_CONFIRMED;
	u64 last;
	int err;

	if (which ? which & (which - 1) : a->since)
		return -EINVAL;
	err = ck_targets_check(c, claims, 0, false, &a->out_error_index);
	if (!err && which == CAPKM_CHECK_F_WRITTEN)
		err = check_writers_kept(c, claims, &a->out_error_index);
	if (err)
		return err;
	a->out_unconfirmed = 0;
	a->out_reports = find_faults(c, claims, reports);
	last = touched(c, claims);
	a->out_sequence = ck_sample(c->domain, last);
	a->out_result = CAPKM_CLEAN;
	if (a->out_reports) {
		a->out_result = CAPKM_TAINTED;
		return 0;
	}
	a->out_unconfirmed = find_more(c, claims, false, 0,
				       confirmed ? reports : NULL);
	if (confirmed && a->out_unconfirmed) {
		a->out_result = CAPKM_PENDING;
		a->out_reports = a->out_unconfirmed;
		return 0;
	}
	if (which == CAPKM_CHECK_F_WRITTEN) {
		a->out_reports = find_more(c, claims, true, a->since, reports);
		if (a->out_reports)
			a->out_result = CAPKM_STALE;
	} else if ((a->flags & CAPKM_CHECK_F_UNCHANGED) &&
		 last > a->since)
		a->out_result = CAPKM_CHANGED;
	return 0;
}

void ck_targets_taint(struct call *c, const struct array *claims,
		      struct failure *f)
{
	struct stock *st = &c->session->stock;
	u64 tick = c->domain->sequence;
	struct target t;
	u32 i;

	for (i = 0; i < claims->len; i++) {
		t = claims->target[i];
		if (f)
			ck_taint_fail(&t, f, tick, tick, st);
		else
			ck_taint_clear(&t, tick, st);
		if (!f && ck_writer_kept(t.buffer))
			ck_writer_set(&t, c->session->id, 0, tick, st);
		ck_buffer_touch(t.buffer);
		host_relax();
	}
}

static struct failure *taint_failure(struct call *c,
				     const struct capkm_taint *a)
{
	struct failure *f = ck_failure_by(c, a->stream, a->kind, a->code);

	ck_failure_text(f, c->array[1].data, c->array[1].len);
	return f;
}

int ck_op_taint(struct call *c)
{
	struct capkm_taint *a = c->arg;
	struct array *claims = &c->array[0];
	struct failure *f = NULL;
	struct need need;
	int err;

	if (a->failure ? a->kind || a->code || a->text_len :
			 !a->kind || a->kind > CAPKM_KIND_DRIVER)
		return -EINVAL;
	err = ck_stream_check(c->session, a->stream);
	if (err)
		return err;
	do {
		err = ck_targets_check(c, claims, 0, false, &a->out_error_index);
		if (err)
			return err;
		if (a->failure) {
			f = id_entry(ck_id_find(&c->domain->failures,
						a->failure),
				     struct failure, node);
			if (!f)
				return -ENOENT;
		}
		memset(&need, 0, sizeof(need));
		err = ck_targets_need(c, claims, &need);
		if (err)
			return err;
		need.n[STOCK_FAILURE] = 1;
		err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	ck_tick(c->domain);
	if (f)
		ck_failure_pin(f);
	else
		f = taint_failure(c, a);
	ck_targets_taint(c, claims, f);
	a->out_failure = need.n[STOCK_CARRIER] ? f->node.id : 0;
	a->out_sequence = c->domain->sequence;
	ck_failure_unpin(f, &c->session->stock);
	return 0;
}

/* Only claims that must be split cost something: this works at any limit. */
static void splits_of(struct call *c, const struct array *claims,
		      struct need *need)
{
	struct target t;
	u32 i;

	for (i = 0; i < claims->len; i++) {
		t = claims->target[i];
		need->n[STOCK_CLAIM] += ck_taint_splits(&t);
		need->n[STOCK_CLAIM] += ck_writer_cost(t.buffer);
		host_relax();
	}
}

int ck_op_written(struct call *c)
{
	struct capkm_written *a = c->arg;
	struct array *claims = &c->array[0];
	struct need need;
	int err;

	do {
		err = ck_targets_check(c, claims, 0, true, &a->out_error_index);
		if (err)
			return err;
		memset(&need, 0, sizeof(need));
		splits_of(c, claims, &need);
		err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	ck_tick(c->domain);
	ck_targets_taint(c, claims, NULL);
	a->out_sequence = c->domain->sequence;
	return 0;
}
