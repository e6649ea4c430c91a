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

static void augment(struct tree_node *node)
{
	struct span *s = entry(node);

	s->top = max(s->end, max(top(node->left), top(node->right)));
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

/* The leftmost below @node that touches, or NULL. */
static struct span *search(const struct tree_node *node, u64 start, u64 end)
{
	while (node && top(node) > start) {
		if (top(node->left) > start)
			node = node->left;
		else if (entry(node)->start >= end)
			return NULL;
		else if (entry(node)->end > start)
			return entry(node);
		else
			node = node->right;
	}
	return NULL;
}

struct span *ck_range_first(const struct range_map *map, u64 start, u64 end)
{
	return start < end ? search(map->tree.root, start, end) : NULL;
}

struct span *ck_range_next(const struct span *s, u64 start, u64 end)
{
	const struct tree_node *node = &s->tree, *from;
	struct span *found;

	for (;;) {
		found = search(node->right, start, end);
		if (found)
			return found;
		do {
			from = node;
			node = node->parent;
			if (!node)
				return NULL;
		} while (node->right == from);
		if (entry(node)->start >= end)
			return NULL;
		if (entry(node)->end > start)
			return entry(node);
	}
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
