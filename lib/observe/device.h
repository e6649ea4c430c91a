/* SPDX-License-Identifier: MIT */
/* What the files of the backend of CUDA's tensors know of each other. */
#ifndef CAPKM_LIB_OBSERVE_DEVICE_H
#define CAPKM_LIB_OBSERVE_DEVICE_H

#include <capkm/observe_cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "backend.h"
#include "cuda/driver.h"
#include "cuda_kernels.h"

#define MAX_BINS 4096u
#define MAX_BLOCKS 256u		/* of a reduction */

/* X(name): each is the CUfunction capkm_@name of the module */
#define KERNELS(X)							\
	X(gather) X(summary) X(summary_end) X(zero) X(histogram) X(candidates)

#define KERNEL_MEMBER(name) cu_function name;
struct capkm_observe_cuda {
	struct capkm_observe_backend backend;
	struct capkm_cuda *bridge;
	pid_t pid;			/* CUDA does not survive a fork */
	struct cu_driver cu;		/* a table of its own: the bridge's is not to be seen */
	cu_context context;
	void *module;			/* NULL: slices by copies */
	KERNELS(KERNEL_MEMBER)
	char condition[256];		/* why there are no kernels */
	const char *conditions[1];
	uint64_t staging, staging_bytes;
	/*
	 * Whoever has it uses the staging memory, and waits for the device with it. Taken
	 * before anything of the bridge, which takes its own.
	 */
	pthread_mutex_t lock;
	bool unsettled;			/* work that uses it may run, ... */
	cu_stream unsettled_on;		/* ... there */
	/* As in struct capkm_observe_cuda_query; changed with the lock, read without. */
	_Atomic uint64_t observations, launches, copies, copied_bytes,
			 uploaded_bytes, moved_bytes, staging_used;
};
#undef KERNEL_MEMBER

/* The module's PTX, a text. */
extern const char capkm_observe_ptx[];

/* A tensor that was looked at: nothing but its struct. */
struct device_tensor {
	struct capkm_observe_cuda_tensor t;
	uint64_t bytes;
};

/* One observation, with the lock, its context current. */
struct device_job {
	struct capkm_observe_cuda *o;
	const struct device_tensor *tensor;
	const struct capkm_observe_geometry *g;
	struct view view;
	struct capkm_observe_payload *payload;
	struct capkm_error *err;
};

/*
 * Elements of @g of @bytes each, from @address on; of candidates the last row. Nothing
 * but numbers: there need be no tensor.
 */
void capkm_device_view(const struct capkm_observe_geometry *g, uint64_t address,
		       uint32_t bytes, struct view *view);
/*
 * Bytes of the staging memory that an observation uses. -EOPNOTSUPP: it has not as many.
 * @bytes: of an element
 */
int capkm_device_staging(const struct capkm_observe_cuda *o,
			 const struct capkm_observe_geometry *g, uint32_t bytes,
			 uint64_t *used, char *why, size_t size);
/*
 * Waits for what an observation has issued that failed before it was waited for. With the
 * lock, the context current.
 */
int capkm_device_settle(struct capkm_observe_cuda *o, struct capkm_error *err);
/* There is something selected. The errnos and texts are the bridge's. */
int capkm_device_observe(struct device_job *job);

#endif /* CAPKM_LIB_OBSERVE_DEVICE_H */
