// SPDX-License-Identifier: MIT
#include "intervene.h"

#include <string.h>

bool usage_add_times(struct capkm_usage *to, const struct capkm_usage *more,
		     uint64_t times)
{
	struct capkm_usage u;
	uint64_t a, b, c, d;

	if (__builtin_mul_overflow(more->captures, times, &a) ||
	    __builtin_mul_overflow(more->retained_bytes, times, &b) ||
	    __builtin_mul_overflow(more->host_bytes, times, &c) ||
	    __builtin_mul_overflow(more->encoded_bytes, times, &d) ||
	    __builtin_add_overflow(to->captures, a, &a) ||
	    __builtin_add_overflow(to->retained_bytes, b, &b) ||
	    __builtin_add_overflow(to->host_bytes, c, &c) ||
	    __builtin_add_overflow(to->encoded_bytes, d, &d))
		return false;
	u = (struct capkm_usage){
		.captures = a, .retained_bytes = b,
		.host_bytes = c, .encoded_bytes = d,
	};
	*to = u;
	return true;
}

bool usage_add(struct capkm_usage *to, const struct capkm_usage *more)
{
	return usage_add_times(to, more, 1);
}

uint64_t usage_on(const struct capkm_usage *usage, uint32_t axis)
{
	switch (axis) {
	case CAPKM_AXIS_CAPTURES:
		return usage->captures;
	case CAPKM_AXIS_RETAINED:
		return usage->retained_bytes;
	case CAPKM_AXIS_HOST:
		return usage->host_bytes;
	default:
		return usage->encoded_bytes;
	}
}

uint32_t usage_exceeds(const struct capkm_usage *usage,
		       const struct capkm_usage *most)
{
	uint32_t axis;

	for (axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++)
		if (usage_on(usage, axis) > usage_on(most, axis))
			return axis;
	return CAPKM_AXIS_NONE;
}

/*
 * In JSON a byte of a text takes six at most, and an extent, which is in two shapes,
 * twenty digits.
 */
int usage_of_record(const struct capkm_observe_selection *selection,
		    const struct capkm_observe_point *point,
		    struct capkm_usage *usage, struct fault *f)
{
	const uint64_t texts = (uint64_t)strlen(selection->id) +
			       strlen(selection->path) + strlen(point->node_id);
	const uint64_t rank = point->axes ? point->axes_len : CAPKM_OBSERVE_RANK;
	uint64_t encoded;

	*usage = (struct capkm_usage){ .host_bytes = 512 + texts + 128 * rank };
	if (__builtin_mul_overflow(texts, 6, &encoded) ||
	    __builtin_add_overflow(encoded, 2048 + 64 * rank, &encoded))
		return fault(f, -EOVERFLOW, "the texts of a selection are too long");
	usage->encoded_bytes = encoded;
	return 0;
}

int usage_of_operation(const struct capkm_intervene_admitted *admitted,
		       uint32_t i, struct capkm_usage *usage, struct fault *f)
{
	const struct capkm_intervene_point *point = &admitted->points[i];
	const uint64_t texts =
		(uint64_t)strlen(admitted->plan.operations[i].id) +
		strlen(point->path) + strlen(point->node_id) +
		strlen(admitted->identity);
	uint64_t encoded;

	*usage = (struct capkm_usage){ .host_bytes = 1024 + texts };
	if (__builtin_mul_overflow(texts, 6, &encoded) ||
	    __builtin_add_overflow(encoded, 4096, &encoded))
		return fault(f, -EOVERFLOW, "the texts of an operation are too long");
	usage->encoded_bytes = encoded;
	return 0;
}
