// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sequences of operations out of bytes, checked by the oracle of ../oracle.h.
 *
 * The first byte says what kind of run it is, the second how its calls are made where
 * that changes from call to call. Then each operation has a byte that says which, and by
 * which of two threads, and as many as it asks for.
 */
#include <pthread.h>
#include <semaphore.h>

#include "oracle.h"

#define RUN_CALM	(1u << 0)
#define RUN_WAYS	1	/* shift: enum t_way, or WAYS_CHANGE */
#define WAYS_CHANGE	3
#define RUN_CHECKED	(1u << 3)	/* the whole state after each operation */
#define RUN_FINISHED	(1u << 4)	/* all work ends before its clients do */
#define RUN_PROCESSES	(1u << 5)	/* clients of other processes, too */

static struct {
	unsigned int ways;
	uint64_t rng;
} calls;

static enum t_way way(void)
{
	return calls.ways == WAYS_CHANGE ? (enum t_way)(choices_next(&calls.rng) % 3) :
					   (enum t_way)calls.ways;
}

/* ---- the other thread: it does what it is handed while the first one waits */

static struct {
	sem_t go, done;
	struct oracle *o;
	size_t op;
	bool did;
} other;

static void *other_thread(void *arg)
{
	for (;;) {
		sem_wait(&other.go);
		running = other.o;
		other.did = step(other.o, other.op);
		sem_post(&other.done);
	}
	return NULL;
}

static bool step_of_other(struct oracle *o, size_t op)
{
	other.o = o;
	other.op = op;
	sem_post(&other.go);
	while (sem_wait(&other.done))
		;
	return other.did;
}

/* Looking at it takes nothing out of the input. */
static void look(struct oracle *o)
{
	const unsigned char *at = o->choices.at;

	o->choices.at = o->choices.end;
	check_all(o);
	o->choices.at = at;
}

static void operate(struct oracle *o, bool checked)
{
	const unsigned int op = choose(&o->choices, 256);
	const size_t n = op % 128 % (ARRAY_SIZE(ops) + 1);

	if (n == ARRAY_SIZE(ops)) {
		look(o);
		return;
	}
	o->m.step++;
	if ((op < 128 ? step(o, n) : step_of_other(o, n)) && checked)
		look(o);
}

static struct oracle *o;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	pthread_t thread;

	setenv("CAPKM_TEST_TRANSPORT", "embedded:", 1);
	t_way = way;
	o = calloc(1, sizeof(*o));
	sem_init(&other.go, 0, 0);
	sem_init(&other.done, 0, 0);
	if (!o || pthread_create(&thread, NULL, other_thread, NULL))
		abort();
	/* The first handle starts the engine. */
	t_close(t_client());
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint64_t live = capkm_test_alloc_live();
	const int pids = t_pids;
	unsigned int kind;

	if (size < 3)
		return -1;
	kind = data[0];
	calls.ways = kind >> RUN_WAYS & 3;
	calls.rng = data[1];
	start(o, 0, kind & RUN_PROCESSES ? 40 : 0, 0, kind & RUN_CALM);
	o->choices.at = data + 2;
	o->choices.end = data + size;
	op_attach(o);
	while (!choices_are_over(&o->choices))
		operate(o, kind & RUN_CHECKED);
	look(o);
	if (kind & RUN_FINISHED)
		finish(o);
	end(o);
	if (capkm_test_alloc_live() != live)
		t_die("%" PRIu64 " allocations are left, there had been %" PRIu64,
		      capkm_test_alloc_live(), live);
	/* The dead of one run are the processes of the next. */
	t_pids = pids;
	return 0;
}
