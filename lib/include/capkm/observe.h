/* SPDX-License-Identifier: MIT */
/*
 * libcapkm-observe: what tensors held while a model generated, recorded under a
 * budget that is admitted before anything is kept.
 */
#ifndef CAPKM_OBSERVE_H
#define CAPKM_OBSERVE_H

#include <capkm/capkm.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: Observing
 *
 * A runtime says what there is to observe: a *discovery*, with a catalog of points, by
 * path. A user says what he wants of it: a *plan* of selections, each of one point, when
 * (a schedule), which part (slices) and what of that (a transform), under limits. Both
 * are JSON or structs. capkm_observe_admit() holds one against the other for the
 * geometry of one request; what it returns cannot be changed any more.
 *
 * A session charges a ledger of the authority (capkm_ledger_create()) before anything of
 * an observation is kept or copied. Predictions are numbered from 0, which is the
 * prefill; all others are decodes. The runtime begins a step, shows its tensors by path
 * and takes the step with its records, before it begins the next one.
 *
 * The ledger survives the process: see capkm_observe_resume().
 *
 * Text in structs is UTF-8, NUL-terminated and, unless said otherwise, not NULL. What a
 * function takes is copied, what it returns lives until its _free(). Structs here are
 * elements of arrays and have no size of their own: they do not grow within a soname.
 * Options have one.
 *
 * Errors: -EINVAL, -EOPNOTSUPP (what is asked for is right, but this runtime or backend
 * cannot do it), -ENOENT (no point has that path), -EOVERFLOW, -EDQUOT (a limit; the
 * text has the numbers), -EIO (the backend), -ESTALE (tainted bytes), -ENOMEM, and those
 * of the ledger.
 *
 * Threads: calls on one session must not overlap; they may come from different threads.
 * Everything else that is passed in is only read. In a forked child, sessions are
 * -ECANCELED.
 */

/* capkm/intervene.h */
struct capkm_intervene_action;
struct capkm_intervene_opts;
struct capkm_intervene_point;
struct capkm_intervene_record;

#define CAPKM_OBSERVE_SCHEMA	1u	/* version of plans, catalogs and records */
#define CAPKM_OBSERVE_RANK	32u	/* axes of a tensor */
#define CAPKM_OBSERVE_JSON	(1u << 20)	/* bytes of a plan or discovery */
#define CAPKM_OBSERVE_MESSAGE	256u	/* bytes of the message of a failed record */
#define CAPKM_OBSERVE_IDENTITY	65u	/* an identity with its NUL */

/* A number that may be absent. */
struct capkm_observe_optional {
	uint64_t value;
	bool present;
};

/* discovery */

/**
 * enum capkm_observe_extent - how large an axis is
 * @CAPKM_EXTENT_KNOWN: a number
 * @CAPKM_EXTENT_BATCH: sequences of the request
 * @CAPKM_EXTENT_SEQUENCE: tokens of the prompt at prefill, else 1
 * @CAPKM_EXTENT_TOKEN_ROWS: batch times sequence
 * @CAPKM_EXTENT_CONTEXT: tokens that are visible: the prompt's and one for each
 *	prediction
 * @CAPKM_EXTENT_MEDIA_POSITIONS: not known before it is observed
 * @CAPKM_EXTENT_UNKNOWN: not known before it is observed; never zero
 */
enum capkm_observe_extent {
	CAPKM_EXTENT_KNOWN,
	CAPKM_EXTENT_BATCH,
	CAPKM_EXTENT_SEQUENCE,
	CAPKM_EXTENT_TOKEN_ROWS,
	CAPKM_EXTENT_CONTEXT,
	CAPKM_EXTENT_MEDIA_POSITIONS,
	CAPKM_EXTENT_UNKNOWN,
};

/**
 * struct capkm_observe_dimension - extent of an axis
 * @kind: enum capkm_observe_extent
 * @value: of %CAPKM_EXTENT_KNOWN
 */
struct capkm_observe_dimension {
	uint32_t kind;
	uint64_t value;
};

/**
 * struct capkm_observe_axis - one axis of a tensor
 * @name: such as "token", unique in the point
 * @dimension: its extent
 */
struct capkm_observe_axis {
	const char *name;
	struct capkm_observe_dimension dimension;
};

enum capkm_observe_class {
	CAPKM_CLASS_FLOATING,
	CAPKM_CLASS_INTEGER,
	CAPKM_CLASS_BOOLEAN,
	CAPKM_CLASS_UNKNOWN,
};

enum capkm_observe_requirement {
	CAPKM_REQUIRES_ACTIVATION_HOOKS,
	CAPKM_REQUIRES_ROUTING_EVENTS,
	CAPKM_REQUIRES_MEDIA_INPUT,
	CAPKM_REQUIRES_PREDICTION_EXECUTION,
};

enum capkm_observe_position {
	CAPKM_POSITION_BEFORE_INTERVENTION,
	CAPKM_POSITION_READ_ONLY,
	CAPKM_POSITION_AFTER_INTERVENTION,
};

/**
 * struct capkm_observe_point - something that can be observed
 * @path: its name, such as "layers.3.attention.output"
 * @node_id: node of the model's graph that makes it
 * @meaning: for people
 * @dtype: enum capkm_observe_class
 * @position: enum capkm_observe_position
 * @axes: in the order of storage, or NULL: rank and extents are not known
 * @axes_len: length of @axes
 * @requirements_len: length of @requirements
 * @requirements: enum capkm_observe_requirement
 * @prefill: emitted at prefill
 * @decode: emitted at decodes
 * @retained_bytes: device memory that observing all of it takes, where that is known
 * @host_bytes: host memory, likewise
 */
struct capkm_observe_point {
	const char *path;
	const char *node_id;
	const char *meaning;
	uint32_t dtype;
	uint32_t position;
	const struct capkm_observe_axis *axes;
	uint32_t axes_len;
	uint32_t requirements_len;
	const uint32_t *requirements;
	bool prefill;
	bool decode;
	struct capkm_observe_optional retained_bytes;
	struct capkm_observe_optional host_bytes;
};

enum capkm_observe_complete {
	CAPKM_COMPLETE,
	CAPKM_COMPLETE_PARTIAL,		/* there are points that it does not have */
	CAPKM_COMPLETE_UNSUPPORTED,	/* nothing can be observed */
};

/**
 * struct capkm_observe_catalog - what can be observed of a model
 * @schema_version: %CAPKM_OBSERVE_SCHEMA
 * @points_len: length of @points
 * @points: by path; the first one of a path counts
 * @completeness: enum capkm_observe_complete
 * @reasons_len: length of @reasons
 * @reasons: why it is not complete
 */
struct capkm_observe_catalog {
	uint32_t schema_version;
	uint32_t points_len;
	const struct capkm_observe_point *points;
	uint32_t completeness;
	uint32_t reasons_len;
	const char *const *reasons;
};

enum capkm_observe_status {
	CAPKM_SUPPORTED,
	CAPKM_CONDITIONAL,
	CAPKM_UNSUPPORTED,
	CAPKM_UNVERIFIED,
};

/**
 * struct capkm_observe_support - can it be done
 * @status: enum capkm_observe_status; only what is %CAPKM_SUPPORTED is admitted
 * @reason: if it is not
 */
struct capkm_observe_support {
	uint32_t status;
	const char *reason;
};

/**
 * struct capkm_observe_point_support - can a point be observed
 * @path: of the point
 * @prefill: at prefill
 * @decode: at decodes
 * @floating_to_f32: values of smaller floating types are given as f32
 */
struct capkm_observe_point_support {
	const char *path;
	struct capkm_observe_support prefill;
	struct capkm_observe_support decode;
	bool floating_to_f32;
};

/**
 * enum capkm_observe_transform_kind - what is recorded of a (sliced) tensor
 * @CAPKM_TRANSFORM_PREVIEW: the first values, row-major, at most .max_elements
 * @CAPKM_TRANSFORM_SLICE: all values of the slices
 * @CAPKM_TRANSFORM_FULL_TENSOR: all values
 * @CAPKM_TRANSFORM_SUMMARY: counts, minimum, maximum, mean, root mean square
 * @CAPKM_TRANSFORM_HISTOGRAM: counts between .edges
 * @CAPKM_TRANSFORM_TOP_CANDIDATES: the .count largest values of the last row of the
 *	point %CAPKM_OBSERVE_LOGITS, with their indices
 */
enum capkm_observe_transform_kind {
	CAPKM_TRANSFORM_PREVIEW,
	CAPKM_TRANSFORM_SLICE,
	CAPKM_TRANSFORM_FULL_TENSOR,
	CAPKM_TRANSFORM_SUMMARY,
	CAPKM_TRANSFORM_HISTOGRAM,
	CAPKM_TRANSFORM_TOP_CANDIDATES,
};
#define CAPKM_OBSERVE_LOGITS	"model.logits"

/**
 * struct capkm_observe_capabilities - what a backend can do
 * @transformations: enum capkm_observe_transform_kind
 * @transformations_len: length of @transformations
 * @conditions_len: length of @conditions
 * @max_histogram_bins: of a histogram
 * @physical_native_limit: it can keep .physical_native_bytes
 * @conditions: for people
 */
struct capkm_observe_capabilities {
	const uint32_t *transformations;
	uint32_t transformations_len;
	uint32_t conditions_len;
	uint64_t max_histogram_bins;
	bool physical_native_limit;
	const char *const *conditions;
};

/**
 * struct capkm_observe_discovery - what a runtime says of itself
 * @artifact_identity: names the model with its weights, such as a hash
 * @catalog: points
 * @support_version: %CAPKM_OBSERVE_SCHEMA
 * @support_len: length of @support
 * @support: of points
 * @capture: of its backend: .capabilities of struct capkm_observe_backend
 */
struct capkm_observe_discovery {
	const char *artifact_identity;
	struct capkm_observe_catalog catalog;
	uint32_t support_version;
	uint32_t support_len;
	const struct capkm_observe_point_support *support;
	struct capkm_observe_capabilities capture;
};

/* plans */

enum capkm_observe_phase {
	CAPKM_PREFILL,
	CAPKM_DECODE,
};

/**
 * struct capkm_observe_schedule - at which predictions
 * @prefill: at prefill
 * @decode: at decodes
 * @first_prediction: first
 * @end_prediction: first one no more; absent: that of the request
 * @every: each so many of them, counted from @first_prediction; not 0
 */
struct capkm_observe_schedule {
	bool prefill;
	bool decode;
	uint64_t first_prediction;
	struct capkm_observe_optional end_prediction;
	uint64_t every;
};

/**
 * struct capkm_observe_slice - part of a tensor along one axis
 * @axis: its name
 * @start: first index
 * @end: first index no more
 * @stride: each so many; not 0
 */
struct capkm_observe_slice {
	const char *axis;
	uint64_t start;
	uint64_t end;
	uint64_t stride;
};

/**
 * struct capkm_observe_transform - what is recorded
 * @kind: enum capkm_observe_transform_kind
 * @edges_len: length of @edges, two or more
 * @max_elements: of %CAPKM_TRANSFORM_PREVIEW
 * @count: of %CAPKM_TRANSFORM_TOP_CANDIDATES
 * @edges: of %CAPKM_TRANSFORM_HISTOGRAM, ascending. A bin has its lower edge, the last
 *	one also its upper
 */
struct capkm_observe_transform {
	uint32_t kind;
	uint32_t edges_len;
	uint64_t max_elements;
	uint64_t count;
	const float *edges;
};

/**
 * struct capkm_observe_selection - what to observe of one point
 * @id: unique in the plan
 * @path: of the point
 * @schedule: when
 * @slices: which part; axes without one are whole
 * @slices_len: length of @slices
 * @transform: what of that
 */
struct capkm_observe_selection {
	const char *id;
	const char *path;
	struct capkm_observe_schedule schedule;
	const struct capkm_observe_slice *slices;
	uint32_t slices_len;
	struct capkm_observe_transform transform;
};

/**
 * struct capkm_observe_limits - a budget
 * @per_step: what may be charged in one step
 * @cumulative: what may be charged in all
 * @physical_native_bytes: most that the backend's allocator may hold
 * @on_limit: enum capkm_on_limit
 */
struct capkm_observe_limits {
	struct capkm_usage per_step;
	struct capkm_usage cumulative;
	struct capkm_observe_optional physical_native_bytes;
	uint32_t on_limit;
};

/**
 * struct capkm_observe_plan - what to observe
 * @schema_version: %CAPKM_OBSERVE_SCHEMA
 * @selections_len: length of @selections
 * @selections: what; none of them: nothing
 * @limits: under which budget
 */
struct capkm_observe_plan {
	uint32_t schema_version;
	uint32_t selections_len;
	const struct capkm_observe_selection *selections;
	struct capkm_observe_limits limits;
};

/**
 * struct capkm_observe_request - geometry of a request
 * @batch: sequences; not 0
 * @prompt_tokens: of each; not 0
 * @max_predictions: the prefill's included; not 0
 */
struct capkm_observe_request {
	uint64_t batch;
	uint64_t prompt_tokens;
	uint64_t max_predictions;
};

/**
 * capkm_observe_plan_parse() - a plan from JSON
 * @json: text
 * @len: its length, at most %CAPKM_OBSERVE_JSON
 * @plan: the plan; untouched on error
 * @err: what is wrong, in which line and field; or NULL
 *
 * Fields that are not known and fields given twice are errors. Whether the plan makes
 * sense is for capkm_observe_admit() to say.
 *
 * Return: 0; -EINVAL, -EFBIG, -ENOMEM
 */
CAPKM_API int capkm_observe_plan_parse(const char *json, size_t len,
				       struct capkm_observe_plan **plan,
				       struct capkm_error *err);
/* One that came from capkm_observe_plan_parse(), or NULL. */
CAPKM_API void capkm_observe_plan_free(struct capkm_observe_plan *plan);
/*
 * JSON of a plan, compact, for free(3); @len: its length, or NULL.
 * 0; -EINVAL (a value without a name), -ENOMEM
 */
CAPKM_API int capkm_observe_plan_json(const struct capkm_observe_plan *plan,
				      char **json, size_t *len,
				      struct capkm_error *err);

/* The same of a discovery. */
CAPKM_API int capkm_observe_discovery_parse(const char *json, size_t len,
				struct capkm_observe_discovery **discovery,
				struct capkm_error *err);
CAPKM_API void capkm_observe_discovery_free(struct capkm_observe_discovery *discovery);
CAPKM_API int capkm_observe_discovery_json(const struct capkm_observe_discovery *discovery,
				char **json, size_t *len,
				struct capkm_error *err);

/**
 * capkm_observe_includes() - is there something to observe at a prediction
 * @schedule: of a selection
 * @phase: enum capkm_observe_phase
 * @prediction: number
 */
CAPKM_API bool capkm_observe_includes(const struct capkm_observe_schedule *schedule,
				      uint32_t phase, uint64_t prediction);

/**
 * capkm_observe_count() - how often a schedule comes up
 * @schedule: of a selection
 * @phase: enum capkm_observe_phase
 * @next: first prediction that is still to come
 * @max: predictions of the request
 * @count: how often
 * @last: the last of them, if @count is not 0
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (every is 0), -EOVERFLOW
 */
CAPKM_API int capkm_observe_count(const struct capkm_observe_schedule *schedule,
				  uint32_t phase, uint64_t next, uint64_t max,
				  uint64_t *count, uint64_t *last,
				  struct capkm_error *err);

/* A plan that was admitted. It cannot be changed. */
struct capkm_observe_admitted;

/**
 * capkm_observe_admit() - can this plan be observed here
 * @plan: what a user wants
 * @discovery: what there is
 * @request: geometry
 * @admitted: the plan as it was admitted; untouched on error
 * @err: the first thing that is wrong; .index says of which selection
 *
 * Asks no device.
 *
 * Return: 0; -EINVAL, -EOPNOTSUPP, -ENOENT, -EOVERFLOW, -ENOMEM
 */
CAPKM_API int capkm_observe_admit(const struct capkm_observe_plan *plan,
				  const struct capkm_observe_discovery *discovery,
				  const struct capkm_observe_request *request,
				  struct capkm_observe_admitted **admitted,
				  struct capkm_error *err);
/* NULL is fine. Sessions have their own copy. */
CAPKM_API void capkm_observe_admitted_free(struct capkm_observe_admitted *admitted);
CAPKM_API const struct capkm_observe_plan *
capkm_observe_admitted_plan(const struct capkm_observe_admitted *admitted);
/* Points of the selections, in their order. */
CAPKM_API const struct capkm_observe_point *
capkm_observe_admitted_points(const struct capkm_observe_admitted *admitted);
CAPKM_API const struct capkm_observe_request *
capkm_observe_admitted_request(const struct capkm_observe_admitted *admitted);
/*
 * SHA-256 in lower-case hexadecimal of the JSON of plan, points and request: what else
 * the catalog has does not matter.
 */
CAPKM_API const char *
capkm_observe_admitted_identity(const struct capkm_observe_admitted *admitted);
CAPKM_API bool
capkm_observe_admitted_is_empty(const struct capkm_observe_admitted *admitted);

/* records */

enum capkm_observe_dtype {
	CAPKM_DTYPE_UNKNOWN,	/* there is no tensor yet */
	CAPKM_DTYPE_F32,
	CAPKM_DTYPE_F16,
	CAPKM_DTYPE_BF16,
	CAPKM_DTYPE_I64,
	CAPKM_DTYPE_U64,
	CAPKM_DTYPE_BOOL,	/* one byte, 0 or not */
};

enum capkm_observe_outcome_kind {
	CAPKM_OUTCOME_CAPTURED,
	CAPKM_OUTCOME_TRUNCATED,
	CAPKM_OUTCOME_SKIPPED,
	CAPKM_OUTCOME_MISSING,
	CAPKM_OUTCOME_FAILED,
};

/**
 * enum capkm_observe_reason - why there is no value
 * @CAPKM_REASON_SCHEDULE: (skipped) it was not its turn
 * @CAPKM_REASON_LIMIT: (skipped, failed) a budget
 * @CAPKM_REASON_RECORDING: (skipped) its stream was recording a graph
 * @CAPKM_REASON_UNSUPPORTED: (failed) the backend cannot do it
 * @CAPKM_REASON_INVALID: (failed) the tensor is not what the catalog says
 * @CAPKM_REASON_NATIVE: (failed) the device
 * @CAPKM_REASON_TAINTED: (failed) bytes that failed work should have written
 */
enum capkm_observe_reason {
	CAPKM_REASON_SCHEDULE,
	CAPKM_REASON_LIMIT,
	CAPKM_REASON_RECORDING,
	CAPKM_REASON_UNSUPPORTED,
	CAPKM_REASON_INVALID,
	CAPKM_REASON_NATIVE,
	CAPKM_REASON_TAINTED,
};

/**
 * struct capkm_observe_why - reason of an outcome
 * @kind: enum capkm_observe_reason
 * @budget: enum capkm_axis, of %CAPKM_REASON_LIMIT
 * @cumulative: it is not the budget of one step
 */
struct capkm_observe_why {
	uint32_t kind;
	uint32_t budget;
	bool cumulative;
};

/**
 * struct capkm_observe_outcome - what became of an observation
 * @kind: enum capkm_observe_outcome_kind
 * @reason: of one skipped or failed
 * @available_elements: of one truncated: values that there were
 * @emitted_elements: and that there are
 * @message: of one failed, at most %CAPKM_OBSERVE_MESSAGE bytes
 */
struct capkm_observe_outcome {
	uint32_t kind;
	struct capkm_observe_why reason;
	uint64_t available_elements;
	uint64_t emitted_elements;
	const char *message;
};

enum capkm_observe_payload_kind {
	CAPKM_PAYLOAD_TENSOR,		/* preview, slice, full tensor */
	CAPKM_PAYLOAD_SUMMARY,
	CAPKM_PAYLOAD_HISTOGRAM,
	CAPKM_PAYLOAD_CANDIDATES,
};

/**
 * struct capkm_observe_values - numbers of one type
 * @dtype: %CAPKM_DTYPE_F32 (also for f16 and bf16), _I64, _U64 or _BOOL
 * @len: how many
 * @any: them, whatever they are
 * @f32: of %CAPKM_DTYPE_F32
 * @i64: of %CAPKM_DTYPE_I64
 * @u64: of %CAPKM_DTYPE_U64
 * @boolean: of %CAPKM_DTYPE_BOOL
 */
struct capkm_observe_values {
	uint32_t dtype;
	uint32_t len;
	union {
		void *any;
		float *f32;
		int64_t *i64;
		uint64_t *u64;
		bool *boolean;
	};
};

/**
 * struct capkm_observe_summary - statistics, of values as f32
 * @elements: how many
 * @finite: of these
 * @non_finite: the others
 * @nan: of these
 * @positive_infinity: of these
 * @negative_infinity: of these
 * @min: smallest finite; the four are meaningful if @finite is not 0
 * @max: largest finite
 * @mean: of the finite, added up in double precision
 * @rms: root of the mean of their squares
 */
struct capkm_observe_summary {
	uint64_t elements;
	uint64_t finite;
	uint64_t non_finite;
	uint64_t nan;
	uint64_t positive_infinity;
	uint64_t negative_infinity;
	float min;
	float max;
	double mean;
	double rms;
};

/**
 * struct capkm_observe_histogram - counts, of values as f32
 * @edges: of the plan
 * @edges_len: length of @edges
 * @counts_len: length of @counts, @edges_len - 1
 * @counts: finite values in each bin
 * @below: finite values below the first edge
 * @above: finite values above the last
 * @non_finite: all others
 */
struct capkm_observe_histogram {
	const float *edges;
	uint32_t edges_len;
	uint32_t counts_len;
	uint64_t *counts;
	uint64_t below;
	uint64_t above;
	uint64_t non_finite;
};

enum capkm_observe_source {
	CAPKM_SOURCE_ORIGINAL,
	CAPKM_SOURCE_EFFECTIVE,		/* after interventions */
};

struct capkm_observe_candidate {
	uint32_t token_id;
	float score;
};

/**
 * struct capkm_observe_candidates - best logits, before sampling
 * @source: enum capkm_observe_source
 * @len: length of @candidates
 * @candidates: descending; of equal scores the smaller index first; NaN is none
 */
struct capkm_observe_candidates {
	uint32_t source;
	uint32_t len;
	struct capkm_observe_candidate *candidates;
};

/**
 * struct capkm_observe_payload - values that were captured
 * @kind: enum capkm_observe_payload_kind, which says which of the others counts
 * @shape_len: length of @shape
 * @shape: of the tensor; of a preview that is truncated it is one axis
 * @values: of the tensor
 * @summary: statistics
 * @histogram: counts
 * @candidates: best logits
 */
struct capkm_observe_payload {
	uint32_t kind;
	uint32_t shape_len;
	const uint64_t *shape;
	struct capkm_observe_values values;
	struct capkm_observe_summary summary;
	struct capkm_observe_histogram histogram;
	struct capkm_observe_candidates candidates;
};

/**
 * struct capkm_observe_record - one selection in one step
 * @schema_version: %CAPKM_OBSERVE_SCHEMA
 * @position: enum capkm_observe_position, of the point
 * @selection_id: id of the selection
 * @path: of the point
 * @node_id: of the point
 * @source_shape: of the tensor, or NULL: it was not looked at, or was a wrong one
 * @selected_shape: after slicing, or NULL
 * @source_shape_len: length of @source_shape
 * @selected_shape_len: length of @selected_shape
 * @outcome: what became of it
 * @payload: values, or NULL
 * @charged: to the ledger, for this record
 */
struct capkm_observe_record {
	uint32_t schema_version;
	uint32_t position;
	const char *selection_id;
	const char *path;
	const char *node_id;
	const uint64_t *source_shape;
	const uint64_t *selected_shape;
	uint32_t source_shape_len;
	uint32_t selected_shape_len;
	struct capkm_observe_outcome outcome;
	const struct capkm_observe_payload *payload;
	struct capkm_usage charged;
};

/**
 * struct capkm_observe_step - what was observed at one prediction
 * @phase: enum capkm_observe_phase
 * @records_len: length of @records
 * @prediction_index: number
 * @records: one for each selection, in the plan's order
 * @interventions: one for each operation, in their plan's order, see capkm/intervene.h
 * @interventions_len: length of @interventions
 * @step_usage: charged to the ledger in this step
 * @cumulative_usage: charged to it in all
 * @capture_seconds: spent in observing, also where that failed
 */
struct capkm_observe_step {
	uint32_t phase;
	uint32_t records_len;
	uint64_t prediction_index;
	const struct capkm_observe_record *records;
	const struct capkm_intervene_record *interventions;
	uint32_t interventions_len;
	struct capkm_usage step_usage;
	struct capkm_usage cumulative_usage;
	double capture_seconds;
};

/* As of a plan; steps of any size can be parsed. */
CAPKM_API int capkm_observe_step_parse(const char *json, size_t len,
				       struct capkm_observe_step **step,
				       struct capkm_error *err);
CAPKM_API int capkm_observe_step_json(const struct capkm_observe_step *step,
				      char **json, size_t *len,
				      struct capkm_error *err);
CAPKM_API void capkm_observe_step_free(struct capkm_observe_step *step);

/* backends */

/**
 * struct capkm_observe_geometry - what of a tensor an observation takes
 * @selection: id, slices and transform
 * @point: of the selection
 * @dtype: enum capkm_observe_dtype, %CAPKM_DTYPE_UNKNOWN if there is no tensor yet
 * @rank: length of the arrays
 * @shape: of the tensor
 * @starts: first index on each axis
 * @strides: distance of indices
 * @selected: indices on each axis: the shape after slicing
 * @elements: product of @selected
 */
struct capkm_observe_geometry {
	const struct capkm_observe_selection *selection;
	const struct capkm_observe_point *point;
	uint32_t dtype;
	uint32_t rank;
	uint64_t shape[CAPKM_OBSERVE_RANK];
	uint64_t starts[CAPKM_OBSERVE_RANK];
	uint64_t strides[CAPKM_OBSERVE_RANK];
	uint64_t selected[CAPKM_OBSERVE_RANK];
	uint64_t elements;
};

/**
 * struct capkm_observe_backend - how tensors of one kind are observed
 * @sz: sizeof(struct capkm_observe_backend)
 * @context: first argument of its functions
 * @capabilities: what it can do, in @out, which points to static memory
 * @ready: may the tensor be looked at; asked first. -EBUSY: its stream is recording: it
 *	is skipped, without any work on the device. -ESTALE: its bytes are tainted
 * @describe: dtype, rank and, if that is at most %CAPKM_OBSERVE_RANK, shape; touches no
 *	value
 * @estimate: at most what @transform and the record's JSON will cost, from the geometry
 *	alone; asked before there is a tensor, too. capkm_observe_estimate() is most of
 *	it. At least one capture and the arrays of the payload are charged anyway
 * @transform: fills @payload, whose arrays are there and have the right lengths. Called
 *	only if what @estimate said is reserved. Keeps neither the tensor nor more of it
 *	than was reserved
 * @apply: makes in @out another tensor, of the same shape and dtype, where what the
 *	geometry selects is changed by the action; @tensor itself stays as it is. NULL: it
 *	changes no tensors
 * @release: gives back what @apply made
 * @estimate_routes: at most what keeping the original choice of a router for so many rows
 *	costs, of which nothing is a capture or encoded; NULL: it is not known
 *
 * All but @capabilities and @release return 0 or -errno, and then say why in @why, of
 * @size bytes:
 * -EOPNOTSUPP, -EINVAL, -EOVERFLOW and -ESTALE are what they are everywhere here; -EBUSY
 * says that the stream is recording, and is of @ready and @transform only; any other is an
 * error of the device. Of @describe all are.
 */
struct capkm_observe_backend {
	size_t sz;
	void *context;
	void (*capabilities)(void *context,
			     struct capkm_observe_capabilities *out);
	int (*ready)(void *context, const void *tensor, char *why, size_t size);
	int (*describe)(void *context, const void *tensor, uint64_t *shape,
			uint32_t *rank, uint32_t *dtype, char *why,
			size_t size);
	int (*estimate)(void *context,
			const struct capkm_observe_geometry *geometry,
			struct capkm_usage *usage, char *why, size_t size);
	int (*transform)(void *context, const void *tensor,
			 const struct capkm_observe_geometry *geometry,
			 struct capkm_observe_payload *payload, char *why,
			 size_t size);
	int (*apply)(void *context, const void *tensor,
		     const struct capkm_observe_geometry *geometry,
		     const struct capkm_intervene_action *action, void **out,
		     char *why, size_t size);
	void (*release)(void *context, void *tensor);
	int (*estimate_routes)(void *context,
			       const struct capkm_intervene_point *point,
			       uint64_t rows, struct capkm_usage *usage,
			       char *why, size_t size);
};

/* Values that a preview, slice or full tensor gives. */
CAPKM_API uint64_t capkm_observe_emitted(const struct capkm_observe_geometry *geometry);

/**
 * capkm_observe_estimate() - what any backend's estimate begins with
 * @geometry: of an observation
 * @usage: one capture, no device memory, the payload in host memory, and the most that
 *	the record's JSON can have beside what is charged for a record without a
 *	payload. A backend adds what it needs itself
 * @why: filled if it fails
 * @size: size of @why
 *
 * Return: 0; -EOPNOTSUPP (no such transform), -EOVERFLOW
 */
CAPKM_API int capkm_observe_estimate(const struct capkm_observe_geometry *geometry,
				     struct capkm_usage *usage, char *why,
				     size_t size);

/**
 * capkm_observe_validate() - will the budget do, for all that the schedule may take
 * @admitted: plan
 * @discovery: which must admit it still, to the same identity
 * @backend: for its estimates; no tensor is touched
 * @next: first prediction that is still to come
 * @inherited: what has been charged already, or NULL
 * @err: why not, or NULL
 *
 * Cautious: all selections are taken to meet in one step, each as large as its last
 * one. Shapes that are not known count when they are observed. With
 * %CAPKM_ON_LIMIT_SKIP only the records themselves count.
 *
 * Return: 0; -EINVAL, -EDQUOT, -EOVERFLOW, errors of the backend's estimates
 */
CAPKM_API int capkm_observe_validate(const struct capkm_observe_admitted *admitted,
				     const struct capkm_observe_discovery *discovery,
				     const struct capkm_observe_backend *backend,
				     uint64_t next,
				     const struct capkm_usage *inherited,
				     struct capkm_error *err);

/* sessions */

struct capkm_observe;

/**
 * struct capkm_observe_opts - for capkm_observe_open()
 * @sz: sizeof(struct capkm_observe_opts)
 * @label: of the ledger, or NULL
 */
struct capkm_observe_opts {
	size_t sz;
	const char *label;
};

/**
 * capkm_observe_open() - a session, with a ledger of its own
 * @c: attached handle, which must live longer
 * @admitted: plan, copied
 * @backend: of the tensors, copied
 * @opts: options or NULL
 * @session: the session; untouched on error
 * @err: why not, or NULL
 *
 * The ledger has the limits of the plan. Nothing is checked ahead: see
 * capkm_observe_validate().
 *
 * Return: 0; see capkm_ledger_create()
 */
CAPKM_API int capkm_observe_open(struct capkm *c,
				 const struct capkm_observe_admitted *admitted,
				 const struct capkm_observe_backend *backend,
				 const struct capkm_observe_opts *opts,
				 struct capkm_observe **session,
				 struct capkm_error *err);
/*
 * Records that were not taken are lost; the ledger is destroyed, unless it is kept. NULL
 * is fine.
 */
CAPKM_API void capkm_observe_close(struct capkm_observe *session);
/*
 * Closing leaves the ledger, as the end of the process does, for capkm_observe_resume().
 */
CAPKM_API void capkm_observe_keep(struct capkm_observe *session);
CAPKM_API const struct capkm_observe_admitted *
capkm_observe_session_plan(const struct capkm_observe *session);
/* For capkm_ledger_query(). */
CAPKM_API uint64_t capkm_observe_ledger(const struct capkm_observe *session);

/**
 * capkm_observe_begin_step() - a prediction begins
 * @session: session
 * @phase: enum capkm_observe_phase
 * @prediction: number
 * @err: why not, or NULL
 *
 * Charges the records themselves, one for each selection. That they do not fit is an
 * error also with %CAPKM_ON_LIMIT_SKIP. If it is those of interventions that do not fit,
 * the others are there and must be taken.
 *
 * Return: 0; -EINVAL (records were not taken, or the request has no such prediction:
 * nothing has changed), -EDQUOT, -EOVERFLOW, -ENOMEM: there are no records, what was
 * charged stays, and no checkpoint can be made before a later step is taken without a
 * failure, or capkm_observe_restore()
 */
CAPKM_API int capkm_observe_begin_step(struct capkm_observe *session,
				       uint32_t phase, uint64_t prediction,
				       struct capkm_error *err);

/**
 * capkm_observe_tensor() - shows a tensor
 * @session: session
 * @path: of its point; that nobody has selected is fine
 * @tensor: for the backend
 * @err: why not, or NULL
 *
 * Each selection of the path that is due makes its observation. What a selection skips
 * is not looked at.
 *
 * Return: 0 (also if it was skipped for a limit); -EINVAL (no step; shown twice in one),
 * or what the first failing selection's record says: -EDQUOT, -EOPNOTSUPP, -EINVAL,
 * -EOVERFLOW, -ESTALE, -EIO. Selections after that one stay missing
 */
CAPKM_API int capkm_observe_tensor(struct capkm_observe *session,
				   const char *path, const void *tensor,
				   struct capkm_error *err);

/**
 * capkm_observe_take_step() - the records of a step
 * @session: session
 * @step: the step, the caller's; NULL if there is none
 * @err: why not, or NULL
 *
 * If the ledger has gone, cumulative_usage is what the session last knew of it.
 *
 * Return: 0; -ECANCELED (a forked child)
 */
CAPKM_API int capkm_observe_take_step(struct capkm_observe *session,
				      struct capkm_observe_step **step,
				      struct capkm_error *err);

/* checkpoints */

/* Where a session is. It holds nothing of it. */
struct capkm_observe_checkpoint;

/**
 * capkm_observe_checkpoint() - where a session is
 * @session: whose records are taken, none of the last step failed
 * @discovery: that the plan can be admitted to again
 * @checkpoint: the caller's; untouched on error
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, errors of capkm_observe_admit() and capkm_ledger_query()
 */
CAPKM_API int capkm_observe_checkpoint(struct capkm_observe *session,
				const struct capkm_observe_discovery *discovery,
				struct capkm_observe_checkpoint **checkpoint,
				struct capkm_error *err);
CAPKM_API void capkm_observe_checkpoint_free(struct capkm_observe_checkpoint *checkpoint);
/* Prediction that comes next. */
CAPKM_API uint64_t capkm_observe_checkpoint_next(const struct capkm_observe_checkpoint *checkpoint);
CAPKM_API const struct capkm_usage *
capkm_observe_checkpoint_usage(const struct capkm_observe_checkpoint *checkpoint);
/* To be kept in a file; see capkm_observe_resume(). As of a plan. */
CAPKM_API int capkm_observe_checkpoint_json(const struct capkm_observe_checkpoint *checkpoint,
				char **json, size_t *len,
				struct capkm_error *err);
CAPKM_API int capkm_observe_checkpoint_parse(const char *json, size_t len,
				struct capkm_observe_checkpoint **checkpoint,
				struct capkm_error *err);

/**
 * capkm_observe_restore() - back to where a session was
 * @session: that the checkpoint is of
 * @checkpoint: not from JSON
 * @err: why not, or NULL
 *
 * What was charged since then stays charged.
 *
 * Return: 0; -EINVAL (another session's, records are not taken, a router has not been heard
 * of): nothing has changed
 */
CAPKM_API int capkm_observe_restore(struct capkm_observe *session,
				const struct capkm_observe_checkpoint *checkpoint,
				struct capkm_error *err);

/*
 * Would capkm_observe_restore() do it? It is asked before the model itself is taken
 * back: if nothing else is done with the session then, the answer holds.
 */
CAPKM_API int capkm_observe_may_restore(const struct capkm_observe *session,
				const struct capkm_observe_checkpoint *checkpoint,
				struct capkm_error *err);

/**
 * capkm_observe_resume() - goes on for a process that has gone
 * @c: attached handle, of the domain's owner, in the same domain
 * @checkpoint: what the other one left
 * @discovery: of the model, which must be the same
 * @backend: of the tensors, copied
 * @session: the session; untouched on error
 * @err: why not, or NULL
 *
 * Takes over the ledger, with all that was charged to it, also since the checkpoint.
 *
 * A checkpoint with interventions is for capkm_intervene_resume().
 *
 * Return: 0; -EINVAL (another model or plan, or not that ledger), -ENOENT (the ledger,
 * or its domain, is gone), -EBUSY (its session lives, in a process that lives, or is open
 * in this one), -EPERM (not the domain's owner),
 * errors of capkm_observe_admit()
 */
CAPKM_API int capkm_observe_resume(struct capkm *c,
				const struct capkm_observe_checkpoint *checkpoint,
				const struct capkm_observe_discovery *discovery,
				const struct capkm_observe_backend *backend,
				struct capkm_observe **session,
				struct capkm_error *err);

/**
 * struct capkm_observe_fork_opts - for capkm_observe_fork()
 * @sz: sizeof(struct capkm_observe_fork_opts)
 * @max_predictions: of the child's request, counted from the parent's first
 * @limits: the child's; the cumulative ones count what is inherited
 * @label: of its ledger, or NULL
 * @interventions: of the child; they must be given if the parent has some
 */
struct capkm_observe_fork_opts {
	size_t sz;
	uint64_t max_predictions;
	struct capkm_observe_limits limits;
	const char *label;
	const struct capkm_intervene_opts *interventions;
};

/**
 * capkm_observe_fork() - another session that goes on from a checkpoint
 * @c: attached handle
 * @checkpoint: of the parent, which is not changed
 * @discovery: of the model, which must be the same
 * @backend: of the tensors, copied
 * @opts: limits of the child
 * @session: the child; untouched on error
 * @err: why not, or NULL
 *
 * It has the parent's selections, and inherits what was charged up to the checkpoint.
 * From then on neither changes the other.
 *
 * Return: 0; errors of capkm_observe_admit(), capkm_observe_validate() and
 * capkm_ledger_create()
 */
CAPKM_API int capkm_observe_fork(struct capkm *c,
				const struct capkm_observe_checkpoint *checkpoint,
				const struct capkm_observe_discovery *discovery,
				const struct capkm_observe_backend *backend,
				const struct capkm_observe_fork_opts *opts,
				struct capkm_observe **session,
				struct capkm_error *err);

/* Names in JSON; never NULL, static. "unknown" for other values. */
CAPKM_API const char *capkm_observe_outcome_name(uint32_t kind);
CAPKM_API const char *capkm_observe_reason_name(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif
