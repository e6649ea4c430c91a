// SPDX-License-Identifier: MIT
/* What a plan may come to, before anything runs. */
#include "observe.h"

struct forecast {
	const struct capkm_observe_admitted *admitted;
	const struct capkm_observe_backend *backend;
	uint64_t next;
	struct capkm_usage base;	/* of the records of any step */
	struct capkm_usage total;
	struct fault *f;
};

static int overflow(const struct forecast *p)
{
	return fault(p->f, -EOVERFLOW, "what the plan may cost does not fit into 64 bits");
}

static int fits(const struct forecast *p, const struct capkm_usage *usage,
		bool cumulative)
{
	const struct capkm_observe_limits *l = &p->admitted->plan.limits;
	const struct capkm_usage *most = cumulative ? &l->cumulative :
						      &l->per_step;
	const uint32_t axis = usage_exceeds(usage, most);

	return axis == CAPKM_AXIS_NONE ? 0 :
	       fault_limit(p->f, axis, cumulative, usage_on(usage, axis),
			   usage_on(most, axis));
}

static int add_records(struct forecast *p)
{
	const struct capkm_observe_admitted *a = p->admitted;
	struct capkm_usage usage;
	uint32_t i;
	int rc;

	for (i = 0; i < a->points_len; i++) {
		rc = usage_of_record(&a->plan.selections[i], &a->points[i],
				     &usage, p->f);
		if (rc)
			return rc;
		if (!usage_add(&p->base, &usage))
			return overflow(p);
	}
	return fits(p, &p->base, false);
}

/* As large as at the last prediction that it comes up at. */
static int add_values(struct forecast *p, uint32_t i, uint32_t phase,
		      struct capkm_usage *step)
{
	const struct capkm_observe_admitted *a = p->admitted;
	const struct capkm_observe_selection *s = &a->plan.selections[i];
	struct capkm_observe_geometry geometry;
	struct capkm_usage usage;
	struct shape shape;
	uint64_t count, last;
	bool known;
	int rc;

	rc = schedule_count(&s->schedule, phase, p->next,
			    a->request.max_predictions, &count, &last, p->f);
	if (rc || !count)
		return rc;
	rc = resolve(&a->points[i], &a->request, phase, last, &known, &shape,
		     p->f);
	if (rc || !known)
		return rc;
	rc = resolve_slices(&a->points[i], s, &shape, &geometry, p->f);
	if (!rc)
		rc = backend_estimate(p->backend, &geometry, &usage, p->f);
	if (rc || a->plan.limits.on_limit == CAPKM_ON_LIMIT_SKIP)
		return rc;
	return usage_add(step, &usage) &&
	       usage_add_times(&p->total, &usage, count) ? 0 : overflow(p);
}

static int add_phase(struct forecast *p, uint32_t phase)
{
	struct capkm_usage step = p->base;
	uint32_t i;
	int rc;

	for (i = 0; i < p->admitted->points_len; i++) {
		rc = add_values(p, i, phase, &step);
		if (rc) {
			p->f->index = i;
			return rc;
		}
	}
	return fits(p, &step, false);
}

int preflight(const struct capkm_observe_admitted *admitted,
	      const struct capkm_observe_backend *backend, uint64_t next,
	      const struct capkm_usage *inherited, struct fault *f)
{
	const uint64_t max = admitted->request.max_predictions;
	struct forecast p = {
		.admitted = admitted, .backend = backend, .next = next, .f = f,
	};
	int rc;

	if (next > max)
		return fault(f, -EINVAL, "the next prediction is beyond max_predictions");
	if (inherited)
		p.total = *inherited;
	rc = add_records(&p);
	if (rc)
		return rc;
	if (!usage_add_times(&p.total, &p.base, max - next))
		return overflow(&p);
	if (!next)
		rc = add_phase(&p, CAPKM_PREFILL);
	if (!rc && next < max && max > 1)
		rc = add_phase(&p, CAPKM_DECODE);
	return rc ? rc : fits(&p, &p.total, true);
}

int capkm_observe_validate(const struct capkm_observe_admitted *admitted,
			   const struct capkm_observe_discovery *discovery,
			   const struct capkm_observe_backend *backend,
			   uint64_t next, const struct capkm_usage *inherited,
			   struct capkm_error *err)
{
	struct capkm_observe_backend b;
	struct fault f = { 0 };
	int rc = backend_get(&b, backend, "observe_validate", err);

	if (rc)
		return rc;
	rc = readmit(admitted, discovery, &f);
	if (!rc)
		preflight(admitted, &b, next, inherited, &f);
	return fault_tell(&f, "observe_validate", err);
}
