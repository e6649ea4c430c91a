// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a session with many buffers, clean or each with a failure; and how long another
 * session of the domain has to wait meanwhile.
 */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define BYTES	4096u

static void fill(struct capkm *c, uint64_t n, bool failed)
{
	const struct capkm_where where = { .stream = 1 };

	for (uint64_t i = 0; i < n; i++) {
		const struct capkm_claim claim = { .buffer = buffer(c, BYTES), .end = BYTES };

		if (failed)
			fail_scope(c, &where, &claim);
	}
}

/* The other session, which changes something all the time. */
struct other {
	struct capkm *c;
	struct capkm_claim claim;
	_Atomic bool works, stop;
	double longest;
};

static void *busy(void *arg)
{
	struct other *o = arg;

	while (!o->stop) {
		const double start = now();
		double spent;

		TRY(capkm_written(o->c, &o->claim, 1, &err));
		spent = now() - start;
		if (o->works && spent > o->longest)
			o->longest = spent;
		o->works = true;
	}
	return NULL;
}

/* The longest that the other session waited for an answer. */
static double wait_of_other(const struct through *t, uint64_t n)
{
	struct other o = { .c = open_domain(t, 2 * n + 65536, n) };
	const struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.domain = capkm_domain_id(o.c));
	struct capkm *c = open_handle(t);
	pthread_t thread;

	TRY(capkm_domain_attach(c, NULL, &opts, &err));
	fill(c, n, true);
	o.claim = (struct capkm_claim){ .buffer = buffer(o.c, BYTES), .end = BYTES };
	if (pthread_create(&thread, NULL, busy, &o))
		die(FAILED, "there is no thread");
	while (!o.works)
		;
	capkm_close(c);
	o.stop = true;
	pthread_join(thread, NULL);
	capkm_close(o.c);
	return o.longest;
}

static double time_to_close(const struct through *t, uint64_t n, bool failed)
{
	struct capkm *c = open_domain(t, 2 * n + 65536, n);
	double start;

	fill(c, n, failed);
	start = now();
	capkm_close(c);
	return now() - start;
}

static double close_clean(const struct through *t, uint64_t n)
{
	return time_to_close(t, n, false);
}

static double close_failed(const struct through *t, uint64_t n)
{
	return time_to_close(t, n, true);
}

static void measure_one(const struct through *t, uint64_t n, const char *operation,
			double (*once)(const struct through *t, uint64_t n))
{
	double v[LEAST_EVENTS];

	for (size_t i = 0; i < ARRAY_SIZE(v); i++)
		v[i] = once(t, n);
	add_result((struct result){ .group = "release", .operation = operation,
		.through = t->name, .size = n, .batch = 1 }, v, ARRAY_SIZE(v));
}

void measure_release(void)
{
	const struct through *const *t = throughs();
	uint64_t sizes[SIZES_MAX];
	const size_t len = sizes_from(1000, sizes);

	measure("release", NULL, 0);
	for (; *t; t++)
		for (size_t i = 0; i < len; i++) {
			measure_one(*t, sizes[i], "close", close_clean);
			measure_one(*t, sizes[i], "close, all failed", close_failed);
			measure_one(*t, sizes[i], "longest wait of another", wait_of_other);
		}
}
