/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Half-open ranges, which may overlap, ordered by their start. Each node knows
 * the highest end and the earliest date below it, so the ranges that touch a
 * given one, or of these the ones from before a date, are found without looking
 * at the others.
 *
 * A node is a range or, where there are many, a block of ranges that follow each
 * other: a tree of blocks has fewer levels, and all that is looked at in a block lies
 * together. Blocks are taken from a stock that has some to spare and go back there. No
 * range needs one: where there is none it is a node of its own.
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

/* So that a block is 512 bytes. */
#define RANGE_BLOCK	13u
/* From so many ranges on a map makes blocks: in tests of sanitizers from few on. */
#ifdef CAPKM_DEBUG
#define RANGE_MANY	3u
#else
#define RANGE_MANY	64u
#endif

struct range_block {
	struct span head;	/* in the tree, for all of them: first start, highest end */
	u32 n;
	struct range_item {
		u64 start, end, date;		/* of the span, so that it is not touched */
		struct span *span;
	} item[RANGE_BLOCK];
};

struct stock;

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

/* @st: with blocks that are not promised, or not; or NULL. */
void ck_range_insert(struct range_map *map, struct span *s, struct stock *st);
/* @st: gets a block that is not needed any more; or NULL: it is freed. */
void ck_range_erase(struct range_map *map, struct span *s, struct stock *st);
/* Moves the end; to move the start, erase and insert. */
void ck_range_set_end(struct range_map *map, struct span *s, u64 end);
void ck_range_set_date(struct range_map *map, struct span *s, u64 date);
/* In order of start: the first, and the next, that shares a byte with [start, end). */
struct span *ck_range_look(const struct range_map *map, u64 start, u64 end);
static inline struct span *ck_range_first(const struct range_map *map,
					  u64 start, u64 end)
{
	return map->count && start < end ? ck_range_look(map, start, end) : NULL;
}

struct span *ck_range_next(const struct span *s, u64 start, u64 end);
/* The same of those that begin before @at and end behind it. */
static inline struct span *ck_range_first_over(const struct range_map *map, u64 at)
{
	return ck_range_look(map, at, at);
}

static inline struct span *ck_range_next_over(const struct span *s, u64 at)
{
	return ck_range_next(s, at, at);
}

/* The same, of those with a date below @before. */
struct span *ck_range_look_older(const struct range_map *map, u64 start,
				 u64 end, u64 before);
static inline struct span *ck_range_first_older(const struct range_map *map,
						u64 start, u64 end, u64 before)
{
	return ck_range_oldest(map) < before && start < end ?
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
