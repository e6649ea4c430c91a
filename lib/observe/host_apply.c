// SPDX-License-Identifier: MIT
/*
 * Actions on tensors in host memory: a copy is made, and what is selected of it is
 * changed. Sums and products are rounded once, to nearest, ties to even.
 */
#include "host.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is given away: the tensor with its shape and its values. */
struct made {
	struct capkm_observe_host_tensor t;
	uint64_t shape[CAPKM_OBSERVE_RANK];
	max_align_t values[];
};

/* of 16 bits */

struct layout {
	int fraction;			/* bits */
	int least;			/* exponent of what a subnormal counts */
	uint16_t infinity;
};

static const struct layout f16 = { 10, -24, 0x7c00 };
static const struct layout bf16 = { 7, -133, 0x7f80 };

/*
 * What is counted is units of the last place, which a double has room for. Counting
 * goes on over the exponents: the next one begins where the last one ends.
 */
static uint16_t narrow(double value, const struct layout *l)
{
	const uint16_t sign = signbit(value) ? 0x8000 : 0;
	double units;
	int exponent, shift = l->least;

	if (isnan(value))
		return sign | l->infinity | 1u << (l->fraction - 1);
	if (isinf(value))
		return sign | l->infinity;
	if (value == 0)
		return sign;
	frexp(value, &exponent);
	if (exponent - 1 - l->fraction > shift)
		shift = exponent - 1 - l->fraction;
	units = nearbyint(ldexp(fabs(value), -shift));
	units += (double)(shift - l->least) * (1 << l->fraction);
	return sign | (units < l->infinity ? (uint16_t)units : l->infinity);
}

/* one value */

struct work {
	const struct capkm_observe_geometry *g;
	const struct capkm_intervene_action *action;
	char *values;			/* of the new tensor */
	uint32_t element;		/* bytes */
};

static double value_at(const struct work *w, const void *value)
{
	float f;

	capkm_values_as_f32(w->g->dtype, value, 1, &f);
	return (double)f;
}

/* In double a product of two f32 is exact, and a sum as good as that. */
static void put(const struct work *w, void *at, double value)
{
	const float f = (float)value;
	uint16_t bits;

	if (w->g->dtype == CAPKM_DTYPE_F32) {
		memcpy(at, &f, sizeof(f));
		return;
	}
	bits = narrow(value, w->g->dtype == CAPKM_DTYPE_F16 ? &f16 : &bf16);
	memcpy(at, &bits, sizeof(bits));
}

/* The @k-th of those that are selected. */
static void act(const struct work *w, char *at, uint64_t k)
{
	const struct capkm_intervene_action *a = w->action;
	const char *given = (const char *)a->values.any + k * w->element;

	switch (a->kind) {
	case CAPKM_ACTION_ZERO:
		memset(at, 0, w->element);
		break;
	case CAPKM_ACTION_MASK:
		if (!a->keep[k])
			memset(at, 0, w->element);
		break;
	case CAPKM_ACTION_REPLACE:
		memcpy(at, given, w->element);
		break;
	case CAPKM_ACTION_SCALE:
		put(w, at, value_at(w, at) * (double)(float)a->factor);
		break;
	case CAPKM_ACTION_ADD:
		put(w, at, value_at(w, at) + value_at(w, given));
		break;
	default:
		put(w, at, -INFINITY);
	}
}

/* those that are selected */

/* Row-major, as values of an action are. */
static void act_on_all(const struct work *w, const struct capkm_observe_geometry *g)
{
	uint64_t index[CAPKM_OBSERVE_RANK] = { 0 };
	uint64_t k, at, pitch;
	uint32_t i;

	for (k = 0; k < g->elements; k++) {
		for (at = 0, pitch = 1, i = g->rank; i--; pitch *= g->shape[i])
			at += (g->starts[i] + index[i] * g->strides[i]) * pitch;
		act(w, w->values + at * w->element, k);
		for (i = g->rank; i-- && ++index[i] == g->selected[i];)
			index[i] = 0;
	}
}

/* Of the vocabulary only the tokens that are named. */
static void act_on_tokens(const struct work *w)
{
	struct capkm_observe_geometry g = *w->g;
	uint32_t axis, i;

	for (axis = 0; axis < g.rank; axis++)
		if (!strcmp(g.point->axes[axis].name, "vocabulary"))
			break;
	if (axis == g.rank || !g.elements)
		return;
	g.elements /= g.selected[axis];
	g.selected[axis] = 1;
	for (i = 0; i < w->action->ids_len; i++) {
		g.starts[axis] = w->action->ids[i];
		act_on_all(w, &g);
	}
}

static int copy_of(const void *tensor, const struct capkm_observe_geometry *g,
		   struct made **out, char *why, size_t size)
{
	struct host_tensor from;
	struct made *made;
	int rc = host_look(tensor, &from, why, size);

	if (!rc)
		rc = host_is(&from, g, why, size);
	if (rc)
		return rc;
	made = malloc(sizeof(*made) + from.bytes);
	if (!made)
		return capkm_observe_why(why, size, -ENOMEM, "out of memory");
	*made = (struct made){
		.t = {
			.sz = sizeof(made->t), .dtype = g->dtype,
			.rank = g->rank, .shape = made->shape,
			.data = made->values,
		},
	};
	memcpy(made->shape, g->shape, sizeof(made->shape));
	if (from.bytes)
		rc = host_bytes(&from, 0, from.bytes, made->values, why, size);
	if (rc)
		free(made);
	else
		*out = made;
	return rc;
}

int host_apply(void *context, const void *tensor,
	       const struct capkm_observe_geometry *g,
	       const struct capkm_intervene_action *action, void **out,
	       char *why, size_t size)
{
	struct work w = {
		.g = g, .action = action,
		.element = capkm_observe_dtype_bytes(g->dtype),
	};
	struct made *made = NULL;
	int rc;

	(void)context;
	if (action->kind > CAPKM_ACTION_MASK_LOGITS ||
	    g->dtype < CAPKM_DTYPE_F32 || g->dtype > CAPKM_DTYPE_BF16)
		return capkm_observe_why(why, size, -EOPNOTSUPP,
			"action %" PRIu32 " on a tensor of dtype %" PRIu32 " is not supported",
			action->kind, g->dtype);
	rc = copy_of(tensor, g, &made, why, size);
	if (rc)
		return rc;
	w.values = (char *)made->values;
	if (action->kind == CAPKM_ACTION_MASK_LOGITS)
		act_on_tokens(&w);
	else
		act_on_all(&w, g);
	*out = made;
	return 0;
}

void host_release(void *context, void *tensor)
{
	(void)context;
	free(tensor);
}

/* An id of 64 bits and a coefficient for each choice. */
int host_estimate_routes(void *context,
			 const struct capkm_intervene_point *point,
			 uint64_t rows, struct capkm_usage *usage, char *why,
			 size_t size)
{
	uint64_t choices;

	(void)context;
	if (!__builtin_mul_overflow(rows, point->routing->top_k, &choices) &&
	    capkm_observe_add(&usage->host_bytes, choices,
			      sizeof(uint64_t) + sizeof(float)))
		return 0;
	return capkm_observe_why(why, size, -EOVERFLOW,
		"the choices of %" PRIu64 " rows do not fit into 64 bits", rows);
}
