// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Scopes: the bracket around one unit of device work. All that an exit may need
 * is bought at the enter, and promised to it.
 */
#include "internal.h"

static struct stock *stock_of(const struct scope *s)
{
	return &s->client->session->stock;
}

void ck_scopes_count_recorded(struct window *w)
{
	struct link *l, *k;
	struct need before;
	struct stock *st;
	struct scope *s;
	struct claim *c;

	link_for_each(l, &w->client->scopes) {
		s = link_entry(l, struct scope, sib);
		if (s->window != w)
			continue;
		st = stock_of(s);
		ck_stock_release(st, &s->promised);
		before = st->spare;
		link_for_each(k, &s->claims) {
			c = link_entry(k, struct claim, sib);
			ck_window_wrote(w, c->buffer, c->span.start,
					c->span.end, st);
		}
		ck_stock_promise_rest(st, &s->promised, &s->promised, &before);
	}
}

/* ---- leaving a scope ---- */

/* What went well: who wrote it, and whether that is known to be finished. */
static void wrote(struct scope *s, struct claim *c, bool complete, u64 tick)
{
	const struct target t = {
		.buffer = c->buffer,
		.start = c->span.start, .end = c->span.end,
	};
	const bool keeps_writer = c->keeps_writer;
	struct stock *st = stock_of(s);

	ck_taint_clear(&t, s->enter, st);
	if (complete || !t.buffer->shared) {
		ck_claim_drop(c, st);
		if (!complete)
			t.buffer->dirty = tick;
	} else {
		ck_taint_unconfirm(c, s->slot, tick, st);
		ck_taint_widen(t.buffer, s->slot, tick, st);
	}
	if (!complete)
		ck_slot_dirtied(s->slot, tick);
	if (keeps_writer)
		ck_writer_set(&t, s->client->session->id, s->stream, tick, st);
}

/* @f: what the written bytes carry from now on, or NULL. */
static void settle(struct scope *s, struct failure *f, bool complete, u64 tick)
{
	bool recorded = s->window && !f;
	struct stock *st = stock_of(s);
	struct target t;
	struct claim *c;
	u32 n = 0;

	while (!link_empty(&s->claims)) {
		c = link_first(&s->claims, struct claim, sib);
		t.buffer = c->buffer;
		t.start = c->span.start;
		t.end = c->span.end;
		t.buffer->sequence = tick;
		if (recorded) {
			ck_window_wrote(s->window, t.buffer, t.start, t.end, st);
			ck_taint_clear_recorded(&t, s->window, s->enter, st);
			ck_taint_score(&t, s->enter, st);
			ck_taint_record(c, s->window, tick);
		} else if (f) {
			ck_claim_drop(c, st);
			ck_taint_fail(&t, f, s->enter, tick, st);
		} else {
			wrote(s, c, complete, tick);
		}
		ck_buffer_put(t.buffer, st, false);
		if (!(++n % 64))
			host_relax();
	}
}

static void drop_inputs(struct scope *s, bool record)
{
	struct stock *st = stock_of(s);
	struct buffer *b;
	struct claim *c;
	u64 start, end;

	while (!link_empty(&s->inputs)) {
		c = link_first(&s->inputs, struct claim, sib);
		b = c->buffer;
		start = c->span.start;
		end = c->span.end;
		link_del(&c->sib);
		ck_stock_give(st, STOCK_CLAIM, c);
		if (record)
			ck_window_input(s->window, b, start, end, st);
		ck_buffer_put(b, st, false);
	}
}

/* Of a stream that neither owns the window nor joined it with the slot. */
static bool is_foreign(const struct scope *s, const struct window *w)
{
	return s->stream != w->opener.stream &&
	       !(s->slot->member == w && s->stream == s->slot->member_stream);
}

static void leave_window(struct scope *s, struct failure *f,
			 struct stock *back)
{
	struct window *w = s->window;

	if (!f) {
		w->launches++;
		w->foreign_launches += is_foreign(s, w);
		if (s->slot->member == w)
			s->slot->member_launches++;
	} else if (f != w->refusal) {
		ck_window_doom(w, f, back);
	}
	w->scopes--;
	w->pending -= s->keys;
	ck_window_put(w, back);
}

/* SC-29: an error inside a window is for the window's owner. */
static void queue_note(struct scope *s, struct failure *f, struct stock *back)
{
	struct note *note = ck_stock_take(stock_of(s), STOCK_NOTE);

	ck_note(s->slot, note, f,
		s->window ? s->window->opener.stream : s->stream, false, back);
}

/* What it was promised has been released. */
static void leave(struct domain *d, struct scope *s, struct failure *f,
		  bool complete, u64 tick, struct stock *back)
{
	settle(s, f, complete, tick);
	drop_inputs(s, s->window && !f);
	if (s->window)
		leave_window(s, f, back);
	s->slot->scopes--;
	s->slot->sequence = tick;
	s->client->scopes_n--;
	d->paid -= s->paid;
	link_del(&s->sib);
	ck_id_erase(&d->scopes, &s->node);
	if (s->poison)
		ck_failure_unpin(s->poison, back);
	ck_fast_left(s);
	ck_stock_give(back, STOCK_SCOPE, s);
}

/* Has one pin. */
static struct failure *fail(struct domain *d, struct scope *s, u32 kind,
			    s32 code)
{
	struct failure *f = ck_failure_new(d, stock_of(s));

	ck_failure_date(d, f, kind, code);
	f->scope = s->id;
	f->window = s->window ? s->window->node.id : 0;
	memcpy(f->label, s->label, sizeof(f->label));
	s->client->session->failed++;
	return f;
}

void ck_scope_tear(struct domain *d, struct scope *s, u64 tick,
		   struct stock *back)
{
	struct failure *f;

	ck_stock_release(stock_of(s), &s->promised);
	f = fail(d, s, CAPKM_KIND_TORN_DOWN, 0);
	ck_who_copy(&f->who, &s->client->who);
	f->who.stream = s->stream;
	host_trace(scope_torn, s, f, false);
	leave(d, s, f, true, tick, back);
	ck_failure_unpin(f, back);
}

/* What makes an exit fail that says it went well, or NULL. */
static struct failure *failed_otherwise(const struct scope *s)
{
	struct failure *f = ck_device_failed(s->slot->device, s->epoch);

	if (f)
		return f;
	if (s->poison)
		return s->poison;
	return s->window && s->window->refused ? s->window->refusal : NULL;
}

static struct scope *find_scope(struct call *c, u64 id)
{
	if (id & CAPKM_SCOPE_FAST)
		return ck_fast_scope(c->session, id);
	return id_entry(ck_id_find(&c->domain->scopes, id), struct scope, node);
}

int ck_op_scope_exit(struct call *c)
{
	struct capkm_scope_exit *a = c->arg;
	struct array *text = &c->array[0], *stack = &c->array[1];
	struct domain *d = c->domain;
	struct scope *s = find_scope(c, a->scope);
	bool failed = a->flags & CAPKM_SCOPE_EXIT_F_FAILED;
	struct failure *f = NULL;
	struct slot *slot;

	if (!s)
		return -ENOENT;
	if (s->client != c->client)
		return -EPERM;
	if (failed ? !a->kind || a->kind > CAPKM_KIND_DRIVER :
		     a->kind || a->code || text->len || stack->len)
		return -EINVAL;

	ck_tick(d);
	slot = s->slot;
	ck_stock_release(&c->session->stock, &s->promised);
	if (failed) {
		f = fail(d, s, a->kind, a->code);
		ck_who_set(&f->who, c->who, c->session->id, s->stream);
		ck_failure_text(f, text->data, text->len);
		if (stack->len) {
			f->stack = stack->data;
			f->stack_len = stack->len;
			stack->data = NULL;	/* the failure's now */
		}
	} else {
		f = failed_otherwise(s);
	}
	a->out_failure = f && !link_empty(&s->claims) ? f->node.id : 0;
	if (f)
		queue_note(s, f, &c->session->stock);
	host_trace(scope_exit, s, f, a->flags & CAPKM_SCOPE_EXIT_F_COMPLETE);
	leave(d, s, f, a->flags & CAPKM_SCOPE_EXIT_F_COMPLETE, d->sequence,
	      &c->session->stock);
	if (failed)
		ck_failure_unpin(f, &c->session->stock);
	a->out_sequence = slot->sequence;
	return 0;
}

/* ---- entering ---- */

struct entering {
	struct call *call;
	struct capkm_scope_enter *arg;
	const struct array *reads, *writes, *label;
	struct array *reports;
	struct slot *slot;
	struct window *window;		/* recording, or NULL */
	struct window *suspender;	/* its child that records, or NULL */
	u64 keys;			/* that its sets may grow by */
	struct fault fault;		/* of the first bad read */
	struct target bad;		/* that read; bad.buffer NULL if none */
};

static bool device_faulted(const struct entering *e)
{
	return e->slot->device->faulted;
}

static void find_bad_read(struct entering *e)
{
	const struct target *t = e->reads->target;
	u32 i;

	e->bad.buffer = NULL;
	for (i = 0; i < e->reads->len; i++) {
		if (ck_taint_find(&t[i], e->window, &e->fault)) {
			e->bad = t[i];
			return;
		}
	}
}

static void report_bad_read(struct entering *e)
{
	const struct failure *f = e->fault.failure;

	e->arg->out_failure = f ? f->node.id : 0;
	if (!e->reports->len)
		return;
	ck_fault_report(&e->fault, &e->bad, e->reports->data);
	e->reports->used = 1;
}

static void report_fault(struct entering *e)
{
	e->bad.buffer = NULL;
	e->arg->out_failure = e->slot->device->fault->node.id;
	if (!e->reports->len)
		return;
	ck_failure_report(e->slot->device->fault, e->reports->data);
	e->reports->used = 1;
}

/* The failure of an input that never had memory is made when it is needed. */
static struct failure *input_failure(struct entering *e)
{
	static const char never[] = "the buffer was never allocated";
	struct call *c = e->call;
	struct failure *f = device_faulted(e) ? e->slot->device->fault :
						e->fault.failure;

	if (f) {
		ck_failure_pin(f);
		return f;
	}
	f = ck_failure_by(c, e->arg->place.stream, CAPKM_KIND_UNALLOCATED, 0);
	ck_failure_text(f, never, sizeof(never) - 1);
	return f;
}

static struct skip *skip_new(struct entering *e)
{
	const struct capkm_claim *claim = e->writes->data;
	struct stock *st = &e->call->session->stock;
	struct skip *s = ck_stock_take(st, STOCK_SKIP), *at = s;
	u32 i;

	link_init(&s->sib);
	/* 0: it needed its device. */
	s->needed = e->bad.buffer ? e->bad.buffer->node.id : 0;
	memcpy(s->label, e->label->data, e->label->len);
	for (i = 0; i < e->writes->len; i++)
		at = ck_skip_produced(at, claim[i].buffer, st);
	return s;
}

/* It does not run: what it would have written carries @f. */
static void not_run(struct entering *e, struct failure *f, u64 tick)
{
	host_trace(scope_skip, e->slot, e->arg->place.stream, e->window, f,
		   e->label);
	if (e->window)
		ck_window_doom(e->window, f, &e->call->session->stock);
	ck_targets_taint(e->call, e->writes, f);
	e->slot->sequence = tick;
	e->arg->out_sequence = tick;
}

/* SC-7: the outputs carry the input's failure, the same id. */
static void skip(struct entering *e)
{
	struct stock *st = &e->call->session->stock;
	u64 tick = ck_tick(e->call->domain);
	struct failure *f = input_failure(e);

	not_run(e, f, tick);
	if (f->carriers.count)
		ck_failure_skipped(f, skip_new(e), st);
	ck_failure_unpin(f, st);
	e->call->session->skipped++;
	e->arg->out_result = CAPKM_SKIPPED;
}

/* The window is suspended: its driver could not have taken the work. */
static void refuse(struct entering *e)
{
	struct call *c = e->call;
	struct stock *st = &c->session->stock;
	u64 tick = ck_tick(c->domain);
	struct failure *f = ck_failure_by(c, e->arg->place.stream,
					  CAPKM_KIND_REFUSED, 0);
	char text[CAPKM_TEXT_MAX + 1];
	u32 len;

	len = scnprintf(text, sizeof(text),
			"window %llu is suspended while its child window %llu records",
			(unsigned long long)e->window->node.id,
			(unsigned long long)e->suspender->node.id);
	f->window = e->window->node.id;
	memcpy(f->label, e->label->data, e->label->len);
	ck_failure_text(f, text, len);
	not_run(e, f, tick);
	e->arg->out_failure = f->node.id;
	if (e->reports->len) {
		ck_failure_report(f, e->reports->data);
		e->reports->used = 1;
	}
	ck_failure_unpin(f, st);
	e->arg->out_result = CAPKM_REFUSED;
}

struct gap {
	struct scope *scope;
	struct buffer *buffer;
	struct stock *stock;
};

static void add_gap(void *ctx, u64 start, u64 end)
{
	struct gap *g = ctx;
	struct claim *c = ck_stock_take(g->stock, STOCK_CLAIM);

	c->buffer = g->buffer;
	c->span.start = start;
	c->span.end = end;
	ck_buffer_get(g->buffer);
	link_add_tail(&c->sib, &g->scope->inputs);
}

/* What it reads and the window has not written yet. */
static void note_inputs(struct entering *e, struct scope *s)
{
	const struct target *t = e->reads->target;
	struct gap g = { .scope = s, .stock = stock_of(s) };
	u32 i;

	for (i = 0; i < e->reads->len; i++) {
		g.buffer = t[i].buffer;
		ck_use_gaps(ck_use_find(&e->window->uses, g.buffer->node.id),
			    t[i].start, t[i].end, add_gap, &g);
	}
}

static void enter(struct entering *e, const struct need *need)
{
	const struct target *t = e->writes->target;
	struct call *c = e->call;
	struct domain *d = c->domain;
	struct stock *st = &c->session->stock;
	const struct need before = st->spare;
	struct scope *s = ck_stock_take(st, STOCK_SCOPE);
	u32 i;

	s->node.id = ++d->next_scope;
	s->id = s->node.id;
	s->client = c->client;
	s->slot = e->slot;
	s->enter = ck_tick(d);
	s->epoch = e->slot->device->epoch;
	s->stream = e->arg->place.stream;
	memcpy(s->label, e->label->data, e->label->len);
	link_init(&s->claims);
	link_init(&s->inputs);
	if (e->bad.buffer)
		s->poison = input_failure(e);
	s->paid = need->n[STOCK_CLAIM];
	d->paid += s->paid;

	for (i = 0; i < e->writes->len; i++) {
		if (t[i].start == t[i].end)
			continue;
		ck_taint_open(&t[i], s, st);
		ck_buffer_touch(t[i].buffer);
	}
	ck_escape(c, e->slot, s->stream);
	if (e->window) {
		note_inputs(e, s);
		s->window = e->window;
		e->arg->out_window = s->window->node.id;
		s->keys = e->keys;
		e->window->refs++;
		e->window->scopes++;
		e->window->pending += s->keys;
	}
	ck_stock_promise_rest(st, &s->promised, need, &before);
	e->slot->scopes++;
	ck_id_insert(&d->scopes, &s->node);
	link_add_tail(&s->sib, &c->client->scopes);
	c->client->scopes_n++;
	c->session->entered++;
	host_trace(scope_enter, s, e->reads->len, e->writes->len);
	e->arg->out_result = CAPKM_CLEAN;
	e->arg->out_scope = s->id;
	e->arg->out_sequence = s->enter;
}

/* What the exit needs to keep the writers. */
static u64 writer_claims(struct entering *e)
{
	u64 n = 0;
	u32 i;

	for (i = 0; i < e->writes->len; i++)
		n += ck_writer_cost(e->writes->target[i].buffer);
	return n;
}

/* All that can be wrong, and what it costs: 0, 1 look again, or an error. */
static int prepare_enter(struct entering *e, struct need *need)
{
	struct call *c = e->call;
	int err;

	err = ck_targets_check(c, e->reads, 0, false, &e->arg->out_error_index);
	if (!err)
		err = ck_targets_check(c, e->writes, e->reads->len, true,
				       &e->arg->out_error_index);
	if (!err)
		err = ck_slot_get(c, &e->arg->place, e->arg->flags, &e->slot);
	if (err)
		return err;
	if (ck_slot_driver_at_work(e->slot))
		return -EBUSY;
	err = ck_limit(c, c->domain, CAPKM_LIMIT_SCOPES, c->client->scopes_n);
	if (err)
		return err;
	e->window = ck_slot_recording(e->slot);
	e->suspender = e->window ? ck_window_suspender(e->window) : NULL;
	find_bad_read(e);
	memset(need, 0, sizeof(*need));
	err = ck_targets_need(c, e->writes, need);
	need->n[STOCK_CLAIM] += writer_claims(e);
	e->keys = need->n[STOCK_CLAIM];
	if (!err && e->window)
		err = ck_window_need(c, e->window, e->reads, e->writes, need);
	if (err)
		return err;
	e->keys = need->n[STOCK_CLAIM] - e->keys;
	need->n[STOCK_SCOPE] = 1;
	need->n[STOCK_NOTE] = 1;
	need->n[STOCK_FAILURE] = 1 + !!e->bad.buffer +
		ck_escape_dooms(c->client, e->slot, e->arg->place.stream);
	if (e->bad.buffer || device_faulted(e))
		need->n[STOCK_SKIP] = 1 + e->writes->len / SKIP_PRODUCED;
	return ck_call_buy(c, need);
}

int ck_op_scope_enter(struct call *c)
{
	struct entering e;
	struct need need;
	int err;

	e.call = c;
	e.arg = c->arg;
	e.reads = &c->array[0];
	e.writes = &c->array[1];
	e.label = &c->array[2];
	e.reports = &c->array[3];
	do {
		err = prepare_enter(&e, &need);
	} while (err == 1);
	if (err)
		return err;
	e.arg->out_scope = 0;
	e.arg->out_window = 0;
	e.arg->out_failure = 0;
	e.arg->out_sequence = c->domain->sequence;
	if (e.suspender) {
		refuse(&e);
	} else if (device_faulted(&e)) {
		report_fault(&e);
		skip(&e);
	} else if (e.bad.buffer && (e.fault.scope || e.fault.graph)) {
		report_bad_read(&e);
		e.arg->out_result = CAPKM_IN_PROGRESS;
	} else if (e.bad.buffer &&
		   !(e.arg->flags & CAPKM_SCOPE_ENTER_F_POISON)) {
		report_bad_read(&e);
		skip(&e);
	} else {
		if (e.bad.buffer)
			report_bad_read(&e);
		need.n[STOCK_SKIP] = 0;
		enter(&e, &need);
	}
	e.arg->out_reports = e.reports->used;
	return 0;
}
