// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the bytes of a buffer carry: the rules of Documentation/design/bytes.rst.
 *
 * Claims of one buffer may overlap, so they live in a range map that allows it.
 * An exit splits only claims that were there, and dated, when the scope
 * entered; how often it may have to is counted and paid at the enter
 * (ck_taint_splits()). A recorded scope's exit also splits what a refusal of it
 * would have to split, so that a refusal needs no memory for claims. Claims are
 * fused only where no open or recorded claim of the buffer could tell them
 * apart, so that the count stays right.
 */
#include "internal.h"

static struct claim *entry(struct span *s)
{
	return s ? container_of(s, struct claim, span) : NULL;
}

static struct claim *first(const struct buffer *b, u64 start, u64 end)
{
	return entry(ck_range_first(&b->claims, start, end));
}

static struct claim *next(const struct claim *c, u64 start, u64 end)
{
	return entry(ck_range_next(&c->span, start, end));
}

/* The same, of the claims with a date below @before; open ones have none. */
static struct claim *first_older(const struct buffer *b, u64 start, u64 end,
				 u64 before)
{
	return entry(ck_range_first_older(&b->claims, start, end, before));
}

static struct claim *next_older(const struct claim *c, u64 start, u64 end,
				u64 before)
{
	return entry(ck_range_next_older(&c->span, start, end, before));
}

/* A buffer gets its first claim, or loses its last: its graphs must know. */
static void tell_graphs(struct buffer *b, bool busy)
{
	struct link *l;
	struct use *use;

	link_for_each(l, &b->uses) {
		use = link_entry(l, struct use, sib);
		if (!use->graph)
			continue;
		if (busy)
			link_add_tail(&use->busy, &use->graph->busy);
		else
			link_del(&use->busy);
	}
}

static void insert(struct claim *c, struct stock *st)
{
	struct buffer *b = c->buffer;

	host_assert_held(&b->domain->lock);
	ck_fast_leave(b, CAPKM_FAST_MISSED);
	ck_range_insert(&b->claims, &c->span, st);
	b->changes++;
	b->domain->claims++;
	if (c->state != CLAIM_FAILED)
		b->dated++;
	if (b->claims.count == 1 && b->uses_n)
		tell_graphs(b, true);
}

static void erase(struct claim *c, struct stock *st)
{
	struct buffer *b = c->buffer;

	host_assert_held(&b->domain->lock);
	ck_range_erase(&b->claims, &c->span, st);
	b->changes++;
	b->domain->claims--;
	if (c->state != CLAIM_FAILED)
		b->dated--;
	if (!b->claims.count) {
		if (b->uses_n)
			tell_graphs(b, false);
		ck_fast_changed(b);
	}
}

static void count_unconfirmed(const struct claim *c, int n)
{
	c->slot->unconfirmed_n += n;
	c->slot->client->unconfirmed_n += n;
	c->buffer->unconfirmed += n;
	c->buffer->domain->unconfirmed += n;
}

void ck_claim_drop(struct claim *c, struct stock *st)
{
	struct buffer *b = c->buffer;

	erase(c, st);
	link_del(&c->sib);
	if (c->state == CLAIM_UNCONFIRMED)
		count_unconfirmed(c, -1);
	if (c->state == CLAIM_FAILED || c->state == CLAIM_UNCONFIRMED)
		ck_failure_untag(b->domain, c->carrier, st);
	if (c->state == CLAIM_FAILED && !b->shared && !b->spare_claim)
		b->spare_claim = c;
	else
		ck_stock_give(st, STOCK_CLAIM, c);
}

/* The part of @c from @start on becomes a claim of its own. */
static void split(struct claim *c, u64 start, struct stock *st)
{
	struct claim *right = ck_stock_take(st, STOCK_CLAIM);

	*right = *c;
	right->span.start = start;
	link_init(&right->sib);
	if (c->state == CLAIM_FAILED || c->state == CLAIM_UNCONFIRMED)
		c->carrier->claims++;
	if (c->state == CLAIM_UNCONFIRMED)
		count_unconfirmed(c, 1);
	if (c->state != CLAIM_FAILED)
		link_add_tail(&right->sib, &c->sib);
	insert(right, st);
}

/* Takes [start, end), of which @c has some bytes, out of @c. */
static void cut(struct claim *c, u64 start, u64 end, struct stock *st)
{
	struct buffer *b = c->buffer;

	b->changes++;
	if (c->state == CLAIM_FAILED || c->state == CLAIM_UNCONFIRMED)
		c->carrier->failure->changes++;
	if (c->span.end > end && c->span.start < start)
		split(c, end, st);
	if (c->span.start < start) {
		ck_range_set_end(&b->claims, &c->span, start);
	} else if (c->span.end > end) {
		ck_range_erase(&b->claims, &c->span, st);
		c->span.start = end;
		ck_range_insert(&b->claims, &c->span, st);
	} else {
		ck_claim_drop(c, st);
	}
}

static bool inside(const struct claim *c, u64 at)
{
	return c->span.start < at && at < c->span.end;
}

static u64 splits_at(const struct buffer *b, u64 at)
{
	struct claim *c;
	u64 n = 0;

	if (!at || at == b->size)
		return 0;
	for (c = entry(ck_range_first_over(&b->claims, at)); c;
	     c = entry(ck_range_next_over(&c->span, at)))
		n += c->state != CLAIM_OPEN;
	return n;
}

u64 ck_taint_count_splits(const struct target *t)
{
	if (t->start == t->end)
		return 0;
	return splits_at(t->buffer, t->start) + splits_at(t->buffer, t->end);
}

static void score_at(struct buffer *b, u64 at, u64 before,
		     struct stock *st)
{
	struct claim *c, *n;

	if (!at)
		return;
	for (c = first_older(b, at - 1, at, before); c; c = n) {
		n = next_older(c, at - 1, at, before);
		if (!inside(c, at))
			continue;
		split(c, at, st);
		ck_range_set_end(&b->claims, &c->span, at);
	}
}

void ck_taint_score(const struct target *t, u64 before, struct stock *st)
{
	score_at(t->buffer, t->start, before, st);
	score_at(t->buffer, t->end, before, st);
}

/*
 * @w: only its recorded claims; @slot: only its unconfirmed ones; both NULL for
 * all dated ones. What a cut leaves lies outside of the range, so that the next
 * claim is known before.
 */
static void clear(const struct target *t, const struct window *w,
		  const struct slot *slot, u64 before, struct stock *st)
{
	struct claim *c, *n;
	u32 steps = 0;

	for (c = first_older(t->buffer, t->start, t->end, before); c; c = n) {
		n = next_older(c, t->start, t->end, before);
		if (!(++steps % 1024))
			host_relax();
		if (w && (c->state != CLAIM_RECORDED || c->window != w))
			continue;
		if (slot && (c->state != CLAIM_UNCONFIRMED || c->slot != slot))
			continue;
		cut(c, t->start, t->end, st);
	}
}

void ck_taint_clear(const struct target *t, u64 before, struct stock *st)
{
	clear(t, NULL, NULL, before, st);
}

void ck_taint_clear_recorded(const struct target *t, struct window *w,
			     u64 before, struct stock *st)
{
	clear(t, w, NULL, before, st);
}

void ck_taint_clear_unconfirmed(const struct target *t, struct slot *slot,
				u64 before, struct stock *st)
{
	clear(t, NULL, slot, before, st);
}

/* Do only claims of the same failure have bytes of @c? */
static bool alone(const struct claim *c)
{
	const u64 start = c->span.start, end = c->span.end;
	struct claim *o;

	for (o = first(c->buffer, start, end); o; o = next(o, start, end))
		if (o->carrier != c->carrier)
			return false;
	return true;
}

/*
 * Takes in the claims of the same failure that @c overlaps or touches. They get
 * its date, so nobody may compare theirs: no open or recorded claim, no replay,
 * no other failure of the same bytes.
 */
static void fuse(struct claim *c, struct stock *st)
{
	struct buffer *b = c->buffer;
	u64 start = c->span.start ? c->span.start - 1 : 0;
	u64 end = c->span.end + (c->span.end < b->size);
	struct claim *o, *n;

	if (b->dated || b->domain->replaying || !alone(c))
		return;
	for (o = first(b, start, end); o; o = n) {
		n = next(o, start, end);
		if (o->carrier != c->carrier || !alone(o))
			continue;
		c->span.start = min(c->span.start, o->span.start);
		c->span.end = max(c->span.end, o->span.end);
		ck_claim_drop(o, st);
	}
}

void ck_taint_fail(const struct target *t, struct failure *f, u64 enter,
		   u64 date, struct stock *st)
{
	struct buffer *b = t->buffer;
	struct claim *c;

	if (t->start == t->end)
		return;
	c = ck_stock_take(st, STOCK_CLAIM);
	c->buffer = b;
	c->state = CLAIM_FAILED;
	link_init(&c->sib);
	c->span.start = t->start;
	c->span.end = t->end;
	c->span.date = date;
	c->enter = enter;
	/* Tagged first: what is cleared may be the same failure's last claim. */
	c->carrier = ck_failure_tag(b->domain, f, b, st);
	clear(t, NULL, NULL, enter, st);
	fuse(c, st);
	insert(c, st);
}

/*
 * What it carries goes first: if the spare is in use, it is among that. Nothing
 * is split, for it is the whole.
 */
void ck_taint_whole(struct buffer *b, struct failure *f, u64 tick)
{
	const struct target all = { .buffer = b, .end = b->size };
	struct claim *c;

	ck_failure_pin(f);
	clear(&all, NULL, NULL, tick, NULL);
	c = b->spare_claim;
	host_check(c && b->spare_carrier);
	b->spare_claim = NULL;
	memset(c, 0, sizeof(*c));
	c->buffer = b;
	c->state = CLAIM_FAILED;
	link_init(&c->sib);
	c->span.end = b->size;
	c->span.date = tick;
	c->enter = tick;
	c->carrier = ck_failure_tag_spare(b->domain, f, b);
	insert(c, NULL);
	b->sequence = tick;
	ck_failure_unpin(f, NULL);
}

void ck_taint_open(const struct target *t, struct scope *s, struct stock *st)
{
	struct claim *c = ck_stock_take(st, STOCK_CLAIM);

	c->buffer = t->buffer;
	c->state = CLAIM_OPEN;
	c->span.start = t->start;
	c->span.end = t->end;
	c->span.date = U64_MAX;
	c->scope = s;
	c->enter = s->enter;
	c->keeps_writer = ck_writer_kept(t->buffer);
	ck_buffer_get(t->buffer);
	insert(c, st);
	link_add_tail(&c->sib, &s->claims);
}

/* The list is in order of when it was done: nothing is newer. */
static void list_unconfirmed(struct claim *c, struct slot *slot, u64 done)
{
	c->done = done;
	link_add_tail(&c->sib, &slot->unconfirmed);
	c->slot = slot;
	count_unconfirmed(c, 1);
}

void ck_taint_unconfirm(struct claim *c, struct slot *slot, u64 date,
			struct stock *st)
{
	struct buffer *b = c->buffer;

	link_del(&c->sib);
	c->state = CLAIM_UNCONFIRMED;
	b->changes++;
	c->carrier = ck_failure_tag(b->domain, slot->device->latent, b, st);
	ck_range_set_date(&b->claims, &c->span, date);
	list_unconfirmed(c, slot, date);
}

void ck_taint_add_unconfirmed(const struct target *t, struct slot *slot,
			      struct stock *st)
{
	struct buffer *b = t->buffer;
	struct claim *c;

	if (t->start == t->end)
		return;
	c = ck_stock_take(st, STOCK_CLAIM);
	c->buffer = b;
	c->state = CLAIM_UNCONFIRMED;
	c->span.start = t->start;
	c->span.end = t->end;
	c->span.date = b->domain->sequence;
	c->carrier = ck_failure_tag(b->domain, slot->device->latent, b, st);
	list_unconfirmed(c, slot, slot->last);
	insert(c, st);
}

void ck_taint_widen(struct buffer *b, struct slot *slot, u64 date,
		    struct stock *st)
{
	struct claim *c, *n, *whole = NULL;
	u32 steps = 0;

	if (slot->unconfirmed_n <= b->domain->limit[CAPKM_LIMIT_UNCONFIRMED] ||
	    b->unconfirmed == 1)
		return;
	for (c = first(b, 0, b->size); c; c = n) {
		n = next(c, 0, b->size);
		if (!(++steps % 1024))
			host_relax();
		if (c->state != CLAIM_UNCONFIRMED || c->slot != slot)
			continue;
		if (whole)
			ck_claim_drop(c, st);
		else
			whole = c;
	}
	b->changes++;
	ck_range_erase(&b->claims, &whole->span, st);
	whole->span.start = 0;
	whole->span.end = b->size;
	whole->span.date = date;
	whole->done = date;
	ck_range_insert(&b->claims, &whole->span, st);
	link_move_tail(&whole->sib, &slot->unconfirmed);
}

void ck_taint_confirm(struct slot *slot, u64 sequence, bool exported,
		      struct stock *st)
{
	struct link *l, *next;
	struct claim *c;
	u32 n = 0;

	link_for_each_safe(l, next, &slot->unconfirmed) {
		c = link_entry(l, struct claim, sib);
		if (c->done > sequence)
			return;
		if (!exported || c->buffer->exported)
			ck_claim_drop(c, st);
		if (!(++n % 1024))
			host_relax();
	}
}

/*
 * The claims stay where they are. What is older on their bytes has gone at the
 * exits, or has to stay, as that of a replay which may not have written them.
 */
void ck_taint_unconfirmed_failed(struct slot *slot)
{
	struct claim *c;
	u32 n = 0;

	while (!link_empty(&slot->unconfirmed)) {
		c = link_first(&slot->unconfirmed, struct claim, sib);
		link_del(&c->sib);
		count_unconfirmed(c, -1);
		c->state = CLAIM_FAILED;
		c->enter = c->span.date;
		c->buffer->dated--;
		if (!(++n % 1024))
			host_relax();
	}
}

const struct claim *ck_taint_unconfirmed(const struct target *t)
{
	const struct claim *c;

	if (t->start == t->end || !t->buffer->unconfirmed)
		return NULL;
	for (c = first(t->buffer, t->start, t->end); c;
	     c = next(c, t->start, t->end))
		if (c->state == CLAIM_UNCONFIRMED)
			return c;
	return NULL;
}

void ck_taint_record(struct claim *c, struct window *w, u64 date)
{
	c->state = CLAIM_RECORDED;
	c->window = w;
	c->buffer->changes++;
	ck_range_set_date(&c->buffer->claims, &c->span, date);
	link_move_tail(&c->sib, &w->claims);
}

void ck_taint_add_recorded(const struct target *t, struct window *w, u64 tick,
			   struct stock *st)
{
	struct claim *c = ck_stock_take(st, STOCK_CLAIM);

	c->buffer = t->buffer;
	c->state = CLAIM_RECORDED;
	c->span.start = t->start;
	c->span.end = t->end;
	c->window = w;
	c->span.date = tick;
	c->enter = tick;
	insert(c, st);
	link_add_tail(&c->sib, &w->claims);
}

/* Is it a recorded claim of @w or of one of its ancestors? */
static bool is_seen_through(const struct claim *c, const struct window *w)
{
	if (c->state != CLAIM_RECORDED)
		return false;
	while (w && w != c->window)
		w = w->parent;
	return w;
}

/* The lowest byte of [start, end) that @w did not write after @date; or @end. */
static u64 unhidden(const struct buffer *b, u64 start, u64 end, u64 date,
		    const struct window *w)
{
	struct claim *c;

	if (!w)
		return start;
	for (c = first(b, start, end); c; c = next(c, start, end)) {
		if (!is_seen_through(c, w) || c->span.date <= date ||
		    c->span.end <= start)
			continue;
		if (c->span.start > start)
			break;
		start = min(c->span.end, end);
	}
	return start;
}

/* The lowest byte with an open claim or a failed one that @w does not hide. */
static u64 lowest_bad(const struct target *t, const struct window *w)
{
	u64 bad = t->end, at, end;
	struct claim *c;

	for (c = first(t->buffer, t->start, bad); c && c->span.start < bad;
	     c = next(c, t->start, bad)) {
		at = max(c->span.start, t->start);
		end = min(c->span.end, bad);
		if (c->state == CLAIM_RECORDED ||
		    c->state == CLAIM_UNCONFIRMED)
			continue;
		if (c->state == CLAIM_FAILED)
			at = unhidden(t->buffer, at, end, c->span.date, w);
		if (at < end)
			bad = at;
		if (bad == t->start)
			break;
	}
	return bad;
}

static bool earlier(const struct claim *a, const struct claim *b)
{
	return a->span.date < b->span.date ||
	       (a->span.date == b->span.date &&
		a->carrier->failure->node.id < b->carrier->failure->node.id);
}

/* Who is to blame for byte @fault->start (rule 1). */
static void judge(const struct buffer *b, const struct window *w,
		  struct fault *fault)
{
	struct claim *c, *named = NULL;
	u64 at = fault->start;

	for (c = first(b, at, at + 1); c; c = next(c, at, at + 1)) {
		if (c->state == CLAIM_OPEN) {
			fault->scope = c->scope;
			fault->end = min(fault->end, c->span.end);
			return;
		}
		if (c->state == CLAIM_FAILED &&
		    unhidden(b, at, at + 1, c->span.date, w) == at &&
		    (!named || earlier(c, named)))
			named = c;
	}
	fault->failure = named->carrier->failure;
	fault->end = min(fault->end, named->span.end);
}

/*
 * Ends the run at the next claim, which may be another cause, or hide this one
 * from @w; and where one ends that hides an earlier cause.
 */
static void trim(const struct buffer *b, const struct window *w,
		 struct fault *fault)
{
	struct claim *c;

	for (c = first(b, fault->start, fault->end); c;
	     c = next(c, fault->start, fault->end)) {
		if (c->span.start <= fault->start) {
			if (is_seen_through(c, w))
				fault->end = min(fault->end, c->span.end);
		} else if (c->state == CLAIM_OPEN || c->state == CLAIM_FAILED ||
			   is_seen_through(c, w)) {
			fault->end = c->span.start;
			return;
		}
	}
}

bool ck_taint_find(const struct target *t, const struct window *through,
		   struct fault *fault)
{
	u64 bad, start, end;
	struct graph *g;

	if (t->start == t->end)
		return false;
	bad = lowest_bad(t, through);
	g = ck_graph_writing(t, &start, &end);
	memset(fault, 0, sizeof(*fault));
	fault->end = t->end;
	if (g && start <= bad) {
		fault->start = start;
		fault->end = min(fault->end, end);
		fault->graph = g;
		return true;
	}
	if (bad < t->end) {
		fault->start = bad;
		if (g)
			fault->end = start;
		judge(t->buffer, through, fault);
		trim(t->buffer, through, fault);
		return true;
	}
	fault->start = t->start;
	fault->unallocated = t->buffer->unallocated;
	return fault->unallocated;
}

static void report_scope(const struct scope *s, struct capkm_report *r)
{
	const struct client *c = s->client;

	r->kind = CAPKM_KIND_IN_PROGRESS;
	r->scope = s->id;
	r->window = s->window ? s->window->node.id : 0;
	r->stream = s->stream;
	r->session = c->session->id;
	r->sequence = s->enter;
	r->pid = host_proc_pid(c->who.proc);
	r->uid = host_uid_view(c->who.uid);
	memcpy(r->comm, c->who.comm, sizeof(r->comm));
	memcpy(r->label, s->label, sizeof(r->label));
	r->text_len = scnprintf((char *)r->text, sizeof(r->text),
				CK_SCOPE_FMT " of %s (pid %u) is writing these bytes",
				CK_SCOPE_ARG(r->scope), (char *)r->comm, r->pid);
}

static void report_replay(const struct graph *g, struct capkm_report *r)
{
	const struct client *c = g->client;

	r->kind = CAPKM_KIND_IN_PROGRESS;
	r->graph = g->node.id;
	r->window = g->window;
	r->stream = g->stream;
	r->session = c->session->id;
	r->sequence = g->enter;
	r->pid = host_proc_pid(c->who.proc);
	r->uid = host_uid_view(c->who.uid);
	memcpy(r->comm, c->who.comm, sizeof(r->comm));
	r->text_len = scnprintf((char *)r->text, sizeof(r->text),
				"a replay of graph %llu by %s (pid %u) is writing these bytes",
				(unsigned long long)r->graph, (char *)r->comm, r->pid);
}

void ck_fault_report(const struct fault *fault, const struct target *t,
		     struct capkm_report *r)
{
	static const char never[] = "the buffer was never allocated";

	memset(r, 0, sizeof(*r));
	if (fault->failure) {
		ck_failure_report(fault->failure, r);
		r->hops = ck_failure_hops(fault->failure, t->buffer->node.id,
					  NULL, 0);
	} else if (fault->scope) {
		report_scope(fault->scope, r);
	} else if (fault->graph) {
		report_replay(fault->graph, r);
	} else {
		r->kind = CAPKM_KIND_UNALLOCATED;
		r->text_len = sizeof(never) - 1;
		memcpy(r->text, never, sizeof(never));
	}
	r->buffer = t->buffer->node.id;
	r->start = fault->start;
	r->end = fault->end;
}

bool ck_taint_busy(const struct target *t)
{
	struct claim *c;
	u64 start, end;

	for (c = first(t->buffer, t->start, t->end); c;
	     c = next(c, t->start, t->end))
		if (c->state == CLAIM_OPEN)
			return true;
	return ck_graph_writing(t, &start, &end);
}
