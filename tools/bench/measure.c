// SPDX-License-Identifier: GPL-2.0-only
/*
 * Costs. A sample is a batch of one operation, divided; the batches of all operations of a
 * group, and of the null ioctl, take turns, so that what slows the machine down slows all
 * of them. Reported is the median.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

/* A batch lasts at least so long, if it may: the clock's own cost is small against it. */
#define BATCH_NS	50000.0
/* And has at least so many operations, if it may. */
#define BATCH_LEAST	16
#define DEVICE_NODE	"/dev/capkm"
#define NULL_NODE	"/dev/null"
/* A number that neither node knows. */
#define NO_IOCTL	_IO(CAPKM_TYPE, 0xff)

struct results results;

static double clock_ns;		/* what asking for the time costs */
static int null_fd = -1;
static const char *null_is;
static double load;

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

uint32_t samples(void)
{
	return options.quick ? LEAST_SAMPLES : 501;
}

uint32_t events(void)
{
	return LEAST_EVENTS;
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of sorted values. */
static double quantile(const double *v, uint32_t len, double q)
{
	const double at = (len - 1) * q;
	const uint32_t i = at;

	return i + 1 < len ? v[i] + (v[i + 1] - v[i]) * (at - i) : v[i];
}

static void find_clock_cost(void)
{
	double cost[1001];

	for (size_t i = 0; i < ARRAY_SIZE(cost); i++) {
		const double start = now();

		cost[i] = now() - start;
	}
	qsort(cost, ARRAY_SIZE(cost), sizeof(*cost), ascending);
	clock_ns = quantile(cost, ARRAY_SIZE(cost), .5);
}

static void null_ioctl(void *state, uint64_t n)
{
	(void)state;
	while (n--)
		ioctl(null_fd, NO_IOCTL, 0);
}

/* The module's own file if it is measured, for that is what a call has to be compared with. */
void measure_init(void)
{
	const char *node = options.kernel ? DEVICE_NODE : NULL_NODE;

	if (getloadavg(&load, 1) != 1)
		die(FAILED, "the load is not known");
	find_clock_cost();
	null_fd = open(node, O_RDWR | O_CLOEXEC);
	if (null_fd < 0)
		die(FAILED, "%s: %s", node, strerror(errno));
	if (ioctl(null_fd, NO_IOCTL, 0) != -1 || errno != ENOTTY)
		die(FAILED, "%s: a number that nobody knows is not ENOTTY", node);
	null_is = options.kernel ? "an unknown number on " DEVICE_NODE :
				   "an unknown number on " NULL_NODE;
}

const char *null_ioctl_is(void)
{
	return null_is;
}

double load_at_begin(void)
{
	return load;
}

static double batch(const struct op *op, uint64_t n)
{
	double start, spent;

	if (op->before)
		op->before(op->state, n);
	start = now();
	op->run(op->state, n);
	spent = now() - start - clock_ns;
	if (op->after)
		op->after(op->state, n);
	return spent > 0 ? spent : 0;
}

/* The first one is slow, for nothing is in a cache. */
static double warm_batch(const struct op *op, uint64_t n)
{
	batch(op, n);
	return batch(op, n);
}

/* How many make a batch; this is the warm-up, too. */
static uint64_t find_batch(const struct op *op)
{
	uint64_t n = op->most && op->most < BATCH_LEAST ? op->most : BATCH_LEAST;

	while (warm_batch(op, n) < BATCH_NS && (!op->most || n < op->most))
		n *= 2;
	return op->most && n > op->most ? op->most : n;
}

void add_result(struct result r, double *v, uint32_t len)
{
	const uint32_t least = r.batch > 1 ? LEAST_SAMPLES : LEAST_EVENTS;

	if (len < least)
		die(FAILED, "%s %s: %u samples are too few, %u are the least", r.group,
		    r.operation, len, least);
	qsort(v, len, sizeof(*v), ascending);
	r.median = quantile(v, len, .5);
	r.low = quantile(v, len, .25);
	r.high = quantile(v, len, .75);
	r.least = v[0];
	r.samples = len;
	if (r.unit == NANOSECONDS && !r.null_ioctl)
		r.null_ioctl = null_ioctl_ns();
	results.at = allocated(reallocarray(results.at, results.len + 1, sizeof(r)));
	results.at[results.len++] = r;
}

static double median_of(const double *v, uint32_t len)
{
	double sorted[len];

	memcpy(sorted, v, sizeof(sorted));
	qsort(sorted, len, sizeof(*sorted), ascending);
	return quantile(sorted, len, .5);
}

/* Operations of a batch. */
static uint64_t done(const struct op *op, uint64_t n)
{
	return op->each ? n * op->each : n;
}

/* Each round begins with another operation. */
static void take_samples(const struct op *ops, const uint64_t *n, size_t len, double *v,
			 uint32_t rounds)
{
	for (uint32_t r = 0; r < rounds; r++)
		for (size_t i = 0; i < len; i++) {
			const size_t at = (i + r) % len;

			v[at * rounds + r] = batch(&ops[at], n[at]) / done(&ops[at], n[at]);
		}
}

void measure(const char *group, const struct op *given, size_t given_len)
{
	const uint32_t rounds = samples();
	const size_t len = given_len + 1;
	struct op ops[len];
	uint64_t n[len];
	double *v = allocated(calloc(len * rounds, sizeof(*v))), null;

	ops[0] = (struct op){ .operation = "null ioctl", .run = null_ioctl };
	memcpy(&ops[1], given, given_len * sizeof(*ops));
	for (size_t i = 0; i < len; i++)
		n[i] = find_batch(&ops[i]);
	take_samples(ops, n, len, v, rounds);
	null = median_of(v, rounds);
	for (size_t i = 0; i < len; i++)
		add_result((struct result){
			.group = group, .operation = ops[i].operation,
			.through = ops[i].through ? ops[i].through : "",
			.size = ops[i].size, .batch = done(&ops[i], n[i]), .null_ioctl = null,
			.yardstick = ops[i].yardstick,
		}, &v[i * rounds], rounds);
	free(v);
}

const struct result *find_result(const char *group, const char *operation, const char *through,
				 uint64_t size)
{
	for (size_t i = 0; i < results.len; i++) {
		const struct result *r = &results.at[i];

		if (!strcmp(r->group, group) && !strcmp(r->operation, operation) &&
		    !strcmp(r->through, through) && r->size == size)
			return r;
	}
	return NULL;
}

/* Of the last group that has one; for what cannot take turns with it. */
double null_ioctl_ns(void)
{
	for (size_t i = results.len; i--;)
		if (!strcmp(results.at[i].operation, "null ioctl"))
			return results.at[i].median;
	return 0;
}
