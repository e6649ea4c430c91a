// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Queues of errors: each failed exit on a slot waits once for the stream that
 * owns it, or for anybody. It latches nothing and keeps no node of the error
 * graph; it pins the text.
 */
#include "internal.h"

/* Owners are many, notes are not: beyond it the oldest becomes shared. */
#define NOTES_MAX	4096u

static struct note *first(const struct link *list)
{
	return link_empty(list) ? NULL : link_first(list, struct note, sib);
}

/* The oldest note of the owner, which also counts them; NULL if it has none. */
static struct note *head_of(const struct slot *slot, u64 owner)
{
	return id_entry(ck_id_find(&slot->owners, owner), struct note, node);
}

static void own(struct slot *slot, struct note *note)
{
	struct note *head = head_of(slot, note->owner);

	link_init(&note->owned);
	link_add_tail(&note->sib, &slot->notes);
	if (head) {
		link_add_tail(&note->owned, &head->owned);
		head->count++;
		return;
	}
	note->node.id = note->owner;
	note->count = 1;
	ck_id_insert(&slot->owners, &note->node);
}

static void disown(struct slot *slot, struct note *note)
{
	struct note *head = head_of(slot, note->owner), *next;

	link_del(&note->sib);
	if (head != note) {
		head->count--;
		link_del(&note->owned);
		return;
	}
	ck_id_erase(&slot->owners, &note->node);
	if (link_empty(&note->owned))
		return;
	next = link_first(&note->owned, struct note, owned);
	link_del(&note->owned);
	next->node.id = note->owner;
	next->count = note->count - 1;
	ck_id_insert(&slot->owners, &next->node);
}

/* Oldest first, as in the other list. */
static void add_shared(struct slot *slot, struct note *note)
{
	struct link *at = &slot->shared;

	while (at->prev != &slot->shared &&
	       link_entry(at->prev, struct note, sib)->number > note->number)
		at = at->prev;
	link_add_tail(&note->sib, at);
	note->shared = true;
	slot->notes_shared++;
}

static void share(struct slot *slot, struct note *note)
{
	disown(slot, note);
	add_shared(slot, note);
}

static void drop(struct slot *slot, struct note *note, struct stock *back)
{
	if (note->shared) {
		link_del(&note->sib);
		slot->notes_shared--;
	} else {
		disown(slot, note);
	}
	slot->notes_n--;
	ck_failure_unpin(note->failure, back);
	ck_stock_give(back, STOCK_NOTE, note);
}

/* SC-26: never dropped for its owner, but for the first who asks. */
static void overflow(struct slot *slot, struct stock *back)
{
	const struct domain *d = slot->client->session->domain;

	if (slot->notes_n - slot->notes_shared > NOTES_MAX)
		share(slot, first(&slot->notes));
	while (slot->notes_shared > d->limit[CAPKM_LIMIT_QUEUED_SHARED]) {
		drop(slot, first(&slot->shared), back);
		slot->notes_dropped++;
	}
}

void ck_note(struct slot *slot, struct note *note, struct failure *f,
	     u64 owner, bool shared, struct stock *back)
{
	const struct domain *d = slot->client->session->domain;
	struct note *head;

	note->failure = f;
	note->owner = owner;
	note->number = ++slot->notes_total;
	ck_failure_pin(f);
	slot->notes_n++;
	if (shared) {
		add_shared(slot, note);
	} else {
		own(slot, note);
		head = head_of(slot, owner);
		if (head->count > d->limit[CAPKM_LIMIT_QUEUED])
			share(slot, head);
	}
	overflow(slot, back);
}

/* The owner is gone: what waits for it is anybody's. */
void ck_notes_disown(struct slot *slot, u64 owner, struct stock *back)
{
	struct note *head;

	while ((head = head_of(slot, owner)))
		share(slot, head);
	overflow(slot, back);
}

void ck_notes_free(struct slot *slot)
{
	while (!link_empty(&slot->notes))
		drop(slot, first(&slot->notes), NULL);
	while (!link_empty(&slot->shared))
		drop(slot, first(&slot->shared), NULL);
}

static u32 count(const struct slot *slot, u64 stream, u32 flags)
{
	const struct note *head = head_of(slot, stream);
	u32 n = 0;

	if (flags & CAPKM_STREAM_FLUSH_F_EVERY)
		return slot->notes_n;
	if (!(flags & CAPKM_STREAM_FLUSH_F_OWN))
		n += slot->notes_shared;
	if (!(flags & CAPKM_STREAM_FLUSH_F_SHARED) && head)
		n += head->count;
	return n;
}

u32 ck_notes_for(const struct slot *slot, u64 stream)
{
	return count(slot, stream, 0);
}

static bool wanted(const struct note *note, u64 stream, u32 flags)
{
	if (flags & CAPKM_STREAM_FLUSH_F_EVERY)
		return true;
	if (note->shared)
		return !(flags & CAPKM_STREAM_FLUSH_F_OWN);
	return note->owner == stream && !(flags & CAPKM_STREAM_FLUSH_F_SHARED);
}

/* The older of what is next in the two lists, which moves on; NULL at their ends. */
static struct note *older(const struct slot *slot, struct link **owned,
			  struct link **shared)
{
	struct note *a = *owned == &slot->notes ? NULL :
		link_entry(*owned, struct note, sib);
	struct note *b = *shared == &slot->shared ? NULL :
		link_entry(*shared, struct note, sib);

	if (a && (!b || a->number < b->number)) {
		*owned = (*owned)->next;
		return a;
	}
	if (b)
		*shared = (*shared)->next;
	return b;
}

static void take(struct slot *slot, const struct capkm_stream_flush *a,
		 struct array *reports, struct stock *back)
{
	struct link *owned = slot->notes.next, *shared = slot->shared.next;
	struct capkm_report *r = reports->data;
	struct note *note;

	while (reports->used < reports->len &&
	       (note = older(slot, &owned, &shared))) {
		if (!wanted(note, a->place.stream, a->flags))
			continue;
		ck_failure_report(note->failure, &r[reports->used++]);
		if (!(a->flags & CAPKM_STREAM_FLUSH_F_PEEK))
			drop(slot, note, back);
	}
}

static bool one_at_most(u32 flags)
{
	return !(flags & (flags - 1));
}

int ck_op_stream_flush(struct call *c)
{
	const u32 which = CAPKM_STREAM_FLUSH_F_OWN |
			  CAPKM_STREAM_FLUSH_F_SHARED |
			  CAPKM_STREAM_FLUSH_F_EVERY;
	struct capkm_stream_flush *a = c->arg;
	struct array *reports = &c->array[0];
	struct slot *slot;
	u32 index;
	int err;

	if (!one_at_most(a->flags & which))
		return -EINVAL;
	err = ck_slot_find(c->client, &a->place, a->flags, &slot, &index);
	if (err)
		return err;
	a->out_reports = 0;
	a->out_left = 0;
	a->out_dropped = 0;
	if (!slot)
		return 0;
	take(slot, a, reports, &c->session->stock);
	a->out_reports = reports->used;
	a->out_left = count(slot, a->place.stream, a->flags);
	if (!(a->flags & CAPKM_STREAM_FLUSH_F_OWN)) {
		a->out_dropped = slot->notes_dropped;
		if (!(a->flags & CAPKM_STREAM_FLUSH_F_PEEK))
			slot->notes_dropped = 0;
	}
	return 0;
}
