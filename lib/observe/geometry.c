// SPDX-License-Identifier: MIT
#include "observe.h"

#include <inttypes.h>
#include <string.h>

int extent(const struct capkm_observe_dimension *dimension,
	   const struct capkm_observe_request *request, uint32_t phase,
	   uint64_t prediction, bool *known, uint64_t *value, struct fault *f)
{
	const uint64_t sequence = phase == CAPKM_PREFILL ?
				  request->prompt_tokens : 1;
	bool overflow = false;

	*known = true;
	switch (dimension->kind) {
	case CAPKM_EXTENT_KNOWN:
		*value = dimension->value;
		break;
	case CAPKM_EXTENT_BATCH:
		*value = request->batch;
		break;
	case CAPKM_EXTENT_SEQUENCE:
		*value = sequence;
		break;
	case CAPKM_EXTENT_TOKEN_ROWS:
		overflow = __builtin_mul_overflow(request->batch, sequence, value);
		break;
	case CAPKM_EXTENT_CONTEXT:
		overflow = __builtin_add_overflow(request->prompt_tokens,
						  prediction, value);
		break;
	default:
		*known = false;
		*value = 0;
	}
	return overflow ? fault(f, -EOVERFLOW, "an extent does not fit into 64 bits") :
			  0;
}

/* Also those of nothing must fit: an extent of 0 hides no other. */
int elements(const uint64_t *extents, uint32_t rank, uint64_t *n,
	     struct fault *f)
{
	bool empty = false;
	uint64_t product = 1;
	uint32_t i;

	for (i = 0; i < rank; i++) {
		if (!extents[i])
			empty = true;
		else if (__builtin_mul_overflow(product, extents[i], &product))
			return fault(f, -EOVERFLOW, "the elements of a shape do not fit into 64 bits");
	}
	*n = empty ? 0 : product;
	return 0;
}

int resolve(const struct capkm_observe_point *point,
	    const struct capkm_observe_request *request, uint32_t phase,
	    uint64_t prediction, bool *known, struct shape *shape,
	    struct fault *f)
{
	uint64_t n;
	uint32_t i;
	int rc;

	*known = point->axes != NULL;
	shape->rank = point->axes_len;
	for (i = 0; *known && i < point->axes_len; i++) {
		rc = extent(&point->axes[i].dimension, request, phase,
			    prediction, known, &shape->extents[i], f);
		if (rc)
			return rc;
	}
	return *known ? elements(shape->extents, shape->rank, &n, f) : 0;
}

int validate_actual(const struct capkm_observe_point *point,
		    const struct capkm_observe_request *request, uint32_t phase,
		    uint64_t prediction, const struct shape *shape,
		    struct fault *f)
{
	uint64_t n, expected;
	uint32_t i;
	bool known;
	int rc;

	if (!point->axes && shape->rank > CAPKM_OBSERVE_RANK)
		return fault(f, -EOPNOTSUPP, "the tensor has %" PRIu32 " axes; at most %u are supported",
			     shape->rank, CAPKM_OBSERVE_RANK);
	if (point->axes && shape->rank != point->axes_len)
		return fault(f, -EINVAL, "the tensor has %" PRIu32 " axes; its point has %" PRIu32,
			     shape->rank, point->axes_len);
	for (i = 0; point->axes && i < shape->rank; i++) {
		rc = extent(&point->axes[i].dimension, request, phase,
			    prediction, &known, &expected, f);
		if (rc)
			return rc;
		if (known && shape->extents[i] != expected)
			return fault(f, -EINVAL, "axis '%.60s' of the tensor is %" PRIu64 ", expected %" PRIu64,
				     point->axes[i].name, shape->extents[i],
				     expected);
	}
	return elements(shape->extents, shape->rank, &n, f);
}

int find_axis(const struct capkm_observe_point *point, const char *name)
{
	uint32_t i;

	for (i = 0; point->axes && i < point->axes_len; i++)
		if (!strcmp(point->axes[i].name, name))
			return (int)i;
	return -1;
}

static int resolve_slice(const struct capkm_observe_point *point,
			 const struct capkm_observe_slice *slice,
			 struct capkm_observe_geometry *g, struct fault *f)
{
	const int axis = find_axis(point, slice->axis);
	uint64_t n;

	if (axis < 0)
		return fault(f, -EINVAL, "the point '%.60s' has no axis '%.60s'",
			     point->path, slice->axis);
	if (!slice->stride || slice->start > slice->end)
		return fault(f, -EINVAL, "the slice of axis '%.60s' needs a stride above 0, and an end that is not below its start",
			     slice->axis);
	if (slice->end > g->shape[axis])
		return fault(f, -EINVAL, "the slice of axis '%.60s' ends at %" PRIu64 ", the axis at %" PRIu64,
			     slice->axis, slice->end, g->shape[axis]);
	n = slice->end - slice->start;
	g->starts[axis] = slice->start;
	g->strides[axis] = slice->stride;
	g->selected[axis] = n / slice->stride + !!(n % slice->stride);
	return 0;
}

int resolve_slices(const struct capkm_observe_point *point,
		   const struct capkm_observe_selection *selection,
		   const struct shape *shape,
		   struct capkm_observe_geometry *g, struct fault *f)
{
	uint32_t i;
	int rc;

	if (point->axes && point->axes_len != shape->rank)
		return fault(f, -EINVAL, "the tensor has %" PRIu32 " axes; its point has %" PRIu32,
			     shape->rank, point->axes_len);
	*g = (struct capkm_observe_geometry){
		.selection = selection,
		.point = point,
		.rank = shape->rank,
	};
	for (i = 0; i < shape->rank; i++) {
		g->shape[i] = g->selected[i] = shape->extents[i];
		g->strides[i] = 1;
	}
	for (i = 0; i < selection->slices_len; i++) {
		rc = resolve_slice(point, &selection->slices[i], g, f);
		if (rc)
			return rc;
	}
	return elements(g->selected, g->rank, &g->elements, f);
}
