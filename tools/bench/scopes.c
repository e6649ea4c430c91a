// SPDX-License-Identifier: GPL-2.0-only
/* What a launch costs: clean, skipped, failing; and a check. */
#include "bench.h"

#include <stdlib.h>

#define BYTES		4096
#define BUFFERS_MAX	16
#define SUBMITTED	64	/* scopes of one submit */

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
	struct capkm_scope_enter enter[SUBMITTED];
	struct capkm_scope_exit exit[SUBMITTED];
	struct capkm_element element[2 * SUBMITTED];
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

static struct capkm_element element(uint32_t nr, const void *arg)
{
	return (struct capkm_element){ .nr = nr, .arg_uptr = (uintptr_t)arg };
}

/* Once: a submit keeps the references. */
static void prepare_submit(struct over *o)
{
	for (uint32_t i = 0; i < SUBMITTED; i++) {
		o->enter[i] = (struct capkm_scope_enter){
			.size = sizeof(o->enter[i]), .place.stream = o->s->where.stream,
			.writes_uptr = (uintptr_t)o->s->clean, .writes_len = o->buffers };
		o->exit[i] = (struct capkm_scope_exit){
			.size = sizeof(o->exit[i]), .scope = CAPKM_REF(2 * i) };
		o->element[2 * i] = element(CAPKM_NR_SCOPE_ENTER, &o->enter[i]);
		o->element[2 * i + 1] = element(CAPKM_NR_SCOPE_EXIT, &o->exit[i]);
	}
}

static void submitted(void *state, uint64_t n)
{
	const struct over *o = state;

	while (n--) {
		uint32_t done = 0;

		TRY(capkm_submit(o->s->c, o->element, ARRAY_SIZE(o->element), &done, NULL, &err));
		if (o->enter[SUBMITTED - 1].out_result != CAPKM_CLEAN)
			die(FAILED, "a scope that reads nothing is %s",
			    capkm_result_name(o->enter[SUBMITTED - 1].out_result));
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
	uint32_t each;
} kinds[] = {
	{ "scope", 1, written, 91 },
	{ "scope", 2, written, 145 },
	{ "scope", 4, written, 253 },
	{ "scope", 16, written },
	{ "scope", 1, submitted, 91, SUBMITTED },
	{ "scope", 2, submitted, 145, SUBMITTED },
	{ "scope", 4, submitted, 253, SUBMITTED },
	{ "scope", 16, submitted, 0, SUBMITTED },
	{ "read one, write one", 2, read_and_written },
	{ "scope, finished work", 2, completed },
	{ "check", 1, checked, 11 },
	{ "skip", 2, skipped, 176 },
	{ "fail and rewrite", 1, failed_and_rewritten, 223 },
};

/* Of a clean scope over two buffers, when it has been done before. Zero for each is the goal. */
static void count_allocations(const struct through *t, struct scopes *s)
{
	struct over o = { .s = s, .buffers = 2 };
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

static struct op op_of(struct over *o, size_t kind, const struct through *t)
{
	o->buffers = kinds[kind].buffers;
	prepare_submit(o);
	return (struct op){
		.operation = kinds[kind].operation, .size = kinds[kind].buffers,
		.through = kinds[kind].each ? t->submit : t->name, .run = kinds[kind].run,
		.state = o, .each = kinds[kind].each, .yardstick = kinds[kind].yardstick,
	};
}

void measure_scopes(void)
{
	const struct through *const *t = throughs();
	const size_t len = throughs_len(), ops_len = len * ARRAY_SIZE(kinds);
	struct scopes *s = allocated(calloc(len, sizeof(*s)));
	struct over *over = allocated(calloc(ops_len, sizeof(*over)));
	struct op ops[ops_len], *op = ops;

	for (size_t i = 0; i < ops_len; i++) {
		const size_t at = i / ARRAY_SIZE(kinds), kind = i % ARRAY_SIZE(kinds);

		if (!kind)
			open_scopes(&s[at], t[at]);
		over[i].s = &s[at];
		if (!kinds[kind].each || t[at]->submit)
			*op++ = op_of(&over[i], kind, t[at]);
	}
	measure("scopes", ops, op - ops);
	for (size_t i = 0; i < len; i++) {
		if (!t[i]->kernel)
			count_allocations(t[i], &s[i]);
		capkm_close(s[i].c);
	}
	free(over);
	free(s);
}
