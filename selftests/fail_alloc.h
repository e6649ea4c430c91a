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

/* The same over all threads and, if that is wanted, each one after it. */
static int t_fail_any;
static bool t_fail_on;

static bool t_any_fails(void)
{
	int n = __atomic_load_n(&t_fail_any, __ATOMIC_SEQ_CST), next;

	do {
		next = n > 1 ? n - 1 : n && t_fail_on;
	} while (n && !__atomic_compare_exchange_n(&t_fail_any, &n, next, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	return n == 1;
}

static bool t_alloc_fails(void)
{
	if ((!t_fail_alloc || --t_fail_alloc) && !t_any_fails())
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
