/* SPDX-License-Identifier: MIT */
/* Tensors in host memory, for the files of their backend. */
#ifndef CAPKM_LIB_OBSERVE_HOST_H
#define CAPKM_LIB_OBSERVE_HOST_H

#include <capkm/intervene.h>
#include <capkm/observe_host.h>

#include "reduce.h"

/* A tensor that was looked at: its range, if it has one, is its bytes and no more. */
struct host_tensor {
	struct capkm_observe_host_tensor t;
	uint64_t bytes;
};

int host_look(const void *tensor, struct host_tensor *t, char *why, size_t size);
/* Has it the geometry's shape and dtype? */
int host_is(const struct host_tensor *t, const struct capkm_observe_geometry *g,
	    char *why, size_t size);
/* Some of its bytes. */
int host_bytes(const struct host_tensor *from, uint64_t start, uint64_t bytes,
	       void *to, char *why, size_t size);

/* host_apply.c: of the backend */

int host_apply(void *context, const void *tensor,
	       const struct capkm_observe_geometry *geometry,
	       const struct capkm_intervene_action *action, void **out,
	       char *why, size_t size);
void host_release(void *context, void *tensor);
int host_estimate_routes(void *context,
			 const struct capkm_intervene_point *point,
			 uint64_t rows, struct capkm_usage *usage, char *why,
			 size_t size);

#endif /* CAPKM_LIB_OBSERVE_HOST_H */
