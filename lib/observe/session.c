// SPDX-License-Identifier: MIT
/* Steps and their records: nothing is kept or copied that was not charged before. */
#include "backend.h"
#include "session.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* opening, closing */

int session_ledger(struct capkm *c, const struct capkm_observe_limits *limits,
		   const struct capkm_usage *inherited, const char *label,
		   uint64_t *ledger, struct fault *f)
{
	struct capkm_ledger_opts opts = {
		.sz = sizeof(opts),
		.on_limit = limits->on_limit,
		.per_step = limits->per_step,
		.cumulative = limits->cumulative,
		.label = label,
	};
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);

	if (inherited)
		opts.inherited = *inherited;
	return capkm_ledger_create(c, &opts, ledger, &err) ? fault_of(f, &err) : 0;
}

int session_new(struct capkm *c, const struct capkm_observe_admitted *admitted,
		const struct capkm_observe_backend *backend,
		struct capkm_observe **out, struct fault *f)
{
	static _Atomic uint64_t owners;
	struct capkm_observe *s = calloc(1, sizeof(*s));
	void *copy = NULL;
	int rc = s ? copy_box(&type_admitted, admitted, &copy, f) :
		     fault_no_memory(f);

	if (rc) {
		free(s);
		return rc;
	}
	s->c = c;
	s->domain = capkm_domain_id(c);
	s->owner = atomic_fetch_add(&owners, 1) + 1;
	s->generation = capkm_generation();
	s->admitted = copy;
	memcpy(s->admitted->identity, admitted->identity,
	       sizeof(admitted->identity));
	s->backend = *backend;
	s->ready = true;
	*out = s;
	return 0;
}

void session_free(struct capkm_observe *s)
{
	if (!s)
		return;
	box_free(s->step);
	box_free(s->interventions);
	box_free(s->admitted);
	free(s);
}

/* All that are open in this process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct capkm_observe *sessions;

int session_open(struct capkm_observe *s, uint64_t ledger, struct fault *f)
{
	struct capkm_observe *other;
	int rc = 0;

	pthread_mutex_lock(&lock);
	for (other = sessions; other; other = other->next)
		if (other->ledger == ledger && other->domain == s->domain)
			rc = fault(f, -EBUSY, "a session of this process has ledger %" PRIu64 " open",
				   ledger);
	if (!rc) {
		s->ledger = ledger;
		s->next = sessions;
		sessions = s;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

static void session_close(struct capkm_observe *s)
{
	struct capkm_observe **p;

	pthread_mutex_lock(&lock);
	for (p = &sessions; *p != s; p = &(*p)->next)
		;
	*p = s->next;
	pthread_mutex_unlock(&lock);
}

int session_here(const struct capkm_observe *s, struct fault *f)
{
	return s->generation == capkm_generation() ? 0 :
	       fault(f, -ECANCELED, "the session was inherited through fork and belongs to the parent");
}

int capkm_observe_open(struct capkm *c,
		       const struct capkm_observe_admitted *admitted,
		       const struct capkm_observe_backend *backend,
		       const struct capkm_observe_opts *opts,
		       struct capkm_observe **session, struct capkm_error *err)
{
	static const char call[] = "observe_open";
	struct capkm_observe_backend b;
	struct capkm_observe_opts o;
	struct capkm_observe *s = NULL;
	struct fault f = { 0 };
	uint64_t ledger;
	int rc = capkm_opts(&o, sizeof(o), opts, call, err);

	if (!rc)
		rc = backend_get(&b, backend, call, err);
	if (rc)
		return rc;
	rc = session_new(c, admitted, &b, &s, &f);
	if (!rc)
		rc = session_ledger(c, &admitted->plan.limits, NULL, o.label,
				    &ledger, &f);
	if (!rc)
		rc = session_open(s, ledger, &f);
	if (!rc)
		*session = s;
	else
		session_free(s);
	return fault_tell(&f, call, err);
}

void capkm_observe_keep(struct capkm_observe *session)
{
	session->keeps = true;
}

/* In a forked child others may have held the lock, and nothing is the child's. */
void capkm_observe_close(struct capkm_observe *session)
{
	struct fault f;

	if (session && !session_here(session, &f)) {
		session_close(session);
		if (!session->keeps)
			capkm_ledger_destroy(session->c, session->ledger, NULL);
	}
	session_free(session);
}

const struct capkm_observe_admitted *
capkm_observe_session_plan(const struct capkm_observe *session)
{
	return session->admitted;
}

uint64_t capkm_observe_ledger(const struct capkm_observe *session)
{
	return session->ledger;
}

/* charging */

static int over(const struct capkm_reservation *r,
		const struct capkm_usage *usage, struct fault *f)
{
	uint64_t sum;

	if (__builtin_add_overflow(r->out_used, usage_on(usage, r->out_axis),
				   &sum))
		sum = UINT64_MAX;
	return fault_limit(f, r->out_axis, r->out_bound, sum, r->out_most);
}

/* -EDQUOT, also if the ledger says to skip: that is for the caller to know. */
int session_charge(const struct capkm_observe *s,
		   const struct capkm_usage *usage, struct fault *f)
{
	struct capkm_reservation answer = CAPKM_OPTS(struct capkm_reservation);
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	int rc = capkm_ledger_reserve(s->c, s->ledger, usage, &answer, &err);

	if (rc == -EDQUOT || (!rc && answer.out_result != CAPKM_CLEAN))
		return over(&answer, usage, f);
	return rc ? fault_of(f, &err) : 0;
}

int session_usage(const struct capkm_observe *s,
		  struct capkm_ledger_query *query, struct fault *f)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);

	*query = (struct capkm_ledger_query){
		.size = sizeof(*query), .ledger = s->ledger,
	};
	return capkm_ledger_query(s->c, query, &err) ? fault_of(f, &err) : 0;
}

/* steps */

static int step_new(const struct capkm_observe *s,
		    struct capkm_observe_step **step,
		    struct capkm_observe_record **records, struct fault *f)
{
	const uint32_t len = s->admitted->points_len;

	*step = box_new(sizeof(**step));
	if (!*step)
		return fault_no_memory(f);
	*records = arena_alloc(box_arena(*step), len, sizeof(**records));
	if (*records) {
		(*step)->records = *records;
		(*step)->records_len = len;
		return 0;
	}
	box_free(*step);
	return fault_no_memory(f);
}

int own_texts(struct capkm_observe_step *step, const char **const *texts,
	      size_t n, struct fault *f)
{
	size_t i;

	for (i = 0; i < n; i++) {
		*texts[i] = arena_text(box_arena(step), *texts[i],
				       strlen(*texts[i]));
		if (!*texts[i])
			return fault_no_memory(f);
	}
	return 0;
}

/* The record of a selection, before there is a value. Texts are the plan's. */
int record_begin(const struct capkm_observe *s,
		 const struct capkm_observe_selection *selection,
		 const struct capkm_observe_point *point, uint32_t phase,
		 uint64_t prediction, struct capkm_observe_record *record,
		 struct fault *f)
{
	int rc;

	*record = (struct capkm_observe_record){
		.schema_version = CAPKM_OBSERVE_SCHEMA,
		.position = point->position,
		.selection_id = selection->id,
		.path = selection->path,
		.node_id = point->node_id,
		.outcome = { .kind = CAPKM_OUTCOME_MISSING },
	};
	if (!capkm_observe_includes(&selection->schedule, phase, prediction))
		record->outcome.kind = CAPKM_OUTCOME_SKIPPED;
	rc = usage_of_record(selection, point, &record->charged, f);
	return rc ? rc : session_charge(s, &record->charged, f);
}

int record_own(struct capkm_observe_step *step,
	       struct capkm_observe_record *record, struct fault *f)
{
	const char **const texts[] = {
		&record->selection_id, &record->path, &record->node_id,
	};

	return own_texts(step, texts, sizeof(texts) / sizeof(*texts), f);
}

static int may_begin(const struct capkm_observe *s, uint32_t phase,
		     uint64_t prediction, struct fault *f)
{
	const uint64_t max = s->admitted->request.max_predictions;
	int rc = session_here(s, f);

	if (rc)
		return rc;
	if (s->step)
		return fault(f, -EINVAL, "the records of prediction %" PRIu64 " are not taken",
			     s->at.prediction);
	if (s->routes)
		return fault(f, -EINVAL, "a router was told what to do and has not been heard of");
	if (phase > CAPKM_DECODE)
		return fault(f, -EINVAL, "phase must be CAPKM_PREFILL or CAPKM_DECODE");
	if (prediction >= max)
		return fault(f, -EINVAL, "prediction %" PRIu64 " of a request of %" PRIu64,
			     prediction, max);
	return 0;
}

static int begin_step(struct capkm_observe *s, uint32_t phase,
		      uint64_t prediction, struct fault *f)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_observe_record *records;
	struct capkm_observe_step *step;
	uint32_t i;
	int rc = may_begin(s, phase, prediction, f);

	if (!rc)
		rc = step_new(s, &step, &records, f);
	if (rc)
		return rc;
	s->ready = false;
	s->at.has_step = true;
	if (capkm_ledger_begin_step(s->c, s->ledger, NULL, &err))
		rc = fault_of(f, &err);
	for (i = 0; !rc && i < step->records_len; i++) {
		rc = record_begin(s, &s->admitted->plan.selections[i],
				  &s->admitted->points[i], phase, prediction,
				  &records[i], f);
		if (!rc)
			rc = record_own(step, &records[i], f);
		if (rc)
			f->index = i;
	}
	if (rc) {
		box_free(step);
		return rc;
	}
	step->phase = phase;
	step->prediction_index = prediction;
	s->at.phase = phase;
	s->at.prediction = prediction;
	s->step = step;
	return intervene_begin(s, f);
}

int capkm_observe_begin_step(struct capkm_observe *session, uint32_t phase,
			     uint64_t prediction, struct capkm_error *err)
{
	struct fault f = { 0 };

	begin_step(session, phase, prediction, &f);
	return fault_tell(&f, "observe_begin_step", err);
}

/* observing */

struct observation {
	const struct capkm_observe *s;
	const struct capkm_observe_selection *selection;
	const struct capkm_observe_point *point;
	struct capkm_observe_record *record;
	struct arena *arena;			/* of the step */
	const void *tensor;
	struct capkm_observe_geometry geometry;
	struct capkm_observe_payload *payload;
	struct fault *f;
};

static int copy_shape(const struct observation *o, const uint64_t *extents,
		      const uint64_t **shape)
{
	const size_t n = o->geometry.rank;
	uint64_t *copy = arena_alloc(o->arena, n, sizeof(*copy));

	if (!copy)
		return fault_no_memory(o->f);
	memcpy(copy, extents, n * sizeof(*copy));
	*shape = copy;
	return 0;
}

/* A forecast was made for the class. */
static int check_class(const struct observation *o, uint32_t dtype)
{
	static const uint32_t classes[] = {
		[CAPKM_DTYPE_UNKNOWN] = CAPKM_CLASS_UNKNOWN,
		[CAPKM_DTYPE_F32] = CAPKM_CLASS_FLOATING,
		[CAPKM_DTYPE_F16] = CAPKM_CLASS_FLOATING,
		[CAPKM_DTYPE_BF16] = CAPKM_CLASS_FLOATING,
		[CAPKM_DTYPE_I64] = CAPKM_CLASS_INTEGER,
		[CAPKM_DTYPE_U64] = CAPKM_CLASS_INTEGER,
		[CAPKM_DTYPE_BOOL] = CAPKM_CLASS_BOOLEAN,
	};
	const uint32_t class = dtype <= CAPKM_DTYPE_BOOL ? classes[dtype] :
							   CAPKM_CLASS_UNKNOWN;

	if (o->point->dtype == CAPKM_CLASS_UNKNOWN || o->point->dtype == class)
		return 0;
	return fault(o->f, -EINVAL, "the tensor is of class '%s', expected '%s'",
		     type_class.names[class], type_class.names[o->point->dtype]);
}

/* What is observed of the tensor, and that it is as the catalog says. */
static int measure(struct observation *o)
{
	const struct capkm_observe_request *request = &o->s->admitted->request;
	const struct position *at = &o->s->at;
	struct shape shape = { 0 };
	uint32_t dtype = CAPKM_DTYPE_UNKNOWN;
	int rc = backend_describe(&o->s->backend, o->tensor, &shape, &dtype,
				  o->f);

	/* All extents of a shape that is known in full are compared here. */
	if (!rc)
		rc = validate_actual(o->point, request, at->phase,
				     at->prediction, &shape, o->f);
	if (!rc)
		rc = check_class(o, dtype);
	if (!rc)
		rc = resolve_slices(o->point, o->selection, &shape,
				    &o->geometry, o->f);
	o->geometry.dtype = dtype;
	return rc;
}

static int note_shapes(struct observation *o)
{
	struct capkm_observe_record *record = o->record;
	int rc = copy_shape(o, o->geometry.shape, &record->source_shape);

	if (!rc)
		rc = copy_shape(o, o->geometry.selected,
				&record->selected_shape);
	record->source_shape_len = record->source_shape ? o->geometry.rank : 0;
	record->selected_shape_len = record->selected_shape ?
				     o->geometry.rank : 0;
	return rc;
}

static uint32_t output_of(uint32_t dtype)
{
	return dtype == CAPKM_DTYPE_F16 || dtype == CAPKM_DTYPE_BF16 ?
	       CAPKM_DTYPE_F32 : dtype;
}

static int room_for_values(struct observation *o)
{
	struct capkm_observe_payload *p = o->payload;
	const uint64_t n = capkm_observe_emitted(&o->geometry);
	uint64_t *shape;
	int rc;

	p->kind = CAPKM_PAYLOAD_TENSOR;
	p->values.dtype = output_of(o->geometry.dtype);
	p->values.len = (uint32_t)n;
	p->values.any = arena_alloc(o->arena, n,
				    capkm_observe_dtype_bytes(p->values.dtype));
	if (!p->values.any)
		return fault_no_memory(o->f);
	if (n == o->geometry.elements) {
		rc = copy_shape(o, o->geometry.selected, &p->shape);
		p->shape_len = rc ? 0 : o->geometry.rank;
		return rc;
	}
	shape = arena_alloc(o->arena, 1, sizeof(*shape));
	if (!shape)
		return fault_no_memory(o->f);
	*shape = n;
	p->shape = shape;
	p->shape_len = 1;
	return 0;
}

static int room_for_counts(struct observation *o)
{
	const struct capkm_observe_transform *t = &o->selection->transform;
	struct capkm_observe_histogram *h = &o->payload->histogram;
	float *edges = arena_alloc(o->arena, t->edges_len, sizeof(*edges));

	o->payload->kind = CAPKM_PAYLOAD_HISTOGRAM;
	h->counts = arena_alloc(o->arena, t->edges_len - 1, sizeof(*h->counts));
	if (!edges || !h->counts)
		return fault_no_memory(o->f);
	memcpy(edges, t->edges, t->edges_len * sizeof(*edges));
	h->edges = edges;
	h->edges_len = t->edges_len;
	h->counts_len = t->edges_len - 1;
	return 0;
}

static int room_for_candidates(struct observation *o)
{
	struct capkm_observe_candidates *c = &o->payload->candidates;
	const uint64_t count = o->selection->transform.count;

	o->payload->kind = CAPKM_PAYLOAD_CANDIDATES;
	c->source = o->point->position == CAPKM_POSITION_AFTER_INTERVENTION ?
		    CAPKM_SOURCE_EFFECTIVE : CAPKM_SOURCE_ORIGINAL;
	c->len = (uint32_t)count;
	c->candidates = arena_alloc(o->arena, count, sizeof(*c->candidates));
	return c->candidates ? 0 : fault_no_memory(o->f);
}

/* Where the backend puts the values. What is allocated is what was charged. */
static int make_room(struct observation *o)
{
	o->payload = arena_alloc(o->arena, 1, sizeof(*o->payload));
	if (!o->payload)
		return fault_no_memory(o->f);
	switch (o->selection->transform.kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		o->payload->kind = CAPKM_PAYLOAD_SUMMARY;
		return 0;
	case CAPKM_TRANSFORM_HISTOGRAM:
		return room_for_counts(o);
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		return room_for_candidates(o);
	default:
		return room_for_values(o);
	}
}

/* A record has lengths of 32 bits. And a last row must have what is asked of it. */
static int is_possible(const struct observation *o)
{
	const struct capkm_observe_transform *t = &o->selection->transform;
	const struct capkm_observe_geometry *g = &o->geometry;

	if (t->kind == CAPKM_TRANSFORM_TOP_CANDIDATES &&
	    (!g->rank || t->count > g->shape[g->rank - 1] ||
	     t->count > UINT32_MAX))
		return fault(o->f, -EINVAL, "%" PRIu64 " top candidates of %" PRIu64,
			     t->count, g->rank ? g->shape[g->rank - 1] : 0);
	if (capkm_observe_gives_values(t) && capkm_observe_emitted(&o->geometry) > UINT32_MAX)
		return fault(o->f, -EOPNOTSUPP, "%" PRIu64 " values of one tensor; at most %" PRIu32 " are supported",
			     capkm_observe_emitted(&o->geometry), UINT32_MAX);
	if (capkm_observe_gives_values(t) &&
	    (g->dtype == CAPKM_DTYPE_UNKNOWN || g->dtype > CAPKM_DTYPE_BOOL))
		return fault(o->f, -EOPNOTSUPP, "values of dtype %" PRIu32 " are not supported",
			     g->dtype);
	return 0;
}

/*
 * Nothing that a backend gives may be larger than what it has reserved. Writing
 * numbers takes a while, so it is done only if the most that they may have is too much.
 */
static int fits_its_charge(const struct observation *o)
{
	const uint64_t most = o->record->charged.encoded_bytes;
	struct sink bounds = { .counts = true, .bounds = true, .limit = most };
	struct sink exact = { .counts = true, .limit = most };
	int rc = encode(&bounds, &type_record, o->record);

	if (rc == -E2BIG)
		rc = encode(&exact, &type_record, o->record);
	if (rc == -E2BIG)
		return fault(o->f, -EINVAL, "backend underestimated encoded size: the record has more than %" PRIu64 " bytes",
			     most);
	return rc ? fault(o->f, -EINVAL, "the backend has given a payload that cannot be JSON") : 0;
}

static int take_value(struct observation *o)
{
	struct capkm_observe_outcome *outcome = &o->record->outcome;
	int rc = make_room(o);

	if (!rc)
		rc = backend_transform(&o->s->backend, o->tensor, &o->geometry,
				       o->payload, o->f);
	if (rc)
		return rc;
	outcome->kind = CAPKM_OUTCOME_CAPTURED;
	if (capkm_observe_emitted(&o->geometry) < o->geometry.elements &&
	    o->selection->transform.kind == CAPKM_TRANSFORM_PREVIEW) {
		outcome->kind = CAPKM_OUTCOME_TRUNCATED;
		outcome->available_elements = o->geometry.elements;
		outcome->emitted_elements = capkm_observe_emitted(&o->geometry);
	}
	o->record->payload = o->payload;
	return fits_its_charge(o);
}

/* -EBUSY: its stream records. -EDQUOT of a budget that says to skip is no failure. */
static int capture(struct observation *o)
{
	struct capkm_usage usage;
	int rc = backend_ready(&o->s->backend, o->tensor, o->f);

	if (!rc)
		rc = measure(o);
	if (!rc)
		rc = is_possible(o);
	if (!rc)
		rc = backend_estimate(&o->s->backend, &o->geometry, &usage,
				      o->f);
	if (!rc)
		rc = note_shapes(o);
	if (!rc)
		rc = session_charge(o->s, &usage, o->f);
	if (rc)
		return rc;
	usage_add(&o->record->charged, &usage);
	return take_value(o);
}

const char *message_of(struct arena *arena, const char *message)
{
	const char *text = arena_text(arena, message,
				      capkm_cut(message, CAPKM_OBSERVE_MESSAGE));

	return text ? text : "";
}

static bool is_skip(const struct observation *o)
{
	return o->f->rc == -EBUSY ||
	       (o->f->rc == -EDQUOT &&
		o->s->admitted->plan.limits.on_limit == CAPKM_ON_LIMIT_SKIP);
}

/* What became of it, in the record. 0: the caller need not care. */
static int settle(struct observation *o, int rc)
{
	struct capkm_observe_outcome *outcome = &o->record->outcome;

	if (!rc)
		return 0;
	o->record->payload = NULL;
	*outcome = (struct capkm_observe_outcome){ .reason = o->f->why };
	if (is_skip(o)) {
		outcome->kind = CAPKM_OUTCOME_SKIPPED;
		if (rc == -EBUSY)
			outcome->reason.kind = CAPKM_REASON_RECORDING;
		*o->f = (struct fault){ 0 };
		return 0;
	}
	outcome->kind = CAPKM_OUTCOME_FAILED;
	outcome->message = message_of(o->arena, o->f->text);
	return rc;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int record_capture(struct capkm_observe *s,
		   const struct capkm_observe_selection *selection,
		   const struct capkm_observe_point *point,
		   struct capkm_observe_record *record, const void *tensor,
		   struct fault *f)
{
	struct observation o = {
		.s = s,
		.selection = selection,
		.point = point,
		.record = record,
		.arena = box_arena(s->step),
		.tensor = tensor,
		.f = f,
	};
	double began;
	int rc;

	if (record->outcome.kind == CAPKM_OUTCOME_SKIPPED)
		return 0;
	if (record->outcome.kind != CAPKM_OUTCOME_MISSING)
		return fault(f, -EINVAL, "'%.120s' is emitted twice in one step",
			     selection->path);
	began = seconds();
	rc = settle(&o, capture(&o));
	s->step->capture_seconds += seconds() - began;
	return rc;
}

static int observe(struct capkm_observe *s, const char *path,
		   const void *tensor, struct fault *f)
{
	const struct capkm_observe_plan *plan = &s->admitted->plan;
	uint32_t i;
	int rc = session_here(s, f);

	if (rc)
		return rc;
	if (!s->step)
		return fault(f, -EINVAL, "no step has begun");
	for (i = 0; i < plan->selections_len; i++) {
		if (strcmp(plan->selections[i].path, path))
			continue;
		rc = record_capture(s, &plan->selections[i],
				    &s->admitted->points[i],
				    (struct capkm_observe_record *)&s->step->records[i],
				    tensor, f);
		if (rc) {
			f->index = i;
			return rc;
		}
	}
	return 0;
}

int capkm_observe_tensor(struct capkm_observe *session, const char *path,
			 const void *tensor, struct capkm_error *err)
{
	struct fault f = { 0 };

	observe(session, path, tensor, &f);
	return fault_tell(&f, "observe_tensor", err);
}

static bool has_failed(const struct capkm_observe_step *step)
{
	uint32_t i;

	for (i = 0; i < step->records_len; i++)
		if (step->records[i].outcome.kind == CAPKM_OUTCOME_FAILED)
			return true;
	return false;
}

static void add_up(struct capkm_usage *sum,
		   const struct capkm_observe_record *records, uint32_t len)
{
	for (; len--; records++)
		usage_add(sum, &records->charged);
}

/* What the step was charged with, as its records have it. */
static struct capkm_usage sum_of(const struct capkm_observe_step *step)
{
	struct capkm_usage sum = { 0 };
	uint32_t i;

	add_up(&sum, step->records, step->records_len);
	for (i = 0; i < step->interventions_len; i++) {
		usage_add(&sum, &step->interventions[i].charged);
		add_up(&sum, step->interventions[i].evidence,
		       step->interventions[i].evidence_len);
	}
	return sum;
}

/* Of a ledger that has gone nothing more can be known, but the records are there. */
static void note_usage(struct capkm_observe *s)
{
	struct capkm_ledger_query query;
	struct fault gone;

	if (session_usage(s, &query, &gone)) {
		s->step->step_usage = sum_of(s->step);
		s->ready = false;
	} else {
		s->step->step_usage = query.out_step;
		s->last = query.out_total;
	}
	s->step->cumulative_usage = s->last;
}

int capkm_observe_take_step(struct capkm_observe *session,
			    struct capkm_observe_step **step,
			    struct capkm_error *err)
{
	struct fault f = { 0 }, unfinished;

	*step = NULL;
	if (!session_here(session, &f) && session->step) {
		session->ready = !has_failed(session->step) &&
				 !intervene_check(session, &unfinished);
		note_usage(session);
		*step = session->step;
		session->step = NULL;
	}
	return fault_tell(&f, "observe_take_step", err);
}
