// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which claims a window or graph has on which buffers: for each buffer one
 * struct use with three sets of claim keys. A key is a range, each once; keys
 * may overlap (D-5).
 */
#include "internal.h"

struct use *ck_use_find(const struct id_map *uses, u64 buffer)
{
	return id_entry(ck_id_find(uses, buffer), struct use, node);
}

struct use *ck_use_get(struct id_map *uses, struct buffer *b,
		       struct graph *g, struct stock *from)
{
	struct use *use = ck_use_find(uses, b->node.id);

	if (use)
		return use;
	/* An input may have got its word back since the scope was entered. */
	ck_fast_leave(b, CAPKM_FAST_NAMED);
	use = ck_stock_take(from, STOCK_USE);
	use->node.id = b->node.id;
	use->buffer = b;
	use->graph = g;
	link_init(&use->busy);
	link_init(&use->tracked);
	ck_range_map_init(&use->writes);
	ck_range_map_init(&use->inputs);
	ck_range_map_init(&use->seen);
	ck_id_insert(uses, &use->node);
	link_add_tail(&use->sib, &b->uses);
	b->uses_n++;
	ck_buffer_get(b);
	return use;
}

bool ck_use_add(struct range_map *set, u64 start, u64 end, struct stock *from)
{
	struct claim *c;

	if (start == end || ck_range_find(set, start, end))
		return false;
	c = ck_stock_take(from, STOCK_CLAIM);
	c->span.start = start;
	c->span.end = end;
	ck_range_insert(set, &c->span, from);
	return true;
}

/* Up to @most of its claims: how many. */
static u32 free_set(struct range_map *set, u32 most, struct stock *back)
{
	struct claim *c;
	struct span *s;
	u32 n;

	for (n = 0; n < most && (s = ck_range_from(set, 0, 0)); n++) {
		c = container_of(s, struct claim, span);
		ck_range_erase(set, s, back);
		ck_stock_give(back, STOCK_CLAIM, c);
	}
	return n;
}

/* Its buffer can no longer ask the graph what replays did to it. */
static void tell_buffer(struct use *use)
{
	const struct graph *g = use->graph;
	struct buffer *b = use->buffer;

	if (!b || !g || !(use->writes.count + use->seen.count))
		return;
	b->sequence = max(b->sequence, g->touched);
	if (!b->shared)
		b->dirty = max(b->dirty, g->dirty);
}

static void forget(struct use *use, struct stock *back, bool keep_reports)
{
	struct buffer *b = use->buffer;

	if (!b)
		return;
	use->buffer = NULL;
	link_del(&use->busy);
	link_del(&use->tracked);
	link_del(&use->sib);
	b->uses_n--;
	ck_fast_changed(b);
	ck_buffer_put(b, back, keep_reports);
}

void ck_uses_forget(struct id_map *uses, struct stock *back, bool keep_reports)
{
	struct id_node *node;

	for (node = ck_id_first(uses); node; node = ck_id_next(node))
		forget(container_of(node, struct use, node), back,
		       keep_reports);
}

bool ck_uses_free_some(struct id_map *uses, u32 most, struct stock *back,
		       bool keep_reports)
{
	struct id_node *node;
	struct use *use;
	u32 n;

	for (n = 0; n < most && (node = ck_id_first(uses)); n++) {
		use = container_of(node, struct use, node);
		tell_buffer(use);
		n += free_set(&use->writes, most - n, back);
		n += free_set(&use->inputs, most - n, back);
		n += free_set(&use->seen, most - n, back);
		if (n == most)
			return true;
		ck_id_erase(uses, node);
		forget(use, back, keep_reports);
		ck_stock_give(back, STOCK_USE, use);
	}
	return uses->count;
}

void ck_uses_free(struct id_map *uses, struct stock *back, bool keep_reports)
{
	while (ck_uses_free_some(uses, 1024, back, keep_reports))
		host_relax();
}

u32 ck_use_gaps(const struct use *use, u64 start, u64 end,
		void (*each)(void *ctx, u64 start, u64 end), void *ctx)
{
	struct span *s;
	u32 n = 0;

	if (start == end)
		return 0;
	s = use ? ck_range_first(&use->writes, start, end) : NULL;
	for (; s; s = ck_range_next(s, start, end)) {
		if (s->start > start) {
			n++;
			if (each)
				each(ctx, start, s->start);
		}
		start = max(start, s->end);
		if (start >= end)
			return n;
	}
	if (each)
		each(ctx, start, end);
	return n + 1;
}
