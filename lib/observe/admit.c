// SPDX-License-Identifier: MIT
/* Holds a plan against a discovery. The order of what is looked at is part of it. */
#include "observe.h"

#include <inttypes.h>
#include <math.h>
#include <sha256.h>
#include <stdlib.h>
#include <string.h>

struct admission {
	const struct capkm_observe_plan *plan;
	const struct capkm_observe_discovery *discovery;
	const struct capkm_observe_request *request;
	const struct capkm_observe_selection *selection;
	const struct capkm_observe_point *point;
	struct fault *f;
};

static int check_versions(const struct admission *a)
{
	const struct {
		const char *of;
		uint32_t version;
	} all[] = {
		{ "plan", a->plan->schema_version },
		{ "catalog", a->discovery->catalog.schema_version },
		{ "support", a->discovery->support_version },
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].version != CAPKM_OBSERVE_SCHEMA)
			return fault(a->f, -EINVAL, "the schema_version of the %s is %" PRIu32 ", not %u",
				     all[i].of, all[i].version,
				     CAPKM_OBSERVE_SCHEMA);
	return 0;
}

int request_check(const struct capkm_observe_request *r, struct fault *f)
{
	uint64_t sum;

	if (!r->batch || !r->prompt_tokens || !r->max_predictions)
		return fault(f, -EINVAL, "batch, prompt_tokens and max_predictions of the request must not be 0");
	if (__builtin_add_overflow(r->prompt_tokens, r->max_predictions, &sum) ||
	    __builtin_mul_overflow(r->batch, r->prompt_tokens, &sum))
		return fault(f, -EOVERFLOW, "the tokens of the request do not fit into 64 bits");
	return 0;
}

static int check_id(const struct admission *a)
{
	const struct capkm_observe_selection *other = a->plan->selections;

	if (!*a->selection->id)
		return fault(a->f, -EINVAL, "the id of a selection must not be empty");
	for (; other < a->selection; other++)
		if (!strcmp(other->id, a->selection->id))
			return fault(a->f, -EINVAL, "two selections have the id '%.60s'",
				     other->id);
	return 0;
}

static int find_point(struct admission *a)
{
	const struct capkm_observe_catalog *c = &a->discovery->catalog;
	uint32_t i;

	for (i = 0; i < c->points_len; i++)
		if (!strcmp(c->points[i].path, a->selection->path))
			break;
	if (i == c->points_len)
		return fault(a->f, -ENOENT, "there is no point '%.120s' in the catalog",
			     a->selection->path);
	a->point = &c->points[i];
	if (a->point->axes_len > CAPKM_OBSERVE_RANK)
		return fault(a->f, -EOPNOTSUPP, "the point '%.60s' has %" PRIu32 " axes; at most %u are supported",
			     a->point->path, a->point->axes_len,
			     CAPKM_OBSERVE_RANK);
	return 0;
}

static int check_transform(const struct admission *a)
{
	const struct capkm_observe_capabilities *can = &a->discovery->capture;
	const uint32_t kind = a->selection->transform.kind;
	uint32_t i;

	for (i = 0; i < can->transformations_len; i++)
		if (can->transformations[i] == kind)
			return 0;
	return fault(a->f, -EOPNOTSUPP, "the backend cannot make a '%s' of a tensor",
		     type_transform_kind.names[kind]);
}

static int check_phase(const struct admission *a, uint32_t phase,
		       const struct capkm_observe_support *support)
{
	if (!schedule_has(&a->selection->schedule, phase) ||
	    support->status == CAPKM_SUPPORTED)
		return 0;
	return fault(a->f, -EOPNOTSUPP, "'%.60s' at %s is %s: %.160s",
		     a->point->path, type_phase.names[phase],
		     type_support.names[support->status], support->reason);
}

static int check_support(const struct admission *a)
{
	const struct capkm_observe_discovery *d = a->discovery;
	uint32_t i;
	int rc;

	for (i = 0; i < d->support_len; i++)
		if (!strcmp(d->support[i].path, a->selection->path))
			break;
	if (i == d->support_len)
		return fault(a->f, -EOPNOTSUPP, "nothing says that '%.120s' is supported",
			     a->selection->path);
	rc = check_phase(a, CAPKM_PREFILL, &d->support[i].prefill);
	return rc ? rc : check_phase(a, CAPKM_DECODE, &d->support[i].decode);
}

static int check_edges(const struct admission *a)
{
	const struct capkm_observe_transform *t = &a->selection->transform;
	const uint64_t most = a->discovery->capture.max_histogram_bins;
	uint32_t i;

	if (t->edges_len < 2)
		return fault(a->f, -EINVAL, "a histogram needs two edges or more");
	if (t->edges_len - 1 > most)
		return fault(a->f, -EINVAL, "a histogram of %" PRIu32 " bins; the backend has %" PRIu64 " at most",
			     t->edges_len - 1, most);
	for (i = 0; i < t->edges_len; i++) {
		if (!isfinite(t->edges[i]))
			return fault(a->f, -EINVAL, "edge %" PRIu32 " of the histogram is not finite", i);
		if (i && t->edges[i] <= t->edges[i - 1])
			return fault(a->f, -EINVAL, "edge %" PRIu32 " of the histogram is not above the one before", i);
	}
	return 0;
}

static int check_candidates(const struct admission *a)
{
	const struct capkm_observe_transform *t = &a->selection->transform;
	const struct capkm_observe_axis *last;

	if (!t->count)
		return fault(a->f, -EINVAL, "count of top candidates must not be 0");
	if (strcmp(a->selection->path, CAPKM_OBSERVE_LOGITS))
		return fault(a->f, -EINVAL, "top candidates are of the point '%s' only, not of '%.60s'",
			     CAPKM_OBSERVE_LOGITS, a->selection->path);
	if (a->selection->slices_len)
		return fault(a->f, -EINVAL, "top candidates are of the whole last row: there must be no slices");
	if (a->request->batch != 1)
		return fault(a->f, -EOPNOTSUPP, "top candidates are of a batch of 1 only");
	if (!a->point->axes || !a->point->axes_len)
		return 0;
	last = &a->point->axes[a->point->axes_len - 1];
	if (last->dimension.kind == CAPKM_EXTENT_KNOWN &&
	    t->count > last->dimension.value)
		return fault(a->f, -EINVAL, "%" PRIu64 " top candidates of %" PRIu64,
			     t->count, last->dimension.value);
	return 0;
}

static int check_parameters(const struct admission *a)
{
	switch (a->selection->transform.kind) {
	case CAPKM_TRANSFORM_SLICE:
		return a->selection->slices_len ? 0 :
			fault(a->f, -EINVAL, "the transform 'slice' needs slices; 'full_tensor' is all of it");
	case CAPKM_TRANSFORM_HISTOGRAM:
		return check_edges(a);
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		return check_candidates(a);
	default:
		return 0;
	}
}

static int check_slices(const struct admission *a)
{
	const struct capkm_observe_slice *slices = a->selection->slices;
	uint32_t i, j;

	for (i = 0; i < a->selection->slices_len; i++) {
		if (!slices[i].stride)
			return fault(a->f, -EINVAL, "the stride of the slice of axis '%.60s' must not be 0",
				     slices[i].axis);
		if (slices[i].start > slices[i].end)
			return fault(a->f, -EINVAL, "the slice of axis '%.60s' ends at %" PRIu64 ", below its start %" PRIu64,
				     slices[i].axis, slices[i].end,
				     slices[i].start);
		for (j = 0; j < i; j++)
			if (!strcmp(slices[i].axis, slices[j].axis))
				return fault(a->f, -EINVAL, "two slices are of axis '%.60s'",
					     slices[i].axis);
		if (find_axis(a->point, slices[i].axis) < 0)
			return fault(a->f, -EINVAL, "the point '%.60s' has no axis '%.60s'",
				     a->point->path, slices[i].axis);
	}
	return 0;
}

/* Also where another axis is not known. */
static int check_ends(const struct admission *a, uint32_t phase,
		      uint64_t prediction)
{
	const struct capkm_observe_slice *slice = a->selection->slices;
	const struct capkm_observe_axis *axis;
	uint64_t most;
	uint32_t i;
	bool known;
	int rc;

	for (i = 0; i < a->selection->slices_len; i++, slice++) {
		axis = &a->point->axes[find_axis(a->point, slice->axis)];
		rc = extent(&axis->dimension, a->request, phase, prediction,
			    &known, &most, a->f);
		if (rc)
			return rc;
		if (known && slice->end > most)
			return fault(a->f, -EINVAL, "the slice of axis '%.60s' ends at %" PRIu64 ", the axis at %" PRIu64 " at prediction %" PRIu64,
				     slice->axis, slice->end, most, prediction);
	}
	return 0;
}

static int check_at(const struct admission *a, uint32_t phase,
		    uint64_t prediction)
{
	struct capkm_observe_geometry geometry;
	struct shape shape;
	bool known;
	int rc = check_ends(a, phase, prediction);

	if (!rc)
		rc = resolve(a->point, a->request, phase, prediction, &known,
			     &shape, a->f);
	if (!rc && known)
		rc = resolve_slices(a->point, a->selection, &shape, &geometry,
				    a->f);
	return rc;
}

/* Extents only grow with the predictions, or do not change. */
static int check_geometry(const struct admission *a)
{
	const struct capkm_observe_schedule *s = &a->selection->schedule;
	uint64_t count, last;
	uint32_t phase;
	int rc;

	for (phase = CAPKM_PREFILL; phase <= CAPKM_DECODE; phase++) {
		rc = schedule_count(s, phase, 0, a->request->max_predictions,
				    &count, &last, a->f);
		if (!rc && count)
			rc = check_at(a, phase, last - (count - 1) * s->every);
		if (!rc && count)
			rc = check_at(a, phase, last);
		if (rc)
			return rc;
	}
	return 0;
}

static int admit_selection(struct admission *a)
{
	int rc = check_id(a);

	if (!rc)
		rc = find_point(a);
	if (!rc)
		rc = check_transform(a);
	if (!rc)
		rc = schedule_check(&a->selection->schedule, a->f);
	if (!rc)
		rc = check_support(a);
	if (!rc)
		rc = check_parameters(a);
	if (!rc)
		rc = check_slices(a);
	return rc ? rc : check_geometry(a);
}

static int admit_all(struct admission *a, struct capkm_observe_point *points)
{
	uint32_t i;
	int rc = check_versions(a);

	if (!rc && a->plan->limits.physical_native_bytes.present &&
	    !a->discovery->capture.physical_native_limit)
		rc = fault(a->f, -EOPNOTSUPP, "the backend cannot keep physical_native_bytes");
	if (!rc)
		rc = request_check(a->request, a->f);
	for (i = 0; !rc && i < a->plan->selections_len; i++) {
		a->selection = &a->plan->selections[i];
		rc = admit_selection(a);
		if (rc)
			a->f->index = i;
		else
			points[i] = *a->point;
	}
	return rc;
}

void identity_of(const char *text, size_t len,
		 char identity[CAPKM_OBSERVE_IDENTITY])
{
	SHA256Data((const uint8_t *)text, len, identity);
}

static int identify(struct capkm_observe_admitted *admitted, struct fault *f)
{
	struct sink sink = { 0 };
	uint32_t i;
	int rc;

	sink_add(&sink, "[", 1);
	encode(&sink, &type_plan, &admitted->plan);
	sink_add(&sink, ",[", 2);
	for (i = 0; i < admitted->points_len; i++) {
		if (i)
			sink_add(&sink, ",", 1);
		encode(&sink, &type_point, &admitted->points[i]);
	}
	sink_add(&sink, "],", 2);
	encode(&sink, &type_request, &admitted->request);
	sink_add(&sink, "]", 1);
	rc = sink.rc ? fault_no_memory(f) : 0;
	if (!rc)
		identity_of(sink.data, sink.len, admitted->identity);
	free(sink.data);
	return rc;
}

int admit(const struct capkm_observe_plan *plan,
	  const struct capkm_observe_discovery *discovery,
	  const struct capkm_observe_request *request,
	  struct capkm_observe_admitted **admitted, struct fault *f)
{
	struct admission a = {
		.plan = plan, .discovery = discovery, .request = request, .f = f,
	};
	struct capkm_observe_admitted all = {
		.plan = *plan, .request = *request,
	};
	struct capkm_observe_point *points;
	void *copy = NULL;
	int rc;

	rc = encode_check(&type_plan, plan, CAPKM_OBSERVE_JSON,
			  "the plan", f);
	if (!rc)
		rc = encode_check(&type_discovery, discovery, SIZE_MAX,
				  "the discovery", f);
	if (rc)
		return rc;
	points = calloc((size_t)plan->selections_len + 1, sizeof(*points));
	if (!points)
		return fault_no_memory(f);
	all.points = points;
	all.points_len = plan->selections_len;
	rc = admit_all(&a, points);
	if (!rc)
		rc = copy_box(&type_admitted, &all, &copy, f);
	free(points);
	if (!rc)
		rc = identify(copy, f);
	if (rc)
		box_free(copy);
	else
		*admitted = copy;
	return rc;
}

int readmit(const struct capkm_observe_admitted *admitted,
	    const struct capkm_observe_discovery *discovery, struct fault *f)
{
	struct capkm_observe_admitted *again;
	bool same;
	int rc = admit(&admitted->plan, discovery, &admitted->request, &again, f);

	if (rc)
		return rc;
	same = !strcmp(again->identity, admitted->identity);
	box_free(again);
	return same ? 0 : fault(f, -EINVAL, "the plan was admitted to another catalog");
}

int capkm_observe_admit(const struct capkm_observe_plan *plan,
			const struct capkm_observe_discovery *discovery,
			const struct capkm_observe_request *request,
			struct capkm_observe_admitted **admitted,
			struct capkm_error *err)
{
	struct fault f = { 0 };

	admit(plan, discovery, request, admitted, &f);
	return fault_tell(&f, "observe_admit", err);
}

void capkm_observe_admitted_free(struct capkm_observe_admitted *admitted)
{
	box_free(admitted);
}

const struct capkm_observe_plan *
capkm_observe_admitted_plan(const struct capkm_observe_admitted *admitted)
{
	return &admitted->plan;
}

const struct capkm_observe_point *
capkm_observe_admitted_points(const struct capkm_observe_admitted *admitted)
{
	return admitted->points;
}

const struct capkm_observe_request *
capkm_observe_admitted_request(const struct capkm_observe_admitted *admitted)
{
	return &admitted->request;
}

const char *
capkm_observe_admitted_identity(const struct capkm_observe_admitted *admitted)
{
	return admitted->identity;
}

bool capkm_observe_admitted_is_empty(const struct capkm_observe_admitted *admitted)
{
	return !admitted->plan.selections_len;
}
