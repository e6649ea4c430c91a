// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "range_map.h"

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

static bool below(const struct span *s, u64 start, u64 end)
{
	return s->start < start || (s->start == start && s->end < end);
}

void ck_range_insert(struct range_map *map, struct span *s)
{
	struct tree_node *parent = NULL, **link = &map->tree.root;

	while (*link) {
		parent = *link;
		link = below(entry(parent), s->start, s->end) ?
			&parent->right : &parent->left;
	}
	s->left_top = 0;
	s->top = s->end;
	s->oldest = s->date;
	ck_tree_link(&map->tree, &s->tree, parent, link);
	map->count++;
}

void ck_range_erase(struct range_map *map, struct span *s)
{
	ck_tree_erase(&map->tree, &s->tree);
	map->count--;
}

void ck_range_set_end(struct range_map *map, struct span *s, u64 end)
{
	s->end = end;
	ck_tree_changed(&map->tree, &s->tree);
}

void ck_range_set_date(struct range_map *map, struct span *s, u64 date)
{
	s->date = date;
	ck_tree_changed(&map->tree, &s->tree);
}

/* What is looked for; @before U64_MAX stands for every date. */
struct query {
	u64 start, end, before;
};

static bool matches(const struct span *s, const struct query *q)
{
	return s->start < q->end && s->end > q->start &&
	       (s->date < q->before || q->before == U64_MAX);
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

	while (node) {
		if (from == node->parent && promises_left(node, q)) {
			from = node;
			node = node->left;
			continue;
		}
		if (from != node->right || !from) {
			if (entry(node)->start >= q->end)
				return NULL;
			if (matches(entry(node), q))
				return entry(node);
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
	if (q->start >= q->end || !promises(map->tree.root, q))
		return NULL;
	return walk(map->tree.root, NULL, q);
}

static struct span *next(const struct span *s, const struct query *q)
{
	const struct tree_node *node = &s->tree;

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

struct span *ck_range_from(const struct range_map *map, u64 start, u64 end)
{
	struct tree_node *at = map->tree.root, *found = NULL;

	while (at) {
		if (below(entry(at), start, end)) {
			at = at->right;
		} else {
			found = at;
			at = at->left;
		}
	}
	return entry(found);
}

struct span *ck_range_after(const struct span *s)
{
	return entry(ck_tree_next(&s->tree));
}

struct span *ck_range_find(const struct range_map *map, u64 start, u64 end)
{
	struct span *s = ck_range_from(map, start, end);

	return s && s->start == start && s->end == end ? s : NULL;
}
