// SPDX-License-Identifier: MIT
/* Waiting, for a bounded time, for bytes that somebody else is writing. */
#include "internal.h"

#include <inttypes.h>
#include <time.h>

#define STEP_FIRST_US	20u
#define STEP_LAST_US	10000u

uint64_t capkm_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void capkm_retry_init(struct retry *r, const struct capkm *c, uint32_t ms)
{
	r->ms = ms ? ms : c->retry_ms;
	if (r->ms == CAPKM_RETRY_NONE)
		r->ms = 0;
	r->step_us = STEP_FIRST_US;
	r->until_ns = 0;
}

bool capkm_retry_wait(struct retry *r)
{
	uint64_t now = capkm_now_ns(), sleep = (uint64_t)r->step_us * 1000;
	struct timespec t;

	if (!r->until_ns)
		r->until_ns = now + (uint64_t)r->ms * 1000000u;
	if (now >= r->until_ns)
		return false;
	if (sleep > r->until_ns - now)
		sleep = r->until_ns - now;
	t.tv_sec = 0;
	t.tv_nsec = (long)sleep;
	nanosleep(&t, NULL);
	if (r->step_us < STEP_LAST_US)
		r->step_us *= 2;
	return true;
}

int capkm_late(struct capkm_error *err, unsigned int nr, uint32_t ms,
	       const struct capkm_report *why)
{
	char text[400];
	struct text t = { .data = text, .size = sizeof(text) };

	capkm_report_add(&t, why);
	return capkm_error_set(err, -EAGAIN, CAPKM_NO_INDEX, 0,
		"%s: an input is still being written after %" PRIu32 " ms: %s",
		capkm_op_name(nr), ms, text);
}
