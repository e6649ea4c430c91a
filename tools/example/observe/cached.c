// SPDX-License-Identifier: MIT
/*
 * Functions that are launched, like those of kernels.c. A cache has a row for each token
 * that was seen: its keys, then its values. A token looks at itself and at those before.
 */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A vector for each token, and where it stands. (ids, table, y) */
static int embed(const struct capkm_host_call *call)
{
	const struct span *span = call->info;
	const int64_t *ids = call->args[0];
	const float *table = call->args[1];
	float *y = call->args[2];

	for (uint32_t t = 0; t < span->tokens; t++, y += span->width) {
		const float place = span->context - span->tokens + t;

		if (ids[t] < 0 || ids[t] >= VOCABULARY) {
			snprintf(call->why, call->why_size, "embed: no token %lld",
				 (long long)ids[t]);
			return 1;
		}
		for (uint32_t i = 0; i < span->width; i++) {
			const float angle = place / powf(10000, (i & ~1u) / (float)span->width);

			y[i] = table[ids[t] * span->width + i] +
			       (i & 1 ? cosf(angle) : sinf(angle));
		}
	}
	return 0;
}

/* Keys and values of these tokens, into the cache. (qkv, their rows of the cache) */
static int append(const struct capkm_host_call *call)
{
	const struct span *span = call->info;
	const float *qkv = call->args[0];
	float *rows = call->args[1];

	for (uint32_t t = 0; t < span->tokens; t++)
		memcpy(rows + t * 2 * span->width,
		       qkv + t * 3 * span->width + span->width,
		       2 * span->width * sizeof(float));
	return 0;
}

/* How much each token looks at each other one, by head. (qkv, cache, scores) */
static int causal_scores(const struct capkm_host_call *call)
{
	const struct span *span = call->info;
	const uint32_t size = span->width / span->heads;
	const float *qkv = call->args[0], *cache = call->args[1];
	float *scores = call->args[2];

	for (uint32_t h = 0; h < span->heads; h++)
		for (uint32_t t = 0; t < span->tokens; t++)
			for (uint32_t u = 0; u < span->context; u++) {
				const float *q = qkv + t * 3 * span->width + h * size;
				const float *k = cache + u * 2 * span->width + h * size;
				float sum = 0;

				for (uint32_t i = 0; i < size; i++)
					sum += q[i] * k[i];
				*scores++ = u > span->context - span->tokens + t ?
					    -INFINITY : sum / sqrtf(size);
			}
	return 0;
}

/* The values that each token sees, by head. (weights, cache, y) */
static int causal_mix(const struct capkm_host_call *call)
{
	const struct span *span = call->info;
	const uint32_t size = span->width / span->heads;
	const float *weights = call->args[0];
	const float *values = (const float *)call->args[1] + span->width;
	float *y = call->args[2];

	memset(y, 0, call->bytes[2]);
	for (uint32_t h = 0; h < span->heads; h++)
		for (uint32_t t = 0; t < span->tokens; t++)
			for (uint32_t u = 0; u < span->context; u++, weights++)
				for (uint32_t i = h * size; i < (h + 1) * size; i++)
					y[t * span->width + i] +=
						*weights * values[u * 2 * span->width + i];
	return 0;
}

const struct capkm_host_kernel cached_kernels[CACHED_KERNELS] = {
#define KERNEL(text, ...) { .sz = sizeof(struct capkm_host_kernel), .name = text, __VA_ARGS__ }
	[EMBED]		= KERNEL("embed", .fn = embed),
	[APPEND]	= KERNEL("append", .fn = append),
	[CAUSAL_SCORES]	= KERNEL("causal_scores", .fn = causal_scores),
	[CAUSAL_MIX]	= KERNEL("causal_mix", .fn = causal_mix),
};
