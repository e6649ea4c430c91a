// SPDX-License-Identifier: GPL-2.0-only
/* What is in a graph: host memory that it reads, buffers that no scope named, graphs. */
#include "bridge.h"

#include <pthread.h>

/* Host memory of a copy, which counts its releases. */
struct host {
	uint32_t words[WORDS];
	_Atomic int released;
};

static void release(void *context)
{
	struct host *h = context;

	h->released++;
}

/* The driver calls it when it likes. */
static int released(struct host *h)
{
	for (int i = 0; i < 2000 && !h->released; i++)
		usleep(1000);
	return h->released;
}

static void set_words(struct host *h, uint32_t v)
{
	for (uint32_t i = 0; i < WORDS; i++)
		h->words[i] = v;
}

static struct host *new_host(uint32_t v)
{
	struct host *h = calloc(1, sizeof(*h));

	set_words(h, v);
	return h;
}

static int try_write(struct gpu *g, cu_stream s, uint64_t to, struct host *h, uint32_t flags,
		     bool keep)
{
	return capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = to,
		.from = (uintptr_t)h->words, .bytes = BYTES, .flags = flags,
		.release = keep ? release : NULL, .context = keep ? h : NULL), NULL, &err);
}

/*
 * C39, C40, C41: host memory that a recorded copy reads is read by each replay, and is the graph's
 * until it goes: released once, not before.
 */
TEST_F(bridge, released_with_the_graph)
{
	G;
	uint64_t m = c_new(g, s, 1), graph, w;
	struct host *h = new_host(5);

	w = c_record(g, s);
	OK(try_write(g, s, m, h, 0, true));
	ASSERT_EQ(1, b_window(g, w).out_retained);
	ASSERT_EQ(BYTES, b_window(g, w).out_retained_bytes);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).retained);
	ASSERT_EQ(0, c_query(g, graph).host_unchecked);
	c_replay(g, s, graph);
	c_is(g, s, m, 5);
	set_words(h, 6);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	ASSERT_EQ(0, h->released);
	c_destroy(g, graph);
	ASSERT_EQ(1, released(h));
	usleep(1000);
	ASSERT_EQ(1, h->released);
	free(h);
}

/* No graph: released with the capture, however the window ends. */
TEST_F(bridge, released_without_a_graph)
{
	G;
	uint64_t m = c_new(g, s, 1);
	struct host *h[4];

	for (int i = 0; i < 4; i++) {
		uint64_t w = c_record(g, s);

		h[i] = new_host(5);
		OK(try_write(g, s, m, h[i], 0, true));
		if (i == 0) {
			c_abort(g, s);
		} else if (i == 1) {
			OK(capkm_window_fail(g->c, w, 0, NULL, NULL, &err));
			c_end_refused(g, s);
		} else if (i == 2) {
			OK(capkm_window_abandon(g->c, w, &err));
			c_end_fails(g, s, -ESTALE);
		} else {
			CU_IS(900, cuCtxSynchronize());
			c_end_fails(g, s, -EBUSY);
		}
		ASSERT_EQ(1, released(h[i])) {
			TH_LOG("end %d", i);
		}
		c_write(g, s, m, 1);
	}
	b_usable(g, s, &self->on_s);
	for (int i = 0; i < 4; i++) {
		ASSERT_EQ(1, h[i]->released);
		free(h[i]);
	}
}

/* The authority takes no more: the copy fails, and what it was to keep stays the caller's. */
TEST_F(bridge, retained_by_nobody)
{
	G;
	const struct capkm_retained more = { .address = 4096, .bytes = 1,
		.mode = CAPKM_RETAIN_READ };
	uint64_t m = c_new(g, s, 1), w = c_record(g, s);
	struct host *h = new_host(5);
	int rc;

	do {
		rc = capkm_window_retain(g->c, w, &more, &err);
	} while (!rc);
	ASSERT_EQ(-EDQUOT, rc);
	for (int i = 0; i < 4; i++)
		ASSERT_NE(0, try_write(g, s, m, h, i % 2 ? CAPKM_CUDA_COPY_F_OWN_COPY : 0,
				       !(i % 2)));
	c_end_refused(g, s);
	ASSERT_EQ(0, h->released);
	free(h);
}

/* From device to host: each replay writes the memory, which is the graph's too. */
TEST_F(bridge, replay_writes_host)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	struct host *h = new_host(1);

	c_record(g, s);
	c_inc(g, s, m);
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = (uintptr_t)h->words,
		.from = m, .bytes = BYTES, .release = release, .context = h), NULL, &err));
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_sync(g, s);
	c_all_are_(h->words, 6);
	c_replay(g, s, graph);
	c_sync(g, s);
	c_all_are_(h->words, 7);
	c_destroy(g, graph);
	ASSERT_EQ(1, released(h));
	free(h);
}

/* The library's own copy: the caller's memory may go. */
TEST_F(bridge, own_copy)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	struct host *h = new_host(5);

	c_record(g, s);
	OK(try_write(g, s, m, h, CAPKM_CUDA_COPY_F_OWN_COPY, false));
	set_words(h, 6);
	free(h);
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, m, 5);
	ASSERT_EQ(1, c_query(g, graph).retained);
}

/* Host memory that nobody retains is refused at the close, or counted. */
TEST_F(bridge, nobody_retains)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	struct host *h = new_host(5);

	c_record(g, s);
	OK(try_write(g, s, m, h, 0, false));
	c_end_fails(g, s, -EINVAL);
	SAYS("1 host addresses that nobody retains");
	c_is_tainted(g, m, CAPKM_KIND_VALIDATION);
	c_write(g, s, m, 1);
	b_usable(g, s, &self->on_s);

	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_HOST_UNCHECKED));
	OK(try_write(g, s, m, h, 0, false));
	CU(cuMemcpyHtoDAsync(m, h->words, BYTES, s));
	graph = c_end(g, s);
	ASSERT_EQ(2, c_query(g, graph).host_unchecked);
	ASSERT_EQ(2, c_query(g, graph).copies);
	ASSERT_EQ(0, c_query(g, graph).retained);
	c_replay(g, s, graph);
	c_is(g, s, m, 5);
	c_destroy(g, graph);
	free(h);
}

/* A copy that the bridge has not seen, from memory that is retained: nothing is missing. */
TEST_F(bridge, retained_for_another_copy)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	struct host *h = new_host(5);

	c_record(g, s);
	OK(try_write(g, s, m, h, 0, true));
	CU(cuMemcpyHtoDAsync(m, h->words, BYTES / 2, s));
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).host_unchecked);
	ASSERT_EQ(2, c_query(g, graph).copies);
	c_destroy(g, graph);
	ASSERT_EQ(1, released(h));
	free(h);
}

static void count_call(void *context)
{
	++*(_Atomic int *)context;
}

/* A host function runs at each replay; what it touches cannot be checked. */
TEST_F(bridge, host_function)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;
	const struct capkm_cuda_range writes[] = { ALL(m) };
	_Atomic int calls = 0;
	uint32_t result = 77;

	c_record(g, s);
	OK(capkm_cuda_host_function(g->b, s, count_call, (void *)&calls,
		WITH(struct capkm_cuda_work, .writes = writes, .writes_len = 1), &result,
		&err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	graph = c_end(g, s);
	ASSERT_EQ(0, calls);
	ASSERT_EQ(1, c_query(g, graph).host_unchecked);
	c_replay(g, s, graph);
	c_replay(g, s, graph);
	c_sync(g, s);
	ASSERT_EQ(2, calls);
}

/* Outside of a window nobody keeps anything. */
TEST_F(bridge, nothing_to_keep)
{
	G;
	uint64_t m = c_new(g, s, 1);
	struct host *h = new_host(5);

	REFUSED(-EINVAL, try_write(g, s, m, h, 0, true));
	REFUSED(-EINVAL, try_write(g, s, m, h, CAPKM_CUDA_COPY_F_OWN_COPY, false));
	REFUSED(-EINVAL, try_write(g, s, m, h, 1u << 31, false));
	c_record(g, s);
	REFUSED(-EINVAL, try_write(g, s, m, h, CAPKM_CUDA_COPY_F_OWN_COPY, true));
	/* Refused before anything was kept: the memory stays the caller's. */
	REFUSED(-ENOENT, try_write(g, s, 4096, h, 0, true));
	c_end(g, s);
	usleep(1000);
	ASSERT_EQ(0, h->released);
	c_is(g, s, m, 1);
	free(h);
}

/* ------------------------------------------------------------------- seen */

/*
 * A kernel is given an address in a struct, and no scope names the buffer: it is seen.
 * So it is checked before a replay, and tainted when one fails, but a replay that goes well
 * does not make it good.
 */
TEST_F(bridge, seen)
{
	G;
	uint64_t m = c_new(g, s, 1), other = c_new(g, s, 2), graph, failure;
	struct capkm_claim claims[4], claim;

	c_record(g, s);
	c_hidden(g, s, m, 7);
	c_inc(g, s, other);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).seen);
	ASSERT_EQ(1, b_claims(g, graph, CAPKM_GRAPH_QUERY_F_SEEN, claims, 4));
	claim = c_claim(g, m);
	/* From an address nobody knows how far a kernel goes: all of it. */
	ASSERT_EQ(claim.buffer, claims[0].buffer);
	ASSERT_EQ(0, claims[0].start);
	ASSERT_EQ(BYTES, claims[0].end);
	OK(capkm_taint(g->c, &claim, 1, 0, WITH(struct capkm_cause, .text = "it burns"),
		       &failure, &err));
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, graph).result);
	ASSERT_EQ(failure, c_is_tainted(g, m, 0).failure);
	ASSERT_EQ(failure, c_is_tainted(g, other, 0).failure);
}

/* A failing replay taints what it was seen to be given. */
TEST_F(bridge, seen_and_failed)
{
	G;
	uint64_t m = c_new(g, s, 1), graph;

	ONLY_STANDIN();
	c_record(g, s);
	c_hidden(g, s, m, 7);
	graph = c_end(g, s);
	standin.fail("cuGraphLaunch", 1, 801);
	ASSERT_EQ(-EREMOTEIO, c_try_replay(g, s, graph).rc);
	c_is_tainted(g, m, CAPKM_KIND_DRIVER);
	c_write(g, s, m, 1);
	c_replay(g, s, graph);
	c_sync(g, s);
	c_holds(m, 7);
}

/* Strict: what no scope named makes it no graph. */
TEST_F(bridge, strict_refuses_unnamed)
{
	G;
	uint64_t m = c_new(g, s, 1);

	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_STRICT));
	c_hidden(g, s, m, 7);
	c_end_fails(g, s, -EINVAL);
	SAYS("1 known buffers that no scope named");
	b_usable(g, s, &self->on_s);
}

/* What scopes named, read or written, is not news: also not for a strict window. */
TEST_F(bridge, named_is_not_seen)
{
	G;
	uint64_t from = c_new(g, s, 5), b = c_new(g, s, 6), to = c_new(g, s, 0), graph;

	c_record_with(g, s, WITH(struct capkm_cuda_graph_opts,
		.flags = CAPKM_CUDA_GRAPH_F_STRICT));
	c_add(g, s, to, from, b);
	c_set(g, s, b, 3);
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = b, .from = from,
					 .bytes = BYTES), NULL, &err));
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).seen);
	c_replay(g, s, graph);
	c_is(g, s, to, 11);
	c_is(g, s, b, 5);
	c_replay(g, s, graph);
	c_is(g, s, to, 10);
}

/* The other form of arguments: one block, in pairs of key and value, in any order. */
TEST_F(bridge, arguments_in_a_block)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), graph;
	struct {
		uint64_t to, from;
		uint32_t n;
	} block = { to, from, WORDS };
	size_t bytes = 20;
	void *extra[] = { CU_EXTRA_SIZE, &bytes, CU_EXTRA_POINTER, &block, NULL };
	const struct capkm_cuda_range writes[] = { ALL(to) };
	uint32_t result;

	c_record(g, s);
	OK(capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch, .function = g->k.copy,
		.grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 }, .extra = extra),
		WITH(struct capkm_cuda_work, .writes = writes, .writes_len = 1), &result,
		&err));
	graph = c_end(g, s);
	/* @from, which the scope did not name. */
	ASSERT_EQ(1, c_query(g, graph).seen);
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
}

/* Copies and sets that the bridge did not see name buffers too. */
TEST_F(bridge, nodes_behind_its_back)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), c = c_new(g, s, 7), graph;

	c_record(g, s);
	CU(cuMemcpyAsync(a, b, BYTES, s));
	CU(cuMemsetD32Async(c, 1, WORDS, s));
	graph = c_end(g, s);
	ASSERT_EQ(3, c_query(g, graph).seen);
	ASSERT_EQ(2, c_query(g, graph).nodes);
	ASSERT_EQ(1, c_query(g, graph).copies);
}

/* ------------------------------------------------------------ child graphs */

/* A graph is launched into a window: what it reads and writes is the window's. */
TEST_F(bridge, graph_in_a_graph)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), out = c_new(g, s, 0), a, b, w;

	a = b_graph_copy(g, s, to, from);
	w = c_record(g, s);
	c_replay(g, s, a);
	c_copy(g, s, out, to);
	ASSERT_EQ(2, b_window(g, w).out_recorded);
	b = c_end(g, s);
	c_is(g, s, to, 0);
	ASSERT_EQ(2, c_query(g, b).kernels);
	ASSERT_EQ(3, c_query(g, b).nodes);
	ASSERT_EQ(0, c_query(g, b).seen);
	/* The inner one may go. */
	c_destroy(g, a);
	c_replay(g, s, b);
	c_is(g, s, to, 5);
	c_is(g, s, out, 5);
	NOTHING_BROKE();
}

/* Its tainted input taints what the outer one writes, also with the inner one gone. */
TEST_F(bridge, inner_input_is_tainted)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), a, b;
	struct capkm_claim claim = c_claim(g, from);

	a = b_graph_copy(g, s, to, from);
	c_record(g, s);
	c_replay(g, s, a);
	b = c_end(g, s);
	c_destroy(g, a);
	OK(capkm_taint(g->c, &claim, 1, 0, NULL, NULL, &err));
	ASSERT_EQ(CAPKM_SKIPPED, c_try_replay(g, s, b).result);
	c_is_tainted(g, to, 0);
}

/* Host memory of the inner graph: known, and alive as long as the outer one. */
TEST_F(bridge, inner_host_memory)
{
	G;
	uint64_t m = c_new(g, s, 1), a, b;
	struct host *h = new_host(5);

	c_record(g, s);
	OK(try_write(g, s, m, h, 0, true));
	a = c_end(g, s);
	c_record(g, s);
	c_replay(g, s, a);
	b = c_end(g, s);
	ASSERT_EQ(0, c_query(g, b).host_unchecked);
	c_destroy(g, a);
	usleep(10000);
	ASSERT_EQ(0, h->released);
	c_replay(g, s, b);
	c_is(g, s, m, 5);
	c_destroy(g, b);
	ASSERT_EQ(1, released(h));
	free(h);
}

CUDA_TEST_MAIN
