// SPDX-License-Identifier: GPL-2.0-only
/* What capkm is to reach, and whether it does. */
#include "bench.h"

#include <stdlib.h>

const char *device;

/* What a cost is compared with. */
enum against {
	NULL_IOCTLS,
	ANOTHER,			/* the same operation at the size @other */
	ITSELF,				/* divided by @scale, for the unit */
	LEAST,				/* the same, of the least sample */
};

static const struct aim {
	const char *text;
	const char *through;
	const char *group, *operation;
	uint64_t size;
	double bound;
	enum against against;
	uint64_t other;
	double scale;
	const char *unit;
} aims[] = {
	{ "clean scope over two buffers, fast", "embedded, fast", "scopes", "scope", 2, 1 / 12. },
	{ "clean scope over two buffers, fast", "ioctl, fast", "scopes", "scope", 2, 1 / 12. },
	{ "check of a clean buffer, fast", "embedded, fast", "scopes", "check", 1, 1 / 80. },
	{ "check of a clean buffer, fast", "ioctl, fast", "scopes", "check", 1, 1 / 80. },
	{ "clean scope over two buffers", "embedded", "scopes", "scope", 2, 1 / 2. },
	{ "skip", "embedded", "scopes", "skip", 2, 1 / 2. },
	{ "fail and rewrite", "embedded", "scopes", "fail and rewrite", 1, 3 / 4. },
	{ "allocations of a clean scope", "embedded", "scopes", "scope allocates", 2, 0, ITSELF,
	  .scale = 1, .unit = "allocations" },
	{ "allocations of a clean scope, fast", "embedded, fast", "scopes", "scope allocates", 2, 0,
	  ITSELF, .scale = 1, .unit = "allocations" },
	{ "clean scope over two buffers, in a submit of 64", "ioctl, submit", "scopes", "scope", 2, 1 },
	{ "clean scope over two buffers", "ioctl", "scopes", "scope", 2, 4 },
#define BOTH(text, ...)							\
	{ text, "embedded", __VA_ARGS__ }, { text, "ioctl", __VA_ARGS__ }
	BOTH("partial write into 100 000 ranges", "ranges", "write stale bytes", 100000, 5),
	BOTH("the same, 1 000 000 ranges against 1 000", "ranges", "write stale bytes", 1000000, 3,
	     ANOTHER, 1000),
	BOTH("begin and end of a replay, 10 claims", "replay", "begin and end", 10, 4),
	BOTH("begin and end of a replay, 2 000 claims", "replay", "begin and end", 2000, 4),
	BOTH("the same, 2 000 claims against 10", "replay", "begin and end", 2000, 1.1,
	     ANOTHER, 10),
	BOTH("end of a session with 1 000 000 buffers", "release", "close", 1000000, 1, ITSELF,
	     .scale = 1e9, .unit = "s"),
	BOTH("the same, all of them failed", "release", "close, all failed", 1000000, 1, ITSELF,
	     .scale = 1e9, .unit = "s"),
	/* What the scheduler adds to one of them is no lock that is held. */
	BOTH("the longest that another session waits meanwhile", "release",
	     "longest wait of another", 1000000, 10, LEAST, .scale = 1e6, .unit = "ms"),
#undef BOTH
};

static double value_of(const struct aim *a, const struct result *r)
{
	const struct result *other;

	switch (a->against) {
	case NULL_IOCTLS:
		return r->median / r->null_ioctl;
	case ANOTHER:
		other = find_result(a->group, a->operation, a->through, a->other);
		return r->median / other->median;
	case LEAST:
		return r->least / a->scale;
	default:
		return r->median / a->scale;
	}
}

static const char *unit_of(const struct aim *a)
{
	return a->against == NULL_IOCTLS ? "null ioctls" :
	       a->against == ANOTHER ? "times" : a->unit;
}

size_t judge(const struct goal **judged)
{
	static struct goal goals[ARRAY_SIZE(aims)];

	for (size_t i = 0; i < ARRAY_SIZE(aims); i++) {
		const struct aim *a = &aims[i];
		const struct result *r = find_result(a->group, a->operation, a->through, a->size);
		struct goal *g = &goals[i];

		*g = (struct goal){ .text = a->text, .through = a->through, .bound = a->bound,
				    .unit = unit_of(a), .verdict = NOT_MEASURED };
		if (!r)
			continue;
		g->value = value_of(a, r);
		g->verdict = g->value <= g->bound ? HOLDS : MISSED;
	}
	*judged = goals;
	return ARRAY_SIZE(aims);
}
