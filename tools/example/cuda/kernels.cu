// SPDX-License-Identifier: MIT
/*
 * The kernels of both programs, one thread for each element that is written. What is
 * built in is kernels.ptx, which `make ptx` makes of this file where nvcc is.
 */
typedef unsigned int u32;

#define ELEMENT(n)							\
	const u32 i = blockIdx.x * blockDim.x + threadIdx.x;		\
									\
	if (i >= (n))							\
		return

/* graph.c: whole numbers, so that the host gets the very same ones. */

extern "C" __global__ void multiply_add(u32 *to, const u32 *from, const u32 *key, u32 n)
{
	ELEMENT(n);
	to[i] = from[i] * 1664525u + key[i];
}

extern "C" __global__ void rotate_xor(u32 *to, const u32 *from, const u32 *key, u32 n)
{
	ELEMENT(n);
	to[i] = (from[i] << 7 | from[i] >> 25) ^ key[i];
}

extern "C" __global__ void add(u32 *to, const u32 *a, const u32 *b, u32 n)
{
	ELEMENT(n);
	to[i] = a[i] + b[i];
}

/* mlp.c: y (rows x columns) = x (rows x depth) * w (depth x columns), and so on. */

extern "C" __global__ void matmul(float *y, const float *x, const float *w, u32 rows,
				  u32 depth, u32 columns)
{
	float sum = 0;

	ELEMENT(rows * columns);
	for (u32 k = 0; k < depth; k++)
		sum = fmaf(x[i / columns * depth + k], w[k * columns + i % columns], sum);
	y[i] = sum;
}

extern "C" __global__ void add_bias(float *y, const float *bias, u32 rows, u32 columns)
{
	ELEMENT(rows * columns);
	y[i] += bias[i % columns];
}

extern "C" __global__ void gelu(float *y, u32 n)
{
	ELEMENT(n);
	y[i] = y[i] / 2 * (1 + erff(y[i] * 0.70710678f));
}
