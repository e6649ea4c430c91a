// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Queues of errors: each failed exit on a slot waits once for the stream that
 * owns it, or for anybody. It latches nothing and keeps no node of the error
 * graph; it pins the text.
 */
#include "internal.h"

/* Owners are many, notes are not: beyond it the oldest becomes shared. */
#define NOTES_MAX	4096u

static void drop(struct slot *slot, struct note *note, struct stock *back)
{
	link_del(&note->sib);
	slot->notes_n--;
	slot->notes_shared -= note->shared;
	ck_failure_unpin(note->failure, back);
	ck_stock_give(back, STOCK_NOTE, note);
}

/* The oldest that is shared, or is not; of that owner, or, if NULL, of any. */
static struct note *oldest(const struct slot *slot, bool shared,
			   const u64 *owner)
{
	const struct link *l;
	struct note *note;

	link_for_each(l, &slot->notes) {
		note = link_entry(l, struct note, sib);
		if (note->shared == shared && (!owner || note->owner == *owner))
			return note;
	}
	return NULL;
}

static void share(struct slot *slot, struct note *note)
{
	note->shared = true;
	slot->notes_shared++;
}

static u32 owned_by(const struct slot *slot, u64 owner)
{
	const struct note *note;
	const struct link *l;
	u32 n = 0;

	link_for_each(l, &slot->notes) {
		note = link_entry(l, struct note, sib);
		n += !note->shared && note->owner == owner;
	}
	return n;
}

/* SC-26: never dropped for its owner, but for the first who asks. */
static void overflow(struct slot *slot, struct stock *back)
{
	const struct domain *d = slot->client->session->domain;

	if (slot->notes_n - slot->notes_shared > NOTES_MAX)
		share(slot, oldest(slot, false, NULL));
	while (slot->notes_shared > d->limit[CAPKM_LIMIT_QUEUED_SHARED]) {
		drop(slot, oldest(slot, true, NULL), back);
		slot->notes_dropped++;
	}
}

void ck_note(struct slot *slot, struct note *note, struct failure *f,
	     u64 owner, bool shared, struct stock *back)
{
	const struct domain *d = slot->client->session->domain;

	note->failure = f;
	note->owner = owner;
	ck_failure_pin(f);
	link_add_tail(&note->sib, &slot->notes);
	slot->notes_n++;
	if (shared)
		share(slot, note);
	else if (owned_by(slot, owner) > d->limit[CAPKM_LIMIT_QUEUED])
		share(slot, oldest(slot, false, &owner));
	overflow(slot, back);
}

/* The owner is gone: what waits for it is anybody's. */
void ck_notes_disown(struct slot *slot, u64 owner, struct stock *back)
{
	struct note *note;
	struct link *l;

	link_for_each(l, &slot->notes) {
		note = link_entry(l, struct note, sib);
		if (!note->shared && note->owner == owner)
			share(slot, note);
	}
	overflow(slot, back);
}

void ck_notes_free(struct slot *slot)
{
	while (!link_empty(&slot->notes))
		drop(slot, link_first(&slot->notes, struct note, sib), NULL);
}

static bool wanted(const struct note *note, u64 stream, u32 flags)
{
	if (flags & CAPKM_STREAM_FLUSH_F_EVERY)
		return true;
	if (note->shared)
		return !(flags & CAPKM_STREAM_FLUSH_F_OWN);
	return note->owner == stream && !(flags & CAPKM_STREAM_FLUSH_F_SHARED);
}

static u32 count(const struct slot *slot, u64 stream, u32 flags)
{
	const struct link *l;
	u32 n = 0;

	link_for_each(l, &slot->notes)
		n += wanted(link_entry(l, struct note, sib), stream, flags);
	return n;
}

u32 ck_notes_for(const struct slot *slot, u64 stream)
{
	return count(slot, stream, 0);
}

static void take(struct slot *slot, const struct capkm_stream_flush *a,
		 struct array *reports, struct stock *back)
{
	struct capkm_report *r = reports->data;
	struct link *l, *n;
	struct note *note;

	link_for_each_safe(l, n, &slot->notes) {
		if (reports->used == reports->len)
			return;
		note = link_entry(l, struct note, sib);
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
