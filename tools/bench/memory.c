// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of what there are many of. Embedded it is this process' heap; of the module the
 * kernel's counters of the whole machine, so there have to be many.
 */
#include "bench.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#define STRIDE	16u
#define STALE	8u

static double kilobytes(const char *key)
{
	return strtod(line_of("/proc/meminfo", key), NULL) * 1024;
}

static double used(const struct through *t)
{
	if (!t->kernel) {
		const struct mallinfo2 m = mallinfo2();

		return m.uordblks + m.hblkhd;
	}
	return kilobytes("SUnreclaim:") + kilobytes("VmallocUsed:");
}

static uint64_t many(void)
{
	return options.most < 100000 ? options.most : 100000;
}

static struct capkm_claim region(uint64_t buffer, uint64_t i)
{
	return (struct capkm_claim){
		.buffer = buffer, .start = i * STRIDE, .end = i * STRIDE + STALE };
}

static void make_buffers(struct capkm *c, uint64_t b, uint64_t n)
{
	(void)b;
	while (n--)
		buffer(c, STRIDE);
}

static void make_ranges(struct capkm *c, uint64_t b, uint64_t n)
{
	struct capkm_claim claim = region(b, 0);
	const uint64_t failure = taint(c, &claim);

	while (--n) {
		claim = region(b, n);
		TRY(capkm_taint_with(c, &claim, 1, 0, failure, &err));
	}
}

/* Each with a range. */
static void make_failures(struct capkm *c, uint64_t b, uint64_t n)
{
	const struct capkm_where where = { .stream = 1 };

	while (n--) {
		const struct capkm_claim claim = region(b, n);

		fail_scope(c, &where, &claim);
	}
}

static double bytes_each(const struct through *t,
			 void (*make)(struct capkm *c, uint64_t b, uint64_t n))
{
	const uint64_t n = many();
	struct capkm *c = open_domain(t, 2 * n + 65536, n + 1);
	const uint64_t b = buffer(c, n * STRIDE);
	const double before = used(t);
	double after;

	make(c, b, n);
	after = used(t);
	capkm_close(c);
	return (after - before) / n;
}

void measure_memory(void)
{
	static const struct {
		const char *operation;
		void (*make)(struct capkm *c, uint64_t b, uint64_t n);
	} kinds[] = {
		{ "a buffer", make_buffers },
		{ "a range", make_ranges },
		{ "a failure with its range", make_failures },
	};
	double v[LEAST_EVENTS];

	for (const struct through *const *t = throughs(); *t; t++)
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
			for (size_t i = 0; i < ARRAY_SIZE(v); i++)
				v[i] = bytes_each(*t, kinds[k].make);
			add_result((struct result){ .group = "memory",
				.operation = kinds[k].operation, .through = (*t)->name,
				.size = many(), .unit = BYTES, .batch = 1 }, v, ARRAY_SIZE(v));
		}
}
