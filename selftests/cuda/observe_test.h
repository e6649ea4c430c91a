/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tests of observations of CUDA's tensors share: a backend, tensors whose values the
 * host has, too, observations by the backend's functions alone, and what must come of them,
 * computed naively.
 */
#ifndef OBSERVE_TEST_H
#define OBSERVE_TEST_H

#include "bridge.h"
#include "observe_kernels.h"

#include <capkm/observe_host.h>

#define MAX_AXES CAPKM_OBSERVE_RANK

static const uint32_t dtypes[] = {
	CAPKM_DTYPE_F32, CAPKM_DTYPE_F16, CAPKM_DTYPE_BF16, CAPKM_DTYPE_I64,
	CAPKM_DTYPE_U64, CAPKM_DTYPE_BOOL,
};

static uint32_t o_bytes(uint32_t dtype)
{
	static const uint8_t bytes[] = { 0, 4, 2, 2, 8, 8, 1 };

	return bytes[dtype];
}

static uint32_t o_given(uint32_t dtype)
{
	return o_bytes(dtype) == 2 ? 4 : o_bytes(dtype);
}

static const struct standin_kernel plain_kernels[] = { OBSERVE_TABLE(plain) };
static const struct standin_kernel source_kernels[] = { OBSERVE_TABLE(source) };

FIXTURE(observe)
{
	struct gpu g;
	cu_stream s, t;
	struct capkm_where on_s, on_t;
	struct capkm_observe_cuda *o;
};

/* What stands for the kernels where there is no GPU; with one it has its own. */
FIXTURE_VARIANT(observe)
{
	const struct standin_kernel *kernels;
	uint32_t flags;
};

static struct capkm_observe_cuda *o_create_(struct gpu *g, uint64_t staging, uint32_t flags)
{
	struct capkm_observe_cuda *o = NULL;
	int rc = capkm_observe_cuda_create(g->b, WITH(struct capkm_observe_cuda_opts,
		.staging_bytes = staging, .flags = flags), &o, &err);

	if (rc)
		t_die("observe_cuda_create: %d (%s)", rc, err.text);
	return o;
}
#define o_create(...) (T_AT, o_create_(__VA_ARGS__))

/* TSan does not follow threads that take turns on one stack after the other. */
#ifdef __SANITIZE_THREAD__
#define NO_TURNS true
#else
#define NO_TURNS false
#endif

FIXTURE_SETUP(observe)
{
	cu_find_standin(cu_library());
	self->o = NULL;
	self->g.b = NULL;
	if (variant->kernels == source_kernels && (NO_TURNS || !is_standin))
		return;
	c_open(&self->g);
	if (is_standin)
		standin.kernels(variant->kernels);
	CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	self->on_s = c_bind(&self->g, self->s);
	self->on_t = c_bind(&self->g, self->t);
	self->o = o_create(&self->g, 0, variant->flags);
}

FIXTURE_TEARDOWN(observe)
{
	capkm_observe_cuda_destroy(self->o);
	if (self->g.b)
		c_close(&self->g);
}

/* At the start of each test. */
#define O								\
	struct gpu *g = &self->g;					\
	const cu_stream s = self->s;					\
	const cu_stream t = self->t;					\
	struct capkm_observe_cuda *o = self->o;				\
	(void)g; (void)s; (void)t; (void)o;				\
	if (!self->g.b)							\
		SKIP(return, "a GPU has kernels of its own, and TSan cannot run these")

#define NEEDS_KERNELS() do {						\
	if (variant->flags)						\
		SKIP(return, "needs kernels");				\
} while (0)

static struct capkm_observe_cuda_query o_query_(const struct capkm_observe_cuda *o)
{
	struct capkm_observe_cuda_query q = CAPKM_OPTS(struct capkm_observe_cuda_query);
	int rc = capkm_observe_cuda_query(o, &q, &err);

	if (rc)
		t_die("observe_cuda_query: %d (%s)", rc, err.text);
	return q;
}
#define o_query(o) (T_AT, o_query_(o))

/* ----------------------------------------------------------------- tensors */

static uint64_t o_seed = 88172645463325252ull;

static uint64_t o_random(void)
{
	o_seed ^= o_seed << 13;
	o_seed ^= o_seed >> 7;
	o_seed ^= o_seed << 17;
	return o_seed;
}

static uint64_t o_below(uint64_t n)
{
	return o_random() % n;
}

struct tensor {
	struct capkm_observe_cuda_tensor t;
	uint64_t shape[MAX_AXES];
	uint64_t elements;
	unsigned char *host;
};

/* A value like any, or one that is special. */
static void o_value(unsigned char *at, uint32_t dtype, bool special)
{
	static const uint32_t f32[] = {
		0x7fc00000, 0x7f800001, 0xffc00001, 0x7f800000, 0xff800000, 0,
		0x80000000, 1, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x00800000,
		0x3f800000, 0xbf800000,
	};
	static const uint16_t f16[] = {
		0x7e00, 0x7c01, 0xfe00, 0x7c00, 0xfc00, 0, 0x8000, 1, 0x83ff, 0x7bff,
		0xfbff, 0x0400, 0x3c00, 0xbc00,
	};
	static const uint16_t bf16[] = {
		0x7fc0, 0x7f81, 0xffc0, 0x7f80, 0xff80, 0, 0x8000, 1, 0x807f, 0x7f7f,
		0xff7f, 0x0080, 0x3f80, 0xbf80,
	};
	static const int64_t i64[] = {
		INT64_MIN, INT64_MAX, 0, -1, 1, 16777217, -16777217, 9007199254740993,
		(1ll << 40) + 1, -33554435, 2, 3, 5, 7,
	};
	const uint64_t which = o_below(ARRAY_SIZE(f32));
	uint64_t u = o_random();
	float f = (float)((int64_t)u >> 20) * 0x1p-36f;

	if (dtype == CAPKM_DTYPE_F32) {
		memcpy(at, special ? (const void *)&f32[which] : &f, 4);
	} else if (o_bytes(dtype) == 2) {
		uint16_t h = special ? dtype == CAPKM_DTYPE_F16 ? f16[which] : bf16[which] :
			(uint16_t)((u & 0x83ff) | (dtype == CAPKM_DTYPE_F16 ?
				8 + u % 16 : 0) << 10 | (dtype == CAPKM_DTYPE_BF16 ?
				120 + u % 16 : 0) << 7);
		memcpy(at, &h, 2);
	} else if (o_bytes(dtype) == 8) {
		int64_t i = special ? i64[which] : (int64_t)u >> (dtype == CAPKM_DTYPE_I64 ?
			20 : 1) >> o_below(30);
		memcpy(at, &i, 8);
	} else {
		*at = special ? u : u & 1;
	}
}

/* Its values to the device. */
static void o_upload_(struct gpu *g, struct tensor *x)
{
	const struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = x->t.address, .from = (uintptr_t)x->host,
		.bytes = x->elements * o_bytes(x->t.dtype));
	struct c_result r = { .result = 0xcccccccc };

	r.rc = capkm_cuda_copy(g->b, x->t.stream, &copy, &r.result, &err);
	c_must(r, "cuda_copy");
	c_sync_(g, x->t.stream);
}
#define o_upload(...) (T_AT, o_upload_(__VA_ARGS__))

/* One of @one_in values is special; 0: none. @offset: elements before it in its memory. */
static void o_tensor_at_(struct gpu *g, struct tensor *x, cu_stream s, uint32_t dtype,
			 uint32_t rank, const uint64_t *shape, uint32_t one_in,
			 uint32_t offset)
{
	const uint32_t bytes = o_bytes(dtype);
	uint64_t memory = 0;

	memset(x, 0, sizeof(*x));
	x->elements = 1;
	for (uint32_t i = 0; i < rank; i++) {
		x->shape[i] = shape[i];
		x->elements *= shape[i];
	}
	x->host = malloc(x->elements * bytes + 1);
	for (uint64_t i = 0; i < x->elements; i++)
		o_value(x->host + i * bytes, dtype, one_in && !o_below(one_in));
	if (x->elements)
		memory = c_alloc_bytes_(g, (x->elements + offset) * bytes);
	x->t = (struct capkm_observe_cuda_tensor)CAPKM_OPTS(struct capkm_observe_cuda_tensor,
		.dtype = dtype, .rank = rank, .shape = x->shape,
		.address = memory + (memory ? offset * bytes : 0), .stream = s);
	if (x->elements)
		o_upload_(g, x);
}
#define o_tensor(...) (T_AT, o_tensor_(__VA_ARGS__))
static void o_tensor_(struct gpu *g, struct tensor *x, cu_stream s, uint32_t dtype,
		      uint32_t rank, const uint64_t *shape, uint32_t one_in)
{
	o_tensor_at_(g, x, s, dtype, rank, shape, one_in, 0);
}

static void o_forget_(struct gpu *g, struct tensor *x)
{
	if (x->elements)
		c_free_(g, x->t.address);
	free(x->host);
}
#define o_forget(...) (T_AT, o_forget_(__VA_ARGS__))

/* ------------------------------------------------------------ observations */

struct look {
	struct capkm_observe_selection selection;
	struct capkm_observe_point point;
	struct capkm_observe_geometry g;
	struct capkm_usage usage;
	struct capkm_observe_payload payload;
	struct capkm_observe_cuda_query before, after;
	char why[CAPKM_OBSERVE_MESSAGE];
};

/* All of it. */
static void o_whole(struct look *l, const struct tensor *x, uint32_t kind)
{
	memset(l, 0, sizeof(*l));
	l->selection.id = "test";
	l->selection.transform.kind = kind;
	l->point.dtype = CAPKM_CLASS_UNKNOWN;
	l->g.dtype = x->t.dtype;
	l->g.rank = x->t.rank;
	l->g.elements = x->elements;
	for (uint32_t i = 0; i < x->t.rank; i++) {
		l->g.shape[i] = x->shape[i];
		l->g.selected[i] = x->shape[i];
		l->g.strides[i] = 1;
	}
}

/* Of an axis only these; ER-9. */
static void o_slice(struct look *l, uint32_t axis, uint64_t start, uint64_t end,
		    uint64_t stride)
{
	l->g.starts[axis] = start;
	l->g.strides[axis] = stride;
	l->g.selected[axis] = (end - start + stride - 1) / stride;
	l->g.elements = 1;
	for (uint32_t i = 0; i < l->g.rank; i++)
		l->g.elements *= l->g.selected[i];
}

/* Where selected element @i is among all, row-major. */
static uint64_t o_index(const struct look *l, uint64_t i)
{
	uint64_t pitch = 1, index = 0;

	for (uint32_t a = l->g.rank; a--;) {
		index += (l->g.starts[a] + i % l->g.selected[a] * l->g.strides[a]) * pitch;
		i /= l->g.selected[a];
		pitch *= l->g.shape[a];
	}
	return index;
}

static const unsigned char *o_at(const struct look *l, const struct tensor *x, uint64_t i)
{
	return x->host + o_index(l, i) * o_bytes(x->t.dtype);
}

static uint64_t o_emitted(const struct look *l)
{
	const struct capkm_observe_transform *t = &l->selection.transform;

	return t->kind == CAPKM_TRANSFORM_PREVIEW && t->max_elements < l->g.elements ?
		t->max_elements : l->g.elements;
}

/* Room for what it gives, and no more. */
static void o_room(struct look *l)
{
	const struct capkm_observe_transform *t = &l->selection.transform;
	struct capkm_observe_payload *p = &l->payload;

	memset(p, 0, sizeof(*p));
	switch (t->kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		break;
	case CAPKM_TRANSFORM_HISTOGRAM:
		p->histogram.edges = t->edges;
		p->histogram.edges_len = t->edges_len;
		p->histogram.counts_len = t->edges_len - 1;
		p->histogram.counts = malloc(p->histogram.counts_len * 8);
		memset(p->histogram.counts, 0xcc, p->histogram.counts_len * 8);
		break;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		p->candidates.len = t->count;
		p->candidates.candidates = malloc(t->count * 8);
		break;
	default:
		p->values.len = o_emitted(l);
		p->values.any = malloc(p->values.len * o_given(l->g.dtype));
	}
}

static void o_done(struct look *l)
{
	free(l->payload.histogram.counts);
	free(l->payload.candidates.candidates);
	free(l->payload.values.any);
	memset(&l->payload, 0, sizeof(l->payload));
}

/* As a session does it. The payload is there also if it failed. */
static int o_try_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l)
{
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	struct capkm_observe_geometry early = l->g;
	uint64_t shape[MAX_AXES] = { 0 };
	uint32_t rank = 99, dtype = 99;
	struct capkm_usage bound;
	int rc;

	strcpy(l->why, "nothing was said");
	l->g.selection = early.selection = &l->selection;
	l->g.point = early.point = &l->point;
	l->before = l->after = o_query_(o);
	rc = b->ready(b->context, &x->t, l->why, sizeof(l->why));
	if (!rc)
		rc = b->describe(b->context, &x->t, shape, &rank, &dtype, l->why,
				 sizeof(l->why));
	if (!rc && (rank != x->t.rank || dtype != x->t.dtype ||
		    memcmp(shape, x->shape, rank * sizeof(*shape))))
		t_die("describe: rank %u, dtype %u", rank, dtype);
	if (!rc)
		rc = b->estimate(b->context, &l->g, &l->usage, l->why, sizeof(l->why));
	if (rc)
		return rc;
	early.dtype = CAPKM_DTYPE_UNKNOWN;
	rc = b->estimate(b->context, &early, &bound, l->why, sizeof(l->why));
	if (rc || bound.retained_bytes < l->usage.retained_bytes ||
	    bound.host_bytes < l->usage.host_bytes ||
	    bound.encoded_bytes < l->usage.encoded_bytes || l->usage.captures != 1)
		t_die("estimate before there is a tensor: %d (%s)", rc, l->why);
	o_room(l);
	rc = b->transform(b->context, &x->t, &l->g, &l->payload, l->why, sizeof(l->why));
	l->after = o_query_(o);
	return rc;
}
#define o_try(...) (T_AT, o_try_(__VA_ARGS__))

static void o_look_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l)
{
	int rc = o_try_(o, x, l);

	if (rc)
		t_die("observation: %d (%s)", rc, l->why);
}

/* What has crossed the bus, and what was used of the staging memory: all of it charged. */
static void o_charged_(const struct look *l, uint64_t copied)
{
	const uint64_t got = l->after.copied_bytes - l->before.copied_bytes;

	if (got != copied)
		t_die("%" PRIu64 " bytes were copied, not %" PRIu64, got, copied);
	if (copied > l->usage.host_bytes)
		t_die("%" PRIu64 " bytes were copied, %llu charged", copied,
		      l->usage.host_bytes);
	if (l->after.staging_used > l->before.staging_used &&
	    l->after.staging_used != l->usage.retained_bytes)
		t_die("%" PRIu64 " bytes were used, %llu charged", l->after.staging_used,
		      l->usage.retained_bytes);
	if (l->after.staging_used < l->usage.retained_bytes)
		t_die("%llu bytes were charged, not more than %" PRIu64 " used",
		      l->usage.retained_bytes, l->after.staging_used);
}

/* Values are those of the tensor, exactly. */
static void o_same_values_(const struct look *l, const struct tensor *x)
{
	const struct capkm_observe_values *v = &l->payload.values;

	for (uint64_t i = 0; i < v->len; i++) {
		const unsigned char *at = o_at(l, x, i);
		const float f = v_float(at, x->t.dtype);
		bool same;

		if (o_given(x->t.dtype) == 4)
			same = !memcmp(&v->f32[i], &f, 4) || (isnan(f) && isnan(v->f32[i]));
		else if (x->t.dtype == CAPKM_DTYPE_BOOL)
			same = ((unsigned char *)v->boolean)[i] == !!*at;
		else
			same = !memcmp(&v->u64[i], at, 8);
		if (!same)
			t_die("value %" PRIu64 " of %u, dtype %u, is another one", i, v->len,
			      x->t.dtype);
	}
}

/* Slices, previews and full tensors: what is selected, and nothing else was moved. */
#define o_values(...) (T_AT, o_values_(__VA_ARGS__))
static void o_values_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l)
{
	o_look_(o, x, l);
	o_same_values_(l, x);
	o_charged_(l, o_emitted(l) * o_bytes(x->t.dtype));
	o_done(l);
}

static bool o_near(double got, double want, double slack)
{
	return got == want || fabs(got - want) <= slack;
}

#define o_summary(...) (T_AT, o_summary_(__VA_ARGS__))
static void o_summary_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l)
{
	struct capkm_observe_summary w = { .elements = l->g.elements }, s;
	long double sum = 0, squares = 0, size = 0;
	double n;

	for (uint64_t i = 0; i < l->g.elements; i++) {
		const float f = v_float(o_at(l, x, i), x->t.dtype);

		w.nan += isnan(f);
		w.positive_infinity += f == INFINITY;
		w.negative_infinity += f == -INFINITY;
		if (!isfinite(f))
			continue;
		w.min = !w.finite || f < w.min ? f : w.min;
		w.max = !w.finite || f > w.max ? f : w.max;
		w.finite++;
		sum += f;
		size += fabsf(f);
		squares += (long double)f * f;
	}
	w.non_finite = w.elements - w.finite;
	o_look_(o, x, l);
	s = l->payload.summary;
	if (s.elements != w.elements || s.finite != w.finite ||
	    s.non_finite != w.non_finite || s.nan != w.nan ||
	    s.positive_infinity != w.positive_infinity ||
	    s.negative_infinity != w.negative_infinity)
		t_die("counts of dtype %u: %" PRIu64 " finite, not %" PRIu64, x->t.dtype,
		      s.finite, w.finite);
	if (w.finite && (memcmp(&s.min, &w.min, 4) || memcmp(&s.max, &w.max, 4)))
		t_die("dtype %u: %g to %g, not %g to %g", x->t.dtype, s.min, s.max, w.min,
		      w.max);
	n = w.finite;
	if (w.finite && !o_near(s.mean, (double)(sum / n), n * 0x1p-52 * (double)(size / n)))
		t_die("dtype %u: mean %.17g, not %.17g", x->t.dtype, s.mean, (double)(sum / n));
	if (w.finite && !o_near(s.rms, (double)sqrtl(squares / n),
				n * 0x1p-52 * (double)sqrtl(squares / n)))
		t_die("dtype %u: rms %.17g, not %.17g", x->t.dtype, s.rms,
		      (double)sqrtl(squares / n));
	o_charged_(l, l->g.elements ? sizeof(struct partial) : 0);
	o_done(l);
}

#define o_histogram(...) (T_AT, o_histogram_(__VA_ARGS__))
static void o_histogram_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l,
			 const float *edges, uint32_t len)
{
	uint64_t *counts = calloc(len, 8), below = 0, above = 0, other = 0;
	const struct capkm_observe_histogram *h = &l->payload.histogram;
	float f;

	l->selection.transform.edges = edges;
	l->selection.transform.edges_len = len;
	for (uint64_t i = 0; i < l->g.elements; i++) {
		uint32_t bin = 0;

		f = v_float(o_at(l, x, i), x->t.dtype);
		while (bin + 1 < len && !(f >= edges[bin] && f < edges[bin + 1]))
			bin++;
		if (!isfinite(f))
			other++;
		else if (f < edges[0])
			below++;
		else if (f > edges[len - 1])
			above++;
		else
			counts[bin + 1 < len ? bin : len - 2]++;
	}
	o_look_(o, x, l);
	if (h->below != below || h->above != above || h->non_finite != other)
		t_die("dtype %u: %" PRIu64 " below, %" PRIu64 " above, %" PRIu64 " others",
		      x->t.dtype, h->below, h->above, h->non_finite);
	for (uint32_t i = 0; i + 1 < len; i++)
		if (h->counts[i] != counts[i])
			t_die("dtype %u, bin %u: %" PRIu64 ", not %" PRIu64, x->t.dtype, i,
			      h->counts[i], counts[i]);
	free(counts);
	o_charged_(l, l->g.elements ? (COUNTS_BEFORE + len - 1) * 8 : 0);
	if (l->g.elements && l->after.uploaded_bytes - l->before.uploaded_bytes != len * 4)
		t_die("%" PRIu64 " bytes of edges",
		      l->after.uploaded_bytes - l->before.uploaded_bytes);
	o_done(l);
}

struct rank_of {
	float score;
	uint32_t index;
};

static int o_by_rank(const void *a, const void *b)
{
	const struct rank_of *p = a, *q = b;

	if (p->score != q->score)
		return p->score > q->score ? -1 : 1;
	return p->index < q->index ? -1 : p->index > q->index;
}

#define o_candidates(...) (T_AT, o_candidates_(__VA_ARGS__))
static void o_candidates_(struct capkm_observe_cuda *o, const struct tensor *x, struct look *l,
			  uint32_t count)
{
	const struct capkm_observe_candidates *c = &l->payload.candidates;
	const uint64_t n = l->g.rank ? l->g.shape[l->g.rank - 1] : 1;
	struct rank_of *all = malloc((n + 1) * sizeof(*all));
	uint32_t len = 0, most;

	l->selection.transform.count = count;
	for (uint64_t i = 0; l->g.elements && i < n; i++) {
		const float f = v_float(o_at(l, x, l->g.elements - n + i), x->t.dtype);

		if (!isnan(f))
			all[len++] = (struct rank_of){ f, i };
	}
	qsort(all, len, sizeof(*all), o_by_rank);
	o_look_(o, x, l);
	most = len < count ? len : count;
	if (c->len != most)
		t_die("dtype %u: %u candidates, not %u", x->t.dtype, c->len, most);
	for (uint32_t i = 0; i < most; i++)
		if (c->candidates[i].token_id != all[i].index ||
		    memcmp(&c->candidates[i].score, &all[i].score, 4))
			t_die("dtype %u, candidate %u of %u: %u (%g), not %u (%g)", x->t.dtype,
			      i, most, c->candidates[i].token_id, c->candidates[i].score,
			      all[i].index, all[i].score);
	free(all);
	o_charged_(l, l->g.elements ? (n < count ? n : count) * 8 : 0);
	o_done(l);
}

#endif /* OBSERVE_TEST_H */
