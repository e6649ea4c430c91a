// SPDX-License-Identifier: MIT
/*
 * The model: its weights, what of it can be observed, and one pass. A pass issues launches
 * and waits for nothing but the logits; a point is shown where it stands in that order.
 */
#include "model.h"

#include "generate.h"

#include <math.h>
#include <string.h>

/* 0 is the stream of the calling thread: all this program needs is one. */
#define STREAM	0

/* the weights */

enum matrix { EMBEDDING, LAST_NORM, HEAD, FIRST_OF_LAYER };
/* Of a layer. */
enum { NORM1, QKV, PROJECTION, NORM2, UP, DOWN, PARTS };

static enum matrix part(uint32_t layer, int which)
{
	return FIRST_OF_LAYER + layer * PARTS + which;
}

/* Rows of a matrix, and how many numbers a row has; the last row is the bias. */
static void matrix_shape(enum matrix matrix, size_t *rows, size_t *columns)
{
	static const size_t shapes[FIRST_OF_LAYER + PARTS][2] = {
		[EMBEDDING]			= { VOCABULARY, WIDTH },
		[LAST_NORM]			= { 2, WIDTH },
		[HEAD]				= { WIDTH + 1, VOCABULARY },
		[FIRST_OF_LAYER + NORM1]	= { 2, WIDTH },
		[FIRST_OF_LAYER + QKV]		= { WIDTH + 1, 3 * WIDTH },
		[FIRST_OF_LAYER + PROJECTION]	= { WIDTH + 1, WIDTH },
		[FIRST_OF_LAYER + NORM2]	= { 2, WIDTH },
		[FIRST_OF_LAYER + UP]		= { WIDTH + 1, 4 * WIDTH },
		[FIRST_OF_LAYER + DOWN]		= { 4 * WIDTH + 1, WIDTH },
	};

	if (matrix >= FIRST_OF_LAYER)
		matrix = FIRST_OF_LAYER + (matrix - FIRST_OF_LAYER) % PARTS;
	*rows = shapes[matrix][0];
	*columns = shapes[matrix][1];
}

/* Between -1 and 1. */
static float next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (int32_t)(*state >> 32) / 2147483648.0f;
}

/* A number of a matrix: norms scale by about 1 and hardly shift, nor do biases. */
static float weight(enum matrix matrix, size_t row, size_t rows, float random)
{
	if (matrix == EMBEDDING)
		return random;
	if (rows == 2)
		return (row == 0) + random / 10;
	return random * (row == rows - 1 ? 0.1f : 4 / sqrtf(rows));
}

void weights_make(struct weights *weights, uint64_t seed)
{
	size_t rows, columns;
	float *at;

	weights->start[0] = 0;
	for (int i = 0; i < (int)MATRICES; i++) {
		matrix_shape(i, &rows, &columns);
		weights->start[i + 1] = weights->start[i] + rows * columns;
	}
	at = weights->values = allocated(calloc(weights->start[MATRICES], sizeof(float)));
	for (int i = 0; i < (int)MATRICES; i++) {
		matrix_shape(i, &rows, &columns);
		for (size_t n = 0; n < rows * columns; n++)
			*at++ = weight(i, n / columns, rows, next_random(&seed));
	}
	/* What it says means nothing, but can be read: the head leans to these. */
	for (const char *c = " abcdefghijklmnopqrstuvwxyz"; *c; c++)
		weights->values[weights->start[HEAD] + WIDTH * VOCABULARY + *c] += 10;
	strcpy(weights->identity, "sha256:");
	SHA256Data((const uint8_t *)weights->values,
		   weights->start[MATRICES] * sizeof(float), weights->identity + 7);
}

void weights_free(struct weights *weights)
{
	free(weights->values);
}

/* what there is to observe */

#define AXIS(text, ...)	{ .name = text, .dimension = { __VA_ARGS__ } }

static const struct capkm_observe_axis
	of_ids[] = {
		AXIS("token", CAPKM_EXTENT_SEQUENCE),
	},
	of_rows[] = {
		AXIS("token", CAPKM_EXTENT_SEQUENCE),
		AXIS("feature", CAPKM_EXTENT_KNOWN, WIDTH),
	},
	of_attention[] = {
		AXIS("head", CAPKM_EXTENT_KNOWN, HEADS),
		AXIS("token", CAPKM_EXTENT_SEQUENCE),
		AXIS("context", CAPKM_EXTENT_CONTEXT),
	},
	of_logits[] = {
		AXIS("batch", CAPKM_EXTENT_BATCH),
		AXIS("vocabulary", CAPKM_EXTENT_KNOWN, VOCABULARY),
	};

/* In the order of points[]; those of a layer follow those of the one before. */
enum point { P_IDS, P_EMBEDDING, P_LOGITS, P_LAYERS };
enum { P_SCORES, P_WEIGHTS, P_ATTENTION, P_MLP, P_OUTPUT, P_OF_LAYER };

static enum point of_layer(uint32_t layer, int which)
{
	return P_LAYERS + layer * P_OF_LAYER + which;
}

#define POINT(text, node, says, class, of) {				\
	.path = text, .node_id = node, .meaning = says, .dtype = class,	\
	.position = CAPKM_POSITION_READ_ONLY,				\
	.axes = of, .axes_len = sizeof(of) / sizeof(*(of)),		\
	.prefill = true, .decode = true,				\
}
#define LAYER(n)							\
	POINT("layers." #n ".attention.scores", "layer" #n ".scores",	\
	      "how much each token looks at each other one; -inf: at none after it", \
	      CAPKM_CLASS_FLOATING, of_attention),			\
	POINT("layers." #n ".attention.weights", "layer" #n ".softmax",	\
	      "the same, as parts of 1", CAPKM_CLASS_FLOATING, of_attention), \
	POINT("layers." #n ".attention.output", "layer" #n ".projection", \
	      "what attention adds to the state", CAPKM_CLASS_FLOATING, of_rows), \
	POINT("layers." #n ".mlp.output", "layer" #n ".down",		\
	      "what the two linear maps add to the state", CAPKM_CLASS_FLOATING, of_rows), \
	POINT("layers." #n ".output", "layer" #n ".state",		\
	      "the state after the layer", CAPKM_CLASS_FLOATING, of_rows)

static const struct capkm_observe_point points[] = {
	[P_IDS] = POINT("model.tokens", "input", "bytes that are read",
			CAPKM_CLASS_INTEGER, of_ids),
	[P_EMBEDDING] = POINT("model.embedding", "embed", "the state before the first layer",
			      CAPKM_CLASS_FLOATING, of_rows),
	[P_LOGITS] = POINT(CAPKM_OBSERVE_LOGITS, "head", "of the next byte, before it is chosen",
			   CAPKM_CLASS_FLOATING, of_logits),
	LAYER(0), LAYER(1),
};
#define POINTS	(sizeof(points) / sizeof(*points))
_Static_assert(POINTS == P_LAYERS + LAYERS * P_OF_LAYER, "a layer has no points");

struct capkm_observe_discovery
model_discovery(const struct weights *weights, const struct capkm_observe_backend *backend)
{
	static struct capkm_observe_point_support support[POINTS];
	struct capkm_observe_discovery d = {
		.artifact_identity = weights->identity,
		.catalog = {
			.schema_version = CAPKM_OBSERVE_SCHEMA,
			.points = points, .points_len = POINTS,
			.completeness = CAPKM_COMPLETE,
		},
		.support_version = CAPKM_OBSERVE_SCHEMA,
		.support = support, .support_len = POINTS,
	};

	for (size_t i = 0; i < POINTS; i++)
		support[i] = (struct capkm_observe_point_support){
			.path = points[i].path,
			.prefill.status = CAPKM_SUPPORTED,
			.decode.status = CAPKM_SUPPORTED,
			.floating_to_f32 = true,
		};
	backend->capabilities(backend->context, &d.capture);
	return d;
}

/* in an executor */

int model_open(struct model *m, struct capkm_host *host, const struct weights *weights,
	       uint32_t context, struct capkm_error *err)
{
	const size_t row = WIDTH * sizeof(float);
	size_t bytes[MEMORIES] = {
		[WEIGHTS]	= weights->start[MATRICES] * sizeof(float),
		[IDS]		= context * sizeof(int64_t),
		[STATE]		= context * row,
		[NORMED]	= context * row,
		[ATTENTION_IN]	= context * 3 * row,
		[ATTENTION]	= (size_t)HEADS * context * context * sizeof(float),
		[MIXED]		= context * row,
		[BRANCH]	= context * row,
		[HIDDEN]	= context * 4 * row,
		[LOGITS]	= VOCABULARY * sizeof(float),
	};
	struct capkm_host_write write = { .data = weights->values };
	int rc = 0;

	m->host = host;
	m->weights = weights;
	for (uint32_t layer = 0; layer < LAYERS; layer++)
		bytes[CACHE + layer] = context * 2 * row;
	for (int i = 0; !rc && i < KERNELS; i++)
		rc = capkm_host_kernel_create(host, &kernels[i], &m->kernels[i], err);
	for (int i = 0; !rc && i < CACHED_KERNELS; i++)
		rc = capkm_host_kernel_create(host, &cached_kernels[i], &m->cached[i], err);
	for (int i = 0; !rc && i < (int)MEMORIES; i++)
		rc = capkm_host_alloc(host, STREAM, bytes[i], 0, &m->memory[i], err);
	if (rc)
		return rc;
	write.to.memory = m->memory[WEIGHTS];
	return capkm_host_write(host, STREAM, &write, 1, NULL, err);
}

/* one pass */

struct pass {
	struct model *m;
	struct span span;
	int rc;			/* of the first call that could not be made */
	struct capkm_error *err;
};

static struct capkm_host_range
range(const struct pass *p, int memory, size_t start, size_t floats)
{
	return (struct capkm_host_range){
		.memory = p->m->memory[memory],
		.start = start * sizeof(float),
		.end = (start + floats) * sizeof(float),
	};
}

/* The first rows of a memory, one for each token of the pass. */
static struct capkm_host_range rows(const struct pass *p, enum memory memory, size_t width)
{
	return range(p, memory, 0, p->span.tokens * width);
}

static struct capkm_host_range matrix(const struct pass *p, enum matrix matrix)
{
	const size_t *start = &p->m->weights->start[matrix];

	return range(p, WEIGHTS, start[0], start[1] - start[0]);
}

static struct capkm_host_range cache(const struct pass *p, uint32_t layer)
{
	return range(p, CACHE + layer, 0, p->span.context * 2 * WIDTH);
}

static struct capkm_host_range new_in_cache(const struct pass *p, uint32_t layer)
{
	return range(p, CACHE + layer, (p->span.context - p->span.tokens) * 2 * WIDTH,
		     p->span.tokens * 2 * WIDTH);
}

static struct capkm_host_range attention(const struct pass *p)
{
	return range(p, ATTENTION, 0, (size_t)HEADS * p->span.tokens * p->span.context);
}

static struct capkm_host_range ids(const struct pass *p)
{
	return (struct capkm_host_range){
		.memory = p->m->memory[IDS], .end = p->span.tokens * sizeof(int64_t),
	};
}

#define IN(bytes)	{ .range = (bytes), .access = CAPKM_HOST_READ }
#define OUT(bytes)	{ .range = (bytes), .access = CAPKM_HOST_WRITE }
#define INOUT(bytes)	{ .range = (bytes), .access = CAPKM_HOST_READ | CAPKM_HOST_WRITE }

/*
 * Whether the work fails, or is skipped because other work did, is not looked at here: its
 * outputs carry it.
 */
static void launch(struct pass *p, uint64_t kernel, uint32_t grid_rows, uint32_t columns,
		   const struct capkm_host_arg *args, uint32_t args_len)
{
	struct capkm_host_launch launch = CAPKM_OPTS(struct capkm_host_launch,
		.kernel = kernel,
		.args = args,
		.args_len = args_len,
		.info = &p->span,
		.info_bytes = sizeof(p->span),
		.grid = { grid_rows, columns, 1 });

	if (!p->rc)
		p->rc = capkm_host_launch(p->m->host, STREAM, &launch, NULL, p->err);
}

#define LAUNCH_OF(p, kernel, grid_rows, columns, ...)			\
	launch(p, kernel, grid_rows, columns,				\
	       (const struct capkm_host_arg[]){ __VA_ARGS__ },		\
	       sizeof((const struct capkm_host_arg[]){ __VA_ARGS__ }) /	\
	       sizeof(struct capkm_host_arg))
#define LAUNCH(p, kernel, ...)	LAUNCH_OF(p, (p)->m->kernels[kernel], __VA_ARGS__)
#define CACHED(p, kernel, ...)						\
	LAUNCH_OF(p, (p)->m->cached[kernel], (p)->span.tokens, 1, __VA_ARGS__)

/* Reads of what is shown wait for the launches so far, and for none that follow. */
static void show(const struct pass *p, enum point point, struct capkm_host_range range)
{
	const struct capkm_observe_point *of = &points[point];
	uint64_t shape[3];
	struct capkm_observe_host_tensor tensor = CAPKM_OPTS(struct capkm_observe_host_tensor,
		.dtype = of->dtype == CAPKM_CLASS_INTEGER ? CAPKM_DTYPE_I64 : CAPKM_DTYPE_F32,
		.rank = of->axes_len,
		.shape = shape,
		.host = p->m->host,
		.stream = STREAM,
		.range = range);

	if (p->rc || !p->m->show)
		return;
	for (uint32_t i = 0; i < of->axes_len; i++)
		switch (of->axes[i].dimension.kind) {
		case CAPKM_EXTENT_BATCH: shape[i] = 1; break;
		case CAPKM_EXTENT_SEQUENCE: shape[i] = p->span.tokens; break;
		case CAPKM_EXTENT_CONTEXT: shape[i] = p->span.context; break;
		default: shape[i] = of->axes[i].dimension.value;
		}
	p->m->show(p->m->watcher, of->path, &tensor);
}

static void attention_block(struct pass *p, uint32_t layer)
{
	const uint32_t t = p->span.tokens;
	const struct capkm_host_range state = rows(p, STATE, WIDTH), x = rows(p, NORMED, WIDTH);
	const struct capkm_host_range qkv = rows(p, ATTENTION_IN, 3 * WIDTH);
	const struct capkm_host_range mixed = rows(p, MIXED, WIDTH), y = rows(p, BRANCH, WIDTH);

	LAUNCH(p, LAYER_NORM, t, WIDTH, IN(state), IN(matrix(p, part(layer, NORM1))), OUT(x));
	LAUNCH(p, LINEAR, t, 3 * WIDTH, IN(x), IN(matrix(p, part(layer, QKV))), OUT(qkv));
	CACHED(p, APPEND, IN(qkv), OUT(new_in_cache(p, layer)));
	CACHED(p, CAUSAL_SCORES, IN(qkv), IN(cache(p, layer)), OUT(attention(p)));
	show(p, of_layer(layer, P_SCORES), attention(p));
	LAUNCH(p, SOFTMAX, HEADS * t, p->span.context, INOUT(attention(p)));
	show(p, of_layer(layer, P_WEIGHTS), attention(p));
	CACHED(p, CAUSAL_MIX, IN(attention(p)), IN(cache(p, layer)), OUT(mixed));
	LAUNCH(p, LINEAR, t, WIDTH, IN(mixed), IN(matrix(p, part(layer, PROJECTION))), OUT(y));
	show(p, of_layer(layer, P_ATTENTION), y);
	LAUNCH(p, ADD, t, WIDTH, INOUT(state), IN(y));
}

static void mlp_block(struct pass *p, uint32_t layer, enum kernel gelu)
{
	const uint32_t t = p->span.tokens;
	const struct capkm_host_range state = rows(p, STATE, WIDTH), x = rows(p, NORMED, WIDTH);
	const struct capkm_host_range up = rows(p, HIDDEN, 4 * WIDTH), y = rows(p, BRANCH, WIDTH);

	LAUNCH(p, LAYER_NORM, t, WIDTH, IN(state), IN(matrix(p, part(layer, NORM2))), OUT(x));
	LAUNCH(p, LINEAR, t, 4 * WIDTH, IN(x), IN(matrix(p, part(layer, UP))), OUT(up));
	LAUNCH(p, gelu, t, 4 * WIDTH, INOUT(up));
	LAUNCH(p, LINEAR, t, WIDTH, IN(up), IN(matrix(p, part(layer, DOWN))), OUT(y));
	show(p, of_layer(layer, P_MLP), y);
	LAUNCH(p, ADD, t, WIDTH, INOUT(state), IN(y));
}

/* The logits are of the last token only. */
static void head(struct pass *p)
{
	const size_t last = (p->span.tokens - 1) * (size_t)WIDTH;
	const struct capkm_host_range row = range(p, NORMED, last, WIDTH);
	const struct capkm_host_range logits = range(p, LOGITS, 0, VOCABULARY);

	LAUNCH(p, LAYER_NORM, 1, WIDTH, IN(range(p, STATE, last, WIDTH)),
	       IN(matrix(p, LAST_NORM)), OUT(row));
	LAUNCH(p, LINEAR, 1, VOCABULARY, IN(row), IN(matrix(p, HEAD)), OUT(logits));
	show(p, P_LOGITS, logits);
}

static void write_ids(struct pass *p, const uint8_t *tokens)
{
	int64_t *wide = allocated(calloc(p->span.tokens, sizeof(*wide)));
	struct capkm_host_write write = { .to = ids(p), .data = wide };

	for (uint32_t i = 0; i < p->span.tokens; i++)
		wide[i] = tokens[i];
	p->rc = capkm_host_write(p->m->host, STREAM, &write, 1, NULL, p->err);
	free(wide);
}

int model_predict(struct model *m, const uint8_t *tokens, uint32_t len, uint8_t *next,
		  struct capkm_error *err)
{
	struct pass p = {
		.m = m,
		.span = { len, m->seen + len, WIDTH, HEADS },
		.err = err,
	};
	float logits[VOCABULARY];
	struct capkm_host_range of_logits = range(&p, LOGITS, 0, VOCABULARY);

	write_ids(&p, tokens);
	show(&p, P_IDS, ids(&p));
	CACHED(&p, EMBED, IN(ids(&p)), IN(matrix(&p, EMBEDDING)), OUT(rows(&p, STATE, WIDTH)));
	show(&p, P_EMBEDDING, rows(&p, STATE, WIDTH));
	for (uint32_t layer = 0; layer < LAYERS; layer++) {
		attention_block(&p, layer);
		mlp_block(&p, layer, m->broken && !layer ? BROKEN_GELU : GELU);
		show(&p, of_layer(layer, P_OUTPUT), rows(&p, STATE, WIDTH));
	}
	head(&p);
	if (!p.rc)
		p.rc = capkm_host_read(m->host, STREAM, &of_logits, logits, NULL, err);
	if (p.rc)
		return p.rc;
	*next = 0;
	for (uint32_t i = 1; i < VOCABULARY; i++)
		if (logits[i] > logits[*next])
			*next = i;
	m->seen += len;
	return 0;
}
