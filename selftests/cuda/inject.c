// SPDX-License-Identifier: GPL-2.0-only
/*
 * One call of the driver fails, each that a capture and its graph make, one after the
 * other. Whatever the bridge answers: the stream is usable afterwards, no capture stays open, the
 * authority has no window and no graph too many, and what was recorded and will never
 * run is not good.
 */
#include "bridge.h"

/* What the story makes of its one buffer, which holds 5 before. */
struct story {
	struct gpu *g;
	cu_stream s, t;
	uint64_t m, other;
	cu_event e;
	int rc;
	const char *step;
	uint64_t graph;
	bool recorded;		/* something was, that writes the buffer */
};

#define STEP(story, what) do {						\
	(story)->step = #what;						\
	(story)->rc = (what);						\
	if ((story)->rc)						\
		return;							\
} while (0)

/* A window with a launch, and a copy of host memory that is kept. */
static void capture(struct story *st)
{
	struct gpu *g = st->g;
	uint32_t words[WORDS] = { 0 };

	STEP(st, capkm_cuda_graph_prepare(g->b, st->s, NULL, NULL, &err));
	STEP(st, capkm_cuda_graph_begin(g->b, st->s, &err));
	STEP(st, c_try_inc(g, st->s, st->m).rc);
	st->recorded = true;
	STEP(st, capkm_cuda_copy(g->b, st->s, WITH(struct capkm_cuda_copy, .to = st->other,
		.from = (uintptr_t)words, .bytes = BYTES,
		.flags = CAPKM_CUDA_COPY_F_OWN_COPY), NULL, &err));
	STEP(st, capkm_cuda_graph_end(g->b, st->s, &st->graph, NULL, &err));
}

/* The same with two streams. */
static void fork_story(struct story *st)
{
	struct gpu *g = st->g;

	STEP(st, capkm_cuda_graph_prepare(g->b, st->s, NULL, NULL, &err));
	STEP(st, capkm_cuda_graph_begin(g->b, st->s, &err));
	STEP(st, c_try_inc(g, st->s, st->m).rc);
	st->recorded = true;
	STEP(st, capkm_cuda_event_record(g->b, st->e, st->s, &err));
	STEP(st, capkm_cuda_stream_wait(g->b, st->t, st->e, &err));
	STEP(st, c_try_inc(g, st->t, st->other).rc);
	STEP(st, capkm_cuda_event_record(g->b, st->e, st->t, &err));
	STEP(st, capkm_cuda_stream_wait(g->b, st->s, st->e, &err));
	STEP(st, capkm_cuda_graph_end(g->b, st->s, &st->graph, NULL, &err));
}

/* A conditional node, whose body is captured on the second stream. */
static void body_story(struct story *st)
{
	struct cu_node_params params = { .type = CU_NODE_CONDITIONAL };
	struct gpu *g = st->g;
	uint32_t words[WORDS] = { 0 };
	const cu_node *after;
	cu_graph graph;
	cu_node node;
	uint64_t id;
	int status;
	size_t n;

	STEP(st, capkm_cuda_graph_prepare(g->b, st->s, NULL, NULL, &err));
	STEP(st, capkm_cuda_graph_begin(g->b, st->s, &err));
	STEP(st, c_try_inc(g, st->s, st->m).rc);
	st->recorded = true;
	STEP(st, cu.cuStreamGetCaptureInfo(st->s, &status, &id, &graph, &after, &n));
	STEP(st, cu.cuGraphConditionalHandleCreate(&params.conditional.handle, graph,
						   g->context, 1, CU_COND_ASSIGN_DEFAULT));
	params.conditional.size = 1;
	params.conditional.context = g->context;
	STEP(st, cu.cuGraphAddNode(&node, graph, after, NULL, n, &params));
	STEP(st, cu.cuStreamUpdateCaptureDependencies(st->s, &node, 1,
						      CU_SET_CAPTURE_DEPENDENCIES));
	STEP(st, capkm_cuda_body_begin(g->b, st->t, WITH(struct capkm_cuda_body,
		.parent = st->s, .node = node, .graph = params.conditional.graphs[0],
		.bodies = 1), NULL, &err));
	STEP(st, capkm_cuda_copy(g->b, st->t, WITH(struct capkm_cuda_copy, .to = st->other,
		.from = (uintptr_t)words, .bytes = BYTES,
		.flags = CAPKM_CUDA_COPY_F_OWN_COPY), NULL, &err));
	STEP(st, capkm_cuda_body_end(g->b, st->t, NULL, &err));
	STEP(st, capkm_cuda_graph_end(g->b, st->s, &st->graph, NULL, &err));
}

/* All that a window's calls may call. */
static const char *const names[] = {
	"cuStreamGetCaptureInfo", "cuStreamGetId", "cuStreamBeginCapture",
	"cuStreamEndCapture", "cuThreadExchangeStreamCaptureMode", "cuLaunchKernel",
	"cuMemcpyAsync", "cuUserObjectCreate", "cuGraphRetainUserObject",
	"cuUserObjectRelease", "cuGraphGetNodes", "cuGraphNodeGetType",
	"cuGraphKernelNodeGetParams", "cuGraphMemcpyNodeGetParams", "cuFuncGetParamInfo",
	"cuGraphInstantiateWithFlags", "cuGraphUpload", "cuEventRecord",
	"cuStreamWaitEvent", "cuGraphDestroy", "cuGraphExecDestroy",
	"cuStreamBeginCaptureToGraph",
};

/* How often the story calls @name; it is told once without a failure. */
static uint64_t calls_of(const struct story *told, void (*tell)(struct story *st),
			 const char *name)
{
	struct story st = *told;
	uint64_t before;

	c_write_(st.g, st.s, st.m, 5);
	c_write_(st.g, st.s, st.other, 5);
	before = standin.calls(name);
	tell(&st);
	if (st.rc)
		t_die("without a failure: %s: %d (%s)", st.step, st.rc, err.text);
	before = standin.calls(name) - before;
	c_destroy_(st.g, st.graph);
	return before;
}

/* The call did nothing; a driver that fails here has ended the capture. */
static void end_capture(cu_stream s)
{
	cu_graph raw = NULL;

	if (cu_status(s) != CU_CAPTURE_NONE)
		cu.cuStreamEndCapture(s, &raw);
	if (raw)
		cu.cuGraphDestroy(raw);
}

/* The n-th failure: what has to hold. */
static void judge(struct story *st, const char *name, uint64_t n)
{
	struct capkm_report r = { 0 };
	struct gpu *g = st->g;

	standin.fail(name, 0, 0);
	if (st->rc && st->graph)
		t_die("%s %" PRIu64 ": failed, and has a graph", name, n);
	if (st->rc)
		capkm_cuda_graph_abort(g->b, st->s, &err);
	if (!strcmp(name, "cuStreamEndCapture"))
		end_capture(st->s);
	if (cu_status(st->s) != CU_CAPTURE_NONE || cu_status(st->t) != CU_CAPTURE_NONE)
		t_die("%s %" PRIu64 ", at %s: a stream captures", name, n, st->step);
	if (b_domain_(g).out_windows)
		t_die("%s %" PRIu64 ", at %s: a window is left", name, n, st->step);
	if (b_domain_(g).out_graphs != !!st->graph)
		t_die("%s %" PRIu64 ", at %s: %llu graphs", name, n, st->step,
		      b_domain_(g).out_graphs);
	if (st->rc && st->recorded && c_check_(g, st->m, &r) != CAPKM_TAINTED)
		t_die("%s %" PRIu64 ", at %s: what was recorded is good", name, n, st->step);
	if (st->graph) {
		c_write_(g, st->s, st->m, 5);
		c_replay_(g, st->s, st->graph);
		c_is_(g, st->s, st->m, 6);
		c_destroy_(g, st->graph);
	}
	c_write_(g, st->s, st->m, 5);
}

static void all_failures(FIXTURE_DATA(bridge) *self, void (*tell)(struct story *st))
{
	struct gpu *g = &self->g;
	cu_stream s = self->s, t = self->t;
	const struct story told = {
		.g = g, .s = s, .t = t, .m = c_new(g, s, 5), .other = c_new(g, s, 5),
		.e = c_event(),
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		uint64_t n, calls = calls_of(&told, tell, names[i]);

		for (n = 1; n <= calls; n++) {
			struct story st = told;

			standin.fail(names[i], n, 801);
			tell(&st);
			judge(&st, names[i], n);
			b_usable(g, s, &self->on_s);
			b_usable(g, t, &self->on_t);
			c_write(g, s, st.other, 5);
		}
	}
}

TEST_F(bridge, each_call_of_a_capture)
{
	ONLY_STANDIN();
	all_failures(self, capture);
}

TEST_F(bridge, each_call_of_a_fork)
{
	ONLY_STANDIN();
	all_failures(self, fork_story);
}

TEST_F(bridge, each_call_of_a_body)
{
	ONLY_STANDIN();
	all_failures(self, body_story);
}

/* ------------------------------------------ errors that lose the context */

/* Most of what there is, outside of the windows of the stories above. */
struct life {
	struct story st;	/* its step and result are this one's */
	cu_stream u;		/* not bound */
	uint64_t raw;		/* not adopted */
	cu_event shared;
	uint64_t m, outer;	/* what it has allocated, and captured */
	struct capkm_cuda_profile p;
};

static void nothing(void *context)
{
	(void)context;
}

static void live_with_streams(struct life *l)
{
	struct story *st = &l->st;
	struct gpu *g = st->g;
	int done;

	STEP(st, capkm_cuda_stream_bind(g->b, l->u, NULL, NULL, &err));
	STEP(st, c_try_inc(g, l->u, st->m).rc);
	STEP(st, c_try_set(g, l->u, st->m, 5).rc);
	STEP(st, capkm_cuda_host_function(g->b, l->u, nothing, NULL, NULL, NULL, &err));
	STEP(st, capkm_cuda_event_record(g->b, l->shared, l->u, &err));
	STEP(st, capkm_cuda_stream_wait(g->b, st->t, l->shared, &err));
	STEP(st, capkm_cuda_event_query(g->b, l->shared, &done, &err));
	STEP(st, capkm_cuda_event_sync(g->b, l->shared, &err));
	STEP(st, capkm_cuda_event_export(g->b, l->shared,
		&(struct capkm_cuda_event_ipc){ .size = 0 }, &err));
	capkm_cuda_event_forget(g->b, l->shared);
	STEP(st, capkm_cuda_profile_begin(g->b, l->u, &l->p, &err));
	STEP(st, capkm_cuda_profile_end(g->b, &l->p, &err));
	STEP(st, capkm_cuda_stream_sync(g->b, l->u, &err));
	STEP(st, capkm_cuda_context_sync(g->b, &err));
	STEP(st, capkm_cuda_stream_unbind(g->b, l->u, &err));
}

static void live_with_memory(struct life *l)
{
	const struct capkm_cuda_range all = { l->raw, BYTES };
	struct capkm_cuda_ipc ipc;
	struct story *st = &l->st;
	struct gpu *g = st->g;
	uint32_t words[WORDS];
	int fd;

	STEP(st, capkm_cuda_alloc(g->b, BYTES, NULL, CAPKM_CUDA_MEMORY_F_EXPORT, &l->m, &err));
	STEP(st, capkm_cuda_ipc_export(g->b, l->m, &ipc, &fd, &err));
	STEP(st, capkm_cuda_adopt(g->b, l->raw, 0, NULL, 0, &err));
	STEP(st, c_try_copy(g, st->s, l->raw, st->m).rc);
	STEP(st, capkm_cuda_read(g->b, st->s, &all, words, &err));
	STEP(st, capkm_cuda_forget(g->b, l->raw, &err));
	STEP(st, capkm_cuda_free(g->b, l->m, &err));
	l->m = 0;
}

static void live_with_a_graph(struct life *l)
{
	struct story *st = &l->st;
	struct gpu *g = st->g;

	STEP(st, capkm_cuda_graph_prepare(g->b, st->s, NULL, NULL, &err));
	STEP(st, capkm_cuda_graph_begin(g->b, st->s, &err));
	STEP(st, c_try_set(g, st->s, st->other, 6).rc);
	STEP(st, capkm_cuda_graph_abort(g->b, st->s, &err));
	capture(st);
	if (st->rc)
		return;
	STEP(st, c_try_replay(g, st->s, st->graph).rc);
	STEP(st, capkm_cuda_graph_prepare(g->b, st->s, NULL, NULL, &err));
	STEP(st, capkm_cuda_graph_begin(g->b, st->s, &err));
	STEP(st, c_try_replay(g, st->s, st->graph).rc);
	STEP(st, capkm_cuda_graph_end(g->b, st->s, &l->outer, NULL, &err));
	STEP(st, capkm_cuda_graph_destroy(g->b, st->graph, &err));
	st->graph = 0;
	STEP(st, capkm_cuda_graph_destroy(g->b, l->outer, &err));
	l->outer = 0;
}

/* Whatever was left half done. */
static void end_life(struct life *l)
{
	struct story *st = &l->st;
	struct gpu *g = st->g;

	capkm_cuda_graph_abort(g->b, st->s, &err);
	end_capture(st->s);
	if (l->outer)
		capkm_cuda_graph_destroy(g->b, l->outer, &err);
	if (st->graph)
		capkm_cuda_graph_destroy(g->b, st->graph, &err);
	capkm_cuda_profile_end(g->b, &l->p, &err);
	capkm_cuda_stream_unbind(g->b, l->u, &err);
	capkm_cuda_forget(g->b, l->raw, &err);
	if (l->m)
		capkm_cuda_free(g->b, l->m, &err);
	c_sync_(g, st->t);
	c_write_(g, st->s, st->m, 5);
	c_write_(g, st->s, st->other, 5);
}

/* While a stream is bound nobody knows at first whose context it is. */
static bool is_early(const struct life *l, const char *name)
{
	return l->st.rc && strstr(l->st.step, "stream_bind") &&
	       (!strcmp(name, "cuStreamGetCaptureInfo") || !strcmp(name, "cuStreamGetCtx") ||
		!strcmp(name, "cuCtxPushCurrent"));
}

/* The @n-th call of @name loses the context: whoever called it, the authority is told. */
static void lose(const struct life *told, void (*live)(struct life *l), const uint8_t device[16],
		 const char *name, unsigned int n)
{
	struct gpu *g = told->st.g;
	struct life l = *told;
	bool early;

	standin.fail(name, n, 719);
	live(&l);
	standin.fail(name, 0, 0);
	early = is_early(&l, name);
	if (b_domain_(g).out_faulted != !early)
		t_die("%s %u: %s told (%s: %d)", name, n,
		      early ? "the wrong one was" : "nobody was", l.st.step, l.st.rc);
	if (!early && capkm_context_renew(g->c, device, NULL, &err))
		t_die("context_renew: %s", err.text);
	end_life(&l);
	if (b_domain_(g).out_windows || b_domain_(g).out_graphs)
		t_die("%s %u: a window or a graph is left", name, n);
}

static const char *const functions[] = {
#define NAME(name, version, args) #name,
	CU_CALLS(NAME, NAME)
#undef NAME
};

static bool is_of_no_context(const char *name)
{
	static const char *const are[] = {
		"cuGetErrorName", "cuGetErrorString", "cuThreadExchangeStreamCaptureMode",
		"cuCtxPopCurrent",
	};

	for (size_t i = 0; i < ARRAY_SIZE(are); i++)
		if (!strcmp(are[i], name))
			return true;
	return false;
}

/* Every function of the driver that a context can fail, at every call of it. */
static void all_losses(FIXTURE_DATA(bridge) *self, void (*live)(struct life *l))
{
	struct gpu *g = &self->g;
	struct life told = {
		.st = { .g = g, .s = self->s, .t = self->t, .m = c_new(g, self->s, 5),
			.other = c_new(g, self->s, 5) },
		.shared = c_shared_event(),
	};
	uint64_t calls[ARRAY_SIZE(functions)], tried = 0;
	struct life l;

	CU_DO(cuStreamCreate(&told.u, CU_STREAM_NON_BLOCKING));
	CU_DO(cuMemAlloc((cu_address *)&told.raw, BYTES));
	l = told;
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		calls[i] = standin.calls(functions[i]);
	live(&l);
	if (l.st.rc)
		t_die("without a failure: %s: %d (%s)", l.st.step, l.st.rc, err.text);
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		calls[i] = standin.calls(functions[i]) - calls[i];
	end_life(&l);
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		if (is_of_no_context(functions[i]))
			continue;
		for (unsigned int n = 1; n <= calls[i]; n++, tried++)
			lose(&told, live, self->on_s.device, functions[i], n);
	}
	if (tried < 15)
		t_die("only %" PRIu64 " calls", tried);
	CU_DO(cuMemFree(told.raw));
}

TEST_F(bridge, streams_lose_the_context)
{
	ONLY_STANDIN();
	all_losses(self, live_with_streams);
}

TEST_F(bridge, memory_loses_the_context)
{
	ONLY_STANDIN();
	all_losses(self, live_with_memory);
}

TEST_F(bridge, graphs_lose_the_context)
{
	ONLY_STANDIN();
	all_losses(self, live_with_a_graph);
}

/* Outside of a window: the write is tainted with what the driver said, or there was none. */
TEST_F(bridge, each_call_of_work)
{
	static const struct {
		const char *name;
		int code, rc;
	} fails[] = {
		{ "cuLaunchKernel", 1, -EINVAL },
		{ "cuLaunchKernel", 701, -EREMOTEIO },
		{ "cuLaunchKernel", 2, -ENOMEM },
		{ "cuStreamGetCaptureInfo", 801, -EREMOTEIO },
		{ "cuStreamGetId", 801, -EREMOTEIO },
	};
	G;
	uint64_t m = c_new(g, s, 5);
	struct capkm_report r;

	ONLY_STANDIN();
	for (size_t i = 0; i < ARRAY_SIZE(fails); i++) {
		standin.fail(fails[i].name, 1, fails[i].code);
		ASSERT_EQ(fails[i].rc, c_try_inc(g, s, m).rc);
		ASSERT_EQ(fails[i].code, err.code);
		SAYS(fails[i].name);
		if (strcmp(fails[i].name, "cuLaunchKernel")) {
			c_is(g, s, m, 5);
			continue;
		}
		r = c_is_tainted(g, m, CAPKM_KIND_DRIVER);
		ASSERT_EQ(fails[i].code, r.code);
		HAS(r.text, "cuLaunchKernel");
		ASSERT_STREQ("kernel", (char *)r.label);
		c_write(g, s, m, 5);
	}
	b_usable(g, s, &self->on_s);
}

/* Allocations of memory: an error, and nothing is left of it. */
TEST_F(bridge, allocation_fails)
{
	G;
	uint64_t buffers = b_domain(g).out_buffers, m = 77;

	ONLY_STANDIN();
	standin.fail("cuMemAlloc", 1, 2);
	REFUSED(-ENOMEM, capkm_cuda_alloc(g->b, BYTES, NULL, 0, &m, &err));
	ASSERT_EQ(2, err.code);
	ASSERT_EQ(77, m);
	ASSERT_EQ(buffers, b_domain(g).out_buffers);
	c_is(g, s, c_new(g, s, 4), 4);
}

CUDA_TEST_MAIN
