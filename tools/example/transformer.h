/* SPDX-License-Identifier: MIT */
#ifndef TRANSFORMER_H
#define TRANSFORMER_H

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>

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
