// SPDX-License-Identifier: GPL-2.0-only
/*
 * What lib/cuda/driver.h says of the driver's binary interface, against CUDA's own
 * headers: compiles if it is so. cuda_layout.sh compiles it.
 */
#include <cuda.h>
#include <cudaTypedefs.h>

#include "driver.h"

/* Each function exists in the version that is asked for. */
#define EXISTS(name, version, args) \
	_Static_assert(sizeof(PFN_##name##_v##version) == sizeof(void *), #name);
CU_CALLS(EXISTS, EXISTS)

#define SAME(ours, theirs) \
	_Static_assert((long)(ours) == (long)(theirs), #ours " is " #theirs)
SAME(CU_OK, CUDA_SUCCESS);
SAME(CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(CU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME(CU_CONTEXT_IS_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME(CU_CAPTURE_FIRST, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(CU_CAPTURE_INVALID, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
SAME(CU_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(CU_CAPTURE_LAST, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(CU_UPDATE_FAILURE, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
SAME(CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CU_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(CU_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(CU_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(CU_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(CU_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
SAME(CU_NODE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMCPY);
SAME(CU_NODE_MEMSET, CU_GRAPH_NODE_TYPE_MEMSET);
SAME(CU_NODE_HOST, CU_GRAPH_NODE_TYPE_HOST);
SAME(CU_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);
SAME(CU_NODE_EMPTY, CU_GRAPH_NODE_TYPE_EMPTY);
SAME(CU_NODE_WAIT_EVENT, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
SAME(CU_NODE_RECORD_EVENT, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
SAME(CU_NODE_MEM_ALLOC, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
SAME(CU_NODE_MEM_FREE, CU_GRAPH_NODE_TYPE_MEM_FREE);
SAME(CU_NODE_CONDITIONAL, CU_GRAPH_NODE_TYPE_CONDITIONAL);
SAME(CU_FUNC_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME(CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME(CU_MEMORY_ARRAY, CU_MEMORYTYPE_ARRAY);
SAME(CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SAME(CU_HANDLE_POSIX_FD, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT);
SAME(CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CU_POINTER_IS_LEGACY_IPC, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
SAME(CU_POINTER_RANGE_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
SAME(CU_POINTER_RANGE_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
SAME(CU_POINTER_MEMPOOL, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
_Static_assert(CU_STREAM_IS_LEGACY == CU_STREAM_LEGACY, "legacy stream");
_Static_assert(CU_STREAM_IS_PER_THREAD == CU_STREAM_PER_THREAD, "per-thread stream");
_Static_assert(CU_EXTRA_POINTER == CU_LAUNCH_PARAM_BUFFER_POINTER, "key of extra");
_Static_assert(CU_EXTRA_SIZE == CU_LAUNCH_PARAM_BUFFER_SIZE, "key of extra");

/* A member is where theirs is; those that the driver fills are no larger than ours. */
#define AT(ours, member, theirs, other) \
	_Static_assert(offsetof(struct ours, member) == offsetof(theirs, other), \
		       #ours "." #member)
#define SIZE(ours, theirs) \
	_Static_assert(sizeof(struct ours) == sizeof(theirs), #ours)
SIZE(cu_kernel_params, CUDA_KERNEL_NODE_PARAMS);
AT(cu_kernel_params, grid, CUDA_KERNEL_NODE_PARAMS, gridDimX);
AT(cu_kernel_params, block, CUDA_KERNEL_NODE_PARAMS, blockDimX);
AT(cu_kernel_params, shared, CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
AT(cu_kernel_params, params, CUDA_KERNEL_NODE_PARAMS, kernelParams);
AT(cu_kernel_params, extra, CUDA_KERNEL_NODE_PARAMS, extra);
AT(cu_kernel_params, kern, CUDA_KERNEL_NODE_PARAMS, kern);
AT(cu_kernel_params, context, CUDA_KERNEL_NODE_PARAMS, ctx);
SIZE(cu_copy_params, CUDA_MEMCPY3D);
AT(cu_copy_params, from.type, CUDA_MEMCPY3D, srcMemoryType);
AT(cu_copy_params, from.host, CUDA_MEMCPY3D, srcHost);
AT(cu_copy_params, from.device, CUDA_MEMCPY3D, srcDevice);
AT(cu_copy_params, from.pitch, CUDA_MEMCPY3D, srcPitch);
AT(cu_copy_params, from.height, CUDA_MEMCPY3D, srcHeight);
AT(cu_copy_params, to.x_bytes, CUDA_MEMCPY3D, dstXInBytes);
AT(cu_copy_params, to.type, CUDA_MEMCPY3D, dstMemoryType);
AT(cu_copy_params, to.device, CUDA_MEMCPY3D, dstDevice);
AT(cu_copy_params, width_bytes, CUDA_MEMCPY3D, WidthInBytes);
AT(cu_copy_params, height, CUDA_MEMCPY3D, Height);
AT(cu_copy_params, depth, CUDA_MEMCPY3D, Depth);
SIZE(cu_set_params, CUDA_MEMSET_NODE_PARAMS_v1);
AT(cu_set_params, value, CUDA_MEMSET_NODE_PARAMS_v1, value);
AT(cu_set_params, element_bytes, CUDA_MEMSET_NODE_PARAMS_v1, elementSize);
AT(cu_set_params, width, CUDA_MEMSET_NODE_PARAMS_v1, width);
AT(cu_set_params, height, CUDA_MEMSET_NODE_PARAMS_v1, height);
SIZE(cu_update_info, CUgraphExecUpdateResultInfo);
AT(cu_update_info, node, CUgraphExecUpdateResultInfo, errorNode);
AT(cu_update_info, from, CUgraphExecUpdateResultInfo, errorFromNode);
SIZE(cu_uuid, CUuuid);
SIZE(cu_ipc_handle, CUipcMemHandle);
SIZE(cu_ipc_handle, CUipcEventHandle);
_Static_assert(sizeof(struct cu_allocation_prop) >= sizeof(CUmemAllocationProp),
	       "cu_allocation_prop");
AT(cu_allocation_prop, requested_handles, CUmemAllocationProp, requestedHandleTypes);
AT(cu_allocation_prop, location_type, CUmemAllocationProp, location.type);
AT(cu_allocation_prop, location_id, CUmemAllocationProp, location.id);
