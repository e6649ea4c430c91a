// SPDX-License-Identifier: GPL-2.0-only
/* What every call does first, and what has to do with no GPU at all. */
#include "sim.h"

#include <dlfcn.h>
#include <stdio.h>

#define VERSION	13000

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static bool started, forked;

int environment(const char *name, int otherwise)
{
	const char *s = getenv(name);

	return s && *s ? atoi(s) : otherwise;
}

unsigned int thread_number(void)
{
	static unsigned int last;
	static __thread unsigned int mine;

	if (!mine)
		mine = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
	return mine;
}

/* calls, counted, and errors at will */

struct counted {
	SLIST_ENTRY(counted) next;
	char name[64];
	uint64_t calls;
};
static SLIST_HEAD(, counted) counts = SLIST_HEAD_INITIALIZER(counts);

struct wish {
	SLIST_ENTRY(wish) next;
	char name[64];
	uint64_t at;
	int code;
};
static SLIST_HEAD(, wish) wishes = SLIST_HEAD_INITIALIZER(wishes);

static struct counted *count_of(const char *name)
{
	struct counted *c;

	SLIST_FOREACH(c, &counts, next)
		if (!strcmp(c->name, name))
			return c;
	c = calloc(1, sizeof(*c));
	snprintf(c->name, sizeof(c->name), "%s", name);
	SLIST_INSERT_HEAD(&counts, c, next);
	return c;
}

static int wished(const char *name, uint64_t call)
{
	struct wish *w;
	int code;

	SLIST_FOREACH(w, &wishes, next)
		if (w->at == call && !strcmp(w->name, name))
			break;
	if (!w)
		return 0;
	code = w->code;
	SLIST_REMOVE(&wishes, w, wish, next);
	free(w);
	return code;
}

static void forget_wishes(const char *name)
{
	struct wish *w, *next;

	for (w = SLIST_FIRST(&wishes); w; w = next) {
		next = SLIST_NEXT(w, next);
		if (strcmp(w->name, name))
			continue;
		SLIST_REMOVE(&wishes, w, wish, next);
		free(w);
	}
}

EXPORT void capkm_standin_fail(const char *name, unsigned int n, int code);
void capkm_standin_fail(const char *name, unsigned int n, int code)
{
	struct wish *w;

	pthread_mutex_lock(&lock);
	if (!n) {
		forget_wishes(name);
		pthread_mutex_unlock(&lock);
		return;
	}
	w = calloc(1, sizeof(*w));
	snprintf(w->name, sizeof(w->name), "%s", name);
	w->at = count_of(name)->calls + n;
	w->code = code;
	SLIST_INSERT_HEAD(&wishes, w, next);
	pthread_mutex_unlock(&lock);
}

EXPORT uint64_t capkm_standin_calls(const char *name);
uint64_t capkm_standin_calls(const char *name)
{
	uint64_t n;

	pthread_mutex_lock(&lock);
	n = count_of(name)->calls;
	pthread_mutex_unlock(&lock);
	return n;
}

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

/* These work without a driver, and these without a context that works. */
static const char *const always[] = {
	"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
	NULL
};
static const char *const of_no_context[] = {
	"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid",
	"cuCtxGetCurrent", "cuCtxPushCurrent", "cuCtxPopCurrent",
	"cuCtxSetCurrent", "cuCtxGetDevice", "cuCtxGetId",
	"cuDevicePrimaryCtxRelease", "cuThreadExchangeStreamCaptureMode",
	"cuPointerGetAttribute", "cuUserObjectCreate", "cuUserObjectRelease",
	"cuGraphRetainUserObject", "cuGraphDestroy", "cuGraphExecDestroy", NULL
};

static int may_call(const char *name)
{
	cu_context c = current();

	if (is_one_of(name, always))
		return 0;
	if (!started)
		return NOT_INITIALIZED;
	if (c && c->lost && !is_one_of(name, of_no_context))
		return c->lost;
	return 0;
}

/* What the thread does at the moment. */
static __thread const char *calling;
static __thread bool calls_back;

void gone(const char *what, const void *handle)
{
	fflush(stdout);
	fprintf(stderr, "# stand-in: %s: there is no such %s any more: %p\n",
		calling ? calling : "a thread", what, handle);
	abort();
}

void callback(void (*fn)(void *), void *context)
{
	calls_back = true;
	fn(context);
	calls_back = false;
}

/*
 * A capture ends whatever its end answers: an error at will is what it answers then.
 */
static __thread int end_wish;

int wished_end(void)
{
	int rc = end_wish;

	end_wish = 0;
	return rc;
}

int enter(const char *name)
{
	int rc;

	if (forked)
		return NOT_INITIALIZED;
	if (calls_back)
		return NOT_PERMITTED;
	calling = name;
	pthread_mutex_lock(&lock);
	rc = wished(name, ++count_of(name)->calls);
	if (rc && !strcmp(name, "cuStreamEndCapture")) {
		end_wish = rc;
		rc = 0;
	}
	if (!rc)
		rc = may_call(name);
	if (rc) {
		calling = NULL;
		pthread_mutex_unlock(&lock);
	}
	return rc;
}

/* Callbacks that wait for the end of the call, or for a thread of their own. */
struct later {
	STAILQ_ENTRY(later) next;
	void (*fn)(void *);
	void *context;
};
STAILQ_HEAD(laters, later);

static struct laters waiting = STAILQ_HEAD_INITIALIZER(waiting);
static pthread_cond_t to_call = PTHREAD_COND_INITIALIZER;
static __thread struct later *at_end;

int leave(int rc)
{
	struct later *l;

	calling = NULL;
	pthread_mutex_unlock(&lock);
	while ((l = at_end)) {
		at_end = STAILQ_NEXT(l, next);
		callback(l->fn, l->context);
		free(l);
	}
	return rc;
}

/* A child has no threads of the driver's. */
static void child(void)
{
	forked = started;
}

CALL(cuInit, (unsigned int flags), (flags))
{
	static bool watches;
	int rc = environment("CAPKM_STANDIN_INIT", 0);

	if (!watches)
		pthread_atfork(NULL, NULL, child);
	watches = true;
	devices = environment("CAPKM_STANDIN_DEVICES", 2);
	lazy = environment("CAPKM_STANDIN_LAZY", 0);
	started = !rc;
	return rc;
}

CALL(cuDriverGetVersion, (int *version), (version))
{
	*version = environment("CAPKM_STANDIN_VERSION", VERSION);
	return 0;
}

static const struct {
	int code;
	const char *name, *text;
} errors[] = {
	{ 0, "CUDA_SUCCESS", "no error" },
	{ 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
	{ 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
	{ 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ 401, "CUDA_ERROR_ILLEGAL_STATE",
	  "the operation cannot be performed in the present state" },
	{ 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ 600, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ 709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ 900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	  "operation not permitted when stream is capturing" },
	{ 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
	  "operation failed due to a previous error during capture" },
	{ 902, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
	  "operation would result in a merge of separate capture sequences" },
	{ 903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
	  "capture was not ended in the same stream as it began" },
	{ 904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
	  "capturing stream has unjoined work" },
	{ 905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
	  "dependency created on uncaptured work in another stream" },
	{ 906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
	  "operation would make the legacy stream depend on a capturing blocking stream" },
	{ 907, "CUDA_ERROR_CAPTURED_EVENT",
	  "operation not permitted on an event last recorded in a capturing stream" },
	{ 908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
	  "attempt to terminate a thread-local capture sequence from another thread" },
	{ 910, "CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE",
	  "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

static int find_error(int code)
{
	size_t i;

	for (i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			return (int)i;
	return -1;
}

CALL(cuGetErrorName, (int result, const char **name), (result, name))
{
	int i = find_error(result);

	*name = i < 0 ? NULL : errors[i].name;
	return i < 0 ? CU_INVALID_VALUE : 0;
}

CALL(cuGetErrorString, (int result, const char **text), (result, text))
{
	int i = find_error(result);

	*text = i < 0 ? NULL : errors[i].text;
	return i < 0 ? CU_INVALID_VALUE : 0;
}

/* So that none is forgotten. */
#define ADDRESS(name, version, args) (void *)name,
static void *const all[] __attribute__((used)) = { CU_CALLS(ADDRESS, ADDRESS) };

static void *self(void)
{
	Dl_info info;

	return dladdr(all, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) :
				    NULL;
}

#define PER_THREAD	2u

/* Functions of per-thread default streams are as old as those streams: CUDA 7.0. */
static bool has_per_thread(const char *name)
{
	static const char *const others[] = {
		"cuEventRecord", "cuLaunchKernel", "cuLaunchHostFunc",
		"cuGraphLaunch", "cuGraphUpload", "cuMemcpyDtoH",
		"cuMemcpyHtoD", NULL
	};

	return is_one_of(name, others) || strstr(name, "Async") ||
	       (!strncmp(name, "cuStream", 8) &&
		strcmp(name, "cuStreamCreate") && strcmp(name, "cuStreamDestroy"));
}

EXPORT int cuGetProcAddress_v2(const char *name, void **out, int version,
			       uint64_t flags, int *status);
int cuGetProcAddress_v2(const char *name, void **out, int version,
			uint64_t flags, int *status)
{
	const char *lacks = getenv("CAPKM_STANDIN_LACKS");
	void *library = self();

	*out = NULL;
	if (library && version <= environment("CAPKM_STANDIN_VERSION", VERSION) &&
	    !(flags & PER_THREAD && version < 7000 && has_per_thread(name)) &&
	    (!lacks || strcmp(lacks, name)))
		*out = dlsym(library, name);
	if (library)
		dlclose(library);
	if (status)
		*status = *out ? 0 : 1;
	return *out ? 0 : NOT_FOUND;
}

/* callbacks */

static void *call_them(void *unused)
{
	struct later *l;

	pthread_mutex_lock(&lock);
	for (;;) {
		l = STAILQ_FIRST(&waiting);
		if (!l) {
			pthread_cond_wait(&to_call, &lock);
			continue;
		}
		STAILQ_REMOVE_HEAD(&waiting, next);
		pthread_mutex_unlock(&lock);
		callback(l->fn, l->context);
		free(l);
		pthread_mutex_lock(&lock);
	}
	return unused;
}

void call_later(void (*fn)(void *), void *context)
{
	static bool runs;
	struct later *l = calloc(1, sizeof(*l));
	pthread_t thread;

	l->fn = fn;
	l->context = context;
	if (calling) {
		STAILQ_NEXT(l, next) = at_end;
		at_end = l;
		return;
	}
	STAILQ_INSERT_TAIL(&waiting, l, next);
	if (!runs && !pthread_create(&thread, NULL, call_them, NULL))
		runs = !pthread_detach(thread);
	pthread_cond_signal(&to_call);
}
