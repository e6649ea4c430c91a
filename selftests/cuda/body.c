// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bodies of conditional nodes, and nodes that nobody can look into. The value of a
 * condition is its default here: for a kernel to set it takes CUDA's device runtime. So a
 * body runs once in each replay, or in none.
 */
#include "bridge.h"
#include "../fail_alloc.h"

#include <pthread.h>
#include <time.h>

#define NEEDS_BODIES() do {						\
	if (!cu.cuGraphAddNode || !cu.cuStreamBeginCaptureToGraph)	\
		SKIP(return, "needs CUDA 12.3");			\
} while (0)

struct node {
	cu_node node;
	cu_graph *bodies;
	uint32_t size;
};

/* The graph that a stream captures, and what its next node depends on. */
static cu_graph capturing(cu_stream s, const cu_node **after, size_t *n)
{
	cu_graph graph = NULL;
	uint64_t id;
	int status;

	CU_DO(cuStreamGetCaptureInfo(s, &status, &id, &graph, after, n));
	if (!graph)
		t_die("the stream does not capture");
	return graph;
}

/* A conditional node behind what the stream has recorded; CUresult. */
static int try_node(struct gpu *g, cu_stream s, int type, uint32_t size, uint32_t value,
		    struct node *out)
{
	struct cu_node_params params = { .type = CU_NODE_CONDITIONAL };
	const cu_node *after;
	size_t n;
	cu_graph graph = capturing(s, &after, &n);
	int rc;

	CU_DO(cuGraphConditionalHandleCreate(&params.conditional.handle, graph, g->context,
					     value, CU_COND_ASSIGN_DEFAULT));
	params.conditional.type = type;
	params.conditional.size = size;
	params.conditional.context = g->context;
	rc = cu.cuGraphAddNode(&out->node, graph, after, NULL, n, &params);
	if (rc)
		return rc;
	CU_DO(cuStreamUpdateCaptureDependencies(s, &out->node, 1,
						CU_SET_CAPTURE_DEPENDENCIES));
	out->bodies = params.conditional.graphs;
	out->size = size;
	return 0;
}

static struct node add_if(struct gpu *g, cu_stream s, uint32_t value)
{
	struct node node = { 0 };
	int rc = try_node(g, s, CU_COND_IF, 1, value, &node);

	if (rc)
		t_die("cuGraphAddNode: %s", cu_name(rc));
	return node;
}

/* Which kinds there are depends on the driver. */
#define NODE(...) do {							\
	if (try_node(__VA_ARGS__))					\
		SKIP(return, "the driver has no such conditional node");	\
} while (0)

static int try_begin(struct gpu *g, cu_stream parent, const struct node *node, uint32_t i,
		     cu_stream on, uint64_t *window)
{
	const struct capkm_cuda_body body = CAPKM_OPTS(struct capkm_cuda_body,
		.parent = parent, .node = node->node, .graph = node->bodies[i],
		.bodies = node->size);

	err.text[0] = 0;
	return capkm_cuda_body_begin(g->b, on, &body, window, &err);
}

static uint64_t begin_body(struct gpu *g, cu_stream parent, const struct node *node,
			   uint32_t i, cu_stream on)
{
	uint64_t w = 0;
	int rc = try_begin(g, parent, node, i, on, &w);

	if (rc || !w)
		t_die("body_begin: %d (%s)", rc, err.text);
	return w;
}

/* The body of a new IF node. */
static uint64_t begin_if(struct gpu *g, cu_stream parent, uint32_t value, cu_stream on)
{
	const struct node node = add_if(g, parent, value);

	return begin_body(g, parent, &node, 0, on);
}

static void end_body(struct gpu *g, cu_stream on)
{
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	int rc = capkm_cuda_body_end(g->b, on, &a, &err);

	if (rc || a.out_result != CAPKM_CLEAN)
		t_die("body_end: %d, %s (%s)", rc, capkm_result_name(a.out_result), err.text);
	if (cu_status(on) != CU_CAPTURE_NONE)
		t_die("the stream still captures");
}

static void end_body_fails(struct gpu *g, cu_stream on, int want)
{
	int rc;

	err.text[0] = 0;
	rc = capkm_cuda_body_end(g->b, on, NULL, &err);
	if (rc != want)
		t_die("body_end: %d, not %d (%s)", rc, want, err.text);
	if (cu_status(on) != CU_CAPTURE_NONE)
		t_die("the stream still captures");
}

/* ------------------------------------------------------------------ bodies */

/* A body is recorded, not run; each replay runs it in its place, and the bytes are right. */
TEST_F(bridge, if_true)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 0), graph, w, body;
	struct capkm_cuda_graph_query q;

	NEEDS_BODIES();
	w = c_record(g, s);
	c_inc(g, s, a);
	body = begin_if(g, s, 1, t);
	ASSERT_EQ(w, b_window(g, body).out_parent);
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(t));
	c_add(g, t, b, a, a);
	c_inc(g, t, b);
	ASSERT_EQ(2, b_window(g, body).out_launches);
	end_body(g, t);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, b_window(g, body).out_state);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	c_inc(g, s, b);
	graph = c_end(g, s);
	c_is(g, s, a, 5);
	c_is(g, s, b, 0);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	c_is(g, s, b, 14);		/* 6 + 6, 1 in the body, 1 behind it */
	c_replay(g, s, graph);
	c_is(g, s, b, 16);
	q = c_query(g, graph);
	ASSERT_EQ(5, q.nodes);		/* the conditional node is one */
	ASSERT_EQ(4, q.kernels);
	ASSERT_EQ(0, q.opaque);
	ASSERT_EQ(0, q.seen);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/*
 * A body may not run. So what it writes is seen, not written; what its parent reads of that
 * later is an input; and a replay that goes well does not make it good.
 */
TEST_F(bridge, may_not_run)
{
	G;
	uint64_t from = c_new(g, s, 5), b = c_new(g, s, 50), out = c_new(g, s, 0);
	uint64_t graph, failure;
	struct capkm_claim claims[4];

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 0, t);
	c_copy(g, t, b, from);
	end_body(g, t);
	c_copy(g, s, out, b);
	graph = c_end(g, s);
	ASSERT_EQ(1, b_claims(g, graph, 0, claims, 4));
	ASSERT_EQ(c_claim(g, out).buffer, claims[0].buffer);
	ASSERT_EQ(1, b_claims(g, graph, CAPKM_GRAPH_QUERY_F_SEEN, claims, 4));
	ASSERT_EQ(c_claim(g, b).buffer, claims[0].buffer);
	ASSERT_EQ(BYTES, claims[0].end - claims[0].start);
	ASSERT_EQ(2, b_claims(g, graph, CAPKM_GRAPH_QUERY_F_INPUTS, claims, 4));
	c_replay(g, s, graph);
	c_is(g, s, b, 50);
	c_is(g, s, out, 50);
	failure = b_taint(g, b).failure;
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	ASSERT_EQ(failure, c_is_tainted(g, b, 0).failure);
	ASSERT_EQ(failure, c_is_tainted(g, out, 0).failure);
	c_write(g, s, b, 51);
	c_replay(g, s, graph);
	c_is(g, s, b, 51);
	c_is(g, s, out, 51);
}

/* A replay that fails taints what the body may have written. */
TEST_F(bridge, failed_replay)
{
	G;
	uint64_t b = c_new(g, s, 50), from = c_new(g, s, 5), graph;

	ONLY_STANDIN();
	c_record(g, s);
	begin_if(g, s, 0, t);
	c_copy(g, t, b, from);
	end_body(g, t);
	graph = c_end(g, s);
	standin.fail("cuGraphLaunch", 1, 801);
	ASSERT_EQ(-EREMOTEIO, c_try_replay(g, s, graph).rc);
	c_is_tainted(g, b, CAPKM_KIND_DRIVER);
	c_is_clean(g, from);
}

/* What it writes of shared memory is not known to be done before somebody has waited. */
TEST_F(bridge, pending_until_done)
{
	G;
	uint64_t m = b_shared(g, s, 50), from = c_new(g, s, 5), graph;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_copy(g, t, m, from);
	end_body(g, t);
	graph = c_end(g, s);
	c_sync(g, s);
	b_is_confirmed(g, m);
	for (int i = 0; i < 3; i++) {
		c_replay(g, s, graph);
		b_is_pending(g, m);
		ASSERT_EQ(1, b_domain(g).out_unconfirmed);
	}
	c_is_clean(g, m);
	c_sync(g, t);
	b_is_pending(g, m);
	c_sync(g, s);
	b_is_confirmed(g, m);
	c_holds(m, 5);
}

/* The context is lost in the body: what it may have written is tainted. */
TEST_F(bridge, bad_address_in_a_body)
{
	G;
	uint64_t m = b_shared(g, s, 50), bad = b_shared(g, s, 6), other = b_shared(g, s, 7);
	struct capkm_report r;
	uint64_t graph;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, m);
	c_bad(g, t, bad);
	end_body(g, t);
	graph = c_end(g, s);
	c_sync(g, s);
	c_replay(g, s, graph);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, s, &err));
	r = c_is_tainted(g, m, CAPKM_KIND_DEVICE_FAULT);
	ASSERT_EQ(700, r.code);
	ASSERT_EQ(r.failure, c_is_tainted(g, bad, CAPKM_KIND_DEVICE_FAULT).failure);
	c_is_clean(g, other);
}

/*
 * A body that another thread ends, in a mode in which the driver does not let it: the
 * body's capture is gone, and so is what its parent would have been.
 */
TEST_F(bridge, another_thread_cannot_end_a_body)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	struct ending e;

	NEEDS_BODIES();
	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
				 .mode = CAPKM_CUDA_MODE_THREAD_LOCAL));
	c_inc(g, s, a);
	begin_if(g, s, 1, t);
	c_inc(g, t, b);
	e = b_end_elsewhere(g, t, true);
	ASSERT_EQ(-EBUSY, e.rc);
	ASSERT_EQ(908, e.err.code);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	c_end_refused(g, s);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
	HAS(c_is_tainted(g, b, 0).text, "WRONG_THREAD");
	HAS(c_is_tainted(g, a, 0).text, "WRONG_THREAD");
	c_write(g, s, a, 5);
	c_write(g, s, b, 6);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/*
 * What the body reads from outside is an input of the graph. A replay that is skipped has
 * not written what the body writes: that stays what it was.
 */
TEST_F(bridge, input_of_a_body)
{
	G;
	uint64_t from = c_new(g, s, 5), b = c_new(g, s, 50), graph, failure;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_copy(g, t, b, from);
	end_body(g, t);
	graph = c_end(g, s);
	failure = b_taint(g, from).failure;
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	ASSERT_EQ(failure, c_is_tainted(g, from, 0).failure);
	c_is(g, s, b, 50);
	c_write(g, s, from, 7);
	c_replay(g, s, graph);
	c_is(g, s, b, 7);
	c_free(g, from);
	ASSERT_EQ(-ESTALE, c_try_replay(g, s, graph).rc);
}

/* A loop whose condition does not hold. */
TEST_F(bridge, while_false)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;
	struct node node;

	NEEDS_BODIES();
	c_record(g, s);
	NODE(g, s, CU_COND_WHILE, 1, 0, &node);
	begin_body(g, s, &node, 0, t);
	c_inc(g, t, a);
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).opaque);
	c_replay(g, s, graph);
	c_replay(g, s, graph);
	c_is(g, s, a, 5);
}

/* Two bodies, one after the other; which one runs is the value's choice. */
TEST_F(bridge, if_else)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph;
	struct node node;

	NEEDS_BODIES();
	for (uint32_t value = 0; value < 2; value++) {
		c_record(g, s);
		NODE(g, s, CU_COND_IF, 2, value, &node);
		begin_body(g, s, &node, 0, t);
		c_inc(g, t, a);
		end_body(g, t);
		begin_body(g, s, &node, 1, t);
		c_inc(g, t, b);
		end_body(g, t);
		graph = c_end(g, s);
		ASSERT_EQ(0, c_query(g, graph).opaque);
		ASSERT_EQ(3, c_query(g, graph).nodes);
		c_replay(g, s, graph);
		c_is(g, s, a, 5 + value);
		c_is(g, s, b, 51);
		c_destroy(g, graph);
	}
}

/* Only one of three was recorded: the others are nobody's, and the node is opaque. */
TEST_F(bridge, one_of_three)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;
	struct node node;

	NEEDS_BODIES();
	c_record(g, s);
	NODE(g, s, CU_COND_SWITCH, 3, 1, &node);
	begin_body(g, s, &node, 1, t);
	c_inc(g, t, a);
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).opaque);
	ASSERT_EQ(2, c_query(g, graph).nodes);
	ASSERT_EQ(1, c_query(g, graph).kernels);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
}

/* A body in a body: its parent is the outer one, and all of it is in the graph. */
TEST_F(bridge, nested)
{
	G;
	const cu_stream u = b_stream(g);
	uint64_t a = c_new(g, s, 5), graph, w, outer, inner;

	NEEDS_BODIES();
	w = c_record(g, s);
	outer = begin_if(g, s, 1, t);
	c_inc(g, t, a);
	inner = begin_if(g, t, 1, u);
	ASSERT_EQ(w, b_window(g, outer).out_parent);
	ASSERT_EQ(outer, b_window(g, inner).out_parent);
	c_inc(g, u, a);
	FAILS(-EBUSY, "child window", capkm_cuda_body_end(g->b, t, NULL, &err));
	end_body(g, u);
	c_inc(g, t, a);
	end_body(g, t);
	c_inc(g, s, a);
	graph = c_end(g, s);
	ASSERT_EQ(6, c_query(g, graph).nodes);
	ASSERT_EQ(4, c_query(g, graph).kernels);
	ASSERT_EQ(0, c_query(g, graph).opaque);
	c_replay(g, s, graph);
	c_is(g, s, a, 9);
	NOTHING_BROKE();
}

/* Another stream joins a body by events, and leaves with it. */
TEST_F(bridge, joined)
{
	G;
	const cu_stream u = b_stream(g);
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph, body;
	cu_event e = c_event();

	NEEDS_BODIES();
	c_record(g, s);
	body = begin_if(g, s, 1, t);
	c_inc(g, t, a);
	c_event_record(g, e, t);
	c_wait(g, u, e);
	c_inc(g, u, b);
	ASSERT_EQ(1, b_window(g, body).out_members);
	c_event_record(g, e, u);
	c_wait(g, t, e);
	end_body(g, t);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	c_is(g, s, b, 51);
	NOTHING_BROKE();
}

/* A graph of a framework: the body is recorded although somebody else ends the capture. */
TEST_F(bridge, attached)
{
	G;
	uint64_t a = c_new(g, s, 5), graph = 0;
	uint32_t result = 77;
	cu_graph raw = NULL;
	cu_exec exec = NULL;

	NEEDS_BODIES();
	CU(cuStreamBeginCapture(s, CU_MODE_RELAXED));
	OK(capkm_cuda_graph_attach(g->b, s, NULL, NULL, &err));
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	end_body(g, t);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphInstantiateWithFlags(&exec, raw, 0));
	OK(capkm_cuda_graph_seal(g->b, s, raw, exec, &graph, NULL, &err));
	ASSERT_EQ(0, c_query(g, graph).opaque);
	ASSERT_EQ(2, c_query(g, graph).nodes);
	OK(capkm_cuda_graph_replay(g->b, s, graph, &result, NULL, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	c_is(g, s, a, 6);
	c_destroy(g, graph);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(raw));
}

/* A graph with bodies cannot be a node: the driver says so, and the window is none. */
TEST_F(bridge, no_node_of_another)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	end_body(g, t);
	graph = c_end(g, s);
	c_record(g, s);
	ASSERT_NE(0, c_try_replay(g, s, graph).rc);
	ASSERT_NE(0, err.code);
	c_end_refused(g, s);
	c_write(g, s, a, 5);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
}

/* --------------------------------------------------------- what goes wrong */

/* A launch in the body fails: the body is refused, and the parent for it, with the reason. */
TEST_F(bridge, doomed)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), w, body;
	const struct capkm_cuda_range writes[] = { ALL(b) };
	uint32_t n = WORDS;
	void *params[] = { &b, &a, &n };
	struct capkm_report r;

	NEEDS_BODIES();
	w = c_record(g, s);
	c_inc(g, s, a);
	body = begin_if(g, s, 1, t);
	/* More threads in a block than any device has. */
	REFUSED(-EINVAL, capkm_cuda_launch(g->b, t, WITH(struct capkm_cuda_launch,
		.function = g->k.copy, .grid = { 1, 1, 1 }, .block = { 4096, 1, 1 },
		.params = params), WITH(struct capkm_cuda_work, .label = "too large",
		.writes = writes, .writes_len = 1), NULL, &err));
	ASSERT_EQ(1, b_window(g, body).out_doomed);
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	end_body_fails(g, t, -ESTALE);
	SAYS("too large");
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	SAYS("cuLaunchKernel");
	r = c_is_tainted(g, b, 0);
	HAS(r.text, "cuLaunchKernel: CUDA_ERROR_INVALID_VALUE");
	c_is_tainted(g, a, 0);
	c_write(g, s, a, 5);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* The driver does not end the body's capture well: so with its reason. */
TEST_F(bridge, not_joined_back)
{
	G;
	const cu_stream u = b_stream(g);
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), w;
	cu_event e = c_event();
	struct capkm_report r;

	NEEDS_BODIES();
	w = c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	c_event_record(g, e, t);
	c_wait(g, u, e);
	c_inc(g, u, b);
	end_body_fails(g, t, -EBUSY);
	ASSERT_EQ(904, err.code);
	r = c_is_tainted(g, a, CAPKM_KIND_DRIVER);
	HAS(r.text, "UNJOINED");
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	SAYS("UNJOINED");
	c_write(g, s, a, 5);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* The driver does not begin it: the graph would lack it, so the parent is doomed. */
TEST_F(bridge, driver_does_not_begin)
{
	G;
	uint64_t a = c_new(g, s, 5), w;
	struct node node;

	ONLY_STANDIN();
	w = c_record(g, s);
	c_inc(g, s, a);
	node = add_if(g, s, 1);
	standin.fail("cuStreamBeginCaptureToGraph", 1, 801);
	ASSERT_EQ(-EREMOTEIO, try_begin(g, s, &node, 0, t, NULL));
	SAYS("cuda_body_begin: cuStreamBeginCaptureToGraph: ");
	ASSERT_EQ(801, err.code);
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	SAYS("cuStreamBeginCaptureToGraph");
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* Work on the parent meanwhile is refused, and dooms it; the body is none the worse. */
TEST_F(bridge, parent_is_suspended)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), w, body, nodes;
	struct c_result r;
	const cu_node *after;
	size_t n;

	NEEDS_BODIES();
	w = c_record(g, s);
	body = begin_if(g, s, 1, t);
	CU(cuGraphGetNodes(capturing(s, &after, &n), NULL, &nodes));
	r = c_try_inc(g, s, a);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_REFUSED, r.result);
	/* The driver has not seen it. */
	CU(cuGraphGetNodes(capturing(s, &after, &n), NULL, &n));
	ASSERT_EQ(nodes, n);
	c_is_tainted(g, a, CAPKM_KIND_REFUSED);
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	ASSERT_EQ(0, b_window(g, body).out_doomed);
	c_inc(g, t, b);
	end_body(g, t);
	c_end_refused(g, s);
	SAYS("suspended");
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* The parent cannot be ended before; nothing has changed by the attempt. */
TEST_F(bridge, parent_ends_after)
{
	G;
	uint64_t a = c_new(g, s, 5), graph = 77;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	FAILS(-EBUSY, "child window", capkm_cuda_graph_end(g->b, s, &graph, NULL, &err));
	ASSERT_EQ(0, graph);
	ASSERT_EQ(CU_CAPTURE_ACTIVE, cu_status(s));
	c_inc(g, t, a);
	end_body(g, t);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	NOTHING_BROKE();
}

/*
 * GR-10: whoever gives up a parent gives up its bodies, and their captures end before
 * its own, whose graph they are in.
 */
TEST_F(bridge, parent_is_given_up)
{
	G;
	const cu_stream u = b_stream(g);
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), w;

	NEEDS_BODIES();
	for (int i = 0; i < 4; i++) {
		w = c_record(g, s);
		begin_if(g, s, 1, t);
		c_inc(g, t, a);
		begin_if(g, t, 1, u);
		c_inc(g, u, b);
		if (i == 0) {
			c_abort(g, s);
		} else if (i == 1) {
			OK(capkm_window_abandon(g->c, w, &err));
			c_end_fails(g, s, -ESTALE);
		} else if (i == 2) {
			OK(capkm_window_abandon(g->c, w, &err));
			c_prepare(g, s);
			c_abort(g, s);
		} else {
			OK(capkm_cuda_stream_unbind(g->b, s, &err));
			c_bind(g, s);
		}
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(u));
		ASSERT_EQ(0, b_domain(g).out_windows);
		c_is_tainted(g, a, 0);
		c_is_tainted(g, b, 0);
		c_write(g, s, a, 5);
		c_write(g, s, b, 50);
		FAILS(-EINVAL, "no body is captured",
		      capkm_cuda_body_end(g->b, t, NULL, &err));
	}
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* The body alone is given up, or taken away: the parent is doomed by it. */
TEST_F(bridge, body_is_given_up)
{
	G;
	uint64_t a = c_new(g, s, 5), w, body;

	NEEDS_BODIES();
	for (int i = 0; i < 4; i++) {
		w = c_record(g, s);
		body = begin_if(g, s, 1, t);
		c_inc(g, t, a);
		if (i == 0) {
			c_abort(g, t);
		} else if (i == 1) {
			OK(capkm_window_abandon(g->c, body, &err));
			end_body_fails(g, t, -ESTALE);
		} else if (i == 2) {
			/* The parent's end finds the capture still open. */
			OK(capkm_window_abandon(g->c, body, &err));
		} else {
			OK(capkm_cuda_stream_unbind(g->b, t, &err));
			c_bind(g, t);
		}
		ASSERT_EQ(1, b_window(g, w).out_doomed);
		c_end_refused(g, s);
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
		c_is_tainted(g, a, 0);
		c_write(g, s, a, 5);
		b_usable(g, s, &self->on_s);
		b_usable(g, t, &self->on_t);
	}
}

/* The bridge is closed meanwhile. */
TEST_F(bridge, closed)
{
	G;
	uint64_t a = c_new(g, s, 5);

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	capkm_cuda_close(g->b);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	ASSERT_EQ(0, b_domain(g).out_windows);
	OK(capkm_cuda_open(g->c, NULL, &g->b, &err));
}

/* Somebody breaks all captures: both are refused with the driver's reason. */
TEST_F(bridge, invalidated)
{
	G;
	uint64_t a = c_new(g, s, 5);
	cu_context kept = NULL;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	CU_IS(900, cuCtxSynchronize());
	/* The driver would not survive both ends, so this one is left to the parent's. */
	REFUSED(-EBUSY, capkm_cuda_body_end(g->b, t, NULL, &err));
	ASSERT_EQ(901, err.code);
	c_end_refused(g, s);
	SAYS("INVALIDATED");
	c_write(g, s, a, 5);
	b_usable(g, s, &self->on_s);
	ASSERT_EQ(CU_CAPTURE_INVALIDATED, cu_status(t));
	ASSERT_EQ(-EBUSY, c_try_set(g, t, a, 6).rc);
	/* Nor would it the end of that stream, which its context's is. */
	CU(cuDevicePrimaryCtxRetain(&kept, g->device));
}

/* No body is begun in a capture that is broken. */
TEST_F(bridge, begun_in_an_invalidated_capture)
{
	G;
	struct node node;

	NEEDS_BODIES();
	c_record(g, s);
	node = add_if(g, s, 1);
	CU_IS(900, cuCtxSynchronize());
	ASSERT_EQ(-EBUSY, try_begin(g, s, &node, 0, t, NULL));
	SAYS("invalidated");
	c_end_fails(g, s, -EBUSY);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* Another logical stream ends the body: it is discarded, as a graph would be. */
TEST_F(bridge, another_stream_ends)
{
	G;
	uint64_t other;

	NEEDS_BODIES();
	OK(capkm_stream_create(g->c, NULL, &other, &err));
	c_record(g, s);
	begin_if(g, s, 1, t);
	capkm_stream_pin(other);
	end_body_fails(g, t, -ESTALE);
	capkm_stream_unpin();
	c_end_refused(g, s);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

struct racer {
	struct gpu *g;
	cu_stream s;
	bool attaches;
	_Atomic bool go, stop;
	uint64_t lost;
};

/* Wants a window on the stream, whatever else it is used for. */
static void *take(void *arg)
{
	struct racer *r = arg;
	struct capkm_cuda *b = r->g->b;
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	int rc;

	CU_DO(cuCtxSetCurrent(r->g->context));
	while (!r->stop) {
		if (!r->go || (r->attaches ?
			       capkm_cuda_graph_attach(b, r->s, NULL, NULL, &e) :
			       capkm_cuda_graph_prepare(b, r->s, NULL, NULL, &e)))
			continue;
		r->lost += r->attaches;		/* nobody else captures there */
		do		/* the other one tries to begin a body there */
			rc = capkm_cuda_graph_abort(b, r->s, &e);
		while (rc == -EBUSY);
		if (rc)
			t_die("abort: %s", e.text);
	}
	return NULL;
}

/*
 * A parent is aborted while another thread wants a window on its body's stream: no window
 * takes the place of one that has not gone, and every capture ends.
 */
static void race_for_body(struct gpu *g, cu_stream s, cu_stream t, bool attaches)
{
	struct racer r = { .g = g, .s = t, .attaches = attaches };
	const time_t until = time(NULL) + 5;	/* a call may be slow */
	uint64_t begun = 0;
	pthread_t thread;
	struct node node;

	if (pthread_create(&thread, NULL, take, &r))
		t_die("pthread_create");
	for (int i = 0; i < 3000 && time(NULL) < until; i++) {
		c_record_(g, s, NULL);
		node = add_if(g, s, 1);
		if (!try_begin(g, s, &node, 0, t, NULL)) {
			begun++;
			r.go = true;
			for (volatile int spin = (i * 37) % 4000; spin; spin--)
				;
		}
		c_abort_(g, s);
		r.go = false;
	}
	r.stop = true;
	pthread_join(thread, NULL);
	if (!begun || r.lost)
		t_die("%" PRIu64 " attached to nothing", r.lost);
}

TEST_F(bridge, prepared_while_parent_is_aborted)
{
	G;

	NEEDS_BODIES();
	race_for_body(g, s, t, false);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	ASSERT_EQ(0, b_domain(g).out_windows);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

TEST_F(bridge, attached_while_parent_is_aborted)
{
	G;

	NEEDS_BODIES();
	race_for_body(g, s, t, true);
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
	ASSERT_EQ(0, b_domain(g).out_windows);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* --------------------------------------------------------------- arguments */

/* Each wrong argument is told apart, and changes nothing: the window becomes a graph. */
TEST_F(bridge, wrong_arguments)
{
	G;
	const cu_stream u = b_stream(g);
	uint64_t a = c_new(g, s, 5), graph, old, w;
	struct node node, other;
	cu_stream unbound = NULL;
	cu_graph raw = NULL;
	struct capkm_scope scope;

	NEEDS_BODIES();
	CU(cuStreamCreate(&unbound, CU_STREAM_NON_BLOCKING));
	old = b_graph_copy(g, s, a, c_new(g, s, 5));
	w = c_record(g, s);
	node = add_if(g, s, 1);
	FAILS(-ENOENT, "not bound", try_begin(g, s, &node, 0, unbound, NULL));
	FAILS(-ENOENT, "not bound", try_begin(g, unbound, &node, 0, t, NULL));
	FAILS(-EINVAL, "another stream than what it is in", try_begin(g, s, &node, 0, s, NULL));
	FAILS(-EINVAL, "no window records", try_begin(g, u, &node, 0, t, NULL));
	FAILS(-EINVAL, "a body has a node", capkm_cuda_body_begin(g->b, t,
		WITH(struct capkm_cuda_body, .parent = s, .node = node.node, .bodies = 1),
		NULL, &err));
	FAILS(-EINVAL, "a body has a node", capkm_cuda_body_begin(g->b, t,
		WITH(struct capkm_cuda_body, .parent = s, .graph = node.bodies[0],
		.bodies = 1), NULL, &err));
	FAILS(-EINVAL, "a body has a node", capkm_cuda_body_begin(g->b, t,
		WITH(struct capkm_cuda_body, .parent = s, .node = node.node,
		.graph = node.bodies[0]), NULL, &err));
	FAILS(-EINVAL, "no body is captured", capkm_cuda_body_end(g->b, t, NULL, &err));
	FAILS(-EINVAL, "no body is captured", capkm_cuda_body_end(g->b, s, NULL, &err));
	/* The stream has a window of its own, or a capture of somebody's. */
	c_prepare(g, t);
	REFUSED(-EBUSY, try_begin(g, s, &node, 0, t, NULL));
	c_abort(g, t);
	CU(cuStreamBeginCapture(t, CU_MODE_RELAXED));
	FAILS(-EBUSY, "captures already", try_begin(g, s, &node, 0, t, NULL));
	FAILS(-EINVAL, "no window records", try_begin(g, t, &node, 0, u, NULL));
	CU(cuStreamEndCapture(t, &raw));
	CU(cuGraphDestroy(raw));
	/* Work is being issued there: nothing is left behind, and the parent goes on. */
	OK(capkm_cuda_scope_begin(g->b, t, NULL, &scope, NULL, &err));
	FAILS(-EBUSY, "a scope", try_begin(g, s, &node, 0, t, NULL));
	OK(capkm_cuda_scope_end(g->b, t, &scope, 0, &err));
	/* A body is ended as one. */
	begin_body(g, s, &node, 0, t);
	FAILS(-EINVAL, "cuda_body_end", capkm_cuda_graph_end(g->b, t, &graph, NULL, &err));
	FAILS(-EINVAL, "cuda_body_end", capkm_cuda_graph_update(g->b, t, old, NULL, &err));
	FAILS(-EINVAL, "no window that was attached",
	      capkm_cuda_graph_seal(g->b, t, NULL, NULL, &graph, NULL, &err));
	REFUSED(-EBUSY, capkm_cuda_graph_begin(g->b, t, &err));
	REFUSED(-EBUSY, capkm_cuda_graph_prepare(g->b, t, NULL, NULL, &err));
	FAILS(-EBUSY, "already", capkm_cuda_graph_attach(g->b, t, NULL, NULL, &err));
	c_inc(g, t, a);
	/* One at a time, and each once. */
	FAILS(-EBUSY, "another body", ({
		other = (struct node){ (cu_node)1, (cu_graph[]){ (cu_graph)1 }, 1 };
		try_begin(g, s, &other, 0, u, NULL);
	}));
	end_body(g, t);
	FAILS(-EINVAL, "recorded already", try_begin(g, s, &node, 0, t, NULL));
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	CU(cuStreamDestroy(unbound));
	NOTHING_BROKE();
}

/* A doomed parent takes no body. */
TEST_F(bridge, parent_is_doomed)
{
	G;
	struct node node;
	uint64_t w;

	NEEDS_BODIES();
	w = c_record(g, s);
	node = add_if(g, s, 1);
	OK(capkm_window_fail(g->c, w, 0, "op", WITH(struct capkm_cause, .text = "it burns"),
			     &err));
	FAILS(-EINVAL, "doomed", try_begin(g, s, &node, 0, t, NULL));
	ASSERT_EQ(CAPKM_WINDOW_NONE, b_state(g, &self->on_t));
	c_end_refused(g, s);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* All kernels of a node are of one context. */
TEST_F(bridge, another_context)
{
	G;
	cu_context context = NULL;
	cu_stream there = NULL;
	struct node node;

	NEEDS_BODIES();
	CU(cuCtxCreate(&context, 0, g->device));
	CU(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
	c_bind(g, there);
	CU(cuCtxSetCurrent(g->context));
	c_record(g, s);
	node = add_if(g, s, 1);
	FAILS(-EINVAL, "another context", try_begin(g, s, &node, 0, there, NULL));
	c_abort(g, s);
	OK(capkm_cuda_stream_unbind(g->b, there, &err));
	CU(cuCtxDestroy(context));
	CU(cuCtxSetCurrent(g->context));
}

/* The legacy default stream cannot capture a body. */
TEST_F(bridge, legacy)
{
	G;
	struct node node = { (cu_node)1, (cu_graph[]){ (cu_graph)1 }, 1 };

	NEEDS_BODIES();
	c_bind(g, NULL);
	FAILS(-EOPNOTSUPP, "legacy default stream", try_begin(g, s, &node, 0, NULL, NULL));
}

/* A driver that has no bodies says since when one has. */
TEST(driver_lacks_bodies)
{
	struct node node = { (cu_node)1, (cu_graph[]){ (cu_graph)1 }, 1 };
	struct gpu gpu, *g = &gpu;
	cu_stream s;

	cu_start();
	ONLY_STANDIN();
	setenv("CAPKM_STANDIN_LACKS", "cuStreamBeginCaptureToGraph", 1);
	c_open(g);
	s = c_stream(g);
	FAILS(-EOPNOTSUPP, "CUDA 12.3 or newer", try_begin(g, s, &node, 0, s, NULL));
	c_close(g);
}

/* ------------------------------------------------------------ looked into */

/* A kernel of the body is given a buffer that no scope named: it is seen. */
TEST_F(bridge, seen_in_a_body)
{
	G;
	uint64_t m = c_new(g, s, 1), graph, failure;
	struct capkm_claim claim;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_hidden(g, t, m, 7);
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).seen);
	ASSERT_EQ(1, b_claims(g, graph, CAPKM_GRAPH_QUERY_F_SEEN, &claim, 1));
	ASSERT_EQ(c_claim(g, m).buffer, claim.buffer);
	c_replay(g, s, graph);
	c_sync(g, s);
	c_holds(m, 7);
	failure = b_taint(g, m).failure;
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	ASSERT_EQ(failure, c_is_tainted(g, m, 0).failure);
}

/* Strict: so the body is refused, and the parent for it. */
TEST_F(bridge, strict_refuses_unnamed)
{
	G;
	uint64_t m = c_new(g, s, 1);

	NEEDS_BODIES();
	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_STRICT));
	begin_if(g, s, 1, t);
	c_hidden(g, t, m, 7);
	end_body_fails(g, t, -EINVAL);
	SAYS("1 known buffers that no scope named");
	c_end_refused(g, s);
	SAYS("1 known buffers that no scope named");
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* Strict, and all is named: it is a graph. */
TEST_F(bridge, strict)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph;

	NEEDS_BODIES();
	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_STRICT));
	c_inc(g, s, a);
	begin_if(g, s, 1, t);
	c_copy(g, t, b, a);
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).opaque);
	c_replay(g, s, graph);
	c_is(g, s, b, 6);
}

/*
 * A body that is captured behind the bridge's back is nobody's: the node is opaque. It is
 * counted, and no more, whether the window is strict or not.
 */
TEST_F(bridge, unseen_body)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;
	cu_graph raw = NULL;
	struct node node;
	cu_stream u = NULL;

	NEEDS_BODIES();
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	for (int strict = 0; strict < 2; strict++) {
		c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
			.mode = CAPKM_CUDA_MODE_RELAXED,
			.flags = strict ? CAPKM_CUDA_GRAPH_F_STRICT : 0));
		node = add_if(g, s, 1);
		CU(cuStreamBeginCaptureToGraph(u, node.bodies[0], NULL, NULL, 0,
					       CU_MODE_RELAXED));
		CU(cuMemsetD32Async(a, 8 + strict, WORDS, u));
		CU(cuStreamEndCapture(u, &raw));
		graph = c_end(g, s);
		ASSERT_EQ(1, c_query(g, graph).opaque);
		ASSERT_EQ(1, c_query(g, graph).nodes);
		ASSERT_EQ(0, c_query(g, graph).seen);
		c_replay(g, s, graph);
		c_sync(g, s);
		c_holds(a, 8 + strict);
		c_destroy(g, graph);
	}
	CU(cuStreamDestroy(u));
	b_usable(g, s, &self->on_s);
}

/* So is one in a body, for the body as for the graph. */
TEST_F(bridge, unseen_in_a_body)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	add_if(g, t, 1);
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).opaque);
	ASSERT_EQ(3, c_query(g, graph).nodes);
	c_destroy(g, graph);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* A node that writes a word, which no getter of the driver shows. */
static void add_write(struct gpu *g, cu_stream s, uint64_t to, uint32_t value)
{
	struct cu_mem_op op = {
		.operation = CU_MEM_OP_WRITE_32, .address = to, .value = value,
	};
	const struct cu_mem_op_params params = {
		.context = g->context, .count = 1, .ops = &op,
	};
	const cu_node *after;
	cu_node node;
	size_t n;
	cu_graph graph = capturing(s, &after, &n);

	CU_DO(cuGraphAddBatchMemOpNode(&node, graph, after, n, &params));
	CU_DO(cuStreamUpdateCaptureDependencies(s, &node, 1, CU_SET_CAPTURE_DEPENDENCIES));
}

/* Nodes that cannot be looked into are counted; what they touch is not known. */
TEST_F(bridge, opaque_node)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph;
	struct capkm_cuda_graph_query q;
	uint32_t words[WORDS];

	c_record(g, s);
	c_inc(g, s, a);
	add_write(g, s, b, 77);
	add_write(g, s, b + 4, 78);
	graph = c_end(g, s);
	q = c_query(g, graph);
	ASSERT_EQ(3, q.nodes);
	ASSERT_EQ(1, q.kernels);
	ASSERT_EQ(2, q.opaque);
	ASSERT_EQ(0, q.seen);
	c_replay(g, s, graph);
	ASSERT_EQ(0, c_try_read(g, s, b, words));
	ASSERT_EQ(77, words[0]);
	ASSERT_EQ(78, words[1]);
	ASSERT_EQ(50, words[2]);
	c_is(g, s, a, 6);
}

/* A strict window counts them as well: it refuses what was found, not what could be. */
TEST_F(bridge, opaque_in_a_strict_window)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 50), graph;

	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_STRICT));
	c_inc(g, s, a);
	add_write(g, s, b, 77);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).opaque);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
}

/* A scope names what the node does. */
TEST_F(bridge, opaque_in_a_scope)
{
	G;
	uint64_t b = c_new(g, s, 50), graph;
	const struct capkm_cuda_range writes[] = { ALL(b) };
	struct capkm_claim claim;
	struct capkm_scope scope;

	c_record(g, s);
	OK(capkm_cuda_scope_begin(g->b, s, WITH(struct capkm_cuda_work, .writes = writes,
						.writes_len = 1), &scope, NULL, &err));
	add_write(g, s, b, 77);
	OK(capkm_cuda_scope_end(g->b, s, &scope, 0, &err));
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).opaque);
	ASSERT_EQ(1, b_claims(g, graph, 0, &claim, 1));
	ASSERT_EQ(c_claim(g, b).buffer, claim.buffer);
}

/* ------------------------------------------------------------- host memory */

struct host {
	uint32_t *words;	/* pinned, as a body's copies need it */
	_Atomic int released;
};

static void release(void *context)
{
	((struct host *)context)->released++;
}

static void new_host(struct host *h, uint32_t v)
{
	h->released = 0;
	CU_DO(cuMemAllocHost((void **)&h->words, BYTES));
	for (uint32_t i = 0; i < WORDS; i++)
		h->words[i] = v;
}

static int released(struct host *h)
{
	for (int i = 0; i < 2000 && !h->released; i++)
		usleep(1000);
	return h->released;
}

static int try_copy_host(struct gpu *g, cu_stream s, uint64_t to, struct host *h, bool keep)
{
	return capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = to,
		.from = (uintptr_t)h->words, .bytes = BYTES,
		.release = keep ? release : NULL, .context = keep ? h : NULL), NULL, &err);
}

/* C39: host memory of a body is the graph's until that goes, and read by each replay. */
TEST_F(bridge, host_memory)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	struct host h;

	NEEDS_BODIES();
	new_host(&h, 5);
	c_record(g, s);
	begin_if(g, s, 1, t);
	OK(try_copy_host(g, t, m, &h, true));
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).retained);
	ASSERT_EQ(1, c_query(g, graph).copies);
	ASSERT_EQ(0, c_query(g, graph).host_unchecked);
	c_replay(g, s, graph);
	c_is(g, s, m, 5);
	h.words[0] = 6;
	c_replay(g, s, graph);
	c_sync(g, s);
	ASSERT_EQ(0, h.released);
	c_destroy(g, graph);
	ASSERT_EQ(1, released(&h));
	CU(cuMemFreeHost(h.words));
}

/* The body's window ends otherwise: released with the parent's capture. */
TEST_F(bridge, host_memory_of_no_graph)
{
	G;
	uint64_t m = c_new(g, s, 1);
	struct host h;

	NEEDS_BODIES();
	new_host(&h, 5);
	for (int i = 0; i < 3; i++) {
		h.released = 0;
		c_record(g, s);
		begin_if(g, s, 1, t);
		OK(try_copy_host(g, t, m, &h, true));
		if (i == 0) {
			c_abort(g, s);
		} else if (i == 1) {
			c_abort(g, t);
			c_end_refused(g, s);
		} else {
			end_body(g, t);
			c_abort(g, s);
		}
		ASSERT_EQ(1, released(&h)) {
			TH_LOG("end %d", i);
		}
		c_write(g, s, m, 1);
	}
	CU(cuMemFreeHost(h.words));
}

/* Nobody retains it: refused when the body ends. Unless the parent retains it. */
TEST_F(bridge, nobody_retains)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	struct host h;

	NEEDS_BODIES();
	new_host(&h, 5);
	c_record(g, s);
	begin_if(g, s, 1, t);
	OK(try_copy_host(g, t, m, &h, false));
	end_body_fails(g, t, -EINVAL);
	SAYS("1 host addresses that nobody retains");
	c_end_refused(g, s);
	c_write(g, s, m, 1);
	c_record(g, s);
	OK(try_copy_host(g, s, m, &h, true));
	begin_if(g, s, 1, t);
	OK(try_copy_host(g, t, m, &h, false));
	end_body(g, t);
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).host_unchecked);
	ASSERT_EQ(1, c_query(g, graph).retained);
	c_destroy(g, graph);
	ASSERT_EQ(1, released(&h));
	CU(cuMemFreeHost(h.words));
}

/* Where a slice of the pool for slot 1 was, which is freed again. */
static uint64_t used_slice(struct capkm_pool *pool, uint64_t bytes)
{
	struct capkm_pool_slice q = CAPKM_OPTS(struct capkm_pool_slice);
	uint64_t memory;

	if (capkm_pool_alloc(pool, 1, bytes, &memory, &err) ||
	    capkm_pool_find(pool, memory, &q, &err) ||
	    capkm_pool_free(pool, memory, &err))
		t_die("slice: %s", err.text);
	return q.address;
}

/* The one that the next capture on the slot would get. */
static uint64_t next_slice(struct capkm_pool *pool)
{
	uint64_t at;

	if (capkm_pool_capture_begin(pool, 1, &err))
		t_die("capture_begin: %s", err.text);
	at = used_slice(pool, BYTES);
	if (capkm_pool_capture_end(pool, 1, NULL, &err))
		t_die("capture_end: %s", err.text);
	return at;
}

/*
 * C44, C53: what a body touched of a pool is the graph's: freed in the body, it is handed
 * out to nobody while replays write it. Its slot is primed as the caller likes.
 */
TEST_F(bridge, slices)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), at, graph, body;
	struct capkm_pool_stats stats = CAPKM_OPTS(struct capkm_pool_stats);
	struct capkm_pool *pool;
	struct pool p;

	NEEDS_BODIES();
	p = new_pool(g);
	pool = p.pool;
	c_prepare(g, s);
	OK(capkm_pool_capture_begin(pool, 1, &err));
	at = used_slice(pool, BYTES);
	c_begin(g, s);
	body = begin_if(g, s, 1, t);
	ASSERT_EQ(at, used_slice(pool, BYTES));
	c_copy(g, t, at, from);
	c_copy(g, t, to, at);
	ASSERT_EQ(0, b_window(g, body).out_doomed);
	end_body(g, t);
	OK(capkm_pool_query(pool, 1, &stats, &err));
	ASSERT_EQ(0, stats.capture);
	ASSERT_NE(at, next_slice(pool));
	graph = c_end(g, s);
	ASSERT_NE(at, next_slice(pool));
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	c_destroy(g, graph);
	/* A body that has to grow the pool is doomed, and so is its parent. */
	c_record(g, s);
	body = begin_if(g, s, 1, t);
	used_slice(pool, 12345 * 4);
	ASSERT_EQ(1, b_window(g, body).out_doomed);
	end_body_fails(g, t, -ESTALE);
	c_end_refused(g, s);
	OK(capkm_pool_query(pool, 1, &stats, &err));
	ASSERT_EQ(0, stats.capture);
	delete_pool(g, &p);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* GR-11: a body owns no memory. If the driver lets it be recorded, the end refuses it. */
TEST_F(bridge, memory_nodes)
{
	G;
	uint64_t a = c_new(g, s, 5);
	cu_address inside;
	int refused;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_inc(g, t, a);
	refused = cu.cuMemAllocAsync(&inside, BYTES, t);
	if (refused) {
		c_abort(g, t);
	} else {
		CU(cuMemFreeAsync(inside, t));
		end_body_fails(g, t, -EINVAL);
		SAYS("memory nodes");
	}
	c_end_refused(g, s);
	c_write(g, s, a, 5);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/*
 * A graph with a body is updated from a window that has recorded the same with another one.
 * Whether the driver can do that is its matter: what is replayed afterwards is what the
 * claims say, the new graph's or the old one's.
 */
TEST_F(bridge, updated_with_a_body)
{
	G;
	uint64_t from = c_new(g, s, 5), x = c_new(g, s, 1), y = c_new(g, s, 2), graph;
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	int rc;

	NEEDS_BODIES();
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_copy(g, t, x, from);
	end_body(g, t);
	graph = c_end(g, s);
	c_record(g, s);
	begin_if(g, s, 1, t);
	c_copy(g, t, y, from);
	end_body(g, t);
	rc = capkm_cuda_graph_update(g->b, s, graph, &a, &err);
	if (rc) {
		TH_LOG("the driver refuses: %s", err.text);
		ASSERT_EQ(-EREMOTEIO, rc);
		ASSERT_EQ(910, err.code);
	}
	ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
	ASSERT_EQ(0, b_domain(g).out_windows);
	c_write(g, s, y, 2);
	c_replay(g, s, graph);
	c_is(g, s, x, rc ? 5 : 1);
	c_is(g, s, y, rc ? 2 : 5);
	c_destroy(g, graph);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* ------------------------------------------------------- memory, and threads */

/* All that has a body, from the window's prepare to the graph. */
static int story(struct gpu *g, cu_stream s, cu_stream t, uint64_t a, uint64_t *graph)
{
	struct node node;
	int rc = capkm_cuda_graph_prepare(g->b, s, NULL, NULL, &err);

	if (!rc)
		rc = capkm_cuda_graph_begin(g->b, s, &err);
	if (rc)
		return rc;
	node = add_if(g, s, 1);
	rc = try_begin(g, s, &node, 0, t, NULL);
	if (!rc)
		rc = c_try_inc(g, t, a).rc;
	if (!rc)
		rc = capkm_cuda_body_end(g->b, t, NULL, &err);
	return rc ? rc : capkm_cuda_graph_end(g->b, s, graph, NULL, &err);
}

/* Each allocation fails once: an error, no capture, no window, and usable streams. */
TEST_F(bridge, out_of_memory)
{
	G;
	uint64_t a = c_new(g, s, 5), graph;
	unsigned long n;
	int rc = 1;

	NEEDS_BODIES();
	for (n = 1; rc; n++) {
		graph = 0;
		t_fail_alloc = n;
		rc = story(g, s, t, a, &graph);
		t_fail_alloc = 0;
		if (rc)
			c_abort(g, s);
		ASSERT_EQ(!rc, !!graph);
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(s));
		ASSERT_EQ(CU_CAPTURE_NONE, cu_status(t));
		ASSERT_EQ(0, b_domain(g).out_windows);
		ASSERT_EQ(!rc, b_domain(g).out_graphs);
		if (rc)
			c_write(g, s, a, 5);
	}
	ASSERT_GT(n, 10);
	c_replay(g, s, graph);
	c_is(g, s, a, 6);
	c_destroy(g, graph);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

/* One thread works in the body and ends it, another one gives the parent up. */
TEST_F(bridge, given_up_meanwhile)
{
	G;
	struct setter w = {
		.g = g, .stream = t, .memory = c_new(g, t, 0), .ends_bodies = true
	};
	uint64_t a = c_new(g, s, 5);
	struct node node;
	pthread_t thread;

	NEEDS_BODIES();
	ASSERT_EQ(0, pthread_create(&thread, NULL, b_set_on, &w));
	for (int i = 0; i < 50; i++) {
		c_record(g, s);
		c_inc(g, s, a);
		node = add_if(g, s, 1);
		if (!try_begin(g, s, &node, 0, t, NULL))
			c_try_inc(g, t, a);
		c_abort(g, s);
		c_write(g, s, a, 5);
	}
	w.stop = true;
	pthread_join(thread, NULL);
	ASSERT_EQ(0, b_domain(g).out_windows);
	b_usable(g, s, &self->on_s);
	b_usable(g, t, &self->on_t);
}

CUDA_TEST_MAIN
