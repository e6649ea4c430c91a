// SPDX-License-Identifier: GPL-2.0-only
/* What a launch costs: clean, skipped, failing; and a check. */
#include "bench.h"

#include <stdlib.h>

#define BYTES		4096
#define BUFFERS_MAX	16

struct scopes {
	struct capkm *c;
	struct capkm_where where;
	struct capkm_claim clean[BUFFERS_MAX];
	struct capkm_claim tainted, skipped, failing;
};

/* The same operations over another number of buffers. */
struct over {
	struct scopes *s;
	uint32_t buffers;
};

static struct capkm_claim whole_buffer(struct capkm *c)
{
	return (struct capkm_claim){ .buffer = buffer(c, BYTES), .end = BYTES };
}

static void open_scopes(struct scopes *s, const struct through *t)
{
	*s = (struct scopes){ .c = open_domain(t, 0, 0), .where = { .stream = 1 } };
	for (int i = 0; i < BUFFERS_MAX; i++)
		s->clean[i] = whole_buffer(s->c);
	s->tainted = whole_buffer(s->c);
	s->skipped = whole_buffer(s->c);
	s->failing = whole_buffer(s->c);
	taint(s->c, &s->tainted);
}

static void written(void *state, uint64_t n)
{
	const struct over *o = state;

	while (n--)
		write_scope(o->s->c, &o->s->where, o->s->clean, o->buffers);
}

/* Left with the word that the work is finished, as host work is. */
static void completed(void *state, uint64_t n)
{
	const struct over *o = state;
	const struct scopes *s = o->s;
	struct capkm_scope scope;

	while (n--) {
		TRY(capkm_scope_enter(s->c, &s->where, NULL, 0, s->clean, o->buffers, NULL, &scope,
				      NULL, &err));
		TRY(capkm_scope_exit(s->c, &scope, CAPKM_SCOPE_EXIT_F_COMPLETE, &err));
	}
}

/* Of two buffers one is read. */
static void read_and_written(void *state, uint64_t n)
{
	const struct over *o = state;
	const struct scopes *s = o->s;
	struct capkm_scope scope;

	while (n--) {
		TRY(capkm_scope_enter(s->c, &s->where, &s->clean[0], 1, &s->clean[1], 1, NULL,
				      &scope, NULL, &err));
		TRY(capkm_scope_exit(s->c, &scope, 0, &err));
	}
}

static void checked(void *state, uint64_t n)
{
	const struct over *o = state;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);

	while (n--) {
		TRY(capkm_check(o->s->c, &o->s->clean[0], 1, &answer, &err));
		if (answer.out_result != CAPKM_CLEAN)
			die(FAILED, "a clean buffer is %s", capkm_result_name(answer.out_result));
	}
}

static void skipped(void *state, uint64_t n)
{
	const struct over *o = state;
	const struct scopes *s = o->s;
	struct capkm_scope scope;

	while (n--) {
		TRY(capkm_scope_enter(s->c, &s->where, &s->tainted, 1, &s->skipped, 1, NULL,
				      &scope, NULL, &err));
		if (scope.result != CAPKM_SKIPPED)
			die(FAILED, "a scope over tainted input is %s",
			    capkm_result_name(scope.result));
	}
}

static void failed_and_rewritten(void *state, uint64_t n)
{
	const struct over *o = state;

	while (n--) {
		fail_scope(o->s->c, &o->s->where, &o->s->failing);
		write_scope(o->s->c, &o->s->where, &o->s->failing, 1);
	}
}

static const struct {
	const char *operation;
	uint32_t buffers;
	void (*run)(void *state, uint64_t n);
	double yardstick;
} kinds[] = {
	{ "scope", 1, written, 91 },
	{ "scope", 2, written, 145 },
	{ "scope", 4, written, 253 },
	{ "scope", 16, written, 0 },
	{ "read one, write one", 2, read_and_written, 0 },
	{ "scope, finished work", 2, completed, 0 },
	{ "check", 1, checked, 11 },
	{ "skip", 2, skipped, 176 },
	{ "fail and rewrite", 1, failed_and_rewritten, 223 },
};

/* Of a clean scope over two buffers, when it has been done before. Zero for each is the goal. */
static void count_allocations(const struct through *t, struct scopes *s)
{
	struct over o = { s, 2 };
	double count[LEAST_SAMPLES];

	for (size_t i = 0; i < ARRAY_SIZE(count); i++) {
		const uint64_t before = allocations();

		written(&o, 1000);
		count[i] = (allocations() - before) / 1000.;
	}
	add_result((struct result){ .group = "scopes", .operation = "scope allocates",
		.through = t->name, .size = 2, .unit = ALLOCATIONS, .batch = 1000 },
		count, ARRAY_SIZE(count));
}

void measure_scopes(void)
{
	const struct through *const *t = throughs();
	const size_t len = throughs_len();
	struct scopes s[len];
	struct over over[len][ARRAY_SIZE(kinds)];
	struct op ops[len * ARRAY_SIZE(kinds)], *op = ops;

	for (size_t i = 0; i < len; i++) {
		open_scopes(&s[i], t[i]);
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			over[i][k] = (struct over){ &s[i], kinds[k].buffers };
			*op++ = (struct op){
				.operation = kinds[k].operation, .through = t[i]->name,
				.size = kinds[k].buffers, .run = kinds[k].run,
				.state = &over[i][k], .yardstick = kinds[k].yardstick,
			};
		}
	}
	measure("scopes", ops, op - ops);
	for (size_t i = 0; i < len; i++) {
		if (!t[i]->kernel)
			count_allocations(t[i], &s[i]);
		capkm_close(s[i].c);
	}
}
