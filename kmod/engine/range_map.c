// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "internal.h"

static struct span *entry(const struct tree_node *node)
{
	return node ? container_of(node, struct span, tree) : NULL;
}

static u64 top(const struct tree_node *node)
{
	return node ? entry(node)->top : 0;
}

static u64 oldest(const struct tree_node *node)
{
	return node ? entry(node)->oldest : U64_MAX;
}

static bool augment(struct tree_node *node)
{
	struct span *s = entry(node);
	const u64 was_top = s->top, was_oldest = s->oldest;

	s->left_top = top(node->left);
	s->top = max(s->end, max(s->left_top, top(node->right)));
	s->oldest = min(s->date, min(oldest(node->left), oldest(node->right)));
	return s->top != was_top || s->oldest != was_oldest;
}

void ck_range_map_init(struct range_map *map)
{
	map->tree.root = NULL;
	map->tree.augment = augment;
	map->count = 0;
}

/* ---- blocks ---- */

enum node_kind {
	NODE_SPAN,		/* a span, in the tree itself */
	NODE_BLOCK,		/* the head of a block */
	IN_BLOCK,		/* a span that is not: its parent is the head of its block */
};

/* A full one lets ranges that come behind it begin the next, but for some room. */
#define BEHIND	(RANGE_BLOCK - 3)

static struct range_block *block_of(const struct tree_node *head)
{
	return container_of(entry(head), struct range_block, head);
}

/* That the span is in, or NULL. */
static struct range_block *home_of(const struct span *s)
{
	return s->tree.kind == IN_BLOCK ? block_of(s->tree.parent) : NULL;
}

static bool is_block(const struct tree_node *node)
{
	return node->kind == NODE_BLOCK;
}

static u32 index_of(const struct range_block *b, const struct span *s)
{
	u32 i = 0;

	while (b->item[i].span != s)
		i++;
	return i;
}

static bool below(u64 s_start, u64 s_end, u64 start, u64 end)
{
	return s_start < start || (s_start == start && s_end < end);
}

/* Is the @i'th of the block below the range? */
static bool is_below(const struct range_block *b, u32 i, u64 start, u64 end)
{
	return below(b->item[i].start, b->item[i].end, start, end);
}

/* Is the first span of the node? */
static bool first_below(const struct tree_node *node, u64 start, u64 end)
{
	return is_block(node) ? is_below(block_of(node), 0, start, end) :
				below(entry(node)->start, entry(node)->end, start, end);
}

/* Of the first that is not below the range. */
static u32 place_in(const struct range_block *b, u64 start, u64 end)
{
	u32 i = 0;

	while (i < b->n && is_below(b, i, start, end))
		i++;
	return i;
}

/* What its head says of all of them, which are others now. */
static void sum_up(struct range_map *map, struct range_block *b)
{
	u64 end = 0, date = U64_MAX;
	u32 i;

	for (i = 0; i < b->n; i++) {
		end = max(end, b->item[i].end);
		date = min(date, b->item[i].date);
	}
	b->head.start = b->item[0].start;
	b->head.end = end;
	b->head.date = date;
	ck_tree_changed(&map->tree, &b->head.tree);
}

static void put_in(struct range_map *map, struct range_block *b, u32 i, struct span *s)
{
	struct range_item *e = &b->item[i];

	memmove(e + 1, e, (b->n++ - i) * sizeof(*e));
	*e = (struct range_item) { s->start, s->end, s->date, s };
	s->tree.kind = IN_BLOCK;
	s->tree.parent = &b->head.tree;
	b->head.start = b->item[0].start;
	b->head.end = max(b->head.end, s->end);
	b->head.date = min(b->head.date, s->date);
	ck_tree_changed(&map->tree, &b->head.tree);
}

static void take_out(struct range_map *map, struct range_block *b, u32 i)
{
	struct range_item *e = &b->item[i];
	const bool counts = !i || e->end == b->head.end || e->date == b->head.date;

	memmove(e, e + 1, (--b->n - i) * sizeof(*e));
	if (counts)
		sum_up(map, b);
}

/* The span, which is a node, becomes the first of a block. */
static struct range_block *make_block(struct range_map *map, struct span *s,
				      struct stock *st)
{
	struct range_block *b = ck_stock_get(st, STOCK_BLOCK);

	b->head = *s;
	b->head.tree.kind = NODE_BLOCK;
	ck_tree_replace(&map->tree, &s->tree, &b->head.tree);
	b->n = 0;
	put_in(map, b, 0, s);
	return b;
}

/* The other way, of the only one. */
static void unmake_block(struct range_map *map, struct range_block *b, struct stock *st)
{
	struct span *s = b->item[0].span;

	s->left_top = b->head.left_top;
	s->top = b->head.top;
	s->oldest = b->head.oldest;
	s->tree.kind = NODE_SPAN;
	ck_tree_replace(&map->tree, &b->head.tree, &s->tree);
	ck_stock_give(st, STOCK_BLOCK, b);
}

/* Between the nodes @prev and @next; false: it has to be a node, at @link. */
static bool goes_in(struct range_map *map, struct span *s, struct tree_node *prev,
		    struct tree_node *next, struct stock *st)
{
	struct range_block *b;
	u32 i;

	if (prev && is_block(prev)) {
		b = block_of(prev);
		i = place_in(b, s->start, s->end);
		if (b->n < (i == b->n ? BEHIND : RANGE_BLOCK)) {
			put_in(map, b, i, s);
			return true;
		}
		if (i < b->n)
			return false;
	}
	if (next && is_block(next) && block_of(next)->n < RANGE_BLOCK) {
		put_in(map, block_of(next), 0, s);
		return true;
	}
	if (map->count < RANGE_MANY || !st || !st->spare.n[STOCK_BLOCK])
		return false;
	if (prev && !is_block(prev))
		b = make_block(map, entry(prev), st);
	else if (next && !is_block(next))
		b = make_block(map, entry(next), st);
	else
		return false;
	put_in(map, b, place_in(b, s->start, s->end), s);
	return true;
}

/* The last of the full block @node, if @s comes before it, and has its room now. */
static struct span *push_out(struct range_map *map, struct tree_node *node, struct span *s)
{
	struct range_block *b = block_of(node);
	struct span *last;
	u32 i;

	if (!is_block(node))
		return NULL;
	i = place_in(b, s->start, s->end);
	if (i == b->n)
		return NULL;
	last = b->item[b->n - 1].span;
	take_out(map, b, b->n - 1);
	put_in(map, b, i, s);
	return last;
}

static void make_leaf(struct range_map *map, struct span *s, struct tree_node *parent,
		      struct tree_node **link)
{
	s->left_top = 0;
	s->top = s->end;
	s->oldest = s->date;
	s->tree.kind = NODE_SPAN;
	ck_tree_link(&map->tree, &s->tree, parent, link);
}

/* Where a full block has no room for it, its last span is put elsewhere; once. */
static void insert(struct range_map *map, struct span *s, bool may_push,
		   struct stock *st)
{
	struct tree_node *parent = NULL, **link = &map->tree.root;
	struct tree_node *prev = NULL, *next = NULL;
	struct span *pushed;

	while (*link) {
		parent = *link;
		if (first_below(parent, s->start, s->end)) {
			prev = parent;
			link = &parent->right;
		} else {
			next = parent;
			link = &parent->left;
		}
	}
	if (goes_in(map, s, prev, next, st))
		return;
	pushed = may_push && prev ? push_out(map, prev, s) : NULL;
	if (pushed) {
		insert(map, pushed, false, st);
		return;
	}
	make_leaf(map, s, parent, link);
}

void ck_range_insert(struct range_map *map, struct span *s, struct stock *st)
{
	if (map->count++)
		insert(map, s, true, st);
	else
		make_leaf(map, s, NULL, &map->tree.root);
}

void ck_range_erase(struct range_map *map, struct span *s, struct stock *st)
{
	struct range_block *b = home_of(s);

	map->count--;
	if (!b) {
		ck_tree_erase(&map->tree, &s->tree);
		return;
	}
	take_out(map, b, index_of(b, s));
	if (b->n == 1)
		unmake_block(map, b, st);
}

static void changed(struct range_map *map, struct span *s)
{
	struct range_block *b = home_of(s);
	u32 i;

	if (!b) {
		ck_tree_changed(&map->tree, &s->tree);
		return;
	}
	i = index_of(b, s);
	b->item[i].end = s->end;
	b->item[i].date = s->date;
	sum_up(map, b);
}

void ck_range_set_end(struct range_map *map, struct span *s, u64 end)
{
	s->end = end;
	changed(map, s);
}

void ck_range_set_date(struct range_map *map, struct span *s, u64 date)
{
	s->date = date;
	changed(map, s);
}

/* ---- looking ---- */

/* What is looked for; @before U64_MAX stands for every date. */
struct query {
	u64 start, end, before;
};

static bool matches(u64 end, u64 date, const struct query *q)
{
	return end > q->start && (date < q->before || q->before == U64_MAX);
}

/* From the @i'th on. */
static struct span *match_in(const struct range_block *b, u32 i, const struct query *q)
{
	for (; i < b->n && b->item[i].start < q->end; i++)
		if (matches(b->item[i].end, b->item[i].date, q))
			return b->item[i].span;
	return NULL;
}

/* Of the node itself, which starts below the end that is looked for. */
static struct span *match_at(const struct tree_node *node, const struct query *q)
{
	struct span *s = entry(node);

	if (!matches(s->end, s->date, q))
		return NULL;
	return is_block(node) ? match_in(block_of(node), 0, q) : s;
}

/* Can there be a match below @node? */
static bool promises(const struct tree_node *node, const struct query *q)
{
	return node && top(node) > q->start &&
	       (oldest(node) < q->before || q->before == U64_MAX);
}

/* The same of its left child, which is not touched if not. */
static bool promises_left(const struct tree_node *node, const struct query *q)
{
	return node->left && entry(node)->left_top > q->start &&
	       promises(node->left, q);
}

/*
 * In order of start the first match at or after @node, which has been come to
 * from @from: its parent (nothing of it is done), its left child (that is done)
 * or its right child (all of it is done).
 */
static struct span *walk(const struct tree_node *node,
			 const struct tree_node *from, const struct query *q)
{
	const struct tree_node *next;
	struct span *s;

	while (node) {
		if (from == node->parent && promises_left(node, q)) {
			from = node;
			node = node->left;
			continue;
		}
		if (from != node->right || !from) {
			if (entry(node)->start >= q->end)
				return NULL;
			s = match_at(node, q);
			if (s)
				return s;
			if (promises(node->right, q)) {
				from = node;
				node = node->right;
				continue;
			}
		}
		next = node->parent;
		from = node;
		node = next;
	}
	return NULL;
}

static struct span *first(const struct range_map *map, const struct query *q)
{
	if (!promises(map->tree.root, q))
		return NULL;
	return walk(map->tree.root, NULL, q);
}

static struct span *next(const struct span *s, const struct query *q)
{
	const struct range_block *b = home_of(s);
	const struct tree_node *node = b ? &b->head.tree : &s->tree;
	struct span *found = b ? match_in(b, index_of(b, s) + 1, q) : NULL;

	if (found)
		return found;
	if (promises(node->right, q))
		return walk(node->right, node, q);
	return walk(node->parent, node, q);
}

struct span *ck_range_look(const struct range_map *map, u64 start, u64 end)
{
	return first(map, &(struct query) { start, end, U64_MAX });
}

struct span *ck_range_next(const struct span *s, u64 start, u64 end)
{
	return next(s, &(struct query) { start, end, U64_MAX });
}

struct span *ck_range_look_older(const struct range_map *map, u64 start,
				 u64 end, u64 before)
{
	return first(map, &(struct query) { start, end, before });
}

struct span *ck_range_next_older(const struct span *s, u64 start, u64 end,
				 u64 before)
{
	return next(s, &(struct query) { start, end, before });
}

static struct span *first_of(const struct tree_node *node)
{
	return node && is_block(node) ? block_of(node)->item[0].span : entry(node);
}

struct span *ck_range_from(const struct range_map *map, u64 start, u64 end)
{
	struct tree_node *at = map->tree.root, *found = NULL;
	const struct range_block *b;
	u32 i;

	while (at) {
		if (!first_below(at, start, end)) {
			found = at;
			at = at->left;
			continue;
		}
		if (is_block(at)) {
			b = block_of(at);
			i = place_in(b, start, end);
			if (i < b->n)
				return b->item[i].span;
		}
		at = at->right;
	}
	return first_of(found);
}

struct span *ck_range_after(const struct span *s)
{
	const struct range_block *b = home_of(s);
	u32 i;

	if (!b)
		return first_of(ck_tree_next(&s->tree));
	i = index_of(b, s) + 1;
	return i < b->n ? b->item[i].span : first_of(ck_tree_next(&b->head.tree));
}

struct span *ck_range_find(const struct range_map *map, u64 start, u64 end)
{
	struct span *s = ck_range_from(map, start, end);

	return s && s->start == start && s->end == end ? s : NULL;
}
