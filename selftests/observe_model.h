/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tensors, and what observing them must give: by the definition, one value at a time, in
 * integers and double precision. It shares no code with the library.
 */
#ifndef OBSERVE_MODEL_H
#define OBSERVE_MODEL_H

#include "capkm_test.h"

#include <capkm/observe.h>
#include <inttypes.h>
#include <math.h>

struct m_tensor {
	uint32_t dtype, rank;
	uint64_t shape[CAPKM_OBSERVE_RANK];
	uint64_t elements, bytes;
	unsigned char *data;
};

/* How to get the same again, where that is not always so. */
static char m_again[80] T_UNUSED;

#define m_die(format, ...) t_die("%s" format, m_again, ##__VA_ARGS__)

/* SplitMix64 */
static T_UNUSED uint64_t m_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static T_UNUSED uint64_t m_roll(uint64_t *rng, uint64_t n)
{
	return m_next(rng) % n;
}

/* ------------------------------------------------------------------ values */

static T_UNUSED unsigned int m_size(uint32_t dtype)
{
	switch (dtype) {
	case CAPKM_DTYPE_F32:
		return 4;
	case CAPKM_DTYPE_F16:
	case CAPKM_DTYPE_BF16:
		return 2;
	case CAPKM_DTYPE_I64:
	case CAPKM_DTYPE_U64:
		return 8;
	case CAPKM_DTYPE_BOOL:
		return 1;
	}
	m_die("no dtype: %u", dtype);
}

static T_UNUSED bool m_is_floating(uint32_t dtype)
{
	return dtype == CAPKM_DTYPE_F32 || dtype == CAPKM_DTYPE_F16 ||
	       dtype == CAPKM_DTYPE_BF16;
}

/* The bytes of an element as a number, little-endian. */
static T_UNUSED uint64_t m_bits(const struct m_tensor *t, uint64_t at)
{
	const unsigned int size = m_size(t->dtype);
	uint64_t v = 0;

	for (unsigned int i = size; i--;)
		v = v << 8 | t->data[at * size + i];
	return v;
}

static T_UNUSED void m_set_bits(const struct m_tensor *t, uint64_t at, uint64_t v)
{
	const unsigned int size = m_size(t->dtype);

	for (unsigned int i = 0; i < size; i++, v >>= 8)
		t->data[at * size + i] = v;
}

/* A float of any layout, by its definition. */
static T_UNUSED double m_float(uint64_t bits, int exponent_bits, int fraction_bits)
{
	const int top = (1 << exponent_bits) - 1, bias = top / 2;
	const int e = bits >> fraction_bits & top;
	const uint64_t f = bits & ((1ull << fraction_bits) - 1);
	double v;

	if (e == top)
		v = f ? NAN : INFINITY;
	else if (e)
		v = ldexp((double)((1ull << fraction_bits) + f), e - bias - fraction_bits);
	else
		v = ldexp((double)f, 1 - bias - fraction_bits);
	return bits >> (exponent_bits + fraction_bits) & 1 ? -v : v;
}

/* To 24 bits, to nearest, ties to even. */
static T_UNUSED double m_round(uint64_t v)
{
	int shift = 0;
	uint64_t kept, rest;

	while (v >> shift >= 1 << 24)
		shift++;
	kept = v >> shift;
	rest = v - (kept << shift);
	if (shift && (rest > 1ull << (shift - 1) ||
		      (rest == 1ull << (shift - 1) && kept & 1)))
		kept++;
	return ldexp((double)kept, shift);
}

/* An element as f32. */
static T_UNUSED double m_value(const struct m_tensor *t, uint64_t at)
{
	const uint64_t bits = m_bits(t, at);

	switch (t->dtype) {
	case CAPKM_DTYPE_F32:
		return m_float(bits, 8, 23);
	case CAPKM_DTYPE_F16:
		return m_float(bits, 5, 10);
	case CAPKM_DTYPE_BF16:
		return m_float(bits, 8, 7);
	case CAPKM_DTYPE_I64:
		return bits >> 63 ? -m_round(-bits) : m_round(bits);
	case CAPKM_DTYPE_U64:
		return m_round(bits);
	default:
		return bits ? 1 : 0;
	}
}

/* ----------------------------------------------------------------- tensors */

static T_UNUSED void m_count(struct m_tensor *t)
{
	t->elements = 1;
	for (uint32_t i = 0; i < t->rank; i++)
		t->elements *= t->shape[i];
	t->bytes = t->elements * m_size(t->dtype);
}

/* Bits of a float: what is special, what is small so that there are ties, anything. */
static T_UNUSED uint64_t m_random_float(uint64_t *rng, int exponent_bits, int fraction_bits)
{
	const uint64_t inf = ((1ull << exponent_bits) - 1) << fraction_bits;
	const uint64_t fraction = m_next(rng) & ((1ull << fraction_bits) - 1);
	const uint64_t sign = m_roll(rng, 2) << (exponent_bits + fraction_bits);
	const uint64_t bias = (1ull << (exponent_bits - 1)) - 1;

	switch (m_roll(rng, 10)) {
	case 0:
		return sign;
	case 1:
		return sign | inf;
	case 2:
		return sign | inf | (fraction ? fraction : 1);
	case 3:
		return sign | fraction;
	case 4:
		return sign | (inf - 1);	/* the largest */
	case 5:
		return sign | (bias + m_roll(rng, 3)) << fraction_bits;
	case 6:
		return sign | (1ull << fraction_bits);	/* the smallest that is normal */
	default:
		return sign | (bias - 3 + m_roll(rng, 6)) << fraction_bits | fraction;
	}
}

static T_UNUSED uint64_t m_random_integer(uint64_t *rng)
{
	static const uint64_t special[] = {
		0, 1, -1ull, 1ull << 63, ~(1ull << 63), 1ull << 24, (1ull << 24) + 1,
		(1ull << 25) + 2, (1ull << 25) + 6, (1ull << 40) + (1ull << 16),
		(1ull << 40) + (3ull << 16), -(1ull << 24) - 1, -1ull - (1ull << 39),
	};

	switch (m_roll(rng, 3)) {
	case 0:
		return special[m_roll(rng, ARRAY_SIZE(special))];
	case 1:
		return m_roll(rng, 9) - 4;
	default:
		return m_next(rng) >> m_roll(rng, 64);
	}
}

/* Fills data. */
static T_UNUSED void m_fill(const struct m_tensor *t, uint64_t *rng)
{
	const bool quiet = !m_roll(rng, 4);

	for (uint64_t i = 0; i < t->elements; i++) {
		switch (t->dtype) {
		case CAPKM_DTYPE_F32:
			m_set_bits(t, i, m_random_float(rng, 8, 23));
			break;
		case CAPKM_DTYPE_F16:
			m_set_bits(t, i, m_random_float(rng, 5, 10));
			break;
		case CAPKM_DTYPE_BF16:
			m_set_bits(t, i, m_random_float(rng, 8, 7));
			break;
		case CAPKM_DTYPE_BOOL:
			m_set_bits(t, i, m_roll(rng, 2) ? 1 + m_roll(rng, 255) : 0);
			break;
		default:
			m_set_bits(t, i, m_random_integer(rng));
			break;
		}
		/* Sometimes all is finite. */
		if (quiet && !isfinite(m_value(t, i)))
			m_set_bits(t, i, 0);
	}
}

/* Shape and dtype. @most: elements */
static T_UNUSED void m_random_shape(struct m_tensor *t, uint64_t *rng, uint64_t most)
{
	*t = (struct m_tensor){
		.dtype = CAPKM_DTYPE_F32 + m_roll(rng, 6),
		.rank = m_roll(rng, 6),
	};
	do {
		for (uint32_t i = 0; i < t->rank; i++)
			t->shape[i] = m_roll(rng, 12) ? 1 + m_roll(rng, 6) : 0;
		if (t->rank && !m_roll(rng, 4))
			t->shape[m_roll(rng, t->rank)] = 1 + m_roll(rng, 9000);
		m_count(t);
	} while (t->elements > most);
}

/* -------------------------------------------------------------- selections */

struct m_selection {
	struct capkm_observe_selection selection;
	struct capkm_observe_point point;
	struct capkm_observe_geometry g;
};

/* All of it. */
static T_UNUSED void m_select(struct m_selection *s, const struct m_tensor *t,
			      struct capkm_observe_transform transform)
{
	*s = (struct m_selection){
		.selection = { .id = "s", .path = CAPKM_OBSERVE_LOGITS,
			       .transform = transform },
		.point = { .path = CAPKM_OBSERVE_LOGITS, .node_id = "n",
			   .dtype = m_is_floating(t->dtype) ? CAPKM_CLASS_FLOATING :
				    t->dtype == CAPKM_DTYPE_BOOL ? CAPKM_CLASS_BOOLEAN :
				    CAPKM_CLASS_INTEGER },
		.g = { .dtype = t->dtype, .rank = t->rank, .elements = t->elements },
	};
	s->g.selection = &s->selection;
	s->g.point = &s->point;
	for (uint32_t i = 0; i < t->rank; i++) {
		s->g.shape[i] = s->g.selected[i] = t->shape[i];
		s->g.strides[i] = 1;
	}
}

/* One axis of it. */
static T_UNUSED void m_slice(struct m_selection *s, uint32_t axis, uint64_t start,
			     uint64_t end, uint64_t stride)
{
	s->g.starts[axis] = start;
	s->g.strides[axis] = stride;
	s->g.selected[axis] = (end - start) / stride + !!((end - start) % stride);
	s->g.elements = 1;
	for (uint32_t i = 0; i < s->g.rank; i++)
		s->g.elements *= s->g.selected[i];
}

static T_UNUSED void m_random_slices(struct m_selection *s, uint64_t *rng)
{
	for (uint32_t i = 0; i < s->g.rank; i++) {
		const uint64_t n = s->g.shape[i];
		uint64_t start = m_roll(rng, n + 1), end;

		if (m_roll(rng, 2))
			continue;
		end = start + m_roll(rng, n - start + 1);
		if (m_roll(rng, 3)) {
			start = m_roll(rng, start + 1);
			end = end < n ? end + 1 : n;
		}
		m_slice(s, i, start, end, m_roll(rng, 9) ? 1 + m_roll(rng, 3) :
					  UINT64_MAX - m_roll(rng, 3));
	}
}

/* Where the @k-th selected element is in the tensor. */
static T_UNUSED uint64_t m_at(const struct capkm_observe_geometry *g, uint64_t k)
{
	uint64_t at = 0, index[CAPKM_OBSERVE_RANK];

	for (uint32_t i = g->rank; i--; k /= g->selected[i])
		index[i] = g->starts[i] + k % g->selected[i] * g->strides[i];
	for (uint32_t i = 0; i < g->rank; i++)
		at = at * g->shape[i] + index[i];
	return at;
}

static T_UNUSED bool m_gives_values(uint32_t kind)
{
	return kind == CAPKM_TRANSFORM_PREVIEW || kind == CAPKM_TRANSFORM_SLICE ||
	       kind == CAPKM_TRANSFORM_FULL_TENSOR;
}

/* Which of the selected elements the transform is of: [*from, *to). */
static T_UNUSED void m_part(const struct capkm_observe_geometry *g, uint64_t *from,
			    uint64_t *to)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	*from = 0;
	*to = g->elements;
	if (t->kind == CAPKM_TRANSFORM_PREVIEW && t->max_elements < *to)
		*to = t->max_elements;
	if (t->kind == CAPKM_TRANSFORM_TOP_CANDIDATES && *to)
		*from = *to - (g->rank ? g->selected[g->rank - 1] : 1);
}

static T_UNUSED bool m_is_read(const struct capkm_observe_geometry *g, uint64_t at)
{
	uint64_t from, to;

	m_part(g, &from, &to);
	for (; from < to; from++)
		if (m_at(g, from) == at)
			return true;
	return false;
}

/* ---------------------------------------------------------------- payloads */

/* With arrays of exactly the right lengths, full of rubbish. */
static T_UNUSED struct capkm_observe_payload *m_payload(const struct capkm_observe_geometry *g)
{
	const struct capkm_observe_transform *t = &g->selection->transform;
	struct capkm_observe_payload *p = malloc(sizeof(*p));
	uint64_t from, to;

	memset(p, 0xcc, sizeof(*p));
	m_part(g, &from, &to);
	switch (t->kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		p->kind = CAPKM_PAYLOAD_SUMMARY;
		break;
	case CAPKM_TRANSFORM_HISTOGRAM:
		p->kind = CAPKM_PAYLOAD_HISTOGRAM;
		p->histogram.edges = t->edges;
		p->histogram.edges_len = t->edges_len;
		p->histogram.counts_len = t->edges_len - 1;
		p->histogram.counts = malloc((t->edges_len - 1) * sizeof(uint64_t));
		memset(p->histogram.counts, 0, (t->edges_len - 1) * sizeof(uint64_t));
		break;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		p->kind = CAPKM_PAYLOAD_CANDIDATES;
		p->candidates.len = t->count;
		p->candidates.candidates = malloc(t->count *
						  sizeof(*p->candidates.candidates));
		break;
	default:
		p->kind = CAPKM_PAYLOAD_TENSOR;
		p->shape = g->selected;
		p->shape_len = g->rank;
		p->values.dtype = m_is_floating(g->dtype) ? CAPKM_DTYPE_F32 : g->dtype;
		p->values.len = to;
		p->values.any = malloc(to * m_size(p->values.dtype));
		if (to)
			memset(p->values.any, 0xcc, to * m_size(p->values.dtype));
	}
	return p;
}

static T_UNUSED void m_payload_free(struct capkm_observe_payload *p)
{
	if (p->kind == CAPKM_PAYLOAD_HISTOGRAM)
		free(p->histogram.counts);
	else if (p->kind == CAPKM_PAYLOAD_CANDIDATES)
		free(p->candidates.candidates);
	else if (p->kind == CAPKM_PAYLOAD_TENSOR)
		free(p->values.any);
	free(p);
}

/* Bytes of host memory that the payload takes. */
static T_UNUSED uint64_t m_payload_bytes(const struct capkm_observe_payload *p)
{
	uint64_t bytes = sizeof(*p);

	if (p->kind == CAPKM_PAYLOAD_HISTOGRAM)
		bytes += p->histogram.counts_len * sizeof(uint64_t);
	else if (p->kind == CAPKM_PAYLOAD_CANDIDATES)
		bytes += p->candidates.len * sizeof(*p->candidates.candidates);
	else if (p->kind == CAPKM_PAYLOAD_TENSOR)
		bytes += p->shape_len * sizeof(uint64_t) +
			 (uint64_t)p->values.len * m_size(p->values.dtype);
	return bytes;
}

/*
 * The payload's JSON, with as many digits as a float may need, where they take most
 * room: 17, or 9 of an f32.
 */
static T_UNUSED void m_number(FILE *f, double v, int digits)
{
	const int before = v == 0 || !isfinite(v) ? 0 : (int)floor(log10(fabs(v)));
	char text[64];

	if (before >= -6 && before < 13)
		snprintf(text, sizeof(text), "%.*f",
			 digits - 1 - before > 1 ? digits - 1 - before : 1, v);
	else
		snprintf(text, sizeof(text), "%.*e", digits - 1, v);
	if (isfinite(v))
		fprintf(f, "%s,", text);
	else
		fprintf(f, "\"%s\",", isnan(v) ? "nan" : v > 0 ? "+inf" : "-inf");
}

static T_UNUSED uint64_t m_json_bytes(const struct capkm_observe_payload *p)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	switch (p->kind) {
	case CAPKM_PAYLOAD_TENSOR:
		fprintf(f, "{\"kind\":\"tensor\",\"value\":{\"shape\":[");
		for (uint32_t i = 0; i < p->shape_len; i++)
			fprintf(f, "%" PRIu64 ",", p->shape[i]);
		fprintf(f, "],\"data\":{\"dtype\":\"bool\",\"values\":[");
		for (uint32_t i = 0; i < p->values.len; i++) {
			if (p->values.dtype == CAPKM_DTYPE_F32)
				m_number(f, p->values.f32[i], 9);
			else if (p->values.dtype == CAPKM_DTYPE_I64)
				fprintf(f, "%" PRId64 ",", p->values.i64[i]);
			else if (p->values.dtype == CAPKM_DTYPE_U64)
				fprintf(f, "%" PRIu64 ",", p->values.u64[i]);
			else
				fprintf(f, p->values.boolean[i] ? "true," : "false,");
		}
		fprintf(f, "]}}}");
		break;
	case CAPKM_PAYLOAD_SUMMARY:
		fprintf(f, "{\"kind\":\"summary\",\"value\":{\"elements\":%" PRIu64
			",\"finite\":%" PRIu64 ",\"non_finite\":%" PRIu64 ",\"nan\":%" PRIu64
			",\"positive_infinity\":%" PRIu64 ",\"negative_infinity\":%" PRIu64,
			p->summary.elements, p->summary.finite, p->summary.non_finite,
			p->summary.nan, p->summary.positive_infinity,
			p->summary.negative_infinity);
		fprintf(f, ",\"min\":,\"max\":,\"mean\":,\"rms\":}}");
		if (p->summary.finite) {
			m_number(f, p->summary.min, 9);
			m_number(f, p->summary.max, 9);
			m_number(f, p->summary.mean, 17);
			m_number(f, p->summary.rms, 17);
		} else {
			fprintf(f, "nullnullnullnull");
		}
		break;
	case CAPKM_PAYLOAD_HISTOGRAM:
		fprintf(f, "{\"kind\":\"histogram\",\"value\":{\"edges\":[");
		for (uint32_t i = 0; i < p->histogram.edges_len; i++)
			m_number(f, p->histogram.edges[i], 9);
		fprintf(f, "],\"counts\":[");
		for (uint32_t i = 0; i < p->histogram.counts_len; i++)
			fprintf(f, "%" PRIu64 ",", p->histogram.counts[i]);
		fprintf(f, "],\"below\":%" PRIu64 ",\"above\":%" PRIu64 ",\"non_finite\":%" PRIu64
			"}}", p->histogram.below, p->histogram.above, p->histogram.non_finite);
		break;
	default:
		fprintf(f, "{\"kind\":\"candidates\",\"value\":{\"stage\":\"raw_logits_before_"
			"sampling\",\"source\":\"effective\",\"candidates\":[");
		for (uint32_t i = 0; i < p->candidates.len; i++) {
			fprintf(f, "{\"token_id\":%" PRIu32 ",\"score\":},",
				p->candidates.candidates[i].token_id);
			m_number(f, p->candidates.candidates[i].score, 9);
		}
		fprintf(f, "]}}");
	}
	fclose(f);
	free(text);
	return size;
}

/* ----------------------------------------------------------- expectations */

static T_UNUSED void m_check_values(const struct m_tensor *t,
				    const struct capkm_observe_geometry *g,
				    const struct capkm_observe_values *v)
{
	for (uint64_t k = 0; k < v->len; k++) {
		const uint64_t at = m_at(g, k);
		const double want = m_value(t, at);

		if (v->dtype == CAPKM_DTYPE_F32 ?
		    isnan(want) ? !isnan(v->f32[k]) :
				  v->f32[k] != want || !signbit(v->f32[k]) != !signbit(want) :
		    v->dtype == CAPKM_DTYPE_BOOL ?
		    ((unsigned char *)v->boolean)[k] != !!m_bits(t, at) :
		    v->u64[k] != m_bits(t, at))
			m_die("value %" PRIu64 ", from %" PRIu64 ", is not %g (%" PRIx64 ")", k,
			      at, want, m_bits(t, at));
	}
}

static T_UNUSED bool m_near(double got, long double want, long double scale)
{
	return fabsl(got - want) <= scale * 1e-12L;
}

static T_UNUSED void m_check_summary(const struct m_tensor *t,
				     const struct capkm_observe_geometry *g,
				     const struct capkm_observe_summary *s)
{
	struct capkm_observe_summary w = { .elements = g->elements };
	long double sum = 0, size = 0, squares = 0;

	for (uint64_t k = 0; k < g->elements; k++) {
		const double v = m_value(t, m_at(g, k));

		w.nan += isnan(v);
		w.positive_infinity += v == INFINITY;
		w.negative_infinity += v == -INFINITY;
		if (!isfinite(v))
			continue;
		w.min = w.finite && w.min < v ? w.min : v;
		w.max = w.finite && w.max > v ? w.max : v;
		w.finite++;
		sum += v;
		size += fabsl(v);
		squares += (long double)v * v;
	}
	w.non_finite = w.elements - w.finite;
	if (s->elements != w.elements || s->finite != w.finite ||
	    s->non_finite != w.non_finite || s->nan != w.nan ||
	    s->positive_infinity != w.positive_infinity ||
	    s->negative_infinity != w.negative_infinity)
		m_die("counts %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
		      ", not %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		      s->elements, s->finite, s->non_finite, s->nan, s->positive_infinity,
		      s->negative_infinity, w.elements, w.finite, w.non_finite, w.nan,
		      w.positive_infinity, w.negative_infinity);
	if (!w.finite)
		return;
	if (s->min != w.min || s->max != w.max ||
	    !m_near(s->mean, sum / w.finite, size / w.finite) ||
	    !m_near(s->rms, sqrtl(squares / w.finite), sqrtl(squares / w.finite)))
		m_die("min %g max %g mean %.17g rms %.17g, not %g %g %.17Lg %.17Lg", s->min,
		      s->max, s->mean, s->rms, w.min, w.max, sum / w.finite,
		      sqrtl(squares / w.finite));
}

static T_UNUSED void m_check_histogram(const struct m_tensor *t,
				       const struct capkm_observe_geometry *g,
				       const struct capkm_observe_histogram *h)
{
	const float *e = g->selection->transform.edges;
	const uint32_t bins = g->selection->transform.edges_len - 1;
	uint64_t *counts = calloc(bins, sizeof(*counts)), below = 0, above = 0, others = 0;

	for (uint64_t k = 0; k < g->elements; k++) {
		const double v = m_value(t, m_at(g, k));

		below += isfinite(v) && v < e[0];
		above += isfinite(v) && v > e[bins];
		others += !isfinite(v);
		for (uint32_t i = 0; i < bins; i++)
			counts[i] += isfinite(v) && v >= e[i] &&
				     (v < e[i + 1] || (i == bins - 1 && v == e[bins]));
	}
	if (h->below != below || h->above != above || h->non_finite != others)
		m_die("below %" PRIu64 " above %" PRIu64 " non-finite %" PRIu64 ", not %" PRIu64
		      " %" PRIu64 " %" PRIu64, h->below, h->above, h->non_finite, below, above,
		      others);
	for (uint32_t i = 0; i < bins; i++)
		if (h->counts[i] != counts[i])
			m_die("bin %u has %" PRIu64 ", not %" PRIu64, i, h->counts[i], counts[i]);
	free(counts);
}

static T_UNUSED void m_check_candidates(const struct m_tensor *t,
					const struct capkm_observe_geometry *g,
					const struct capkm_observe_candidates *c)
{
	const uint64_t count = g->selection->transform.count;
	uint64_t from, to, n = 0;
	bool *taken;

	m_part(g, &from, &to);
	taken = calloc(to - from + 1, 1);
	for (; n < count; n++) {
		uint64_t best = UINT64_MAX;

		for (uint64_t k = from; k < to; k++)
			if (!taken[k - from] && !isnan(m_value(t, m_at(g, k))) &&
			    (best == UINT64_MAX ||
			     m_value(t, m_at(g, k)) > m_value(t, m_at(g, best))))
				best = k;
		if (best == UINT64_MAX)
			break;
		taken[best - from] = true;
		if (n >= c->len || c->candidates[n].token_id != best - from ||
		    c->candidates[n].score != m_value(t, m_at(g, best)))
			m_die("candidate %" PRIu64 " of %u is not %" PRIu64 " (%g)", n, c->len,
			      best - from, m_value(t, m_at(g, best)));
	}
	if (c->len != n)
		m_die("%u candidates, not %" PRIu64, c->len, n);
	free(taken);
}

/* It is what the definition says. */
#define m_check(...) (T_AT, m_check_(__VA_ARGS__))
static T_UNUSED void m_check_(const struct m_tensor *t, const struct capkm_observe_geometry *g,
			      const struct capkm_observe_payload *p)
{
	switch (g->selection->transform.kind) {
	case CAPKM_TRANSFORM_SUMMARY:
		m_check_summary(t, g, &p->summary);
		break;
	case CAPKM_TRANSFORM_HISTOGRAM:
		m_check_histogram(t, g, &p->histogram);
		break;
	case CAPKM_TRANSFORM_TOP_CANDIDATES:
		m_check_candidates(t, g, &p->candidates);
		break;
	default:
		m_check_values(t, g, &p->values);
	}
}

/* A transform for the tensor; edges live in @edges. */
#define M_EDGES 40
static T_UNUSED struct capkm_observe_transform m_random_transform(const struct m_tensor *t,
						uint32_t kind, uint64_t *rng,
						float edges[M_EDGES])
{
	struct capkm_observe_transform x = { .kind = kind };

	x.max_elements = m_roll(rng, 4) ? m_roll(rng, 40) : m_roll(rng, t->elements + 3);
	x.count = m_roll(rng, 3) ? 1 + m_roll(rng, 9) : 1 + m_roll(rng, 200);
	if (kind != CAPKM_TRANSFORM_HISTOGRAM)
		return x;
	/* Many values are edges. */
	edges[0] = m_roll(rng, 3) ? -4 + (int)m_roll(rng, 5) : -3e38f;
	for (x.edges_len = 1; x.edges_len < M_EDGES; x.edges_len++) {
		if (x.edges_len > 1 && !m_roll(rng, 6))
			break;
		edges[x.edges_len] = edges[x.edges_len - 1] +
				     (edges[x.edges_len - 1] < -1e9f ? 2.9e38f :
				      0.25f * (1 + m_roll(rng, 4)));
		if (edges[x.edges_len] < -1e9f)
			edges[x.edges_len] = -2;
	}
	x.edges = edges;
	return x;
}

#endif /* OBSERVE_MODEL_H */
