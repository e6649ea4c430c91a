// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory that is bought before the lock is taken, so that what must not fail
 * under it cannot. In steady state a scope takes its objects from its session's
 * stock and gives them back.
 */
#include "internal.h"

/* Of each kind, at most so many are kept for later. */
#define STOCK_KEEP	64u

/* What is asked of the host, and how much of it is zeroed when it is taken. */
static const struct {
	size_t all, zeroed;
} sizes[STOCK_KINDS] = {
#define WHOLE(type)	{ sizeof(type), sizeof(type) }
	[STOCK_CLAIM] = WHOLE(struct claim),
	[STOCK_CARRIER] = WHOLE(struct carrier),
	[STOCK_FAILURE] = { sizeof(struct failure), offsetof(struct failure, text) + 1 },
	[STOCK_SCOPE] = WHOLE(struct scope),
	[STOCK_USE] = WHOLE(struct use),
	[STOCK_SKIP] = { sizeof(struct skip), offsetof(struct skip, produced) },
	[STOCK_NOTE] = WHOLE(struct note),
};

/* What a free object is, whatever it was and will be. */
struct spare {
	struct spare *next;
};

void ck_stock_init(struct stock *st)
{
	memset(st, 0, sizeof(*st));
}

static void put(struct stock *st, enum stock_kind kind, void *object)
{
	struct spare *spare = object;

	spare->next = st->free[kind];
	st->free[kind] = spare;
	st->n[kind]++;
}

static void *get(struct stock *st, enum stock_kind kind)
{
	struct spare *spare = st->free[kind];

	st->free[kind] = spare->next;
	st->n[kind]--;
	return spare;
}

static u64 unpromised(const struct stock *st, int kind)
{
	return st->n[kind] - st->promised[kind];
}

bool ck_stock_free_some(struct stock *st, u32 most)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		for (; st->n[kind]; most--) {
			if (!most)
				return false;
			host_free(get(st, kind));
		}
	return true;
}

/* What is promised stays, and @keep more. */
static void free_down_to(struct stock *st, u64 keep)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		while (unpromised(st, kind) > keep) {
			host_free(get(st, kind));
			if (!(st->n[kind] % 4096))
				host_relax();
		}
}

void ck_stock_free(struct stock *st)
{
	free_down_to(st, 0);
}

bool ck_stock_has(const struct stock *st, const struct need *need)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		if (unpromised(st, kind) < need->n[kind])
			return false;
	return true;
}

void ck_stock_promise(struct stock *st, const struct need *need)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++) {
		st->promised[kind] += need->n[kind];
		host_check(st->promised[kind] <= st->n[kind]);
	}
}

void ck_stock_release(struct stock *st, const struct need *need)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		st->promised[kind] -= need->n[kind];
}

void ck_stock_promise_rest(struct stock *st, struct need *need,
			   const struct need *before)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		need->n[kind] -= before->n[kind] - st->n[kind];
	ck_stock_promise(st, need);
}

struct need ck_stock_all(const struct stock *st)
{
	struct need all;

	memcpy(all.n, st->n, sizeof(all.n));
	return all;
}

struct need ck_stock_lack(const struct stock *st, const struct need *need)
{
	struct need lack;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		lack.n[kind] = need->n[kind] > unpromised(st, kind) ?
			need->n[kind] - unpromised(st, kind) : 0;
	return lack;
}

int ck_stock_buy(struct stock *st, const struct need *need)
{
	void *object;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++) {
		while (st->n[kind] < need->n[kind]) {
			object = host_alloc(sizes[kind].all);
			if (!object)
				return -ENOMEM;
			put(st, kind, object);
			if (!(st->n[kind] % 4096))
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
		host_check(from->n[kind] >= need->n[kind]);
		for (i = 0; i < need->n[kind]; i++)
			put(to, kind, get(from, kind));
	}
}

void ck_stock_move_all(struct stock *to, struct stock *from)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		while (from->n[kind])
			put(to, kind, get(from, kind));
}

void *ck_stock_take(struct stock *st, enum stock_kind kind)
{
	void *object;

	/* Too little was bought: a bug in the sums, and no way back. */
	host_check(st->n[kind]);
	object = get(st, kind);
	memset(object, 0, sizes[kind].zeroed);
	return object;
}

void ck_stock_give(struct stock *st, enum stock_kind kind, void *object)
{
	if (st)
		put(st, kind, object);
	else
		host_free(object);
}

void ck_stock_trim(struct stock *st)
{
	free_down_to(st, STOCK_KEEP);
}
