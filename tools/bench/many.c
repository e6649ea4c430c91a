// SPDX-License-Identifier: GPL-2.0-only
/* Sessions with many buffers, and domains with many failures. */
#include "bench.h"

#include <stdlib.h>

#define BYTES	4096u
#define STRIDE	16u
#define STALE	8u

struct many {
	struct capkm *c;
	struct capkm_where where;
	uint64_t n;
	uint64_t *buffer;		/* all of them */
	struct capkm_claim failed;	/* all failures are in this buffer */
	struct capkm_claim other;
};

static struct capkm_claim whole(uint64_t buffer)
{
	return (struct capkm_claim){ .buffer = buffer, .end = BYTES };
}

static void for_each(const char *group, const struct op *kinds, size_t kinds_len,
		     void (*begin)(struct many *m, const struct through *t, uint64_t n))
{
	const struct through *const *t = throughs();
	uint64_t sizes[SIZES_MAX];
	const size_t len = sizes_from(1000, sizes), n = len * throughs_len();
	struct many *m = allocated(calloc(n, sizeof(*m)));
	struct op ops[kinds_len * n];

	for (size_t i = 0; i < n; i++) {
		m[i].n = sizes[i % len];
		m[i].where.stream = 1;
		begin(&m[i], t[i / len], m[i].n);
		for (size_t k = 0; k < kinds_len; k++) {
			struct op *op = &ops[i * kinds_len + k];

			*op = kinds[k];
			op->through = t[i / len]->name;
			op->size = m[i].n;
			op->state = &m[i];
		}
	}
	measure(group, ops, kinds_len * n);
	for (size_t i = 0; i < n; i++) {
		capkm_close(m[i].c);
		free(m[i].buffer);
	}
	free(m);
}

/* buffers */

static void make_buffers(struct many *m, const struct through *t, uint64_t n)
{
	m->c = open_domain(t, 0, n + 1);
	m->buffer = allocated(calloc(n, sizeof(*m->buffer)));
	for (uint64_t i = 0; i < n; i++)
		m->buffer[i] = buffer(m->c, BYTES);
}

static void write_two(void *state, uint64_t n)
{
	struct many *m = state;

	while (n--) {
		const uint64_t i = random_below(m->n - 1);
		const struct capkm_claim claims[] = { whole(m->buffer[i]),
						      whole(m->buffer[i + 1]) };

		write_scope(m->c, &m->where, claims, ARRAY_SIZE(claims));
	}
}

static void check_one(void *state, uint64_t n)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct many *m = state;

	while (n--) {
		const struct capkm_claim claim = whole(m->buffer[random_below(m->n)]);

		TRY(capkm_check(m->c, &claim, 1, &answer, &err));
	}
}

static void create_and_close(void *state, uint64_t n)
{
	struct many *m = state;

	while (n--)
		TRY(capkm_buffer_close(m->c, buffer(m->c, BYTES), &err));
}

void measure_buffers(void)
{
	static const struct op kinds[] = {
		{ .operation = "scope over two", .run = write_two },
		{ .operation = "check", .run = check_one },
		{ .operation = "create and close", .run = create_and_close },
	};

	for_each("buffers", kinds, ARRAY_SIZE(kinds), make_buffers);
}

/* failures */

static struct capkm_claim failed_range(const struct many *m, uint64_t i)
{
	struct capkm_claim claim = m->failed;

	claim.start = i * STRIDE;
	claim.end = claim.start + STALE;
	return claim;
}

static void make_failures(struct many *m, const struct through *t, uint64_t n)
{
	m->c = open_domain(t, 2 * n + 65536, 0);
	m->failed.buffer = buffer(m->c, n * STRIDE);
	m->other = whole(buffer(m->c, BYTES));
	for (uint64_t i = 0; i < n; i++) {
		const struct capkm_claim claim = failed_range(m, i);

		fail_scope(m->c, &m->where, &claim);
	}
}

static void fail_and_rewrite(void *state, uint64_t n)
{
	struct many *m = state;

	while (n--) {
		fail_scope(m->c, &m->where, &m->other);
		write_scope(m->c, &m->where, &m->other, 1);
	}
}

/* The failure goes, and another one comes. */
static void rewrite_and_fail(void *state, uint64_t n)
{
	struct many *m = state;

	while (n--) {
		const struct capkm_claim claim = failed_range(m, random_below(m->n));

		write_scope(m->c, &m->where, &claim, 1);
		fail_scope(m->c, &m->where, &claim);
	}
}

/* The output carries another failure each time. */
static void skip(void *state, uint64_t n)
{
	struct many *m = state;
	struct capkm_scope scope;

	while (n--) {
		const struct capkm_claim claim = failed_range(m, random_below(m->n));

		TRY(capkm_scope_enter(m->c, &m->where, &claim, 1, &m->other, 1, NULL, &scope,
				      NULL, &err));
		if (scope.result != CAPKM_SKIPPED)
			die(FAILED, "a scope over tainted input is %s",
			    capkm_result_name(scope.result));
	}
}

static void clean_other(void *state, uint64_t n)
{
	struct many *m = state;

	(void)n;
	TRY(capkm_written(m->c, &m->other, 1, &err));
}

void measure_failures(void)
{
	static const struct op kinds[] = {
		{ .operation = "fail and rewrite another", .run = fail_and_rewrite },
		{ .operation = "rewrite and fail one", .run = rewrite_and_fail },
		{ .operation = "skip for one", .run = skip, .after = clean_other },
	};

	for_each("failures", kinds, ARRAY_SIZE(kinds), make_failures);
}
