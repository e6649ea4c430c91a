// SPDX-License-Identifier: GPL-2.0-only
/* Observations of tensors on the device: what they give, cost and leave alone. */
#include "observe_test.h"

FIXTURE_VARIANT_ADD(observe, kernels) { .kernels = plain_kernels };
FIXTURE_VARIANT_ADD(observe, source) { .kernels = source_kernels };
FIXTURE_VARIANT_ADD(observe, copies) { .flags = CAPKM_OBSERVE_CUDA_F_COPIES };

#define SHAPE(...) ARRAY_SIZE(((uint64_t[]){ __VA_ARGS__ })), (uint64_t[]){ __VA_ARGS__ }

/* A thread of a kernel is no thread here, but it takes its time. */
#define FEWER(skip) (variant->kernels == source_kernels && (skip))

/* Copies are thousands of calls, which may each go to another machine. */
#define QUICK_CALLS() do {						\
	if (variant->flags && !t_embedded())				\
		SKIP(return, "takes too long where each call goes to another machine"); \
} while (0)

/* ER-9, ER-22: slices of tensors of any rank and dtype; only what is selected is moved. */
TEST_F(observe, slices)
{
	O;
	struct tensor x;
	struct look l;

	for (int round = 0; round < 120; round++) {
		const uint32_t dtype = dtypes[round % 6], rank = o_below(6);
		uint64_t shape[6], start, end;

		for (uint32_t i = 0; i < rank; i++)
			shape[i] = 1 + o_below(rank > 3 ? 6 : 30);
		T_AT, o_tensor_at_(g, &x, s, dtype, rank, shape, 3, round % 3);
		o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
		for (uint32_t i = 0; i < rank; i++) {
			start = o_below(shape[i] + 1);
			end = start + o_below(shape[i] - start + 1);
			if (o_below(3))
				o_slice(&l, i, start, end, 1 + o_below(4));
		}
		o_values(o, &x, &l);
		if (!l.g.elements)
			ASSERT_EQ(l.before.observations, l.after.observations);
		o_whole(&l, &x, CAPKM_TRANSFORM_PREVIEW);
		l.selection.transform.max_elements = o_below(40);
		if (rank > 1)
			o_slice(&l, rank - 1, 0, shape[rank - 1], 1 + o_below(2));
		o_values(o, &x, &l);
		T_AT, c_free_(g, x.t.address - round % 3 * o_bytes(dtype));
		free(x.host);
	}
}

/* A tensor without slices, and what lies side by side, is read where it is. */
TEST_F(observe, side_by_side)
{
	O;
	struct tensor x;
	struct look l;

	for (int i = 0; i < 6; i++) {
		o_tensor(g, &x, s, dtypes[i], SHAPE(5, 1, 7, 11), 3);
		o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
		o_values(o, &x, &l);
		ASSERT_EQ(0, l.usage.retained_bytes);
		o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
		o_slice(&l, 0, 1, 4, 1);
		o_values(o, &x, &l);
		ASSERT_EQ(0, l.usage.retained_bytes);
		o_slice(&l, 3, 2, 10, 1);
		l.selection.transform.kind = CAPKM_TRANSFORM_PREVIEW;
		l.selection.transform.max_elements = 8;
		o_values(o, &x, &l);
		ASSERT_EQ(0, l.usage.retained_bytes);
		ASSERT_EQ(0, l.after.launches);
		l.selection.transform.max_elements = 9;
		o_values(o, &x, &l);
		ASSERT_EQ(9 * o_bytes(dtypes[i]), l.usage.retained_bytes);
		o_forget(g, &x);
		ASSERT_EQ(l.after.launches || variant->flags ? 1 : 0, 1);
		capkm_observe_cuda_destroy(self->o);
		self->o = o = o_create(g, 0, variant->flags);
	}
}

/* No rank, the largest rank, axes of 1, and nothing at all. */
TEST_F(observe, ranks)
{
	O;
	uint64_t shape[MAX_AXES];
	struct tensor x;
	struct look l;

	for (int i = 0; i < 6; i++) {
		o_tensor(g, &x, s, dtypes[i], 0, NULL, 2);
		x.t.shape = NULL;
		o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
		o_values(o, &x, &l);
		o_forget(g, &x);
		for (int a = 0; a < (int)MAX_AXES; a++)
			shape[a] = a % 4 ? 1 : 3;
		o_tensor(g, &x, s, dtypes[i], MAX_AXES, shape, 2);
		o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
		for (uint32_t a = 0; a < MAX_AXES; a += 4)
			o_slice(&l, a, a / 4 % 2, 3, 1 + a / 4 % 2);
		o_values(o, &x, &l);
		o_forget(g, &x);
		shape[7] = 0;
		o_tensor(g, &x, s, dtypes[i], MAX_AXES, shape, 2);
		o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
		o_values(o, &x, &l);
		o_forget(g, &x);
	}
}

/* Slices that are larger than the staging memory, in pieces that fit. */
TEST_F(observe, pieces)
{
	O;
	struct tensor x;
	struct look l;
	const uint64_t n = variant->flags ? 3000 : 50000;

	QUICK_CALLS();
	for (int i = 0; i < 6; i++) {
		capkm_observe_cuda_destroy(self->o);
		self->o = o = o_create(g, 64 << 10, variant->flags);
		o_tensor(g, &x, s, dtypes[i], SHAPE(n, 5), 3);
		o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
		o_slice(&l, 1, 1, 5, 2);
		o_values(o, &x, &l);
		ASSERT_LE(l.usage.retained_bytes, 64 << 10);
		if (!variant->flags)
			ASSERT_EQ((2 * n * o_bytes(dtypes[i]) + 65535) / 65536,
				  l.after.launches);
		o_forget(g, &x);
	}
}

/* ER-22: summaries, of all dtypes, with what is not finite, zeros of both signs, slices. */
TEST_F(observe, summary)
{
	O;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	for (int i = 0; i < 6 * 7; i++) {
		static const uint64_t sizes[] = { 1, 2, 255, 256, 257, 3000, 20000 };
		const uint32_t dtype = dtypes[i % 6];

		if (FEWER(i % 4))
			continue;
		o_tensor(g, &x, s, dtype, SHAPE(sizes[i / 6]), i % 5);
		o_whole(&l, &x, CAPKM_TRANSFORM_SUMMARY);
		o_summary(o, &x, &l);
		o_slice(&l, 0, sizes[i / 6] / 3, sizes[i / 6], 3);
		o_summary(o, &x, &l);
		o_slice(&l, 0, 0, 0, 1);
		o_summary(o, &x, &l);
		ASSERT_EQ(0, l.usage.retained_bytes);
		ASSERT_EQ(l.before.launches, l.after.launches);
		o_forget(g, &x);
	}
}

/* Only NaN, only infinities; the first zero tells the sign; sums that would overflow f32. */
TEST_F(observe, summary_special)
{
	static const uint32_t values[][4] = {
		{ 0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff },
		{ 0x7f800000, 0xff800000, 0x7f800000, 0x7fc00000 },
		{ 0x80000000, 0, 0x80000000, 0 }, { 0, 0x80000000, 0, 0x80000000 },
		{ 0x3f800000, 0x80000000, 0, 0x40000000 },
		{ 0xbf800000, 0, 0x80000000, 0xc0000000 },
		{ 0x7f7fffff, 0x7f7fffff, 0x7f7fffff, 0x7f7fffff },
		{ 1, 0x80000001, 2, 0x807fffff },
	};
	O;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(4), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_SUMMARY);
	for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
		memcpy(x.host, values[i], 16);
		o_upload(g, &x);
		o_summary(o, &x, &l);
	}
	o_forget(g, &x);
}

/* The same values give the same sums, to the bit; whatever the staging memory. */
TEST_F(observe, summary_is_the_same)
{
	O;
	struct capkm_observe_summary first;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(100, FEWER(true) ? 50 : 1000), 0);
	for (int i = 0; i < 4; i++) {
		o_whole(&l, &x, CAPKM_TRANSFORM_SUMMARY);
		T_AT, o_look_(o, &x, &l);
		if (!i)
			first = l.payload.summary;
		ASSERT_EQ(0, memcmp(&first, &l.payload.summary, sizeof(first)));
		capkm_observe_cuda_destroy(self->o);
		self->o = o = o_create(g, (i + 1) * 72 << 10, 0);
	}
	o_forget(g, &x);
}

/* Histograms are exact: on edges, beside them, with one bin and with as many as there may be. */
TEST_F(observe, histogram)
{
	static const float few[] = { -1, 1 }, some[] = { -2, -1, -0x1p-149f, 0, 0.5, 1, 16777216 };
	O;
	struct tensor x;
	struct look l;
	float *many;

	NEEDS_KERNELS();
	many = malloc(4097 * sizeof(*many));
	for (int i = 0; i < 4097; i++)
		many[i] = (i - 2048) / 64.0f;
	for (int i = 0; i < 6; i++) {
		o_tensor(g, &x, s, dtypes[i], SHAPE(61, 50), 3);
		o_whole(&l, &x, CAPKM_TRANSFORM_HISTOGRAM);
		o_histogram(o, &x, &l, few, ARRAY_SIZE(few));
		o_histogram(o, &x, &l, some, ARRAY_SIZE(some));
		o_histogram(o, &x, &l, many, 4097);
		o_slice(&l, 1, 3, 50, 4);
		o_histogram(o, &x, &l, some, ARRAY_SIZE(some));
		o_slice(&l, 0, 5, 5, 1);
		o_histogram(o, &x, &l, some, ARRAY_SIZE(some));
		ASSERT_EQ(l.before.launches, l.after.launches);
		o_forget(g, &x);
	}
	free(many);
}

/* The best of the last row: with ties, NaN, infinities, zeros of both signs. */
TEST_F(observe, candidates)
{
	static const uint32_t counts[] = { 1, 2, 7, 64, 300, 1000 };
	O;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	for (int i = 0; i < 6; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(counts); k++) {
			if (FEWER((int)k % 3 != i % 3))
				continue;
			o_tensor(g, &x, s, dtypes[i], SHAPE(1, 3, counts[k] + k * 100),
				 1 + k % 3);
			o_whole(&l, &x, CAPKM_TRANSFORM_TOP_CANDIDATES);
			o_candidates(o, &x, &l, counts[k]);
			ASSERT_EQ(l.usage.retained_bytes, counts[k] * 8);
			o_candidates(o, &x, &l, 1);
			o_forget(g, &x);
		}
		o_tensor(g, &x, s, dtypes[i], SHAPE(0, 10), 0);
		o_whole(&l, &x, CAPKM_TRANSFORM_TOP_CANDIDATES);
		o_candidates(o, &x, &l, 3);
		ASSERT_EQ(0, l.after.observations - l.before.observations);
		o_forget(g, &x);
	}
}

/* Fewer than asked for, where the rest is NaN; and none. */
TEST_F(observe, candidates_are_few)
{
	O;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	o_tensor(g, &x, s, CAPKM_DTYPE_F16, SHAPE(2, 70), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_TOP_CANDIDATES);
	for (int good = 3; good >= 0; good--) {
		for (int i = 0; i < 70; i++)
			memcpy(x.host + (70 + i) * 2, &(uint16_t){ i % 30 < good && i < 30 ?
				0x3c00 : 0xfe01 }, 2);
		o_upload(g, &x);
		o_candidates(o, &x, &l, 70);
		o_candidates(o, &x, &l, 2);
	}
	o_forget(g, &x);
}

/* A whole vocabulary, and more candidates than the staging memory has room for. */
TEST_F(observe, candidates_are_many)
{
	O;
	const uint64_t n = is_standin ? 9000 : 152064;
	struct tensor x;
	struct look l;

	NEEDS_KERNELS();
	capkm_observe_cuda_destroy(self->o);
	self->o = o = o_create(g, 64 << 10, 0);
	o_tensor(g, &x, s, CAPKM_DTYPE_BF16, SHAPE(n), 50);
	o_whole(&l, &x, CAPKM_TRANSFORM_TOP_CANDIDATES);
	o_candidates(o, &x, &l, 8192);
	o_candidates(o, &x, &l, 100);
	l.selection.transform.count = 8193;
	ASSERT_EQ(-EOPNOTSUPP, o_try(o, &x, &l));
	HAS(l.why, "8193 candidates do not fit into 65536 bytes");
	o_forget(g, &x);
}

/* Without kernels there are no reductions, and the capabilities say why. */
TEST_F(observe, capabilities)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	struct capkm_observe_capabilities c = { 0 };

	b->capabilities(b->context, &c);
	ASSERT_EQ(variant->flags ? 3 : 6, c.transformations_len);
	ASSERT_EQ(variant->flags ? 0 : 4096, c.max_histogram_bins);
	ASSERT_EQ(variant->flags ? 1 : 0, c.conditions_len);
	ASSERT_EQ(!variant->flags, o_query(o).kernels);
	for (uint32_t i = 0; i < c.transformations_len; i++)
		ASSERT_EQ(i, c.transformations[i]);
	if (variant->flags)
		HAS(c.conditions[0], "without kernels, for they are not wanted");
}

/* Kernels are loaded when the backend is made, never by an observation. */
TEST_F(observe, loaded_ahead)
{
	O;
	uint64_t loaded, functions;
	struct tensor x;
	struct look l;

	ONLY_STANDIN();
	NEEDS_KERNELS();
	loaded = standin.calls("cuFuncLoad");
	functions = standin.calls("cuModuleGetFunction");
	ASSERT_NE(0, loaded);
	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(4, 9), 3);
	for (uint32_t kind = CAPKM_TRANSFORM_FULL_TENSOR; kind <= CAPKM_TRANSFORM_SUMMARY; kind++) {
		o_whole(&l, &x, kind);
		ASSERT_EQ(0, o_try(o, &x, &l));
		o_done(&l);
	}
	ASSERT_EQ(loaded, standin.calls("cuFuncLoad"));
	ASSERT_EQ(functions, standin.calls("cuModuleGetFunction"));
	o_forget(g, &x);
}

/* The driver cannot load them: JIT is off, the PTX too new, a kernel missing; memory is not. */
TEST_F(observe, module_is_not_loaded)
{
	static const int fall_back[] = { 200, 209, 218, 221, 222, 223, 500, 801 };
	O;
	struct capkm_observe_cuda *p = NULL;
	const struct capkm_observe_backend *b;
	struct capkm_observe_capabilities c;
	struct tensor x;
	struct look l;

	ONLY_STANDIN();
	NEEDS_KERNELS();
	o_tensor(g, &x, s, CAPKM_DTYPE_F16, SHAPE(4, 9), 3);
	for (size_t i = 0; i < 3 * ARRAY_SIZE(fall_back); i++) {
		static const char *const calls[] = {
			"cuModuleLoadData", "cuModuleGetFunction", "cuFuncLoad",
		};

		standin.fail(calls[i % 3], i % 3 ? 4 : 1, fall_back[i / 3]);
		OK(capkm_observe_cuda_create(g->b, NULL, &p, &err));
		ASSERT_EQ(0, o_query(p).kernels);
		b = capkm_observe_cuda_backend(p);
		b->capabilities(b->context, &c);
		ASSERT_EQ(3, c.transformations_len);
		HAS(c.conditions[0], "the driver cannot load them: ");
		o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
		o_slice(&l, 1, 0, 9, 2);
		o_values(p, &x, &l);
		ASSERT_EQ(0, l.after.launches);
		ASSERT_EQ(4 * 5 * 2, l.after.moved_bytes);
		capkm_observe_cuda_destroy(p);
	}
	p = NULL;
	standin.fail("cuModuleLoadData", 1, 2);
	REFUSED(-ENOMEM, capkm_observe_cuda_create(g->b, NULL, &p, &err));
	standin.fail("cuMemAlloc", 1, 2);
	REFUSED(-ENOMEM, capkm_observe_cuda_create(g->b, NULL, &p, &err));
	standin.fail("cuModuleLoadData", 1, 3);
	REFUSED(-EREMOTEIO, capkm_observe_cuda_create(g->b, NULL, &p, &err));
	ASSERT_EQ(3, err.code);
	standin.fail("cuCtxGetCurrent", 1, 3);
	REFUSED(-EREMOTEIO, capkm_observe_cuda_create(g->b, NULL, &p, &err));
	ASSERT_EQ(NULL, p);
	o_forget(g, &x);
}

/* Options that make no sense. */
TEST_F(observe, options)
{
	O;
	struct capkm_observe_cuda *p = NULL;
	struct { struct capkm_observe_cuda_opts o; uint64_t more; } large = {
		.o.sz = sizeof(large), .more = 1,
	};

	FAILS(-EINVAL, "flags 0x6", capkm_observe_cuda_create(g->b,
		WITH(struct capkm_observe_cuda_opts, .flags = 6), &p, &err));
	FAILS(-EINVAL, "staging_bytes 65535", capkm_observe_cuda_create(g->b,
		WITH(struct capkm_observe_cuda_opts, .staging_bytes = 65535), &p, &err));
	FAILS(-EINVAL, "staging_bytes 65540", capkm_observe_cuda_create(g->b,
		WITH(struct capkm_observe_cuda_opts, .staging_bytes = 65540), &p, &err));
	FAILS(-EINVAL, "staging_bytes", capkm_observe_cuda_create(g->b,
		WITH(struct capkm_observe_cuda_opts, .staging_bytes = 1ull << 40), &p, &err));
	FAILS(-E2BIG, "sets members", capkm_observe_cuda_create(g->b, &large.o, &p, &err));
	FAILS(-ENODEV, "no CUDA driver", capkm_observe_cuda_create(g->b,
		WITH(struct capkm_observe_cuda_opts, .library = "/nonexistent"), &p, &err));
	CU(cuCtxSetCurrent(NULL));
	FAILS(-EINVAL, "no current context", capkm_observe_cuda_create(g->b, NULL, &p, &err));
	CU(cuCtxSetCurrent(g->context));
	ASSERT_EQ(NULL, p);
	capkm_observe_cuda_destroy(NULL);
}

/* What the driver was asked so far, that may disturb a capture or is work. */
static uint64_t o_disturbances(void)
{
	static const char *const calls[] = {
		"cuLaunchKernel", "cuMemcpyAsync", "cuMemsetD8Async", "cuMemAlloc", "cuMemFree",
		"cuModuleLoadData", "cuModuleUnload", "cuStreamSynchronize", "cuStreamQuery",
		"cuCtxSynchronize", "cuEventRecord", "cuEventQuery", "cuEventSynchronize",
		"cuEventCreate",
	};
	uint64_t n = 0;

	for (size_t i = 0; is_standin && i < ARRAY_SIZE(calls); i++)
		n += standin.calls(calls[i]);
	return n;
}

/* C13: while its stream records a tensor is not looked at, and the window is none the worse. */
TEST_F(observe, recording)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	struct tensor x;
	struct look l;
	uint64_t m = c_new(g, s, 5), calls, graph;

	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(40), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 0, 40, 3);
	c_prepare(g, s);
	o_values(o, &x, &l);
	c_begin(g, s);
	c_inc(g, s, m);
	calls = o_disturbances();
	l.before = o_query(o);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(-EBUSY, o_try(o, &x, &l));
		HAS(l.why, "records on slot 0");
		/* A capture that began after the question. */
		o_room(&l);
		ASSERT_EQ(-EBUSY, b->transform(b->context, &x.t, &l.g, &l.payload, l.why,
					       sizeof(l.why)));
		HAS(l.why, variant->flags ? "cuda_copy: " : "cuda_launch: ");
		o_done(&l);
		l.selection.transform.kind = i ? CAPKM_TRANSFORM_FULL_TENSOR :
						 CAPKM_TRANSFORM_PREVIEW;
		l.selection.transform.max_elements = 14;
	}
	ASSERT_EQ(calls, o_disturbances());
	l.after = o_query(o);
	ASSERT_EQ(l.before.launches, l.after.launches);
	ASSERT_EQ(l.before.copied_bytes, l.after.copied_bytes);
	ASSERT_EQ(l.before.moved_bytes, l.after.moved_bytes);
	NOTHING_BROKE();
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).nodes);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 0, 40, 3);
	o_values(o, &x, &l);
	c_destroy(g, graph);
	c_free(g, m);
	o_forget(g, &x);
}

/* C13: a capture that somebody else has begun, a stream that has joined one, a body's parent. */
TEST_F(observe, recording_otherwise)
{
	O;
	struct tensor x, y;
	struct look l;
	uint64_t m = c_new(g, s, 5), graph;
	cu_graph raw = NULL;
	cu_event e = c_event();

	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(40), 0);
	o_tensor(g, &y, t, CAPKM_DTYPE_F32, SHAPE(40), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
	CU(cuStreamBeginCapture(s, CU_MODE_GLOBAL));
	ASSERT_EQ(-EBUSY, o_try(o, &x, &l));
	HAS(l.why, "captures, without a window");
	o_values(o, &y, &l);
	CU(cuStreamEndCapture(s, &raw));
	CU(cuGraphDestroy(raw));

	c_record(g, s);
	c_event_record(g, e, s);
	o_values(o, &y, &l);
	c_wait(g, t, e);
	ASSERT_EQ(-EBUSY, o_try(o, &y, &l));
	HAS(l.why, "records on slot 1");
	c_inc(g, t, m);
	c_event_record(g, e, t);
	c_wait(g, s, e);
	graph = c_end(g, s);
	ASSERT_EQ(1, c_query(g, graph).kernels);
	NOTHING_BROKE();
	o_values(o, &x, &l);
	o_values(o, &y, &l);
	c_destroy(g, graph);
	CU(cuEventDestroy(e));
	capkm_cuda_event_forget(g->b, e);
	c_free(g, m);
	o_forget(g, &x);
	o_forget(g, &y);
}

/* A window of the slot that is none of the bridge's records, too. */
TEST_F(observe, recording_without_the_bridge)
{
	O;
	struct tensor x;
	struct look l;
	uint64_t w = 0;

	o_tensor(g, &x, s, CAPKM_DTYPE_I64, SHAPE(9), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
	OK(capkm_window_prepare(g->c, &self->on_s, NULL, &w, &err));
	o_values(o, &x, &l);
	for (uint32_t flags = 0; flags < 2; flags++) {
		OK(capkm_window_begin(g->c, &self->on_s, flags, NULL, &err));
		ASSERT_EQ(-EBUSY, o_try(o, &x, &l));
		HAS(l.why, "records on slot 0");
	}
	OK(capkm_window_abort(g->c, &self->on_s, w, NULL, &err));
	o_values(o, &x, &l);
	o_forget(g, &x);
}

/* The default streams; the legacy one while a blocking stream of its context captures. */
TEST_F(observe, default_streams)
{
	O;
	cu_stream blocking = NULL;
	struct tensor x;
	struct look l;
	uint64_t m, graph;

	CU(cuStreamCreate(&blocking, 0));
	c_bind(g, blocking);
	c_bind(g, NULL);
	c_bind(g, CU_STREAM_IS_PER_THREAD);
	m = c_new(g, s, 1);
	o_tensor(g, &x, NULL, CAPKM_DTYPE_U64, SHAPE(30), 3);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 1, 30, 5);
	o_values(o, &x, &l);
	x.t.stream = CU_STREAM_IS_PER_THREAD;
	o_values(o, &x, &l);
	x.t.stream = CU_STREAM_IS_LEGACY;
	o_values(o, &x, &l);
	c_record(g, blocking);
	c_inc(g, blocking, m);
	ASSERT_EQ(-EBUSY, o_try(o, &x, &l));
	graph = c_end(g, blocking);
	NOTHING_BROKE();
	o_values(o, &x, &l);
	/* No context of the thread's is needed, nor changed. */
	CU(cuCtxSetCurrent(NULL));
	x.t.stream = s;
	o_values(o, &x, &l);
	CU(cuCtxSetCurrent(g->context));
	c_destroy(g, graph);
	c_free(g, m);
	o_forget(g, &x);
}

/* ER-22: tainted bytes are not observed, by whatever question; the root failure is named. */
TEST_F(observe, tainted)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	struct tensor x;
	struct look l;
	uint64_t m = c_alloc(g);
	struct capkm_observe_cuda_query before;

	x = (struct tensor){ .elements = WORDS };
	x.shape[0] = WORDS;
	x.t = (struct capkm_observe_cuda_tensor)CAPKM_OPTS(struct capkm_observe_cuda_tensor,
		.dtype = CAPKM_DTYPE_F32, .rank = 1, .shape = x.shape, .address = m,
		.stream = s);
	c_set(g, s, m, 0x3f800000);
	c_sync(g, s);
	b_taint(g, m);
	before = o_query(o);
	for (uint32_t kind = 0; kind < (variant->flags ? 3 : 6); kind++) {
		o_whole(&l, &x, kind);
		l.selection.transform.max_elements = 5;
		l.selection.transform.count = 2;
		l.selection.transform.edges = (float[]){ 0, 1, 2 };
		l.selection.transform.edges_len = 3;
		o_slice(&l, 0, 0, WORDS, 1 + kind % 2);
		ASSERT_EQ(-ESTALE, o_try(o, &x, &l));
		HAS(l.why, "it burns");
		o_room(&l);
		ASSERT_EQ(-ESTALE, b->transform(b->context, &x.t, &l.g, &l.payload, l.why,
						sizeof(l.why)));
		HAS(l.why, "it burns");
		o_done(&l);
	}
	ASSERT_EQ(before.launches, o_query(o).launches);
	ASSERT_EQ(before.copied_bytes, o_query(o).copied_bytes);
	/* Written anew it can be observed, and nothing of that is left in the staging memory. */
	c_set(g, s, m, 0x40000000);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 0, WORDS, 2);
	T_AT, o_look_(o, &x, &l);
	for (uint32_t i = 0; i < WORDS / 2; i++)
		ASSERT_EQ(2.0f, l.payload.values.f32[i]);
	o_done(&l);
	c_free(g, m);
}

/* Kernels during which the tensor becomes tainted. */
static struct {
	struct gpu *g;
	uint64_t address;
} o_burns;

static int burning_gather(void **params)
{
	const struct capkm_claim claim = c_claim_(o_burns.g, o_burns.address);
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);

	capkm_taint(o_burns.g->c, &claim, 1, 0,
		    WITH(struct capkm_cause, .text = "it burns meanwhile"), NULL, &e);
	return plain_gather(params);
}

/* ER-22: tainted between the check and the end of the copy: not observed either. */
TEST_F(observe, tainted_meanwhile)
{
	static const struct standin_kernel burning[] = {
		{ "capkm_gather", burning_gather, { sizeof(struct view), 8, 8, 4, 8 } },
		OBSERVE_TABLE(plain),
	};
	O;
	struct tensor x = { .elements = WORDS };
	struct look l;

	ONLY_STANDIN();
	NEEDS_KERNELS();
	capkm_observe_cuda_destroy(self->o);
	standin.kernels(burning);
	self->o = o = o_create(g, 0, 0);
	x.shape[0] = WORDS;
	x.t = (struct capkm_observe_cuda_tensor)CAPKM_OPTS(struct capkm_observe_cuda_tensor,
		.dtype = CAPKM_DTYPE_F32, .rank = 1, .shape = x.shape,
		.address = c_new(g, s, 0x3f800000), .stream = s);
	o_burns.g = g;
	o_burns.address = x.t.address;
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 0, WORDS, 2);
	ASSERT_EQ(-ESTALE, o_try(o, &x, &l));
	HAS(l.why, "it burns meanwhile");
	o_done(&l);
	c_free(g, x.t.address);
}

/* What the caller gets wrong; the device is not asked for any of it. */
TEST_F(observe, not_a_tensor)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	uint64_t shape[MAX_AXES + 1] = { 0 }, rank_shape[MAX_AXES];
	struct capkm_observe_cuda_tensor bad;
	struct { struct capkm_observe_cuda_tensor t; uint64_t more; } large;
	cu_stream unbound = NULL;
	uint32_t rank, dtype;
	struct tensor x;
	struct look l;
	char why[100];

#define BAD(rc, part, ...) do {						\
	bad = x.t;							\
	__VA_ARGS__;							\
	ASSERT_EQ(rc, b->ready(b->context, &bad, why, sizeof(why)));	\
	HAS(why, part);							\
} while (0)
	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(4, 10), 0);
	CU(cuStreamCreate(&unbound, 0));
	BAD(-EINVAL, "dtype is 0", bad.dtype = 0);
	BAD(-EINVAL, "dtype is 7", bad.dtype = 7);
	BAD(-EINVAL, "shape is NULL", bad.shape = NULL);
	BAD(-EOPNOTSUPP, "33 axes", bad.rank = 33; bad.shape = shape);
	BAD(-EINVAL, "no multiple of 4", bad.address += 2);
	BAD(-EINVAL, "is not bound", bad.stream = unbound);
	BAD(-EINVAL, "cuda_alloc() or cuda_adopt()", bad.address = 1 << 20);
	BAD(-EINVAL, "cuda_alloc() or cuda_adopt()", bad.shape = (uint64_t[]){ 4, 11 });
	BAD(-EOVERFLOW, "more bytes", bad.shape = (uint64_t[]){ 1ull << 62, 1 });
	BAD(-EOVERFLOW, "more bytes", bad.shape = (uint64_t[]){ 1ull << 32, 1ull << 32 });
	BAD(-EOVERFLOW, "more bytes", bad.rank = 3;
	    bad.shape = (uint64_t[]){ 0, UINT64_MAX, 2 });
	BAD(-EOVERFLOW, "more bytes", bad.address = -64ull);
	BAD(-EINVAL, "sz is 3", bad.sz = 3);
	BAD(-EINVAL, "dtype is 0", bad.sz = 8);
	large.t = x.t;
	large.t.sz = sizeof(large);
	large.more = 1;
	ASSERT_EQ(-E2BIG, b->describe(b->context, &large.t, rank_shape, &rank, &dtype, why,
				      sizeof(why)));
	large.more = 0;
	ASSERT_EQ(0, b->describe(b->context, &large.t, rank_shape, &rank, &dtype, why,
				 sizeof(why)));
	ASSERT_EQ(2, rank);
	ASSERT_EQ(10, rank_shape[1]);
	/* Not the one that was measured. */
	o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
	l.g.selection = &l.selection;
	o_room(&l);
	bad = x.t;
	bad.shape = (uint64_t[]){ 10, 4 };
	ASSERT_EQ(-EINVAL, b->transform(b->context, &bad, &l.g, &l.payload, why, sizeof(why)));
	HAS(why, "another shape or dtype");
	bad = x.t;
	bad.dtype = CAPKM_DTYPE_BOOL;
	ASSERT_EQ(-EINVAL, b->transform(b->context, &bad, &l.g, &l.payload, why, sizeof(why)));
	l.payload.values.len--;
	ASSERT_EQ(-EOVERFLOW, b->transform(b->context, &x.t, &l.g, &l.payload, why,
					   sizeof(why)));
	l.payload.values.len++;
	/* Little room for words, or none. */
	bad.dtype = 0;
	ASSERT_EQ(-EINVAL, b->ready(b->context, &bad, NULL, 0));
	ASSERT_EQ(-EINVAL, b->ready(b->context, &bad, why, 5));
	ASSERT_STREQ("a te", why);
	ASSERT_EQ(0, o_query(o).observations);
	o_done(&l);
	o_forget(g, &x);
#undef BAD
}

/* A stream of another context is not the backend's; of a context of its own there is another. */
TEST_F(observe, two_contexts)
{
	O;
	struct capkm_observe_cuda *p;
	struct tensor x, y;
	struct look l;
	cu_context other = NULL;
	cu_stream there = NULL;

	CU(cuCtxCreate(&other, 0, g->device));
	CU(cuStreamCreate(&there, CU_STREAM_NON_BLOCKING));
	c_bind(g, there);
	p = o_create(g, 0, variant->flags);
	o_tensor(g, &y, there, CAPKM_DTYPE_F16, SHAPE(6, 7), 3);
	CU(cuCtxSetCurrent(g->context));
	o_tensor(g, &x, s, CAPKM_DTYPE_F16, SHAPE(6, 7), 3);
	o_whole(&l, &y, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 1, 0, 7, 2);
	ASSERT_EQ(-EINVAL, o_try(o, &y, &l));
	HAS(l.why, "of another context");
	o_values(p, &y, &l);
	o_values(o, &x, &l);
	ASSERT_EQ(-EINVAL, o_try(p, &x, &l));
	capkm_observe_cuda_destroy(p);
	CU(cuCtxSetCurrent(other));
	o_forget(g, &y);
	OK(capkm_cuda_stream_unbind(g->b, there, &err));
	CU(cuStreamDestroy(there));
	CU(cuCtxSetCurrent(g->context));
	CU(cuCtxDestroy(other));
	o_forget(g, &x);
}

/* A stream that is unbound, or is another one now. */
TEST_F(observe, stream_is_gone)
{
	O;
	struct tensor x;
	struct look l;
	cu_stream gone = b_stream(g);

	o_tensor(g, &x, gone, CAPKM_DTYPE_F32, SHAPE(8), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
	o_values(o, &x, &l);
	OK(capkm_cuda_stream_unbind(g->b, gone, &err));
	CU(cuStreamDestroy(gone));
	ASSERT_EQ(-EINVAL, o_try(o, &x, &l));
	HAS(l.why, "is not bound");
	x.t.stream = s;
	o_values(o, &x, &l);
	o_forget(g, &x);
}

/* Any call of the driver fails once: it is an error with its name, and then all is well. */
TEST_F(observe, driver_fails)
{
	static const char *const calls[] = {
		"cuLaunchKernel", "cuMemcpyAsync", "cuEventRecord", "cuEventCreate",
		"cuEventSynchronize", "cuCtxPushCurrent",
		"cuStreamGetCaptureInfo",
	};
	O;
	struct tensor x;
	struct look l;
	char part[30];
	int rc;

	ONLY_STANDIN();
	if (variant->kernels == source_kernels)
		SKIP(return, "it fails as it does with the other kernels");
	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(40, 3), 3);
	for (uint32_t kind = 1; kind < (variant->flags ? 2 : 6); kind++) {
		o_whole(&l, &x, kind);
		if (kind == CAPKM_TRANSFORM_FULL_TENSOR)
			continue;
		l.selection.transform.count = 3;
		l.selection.transform.edges = (float[]){ 0, 1, 2 };
		l.selection.transform.edges_len = 3;
		if (kind != CAPKM_TRANSFORM_TOP_CANDIDATES)
			o_slice(&l, 1, 0, 3, 2);
		for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
			for (int n = 1, code = 1; n < 12; n++, code = n % 2 ? 1 : 46) {
				standin.fail(calls[i], n, code);
				rc = o_try(o, &x, &l);
				o_done(&l);
				standin.fail(calls[i], 0, 0);
				if (rc) {
					ASSERT_EQ(-EREMOTEIO, rc);
					snprintf(part, sizeof(part), "(%d)", code);
					HAS(l.why, part);
					HAS(l.why, calls[i]);
				}
				T_AT, o_look_(o, &x, &l);
				o_done(&l);
			}
		}
	}
	ASSERT_EQ(0, b_domain(g).out_faulted);
	b_usable(g, s, &self->on_s);
	o_forget(g, &x);
}

/* The context is lost by the work before: the device's error, by name; the authority knows. */
TEST_F(observe, context_is_lost)
{
	O;
	struct tensor x;
	struct look l;
	int rc;

	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(WORDS), 0);
	c_bad(g, s, x.t.address);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 0, WORDS, 3);
	rc = o_try(o, &x, &l);
	ASSERT_TRUE(rc == -EREMOTEIO || rc == -ESTALE);
	HAS(l.why, "ILLEGAL_ADDRESS");
	o_done(&l);
	ASSERT_EQ(1, b_domain(g).out_faulted);
	/* From now on the bytes say why. */
	rc = o_try(o, &x, &l);
	ASSERT_NE(0, rc);
	HAS(l.why, "ILLEGAL_ADDRESS");
	o_done(&l);
	free(x.host);
	capkm_observe_cuda_destroy(self->o);
	self->o = NULL;
}

/* What failed before it was waited for has gone with its stream; the next one waits for it. */
TEST_F(observe, unsettled)
{
	O;
	struct tensor x, y;
	struct look l;
	cu_stream gone = b_stream(g);

	ONLY_STANDIN();
	o_tensor(g, &x, gone, CAPKM_DTYPE_F32, SHAPE(50, 2), 3);
	o_tensor(g, &y, s, CAPKM_DTYPE_F32, SHAPE(50, 2), 3);
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 1, 0, 1, 1);
	standin.fail("cuEventSynchronize", 1, 46);
	ASSERT_EQ(-EREMOTEIO, o_try(o, &x, &l));
	o_done(&l);
	OK(capkm_cuda_stream_unbind(g->b, gone, &err));
	c_record(g, t);
	/* Waiting for all of the context would break that. */
	ASSERT_EQ(-EBUSY, o_try(o, &y, &l));
	o_done(&l);
	c_abort(g, t);
	NOTHING_BROKE();
	o_values(o, &y, &l);
	CU(cuStreamDestroy(gone));
	o_forget(g, &x);
	o_forget(g, &y);
}

/* Two threads, with streams of their own, at once. */
struct observer {
	struct gpu *g;
	struct capkm_observe_cuda *o;
	struct tensor *x;
	uint32_t kinds;
};

static void *o_observe_on(void *arg)
{
	struct observer *w = arg;
	struct look l;

	for (int i = 0; i < 30; i++) {
		o_whole(&l, w->x, CAPKM_TRANSFORM_SLICE);
		o_slice(&l, 1, 0, w->x->shape[1], 1 + i % 3);
		o_look_(w->o, w->x, &l);
		o_same_values_(&l, w->x);
		o_done(&l);
		if (w->kinds == 6) {
			o_whole(&l, w->x, CAPKM_TRANSFORM_TOP_CANDIDATES);
			l.selection.transform.count = 2;
			o_look_(w->o, w->x, &l);
			o_done(&l);
		}
	}
	return NULL;
}

TEST_F(observe, two_threads)
{
	O;
	struct tensor x, y;
	const uint32_t kinds = variant->flags || FEWER(true) ? 3 : 6;
	struct observer a = { g, o, &x, kinds }, b = { g, o, &y, kinds };
	pthread_t thread;

	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(9, 10), 3);
	o_tensor(g, &y, t, CAPKM_DTYPE_BF16, SHAPE(8, 20), 3);
	ASSERT_EQ(0, pthread_create(&thread, NULL, o_observe_on, &a));
	o_observe_on(&b);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	o_forget(g, &x);
	o_forget(g, &y);
}

/* C13: a thread that captures on the stream all the time; what is observed is right. */
struct recorder {
	struct gpu *g;
	cu_stream s;
	uint64_t memory;
	_Atomic bool stop;
	int graphs, refused;
};

static void *o_record_on(void *arg)
{
	struct recorder *r = arg;
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	uint64_t w, graph;

	CU_DO(cuCtxSetCurrent(r->g->context));
	while (!r->stop) {
		if (capkm_cuda_graph_prepare(r->g->b, r->s, NULL, &w, &e))
			t_die("graph_prepare: %s", e.text);
		if (capkm_cuda_graph_begin(r->g->b, r->s, &e)) {
			r->refused++;
			capkm_cuda_graph_abort(r->g->b, r->s, &e);
			continue;
		}
		c_inc_(r->g, r->s, r->memory);
		if (capkm_cuda_graph_end(r->g->b, r->s, &graph, NULL, &e))
			t_die("graph_end: %s", e.text);
		if (c_query_(r->g, graph).nodes != 1)
			t_die("an observation was recorded");
		c_destroy_(r->g, graph);
		/* Now and then long enough for an observation, of which one must go well. */
		usleep(r->graphs++ % 8 ? 100 : 20000);
	}
	return NULL;
}

TEST_F(observe, recorder_beside)
{
	O;
	struct recorder r = { .g = g, .s = s };
	struct tensor x;
	struct look l;
	pthread_t thread;
	int rc, busy = 0, good = 0;

	QUICK_CALLS();
	r.memory = c_new(g, s, 0);
	o_tensor(g, &x, s, CAPKM_DTYPE_F16, SHAPE(30, 4), 3);
	ASSERT_EQ(0, pthread_create(&thread, NULL, o_record_on, &r));
	for (int i = 0; i < 20000 && (i < 300 || !good || !busy); i++) {
		o_whole(&l, &x, i % 2 && !variant->flags ? CAPKM_TRANSFORM_SUMMARY :
				CAPKM_TRANSFORM_SLICE);
		o_slice(&l, 1, 0, 4, 2);
		rc = o_try(o, &x, &l);
		if (rc != -EBUSY && rc)
			t_die("%d: %s", rc, l.why);
		busy += rc != 0;
		good += !rc;
		if (!rc && l.payload.values.any)
			T_AT, o_same_values_(&l, &x);
		o_done(&l);
		/* On one processor it runs only while we wait in the driver, and cannot begin. */
		if (!(i % 4))
			usleep(100);
	}
	r.stop = true;
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_NE(0, r.graphs);
	ASSERT_NE(0, busy);
	ASSERT_NE(0, good);
	NOTHING_BROKE();
	b_usable(g, s, &self->on_s);
	c_free(g, r.memory);
	o_forget(g, &x);
}

/* Indices and offsets of more than 32 bits. */
TEST_F(observe, huge)
{
	O;
	const uint64_t rows = 70000, columns = 65536;	/* 4.6 GB */
	struct tensor x = { .elements = rows * columns };
	struct capkm_observe_summary sum;
	struct look l;
	uint64_t memory;

	ONLY_GPU();
	memory = c_alloc_bytes_(g, x.elements);
	x.shape[0] = rows;
	x.shape[1] = columns;
	x.t = (struct capkm_observe_cuda_tensor)CAPKM_OPTS(struct capkm_observe_cuda_tensor,
		.dtype = CAPKM_DTYPE_BOOL, .rank = 2, .shape = x.shape, .address = memory,
		.stream = s);
	OK(capkm_cuda_set(g->b, s, memory, x.elements, 4, 0x01010101, NULL, &err));
	OK(capkm_cuda_set(g->b, s, memory + (rows - 1) * columns, columns, 1, 0, NULL, &err));
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 0, 1, rows, 2);
	o_slice(&l, 1, 3, columns, 4096);
	T_AT, o_look_(o, &x, &l);
	for (uint64_t i = 0; i < l.payload.values.len; i++)
		ASSERT_EQ(i < l.payload.values.len - 16, l.payload.values.boolean[i]);
	o_done(&l);
	if (variant->flags)
		SKIP(return, "needs kernels");
	o_whole(&l, &x, CAPKM_TRANSFORM_SUMMARY);
	T_AT, o_look_(o, &x, &l);
	sum = l.payload.summary;
	ASSERT_EQ(x.elements, sum.finite);
	ASSERT_EQ(0, sum.min);
	ASSERT_EQ(1, sum.max);
	ASSERT_EQ((double)(x.elements - columns) / x.elements, sum.mean);
	o_whole(&l, &x, CAPKM_TRANSFORM_HISTOGRAM);
	l.selection.transform.edges = (float[]){ 0, 0.5, 1 };
	l.selection.transform.edges_len = 3;
	T_AT, o_look_(o, &x, &l);
	ASSERT_EQ(columns, l.payload.histogram.counts[0]);
	ASSERT_EQ(x.elements - columns, l.payload.histogram.counts[1]);
	o_done(&l);
	c_free(g, memory);
}

/* What is too large to be observed is an error before the device hears of it. */
TEST_F(observe, huge_estimates)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	struct tensor x = { .elements = 1ull << 61, .t.rank = 2, .t.dtype = CAPKM_DTYPE_F32 };
	struct capkm_usage usage;
	struct look l;

	x.shape[0] = 1ull << 30;
	x.shape[1] = 1ull << 31;
	o_whole(&l, &x, CAPKM_TRANSFORM_SLICE);
	l.g.selection = &l.selection;
	l.g.point = &l.point;
	ASSERT_EQ(-EOVERFLOW, b->estimate(b->context, &l.g, &usage, l.why, sizeof(l.why)));
	o_slice(&l, 0, 0, 1ull << 30, 1ull << 20);
	o_slice(&l, 1, 0, 1ull << 31, 1ull << 20);
	ASSERT_EQ(0, b->estimate(b->context, &l.g, &usage, l.why, sizeof(l.why)));
	ASSERT_EQ(4 << 20, usage.retained_bytes);
	if (variant->flags)
		return;
	o_whole(&l, &x, CAPKM_TRANSFORM_SUMMARY);
	l.g.selection = &l.selection;
	ASSERT_EQ(0, b->estimate(b->context, &l.g, &usage, l.why, sizeof(l.why)));
	ASSERT_EQ(257 * sizeof(struct partial), usage.retained_bytes);
	l.selection.transform.kind = CAPKM_TRANSFORM_TOP_CANDIDATES;
	l.selection.transform.count = 5;
	ASSERT_EQ(0, b->estimate(b->context, &l.g, &usage, l.why, sizeof(l.why)));
	ASSERT_EQ(40, usage.retained_bytes);
	l.g.shape[1] = l.g.selected[1] = 0xffffffff;
	l.g.elements = l.g.selected[0] * l.g.selected[1];
	ASSERT_EQ(-EOVERFLOW, b->estimate(b->context, &l.g, &usage, l.why, sizeof(l.why)));
	ASSERT_EQ(0, o_query(o).observations);
}

/* In a forked child it does nothing, and can be let go. */
TEST_F(observe, forked)
{
	O;
	struct tensor x;
	struct look l;
	int status, pid;

	o_tensor(g, &x, s, CAPKM_DTYPE_F32, SHAPE(8), 0);
	o_whole(&l, &x, CAPKM_TRANSFORM_FULL_TENSOR);
	o_values(o, &x, &l);
	pid = fork();
	if (!pid) {
		if (o_try_(o, &x, &l) != -ECANCELED)
			_exit(1);
		capkm_observe_cuda_destroy(o);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	o_values(o, &x, &l);
	o_forget(g, &x);
}

/* All that a backend of host tensors gives of the same values is the same. */
TEST_F(observe, like_the_host)
{
	static const float edges[] = { -100, -1, 0, 0.25, 1, 2000 };
	O;
	const struct capkm_observe_backend *host = capkm_observe_host_backend();
	struct capkm_observe_payload got, want;
	struct tensor x;
	struct look l;

	for (int round = 0; round < 90; round++) {
		const uint64_t shape[] = { 1 + o_below(4), 1 + o_below(20), 1 + o_below(60) };
		const uint32_t kind = o_below(variant->flags ? 3 : 6);
		struct capkm_observe_host_tensor h = CAPKM_OPTS(struct capkm_observe_host_tensor);

		if (FEWER(round % 4))
			continue;
		o_tensor(g, &x, s, dtypes[o_below(6)], 3, shape, 1 + o_below(4));
		h.dtype = x.t.dtype;
		h.rank = 3;
		h.shape = x.shape;
		h.data = x.host;
		o_whole(&l, &x, kind);
		l.selection.transform.max_elements = o_below(100);
		l.selection.transform.count = 1 + o_below(shape[2]);
		l.selection.transform.edges = edges;
		l.selection.transform.edges_len = ARRAY_SIZE(edges);
		for (uint32_t a = 0; a < 3 && kind != CAPKM_TRANSFORM_TOP_CANDIDATES; a++)
			o_slice(&l, a, o_below(shape[a]), shape[a], 1 + o_below(3));
		T_AT, o_look_(o, &x, &l);
		got = l.payload;
		o_room(&l);
		ASSERT_EQ(0, host->transform(host->context, &h, &l.g, &l.payload, l.why,
					     sizeof(l.why)));
		want = l.payload;
		l.payload = got;
		if (kind <= CAPKM_TRANSFORM_FULL_TENSOR) {
			ASSERT_EQ(0, memcmp(got.values.any, want.values.any,
					    want.values.len * o_given(h.dtype)));
		} else if (kind == CAPKM_TRANSFORM_SUMMARY) {
			ASSERT_EQ(0, memcmp(&got.summary, &want.summary,
				offsetof(struct capkm_observe_summary, min)));
			if (want.summary.finite) {
				ASSERT_EQ(0, memcmp(&got.summary.min, &want.summary.min, 8));
				ASSERT_TRUE(o_near(got.summary.rms, want.summary.rms,
						   want.summary.rms * 1e-12));
				ASSERT_TRUE(o_near(got.summary.mean, want.summary.mean,
						   want.summary.rms * 1e-12));
			}
		} else if (kind == CAPKM_TRANSFORM_HISTOGRAM) {
			ASSERT_EQ(0, memcmp(got.histogram.counts, want.histogram.counts, 40));
			ASSERT_EQ(want.histogram.below, got.histogram.below);
			ASSERT_EQ(want.histogram.above, got.histogram.above);
			ASSERT_EQ(want.histogram.non_finite, got.histogram.non_finite);
		} else {
			ASSERT_EQ(want.candidates.len, got.candidates.len);
			ASSERT_EQ(0, memcmp(got.candidates.candidates,
					    want.candidates.candidates,
					    want.candidates.len * 8));
		}
		o_done(&l);
		l.payload = want;
		o_done(&l);
		o_forget(g, &x);
	}
}

/* ---------------------------------------------------------------- sessions */

static const struct capkm_observe_axis hidden_axes[] = {
	{ "token", { .kind = CAPKM_EXTENT_SEQUENCE } },
	{ "hidden", { .kind = CAPKM_EXTENT_KNOWN, .value = 48 } },
};
static const struct capkm_observe_axis logits_axes[] = {
	{ "token", { .kind = CAPKM_EXTENT_SEQUENCE } },
	{ "vocabulary", { .kind = CAPKM_EXTENT_KNOWN, .value = 500 } },
};
static const struct capkm_observe_point points[] = {
	{ .path = "block.output", .node_id = "block", .meaning = "", .axes = hidden_axes,
	  .axes_len = 2, .prefill = true, .decode = true },
	{ .path = CAPKM_OBSERVE_LOGITS, .node_id = "head", .meaning = "", .axes = logits_axes,
	  .axes_len = 2, .prefill = true, .decode = true },
};
static const struct capkm_observe_point_support support[] = {
	{ .path = "block.output" }, { .path = CAPKM_OBSERVE_LOGITS },
};

#define ALWAYS .schedule = { .prefill = true, .decode = true, .every = 1 }
static const float session_edges[] = { -8, 0, 8 };
static const struct capkm_observe_slice hidden_slices[] = {
	{ .axis = "hidden", .start = 1, .end = 48, .stride = 5 },
};
/* The first two need no kernels. */
static const struct capkm_observe_selection selections[] = {
	{ .id = "some", .path = "block.output", ALWAYS, .slices = hidden_slices,
	  .slices_len = 1, .transform = { .kind = CAPKM_TRANSFORM_SLICE } },
	{ .id = "first", .path = "block.output", ALWAYS,
	  .transform = { .kind = CAPKM_TRANSFORM_PREVIEW, .max_elements = 7 } },
	{ .id = "sum", .path = "block.output", ALWAYS,
	  .transform = { .kind = CAPKM_TRANSFORM_SUMMARY } },
	{ .id = "bins", .path = "block.output", ALWAYS,
	  .transform = { .kind = CAPKM_TRANSFORM_HISTOGRAM, .edges = session_edges,
			 .edges_len = 3 } },
	{ .id = "best", .path = CAPKM_OBSERVE_LOGITS, ALWAYS,
	  .transform = { .kind = CAPKM_TRANSFORM_TOP_CANDIDATES, .count = 5 } },
};

static struct capkm_observe *o_open_(struct gpu *g, struct capkm_observe_cuda *o,
				     const struct capkm_observe_limits *limits, uint32_t n)
{
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	const struct capkm_observe_plan plan = {
		.schema_version = CAPKM_OBSERVE_SCHEMA, .selections = selections,
		.selections_len = n, .limits = *limits,
	};
	const struct capkm_observe_request request = {
		.batch = 1, .prompt_tokens = 6, .max_predictions = 4,
	};
	struct capkm_observe_discovery d = {
		.artifact_identity = "model",
		.catalog = { .schema_version = CAPKM_OBSERVE_SCHEMA, .points = points,
			     .points_len = 2 },
		.support_version = CAPKM_OBSERVE_SCHEMA, .support = support,
		.support_len = 2,
	};
	struct capkm_observe_admitted *admitted = NULL;
	struct capkm_observe *session = NULL;
	int rc;

	b->capabilities(b->context, &d.capture);
	rc = capkm_observe_admit(&plan, &d, &request, &admitted, &err);
	if (!rc && limits->on_limit == CAPKM_ON_LIMIT_FAIL)
		rc = capkm_observe_validate(admitted, &d, b, 0, NULL, &err);
	if (!rc)
		rc = capkm_observe_open(g->c, admitted, b, NULL, &session, &err);
	if (rc)
		t_die("session: %d (%s)", rc, err.text);
	capkm_observe_admitted_free(admitted);
	return session;
}
#define o_open(...) (T_AT, o_open_(__VA_ARGS__))

#define PLENTY { 100, 1 << 20, 1 << 20, 1 << 20 }
static const struct capkm_observe_limits plenty = {
	.per_step = PLENTY, .cumulative = PLENTY, .on_limit = CAPKM_ON_LIMIT_FAIL,
};

/*
 * C92, C13, ER-22: plan, admission, three predictions: observed; recording, so skipped;
 * tainted, so failed. What was charged is what was used.
 */
TEST_F(observe, session)
{
	O;
	const uint32_t n = variant->flags ? 2 : ARRAY_SIZE(selections);
	const uint64_t calls = o_disturbances();
	struct capkm_observe *session = o_open(g, o, &plenty, n);
	struct capkm_observe_cuda_query before = o_query(o), after;
	struct capkm_observe_step *step = NULL;
	struct capkm_usage sum = { 0 };
	struct tensor hidden, logits;
	struct look l;
	struct capkm_claim claim;
	uint32_t one = 1;
	uint64_t graph;
	char *json = NULL;

	ASSERT_EQ(calls, o_disturbances());
	o_tensor(g, &hidden, s, CAPKM_DTYPE_BF16, SHAPE(6, 48), 20);
	o_tensor(g, &logits, t, CAPKM_DTYPE_F32, SHAPE(6, 500), 0);
	OK(capkm_observe_begin_step(session, CAPKM_PREFILL, 0, &err));
	OK(capkm_observe_tensor(session, "block.output", &hidden.t, &err));
	OK(capkm_observe_tensor(session, "block.attention", &hidden.t, &err));
	OK(capkm_observe_tensor(session, CAPKM_OBSERVE_LOGITS, &logits.t, &err));
	OK(capkm_observe_take_step(session, &step, &err));
	after = o_query(o);
	ASSERT_EQ(n, step->records_len);
	for (uint32_t i = 0; i < n; i++) {
		const struct capkm_observe_record *r = &step->records[i];

		ASSERT_EQ(i == 1 ? CAPKM_OUTCOME_TRUNCATED : CAPKM_OUTCOME_CAPTURED,
			  r->outcome.kind);
		ASSERT_NE(NULL, r->payload);
		sum.captures += r->charged.captures;
		sum.retained_bytes += r->charged.retained_bytes;
		sum.host_bytes += r->charged.host_bytes;
	}
	ASSERT_EQ(sum.captures, step->cumulative_usage.captures);
	ASSERT_EQ(sum.retained_bytes, step->cumulative_usage.retained_bytes);
	ASSERT_EQ(6 * 10 * 2 + 7 * 2 + (n == 2 ? 0 : sizeof(struct partial) + 5 * 8 + 5 * 8),
		  after.copied_bytes - before.copied_bytes);
	ASSERT_EQ(6 * 10 * 2 + (n == 2 ? 0 : 2 * sizeof(struct partial) + 16 + 5 * 8 + 5 * 8),
		  sum.retained_bytes);
	o_whole(&l, &hidden, CAPKM_TRANSFORM_SLICE);
	o_slice(&l, 1, 1, 48, 5);
	l.payload = *step->records[0].payload;
	T_AT, o_same_values_(&l, &hidden);
	OK(capkm_observe_step_json(step, &json, NULL, &err));
	free(json);
	capkm_observe_step_free(step);

	/* Its next tensors have one row. */
	hidden.shape[0] = logits.shape[0] = 1;
	OK(capkm_observe_begin_step(session, CAPKM_DECODE, 1, &err));
	c_record(g, s);
	before = o_query(o);
	OK(capkm_observe_tensor(session, "block.output", &hidden.t, &err));
	OK(capkm_observe_tensor(session, CAPKM_OBSERVE_LOGITS, &logits.t, &err));
	after = o_query(o);
	graph = c_end(g, s);
	ASSERT_EQ(0, c_query(g, graph).nodes);
	c_destroy(g, graph);
	NOTHING_BROKE();
	OK(capkm_observe_take_step(session, &step, &err));
	for (uint32_t i = 0; i < n; i++) {
		const struct capkm_observe_record *r = &step->records[i];

		if (i == 4) {	/* on the other stream */
			ASSERT_EQ(CAPKM_OUTCOME_CAPTURED, r->outcome.kind);
			continue;
		}
		ASSERT_EQ(CAPKM_OUTCOME_SKIPPED, r->outcome.kind);
		ASSERT_EQ(CAPKM_REASON_RECORDING, r->outcome.reason.kind);
		ASSERT_EQ(0, r->charged.captures + r->charged.retained_bytes);
	}
	ASSERT_EQ(n == 2 ? 0 : 5 * 8, after.copied_bytes - before.copied_bytes);
	capkm_observe_step_free(step);

	OK(capkm_observe_begin_step(session, CAPKM_DECODE, 2, &err));
	OK(capkm_cuda_claims(g->b, &(struct capkm_cuda_range){ hidden.t.address, 9 }, &claim,
			     &one, &err));
	OK(capkm_taint(g->c, &claim, 1, 0, WITH(struct capkm_cause, .text = "it burns"), NULL,
		       &err));
	before = o_query(o);
	FAILS(-ESTALE, "it burns", capkm_observe_tensor(session, "block.output", &hidden.t,
							&err));
	ASSERT_EQ(before.copied_bytes, o_query(o).copied_bytes);
	ASSERT_EQ(before.launches, o_query(o).launches);
	OK(capkm_observe_take_step(session, &step, &err));
	ASSERT_EQ(CAPKM_OUTCOME_FAILED, step->records[0].outcome.kind);
	ASSERT_EQ(CAPKM_REASON_TAINTED, step->records[0].outcome.reason.kind);
	HAS(step->records[0].outcome.message, "it burns");
	capkm_observe_step_free(step);
	capkm_observe_close(session);
	o_forget(g, &hidden);
	o_forget(g, &logits);
}

/* C92, ER-22: what a budget skips touches no tensor: the device hears nothing of it. */
TEST_F(observe, skipped_by_a_budget)
{
	O;
	struct capkm_observe_limits none = plenty;
	struct capkm_observe *session;
	struct capkm_observe_step *step = NULL;
	struct tensor hidden;
	uint64_t calls;

	none.per_step.retained_bytes = 6 * 10 * 2 - 1;
	none.on_limit = CAPKM_ON_LIMIT_SKIP;
	session = o_open(g, o, &none, 1);
	o_tensor(g, &hidden, s, CAPKM_DTYPE_F16, SHAPE(6, 48), 20);
	calls = o_disturbances();
	OK(capkm_observe_begin_step(session, CAPKM_PREFILL, 0, &err));
	OK(capkm_observe_tensor(session, "block.output", &hidden.t, &err));
	OK(capkm_observe_take_step(session, &step, &err));
	ASSERT_EQ(calls, o_disturbances());
	ASSERT_EQ(CAPKM_OUTCOME_SKIPPED, step->records[0].outcome.kind);
	ASSERT_EQ(CAPKM_REASON_LIMIT, step->records[0].outcome.reason.kind);
	ASSERT_EQ(CAPKM_AXIS_RETAINED, step->records[0].outcome.reason.budget);
	ASSERT_EQ(0, o_query(o).observations);
	ASSERT_EQ(0, step->cumulative_usage.retained_bytes);
	capkm_observe_step_free(step);
	capkm_observe_close(session);
	/* One byte more is enough. */
	none.per_step.retained_bytes++;
	session = o_open(g, o, &none, 1);
	OK(capkm_observe_begin_step(session, CAPKM_PREFILL, 0, &err));
	OK(capkm_observe_tensor(session, "block.output", &hidden.t, &err));
	OK(capkm_observe_take_step(session, &step, &err));
	ASSERT_EQ(CAPKM_OUTCOME_CAPTURED, step->records[0].outcome.kind);
	ASSERT_EQ(none.per_step.retained_bytes, step->cumulative_usage.retained_bytes);
	ASSERT_EQ(none.per_step.retained_bytes, o_query(o).staging_used);
	capkm_observe_step_free(step);
	capkm_observe_close(session);
	o_forget(g, &hidden);
}

/* Reductions are no part of what a backend without kernels admits. */
TEST_F(observe, admission_without_kernels)
{
	O;
	const struct capkm_observe_backend *b = capkm_observe_cuda_backend(o);
	const struct capkm_observe_plan plan = {
		.schema_version = CAPKM_OBSERVE_SCHEMA, .selections = &selections[2],
		.selections_len = 1, .limits = plenty,
	};
	struct capkm_observe_discovery d = {
		.artifact_identity = "model",
		.catalog = { .schema_version = CAPKM_OBSERVE_SCHEMA, .points = points,
			     .points_len = 2 },
		.support_version = CAPKM_OBSERVE_SCHEMA, .support = support,
		.support_len = 2,
	};
	struct capkm_observe_admitted *admitted = NULL;

	if (!variant->flags)
		SKIP(return, "has kernels");
	b->capabilities(b->context, &d.capture);
	REFUSED(-EOPNOTSUPP, capkm_observe_admit(&plan, &d,
		&(struct capkm_observe_request){ 1, 6, 4 }, &admitted, &err));
	ASSERT_EQ(NULL, admitted);
}

CUDA_TEST_MAIN
