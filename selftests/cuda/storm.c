// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads on one bridge: each captures, replays and reads on a stream of its own, while
 * others allocate, wait for the context, bind and unbind streams.
 * A call may be refused; what is read is right, and at the end everything is usable.
 */
#include "bridge.h"

#include <pthread.h>

#define THREADS	3
#define ROUNDS	25

struct thread {
	pthread_t thread;
	struct gpu *g;
	cu_stream s;
	uint64_t graphs;
	_Atomic bool *stop;
};


/* m is @v; a graph adds 1, twice. */
static void round_of(struct thread *t, cu_stream s, uint64_t m, uint32_t v)
{
	struct gpu *g = t->g;
	uint64_t graph = 0;
	int rc;

	c_set_(g, s, m, v);
	c_record_(g, s, NULL);
	c_must(c_try_inc(g, s, m), "inc");
	rc = capkm_cuda_graph_end(g->b, s, &graph, NULL, &err);
	if (rc)
		t_die("graph_end: %d (%s)", rc, err.text);
	t->graphs++;
	c_replay_(g, s, graph);
	c_replay_(g, s, graph);
	c_is_(g, s, m, v + 2);
	c_destroy_(g, graph);
}

static void *capture(void *arg)
{
	struct thread *t = arg;
	uint64_t m;
	cu_stream s;

	CU_DO(cuCtxSetCurrent(t->g->context));
	CU_DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	c_bind_(t->g, s);
	m = c_alloc_bytes_(t->g, BYTES);
	for (uint32_t i = 0; i < ROUNDS; i++)
		round_of(t, s, m, 10 * i);
	c_free_(t->g, m);
	if (capkm_cuda_stream_unbind(t->g->b, s, &err))
		t_die("unbind: %s", err.text);
	CU_DO(cuStreamDestroy(s));
	return NULL;
}

static void *allocate(void *arg)
{
	struct thread *t = arg;

	CU_DO(cuCtxSetCurrent(t->g->context));
	while (!*t->stop) {
		c_free_(t->g, c_alloc_bytes_(t->g, BYTES));
		usleep(2000);
	}
	return NULL;
}

static void *wait_for_context(void *arg)
{
	struct thread *t = arg;
	int rc;

	CU_DO(cuCtxSetCurrent(t->g->context));
	while (!*t->stop) {
		rc = capkm_cuda_context_sync(t->g->b, &err);
		if (rc && rc != -EBUSY)
			t_die("context_sync: %d (%s)", rc, err.text);
		usleep(500);
	}
	return NULL;
}

static void *bind_and_unbind(void *arg)
{
	struct thread *t = arg;
	cu_stream s;
	int rc;

	CU_DO(cuCtxSetCurrent(t->g->context));
	CU_DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	while (!*t->stop) {
		c_bind_(t->g, s);
		rc = capkm_cuda_stream_unbind(t->g->b, s, &err);
		if (rc)
			t_die("unbind: %d (%s)", rc, err.text);
		usleep(500);
	}
	CU_DO(cuStreamDestroy(s));
	return NULL;
}

static void run_with(struct gpu *g, void *(*disturb)(void *), struct thread *sum)
{
	_Atomic bool stop = false;
	struct thread threads[THREADS + 1];

	for (int i = 0; i <= THREADS; i++) {
		threads[i] = (struct thread){ .g = g, .stop = &stop };
		if (pthread_create(&threads[i].thread, NULL, i < THREADS ? capture : disturb,
				   &threads[i]))
			t_die("no thread");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i].thread, NULL);
		sum->graphs += threads[i].graphs;
	}
	stop = true;
	pthread_join(threads[THREADS].thread, NULL);
}

/* Streams come and go: nobody notices. */
TEST_F(bridge, binds_meanwhile)
{
	G;
	struct thread sum = { 0 };

	run_with(g, bind_and_unbind, &sum);
	ASSERT_EQ(THREADS * ROUNDS, sum.graphs);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	ASSERT_EQ(0, b_domain(g).out_windows);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

/* Allocations doom no windows of others, and break no capture. */
TEST_F(bridge, allocates_meanwhile)
{
	G;
	struct thread sum = { 0 };

	run_with(g, allocate, &sum);
	ASSERT_EQ(THREADS * ROUNDS, sum.graphs);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

static void *bind_again(void *arg)
{
	struct thread *t = arg;
	int rc;

	CU_DO(cuCtxSetCurrent(t->g->context));
	while (!*t->stop) {
		rc = capkm_cuda_stream_bind(t->g->b, t->s, NULL, NULL, &err);
		if (rc && rc != -EBUSY)
			t_die("stream_bind: %d (%s)", rc, err.text);
	}
	return NULL;
}

/* A stream is bound again and again while it captures, and while its captures end. */
TEST_F(bridge, bound_again_meanwhile)
{
	G;
	_Atomic bool stop = false;
	struct thread binder = { .g = g, .s = s, .stop = &stop };
	uint64_t m = c_new(g, s, 0);

	ASSERT_EQ(0, pthread_create(&binder.thread, NULL, bind_again, &binder));
	for (uint32_t i = 0; i < 4 * ROUNDS; i++) {
		c_record(g, s);
		c_inc(g, s, m);
		c_destroy(g, c_end(g, s));
	}
	stop = true;
	pthread_join(binder.thread, NULL);
	NOTHING_BROKE();
	c_is(g, s, m, 0);
	b_usable(g, s, &self->on_s);
}

/*
 * Waits for the context are refused while anybody records. One that was let through may
 * meet a capture that begins then: that is the only one that can be broken.
 */
TEST_F(bridge, waits_meanwhile)
{
	G;
	_Atomic bool stop = false;
	struct thread waiter = { .g = g, .stop = &stop };
	uint64_t m = c_new(g, s, 0), graph;
	uint32_t good = 0;

	ASSERT_EQ(0, pthread_create(&waiter.thread, NULL, wait_for_context, &waiter));
	for (uint32_t i = 0; i < 4 * ROUNDS; i++) {
		c_set(g, s, m, i);
		if (capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err) ||
		    capkm_cuda_graph_begin(g->b, s, &err))
			continue;
		c_try_inc(g, s, m);
		if (capkm_cuda_graph_end(g->b, s, &graph, NULL, &err))
			continue;
		good++;
		c_replay(g, s, graph);
		c_is(g, s, m, i + 1);
		c_destroy(g, graph);
	}
	stop = true;
	pthread_join(waiter.thread, NULL);
	ASSERT_LT(0, good);
	ASSERT_EQ(0, b_domain(g).out_graphs);
	b_usable(g, s, &self->on_s);
}

CUDA_TEST_MAIN
