// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interventions: which plans are admitted, what is done in a session and in which order,
 * what of it is recorded and charged, and how it goes on. The backend is that of host
 * tensors, with its calls counted and its answers bent.
 */
#include <float.h>
#include <math.h>

#include <capkm/intervene.h>
#include <capkm/observe_host.h>

#include "calls.h"
#include "choices.h"
#include "fail_alloc.h"
#include "process.h"

#define MAX	UINT64_MAX
#define NOTHING	((void *)&err)		/* a pointer that must stay as it is */

/* ------------------------------------------------------------ a backend */

enum lie { TRUTH, NO_TENSOR, SAME_TENSOR, DTYPE, RANK, SHAPE };

struct counts {
	unsigned int ready, describe, estimate, transform, apply, routes;
	int live;				/* tensors that were made */
	int ready_rc, apply_rc, transform_rc, routes_rc;
	unsigned int apply_fails, transform_fails;	/* the so-manieth; 0: none */
	enum lie lie;
	struct capkm_usage routes_usage;
};

static const struct capkm_observe_backend *host(void)
{
	return capkm_observe_host_backend();
}

static int say(int rc, char *why, size_t size)
{
	if (rc)
		snprintf(why, size, "it said so");
	return rc;
}

static int b_ready(void *context, const void *tensor, char *why, size_t size)
{
	struct counts *n = context;

	n->ready++;
	return n->ready_rc ? say(n->ready_rc, why, size) : host()->ready(NULL, tensor, why, size);
}

static int b_describe(void *context, const void *tensor, u_int64_t *shape, u_int32_t *rank,
		      u_int32_t *dtype, char *why, size_t size)
{
	((struct counts *)context)->describe++;
	return host()->describe(NULL, tensor, shape, rank, dtype, why, size);
}

/* D-12 */
static int b_estimate(void *context, const struct capkm_observe_geometry *g,
		      struct capkm_usage *usage, char *why, size_t size)
{
	const u_int64_t most = g->selection->transform.max_elements;

	((struct counts *)context)->estimate++;
	*usage = (struct capkm_usage){
		1, 128, 128, 512 + 32 * (most < g->elements ? most : g->elements),
	};
	return say(0, why, size);
}

static int b_transform(void *context, const void *tensor, const struct capkm_observe_geometry *g,
		       struct capkm_observe_payload *payload, char *why, size_t size)
{
	struct counts *n = context;

	if (++n->transform == n->transform_fails)
		return say(n->transform_rc, why, size);
	return host()->transform(NULL, tensor, g, payload, why, size);
}

static int b_apply(void *context, const void *tensor, const struct capkm_observe_geometry *g,
		   const struct capkm_intervene_action *action, void **out, char *why, size_t size)
{
	struct capkm_observe_host_tensor *made;
	struct counts *n = context;
	int rc;

	if (++n->apply == n->apply_fails)
		return say(n->apply_rc, why, size);
	if (n->lie == NO_TENSOR)
		return 0;
	if (n->lie == SAME_TENSOR) {
		*out = (void *)tensor;
		return 0;
	}
	rc = host()->apply(NULL, tensor, g, action, out, why, size);
	if (rc)
		return rc;
	n->live++;
	made = *out;
	if (n->lie == DTYPE)
		made->dtype = CAPKM_DTYPE_F16;
	if (n->lie == RANK)
		made->rank--;
	if (n->lie == SHAPE)
		((u_int64_t *)made->shape)[1]--;
	return 0;
}

static void b_release(void *context, void *tensor)
{
	((struct counts *)context)->live--;
	host()->release(NULL, tensor);
}

static int b_routes(void *context, const struct capkm_intervene_point *point, u_int64_t rows,
		    struct capkm_usage *usage, char *why, size_t size)
{
	struct counts *n = context;

	n->routes++;
	if (n->routes_rc)
		return say(n->routes_rc, why, size);
	if (n->routes_usage.captures | n->routes_usage.retained_bytes |
	    n->routes_usage.host_bytes | n->routes_usage.encoded_bytes) {
		*usage = n->routes_usage;
		return 0;
	}
	*usage = (struct capkm_usage){ .host_bytes = rows * point->routing->top_k * 12 };
	return 0;
}

/* ------------------------------------------------------------ tensors */

static const u_int64_t row_shape[] = { 1, 2 }, rows_shape[] = { 3, 2 }, route_shape[] = { 3, 2 },
		       vocabulary_shape[] = { 1, 5 };

#define F32(shape_, values) CAPKM_OPTS(struct capkm_observe_host_tensor,	\
	.dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = shape_, .data = values)

static const float one_two[] = { 1, 2 }, counting[] = { 1, 2, 3, 4, 5, 6 },
		   five[] = { 1, 2, 3, 4, 5 };
static const struct capkm_observe_host_tensor row = F32(row_shape, one_two),
	rows = F32(rows_shape, counting), logits = F32(vocabulary_shape, five);

static const float *values_of(const void *tensor)
{
	return ((const struct capkm_observe_host_tensor *)tensor)->data;
}

/* ------------------------------------------------------------ what there is */

#define AXIS(name, dimension) "{\"name\":\"" name "\",\"dimension\":" dimension "}"
#define KNOWN(n) "{\"kind\":\"known\",\"value\":" #n "}"
#define SEQUENCE "{\"kind\":\"sequence\"}"
#define YES "{\"status\":\"supported\"}"

#define SEEN(path, axes, position) \
	"{\"path\":\"" path "\",\"node_id\":\"block\",\"meaning\":\"\",\"dtype\":\"floating\",\"axes\":" axes \
	",\"prefill\":true,\"decode\":true,\"position\":\"" position "\"}"
#define CAN_SEE(path) "{\"path\":\"" path "\",\"prefill\":" YES ",\"decode\":" YES ",\"floating_to_f32\":true}"

#define BLOCK_AXES "[" AXIS("token", SEQUENCE) "," AXIS("feature", KNOWN(2)) "]"
#define LOGITS_AXES "[" AXIS("batch", "{\"kind\":\"batch\"}") "," AXIS("vocabulary", KNOWN(5)) "]"
#define OPEN_AXES "[" AXIS("row", "{\"kind\":\"unknown\"}") "," AXIS("feature", KNOWN(2)) "]"
#define ROUTER_AXES "[" AXIS("token", "{\"kind\":\"token_rows\"}") "," AXIS("expert", KNOWN(8)) "]"

static const char seen_json[] =
	"{\"artifact_identity\":\"tiny-1\",\"catalog\":{\"schema_version\":1,\"points\":["
	SEEN("block.output", BLOCK_AXES, "before_intervention") ","
	SEEN("model.logits", LOGITS_AXES, "after_intervention")
	"],\"completeness\":{\"status\":\"complete\"}},\"support\":{\"schema_version\":1,\"points\":["
	CAN_SEE("block.output") "," CAN_SEE("model.logits")
	"],\"capture\":{\"transformations\":[\"preview\",\"top_candidates\"]}}}";

#define CHANGES "[\"zero\",\"scale\",\"mask\",\"replace\",\"add\"]"
#define FLOATS "[\"float32\",\"float16\",\"bfloat16\"]"
#define PLACE(path, stage, axes, dtypes, operations, decode, rest) \
	"{\"path\":\"" path "\",\"node_id\":\"block\",\"stage\":\"" stage "\",\"axes\":" axes ",\"dtypes\":" dtypes \
	",\"operations\":" operations ",\"prefill\":" YES ",\"decode\":" decode rest "}"
#define POLICY "{\"expert_count\":8,\"top_k\":2,\"scoring\":\"softmax\",\"normalize_selected\":true,\"epsilon\":0.0," \
	"\"coefficient_scale\":1.0,\"groups\":4,\"selected_groups\":2,\"learned_scale\":false,\"shared_experts\":0}"
#define ROUTES "[\"exclude_experts\",\"zero_expert_contribution\",\"bias_routing_scores\",\"force_experts\"]"

static const char places_json[] =
	"{\"schema_version\":1,\"artifact_identity\":\"tiny-1\",\"session_identity\":\"run-7\",\"points\":["
	"{\"path\":\"block.output\",\"node_id\":\"block\",\"stage\":\"activation\",\"axes\":" BLOCK_AXES ",\"dtypes\":" FLOATS
	",\"operations\":" CHANGES ",\"score_stages\":[],\"prefill\":" YES ",\"decode\":" YES ",\"conditions\":[],\"routing\":null},"
	PLACE("open", "activation", OPEN_AXES, "[\"float32\"]", CHANGES, YES, "") ","
	PLACE("twice", "activation", BLOCK_AXES, FLOATS, CHANGES, YES, "") ","
	PLACE("twice", "activation", BLOCK_AXES, FLOATS, CHANGES, YES, "") ","
	PLACE("same.axes", "activation", "[" AXIS("a", KNOWN(2)) "," AXIS("a", KNOWN(2)) "]", FLOATS, CHANGES, YES, "") ","
	PLACE("no.axes", "activation", "[]", FLOATS, CHANGES, YES, "") ","
	PLACE("half", "activation", BLOCK_AXES, "[\"float16\"]", "[\"zero\"]", "{\"status\":\"unverified\",\"reason\":\"not tried\"}", "") ","
	PLACE("model.logits", "logits_before_sampling", LOGITS_AXES, FLOATS, "[\"mask_logits\",\"scale\",\"exclude_experts\"]", YES, "") ","
	PLACE("open.logits", "logits_before_sampling", "[" AXIS("token", SEQUENCE) "," AXIS("vocabulary", "{\"kind\":\"unknown\"}") "]",
	      FLOATS, "[\"mask_logits\"]", YES, "") ","
	PLACE("router", "routing_before_dispatch", ROUTER_AXES, "[]", ROUTES, YES,
	      ",\"score_stages\":[\"logits\"],\"routing\":" POLICY) ","
	PLACE("open.router", "routing_before_dispatch", "[" AXIS("token", "{\"kind\":\"unknown\"}") "]", "[]", ROUTES, YES,
	      ",\"routing\":" POLICY)
	"]}";

#define OP(id, target, action, rest) "{\"id\":\"" id "\",\"target\":\"" target "\",\"action\":{" action "}" rest "}"
#define ZERO "\"kind\":\"zero\",\"dtype\":\"float32\""
#define SCALE(x) "\"kind\":\"scale\",\"dtype\":\"float32\",\"factor\":" #x
#define TENSOR(kind_, shape, values) "\"kind\":\"" kind_ "\",\"tensor\":{\"shape\":" shape \
	",\"values\":{\"dtype\":\"float32\",\"values\":" values "}}"
#define BITS(kind_, dtype, values) "\"kind\":\"" kind_ "\",\"tensor\":{\"shape\":[1,2]" \
	",\"values\":{\"dtype\":\"" dtype "\",\"values\":" values "}}"
#define EXPERTS(kind_, ids) "\"kind\":\"" kind_ "\",\"ids\":" ids
#define FORCE(shape, ids) "\"kind\":\"force_experts\",\"shape\":" shape ",\"ids\":" ids
#define SHOWS(n) ",\"evidence\":{\"kind\":\"preview\",\"max_elements\":" #n "}"
#define PREFILL ",\"schedule\":{\"decode\":false}"
#define DECODES(first, end) ",\"schedule\":{\"prefill\":false,\"first_prediction\":" #first ",\"end_prediction\":" #end "}"
#define ROW(a, b) ",\"slices\":[{\"axis\":\"token\",\"start\":" #a ",\"end\":" #b "}]"

#define SEE(id, path) "{\"id\":\"" id "\",\"path\":\"" path "\",\"transform\":{\"kind\":\"preview\",\"max_elements\":8}}"

static const struct capkm_observe_limits wide = {
	.per_step = { MAX, MAX, MAX, MAX }, .cumulative = { MAX, MAX, MAX, MAX },
};

FIXTURE(intervene)
{
	struct cl *cl;
	struct capkm *c;
	struct capkm_observe_discovery *d;
	struct capkm_intervene_discovery *p;
	struct capkm_observe_backend b;
	struct counts n;
	struct capkm_observe *s;
	struct capkm_observe_step *step;
	void *out;
};

FIXTURE_SETUP(intervene)
{
	self->cl = t_client();
	t_domain(self->cl);
	self->c = self->cl->c;
	OK(capkm_observe_discovery_parse(seen_json, strlen(seen_json), &self->d, &err));
	OK(capkm_intervene_discovery_parse(places_json, strlen(places_json), &self->p, &err));
	self->b = (struct capkm_observe_backend){
		.sz = sizeof(self->b), .context = &self->n, .ready = b_ready,
		.describe = b_describe, .estimate = b_estimate, .transform = b_transform,
		.apply = b_apply, .release = b_release, .estimate_routes = b_routes,
	};
}

FIXTURE_TEARDOWN(intervene)
{
	if (self->out)
		b_release(&self->n, self->out);
	capkm_observe_step_free(self->step);
	capkm_observe_close(self->s);
	capkm_observe_discovery_free(self->d);
	capkm_intervene_discovery_free(self->p);
	t_close(self->cl);
	EXPECT_EQ(0, self->n.live);
	t_no_leaks();
}

/* ------------------------------------------------------------ plans */

static char *plan_text(const char *operations)
{
	char *json;

	if (asprintf(&json, "{\"schema_version\":1,\"operations\":[%s]}", operations) < 0)
		abort();
	return json;
}

static int parse(const char *operations, struct capkm_intervene_plan **plan)
{
	char *json = plan_text(operations);
	int rc = capkm_intervene_plan_parse(json, strlen(json), plan, &err);

	free(json);
	return rc;
}

static const struct capkm_observe_request three = { 1, 3, 10 }, one = { 1, 1, 10 };

static int admit(const struct capkm_intervene_discovery *p, const char *operations,
		 const struct capkm_observe_request *r, struct capkm_intervene_admitted **a)
{
	struct capkm_intervene_plan *plan;
	int rc = parse(operations, &plan);

	if (rc)
		return rc;
	rc = capkm_intervene_admit(plan, p, r, "session-1", a, &err);
	capkm_intervene_plan_free(plan);
	return rc;
}

#define ADMITTED(operations, request) do {				\
	struct capkm_intervene_admitted *a_ = NULL;			\
									\
	OK(admit(self->p, operations, request, &a_));			\
	capkm_intervene_admitted_free(a_);				\
} while (0)

#define NOT_ADMITTED(rc, operations, request, text) do {		\
	struct capkm_intervene_admitted *a_ = NOTHING;			\
									\
	REFUSED(rc, admit(self->p, operations, request, &a_));		\
	ASSERT_EQ(NOTHING, a_);						\
	SAYS(text);							\
} while (0)

static struct capkm_observe_admitted *
observed(struct __test_metadata *_metadata, const struct capkm_observe_discovery *d,
	 const char *selections, const struct capkm_observe_limits *limits,
	 const struct capkm_observe_request *r)
{
	struct capkm_observe_admitted *a;
	struct capkm_observe_plan *p;
	char *json;

	ASSERT_LT(0, asprintf(&json, "{\"schema_version\":1,\"selections\":[%s],\"limits\":"
		"{\"per_step\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},"
		"\"cumulative\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},\"on_limit\":\"fail\"}}",
		selections));
	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	p->limits = *limits;
	OK(capkm_observe_admit(p, d, r, &a, &err));
	capkm_observe_plan_free(p);
	free(json);
	return a;
}

/* A session that observes and changes. */
#define OPEN(selections, limits, operations, request) do {		\
	struct capkm_observe_admitted *o_ =				\
		observed(_metadata, self->d, selections, limits, request); \
	struct capkm_intervene_admitted *a_;				\
									\
	OK(admit(self->p, operations, request, &a_));			\
	OK(capkm_observe_open(self->c, o_, &self->b, NULL, &self->s, &err)); \
	OK(capkm_intervene_enable(self->s, a_, &err));			\
	capkm_observe_admitted_free(o_);				\
	capkm_intervene_admitted_free(a_);				\
} while (0)

#define BEGIN(phase, p) OK(capkm_observe_begin_step(self->s, phase, p, &err))
#define SHOW(path, tensor) OK(capkm_observe_tensor(self->s, path, tensor, &err))
/* What was made before is given back. */
#define CHANGE(path, tensor) do {					\
	if (self->out)							\
		b_release(&self->n, self->out);				\
	OK(capkm_intervene_tensor(self->s, path, tensor, &self->out, &err)); \
} while (0)
#define NO_CHANGE(rc, path, tensor) do {				\
	void *out_ = NOTHING;						\
									\
	REFUSED(rc, capkm_intervene_tensor(self->s, path, tensor, &out_, &err)); \
	ASSERT_EQ(NULL, out_);						\
} while (0)
#define TAKE() do {							\
	capkm_observe_step_free(self->step);				\
	OK(capkm_observe_take_step(self->s, &self->step, &err));	\
	ASSERT_NE(NULL, self->step);					\
} while (0)
#define DONE(i) (&self->step->interventions[i])
#define BECAME(i, kind_) ASSERT_EQ(CAPKM_INTERVENTION_##kind_, DONE(i)->outcome.kind)
#define CLOSE() do {							\
	capkm_observe_close(self->s);					\
	self->s = NULL;							\
} while (0)

static void add(struct capkm_usage *sum, const struct capkm_usage *more)
{
	sum->captures += more->captures;
	sum->retained_bytes += more->retained_bytes;
	sum->host_bytes += more->host_bytes;
	sum->encoded_bytes += more->encoded_bytes;
}

static struct capkm_usage sum_of(const struct capkm_observe_step *step)
{
	struct capkm_usage sum = { 0 };

	for (unsigned int i = 0; i < step->records_len; i++)
		add(&sum, &step->records[i].charged);
	for (unsigned int i = 0; i < step->interventions_len; i++) {
		add(&sum, &step->interventions[i].charged);
		for (unsigned int j = 0; j < step->interventions[i].evidence_len; j++)
			add(&sum, &step->interventions[i].evidence[j].charged);
	}
	return sum;
}

/* I-9: what the records say is what the step was charged. */
#define ADDS_UP() do {							\
	const struct capkm_usage sum_ = sum_of(self->step);		\
									\
	ASSERT_EQ(0, memcmp(&sum_, &self->step->step_usage, sizeof(sum_))); \
} while (0)

/* ------------------------------------------------------------ in a session */

/* Those of a preview, in evidence @j of operation @i. */
#define WITNESSED(i, j, ...) do {					\
	const float want_[] = { __VA_ARGS__ };				\
	const struct capkm_observe_payload *p_ = DONE(i)->evidence[j].payload; \
									\
	ASSERT_NE(NULL, p_);						\
	ASSERT_EQ(ARRAY_SIZE(want_), p_->values.len);			\
	ASSERT_EQ(0, memcmp(want_, p_->values.f32, sizeof(want_)));	\
} while (0)

#define HOLDS(tensor, ...) do {						\
	const float want_[] = { __VA_ARGS__ };				\
									\
	ASSERT_NE(NULL, tensor);					\
	ASSERT_EQ(0, memcmp(want_, values_of(tensor), sizeof(want_)));	\
} while (0)

/* T-160: what is observed is the original; each operation begins where the last one ends. */
TEST_F(intervene, t160_two_operations)
{
	static const char want[] =
		"\"interventions\":[{\"schema_version\":1,\"operation_id\":\"double\",\"path\":\"block.output\",\"node_id\":\"block\","
		"\"plan_identity\":\"intervention-v1-";
	static const char rest[] =
		"\",\"outcome\":{\"kind\":\"applied\"},\"evidence\":["
		"{\"schema_version\":1,\"selection_id\":\"double:before:values\",\"path\":\"block.output\",\"node_id\":\"block\","
		"\"position\":\"before_intervention\",\"source_shape\":[1,2],\"selected_shape\":[1,2],\"outcome\":{\"kind\":\"captured\"},"
		"\"payload\":{\"kind\":\"tensor\",\"value\":{\"shape\":[1,2],\"data\":{\"dtype\":\"f32\",\"values\":[1.0,2.0]}}},"
		"\"charged\":{\"captures\":1,\"retained_bytes\":128,\"host_bytes\":933,\"encoded_bytes\":2974}},"
		"{\"schema_version\":1,\"selection_id\":\"double:after:values\",\"path\":\"block.output\",\"node_id\":\"block\","
		"\"position\":\"after_intervention\",\"source_shape\":[1,2],\"selected_shape\":[1,2],\"outcome\":{\"kind\":\"captured\"},"
		"\"payload\":{\"kind\":\"tensor\",\"value\":{\"shape\":[1,2],\"data\":{\"dtype\":\"f32\",\"values\":[2.0,4.0]}}},"
		"\"charged\":{\"captures\":1,\"retained_bytes\":128,\"host_bytes\":932,\"encoded_bytes\":2968}}],"
		"\"charged\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":1127,\"encoded_bytes\":4714}},";
	struct capkm_observe_step *again;
	char *json, *twice, *at;

	OPEN(SEE("original", "block.output"), &wide,
	     OP("double", "block.output", SCALE(2.0), SHOWS(8)) ","
	     OP("clear", "block.output", ZERO, SHOWS(2)), &one);
	BEGIN(CAPKM_PREFILL, 0);
	/* An original that was looked at afterwards would be none. */
	NO_CHANGE(-EINVAL, "block.output", &row);
	SAYS("intervene_tensor: 'block.output' must be observed before it is changed");
	ASSERT_EQ(0, self->n.apply + self->n.transform);
	SHOW("block.output", &row);
	CHANGE("block.output", &row);
	HOLDS(self->out, 0, 0);
	HOLDS(&row, 1, 2);
	ASSERT_EQ(1, self->n.live);
	OK(capkm_intervene_finish(self->s, &err));
	TAKE();
	ADDS_UP();
	BECAME(0, APPLIED);
	BECAME(1, APPLIED);
	ASSERT_EQ(0, memcmp(one_two, self->step->records[0].payload->values.f32, 8));
	WITNESSED(0, 0, 1, 2);
	WITNESSED(0, 1, 2, 4);
	WITNESSED(1, 0, 2, 4);
	WITNESSED(1, 1, 0, 0);
	ASSERT_EQ(5, self->step->step_usage.captures);

	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	at = strstr(json, want);
	ASSERT_NE(NULL, at) { TH_LOG("%s", json); }
	at += strlen(want) + 64;
	ASSERT_EQ(0, strncmp(at, rest, strlen(rest))) {
		TH_LOG("want %s\nis   %s", rest, at);
	}
	OK(capkm_observe_step_parse(json, strlen(json), &again, &err));
	OK(capkm_observe_step_json(again, &twice, NULL, &err));
	ASSERT_STREQ(json, twice);
	capkm_observe_step_free(again);
	free(json);
	free(twice);
}

/* T-161 */
TEST_F(intervene, t161_one_row)
{
	OPEN("", &wide, OP("row", "block.output", TENSOR("replace", "[1,2]", "[7.0,-8.5]"),
			   ROW(1, 2) PREFILL), &three);
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &rows);
	HOLDS(self->out, 1, 2, 7, -8.5f, 5, 6);
	TAKE();
	BECAME(0, APPLIED);
	ASSERT_EQ(0, DONE(0)->evidence_len);
	BEGIN(CAPKM_DECODE, 1);
	CHANGE("block.output", &row);
	ASSERT_EQ(NULL, self->out);
	OK(capkm_intervene_finish(self->s, &err));
	TAKE();
	ADDS_UP();
	BECAME(0, INACTIVE);
	ASSERT_EQ(1, self->n.apply);
	ASSERT_EQ(0, self->n.estimate + self->n.transform);
}

/* T-162 */
TEST_F(intervene, t162_nothing_to_do)
{
	char *json;

	OPEN("", &wide, "", &one);
	ASSERT_EQ(NULL, capkm_intervene_session_plan(self->s));
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &row);
	ASSERT_EQ(NULL, self->out);
	OK(capkm_intervene_finish(self->s, &err));
	TAKE();
	ASSERT_EQ(0, self->step->interventions_len);
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	ASSERT_EQ(NULL, strstr(json, "interventions"));
	free(json);
	CLOSE();

	OPEN("", &wide, OP("later", "block.output", ZERO, SHOWS(2) DECODES(3, 4)) ","
	     OP("elsewhere", "open", ZERO, DECODES(1, 2)), &one);
	ASSERT_EQ(2, capkm_intervene_admitted_plan(capkm_intervene_session_plan(self->s))->operations_len);
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &row);
	CHANGE("open", &row);
	CHANGE("nobody.knows", &row);
	ASSERT_EQ(NULL, self->out);
	TAKE();
	ADDS_UP();
	BECAME(0, INACTIVE);
	BECAME(1, INACTIVE);
	ASSERT_EQ(2, DONE(0)->evidence_len);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(CAPKM_OUTCOME_SKIPPED, DONE(0)->evidence[i].outcome.kind);
		ASSERT_EQ(CAPKM_REASON_SCHEDULE, DONE(0)->evidence[i].outcome.reason.kind);
	}
	ASSERT_EQ(0, self->n.ready + self->n.describe + self->n.estimate + self->n.transform +
		     self->n.apply);
}

/* No checkpoint can be made. */
#define NO_CHECKPOINT() do {						\
	struct capkm_observe_checkpoint *cp_ = NOTHING;			\
									\
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, self->d, &cp_, &err)); \
	ASSERT_EQ(NOTHING, cp_);					\
} while (0)

/* T-163 */
TEST_F(intervene, t163_not_done)
{
	OPEN("", &wide, OP("a", "block.output", SCALE(2.0), "") "," OP("b", "block.output", ZERO, "") ","
	     OP("c", "block.output", ZERO, "") "," OP("d", "open", ZERO, ""), &one);
	NO_CHANGE(-EINVAL, "block.output", &row);
	SAYS("no step has begun");
	REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));

	/* Missing: its target did not come up. */
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &row);
	REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
	SAYS("intervene_finish: operation 'd' was due, and its target 'open' did not come up");
	ASSERT_EQ(3, err.index);
	/* A second time in one step is an error, of which nothing comes. */
	NO_CHANGE(-EINVAL, "block.output", &row);
	SAYS("operation 'a' was done before in this step");
	ASSERT_EQ(3, self->n.apply);
	TAKE();
	BECAME(0, APPLIED);
	BECAME(1, APPLIED);
	BECAME(3, MISSING);
	NO_CHECKPOINT();

	/* Failed: those before it are applied, those after it are missing. */
	self->n.apply = 0;
	self->n.apply_fails = 2;
	self->n.apply_rc = -ENODEV;
	BEGIN(CAPKM_DECODE, 1);
	NO_CHANGE(-EIO, "block.output", &row);
	SAYS("intervene_tensor: native intervention failed: it said so");
	ASSERT_EQ(1, err.index);
	ASSERT_EQ(1, self->n.live);	/* of before */
	REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
	SAYS("operation 'b' failed: native intervention failed: it said so");
	TAKE();
	ADDS_UP();
	BECAME(0, APPLIED);
	BECAME(1, FAILED);
	ASSERT_STREQ("native intervention failed: it said so", DONE(1)->outcome.message);
	BECAME(2, MISSING);
	NO_CHECKPOINT();

	/* A later good step will do. */
	self->n.apply_fails = 0;
	BEGIN(CAPKM_DECODE, 2);
	CHANGE("block.output", &row);
	CHANGE("open", &row);
	TAKE();
	for (int i = 0; i < 4; i++)
		BECAME(i, APPLIED);
	OK(capkm_observe_begin_step(self->s, CAPKM_DECODE, 3, &err));
}

/* T-168, at run time: what a tensor must be, and what a backend must make of it. */
TEST_F(intervene, t168_wrong_tensors)
{
	static const struct {
		enum lie lie;
		const char *says;
	} lies[] = {
		{ NO_TENSOR, "the backend made no other tensor" },
		{ SAME_TENSOR, "the backend made no other tensor" },
		{ DTYPE, "of another shape or dtype" },
		{ RANK, "of another shape or dtype" },
		{ SHAPE, "of another shape or dtype" },
	};
	struct capkm_observe_host_tensor t = row;
	u_int64_t at = 0;

	OPEN("", &wide, OP("a", "block.output", ZERO, SHOWS(2)) ","
	     OP("m", "open.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[3]", DECODES(20, 21)) ","
	     OP("r", "open", TENSOR("add", "[2,2]", "[1.0,2.0,3.0,4.0]"), DECODES(8, 9)) ","
	     OP("v", "open.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[4,3]", DECODES(9, 10)), &one);
	t.dtype = CAPKM_DTYPE_F16;
	BEGIN(CAPKM_DECODE, ++at);
	NO_CHANGE(-EINVAL, "block.output", &t);
	SAYS("the tensor is float16; the operation is for float32");
	TAKE();
	BECAME(0, FAILED);
	ASSERT_EQ(CAPKM_OUTCOME_MISSING, DONE(0)->evidence[0].outcome.kind);

	BEGIN(CAPKM_DECODE, ++at);
	NO_CHANGE(-EINVAL, "block.output", &rows);
	SAYS("axis 'token' of the tensor is 3, expected 1");
	TAKE();
	t = row;
	t.dtype = CAPKM_DTYPE_U64;
	BEGIN(CAPKM_DECODE, ++at);
	NO_CHANGE(-EINVAL, "block.output", &t);
	SAYS("the tensor is another dtype; the operation is for float32");
	TAKE();
	ASSERT_EQ(0, self->n.apply);
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		if (at + 1 == 8)
			break;
		self->n.lie = lies[i].lie;
		BEGIN(CAPKM_DECODE, ++at);
		NO_CHANGE(-EINVAL, "block.output", &row);
		SAYS(lies[i].says);
		TAKE();
		ADDS_UP();
		BECAME(0, FAILED);
		ASSERT_EQ(CAPKM_OUTCOME_CAPTURED, DONE(0)->evidence[0].outcome.kind);
		ASSERT_EQ(CAPKM_OUTCOME_MISSING, DONE(0)->evidence[1].outcome.kind);
		ASSERT_EQ(0, self->n.live);
	}
	/* The last one. */
	self->n.lie = SHAPE;
	BEGIN(CAPKM_PREFILL, 0);
	NO_CHANGE(-EINVAL, "block.output", &row);
	TAKE();
	self->n.lie = TRUTH;

	/* What was not known at admission. */
	BEGIN(CAPKM_DECODE, 8);
	NO_CHANGE(-EINVAL, "open", &rows);
	SAYS("the values have 2 on axis 'row', where 3 are selected");
	TAKE();
	BECAME(2, FAILED);
	t = row;
	BEGIN(CAPKM_DECODE, 9);
	NO_CHANGE(-EINVAL, "open.logits", &t);
	SAYS("id 4 of 2");
	TAKE();
	BECAME(3, FAILED);
}

/* A tensor whose stream records, or that is tainted, is not left as it is in silence. */
TEST_F(intervene, not_ready)
{
	OPEN("", &wide, OP("a", "block.output", ZERO, SHOWS(2)), &one);
	self->n.ready_rc = -EBUSY;
	BEGIN(CAPKM_PREFILL, 0);
	NO_CHANGE(-EBUSY, "block.output", &row);
	TAKE();
	BECAME(0, FAILED);
	self->n.ready_rc = -ESTALE;
	BEGIN(CAPKM_DECODE, 1);
	NO_CHANGE(-ESTALE, "block.output", &row);
	TAKE();
	BECAME(0, FAILED);
	ASSERT_EQ(0, self->n.describe + self->n.transform + self->n.apply);
}

/* ER-35: evidence that fails fails the operation; its reason is folded. */
TEST_F(intervene, evidence_fails)
{
	static const struct {
		int rc, told;
		u_int32_t reason;
	} how[] = {
		{ -EOPNOTSUPP, -EOPNOTSUPP, CAPKM_REASON_INVALID },
		{ -EINVAL, -EINVAL, CAPKM_REASON_INVALID },
		{ -ENODEV, -EIO, CAPKM_REASON_NATIVE },
	};

	OPEN("", &wide, OP("a", "block.output", ZERO, SHOWS(2)), &one);
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(how); i++) {
		const unsigned int after = i & 1;

		self->n.transform = self->n.apply = 0;
		self->n.transform_fails = 1 + after;
		self->n.transform_rc = how[i / 2].rc;
		BEGIN(CAPKM_DECODE, i + 1);
		NO_CHANGE(how[i / 2].told, "block.output", &row);
		ASSERT_EQ(after, self->n.apply);
		ASSERT_EQ(0, self->n.live);
		TAKE();
		ADDS_UP();
		BECAME(0, FAILED);
		ASSERT_EQ(CAPKM_OUTCOME_FAILED, DONE(0)->evidence[after].outcome.kind);
		ASSERT_EQ(how[i / 2].reason, DONE(0)->evidence[after].outcome.reason.kind);
		ASSERT_EQ(NULL, DONE(0)->evidence[after].payload);
		ASSERT_EQ(after ? CAPKM_OUTCOME_CAPTURED : CAPKM_OUTCOME_FAILED,
			  DONE(0)->evidence[0].outcome.kind);
	}
}

/* What is sampled from is what is observed after it, and says so. */
TEST_F(intervene, logits)
{
	const struct capkm_observe_candidates *c;

	OPEN("{\"id\":\"top\",\"path\":\"model.logits\",\"transform\":{\"kind\":\"top_candidates\",\"count\":2}}", &wide,
	     OP("not", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[4,2]", SHOWS(5)), &one);
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("model.logits", &logits);
	HOLDS(self->out, 1, 2, -INFINITY, 4, -INFINITY);
	SHOW("model.logits", self->out);
	TAKE();
	ADDS_UP();
	BECAME(0, APPLIED);
	WITNESSED(0, 1, 1, 2, -INFINITY, 4, -INFINITY);
	c = &self->step->records[0].payload->candidates;
	ASSERT_EQ(CAPKM_SOURCE_EFFECTIVE, c->source);
	ASSERT_EQ(3, c->candidates[0].token_id);
	ASSERT_EQ(1, c->candidates[1].token_id);
}

/* Messages are cut between characters. */
TEST_F(intervene, messages)
{
	char text[400] = "";

	OPEN("", &wide, OP("a", "router", EXPERTS("exclude_experts", "[1]"), ""), &three);
	for (int i = 0; i < 120; i++)
		strcat(text, "\xe2\x82\xac");
	for (int i = 0; i < 3; i++) {
		struct capkm_intervene_control c;

		BEGIN(CAPKM_DECODE, i + 1);
		OK(capkm_intervene_route(self->s, "router", 1, &c, &err));
		ASSERT_NE(NULL, c.operation);
		OK(capkm_intervene_unrouted(self->s, "router", text + 3 - i, &err));
		TAKE();
		BECAME(0, FAILED);
		ASSERT_GE(256, strlen(DONE(0)->outcome.message));
		ASSERT_LT(250, strlen(DONE(0)->outcome.message));
		ASSERT_EQ('\xac', DONE(0)->outcome.message[strlen(DONE(0)->outcome.message) - 1]);
	}
}

/* ------------------------------------------------------------ the budget */

#define OP_HOST(strings) (1024 + (strings))
#define OP_ENCODED(strings) (4096 + 6 * (strings))
#define IDENTITY_LEN 80

static int validate(const struct capkm_observe_discovery *d,
		    const struct capkm_observe_admitted *o,
		    const struct capkm_intervene_discovery *p,
		    const struct capkm_intervene_admitted *a,
		    const struct capkm_observe_backend *b, u_int64_t next,
		    const struct capkm_usage *inherited)
{
	return capkm_intervene_validate(o, d, a, p, b, next, inherited, &err);
}

/* T-164: forecast to the byte, on each axis. */
TEST_F(intervene, t164_forecast)
{
	static const char ops[] = OP("a", "block.output", ZERO, SHOWS(1) DECODES(1, 4)) ","
		OP("r", "router", EXPERTS("exclude_experts", "[1]"), SHOWS(9) PREFILL);
	/* Records of a step: of two operations, two and four of evidence, one observed. */
	const u_int64_t a = 1 + 12 + 5 + IDENTITY_LEN, r = 1 + 6 + 5 + IDENTITY_LEN;
	const u_int64_t ids[] = {
		strlen("a:before:values") + 17, strlen("a:after:values") + 17,
		strlen("r:before:ids") + 11, strlen("r:before:coefficients") + 11,
		strlen("r:after:ids") + 11, strlen("r:after:coefficients") + 11,
		strlen("o") + 17,
	};
	struct capkm_usage step = { .host_bytes = OP_HOST(a) + OP_HOST(r),
				    .encoded_bytes = OP_ENCODED(a) + OP_ENCODED(r) }, all, most;
	struct capkm_intervene_admitted *admitted;

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		step.host_bytes += 512 + ids[i] + 256;
		step.encoded_bytes += 2048 + 6 * ids[i] + 128;
	}
	all = (struct capkm_usage){ .host_bytes = 10 * step.host_bytes,
				    .encoded_bytes = 10 * step.encoded_bytes };
	/* Prefill: the original choice, four of routing, one observed of [3, 2]. */
	most = step;
	add(&most, &(struct capkm_usage){ .host_bytes = 3 * 2 * 12 });
	add(&most, &(struct capkm_usage){ 5, 5 * 128, 5 * 128, 4 * (512 + 32 * 6) + 512 + 32 * 6 });
	all.captures = 5;
	all.retained_bytes = 5 * 128;
	all.host_bytes += 72 + 5 * 128;
	all.encoded_bytes += 5 * (512 + 32 * 6);
	/* Decodes: one observed of [1, 2] in nine, two of evidence in three. */
	add(&all, &(struct capkm_usage){ 9, 9 * 128, 9 * 128, 9 * (512 + 32 * 2) });
	add(&all, &(struct capkm_usage){ 6, 6 * 128, 6 * 128, 6 * (512 + 32) });

	OK(admit(self->p, ops, &three, &admitted));
	for (int bound = 0; bound < 9; bound++) {
		struct capkm_observe_limits l = wide;
		struct capkm_observe_admitted *o;

		l.per_step = most;
		l.cumulative = all;
		if (bound)
			((__u64 *)(bound > 4 ? &l.cumulative : &l.per_step))[(bound - 1) % 4]--;
		o = observed(_metadata, self->d, SEE("o", "block.output"), &l, &three);
		if (bound) {
			REFUSED(-EDQUOT, validate(self->d, o, self->p, admitted, &self->b, 0, NULL));
			SAYS(bound > 4 ? "(cumulative)" : "in a step");
		} else {
			OK(validate(self->d, o, self->p, admitted, &self->b, 0, NULL));
		}
		capkm_observe_admitted_free(o);
	}
	ASSERT_EQ(0, self->n.transform + self->n.apply + self->n.describe);

	/* And that is what it comes to. */
	{
		struct capkm_observe_limits l = { .per_step = most, .cumulative = all };
		const u_int64_t chosen[6] = { 0, 2, 4, 6, 1, 3 };
		const struct capkm_observe_host_tensor t_ids = CAPKM_OPTS(struct capkm_observe_host_tensor,
			.dtype = CAPKM_DTYPE_U64, .rank = 2, .shape = route_shape, .data = chosen),
			t_coefficients = F32(route_shape, counting);
		struct capkm_intervene_control c;

		OPEN(SEE("o", "block.output"), &l, ops, &three);
		for (int i = 0; i < 10; i++) {
			BEGIN(i ? CAPKM_DECODE : CAPKM_PREFILL, i);
			SHOW("block.output", i ? &row : &rows);
			CHANGE("block.output", i ? &row : &rows);
			OK(capkm_intervene_route(self->s, "router", i ? 1 : 3, &c, &err));
			ASSERT_EQ(!i, c.operation != NULL);
			if (!i)
				OK(capkm_intervene_routed(self->s, "router",
					WITH(struct capkm_intervene_routes, .original_ids = &t_ids,
					     .original_coefficients = &t_coefficients, .ids = &t_ids,
					     .coefficients = &t_coefficients), &err));
			OK(capkm_intervene_finish(self->s, &err));
			TAKE();
			ADDS_UP();
			if (!i)
				ASSERT_EQ(0, memcmp(&most, &self->step->step_usage, sizeof(most)));
		}
		ASSERT_EQ(0, memcmp(&all, &self->step->cumulative_usage, sizeof(all)));
	}
	capkm_intervene_admitted_free(admitted);
}

/* ER-40, and what goes on from somewhere. */
TEST_F(intervene, t164_forecast_refused)
{
	const struct capkm_observe_request two = { 2, 1, 10 };
	struct capkm_observe_admitted *o = observed(_metadata, self->d, SEE("o", "block.output"), &wide, &one);
	struct capkm_observe_admitted *o2 = observed(_metadata, self->d, SEE("o", "block.output"), &wide, &two);
	struct capkm_observe_discovery d = *self->d;
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_point points[11];
	struct capkm_intervene_admitted *a, *a2;
	const struct capkm_usage much = { MAX, 0, 0, 0 };

	OK(admit(self->p, OP("a", "block.output", ZERO, SHOWS(2)), &one, &a));
	OK(admit(self->p, OP("a", "block.output", ZERO, SHOWS(2)), &two, &a2));
	REFUSED(-EINVAL, validate(self->d, o, self->p, a2, &self->b, 0, NULL));
	SAYS("different requests");
	REFUSED(-EOPNOTSUPP, validate(self->d, o2, self->p, a2, &self->b, 0, NULL));
	SAYS("a batch of more than 1");
	ASSERT_EQ(11, p.points_len);
	memcpy(points, p.points, sizeof(points));
	points[0].node_id = "moved";
	p.points = points;
	REFUSED(-EINVAL, validate(self->d, o, &p, a, &self->b, 0, NULL));
	SAYS("the interventions were admitted to another discovery");
	p = *self->p;
	p.session_identity = "run-8";
	REFUSED(-EINVAL, validate(self->d, o, &p, a, &self->b, 0, NULL));
	p.session_identity = self->p->session_identity;
	p.artifact_identity = NULL;
	REFUSED(-EINVAL, validate(self->d, o, &p, a, &self->b, 0, NULL));
	SAYS("the discovery: a text or list is NULL");
	/* The identity of what is observed does not have the model's. */
	p.artifact_identity = "tiny-2";
	REFUSED(-EINVAL, validate(self->d, o, &p, a, &self->b, 0, NULL));
	SAYS("the interventions were admitted to another discovery");
	d.artifact_identity = "tiny-2";
	REFUSED(-EINVAL, validate(&d, o, self->p, a, &self->b, 0, NULL));
	SAYS("different models");
	ASSERT_EQ(0, self->n.estimate);
	REFUSED(-EINVAL, validate(self->d, o, self->p, a, &self->b, 11, NULL));
	REFUSED(-EOVERFLOW, validate(self->d, o, self->p, a, &self->b, 0, &much));
	OK(validate(self->d, o, self->p, a, &self->b, 10, &much));
	capkm_observe_admitted_free(o);
	capkm_observe_admitted_free(o2);
	capkm_intervene_admitted_free(a);
	capkm_intervene_admitted_free(a2);
}

/* T-164: records are charged first; evidence that does not fit fails, or is left out. */
TEST_F(intervene, t164_over_budget)
{
	const u_int64_t strings = 1 + 12 + 5 + IDENTITY_LEN;
	struct capkm_observe_limits l = wide;

	for (int skip = 0; skip < 2; skip++) {
		l = wide;
		l.on_limit = skip ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
		l.per_step.captures = 1;
		self->n.apply = 0;
		OPEN("", &l, OP("a", "block.output", ZERO, SHOWS(2)), &one);
		BEGIN(CAPKM_PREFILL, 0);
		if (skip) {
			CHANGE("block.output", &row);
			HOLDS(self->out, 0, 0);
		} else {
			NO_CHANGE(-EDQUOT, "block.output", &row);
		}
		TAKE();
		ADDS_UP();
		ASSERT_EQ(CAPKM_OUTCOME_CAPTURED, DONE(0)->evidence[0].outcome.kind);
		ASSERT_EQ(skip ? CAPKM_OUTCOME_SKIPPED : CAPKM_OUTCOME_FAILED,
			  DONE(0)->evidence[1].outcome.kind);
		ASSERT_EQ(CAPKM_REASON_LIMIT, DONE(0)->evidence[1].outcome.reason.kind);
		ASSERT_EQ(skip ? CAPKM_INTERVENTION_APPLIED : CAPKM_INTERVENTION_FAILED,
			  DONE(0)->outcome.kind);
		CLOSE();

		/* Records that do not fit are an error, and those of observing are there. */
		l = wide;
		l.on_limit = skip ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
		l.per_step.host_bytes = 512 + 18 + 256 + OP_HOST(strings) - 1;
		OPEN(SEE("o", "block.output"), &l, OP("a", "block.output", ZERO, ""), &one);
		REFUSED(-EDQUOT, capkm_observe_begin_step(self->s, CAPKM_PREFILL, 0, &err));
		REFUSED(-EINVAL, capkm_observe_begin_step(self->s, CAPKM_PREFILL, 0, &err));
		SAYS("are not taken");
		SHOW("block.output", &row);
		NO_CHANGE(-EINVAL, "block.output", &row);
		SAYS("the step has no records of interventions");
		REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
		TAKE();
		ASSERT_EQ(1, self->step->records_len);
		ASSERT_EQ(0, self->step->interventions_len);
		NO_CHECKPOINT();
		CLOSE();
	}
}

/* ------------------------------------------------------------ enabling */

/* T-165 */
TEST_F(intervene, t165_enabled_once)
{
	struct capkm_observe_admitted *o = observed(_metadata, self->d, "", &wide, &one);
	struct capkm_observe_backend b = self->b;
	struct capkm_intervene_admitted *a, *other, *none;
	struct capkm_intervene_plan *plan;
	const struct capkm_usage little = { 0, 0, 1, 0 };
	char identity[CAPKM_INTERVENE_IDENTITY];

	/* What was admitted is not what was given. */
	OK(parse(OP("a", "block.output", ZERO, ""), &plan));
	OK(capkm_intervene_admit(plan, self->p, &one, "session-1", &a, &err));
	((struct capkm_intervene_operation *)plan->operations)->action.kind = CAPKM_ACTION_REPLACE;
	capkm_intervene_plan_free(plan);
	OK(admit(self->p, OP("a", "block.output", ZERO, ""), &three, &other));
	OK(admit(self->p, "", &one, &none));
	strcpy(identity, capkm_intervene_admitted_identity(a));

	OK(capkm_observe_open(self->c, o, &self->b, NULL, &self->s, &err));
	REFUSED(-EINVAL, capkm_intervene_enable(self->s, other, &err));
	SAYS("different requests");
	OK(capkm_intervene_enable(self->s, none, &err));
	OK(capkm_intervene_enable(self->s, a, &err));
	REFUSED(-EINVAL, capkm_intervene_enable(self->s, a, &err));
	SAYS("has interventions already");
	capkm_intervene_admitted_free(a);
	ASSERT_STREQ(identity, capkm_intervene_admitted_identity(capkm_intervene_session_plan(self->s)));
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &row);
	HOLDS(self->out, 0, 0);
	TAKE();
	ASSERT_STREQ(identity, DONE(0)->plan_identity);
	CLOSE();

	OK(admit(self->p, OP("a", "block.output", ZERO, ""), &one, &a));
	OK(capkm_observe_open(self->c, o, &self->b, NULL, &self->s, &err));
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_intervene_enable(self->s, a, &err));
	SAYS("the session's first step has begun");
	CLOSE();
	OK(capkm_observe_open(self->c, o, &self->b, NULL, &self->s, &err));
	OK(capkm_ledger_reserve(self->c, capkm_observe_ledger(self->s), &little,
		WITH(struct capkm_reservation, .out_axis = 0), &err));
	REFUSED(-EINVAL, capkm_intervene_enable(self->s, a, &err));
	SAYS("has been charged");
	CLOSE();

	/* A backend that changes nothing. */
	b.apply = NULL;
	OK(capkm_observe_open(self->c, o, &b, NULL, &self->s, &err));
	REFUSED(-EOPNOTSUPP, capkm_intervene_enable(self->s, a, &err));
	CLOSE();
	b = self->b;
	b.sz = offsetof(struct capkm_observe_backend, apply);
	OK(capkm_observe_open(self->c, o, &b, NULL, &self->s, &err));
	REFUSED(-EOPNOTSUPP, capkm_intervene_enable(self->s, a, &err));
	capkm_intervene_admitted_free(a);
	capkm_intervene_admitted_free(other);
	capkm_intervene_admitted_free(none);
	capkm_observe_admitted_free(o);
}

/* ------------------------------------------------------------ plans */

/* A plan with one operation of each kind, and all that can be said of them. */
static const char all_kinds[] =
	"{\"schema_version\":1,\"operations\":["
	"{\"id\":\"zero\",\"target\":\"block.output\",\"schedule\":{\"prefill\":true,\"decode\":false,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[{\"axis\":\"token\",\"start\":1,\"end\":3,\"stride\":2}],\"action\":{\"kind\":\"zero\",\"dtype\":\"bfloat16\"},\"evidence\":{\"kind\":\"summary\"}},"
	"{\"id\":\"scale\",\"target\":\"block.output\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":1,\"end_prediction\":9,\"every\":2},"
	"\"slices\":[],\"action\":{\"kind\":\"scale\",\"dtype\":\"float16\",\"factor\":-0.5},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"mask\",\"target\":\"block.output\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"mask\",\"dtype\":\"float32\",\"shape\":[1,2],\"keep\":[true,false]},\"evidence\":{\"kind\":\"preview\",\"max_elements\":2}},"
	"{\"id\":\"replace\",\"target\":\"block.output\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"replace\",\"tensor\":{\"shape\":[1,2],\"values\":{\"dtype\":\"float32\",\"values\":[-0.0,0.1]}}},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"add\",\"target\":\"block.output\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"add\",\"tensor\":{\"shape\":[1,2],\"values\":{\"dtype\":\"float16\",\"values\":[15360,65535]}}},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"tokens\",\"target\":\"model.logits\",\"schedule\":{\"prefill\":true,\"decode\":true,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[4,0]},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"not\",\"target\":\"router\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":0,\"end_prediction\":2,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"exclude_experts\",\"ids\":[7]},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"idle\",\"target\":\"router\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":2,\"end_prediction\":3,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"zero_expert_contribution\",\"ids\":[0,1,2,3,4,5,6,7]},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"bias\",\"target\":\"router\",\"schedule\":{\"prefill\":false,\"decode\":true,\"first_prediction\":3,\"end_prediction\":4,\"every\":1},"
	"\"slices\":[],\"action\":{\"kind\":\"bias_routing_scores\",\"stage\":\"logits\",\"ids\":[1],\"biases\":[-1.5]},\"evidence\":{\"kind\":\"none\"}},"
	"{\"id\":\"force\",\"target\":\"router\",\"schedule\":{\"prefill\":true,\"decode\":false,\"first_prediction\":0,\"end_prediction\":null,\"every\":1},"
	"\"slices\":[{\"axis\":\"token\",\"start\":0,\"end\":2,\"stride\":1}],\"action\":{\"kind\":\"force_experts\",\"shape\":[2,2],\"ids\":[0,1,7,6]},\"evidence\":{\"kind\":\"preview\",\"max_elements\":4096}}"
	"]}";

/* JSON to the byte, of plans and discoveries. */
TEST_F(intervene, t166_json)
{
	struct capkm_intervene_discovery *d;
	struct capkm_intervene_plan *plan;
	char *json, *again;
	size_t len;

	OK(capkm_intervene_plan_parse(all_kinds, strlen(all_kinds), &plan, &err));
	OK(capkm_intervene_plan_json(plan, &json, &len, &err));
	ASSERT_STREQ(all_kinds, json);
	ASSERT_EQ(strlen(json), len);
	ASSERT_EQ(65535, plan->operations[4].action.values.bits[1]);
	ASSERT_EQ(-0.5, plan->operations[1].action.factor);
	free(json);
	capkm_intervene_plan_free(plan);

	OK(capkm_intervene_discovery_json(self->p, &json, &len, &err));
	OK(capkm_intervene_discovery_parse(json, len, &d, &err));
	OK(capkm_intervene_discovery_json(d, &again, NULL, &err));
	ASSERT_STREQ(json, again);
	ASSERT_EQ(0, strncmp(json, places_json, strlen("{\"schema_version\":1,\"artifact_identity\":\"tiny-1\",\"session_identity\":\"run-7\"")));
	ASSERT_EQ(4, d->points[9].routing->groups);
	free(json);
	free(again);
	capkm_intervene_discovery_free(d);
	ASSERT_STREQ("zero_expert_contribution", capkm_intervene_kind_name(7));
	ASSERT_STREQ("unknown", capkm_intervene_kind_name(10));
	ASSERT_STREQ("applied", capkm_intervene_outcome_name(1));
	ASSERT_STREQ("unknown", capkm_intervene_outcome_name(UINT32_MAX));
}

static int identity(const struct capkm_intervene_discovery *p, const char *operations,
		    const struct capkm_observe_request *r, const char *session,
		    char out[CAPKM_INTERVENE_IDENTITY])
{
	struct capkm_intervene_admitted *a;
	struct capkm_intervene_plan *plan;
	int rc = parse(operations, &plan);

	if (rc)
		return rc;
	rc = capkm_intervene_admit(plan, p, r, session, &a, &err);
	capkm_intervene_plan_free(plan);
	if (rc)
		return rc;
	strcpy(out, capkm_intervene_admitted_identity(a));
	if (strcmp(session, capkm_intervene_admitted_session(a)) ||
	    capkm_intervene_admitted_request(a)->max_predictions != r->max_predictions)
		rc = -EPROTO;
	capkm_intervene_admitted_free(a);
	return rc;
}

/* As sha256sum has it, of [plan,[points],request,"tiny-1","run-7","session-1"]. */
#define IDENTITY_OF_A "intervention-v1-24a74e3f0a60aabff58f988409f7b7928b70548d4c0e126644b3fd21d67ae593"

/* T-166 */
TEST_F(intervene, t166_identity)
{
	static const char ab[] = OP("a", "block.output", ZERO, "") "," OP("b", "block.output", ZERO, "");
	static const char ba[] = OP("b", "block.output", ZERO, "") "," OP("a", "block.output", ZERO, "");
	const struct capkm_observe_request longer = { 1, 1, 11 };
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_point points[11];
	char is[CAPKM_INTERVENE_IDENTITY], other[CAPKM_INTERVENE_IDENTITY];

	OK(identity(&p, OP("a", "block.output", ZERO, ""), &one, "session-1", is));
	ASSERT_STREQ(IDENTITY_OF_A, is);
	OK(identity(&p, ab, &one, "session-1", is));
	ASSERT_EQ(0, strncmp(is, "intervention-v1-", 16));
	ASSERT_EQ(IDENTITY_LEN, strlen(is));
#define DIFFERS(...) do {						\
	OK(identity(__VA_ARGS__, other));				\
	ASSERT_STRNE(is, other);					\
} while (0)
	DIFFERS(&p, ba, &one, "session-1");
	DIFFERS(&p, ab, &longer, "session-1");
	DIFFERS(&p, ab, &one, "session-2");
	p.artifact_identity = "tiny-2";
	DIFFERS(&p, ab, &one, "session-1");
	p = *self->p;
	p.session_identity = "run-8";
	DIFFERS(&p, ab, &one, "session-1");
	p = *self->p;
	p.points = points;
	memcpy(points, self->p->points, sizeof(points));
	points[0].node_id = "moved";
	DIFFERS(&p, ab, &one, "session-1");
	memcpy(points, self->p->points, sizeof(points));
	points[1].node_id = "moved";	/* nobody's */
	OK(identity(&p, ab, &one, "session-1", other));
	ASSERT_STREQ(is, other);
}

/* A plan is wrong: where, in which field. */
TEST_F(intervene, malformed)
{
	static const struct {
		const char *json, *says;
	} bad[] = {
		{ "", "line 1: must be an object" },
		{ "{\"schema_version\":1}", "the field \"operations\" is missing" },
		{ "{\"schema_version\":1,\n\"operations\":[{\"id\":\"a\",\n\"id\":\"b\"}]}",
		  "line 3, operations[0]: the field \"id\" is given twice" },
		{ "{\"schema_version\":1,\"operations\":[{\"id\":\"a\",\"what\":1}]}",
		  "operations[0]: there is no field \"what\" here, only id, target" },
		{ "{\"schema_version\":1,\"operations\":[],\"limits\":{}}", "there is no field \"limits\" here" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"explode\"}}]}",
		  "line 1, operations[0].action.kind: \"explode\" is none of zero, scale" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"zero\",\"dtype\":\"float64\"}}]}",
		  "operations[0].action.dtype: \"float64\" is none of float32, float16, bfloat16" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"zero\",\"dtype\":\"float32\",\"factor\":1.0}}]}",
		  "operations[0].action: there is no field \"factor\" here, only kind, dtype" },
		{ "{\"schema_version\":1,\"operations\":[\n\n{\"action\":{\"kind\":\"add\",\"tensor\":{\"shape\":[1],\"values\":{\"dtype\":\"float16\",\"values\":[1,65536]}}}}]}",
		  "line 3, operations[0].action.tensor.values.values[1]: must be a whole number from 0 to 65535" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"mask\",\"dtype\":\"float32\",\"shape\":[-1],\"keep\":[]}}]}",
		  "operations[0].action.shape[0]: must be a whole number" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"mask\",\"dtype\":\"float32\",\"shape\":[1],\"keep\":[1]}}]}",
		  "action.keep[0]: must be true or false" },
		{ "{\"schema_version\":1,\"operations\":[{\"action\":{\"kind\":\"exclude_experts\",\"ids\":[4294967296]}}]}",
		  "action.ids[0]: must be a whole number from 0 to 4294967295" },
		{ "{\"schema_version\":1,\"operations\":[{\"evidence\":{\"kind\":\"preview\"}}]}",
		  "operations[0].evidence: the field \"max_elements\" is missing" },
		{ "{\"schema_version\":1,\"operations\":[{\"evidence\":{\"kind\":\"none\",\"max_elements\":1}}]}",
		  "there is no field \"max_elements\" here, only kind" },
		{ "{\"schema_version\":1,\"operations\":[{}]}", "operations[0]: the field \"id\" is missing" },
		{ "{\"schema_version\":1,\"operations\":[]} x", "there is more text after its end" },
	};
	struct capkm_intervene_plan *plan = NOTHING;
	char *cut = strdup(all_kinds), *big;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		REFUSED(-EINVAL, capkm_intervene_plan_parse(bad[i].json, strlen(bad[i].json), &plan, &err));
		BEGINS("intervene_plan_parse: line ");
		SAYS(bad[i].says);
	}
	/* Every beginning of a plan is no plan. */
	for (size_t i = 0; i < strlen(all_kinds); i += t_param("CAPKM_MUTATIONS_STEP", 1, 7)) {
		ASSERT_EQ(-EINVAL, capkm_intervene_plan_parse(cut, i, &plan, &err)) {
			TH_LOG("%zu bytes", i);
		}
	}
	/* Whatever is one byte of it, there is no harm. */
	for (size_t i = 0; i < strlen(all_kinds); i += t_param("CAPKM_MUTATIONS_STEP", 1, 7)) {
		struct capkm_intervene_plan *p;
		struct capkm_intervene_admitted *a;

		cut[i] ^= 1 + i % 7;
		if (!capkm_intervene_plan_parse(cut, strlen(all_kinds), &p, &err)) {
			if (!capkm_intervene_admit(p, self->p, &three, "s", &a, &err))
				capkm_intervene_admitted_free(a);
			capkm_intervene_plan_free(p);
		}
		cut[i] = all_kinds[i];
	}
	free(cut);
	big = malloc(CAPKM_INTERVENE_JSON + 1);
	memset(big, ' ', CAPKM_INTERVENE_JSON + 1);
	REFUSED(-EFBIG, capkm_intervene_plan_parse(big, CAPKM_INTERVENE_JSON + 1, &plan, &err));
	memcpy(big, all_kinds, strlen(all_kinds));
	OK(capkm_intervene_plan_parse(big, CAPKM_INTERVENE_JSON, &plan, &err));
	capkm_intervene_plan_free(plan);
	free(big);
}

/* Structs that nobody has parsed. */
TEST_F(intervene, bad_structs)
{
	struct capkm_intervene_admitted *a = NOTHING;
	struct capkm_intervene_plan *plan;
	struct capkm_intervene_operation op;
	const float nan[] = { NAN, 1 };
	char *json;

#define TRIED(change, text) do {					\
	struct capkm_intervene_plan bad_ = { 1, 1, &op };		\
									\
	op = plan->operations[3];					\
	change;								\
	REFUSED(-EINVAL, capkm_intervene_admit(&bad_, self->p, &three, "s", &a, &err)); \
	SAYS(text);							\
} while (0)
	OK(capkm_intervene_plan_parse(all_kinds, strlen(all_kinds), &plan, &err));
	TRIED(op.id = NULL, "the plan: a text or list is NULL");
	TRIED(op.target = NULL, "is NULL");
	TRIED(op.id = "\xff", "not UTF-8");
	TRIED(op.action.kind = 10, "a kind is none");
	TRIED(op.action.kind = UINT32_MAX, "a kind is none");
	TRIED(op.action.values.dtype = 0, "a kind is none");
	TRIED(op.action.values.dtype = CAPKM_DTYPE_I64, "a kind is none");
	TRIED(op.evidence.kind = 3, "a kind is none");
	TRIED(op.action.shape = NULL, "is NULL");
	TRIED(op.action.values.any = NULL, "is NULL");
	TRIED(op.slices_len = 1; op.slices = NULL, "is NULL");
	TRIED(op.action.values.f32 = nan, "value 0 is not finite");
	TRIED(op.action.values.len = 1, "1 values for a shape of 2");
	ASSERT_EQ(NOTHING, a);
	op = plan->operations[0];
	op.action.dtype = 9;
	REFUSED(-EINVAL, capkm_intervene_plan_json(&(struct capkm_intervene_plan){ 1, 1, &op }, &json, NULL, &err));
	capkm_intervene_plan_free(plan);
}

/* ER-28: what is wrong with the whole. */
TEST_F(intervene, t170_of_the_whole)
{
	const struct capkm_observe_request empty = { 1, 0, 10 }, huge = { 2, MAX / 2 + 1, 10 },
					   endless = { 1, 2, MAX };
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_admitted *a = NOTHING;
	struct capkm_intervene_plan *plan;
	char ops[65 * 100] = "", *at = ops;

	OK(parse(OP("a", "block.output", ZERO, ""), &plan));
#define REFUSED_NOW(rc, session, request, text) do {			\
	REFUSED(rc, capkm_intervene_admit(plan, &p, request, session, &a, &err)); \
	SAYS(text);							\
} while (0)
	plan->schema_version = 2;
	REFUSED_NOW(-EINVAL, "s", &one, "the schema_version of the plan is 2, not 1");
	plan->schema_version = 1;
	p.schema_version = 0;
	REFUSED_NOW(-EINVAL, "s", &one, "the schema_version of the discovery is 0, not 1");
	p.schema_version = 1;
	REFUSED_NOW(-EINVAL, NULL, &one, "the session needs a name");
	REFUSED_NOW(-EINVAL, "", &one, "the session needs a name");
	REFUSED_NOW(-EINVAL, "\xc0", &one, "the session needs a name");
	p.artifact_identity = "";
	REFUSED_NOW(-EINVAL, "s", &one, "names no model");
	p.artifact_identity = "tiny-1";
	p.session_identity = "";
	REFUSED_NOW(-EINVAL, "s", &one, "of a model that does not run");
	p.session_identity = NULL;
	REFUSED_NOW(-EINVAL, "s", &one, "the discovery: a text or list is NULL");
	p = *self->p;
	REFUSED_NOW(-EINVAL, "s", &empty, "must not be 0");
	REFUSED_NOW(-EOVERFLOW, "s", &huge, "64 bits");
	REFUSED_NOW(-EOVERFLOW, "s", &endless, "64 bits");
	ASSERT_EQ(NOTHING, a);
	capkm_intervene_plan_free(plan);

	for (int i = 0; i < 65; i++) {
		at += sprintf(at, "%s" OP("%d", "block.output", ZERO, ""), i ? "," : "", i);
		if (i == 63)
			ADMITTED(ops, &one);
	}
	NOT_ADMITTED(-EINVAL, ops, &one, "65 operations; at most 64 are supported");
}

/* A list of @n of them. */
static char *list(const char *item, size_t n)
{
	const size_t len = strlen(item) + 1;
	char *text = malloc(n * len + 3), *at = text;

	*at++ = '[';
	while (n--)
		at += sprintf(at, "%s,", item);
	strcpy(at - 1, "]");
	return text;
}

/* T-170: at each bound, and beyond it. */
TEST_F(intervene, t170_bounds)
{
	char id[130], target[1026], *text, *values, *shape;
	struct capkm_intervene_admitted *a;
	struct capkm_intervene_plan *plan;

#define SIZED(format, ...) do {						\
	free(text);							\
	ASSERT_LT(0, asprintf(&text, format, __VA_ARGS__));		\
} while (0)
	text = NULL;
	memset(id, 'i', sizeof(id));
	id[129] = 0;
	SIZED(OP("%s", "block.output", ZERO, ""), id);
	NOT_ADMITTED(-EINVAL, text, &one, "the id of an operation has 129 bytes; 1 to 128 are supported");
	SIZED(OP("%s", "block.output", ZERO, ""), id + 1);
	ADMITTED(text, &one);
	NOT_ADMITTED(-EINVAL, OP("", "block.output", ZERO, ""), &one, "has 0 bytes");
	memset(target, 't', sizeof(target));
	target[1025] = 0;
	SIZED(OP("a", "%s", ZERO, ""), target);
	NOT_ADMITTED(-EINVAL, text, &one, "the target of an operation has 1025 bytes; 1 to 1024");
	SIZED(OP("a", "%s", ZERO, ""), target + 1);
	NOT_ADMITTED(-ENOENT, text, &one, "there is no point of interventions 'ttt");
	NOT_ADMITTED(-EINVAL, OP("a", "", ZERO, ""), &one, "target of an operation has 0 bytes");
	NOT_ADMITTED(-EINVAL, OP("a", "block.output", ZERO, SHOWS(0)), &one, "a preview of 0 elements; 1 to 4096");
	NOT_ADMITTED(-EINVAL, OP("a", "block.output", ZERO, SHOWS(4097)), &one, "a preview of 4097 elements");
	ADMITTED(OP("a", "block.output", ZERO, SHOWS(4096)), &one);

	/* 8 for the axis, and all the rest: what is refused then is the shape. */
	values = list("1", (CAPKM_INTERVENE_PAYLOAD - 8) / 4 + 1);
	SIZED(OP("a", "block.output", TENSOR("add", "[131071]", "%s"), ""), values);
	NOT_ADMITTED(-EINVAL, text, &one, "the values of the plan have more than 524288 bytes");
	values[strlen(values) - 2] = 0;
	strcpy(strrchr(values, ','), "]");
	SIZED(OP("a", "block.output", TENSOR("add", "[131070]", "%s"), ""), values);
	NOT_ADMITTED(-EINVAL, text, &one, "the values have 1 axes; 'block.output' has 2");
	/* It is of the plan, not of an operation: one more byte is too much. */
	SIZED(OP("m", "block.output", "\"kind\":\"mask\",\"dtype\":\"float32\",\"shape\":[1,2],\"keep\":[true,false]", "") ","
	      OP("a", "block.output", TENSOR("add", "[131070]", "%s"), ""), values);
	NOT_ADMITTED(-EINVAL, text, &one, "more than 524288 bytes");
	ASSERT_EQ(1, err.index);
	free(values);
	/* 16 bits have half. */
	values = list("1", (CAPKM_INTERVENE_PAYLOAD - 16) / 2);
	SIZED(OP("a", "block.output", BITS("add", "float16", "%s"), ""), values);
	NOT_ADMITTED(-EINVAL, text, &one, "262136 values for a shape of 2");
	free(values);
	values = list("7", CAPKM_INTERVENE_PAYLOAD / 4 + 1);
	SIZED(OP("a", "router", EXPERTS("exclude_experts", "%s"), ""), values);
	NOT_ADMITTED(-EINVAL, text, &one, "more than 524288 bytes");
	free(values);

	/* JSON that is long without being much: a name of every axis is in a slice. */
	shape = list("{\"axis\":\"token\",\"start\":0,\"end\":1,\"stride\":1}", 25000);
	SIZED("{\"schema_version\":1,\"operations\":[" OP("a", "block.output", ZERO, ",\"slices\":%s") "]}", shape);
	REFUSED(-EFBIG, capkm_intervene_plan_parse(text, strlen(text), &plan, &err));
	free(shape);

	/* As a struct it may have 2^20 bytes, too. */
	OK(parse(OP("a", "router", EXPERTS("bias_routing_scores", "[0],\"stage\":\"logits\",\"biases\":[1.0]"), ""), &plan));
	OK(capkm_intervene_admit(plan, self->p, &one, "s", &a, &err));
	capkm_intervene_admitted_free(a);
	capkm_intervene_plan_free(plan);
	free(text);
}

/* The encoded plan has a bound, too: operations of many long slices that are right. */
TEST_F(intervene, t170_encoded)
{
	enum { AXES = 32, OPS = 64 };
	static char name[AXES][700];
	struct capkm_observe_axis axes[AXES];
	struct capkm_observe_slice slices[AXES];
	struct capkm_intervene_point point = self->p->points[0];
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_operation ops[OPS];
	struct capkm_intervene_plan plan = { 1, OPS, ops }, *one_op;
	struct capkm_intervene_admitted *a = NOTHING;
	char ids[OPS][4];

	OK(parse(OP("a", "block.output", ZERO, ""), &one_op));
	for (int i = 0; i < AXES; i++) {
		memset(name[i], 'n', sizeof(name[i]) - 1);
		name[i][0] = 'A' + i;
		axes[i] = (struct capkm_observe_axis){ name[i], { CAPKM_EXTENT_KNOWN, 1 } };
		slices[i] = (struct capkm_observe_slice){ name[i], 0, 1, 1 };
	}
	point.axes = axes;
	point.axes_len = AXES;
	p.points = &point;
	p.points_len = 1;
	for (int i = 0; i < OPS; i++) {
		sprintf(ids[i], "%d", i);
		ops[i] = one_op->operations[0];
		ops[i].id = ids[i];
		ops[i].slices = slices;
		ops[i].slices_len = AXES;
	}
	REFUSED(-EINVAL, capkm_intervene_admit(&plan, &p, &one, "s", &a, &err));
	SAYS("the plan's JSON has more than 1048576 bytes");
	plan.operations_len = 32;
	OK(capkm_intervene_admit(&plan, &p, &one, "s", &a, &err));
	capkm_intervene_admitted_free(a);
	/* 33 axes. */
	point.axes_len = AXES + 1;
	point.axes = calloc(AXES + 1, sizeof(*axes));
	memcpy((void *)point.axes, axes, sizeof(axes));
	((struct capkm_observe_axis *)point.axes)[AXES].name = "z";
	a = NOTHING;
	REFUSED(-EINVAL, capkm_intervene_admit(&plan, &p, &one, "s", &a, &err));
	SAYS("has 33 axes; 1 to 32 are supported");
	free((void *)point.axes);
	capkm_intervene_plan_free(one_op);
}

/* T-167 */
TEST_F(intervene, t167_shapes)
{
	static const char *const shapes[][3] = {
		{ "[2]", "[1.0,2.0]", "the values have 1 axes; 'block.output' has 2" },
		{ "[1,1]", "[1.0]", "the values have 1 on axis 'feature', where 2 are selected" },
		{ "[3,2]", "[1.0,2.0,3.0,4.0,5.0,6.0]", "the values have 3 on axis 'token', where 1 are selected" },
		{ "[2,1]", "[1.0,2.0]", "the values have 2 on axis 'token'" },
		{ "[1,2]", "[1.0]", "1 values for a shape of 2" },
		{ "[1,2]", "[1.0,2.0,3.0]", "3 values for a shape of 2" },
		{ "[]", "[1.0]", "the values have 0 axes" },
		{ "[0,2]", "[]", "the values have 0 on axis 'token'" },
		{ "[4294967296,4294967296]", "[]", "64 bits" },
	};
	char *text = NULL;

	/* At decodes there is no row 1. */
	NOT_ADMITTED(-EINVAL, OP("a", "block.output", TENSOR("replace", "[1,2]", "[1.0,2.0]"), ROW(1, 2)), &three,
		     "the slice of axis 'token' ends at 2, the axis at 1 at prediction 1");
	ASSERT_EQ(0, err.index);
	ADMITTED(OP("a", "block.output", TENSOR("replace", "[1,2]", "[1.0,2.0]"), ROW(1, 2) PREFILL), &three);
	/* Unless there are none. */
	ADMITTED(OP("a", "block.output", TENSOR("replace", "[1,2]", "[1.0,2.0]"), ROW(1, 2)),
		 (&(struct capkm_observe_request){ 1, 3, 1 }));
	NOT_ADMITTED(-EINVAL, OP("a", "block.output", TENSOR("add", "[3,2]", "[1.0,2.0,3.0,4.0,5.0,6.0]"), ""), &three,
		     "the values have 3 on axis 'token', where 1 are selected");
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
		SIZED(OP("a", "block.output", TENSOR("add", "%s", "%s"), ROW(0, 1)), shapes[i][0], shapes[i][1]);
		NOT_ADMITTED(strstr(shapes[i][2], "64") ? -EOVERFLOW : -EINVAL, text, &three, shapes[i][2]);
	}
	SIZED(OP("a", "block.output", "\"kind\":\"mask\",\"dtype\":\"float32\",\"shape\":[1,2],\"keep\":%s", ""), "[true]");
	NOT_ADMITTED(-EINVAL, text, &one, "1 values for a shape of 2");
	/* Where an axis is not known, the others are. */
	NOT_ADMITTED(-EINVAL, OP("a", "open", TENSOR("add", "[7,3]", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]"), ""), &one,
		     "the values have 3 on axis 'feature', where 2 are selected");
	NOT_ADMITTED(-EINVAL, OP("a", "open", TENSOR("add", "[1,2]", "[1,2]"),
		",\"slices\":[{\"axis\":\"row\",\"start\":0,\"end\":5,\"stride\":2}]"), &one,
		     "the values have 1 on axis 'row', where 3 are selected");
	free(text);
}

/* T-168, at admission */
TEST_F(intervene, t168_not_finite)
{
	static const char *const values[][2] = {
		{ TENSOR("add", "[1,2]", "[1.0,\"nan\"]"), "value 1 is not finite" },
		{ TENSOR("replace", "[1,2]", "[\"+inf\",1.0]"), "value 0 is not finite" },
		{ TENSOR("replace", "[1,2]", "[\"-inf\",1.0]"), "value 0 is not finite" },
		{ BITS("add", "float16", "[31744,0]"), "value 0 is not finite" },
		{ BITS("add", "float16", "[64512,0]"), "value 0 is not finite" },
		{ BITS("replace", "float16", "[0,32256]"), "value 1 is not finite" },
		{ BITS("add", "bfloat16", "[32640,0]"), "value 0 is not finite" },
		{ BITS("replace", "bfloat16", "[0,65472]"), "value 1 is not finite" },
		{ "\"kind\":\"scale\",\"dtype\":\"float32\",\"factor\":\"nan\"", "the factor is not finite" },
		{ "\"kind\":\"scale\",\"dtype\":\"float32\",\"factor\":\"+inf\"", "the factor is not finite" },
		{ "\"kind\":\"scale\",\"dtype\":\"float32\",\"factor\":3.4028236e38", "beyond what a float32 can be" },
		{ "\"kind\":\"scale\",\"dtype\":\"float16\",\"factor\":-65504.5", "beyond what a float16 can be" },
		{ "\"kind\":\"scale\",\"dtype\":\"bfloat16\",\"factor\":3.3896e38", "beyond what a bfloat16 can be" },
	};
	static const char *const good[] = {
		BITS("add", "float16", "[31743,64511]"), BITS("add", "bfloat16", "[32639,65407]"),
		BITS("add", "bfloat16", "[31744,32256]"),
		"\"kind\":\"scale\",\"dtype\":\"float32\",\"factor\":-3.4028234663852886e38",
		"\"kind\":\"scale\",\"dtype\":\"float16\",\"factor\":65504.0",
		"\"kind\":\"scale\",\"dtype\":\"bfloat16\",\"factor\":3.3895313892515355e38",
	};
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		SIZED(OP("a", "block.output", "%s", ""), values[i][0]);
		NOT_ADMITTED(-EINVAL, text, &one, values[i][1]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		SIZED(OP("a", "block.output", "%s", ""), good[i]);
		ADMITTED(text, &one);
	}
	free(text);
}

/* T-169 */
TEST_F(intervene, t169_refused)
{
#define SLICE(axis, start, end, stride) "{\"axis\":\"" axis "\",\"start\":" #start ",\"end\":" #end ",\"stride\":" #stride "}"
#define SLICES(...) ",\"slices\":[" __VA_ARGS__ "]"
	static const struct {
		int rc;
		const char *op, *says;
	} bad[] = {
		{ -ENOENT, OP("a", "nowhere", ZERO, ""), "there is no point of interventions 'nowhere'" },
		{ -EINVAL, OP("a", "twice", ZERO, ""), "two points have the path 'twice'" },
		{ -EINVAL, OP("a", "same.axes", ZERO, ""), "two axes of 'same.axes' are 'a'" },
		{ -EINVAL, OP("a", "no.axes", ZERO, ""), "'no.axes' has 0 axes; 1 to 32 are supported" },
		{ -EINVAL, OP("a", "block.output", ZERO, "") "," OP("a", "open", ZERO, ""), "two operations have the id 'a'" },
		{ -EOPNOTSUPP, OP("a", "half", SCALE(1.0), ""), "'half' has no operation 'scale'" },
		{ -EOPNOTSUPP, OP("a", "half", ZERO, PREFILL), "'half' is never a float32" },
		{ -EOPNOTSUPP, OP("a", "half", "\"kind\":\"zero\",\"dtype\":\"float16\"", ""), "'half' at decode is unverified: not tried" },
		{ -EOPNOTSUPP, OP("a", "block.output", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[1]", ""), "has no operation 'mask_logits'" },
		{ -EINVAL, OP("a", "model.logits", EXPERTS("exclude_experts", "[1]"), ""), "'exclude_experts' is no operation of 'model.logits', which is of stage logits_before_sampling" },
		{ -EINVAL, OP("a", "block.output", ZERO, SLICES(SLICE("layer", 0, 1, 1))), "has no axis 'layer'" },
		{ -EINVAL, OP("a", "block.output", ZERO, SLICES(SLICE("token", 0, 1, 1) "," SLICE("token", 0, 1, 1))), "two slices are of axis 'token'" },
		{ -EINVAL, OP("a", "block.output", ZERO, SLICES(SLICE("token", 0, 0, 1))), "needs a stride above 0, and an end above its start" },
		{ -EINVAL, OP("a", "block.output", ZERO, SLICES(SLICE("token", 0, 1, 0))), "needs a stride above 0" },
		{ -EINVAL, OP("a", "block.output", ZERO, SLICES(SLICE("feature", 0, 3, 1))), "the slice of axis 'feature' ends at 3, the axis at 2" },
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[1]"), SLICES(SLICE("expert", 0, 1, 1))), "routing can be sliced along 'token' only" },
		{ -EINVAL, OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[1]", SLICES(SLICE("vocabulary", 0, 2, 1))), "has no slice of 'vocabulary'" },
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[1]"), ",\"evidence\":{\"kind\":\"summary\"}"), "there is no summary of routing" },
		{ -EINVAL, OP("a", "block.output", ZERO, ",\"schedule\":{\"every\":0}"), "every must not be 0" },
		{ -EINVAL, OP("a", "block.output", ZERO, ",\"schedule\":{\"first_prediction\":2,\"end_prediction\":2}"), "end_prediction 2 must be above first_prediction 2" },
		{ -EINVAL, OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[]", ""), "there must be ids" },
		{ -EINVAL, OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[5]", ""), "id 5 of 5" },
		{ -EINVAL, OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[1,3,1]", ""), "id 1 is given twice" },
		{ -EINVAL, OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[0,1,2,3,4]", ""), "no token would be left" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		NOT_ADMITTED(bad[i].rc, bad[i].op, &one, bad[i].says);
	/* What is not scheduled need not be supported. */
	ADMITTED(OP("a", "half", "\"kind\":\"zero\",\"dtype\":\"float16\"", PREFILL), &one);
	ADMITTED(OP("a", "half", "\"kind\":\"zero\",\"dtype\":\"float16\"", ""), (&(struct capkm_observe_request){ 1, 1, 1 }));
	ADMITTED(OP("a", "model.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[0,1,2,4]", ""), &one);
	/* An extent that is not known is none of 0. */
	ADMITTED(OP("a", "open.logits", "\"kind\":\"mask_logits\",\"dtype\":\"float32\",\"ids\":[4294967295]", ""), &one);
}

/* ------------------------------------------------------------ routing */

/* T-171 */
TEST_F(intervene, t171_experts)
{
	static const struct {
		int rc;
		const char *op, *says;
	} bad[] = {
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[]"), ""), "there must be ids" },
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[8]"), ""), "id 8 of 8" },
		{ -EINVAL, OP("a", "router", EXPERTS("zero_expert_contribution", "[0,8]"), ""), "id 8 of 8" },
		{ -EINVAL, OP("a", "router", EXPERTS("zero_expert_contribution", "[3,0,3]"), ""), "id 3 is given twice" },
		/* Two of four groups are selected: those of 0 to 3 would have one. */
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[0,1,3]"), ""), "fewer than top_k 2 experts may be left" },
		{ -EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[0,1,2,3,4,5,6]"), ""), "fewer than top_k 2" },
		{ -EOPNOTSUPP, OP("a", "router", EXPERTS("bias_routing_scores", "[0],\"stage\":\"scored\",\"biases\":[1.0]"), ""), "'router' has no scores 'scored'" },
		{ -EINVAL, OP("a", "router", EXPERTS("bias_routing_scores", "[0],\"stage\":\"logits\",\"biases\":[1.0,2.0]"), ""), "2 biases for 1 ids" },
		{ -EINVAL, OP("a", "router", EXPERTS("bias_routing_scores", "[0],\"stage\":\"logits\",\"biases\":[\"nan\"]"), ""), "bias 0 is not finite" },
		{ -EINVAL, OP("a", "router", EXPERTS("bias_routing_scores", "[0,1],\"stage\":\"logits\",\"biases\":[1.0,\"-inf\"]"), ""), "bias 1 is not finite" },
		{ -EINVAL, OP("a", "router", EXPERTS("bias_routing_scores", "[9],\"stage\":\"logits\",\"biases\":[1.0]"), ""), "id 9 of 8" },
		{ -EINVAL, OP("a", "router", EXPERTS("bias_routing_scores", "[],\"stage\":\"logits\",\"biases\":[]"), ""), "there must be ids" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		NOT_ADMITTED(bad[i].rc, bad[i].op, &three, bad[i].says);
	ADMITTED(OP("a", "router", EXPERTS("exclude_experts", "[0,3]"), ""), &three);
	ADMITTED(OP("a", "router", EXPERTS("exclude_experts", "[1,0]"), ""), &three);
	ADMITTED(OP("a", "router", EXPERTS("exclude_experts", "[0,2,4,6]"), ""), &three);
	ADMITTED(OP("a", "router", EXPERTS("zero_expert_contribution", "[7,6,5,4,3,2,1,0]"), ""), &three);
	ADMITTED(OP("a", "router", EXPERTS("bias_routing_scores", "[7,0],\"stage\":\"logits\",\"biases\":[-3.5,1e30]"), ""), &three);
}

/* ER-29: whichever groups are selected, enough is left: against all choices of groups. */
TEST_F(intervene, t171_exclusion_exhaustive)
{
	struct capkm_intervene_routing r = *self->p->points[9].routing;
	struct capkm_intervene_point point = self->p->points[9];
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_plan *plan;
	struct capkm_intervene_operation op;
	const u_int32_t most = t_param("CAPKM_TEST_EXPERTS", 8, 5);
	u_int32_t ids[9];
	unsigned int feasible = 0, tried = 0;

	ASSERT_GE(8, most);

	OK(parse(OP("a", "router", EXPERTS("exclude_experts", "[1]"), ""), &plan));
	op = plan->operations[0];
	op.action.ids = ids;
	p.points = &point;
	p.points_len = 1;
	point.routing = &r;
	for (r.expert_count = 1; r.expert_count <= most; r.expert_count++)
	for (r.groups = 1; r.groups <= r.expert_count; r.groups++)
	for (r.selected_groups = 1; r.selected_groups <= r.groups; r.selected_groups++)
	for (r.top_k = 1; r.top_k <= r.expert_count; r.top_k++) {
		const u_int32_t size = r.expert_count / r.groups;
		struct capkm_intervene_plan bad = { 1, 1, &op };
		const bool valid = r.expert_count % r.groups == 0 && r.top_k <= r.selected_groups * size;

		for (u_int32_t out = 1; out < 1u << r.expert_count; out++) {
			struct capkm_intervene_admitted *a;
			bool enough = true;
			int rc;

			op.action.ids_len = 0;
			for (u_int32_t i = 0; i < r.expert_count; i++)
				if (out >> i & 1)
					ids[op.action.ids_len++] = i;
			for (u_int32_t choice = 0; valid && choice < 1u << r.groups; choice++) {
				u_int32_t left = 0;

				if (__builtin_popcount(choice) != (int)r.selected_groups)
					continue;
				for (u_int32_t i = 0; i < r.expert_count; i++)
					left += (choice >> i / size & 1) && !(out >> i & 1);
				enough &= left >= r.top_k;
			}
			rc = capkm_intervene_admit(&bad, &p, &three, "s", &a, &err);
			if (!rc)
				capkm_intervene_admitted_free(a);
			ASSERT_EQ(valid && enough ? 0 : -EINVAL, rc) {
				TH_LOG("%u experts, %u of %u groups, top %u, out %x: %s", r.expert_count,
				       r.selected_groups, r.groups, r.top_k, out, err.text);
			}
			tried++;
			feasible += !rc;
		}
	}
	ASSERT_LT(100, feasible);
	ASSERT_LT(feasible, tried);
	capkm_intervene_plan_free(plan);
}

/* A policy that contradicts itself admits nothing. */
TEST_F(intervene, t171_policies)
{
	struct capkm_intervene_routing r = *self->p->points[9].routing;
	struct capkm_intervene_point point = self->p->points[9];
	struct capkm_intervene_discovery p = *self->p;

	p.points = &point;
	p.points_len = 1;
	point.routing = &r;
#define CONTRADICTS(change) do {					\
	struct capkm_intervene_admitted *a_ = NOTHING;			\
									\
	r = *self->p->points[9].routing;				\
	change;								\
	REFUSED(-EINVAL, admit(&p, OP("a", "router", EXPERTS("exclude_experts", "[1]"), ""), &three, &a_)); \
	SAYS("contradicts itself");					\
} while (0)
	CONTRADICTS(r.expert_count = 0);
	CONTRADICTS(r.top_k = 0);
	CONTRADICTS(r.top_k = 9);
	CONTRADICTS(r.top_k = 5);
	CONTRADICTS(r.groups = 0);
	CONTRADICTS(r.groups = 3);
	CONTRADICTS(r.selected_groups = 0);
	CONTRADICTS(r.selected_groups = 5);
	CONTRADICTS(r.epsilon = -1);
	CONTRADICTS(r.epsilon = NAN);
	CONTRADICTS(r.coefficient_scale = 0);
	CONTRADICTS(r.coefficient_scale = INFINITY);
	{
		struct capkm_intervene_admitted *a = NOTHING;

		r = *self->p->points[9].routing;
		point.routing = NULL;
		REFUSED(-EINVAL, admit(&p, OP("a", "router", EXPERTS("exclude_experts", "[1]"), ""), &three, &a));
		point.routing = &r;
		point.axes++;
		point.axes_len--;
		REFUSED(-EINVAL, admit(&p, OP("a", "router", EXPERTS("exclude_experts", "[1]"), ""), &three, &a));
		SAYS("has no axis 'token'");
	}
}

/* T-172 */
TEST_F(intervene, t172_forced)
{
	static const struct {
		const char *shape, *ids, *says;
	} bad[] = {
		{ "[3,2]", "[0,1,2,3,4]", "5 values for a shape of 6" },
		{ "[3,1]", "[0,1,2]", "the shape of forced experts must be rows and top_k 2" },
		{ "[0,2]", "[]", "must be rows and top_k 2" },
		{ "[6]", "[0,1,2,3,4,5]", "must be rows and top_k 2" },
		{ "[3,2]", "[0,1,2,2,4,5]", "id 2 is given twice" },
		{ "[3,2]", "[0,1,2,8,4,5]", "id 8 of 8" },
		{ "[2,2]", "[0,1,2,3]", "experts for 2 rows, where 3 are selected" },
		{ "[9223372036854775808,2]", "[]", "must be rows and top_k 2" },
	};
	struct capkm_intervene_routing r = *self->p->points[9].routing;
	struct capkm_intervene_point point = self->p->points[9];
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_admitted *a = NOTHING;
	char *text = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(bad) - 1; i++) {
		SIZED(OP("a", "router", FORCE("%s", "%s"), PREFILL), bad[i].shape, bad[i].ids);
		NOT_ADMITTED(-EINVAL, text, &three, bad[i].says);
	}
	SIZED(OP("a", "router", FORCE("%s", "%s"), PREFILL), "[9223372036854775808,2]", "[]");
	NOT_ADMITTED(-EOVERFLOW, text, &three, "64 bits");
	free(text);
	/* Rows may have the same experts, in any order. */
	ADMITTED(OP("a", "router", FORCE("[3,2]", "[0,1,1,0,7,3]"), PREFILL), &three);
	ADMITTED(OP("a", "router", FORCE("[2,2]", "[0,1,1,0]"), ROW(1, 3) PREFILL), &three);
	ADMITTED(OP("a", "router", FORCE("[1,2]", "[0,1]"), ROW(0, 1)), &three);
	NOT_ADMITTED(-EINVAL, OP("a", "router", FORCE("[3,2]", "[0,1,1,0,7,3]"), ""), &three, "experts for 3 rows, where 1 are selected");

	/* Of one group only. */
	p.points = &point;
	p.points_len = 1;
	point.routing = &r;
	r.selected_groups = 1;
	REFUSED(-EINVAL, admit(&p, OP("a", "router", FORCE("[3,2]", "[0,1,3,2,1,2]"), PREFILL), &three, &a));
	SAYS("a row of experts in 2 groups, of which 1 are selected");
	ASSERT_EQ(NOTHING, a);
	OK(admit(&p, OP("a", "router", FORCE("[3,2]", "[0,1,3,2,7,6]"), PREFILL), &three, &a));
	capkm_intervene_admitted_free(a);
}

/* T-173: against what the schedules say one by one. */
TEST_F(intervene, t173_overlaps)
{
	static const u_int64_t firsts[] = { 0, 1, 2, 5 }, ends[] = { 0, 3, 6 }, everies[] = { 1, 3 };
	struct capkm_intervene_operation ops[2];
	struct capkm_intervene_plan *plan, both = { 1, 2, ops };
	const unsigned int step = t_param("CAPKM_OVERLAPS_STEP", 1, 13);
	unsigned int admitted = 0, refused = 0;

	NOT_ADMITTED(-EINVAL, OP("a", "router", EXPERTS("exclude_experts", "[1]"), "") ","
		     OP("b", "router", EXPERTS("exclude_experts", "[2]"), DECODES(9, 10)), &three,
		     "operations 'a' and 'b' of one router overlap at decode");
	ASSERT_EQ(1, err.index);
	OK(parse(OP("a", "router", EXPERTS("exclude_experts", "[1]"), "") ","
		 OP("b", "router", EXPERTS("exclude_experts", "[2]"), ""), &plan));
	for (unsigned int i = 0; i < 96 * 96; i += step) {
		bool overlap = false;
		int rc;

		for (unsigned int k = 0, n = i; k < 2; k++) {
			struct capkm_observe_schedule *s = &ops[k].schedule;

			ops[k] = plan->operations[k];
			s->prefill = n & 1;
			s->decode = n >> 1 & 1;
			n >>= 2;
			s->first_prediction = firsts[n % 4];
			n /= 4;
			s->end_prediction.value = ends[n % 3];
			s->end_prediction.present = ends[n % 3];
			n /= 3;
			s->every = everies[n % 2];
			n /= 2;
		}
		if ((ops[0].schedule.end_prediction.present &&
		     ops[0].schedule.end_prediction.value <= ops[0].schedule.first_prediction) ||
		    (ops[1].schedule.end_prediction.present &&
		     ops[1].schedule.end_prediction.value <= ops[1].schedule.first_prediction))
			continue;
		for (u_int32_t phase = 0; phase < 2; phase++) {
			int low[2] = { 99, 99 }, high[2] = { -1, -1 };

			for (int at = phase; at < (phase ? 10 : 1); at++)
				for (int k = 0; k < 2; k++)
					if (capkm_observe_includes(&ops[k].schedule, phase, at)) {
						high[k] = at;
						low[k] = low[k] < at ? low[k] : at;
					}
			overlap |= low[0] <= high[1] && low[1] <= high[0];
		}
		{
			struct capkm_intervene_admitted *a;

			rc = capkm_intervene_admit(&both, self->p, &three, "s", &a, &err);
			if (!rc)
				capkm_intervene_admitted_free(a);
		}
		ASSERT_EQ(overlap ? -EINVAL : 0, rc) { TH_LOG("%u: %s", i, err.text); }
		admitted += !rc;
		refused += !!rc;
	}
	ASSERT_LT(100, admitted);
	ASSERT_LT(100, refused);
	/* Of two routers, and of tensors, they may. */
	ADMITTED(OP("a", "router", EXPERTS("exclude_experts", "[1]"), "") "," OP("b", "open.router", EXPERTS("exclude_experts", "[2]"), ""), &three);
	capkm_intervene_plan_free(plan);
}

static const u_int64_t chosen[6] = { 0, 2, 4, 6, 1, 3 }, forced[6] = { 7, 2, 4, 6, 1, 3 };
static const struct capkm_observe_host_tensor
	of_ids = CAPKM_OPTS(struct capkm_observe_host_tensor, .dtype = CAPKM_DTYPE_U64, .rank = 2,
			    .shape = route_shape, .data = chosen),
	of_forced = CAPKM_OPTS(struct capkm_observe_host_tensor, .dtype = CAPKM_DTYPE_U64, .rank = 2,
			       .shape = route_shape, .data = forced),
	of_coefficients = F32(route_shape, counting);

#define ROUTE(rows_) do {						\
	memset(&control, 0xcc, sizeof(control));			\
	OK(capkm_intervene_route(self->s, "router", rows_, &control, &err)); \
} while (0)
#define NO_ROUTE(rc, path, rows_) do {					\
	memset(&control, 0xcc, sizeof(control));			\
	REFUSED(rc, capkm_intervene_route(self->s, path, rows_, &control, &err)); \
	ASSERT_EQ(NULL, control.operation);				\
} while (0)
#define ROUTED(...) capkm_intervene_routed(self->s, "router",		\
	WITH(struct capkm_intervene_routes, __VA_ARGS__), &err)

/* T-174: what a router is told, and what it shows. */
TEST_F(intervene, t174_routes)
{
	struct capkm_intervene_control control;

	OPEN("", &wide, OP("f", "router", FORCE("[1,2]", "[7,2]"), SHOWS(3) ROW(0, 1) PREFILL) ","
	     OP("x", "router", EXPERTS("exclude_experts", "[3]"), DECODES(1, 3)) ","
	     OP("t", "block.output", ZERO, DECODES(2, 3)), &three);
	NO_ROUTE(-EINVAL, "router", 3);
	SAYS("no step has begun");
	REFUSED(-EINVAL, ROUTED(.ids = &of_ids));
	SAYS("the router 'router' was not told of an operation");
	BEGIN(CAPKM_PREFILL, 0);
	OK(capkm_intervene_route(self->s, "open.router", 3, &control, &err));
	ASSERT_EQ(NULL, control.operation);
	OK(capkm_intervene_route(self->s, "block.output", 3, &control, &err));
	ASSERT_EQ(NULL, control.operation);
	REFUSED(-EINVAL, ROUTED(.ids = &of_ids));
	ROUTE(3);
	ASSERT_STREQ("f", control.operation->id);
	ASSERT_EQ(CAPKM_ACTION_FORCE_EXPERTS, control.operation->action.kind);
	ASSERT_EQ(0, control.first_row);
	ASSERT_EQ(1, control.row_stride);
	ASSERT_EQ(1, control.rows);
	ASSERT_TRUE(control.original);
	ASSERT_EQ(1, self->n.routes);
	/* One at a time, and until it is heard of. */
	NO_ROUTE(-EINVAL, "router", 3);
	SAYS("a router was told of operation 'f' and has not been heard of");
	REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
	REFUSED(-EINVAL, capkm_intervene_routed(self->s, "open.router",
		WITH(struct capkm_intervene_routes, .ids = &of_ids), &err));
	/* A router is no tensor. */
	CHANGE("router", &rows);
	ASSERT_EQ(NULL, self->out);
	OK(ROUTED(.original_ids = &of_ids, .original_coefficients = &of_coefficients,
		  .ids = &of_forced, .coefficients = &of_coefficients));
	NO_ROUTE(-EINVAL, "router", 3);
	SAYS("operation 'f' was done before in this step");
	OK(capkm_intervene_finish(self->s, &err));
	TAKE();
	ADDS_UP();
	BECAME(0, APPLIED);
	BECAME(1, INACTIVE);
	ASSERT_EQ(4, DONE(0)->evidence_len);
	ASSERT_EQ(0, memcmp(DONE(0)->evidence[0].payload->values.u64, chosen, 16));
	ASSERT_EQ(0, memcmp(DONE(0)->evidence[2].payload->values.u64, forced, 16));
	WITNESSED(0, 1, 1, 2);
	WITNESSED(0, 3, 1, 2);
	ASSERT_STREQ("f:before:ids", DONE(0)->evidence[0].selection_id);
	ASSERT_STREQ("f:before:coefficients", DONE(0)->evidence[1].selection_id);
	ASSERT_STREQ("f:after:ids", DONE(0)->evidence[2].selection_id);
	ASSERT_STREQ("f:after:coefficients", DONE(0)->evidence[3].selection_id);
	ASSERT_EQ(CAPKM_POSITION_AFTER_INTERVENTION, DONE(0)->evidence[3].position);
	ASSERT_EQ(3, DONE(0)->evidence[0].source_shape[0]);
	ASSERT_EQ(1, DONE(0)->evidence[0].selected_shape[0]);
	ASSERT_EQ(1024 + 1 + 6 + 5 + IDENTITY_LEN + 3 * 2 * 12, DONE(0)->charged.host_bytes);

	/* Nothing to show: nothing is estimated or looked at. */
	BEGIN(CAPKM_DECODE, 1);
	ROUTE(1);
	ASSERT_STREQ("x", control.operation->id);
	ASSERT_FALSE(control.original);
	ASSERT_EQ(1, control.rows);
	OK(ROUTED(.ids = NULL));
	OK(capkm_intervene_finish(self->s, &err));
	TAKE();
	BECAME(1, APPLIED);
	ASSERT_EQ(1, self->n.routes);
	ASSERT_EQ(4, self->n.transform);
	/* Wrong rows. */
	BEGIN(CAPKM_DECODE, 2);
	NO_ROUTE(-EINVAL, "router", 3);
	SAYS("a router of 3 rows, expected 1");
	TAKE();
	BECAME(1, FAILED);
}

/* T-174: the original's price comes first. What is not shown is a failure. */
TEST_F(intervene, t174_originals)
{
	static const struct {
		int rc, told;
		struct capkm_usage usage;
		const char *says;
	} bad[] = {
		{ -EOPNOTSUPP, -EOPNOTSUPP, { 0 }, "it said so" },
		{ -EOVERFLOW, -EOVERFLOW, { 0 }, "it said so" },
		{ -ENODEV, -EINVAL, { 0 }, "it said so" },
		{ 0, -EINVAL, { 1, 0, 8, 0 }, "is no capture and has no JSON" },
		{ 0, -EINVAL, { 0, 0, 8, 1 }, "is no capture and has no JSON" },
		{ 0, -EDQUOT, { 0, 0, 1 << 20, 0 }, "budget 'host'" },
		{ 0, -EOVERFLOW, { 0, 0, MAX, 0 }, "64 bits" },
	};

	for (int skip = 0; skip < 2; skip++) {
		struct capkm_intervene_control control;
		struct capkm_observe_limits l = wide;
		u_int64_t at = 0;

		l.on_limit = skip ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
		l.per_step.host_bytes = 1 << 20;
		memset(&self->n, 0, sizeof(self->n));
		OPEN("", &l, OP("x", "router", EXPERTS("exclude_experts", "[3]"), SHOWS(9)), &three);
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
			self->n.routes_rc = bad[i].rc;
			self->n.routes_usage = bad[i].usage;
			if (i == 6 && !skip)
				continue;	/* it exceeds first */
			BEGIN(CAPKM_DECODE, ++at);
			if (i == 6)
				REFUSED(-EOVERFLOW, capkm_intervene_route(self->s, "router", 1, &control, &err));
			else
				NO_ROUTE(bad[i].told, "router", 1);
			SAYS(i == 6 ? "" : bad[i].says);
			/* It was not told: it cannot be heard of. */
			REFUSED(-EINVAL, ROUTED(.ids = &of_ids));
			TAKE();
			ADDS_UP();
			BECAME(0, FAILED);
		}
		ASSERT_EQ(0, self->n.transform + self->n.estimate);
		CLOSE();
	}
	self->b.estimate_routes = NULL;
	{
		struct capkm_intervene_control control;

		OPEN("", &wide, OP("x", "router", EXPERTS("exclude_experts", "[3]"), SHOWS(9)), &three);
		BEGIN(CAPKM_PREFILL, 0);
		NO_ROUTE(-EOPNOTSUPP, "router", 3);
		SAYS("does not say what keeping the original choice of a router costs");
		TAKE();
		CLOSE();
		self->b.estimate_routes = b_routes;
		memset(&self->n, 0, sizeof(self->n));
		OPEN("", &wide, OP("x", "router", EXPERTS("exclude_experts", "[3]"), SHOWS(9)), &three);

		/* Shown only in part. */
		BEGIN(CAPKM_PREFILL, 0);
		ROUTE(3);
		REFUSED(-EINVAL, ROUTED(.ids = &of_forced, .coefficients = &of_coefficients));
		SAYS("the router does not show its original choice");
		REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
		SAYS("operation 'x' failed: the router does not show its original choice");
		TAKE();
		BECAME(0, FAILED);
		BEGIN(CAPKM_PREFILL, 0);
		ROUTE(3);
		REFUSED(-EINVAL, ROUTED(.original_ids = &of_ids, .original_coefficients = &of_coefficients, .ids = &of_ids));
		SAYS("does not show its new choice");
		TAKE();
		ASSERT_EQ(0, self->n.transform);

		/* One that is not [rows, top_k]; then the router's own failure. */
		BEGIN(CAPKM_PREFILL, 0);
		ROUTE(3);
		REFUSED(-EINVAL, ROUTED(.original_ids = &of_ids, .original_coefficients = &row,
					.ids = &of_ids, .coefficients = &of_coefficients));
		TAKE();
		ADDS_UP();
		BECAME(0, FAILED);
		ASSERT_EQ(CAPKM_OUTCOME_CAPTURED, DONE(0)->evidence[0].outcome.kind);
		ASSERT_EQ(CAPKM_OUTCOME_FAILED, DONE(0)->evidence[1].outcome.kind);
		ASSERT_EQ(CAPKM_OUTCOME_MISSING, DONE(0)->evidence[2].outcome.kind);
		BEGIN(CAPKM_PREFILL, 0);
		ROUTE(3);
		OK(capkm_intervene_unrouted(self->s, "router", "no such kernel", &err));
		REFUSED(-EINVAL, capkm_intervene_finish(self->s, &err));
		SAYS("operation 'x' failed: the router failed: no such kernel");
		TAKE();
		ADDS_UP();
		BECAME(0, FAILED);
		NO_CHECKPOINT();
	}
}

/* A step that is taken while a router works: it is heard of all the same. */
TEST_F(intervene, router_outlives_step)
{
	struct capkm_intervene_control control;
	struct capkm_observe_checkpoint *cp;

	OPEN("", &wide, OP("x", "router", EXPERTS("exclude_experts", "[3]"), ""), &three);
	OK(capkm_observe_checkpoint(self->s, self->d, &cp, &err));
	BEGIN(CAPKM_PREFILL, 0);
	ROUTE(3);
	TAKE();
	BECAME(0, MISSING);
	REFUSED(-EINVAL, capkm_observe_begin_step(self->s, CAPKM_DECODE, 1, &err));
	SAYS("a router was told what to do and has not been heard of");
	NO_CHECKPOINT();
	SAYS("a router was told");
	REFUSED(-EINVAL, capkm_observe_restore(self->s, cp, &err));
	SAYS("a router was told");
	REFUSED(-EINVAL, ROUTED(.ids = NULL));
	SAYS("have been taken");
	OK(capkm_observe_restore(self->s, cp, &err));
	BEGIN(CAPKM_PREFILL, 0);
	ROUTE(3);
	OK(ROUTED(.ids = NULL));
	TAKE();
	BECAME(0, APPLIED);
	capkm_observe_checkpoint_free(cp);
}

/* ------------------------------------------------------------ going on */

static const struct capkm_observe_fork_opts *
fork_opts(struct capkm_observe_fork_opts *o, struct capkm_intervene_opts *i,
	  const struct capkm_intervene_discovery *p, const char *session,
	  const struct capkm_intervene_plan *plan)
{
	*i = (struct capkm_intervene_opts)CAPKM_OPTS(struct capkm_intervene_opts,
		.session_id = session, .discovery = p, .plan = plan);
	*o = (struct capkm_observe_fork_opts)CAPKM_OPTS(struct capkm_observe_fork_opts,
		.max_predictions = 10, .limits = wide, .interventions = i);
	return o;
}

/* T-175 */
TEST_F(intervene, t175_forks)
{
	struct capkm_observe_discovery d = *self->d;
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_observe_fork_opts o;
	struct capkm_intervene_opts i;
	struct capkm_observe_checkpoint *cp, *early, *plain;
	struct capkm_observe *child = NOTHING, *other;
	struct capkm_intervene_plan *plan, *none;
	struct capkm_observe_step *step;
	void *out;
	u_int64_t host;

#define CHECKPOINT(cp_) OK(capkm_observe_checkpoint(self->s, self->d, cp_, &err))
#define NO_FORK(rc, text) do {						\
	REFUSED(rc, capkm_observe_fork(self->c, cp, &d, &self->b, &o, &child, &err)); \
	ASSERT_EQ(NOTHING, child);					\
	SAYS(text);							\
} while (0)
	OPEN(SEE("o", "block.output"), &wide, OP("a", "block.output", SCALE(3.0), SHOWS(2)), &one);
	CHECKPOINT(&early);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &row);
	CHANGE("block.output", &row);
	REFUSED(-EINVAL, capkm_observe_restore(self->s, early, &err));
	TAKE();
	/* The model must be that of the interventions, too. */
	d.artifact_identity = "tiny-2";
	cp = NOTHING;
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, &d, &cp, &err));
	SAYS("the interventions are of the model 'tiny-1', not 'tiny-2'");
	d.artifact_identity = "tiny-1";
	CHECKPOINT(&cp);
	host = capkm_observe_checkpoint_usage(cp)->host_bytes;
	ASSERT_LT(0, host);

	fork_opts(&o, &i, &p, "session-2", NULL);
	o.interventions = NULL;
	NO_FORK(-EINVAL, "the checkpoint has interventions, which must be bound anew");
	o.interventions = &i;
	i.session_id = NULL;
	NO_FORK(-EINVAL, "need a discovery and the name of their session");
	i.session_id = "";
	NO_FORK(-EINVAL, "need a discovery and the name of their session");
	i.session_id = "session-1";
	NO_FORK(-EINVAL, "the child needs another name than its parent 'session-1'");
	i.session_id = "session-2";
	i.discovery = NULL;
	NO_FORK(-EINVAL, "need a discovery");
	i.discovery = &p;
	p.artifact_identity = "tiny-2";
	NO_FORK(-EINVAL, "the interventions are of another model");
	p.artifact_identity = "tiny-1";
	p.session_identity = "";
	NO_FORK(-EINVAL, "a model that does not run");
	p.session_identity = "run-8";
	i.sz = sizeof(i) + 8;
	{
		char grown[sizeof(i) + 8];

		memset(grown, 1, sizeof(grown));
		memcpy(grown, &i, sizeof(i));
		o.interventions = (void *)grown;
		NO_FORK(-E2BIG, "sets members that libcapkm");
	}
	i.sz = sizeof(i);
	o.interventions = &i;
	/* Evidence counts: there is no room for that of all. */
	o.limits.cumulative.captures = 2 + 1 + 9 + 2 * 9 - 1;
	NO_FORK(-EDQUOT, "budget 'captures' of 29 in all (cumulative): 30 would be used");
	o.limits.cumulative.captures++;
	OK(capkm_observe_fork(self->c, cp, &d, &self->b, &o, &child, &err));
	ASSERT_STREQ("session-2", capkm_intervene_admitted_session(capkm_intervene_session_plan(child)));
	ASSERT_STRNE(capkm_intervene_admitted_identity(capkm_intervene_session_plan(self->s)),
		     capkm_intervene_admitted_identity(capkm_intervene_session_plan(child)));
	REFUSED(-EINVAL, capkm_observe_restore(child, cp, &err));
	OK(capkm_observe_begin_step(child, CAPKM_DECODE, 1, &err));
	OK(capkm_observe_tensor(child, "block.output", &row, &err));
	OK(capkm_intervene_tensor(child, "block.output", &row, &out, &err));
	HOLDS(out, 3, 6);
	b_release(&self->n, out);
	OK(capkm_observe_take_step(child, &step, &err));
	ASSERT_EQ(6, step->cumulative_usage.captures);
	capkm_observe_step_free(step);
	/* It goes on as any other. */
	OK(capkm_observe_checkpoint(child, self->d, &plain, &err));
	capkm_observe_checkpoint_free(plain);
	capkm_observe_close(child);
	child = NOTHING;

	/* Something else from there on, and nothing at all. */
	OK(parse(OP("b", "block.output", ZERO, ""), &plan));
	OK(parse("", &none));
	fork_opts(&o, &i, &p, "session-3", plan);
	OK(capkm_observe_fork(self->c, cp, &d, &self->b, &o, &child, &err));
	ASSERT_STREQ("b", capkm_intervene_admitted_plan(capkm_intervene_session_plan(child))->operations->id);
	capkm_observe_close(child);
	child = NOTHING;
	fork_opts(&o, &i, &p, "session-3", none);
	OK(capkm_observe_fork(self->c, cp, &d, &self->b, &o, &child, &err));
	ASSERT_EQ(NULL, capkm_intervene_session_plan(child));
	OK(capkm_observe_begin_step(child, CAPKM_DECODE, 1, &err));
	OK(capkm_observe_take_step(child, &step, &err));
	ASSERT_EQ(0, step->interventions_len);
	ASSERT_EQ(host + 512 + 18 + 256, step->cumulative_usage.host_bytes);
	capkm_observe_step_free(step);
	/* From where there is none, something must be given. */
	OK(capkm_observe_checkpoint(child, self->d, &plain, &err));
	other = NOTHING;
	fork_opts(&o, &i, &p, "session-4", NULL);
	REFUSED(-EINVAL, capkm_observe_fork(self->c, plain, &d, &self->b, &o, &other, &err));
	SAYS("neither the checkpoint nor the caller has interventions");
	fork_opts(&o, &i, &p, "session-4", plan);
	OK(capkm_observe_fork(self->c, plain, &d, &self->b, &o, &other, &err));
	ASSERT_NE(NULL, capkm_intervene_session_plan(other));
	capkm_observe_close(other);
	capkm_observe_checkpoint_free(plain);
	capkm_observe_close(child);

	/* Back to the beginning: with the same interventions, and nothing is given back. */
	OK(capkm_observe_restore(self->s, early, &err));
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &row);
	CHANGE("block.output", &row);
	HOLDS(self->out, 3, 6);
	TAKE();
	ASSERT_EQ(6, self->step->cumulative_usage.captures);
	capkm_observe_checkpoint_free(early);
	capkm_observe_checkpoint_free(cp);
	capkm_intervene_plan_free(plan);
	capkm_intervene_plan_free(none);
}

/* One goes back with the interventions that one came with. */
TEST_F(intervene, restored)
{
	struct capkm_observe_admitted *o = observed(_metadata, self->d, "", &wide, &one);
	struct capkm_intervene_admitted *a;
	struct capkm_observe_checkpoint *without, *with;

	OK(admit(self->p, OP("a", "block.output", SCALE(3.0), ""), &one, &a));
	OK(capkm_observe_open(self->c, o, &self->b, NULL, &self->s, &err));
	CHECKPOINT(&without);
	OK(capkm_intervene_enable(self->s, a, &err));
	CHECKPOINT(&with);
	REFUSED(-EINVAL, capkm_observe_restore(self->s, without, &err));
	SAYS("the checkpoint is of other interventions");
	/* After a step that failed, too. */
	self->n.apply_fails = 1;
	self->n.apply_rc = -ENODEV;
	BEGIN(CAPKM_PREFILL, 0);
	NO_CHANGE(-EIO, "block.output", &row);
	TAKE();
	NO_CHECKPOINT();
	OK(capkm_observe_restore(self->s, with, &err));
	BEGIN(CAPKM_PREFILL, 0);
	CHANGE("block.output", &row);
	HOLDS(self->out, 3, 6);
	TAKE();
	capkm_observe_checkpoint_free(without);
	CHECKPOINT(&without);
	capkm_observe_checkpoint_free(without);
	capkm_observe_checkpoint_free(with);
	capkm_intervene_admitted_free(a);
	capkm_observe_admitted_free(o);
}

/* A checkpoint in a file has them, too. */
TEST_F(intervene, t175_resumed)
{
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_observe_checkpoint *cp, *read;
	struct capkm_observe *s = NOTHING;
	struct capkm_intervene_opts o;
	struct capkm_observe_fork_opts unused;
	char *json, *again;
	size_t len;

	OPEN(SEE("o", "block.output"), &wide, OP("a", "block.output", SCALE(3.0), SHOWS(2)) ","
	     OP("r", "block.output", TENSOR("add", "[1,2]", "[0.1,-0.0]"), ""), &one);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &row);
	CHANGE("block.output", &row);
	HOLDS(self->out, 3.1f, 6);
	TAKE();
	CHECKPOINT(&cp);
	OK(capkm_observe_checkpoint_json(cp, &json, &len, &err));
	HAS(json, "\"interventions\":{\"session_id\":\"session-1\",\"plan\":{\"schema_version\":1,\"operations\":[{\"id\":\"a\",");
	HAS(json, "\"values\":[0.1,-0.0]");
	OK(capkm_observe_checkpoint_parse(json, len, &read, &err));
	OK(capkm_observe_checkpoint_json(read, &again, NULL, &err));
	ASSERT_STREQ(json, again);
	/* The session is kept, as that of a process that died would be. */
	p.session_identity = "run-8";
	fork_opts(&unused, &o, &p, "session-1", NULL);
	REFUSED(-EINVAL, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	SAYS("the checkpoint has interventions, which must be bound anew");
	REFUSED(-EINVAL, capkm_intervene_resume(self->c, read, self->d, &self->b, NULL, &s, &err));
	p.artifact_identity = "tiny-2";
	REFUSED(-EINVAL, capkm_intervene_resume(self->c, read, self->d, &self->b, &o, &s, &err));
	p.artifact_identity = "tiny-1";
	{
		struct capkm_observe_backend b = self->b;

		b.release = NULL;
		REFUSED(-EOPNOTSUPP, capkm_intervene_resume(self->c, read, self->d, &b, &o, &s, &err));
	}
	ASSERT_EQ(NOTHING, s);
	capkm_observe_keep(self->s);
	capkm_observe_close(self->s);
	self->s = NULL;
	OK(capkm_intervene_resume(self->c, read, self->d, &self->b, &o, &s, &err));
	OK(capkm_observe_begin_step(s, CAPKM_DECODE, capkm_observe_checkpoint_next(read), &err));
	OK(capkm_observe_tensor(s, "block.output", &row, &err));
	b_release(&self->n, self->out);
	OK(capkm_intervene_tensor(s, "block.output", &row, &self->out, &err));
	HOLDS(self->out, 3.1f, 6);
	capkm_observe_step_free(self->step);
	OK(capkm_observe_take_step(s, &self->step, &err));
	ASSERT_EQ(6, self->step->cumulative_usage.captures);
	BECAME(0, APPLIED);
	capkm_observe_close(s);
	capkm_observe_checkpoint_free(cp);
	capkm_observe_checkpoint_free(read);
	free(json);
	free(again);
}

struct worker {
	char checkpoint[16384];
	u_int64_t predictions;
};

static const char worker_ops[] = OP("a", "block.output", SCALE(3.0), SHOWS(2));

/* Changes, leaves a checkpoint after each step, and is in the middle of the next. */
static int work(struct capkm *c, void *arg)
{
	struct worker *w = arg;
	struct capkm_observe_plan observes = { .schema_version = 1, .limits = wide };
	struct capkm_observe_discovery *d;
	struct capkm_intervene_discovery *p;
	struct capkm_observe_admitted *o;
	struct capkm_intervene_admitted *a;
	struct capkm_observe_step *step;
	struct capkm_observe_checkpoint *cp;
	struct capkm_observe *s;
	void *out;
	char *json;

	if (capkm_observe_discovery_parse(seen_json, strlen(seen_json), &d, &err) ||
	    capkm_intervene_discovery_parse(places_json, strlen(places_json), &p, &err) ||
	    capkm_observe_admit(&observes, d, &one, &o, &err) || admit(p, worker_ops, &one, &a) ||
	    capkm_observe_open(c, o, host(), NULL, &s, &err) || capkm_intervene_enable(s, a, &err))
		return 1;
	for (u_int64_t at = 0; at <= w->predictions; at++) {
		if (capkm_observe_begin_step(s, at ? CAPKM_DECODE : CAPKM_PREFILL, at, &err) ||
		    capkm_intervene_tensor(s, "block.output", &row, &out, &err))
			return 2;
		if (at == w->predictions)
			return 0;
		if (capkm_observe_take_step(s, &step, &err) ||
		    capkm_observe_checkpoint(s, d, &cp, &err) ||
		    capkm_observe_checkpoint_json(cp, &json, NULL, &err))
			return 3;
		strcpy(w->checkpoint, json);
		free(json);
		capkm_observe_checkpoint_free(cp);
		capkm_observe_step_free(step);
	}
	return 0;
}

/* Another process goes on with what one that died has left, and pays for both. */
TEST_F(intervene, t175_killed)
{
	struct capkm_observe_fork_opts unused;
	struct capkm_intervene_discovery p = *self->p;
	struct capkm_intervene_opts o;
	struct capkm_observe_checkpoint *cp;
	struct cl *other;
	struct worker *w;

	ONLY_KERNEL();
	w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, w);
	w->predictions = 2;
	other = t_process();
	t_attach(other, self->cl->domain);
	ASSERT_EQ(0, t_run(other, work, w, sizeof(*w)));
	t_kill(other);
	OK(capkm_observe_checkpoint_parse(w->checkpoint, strlen(w->checkpoint), &cp, &err));
	p.session_identity = "run-8";
	fork_opts(&unused, &o, &p, "session-1", NULL);
	OK(capkm_intervene_resume(self->c, cp, self->d, &self->b, &o, &self->s, &err));
	BEGIN(CAPKM_DECODE, capkm_observe_checkpoint_next(cp));
	CHANGE("block.output", &row);
	HOLDS(self->out, 3, 6);
	TAKE();
	BECAME(0, APPLIED);
	ASSERT_EQ(2, self->step->prediction_index);
	ASSERT_EQ(8, self->step->cumulative_usage.captures);
	capkm_observe_checkpoint_free(cp);
	munmap(w, sizeof(*w));
}

/* ------------------------------------------------------------ random sessions */

#define RANDOM_OPS 5

struct random_op {
	int kind;		/* 0: zero, 1: scale by 2, 2: add 1, 3: replace by 9 */
	bool shows;
	u_int64_t first, every;
};

static u_int64_t roll(u_int64_t *rng, u_int64_t n)
{
	return choices_next(rng) % n;
}

static char *random_plan(struct random_op ops[RANDOM_OPS], unsigned int n, u_int64_t *rng)
{
	static const char *const actions[] = {
		ZERO, SCALE(2.0), TENSOR("add", "[1,2]", "[1.0,1.0]"), TENSOR("replace", "[1,2]", "[9.0,9.0]"),
	};
	char *text = calloc(1, 8192), *at = text;

	for (unsigned int i = 0; i < n; i++) {
		ops[i] = (struct random_op){ roll(rng, 4), roll(rng, 2), roll(rng, 4), 1 + roll(rng, 3) };
		at += sprintf(at, "%s{\"id\":\"%u\",\"target\":\"block.output\",\"schedule\":{\"first_prediction\":%u,\"every\":%u},"
			      "\"action\":{%s},\"evidence\":{%s}}", i ? "," : "", i, (int)ops[i].first, (int)ops[i].every,
			      actions[ops[i].kind], ops[i].shows ? "\"kind\":\"preview\",\"max_elements\":2" : "\"kind\":\"none\"");
	}
	return text;
}

static float changed(const struct random_op *op, float v)
{
	return op->kind == 0 ? 0 : op->kind == 1 ? v * 2 : op->kind == 2 ? v + 1 : 9;
}

static bool is_within(const struct capkm_usage *u, const struct capkm_usage *most)
{
	return u->captures <= most->captures && u->retained_bytes <= most->retained_bytes &&
	       u->host_bytes <= most->host_bytes && u->encoded_bytes <= most->encoded_bytes;
}

/*
 * Whatever the plan, the budget and the failures: values are those of a model of one line,
 * charges add up and stay below their limits (I-7 to I-9), nothing is lost that was made.
 */
TEST_F(intervene, random_sessions)
{
	const u_int64_t rounds = t_param("CAPKM_TEST_ROUNDS", 400, 40);
	const u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);
	unsigned int applied = 0, failed = 0, skipped = 0, unbegun = 0;

	for (u_int64_t round = 0; round < rounds; round++) {
		u_int64_t rng = seed + round;
		const unsigned int n = 1 + roll(&rng, RANDOM_OPS);
		struct capkm_observe_limits l = wide;
		struct random_op ops[RANDOM_OPS];
		struct capkm_usage before = { 0 };
		char *text = random_plan(ops, n, &rng);

		l.on_limit = roll(&rng, 2) ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
		if (roll(&rng, 2))
			l.per_step.captures = roll(&rng, 2 * n + 2);
		if (!roll(&rng, 3))
			l.cumulative.host_bytes = 4000 + roll(&rng, 60000);
		memset(&self->n, 0, sizeof(self->n));
		OPEN(SEE("o", "block.output"), &l, text, &one);
		for (u_int64_t p = 0; p < 6; p++) {
			float want[2] = { 1, 2 };
			bool any = false, good = true;
			void *out = NULL;
			int rc;

			self->n.apply = self->n.transform = 0;
			self->n.apply_fails = roll(&rng, 4) ? 0 : 1 + roll(&rng, n);
			self->n.transform_fails = roll(&rng, 4) ? 0 : 1 + roll(&rng, 2 * n + 1);
			self->n.apply_rc = self->n.transform_rc = -ENODEV;
			rc = capkm_observe_begin_step(self->s, p ? CAPKM_DECODE : CAPKM_PREFILL, p, &err);
			unbegun += !!rc;
			if (!rc && !capkm_observe_tensor(self->s, "block.output", &row, &err)) {
				rc = capkm_intervene_tensor(self->s, "block.output", &row, &out, &err);
				for (unsigned int i = 0; i < n; i++) {
					if (p < ops[i].first || (p - ops[i].first) % ops[i].every)
						continue;
					any = true;
					want[0] = changed(&ops[i], want[0]);
					want[1] = changed(&ops[i], want[1]);
				}
				ASSERT_EQ(!rc && any, out != NULL) { TH_LOG("round %d: %s", (int)round, err.text); }
				if (out) {
					ASSERT_EQ(0, memcmp(want, values_of(out), sizeof(want))) {
						TH_LOG("CAPKM_TEST_SEED=%d: %s", (int)(seed + round), text);
					}
					b_release(&self->n, out);
				}
				good = !rc;
				ASSERT_EQ(good ? 0 : -EINVAL, capkm_intervene_finish(self->s, &err));
			}
			ASSERT_EQ(0, self->n.live);
			HOLDS(&row, 1, 2);
			capkm_observe_step_free(self->step);
			OK(capkm_observe_take_step(self->s, &self->step, &err));
			if (!self->step)
				continue;
			ASSERT_TRUE(is_within(&self->step->step_usage, &l.per_step));
			ASSERT_TRUE(is_within(&self->step->cumulative_usage, &l.cumulative));
			ASSERT_TRUE(is_within(&before, &self->step->cumulative_usage));
			before = self->step->cumulative_usage;
			if (!self->step->interventions_len)
				continue;
			ADDS_UP();
			for (unsigned int i = 0; i < n; i++) {
				const struct capkm_intervene_record *r = DONE(i);

				applied += r->outcome.kind == CAPKM_INTERVENTION_APPLIED;
				failed += r->outcome.kind == CAPKM_INTERVENTION_FAILED;
				ASSERT_EQ(p < ops[i].first || (p - ops[i].first) % ops[i].every,
					  r->outcome.kind == CAPKM_INTERVENTION_INACTIVE);
				ASSERT_EQ(ops[i].shows ? 2 : 0, r->evidence_len);
				for (unsigned int j = 0; j < r->evidence_len; j++) {
					const struct capkm_observe_outcome *o = &r->evidence[j].outcome;

					ASSERT_EQ(o->kind == CAPKM_OUTCOME_CAPTURED, r->evidence[j].payload != NULL);
					if (o->kind == CAPKM_OUTCOME_SKIPPED && o->reason.kind == CAPKM_REASON_LIMIT) {
						ASSERT_EQ(CAPKM_ON_LIMIT_SKIP, l.on_limit);
						skipped++;
					}
				}
			}
		}
		CLOSE();
		free(text);
	}
	if (rounds >= 40) {
		ASSERT_LT(20, applied);
		ASSERT_LT(5, failed);
		ASSERT_LT(5, skipped);
		ASSERT_LT(5, unbegun);
	}
}

/* ------------------------------------------------------------ memory */

/* Each allocation fails once; what is there is whole, what was made is given back. */
TEST_F(intervene, allocations_fail)
{
	static const char ops[] = OP("a", "block.output", SCALE(2.0), SHOWS(2)) ","
		OP("b", "block.output", ZERO, SHOWS(2)) "," OP("r", "router", EXPERTS("exclude_experts", "[1,0]"), SHOWS(6));
	struct capkm_observe_admitted *o = observed(_metadata, self->d, SEE("o", "block.output"), &wide, &three);
	/* Many, for each JSON value is some. */
	const unsigned long step = t_param("CAPKM_ALLOCATIONS_STEP", 1, 23);
	char *json = plan_text(ops);
	bool done = false;

	for (unsigned long n = 1; !done; n += step) {
		struct capkm_intervene_plan *plan = NULL;
		struct capkm_intervene_admitted *a = NULL;
		struct capkm_observe_checkpoint *cp = NULL;
		struct capkm_intervene_opts i;
		struct capkm_observe_fork_opts f;
		struct capkm_intervene_control control;
		struct capkm_observe *s = NULL, *child = NULL;
		void *out = NULL;
		int rc;

		fork_opts(&f, &i, self->p, "session-2", NULL);
		self->n.routes = 0;
		t_fail_alloc = n;
		rc = capkm_intervene_plan_parse(json, strlen(json), &plan, &err);
		if (!rc)
			rc = capkm_intervene_admit(plan, self->p, &three, "session-1", &a, &err);
		if (!rc)
			rc = capkm_observe_open(self->c, o, &self->b, NULL, &s, &err);
		if (!rc)
			rc = capkm_intervene_enable(s, a, &err);
		if (!rc)
			rc = capkm_observe_begin_step(s, CAPKM_PREFILL, 0, &err);
		if (!rc)
			rc = capkm_observe_tensor(s, "block.output", &rows, &err);
		if (!rc)
			rc = capkm_intervene_tensor(s, "block.output", &rows, &out, &err);
		if (!rc)
			rc = capkm_intervene_route(s, "router", 3, &control, &err);
		if (!rc)
			rc = capkm_intervene_routed(s, "router", WITH(struct capkm_intervene_routes,
				.original_ids = &of_ids, .original_coefficients = &of_coefficients,
				.ids = &of_ids, .coefficients = &of_coefficients), &err);
		if (!rc)
			rc = capkm_observe_take_step(s, &self->step, &err);
		if (!rc)
			rc = capkm_observe_checkpoint(s, self->d, &cp, &err);
		if (!rc)
			rc = capkm_observe_fork(self->c, cp, self->d, &self->b, &f, &child, &err);
		done = t_fail_alloc;
		t_fail_alloc = 0;
		/* A backend's lack of memory is an error of its own. */
		ASSERT_TRUE(!rc || rc == -ENOMEM || rc == -EIO) {
			TH_LOG("allocation %lu: %d %s", n, rc, err.text);
		}
		if (rc == -EIO)
			SAYS("native intervention failed: out of memory");
		ASSERT_TRUE(!done || !rc);
		if (s && !self->step)
			capkm_observe_take_step(s, &self->step, &err);
		if (self->step && self->step->interventions_len) {
			ADDS_UP();
			ASSERT_EQ(3, self->step->interventions_len);
		}
		if (out)
			b_release(&self->n, out);
		ASSERT_EQ(0, self->n.live);
		capkm_observe_step_free(self->step);
		self->step = NULL;
		capkm_observe_checkpoint_free(cp);
		capkm_observe_close(child);
		capkm_observe_close(s);
		capkm_intervene_admitted_free(a);
		capkm_intervene_plan_free(plan);
	}
	capkm_observe_admitted_free(o);
	free(json);
}

TEST_HARNESS_MAIN
