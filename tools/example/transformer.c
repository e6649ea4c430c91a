// SPDX-License-Identifier: MIT
/*
 * A small transformer on capkm's executor, for authors of runtimes to begin with:
 * the work of a pass is a dozen small functions a layer. It runs launch by launch
 * (eagerly), is captured into a graph, and is replayed as one task; then a launch
 * fails inside a window, to show what that costs: never a wrong byte.
 *
 * From top to bottom: the model, one pass, the capture, and what tries and measures
 * them. The functions that are launched are in kernels.c; reference.c says what
 * must come out.
 */
#include "transformer.h"
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* 0 is the stream of the calling thread: all this program needs is one. */
#define STREAM	0

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/*
 * For calls that can only fail if something is wrong: the library says what. A
 * launch that fails is no such call; what reads its outputs is told.
 */
#define TRY(call) do {							\
	if (call) {							\
		fprintf(stderr, "transformer: %s\n", err.text);		\
		exit(1);						\
	}								\
} while (0)

/* the model */

/* Of one layer, see attention() and mlp(). */
#define TEMPS_MAX	6

struct model {
	struct shape shape;
	struct capkm *c;
	struct capkm_host *host;
	uint64_t kernels[KERNELS];
	uint64_t in;
	uint64_t out;
	uint64_t *weights;	/* memory of each layer */
	float **plain;		/* the same numbers for the reference */
	size_t parts[PARTS + 1];	/* where each begins, in floats */
	enum kernel gelu;	/* GELU, or the one that does not compile */
	unsigned int launches;	/* and copies, of the last pass */
	uint64_t temps[TEMPS_MAX];
	unsigned int temps_used;
};

static size_t in_bytes(const struct model *m)
{
	return sizeof(float) * m->shape.tokens * m->shape.width;
}

/* Between -1 and 1, the same ones in each run. */
static float next_random(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (int32_t)(state >> 32) / 2147483648.0f;
}

static void write_floats(struct model *m, uint64_t memory, const float *data)
{
	struct capkm_host_write write = { .to.memory = memory, .data = data };

	TRY(capkm_host_write(m->host, STREAM, &write, 1, NULL, &err));
}

/* New numbers in the memory that the graph reads, and in plain, for the reference. */
static void new_input(struct model *m, float *plain)
{
	for (size_t i = 0; i < in_bytes(m) / sizeof(float); i++)
		plain[i] = next_random();
	write_floats(m, m->in, plain);
}

static void make_layer(struct model *m, uint32_t layer)
{
	uint32_t w = m->shape.width;
	const size_t depth[PARTS] = { 1, w, w, 1, w, 4 * w };
	float *f;

	f = allocated(malloc(sizeof(float) * m->parts[PARTS]));
	for (int part = 0; part < PARTS; part++)
		for (size_t i = m->parts[part]; i < m->parts[part + 1]; i++)
			f[i] = next_random() / sqrtf(depth[part]);
	m->plain[layer] = f;
	TRY(capkm_host_alloc(m->host, STREAM, sizeof(float) * m->parts[PARTS], 0,
			     &m->weights[layer], &err));
	write_floats(m, m->weights[layer], f);
}

static void make_model(struct model *m)
{
	size_t w = m->shape.width;
	const size_t size[PARTS] = {
		[NORM1] = 2 * w,
		[QKV] = (w + 1) * 3 * w,
		[PROJECTION] = (w + 1) * w,
		[NORM2] = 2 * w,
		[UP] = (w + 1) * 4 * w,
		[DOWN] = (4 * w + 1) * w,
	};

	for (int part = 0; part < PARTS; part++)
		m->parts[part + 1] = m->parts[part] + size[part];
	for (int i = 0; i < KERNELS; i++)
		TRY(capkm_host_kernel_create(m->host, &kernels[i],
					     &m->kernels[i], &err));
	m->gelu = GELU;
	TRY(capkm_host_alloc(m->host, STREAM, in_bytes(m), 0, &m->in, &err));
	TRY(capkm_host_alloc(m->host, STREAM, in_bytes(m), 0, &m->out, &err));
	m->weights = allocated(calloc(m->shape.layers, sizeof(*m->weights)));
	m->plain = allocated(calloc(m->shape.layers, sizeof(*m->plain)));
	for (uint32_t i = 0; i < m->shape.layers; i++)
		make_layer(m, i);
}

/* The executor gives back its memory by itself. */
static void free_model(struct model *m)
{
	for (uint32_t i = 0; i < m->shape.layers; i++)
		free(m->plain[i]);
	free(m->plain);
	free(m->weights);
}

/* one pass */

static struct capkm_host_arg in(uint64_t memory)
{
	return (struct capkm_host_arg){
		.range.memory = memory, .access = CAPKM_HOST_READ,
	};
}

static struct capkm_host_arg out(uint64_t memory)
{
	return (struct capkm_host_arg){
		.range.memory = memory, .access = CAPKM_HOST_WRITE,
	};
}

static struct capkm_host_arg inout(uint64_t memory)
{
	return (struct capkm_host_arg){
		.range.memory = memory,
		.access = CAPKM_HOST_READ | CAPKM_HOST_WRITE,
	};
}

static struct capkm_host_arg weights(struct model *m, uint32_t layer, enum part part)
{
	return (struct capkm_host_arg){
		.range.memory = m->weights[layer],
		.range.start = sizeof(float) * m->parts[part],
		.range.end = sizeof(float) * m->parts[part + 1],
		.access = CAPKM_HOST_READ,
	};
}

/*
 * Whether the launch is queued, recorded, or fails is not looked at here: its
 * outputs carry it.
 */
static void launch(struct model *m, enum kernel kernel, uint32_t rows,
		   uint32_t columns, const struct capkm_host_arg *args,
		   uint32_t args_len)
{
	struct capkm_host_launch launch = CAPKM_OPTS(struct capkm_host_launch,
		.kernel = m->kernels[kernel],
		.args = args,
		.args_len = args_len,
		.info = &m->shape,
		.info_bytes = sizeof(m->shape),
		.grid = { rows, columns, 1 });

	TRY(capkm_host_launch(m->host, STREAM, &launch, NULL, &err));
	m->launches++;
}

#define ARGS(...)							\
	(const struct capkm_host_arg[]){ __VA_ARGS__ },			\
	sizeof((const struct capkm_host_arg[]){ __VA_ARGS__ }) /	\
	sizeof(struct capkm_host_arg)

/* Memory for what lives no longer than its layer. */
static uint64_t temp(struct model *m, size_t floats)
{
	uint64_t *memory = &m->temps[m->temps_used++];

	TRY(capkm_host_alloc(m->host, STREAM, sizeof(float) * floats, 0, memory,
			     &err));
	return *memory;
}

/* The tasks that use it have not run yet: it is reused when they have. */
static void free_temps(struct model *m)
{
	while (m->temps_used)
		TRY(capkm_host_free(m->host, m->temps[--m->temps_used], &err));
}

static void attention(struct model *m, uint32_t layer)
{
	uint32_t t = m->shape.tokens, w = m->shape.width, h = m->shape.heads;
	uint64_t x = temp(m, t * w), qkv = temp(m, 3 * t * w);
	uint64_t scores = temp(m, h * t * t), mixed = temp(m, t * w);

	launch(m, LAYER_NORM, t, w, ARGS(in(m->out), weights(m, layer, NORM1), out(x)));
	launch(m, LINEAR, t, 3 * w, ARGS(in(x), weights(m, layer, QKV), out(qkv)));
	launch(m, SCORES, h, t, ARGS(in(qkv), out(scores)));
	launch(m, SOFTMAX, h * t, t, ARGS(inout(scores)));
	launch(m, MIX, h, t, ARGS(in(qkv), in(scores), out(mixed)));
	launch(m, LINEAR, t, w, ARGS(in(mixed), weights(m, layer, PROJECTION), out(x)));
	launch(m, ADD, t, w, ARGS(inout(m->out), in(x)));
}

static void mlp(struct model *m, uint32_t layer)
{
	uint32_t t = m->shape.tokens, w = m->shape.width;
	uint64_t x = temp(m, t * w), up = temp(m, 4 * t * w);

	launch(m, LAYER_NORM, t, w, ARGS(in(m->out), weights(m, layer, NORM2), out(x)));
	launch(m, LINEAR, t, 4 * w, ARGS(in(x), weights(m, layer, UP), out(up)));
	launch(m, m->gelu, t, 4 * w, ARGS(inout(up)));
	launch(m, LINEAR, t, w, ARGS(in(up), weights(m, layer, DOWN), out(x)));
	launch(m, ADD, t, w, ARGS(inout(m->out), in(x)));
}

/* From m->in to m->out, which is the state between the layers too. */
static void forward(struct model *m)
{
	struct capkm_host_range from = { .memory = m->in }, to = { .memory = m->out };

	TRY(capkm_host_copy(m->host, STREAM, &to, &from, NULL, &err));
	m->launches = 1;
	for (uint32_t layer = 0; layer < m->shape.layers; layer++) {
		attention(m, layer);
		mlp(m, layer);
		free_temps(m);
	}
}

static int read_out(struct model *m, float *plain)
{
	struct capkm_host_range from = { .memory = m->out };

	return capkm_host_read(m->host, STREAM, &from, plain, NULL, &err);
}

static void replay(struct model *m, uint64_t graph)
{
	TRY(capkm_host_graph_replay(m->host, STREAM, graph, NULL, &err));
}

/* the capture */

/*
 * The same pass twice. The first one runs: whatever a runtime does only once
 * (compile, fill caches, get memory) is done then, and the pool notes what the
 * second one is going to need. The second one is recorded and does not run.
 */
static int capture(struct model *m, enum kernel recorded_gelu, uint64_t *graph)
{
	TRY(capkm_host_graph_prepare(m->host, STREAM, NULL, NULL, &err));
	forward(m);
	TRY(capkm_host_graph_begin(m->host, STREAM, &err));
	m->gelu = recorded_gelu;
	forward(m);
	m->gelu = GELU;
	return capkm_host_graph_end(m->host, STREAM, graph, NULL, &err);
}

/* The largest difference between what the executor gave and what is right. */
static double difference(const struct model *m, const float *input, const float *output)
{
	size_t n = in_bytes(m) / sizeof(float);
	double *x = allocated(calloc(n, sizeof(*x))), most = 0;

	for (size_t i = 0; i < n; i++)
		x[i] = input[i];
	for (uint32_t layer = 0; layer < m->shape.layers; layer++)
		reference_layer(&m->shape, m->parts, m->plain[layer], x);
	for (size_t i = 0; i < n; i++)
		if (!(fabs(x[i] - output[i]) <= most))
			most = fabs(x[i] - output[i]);
	free(x);
	return most;
}

/* what is tried */

static int failed;

static void check(int so, const char *what)
{
	printf("%s  %s\n", so ? "ok    " : "not ok", what);
	if (!so)
		failed = 1;
}

static void check_close(const struct model *m, const float *input, const float *output,
			const char *what)
{
	double off = difference(m, input, output);
	char text[128];

	snprintf(text, sizeof(text), "%s the reference, within %.1e", what, off);
	check(off < 1e-4, text);
}

/* One line for each; the last one says where it began. */
static void print_reasons(void)
{
	for (char *line = err.text, *end; *line; line = end + !!*end) {
		end = line + strcspn(line, "\n");
		printf("          %.*s\n", (int)(end - line), line);
	}
}

static uint64_t try_capture(struct model *m)
{
	size_t bytes = in_bytes(m);
	float *input = allocated(malloc(bytes)), *eager = allocated(malloc(bytes));
	float *replayed = allocated(malloc(bytes));
	uint64_t graph;

	new_input(m, input);
	forward(m);
	TRY(read_out(m, eager));
	check_close(m, input, eager, "launch by launch it agrees with");

	TRY(capture(m, GELU, &graph));
	printf("ok      captured: %u launches and copies become one graph\n", m->launches);
	replay(m, graph);
	TRY(read_out(m, replayed));
	check(!memcmp(eager, replayed, bytes), "the replay gives the same bytes");

	new_input(m, input);
	replay(m, graph);
	TRY(read_out(m, replayed));
	check(memcmp(eager, replayed, bytes), "input rewritten in place: another output");
	check_close(m, input, replayed, "which agrees with");
	forward(m);
	TRY(read_out(m, eager));
	check(!memcmp(eager, replayed, bytes), "and has the bytes that launches give");

	free(input);
	free(eager);
	free(replayed);
	return graph;
}

static void try_failure(struct model *m)
{
	size_t bytes = in_bytes(m);
	float *before = allocated(malloc(bytes)), *after = allocated(malloc(bytes));
	uint64_t graph;
	int rc;

	printf("\nA launch fails inside of a window, for there is no code for it:\n");
	forward(m);
	TRY(read_out(m, before));
	rc = capture(m, BROKEN_GELU, &graph);
	check(rc == -ESTALE && !graph, "it becomes no graph:");
	if (rc)
		print_reasons();
	rc = read_out(m, after);
	check(rc == -ESTALE, "nor can its output be read:");
	if (rc)
		print_reasons();

	TRY(capture(m, GELU, &graph));
	replay(m, graph);
	TRY(read_out(m, after));
	check(!memcmp(before, after, bytes), "captured again and replayed: the bytes are right");
	TRY(capkm_host_graph_destroy(m->host, graph, &err));

	free(before);
	free(after);
}

/* what is measured */

#define PASSES	20

/* Microseconds a pass, from the first call to the end of the last function. */
static double measure(struct model *m, uint64_t graph)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < PASSES; i++) {
		if (graph)
			replay(m, graph);
		else
			forward(m);
		TRY(capkm_host_sync(m->host, STREAM, &err));
	}
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((to.tv_sec - from.tv_sec) * 1e6 +
		(to.tv_nsec - from.tv_nsec) / 1e3) / PASSES;
}

static int smaller(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *times, unsigned int len)
{
	qsort(times, len, sizeof(*times), smaller);
	return times[len / 2];
}

/* In turns: what disturbs the machine disturbs both. */
static void compare(struct model *m, uint64_t graph, unsigned int rounds)
{
	double *eager = allocated(calloc(rounds, sizeof(*eager)));
	double *replayed = allocated(calloc(rounds, sizeof(*replayed)));
	double slow, fast;

	for (unsigned int i = 0; i < rounds; i++) {
		eager[i] = measure(m, 0);
		replayed[i] = measure(m, graph);
	}
	slow = median(eager, rounds);
	fast = median(replayed, rounds);
	printf("\nA pass of %u launches and copies, median of %u rounds of %d:\n",
	       m->launches, rounds, PASSES);
	printf("%10.1f us launch by launch\n", slow);
	printf("%10.1f us replayed: %.2f times as fast\n", fast, slow / fast);
	free(eager);
	free(replayed);
}

static uint32_t number(const char *name, const char *text, uint32_t least, uint32_t most)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end || end == text || *text == '-' || value < least || value > most) {
		fprintf(stderr, "transformer: --%s wants a number from %u to %u, not %s\n",
			name, least, most, text);
		exit(2);
	}
	return value;
}

static const char usage[] =
"transformer [--layers N] [--tokens N] [--width N] [--heads N] [--rounds N]\n"
"\n"
"Runs a small transformer on capkm's executor, captures and replays it, checks\n"
"what comes out, and measures. --rounds 0 leaves out the measurement. The\n"
"authority is $CAPKM_DEVICE or, if that is not set, /dev/capkm.\n";

static void options(int argc, char **argv, struct shape *shape, unsigned int *rounds)
{
	static const struct option known[] = {
		{ "layers", required_argument, NULL, 'l' },
		{ "tokens", required_argument, NULL, 't' },
		{ "width", required_argument, NULL, 'w' },
		{ "heads", required_argument, NULL, 'n' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "help", no_argument, NULL, 'h' },
		{ },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1)
		switch (option) {
		case 'l': shape->layers = number("layers", optarg, 1, 256); break;
		case 't': shape->tokens = number("tokens", optarg, 1, 1024); break;
		case 'w': shape->width = number("width", optarg, 1, 1024); break;
		case 'n': shape->heads = number("heads", optarg, 1, 64); break;
		case 'r': *rounds = number("rounds", optarg, 0, 100000); break;
		case 'h': fputs(usage, stdout); exit(0);
		default: fputs(usage, stderr); exit(2);
		}
	if (optind != argc) {
		fputs(usage, stderr);
		exit(2);
	}
	if (shape->width % shape->heads) {
		fprintf(stderr, "transformer: a width of %u cannot be shared by %u heads\n",
			shape->width, shape->heads);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct model m = {
		.shape = { .tokens = 4, .width = 16, .heads = 2, .layers = 4 },
	};
	unsigned int rounds = 51;
	uint64_t graph;

	options(argc, argv, &m.shape, &rounds);
	TRY(capkm_open(NULL, NULL, &m.c, &err));
	TRY(capkm_domain_open(m.c, NULL, NULL, &err));
	TRY(capkm_host_create(m.c, NULL, &m.host, &err));
	make_model(&m);
	printf("%u layers, %u tokens, width %u, %u heads; the authority is %s\n\n",
	       m.shape.layers, m.shape.tokens, m.shape.width, m.shape.heads,
	       capkm_authority(m.c) == CAPKM_AUTHORITY_KERNEL ?
	       "the kernel module" : "embedded in this process");

	graph = try_capture(&m);
	if (rounds)
		compare(&m, graph, rounds);
	try_failure(&m);

	capkm_host_destroy(m.host);
	capkm_close(m.c);
	free_model(&m);
	return failed;
}
