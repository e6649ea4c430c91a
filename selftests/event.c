// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events that a session reads, and waiting for a window. Nothing here depends on
 * how long anything takes: who waits is woken by what the test does next.
 */
#include <poll.h>
#include <pthread.h>

#include "capkm_test.h"

#define GPU	T_GPU(1)
#define SHORT	1000000ull	/* nanoseconds, of a wait that must time out */

#define T_EVENTS 32
struct t_events {
	int rc;
	unsigned int n;
	struct capkm_event e[T_EVENTS];
};

/* In the client's process: up to @want events that are there. */
struct read_arg {
	unsigned int want, got;
	int timeout_ms;
	struct capkm_event e[2];
};

static int read_fn(struct capkm *c, void *arg)
{
	struct read_arg *a = arg;

	return capkm_events_read(c, a->e, a->want, a->timeout_ms, &a->got, NULL);
}

/* All that are there; no more than 64. */
static struct t_events read_events(struct cl *cl)
{
	struct t_events ev = { 0 };
	struct read_arg a = { .want = 2 };

	while (ev.n + 2 <= T_EVENTS) {
		ev.rc = t_run(cl, read_fn, &a, sizeof(a));
		if (ev.rc || !a.got)
			break;
		memcpy(&ev.e[ev.n], a.e, a.got * sizeof(a.e[0]));
		ev.n += a.got;
	}
	if (ev.rc == -ETIMEDOUT)
		ev.rc = 0;
	for (unsigned int i = 0; i < ev.n; i++)
		if (ev.e[i].size != sizeof(ev.e[i]) || (i && ev.e[i].number <=
							ev.e[i - 1].number))
			t_die("event %u: size %u, number %llu", i, ev.e[i].size,
			      ev.e[i].number);
	return ev;
}

/* The types of what is there are exactly these. */
#define EVENTS_ARE(cl, ...) (T_AT, events_are(cl,			\
	(const unsigned int[]){ __VA_ARGS__ },				\
	sizeof((const unsigned int[]){ __VA_ARGS__ }) / sizeof(unsigned int)))
static struct t_events events_are(struct cl *cl, const unsigned int *types, size_t n)
{
	struct t_events ev = read_events(cl);
	bool same = !ev.rc && ev.n == n;

	for (size_t i = 0; same && i < n; i++)
		same = ev.e[i].type == types[i];
	if (same)
		return ev;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "# expected type %u\n", types[i]);
	for (size_t i = 0; i < ev.n; i++)
		fprintf(stderr, "# found    type %u, window %llu, failure %llu\n",
			ev.e[i].type, ev.e[i].window, ev.e[i].failure);
	t_die("other events, result %d", ev.rc);
}

FIXTURE(event)
{
	struct cl *a, *b;
	u_int64_t x;
};

FIXTURE_SETUP(event)
{
	self->a = t_process();
	self->b = t_client();
	t_domain(self->b);
	t_attach(self->a, self->b->domain);
	self->x = t_shared(self->a, 100);
	t_open(self->b, self->x);
	read_events(self->b);
}

FIXTURE_TEARDOWN(event)
{
	if (self->a)
		t_close(self->a);
	t_close(self->b);
	t_no_leaks();
}

/* ------------------------------------------------------------------ events */

/* The life of a window */
TEST_F(event, windows)
{
	u_int64_t w = t_prepare(self->a, GPU | 3), g;
	struct t_events ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED);

	ASSERT_EQ(w, ev.e[0].window);
	ASSERT_EQ(3, ev.e[0].stream);
	ASSERT_EQ(self->a->session, ev.e[0].session);
	ASSERT_EQ(t_pid(self->a), ev.e[0].pid);
	ASSERT_EQ(1, ev.e[0].device[0]);
	ASSERT_EQ(0, ev.e[0].lost);
	ASSERT_NE(0, ev.e[0].time_ns);
	ASSERT_NE(0, ev.e[0].sequence);
	ASSERT_EQ(0, ev.e[0].graph);
	ASSERT_EQ(0, ev.e[0].failure);
	t_begin(self->a, GPU | 3);
	t_end(self->a, GPU | 3);
	g = t_seal(self->a, w);
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_BEGUN, CAPKM_EVENT_WINDOW_SEALED);
	ASSERT_EQ(g, ev.e[1].graph);
	ASSERT_EQ(w, ev.e[1].window);
	/* Doomed once, then refused */
	w = t_record(self->a, 1);
	t_window_fail(self->a, w, 1, 5, "op", "first");
	t_window_fail(self->a, w, 1, 5, "op", "second");
	t_end(self->a, 1);
	t_seal_refused(self->a, w);
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN,
			CAPKM_EVENT_WINDOW_DOOMED, CAPKM_EVENT_WINDOW_REFUSED);
	ASSERT_NE(0, ev.e[2].failure);
	ASSERT_EQ(CAPKM_KIND_DRIVER, ev.e[2].kind);
	ASSERT_EQ(CAPKM_KIND_REFUSED, ev.e[3].kind);
	w = t_record(self->a, 1);
	t_abort(self->a, 1);
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN,
			CAPKM_EVENT_WINDOW_DOOMED, CAPKM_EVENT_WINDOW_REFUSED);
	ASSERT_EQ(CAPKM_KIND_ABORTED, ev.e[3].kind);
	w = t_record(self->a, 1);
	ASSERT_EQ(0, t_abandon(self->a, w));
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN,
			CAPKM_EVENT_WINDOW_DOOMED, CAPKM_EVENT_WINDOW_ABANDONED);
	ASSERT_EQ(w, ev.e[3].window);
}

/* A child that is sealed is a part of its parent. */
TEST_F(event, child)
{
	u_int64_t w = t_record(self->a, 1), c = t_record_child(self->a, 2, w);
	struct t_events ev;

	t_end(self->a, 2);
	t_try_seal(self->a, c, 0);
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN,
			CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN,
			CAPKM_EVENT_WINDOW_SEALED);
	ASSERT_EQ(c, ev.e[4].window);
	ASSERT_EQ(0, ev.e[4].graph);
}

/* Clients come and go; a client that tears something says how much. */
TEST_F(event, clients)
{
	struct cl *c = t_join_session(self->a);
	struct t_events ev = EVENTS_ARE(self->b, CAPKM_EVENT_CLIENT_JOINED);
	unsigned int ended = 0, orphaned = 0;
	int pid = t_pid(c);

	ASSERT_EQ(self->a->session, ev.e[0].session);
	ASSERT_EQ(pid, ev.e[0].pid);
	t_record(c, 1);
	t_enter(c, 2, NO_CLAIMS, C({ self->x, 0, 10 }));
	t_enter(c, 2, NO_CLAIMS, C({ self->x, 20, 30 }));
	read_events(self->b);
	t_kill(c);
	ev = read_events(self->b);
	for (unsigned int i = 0; i < ev.n; i++) {
		if (ev.e[i].type == CAPKM_EVENT_CLIENT_ENDED) {
			ended++;
			ASSERT_EQ(2, ev.e[i].count);
			ASSERT_EQ(self->a->session, ev.e[i].session);
		}
		orphaned += ev.e[i].type == CAPKM_EVENT_WINDOW_ORPHANED;
	}
	ASSERT_EQ(1, ended);
	ASSERT_EQ(1, orphaned);
}

/* Health */
TEST_F(event, faults)
{
	u_int64_t f = t_fault(self->a, GPU | 1, "lost");
	struct t_events ev;

	t_fault(self->a, GPU | 1, "still");
	t_renew(self->a, GPU);
	t_renew(self->a, GPU);
	ev = EVENTS_ARE(self->b, CAPKM_EVENT_DEVICE_FAULTED, CAPKM_EVENT_CONTEXT_RENEWED);
	ASSERT_EQ(f, ev.e[0].failure);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, ev.e[0].kind);
	ASSERT_EQ(1, ev.e[0].device[0]);
	ASSERT_EQ(self->a->session, ev.e[0].session);
	ASSERT_EQ(1, ev.e[1].device[0]);
}

/* Each session reads all, each event once, from when it was attached. */
TEST_F(event, each_session)
{
	struct cl *late;
	struct t_events ev;

	read_events(self->a);
	t_prepare(self->a, 1);
	late = t_client();
	t_attach(late, self->b->domain);
	t_begin(self->a, 1);
	EVENTS_ARE(self->b, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN);
	ASSERT_EQ(0, read_events(self->b).n);
	EVENTS_ARE(self->a, CAPKM_EVENT_WINDOW_PREPARED, CAPKM_EVENT_WINDOW_BEGUN);
	ev = EVENTS_ARE(late, CAPKM_EVENT_WINDOW_BEGUN);
	ASSERT_EQ(0, ev.e[0].lost);
	t_close(late);
}

/* Failures, for who asked for them */
TEST(failures)
{
	struct cl *a = t_client(), *b = t_client();
	struct capkm_domain_create d = { .flags = CAPKM_DOMAIN_CREATE_F_FAILURE_EVENTS };
	u_int64_t x, f;
	struct t_events ev;

	T_OK(a, DOMAIN_CREATE, &d);
	t_attach(b, d.out_domain);
	x = t_shared(a, 10);
	f = t_fail(a, 1, C({ x, 0, 10 }), "minted");
	t_write(a, 1, C({ x, 0, 10 }));
	ev = EVENTS_ARE(a, CAPKM_EVENT_FAILURE_MINTED, CAPKM_EVENT_FAILURE_PRUNED);
	ASSERT_EQ(f, ev.e[0].failure);
	ASSERT_EQ(f, ev.e[1].failure);
	ASSERT_EQ(CAPKM_KIND_LAUNCH, ev.e[0].kind);
	ASSERT_EQ(1, ev.e[0].stream);
	ASSERT_EQ(0, read_events(b).n);
	/* That others did not get them is no loss. */
	t_prepare(a, 1);
	ev = EVENTS_ARE(b, CAPKM_EVENT_WINDOW_PREPARED);
	ASSERT_EQ(0, ev.e[0].lost);
	t_close(b);
	{
		struct capkm_domain_attach at = {
			.domain = d.out_domain,
			.flags = CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS,
		};

		b = t_client();
		T_OK(b, DOMAIN_ATTACH, &at);
	}
	t_fail(a, 1, C({ x, 0, 10 }), "minted");
	EVENTS_ARE(b, CAPKM_EVENT_FAILURE_MINTED);
	t_close(b);
	t_close(a);
	t_no_leaks();
}

/* Who does not read loses the oldest, and hears how many. */
TEST(lost)
{
	struct cl *a = t_client(), *b = t_client();
	struct t_events ev;
	u_int64_t number;

	t_domain_limit(a, CAPKM_LIMIT_EVENTS, 4);
	t_attach(b, a->domain);
	t_prepare(a, 1);
	ev = read_events(b);
	number = ev.e[ev.n - 1].number;
	for (int i = 2; i < 9; i++)
		t_prepare(a, i);
	ev = read_events(b);
	ASSERT_EQ(4, ev.n);
	ASSERT_EQ(3, ev.e[0].lost);
	ASSERT_EQ(number + 4, ev.e[0].number);
	for (int i = 1; i < 4; i++) {
		ASSERT_EQ(0, ev.e[i].lost);
		ASSERT_EQ(number + 4 + i, ev.e[i].number);
	}
	t_prepare(a, 9);
	ev = read_events(b);
	ASSERT_EQ(1, ev.n);
	ASSERT_EQ(0, ev.e[0].lost);
	t_close(b);
	t_close(a);
	t_no_leaks();
}

TEST(errors)
{
	struct cl *a = t_client(), *root = t_client();
	struct capkm_domain_destroy d = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };
	struct read_arg r = { .want = 1 };

	ASSERT_EQ(-ENOTCONN, t_run(a, read_fn, &r, sizeof(r)));
	d.domain = t_domain(a);
	read_events(a);
	ASSERT_EQ(-ETIMEDOUT, t_run(a, read_fn, &r, sizeof(r)));
	T_OK(root, DOMAIN_DESTROY, &d);
	r.timeout_ms = -1;
	r.got = 77;
	ASSERT_EQ(0, t_run(a, read_fn, &r, sizeof(r)));
	ASSERT_EQ(0, r.got);
	t_close(root);
	t_close(a);
	t_no_leaks();
}

struct waiter {
	struct cl *cl;
	pthread_t thread;
	u_int64_t window, stream;
	struct t_wait w;
	struct read_arg r;
	int rc;
};

static void *reads(void *arg)
{
	struct waiter *w = arg;

	w->r.want = 1;
	w->r.timeout_ms = -1;
	w->rc = capkm_events_read(w->cl->c, w->r.e, 1, -1, &w->r.got, NULL);
	return NULL;
}

/* A reader that waits gets the event that comes, or the end of the domain. */
TEST_F(event, reader_waits)
{
	struct waiter w = { .cl = self->b };
	struct capkm_domain_destroy d = {
		.domain = self->b->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};
	struct cl *root = t_client();

	ASSERT_EQ(0, pthread_create(&w.thread, NULL, reads, &w));
	t_prepare(self->a, 1);
	pthread_join(w.thread, NULL);
	ASSERT_EQ(0, w.rc);
	ASSERT_EQ(1, w.r.got);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, w.r.e[0].type);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, reads, &w));
	T_OK(root, DOMAIN_DESTROY, &d);
	pthread_join(w.thread, NULL);
	ASSERT_EQ(0, w.rc);
	ASSERT_EQ(0, w.r.got);
	t_close(root);
}

/* read() and poll() themselves */
TEST_F(event, descriptor)
{
	void *volatile nowhere = (void *)8;
	struct capkm_event e[4];
	struct pollfd p = { .events = POLLIN };
	struct cl *root, *u;
	struct capkm_domain_destroy d = {
		.domain = self->b->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};

	if (t_embedded())
		SKIP(return, "needs a descriptor");
	p.fd = capkm_fd(self->b->c);
	ASSERT_EQ(0, fcntl(p.fd, F_SETFL, O_NONBLOCK));
	ASSERT_EQ(0, poll(&p, 1, 0));
	ASSERT_EQ(-1, read(p.fd, e, sizeof(e)));
	ASSERT_EQ(EAGAIN, errno);
	t_prepare(self->a, 1);
	t_prepare(self->a, 2);
	ASSERT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(POLLIN, p.revents);
	/* Whole events only */
	ASSERT_EQ(-1, read(p.fd, e, sizeof(e[0]) - 1));
	ASSERT_EQ(EINVAL, errno);
	/* Nothing is lost by a bad place. */
	ASSERT_EQ(-1, read(p.fd, nowhere, sizeof(e)));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ(sizeof(e[0]), read(p.fd, e, 2 * sizeof(e[0]) - 1));
	ASSERT_EQ(sizeof(e[0]), read(p.fd, e, sizeof(e)));
	ASSERT_EQ(0, poll(&p, 1, 0));
	root = t_client();
	u = t_client();
	ASSERT_EQ(-1, read(capkm_fd(u->c), e, sizeof(e)));
	ASSERT_EQ(ENOTCONN, errno);
	T_OK(root, DOMAIN_DESTROY, &d);
	ASSERT_EQ(1, poll(&p, 1, 0));
	ASSERT_EQ(POLLHUP, p.revents & POLLHUP);
	ASSERT_EQ(0, read(p.fd, e, sizeof(e)));
	t_close(u);
	t_close(root);
}

/* ------------------------------------------------------------- WINDOW_WAIT */

/* What has left its slot is not waited for. */
TEST_F(event, wait_for_nothing)
{
	u_int64_t w = t_record(self->a, 1), w2;
	struct t_wait t;

	t_end(self->a, 1);
	t = t_wait(self->b, w, 0, UINT64_MAX);
	ASSERT_EQ(0, t.rc);
	ASSERT_EQ(w, t.window);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, t.state);
	ASSERT_EQ(0, t.kind);
	t_seal(self->a, w);
	t = t_wait(self->b, w, 0, UINT64_MAX);
	ASSERT_EQ(CAPKM_WINDOW_SEALED, t.state);
	ASSERT_EQ(0, t.kind);
	w2 = t_record(self->a, 1);
	t_abort(self->a, 1);
	t = t_wait(self->b, w2, 0, UINT64_MAX);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, t.state);
	ASSERT_EQ(CAPKM_KIND_ABORTED, t.kind);
	/* By the slot: it has none. */
	t = t_wait(self->a, 0, 1, UINT64_MAX);
	ASSERT_EQ(0, t.rc);
	ASSERT_EQ(0, t.window);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t.state);
	t = t_wait(self->a, 0, T_GPU(9), UINT64_MAX);
	ASSERT_EQ(CAPKM_WINDOW_NONE, t.state);
}

TEST_F(event, wait_bad)
{
	u_int64_t w = t_prepare(self->a, 1), s = t_stream(self->a);
	struct capkm_window_wait a = {
		.window = w, .place.stream = 1, .timeout_ns = SHORT,
	};

	T_REFUSED(self->a, -ENOENT, t_wait(self->a, w + 1000, 0, SHORT).rc);
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WINDOW_WAIT, &a));
	a.place.stream = 0;
	a.flags = CAPKM_PLACE_F_SLOT;
	T_REFUSED(self->a, -EINVAL, t_call(self->a, CAPKM_NR_WINDOW_WAIT, &a));
	T_REFUSED(self->a, -EPERM, t_wait(self->b, 0, s, SHORT).rc);
	/* Time is over: at once, or a little later */
	T_REFUSED(self->a, -ETIMEDOUT, t_wait(self->b, w, 0, 0).rc);
	T_REFUSED(self->a, -ETIMEDOUT, t_wait(self->b, w, 0, SHORT).rc);
	T_REFUSED(self->a, -ETIMEDOUT, t_wait(self->a, 0, 1, SHORT).rc);
	/* By id also for who is no client, by the slot not */
	{
		struct cl *c = t_second(self->a);

		ASSERT_EQ(-ETIMEDOUT, t_wait(c, w, 0, SHORT).rc);
		ASSERT_EQ(-EPERM, t_wait(c, 0, 1, SHORT).rc);
		t_close(c);
	}
}

/* Whatever its state, a window whose device has faulted is not waited for. */
TEST_F(event, wait_for_faulted)
{
	u_int64_t prepared = t_prepare(self->a, GPU | 1), w = t_record(self->a, GPU | 2);
	struct t_wait t;

	t_fault(self->a, GPU | 3, "lost");
	t = t_wait(self->b, w, 0, SHORT);
	ASSERT_EQ(0, t.rc);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t.state);
	ASSERT_EQ(CAPKM_KIND_DEVICE_FAULT, t.kind);
	t = t_wait(self->b, prepared, 0, SHORT);
	ASSERT_EQ(0, t.rc);
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, t.state);
}

/* Also when other failures came before and after it */
TEST_F(event, wait_for_faulted_between)
{
	u_int64_t w = t_record(self->a, GPU | 2);
	struct t_wait t;

	t_window_fail(self->a, w, 1, 1, "op", "before");
	t_fault(self->a, GPU | 3, "lost");
	t_window_fail(self->a, w, 1, 1, "op", "after");
	t = t_wait(self->b, w, 0, SHORT);
	ASSERT_EQ(0, t.rc);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t.state);
}

static void *waits(void *arg)
{
	struct waiter *w = arg;

	w->w = t_wait(w->cl, w->window, w->stream, UINT64_MAX);
	return NULL;
}

/* However the window goes, who waits is woken with what it has become. */
TEST_F(event, woken)
{
	static const struct {
		unsigned int state, kind;
	} ends[] = {
		{ CAPKM_WINDOW_CLOSING, 0 },
		{ CAPKM_WINDOW_REFUSED, CAPKM_KIND_ABORTED },
		{ CAPKM_WINDOW_REFUSED, CAPKM_KIND_ABANDONED },
		{ CAPKM_WINDOW_CAPTURE, CAPKM_KIND_DEVICE_FAULT },
		{ CAPKM_WINDOW_ORPHANED, CAPKM_KIND_OWNER_DIED },
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(ends); i++) {
		struct cl *waits_for = t_client();
		struct waiter w = { .cl = waits_for };

		t_attach(waits_for, self->b->domain);
		w.window = t_record(self->a, GPU | 1);
		ASSERT_EQ(0, pthread_create(&w.thread, NULL, waits, &w));
		switch (i) {
		case 0:
			t_end(self->a, GPU | 1);
			break;
		case 1:
			t_abort(self->a, GPU | 1);
			break;
		case 2:
			ASSERT_EQ(0, t_abandon(self->a, w.window));
			break;
		case 3:
			t_fault(self->a, GPU | 2, "lost");
			break;
		case 4:
			t_kill(self->a);
			self->a = NULL;
			break;
		}
		pthread_join(w.thread, NULL);
		ASSERT_EQ(0, w.w.rc);
		ASSERT_EQ(w.window, w.w.window);
		ASSERT_EQ(ends[i].state, w.w.state) {
			TH_LOG("end %u", i);
		}
		ASSERT_EQ(ends[i].kind, w.w.kind) {
			TH_LOG("end %u", i);
		}
		if (i == 0)
			t_seal(self->a, w.window);
		if (i == 3) {
			t_abort(self->a, GPU | 1);
			t_renew(self->a, GPU);
		}
		if (i == 4)
			ASSERT_EQ(0, t_abandon(self->b, w.window));
		t_close(waits_for);
	}
}

/* The window of one's own slot; it is not the one that is prepared next. */
TEST_F(event, woken_by_slot)
{
	struct waiter w = { .cl = self->b, .stream = 1 };
	u_int64_t id = t_record(self->b, 1);

	ASSERT_EQ(0, pthread_create(&w.thread, NULL, waits, &w));
	/* It may look before or after this: then the slot has none. */
	t_end(self->b, 1);
	pthread_join(w.thread, NULL);
	ASSERT_EQ(0, w.w.rc);
	ASSERT_TRUE(w.w.window == id || !w.w.window);
	t_seal(self->b, id);
}

/* The domain is destroyed under who waits. */
TEST(woken_by_destroy)
{
	struct cl *a = t_client(), *b = t_client(), *root = t_client();
	struct waiter w = { .cl = b };
	struct capkm_domain_destroy d = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };

	d.domain = t_domain(a);
	t_attach(b, d.domain);
	w.window = t_prepare(a, 1);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, waits, &w));
	T_OK(root, DOMAIN_DESTROY, &d);
	pthread_join(w.thread, NULL);
	ASSERT_EQ(-ECANCELED, w.w.rc);
	t_close(root);
	t_close(b);
	t_close(a);
	t_no_leaks();
}

static void nothing(int sig)
{
}

static void *waits_raw(void *arg)
{
	struct waiter *w = arg;
	struct capkm_window_wait a = {
		.size = sizeof(a), .window = w->window,
		.timeout_ns = 3600ull * 1000000000,
	};

	w->rc = t_ioctl(capkm_fd(w->cl->c), CAPKM_NR_WINDOW_WAIT, &a);
	w->w.left = a.timeout_ns;
	__atomic_store_n(&w->stream, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A signal ends the wait, and says how much of it is left. */
TEST_F(event, signal)
{
	struct waiter w = { .cl = self->b };
	struct sigaction sa = { .sa_handler = nothing };

	if (t_embedded())
		SKIP(return, "needs a kernel");
	sigaction(SIGUSR1, &sa, NULL);
	w.window = t_prepare(self->a, 1);
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, waits_raw, &w));
	/* Again and again: the first may come before it waits. */
	while (!__atomic_load_n(&w.stream, __ATOMIC_SEQ_CST)) {
		pthread_kill(w.thread, SIGUSR1);
		usleep(1000);
	}
	pthread_join(w.thread, NULL);
	ASSERT_EQ(-EINTR, w.rc);
	ASSERT_GT(w.w.left, 0);
	ASSERT_LE(w.w.left, 3600ull * 1000000000);
}

TEST_HARNESS_MAIN
