/* SPDX-License-Identifier: MIT */
/*
 * libcapkm-observe: tensors in device memory that a bridge to CUDA knows.
 */
#ifndef CAPKM_OBSERVE_CUDA_H
#define CAPKM_OBSERVE_CUDA_H

#include <capkm/cuda.h>
#include <capkm/observe.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: Tensors of CUDA
 *
 * What is selected is gathered, and statistics are computed, on the device, so that
 * nothing else crosses the bus. For that a backend has kernels, as PTX for compute
 * capability 6.0 and up, and staging memory on the device; both are made when it is
 * created, and an observation allocates nothing.
 *
 * An observation runs on the tensor's stream, through the bridge: it reads what the
 * authority says can be trusted, before and after the copy, and it waits for the stream.
 * While the stream records nothing is done (-EBUSY), also if another thread begins a
 * capture there meanwhile; no capture is broken, no window doomed.
 *
 * Where the driver cannot load the kernels (no compiler for PTX, another architecture),
 * slices are gathered by one copy on the device for each run of adjacent bytes, and there
 * are no summaries, histograms and top candidates: the capabilities say so, and why.
 *
 * Values are counted as f32, integers rounded to nearest. All results are those of tensors
 * in host memory (capkm/observe_host.h), but for the sums behind mean and root mean square:
 * they are added up in double precision in another order, which depends on the number of
 * values alone. With n values either is off by less than n * 2^-53 times the sum of their
 * magnitudes, or squares.
 *
 * Charged are, beyond what observations of host tensors are charged for the payload: as
 * retained, the part of the staging memory that is used. No other copy is made in host
 * memory. At most 4096 bins of a histogram, and as many candidates as eight bytes each fit
 * into the staging memory.
 */

struct capkm_observe_cuda;

/**
 * struct capkm_observe_cuda_tensor - a tensor in device memory
 * @sz: sizeof(struct capkm_observe_cuda_tensor)
 * @dtype: enum capkm_observe_dtype, not %CAPKM_DTYPE_UNKNOWN
 * @rank: length of @shape, at most %CAPKM_OBSERVE_RANK; 0: one value
 * @shape: extents
 * @address: of the values, in the order of C and without gaps, aligned to one; in memory
 *	that the bridge knows. Of no values any
 * @stream: bound stream that they are ordered with, of the context that the backend was
 *	created in
 */
struct capkm_observe_cuda_tensor {
	size_t sz;
	uint32_t dtype;
	uint32_t rank;
	const uint64_t *shape;
	uint64_t address;
	struct CUstream_st *stream;
};

/**
 * struct capkm_observe_cuda_opts - for capkm_observe_cuda_create()
 * @sz: sizeof(struct capkm_observe_cuda_opts)
 * @library: as of struct capkm_cuda_opts: the bridge's
 * @staging_bytes: device memory, a multiple of 8 of 64 KiB to 1 GiB; 0: 4 MiB. Larger
 *	slices are taken in pieces
 * @flags: CAPKM_OBSERVE_CUDA_F_*
 * @__reserved: must be 0
 */
struct capkm_observe_cuda_opts {
	size_t sz;
	const char *library;
	uint64_t staging_bytes;
	uint32_t flags;
	uint32_t __reserved;
};
/* No kernels: all is as where the driver cannot load them. */
#define CAPKM_OBSERVE_CUDA_F_COPIES	(1u << 0)

/**
 * capkm_observe_cuda_create() - a backend of the current context's tensors
 * @cuda: bridge, which must live longer, and so must the context
 * @opts: options or NULL
 * @out: the backend; untouched on error
 * @err: why not, or NULL
 *
 * Loads the kernels, and allocates: so not while the caller records a window, which
 * that would doom.
 *
 * Return: 0; -EINVAL (no current context, options), -ENODEV (no driver), -E2BIG, -ENOMEM,
 * -ECANCELED, errors of the driver, of capkm_cuda_alloc()
 */
CAPKM_API int capkm_observe_cuda_create(struct capkm_cuda *cuda,
				const struct capkm_observe_cuda_opts *opts,
				struct capkm_observe_cuda **out,
				struct capkm_error *err);
/* After its sessions; waits for what an observation that failed has issued. NULL is fine. */
CAPKM_API void capkm_observe_cuda_destroy(struct capkm_observe_cuda *o);

/*
 * Observes struct capkm_observe_cuda_tensor. Any number of sessions may have it, and any
 * threads: those of one backend observe one after the other.
 */
CAPKM_API const struct capkm_observe_backend *
capkm_observe_cuda_backend(const struct capkm_observe_cuda *o);

/**
 * struct capkm_observe_cuda_query - what a backend has done
 * @sz: sizeof(struct capkm_observe_cuda_query)
 * @observations: that had values to look at
 * @launches: of kernels
 * @copies: from device to host
 * @copied_bytes: by these
 * @uploaded_bytes: from host to device: edges of histograms
 * @moved_bytes: within the device, where there are no kernels
 * @staging_bytes: device memory that it has
 * @staging_used: most of it that one observation has used
 * @kernels: 1: it has them
 * @__reserved: 0
 */
struct capkm_observe_cuda_query {
	size_t sz;
	uint64_t observations;
	uint64_t launches;
	uint64_t copies;
	uint64_t copied_bytes;
	uint64_t uploaded_bytes;
	uint64_t moved_bytes;
	uint64_t staging_bytes;
	uint64_t staging_used;
	uint32_t kernels;
	uint32_t __reserved;
};
/* 0; -E2BIG, -EINVAL */
CAPKM_API int capkm_observe_cuda_query(const struct capkm_observe_cuda *o,
				       struct capkm_observe_cuda_query *query,
				       struct capkm_error *err);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_OBSERVE_CUDA_H */
