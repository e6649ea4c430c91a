// SPDX-License-Identifier: GPL-2.0-only
/*
 * SUBMIT: what its elements may be, what they refer to, where it stops, and that they do
 * what the same operations do one by one.
 */
#include <pthread.h>

#include "calls.h"

#define ARRAY(a, p, n) .a##_uptr = t_ptr(p), .a##_len = (n)

/* Elements that are put together. */
struct batch {
	struct capkm_element e[CAPKM_ELEMENTS_MAX + 1];
	struct capkm_submit s;
};

/* Returns its number. */
static unsigned int add(struct batch *b, unsigned int nr, void *arg)
{
	t_put32(arg, 0, t_ops[nr].size);
	b->e[b->s.elements_len] = (struct capkm_element){ nr, .arg_uptr = t_ptr(arg) };
	return b->s.elements_len++;
}

#define ADD(b, NR, arg) add(b, CAPKM_NR_##NR, arg)

static int submit(struct cl *cl, struct batch *b)
{
	b->s.elements_uptr = t_ptr(b->e);
	return t_call(cl, CAPKM_NR_SUBMIT, &b->s);
}

/* All of them are done. */
#define t_submit(cl, b) (T_AT, t_submit_(cl, b))
static void t_submit_(struct cl *cl, struct batch *b)
{
	int rc = submit(cl, b);

	if (rc)
		t_die("SUBMIT: %d", rc);
	if (b->s.out_error || b->s.out_done != b->s.elements_len)
		t_die("SUBMIT: element %u: error %u", b->s.out_done, b->s.out_error);
}

/* Those before @at are done, and why not the next one. */
#define t_stops(cl, b, at, error) (T_AT, t_stops_(cl, b, at, error))
static void t_stops_(struct cl *cl, struct batch *b, unsigned int at, unsigned int error)
{
	int rc = submit(cl, b);

	if (rc)
		t_die("SUBMIT: %d", rc);
	if (b->s.out_done != at || b->s.out_error != error)
		t_die("SUBMIT: element %u: error %u", b->s.out_done, b->s.out_error);
	if (error && b->s.out_error_index != at)
		t_die("SUBMIT: out_error_index %u", b->s.out_error_index);
}

static struct capkm_scope_enter enters(u_int64_t stream, const struct capkm_claim *reads,
				       size_t n_reads, const struct capkm_claim *writes,
				       size_t n_writes)
{
	return (struct capkm_scope_enter){
		.place = t_place(stream), ARRAY(reads, reads, n_reads),
		ARRAY(writes, writes, n_writes),
	};
}

FIXTURE(submit)
{
	struct cl *a, *b;		/* of one domain */
	u_int64_t x, y;			/* a's */
	u_int64_t shared;		/* b's, which a has opened */
	struct batch batch;
};

FIXTURE_SETUP(submit)
{
	memset(&self->batch, 0, sizeof(self->batch));
	self->a = t_client();
	self->b = t_client();
	t_domain(self->a);
	t_attach(self->b, self->a->domain);
	self->x = t_buffer(self->a, 100);
	self->y = t_buffer(self->a, 100);
	self->shared = t_shared(self->b, 100);
	t_open(self->a, self->shared);
}

FIXTURE_TEARDOWN(submit)
{
	t_close(self->b);
	t_close(self->a);
	t_no_leaks();
}

/* ---- what may be in it ---- */

TEST_F(submit, none_one_and_as_many_as_there_may_be)
{
	struct batch *b = &self->batch;
	static struct capkm_written w[CAPKM_ELEMENTS_MAX + 1];
	u_int64_t sequence = t_domain_query(self->a).out_sequence;

	t_submit(self->a, b);
	for (unsigned int i = 0; i < CAPKM_ELEMENTS_MAX; i++) {
		w[i] = (struct capkm_written){ ARRAY(claims, NULL, 0) };
		ADD(b, WRITTEN, &w[i]);
		if (i == 0 || i == CAPKM_ELEMENTS_MAX - 1)
			t_submit(self->a, b);
	}
	/* Each was done, in this order. */
	for (unsigned int i = 1; i < CAPKM_ELEMENTS_MAX; i++)
		ASSERT_EQ(w[i - 1].out_sequence + CAPKM_SEQUENCE_STEP, w[i].out_sequence);
	ASSERT_EQ(sequence + (1 + CAPKM_ELEMENTS_MAX) * CAPKM_SEQUENCE_STEP,
		  t_domain_query(self->a).out_sequence);
	ADD(b, WRITTEN, &w[CAPKM_ELEMENTS_MAX]);
	T_REFUSED(self->a, -EMSGSIZE, submit(self->a, b));
	b->s.elements_len = UINT32_MAX;
	T_REFUSED(self->a, -EMSGSIZE, submit(self->a, b));
	b->s.elements_len = 3;
	b->s.from = 4;
	T_REFUSED(self->a, -EINVAL, submit(self->a, b));
	b->s.from = 3;
	T_REFUSED(self->a, 0, submit(self->a, b));
	ASSERT_EQ(3, b->s.out_done);
}

/* Nothing in front of it is done either. */
TEST_F(submit, what_may_not_be_in_it)
{
	static const struct {
		unsigned int nr;
		int rc;
	} bad[] = {
		{ CAPKM_NR_SUBMIT, -EOPNOTSUPP },
		{ CAPKM_NR_WINDOW_WAIT, -EOPNOTSUPP },
		{ CAPKM_NR_SESSION_JOIN, -EOPNOTSUPP },
		{ CAPKM_NR_DOMAIN_CREATE, -EOPNOTSUPP },
		{ CAPKM_NR_DOMAIN_ATTACH, -EOPNOTSUPP },
		{ CAPKM_NR_DOMAIN_QUERY, -EOPNOTSUPP },
		{ CAPKM_NR_DOMAIN_DESTROY, -EOPNOTSUPP },
		{ CAPKM_NR_SCOPE_TABLE + 1, -ENOTTY },
		{ UINT32_MAX, -ENOTTY },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		for (unsigned int at = 0; at < 40; at += 13) {
			static struct capkm_written w[40];
			u_int64_t other[T_ARG_MAX / 8] = { 8 };
			struct batch *b = &self->batch;

			b->s.elements_len = 0;
			for (unsigned int j = 0; j < 40; j++)
				ADD(b, WRITTEN, &w[j]);
			b->e[at] = (struct capkm_element){ bad[i].nr, .arg_uptr = t_ptr(other) };
			T_REFUSED(self->a, bad[i].rc, submit(self->a, b));
			ASSERT_EQ(at, b->s.out_error_index);
			ADD(b, WRITTEN, &w[0]);
			b->e[at].nr = CAPKM_NR_WRITTEN;
			b->e[at].__reserved = 1;
			T_REFUSED(self->a, -EINVAL, submit(self->a, b));
			ASSERT_EQ(at, b->s.out_error_index);
			b->e[at].__reserved = 0;
		}
	}
}

/* What needs no domain does not need one here. */
TEST_F(submit, without_a_domain)
{
	struct cl *u = t_client();
	struct batch *b = &self->batch;
	struct capkm_info info[2] = { 0 };
	struct capkm_written w = { 0 };

	ADD(b, INFO, &info[0]);
	ADD(b, WRITTEN, &w);
	ADD(b, INFO, &info[1]);
	t_stops(u, b, 1, ENOTCONN);
	ASSERT_EQ(CAPKM_ABI_VERSION, info[0].out_abi_version);
	ASSERT_EQ(0, info[1].out_abi_version);
	b->e[1] = b->e[0];
	t_submit(u, b);
	ASSERT_EQ(CAPKM_ABI_VERSION, info[1].out_abi_version);
	/* Between others, in a domain */
	b->e[0] = (struct capkm_element){ CAPKM_NR_WRITTEN, .arg_uptr = t_ptr(&w) };
	t_submit(self->a, b);
	t_close(u);
}

/* ---- references ---- */

TEST_F(submit, buffers_and_scopes)
{
	struct batch *b = &self->batch;
	struct capkm_buffer_create c = { .bytes = 10 };
	struct capkm_claim w[] = { { self->x, 0, 5 }, { CAPKM_REF(0), 2, 4 } };
	struct capkm_claim r[] = { { CAPKM_REF(0), 0, 10 } };
	struct capkm_scope_enter e = enters(1, r, 1, w, 2);
	struct capkm_check k[2] = { { ARRAY(claims, r, 1) }, { ARRAY(claims, w, 2) } };
	struct capkm_scope_exit x = { .scope = CAPKM_REF(1) };
	struct capkm_buffer_reset reset = { .claim = { CAPKM_REF(0), 0, 1 } };
	struct capkm_buffer_query q = { .buffer = CAPKM_REF(0) };
	struct capkm_buffer_export export = { .buffer = CAPKM_REF(0) };
	struct capkm_buffer_close close = { .buffer = CAPKM_REF(0) };

	ADD(b, BUFFER_CREATE, &c);
	ADD(b, SCOPE_ENTER, &e);
	ADD(b, CHECK, &k[0]);
	ADD(b, SCOPE_EXIT, &x);
	ADD(b, CHECK, &k[1]);
	ADD(b, BUFFER_RESET, &reset);
	ADD(b, BUFFER_QUERY, &q);
	ADD(b, BUFFER_EXPORT, &export);
	ADD(b, BUFFER_CLOSE, &close);
	for (int again = 0; again < 2; again++) {
		t_submit(self->a, b);
		ASSERT_NE(0, e.out_scope);
		ASSERT_EQ(CAPKM_TAINTED, k[0].out_result);
		ASSERT_EQ(CAPKM_CLEAN, k[1].out_result);
		ASSERT_EQ(10, q.out_bytes);
		ASSERT_EQ(1, q.out_holders);
		/* It is gone; the references are as they were. */
		ASSERT_EQ(-ENOENT, t_drop(self->a, c.out_buffer));
		ASSERT_EQ(CAPKM_REF(1), x.scope);
		ASSERT_EQ(CAPKM_REF(0), reset.claim.buffer);
		ASSERT_EQ(CAPKM_REF(0), q.buffer);
		ASSERT_EQ(CAPKM_REF(0), close.buffer);
		ASSERT_EQ(CAPKM_REF(0), w[1].buffer);
	}
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
}

/* A buffer is opened by one and written by others, in one go. */
TEST_F(submit, streams_windows_graphs)
{
	struct batch *b = &self->batch;
	struct capkm_claim w[] = { { self->x, 0, 5 } };
	struct capkm_stream_create s = { 0 };
	struct capkm_window_prepare p = { .place.stream = CAPKM_REF(0) };
	struct capkm_window_begin begin = { .place.stream = CAPKM_REF(0) };
	struct capkm_scope_enter e = enters(0, NO_CLAIMS, w, 1);
	struct capkm_scope_exit x = { .scope = CAPKM_REF(3) };
	struct capkm_window_retain retain = {
		.window = CAPKM_REF(1), .retained = { .address = 1, .bytes = 8 },
	};
	struct capkm_window_query q = { .window = CAPKM_REF(3) };
	struct capkm_window_end end = { .place.stream = CAPKM_REF(0),
					.window = CAPKM_REF(2) };
	struct capkm_window_seal seal = { .window = CAPKM_REF(7) };
	struct capkm_graph_query gq = { .graph = CAPKM_REF(8) };
	struct capkm_graph_replay_begin rb = { .graph = CAPKM_REF(8),
					       .place.stream = CAPKM_REF(0) };
	struct capkm_graph_replay_end re = { .graph = CAPKM_REF(10) };
	struct capkm_graph_destroy d = { .graph = CAPKM_REF(8) };
	struct capkm_stream_destroy sd = { .stream = CAPKM_REF(0) };

	e.place.stream = CAPKM_REF(0);
	ADD(b, STREAM_CREATE, &s);
	ADD(b, WINDOW_PREPARE, &p);
	ADD(b, WINDOW_BEGIN, &begin);
	ADD(b, SCOPE_ENTER, &e);
	ADD(b, SCOPE_EXIT, &x);
	ADD(b, WINDOW_RETAIN, &retain);
	ADD(b, WINDOW_QUERY, &q);
	ADD(b, WINDOW_END, &end);
	ADD(b, WINDOW_SEAL, &seal);
	ADD(b, GRAPH_QUERY, &gq);
	ADD(b, GRAPH_REPLAY_BEGIN, &rb);
	ADD(b, GRAPH_REPLAY_END, &re);
	ADD(b, GRAPH_DESTROY, &d);
	ADD(b, STREAM_DESTROY, &sd);
	t_submit(self->a, b);
	ASSERT_LE(CAPKM_STREAM_FIRST, s.out_stream);
	ASSERT_EQ(p.out_window, e.out_window);
	ASSERT_EQ(p.out_window, q.out_window);
	ASSERT_EQ(s.out_stream, q.out_owner);
	ASSERT_EQ(1, q.out_recorded);
	ASSERT_EQ(1, q.out_retained);
	ASSERT_EQ(CAPKM_CLEAN, seal.out_result);
	ASSERT_EQ(p.out_window, gq.out_window);
	ASSERT_EQ(CAPKM_CLEAN, rb.out_result);
	ASSERT_EQ(0, re.out_failure);
	ASSERT_EQ(CAPKM_REF(0), rb.place.stream);
	ASSERT_EQ(CAPKM_REF(8), rb.graph);
	ASSERT_EQ(CAPKM_REF(7), seal.window);
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
	ASSERT_EQ(-ENOENT, t_try_destroy_stream(self->a, s.out_stream));
}

TEST_F(submit, failures_and_ledgers)
{
	struct batch *b = &self->batch;
	struct capkm_claim c[] = { { self->x, 0, 5 } }, d[] = { { self->y, 0, 5 } };
	struct capkm_report report;
	struct capkm_taint t = { ARRAY(claims, c, 1), .kind = CAPKM_KIND_IO };
	struct capkm_taint more = { ARRAY(claims, d, 1), .failure = CAPKM_REF(0) };
	struct capkm_failure_query q = { .failure = CAPKM_REF(0),
					 ARRAY(reports, &report, 1) };
	struct capkm_ledger_create l = { .cumulative = { 9, 9, 9, 9 },
					 .per_step = { 9, 9, 9, 9 } };
	struct capkm_ledger_begin_step step = { .ledger = CAPKM_REF(3) };
	struct capkm_ledger_reserve reserve = { .ledger = CAPKM_REF(3),
						.usage = { 2, 2, 2, 2 } };
	struct capkm_ledger_fork fork = { .ledger = CAPKM_REF(3),
					  .cumulative = { 9, 9, 9, 9 } };
	struct capkm_ledger_query lq = { .ledger = CAPKM_REF(6) };
	struct capkm_ledger_destroy ld[2] = { { .ledger = CAPKM_REF(3) },
					      { .ledger = CAPKM_REF(6) } };

	ADD(b, TAINT, &t);
	ADD(b, TAINT, &more);
	ADD(b, FAILURE_QUERY, &q);
	ADD(b, LEDGER_CREATE, &l);
	ADD(b, LEDGER_BEGIN_STEP, &step);
	ADD(b, LEDGER_RESERVE, &reserve);
	ADD(b, LEDGER_FORK, &fork);
	ADD(b, LEDGER_QUERY, &lq);
	ADD(b, LEDGER_DESTROY, &ld[0]);
	ADD(b, LEDGER_DESTROY, &ld[1]);
	t_submit(self->a, b);
	ASSERT_NE(0, t.out_failure);
	ASSERT_EQ(t.out_failure, more.out_failure);
	ASSERT_EQ(t.out_failure, report.failure);
	ASSERT_EQ(2, report.carriers);
	ASSERT_EQ(fork.out_ledger, lq.out_ledger);
	ASSERT_EQ(l.out_ledger, lq.out_parent);
	ASSERT_EQ(2, lq.out_total.captures);
}

/* Far apart, with arrays that fill a batch of their own in between. */
TEST_F(submit, over_many_batches)
{
	struct batch *b = &self->batch;
	static struct capkm_claim many[CAPKM_CLAIMS_MAX];
	static struct capkm_scope_enter e[100];
	static struct capkm_scope_exit x[100];
	static struct capkm_check k[50];
	struct capkm_buffer_create c = { .bytes = 100000 };
	struct capkm_claim w = { CAPKM_REF(0), 0, 100000 };

	ADD(b, BUFFER_CREATE, &c);
	for (unsigned int i = 0; i < CAPKM_CLAIMS_MAX; i++)
		many[i] = (struct capkm_claim){ CAPKM_REF(0), 4 * i, 4 * i + 2 };
	for (unsigned int i = 0; i < 100; i++) {
		e[i] = enters(i, NO_CLAIMS, &w, 1);
		if (i % 30 == 17)
			e[i] = enters(i, NO_CLAIMS, many, CAPKM_CLAIMS_MAX);
		ADD(b, SCOPE_ENTER, &e[i]);
	}
	for (unsigned int i = 0; i < 50; i++) {
		k[i] = (struct capkm_check){ ARRAY(claims, &w, 1) };
		ADD(b, CHECK, &k[i]);
	}
	for (unsigned int i = 0; i < 100; i++) {
		x[i] = (struct capkm_scope_exit){ .scope = CAPKM_REF(1 + i) };
		ADD(b, SCOPE_EXIT, &x[i]);
	}
	t_submit(self->a, b);
	for (unsigned int i = 1; i < 100; i++)
		ASSERT_EQ(e[i - 1].out_scope + 1, e[i].out_scope);
	for (unsigned int i = 0; i < 50; i++)
		ASSERT_EQ(CAPKM_TAINTED, k[i].out_result);
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	t_is_clean(self->a, c.out_buffer, 0, 100000);
	/* What was looked up does not stay in the caller's arrays. */
	ASSERT_EQ(CAPKM_REF(0), many[4095].buffer);
	ASSERT_EQ(0, t_drop(self->a, c.out_buffer));
}

TEST_F(submit, references_to_nothing)
{
	static const u_int64_t bad[] = {
		CAPKM_REF(2),			/* itself */
		CAPKM_REF(3),			/* behind */
		CAPKM_REF(300), CAPKM_REF(1ull << 61), CAPKM_REF(1), /* gives no scope */
		2 * CAPKM_REF(0) - 1,
	};
	struct batch *b = &self->batch;
	struct capkm_claim w[] = { { self->x, 0, 5 }, { 0, 2, 4 } };
	struct capkm_scope_enter e = enters(1, NO_CLAIMS, w, 1), e2 = e;
	struct capkm_written written = { ARRAY(claims, w, 1) };
	struct capkm_scope_exit x = { 0 };
	struct capkm_window_end end = { .place.stream = 1, .window = CAPKM_REF(2) };

	ADD(b, SCOPE_ENTER, &e);
	ADD(b, WRITTEN, &written);
	ADD(b, SCOPE_EXIT, &x);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		x.scope = bad[i];
		t_stops(self->a, b, 2, EINVAL);
		ASSERT_EQ(bad[i], x.scope);
		t_exit(self->a, e.out_scope);
	}
	/* Itself, although it will give one */
	b->s.elements_len = 2;
	ADD(b, WINDOW_END, &end);
	t_stops(self->a, b, 2, EINVAL);
	t_exit(self->a, e.out_scope);
	b->s.elements_len = 2;
	ADD(b, SCOPE_EXIT, &x);
	/* No reference, and no id either */
	x.scope = 1ull << 61;
	t_stops(self->a, b, 2, ENOENT);
	t_exit(self->a, e.out_scope);
	/* In a claim: which one */
	b->s.elements_len = 1;
	e2 = enters(1, w, 1, w, 2);
	ADD(b, SCOPE_ENTER, &e2);
	w[1].buffer = CAPKM_REF(0);
	t_stops(self->a, b, 1, EINVAL);
	ASSERT_EQ(2, e2.out_error_index);
	t_exit(self->a, e.out_scope);
	/* Alone, it is an id that nobody has. */
	ASSERT_EQ(-ENOENT, t_try_exit(self->a, CAPKM_REF(0)));
	ASSERT_EQ(-ENOENT, t_call(self->a, CAPKM_NR_SCOPE_ENTER, &e2));
}

/* The window is refused: there is no graph. */
TEST_F(submit, what_was_not_given)
{
	struct batch *b = &self->batch;
	u_int64_t w = t_record(self->a, 1);
	struct capkm_window_fail f = { .window = w, .stream = 1,
				       .kind = CAPKM_KIND_DRIVER };
	struct capkm_window_end end = { .place.stream = 1 };
	struct capkm_window_seal seal = { .window = CAPKM_REF(1) };
	struct capkm_graph_replay_begin rb = { .graph = CAPKM_REF(2), .place.stream = 1 };

	ADD(b, WINDOW_FAIL, &f);
	ADD(b, WINDOW_END, &end);
	ADD(b, WINDOW_SEAL, &seal);
	ADD(b, GRAPH_REPLAY_BEGIN, &rb);
	t_stops(self->a, b, 3, ENOENT);
	ASSERT_EQ(CAPKM_REFUSED, seal.out_result);
	ASSERT_EQ(0, seal.out_graph);
}

/* ---- what is skipped ---- */

TEST_F(submit, nothing_to_leave)
{
	struct batch *b = &self->batch;
	u_int64_t f = t_fail(self->a, 1, C({ self->x, 0, 5 }), "bad");
	struct capkm_claim r[] = { { self->x, 0, 5 } }, w[] = { { self->y, 0, 5 } };
	struct capkm_scope_enter e = enters(1, r, 1, w, 1);
	struct capkm_scope_exit x[2] = {
		{ .scope = CAPKM_REF(0) },
		{ .scope = CAPKM_REF(0), .flags = CAPKM_SCOPE_EXIT_F_FAILED,
		  .kind = CAPKM_KIND_IO },
	};
	struct capkm_check k = { ARRAY(claims, w, 1) };
	u_int64_t g, sequence;

	ADD(b, SCOPE_ENTER, &e);
	ADD(b, SCOPE_EXIT, &x[0]);
	ADD(b, SCOPE_EXIT, &x[1]);
	ADD(b, CHECK, &k);
	memset(&x[0].out_failure, 0xcc, 16);
	t_submit(self->a, b);
	ASSERT_EQ(CAPKM_SKIPPED, e.out_result);
	ASSERT_EQ(0, x[0].out_failure);
	ASSERT_EQ(0, x[0].out_sequence);
	ASSERT_EQ(0, x[1].out_failure);
	ASSERT_EQ(CAPKM_REF(0), x[1].scope);
	ASSERT_EQ(CAPKM_TAINTED, k.out_result);
	ASSERT_EQ(e.out_sequence, k.out_sequence);
	t_is_failed(self->a, self->y, 0, 5, f);

	/* A replay */
	t_written(self->a, C({ self->x, 0, 5 }, { self->y, 0, 5 }));
	g = t_graph(self->a, 2, C({ self->x, 0, 5 }), C({ self->y, 0, 5 }));
	t_fail(self->a, 1, C({ self->x, 0, 5 }), "bad");
	struct capkm_graph_replay_begin rb = { .graph = g, .place.stream = 2 };
	struct capkm_graph_replay_end re = { .graph = CAPKM_REF(0) };

	b->s.elements_len = 0;
	ADD(b, GRAPH_REPLAY_BEGIN, &rb);
	ADD(b, GRAPH_REPLAY_END, &re);
	t_submit(self->a, b);
	ASSERT_EQ(CAPKM_SKIPPED, rb.out_result);
	ASSERT_EQ(0, re.out_sequence);
	/* By its id it is a wrong call. */
	re.graph = g;
	t_stops(self->a, b, 1, EINVAL);
	t_written(self->a, C({ self->x, 0, 5 }));
	re.graph = CAPKM_REF(0);
	sequence = t_domain_query(self->a).out_sequence;
	t_submit(self->a, b);
	ASSERT_EQ(CAPKM_CLEAN, rb.out_result);
	ASSERT_LT(sequence, re.out_sequence);
}

/* ---- where it stops ---- */

/* The rest is as it was, its answers too. */
TEST_F(submit, the_first_that_is_wrong)
{
	struct batch *b = &self->batch;
	struct capkm_claim good[] = { { self->x, 0, 5 } };
	struct capkm_claim bad[] = { { self->x, 0, 5 }, { self->x, 5, 4 } };
	static struct capkm_taint t[40];
	struct capkm_report reports[2];
	struct capkm_refuse refuse = {
		.place.stream = 1, .what = CAPKM_REFUSE_READ, ARRAY(reports, reports, 2),
	};

	for (unsigned int at = 0; at < 40; at++) {
		u_int64_t sequence = t_domain_query(self->a).out_sequence;

		b->s.elements_len = 0;
		memset(reports, 0xcc, sizeof(reports));
		for (unsigned int i = 0; i < 40; i++) {
			t[i] = (struct capkm_taint){
				ARRAY(claims, i == at ? bad : good, i == at ? 2 : 1),
				.kind = CAPKM_KIND_IO, .out_failure = 77,
				.out_error_index = 77,
			};
			ADD(b, TAINT, &t[i]);
		}
		ADD(b, REFUSE, &refuse);
		t_stops(self->a, b, at, EINVAL);
		for (unsigned int i = 0; i < 40; i++) {
			ASSERT_EQ(i == at ? 1 : 77, t[i].out_error_index);
			ASSERT_EQ(i < at, t[i].out_failure != 77);
		}
		for (size_t i = 0; i < sizeof(reports); i++)
			ASSERT_EQ(0xcc, ((unsigned char *)reports)[i]);
		ASSERT_EQ(sequence + at * CAPKM_SEQUENCE_STEP, t_domain_query(self->a).out_sequence);
		/* Mended, it goes on. */
		t[at].claims_len = 1;
		b->s.from = b->s.out_done;
		t_submit(self->a, b);
		b->s.from = 0;
		ASSERT_EQ(sequence + 40 * CAPKM_SEQUENCE_STEP, t_domain_query(self->a).out_sequence);
	}
}

/* What else an element says about its error */
TEST_F(submit, limits_and_states)
{
	struct cl *c = t_client();
	struct batch *b = &self->batch;
	struct capkm_buffer_create create[3];
	struct capkm_window_prepare p[2] = { { .place.stream = 1 }, { .place.stream = 1 } };

	t_domain_limit(c, CAPKM_LIMIT_BUFFERS, 2);
	for (int i = 0; i < 3; i++) {
		create[i] = (struct capkm_buffer_create){ .bytes = 1 };
		ADD(b, BUFFER_CREATE, &create[i]);
	}
	t_stops(c, b, 2, EDQUOT);
	ASSERT_EQ(CAPKM_LIMIT_BUFFERS, create[2].out_limit);
	ASSERT_EQ(0, t_drop(c, create[0].out_buffer));
	b->s.from = 2;
	t_submit(c, b);
	t_close(c);

	b->s.from = b->s.elements_len = 0;
	ADD(b, WINDOW_PREPARE, &p[0]);
	ADD(b, WINDOW_PREPARE, &p[1]);
	t_stops(self->a, b, 1, EBUSY);
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, p[1].out_state);
	ASSERT_EQ(0, p[1].out_window);
}

/* Somebody writes what it needs: there it stops, and goes on there. */
TEST_F(submit, in_progress)
{
	struct batch *b = &self->batch;
	u_int64_t theirs = t_enter(self->b, 1, NO_CLAIMS, C({ self->shared, 0, 9 }));
	struct capkm_claim r[] = { { self->shared, 5, 6 } }, w[] = { { self->x, 0, 5 } };
	struct capkm_report report = { 0 };
	struct capkm_scope_enter e[2] = { enters(1, NO_CLAIMS, w, 1), enters(1, r, 1, w, 1) };
	struct capkm_scope_exit x[2] = { { .scope = CAPKM_REF(1) }, { .scope = CAPKM_REF(0) } };
	struct capkm_written after = { 0 };

	e[1].reports_uptr = t_ptr(&report);
	e[1].reports_len = 1;
	ADD(b, SCOPE_ENTER, &e[0]);
	ADD(b, SCOPE_ENTER, &e[1]);
	ADD(b, SCOPE_EXIT, &x[0]);
	ADD(b, SCOPE_EXIT, &x[1]);
	ADD(b, WRITTEN, &after);
	t_stops(self->a, b, 1, 0);
	ASSERT_EQ(CAPKM_IN_PROGRESS, e[1].out_result);
	ASSERT_EQ(theirs, report.scope);
	ASSERT_EQ(0, after.out_sequence);
	b->s.from = 1;
	t_stops(self->a, b, 1, 0);
	/* What is wrong behind it comes later. */
	b->e[4].arg_uptr = 8;
	t_stops(self->a, b, 1, 0);
	b->e[4].arg_uptr = t_ptr(&after);
	t_exit(self->b, theirs);
	/* An exit refers to one that was entered in the call before. */
	t_submit(self->a, b);
	ASSERT_EQ(CAPKM_CLEAN, e[1].out_result);
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	/* If that has been tampered with: nobody has such a scope. */
	e[0].out_scope = 12345;
	b->s.from = 3;
	t_stops(self->a, b, 3, ENOENT);
	e[0].out_result = CAPKM_SKIPPED;
	t_submit(self->a, b);
	/* Or with which operation it was */
	b->e[0].nr = CAPKM_NR_WRITTEN;
	T_REFUSED(self->a, -EINVAL, submit(self->a, b));
	ASSERT_EQ(0, b->s.out_error_index);
}

/* A replay that was begun in the call before, of a graph sealed in it */
TEST_F(submit, goes_on_with_a_replay)
{
	struct batch *b = &self->batch;
	struct capkm_window_seal seal = { 0 };
	struct capkm_graph_replay_begin rb = { .graph = CAPKM_REF(0), .place.stream = 1 };
	struct capkm_graph_replay_end re = { .graph = CAPKM_REF(1) };

	t_record(self->a, 1);
	t_write(self->a, 1, C({ self->x, 0, 5 }));
	seal.window = t_end(self->a, 1).out_window;
	ADD(b, WINDOW_SEAL, &seal);
	ADD(b, GRAPH_REPLAY_BEGIN, &rb);
	t_submit(self->a, b);
	ADD(b, GRAPH_REPLAY_END, &re);
	b->s.from = 2;
	t_submit(self->a, b);
	ASSERT_EQ(0, t_graph_query(self->a, seal.out_graph, 0).q.out_replaying);
	/* What is in front must be what was done. */
	rb.graph = CAPKM_REF(1);
	T_REFUSED(self->a, -EINVAL, submit(self->a, b));
	ASSERT_EQ(1, b->s.out_error_index);
	rb.size = 3;
	ASSERT_EQ(-EINVAL, submit(self->a, b));
	b->e[0].arg_uptr = 8;
	rb.size = sizeof(rb);
	T_REFUSED(self->a, -EFAULT, submit(self->a, b));
	ASSERT_EQ(0, b->s.out_error_index);
}

/* ---- hostile memory ---- */

TEST_F(submit, pointers_to_nowhere)
{
	struct batch *b = &self->batch;
	struct capkm_claim w[] = { { self->x, 0, 5 } };
	struct capkm_report report;
	static struct capkm_scope_enter e[20];
	static struct capkm_claim many[CAPKM_CLAIMS_MAX];
	static struct capkm_written last;
	u_int64_t live;
	static const unsigned short pointers[] = {
		offsetof(struct capkm_scope_enter, reads_uptr),
		offsetof(struct capkm_scope_enter, writes_uptr),
		offsetof(struct capkm_scope_enter, label_uptr),
	};

	for (unsigned int at = 0; at < 20; at += 3) {
		u_int64_t scopes = t_domain_query(self->a).out_scopes;

		for (unsigned int p = 0; p <= ARRAY_SIZE(pointers); p++) {
			b->s.elements_len = 0;
			for (unsigned int i = 0; i < 20; i++) {
				e[i] = enters(1, NO_CLAIMS, w, 1);
				e[i].label_uptr = t_ptr("x");
				e[i].label_len = 1;
				e[i].reports_uptr = t_ptr(&report);
				e[i].reports_len = 1;
				ADD(b, SCOPE_ENTER, &e[i]);
			}
			last = (struct capkm_written){ 0 };
			ADD(b, WRITTEN, &last);
			e[at].reads_len = 1;
			e[at].reads_uptr = t_ptr(w);
			if (p < ARRAY_SIZE(pointers))
				t_put64(&e[at], pointers[p], 8);
			else
				b->e[at].arg_uptr = 8;
			t_stops(self->a, b, at, EFAULT);
			scopes += at;
			ASSERT_EQ(scopes, t_domain_query(self->a).out_scopes);
			ASSERT_EQ(0, last.out_sequence);
			for (unsigned int i = 0; i < 20; i++)
				ASSERT_EQ(i < at, !!e[i].out_scope);
		}
	}
	/* What was taken for one that fails then is given back. */
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct capkm_claim){ self->y, i % 100, i % 100 };
	b->s.elements_len = 0;
	e[0] = enters(1, many, ARRAY_SIZE(many), w, 1);
	e[0].label_uptr = 8;
	e[0].label_len = 1;
	ADD(b, SCOPE_ENTER, &e[0]);
	live = capkm_test_alloc_live();
	t_stops(self->a, b, 0, EFAULT);
	ASSERT_EQ(live, capkm_test_alloc_live());
	/* The array of elements */
	memset(&b->s, 0, sizeof(b->s));
	b->s.size = sizeof(b->s);
	b->s.elements_len = 3;
	b->s.elements_uptr = 8;
	T_REFUSED(self->a, -EFAULT, t_call(self->a, CAPKM_NR_SUBMIT, &b->s));
	b->s.elements_uptr = 0;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_SUBMIT, &b->s));
}

/* The answer of one that is done cannot be written: it is done, those behind may be. */
TEST_F(submit, lost_answers)
{
	struct batch *b = &self->batch;
	struct capkm_report report;
	struct capkm_claim r[] = { { self->x, 0, 5 } };
	static struct capkm_check k[40];

	t_fail(self->a, 1, C({ self->x, 0, 5 }), "bad");
	for (unsigned int at = 0; at < 40; at += 13) {
		b->s.elements_len = 0;
		for (unsigned int i = 0; i < 40; i++) {
			k[i] = (struct capkm_check){
				ARRAY(claims, r, 1), ARRAY(reports, &report, 1),
				.out_reports = 77,
			};
			ADD(b, CHECK, &k[i]);
		}
		k[at].reports_uptr = 8;
		ASSERT_EQ(0, submit(self->a, b));
		ASSERT_EQ(EFAULT, b->s.out_error);
		ASSERT_EQ(at, b->s.out_error_index);
		ASSERT_LT(at, b->s.out_done);
		for (unsigned int i = 0; i < 40; i++)
			ASSERT_EQ(i < b->s.out_done && i != at,
				  k[i].out_reports != 77);
	}
}

/* What can be tried before is: then nothing behind is done. */
TEST_F(submit, read_only_struct)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct batch *b = &self->batch;
	static struct capkm_written w[20];
	struct capkm_written *p;
	u_int64_t sequence = t_domain_query(self->a).out_sequence;

	if (t_embedded())
		SKIP(return, "needs a kernel");
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	p->size = sizeof(*p);
	ASSERT_EQ(0, mprotect(p, page, PROT_READ));
	for (unsigned int i = 0; i < 20; i++)
		ADD(b, WRITTEN, &w[i]);
	b->e[7].arg_uptr = t_ptr(p);
	t_stops(self->a, b, 7, EFAULT);
	ASSERT_EQ(sequence + 7 * CAPKM_SEQUENCE_STEP, t_domain_query(self->a).out_sequence);
	munmap(p, page);
}

/* ---- memory ---- */

/* Something of everything that buys */
struct mixed {
	struct batch b;
	struct capkm_buffer_create c;
	struct capkm_claim w[2], r[1];
	struct capkm_scope_enter e;
	struct capkm_scope_exit x;
	struct capkm_taint t;
	struct capkm_window_prepare p;
	struct capkm_window_begin begin;
	struct capkm_scope_enter e2;
	struct capkm_scope_exit x2;
	struct capkm_window_end end;
	struct capkm_window_seal seal;
	struct capkm_graph_replay_begin rb;
	struct capkm_graph_replay_end re;
	struct capkm_check k;
	struct capkm_report reports[8];
};

static void mixed(struct mixed *m)
{
	memset(m, 0, sizeof(*m));
	m->c = (struct capkm_buffer_create){ .bytes = 100 };
	m->w[0] = (struct capkm_claim){ CAPKM_REF(0), 0, 10 };
	m->w[1] = (struct capkm_claim){ CAPKM_REF(0), 20, 30 };
	m->r[0] = (struct capkm_claim){ CAPKM_REF(0), 40, 50 };
	m->e = enters(T_GPU(1) | 1, NULL, 0, m->w, 2);
	m->x = (struct capkm_scope_exit){
		.scope = CAPKM_REF(1), .flags = CAPKM_SCOPE_EXIT_F_FAILED,
		.kind = CAPKM_KIND_IO,
	};
	m->t = (struct capkm_taint){ ARRAY(claims, m->r, 1), .kind = CAPKM_KIND_IO };
	m->p.place = m->begin.place = m->end.place = m->rb.place = t_place(2);
	m->e2 = enters(2, NULL, 0, m->w, 2);
	m->x2.scope = CAPKM_REF(6);
	m->seal = (struct capkm_window_seal){ .window = CAPKM_REF(8),
					      ARRAY(reports, m->reports, 2) };
	m->rb.graph = CAPKM_REF(9);
	m->re.graph = CAPKM_REF(10);
	m->k = (struct capkm_check){ ARRAY(claims, m->w, 2), ARRAY(reports, m->reports, 8) };
	ADD(&m->b, BUFFER_CREATE, &m->c);
	ADD(&m->b, SCOPE_ENTER, &m->e);
	ADD(&m->b, SCOPE_EXIT, &m->x);
	ADD(&m->b, TAINT, &m->t);
	ADD(&m->b, WINDOW_PREPARE, &m->p);
	ADD(&m->b, WINDOW_BEGIN, &m->begin);
	ADD(&m->b, SCOPE_ENTER, &m->e2);
	ADD(&m->b, SCOPE_EXIT, &m->x2);
	ADD(&m->b, WINDOW_END, &m->end);
	ADD(&m->b, WINDOW_SEAL, &m->seal);
	ADD(&m->b, GRAPH_REPLAY_BEGIN, &m->rb);
	ADD(&m->b, GRAPH_REPLAY_END, &m->re);
	ADD(&m->b, CHECK, &m->k);
}

/* Is there the id of a session that a range is unconfirmed of? */
static bool is_of_session(const char *s)
{
	return !strncmp(s, ") ", 2) &&
	       !strncmp(s + 2 + strspn(s + 2, "0123456789"), " state 4", 8);
}

/* Without the ids of domain and sessions, which no two have in common. */
static char *normal(char *dump)
{
	static const char *const before[] = { "session ", "domain 0: ", "writer ", "holder " };
	char *to = dump;

	for (char *s = dump; *s;) {
		size_t n = is_of_session(s) ? 2 : 1;
		bool named = n == 2;

		for (unsigned int i = 0; i < ARRAY_SIZE(before); i++) {
			if (strncmp(s, before[i], strlen(before[i])))
				continue;
			n = strlen(before[i]);
			named = true;
		}
		memmove(to, s, n);
		to += n;
		s += n;
		while (named && *s >= '0' && *s <= '9')
			s++;
	}
	*to = 0;
	return dump;
}

/* Are the two, which are freed, the same? */
static void same(char *a, char *b)
{
	char *s = normal(a), *t = normal(b);

	while (*s && *s == *t)
		s++, t++;
	if (*s || *t) {
		while (s > a && s[-1] != '\n')
			s--, t--;
		t_die("they differ:\n# one by one %.*s\n# submitted  %.*s",
		      (int)strcspn(s, "\n"), s, (int)strcspn(t, "\n"), t);
	}
	free(a);
	free(b);
}

/* No memory, at each allocation: it stops there or has not begun, and goes on. */
TEST(no_memory)
{
	static struct mixed m;
	unsigned int stopped = 0;
	char *want = NULL;

	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 0;; n++) {
		struct cl *a = t_client();
		u_int64_t taken;
		char *before;
		int rc;

		t_domain(a);
		mixed(&m);
		before = t_dump(a);
		taken = capkm_test_alloc_count();
		capkm_test_fail_alloc(n);
		rc = submit(a, &m.b);
		capkm_test_fail_alloc(0);
		taken = capkm_test_alloc_count() - taken;
		if (rc) {
			ASSERT_EQ(-ENOMEM, rc);
			t_unchanged(a, before);
			rc = submit(a, &m.b);
		} else {
			free(before);
		}
		ASSERT_EQ(0, rc);
		if (m.b.s.out_error) {
			ASSERT_EQ(ENOMEM, m.b.s.out_error);
			ASSERT_EQ(m.b.s.out_done, m.b.s.out_error_index);
			m.b.s.from = m.b.s.out_done;
			stopped++;
			t_submit(a, &m.b);
		}
		ASSERT_EQ(m.b.s.elements_len, m.b.s.out_done);
		if (!want)
			want = normal(t_dump(a));
		same(strdup(want), t_dump(a));
		t_close(a);
		if (n > taken)
			break;
	}
	ASSERT_LT(5, stopped);
	free(want);
	t_no_leaks();
}

/* ---- the same as one by one ---- */

#define MOST 60		/* operations before they are submitted */

union arg {
	unsigned char bytes[T_ARG_MAX];
	u_int32_t size;
	struct capkm_buffer_create buffer_create;
	struct capkm_buffer_close buffer_close;
	struct capkm_buffer_reset buffer_reset;
	struct capkm_buffer_export buffer_export;
	struct capkm_stream_create stream_create;
	struct capkm_stream_destroy stream_destroy;
	struct capkm_stream_confirm stream_confirm;
	struct capkm_stream_fault stream_fault;
	struct capkm_context_renew context_renew;
	struct capkm_stream_flush stream_flush;
	struct capkm_window_prepare window_prepare;
	struct capkm_window_begin window_begin;
	struct capkm_window_end window_end;
	struct capkm_window_seal window_seal;
	struct capkm_window_refuse window_refuse;
	struct capkm_window_abort window_abort;
	struct capkm_window_record window_record;
	struct capkm_window_retain window_retain;
	struct capkm_window_fail window_fail;
	struct capkm_window_join window_join;
	struct capkm_window_take window_take;
	struct capkm_scope_enter scope_enter;
	struct capkm_scope_exit scope_exit;
	struct capkm_check check;
	struct capkm_taint taint;
	struct capkm_written written;
	struct capkm_refuse refuse;
	struct capkm_graph_replay_begin replay_begin;
	struct capkm_graph_replay_end replay_end;
	struct capkm_graph_destroy graph_destroy;
	struct capkm_graph_update graph_update;
	struct capkm_failure_query failure_query;
	struct capkm_ledger_create ledger_create;
	struct capkm_ledger_reserve ledger_reserve;
	struct capkm_ledger_begin_step ledger_begin_step;
};

/* Something that has an id, and the element that gave it, or -1. */
struct thing {
	u_int64_t id;
	int by;
};

#define THINGS 64

enum { BUFFER, STREAM, WINDOW, SCOPE, GRAPH, REPLAY, FAILURE, LEDGER, KINDS };

/* One operation, as it is done alone and as it is submitted. */
struct twin {
	union arg one, other;
	struct capkm_claim reads[3], writes[3], other_reads[3], other_writes[3];
	struct capkm_report reports[4], other_reports[4];
	struct capkm_claim taken[8], other_taken[8];
};

struct twins {
	struct cl *a, *b;
	struct batch batch;
	struct twin t[MOST];
	unsigned int n;
	struct thing thing[KINDS][THINGS];
	unsigned int things[KINDS];
	unsigned int seed;
	unsigned int refs, stops, waits, skips, done;
};

static unsigned int rnd(struct twins *w, unsigned int n)
{
	w->seed = w->seed * 1103515245 + 12345;
	return (w->seed >> 8) % n;
}

/* An id of some thing into @one, and that or a reference to it into @other. */
static void pick(struct twins *w, int kind, u_int64_t *one, u_int64_t *other)
{
	struct thing *t;
	u_int64_t id;

	if (!w->things[kind] || !rnd(w, 40)) {
		*one = *other = 1000 + rnd(w, 3);
		return;
	}
	t = &w->thing[kind][rnd(w, w->things[kind])];
	id = t->id;
	*one = id;
	*other = id;
	if (t->by >= 0 && rnd(w, 4)) {
		*other = CAPKM_REF(t->by);
		w->refs++;
	}
}

static void give(struct twins *w, int kind, u_int64_t id)
{
	struct thing t = { .id = id, .by = w->n };

	if (!id)
		return;
	if (w->things[kind] < THINGS)
		w->thing[kind][w->things[kind]++] = t;
	else
		w->thing[kind][rnd(w, THINGS)] = t;
}

#define PICK(kind, member) pick(w, kind, (u_int64_t *)&t->one.member, \
				(u_int64_t *)&t->other.member)

static unsigned int claims(struct twins *w, struct capkm_claim *one,
			   struct capkm_claim *other)
{
	unsigned int n = rnd(w, 4);

	for (unsigned int i = 0; i < n; i++) {
		u_int64_t start = rnd(w, 12), end = start + rnd(w, 13 - start);

		one[i] = other[i] = (struct capkm_claim){ 0, start, end };
		pick(w, BUFFER, (u_int64_t *)&one[i].buffer, (u_int64_t *)&other[i].buffer);
	}
	return n;
}

#define READS(name, a) (t->one.name.a##_len = claims(w, t->reads, t->other_reads), \
	t->other.name.a##_len = t->one.name.a##_len, \
	t->one.name.a##_uptr = t_ptr(t->reads), \
	t->other.name.a##_uptr = t_ptr(t->other_reads))
#define WRITES(name, a) (t->one.name.a##_len = claims(w, t->writes, t->other_writes), \
	t->other.name.a##_len = t->one.name.a##_len, \
	t->one.name.a##_uptr = t_ptr(t->writes), \
	t->other.name.a##_uptr = t_ptr(t->other_writes))
#define TELLS(name) (t->one.name.reports_uptr = t_ptr(t->reports), \
	t->other.name.reports_uptr = t_ptr(t->other_reports), \
	t->one.name.reports_len = t->other.name.reports_len = rnd(w, 4))
#define SET(member, value) (t->one.member = t->other.member = (value))

/* On one of four slots, by a stream of the caller's or a created one. */
#define PLACE(name) (rnd(w, 6) ? (void)SET(name.place, t_place(1 + rnd(w, 4))) : \
	(void)PICK(STREAM, name.place.stream))

/* Makes up an operation; its number. */
static unsigned int make(struct twins *w, struct twin *t)
{
	memset(t, 0, sizeof(*t));
	switch (rnd(w, 44)) {
	case 0:
		SET(buffer_create.bytes, 12);
		SET(buffer_create.flags, rnd(w, 3) ? 0 : CAPKM_BUFFER_CREATE_F_EXPORT << rnd(w, 3));
		return CAPKM_NR_BUFFER_CREATE;
	case 1:
		if (rnd(w, 3))
			return make(w, t);
		PICK(BUFFER, buffer_close.buffer);
		return CAPKM_NR_BUFFER_CLOSE;
	case 2:
		PICK(BUFFER, buffer_reset.claim.buffer);
		SET(buffer_reset.claim.end, rnd(w, 13));
		return CAPKM_NR_BUFFER_RESET;
	case 3:
		PICK(BUFFER, buffer_export.buffer);
		return CAPKM_NR_BUFFER_EXPORT;
	case 4:
		return CAPKM_NR_STREAM_CREATE;
	case 5:
		PICK(STREAM, stream_destroy.stream);
		return CAPKM_NR_STREAM_DESTROY;
	case 6:
		PLACE(stream_confirm);
		return CAPKM_NR_STREAM_CONFIRM;
	case 7:
		if (rnd(w, 4))
			return make(w, t);
		PLACE(stream_fault);
		return CAPKM_NR_STREAM_FAULT;
	case 8:
	case 9:
		return CAPKM_NR_CONTEXT_RENEW;
	case 10:
		PLACE(stream_flush);
		TELLS(stream_flush);
		return CAPKM_NR_STREAM_FLUSH;
	case 11:
	case 12:
		PLACE(window_prepare);
		return CAPKM_NR_WINDOW_PREPARE;
	case 13:
	case 14:
		PLACE(window_begin);
		return CAPKM_NR_WINDOW_BEGIN;
	case 15:
	case 16:
		PLACE(window_end);
		if (rnd(w, 2))
			PICK(WINDOW, window_end.window);
		return CAPKM_NR_WINDOW_END;
	case 17:
	case 18:
		PICK(WINDOW, window_seal.window);
		TELLS(window_seal);
		return CAPKM_NR_WINDOW_SEAL;
	case 19:
		PICK(WINDOW, window_refuse.window);
		TELLS(window_refuse);
		return CAPKM_NR_WINDOW_REFUSE;
	case 20:
		PLACE(window_abort);
		return CAPKM_NR_WINDOW_ABORT;
	case 21:
		PICK(WINDOW, window_record.window);
		READS(window_record, reads);
		WRITES(window_record, writes);
		return CAPKM_NR_WINDOW_RECORD;
	case 22:
		PICK(WINDOW, window_retain.window);
		SET(window_retain.retained.bytes, 3);
		return CAPKM_NR_WINDOW_RETAIN;
	case 23:
		PICK(WINDOW, window_fail.window);
		SET(window_fail.stream, 1);
		SET(window_fail.kind, CAPKM_KIND_DRIVER);
		return CAPKM_NR_WINDOW_FAIL;
	case 24:
		PICK(WINDOW, window_join.window);
		PLACE(window_join);
		return CAPKM_NR_WINDOW_JOIN;
	case 25:
		PICK(WINDOW, window_take.window);
		t->one.window_take.claims_uptr = t_ptr(t->taken);
		t->other.window_take.claims_uptr = t_ptr(t->other_taken);
		SET(window_take.claims_len, 8);
		return CAPKM_NR_WINDOW_TAKE;
	case 26 ... 31:
		PLACE(scope_enter);
		READS(scope_enter, reads);
		WRITES(scope_enter, writes);
		TELLS(scope_enter);
		SET(scope_enter.flags, !rnd(w, 5));
		return CAPKM_NR_SCOPE_ENTER;
	case 32 ... 35:
		PICK(SCOPE, scope_exit.scope);
		SET(scope_exit.flags, rnd(w, 3));
		if (t->one.scope_exit.flags & CAPKM_SCOPE_EXIT_F_FAILED)
			SET(scope_exit.kind, CAPKM_KIND_IO);
		return CAPKM_NR_SCOPE_EXIT;
	case 36:
		READS(check, claims);
		TELLS(check);
		return CAPKM_NR_CHECK;
	case 37:
		WRITES(taint, claims);
		SET(taint.stream, 1);
		if (rnd(w, 2))
			PICK(FAILURE, taint.failure);
		else
			SET(taint.kind, CAPKM_KIND_IO);
		return CAPKM_NR_TAINT;
	case 38:
		WRITES(written, claims);
		return CAPKM_NR_WRITTEN;
	case 39:
		PLACE(refuse);
		WRITES(refuse, claims);
		TELLS(refuse);
		SET(refuse.what, CAPKM_REFUSE_WRITE);
		return CAPKM_NR_REFUSE;
	case 40:
		PICK(GRAPH, replay_begin.graph);
		PLACE(replay_begin);
		TELLS(replay_begin);
		return CAPKM_NR_GRAPH_REPLAY_BEGIN;
	case 41:
		PICK(REPLAY, replay_end.graph);
		return CAPKM_NR_GRAPH_REPLAY_END;
	case 42:
		if (rnd(w, 2)) {
			PICK(GRAPH, graph_destroy.graph);
			return CAPKM_NR_GRAPH_DESTROY;
		}
		PICK(GRAPH, graph_update.graph);
		PICK(WINDOW, graph_update.window);
		TELLS(graph_update);
		return CAPKM_NR_GRAPH_UPDATE;
	default:
		switch (rnd(w, 4)) {
		case 0:
			SET(ledger_create.cumulative.captures, 5);
			SET(ledger_create.per_step.captures, 3);
			return CAPKM_NR_LEDGER_CREATE;
		case 1:
			PICK(LEDGER, ledger_reserve.ledger);
			SET(ledger_reserve.usage.captures, rnd(w, 3));
			return CAPKM_NR_LEDGER_RESERVE;
		case 2:
			PICK(LEDGER, ledger_begin_step.ledger);
			return CAPKM_NR_LEDGER_BEGIN_STEP;
		default:
			PICK(FAILURE, failure_query.failure);
			PICK(BUFFER, failure_query.buffer);
			TELLS(failure_query);
			return CAPKM_NR_FAILURE_QUERY;
		}
	}
}

/* What one answer has given, by its name in the ABI. */
static void gives(struct twins *w, unsigned int nr, const union arg *a)
{
	switch (nr) {
	case CAPKM_NR_BUFFER_CREATE:
		return give(w, BUFFER, a->buffer_create.out_buffer);
	case CAPKM_NR_STREAM_CREATE:
		return give(w, STREAM, a->stream_create.out_stream);
	case CAPKM_NR_WINDOW_PREPARE:
		return give(w, WINDOW, a->window_prepare.out_window);
	case CAPKM_NR_WINDOW_BEGIN:
		return give(w, WINDOW, a->window_begin.out_window);
	case CAPKM_NR_WINDOW_END:
		return give(w, WINDOW, a->window_end.out_window);
	case CAPKM_NR_WINDOW_SEAL:
		return give(w, GRAPH, a->window_seal.out_graph);
	case CAPKM_NR_SCOPE_ENTER:
		return give(w, SCOPE, a->scope_enter.out_scope);
	case CAPKM_NR_SCOPE_EXIT:
		return give(w, FAILURE, a->scope_exit.out_failure);
	case CAPKM_NR_TAINT:
		return give(w, FAILURE, a->taint.out_failure);
	case CAPKM_NR_GRAPH_REPLAY_BEGIN:
		if (!a->replay_begin.out_result)
			give(w, REPLAY, a->replay_begin.graph);
		return;
	case CAPKM_NR_GRAPH_REPLAY_END:
		return give(w, FAILURE, a->replay_end.out_failure);
	case CAPKM_NR_LEDGER_CREATE:
		return give(w, LEDGER, a->ledger_create.out_ledger);
	}
}

static bool is_in_progress(unsigned int nr, const union arg *a)
{
	return (nr == CAPKM_NR_SCOPE_ENTER &&
		a->scope_enter.out_result == CAPKM_IN_PROGRESS) ||
	       (nr == CAPKM_NR_GRAPH_REPLAY_BEGIN &&
		a->replay_begin.out_result == CAPKM_IN_PROGRESS);
}

static void compare(struct twins *w, unsigned int i)
{
	const struct t_op *op = &t_ops[w->batch.e[i].nr];
	struct twin *t = &w->t[i];

	for (unsigned int k = 0; k < ARRAY_SIZE(op->outs) && op->outs[k].size; k++)
		if (memcmp(t->one.bytes + op->outs[k].at, t->other.bytes + op->outs[k].at,
			   op->outs[k].size))
			t_die("element %u, %s: another output at %u", i, op->name,
			      op->outs[k].at);
	for (unsigned int k = 0; k < 4; k++) {
		struct capkm_report *r = &t->reports[k], *s = &t->other_reports[k];

		if (r->failure != s->failure || r->kind != s->kind ||
		    r->buffer != s->buffer || r->start != s->start || r->end != s->end ||
		    r->scope != s->scope || r->graph != s->graph ||
		    r->window != s->window || r->sequence != s->sequence ||
		    strcmp((char *)r->text, (char *)s->text))
			t_die("element %u, %s: another report %u", i, op->name, k);
	}
	if (memcmp(t->taken, t->other_taken, sizeof(t->taken)))
		t_die("element %u, %s: other claims", i, op->name);
}

/* @rc: of the last one, alone. */
static void flush(struct twins *w, int rc, bool waits)
{
	struct batch *b = &w->batch;
	const unsigned int len = b->s.elements_len, done = len - (rc || waits);

	t_stops_(w->b, b, done, -rc);
	for (unsigned int i = 0; i < len; i++)
		if (i < done || waits)
			compare(w, i);
	w->done += done;
	w->stops += !!rc;
	w->waits += waits;
	memset(b, 0, sizeof(*b));
	w->n = 0;
	for (int k = 0; k < KINDS; k++)
		for (unsigned int i = 0; i < w->things[k]; i++)
			w->thing[k][i].by = -1;
}

/* An exit of a scope that was not entered: alone there is nothing to call. */
static void skipped_exit(struct twins *w, struct twin *t, unsigned int by)
{
	memset(t, 0, sizeof(*t));
	t->other.scope_exit.scope = CAPKM_REF(by);
	ADD(&w->batch, SCOPE_EXIT, &t->other);
	w->n++;
	w->skips++;
}

static void step(struct twins *w)
{
	struct twin *t = &w->t[w->n];
	unsigned int nr = make(w, t);
	int rc;

	memset(t->reports, 0, sizeof(t->reports));
	ADD(&w->batch, INFO, &t->other);
	w->batch.e[w->n].nr = nr;
	t->other.size = t_ops[nr].size;
	rc = t_call(w->a, nr, &t->one);
	/* What is refused changes nothing: most of it is left out. */
	if (rc && rnd(w, 12)) {
		w->batch.s.elements_len--;
		return;
	}
	if (!rc)
		gives(w, nr, &t->one);
	w->n++;
	if (rc || is_in_progress(nr, &t->one)) {
		flush(w, rc, !rc);
		return;
	}
	if (nr == CAPKM_NR_SCOPE_ENTER && !t->one.scope_enter.out_scope && w->n < MOST)
		skipped_exit(w, t + 1, w->n - 1);
	if (w->n == MOST || !rnd(w, 30))
		flush(w, 0, false);
}

TEST(the_same_as_one_by_one)
{
	const u_int64_t rounds = t_param("CAPKM_TEST_ROUNDS", 150, 8);
	static struct twins w;
	unsigned int refs = 0, stops = 0, waits = 0, skips = 0, done = 0;

	for (u_int64_t round = 0; round < rounds; round++) {
		memset(&w, 0, sizeof(w));
		w.seed = t_param("CAPKM_TEST_SEED", 1, 1) + round;
		w.a = t_client();
		w.b = t_client();
		t_domain(w.a);
		t_domain(w.b);
		/* The same ids on both sides: no scope of either is a fast one. */
		capkm_fast_path(w.a->c, false);
		for (unsigned int i = 0; i < 600; i++) {
			T_AT;
			step(&w);
		}
		flush(&w, 0, false);
		same(t_dump(w.a), t_dump(w.b));
		t_close(w.b);
		t_close(w.a);
		refs += w.refs;
		stops += w.stops;
		waits += w.waits;
		skips += w.skips;
		done += w.done;
	}
	TH_LOG("%u done, %u references, %u stopped, %u in progress, %u skipped", done, refs,
	       stops, waits, skips);
	ASSERT_LT(10 * rounds, refs);
	ASSERT_LT(10 * rounds, stops);
	ASSERT_LT(rounds, waits);
	ASSERT_LT(rounds, skips);
	t_no_leaks();
}

/* ---- the library ---- */

TEST_F(submit, library)
{
	struct batch *b = &self->batch;
	struct capkm *c = self->a->c;
	struct capkm_claim w[] = { { self->x, 0, 5 } }, r[] = { { self->shared, 0, 5 } };
	struct capkm_scope_enter e = enters(1, NO_CLAIMS, w, 1), late = enters(1, r, 1, w, 1);
	struct capkm_scope_exit x = { .scope = CAPKM_REF(0) }, bad = { .scope = 999 };
	struct capkm_domain_query query = { 0 };
	struct capkm_report report;
	u_int64_t theirs;
	uint32_t done = 0;

	ADD(b, SCOPE_ENTER, &e);
	ADD(b, SCOPE_EXIT, &x);
	OK(capkm_submit(c, b->e, 2, &done, NULL, &err));
	ASSERT_EQ(2, done);
	OK(capkm_submit(c, b->e, 2, &done, NULL, &err));
	OK(capkm_submit(c, NULL, 0, (done = 0, &done), NULL, &err));
	ADD(b, SCOPE_EXIT, &bad);
	REFUSED(-ENOENT, capkm_submit(c, b->e, 3, &done, NULL, &err));
	ASSERT_EQ(2, done);
	ASSERT_EQ(2, err.index);
	BEGINS("submit: elements[2], scope_exit: ");
	SAYS("no such scope is open");
	done = 0;
	REFUSED(-EMSGSIZE, capkm_submit(c, b->e, 257, &done, NULL, &err));
	BEGINS("submit: ");
	SAYS("CAPKM_ELEMENTS_MAX");
	done = 4;
	REFUSED(-EINVAL, capkm_submit(c, b->e, 3, &done, NULL, &err));
	ASSERT_EQ(4, done);
	done = 0;
	REFUSED(-EINVAL, capkm_submit(c, b->e, 1, &done,
				      WITH(struct capkm_submit_opts, .flags = 1), &err));
	add(b, CAPKM_NR_DOMAIN_QUERY, &query);
	REFUSED(-EOPNOTSUPP, capkm_submit(c, b->e, 4, &done, NULL, &err));
	ASSERT_EQ(3, err.index);
	BEGINS("submit: elements[3], domain_query: ");
	ASSERT_EQ(0, done);

	/* Somebody writes. */
	theirs = t_enter(self->b, 1, NO_CLAIMS, C({ self->shared, 0, 9 }));
	late.reports_uptr = t_ptr(&report);
	late.reports_len = 1;
	late.size = sizeof(late);
	b->e[1] = (struct capkm_element){ CAPKM_NR_SCOPE_ENTER, .arg_uptr = t_ptr(&late) };
	REFUSED(-EAGAIN, capkm_submit(c, b->e, 2, &done,
				      WITH(struct capkm_submit_opts, .retry_ms = 20), &err));
	ASSERT_EQ(1, done);
	ASSERT_EQ(1, err.index);
	BEGINS("submit: elements[1], scope_enter: ");
	SAYS("still being written after 20 ms");
	SAYS("in progress");
	t_exit(self->b, theirs);
	OK(capkm_submit(c, b->e, 2, &done, NULL, &err));
	ASSERT_EQ(2, done);
	t_exit(self->a, e.out_scope);
	t_exit(self->a, late.out_scope);
	ASSERT_EQ(0, capkm_submit(c, b->e, 0, (done = 0, &done), NULL, NULL));
}

/* ---- threads, processes ---- */

#define THREADS 4
#define SCOPES 20

struct worker {
	struct cl *cl;
	u_int64_t own, shared, stream;
	unsigned int rounds, entered;
	int rc;
};

/* Scopes that write to bytes of its own and to bytes of all. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct capkm_claim c[] = { { w->own, 0, 50 }, { w->shared, 0, 50 } };
	struct capkm_scope_enter e[SCOPES];
	struct capkm_scope_exit x[SCOPES];
	const struct capkm_submit_opts patient = CAPKM_OPTS(struct capkm_submit_opts,
							    .retry_ms = 60000);
	struct batch *b = calloc(1, sizeof(*b));
	uint32_t done;

	for (unsigned int i = 0; i < SCOPES; i++) {
		e[i] = enters(w->stream, c, 1, c, 2);
		x[i] = (struct capkm_scope_exit){ .scope = CAPKM_REF(2 * i) };
		ADD(b, SCOPE_ENTER, &e[i]);
		ADD(b, SCOPE_EXIT, &x[i]);
	}
	for (unsigned int i = 0; i < w->rounds && !w->rc; i++) {
		done = 0;
		w->rc = capkm_submit(w->cl->c, b->e, b->s.elements_len, &done, &patient,
				     NULL);
		for (unsigned int k = 0; k < SCOPES; k++)
			w->entered += e[k].out_result == CAPKM_CLEAN;
	}
	free(b);
	return NULL;
}

TEST_F(submit, threads)
{
	const u_int64_t rounds = t_param("CAPKM_TEST_ROUNDS", 500, 50);
	struct worker w[THREADS];
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++) {
		w[i] = (struct worker){
			.cl = i % 2 ? self->a : self->b, .shared = self->shared,
			.own = t_buffer(i % 2 ? self->a : self->b, 50), .stream = 1 + i,
			.rounds = rounds,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, work, &w[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		ASSERT_EQ(0, w[i].rc);
		ASSERT_EQ(rounds * SCOPES, w[i].entered);
	}
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	t_is_clean(self->a, self->shared, 0, 50);
	for (int i = 0; i < THREADS; i++)
		t_is_clean(w[i].cl, w[i].own, 0, 50);
}

struct victim {
	u_int64_t buffer;
};

/* For ever: enters all, and leaves all, in turn, over parts of the buffer. */
static int submit_for_ever(struct capkm *c, void *arg)
{
	const struct victim v = *(struct victim *)arg;
	static struct capkm_scope_enter e[100];
	static struct capkm_scope_exit x[100];
	static struct capkm_claim w[100];
	static struct batch b;
	uint32_t done;
	int rc;

	for (unsigned int i = 0; i < 100; i++) {
		w[i] = (struct capkm_claim){ v.buffer, i, i + 1 };
		e[i] = enters(1 + i % 8, NO_CLAIMS, &w[i], 1);
		ADD(&b, SCOPE_ENTER, &e[i]);
	}
	for (unsigned int i = 0; i < 100; i++) {
		x[i] = (struct capkm_scope_exit){
			.scope = CAPKM_REF(99 - i), .flags = CAPKM_SCOPE_EXIT_F_COMPLETE,
		};
		ADD(&b, SCOPE_EXIT, &x[i]);
	}
	do {
		done = 0;
		rc = capkm_submit(c, b.e, b.s.elements_len, &done, NULL, NULL);
	} while (!rc);
	return rc;
}

/* Whatever was done of it is torn, and no more: what is left is left. */
TEST(killed)
{
	const u_int64_t rounds = t_param("CAPKM_TEST_ROUNDS", 0, 40);
	unsigned int torn = 0;
	struct cl *a;
	u_int64_t buffer;

	if (t_embedded())
		SKIP(return, "needs processes");
	a = t_client();
	t_domain(a);
	buffer = t_shared(a, 100);
	for (u_int64_t round = 0; round < rounds; round++) {
		struct cl *p = t_process();
		struct victim v = { buffer };
		unsigned int tainted = 0;
		struct t_buffer q;

		t_attach(p, a->domain);
		t_open(p, buffer);
		memcpy(p->rpc->arg, &v, sizeof(v));
		p->rpc->fn = submit_for_ever;
		ASSERT_EQ(1, write(p->sock, "", 1));
		usleep(2000 + 137 * (round % 50));
		t_kill(p);
		ASSERT_EQ(0, t_domain_query(a).out_scopes);
		ASSERT_EQ(1, t_domain_query(a).out_sessions);
		q = t_buffer_query(a, buffer);
		for (unsigned int i = 0; i < 100; i++) {
			struct capkm_report r;
			const struct capkm_claim c = { buffer, i, i + 1 };
			struct capkm_check k = { ARRAY(claims, &c, 1), ARRAY(reports, &r, 1) };

			T_OK(a, CHECK, &k);
			if (k.out_result == CAPKM_CLEAN)
				continue;
			ASSERT_EQ(CAPKM_KIND_TORN_DOWN, r.kind);
			tainted++;
		}
		/* They were entered from the first on, and left from the last on. */
		for (unsigned int i = 1; i < q.q.out_ranges && i < T_RANGES; i++)
			ASSERT_EQ(q.r[i - 1].end, q.r[i].start);
		if (q.q.out_ranges)
			ASSERT_EQ(0, q.r[0].start);
		torn += tainted;
		t_written(a, C({ buffer, 0, 100 }));
	}
	TH_LOG("%u scopes torn in %u rounds", torn, (unsigned int)rounds);
	ASSERT_LT(0, torn);
	t_close(a);
}

TEST_HARNESS_MAIN
