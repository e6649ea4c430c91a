/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Objects by 64-bit id, in order, so that a dump can go on where it stopped. */
#ifndef CAPKM_ID_MAP_H
#define CAPKM_ID_MAP_H

#include "tree.h"

struct id_node {
	struct tree_node tree;
	u64 id;
};

struct id_map {
	struct tree tree;
	u64 count;
	u64 changes;		/* inserted and erased, so far */
};

/* The node with @id, or NULL. */
struct id_node *ck_id_find(const struct id_map *map, u64 id);
/* The node with the lowest id that is at least @id, or NULL. */
struct id_node *ck_id_from(const struct id_map *map, u64 id);
/* @node->id is set and not in the map. */
void ck_id_insert(struct id_map *map, struct id_node *node);
void ck_id_erase(struct id_map *map, struct id_node *node);
struct id_node *ck_id_first(const struct id_map *map);
struct id_node *ck_id_next(const struct id_node *node);

#define id_entry(node, type, member)					\
	((node) ? container_of(node, type, member) : NULL)

#endif /* CAPKM_ID_MAP_H */
