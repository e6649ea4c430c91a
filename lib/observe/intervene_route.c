// SPDX-License-Identifier: MIT
/* Interventions that a router carries out: it is told, and says what came of it. */
#include "session.h"

#include <inttypes.h>
#include <string.h>

/* Index of the operation that a router has to do with now; -1: none. */
static int find(const struct capkm_observe *s, const char *path)
{
	const struct capkm_intervene_record *r;
	uint32_t i;

	for (i = 0; i < s->step->interventions_len; i++) {
		r = &s->step->interventions[i];
		if (is_routing(&s->interventions->points[i]) &&
		    r->outcome.kind != CAPKM_INTERVENTION_INACTIVE &&
		    !strcmp(r->path, path))
			return (int)i;
	}
	return -1;
}

/* Which rows the operation is for. */
static int select_rows(const struct capkm_observe *s, uint32_t i, uint64_t rows,
		       struct capkm_intervene_control *control, struct fault *f)
{
	const struct capkm_intervene_operation *op =
		&s->interventions->plan.operations[i];
	const struct capkm_intervene_point *point = &s->interventions->points[i];
	const int axis = point_axis(point, "token");
	struct region r = { .selected_known = 1u << axis };
	uint64_t expected;
	bool known;
	int rc = extent(&point->axes[axis].dimension, &s->admitted->request,
			s->at.phase, s->at.prediction, &known, &expected, f);

	if (rc)
		return rc;
	if (known && rows != expected)
		return fault(f, -EINVAL, "a router of %" PRIu64 " rows, expected %" PRIu64,
			     rows, expected);
	*control = (struct capkm_intervene_control){
		.row_stride = 1, .rows = rows,
	};
	if (op->slices_len) {
		if (op->slices[0].end > rows)
			return fault(f, -EINVAL, "the slice of axis 'token' ends at %" PRIu64 ", the rows at %" PRIu64,
				     op->slices[0].end, rows);
		control->first_row = op->slices[0].start;
		control->row_stride = op->slices[0].stride;
		control->rows = (op->slices[0].end - op->slices[0].start - 1) /
				op->slices[0].stride + 1;
	}
	r.selected[axis] = control->rows;
	return action_fits(&op->action, point, &r, f);
}

/* Before the router works for it. */
static int charge_original(struct capkm_observe *s, uint32_t i, uint64_t rows,
			   struct fault *f)
{
	struct capkm_usage usage;
	int rc = backend_estimate_routes(&s->backend,
					 &s->interventions->points[i], rows,
					 &usage, f);

	if (!rc)
		rc = session_charge(s, &usage, f);
	if (!rc)
		usage_add(&intervention(s, i)->charged, &usage);
	return rc;
}

static int tell(struct capkm_observe *s, uint32_t i, uint64_t rows,
		struct capkm_intervene_control *control, struct fault *f)
{
	int rc = select_rows(s, i, rows, control, f);

	control->original = s->interventions->operations[i].evidence_len;
	if (!rc && control->original)
		rc = charge_original(s, i, rows, f);
	if (rc)
		return operation_settle(s, i, rc, f);
	control->operation = &s->interventions->plan.operations[i];
	s->routes = true;
	s->routed = i;
	return 0;
}

static int route(struct capkm_observe *s, const char *path, uint64_t rows,
		 struct capkm_intervene_control *control, struct fault *f)
{
	int rc = operations_have_begun(s, f);
	int i;

	if (rc)
		return rc;
	if (s->routes)
		return fault(f, -EINVAL, "a router was told of operation '%.128s' and has not been heard of",
			     s->interventions->plan.operations[s->routed].id);
	i = find(s, path);
	if (i < 0)
		return 0;
	rc = operation_is_due(s, (uint32_t)i, f);
	return rc ? rc : tell(s, (uint32_t)i, rows, control, f);
}

int capkm_intervene_route(struct capkm_observe *session, const char *path,
			  uint64_t rows, struct capkm_intervene_control *control,
			  struct capkm_error *err)
{
	struct capkm_intervene_control c = { 0 };
	struct fault f = { 0 };

	route(session, path, rows, &c, &f);
	*control = f.rc ? (struct capkm_intervene_control){ 0 } : c;
	return fault_tell(&f, "intervene_route", err);
}

/* The router that was told is heard of. Its step may have been taken meanwhile. */
static int hear(struct capkm_observe *s, const char *path, struct fault *f)
{
	if (!s->routes ||
	    strcmp(s->interventions->points[s->routed].path, path))
		return fault(f, -EINVAL, "the router '%.120s' was not told of an operation",
			     path);
	s->routes = false;
	return s->step ? 0 :
	       fault(f, -EINVAL, "the records of the step of router '%.120s' have been taken",
		     path);
}

static int witness(struct capkm_observe *s, uint32_t i,
		   const struct capkm_intervene_routes *routes, struct fault *f)
{
	const void *const tensors[EVIDENCE_MAX] = {
		routes->original_ids, routes->original_coefficients,
		routes->ids, routes->coefficients,
	};
	const uint32_t len = s->interventions->operations[i].evidence_len;
	uint32_t j;
	int rc = 0;

	for (j = 0; j < len; j++)
		if (!tensors[j])
			return fault(f, -EINVAL, "the router does not show its %s choice",
				     j < 2 ? "original" : "new");
	for (j = 0; !rc && j < len; j++)
		rc = operation_witness(s, i, j, tensors[j], f);
	return rc;
}

int capkm_intervene_routed(struct capkm_observe *session, const char *path,
			   const struct capkm_intervene_routes *routes,
			   struct capkm_error *err)
{
	static const char call[] = "intervene_routed";
	struct capkm_intervene_routes r;
	struct fault f = { 0 };
	int rc = capkm_opts(&r, sizeof(r), routes, call, err);

	if (rc)
		return rc;
	rc = hear(session, path, &f);
	if (!rc)
		operation_settle(session, session->routed,
				 witness(session, session->routed, &r, &f), &f);
	return fault_tell(&f, call, err);
}

int capkm_intervene_unrouted(struct capkm_observe *session, const char *path,
			     const char *message, struct capkm_error *err)
{
	struct fault f = { 0 }, why;

	if (!hear(session, path, &f)) {
		fault(&why, -EIO, "the router failed: %s",
		      message ? message : "it does not say why");
		operation_settle(session, session->routed, why.rc, &why);
	}
	return fault_tell(&f, "intervene_unrouted", err);
}
