/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver as the bridge uses it: types, and one table of its functions. The
 * layouts and numbers are the driver's binary interface; selftests/checks/cuda_layout.c
 * compares them with cuda.h where there is one.
 */
#ifndef CAPKM_LIB_CUDA_DRIVER_H
#define CAPKM_LIB_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef struct CUctx_st *cu_context;
typedef struct CUevent_st *cu_event;
typedef struct CUfunc_st *cu_function;
typedef struct CUkern_st *cu_kernel;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_exec;
typedef struct CUgraphNode_st *cu_node;
typedef struct CUstream_st *cu_stream;
typedef struct CUuserObject_st *cu_user_object;
typedef int cu_device;
typedef unsigned long long cu_address;	/* CUdeviceptr */

#define CU_STREAM_IS_LEGACY	((cu_stream)1)
#define CU_STREAM_IS_PER_THREAD	((cu_stream)2)

/* CUresult, as far as the bridge tells them apart. */
enum {
	CU_OK			= 0,
	CU_INVALID_VALUE	= 1,
	CU_OUT_OF_MEMORY	= 2,
	CU_INVALID_CONTEXT	= 201,
	CU_INVALID_HANDLE	= 400,
	CU_NOT_FOUND		= 500,
	CU_NOT_READY		= 600,
	CU_CONTEXT_IS_DESTROYED	= 709,
	CU_NOT_SUPPORTED	= 801,
	CU_CAPTURE_FIRST	= 900,	/* to 908: a capture is in the way, or broken */
	CU_CAPTURE_INVALID	= 901,
	CU_CAPTURE_IMPLICIT	= 906,
	CU_CAPTURE_LAST		= 908,
	CU_UPDATE_FAILURE	= 910,
	CU_UNKNOWN		= 999,
	CU_MAP_FAILED		= 205,
};

enum { CU_CAPTURE_NONE, CU_CAPTURE_ACTIVE, CU_CAPTURE_INVALIDATED };
enum { CU_MODE_GLOBAL, CU_MODE_THREAD_LOCAL, CU_MODE_RELAXED };

enum {
	CU_NODE_KERNEL		= 0,
	CU_NODE_MEMCPY		= 1,
	CU_NODE_MEMSET		= 2,
	CU_NODE_HOST		= 3,
	CU_NODE_GRAPH		= 4,
	CU_NODE_EMPTY		= 5,
	CU_NODE_WAIT_EVENT	= 6,
	CU_NODE_RECORD_EVENT	= 7,
	CU_NODE_MEM_ALLOC	= 10,
	CU_NODE_MEM_FREE	= 11,
	CU_NODE_CONDITIONAL	= 13,
};

#define CU_FUNC_REGISTERS	4	/* CUfunction_attribute */

enum { CU_MEMORY_HOST = 1, CU_MEMORY_DEVICE, CU_MEMORY_ARRAY, CU_MEMORY_UNIFIED };

struct cu_kernel_params {
	cu_function func;
	unsigned int grid[3], block[3];
	unsigned int shared;
	void **params;
	void **extra;
	cu_kernel kern;		/* if func is NULL */
	cu_context context;
};
/* Keys of extra; it ends with a NULL. */
#define CU_EXTRA_POINTER	((void *)1)
#define CU_EXTRA_SIZE		((void *)2)

struct cu_copy_side {
	size_t x_bytes, y, z, lod;
	int type;		/* CU_MEMORY_* */
	const void *host;
	cu_address device;
	void *array;
	void *reserved;
	size_t pitch, height;
};

struct cu_copy_params {
	struct cu_copy_side from, to;
	size_t width_bytes, height, depth;
};

struct cu_set_params {
	cu_address to;
	size_t pitch;
	unsigned int value, element_bytes;
	size_t width, height;
};

struct cu_update_info {
	int result;
	cu_node node, from;
};

struct cu_uuid {
	uint8_t bytes[16];
};

struct cu_ipc_handle {
	char bytes[64];
};

/* CUmemAllocationProp, of which the bridge only needs the handle types. */
struct cu_allocation_prop {
	int type;
	int requested_handles;
	int location_type, location_id;
	void *win32;
	unsigned char flags[8];
	uint64_t room[4];	/* a newer driver's */
};
#define CU_HANDLE_POSIX_FD	1

/* CUpointer_attribute */
enum {
	CU_POINTER_CONTEXT		= 1,
	CU_POINTER_MEMORY_TYPE		= 2,
	CU_POINTER_DEVICE_ORDINAL	= 9,
	CU_POINTER_IS_LEGACY_IPC	= 10,
	CU_POINTER_RANGE_START		= 11,
	CU_POINTER_RANGE_SIZE		= 12,
	CU_POINTER_MEMPOOL		= 17,
};

/*
 * X(name, version, arguments): cuGetProcAddress() is asked for the function as it was
 * in that version of CUDA, so that a newer driver gives the same one. O() may be
 * missing: then the pointer is NULL.
 */
#define CU_CALLS(X, O)							\
X(cuInit, 2000, (unsigned int flags))					\
X(cuDriverGetVersion, 2020, (int *version))				\
X(cuGetErrorName, 6000, (int result, const char **name))		\
X(cuGetErrorString, 6000, (int result, const char **text))		\
X(cuDeviceGetCount, 2000, (int *count))					\
X(cuDeviceGet, 2000, (cu_device *device, int ordinal))			\
X(cuDeviceGetUuid, 11040, (struct cu_uuid *uuid, cu_device device))	\
X(cuCtxGetCurrent, 4000, (cu_context *context))				\
X(cuCtxPushCurrent, 4000, (cu_context context))				\
X(cuCtxPopCurrent, 4000, (cu_context *context))				\
X(cuCtxGetDevice, 2000, (cu_device *device))				\
X(cuCtxGetId, 12000, (cu_context context, unsigned long long *id))	\
X(cuCtxSynchronize, 2000, (void))					\
X(cuStreamGetId, 12000, (cu_stream stream, unsigned long long *id))	\
X(cuStreamGetCtx, 9020, (cu_stream stream, cu_context *context))	\
X(cuStreamQuery, 2000, (cu_stream stream))				\
X(cuStreamSynchronize, 2000, (cu_stream stream))			\
X(cuStreamWaitEvent, 3020, (cu_stream stream, cu_event event,		\
			    unsigned int flags))			\
X(cuStreamBeginCapture, 10010, (cu_stream stream, int mode))		\
X(cuStreamEndCapture, 10000, (cu_stream stream, cu_graph *graph))	\
X(cuStreamGetCaptureInfo, 11030, (cu_stream stream, int *status,	\
	uint64_t *id, cu_graph *graph, const cu_node **dependencies,	\
	size_t *len))							\
X(cuThreadExchangeStreamCaptureMode, 10010, (int *mode))		\
X(cuEventCreate, 2000, (cu_event *event, unsigned int flags))		\
X(cuEventDestroy, 4000, (cu_event event))				\
X(cuEventRecord, 2000, (cu_event event, cu_stream stream))		\
X(cuEventQuery, 2000, (cu_event event))					\
X(cuEventSynchronize, 2000, (cu_event event))				\
X(cuMemAlloc, 3020, (cu_address *address, size_t bytes))		\
X(cuMemFree, 3020, (cu_address address))				\
X(cuMemGetAddressRange, 3020, (cu_address *base, size_t *bytes,		\
			       cu_address address))			\
X(cuPointerGetAttribute, 4000, (void *value, int attribute,		\
				cu_address address))			\
X(cuMemcpyAsync, 4000, (cu_address to, cu_address from, size_t bytes,	\
			cu_stream stream))				\
X(cuMemsetD8Async, 3020, (cu_address to, unsigned char value, size_t n,	\
			  cu_stream stream))				\
X(cuMemsetD16Async, 3020, (cu_address to, unsigned short value,		\
			   size_t n, cu_stream stream))			\
X(cuMemsetD32Async, 3020, (cu_address to, unsigned int value, size_t n,	\
			   cu_stream stream))				\
X(cuLaunchKernel, 4000, (cu_function function, unsigned int grid_x,	\
	unsigned int grid_y, unsigned int grid_z, unsigned int block_x,	\
	unsigned int block_y, unsigned int block_z, unsigned int shared, \
	cu_stream stream, void **params, void **extra))			\
X(cuLaunchHostFunc, 10000, (cu_stream stream, void (*fn)(void *),	\
			    void *context))				\
X(cuGraphDestroy, 10000, (cu_graph graph))				\
X(cuGraphInstantiateWithFlags, 11040, (cu_exec *exec, cu_graph graph,	\
				       unsigned long long flags))	\
X(cuGraphExecDestroy, 10000, (cu_exec exec))				\
X(cuGraphExecUpdate, 12000, (cu_exec exec, cu_graph graph,		\
			     struct cu_update_info *info))		\
X(cuGraphUpload, 11010, (cu_exec exec, cu_stream stream))		\
X(cuGraphLaunch, 10000, (cu_exec exec, cu_stream stream))		\
X(cuGraphGetNodes, 10000, (cu_graph graph, cu_node *nodes, size_t *len)) \
X(cuGraphNodeGetType, 10000, (cu_node node, int *type))			\
X(cuGraphKernelNodeGetParams, 12000, (cu_node node,			\
				      struct cu_kernel_params *params))	\
X(cuGraphMemcpyNodeGetParams, 10000, (cu_node node,			\
				      struct cu_copy_params *params))	\
X(cuGraphMemsetNodeGetParams, 10000, (cu_node node,			\
				      struct cu_set_params *params))	\
X(cuGraphChildGraphNodeGetGraph, 10000, (cu_node node, cu_graph *graph)) \
X(cuGraphAddChildGraphNode, 10000, (cu_node *node, cu_graph graph,	\
	const cu_node *dependencies, size_t len, cu_graph child))	\
X(cuStreamUpdateCaptureDependencies, 11030, (cu_stream stream,		\
	cu_node *dependencies, size_t len, unsigned int flags))		\
X(cuUserObjectCreate, 11030, (cu_user_object *object, void *context,	\
	void (*release)(void *), unsigned int references,		\
	unsigned int flags))						\
X(cuUserObjectRelease, 11030, (cu_user_object object, unsigned int n))	\
X(cuGraphRetainUserObject, 11030, (cu_graph graph,			\
	cu_user_object object, unsigned int n, unsigned int flags))	\
X(cuIpcGetMemHandle, 4010, (struct cu_ipc_handle *handle,		\
			    cu_address address))			\
X(cuIpcOpenMemHandle, 11000, (cu_address *address,			\
	struct cu_ipc_handle handle, unsigned int flags))		\
X(cuIpcCloseMemHandle, 4010, (cu_address address))			\
X(cuIpcGetEventHandle, 4010, (struct cu_ipc_handle *handle,		\
			      cu_event event))				\
X(cuIpcOpenEventHandle, 4010, (cu_event *event,				\
			       struct cu_ipc_handle handle))		\
X(cuMemRetainAllocationHandle, 11000, (unsigned long long *handle,	\
				       void *address))			\
X(cuMemGetAllocationPropertiesFromHandle, 10020,			\
  (struct cu_allocation_prop *prop, unsigned long long handle))		\
X(cuMemExportToShareableHandle, 10020, (void *out,			\
	unsigned long long handle, int type, unsigned long long flags))	\
X(cuMemImportFromShareableHandle, 10020, (unsigned long long *handle,	\
					  void *os_handle, int type))	\
X(cuMemRelease, 10020, (unsigned long long handle))			\
X(cuMemAddressReserve, 10020, (cu_address *address, size_t bytes,	\
	size_t alignment, cu_address hint, unsigned long long flags))	\
X(cuMemAddressFree, 10020, (cu_address address, size_t bytes))		\
X(cuMemMap, 10020, (cu_address address, size_t bytes, size_t offset,	\
		    unsigned long long handle, unsigned long long flags)) \
X(cuMemUnmap, 10020, (cu_address address, size_t bytes))		\
X(cuMemSetAccess, 10020, (cu_address address, size_t bytes,		\
			  const void *descs, size_t n))			\
O(cuEventElapsedTime, 2000, (float *ms, cu_event start, cu_event stop))	\
O(cuStreamBeginCaptureToGraph, 12030, (cu_stream stream, cu_graph graph, \
	const cu_node *dependencies, const void *edges, size_t len,	\
	int mode))							\
O(cuFuncGetParamInfo, 12040, (cu_function function, size_t index,	\
			      size_t *offset, size_t *bytes))		\
O(cuKernelGetParamInfo, 12040, (cu_kernel kernel, size_t index,		\
				size_t *offset, size_t *bytes))		\
O(cuStreamGetGreenCtx, 12040, (cu_stream stream, void **green))		\
O(cuModuleLoadData, 2000, (void **module, const void *image))		\
O(cuModuleGetFunction, 2000, (cu_function *function, void *module,	\
			      const char *name))			\
O(cuModuleUnload, 2000, (void *module))					\
O(cuFuncLoad, 12040, (cu_function function))				\
O(cuFuncGetAttribute, 2020, (int *value, int attribute, cu_function function))

#define CU_MEMBER(name, version, args) int (*name) args;
struct cu_driver {
	void *library;
	int version;
	CU_CALLS(CU_MEMBER, CU_MEMBER)
};
#undef CU_MEMBER

#define CU_SET_CAPTURE_DEPENDENCIES	1u
#define CU_EVENT_DISABLE_TIMING		2u
#define CU_USER_OBJECT_NO_DESTRUCTOR_SYNC	1u
#define CU_GRAPH_USER_OBJECT_MOVE	1u
#define CU_IPC_LAZY_PEER_ACCESS		1u
#define CU_OLDEST	12000

struct capkm_error;

/*
 * Fills the table. @file: of the library, or NULL; @per_thread: functions for
 * per-thread default streams. -ENODEV, -EPROTONOSUPPORT.
 */
int capkm_cu_load(struct cu_driver *cu, const char *file, int per_thread,
		  struct capkm_error *err);
void capkm_cu_unload(struct cu_driver *cu);

#endif /* CAPKM_LIB_CUDA_DRIVER_H */
