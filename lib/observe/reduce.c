// SPDX-License-Identifier: MIT
/*
 * Values become a payload: some of them, statistics, counts or the best ones. In the order
 * in which they are stored, in one pass.
 */
#include "reduce.h"

#include <math.h>
#include <string.h>

#define BLOCK 256	/* values that are converted at once */

/* values as f32 */

static float from_bits(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static float from_f16(uint16_t h)
{
	const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
	const uint32_t exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
	float tiny;

	if (exponent == 0x1f)
		return from_bits(sign | 0x7f800000 | fraction << 13);
	if (exponent)
		return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	/* Subnormal, or zero: exact in f32. */
	tiny = (float)fraction * 0x1p-24f;
	return sign ? -tiny : tiny;
}

/* Plain loops, with the dtype outside. */
void capkm_values_as_f32(uint32_t dtype, const void *values, uint64_t n,
			 float *out)
{
	const unsigned char *p = values;
	uint64_t i;

#define EACH(type, expression)						\
	for (i = 0; i < n; i++) {					\
		type v;							\
									\
		memcpy(&v, p + i * sizeof(v), sizeof(v));		\
		out[i] = (expression);					\
	}								\
	break
	switch (dtype) {
	case CAPKM_DTYPE_F32:
		memcpy(out, p, n * sizeof(*out));
		break;
	case CAPKM_DTYPE_F16:
		EACH(uint16_t, from_f16(v));
	case CAPKM_DTYPE_BF16:
		EACH(uint16_t, from_bits((uint32_t)v << 16));
	case CAPKM_DTYPE_I64:
		EACH(int64_t, (float)v);
	case CAPKM_DTYPE_U64:
		EACH(uint64_t, (float)v);
	case CAPKM_DTYPE_BOOL:
		EACH(uint8_t, v ? 1 : 0);
	}
#undef EACH
}

/* the values themselves */

static void take_values(struct capkm_reduction *r, const void *values, uint64_t n)
{
	struct capkm_observe_values *out = &r->payload->values;
	const unsigned char *p = values;
	const uint32_t size = capkm_observe_dtype_bytes(r->dtype);
	uint64_t i;

	switch (r->dtype) {
	case CAPKM_DTYPE_F16:
	case CAPKM_DTYPE_BF16:
		capkm_values_as_f32(r->dtype, p, n, out->f32 + r->taken);
		break;
	case CAPKM_DTYPE_BOOL:
		for (i = 0; i < n; i++)
			out->boolean[r->taken + i] = p[i];
		break;
	default:
		memcpy((char *)out->any + r->taken * size, p, n * size);
		break;
	}
}

/* statistics */

static void count_non_finite(struct capkm_observe_summary *s, float v)
{
	s->nan += isnan(v);
	s->positive_infinity += v == INFINITY;
	s->negative_infinity += v == -INFINITY;
}

/* In locals: through pointers, each value would wait for the one before. */
static void summarise(struct capkm_reduction *r, const float *v, uint64_t n)
{
	struct capkm_observe_summary *s = &r->payload->summary;
	float min = s->finite ? s->min : INFINITY;
	float max = s->finite ? s->max : -INFINITY;
	double sum = r->sum, squares = r->squares;
	uint64_t i, finite = 0;

	for (i = 0; i < n; i++) {
		if (!isfinite(v[i])) {
			count_non_finite(s, v[i]);
			continue;
		}
		finite++;
		min = v[i] < min ? v[i] : min;
		max = v[i] > max ? v[i] : max;
		sum += v[i];
		squares += (double)v[i] * v[i];
	}
	s->finite += finite;
	if (s->finite) {
		s->min = min;
		s->max = max;
	}
	r->sum = sum;
	r->squares = squares;
}

static void summary_end(struct capkm_reduction *r)
{
	struct capkm_observe_summary *s = &r->payload->summary;

	s->elements = r->taken;
	s->non_finite = r->taken - s->finite;
	if (s->finite) {
		s->mean = r->sum / (double)s->finite;
		s->rms = sqrt(r->squares / (double)s->finite);
	}
}

/* counts */

/* Last edge that is not above @v, which is not below the first. */
static uint32_t find_edge(const float *edges, uint32_t len, float v)
{
	uint32_t low = 0, high = len;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (edges[middle] <= v)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void count(struct capkm_reduction *r, float v)
{
	const struct capkm_observe_transform *t = r->transform;
	struct capkm_observe_histogram *h = &r->payload->histogram;
	uint32_t edge;

	if (!isfinite(v)) {
		h->non_finite++;
	} else if (v < t->edges[0]) {
		h->below++;
	} else if (v > t->edges[t->edges_len - 1]) {
		h->above++;
	} else {
		edge = find_edge(t->edges, t->edges_len, v);
		/* The last edge has no bin of its own. */
		h->counts[edge < h->counts_len ? edge : h->counts_len - 1]++;
	}
}

/* the best: a heap whose root is the worst of them */

static bool is_worse(const struct capkm_observe_candidate *a,
		     const struct capkm_observe_candidate *b)
{
	return a->score < b->score ||
	       (a->score == b->score && a->token_id > b->token_id);
}

static void swap(struct capkm_observe_candidate *a,
		 struct capkm_observe_candidate *b)
{
	const struct capkm_observe_candidate was = *a;

	*a = *b;
	*b = was;
}

static void sift_down(struct capkm_observe_candidate *heap, uint32_t len)
{
	uint64_t at = 0, child;

	while ((child = 2 * at + 1) < len) {
		if (child + 1 < len && is_worse(&heap[child + 1], &heap[child]))
			child++;
		if (is_worse(&heap[at], &heap[child]))
			break;
		swap(&heap[at], &heap[child]);
		at = child;
	}
}

static void sift_up(struct capkm_observe_candidate *heap, uint64_t at)
{
	while (at && is_worse(&heap[at], &heap[(at - 1) / 2])) {
		swap(&heap[at], &heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
}

/* @room: length of the array; c->len: how many there are by now. */
static void nominate(struct capkm_observe_candidates *c, uint32_t room,
		     uint32_t index, float score)
{
	const struct capkm_observe_candidate v = { index, score };

	if (isnan(score))
		return;
	if (c->len < room) {
		c->candidates[c->len] = v;
		sift_up(c->candidates, c->len++);
	} else if (room && is_worse(&c->candidates[0], &v)) {
		c->candidates[0] = v;
		sift_down(c->candidates, c->len);
	}
}

static void candidates_end(struct capkm_observe_candidates *c)
{
	uint32_t len = c->len;

	while (len > 1) {
		swap(&c->candidates[0], &c->candidates[--len]);
		sift_down(c->candidates, len);
	}
}

void capkm_reduce_begin(struct capkm_reduction *r,
			const struct capkm_observe_transform *transform,
			uint32_t dtype, struct capkm_observe_payload *payload)
{
	struct capkm_observe_histogram *h = &payload->histogram;

	*r = (struct capkm_reduction){
		.transform = transform,
		.payload = payload,
		.dtype = dtype,
	};
	switch (transform->kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		payload->summary = (struct capkm_observe_summary){ 0 };
		break;
	case CAPKM_TRANSFORM_HISTOGRAM:
		h->below = 0;
		h->above = 0;
		h->non_finite = 0;
		memset(h->counts, 0, h->counts_len * sizeof(*h->counts));
		break;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		r->room = payload->candidates.len;
		payload->candidates.len = 0;
		break;
	}
}

static void take_block(struct capkm_reduction *r, const float *v, uint64_t n)
{
	uint64_t i;

	switch (r->transform->kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		summarise(r, v, n);
		break;
	case CAPKM_TRANSFORM_HISTOGRAM:
		for (i = 0; i < n; i++)
			count(r, v[i]);
		break;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		for (i = 0; i < n; i++)
			nominate(&r->payload->candidates, r->room,
				 (uint32_t)(r->taken + i), v[i]);
		break;
	}
}

void capkm_reduce_take(struct capkm_reduction *r, const void *values, uint64_t n)
{
	const uint32_t size = capkm_observe_dtype_bytes(r->dtype);
	const char *p = values;
	float block[BLOCK];

	if (capkm_observe_gives_values(r->transform)) {
		take_values(r, values, n);
		r->taken += n;
		return;
	}
	while (n) {
		const uint64_t some = n < BLOCK ? n : BLOCK;

		capkm_values_as_f32(r->dtype, p, some, block);
		take_block(r, block, some);
		r->taken += some;
		p += some * size;
		n -= some;
	}
}

void capkm_reduce_end(struct capkm_reduction *r)
{
	if (r->transform->kind == CAPKM_TRANSFORM_SUMMARY)
		summary_end(r);
	else if (r->transform->kind == CAPKM_TRANSFORM_TOP_CANDIDATES)
		candidates_end(&r->payload->candidates);
}
