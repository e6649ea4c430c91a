// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tensors in host memory as interventions change them: each value against the definition of
 * its format, found among all values that there are, with sums that lose nothing.
 * CAPKM_TEST_ROUNDS, CAPKM_TEST_SEED: random tensors, and the first one's seed.
 */
#include "fail_alloc.h"
#include "host_test.h"
#include "observe_model.h"

#include <capkm/intervene.h>
#include <capkm/observe_host.h>
#include <float.h>

static char why[512];

static const struct capkm_observe_backend *backend(void)
{
	return capkm_observe_host_backend();
}

/* ------------------------------------------------------------ the definition */

struct format {
	int exponent, fraction;
};

static struct format format_of(uint32_t dtype)
{
	return dtype == CAPKM_DTYPE_F32 ? (struct format){ 8, 23 } :
	       dtype == CAPKM_DTYPE_F16 ? (struct format){ 5, 10 } : (struct format){ 8, 7 };
}

static double number(struct format f, uint64_t bits)
{
	return m_float(bits, f.exponent, f.fraction);
}

/* Is |@sum + @rest| below, at (0) or above @mid? The rest is less than half of a digit. */
static int compare(double sum, double rest, double mid)
{
	if (sum < 0) {
		sum = -sum;
		rest = -rest;
	}
	return sum != mid ? (sum < mid ? -1 : 1) : (rest > 0) - (rest < 0);
}

/* The bits of the number of this format that is nearest to @sum + @rest, of two the even. */
static uint64_t nearest(struct format f, double sum, double rest)
{
	const uint64_t sign = (uint64_t)!!signbit(sum) << (f.exponent + f.fraction);
	const uint64_t inf = ((1ull << f.exponent) - 1) << f.fraction;
	uint64_t low = 0, high = inf;	/* infinity is where one more number would be */
	double above;
	int is;

	if (isinf(sum))
		return sign | inf;
	while (high - low > 1) {
		const uint64_t mid = low + (high - low) / 2;

		*(compare(sum, rest, number(f, mid)) < 0 ? &high : &low) = mid;
	}
	above = high == inf ? ldexp(1, 1 << (f.exponent - 1)) : number(f, high);
	is = compare(sum, rest, number(f, low) / 2 + above / 2);
	return sign | (is < 0 || (!is && !(low & 1)) ? low : high);
}

/* @a + @b is what is returned, and *@rest. */
static double two_sum(double a, double b, double *rest)
{
	volatile double sum = a + b, bb = sum - a, aa = sum - bb;

	*rest = isfinite(sum) ? (a - aa) + (b - bb) : 0;
	return sum;
}

/* What becomes of a value. @given: of the action's own, its bits */
static uint64_t changed(const struct capkm_intervene_action *a, uint32_t dtype, uint64_t bits,
			uint64_t k, uint64_t given)
{
	const struct format f = format_of(dtype);
	const uint64_t inf = ((1ull << f.exponent) - 1) << f.fraction;
	double sum, rest = 0;

	switch (a->kind) {
	case CAPKM_ACTION_ZERO:
		return 0;
	case CAPKM_ACTION_MASK:
		return a->keep[k] ? bits : 0;
	case CAPKM_ACTION_REPLACE:
		return given;
	case CAPKM_ACTION_MASK_LOGITS:
		return 1ull << (f.exponent + f.fraction) | inf;
	case CAPKM_ACTION_SCALE:
		/* 48 bits at most. */
		sum = number(f, bits) * (double)(float)a->factor;
		break;
	default:
		sum = two_sum(number(f, bits), number(f, given), &rest);
	}
	return isnan(sum) ? inf | 1 : nearest(f, sum, rest);
}

static bool same(struct format f, uint64_t got, uint64_t want)
{
	return isnan(number(f, want)) ? isnan(number(f, got)) : got == want;
}

/* ------------------------------------------------------------ one change */

struct change {
	struct m_tensor t;
	struct m_selection s;
	struct capkm_intervene_action a;
	struct m_tensor given;		/* of the action */
	struct capkm_observe_axis axes[CAPKM_OBSERVE_RANK];
};

static struct capkm_observe_host_tensor plain(const struct m_tensor *t)
{
	return (struct capkm_observe_host_tensor)CAPKM_OPTS(struct capkm_observe_host_tensor,
		.dtype = t->dtype, .rank = t->rank, .shape = t->shape, .data = t->data);
}

static int apply(const void *tensor, const struct change *c, void **out)
{
	why[0] = 0;
	return backend()->apply(backend()->context, tensor, &c->s.g, &c->a, out, why, sizeof(why));
}

static bool is_named(const struct change *c, uint64_t k)
{
	uint32_t vocabulary = 0;
	uint64_t index;

	if (c->a.kind != CAPKM_ACTION_MASK_LOGITS)
		return true;
	while (strcmp(c->axes[vocabulary].name, "vocabulary"))
		vocabulary++;
	for (uint32_t i = c->s.g.rank - 1; i > vocabulary; i--)
		k /= c->s.g.selected[i];
	index = k % c->s.g.selected[vocabulary];
	for (uint32_t i = 0; i < c->a.ids_len; i++)
		if (c->a.ids[i] == index)
			return true;
	return false;
}

/* What was made is what it should be, and what it was made of is as it was. */
#define check(...) (T_AT, check_(__VA_ARGS__))
static void check_(const struct change *c, const void *out, const unsigned char *before)
{
	const struct capkm_observe_host_tensor *h = out;
	const struct format f = format_of(c->t.dtype);
	struct m_tensor made = c->t;
	uint64_t *want = malloc((c->t.elements + 1) * sizeof(*want));

	if (h->dtype != c->t.dtype || h->rank != c->t.rank || h->host ||
	    memcmp(h->shape, c->t.shape, h->rank * sizeof(*h->shape)))
		m_die("another tensor");
	if (c->t.bytes && memcmp(before, c->t.data, c->t.bytes))
		m_die("the original has changed");
	for (uint64_t i = 0; i < c->t.elements; i++)
		want[i] = m_bits(&c->t, i);
	for (uint64_t k = 0; k < c->s.g.elements; k++)
		if (is_named(c, k))
			want[m_at(&c->s.g, k)] = changed(&c->a, c->t.dtype, m_bits(&c->t, m_at(&c->s.g, k)), k,
							 c->given.data ? m_bits(&c->given, k) : 0);
	made.data = (void *)h->data;
	for (uint64_t i = 0; i < c->t.elements; i++)
		if (!same(f, m_bits(&made, i), want[i]))
			m_die("action %u, dtype %u, element %" PRIu64 ": %" PRIx64 " has become %" PRIx64
			      ", not %" PRIx64, c->a.kind, c->t.dtype, i, m_bits(&c->t, i),
			      m_bits(&made, i), want[i]);
	free(want);
}

/* Finite bits of a format. */
static uint64_t random_bits(struct format f, uint64_t *rng)
{
	uint64_t bits;

	do {
		bits = m_roll(rng, 3) ? m_random_float(rng, f.exponent, f.fraction) :
		       m_next(rng) >> (63 - f.exponent - f.fraction);
	} while (!isfinite(number(f, bits)));
	return bits;
}

static void random_values(struct change *c, uint64_t *rng)
{
	c->given = c->t;
	c->given.elements = c->s.g.elements;
	c->given.data = malloc(c->s.g.elements * m_size(c->t.dtype) + 1);
	/* Sums that are nearly nothing, and those where one is half of a digit of the other. */
	for (uint64_t k = 0; k < c->s.g.elements; k++) {
		uint64_t bits = random_bits(format_of(c->t.dtype), rng);

		if (!m_roll(rng, 3))
			bits = m_bits(&c->t, m_at(&c->s.g, k)) ^
			       1ull << (format_of(c->t.dtype).exponent + format_of(c->t.dtype).fraction) ^ m_roll(rng, 2);
		if (!isfinite(number(format_of(c->t.dtype), bits)))
			bits = 0;
		m_set_bits(&c->given, k, bits);
	}
	c->a.values.dtype = c->t.dtype;
	c->a.values.len = c->s.g.elements;
	c->a.values.any = c->given.data;
	c->a.shape = c->s.g.selected;
	c->a.shape_len = c->t.rank;
}

static void random_tokens(struct change *c, uint64_t *rng)
{
	const uint32_t axis = m_roll(rng, c->t.rank);
	uint32_t *ids = malloc(c->t.shape[axis] * sizeof(*ids) + 1);

	c->axes[axis].name = "vocabulary";
	c->s.g.starts[axis] = 0;
	c->s.g.strides[axis] = 1;
	m_slice(&c->s, axis, 0, c->t.shape[axis], 1);
	for (uint32_t i = c->t.shape[axis]; i--;)
		if (m_roll(rng, 2))
			ids[c->a.ids_len++] = i;
	c->a.ids = ids;
}

static void random_change(struct change *c, uint32_t dtype, uint32_t kind, uint64_t *rng)
{
	static const double factors[] = { 0, -0.0, 1, -1, 0.5, 3, 1.0 / 3, -1e-5, 65504, 1e-30, 3e38 };
	bool *keep;

	memset(c, 0, sizeof(*c));
	do {
		m_random_shape(&c->t, rng, 400);
	} while (kind == CAPKM_ACTION_MASK_LOGITS && !c->t.rank);
	c->t.dtype = dtype;
	m_count(&c->t);
	c->t.data = malloc(c->t.bytes + 1);
	m_fill(&c->t, rng);
	m_select(&c->s, &c->t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
	if (m_roll(rng, 3))
		m_random_slices(&c->s, rng);
	for (uint32_t i = 0; i < c->t.rank; i++)
		c->axes[i].name = "other";
	c->s.point.axes = c->axes;
	c->s.point.axes_len = c->t.rank;
	c->a.kind = kind;
	c->a.dtype = dtype;
	switch (kind) {
	case CAPKM_ACTION_SCALE:
		c->a.factor = m_roll(rng, 2) ? factors[m_roll(rng, ARRAY_SIZE(factors))] :
			      number(format_of(CAPKM_DTYPE_F32), random_bits(format_of(CAPKM_DTYPE_F32), rng));
		break;
	case CAPKM_ACTION_MASK:
		keep = malloc(c->s.g.elements + 1);
		for (uint64_t k = 0; k < c->s.g.elements; k++)
			keep[k] = m_roll(rng, 2);
		c->a.keep = keep;
		c->a.keep_len = c->s.g.elements;
		break;
	case CAPKM_ACTION_REPLACE:
	case CAPKM_ACTION_ADD:
		random_values(c, rng);
		break;
	case CAPKM_ACTION_MASK_LOGITS:
		random_tokens(c, rng);
		break;
	}
}

static void change_free(struct change *c)
{
	free(c->t.data);
	free(c->given.data);
	free((void *)c->a.keep);
	free((void *)c->a.ids);
}

/* ------------------------------------------------------------ tests */

/* Each action on each dtype, of tensors and slices of any kind. */
TEST(random_changes)
{
	const uint64_t rounds = t_param("CAPKM_TEST_ROUNDS", 3000, 600);
	const uint64_t seed = t_param("CAPKM_TEST_SEED", 1, 1);

	for (uint64_t round = 0; round < rounds; round++) {
		struct capkm_observe_host_tensor h;
		uint64_t rng = seed + round;
		unsigned char *before;
		struct change c;
		void *out;

		snprintf(m_again, sizeof(m_again), "CAPKM_TEST_SEED=%" PRIu64 ": ", seed + round);
		random_change(&c, CAPKM_DTYPE_F32 + round % 3, round / 3 % 6, &rng);
		before = malloc(c.t.bytes + 1);
		memcpy(before, c.t.data, c.t.bytes);
		h = plain(&c.t);
		ASSERT_EQ(0, apply(&h, &c, &out)) TH_LOG("%s%s", m_again, why);
		check(&c, out, before);
		backend()->release(backend()->context, out);
		free(before);
		change_free(&c);
	}
}

/* Every value of 16 bits, with some of each kind. */
TEST(all_of_16_bits)
{
	static const double factors[] = { 1, -1, 0.5, 1.0 / 3, 1.5, 0x1p-20, 3e38, 1e-38, 0x1.000002p-3 };

	for (uint32_t dtype = CAPKM_DTYPE_F16; dtype <= CAPKM_DTYPE_BF16; dtype++) {
		uint64_t rng = dtype;

		for (unsigned int round = 0; round < 2 * ARRAY_SIZE(factors); round++) {
			struct change c = {
				.t = { .dtype = dtype, .rank = 1, .shape = { 65536 } },
				.a = { .kind = round & 1 ? CAPKM_ACTION_ADD : CAPKM_ACTION_SCALE,
				       .dtype = dtype, .factor = factors[round / 2] },
			};
			struct capkm_observe_host_tensor h;
			unsigned char *before;
			void *out;

			m_count(&c.t);
			c.t.data = malloc(c.t.bytes);
			before = malloc(c.t.bytes);
			for (uint64_t i = 0; i < 65536; i++)
				m_set_bits(&c.t, i, i);
			memcpy(before, c.t.data, c.t.bytes);
			m_select(&c.s, &c.t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
			if (round & 1)
				random_values(&c, &rng);
			h = plain(&c.t);
			ASSERT_EQ(0, apply(&h, &c, &out)) TH_LOG("%s", why);
			check(&c, out, before);
			backend()->release(backend()->context, out);
			free(before);
			change_free(&c);
		}
	}
}

/* Ties go to even, beyond the largest is infinity, what is tiny is counted in its units. */
TEST(rounding)
{
	static const struct {
		uint32_t dtype;
		uint32_t a, b, sum;
	} sums[] = {
		{ CAPKM_DTYPE_F16, 0x3c00, 0x1000, 0x3c00 },	/* 1 + 2^-11: a tie, down */
		{ CAPKM_DTYPE_F16, 0x3c01, 0x1000, 0x3c02 },	/* a tie, up */
		{ CAPKM_DTYPE_F16, 0x3c00, 0x1001, 0x3c01 },	/* above it */
		{ CAPKM_DTYPE_F16, 0x7bff, 0x4bff, 0x7bff },	/* 65504 + 15.99 */
		{ CAPKM_DTYPE_F16, 0x7bff, 0x4c00, 0x7c00 },	/* + 16 */
		{ CAPKM_DTYPE_F16, 0xfbff, 0xcc00, 0xfc00 },
		{ CAPKM_DTYPE_F16, 0x0001, 0x0001, 0x0002 },
		{ CAPKM_DTYPE_F16, 0x03ff, 0x0001, 0x0400 },	/* the first that is normal */
		{ CAPKM_DTYPE_F16, 0x8001, 0x0001, 0x0000 },
		{ CAPKM_DTYPE_F16, 0x8000, 0x8000, 0x8000 },
		{ CAPKM_DTYPE_F16, 0x7c00, 0x3c00, 0x7c00 },
		{ CAPKM_DTYPE_BF16, 0x3f80, 0x3b80, 0x3f80 },	/* 1 + 2^-8 */
		{ CAPKM_DTYPE_BF16, 0x3f81, 0x3b80, 0x3f82 },
		{ CAPKM_DTYPE_BF16, 0x7f7f, 0x7b00, 0x7f80 },
		{ CAPKM_DTYPE_BF16, 0x3f80, 0x0001, 0x3f80 },	/* far apart */
		{ CAPKM_DTYPE_F32, 0x3f800000, 0x33800000, 0x3f800000 },	/* 1 + 2^-24 */
		{ CAPKM_DTYPE_F32, 0x3f800001, 0x33800000, 0x3f800002 },
		{ CAPKM_DTYPE_F32, 0x3f800000, 0x33800001, 0x3f800001 },
		{ CAPKM_DTYPE_F32, 0x7f7fffff, 0x73000000, 0x7f800000 },
		{ CAPKM_DTYPE_F32, 0x00000001, 0x00000001, 0x00000002 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++) {
		unsigned char a[4], b[4];
		struct change c = {
			.t = { .dtype = sums[i].dtype, .rank = 1, .shape = { 1 }, .data = a },
			.a = { .kind = CAPKM_ACTION_ADD, .values = { sums[i].dtype, 1, { .any = b } } },
		};
		struct m_tensor other = c.t;
		struct capkm_observe_host_tensor h;
		void *out;

		m_count(&c.t);
		other.data = b;
		m_set_bits(&c.t, 0, sums[i].a);
		m_set_bits(&other, 0, sums[i].b);
		m_select(&c.s, &c.t, (struct capkm_observe_transform){ CAPKM_TRANSFORM_FULL_TENSOR });
		h = plain(&c.t);
		ASSERT_EQ(0, apply(&h, &c, &out));
		other.data = (void *)((struct capkm_observe_host_tensor *)out)->data;
		ASSERT_EQ(sums[i].sum, m_bits(&other, 0)) { TH_LOG("sum %zu", i); }
		ASSERT_EQ(sums[i].sum, changed(&c.a, c.t.dtype, sums[i].a, 0, sums[i].b));
		backend()->release(backend()->context, out);
	}
}

/* What it does not do, and what it does without memory. */
TEST(refused)
{
	uint64_t rng = 7;
	struct capkm_observe_host_tensor h;
	struct change c = { 0 };
	void *out = &rng;

	do {
		change_free(&c);
		random_change(&c, CAPKM_DTYPE_F32, CAPKM_ACTION_ZERO, &rng);
	} while (!c.t.rank || !c.t.elements || c.s.g.elements != c.t.elements);
	h = plain(&c.t);
	c.a.kind = CAPKM_ACTION_EXCLUDE_EXPERTS;
	ASSERT_EQ(-EOPNOTSUPP, apply(&h, &c, &out));
	HAS(why, "action 6 on a tensor of dtype 1 is not supported");
	c.a.kind = CAPKM_ACTION_ZERO;
	c.s.g.dtype = CAPKM_DTYPE_U64;
	ASSERT_EQ(-EOPNOTSUPP, apply(&h, &c, &out));
	c.s.g.dtype = CAPKM_DTYPE_F16;
	ASSERT_EQ(-EINVAL, apply(&h, &c, &out));
	HAS(why, "another shape or dtype");
	c.s.g.dtype = CAPKM_DTYPE_F32;
	c.s.g.shape[0]++;
	ASSERT_EQ(-EINVAL, apply(&h, &c, &out));
	c.s.g.shape[0]--;
	h.data = NULL;
	ASSERT_EQ(-EINVAL, apply(&h, &c, &out));
	h = plain(&c.t);
	t_fail_alloc = 1;
	ASSERT_EQ(-ENOMEM, apply(&h, &c, &out));
	HAS(why, "out of memory");
	t_fail_alloc = 0;
	ASSERT_EQ(&rng, out);
	change_free(&c);
}

/* What showing a router's original choice costs: an id of 64 bits and a coefficient each. */
TEST(routes)
{
	const struct capkm_intervene_routing r = { .expert_count = 8, .top_k = 2 };
	const struct capkm_intervene_point point = { .path = "router", .routing = &r };
	struct capkm_usage u = { 0 };

	ASSERT_EQ(0, backend()->estimate_routes(NULL, &point, 3, &u, why, sizeof(why)));
	ASSERT_EQ(72, u.host_bytes);
	ASSERT_EQ(0, u.captures + u.retained_bytes + u.encoded_bytes);
	ASSERT_EQ(-EOVERFLOW, backend()->estimate_routes(NULL, &point, UINT64_MAX / 2 + 1, &u, why, sizeof(why)));
	ASSERT_EQ(-EOVERFLOW, backend()->estimate_routes(NULL, &point, UINT64_MAX / 4, &u, why, sizeof(why)));
}

/* An executor's tensor becomes one in memory of its own; what is tainted becomes none. */
TEST(of_an_executor)
{
	struct cl *cl = t_client();
	uint64_t rng = 1, fail;
	struct ex x;

	h_domain(cl);
	h_create(&x, cl, NULL);
	fail = h_kernel(&x, "attention", fn_fail, "no such luck");
	for (uint32_t i = 0; i < 60; i++) {
		struct capkm_observe_host_tensor h;
		struct capkm_host_write w;
		unsigned char *before;
		struct change c;
		uint64_t memory;
		void *out;

		random_change(&c, CAPKM_DTYPE_F32 + i % 3, i / 3 % 6, &rng);
		before = malloc(c.t.bytes + 1);
		memcpy(before, c.t.data, c.t.bytes);
		memory = h_alloc_bytes(&x, 1, c.t.bytes + 8);
		w = (struct capkm_host_write){ { memory, 8, 8 + c.t.bytes }, c.t.data };
		h = plain(&c.t);
		h.data = NULL;
		h.host = x.h;
		h.stream = 1;
		h.range = (struct capkm_host_range){ memory, 8, 8 + c.t.bytes };
		if (c.t.bytes)
			OK(capkm_host_write(x.h, 1, &w, 1, NULL, &err));
		ASSERT_EQ(0, apply(&h, &c, &out)) TH_LOG("%s", why);
		check(&c, out, before);
		backend()->release(backend()->context, out);
		if (c.t.bytes) {
			/* Also where it would be changed. */
			h_launch(&x, 2, fail, 0, ARGS({ { memory, 8, 9 }, CAPKM_HOST_WRITE }));
			ASSERT_EQ(-ESTALE, apply(&h, &c, &out));
		}
		h_free(&x, memory);
		free(before);
		change_free(&c);
	}
	capkm_host_destroy(x.h);
	t_is_empty(cl);
	t_close(cl);
	t_no_leaks();
}

TEST_HARNESS_MAIN
