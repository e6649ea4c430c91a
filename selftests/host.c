// SPDX-License-Identifier: GPL-2.0-only
/*
 * The CPU executor from end to end: what it runs, records and replays, what it
 * refuses, and what its bytes say afterwards. Expected results are worked out here.
 */
#include "fail_alloc.h"
#include "host_test.h"

#include <sched.h>
#include <setjmp.h>

FIXTURE(host)
{
	struct cl *a;
	struct ex x;
};

#define SELF FIXTURE_DATA(host)

FIXTURE_SETUP(host)
{
	self->a = t_client();
	h_domain(self->a);
	h_create(&self->x, self->a, NULL);
}

FIXTURE_TEARDOWN(host)
{
	capkm_host_destroy(self->x.h);
	t_is_empty(self->a);
	t_close(self->a);
	t_no_leaks();
}

/* A neighbour of stream 1, and streams of other slots. */
#define NEIGHBOUR 33

/* An executor with other options. */
static void recreate(SELF *self, const struct capkm_host_opts *opts)
{
	capkm_host_destroy(self->x.h);
	h_create(&self->x, self->a, opts);
}

/* Its graph: out = in + v */
static uint64_t graph_of_add(struct ex *x, uint64_t stream, uint64_t out, uint64_t in,
			     uint64_t v)
{
	h_record_(x, stream);
	h_launch_(x, stream, x->add, v, ARGS(W(out), R(in)));
	return h_end_(x, stream);
}

static void fault(struct ex *x, uint64_t stream)
{
	struct capkm_where where = { .stream = stream };

	if (capkm_stream_fault(x->cl->c, &where, WITH(struct capkm_cause, .code = 700,
			       .text = "illegal address"), NULL, NULL, &err))
		t_die("stream_fault: %s", err.text);
}

static void renew(struct ex *x)
{
	static const uint8_t host[16];

	if (capkm_context_renew(x->cl->c, host, NULL, &err))
		t_die("context_renew: %s", err.text);
}

/* ---------------------------------------------------------- record and replay */

/* T-100/sw: one launch is captured, and replayed; GR-4: the warm-up runs for real */
TEST_F(host, t100_sw_capture_and_replay)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), w, g;

	w = h_prepare(x, 1);
	h_add(x, 1, out, in, 1);
	h_is(x, 1, out, 6);
	ASSERT_EQ(1, h_stats(x).prepared);
	h_begin(x, 1);
	ASSERT_EQ(1, load(&x->ran));
	ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
	h_add(x, 1, out, in, 10);
	ASSERT_EQ(1, t_window(self->a, w).q.out_launches);
	g = h_end(x, 1);
	/* CW-32: it has not run. */
	h_is(x, 1, out, 6);
	ASSERT_EQ(1, load(&x->ran));
	ASSERT_EQ(1, h_stats(x).graphs);
	for (int i = 1; i <= 3; i++) {
		h_write(x, 1, out, 99);
		h_replay(x, 1, g);
		h_is(x, 1, out, 15);
		ASSERT_EQ(1 + i, load(&x->ran));
	}
	/* GR-22: any slot will do. */
	h_write(x, 1, out, 99);
	h_replay(x, 2, g);
	h_is(x, 3, out, 15);
	h_destroy(x, g);
	ASSERT_EQ(0, h_stats(x).graphs);
	h_is(x, 1, out, 15);
}

/* T-102/sw CW-30: memory of a size never seen before is allocated in the window */
TEST_F(host, t102_sw_allocation_in_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), tmp, other[8], g;

	h_record(x, 1);
	tmp = h_alloc_bytes(x, 1, 3 * SIZE);
	h_launch(x, 1, x->add, 1, ARGS({ .range = PART(tmp, N, 2 * N),
					 .access = CAPKM_HOST_WRITE }, R(in)));
	h_launch(x, 1, x->add, 2, ARGS(W(out), { .range = PART(tmp, N, 2 * N),
						 .access = CAPKM_HOST_READ }));
	h_free(x, tmp);
	g = h_end(x, 1);
	/* Nobody else gets what the graph writes. */
	for (int i = 0; i < 8; i++) {
		other[i] = h_alloc_bytes(x, 1, 3 * SIZE);
		h_launch(x, 1, x->set, 100 + i, ARGS(W(other[i])));
	}
	h_replay(x, 1, g);
	h_is(x, 1, out, 8);
	for (int i = 0; i < 8; i++) {
		uint64_t data[3 * N];

		OK(capkm_host_read(x->h, 1, &(struct capkm_host_range){ other[i], 0, 0 },
				   data, NULL, &err));
		for (int j = 0; j < 3 * N; j++)
			ASSERT_EQ(100u + i, data[j]);
	}
}

/* T-103/sw GR-25: the input is rewritten in place; the replay reads what is there then */
TEST_F(host, t103_sw_rewrite_input)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 1), out = h_new(x, 1, 0), g;

	g = graph_of_add(x, 1, out, in, 100);
	h_write(x, 1, in, 7);
	h_replay(x, 1, g);
	h_is(x, 1, out, 107);
	h_set(x, 2, in, 8);
	h_replay(x, 1, g);
	/* Too late for that one. */
	h_set(x, 3, in, 9);
	h_is(x, 1, out, 108);
	h_is(x, 1, in, 9);
}

/*
 * T-104/sw: an intermediate is dropped after the capture, and the memory allocated
 * afterwards is not overwritten by replays.
 */
TEST_F(host, t104_sw_dropped_intermediate)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), tmp = h_alloc(x, 1), s[32], g;
	uint64_t used;

	h_record(x, 1);
	h_add(x, 1, tmp, in, 10);
	h_add(x, 1, out, tmp, 100);
	g = h_end(x, 1);
	h_free(x, tmp);
	for (int i = 0; i < 32; i++)
		s[i] = h_new(x, 1, 1000 + i);
	for (uint64_t v = 5; v < 8; v++) {
		h_write(x, 1, in, v);
		h_replay(x, 1, g);
		h_is(x, 1, out, v + 110);
		for (int i = 0; i < 32; i++)
			h_is(x, 1, s[i], 1000 + i);
	}
	/* With the graph its memory is free. */
	h_sync(x, 1);
	used = h_pool(x, 1).used;
	h_destroy(x, g);
	ASSERT_EQ(used - SIZE, h_pool(x, 1).used);
}

#define STEPS 150
#define WIDE 64

struct step {
	uint64_t i, n, w[7];
};

/* x[j] = 3 * x[j] + i + w[j % n], first from another memory */
static int fn_step(const struct capkm_host_call *call)
{
	const struct step *s = call->info;
	const uint64_t *from = call->args[1];
	uint64_t *to = call->args[0];

	if (call->info_bytes != (2 + s->n) * sizeof(uint64_t))
		return 1;
	for (uint64_t j = 0; j < WIDE; j++)
		to[j] = 3 * from[j] + s->i + s->w[j % s->n];
	__atomic_fetch_add((int *)call->context, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void steps_are(struct __test_metadata *_metadata, struct ex *x, uint64_t memory,
		      uint64_t input)
{
	uint64_t got[WIDE], want[WIDE];

	for (uint64_t j = 0; j < WIDE; j++)
		want[j] = input * j;
	for (uint64_t i = 0; i < STEPS; i++)
		for (uint64_t j = 0; j < WIDE; j++)
			want[j] = want[j] * 3 + i + (i << 32) + j % (1 + i % 7);
	OK(capkm_host_read(x->h, 1, &(struct capkm_host_range){ memory, 0, 0 }, got, NULL,
			   &err));
	for (uint64_t j = 0; j < WIDE; j++)
		ASSERT_EQ(want[j], got[j]);
}

static void feed(struct __test_metadata *_metadata, struct ex *x, uint64_t memory,
		 uint64_t input)
{
	uint64_t data[WIDE];
	struct capkm_host_write w = { .to.memory = memory, .data = data };

	for (uint64_t j = 0; j < WIDE; j++)
		data[j] = input * j;
	OK(capkm_host_write(x->h, 1, &w, 1, NULL, &err));
	memset(data, 0xee, sizeof(data));
}

/*
 * T-105/sw: 150 launches with metadata of their own. The recorded pass does not run,
 * two replays run it, and the rewritten input feeds the next.
 */
TEST_F(host, t105_sw_many_launches_with_metadata)
{
	static const uint32_t entries[] = { 0, 8, CAPKM_HOST_NO_CACHE };
	struct ex *x = &self->x;
	int ran;

	for (size_t n = 0; n < ARRAY_SIZE(entries); n++) {
		uint64_t in, m, k, g = 0, other;

		recreate(self, WITH(struct capkm_host_opts, .cache_entries = entries[n]));
		ran = 0;
		k = h_kernel(x, "step", fn_step, &ran);
		in = h_alloc_bytes(x, 1, sizeof(uint64_t) * WIDE);
		m = h_alloc_bytes(x, 1, sizeof(uint64_t) * WIDE);
		other = h_alloc(x, 1);
		feed(_metadata, x, in, 17);
		/* Twice: as the warm-up, and recorded. */
		for (int record = 0; record < 2; record++) {
			if (record)
				h_begin(x, 1);
			else
				h_prepare(x, 1);
			for (uint64_t i = 0; i < STEPS; i++) {
				struct step s = { .i = i, .n = 1 + i % 7 };
				struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch,
					.kernel = k, .info = &s, .grid = { WIDE, 1, 1 });
				uint32_t result;

				for (uint64_t j = 0; j < s.n; j++)
					s.w[j] = (i << 32) + j;
				l.info_bytes = (2 + s.n) * sizeof(uint64_t);
				l.args = (const struct capkm_host_arg[]){ W(m), R(i ? m : in) };
				l.args_len = 2;
				OK(capkm_host_launch(x->h, 1, &l, &result, &err));
				ASSERT_EQ(CAPKM_CLEAN, result);
				/* It is copied. */
				memset(&s, 0xee, sizeof(s));
			}
		}
		g = h_end(x, 1);
		ASSERT_EQ(STEPS, load(&ran));
		steps_are(_metadata, x, m, 17);
		feed(_metadata, x, in, 19);
		steps_are(_metadata, x, m, 17);
		for (uint64_t i = 1; i <= 2; i++) {
			h_replay(x, 1, g);
			steps_are(_metadata, x, m, 17 + 2 * i);
			ASSERT_EQ(STEPS * (1 + (int)i), load(&ran));
			feed(_metadata, x, in, 19 + 2 * i);
			/* CM-14: what others need metadata for does not get this one's. */
			for (uint64_t v = 0; v < 600; v++)
				h_set(x, 1, other, v * i);
			OK(capkm_host_cleanup(x->h, 1, &err));
		}
		h_destroy(x, g);
	}
}

/* GR-18: between the seal and the first replay memory reads as before the window. */
TEST_F(host, gr18_reads_as_before_until_replayed)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 1), out = h_new(x, 1, 3), bad = h_new(x, 1, 4), k, g;

	k = h_kernel(x, "fail", fn_fail, "no such luck");
	h_launch(x, 1, k, 0, ARGS(W(bad)));
	h_is_tainted(x, bad, FAILED);
	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	h_add(x, 1, bad, in, 2);
	g = h_end(x, 1);
	h_is(x, 1, out, 3);
	/* What was tainted stays so: nothing has been written. */
	HAS(h_is_tainted(x, bad, FAILED).text, "no such luck");
	/* GR-20: the replay writes it. */
	h_replay(x, 1, g);
	h_is(x, 1, out, 2);
	h_is(x, 1, bad, 3);
}

/* GR-22 (external inputs): a replay whose input is tainted is skipped, like a launch. */
TEST_F(host, gr22_tainted_input_skips_the_replay)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 1), out = h_new(x, 1, 0), k, g;
	struct capkm_report why, got;
	int ran;

	k = h_kernel(x, "fail", fn_fail, "bad input");
	g = graph_of_add(x, 1, out, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 2);
	ran = load(&x->ran);
	h_launch(x, 2, k, 0, ARGS(W(in)));
	why = h_is_tainted(x, in, FAILED);
	h_replay(x, 1, g);
	got = h_is_tainted(x, out, FAILED);
	ASSERT_EQ(why.failure, got.failure);
	HAS(got.text, "bad input");
	ASSERT_EQ(ran, load(&x->ran));
	ASSERT_NE(0, h_stats(x).skipped);
	/* The input is mended, and so is the replay. */
	h_write(x, 1, in, 10);
	h_replay(x, 1, g);
	h_is(x, 1, out, 11);
}

/* T-113/sw: a failed replay taints all that it writes; the next good one releases it. */
TEST_F(host, t113_sw_failed_replay)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 1), a = h_new(x, 1, 2), b = h_new(x, 1, 3), k, g;
	uint64_t other = h_new(x, 1, 4), failures;
	int mood = 0;

	k = h_kernel(x, "moody", fn_moody, &mood);
	h_record(x, 1);
	h_add(x, 1, a, in, 10);
	h_launch(x, 1, k, 20, ARGS(W(b), R(a)));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, a, 11);
	h_is(x, 1, b, 31);
	for (int i = 0; i < 2; i++) {
		struct capkm_report r;

		store(&mood, 5);
		h_replay(x, 1, g);
		/* Also what it had written well. */
		r = h_is_tainted(x, a, FAILED);
		HAS(r.text, "in a bad mood");
		ASSERT_NE(0, r.graph);
		ASSERT_EQ(r.failure, h_is_tainted(x, b, FAILED).failure);
		h_is(x, 1, other, 4);
		h_is(x, 1, in, 1);
		failures = t_failures(self->a);
		/* Unknown ids taint nothing. */
		REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, g + 12345, NULL, &err));
		SAYS("unknown or already-destroyed graph");
		REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, 0, NULL, &err));
		ASSERT_EQ(failures, t_failures(self->a));

		store(&mood, 0);
		h_replay(x, 1, g);
		h_is(x, 1, a, 11);
		h_is(x, 1, b, 31);
		ASSERT_EQ(0, t_failures(self->a));
	}
	h_destroy(x, g);
	REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	SAYS("unknown or already-destroyed graph");
	h_is(x, 1, a, 11);
}

/* T-116/sw GR-26: to destroy twice, or what there never was, is harmless. */
TEST_F(host, t116_sw_double_destroy)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 1), out = h_new(x, 1, 2), g, h;

	g = graph_of_add(x, 1, out, in, 1);
	h = graph_of_add(x, 1, out, in, 2);
	ASSERT_NE(g, h);
	for (int i = 0; i < 3; i++) {
		h_destroy(x, g);
		h_destroy(x, h + 1000);
		h_destroy(x, 0);
		ASSERT_EQ(1, h_stats(x).graphs);
	}
	h_replay(x, 1, h);
	h_is(x, 1, out, 3);
}

/*
 * T-110/sw GR-28: a replay is queued, its graph destroyed, its memory freed and used
 * again: the replay's result is right, and it writes nobody else's memory.
 */
TEST_F(host, t110_sw_destroyed_behind_a_replay)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), tmp = h_alloc(x, 1), out = h_new(x, 1, 0), k, g;
	uint64_t s[8];

	k = h_kernel(x, "gated", fn_gated, &gate);
	h_record(x, 1);
	h_add(x, 1, tmp, in, 10);
	h_add(x, 1, out, tmp, 100);
	g = h_end(x, 1);
	h_launch(x, 1, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_replay(x, 1, g);
	h_destroy(x, g);
	h_free(x, tmp);
	h_free(x, in);
	for (int i = 0; i < 8; i++) {
		s[i] = h_alloc(x, 1);
		h_set(x, 2, s[i], 1000 + i);
		h_is(x, 2, s[i], 1000 + i);
	}
	ASSERT_EQ(0, h_stats(x).graphs);
	gate_open(&gate);
	h_is(x, 1, out, 115);
	for (int i = 0; i < 8; i++)
		h_is(x, 1, s[i], 1000 + i);
}

/* A graph that writes nothing, and one that does nothing, on two slots at once. */
TEST_F(host, graph_that_writes_nothing)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), k, g, empty;

	k = h_kernel(x, "gated", fn_gated, &gate);
	h_record(x, 1);
	empty = h_end(x, 1);
	h_record(x, 1);
	h_launch(x, 1, k, 0, NO_ARGS);
	g = h_end(x, 1);
	for (int i = 0; i < 2; i++) {
		h_replay(x, 1 + i, empty);
		h_replay(x, 1 + i, g);
	}
	gate_await(&gate, 1);
	gate_open(&gate);
	h_sync(x, 1);
	h_sync(x, 2);
	ASSERT_EQ(2, gate.inside);
	ASSERT_EQ(0, h_stats(x).failed);
	h_is(x, 1, in, 5);
}

static void *open_soon(void *gate)
{
	usleep(20000);
	gate_open(gate);
	return NULL;
}

/*
 * CW-29: the refusal comes after the replay that runs, also if no memory says so, for
 * both only read.
 */
TEST_F(host, refused_while_it_is_replayed)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t k = h_kernel(x, "gated", fn_gated, &gate), g;
	struct h_launched r;
	pthread_t thread;

	h_record(x, 1);
	h_launch(x, 1, k, 0, NO_ARGS);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	gate_await(&gate, 1);
	h_record(x, 2);
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_soon, &gate));
	r = h_try_replay(x, 2, g);
	pthread_join(thread, NULL);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_REFUSED, r.result);
	h_end_refused(x, 2);
	ASSERT_EQ(1, gate.inside);
}

/* One graph, replayed often and on all slots: the replays follow one another. */
TEST_F(host, replays_on_all_slots)
{
	struct ex *x = &self->x;
	uint64_t sum = h_new(x, 1, 0), one = h_new(x, 1, 1), g;

	h_record(x, 1);
	h_launch(x, 1, x->add, 0, ARGS(RW(sum), R(sum), R(one)));
	g = h_end(x, 1);
	for (uint64_t i = 0; i < 200; i++)
		h_replay(x, 1 + i % 8, g);
	h_is(x, 1, sum, 200);
	ASSERT_EQ(0, h_stats(x).failed);
	ASSERT_EQ(0, h_stats(x).skipped);
}

/* ------------------------------------------------------------------ life cycle */

/* T-106/sw CW-5 CW-6: calls out of order say which, and change nothing. */
TEST_F(host, t106_sw_lifecycle_errors)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), g = 77, w;

	REFUSED(-EINVAL, capkm_host_graph_begin(x->h, 1, &err));
	BEGINS("begin_capture: ");
	SAYS("not prepared");
	REFUSED(-EINVAL, capkm_host_graph_end(x->h, 1, &g, NULL, &err));
	BEGINS("end_capture: ");
	SAYS("nothing recording");
	ASSERT_EQ(0, g);
	w = h_prepare(x, 1);
	for (uint64_t s = 1; s <= NEIGHBOUR; s += 32) {
		REFUSED(-EBUSY, capkm_host_graph_prepare(x->h, s, NULL, NULL, &err));
		BEGINS("graph_prepare: ");
		SAYS("already prepared");
	}
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, t_window(self->a, w).q.out_state);
	ASSERT_EQ(1, t_window(self->a, w).q.out_owner);
	h_begin(x, 1);
	h_add(x, 1, out, in, 1);
	for (uint64_t s = 1; s <= NEIGHBOUR; s += 32) {
		REFUSED(-EBUSY, capkm_host_graph_prepare(x->h, s, NULL, NULL, &err));
		BEGINS("graph_prepare: ");
		SAYS("already recording");
		REFUSED(-EBUSY, capkm_host_graph_begin(x->h, s, &err));
		BEGINS("begin_capture: ");
		SAYS("already recording");
	}
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(self->a, w).q.out_state);
	ASSERT_EQ(1, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	/* To abort nothing is harmless. */
	h_abort(x, 1);
}

/* T-114/sw GR-14 CW-11: an end after prepare disarms; it is the only call left then. */
TEST_F(host, t114_sw_end_of_a_prepared_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), g;

	for (int i = 0; i < 3; i++) {
		h_prepare(x, 1);
		ASSERT_EQ(1, h_pool(x, 1).capture);
		h_add(x, 1, out, in, i);
		h_end_fails(x, i == 1 ? NEIGHBOUR : 1, -EINVAL);
		SAYS("only prepared");
		ASSERT_EQ(0, h_pool(x, 1).capture);
		ASSERT_EQ(0, h_pool(x, 1).persistent);
		ASSERT_EQ(0, h_stats(x).prepared);
		/* What ran for real did. */
		h_is(x, 1, out, 5 + i);
	}
	ASSERT_EQ(0, t_failures(self->a));
	g = graph_of_add(x, 1, out, in, 40);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	h_replay(x, 1, g);
	h_is(x, 1, out, 45);
}

/* The same by abort, in both states: what a window had recorded is tainted. */
TEST_F(host, abort_disarms)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), g;

	h_prepare(x, 1);
	h_abort(x, 1);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	h_is(x, 1, out, 0);
	h_record(x, 1);
	ASSERT_EQ(2, h_pool(x, 1).capture);
	h_add(x, 1, out, in, 1);
	h_abort(x, 1);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	ASSERT_EQ(0, h_stats(x).recording);
	h_is_tainted(x, out, CAPKM_KIND_ABORTED);
	ASSERT_EQ(0, load(&x->ran));
	h_add(x, 1, out, in, 2);
	h_is(x, 1, out, 7);
	g = graph_of_add(x, 1, out, in, 3);
	h_replay(x, 1, g);
	h_is(x, 1, out, 8);
}

/*
 * T-115/sw GR-5 GR-7: a begin whose warm-up cannot be run to its end leaves no window,
 * and it can be tried again.
 */
TEST_F(host, t115_sw_begin_after_a_fault)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), w, g;
	char text[600];

	w = h_prepare(x, 1);
	h_add(x, 1, out, in, 1);
	h_sync(x, 1);
	fault(x, 1);
	REFUSED(-EIO, capkm_host_graph_begin(x->h, 1, &err));
	BEGINS("begin_capture: ");
	SAYS("fault");
	OK(capkm_failure_text(self->a->c, err.failure, 0, text, sizeof(text), &err));
	HAS(text, "illegal address");
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 1).out_state);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	ASSERT_EQ(0, h_stats(x).prepared);
	ASSERT_EQ(0, h_stats(x).recording);
	REFUSED(-EINVAL, capkm_host_graph_begin(x->h, 1, &err));
	SAYS("not prepared");

	renew(x);
	h_write(x, 1, in, 6);
	h_write(x, 1, out, 0);
	g = graph_of_add(x, 1, out, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 7);
}

/* A failed function of the warm-up is no failure of the begin. */
TEST_F(host, begin_after_a_failed_launch)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;

	k = h_kernel(x, "fail", fn_fail, NULL);
	h_prepare(x, 1);
	h_launch(x, 1, k, 0, ARGS(W(out)));
	h_begin(x, 1);
	h_is_tainted(x, out, FAILED);
	h_add(x, 1, out, in, 1);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
}

/* A fault while it records dooms the window; between issue and turn, the task. */
TEST_F(host, fault_while_it_records)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), far = h_new(x, 2, 3), k, g;

	k = h_kernel(x, "gated", fn_gated, &gate);
	h_sync(x, 1);
	h_sync(x, 2);
	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	/* This one is inside, and the next one waits. */
	h_launch(x, 2, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_set(x, 2, far, 4);
	fault(x, 1);
	gate_open(&gate);
	HAS(h_is_tainted(x, far, CAPKM_KIND_DEVICE_FAULT).text, "illegal address");
	h_end_refused(x, 1);
	SAYS("illegal address");
	h_sync(x, 1);
	h_is_tainted(x, out, CAPKM_KIND_DEVICE_FAULT);
	/* Until the context is renewed everything is skipped. */
	h_set(x, 3, far, 5);
	h_is_tainted(x, far, CAPKM_KIND_DEVICE_FAULT);
	renew(x);
	h_set(x, 3, far, 6);
	h_is(x, 3, far, 6);
	h_write(x, 1, in, 7);
	g = graph_of_add(x, 1, out, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 8);
	/* A replay that is under way fails with the fault. */
	gate_close(&gate);
	h_record(x, 1);
	h_launch(x, 1, k, 1, ARGS(W(out), R(in)));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	gate_await(&gate, 1);
	fault(x, 1);
	gate_open(&gate);
	h_is_tainted(x, out, CAPKM_KIND_DEVICE_FAULT);
	renew(x);
}

/* T-123/sw: what is prepared and records is counted right, and everybody sees it. */
TEST_F(host, t123_sw_shared_counters)
{
	struct ex *x = &self->x;
	struct cl *b = t_client();
	uint64_t g, w1, w2;

	h_attach(b, self->a->domain);
	for (int i = 0; i < 2; i++) {
		capkm_host_graph_begin(x->h, 1, NULL);
		capkm_host_graph_end(x->h, 1, &g, NULL, NULL);
		capkm_host_graph_abort(x->h, 1, NULL);
		ASSERT_EQ(0, h_stats(x).prepared);
		ASSERT_EQ(0, h_stats(x).recording);
		ASSERT_EQ(0, t_domain_query(b).out_windows);
		w1 = h_prepare(x, 1);
		w2 = h_prepare(x, 2);
		capkm_host_graph_prepare(x->h, 2, NULL, NULL, NULL);
		ASSERT_EQ(2, h_stats(x).prepared);
		ASSERT_EQ(2, t_domain_query(b).out_windows);
		h_begin(x, 2);
		capkm_host_graph_begin(x->h, 2, NULL);
		ASSERT_EQ(1, h_stats(x).prepared);
		ASSERT_EQ(1, h_stats(x).recording);
		ASSERT_EQ(CAPKM_WINDOW_PREPARE, t_window(b, w1).q.out_state);
		ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(b, w2).q.out_state);
		h_abort(x, 1);
		g = h_end(x, 2);
		ASSERT_EQ(-EINVAL, capkm_host_graph_end(x->h, 2, &g, NULL, NULL));
		ASSERT_EQ(0, h_stats(x).prepared);
		ASSERT_EQ(0, h_stats(x).recording);
		ASSERT_EQ(i + 1, h_stats(x).graphs);
		ASSERT_EQ(0, t_domain_query(b).out_windows);
	}
	t_close(b);
}

/* CW-9 CW-23: another stream than the owner closes: no graph, both are named. */
TEST_F(host, cw23_closed_by_a_neighbour)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;
	char *doom;

	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	h_end_refused(x, NEIGHBOUR);
	SAYS("stream 1 ");
	SAYS("stream 33");
	SAYS("discarded");
	ASSERT_EQ(NULL, strchr(err.text, '\n'));
	h_is_tainted(x, out, CAPKM_KIND_ABANDONED);
	/* CW-10: the owner comes too late. */
	h_end_fails(x, 1, -EINVAL);
	SAYS("nothing recording");
	ASSERT_EQ(0, h_pool(x, 1).capture);

	/* Doomed as well: the explanation is first. */
	k = h_kernel(x, "fail", fn_fail, "the doom of it");
	h_launch(x, 2, k, 0, ARGS(W(in)));
	h_record(x, 1);
	ASSERT_EQ(CAPKM_SKIPPED, h_try_launch(x, 1, x->add, 1, ARGS(W(out), R(in)), 0).result);
	h_end_refused(x, NEIGHBOUR);
	doom = strstr(err.text, "the doom of it");
	ASSERT_NE(NULL, doom);
	ASSERT_GT(doom, strstr(err.text, "stream 33"));
	ASSERT_GT(doom, strchr(err.text, '\n'));

	/* CW-8: begun by a neighbour, the owner is who prepared it. */
	h_write(x, 1, in, 5);
	h_prepare(x, 1);
	h_begin(x, NEIGHBOUR);
	h_add(x, 1, out, in, 2);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 7);
}

/* Options of a window reach the authority. */
TEST_F(host, graph_options)
{
	struct ex *x = &self->x;
	struct t_window q;
	uint64_t w = 0;

	OK(capkm_host_graph_prepare(x->h, 1, WITH(struct capkm_host_graph_opts,
		.cookie = 4711, .mode = "relaxed", .flags = CAPKM_WINDOW_PREPARE_F_STRICT),
		&w, &err));
	q = t_window(self->a, w);
	ASSERT_EQ(4711, q.q.out_cookie);
	ASSERT_STREQ("relaxed", (char *)q.q.out_mode);
	ASSERT_EQ(1, q.q.out_strict);
	ASSERT_EQ(1, q.q.out_capture_cache);
	ASSERT_EQ(1, q.q.out_owner);
	h_abort(x, 1);
	REFUSED(-EOPNOTSUPP, capkm_host_graph_prepare(x->h, 1,
		WITH(struct capkm_host_graph_opts, .flags = 1u << 20), &w, &err));
	BEGINS("graph_prepare: ");
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 1).out_state);
	ASSERT_EQ(0, h_pool(x, 1).capture);
}

/* -------------------------------------------------- what a window does to others */

/*
 * T-107/sw CW-27: reads, syncs and profiles are refused while the slot records, also a
 * neighbour's; the window is none the worse for it.
 */
TEST_F(host, t107_sw_read_refused)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), bad = h_new(x, 1, 0), k, g, w;
	struct capkm_host_profile p;
	uint64_t data[N];

	k = h_kernel(x, "fail", fn_fail, NULL);
	h_launch(x, 1, k, 0, ARGS(W(bad)));
	/* D-3: not in the warm-up. */
	w = h_prepare(x, 1);
	h_is(x, 1, in, 5);
	h_sync(x, NEIGHBOUR);
	h_begin(x, 1);
	h_add(x, 1, out, in, 1);
	for (uint64_t s = 1; s <= NEIGHBOUR; s += 32) {
		REFUSED(-EBUSY, (memset(data, 0xcc, SIZE),
				 capkm_host_read(x->h, s, &(struct capkm_host_range){ in, 0, 0 },
						 data, NULL, &err)));
		SAYS("record");
		ASSERT_EQ(0xccccccccccccccccu, data[0]);
		/* SC-24: before it is looked whether it is tainted. */
		REFUSED(-EBUSY, capkm_host_read(x->h, s, &(struct capkm_host_range){ bad, 0, 0 },
						data, NULL, &err));
		REFUSED(-EBUSY, capkm_host_sync(x->h, s, &err));
		SAYS("record");
		memset(&p, 0xcc, sizeof(p));
		OK(capkm_host_profile_begin(x->h, s, &p, &err));
		OK(capkm_host_profile_end(x->h, s, &p, &err));
		ASSERT_EQ(0, p.timed);
	}
	/* Another slot reads. */
	h_is(x, 2, in, 5);
	h_is(x, 2, out, 0);
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	g = h_end(x, 1);
	h_is(x, 1, out, 0);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
}

/*
 * T-108/sw CW-28: the owner's write is refused, each destination of the call is
 * tainted with that, and the window is doomed.
 */
TEST_F(host, t108_sw_write_of_the_owner)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), d[2], data[N] = { 0 }, w, g;
	struct capkm_report reports[2];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = reports,
					   .reports_len = 2);
	struct capkm_host_write writes[2];
	struct capkm_report r;
	uint32_t result = 77;

	for (int i = 0; i < 2; i++) {
		d[i] = h_new(x, 1, 7);
		writes[i] = (struct capkm_host_write){ .to.memory = d[i], .data = data };
	}
	/* Of the second one some bytes only. */
	writes[1].to = (struct capkm_host_range)PART(d[1], 2, 4);
	w = h_record(x, 1);
	h_add(x, 1, out, in, 1);
	err.text[0] = 0;
	ASSERT_EQ(0, capkm_host_write(x->h, 1, writes, 2, &result, &err));
	ASSERT_EQ(CAPKM_REFUSED, result);
	SAYS("record");
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	r = h_is_tainted(x, d[0], CAPKM_KIND_REFUSED);
	ASSERT_EQ(r.failure, h_range_is_tainted(x, writes[1].to, CAPKM_KIND_REFUSED).failure);
	h_range_is_clean(x, ((struct capkm_host_range)PART(d[1], 0, 2)));
	h_range_is_clean(x, ((struct capkm_host_range)PART(d[1], 4, N)));
	/* CW-26: it goes on recording, and nothing runs. */
	h_add(x, 1, in, out, 1);
	ASSERT_EQ(2, t_window(self->a, w).q.out_launches);
	REFUSED(-ESTALE, capkm_host_graph_end(x->h, 1, &g, &a, &err));
	BEGINS("end_capture: ");
	SAYS("cannot be sealed");
	ASSERT_NE(NULL, strchr(err.text, '\n'));
	ASSERT_EQ(0, g);
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_EQ(2, a.out_reports);
	ASSERT_EQ(w, reports[0].window);
	ASSERT_EQ(r.failure, reports[1].failure);
	ASSERT_EQ(0, load(&x->ran));
	h_is_tainted(x, out, CAPKM_KIND_REFUSED);
	h_is_tainted(x, in, CAPKM_KIND_REFUSED);
	h_is_tainted(x, d[0], CAPKM_KIND_REFUSED);

	/* All is usable; what was not written is unreadable until it is. */
	h_write(x, 1, d[0], 8);
	h_is(x, 1, d[0], 8);
	h_range_is_tainted(x, writes[1].to, CAPKM_KIND_REFUSED);
	h_write(x, 1, in, 1);
	g = graph_of_add(x, 1, out, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 2);
	h_write(x, 1, d[1], 9);
	h_is(x, 1, d[1], 9);
	ASSERT_EQ(0, t_failures(self->a));
}

/* T-109/sw CW-28: a neighbour's write is refused too, but the capture is not doomed. */
TEST_F(host, t109_sw_write_of_a_neighbour)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), d = h_new(x, 1, 7), w, g;
	struct h_launched r;

	w = h_record(x, 1);
	h_add(x, 1, out, in, 1);
	r = h_try_write(x, NEIGHBOUR, d, 8);
	ASSERT_EQ(0, r.rc);
	ASSERT_EQ(CAPKM_REFUSED, r.result);
	SAYS("record");
	h_is_tainted(x, d, CAPKM_KIND_REFUSED);
	ASSERT_EQ(0, t_window(self->a, w).q.out_doomed);
	/* Another slot's write is nobody's business. */
	h_write(x, 2, in, 10);
	h_is(x, 2, in, 10);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 11);
	h_is_tainted(x, d, CAPKM_KIND_REFUSED);
	h_write(x, NEIGHBOUR, d, 9);
	h_is(x, 1, d, 9);
}

/* D-1 CW-25: a neighbour's launch and copy on the slot are recorded. */
TEST_F(host, launch_of_a_neighbour_is_recorded)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 0), b = h_new(x, 1, 0), w, g;

	w = h_record(x, 1);
	h_add(x, NEIGHBOUR, a, in, 1);
	OK(capkm_host_copy(x->h, NEIGHBOUR, &(struct capkm_host_range){ b, 0, 0 },
			   &(struct capkm_host_range){ a, 0, 0 }, NULL, &err));
	ASSERT_EQ(2, t_window(self->a, w).q.out_foreign_launches);
	h_is(x, 2, a, 0);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, a, 6);
	h_is(x, 1, b, 6);
}

/* CW-29 GR-23: a replay there is refused, taints what it writes, and dooms the window. */
TEST_F(host, cw29_replay_in_a_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), other = h_new(x, 1, 3), g, w;

	for (uint64_t s = 1; s <= NEIGHBOUR; s += 32) {
		struct h_launched r;

		g = graph_of_add(x, 1, out, in, 1);
		w = h_record(x, 1);
		h_add(x, 1, other, in, 2);
		r = h_try_replay(x, s, g);
		ASSERT_EQ(0, r.rc);
		ASSERT_EQ(CAPKM_REFUSED, r.result);
		SAYS("record");
		h_is_tainted(x, out, CAPKM_KIND_REFUSED);
		ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
		h_end_refused(x, 1);
		h_is_tainted(x, other, CAPKM_KIND_REFUSED);
		ASSERT_EQ(0, load(&x->ran));
		/* The graph is as good as before. */
		h_replay(x, 1, g);
		h_is(x, 1, out, 6);
		h_write(x, 1, other, 3);
		h_destroy(x, g);
		x->ran = 0;
	}
	/* On a slot that does not record it is none of the window's business. */
	g = graph_of_add(x, 1, out, in, 1);
	w = h_record(x, 1);
	h_replay(x, 2, g);
	h_is(x, 2, out, 6);
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	h_abort(x, 1);
}

/*
 * T-111/sw CW-31 CW-32: another stream works across the window, sees right results, and
 * leaves nothing in the recording.
 */
TEST_F(host, t111_sw_isolation)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), p = h_new(x, 2, 1), q = h_new(x, 2, 0);
	struct capkm_claim claim = h_claim(x, out);
	struct t_window seen;
	uint64_t w, g;

	h_add(x, 2, q, p, 1);
	w = h_prepare(x, 1);
	h_add(x, 2, q, q, 1);
	h_is(x, 2, q, 3);
	h_begin(x, 1);
	for (int i = 0; i < 20; i++) {
		h_add(x, 1, out, in, i);
		/* The same memory, also what the window has as its input. */
		h_launch(x, 2, x->add, 1, ARGS(W(q), R(q)));
		h_is(x, 2, q, 4 + i);
		h_add(x, 2, p, in, 100);
	}
	h_is(x, 2, p, 105);
	seen = t_window(self->a, w);
	ASSERT_EQ(20, seen.q.out_launches);
	ASSERT_EQ(0, seen.q.out_foreign_launches);
	ASSERT_EQ(0, seen.q.out_escaped);
	ASSERT_EQ(1, seen.q.out_recorded);
	/* GR-17 */
	ASSERT_EQ(0, seen.q.out_retained);
	g = h_end(x, 1);
	t_graph_is(self->a, h_find_graph(x, g), 0, C(claim));
	h_is(x, 1, out, 0);
	h_is(x, 2, q, 23);
	h_set(x, 2, q, 70);
	h_replay(x, 1, g);
	h_is(x, 1, out, 24);
	h_is(x, 2, q, 70);
	h_is(x, 2, p, 105);
}

/* CW-33 SC-21: an empty grid is no work: nothing recorded, nothing claimed or released. */
TEST_F(host, cw33_empty_grid)
{
	struct ex *x = &self->x;
	uint64_t out = h_new(x, 1, 3), bad = h_new(x, 1, 4), k, g = 0, w;
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .kernel = x->set);
	struct capkm_report r;
	uint32_t result;

	k = h_kernel(x, "fail", fn_fail, "earlier");
	h_launch(x, 1, k, 0, ARGS(W(bad)));
	r = h_is_tainted(x, bad, FAILED);
	l.args = (const struct capkm_host_arg[]){ W(out), W(bad) };
	l.args_len = 2;
	w = h_record(x, 1);
	for (int i = 0; i < 6; i++) {
		if (i == 3)
			g = h_end(x, 1);
		for (int j = 0; j < 3; j++)
			l.grid[j] = j != i % 3;
		result = 77;
		OK(capkm_host_launch(x->h, 1, &l, &result, &err));
		ASSERT_EQ(CAPKM_CLEAN, result);
		ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
	}
	h_replay(x, 1, g);
	h_is(x, 1, out, 3);
	ASSERT_EQ(r.failure, h_is_tainted(x, bad, FAILED).failure);
	ASSERT_EQ(0, load(&x->ran));
}

/*
 * T-112/sw C61: a launch fails in the window, for it does not compile: the end is
 * refused, and what was recorded reads as failed and names the cause until rewritten.
 */
static int bad_compiler(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	__atomic_fetch_add((int *)context, 1, __ATOMIC_SEQ_CST);
	snprintf(why, why_size, "unknown instruction");
	return 22;
}

static uint64_t kernel_that_compiles(struct ex *x, const char *name,
				     int (*compile)(void *, capkm_host_fn *, char *, size_t),
				     void *context)
{
	uint64_t k = 0;

	if (capkm_host_kernel_create(x->h, WITH(struct capkm_host_kernel, .name = name,
				     .compile = compile, .context = context), &k, &err))
		t_die("kernel_create: %s", err.text);
	return k;
}

TEST_F(host, t112_sw_failed_launch_in_the_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 1), b = h_new(x, 1, 2), k, g, w;
	struct h_launched l;
	int asked = 0;

	k = kernel_that_compiles(x, "bad code", bad_compiler, &asked);
	w = h_record(x, 1);
	h_add(x, 1, a, in, 1);
	l = h_try_launch(x, 1, k, 0, ARGS(W(b), R(in)), 0);
	ASSERT_EQ(0, l.rc);
	ASSERT_EQ(CAPKM_TAINTED, l.result);
	SAYS("unknown instruction");
	HAS(h_is_tainted(x, b, FAILED).text, "unknown instruction");
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	h_end_refused(x, 1);
	SAYS("unknown instruction");
	HAS(h_is_tainted(x, a, CAPKM_KIND_REFUSED).text, "unknown instruction");
	HAS(h_is_tainted(x, b, FAILED).text, "unknown instruction");
	h_is(x, 1, in, 5);
	h_set(x, 1, a, 1);
	h_set(x, 1, b, 2);
	h_is(x, 1, a, 1);
	h_is(x, 1, b, 2);
	ASSERT_EQ(0, t_failures(self->a));
	g = graph_of_add(x, 1, a, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, a, 6);
}

/* T-112/sw: the same for a launch that is skipped, since an input is tainted. */
TEST_F(host, t112_sw_skipped_launch_in_the_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), bad = h_new(x, 1, 0), a = h_new(x, 1, 1), b = h_new(x, 1, 2);
	struct h_launched l;
	uint64_t k, w;

	k = h_kernel(x, "fail", fn_fail, "root of all");
	h_launch(x, 2, k, 0, ARGS(W(bad)));
	h_sync(x, 2);
	w = h_record(x, 1);
	h_add(x, 1, a, in, 1);
	l = h_try_launch(x, 1, x->add, 0, ARGS(W(b), R(bad)), 0);
	ASSERT_EQ(0, l.rc);
	ASSERT_EQ(CAPKM_SKIPPED, l.result);
	HAS(h_is_tainted(x, b, FAILED).text, "root of all");
	ASSERT_EQ(1, t_window(self->a, w).q.out_doomed);
	h_end_refused(x, 1);
	SAYS("root of all");
	HAS(h_is_tainted(x, a, CAPKM_KIND_REFUSED).text, "root of all");
	h_write(x, 1, a, 1);
	h_write(x, 1, b, 2);
	h_write(x, 1, bad, 3);
	h_sync(x, 1);
	ASSERT_EQ(0, t_failures(self->a));
	/* What the window itself writes first is no tainted input. */
	h_launch(x, 2, k, 0, ARGS(W(bad)));
	h_sync(x, 2);
	h_record(x, 1);
	h_add(x, 1, bad, in, 1);
	h_add(x, 1, b, bad, 1);
	h_replay(x, 2, h_end(x, 1));
	h_is(x, 1, b, 7);
}

/* T-117/sw: a profile that is refused in a window costs the timing and nothing else. */
TEST_F(host, t117_sw_profile)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;
	struct capkm_host_profile p;

	k = h_kernel(x, "fail", fn_fail, NULL);
	memset(&p, 0xcc, sizeof(p));
	OK(capkm_host_profile_begin(x->h, NEIGHBOUR, &p, &err));
	h_add(x, 1, out, in, 1);
	OK(capkm_host_profile_end(x->h, NEIGHBOUR, &p, &err));
	ASSERT_EQ(1, p.timed);
	ASSERT_EQ(1, p.slot);
	ASSERT_EQ(0, p.failures);
	ASSERT_EQ(1, load(&x->ran));
	/* SC-10: of what fails or is skipped meanwhile it hears. */
	OK(capkm_host_profile_begin(x->h, 1, &p, &err));
	h_launch(x, 1, k, 0, ARGS(W(in)));
	h_add(x, 1, out, in, 1);
	OK(capkm_host_profile_end(x->h, 1, &p, &err));
	ASSERT_EQ(1, p.timed);
	ASSERT_EQ(2, p.failures);
	/* Not begun. */
	memset(&p, 0, sizeof(p));
	REFUSED(-EINVAL, capkm_host_profile_end(x->h, 1, &p, &err));

	h_write(x, 1, in, 5);
	/* The window is opened in between, or closed. */
	OK(capkm_host_profile_begin(x->h, 1, &p, &err));
	h_record(x, 1);
	h_add(x, 1, out, in, 2);
	OK(capkm_host_profile_end(x->h, 1, &p, &err));
	ASSERT_EQ(0, p.timed);
	OK(capkm_host_profile_begin(x->h, 1, &p, &err));
	ASSERT_EQ(0, p.timed);
	h_add(x, 1, in, out, 3);
	g = h_end(x, 1);
	h_set(x, 1, out, 1);
	OK(capkm_host_profile_end(x->h, 1, &p, &err));
	ASSERT_EQ(0, p.timed);
	h_is(x, 1, out, 1);
	OK(capkm_host_profile_begin(x->h, 1, &p, &err));
	h_replay(x, 1, g);
	OK(capkm_host_profile_end(x->h, 1, &p, &err));
	ASSERT_EQ(1, p.timed);
	h_is(x, 1, out, 7);
	h_is(x, 1, in, 10);
}

/* A window that another thread of the program takes away, from under the executor. */
enum taking { ABANDONED, ABORTED, STREAM_DESTROYED };

static void is_taken_away(struct __test_metadata *_metadata, SELF *self, enum taking how,
			  bool member)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 1), b = h_new(x, 1, 2), w, g = 77;
	const struct capkm_host_range from = { .memory = in }, to = { .memory = b };
	uint64_t old = graph_of_add(x, 3, b, in, 3);
	struct capkm_host_event e;
	uint64_t s = 1;
	int ran = load(&x->ran);

	w = h_record(x, 1);
	h_add(x, 1, a, in, 1);
	if (member) {
		OK(capkm_host_event_record(x->h, 1, &e, &err));
		OK(capkm_host_event_wait(x->h, 2, &e, &err));
		s = 2;
	}
	if (how == ABORTED)
		OK(capkm_window_abort(self->a->c, &(struct capkm_where){ .stream = 1 }, w,
				      NULL, &err));
	else if (how == ABANDONED)
		OK(capkm_window_abandon(self->a->c, w, &err));
	else
		ASSERT_EQ(1, t_destroy_stream(self->a, 1));
	/* Whoever records must not go on as if nothing had happened. */
	for (int i = 0; i < 2; i++) {
		REFUSED(-ECANCELED, h_try_launch(x, s, x->add, 1, ARGS(W(b), R(in)), 0).rc);
		REFUSED(-ECANCELED, capkm_host_copy(x->h, s, &to, &from, NULL, &err));
		REFUSED(-ECANCELED, h_try_replay(x, s, old).rc);
	}
	h_destroy(x, old);
	g = 77;
	ASSERT_GT(0, capkm_host_graph_end(x->h, 1, &g, NULL, &err));
	ASSERT_EQ(0, g);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	ASSERT_EQ(0, h_stats(x).recording);
	ASSERT_EQ(0, h_stats(x).graphs);
	h_is_tainted(x, a, how == ABANDONED ? CAPKM_KIND_ABANDONED : CAPKM_KIND_ABORTED);
	ASSERT_EQ(ran, load(&x->ran));
	/* Then the slots are as new. */
	h_add(x, s, b, in, 1);
	h_is(x, 2, b, 6);
	h_write(x, 1, a, 0);
	g = graph_of_add(x, 1, a, in, 1);
	h_replay(x, 1, g);
	h_is(x, 1, a, 6);
	h_destroy(x, g);
}

TEST_F(host, taken_away)
{
	is_taken_away(_metadata, self, ABANDONED, false);
	is_taken_away(_metadata, self, ABORTED, false);
	is_taken_away(_metadata, self, STREAM_DESTROYED, false);
}

TEST_F(host, taken_away_from_a_member)
{
	is_taken_away(_metadata, self, ABANDONED, true);
	is_taken_away(_metadata, self, ABORTED, true);
	is_taken_away(_metadata, self, STREAM_DESTROYED, true);
}

/* By a thread that does nothing else, at any moment. */
struct thief {
	SELF *self;
	int stop, taken;
	pthread_t thread;
};

static void *take_away(void *arg)
{
	struct thief *t = arg;
	struct capkm *c = t->self->a->c;
	const struct capkm_where where = { .stream = 1 };
	uint64_t w;

	while (!load(&t->stop)) {
		struct capkm_stream_query q = { .size = sizeof(q), .place.stream = 1 };

		if (capkm_stream_query(c, &q, NULL) || !q.out_window)
			continue;
		if (q.out_window % 2 ? !capkm_window_abandon(c, q.out_window, NULL) :
		    !capkm_window_abort(c, &where, 0, &w, NULL) && w)
			store(&t->taken, load(&t->taken) + 1);
		/* The next ones may live. */
		usleep(q.out_window % 7 * 50);
	}
	return NULL;
}

TEST_F(host, taken_away_at_any_time)
{
	struct ex *x = &self->x;
	struct thief thief = { .self = self };
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), want = 0, g;
	int graphs = 0;

	ASSERT_EQ(0, pthread_create(&thief.thread, NULL, take_away, &thief));
	/* Who is faster is nobody's promise: so many rounds are enough, if any was taken. */
	for (uint64_t i = 0; !load(&thief.taken) ||
	     (i < 1000 && (load(&thief.taken) < 100 || graphs < 50)); i++) {
		bool well = !capkm_host_graph_prepare(x->h, 1, NULL, NULL, NULL) &&
			    !capkm_host_graph_begin(x->h, 1, NULL);

		for (int n = 0; n < 3; n++) {
			struct h_launched l = h_try_launch(x, 1, x->add, 1000 + i + n,
							   ARGS(W(out), R(in)), 0);

			ASSERT_TRUE(!l.rc || l.rc == -ECANCELED);
			if (!l.rc && l.result == CAPKM_CLEAN)
				want = 1005 + i + n;
			well &= !l.rc;
			sched_yield();
		}
		if (capkm_host_graph_end(x->h, 1, &g, NULL, NULL)) {
			ASSERT_EQ(0, g);
			h_write(x, 1, out, want = i);
			h_is(x, 1, out, want);
			continue;
		}
		/* What did not go well must not be a graph. */
		ASSERT_TRUE(well);
		graphs++;
		h_write(x, 1, out, 0);
		h_replay(x, 1, g);
		h_is(x, 1, out, 1007 + i);
		h_destroy(x, g);
	}
	store(&thief.stop, 1);
	pthread_join(thief.thread, NULL);
	h_abort(x, 1);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	ASSERT_EQ(0, h_stats(x).prepared);
	ASSERT_EQ(0, h_stats(x).recording);
	ASSERT_EQ(0, h_stats(x).graphs);
}

/* Taken away in the warm-up: there is nothing to begin, and all can be done again. */
TEST_F(host, taken_away_while_prepared)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), w, g;

	for (int i = 0; i < 2; i++) {
		w = h_prepare(x, 1);
		h_add(x, 1, out, in, 1);
		if (i)
			OK(capkm_window_abort(self->a->c,
					      &(struct capkm_where){ .stream = 1 }, w, NULL,
					      &err));
		else
			OK(capkm_window_abandon(self->a->c, w, &err));
		h_add(x, 1, out, in, 2);
		ASSERT_GT(0, capkm_host_graph_begin(x->h, 1, &err));
		BEGINS("begin_capture: ");
		capkm_host_graph_abort(x->h, 1, NULL);
		ASSERT_EQ(0, h_pool(x, 1).capture);
		ASSERT_EQ(0, h_stats(x).prepared);
		h_is(x, 1, out, 7);
		g = graph_of_add(x, 1, out, in, 3);
		h_replay(x, 1, g);
		h_is(x, 1, out, 8);
	}
}

/* Taken away, and another window is begun there on the raw handle: it is not ours. */
TEST_F(host, replaced_by_a_foreign_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 1), b = h_new(x, 1, 2), g = 77, w;

	w = h_record(x, 1);
	h_add(x, 1, out, in, 1);
	OK(capkm_window_abandon(self->a->c, w, &err));
	t_record(self->a, 1);
	REFUSED(-ECANCELED, h_try_launch(x, 1, x->add, 1, ARGS(W(b), R(in)), 0).rc);
	ASSERT_GT(0, capkm_host_graph_end(x->h, 1, &g, NULL, &err));
	ASSERT_EQ(0, g);
	h_is_tainted(x, out, CAPKM_KIND_ABANDONED);
	ASSERT_EQ(0, load(&x->ran));
	ASSERT_EQ(0, h_stats(x).graphs);
	ASSERT_EQ(0, h_pool(x, 1).capture);
	t_abort(self->a, 1);
	h_add(x, 1, out, in, 2);
	h_is(x, 1, out, 7);
}

/* ---------------------------------------------------------- failures and inputs */

/*
 * T-120/sw SC-20: the buffer with the grid is an input: tainted, it skips the launch. A
 * grid of nothing is no work, and leaves what the outputs carry.
 */
TEST_F(host, t120_sw_dynamic_grid)
{
	struct ex *x = &self->x;
	uint64_t grid = h_alloc_bytes(x, 1, 64), in = h_new(x, 1, 5), out = h_new(x, 1, 0);
	uint32_t data[3] = { 1, 2, 3 };
	struct capkm_host_write write = { .to = { grid, 16, 28 }, .data = data };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .kernel = x->add,
		.args_len = 2, .grid = { 9, 9, 9 }, .grid_range = { grid, 16, 28 });
	struct capkm_report r;
	uint64_t k;

	l.args = (const struct capkm_host_arg[]){ W(out), R(in) };
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	h_is(x, 1, out, 5);
	ASSERT_EQ(1, load(&x->ran));

	k = h_kernel(x, "fail", fn_fail, "no count");
	h_launch(x, 2, k, 0, ARGS({ .range = { grid, 24, 32 }, .access = CAPKM_HOST_WRITE }));
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	r = h_is_tainted(x, out, FAILED);
	HAS(r.text, "no count");
	ASSERT_EQ(1, load(&x->ran));
	/* Each of the three is enough, and what is tainted stays so. */
	for (int i = 0; i < 3; i++) {
		for (int j = 0; j < 3; j++)
			data[j] = i != j;
		OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
		OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
		ASSERT_EQ(r.failure, h_is_tainted(x, out, FAILED).failure);
		ASSERT_EQ(1, load(&x->ran));
	}
	data[2] = 1;
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	h_is(x, 1, out, 5);
	/* Exactly twelve bytes, of the memory. */
	l.grid_range.end = 27;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	l.grid_range = (struct capkm_host_range){ grid, 56, 68 };
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	l.grid_range.memory = out + 12345;
	ASSERT_GT(0, capkm_host_launch(x->h, 1, &l, NULL, &err));
	ASSERT_EQ(2, load(&x->ran));
}

struct seen {
	uint32_t grid[3];
};

static int fn_grid(const struct capkm_host_call *call)
{
	memcpy(((struct seen *)call->context)->grid, call->grid, sizeof(call->grid));
	return 0;
}

/* The function gets the grid that is there when it runs, also in a replay. */
TEST_F(host, grid_is_what_the_function_gets)
{
	struct ex *x = &self->x;
	uint64_t grid = h_alloc_bytes(x, 1, 12), k, g;
	uint32_t data[3];
	struct capkm_host_write write = { .to.memory = grid, .data = data };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .grid = { 4, 5, 6 });
	struct seen seen = { { 0 } };

	k = h_kernel(x, "grid", fn_grid, &seen);
	l.kernel = k;
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	h_sync(x, 1);
	ASSERT_EQ(6, seen.grid[2]);
	l.grid_range.memory = grid;
	l.grid_range.end = 12;
	memcpy(data, (uint32_t[]){ 1, 1, 1 }, 12);
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	h_record(x, 1);
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	g = h_end(x, 1);
	for (uint32_t i = 7; i < 9; i++) {
		memcpy(data, (uint32_t[]){ i, 2, 3 }, 12);
		OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
		h_replay(x, 1, g);
		h_sync(x, 1);
		ASSERT_EQ(i, seen.grid[0]);
	}
}

/* In a replay too: what a launch of no work did not write is not clean for that. */
TEST_F(host, replay_with_an_empty_dynamic_grid)
{
	struct ex *x = &self->x;
	uint64_t grid = h_alloc_bytes(x, 1, 12), in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;
	uint32_t data[3] = { 1, 1, 1 };
	struct capkm_host_write write = { .to.memory = grid, .data = data };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .kernel = x->add,
		.args_len = 2, .grid_range = { grid, 0, 12 });

	l.args = (const struct capkm_host_arg[]){ W(out), R(in) };
	k = h_kernel(x, "fail", fn_fail, "stale");
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	h_record(x, 1);
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 5);
	data[1] = 0;
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	/* It was clean, and nobody has written it since. */
	h_replay(x, 1, g);
	h_sync(x, 1);
	ASSERT_EQ(1, load(&x->ran));
	h_launch(x, 1, k, 0, ARGS(W(out)));
	h_is_tainted(x, out, FAILED);
	h_replay(x, 1, g);
	h_is_tainted(x, out, FAILED);
	ASSERT_EQ(1, load(&x->ran));
	data[1] = 1;
	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	h_replay(x, 1, g);
	h_is(x, 1, out, 5);
}

static int fn_sum(const struct capkm_host_call *call)
{
	struct capkm_host_call c = *call;

	c.context = NULL;
	return fn_add(&c);
}

static int good_compiler(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	__atomic_fetch_add((int *)context, 1, __ATOMIC_SEQ_CST);
	*fn = fn_sum;
	return 0;
}

static int no_function(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	return 0;
}

/*
 * T-121/sw SC-19: what does not compile taints its outputs, not its inputs; a dry run
 * taints and runs nothing. What compiles is compiled once.
 */
TEST_F(host, t121_sw_compile_failure)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), both = h_new(x, 1, 7), k, good, none;
	struct capkm_report r;
	struct h_launched l;
	int asked = 0, made = 0;

	k = kernel_that_compiles(x, "bad code", bad_compiler, &asked);
	l = h_try_launch(x, 1, k, 0, ARGS(W(out), R(in)), CAPKM_HOST_LAUNCH_F_DRY_RUN);
	ASSERT_EQ(-ENOEXEC, l.rc);
	SAYS("unknown instruction");
	h_is(x, 1, out, 6);
	l = h_try_launch(x, 1, k, 0, ARGS(W(out), R(in), RW(both)), 0);
	ASSERT_EQ(0, l.rc);
	ASSERT_EQ(CAPKM_TAINTED, l.result);
	SAYS("unknown instruction");
	SAYS("bad code");
	r = h_is_tainted(x, out, FAILED);
	HAS(r.text, "unknown instruction");
	ASSERT_STREQ("bad code", (char *)r.label);
	ASSERT_EQ(r.failure, h_is_tainted(x, both, FAILED).failure);
	h_is(x, 1, in, 5);
	/* Nobody asks for the words. */
	ASSERT_EQ(0, capkm_host_launch(x->h, 1, WITH(struct capkm_host_launch, .kernel = k,
						.grid = { 1, 1, 1 }), NULL, NULL));
	none = kernel_that_compiles(x, "no function", no_function, NULL);
	l = h_try_launch(x, 1, none, 0, ARGS(W(both)), 0);
	ASSERT_EQ(0, l.rc);
	ASSERT_EQ(CAPKM_TAINTED, l.result);

	good = kernel_that_compiles(x, "good code", good_compiler, &made);
	ASSERT_EQ(0, made);
	l = h_try_launch(x, 1, good, 1, ARGS(W(out), R(in)), CAPKM_HOST_LAUNCH_F_DRY_RUN);
	ASSERT_EQ(0, l.rc);
	ASSERT_EQ(1, made);
	h_is_tainted(x, out, FAILED);
	/* A dry run of an input that is tainted is no more than that. */
	l = h_try_launch(x, 1, good, 1, ARGS(W(in), R(out)), CAPKM_HOST_LAUNCH_F_DRY_RUN);
	ASSERT_EQ(0, l.rc);
	h_is(x, 1, in, 5);
	h_launch(x, 1, good, 1, ARGS(W(out), R(in)));
	h_launch(x, 2, good, 1, ARGS(W(both), R(out)));
	h_is(x, 1, out, 6);
	h_is(x, 2, both, 7);
	ASSERT_EQ(1, made);
	ASSERT_EQ(0, t_failures(self->a));

	/* What does not compile is not skipped for its inputs, it has failed by itself. */
	h_launch(x, 2, h_kernel(x, "fail", fn_fail, "bad input"), 0, ARGS(W(in)));
	l = h_try_launch(x, 1, k, 0, ARGS(W(out), R(in)), 0);
	ASSERT_EQ(CAPKM_TAINTED, l.result);
	HAS(h_is_tainted(x, out, FAILED).text, "unknown instruction");
}

static int calling_compiler(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	struct ex *x = context;

	*fn = fn_sum;
	return capkm_host_sync(x->h, 2, NULL) != -EDEADLK ||
	       h_try_launch(x, 2, x->set, 1, NO_ARGS, 0).rc != -EDEADLK;
}

static int leaving_compiler(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	pthread_exit(NULL);
}

static void *launch_and_leave(void *arg)
{
	struct ex *x = arg;

	h_try_launch(x, 1, kernel_that_compiles(x, "leaves", leaving_compiler, NULL), 0,
		     NO_ARGS, 0);
	return x;
}

/* A compiler is the executor's guest as well; it may end the thread of its caller. */
TEST_F(host, compiler_misbehaves)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k;
	void *came_back = x;
	pthread_t thread;

	k = kernel_that_compiles(x, "calls", calling_compiler, x);
	h_launch(x, 1, k, 1, ARGS(W(out), R(in)));
	h_is(x, 1, out, 6);
	ASSERT_EQ(0, pthread_create(&thread, NULL, launch_and_leave, x));
	pthread_join(thread, &came_back);
	ASSERT_EQ(NULL, came_back);
	h_add(x, 1, out, in, 2);
	h_is(x, 1, out, 7);
}

/* A dry run in a window records nothing, and dooms nothing. */
TEST_F(host, dry_run_in_a_window)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), k, w, g;
	int asked = 0;

	k = kernel_that_compiles(x, "bad code", bad_compiler, &asked);
	w = h_record(x, 1);
	ASSERT_EQ(0, h_try_launch(x, 1, x->add, 1, ARGS(W(out), R(in)),
				  CAPKM_HOST_LAUNCH_F_DRY_RUN).rc);
	ASSERT_EQ(-ENOEXEC, h_try_launch(x, 1, k, 1, ARGS(W(out), R(in)),
					 CAPKM_HOST_LAUNCH_F_DRY_RUN).rc);
	ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	ASSERT_EQ(0, load(&x->ran));
}

/* F_POISON: it runs although an input is tainted, and its outputs carry that. */
TEST_F(host, poisoned_launch_runs)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), k;
	struct capkm_report r;

	k = h_kernel(x, "fail", fn_fail, "poison");
	h_launch(x, 1, k, 0, ARGS(W(in)));
	r = h_is_tainted(x, in, FAILED);
	ASSERT_EQ(0, h_try_launch(x, 2, x->add, 1, ARGS(W(out), R(in)),
				  CAPKM_HOST_LAUNCH_F_POISON).rc);
	ASSERT_EQ(r.failure, h_is_tainted(x, out, FAILED).failure);
	ASSERT_EQ(1, load(&x->ran));
}

/*
 * T-122/sw: a consumer on another stream meets the failure of the producer, and names
 * it; memory that the producer's owner drops is not used again before the consumer is
 * done.
 */
TEST_F(host, t122_sw_across_streams)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t a = h_new(x, 1, 5), b = h_new(x, 2, 0), c = h_new(x, 3, 0), s[16], k, fails;
	struct capkm_report r;

	k = h_kernel(x, "gated", fn_gated, &gate);
	fails = h_kernel(x, "producer", fn_fail, "root of all");
	/* The failure comes after everything has been issued. */
	h_launch(x, 1, k, 0, ARGS(W(a)));
	gate_await(&gate, 1);
	h_launch(x, 1, fails, 0, ARGS(W(a)));
	h_add(x, 2, b, a, 1);
	h_add(x, 3, c, b, 1);
	gate_open(&gate);
	r = h_is_tainted(x, c, FAILED);
	HAS(r.text, "root of all");
	ASSERT_STREQ("producer", (char *)r.label);
	ASSERT_EQ(2, r.hops);
	ASSERT_EQ(r.failure, h_is_tainted(x, a, FAILED).failure);
	ASSERT_EQ(r.failure, h_is_tainted(x, b, FAILED).failure);
	ASSERT_EQ(0, load(&x->ran));
	ASSERT_EQ(1, h_stats(x).failed);
	ASSERT_EQ(2, h_stats(x).skipped);

	/* The producer's bytes, while the consumer waits. */
	gate_close(&gate);
	h_write(x, 1, a, 40);
	h_launch(x, 2, k, 1, ARGS(W(b), R(a)));
	gate_await(&gate, 1);
	h_add(x, 3, c, a, 2);
	h_free(x, a);
	for (int i = 0; i < 16; i++) {
		s[i] = h_new(x, 1, 1000);
		h_is(x, 1, s[i], 1000);
	}
	gate_open(&gate);
	h_is(x, 2, b, 41);
	h_is(x, 3, c, 42);
}

/*
 * T-118/sw: memory that could not be had is refused by check and read; other memory
 * passes, and the answer is about this one only.
 */
TEST_F(host, t118_sw_memory_that_could_not_be_had)
{
	const struct capkm_pool_area area = {
		.kind = CAPKM_POOL_SLICED, .page_bytes = 4096, .capacity = 4096,
	};
	struct ex *x = &self->x;
	struct capkm_report r[3];
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = r, .reports_len = 3);
	uint64_t ok, lazy = 0, none = 77, last, data[N];
	struct capkm_host_range ranges[3] = { { 0 } };

	recreate(self, WITH(struct capkm_host_opts, .areas = &area, .areas_len = 1));
	ok = h_alloc_bytes(x, 1, 4096 - SIZE);
	last = h_new(x, 1, 3);
	REFUSED(-ENOSPC, capkm_host_alloc(x->h, 1, 1000, 0, &none, &err));
	SAYS("1000");
	SAYS("4096");
	OK(capkm_host_alloc(x->h, 1, 1000, CAPKM_HOST_ALLOC_F_LAZY, &lazy, &err));
	ASSERT_NE(0, lazy);
	ranges[0].memory = ok;
	ranges[1].memory = lazy;
	ranges[2].memory = last;
	OK(capkm_host_check(x->h, ranges, 3, &a, &err));
	ASSERT_EQ(CAPKM_TAINTED, a.out_result);
	ASSERT_EQ(1, a.out_reports);
	ASSERT_EQ(CAPKM_KIND_IO, r[0].kind);
	ASSERT_EQ(-ENOSPC, r[0].code);
	HAS(r[0].text, "1000");
	h_is(x, 1, last, 3);
	ASSERT_GT(0, capkm_host_read(x->h, 1, &(struct capkm_host_range){ lazy, 0, SIZE }, data,
				     NULL, &err));
	/* As an input it skips, and nothing can be written to it. */
	h_launch(x, 1, x->add, 1, ARGS(W(last), { .range = { lazy, 0, SIZE },
						  .access = CAPKM_HOST_READ }));
	ASSERT_EQ(r[0].failure, h_is_tainted(x, last, CAPKM_KIND_IO).failure);
	for (int i = 0; i < 4; i++) {
		struct capkm_host_range some = { lazy, 0, SIZE };
		struct capkm_host_write w = { .to = some, .data = data };

		h_write(x, 1, last, 3);
		/* Beside it, what else that launch would have written. */
		if (!i)
			h_launch(x, 1, x->set, 1, ARGS(W(last), { .range = some,
						.access = CAPKM_HOST_WRITE }));
		else if (i == 1)
			OK(capkm_host_copy(x->h, 1, &some, &(struct capkm_host_range){ last, 0, 0 },
					   NULL, &err));
		else if (i == 2)
			OK(capkm_host_copy(x->h, 1, &(struct capkm_host_range){ last, 0, 0 }, &some,
					   NULL, &err));
		else
			OK(capkm_host_write(x->h, 1, &w, 1, NULL, &err));
		h_sync(x, 1);
		ASSERT_EQ(0, load(&x->ran));
		OK(capkm_host_check(x->h, ranges, 2, &a, &err));
		ASSERT_EQ(CAPKM_TAINTED, a.out_result);
		if (i % 2)
			h_is(x, 1, last, 3);
		else
			h_is_tainted(x, last, FAILED);
	}
	h_free(x, lazy);
	REFUSED(-ENOENT, capkm_host_free(x->h, lazy, &err));
	/* With room there is nothing lazy about it. */
	h_free(x, ok);
	OK(capkm_host_alloc(x->h, 1, SIZE, CAPKM_HOST_ALLOC_F_LAZY, &lazy, &err));
	h_set(x, 1, lazy, 4);
	h_is(x, 1, lazy, 4);
}

/* SC-16 SC-17: bytes: what is written is released, and a read over one other byte fails. */
TEST_F(host, sc17_partial_writes)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 1), k, data[N];
	struct capkm_host_write w = { .to = PART(m, 0, 4), .data = data };

	k = h_kernel(x, "fail", fn_fail, "half");
	memset(data, 0, sizeof(data));
	h_launch(x, 1, k, 0, ARGS({ .range = PART(m, 2, 6), .access = CAPKM_HOST_WRITE }));
	h_range_is_clean(x, ((struct capkm_host_range)PART(m, 0, 2)));
	h_range_is_clean(x, ((struct capkm_host_range)PART(m, 6, N)));
	h_range_is_tainted(x, ((struct capkm_host_range)PART(m, 0, 3)), FAILED);
	OK(capkm_host_write(x->h, 1, &w, 1, NULL, &err));
	h_range_is_clean(x, ((struct capkm_host_range)PART(m, 0, 4)));
	h_range_is_tainted(x, ((struct capkm_host_range)PART(m, 3, 5)), FAILED);
	OK(capkm_host_read(x->h, 1, &(struct capkm_host_range)PART(m, 6, N), data, NULL, &err));
	ASSERT_EQ(1, data[0]);
	/* The last bytes by a launch that succeeds. */
	h_launch(x, 1, x->set, 1, ARGS({ .range = PART(m, 0, 6), .access = CAPKM_HOST_WRITE }));
	h_is(x, 1, m, 1);
	ASSERT_EQ(0, t_failures(self->a));
}

/* A function that fails, with a text and without; what it read and others wrote is fine. */
TEST_F(host, function_fails)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 6), b = h_new(x, 1, 7), k[3];
	struct capkm_stream_flush f = { .size = sizeof(f), .place.stream = 1 };
	struct capkm_report r, queued;
	static char longer[4000];

	memset(longer, 'x', sizeof(longer) - 1);
	k[0] = h_kernel(x, "with words", fn_fail, "division by cucumber");
	k[1] = h_kernel(x, "without", fn_fail, NULL);
	k[2] = h_kernel(x, "too many", fn_fail, longer);
	for (int i = 0; i < 3; i++) {
		h_launch(x, 1, k[i], 0, ARGS(W(a), R(in)));
		r = h_is_tainted(x, a, FAILED);
		ASSERT_EQ(7, r.code);
		ASSERT_EQ(1, r.stream);
		ASSERT_NE(0, r.scope);
		ASSERT_STREQ(i ? i > 1 ? "too many" : "without" : "with words",
			     (char *)r.label);
		if (!i)
			HAS(r.text, "division by cucumber");
		if (i > 1)
			HAS(r.text, "xxxxxxxxxx");
		h_is(x, 1, in, 5);
		h_is(x, 1, b, 7);
		/* It is queued for the stream, once. */
		f.reports_uptr = t_ptr(&queued);
		f.reports_len = 1;
		OK(capkm_stream_flush(self->a->c, &f, &err));
		ASSERT_EQ(1, f.out_reports);
		ASSERT_EQ(r.failure, queued.failure);
		ASSERT_EQ(0, f.out_left);
		h_set(x, 1, a, 8);
		h_is(x, 1, a, 8);
	}
	ASSERT_EQ(3, h_stats(x).failed);
	ASSERT_EQ(0, t_failures(self->a));
}

static int fn_leave(const struct capkm_host_call *call)
{
	memset(call->args[0], 0x55, call->bytes[0]);
	pthread_exit(NULL);
}

/*
 * SC-15: a function ends its thread: the scope fails, "torn down", the slot gets another
 * thread, and what was queued behind it runs.
 */
TEST_F(host, function_ends_its_thread)
{
	struct ex *x = &self->x;
	uint64_t a = h_new(x, 1, 5), b = h_new(x, 1, 6), k, g;

	k = h_kernel(x, "leaves", fn_leave, NULL);
	for (int i = 0; i < 3; i++) {
		struct capkm_report r;

		h_launch(x, 1, k, 0, ARGS(W(a)));
		h_set(x, 1, b, 7 + i);
		h_is(x, 1, b, 7 + i);
		r = h_is_tainted(x, a, FAILED);
		HAS(r.text, "torn down");
		ASSERT_STREQ("leaves", (char *)r.label);
		ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	}
	/* In the middle of a replay: what it would have written afterwards too. */
	h_write(x, 1, a, 1);
	h_record(x, 1);
	h_launch(x, 1, k, 0, ARGS(W(a)));
	h_set(x, 1, b, 11);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	HAS(h_is_tainted(x, a, FAILED).text, "torn down");
	HAS(h_is_tainted(x, b, FAILED).text, "torn down");
	h_destroy(x, g);
	/* As the last thing before the end of the executor. */
	h_launch(x, 1, k, 0, ARGS(W(a)));
}

/* Its thread is cancelled in there: the same. */
extern void __asan_handle_no_return(void) __attribute__((weak));

static int fn_cancelled(const struct capkm_host_call *call)
{
	/* The sanitizer knows of pthread_exit() only that it leaves frames behind. */
	if (__asan_handle_no_return)
		__asan_handle_no_return();
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return 0;
}

TEST_F(host, function_is_cancelled)
{
	struct ex *x = &self->x;
	uint64_t a = h_new(x, 1, 5), k;

	k = h_kernel(x, "cancelled", fn_cancelled, NULL);
	h_launch(x, 1, k, 0, ARGS(W(a)));
	HAS(h_is_tainted(x, a, FAILED).text, "torn down");
	h_write(x, 1, a, 6);
	h_is(x, 1, a, 6);
}

/* It is to be cancelled, and gets away with it; whoever comes next may not. */
static int fn_cancelled_later(const struct capkm_host_call *call)
{
	pthread_cancel(pthread_self());
	return fn_sum(call);
}

static int fn_cancellable(const struct capkm_host_call *call)
{
	if (__asan_handle_no_return)
		__asan_handle_no_return();
	pthread_testcancel();
	return fn_sum(call);
}

TEST_F(host, function_is_cancelled_later)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 1), b = h_new(x, 1, 2), k, next, data[N];

	k = h_kernel(x, "cancelled later", fn_cancelled_later, NULL);
	next = h_kernel(x, "cancellable", fn_cancellable, NULL);
	for (int i = 0; i < 3; i++) {
		h_launch(x, 1, k, i, ARGS(W(a), R(in)));
		h_is(x, 1, a, 5 + i);
		h_launch(x, 1, next, i, ARGS(W(b), R(in)));
		if (h_try_read(x, 1, b, data))
			HAS(h_is_tainted(x, b, FAILED).text, "torn down");
		h_launch(x, 1, next, 10 + i, ARGS(W(b), R(in)));
		h_is(x, 1, b, 15 + i);
	}
}

struct inside {
	struct ex *x;
	uint64_t memory, graph;
	int calls, wrong;
};

/* Everything that waits, or that queues. */
static int fn_calls(const struct capkm_host_call *call)
{
	struct inside *in = call->context;
	struct capkm_host *h = in->x->h;
	struct capkm_host_range all = { .memory = in->memory };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch,
		.kernel = in->x->set, .grid = { 1, 1, 1 });
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	struct capkm_host_event event = { 0 };
	struct capkm_host_profile p = { 0 };
	char data[SIZE] = "";
	struct capkm_host_write w = { .to = all, .data = data };
	uint64_t g;
	const int rc[] = {
		capkm_host_launch(h, 2, &l, NULL, &e),
		capkm_host_copy(h, 2, &all, &all, NULL, &e),
		capkm_host_write(h, 2, &w, 1, NULL, &e),
		capkm_host_read(h, 2, &all, data, NULL, &e),
		capkm_host_check(h, &all, 1, &a, &e),
		capkm_host_sync(h, 1, &e),
		capkm_host_sync(h, 2, &e),
		capkm_host_event_record(h, 2, &event, &e),
		capkm_host_event_wait(h, 2, &event, &e),
		capkm_host_event_sync(h, &event, &e),
		capkm_host_profile_begin(h, 2, &p, &e),
		capkm_host_profile_end(h, 2, &p, &e),
		capkm_host_graph_prepare(h, 2, NULL, NULL, &e),
		capkm_host_graph_begin(h, 2, &e),
		capkm_host_graph_end(h, 2, &g, NULL, &e),
		capkm_host_graph_abort(h, 2, &e),
		capkm_host_graph_replay(h, 2, in->graph, NULL, &e),
		capkm_host_cleanup(h, 2, &e),
		capkm_host_reset(h, &e),
	};

	for (size_t i = 0; i < ARRAY_SIZE(rc); i++) {
		in->calls++;
		if (rc[i] != -EDEADLK) {
			fprintf(stderr, "# call %zu of a function: %d (%s)\n", i, rc[i], e.text);
			in->wrong++;
		}
	}
	return e.text[0] ? 0 : 1;
}

/* A function calls the executor: that is refused, and nothing is the worse for it. */
TEST_F(host, function_calls_the_executor)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;
	struct inside in = { .x = x, .memory = m };

	k = h_kernel(x, "calls", fn_calls, &in);
	in.graph = graph_of_add(x, 1, out, m, 1);
	h_launch(x, 1, k, 0, ARGS(W(out)));
	h_sync(x, 1);
	ASSERT_LT(10, in.calls);
	ASSERT_EQ(0, in.wrong);
	h_is_clean(x, out);
	h_record(x, 1);
	h_launch(x, 1, k, 0, ARGS(W(out)));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_sync(x, 1);
	ASSERT_EQ(0, in.wrong);
	ASSERT_EQ(0, h_stats(x).failed);
	h_is(x, 1, m, 5);
	h_replay(x, 1, in.graph);
	h_is(x, 1, out, 6);
}

/* A function calls another executor, which compiles; then it still is inside its own. */
struct across {
	struct capkm_host *mine, *other;
	uint64_t kernel;
	int launched, synced;
};

static int fn_across(const struct capkm_host_call *call)
{
	struct across *a = call->context;

	a->launched = capkm_host_launch(a->other, 1, WITH(struct capkm_host_launch,
					.kernel = a->kernel, .grid = { 1, 1, 1 }), NULL, NULL);
	a->synced = capkm_host_sync(a->mine, 1, NULL);
	return 0;
}

TEST_F(host, function_calls_another_executor)
{
	struct ex *x = &self->x, y;
	struct cl *b = t_client();
	struct across a = { .mine = x->h };
	uint64_t k;
	int made = 0;

	h_attach(b, self->a->domain);
	h_create(&y, b, NULL);
	a.other = y.h;
	a.kernel = kernel_that_compiles(&y, "good code", good_compiler, &made);
	k = h_kernel(x, "across", fn_across, &a);
	h_launch(x, 1, k, 0, NO_ARGS);
	h_sync(x, 1);
	ASSERT_EQ(0, a.launched);
	ASSERT_EQ(-EDEADLK, a.synced);
	ASSERT_EQ(1, made);
	capkm_host_destroy(y.h);
	t_close(b);
}

/*
 * A task whose enter fails when its turn comes: another session writes its input for
 * longer than the handle waits. It has not run, and its output is not what it was.
 */
TEST_F(host, input_stays_in_progress)
{
	struct cl *b = t_client();
	struct capkm *c;
	struct cl own = { 0 };
	struct capkm_claim in;
	uint64_t i, o, scope, data[N];
	struct ex y;
	int rc;

	/* A handle that waits for nothing. */
	OK(capkm_open(t_transport(), WITH(struct capkm_open_opts, .retry_ms = CAPKM_RETRY_NONE),
		      &c, &err));
	OK(capkm_domain_attach(c, NULL, WITH(struct capkm_domain_opts,
					     .domain = self->a->domain), &err));
	own.c = c;
	h_attach(b, self->a->domain);
	h_create(&y, &own, NULL);
	i = h_new(&y, 1, 5);
	o = h_new(&y, 1, 6);
	h_is(&y, 1, o, 6);
	in = h_claim(&y, i);
	OK(capkm_buffer_export(c, in.buffer, &err));
	t_open(b, in.buffer);
	scope = t_enter(b, 1, NO_CLAIMS, C(in));
	h_add(&y, 1, o, i, 1);
	h_sync(&y, 1);
	ASSERT_EQ(0, load(&y.ran));
	rc = h_try_read(&y, 1, o, data);
	ASSERT_EQ(-ESTALE, rc);
	rc = h_try_read(&y, 1, i, data);
	ASSERT_EQ(-EAGAIN, rc);
	ASSERT_EQ(0, t_exit(b, scope));
	h_add(&y, 1, o, i, 1);
	h_is(&y, 1, o, 6);
	capkm_host_destroy(y.h);
	capkm_close(c);
	t_close(b);
}

/* ------------------------------------------------------------------- no memory */

/*
 * A bit of everything, of which each call may fail. Wherever it does: what can be read
 * is what was issued last.
 */
struct poor {
	struct ex x;
	uint64_t in, tmp, out, want, fails;
	int wrong, graphs;
	bool over;		/* there were less allocations than that */
};

static void look(struct poor *p)
{
	uint64_t data[N];

	if (!h_try_read(&p->x, 1, p->out, data) && data[N - 1] != p->want)
		p->wrong++;
}

static void poor_eager(struct poor *p)
{
	struct ex *x = &p->x;

	if (!h_try_launch(x, 1, x->add, 1, ARGS(W(p->tmp), R(p->in)), 0).rc &&
	    !h_try_launch(x, 2, x->add, 1, ARGS(W(p->out), R(p->tmp)), 0).rc)
		p->want = 7;
	look(p);
	if (!h_try_launch(x, 2, p->fails, 0, ARGS(W(p->tmp)), 0).rc &&
	    !h_try_launch(x, 1, x->add, 0, ARGS(W(p->out), R(p->tmp)), 0).rc)
		p->want = 0xdead;	/* never */
	look(p);
	if (!h_try_write(x, 1, p->out, 3).rc)
		p->want = 3;
	look(p);
}

static void poor_graph(struct poor *p)
{
	struct capkm_host_event e;
	struct ex *x = &p->x;
	struct h_launched l[2] = { { -1, 0 }, { -1, 0 } };
	uint64_t g = 0, late = 0;

	if (!capkm_host_graph_prepare(x->h, 1, NULL, NULL, NULL))
		capkm_host_graph_begin(x->h, 1, NULL);
	if (h_stats_(x).recording) {
		if (!capkm_host_event_record(x->h, 1, &e, NULL))
			capkm_host_event_wait(x->h, 2, &e, NULL);
		capkm_host_alloc(x->h, 1, SIZE, 0, &late, NULL);
		l[0] = h_try_launch(x, 1, x->add, 10, ARGS(W(p->tmp), R(p->in)), 0);
		l[1] = h_try_launch(x, 1, x->add, 20, ARGS(W(p->out), R(p->tmp)), 0);
		if (late)
			capkm_host_free(x->h, late, NULL);
	}
	if (capkm_host_graph_end(x->h, 1, &g, NULL, NULL)) {
		capkm_host_graph_abort(x->h, 1, NULL);
		if (g)
			p->wrong++;
		look(p);
		return;
	}
	/* A graph that lacks a launch must not have been made. */
	if (l[0].rc || l[1].rc)
		p->wrong++;
	look(p);
	p->graphs++;
	for (int i = 0; i < 2; i++) {
		struct h_launched r = h_try_replay(x, 1 + i, g);

		if (!r.rc && r.result == CAPKM_CLEAN)
			p->want = 35;
		look(p);
	}
	capkm_host_graph_destroy(x->h, g, NULL);
}

static void be_poor(struct poor *p, struct cl *cl, uint64_t n, bool engine)
{
	struct ex *x = &p->x;
	uint64_t before;

	h_create_(x, cl, NULL);
	p->fails = h_kernel_(x, "fail", fn_fail, NULL);
	p->in = h_new_(x, 1, 5);
	p->tmp = h_new_(x, 1, 0);
	p->out = h_new_(x, 2, p->want = 1);
	h_sync_(x, 1);
	h_sync_(x, 2);
	before = capkm_test_alloc_count();
	if (engine)
		capkm_test_fail_alloc(n);
	else
		store(&t_fail_any, n);
	poor_eager(p);
	poor_graph(p);
	capkm_host_sync(x->h, 1, NULL);
	capkm_host_sync(x->h, 2, NULL);
	capkm_test_fail_alloc(0);
	p->over = engine ? capkm_test_alloc_count() - before < n :
			   load(&t_fail_any) > t_fail_on;
	store(&t_fail_any, 0);
	if (t_domain_query_(cl).out_faulted)
		renew(x);
	/* With memory everything is as it should be. */
	h_write_(x, 1, p->in, 5);
	h_write_(x, 1, p->tmp, 5);
	h_write_(x, 1, p->out, p->want = 2);
	poor_eager(p);
	p->graphs = 0;
	poor_graph(p);
	h_is_(x, 1, p->out, 35);
	if (p->graphs != 1)
		p->wrong++;
	capkm_host_destroy(x->h);
	t_is_empty_(cl);
}

static void every_allocation(struct __test_metadata *_metadata, SELF *self, bool engine)
{
	struct poor p;
	uint64_t n = 0;

	capkm_host_destroy(self->x.h);
	do {
		p = (struct poor){ .wrong = 0 };
		T_AT;
		be_poor(&p, self->a, ++n, engine);
		ASSERT_EQ(0, p.wrong) {
			TH_LOG("allocation %" PRIu64, n);
		}
	} while (!p.over);
	ASSERT_LT(10, n);
	h_create(&self->x, self->a, NULL);
}

/* Each allocation of the authority fails, one after the other. */
TEST_F_TIMEOUT(host, no_memory_in_the_authority, 120)
{
	if (!t_embedded())
		SKIP(return, "needs the engine's hooks");
	every_allocation(_metadata, self, true);
}

/* Each of the library, be it a worker's, in turn; then all from it on. */
TEST_F_TIMEOUT(host, no_memory_in_the_library, 120)
{
	every_allocation(_metadata, self, false);
	t_fail_on = true;
	every_allocation(_metadata, self, false);
}

/* ------------------------------------------------------------------- wrong calls */

/* Ranges that are not of the memory: which one is wrong is said, and nothing runs. */
TEST_F(host, ranges_outside)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), g, w;
	const struct capkm_host_range wrong[] = {
		{ out, 0, SIZE + 1 },
		{ out, SIZE, SIZE + 8 },
		{ out, 8, UINT64_MAX },
		{ out, UINT64_MAX - 7, UINT64_MAX },
		{ out, 1ull << 63, (1ull << 63) + 8 },
		{ out, 16, 8 },
		{ out, SIZE + 8, SIZE + 8 },
		{ out, 8, 0 },
	};
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_host_range all = { .memory = in };
	struct capkm_claim claim = { 77, 77, 77 };
	char data[2 * SIZE] = "";
	uint64_t before;

	h_sync(x, 1);
	w = h_record(x, 2);
	before = t_domain_query(self->a).out_sequence;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const struct capkm_host_write writes[2] = {
			{ .to = all, .data = data }, { .to = wrong[i], .data = data },
		};
		const struct capkm_host_range ranges[3] = { all, all, wrong[i] };

		for (int j = 0; j < 2; j++) {
			uint64_t s = 1 + j;

			REFUSED(-EINVAL, h_try_launch(x, s, x->add, 1, ARGS(W(in),
				{ .range = wrong[i], .access = CAPKM_HOST_READ }), 0).rc);
			ASSERT_EQ(1, err.index);
			REFUSED(-EINVAL, h_try_launch(x, s, x->set, 1, ARGS(
				{ .range = wrong[i], .access = CAPKM_HOST_WRITE }), 0).rc);
			ASSERT_EQ(0, err.index);
			REFUSED(-EINVAL, h_try_launch(x, s, x->set, 1, ARGS(
				{ .range = wrong[i], .access = CAPKM_HOST_WRITE }),
				CAPKM_HOST_LAUNCH_F_DRY_RUN).rc);
			REFUSED(-EINVAL, capkm_host_copy(x->h, s, &wrong[i], &all, NULL, &err));
			REFUSED(-EINVAL, capkm_host_copy(x->h, s, &all, &wrong[i], NULL, &err));
		}
		REFUSED(-EINVAL, capkm_host_write(x->h, 1, writes, 2, NULL, &err));
		ASSERT_EQ(1, err.index);
		REFUSED(-EINVAL, capkm_host_read(x->h, 1, &wrong[i], data, NULL, &err));
		REFUSED(-EINVAL, capkm_host_check(x->h, ranges, 3, &a, &err));
		ASSERT_EQ(2, err.index);
		REFUSED(-EINVAL, capkm_host_find(x->h, &wrong[i], &claim, &err));
		ASSERT_EQ(77, claim.buffer);
	}
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(before, t_domain_query(self->a).out_sequence);
	g = h_end(x, 2);
	h_destroy(x, g);
	h_is(x, 1, in, 5);
	h_is(x, 1, out, 6);
	ASSERT_EQ(0, load(&x->ran));
}

/* Values that are none. */
TEST_F(host, wrong_values)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 6), big, m = 77, k = 77;
	struct capkm_host_range a = PART(in, 0, 4), b = PART(in, 3, 7), c = PART(out, 0, 3);
	struct capkm_host_kernel desc = CAPKM_OPTS(struct capkm_host_kernel, .fn = fn_set);
	struct capkm_host_arg arg = W(out);
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .kernel = x->set,
		.args = &arg, .args_len = 1, .grid = { 1, 1, 1 });

	/* Overlap, and sizes that differ. */
	REFUSED(-EINVAL, capkm_host_copy(x->h, 1, &a, &b, NULL, &err));
	SAYS("overlap");
	REFUSED(-EINVAL, capkm_host_copy(x->h, 1, &a, &a, NULL, &err));
	REFUSED(-EINVAL, capkm_host_copy(x->h, 1, &a, &c, NULL, &err));
	REFUSED(-EINVAL, capkm_host_read(x->h, 1, &a, (char[SIZE]){ 0 },
		WITH(struct capkm_read_opts, .copy = (void *)fn_set), &err));
	REFUSED(-EINVAL, capkm_host_read(x->h, 1, &a, (char[SIZE]){ 0 },
		WITH(struct capkm_read_opts, .flags = 1u << 9), &err));
	big = h_alloc_bytes(x, 1, 2 * SIZE);
	REFUSED(-EINVAL, capkm_host_copy(x->h, 1, &(struct capkm_host_range){ big, 0, 0 },
					 &(struct capkm_host_range){ in, 0, 0 }, NULL, &err));

	REFUSED(-EINVAL, capkm_host_alloc(x->h, 1, 0, 0, &m, &err));
	REFUSED(-EINVAL, capkm_host_alloc(x->h, 1, SIZE, 1u << 30, &m, &err));
	ASSERT_GT(0, capkm_host_alloc(x->h, 1, UINT64_MAX, 0, &m, &err));
	ASSERT_GT(0, capkm_host_alloc(x->h, 1, UINT64_MAX - 4096, 0, &m, &err));
	ASSERT_EQ(77, m);

	REFUSED(-EINVAL, capkm_host_kernel_create(x->h, &desc, &k, &err));
	SAYS("name");
	desc.name = "both";
	desc.compile = good_compiler;
	REFUSED(-EINVAL, capkm_host_kernel_create(x->h, &desc, &k, &err));
	desc.fn = NULL;
	desc.compile = NULL;
	REFUSED(-EINVAL, capkm_host_kernel_create(x->h, &desc, &k, &err));
	desc.sz = 1;
	REFUSED(-EINVAL, capkm_host_kernel_create(x->h, &desc, &k, &err));
	ASSERT_EQ(77, k);

	arg.access = 0;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	ASSERT_EQ(0, err.index);
	arg.access = 1u << 7 | CAPKM_HOST_WRITE;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	arg.access = CAPKM_HOST_WRITE;
	arg.__reserved = 1;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	arg.__reserved = 0;
	l.flags = 1u << 9;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	l.flags = 0;
	l.info_bytes = 8;
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &l, NULL, &err));
	l.info_bytes = 0;
	h_sync(x, 1);
	ASSERT_EQ(0, load(&x->ran));
	OK(capkm_host_launch(x->h, 1, &l, NULL, &err));
	h_is(x, 1, out, 0);
	h_is(x, 1, in, 5);
}

/* More arguments than an authority takes claims. */
TEST_F(host, too_many_arguments)
{
	struct ex *x = &self->x;
	struct capkm_info info = { .size = sizeof(info) };
	uint64_t m = h_new(x, 1, 5);
	struct capkm_host_arg *args;
	uint32_t n;

	OK(capkm_info(self->a->c, &info, &err));
	n = info.out_claims_max + 1;
	args = calloc(n, sizeof(*args));
	ASSERT_NE(NULL, args);
	for (uint32_t i = 0; i < n; i++)
		args[i] = (struct capkm_host_arg)W(m);
	REFUSED(-EMSGSIZE, h_try_launch(x, 1, x->set, 6, args, n, 0).rc);
	h_is(x, 1, m, 5);
	/* As many as there may be, with one place for a grid. */
	h_launch(x, 1, x->set, 6, args, n - 2);
	h_is(x, 1, m, 6);
	free(args);
}

/* An id of another kind is none of this one. */
TEST_F(host, ids_of_another_kind)
{
	struct ex *x = &self->x;
	uint64_t m[16], out = h_new(x, 1, 6), g, kernel[3];
	uint64_t ids[20];
	int n = 0;

	for (int i = 0; i < 16; i++)
		ids[n++] = m[i] = h_new(x, 1, i);
	g = graph_of_add(x, 1, out, m[0], 1);
	for (int i = 0; i < 3; i++)
		kernel[i] = h_kernel(x, "another", fn_set, NULL);
	for (int i = 0; i < n; i++) {
		REFUSED(-EXDEV, h_try_launch(x, 1, ids[i], 0, ARGS(W(out)), 0).rc);
		REFUSED(-EXDEV, capkm_host_kernel_destroy(x->h, ids[i], &err));
		REFUSED(-EXDEV, capkm_host_graph_replay(x->h, 1, ids[i], NULL, &err));
	}
	for (int i = 0; i < 3; i++) {
		REFUSED(-EXDEV, capkm_host_free(x->h, kernel[i], &err));
		REFUSED(-EXDEV, h_try_launch(x, 1, x->set, 0, ARGS(W(kernel[i])), 0).rc);
		REFUSED(-EXDEV, capkm_host_graph_replay(x->h, 1, kernel[i], NULL, &err));
	}
	REFUSED(-EXDEV, capkm_host_free(x->h, g, &err));
	REFUSED(-EXDEV, h_try_launch(x, 1, g, 0, ARGS(W(out)), 0).rc);
	for (int i = 0; i < 16; i++)
		REFUSED(-EXDEV, capkm_host_graph_destroy(x->h, m[i], &err));
	h_replay(x, 1, g);
	h_is(x, 1, out, 1);
	for (int i = 0; i < 16; i++)
		h_is(x, 1, m[i], i);
	ASSERT_EQ(-ENOENT, h_try_launch(x, 1, 0, 0, NO_ARGS, 0).rc);
	REFUSED(-ENOENT, capkm_host_free(x->h, 0, &err));
}

/* Everything that takes an id of memory says so of one that is no good. */
static void memory_is_refused(struct __test_metadata *_metadata, struct ex *x, uint64_t bad,
			      uint64_t good, int rc, const char *word)
{
	struct capkm_host_range b = { .memory = bad }, g = { .memory = good };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_host_write w[2];
	struct capkm_claim claim;
	char data[SIZE] = "";

	w[0] = (struct capkm_host_write){ .to = g, .data = data };
	w[1] = (struct capkm_host_write){ .to = b, .data = data };
	REFUSED(rc, capkm_host_free(x->h, bad, &err));
	SAYS(word);
	REFUSED(rc, h_try_launch(x, 1, x->add, 1, ARGS(W(good), R(bad)), 0).rc);
	SAYS(word);
	ASSERT_EQ(1, err.index);
	REFUSED(rc, h_try_launch(x, 1, x->add, 1, ARGS(W(bad), R(good)), 0).rc);
	ASSERT_EQ(0, err.index);
	REFUSED(rc, capkm_host_launch(x->h, 1, WITH(struct capkm_host_launch, .kernel = x->set,
				      .grid_range = { bad, 0, 12 }), NULL, &err));
	SAYS(word);
	REFUSED(rc, capkm_host_copy(x->h, 1, &b, &g, NULL, &err));
	SAYS(word);
	REFUSED(rc, capkm_host_copy(x->h, 1, &g, &b, NULL, &err));
	SAYS(word);
	REFUSED(rc, capkm_host_write(x->h, 1, w, 2, NULL, &err));
	SAYS(word);
	ASSERT_EQ(1, err.index);
	REFUSED(rc, capkm_host_read(x->h, 1, &b, data, NULL, &err));
	SAYS(word);
	REFUSED(rc, capkm_host_check(x->h, &b, 1, &a, &err));
	SAYS(word);
	REFUSED(rc, capkm_host_find(x->h, &b, &claim, &err));
	SAYS(word);
}

/* Memory, kernels and graphs are freed once, and are gone then. */
TEST_F(host, use_after_free)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), good = h_new(x, 1, 6), again, k, g, w;

	h_free(x, m);
	memory_is_refused(_metadata, x, m, good, -ENOENT, "freed");
	/* Also when somebody else has the bytes. */
	again = h_new(x, 1, 7);
	ASSERT_NE(m, again);
	memory_is_refused(_metadata, x, m, good, -ENOENT, "freed");
	memory_is_refused(_metadata, x, m + 1000000, good, -ENOENT, "");
	w = h_record(x, 1);
	REFUSED(-ENOENT, h_try_launch(x, 1, x->add, 1, ARGS(W(good), R(m)), 0).rc);
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	h_abort(x, 1);
	h_is(x, 1, good, 6);
	h_is(x, 1, again, 7);

	k = h_kernel(x, "gone", fn_set, NULL);
	OK(capkm_host_kernel_destroy(x->h, k, &err));
	REFUSED(-ENOENT, capkm_host_kernel_destroy(x->h, k, &err));
	REFUSED(-ENOENT, h_try_launch(x, 1, k, 1, ARGS(W(good)), 0).rc);
	REFUSED(-ENOENT, capkm_host_kernel_destroy(x->h, k + 1000, &err));

	g = graph_of_add(x, 1, good, again, 1);
	h_destroy(x, g);
	REFUSED(-ENOENT, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	SAYS("unknown or already-destroyed graph");
	REFUSED(-ENOENT, capkm_host_graph_find(x->h, g, &g, &err));
	h_is(x, 1, good, 6);
}

/* What is queued or recorded keeps its kernel and its memory. */
TEST_F(host, queued_work_keeps_what_it_needs)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, k2, g, s;

	k = h_kernel(x, "gated", fn_gated, &gate);
	k2 = h_kernel(x, "another", fn_add, NULL);
	h_record(x, 2);
	h_launch(x, 2, k2, 100, ARGS(W(out), R(out)));
	g = h_end(x, 2);
	h_launch(x, 1, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_launch(x, 1, k2, 1, ARGS(W(out), R(in)));
	h_launch(x, 1, k, 10, ARGS(W(out), R(out), R(in)));
	OK(capkm_host_kernel_destroy(x->h, k, &err));
	OK(capkm_host_kernel_destroy(x->h, k2, &err));
	h_free(x, in);
	s = h_alloc(x, 1);
	h_set(x, 3, s, 1000);
	h_is(x, 3, s, 1000);
	gate_open(&gate);
	/* 5 + 1, + 5 + 10, and the graph still has its kernel. */
	h_is(x, 1, out, 21);
	h_replay(x, 1, g);
	h_is(x, 1, out, 121);
	h_is(x, 1, s, 1000);
}

/*
 * T-119/sw: ids and events of another executor are refused before anything is touched,
 * also by its own handle in the same domain.
 */
TEST_F(host, t119_sw_foreign_handles)
{
	struct ex *x = &self->x, y;
	struct cl *b = t_client();
	uint64_t m = h_new(x, 1, 5), out = h_new(x, 1, 0), bad, outb, kb, gb;
	struct capkm_host_event e;

	h_attach(b, self->a->domain);
	h_create(&y, b, NULL);
	bad = h_new(&y, 1, 7);
	outb = h_new(&y, 1, 8);
	kb = y.set;
	gb = graph_of_add(&y, 1, outb, bad, 1);
	OK(capkm_host_event_record(y.h, 1, &e, &err));
	h_sync(&y, 1);
	h_sync(x, 1);

	memory_is_refused(_metadata, x, bad, m, -EXDEV, "");
	REFUSED(-EXDEV, h_try_launch(x, 1, kb, 1, ARGS(W(m)), 0).rc);
	REFUSED(-EXDEV, capkm_host_kernel_destroy(x->h, kb, &err));
	REFUSED(-EXDEV, capkm_host_graph_replay(x->h, 1, gb, NULL, &err));
	REFUSED(-EXDEV, capkm_host_graph_destroy(x->h, gb, &err));
	REFUSED(-EXDEV, capkm_host_graph_find(x->h, gb, &gb, &err));
	REFUSED(-EXDEV, capkm_host_event_wait(x->h, 1, &e, &err));
	REFUSED(-EXDEV, capkm_host_event_sync(x->h, &e, &err));
	/* In a window too, which is none the worse for it. */
	h_record(x, 1);
	h_add(x, 1, out, m, 1);
	REFUSED(-EXDEV, h_try_launch(x, 1, x->add, 1, ARGS(W(out), R(bad)), 0).rc);
	REFUSED(-EXDEV, h_try_launch(x, 1, kb, 1, ARGS(W(out)), 0).rc);
	h_replay(x, 1, h_end(x, 1));
	h_is(x, 1, out, 6);
	h_is(x, 1, m, 5);

	h_is(&y, 1, bad, 7);
	h_replay(&y, 1, gb);
	h_is(&y, 1, outb, 8);
	capkm_host_destroy(y.h);
	/* Nor when that one is gone. */
	REFUSED(-EXDEV, capkm_host_free(x->h, bad, &err));
	t_close(b);
}

/* One executor a handle; the next one after its end has other ids. */
TEST_F(host, two_on_one_handle)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5);
	struct capkm_host *h = (void *)1;

	REFUSED(-EBUSY, capkm_host_create(self->a->c, NULL, &h, &err));
	ASSERT_EQ((void *)1, h);
	h_is(x, 1, m, 5);
	recreate(self, NULL);
	ASSERT_GT(0, capkm_host_free(x->h, m, &err));
	h_new(x, 1, 6);
}

/* Who may have an executor, and with which options. */
TEST_F(host, create)
{
	struct cl *b = t_client();
	struct capkm_host *h = (void *)1;
	struct {
		struct capkm_host_opts o;
		uint64_t more;
	} larger = { .o.sz = sizeof(larger), .more = 1 };
	const struct capkm_pool_area none = { .kind = 77, .page_bytes = 4096 };

	REFUSED(-ENOTCONN, capkm_host_create(b->c, NULL, &h, &err));
	h_attach_backend(b, self->a->domain, CAPKM_BACKEND_HARDWARE);
	REFUSED(-EOPNOTSUPP, capkm_host_create(b->c, NULL, &h, &err));
	t_close(b);
	b = t_client();
	h_attach_backend(b, self->a->domain, CAPKM_BACKEND_NONE);
	REFUSED(-EOPNOTSUPP, capkm_host_create(b->c, NULL, &h, &err));
	t_close(b);

	b = t_client();
	h_attach(b, self->a->domain);
	REFUSED(-E2BIG, capkm_host_create(b->c, &larger.o, &h, &err));
	REFUSED(-EINVAL, capkm_host_create(b->c, &(struct capkm_host_opts){ .sz = 3 }, &h, &err));
	REFUSED(-EINVAL, capkm_host_create(b->c, WITH(struct capkm_host_opts, .flags = 1), &h,
					   &err));
	REFUSED(-EINVAL, capkm_host_create(b->c, WITH(struct capkm_host_opts, .preset = 9), &h,
					   &err));
	REFUSED(-EINVAL, capkm_host_create(b->c, WITH(struct capkm_host_opts, .areas = &none,
						      .areas_len = 1), &h, &err));
	ASSERT_EQ(0, err.index);
	ASSERT_EQ(-EINVAL, capkm_host_create(b->c, WITH(struct capkm_host_opts, .areas = &none,
						       .areas_len = 1), &h, NULL));
	ASSERT_EQ((void *)1, h);
	larger.more = 0;
	OK(capkm_host_create(b->c, &larger.o, &h, &err));
	capkm_host_destroy(h);
	capkm_host_destroy(NULL);
	t_close(b);
}

/* Structs of another size: a larger one is fine while its end is zero. */
TEST_F(host, sizes_of_structs)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), k = 0, w;
	struct {
		struct capkm_host_kernel s;
		uint64_t more;
	} kernel = { .s = { .name = "k", .fn = fn_set } };
	struct {
		struct capkm_host_launch s;
		uint64_t more;
	} launch = { .s = { .kernel = x->set, .grid = { 1, 1, 1 }, .args_len = 1 } };
	struct {
		struct capkm_host_graph_opts s;
		uint64_t more;
	} opts = { .s = { .cookie = 3 } };
	struct {
		struct capkm_host_stats s;
		uint64_t more;
	} stats = { .more = 1 };

	launch.s.args = &(struct capkm_host_arg)W(m);
	for (int i = 0; i < 2; i++) {
		kernel.s.sz = sizeof(kernel);
		launch.s.sz = sizeof(launch);
		opts.s.sz = sizeof(opts);
		kernel.more = launch.more = opts.more = !i;
		if (!i) {
			REFUSED(-E2BIG, capkm_host_kernel_create(x->h, &kernel.s, &k, &err));
			REFUSED(-E2BIG, capkm_host_launch(x->h, 1, &launch.s, NULL, &err));
			REFUSED(-E2BIG, capkm_host_graph_prepare(x->h, 1, &opts.s, &w, &err));
			continue;
		}
		OK(capkm_host_kernel_create(x->h, &kernel.s, &k, &err));
		OK(capkm_host_launch(x->h, 1, &launch.s, NULL, &err));
		OK(capkm_host_graph_prepare(x->h, 1, &opts.s, &w, &err));
		ASSERT_EQ(3, t_window(self->a, w).q.out_cookie);
		h_abort(x, 1);
	}
	h_is(x, 1, m, 0);
	kernel.s.sz = launch.s.sz = opts.s.sz = 2;
	REFUSED(-EINVAL, capkm_host_kernel_create(x->h, &kernel.s, &k, &err));
	REFUSED(-EINVAL, capkm_host_launch(x->h, 1, &launch.s, NULL, &err));
	REFUSED(-EINVAL, capkm_host_graph_prepare(x->h, 1, &opts.s, &w, &err));
	stats.s.sz = 2;
	REFUSED(-EINVAL, capkm_host_query(x->h, &stats.s, &err));
	/* A caller who knows less of them. */
	stats.s = (struct capkm_host_stats){ .sz = offsetof(struct capkm_host_stats, ran) };
	stats.s.ran = 4711;
	OK(capkm_host_query(x->h, &stats.s, &err));
	ASSERT_EQ(4711, stats.s.ran);
}

/* Nobody has to want an answer. */
TEST_F(host, without_answers)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5), g, w = 0;
	struct capkm_host_range all = { .memory = m };
	struct capkm_host_write write = { .to = all, .data = (char[SIZE]){ 0 } };

	ASSERT_EQ(0, capkm_host_graph_prepare(x->h, 1, NULL, NULL, NULL));
	ASSERT_EQ(-EBUSY, capkm_host_graph_prepare(x->h, 1, NULL, &w, NULL));
	ASSERT_EQ(0, w);
	ASSERT_EQ(0, capkm_host_graph_begin(x->h, 1, NULL));
	ASSERT_EQ(-EBUSY, capkm_host_graph_begin(x->h, 1, NULL));
	ASSERT_EQ(-EBUSY, capkm_host_sync(x->h, 1, NULL));
	ASSERT_EQ(-EBUSY, capkm_host_read(x->h, 1, &all, write.to.memory ? (char[SIZE]){ 0 } :
					  NULL, NULL, NULL));
	ASSERT_EQ(0, capkm_host_write(x->h, 1, &write, 1, NULL, NULL));
	ASSERT_EQ(-ESTALE, capkm_host_graph_end(x->h, 1, &g, NULL, NULL));
	ASSERT_EQ(-EINVAL, capkm_host_graph_end(x->h, 1, &g, NULL, NULL));
	ASSERT_EQ(-ENOENT, capkm_host_graph_replay(x->h, 1, 0, NULL, NULL));
	ASSERT_EQ(-ENOENT, capkm_host_free(x->h, m + 1000, NULL));
	ASSERT_EQ(0, capkm_host_write(x->h, 1, &write, 1, NULL, NULL));
	ASSERT_EQ(0, capkm_host_write(x->h, 1, NULL, 0, NULL, NULL));
	h_is(x, 1, m, 0);
}

/* ------------------------------------------------------------------------ order */

/* What was issued before on another slot, and touches the same memory, runs first. */
TEST_F(host, order_over_the_same_memory)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t a, b, c, k;

	k = h_kernel(x, "gated", fn_gated, &gate);
	for (int how = 0; how < 4; how++) {
		gate_close(&gate);
		a = h_new(x, 1, 5);
		b = h_new(x, 2, 6);
		c = h_new(x, 3, 7);
		h_sync(x, 1);
		h_sync(x, 2);
		h_sync(x, 3);
		switch (how) {
		case 0:		/* read after write */
			h_launch(x, 1, k, 100, ARGS(W(a)));
			h_add(x, 2, b, a, 1);
			break;
		case 1:		/* write after read */
			h_launch(x, 1, k, 1, ARGS(W(b), R(a)));
			h_set(x, 2, a, 100);
			break;
		case 2:		/* write after write */
			h_launch(x, 1, k, 1, ARGS(W(a)));
			h_set(x, 2, a, 100);
			h_add(x, 3, b, a, 1);
			break;
		case 3:		/* across three, through memory in between */
			h_launch(x, 1, k, 100, ARGS(W(a)));
			h_add(x, 2, c, a, 0);
			h_add(x, 3, b, c, 1);
			break;
		}
		/* Somebody else is not held up. */
		h_set(x, 4, c, 8);
		gate_await(&gate, 1);
		gate_open(&gate);
		h_is(x, 3, b, how == 1 ? 6 : 101);
		h_is(x, 4, a, 100);
		h_is(x, 4, c, 8);
		h_free(x, a);
		h_free(x, b);
		h_free(x, c);
	}
}

/* Readers do not wait for one another; nor does anybody for memory of his own. */
TEST_F(host, readers_run_at_once)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), out[4], k;

	k = h_kernel(x, "gated", fn_gated, &gate);
	for (int i = 0; i < 4; i++) {
		out[i] = h_alloc(x, 1 + i);
		h_launch(x, 1 + i, k, i, ARGS(W(out[i]), R(in)));
	}
	/* All four are inside. */
	gate_await(&gate, 4);
	h_is(x, 6, in, 5);
	gate_open(&gate);
	for (int i = 0; i < 4; i++)
		h_is(x, 6, out[i], 5 + i);
}

/* A replay keeps the order over all that its graph touches. */
TEST_F(host, order_of_replays)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), tmp = h_alloc(x, 1), out = h_new(x, 1, 0), k, g;

	k = h_kernel(x, "gated", fn_gated, &gate);
	h_record(x, 1);
	h_add(x, 1, tmp, in, 1);
	h_launch(x, 1, k, 10, ARGS(W(out), R(tmp)));
	g = h_end(x, 1);
	h_replay(x, 1, g);
	gate_await(&gate, 1);
	/* Its input, its intermediate and its output, from other slots. */
	h_set(x, 2, in, 100);
	h_set(x, 3, tmp, 200);
	h_launch(x, 4, x->add, 1000, ARGS(RW(out), R(out)));
	gate_open(&gate);
	h_is(x, 4, out, 1016);
	h_is(x, 3, tmp, 200);
	h_is(x, 2, in, 100);
	h_replay(x, 5, g);
	h_is(x, 5, tmp, 101);
	h_is(x, 5, out, 111);
}

/*
 * Memory is often a part of a page with other memory, on which a neighbour works all
 * the time: that is no reason not to read it.
 */
struct busy {
	struct ex *x;
	uint64_t stream, memory;
	int *stop;
	pthread_t thread;
};

static void *work_on(void *arg)
{
	struct busy *b = arg;

	while (!load(b->stop)) {
		for (int i = 0; i < 500; i++)
			h_launch_(b->x, b->stream, b->x->set, i, ARGS(W(b->memory)));
		capkm_host_sync(b->x->h, b->stream, NULL);
	}
	return NULL;
}

TEST_F(host, read_beside_busy_neighbours)
{
	struct ex *x = &self->x;
	uint64_t quiet = h_new(x, 1, 5), out = h_new(x, 7, 0), k;
	uint64_t grid = h_alloc_bytes(x, 1, 12);
	uint32_t data[3] = { 1, 1, 1 };
	struct capkm_host_write write = { .to.memory = grid, .data = data };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .args_len = 2,
						.grid_range = { grid, 0, 12 });
	struct busy busy[4];
	int stop = 0;

	OK(capkm_host_write(x->h, 1, &write, 1, NULL, &err));
	k = h_kernel(x, "sum", fn_sum, NULL);
	l.kernel = k;
	l.args = (const struct capkm_host_arg[]){ W(out), R(quiet) };
	for (int i = 0; i < 4; i++) {
		busy[i] = (struct busy){ .x = x, .stream = 2 + i, .memory = h_alloc(x, 1),
					 .stop = &stop };
		ASSERT_EQ(h_claim(x, quiet).buffer, h_claim(x, busy[i].memory).buffer);
		ASSERT_EQ(0, pthread_create(&busy[i].thread, NULL, work_on, &busy[i]));
	}
	for (int i = 0; i < 20; i++) {
		h_is(x, 1, quiet, 5);
		/* Also to find out what to do. */
		OK(capkm_host_launch(x->h, 7, &l, NULL, &err));
		h_is(x, 7, out, 5);
	}
	store(&stop, 1);
	for (int i = 0; i < 4; i++)
		pthread_join(busy[i].thread, NULL);
}

/* More is issued than a queue takes: who issues waits, and nothing is lost. */
TEST_F(host, queue_is_full)
{
	struct ex *x = &self->x;
	uint64_t sum, one;

	recreate(self, WITH(struct capkm_host_opts, .queue_max = 4));
	sum = h_new(x, 1, 0);
	one = h_new(x, 1, 1);
	for (int i = 0; i < 300; i++)
		h_launch(x, 1 + i % 3, x->add, 0, ARGS(RW(sum), R(sum), R(one)));
	h_is(x, 1, sum, 300);
	ASSERT_EQ(300, load(&x->ran));
	ASSERT_EQ(0, h_stats(x).queued);
	ASSERT_LE(300, h_stats(x).ran);
}

/* SC-22: several writes of one call are several tasks, and their source is the caller's. */
TEST_F(host, sc22_writes)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t m[70], k, data[N];
	struct capkm_host_write w[70];
	uint32_t result = 77;

	k = h_kernel(x, "gated", fn_gated, &gate);
	for (int i = 0; i < 70; i++) {
		m[i] = h_alloc(x, 1);
		w[i] = (struct capkm_host_write){ .to.memory = m[i], .data = data };
	}
	/* Upstream lost bytes when more than 64 of them waited. */
	h_launch(x, 1, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	for (int n = 0; n < 3; n++) {
		for (int j = 0; j < N; j++)
			data[j] = 100 * n + 7;
		OK(capkm_host_write(x->h, 1, w, 70, &result, &err));
		ASSERT_EQ(CAPKM_CLEAN, result);
		memset(data, 0xee, sizeof(data));
		/* Of so many the next ones wait for the first. */
		gate_open(&gate);
	}
	h_write(x, 1, m[3], 1);
	for (int i = 0; i < 70; i++)
		h_is(x, 1, m[i], i == 3 ? 1 : 207);
}

/* ----------------------------------------------------------------------- events */

/* An event orders slots that share no memory. */
TEST_F(host, events_between_slots)
{
	struct ex *x = &self->x;
	struct gate gate = GATE, flag = GATE;
	uint64_t k, k2, m = h_new(x, 2, 0);
	struct capkm_host_event e, early;

	k = h_kernel(x, "gated", fn_gated, &gate);
	k2 = h_kernel(x, "flag", fn_gated, &flag);
	gate_open(&flag);
	OK(capkm_host_event_record(x->h, 1, &early, &err));
	h_launch(x, 1, k, 0, NO_ARGS);
	OK(capkm_host_event_record(x->h, 1, &e, &err));
	ASSERT_EQ(1, e.slot);
	ASSERT_EQ(0, e.window);
	/* Nothing was issued before the early one. */
	OK(capkm_host_event_sync(x->h, &early, &err));
	OK(capkm_host_event_wait(x->h, 3, &early, &err));
	h_set(x, 3, m, 1);
	h_is(x, 3, m, 1);
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	h_launch(x, 2, k2, 0, NO_ARGS);
	gate_await(&gate, 1);
	ASSERT_EQ(0, load(&flag.inside));
	gate_open(&gate);
	gate_await(&flag, 1);
	OK(capkm_host_event_sync(x->h, &e, &err));
	/* As often as one likes, and of its own slot. */
	OK(capkm_host_event_wait(x->h, 1, &e, &err));
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	h_sync(x, 1);
	h_sync(x, 2);
}

/* Ring of events: three slots, each waits for the one before, many times. */
TEST_F(host, events_in_a_ring)
{
	struct ex *x = &self->x;
	uint64_t m[3], ran;
	struct capkm_host_event e[3];

	for (int i = 0; i < 3; i++)
		m[i] = h_new(x, 1 + i, 0);
	for (int n = 0; n < 50; n++)
		for (int i = 0; i < 3; i++) {
			if (n || i)
				OK(capkm_host_event_wait(x->h, 1 + i, &e[(i + 2) % 3], &err));
			h_add(x, 1 + i, m[i], m[(i + 2) % 3], 1);
			OK(capkm_host_event_record(x->h, 1 + i, &e[i], &err));
		}
	OK(capkm_host_event_sync(x->h, &e[2], &err));
	ran = load(&x->ran);
	ASSERT_EQ(150, ran);
	h_is(x, 4, m[2], 150);
}

/* Structs that are no events. */
TEST_F(host, wrong_events)
{
	struct ex *x = &self->x;
	struct capkm_host_event good, e;

	h_new(x, 1, 1);
	OK(capkm_host_event_record(x->h, 1, &good, &err));
	for (int i = 0; i < 6; i++) {
		e = good;
		switch (i) {
		case 0: memset(&e, 0, sizeof(e)); break;
		case 1: memset(&e, 0xff, sizeof(e)); break;
		case 2: e.slot = 32; break;
		case 3: e.slot = UINT32_MAX; break;
		case 4: e.position += 1000; break;
		case 5: e.position = UINT64_MAX; break;
		}
		ASSERT_GT(0, capkm_host_event_wait(x->h, 2, &e, &err)) {
			TH_LOG("event %d", i);
		}
		ASSERT_TRUE(err.err == -EINVAL || err.err == -EXDEV);
		ASSERT_GT(0, capkm_host_event_sync(x->h, &e, &err));
		ASSERT_TRUE(err.err == -EINVAL || err.err == -EXDEV);
	}
	OK(capkm_host_event_wait(x->h, 2, &good, &err));
	h_sync(x, 2);
}

/* An event of a window makes another slot join it: what is issued there is recorded. */
TEST_F(host, join_by_event)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), a = h_new(x, 1, 0), b = h_new(x, 2, 0), c = h_new(x, 3, 0);
	struct capkm_host_event e, back, late;
	struct capkm_stream_query q;
	uint64_t w, g;

	w = h_record(x, 1);
	h_add(x, 1, a, in, 1);
	OK(capkm_host_event_record(x->h, 1, &e, &err));
	ASSERT_EQ(w, e.window);
	/* Not joined: it runs. */
	h_add(x, 2, c, in, 1);
	h_is(x, 2, c, 6);
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	q = t_slot(self->a, 2);
	ASSERT_EQ(CAPKM_WINDOW_MEMBER, q.out_state);
	ASSERT_EQ(w, q.out_window);
	h_add(x, 2, b, a, 10);
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	/* CW-27 and CW-28 there as well. */
	REFUSED(-EBUSY, capkm_host_sync(x->h, 2, &err));
	REFUSED(-EBUSY, capkm_host_event_sync(x->h, &e, &err));
	ASSERT_EQ(CAPKM_REFUSED, h_try_write(x, 34, c, 9).result);
	h_is_tainted(x, c, CAPKM_KIND_REFUSED);
	REFUSED(-EBUSY, capkm_host_graph_prepare(x->h, 2, NULL, NULL, &err));
	SAYS("member");
	OK(capkm_host_event_record(x->h, 2, &back, &err));
	ASSERT_EQ(w, back.window);
	OK(capkm_host_event_wait(x->h, 1, &back, &err));
	h_launch(x, 1, x->add, 100, ARGS(W(a), R(b)));
	/* It is not the member's to close. */
	REFUSED(-EINVAL, capkm_host_graph_end(x->h, 2, &g, NULL, &err));
	REFUSED(-EINVAL, capkm_host_graph_begin(x->h, 2, &err));
	h_abort(x, 2);
	ASSERT_EQ(3, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(1, t_window(self->a, w).q.out_members);
	g = h_end(x, 1);
	ASSERT_EQ(1, load(&x->ran));
	/* The slot is free again, and there is nothing to wait for. */
	h_write(x, 2, c, 3);
	h_is(x, 2, c, 3);
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	OK(capkm_host_event_wait(x->h, 3, &back, &err));
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 3).out_state);
	OK(capkm_host_event_sync(x->h, &back, &err));
	OK(capkm_host_event_record(x->h, 2, &late, &err));
	ASSERT_EQ(0, late.window);
	h_replay(x, 3, g);
	h_is(x, 3, b, 16);
	h_is(x, 3, a, 116);
	h_is(x, 3, c, 3);
}

/* A slot that records waits for nothing from outside, nor does one window for another. */
TEST_F(host, events_across_windows)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), w1, w2, g;
	struct capkm_host_event outside, e1, e2;

	OK(capkm_host_event_record(x->h, 4, &outside, &err));
	w1 = h_record(x, 1);
	w2 = h_record(x, 2);
	OK(capkm_host_event_record(x->h, 1, &e1, &err));
	OK(capkm_host_event_record(x->h, 2, &e2, &err));
	REFUSED(-EINVAL, capkm_host_event_wait(x->h, 1, &outside, &err));
	REFUSED(-EBUSY, capkm_host_event_wait(x->h, 1, &e2, &err));
	REFUSED(-EBUSY, capkm_host_event_wait(x->h, 2, &e1, &err));
	OK(capkm_host_event_wait(x->h, 3, &e1, &err));
	REFUSED(-EBUSY, capkm_host_event_wait(x->h, 3, &e2, &err));
	REFUSED(-EINVAL, capkm_host_event_wait(x->h, 3, &outside, &err));
	/* One that is prepared does not record, but the slot is taken. */
	h_prepare(x, 5);
	REFUSED(-EBUSY, capkm_host_event_wait(x->h, 5, &e1, &err));
	OK(capkm_host_event_wait(x->h, 5, &outside, &err));
	h_abort(x, 5);
	ASSERT_EQ(0, t_window(self->a, w1).q.out_failures);
	ASSERT_EQ(0, t_window(self->a, w2).q.out_failures);
	h_add(x, 3, out, in, 1);
	h_end(x, 2);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
}

/* A failure on a member dooms the window; so does a fault. */
TEST_F(host, failure_on_a_member)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), bad = h_new(x, 3, 0), k;
	struct capkm_host_event e;

	k = h_kernel(x, "fail", fn_fail, "on the side");
	h_launch(x, 3, k, 0, ARGS(W(bad)));
	h_sync(x, 3);
	h_record(x, 1);
	OK(capkm_host_event_record(x->h, 1, &e, &err));
	OK(capkm_host_event_wait(x->h, 2, &e, &err));
	h_add(x, 2, out, in, 1);
	ASSERT_EQ(CAPKM_SKIPPED, h_try_launch(x, 2, x->add, 1, ARGS(W(in), R(bad)), 0).result);
	h_end_refused(x, 1);
	SAYS("on the side");
	h_is_tainted(x, out, CAPKM_KIND_REFUSED);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(self->a, 2).out_state);
	h_set(x, 2, out, 1);
	h_is(x, 2, out, 1);
}

/*
 * On a member too: what was allocated and freed there in the window is the graph's, and
 * so is the metadata of its launches.
 */
TEST_F(host, memory_of_a_member)
{
	struct ex *x = &self->x;
	uint64_t in, out, t, other[8], g;
	struct capkm_host_event e;

	for (int cache = 0; cache < 2; cache++) {
		recreate(self, WITH(struct capkm_host_opts,
				    .cache_entries = cache ? 4 : CAPKM_HOST_NO_CACHE));
		in = h_new(x, 1, 5);
		out = h_new(x, 1, 0);
		h_record(x, 1);
		OK(capkm_host_event_record(x->h, 1, &e, &err));
		OK(capkm_host_event_wait(x->h, 2, &e, &err));
		t = h_alloc(x, 2);
		h_add(x, 2, t, in, 1000);
		h_add(x, 2, out, t, 10000);
		h_free(x, t);
		for (int i = 0; i < 4; i++)
			other[i] = h_alloc(x, 2);
		g = h_end(x, 1);
		for (int i = 4; i < 8; i++)
			other[i] = h_alloc(x, 2);
		for (uint64_t v = 0; v < 200; v++)
			h_set(x, 2, other[v % 8], v);
		OK(capkm_host_cleanup(x->h, 2, &err));
		h_replay(x, 1, g);
		h_is(x, 1, out, 11005);
		for (int i = 0; i < 8; i++)
			h_is(x, 2, other[i], 192 + i);
	}
}

/* --------------------------------------------------------------------- the whole */

/*
 * CM-8: the warm-up leaves as much memory as the recorded run asks for, though it never
 * had all of it at once.
 */
TEST_F(host, warm_up_leaves_enough_memory)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 0), out = h_new(x, 1, 0), last, t, g;
	struct capkm_pool_stats before, after;

	h_prepare(x, 1);
	for (int recorded = 0; recorded < 2; recorded++) {
		last = in;
		for (int i = 0; i < 10; i++) {
			t = h_alloc(x, 1);
			h_add(x, 1, t, last, 1);
			if (last != in)
				h_free(x, last);
			last = t;
		}
		h_add(x, 1, out, last, 1);
		h_free(x, last);
		if (recorded)
			break;
		h_is(x, 1, out, 11);
		h_begin(x, 1);
		before = h_pool(x, 1);
	}
	after = h_pool(x, 1);
	ASSERT_EQ(before.grown, after.grown);
	ASSERT_EQ(before.bytes, after.bytes);
	g = h_end(x, 1);
	h_write(x, 1, in, 100);
	h_replay(x, 1, g);
	h_is(x, 1, out, 111);
}

/* An input that is freed before the end: the graph is one, and cannot be replayed. */
TEST_F(host, input_is_freed_while_it_records)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 3), next, g;

	h_record(x, 1);
	h_add(x, 1, out, in, 1);
	h_free(x, in);
	next = h_alloc(x, 1);
	g = h_end(x, 1);
	h_set(x, 1, next, 50);
	REFUSED(-ESTALE, capkm_host_graph_replay(x->h, 1, g, NULL, &err));
	SAYS("freed");
	h_is(x, 1, out, 3);
	h_is(x, 1, next, 50);
}

/* Streams of STREAM_CREATE: one's own, somebody else's, and one that is gone. */
TEST_F(host, created_streams)
{
	struct ex *x = &self->x;
	struct cl *b = t_client();
	struct gate gate = GATE;
	uint64_t s = t_stream(self->a), theirs, m, out, k, g;

	h_attach(b, self->a->domain);
	theirs = t_stream(b);
	m = h_new(x, s, 5);
	out = h_new(x, s, 0);
	h_record(x, s);
	h_add(x, s, out, m, 1);
	g = h_end(x, s);
	h_replay(x, s, g);
	h_is(x, s, out, 6);
	REFUSED(-EPERM, h_try_launch(x, theirs, x->set, 1, ARGS(W(m)), 0).rc);
	REFUSED(-EPERM, capkm_host_graph_prepare(x->h, theirs, NULL, NULL, &err));
	h_set(x, s, m, 7);
	h_sync(x, s);
	/* What waits when its stream goes cannot be entered, and is not what it was. */
	k = h_kernel(x, "gated", fn_gated, &gate);
	h_launch(x, s, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_set(x, s, out, 8);
	t_destroy_stream(self->a, s);
	gate_open(&gate);
	REFUSED(-ENOENT, h_try_launch(x, s, x->set, 1, ARGS(W(m)), 0).rc);
	REFUSED(-ENOENT, capkm_host_sync(x->h, s, &err));
	h_is(x, s % 32 + 32, m, 7);
	h_is_tainted(x, out, FAILED);
	h_set(x, s % 32 + 32, out, 9);
	h_is(x, 1, out, 9);
	t_close(b);
}

/* Work that has run is finished: nothing is left to be confirmed. */
TEST_F(host, work_is_complete)
{
	struct ex *x = &self->x;
	struct cl *b = t_client();
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), data[N], g;
	struct capkm_report why;
	struct capkm_claim claim;

	h_attach(b, self->a->domain);
	claim = h_claim(x, out);
	OK(capkm_buffer_export(self->a->c, claim.buffer, &err));
	t_open(b, claim.buffer);
	h_add(x, 1, out, in, 1);
	h_sync(x, 1);
	t_is_confirmed(b, claim.buffer, claim.start, claim.end);
	h_record(x, 1);
	h_add(x, 1, out, in, 2);
	g = h_end(x, 1);
	h_replay(x, 1, g);
	h_sync(x, 1);
	t_is_confirmed(b, claim.buffer, claim.start, claim.end);
	OK(capkm_host_read(x->h, 1, &(struct capkm_host_range){ out, 0, 0 }, data,
			   WITH(struct capkm_read_opts, .flags = CAPKM_READ_OPTS_CONFIRMED),
			   &err));
	ASSERT_EQ(7, data[0]);
	/* Somebody else's failure comes to the reader, in words and as a report. */
	t_taint(b, "their fault", C(claim));
	REFUSED(-ESTALE, capkm_host_read(x->h, 1, &(struct capkm_host_range){ out, 0, 0 }, data,
					 WITH(struct capkm_read_opts, .report = &why), &err));
	SAYS("their fault");
	ASSERT_EQ(why.failure, err.failure);
	HAS(why.text, "their fault");
	h_replay(x, 1, g);
	h_is(x, 1, out, 7);
	ASSERT_EQ(0, t_drop(b, claim.buffer));
	t_close(b);
}

/* A kernel is compiled once, also if another thread wants it meanwhile. */
struct compiling {
	struct gate gate;
	int times;
};

static int slow_compiler(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	struct compiling *c = context;

	__atomic_fetch_add(&c->times, 1, __ATOMIC_SEQ_CST);
	gate_pass(&c->gate);
	*fn = fn_sum;
	return 0;
}

struct launcher {
	struct ex *x;
	uint64_t stream, kernel, to, from;
	struct h_launched got;
	pthread_t thread;
};

static void *launch_it(void *arg)
{
	struct launcher *l = arg;

	l->got = h_try_launch(l->x, l->stream, l->kernel, l->stream,
			      ARGS(W(l->to), R(l->from)), 0);
	return NULL;
}

TEST_F(host, compiled_once)
{
	struct ex *x = &self->x;
	struct compiling c = { GATE, 0 };
	struct launcher l[4];
	uint64_t in = h_new(x, 1, 5), k;

	k = kernel_that_compiles(x, "slow", slow_compiler, &c);
	for (int i = 0; i < 4; i++) {
		l[i] = (struct launcher){ .x = x, .stream = 1 + i, .kernel = k, .from = in,
					  .to = h_alloc(x, 1 + i) };
		ASSERT_EQ(0, pthread_create(&l[i].thread, NULL, launch_it, &l[i]));
	}
	gate_await(&c.gate, 1);
	/* The executor is not held up by it. */
	h_is(x, 9, in, 5);
	/* Whoever launched it already has it. */
	OK(capkm_host_kernel_destroy(x->h, k, &err));
	gate_open(&c.gate);
	for (int i = 0; i < 4; i++) {
		pthread_join(l[i].thread, NULL);
		/* Or came too late to find it. */
		if (l[i].got.rc == -ENOENT)
			continue;
		ASSERT_EQ(0, l[i].got.rc);
		ASSERT_EQ(CAPKM_CLEAN, l[i].got.result);
		h_is(x, 9, l[i].to, 6 + i);
	}
	ASSERT_EQ(1, c.times);
}

/* GR-1 GR-5: prepare and begin find the slot's work done, and it is in no window. */
TEST_F(host, gr5_begin_drains_the_slot)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 0), w;

	for (int i = 0; i < 100; i++)
		h_launch(x, i % 2 ? 1 : NEIGHBOUR, x->add, 1, ARGS(RW(m), R(m)));
	h_prepare(x, 1);
	h_is(x, 2, m, 100);
	for (int i = 0; i < 100; i++)
		h_launch(x, i % 2 ? 1 : NEIGHBOUR, x->add, 1, ARGS(RW(m), R(m)));
	h_begin(x, 1);
	ASSERT_EQ(200, load(&x->ran));
	w = t_slot(self->a, 1).out_window;
	ASSERT_EQ(0, t_window(self->a, w).q.out_launches);
	ASSERT_EQ(0, t_window(self->a, w).q.out_escaped);
	h_end(x, 1);
	h_is(x, 1, m, 200);
}

/* What is open when the executor is destroyed: queues run, windows and graphs go. */
TEST_F(host, destroyed_with_everything_open)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), w[2], k, g;
	int ran = 0;

	k = h_kernel(x, "counted", fn_set, &ran);
	g = graph_of_add(x, 1, out, in, 1);
	for (int i = 0; i < 100; i++)
		h_launch(x, 4 + i % 4, k, i, ARGS(W(out)));
	for (int i = 0; i < 10; i++)
		h_replay(x, 4, g);
	w[0] = h_prepare(x, 1);
	w[1] = h_record(x, 2);
	h_add(x, 2, out, in, 2);
	capkm_host_destroy(x->h);
	ASSERT_EQ(100, ran);
	ASSERT_EQ(10, x->ran);
	t_is_empty(self->a);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(CAPKM_WINDOW_REFUSED, t_window(self->a, w[i]).q.out_state);
	h_create(x, self->a, NULL);
}

/* Cleanup gives back what nobody uses, and nothing else, and nothing in a window. */
TEST_F(host, cleanup)
{
	struct ex *x = &self->x;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), tmp, g, bytes;

	h_record(x, 1);
	tmp = h_alloc(x, 1);
	h_add(x, 1, tmp, in, 1);
	h_add(x, 1, out, tmp, 1);
	g = h_end(x, 1);
	h_free(x, tmp);
	h_free(x, h_alloc_bytes(x, 1, 5 << 20));
	h_prepare(x, 1);
	bytes = h_pool(x, 1).bytes;
	ASSERT_LE(5u << 20, bytes);
	/* CW-38 CM-7 */
	OK(capkm_host_cleanup(x->h, 1, &err));
	ASSERT_EQ(bytes, h_pool(x, 1).bytes);
	h_abort(x, 1);
	OK(capkm_host_cleanup(x->h, 1, &err));
	ASSERT_GE(bytes - (5 << 20), h_pool(x, 1).bytes);
	h_replay(x, 1, g);
	h_is(x, 1, out, 7);
	h_destroy(x, g);
	h_free(x, in);
	h_free(x, out);
	OK(capkm_host_cleanup(x->h, 1, &err));
	ASSERT_EQ(0, h_pool(x, 1).bytes);
	ASSERT_EQ(0, h_pool(x, 1).slices);
	/* The metadata of its launches too. */
	ASSERT_EQ(0, t_domain_query(self->a).out_buffers);
}

/* TA-11 SC-15: memory that was tainted when it was freed is clean for the next owner. */
TEST_F(host, freed_memory_sheds_its_taint)
{
	struct ex *x = &self->x;
	uint64_t m, k;

	k = h_kernel(x, "fail", fn_fail, NULL);
	for (int i = 0; i < 20; i++) {
		m = h_alloc(x, 1);
		h_is_clean(x, m);
		h_launch(x, 1, k, 0, ARGS(W(m)));
		h_is_tainted(x, m, FAILED);
		h_free(x, m);
	}
	/* EG-11: once the pool has swept, nothing is left of it. */
	OK(capkm_host_cleanup(x->h, 1, &err));
	ASSERT_EQ(0, t_failures(self->a));
}

/* Many threads, each with a stream of its own on few slots. */
struct worker {
	SELF *self;
	uint64_t stream, wrong;
	pthread_t thread;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct ex *x = &w->self->x;
	uint64_t in = h_new_(x, w->stream, w->stream), out = h_new_(x, w->stream, 0), g;

	for (uint64_t i = 0; i < 20; i++) {
		uint64_t data[N];

		if (i % 4) {
			h_launch_(x, w->stream, x->add, i, ARGS(W(out), R(in)));
		} else {
			h_record_(x, w->stream);
			h_launch_(x, w->stream, x->add, i, ARGS(W(out), R(in)));
			g = h_end_(x, w->stream);
			h_replay_(x, w->stream, g);
			h_destroy_(x, g);
		}
		if (capkm_host_read(x->h, w->stream, &(struct capkm_host_range){ out, 0, 0 },
				    data, NULL, NULL) || data[N - 1] != w->stream + i)
			w->wrong++;
	}
	h_free_(x, in);
	h_free_(x, out);
	return NULL;
}

TEST_F(host, many_threads)
{
	struct worker w[8];

	for (int i = 0; i < 8; i++) {
		w[i] = (struct worker){ .self = self, .stream = 1 + i };
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(w[i].thread, NULL);
		ASSERT_EQ(0, w[i].wrong);
	}
	ASSERT_EQ(0, h_stats(&self->x).failed);
	ASSERT_EQ(0, h_stats(&self->x).graphs);
	ASSERT_EQ(0, h_stats(&self->x).queued);
}

/* The calling thread's stream, when none is named. */
TEST_F(host, stream_0_is_the_current_one)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 0, 5), w;

	capkm_stream_pin(7);
	h_set(x, 0, m, 6);
	w = h_record(x, 0);
	ASSERT_EQ(7, t_window(self->a, w).q.out_owner);
	ASSERT_EQ(7, t_window(self->a, w).q.out_slot);
	h_launch(x, 7, x->set, 8, ARGS(W(m)));
	h_replay(x, 0, h_end(x, 0));
	h_is(x, 0, m, 8);
	capkm_stream_unpin();
}

/* ------------------------------------------------------------------------ forks */

/* In a child: everything is refused, and what is given back there is the child's. */
static int in_child(struct ex *x, uint64_t memory, uint64_t graph, bool destroy)
{
	struct capkm_host_range all = { .memory = memory };
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch, .kernel = x->set,
						.grid = { 1, 1, 1 });
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	struct capkm_host_stats stats = CAPKM_OPTS(struct capkm_host_stats);
	struct capkm_pool_stats pool = CAPKM_OPTS(struct capkm_pool_stats);
	struct capkm_host_event event = { 0 };
	struct capkm_host_profile p = { 0 };
	char data[SIZE] = "";
	struct capkm_host_write w = { .to = all, .data = data };
	struct capkm_host *other;
	struct capkm_claim claim;
	uint64_t id;
	const int rc[] = {
		capkm_host_create(x->cl->c, NULL, &other, &err),
		capkm_host_alloc(x->h, 1, SIZE, 0, &id, &err),
		capkm_host_free(x->h, memory, &err),
		capkm_host_cleanup(x->h, 1, &err),
		capkm_host_memory_query(x->h, 1, &pool, &err),
		capkm_host_reset(x->h, &err),
		capkm_host_find(x->h, &all, &claim, &err),
		capkm_host_kernel_create(x->h, WITH(struct capkm_host_kernel, .name = "x",
					 .fn = fn_set), &id, &err),
		capkm_host_kernel_destroy(x->h, x->set, &err),
		capkm_host_launch(x->h, 1, &l, NULL, &err),
		capkm_host_copy(x->h, 1, &all, &all, NULL, &err),
		capkm_host_write(x->h, 1, &w, 1, NULL, &err),
		capkm_host_read(x->h, 1, &all, data, NULL, &err),
		capkm_host_check(x->h, &all, 1, &a, &err),
		capkm_host_sync(x->h, 1, &err),
		capkm_host_event_record(x->h, 1, &event, &err),
		capkm_host_event_wait(x->h, 1, &event, &err),
		capkm_host_event_sync(x->h, &event, &err),
		capkm_host_profile_begin(x->h, 1, &p, &err),
		capkm_host_profile_end(x->h, 1, &p, &err),
		capkm_host_graph_prepare(x->h, 1, NULL, NULL, &err),
		capkm_host_graph_begin(x->h, 1, &err),
		capkm_host_graph_end(x->h, 1, &id, NULL, &err),
		capkm_host_graph_abort(x->h, 1, &err),
		capkm_host_graph_replay(x->h, 1, graph, NULL, &err),
		capkm_host_graph_destroy(x->h, graph, &err),
		capkm_host_graph_find(x->h, graph, &id, &err),
		capkm_host_query(x->h, &stats, &err),
	};
	int wrong = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rc); i++)
		if (rc[i] != -ECANCELED) {
			fprintf(stderr, "# call %zu of a child: %d\n", i, rc[i]);
			wrong = 1;
		}
	if (destroy) {
		capkm_host_destroy(x->h);
		capkm_close(x->cl->c);
	}
	return wrong;
}

/* C81: while it runs, while it records, and when the worker thread holds whatever. */
TEST_F(host, fork)
{
	struct ex *x = &self->x;
	struct gate gate = GATE;
	uint64_t in = h_new(x, 1, 5), out = h_new(x, 1, 0), k, g;
	int pid, status;

	k = h_kernel(x, "gated", fn_gated, &gate);
	g = graph_of_add(x, 1, out, in, 1);
	h_launch(x, 3, k, 0, NO_ARGS);
	gate_await(&gate, 1);
	h_record(x, 2);
	h_add(x, 2, out, in, 7);
	for (int i = 0; i < 2; i++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			int rc = in_child(x, in, g, i);

			/* What it inherited stays: no end for a look for leaks. */
			fflush(NULL);
			syscall(SYS_exit_group, rc);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_slot(self->a, 2).out_state);
	gate_open(&gate);
	h_sync(x, 3);
	h_replay(x, 1, g);
	h_is(x, 1, out, 6);
	h_replay(x, 1, h_end(x, 2));
	h_is(x, 1, out, 12);
}

/*
 * A child that becomes a client of its parent's session has a handle, but the executor
 * stays the parent's: its threads are not here. The child makes one of its own.
 */
static int joined_child(struct ex *x, uint64_t memory)
{
	struct capkm_host *own = NULL;
	struct ex y;

	if (capkm_join(x->cl->c, &err))
		return 1;
	if (capkm_host_sync(x->h, 1, &err) != -ECANCELED ||
	    h_try_launch(x, 1, x->set, 1, ARGS(W(memory)), 0).rc != -ECANCELED ||
	    capkm_host_graph_prepare(x->h, 1, NULL, NULL, &err) != -ECANCELED)
		return 2;
	capkm_host_destroy(x->h);
	if (capkm_host_create(x->cl->c, NULL, &own, &err))
		return 3;
	capkm_host_destroy(own);
	h_create(&y, x->cl, NULL);
	h_is(&y, 1, h_new(&y, 1, 6), 6);
	capkm_host_destroy(y.h);
	return 0;
}

TEST_F(host, fork_and_join)
{
	struct ex *x = &self->x;
	uint64_t m = h_new(x, 1, 5);
	int pid, status;

	ONLY_KERNEL();
	h_is(x, 1, m, 5);
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		int rc = (alarm(20), joined_child(x, m));

		fflush(NULL);
		syscall(SYS_exit_group, rc);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	h_is(x, 1, m, 5);
	h_set(x, 1, m, 7);
	h_is(x, 1, m, 7);
}

/* -------------------------------------------------------------------- processes */

/* What the other process tells, and shares. */
struct told {
	int ready;		/* its function is inside */
	struct capkm_claim out, near;
	uint64_t window;
};

FIXTURE(process)
{
	struct cl *a;		/* who looks on */
	struct told *told;
	int pid;
};

FIXTURE_SETUP(process)
{
	self->told = mmap(NULL, sizeof(*self->told), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->told);
	self->a = t_client();
	h_domain(self->a);
}

FIXTURE_TEARDOWN(process)
{
	t_close(self->a);
	t_no_leaks();
}

/* How a function leaves its process. */
enum how { SELF_KILL, SEGFAULT, EXIT, QUIT, JUMP, REST };

struct doomed {
	struct told *told;
	enum how how;
};

static jmp_buf elsewhere;
static struct capkm_host *of_doomed;

/* What a program does at its end, here from inside of the function. */
static void clean_up(void)
{
	capkm_host_destroy(of_doomed);
}

static int fn_doomed(const struct capkm_host_call *call)
{
	const struct doomed *d = call->context;

	memset(call->args[0], 0x44, call->bytes[0]);
	store(&d->told->ready, 1);
	switch (d->how) {
	case SELF_KILL: raise(SIGKILL); break;
	case SEGFAULT: *(volatile int *)call->bytes[0] = 1; break;
	case EXIT: syscall(SYS_exit_group, 3); break;
	case QUIT: exit(3);
	case JUMP: longjmp(elsewhere, 1);
	case REST: rest();
	}
	return 0;
}

/*
 * A process with an executor, of which another one may look at the memory. Its function
 * runs alone, or in the middle of a replay.
 */
static void __attribute__((noreturn))
be_doomed(const FIXTURE_DATA(process) *self, enum how how, bool replay)
{
	struct doomed d = { self->told, how };
	struct cl *cl = t_client();
	uint64_t m, near, k, g;
	struct ex x;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	h_attach(cl, self->a->domain);
	h_create(&x, cl, NULL);
	of_doomed = x.h;
	atexit(clean_up);
	m = h_new(&x, 1, 5);
	near = h_new(&x, 1, 6);
	h_is(&x, 1, near, 6);
	self->told->out = h_claim(&x, m);
	self->told->near = h_claim(&x, near);
	if (capkm_buffer_export(cl->c, self->told->out.buffer, &err) ||
	    capkm_buffer_export(cl->c, self->told->near.buffer, &err))
		_exit(1);
	k = h_kernel(&x, "doomed", fn_doomed, &d);
	/* The other one opens the buffer before anything happens. */
	store(&self->told->ready, 2);
	while (load(&self->told->ready) == 2)
		usleep(1000);
	if (how == JUMP && setjmp(elsewhere))
		rest();
	if (replay) {
		self->told->window = h_record(&x, 1);
		h_set(&x, 1, near, 7);
		h_launch(&x, 1, k, 0, ARGS(W(m)));
		g = h_end(&x, 1);
		h_replay(&x, 1, g);
	} else {
		h_launch(&x, 1, k, 0, ARGS(W(m)));
	}
	rest();
}

static void meets_its_end(struct __test_metadata *_metadata, FIXTURE_DATA(process) *self,
			  enum how how, bool replay)
{
	struct told *told = self->told;
	struct t_check c;
	int status, pid;

	memset(told, 0, sizeof(*told));
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		be_doomed(self, how, replay);
	UNTIL(load(&told->ready) == 2);
	t_open(self->a, told->out.buffer);
	if (told->near.buffer != told->out.buffer)
		t_open(self->a, told->near.buffer);
	t_is_clean(self->a, told->out.buffer, told->out.start, told->out.end);
	store(&told->ready, 0);
	UNTIL(load(&told->ready) == 1);
	if (how == JUMP) {
		/* Undefined: it may have died of it, or its thread be lost. */
		usleep(100000);
		kill(pid, SIGKILL);
	}
	if (how == REST) {
		/* In the middle of it the bytes are being written. */
		t_is_tainted(self->a, told->out.buffer, told->out.start, told->out.end,
			     CAPKM_KIND_IN_PROGRESS);
		kill(pid, SIGKILL);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	c = t_check(self->a, C(told->out));
	ASSERT_EQ(CAPKM_TAINTED, c.result);
	ASSERT_EQ(CAPKM_KIND_TORN_DOWN, c.r[0].kind);
	HAS(c.r[0].text, "torn down");
	if (!replay)
		ASSERT_STREQ("doomed", (char *)c.r[0].label);
	c = t_check(self->a, C(told->near));
	ASSERT_EQ(replay ? CAPKM_TAINTED : CAPKM_CLEAN, c.result);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	t_written(self->a, C(told->out, told->near));
	ASSERT_EQ(0, t_failures(self->a));
	ASSERT_EQ(0, t_drop(self->a, told->out.buffer));
	if (told->near.buffer != told->out.buffer)
		ASSERT_EQ(0, t_drop(self->a, told->near.buffer));
}

/*
 * SC-15 D-7: a function takes the process with it. Who shares the memory never reads
 * what it had half written.
 */
TEST_F(process, function_takes_the_process_with_it)
{
	ONLY_KERNEL();
	meets_its_end(_metadata, self, SELF_KILL, false);
	meets_its_end(_metadata, self, SEGFAULT, false);
	meets_its_end(_metadata, self, EXIT, false);
	meets_its_end(_metadata, self, QUIT, false);
}

/* The same in the middle of a replay: all that the graph writes. */
TEST_F(process, function_takes_a_replay_with_it)
{
	ONLY_KERNEL();
	meets_its_end(_metadata, self, SELF_KILL, true);
	meets_its_end(_metadata, self, EXIT, true);
	meets_its_end(_metadata, self, QUIT, true);
}

TEST_F(process, killed_in_the_middle)
{
	ONLY_KERNEL();
	meets_its_end(_metadata, self, REST, false);
	meets_its_end(_metadata, self, REST, true);
}

/* A function leaves by longjmp(), which it must not: dead or alive, nothing is clean. */
TEST_F(process, function_jumps_out)
{
	ONLY_KERNEL();
	meets_its_end(_metadata, self, JUMP, false);
}

/* Killed while it records: nothing has run, and nothing that was recorded is clean. */
TEST_F(process, killed_while_it_records)
{
	struct told *told = self->told;
	struct cl *cl;
	uint64_t m, k;
	struct ex x;
	int pid;

	ONLY_KERNEL();
	fflush(NULL);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct doomed d = { told, REST };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		cl = t_client();
		h_attach(cl, self->a->domain);
		h_create(&x, cl, NULL);
		m = h_new(&x, 1, 5);
		h_is(&x, 1, m, 5);
		told->out = h_claim(&x, m);
		if (capkm_buffer_export(cl->c, told->out.buffer, &err))
			_exit(1);
		k = h_kernel(&x, "doomed", fn_doomed, &d);
		told->window = h_record(&x, 1);
		h_launch(&x, 1, k, 0, ARGS(W(m)));
		store(&told->ready, 2);
		rest();
	}
	UNTIL(load(&told->ready) == 2);
	t_open(self->a, told->out.buffer);
	t_is_clean(self->a, told->out.buffer, told->out.start, told->out.end);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	t_is_tainted(self->a, told->out.buffer, told->out.start, told->out.end,
		     CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, told->window).q.out_state);
	ASSERT_EQ(2, load(&told->ready));
	ASSERT_EQ(0, t_abandon(self->a, told->window));
	ASSERT_EQ(0, t_drop(self->a, told->out.buffer));
}

TEST_HARNESS_MAIN
