// SPDX-License-Identifier: MIT
/*
 * Each struct that has JSON, field by field in the order of the JSON. Encoder, decoder
 * and copies work from these tables, so nothing else knows a field's name.
 */
#include "intervene.h"
#include "session.h"

#include <stddef.h>

#define LEN(a)		(sizeof(a) / sizeof(*(a)))

#define MEMBER(s, member, t, f)						\
	{ #member, &type_##t, offsetof(struct s, member), 0, f }
#define LIST(s, member, t, f)						\
	{ #member, &type_##t, offsetof(struct s, member),		\
	  offsetof(struct s, member##_len), FIELD_LIST | (f) }
#define STRUCT(t, s, ...)						\
	static const struct field fields_##t[] = { __VA_ARGS__ };	\
	const struct type type_##t = {					\
		.kind = KIND_STRUCT, .size = sizeof(struct s),		\
		.fields = fields_##t, .fields_len = LEN(fields_##t),	\
	}
#define ENUM(t, ...)							\
	static const char *const names_##t[] = { __VA_ARGS__ };		\
	const struct type type_##t = {					\
		.kind = KIND_ENUM, .size = sizeof(uint32_t),		\
		.names = names_##t, .names_len = LEN(names_##t),	\
	}
/* What a variant has beside its tag. */
#define VARIANT(t, s, ...)						\
	static const struct field fields_##t[] = { __VA_ARGS__ };	\
	static const struct type type_##t = {				\
		.kind = KIND_STRUCT, .size = sizeof(struct s),		\
		.fields = fields_##t, .fields_len = LEN(fields_##t),	\
	}
#define UNION(t, s, member, tag_name, ...)				\
	static const struct type *const variants_##t[] = { __VA_ARGS__ };\
	const struct type type_##t = {					\
		.kind = KIND_UNION, .size = sizeof(struct s),		\
		.tag = tag_name, .tag_at = offsetof(struct s, member),	\
		.names = names_##t, .names_len = LEN(names_##t),	\
		.variants = variants_##t,				\
	}
#define NAMES(t, ...)	static const char *const names_##t[] = { __VA_ARGS__ }

const struct type type_bool = { .kind = KIND_BOOL, .size = sizeof(bool) };
static const struct type type_u16 = { .kind = KIND_U16, .size = sizeof(uint16_t) };
const struct type type_u32 = { .kind = KIND_U32, .size = sizeof(uint32_t) };
const struct type type_u64 = { .kind = KIND_U64, .size = sizeof(uint64_t) };
static const struct type type_i64 = { .kind = KIND_I64, .size = sizeof(int64_t) };
const struct type type_f32 = { .kind = KIND_F32, .size = sizeof(float) };
const struct type type_f64 = { .kind = KIND_F64, .size = sizeof(double) };
const struct type type_text = { .kind = KIND_TEXT, .size = sizeof(char *) };
static const struct type type_optional = {
	.kind = KIND_OPTIONAL, .size = sizeof(struct capkm_observe_optional),
};
static const struct type type_nothing = { .kind = KIND_STRUCT };

static const char *const fixed_tensor[] = { "tensor" };
static const struct type type_fixed_tensor = {
	.kind = KIND_FIXED, .names = fixed_tensor, .names_len = 1,
};
static const char *const fixed_stage[] = { "raw_logits_before_sampling" };
static const struct type type_fixed_stage = {
	.kind = KIND_FIXED, .names = fixed_stage, .names_len = 1,
};

/* discovery */

NAMES(dimension, "known", "batch", "sequence", "token_rows", "context",
      "media_positions", "unknown");
VARIANT(dimension_known, capkm_observe_dimension,
	MEMBER(capkm_observe_dimension, value, u64, 0));
UNION(dimension, capkm_observe_dimension, kind, "kind",
      &type_dimension_known, &type_nothing, &type_nothing, &type_nothing,
      &type_nothing, &type_nothing, &type_nothing);

STRUCT(axis, capkm_observe_axis,
       MEMBER(capkm_observe_axis, name, text, 0),
       MEMBER(capkm_observe_axis, dimension, dimension, 0));

ENUM(class, "floating", "integer", "boolean", "unknown");
ENUM(requirement, "activation_hooks", "routing_events", "media_input",
     "prediction_execution");
ENUM(position, "before_intervention", "read_only", "after_intervention");

STRUCT(point, capkm_observe_point,
       MEMBER(capkm_observe_point, path, text, 0),
       MEMBER(capkm_observe_point, node_id, text, 0),
       MEMBER(capkm_observe_point, meaning, text, 0),
       { "value_type", &type_fixed_tensor, 0, 0, FIELD_DEFAULT },
       MEMBER(capkm_observe_point, dtype, class, 0),
       LIST(capkm_observe_point, axes, axis, FIELD_NULL),
       MEMBER(capkm_observe_point, prefill, bool, 0),
       MEMBER(capkm_observe_point, decode, bool, 0),
       LIST(capkm_observe_point, requirements, requirement, FIELD_DEFAULT),
       MEMBER(capkm_observe_point, position, position, 0),
       MEMBER(capkm_observe_point, retained_bytes, optional, 0),
       MEMBER(capkm_observe_point, host_bytes, optional, 0));

NAMES(completeness, "complete", "partial", "unsupported");
VARIANT(reasons, capkm_observe_catalog,
	LIST(capkm_observe_catalog, reasons, text, 0));
UNION(completeness, capkm_observe_catalog, completeness, "status",
	     &type_nothing, &type_reasons, &type_reasons);

STRUCT(catalog, capkm_observe_catalog,
       MEMBER(capkm_observe_catalog, schema_version, u32, 0),
       LIST(capkm_observe_catalog, points, point, 0),
       { "completeness", &type_completeness, 0, 0, 0 });

NAMES(support, "supported", "conditional", "unsupported", "unverified");
VARIANT(reason, capkm_observe_support,
	MEMBER(capkm_observe_support, reason, text, 0));
UNION(support, capkm_observe_support, status, "status",
	     &type_nothing, &type_reason, &type_reason, &type_reason);

STRUCT(point_support, capkm_observe_point_support,
       MEMBER(capkm_observe_point_support, path, text, 0),
       MEMBER(capkm_observe_point_support, prefill, support, 0),
       MEMBER(capkm_observe_point_support, decode, support, 0),
       MEMBER(capkm_observe_point_support, floating_to_f32, bool, 0));

NAMES(transform, "preview", "slice", "full_tensor", "summary", "histogram",
      "top_candidates");
const struct type type_transform_kind = {
	.kind = KIND_ENUM, .size = sizeof(uint32_t),
	.names = names_transform, .names_len = LEN(names_transform),
};

STRUCT(capabilities, capkm_observe_capabilities,
       LIST(capkm_observe_capabilities, transformations, transform_kind,
	    FIELD_DEFAULT),
       MEMBER(capkm_observe_capabilities, max_histogram_bins, u64,
	      FIELD_DEFAULT),
       MEMBER(capkm_observe_capabilities, physical_native_limit, bool,
	      FIELD_DEFAULT),
       LIST(capkm_observe_capabilities, conditions, text, FIELD_DEFAULT));

/* The report of support is no struct of its own in C. */
STRUCT(support_report, capkm_observe_discovery,
       { "schema_version", &type_u32,
	 offsetof(struct capkm_observe_discovery, support_version), 0, 0 },
       { "points", &type_point_support,
	 offsetof(struct capkm_observe_discovery, support),
	 offsetof(struct capkm_observe_discovery, support_len), FIELD_LIST },
       MEMBER(capkm_observe_discovery, capture, capabilities, FIELD_DEFAULT));

STRUCT(discovery, capkm_observe_discovery,
       MEMBER(capkm_observe_discovery, artifact_identity, text, 0),
       MEMBER(capkm_observe_discovery, catalog, catalog, 0),
       { "support", &type_support_report, 0, 0, 0 });

/* plans */

static const struct capkm_observe_schedule always = {
	.prefill = true, .decode = true, .every = 1,
};
static const struct field fields_schedule[] = {
	MEMBER(capkm_observe_schedule, prefill, bool, FIELD_DEFAULT),
	MEMBER(capkm_observe_schedule, decode, bool, FIELD_DEFAULT),
	MEMBER(capkm_observe_schedule, first_prediction, u64, FIELD_DEFAULT),
	MEMBER(capkm_observe_schedule, end_prediction, optional, 0),
	MEMBER(capkm_observe_schedule, every, u64, FIELD_DEFAULT),
};
const struct type type_schedule = {
	.kind = KIND_STRUCT, .size = sizeof(struct capkm_observe_schedule),
	.fields = fields_schedule, .fields_len = LEN(fields_schedule),
	.initial = &always,
};

static const struct capkm_observe_slice each = { .stride = 1 };
static const struct field fields_slice[] = {
	MEMBER(capkm_observe_slice, axis, text, 0),
	MEMBER(capkm_observe_slice, start, u64, 0),
	MEMBER(capkm_observe_slice, end, u64, 0),
	MEMBER(capkm_observe_slice, stride, u64, FIELD_DEFAULT),
};
const struct type type_slice = {
	.kind = KIND_STRUCT, .size = sizeof(struct capkm_observe_slice),
	.fields = fields_slice, .fields_len = LEN(fields_slice),
	.initial = &each,
};

VARIANT(preview, capkm_observe_transform,
	MEMBER(capkm_observe_transform, max_elements, u64, 0));
VARIANT(binned, capkm_observe_transform,
	LIST(capkm_observe_transform, edges, f32, 0));
VARIANT(top, capkm_observe_transform,
	MEMBER(capkm_observe_transform, count, u64, 0));
UNION(transform, capkm_observe_transform, kind, "kind",
	     &type_preview, &type_nothing, &type_nothing, &type_nothing,
	     &type_binned, &type_top);

static const struct capkm_observe_selection whole_always = {
	.schedule = { .prefill = true, .decode = true, .every = 1 },
};
static const struct field fields_selection[] = {
	MEMBER(capkm_observe_selection, id, text, 0),
	MEMBER(capkm_observe_selection, path, text, 0),
	MEMBER(capkm_observe_selection, schedule, schedule, FIELD_DEFAULT),
	LIST(capkm_observe_selection, slices, slice, FIELD_DEFAULT),
	MEMBER(capkm_observe_selection, transform, transform, 0),
};
const struct type type_selection = {
	.kind = KIND_STRUCT, .size = sizeof(struct capkm_observe_selection),
	.fields = fields_selection, .fields_len = LEN(fields_selection),
	.initial = &whole_always,
};

STRUCT(usage, capkm_usage,
       MEMBER(capkm_usage, captures, u64, 0),
       MEMBER(capkm_usage, retained_bytes, u64, 0),
       MEMBER(capkm_usage, host_bytes, u64, 0),
       MEMBER(capkm_usage, encoded_bytes, u64, 0));

ENUM(on_limit, "fail", "skip");

STRUCT(limits, capkm_observe_limits,
       MEMBER(capkm_observe_limits, per_step, usage, 0),
       MEMBER(capkm_observe_limits, cumulative, usage, 0),
       MEMBER(capkm_observe_limits, physical_native_bytes, optional, 0),
       MEMBER(capkm_observe_limits, on_limit, on_limit, 0));

STRUCT(plan, capkm_observe_plan,
       MEMBER(capkm_observe_plan, schema_version, u32, 0),
       LIST(capkm_observe_plan, selections, selection, 0),
       MEMBER(capkm_observe_plan, limits, limits, 0));

STRUCT(request, capkm_observe_request,
       MEMBER(capkm_observe_request, batch, u64, 0),
       MEMBER(capkm_observe_request, prompt_tokens, u64, 0),
       MEMBER(capkm_observe_request, max_predictions, u64, 0));

STRUCT(admitted, capkm_observe_admitted,
       MEMBER(capkm_observe_admitted, plan, plan, 0),
       LIST(capkm_observe_admitted, points, point, 0),
       MEMBER(capkm_observe_admitted, request, request, 0));

/* records */

ENUM(phase, "prefill", "decode");
ENUM(budget, NULL, "captures", "retention", "host", "encoded");

static const char *const names_reason[] = {
	"schedule", "limit", "recording", "unsupported", "invalid", "native",
	"tainted",
};
NAMES(why_skipped, "schedule", "limit", "recording");
NAMES(why_failed, NULL, "limit", NULL, "unsupported", "invalid", "native",
      "tainted");
VARIANT(why_limit, capkm_observe_why,
	MEMBER(capkm_observe_why, budget, budget, 0),
	MEMBER(capkm_observe_why, cumulative, bool, 0));
UNION(why_skipped, capkm_observe_why, kind, "kind",
      &type_nothing, &type_why_limit, &type_nothing);
UNION(why_failed, capkm_observe_why, kind, "kind",
	     NULL, &type_why_limit, NULL, &type_nothing, &type_nothing,
	     &type_nothing, &type_nothing);

NAMES(outcome, "captured", "truncated", "skipped", "missing", "failed");
VARIANT(truncated, capkm_observe_outcome,
	MEMBER(capkm_observe_outcome, available_elements, u64, 0),
	MEMBER(capkm_observe_outcome, emitted_elements, u64, 0));
VARIANT(skipped, capkm_observe_outcome,
	MEMBER(capkm_observe_outcome, reason, why_skipped, 0));
VARIANT(failed, capkm_observe_outcome,
	MEMBER(capkm_observe_outcome, reason, why_failed, 0),
	MEMBER(capkm_observe_outcome, message, text, 0));
UNION(outcome, capkm_observe_outcome, kind, "kind",
	     &type_nothing, &type_truncated, &type_skipped, &type_nothing,
	     &type_failed);

NAMES(values, NULL, "f32", NULL, NULL, "i64", "u64", "bool");
#define VALUES(t)							\
	VARIANT(values_##t, capkm_observe_values,			\
		{ "values", &type_##t,					\
		  offsetof(struct capkm_observe_values, any),		\
		  offsetof(struct capkm_observe_values, len), FIELD_LIST })
VALUES(f32);
VALUES(i64);
VALUES(u64);
VALUES(bool);
UNION(values, capkm_observe_values, dtype, "dtype",
	     NULL, &type_values_f32, NULL, NULL, &type_values_i64,
	     &type_values_u64, &type_values_bool);

STRUCT(tensor, capkm_observe_payload,
       LIST(capkm_observe_payload, shape, u64, 0),
       { "data", &type_values,
	 offsetof(struct capkm_observe_payload, values), 0, 0 });

#define AGGREGATE(member, t)						\
	{ #member, &type_##t,						\
	  offsetof(struct capkm_observe_summary, member),		\
	  offsetof(struct capkm_observe_summary, finite), FIELD_COUNTED }
STRUCT(summary, capkm_observe_summary,
       MEMBER(capkm_observe_summary, elements, u64, 0),
       MEMBER(capkm_observe_summary, finite, u64, 0),
       MEMBER(capkm_observe_summary, non_finite, u64, 0),
       MEMBER(capkm_observe_summary, nan, u64, 0),
       MEMBER(capkm_observe_summary, positive_infinity, u64, 0),
       MEMBER(capkm_observe_summary, negative_infinity, u64, 0),
       AGGREGATE(min, f32), AGGREGATE(max, f32),
       AGGREGATE(mean, f64), AGGREGATE(rms, f64));

STRUCT(histogram, capkm_observe_histogram,
       LIST(capkm_observe_histogram, edges, f32, 0),
       LIST(capkm_observe_histogram, counts, u64, 0),
       MEMBER(capkm_observe_histogram, below, u64, 0),
       MEMBER(capkm_observe_histogram, above, u64, 0),
       MEMBER(capkm_observe_histogram, non_finite, u64, 0));

ENUM(source, "original", "effective");
STRUCT(candidate, capkm_observe_candidate,
       MEMBER(capkm_observe_candidate, token_id, u32, 0),
       MEMBER(capkm_observe_candidate, score, f32, 0));
STRUCT(candidates, capkm_observe_candidates,
       { "stage", &type_fixed_stage, 0, 0, 0 },
       MEMBER(capkm_observe_candidates, source, source, FIELD_DEFAULT),
       { "candidates", &type_candidate,
	 offsetof(struct capkm_observe_candidates, candidates),
	 offsetof(struct capkm_observe_candidates, len), FIELD_LIST });

NAMES(payload, "tensor", "summary", "histogram", "candidates");
#define VALUE(t, where)							\
	VARIANT(payload_##t, capkm_observe_payload,			\
		{ "value", &type_##t, where, 0, 0 })
VALUE(tensor, 0);
VALUE(summary, offsetof(struct capkm_observe_payload, summary));
VALUE(histogram, offsetof(struct capkm_observe_payload, histogram));
VALUE(candidates, offsetof(struct capkm_observe_payload, candidates));
UNION(payload, capkm_observe_payload, kind, "kind",
	     &type_payload_tensor, &type_payload_summary,
	     &type_payload_histogram, &type_payload_candidates);

STRUCT(record, capkm_observe_record,
       MEMBER(capkm_observe_record, schema_version, u32, 0),
       MEMBER(capkm_observe_record, selection_id, text, 0),
       MEMBER(capkm_observe_record, path, text, 0),
       MEMBER(capkm_observe_record, node_id, text, 0),
       MEMBER(capkm_observe_record, position, position, 0),
       LIST(capkm_observe_record, source_shape, u64, FIELD_NULL),
       LIST(capkm_observe_record, selected_shape, u64, FIELD_NULL),
       MEMBER(capkm_observe_record, outcome, outcome, 0),
       MEMBER(capkm_observe_record, payload, payload,
	      FIELD_POINTER | FIELD_NULL),
       MEMBER(capkm_observe_record, charged, usage, 0));

/* interventions */

ENUM(dtype, NULL, "float32", "float16", "bfloat16");
ENUM(intervene_stage, "activation", "logits_before_sampling",
     "routing_before_dispatch");
NAMES(action, "zero", "scale", "mask", "replace", "add", "mask_logits",
      "exclude_experts", "zero_expert_contribution", "bias_routing_scores",
      "force_experts");
const struct type type_intervene_kind = {
	.kind = KIND_ENUM, .size = sizeof(uint32_t),
	.names = names_action, .names_len = LEN(names_action),
};
ENUM(scores, "logits", "scored");
ENUM(scoring, "softmax", "sigmoid", "selected_softmax");

STRUCT(routing, capkm_intervene_routing,
       MEMBER(capkm_intervene_routing, expert_count, u32, 0),
       MEMBER(capkm_intervene_routing, top_k, u32, 0),
       MEMBER(capkm_intervene_routing, scoring, scoring, 0),
       MEMBER(capkm_intervene_routing, normalize_selected, bool, 0),
       MEMBER(capkm_intervene_routing, epsilon, f64, 0),
       MEMBER(capkm_intervene_routing, coefficient_scale, f64, 0),
       MEMBER(capkm_intervene_routing, groups, u32, 0),
       MEMBER(capkm_intervene_routing, selected_groups, u32, 0),
       MEMBER(capkm_intervene_routing, learned_scale, bool, 0),
       MEMBER(capkm_intervene_routing, shared_experts, u32, 0));

STRUCT(intervene_point, capkm_intervene_point,
       MEMBER(capkm_intervene_point, path, text, 0),
       MEMBER(capkm_intervene_point, node_id, text, 0),
       MEMBER(capkm_intervene_point, stage, intervene_stage, 0),
       LIST(capkm_intervene_point, axes, axis, 0),
       LIST(capkm_intervene_point, dtypes, dtype, 0),
       LIST(capkm_intervene_point, operations, intervene_kind, 0),
       LIST(capkm_intervene_point, score_stages, scores, FIELD_DEFAULT),
       MEMBER(capkm_intervene_point, prefill, support, 0),
       MEMBER(capkm_intervene_point, decode, support, 0),
       LIST(capkm_intervene_point, conditions, text, FIELD_DEFAULT),
       MEMBER(capkm_intervene_point, routing, routing,
	      FIELD_POINTER | FIELD_NULL));

static const struct capkm_intervene_discovery cold = { .session_identity = "" };
static const struct field fields_intervene_discovery[] = {
	MEMBER(capkm_intervene_discovery, schema_version, u32, 0),
	MEMBER(capkm_intervene_discovery, artifact_identity, text, 0),
	MEMBER(capkm_intervene_discovery, session_identity, text, FIELD_DEFAULT),
	LIST(capkm_intervene_discovery, points, intervene_point, 0),
};
const struct type type_intervene_discovery = {
	.kind = KIND_STRUCT, .size = sizeof(struct capkm_intervene_discovery),
	.fields = fields_intervene_discovery,
	.fields_len = LEN(fields_intervene_discovery),
	.initial = &cold,
};

/* Those of 16 bits are their bits. */
NAMES(given, NULL, "float32", "float16", "bfloat16");
#define GIVEN(name, t)							\
	VARIANT(given_##name, capkm_intervene_values,			\
		{ "values", &type_##t,					\
		  offsetof(struct capkm_intervene_values, any),		\
		  offsetof(struct capkm_intervene_values, len), FIELD_LIST })
GIVEN(f32, f32);
GIVEN(bits, u16);
UNION(given, capkm_intervene_values, dtype, "dtype",
      NULL, &type_given_f32, &type_given_bits, &type_given_bits);

STRUCT(given_tensor, capkm_intervene_action,
       LIST(capkm_intervene_action, shape, u64, 0),
       MEMBER(capkm_intervene_action, values, given, 0));

VARIANT(action_zero, capkm_intervene_action,
	MEMBER(capkm_intervene_action, dtype, dtype, 0));
VARIANT(action_scale, capkm_intervene_action,
	MEMBER(capkm_intervene_action, dtype, dtype, 0),
	MEMBER(capkm_intervene_action, factor, f64, 0));
VARIANT(action_mask, capkm_intervene_action,
	MEMBER(capkm_intervene_action, dtype, dtype, 0),
	LIST(capkm_intervene_action, shape, u64, 0),
	LIST(capkm_intervene_action, keep, bool, 0));
VARIANT(action_tensor, capkm_intervene_action,
	{ "tensor", &type_given_tensor, 0, 0, 0 });
VARIANT(action_mask_logits, capkm_intervene_action,
	MEMBER(capkm_intervene_action, dtype, dtype, 0),
	LIST(capkm_intervene_action, ids, u32, 0));
VARIANT(action_experts, capkm_intervene_action,
	LIST(capkm_intervene_action, ids, u32, 0));
VARIANT(action_bias, capkm_intervene_action,
	MEMBER(capkm_intervene_action, stage, scores, 0),
	LIST(capkm_intervene_action, ids, u32, 0),
	LIST(capkm_intervene_action, biases, f32, 0));
VARIANT(action_force, capkm_intervene_action,
	LIST(capkm_intervene_action, shape, u64, 0),
	LIST(capkm_intervene_action, ids, u32, 0));
UNION(action, capkm_intervene_action, kind, "kind",
      &type_action_zero, &type_action_scale, &type_action_mask,
      &type_action_tensor, &type_action_tensor, &type_action_mask_logits,
      &type_action_experts, &type_action_experts, &type_action_bias,
      &type_action_force);

NAMES(evidence, "none", "preview", "summary");
VARIANT(evidence_preview, capkm_intervene_evidence,
	MEMBER(capkm_intervene_evidence, max_elements, u64, 0));
UNION(evidence, capkm_intervene_evidence, kind, "kind",
      &type_nothing, &type_evidence_preview, &type_nothing);

static const struct capkm_intervene_operation whole_operation = {
	.schedule = { .prefill = true, .decode = true, .every = 1 },
};
static const struct field fields_operation[] = {
	MEMBER(capkm_intervene_operation, id, text, 0),
	MEMBER(capkm_intervene_operation, target, text, 0),
	MEMBER(capkm_intervene_operation, schedule, schedule, FIELD_DEFAULT),
	LIST(capkm_intervene_operation, slices, slice, FIELD_DEFAULT),
	MEMBER(capkm_intervene_operation, action, action, 0),
	MEMBER(capkm_intervene_operation, evidence, evidence, FIELD_DEFAULT),
};
static const struct type type_operation = {
	.kind = KIND_STRUCT, .size = sizeof(struct capkm_intervene_operation),
	.fields = fields_operation, .fields_len = LEN(fields_operation),
	.initial = &whole_operation,
};

STRUCT(intervene_plan, capkm_intervene_plan,
       MEMBER(capkm_intervene_plan, schema_version, u32, 0),
       LIST(capkm_intervene_plan, operations, operation, 0));

STRUCT(intervene_admitted, capkm_intervene_admitted,
       MEMBER(capkm_intervene_admitted, plan, intervene_plan, 0),
       LIST(capkm_intervene_admitted, points, intervene_point, 0),
       MEMBER(capkm_intervene_admitted, request, request, 0),
       MEMBER(capkm_intervene_admitted, artifact_identity, text, 0),
       MEMBER(capkm_intervene_admitted, session_identity, text, 0),
       MEMBER(capkm_intervene_admitted, session_id, text, 0));

NAMES(intervened, "inactive", "applied", "missing", "failed");
VARIANT(intervention_failed, capkm_intervene_outcome,
	MEMBER(capkm_intervene_outcome, message, text, 0));
UNION(intervened, capkm_intervene_outcome, kind, "kind",
      &type_nothing, &type_nothing, &type_nothing, &type_intervention_failed);

STRUCT(intervene_record, capkm_intervene_record,
       MEMBER(capkm_intervene_record, schema_version, u32, 0),
       MEMBER(capkm_intervene_record, operation_id, text, 0),
       MEMBER(capkm_intervene_record, path, text, 0),
       MEMBER(capkm_intervene_record, node_id, text, 0),
       MEMBER(capkm_intervene_record, plan_identity, text, 0),
       MEMBER(capkm_intervene_record, outcome, intervened, 0),
       LIST(capkm_intervene_record, evidence, record, 0),
       MEMBER(capkm_intervene_record, charged, usage, 0));

/* steps */

STRUCT(step, capkm_observe_step,
       MEMBER(capkm_observe_step, phase, phase, 0),
       MEMBER(capkm_observe_step, prediction_index, u64, 0),
       LIST(capkm_observe_step, records, record, 0),
       LIST(capkm_observe_step, interventions, intervene_record, FIELD_OMIT),
       MEMBER(capkm_observe_step, step_usage, usage, 0),
       MEMBER(capkm_observe_step, cumulative_usage, usage, 0),
       MEMBER(capkm_observe_step, capture_seconds, f64, 0));

STRUCT(kept, kept,
       MEMBER(kept, session_id, text, 0),
       MEMBER(kept, plan, intervene_plan, 0),
       MEMBER(kept, identity, text, 0));

/* What only the session that made it may know is not in it. */
STRUCT(checkpoint, capkm_observe_checkpoint,
       MEMBER(capkm_observe_checkpoint, schema_version, u32, 0),
       MEMBER(capkm_observe_checkpoint, artifact_identity, text, 0),
       MEMBER(capkm_observe_checkpoint, plan, plan, 0),
       MEMBER(capkm_observe_checkpoint, request, request, 0),
       MEMBER(capkm_observe_checkpoint, plan_identity, text, 0),
       MEMBER(capkm_observe_checkpoint, interventions, kept,
	      FIELD_POINTER | FIELD_NULL),
       { "phase", &type_phase,
	 offsetof(struct capkm_observe_checkpoint, at.phase), 0, 0 },
       { "prediction_index", &type_u64,
	 offsetof(struct capkm_observe_checkpoint, at.prediction), 0, 0 },
       { "has_step", &type_bool,
	 offsetof(struct capkm_observe_checkpoint, at.has_step), 0, 0 },
       MEMBER(capkm_observe_checkpoint, cumulative_usage, usage, 0),
       MEMBER(capkm_observe_checkpoint, domain, u64, 0),
       MEMBER(capkm_observe_checkpoint, ledger, u64, 0),
       MEMBER(capkm_observe_checkpoint, ledger_created_ns, u64, 0));

static const char *name(const char *const *names, size_t len, uint32_t kind)
{
	return kind < len ? names[kind] : "unknown";
}

const char *capkm_observe_outcome_name(uint32_t kind)
{
	return name(names_outcome, LEN(names_outcome), kind);
}

const char *capkm_observe_reason_name(uint32_t kind)
{
	return name(names_reason, LEN(names_reason), kind);
}

const char *capkm_intervene_kind_name(uint32_t kind)
{
	return name(names_action, LEN(names_action), kind);
}

const char *capkm_intervene_outcome_name(uint32_t kind)
{
	return name(names_intervened, LEN(names_intervened), kind);
}
