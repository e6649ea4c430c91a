/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Allocations that fail. A program that includes this is linked with --wrap= for
 * each of these functions (see the Makefile), so that the library calls them here.
 */
#ifndef FAIL_ALLOC_H
#define FAIL_ALLOC_H

#include <errno.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>

/* The n-th allocation of this thread from now on fails, once; 0: none does. */
static __thread unsigned long t_fail_alloc;

static bool t_alloc_fails(void)
{
	if (!t_fail_alloc || --t_fail_alloc)
		return false;
	errno = ENOMEM;
	return true;
}

#define T_ALLOC(type, name, parameters, ...)				\
type __real_##name parameters;						\
type __wrap_##name parameters;						\
type __wrap_##name parameters						\
{									\
	return t_alloc_fails() ? NULL : __real_##name(__VA_ARGS__);	\
}

T_ALLOC(void *, malloc, (size_t size), size)
T_ALLOC(void *, calloc, (size_t n, size_t size), n, size)
T_ALLOC(void *, realloc, (void *old, size_t size), old, size)
T_ALLOC(void *, aligned_alloc, (size_t alignment, size_t size), alignment, size)
T_ALLOC(void *, tsearch, (const void *key, void **root,
			  int (*compare)(const void *, const void *)),
	key, root, compare)

#endif /* FAIL_ALLOC_H */
