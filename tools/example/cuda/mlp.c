// SPDX-License-Identifier: MIT
/*
 * The inference loop of a small network: three layers of matmul, bias and GELU, nine
 * launches a pass. The same function issues them eagerly and records them; both ways must
 * give the same bytes for each input, and what the host computes but for rounding. Then
 * the two are timed, taking turns.
 */
#include "gpu.h"

#include <math.h>
#include <string.h>
#include <time.h>

#define LAYERS	3u
#define ROWS	16u		/* inputs of one pass */
#define INPUTS	4u		/* different ones that are tried */
#define ROUNDS	21u
#define PASSES	100u		/* in each round */

/* Of the inputs, and of each layer's outputs; the last ones are the answer. */
static const uint32_t width[LAYERS + 1] = { 64, 128, 64, 16 };
#define WIDEST	128u

struct layer {
	array weights, bias, y;
	float *w, *b;		/* the same numbers for the reference */
};

struct mlp {
	struct gpu gpu;
	CUstream stream;
	CUfunction matmul, add_bias, gelu;
	array x;
	struct layer layers[LAYERS];
	float *in, *out;	/* host memory; the graph's, once it is recorded */
	uint64_t graph;
};

static size_t in_len(void)
{
	return ROWS * width[0];
}

static size_t out_len(void)
{
	return ROWS * width[LAYERS];
}

static void *allocated(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		give_up("out of memory");
	return p;
}

/* Numbers from -scale to scale, the same each time. */
static void numbers(float *to, size_t len, float scale, uint32_t seed)
{
	for (size_t i = 0; i < len; i++) {
		seed = seed * 1664525u + 1013904223u;
		to[i] = scale * ((int32_t)seed / 2147483648.0f);
	}
}

static array parameters(struct mlp *m, float *numbers, size_t len, const char *label)
{
	array a = gpu_array(&m->gpu, len * sizeof(float), label);

	gpu_upload(&m->gpu, m->stream, a, numbers, 0);
	return a;
}

static void open_layer(struct mlp *m, uint32_t i)
{
	const uint32_t depth = width[i], columns = width[i + 1];
	struct layer *l = &m->layers[i];

	l->w = allocated(depth * columns * sizeof(float));
	l->b = allocated(columns * sizeof(float));
	numbers(l->w, depth * columns, 2 / sqrtf(depth), 2 * i + 1);
	numbers(l->b, columns, 0.5, 2 * i + 2);
	l->weights = parameters(m, l->w, depth * columns, "weights");
	l->bias = parameters(m, l->b, columns, "bias");
	l->y = gpu_array(&m->gpu, ROWS * columns * sizeof(float), "activations");
}

static void open_mlp(struct mlp *m)
{
	gpu_open(&m->gpu);
	m->stream = gpu_stream(&m->gpu);
	m->matmul = gpu_kernel(&m->gpu, "matmul");
	m->add_bias = gpu_kernel(&m->gpu, "add_bias");
	m->gelu = gpu_kernel(&m->gpu, "gelu");
	m->in = allocated(in_len() * sizeof(float));
	m->out = allocated(out_len() * sizeof(float));
	m->x = gpu_array(&m->gpu, in_len() * sizeof(float), "x");
	for (uint32_t i = 0; i < LAYERS; i++)
		open_layer(m, i);
	numbers(m->in, in_len(), 1, 0);
	TRY(capkm_cuda_stream_sync(m->gpu.cuda, m->stream, &err));
}

static void close_mlp(struct mlp *m)
{
	TRY(capkm_cuda_graph_destroy(m->gpu.cuda, m->graph, &err));
	gpu_stream_end(&m->gpu, m->stream);
	for (uint32_t i = 0; i < LAYERS; i++) {
		gpu_free(&m->gpu, m->layers[i].weights);
		gpu_free(&m->gpu, m->layers[i].bias);
		gpu_free(&m->gpu, m->layers[i].y);
		free(m->layers[i].w);
		free(m->layers[i].b);
	}
	gpu_free(&m->gpu, m->x);
	gpu_close(&m->gpu);
}

/* one pass */

static void layer(struct mlp *m, uint32_t i, array x)
{
	struct layer *l = &m->layers[i];
	uint32_t rows = ROWS, depth = width[i], columns = width[i + 1], n = rows * columns;
	void *product[] = { &l->y.address, &x.address, &l->weights.address, &rows, &depth,
			    &columns };
	void *sum[] = { &l->y.address, &l->bias.address, &rows, &columns };
	void *curve[] = { &l->y.address, &n };

	gpu_launch(&m->gpu, m->stream, &(struct work){
		.kernel = m->matmul, .label = "matmul", .elements = n, .params = product,
		.reads = { x, l->weights }, .writes = l->y });
	gpu_launch(&m->gpu, m->stream, &(struct work){
		.kernel = m->add_bias, .label = "add_bias", .elements = n, .params = sum,
		.reads = { l->y, l->bias }, .writes = l->y });
	gpu_launch(&m->gpu, m->stream, &(struct work){
		.kernel = m->gelu, .label = "gelu", .elements = n, .params = curve,
		.reads = { l->y }, .writes = l->y });
}

/* From m->in to m->out: runs, or is recorded. */
static void pass(struct mlp *m, int recorded)
{
	gpu_upload(&m->gpu, m->stream, m->x, m->in, recorded);
	for (uint32_t i = 0; i < LAYERS; i++)
		layer(m, i, i ? m->layers[i - 1].y : m->x);
	gpu_download(&m->gpu, m->stream, m->out, m->layers[LAYERS - 1].y, recorded);
}

static void capture(struct mlp *m)
{
	struct capkm_cuda *cuda = m->gpu.cuda;

	TRY(capkm_cuda_graph_prepare(cuda, m->stream, NULL, NULL, &err));
	pass(m, 0);	/* the warm-up */
	TRY(capkm_cuda_graph_begin(cuda, m->stream, &err));
	pass(m, 1);
	TRY(capkm_cuda_graph_end(cuda, m->stream, &m->graph, NULL, &err));
}

static void eagerly(struct mlp *m)
{
	pass(m, 0);
	TRY(capkm_cuda_stream_sync(m->gpu.cuda, m->stream, &err));
}

static void replayed(struct mlp *m)
{
	uint32_t result;

	TRY(capkm_cuda_graph_replay(m->gpu.cuda, m->stream, m->graph, &result, NULL, &err));
	if (result != CAPKM_CLEAN)
		give_up("replay: %s", capkm_result_name(result));
	TRY(capkm_cuda_stream_sync(m->gpu.cuda, m->stream, &err));
}

/* what comes out */

static void reference(const struct mlp *m, const float *in, double *x)
{
	double y[WIDEST];

	for (uint32_t k = 0; k < width[0]; k++)
		x[k] = in[k];
	for (uint32_t i = 0; i < LAYERS; i++) {
		for (uint32_t j = 0; j < width[i + 1]; j++) {
			y[j] = m->layers[i].b[j];
			for (uint32_t k = 0; k < width[i]; k++)
				y[j] += x[k] * m->layers[i].w[k * width[i + 1] + j];
			y[j] = y[j] / 2 * (1 + erf(y[j] / sqrt(2)));
		}
		memcpy(x, y, width[i + 1] * sizeof(double));
	}
}

/* How far is it from the reference, at most? */
static double distance(const struct mlp *m)
{
	const uint32_t columns = width[LAYERS];
	double x[WIDEST], most = 0;

	for (uint32_t row = 0; row < ROWS; row++) {
		reference(m, m->in + row * width[0], x);
		for (uint32_t j = 0; j < columns; j++)
			most = fmax(most, fabs(m->out[row * columns + j] - x[j]));
	}
	return most;
}

static void compare(struct mlp *m)
{
	const size_t bytes = out_len() * sizeof(float);
	float *eager = allocated(bytes);
	double most = 0;

	for (uint32_t i = 0; i < INPUTS; i++) {
		numbers(m->in, in_len(), 1, 100 + i);
		memset(m->out, 0xcc, bytes);
		eagerly(m);
		memcpy(eager, m->out, bytes);
		memset(m->out, 0xcc, bytes);
		replayed(m);
		if (memcmp(eager, m->out, bytes))
			give_up("input %u: the replay gives other bytes", i);
		most = fmax(most, distance(m));
	}
	free(eager);
	if (!(most < 1e-4))
		give_up("%g from the reference", most);
	printf("%u inputs: the replay gives the same bytes, at most %.1e from the reference\n",
	       INPUTS * ROWS, most);
}

/* how long */

static double seconds(struct mlp *m, void (*way)(struct mlp *m))
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (uint32_t i = 0; i < PASSES; i++)
		way(m);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return to.tv_sec - from.tv_sec + (to.tv_nsec - from.tv_nsec) * 1e-9;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The two ways take turns, so that what disturbs one disturbs the other. */
static void measure(struct mlp *m)
{
	double ratio[ROUNDS], eager[ROUNDS], graph[ROUNDS];

	for (uint32_t i = 0; i < ROUNDS; i++) {
		eager[i] = seconds(m, eagerly);
		graph[i] = seconds(m, replayed);
		ratio[i] = graph[i] / eager[i];
	}
	qsort(ratio, ROUNDS, sizeof(*ratio), by_size);
	qsort(eager, ROUNDS, sizeof(*eager), by_size);
	qsort(graph, ROUNDS, sizeof(*graph), by_size);
	printf("a pass: %.1f us eagerly, %.1f us replayed; a replay takes %.2f of the time\n",
	       eager[ROUNDS / 2] / PASSES * 1e6, graph[ROUNDS / 2] / PASSES * 1e6,
	       ratio[ROUNDS / 2]);
	printf("(medians of %u rounds; %.2f to %.2f)\n", ROUNDS, ratio[0], ratio[ROUNDS - 1]);
}

int main(void)
{
	static struct mlp m;

	open_mlp(&m);
	capture(&m);
	compare(&m);
	measure(&m);
	close_mlp(&m);
	return 0;
}
