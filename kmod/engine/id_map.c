// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "id_map.h"

static struct id_node *entry(struct tree_node *node)
{
	return node ? container_of(node, struct id_node, tree) : NULL;
}

struct id_node *ck_id_from(const struct id_map *map, u64 id)
{
	struct tree_node *at = map->tree.root, *found = NULL;

	while (at) {
		if (entry(at)->id >= id) {
			found = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return entry(found);
}

struct id_node *ck_id_find(const struct id_map *map, u64 id)
{
	struct tree_node *at = map->tree.root;

	while (at && entry(at)->id != id)
		at = entry(at)->id > id ? at->left : at->right;
	return entry(at);
}

void ck_id_insert(struct id_map *map, struct id_node *node)
{
	struct tree_node *parent = NULL, **link = &map->tree.root;

	while (*link) {
		parent = *link;
		link = entry(parent)->id > node->id ? &parent->left :
						      &parent->right;
	}
	ck_tree_link(&map->tree, &node->tree, parent, link);
	map->count++;
	map->changes++;
}

void ck_id_erase(struct id_map *map, struct id_node *node)
{
	ck_tree_erase(&map->tree, &node->tree);
	map->count--;
	map->changes++;
}

struct id_node *ck_id_first(const struct id_map *map)
{
	return entry(ck_tree_first(&map->tree));
}

struct id_node *ck_id_next(const struct id_node *node)
{
	return entry(ck_tree_next(&node->tree));
}
