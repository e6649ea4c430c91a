// SPDX-License-Identifier: GPL-2.0-only
/*
 * Field cases of bytes: somebody read what had not been written, or not by work
 * that had succeeded, and nothing told him. See cases.c.
 */
#include "cases.h"

#include <poll.h>

#define GPU T_GPU(1)
#define OTHER_GPU T_GPU(2)

/* The client's process leaves main() without a word. */
static void leave(struct cl *cl)
{
	if (!cl->pid) {
		t_kill(cl);
		return;
	}
	/* Its loop ends when nobody talks to it any more. */
	close(cl->sock);
	waitpid(cl->pid, NULL, 0);
	munmap(cl->rpc, sizeof(*cl->rpc));
	free(cl);
}

/* A scope on @stream that must be skipped because of @failure. */
static void is_skipped(struct cl *cl, u_int64_t stream, u_int64_t buffer,
		       u_int64_t failure)
{
	u_int64_t f = t_skip(cl, stream, NULL, NO_CLAIMS, C({ buffer, 0, BYTES }));

	if (f != failure)
		t_die("skipped with failure %" PRIu64 ", expected %" PRIu64, f, failure);
}

/* The next event of the session, type 0 if there is none. */
static struct capkm_event event(struct cl *cl, int timeout_ms)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_event e = { 0 };
	uint32_t got = 0;
	int rc = capkm_events_read(cl->c, &e, 1, timeout_ms, &got, &err);

	if (rc && rc != -ETIMEDOUT)
		t_die("capkm_events_read: %d: %s", rc, err.text);
	return e;
}

/* Reads on until one of @type comes; the bound only ends a test that fails. */
static struct capkm_event next_event(struct cl *cl, unsigned int type)
{
	struct capkm_event e;

	do {
		e = event(cl, 10000);
		if (!e.type)
			t_die("no event of type %u comes", type);
	} while (e.type != type);
	return e;
}

/* On the kernel the descriptor tells who sleeps in poll(). */
static bool has_event(struct cl *cl)
{
	struct pollfd p = { .fd = capkm_fd(cl->c), .events = POLLIN };

	return p.fd >= 0 && poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

static void skip_events(struct cl *cl)
{
	while (event(cl, 0).type)
		;
}

/* -------------------------------------------------------- whose work it was */

/*
 * C57: a kernel failed, the program ended with status 0, and the benchmark took
 * the file of the run before for its result. A process that leaves without leaving
 * its scope has not succeeded, however orderly it goes, and the next one that holds
 * the buffer is told so.
 */
TEST_F(cases, c57_exits_without_a_word)
{
	struct cl *run = enter_domain(self);
	struct capkm_report r;
	int pid;

	t_write(run, 1, C({ self->x, 0, BYTES }));
	t_is_clean(run, self->x, 0, BYTES);
	leave(run);
	t_is_clean(self->a, self->x, 0, BYTES);

	run = enter_domain(self);
	pid = t_pid(run);
	t_enter(run, 1, NO_CLAIMS, C({ self->x, 0, BYTES }));
	leave(run);

	run = enter_domain(self);
	r = t_is_tainted(run, self->x, 0, BYTES, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ((unsigned int)pid, r.pid);
	t_write(run, 1, C({ self->x, 0, BYTES }));
	leave(run);
	t_is_clean(self->a, self->x, 0, BYTES);
}

/*
 * C69: a producer died in the middle of a write, and those that had imported its
 * memory got a warning which may be ignored. Here the importer is refused the bytes
 * of the write, and only those, learns whose they were, and sees that the producer
 * is gone. The failure lives as long as somebody holds the buffer.
 */
TEST_F(cases, c69_producer_dies_in_a_write)
{
	struct cl *p1 = t_process();
	struct capkm_report r;
	u_int64_t s;
	int pid = t_pid(p1);

	t_attach(p1, self->a->domain);
	s = t_shared(p1, BYTES);
	t_open(self->a, s);
	t_write(p1, 1, C({ s, 0, BYTES }));
	t_is_clean(self->a, s, 0, BYTES);
	ASSERT_EQ(0, t_buffer_query(self->a, s).q.out_state & CAPKM_BUFFER_ABANDONED);
	t_enter(p1, 1, NO_CLAIMS, C({ s, 0, 64 }));
	t_kill(p1);

	r = t_is_tainted(self->a, s, 0, 64, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ((unsigned int)pid, r.pid);
	ASSERT_NE(self->a->session, r.session);
	ASSERT_EQ(0, r.start);
	ASSERT_EQ(64, r.end);
	t_is_clean(self->a, s, 64, BYTES);
	ASSERT_NE(0, t_buffer_query(self->a, s).q.out_state & CAPKM_BUFFER_ABANDONED);
	ASSERT_EQ(1, t_failures(self->a));
	ASSERT_EQ(0, t_drop(self->a, s));
	ASSERT_EQ(0, t_failures(self->a));
}

/*
 * C71: nothing was armed again after the first import, so that later reads took
 * whatever was in the producer's memory just then. Here a reader needs no event: a
 * check says that it is being written and by whom, and then that it is done.
 */
TEST_F(cases, c71_reader_during_a_write)
{
	struct cl *p1 = enter_domain(self);
	struct capkm_report r;
	u_int64_t scope;

	for (int i = 0; i < 3; i++) {
		t_is_clean(self->a, self->x, 0, BYTES);
		scope = t_enter(p1, 4, NO_CLAIMS, C({ self->x, 10, 20 }));
		r = t_is_tainted(self->a, self->x, 0, BYTES, CAPKM_KIND_IN_PROGRESS);
		ASSERT_EQ(10, r.start);
		ASSERT_EQ(20, r.end);
		ASSERT_EQ(scope, r.scope);
		ASSERT_EQ(4, r.stream);
		ASSERT_EQ(p1->session, r.session);
		ASSERT_EQ((unsigned int)t_pid(p1), r.pid);
		ASSERT_EQ(0, t_exit(p1, scope));
	}
	t_is_clean(self->a, self->x, 0, BYTES);
	t_close(p1);
}

/* ------------------------------------------------------ how much of it failed */

/*
 * C54: a batch of mappings ignored that one of them had failed, and left half of it
 * done. Each call with an array does all of it or nothing, and says which element
 * it was. Claims that overlap are no error.
 */
TEST_F(cases, c54_one_bad_claim_of_64)
{
	enum { N = 64, BAD = 40 };
	static const struct capkm_claim bad[] = {
		{ 4711, 0, 1 }, { 0, 0, 1 }, { 1, 2, 1 }, { 1, 0, BYTES + 1 },
	};
	struct capkm_claim c[N];
	struct capkm_taint taint = {
		.claims_uptr = t_ptr(c), .claims_len = N, .kind = CAPKM_KIND_IO,
	};
	struct capkm_written written = { .claims_uptr = t_ptr(c), .claims_len = N };
	struct capkm_check check = { .claims_uptr = t_ptr(c), .claims_len = N };
	struct capkm_scope_enter enter = {
		.place.stream = 1, .writes_uptr = t_ptr(c), .writes_len = N,
	};
	struct capkm_window_record record = { .writes_uptr = t_ptr(c), .writes_len = N };

	record.window = t_record(self->a, 2);
	t_fail(self->a, 1, C({ self->x, 90, 91 }), "before");
	for (int i = 0; i < N; i++)
		c[i] = (struct capkm_claim){ self->x, i, i + 2 };
	for (size_t k = 0; k < ARRAY_SIZE(bad); k++) {
		int want = k < 2 ? -ENOENT : -EINVAL;

		c[BAD] = bad[k];
		if (k >= 2)
			c[BAD].buffer = self->x;
		T_REFUSED(self->a, want, t_call(self->a, CAPKM_NR_TAINT, &taint));
		ASSERT_EQ(BAD, taint.out_error_index);
		T_REFUSED(self->a, want, t_call(self->a, CAPKM_NR_WRITTEN, &written));
		ASSERT_EQ(BAD, written.out_error_index);
		T_REFUSED(self->a, want, t_call(self->a, CAPKM_NR_CHECK, &check));
		ASSERT_EQ(BAD, check.out_error_index);
		T_REFUSED(self->a, want, t_call(self->a, CAPKM_NR_SCOPE_ENTER, &enter));
		ASSERT_EQ(BAD, enter.out_error_index);
		T_REFUSED(self->a, want, t_call(self->a, CAPKM_NR_WINDOW_RECORD, &record));
		ASSERT_EQ(BAD, record.out_error_index);
	}
	c[BAD] = (struct capkm_claim){ self->x, BAD, BAD + 2 };
	T_OK(self->a, TAINT, &taint);
	t_is_failed(self->a, self->x, 0, N + 1, taint.out_failure);
	t_is_clean(self->a, self->x, N + 1, 90);
}

/*
 * C67: some blocks of a cache could not be fetched; without their exact ids the
 * requests went on with what was there, and an idle engine was never told. One call
 * taints what is scattered, and the buffer gives back exactly that, neighbours with
 * another failure apart.
 */
TEST_F(cases, c67_seven_blocks_are_missing)
{
	struct capkm_claim lost[7];
	struct t_buffer b;
	u_int64_t f, other;

	for (unsigned int i = 0; i < 7; i++)
		lost[i] = (struct capkm_claim){ self->x, 13 * i, 13 * i + 5 };
	f = t_taint(self->a, "the store has no such block", lost, 7);
	b = t_buffer_query(self->a, self->x);
	ASSERT_EQ(7, b.q.out_claims);
	ASSERT_EQ(7, b.q.out_ranges);
	for (unsigned int i = 0; i < 7; i++) {
		ASSERT_EQ(lost[i].start, b.r[i].start);
		ASSERT_EQ(lost[i].end, b.r[i].end);
		ASSERT_EQ(f, b.r[i].id);
		ASSERT_EQ(CAPKM_RANGE_FAILED, b.r[i].state);
		t_is_clean(self->a, self->x, lost[i].end, lost[i].end + 8);
	}
	/* Adjacent, and not the same. */
	other = t_taint(self->a, "the network is down", C({ self->x, 5, 13 }));
	t_ranges_are(self->a, self->x,
		     { 0, 5, f, CAPKM_RANGE_FAILED }, { 5, 13, other, CAPKM_RANGE_FAILED },
		     { 13, 18, f, CAPKM_RANGE_FAILED }, { 26, 31, f, CAPKM_RANGE_FAILED },
		     { 39, 44, f, CAPKM_RANGE_FAILED }, { 52, 57, f, CAPKM_RANGE_FAILED },
		     { 65, 70, f, CAPKM_RANGE_FAILED }, { 78, 83, f, CAPKM_RANGE_FAILED });
	/* Recovery block by block. */
	for (unsigned int i = 0; i < 7; i++)
		t_write(self->a, 1, C(lost[i]));
	t_ranges_are(self->a, self->x, { 5, 13, other, CAPKM_RANGE_FAILED });
}

/* C67: the idle engine sleeps in poll(), and each new failure wakes it. */
TEST_F(cases, c67_failure_wakes_an_idle_engine)
{
	struct capkm_domain_attach at = {
		.domain = self->a->domain, .flags = CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS,
	};
	struct capkm_event e;
	struct cl *idle;
	u_int64_t f;

	idle = t_client();
	T_OK(idle, DOMAIN_ATTACH, &at);
	skip_events(idle);
	ASSERT_FALSE(has_event(idle));
	f = t_taint(self->a, "the store has no such block",
		    C({ self->x, 0, 5 }, { self->x, 13, 18 }));
	ASSERT_EQ(!t_embedded(), has_event(idle));
	e = next_event(idle, CAPKM_EVENT_FAILURE_MINTED);
	ASSERT_EQ(f, e.failure);
	ASSERT_EQ(CAPKM_KIND_IO, e.kind);
	ASSERT_FALSE(has_event(idle));
	t_write(self->a, 1, C({ self->x, 0, 20 }));
	e = next_event(idle, CAPKM_EVENT_FAILURE_PRUNED);
	ASSERT_EQ(f, e.failure);
	t_close(idle);
}

/* ----------------------------------------------------------------- freshness */

/*
 * C55: an attribute was bound to a new tensor after the capture: the replay wrote the old
 * one, and the user read the new one, which nothing of the graph had ever touched. What
 * the new one is worth depends on its own history only, whatever becomes of the replay;
 * and who asks who wrote it last learns that it was not the graph, and when.
 */
TEST_F(cases, c55_replay_writes_the_old_tensor)
{
	u_int64_t old = self->x, fresh = self->y, session = self->a->session, n, m;
	struct capkm_graph_replay_end e = { .flags = CAPKM_SCOPE_EXIT_F_COMPLETE };
	u_int64_t g = t_graph(self->a, 1, NO_CLAIMS, C({ old, 0, BYTES })), f;

	/* Well in its own right, before the graph runs and after. */
	n = t_write(self->a, 2, C({ fresh, 0, BYTES }));
	e.graph = g;
	t_replay_begin(self->a, g, 1);
	T_OK(self->a, GRAPH_REPLAY_END, &e);
	t_is_clean(self->a, fresh, 0, BYTES);
	t_writers_are(self->a, fresh, { 0, BYTES, session, 2, n });
	t_writers_are(self->a, old, { 0, BYTES, session, 1, e.out_sequence });
	ASSERT_LT(n, e.out_sequence);

	/* A replay that fails spoils what it writes, and not what it is taken to write. */
	t_replay_begin(self->a, g, 1);
	f = t_replay_end(self->a, g, "replay");
	t_is_failed(self->a, old, 0, BYTES, f);
	t_is_clean(self->a, fresh, 0, BYTES);
	t_writers_are(self->a, fresh, { 0, BYTES, session, 2, n });

	/* And one that goes well does not mend it. */
	f = t_fail(self->a, 2, C({ fresh, 50, BYTES }), "offload");
	t_replay(self->a, g, 1);
	t_is_clean(self->a, old, 0, BYTES);
	t_is_clean(self->a, fresh, 0, 50);
	t_is_failed(self->a, fresh, 50, BYTES, f);
	/* Who wrote it well last. */
	t_writers_are(self->a, fresh, { 0, BYTES, session, 2, n });

	m = t_write(self->a, 3, C({ fresh, 50, BYTES }));
	t_is_clean(self->a, fresh, 0, BYTES);
	t_writers_are(self->a, fresh, { 0, 50, session, 2, n }, { 50, BYTES, session, 3, m });
	ASSERT_EQ(0, t_destroy(self->a, g));
}

/*
 * C49: a graph was replayed on the metadata of the step before, since the step had
 * built new tensors and nobody had copied them to where the graph reads: repeated
 * characters, no error. Who must have his inputs new asks whether they were written
 * since the last replay; who does not ask is told that they are clean, as they are.
 */
TEST_F(cases, c49_input_was_not_written_since_the_last_replay)
{
	u_int64_t m = t_fresh(self->a, BYTES), g, since = 0;
	struct t_check c;

	t_write(self->a, 1, C({ m, 0, BYTES }));
	g = t_graph(self->a, 1, C({ m, 0, BYTES }), C({ self->x, 0, BYTES }));
	for (int step = 0; step < 3; step++) {
		c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, since,
				  C({ m, 0, BYTES }));
		ASSERT_EQ(CAPKM_CLEAN, c.result);
		t_replay(self->a, g, 1);
		since = t_domain_query(self->a).out_sequence;

		c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, since,
				  C({ m, 0, BYTES }));
		ASSERT_EQ(CAPKM_STALE, c.result);
		ASSERT_EQ(CAPKM_KIND_STALE, c.r[0].kind);
		ASSERT_EQ(m, c.r[0].buffer);
		t_is_clean(self->a, m, 0, BYTES);
		/* One byte short is not all of it. */
		t_write(self->a, 1, C({ m, 0, BYTES - 1 }));
		c = t_check_flags(self->a, CAPKM_CHECK_F_WRITTEN, since,
				  C({ m, 0, BYTES }));
		ASSERT_EQ(CAPKM_STALE, c.result);
		ASSERT_EQ(BYTES - 1, c.r[0].start);
		t_written(self->a, C({ m, BYTES - 1, BYTES }));
	}
}

/* -------------------------------------------------------------------- faults */

/*
 * C26: after an error of a capture the whole context was unusable, and nobody could
 * tell which memory was still good. A fault taints all private buffers of the
 * client on that device, and nothing else; a new context clears none of it, writing
 * or freeing does. (No reader asks for a context: the bytes carry the failure, in
 * one range for a buffer.)
 */
TEST_F(cases, c26_context_is_lost)
{
	struct cl *other = t_process();
	u_int64_t b[3], elsewhere, theirs, f;

	t_attach(other, self->a->domain);
	for (int i = 0; i < 3; i++)
		b[i] = t_buffer_on(self->a, GPU, BYTES, 0);
	elsewhere = t_buffer_on(self->a, OTHER_GPU, BYTES, 0);
	theirs = t_buffer_on(other, GPU, BYTES, 0);
	t_write(other, GPU | 1, C({ theirs, 0, BYTES }));

	f = t_fault(self->a, GPU | 1, "illegal address");
	for (int i = 0; i < 3; i++) {
		struct capkm_report r = t_is_failed(self->a, b[i], 0, BYTES, f);

		ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, r.kind);
		ASSERT_EQ(700, r.code);
		t_ranges_are(self->a, b[i], { 0, BYTES, f, CAPKM_RANGE_FAILED });
	}
	t_is_clean(self->a, elsewhere, 0, BYTES);
	t_is_clean(other, theirs, 0, BYTES);
	t_write(other, GPU | 1, C({ theirs, 0, BYTES }));
	t_write(self->a, OTHER_GPU | 1, C({ elsewhere, 0, BYTES }));
	is_skipped(self->a, GPU | 1, b[0], f);

	t_renew(self->a, GPU);
	for (int i = 0; i < 3; i++)
		t_is_failed(self->a, b[i], 0, BYTES, f);
	t_write(self->a, GPU | 1, C({ b[0], 0, BYTES }));
	t_is_clean(self->a, b[0], 0, BYTES);
	ASSERT_EQ(0, t_reset(self->a, b[1], 0, BYTES));
	t_is_clean(self->a, b[1], 0, BYTES);
	t_is_failed(self->a, b[2], 0, BYTES, f);
	ASSERT_EQ(0, t_drop(self->a, b[2]));
	ASSERT_EQ(0, t_failures(self->a));
	t_close(other);
}

/*
 * C62: after an Xid a server answered for two days, 200 and garbage, from bytes
 * that nothing had written any more. Whatever it tries after the fault, no read of
 * an output succeeds until there is a new context and the output was written again.
 */
TEST_F(cases, c62_server_goes_on_after_a_fault)
{
	struct cl *server = t_process();
	u_int64_t out[10], f;

	t_attach(server, self->a->domain);
	for (int i = 0; i < 10; i++) {
		out[i] = t_buffer_on(server, GPU, BYTES, CAPKM_BUFFER_CREATE_F_EXPORT);
		t_open(self->a, out[i]);
		t_write_enqueued(server, GPU | 1, C({ out[i], 0, BYTES }));
		t_is_clean(self->a, out[i], 0, BYTES);
	}
	f = t_fault(server, GPU | 1, "Xid 31");
	for (int i = 0; i < 10; i++)
		t_is_failed(self->a, out[i], 0, BYTES, f);
	for (int i = 0; i < 10; i++) {
		is_skipped(server, GPU | i, out[i], f);
		t_is_failed(self->a, out[i], 0, BYTES, f);
	}
	t_renew(server, GPU);
	for (int i = 0; i < 10; i++) {
		t_is_failed(self->a, out[i], 0, BYTES, f);
		t_write(server, GPU | i, C({ out[i], 0, BYTES }));
		t_is_clean(self->a, out[i], 0, BYTES);
	}
	ASSERT_EQ(0, t_failures(self->a));
	t_close(server);
}

/* C62: a supervisor hears of it at once, and of the recovery. */
TEST_F(cases, c62_supervisor_hears_of_the_fault)
{
	struct cl *server = t_process();
	struct capkm_event e;
	u_int64_t f;

	t_attach(server, self->a->domain);
	skip_events(self->a);
	ASSERT_FALSE(has_event(self->a));
	f = t_fault(server, GPU | 1, "Xid 31");
	ASSERT_EQ(!t_embedded(), has_event(self->a));
	e = next_event(self->a, CAPKM_EVENT_DEVICE_FAULTED);
	ASSERT_EQ(f, e.failure);
	ASSERT_EQ(server->session, e.session);
	ASSERT_EQ((unsigned int)t_pid(server), e.pid);
	ASSERT_EQ(GPU >> 56, e.device[0]);
	ASSERT_EQ(1, t_domain_query(self->a).out_faulted);
	t_renew(server, GPU);
	e = next_event(self->a, CAPKM_EVENT_CONTEXT_RENEWED);
	ASSERT_EQ(server->session, e.session);
	ASSERT_EQ(0, t_domain_query(self->a).out_faulted);
	t_close(server);
}

/*
 * C63: the process of a poisoned context lived on for 22 hours, since nothing that
 * a machine could read said that it was dead. Work that was under way at the fault
 * has failed, how well it may leave; and one query, without a call of the driver,
 * says whether the context is alive.
 */
TEST_F(cases, c63_work_was_under_way_at_the_fault)
{
	u_int64_t b = t_buffer_on(self->a, GPU, BYTES, 0), well, badly, f, own;

	ASSERT_EQ(0, t_slot(self->a, GPU | 1).out_failure);
	well = t_enter(self->a, GPU | 1, NO_CLAIMS, C({ self->x, 0, 10 }));
	badly = t_enter(self->a, GPU | 2, NO_CLAIMS, C({ self->y, 0, 10 }));
	f = t_fault(self->a, GPU | 3, "illegal address");
	ASSERT_EQ(f, t_exit(self->a, well));
	t_is_failed(self->a, self->x, 0, 10, f);
	own = t_exit_failed(self->a, badly, "sticky error");
	ASSERT_NE(f, own);
	t_is_failed(self->a, self->y, 0, 10, own);
	is_skipped(self->a, GPU | 9, b, f);

	ASSERT_EQ(f, t_slot(self->a, GPU | 1).out_failure);
	ASSERT_EQ(1, t_slot(self->a, GPU | 1).out_epoch);
	ASSERT_EQ(1, t_domain_query(self->a).out_faulted);
	/* To say it again is no other fault. */
	ASSERT_EQ(f, t_fault(self->a, GPU | 1, "again"));
	ASSERT_EQ(1, t_renew(self->a, GPU));
	ASSERT_EQ(0, t_slot(self->a, GPU | 1).out_failure);
	ASSERT_EQ(0, t_domain_query(self->a).out_faulted);
	t_write(self->a, GPU | 1, C({ self->x, 0, 10 }, { self->y, 0, 10 }));
	t_is_clean(self->a, self->x, 0, BYTES);
	t_is_clean(self->a, self->y, 0, BYTES);
}

/* C63: work that was confirmed is a result, what was not is none. */
TEST_F(cases, c63_confirmed_work_outlives_the_fault)
{
	u_int64_t f;

	t_write_enqueued(self->a, GPU | 1, C({ self->x, 0, 10 }));
	t_confirm(self->a, GPU | 1);
	t_write_enqueued(self->a, GPU | 1, C({ self->x, 50, 60 }));
	t_is_pending(self->a, self->x, 50, 60);
	f = t_fault(self->a, GPU | 1, NULL);
	t_ranges_are(self->a, self->x, { 50, 60, f, CAPKM_RANGE_FAILED });
}

/*
 * C74: with a shared server one client's illegal access killed all clients of that
 * GPU, with no word of whose it was, and new ones were turned away even from a GPU
 * that was well. The monitor that saw it tells the kernel of the device, once, and
 * who it was in its text: all clients there have faulted, others have not, new ones
 * come in. When those of the device are gone, nothing of it is left.
 */
TEST_F(cases, c74_one_client_kills_the_others_of_its_gpu)
{
	struct cl *p[3], *late;
	u_int64_t b[3], g;
	unsigned int clients = 0;
	char text[64];
	int rc;

	for (int i = 0; i < 3; i++) {
		g = i < 2 ? GPU : OTHER_GPU;
		p[i] = t_process();
		t_attach(p[i], self->a->domain);
		b[i] = t_buffer_on(p[i], g, BYTES, 0);
		t_write(p[i], g | 1, C({ b[i], 0, BYTES }));
	}
	snprintf(text, sizeof(text), "Xid 31, pid %d", t_pid(p[0]));
	rc = t_device_fault(self->a, GPU, text, &clients);
	if (rc == -EPERM)
		SKIP(return, "needs CAP_SYS_ADMIN");
	ASSERT_EQ(0, rc);
	ASSERT_EQ(2, clients);
	for (int i = 0; i < 2; i++) {
		struct capkm_report r = t_is_tainted(p[i], b[i], 0, BYTES,
						     CAPKM_KIND_DEVICE_FAULT);

		ASSERT_EQ(79, r.code);
		ASSERT_NE(NULL, strstr((char *)r.text, text));
		is_skipped(p[i], GPU | 2, b[i], r.failure);
	}
	ASSERT_EQ(2, t_domain_query(self->a).out_faulted);
	t_is_clean(p[2], b[2], 0, BYTES);
	t_write(p[2], OTHER_GPU | 1, C({ b[2], 0, BYTES }));

	late = t_process();
	t_attach(late, self->a->domain);
	b[0] = t_buffer_on(late, OTHER_GPU, BYTES, 0);
	t_write(late, OTHER_GPU | 1, C({ b[0], 0, BYTES }));
	t_kill(p[0]);
	t_close(p[1]);
	ASSERT_EQ(0, t_domain_query(self->a).out_faulted);
	ASSERT_EQ(0, t_failures(self->a));
	/* The device is as good as new for who comes now. */
	b[0] = t_buffer_on(late, GPU, BYTES, 0);
	t_write(late, GPU | 1, C({ b[0], 0, BYTES }));
	t_close(late);
	t_close(p[2]);
}

/*
 * C76: faults differ in how far they reach: one launch, one client's context, or
 * the device with all of its clients. Each has a call of its own and taints as much
 * as it reaches. A read does not consult three tables one after the other: the
 * bytes carry each failure, and the first that hit them is named.
 */
TEST_F(cases, c76_how_far_a_fault_reaches)
{
	struct cl *b = t_process();
	u_int64_t mine = t_buffer_on(self->a, GPU, BYTES, 0), theirs, launch, context;
	unsigned int clients;
	struct capkm_report r;
	int rc;

	t_attach(b, self->a->domain);
	theirs = t_buffer_on(b, GPU, BYTES, 0);

	/* A launch: its bytes. */
	launch = t_fail(self->a, GPU | 1, C({ mine, 0, 10 }), "misaligned address");
	t_is_clean(self->a, mine, 10, BYTES);
	/* A context: the client's buffers on the device. */
	context = t_fault(self->a, GPU | 1, "MMU fault");
	t_is_failed(self->a, mine, 10, BYTES, context);
	ASSERT_NE(launch, context);
	t_is_clean(b, theirs, 0, BYTES);
	/* Rule 2: to taint is to write, so the launch does not count any more. */
	t_is_failed(self->a, mine, 0, 10, context);

	/* The device: everybody's. To whom it has happened already it is no news. */
	rc = t_device_fault(self->a, GPU, "fallen off the bus", &clients);
	if (rc != -EPERM) {
		ASSERT_EQ(0, rc);
		r = t_is_tainted(b, theirs, 0, BYTES, CAPKM_KIND_DEVICE_FAULT);
		ASSERT_NE(context, r.failure);
		t_is_failed(self->a, mine, 0, BYTES, context);
	}
	t_close(b);
}

TEST_HARNESS_MAIN
