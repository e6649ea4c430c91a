/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The source of the kernels of observations as functions of the host: the threads of a
 * block are contexts that take turns at its barriers, blocks run one after the other.
 */
#ifndef KERNELS_HERE_H
#define KERNELS_HERE_H

#include <stdlib.h>
#include <ucontext.h>

#define KERNEL		static void
#define SHARED
#define DEVICE		static inline
#define THREAD		(here.thread)
#define BLOCK		(here.block)
#define BLOCKS		(here.blocks)
#define BLOCK_THREADS	(here.threads)
#define BARRIER()	here_barrier()
#define OTHERS_WRITE(p)	((void)(p))

static u64 capkm_observe_counts[8192];

struct here_thread {
	ucontext_t context;
	char *stack;
	bool done;
};

static __thread struct {
	u32 thread, block, blocks, threads;
	struct here_thread *all;
	ucontext_t scheduler;
	void (*fn)(void **params);
	void **params;
} here;

/* Somebody else's turn; when it is this one's again all others have come here, too. */
static void here_barrier(void)
{
	const u32 me = here.thread;

	swapcontext(&here.all[me].context, &here.scheduler);
}

static void here_begin(void)
{
	const u32 me = here.thread;

	here.fn(here.params);
	here.all[me].done = true;
	swapcontext(&here.all[me].context, &here.scheduler);
}

/* Each goes on to its next barrier, or ends: so at a barrier all are at the same one. */
static bool here_turn(void)
{
	bool left = false;

	for (here.thread = 0; here.thread < here.threads; here.thread++) {
		if (here.all[here.thread].done)
			continue;
		swapcontext(&here.scheduler, &here.all[here.thread].context);
		left |= !here.all[here.thread].done;
	}
	return left;
}

/* getcontext() returns once, but the compiler takes it for setjmp(). */
static void here_start(struct here_thread *thread, size_t stack)
{
	getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = thread->stack;
	thread->context.uc_stack.ss_size = stack;
	thread->done = false;
	makecontext(&thread->context, here_begin, 0);
}

static void here_run(void (*fn)(void **params), void **params, u32 blocks, u32 threads)
{
	enum { STACK = 32 << 10 };
	u32 i;

	here.fn = fn;
	here.params = params;
	here.blocks = blocks;
	here.threads = threads;
	here.all = calloc(threads, sizeof(*here.all));
	for (i = 0; i < threads; i++)
		here.all[i].stack = malloc(STACK);
	for (here.block = 0; here.block < blocks; here.block++) {
		for (i = 0; i < threads; i++)
			here_start(&here.all[i], STACK);
		while (here_turn())
			;
	}
	for (i = 0; i < threads; i++)
		free(here.all[i].stack);
	free(here.all);
}

#endif /* KERNELS_HERE_H */
