// SPDX-License-Identifier: GPL-2.0-only
/* The library is linked so that its allocations come through here. */
#include "bench.h"

static __thread uint64_t count;

uint64_t allocations(void)
{
	return count;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	count++;
	return __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	count++;
	return __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	count++;
	return __real_realloc(p, bytes);
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
	count++;
	return __real_aligned_alloc(align, bytes);
}
