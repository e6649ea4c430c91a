// SPDX-License-Identifier: MIT
/*
 * A graph of 20 nodes over two streams: its input comes from pageable host memory and
 * changes from replay to replay, its result goes back there, and is compared with what
 * the host computes. On the way: a synchronise in the middle of the capture, which would
 * have broken it, and a launch that fails, whose window becomes no graph.
 *
 *	s: input, keys -- multiply_add * 8 ------ add -- output
 *	           \                             /
 *	t:          rotate_xor * 8 --------------
 */
#define _GNU_SOURCE
#include "gpu.h"

#include <string.h>

#define N	4096u
#define BYTES	(N * sizeof(uint32_t))
#define STEPS	8u
#define REPLAYS	5u

struct example {
	struct gpu gpu;
	CUstream s, t;
	CUevent fork, join;
	CUfunction multiply_add, rotate_xor, add;
	array x, keys, a[2], b[2], z;
	uint32_t *in, *out;	/* host memory; the graph's, once it is recorded */
	uint32_t key[N];
};

static void open_example(struct example *e)
{
	struct gpu *gpu = &e->gpu;

	gpu_open(gpu);
	e->s = gpu_stream(gpu);
	e->t = gpu_stream(gpu);
	CU(cuEventCreate(&e->fork, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&e->join, CU_EVENT_DISABLE_TIMING));
	e->multiply_add = gpu_kernel(gpu, "multiply_add");
	e->rotate_xor = gpu_kernel(gpu, "rotate_xor");
	e->add = gpu_kernel(gpu, "add");
	e->x = gpu_array(gpu, BYTES, "x");
	e->keys = gpu_array(gpu, BYTES, "keys");
	for (int i = 0; i < 2; i++) {
		e->a[i] = gpu_array(gpu, BYTES, "a");
		e->b[i] = gpu_array(gpu, BYTES, "b");
	}
	e->z = gpu_array(gpu, BYTES, "z");
	e->in = malloc(BYTES);
	e->out = malloc(BYTES);
	if (!e->in || !e->out)
		give_up("out of memory");
}

static void close_example(struct example *e)
{
	struct gpu *gpu = &e->gpu;

	capkm_cuda_event_forget(gpu->cuda, e->fork);
	capkm_cuda_event_forget(gpu->cuda, e->join);
	CU(cuEventDestroy(e->fork));
	CU(cuEventDestroy(e->join));
	gpu_stream_end(gpu, e->t);
	gpu_stream_end(gpu, e->s);
	gpu_free(gpu, e->x);
	gpu_free(gpu, e->keys);
	for (int i = 0; i < 2; i++) {
		gpu_free(gpu, e->a[i]);
		gpu_free(gpu, e->b[i]);
	}
	gpu_free(gpu, e->z);
	gpu_close(gpu);
}

/* the work */

/* Each step reads what the one before it has written. The last one writes to[1]. */
static void steps(struct example *e, CUstream stream, CUfunction kernel, const char *label,
		  const array to[2])
{
	uint32_t n = N;

	for (unsigned int i = 0; i < STEPS; i++) {
		array from = i ? to[(i - 1) % 2] : e->x;
		array dest = to[i % 2];
		void *params[] = { &dest.address, &from.address, &e->keys.address, &n };

		gpu_launch(&e->gpu, stream, &(struct work){
			.kernel = kernel, .label = label, .elements = N, .params = params,
			.reads = { from, e->keys }, .writes = dest });
	}
}

/* The keys never change, so the library keeps a copy; @e->key may change later. */
static void upload_keys(struct example *e, int recorded)
{
	const struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = e->keys.address, .from = (uintptr_t)e->key, .bytes = BYTES,
		.label = "keys", .flags = recorded ? CAPKM_CUDA_COPY_F_OWN_COPY : 0);

	TRY(capkm_cuda_copy(e->gpu.cuda, e->s, &copy, NULL, &err));
}

/* What the library says of the call that has just failed, line by line. */
static void quote(const char *what)
{
	const char *line = err.text, *end;

	printf("%s:\n", what);
	for (; line; line = *end ? end + 1 : NULL) {
		end = strchrnul(line, '\n');
		printf("    %.*s\n", (int)(end - line), line);
	}
}

/* Waiting now, on the host, is what a capture does not survive. */
static void synchronise(struct example *e)
{
	if (!capkm_cuda_stream_sync(e->gpu.cuda, e->s, &err))
		give_up("the stream was synchronised while it captured");
	quote("a synchronise is refused, and the capture goes on");
}

/* Runs, or is recorded. */
static void pass(struct example *e, int recorded)
{
	struct gpu *gpu = &e->gpu;
	uint32_t n = N;
	void *params[] = { &e->z.address, &e->a[1].address, &e->b[1].address, &n };

	gpu_upload(gpu, e->s, e->x, e->in, recorded);
	upload_keys(e, recorded);
	TRY(capkm_cuda_event_record(gpu->cuda, e->fork, e->s, &err));
	TRY(capkm_cuda_stream_wait(gpu->cuda, e->t, e->fork, &err));
	steps(e, e->s, e->multiply_add, "multiply_add", e->a);
	if (recorded)
		synchronise(e);
	steps(e, e->t, e->rotate_xor, "rotate_xor", e->b);
	TRY(capkm_cuda_event_record(gpu->cuda, e->join, e->t, &err));
	TRY(capkm_cuda_stream_wait(gpu->cuda, e->s, e->join, &err));
	gpu_launch(gpu, e->s, &(struct work){
		.kernel = e->add, .label = "add", .elements = N, .params = params,
		.reads = { e->a[1], e->b[1] }, .writes = e->z });
	gpu_download(gpu, e->s, e->out, e->z, recorded);
}

static uint64_t capture(struct example *e)
{
	struct capkm_cuda_graph_query q = CAPKM_OPTS(struct capkm_cuda_graph_query);
	uint64_t graph;

	TRY(capkm_cuda_graph_prepare(e->gpu.cuda, e->s, NULL, NULL, &err));
	pass(e, 0);	/* the warm-up */
	TRY(capkm_cuda_graph_begin(e->gpu.cuda, e->s, &err));
	pass(e, 1);
	TRY(capkm_cuda_graph_end(e->gpu.cuda, e->s, &graph, NULL, &err));
	TRY(capkm_cuda_graph_query(e->gpu.cuda, graph, &q, &err));
	printf("graph %llu: %llu nodes, %llu kernels, %llu copies, %llu host buffers kept\n",
	       (unsigned long long)graph, (unsigned long long)q.nodes,
	       (unsigned long long)q.kernels, (unsigned long long)q.copies,
	       (unsigned long long)q.retained);
	return graph;
}

/* what comes out */

static uint32_t reference(uint32_t x, uint32_t key)
{
	uint32_t a = x, b = x;

	for (unsigned int i = 0; i < STEPS; i++) {
		a = a * 1664525u + key;
		b = (b << 7 | b >> 25) ^ key;
	}
	return a + b;
}

/* Other input each time; what was there before must not come out. */
static void fill(struct example *e, uint32_t seed)
{
	for (uint32_t i = 0; i < N; i++)
		e->in[i] = (i + seed) * 2654435761u;
	memset(e->out, 0xcc, BYTES);
}

static void replay(struct example *e, uint64_t graph, const uint32_t key[N], uint32_t seed)
{
	uint32_t result;

	fill(e, seed);
	TRY(capkm_cuda_graph_replay(e->gpu.cuda, e->s, graph, &result, NULL, &err));
	if (result != CAPKM_CLEAN)
		give_up("replay: %s", capkm_result_name(result));
	TRY(capkm_cuda_stream_sync(e->gpu.cuda, e->s, &err));
	for (uint32_t i = 0; i < N; i++)
		if (e->out[i] != reference(e->in[i], key[i]))
			give_up("replay %u: element %u is wrong", seed, i);
	printf("replay %u: all %u numbers are right\n", seed, N);
}

/* The driver refuses a launch that asks for too many threads. */
static void fail(struct example *e)
{
	uint32_t n = N;
	void *params[] = { &e->z.address, &e->a[1].address, &e->b[1].address, &n };
	const struct capkm_cuda_launch launch = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = e->add, .params = params,
		.grid = { 1, 1, 1 }, .block = { N, 1, 1 });
	const array reads[] = { e->a[1], e->b[1] };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = "add, too large", .reads = reads, .reads_len = 2,
		.writes = &e->z, .writes_len = 1);

	if (!capkm_cuda_launch(e->gpu.cuda, e->s, &launch, &work, NULL, &err))
		give_up("a block of %u threads was launched", N);
	quote("in a second window a launch fails");
}

/* A window with that in it is no graph, and its result is no result. */
static void refuse(struct example *e)
{
	uint32_t words[N];
	uint64_t graph;

	TRY(capkm_cuda_graph_prepare(e->gpu.cuda, e->s, NULL, NULL, &err));
	TRY(capkm_cuda_graph_begin(e->gpu.cuda, e->s, &err));
	steps(e, e->s, e->multiply_add, "multiply_add", e->a);
	fail(e);
	if (!capkm_cuda_graph_end(e->gpu.cuda, e->s, &graph, NULL, &err))
		give_up("the window became a graph");
	quote("so it becomes no graph");
	if (!capkm_cuda_read(e->gpu.cuda, e->s, &e->z, words, &err))
		give_up("a result was read that nobody has computed");
	quote("and its result cannot be read");
}

int main(void)
{
	static struct example e;
	uint32_t key[N], seed = 1;
	uint64_t graph;

	open_example(&e);
	for (uint32_t i = 0; i < N; i++)
		e.key[i] = key[i] = i * i + 1;
	fill(&e, 0);
	graph = capture(&e);
	memset(e.key, 0, sizeof(e.key));	/* the graph has its own */
	while (seed <= REPLAYS)
		replay(&e, graph, key, seed++);
	refuse(&e);
	/* It writes all of it anew. */
	replay(&e, graph, key, seed);
	TRY(capkm_cuda_graph_destroy(e.gpu.cuda, graph, &err));
	close_example(&e);
	return 0;
}
