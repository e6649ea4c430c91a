/* SPDX-License-Identifier: MIT */
/*
 * What both programs need: the CUDA driver, a bridge to it, and short forms of a few
 * calls. A program that has CUDA's headers includes <cuda.h> instead of the first part,
 * and is linked with libcuda as it always was.
 */
#ifndef EXAMPLE_GPU_H
#define EXAMPLE_GPU_H

#include <capkm/capkm.h>
#include <capkm/cuda.h>
#include <stdio.h>
#include <stdlib.h>

/* the driver */

typedef struct CUctx_st *CUcontext;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUmod_st *CUmodule;
typedef struct CUstream_st *CUstream;
typedef int CUdevice;
typedef int CUresult;

#define CU_STREAM_NON_BLOCKING		1u
#define CU_EVENT_DISABLE_TIMING		2u

/* X(name, symbol of the library, arguments) */
#define CUDA_CALLS(X)							\
X(cuInit, "cuInit", (unsigned int flags))				\
X(cuGetErrorName, "cuGetErrorName", (CUresult result, const char **name)) \
X(cuDeviceGet, "cuDeviceGet", (CUdevice *device, int ordinal))		\
X(cuDeviceGetName, "cuDeviceGetName", (char *name, int len, CUdevice device)) \
X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",			\
  (CUcontext *context, CUdevice device))				\
X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device)) \
X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext context))		\
X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *module, const void *image)) \
X(cuModuleUnload, "cuModuleUnload", (CUmodule module))			\
X(cuModuleGetFunction, "cuModuleGetFunction",				\
  (CUfunction *function, CUmodule module, const char *name))		\
X(cuStreamCreate, "cuStreamCreate", (CUstream *stream, unsigned int flags)) \
X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream stream))		\
X(cuEventCreate, "cuEventCreate", (CUevent *event, unsigned int flags))	\
X(cuEventDestroy, "cuEventDestroy_v2", (CUevent event))

#pragma GCC visibility push(hidden)
#define CUDA_DECLARE(name, symbol, args) extern CUresult (*name) args;
CUDA_CALLS(CUDA_DECLARE)
#undef CUDA_DECLARE
#pragma GCC visibility pop

/* the bridge */

extern struct capkm_error err;

/* For calls that can only fail if something is wrong: the library says what. */
#define TRY(call) do {							\
	if (call)							\
		give_up("%s", err.text);				\
} while (0)

/* The same for calls of the driver. */
#define CU(call) do {							\
	CUresult result_ = call;					\
									\
	if (result_)							\
		give_up(#call ": %s", cuda_name(result_));		\
} while (0)

/* Prints the message and ends the program. */
__attribute__((format(printf, 1, 2), noreturn))
void give_up(const char *format, ...);
const char *cuda_name(CUresult result);

struct gpu {
	struct capkm *c;
	struct capkm_cuda *cuda;
	CUdevice device;
	CUmodule module;
};

/*
 * The first device, with kernels.ptx loaded, and a bridge. Where there is no driver or
 * no device that ends the program, with status 4.
 */
void gpu_open(struct gpu *gpu);
void gpu_close(struct gpu *gpu);

CUfunction gpu_kernel(struct gpu *gpu, const char *name);
/* A stream that is bound. */
CUstream gpu_stream(struct gpu *gpu);
void gpu_stream_end(struct gpu *gpu, CUstream stream);

/* Device memory that the authority knows. */
typedef struct capkm_cuda_range array;

array gpu_array(struct gpu *gpu, uint64_t bytes, const char *label);
void gpu_free(struct gpu *gpu, array a);

/* A launch: the kernel, and what it touches. */
struct work {
	CUfunction kernel;
	const char *label;
	unsigned int elements;
	void **params;
	array reads[3];		/* up to the first one of no bytes */
	array writes;
};

void gpu_launch(struct gpu *gpu, CUstream stream, const struct work *work);
/* The first copies to the device, the second back. What is @kept is free()d by the graph. */
void gpu_upload(struct gpu *gpu, CUstream stream, array to, void *from, int kept);
void gpu_download(struct gpu *gpu, CUstream stream, void *to, array from, int kept);

#endif /* EXAMPLE_GPU_H */
