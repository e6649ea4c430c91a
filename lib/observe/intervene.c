// SPDX-License-Identifier: MIT
/* Interventions in a session: tensors are replaced by others, records say how. */
#include "session.h"

#include <inttypes.h>
#include <string.h>

/* enabling */

/* Those of routing are done by the router. */
static bool changes_tensors(const struct capkm_intervene_admitted *a)
{
	uint32_t i;

	for (i = 0; i < a->points_len; i++)
		if (!is_routing(&a->points[i]))
			return true;
	return false;
}

int session_intervene(struct capkm_observe *s,
		      const struct capkm_intervene_admitted *admitted,
		      struct fault *f)
{
	if (!admitted->points_len)
		return 0;
	if (changes_tensors(admitted) &&
	    (!s->backend.apply || !s->backend.release))
		return fault(f, -EOPNOTSUPP, "the backend changes no tensors: it needs apply and release");
	return intervene_copy(admitted, &s->interventions, f);
}

static int enable(struct capkm_observe *s,
		  const struct capkm_intervene_admitted *admitted,
		  struct fault *f)
{
	const struct capkm_usage nothing = { 0 };
	struct capkm_ledger_query query;
	int rc;

	if (s->interventions)
		return fault(f, -EINVAL, "the session has interventions already");
	if (s->at.has_step)
		return fault(f, -EINVAL, "the session's first step has begun");
	if (!same_request(&s->admitted->request, &admitted->request))
		return fault(f, -EINVAL, "what is observed and what is changed were admitted for different requests");
	rc = session_usage(s, &query, f);
	if (rc)
		return rc;
	if (usage_exceeds(&query.out_total, &nothing) != CAPKM_AXIS_NONE)
		return fault(f, -EINVAL, "the session's ledger has been charged");
	return session_intervene(s, admitted, f);
}

int capkm_intervene_enable(struct capkm_observe *session,
			   const struct capkm_intervene_admitted *admitted,
			   struct capkm_error *err)
{
	struct fault f = { 0 };

	enable(session, admitted, &f);
	return fault_tell(&f, "intervene_enable", err);
}

const struct capkm_intervene_admitted *
capkm_intervene_session_plan(const struct capkm_observe *session)
{
	return session->interventions;
}

/* steps */

static int begin_evidence(struct capkm_observe *s, uint32_t i,
			  struct capkm_intervene_record *record, struct fault *f)
{
	const struct operation *o = &s->interventions->operations[i];
	struct capkm_observe_record *evidence =
		arena_alloc(box_arena(s->step), o->evidence_len,
			    sizeof(*evidence));
	uint32_t j;
	int rc = evidence ? 0 : fault_no_memory(f);

	for (j = 0; !rc && j < o->evidence_len; j++) {
		rc = record_begin(s, &o->evidence[j].selection,
				  &o->evidence[j].point, s->at.phase,
				  s->at.prediction, &evidence[j], f);
		if (!rc)
			rc = record_own(s->step, &evidence[j], f);
	}
	record->evidence = evidence;
	record->evidence_len = o->evidence_len;
	return rc;
}

static int begin_operation(struct capkm_observe *s, uint32_t i,
			   struct capkm_intervene_record *record,
			   struct fault *f)
{
	const struct capkm_intervene_admitted *a = s->interventions;
	const struct capkm_intervene_operation *op = &a->plan.operations[i];
	const char **const texts[] = {
		&record->operation_id, &record->path, &record->node_id,
		&record->plan_identity,
	};
	int rc;

	*record = (struct capkm_intervene_record){
		.schema_version = CAPKM_INTERVENE_SCHEMA,
		.operation_id = op->id,
		.path = a->points[i].path,
		.node_id = a->points[i].node_id,
		.plan_identity = a->identity,
		.outcome = { .kind = CAPKM_INTERVENTION_INACTIVE },
	};
	if (capkm_observe_includes(&op->schedule, s->at.phase, s->at.prediction))
		record->outcome.kind = CAPKM_INTERVENTION_MISSING;
	rc = usage_of_operation(a, i, &record->charged, f);
	if (!rc)
		rc = session_charge(s, &record->charged, f);
	if (!rc)
		rc = own_texts(s->step, texts, sizeof(texts) / sizeof(*texts), f);
	return rc ? rc : begin_evidence(s, i, record, f);
}

int intervene_begin(struct capkm_observe *s, struct fault *f)
{
	const uint32_t len = s->interventions ? s->interventions->points_len : 0;
	struct capkm_intervene_record *records;
	uint32_t i;
	int rc = 0;

	if (!len)
		return 0;
	records = arena_alloc(box_arena(s->step), len, sizeof(*records));
	if (!records)
		return fault_no_memory(f);
	for (i = 0; !rc && i < len; i++)
		rc = begin_operation(s, i, &records[i], f);
	if (rc)
		return rc;
	s->step->interventions = records;
	s->step->interventions_len = len;
	return 0;
}

int operations_have_begun(const struct capkm_observe *s, struct fault *f)
{
	if (!s->step)
		return fault(f, -EINVAL, "no step has begun");
	if (s->interventions && !s->step->interventions_len)
		return fault(f, -EINVAL, "the step has no records of interventions: they could not be charged");
	return 0;
}

int intervene_check(const struct capkm_observe *s, struct fault *f)
{
	const struct capkm_intervene_record *r;
	uint32_t i;
	int rc = operations_have_begun(s, f);

	if (rc)
		return rc;
	if (s->routes)
		return fault(f, -EINVAL, "a router was told of operation '%.128s' and has not been heard of",
			     s->interventions->plan.operations[s->routed].id);
	for (i = 0; i < s->step->interventions_len; i++) {
		r = &s->step->interventions[i];
		if (r->outcome.kind == CAPKM_INTERVENTION_MISSING)
			rc = fault(f, -EINVAL, "operation '%.128s' was due, and its target '%.60s' did not come up",
				   r->operation_id, r->path);
		else if (r->outcome.kind == CAPKM_INTERVENTION_FAILED)
			rc = fault(f, -EINVAL, "operation '%.128s' failed: %s",
				   r->operation_id, r->outcome.message);
		if (rc) {
			f->index = i;
			return rc;
		}
	}
	return 0;
}

int capkm_intervene_finish(const struct capkm_observe *session,
			   struct capkm_error *err)
{
	struct fault f = { 0 };

	intervene_check(session, &f);
	return fault_tell(&f, "intervene_finish", err);
}

/* operations */

int operation_is_due(const struct capkm_observe *s, uint32_t i, struct fault *f)
{
	const struct capkm_intervene_record *r = &s->step->interventions[i];

	if (r->outcome.kind == CAPKM_INTERVENTION_MISSING)
		return 0;
	fault(f, -EINVAL, "operation '%.128s' was done before in this step",
	      r->operation_id);
	f->index = i;
	return f->rc;
}

int operation_settle(struct capkm_observe *s, uint32_t i, int rc,
		     struct fault *f)
{
	struct capkm_intervene_outcome *outcome = &intervention(s, i)->outcome;

	outcome->kind = rc ? CAPKM_INTERVENTION_FAILED :
			     CAPKM_INTERVENTION_APPLIED;
	if (rc) {
		outcome->message = message_of(box_arena(s->step), f->text);
		f->index = i;
	}
	return rc;
}

int operation_witness(struct capkm_observe *s, uint32_t i, uint32_t j,
		      const void *tensor, struct fault *f)
{
	const struct evidence *e = &s->interventions->operations[i].evidence[j];
	struct capkm_observe_record *record =
		(struct capkm_observe_record *)&intervention(s, i)->evidence[j];
	struct capkm_observe_why *why = &record->outcome.reason;
	int rc = record_capture(s, &e->selection, &e->point, record, tensor, f);

	/* The plan is supported: it is this tensor that is not right. */
	if (rc && why->kind == CAPKM_REASON_UNSUPPORTED)
		why->kind = CAPKM_REASON_INVALID;
	return rc;
}

/* tensors */

struct change {
	struct capkm_observe *s;
	uint32_t i;
	const struct capkm_intervene_operation *op;
	const struct capkm_intervene_point *point;
	const struct evidence *region;
	const void *tensor;
	struct capkm_observe_geometry geometry;
	void *out;
	struct fault *f;
};

static int check_dtype(const struct change *c, uint32_t dtype)
{
	const uint32_t expected = dtype_of(&c->op->action);
	const char *is = dtype && dtype < type_dtype.names_len ?
			 type_dtype.names[dtype] : "another dtype";

	return dtype == expected ? 0 :
	       fault(c->f, -EINVAL, "the tensor is %s; the operation is for %s",
		     is, type_dtype.names[expected]);
}

static int fits(const struct change *c)
{
	const struct capkm_observe_geometry *g = &c->geometry;
	struct region r = {
		.full_known = UINT32_MAX, .selected_known = UINT32_MAX,
	};

	memcpy(r.full, g->shape, sizeof(r.full));
	memcpy(r.selected, g->selected, sizeof(r.selected));
	return action_fits(&c->op->action, c->point, &r, c->f);
}

static int measure(struct change *c)
{
	const struct capkm_observe *s = c->s;
	struct shape shape = { 0 };
	uint32_t dtype = CAPKM_DTYPE_UNKNOWN;
	int rc = backend_ready(&s->backend, c->tensor, c->f);

	if (!rc)
		rc = backend_describe(&s->backend, c->tensor, &shape, &dtype,
				      c->f);
	if (!rc)
		rc = check_dtype(c, dtype);
	if (!rc)
		rc = validate_actual(&c->region->point, &s->admitted->request,
				     s->at.phase, s->at.prediction, &shape,
				     c->f);
	if (!rc)
		rc = resolve_slices(&c->region->point, &c->region->selection,
				    &shape, &c->geometry, c->f);
	c->geometry.dtype = dtype;
	return rc ? rc : fits(c);
}

/* The model must not see that it is another one. */
static int conforms(const struct change *c)
{
	const struct capkm_observe_geometry *g = &c->geometry;
	struct shape shape = { 0 };
	uint32_t dtype = CAPKM_DTYPE_UNKNOWN;
	int rc = backend_describe(&c->s->backend, c->out, &shape, &dtype, c->f);

	if (rc)
		return rc;
	if (dtype == g->dtype && shape.rank == g->rank &&
	    !memcmp(shape.extents, g->shape, g->rank * sizeof(*g->shape)))
		return 0;
	return fault(c->f, -EINVAL, "the backend made a tensor of another shape or dtype");
}

static int change(struct change *c)
{
	const struct capkm_observe_backend *b = &c->s->backend;
	void *out;
	int rc = backend_apply(b, c->tensor, &c->geometry, &c->op->action, &out,
			       c->f);

	if (rc)
		return rc;
	if (!out || out == c->tensor)
		return fault(c->f, -EINVAL, "the backend made no other tensor");
	c->out = out;
	return conforms(c);
}

static int witness(const struct change *c, uint32_t j, const void *tensor)
{
	return j < c->s->interventions->operations[c->i].evidence_len ?
	       operation_witness(c->s, c->i, j, tensor, c->f) : 0;
}

/* One operation. Nothing is made if it fails. */
static int operate(struct capkm_observe *s, uint32_t i, const void *tensor,
		   void **out, struct fault *f)
{
	struct change c = {
		.s = s, .i = i,
		.op = &s->interventions->plan.operations[i],
		.point = &s->interventions->points[i],
		.region = &s->interventions->operations[i].region,
		.tensor = tensor, .f = f,
	};
	int rc = operation_is_due(s, i, f);

	if (rc)
		return rc;
	rc = measure(&c);
	if (!rc)
		rc = witness(&c, 0, tensor);
	if (!rc)
		rc = change(&c);
	if (!rc)
		rc = witness(&c, 1, c.out);
	if (rc)
		backend_release(&s->backend, c.out);
	else
		*out = c.out;
	return operation_settle(s, i, rc, f);
}

/* An original that is looked at later would be none. */
static int originals_are_observed(const struct capkm_observe *s,
				  const char *path, struct fault *f)
{
	const struct capkm_observe_record *r;
	uint32_t i;

	for (i = 0; i < s->step->records_len; i++) {
		r = &s->step->records[i];
		if (!strcmp(r->path, path) &&
		    r->position == CAPKM_POSITION_BEFORE_INTERVENTION &&
		    r->outcome.kind == CAPKM_OUTCOME_MISSING)
			return fault(f, -EINVAL, "'%.120s' must be observed before it is changed",
				     path);
	}
	return 0;
}

static bool is_active(const struct capkm_observe *s, uint32_t i,
		      const char *path)
{
	const struct capkm_intervene_record *r = &s->step->interventions[i];

	return !is_routing(&s->interventions->points[i]) &&
	       r->outcome.kind != CAPKM_INTERVENTION_INACTIVE &&
	       !strcmp(r->path, path);
}

/* Each one works on what the one before has made. */
static int intervene(struct capkm_observe *s, const char *path,
		     const void *tensor, void **replacement, struct fault *f)
{
	void *last = NULL, *next = NULL;
	uint32_t i;
	int rc = operations_have_begun(s, f);

	if (rc)
		return rc;
	for (i = 0; !rc && i < s->step->interventions_len; i++) {
		if (!is_active(s, i, path))
			continue;
		if (!last)
			rc = originals_are_observed(s, path, f);
		if (!rc)
			rc = operate(s, i, last ? last : tensor, &next, f);
		if (rc)
			break;
		backend_release(&s->backend, last);
		last = next;
	}
	if (rc)
		backend_release(&s->backend, last);
	else
		*replacement = last;
	return rc;
}

int capkm_intervene_tensor(struct capkm_observe *session, const char *path,
			   const void *tensor, void **replacement,
			   struct capkm_error *err)
{
	struct fault f = { 0 };

	*replacement = NULL;
	intervene(session, path, tensor, replacement, &f);
	return fault_tell(&f, "intervene_tensor", err);
}
