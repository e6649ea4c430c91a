/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Half-open ranges, which may overlap, ordered by their start. Each node knows
 * the highest end and the earliest date below it, so the ranges that touch a
 * given one, or of these the ones from before a date, are found without looking
 * at the others.
 */
#ifndef CAPKM_RANGE_MAP_H
#define CAPKM_RANGE_MAP_H

#include "tree.h"

struct span {
	struct tree_node tree;
	u64 start;
	u64 end;
	u64 top;		/* highest end in the subtree */
	u64 left_top;		/* and in the left half of it */
	u64 date;
	u64 oldest;		/* lowest date in the subtree */
};

struct range_map {
	struct tree tree;
	u64 count;
};

void ck_range_map_init(struct range_map *map);
/* The lowest date, U64_MAX if there is none. */
static inline u64 ck_range_oldest(const struct range_map *map)
{
	const struct tree_node *root = map->tree.root;

	return root ? container_of(root, struct span, tree)->oldest : U64_MAX;
}

void ck_range_insert(struct range_map *map, struct span *s);
void ck_range_erase(struct range_map *map, struct span *s);
/* Moves the end; to move the start, erase and insert. */
void ck_range_set_end(struct range_map *map, struct span *s, u64 end);
void ck_range_set_date(struct range_map *map, struct span *s, u64 date);
/* In order of start: the first, and the next, that shares a byte with [start, end). */
struct span *ck_range_look(const struct range_map *map, u64 start, u64 end);
static inline struct span *ck_range_first(const struct range_map *map,
					  u64 start, u64 end)
{
	return map->count ? ck_range_look(map, start, end) : NULL;
}

struct span *ck_range_next(const struct span *s, u64 start, u64 end);
/* The same, of those with a date below @before. */
struct span *ck_range_look_older(const struct range_map *map, u64 start,
				 u64 end, u64 before);
static inline struct span *ck_range_first_older(const struct range_map *map,
						u64 start, u64 end, u64 before)
{
	return ck_range_oldest(map) < before ?
	       ck_range_look_older(map, start, end, before) : NULL;
}

struct span *ck_range_next_older(const struct span *s, u64 start, u64 end,
				 u64 before);
/* The range [start, end) itself, or NULL. */
struct span *ck_range_find(const struct range_map *map, u64 start, u64 end);
/* The first in order of (start, end) that is not below the given pair. */
struct span *ck_range_from(const struct range_map *map, u64 start, u64 end);

/* The next in order of start, whatever its bytes. */
struct span *ck_range_after(const struct span *s);

#define range_for_each(s, map)						\
	for ((s) = ck_range_from(map, 0, 0); (s); (s) = ck_range_after(s))

#endif /* CAPKM_RANGE_MAP_H */
