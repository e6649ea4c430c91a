/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the stand-in runs for the kernels of observations: functions that do in plain C
 * what is asked of a kernel, each element after the other, by struct view and struct
 * partial alone; or the source of the kernels (kernels_here.h).
 */
#ifndef OBSERVE_KERNELS_H
#define OBSERVE_KERNELS_H

#include <capkm/observe_cuda.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/cuda_kernels.h"
#include "standin/standin.h"

/* A value as a float, from its bytes; by arithmetic, not by bits, for f16. */
static T_UNUSED float v_float(const void *at, uint32_t dtype)
{
	uint16_t h;
	uint32_t bits;
	int64_t i;
	uint64_t u;
	float f;
	double d;

	switch (dtype) {
	case CAPKM_DTYPE_F32:
		memcpy(&f, at, 4);
		return f;
	case CAPKM_DTYPE_F16:
		memcpy(&h, at, 2);
		d = h % 1024;
		if (h / 1024 % 32 == 31)
			d = d ? NAN : INFINITY;
		else if (h / 1024 % 32)
			d = ldexp(1024 + d, h / 1024 % 32 - 25);
		else
			d = ldexp(d, -24);
		return (float)(h >= 0x8000 ? -d : d);
	case CAPKM_DTYPE_BF16:
		memcpy(&h, at, 2);
		bits = h * 65536u;
		memcpy(&f, &bits, 4);
		return f;
	case CAPKM_DTYPE_I64:
		memcpy(&i, at, 8);
		return (float)i;
	case CAPKM_DTYPE_U64:
		memcpy(&u, at, 8);
		return (float)u;
	default:
		return *(const unsigned char *)at ? 1 : 0;
	}
}

/* Address of element @i, by recursion from the outermost axis. */
static T_UNUSED uint64_t plain_at(const struct view *v, uint32_t axis, uint64_t i)
{
	uint64_t inner = 1;

	if (axis == v->rank)
		return v->address;
	for (uint32_t a = axis + 1; a < v->rank; a++)
		inner *= v->selected[a];
	return i / inner * v->step[axis] + plain_at(v, axis + 1, i % inner);
}

static T_UNUSED float plain_value(const struct view *v, uint64_t i)
{
	return v_float((const void *)(uintptr_t)plain_at(v, 0, i), v->dtype);
}

static T_UNUSED char *plain_to(void *param)
{
	return *(char **)param;
}

static T_UNUSED int plain_gather(void **params)
{
	const struct view *v = params[0];
	const uint64_t first = *(uint64_t *)params[1], n = *(uint64_t *)params[2];
	const uint32_t bytes = *(uint32_t *)params[3];

	for (uint64_t i = 0; i < n; i++)
		memcpy(plain_to(params[4]) + i * bytes,
		       (const void *)(uintptr_t)plain_at(v, 0, first + i), bytes);
	return 0;
}

static T_UNUSED void plain_nothing(struct partial *p)
{
	*p = (struct partial){ .zero = ~0ull, .min = ~0u };
}

static T_UNUSED uint32_t plain_key(float f)
{
	uint32_t bits;

	f += 0.0f;	/* -0 becomes 0 */
	memcpy(&bits, &f, 4);
	return f < 0 ? 0xffffffff - bits : bits + 0x80000000;
}

static T_UNUSED void plain_take(struct partial *p, float f, uint64_t i)
{
	if (isnan(f)) {
		p->nan++;
	} else if (isinf(f)) {
		*(f > 0 ? &p->positive : &p->negative) += 1;
	} else {
		p->finite++;
		if (f == 0 && p->zero == ~0ull)
			p->zero = 2 * i + !!signbit(f);
		if (plain_key(f) < p->min)
			p->min = plain_key(f);
		if (plain_key(f) > p->max)
			p->max = plain_key(f);
		p->sum += f;
		p->squares += (double)f * f;
	}
}

/* All is of the first block; the others have seen nothing. */
static T_UNUSED int plain_summary(void **params)
{
	const struct view *v = params[0];
	struct partial *p = *(struct partial **)params[1];
	unsigned int grid[3], block[3];

	standin.launched(grid, block);
	for (unsigned int i = 0; i < grid[0]; i++)
		plain_nothing(&p[i]);
	for (uint64_t i = 0; i < v->elements; i++)
		plain_take(p, plain_value(v, i), i);
	return 0;
}

static T_UNUSED int plain_summary_end(void **params)
{
	const struct partial *p = *(struct partial **)params[0];
	struct partial all;

	plain_nothing(&all);
	for (uint32_t i = 0; i < *(uint32_t *)params[1]; i++) {
		all.finite += p[i].finite;
		all.nan += p[i].nan;
		all.positive += p[i].positive;
		all.negative += p[i].negative;
		all.sum += p[i].sum;
		all.squares += p[i].squares;
		all.zero = p[i].zero < all.zero ? p[i].zero : all.zero;
		all.min = p[i].min < all.min ? p[i].min : all.min;
		all.max = p[i].max > all.max ? p[i].max : all.max;
	}
	memcpy(plain_to(params[2]), &all, sizeof(all));
	return 0;
}

static T_UNUSED int plain_zero(void **params)
{
	memset(plain_to(params[0]), 0, 8ul * *(uint32_t *)params[1]);
	return 0;
}

static T_UNUSED int plain_histogram(void **params)
{
	const struct view *v = params[0];
	const float *edges = *(const float **)params[1];
	const uint32_t bins = *(uint32_t *)params[2];
	uint64_t *counts = *(uint64_t **)params[3];

	for (uint64_t i = 0; i < v->elements; i++) {
		const float f = plain_value(v, i);
		uint32_t bin = 0;

		if (!isfinite(f)) {
			counts[COUNT_NON_FINITE]++;
			continue;
		}
		while (bin <= bins && edges[bin] <= f)
			bin++;
		if (!bin)
			counts[COUNT_BELOW]++;
		else if (bin <= bins)
			counts[COUNTS_BEFORE + bin - 1]++;
		else if (f == edges[bins])
			counts[COUNTS_BEFORE + bins - 1]++;
		else
			counts[COUNT_ABOVE]++;
	}
	return 0;
}

/* By insertion: what is better than what is there pushes it away. */
static T_UNUSED int plain_candidates(void **params)
{
	const struct view *v = params[0];
	const uint32_t count = *(uint32_t *)params[1];
	struct found *out = *(struct found **)params[2];
	uint32_t len = 0, at;
	float f, g;

	for (uint64_t i = 0; i < v->elements; i++) {
		f = plain_value(v, i);
		if (isnan(f))
			continue;
		for (at = len; at; at--) {
			memcpy(&g, &out[at - 1].score, 4);
			if (g >= f)
				break;
		}
		if (at == count)
			continue;
		len += len < count;
		memmove(&out[at + 1], &out[at], (len - 1 - at) * sizeof(*out));
		out[at].index = i;
		memcpy(&out[at].score, &f, 4);
	}
	/* The library must not rely on an order. */
	for (at = 0; at < len / 2; at++) {
		const struct found other = out[at];

		out[at] = out[len - 1 - at];
		out[len - 1 - at] = other;
	}
	for (at = len; at < count; at++)
		out[at] = (struct found){ .index = FOUND_NONE };
	return 0;
}

/* the kernels themselves */

#include "kernels_here.h"
#include "observe/cuda_kernels.cu"

#define P(i, type) (*(type *)params[i])
#define SOURCE(name, ...)						\
static void thread_##name(void **params)				\
{									\
	capkm_##name(__VA_ARGS__);					\
}									\
									\
static T_UNUSED int source_##name(void **params)			\
{									\
	unsigned int grid[3], block[3];					\
									\
	standin.launched(grid, block);					\
	here_run(thread_##name, params, grid[0], block[0]);		\
	return 0;							\
}
SOURCE(gather, P(0, struct view), P(1, u64), P(2, u64), P(3, u32), P(4, u64))
SOURCE(summary, P(0, struct view), P(1, u64))
SOURCE(summary_end, P(0, u64), P(1, u32), P(2, u64))
SOURCE(zero, P(0, u64), P(1, u32))
SOURCE(histogram, P(0, struct view), P(1, u64), P(2, u32), P(3, u64))
SOURCE(candidates, P(0, struct view), P(1, u32), P(2, u64))
#undef SOURCE
#undef P

#define OBSERVE_TABLE(prefix)						\
	{ "capkm_gather", prefix##_gather, { sizeof(struct view), 8, 8, 4, 8 } }, \
	{ "capkm_summary", prefix##_summary, { sizeof(struct view), 8 } }, \
	{ "capkm_summary_end", prefix##_summary_end, { 8, 4, 8 } },	\
	{ "capkm_zero", prefix##_zero, { 8, 4 } },			\
	{ "capkm_histogram", prefix##_histogram,			\
	  { sizeof(struct view), 8, 4, 8 } },				\
	{ "capkm_candidates", prefix##_candidates,			\
	  { sizeof(struct view), 4, 8 } },				\
	{ NULL, NULL, { 0 } }

#endif /* OBSERVE_KERNELS_H */
