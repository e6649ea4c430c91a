/* SPDX-License-Identifier: MIT */
/*
 * libcapkm-observe: tensors in memory that the CPU can read, the caller's own or that
 * of an executor.
 */
#ifndef CAPKM_OBSERVE_HOST_H
#define CAPKM_OBSERVE_HOST_H

#include <capkm/host.h>
#include <capkm/observe.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * struct capkm_observe_host_tensor - a tensor in host memory
 * @sz: sizeof(struct capkm_observe_host_tensor)
 * @dtype: enum capkm_observe_dtype, not %CAPKM_DTYPE_UNKNOWN
 * @rank: length of @shape, at most %CAPKM_OBSERVE_RANK; 0: one value
 * @shape: extents
 * @data: values, in the order of C and without gaps, of any alignment; or NULL with
 *	@host. Nobody may write them while they are observed
 * @host: executor that has the values, or NULL
 * @stream: stream that they are read on, of @host; 0 for the calling thread's
 * @range: memory of @host that begins with them
 */
struct capkm_observe_host_tensor {
	size_t sz;
	uint32_t dtype;
	uint32_t rank;
	const uint64_t *shape;
	const void *data;
	struct capkm_host *host;
	uint64_t stream;
	struct capkm_host_range range;
};

/**
 * capkm_observe_host_backend() - observes struct capkm_observe_host_tensor
 *
 * Only bytes that are selected are read. The caller's own memory needs no authority.
 *
 * That of an executor is not looked at while a window records on the slot of its stream
 * (-EBUSY; the window is none the worse for it), nor if any byte of the tensor is tainted
 * (-ESTALE, with the failure behind it). Otherwise tasks that were issued before and write
 * it are waited for. Adjacent bytes are one capkm_host_read() of up to 16 KiB, or of any
 * size if the values are given as they are; so a slice with a stride on the last axis is
 * one for each value. What taints the values between two of them is found by the next.
 *
 * Reductions are of values as f32: integers are rounded to nearest. Fewer candidates are
 * found than the plan says if the row has fewer values that are not NaN.
 *
 * What it makes for an intervention is a tensor in memory of its own, also of one that an
 * executor has: struct capkm_observe_host_tensor, with .data. .release() of the backend
 * frees it.
 *
 * Return: static, for any number of sessions and threads
 */
CAPKM_API const struct capkm_observe_backend *capkm_observe_host_backend(void);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_OBSERVE_HOST_H */
