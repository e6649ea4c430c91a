// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Graphs: what a sealed window became. A replay is a scope over all that the
 * graph writes, but it is one state of the graph, which its buffers refer to,
 * not a claim for each range: begin and end look at a list. Only when
 * something is wrong with one of its buffers are the claims walked.
 */
#include "internal.h"

static struct use *use_of(struct id_node *node)
{
	return container_of(node, struct use, node);
}

void ck_graph_init(struct domain *d, struct graph *g, struct client *client)
{
	g->node.id = ++d->next_graph;
	g->client = client;
	link_init(&g->busy);
	link_init(&g->tracked);
	link_init(&g->retained);
	ck_stock_init(&g->stock);
	ck_id_insert(&d->graphs, &g->node);
	link_add_tail(&g->sib, &client->graphs);
	client->graphs_n++;
}

void ck_graph_from_window(struct graph *g, struct window *w)
{
	struct id_node *node;
	struct use *use;

	g->window = w->node.id;
	g->owner = w->opener.stream;
	g->cookie = w->cookie;
	g->writes = w->recorded;
	g->inputs = w->inputs;
	g->seen = w->seen;
	g->retained_n = w->retained_n;
	g->retained_bytes = w->retained_bytes;
	while (!link_empty(&w->retained))
		link_move_tail(w->retained.next, &g->retained);

	g->uses = w->uses;
	memset(&w->uses, 0, sizeof(w->uses));
	for (node = ck_id_first(&g->uses); node; node = ck_id_next(node)) {
		use = use_of(node);
		use->graph = g;
		if (use->buffer->claims.count)
			link_add_tail(&use->busy, &g->busy);
		if (ck_writer_kept(use->buffer))
			link_add_tail(&use->tracked, &g->tracked);
	}
}

static u32 drop_retained(struct graph *g, u32 most)
{
	struct retained *r;
	u32 n;

	for (n = 0; n < most && !link_empty(&g->retained); n++) {
		r = link_first(&g->retained, struct retained, sib);
		link_del(&r->sib);
		host_free(r);
	}
	return n;
}

void ck_graph_strip(struct graph *g, struct stock *back, bool keep_reports)
{
	ck_uses_free(&g->uses, back, keep_reports);
	g->touched = 0;
	g->dirty = 0;
	drop_retained(g, U32_MAX);
}

/* A piece of it goes; true if that was all. */
static bool free_some(struct graph *g, struct stock *back)
{
	if (ck_uses_free_some(&g->uses, PIECE, back, g->keep_reports) ||
	    drop_retained(g, PIECE) == PIECE || !ck_stock_free_some(&g->stock, PIECE))
		return false;
	host_free(g);
	return true;
}

void ck_graph_free(struct domain *d, struct graph *g, struct stock *back,
		   bool keep_reports)
{
	host_trace(graph_destroy, g, NULL);
	link_del(&g->sib);
	g->client->graphs_n--;
	g->client = NULL;
	g->keep_reports = keep_reports;
	ck_id_erase(&d->graphs, &g->node);
	if (!free_some(g, back))
		link_add_tail(&g->sib, &d->dying_graphs);
}

bool ck_graph_bury(struct domain *d)
{
	struct graph *g;

	if (link_empty(&d->dying_graphs))
		return false;
	g = link_first(&d->dying_graphs, struct graph, sib);
	link_del(&g->sib);
	if (!free_some(g, NULL))
		link_add_tail(&g->sib, &d->dying_graphs);
	return true;
}

u64 ck_graph_touched(const struct buffer *b)
{
	const struct link *l;
	const struct use *use;
	u64 last = 0;

	link_for_each(l, &b->uses) {
		use = link_entry(l, struct use, sib);
		if (use->graph && use->writes.count + use->seen.count)
			last = max(last, use->graph->touched);
	}
	return last;
}

static struct graph *replaying(const struct target *t, bool seen, u64 *start,
			       u64 *end)
{
	struct graph *found = NULL;
	const struct link *l;
	const struct use *use;
	struct span *s;

	if (!t->buffer->domain->replaying)
		return NULL;
	link_for_each(l, &t->buffer->uses) {
		use = link_entry(l, struct use, sib);
		if (!use->graph || !use->graph->slot)
			continue;
		s = ck_range_first(seen ? &use->seen : &use->writes, t->start,
				   t->end);
		if (!s || (found && max(s->start, t->start) >= *start))
			continue;
		found = use->graph;
		*start = max(s->start, t->start);
		*end = min(s->end, t->end);
	}
	return found;
}

struct graph *ck_graph_writing(const struct target *t, u64 *start, u64 *end)
{
	return replaying(t, false, start, end);
}

struct graph *ck_graph_seeing(const struct target *t, u64 *start, u64 *end)
{
	return replaying(t, true, start, end);
}

/* ---- the end of a replay ---- */

/* Rule 2 over a set: its claims fail. */
static void fail_set(struct graph *g, struct buffer *b,
		     const struct range_map *set, struct failure *f, u64 tick)
{
	struct target t = { .buffer = b };
	struct span *s;
	u32 n = 0;

	range_for_each(s, set) {
		t.start = s->start;
		t.end = s->end;
		ck_taint_fail(&t, f, g->enter, tick, &g->stock);
		if (!(++n % 64))
			host_relax();
	}
}

static void fail_all(struct graph *g, struct failure *f, bool seen, u64 tick)
{
	struct id_node *node;
	struct use *use;

	for (node = ck_id_first(&g->uses); node; node = ck_id_next(node)) {
		use = use_of(node);
		fail_set(g, use->buffer, &use->writes, f, tick);
		if (seen)
			fail_set(g, use->buffer, &use->seen, f, tick);
	}
}

/* Rule 2 over what it wrote of the buffer: it is clean. */
static void clear_writes(struct graph *g, struct use *use)
{
	struct target t = { .buffer = use->buffer };
	struct span *s;
	u32 n = 0;

	range_for_each(s, &use->writes) {
		t.start = s->start;
		t.end = s->end;
		ck_taint_clear(&t, g->enter, &g->stock);
		if (!(++n % 64))
			host_relax();
	}
}

/* Only buffers that carry something; clearing may take them off the list. */
static void clear_busy(struct graph *g)
{
	struct link *l, *n;

	link_for_each_safe(l, n, &g->busy)
		clear_writes(g, link_entry(l, struct use, busy));
}

/*
 * It may have written what it was seen to be given, or not: what others have
 * there stays. Its slot's own older claims say nothing that the new ones do not,
 * so that replays do not pile them up.
 */
static void unconfirm_seen(struct graph *g, struct use *use)
{
	struct target t = { .buffer = use->buffer };
	struct span *s;
	u32 n = 0;

	range_for_each(s, &use->seen) {
		t.start = s->start;
		t.end = s->end;
		ck_taint_clear_unconfirmed(&t, g->slot, g->enter, &g->stock);
		ck_taint_add_unconfirmed(&t, g->slot, &g->stock);
		if (!(++n % 64))
			host_relax();
	}
}

/* What is kept by range of shared and fresh buffers: who wrote, is it finished. */
static void track_use(struct graph *g, struct use *use, bool complete,
		      u64 tick)
{
	struct target t = { .buffer = use->buffer };
	struct slot *slot = g->slot;
	struct span *s;
	u32 n = 0;

	range_for_each(s, &use->writes) {
		t.start = s->start;
		t.end = s->end;
		if (!complete && t.buffer->shared)
			ck_taint_add_unconfirmed(&t, slot, &g->stock);
		if (use->writers_paid)
			ck_writer_set(&t, g->client->session->id, g->stream,
				      tick, &g->stock);
		if (!(++n % 64))
			host_relax();
	}
	use->writers_paid = false;
	if (complete || !t.buffer->shared)
		return;
	unconfirm_seen(g, use);
	if (use->writes.count + use->seen.count)
		ck_taint_widen(t.buffer, slot, tick, &g->stock);
}

static void succeed(struct graph *g, bool complete, u64 tick)
{
	struct link *l;

	clear_busy(g);
	if (!complete && g->writes + g->seen) {
		g->dirty = tick;
		ck_slot_dirtied(g->slot, tick);
	}
	link_for_each(l, &g->tracked)
		track_use(g, link_entry(l, struct use, tracked), complete, tick);
}

struct need ck_graph_need(u64 claims, u64 buffers)
{
	return (struct need) {
		.n[STOCK_CLAIM] = claims,
		.n[STOCK_CARRIER] = buffers,
		.n[STOCK_FAILURE] = 1,
		.n[STOCK_NOTE] = 1,
	};
}

static struct need base_need(const struct graph *g)
{
	return ck_graph_need(g->writes + g->seen, g->uses.count);
}

void ck_graph_give_excess(struct graph *g, struct stock *back)
{
	const struct need base = base_need(g);
	struct need excess;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		excess.n[kind] = g->stock.spare.n[kind] -
				 min(g->stock.spare.n[kind], base.n[kind]);
	ck_stock_move(back, &g->stock, &excess);
}

static void replay_end(struct domain *d, struct graph *g, struct failure *f,
		       bool complete, u64 tick)
{
	struct link *l;

	g->slot->scopes--;
	g->slot->sequence = tick;
	g->touched = tick;
	/* From here on its bytes are judged by their claims again. */
	d->replaying--;
	d->paid -= g->paid;
	if (f) {
		fail_all(g, f, true, tick);
		link_for_each(l, &g->tracked)
			link_entry(l, struct use, tracked)->writers_paid = false;
		g->failed_replays++;
	} else {
		succeed(g, complete, tick);
		g->replays++;
	}
	g->slot = NULL;
}

static void fill_failure(struct domain *d, struct graph *g, u32 kind, s32 code)
{
	ck_failure_date(d, g->failure, kind, code);
	g->failure->graph = g->node.id;
	g->failure->window = g->window;
	g->client->session->failed++;
}

static void drop_failure(struct graph *g, struct stock *back)
{
	ck_failure_unpin(g->failure, back);
	g->failure = NULL;
}

bool ck_graph_end(struct domain *d, struct graph *g, u64 tick,
		  struct stock *back)
{
	const bool torn = g->slot;

	if (torn) {
		fill_failure(d, g, CAPKM_KIND_TORN_DOWN, 0);
		ck_who_copy(&g->failure->who, &g->client->who);
		g->failure->who.stream = g->stream;
		host_trace(graph_replay_torn, g, g->slot, g->stream, g->failure,
			   false);
		replay_end(d, g, g->failure, true, tick);
		drop_failure(g, back);
	}
	ck_graph_free(d, g, back, true);
	return torn;
}

int ck_graph_own(struct call *c, u64 id, struct graph **out)
{
	struct graph *g = id_entry(ck_id_find(&c->domain->graphs, id),
				   struct graph, node);

	if (!g)
		return -ENOENT;
	if (g->client != c->client)
		return -EPERM;
	*out = g;
	return 0;
}

int ck_op_graph_replay_end(struct call *c)
{
	struct capkm_graph_replay_end *a = c->arg;
	const struct array *text = &c->array[0];
	bool failed = a->flags & CAPKM_SCOPE_EXIT_F_FAILED;
	struct failure *f = NULL;
	struct graph *g;
	u64 tick;
	int err;

	err = ck_graph_own(c, a->graph, &g);
	if (err)
		return err;
	if (!g->slot)
		return -EINVAL;
	if (failed ? !a->kind || a->kind > CAPKM_KIND_DRIVER :
		     a->kind || a->code || text->len)
		return -EINVAL;
	tick = ck_tick(c->domain);
	if (failed) {
		f = g->failure;
		fill_failure(c->domain, g, a->kind, a->code);
		ck_who_set(&f->who, c->who, c->session->id, g->stream);
		ck_failure_text(f, text->data, text->len);
	} else {
		f = ck_device_failed(g->slot->device, g->epoch);
	}
	if (f)
		ck_note(g->slot, ck_stock_take(&g->stock, STOCK_NOTE), f,
			g->stream, false, &c->session->stock);
	host_trace(graph_replay_end, g, g->slot, g->stream, f,
		   a->flags & CAPKM_SCOPE_EXIT_F_COMPLETE);
	replay_end(c->domain, g, f, a->flags & CAPKM_SCOPE_EXIT_F_COMPLETE,
		   tick);
	a->out_failure = f && g->writes + g->seen ? f->node.id : 0;
	a->out_sequence = tick;
	drop_failure(g, &c->session->stock);
	ck_graph_give_excess(g, &c->session->stock);
	return 0;
}

/* ---- the begin of a replay ---- */

struct beginning {
	struct call *call;
	struct capkm_graph_replay_begin *arg;
	struct array *reports;
	struct graph *graph;
	struct slot *slot;
	u64 paid;		/* ranges that its end may add */
	struct fault fault;
	struct target bad;	/* bad.buffer NULL if all inputs are good */
};

static bool bad_set(struct beginning *b, struct buffer *buffer,
		    const struct range_map *set)
{
	struct target t = { .buffer = buffer };
	struct fault fault;
	struct span *s;

	range_for_each(s, set) {
		t.start = s->start;
		t.end = s->end;
		if (ck_taint_find(&t, NULL, &fault)) {
			b->fault = fault;
			b->bad = t;
			return true;
		}
	}
	return false;
}

/* Unless a buffer with a lower id is bad already. */
static bool bad_use(struct beginning *b, const struct use *use)
{
	if (b->bad.buffer && b->bad.buffer->node.id < use->node.id)
		return false;
	return bad_set(b, use->buffer, &use->inputs) ||
	       bad_set(b, use->buffer, &use->seen);
}

static void find_bad_input(struct beginning *b)
{
	struct graph *g = b->graph;
	struct id_node *node;
	struct link *l;

	b->bad.buffer = NULL;
	if (g->no_inputs)
		return;
	if (b->call->domain->replaying) {
		for (node = ck_id_first(&g->uses); node;
		     node = ck_id_next(node))
			if (bad_use(b, use_of(node)))
				return;
		return;
	}
	/* The one with the lowest id decides, as if all were looked at. */
	link_for_each(l, &g->busy)
		bad_use(b, link_entry(l, struct use, busy));
}

static void set_splits(struct buffer *b, const struct range_map *set,
		       u64 max, struct need *need)
{
	struct target t = { .buffer = b };
	struct span *s;

	range_for_each(s, set) {
		t.start = s->start;
		t.end = s->end;
		need->n[STOCK_CLAIM] += ck_taint_splits(&t);
		if (need->n[STOCK_CLAIM] > max)
			return;
		host_relax();
	}
}

/* What its end may need: counters, and the claims if there is something on them. */
static int replay_need(struct beginning *b, struct need *need)
{
	const struct graph *g = b->graph;
	struct call *c = b->call;
	const u64 max = c->domain->limit[CAPKM_LIMIT_RANGES];
	const struct link *l;
	struct use *use;
	u64 writes = 0;
	int err;

	*need = base_need(g);
	if (b->bad.buffer || b->slot->device->faulted)
		need->n[STOCK_SKIP] = 1 + g->uses.count / SKIP_PRODUCED;
	b->paid = 0;
	link_for_each(l, &g->tracked) {
		use = link_entry(l, struct use, tracked);
		writes += use->writes.count;
		b->paid += use->writes.count + use->seen.count;
	}
	/* An unconfirmed claim for each, of the base, and for a write its writer. */
	need->n[STOCK_CLAIM] += 2 * writes;
	b->paid += 2 * writes;
	err = b->paid ? ck_domain_room(c, b->paid) : 0;
	if (err)
		return err;
	link_for_each(l, &g->busy) {
		use = link_entry(l, struct use, busy);
		set_splits(use->buffer, &use->writes, max, need);
		set_splits(use->buffer, &use->seen, max, need);
		if (need->n[STOCK_CLAIM] > max)
			return ck_limit_reached(c, CAPKM_LIMIT_RANGES);
	}
	return 0;
}

/* Moves to the graph what it lacks: 0, 1 look again, or an error. */
static int provide(struct call *c, struct graph *g, const struct need *need)
{
	const struct need lack = ck_stock_lack(&g->stock, need);
	int err = ck_call_buy(c, &lack);

	if (!err)
		ck_stock_move(&g->stock, &c->session->stock, &lack);
	return err;
}

static int prepare_begin(struct beginning *b)
{
	struct call *c = b->call;
	struct need need, dooms = {};
	int err;

	err = ck_graph_own(c, b->arg->graph, &b->graph);
	if (!err)
		err = ck_slot_get(c, &b->arg->place, b->arg->flags, &b->slot);
	if (err)
		return err;
	if (b->graph->slot)
		return -EBUSY;
	if (ck_slot_driver_at_work(b->slot))
		return -EBUSY;
	if (ck_slot_recording(b->slot) &&
	    c->session->backend == CAPKM_BACKEND_HARDWARE)
		return -EOPNOTSUPP;
	find_bad_input(b);
	dooms.n[STOCK_FAILURE] = ck_escape_dooms(c->client, b->slot,
						 b->arg->place.stream);
	err = replay_need(b, &need);
	if (!err)
		err = provide(c, b->graph, &need);
	return err ? err : ck_call_buy(c, &dooms);
}

/* It does not run: what it would have written carries @f. */
static void not_run(struct beginning *b, struct failure *f, u64 tick)
{
	struct graph *g = b->graph;

	host_trace(graph_replay_skip, g, b->slot, b->arg->place.stream, f, false);
	g->enter = tick;
	g->touched = tick;
	g->failed_replays++;
	b->slot->sequence = tick;
	fail_all(g, f, false, tick);
}

/* CW-29: recorded work has not run, so there is nothing to replay on. */
static void refuse(struct beginning *b)
{
	static const char text[] =
		"graph_replay: the slot is recording, a replay cannot run there";
	struct call *c = b->call;
	struct graph *g = b->graph;
	struct failure *f = ck_failure_new(c->domain, &g->stock);
	u64 tick = ck_tick(c->domain);

	ck_failure_date(c->domain, f, CAPKM_KIND_REFUSED, 0);
	f->graph = g->node.id;
	f->window = g->window;
	ck_who_set(&f->who, c->who, c->session->id, b->arg->place.stream);
	ck_failure_text(f, text, sizeof(text) - 1);
	not_run(b, f, tick);
	ck_window_doom(ck_slot_recording(b->slot), f, &c->session->stock);
	if (b->reports->len) {
		ck_failure_report(f, b->reports->data);
		b->reports->used = 1;
	}
	ck_failure_unpin(f, &c->session->stock);
	b->arg->out_result = CAPKM_REFUSED;
}

static struct skip *skip_new(struct beginning *b)
{
	struct graph *g = b->graph;
	struct skip *s = ck_stock_take(&g->stock, STOCK_SKIP), *at = s;
	struct id_node *node;

	link_init(&s->sib);
	/* 0: it needed its device. */
	s->needed = b->bad.buffer ? b->bad.buffer->node.id : 0;
	scnprintf(s->label, sizeof(s->label), "replay of graph %llu",
		  (unsigned long long)g->node.id);
	for (node = ck_id_first(&g->uses); node; node = ck_id_next(node)) {
		if (!use_of(node)->writes.count)
			continue;
		at = ck_skip_produced(at, node->id, &g->stock);
	}
	return s;
}

static void skip(struct beginning *b)
{
	struct stock *st = &b->call->session->stock;
	struct failure *f = b->slot->device->faulted ?
		b->slot->device->fault : b->fault.failure;

	ck_failure_pin(f);
	not_run(b, f, ck_tick(b->call->domain));
	if (f->carriers.count)
		ck_failure_skipped(f, skip_new(b), st);
	ck_failure_unpin(f, st);
	b->call->session->skipped++;
	b->arg->out_result = CAPKM_SKIPPED;
}

static void begin(struct beginning *b)
{
	struct domain *d = b->call->domain;
	struct graph *g = b->graph;
	struct link *l;

	g->slot = b->slot;
	g->slot->scopes++;
	g->enter = ck_tick(d);
	g->epoch = g->slot->device->epoch;
	g->touched = g->enter;
	g->stream = b->arg->place.stream;
	g->failure = ck_failure_new(d, &g->stock);
	d->replaying++;
	g->paid = b->paid;
	d->paid += g->paid;
	link_for_each(l, &g->tracked)
		link_entry(l, struct use, tracked)->writers_paid = true;
	host_trace(graph_replay_begin, g, g->slot, g->stream, NULL, false);
	ck_escape(b->call, g->slot, g->stream);
	b->call->session->entered++;
	b->arg->out_result = CAPKM_CLEAN;
}

/* The device has faulted: the report is of that, whatever the inputs are. */
static void report_bad(struct beginning *b)
{
	const struct client_device *dev = b->slot->device;

	if (dev->faulted)
		b->bad.buffer = NULL;
	if (!b->reports->len || (!b->bad.buffer && !dev->faulted))
		return;
	if (dev->faulted)
		ck_failure_report(dev->fault, b->reports->data);
	else
		ck_fault_report(&b->fault, &b->bad, b->reports->data);
	b->reports->used = 1;
}

int ck_op_graph_replay_begin(struct call *c)
{
	struct beginning b = {
		.call = c, .arg = c->arg, .reports = &c->array[0],
	};
	int err;

	do {
		err = prepare_begin(&b);
	} while (err == 1);
	if (err)
		return err;
	report_bad(&b);
	if (b.bad.buffer && (b.fault.scope || b.fault.graph))
		b.arg->out_result = CAPKM_IN_PROGRESS;
	else if (ck_slot_recording(b.slot))
		refuse(&b);
	else if (b.bad.buffer || b.slot->device->faulted)
		skip(&b);
	else
		begin(&b);
	if (b.arg->out_result != CAPKM_CLEAN)
		ck_graph_give_excess(b.graph, &c->session->stock);
	b.arg->out_reports = b.reports->used;
	b.arg->out_sequence = c->domain->sequence;
	return 0;
}

/* ---- the rest ---- */

int ck_op_graph_destroy(struct call *c)
{
	const struct capkm_graph_destroy *a = c->arg;
	struct graph *g;
	int err;

	if (!a->graph)
		return -EINVAL;
	err = ck_graph_own(c, a->graph, &g);
	if (err)
		return err;
	if (g->slot)
		return -EBUSY;
	ck_tick(c->domain);
	ck_graph_free(c->domain, g, &c->session->stock, false);
	return 0;
}

static const struct range_map *set_of(const struct use *use, u32 flags)
{
	if (flags & CAPKM_GRAPH_QUERY_F_INPUTS)
		return &use->inputs;
	return flags & CAPKM_GRAPH_QUERY_F_SEEN ? &use->seen : &use->writes;
}

static void fill_claims(const struct graph *g, u32 flags,
			const struct capkm_claim *from, struct array *out)
{
	struct id_node *node = ck_id_from(&g->uses, from->buffer);
	struct capkm_claim *claim = out->data;
	const struct range_map *set;
	struct span *s;

	for (; node; node = ck_id_next(node)) {
		set = set_of(use_of(node), flags);
		s = node->id == from->buffer ?
			ck_range_from(set, from->start, from->end) :
			ck_range_from(set, 0, 0);
		for (; s; s = ck_range_after(s)) {
			if (out->used == out->len)
				return;
			claim[out->used].buffer = node->id;
			claim[out->used].start = s->start;
			claim[out->used].end = s->end;
			out->used++;
		}
	}
}

void ck_graph_fill(const struct graph *g, struct capkm_graph_query *q)
{
	q->out_window = g->window;
	q->out_session = g->client->session->id;
	q->out_owner = g->owner;
	q->out_cookie = g->cookie;
	q->out_writes = g->writes;
	q->out_inputs = g->inputs;
	q->out_seen = g->seen;
	q->out_retained = g->retained_n;
	q->out_retained_bytes = g->retained_bytes;
	q->out_replays = g->replays;
	q->out_failed_replays = g->failed_replays;
	q->out_pid = host_proc_pid(g->client->who.proc);
	q->out_replaying = !!g->slot;
	q->out_updates = g->updates;
	q->out_failed_updates = g->failed_updates;
}

int ck_op_graph_query(struct call *c)
{
	struct capkm_graph_query *a = c->arg;
	const struct graph *g = id_entry(ck_id_find(&c->domain->graphs,
						    a->graph),
					 struct graph, node);

	if (a->flags == CAPKM_GRAPH_QUERY_F_ALL)
		return -EINVAL;
	if (!g)
		return -ENOENT;
	fill_claims(g, a->flags, &a->from, &c->array[0]);
	a->out_claims = c->array[0].used;
	ck_graph_fill(g, a);
	return 0;
}
