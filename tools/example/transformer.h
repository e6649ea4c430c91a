/* SPDX-License-Identifier: MIT */
#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include <capkm/host.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * What a function cannot tell from its grid and the sizes of its arguments. It is
 * copied by the launch, so that a graph does not depend on the caller's memory.
 */
struct shape {
	uint32_t tokens;
	uint32_t width;
	uint32_t heads;
	uint32_t layers;
};

/* kernels.c: the functions that are launched */
enum kernel {
	LAYER_NORM, LINEAR, SCORES, SOFTMAX, MIX, GELU, ADD, BROKEN_GELU, KERNELS,
};

extern const struct capkm_host_kernel kernels[KERNELS];

/* The weights of a layer are one memory; a launch names the part that it reads. */
enum part { NORM1, QKV, PROJECTION, NORM2, UP, DOWN, PARTS };

/* reference.c: what comes out of a layer of these weights, in place of what went in */
void reference_layer(const struct shape *shape, const size_t parts[PARTS + 1],
		     const float *weights, double *x);

static inline void *allocated(void *p)
{
	if (!p) {
		fprintf(stderr, "transformer: out of memory\n");
		exit(1);
	}
	return p;
}

#endif /* TRANSFORMER_H */
