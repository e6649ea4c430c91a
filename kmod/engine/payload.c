// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What a window holds: claims that were recorded, external inputs, retained
 * host bytes, failures; and how it is told to readers.
 */
#include "internal.h"

int ck_window_need(struct call *c, const struct window *w,
		   const struct array *reads, const struct array *writes,
		   struct need *need)
{
	const u64 max = c->domain->limit[CAPKM_LIMIT_CLAIMS];
	const struct capkm_claim *claim = reads->data;
	u64 keys = writes->len;
	u32 i;

	for (i = 0; i < reads->len; i++) {
		keys += ck_use_gaps(ck_use_find(&w->uses, claim[i].buffer),
				    claim[i].start, claim[i].end, NULL, NULL);
		if (keys > max)
			return ck_limit_reached(c, CAPKM_LIMIT_CLAIMS);
		host_relax();
	}
	if (w->recorded + w->inputs + w->seen + w->pending + keys > max)
		return ck_limit_reached(c, CAPKM_LIMIT_CLAIMS);
	need->n[STOCK_CLAIM] += keys;
	need->n[STOCK_USE] += reads->len + writes->len;
	/* One for each buffer, for its refusal. */
	need->n[STOCK_CARRIER] += writes->len;
	return 0;
}

void ck_window_wrote(struct window *w, struct buffer *b, u64 start, u64 end,
		     struct stock *st)
{
	const struct need tag = { .n[STOCK_CARRIER] = 1 };
	struct use *use = ck_use_get(&w->uses, b, NULL, st);

	/* To tag the buffer with the window's refusal. */
	if (!use->refusal_paid)
		ck_stock_move(&w->stock, st, &tag);
	use->refusal_paid = true;
	if (ck_use_add(&use->writes, start, end, st)) {
		w->recorded++;
		w->bytes += min(end - start, U64_MAX - w->bytes);
	}
}

void ck_window_input(struct window *w, struct buffer *b, u64 start, u64 end,
		     struct stock *st)
{
	struct use *use = ck_use_get(&w->uses, b, NULL, st);

	w->inputs += ck_use_add(&use->inputs, start, end, st);
}

struct input_gap {
	struct window *window;
	struct buffer *buffer;
	struct stock *stock;
};

static void record_gap(void *ctx, u64 start, u64 end)
{
	struct input_gap *g = ctx;

	ck_window_input(g->window, g->buffer, start, end, g->stock);
}

void ck_window_read(struct window *w, struct buffer *b, u64 start, u64 end,
		    struct stock *st)
{
	struct input_gap g = { .window = w, .buffer = b, .stock = st };

	ck_use_gaps(ck_use_find(&w->uses, b->node.id), start, end, record_gap,
		    &g);
}

static void record_reads(struct call *c, struct window *w,
			 const struct array *reads)
{
	const struct target *t = reads->target;
	u32 i;

	for (i = 0; i < reads->len; i++)
		ck_window_read(w, t[i].buffer, t[i].start, t[i].end,
			       &c->session->stock);
}

static void record_write(struct window *w, const struct target *t, u64 tick,
			 struct stock *st)
{
	if (t->start == t->end)
		return;
	ck_window_wrote(w, t->buffer, t->start, t->end, st);
	ck_taint_clear_recorded(t, w, tick, st);
	ck_taint_score(t, tick, st);
	ck_taint_add_recorded(t, w, tick, st);
	ck_buffer_touch(t->buffer);
}

static void record_seen(struct window *w, const struct target *t,
			struct stock *st)
{
	struct use *use;

	if (t->start == t->end)
		return;
	use = ck_use_get(&w->uses, t->buffer, NULL, st);
	w->seen += ck_use_add(&use->seen, t->start, t->end, st);
}

static void record(struct call *c, struct window *w,
		   const struct capkm_window_record *a)
{
	const struct array *writes = &c->array[1];
	const struct target *t = writes->target;
	struct stock *st = &c->session->stock;
	u64 tick = ck_tick(c->domain);
	u32 i;

	record_reads(c, w, &c->array[0]);
	for (i = 0; i < writes->len; i++) {
		if (a->flags & CAPKM_WINDOW_RECORD_F_SEEN)
			record_seen(w, &t[i], st);
		else
			record_write(w, &t[i], tick, st);
		host_relax();
	}
}

/* All that can be wrong, and what it costs: 0, 1 look again, or an error. */
static int prepare_record(struct call *c, struct capkm_window_record *a,
			  struct window **w)
{
	const struct array *reads = &c->array[0], *writes = &c->array[1];
	struct need need = {};
	int err;

	err = ck_window_own(c, a->window, w);
	if (!err)
		err = ck_targets_check(c, reads, 0, true, &a->out_error_index);
	if (!err)
		err = ck_targets_check(c, writes, reads->len, true,
				       &a->out_error_index);
	if (!err && (*w)->state == CAPKM_WINDOW_OPENING)
		err = -EINVAL;
	if (!err && ck_window_suspender(*w))
		err = -EBUSY;
	if (err || (*w)->state == CAPKM_WINDOW_PREPARE)
		return err;
	err = ck_targets_need(c, writes, &need);
	if (!err)
		err = ck_window_need(c, *w, reads, writes, &need);
	return err ? err : ck_call_buy(c, &need);
}

int ck_op_window_record(struct call *c)
{
	struct capkm_window_record *a = c->arg;
	struct window *w;
	int err;

	do {
		err = prepare_record(c, a, &w);
	} while (err == 1);
	if (!err && w->state != CAPKM_WINDOW_PREPARE)
		record(c, w, a);
	return err;
}

/* The first claim above the one that was taken last, in order of the key. */
static struct use *next_untaken(const struct window *w, struct span **span)
{
	struct id_node *node = ck_id_from(&w->uses, w->taken_buffer);
	struct use *use;

	for (; node; node = ck_id_next(node)) {
		use = container_of(node, struct use, node);
		if (node->id != w->taken_buffer) {
			*span = ck_range_from(&use->writes, 0, 0);
		} else {
			*span = ck_range_from(&use->writes, w->taken_start,
					      w->taken_end);
			if (*span && (*span)->start == w->taken_start &&
			    (*span)->end == w->taken_end)
				*span = ck_range_after(*span);
		}
		if (*span)
			return use;
	}
	return NULL;
}

static void take_claims(struct window *w, struct array *out)
{
	struct capkm_claim *claim = out->data;
	struct span *span;
	struct use *use;

	while (out->used < out->len) {
		use = next_untaken(w, &span);
		if (!use)
			break;
		w->taken_buffer = use->node.id;
		w->taken_start = span->start;
		w->taken_end = span->end;
		claim[out->used].buffer = use->node.id;
		claim[out->used].start = span->start;
		claim[out->used].end = span->end;
		out->used++;
	}
}

static void take_retained(struct window *w, struct array *out)
{
	struct capkm_retained *data = out->data;
	struct link *l = w->taken_retained ? w->taken_retained->next :
					     w->retained.next;

	for (; l != &w->retained && out->used < out->len; l = l->next) {
		data[out->used++] = link_entry(l, struct retained, sib)->data;
		w->taken_retained = l;
	}
}

int ck_op_window_take(struct call *c)
{
	struct capkm_window_take *a = c->arg;
	struct array *claims = &c->array[0], *retained = &c->array[1];
	struct array *reports = &c->array[2];
	struct window *w;
	int err;

	err = ck_window_closing(c, a->window, &w);
	if (err)
		return err;
	if (a->flags & CAPKM_WINDOW_TAKE_F_REWIND) {
		w->taken_buffer = 0;
		w->taken_retained = NULL;
		w->taken_failure = false;
	}
	take_claims(w, claims);
	take_retained(w, retained);
	if (w->first && reports->len && !w->taken_failure) {
		ck_failure_report(w->first, reports->data);
		reports->used = 1;
		w->taken_failure = true;
	}
	a->out_claims = claims->used;
	a->out_retained = retained->used;
	a->out_reports = reports->used;
	return 0;
}

int ck_op_window_fail(struct call *c)
{
	struct capkm_window_fail *a = c->arg;
	const struct array *label = &c->array[0], *text = &c->array[1];
	const struct need need = { .n[STOCK_FAILURE] = 1 };
	struct domain *d = c->domain;
	struct window *w;
	struct failure *f;
	int err;

	if (!a->kind || a->kind > CAPKM_KIND_DRIVER)
		return -EINVAL;
	err = ck_stream_check(c->session, a->stream);
	if (err)
		return err;
	do {
		w = id_entry(ck_id_find(&d->windows, a->window),
			     struct window, node);
		if (!w)
			return -ENOENT;
		err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	if (w->state != CAPKM_WINDOW_PREPARE &&
	    w->state != CAPKM_WINDOW_ORPHANED) {
		ck_tick(d);
		f = ck_failure_by(c, a->stream, a->kind, a->code);
		f->window = w->node.id;
		memcpy(f->label, label->data, label->len);
		ck_failure_text(f, text->data, text->len);
		ck_window_doom(w, f, &c->session->stock);
		ck_failure_unpin(f, &c->session->stock);
	}
	a->out_state = w->state;
	a->out_failures = min(w->failures, (u64)U32_MAX);
	return 0;
}

int ck_op_window_retain(struct call *c)
{
	const struct capkm_window_retain *a = c->arg;
	const struct capkm_retained *data = &a->retained;
	struct window *w;
	struct retained *r;
	u64 sum;
	int err;

	if (!data->bytes || data->mode > CAPKM_RETAIN_WRITE || data->__reserved)
		return -EINVAL;
	r = ck_call_alloc(c, sizeof(*r), &err);
	if (!r)
		return err;
	err = ck_window_own(c, a->window, &w);
	if (!err && w->state != CAPKM_WINDOW_CAPTURE &&
	    w->state != CAPKM_WINDOW_CLOSING)
		err = -EINVAL;
	if (!err && check_add_overflow(w->retained_bytes, data->bytes, &sum))
		err = -EOVERFLOW;
	if (!err)
		err = ck_limit(c, c->domain, CAPKM_LIMIT_RETAINED,
			       w->retained_n);
	if (!err)
		err = ck_ledger_retain(c, data->bytes);
	if (err) {
		host_free(r);
		return err;
	}
	r->data = *data;
	link_add_tail(&r->sib, &w->retained);
	w->retained_n++;
	w->retained_bytes = sum;
	ck_tick(c->domain);
	return 0;
}

void ck_window_fill(const struct window *w, struct capkm_window_query *q)
{
	q->out_window = w->node.id;
	q->out_owner = w->opener.stream;
	q->out_session = w->opener.session;
	q->out_cookie = w->cookie;
	q->out_graph = w->graph;
	memcpy(q->out_device, w->device, sizeof(q->out_device));
	q->out_slot = w->slot_index;
	q->out_state = w->state;
	q->out_verdict = w->verdict;
	q->out_capture_cache = w->state == CAPKM_WINDOW_PREPARE ||
			       w->state == CAPKM_WINDOW_OPENING ||
			       w->state == CAPKM_WINDOW_CAPTURE;
	q->out_doomed = ck_window_doomed(w);
	q->out_strict = w->strict;
	q->out_pid = host_proc_pid(w->opener.proc);
	q->out_uid = host_uid_view(w->opener.uid);
	q->out_recorded = w->recorded;
	q->out_bytes = w->bytes;
	q->out_inputs = w->inputs;
	q->out_retained = w->retained_n;
	q->out_retained_bytes = w->retained_bytes;
	q->out_launches = w->launches;
	q->out_foreign_launches = w->foreign_launches;
	q->out_failures = w->failures;
	q->out_failed_after = w->failed_after;
	q->out_prepared_ns = w->prepared_ns;
	q->out_begun_ns = w->begun_ns;
	q->out_closed_ns = w->closed_ns;
	memcpy(q->out_comm, w->opener.comm, sizeof(q->out_comm));
	memcpy(q->out_mode, w->mode, sizeof(q->out_mode));
	q->out_parent = w->parent_id;
	q->out_escaped = w->escaped;
	q->out_children = w->children_n;
	q->out_members = w->members_n;
}

static void fill_members(const struct window *w, struct array *out)
{
	struct capkm_member *m = out->data;
	const struct slot *slot;
	const struct link *l;

	link_for_each(l, &w->members) {
		if (out->used == out->len)
			return;
		slot = link_entry(l, struct slot, member_sib);
		memcpy(m->device, slot->device->uuid, sizeof(m->device));
		m->slot = slot->index;
		m->scopes = min(slot->scopes, (u64)U32_MAX);
		m->stream = slot->member_stream;
		m->launches = slot->member_launches;
		out->used++;
		m++;
	}
}

struct window *ck_window_find(const struct domain *d, u64 id)
{
	struct link *l;
	struct window *w;

	w = id_entry(ck_id_find(&d->windows, id), struct window, node);
	if (w)
		return w;
	link_for_each(l, &d->history) {
		w = link_entry(l, struct window, sib);
		if (w->node.id == id)
			return w;
	}
	return NULL;
}

int ck_op_window_query(struct call *c)
{
	struct capkm_window_query *a = c->arg;
	struct array *reports = &c->array[0];
	struct capkm_report *r = reports->data;
	const struct window *w;
	struct slot *slot;
	u32 index;
	int err;

	if (a->window) {
		if (!ck_place_empty(&a->place))
			return -EINVAL;
		w = ck_window_find(c->domain, a->window);
		if (!w)
			return -ENOENT;
	} else {
		if (!c->client)
			return -EPERM;
		err = ck_slot_find(c->client, &a->place, a->flags, &slot,
				   &index);
		if (err)
			return err;
		w = slot ? slot->window : NULL;
	}
	if (!w) {
		*a = (struct capkm_window_query) {
			.size = a->size, .flags = a->flags, .place = a->place,
			.reports_uptr = a->reports_uptr,
			.reports_len = a->reports_len, .out_slot = index,
			.members_uptr = a->members_uptr,
			.members_len = a->members_len,
		};
		return 0;
	}
	if (w->first && reports->used < reports->len)
		ck_failure_report(w->first, &r[reports->used++]);
	if (w->last && reports->used < reports->len)
		ck_failure_report(w->last, &r[reports->used++]);
	a->out_reports = reports->used;
	fill_members(w, &c->array[1]);
	ck_window_fill(w, a);
	return 0;
}
