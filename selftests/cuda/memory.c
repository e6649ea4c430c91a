// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device memory: what is allocated, adopted, freed while a graph has it, shared with
 * other sessions, and handed out by a pool over CUDA memory.
 */
#include "bridge.h"

/* ------------------------------------------------------- allocate and free */

TEST_F(bridge, alloc_and_free)
{
	G;
	uint64_t a, b, m = 77;
	struct capkm_buffer_query q = { .size = sizeof(q) };

	OK(capkm_cuda_alloc(g->b, BYTES, "weights", 0, &a, &err));
	b = c_alloc(g);
	ASSERT_NE(c_claim(g, a).buffer, c_claim(g, b).buffer);
	q.buffer = c_claim(g, a).buffer;
	OK(capkm_buffer_query(g->c, &q, &err));
	ASSERT_STREQ("weights", (char *)q.out_label);
	ASSERT_EQ(a, q.out_address);
	ASSERT_EQ(BYTES, q.out_bytes);
	ASSERT_EQ(0, memcmp(q.out_device, self->on_s.device, 16));
	c_write(g, s, a, 5);
	c_write(g, s, b, 6);
	c_is(g, s, a, 5);
	c_free(g, a);
	ASSERT_EQ(1, b_domain(g).out_buffers);
	REFUSED(-ENOENT, capkm_cuda_free(g->b, a, &err));
	REFUSED(-ENOENT, capkm_cuda_free(g->b, b + 4, &err));
	REFUSED(-EINVAL, capkm_cuda_alloc(g->b, BYTES, NULL, 1u << 31, &m, &err));
	ASSERT_NE(0, capkm_cuda_alloc(g->b, 0, NULL, 0, &m, &err));
	ASSERT_EQ(77, m);
	c_is(g, s, b, 6);
}

/* More than there is: an error with the driver's name for it. */
TEST_F(bridge, out_of_memory)
{
	G;
	uint64_t m = 77;

	REFUSED(-ENOMEM, capkm_cuda_alloc(g->b, 1ull << 46, NULL, 0, &m, &err));
	ASSERT_EQ(2, err.code);
	SAYS("cuda_alloc: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY");
	ASSERT_EQ(77, m);
	ASSERT_EQ(0, b_domain(g).out_buffers);
	b_usable(g, s, &self->on_s);
}

/* C40, C51: what a graph writes is freed by its owner: it lives until the graph goes. */
TEST_F(bridge, output_is_freed)
{
	G;
	uint64_t from = c_new(g, s, 5), between = c_new(g, s, 0), to = c_new(g, s, 0), graph;
	uint64_t buffers;

	c_record(g, s);
	c_copy(g, s, between, from);
	c_copy(g, s, to, between);
	graph = c_end(g, s);
	buffers = b_domain(g).out_buffers;
	c_free(g, between);
	ASSERT_EQ(buffers, b_domain(g).out_buffers);
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	c_destroy(g, graph);
	ASSERT_EQ(buffers - 1, b_domain(g).out_buffers);
	c_is(g, s, to, 5);
}

/*
 * C47: an input is freed by its owner, who has new memory for its successor: a replay would read
 * what nobody renews. It is refused, and what it writes keeps what it was.
 */
TEST_F(bridge, input_is_freed)
{
	G;
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 1), graph;

	graph = b_graph_copy(g, s, to, from);
	c_replay(g, s, graph);
	c_free(g, from);
	from = c_new(g, s, 6);
	ASSERT_EQ(-ESTALE, c_try_replay(g, s, graph).rc);
	SAYS("input freed");
	c_is(g, s, to, 5);
	c_destroy(g, graph);
	graph = b_graph_copy(g, s, to, from);
	c_replay(g, s, graph);
	c_is(g, s, to, 6);
}

/* What an update makes an input was freed before: that other inputs were there is no answer. */
TEST_F(bridge, input_of_an_update_is_freed)
{
	G;
	uint64_t from = c_new(g, s, 1), to = c_new(g, s, 2), other = c_new(g, s, 0);
	uint64_t x = c_new(g, t, 3), graph = b_graph_copy(g, s, from, to);

	c_free(g, other);
	c_record(g, t);
	c_copy(g, t, from, x);
	c_free(g, x);
	c_replay(g, s, graph);
	OK(capkm_cuda_graph_update(g->b, t, graph, NULL, &err));
	ASSERT_EQ(-ESTALE, c_try_replay(g, s, graph).rc);
	SAYS("input freed");
}

/* CW-38: freed while the window records: it is freed when nothing refers to it. */
TEST_F(bridge, freed_in_the_window)
{
	G;
	uint64_t from = c_new(g, s, 5), between = c_new(g, s, 0), to = c_new(g, s, 0);
	uint64_t unused = c_new(g, s, 1), graph, w, calls = 0;

	w = c_record(g, s);
	c_copy(g, s, between, from);
	c_copy(g, s, to, between);
	if (is_standin)
		calls = standin.calls("cuMemFree");
	c_free(g, between);
	if (is_standin)
		ASSERT_EQ(calls, standin.calls("cuMemFree"));
	c_free(g, unused);
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	graph = c_end(g, s);
	NOTHING_BROKE();
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
}

/* C51: memory that was allocated while the window recorded is not the graph's. */
TEST_F(bridge, outlives_the_window)
{
	G;
	uint64_t m;

	c_record(g, s);
	m = c_alloc(g);
	c_end_refused(g, s);
	c_write(g, s, m, 4);
	c_is(g, s, m, 4);
	c_free(g, m);
}

/* ------------------------------------------------------------------ adopt */

TEST_F(bridge, adopted)
{
	G;
	cu_address m = 0;
	uint64_t before = b_domain(g).out_buffers, again = c_alloc(g);

	CU(cuMemAlloc(&m, BYTES));
	OK(capkm_cuda_adopt(g->b, m + 8, 0, "theirs", 0, &err));
	c_write(g, s, m, 5);
	c_is(g, s, m, 5);
	/* Once, and not what is ours. */
	REFUSED(-EEXIST, capkm_cuda_adopt(g->b, m, 0, NULL, 0, &err));
	REFUSED(-EEXIST, capkm_cuda_adopt(g->b, m + 8, 8, NULL, 0, &err));
	REFUSED(-EEXIST, capkm_cuda_adopt(g->b, again, 0, NULL, 0, &err));
	ASSERT_EQ(before + 2, b_domain(g).out_buffers);
	FAILS(-EINVAL, "cuda_forget()", capkm_cuda_free(g->b, m, &err));
	FAILS(-EINVAL, "cuda_free()", capkm_cuda_forget(g->b, again, &err));
	REFUSED(-EINVAL, capkm_cuda_ipc_close(g->b, m, &err));
	REFUSED(-EINVAL, capkm_cuda_adopt(g->b, m, 0, NULL, 1u << 31, &err));
	OK(capkm_cuda_forget(g->b, m, &err));
	REFUSED(-ENOENT, capkm_cuda_forget(g->b, m, &err));
	ASSERT_EQ(-ENOENT, c_try_set(g, s, m, 1).rc);
	ASSERT_EQ(before + 1, b_domain(g).out_buffers);
	c_holds(m, 5);
	CU(cuMemFree(m));
}

/* A part of an allocation; the rest of it is nobody's. */
TEST_F(bridge, adopted_in_part)
{
	G;
	cu_address m = 0;

	CU(cuMemAlloc(&m, 4 * BYTES));
	OK(capkm_cuda_adopt(g->b, m + BYTES, BYTES, NULL, 0, &err));
	c_write(g, s, m + BYTES, 5);
	c_is(g, s, m + BYTES, 5);
	ASSERT_EQ(-ENOENT, c_try_set(g, s, m, 1).rc);
	ASSERT_EQ(-ENOENT, c_try_set(g, s, m + 2 * BYTES, 1).rc);
	ASSERT_EQ(0, c_claim(g, m + BYTES).start);
	/* What overlaps is refused as a whole. */
	REFUSED(-EEXIST, capkm_cuda_adopt(g->b, m, 0, NULL, 0, &err));
	ASSERT_EQ(-ENOENT, c_try_set(g, s, m, 1).rc);
	OK(capkm_cuda_forget(g->b, m + BYTES, &err));
	CU(cuMemFree(m));
}

/* Bad input: no memory of the device; more than there is. */
TEST_F(bridge, adopt_wrongly)
{
	G;
	uint64_t buffers = b_domain(g).out_buffers;
	uint32_t words[4];
	cu_address m = 0;

	CU(cuMemAlloc(&m, BYTES));
	REFUSED(-EINVAL, capkm_cuda_adopt(g->b, (uintptr_t)words, 0, NULL, 0, &err));
	REFUSED(-EINVAL, capkm_cuda_adopt(g->b, 0, 0, NULL, 0, &err));
	REFUSED(-EINVAL, capkm_cuda_adopt(g->b, m, UINT64_MAX, NULL, 0, &err));
	ASSERT_EQ(buffers, b_domain(g).out_buffers);
	CU(cuMemFree(m));
}

/* Its owner frees it although a graph has it, and gets it again: that is other memory. */
TEST_F(bridge, adopted_again)
{
	G;
	uint64_t to = c_new(g, s, 1), graph, first;
	cu_address m = 0;

	CU(cuMemAlloc(&m, BYTES));
	OK(capkm_cuda_adopt(g->b, m, 0, NULL, 0, &err));
	c_write(g, s, m, 5);
	first = c_claim(g, m).buffer;
	graph = b_graph_copy(g, s, to, m);
	OK(capkm_cuda_forget(g->b, m, &err));
	/* As if it was freed and allocated again. */
	OK(capkm_cuda_adopt(g->b, m, 0, NULL, 0, &err));
	ASSERT_NE(first, c_claim(g, m).buffer);
	ASSERT_EQ(-ESTALE, c_try_replay(g, s, graph).rc);
	SAYS("input freed");
	c_is(g, s, to, 1);
	c_destroy(g, graph);
	OK(capkm_cuda_forget(g->b, m, &err));
	CU(cuMemFree(m));
}

TEST_F(bridge, adopted_chunks)
{
	G;
	struct chunks c;
	struct capkm_cuda_range range;
	struct capkm_claim claims[3];
	uint64_t middle;
	uint32_t n = 3;

	if (!map_chunks(g, &c, false))
		SKIP(return, "no virtual memory management");
	OK(capkm_cuda_adopt(g->b, c.at, 2 * c.bytes, NULL, 0, &err));
	middle = c.at + c.bytes - BYTES / 2;
	range = (struct capkm_cuda_range){ middle, BYTES };
	OK(capkm_cuda_claims(g->b, &range, claims, &n, &err));
	ASSERT_EQ(2, n);
	ASSERT_EQ(c.bytes - BYTES / 2, claims[0].start);
	ASSERT_EQ(c.bytes, claims[0].end);
	ASSERT_EQ(0, claims[1].start);
	ASSERT_EQ(BYTES / 2, claims[1].end);
	ASSERT_NE(claims[0].buffer, claims[1].buffer);
	n = 1;
	REFUSED(-EMSGSIZE, capkm_cuda_claims(g->b, &range, claims, &n, &err));
	ASSERT_EQ(2, n);
	/* Work on both at once. */
	c_set(g, s, middle, 5);
	c_inc(g, s, middle);
	c_is(g, s, middle, 6);
	OK(capkm_taint(g->c, &claims[1], 1, 0, NULL, NULL, &err));
	ASSERT_EQ(CAPKM_SKIPPED, c_try_inc(g, s, middle).result);
	OK(capkm_cuda_forget(g->b, c.at, &err));
	OK(capkm_cuda_forget(g->b, c.at + c.bytes, &err));
	CU(cuCtxSynchronize());
	unmap_chunks(&c);
}

/* Claims of nothing, and of too much. */
TEST_F(bridge, claims)
{
	G;
	uint64_t m = c_alloc(g);
	struct capkm_cuda_range range = { m, 0 };
	struct capkm_claim claim;
	uint32_t n = 1;

	OK(capkm_cuda_claims(g->b, &range, &claim, &n, &err));
	ASSERT_EQ(0, n);
	n = 1;
	range.bytes = UINT64_MAX;
	REFUSED(-EINVAL, capkm_cuda_claims(g->b, &range, &claim, &n, &err));
	range.bytes = BYTES + 1;
	REFUSED(-ENOENT, capkm_cuda_claims(g->b, &range, &claim, &n, &err));
	range = (struct capkm_cuda_range){ m + 8, 4 };
	n = 1;
	OK(capkm_cuda_claims(g->b, &range, &claim, &n, &err));
	ASSERT_EQ(8, claim.start);
	ASSERT_EQ(12, claim.end);
}

/* ------------------------------------------------------------------- share */

/*
 * Another session of the domain opens the memory and checks before it reads: what the
 * producer taints there, it sees. CUDA opens a handle only in another process, so here
 * only the authority's side, and what is refused.
 */
TEST_F(bridge, exported)
{
	G;
	uint64_t m = b_shared(g, s, 5), address = 77;
	struct capkm_cuda_ipc ipc = { 0 }, bad;
	struct gpu other = *g;
	struct capkm_report r;
	struct capkm_claim claim;
	int fd = 77;

	OK(capkm_cuda_ipc_export(g->b, m + 8, &ipc, &fd, &err));
	ASSERT_EQ(CAPKM_CUDA_IPC_LEGACY, ipc.kind);
	ASSERT_EQ(-1, fd);
	ASSERT_EQ(c_claim(g, m).buffer, ipc.buffer);
	ASSERT_EQ(BYTES, ipc.bytes);
	ASSERT_EQ(capkm_domain_id(g->c), ipc.domain);
	ASSERT_EQ(0, memcmp(ipc.device, self->on_s.device, 16));
	REFUSED(-ENOENT, capkm_cuda_ipc_export(g->b, 4096, &ipc, &fd, &err));
	other.cl = c_client(capkm_domain_id(g->c));
	other.c = other.cl->c;
	OK(capkm_cuda_open(other.c, NULL, &other.b, &err));
	bad = ipc;
	bad.size--;
	REFUSED(-EINVAL, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.kind = 9;
	REFUSED(-EINVAL, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.kind = CAPKM_CUDA_IPC_FD;
	FAILS(-EINVAL, "descriptor", capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.bytes = 1ull << 60;
	REFUSED(-EINVAL, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.domain += 1000;
	REFUSED(-EXDEV, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.device[3] ^= 1;
	REFUSED(-ENODEV, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	bad = ipc;
	bad.buffer += 1000;
	REFUSED(-ENOENT, capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	/* What a peer sends must not look like a fault. */
	bad = ipc;
	memset(bad.handle, 0x5a, sizeof(bad.handle));
	FAILS(-EINVAL, "cuIpcOpenMemHandle",
	      capkm_cuda_ipc_open(other.b, &bad, -1, &address, &err));
	ASSERT_EQ(0, b_domain(g).out_faulted);
	ASSERT_EQ(77, address);
	/* What the producer's work does to it, the other session hears. */
	OK(capkm_buffer_open(other.c, ipc.buffer, NULL, &err));
	c_bad(g, s, m);
	REFUSED(-EREMOTEIO, capkm_cuda_stream_sync(g->b, s, &err));
	claim = (struct capkm_claim){ ipc.buffer, 0, BYTES };
	memset(&r, 0, sizeof(r));
	{
		struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
						   .reports_len = 1);

		OK(capkm_check(other.c, &claim, 1, &a, &err));
		ASSERT_EQ(CAPKM_TAINTED, a.out_result);
		ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, r.kind);
		ASSERT_EQ(700, r.code);
		HAS(r.text, "ILLEGAL_ADDRESS");
	}
	OK(capkm_buffer_close(other.c, ipc.buffer, &err));
	capkm_cuda_close(other.b);
	t_close(other.cl);
}

/* Whatever the driver says of what a peer has sent, a lost context is one, CU_UNKNOWN is not. */
TEST_F(bridge, peers_send_nonsense)
{
	G;
	uint64_t m = b_shared(g, s, 5), there = 77;
	struct capkm_cuda_event_ipc of_event = { 0 };
	struct capkm_cuda_ipc ipc = { 0 };
	struct gpu other = *g;
	cu_event e = c_shared_event(), opened = NULL;
	int fd;

	ONLY_STANDIN();
	OK(capkm_cuda_ipc_export(g->b, m, &ipc, &fd, &err));
	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &of_event, &err));
	other.cl = c_client(capkm_domain_id(g->c));
	other.c = other.cl->c;
	OK(capkm_cuda_open(other.c, NULL, &other.b, &err));
	standin.fail("cuIpcOpenMemHandle", 1, CU_UNKNOWN);
	FAILS(-EINVAL, "the handle is not", capkm_cuda_ipc_open(other.b, &ipc, -1, &there, &err));
	ASSERT_EQ(CU_UNKNOWN, err.code);
	standin.fail("cuIpcOpenEventHandle", 1, CU_UNKNOWN);
	FAILS(-EINVAL, "the handle is not",
	      capkm_cuda_event_open(other.b, &of_event, &opened, &err));
	ASSERT_EQ(0, b_domain(g).out_faulted);
	standin.fail("cuIpcOpenEventHandle", 1, 719);
	FAILS(-EREMOTEIO, "LAUNCH_FAILED",
	      capkm_cuda_event_open(other.b, &of_event, &opened, &err));
	ASSERT_EQ(1, b_domain(g).out_faulted);
	ASSERT_EQ(77, there);
	capkm_cuda_close(other.b);
	t_close(other.cl);
	c_free(g, m);
}

/* C72: what CUDA cannot share is refused with the reason. */
TEST_F(bridge, cannot_be_shared)
{
	G;
	cu_address m = 0;
	struct capkm_cuda_ipc ipc;
	struct chunks c;
	int fd = -1;

	CU(cuMemAllocAsync(&m, BYTES, s));
	c_sync(g, s);
	OK(capkm_cuda_adopt(g->b, m, 0, NULL, 0, &err));
	FAILS(-EOPNOTSUPP, "stream-ordered", capkm_cuda_ipc_export(g->b, m, &ipc, &fd, &err));
	OK(capkm_cuda_forget(g->b, m, &err));
	CU(cuMemFreeAsync(m, s));
	if (!map_chunks(g, &c, false))
		return;
	OK(capkm_cuda_adopt(g->b, c.at, c.bytes, NULL, 0, &err));
	FAILS(-EOPNOTSUPP, "POSIX file descriptor",
	      capkm_cuda_ipc_export(g->b, c.at, &ipc, &fd, &err));
	OK(capkm_cuda_forget(g->b, c.at, &err));
	unmap_chunks(&c);
}

/* Memory that is shared by a descriptor: the same bytes, in a part of a chunk too. */
TEST_F(bridge, shared_by_descriptor)
{
	G;
	struct gpu other = *g;
	struct capkm_cuda_ipc ipc = { 0 };
	struct chunks c;
	uint64_t part, there = 0;
	cu_stream u = NULL;
	int fd = -1;

	if (!map_chunks(g, &c, true))
		SKIP(return, "no virtual memory management");
	part = c.at + c.bytes + 4096;
	OK(capkm_cuda_adopt(g->b, part, 2 * BYTES, NULL, CAPKM_CUDA_MEMORY_F_EXPORT, &err));
	c_write(g, s, part, 5);
	OK(capkm_cuda_ipc_export(g->b, part, &ipc, &fd, &err));
	ASSERT_EQ(CAPKM_CUDA_IPC_FD, ipc.kind);
	ASSERT_LE(0, fd);
	ASSERT_EQ(4096, ipc.offset);
	ASSERT_EQ(2 * BYTES, ipc.bytes);
	other.cl = c_client(capkm_domain_id(g->c));
	other.c = other.cl->c;
	OK(capkm_cuda_open(other.c, NULL, &other.b, &err));
	CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	c_bind(&other, u);
	/* A wrong descriptor is the caller's mistake: no context is lost by it. */
	FAILS(-EINVAL, "the descriptor is not",
	      capkm_cuda_ipc_open(other.b, &ipc, 12345, &there, &err));
	ASSERT_EQ(CU_UNKNOWN, err.code);
	ASSERT_EQ(0, b_domain(g).out_faulted);
	OK(capkm_cuda_ipc_open(other.b, &ipc, fd, &there, &err));
	close(fd);
	ASSERT_EQ(ipc.buffer, c_claim(&other, there).buffer);
	c_is(&other, u, there, 5);
	c_inc(&other, u, there);
	c_sync(&other, u);
	c_is(g, s, part, 6);
	FAILS(-EINVAL, "cuda_ipc_close()", capkm_cuda_free(other.b, there, &err));
	OK(capkm_cuda_ipc_close(other.b, there, &err));
	REFUSED(-ENOENT, capkm_cuda_ipc_close(other.b, there, &err));
	capkm_cuda_close(other.b);
	t_close(other.cl);
	OK(capkm_cuda_forget(g->b, part, &err));
	unmap_chunks(&c);
}

/* -------------------------------------------------------------------- pool */

/* Work on a pool's memory: the bridge knows its pages. */
TEST_F(bridge, pool)
{
	G;
	struct pool p = new_pool(g);
	uint64_t memory, at;

	memory = slice(&p, BYTES, &at);
	c_write(g, s, at, 5);
	c_inc(g, s, at);
	c_is(g, s, at, 6);
	REFUSED(-EINVAL, capkm_cuda_free(g->b, at, &err));
	OK(capkm_pool_free(p.pool, memory, &err));
	delete_pool(g, &p);
	ASSERT_EQ(-ENOENT, c_try_set(g, s, at, 1).rc);
}

/*
 * C53: the warm-up leaves slices for what the window will ask for: it does not grow, and is not
 * doomed. What it touched is the graph's: freed, it is not handed out to somebody else (C44).
 */
TEST_F(bridge, pool_is_primed)
{
	G;
	struct pool p = new_pool(g);
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), at, later, memory, w, graph;

	w = c_prepare(g, s);
	memory = slice(&p, BYTES, &at);
	c_copy(g, s, at, from);
	c_copy(g, s, to, at);
	OK(capkm_pool_free(p.pool, memory, &err));
	c_begin(g, s);
	memory = slice(&p, BYTES, &at);
	c_copy(g, s, at, from);
	c_copy(g, s, to, at);
	OK(capkm_pool_free(p.pool, memory, &err));
	ASSERT_EQ(0, b_window(g, w).out_doomed);
	graph = c_end(g, s);
	REFUSED(-EBUSY, capkm_cuda_set_pool(g->b, NULL, NULL, &err));
	/* Canaries of the same size lie somewhere else. */
	for (int i = 0; i < 4; i++) {
		slice(&p, BYTES, &later);
		ASSERT_NE(at, later);
		c_write(g, s, later, 99);
	}
	c_write(g, s, from, 6);
	c_replay(g, s, graph);
	c_is(g, s, to, 6);
	c_is(g, s, later, 99);
	c_destroy(g, graph);
	NOTHING_BROKE();
	delete_pool(g, &p);
}

/* C53, T-101/hw: the pool has to grow inside of the window: it is doomed, not the replays. */
TEST_F(bridge, pool_grows_inside)
{
	G;
	struct pool p = new_pool(g);
	uint64_t from = c_new(g, s, 5), at, w;

	w = c_record(g, s);
	slice(&p, 12345 * 4, &at);
	c_copy(g, s, at, from);
	ASSERT_EQ(1, b_window(g, w).out_doomed);
	c_end_refused(g, s);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
	delete_pool(g, &p);
}

/* GR-14, GR-7: however a window ends without a graph, the pool is disarmed. */
TEST_F(bridge, pool_is_disarmed)
{
	G;
	struct pool p = new_pool(g);
	struct capkm_pool_stats stats = CAPKM_OPTS(struct capkm_pool_stats);
	uint64_t w;

	for (int i = 0; i < 6; i++) {
		if (i == 4 && !is_standin)
			continue;
		w = c_prepare(g, s);
		OK(capkm_pool_query(p.pool, 0, &stats, &err));
		ASSERT_EQ(1, stats.capture);
		if (i && i != 4) {
			c_begin(g, s);
			OK(capkm_pool_query(p.pool, 0, &stats, &err));
			ASSERT_EQ(2, stats.capture);
		}
		if (i == 0) {
			c_end_fails(g, s, -EINVAL);
		} else if (i == 1) {
			c_abort(g, s);
		} else if (i == 2) {
			OK(capkm_window_fail(g->c, w, 0, NULL, NULL, &err));
			c_end_refused(g, s);
		} else if (i == 3) {
			OK(capkm_window_abandon(g->c, w, &err));
			c_end_fails(g, s, -ESTALE);
		} else if (i == 4) {
			standin.fail("cuStreamBeginCapture", 1, 801);
			REFUSED(-EREMOTEIO, capkm_cuda_graph_begin(g->b, s, &err));
		} else {
			CU_IS(900, cuCtxSynchronize());
			c_end_fails(g, s, -EBUSY);
		}
		OK(capkm_pool_query(p.pool, 0, &stats, &err));
		ASSERT_EQ(0, stats.capture) {
			TH_LOG("end %d", i);
		}
	}
	b_usable(g, s, &self->on_s);
	delete_pool(g, &p);
}

/* C45: the pool was reset: its graphs must not be replayed, and taint nothing by that. */
TEST_F(bridge, pool_is_reset)
{
	G;
	struct pool p = new_pool(g);
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 1), graph, second;

	graph = b_graph_copy(g, s, to, from);
	c_replay(g, s, graph);
	OK(capkm_pool_reset(p.pool, &err));
	ASSERT_EQ(-ESTALE, c_try_replay(g, s, graph).rc);
	SAYS("pool was reset");
	c_is(g, s, to, 5);
	second = b_graph_copy(g, s, to, from);
	c_replay(g, s, second);
	c_destroy(g, graph);
	c_destroy(g, second);
	delete_pool(g, &p);
}

/*
 * A graph that is a node of another one has slices of the pool: they stay as long as the outer
 * graph, also when the inner one goes.
 */
TEST_F(bridge, inner_graph_keeps_slices)
{
	G;
	struct pool p = new_pool(g);
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), at, later, memory, inner, outer;

	c_prepare(g, s);
	memory = slice(&p, BYTES, &at);
	OK(capkm_pool_free(p.pool, memory, &err));
	c_begin(g, s);
	memory = slice(&p, BYTES, &at);
	c_copy(g, s, at, from);
	c_copy(g, s, to, at);
	OK(capkm_pool_free(p.pool, memory, &err));
	inner = c_end(g, s);
	c_record(g, s);
	c_replay(g, s, inner);
	outer = c_end(g, s);
	c_destroy(g, inner);
	for (int i = 0; i < 4; i++) {
		slice(&p, BYTES, &later);
		ASSERT_NE(at, later);
		c_write(g, s, later, 99);
	}
	c_replay(g, s, outer);
	c_is(g, s, to, 5);
	c_is(g, s, later, 99);
	c_destroy(g, outer);
	delete_pool(g, &p);
}

/* Nothing that a window has recorded is given back while it is open (C50, CW-38). */
TEST_F(bridge, cleanup_in_a_window)
{
	G;
	struct pool p = new_pool(g);
	uint64_t from = c_new(g, s, 5), to = c_new(g, s, 0), at, memory, graph, calls = 0;

	c_prepare(g, s);
	memory = slice(&p, BYTES, &at);
	OK(capkm_pool_free(p.pool, memory, &err));
	c_begin(g, s);
	memory = slice(&p, BYTES, &at);
	c_copy(g, s, at, from);
	c_copy(g, s, to, at);
	OK(capkm_pool_free(p.pool, memory, &err));
	if (is_standin)
		calls = standin.calls("cuMemFree");
	OK(capkm_pool_cleanup(p.pool, 0, &err));
	if (is_standin)
		ASSERT_EQ(calls, standin.calls("cuMemFree"));
	graph = c_end(g, s);
	OK(capkm_pool_cleanup(p.pool, 0, &err));
	c_replay(g, s, graph);
	c_is(g, s, to, 5);
	c_destroy(g, graph);
	delete_pool(g, &p);
	NOTHING_BROKE();
}

/* T-118/hw: of several buffers the one that never received memory is refused, and only it. */
TEST_F(bridge, t118_hw_never_allocated)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), none = 0;
	struct capkm_claim claims[3] = { c_claim(g, a), { .end = BYTES }, c_claim(g, b) };
	struct capkm_report r[3];
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer, .reports = r,
						.reports_len = 3);
	uint32_t words[WORDS];

	OK(capkm_buffer_create(g->c, BYTES, WITH(struct capkm_buffer_opts,
		.flags = CAPKM_BUFFER_CREATE_F_UNALLOCATED), &none, &err));
	claims[1].buffer = none;
	OK(capkm_check(g->c, claims, 3, &answer, &err));
	ASSERT_EQ(CAPKM_TAINTED, answer.out_result);
	ASSERT_EQ(1, answer.out_reports);
	ASSERT_EQ(CAPKM_KIND_UNALLOCATED, r[0].kind);
	ASSERT_EQ(none, r[0].buffer);
	REFUSED(-ESTALE, capkm_read(g->c, &claims[1], words, (void *)(uintptr_t)a, NULL, &err));
	SAYS("never allocated");
	c_is(g, s, a, 5);
	c_is(g, s, b, 6);
	OK(capkm_buffer_close(g->c, none, &err));
}

CUDA_TEST_MAIN
