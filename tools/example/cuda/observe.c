// SPDX-License-Identifier: MIT
/*
 * What observing costs on a GPU: each transform of a layer's output and of a row of
 * logits, through a session, against copying the whole tensor to the host and looking at
 * it there. Shown are what went over the bus, what was charged, and the median time.
 */
#define _GNU_SOURCE
#include "gpu.h"

#include <capkm/observe_cuda.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#define TOKENS		4096u
#define WIDTH		4096u
#define VOCABULARY	152064u
#define ROUNDS		21

#define LIMITS "{\"captures\":99999,\"retained_bytes\":99999999999,\"host_bytes\":99999999999,\"encoded_bytes\":99999999999}"
#define PLAN "{\"schema_version\":1,\"selections\":[{\"id\":\"%s\",\"path\":\"%s\",%s}],"	\
	"\"limits\":{\"per_step\":" LIMITS ",\"cumulative\":" LIMITS ",\"on_limit\":\"fail\"}}"

static const struct {
	const char *name, *path, *what;
} rows[] = {
	{ "first 8 values", "hidden", "\"transform\":{\"kind\":\"preview\",\"max_elements\":8}" },
	{ "last token", "hidden",
	  "\"slices\":[{\"axis\":\"token\",\"start\":4095,\"end\":4096}],\"transform\":{\"kind\":\"slice\"}" },
	{ "every 64th feature", "hidden",
	  "\"slices\":[{\"axis\":\"feature\",\"start\":0,\"end\":4096,\"stride\":64}],\"transform\":{\"kind\":\"slice\"}" },
	{ "summary", "hidden", "\"transform\":{\"kind\":\"summary\"}" },
	{ "histogram, 8 bins", "hidden",
	  "\"transform\":{\"kind\":\"histogram\",\"edges\":[-1,-0.75,-0.5,-0.25,0,0.25,0.5,0.75,1]}" },
	{ "20 best of a row", "model.logits", "\"transform\":{\"kind\":\"top_candidates\",\"count\":20}" },
	{ "summary of a row", "model.logits", "\"transform\":{\"kind\":\"summary\"}" },
};

struct example {
	struct gpu gpu;
	CUstream stream;
	array hidden, logits;
	void *host;
	struct capkm_observe_cuda *observe;
	struct capkm_observe_discovery discovery;
};

/* as a runtime says it */

static const struct capkm_observe_axis hidden_axes[] = {
	{ "token", { .kind = CAPKM_EXTENT_KNOWN, .value = TOKENS } },
	{ "feature", { .kind = CAPKM_EXTENT_KNOWN, .value = WIDTH } },
};
static const struct capkm_observe_axis logits_axes[] = {
	{ "batch", { .kind = CAPKM_EXTENT_BATCH } },
	{ "vocabulary", { .kind = CAPKM_EXTENT_KNOWN, .value = VOCABULARY } },
};
static const struct capkm_observe_point points[] = {
	{ .path = "hidden", .node_id = "layer", .meaning = "output of a layer",
	  .dtype = CAPKM_CLASS_FLOATING, .position = CAPKM_POSITION_READ_ONLY,
	  .axes = hidden_axes, .axes_len = 2, .prefill = true, .decode = true },
	{ .path = CAPKM_OBSERVE_LOGITS, .node_id = "head", .meaning = "logits",
	  .dtype = CAPKM_CLASS_FLOATING, .position = CAPKM_POSITION_READ_ONLY,
	  .axes = logits_axes, .axes_len = 2, .prefill = true, .decode = true },
};
static const struct capkm_observe_point_support support[] = {
	{ .path = "hidden" }, { .path = CAPKM_OBSERVE_LOGITS },
};

/* Between -1 and 1, the same ones in each run. */
static float next_random(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (float)(int32_t)(state >> 32) / 2147483648.0f;
}

static void open_example(struct example *e)
{
	const size_t bytes = TOKENS * WIDTH * sizeof(float);
	const struct capkm_observe_backend *backend;
	float *f = malloc(bytes);

	gpu_open(&e->gpu);
	e->stream = gpu_stream(&e->gpu);
	e->hidden = gpu_array(&e->gpu, bytes, "hidden");
	e->logits = gpu_array(&e->gpu, VOCABULARY * sizeof(float), "logits");
	e->host = f;
	if (!f)
		give_up("out of memory");
	for (size_t i = 0; i < TOKENS * WIDTH; i++)
		f[i] = next_random();
	gpu_upload(&e->gpu, e->stream, e->hidden, f, 0);
	gpu_upload(&e->gpu, e->stream, e->logits, f, 0);
	TRY(capkm_cuda_stream_sync(e->gpu.cuda, e->stream, &err));
	TRY(capkm_observe_cuda_create(e->gpu.cuda, NULL, &e->observe, &err));
	backend = capkm_observe_cuda_backend(e->observe);
	e->discovery = (struct capkm_observe_discovery){
		.artifact_identity = "an example",
		.catalog = { .schema_version = CAPKM_OBSERVE_SCHEMA, .points_len = 2, .points = points },
		.support_version = CAPKM_OBSERVE_SCHEMA, .support_len = 2, .support = support,
	};
	backend->capabilities(backend->context, &e->discovery.capture);
}

static void close_example(struct example *e)
{
	capkm_observe_cuda_destroy(e->observe);
	gpu_stream_end(&e->gpu, e->stream);
	gpu_free(&e->gpu, e->hidden);
	gpu_free(&e->gpu, e->logits);
	gpu_close(&e->gpu);
	free(e->host);
}

/* what is measured */

static double microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static int smaller(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *times)
{
	qsort(times, ROUNDS, sizeof(*times), smaller);
	return times[ROUNDS / 2];
}

static double copy_whole(struct example *e, array a)
{
	double times[ROUNDS], began;

	for (int i = 0; i < ROUNDS; i++) {
		began = microseconds();
		TRY(capkm_cuda_read(e->gpu.cuda, e->stream, &a, e->host, &err));
		times[i] = microseconds() - began;
	}
	return median(times);
}

static uint64_t copied(const struct example *e)
{
	struct capkm_observe_cuda_query q = CAPKM_OPTS(struct capkm_observe_cuda_query);

	TRY(capkm_observe_cuda_query(e->observe, &q, &err));
	return q.copied_bytes;
}

static struct capkm_observe *open_session(struct example *e, size_t row)
{
	const struct capkm_observe_request request = {
		.batch = 1, .prompt_tokens = 1, .max_predictions = ROUNDS + 1,
	};
	struct capkm_observe_admitted *admitted;
	struct capkm_observe_plan *plan;
	struct capkm_observe *session;
	char *json;

	if (asprintf(&json, PLAN, rows[row].name, rows[row].path, rows[row].what) < 0)
		give_up("out of memory");
	TRY(capkm_observe_plan_parse(json, strlen(json), &plan, &err));
	TRY(capkm_observe_admit(plan, &e->discovery, &request, &admitted, &err));
	TRY(capkm_observe_open(e->gpu.c, admitted, capkm_observe_cuda_backend(e->observe),
			       NULL, &session, &err));
	capkm_observe_admitted_free(admitted);
	capkm_observe_plan_free(plan);
	free(json);
	return session;
}

static void measure(struct example *e, size_t row, double whole)
{
	static const uint64_t shapes[2][2] = { { TOKENS, WIDTH }, { 1, VOCABULARY } };
	const int logits = !strcmp(rows[row].path, CAPKM_OBSERVE_LOGITS);
	const struct capkm_observe_cuda_tensor tensor = CAPKM_OPTS(struct capkm_observe_cuda_tensor,
		.dtype = CAPKM_DTYPE_F32, .rank = 2, .shape = shapes[logits],
		.address = logits ? e->logits.address : e->hidden.address, .stream = e->stream);
	struct capkm_observe *session = open_session(e, row);
	struct capkm_usage charged = { 0 };
	struct capkm_observe_step *step;
	double times[ROUNDS], began;
	uint64_t before = 0;

	/* The first one is not measured. */
	for (int i = -1; i < ROUNDS; i++) {
		TRY(capkm_observe_begin_step(session, i < 0 ? CAPKM_PREFILL : CAPKM_DECODE,
					     (uint64_t)(i + 1), &err));
		before = copied(e);
		began = microseconds();
		TRY(capkm_observe_tensor(session, rows[row].path, &tensor, &err));
		if (i >= 0)
			times[i] = microseconds() - began;
		TRY(capkm_observe_take_step(session, &step, &err));
		charged = step->records[0].charged;
		capkm_observe_step_free(step);
	}
	began = median(times);
	printf("%-18s %-12s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %10.1f %8.1f\n",
	       rows[row].name, rows[row].path, copied(e) - before,
	       (uint64_t)charged.retained_bytes, (uint64_t)charged.host_bytes, began,
	       whole / began);
	capkm_observe_close(session);
}

int main(void)
{
	struct example e = { 0 };
	double hidden, logits;

	open_example(&e);
	hidden = copy_whole(&e, e.hidden);
	logits = copy_whole(&e, e.logits);
	printf("\nwhole tensor to the host: hidden, %u MiB, %.1f us; logits, %u KiB, %.1f us\n\n",
	       TOKENS * (WIDTH >> 10) * 4 >> 10, hidden, VOCABULARY * 4 >> 10, logits);
	printf("%-18s %-12s %12s %12s %12s %10s %8s\n", "observed", "of",
	       "bytes moved", "retained", "host", "us", "times");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		measure(&e, i, strcmp(rows[i].path, "hidden") ? logits : hidden);
	close_example(&e);
	return 0;
}
