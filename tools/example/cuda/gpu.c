// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "gpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>

/* As selftests have it: what this program needs is not here. */
#define STATUS_SKIP	4

#define THREADS		128u

static const char kernels_ptx[] =
#include "kernels.inc"
;

struct capkm_error err = CAPKM_OPTS(struct capkm_error);

#define CUDA_DEFINE(name, symbol, args) CUresult (*name) args;
CUDA_CALLS(CUDA_DEFINE)

void give_up(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

const char *cuda_name(CUresult result)
{
	const char *name = NULL;

	cuGetErrorName(result, &name);
	return name ? name : "unknown error";
}

static void skip(const char *why)
{
	printf("%s: skipped: %s\n", program_invocation_short_name, why);
	exit(STATUS_SKIP);
}

static void load_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult result;

	if (!library)
		skip("there is no CUDA driver (libcuda.so.1)");
#define CUDA_FIND(name, symbol, args)					\
	*(void **)&name = dlsym(library, symbol);			\
	if (!name)							\
		give_up("the CUDA driver has no " symbol);
	CUDA_CALLS(CUDA_FIND)
	result = cuInit(0);
	if (result)
		skip(cuda_name(result));
}

/* The module if it is loaded, else the library; $CAPKM_DEVICE says otherwise. */
static void open_bridge(struct gpu *gpu)
{
	const struct capkm_domain_opts domain = CAPKM_OPTS(struct capkm_domain_opts,
		.backend = CAPKM_BACKEND_HARDWARE);
	const struct capkm_cuda_opts cuda = CAPKM_OPTS(struct capkm_cuda_opts,
		.flags = CAPKM_CUDA_FLAGS);

	TRY(capkm_open(getenv("CAPKM_DEVICE") ? NULL : "auto:", NULL, &gpu->c, &err));
	TRY(capkm_domain_create(gpu->c, NULL, &domain, &err));
	TRY(capkm_cuda_open(gpu->c, &cuda, &gpu->cuda, &err));
}

void gpu_open(struct gpu *gpu)
{
	CUcontext context;
	char name[100];
	int version;

	load_driver();
	CU(cuDeviceGet(&gpu->device, 0));
	CU(cuDeviceGetName(name, sizeof(name), gpu->device));
	CU(cuDevicePrimaryCtxRetain(&context, gpu->device));
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&gpu->module, kernels_ptx));
	open_bridge(gpu);
	version = capkm_cuda_driver_version(gpu->cuda);
	printf("%s, CUDA %d.%d; the authority is %s\n", name, version / 1000,
	       version % 1000 / 10, capkm_authority(gpu->c) == CAPKM_AUTHORITY_KERNEL ?
	       "the kernel module" : "embedded in this process");
}

void gpu_close(struct gpu *gpu)
{
	capkm_cuda_close(gpu->cuda);
	capkm_close(gpu->c);
	CU(cuModuleUnload(gpu->module));
	CU(cuDevicePrimaryCtxRelease(gpu->device));
}

CUfunction gpu_kernel(struct gpu *gpu, const char *name)
{
	CUfunction function;

	CU(cuModuleGetFunction(&function, gpu->module, name));
	return function;
}

CUstream gpu_stream(struct gpu *gpu)
{
	CUstream stream;

	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	TRY(capkm_cuda_stream_bind(gpu->cuda, stream, NULL, NULL, &err));
	return stream;
}

/* Unbound before it is destroyed. */
void gpu_stream_end(struct gpu *gpu, CUstream stream)
{
	TRY(capkm_cuda_stream_sync(gpu->cuda, stream, &err));
	TRY(capkm_cuda_stream_unbind(gpu->cuda, stream, &err));
	CU(cuStreamDestroy(stream));
}

array gpu_array(struct gpu *gpu, uint64_t bytes, const char *label)
{
	array a = { .bytes = bytes };

	TRY(capkm_cuda_alloc(gpu->cuda, bytes, label, 0, &a.address, &err));
	return a;
}

void gpu_free(struct gpu *gpu, array a)
{
	TRY(capkm_cuda_free(gpu->cuda, a.address, &err));
}

void gpu_launch(struct gpu *gpu, CUstream stream, const struct work *work)
{
	const struct capkm_cuda_launch launch = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = work->kernel, .params = work->params,
		.grid = { (work->elements + THREADS - 1) / THREADS, 1, 1 },
		.block = { THREADS, 1, 1 });
	struct capkm_cuda_work touched = CAPKM_OPTS(struct capkm_cuda_work,
		.label = work->label, .reads = work->reads,
		.writes = &work->writes, .writes_len = 1);

	while (touched.reads_len < 3 && work->reads[touched.reads_len].bytes)
		touched.reads_len++;
	TRY(capkm_cuda_launch(gpu->cuda, stream, &launch, &touched, NULL, &err));
}

/* A recorded copy is done by each replay: until the last one the graph has the memory. */
void gpu_upload(struct gpu *gpu, CUstream stream, array to, void *from, int kept)
{
	const struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = to.address, .from = (uintptr_t)from, .bytes = to.bytes,
		.label = "upload", .release = kept ? free : NULL, .context = from);

	TRY(capkm_cuda_copy(gpu->cuda, stream, &copy, NULL, &err));
}

void gpu_download(struct gpu *gpu, CUstream stream, void *to, array from, int kept)
{
	const struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = (uintptr_t)to, .from = from.address, .bytes = from.bytes,
		.label = "download", .release = kept ? free : NULL, .context = to);

	TRY(capkm_cuda_copy(gpu->cuda, stream, &copy, NULL, &err));
}
