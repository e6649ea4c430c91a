// SPDX-License-Identifier: GPL-2.0-only
/* Drivers, contexts, devices and streams: which one a handle means. */
#include "bridge.h"

#include <limits.h>
#include <pthread.h>

/* No driver, or none that we can use, is said so. */
TEST_F(bridge, no_driver)
{
	G;
	struct cl *cl = c_client(0);
	struct capkm_cuda *b = (void *)77;

	FAILS(-ENODEV, "no CUDA driver", capkm_cuda_open(cl->c, WITH(struct capkm_cuda_opts,
		.library = "/nonexistent/libcuda.so.1"), &b, &err));
	/* A library that is none. */
	REFUSED(-ENODEV, capkm_cuda_open(cl->c, WITH(struct capkm_cuda_opts,
		.library = "libc.so.6"), &b, &err));
	ASSERT_EQ(77, (uintptr_t)b);
	/* The handle is free for another try. */
	OK(capkm_cuda_open(cl->c, NULL, &b, &err));
	ASSERT_LE(12000, capkm_cuda_driver_version(b));
	capkm_cuda_close(b);
	t_close(cl);
}

/* One of before CUDA 12, and one that says that it is 12 and is not. */
TEST_F(bridge, too_old_a_driver)
{
	G;
	struct cl *cl = c_client(0);
	struct capkm_cuda *b = NULL;
	char file[PATH_MAX + 32] = "";

	ASSERT_LT(0, readlink("/proc/self/exe", file, PATH_MAX));
	strcpy(strrchr(file, '/'), "/old/libcuda.so.1");
	setenv("OLD_CUDA_VERSION", "11080", 1);
	FAILS(-EPROTONOSUPPORT, "CUDA 11.8", capkm_cuda_open(cl->c,
		WITH(struct capkm_cuda_opts, .library = file), &b, &err));
	SAYS("CUDA 12.0 or newer");
	setenv("OLD_CUDA_VERSION", "12000", 1);
	FAILS(-EPROTONOSUPPORT, "lacks cuGetProcAddress", capkm_cuda_open(cl->c,
		WITH(struct capkm_cuda_opts, .library = file), &b, &err));
	t_close(cl);
}

/* A driver that does not start. */
TEST_F(bridge, driver_does_not_start)
{
	G;
	struct cl *cl = c_client(0);
	struct capkm_cuda *b = NULL;

	ONLY_STANDIN();
	standin.fail("cuDriverGetVersion", 1, 999);
	REFUSED(-ENODEV, capkm_cuda_open(cl->c, NULL, &b, &err));
	standin.fail("cuInit", 1, 100);
	FAILS(-ENODEV, "does not start", capkm_cuda_open(cl->c, NULL, &b, &err));
	t_close(cl);
}

/* Which handles can have a bridge, and how many. */
TEST_F(bridge, one_of_a_handle)
{
	G;
	struct capkm_cuda *b = NULL;
	struct cl *cl = t_client();

	FAILS(-EBUSY, "bridge already", capkm_cuda_open(g->c, NULL, &b, &err));
	REFUSED(-ENOTCONN, capkm_cuda_open(cl->c, NULL, &b, &err));
	OK(capkm_domain_open(cl->c, NULL, NULL, &err));
	FAILS(-EOPNOTSUPP, "CAPKM_BACKEND_HARDWARE", capkm_cuda_open(cl->c, NULL, &b, &err));
	REFUSED(-EINVAL, capkm_cuda_open(cl->c, WITH(struct capkm_cuda_opts,
		.flags = 1u << 31), &b, &err));
	t_close(cl);
	capkm_cuda_close(NULL);
}

/* Streams get the slots of their device one after the other, or the one that was asked for. */
TEST_F(bridge, slots)
{
	G;
	cu_stream u = NULL;
	struct capkm_where where = { 0 };

	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, self->on_s.slot);
	ASSERT_EQ(1, self->on_t.slot);
	ASSERT_EQ(CAPKM_WHERE_SLOT, self->on_s.flags);
	ASSERT_EQ(0, memcmp(self->on_s.device, self->on_t.device, 16));
	ASSERT_NE(0, memcmp(self->on_s.device, where.device, 16));
	REFUSED(-EBUSY, capkm_cuda_stream_bind(g->b, u, WITH(struct capkm_cuda_stream_opts,
		.flags = CAPKM_CUDA_STREAM_F_SLOT, .slot = 1), NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_stream_bind(g->b, u, WITH(struct capkm_cuda_stream_opts,
		.flags = CAPKM_CUDA_STREAM_F_SLOT, .slot = 32), NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_stream_bind(g->b, u, WITH(struct capkm_cuda_stream_opts,
		.flags = 1u << 31), NULL, &err));
	OK(capkm_cuda_stream_bind(g->b, u, WITH(struct capkm_cuda_stream_opts,
		.flags = CAPKM_CUDA_STREAM_F_SLOT, .slot = 31), &where, &err));
	ASSERT_EQ(31, where.slot);
	/* Bound already: nothing changes. */
	OK(capkm_cuda_stream_bind(g->b, u, NULL, &where, &err));
	ASSERT_EQ(31, where.slot);
	b_usable(g, u, &where);
}

TEST_F(bridge, all_slots_are_taken)
{
	G;
	cu_stream u[31];

	for (int i = 0; i < 31; i++)
		CU(cuStreamCreate(&u[i], CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 30; i++)
		c_bind(g, u[i]);
	FAILS(-ENOSPC, "32 slots", capkm_cuda_stream_bind(g->b, u[30], NULL, NULL, &err));
	OK(capkm_cuda_stream_unbind(g->b, u[7], &err));
	ASSERT_EQ(9, c_bind(g, u[30]).slot);
}

/* Bad input: streams that are not bound. */
TEST_F(bridge, not_bound)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 77;
	cu_stream u = NULL;
	uint32_t words[WORDS];

	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(-ENOENT, c_try_inc(g, u, m).rc);
	SAYS("is not bound");
	ASSERT_EQ(-ENOENT, c_try_set(g, u, m, 1).rc);
	ASSERT_EQ(-ENOENT, c_try_read(g, u, m, words));
	ASSERT_EQ(-ENOENT, c_try_replay(g, u, 1).rc);
	REFUSED(-ENOENT, capkm_cuda_stream_sync(g->b, u, &err));
	REFUSED(-ENOENT, capkm_cuda_stream_unbind(g->b, u, &err));
	REFUSED(-ENOENT, capkm_cuda_event_record(g->b, c_event(), u, &err));
	REFUSED(-ENOENT, capkm_cuda_graph_prepare(g->b, u, NULL, NULL, &err));
	REFUSED(-ENOENT, capkm_cuda_graph_begin(g->b, u, &err));
	REFUSED(-ENOENT, capkm_cuda_graph_end(g->b, u, &graph, NULL, &err));
	REFUSED(-ENOENT, capkm_cuda_graph_abort(g->b, u, &err));
	REFUSED(-ENOENT, capkm_cuda_graph_attach(g->b, u, NULL, NULL, &err));
	REFUSED(-ENOENT, capkm_cuda_stream_sync(g->b, NULL, &err));
	ASSERT_EQ(0, graph);
	c_is(g, s, m, 5);
	/* Unbound twice. */
	c_bind(g, u);
	OK(capkm_cuda_stream_unbind(g->b, u, &err));
	REFUSED(-ENOENT, capkm_cuda_stream_unbind(g->b, u, &err));
}

/* A stream that captures cannot be bound: its id may not be asked for. */
TEST_F(bridge, bound_while_it_captures)
{
	G;
	cu_stream u = NULL;
	cu_graph raw = NULL;

	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	CU(cuStreamBeginCapture(u, CU_MODE_RELAXED));
	REFUSED(-EBUSY, capkm_cuda_stream_bind(g->b, u, NULL, NULL, &err));
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(u));
	CU(cuStreamEndCapture(u, &raw));
	CU(cuGraphDestroy(raw));
	c_bind(g, u);
	NOTHING_BROKE();
}

/*
 * A stream is destroyed, and another one gets its handle. It is told apart by its id: work
 * on it is refused until it is bound itself.
 */
TEST_F(bridge, handle_comes_back)
{
	G;
	uint64_t m = c_new(g, s, 5), graph = 77;
	cu_stream u = b_stream(g), v = NULL;
	struct capkm_where where;

	ONLY_STANDIN();
	standin.reuse(1);
	CU(cuStreamDestroy(u));
	CU(cuStreamCreate(&v, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(u, v);
	ASSERT_EQ(-ESTALE, c_try_inc(g, v, m).rc);
	SAYS("another stream's now");
	REFUSED(-ESTALE, capkm_cuda_stream_sync(g->b, v, &err));
	REFUSED(-ESTALE, capkm_cuda_graph_prepare(g->b, v, NULL, NULL, &err));
	REFUSED(-ESTALE, capkm_cuda_event_record(g->b, c_event(), v, &err));
	REFUSED(-EBUSY, capkm_cuda_stream_bind(g->b, v, NULL, NULL, &err));
	ASSERT_NE(0, capkm_cuda_graph_end(g->b, v, &graph, NULL, &err));
	OK(capkm_cuda_stream_unbind(g->b, v, &err));
	where = c_bind(g, v);
	b_usable(g, v, &where);
	c_is(g, s, m, 5);
}

/*
 * The destroyed stream recorded, and the one that has its handle is captured by somebody
 * else: that is not ours to end.
 */
TEST_F(bridge, handle_comes_back_recording)
{
	G;
	cu_stream u = b_stream(g), v = NULL;
	cu_graph raw = NULL;

	ONLY_STANDIN();
	standin.reuse(1);
	c_record(g, u);
	CU(cuStreamDestroy(u));
	CU(cuStreamCreate(&v, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(u, v);
	CU(cuStreamBeginCapture(v, CU_MODE_RELAXED));
	OK(capkm_cuda_stream_unbind(g->b, v, &err));
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(v));
	ASSERT_EQ(0, b_domain(g).out_windows);
	CU(cuStreamEndCapture(v, &raw));
	CU(cuGraphDestroy(raw));
}

/*
 * A slot that is bound anew: to wait for the new stream says nothing of what the old one
 * had issued.
 */
TEST_F(bridge, slot_is_bound_anew)
{
	G;
	uint64_t m = b_shared(g, s, 5);
	cu_stream u = b_stream(g), v = NULL;
	struct capkm_where was, is;

	was = c_bind(g, u);
	c_inc(g, u, m);
	b_is_pending(g, m);
	OK(capkm_cuda_stream_unbind(g->b, u, &err));
	CU(cuStreamCreate(&v, CU_STREAM_NON_BLOCKING));
	is = c_bind(g, v);
	c_sync(g, v);
	if (is.slot == was.slot)
		b_is_pending(g, m);
}

/* The legacy default stream: work, reads, events; not captures. */
TEST_F(bridge, legacy_stream)
{
	G;
	uint64_t m;
	struct capkm_where where = c_bind(g, NULL), again;
	cu_event e = c_event();

	ASSERT_EQ(2, where.slot);
	again = c_bind(g, CU_STREAM_IS_LEGACY);
	ASSERT_EQ(2, again.slot);
	m = c_new(g, NULL, 5);
	c_inc(g, NULL, m);
	c_is(g, NULL, m, 6);
	c_inc(g, CU_STREAM_IS_LEGACY, m);
	c_event_record(g, e, NULL);
	c_wait(g, s, e);
	c_is(g, s, m, 7);
	OK(capkm_cuda_stream_unbind(g->b, NULL, &err));
	ASSERT_EQ(-ENOENT, c_try_inc(g, NULL, m).rc);
}

/*
 * C03, C10: while a stream that is not non-blocking captures, the legacy stream cannot be used:
 * work on it would break the capture. It is refused instead.
 */
TEST_F(bridge, legacy_beside_a_capture)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	cu_stream u = NULL;
	struct capkm_where where;
	uint32_t words[WORDS];

	CU(cuStreamCreate(&u, 0));
	where = c_bind(g, u);
	c_bind(g, NULL);
	c_record(g, u);
	c_inc(g, u, m);
	ASSERT_EQ(-EBUSY, c_try_inc(g, NULL, m).rc);
	ASSERT_EQ(-EBUSY, c_try_set(g, NULL, m, 1).rc);
	ASSERT_EQ(-EBUSY, c_try_read(g, NULL, m, words));
	REFUSED(-EBUSY, capkm_cuda_stream_sync(g->b, NULL, &err));
	REFUSED(-EBUSY, capkm_cuda_event_record(g->b, c_event(), NULL, &err));
	NOTHING_BROKE();
	graph = c_end(g, u);
	c_is(g, u, m, 5);
	c_replay(g, u, graph);
	c_is(g, NULL, m, 6);
	b_usable(g, u, &where);
}

/* Per-thread default streams: of the thread that binds them. */
struct worker {
	struct gpu *g;
	uint64_t memory;
	int before, bound, after;
	struct capkm_where where;
};

static void *use_own(void *arg)
{
	struct worker *w = arg;

	CU_DO(cuCtxSetCurrent(w->g->context));
	w->before = c_try_inc(w->g, CU_STREAM_IS_PER_THREAD, w->memory).rc;
	w->bound = capkm_cuda_stream_bind(w->g->b, CU_STREAM_IS_PER_THREAD, NULL, &w->where,
					  &err);
	w->after = c_try_inc(w->g, CU_STREAM_IS_PER_THREAD, w->memory).rc;
	if (capkm_cuda_stream_sync(w->g->b, CU_STREAM_IS_PER_THREAD, &err))
		w->after = 1;
	return NULL;
}

TEST_F(bridge, per_thread_streams)
{
	G;
	uint64_t m = c_new(g, s, 5);
	struct worker w = { .g = g, .memory = m };
	struct capkm_where where = c_bind(g, CU_STREAM_IS_PER_THREAD);
	pthread_t thread;

	c_inc(g, CU_STREAM_IS_PER_THREAD, m);
	c_sync(g, CU_STREAM_IS_PER_THREAD);
	ASSERT_EQ(0, pthread_create(&thread, NULL, use_own, &w));
	pthread_join(thread, NULL);
	ASSERT_EQ(-ENOENT, w.before);
	ASSERT_EQ(0, w.bound);
	ASSERT_EQ(0, w.after);
	ASSERT_NE(where.slot, w.where.slot);
	c_is(g, CU_STREAM_IS_PER_THREAD, m, 7);
	/* It can capture. */
	b_usable(g, CU_STREAM_IS_PER_THREAD, &where);
}

/* With a few of the device's multiprocessors; NULL: the driver has no such thing. */
static void *new_green(struct gpu *g)
{
	struct cu_resource all = { 0 }, some = { 0 };
	void *description, *green = NULL;
	unsigned int n = 1;

	if (!cu.cuGreenCtxStreamCreate || !cu.cuStreamGetGreenCtx ||
	    cu.cuDeviceGetDevResource(g->device, &all, CU_RESOURCE_SM) ||
	    cu.cuDevSmResourceSplitByCount(&some, &n, &all, NULL, 0, all.smallest) || n != 1)
		return NULL;
	CU_DO(cuDevResourceGenerateDesc(&description, &some, 1));
	CU_DO(cuGreenCtxCreate(&green, description, g->device, CU_GREEN_DEFAULT_STREAM));
	return green;
}

/* A stream of a green context is refused, however it came to be one. */
TEST_F(bridge, green_streams)
{
	G;
	uint64_t m = c_new(g, s, 5);
	cu_stream created = NULL, current = NULL;
	cu_context context = NULL, old = NULL;
	void *green = new_green(g);

	if (!green)
		SKIP(return, "no green contexts");
	c_bind(g, NULL);
	CU(cuGreenCtxStreamCreate(&created, green, CU_STREAM_NON_BLOCKING, 0));
	FAILS(-EOPNOTSUPP, "green context",
	      capkm_cuda_stream_bind(g->b, created, NULL, NULL, &err));
	ASSERT_EQ(-ENOENT, c_try_inc(g, created, m).rc);
	CU(cuCtxFromGreenCtx(&context, green));
	CU(cuCtxPushCurrent(context));
	CU(cuStreamCreate(&current, CU_STREAM_NON_BLOCKING));
	FAILS(-EOPNOTSUPP, "green context",
	      capkm_cuda_stream_bind(g->b, current, NULL, NULL, &err));
	/* While it is current the default streams are its own, not those that are bound. */
	REFUSED(-EOPNOTSUPP, capkm_cuda_stream_bind(g->b, NULL, NULL, NULL, &err));
	REFUSED(-EOPNOTSUPP, capkm_cuda_stream_bind(g->b, CU_STREAM_IS_PER_THREAD, NULL, NULL,
						    &err));
	ASSERT_EQ(-ENOENT, c_try_inc(g, NULL, m).rc);
	CU(cuCtxPopCurrent(&old));
	ASSERT_EQ(context, old);
	FAILS(-EOPNOTSUPP, "green context",
	      capkm_cuda_stream_bind(g->b, current, NULL, NULL, &err));
	CU(cuStreamDestroy(current));
	CU(cuStreamDestroy(created));
	CU(cuGreenCtxDestroy(green));
	/* The others are none the worse. */
	c_inc(g, NULL, m);
	c_sync(g, NULL);
	c_is(g, s, m, 6);
	b_usable(g, s, &self->on_s);
}

/* As the caller's calls are compiled, NULL is the one or the other. */
TEST_F(bridge, null_per_thread)
{
	G;
	struct gpu other = *g;
	uint64_t m;
	struct capkm_where where;

	other.cl = c_client(0);
	other.c = other.cl->c;
	OK(capkm_cuda_open(other.c, WITH(struct capkm_cuda_opts,
		.flags = CAPKM_CUDA_F_PER_THREAD), &other.b, &err));
	where = c_bind(&other, NULL);
	m = c_new(&other, NULL, 5);
	c_record(&other, NULL);
	c_inc(&other, NULL, m);
	c_replay(&other, NULL, c_end(&other, NULL));
	c_is(&other, NULL, m, 6);
	ASSERT_EQ(where.slot, c_bind(&other, CU_STREAM_IS_PER_THREAD).slot);
	capkm_cuda_close(other.b);
	t_close(other.cl);
}

/* Nothing is current: an error that says so, before anything is done. */
TEST_F(bridge, no_context)
{
	G;
	uint64_t m = c_new(g, s, 5), address = 77;

	CU(cuCtxSetCurrent(NULL));
	REFUSED(-EINVAL, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &address, &err));
	REFUSED(-EINVAL, capkm_cuda_context_sync(g->b, &err));
	REFUSED(-EINVAL, capkm_cuda_stream_bind(g->b, NULL, NULL, NULL, &err));
	ASSERT_EQ(77, address);
	CU(cuCtxSetCurrent(g->context));
	c_is(g, s, m, 5);
}

/*
 * Two contexts of one device: streams of both, each with a slot of its own; to wait for one
 * context says nothing of the other's work.
 */
TEST_F(bridge, two_contexts)
{
	G;
	uint64_t m = b_shared(g, s, 5), there, graph, waits;
	cu_context second = NULL;
	cu_stream u = NULL;
	struct capkm_where where;
	struct kernels k = g->k;

	CU(cuCtxCreate(&second, 0, g->device));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	where = c_bind(g, u);
	ASSERT_EQ(2, where.slot);
	ASSERT_EQ(0, memcmp(where.device, self->on_s.device, 16));
	k_load(&g->k);
	there = b_shared(g, u, 50);
	c_inc(g, u, there);
	b_is_pending(g, there);
	CU(cuCtxSetCurrent(g->context));
	OK(capkm_cuda_context_sync(g->b, &err));
	b_is_pending(g, there);
	c_sync(g, u);
	b_is_confirmed(g, there);
	CU(cuCtxSetCurrent(second));
	c_is(g, u, there, 51);
	/* Replayed with another context current, the graph is waited for all the same. */
	c_record(g, u);
	c_inc(g, u, there);
	graph = c_end(g, u);
	CU(cuCtxSetCurrent(g->context));
	c_replay(g, u, graph);
	waits = is_standin ? standin.calls("cuEventSynchronize") : 0;
	c_destroy(g, graph);
	if (is_standin)
		ASSERT_LT(waits, standin.calls("cuEventSynchronize"));
	c_is(g, u, there, 52);
	c_free(g, there);
	OK(capkm_cuda_stream_unbind(g->b, u, &err));
	CU(cuCtxSetCurrent(second));
	CU(cuModuleUnload(g->k.module));
	CU(cuStreamDestroy(u));
	CU(cuCtxDestroy(second));
	CU(cuCtxSetCurrent(g->context));
	g->k = k;
	c_is(g, s, m, 5);
}

/* C11: work on another device is not in the window, which shows that there was some. */
TEST_F(bridge, two_devices)
{
	G;
	uint64_t m, there, graph, w;
	cu_context second = NULL;
	cu_stream u = NULL;
	struct capkm_where where;
	struct kernels k = g->k;
	cu_device device;

	NEEDS_DEVICES(2);
	m = c_new(g, s, 5);
	CU(cuDeviceGet(&device, 1));
	CU(cuDevicePrimaryCtxRetain(&second, device));
	CU(cuCtxSetCurrent(second));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	where = c_bind(g, u);
	ASSERT_EQ(0, where.slot);
	ASSERT_NE(0, memcmp(where.device, self->on_s.device, 16));
	k_load(&g->k);
	there = c_new(g, u, 50);
	w = c_record(g, s);
	c_inc(g, u, there);
	c_is(g, u, there, 51);
	ASSERT_EQ(0, b_window(g, w).out_launches);
	CU(cuModuleUnload(g->k.module));
	CU(cuCtxSetCurrent(g->context));
	g->k = k;
	c_inc(g, s, m);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	/* A copy between the two. */
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = m, .from = there,
					 .bytes = BYTES), NULL, &err));
	c_is(g, s, m, 51);
	NOTHING_BROKE();
	c_free(g, there);
	OK(capkm_cuda_stream_unbind(g->b, u, &err));
	CU(cuStreamDestroy(u));
	CU(cuDevicePrimaryCtxRelease(device));
}

static int child_calls(struct gpu *g, cu_stream s, uint64_t m)
{
	if (c_try_inc(g, s, m).rc != -ECANCELED ||
	    capkm_cuda_stream_sync(g->b, s, &err) != -ECANCELED ||
	    capkm_cuda_stream_bind(g->b, s, NULL, NULL, &err) != -ECANCELED ||
	    capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err) != -ECANCELED)
		return 1;
	capkm_cuda_close(g->b);
	return 0;
}

/* A forked child has the bridge's memory and no CUDA: all calls are -ECANCELED. */
TEST_F(bridge, forked)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	int status = 1, pid;

	c_record(g, s);
	c_inc(g, s, m);
	pid = fork();
	if (!pid)
		_exit(child_calls(g, s, m));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
}

/* Does it record? In a window, its own or another's; without one; on the slot alone. */
TEST_F(bridge, query)
{
	G;
	struct capkm_cuda_stream_query q = CAPKM_OPTS(struct capkm_cuda_stream_query);
	struct { struct capkm_cuda_stream_query q; uint64_t more; } large = {
		.q.sz = sizeof(large), .more = 5,
	};
	cu_stream unbound = NULL;
	cu_event e = c_event();
	cu_graph raw = NULL;
	uint64_t w, m = c_new(g, s, 1);

#define IS(stream, on, window_, captures_) do {				\
	q.context = NULL;						\
	OK(capkm_cuda_stream_query(g->b, stream, &q, &err));		\
	ASSERT_EQ(0, memcmp(&(on)->device, &q.where.device, 16));	\
	ASSERT_EQ((on)->slot, q.where.slot);				\
	ASSERT_EQ(g->context, q.context);				\
	ASSERT_EQ(window_, q.window);					\
	ASSERT_EQ(captures_, q.captures);				\
	ASSERT_EQ(0, q.__reserved);					\
	ASSERT_EQ(sizeof(q), q.sz);					\
} while (0)
	IS(s, &self->on_s, 0, 0);
	w = c_prepare(g, s);
	IS(s, &self->on_s, 0, 0);
	c_begin(g, s);
	IS(s, &self->on_s, w, 1);
	IS(t, &self->on_t, 0, 0);
	c_event_record(g, e, s);
	c_wait(g, t, e);
	IS(t, &self->on_t, w, 1);
	c_inc(g, t, m);
	c_event_record(g, e, t);
	c_wait(g, s, e);
	c_destroy(g, c_end(g, s));
	IS(s, &self->on_s, 0, 0);
	IS(t, &self->on_t, 0, 0);

	CU(cuStreamBeginCapture(s, CU_MODE_GLOBAL));
	IS(s, &self->on_s, 0, 1);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));

	OK(capkm_window_prepare(g->c, &self->on_s, NULL, &w, &err));
	OK(capkm_window_begin(g->c, &self->on_s, 0, NULL, &err));
	IS(s, &self->on_s, w, 0);
	OK(capkm_window_abort(g->c, &self->on_s, w, NULL, &err));
	IS(s, &self->on_s, 0, 0);
#undef IS
	NOTHING_BROKE();

	CU(cuStreamCreate(&unbound, 0));
	REFUSED(-ENOENT, capkm_cuda_stream_query(g->b, unbound, &q, &err));
	REFUSED(-E2BIG, capkm_cuda_stream_query(g->b, s, &large.q, &err));
	CU(cuStreamDestroy(unbound));
	capkm_cuda_event_forget(g->b, e);
	CU(cuEventDestroy(e));
}

CUDA_TEST_MAIN
