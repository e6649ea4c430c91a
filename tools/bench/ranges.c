// SPDX-License-Identifier: GPL-2.0-only
/*
 * Partial writes into a buffer with many disjoint failed ranges. Region i of STRIDE bytes is
 * stale in its first half and clean in its second.
 */
#include "bench.h"

#include <stdlib.h>

#define STRIDE	16u
#define STALE	8u
#define BATCH	64u
/* A prime, about the golden section of a million: regions that follow are far apart. */
#define STEP	611953u

struct ranges {
	struct capkm *c;
	struct capkm_where where;
	uint64_t buffer, n, failure;
	struct capkm_claim claim[BATCH];	/* of this batch, each region once */
};

static struct capkm_claim region(const struct ranges *r, uint64_t i)
{
	return (struct capkm_claim){
		.buffer = r->buffer, .start = i * STRIDE, .end = i * STRIDE + STALE };
}

static void make_stale(struct ranges *r, const struct capkm_claim *claims, uint32_t len)
{
	TRY(capkm_taint_with(r->c, claims, len, 0, r->failure, &err));
}

static void open_ranges(struct ranges *r, const struct through *t, uint64_t n)
{
	struct capkm_claim claims[CAPKM_CLAIMS_MAX], first;
	uint32_t len = 0;

	*r = (struct ranges){ .n = n, .where = { .stream = 1 } };
	r->c = open_domain(t, 2 * n + 65536, 0);
	r->buffer = buffer(r->c, n * STRIDE);
	first = region(r, 0);
	r->failure = taint(r->c, &first);
	for (uint64_t i = 1; i < n; i++) {
		claims[len++] = region(r, i);
		if (len == ARRAY_SIZE(claims) || i == n - 1) {
			make_stale(r, claims, len);
			len = 0;
		}
	}
}

static void choose_stale(void *state, uint64_t n)
{
	struct ranges *r = state;
	const uint64_t first = random_below(r->n);

	for (uint64_t i = 0; i < n; i++)
		r->claim[i] = region(r, (first + i * STEP) % r->n);
}

static void choose_clean(void *state, uint64_t n)
{
	struct ranges *r = state;

	choose_stale(r, n);
	for (uint64_t i = 0; i < n; i++) {
		r->claim[i].start = r->claim[i].end;
		r->claim[i].end += STRIDE / 4;
	}
}

static void write_each(void *state, uint64_t n)
{
	struct ranges *r = state;

	for (uint64_t i = 0; i < n; i++)
		write_scope(r->c, &r->where, &r->claim[i], 1);
}

static void check_each(void *state, uint64_t n)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct ranges *r = state;

	for (uint64_t i = 0; i < n; i++) {
		TRY(capkm_check(r->c, &r->claim[i], 1, &answer, &err));
		if (answer.out_result != CAPKM_CLEAN)
			die(FAILED, "the clean half of a region is %s",
			    capkm_result_name(answer.out_result));
	}
}

static void make_stale_again(void *state, uint64_t n)
{
	struct ranges *r = state;

	make_stale(r, r->claim, n);
}

/* The yardstick has two points of the scope over stale bytes. */
static double yardstick(uint64_t n)
{
	return n == 1000 ? 3200 : n == 100000 ? 315000 : 0;
}

static size_t add_ops(struct op *ops, const struct through *t, struct ranges *r)
{
	/* So that what is left is about as many as it is said to be. */
	const uint64_t most = r->n / 4 < BATCH ? r->n / 4 : BATCH;

	ops[0] = (struct op){ .operation = "write stale bytes", .before = choose_stale,
		.run = write_each, .after = make_stale_again, .yardstick = yardstick(r->n) };
	ops[1] = (struct op){ .operation = "write between", .before = choose_clean,
		.run = write_each };
	ops[2] = (struct op){ .operation = "check between", .before = choose_clean,
		.run = check_each };
	for (int i = 0; i < 3; i++) {
		ops[i].through = t->name;
		ops[i].size = r->n;
		ops[i].state = r;
		ops[i].most = most;
	}
	return 3;
}

void measure_ranges(void)
{
	const struct through *const *t = throughs();
	uint64_t sizes[SIZES_MAX];
	const size_t len = sizes_from(10, sizes), n = len * throughs_len();
	struct ranges *r = allocated(calloc(n, sizeof(*r)));
	struct op ops[3 * n], *op = ops;

	for (size_t i = 0; i < n; i++) {
		open_ranges(&r[i], t[i / len], sizes[i % len]);
		op += add_ops(op, t[i / len], &r[i]);
	}
	measure("ranges", ops, op - ops);
	for (size_t i = 0; i < n; i++)
		capkm_close(r[i].c);
	free(r);
}
