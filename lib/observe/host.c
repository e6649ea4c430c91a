// SPDX-License-Identifier: MIT
/*
 * Tensors in host memory. What is selected is a list of runs of adjacent bytes, which are
 * copied into a buffer of fixed size, or to where they are wanted, and nothing else of the
 * tensor is read.
 */
#include "host.h"

#include <inttypes.h>
#include <string.h>

#include "reduce.h"

#define HISTOGRAM_BINS 4096
#define STAGING (16u << 10)	/* bytes; a multiple of every element's size */

/* The bytes of the tensor in the memory of its executor. */
static int look_at_range(struct host_tensor *t, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_claim claim = { 0 };
	int rc = capkm_host_find(t->t.host, &t->t.range, &claim, &err);

	if (rc)
		return capkm_observe_why(why, size, rc, "%s", err.text);
	if (claim.end - claim.start < t->bytes)
		return capkm_observe_why(why, size, -EINVAL,
			"memory %" PRIu64 " has %" PRIu64 " bytes there, the tensor %" PRIu64,
			t->t.range.memory, (uint64_t)(claim.end - claim.start),
			t->bytes);
	t->t.range.end = t->t.range.start + t->bytes;
	return 0;
}

int host_look(const void *tensor, struct host_tensor *t, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	int rc = capkm_opts(&t->t, sizeof(t->t), tensor, "observe_host", &err);

	if (rc)
		return capkm_observe_why(why, size, rc, "%s", err.text);
	if (!capkm_observe_dtype_bytes(t->t.dtype))
		return capkm_observe_why(why, size, -EINVAL,
			"a tensor's dtype is %" PRIu32, t->t.dtype);
	t->bytes = 0;
	/* Nothing but its rank is looked at, for the session to refuse it. */
	if (t->t.rank > CAPKM_OBSERVE_RANK)
		return 0;
	if (t->t.rank && !t->t.shape)
		return capkm_observe_why(why, size, -EINVAL,
					 "a tensor's shape is NULL");
	if (!capkm_observe_tensor_bytes(t->t.dtype, t->t.shape, t->t.rank,
					&t->bytes))
		return capkm_observe_why(why, size, -EOVERFLOW,
			"a tensor has more bytes than there can be");
	if (t->t.host && t->t.data)
		return capkm_observe_why(why, size, -EINVAL,
			"a tensor has data of its own and an executor");
	if (t->t.host)
		return look_at_range(t, why, size);
	if (t->bytes && !t->t.data)
		return capkm_observe_why(why, size, -EINVAL,
					 "a tensor's data is NULL");
	return 0;
}

/* readiness */

static int is_recording(const struct host_tensor *t, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_host_event event;
	/* An event is nothing but an answer: the slot is none the worse for it. */
	int rc = capkm_host_event_record(t->t.host, t->t.stream, &event, &err);

	if (rc)
		return capkm_observe_why(why, size, rc, "%s", err.text);
	if (event.window)
		return capkm_observe_why(why, size, -EBUSY,
			"window %" PRIu64 " records on slot %" PRIu32,
			event.window, event.slot);
	return 0;
}

static int is_tainted(const struct host_tensor *t, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_report report;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &report, .reports_len = 1);
	char text[480];
	int rc = capkm_host_check(t->t.host, &t->t.range, 1, &answer, &err);

	if (rc)
		return capkm_observe_why(why, size, rc, "%s", err.text);
	/* For work in another process that goes on, the reads will wait. */
	if (answer.out_result == CAPKM_CLEAN || !answer.out_reports ||
	    report.kind == CAPKM_KIND_IN_PROGRESS)
		return 0;
	capkm_report_text(&report, NULL, 0, 0, text, sizeof(text));
	return capkm_observe_why(why, size, -ESTALE, "%s", text);
}

static int host_ready(void *context, const void *tensor, char *why, size_t size)
{
	struct host_tensor t;
	int rc = host_look(tensor, &t, why, size);

	(void)context;
	if (rc || !t.t.host)
		return rc;
	rc = is_recording(&t, why, size);
	if (rc || !t.bytes)
		return rc;
	return is_tainted(&t, why, size);
}

static int host_describe(void *context, const void *tensor, uint64_t *shape,
			 uint32_t *rank, uint32_t *dtype, char *why, size_t size)
{
	struct host_tensor t;
	int rc = host_look(tensor, &t, why, size);

	(void)context;
	if (rc)
		return rc;
	if (t.t.rank && t.t.rank <= CAPKM_OBSERVE_RANK)
		memcpy(shape, t.t.shape, t.t.rank * sizeof(*shape));
	*rank = t.t.rank;
	*dtype = t.t.dtype;
	return 0;
}

/* costs */

/* Can the values be copied to where they are wanted? */
static bool is_direct(const struct capkm_observe_geometry *g)
{
	return capkm_observe_gives_values(&g->selection->transform) &&
	       (g->dtype == CAPKM_DTYPE_F32 || g->dtype == CAPKM_DTYPE_I64 ||
		g->dtype == CAPKM_DTYPE_U64);
}

static int host_estimate(void *context, const struct capkm_observe_geometry *g,
			 struct capkm_usage *usage, char *why, size_t size)
{
	const uint32_t stored = capkm_observe_dtype_bytes(g->dtype);
	const uint64_t width = stored ? stored : sizeof(uint64_t);
	const uint64_t n = capkm_observe_emitted(g);
	struct capkm_usage u;
	int rc = capkm_observe_estimate(g, &u, why, size);

	(void)context;
	if (rc)
		return rc;
	if (!is_direct(g) &&
	    !capkm_observe_add(&u.host_bytes,
			       n < STAGING / width ? n : STAGING / width, width))
		return capkm_observe_overflow(g, why, size);
	*usage = u;
	return 0;
}

/* values */

/* What is selected, in elements: runs, and for each axis beside them, from the last on. */
struct runs {
	uint64_t first;		/* where the first run begins */
	uint64_t len;		/* of each */
	uint32_t axes;
	uint64_t n[CAPKM_OBSERVE_RANK];
	uint64_t step[CAPKM_OBSERVE_RANK];
};

/* There is something selected, so all products are inside of the tensor. */
static void find_runs(const struct capkm_observe_geometry *g, struct runs *runs)
{
	uint64_t pitch = 1;
	uint32_t i;

	runs->first = 0;
	runs->len = 1;
	runs->axes = 0;
	for (i = g->rank; i--; pitch *= g->shape[i]) {
		runs->first += g->starts[i] * pitch;
		if (g->selected[i] == 1)
			continue;
		if (!runs->axes && g->strides[i] == 1 && pitch == runs->len) {
			runs->len *= g->selected[i];
			continue;
		}
		runs->n[runs->axes] = g->selected[i];
		runs->step[runs->axes++] = g->strides[i] * pitch;
	}
}

/* Where values are copied to; what is full goes into the reduction, if there is one. */
struct buffer {
	const struct host_tensor *from;
	struct capkm_reduction *reduction;
	char *values;
	uint64_t used, room;	/* elements */
	uint32_t element;	/* bytes */
	char *why;
	size_t size;
};

static int read_memory(const struct host_tensor *from, uint64_t start,
		       uint64_t bytes, void *to, char *why, size_t size)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	const struct capkm_observe_host_tensor *t = &from->t;
	const struct capkm_host_range range = {
		.memory = t->range.memory,
		.start = t->range.start + start,
		.end = t->range.start + start + bytes,
	};
	int rc = capkm_host_read(t->host, t->stream, &range, to, NULL, &err);

	return rc ? capkm_observe_why(why, size, rc, "%s", err.text) : 0;
}

int host_bytes(const struct host_tensor *from, uint64_t start, uint64_t bytes,
	       void *to, char *why, size_t size)
{
	if (from->t.host)
		return read_memory(from, start, bytes, to, why, size);
	memcpy(to, (const char *)from->t.data + start, bytes);
	return 0;
}

static void flush(struct buffer *b)
{
	if (!b->reduction)
		return;
	capkm_reduce_take(b->reduction, b->values, b->used);
	b->used = 0;
}

static int take_run(struct buffer *b, uint64_t start, uint64_t n)
{
	uint64_t some;
	int rc;

	for (; n; n -= some, start += some) {
		some = b->room - b->used;
		if (some > n)
			some = n;
		rc = host_bytes(b->from, start * b->element, some * b->element,
				b->values + b->used * b->element, b->why,
				b->size);
		if (rc)
			return rc;
		b->used += some;
		if (b->used == b->room)
			flush(b);
	}
	return 0;
}

/* The first @left of the selected values, in order. */
static int take(struct buffer *b, const struct runs *runs, uint64_t left)
{
	uint64_t index[CAPKM_OBSERVE_RANK] = { 0 };
	uint64_t at = runs->first, n;
	uint32_t axis;
	int rc = 0;

	for (; left && !rc; left -= n) {
		n = left < runs->len ? left : runs->len;
		rc = take_run(b, at, n);
		for (axis = 0; axis < runs->axes; axis++) {
			at += runs->step[axis];
			if (++index[axis] < runs->n[axis])
				break;
			at -= runs->n[axis] * runs->step[axis];
			index[axis] = 0;
		}
	}
	if (!rc)
		flush(b);
	return rc;
}

/* Candidates are of the last index of each axis but the last. */
static void keep_last_row(struct capkm_observe_geometry *g)
{
	uint32_t i;

	for (i = 0; g->elements && i + 1 < g->rank; i++) {
		g->starts[i] += (g->selected[i] - 1) * g->strides[i];
		g->elements /= g->selected[i];
		g->selected[i] = 1;
	}
}

int host_is(const struct host_tensor *t, const struct capkm_observe_geometry *g,
	    char *why, size_t size)
{
	return capkm_observe_as_before(g, t->t.dtype, t->t.rank, t->t.shape,
				       why, size);
}

static int host_transform(void *context, const void *tensor,
			  const struct capkm_observe_geometry *geometry,
			  struct capkm_observe_payload *payload, char *why,
			  size_t size)
{
	const struct capkm_observe_transform *transform =
		&geometry->selection->transform;
	const bool gives_values = capkm_observe_gives_values(transform);
	struct capkm_observe_geometry g = *geometry;
	uint64_t staging[STAGING / sizeof(uint64_t)];
	struct capkm_reduction reduction;
	struct host_tensor t;
	struct buffer b = {
		.from = &t,
		.why = why,
		.size = size,
	};
	struct runs runs;
	uint64_t n;
	int rc = host_look(tensor, &t, why, size);

	(void)context;
	if (!rc)
		rc = host_is(&t, &g, why, size);
	if (rc)
		return rc;
	if (transform->kind == CAPKM_TRANSFORM_TOP_CANDIDATES)
		keep_last_row(&g);
	n = capkm_observe_emitted(&g);
	if (gives_values && n != payload->values.len)
		return capkm_observe_why(why, size, -EOVERFLOW,
			"%" PRIu64 " values do not fit in a record", n);
	b.element = capkm_observe_dtype_bytes(g.dtype);
	if (is_direct(&g)) {
		b.values = payload->values.any;
		b.room = n;
	} else {
		b.values = (char *)staging;
		b.room = STAGING / b.element;
		b.reduction = &reduction;
	}
	capkm_reduce_begin(&reduction, transform, g.dtype, payload);
	if (n) {
		find_runs(&g, &runs);
		rc = take(&b, &runs, n);
	}
	if (!rc)
		capkm_reduce_end(&reduction);
	return rc;
}

static void host_capabilities(void *context,
			      struct capkm_observe_capabilities *out)
{
	static const uint32_t transforms[] = {
		CAPKM_TRANSFORM_PREVIEW, CAPKM_TRANSFORM_SLICE,
		CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_TRANSFORM_SUMMARY,
		CAPKM_TRANSFORM_HISTOGRAM, CAPKM_TRANSFORM_TOP_CANDIDATES,
	};

	(void)context;
	*out = (struct capkm_observe_capabilities){
		.transformations = transforms,
		.transformations_len = sizeof(transforms) / sizeof(*transforms),
		.max_histogram_bins = HISTOGRAM_BINS,
	};
}

const struct capkm_observe_backend *capkm_observe_host_backend(void)
{
	static const struct capkm_observe_backend backend = {
		.sz = sizeof(backend),
		.capabilities = host_capabilities,
		.ready = host_ready,
		.describe = host_describe,
		.estimate = host_estimate,
		.transform = host_transform,
		.apply = host_apply,
		.release = host_release,
		.estimate_routes = host_estimate_routes,
	};

	return &backend;
}
