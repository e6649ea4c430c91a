// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Buffers. A buffer lives while somebody refers to it: sessions that hold it,
 * open scopes, windows and graphs.
 */
#include "internal.h"

void ck_buffer_get(struct buffer *b)
{
	b->refs++;
}

/* Drops one failed claim; keeps the failure's text if this was its last. */
static void shed(struct buffer *b, struct claim *c, struct stock *back,
		 bool keep_reports)
{
	struct failure *f;

	if (c->state != CLAIM_FAILED) {
		ck_claim_drop(c, back);
		return;
	}
	f = c->carrier->failure;
	ck_failure_pin(f);
	ck_claim_drop(c, back);
	/* Every process that ends without a confirmation leaves such a one. */
	if (keep_reports && f->kind != CAPKM_KIND_UNCONFIRMED &&
	    !f->carriers.count && link_empty(&f->sib))
		ck_failure_keep(b->domain, f);
	ck_failure_unpin(f, back);
}

/* A piece of what it carries goes; true if that was all, and it has gone, too. */
static bool destroy_some(struct buffer *b, struct stock *back)
{
	struct span *s;
	u32 n = 0;

	for (; n < PIECE && (s = ck_range_from(&b->claims, 0, 0)); n++)
		shed(b, container_of(s, struct claim, span), back, b->keep_reports);
	ck_writers_drop(b, PIECE - n, back);
	if (b->claims.count || b->writers.count)
		return false;
	host_free(b->spare_claim);
	host_free(b->spare_carrier);
	ck_id_erase(&b->domain->buffers, &b->node);
	host_free(b);
	return true;
}

/* Without references it is not found any more but to be looked at. */
void ck_buffer_put(struct buffer *b, struct stock *back, bool keep_reports)
{
	if (--b->refs)
		return;
	b->keep_reports = keep_reports;
	if (!destroy_some(b, back))
		link_add_tail(&b->dying, &b->domain->dying_buffers);
}

bool ck_buffer_bury(struct domain *d)
{
	struct buffer *b;

	if (link_empty(&d->dying_buffers))
		return false;
	b = link_first(&d->dying_buffers, struct buffer, dying);
	link_del(&b->dying);
	if (!destroy_some(b, NULL))
		link_add_tail(&b->dying, &d->dying_buffers);
	return true;
}

/* Something about its bytes has changed: readers that copy must look again. */
void ck_buffer_touch(struct buffer *b)
{
	b->sequence = b->domain->sequence;
}

/* Its graphs must keep writers and unconfirmed claims by range. */
static void track(struct buffer *b)
{
	struct link *l;
	struct use *use;

	link_for_each(l, &b->uses) {
		use = link_entry(l, struct use, sib);
		if (use->graph && link_empty(&use->tracked))
			link_add_tail(&use->tracked, &use->graph->tracked);
	}
}

void ck_buffer_set_shared(struct buffer *b, struct stock *back)
{
	b->shared = true;
	b->dirty = 0;
	if (b->spare_claim)
		ck_stock_give(back, STOCK_CLAIM, b->spare_claim);
	if (b->spare_carrier)
		ck_stock_give(back, STOCK_CARRIER, b->spare_carrier);
	b->spare_claim = NULL;
	b->spare_carrier = NULL;
	track(b);
}

static u64 sequence(const struct buffer *b)
{
	return max(b->sequence, ck_graph_touched(b));
}

struct hold *ck_session_find_hold(struct capkm_session *s, u64 id)
{
	struct hold *h = id_entry(ck_id_find(&s->holds, id), struct hold, node);

	s->recent[id % RECENT] = h;
	return h;
}

static struct hold *find_hold(struct capkm_session *s, u64 id)
{
	struct hold *h = ck_session_hold(s, id);

	if (h)
		ck_fast_leave(h->buffer, CAPKM_FAST_NAMED);
	return h;
}

static void hold_add(struct capkm_session *s, struct hold *h, struct buffer *b)
{
	h->node.id = b->node.id;
	h->buffer = b;
	h->count = 1;
	ck_id_insert(&s->holds, &h->node);
	b->holders++;
	ck_buffer_get(b);
}

static void hold_drop(struct capkm_session *s, struct hold *h, struct stock *back,
		      bool keep_reports)
{
	ck_id_erase(&s->holds, &h->node);
	if (s->recent[h->node.id % RECENT] == h)
		s->recent[h->node.id % RECENT] = NULL;
	ck_fast_forget(h->buffer);
	h->buffer->holders--;
	ck_buffer_put(h->buffer, back, keep_reports);
	host_free(h);
}

/* Freed at once: later it would have to come into the cache once more. */
bool ck_session_drop_holds(struct capkm_session *s)
{
	struct id_node *node;
	u32 n;

	for (n = 0; n < PIECE && (node = ck_id_first(&s->holds)); n++)
		hold_drop(s, container_of(node, struct hold, node), NULL, true);
	return n;
}

static struct buffer *buffer_new(struct call *c,
				 const struct capkm_buffer_create *a,
				 struct buffer *b)
{
	const struct array *label = &c->array[0];
	struct stock *st = &c->session->stock;
	struct domain *d = c->domain;

	b->domain = d;
	b->node.id = ++d->next_buffer;
	ck_range_map_init(&b->claims);
	ck_range_map_init(&b->writers);
	link_init(&b->uses);
	link_init(&b->fast_left);
	b->size = a->bytes;
	b->address = a->address;
	b->session = c->session->id;
	memcpy(b->device, a->device, sizeof(b->device));
	memcpy(b->label, label->data, label->len);
	b->exported = a->flags & CAPKM_BUFFER_CREATE_F_EXPORT;
	b->unallocated = a->flags & CAPKM_BUFFER_CREATE_F_UNALLOCATED;
	b->fresh = a->flags & CAPKM_BUFFER_CREATE_F_FRESH;
	b->shared = b->exported || c->session->shared;
	if (!b->shared) {
		b->spare_claim = ck_stock_take(st, STOCK_CLAIM);
		b->spare_carrier = ck_stock_take(st, STOCK_CARRIER);
	}
	ck_tick(d);
	ck_buffer_touch(b);
	ck_id_insert(&d->buffers, &b->node);
	ck_fast_add(c->session, b);
	return b;
}

/* 0, 1 look again (the lock was dropped), or an error. */
static int make_room(struct call *c)
{
	const u64 id = c->domain->next_buffer + 1;
	bool ok;

	if (ck_fast_has_room(c->session, id))
		return 0;
	host_unlock(&c->domain->lock);
	ok = ck_fast_fill(c->session, id);
	host_lock(&c->domain->lock);
	return ok ? 1 : -ENOMEM;
}

int ck_op_buffer_create(struct call *c)
{
	static const struct need spare = {
		.n[STOCK_CLAIM] = 1, .n[STOCK_CARRIER] = 1,
	};
	struct capkm_buffer_create *a = c->arg;
	struct buffer *b = NULL;
	struct hold *h = NULL;
	int err;

	if (!a->bytes)
		return -EINVAL;
	do {
		err = ck_limit(c, c->domain, CAPKM_LIMIT_BUFFERS,
			       c->session->holds.count);
		if (!err)
			err = make_room(c);
		if (!err)
			err = ck_call_buy(c, &spare);
		if (!err && !b) {
			b = ck_call_alloc(c, sizeof(*b), &err);
			err = b ? 1 : err;
		} else if (!err && !h) {
			h = ck_call_alloc(c, sizeof(*h), &err);
			err = h ? 1 : err;
		}
	} while (err == 1);
	if (err) {
		host_free(h);
		host_free(b);
		return err;
	}
	hold_add(c->session, h, buffer_new(c, a, b));
	a->out_buffer = b->node.id;
	a->out_sequence = b->sequence;
	return 0;
}

int ck_op_buffer_export(struct call *c)
{
	struct capkm_buffer_export *a = c->arg;
	struct client *first = ck_session_first_client(c->session);
	struct stock *st = &c->session->stock;
	struct need need;
	struct hold *h;
	int err;

	do {
		h = find_hold(c->session, a->buffer);
		if (!h)
			return -ENOENT;
		memset(&need, 0, sizeof(need));
		ck_share_need(h->buffer, first, &need);
		err = ck_domain_room(c, need.n[STOCK_CLAIM]);
		if (!err)
			err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	if (!h->buffer->exported) {
		ck_tick(c->domain);
		ck_share(h->buffer, first, st);
		h->buffer->exported = true;
	}
	return 0;
}

int ck_op_buffer_open(struct call *c)
{
	struct capkm_buffer_open *a = c->arg;
	struct capkm_session *s = c->session;
	struct hold *h = find_hold(s, a->buffer), *spare;
	struct buffer *b;
	int err;

	if (!h) {
		spare = ck_call_alloc(c, sizeof(*spare), &err);
		if (!spare)
			return err;
		b = id_entry(ck_id_find(&c->domain->buffers, a->buffer),
			     struct buffer, node);
		h = find_hold(s, a->buffer);
		if (!b || !b->holders)
			err = -ENOENT;
		else if (!b->exported)
			err = -EACCES;
		else if (!h)
			err = ck_limit(c, c->domain, CAPKM_LIMIT_BUFFERS,
				       s->holds.count);
		if (err || h)
			host_free(spare);
		if (err)
			return err;
		if (!h) {
			hold_add(s, spare, b);
			spare->count = 0;
			h = spare;
		}
	}
	if (h->count == U32_MAX)
		return -EOVERFLOW;
	h->count++;
	ck_tick(c->domain);
	a->out_bytes = h->buffer->size;
	a->out_sequence = sequence(h->buffer);
	return 0;
}

int ck_op_buffer_close(struct call *c)
{
	struct capkm_buffer_close *a = c->arg;
	struct hold *h = find_hold(c->session, a->buffer);

	if (!h)
		return -ENOENT;
	ck_tick(c->domain);
	if (!--h->count)
		hold_drop(c->session, h, &c->session->stock, false);
	return 0;
}

int ck_op_buffer_reset(struct call *c)
{
	struct capkm_buffer_reset *a = c->arg;
	struct capkm_session *s = c->session;
	struct need need = {};
	struct target t;
	int err;

	do {
		err = ck_session_target(s, &a->claim, &t);
		if (err)
			return err;
		if (ck_taint_busy(&t))
			return -EBUSY;
		need.n[STOCK_CLAIM] = ck_taint_splits(&t) + 1;
		err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	ck_taint_clear(&t, ck_tick(c->domain), &s->stock);
	ck_writer_clear(&t, &s->stock);
	if (t.start == 0 && t.end == t.buffer->size)
		t.buffer->unallocated = false;
	ck_buffer_touch(t.buffer);
	a->out_sequence = t.buffer->sequence;
	return 0;
}

struct capkm_session *ck_buffer_creator(const struct buffer *b)
{
	return id_entry(ck_id_find(&b->domain->session_ids, b->session),
			struct capkm_session, node);
}

static bool creator_lives(const struct buffer *b)
{
	const struct capkm_session *s = ck_buffer_creator(b);

	return s && s->clients_n;
}

/* A private buffer is held by nobody but its creator. */
static bool is_dirty(const struct buffer *b)
{
	const struct target all = {
		.buffer = (struct buffer *)b, .end = b->size,
	};
	struct capkm_session *s;
	u64 start, end;

	if (ck_graph_seeing(&all, &start, &end))
		return true;
	if (b->shared)
		return b->unconfirmed;
	s = ck_buffer_creator(b);
	return s && ck_buffer_dirty_slot(b, ck_session_first_client(s));
}

void ck_buffer_fill(const struct buffer *b, struct capkm_buffer_query *q)
{
	q->buffer = b->node.id;
	q->out_bytes = b->size;
	memcpy(q->out_device, b->device, sizeof(q->out_device));
	q->out_address = b->address;
	q->out_sequence = sequence(b);
	q->out_claims = b->claims.count;
	q->out_failures = b->failures;
	q->out_session = b->session;
	q->out_state = (b->exported ? CAPKM_BUFFER_EXPORTED : 0) |
		       (b->unallocated ? CAPKM_BUFFER_UNALLOCATED : 0) |
		       (b->holders ? 0 : CAPKM_BUFFER_HIDDEN) |
		       (b->shared ? CAPKM_BUFFER_SHARED : 0) |
		       (b->fresh ? CAPKM_BUFFER_FRESH : 0) |
		       (is_dirty(b) ? CAPKM_BUFFER_DIRTY : 0) |
		       (creator_lives(b) ? 0 : CAPKM_BUFFER_ABANDONED);
	q->out_holders = b->holders;
	q->out_uses = b->uses_n;
	memcpy(q->out_label, b->label, sizeof(q->out_label));
}

static void fill_range(const struct claim *c, struct capkm_range *r)
{
	memset(r, 0, sizeof(*r));
	r->start = c->span.start;
	r->end = c->span.end;
	switch (c->state) {
	case CLAIM_OPEN:
		r->state = CAPKM_RANGE_OPEN;
		r->id = c->scope->id;
		break;
	case CLAIM_RECORDED:
		r->state = CAPKM_RANGE_RECORDED;
		r->id = c->window->node.id;
		break;
	case CLAIM_FAILED:
		r->state = CAPKM_RANGE_FAILED;
		r->id = c->carrier->failure->node.id;
		r->kind = c->carrier->failure->kind;
		break;
	case CLAIM_UNCONFIRMED:
		r->state = CAPKM_RANGE_UNCONFIRMED;
		r->id = c->slot->client->session->id;
		break;
	}
}

/* The writers that end after @from; they are disjoint. */
static void fill_writers(const struct buffer *b, u64 from, struct array *out)
{
	struct span *s = ck_range_first(&b->writers, from, b->size);
	struct capkm_writer *w = out->data;
	const struct claim *c;

	for (; s && out->used < out->len; s = ck_range_after(s), out->used++) {
		c = container_of(s, struct claim, span);
		w[out->used].start = s->start;
		w[out->used].end = s->end;
		w[out->used].session = c->session;
		w[out->used].stream = c->stream;
		w[out->used].sequence = s->date;
	}
}

int ck_op_buffer_query(struct call *c)
{
	struct capkm_buffer_query *a = c->arg;
	struct array *ranges = &c->array[0];
	struct hold *h = find_hold(c->session, a->buffer);
	struct capkm_range *out = ranges->data;
	struct span *s;
	u64 i;

	if (!h)
		return -ENOENT;
	s = ck_range_from(&h->buffer->claims, a->from, 0);
	for (i = 0; s && s->start == a->from && i < a->skip; i++)
		s = ck_range_after(s);
	for (; s && ranges->used < ranges->len; s = ck_range_after(s))
		fill_range(container_of(s, struct claim, span),
			   &out[ranges->used++]);
	a->out_ranges = ranges->used;
	fill_writers(h->buffer, a->from, &c->array[1]);
	a->out_writers = c->array[1].used;
	ck_buffer_fill(h->buffer, a);
	return 0;
}
