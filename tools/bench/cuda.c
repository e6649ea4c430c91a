// SPDX-License-Identifier: GPL-2.0-only
/*
 * What capkm costs beside the CUDA driver: launches and replays of graphs, bare and through
 * the bridge, in turns. The kernel does nothing. Each batch begins with an idle stream, and is
 * waited for without being timed.
 */
#include "bench.h"

#include <capkm/cuda.h>
#include <dlfcn.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../selftests/cuda/standin/standin.h"

/* As selftests have it: what this program needs is not here. */
#define STATUS_SKIP	4

#define BYTES		4096u
#define CLAIMS_MAX	2000u
/* Less than a driver queues before it waits for the device. */
#define LAUNCHES_MAX	64u

static const char usage[] =
"capkm-bench-cuda [option...]   measures what capkm costs beside the CUDA driver\n"
"\n"
"  --transport NAME   embedded (the engine in this process) or kernel (/dev/capkm); without\n"
"                     it the kernel's if it is there\n"
"  --quick            fewer samples: to see that it works\n"
"  --json FILE        the results, as JSON\n"
"  --svg FILE         cost against the claims of a graph, as SVG\n"
"  --help, --version\n"
"\n"
"Exit status: 0 measured, also if a goal is missed; 1 something failed; 2 the command line\n"
"is wrong; 4 there is no CUDA driver or no device.\n";

static const char nothing_ptx[] =
	".version 5.0\n"
	".target sm_60\n"
	".address_size 64\n"
	".visible .entry nothing(.param .u64 to, .param .u64 from)\n"
	"{\n"
	"	ret;\n"
	"}\n";

/* the driver */

typedef struct CUctx_st *cu_context;
typedef struct CUfunc_st *cu_function;
typedef struct CUgraphExec_st *cu_exec;
typedef struct CUmod_st *cu_module;
typedef struct CUstream_st *cu_stream;
typedef int cu_device;

#define CU_STREAM_NON_BLOCKING	1u

#define CUDA_CALLS(X)							\
X(cuInit, "cuInit", (unsigned int flags))				\
X(cuGetErrorName, "cuGetErrorName", (int result, const char **name))	\
X(cuDeviceGet, "cuDeviceGet", (cu_device *device, int ordinal))		\
X(cuDeviceGetName, "cuDeviceGetName", (char *name, int len, cu_device device)) \
X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",			\
  (cu_context *context, cu_device device))				\
X(cuCtxSetCurrent, "cuCtxSetCurrent", (cu_context context))		\
X(cuModuleLoadData, "cuModuleLoadData", (cu_module *module, const void *image)) \
X(cuModuleGetFunction, "cuModuleGetFunction",				\
  (cu_function *function, cu_module module, const char *name))		\
X(cuStreamCreate, "cuStreamCreate", (cu_stream *stream, unsigned int flags)) \
X(cuStreamSynchronize, "cuStreamSynchronize", (cu_stream stream))	\
X(cuLaunchKernel, "cuLaunchKernel",					\
  (cu_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, \
   unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared, \
   cu_stream stream, void **params, void **extra))			\
X(cuGraphLaunch, "cuGraphLaunch", (cu_exec exec, cu_stream stream))

#define CUDA_DEFINE(name, symbol, args) static int (*name) args;
CUDA_CALLS(CUDA_DEFINE)

#define CU(call) do {							\
	const int result_ = call;					\
									\
	if (result_)							\
		die(FAILED, #call ": %s", cuda_name(result_));		\
} while (0)

static const char *cuda_name(int result)
{
	const char *name = NULL;

	cuGetErrorName(result, &name);
	return name ? name : "unknown error";
}

/* What runs for the kernel where the driver is the tests' stand-in. */
static int nothing(void **params)
{
	(void)params;
	return 0;
}

static void offer_kernel(void *library)
{
	static const struct standin_kernel table[] = {
		{ "nothing", nothing, { 8, 8 } },
		{ NULL },
	};
	void (*offer)(const struct standin_kernel *) = NULL;

	*(void **)&offer = dlsym(library, "capkm_standin_kernels");
	if (offer)
		offer(table);
}

static void load_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	int result;

	if (!library)
		die(STATUS_SKIP, "there is no CUDA driver (libcuda.so.1)");
#define CUDA_FIND(name, symbol, args)					\
	*(void **)&name = dlsym(library, symbol);			\
	if (!name)							\
		die(FAILED, "the CUDA driver has no " symbol);
	CUDA_CALLS(CUDA_FIND)
	result = cuInit(0);
	if (result)
		die(STATUS_SKIP, "there is no device: %s", cuda_name(result));
	offer_kernel(library);
}

/* what is measured */

static struct {
	struct capkm *c;
	struct capkm_cuda *cuda;
	const char *through, *fast;	/* without the fast path, and with it */
	cu_function kernel;
	cu_stream stream;
	struct capkm_where where;
	struct capkm_cuda_range in, out[CLAIMS_MAX];
	struct capkm_claim reads, writes;	/* of a launch */
} gpu;

struct graph {
	uint64_t id;
	cu_exec exec;
};

static struct capkm_cuda_range memory(const char *label)
{
	struct capkm_cuda_range range = { .bytes = BYTES };
	uint64_t address;

	TRY(capkm_cuda_alloc(gpu.cuda, BYTES, label, 0, &address, &err));
	range.address = address;
	return range;
}

static struct capkm_claim claim_of(const struct capkm_cuda_range *range)
{
	struct capkm_claim claim;
	uint32_t len = 1;

	TRY(capkm_cuda_claims(gpu.cuda, range, &claim, &len, &err));
	return claim;
}

static void open_device(void)
{
	static char name[160];
	cu_context context;
	cu_module module;
	cu_device ordinal;

	load_driver();
	CU(cuDeviceGet(&ordinal, 0));
	CU(cuDeviceGetName(name, 100, ordinal));
	CU(cuDevicePrimaryCtxRetain(&context, ordinal));
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&module, nothing_ptx));
	CU(cuModuleGetFunction(&gpu.kernel, module, "nothing"));
	CU(cuStreamCreate(&gpu.stream, CU_STREAM_NON_BLOCKING));
	device = name;
}

static void open_bridge(void)
{
	const struct capkm_domain_opts domain = CAPKM_OPTS(struct capkm_domain_opts,
		.backend = CAPKM_BACKEND_HARDWARE);
	struct capkm_cuda_stream_query q = CAPKM_OPTS(struct capkm_cuda_stream_query);

	gpu.through = options.kernel ? "ioctl" : "embedded";
	gpu.fast = options.kernel ? "ioctl, fast" : "embedded, fast";
	TRY(capkm_open(options.kernel ? "/dev/capkm" : "embedded:", NULL, &gpu.c, &err));
	TRY(capkm_domain_create(gpu.c, NULL, &domain, &err));
	TRY(capkm_cuda_open(gpu.c, NULL, &gpu.cuda, &err));
	TRY(capkm_cuda_stream_bind(gpu.cuda, gpu.stream, NULL, &gpu.where, &err));
	TRY(capkm_cuda_stream_query(gpu.cuda, gpu.stream, &q, &err));
	gpu.where = q.where;
	gpu.in = memory("in");
	for (uint32_t i = 0; i < CLAIMS_MAX; i++)
		gpu.out[i] = memory("out");
	gpu.reads = claim_of(&gpu.in);
	gpu.writes = claim_of(&gpu.out[0]);
}

static void be_fast(void *state, uint64_t n)
{
	(void)state;
	(void)n;
	capkm_fast_path(gpu.c, true);
}

static void be_slow(void *state, uint64_t n)
{
	(void)state;
	(void)n;
	capkm_fast_path(gpu.c, false);
}

static void synchronise(void *state, uint64_t n)
{
	(void)state;
	(void)n;
	TRY(capkm_cuda_stream_sync(gpu.cuda, gpu.stream, &err));
}

/* launches */

static void launch_bare(void *state, uint64_t n)
{
	void *params[] = { &gpu.out[0].address, &gpu.in.address };

	(void)state;
	while (n--)
		CU(cuLaunchKernel(gpu.kernel, 1, 1, 1, 1, 1, 1, 0, gpu.stream, params, NULL));
}

static void launch_into(const struct capkm_cuda_range *out)
{
	uint64_t to = out->address;
	void *params[] = { &to, &gpu.in.address };
	const struct capkm_cuda_launch launch = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = gpu.kernel, .params = params, .grid = { 1, 1, 1 },
		.block = { 1, 1, 1 });
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.reads = &gpu.in, .reads_len = 1, .writes = out, .writes_len = 1);

	TRY(capkm_cuda_launch(gpu.cuda, gpu.stream, &launch, &work, NULL, &err));
}

static void launch_through(void *state, uint64_t n)
{
	(void)state;
	while (n--)
		launch_into(&gpu.out[0]);
}

static void scope(void *state, uint64_t n)
{
	struct capkm_scope scope;

	(void)state;
	while (n--) {
		TRY(capkm_scope_enter(gpu.c, &gpu.where, &gpu.reads, 1, &gpu.writes, 1, NULL,
				      &scope, NULL, &err));
		TRY(capkm_scope_exit(gpu.c, &scope, 0, &err));
	}
}

static void scope_of_bridge(void *state, uint64_t n)
{
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.reads = &gpu.in, .reads_len = 1, .writes = &gpu.out[0], .writes_len = 1);
	struct capkm_scope scope;

	(void)state;
	while (n--) {
		TRY(capkm_cuda_scope_begin(gpu.cuda, gpu.stream, &work, &scope, NULL, &err));
		TRY(capkm_cuda_scope_end(gpu.cuda, gpu.stream, &scope, 0, &err));
	}
}

static void measure_launches(void)
{
	static const struct {
		const char *operation;
		void (*run)(void *state, uint64_t n);
	} kinds[] = {
		{ "cuLaunchKernel", launch_through },
		{ "the scope alone", scope },
		{ "the bridge's scope alone", scope_of_bridge },
	};
	struct op ops[1 + 2 * ARRAY_SIZE(kinds)] = {
		{ .operation = "cuLaunchKernel", .through = "bare", .run = launch_bare },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		ops[i + 1].operation = kinds[i / 2].operation;
		ops[i + 1].run = kinds[i / 2].run;
		ops[i + 1].through = i % 2 ? gpu.fast : gpu.through;
		ops[i + 1].before = i % 2 ? be_fast : be_slow;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		ops[i].size = 2;
		ops[i].after = synchronise;
		ops[i].most = LAUNCHES_MAX;
	}
	measure("launch", ops, ARRAY_SIZE(ops));
	be_fast(NULL, 0);
}

/* graphs */

static void record(struct graph *g, uint32_t claims)
{
	struct capkm_cuda_graph_query q = CAPKM_OPTS(struct capkm_cuda_graph_query);

	TRY(capkm_cuda_graph_prepare(gpu.cuda, gpu.stream, NULL, NULL, &err));
	TRY(capkm_cuda_graph_begin(gpu.cuda, gpu.stream, &err));
	for (uint32_t i = 0; i < claims; i++)
		launch_into(&gpu.out[i]);
	TRY(capkm_cuda_graph_end(gpu.cuda, gpu.stream, &g->id, NULL, &err));
	TRY(capkm_cuda_graph_query(gpu.cuda, g->id, &q, &err));
	if (q.kernels != claims || !q.exec)
		die(FAILED, "a graph of %u launches has %llu kernels", claims,
		    (unsigned long long)q.kernels);
	g->exec = q.exec;
}

static void replay_bare(void *state, uint64_t n)
{
	const struct graph *g = state;

	while (n--)
		CU(cuGraphLaunch(g->exec, gpu.stream));
}

static void complete_bare(void *state, uint64_t n)
{
	replay_bare(state, n);
	CU(cuStreamSynchronize(gpu.stream));
}

static void replay_through(void *state, uint64_t n)
{
	const struct graph *g = state;
	uint32_t result;

	while (n--) {
		TRY(capkm_cuda_graph_replay(gpu.cuda, gpu.stream, g->id, &result, NULL, &err));
		if (result != CAPKM_CLEAN)
			die(FAILED, "a replay is %s", capkm_result_name(result));
	}
}

static void complete_through(void *state, uint64_t n)
{
	replay_through(state, n);
	TRY(capkm_cuda_stream_sync(gpu.cuda, gpu.stream, &err));
}

static void begin_and_end(void *state, uint64_t n)
{
	const struct graph *g = state;
	uint32_t result;

	while (n--) {
		TRY(capkm_graph_replay_begin(gpu.c, g->id, &gpu.where, NULL, &result, NULL, &err));
		if (result != CAPKM_CLEAN)
			die(FAILED, "a replay is %s", capkm_result_name(result));
		TRY(capkm_graph_replay_end(gpu.c, g->id, 0, &err));
	}
}

#define KINDS	5

static void measure_graphs(void)
{
	static const uint32_t claims[] = { 10, 100, 500, 1000, 2000 };
	struct graph graphs[ARRAY_SIZE(claims)];
	struct op ops[ARRAY_SIZE(claims) * KINDS], *op = ops;

	for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
		const struct op kinds[KINDS] = {
			{ .operation = "cuGraphLaunch", .through = "bare", .run = replay_bare,
			  .most = 1 },
			{ .operation = "cuGraphLaunch", .run = replay_through, .most = 1 },
			{ .operation = "launch and wait", .through = "bare",
			  .run = complete_bare, .most = 1 },
			{ .operation = "launch and wait", .run = complete_through, .most = 1 },
			{ .operation = "begin and end alone", .run = begin_and_end, .most = 64 },
		};

		record(&graphs[i], claims[i]);
		for (size_t k = 0; k < KINDS; k++, op++) {
			*op = kinds[k];
			op->through = op->through ? op->through : gpu.fast;
			op->size = claims[i];
			op->state = &graphs[i];
			op->after = synchronise;
		}
	}
	measure("graph", ops, op - ops);
}

/* goals */

const char *device;

/* A cost, divided by another one; or by @by, in ns. */
static const struct aim {
	const char *text;
	const char *group, *operation;
	uint64_t size;
	const char *of;			/* operation that is measured bare; NULL: null ioctls */
	uint64_t of_size;
	double by;
	double bound;
	const char *unit;
} aims[] = {
	{ "clean scope over two buffers, of cuLaunchKernel", "launch", "the scope alone", 2,
	  "cuLaunchKernel", 2, 0, .01, "times" },
	{ "begin and end of a replay, 10 claims", "graph", "begin and end alone", 10, NULL, 0, 0,
	  4, "null ioctls" },
	{ "begin and end of a replay, 2 000 claims", "graph", "begin and end alone", 2000, NULL, 0,
	  0, 4, "null ioctls" },
	{ "the same, of a replay of 240 us", "graph", "begin and end alone", 2000, NULL, 0, 240e3,
	  .01, "times" },
	{ "the same with 1 000, of the graph's completion", "graph", "begin and end alone", 1000,
	  "launch and wait", 1000, 0, .01, "times" },
};

static double divisor(const struct aim *a, const struct result *r)
{
	if (a->by)
		return a->by;
	return a->of ? find_result(a->group, a->of, "bare", a->of_size)->median : r->null_ioctl;
}

size_t judge(const struct goal **judged)
{
	static struct goal goals[ARRAY_SIZE(aims)];

	for (size_t i = 0; i < ARRAY_SIZE(aims); i++) {
		const struct aim *a = &aims[i];
		const struct result *r = find_result(a->group, a->operation, gpu.fast, a->size);
		const double value = r->median / divisor(a, r);

		goals[i] = (struct goal){ .text = a->text, .through = gpu.fast, .value = value,
			.bound = a->bound, .unit = a->unit,
			.verdict = value <= a->bound ? HOLDS : MISSED };
	}
	*judged = goals;
	return ARRAY_SIZE(aims);
}

/* What the bridge as a whole adds. */
static void print_added(void)
{
	printf("\n%-26s %9s %12s %12s %12s %7s\n", "through the bridge", "claims", "bare ns",
	       "through ns", "added ns", "times");
	for (size_t i = 0; i < results.len; i++) {
		const struct result *bare = &results.at[i], *r;

		if (strcmp(bare->through, "bare"))
			continue;
		r = find_result(bare->group, bare->operation, gpu.fast, bare->size);
		printf("%-26s %9s %12.1f %12.1f %12.1f %7.3f\n", bare->operation,
		       grouped(bare->size), bare->median, r->median, r->median - bare->median,
		       r->median / bare->median);
	}
}

/* the command line */

struct arguments {
	const char *json, *svg;
};

static void choose_transport(const char *name)
{
	options.kernel = !strcmp(name, "kernel");
	options.embedded = !strcmp(name, "embedded");
	if (!options.kernel && !options.embedded)
		die(WRONG, "--transport wants embedded or kernel, not '%s'", name);
}

static void read_arguments(struct arguments *a, int argc, char **argv)
{
	static const struct option known[] = {
		{ "transport", required_argument, NULL, 't' },
		{ "quick", no_argument, NULL, 'q' },
		{ "json", required_argument, NULL, 'j' },
		{ "svg", required_argument, NULL, 's' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'v' },
		{ },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (option) {
		case 't': choose_transport(optarg); break;
		case 'q': options.quick = true; break;
		case 'j': a->json = optarg; break;
		case 's': a->svg = optarg; break;
		case 'h': print_and_exit(usage);
		case 'v': print_and_exit("capkm-bench-cuda " CAPKM_VERSION "\n");
		default: exit(WRONG);
		}
	if (optind != argc)
		die(WRONG, "'%s' is not an option; see --help", argv[optind]);
	if (!options.kernel && !options.embedded) {
		options.kernel = !access("/dev/capkm", R_OK | W_OK);
		options.embedded = !options.kernel;
	}
}

int main(int argc, char **argv)
{
	struct arguments a = { };

	read_arguments(&a, argc, argv);
	open_device();
	try_file(a.json);
	try_file(a.svg);
	measure_init();
	open_bridge();
	measure_base();
	measure_launches();
	measure_graphs();
	table_print(stdout);
	print_added();
	finish_output();
	if (a.json)
		json_write(a.json);
	if (a.svg)
		chart_write(a.svg);
	capkm_cuda_close(gpu.cuda);
	capkm_close(gpu.c);
	return 0;
}
