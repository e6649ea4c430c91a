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
	void (*act)(struct thread *t);
	cu_stream s;
	cu_event e;
	uint64_t m;
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

/* What another thread does with a stream while captures begin and end on it. */
static void bind_again(struct thread *t)
{
	int rc = capkm_cuda_stream_bind(t->g->b, t->s, NULL, NULL, &err);

	if (rc && rc != -EBUSY)
		t_die("stream_bind: %d (%s)", rc, err.text);
}

static void wait_for_event(struct thread *t)
{
	int rc = capkm_cuda_stream_wait(t->g->b, t->s, t->e, &err);

	if (rc && rc != -EBUSY)
		t_die("stream_wait: %d (%s)", rc, err.text);
}

static void synchronise(struct thread *t)
{
	int rc = capkm_cuda_stream_sync(t->g->b, t->s, &err);

	if (rc && rc != -EBUSY)
		t_die("stream_sync: %d (%s)", rc, err.text);
}

/* Where a window records it is a part of that. */
static void set(struct thread *t)
{
	int rc = c_try_set(t->g, t->s, t->m, 7).rc;

	if (rc && rc != -EBUSY && rc != -ENOENT)
		t_die("set: %d (%s)", rc, err.text);
}

static void *meddle(void *arg)
{
	struct thread *t = arg;

	CU_DO(cuCtxSetCurrent(t->g->context));
	while (!*t->stop)
		t->act(t);
	return NULL;
}

/* A window whose begin was refused is given up. */
static bool try_record(struct gpu *g, cu_stream s)
{
	int rc = capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err);

	if (rc)
		t_die("prepare: %d (%s)", rc, err.text);
	rc = capkm_cuda_graph_begin(g->b, s, &err);
	if (rc && rc != -EBUSY)
		t_die("begin: %d (%s)", rc, err.text);
	if (rc)
		capkm_cuda_graph_abort(g->b, s, &err);
	return !rc;
}

/* A slot is free again when its work is known to be done. */
static void bind_anew(struct gpu *g, cu_stream s)
{
	int rc;

	capkm_cuda_stream_unbind(g->b, s, &err);
	do {
		capkm_cuda_context_sync(g->b, &err);
		rc = capkm_cuda_stream_bind(g->b, s, NULL, NULL, &err);
	} while (rc == -EBUSY || rc == -ENOSPC);
	if (rc)
		t_die("bind: %d (%s)", rc, err.text);
}

/* A window that is ended while others work in it is doomed: for them it is no graph. */
static bool try_end(struct gpu *g, struct thread *t)
{
	uint64_t graph = 0;
	int rc = capkm_cuda_graph_end(g->b, t->s, &graph, NULL, &err);

	if (rc && (rc != -ESTALE || t->act != set))
		t_die("graph_end: %d (%s)", rc, err.text);
	if (graph)
		c_destroy_(g, graph);
	return graph;
}

/* None of it breaks a capture; @rebind: each is of a stream that was bound anew. */
static void meddled_with(struct gpu *g, struct thread *t, bool rebind)
{
	_Atomic bool stop = false;
	uint64_t m = c_new_(g, t->s, 0);
	unsigned int graphs = 0;

	t->g = g;
	t->stop = &stop;
	if (pthread_create(&t->thread, NULL, meddle, t))
		t_die("no thread");
	for (uint32_t i = 0; i < 8 * ROUNDS; i++) {
		if (rebind)
			bind_anew(g, t->s);
		if (!try_record(g, t->s))
			continue;
		c_must(c_try_set(g, t->s, m, 1), "set");
		graphs += try_end(g, t);
	}
	stop = true;
	pthread_join(t->thread, NULL);
	if (graphs < ROUNDS)
		t_die("only %u graphs", graphs);
}

TEST_F(bridge, bound_again_meanwhile)
{
	G;

	meddled_with(g, &(struct thread){ .s = s, .act = bind_again }, false);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

/* The first bind of a handle, by two threads at once. */
TEST_F(bridge, bound_twice_meanwhile)
{
	cu_stream u;
	G;

	u = b_stream(g);
	meddled_with(g, &(struct thread){ .s = u, .act = bind_again }, true);
	NOTHING_BROKE();
}

TEST_F(bridge, event_waited_for_meanwhile)
{
	struct thread w = { .act = wait_for_event };
	G;

	w.s = s;
	w.e = c_event();
	c_event_record(g, w.e, t);
	meddled_with(g, &w, false);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

TEST_F(bridge, synchronised_meanwhile)
{
	G;

	meddled_with(g, &(struct thread){ .s = s, .act = synchronise }, false);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

/* What was set is there, or a graph's: nothing is said to be done that was not. */
TEST_F(bridge, issued_to_meanwhile)
{
	struct thread w = { .act = set };
	G;

	w.s = s;
	w.m = c_new(g, s, 0);
	meddled_with(g, &w, false);
	NOTHING_BROKE();
	c_sync(g, s);
	b_usable(g, s, &self->on_s);
}

TEST_F(bridge, issued_to_and_bound_anew)
{
	struct thread w = { .act = set };
	cu_stream u;
	G;

	u = b_stream(g);
	w.s = u;
	w.m = c_new(g, u, 0);
	meddled_with(g, &w, true);
	NOTHING_BROKE();
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
