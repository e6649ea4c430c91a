// SPDX-License-Identifier: MIT
#include "observe.h"

#include <inttypes.h>

bool capkm_observe_includes(const struct capkm_observe_schedule *s,
			    uint32_t phase, uint64_t p)
{
	return schedule_has(s, phase) && p >= s->first_prediction &&
	       (!s->end_prediction.present || p < s->end_prediction.value) &&
	       s->every && !((p - s->first_prediction) % s->every);
}

int schedule_check(const struct capkm_observe_schedule *s, struct fault *f)
{
	if (!s->every)
		return fault(f, -EINVAL, "every must not be 0");
	if (s->end_prediction.present &&
	    s->end_prediction.value <= s->first_prediction)
		return fault(f, -EINVAL, "end_prediction %" PRIu64 " must be above first_prediction %" PRIu64,
			     s->end_prediction.value, s->first_prediction);
	return 0;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Those not below @next: they are counted from the first one all the same. */
static int count_decodes(const struct capkm_observe_schedule *s, uint64_t next,
			 uint64_t max, uint64_t *count, uint64_t *last,
			 struct fault *f)
{
	const uint64_t end = s->end_prediction.present &&
			     s->end_prediction.value < max ?
			     s->end_prediction.value : max;
	const uint64_t lower = max_of(max_of(s->first_prediction, 1), next);
	uint64_t skipped, first, steps;

	if (!s->decode || lower >= end)
		return 0;
	skipped = lower - s->first_prediction;
	skipped = skipped / s->every + !!(skipped % s->every);
	if (__builtin_mul_overflow(skipped, s->every, &first) ||
	    __builtin_add_overflow(first, s->first_prediction, &first))
		return fault(f, -EOVERFLOW, "a schedule goes beyond 64 bits");
	if (first >= end)
		return 0;
	steps = (end - 1 - first) / s->every;
	*count = steps + 1;
	*last = first + steps * s->every;
	return 0;
}

int schedule_count(const struct capkm_observe_schedule *s, uint32_t phase,
		   uint64_t next, uint64_t max, uint64_t *count, uint64_t *last,
		   struct fault *f)
{
	*count = 0;
	*last = 0;
	if (!s->every)
		return fault(f, -EINVAL, "every must not be 0");
	if (phase != CAPKM_PREFILL)
		return count_decodes(s, next, max, count, last, f);
	*count = !next && max && capkm_observe_includes(s, CAPKM_PREFILL, 0);
	return 0;
}

int capkm_observe_count(const struct capkm_observe_schedule *schedule,
			uint32_t phase, uint64_t next, uint64_t max,
			uint64_t *count, uint64_t *last,
			struct capkm_error *err)
{
	struct fault f = { 0 };

	schedule_count(schedule, phase, next, max, count, last, &f);
	return fault_tell(&f, "observe_count", err);
}
