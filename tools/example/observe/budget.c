// SPDX-License-Identifier: MIT
/* What a plan may cost. No tensor is there yet, and no authority is asked. */
#include "generate.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>

const struct axis axes[AXES] = {
	{ "captures", offsetof(struct capkm_usage, captures) },
	{ "retained", offsetof(struct capkm_usage, retained_bytes) },
	{ "host", offsetof(struct capkm_usage, host_bytes) },
	{ "encoded", offsetof(struct capkm_usage, encoded_bytes) },
};

const char *limit_text(uint64_t limit, char *text, size_t size)
{
	if (limit == UINT64_MAX)
		return "none";
	snprintf(text, size, "%" PRIu64, limit);
	return text;
}

struct asked {
	const struct capkm_observe_plan *plan;
	const struct capkm_observe_discovery *discovery;
	const struct capkm_observe_request *request;
	const struct capkm_observe_backend *backend;
};

/* Would it do with these limits? */
static int validate(const struct asked *a, const struct capkm_observe_limits *limits)
{
	struct capkm_observe_plan plan = *a->plan;
	struct capkm_observe_admitted *admitted;
	int rc;

	plan.limits = *limits;
	rc = capkm_observe_admit(&plan, a->discovery, a->request, &admitted, &err);
	if (rc)
		return rc;
	rc = capkm_observe_validate(admitted, a->discovery, a->backend, 0, NULL, &err);
	capkm_observe_admitted_free(admitted);
	return rc;
}

static const struct capkm_usage no_limit = {
	UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
};

/* The least limit that would do is what it may cost: the library is asked which that is. */
static uint64_t cost(const struct asked *a, int axis, bool in_all)
{
	struct capkm_observe_limits limits = {
		.per_step = no_limit, .cumulative = no_limit, .on_limit = CAPKM_ON_LIMIT_FAIL,
	};
	struct capkm_usage *usage = in_all ? &limits.cumulative : &limits.per_step;
	uint64_t *limit = (uint64_t *)((char *)usage + axes[axis].offset);
	uint64_t least = 0, most = UINT64_MAX;
	int rc;

	while (least < most) {
		*limit = least + (most - least) / 2;
		rc = validate(a, &limits);
		if (rc && rc != -EDQUOT)
			die(rc == -ENOMEM ? FAILED : WRONG, "%s", err.text);
		if (rc)
			least = *limit + 1;
		else
			most = *limit;
	}
	return least;
}

int budget_validate(const struct capkm_observe_plan *plan,
		    const struct capkm_observe_discovery *discovery,
		    const struct capkm_observe_request *request,
		    const struct capkm_observe_backend *backend)
{
	const struct asked asked = { plan, discovery, request, backend };
	const struct capkm_observe_limits *limits = &plan->limits;
	const bool skip = limits->on_limit == CAPKM_ON_LIMIT_SKIP;
	char text[2][24];
	int rc;

	printf("At most, for a prompt of %" PRIu64 " bytes and %" PRIu64 " predictions:\n\n",
	       request->prompt_tokens, request->max_predictions);
	printf("%-14s %12s %12s %12s %12s\n", "", "in a step", "limit", "in all", "limit");
	for (int i = 0; i < AXES; i++)
		printf("%-14s %12" PRIu64 " %12s %12" PRIu64 " %12s\n", axes[i].name,
		       cost(&asked, i, false),
		       limit_text(on_axis(&limits->per_step, i), text[0], sizeof(text[0])),
		       cost(&asked, i, true),
		       limit_text(on_axis(&limits->cumulative, i), text[1], sizeof(text[1])));
	rc = validate(&asked, limits);
	if (!rc) {
		printf("\n%s\n", skip ? "All records fit, and of the values, those that do not are skipped." :
		       "The budget will do.");
		return 0;
	}
	fflush(stdout);
	fprintf(stderr, "observe-generate: %s\n", err.text);
	return FAILED;
}
