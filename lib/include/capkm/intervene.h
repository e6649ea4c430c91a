/* SPDX-License-Identifier: MIT */
/*
 * libcapkm-observe: tensors changed while a model generates, by a plan that is admitted
 * beforehand and with evidence that is charged to the budget of what is observed.
 */
#ifndef CAPKM_INTERVENE_H
#define CAPKM_INTERVENE_H

#include <capkm/observe.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: Intervening
 *
 * A runtime says where it lets tensors be changed, and how: intervention points. A user's
 * *plan* has operations, each with a target (the path of a point), a schedule, slices, an
 * action and the evidence that it leaves: what was there before and after.
 * capkm_intervene_admit() holds one against the other for a request.
 *
 * capkm_intervene_enable() makes it part of a session that has not begun. In each step the
 * runtime then asks, where a tensor that has been shown goes on into the model, for what
 * is to go on in its place (capkm_intervene_tensor()); and, before and after it chooses
 * experts, what it is to choose (capkm_intervene_route(), capkm_intervene_routed()).
 * Evidence and the records of operations are charged to the session's ledger.
 *
 * The tensor that is given is never changed: a backend makes another one (.apply,
 * .release). What was asked for is done or the step has failed: unlike an observation, an
 * operation that was due and whose target did not come up is a failure.
 *
 * Everything that is said of text, structs, errors and threads in capkm/observe.h is so
 * here.
 */

#define CAPKM_INTERVENE_SCHEMA		1u	/* version of plans, points and records */
#define CAPKM_INTERVENE_OPERATIONS	64u	/* of a plan */
#define CAPKM_INTERVENE_JSON		(1u << 20)	/* bytes of a plan */
#define CAPKM_INTERVENE_PAYLOAD		(512u << 10)	/* bytes of all values of a plan */
#define CAPKM_INTERVENE_ID		128u	/* bytes of an operation's id */
#define CAPKM_INTERVENE_TARGET		1024u	/* bytes of a path or node's id */
#define CAPKM_INTERVENE_PREVIEW		4096u	/* elements of evidence */
#define CAPKM_INTERVENE_IDENTITY	81u	/* an identity with its NUL */

/* discovery */

enum capkm_intervene_stage {
	CAPKM_STAGE_ACTIVATION,
	CAPKM_STAGE_LOGITS_BEFORE_SAMPLING,
	CAPKM_STAGE_ROUTING_BEFORE_DISPATCH,
};

/**
 * enum capkm_intervene_kind - what is done
 * @CAPKM_ACTION_ZERO: values become 0
 * @CAPKM_ACTION_SCALE: they are multiplied by .factor
 * @CAPKM_ACTION_MASK: those that .keep does not keep become 0
 * @CAPKM_ACTION_REPLACE: they become those of .tensor
 * @CAPKM_ACTION_ADD: those of .tensor are added
 * @CAPKM_ACTION_MASK_LOGITS: those of .ids become negative infinity
 * @CAPKM_ACTION_EXCLUDE_EXPERTS: experts .ids are not chosen
 * @CAPKM_ACTION_ZERO_EXPERT_CONTRIBUTION: they are, with a coefficient of 0
 * @CAPKM_ACTION_BIAS_ROUTING_SCORES: .biases are added to the scores of .ids
 * @CAPKM_ACTION_FORCE_EXPERTS: .ids are what is chosen, a row for each token
 *
 * From %CAPKM_ACTION_EXCLUDE_EXPERTS on they are of points of routing, and only they.
 */
enum capkm_intervene_kind {
	CAPKM_ACTION_ZERO,
	CAPKM_ACTION_SCALE,
	CAPKM_ACTION_MASK,
	CAPKM_ACTION_REPLACE,
	CAPKM_ACTION_ADD,
	CAPKM_ACTION_MASK_LOGITS,
	CAPKM_ACTION_EXCLUDE_EXPERTS,
	CAPKM_ACTION_ZERO_EXPERT_CONTRIBUTION,
	CAPKM_ACTION_BIAS_ROUTING_SCORES,
	CAPKM_ACTION_FORCE_EXPERTS,
};

enum capkm_intervene_scores {
	CAPKM_SCORES_LOGITS,		/* as the router has them */
	CAPKM_SCORES_SCORED,		/* after .scoring */
};

enum capkm_intervene_scoring {
	CAPKM_SCORING_SOFTMAX,
	CAPKM_SCORING_SIGMOID,
	CAPKM_SCORING_SELECTED_SOFTMAX,	/* of those that were chosen */
};

/**
 * struct capkm_intervene_routing - how a router chooses
 * @expert_count: experts
 * @top_k: so many are chosen for each token
 * @scoring: enum capkm_intervene_scoring
 * @groups: of experts, all of one size
 * @selected_groups: of which those chosen are
 * @shared_experts: beside them, always
 * @epsilon: of the normalisation; finite, not negative
 * @coefficient_scale: of the coefficients; finite, positive
 * @normalize_selected: coefficients of a token sum up to 1
 * @learned_scale: the model has one for each expert
 */
struct capkm_intervene_routing {
	uint32_t expert_count;
	uint32_t top_k;
	uint32_t scoring;
	uint32_t groups;
	uint32_t selected_groups;
	uint32_t shared_experts;
	double epsilon;
	double coefficient_scale;
	bool normalize_selected;
	bool learned_scale;
};

/**
 * struct capkm_intervene_point - where a tensor can be changed
 * @path: its name; points of observation have the same for the same tensor
 * @node_id: node of the model's graph
 * @stage: enum capkm_intervene_stage
 * @axes_len: length of @axes, 1 to %CAPKM_OBSERVE_RANK
 * @axes: in the order of storage. A point of routing has an axis "token", one of which
 *	logits are masked an axis "vocabulary"
 * @dtypes: enum capkm_observe_dtype: f32, f16 or bf16
 * @operations: enum capkm_intervene_kind
 * @score_stages: enum capkm_intervene_scores, of %CAPKM_ACTION_BIAS_ROUTING_SCORES
 * @conditions: for people
 * @dtypes_len: length of @dtypes
 * @operations_len: length of @operations
 * @score_stages_len: length of @score_stages
 * @conditions_len: length of @conditions
 * @prefill: can it be done at prefill
 * @decode: can it be done at decodes
 * @routing: of a point of routing, else NULL
 */
struct capkm_intervene_point {
	const char *path;
	const char *node_id;
	uint32_t stage;
	uint32_t axes_len;
	const struct capkm_observe_axis *axes;
	const uint32_t *dtypes;
	const uint32_t *operations;
	const uint32_t *score_stages;
	const char *const *conditions;
	uint32_t dtypes_len;
	uint32_t operations_len;
	uint32_t score_stages_len;
	uint32_t conditions_len;
	struct capkm_observe_support prefill;
	struct capkm_observe_support decode;
	const struct capkm_intervene_routing *routing;
};

/**
 * struct capkm_intervene_discovery - where a runtime lets tensors be changed
 * @schema_version: %CAPKM_INTERVENE_SCHEMA
 * @points_len: length of @points
 * @artifact_identity: as in struct capkm_observe_discovery
 * @session_identity: names the running model; "" if it does not run yet, and then nothing
 *	is admitted
 * @points: by path, each once
 */
struct capkm_intervene_discovery {
	uint32_t schema_version;
	uint32_t points_len;
	const char *artifact_identity;
	const char *session_identity;
	const struct capkm_intervene_point *points;
};

/* plans */

/**
 * struct capkm_intervene_values - values of a tensor, all finite
 * @dtype: enum capkm_observe_dtype
 * @len: length of the array
 * @f32: of %CAPKM_DTYPE_F32
 * @bits: of %CAPKM_DTYPE_F16 and %CAPKM_DTYPE_BF16, as stored
 * @any: either
 */
struct capkm_intervene_values {
	uint32_t dtype;
	uint32_t len;
	union {
		const float *f32;
		const uint16_t *bits;
		const void *any;
	};
};

/**
 * struct capkm_intervene_action - what an operation does
 * @kind: enum capkm_intervene_kind, which says which of the others count
 * @dtype: enum capkm_observe_dtype, which the tensor must have: of zero, scale, mask and
 *	mask_logits; of replace and add @values has it
 * @factor: of scale; finite, and not beyond what @dtype can hold. The nearest f32 is used
 * @shape: of mask, replace and add: exactly that of the slices; of force_experts rows and
 *	top_k
 * @shape_len: length of @shape
 * @keep_len: length of @keep
 * @keep: of mask, row-major
 * @values: of replace and add, row-major
 * @ids: tokens or experts: each once, but for force_experts
 * @biases: of bias_routing_scores, one for each of @ids
 * @ids_len: length of @ids
 * @biases_len: length of @biases
 * @stage: enum capkm_intervene_scores, of bias_routing_scores
 */
struct capkm_intervene_action {
	uint32_t kind;
	uint32_t dtype;
	double factor;
	const uint64_t *shape;
	uint32_t shape_len;
	uint32_t keep_len;
	const bool *keep;
	struct capkm_intervene_values values;
	const uint32_t *ids;
	const float *biases;
	uint32_t ids_len;
	uint32_t biases_len;
	uint32_t stage;
};

enum capkm_intervene_evidence_kind {
	CAPKM_EVIDENCE_NONE,
	CAPKM_EVIDENCE_PREVIEW,
	CAPKM_EVIDENCE_SUMMARY,		/* not of routing */
};

/**
 * struct capkm_intervene_evidence - what is recorded of the tensor before and after
 * @kind: enum capkm_intervene_evidence_kind
 * @max_elements: of a preview, 1 to %CAPKM_INTERVENE_PREVIEW
 */
struct capkm_intervene_evidence {
	uint32_t kind;
	uint64_t max_elements;
};

/**
 * struct capkm_intervene_operation - one change
 * @id: unique in the plan, 1 to %CAPKM_INTERVENE_ID bytes
 * @target: path of the point
 * @schedule: when
 * @slices: which part, not empty; axes without one are whole
 * @slices_len: length of @slices
 * @action: what is done
 * @evidence: what is recorded of it
 */
struct capkm_intervene_operation {
	const char *id;
	const char *target;
	struct capkm_observe_schedule schedule;
	const struct capkm_observe_slice *slices;
	uint32_t slices_len;
	struct capkm_intervene_action action;
	struct capkm_intervene_evidence evidence;
};

/**
 * struct capkm_intervene_plan - what to change
 * @schema_version: %CAPKM_INTERVENE_SCHEMA
 * @operations_len: length of @operations, at most %CAPKM_INTERVENE_OPERATIONS
 * @operations: on one target they are done in this order
 */
struct capkm_intervene_plan {
	uint32_t schema_version;
	uint32_t operations_len;
	const struct capkm_intervene_operation *operations;
};

/* As capkm_observe_plan_parse() and the others there. */
CAPKM_API int capkm_intervene_plan_parse(const char *json, size_t len,
				struct capkm_intervene_plan **plan,
				struct capkm_error *err);
CAPKM_API int capkm_intervene_plan_json(const struct capkm_intervene_plan *plan,
				char **json, size_t *len,
				struct capkm_error *err);
CAPKM_API void capkm_intervene_plan_free(struct capkm_intervene_plan *plan);
CAPKM_API int capkm_intervene_discovery_parse(const char *json, size_t len,
				struct capkm_intervene_discovery **discovery,
				struct capkm_error *err);
CAPKM_API int capkm_intervene_discovery_json(const struct capkm_intervene_discovery *discovery,
				char **json, size_t *len,
				struct capkm_error *err);
CAPKM_API void capkm_intervene_discovery_free(struct capkm_intervene_discovery *discovery);

/* A plan that was admitted. It cannot be changed. */
struct capkm_intervene_admitted;

/**
 * capkm_intervene_admit() - can this be done here
 * @plan: what a user wants
 * @discovery: where the runtime lets it be done
 * @request: geometry
 * @session_id: the caller's name for its session, not empty; part of the identity
 * @admitted: the plan as it was admitted; untouched on error
 * @err: the first thing that is wrong; .index says of which operation
 *
 * Asks no device.
 *
 * Return: 0; -EINVAL, -EOPNOTSUPP, -ENOENT, -EOVERFLOW, -ENOMEM
 */
CAPKM_API int capkm_intervene_admit(const struct capkm_intervene_plan *plan,
				const struct capkm_intervene_discovery *discovery,
				const struct capkm_observe_request *request,
				const char *session_id,
				struct capkm_intervene_admitted **admitted,
				struct capkm_error *err);
/* NULL is fine. Sessions have their own copy. */
CAPKM_API void capkm_intervene_admitted_free(struct capkm_intervene_admitted *admitted);
CAPKM_API const struct capkm_intervene_plan *
capkm_intervene_admitted_plan(const struct capkm_intervene_admitted *admitted);
/* Points of the operations, in their order. */
CAPKM_API const struct capkm_intervene_point *
capkm_intervene_admitted_points(const struct capkm_intervene_admitted *admitted);
CAPKM_API const struct capkm_observe_request *
capkm_intervene_admitted_request(const struct capkm_intervene_admitted *admitted);
CAPKM_API const char *
capkm_intervene_admitted_session(const struct capkm_intervene_admitted *admitted);
/*
 * "intervention-v1-" and the SHA-256, in lower-case hexadecimal, of the JSON of plan,
 * points, request, both identities of the discovery and the caller's session.
 */
CAPKM_API const char *
capkm_intervene_admitted_identity(const struct capkm_intervene_admitted *admitted);
CAPKM_API bool
capkm_intervene_admitted_is_empty(const struct capkm_intervene_admitted *admitted);

/* records */

enum capkm_intervene_outcome_kind {
	CAPKM_INTERVENTION_INACTIVE,	/* it was not its turn */
	CAPKM_INTERVENTION_APPLIED,
	CAPKM_INTERVENTION_MISSING,	/* its target did not come up */
	CAPKM_INTERVENTION_FAILED,
};

/**
 * struct capkm_intervene_outcome - what became of an operation
 * @kind: enum capkm_intervene_outcome_kind
 * @message: of one that failed, at most %CAPKM_OBSERVE_MESSAGE bytes
 */
struct capkm_intervene_outcome {
	uint32_t kind;
	const char *message;
};

/**
 * struct capkm_intervene_record - one operation in one step
 * @schema_version: %CAPKM_INTERVENE_SCHEMA
 * @evidence_len: length of @evidence
 * @operation_id: of the operation
 * @path: of its point
 * @node_id: of its point
 * @plan_identity: of the admitted plan
 * @outcome: what became of it
 * @evidence: what was before and after. .selection_id is that of the operation with
 *	":before:" or ":after:" and "values", or, of routing, "ids" and "coefficients"
 * @charged: to the ledger, for this record; the evidence has its own
 */
struct capkm_intervene_record {
	uint32_t schema_version;
	uint32_t evidence_len;
	const char *operation_id;
	const char *path;
	const char *node_id;
	const char *plan_identity;
	struct capkm_intervene_outcome outcome;
	const struct capkm_observe_record *evidence;
	struct capkm_usage charged;
};

/* sessions */

/**
 * capkm_intervene_validate() - will the budget do, for observing and intervening
 * @observed: what is observed
 * @discovery: which must admit it still, to the same identity
 * @admitted: what is changed, for the same request, whose batch must be 1
 * @points: which must admit it still, likewise
 * @backend: for its estimates; no tensor is touched
 * @next: first prediction that is still to come
 * @inherited: what has been charged already, or NULL
 * @err: why not, or NULL
 *
 * As capkm_observe_validate(), with records and evidence of all operations.
 *
 * Return: 0; -EINVAL, -EOPNOTSUPP, -EDQUOT, -EOVERFLOW, errors of the backend's estimates
 */
CAPKM_API int capkm_intervene_validate(const struct capkm_observe_admitted *observed,
				const struct capkm_observe_discovery *discovery,
				const struct capkm_intervene_admitted *admitted,
				const struct capkm_intervene_discovery *points,
				const struct capkm_observe_backend *backend,
				uint64_t next,
				const struct capkm_usage *inherited,
				struct capkm_error *err);

/**
 * capkm_intervene_enable() - makes a plan part of a session
 * @session: session whose first step has not begun
 * @admitted: plan, copied, for the same request; one without operations changes nothing
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (there is one already, a step was begun, something has been charged,
 * another request), -EOPNOTSUPP (the session's backend changes no tensors), -ENOMEM,
 * errors of capkm_ledger_query()
 */
CAPKM_API int capkm_intervene_enable(struct capkm_observe *session,
				const struct capkm_intervene_admitted *admitted,
				struct capkm_error *err);
/* The session's plan, or NULL. */
CAPKM_API const struct capkm_intervene_admitted *
capkm_intervene_session_plan(const struct capkm_observe *session);

/**
 * capkm_intervene_tensor() - changes a tensor
 * @session: session
 * @path: of its point; that nobody targets is fine
 * @tensor: for the backend; it is not changed
 * @replacement: what is to be used in its place, the caller's; NULL: nothing
 * @err: why not, or NULL
 *
 * Operations that are due follow each other in the plan's order. The tensor must have been
 * shown before (capkm_observe_tensor()) if it is also observed before interventions.
 *
 * Return: 0; -EINVAL (no step, a second time in one step, another shape or dtype),
 * -EDQUOT (evidence), -EBUSY (its stream records), -ESTALE, -EOPNOTSUPP, -EIO, -ENOMEM:
 * there is no replacement; operations before the failing one stay applied in the records,
 * later ones stay missing
 */
CAPKM_API int capkm_intervene_tensor(struct capkm_observe *session,
				const char *path, const void *tensor,
				void **replacement, struct capkm_error *err);

/**
 * struct capkm_intervene_control - what a router is to do
 * @operation: what is asked for: its .action; the session's
 * @first_row: first row of tokens that it is for
 * @row_stride: distance of rows
 * @rows: how many; other rows are chosen as ever
 * @original: what would be chosen without it must be shown, too
 */
struct capkm_intervene_control {
	const struct capkm_intervene_operation *operation;
	uint64_t first_row;
	uint64_t row_stride;
	uint64_t rows;
	bool original;
};

/**
 * capkm_intervene_route() - what is a router to do
 * @session: session
 * @path: of its point; that nobody targets is fine
 * @rows: tokens that it will choose for
 * @control: what it is to do; .operation is NULL if that is nothing
 * @err: why not, or NULL
 *
 * If it is something, the runtime says what came of it, by capkm_intervene_routed() or
 * capkm_intervene_unrouted(), before it asks again. What showing the original choice costs
 * is charged here, before it is made; that it does not fit is an error also with
 * %CAPKM_ON_LIMIT_SKIP.
 *
 * Return: 0; as capkm_intervene_tensor()
 */
CAPKM_API int capkm_intervene_route(struct capkm_observe *session,
				const char *path, uint64_t rows,
				struct capkm_intervene_control *control,
				struct capkm_error *err);

/**
 * struct capkm_intervene_routes - what a router chose; tensors of [rows, top_k]
 * @sz: sizeof(struct capkm_intervene_routes)
 * @original_ids: experts that it would have chosen; NULL if that was not asked for
 * @original_coefficients: their coefficients
 * @ids: experts that it has chosen
 * @coefficients: their coefficients
 */
struct capkm_intervene_routes {
	size_t sz;
	const void *original_ids;
	const void *original_coefficients;
	const void *ids;
	const void *coefficients;
};

/* 0; as capkm_intervene_tensor(): the operation has failed */
CAPKM_API int capkm_intervene_routed(struct capkm_observe *session,
				const char *path,
				const struct capkm_intervene_routes *routes,
				struct capkm_error *err);
/* The router failed, for the reason that the record will have. 0; -EINVAL, -ENOMEM */
CAPKM_API int capkm_intervene_unrouted(struct capkm_observe *session,
				const char *path, const char *message,
				struct capkm_error *err);

/**
 * capkm_intervene_finish() - has the step done all that it was to do
 * @session: session
 * @err: the first operation that failed or is missing; .index says which
 *
 * For before capkm_observe_take_step(), which returns the records either way but, if this
 * is an error, leaves the session without a checkpoint. Changes nothing.
 *
 * Return: 0; -EINVAL
 */
CAPKM_API int capkm_intervene_finish(const struct capkm_observe *session,
				     struct capkm_error *err);

/* going on */

/**
 * struct capkm_intervene_opts - interventions of a session that goes on
 * @sz: sizeof(struct capkm_intervene_opts)
 * @session_id: name of the new session
 * @discovery: of the running model
 * @plan: what to change from there on; NULL: what the checkpoint has. One without
 *	operations: nothing any more
 */
struct capkm_intervene_opts {
	size_t sz;
	const char *session_id;
	const struct capkm_intervene_discovery *discovery;
	const struct capkm_intervene_plan *plan;
};

/**
 * capkm_intervene_resume() - capkm_observe_resume() with interventions
 * @c: as there
 * @checkpoint: as there
 * @discovery: as there
 * @backend: as there
 * @opts: to what its interventions are bound anew; or NULL, if it has none
 * @session: the session; untouched on error
 * @err: why not, or NULL
 *
 * Return: as there; errors of capkm_intervene_admit()
 */
CAPKM_API int capkm_intervene_resume(struct capkm *c,
				const struct capkm_observe_checkpoint *checkpoint,
				const struct capkm_observe_discovery *discovery,
				const struct capkm_observe_backend *backend,
				const struct capkm_intervene_opts *opts,
				struct capkm_observe **session,
				struct capkm_error *err);

/* Names in JSON; never NULL, static. "unknown" for other values. */
CAPKM_API const char *capkm_intervene_kind_name(uint32_t kind);
CAPKM_API const char *capkm_intervene_outcome_name(uint32_t kind);

#ifdef __cplusplus
}
#endif

#endif
