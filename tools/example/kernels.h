/* SPDX-License-Identifier: MIT */
#ifndef KERNELS_H
#define KERNELS_H

#include <capkm/host.h>

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

#endif /* KERNELS_H */
