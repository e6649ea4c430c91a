/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For tests of the bridge to CUDA: the driver that there is, a GPU or the stand-in, with
 * kernels for both; a client with a bridge; short forms of the calls. Memory here is an
 * array of WORDS words of 32 bits that are all the same, so that a result is one number.
 *
 * The program itself never touches CUDA, only its tests do, which are processes of their
 * own: CUDA does not survive a fork.
 */
#ifndef CAPKM_CUDA_TEST_H
#define CAPKM_CUDA_TEST_H

#include "../calls.h"
#include "../gate.h"
#include "../process.h"
#include "kernels.h"

#include <capkm/cuda.h>
#include <dlfcn.h>

#include "nodes.h"

#define WORDS	64u
#define BYTES	(WORDS * sizeof(uint32_t))

/* ------------------------------------------------------------------ driver */

/* CUdevResource, with room for a newer driver's. */
struct cu_resource {
	int type;
	unsigned char internal[92];
	unsigned int sms, smallest, alignment;
	unsigned char room[100];
};
#define CU_RESOURCE_SM		1
#define CU_GREEN_DEFAULT_STREAM	1u

/* What only tests call; the bridge calls CU_CALLS. As there, O() may be missing. */
#define CU_TEST_CALLS(X, O)						\
X(cuDeviceGetName, 2000, (char *name, int len, cu_device device))	\
X(cuDevicePrimaryCtxRetain, 7000, (cu_context *context, cu_device device)) \
X(cuDevicePrimaryCtxRelease, 11000, (cu_device device))			\
X(cuCtxCreate, 3020, (cu_context *context, unsigned int flags,		\
		      cu_device device))				\
X(cuCtxDestroy, 4000, (cu_context context))				\
X(cuCtxSetCurrent, 4000, (cu_context context))				\
X(cuStreamCreate, 2000, (cu_stream *stream, unsigned int flags))	\
X(cuStreamDestroy, 4000, (cu_stream stream))				\
X(cuStreamGetFlags, 5050, (cu_stream stream, unsigned int *flags))	\
X(cuStreamIsCapturing, 10000, (cu_stream stream, int *status))		\
X(cuMemAllocAsync, 11020, (cu_address *address, size_t bytes,		\
			   cu_stream stream))				\
X(cuMemFreeAsync, 11020, (cu_address address, cu_stream stream))	\
X(cuMemAllocHost, 3020, (void **address, size_t bytes))			\
X(cuMemFreeHost, 2000, (void *address))					\
X(cuMemcpyDtoH, 3020, (void *to, cu_address from, size_t bytes))	\
X(cuMemcpyHtoD, 3020, (cu_address to, const void *from, size_t bytes))	\
X(cuMemcpyHtoDAsync, 3020, (cu_address to, const void *from,		\
			    size_t bytes, cu_stream stream))		\
X(cuMemcpyDtoHAsync, 3020, (void *to, cu_address from, size_t bytes,	\
			    cu_stream stream))				\
X(cuMemCreate, 10020, (unsigned long long *handle, size_t bytes,	\
		       const struct cu_allocation_prop *prop,		\
		       unsigned long long flags))			\
X(cuMemGetAllocationGranularity, 10020, (size_t *bytes,			\
	const struct cu_allocation_prop *prop, int option))		\
X(cuGraphCreate, 10000, (cu_graph *graph, unsigned int flags))		\
X(cuGraphAddEmptyNode, 10000, (cu_node *node, cu_graph graph,		\
	const cu_node *dependencies, size_t len))			\
X(cuGraphAddBatchMemOpNode, 11070, (cu_node *node, cu_graph graph,	\
	const cu_node *dependencies, size_t len,			\
	const struct cu_mem_op_params *params))				\
O(cuGraphConditionalHandleCreate, 12030, (uint64_t *handle,		\
	cu_graph graph, cu_context context, unsigned int value,		\
	unsigned int flags))						\
O(cuGraphAddNode, 12030, (cu_node *node, cu_graph graph,		\
	const cu_node *dependencies, const void *edges, size_t len,	\
	struct cu_node_params *params))					\
O(cuStreamGetDevice, 12080, (cu_stream stream, cu_device *device))	\
O(cuDeviceGetDevResource, 12040, (cu_device device,			\
				  struct cu_resource *resource, int type)) \
O(cuDevSmResourceSplitByCount, 12040, (struct cu_resource *result,	\
	unsigned int *n, const struct cu_resource *input,		\
	struct cu_resource *rest, unsigned int flags, unsigned int least)) \
O(cuDevResourceGenerateDesc, 12040, (void **description,		\
	struct cu_resource *resources, unsigned int n))			\
O(cuGreenCtxCreate, 12040, (void **green, void *description,		\
			    cu_device device, unsigned int flags))	\
O(cuGreenCtxDestroy, 12040, (void *green))				\
O(cuCtxFromGreenCtx, 12040, (cu_context *context, void *green))		\
O(cuGreenCtxStreamCreate, 12050, (cu_stream *stream, void *green,	\
				  unsigned int flags, int priority))

#define CU_MEMBER(name, version, args) int (*name) args;
struct cu_table {
	CU_CALLS(CU_MEMBER, CU_MEMBER)
	CU_TEST_CALLS(CU_MEMBER, CU_MEMBER)
};
#undef CU_MEMBER

/* All of the driver, and of the stand-in if that is it. */
static struct cu_table cu T_UNUSED;
static struct standin standin T_UNUSED;
static bool is_standin T_UNUSED;

static T_UNUSED void *cu_library(void)
{
	return dlopen("libcuda.so.1", RTLD_NOW);
}

static T_UNUSED void cu_find_standin(void *library)
{
	is_standin = dlsym(library, "capkm_standin_calls");
	if (!is_standin)
		return;
#define STANDIN_FIND(type, name, args) \
	*(void **)&standin.name = dlsym(library, "capkm_standin_" #name);
	STANDIN_CALLS(STANDIN_FIND)
#undef STANDIN_FIND
}

static T_UNUSED void cu_find(void *library, const char *name, int version, void *to,
			     bool optional)
{
	int (*get)(const char *name, void **out, int version, uint64_t flags,
		   int *status);
	int status = 0;

	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	if (get && !get(name, to, version, 0, &status) && *(void **)to)
		return;
	*(void **)to = NULL;
	if (!optional)
		t_die("the driver has no %s", name);
}

/* Loads the driver and starts it. */
static T_UNUSED void cu_start_(void)
{
	void *library = cu_library();
	int rc;

	if (!library)
		t_die("%s", dlerror());
#define CU_FIND(name, version, args) \
	cu_find(library, #name, version, &cu.name, false);
#define CU_FIND_OPTIONAL(name, version, args) \
	cu_find(library, #name, version, &cu.name, true);
	CU_CALLS(CU_FIND, CU_FIND_OPTIONAL)
	CU_TEST_CALLS(CU_FIND, CU_FIND_OPTIONAL)
#undef CU_FIND
#undef CU_FIND_OPTIONAL
	cu_find_standin(library);
	rc = cu.cuInit(0);
	if (rc)
		t_die("cuInit: %d", rc);
}
#define cu_start() (T_AT, cu_start_())

static T_UNUSED const char *cu_name(int result)
{
	const char *name = NULL;

	cu.cuGetErrorName(result, &name);
	return name ? name : "unknown";
}

/* A call of the driver that goes well, and one that does not: CU(cuCtxSynchronize()) */
#define CU(call) CU_IS(0, call)
#define CU_IS(want, call) do {						\
	int got_ = cu.call;						\
									\
	ASSERT_EQ(want, got_) {						\
		TH_LOG(#call ": %s", cu_name(got_));			\
	}								\
} while (0)

/* The same in a helper. */
#define CU_DO(call) do {						\
	int got_ = cu.call;						\
									\
	if (got_)							\
		t_die(#call ": %s", cu_name(got_));			\
} while (0)

#define ONLY_STANDIN() do {						\
	if (!is_standin)						\
		SKIP(return, "only the stand-in can be told to do that");	\
} while (0)

#define ONLY_GPU() do {							\
	if (is_standin)							\
		SKIP(return, "needs a GPU");				\
} while (0)

#define NEEDS_DEVICES(n) do {						\
	int count_ = 0;							\
									\
	CU(cuDeviceGetCount(&count_));					\
	if (count_ < (n))						\
		SKIP(return, "needs %d devices", n);			\
} while (0)

/* Says which driver it is, in a process of its own. */
static T_UNUSED int cu_say_driver(void)
{
	char name[100] = "no device";
	int version = 0;

	cu_start();
	if (is_standin) {
		printf("# driver: stand-in\n");
	} else {
		cu.cuDriverGetVersion(&version);
		cu.cuDeviceGetName(name, sizeof(name), 0);
		printf("# driver: CUDA %d.%d, %s\n", version / 1000,
		       version % 1000 / 10, name);
	}
	fflush(stdout);
	return 0;
}

static T_UNUSED int cu_test_main(int argc, char **argv)
{
	int status = 1, pid;

	if (!cu_library()) {
		printf("# driver: none (%s)\n1..0 # SKIP no CUDA driver\n", dlerror());
		return 4;
	}
	pid = fork();
	if (!pid)
		_exit(cu_say_driver());
	if (waitpid(pid, &status, 0) != pid || status) {
		printf("# driver: does not start\n1..1\nnot ok 1 driver\n");
		return 1;
	}
	return test_harness_run(argc, argv);
}

/* At the end of a test program, instead of TEST_HARNESS_MAIN. */
#define CUDA_TEST_MAIN							\
int main(int argc, char **argv)						\
{									\
	return cu_test_main(argc, argv);				\
}

/* ----------------------------------------------------------------- clients */

/* Kernels of one context. */
struct kernels {
	void *module;
	cu_function inc, add, copy, hidden, bad, empty;
};

static T_UNUSED void k_load_(struct kernels *k)
{
	const void *image = kernels_ptx;

	if (is_standin)
		image = &kernels_image;
	CU_DO(cuModuleLoadData(&k->module, image));
	CU_DO(cuModuleGetFunction(&k->inc, k->module, "k_inc"));
	CU_DO(cuModuleGetFunction(&k->add, k->module, "k_add"));
	CU_DO(cuModuleGetFunction(&k->copy, k->module, "k_copy"));
	CU_DO(cuModuleGetFunction(&k->hidden, k->module, "k_hidden"));
	CU_DO(cuModuleGetFunction(&k->bad, k->module, "k_bad"));
	CU_DO(cuModuleGetFunction(&k->empty, k->module, "k_empty"));
}
#define k_load(k) (T_AT, k_load_(k))

/* A client with a bridge. Its context is that of a device, and current. */
struct gpu {
	struct cl *cl;
	struct capkm *c;
	struct capkm_cuda *b;
	cu_device device;
	cu_context context;
	struct kernels k;
};

/* A handle of this process that is attached to a domain of its own, or to @domain. */
static T_UNUSED struct cl *c_client_(u_int64_t domain)
{
	const struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.domain = domain, .backend = CAPKM_BACKEND_HARDWARE);
	struct cl *cl = t_client_();
	int rc = domain ? capkm_domain_attach(cl->c, NULL, &opts, &err) :
			  capkm_domain_create(cl->c, NULL, &opts, &err);

	if (rc)
		t_die("no domain: %d (%s)", rc, err.text);
	cl->domain = capkm_domain_id(cl->c);
	cl->session = capkm_session_id(cl->c);
	return cl;
}
#define c_client(domain) (T_AT, c_client_(domain))

static T_UNUSED void c_context_(struct gpu *g, int ordinal)
{
	cu_start_();
	CU_DO(cuDeviceGet(&g->device, ordinal));
	CU_DO(cuDevicePrimaryCtxRetain(&g->context, g->device));
	CU_DO(cuCtxSetCurrent(g->context));
	k_load_(&g->k);
}

#define c_open(g) (T_AT, c_open_with_(g, NULL, 0))
/* With options of the bridge, in a domain that exists. */
#define c_open_with(...) (T_AT, c_open_with_(__VA_ARGS__))
static T_UNUSED void c_open_with_(struct gpu *g, const struct capkm_cuda_opts *opts,
				  u_int64_t domain)
{
	int rc;

	c_context_(g, 0);
	g->cl = c_client_(domain);
	g->c = g->cl->c;
	rc = capkm_cuda_open(g->c, opts, &g->b, &err);
	if (rc)
		t_die("cuda_open: %d (%s)", rc, err.text);
}

/* With what the test left there; nothing may be left over. */
#define c_close(g) (T_AT, c_close_(g))
static T_UNUSED void c_close_(struct gpu *g)
{
	capkm_cuda_close(g->b);
	t_is_empty_(g->cl);
	t_close(g->cl);
	/* After a fault neither can be given back. */
	cu.cuModuleUnload(g->k.module);
	cu.cuDevicePrimaryCtxRelease(g->device);
	t_no_leaks_();
}

/* ----------------------------------------------------------------- streams */

#define CU_STREAM_NON_BLOCKING	1u

#define c_bind(g, stream) (T_AT, c_bind_(g, stream))
static T_UNUSED struct capkm_where c_bind_(struct gpu *g, cu_stream stream)
{
	struct capkm_where where = { 0 };
	int rc = capkm_cuda_stream_bind(g->b, stream, NULL, &where, &err);

	if (rc)
		t_die("stream_bind: %d (%s)", rc, err.text);
	return where;
}

/* A new stream that is bound. */
#define c_stream(g) (T_AT, c_stream_(g))
static T_UNUSED cu_stream c_stream_(struct gpu *g)
{
	cu_stream s = NULL;

	CU_DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	c_bind_(g, s);
	return s;
}

#define c_sync(g, stream) (T_AT, c_sync_(g, stream))
static T_UNUSED void c_sync_(struct gpu *g, cu_stream stream)
{
	int rc = capkm_cuda_stream_sync(g->b, stream, &err);

	if (rc)
		t_die("stream_sync: %d (%s)", rc, err.text);
}

static T_UNUSED int cu_status(cu_stream stream)
{
	int status = -1;

	if (cu.cuStreamGetCaptureInfo(stream, &status, NULL, NULL, NULL, NULL))
		return -1;
	return status;
}

/* ------------------------------------------------------------------ memory */

#define c_alloc(g) (T_AT, c_alloc_bytes_(g, BYTES))
#define c_alloc_bytes(g, bytes) (T_AT, c_alloc_bytes_(g, bytes))
static T_UNUSED uint64_t c_alloc_bytes_(struct gpu *g, uint64_t bytes)
{
	uint64_t m = 0;
	int rc = capkm_cuda_alloc(g->b, bytes, NULL, 0, &m, &err);

	if (rc)
		t_die("cuda_alloc: %d (%s)", rc, err.text);
	return m;
}

#define c_free(g, memory) (T_AT, c_free_(g, memory))
static T_UNUSED void c_free_(struct gpu *g, uint64_t memory)
{
	int rc = capkm_cuda_free(g->b, memory, &err);

	if (rc)
		t_die("cuda_free: %d (%s)", rc, err.text);
}

#define c_claim(g, memory) (T_AT, c_claim_(g, memory))
static T_UNUSED struct capkm_claim c_claim_(struct gpu *g, uint64_t memory)
{
	const struct capkm_cuda_range all = { memory, BYTES };
	struct capkm_claim claim = { 0 };
	uint32_t n = 1;
	int rc = capkm_cuda_claims(g->b, &all, &claim, &n, &err);

	if (rc || n != 1)
		t_die("cuda_claims: %d, %u (%s)", rc, n, err.text);
	return claim;
}

struct c_result {
	int rc;
	uint32_t result;
};

#define C_BEGIN								\
	struct c_result r_ = { .result = 0xcccccccc };			\
									\
	err.text[0] = 0;						\
	err.err = 0

/* It went well, and was not skipped. */
#define c_must(r, what) do {						\
	struct c_result m_ = r;						\
									\
	if (m_.rc || m_.result != CAPKM_CLEAN)				\
		t_die(what ": %d, %s (%s)", m_.rc,			\
		      capkm_result_name(m_.result), err.text);		\
} while (0)

/* All words of it, on the device. */
static T_UNUSED struct c_result c_try_set(struct gpu *g, cu_stream s, uint64_t memory,
					  uint32_t v)
{
	C_BEGIN;
	r_.rc = capkm_cuda_set(g->b, s, memory, BYTES, 4, v, &r_.result, &err);
	return r_;
}

#define c_set(...) (T_AT, c_set_(__VA_ARGS__))
static T_UNUSED void c_set_(struct gpu *g, cu_stream s, uint64_t memory, uint32_t v)
{
	c_must(c_try_set(g, s, memory, v), "cuda_set");
}

/* All words of it, from host memory that goes with the call: not in a window. */
#define c_write(...) (T_AT, c_write_(__VA_ARGS__))
static T_UNUSED void c_write_(struct gpu *g, cu_stream s, uint64_t memory, uint32_t v)
{
	uint32_t words[WORDS];
	struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = memory, .from = (uintptr_t)words, .bytes = BYTES);
	struct c_result r = { .result = 0xcccccccc };

	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = v;
	r.rc = capkm_cuda_copy(g->b, s, &copy, &r.result, &err);
	c_must(r, "cuda_copy");
	c_sync_(g, s);
}

/* New memory that holds @v. */
#define c_new(...) (T_AT, c_new_(__VA_ARGS__))
static T_UNUSED uint64_t c_new_(struct gpu *g, cu_stream s, uint32_t v)
{
	uint64_t m = c_alloc_bytes_(g, BYTES);

	c_write_(g, s, m, v);
	return m;
}

static T_UNUSED int c_try_read(struct gpu *g, cu_stream s, uint64_t memory,
			       uint32_t words[WORDS])
{
	const struct capkm_cuda_range all = { memory, BYTES };

	memset(words, 0xcc, BYTES);
	err.text[0] = 0;
	err.err = 0;
	return capkm_cuda_read(g->b, s, &all, words, &err);
}

static T_UNUSED void c_all_are_(const uint32_t words[WORDS], uint32_t v)
{
	for (uint32_t i = 0; i < WORDS; i++)
		if (words[i] != v)
			t_die("word %u is %u, not %u", i, words[i], v);
}

/* It can be read, and holds @v. */
#define c_is(...) (T_AT, c_is_(__VA_ARGS__))
static T_UNUSED void c_is_(struct gpu *g, cu_stream s, uint64_t memory, uint32_t v)
{
	uint32_t words[WORDS];
	int rc = c_try_read(g, s, memory, words);

	if (rc)
		t_die("cuda_read: %d (%s)", rc, err.text);
	c_all_are_(words, v);
}

/* What the device has, whatever the authority says of it. */
#define c_holds(memory, v) (T_AT, c_holds_(memory, v))
static T_UNUSED void c_holds_(uint64_t memory, uint32_t v)
{
	uint32_t words[WORDS];

	CU_DO(cuMemcpyDtoH(words, memory, BYTES));
	c_all_are_(words, v);
}

static T_UNUSED uint32_t c_check_(struct gpu *g, uint64_t memory,
				  struct capkm_report *report)
{
	struct capkm_claim claim = c_claim_(g, memory);
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = report,
					   .reports_len = 1);
	int rc = capkm_check(g->c, &claim, 1, &a, &err);

	if (rc)
		t_die("check: %d (%s)", rc, err.text);
	return a.out_result;
}

#define c_is_clean(g, memory) (T_AT, c_is_clean_(g, memory))
static T_UNUSED void c_is_clean_(struct gpu *g, uint64_t memory)
{
	struct capkm_report r = { 0 };

	if (c_check_(g, memory, &r) != CAPKM_CLEAN)
		t_die("not clean: %s (%s)", capkm_kind_name(r.kind), (char *)r.text);
}

/* Of that kind; 0 for any. */
#define c_is_tainted(g, memory, kind) (T_AT, c_is_tainted_(g, memory, kind))
static T_UNUSED struct capkm_report c_is_tainted_(struct gpu *g, uint64_t memory,
						  uint32_t kind)
{
	struct capkm_report r = { 0 };
	uint32_t result = c_check_(g, memory, &r);

	if (result != CAPKM_TAINTED || (kind && r.kind != kind))
		t_die("%s, kind %s (%s), not %s", capkm_result_name(result),
		      capkm_kind_name(r.kind), (char *)r.text, capkm_kind_name(kind));
	return r;
}

/* -------------------------------------------------------------------- work */

/* Ranges of a unit of work: all of some memories. */
#define ALL(m) { m, BYTES }
#define RANGES(...) (const struct capkm_cuda_range[]){ __VA_ARGS__ }, \
	sizeof((const struct capkm_cuda_range[]){ __VA_ARGS__ }) / \
	sizeof(struct capkm_cuda_range)
#define NO_RANGES ((const struct capkm_cuda_range *)NULL), 0

/* One thread for each word. */
static T_UNUSED struct c_result c_try_launch(struct gpu *g, cu_stream s, cu_function fn,
	void **params, const struct capkm_cuda_range *reads, uint32_t reads_len,
	const struct capkm_cuda_range *writes, uint32_t writes_len)
{
	const struct capkm_cuda_launch launch = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = fn, .grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 },
		.params = params);
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = "kernel", .reads = reads, .reads_len = reads_len,
		.writes = writes, .writes_len = writes_len);

	C_BEGIN;
	r_.rc = capkm_cuda_launch(g->b, s, &launch, &work, &r_.result, &err);
	return r_;
}

/* to += 1 */
static T_UNUSED struct c_result c_try_inc(struct gpu *g, cu_stream s, uint64_t to)
{
	uint32_t n = WORDS;
	void *params[] = { &to, &n };

	return c_try_launch(g, s, g->k.inc, params, RANGES(ALL(to)), RANGES(ALL(to)));
}

#define c_inc(...) (T_AT, c_inc_(__VA_ARGS__))
static T_UNUSED void c_inc_(struct gpu *g, cu_stream s, uint64_t to)
{
	c_must(c_try_inc(g, s, to), "inc");
}

/* to = a + b */
static T_UNUSED struct c_result c_try_add(struct gpu *g, cu_stream s, uint64_t to,
					  uint64_t a, uint64_t b)
{
	uint32_t n = WORDS;
	void *params[] = { &to, &a, &b, &n };

	return c_try_launch(g, s, g->k.add, params, RANGES(ALL(a), ALL(b)),
			    RANGES(ALL(to)));
}

#define c_add(...) (T_AT, c_add_(__VA_ARGS__))
static T_UNUSED void c_add_(struct gpu *g, cu_stream s, uint64_t to, uint64_t a,
			    uint64_t b)
{
	c_must(c_try_add(g, s, to, a, b), "add");
}

/* to = from, by a kernel */
static T_UNUSED struct c_result c_try_copy(struct gpu *g, cu_stream s, uint64_t to,
					   uint64_t from)
{
	uint32_t n = WORDS;
	void *params[] = { &to, &from, &n };

	return c_try_launch(g, s, g->k.copy, params, RANGES(ALL(from)),
			    RANGES(ALL(to)));
}

#define c_copy(...) (T_AT, c_copy_(__VA_ARGS__))
static T_UNUSED void c_copy_(struct gpu *g, cu_stream s, uint64_t to, uint64_t from)
{
	c_must(c_try_copy(g, s, to, from), "copy");
}

/* to = v, through a pointer inside of a struct; no scope names it. */
#define c_hidden(...) (T_AT, c_hidden_(__VA_ARGS__))
static T_UNUSED void c_hidden_(struct gpu *g, cu_stream s, uint64_t to, uint32_t v)
{
	struct hidden h = { .n = WORDS, .to = to, .value = v };
	void *params[] = { &h };

	c_must(c_try_launch(g, s, g->k.hidden, params, NO_RANGES, NO_RANGES), "hidden");
}

/* Writes to a bad address; its scope says that it writes @to. */
static T_UNUSED struct c_result c_try_bad(struct gpu *g, cu_stream s, uint64_t to)
{
	return c_try_launch(g, s, g->k.bad, NULL, NO_RANGES, RANGES(ALL(to)));
}

#define c_bad(...) (T_AT, c_bad_(__VA_ARGS__))
static T_UNUSED void c_bad_(struct gpu *g, cu_stream s, uint64_t to)
{
	c_must(c_try_bad(g, s, to), "bad");
}

static T_UNUSED void c_pass_(void *gate)
{
	gate_pass(gate);
}

/* What is issued on the stream after it waits for the gate. */
#define c_gate(...) (T_AT, c_gate_(__VA_ARGS__))
static T_UNUSED void c_gate_(cu_stream s, struct gate *gate)
{
	CU_DO(cuLaunchHostFunc(s, c_pass_, gate));
}

/* ----------------------------------------------------------------- windows */

#define c_prepare(g, s) (T_AT, c_prepare_(g, s, NULL))
#define c_prepare_with(...) (T_AT, c_prepare_(__VA_ARGS__))
static T_UNUSED uint64_t c_prepare_(struct gpu *g, cu_stream s,
				    const struct capkm_cuda_graph_opts *opts)
{
	uint64_t w = 0;
	int rc = capkm_cuda_graph_prepare(g->b, s, opts, &w, &err);

	if (rc || !w)
		t_die("graph_prepare: %d (%s)", rc, err.text);
	return w;
}

#define c_begin(g, s) (T_AT, c_begin_(g, s))
static T_UNUSED void c_begin_(struct gpu *g, cu_stream s)
{
	int rc = capkm_cuda_graph_begin(g->b, s, &err);

	if (rc)
		t_die("graph_begin: %d (%s)", rc, err.text);
}

/* Both, without a warm-up. */
#define c_record(g, s) (T_AT, c_record_(g, s, NULL))
#define c_record_with(...) (T_AT, c_record_(__VA_ARGS__))
static T_UNUSED uint64_t c_record_(struct gpu *g, cu_stream s,
				   const struct capkm_cuda_graph_opts *opts)
{
	uint64_t w = c_prepare_(g, s, opts);

	c_begin_(g, s);
	return w;
}

#define c_end(g, s) (T_AT, c_end_(g, s))
static T_UNUSED uint64_t c_end_(struct gpu *g, cu_stream s)
{
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	uint64_t graph = 0;
	int rc = capkm_cuda_graph_end(g->b, s, &graph, &a, &err);

	if (rc || !graph || a.out_result != CAPKM_CLEAN)
		t_die("graph_end: %d, graph %" PRIu64 ", %s (%s)", rc, graph,
		      capkm_result_name(a.out_result), err.text);
	return graph;
}

/* Ended, and there is no graph, nor a capture; why is in err. */
#define c_end_refused(g, s) (T_AT, c_end_fails_(g, s, -ESTALE))
#define c_end_fails(g, s, rc) (T_AT, c_end_fails_(g, s, rc))
static T_UNUSED void c_end_fails_(struct gpu *g, cu_stream s, int want)
{
	uint64_t graph = 0xcccccccc;
	int rc;

	err.text[0] = 0;
	rc = capkm_cuda_graph_end(g->b, s, &graph, NULL, &err);
	if (rc != want || graph)
		t_die("graph_end: %d, not %d, graph %" PRIu64 " (%s)", rc, want, graph,
		      err.text);
	if (strncmp(err.text, "end_capture: ", 13))
		t_die("no \"end_capture: \" at the beginning of: %s", err.text);
	if (cu_status(s) != CU_CAPTURE_NONE)
		t_die("the stream still captures: %d", cu_status(s));
}

#define c_abort(g, s) (T_AT, c_abort_(g, s))
static T_UNUSED void c_abort_(struct gpu *g, cu_stream s)
{
	int rc = capkm_cuda_graph_abort(g->b, s, &err);

	if (rc)
		t_die("graph_abort: %d (%s)", rc, err.text);
}

static T_UNUSED struct c_result c_try_replay(struct gpu *g, cu_stream s, uint64_t graph)
{
	C_BEGIN;
	r_.rc = capkm_cuda_graph_replay(g->b, s, graph, &r_.result, NULL, &err);
	return r_;
}

#define c_replay(...) (T_AT, c_replay_(__VA_ARGS__))
static T_UNUSED void c_replay_(struct gpu *g, cu_stream s, uint64_t graph)
{
	c_must(c_try_replay(g, s, graph), "graph_replay");
}

#define c_destroy(g, graph) (T_AT, c_destroy_(g, graph))
static T_UNUSED void c_destroy_(struct gpu *g, uint64_t graph)
{
	int rc = capkm_cuda_graph_destroy(g->b, graph, &err);

	if (rc)
		t_die("graph_destroy: %d (%s)", rc, err.text);
}

#define c_query(g, graph) (T_AT, c_query_(g, graph))
static T_UNUSED struct capkm_cuda_graph_query c_query_(struct gpu *g, uint64_t graph)
{
	struct capkm_cuda_graph_query q = CAPKM_OPTS(struct capkm_cuda_graph_query);
	int rc = capkm_cuda_graph_query(g->b, graph, &q, &err);

	if (rc)
		t_die("graph_query: %d (%s)", rc, err.text);
	return q;
}

/* ------------------------------------------------------------------ events */

#define CU_EVENT_INTERPROCESS	4u

#define c_event() (T_AT, c_event_(0))
/* One that other processes can open. */
#define c_shared_event() (T_AT, c_event_(CU_EVENT_INTERPROCESS))
static T_UNUSED cu_event c_event_(unsigned int flags)
{
	cu_event e = NULL;

	CU_DO(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | flags));
	return e;
}

#define c_event_record(...) (T_AT, c_event_record_(__VA_ARGS__))
static T_UNUSED void c_event_record_(struct gpu *g, cu_event e, cu_stream s)
{
	int rc = capkm_cuda_event_record(g->b, e, s, &err);

	if (rc)
		t_die("event_record: %d (%s)", rc, err.text);
}

/* The stream waits for the event. */
#define c_wait(...) (T_AT, c_wait_(__VA_ARGS__))
static T_UNUSED void c_wait_(struct gpu *g, cu_stream s, cu_event e)
{
	int rc = capkm_cuda_stream_wait(g->b, s, e, &err);

	if (rc)
		t_die("stream_wait: %d (%s)", rc, err.text);
}

#endif /* CAPKM_CUDA_TEST_H */
