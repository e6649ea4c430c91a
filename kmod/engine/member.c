// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What belongs to a window beside its own slot: slots that joined it, and child
 * windows; and what should have and did not: work of its streams elsewhere.
 */
#include "internal.h"

struct window *ck_slot_recording(const struct slot *slot)
{
	if (slot->window)
		return ck_window_recording(slot->window) ? slot->window : NULL;
	return slot->member;
}

/* ---- members ---- */

void ck_member_leave(struct slot *slot)
{
	slot->member->members_n--;
	slot->member = NULL;
	link_del(&slot->member_sib);
	ck_slot_publish(slot);
}

void ck_members_leave(struct window *w)
{
	while (!link_empty(&w->members))
		ck_member_leave(link_first(&w->members, struct slot,
					   member_sib));
}

static void member_add(struct window *w, struct slot *slot, u64 stream)
{
	slot->member = w;
	slot->member_stream = stream;
	slot->member_launches = 0;
	link_add_tail(&slot->member_sib, &w->members);
	w->members_n++;
	ck_slot_publish(slot);
}

static void merged(struct call *c, struct window *w, struct window *other,
		   u64 stream)
{
	struct stock *st = &c->session->stock;
	char text[CAPKM_TEXT_MAX + 1];
	struct failure *f;
	u32 len;

	len = scnprintf(text, sizeof(text),
			"the driver merged the captures of windows %llu and %llu",
			(unsigned long long)w->node.id,
			(unsigned long long)other->node.id);
	ck_tick(c->domain);
	f = ck_failure_by(c, stream, CAPKM_KIND_MERGE, 0);
	f->window = w->node.id;
	ck_failure_text(f, text, len);
	ck_window_doom(w, f, st);
	ck_window_doom(other, f, st);
	ck_failure_unpin(f, st);
}

/* Can the slot, which is not in @w, join it? 0, or why not. */
static int may_join(struct call *c, const struct window *w,
		    const struct slot *slot, const struct window *other)
{
	if (ck_window_doomed(w))
		return -EINVAL;
	if (other || slot->scopes)
		return -EBUSY;
	return ck_limit(c, c->domain, CAPKM_LIMIT_MEMBERS, w->members_n);
}

int ck_op_window_join(struct call *c)
{
	static const struct need need = { .n[STOCK_FAILURE] = 1 };
	struct capkm_window_join *a = c->arg;
	struct window *w, *other;
	struct slot *slot;
	bool merge;
	int err;

	do {
		err = ck_window_own(c, a->window, &w);
		if (!err && !ck_window_recording(w))
			err = -EINVAL;
		if (!err)
			err = ck_slot_get(c, &a->place, a->flags, &slot);
		if (!err && a->flags & CAPKM_WINDOW_JOIN_F_DRIVER_MERGED)
			err = ck_call_buy(c, &need);
	} while (err == 1);
	if (err)
		return err;
	other = ck_slot_window(slot, &a->out_state);
	merge = a->flags & CAPKM_WINDOW_JOIN_F_DRIVER_MERGED && other &&
		other != w && a->out_state != CAPKM_WINDOW_PREPARE;
	a->out_result = merge ? CAPKM_REFUSED : CAPKM_CLEAN;
	c->say_error = true;
	if (other == w)
		return 0;
	if (merge) {
		merged(c, w, other, a->place.stream);
		return 0;
	}
	err = may_join(c, w, slot, other);
	if (err)
		return err;
	ck_tick(c->domain);
	member_add(w, slot, a->place.stream);
	a->out_state = CAPKM_WINDOW_MEMBER;
	return 0;
}

/* ---- children ---- */

struct window *ck_window_suspender(const struct window *w)
{
	const struct link *l;
	struct window *child;

	link_for_each(l, &w->children) {
		child = link_entry(l, struct window, child_sib);
		/* Until it is sealed it has not told what it read. */
		if (child->state != CAPKM_WINDOW_PREPARE)
			return child;
	}
	return NULL;
}

/* The one to begin with when all of them are to be closed. */
struct window *ck_window_deepest(struct window *w)
{
	while (!link_empty(&w->children))
		w = link_first(&w->children, struct window, child_sib);
	return w;
}

void ck_child_leave(struct window *w)
{
	if (!w->parent)
		return;
	link_del(&w->child_sib);
	w->parent->children_n--;
	w->parent = NULL;
}

int ck_child_need(struct call *c, const struct window *w, struct need *need)
{
	const struct window *parent = w->parent;
	const struct domain *d = c->domain;
	u64 keys = w->recorded + w->seen, sum;
	const struct use *use, *above;
	struct id_node *node;
	struct span *s;

	for (node = ck_id_first(&w->uses); node; node = ck_id_next(node)) {
		use = container_of(node, struct use, node);
		above = ck_use_find(&parent->uses, node->id);
		range_for_each(s, &use->inputs)
			keys += ck_use_gaps(above, s->start, s->end, NULL, NULL);
		host_relax();
	}
	if (parent->recorded + parent->inputs + parent->seen +
	    parent->pending + keys > d->limit[CAPKM_LIMIT_CLAIMS])
		return ck_limit_reached(c, CAPKM_LIMIT_CLAIMS);
	if (parent->retained_n + w->retained_n >
	    d->limit[CAPKM_LIMIT_RETAINED])
		return ck_limit_reached(c, CAPKM_LIMIT_RETAINED);
	if (check_add_overflow(parent->retained_bytes, w->retained_bytes, &sum))
		return -EOVERFLOW;
	*need = (struct need) {
		.n[STOCK_CLAIM] = keys,
		.n[STOCK_USE] = w->uses.count,
	};
	return 0;
}

static void seen_by_parent(struct window *parent, struct stock *stock,
			   struct use *use, const struct range_map *set,
			   struct stock *st)
{
	static const struct need tag = { .n[STOCK_CARRIER] = 1 };
	struct use *above;
	struct span *s;

	if (!set->count)
		return;
	above = ck_use_get(&parent->uses, use->buffer, NULL, st);
	/* What the parent's refusal needs for the claims that move to it. */
	if (use->refusal_paid && !above->refusal_paid) {
		ck_stock_move(&parent->stock, stock, &tag);
		above->refusal_paid = true;
	}
	range_for_each(s, set)
		parent->seen += ck_use_add(&above->seen, s->start, s->end, st);
}

/* Older ones of the parent end where these do, their exits have seen to that. */
static void move_claims(struct window *parent, struct window *w,
			struct stock *st)
{
	struct target t;
	struct claim *c;
	u32 n = 0;

	while (!link_empty(&w->claims)) {
		c = link_first(&w->claims, struct claim, sib);
		t.buffer = c->buffer;
		t.start = c->span.start;
		t.end = c->span.end;
		ck_taint_clear_recorded(&t, parent, c->enter, st);
		c->window = parent;
		link_move_tail(&c->sib, &parent->claims);
		if (!(++n % 1024))
			host_relax();
	}
}

void ck_child_sealed(struct window *w, struct stock *st)
{
	struct window *parent = w->parent;
	struct id_node *node;
	struct use *use;
	struct span *s;

	for (node = ck_id_first(&w->uses); node; node = ck_id_next(node)) {
		use = container_of(node, struct use, node);
		seen_by_parent(parent, &w->stock, use, &use->writes, st);
		seen_by_parent(parent, &w->stock, use, &use->seen, st);
		range_for_each(s, &use->inputs)
			ck_window_read(parent, use->buffer, s->start, s->end,
				       st);
		host_relax();
	}
	move_claims(parent, w, st);
	while (!link_empty(&w->retained))
		link_move_tail(w->retained.next, &parent->retained);
	parent->retained_n += w->retained_n;
	parent->retained_bytes += w->retained_bytes;
	parent->launches += w->launches;
}

/* ---- escaped work ---- */

bool ck_window_has_stream(const struct window *w, u64 stream)
{
	const struct link *l;

	if (w->opener.stream == stream)
		return true;
	link_for_each(l, &w->members)
		if (link_entry(l, struct slot, member_sib)->member_stream ==
		    stream)
			return true;
	return false;
}

/* Is what runs on the slot recorded in @w, or in a child of it? */
static bool is_inside(const struct window *w, const struct slot *slot)
{
	const struct window *at = ck_slot_recording(slot);

	while (at && at != w)
		at = at->parent;
	return at;
}

static bool escapes(const struct window *w, const struct slot *slot,
		    u64 stream)
{
	return ck_window_recording(w) && ck_window_has_stream(w, stream) &&
	       !is_inside(w, slot);
}

u32 ck_escape_dooms_any(const struct client *c, const struct slot *slot,
			u64 stream)
{
	const struct window *w;
	const struct link *l;
	u32 n = 0;

	link_for_each(l, &c->windows) {
		w = link_entry(l, struct window, sib);
		n += w->strict && escapes(w, slot, stream);
	}
	return n;
}

static void doom_escaped(struct call *c, struct window *w,
			 const struct slot *slot, u64 stream)
{
	struct failure *f = ck_failure_by(c, stream, CAPKM_KIND_ESCAPED, 0);
	struct stock *st = &c->session->stock;
	char text[CAPKM_TEXT_MAX + 1];
	u32 len;

	len = scnprintf(text, sizeof(text),
			"work of stream %llu ran on slot %u, outside of strict window %llu",
			(unsigned long long)stream, slot->index,
			(unsigned long long)w->node.id);
	f->window = w->node.id;
	ck_failure_text(f, text, len);
	ck_window_doom(w, f, st);
	ck_failure_unpin(f, st);
}

void ck_escape_all(struct call *c, const struct slot *slot, u64 stream)
{
	struct window *w;
	struct link *l;

	link_for_each(l, &c->client->windows) {
		w = link_entry(l, struct window, sib);
		if (!escapes(w, slot, stream))
			continue;
		w->escaped++;
		if (w->strict)
			doom_escaped(c, w, slot, stream);
	}
}
