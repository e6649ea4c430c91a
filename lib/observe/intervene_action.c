// SPDX-License-Identifier: MIT
/* Actions: what they carry, and what they may be used on. */
#include "intervene.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define F16_MAX		65504.0
#define BF16_MAX	0x1.fep127
#define F16_EXPONENT	0x7c00u
#define BF16_EXPONENT	0x7f80u

uint32_t dtype_of(const struct capkm_intervene_action *a)
{
	return a->kind == CAPKM_ACTION_REPLACE || a->kind == CAPKM_ACTION_ADD ?
	       a->values.dtype : a->dtype;
}

int point_axis(const struct capkm_intervene_point *point, const char *name)
{
	uint32_t i;

	for (i = 0; i < point->axes_len; i++)
		if (!strcmp(point->axes[i].name, name))
			return (int)i;
	return -1;
}

uint64_t payload_of(const struct capkm_intervene_action *a)
{
	const uint64_t rank = 8 * (uint64_t)a->shape_len;

	switch (a->kind) {
	case CAPKM_ACTION_REPLACE:
	case CAPKM_ACTION_ADD:
		return rank + (uint64_t)a->values.len *
			      (a->values.dtype == CAPKM_DTYPE_F32 ? 4 : 2);
	case CAPKM_ACTION_MASK:
		return rank + a->keep_len;
	case CAPKM_ACTION_BIAS_ROUTING_SCORES:
		return 4 * ((uint64_t)a->ids_len + a->biases_len);
	case CAPKM_ACTION_ZERO:
	case CAPKM_ACTION_SCALE:
		return 0;
	default:
		return 4 * (uint64_t)a->ids_len;
	}
}

/* values */

static bool is_finite(const struct capkm_intervene_values *v, uint32_t i)
{
	const unsigned int exponent = v->dtype == CAPKM_DTYPE_F16 ?
				      F16_EXPONENT : BF16_EXPONENT;

	if (v->dtype == CAPKM_DTYPE_F32)
		return isfinite(v->f32[i]);
	return (v->bits[i] & exponent) != exponent;
}

static int check_count(const struct capkm_intervene_action *a, uint32_t len,
		       struct fault *f)
{
	uint64_t n;
	int rc = elements(a->shape, a->shape_len, &n, f);

	if (rc || n == len)
		return rc;
	return fault(f, -EINVAL, "%" PRIu32 " values for a shape of %" PRIu64,
		     len, n);
}

static int check_values(const struct capkm_intervene_action *a, struct fault *f)
{
	uint32_t i;

	for (i = 0; i < a->values.len; i++)
		if (!is_finite(&a->values, i))
			return fault(f, -EINVAL, "value %" PRIu32 " is not finite", i);
	return check_count(a, a->values.len, f);
}

static int check_factor(const struct capkm_intervene_action *a, struct fault *f)
{
	const double most = a->dtype == CAPKM_DTYPE_F32 ? FLT_MAX :
			    a->dtype == CAPKM_DTYPE_F16 ? F16_MAX : BF16_MAX;

	return isfinite(a->factor) && fabs(a->factor) <= most ? 0 :
	       fault(f, -EINVAL, "the factor is not finite, or beyond what a %s can be",
		     type_dtype.names[a->dtype]);
}

/* lists of tokens and experts */

static int compare(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Sorted, for free(3). None of them is twice. */
static int sort_ids(const uint32_t *ids, uint32_t len, uint32_t **out,
		    struct fault *f)
{
	uint32_t *sorted, i;

	if (!len)
		return fault(f, -EINVAL, "there must be ids");
	sorted = malloc(len * sizeof(*sorted));
	if (!sorted)
		return fault_no_memory(f);
	memcpy(sorted, ids, len * sizeof(*sorted));
	qsort(sorted, len, sizeof(*sorted), compare);
	for (i = 1; i < len; i++)
		if (sorted[i] == sorted[i - 1]) {
			fault(f, -EINVAL, "id %" PRIu32 " is given twice",
			      sorted[i]);
			free(sorted);
			return f->rc;
		}
	*out = sorted;
	return 0;
}

static int check_below(uint32_t id, uint64_t end, struct fault *f)
{
	return id < end ? 0 :
	       fault(f, -EINVAL, "id %" PRIu32 " of %" PRIu64, id, end);
}

static int check_tokens(const struct capkm_intervene_action *a, struct fault *f)
{
	uint32_t *sorted;
	int rc = sort_ids(a->ids, a->ids_len, &sorted, f);

	if (!rc)
		free(sorted);
	return rc;
}

/* Makes of sorted experts how many are in each group that has some; how many groups. */
static uint32_t count_groups(uint32_t *sorted, uint32_t len, uint32_t size)
{
	uint32_t groups = 0, group = 0, i;

	for (i = 0; i < len; i++) {
		if (i && sorted[i] / size == group) {
			sorted[groups - 1]++;
			continue;
		}
		group = sorted[i] / size;
		sorted[groups++] = 1;
	}
	return groups;
}

/*
 * Whichever groups are selected, they must have top_k experts between them: also those
 * of which most are excluded.
 */
static int check_rest(const struct capkm_intervene_routing *r, uint32_t *excluded,
		      uint32_t len, struct fault *f)
{
	const uint32_t size = r->expert_count / r->groups;
	uint64_t rest = (uint64_t)size * r->selected_groups;
	uint32_t groups, n;

	groups = count_groups(excluded, len, size);
	qsort(excluded, groups, sizeof(*excluded), compare);
	for (n = 0; n < groups && n < r->selected_groups; n++)
		rest -= excluded[groups - 1 - n];
	return len <= r->expert_count - r->top_k && rest >= r->top_k ? 0 :
	       fault(f, -EINVAL, "fewer than top_k %" PRIu32 " experts may be left in the groups that are selected",
		     r->top_k);
}

static int check_experts(const struct capkm_intervene_action *a,
			 const struct capkm_intervene_routing *r,
			 struct fault *f)
{
	uint32_t *sorted;
	int rc = sort_ids(a->ids, a->ids_len, &sorted, f);

	if (rc)
		return rc;
	rc = check_below(sorted[a->ids_len - 1], r->expert_count, f);
	if (!rc && a->kind == CAPKM_ACTION_EXCLUDE_EXPERTS)
		rc = check_rest(r, sorted, a->ids_len, f);
	free(sorted);
	return rc;
}

static int check_biases(const struct capkm_intervene_action *a,
			const struct capkm_intervene_point *point,
			struct fault *f)
{
	uint32_t i;

	for (i = 0; i < point->score_stages_len; i++)
		if (point->score_stages[i] == a->stage)
			break;
	if (i == point->score_stages_len)
		return fault(f, -EOPNOTSUPP, "'%.60s' has no scores '%s' that can be biased",
			     point->path, type_scores.names[a->stage]);
	if (a->biases_len != a->ids_len)
		return fault(f, -EINVAL, "%" PRIu32 " biases for %" PRIu32 " ids",
			     a->biases_len, a->ids_len);
	for (i = 0; i < a->biases_len; i++)
		if (!isfinite(a->biases[i]))
			return fault(f, -EINVAL, "bias %" PRIu32 " is not finite", i);
	return check_experts(a, point->routing, f);
}

static int check_row(const uint32_t *row, const struct capkm_intervene_routing *r,
		     struct fault *f)
{
	uint32_t *sorted, groups;
	int rc = sort_ids(row, r->top_k, &sorted, f);

	if (rc)
		return rc;
	rc = check_below(sorted[r->top_k - 1], r->expert_count, f);
	if (!rc) {
		groups = count_groups(sorted, r->top_k,
				      r->expert_count / r->groups);
		if (groups > r->selected_groups)
			rc = fault(f, -EINVAL, "a row of experts in %" PRIu32 " groups, of which %" PRIu32 " are selected",
				   groups, r->selected_groups);
	}
	free(sorted);
	return rc;
}

static int check_rows(const struct capkm_intervene_action *a,
		      const struct capkm_intervene_routing *r, struct fault *f)
{
	uint32_t i;
	int rc;

	if (a->shape_len != 2 || !a->shape[0] || a->shape[1] != r->top_k)
		return fault(f, -EINVAL, "the shape of forced experts must be rows and top_k %" PRIu32,
			     r->top_k);
	rc = check_count(a, a->ids_len, f);
	for (i = 0; !rc && i < a->ids_len; i += r->top_k)
		rc = check_row(a->ids + i, r, f);
	return rc;
}

int action_check(const struct capkm_intervene_action *a,
		 const struct capkm_intervene_point *point, struct fault *f)
{
	switch (a->kind) {
	case CAPKM_ACTION_ZERO:
		return 0;
	case CAPKM_ACTION_SCALE:
		return check_factor(a, f);
	case CAPKM_ACTION_MASK:
		return check_count(a, a->keep_len, f);
	case CAPKM_ACTION_REPLACE:
	case CAPKM_ACTION_ADD:
		return check_values(a, f);
	case CAPKM_ACTION_MASK_LOGITS:
		return check_tokens(a, f);
	case CAPKM_ACTION_BIAS_ROUTING_SCORES:
		return check_biases(a, point, f);
	case CAPKM_ACTION_FORCE_EXPERTS:
		return check_rows(a, point->routing, f);
	default:
		return check_experts(a, point->routing, f);
	}
}

/* geometry */

static int fits_shape(const struct capkm_intervene_action *a,
		      const struct capkm_intervene_point *point,
		      const struct region *r, struct fault *f)
{
	uint32_t i;

	if (a->shape_len != point->axes_len)
		return fault(f, -EINVAL, "the values have %" PRIu32 " axes; '%.60s' has %" PRIu32,
			     a->shape_len, point->path, point->axes_len);
	for (i = 0; i < a->shape_len; i++)
		if (r->selected_known & (1u << i) &&
		    r->selected[i] != a->shape[i])
			return fault(f, -EINVAL, "the values have %" PRIu64 " on axis '%.60s', where %" PRIu64 " are selected",
				     a->shape[i], point->axes[i].name,
				     r->selected[i]);
	return 0;
}

static int fits_vocabulary(const struct capkm_intervene_action *a,
			   const struct capkm_intervene_point *point,
			   const struct region *r, struct fault *f)
{
	const int axis = point_axis(point, "vocabulary");
	uint32_t i;
	int rc = 0;

	if (axis < 0)
		return fault(f, -EINVAL, "'%.60s' has no axis 'vocabulary'",
			     point->path);
	if (!(r->full_known & (1u << axis)))
		return 0;
	for (i = 0; !rc && i < a->ids_len; i++)
		rc = check_below(a->ids[i], r->full[axis], f);
	if (!rc && a->ids_len >= r->full[axis])
		rc = fault(f, -EINVAL, "no token would be left");
	return rc;
}

static int fits_rows(const struct capkm_intervene_action *a,
		     const struct capkm_intervene_point *point,
		     const struct region *r, struct fault *f)
{
	const int axis = point_axis(point, "token");

	if (!(r->selected_known & (1u << axis)) ||
	    r->selected[axis] == a->shape[0])
		return 0;
	return fault(f, -EINVAL, "experts for %" PRIu64 " rows, where %" PRIu64 " are selected",
		     a->shape[0], r->selected[axis]);
}

int action_fits(const struct capkm_intervene_action *a,
		const struct capkm_intervene_point *point,
		const struct region *region, struct fault *f)
{
	switch (a->kind) {
	case CAPKM_ACTION_MASK:
	case CAPKM_ACTION_REPLACE:
	case CAPKM_ACTION_ADD:
		return fits_shape(a, point, region, f);
	case CAPKM_ACTION_MASK_LOGITS:
		return fits_vocabulary(a, point, region, f);
	case CAPKM_ACTION_FORCE_EXPERTS:
		return fits_rows(a, point, region, f);
	default:
		return 0;
	}
}
