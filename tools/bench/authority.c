// SPDX-License-Identifier: GPL-2.0-only
/* Handles, domains, buffers, scopes, as the groups need them. */
#include "bench.h"

#include <stdlib.h>

static const struct through all[] = {
	{ .name = "embedded", .submit = "embedded, submit", .path = "embedded:" },
	{ .name = "embedded, fast", .path = "embedded:", .fast = true },
	{ .name = "ioctl", .submit = "ioctl, submit", .path = "/dev/capkm", .kernel = true },
	{ .name = "ioctl, fast", .path = "/dev/capkm", .kernel = true, .fast = true },
};

const struct through *const *throughs(void)
{
	static const struct through *chosen[ARRAY_SIZE(all) + 1];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].kernel ? options.kernel : options.embedded)
			chosen[n++] = &all[i];
	chosen[n] = NULL;
	return chosen;
}

size_t throughs_len(void)
{
	size_t n = 0;

	while (throughs()[n])
		n++;
	return n;
}

struct capkm *open_handle(const struct through *t)
{
	struct capkm *c;

	TRY(capkm_open(t->path, NULL, &c, &err));
	capkm_fast_path(c, t->fast);
	return c;
}

/* Raised only if it is lower, which an administrator may. */
static void want_limit(struct capkm *c, struct capkm_domain_opts *opts,
		       struct capkm_limit_value *values, uint32_t limit, uint64_t value)
{
	uint64_t is;

	TRY(capkm_limit(c, limit, &is, &err));
	if (is < value)
		values[opts->limits_len++] = (struct capkm_limit_value){
			.limit = limit, .value = value };
}

struct capkm *open_domain(const struct through *t, uint64_t ranges, uint64_t buffers)
{
	struct capkm_limit_value values[2];
	struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.backend = CAPKM_BACKEND_SOFTWARE, .limits = values);
	struct capkm *c = open_handle(t);

	want_limit(c, &opts, values, CAPKM_LIMIT_RANGES, ranges);
	want_limit(c, &opts, values, CAPKM_LIMIT_BUFFERS, buffers);
	TRY(capkm_domain_create(c, NULL, &opts, &err));
	return c;
}

uint64_t buffer(struct capkm *c, uint64_t bytes)
{
	uint64_t id;

	TRY(capkm_buffer_create(c, bytes, NULL, &id, &err));
	return id;
}

uint64_t taint(struct capkm *c, const struct capkm_claim *claim)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .text = "tainted");
	uint64_t failure;

	TRY(capkm_taint(c, claim, 1, 0, &cause, &failure, &err));
	return failure;
}

static void enter(struct capkm *c, const struct capkm_where *where,
		  const struct capkm_claim *writes, uint32_t len, struct capkm_scope *scope)
{
	TRY(capkm_scope_enter(c, where, NULL, 0, writes, len, NULL, scope, NULL, &err));
	if (scope->result != CAPKM_CLEAN)
		die(FAILED, "a scope that reads nothing is %s", capkm_result_name(scope->result));
}

void write_scope(struct capkm *c, const struct capkm_where *where,
		 const struct capkm_claim *writes, uint32_t len)
{
	struct capkm_scope scope;

	enter(c, where, writes, len, &scope);
	TRY(capkm_scope_exit(c, &scope, 0, &err));
}

void fail_scope(struct capkm *c, const struct capkm_where *where,
		const struct capkm_claim *write)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.code = 700, .text = "the launch failed");
	struct capkm_scope scope;

	enter(c, where, write, 1, &scope);
	TRY(capkm_scope_fail(c, &scope, &cause, &err));
}

uint64_t random_below(uint64_t n)
{
	static uint64_t x = 0x9e3779b97f4a7c15;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x % n;
}

size_t sizes_from(uint64_t first, uint64_t sizes[SIZES_MAX])
{
	size_t n = 0;

	for (uint64_t size = first; n < SIZES_MAX && size <= options.most; size *= 10)
		sizes[n++] = size;
	return n;
}
