/* SPDX-License-Identifier: MIT */
/* What becomes of the selected values of a tensor in host memory. */
#ifndef CAPKM_LIB_OBSERVE_REDUCE_H
#define CAPKM_LIB_OBSERVE_REDUCE_H

#include "backend.h"

/* @n values, of any alignment, as f32. */
void capkm_values_as_f32(uint32_t dtype, const void *values, uint64_t n,
			 float *out);

/* A payload that is being made. It allocates nothing. */
struct capkm_reduction {
	const struct capkm_observe_transform *transform;
	struct capkm_observe_payload *payload;
	uint32_t dtype;		/* of the values, as they are stored */
	uint32_t room;		/* for candidates */
	uint64_t taken;		/* values */
	double sum, squares;	/* of those that are finite */
};

/*
 * Begins. The payload has its arrays, with their lengths; what the transform does not give
 * is left as it is.
 */
void capkm_reduce_begin(struct capkm_reduction *r,
			const struct capkm_observe_transform *transform,
			uint32_t dtype, struct capkm_observe_payload *payload);
/* The next @n values, in order, of any alignment. */
void capkm_reduce_take(struct capkm_reduction *r, const void *values, uint64_t n);
void capkm_reduce_end(struct capkm_reduction *r);

#endif /* CAPKM_LIB_OBSERVE_REDUCE_H */
