// SPDX-License-Identifier: MIT
/*
 * The same model as one reads it in a book: one number after the other, in double
 * precision, with nothing of kernels.c and nothing of capkm.
 */
#include "transformer.h"
#include <math.h>

/* To mean 0 and variance 1, then scale and shift. */
static void norm(const double *x, const float *weights, size_t width, double *y)
{
	double sum = 0, squares = 0, mean;

	for (size_t i = 0; i < width; i++) {
		sum += x[i];
		squares += x[i] * x[i];
	}
	mean = sum / width;
	for (size_t i = 0; i < width; i++)
		y[i] = weights[width + i] + weights[i] * (x[i] - mean) /
		       sqrt(squares / width - mean * mean + 1e-5);
}

/* A number of x * weights + bias. */
static double column_of(const double *x, const float *weights, size_t depth,
			size_t columns, size_t column)
{
	double sum = weights[depth * columns + column];

	for (size_t k = 0; k < depth; k++)
		sum += x[k] * weights[k * columns + column];
	return sum;
}

/* What token t sees with the head that the column belongs to. */
static double seen(const struct shape *s, const double *qkv, size_t t, size_t column)
{
	size_t size = s->width / s->heads, first = column / size * size;
	double above = 0, below = 0;

	for (size_t u = 0; u < s->tokens; u++) {
		const double *q = qkv + 3 * s->width * t + first;
		const double *k = qkv + 3 * s->width * u + s->width + first;
		const double *v = qkv + 3 * s->width * u + 2 * s->width;
		double dot = 0;

		for (size_t i = 0; i < size; i++)
			dot += q[i] * k[i];
		below += exp(dot / sqrt(size));
		above += exp(dot / sqrt(size)) * v[column];
	}
	return above / below;
}

void reference_layer(const struct shape *shape, const size_t parts[PARTS + 1],
		     const float *weights, double *x)
{
	size_t t = shape->tokens, w = shape->width;
	double *qkv = allocated(calloc(3 * t * w, sizeof(*qkv)));
	double y[w], z[4 * w];

	for (size_t row = 0; row < t; row++) {
		norm(x + row * w, weights + parts[NORM1], w, y);
		for (size_t i = 0; i < 3 * w; i++)
			qkv[row * 3 * w + i] = column_of(y, weights + parts[QKV],
							 w, 3 * w, i);
	}
	for (size_t row = 0; row < t; row++, x += w) {
		for (size_t i = 0; i < w; i++)
			y[i] = seen(shape, qkv, row, i);
		for (size_t i = 0; i < w; i++)
			x[i] += column_of(y, weights + parts[PROJECTION], w, w, i);
		norm(x, weights + parts[NORM2], w, y);
		for (size_t i = 0; i < 4 * w; i++) {
			z[i] = column_of(y, weights + parts[UP], w, 4 * w, i);
			z[i] = z[i] / 2 * (1 + erf(z[i] / sqrt(2)));
		}
		for (size_t i = 0; i < w; i++)
			x[i] += column_of(z, weights + parts[DOWN], 4 * w, w, i);
	}
	free(qkv);
}
