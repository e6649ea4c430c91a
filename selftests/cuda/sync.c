// SPDX-License-Identifier: GPL-2.0-only
/*
 * Synchronisation: what was issued before is known to be done, and nothing more; what
 * would break a capture is refused; errors that nothing can recover from are faults.
 */
#include "bridge.h"

/* What is issued there from now on rests until it is let go, or something waits for it. */
static struct gate gate = GATE;

static void hold(cu_stream s)
{
	if (is_standin)
		standin.lazy(1);
	else
		c_gate(s, &gate);
}

static void let_go(void)
{
	if (is_standin)
		standin.lazy(0);
	else
		gate_open(&gate);
}

/* A stream's wait confirms its work, and no other stream's. */
TEST_F(bridge, stream_sync)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, t, 6);

	c_inc(g, s, a);
	c_inc(g, t, b);
	b_is_pending(g, a);
	b_is_pending(g, b);
	c_sync(g, s);
	b_is_confirmed(g, a);
	b_is_pending(g, b);
	c_sync(g, t);
	b_is_confirmed(g, b);
	c_is(g, s, a, 6);
	c_is(g, t, b, 7);
}

/* A context's wait confirms all of its streams. */
TEST_F(bridge, context_sync)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, t, 6), c = b_shared(g, s, 7);

	c_bind(g, NULL);
	c_inc(g, s, a);
	c_inc(g, t, b);
	c_inc(g, NULL, c);
	OK(capkm_cuda_context_sync(g->b, &err));
	b_is_confirmed(g, a);
	b_is_confirmed(g, b);
	b_is_confirmed(g, c);
}

/* An event confirms what was issued before it, and nothing that came after. */
TEST_F(bridge, event_sync)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, s, 6), c = b_shared(g, t, 7);
	cu_event e = c_event();

	c_inc(g, t, c);
	c_inc(g, s, a);
	c_event_record(g, e, s);
	c_inc(g, s, b);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_confirmed(g, a);
	b_is_pending(g, b);
	b_is_pending(g, c);
	/* Recorded again, it is for what came until then. */
	c_event_record(g, e, s);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_confirmed(g, b);
	b_is_pending(g, c);
}

/* An event that is asked for confirms when it is seen to have happened, not before. */
TEST_F(bridge, event_query)
{
	G;
	uint64_t a = b_shared(g, s, 5);
	cu_event e = c_event();
	int done = 77;

	hold(s);
	c_inc(g, s, a);
	c_event_record(g, e, s);
	if (!is_standin) {
		OK(capkm_cuda_event_query(g->b, e, &done, &err));
		ASSERT_EQ(0, done);
	}
	b_is_pending(g, a);
	let_go();
	do
		OK(capkm_cuda_event_query(g->b, e, &done, &err));
	while (!done);
	ASSERT_EQ(1, done);
	b_is_confirmed(g, a);
	c_is(g, s, a, 6);
}

/* Not ready is no error, and confirms nothing. */
TEST_F(bridge, not_ready)
{
	G;
	uint64_t a = b_shared(g, s, 5);
	cu_event e = c_event();
	int done = 77;

	ONLY_STANDIN();
	c_inc(g, s, a);
	c_event_record(g, e, s);
	standin.fail("cuEventQuery", 1, 600);
	OK(capkm_cuda_event_query(g->b, e, &done, &err));
	ASSERT_EQ(0, done);
	b_is_pending(g, a);
	do
		OK(capkm_cuda_event_query(g->b, e, &done, &err));
	while (!done);
	ASSERT_EQ(1, done);
	b_is_confirmed(g, a);
}

/* A read waits, and confirms. */
TEST_F(bridge, read_confirms)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, s, 6);

	c_inc(g, s, a);
	c_inc(g, s, b);
	c_is(g, s, a, 6);
	b_is_confirmed(g, a);
	b_is_confirmed(g, b);
}

/* Replays are confirmed like work. */
TEST_F(bridge, replay_is_confirmed)
{
	G;
	uint64_t a = b_shared(g, s, 5), graph;

	c_record(g, s);
	c_inc(g, s, a);
	graph = c_end(g, s);
	b_is_confirmed(g, a);	/* recording is not writing */
	c_replay(g, t, graph);
	b_is_pending(g, a);
	c_sync(g, s);
	b_is_pending(g, a);
	c_sync(g, t);
	b_is_confirmed(g, a);
}

/* A wait that fails confirms nothing. */
TEST_F(bridge, failed_waits)
{
	static const char *const calls[] = {
		"cuEventSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuEventQuery",
	};
	G;
	uint64_t a = b_shared(g, s, 5);
	cu_event e = c_event();
	int done = 77, rc;

	ONLY_STANDIN();
	c_inc(g, s, a);
	c_event_record(g, e, s);
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		standin.fail(calls[i], 1, 801);
		err.text[0] = 0;
		rc = i == 0 ? capkm_cuda_stream_sync(g->b, s, &err) :
		     i == 1 ? capkm_cuda_context_sync(g->b, &err) :
		     i == 2 ? capkm_cuda_event_sync(g->b, e, &err) :
			      capkm_cuda_event_query(g->b, e, &done, &err);
		ASSERT_EQ(-EREMOTEIO, rc);
		SAYS(calls[i]);
		ASSERT_EQ(801, err.code);
		b_is_pending(g, a);
	}
	ASSERT_EQ(77, done);
	c_sync(g, s);
	b_is_confirmed(g, a);
}

/*
 * C03: a synchronise that would break the capture is refused, with who owns the window, before
 * the driver sees it. Other streams can be waited for.
 */
TEST_F(bridge, refused_while_recording)
{
	G;
	uint64_t a = c_new(g, s, 5), other = b_shared(g, t, 6), graph, w;
	char owner[40], window[40];
	cu_event e = c_event();

	c_inc(g, t, other);
	c_event_record(g, e, t);
	w = c_record(g, s);
	c_inc(g, s, a);
	snprintf(owner, sizeof(owner), "stream %" PRIu64, capkm_stream_current());
	snprintf(window, sizeof(window), "%" PRIu64, w);
	REFUSED(-EBUSY, capkm_cuda_stream_sync(g->b, s, &err));
	BEGINS("cuda_stream_sync: ");
	SAYS(owner);
	SAYS(window);
	REFUSED(-EBUSY, capkm_cuda_context_sync(g->b, &err));
	BEGINS("cuda_context_sync: ");
	SAYS(owner);
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_confirmed(g, other);
	c_sync(g, t);
	c_is(g, t, other, 7);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	OK(capkm_cuda_context_sync(g->b, &err));
	c_is(g, s, a, 6);
	NOTHING_BROKE();
}

/* C03: also beside a capture that somebody else began, of which there is no window. */
TEST_F(bridge, refused_beside_foreign)
{
	G;
	uint64_t m = c_new(g, t, 5);
	cu_graph raw = NULL;
	uint32_t words[WORDS];

	CU(cuStreamBeginCapture(s, CU_MODE_THREAD_LOCAL));
	REFUSED(-EBUSY, capkm_cuda_stream_sync(g->b, s, &err));
	REFUSED(-EBUSY, capkm_cuda_context_sync(g->b, &err));
	ASSERT_EQ(-EBUSY, c_try_read(g, s, m, words));
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));
	NOTHING_BROKE();
	OK(capkm_cuda_context_sync(g->b, &err));
	b_usable(g, s, &self->on_s);
}

/*
 * What the bridge does elsewhere breaks no capture that somebody has begun, whatever its
 * mode: it waits, captures, replays and gives graphs back on another stream.
 */
TEST_F(bridge, works_beside_a_capture)
{
	G;
	uint64_t m = c_new(g, t, 0), graph, expected = 0;
	cu_graph raw = NULL;
	cu_event e = c_event();
	int done;

	for (int mode = CU_MODE_GLOBAL; mode <= CU_MODE_RELAXED; mode++) {
		CU(cuStreamBeginCapture(s, mode));
		c_inc(g, t, m);
		c_sync(g, t);
		c_event_record(g, e, t);
		OK(capkm_cuda_event_query(g->b, e, &done, &err));
		OK(capkm_cuda_event_sync(g->b, e, &err));
		c_is(g, t, m, expected + 1);
		c_record(g, t);
		c_inc(g, t, m);
		graph = c_end(g, t);
		c_replay(g, t, graph);
		c_destroy(g, graph);
		expected += 2;
		c_is(g, t, m, expected);
		ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s)) {
			TH_LOG("mode %d", mode);
		}
		CU(cuStreamEndCapture(s, &raw));
		CU(cuGraphDestroy(raw));
	}
	NOTHING_BROKE();
}

/* C10, C50: allocations and frees of the bridge break no capture, whatever its mode. */
TEST_F(bridge, memory_beside_a_capture)
{
	G;
	uint64_t m = c_new(g, s, 5), other;
	cu_graph raw = NULL;

	for (int mode = CU_MODE_GLOBAL; mode <= CU_MODE_RELAXED; mode++) {
		CU(cuStreamBeginCapture(s, mode));
		other = c_alloc(g);
		c_free(g, other);
		CU(cuStreamEndCapture(s, &raw));
		CU(cuGraphDestroy(raw));
	}
	NOTHING_BROKE();
	c_is(g, s, m, 5);
}

/* ---------------------------------------------------------------- faults */

/* Which errors nothing can recover from. */
TEST(sticky)
{
	static const int sticky[] = {
		214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999
	};
	static const int others[] = {
		0, 1, 2, 3, 100, 101, 200, 201, 209, 218, 400, 401, 500, 600, 701, 704, 705,
		708, 712, 713, 720, 800, 801, 802, 900, 901, 902, 903, 904, 905, 906, 907,
		908, 909, 910, -1, 12345
	};

	for (size_t i = 0; i < ARRAY_SIZE(sticky); i++) {
		ASSERT_EQ(1, capkm_cuda_is_sticky(sticky[i])) {
			TH_LOG("%d", sticky[i]);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		ASSERT_EQ(0, capkm_cuda_is_sticky(others[i])) {
			TH_LOG("%d", others[i]);
		}
	}
}

/*
 * A kernel writes to a bad address: the next wait finds it. It is a fault of the context, with
 * the error's name: all that was not confirmed there is tainted, and later work skipped.
 */
TEST_F(bridge, bad_address)
{
	G;
	uint64_t before = b_shared(g, s, 5), a = b_shared(g, s, 6), b = b_shared(g, t, 7);
	struct capkm_report r;
	uint32_t words[WORDS];

	c_inc(g, t, b);
	c_bad(g, s, a);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, s, &err));
	ASSERT_EQ(700, err.code);
	SAYS("ILLEGAL_ADDRESS");
	r = c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT);
	ASSERT_EQ(700, r.code);
	HAS(r.text, "ILLEGAL_ADDRESS");
	ASSERT_EQ(r.failure, c_is_tainted(g, b, CAPKM_KIND_DEVICE_FAULT).failure);
	/* It was known to be done. */
	c_is_clean(g, before);
	ASSERT_NE(0, c_try_read(g, s, a, words));
	SAYS("ILLEGAL_ADDRESS");
	/* Nothing runs there any more. */
	ASSERT_EQ(r.failure, b_slot(g, &self->on_s).out_failure);
}

/* C48: the same in a graph: the launch says success, the wait does not. */
TEST_F(bridge, bad_address_in_a_graph)
{
	G;
	uint64_t a = b_shared(g, s, 6), graph;
	struct capkm_report r;
	struct capkm_graph_query q = { .size = sizeof(q) };

	c_record(g, s);
	c_bad(g, s, a);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, s, &err));
	r = c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT);
	ASSERT_EQ(700, r.code);
	/* Every later replay is skipped or fails, and is counted. */
	if (!c_try_replay(g, s, graph).rc)
		ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	q.graph = graph;
	OK(capkm_graph_query(g->c, &q, &err));
	ASSERT_EQ(1, q.out_replays);
	c_is_tainted(g, a, 0);
}

/* A sticky error that a wait gives is a fault; it was told to the authority before the caller. */
TEST_F(bridge, sticky_waits)
{
	static const char *const calls[] = {
		"cuEventSynchronize", "cuCtxSynchronize", "cuEventSynchronize", "cuEventQuery",
	};
	G;
	uint64_t a = b_shared(g, s, 5);
	cu_event e = c_event();
	int done = 77;

	ONLY_STANDIN();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		c_inc(g, s, a);
		c_event_record(g, e, s);
		standin.fail(calls[i], 1, 719);
		ASSERT_EQ(-EREMOTEIO,
			i == 0 ? capkm_cuda_stream_sync(g->b, s, &err) :
			i == 1 ? capkm_cuda_context_sync(g->b, &err) :
			i == 2 ? capkm_cuda_event_sync(g->b, e, &err) :
				 capkm_cuda_event_query(g->b, e, &done, &err));
		ASSERT_EQ(719, c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT).code);
		OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
		c_write(g, s, a, 5);
	}
}

/*
 * The same of calls that order and measure; each is the first that sees it. The other
 * stream's work is lost with the context.
 */
TEST_F(bridge, sticky_order)
{
	static const struct { const char *call; unsigned int nth; } at[] = {
		{ "cuEventRecord", 1 }, { "cuStreamWaitEvent", 1 }, { "cuEventCreate", 1 },
		{ "cuEventCreate", 2 }, { "cuEventRecord", 1 }, { "cuEventRecord", 2 },
		{ "cuEventElapsedTime", 1 },
	};
	G;
	uint64_t a = b_shared(g, t, 5);
	struct capkm_cuda_profile p;
	cu_event e = c_event();
	struct capkm_report r;
	int rc;

	ONLY_STANDIN();
	c_event_record(g, e, s);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		c_inc(g, t, a);
		standin.fail(at[i].call, at[i].nth, 719);
		rc = i == 0 ? capkm_cuda_event_record(g->b, e, s, &err) :
		     i == 1 ? capkm_cuda_stream_wait(g->b, s, e, &err) :
			      capkm_cuda_profile_begin(g->b, s, &p, &err);
		if (!rc && i >= 2)
			rc = capkm_cuda_profile_end(g->b, &p, &err);
		ASSERT_EQ(-EREMOTEIO, rc);
		ASSERT_EQ(719, err.code);
		SAYS(at[i].call);
		r = c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT);
		ASSERT_EQ(719, r.code);
		HAS(r.text, at[i].call);
		ASSERT_EQ(r.failure, b_slot(g, &self->on_s).out_failure);
		OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
		c_write(g, t, a, 5);
	}
}

/*
 * A call that belongs to no stream is of the thread's context; but one that only says
 * that a wrong thing was asked for loses none.
 */
TEST_F(bridge, sticky_without_a_stream)
{
	G;
	uint64_t a = b_shared(g, s, 5), m = 77, epoch;

	ONLY_STANDIN();
	c_inc(g, s, a);
	standin.fail("cuMemAlloc", 1, 801);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &m, &err));
	b_is_pending(g, a);
	/* Of the calling thread's context there is not even the id. */
	standin.fail("cuMemAlloc", 1, 719);
	standin.fail("cuCtxGetId", 2, 719);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &m, &err));
	ASSERT_EQ(77, m);
	ASSERT_EQ(719, c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT).code);
	OK(capkm_context_renew(g->c, self->on_s.device, &epoch, &err));
	ASSERT_EQ(1, epoch);
	c_write(g, s, a, 5);
	/* A thread without a context has nothing to lose. */
	c_inc(g, s, a);
	CU(cuCtxSetCurrent(NULL));
	standin.fail("cuCtxGetCurrent", 1, 719);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &m, &err));
	CU(cuCtxSetCurrent(g->context));
	b_is_pending(g, a);
	c_is(g, s, a, 6);
}

/* Whose context is lost: the stream's, whichever is current; else the current one. */
TEST_F(bridge, sticky_of_two_devices)
{
	G;
	uint64_t a = b_shared(g, s, 5), b, m;
	cu_context second = NULL;
	struct capkm_where there;
	cu_event e = c_event();
	cu_device device;
	cu_stream u = NULL;

	ONLY_STANDIN();
	NEEDS_DEVICES(2);
	CU(cuDeviceGet(&device, 1));
	CU(cuDevicePrimaryCtxRetain(&second, device));
	CU(cuCtxSetCurrent(second));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	there = c_bind(g, u);
	b = b_shared(g, u, 6);
	c_set(g, u, b, 7);
	c_set(g, s, a, 7);
	standin.fail("cuEventRecord", 1, 719);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_event_record(g->b, e, s, &err));
	c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT);
	b_is_pending(g, b);
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	c_set(g, s, a, 7);
	standin.fail("cuMemAlloc", 1, 719);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &m, &err));
	c_is_tainted(g, b, CAPKM_KIND_DEVICE_FAULT);
	b_is_pending(g, a);
	OK(capkm_context_renew(g->c, there.device, NULL, &err));
	c_free(g, b);
	OK(capkm_cuda_stream_unbind(g->b, u, &err));
	CU(cuStreamDestroy(u));
	CU(cuCtxSetCurrent(g->context));
	CU(cuDevicePrimaryCtxRelease(device));
}

/*
 * A lost context has a successor. What was left of the lost one says the same error for
 * ever, whatever is called for it: that is no fault of the successor.
 */
TEST_F(bridge, lost_context_is_told_once)
{
	G;
	uint64_t a = c_new(g, s, 5), graph, m, bad = c_new(g, s, 6);
	struct capkm_cuda_profile p;
	cu_context next = NULL;
	cu_event e = c_event();
	cu_stream u = NULL;
	int done;

	ONLY_STANDIN();		/* a device that has lost one context gives no other */
	c_record(g, s);
	c_inc(g, s, a);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_event_record(g, e, s);
	OK(capkm_cuda_profile_begin(g->b, t, &p, &err));
	c_bad(g, t, bad);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, t, &err));
	ASSERT_EQ(1, b_domain(g).out_faulted);
	CU(cuCtxSetCurrent(NULL));
	CU(cuCtxCreate(&next, 0, 0));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, memcmp(c_bind(g, u).device, self->on_s.device, 16));
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	m = b_shared(g, u, 7);
	c_set(g, u, m, 8);
	b_is_pending(g, m);
	CU(cuCtxSetCurrent(g->context));
	ASSERT_NE(0, capkm_cuda_stream_sync(g->b, s, &err));
	ASSERT_EQ(700, err.code);
	ASSERT_NE(0, capkm_cuda_context_sync(g->b, &err));
	ASSERT_NE(0, capkm_cuda_event_sync(g->b, e, &err));
	ASSERT_NE(0, capkm_cuda_event_query(g->b, e, &done, &err));
	ASSERT_NE(0, c_try_replay(g, s, graph).rc);
	ASSERT_NE(0, capkm_cuda_profile_end(g->b, &p, &err));
	capkm_cuda_graph_destroy(g->b, graph, &err);
	capkm_cuda_free(g->b, a, &err);
	capkm_cuda_free(g->b, bad, &err);
	capkm_cuda_stream_unbind(g->b, s, &err);
	capkm_cuda_stream_unbind(g->b, t, &err);
	ASSERT_EQ(0, b_domain(g).out_faulted);
	b_is_pending(g, m);
	/* The successor's own faults are told. */
	CU(cuCtxSetCurrent(next));
	c_is(g, u, m, 8);
	c_bad(g, u, m);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, u, &err));
	ASSERT_EQ(1, b_domain(g).out_faulted);
	c_is_tainted(g, m, CAPKM_KIND_DEVICE_FAULT);
}

/*
 * Nor is a context lost for ever of which that was said: the driver takes its work again,
 * and when it loses that, it is told.
 */
TEST_F(bridge, lost_after_all)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, t, 6);
	cu_event e = c_event();

	ONLY_STANDIN();
	standin.fail("cuEventRecord", 1, CU_UNKNOWN);
	ASSERT_EQ(-EREMOTEIO, capkm_cuda_event_record(g->b, e, s, &err));
	ASSERT_EQ(1, b_domain(g).out_faulted);
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	c_set(g, s, a, 1);
	c_bad(g, t, b);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, t, &err));
	ASSERT_EQ(700, err.code);
	ASSERT_EQ(1, b_domain(g).out_faulted);
	c_is_tainted(g, a, CAPKM_KIND_DEVICE_FAULT);
	c_is_tainted(g, b, CAPKM_KIND_DEVICE_FAULT);
}

/* And one that a launch gives. */
TEST_F(bridge, sticky_launch)
{
	G;
	uint64_t a = b_shared(g, s, 5), b = b_shared(g, t, 6);

	ONLY_STANDIN();
	c_inc(g, t, b);
	standin.fail("cuLaunchKernel", 1, 719);
	ASSERT_EQ(-EREMOTEIO, c_try_inc(g, s, a).rc);
	c_is_tainted(g, a, 0);
	ASSERT_EQ(719, c_is_tainted(g, b, CAPKM_KIND_DEVICE_FAULT).code);
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	c_write(g, t, b, 6);
	c_is(g, t, b, 6);
}

static struct gate behind = GATE;

struct reader {
	struct gpu *g;
	cu_stream s;
	uint64_t m;
	int rc;
};

static void *read_there(void *arg)
{
	struct reader *r = arg;
	uint32_t words[WORDS];

	CU_DO(cuCtxSetCurrent(r->g->context));
	r->rc = c_try_read(r->g, r->s, r->m, words);
	return NULL;
}

/* Who waits for work of the stream does not keep one who begins a capture there waiting. */
TEST_F(bridge, begin_does_not_wait_for_readers)
{
	G;
	struct reader r = { .g = g, .s = s, .m = c_new(g, s, 6) };
	pthread_t thread;
	int rc;

	c_gate(s, &behind);
	ASSERT_EQ(0, pthread_create(&thread, NULL, read_there, &r));
	usleep(50000);
	OK(capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err));
	/* Whether the reader waits in the driver's copy, or behind it, is the driver's matter. */
	rc = capkm_cuda_graph_begin(g->b, s, &err);
	if (rc) {
		ASSERT_EQ(-EBUSY, rc);
		SAYS("another thread reads");
	} else {
		c_inc(g, s, r.m);
		c_destroy(g, c_end(g, s));
	}
	gate_open(&behind);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_EQ(0, r.rc);
	c_abort(g, s);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
}

/* In a window a fault dooms it, and the driver's capture is closed all the same. */
TEST_F(bridge, fault_in_a_window)
{
	G;
	uint64_t a = c_new(g, s, 5);

	ONLY_STANDIN();
	c_record(g, s);
	c_inc(g, s, a);
	standin.fail("cuLaunchKernel", 1, 719);
	ASSERT_EQ(-EREMOTEIO, c_try_inc(g, s, a).rc);
	c_end_refused(g, s);
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	c_write(g, s, a, 5);
	b_usable(g, s, &self->on_s);
}

/* C46: a later writer's bytes stay what they are when an older scope ends late. */
TEST_F(bridge, late_end)
{
	G;
	uint64_t m = c_new(g, s, 0);
	const struct capkm_cuda_range all[] = { ALL(m) };
	struct capkm_scope scope;

	OK(capkm_cuda_scope_begin(g->b, s, WITH(struct capkm_cuda_work, .label = "zero",
		.writes = all, .writes_len = 1), &scope, NULL, &err));
	c_set(g, t, m, 9);
	OK(capkm_cuda_scope_end(g->b, s, &scope, 0, &err));
	c_is(g, t, m, 9);
	/* It fails late: its write may have landed after. */
	OK(capkm_cuda_scope_begin(g->b, s, WITH(struct capkm_cuda_work, .label = "zero",
		.writes = all, .writes_len = 1), &scope, NULL, &err));
	c_set(g, t, m, 9);
	OK(capkm_cuda_scope_end(g->b, s, &scope, 701, &err));
	c_is_tainted(g, m, CAPKM_KIND_DRIVER);
}

/* T-117/hw: refused while a window records, a measurement costs the time, not the launch. */
TEST_F(bridge, t117_hw_profile)
{
	G;
	uint64_t m = b_shared(g, s, 5), graph;
	struct capkm_cuda_profile p = { .timed = 77 };

	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	c_inc(g, s, m);
	b_is_pending(g, m);
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(1, p.timed);
	ASSERT_GT(60ull * 1000000000, p.ns);
	b_is_confirmed(g, m);
	c_is(g, s, m, 6);
	/* Ended, or never begun. */
	FAILS(-EINVAL, "not begun", capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(1, p.timed);
	memset(&p, 0, sizeof(p));
	REFUSED(-EINVAL, capkm_cuda_profile_end(g->b, &p, &err));

	/* All of it in a window. */
	c_record(g, s);
	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	c_inc(g, s, m);
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(0, p.timed);
	ASSERT_EQ(0, p.ns);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).nodes);
	c_replay(g, s, graph);
	c_is(g, s, m, 7);
	c_destroy(g, graph);

	/* The window begins in between; it ends in between. */
	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	c_record(g, s);
	c_inc(g, s, m);
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(0, p.timed);
	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).nodes);
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(0, p.timed);
	/* A replay is work like any other. */
	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	c_replay(g, s, graph);
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(1, p.timed);
	c_is(g, s, m, 8);
	NOTHING_BROKE();
}

/*
 * The driver, too, may refuse it, at each of its calls: that is an error, leaves nothing, and
 * is no fault.
 */
TEST_F(bridge, profile_fails)
{
	static const struct { const char *call; unsigned int nth; } at[] = {
		{ "cuEventCreate", 1 }, { "cuEventCreate", 2 }, { "cuEventRecord", 1 },
		{ "cuEventRecord", 2 }, { "cuEventElapsedTime", 1 },
	};
	G;
	uint64_t a = b_shared(g, t, 5);
	struct capkm_cuda_profile p;

	ONLY_STANDIN();
	c_inc(g, t, a);
	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		/* A call that fails is counted, too. */
		const uint64_t made = standin.calls("cuEventCreate") + (i < 2);
		const uint64_t gone = standin.calls("cuEventDestroy");
		int rc;

		standin.fail(at[i].call, at[i].nth, 801);
		rc = capkm_cuda_profile_begin(g->b, s, &p, &err);
		if (!rc)
			rc = capkm_cuda_profile_end(g->b, &p, &err);
		ASSERT_EQ(-EREMOTEIO, rc);
		ASSERT_EQ(standin.calls("cuEventCreate") - made,
			  standin.calls("cuEventDestroy") - gone);
	}
	b_is_pending(g, a);
	OK(capkm_cuda_profile_begin(g->b, s, &p, &err));
	OK(capkm_cuda_profile_end(g->b, &p, &err));
	ASSERT_EQ(1, p.timed);
}

CUDA_TEST_MAIN
