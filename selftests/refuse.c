// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a runtime must refuse while a window records (REFUSE), in which window a scope
 * is recorded, and how many windows became graphs.
 */
#include "capkm_test.h"

#define OWNER		1
#define NEIGHBOUR	(OWNER + 32)	/* the same slot */
#define MEMBER		2
#define OTHER		3		/* a slot without a window */
#define CHILD		4

#define READ		CAPKM_REFUSE_READ
#define SYNC		CAPKM_REFUSE_SYNC
#define PROFILE		CAPKM_REFUSE_PROFILE
#define WRITE		CAPKM_REFUSE_WRITE
#define ALLOCATE	CAPKM_REFUSE_ALLOCATE

#define DONE		CAPKM_WINDOW_F_DRIVER_DONE

static const char *const names[] = {
	[READ] = "read", [SYNC] = "sync", [PROFILE] = "profile", [WRITE] = "write",
	[ALLOCATE] = "allocate",
};

struct asked {
	int rc;
	unsigned int result, reports, index, state;
	u_int64_t window, failure;
	struct capkm_report r;
};

static struct asked ask_at(struct cl *cl, struct capkm_place place, unsigned int flags,
			   unsigned int what, const struct capkm_claim *claims, size_t n)
{
	struct asked x;
	struct capkm_refuse a = {
		.flags = flags, .place = place, .what = what,
		.claims_uptr = t_ptr(claims), .claims_len = n,
		.reports_uptr = t_ptr(&x.r), .reports_len = 1,
	};

	memset(&x, 0xcc, sizeof(x));
	x.rc = t_call(cl, CAPKM_NR_REFUSE, &a);
	x.result = a.out_result;
	x.reports = a.out_reports;
	x.index = a.out_error_index;
	x.state = a.out_state;
	x.window = a.out_window;
	x.failure = a.out_failure;
	return x;
}

static struct asked ask(struct cl *cl, u_int64_t stream, unsigned int what,
			const struct capkm_claim *claims, size_t n)
{
	return ask_at(cl, t_place(stream), 0, what, claims, n);
}

/* Nothing is in the way, nothing changes. @window: that records there, or 0. */
#define allowed(cl, stream, what, window, state) \
	(T_AT, allowed_(cl, stream, what, window, state))
static void allowed_(struct cl *cl, u_int64_t stream, unsigned int what,
		     u_int64_t window, unsigned int state)
{
	char *before = t_dump(cl);
	struct asked x = ask(cl, stream, what, NO_CLAIMS);

	if (x.rc || x.result != CAPKM_CLEAN || x.reports || x.failure)
		t_die("%s: %d, result %u, %u reports, failure %" PRIu64, names[what],
		      x.rc, x.result, x.reports, x.failure);
	if (x.window != window || x.state != state)
		t_die("%s: window %" PRIu64 ", state %u", names[what], x.window, x.state);
	t_unchanged_(cl, before);
}

/* The report names what was asked, the window and its owner. */
static void names_them(const struct asked *x, unsigned int what, u_int64_t window,
		       u_int64_t owner)
{
	char want[80];

	snprintf(want, sizeof(want), "%s: refused while window %" PRIu64
		 " of stream %" PRIu64 " ", names[what], window, owner);
	if (x->rc || x->result != CAPKM_REFUSED || x->reports != 1)
		t_die("%s: %d, result %u, %u reports", names[what], x->rc, x->result,
		      x->reports);
	if (x->r.kind != CAPKM_KIND_REFUSED || x->r.window != window ||
	    x->r.failure != x->failure || x->r.code || x->r.scope || x->r.graph)
		t_die("%s: kind %u, window %llu, failure %llu", names[what], x->r.kind,
		      x->r.window, x->r.failure);
	if (memcmp(x->r.text, want, strlen(want)) ||
	    x->r.text_len != strlen((const char *)x->r.text))
		t_die("%s: \"%s\", expected \"%s...\"", names[what], x->r.text, want);
}

/* It is refused, and nothing changes. @records: the window does, for sure. */
#define refused(cl, stream, what, window, state, records) \
	(T_AT, refused_(cl, stream, what, window, state, records))
static void refused_(struct cl *cl, u_int64_t stream, unsigned int what,
		     u_int64_t window, unsigned int state, bool records)
{
	u_int64_t owner = t_window_(cl, window).q.out_owner;
	char *before = t_dump(cl);
	struct asked x = ask(cl, stream, what, NO_CLAIMS);

	names_them(&x, what, window, owner);
	if (x.failure || x.r.carriers)
		t_die("%s: failure %" PRIu64, names[what], x.failure);
	if (x.window != (records ? window : 0) || x.state != state)
		t_die("%s: window %" PRIu64 ", state %u", names[what], x.window, x.state);
	if (x.r.stream != (stream & ~T_GPU(255)) || x.r.session != cl->session ||
	    (int)x.r.pid != t_pid(cl))
		t_die("%s: stream %llu, session %llu, pid %u", names[what], x.r.stream,
		      x.r.session, x.r.pid);
	t_unchanged_(cl, before);
}

/* It is refused with a failure, which is returned. */
#define failed(cl, stream, what, window, ...) \
	(T_AT, failed_(cl, stream, what, window, __VA_ARGS__))
static u_int64_t failed_(struct cl *cl, u_int64_t stream, unsigned int what,
			 u_int64_t window, const struct capkm_claim *claims, size_t n)
{
	u_int64_t owner = t_window_(cl, window).q.out_owner;
	struct asked x = ask(cl, stream, what, claims, n);

	names_them(&x, what, window, owner);
	if (!x.failure)
		t_die("%s: no failure", names[what]);
	return x.failure;
}

#define is_doomed(cl, window) (t_window(cl, window).q.out_doomed)

/* The first failure, or the last one, of a window. */
static struct capkm_report first(struct cl *cl, u_int64_t window)
{
	struct t_window w = t_window_(cl, window);

	if (!w.q.out_reports)
		t_die("window %" PRIu64 " has no failure", window);
	return w.r[0];
}

FIXTURE(refuse)
{
	struct cl *a;
	u_int64_t x, y;
};

FIXTURE_SETUP(refuse)
{
	self->a = t_client();
	t_domain(self->a);
	self->x = t_buffer(self->a, 100);
	self->y = t_shared(self->a, 100);
}

FIXTURE_TEARDOWN(refuse)
{
	t_close(self->a);
	t_no_leaks();
}

/* With a driver. */
FIXTURE(hardware)
{
	struct cl *a;
	u_int64_t x;
};

FIXTURE_SETUP(hardware)
{
	self->a = t_client();
	t_domain_backend(self->a, CAPKM_BACKEND_HARDWARE);
	self->x = t_buffer(self->a, 100);
}

FIXTURE_TEARDOWN(hardware)
{
	t_close(self->a);
	t_no_leaks();
}

/* -------------------------------------------------------------- each state */

/* CW-27, CW-28, CW-30, D-3: in software only what records is in the way. */
TEST_F(refuse, states)
{
	static const u_int64_t streams[] = { OWNER, NEIGHBOUR };
	u_int64_t w;

	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int what = READ; what <= ALLOCATE; what++)
			allowed(self->a, streams[i], what, 0, CAPKM_WINDOW_NONE);
	w = t_prepare(self->a, OWNER);
	for (unsigned int i = 0; i < 2; i++)
		for (unsigned int what = READ; what <= ALLOCATE; what++)
			allowed(self->a, streams[i], what, 0, CAPKM_WINDOW_PREPARE);
	t_begin(self->a, OWNER);
	for (unsigned int i = 0; i < 2; i++) {
		refused(self->a, streams[i], READ, w, CAPKM_WINDOW_CAPTURE, true);
		refused(self->a, streams[i], SYNC, w, CAPKM_WINDOW_CAPTURE, true);
		refused(self->a, streams[i], PROFILE, w, CAPKM_WINDOW_CAPTURE, true);
		allowed(self->a, streams[i], ALLOCATE, w, CAPKM_WINDOW_CAPTURE);
	}
	refused(self->a, NEIGHBOUR, WRITE, w, CAPKM_WINDOW_CAPTURE, true);
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OTHER, what, 0, CAPKM_WINDOW_NONE);
	t_end(self->a, OWNER);
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OWNER, what, 0, CAPKM_WINDOW_NONE);
	t_seal(self->a, w);
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OWNER, what, 0, CAPKM_WINDOW_NONE);
	ASSERT_EQ(0, t_failures(self->a));
}

/* CW-35, CW-36, CW-37: a driver may be recording between its two calls. */
TEST_F(hardware, states)
{
	static const u_int64_t streams[] = { OWNER, NEIGHBOUR };
	u_int64_t w;

	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OWNER, what, 0, CAPKM_WINDOW_NONE);
	w = t_prepare(self->a, OWNER);
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OWNER, what, 0, CAPKM_WINDOW_PREPARE);
	t_begin(self->a, OWNER);
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int what = READ; what <= PROFILE; what++)
			refused(self->a, streams[i], what, w, CAPKM_WINDOW_OPENING,
				false);
		allowed(self->a, streams[i], WRITE, 0, CAPKM_WINDOW_OPENING);
	}
	ASSERT_EQ(0, t_try_begin(self->a, OWNER, DONE).rc);
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int what = READ; what <= PROFILE; what++)
			refused(self->a, streams[i], what, w, CAPKM_WINDOW_CAPTURE,
				true);
		allowed(self->a, streams[i], WRITE, w, CAPKM_WINDOW_CAPTURE);
	}
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_end(self->a, OWNER);
	for (unsigned int i = 0; i < 2; i++) {
		for (unsigned int what = READ; what <= PROFILE; what++)
			refused(self->a, streams[i], what, w, CAPKM_WINDOW_CLOSING,
				false);
		allowed(self->a, streams[i], WRITE, 0, CAPKM_WINDOW_CLOSING);
	}
	ASSERT_EQ(0, t_try_end(self->a, OWNER, DONE).rc);
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, OWNER, what, 0, CAPKM_WINDOW_NONE);
	t_graph_is(self->a, t_seal(self->a, w), 0, C({ self->x, 0, 10 }));
}

/* GR-29: without graphs no window is there. */
TEST(no_graphs)
{
	struct cl *a = t_client();

	t_domain_backend(a, CAPKM_BACKEND_NONE);
	t_write(a, OWNER, C({ t_buffer(a, 10), 0, 10 }));
	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(a, OWNER, what, 0, CAPKM_WINDOW_NONE);
	t_close(a);
	t_no_leaks();
}

/* A slot that was never used has nothing, and is not made. */
TEST_F(refuse, unused_slot)
{
	struct capkm_place place = t_place(T_GPU(9) | OTHER);
	struct capkm_context_renew renew = { .device[0] = 9 };

	for (unsigned int what = READ; what <= ALLOCATE; what++)
		allowed(self->a, T_GPU(9) | OTHER, what, 0, CAPKM_WINDOW_NONE);
	place.slot = 31;
	ASSERT_EQ(0, ask_at(self->a, place, CAPKM_PLACE_F_SLOT, READ, NO_CLAIMS).rc);
	ASSERT_EQ(-ENOENT, t_call(self->a, CAPKM_NR_CONTEXT_RENEW, &renew));
}

/* Aborted, abandoned, orphaned: the slot is free. */
TEST_F(refuse, gone)
{
	struct cl *b = t_process();
	u_int64_t w = t_record(self->a, OWNER);

	t_abort(self->a, OWNER);
	allowed(self->a, OWNER, READ, 0, CAPKM_WINDOW_NONE);
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, t_abandon(self->a, w));
	allowed(self->a, OWNER, WRITE, 0, CAPKM_WINDOW_NONE);
	t_attach(b, self->a->domain);
	w = t_record(b, OWNER);
	refused(b, OWNER, READ, w, CAPKM_WINDOW_CAPTURE, true);
	/* Slots are a client's own. */
	allowed(self->a, OWNER, READ, 0, CAPKM_WINDOW_NONE);
	t_kill(b);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	allowed(self->a, OWNER, READ, 0, CAPKM_WINDOW_NONE);
}

/* ------------------------------------------------- T-107, T-108, T-109 */

/* T-107: a refused read costs the capture nothing. */
TEST_F(refuse, read)
{
	u_int64_t w = t_record(self->a, OWNER), g;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	for (unsigned int what = READ; what <= PROFILE; what++) {
		refused(self->a, OWNER, what, w, CAPKM_WINDOW_CAPTURE, true);
		refused(self->a, NEIGHBOUR, what, w, CAPKM_WINDOW_CAPTURE, true);
	}
	t_write(self->a, OWNER, C({ self->x, 20, 30 }));
	t_end(self->a, OWNER);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->x, 0, 10 }, { self->x, 20, 30 }));
	t_replay(self->a, g, OWNER);
	t_is_clean(self->a, self->x, 0, 100);
}

/*
 * T-108, CW-28: the owner's write dooms the window, with the one failure that its
 * bytes carry; they can be read once they are written.
 */
TEST_F(refuse, owners_write)
{
	u_int64_t w = t_record(self->a, OWNER), f;
	struct capkm_report r;
	struct t_seal s;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	f = failed(self->a, OWNER, WRITE, w,
		   C({ self->x, 5, 30 }, { self->y, 0, 100 }, { self->x, 40, 40 }));
	ASSERT_EQ(1, t_failures(self->a));
	r = t_is_failed(self->a, self->x, 5, 30, f);
	ASSERT_EQ(CAPKM_KIND_REFUSED, r.kind);
	ASSERT_EQ(w, r.window);
	ASSERT_EQ(OWNER, r.stream);
	ASSERT_EQ(self->a->session, r.session);
	ASSERT_EQ(2, r.carriers);
	t_is_failed(self->a, self->y, 0, 100, f);
	t_is_clean(self->a, self->x, 0, 5);
	t_is_clean(self->a, self->x, 30, 100);
	ASSERT_EQ(1, is_doomed(self->a, w));
	ASSERT_EQ(f, first(self->a, w).failure);
	ASSERT_EQ(1, t_window(self->a, w).q.out_failures);
	/* GR-9, GR-15: what was recorded is tainted, the reason is embedded. */
	ASSERT_EQ(1, t_end(self->a, OWNER).out_doomed);
	s = t_seal_refused(self->a, w);
	ASSERT_EQ(2, s.reports);
	ASSERT_EQ(f, s.r[1].failure);
	ASSERT_NE(NULL, strstr((char *)s.r[0].text, "write: refused"));
	t_is_failed(self->a, self->x, 0, 5, s.r[0].failure);
	t_is_failed(self->a, self->x, 5, 30, f);
	t_is_clean(self->a, self->x, 30, 100);
	/* The stream is usable, the destination after it was written. */
	t_write(self->a, OWNER, C({ self->x, 0, 30 }, { self->y, 0, 100 }));
	t_is_clean(self->a, self->x, 0, 100);
	t_is_clean(self->a, self->y, 0, 100);
	ASSERT_EQ(0, t_failures(self->a));
	t_graph(self->a, OWNER, NO_CLAIMS, C({ self->x, 0, 10 }));
}

/* T-109, CW-28: a neighbour's write is his own affair. */
TEST_F(refuse, neighbours_write)
{
	u_int64_t w = t_record(self->a, OWNER), f, g;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	f = failed(self->a, NEIGHBOUR, WRITE, w,
		   C({ self->x, 20, 30 }, { self->y, 0, 10 }));
	ASSERT_EQ(NEIGHBOUR, t_is_failed(self->a, self->x, 20, 30, f).stream);
	t_is_failed(self->a, self->y, 0, 10, f);
	ASSERT_EQ(0, is_doomed(self->a, w));
	ASSERT_EQ(0, t_window(self->a, w).q.out_failures);
	t_end(self->a, OWNER);
	g = t_seal(self->a, w);
	t_graph_is(self->a, g, 0, C({ self->x, 0, 10 }));
	t_replay(self->a, g, OWNER);
	t_is_failed(self->a, self->x, 20, 30, f);
	t_is_failed(self->a, self->y, 0, 10, f);
	t_is_clean(self->a, self->x, 0, 20);
	t_written(self->a, C({ self->x, 20, 30 }, { self->y, 0, 10 }));
	ASSERT_EQ(0, t_failures(self->a));
}

/* What reads a neighbour's refused bytes in the window is skipped, and dooms it. */
TEST_F(refuse, neighbours_write_is_read)
{
	u_int64_t w = t_record(self->a, OWNER), f;

	f = failed(self->a, NEIGHBOUR, WRITE, w, C({ self->x, 0, 10 }));
	ASSERT_EQ(f, t_skip(self->a, OWNER, "reader", C({ self->x, 5, 6 }),
			    C({ self->x, 50, 60 })));
	ASSERT_EQ(f, first(self->a, w).failure);
	t_is_failed(self->a, self->x, 50, 60, f);
}

/* What a graph writes is good after its replay, whatever was refused before. */
TEST_F(refuse, replay_rewrites)
{
	u_int64_t w = t_record(self->a, OWNER), f, g;

	t_write(self->a, OWNER, C({ self->x, 0, 20 }));
	f = failed(self->a, NEIGHBOUR, WRITE, w, C({ self->x, 10, 30 }));
	t_end(self->a, OWNER);
	g = t_seal(self->a, w);
	t_is_failed(self->a, self->x, 10, 20, f);
	t_replay(self->a, g, OWNER);
	t_is_clean(self->a, self->x, 0, 20);
	t_is_failed(self->a, self->x, 20, 30, f);
}

/* Rule 2: it is newer than what was recorded, and older than the open scope's exit. */
TEST_F(refuse, order)
{
	u_int64_t w = t_record(self->a, OWNER), s, f;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	s = t_enter(self->a, OWNER, NO_CLAIMS, C({ self->x, 20, 30 }));
	f = failed(self->a, OWNER, WRITE, w, C({ self->x, 0, 30 }));
	t_is_open(self->a, self->x, 20, 30, s);
	t_exit(self->a, s);
	/* The claim is younger than the enter: nobody knows which came last. */
	t_is_failed(self->a, self->x, 20, 30, f);
	t_end(self->a, OWNER);
	t_seal_refused(self->a, w);
	for (unsigned int i = 0; i < 30; i++)
		t_is_failed(self->a, self->x, i, i + 1, f);
	s = t_record(self->a, OWNER);
	t_write(self->a, OWNER, C({ self->x, 0, 30 }));
	t_end(self->a, OWNER);
	/* A later window's refusal is what its bytes carry. */
	f = t_refuse(self->a, s, "no graph").r[0].failure;
	for (unsigned int i = 0; i < 30; i++)
		t_is_failed(self->a, self->x, i, i + 1, f);
}

/* Others see it, also of a buffer without memory; the queue of errors has nothing. */
TEST_F(refuse, seen_by_others)
{
	struct cl *b = t_process();
	u_int64_t w = t_record(self->a, OWNER), z, f;

	z = t_unallocated(self->a, 10);
	t_attach(b, self->a->domain);
	t_open(b, self->y);
	f = failed(self->a, NEIGHBOUR, WRITE, w, C({ self->y, 0, 10 }, { z, 0, 10 }));
	t_is_failed(b, self->y, 0, 10, f);
	t_is_failed(self->a, z, 0, 10, f);
	ASSERT_EQ(0, t_flush(self->a, NEIGHBOUR, 0).reports);
	ASSERT_EQ(0, t_flush(self->a, OWNER, 0).reports);
	t_close(b);
}

/* Nothing is tainted by a claim without a byte; the owner dooms all the same. */
TEST_F(refuse, empty_write)
{
	u_int64_t w = t_record(self->a, OWNER), f;

	T_REFUSED(self->a, 0, ask(self->a, NEIGHBOUR, WRITE, C({ self->x, 5, 5 })).rc);
	refused(self->a, NEIGHBOUR, WRITE, w, CAPKM_WINDOW_CAPTURE, true);
	ASSERT_EQ(0, is_doomed(self->a, w));
	f = failed(self->a, OWNER, WRITE, w, C({ self->x, 5, 5 }));
	ASSERT_EQ(f, first(self->a, w).failure);
	ASSERT_EQ(0, t_failures(self->a));
	t_is_clean(self->a, self->x, 0, 100);
}

/* The answer does not need room for a report. */
TEST_F(refuse, no_room)
{
	u_int64_t w = t_record(self->a, OWNER);
	struct capkm_claim claim = { self->x, 0, 10 };
	struct capkm_refuse a = { .place.stream = OWNER, .what = READ };

	T_OK(self->a, REFUSE, &a);
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_EQ(0, a.out_reports);
	ASSERT_EQ(w, a.out_window);
	a = (struct capkm_refuse){
		.place.stream = OWNER, .what = WRITE, .claims_len = 1,
		.claims_uptr = t_ptr(&claim),
	};
	T_OK(self->a, REFUSE, &a);
	ASSERT_EQ(CAPKM_REFUSED, a.out_result);
	ASSERT_EQ(0, a.out_reports);
	t_is_failed(self->a, self->x, 0, 10, a.out_failure);
	ASSERT_EQ(1, is_doomed(self->a, w));
}

/* -------------------------------------------------------- doomed, several */

/* CW-16, CW-26: a window that is doomed goes on; its first failure stays. */
TEST_F(refuse, doomed)
{
	u_int64_t w = t_record(self->a, OWNER), f, g, h;

	f = t_fail(self->a, OWNER, C({ self->x, 0, 10 }), "first");
	refused(self->a, OWNER, READ, w, CAPKM_WINDOW_CAPTURE, true);
	g = failed(self->a, NEIGHBOUR, WRITE, w, C({ self->x, 10, 20 }));
	ASSERT_EQ(1, t_window(self->a, w).q.out_failures);
	h = failed(self->a, OWNER, WRITE, w, C({ self->x, 20, 30 }));
	ASSERT_EQ(2, t_window(self->a, w).q.out_failures);
	ASSERT_EQ(f, first(self->a, w).failure);
	ASSERT_EQ(h, t_window(self->a, w).r[1].failure);
	t_is_failed(self->a, self->x, 0, 10, f);
	t_is_failed(self->a, self->x, 10, 20, g);
	t_is_failed(self->a, self->x, 20, 30, h);
}

/* On a member the window records; its owner is whoever prepared it. */
TEST_F(refuse, member)
{
	u_int64_t w = t_record(self->a, OWNER), f;
	struct capkm_place place = t_place(OWNER);

	t_join(self->a, w, MEMBER);
	t_write(self->a, MEMBER, C({ self->x, 0, 10 }));
	for (unsigned int what = READ; what <= PROFILE; what++) {
		refused(self->a, MEMBER, what, w, CAPKM_WINDOW_MEMBER, true);
		refused(self->a, MEMBER + 32, what, w, CAPKM_WINDOW_MEMBER, true);
	}
	allowed(self->a, MEMBER, ALLOCATE, w, CAPKM_WINDOW_MEMBER);
	f = failed(self->a, MEMBER, WRITE, w, C({ self->x, 20, 30 }));
	t_is_failed(self->a, self->x, 20, 30, f);
	failed(self->a, MEMBER + 32, WRITE, w, C({ self->x, 30, 40 }));
	ASSERT_EQ(0, is_doomed(self->a, w));
	/* The owner's stream, put on the member's slot */
	place.slot = MEMBER;
	f = ask_at(self->a, place, CAPKM_PLACE_F_SLOT, WRITE,
		   C({ self->x, 50, 60 })).failure;
	t_is_failed(self->a, self->x, 50, 60, f);
	ASSERT_EQ(f, first(self->a, w).failure);
	t_end(self->a, OWNER);
	allowed(self->a, MEMBER, READ, 0, CAPKM_WINDOW_NONE);
	t_seal_refused(self->a, w);
}

/* A child that records, and the parent that it suspends: each has its owner. */
TEST_F(refuse, child)
{
	u_int64_t w = t_record(self->a, OWNER), c, f;

	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	c = t_record_child(self->a, CHILD, w);
	t_write(self->a, CHILD, C({ self->x, 10, 20 }));
	for (unsigned int what = READ; what <= PROFILE; what++) {
		refused(self->a, OWNER, what, w, CAPKM_WINDOW_CAPTURE, true);
		refused(self->a, CHILD, what, c, CAPKM_WINDOW_CAPTURE, true);
	}
	failed(self->a, NEIGHBOUR, WRITE, w, C({ self->y, 0, 1 }));
	failed(self->a, CHILD + 32, WRITE, c, C({ self->y, 1, 2 }));
	ASSERT_EQ(0, is_doomed(self->a, w));
	ASSERT_EQ(0, is_doomed(self->a, c));
	t_end(self->a, CHILD);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	/* The owner of the parent is a neighbour on the child's slot, and back. */
	c = t_record_child(self->a, CHILD, w);
	f = failed(self->a, OWNER, WRITE, w, C({ self->y, 2, 3 }));
	ASSERT_EQ(f, first(self->a, w).failure);
	ASSERT_EQ(0, is_doomed(self->a, c));
	f = failed(self->a, CHILD, WRITE, c, C({ self->y, 3, 4 }));
	ASSERT_EQ(f, first(self->a, c).failure);
	ASSERT_EQ(1, t_window(self->a, w).q.out_failures);
	t_end(self->a, CHILD);
	t_seal_refused(self->a, c);
	ASSERT_EQ(2, t_window(self->a, w).q.out_failures);
	t_end(self->a, OWNER);
	t_seal_refused(self->a, w);
}

/* A child's doom reaches the parent when it is refused. */
TEST_F(refuse, childs_doom)
{
	u_int64_t w = t_record(self->a, OWNER);
	u_int64_t c = t_record_child(self->a, CHILD, w), f;

	f = failed(self->a, CHILD, WRITE, c, C({ self->x, 0, 10 }));
	ASSERT_EQ(0, is_doomed(self->a, w));
	t_end(self->a, CHILD);
	ASSERT_EQ(f, t_seal_refused(self->a, c).r[1].failure);
	ASSERT_EQ(1, is_doomed(self->a, w));
}

/* A device that is lost changes nothing about it. */
TEST_F(refuse, faulted)
{
	u_int64_t w = t_record(self->a, T_GPU(1) | OWNER), f;

	f = t_fault(self->a, T_GPU(1) | OWNER, "lost");
	refused(self->a, T_GPU(1) | OWNER, READ, w, CAPKM_WINDOW_CAPTURE, true);
	ASSERT_EQ(f, first(self->a, w).failure);
	f = failed(self->a, T_GPU(1) | OWNER, WRITE, w, C({ self->y, 0, 10 }));
	t_is_failed(self->a, self->y, 0, 10, f);
	ASSERT_EQ(2, t_window(self->a, w).q.out_failures);
}

/* ---------------------------------------------------------------- hardware */

/* A window with a driver that records. */
static u_int64_t record_with_driver(struct cl *a, u_int64_t stream)
{
	u_int64_t w = t_prepare_(a, stream, 0);

	t_begin_(a, stream);
	if (t_try_begin(a, stream, DONE).rc)
		t_die("WINDOW_BEGIN, done");
	return w;
}

static void end_with_driver(struct cl *a, u_int64_t stream)
{
	t_end_(a, stream);
	if (t_try_end(a, stream, DONE).rc)
		t_die("WINDOW_END, done");
}

/* CW-37, GR-11: whoever allocates; no byte carries anything. */
TEST_F(hardware, allocate)
{
	static const u_int64_t streams[] = { OWNER, NEIGHBOUR };
	u_int64_t w, f;
	struct t_seal s;

	for (unsigned int i = 0; i < 2; i++) {
		w = record_with_driver(self->a, OWNER);
		t_write(self->a, OWNER, C({ self->x, 0, 10 }));
		f = failed(self->a, streams[i], ALLOCATE, w, NO_CLAIMS);
		ASSERT_EQ(f, first(self->a, w).failure);
		ASSERT_EQ(streams[i], first(self->a, w).stream);
		ASSERT_EQ(0, t_failures(self->a));
		t_is_clean(self->a, self->x, 0, 100);
		end_with_driver(self->a, OWNER);
		s = t_seal_refused(self->a, w);
		ASSERT_EQ(f, s.r[1].failure);
		ASSERT_NE(NULL, strstr((char *)s.r[0].text, "allocate: refused"));
		t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_REFUSED);
		t_written(self->a, C({ self->x, 0, 10 }));
	}
}

/* Also while the driver opens or closes the window, and not when it has. */
TEST_F(hardware, allocate_between)
{
	u_int64_t w = t_prepare(self->a, OWNER), f;
	struct asked x;

	t_begin(self->a, OWNER);
	x = ask(self->a, OWNER, ALLOCATE, NO_CLAIMS);
	ASSERT_EQ(CAPKM_REFUSED, x.result);
	ASSERT_EQ(CAPKM_WINDOW_OPENING, x.state);
	ASSERT_EQ(0, x.window);
	ASSERT_EQ(w, x.r.window);
	ASSERT_NE(NULL, strstr((char *)x.r.text, "opened by its driver"));
	ASSERT_EQ(x.failure, first(self->a, w).failure);
	t_abort(self->a, OWNER);
	w = record_with_driver(self->a, OWNER);
	t_end(self->a, OWNER);
	x = ask(self->a, OWNER, ALLOCATE, NO_CLAIMS);
	ASSERT_EQ(CAPKM_REFUSED, x.result);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, x.state);
	ASSERT_NE(NULL, strstr((char *)x.r.text, "closed by its driver"));
	f = x.failure;
	ASSERT_EQ(0, t_try_end(self->a, OWNER, DONE).rc);
	allowed(self->a, OWNER, ALLOCATE, 0, CAPKM_WINDOW_NONE);
	ASSERT_EQ(1, t_window(self->a, w).q.out_failures);
	ASSERT_EQ(f, t_seal_refused(self->a, w).r[1].failure);
}

/* A member records too; a child is doomed for itself. */
TEST_F(hardware, allocate_elsewhere)
{
	u_int64_t w = record_with_driver(self->a, OWNER), c, f;

	t_join(self->a, w, MEMBER);
	c = t_prepare_child(self->a, CHILD, w);
	t_begin(self->a, CHILD);
	ASSERT_EQ(0, t_try_begin(self->a, CHILD, DONE).rc);
	f = failed(self->a, CHILD, ALLOCATE, c, NO_CLAIMS);
	ASSERT_EQ(f, first(self->a, c).failure);
	ASSERT_EQ(0, is_doomed(self->a, w));
	f = failed(self->a, MEMBER, ALLOCATE, w, NO_CLAIMS);
	ASSERT_EQ(f, first(self->a, w).failure);
	allowed(self->a, OTHER, ALLOCATE, 0, CAPKM_WINDOW_NONE);
}

/* CW-36: the write is work, and a claim that is not good is said all the same. */
TEST_F(hardware, write)
{
	u_int64_t w = record_with_driver(self->a, OWNER);
	struct asked x;

	T_REFUSED(self->a, 0, ask(self->a, OWNER, WRITE, C({ self->x, 0, 10 })).rc);
	x = ask(self->a, OWNER, WRITE, C({ self->x, 0, 10 }, { self->x, 0, 101 }));
	ASSERT_EQ(-EINVAL, x.rc);
	ASSERT_EQ(1, x.index);
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	end_with_driver(self->a, OWNER);
	t_graph_is(self->a, t_seal(self->a, w), 0, C({ self->x, 0, 10 }));
}

/* ---------------------------------------------------------- errors, limits */

TEST_F(refuse, errors)
{
	static const unsigned int bad[] = { 0, 6, 0xffffffff };
	struct cl *b = t_client();
	struct capkm_place place = t_place(OWNER);
	u_int64_t theirs;

	t_attach(b, self->a->domain);
	theirs = t_stream(b);
	t_record(self->a, OWNER);
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++)
		T_REFUSED(self->a, -EINVAL,
			  ask(self->a, OWNER, bad[i], NO_CLAIMS).rc);
	for (unsigned int what = READ; what <= ALLOCATE; what++) {
		if (what != WRITE)
			T_REFUSED(self->a, -EINVAL,
				  ask(self->a, OWNER, what, C({ self->x, 0, 1 })).rc);
		T_REFUSED(self->a, -EPERM, ask(self->a, theirs, what, NO_CLAIMS).rc);
		T_REFUSED(self->a, -ENOENT,
			  ask(self->a, theirs + 100, what, NO_CLAIMS).rc);
	}
	place.slot = 32;
	T_REFUSED(self->a, -EINVAL,
		  ask_at(self->a, place, CAPKM_PLACE_F_SLOT, READ, NO_CLAIMS).rc);
	/* Good claims before the bad one are not tainted. */
	T_REFUSED(self->a, -ENOENT,
		  ask(self->a, OWNER, WRITE, C({ self->x, 0, 10 }, { 999, 0, 1 })).rc);
	T_REFUSED(self->a, -EINVAL,
		  ask(self->a, OWNER, WRITE, C({ self->x, 0, 10 }, { self->y, 2, 1 })).rc);
	t_close(b);
}

/* At the limit of ranges nothing is tainted and nothing doomed. */
TEST(limit)
{
	struct cl *a = t_client();
	u_int64_t x, w, f;

	t_domain_limit(a, CAPKM_LIMIT_RANGES, 3);
	x = t_buffer(a, 100);
	w = t_record(a, OWNER);
	failed(a, NEIGHBOUR, WRITE, w, C({ x, 0, 10 }, { x, 20, 30 }));
	T_REFUSED(a, -ENOSPC,
		  ask(a, OWNER, WRITE, C({ x, 40, 50 }, { x, 60, 70 })).rc);
	/* What would have to be split needs room as well. */
	T_REFUSED(a, -ENOSPC, ask(a, OWNER, WRITE, C({ x, 5, 6 })).rc);
	ASSERT_EQ(-ENOSPC, ask(a, OWNER, WRITE, C({ x, 5, 6 })).rc);
	ASSERT_EQ(CAPKM_LIMIT_RANGES, a->limit);
	ASSERT_EQ(0, is_doomed(a, w));
	refused(a, OWNER, READ, w, CAPKM_WINDOW_CAPTURE, true);
	t_written(a, C({ x, 20, 30 }));
	f = failed(a, OWNER, WRITE, w, C({ x, 40, 50 }, { x, 60, 70 }));
	t_is_failed(a, x, 40, 50, f);
	ASSERT_EQ(f, first(a, w).failure);
	t_close(a);
	t_no_leaks();
}

/* No memory, at each allocation: nothing has happened. */
TEST_F(refuse, no_memory)
{
	u_int64_t w, f;

	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1;; n++) {
		struct asked asked;
		char *before;

		/* A session of its own each time: stocks are kept for a session. */
		t_close(self->a);
		self->a = t_client();
		t_domain(self->a);
		self->x = t_buffer(self->a, 100);
		t_taint(self->a, "before", C({ self->x, 0, 100 }));
		w = t_record(self->a, OWNER);
		t_write(self->a, OWNER, C({ self->x, 0, 30 }));
		before = t_dump(self->a);
		capkm_test_fail_alloc(n);
		asked = ask(self->a, OWNER, WRITE,
			    C({ self->x, 10, 20 }, { self->x, 25, 50 },
			      { self->x, 70, 80 }));
		capkm_test_fail_alloc(0);
		if (!asked.rc) {
			free(before);
			f = asked.failure;
			ASSERT_GT(n, 3);
			break;
		}
		ASSERT_EQ(-ENOMEM, asked.rc);
		t_unchanged(self->a, before);
		failed(self->a, OWNER, WRITE, w, C({ self->x, 10, 20 }));
	}
	t_is_failed(self->a, self->x, 70, 80, f);
	ASSERT_EQ(f, first(self->a, w).failure);
}

TEST(no_memory_hardware)
{
	struct asked x = { .rc = -ENOMEM };
	struct cl *a;
	u_int64_t w;

	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (unsigned int n = 1; x.rc; n++) {
		char *before;

		a = t_client();
		t_domain_backend(a, CAPKM_BACKEND_HARDWARE);
		w = record_with_driver(a, OWNER);
		before = t_dump(a);
		capkm_test_fail_alloc(n);
		x = ask(a, OWNER, ALLOCATE, NO_CLAIMS);
		capkm_test_fail_alloc(0);
		if (x.rc) {
			ASSERT_EQ(-ENOMEM, x.rc);
			t_unchanged(a, before);
		} else {
			free(before);
			ASSERT_EQ(1, is_doomed(a, w));
		}
		t_close(a);
	}
	t_no_leaks();
}

/* ----------------------------------------------------------------- library */

TEST_F(refuse, library)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_where at = { .stream = OWNER };
	struct capkm_claim bad[] = { { self->x, 0, 10 }, { self->x, 0, 101 } };
	struct capkm_report r;
	struct capkm_answer n = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	struct capkm *c = self->a->c;
	char text[512], want[64];
	u_int64_t w;

	ASSERT_EQ(0, capkm_refused(c, &at, WRITE, bad, 1, &n, &err));
	ASSERT_EQ(CAPKM_CLEAN, n.out_result);
	ASSERT_EQ(0, n.out_reports);
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, capkm_refused(c, &at, SYNC, NULL, 0, &n, NULL));
	ASSERT_EQ(CAPKM_REFUSED, n.out_result);
	ASSERT_EQ(1, n.out_reports);
	ASSERT_EQ(w, r.window);
	ASSERT_EQ(0, capkm_report_text(&r, NULL, 0, 0, text, sizeof(text)));
	snprintf(want, sizeof(want), "sync: refused while window %" PRIu64
		 " of stream 1 records: ", w);
	ASSERT_EQ(0, strncmp(text, want, strlen(want))) {
		TH_LOG("%s", text);
	}
	ASSERT_EQ(-EINVAL, capkm_refused(c, &at, WRITE, bad, 2, &n, &err));
	ASSERT_EQ(1, err.index);
	ASSERT_NE(NULL, strstr(err.text, "refuse: claims[1], buffer "));
	ASSERT_EQ(-EINVAL, capkm_refused(c, &at, 77, NULL, 0, &n, &err));
	ASSERT_EQ(CAPKM_NO_INDEX, err.index);
	ASSERT_NE(NULL, strstr(err.text, "refuse: what must be one of"));
	ASSERT_EQ(0, capkm_refused(c, &at, WRITE, bad, 1, &n, &err));
	ASSERT_EQ(CAPKM_REFUSED, n.out_result);
	t_is_failed(self->a, self->x, 0, 10, r.failure);
	ASSERT_EQ(0, capkm_refused(c, &at, READ, NULL, 0, NULL, NULL));
}

/* -------------------------------------------------- SCOPE_ENTER.out_window */

static struct capkm_scope_enter enter(struct cl *a, u_int64_t stream,
				      const struct capkm_claim *read,
				      const struct capkm_claim *write)
{
	struct capkm_scope_enter e = {
		.place = t_place(stream), .reads_uptr = t_ptr(read), .reads_len = !!read,
		.writes_uptr = t_ptr(write), .writes_len = !!write,
	};

	T_OK(a, SCOPE_ENTER, &e);
	if (e.out_scope)
		t_exit_(a, e.out_scope);
	return e;
}

TEST_F(refuse, window_of_a_scope)
{
	struct capkm_claim in = { self->x, 0, 10 }, out = { self->x, 20, 30 };
	struct capkm_scope_enter e;
	u_int64_t w, c, s;

	ASSERT_EQ(0, enter(self->a, OWNER, NULL, &out).out_window);
	w = t_prepare(self->a, OWNER);
	ASSERT_EQ(0, enter(self->a, OWNER, NULL, &out).out_window);
	t_begin(self->a, OWNER);
	t_join(self->a, w, MEMBER);
	ASSERT_EQ(w, enter(self->a, OWNER, &in, &out).out_window);
	ASSERT_EQ(w, enter(self->a, NEIGHBOUR, NULL, &out).out_window);
	ASSERT_EQ(w, enter(self->a, MEMBER, NULL, &out).out_window);
	ASSERT_EQ(0, enter(self->a, OTHER, NULL, NULL).out_window);
	/* A child; its parent is suspended. */
	c = t_record_child(self->a, CHILD, w);
	ASSERT_EQ(c, enter(self->a, CHILD, NULL, &out).out_window);
	e = enter(self->a, OWNER, NULL, &out);
	ASSERT_EQ(CAPKM_REFUSED, e.out_result);
	ASSERT_EQ(0, e.out_window);
	t_end(self->a, CHILD);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	/* In progress; tainted */
	s = t_enter(self->a, OTHER, NO_CLAIMS, &in, 1);
	e = enter(self->a, OWNER, &in, &out);
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.out_result);
	ASSERT_EQ(0, e.out_window);
	t_exit_failed(self->a, s, "failed");
	e = enter(self->a, OWNER, &in, &out);
	ASSERT_EQ(CAPKM_SKIPPED, e.out_result);
	ASSERT_EQ(0, e.out_window);
}

/* Also for who does not ask for a report. */
TEST_F(refuse, failure_of_a_scope)
{
	struct capkm_claim in = { self->x, 0, 10 }, out = { self->x, 20, 30 };
	struct capkm_scope_enter e;
	u_int64_t w, s, failure;

	ASSERT_EQ(0, enter(self->a, OWNER, &in, &out).out_failure);
	s = t_enter(self->a, OTHER, NO_CLAIMS, &in, 1);
	e = enter(self->a, OWNER, &in, &out);
	ASSERT_EQ(CAPKM_IN_PROGRESS, e.out_result);
	ASSERT_EQ(0, e.out_failure);
	failure = t_exit_failed(self->a, s, "failed");
	e = enter(self->a, OWNER, &in, &out);
	ASSERT_EQ(CAPKM_SKIPPED, e.out_result);
	ASSERT_EQ(failure, e.out_failure);
	t_is_failed(self->a, self->x, 20, 30, e.out_failure);
	w = t_record(self->a, OWNER);
	t_record_child(self->a, CHILD, w);
	e = enter(self->a, OWNER, NULL, &out);
	ASSERT_EQ(CAPKM_REFUSED, e.out_result);
	ASSERT_NE(0, e.out_failure);
	t_is_failed(self->a, self->x, 20, 30, e.out_failure);
}

TEST_F(refuse, window_of_a_library_scope)
{
	struct capkm_where at = { .stream = OWNER };
	struct capkm_claim out = { self->x, 0, 10 };
	struct capkm_scope s;
	u_int64_t w;

	ASSERT_EQ(0, capkm_scope_enter(self->a->c, &at, NULL, 0, &out, 1, NULL, &s, NULL,
				       NULL));
	ASSERT_EQ(0, s.window);
	ASSERT_EQ(0, capkm_scope_exit(self->a->c, &s, 0, NULL));
	w = t_record(self->a, OWNER);
	ASSERT_EQ(0, capkm_scope_enter(self->a->c, &at, NULL, 0, &out, 1, NULL, &s, NULL,
				       NULL));
	ASSERT_EQ(w, s.window);
	ASSERT_EQ(0, capkm_scope_exit(self->a->c, &s, 0, NULL));
}

/* ---------------------------------------- DOMAIN_QUERY: sealed, given up */

#define COUNTS(sealed, given_up) do {					\
	struct capkm_domain_query q_ = t_domain_query(self->a);		\
									\
	ASSERT_EQ(sealed, q_.out_sealed);				\
	ASSERT_EQ(given_up, q_.out_given_up);				\
	ASSERT_EQ(prepared, q_.out_sealed + q_.out_given_up + q_.out_windows); \
} while (0)

/* C29: each window counts once, when it is decided, and is there until then. */
TEST_F(refuse, counts)
{
	u_int64_t prepared = 0, w, c, g;
	struct cl *b = t_process();

	COUNTS(0, 0);
	w = (prepared++, t_prepare(self->a, OWNER));
	ASSERT_EQ(-EBUSY, t_try_prepare(self->a, OWNER).rc);
	COUNTS(0, 0);
	t_abort(self->a, OWNER);
	COUNTS(0, 1);
	w = (prepared++, t_record(self->a, OWNER));
	t_write(self->a, OWNER, C({ self->x, 0, 10 }));
	t_end(self->a, OWNER);
	COUNTS(0, 1);
	g = t_seal(self->a, w);
	COUNTS(1, 1);
	/* What becomes of a graph later is another matter. */
	w = (prepared++, t_record(self->a, OWNER));
	t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_CLEAN, t_try_update(self->a, g, w, 0).result);
	COUNTS(2, 1);
	w = (prepared++, t_record(self->a, OWNER));
	failed(self->a, OWNER, WRITE, w, C({ self->x, 0, 10 }));
	t_end(self->a, OWNER);
	ASSERT_EQ(CAPKM_REFUSED, t_try_update(self->a, g, w, 0).result);
	COUNTS(2, 2);
	w = (prepared++, t_record(self->a, OWNER));
	t_end(self->a, OWNER);
	t_refuse(self->a, w, "the driver");
	COUNTS(2, 3);
	/* Sealed, a child is a part of a graph; refused or aborted, it is not. */
	w = (prepared++, t_record(self->a, OWNER));
	c = (prepared++, t_record_child(self->a, CHILD, w));
	t_end(self->a, CHILD);
	ASSERT_EQ(CAPKM_CLEAN, t_try_seal(self->a, c, 0).result);
	COUNTS(3, 3);
	prepared++;
	t_record_child(self->a, CHILD, w);
	t_abort(self->a, OWNER);
	COUNTS(3, 5);
	/* Abandoned by another stream's end, by an administrator's call */
	w = (prepared++, t_record(self->a, OWNER));
	t_end(self->a, NEIGHBOUR);
	t_seal_refused(self->a, w);
	COUNTS(3, 6);
	w = (prepared++, t_record(self->a, OWNER));
	ASSERT_EQ(0, t_abandon(self->a, w));
	COUNTS(3, 7);
	/* With the stream that owns it */
	prepared++;
	t_record(self->a, OWNER);
	t_destroy_stream(self->a, OWNER);
	COUNTS(3, 8);
	/* A client ends: what was closing is decided, the rest are orphans. */
	t_attach(b, self->a->domain);
	w = (prepared++, t_record(b, OWNER));
	prepared++;
	t_record(b, OTHER);
	t_end(b, OTHER);
	t_kill(b);
	COUNTS(3, 9);
	ASSERT_EQ(1, t_domain_query(self->a).out_orphans);
	ASSERT_EQ(0, t_abandon(self->a, w));
	COUNTS(3, 10);
	t_graph_query(self->a, g, 0);
}

/* ------------------------------------------------- each byte, many times */

#define BYTES	24

/* What each byte carries, by the rules for work that does not overlap. */
struct model {
	u_int64_t failure[BYTES];	/* 0: clean */
	bool recorded[BYTES];		/* by the window that is open */
	u_int64_t window;		/* recording, or 0 */
	bool doomed;
};

static unsigned int seed;

static unsigned int pick(unsigned int n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 16) % n;
}

static void put(struct model *m, const struct capkm_claim *c, u_int64_t failure)
{
	for (u_int64_t i = c->start; i < c->end; i++) {
		m->failure[i] = failure;
		m->recorded[i] = false;
	}
}

/* It will never be a graph: nor will what it recorded be written. */
static void give_up(struct model *m, u_int64_t failure)
{
	for (unsigned int i = 0; i < BYTES; i++) {
		if (m->recorded[i])
			m->failure[i] = failure;
		m->recorded[i] = false;
	}
	m->window = 0;
}

static void close_model_window(struct cl *a, struct model *m)
{
	struct t_seal s;

	t_end(a, OWNER);
	s = t_try_seal(a, m->window, 0);
	if (s.rc || s.result != (m->doomed ? CAPKM_REFUSED : CAPKM_CLEAN))
		t_die("WINDOW_SEAL: %d, result %u, doomed %d", s.rc, s.result, m->doomed);
	if (m->doomed) {
		give_up(m, s.r[0].failure);
		return;
	}
	memset(m->recorded, 0, sizeof(m->recorded));
	m->window = 0;
	if (t_call(a, CAPKM_NR_GRAPH_DESTROY,
		   &(struct capkm_graph_destroy){ .graph = s.graph }))
		t_die("GRAPH_DESTROY");
}

/* The streams that ask: the owner, two on the window's slots, one elsewhere. */
static void refuse_write(struct cl *a, struct model *m, const struct capkm_claim *c)
{
	static const u_int64_t streams[] = { OWNER, NEIGHBOUR, MEMBER, OTHER };
	u_int64_t stream = streams[pick(4)];
	struct asked x = ask(a, stream, WRITE, c, 1);

	if (x.rc)
		t_die("write: %d", x.rc);
	if (!m->window || stream == OTHER) {
		if (x.result != CAPKM_CLEAN || x.failure)
			t_die("write of stream %" PRIu64 ": result %u", stream, x.result);
		return;
	}
	names_them(&x, WRITE, m->window, OWNER);
	if (!x.failure != (c->start == c->end && stream != OWNER))
		t_die("write of stream %" PRIu64 ": failure %" PRIu64, stream, x.failure);
	put(m, c, x.failure);
	m->doomed |= stream == OWNER;
}

static void step(struct cl *a, struct model *m, u_int64_t b)
{
	unsigned int start = pick(BYTES + 1);
	struct capkm_claim c = { b, start, start + pick(BYTES + 1 - start) };

	switch (pick(8)) {
	case 0:
		t_write(a, OTHER, &c, 1);
		put(m, &c, 0);
		break;
	case 1:
		if (c.start < c.end)
			put(m, &c, t_fail(a, OTHER, &c, 1, "elsewhere"));
		break;
	case 2:
		if (!m->window || c.start == c.end)
			break;
		put(m, &c, t_fail(a, MEMBER, &c, 1, "inside"));
		m->doomed = true;
		break;
	case 3:
		if (m->window) {
			close_model_window(a, m);
			break;
		}
		m->window = t_record(a, OWNER);
		m->doomed = false;
		t_join(a, m->window, MEMBER);
		break;
	case 4:
	case 5:
		t_write(a, pick(2) ? OWNER : MEMBER, &c, 1);
		if (!m->window)
			put(m, &c, 0);
		for (u_int64_t i = c.start; m->window && i < c.end; i++)
			m->recorded[i] = true;
		break;
	default:
		refuse_write(a, m, &c);
	}
}

TEST(each_byte)
{
	u_int64_t steps = t_param("CAPKM_REFUSE_STEPS", 20000, 400);

	for (int shared = 0; shared < 2; shared++) {
		struct cl *a = t_client();
		struct model m = { .window = 0 };
		u_int64_t b;

		t_domain(a);
		b = shared ? t_shared(a, BYTES) : t_buffer(a, BYTES);
		seed = 4711 + shared;
		for (u_int64_t n = 0; n < steps; n++) {
			step(a, &m, b);
			for (unsigned int i = 0; i < BYTES; i++) {
				if (m.failure[i])
					t_is_failed(a, b, i, i + 1, m.failure[i]);
				else
					t_is_clean(a, b, i, i + 1);
			}
			if (m.window && is_doomed(a, m.window) != m.doomed)
				t_die("step %" PRIu64 ": doomed", n);
		}
		t_close(a);
	}
	t_no_leaks();
}

TEST_HARNESS_MAIN
