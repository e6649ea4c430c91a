// SPDX-License-Identifier: GPL-2.0-only
/*
 * The engine's two containers against plain arrays. They are compiled in, so
 * that the test sees the trees themselves.
 */
#include "../kmod/engine/tree.c"
#include "../kmod/engine/stock.c"

#define entry id_entry_of
#include "../kmod/engine/id_map.c"
#undef entry

#define entry span_entry_of
#define search span_search
#include "../kmod/engine/range_map.c"
#undef entry
#undef search

#include "choices.h"
#include "kselftest_harness.h"

void *host_alloc(size_t bytes)
{
	return calloc(1, bytes);
}

void host_free(void *p)
{
	free(p);
}

bool host_check_at(bool ok, const char *what, const char *where)
{
	if (!ok)
		fprintf(stderr, "%s: not so: %s\n", where, what);
	return ok;
}

#define SPANS	400
#define OPS	40000
#define SPACE	1000

static u64 rng_state;

static u64 rng(void)
{
	return choices_next(&rng_state);
}

/* Height of the subtree, or -1 if it is not a balanced tree with parents. */
static int check_tree(const struct tree_node *node,
		      const struct tree_node *parent)
{
	int left, right;

	if (!node)
		return 0;
	left = check_tree(node->left, node);
	right = check_tree(node->right, node);
	if (left < 0 || right < 0 || node->parent != parent ||
	    left - right > 1 || right - left > 1 ||
	    node->height != 1 + (left > right ? left : right))
		return -1;
	return node->height;
}

/* Does the head say what the block has, and its spans that they are there? */
static bool check_block(const struct span *head)
{
	const struct range_block *b = container_of(head, struct range_block, head);
	u64 end = 0, date = U64_MAX;
	u32 i;

	for (i = 0; i < b->n; i++) {
		const struct range_item *e = &b->item[i];
		const struct span *s = e->span;

		if (s->tree.kind != IN_BLOCK || s->tree.parent != &head->tree ||
		    s->start != e->start || s->end != e->end || s->date != e->date ||
		    (i && e[-1].start > e->start))
			return false;
		end = max(end, e->end);
		date = min(date, e->date);
	}
	return b->n > 1 && b->n <= RANGE_BLOCK && head->start == b->item[0].start &&
	       head->end == end && head->date == date;
}

static u32 blocks_in(const struct tree_node *node)
{
	return node ? (node->kind == NODE_BLOCK) + blocks_in(node->left) +
		      blocks_in(node->right) : 0;
}

/* What each node keeps of the ranges below it, counted anew. */
static bool check_kept(const struct tree_node *node, u64 *top, u64 *oldest)
{
	u64 left_top, left_oldest, right_top, right_oldest;
	const struct span *s;

	*top = 0;
	*oldest = U64_MAX;
	if (!node)
		return true;
	s = container_of(node, struct span, tree);
	if (node->kind == NODE_BLOCK && !check_block(s))
		return false;
	if (!check_kept(node->left, &left_top, &left_oldest) ||
	    !check_kept(node->right, &right_top, &right_oldest))
		return false;
	*top = max(s->end, max(left_top, right_top));
	*oldest = min(s->date, min(left_oldest, right_oldest));
	return s->top == *top && s->left_top == left_top && s->oldest == *oldest;
}

struct model {
	struct span span[SPANS];
	bool in[SPANS];
};

static bool touches(const struct span *s, u64 start, u64 end)
{
	return s->start < end && start < s->end;
}

/* Every query over [start, end) against the array. */
static bool check_overlaps(const struct range_map *map, const struct model *m,
			   u64 start, u64 end)
{
	u64 last = 0, n = 0, expect = 0;
	struct span *s;
	int i;

	for (s = ck_range_first(map, start, end); s;
	     s = ck_range_next(s, start, end)) {
		if (!touches(s, start, end) || s->start < last)
			return false;
		last = s->start;
		n++;
	}
	for (i = 0; i < SPANS; i++)
		expect += m->in[i] && start < end &&
			  touches(&m->span[i], start, end);
	return n == expect;
}

/* The same of those from before a date. */
static bool check_older(const struct range_map *map, const struct model *m,
			u64 start, u64 end, u64 before)
{
	u64 n = 0, expect = 0;
	struct span *s;
	int i;

	for (s = ck_range_first_older(map, start, end, before); s;
	     s = ck_range_next_older(s, start, end, before)) {
		if (!touches(s, start, end) || s->date >= before)
			return false;
		n++;
	}
	for (i = 0; i < SPANS; i++)
		expect += m->in[i] && start < end &&
			  touches(&m->span[i], start, end) &&
			  m->span[i].date < before;
	return n == expect;
}

static bool check_from(const struct range_map *map, const struct model *m,
		       u64 start)
{
	struct span *s = ck_range_from(map, start, 0);
	u64 lowest = U64_MAX;
	int i;

	for (i = 0; i < SPANS; i++)
		if (m->in[i] && m->span[i].start >= start)
			lowest = min(lowest, m->span[i].start);
	return s ? s->start == lowest : lowest == U64_MAX;
}

static void change(struct range_map *map, struct model *m, struct stock *st)
{
	int i = rng() % SPANS;
	struct span *s = &m->span[i];

	if (!m->in[i]) {
		s->start = rng() % SPACE;
		s->end = s->start + 1 + rng() % (rng() % 4 ? 8 : SPACE);
		s->date = rng() % SPANS;
		ck_range_insert(map, s, st);
		m->in[i] = true;
	} else if (rng() % 4) {
		ck_range_erase(map, s, rng() % 8 ? st : NULL);
		m->in[i] = false;
	} else if (rng() % 2) {
		ck_range_set_date(map, s, rng() % SPANS);
	} else {
		ck_range_set_end(map, s,
				 s->start + 1 + rng() % (s->end - s->start));
	}
}

/* Now and then there are blocks to spare, and at times for long. */
static void supply(struct stock *st, int op)
{
	const struct need need = { .n[STOCK_BLOCK] = op % 4000 < 2000 || !(rng() % 64) };

	if (!ck_stock_has(st, &need))
		ck_stock_buy(st, &need);
}

/* Overlapping ranges, any order of inserting, erasing and trimming. */
TEST(range_map_against_array)
{
	static struct model m;
	struct range_map map;
	u64 start, end, count, top, oldest;
	u32 most = 0, mixed = 0, blocks;
	struct stock stock;
	int op, i;

	rng_state = 1;
	ck_range_map_init(&map);
	ck_stock_init(&stock);
	for (op = 0; op < OPS; op++) {
		supply(&stock, op);
		change(&map, &m, &stock);
		start = rng() % SPACE;
		end = start + rng() % 40;
		ASSERT_TRUE(check_overlaps(&map, &m, start, end))
			TH_LOG("op %d [%llu, %llu)", op,
			       (unsigned long long)start,
			       (unsigned long long)end);
		ASSERT_TRUE(check_older(&map, &m, start, end, rng() % SPANS))
			TH_LOG("op %d", op);
		ASSERT_TRUE(check_from(&map, &m, start)) TH_LOG("op %d", op);
		ASSERT_TRUE(check_kept(map.tree.root, &top, &oldest))
			TH_LOG("op %d", op);
		ASSERT_LE(0, check_tree(map.tree.root, NULL));
		count = 0;
		for (i = 0; i < SPANS; i++)
			count += m.in[i];
		ASSERT_EQ(count, map.count);
		blocks = blocks_in(map.tree.root);
		most = max(most, blocks);
		mixed += blocks && blocks < count / 4;
	}
	/* Both kinds of nodes were there. */
	ASSERT_LT(10, most);
	ASSERT_LT(OPS / 100, mixed);
	for (i = 0; i < SPANS; i++)
		if (m.in[i])
			ck_range_erase(&map, &m.span[i], &stock);
	ASSERT_EQ(NULL, map.tree.root);
	ck_stock_free(&stock);
}

/* Many of the same range, of which a block may end with one and begin with another. */
TEST(range_map_equal_ranges)
{
	static struct span span[RANGE_MANY * 4];
	const u32 n = ARRAY_SIZE(span);
	const struct need need = { .n[STOCK_BLOCK] = n };
	struct range_map map;
	u64 top, oldest;
	struct stock st;
	u32 i, found;
	struct span *s;

	ck_range_map_init(&map);
	ck_stock_init(&st);
	ASSERT_EQ(0, ck_stock_buy(&st, &need));
	for (i = 0; i < n; i++) {
		span[i] = (struct span){ .start = 5, .end = 9 + i % 3 / 2, .date = i };
		ck_range_insert(&map, &span[i], &st);
		ASSERT_TRUE(check_kept(map.tree.root, &top, &oldest)) TH_LOG("%u", i);
		if (i % 5 == 4)
			ck_range_set_end(&map, &span[i - 2], 8);
	}
	for (i = 0; i < n; i++) {
		found = 0;
		for (s = ck_range_first(&map, 7, 8); s; s = ck_range_next(s, 7, 8))
			found++;
		ASSERT_EQ(n - i, found);
		ck_range_erase(&map, &span[i * 7 % n], &st);
		ASSERT_TRUE(check_kept(map.tree.root, &top, &oldest)) TH_LOG("%u", i);
	}
	ck_stock_free(&st);
}

/* The whole and the empty range, and positions at the end of 64 bits. */
TEST(range_map_edges)
{
	struct span a = { .start = 0, .end = U64_MAX };
	struct span b = { .start = U64_MAX - 1, .end = U64_MAX };
	struct range_map map;

	ck_range_map_init(&map);
	ASSERT_EQ(NULL, ck_range_first(&map, 0, U64_MAX));
	ck_range_insert(&map, &a, NULL);
	ck_range_insert(&map, &b, NULL);
	ASSERT_EQ(&a, ck_range_first(&map, 0, 1));
	ASSERT_EQ(NULL, ck_range_next(&a, 0, 1));
	ASSERT_EQ(&a, ck_range_first(&map, U64_MAX - 1, U64_MAX));
	ASSERT_EQ(&b, ck_range_next(&a, U64_MAX - 1, U64_MAX));
	ASSERT_EQ(NULL, ck_range_first(&map, 7, 7));
	ASSERT_EQ(&b, ck_range_find(&map, U64_MAX - 1, U64_MAX));
	ASSERT_EQ(NULL, ck_range_find(&map, 0, 1));
}

/* Ids in rising order, as they are minted, and in any order of leaving. */
TEST(id_map_against_array)
{
	static struct id_node node[SPANS];
	bool in[SPANS] = {};
	struct id_map map = {};
	struct id_node *found;
	int op, i, j;

	rng_state = 2;
	for (i = 0; i < SPANS; i++)
		node[i].id = 3 * i + 1;
	for (op = 0; op < OPS; op++) {
		i = rng() % SPANS;
		if (in[i])
			ck_id_erase(&map, &node[i]);
		else
			ck_id_insert(&map, &node[i]);
		in[i] = !in[i];
		ASSERT_LE(0, check_tree(map.tree.root, NULL));
		i = rng() % SPANS;
		ASSERT_EQ(in[i] ? &node[i] : NULL, ck_id_find(&map, 3 * i + 1));
		ASSERT_EQ(NULL, ck_id_find(&map, 3 * i + 2));
		for (j = i; j < SPANS && !in[j]; j++)
			;
		found = ck_id_from(&map, 3 * i);
		ASSERT_EQ(j < SPANS ? &node[j] : NULL, found);
		if (found && ck_id_next(found))
			ASSERT_LT(found->id, ck_id_next(found)->id);
	}
}

TEST_HARNESS_MAIN
