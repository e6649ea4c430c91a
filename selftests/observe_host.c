// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tensors in host memory as they are observed: against the definition, one value at a time;
 * and which bytes are read, and when none are. CAPKM_TEST_ROUNDS, CAPKM_TEST_SEED: random
 * tensors, and the first one's seed.
 */
#include "fail_alloc.h"
#include "host_test.h"
#include "observe_model.h"

#include <capkm/observe_host.h>
#include <sys/mman.h>

#define KINDS 6

static char why[512];

static const struct capkm_observe_backend *backend(void)
{
	return capkm_observe_host_backend();
}

/* A tensor of the model, in plain memory. */
static struct capkm_observe_host_tensor plain(const struct m_tensor *t)
{
	return (struct capkm_observe_host_tensor)CAPKM_OPTS(struct capkm_observe_host_tensor,
		.dtype = t->dtype, .rank = t->rank, .shape = t->shape, .data = t->data);
}

static int ready(const struct capkm_observe_host_tensor *t)
{
	why[0] = 0;
	return backend()->ready(backend()->context, t, why, sizeof(why));
}

static int describe(const struct capkm_observe_host_tensor *t, uint64_t *shape, uint32_t *rank,
		    uint32_t *dtype)
{
	why[0] = 0;
	return backend()->describe(backend()->context, t, shape, rank, dtype, why, sizeof(why));
}

static int estimate(const struct capkm_observe_geometry *g, struct capkm_usage *u)
{
	why[0] = 0;
	return backend()->estimate(backend()->context, g, u, why, sizeof(why));
}

static int transform(const struct capkm_observe_host_tensor *t,
		     const struct capkm_observe_geometry *g, struct capkm_observe_payload *p)
{
	why[0] = 0;
	return backend()->transform(backend()->context, t, g, p, why, sizeof(why));
}

/* Observes, and holds it against the definition and the estimate. */
#define observe(...) (T_AT, observe_(__VA_ARGS__))
static void observe_(const struct m_tensor *t, const struct capkm_observe_host_tensor *h,
		     const struct m_selection *s)
{
	struct capkm_observe_payload *p = m_payload(&s->g);
	struct capkm_usage u;
	int rc = estimate(&s->g, &u);

	if (!rc)
		rc = transform(h, &s->g, p);
	if (rc)
		m_die("%d: %s", rc, why);
	m_check_(t, &s->g, p);
	if (u.captures != 1 || u.retained_bytes || u.host_bytes < m_payload_bytes(p) ||
	    u.encoded_bytes < m_json_bytes(p))
		m_die("estimate %llu %llu %llu %llu, the payload has %" PRIu64 " and %" PRIu64,
		      u.captures, u.retained_bytes, u.host_bytes, u.encoded_bytes,
		      m_payload_bytes(p), m_json_bytes(p));
	m_payload_free(p);
}

/* Tensors of memory that ends where they do. */
static void make(struct m_tensor *t)
{
	m_count(t);
	t->data = malloc(t->bytes);
}

#define SHAPE(...) .rank = sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t), \
	.shape = { __VA_ARGS__ }

/* ------------------------------------------------------------------- plain */

/* 4.3: all transforms of random parts of random tensors, each dtype, no axis to five. */
TEST(random_tensors)
{
	const uint64_t rounds = t_param("CAPKM_TEST_ROUNDS", 4000, 1500);
	const uint64_t first = t_param("CAPKM_TEST_SEED", 1, 1);
	uint64_t seen[KINDS][CAPKM_DTYPE_BOOL + 1] = { 0 }, empty = 0, scalars = 0;

	for (uint64_t seed = first; seed < first + rounds; seed++) {
		uint64_t rng = seed * 7919;
		float edges[M_EDGES];
		struct capkm_observe_host_tensor h;
		struct m_selection s;
		struct m_tensor t;
		const uint32_t kind = m_roll(&rng, KINDS);

		m_random_shape(&t, &rng, 20000);
		make(&t);
		m_fill(&t, &rng);
		m_select(&s, &t, m_random_transform(&t, kind, &rng, edges));
		if (kind != CAPKM_TRANSFORM_TOP_CANDIDATES && m_roll(&rng, 3))
			m_random_slices(&s, &rng);
		h = plain(&t);
		snprintf(m_again, sizeof(m_again), "again: CAPKM_TEST_SEED=%" PRIu64
			 " CAPKM_TEST_ROUNDS=1: ", seed);
		observe(&t, &h, &s);
		if (ready(&h))
			m_die("not ready: %s", why);
		seen[kind][t.dtype] += s.g.elements > 1;
		empty += !s.g.elements;
		scalars += !t.rank;
		free(t.data);
	}
	if (rounds < 1500)
		return;
	ASSERT_LT(10, empty);
	ASSERT_LT(10, scalars);
	for (int kind = 0; kind < KINDS; kind++)
		for (int dtype = CAPKM_DTYPE_F32; dtype <= CAPKM_DTYPE_BOOL; dtype++)
			ASSERT_LT(0, seen[kind][dtype]);
}

/* By hand, so that the model is not believed either: a slice of three axes. */
TEST(slice_by_hand)
{
	static const int64_t want[] = { 5, 7, 17, 19 };
	int64_t data[24];
	const struct m_tensor t = { .dtype = CAPKM_DTYPE_I64, SHAPE(2, 3, 4), .elements = 24,
				    .data = (void *)data };
	const struct capkm_observe_host_tensor h = plain(&t);
	struct capkm_observe_payload *p;
	struct m_selection s;

	for (int i = 0; i < 24; i++)
		data[i] = i;
	m_select(&s, &t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_SLICE });
	m_slice(&s, 1, 1, 2, 1);
	m_slice(&s, 2, 1, 4, 2);
	ASSERT_EQ(4, s.g.elements);
	p = m_payload(&s.g);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(0, memcmp(want, p->values.i64, sizeof(want)));
	m_payload_free(p);
	/* The prefix of it. */
	s.selection.transform = (struct capkm_observe_transform){
		.kind = CAPKM_TRANSFORM_PREVIEW, .max_elements = 3 };
	p = m_payload(&s.g);
	ASSERT_EQ(3, p->values.len);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(0, memcmp(want, p->values.i64, 3 * sizeof(*want)));
	m_payload_free(p);
}

/* By hand: what is not finite, -0.0, the edges themselves, equal scores, NaN. */
TEST(reductions_by_hand)
{
	static const float edges[] = { -1, 0, 1, 2 };
	float data[] = { NAN, 1, INFINITY, -0.0f, -INFINITY, 2, -1, 2, 2.5f, -NAN, -1.5f };
	const struct m_tensor t = { .dtype = CAPKM_DTYPE_F32, SHAPE(11), .elements = 11,
				    .data = (void *)data };
	const struct capkm_observe_host_tensor h = plain(&t);
	static const uint32_t best[] = { 2, 8, 5, 7, 1, 3, 6, 10, 4 };
	struct capkm_observe_payload *p;
	struct m_selection s;

	m_select(&s, &t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_SUMMARY });
	p = m_payload(&s.g);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(11, p->summary.elements);
	ASSERT_EQ(7, p->summary.finite);
	ASSERT_EQ(4, p->summary.non_finite);
	ASSERT_EQ(2, p->summary.nan);
	ASSERT_EQ(1, p->summary.positive_infinity);
	ASSERT_EQ(1, p->summary.negative_infinity);
	ASSERT_EQ(-1.5f, p->summary.min);
	ASSERT_EQ(2.5f, p->summary.max);
	ASSERT_EQ(5. / 7, p->summary.mean);
	ASSERT_EQ(sqrt(18.5 / 7), p->summary.rms);
	m_payload_free(p);

	m_select(&s, &t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_HISTOGRAM, 4,
							   .edges = edges });
	p = m_payload(&s.g);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(1, p->histogram.counts[0]);
	ASSERT_EQ(1, p->histogram.counts[1]);
	ASSERT_EQ(3, p->histogram.counts[2]);
	ASSERT_EQ(1, p->histogram.below);
	ASSERT_EQ(1, p->histogram.above);
	ASSERT_EQ(4, p->histogram.non_finite);
	m_payload_free(p);

	m_select(&s, &t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_TOP_CANDIDATES,
							   .count = 11 });
	p = m_payload(&s.g);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(9, p->candidates.len);
	for (int i = 0; i < 9; i++) {
		ASSERT_EQ(best[i], p->candidates.candidates[i].token_id);
		ASSERT_EQ(data[best[i]], p->candidates.candidates[i].score);
	}
	m_payload_free(p);
}

/* Each f16 and bf16 there is. */
TEST(all_small_floats)
{
	for (uint32_t dtype = CAPKM_DTYPE_F16; dtype <= CAPKM_DTYPE_BF16; dtype++) {
		struct m_tensor t = { .dtype = dtype, SHAPE(256, 256) };
		struct capkm_observe_host_tensor h;
		struct m_selection s;

		make(&t);
		for (uint64_t i = 0; i < t.elements; i++)
			m_set_bits(&t, i, i);
		h = plain(&t);
		m_select(&s, &t, (struct capkm_observe_transform){
			CAPKM_TRANSFORM_FULL_TENSOR });
		observe(&t, &h, &s);
		s.selection.transform.kind = CAPKM_TRANSFORM_SUMMARY;
		observe(&t, &h, &s);
		free(t.data);
	}
}

/* Values need not be aligned. */
TEST(unaligned)
{
	for (uint32_t dtype = CAPKM_DTYPE_F32; dtype <= CAPKM_DTYPE_BOOL; dtype++) {
		struct m_tensor t = { .dtype = dtype, SHAPE(7, 11) };
		uint64_t rng = dtype;

		m_count(&t);
		t.data = (unsigned char *)malloc(t.bytes + 1) + 1;
		m_fill(&t, &rng);
		for (uint32_t kind = 0; kind < KINDS; kind++) {
			struct capkm_observe_host_tensor h = plain(&t);
			float edges[M_EDGES];
			struct m_selection s;

			m_select(&s, &t, m_random_transform(&t, kind, &rng, edges));
			observe(&t, &h, &s);
		}
		free(t.data - 1);
	}
}

/* 32 axes, each of which may be sliced; one more is too many. */
TEST(many_axes)
{
	struct m_tensor t = { .dtype = CAPKM_DTYPE_U64, .rank = 32 };
	struct capkm_observe_host_tensor h;
	uint64_t shape[33], out[32], rng = 1;
	uint32_t rank = 77, dtype = 77;
	struct m_selection s;

	for (int i = 0; i < 32; i++)
		t.shape[i] = i % 2 && i < 28 ? 2 : 1;
	make(&t);
	m_fill(&t, &rng);
	h = plain(&t);
	ASSERT_EQ(0, describe(&h, out, &rank, &dtype));
	ASSERT_EQ(32, rank);
	ASSERT_EQ(CAPKM_DTYPE_U64, dtype);
	ASSERT_EQ(0, memcmp(out, t.shape, sizeof(out)));
	m_select(&s, &t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_SLICE });
	observe(&t, &h, &s);
	for (int i = 1; i < 28; i += 4)
		m_slice(&s, i, 1, 2, 5);
	ASSERT_EQ(1u << 7, s.g.elements);
	observe(&t, &h, &s);
	for (int i = 0; i < 33; i++)
		shape[i] = 1;
	h.shape = shape;
	h.rank = 33;
	memset(out, 0xcc, sizeof(out));
	ASSERT_EQ(0, ready(&h));
	ASSERT_EQ(0, describe(&h, out, &rank, &dtype));
	ASSERT_EQ(33, rank);
	ASSERT_EQ(0xcccccccccccccccc, out[0]);
	/* The session refuses it by its rank; what it would have to read is not there. */
	h.rank = UINT32_MAX;
	h.shape = NULL;
	ASSERT_EQ(0, ready(&h));
	ASSERT_EQ(0, describe(&h, out, &rank, &dtype));
	ASSERT_EQ(UINT32_MAX, rank);
	free(t.data);
}

/* What is no tensor is told so, everywhere, and nothing is written. */
TEST(bad_tensors)
{
	static const uint64_t shape[] = { 2, 2 }, huge[] = { 1ull << 32, 1ull << 32 },
			      large[] = { 1ull << 62, 0 }, empty[] = { 1ull << 60, 0 };
	static const float data[4];
	const struct capkm_observe_host_tensor good = CAPKM_OPTS(
		struct capkm_observe_host_tensor, .dtype = CAPKM_DTYPE_F32, .rank = 2,
		.shape = shape, .data = data);
	struct {
		struct capkm_observe_host_tensor t;
		int rc;
		const char *text;
	} bad[] = {
		{ .t = { 0 }, -EINVAL, "sz is 0" },
		{ .t = { .sz = sizeof(good) }, -EINVAL, "dtype is 0" },
		{ good, -EINVAL, "dtype is 7" },
		{ good, -EINVAL, "shape is NULL" },
		{ good, -EINVAL, "data is NULL" },
		{ good, -EOVERFLOW, "more bytes" },
		{ good, -EOVERFLOW, "more bytes" },
		{ good, -EINVAL, "data of its own" },
	};
	struct capkm_observe_payload *p;
	struct capkm_observe_host_tensor t = good;
	uint64_t out[32] = { 55 };
	uint32_t rank = 77, dtype = 78;
	struct m_selection s;
	const struct m_tensor m = { .dtype = CAPKM_DTYPE_F32, SHAPE(2, 2), .elements = 4 };
	char tiny[8] = "xxxxxxx";

	bad[2].t.dtype = 7;
	bad[3].t.shape = NULL;
	bad[4].t.data = NULL;
	bad[5].t.shape = huge;
	bad[6].t.shape = large;
	bad[7].t.host = (void *)&bad;
	m_select(&s, &m, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
	p = m_payload(&s.g);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		ASSERT_EQ(bad[i].rc, ready(&bad[i].t));
		HAS(why, bad[i].text);
		ASSERT_EQ(bad[i].rc, describe(&bad[i].t, out, &rank, &dtype));
		HAS(why, bad[i].text);
		ASSERT_EQ(bad[i].rc, transform(&bad[i].t, &s.g, p));
		HAS(why, bad[i].text);
	}
	ASSERT_EQ(-EINVAL, ready(NULL));
	ASSERT_EQ(55, out[0]);
	ASSERT_EQ(77, rank);
	ASSERT_EQ(78, dtype);
	for (int i = 0; i < 16; i++)
		ASSERT_EQ(0xcc, ((unsigned char *)p->values.any)[i]);
	/* No room for the reason. */
	ASSERT_EQ(-EINVAL, backend()->ready(NULL, NULL, NULL, 0));
	ASSERT_EQ(-EINVAL, backend()->ready(NULL, NULL, tiny, 4));
	ASSERT_EQ(0, memcmp(tiny, "a t\0xxx", 8));
	/* An empty tensor has no bytes, however long its other axis is. */
	t.shape = empty;
	t.data = NULL;
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, describe(&t, out, &rank, &dtype));
	ASSERT_EQ(1ull << 60, out[0]);
	/* It is not the tensor that was described. */
	t = good;
	t.rank = UINT32_MAX;
	ASSERT_EQ(-EINVAL, transform(&t, &s.g, p));
	t.rank = 1;
	ASSERT_EQ(-EINVAL, transform(&t, &s.g, p));
	HAS(why, "another shape");
	t = good;
	t.dtype = CAPKM_DTYPE_F16;
	ASSERT_EQ(-EINVAL, transform(&t, &s.g, p));
	/* Values that a record has no room for. */
	p->values.len = 3;
	ASSERT_EQ(-EOVERFLOW, transform(&good, &s.g, p));
	HAS(why, "4 values");
	m_payload_free(p);
}

/* A later version's struct, as long as nothing is in what it has more. */
TEST(struct_sizes)
{
	static const uint64_t shape[] = { 2 };
	static const float data[2];
	struct {
		struct capkm_observe_host_tensor t;
		uint64_t more;
	} later = { .t = { sizeof(later), CAPKM_DTYPE_F32, 1, shape, data } };

	ASSERT_EQ(0, ready(&later.t));
	later.more = 1;
	ASSERT_EQ(-E2BIG, ready(&later.t));
	/* And one that ends before the executor. */
	later.t.sz = offsetof(struct capkm_observe_host_tensor, host);
	later.t.host = (void *)&later;
	ASSERT_EQ(0, ready(&later.t));
}

TEST(capabilities)
{
	struct capkm_observe_capabilities c;

	memset(&c, 0xcc, sizeof(c));
	ASSERT_EQ(sizeof(struct capkm_observe_backend), backend()->sz);
	backend()->capabilities(backend()->context, &c);
	ASSERT_EQ(KINDS, c.transformations_len);
	for (uint32_t i = 0; i < KINDS; i++)
		ASSERT_EQ(i, c.transformations[i]);
	ASSERT_EQ(4096, c.max_histogram_bins);
	ASSERT_FALSE(c.physical_native_limit);
	ASSERT_EQ(0, c.conditions_len);
}

/* --------------------------------------------------------- which bytes are read */

/*
 * ER-22: a tensor with a page for each index of its first two axes. Pages of which nothing
 * is selected cannot be read.
 */
TEST(other_pages_are_not_touched)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	uint64_t rng = 5, untouchable = 0;

	for (int round = 0; round < 200; round++) {
		struct m_tensor t = { .dtype = CAPKM_DTYPE_F32 + round % 6, .rank = 3 };
		const uint64_t row = page / m_size(t.dtype);
		struct capkm_observe_host_tensor h;
		struct capkm_observe_payload *p;
		float edges[M_EDGES];
		struct m_selection s;
		bool read[64] = { 0 };
		uint64_t from, to;

		t.shape[0] = 1 + m_roll(&rng, 4);
		t.shape[1] = 1 + m_roll(&rng, 4);
		t.shape[2] = row;
		m_count(&t);
		t.data = mmap(NULL, t.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
		ASSERT_NE(MAP_FAILED, t.data);
		m_fill(&t, &rng);
		m_select(&s, &t, m_random_transform(&t, round / 6 % KINDS, &rng, edges));
		if (s.selection.transform.kind != CAPKM_TRANSFORM_TOP_CANDIDATES)
			m_random_slices(&s, &rng);
		m_part(&s.g, &from, &to);
		for (; from < to; from++)
			read[m_at(&s.g, from) / row] = true;
		for (uint64_t i = 0; i < t.bytes / page; i++) {
			if (read[i])
				continue;
			ASSERT_EQ(0, mprotect(t.data + i * page, page, PROT_NONE));
			untouchable++;
		}
		h = plain(&t);
		p = m_payload(&s.g);
		ASSERT_EQ(0, ready(&h));
		ASSERT_EQ(0, transform(&h, &s.g, p));
		ASSERT_EQ(0, mprotect(t.data, t.bytes, PROT_READ));
		m_check(&t, &s.g, p);
		m_payload_free(p);
		munmap(t.data, t.bytes);
	}
	ASSERT_LT(200, untouchable);
}

/* Neither a preview nor a description of a terabyte reads it. */
TEST(large_tensor)
{
	const uint64_t page = sysconf(_SC_PAGESIZE);
	struct m_tensor t = { .dtype = CAPKM_DTYPE_F32, SHAPE(1 << 10, 1 << 18, 1 << 10) };
	struct capkm_observe_host_tensor h;
	struct capkm_observe_payload *p;
	struct m_selection s;

	m_count(&t);
	t.data = mmap(NULL, t.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		      0);
	if (t.data == MAP_FAILED)
		SKIP(return, "no terabyte of address space");
	ASSERT_EQ(0, mprotect(t.data, page, PROT_READ));
	/* Of the last row: two values, in the last page. */
	ASSERT_EQ(0, mprotect(t.data + t.bytes - page, page, PROT_READ | PROT_WRITE));
	((float *)(t.data + t.bytes))[-1] = 3;
	h = plain(&t);
	ASSERT_EQ(0, ready(&h));
	m_select(&s, &t, (struct capkm_observe_transform){
		.kind = CAPKM_TRANSFORM_PREVIEW, .max_elements = page / 4 });
	observe(&t, &h, &s);
	m_slice(&s, 0, 1023, 1024, 1);
	m_slice(&s, 1, (1 << 18) - 1, 1 << 18, 1);
	m_slice(&s, 2, 1022, 1024, 1);
	observe(&t, &h, &s);
	s.selection.transform.kind = CAPKM_TRANSFORM_SUMMARY;
	observe(&t, &h, &s);
	m_select(&s, &t, (struct capkm_observe_transform){
		.kind = CAPKM_TRANSFORM_TOP_CANDIDATES, .count = 1 });
	p = m_payload(&s.g);
	ASSERT_EQ(0, transform(&h, &s.g, p));
	ASSERT_EQ(1023, p->candidates.candidates[0].token_id);
	m_payload_free(p);
	munmap(t.data, t.bytes);
}

/* Nothing is allocated. */
TEST(no_allocations)
{
	uint64_t rng = 9, shape[5];
	uint32_t rank, dtype;

	for (uint32_t kind = 0; kind < KINDS; kind++) {
		struct m_tensor t = { .dtype = CAPKM_DTYPE_F16, SHAPE(3, 9, 5, 200) };
		struct capkm_observe_host_tensor h;
		struct capkm_observe_payload *p;
		struct capkm_usage u;
		float edges[M_EDGES];
		struct m_selection s;

		make(&t);
		m_fill(&t, &rng);
		h = plain(&t);
		m_select(&s, &t, m_random_transform(&t, kind, &rng, edges));
		p = m_payload(&s.g);
		t_fail_alloc = 1;
		ASSERT_EQ(0, ready(&h));
		ASSERT_EQ(0, describe(&h, shape, &rank, &dtype));
		ASSERT_EQ(0, estimate(&s.g, &u));
		ASSERT_EQ(0, transform(&h, &s.g, p));
		ASSERT_EQ(1, t_fail_alloc);
		t_fail_alloc = 0;
		m_check(&t, &s.g, p);
		m_payload_free(p);
		free(t.data);
	}
}

/* --------------------------------------------------------------- estimates */

static const struct m_tensor some = { .dtype = CAPKM_DTYPE_F32, SHAPE(2, 3), .elements = 6 };

/* What it says to the byte, so that a change is seen. */
TEST(estimates)
{
	static const struct {
		uint32_t kind, dtype;
		uint64_t host, encoded;
	} want[] = {
		/* Shape and values; two extents of up to 20 digits and six values. */
		{ CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_DTYPE_F32, 16 + 24, 512 + 42 + 6 * 18 },
		{ CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_DTYPE_I64, 16 + 48, 512 + 42 + 6 * 21 },
		{ CAPKM_TRANSFORM_SLICE, CAPKM_DTYPE_U64, 16 + 48, 512 + 42 + 6 * 21 },
		/* And the values as they are stored. */
		{ CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_DTYPE_F16, 16 + 24 + 12,
		  512 + 42 + 6 * 18 },
		{ CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_DTYPE_BF16, 16 + 24 + 12,
		  512 + 42 + 6 * 18 },
		{ CAPKM_TRANSFORM_FULL_TENSOR, CAPKM_DTYPE_BOOL, 16 + 6 + 6, 512 + 42 + 6 * 6 },
		{ CAPKM_TRANSFORM_PREVIEW, CAPKM_DTYPE_BF16, 16 + 16 + 8, 512 + 42 + 4 * 18 },
		{ CAPKM_TRANSFORM_SUMMARY, CAPKM_DTYPE_F16, 12, 512 },
		{ CAPKM_TRANSFORM_HISTOGRAM, CAPKM_DTYPE_F32, 3 * 12 + 24, 512 + 3 * 39 },
		{ CAPKM_TRANSFORM_TOP_CANDIDATES, CAPKM_DTYPE_F32, 5 * 8 + 24,
		  512 + 5 * (34 + 18) },
	};
	static const float edges[] = { 0, 1, 2 };

	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct capkm_usage u;
		struct m_selection s;

		m_select(&s, &some, (struct capkm_observe_transform){
			want[i].kind, 3, 4, 5, edges });
		s.g.dtype = want[i].dtype;
		ASSERT_EQ(0, estimate(&s.g, &u));
		EXPECT_EQ(1, u.captures);
		EXPECT_EQ(0, u.retained_bytes);
		EXPECT_EQ(sizeof(struct capkm_observe_payload) + want[i].host, u.host_bytes);
		EXPECT_EQ(want[i].encoded, u.encoded_bytes);
	}
}

/* The buffer through which values go does not grow with them. */
TEST(staging_is_bounded)
{
	const uint64_t before = sizeof(struct capkm_observe_payload);
	struct capkm_usage u;
	struct m_selection s;

	m_select(&s, &some, (struct capkm_observe_transform){ CAPKM_TRANSFORM_SUMMARY });
	s.g.elements = UINT64_MAX;
	for (uint32_t dtype = CAPKM_DTYPE_UNKNOWN; dtype <= CAPKM_DTYPE_BOOL; dtype++) {
		s.g.dtype = dtype;
		ASSERT_EQ(0, estimate(&s.g, &u));
		ASSERT_EQ(before + 16384, u.host_bytes);
		ASSERT_EQ(512, u.encoded_bytes);
	}
}

/* Before there is a tensor it says at least what it will say then. */
TEST(estimate_of_an_unknown_dtype)
{
	static const struct {
		uint32_t class, dtype;
	} of[] = {
		{ CAPKM_CLASS_FLOATING, CAPKM_DTYPE_F32 },
		{ CAPKM_CLASS_FLOATING, CAPKM_DTYPE_F16 },
		{ CAPKM_CLASS_FLOATING, CAPKM_DTYPE_BF16 },
		{ CAPKM_CLASS_INTEGER, CAPKM_DTYPE_I64 },
		{ CAPKM_CLASS_INTEGER, CAPKM_DTYPE_U64 },
		{ CAPKM_CLASS_BOOLEAN, CAPKM_DTYPE_BOOL },
		{ CAPKM_CLASS_UNKNOWN, CAPKM_DTYPE_F32 },
		{ CAPKM_CLASS_UNKNOWN, CAPKM_DTYPE_F16 },
		{ CAPKM_CLASS_UNKNOWN, CAPKM_DTYPE_I64 },
		{ CAPKM_CLASS_UNKNOWN, CAPKM_DTYPE_BOOL },
		{ 77, CAPKM_DTYPE_U64 },
	};
	uint64_t rng = 3;

	for (int round = 0; round < 2000; round++) {
		struct capkm_usage before, then;
		struct m_selection s;
		float edges[M_EDGES];
		const int i = m_roll(&rng, ARRAY_SIZE(of));

		m_select(&s, &some, m_random_transform(&some, m_roll(&rng, KINDS), &rng, edges));
		s.g.elements = m_next(&rng) >> (8 + m_roll(&rng, 56));
		s.point.dtype = of[i].class;
		s.g.dtype = CAPKM_DTYPE_UNKNOWN;
		ASSERT_EQ(0, estimate(&s.g, &before));
		s.g.dtype = of[i].dtype;
		ASSERT_EQ(0, estimate(&s.g, &then));
		ASSERT_EQ(1, before.captures);
		ASSERT_EQ(0, before.retained_bytes);
		ASSERT_LE(then.host_bytes, before.host_bytes);
		ASSERT_LE(then.encoded_bytes, before.encoded_bytes);
	}
}

/* The most that fits, and one more; on error nothing is said. */
TEST(estimate_overflows)
{
	const struct capkm_usage none = { 5, 6, 7, 8 };
	struct capkm_usage u = none;
	struct m_selection s;
	uint64_t low = 1, high = UINT64_MAX;

	m_select(&s, &some, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
	while (high - low > 1) {
		s.g.elements = low + (high - low) / 2;
		if (estimate(&s.g, &u))
			high = s.g.elements;
		else
			low = s.g.elements;
	}
	ASSERT_EQ((UINT64_MAX - 512 - 42) / 18, low);
	u = none;
	s.g.elements = high;
	ASSERT_EQ(-EOVERFLOW, estimate(&s.g, &u));
	HAS(why, "64 bits");
	ASSERT_EQ(0, memcmp(&u, &none, sizeof(u)));
	/* A preview of it is small. */
	s.selection.transform = (struct capkm_observe_transform){
		.kind = CAPKM_TRANSFORM_PREVIEW, .max_elements = 1 };
	ASSERT_EQ(0, estimate(&s.g, &u));
	s.selection.transform.max_elements = UINT64_MAX;
	ASSERT_EQ(-EOVERFLOW, estimate(&s.g, &u));
	s.selection.transform = (struct capkm_observe_transform){
		.kind = CAPKM_TRANSFORM_TOP_CANDIDATES, .count = UINT64_MAX / 8 };
	ASSERT_EQ(-EOVERFLOW, estimate(&s.g, &u));
	/* Indices of candidates have 32 bits. */
	s.selection.transform.count = 1;
	s.g.selected[1] = 1ull << 32;
	ASSERT_EQ(0, estimate(&s.g, &u));
	u = none;
	s.g.selected[1]++;
	ASSERT_EQ(-EOVERFLOW, estimate(&s.g, &u));
	HAS(why, "4294967297 candidates");
	s.selection.transform.kind = KINDS;
	ASSERT_EQ(-EOPNOTSUPP, estimate(&s.g, &u));
	ASSERT_EQ(0, memcmp(&u, &none, sizeof(u)));
}

/* ---------------------------------------------------------------- executor */

FIXTURE(observe_host)
{
	struct cl *a;
	struct ex x;
	uint64_t fail;
	float edges[M_EDGES];
};

#define SELF FIXTURE_DATA(observe_host)

FIXTURE_SETUP(observe_host)
{
	self->a = t_client();
	h_domain(self->a);
	h_create(&self->x, self->a, NULL);
	self->fail = h_kernel(&self->x, "attention", fn_fail, "no such luck");
}

FIXTURE_TEARDOWN(observe_host)
{
	capkm_host_destroy(self->x.h);
	t_is_empty(self->a);
	t_close(self->a);
	t_no_leaks();
}

/* A tensor of N numbers that are in a memory of the executor. */
static const uint64_t shape_n[] = { N };
static const struct m_tensor model_n = { .dtype = CAPKM_DTYPE_U64, SHAPE(N), .elements = N };

static struct capkm_observe_host_tensor in_memory(struct ex *x, uint64_t stream, uint64_t memory)
{
	return (struct capkm_observe_host_tensor)CAPKM_OPTS(struct capkm_observe_host_tensor,
		.dtype = CAPKM_DTYPE_U64, .rank = 1, .shape = shape_n, .host = x->h,
		.stream = stream, .range.memory = memory);
}

/* All of its values. */
static struct capkm_observe_payload *values_of(struct m_selection *s)
{
	m_select(s, &model_n, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
	return m_payload(&s->g);
}

/* It waits for the tasks that write it, and reads what they wrote. */
TEST_F(observe_host, waits_for_its_writers)
{
	struct ex *x = &self->x;
	uint64_t m = h_alloc(x, 1);
	struct capkm_observe_host_tensor t = in_memory(x, 2, m);
	struct capkm_observe_payload *p;
	struct m_selection s;

	p = values_of(&s);
	for (uint64_t v = 0; v < 50; v++) {
		h_set(x, 1, m, v);
		if (v % 2)
			ASSERT_EQ(0, ready(&t));
		ASSERT_EQ(0, transform(&t, &s.g, p));
		for (int i = 0; i < N; i++)
			ASSERT_EQ(v, p->values.u64[i]);
	}
	m_payload_free(p);
}

/* While its slot records it is not looked at, and the window does not mind. */
TEST_F(observe_host, recording)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), out = h_new(x, 1, 0), w, g;
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);
	struct capkm_observe_payload *p;
	struct m_selection s;
	char name[40];

	p = values_of(&s);
	w = h_prepare(x, 1);
	/* The warm-up runs. */
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, transform(&t, &s.g, p));
	h_begin(x, 1);
	snprintf(name, sizeof(name), "window %" PRIu64, w);
	h_add(x, 1, out, m, 1);
	for (int i = 0; i < 2; i++) {
		/* The owner, and a neighbour in the slot. */
		t.stream = i ? 33 : 1;
		T_REFUSED(self->a, -EBUSY, ready(&t));
		HAS(why, name);
		/* If it began after the tensor was ready. */
		memset(p->values.any, 0xcc, SIZE);
		T_REFUSED(self->a, -EBUSY, transform(&t, &s.g, p));
		ASSERT_EQ(0xcccccccccccccccc, p->values.u64[0]);
	}
	/* Other slots see what the memory holds. */
	t.stream = 2;
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, transform(&t, &s.g, p));
	ASSERT_EQ(5, p->values.u64[0]);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	t.stream = 1;
	ASSERT_EQ(0, ready(&t));
	h_destroy(x, g);
	m_payload_free(p);
}

/* A slot that has joined the window records too. */
TEST_F(observe_host, recording_as_a_member)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), g;
	struct capkm_observe_host_tensor t = in_memory(x, 2, m);
	struct capkm_host_event e;

	h_record(x, 1);
	ASSERT_EQ(0, ready(&t));
	OK(capkm_host_event_record(x->h, 1, &e, &err));
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	T_REFUSED(self->a, -EBUSY, ready(&t));
	g = h_end(x, 1);
	ASSERT_EQ(0, ready(&t));
	h_destroy(x, g);
}

#define WINDOWS 300

struct recorder {
	struct ex *x;
	_Atomic bool seen;		/* the other thread has met a window */
	_Atomic bool done;
};

/* On one busy processor the other thread may sleep through any number of windows. */
static void *record_windows(void *context)
{
	struct recorder *r = context;
	struct ex *x = r->x;
	uint64_t in = h_new(x, 1, 1), out = h_new(x, 1, 0), g;
	int i;

	for (i = 0; i < WINDOWS || !r->seen; i++) {
		h_record(x, 1);
		h_add(x, 1, out, in, i);
		g = h_end(x, 1);
		h_replay(x, 1, g);
		h_destroy(x, g);
	}
	h_is(x, 1, out, i);
	r->done = true;
	return NULL;
}

/*
 * Windows come and go meanwhile: a tensor is observed or skipped, and each window becomes
 * a graph.
 */
TEST_F(observe_host, races_with_windows)
{
	struct ex *x = &self->x;
	struct recorder recorder = { .x = x };
	uint64_t m = h_new(x, 1, 5);
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);
	struct capkm_observe_payload *p;
	struct m_selection s;
	pthread_t thread;

	p = values_of(&s);
	ASSERT_EQ(0, pthread_create(&thread, NULL, record_windows, &recorder));
	while (!recorder.done) {
		int rc = ready(&t);

		if (!rc) {
			memset(p->values.any, 0xcc, SIZE);
			rc = transform(&t, &s.g, p);
		}
		ASSERT_TRUE(!rc || rc == -EBUSY) TH_LOG("%d: %s", rc, why);
		ASSERT_EQ(rc ? p->values.u64[N - 1] : 5, p->values.u64[N - 1]);
		if (rc)
			recorder.seen = true;
	}
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, ready(&t));
	m_payload_free(p);
}

/* Tainted bytes are not observed, and the failure behind it is named. */
TEST_F(observe_host, tainted)
{
	struct ex *x = &self->x;
	uint64_t a = h_new(x, 1, 1), b = h_new(x, 1, 2);
	struct capkm_observe_host_tensor t = in_memory(x, 1, b);
	struct capkm_report root;
	struct capkm_observe_payload *p;
	struct m_selection s;
	char name[40];

	p = values_of(&s);
	ASSERT_EQ(0, ready(&t));
	h_launch(x, 1, self->fail, 0, ARGS(W(a)));
	/* Skipped, for its input is tainted. */
	h_add(x, 1, b, a, 1);
	root = h_is_tainted(x, a, FAILED);
	snprintf(name, sizeof(name), "failure %" PRIu64, (uint64_t)root.failure);
	ASSERT_EQ(-ESTALE, ready(&t));
	HAS(why, "no such luck");
	HAS(why, name);
	/* If it failed after the tensor was ready. */
	memset(p->values.any, 0xcc, SIZE);
	ASSERT_EQ(-ESTALE, transform(&t, &s.g, p));
	HAS(why, "no such luck");
	HAS(why, name);
	ASSERT_EQ(0xcccccccccccccccc, p->values.u64[0]);
	/* Work that succeeds makes it good again. */
	h_set(x, 1, b, 7);
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, transform(&t, &s.g, p));
	ASSERT_EQ(7, p->values.u64[N - 1]);
	h_set(x, 1, a, 0);
	m_payload_free(p);
}

/*
 * Of a tensor in an executor, too, only what is selected is read: one element is tainted,
 * and an observation is -ESTALE if, and only if, it is of that one.
 */
TEST_F(observe_host, random_tensors_in_memory)
{
	const uint64_t rounds = t_param("CAPKM_TEST_ROUNDS", 300, 60);
	uint64_t rng = t_param("CAPKM_TEST_SEED", 1, 1), hit = 0, missed = 0;
	struct ex *x = &self->x;

	for (uint64_t round = 0; round < rounds; round++) {
		struct capkm_observe_host_tensor h;
		struct capkm_observe_payload *p;
		struct capkm_host_write w;
		struct m_selection s;
		struct m_tensor t;
		uint64_t memory, start = m_roll(&rng, 3) * 8, bad, size;
		int rc;

		m_random_shape(&t, &rng, 200);
		make(&t);
		m_fill(&t, &rng);
		m_select(&s, &t, m_random_transform(&t, m_roll(&rng, KINDS), &rng, self->edges));
		if (s.selection.transform.kind != CAPKM_TRANSFORM_TOP_CANDIDATES &&
		    m_roll(&rng, 4))
			m_random_slices(&s, &rng);
		memory = h_alloc_bytes(x, 1, start + t.bytes + 8);
		w = (struct capkm_host_write){ { memory, start, start + t.bytes }, t.data };
		h = plain(&t);
		h.data = NULL;
		h.host = x->h;
		h.stream = 1 + m_roll(&rng, 3);
		/* To its end, or to the memory's. */
		h.range = (struct capkm_host_range){
			memory, start, start + t.bytes + m_roll(&rng, 2) * 8 };
		if (t.bytes)
			OK(capkm_host_write(x->h, 1, &w, 1, NULL, &err));
		ASSERT_EQ(0, ready(&h)) TH_LOG("%s", why);
		observe(&t, &h, &s);
		if (!t.elements)
			goto next;
		bad = m_roll(&rng, t.elements);
		size = m_size(t.dtype);
		h_launch(x, 2, self->fail, 0, ARGS({ { memory, start + bad * size,
			start + (bad + 1) * size }, CAPKM_HOST_WRITE }));
		ASSERT_EQ(-ESTALE, ready(&h));
		p = m_payload(&s.g);
		rc = transform(&h, &s.g, p);
		if (m_is_read(&s.g, bad)) {
			ASSERT_EQ(-ESTALE, rc);
			hit++;
		} else {
			ASSERT_EQ(0, rc) TH_LOG("%s", why);
			m_check(&t, &s.g, p);
			missed++;
		}
		m_payload_free(p);
next:
		h_free(x, memory);
		free(t.data);
	}
	if (rounds >= 60) {
		ASSERT_LT(10, hit);
		ASSERT_LT(10, missed);
	}
}

/* Work of another process that goes on is waited for, as long as the handle says. */
TEST_F(observe_host, somebody_else_writes)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5);
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);
	struct capkm_observe_payload *p;
	struct capkm_claim claim;
	struct m_selection s;
	struct cl *b = t_client();
	u_int64_t scope;

	p = values_of(&s);
	h_sync(x, 1);
	t_attach(b, self->a->domain);
	claim = h_claim(x, m);
	OK(capkm_buffer_export(self->a->c, claim.buffer, &err));
	t_open(b, claim.buffer);
	scope = t_enter(b, 1, NO_CLAIMS, C(claim));
	ASSERT_EQ(0, ready(&t)) TH_LOG("%s", why);
	ASSERT_EQ(-EAGAIN, transform(&t, &s.g, p));
	ASSERT_NE(0, why[0]);
	ASSERT_EQ(0, t_exit(b, scope));
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, transform(&t, &s.g, p));
	ASSERT_EQ(5, p->values.u64[0]);
	m_payload_free(p);
	h_free(x, m);
	t_close(b);
}

/* Taint beside the tensor is not the tensor's. */
TEST_F(observe_host, taint_beside_it)
{
	struct ex *x = &self->x;
	uint64_t m = h_alloc_bytes(x, 1, 3 * SIZE);
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);

	h_launch(x, 1, self->fail, 0, ARGS({ PART(m, 0, N), CAPKM_HOST_WRITE }));
	h_launch(x, 1, self->fail, 0, ARGS({ PART(m, 2 * N, 3 * N), CAPKM_HOST_WRITE }));
	ASSERT_EQ(-ESTALE, ready(&t));
	t.range = (struct capkm_host_range)PART(m, N, 3 * N);
	ASSERT_EQ(0, ready(&t));
	/* No bytes: nothing is looked at. */
	t.range = (struct capkm_host_range){ m, 0, 0 };
	t.shape = (const uint64_t[]){ 0 };
	ASSERT_EQ(0, ready(&t));
	h_free(x, m);
}

TEST_F(observe_host, bad_ranges)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 1), shape[32] = { 55 };
	const struct capkm_observe_host_tensor good = in_memory(x, 1, m);
	struct capkm_observe_host_tensor t = good;
	uint32_t rank = 77, dtype = 78;
	struct m_selection s;
	struct capkm_observe_payload *p = values_of(&s);

	h_sync(x, 1);
	t.range = (struct capkm_host_range){ m, 0, SIZE - 1 };
	T_REFUSED(self->a, -EINVAL, ready(&t));
	HAS(why, "has 63 bytes there, the tensor 64");
	T_REFUSED(self->a, -EINVAL, describe(&t, shape, &rank, &dtype));
	T_REFUSED(self->a, -EINVAL, transform(&t, &s.g, p));
	t.range = (struct capkm_host_range){ m, 8, SIZE + 8 };
	T_REFUSED(self->a, -EINVAL, ready(&t));
	t.range = (struct capkm_host_range){ m + 1000, 0, 0 };
	T_REFUSED(self->a, -ENOENT, ready(&t));
	T_REFUSED(self->a, -ENOENT, describe(&t, shape, &rank, &dtype));
	T_REFUSED(self->a, -ENOENT, transform(&t, &s.g, p));
	ASSERT_EQ(55, shape[0]);
	ASSERT_EQ(77, rank);
	ASSERT_EQ(0, describe(&good, shape, &rank, &dtype));
	ASSERT_EQ(N, shape[0]);
	ASSERT_EQ(1, rank);
	ASSERT_EQ(CAPKM_DTYPE_U64, dtype);
	h_free(x, m);
	ASSERT_EQ(-ENOENT, ready(&good));
	m_payload_free(p);
}

/* Memory that could not be had is not observed, and it says why. */
TEST_F(observe_host, never_allocated)
{
	struct ex *x = &self->x;
	struct capkm_observe_host_tensor t;
	uint64_t m;

	if (capkm_host_alloc(x->h, 1, 1ull << 60, CAPKM_HOST_ALLOC_F_LAZY, &m, &err))
		t_die("host_alloc: %s", err.text);
	t = in_memory(x, 1, m);
	ASSERT_EQ(-ESTALE, ready(&t));
	HAS(why, "did not give a page");
	h_free(x, m);
}

/* Allocations of the executor may fail; it is said, and nothing is lost. */
TEST_F(observe_host, allocations_fail)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 9);
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);
	struct m_selection s;
	struct capkm_observe_payload *p = values_of(&s);
	int failed[2] = { 0 };

	ASSERT_EQ(0, ready(&t));
	for (int call = 0; call < 2; call++) {
		for (unsigned long n = 1; n < 100; n++) {
			int rc;

			t_fail_alloc = n;
			rc = call ? transform(&t, &s.g, p) : ready(&t);
			if (t_fail_alloc) {
				t_fail_alloc = 0;
				ASSERT_EQ(0, rc);
				break;
			}
			if (!rc)	/* somebody could do without */
				continue;
			ASSERT_EQ(-ENOMEM, rc);
			ASSERT_NE(0, why[0]);
			failed[call]++;
		}
	}
	ASSERT_LT(0, failed[0]);
	ASSERT_LT(0, failed[1]);
	ASSERT_EQ(0, ready(&t));
	ASSERT_EQ(0, transform(&t, &s.g, p));
	ASSERT_EQ(9, p->values.u64[0]);
	m_payload_free(p);
}

/* ---------------------------------------------------------------- sessions */

#define WIDE { 1ull << 40, 1ull << 40, 1ull << 40, 1ull << 40 }

/* A model with one point, a plan with one selection of it, and a session. */
struct run {
	struct capkm_observe_axis axes[CAPKM_OBSERVE_RANK];
	struct capkm_observe_slice slices[CAPKM_OBSERVE_RANK];
	struct capkm_observe_point_support support;
	struct capkm_observe_admitted *admitted;
	struct capkm_observe *session;
};

static const char *const axis_names[] = { "a", "b", "c", "d", "e" };

static int run_open(struct run *r, struct capkm *c, const struct m_tensor *t,
		    struct m_selection *s)
{
	struct capkm_observe_discovery d = {
		.artifact_identity = "model",
		.catalog = { CAPKM_OBSERVE_SCHEMA, 1, &s->point },
		.support_version = CAPKM_OBSERVE_SCHEMA,
		.support_len = 1,
		.support = &r->support,
	};
	const struct capkm_observe_plan plan = {
		.schema_version = CAPKM_OBSERVE_SCHEMA,
		.selections_len = 1,
		.selections = &s->selection,
		.limits = { WIDE, WIDE },
	};
	const struct capkm_observe_request request = { 1, 1, 1 };
	int rc;

	r->support.path = s->point.path;
	for (uint32_t i = 0; i < t->rank; i++) {
		r->axes[i] = (struct capkm_observe_axis){ axis_names[i],
			{ CAPKM_EXTENT_KNOWN, t->shape[i] } };
		if (s->g.selected[i] == t->shape[i])
			continue;
		r->slices[s->selection.slices_len++] = (struct capkm_observe_slice){
			axis_names[i], s->g.starts[i],
			/* The last that is selected, and no more. */
			s->g.starts[i] + (s->g.selected[i] ?
				(s->g.selected[i] - 1) * s->g.strides[i] + 1 : 0),
			s->g.strides[i] };
	}
	s->selection.slices = r->slices;
	s->selection.schedule = (struct capkm_observe_schedule){ true, true, 0, { 0 }, 1 };
	s->point.meaning = "";
	s->point.prefill = s->point.decode = true;
	s->point.axes_len = t->rank;
	s->point.axes = t->rank ? r->axes : NULL;
	backend()->capabilities(NULL, &d.capture);
	rc = capkm_observe_admit(&plan, &d, &request, &r->admitted, &err);
	if (!rc)
		rc = capkm_observe_validate(r->admitted, &d, backend(), 0, NULL, &err);
	if (!rc)
		rc = capkm_observe_open(c, r->admitted, backend(), NULL, &r->session, &err);
	if (!rc)
		rc = capkm_observe_begin_step(r->session, CAPKM_PREFILL, 0, &err);
	return rc;
}

static void run_close(struct run *r)
{
	capkm_observe_close(r->session);
	capkm_observe_admitted_free(r->admitted);
}

/*
 * In a session nothing is underestimated: it holds each record against what was charged.
 * And what it has made room for is what the definition says.
 */
TEST_F(observe_host, random_tensors_in_sessions)
{
	const uint64_t rounds = t_param("CAPKM_TEST_ROUNDS", 1000, 100);
	const uint64_t first = t_param("CAPKM_TEST_SEED", 1, 1);
	uint64_t captured = 0;

	for (uint64_t seed = first; seed < first + rounds; seed++) {
		uint64_t rng = seed * 104729;
		struct capkm_observe_step *step;
		const struct capkm_observe_record *record;
		struct capkm_observe_host_tensor h;
		struct run r = { 0 };
		struct m_selection s;
		struct m_tensor t;
		uint32_t kind;

		snprintf(m_again, sizeof(m_again), "again: CAPKM_TEST_SEED=%" PRIu64
			 " CAPKM_TEST_ROUNDS=1: ", seed);
		m_random_shape(&t, &rng, 3000);
		make(&t);
		m_fill(&t, &rng);
		kind = m_roll(&rng, KINDS);
		m_select(&s, &t, m_random_transform(&t, kind, &rng, self->edges));
		s.point.path = s.selection.path = kind == CAPKM_TRANSFORM_TOP_CANDIDATES ?
						  CAPKM_OBSERVE_LOGITS : "block.output";
		if (kind != CAPKM_TRANSFORM_TOP_CANDIDATES)
			m_random_slices(&s, &rng);
		/* What the session would not admit. */
		if ((kind == CAPKM_TRANSFORM_SLICE && s.g.elements == t.elements) ||
		    (kind == CAPKM_TRANSFORM_TOP_CANDIDATES &&
		     (!t.rank || s.selection.transform.count > t.shape[t.rank - 1]))) {
			free(t.data);
			continue;
		}
		h = plain(&t);
		ASSERT_EQ(0, run_open(&r, self->a->c, &t, &s)) TH_LOG("%s%s", m_again, err.text);
		ASSERT_EQ(0, capkm_observe_tensor(r.session, s.point.path, &h, &err))
			TH_LOG("%s%s", m_again, err.text);
		OK(capkm_observe_take_step(r.session, &step, &err));
		record = &step->records[0];
		ASSERT_LE(record->outcome.kind, CAPKM_OUTCOME_TRUNCATED);
		ASSERT_EQ(s.g.rank, record->selected_shape_len);
		m_check(&t, &s.g, record->payload);
		captured++;
		capkm_observe_step_free(step);
		run_close(&r);
		free(t.data);
	}
	if (rounds >= 100)
		ASSERT_LT(rounds / 2, captured);
}

/* The longest there can be: floats of the most digits, integers of 20, all edges. */
TEST_F(observe_host, longest_records)
{
	static const uint64_t longest[] = {
		[CAPKM_DTYPE_F32] = 0x80b504f3,	/* -1.6622e-38, of nine digits */
		[CAPKM_DTYPE_F16] = 0x8001, [CAPKM_DTYPE_BF16] = 0x8081,
		[CAPKM_DTYPE_I64] = 1ull << 63, [CAPKM_DTYPE_U64] = UINT64_MAX,
		[CAPKM_DTYPE_BOOL] = 0,
	};
	float edges[M_EDGES];

	for (int i = 0; i < M_EDGES; i++)
		edges[i] = (i - M_EDGES) * 1.17549435e-37f;
	for (uint32_t dtype = CAPKM_DTYPE_F32; dtype <= CAPKM_DTYPE_BOOL; dtype++) {
		for (uint32_t kind = 0; kind < KINDS; kind++) {
			struct m_tensor t = { .dtype = dtype, SHAPE(1, 2, 1000) };
			struct capkm_observe_host_tensor h;
			struct run r = { 0 };
			struct m_selection s;

			make(&t);
			for (uint64_t i = 0; i < t.elements; i++)
				m_set_bits(&t, i, longest[dtype]);
			m_select(&s, &t, (struct capkm_observe_transform){
				kind, M_EDGES, 2000, 1000, edges });
			if (kind == CAPKM_TRANSFORM_SLICE)
				m_slice(&s, 1, 1, 2, 1);
			h = plain(&t);
			OK(run_open(&r, self->a->c, &t, &s));
			OK(capkm_observe_tensor(r.session, s.point.path, &h, &err));
			run_close(&r);
			free(t.data);
		}
	}
}

/* What a session makes of a slot that records, and of bytes that are tainted. */
TEST_F(observe_host, records_say_why)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), g;
	struct capkm_observe_host_tensor t = in_memory(x, 1, m);
	const struct capkm_observe_record *record;
	struct capkm_observe_step *step;
	struct m_tensor wide = { .dtype = CAPKM_DTYPE_F32, .rank = 1 };
	struct m_selection s;

	for (int i = 0; i < 3; i++) {
		static const int rc[] = { 0, -ESTALE, -EOPNOTSUPP };
		struct run r = { 0 };

		m_select(&s, &model_n, (struct capkm_observe_transform){
			CAPKM_TRANSFORM_FULL_TENSOR });
		if (i == 2)
			s.g.rank = 0;	/* any shape */
		OK(run_open(&r, self->a->c, i == 2 ? &(struct m_tensor){ 0 } : &model_n, &s));
		if (i == 0)
			h_record(x, 1);
		else if (i == 1)
			h_launch(x, 1, self->fail, 0, ARGS(W(m)));
		else
			t = plain(&wide);
		if (i == 2)
			t.rank = 33;
		ASSERT_EQ(rc[i], capkm_observe_tensor(r.session, s.point.path, &t, &err));
		OK(capkm_observe_take_step(r.session, &step, &err));
		record = &step->records[0];
		ASSERT_EQ(NULL, record->payload);
		ASSERT_EQ(0, record->charged.captures);
		if (i == 0) {
			ASSERT_EQ(CAPKM_OUTCOME_SKIPPED, record->outcome.kind);
			ASSERT_EQ(CAPKM_REASON_RECORDING, record->outcome.reason.kind);
			g = h_end(x, 1);
			h_destroy(x, g);
		} else {
			ASSERT_EQ(CAPKM_OUTCOME_FAILED, record->outcome.kind);
			ASSERT_EQ(i == 1 ? CAPKM_REASON_TAINTED : CAPKM_REASON_UNSUPPORTED,
				  record->outcome.reason.kind);
			if (i == 1)
				HAS(record->outcome.message, "no such luck");
		}
		capkm_observe_step_free(step);
		run_close(&r);
	}
	h_set(x, 1, m, 1);
}

static struct capkm_observe_host_tensor inner;
static int inner_rc;

static int fn_observes(const struct capkm_host_call *call)
{
	char text[256];

	inner_rc = backend()->ready(NULL, &inner, text, sizeof(text));
	return 0;
}

/* A function that the executor runs would wait for itself; a child has no executor. */
TEST_F(observe_host, called_from_elsewhere)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 1), out = h_new(x, 1, 0);
	pid_t pid;
	int status;

	inner = in_memory(x, 1, m);
	h_launch(x, 1, h_kernel(x, "observes", fn_observes, NULL), 0, ARGS(W(out)));
	h_sync(x, 1);
	ASSERT_EQ(-EDEADLK, inner_rc);
	pid = fork();
	if (!pid)
		_exit(ready(&inner) == -ECANCELED && strstr(why, "fork") ? 0 : 1);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, ready(&inner));
}

TEST_HARNESS_MAIN
