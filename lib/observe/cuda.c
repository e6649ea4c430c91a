// SPDX-License-Identifier: MIT
/* The backend of CUDA's tensors: made and given back, and asked before anything is done. */
#include "device.h"
#include "reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STAGING_LEAST	(64u << 10)
#define STAGING_MOST	(1u << 30)
#define STAGING		(4u << 20)

/* CUresults that say that this driver cannot use the kernels, here. */
static const int no_kernels[] = {
	200,	/* INVALID_IMAGE */
	209,	/* NO_BINARY_FOR_GPU */
	218,	/* INVALID_PTX */
	221,	/* JIT_COMPILER_NOT_FOUND */
	222,	/* UNSUPPORTED_PTX_VERSION */
	223,	/* JIT_COMPILATION_DISABLED */
	500,	/* NOT_FOUND */
	801,	/* NOT_SUPPORTED */
};

static bool is_no_kernels(int result)
{
	size_t i;

	for (i = 0; i < sizeof(no_kernels) / sizeof(*no_kernels); i++)
		if (no_kernels[i] == result)
			return true;
	return false;
}

/* calls of the driver */

static const char *name_of(struct capkm_observe_cuda *o, int result)
{
	const char *name = NULL;

	o->cu.cuGetErrorName(result, &name);
	return name ? name : "unknown error";
}

static int refuse(struct capkm_observe_cuda *o, int result, const char *function,
		  struct capkm_error *err)
{
	capkm_error_set(err, result == CU_OUT_OF_MEMORY ? -ENOMEM : -EREMOTEIO,
		CAPKM_NO_INDEX, 0, "observe_cuda_create: %s: %s (%d)", function,
		name_of(o, result), result);
	capkm_error_code(err, result);
	return result == CU_OUT_OF_MEMORY ? -ENOMEM : -EREMOTEIO;
}

static int push(struct capkm_observe_cuda *o)
{
	return o->cu.cuCtxPushCurrent(o->context);
}

static void pop(struct capkm_observe_cuda *o)
{
	cu_context old;

	o->cu.cuCtxPopCurrent(&old);
}

/* The calls between the two do not break anybody's capture. */
static int relax(struct capkm_observe_cuda *o)
{
	int mode = CU_MODE_RELAXED;

	o->cu.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

static void restore(struct capkm_observe_cuda *o, int mode)
{
	o->cu.cuThreadExchangeStreamCaptureMode(&mode);
}

/* creation */

/*
 * Else the driver loads a function when it is first launched (CUDA_MODULE_LOADING, whose
 * default is LAZY): in the middle of an observation. Before 12.4 a question does it.
 */
static int load_now(const struct capkm_observe_cuda *o, cu_function function)
{
	int registers;

	if (o->cu.cuFuncLoad)
		return o->cu.cuFuncLoad(function);
	if (o->cu.cuFuncGetAttribute)
		return o->cu.cuFuncGetAttribute(&registers, CU_FUNC_REGISTERS,
						function);
	return 0;
}

static int find_kernels(struct capkm_observe_cuda *o)
{
	int result = 0;

#define FIND(name)							\
	if (!result)							\
		result = o->cu.cuModuleGetFunction(&o->name, o->module,	\
						   "capkm_" #name);	\
	if (!result)							\
		result = load_now(o, o->name);
	KERNELS(FIND)
#undef FIND
	return result;
}

static void unload(struct capkm_observe_cuda *o)
{
	if (o->module)
		o->cu.cuModuleUnload(o->module);
	o->module = NULL;
}

static int load_module(struct capkm_observe_cuda *o)
{
	int result;

	if (!o->cu.cuModuleLoadData || !o->cu.cuModuleGetFunction ||
	    !o->cu.cuModuleUnload)
		return CU_NOT_SUPPORTED;
	result = o->cu.cuModuleLoadData(&o->module, capkm_observe_ptx);
	if (result) {
		o->module = NULL;
		return result;
	}
	result = find_kernels(o);
	if (result)
		unload(o);
	return result;
}

/* Without kernels it is a backend, too. */
static int load_kernels(struct capkm_observe_cuda *o, uint32_t flags,
			struct capkm_error *err)
{
	char why[100] = "they are not wanted";
	int mode, result;

	if (!(flags & CAPKM_OBSERVE_CUDA_F_COPIES)) {
		mode = relax(o);
		result = load_module(o);
		restore(o, mode);
		if (!result)
			return 0;
		if (!is_no_kernels(result))
			return refuse(o, result, "cuModuleLoadData", err);
		snprintf(why, sizeof(why), "the driver cannot load them: %s (%d)",
			 name_of(o, result), result);
	}
	snprintf(o->condition, sizeof(o->condition),
		 "without kernels, for %s: slices are copied by runs; there are no summaries, histograms and top candidates",
		 why);
	o->conditions[0] = o->condition;
	return 0;
}

static int find_context(struct capkm_observe_cuda *o, struct capkm_error *err)
{
	int result = o->cu.cuCtxGetCurrent(&o->context);

	if (result)
		return refuse(o, result, "cuCtxGetCurrent", err);
	if (!o->context)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"observe_cuda_create: the calling thread has no current context");
	return 0;
}

/* The bridge comes first: it tells the authority of a context that is lost. */
static int set_up(struct capkm_observe_cuda *o, uint32_t flags,
		  struct capkm_error *err)
{
	uint64_t staging;
	int rc = find_context(o, err);

	if (!rc)
		rc = capkm_cuda_alloc(o->bridge, o->staging_bytes,
				      "observe staging", 0, &staging, err);
	if (rc)
		return rc;
	o->staging = staging;
	rc = load_kernels(o, flags, err);
	if (rc)
		capkm_cuda_free(o->bridge, o->staging, NULL);
	return rc;
}

static int check_opts(const struct capkm_observe_cuda_opts *o,
		      struct capkm_error *err)
{
	if (o->flags & ~CAPKM_OBSERVE_CUDA_F_COPIES || o->__reserved)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"observe_cuda_create: flags 0x%x; only CAPKM_OBSERVE_CUDA_F_COPIES is known",
			o->flags);
	if (o->staging_bytes && (o->staging_bytes < STAGING_LEAST ||
				 o->staging_bytes > STAGING_MOST ||
				 o->staging_bytes % 8))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"observe_cuda_create: staging_bytes %" PRIu64 " is no multiple of 8 of %u to %u",
			o->staging_bytes, STAGING_LEAST, STAGING_MOST);
	return 0;
}

static const struct capkm_observe_backend functions;

int capkm_observe_cuda_create(struct capkm_cuda *cuda,
			      const struct capkm_observe_cuda_opts *opts,
			      struct capkm_observe_cuda **out,
			      struct capkm_error *err)
{
	const char *call = "observe_cuda_create";
	struct capkm_observe_cuda_opts given;
	struct capkm_observe_cuda *o;
	int rc = capkm_opts(&given, sizeof(given), opts, call, err);

	if (!rc)
		rc = check_opts(&given, err);
	if (rc)
		return rc;
	o = calloc(1, sizeof(*o));
	if (!o)
		return capkm_no_memory(call, err);
	o->backend = functions;
	o->backend.context = o;
	o->bridge = cuda;
	o->pid = getpid();
	o->staging_bytes = given.staging_bytes ? given.staging_bytes : STAGING;
	rc = capkm_cu_load(&o->cu, given.library, 0, err);
	if (!rc)
		rc = set_up(o, given.flags, err);
	if (rc) {
		free(o);
		return rc;
	}
	pthread_mutex_init(&o->lock, NULL);
	*out = o;
	return 0;
}

/* The driver stays, as at the end of a bridge. A child has none that works. */
void capkm_observe_cuda_destroy(struct capkm_observe_cuda *o)
{
	int mode;

	if (!o || getpid() != o->pid)
		return;
	if (!push(o)) {
		capkm_device_settle(o, NULL);
		mode = relax(o);
		unload(o);
		restore(o, mode);
		capkm_cuda_free(o->bridge, o->staging, NULL);
		pop(o);
	}
	pthread_mutex_destroy(&o->lock);
	free(o);
}

const struct capkm_observe_backend *
capkm_observe_cuda_backend(const struct capkm_observe_cuda *o)
{
	return &o->backend;
}

int capkm_observe_cuda_query(const struct capkm_observe_cuda *o,
			     struct capkm_observe_cuda_query *query,
			     struct capkm_error *err)
{
	struct capkm_observe_cuda_query q;
	int rc = capkm_opts(&q, sizeof(q), query, "observe_cuda_query", err);

	if (rc)
		return rc;
	q = (struct capkm_observe_cuda_query){
		.observations = o->observations,
		.launches = o->launches,
		.copies = o->copies,
		.copied_bytes = o->copied_bytes,
		.uploaded_bytes = o->uploaded_bytes,
		.moved_bytes = o->moved_bytes,
		.staging_bytes = o->staging_bytes,
		.staging_used = o->staging_used,
		.kernels = o->module != NULL,
	};
	capkm_opts_put(query, &q, sizeof(q));
	return 0;
}

/* the backend's functions */

static void cuda_capabilities(void *context,
			      struct capkm_observe_capabilities *out)
{
	/* The reductions last: they need kernels. */
	static const uint32_t transforms[] = {
		CAPKM_TRANSFORM_PREVIEW, CAPKM_TRANSFORM_SLICE,
		CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_TRANSFORM_SUMMARY,
		CAPKM_TRANSFORM_HISTOGRAM, CAPKM_TRANSFORM_TOP_CANDIDATES,
	};
	const struct capkm_observe_cuda *o = context;

	*out = (struct capkm_observe_capabilities){
		.transformations = transforms,
		.transformations_len = o->module ? 6 : 3,
		.max_histogram_bins = o->module ? MAX_BINS : 0,
		.conditions = o->conditions,
		.conditions_len = o->module ? 0 : 1,
	};
}

static int look(const void *tensor, struct device_tensor *t, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	int rc = capkm_opts(&t->t, sizeof(t->t), tensor, "observe_cuda", &err);
	uint32_t bytes;

	if (rc)
		return capkm_observe_why(why, size, rc, "%s", err.text);
	bytes = capkm_observe_dtype_bytes(t->t.dtype);
	if (!bytes)
		return capkm_observe_why(why, size, -EINVAL,
			"a tensor's dtype is %" PRIu32, t->t.dtype);
	if (t->t.rank > CAPKM_OBSERVE_RANK)
		return capkm_observe_why(why, size, -EOPNOTSUPP,
			"a tensor has %" PRIu32 " axes, more than %u", t->t.rank,
			CAPKM_OBSERVE_RANK);
	if (t->t.rank && !t->t.shape)
		return capkm_observe_why(why, size, -EINVAL,
					 "a tensor's shape is NULL");
	if (!capkm_observe_tensor_bytes(t->t.dtype, t->t.shape, t->t.rank,
					&t->bytes) ||
	    (t->bytes && t->t.address > UINT64_MAX - t->bytes))
		return capkm_observe_why(why, size, -EOVERFLOW,
			"a tensor has more bytes than there can be");
	if (t->bytes && t->t.address % bytes)
		return capkm_observe_why(why, size, -EINVAL,
			"a tensor's address 0x%" PRIx64 " is no multiple of %" PRIu32,
			t->t.address, bytes);
	return 0;
}

/*
 * What the bridge has said: what the caller got wrong is -EINVAL, what the driver thinks
 * wrong is the device's error.
 */
static int tell(int rc, const struct capkm_error *err, char *why, size_t size)
{
	if (rc == -ENOENT)
		rc = -EINVAL;
	else if (rc == -EINVAL && err->code)
		rc = -EREMOTEIO;
	return capkm_observe_why(why, size, rc, "%s", err->text);
}

/* In a forked child nothing is asked. The context is current afterwards. */
static int enter(struct capkm_observe_cuda *o, char *why, size_t size)
{
	int result;

	if (getpid() != o->pid)
		return capkm_observe_why(why, size, -ECANCELED,
			"CUDA does not survive a fork");
	result = push(o);
	return result ? capkm_observe_why(why, size, -EREMOTEIO,
		"cuCtxPushCurrent: %s (%d)", name_of(o, result), result) : 0;
}

/*
 * The bridge is asked, not the driver: a stream must not be touched while another thread
 * ends its capture.
 */
static int check_stream(struct capkm_observe_cuda *o, cu_stream stream, char *why,
			size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_cuda_stream_query q = CAPKM_OPTS(struct capkm_cuda_stream_query);
	int rc = capkm_cuda_stream_query(o->bridge, stream, &q, &err);

	if (rc == -ESTALE)
		rc = -EINVAL;	/* the handle, not bytes */
	if (rc)
		return tell(rc, &err, why, size);
	if (q.context != o->context)
		return capkm_observe_why(why, size, -EINVAL,
			"the tensor's stream is of another context than the backend");
	if (q.window)
		return capkm_observe_why(why, size, -EBUSY,
			"window %" PRIu64 " records on slot %" PRIu32, q.window,
			q.where.slot);
	if (q.captures)
		return capkm_observe_why(why, size, -EBUSY,
			"the stream captures, without a window");
	return 0;
}

static int check_bytes(struct capkm_observe_cuda *o, const struct device_tensor *t,
		       char *why, size_t size)
{
	const struct capkm_cuda_range all = { t->t.address, t->bytes };
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	int rc = t->bytes ? capkm_cuda_check(o->bridge, &all, &err) : 0;

	return rc ? tell(rc, &err, why, size) : 0;
}

static int cuda_ready(void *context, const void *tensor, char *why, size_t size)
{
	struct capkm_observe_cuda *o = context;
	struct device_tensor t;
	int rc = look(tensor, &t, why, size);

	if (!rc)
		rc = enter(o, why, size);
	if (rc)
		return rc;
	rc = check_stream(o, t.t.stream, why, size);
	if (!rc)
		rc = check_bytes(o, &t, why, size);
	pop(o);
	return rc;
}

static int cuda_describe(void *context, const void *tensor, uint64_t *shape,
			 uint32_t *rank, uint32_t *dtype, char *why, size_t size)
{
	struct device_tensor t;
	int rc = look(tensor, &t, why, size);

	(void)context;
	if (rc)
		return rc;
	if (t.t.rank)
		memcpy(shape, t.t.shape, t.t.rank * sizeof(*shape));
	*rank = t.t.rank;
	*dtype = t.t.dtype;
	return 0;
}

/* Before there is a tensor elements are as wide as any. */
static int cuda_estimate(void *context, const struct capkm_observe_geometry *g,
			 struct capkm_usage *usage, char *why, size_t size)
{
	const uint32_t stored = capkm_observe_dtype_bytes(g->dtype);
	struct capkm_usage u;
	uint64_t staging;
	int rc = capkm_observe_estimate(g, &u, why, size);

	if (!rc)
		rc = capkm_device_staging(context, g, stored ? stored : 8,
					  &staging, why, size);
	if (rc)
		return rc;
	u.retained_bytes = staging;
	*usage = u;
	return 0;
}

static int check_geometry(const struct device_tensor *t,
			  const struct capkm_observe_geometry *g,
			  const struct capkm_observe_payload *payload, char *why,
			  size_t size)
{
	const uint64_t n = capkm_observe_emitted(g);
	int rc = capkm_observe_as_before(g, t->t.dtype, t->t.rank, t->t.shape,
					 why, size);

	if (rc)
		return rc;
	if (capkm_observe_gives_values(&g->selection->transform) &&
	    n != payload->values.len)
		return capkm_observe_why(why, size, -EOVERFLOW,
			"%" PRIu64 " values do not fit in a record", n);
	return 0;
}

/* What an observation of no values gives; no device is asked. */
static void give_nothing(const struct capkm_observe_geometry *g,
			 struct capkm_observe_payload *payload)
{
	struct capkm_reduction none;

	capkm_reduce_begin(&none, &g->selection->transform, g->dtype, payload);
	capkm_reduce_end(&none);
}

/* With the lock: no other observation has the staging memory. */
static int observe(struct device_job *job, char *why, size_t size)
{
	const uint32_t bytes = capkm_observe_dtype_bytes(job->g->dtype);
	struct capkm_observe_cuda *o = job->o;
	uint64_t used;
	int rc = capkm_device_staging(o, job->g, bytes, &used, why, size);

	if (rc)
		return rc;
	o->observations++;
	if (used > o->staging_used)
		o->staging_used = used;
	capkm_device_view(job->g, job->tensor->t.address, bytes, &job->view);
	rc = capkm_device_observe(job);
	return rc ? tell(rc, job->err, why, size) : 0;
}

static int cuda_transform(void *context, const void *tensor,
			  const struct capkm_observe_geometry *geometry,
			  struct capkm_observe_payload *payload, char *why,
			  size_t size)
{
	struct capkm_observe_cuda *o = context;
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct device_tensor t;
	struct device_job job = {
		.o = o, .tensor = &t, .g = geometry, .payload = payload,
		.err = &err,
	};
	int rc = look(tensor, &t, why, size);

	if (!rc)
		rc = check_geometry(&t, geometry, payload, why, size);
	if (!rc && !capkm_observe_emitted(geometry)) {
		give_nothing(geometry, payload);
		return 0;
	}
	if (!rc)
		rc = enter(o, why, size);
	if (rc)
		return rc;
	pthread_mutex_lock(&o->lock);
	rc = observe(&job, why, size);
	pthread_mutex_unlock(&o->lock);
	pop(o);
	return rc;
}

static const struct capkm_observe_backend functions = {
	.sz = sizeof(functions),
	.capabilities = cuda_capabilities,
	.ready = cuda_ready,
	.describe = cuda_describe,
	.estimate = cuda_estimate,
	.transform = cuda_transform,
};
