// SPDX-License-Identifier: GPL-2.0-only
/* Work under scopes: launches, copies, sets, host functions, and what is not wrapped. */
#include "bridge.h"

/* A launch reads and writes; its result is read back. */
TEST_F(bridge, launch)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), to = c_new(g, s, 0);

	c_add(g, s, to, a, b);
	c_is(g, s, to, 11);
	c_copy(g, s, to, a);
	c_is(g, s, to, 5);
}

/* C56: the driver refuses a launch: what it would have written is refused, then good again. */
TEST_F(bridge, refused_launch)
{
	G;
	uint64_t a = c_new(g, s, 5), to = c_new(g, s, 1);
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(to) };
	uint32_t words[WORDS], n = WORDS;
	void *params[] = { &to, &a, &n };
	struct capkm_report r;

	REFUSED(-EINVAL, capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch,
		.function = g->k.copy, .grid = { 1, 1, 1 }, .block = { 4096, 1, 1 },
		.params = params), WITH(struct capkm_cuda_work, .label = "too large",
		.reads = reads, .reads_len = 1, .writes = writes, .writes_len = 1), NULL,
		&err));
	ASSERT_EQ(1, err.code);
	SAYS("cuda_launch: cuLaunchKernel: ");
	r = c_is_tainted(g, to, CAPKM_KIND_DRIVER);
	ASSERT_EQ(1, r.code);
	ASSERT_STREQ("too large", (char *)r.label);
	HAS(r.text, "INVALID_VALUE");
	ASSERT_EQ(-ESTALE, c_try_read(g, s, to, words));
	SAYS("too large");
	c_is_clean(g, a);
	c_copy(g, s, to, a);
	c_is(g, s, to, 5);
}

/* T-120/hw: what reads tainted bytes is skipped; what it would have written names the root. */
TEST_F(bridge, skipped)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), to = c_new(g, s, 0);
	const struct capkm_report root = b_taint(g, a);
	struct c_result r;

	r = c_try_add(g, s, to, a, b);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(root.failure, c_is_tainted(g, to, 0).failure);
	c_is_clean(g, b);
	r = c_try_copy(g, t, b, to);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	ASSERT_EQ(root.failure, c_is_tainted(g, b, 0).failure);
	CU(cuCtxSynchronize());
	c_holds(to, 0);
	c_holds(b, 6);
}

/* More ranges than a call has room for without an allocation: the last counts, too. */
TEST_F(bridge, many_ranges)
{
	enum { MANY = 40 };
	G;
	uint64_t to = c_new(g, s, 0), in[MANY];
	struct capkm_cuda_range reads[MANY + 1];
	uint32_t n = WORDS;
	struct c_result r;
	void *params[] = { &to, &in[MANY - 1], &n };

	for (int i = 0; i < MANY; i++) {
		in[i] = c_new(g, s, i);
		reads[i] = (struct capkm_cuda_range)ALL(in[i]);
	}
	reads[MANY] = (struct capkm_cuda_range){ 0x1234, 4 };
	c_must(c_try_launch(g, s, g->k.copy, params, reads, MANY, RANGES(ALL(to))), "copy");
	c_is(g, s, to, MANY - 1);
	ASSERT_EQ(-ENOENT, c_try_launch(g, s, g->k.copy, params, reads, MANY + 1,
					RANGES(ALL(to))).rc);
	ASSERT_EQ(MANY, err.index);
	c_is(g, s, to, MANY - 1);
	b_taint(g, in[MANY - 1]);
	r = c_try_launch(g, s, g->k.copy, params, reads, MANY, RANGES(ALL(to)));
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_SKIPPED, r.result);
	c_is_tainted(g, to, 0);
}

/* Work that must run all the same, for its peers wait: it runs, and writes no good bytes. */
TEST_F(bridge, poisoned)
{
	G;
	uint64_t a = c_new(g, s, 5), to = c_new(g, s, 0);
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(to) };
	const struct capkm_report root = b_taint(g, a);
	uint32_t n = WORDS, result = 77;
	void *params[] = { &to, &a, &n };

	OK(capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch, .function = g->k.copy,
		.grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 }, .params = params),
		WITH(struct capkm_cuda_work, .reads = reads, .reads_len = 1, .writes = writes,
		     .writes_len = 1, .flags = CAPKM_SCOPE_ENTER_F_POISON), &result, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	c_sync(g, s);
	c_holds(to, 5);
	ASSERT_EQ(root.failure, c_is_tainted(g, to, 0).failure);
}

/* T-120/hw, C60, CW-33: a grid without blocks is no work: taints and heals nothing. */
TEST_F(bridge, empty_grid)
{
	G;
	uint64_t m = c_new(g, s, 5), w;
	const struct capkm_cuda_range writes[] = { ALL(m) };
	const struct capkm_report root = b_taint(g, m);
	uint32_t n = WORDS, result = 77;
	void *params[] = { &m, &n };

	for (int axis = 0; axis < 3; axis++) {
		struct capkm_cuda_launch l = CAPKM_OPTS(struct capkm_cuda_launch,
			.function = g->k.inc, .grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 },
			.params = params);

		l.grid[axis] = 0;
		OK(capkm_cuda_launch(g->b, s, &l, WITH(struct capkm_cuda_work,
			.writes = writes, .writes_len = 1), &result, &err));
		ASSERT_EQ(CAPKM_CLEAN, result);
		ASSERT_EQ(root.failure, c_is_tainted(g, m, 0).failure);
	}
	w = c_record(g, s);
	OK(capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch, .function = g->k.inc,
		.grid = { 0, 0, 0 }, .block = { WORDS, 1, 1 }, .params = params),
		WITH(struct capkm_cuda_work, .writes = writes, .writes_len = 1), &result,
		&err));
	ASSERT_EQ(0, b_window(g, w).out_launches);
	c_end(g, s);
}

/* T-119/hw: an address in no known buffer is refused before anything is touched. */
TEST_F(bridge, unknown_memory)
{
	G;
	uint64_t m = c_new(g, s, 5), unknown = 0;
	const struct capkm_cuda_range ranges[] = { ALL(m), { 0x1234, 4 } };
	uint32_t words[WORDS], n = WORDS;
	void *params[] = { &m, &n };
	struct capkm_cuda_launch l = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = g->k.inc, .grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 },
		.params = params);
	cu_address raw = 0;

	CU(cuMemAlloc(&raw, BYTES));
	unknown = raw;
	FAILS(-ENOENT, "0x1234", capkm_cuda_launch(g->b, s, &l, WITH(struct capkm_cuda_work,
		.reads = ranges, .reads_len = 2, .writes = ranges, .writes_len = 1), NULL,
		&err));
	ASSERT_EQ(1, err.index);
	REFUSED(-ENOENT, capkm_cuda_launch(g->b, s, &l, WITH(struct capkm_cuda_work,
		.reads = ranges, .reads_len = 1, .writes = ranges, .writes_len = 2), NULL,
		&err));
	ASSERT_EQ(2, err.index);
	ASSERT_EQ(-ENOENT, c_try_set(g, s, unknown, 1).rc);
	ASSERT_EQ(-ENOENT, c_try_copy(g, s, unknown, m).rc);
	ASSERT_EQ(-ENOENT, c_try_read(g, s, unknown, words));
	REFUSED(-ENOENT, capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy,
		.to = (uintptr_t)words, .from = unknown, .bytes = BYTES), NULL, &err));
	/* The end of a buffer is not the beginning of another. */
	FAILS(-ENOENT, "no known buffer", capkm_cuda_set(g->b, s, m, BYTES + 4096 * 4, 4, 1,
							 NULL, &err));
	c_is(g, s, m, 5);
	CU(cuMemFree(raw));
}

/* Copies in all directions. */
TEST_F(bridge, copies)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	uint32_t words[WORDS], result = 77;
	void *pinned = NULL;

	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = b, .from = a,
					 .bytes = BYTES / 2), &result, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = (uintptr_t)words,
					 .from = b, .bytes = BYTES), &result, &err));
	c_sync(g, s);
	ASSERT_EQ(5, words[0]);
	ASSERT_EQ(5, words[WORDS / 2 - 1]);
	ASSERT_EQ(6, words[WORDS / 2]);
	ASSERT_EQ(6, words[WORDS - 1]);
	CU(cuMemAllocHost(&pinned, BYTES));
	for (uint32_t i = 0; i < WORDS; i++)
		((uint32_t *)pinned)[i] = 8;
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = a,
		.from = (uintptr_t)pinned, .bytes = BYTES), &result, &err));
	c_is(g, s, a, 8);
	CU(cuMemFreeHost(pinned));
	/* No bytes. */
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = a, .from = b),
			   &result, &err));
	c_is(g, s, a, 8);
}

/* Into host memory only what can be trusted; from device to device it is skipped. */
TEST_F(bridge, copies_tainted)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	uint32_t words[WORDS], result = 77;
	const struct capkm_report root = b_taint(g, a);

	memset(words, 0xcc, sizeof(words));
	REFUSED(-ESTALE, capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy,
		.to = (uintptr_t)words, .from = a, .bytes = BYTES), NULL, &err));
	SAYS("it burns");
	ASSERT_EQ(root.failure, err.failure);
	ASSERT_EQ(-ESTALE, c_try_read(g, s, a, words));
	CU(cuCtxSynchronize());
	ASSERT_EQ(0xcccccccc, words[0]);
	OK(capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = b, .from = a,
					 .bytes = BYTES), &result, &err));
	ASSERT_EQ(CAPKM_SKIPPED, result);
	ASSERT_EQ(root.failure, c_is_tainted(g, b, 0).failure);
}

/* A copy that the driver refuses. */
TEST_F(bridge, copy_fails)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	struct capkm_report r;

	ONLY_STANDIN();
	standin.fail("cuMemcpyAsync", 1, 801);
	REFUSED(-EREMOTEIO, capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy, .to = b,
		.from = a, .bytes = BYTES, .label = "mine"), NULL, &err));
	r = c_is_tainted(g, b, CAPKM_KIND_DRIVER);
	ASSERT_STREQ("mine", (char *)r.label);
	ASSERT_EQ(801, r.code);
	c_is_clean(g, a);
}

/* Sets of 1, 2 and 4 bytes. */
TEST_F(bridge, sets)
{
	G;
	uint64_t m = c_new(g, s, 0);
	uint32_t words[WORDS];

	OK(capkm_cuda_set(g->b, s, m, 4, 1, 0x12, NULL, &err));
	OK(capkm_cuda_set(g->b, s, m + 4, 4, 2, 0x1234, NULL, &err));
	OK(capkm_cuda_set(g->b, s, m + 8, 4, 4, 0x12345678, NULL, &err));
	ASSERT_EQ(0, c_try_read(g, s, m, words));
	ASSERT_EQ(0x12121212, words[0]);
	ASSERT_EQ(0x12341234, words[1]);
	ASSERT_EQ(0x12345678, words[2]);
	ASSERT_EQ(0, words[3]);
	REFUSED(-EINVAL, capkm_cuda_set(g->b, s, m, 4, 3, 1, NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_set(g->b, s, m, 4, 0, 1, NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_set(g->b, s, m, 6, 4, 1, NULL, &err));
	REFUSED(-EINVAL, capkm_cuda_set(g->b, s, m + 1, 4, 2, 1, NULL, &err));
	/* A part of a buffer heals only itself. */
	b_taint(g, m);
	OK(capkm_cuda_set(g->b, s, m, BYTES / 2, 4, 3, NULL, &err));
	ASSERT_EQ(BYTES / 2, c_is_tainted(g, m, 0).start);
}

static void note_call(void *context)
{
	*(_Atomic int *)context = 1;
}

/* A host function in the order of the stream, under a scope. */
TEST_F(bridge, host_functions)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(b) };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.reads = reads, .reads_len = 1, .writes = writes, .writes_len = 1);
	_Atomic int called = 0;
	uint32_t result = 77;

	OK(capkm_cuda_host_function(g->b, s, note_call, (void *)&called, &work, &result,
				    &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	c_sync(g, s);
	ASSERT_EQ(1, called);
	called = 0;
	b_taint(g, a);
	OK(capkm_cuda_host_function(g->b, s, note_call, (void *)&called, &work, &result,
				    &err));
	ASSERT_EQ(CAPKM_SKIPPED, result);
	c_sync(g, s);
	ASSERT_EQ(0, called);
	c_is_tainted(g, b, 0);
	REFUSED(-EINVAL, capkm_cuda_host_function(g->b, s, NULL, NULL, &work, NULL, &err));
}

/* Work that the bridge does not wrap: in brackets, with what the driver said of it. */
TEST_F(bridge, brackets)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6);
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(b) };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = "library", .reads = reads, .reads_len = 1, .writes = writes,
		.writes_len = 1);
	uint32_t n = WORDS;
	void *params[] = { &b, &a, &n };
	struct capkm_scope scope;
	struct capkm_report r;

	OK(capkm_cuda_scope_begin(g->b, s, &work, &scope, NULL, &err));
	ASSERT_EQ(CAPKM_CLEAN, scope.result);
	CU(cuLaunchKernel(g->k.copy, 1, 1, 1, WORDS, 1, 1, 0, s, params, NULL));
	OK(capkm_cuda_scope_end(g->b, s, &scope, 0, &err));
	c_is(g, s, b, 5);
	/* T-121/hw: it could not be compiled: the outputs only are tainted. */
	OK(capkm_cuda_scope_begin(g->b, s, &work, &scope, NULL, &err));
	OK(capkm_cuda_scope_end(g->b, s, &scope, 218, &err));
	r = c_is_tainted(g, b, CAPKM_KIND_DRIVER);
	ASSERT_EQ(218, r.code);
	HAS(r.text, "the work: ");
	ASSERT_STREQ("library", (char *)r.label);
	c_is_clean(g, a);
	/* Skipped: nothing to end, and to end it is harmless. */
	b_taint(g, a);
	OK(capkm_cuda_scope_begin(g->b, s, &work, &scope, &r, &err));
	ASSERT_EQ(CAPKM_SKIPPED, scope.result);
	HAS(r.text, "it burns");
	OK(capkm_cuda_scope_end(g->b, s, &scope, 0, &err));
	ASSERT_EQ(0, b_slot(g, &self->on_s).out_scopes);
}

/* In a window they record what the driver records. */
TEST_F(bridge, brackets_in_a_window)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, s, 6), graph, w;
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(b) };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.reads = reads, .reads_len = 1, .writes = writes, .writes_len = 1);
	uint32_t n = WORDS;
	void *params[] = { &b, &a, &n };
	struct capkm_scope scope;

	w = c_record(g, s);
	OK(capkm_cuda_scope_begin(g->b, s, &work, &scope, NULL, &err));
	ASSERT_EQ(w, scope.window);
	CU(cuLaunchKernel(g->k.copy, 1, 1, 1, WORDS, 1, 1, 0, s, params, NULL));
	/* A begin or an end of the window with a scope open is refused, or dooms it. */
	OK(capkm_cuda_scope_end(g->b, s, &scope, 0, &err));
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).seen);
	c_replay(g, s, graph);
	c_is(g, s, b, 5);
}

/* A scope is open when the window is ended: what it will have written is not known. */
TEST_F(bridge, ended_in_brackets)
{
	G;
	uint64_t b = c_new(g, s, 6);
	const struct capkm_cuda_range writes[] = { ALL(b) };
	struct capkm_scope scope;

	c_record(g, s);
	OK(capkm_cuda_scope_begin(g->b, s, WITH(struct capkm_cuda_work, .writes = writes,
						.writes_len = 1), &scope, NULL, &err));
	c_end_refused(g, s);
	capkm_cuda_scope_end(g->b, s, &scope, 0, NULL);
	c_write(g, s, b, 6);
	b_usable(g, s, &self->on_s);
}

/* T-122/hw: another stream reads what failed: it is skipped, and names the producer. */
TEST_F(bridge, cross_stream_read)
{
	G;
	uint64_t a = c_new(g, s, 5), b = c_new(g, t, 6);
	const struct capkm_cuda_range writes[] = { ALL(a) };
	struct capkm_scope scope;
	uint32_t words[WORDS];

	OK(capkm_cuda_scope_begin(g->b, s, WITH(struct capkm_cuda_work, .label = "producer",
		.writes = writes, .writes_len = 1), &scope, NULL, &err));
	OK(capkm_cuda_scope_end(g->b, s, &scope, 218, &err));
	ASSERT_EQ(CAPKM_SKIPPED, c_try_copy(g, t, b, a).result);
	ASSERT_EQ(-ESTALE, c_try_read(g, t, b, words));
	SAYS("producer");
}

/*
 * C58: a round trip whose launches all fail has the right bytes by accident: it is
 * refused, and the first one is named.
 */
TEST_F(bridge, round_trip_fails)
{
	G;
	uint64_t m = c_new(g, s, 5);
	const struct capkm_cuda_range all[] = { ALL(m) };
	struct capkm_cuda_launch l = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = g->k.inc, .grid = { 1, 1, 1 }, .block = { 4096, 1, 1 });
	uint32_t words[WORDS], n = WORDS, result = 77;
	void *params[] = { &m, &n };

	l.params = params;
	REFUSED(-EINVAL, capkm_cuda_launch(g->b, s, &l, WITH(struct capkm_cuda_work,
		.label = "forward", .reads = all, .reads_len = 1, .writes = all,
		.writes_len = 1), &result, &err));
	OK(capkm_cuda_launch(g->b, s, &l, WITH(struct capkm_cuda_work, .label = "inverse",
		.reads = all, .reads_len = 1, .writes = all, .writes_len = 1), &result,
		&err));
	ASSERT_EQ(CAPKM_SKIPPED, result);
	c_holds(m, 5);
	ASSERT_EQ(-ESTALE, c_try_read(g, s, m, words));
	SAYS("forward");
}

/* C59: fresh memory carries no failure; the output of a launch without its code does. */
TEST_F(bridge, fresh_memory)
{
	G;
	uint64_t m = c_alloc(g);

	c_is_clean(g, m);
	ONLY_STANDIN();
	standin.fail("cuLaunchKernel", 1, 209);		/* NO_BINARY_FOR_GPU */
	ASSERT_EQ(-EREMOTEIO, c_try_launch(g, s, g->k.empty, NULL, NO_RANGES,
					   RANGES(ALL(m))).rc);
	ASSERT_EQ(209, c_is_tainted(g, m, CAPKM_KIND_DRIVER).code);
}

/* Bad input of a launch. */
TEST_F(bridge, bad_launches)
{
	G;
	uint64_t m = c_new(g, s, 5);
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work);

	FAILS(-EINVAL, "function is NULL", capkm_cuda_launch(g->b, s,
		WITH(struct capkm_cuda_launch, .grid = { 1, 1, 1 }, .block = { 1, 1, 1 }),
		&work, NULL, &err));
	c_is(g, s, m, 5);
}

/* What is to run now is not recorded: the window has no trace of it, and becomes a graph. */
TEST_F(bridge, now)
{
	G;
	uint64_t a = c_new(g, s, 5), to = c_new(g, s, 1), graph;
	const struct capkm_cuda_range reads[] = { ALL(a) }, writes[] = { ALL(to) };
	uint32_t n = WORDS, result = 0xcccccccc;
	void *params[] = { &to, &a, &n };
	const struct capkm_cuda_launch launch = CAPKM_OPTS(struct capkm_cuda_launch,
		.function = g->k.copy, .grid = { 1, 1, 1 }, .block = { WORDS, 1, 1 },
		.params = params, .flags = CAPKM_CUDA_LAUNCH_F_NOW);
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.reads = reads, .reads_len = 1, .writes = writes, .writes_len = 1);
	const struct capkm_cuda_copy copy = CAPKM_OPTS(struct capkm_cuda_copy,
		.to = to, .from = a, .bytes = BYTES, .flags = CAPKM_CUDA_COPY_F_NOW);

	OK(capkm_cuda_launch(g->b, s, &launch, &work, &result, &err));
	ASSERT_EQ(CAPKM_CLEAN, result);
	c_is(g, s, to, 5);
	c_set(g, s, to, 1);
	OK(capkm_cuda_copy(g->b, s, &copy, &result, &err));
	c_is(g, s, to, 5);
	c_set(g, s, to, 1);
	c_prepare(g, s);
	OK(capkm_cuda_launch(g->b, s, &launch, &work, &result, &err));
	c_is(g, s, to, 5);
	c_begin(g, s);
	c_inc(g, s, a);
	FAILS(-EBUSY, "is to run now", capkm_cuda_launch(g->b, s, &launch, &work, &result, &err));
	FAILS(-EBUSY, "is to run now", capkm_cuda_copy(g->b, s, &copy, &result, &err));
	OK(capkm_cuda_launch(g->b, t, &launch, &work, &result, &err));
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).nodes);
	NOTHING_BROKE();
	FAILS(-EINVAL, "flags 0x2", capkm_cuda_launch(g->b, s, WITH(struct capkm_cuda_launch,
		.function = g->k.copy, .flags = 2), &work, &result, &err));
	FAILS(-EINVAL, "flags 0x4", capkm_cuda_copy(g->b, s, WITH(struct capkm_cuda_copy,
		.to = to, .from = a, .flags = 4), &result, &err));
	c_destroy(g, graph);
}

/* Only the authority is asked. */
TEST_F(bridge, check)
{
	G;
	uint64_t a = c_new(g, s, 5);
	const struct capkm_cuda_range all = ALL(a), most = { a + 4, BYTES - 8 };
	struct capkm_report root;

	OK(capkm_cuda_check(g->b, &all, &err));
	root = b_taint(g, a);
	FAILS(-ESTALE, "it burns", capkm_cuda_check(g->b, &most, &err));
	BEGINS("cuda_check: ");
	ASSERT_EQ(root.failure, err.failure);
	c_set(g, s, a, 6);
	OK(capkm_cuda_check(g->b, &all, &err));
	REFUSED(-ENOENT, capkm_cuda_check(g->b,
		&(struct capkm_cuda_range){ a, 1ull << 40 }, &err));
	REFUSED(-ENOENT, capkm_cuda_check(g->b, &(struct capkm_cuda_range){ 4096, 8 }, &err));
}

/* What the driver says when a read's copy fails is what the caller hears. */
TEST_F(bridge, read_says_why)
{
	static const char *const calls[] = { "cuMemcpyAsync", "cuEventRecord", "cuEventSynchronize" };
	G;
	uint32_t words[WORDS];
	uint64_t a = c_new(g, s, 5);

	ONLY_STANDIN();
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
		standin.fail(calls[i], 1, 46);
		ASSERT_EQ(-EREMOTEIO, c_try_read(g, s, a, words));
		BEGINS("cuda_read: cu");
		SAYS(calls[i]);
		ASSERT_EQ(46, err.code);
	}
	c_is(g, s, a, 5);
}

CUDA_TEST_MAIN
