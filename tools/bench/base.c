// SPDX-License-Identifier: GPL-2.0-only
/* What a machine needs for the least that it can do. */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

static void null_syscall(void *state, uint64_t n)
{
	(void)state;
	while (n--)
		syscall(SYS_getppid);
}

static void mutex_pair(void *state, uint64_t n)
{
	pthread_mutex_t *mutex = state;

	while (n--) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
}

/* Each load waits for the one before it. */
static void dependent_load(void *state, uint64_t n)
{
	void **at = state;

	while (n--) {
		at = *at;
		__asm__ volatile("" : "+r"(at));
	}
}

/* The fast path needs some of each, so these bound it from below. */
static void compare_and_swap(void *state, uint64_t n)
{
	_Atomic uint64_t *word = state;
	uint64_t value = atomic_load_explicit(word, memory_order_relaxed);

	while (n--)
		if (atomic_compare_exchange_strong(word, &value, value + 1))
			value++;
}

static void store_and_fence(void *state, uint64_t n)
{
	_Atomic uint64_t *word = state;

	while (n--) {
		atomic_store_explicit(word, n, memory_order_release);
		atomic_thread_fence(memory_order_seq_cst);
	}
}

void measure_base(void)
{
	static _Atomic uint64_t word;
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static void *ring[2] = { &ring[1], &ring[0] };
	const struct op ops[] = {
		{ .operation = "null syscall", .run = null_syscall },
		{ .operation = "mutex pair", .run = mutex_pair, .state = &mutex, .yardstick = 7.5 },
		{ .operation = "dependent load", .run = dependent_load, .state = ring,
		  .yardstick = 1.6 },
		{ .operation = "compare and swap", .run = compare_and_swap, .state = &word },
		{ .operation = "store and full fence", .run = store_and_fence, .state = &word },
	};

	measure("base", ops, ARRAY_SIZE(ops));
}
