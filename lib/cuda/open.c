// SPDX-License-Identifier: MIT
/* The bridge as a whole, its contexts, and words for what the driver says. */
#include "cuda.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int capkm_cuda_usable(struct capkm_cuda *cuda, const char *call,
		      struct capkm_error *err)
{
	if (!capkm_inherited(cuda->c) &&
	    cuda->c->generation == cuda->generation)
		return 0;
	return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0,
		"%s: the bridge was inherited through fork and belongs to the parent; CUDA does not survive a fork",
		call);
}

const char *capkm_cu_name(struct capkm_cuda *cuda, int result)
{
	const char *name = NULL;

	cuda->cu.cuGetErrorName(result, &name);
	return name ? name : "unknown error";
}

static int errno_of(int result)
{
	switch (result) {
	case CU_OUT_OF_MEMORY:
		return -ENOMEM;
	case CU_INVALID_VALUE:
	case CU_INVALID_CONTEXT:
	case CU_INVALID_HANDLE:
	case CU_NOT_FOUND:
		return -EINVAL;
	default:
		return result >= CU_CAPTURE_FIRST && result <= CU_CAPTURE_LAST ?
			-EBUSY : -EREMOTEIO;
	}
}

/*
 * Results after which the context is lost: every later call on it says the same, and
 * nothing but a new process helps. From the descriptions of CUresult in cuda.h ("leaves
 * the process in an inconsistent state", "the context cannot be used").
 */
static const int sticky[] = {
	214,	/* ECC_UNCORRECTABLE */
	220,	/* NVLINK_UNCORRECTABLE */
	226,	/* CONTAINED */
	700,	/* ILLEGAL_ADDRESS */
	702,	/* LAUNCH_TIMEOUT */
	709,	/* CONTEXT_IS_DESTROYED */
	710,	/* ASSERT */
	714,	/* HARDWARE_STACK_ERROR */
	715,	/* ILLEGAL_INSTRUCTION */
	716,	/* MISALIGNED_ADDRESS */
	717,	/* INVALID_ADDRESS_SPACE */
	718,	/* INVALID_PC */
	719,	/* LAUNCH_FAILED */
	721,	/* TENSOR_MEMORY_LEAK */
	806,	/* MPS_RPC_FAILURE */
	810,	/* MPS_CLIENT_TERMINATED */
	911,	/* EXTERNAL_DEVICE */
	999,	/* UNKNOWN */
};

int capkm_cuda_is_sticky(int result)
{
	size_t i;

	for (i = 0; i < sizeof(sticky) / sizeof(*sticky); i++)
		if (sticky[i] == result)
			return 1;
	return 0;
}

/*
 * The calling thread's, if the bridge knows it: the newest of that handle whose id is not
 * another one's, for a context that is lost may not tell its id.
 */
static struct context *thread_context(struct capkm_cuda *cuda)
{
	unsigned long long id;
	struct context *c;
	cu_context handle;
	bool asked;

	if (cuda->cu.cuCtxGetCurrent(&handle) || !handle)
		return NULL;
	asked = !cuda->cu.cuCtxGetId(handle, &id);
	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(c, &cuda->contexts, next)
		if (c->handle == handle && (!asked || c->id == id))
			break;
	pthread_mutex_unlock(&cuda->lock);
	return c;
}

/*
 * Under a lock of its own: a second thread that has heard the same must not tell it when
 * the first one's caller has renewed the context.
 */
static void notice(struct capkm_cuda *cuda, struct context *context,
		   const struct capkm_where *where, int result,
		   const char *function)
{
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];

	if (!capkm_cuda_is_sticky(result))
		return;
	capkm_cu_cause(cuda, result, function, &cause, text, sizeof(text));
	cause.kind = 0;		/* it is always a fault */
	pthread_mutex_lock(&cuda->faulting);
	if (!atomic_load(&context->lost) &&
	    !capkm_stream_fault(cuda->c, where, &cause, NULL, NULL, NULL))
		atomic_store(&context->lost, true);
	pthread_mutex_unlock(&cuda->faulting);
}

void capkm_context_works(struct context *context, bool was_lost)
{
	if (was_lost)
		atomic_store(&context->lost, false);
}

/* The device of a context, and no slot of it. */
static struct capkm_where place_of(const struct context *context)
{
	struct capkm_where where = { .slot = 0 };

	memcpy(where.device, context->uuid, sizeof(where.device));
	return where;
}

static int say(struct capkm_cuda *cuda, int result, const char *call,
	       const char *function, struct capkm_error *err)
{
	const char *text = NULL;
	int rc;

	if (!result || !err)
		return result ? errno_of(result) : 0;
	cuda->cu.cuGetErrorString(result, &text);
	rc = capkm_error_set(err, errno_of(result), CAPKM_NO_INDEX, 0,
		"%s: %s: %s (%d)%s%s", call, function,
		capkm_cu_name(cuda, result), result, text ? ": " : "",
		text ? text : "");
	capkm_error_code(err, result);
	return rc;
}

int capkm_cu_error(struct capkm_cuda *cuda, int result, const char *call,
		   const char *function, struct capkm_error *err)
{
	/* Of a context that the bridge does not know it has nothing to lose. */
	struct context *here = capkm_cuda_is_sticky(result) ?
		thread_context(cuda) : NULL;

	if (here)
		return capkm_cu_error_at(cuda, here, result, call, function, err);
	return say(cuda, result, call, function, err);
}

int capkm_cu_error_on(struct capkm_cuda *cuda, const struct stream *stream,
		      int result, const char *call, const char *function,
		      struct capkm_error *err)
{
	struct capkm_where where;

	if (!stream)
		return capkm_cu_error(cuda, result, call, function, err);
	if (stream->context) {
		where = capkm_stream_place(stream);
		notice(cuda, stream->context, &where, result, function);
	}
	return say(cuda, result, call, function, err);
}

int capkm_cu_error_at(struct capkm_cuda *cuda, struct context *context,
		      int result, const char *call, const char *function,
		      struct capkm_error *err)
{
	const struct capkm_where where = place_of(context);

	notice(cuda, context, &where, result, function);
	return say(cuda, result, call, function, err);
}

int capkm_cu_error_sent(struct capkm_cuda *cuda, int result, const char *call,
			const char *function, const char *what,
			struct capkm_error *err)
{
	if (result != CU_UNKNOWN && result != CU_MAP_FAILED)
		return capkm_cu_error(cuda, result, call, function, err);
	capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0, "%s: %s: %s (%d): %s",
			call, function, capkm_cu_name(cuda, result), result,
			what);
	capkm_error_code(err, result);
	return -EINVAL;
}

void capkm_cu_cause(struct capkm_cuda *cuda, int result, const char *function,
		    struct capkm_cause *cause, char *text, size_t size)
{
	const char *words = NULL;

	cuda->cu.cuGetErrorString(result, &words);
	snprintf(text, size, "%s: %s%s%s", function,
		 capkm_cu_name(cuda, result), words ? ": " : "",
		 words ? words : "");
	*cause = (struct capkm_cause)CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_DRIVER, .code = result, .text = text);
}

int capkm_cu_relax(struct capkm_cuda *cuda)
{
	int mode = CU_MODE_RELAXED;

	cuda->cu.cuThreadExchangeStreamCaptureMode(&mode);
	return mode;
}

void capkm_cu_restore(struct capkm_cuda *cuda, int mode)
{
	cuda->cu.cuThreadExchangeStreamCaptureMode(&mode);
}

static struct context *known_context(struct capkm_cuda *cuda,
				     unsigned long long id)
{
	struct context *c;

	SLIST_FOREACH(c, &cuda->contexts, next)
		if (c->id == id)
			return c;
	return NULL;
}

/* The current context is @handle. */
static int ask_context(struct capkm_cuda *cuda, struct context *c,
		       const char *call, struct capkm_error *err)
{
	struct cu_uuid uuid;
	int rc = cu_call(cuda, err, call, cuCtxGetId, c->handle, &c->id);

	if (!rc)
		rc = cu_call(cuda, err, call, cuCtxGetDevice, &c->ordinal);
	if (!rc)
		rc = cu_call(cuda, err, call, cuDeviceGetUuid, &uuid,
			     c->ordinal);
	if (!rc)
		memcpy(c->uuid, uuid.bytes, sizeof(c->uuid));
	return rc;
}

int capkm_cuda_context(struct capkm_cuda *cuda, const char *call,
		       struct context **out, struct capkm_error *err)
{
	struct context new = { .handle = NULL }, *c;
	int rc = cu_call(cuda, err, call, cuCtxGetCurrent, &new.handle);

	if (rc)
		return rc;
	if (!new.handle)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the calling thread has no current context", call);
	rc = ask_context(cuda, &new, call, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	c = known_context(cuda, new.id);
	if (!c) {
		c = malloc(sizeof(*c));
		if (c) {
			*c = new;
			atomic_init(&c->lost, false);
			SLIST_INSERT_HEAD(&cuda->contexts, c, next);
		}
	}
	pthread_mutex_unlock(&cuda->lock);
	if (!c)
		return capkm_no_memory(call, err);
	*out = c;
	return 0;
}

int capkm_cuda_push(struct capkm_cuda *cuda, struct context *context,
		    const char *call, struct capkm_error *err)
{
	return capkm_cu_error_at(cuda, context,
				 cuda->cu.cuCtxPushCurrent(context->handle),
				 call, "cuCtxPushCurrent", err);
}

void capkm_cuda_pop(struct capkm_cuda *cuda)
{
	cu_context old;

	cuda->cu.cuCtxPopCurrent(&old);
}

int capkm_cuda_event_new(struct capkm_cuda *cuda, struct context *context,
			 const char *call, cu_event *event,
			 struct capkm_error *err)
{
	int mode, result, rc = capkm_cuda_push(cuda, context, call, err);

	if (rc)
		return rc;
	mode = capkm_cu_relax(cuda);
	result = cuda->cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
	capkm_cu_restore(cuda, mode);
	capkm_cuda_pop(cuda);
	return capkm_cu_error_at(cuda, context, result, call, "cuEventCreate",
				 err);
}

static int check_handle(struct capkm *c, struct capkm_error *err)
{
	int rc = capkm_not_inherited(c, "cuda_open", err);

	if (rc)
		return rc;
	if (!capkm_domain_id(c))
		return capkm_error_set(err, -ENOTCONN, CAPKM_NO_INDEX, 0,
			"cuda_open: the handle is not attached to a domain");
	if (atomic_load(&c->backend) != CAPKM_BACKEND_HARDWARE)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"cuda_open: the session was attached for another kind of backend; attach one with CAPKM_BACKEND_HARDWARE");
	if (atomic_exchange(&c->has_executor, true))
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"cuda_open: the handle has a bridge already");
	return 0;
}

static void release_handle(struct capkm *c)
{
	atomic_store(&c->has_executor, false);
}

int capkm_cuda_open(struct capkm *c, const struct capkm_cuda_opts *opts,
		    struct capkm_cuda **out, struct capkm_error *err)
{
	struct capkm_cuda_opts o;
	struct capkm_cuda *cuda;
	int rc = capkm_opts(&o, sizeof(o), opts, "cuda_open", err);

	if (rc)
		return rc;
	if (o.flags & ~CAPKM_CUDA_F_PER_THREAD || o.__reserved)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_open: flags 0x%x; only CAPKM_CUDA_F_PER_THREAD is known",
			o.flags);
	rc = check_handle(c, err);
	if (rc)
		return rc;
	cuda = calloc(1, sizeof(*cuda));
	if (!cuda) {
		release_handle(c);
		return capkm_no_memory("cuda_open", err);
	}
	cuda->c = c;
	cuda->generation = c->generation;
	cuda->per_thread = o.flags & CAPKM_CUDA_F_PER_THREAD;
	pthread_mutex_init(&cuda->lock, NULL);
	pthread_cond_init(&cuda->settled, NULL);
	pthread_mutex_init(&cuda->faulting, NULL);
	pthread_mutex_init(&cuda->binding, NULL);
	rc = capkm_cu_load(&cuda->cu, o.library, cuda->per_thread, err);
	if (rc) {
		release_handle(c);
		free(cuda);
		return rc;
	}
	*out = cuda;
	return 0;
}

int capkm_cuda_driver_version(const struct capkm_cuda *cuda)
{
	return cuda->cu.version;
}

/* Windows first: they let go of the streams that have joined. */
static void close_streams(struct capkm_cuda *cuda)
{
	struct stream *s;

	SLIST_FOREACH(s, &cuda->streams, next)
		capkm_stream_drop_window(cuda, s);
	while ((s = SLIST_FIRST(&cuda->streams))) {
		SLIST_REMOVE_HEAD(&cuda->streams, next);
		s->unbound = true;
		s->listed = false;
		capkm_stream_put(cuda, s);
	}
}

/* A child has no driver that works: its copy of the lists stays where it is. */
void capkm_cuda_close(struct capkm_cuda *cuda)
{
	struct context *c;

	if (!cuda || capkm_cuda_usable(cuda, "cuda_close", NULL))
		return;
	close_streams(cuda);
	capkm_cuda_graphs_close(cuda);
	capkm_cuda_events_close(cuda);
	capkm_cuda_memory_close(cuda);
	while ((c = SLIST_FIRST(&cuda->contexts))) {
		SLIST_REMOVE_HEAD(&cuda->contexts, next);
		free(c);
	}
	pthread_mutex_destroy(&cuda->binding);
	pthread_mutex_destroy(&cuda->faulting);
	pthread_cond_destroy(&cuda->settled);
	pthread_mutex_destroy(&cuda->lock);
	/* The driver stays: threads of it may run, and others may use it. */
	release_handle(cuda->c);
	free(cuda);
}
