// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory that is bought before the lock is taken, so that what must not fail
 * under it cannot. In steady state a scope takes its objects from its session's
 * stock and gives them back.
 */
#include "internal.h"

/* What is asked of the host. */
static const size_t sizes[STOCK_KINDS] = {
	[STOCK_CLAIM] = sizeof(struct claim),
	[STOCK_CARRIER] = sizeof(struct carrier),
	[STOCK_FAILURE] = sizeof(struct failure),
	[STOCK_SCOPE] = sizeof(struct scope),
	[STOCK_USE] = sizeof(struct use),
	[STOCK_SKIP] = sizeof(struct skip),
	[STOCK_NOTE] = sizeof(struct note),
	[STOCK_BLOCK] = sizeof(struct range_block),
};

const size_t ck_stock_zeroed[STOCK_KINDS] = {
	[STOCK_CLAIM] = sizeof(struct claim),
	[STOCK_CARRIER] = sizeof(struct carrier),
	[STOCK_FAILURE] = offsetof(struct failure, text) + 1,
	[STOCK_SCOPE] = sizeof(struct scope),
	[STOCK_USE] = sizeof(struct use),
	[STOCK_SKIP] = offsetof(struct skip, produced),
	[STOCK_NOTE] = sizeof(struct note),
};

void ck_stock_init(struct stock *st)
{
	memset(st, 0, sizeof(*st));
}

bool ck_stock_free_some(struct stock *st, u32 most)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		for (; st->free[kind]; most--) {
			if (!most)
				return false;
			host_free(ck_stock_get(st, kind));
		}
	return true;
}

/* What is promised stays, and @keep more. */
static void free_down_to(struct stock *st, int kind, u64 keep)
{
	while (st->spare.n[kind] > keep) {
		host_free(ck_stock_get(st, kind));
		if (!(st->spare.n[kind] % 4096))
			host_relax();
	}
}

void ck_stock_free(struct stock *st)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		free_down_to(st, kind, 0);
}

void ck_stock_free_excess(struct stock *st)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		free_down_to(st, kind, STOCK_KEEP);
	st->excess = false;
}

struct need ck_stock_lack(const struct stock *st, const struct need *need)
{
	struct need lack;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		lack.n[kind] = need->n[kind] - min(need->n[kind], st->spare.n[kind]);
	return lack;
}

int ck_stock_buy(struct stock *st, const struct need *need)
{
	void *object;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++) {
		while (st->spare.n[kind] < need->n[kind]) {
			object = host_alloc(sizes[kind]);
			if (!object)
				return -ENOMEM;
			ck_stock_put(st, kind, object);
			if (!(st->spare.n[kind] % 4096))
				host_relax();
		}
	}
	return 0;
}

void ck_stock_move(struct stock *to, struct stock *from,
		   const struct need *need)
{
	int kind;
	u64 i;

	for (kind = 0; kind < STOCK_KINDS; kind++) {
		host_check(from->spare.n[kind] >= need->n[kind]);
		for (i = 0; i < need->n[kind]; i++)
			ck_stock_put(to, kind, ck_stock_get(from, kind));
	}
}

void ck_stock_move_all(struct stock *to, struct stock *from)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		while (from->free[kind])
			ck_stock_put(to, kind, ck_stock_get(from, kind));
}
