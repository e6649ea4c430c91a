// SPDX-License-Identifier: MIT
/* Holds a plan of interventions against a discovery. The order is part of it. */
#include "intervene.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct admission {
	const struct capkm_intervene_plan *plan;
	const struct capkm_intervene_discovery *discovery;
	const struct capkm_observe_request *request;
	const char *session_id;
	const struct capkm_intervene_operation *op;
	const struct capkm_intervene_point *point;
	uint64_t payload;			/* bytes of values so far */
	struct fault *f;
};

/* of the whole */

static int check_versions(const struct admission *a)
{
	const bool plan = a->plan->schema_version != CAPKM_INTERVENE_SCHEMA;

	if (!plan && a->discovery->schema_version == CAPKM_INTERVENE_SCHEMA)
		return 0;
	return fault(a->f, -EINVAL, "the schema_version of the %s is %" PRIu32 ", not %u",
		     plan ? "plan" : "discovery",
		     plan ? a->plan->schema_version :
			    a->discovery->schema_version,
		     CAPKM_INTERVENE_SCHEMA);
}

static int check_identities(const struct admission *a)
{
	if (!a->session_id || !*a->session_id || !utf8_is(a->session_id))
		return fault(a->f, -EINVAL, "the session needs a name, in UTF-8");
	if (!*a->discovery->artifact_identity)
		return fault(a->f, -EINVAL, "the discovery names no model");
	if (!*a->discovery->session_identity)
		return fault(a->f, -EINVAL, "the discovery is of a model that does not run");
	return 0;
}

static int check_operations(const struct admission *a)
{
	const uint32_t n = a->plan->operations_len;

	return n <= CAPKM_INTERVENE_OPERATIONS ? 0 :
	       fault(a->f, -EINVAL, "%" PRIu32 " operations; at most %u are supported",
		     n, CAPKM_INTERVENE_OPERATIONS);
}

static int check_size(const struct admission *a)
{
	struct sink sink = { .counts = true, .limit = CAPKM_INTERVENE_JSON };

	return encode(&sink, &type_intervene_plan, a->plan) ?
	       fault(a->f, -EINVAL, "the plan's JSON has more than %u bytes",
		     CAPKM_INTERVENE_JSON) : 0;
}

/* of an operation */

static int check_text(const struct admission *a, const char *text,
		      const char *what, size_t most)
{
	const size_t len = strlen(text);

	return len && len <= most ? 0 :
	       fault(a->f, -EINVAL, "the %s has %zu bytes; 1 to %zu are supported",
		     what, len, most);
}

static int check_id(const struct admission *a)
{
	const struct capkm_intervene_operation *other = a->plan->operations;
	int rc = check_text(a, a->op->id, "id of an operation",
			    CAPKM_INTERVENE_ID);

	for (; !rc && other < a->op; other++)
		if (!strcmp(other->id, a->op->id))
			rc = fault(a->f, -EINVAL, "two operations have the id '%.60s'",
				   other->id);
	return rc;
}

static int check_payload(struct admission *a)
{
	a->payload += payload_of(&a->op->action);
	return a->payload <= CAPKM_INTERVENE_PAYLOAD ? 0 :
	       fault(a->f, -EINVAL, "the values of the plan have more than %u bytes",
		     CAPKM_INTERVENE_PAYLOAD);
}

static int find_point(struct admission *a)
{
	const struct capkm_intervene_discovery *d = a->discovery;
	uint32_t i;

	a->point = NULL;
	for (i = 0; i < d->points_len; i++) {
		if (strcmp(d->points[i].path, a->op->target))
			continue;
		if (a->point)
			return fault(a->f, -EINVAL, "two points have the path '%.120s'",
				     a->op->target);
		a->point = &d->points[i];
	}
	return a->point ? 0 :
	       fault(a->f, -ENOENT, "there is no point of interventions '%.120s'",
		     a->op->target);
}

static int check_axes(const struct admission *a)
{
	const struct capkm_intervene_point *p = a->point;
	uint32_t i;

	if (!p->axes_len || p->axes_len > CAPKM_OBSERVE_RANK)
		return fault(a->f, -EINVAL, "'%.60s' has %" PRIu32 " axes; 1 to %u are supported",
			     p->path, p->axes_len, CAPKM_OBSERVE_RANK);
	for (i = 0; i < p->axes_len; i++)
		if (point_axis(p, p->axes[i].name) != (int)i)
			return fault(a->f, -EINVAL, "two axes of '%.60s' are '%.60s'",
				     p->path, p->axes[i].name);
	return 0;
}

static bool is_valid(const struct capkm_intervene_routing *r)
{
	return r->expert_count && r->top_k && r->top_k <= r->expert_count &&
	       r->groups && !(r->expert_count % r->groups) &&
	       r->selected_groups && r->selected_groups <= r->groups &&
	       r->top_k <= (uint64_t)r->selected_groups *
			   (r->expert_count / r->groups) &&
	       isfinite(r->epsilon) && r->epsilon >= 0 &&
	       isfinite(r->coefficient_scale) && r->coefficient_scale > 0;
}

static int check_routing(const struct admission *a)
{
	const struct capkm_intervene_point *p = a->point;

	if (is_routing(p) != (p->routing != NULL))
		return fault(a->f, -EINVAL, "'%.60s' must have a policy of routing if it is a point of routing, and only then",
			     p->path);
	if (!p->routing)
		return 0;
	if (!is_valid(p->routing))
		return fault(a->f, -EINVAL, "the policy of routing of '%.60s' contradicts itself",
			     p->path);
	return point_axis(p, "token") < 0 ?
	       fault(a->f, -EINVAL, "'%.60s' has no axis 'token'", p->path) : 0;
}

static int check_point(const struct admission *a)
{
	int rc = check_text(a, a->point->node_id, "node_id of a point",
			    CAPKM_INTERVENE_TARGET);

	if (!rc)
		rc = check_axes(a);
	return rc ? rc : check_routing(a);
}

static bool has(const uint32_t *list, uint32_t len, uint32_t value)
{
	while (len)
		if (list[--len] == value)
			return true;
	return false;
}

static int check_kind(const struct admission *a)
{
	const struct capkm_intervene_point *p = a->point;
	const uint32_t kind = a->op->action.kind;

	return has(p->operations, p->operations_len, kind) ? 0 :
	       fault(a->f, -EOPNOTSUPP, "'%.60s' has no operation '%s'", p->path,
		     type_intervene_kind.names[kind]);
}

static int check_slice(const struct admission *a,
		       const struct capkm_observe_slice *slice)
{
	const struct capkm_observe_slice *other = a->op->slices;
	const char *axis = slice->axis;

	if (point_axis(a->point, axis) < 0)
		return fault(a->f, -EINVAL, "the point '%.60s' has no axis '%.60s'",
			     a->point->path, axis);
	for (; other < slice; other++)
		if (!strcmp(other->axis, axis))
			return fault(a->f, -EINVAL, "two slices are of axis '%.60s'",
				     axis);
	if (!slice->stride || slice->start >= slice->end)
		return fault(a->f, -EINVAL, "the slice of axis '%.60s' needs a stride above 0, and an end above its start",
			     axis);
	if (is_routing(a->point) && strcmp(axis, "token"))
		return fault(a->f, -EINVAL, "routing can be sliced along 'token' only, not '%.60s'",
			     axis);
	if (a->op->action.kind == CAPKM_ACTION_MASK_LOGITS &&
	    !strcmp(axis, "vocabulary"))
		return fault(a->f, -EINVAL, "what masks logits has no slice of 'vocabulary': its ids are of all of it");
	return 0;
}

static int check_slices(const struct admission *a)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < a->op->slices_len; i++)
		rc = check_slice(a, &a->op->slices[i]);
	return rc;
}

static int check_dtype(const struct admission *a)
{
	const struct capkm_intervene_point *p = a->point;
	const uint32_t dtype = dtype_of(&a->op->action);
	const bool routes = a->op->action.kind >= CAPKM_ACTION_EXCLUDE_EXPERTS;

	if (routes != is_routing(p))
		return fault(a->f, -EINVAL, "'%s' is no operation of '%.60s', which is of stage %s",
			     type_intervene_kind.names[a->op->action.kind],
			     p->path, type_intervene_stage.names[p->stage]);
	return routes || has(p->dtypes, p->dtypes_len, dtype) ? 0 :
	       fault(a->f, -EOPNOTSUPP, "'%.60s' is never a %s", p->path,
		     type_dtype.names[dtype]);
}

static int check_evidence(const struct admission *a)
{
	const struct capkm_intervene_evidence *e = &a->op->evidence;

	if (e->kind == CAPKM_EVIDENCE_PREVIEW &&
	    (!e->max_elements || e->max_elements > CAPKM_INTERVENE_PREVIEW))
		return fault(a->f, -EINVAL, "a preview of %" PRIu64 " elements; 1 to %u are supported",
			     e->max_elements, CAPKM_INTERVENE_PREVIEW);
	if (e->kind == CAPKM_EVIDENCE_SUMMARY && is_routing(a->point))
		return fault(a->f, -EINVAL, "there is no summary of routing");
	return 0;
}

static int select_axis(const struct admission *a, uint32_t i, uint32_t phase,
		       uint64_t prediction, struct region *r)
{
	const struct capkm_observe_axis *axis = &a->point->axes[i];
	const struct capkm_observe_slice *s = a->op->slices;
	const uint32_t bit = 1u << i;
	uint64_t n;
	bool known;
	int rc = extent(&axis->dimension, a->request, phase, prediction, &known,
			&r->full[i], a->f);

	if (rc)
		return rc;
	r->selected[i] = r->full[i];
	if (known) {
		r->full_known |= bit;
		r->selected_known |= bit;
	}
	while (s < a->op->slices + a->op->slices_len && strcmp(s->axis, axis->name))
		s++;
	if (s == a->op->slices + a->op->slices_len)
		return 0;
	if (known && s->end > r->full[i])
		return fault(a->f, -EINVAL, "the slice of axis '%.60s' ends at %" PRIu64 ", the axis at %" PRIu64 " at prediction %" PRIu64,
			     s->axis, s->end, r->full[i], prediction);
	n = s->end - s->start;
	r->selected[i] = n / s->stride + !!(n % s->stride);
	r->selected_known |= bit;
	return 0;
}

static int check_at(const struct admission *a, uint32_t phase,
		    uint64_t prediction)
{
	const uint32_t rank = a->point->axes_len;
	const uint32_t all = UINT32_MAX >> (CAPKM_OBSERVE_RANK - rank);
	struct region r = { 0 };
	uint64_t n;
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < rank; i++)
		rc = select_axis(a, i, phase, prediction, &r);
	if (!rc && r.full_known == all)
		rc = elements(r.full, rank, &n, a->f);
	return rc ? rc : action_fits(&a->op->action, a->point, &r, a->f);
}

static int check_phase(const struct admission *a, uint32_t phase)
{
	const struct capkm_observe_support *support =
		phase == CAPKM_PREFILL ? &a->point->prefill : &a->point->decode;

	if (support->status == CAPKM_SUPPORTED)
		return 0;
	return fault(a->f, -EOPNOTSUPP, "'%.60s' at %s is %s: %.160s",
		     a->point->path, type_phase.names[phase],
		     type_support.names[support->status], support->reason);
}

/* Predictions at which an operation comes up in a phase. False: never. */
static int times_of(const struct admission *a,
		    const struct capkm_intervene_operation *op, uint32_t phase,
		    bool *any, uint64_t *first, uint64_t *last)
{
	uint64_t count;
	int rc = schedule_count(&op->schedule, phase, 0,
				a->request->max_predictions, &count, last, a->f);

	*any = !rc && count;
	*first = *any ? *last - (count - 1) * op->schedule.every : 0;
	return rc;
}

/* Extents only grow with the predictions, or do not change. */
static int check_geometry(const struct admission *a, uint32_t phase)
{
	uint64_t first, last;
	bool any;
	int rc = times_of(a, a->op, phase, &any, &first, &last);

	if (rc || !any)
		return rc;
	rc = check_at(a, phase, first);
	return rc ? rc : check_at(a, phase, last);
}

static int check_phases(const struct admission *a)
{
	uint64_t first, last;
	uint32_t phase;
	bool any;
	int rc = 0;

	for (phase = CAPKM_PREFILL; !rc && phase <= CAPKM_DECODE; phase++) {
		rc = times_of(a, a->op, phase, &any, &first, &last);
		if (!rc && any)
			rc = check_phase(a, phase);
	}
	for (phase = CAPKM_PREFILL; !rc && phase <= CAPKM_DECODE; phase++)
		rc = check_geometry(a, phase);
	return rc;
}

static int check_operation(struct admission *a)
{
	int rc = check_id(a);

	if (!rc)
		rc = check_text(a, a->op->target, "target of an operation",
				CAPKM_INTERVENE_TARGET);
	if (!rc)
		rc = check_payload(a);
	if (!rc)
		rc = find_point(a);
	if (!rc)
		rc = check_kind(a);
	if (!rc)
		rc = schedule_check(&a->op->schedule, a->f);
	if (!rc)
		rc = check_point(a);
	if (!rc)
		rc = check_slices(a);
	if (!rc)
		rc = check_dtype(a);
	if (!rc)
		rc = check_evidence(a);
	if (!rc)
		rc = action_check(&a->op->action, a->point, a->f);
	return rc ? rc : check_phases(a);
}

/* of operations together */

/* A router is told of one operation at a time. */
static int overlap(const struct admission *a,
		   const struct capkm_intervene_operation *one,
		   const struct capkm_intervene_operation *other)
{
	uint64_t first[2], last[2];
	bool any[2];
	uint32_t phase;
	int rc = 0;

	for (phase = CAPKM_PREFILL; !rc && phase <= CAPKM_DECODE; phase++) {
		rc = times_of(a, one, phase, &any[0], &first[0], &last[0]);
		if (!rc)
			rc = times_of(a, other, phase, &any[1], &first[1],
				      &last[1]);
		if (!rc && any[0] && any[1] && first[0] <= last[1] &&
		    first[1] <= last[0])
			rc = fault(a->f, -EINVAL, "operations '%.60s' and '%.60s' of one router overlap at %s",
				   other->id, one->id, type_phase.names[phase]);
	}
	return rc;
}

static int check_overlaps(const struct admission *a,
			  const struct capkm_intervene_point *points)
{
	const struct capkm_intervene_operation *ops = a->plan->operations;
	uint32_t i, j;
	int rc = 0;

	for (i = 0; i < a->plan->operations_len; i++) {
		for (j = 0; !rc && is_routing(&points[i]) && j < i; j++)
			if (!strcmp(ops[i].target, ops[j].target))
				rc = overlap(a, &ops[i], &ops[j]);
		if (rc) {
			a->f->index = i;
			break;
		}
	}
	return rc;
}

static int admit_all(struct admission *a, struct capkm_intervene_point *points)
{
	uint32_t i;
	int rc = check_versions(a);

	if (!rc)
		rc = check_identities(a);
	if (!rc)
		rc = request_check(a->request, a->f);
	if (!rc)
		rc = check_operations(a);
	for (i = 0; !rc && i < a->plan->operations_len; i++) {
		a->op = &a->plan->operations[i];
		rc = check_operation(a);
		if (rc)
			a->f->index = i;
		else
			points[i] = *a->point;
	}
	if (!rc)
		rc = check_overlaps(a, points);
	return rc ? rc : check_size(a);
}

/* what was admitted */

/* A point of observation for what is looked at of an operation's. */
static struct evidence view(const struct capkm_intervene_operation *op,
			    const struct capkm_intervene_point *point)
{
	return (struct evidence){
		.selection = {
			.id = op->id, .path = op->target,
			.schedule = op->schedule,
			.slices = op->slices, .slices_len = op->slices_len,
			.transform = {
				.kind = op->evidence.kind == CAPKM_EVIDENCE_SUMMARY ?
					CAPKM_TRANSFORM_SUMMARY :
					CAPKM_TRANSFORM_PREVIEW,
				.max_elements = op->evidence.max_elements,
			},
		},
		.point = {
			.path = point->path, .node_id = point->node_id,
			.meaning = "", .dtype = CAPKM_CLASS_FLOATING,
			.axes = point->axes, .axes_len = point->axes_len,
			.prefill = true, .decode = true,
		},
	};
}

/* Of routing the tensors have one row of experts for each token. */
static int set_axes(struct arena *arena, const struct capkm_intervene_point *point,
		    struct evidence *e, struct fault *f)
{
	const struct capkm_observe_axis chosen = {
		.name = "choice",
		.dimension = {
			.kind = CAPKM_EXTENT_KNOWN,
			.value = point->routing->top_k,
		},
	};
	struct capkm_observe_axis *axes = arena_alloc(arena, 2, sizeof(*axes));

	if (!axes)
		return fault_no_memory(f);
	axes[0] = point->axes[point_axis(point, "token")];
	axes[1] = chosen;
	e->point.axes = axes;
	e->point.axes_len = 2;
	return 0;
}

static int add_evidence(struct arena *arena, struct operation *o,
			const struct capkm_intervene_point *point,
			const char *field, bool after, struct fault *f)
{
	struct evidence *e = &o->evidence[o->evidence_len++];
	const char *when = after ? "after" : "before";
	const size_t len = strlen(o->region.selection.id) + strlen(when) +
			   strlen(field) + 2;
	char *id = arena_alloc(arena, len + 1, 1);

	if (!id)
		return fault_no_memory(f);
	*e = o->region;
	snprintf(id, len + 1, "%s:%s:%s", o->region.selection.id, when, field);
	e->selection.id = id;
	e->point.position = after ? CAPKM_POSITION_AFTER_INTERVENTION :
				    CAPKM_POSITION_BEFORE_INTERVENTION;
	if (!strcmp(field, "ids"))
		e->point.dtype = CAPKM_CLASS_INTEGER;
	return is_routing(point) ? set_axes(arena, point, e, f) : 0;
}

static int derive_operation(struct arena *arena, struct operation *o,
			    const struct capkm_intervene_operation *op,
			    const struct capkm_intervene_point *point,
			    struct fault *f)
{
	static const char *const values[] = { "values", NULL };
	static const char *const routes[] = { "ids", "coefficients", NULL };
	const char *const *fields = is_routing(point) ? routes : values;
	uint32_t when, i;
	int rc = 0;

	o->region = view(op, point);
	if (op->evidence.kind == CAPKM_EVIDENCE_NONE)
		return 0;
	for (when = 0; when < 2; when++)
		for (i = 0; !rc && fields[i]; i++)
			rc = add_evidence(arena, o, point, fields[i], when, f);
	return rc;
}

static int derive(struct capkm_intervene_admitted *a, struct fault *f)
{
	struct arena *arena = box_arena(a);
	struct operation *operations =
		arena_alloc(arena, a->points_len, sizeof(*operations));
	uint32_t i;
	int rc = operations ? 0 : fault_no_memory(f);

	a->operations = operations;
	for (i = 0; !rc && i < a->points_len; i++)
		rc = derive_operation(arena, &operations[i],
				      &a->plan.operations[i], &a->points[i], f);
	return rc;
}

static int box_admitted(const struct capkm_intervene_admitted *all,
			struct capkm_intervene_admitted **admitted,
			struct fault *f)
{
	void *copy;
	int rc = copy_box(&type_intervene_admitted, all, &copy, f);

	if (rc)
		return rc;
	rc = derive(copy, f);
	if (rc)
		box_free(copy);
	else
		*admitted = copy;
	return rc;
}

static int identify(struct capkm_intervene_admitted *a, struct fault *f)
{
	static const char prefix[] = "intervention-v1-";
	const char *const *const names[] = {
		&a->artifact_identity, &a->session_identity, &a->session_id,
	};
	struct sink sink = { 0 };
	uint32_t i;
	int rc;

	sink_add(&sink, "[", 1);
	encode(&sink, &type_intervene_plan, &a->plan);
	sink_add(&sink, ",[", 2);
	for (i = 0; i < a->points_len; i++) {
		if (i)
			sink_add(&sink, ",", 1);
		encode(&sink, &type_intervene_point, &a->points[i]);
	}
	sink_add(&sink, "],", 2);
	encode(&sink, &type_request, &a->request);
	for (i = 0; i < sizeof(names) / sizeof(*names); i++) {
		sink_add(&sink, ",", 1);
		encode(&sink, &type_text, names[i]);
	}
	sink_add(&sink, "]", 1);
	rc = sink.rc ? fault_no_memory(f) : 0;
	if (!rc) {
		memcpy(a->identity, prefix, sizeof(prefix) - 1);
		identity_of(sink.data, sink.len,
			    a->identity + sizeof(prefix) - 1);
	}
	free(sink.data);
	return rc;
}

int intervene_admit(const struct capkm_intervene_plan *plan,
		    const struct capkm_intervene_discovery *discovery,
		    const struct capkm_observe_request *request,
		    const char *session_id,
		    struct capkm_intervene_admitted **admitted,
		    struct fault *f)
{
	struct admission a = {
		.plan = plan, .discovery = discovery, .request = request,
		.session_id = session_id, .f = f,
	};
	struct capkm_intervene_admitted all = {
		.plan = *plan, .request = *request,
		.artifact_identity = discovery->artifact_identity,
		.session_identity = discovery->session_identity,
		.session_id = session_id,
		.points_len = plan->operations_len,
	}, *copy = NULL;
	struct capkm_intervene_point *points;
	int rc = encode_check(&type_intervene_plan, plan, SIZE_MAX,
			      "the plan", f);

	if (!rc)
		rc = encode_check(&type_intervene_discovery, discovery,
				  SIZE_MAX, "the discovery", f);
	if (rc)
		return rc;
	points = calloc((size_t)plan->operations_len + 1, sizeof(*points));
	if (!points)
		return fault_no_memory(f);
	all.points = points;
	rc = admit_all(&a, points);
	if (!rc)
		rc = box_admitted(&all, &copy, f);
	free(points);
	if (!rc)
		rc = identify(copy, f);
	if (rc)
		box_free(copy);
	else
		*admitted = copy;
	return rc;
}

int intervene_readmit(const struct capkm_intervene_admitted *admitted,
		      const struct capkm_intervene_discovery *discovery,
		      struct fault *f)
{
	struct capkm_intervene_admitted *again;
	bool same;
	int rc = intervene_admit(&admitted->plan, discovery, &admitted->request,
				 admitted->session_id, &again, f);

	if (rc)
		return rc;
	same = !strcmp(again->identity, admitted->identity);
	box_free(again);
	return same ? 0 : fault(f, -EINVAL, "the interventions were admitted to another discovery");
}

int intervene_copy(const struct capkm_intervene_admitted *admitted,
		   struct capkm_intervene_admitted **copy, struct fault *f)
{
	int rc = box_admitted(admitted, copy, f);

	if (!rc)
		memcpy((*copy)->identity, admitted->identity,
		       sizeof(admitted->identity));
	return rc;
}

bool same_request(const struct capkm_observe_request *a,
		  const struct capkm_observe_request *b)
{
	return a->batch == b->batch && a->prompt_tokens == b->prompt_tokens &&
	       a->max_predictions == b->max_predictions;
}

/* for the caller */

int capkm_intervene_admit(const struct capkm_intervene_plan *plan,
			  const struct capkm_intervene_discovery *discovery,
			  const struct capkm_observe_request *request,
			  const char *session_id,
			  struct capkm_intervene_admitted **admitted,
			  struct capkm_error *err)
{
	struct fault f = { 0 };

	intervene_admit(plan, discovery, request, session_id, admitted, &f);
	return fault_tell(&f, "intervene_admit", err);
}

void capkm_intervene_admitted_free(struct capkm_intervene_admitted *admitted)
{
	box_free(admitted);
}

const struct capkm_intervene_plan *
capkm_intervene_admitted_plan(const struct capkm_intervene_admitted *admitted)
{
	return &admitted->plan;
}

const struct capkm_intervene_point *
capkm_intervene_admitted_points(const struct capkm_intervene_admitted *admitted)
{
	return admitted->points;
}

const struct capkm_observe_request *
capkm_intervene_admitted_request(const struct capkm_intervene_admitted *admitted)
{
	return &admitted->request;
}

const char *
capkm_intervene_admitted_session(const struct capkm_intervene_admitted *admitted)
{
	return admitted->session_id;
}

const char *
capkm_intervene_admitted_identity(const struct capkm_intervene_admitted *admitted)
{
	return admitted->identity;
}

bool capkm_intervene_admitted_is_empty(const struct capkm_intervene_admitted *admitted)
{
	return !admitted->plan.operations_len;
}
