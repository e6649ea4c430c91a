// SPDX-License-Identifier: MIT
/* What backends share: what an observation costs, from its geometry alone. */
#include "backend.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Most bytes of JSON, with the comma that follows. Of an f32: "-0.00000123456789,". */
#define JSON_PAYLOAD	512	/* names of the fields, and a summary's ten numbers */
#define JSON_F32	18
#define JSON_INTEGER	21
#define JSON_BOOL	6
#define JSON_CANDIDATE	(sizeof("{\"token_id\":4294967295,\"score\":},") + JSON_F32)

struct width {
	uint32_t stored, given, json;	/* bytes of one element */
};

static const struct width widths[] = {
	[CAPKM_DTYPE_F32] = { 4, 4, JSON_F32 },
	[CAPKM_DTYPE_F16] = { 2, 4, JSON_F32 },
	[CAPKM_DTYPE_BF16] = { 2, 4, JSON_F32 },
	[CAPKM_DTYPE_I64] = { 8, 8, JSON_INTEGER },
	[CAPKM_DTYPE_U64] = { 8, 8, JSON_INTEGER },
	[CAPKM_DTYPE_BOOL] = { 1, 1, JSON_BOOL },
};

/* Before there is a tensor: the widest of its class. */
static const struct width class_widths[] = {
	[CAPKM_CLASS_FLOATING] = { 4, 4, JSON_F32 },
	[CAPKM_CLASS_INTEGER] = { 8, 8, JSON_INTEGER },
	[CAPKM_CLASS_BOOLEAN] = { 1, 1, JSON_BOOL },
	[CAPKM_CLASS_UNKNOWN] = { 8, 8, JSON_INTEGER },
};

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

int capkm_observe_why(char *why, size_t size, int rc, const char *format, ...)
{
	char text[1024];
	va_list args;
	uint32_t len;

	if (!why || !size)
		return rc;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	len = capkm_cut(text, size - 1 < sizeof(text) ? size - 1 : sizeof(text));
	memcpy(why, text, len);
	why[len] = '\0';
	return rc;
}

uint32_t capkm_observe_dtype_bytes(uint32_t dtype)
{
	return dtype < LENGTH(widths) ? widths[dtype].stored : 0;
}

bool capkm_observe_tensor_bytes(uint32_t dtype, const uint64_t *shape,
				uint32_t rank, uint64_t *bytes)
{
	bool empty = false;
	uint32_t i;

	*bytes = capkm_observe_dtype_bytes(dtype);
	for (i = 0; i < rank; i++) {
		empty |= !shape[i];
		if (shape[i] && __builtin_mul_overflow(*bytes, shape[i], bytes))
			return false;
	}
	if (empty)
		*bytes = 0;
	return *bytes <= PTRDIFF_MAX;
}

static const struct width *width_of(const struct capkm_observe_geometry *g)
{
	const uint32_t class = g->point ? g->point->dtype : CAPKM_CLASS_UNKNOWN;

	if (capkm_observe_dtype_bytes(g->dtype))
		return &widths[g->dtype];
	return &class_widths[class < LENGTH(class_widths) ? class :
							    CAPKM_CLASS_UNKNOWN];
}

int capkm_observe_as_before(const struct capkm_observe_geometry *g,
			    uint32_t dtype, uint32_t rank,
			    const uint64_t *shape, char *why, size_t size)
{
	if (dtype == g->dtype && rank == g->rank &&
	    (!rank || !memcmp(shape, g->shape, rank * sizeof(*shape))))
		return 0;
	return capkm_observe_why(why, size, -EINVAL,
		"the tensor has another shape or dtype than before");
}

bool capkm_observe_gives_values(const struct capkm_observe_transform *t)
{
	return t->kind <= CAPKM_TRANSFORM_FULL_TENSOR;
}

uint64_t capkm_observe_emitted(const struct capkm_observe_geometry *g)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	if (t->kind == CAPKM_TRANSFORM_PREVIEW && t->max_elements < g->elements)
		return t->max_elements;
	return g->elements;
}

int capkm_observe_overflow(const struct capkm_observe_geometry *g, char *why,
			   size_t size)
{
	return capkm_observe_why(why, size, -EOVERFLOW,
		"what %" PRIu64 " values cost does not fit into 64 bits",
		g->elements);
}

/* A preview that is truncated has one axis. */
static uint32_t axes_of(const struct capkm_observe_geometry *g)
{
	return g->rank ? g->rank : 1;
}

bool capkm_observe_arrays(const struct capkm_observe_geometry *g, __u64 *bytes)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	*bytes = 0;
	if (capkm_observe_gives_values(t))
		return capkm_observe_add(bytes, axes_of(g), sizeof(uint64_t)) &&
		       capkm_observe_add(bytes, capkm_observe_emitted(g),
					 width_of(g)->given);
	/* The record has edges of its own once it is taken. */
	if (t->kind == CAPKM_TRANSFORM_HISTOGRAM)
		return capkm_observe_add(bytes, t->edges_len,
					 sizeof(float) + sizeof(uint64_t));
	if (t->kind == CAPKM_TRANSFORM_TOP_CANDIDATES)
		return capkm_observe_add(bytes, t->count,
					 sizeof(struct capkm_observe_candidate));
	return true;
}

/* What the payload has beside its fixed part. */
static bool json_of(const struct capkm_observe_geometry *g, __u64 *bytes)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	if (capkm_observe_gives_values(t))
		return capkm_observe_add(bytes, axes_of(g), JSON_INTEGER) &&
		       capkm_observe_add(bytes, capkm_observe_emitted(g),
					 width_of(g)->json);
	if (t->kind == CAPKM_TRANSFORM_HISTOGRAM)
		return capkm_observe_add(bytes, t->edges_len,
					 JSON_F32 + JSON_INTEGER);
	if (t->kind == CAPKM_TRANSFORM_TOP_CANDIDATES)
		return capkm_observe_add(bytes, t->count, JSON_CANDIDATE);
	return true;
}

int capkm_observe_estimate(const struct capkm_observe_geometry *g,
			   struct capkm_usage *usage, char *why, size_t size)
{
	const struct capkm_observe_transform *t = &g->selection->transform;
	struct capkm_usage u = {
		.captures = 1,
		.encoded_bytes = JSON_PAYLOAD,
	};

	if (t->kind > CAPKM_TRANSFORM_TOP_CANDIDATES)
		return capkm_observe_why(why, size, -EOPNOTSUPP,
			"transform %" PRIu32 " is not known", t->kind);
	if (t->kind == CAPKM_TRANSFORM_TOP_CANDIDATES && g->rank &&
	    g->selected[g->rank - 1] > 1ull << 32)
		return capkm_observe_why(why, size, -EOVERFLOW,
			"%" PRIu64 " candidates are more than 32 bits can number",
			g->selected[g->rank - 1]);
	if (!capkm_observe_arrays(g, &u.host_bytes) ||
	    !capkm_observe_add(&u.host_bytes, 1,
			       sizeof(struct capkm_observe_payload)) ||
	    !json_of(g, &u.encoded_bytes))
		return capkm_observe_overflow(g, why, size);
	*usage = u;
	return 0;
}
