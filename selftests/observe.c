// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sessions that observe: what is charged, before what is done; records; checkpoints,
 * forks, and processes that die. The backend is this file's, and counts what it is
 * asked for.
 */
#include <json-c/json.h>
#include <math.h>

#include <capkm/observe.h>

#include "calls.h"
#include "fail_alloc.h"
#include "process.h"

#define MAX	UINT64_MAX
#define NOTHING	((void *)&err)		/* a pointer that must stay as it is */

/* ------------------------------------------------------------ a backend */

/* Four axes at most, values in storage order. */
struct tensor {
	u_int32_t dtype, rank;
	u_int64_t shape[4];
	const float *values;
	int ready, describe, transform;		/* what the calls return */
	const char *why;
};

struct counts {
	unsigned int ready, describe, estimate, transform;
	unsigned int allocations;		/* in transform: none */
	struct capkm_usage usage;		/* of an observation; all zero: by formula */
	int estimate_rc;
};

static int say(int rc, const struct tensor *t, char *why, size_t size)
{
	if (rc)
		snprintf(why, size, "%s", t->why ? t->why : "it said so");
	return rc;
}

static int b_ready(void *context, const void *tensor, char *why, size_t size)
{
	const struct tensor *t = tensor;

	((struct counts *)context)->ready++;
	return say(t->ready, t, why, size);
}

static int b_describe(void *context, const void *tensor, u_int64_t *shape,
		      u_int32_t *rank, u_int32_t *dtype, char *why, size_t size)
{
	const struct tensor *t = tensor;

	((struct counts *)context)->describe++;
	*rank = t->rank;
	*dtype = t->dtype;
	memcpy(shape, t->shape, sizeof(t->shape[0]) * (t->rank > 4 ? 0 : t->rank));
	return say(t->describe, t, why, size);
}

static u_int64_t given(const struct capkm_observe_geometry *g)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	return t->kind == CAPKM_TRANSFORM_PREVIEW && t->max_elements < g->elements ?
	       t->max_elements : g->elements;
}

/* D-12 */
static int b_estimate(void *context, const struct capkm_observe_geometry *g,
		      struct capkm_usage *usage, char *why, size_t size)
{
	struct counts *n = context;

	n->estimate++;
	*usage = n->usage;
	if (!(usage->captures | usage->retained_bytes | usage->host_bytes |
	      usage->encoded_bytes))
		*usage = (struct capkm_usage){ 1, 128, 128, 512 + 32 * given(g) };
	if (n->estimate_rc)
		snprintf(why, size, "it said so");
	return n->estimate_rc;
}

/* The first values only: what reductions are is for the backends' own tests. */
static int b_transform(void *context, const void *tensor,
		       const struct capkm_observe_geometry *g,
		       struct capkm_observe_payload *payload, char *why, size_t size)
{
	const struct tensor *t = tensor;

	((struct counts *)context)->transform++;
	if (t->transform)
		return say(t->transform, t, why, size);
	if (payload->kind == CAPKM_PAYLOAD_TENSOR && payload->values.len &&
	    payload->values.dtype == CAPKM_DTYPE_F32)
		memcpy(payload->values.f32, t->values, payload->values.len * sizeof(float));
	if (payload->kind == CAPKM_PAYLOAD_TENSOR && payload->values.dtype == CAPKM_DTYPE_U64)
		memset(payload->values.u64, 0xff, payload->values.len * 8);
	if (payload->kind == CAPKM_PAYLOAD_SUMMARY)
		payload->summary.elements = payload->summary.nan =
			payload->summary.non_finite = g->elements;
	return 0;
}

static const float some[] = { 1, -2.5f, 0.1f, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
static const struct tensor of_block = {
	.dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 3, 4 }, .values = some,
};
static const struct tensor of_decode = {
	.dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 1, 4 }, .values = some,
};

/* ------------------------------------------------------------ plans */

#define PHASES(path) "{\"path\":\"" path "\",\"prefill\":{\"status\":\"supported\"},\"decode\":{\"status\":\"supported\"},\"floating_to_f32\":true}"
#define POINT(path, node, axes, position) \
	"{\"path\":\"" path "\",\"node_id\":\"" node "\",\"meaning\":\"\",\"dtype\":\"unknown\",\"axes\":" axes \
	",\"prefill\":true,\"decode\":true,\"requirements\":[],\"position\":\"" position "\"}"

static const char discovery_json[] =
	"{\"artifact_identity\":\"tiny-1\",\"catalog\":{\"schema_version\":1,\"points\":["
	POINT("block.output", "block", "[{\"name\":\"token\",\"dimension\":{\"kind\":\"sequence\"}},{\"name\":\"feature\",\"dimension\":{\"kind\":\"known\",\"value\":4}}]", "read_only") ","
	POINT("open", "open", "[{\"name\":\"row\",\"dimension\":{\"kind\":\"unknown\"}},{\"name\":\"feature\",\"dimension\":{\"kind\":\"known\",\"value\":4}}]", "read_only") ","
	POINT("free", "free", "null", "read_only") ","
	POINT("model.logits", "head", "[{\"name\":\"batch\",\"dimension\":{\"kind\":\"batch\"}},{\"name\":\"vocabulary\",\"dimension\":{\"kind\":\"unknown\"}}]", "after_intervention")
	"],\"completeness\":{\"status\":\"complete\"}},\"support\":{\"schema_version\":1,\"points\":["
	PHASES("block.output") "," PHASES("open") "," PHASES("free") "," PHASES("model.logits")
	"],\"capture\":{\"transformations\":[\"preview\",\"slice\",\"full_tensor\",\"summary\",\"top_candidates\"]}}}";

#define S(id, path, rest) "{\"id\":\"" id "\",\"path\":\"" path "\"," rest "}"
#define PREVIEW(n) "\"transform\":{\"kind\":\"preview\",\"max_elements\":" #n "}"
#define FULL "\"transform\":{\"kind\":\"full_tensor\"}"
#define SUMMARY "\"transform\":{\"kind\":\"summary\"}"

/* Of "preview", "block.output", "block", rank 2: the example of 4.9. */
#define RECORD_HOST	792
#define RECORD_ENCODED	2320

static const struct capkm_observe_limits wide = {
	.per_step = { MAX, MAX, MAX, MAX }, .cumulative = { MAX, MAX, MAX, MAX },
};

FIXTURE(observe)
{
	struct cl *cl;
	struct capkm *c;
	struct capkm_observe_discovery *d;
	struct capkm_observe_backend b;
	struct counts n;
	struct capkm_observe *s;
	struct capkm_observe_step *step;
};

FIXTURE_SETUP(observe)
{
	self->cl = t_client();
	t_domain(self->cl);
	self->c = self->cl->c;
	OK(capkm_observe_discovery_parse(discovery_json, strlen(discovery_json),
					 &self->d, &err));
	self->b = (struct capkm_observe_backend){
		.sz = sizeof(self->b), .context = &self->n, .ready = b_ready,
		.describe = b_describe, .estimate = b_estimate, .transform = b_transform,
	};
}

FIXTURE_TEARDOWN(observe)
{
	capkm_observe_step_free(self->step);
	capkm_observe_close(self->s);
	capkm_observe_discovery_free(self->d);
	t_close(self->cl);
	t_no_leaks();
}

static struct capkm_observe_admitted *
admitted(struct __test_metadata *_metadata, const struct capkm_observe_discovery *d,
	 const char *selections, const struct capkm_observe_limits *limits,
	 u_int64_t predictions)
{
	const struct capkm_observe_request r = { 1, 3, predictions };
	struct capkm_observe_admitted *a;
	struct capkm_observe_plan *p;
	char *json;

	ASSERT_LT(0, asprintf(&json, "{\"schema_version\":1,\"selections\":[%s],\"limits\":"
		"{\"per_step\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},"
		"\"cumulative\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},\"on_limit\":\"fail\"}}",
		selections));
	OK(capkm_observe_plan_parse(json, strlen(json), &p, &err));
	p->limits = *limits;
	OK(capkm_observe_admit(p, d, &r, &a, &err));
	capkm_observe_plan_free(p);
	free(json);
	return a;
}
#define ADMITTED(selections, limits, n) admitted(_metadata, self->d, selections, limits, n)

#define OPEN(selections, limits, predictions) do {			\
	struct capkm_observe_admitted *a_ = ADMITTED(selections, limits, predictions); \
									\
	OK(capkm_observe_open(self->c, a_, &self->b, NULL, &self->s, &err)); \
	capkm_observe_admitted_free(a_);				\
} while (0)

#define BEGIN(phase, p) OK(capkm_observe_begin_step(self->s, phase, p, &err))
#define SHOW(path, tensor) OK(capkm_observe_tensor(self->s, path, tensor, &err))
#define TAKE() do {							\
	capkm_observe_step_free(self->step);				\
	OK(capkm_observe_take_step(self->s, &self->step, &err));	\
	ASSERT_NE(NULL, self->step);					\
} while (0)
#define RECORD(i) (&self->step->records[i])
#define IS(i, outcome_) ASSERT_EQ(outcome_, RECORD(i)->outcome.kind)
#define BECAUSE(i, kind_) ASSERT_EQ(kind_, RECORD(i)->outcome.reason.kind)

static struct capkm_ledger_query used(struct capkm *c, const struct capkm_observe *s)
{
	struct capkm_ledger_query q = { .size = sizeof(q), .ledger = capkm_observe_ledger(s) };

	if (capkm_ledger_query(c, &q, NULL))
		abort();
	return q;
}

/* I-9: what the records say is what the step was charged. */
#define ADDS_UP() do {							\
	struct capkm_usage sum_ = { 0 };				\
									\
	for (unsigned int i_ = 0; i_ < self->step->records_len; i_++) {	\
		sum_.captures += RECORD(i_)->charged.captures;		\
		sum_.retained_bytes += RECORD(i_)->charged.retained_bytes; \
		sum_.host_bytes += RECORD(i_)->charged.host_bytes;	\
		sum_.encoded_bytes += RECORD(i_)->charged.encoded_bytes; \
	}								\
	ASSERT_EQ(0, memcmp(&sum_, &self->step->step_usage, sizeof(sum_))); \
} while (0)

/* ------------------------------------------------------------ steps */

/* 4.15, to the byte: a step with one record of each kind. */
TEST_F(observe, record_json)
{
	static const char want[] =
		"{\"phase\":\"prefill\",\"prediction_index\":0,\"records\":["
		"{\"schema_version\":1,\"selection_id\":\"preview\",\"path\":\"block.output\",\"node_id\":\"block\",\"position\":\"read_only\","
		"\"source_shape\":[3,4],\"selected_shape\":[3,4],\"outcome\":{\"kind\":\"truncated\",\"available_elements\":12,\"emitted_elements\":3},"
		"\"payload\":{\"kind\":\"tensor\",\"value\":{\"shape\":[3],\"data\":{\"dtype\":\"f32\",\"values\":[1.0,-2.5,0.1]}}},"
		"\"charged\":{\"captures\":1,\"retained_bytes\":128,\"host_bytes\":920,\"encoded_bytes\":2928}},"
		"{\"schema_version\":1,\"selection_id\":\"later\",\"path\":\"block.output\",\"node_id\":\"block\",\"position\":\"read_only\","
		"\"source_shape\":null,\"selected_shape\":null,\"outcome\":{\"kind\":\"skipped\",\"reason\":{\"kind\":\"schedule\"}},\"payload\":null,"
		"\"charged\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":790,\"encoded_bytes\":2308}},"
		"{\"schema_version\":1,\"selection_id\":\"never\",\"path\":\"free\",\"node_id\":\"free\",\"position\":\"read_only\","
		"\"source_shape\":null,\"selected_shape\":null,\"outcome\":{\"kind\":\"missing\"},\"payload\":null,"
		"\"charged\":{\"captures\":0,\"retained_bytes\":0,\"host_bytes\":4621,\"encoded_bytes\":4174}},"
		"{\"schema_version\":1,\"selection_id\":\"sum\",\"path\":\"open\",\"node_id\":\"open\",\"position\":\"read_only\","
		"\"source_shape\":[2,4],\"selected_shape\":[2,4],\"outcome\":{\"kind\":\"captured\"},"
		"\"payload\":{\"kind\":\"summary\",\"value\":{\"elements\":8,\"finite\":0,\"non_finite\":8,\"nan\":8,\"positive_infinity\":0,\"negative_infinity\":0,"
		"\"min\":null,\"max\":null,\"mean\":null,\"rms\":null}},"
		"\"charged\":{\"captures\":1,\"retained_bytes\":128,\"host_bytes\":907,\"encoded_bytes\":3010}}],"
		"\"step_usage\":{\"captures\":2,\"retained_bytes\":256,\"host_bytes\":7238,\"encoded_bytes\":12420},"
		"\"cumulative_usage\":{\"captures\":2,\"retained_bytes\":256,\"host_bytes\":7238,\"encoded_bytes\":12420},"
		"\"capture_seconds\":";
	const struct tensor open = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 2, 4 } };
	struct capkm_observe_step *again;
	struct json_object *o;
	char *json, *twice;

	OPEN(S("preview", "block.output", PREVIEW(3)) ","
	     S("later", "block.output", "\"schedule\":{\"prefill\":false}," FULL) ","
	     S("never", "free", FULL) "," S("sum", "open", SUMMARY), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	SHOW("open", &open);
	SHOW("something.else", &of_block);
	TAKE();
	ADDS_UP();
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	ASSERT_EQ(0, strncmp(want, json, strlen(want))) {
		TH_LOG("want %s\nis   %s", want, json);
	}
	ASSERT_GT(self->step->capture_seconds, 0);
	/* Read again, by us and by another. */
	OK(capkm_observe_step_parse(json, strlen(json), &again, &err));
	OK(capkm_observe_step_json(again, &twice, NULL, &err));
	ASSERT_STREQ(json, twice);
	capkm_observe_step_free(again);
	o = json_tokener_parse(json);
	ASSERT_NE(NULL, o);
	ASSERT_EQ(4, json_object_array_length(json_object_object_get(o, "records")));
	json_object_put(o);
	free(twice);
	free(json);
}

/* T-131: an empty plan observes nothing, and a step of it has no records. */
TEST_F(observe, t131_empty_plan)
{
	const struct capkm_observe_limits none = { 0 };

	OPEN("", &none, 10);
	ASSERT_TRUE(capkm_observe_admitted_is_empty(capkm_observe_session_plan(self->s)));
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	TAKE();
	ASSERT_EQ(0, self->step->records_len);
	ASSERT_EQ(0, self->n.ready + self->n.describe + self->n.estimate + self->n.transform);
}

/* T-133: on each axis, an observation that does not fit is not made. */
TEST_F(observe, t133_over_budget)
{
	static const char *const names[] = { "captures", "retention", "host", "encoded" };

	for (int skip = 0; skip < 2; skip++) {
		for (u_int32_t axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++) {
			struct capkm_observe_limits l = wide;
			const u_int64_t most[] = { 0, 0, 127, RECORD_HOST + 127, RECORD_ENCODED + 512 + 63 };
			__u64 *step = &l.per_step.captures;

			l.on_limit = skip ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
			step[axis - 1] = most[axis];
			memset(&self->n, 0, sizeof(self->n));
			OPEN(S("preview", "block.output", PREVIEW(2)), &l, 10);
			BEGIN(CAPKM_PREFILL, 0);
			if (skip) {
				SHOW("block.output", &of_block);
			} else {
				REFUSED(-EDQUOT, capkm_observe_tensor(self->s, "block.output", &of_block, &err));
				SAYS(names[axis - 1]);
				SAYS("in a step: ");
			}
			ASSERT_EQ(0, self->n.transform);
			TAKE();
			ADDS_UP();
			IS(0, skip ? CAPKM_OUTCOME_SKIPPED : CAPKM_OUTCOME_FAILED);
			BECAUSE(0, CAPKM_REASON_LIMIT);
			ASSERT_EQ(axis, RECORD(0)->outcome.reason.budget);
			ASSERT_FALSE(RECORD(0)->outcome.reason.cumulative);
			ASSERT_EQ(NULL, RECORD(0)->payload);
			/* The shapes are known all the same. */
			ASSERT_EQ(2, RECORD(0)->source_shape_len);
			ASSERT_EQ(3, RECORD(0)->source_shape[0]);
			ASSERT_EQ(0, RECORD(0)->charged.captures);
			capkm_observe_close(self->s);
			self->s = NULL;
		}
	}
}

/* T-134 */
TEST_F(observe, t134_every_second)
{
	const struct tensor u64 = { .dtype = CAPKM_DTYPE_U64, .rank = 2, .shape = { 3, 4 } };
	struct capkm_observe_limits l = wide;
	char *json;

	l.on_limit = CAPKM_ON_LIMIT_SKIP;
	l.cumulative.captures = 1;
	OPEN(S("preview", "block.output", "\"schedule\":{\"every\":2}," PREVIEW(2)), &l, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &u64);
	REFUSED(-EINVAL, capkm_observe_begin_step(self->s, CAPKM_DECODE, 1, &err));
	SAYS("observe_begin_step: the records of prediction 0 are not taken");
	TAKE();
	IS(0, CAPKM_OUTCOME_TRUNCATED);
	ASSERT_EQ(12, RECORD(0)->outcome.available_elements);
	ASSERT_EQ(2, RECORD(0)->outcome.emitted_elements);
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	HAS(json, "\"data\":{\"dtype\":\"u64\",\"values\":[18446744073709551615,18446744073709551615]}");
	free(json);
	BEGIN(CAPKM_DECODE, 1);
	SHOW("block.output", &of_decode);
	TAKE();
	IS(0, CAPKM_OUTCOME_SKIPPED);
	BECAUSE(0, CAPKM_REASON_SCHEDULE);
	BEGIN(CAPKM_DECODE, 2);
	SHOW("block.output", &of_decode);
	TAKE();
	IS(0, CAPKM_OUTCOME_SKIPPED);
	BECAUSE(0, CAPKM_REASON_LIMIT);
	ASSERT_TRUE(RECORD(0)->outcome.reason.cumulative);
	ASSERT_EQ(CAPKM_AXIS_CAPTURES, RECORD(0)->outcome.reason.budget);
	BEGIN(CAPKM_DECODE, 4);
	TAKE();
	IS(0, CAPKM_OUTCOME_MISSING);
	ASSERT_EQ(1, self->n.transform);
	ASSERT_EQ(1, self->step->cumulative_usage.captures);
}

/* T-135: what is not known is not zero, and is looked at when it is there. */
TEST_F(observe, t135_unknown_axis)
{
	OPEN(S("part", "open", "\"slices\":[{\"axis\":\"row\",\"start\":0,\"end\":5,\"stride\":2}],\"transform\":{\"kind\":\"slice\"}"),
	     &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "open", &of_block, &err));
	SAYS("the slice of axis 'row' ends at 5, the axis at 3");
	TAKE();
	IS(0, CAPKM_OUTCOME_FAILED);
	BECAUSE(0, CAPKM_REASON_INVALID);
	ASSERT_EQ(NULL, RECORD(0)->source_shape);
	ASSERT_EQ(0, self->n.transform + self->n.estimate);
}

/* C99: the tensor is smaller than was declared; where nothing was declared it may be. */
TEST_F(observe, c99_cached_prefix)
{
	const struct tensor cached = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 2, 4 }, .values = some };
	const struct tensor flat = { .dtype = CAPKM_DTYPE_F32, .rank = 1, .shape = { 12 }, .values = some };

	OPEN(S("a", "block.output", FULL) "," S("b", "open", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &cached, &err));
	SAYS("axis 'token' of the tensor is 2, expected 3");
	SHOW("open", &cached);
	TAKE();
	ADDS_UP();
	IS(0, CAPKM_OUTCOME_FAILED);
	BECAUSE(0, CAPKM_REASON_INVALID);
	ASSERT_STREQ("axis 'token' of the tensor is 2, expected 3", RECORD(0)->outcome.message);
	ASSERT_EQ(NULL, RECORD(0)->payload);
	ASSERT_EQ(0, RECORD(0)->charged.captures);
	IS(1, CAPKM_OUTCOME_CAPTURED);
	ASSERT_EQ(8, RECORD(1)->payload->values.len);
	ASSERT_EQ(512 + 32 * 8, RECORD(1)->charged.encoded_bytes - 2048 - 6 * 9 - 128);
	BEGIN(CAPKM_DECODE, 1);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &flat, &err));
	SAYS("the tensor has 1 axes; its point has 2");
	TAKE();
}

/* T-146, ER-16: in order, once, and only what is selected. */
TEST_F(observe, t146_order)
{
	OPEN(S("a", "block.output", FULL) "," S("b", "block.output", SUMMARY), &wide, 10);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &of_block, &err));
	SAYS("observe_tensor: no step has begun");
	OK(capkm_observe_take_step(self->s, &self->step, &err));
	ASSERT_EQ(NULL, self->step);
	REFUSED(-EINVAL, capkm_observe_begin_step(self->s, CAPKM_DECODE, 10, &err));
	SAYS("prediction 10 of a request of 10");
	REFUSED(-EINVAL, capkm_observe_begin_step(self->s, 2, 1, &err));
	SAYS("CAPKM_PREFILL or CAPKM_DECODE");
	ASSERT_EQ(0, used(self->c, self->s).out_steps);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("free", &of_block);
	ASSERT_EQ(0, self->n.describe);
	SHOW("block.output", &of_block);
	ASSERT_EQ(2, self->n.transform);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &of_block, &err));
	SAYS("'block.output' is emitted twice in one step");
	ASSERT_EQ(0, err.index);
	TAKE();
	/* The records are as they were. */
	IS(0, CAPKM_OUTCOME_CAPTURED);
	ASSERT_EQ(12, RECORD(0)->payload->values.len);
	IS(1, CAPKM_OUTCOME_CAPTURED);
	ADDS_UP();
}

/* T-147: which error is which reason; a first one ends it; messages are cut. */
TEST_F(observe, t147_reasons)
{
	static const struct {
		int rc, want;
		u_int32_t reason;
		const char *message;
	} all[] = {
		{ -EOPNOTSUPP, -EOPNOTSUPP, CAPKM_REASON_UNSUPPORTED, "it said so" },
		{ -EINVAL, -EINVAL, CAPKM_REASON_INVALID, "it said so" },
		{ -EOVERFLOW, -EOVERFLOW, CAPKM_REASON_INVALID, "it said so" },
		{ -ESTALE, -ESTALE, CAPKM_REASON_TAINTED, "it said so" },
		{ -ENODEV, -EIO, CAPKM_REASON_NATIVE, "native capture failed: it said so" },
		{ -EDQUOT, -EIO, CAPKM_REASON_NATIVE, "native capture failed: it said so" },
	};
	char text[400];
	struct tensor t = of_block;

	OPEN(S("a", "block.output", FULL) "," S("b", "block.output", FULL), &wide, 10);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		t.transform = all[i].rc;
		BEGIN(CAPKM_PREFILL, 0);
		REFUSED(all[i].want, capkm_observe_tensor(self->s, "block.output", &t, &err));
		TAKE();
		ADDS_UP();
		IS(0, CAPKM_OUTCOME_FAILED);
		BECAUSE(0, all[i].reason);
		ASSERT_STREQ(all[i].message, RECORD(0)->outcome.message);
		ASSERT_EQ(NULL, RECORD(0)->payload);
		/* ER-12: it keeps its charge. ER-16: the next one is not asked. */
		ASSERT_EQ(1, RECORD(0)->charged.captures);
		IS(1, CAPKM_OUTCOME_MISSING);
		ASSERT_GT(self->step->capture_seconds, 0);
	}
	/* Its shape cannot be had: that is the runtime's, whatever it says. */
	t.transform = 0;
	t.describe = -EINVAL;
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	BECAUSE(0, CAPKM_REASON_NATIVE);
	t.describe = 0;
	self->n.estimate_rc = -ENODEV;
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	BECAUSE(0, CAPKM_REASON_INVALID);
	ASSERT_EQ(0, RECORD(0)->charged.captures);
	self->n.estimate_rc = 0;

	/* ER-21: 256 bytes, and no character in two. */
	memset(text, 'x', sizeof(text));
	text[230] = 0;
	strcat(text, "\xe2\x82\xac\xe2\x82\xac");
	t.why = text;
	t.transform = -ENODEV;
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	ASSERT_EQ(23 + 230 + 3, strlen(RECORD(0)->outcome.message));
	text[231] = 0;
	memcpy(text + 230, "y\xe2\x82\xac\xe2\x82\xac", 8);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	ASSERT_EQ(23 + 231, strlen(RECORD(0)->outcome.message));
	/* One that is no text is made one. */
	t.why = "\xff oops \xc3";
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	ASSERT_STREQ("native capture failed: ? oops ?", RECORD(0)->outcome.message);
}

/* C13: while its stream records, a tensor is skipped, and nothing of it is touched. */
TEST_F(observe, c13_recording)
{
	struct tensor t = of_block;
	struct capkm_observe_checkpoint *cp;
	char *json;

	t.ready = -EBUSY;
	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &t);
	ASSERT_EQ(1, self->n.ready);
	ASSERT_EQ(0, self->n.describe + self->n.estimate + self->n.transform);
	TAKE();
	IS(0, CAPKM_OUTCOME_SKIPPED);
	BECAUSE(0, CAPKM_REASON_RECORDING);
	ASSERT_EQ(0, RECORD(0)->charged.captures);
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	HAS(json, "\"outcome\":{\"kind\":\"skipped\",\"reason\":{\"kind\":\"recording\"}}");
	free(json);
	OK(capkm_observe_checkpoint(self->s, self->d, &cp, &err));
	capkm_observe_checkpoint_free(cp);
}

/* Tainted bytes are not observed; that is a failure, and no checkpoint is made of it. */
TEST_F(observe, tainted)
{
	struct tensor t = of_block;
	struct capkm_observe_checkpoint *cp = NOTHING;
	char *json;

	t.ready = -ESTALE;
	t.why = "failure 7: kernel 'gemm' failed";
	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-ESTALE, capkm_observe_tensor(self->s, "block.output", &t, &err));
	SAYS("failure 7: kernel 'gemm' failed");
	TAKE();
	ASSERT_EQ(0, self->n.transform);
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	HAS(json, "{\"kind\":\"failed\",\"reason\":{\"kind\":\"tainted\"},\"message\":\"failure 7: kernel 'gemm' failed\"}");
	free(json);
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, self->d, &cp, &err));
	ASSERT_EQ(NOTHING, cp);
}

/* T-148, C100: a backend that said too little, by one byte; exactly enough will do. */
TEST_F(observe, t148_to_the_byte)
{
	static float many[2000];
	const struct tensor t = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 500, 4 }, .values = many };
	char *json;
	size_t size;

	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = -1.1754944e-38f;
	self->n.usage = (struct capkm_usage){ 1, 0, 0, 100000 };
	OPEN(S("preview", "open", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("open", &t);
	TAKE();
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	size = (size_t)(strstr(json, "],\"step_usage\"") - strstr(json, "{\"schema"));
	free(json);
	/* The charge is in the record, with five digits in place of six. */
	ASSERT_LT(10000, size);
	size -= 1;
	for (int less = 0; less < 2; less++) {
		self->n.usage.encoded_bytes = size - (2048 + 6 * 15 + 128) - (unsigned int)less;
		BEGIN(CAPKM_DECODE, 1);
		if (!less) {
			SHOW("open", &t);
		} else {
			REFUSED(-EINVAL, capkm_observe_tensor(self->s, "open", &t, &err));
			SAYS("backend underestimated encoded size");
		}
		TAKE();
		ADDS_UP();
		IS(0, less ? CAPKM_OUTCOME_FAILED : CAPKM_OUTCOME_CAPTURED);
		ASSERT_EQ(!less, !!RECORD(0)->payload);
		if (less)
			BECAUSE(0, CAPKM_REASON_INVALID);
		ASSERT_EQ(size - (unsigned int)less, RECORD(0)->charged.encoded_bytes);
	}
}

/* The record is measured, not built a second time: nothing is allocated for it. */
TEST_F(observe, counting_allocates_nothing)
{
	unsigned long before, after;

	OPEN(S("preview", "block.output", PREVIEW(2)), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	before = t_fail_alloc = 1000000;
	SHOW("block.output", &of_block);
	after = t_fail_alloc;
	t_fail_alloc = 0;
	/* The arrays of the payload, perhaps in a new chunk. */
	ASSERT_LE(before - after, 2) {
		TH_LOG("%lu allocations", before - after);
	}
	TAKE();
}

/* T-149: the records themselves, also if the policy is to skip. */
TEST_F(observe, t149_records_cost)
{
	struct capkm_observe_limits l = wide;

	l.on_limit = CAPKM_ON_LIMIT_SKIP;
	l.per_step.host_bytes = RECORD_HOST;
	l.per_step.encoded_bytes = RECORD_ENCODED;
	OPEN(S("preview", "block.output", PREVIEW(2)), &l, 10);
	BEGIN(CAPKM_PREFILL, 0);
	TAKE();
	ASSERT_EQ(RECORD_HOST, RECORD(0)->charged.host_bytes);
	ASSERT_EQ(RECORD_ENCODED, RECORD(0)->charged.encoded_bytes);
	ASSERT_EQ(0, RECORD(0)->charged.captures | RECORD(0)->charged.retained_bytes);
	capkm_observe_close(self->s);
	self->s = NULL;
	l.per_step.host_bytes--;
	OPEN(S("preview", "block.output", PREVIEW(2)), &l, 10);
	REFUSED(-EDQUOT, capkm_observe_begin_step(self->s, CAPKM_PREFILL, 0, &err));
	SAYS("budget 'host' of 791 in a step: 792 would be used");
	ASSERT_EQ(0, err.index);
	capkm_observe_close(self->s);
	self->s = NULL;
	/* A point without axes may have 32. */
	OPEN(S("x", "free", PREVIEW(2)), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	TAKE();
	ASSERT_EQ(512 + 9 + 128 * 32, RECORD(0)->charged.host_bytes);
	ASSERT_EQ(2048 + 6 * 9 + 64 * 32, RECORD(0)->charged.encoded_bytes);
}

/* ER-14's bound holds for the worst record without a value there is. */
TEST_F(observe, worst_record_fits)
{
	char ugly[300], *selections, *json;
	struct tensor t = of_block;
	size_t size;

	memset(ugly, '"', sizeof(ugly));
	ugly[299] = 0;
	t.why = ugly;
	t.transform = -ENODEV;
	self->n.usage = (struct capkm_usage){ MAX / 2, MAX / 2, MAX / 2, 1 };
	ASSERT_LT(0, asprintf(&selections, S("%s", "block.output", FULL),
		"\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001"));
	OPEN(selections, &wide, 10);
	free(selections);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	size = (size_t)(strstr(json, "],\"step_usage\"") - strstr(json, "{\"schema"));
	ASSERT_LE(size, RECORD(0)->charged.encoded_bytes - 1);
	ASSERT_GT(size, 850);
	free(json);
}

/* A step that was read is one that can have been written: who uses it trusts its lengths. */
TEST_F(observe, hostile_steps)
{
	static const struct {
		const char *is, *becomes, *says;
	} all[] = {
		{ "\"shape\":[3]", "\"shape\":[9]", "a tensor's shape has 9 elements, its data 3" },
		{ "\"shape\":[3]", "\"shape\":[ ]", "its data 3" },
		{ "\"schema_version\":1", "\"schema_version\":2", "the schema_version of a record is 2, not 1" },
		{ "\"finite\":0,", "\"finite\":8,", "only then" },
		{ "\"non_finite\":8", "\"non_finite\":9", "do not add up" },
		{ "\"min\":null", "\"min\":1.50", "only then" },
		{ "\"kind\":\"captured\"", "\"kind\":\"missing\" ", "a record that is missing has a payload" },
	};
	const struct tensor open = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 2, 4 } };
	struct capkm_observe_step *step = NOTHING;
	char *json, *bad, *at;

	OPEN(S("preview", "block.output", PREVIEW(3)) "," S("sum", "open", SUMMARY), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	SHOW("open", &open);
	TAKE();
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		bad = strdup(json);
		at = strstr(bad, all[i].is);
		ASSERT_NE(NULL, at) {
			TH_LOG("no %s in %s", all[i].is, json);
		}
		ASSERT_EQ(strlen(all[i].is), strlen(all[i].becomes));
		memcpy(at, all[i].becomes, strlen(all[i].is));
		REFUSED(-EINVAL, capkm_observe_step_parse(bad, strlen(bad), &step, &err));
		SAYS(all[i].says);
		ASSERT_EQ(NOTHING, step);
		free(bad);
	}
	free(json);
}

/* A backend that fills all of its text, and one that counts nothing. */
TEST_F(observe, careless_backends)
{
	char endless[1000];
	struct tensor t = of_block;

	memset(endless, 'e', sizeof(endless));
	endless[999] = 0;
	t.why = endless;
	t.transform = -ENODEV;
	self->n.usage = (struct capkm_usage){ 0, 0, 0, 4000 };
	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	ASSERT_EQ(256, strlen(RECORD(0)->outcome.message));
	/* One capture; two extents and twelve values. */
	ASSERT_EQ(1, RECORD(0)->charged.captures);
	ASSERT_EQ(512 + 1 + 12 + 5 + 256 + 16 + 48, RECORD(0)->charged.host_bytes);
}

/* The ledger is taken away: the records are there, and it is said what is wrong. */
TEST_F(observe, ledger_gone)
{
	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	OK(capkm_ledger_destroy(self->c, capkm_observe_ledger(self->s), &err));
	TAKE();
	IS(0, CAPKM_OUTCOME_CAPTURED);
	ADDS_UP();
	REFUSED(-ENOENT, capkm_observe_begin_step(self->s, CAPKM_DECODE, 1, &err));
}

/* A forecast is made for the class of a point. */
TEST_F(observe, another_class)
{
	struct capkm_observe_point points[4];
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_admitted *a;
	struct tensor t = of_block;

	memcpy(points, d.catalog.points, sizeof(points));
	points[0].dtype = CAPKM_CLASS_FLOATING;
	d.catalog.points = points;
	a = admitted(_metadata, &d, S("a", "block.output", FULL), &wide, 10);
	OK(capkm_observe_open(self->c, a, &self->b, NULL, &self->s, &err));
	capkm_observe_admitted_free(a);
	t.dtype = CAPKM_DTYPE_U64;
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "block.output", &t, &err));
	SAYS("the tensor is of class 'integer', expected 'floating'");
	TAKE();
	BECAUSE(0, CAPKM_REASON_INVALID);
}

/* T-139, C101: what is no finite number is a text, and comes back. */
TEST_F(observe, t139_not_finite)
{
	static const float odd[] = { NAN, INFINITY, -INFINITY, -0.0f };
	const struct tensor t = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 1, 4 }, .values = odd };
	struct capkm_observe_step *again;
	const float *f;
	char *json, *p;

	OPEN(S("a \\u0007 \xf0\x9f\x98\x80", "open", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("open", &t);
	TAKE();
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	HAS(json, "\"selection_id\":\"a \\u0007 \xf0\x9f\x98\x80\"");
	HAS(json, "\"values\":[\"nan\",\"+inf\",\"-inf\",-0.0]");
	ASSERT_EQ(NULL, strstr(json, "null"));
	OK(capkm_observe_step_parse(json, strlen(json), &again, &err));
	f = again->records[0].payload->values.f32;
	ASSERT_TRUE(isnan(f[0]) && isinf(f[1]) > 0 && isinf(f[2]) < 0 && signbit(f[3]) && f[3] == 0);
	capkm_observe_step_free(again);
	p = strstr(json, "\"nan\"");
	memcpy(p, "\"NaN\"", 5);
	REFUSED(-EINVAL, capkm_observe_step_parse(json, strlen(json), &again, &err));
	SAYS("records[0].payload.value.data.values[0]: must be a number, \"nan\", \"+inf\" or \"-inf\"");
	free(json);
}

/* T-140: candidates as they were once written. */
TEST_F(observe, t140_old_candidates)
{
	static const char old[] =
		"{\"phase\":\"decode\",\"prediction_index\":3,\"records\":[{\"schema_version\":1,\"selection_id\":\"a\",\"path\":\"model.logits\",\"node_id\":\"head\","
		"\"position\":\"read_only\",\"source_shape\":[1,8],\"selected_shape\":[1,8],\"outcome\":{\"kind\":\"captured\"},"
		"\"payload\":{\"kind\":\"candidates\",\"value\":{\"stage\":\"raw_logits_before_sampling\",\"candidates\":[{\"token_id\":4294967295,\"score\":1.5}]}},"
		"\"charged\":{\"captures\":1,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0}}],"
		"\"step_usage\":{\"captures\":1,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},"
		"\"cumulative_usage\":{\"captures\":1,\"retained_bytes\":0,\"host_bytes\":0,\"encoded_bytes\":0},\"capture_seconds\":1e-5}";
	const struct capkm_observe_candidates *c;
	char *json;

	OK(capkm_observe_step_parse(old, strlen(old), &self->step, &err));
	c = &RECORD(0)->payload->candidates;
	ASSERT_EQ(CAPKM_SOURCE_ORIGINAL, c->source);
	ASSERT_EQ(1, c->len);
	ASSERT_EQ(UINT32_MAX, c->candidates[0].token_id);
	OK(capkm_observe_step_json(self->step, &json, NULL, &err));
	HAS(json, "\"stage\":\"raw_logits_before_sampling\",\"source\":\"original\",\"candidates\":[{\"token_id\":4294967295,\"score\":1.5}]");
	HAS(json, "\"capture_seconds\":0.00001}");
	free(json);
}

/* ER-17.10, and a last row that has fewer than are asked for. */
TEST_F(observe, candidates)
{
	const struct tensor eight = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 1, 8 } };
	const struct tensor two = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 1, 2 } };

	OPEN(S("best", "model.logits", "\"transform\":{\"kind\":\"top_candidates\",\"count\":3}"), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("model.logits", &eight);
	TAKE();
	ASSERT_EQ(3, RECORD(0)->payload->candidates.len);
	ASSERT_EQ(CAPKM_SOURCE_EFFECTIVE, RECORD(0)->payload->candidates.source);
	BEGIN(CAPKM_DECODE, 1);
	REFUSED(-EINVAL, capkm_observe_tensor(self->s, "model.logits", &two, &err));
	SAYS("3 top candidates of 2");
	TAKE();
}

/* Rank and elements of what nobody has declared. */
TEST_F(observe, unbounded_tensors)
{
	struct tensor t = { .dtype = CAPKM_DTYPE_F32, .rank = 33 };

	OPEN(S("a", "free", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EOPNOTSUPP, capkm_observe_tensor(self->s, "free", &t, &err));
	SAYS("the tensor has 33 axes; at most 32 are supported");
	TAKE();
	t = (struct tensor){ .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { MAX, 2 } };
	BEGIN(CAPKM_DECODE, 1);
	REFUSED(-EOVERFLOW, capkm_observe_tensor(self->s, "free", &t, &err));
	TAKE();
	t.shape[1] = 1;
	BEGIN(CAPKM_DECODE, 2);
	REFUSED(-EOPNOTSUPP, capkm_observe_tensor(self->s, "free", &t, &err));
	SAYS("18446744073709551615 values of one tensor");
	TAKE();
	ASSERT_EQ(0, self->n.transform);
	/* A scalar has no axes, and one value. */
	t = (struct tensor){ .dtype = CAPKM_DTYPE_F32, .values = some };
	BEGIN(CAPKM_DECODE, 3);
	SHOW("free", &t);
	TAKE();
	ASSERT_EQ(1, RECORD(0)->payload->values.len);
	ASSERT_NE(NULL, RECORD(0)->source_shape);
	ASSERT_EQ(0, RECORD(0)->source_shape_len);
}

/* D-6 */
TEST_F(observe, preview_of_nothing)
{
	const struct tensor empty = { .dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = { 0, 4 } };

	OPEN(S("a", "open", PREVIEW(0)), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("open", &of_block);
	TAKE();
	IS(0, CAPKM_OUTCOME_TRUNCATED);
	ASSERT_EQ(0, RECORD(0)->outcome.emitted_elements);
	BEGIN(CAPKM_DECODE, 1);
	SHOW("open", &empty);
	TAKE();
	IS(0, CAPKM_OUTCOME_CAPTURED);
	ASSERT_EQ(2, RECORD(0)->payload->shape_len);
}

/* ------------------------------------------------------------ over many steps */

/* C96: each step fits, all of them do not; earlier records stay what they are. */
TEST_F(observe, c96_cumulative)
{
	struct capkm_observe_limits l = wide;
	struct capkm_observe_step *first;

	l.cumulative.retained_bytes = 13 * 128 + 127;
	OPEN(S("a", "block.output", PREVIEW(2)), &l, 100);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	OK(capkm_observe_take_step(self->s, &first, &err));
	for (u_int64_t p = 1; p < 13; p++) {
		BEGIN(CAPKM_DECODE, p);
		SHOW("block.output", &of_decode);
		TAKE();
		ASSERT_EQ(128, self->step->step_usage.retained_bytes);
		ASSERT_EQ(128 * (p + 1), self->step->cumulative_usage.retained_bytes);
	}
	BEGIN(CAPKM_DECODE, 13);
	REFUSED(-EDQUOT, capkm_observe_tensor(self->s, "block.output", &of_decode, &err));
	SAYS("'retention' of 1791 in all (cumulative): 1792 would be used");
	TAKE();
	ASSERT_TRUE(RECORD(0)->outcome.reason.cumulative);
	ASSERT_EQ(1.0f, first->records[0].payload->values.f32[0]);
	capkm_observe_step_free(first);
}

/* What an administrator has set is a budget, too. */
TEST_F(observe, limit_of_the_domain)
{
	struct cl *cl = t_client();

	t_domain_limit(cl, CAPKM_LIMIT_LEDGER_CAPTURES, 1);
	self->c = cl->c;
	OPEN(S("a", "block.output", PREVIEW(2)) "," S("b", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EDQUOT, capkm_observe_tensor(self->s, "block.output", &of_block, &err));
	SAYS("budget 'captures' of 1 in all (cumulative) of the domain, set by its administrator");
	TAKE();
	ASSERT_TRUE(RECORD(1)->outcome.reason.cumulative);
	capkm_observe_close(self->s);
	self->s = NULL;
	t_close(cl);
}

/* C95: of 33 points two are selected, and nothing else is ever touched. */
TEST_F(observe, c95_only_what_is_selected)
{
	struct capkm_observe_point points[33];
	struct capkm_observe_point_support support[33];
	char names[33][20];
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_limits l = wide;
	struct capkm_observe_admitted *a;
	u_int64_t p;

	for (int i = 0; i < 33; i++) {
		snprintf(names[i], sizeof(names[i]), "layer.%d", i);
		points[i] = d.catalog.points[0];
		points[i].path = names[i];
		support[i] = d.support[0];
		support[i].path = names[i];
	}
	d.catalog.points = points;
	d.support = support;
	d.catalog.points_len = d.support_len = 33;
	l.cumulative.captures = 2 * 40;
	a = admitted(_metadata, &d, S("a", "layer.1", PREVIEW(2)) "," S("b", "layer.9", PREVIEW(2)), &l, 100);
	OK(capkm_observe_open(self->c, a, &self->b, NULL, &self->s, &err));
	capkm_observe_admitted_free(a);
	for (p = 0; p < 100; p++) {
		BEGIN(p ? CAPKM_DECODE : CAPKM_PREFILL, p);
		for (int i = 0; i < 33; i++) {
			if (capkm_observe_tensor(self->s, names[i], p ? &of_decode : &of_block, &err)) {
				ASSERT_EQ(40, p);
				break;
			}
		}
		if (p == 40)
			break;
		ASSERT_EQ(2 * (p + 1), self->n.describe);
		/* Backpressure: ER-20. */
		REFUSED(-EINVAL, capkm_observe_begin_step(self->s, CAPKM_DECODE, p + 1, &err));
		TAKE();
	}
	ASSERT_EQ(40, p);
	ASSERT_EQ(80, self->n.transform);
}

/* C97: a session that is closed leaves nothing; who holds it has given it back. */
TEST_F(observe, c97_closed)
{
	struct capkm_ledger_query q = { .size = sizeof(q), .flags = CAPKM_LEDGER_QUERY_F_NEXT };

	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	OK(capkm_ledger_query(self->c, &q, &err));
	capkm_observe_close(self->s);
	self->s = NULL;
	q = (struct capkm_ledger_query){ .size = sizeof(q), .flags = CAPKM_LEDGER_QUERY_F_NEXT };
	REFUSED(-ENOENT, capkm_ledger_query(self->c, &q, &err));
}

/* C103: what a replay did not emit is missing, not what was there before. */
TEST_F(observe, c103_not_emitted)
{
	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	TAKE();
	BEGIN(CAPKM_DECODE, 1);
	TAKE();
	IS(0, CAPKM_OUTCOME_MISSING);
	ASSERT_EQ(NULL, RECORD(0)->payload);
}

/* ------------------------------------------------------------ checkpoints */

#define CHECKPOINT(cp) OK(capkm_observe_checkpoint(self->s, self->d, cp, &err))

/* T-141 */
TEST_F(observe, t141_checkpoints)
{
	struct capkm_observe_checkpoint *at0, *at1;

	OPEN(S("a", "block.output", PREVIEW(2)), &wide, 10);
	CHECKPOINT(&at0);
	ASSERT_EQ(0, capkm_observe_checkpoint_next(at0));
	ASSERT_EQ(0, capkm_observe_checkpoint_usage(at0)->captures);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	TAKE();
	CHECKPOINT(&at1);
	ASSERT_EQ(1, capkm_observe_checkpoint_next(at1));
	for (int i = 1; i < 4; i++) {
		BEGIN(CAPKM_DECODE, 1);
		SHOW("block.output", &of_decode);
		TAKE();
		ASSERT_EQ(i + 1, self->step->cumulative_usage.captures);
		OK(capkm_observe_restore(self->s, at1, &err));
		capkm_observe_step_free(self->step);
		OK(capkm_observe_take_step(self->s, &self->step, &err));
		ASSERT_EQ(NULL, self->step);
	}
	OK(capkm_observe_restore(self->s, at0, &err));
	BEGIN(CAPKM_PREFILL, 0);
	TAKE();
	ASSERT_EQ(4, self->step->cumulative_usage.captures);
	capkm_observe_checkpoint_free(at0);
	capkm_observe_checkpoint_free(at1);
}

/* T-142, T-147: what no checkpoint can be made of, or given back to. */
TEST_F(observe, t142_refused)
{
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_point points[4];
	struct capkm_observe_checkpoint *cp, *other = NOTHING;
	struct capkm_observe_admitted *a;
	struct capkm_observe *s;

	OPEN(S("a", "block.output", PREVIEW(2)), &wide, 10);
	a = ADMITTED(S("a", "block.output", PREVIEW(2)), &wide, 10);
	OK(capkm_observe_open(self->c, a, &self->b, NULL, &s, &err));
	capkm_observe_admitted_free(a);
	CHECKPOINT(&cp);
	REFUSED(-EINVAL, capkm_observe_restore(s, cp, &err));
	SAYS("observe_restore: the checkpoint is another session's");
	capkm_observe_close(s);
	BEGIN(CAPKM_PREFILL, 0);
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, self->d, &other, &err));
	SAYS("the records of prediction 0 are not taken");
	REFUSED(-EINVAL, capkm_observe_restore(self->s, cp, &err));
	REFUSED(-EINVAL, capkm_observe_may_restore(self->s, cp, &err));
	TAKE();
	/* ER-43: asked first, it changes nothing. */
	OK(capkm_observe_may_restore(self->s, cp, &err));
	CHECKPOINT(&other);
	ASSERT_EQ(1, capkm_observe_checkpoint_next(other));
	capkm_observe_checkpoint_free(other);
	other = NOTHING;
	OK(capkm_observe_restore(self->s, cp, &err));
	memcpy(points, d.catalog.points, sizeof(points));
	points[0].meaning = "changed";
	d.catalog.points = points;
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, &d, &other, &err));
	SAYS("another catalog");
	ASSERT_EQ(NOTHING, other);
	capkm_observe_checkpoint_free(cp);
}

/* ER-44, T-145 */
TEST_F(observe, t145_begin_fails)
{
	struct capkm_observe_limits l = wide;
	struct capkm_observe_checkpoint *cp, *other;
	struct tensor t = of_block;

	l.cumulative.host_bytes = RECORD_HOST + 128;
	OPEN(S("preview", "block.output", PREVIEW(2)), &l, 10);
	CHECKPOINT(&cp);
	BEGIN(CAPKM_PREFILL, 0);
	t.transform = -ENODEV;
	REFUSED(-EIO, capkm_observe_tensor(self->s, "block.output", &t, &err));
	TAKE();
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, self->d, &other, &err));
	SAYS("the last step failed; restore an earlier checkpoint, or make another step");
	OK(capkm_observe_restore(self->s, cp, &err));
	CHECKPOINT(&other);
	capkm_observe_checkpoint_free(other);
	REFUSED(-EDQUOT, capkm_observe_begin_step(self->s, CAPKM_PREFILL, 0, &err));
	SAYS("in all (cumulative)");
	capkm_observe_step_free(self->step);
	OK(capkm_observe_take_step(self->s, &self->step, &err));
	ASSERT_EQ(NULL, self->step);
	REFUSED(-EINVAL, capkm_observe_checkpoint(self->s, self->d, &other, &err));
	OK(capkm_observe_restore(self->s, cp, &err));
	REFUSED(-EDQUOT, capkm_observe_begin_step(self->s, CAPKM_PREFILL, 0, &err));
	capkm_observe_checkpoint_free(cp);
}

#define FORK_OPTS(l) WITH(struct capkm_observe_fork_opts, .max_predictions = 10, .limits = l)

/* T-143 */
TEST_F(observe, t143_forks)
{
	struct capkm_observe_limits l = wide;
	struct capkm_observe_discovery d = *self->d;
	struct capkm_observe_checkpoint *cp;
	struct capkm_observe *child = NOTHING;
	struct capkm_observe_step *step;
	const struct capkm_usage *u;

	OPEN(S("a", "block.output", PREVIEW(2)), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	TAKE();
	CHECKPOINT(&cp);
	u = capkm_observe_checkpoint_usage(cp);
	ASSERT_EQ(1, u->captures);

	d.artifact_identity = "another";
	REFUSED(-EINVAL, capkm_observe_fork(self->c, cp, &d, &self->b, FORK_OPTS(l), &child, &err));
	SAYS("observe_fork: the checkpoint is of the model 'tiny-1', not 'another'");
	l.cumulative = *u;
	REFUSED(-EDQUOT, capkm_observe_fork(self->c, cp, self->d, &self->b, FORK_OPTS(l), &child, &err));
	l = wide;
	self->n.estimate_rc = -EOPNOTSUPP;
	REFUSED(-EOPNOTSUPP, capkm_observe_fork(self->c, cp, self->d, &self->b, FORK_OPTS(l), &child, &err));
	self->n.estimate_rc = 0;
	ASSERT_EQ(NOTHING, child);

	OK(capkm_observe_fork(self->c, cp, self->d, &self->b, FORK_OPTS(l), &child, &err));
	ASSERT_NE(capkm_observe_ledger(child), capkm_observe_ledger(self->s));
	REFUSED(-EINVAL, capkm_observe_restore(child, cp, &err));
	BEGIN(CAPKM_DECODE, 1);
	SHOW("block.output", &of_decode);
	TAKE();
	ASSERT_EQ(2, self->step->cumulative_usage.captures);
	OK(capkm_observe_begin_step(child, CAPKM_DECODE, 5, &err));
	OK(capkm_observe_take_step(child, &step, &err));
	ASSERT_EQ(1, step->cumulative_usage.captures);
	ASSERT_EQ(u->host_bytes + 786, step->cumulative_usage.host_bytes);
	capkm_observe_step_free(step);
	capkm_observe_close(child);
	/* What it inherits is what it was at the checkpoint. */
	OK(capkm_observe_fork(self->c, cp, self->d, &self->b, FORK_OPTS(l), &child, &err));
	ASSERT_EQ(1, used(self->c, child).out_total.captures);
	capkm_observe_close(child);
	capkm_observe_checkpoint_free(cp);
}

/* A checkpoint in a file: to the byte, and whatever is done to it. */
TEST_F(observe, checkpoint_json)
{
	struct capkm_observe_checkpoint *cp, *read;
	struct capkm_observe *s = NOTHING;
	char *json, *again, *p;
	size_t len;

	OPEN(S("a", "block.output", PREVIEW(2)), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	TAKE();
	CHECKPOINT(&cp);
	OK(capkm_observe_checkpoint_json(cp, &json, &len, &err));
	OK(capkm_observe_checkpoint_parse(json, len, &read, &err));
	OK(capkm_observe_checkpoint_json(read, &again, NULL, &err));
	ASSERT_STREQ(json, again);
	ASSERT_EQ(1, capkm_observe_checkpoint_next(read));
	REFUSED(-EINVAL, capkm_observe_restore(self->s, read, &err));
	SAYS("a checkpoint from JSON is for observe_resume");
	/* Two sessions of one handle have not one ledger either. */
	REFUSED(-EBUSY, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	SAYS("a session of this process has ledger 1 open");
	capkm_observe_close(self->s);
	self->s = NULL;
	REFUSED(-ENOENT, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	capkm_observe_checkpoint_free(read);

	/* Another ledger with that id, another domain, another plan, beyond its end. */
	p = strstr(again, "\"ledger_created_ns\":") + 20;
	*p = *p == '1' ? '2' : '1';
	OK(capkm_observe_checkpoint_parse(again, len, &read, &err));
	REFUSED(-ENOENT, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	capkm_observe_checkpoint_free(read);
	strcpy(again, json);
	p = strstr(again, "\"plan_identity\":\"") + 17;
	*p = *p == '1' ? '2' : '1';
	OK(capkm_observe_checkpoint_parse(again, len, &read, &err));
	REFUSED(-EINVAL, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	SAYS("another catalog");
	capkm_observe_checkpoint_free(read);
	strcpy(again, json);
	p = strstr(again, "\"max_predictions\":10");
	memcpy(p, "\"max_predictions\":00", 20);
	REFUSED(-EINVAL, capkm_observe_checkpoint_parse(again, len, &read, &err));
	strcpy(again, json);
	p = strstr(again, "\"schema_version\":1");
	p[17] = '3';
	OK(capkm_observe_checkpoint_parse(again, len, &read, &err));
	REFUSED(-EINVAL, capkm_observe_resume(self->c, read, self->d, &self->b, &s, &err));
	SAYS("the schema_version of the checkpoint is 3, not 1");
	capkm_observe_checkpoint_free(read);
	ASSERT_EQ(NOTHING, s);
	free(json);
	free(again);
	capkm_observe_checkpoint_free(cp);
}

/* The ledger stays if the session is to be gone on with. */
TEST_F(observe, kept)
{
	struct capkm_observe_admitted *a = ADMITTED(S("a", "block.output", PREVIEW(2)), &wide, 10);
	struct capkm_observe_checkpoint *cp;
	struct capkm_ledger_query q;

	OK(capkm_observe_open(self->c, a, &self->b, WITH(struct capkm_observe_opts,
		.label = "a run"), &self->s, &err));
	capkm_observe_keep(self->s);
	capkm_observe_admitted_free(a);
	q = used(self->c, self->s);
	ASSERT_STREQ("a run", (char *)q.out_label);
	ASSERT_EQ(MAX, q.out_cumulative.captures);
	BEGIN(CAPKM_PREFILL, 0);
	SHOW("block.output", &of_block);
	TAKE();
	CHECKPOINT(&cp);
	capkm_observe_close(self->s);
	self->s = NULL;
	/* As often as is wanted: it is kept by who says so. */
	for (int i = 0; i < 3; i++) {
		OK(capkm_observe_resume(self->c, cp, self->d, &self->b, &self->s, &err));
		BEGIN(CAPKM_DECODE, 1);
		TAKE();
		ASSERT_EQ(1, self->step->cumulative_usage.captures);
		if (i < 2)
			capkm_observe_keep(self->s);
		capkm_observe_close(self->s);
		self->s = NULL;
	}
	REFUSED(-ENOENT, capkm_observe_resume(self->c, cp, self->d, &self->b, &self->s, &err));
	capkm_observe_checkpoint_free(cp);
}

/* ------------------------------------------------------------ processes */

struct worker {
	char checkpoint[8192];
	int ready;
	u_int64_t predictions;
};

/* Observes, leaves a checkpoint after each step, and is in the middle of the next. */
static int work(struct capkm *c, void *arg)
{
	struct worker *w = arg;
	struct counts n = { 0 };
	const struct capkm_observe_backend b = {
		.sz = sizeof(b), .context = &n, .ready = b_ready,
		.describe = b_describe, .estimate = b_estimate, .transform = b_transform,
	};
	const struct capkm_observe_request r = { 1, 3, 10 };
	static const char plan[] =
		"{\"schema_version\":1,\"selections\":[" S("a", "block.output", PREVIEW(2)) "],\"limits\":"
		"{\"per_step\":{\"captures\":1,\"retained_bytes\":128,\"host_bytes\":4096,\"encoded_bytes\":4096},"
		"\"cumulative\":{\"captures\":4,\"retained_bytes\":100000,\"host_bytes\":100000,\"encoded_bytes\":100000},\"on_limit\":\"fail\"}}";
	struct capkm_observe_discovery *d;
	struct capkm_observe_plan *p;
	struct capkm_observe_admitted *a;
	struct capkm_observe *s;
	struct capkm_observe_step *step;
	struct capkm_observe_checkpoint *cp;
	char *json;

	if (capkm_observe_discovery_parse(discovery_json, strlen(discovery_json), &d, &err) ||
	    capkm_observe_plan_parse(plan, strlen(plan), &p, &err) ||
	    capkm_observe_admit(p, d, &r, &a, &err) ||
	    capkm_observe_open(c, a, &b, NULL, &s, &err))
		return 1;
	for (u_int64_t at = 0; at < w->predictions; at++) {
		if (capkm_observe_begin_step(s, at ? CAPKM_DECODE : CAPKM_PREFILL, at, &err) ||
		    capkm_observe_tensor(s, "block.output", at ? &of_decode : &of_block, &err) ||
		    capkm_observe_take_step(s, &step, &err) ||
		    capkm_observe_checkpoint(s, d, &cp, &err) ||
		    capkm_observe_checkpoint_json(cp, &json, NULL, &err))
			return 2;
		strcpy(w->checkpoint, json);
		free(json);
		capkm_observe_checkpoint_free(cp);
		capkm_observe_step_free(step);
	}
	if (capkm_observe_begin_step(s, CAPKM_DECODE, w->predictions, &err) ||
	    capkm_observe_tensor(s, "block.output", &of_decode, &err))
		return 3;
	return 0;
}

/*
 * A process dies in the middle of a step. Another goes on from what it has left; what
 * was charged since then stays charged, so the budget ends where it would have.
 */
TEST_F(observe, killed_and_resumed)
{
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
	OK(capkm_observe_checkpoint_parse(w->checkpoint, strlen(w->checkpoint), &cp, &err));
	REFUSED(-EBUSY, capkm_observe_resume(self->c, cp, self->d, &self->b, &self->s, &err));
	t_kill(other);
	OK(capkm_observe_resume(self->c, cp, self->d, &self->b, &self->s, &err));
	ASSERT_EQ(3, used(self->c, self->s).out_total.captures);
	BEGIN(CAPKM_DECODE, capkm_observe_checkpoint_next(cp));
	SHOW("block.output", &of_decode);
	TAKE();
	ASSERT_EQ(4, self->step->cumulative_usage.captures);
	BEGIN(CAPKM_DECODE, 3);
	REFUSED(-EDQUOT, capkm_observe_tensor(self->s, "block.output", &of_decode, &err));
	SAYS("'captures' of 4 in all (cumulative): 5 would be used");
	TAKE();
	capkm_observe_checkpoint_free(cp);
	munmap(w, sizeof(*w));
}

/* In a forked child nothing is charged to the parent's ledger. */
TEST_F(observe, forked_child)
{
	struct capkm_ledger_query before, after;
	pid_t child;
	int status;

	OPEN(S("a", "block.output", FULL), &wide, 10);
	BEGIN(CAPKM_PREFILL, 0);
	before = used(self->c, self->s);
	child = fork();
	if (!child) {
		int rc = capkm_observe_tensor(self->s, "block.output", &of_block, NULL);

		_exit(rc == -ECANCELED && !self->n.transform &&
		      capkm_observe_take_step(self->s, &self->step, NULL) == -ECANCELED ? 0 : 1);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	after = used(self->c, self->s);
	ASSERT_EQ(0, memcmp(&before, &after, sizeof(before)));
	SHOW("block.output", &of_block);
	TAKE();
	IS(0, CAPKM_OUTCOME_CAPTURED);
}

/* ------------------------------------------------------------ memory */

/* Each allocation fails once; what is there is whole, what is charged adds up. */
TEST_F(observe, allocations_fail)
{
	struct capkm_observe_admitted *a = ADMITTED(S("a", "block.output", FULL) "," S("b", "free", SUMMARY), &wide, 10);
	struct capkm_observe_checkpoint *cp = NULL;
	struct capkm_observe *s = NULL;
	bool done = false;
	int rc;

	for (unsigned long n = 1; !done; n++) {
		s = NULL;
		cp = NULL;
		t_fail_alloc = n;
		rc = capkm_observe_open(self->c, a, &self->b, NULL, &s, &err);
		if (!rc)
			rc = capkm_observe_begin_step(s, CAPKM_PREFILL, 0, &err);
		if (!rc)
			rc = capkm_observe_tensor(s, "block.output", &of_block, &err);
		if (!rc)
			rc = capkm_observe_tensor(s, "free", &of_block, &err);
		if (!rc)
			rc = capkm_observe_take_step(s, &self->step, &err);
		if (!rc)
			rc = capkm_observe_checkpoint(s, self->d, &cp, &err);
		done = t_fail_alloc;
		t_fail_alloc = 0;
		ASSERT_TRUE(!rc || rc == -ENOMEM) {
			TH_LOG("allocation %lu: %d %s", n, rc, err.text);
		}
		if (s && !self->step && !capkm_observe_take_step(s, &self->step, &err) && self->step)
			ASSERT_EQ(2, self->step->records_len);
		capkm_observe_step_free(self->step);
		self->step = NULL;
		capkm_observe_checkpoint_free(cp);
		capkm_observe_close(s);
	}
	ASSERT_EQ(0, rc);
	capkm_observe_admitted_free(a);
}

TEST_HARNESS_MAIN
