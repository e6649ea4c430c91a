// SPDX-License-Identifier: MIT
/* What a plan may come to, before anything runs. */
#include "intervene.h"

#include <string.h>

struct forecast {
	const struct capkm_observe_admitted *admitted;
	const struct capkm_intervene_admitted *interventions;	/* or NULL */
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
		enum capkm_bound bound)
{
	const struct capkm_observe_limits *l = &p->admitted->plan.limits;
	const struct capkm_usage *most = bound == CAPKM_BOUND_STEP ?
					 &l->per_step : &l->cumulative;
	const uint32_t axis = usage_exceeds(usage, most);

	return axis == CAPKM_AXIS_NONE ? 0 :
	       fault_limit(p->f, axis, bound, usage_on(usage, axis),
			   usage_on(most, axis));
}

static int add_record(struct forecast *p,
		      const struct capkm_observe_selection *selection,
		      const struct capkm_observe_point *point)
{
	struct capkm_usage usage;
	int rc = usage_of_record(selection, point, &usage, p->f);

	return rc || usage_add(&p->base, &usage) ? rc : overflow(p);
}

static int add_operation_records(struct forecast *p, uint32_t i)
{
	const struct operation *o = &p->interventions->operations[i];
	struct capkm_usage usage;
	uint32_t j;
	int rc = usage_of_operation(p->interventions, i, &usage, p->f);

	if (!rc && !usage_add(&p->base, &usage))
		rc = overflow(p);
	for (j = 0; !rc && j < o->evidence_len; j++)
		rc = add_record(p, &o->evidence[j].selection,
				&o->evidence[j].point);
	return rc;
}

static uint32_t operations_of(const struct forecast *p)
{
	return p->interventions ? p->interventions->points_len : 0;
}

static int add_records(struct forecast *p)
{
	const struct capkm_observe_admitted *a = p->admitted;
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < operations_of(p); i++)
		rc = add_operation_records(p, i);
	for (i = 0; !rc && i < a->points_len; i++)
		rc = add_record(p, &a->plan.selections[i], &a->points[i]);
	return rc ? rc : fits(p, &p->base, CAPKM_BOUND_STEP);
}

/* As large as at the last prediction that it comes up at. */
static int add_values(struct forecast *p,
		      const struct capkm_observe_selection *s,
		      const struct capkm_observe_point *point, uint32_t phase,
		      struct capkm_usage *step)
{
	const struct capkm_observe_admitted *a = p->admitted;
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
	rc = resolve(point, &a->request, phase, last, &known, &shape, p->f);
	if (rc || !known)
		return rc;
	rc = resolve_slices(point, s, &shape, &geometry, p->f);
	if (!rc)
		rc = backend_estimate(p->backend, &geometry, &usage, p->f);
	if (rc || a->plan.limits.on_limit == CAPKM_ON_LIMIT_SKIP)
		return rc;
	return usage_add(step, &usage) &&
	       usage_add_times(&p->total, &usage, count) ? 0 : overflow(p);
}

/* The original choice must be there for evidence: it counts whatever the policy. */
static int add_routes(struct forecast *p, uint32_t i, uint32_t phase,
		      struct capkm_usage *step)
{
	const struct capkm_intervene_admitted *a = p->interventions;
	const uint64_t rows = a->request.batch *
		(phase == CAPKM_PREFILL ? a->request.prompt_tokens : 1);
	struct capkm_usage usage;
	uint64_t count, last;
	int rc;

	if (!is_routing(&a->points[i]) || !a->operations[i].evidence_len)
		return 0;
	rc = schedule_count(&a->plan.operations[i].schedule, phase, p->next,
			    a->request.max_predictions, &count, &last, p->f);
	if (!rc && count)
		rc = backend_estimate_routes(p->backend, &a->points[i], rows,
					     &usage, p->f);
	if (rc || !count)
		return rc;
	return usage_add(step, &usage) &&
	       usage_add_times(&p->total, &usage, count) ? 0 : overflow(p);
}

static int add_evidence(struct forecast *p, uint32_t i, uint32_t phase,
			struct capkm_usage *step)
{
	const struct operation *o = &p->interventions->operations[i];
	uint32_t j;
	int rc = 0;

	for (j = 0; !rc && j < o->evidence_len; j++)
		rc = add_values(p, &o->evidence[j].selection,
				&o->evidence[j].point, phase, step);
	return rc;
}

static int add_phase(struct forecast *p, uint32_t phase)
{
	const struct capkm_observe_admitted *a = p->admitted;
	struct capkm_usage step = p->base;
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < operations_of(p); i++)
		rc = add_routes(p, i, phase, &step);
	for (i = 0; !rc && i < a->points_len; i++) {
		rc = add_values(p, &a->plan.selections[i], &a->points[i], phase,
				&step);
		if (rc)
			p->f->index = i;
	}
	for (i = 0; !rc && i < operations_of(p); i++)
		rc = add_evidence(p, i, phase, &step);
	return rc ? rc : fits(p, &step, CAPKM_BOUND_STEP);
}

int preflight(const struct capkm_observe_admitted *admitted,
	      const struct capkm_intervene_admitted *interventions,
	      const struct capkm_observe_backend *backend, uint64_t next,
	      const struct capkm_usage *inherited, struct fault *f)
{
	const uint64_t max = admitted->request.max_predictions;
	struct forecast p = {
		.admitted = admitted, .interventions = interventions,
		.backend = backend, .next = next, .f = f,
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
	return rc ? rc : fits(&p, &p.total, CAPKM_BOUND_TOTAL);
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
		preflight(admitted, NULL, &b, next, inherited, &f);
	return fault_tell(&f, "observe_validate", err);
}

static int validate_both(const struct capkm_observe_admitted *observed,
			 const struct capkm_observe_discovery *discovery,
			 const struct capkm_intervene_admitted *admitted,
			 const struct capkm_intervene_discovery *points,
			 struct fault *f)
{
	int rc;

	if (!same_request(&observed->request, &admitted->request))
		return fault(f, -EINVAL, "what is observed and what is changed were admitted for different requests");
	if (observed->request.batch != 1)
		return fault(f, -EOPNOTSUPP, "interventions in a batch of more than 1 are not supported");
	rc = readmit(observed, discovery, f);
	if (!rc)
		rc = intervene_readmit(admitted, points, f);
	if (!rc && strcmp(discovery->artifact_identity, points->artifact_identity))
		rc = fault(f, -EINVAL, "the discoveries are of different models");
	return rc;
}

int capkm_intervene_validate(const struct capkm_observe_admitted *observed,
			     const struct capkm_observe_discovery *discovery,
			     const struct capkm_intervene_admitted *admitted,
			     const struct capkm_intervene_discovery *points,
			     const struct capkm_observe_backend *backend,
			     uint64_t next, const struct capkm_usage *inherited,
			     struct capkm_error *err)
{
	static const char call[] = "intervene_validate";
	struct capkm_observe_backend b;
	struct fault f = { 0 };
	int rc = backend_get(&b, backend, call, err);

	if (rc)
		return rc;
	rc = validate_both(observed, discovery, admitted, points, &f);
	if (!rc)
		preflight(observed, admitted, &b, next, inherited, &f);
	return fault_tell(&f, call, err);
}
