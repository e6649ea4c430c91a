/* SPDX-License-Identifier: MIT */
/* What the backends of lib/observe share. */
#ifndef CAPKM_LIB_OBSERVE_BACKEND_H
#define CAPKM_LIB_OBSERVE_BACKEND_H

#include "observe.h"

/* Fills @why, cut between characters, and returns @rc. */
__attribute__((format(printf, 4, 5)))
int capkm_observe_why(char *why, size_t size, int rc, const char *format, ...);

/* *@sum += @n * @each; false: it does not fit, and *@sum is as it was */
static inline bool capkm_observe_add(__u64 *sum, uint64_t n, uint64_t each)
{
	__u64 product, total;

	if (__builtin_mul_overflow(n, each, &product) ||
	    __builtin_add_overflow(*sum, product, &total))
		return false;
	*sum = total;
	return true;
}

/* Bytes of one element as it is stored; 0: there is no such dtype. */
uint32_t capkm_observe_dtype_bytes(uint32_t dtype);

/*
 * Bytes of a tensor. An extent of 0 does not hide that the others overflow. False: they do,
 * or it has more bytes than memory can have.
 */
bool capkm_observe_tensor_bytes(uint32_t dtype, const uint64_t *shape,
				uint32_t rank, uint64_t *bytes);

/* Is a tensor the one that the session has looked at? -EINVAL */
int capkm_observe_as_before(const struct capkm_observe_geometry *g,
			    uint32_t dtype, uint32_t rank,
			    const uint64_t *shape, char *why, size_t size);

/* Are the values themselves what is recorded? */
bool capkm_observe_gives_values(const struct capkm_observe_transform *transform);

/* Bytes of the payload's arrays. False: they do not fit into 64 bits. */
bool capkm_observe_arrays(const struct capkm_observe_geometry *g, __u64 *bytes);

/* What an estimate says that does not fit into 64 bits. -EOVERFLOW */
int capkm_observe_overflow(const struct capkm_observe_geometry *g, char *why,
			   size_t size);

#endif /* CAPKM_LIB_OBSERVE_BACKEND_H */
