// SPDX-License-Identifier: MIT
/*
 * The functions that are launched: plain C over the bytes of their arguments. They
 * know nothing of capkm, and do not call it.
 */
#include "kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A row of x to mean 0 and variance 1; then scale and shift. (x, scale and shift, y) */
static int layer_norm(const struct capkm_host_call *call)
{
	uint32_t rows = call->grid[0], width = call->grid[1];
	const float *scale = call->args[1], *shift = scale + width;

	for (uint32_t r = 0; r < rows; r++) {
		const float *x = (const float *)call->args[0] + r * width;
		float *y = (float *)call->args[2] + r * width;
		float mean = 0, variance = 0;

		for (uint32_t i = 0; i < width; i++)
			mean += x[i] / width;
		for (uint32_t i = 0; i < width; i++)
			variance += (x[i] - mean) * (x[i] - mean) / width;
		for (uint32_t i = 0; i < width; i++)
			y[i] = (x[i] - mean) / sqrtf(variance + 1e-5f) *
			       scale[i] + shift[i];
	}
	return 0;
}

/* y = x * weights + bias. (x, weights and bias, y) */
static int linear(const struct capkm_host_call *call)
{
	uint32_t rows = call->grid[0], columns = call->grid[1];
	uint32_t depth = call->bytes[0] / sizeof(float) / rows;
	const float *weights = call->args[1], *bias = weights + depth * columns;

	for (uint32_t r = 0; r < rows; r++) {
		const float *x = (const float *)call->args[0] + r * depth;
		float *y = (float *)call->args[2] + r * columns;

		memcpy(y, bias, columns * sizeof(float));
		for (uint32_t k = 0; k < depth; k++)
			for (uint32_t i = 0; i < columns; i++)
				y[i] += x[k] * weights[k * columns + i];
	}
	return 0;
}

/* How much each token looks at each other one, by head. (qkv, scores) */
static int attention_scores(const struct capkm_host_call *call)
{
	const struct shape *shape = call->info;
	uint32_t heads = call->grid[0], tokens = call->grid[1];
	uint32_t size = shape->width / heads, row = 3 * shape->width;
	const float *qkv = call->args[0];
	float *scores = call->args[1];

	for (uint32_t h = 0; h < heads; h++)
		for (uint32_t t = 0; t < tokens; t++)
			for (uint32_t u = 0; u < tokens; u++) {
				const float *q = qkv + t * row + h * size;
				const float *k = qkv + u * row + shape->width +
						 h * size;
				float sum = 0;

				for (uint32_t i = 0; i < size; i++)
					sum += q[i] * k[i];
				*scores++ = sum / sqrtf(size);
			}
	return 0;
}

/* In place: each row becomes positive, with the sum 1. (scores) */
static int softmax(const struct capkm_host_call *call)
{
	uint32_t rows = call->grid[0], columns = call->grid[1];

	for (uint32_t r = 0; r < rows; r++) {
		float *x = (float *)call->args[0] + r * columns;
		float most = x[0], sum = 0;

		for (uint32_t i = 1; i < columns; i++)
			most = fmaxf(most, x[i]);
		for (uint32_t i = 0; i < columns; i++) {
			x[i] = expf(x[i] - most);
			sum += x[i];
		}
		for (uint32_t i = 0; i < columns; i++)
			x[i] /= sum;
	}
	return 0;
}

/* The values that each token sees, by head. (qkv, scores, y) */
static int attention_mix(const struct capkm_host_call *call)
{
	const struct shape *shape = call->info;
	uint32_t heads = call->grid[0], tokens = call->grid[1];
	uint32_t size = shape->width / heads, row = 3 * shape->width;
	const float *values = (const float *)call->args[0] + 2 * shape->width;
	const float *scores = call->args[1];
	float *y = call->args[2];

	memset(y, 0, call->bytes[2]);
	for (uint32_t h = 0; h < heads; h++)
		for (uint32_t t = 0; t < tokens; t++)
			for (uint32_t u = 0; u < tokens; u++, scores++)
				for (uint32_t i = h * size; i < (h + 1) * size; i++)
					y[t * shape->width + i] +=
						*scores * values[u * row + i];
	return 0;
}

/* In place. (x) */
static int gelu(const struct capkm_host_call *call)
{
	float *x = call->args[0];

	for (size_t i = 0; i < call->bytes[0] / sizeof(float); i++)
		x[i] *= 0.5f * (1 + erff(x[i] * (float)M_SQRT1_2));
	return 0;
}

/* The residual: x += y. (x, y) */
static int add(const struct capkm_host_call *call)
{
	float *x = call->args[0];
	const float *y = call->args[1];

	for (size_t i = 0; i < call->bytes[0] / sizeof(float); i++)
		x[i] += y[i];
	return 0;
}

/* A runtime compiles its functions at the first launch; here one does not. */
static int no_gelu(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	(void)context;
	(void)fn;
	snprintf(why, why_size, "gelu: no code for this processor");
	return 1;
}

const struct capkm_host_kernel kernels[KERNELS] = {
#define KERNEL(text, ...) { .sz = sizeof(struct capkm_host_kernel), .name = text, __VA_ARGS__ }
	[LAYER_NORM]	= KERNEL("layer_norm", .fn = layer_norm),
	[LINEAR]	= KERNEL("linear", .fn = linear),
	[SCORES]	= KERNEL("scores", .fn = attention_scores),
	[SOFTMAX]	= KERNEL("softmax", .fn = softmax),
	[MIX]		= KERNEL("mix", .fn = attention_mix),
	[GELU]		= KERNEL("gelu", .fn = gelu),
	[ADD]		= KERNEL("add", .fn = add),
	[BROKEN_GELU]	= KERNEL("gelu", .compile = no_gelu),
};
