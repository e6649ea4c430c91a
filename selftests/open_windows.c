// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who captures: the open windows of a domain, of a stream, a session, a process, a thread
 * or a device, and how many are active and record (CW-39, C10). Asking changes nothing (C18).
 */
#include "capkm_test.h"

#include <pthread.h>
#include <sys/syscall.h>

#define ROOM	8

FIXTURE(open)
{
	struct cl *a, *b;
};

FIXTURE_SETUP(open)
{
	self->a = t_client();
	self->b = t_client();
	t_domain_mode(self->a, 0644);
	t_attach(self->b, self->a->domain);
}

FIXTURE_TEARDOWN(open)
{
	t_close(self->b);
	t_close(self->a);
	t_no_leaks();
}

struct listed {
	struct capkm_window_list a;
	struct capkm_open_window w[ROOM];
};

#define t_list(cl, ...) (T_AT, t_list_(cl, (struct capkm_window_list){ __VA_ARGS__ }))
static struct listed t_list_(struct cl *cl, struct capkm_window_list a)
{
	struct listed l = { .a = a };

	memset(l.w, 0xcc, sizeof(l.w));
	l.a.windows_uptr = t_ptr(l.w);
	l.a.windows_len = ROOM;
	T_OK(cl, WINDOW_LIST, &l.a);
	return l;
}

static int try_list(struct cl *cl, struct capkm_window_list a)
{
	return t_call(cl, CAPKM_NR_WINDOW_LIST, &a);
}

#define REFUSES(cl, ...) \
	ASSERT_EQ(-EINVAL, try_list(cl, (struct capkm_window_list){ __VA_ARGS__ }))

#define COUNTS(l, open, active, recording) do {		\
	ASSERT_EQ(open, (l).a.out_open);		\
	ASSERT_EQ(active, (l).a.out_active);		\
	ASSERT_EQ(recording, (l).a.out_recording);	\
} while (0)

/* The thread that makes the calls of a client. */
static unsigned int tid_of(const struct cl *cl)
{
	return cl->pid ? (unsigned int)cl->pid : (unsigned int)syscall(SYS_gettid);
}

/* CW-39: each step of a window's life, and calls that match nothing. */
TEST_F(open, counts)
{
	struct listed l = t_list(self->b);
	u_int64_t w;

	COUNTS(l, 0, 0, 0);
	ASSERT_EQ(0, l.a.out_windows);
	/* Neither an end nor a begin without a prepare counts. */
	T_REFUSED(self->a, -EINVAL, t_try_begin(self->a, 1, 0).rc);
	T_REFUSED(self->a, -EINVAL, t_try_end(self->a, 1, 0).rc);
	l = t_list(self->b);
	COUNTS(l, 0, 0, 0);
	w = t_prepare(self->a, 1);
	l = t_list(self->b);
	COUNTS(l, 1, 1, 0);
	ASSERT_EQ(CAPKM_WINDOW_PREPARE, l.w[0].state);
	ASSERT_EQ(0, l.w[0].begun_ns);
	t_begin(self->a, 1);
	l = t_list(self->b);
	COUNTS(l, 1, 1, 1);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, l.w[0].state);
	ASSERT_NE(0, l.w[0].begun_ns);
	t_end(self->a, 1);
	l = t_list(self->b);
	COUNTS(l, 1, 0, 0);
	ASSERT_EQ(CAPKM_WINDOW_CLOSING, l.w[0].state);
	t_seal(self->a, w);
	l = t_list(self->b);
	COUNTS(l, 0, 0, 0);
	t_prepare(self->a, 1);
	t_abort(self->a, 1);
	t_abort(self->a, 1);
	l = t_list(self->b);
	COUNTS(l, 0, 0, 0);
}

/* C10: each filter finds what it is to find, and several must all be met. */
TEST_F(open, filters)
{
	const u_int64_t device = T_GPU(1);
	const unsigned int pid = t_pid(self->a), tid = tid_of(self->a);
	u_int64_t w1 = t_record(self->a, 1), w2 = t_prepare(self->a, device | 2);
	struct t_window q = t_window(self->b, w1);
	struct listed l;

	t_join(self->a, w1, 4);
	l = t_list(self->b);
	COUNTS(l, 2, 2, 1);
	ASSERT_EQ(2, l.a.out_windows);
	ASSERT_EQ(w1, l.w[0].window);
	ASSERT_EQ(1, l.w[0].owner);
	ASSERT_EQ(q.q.out_session, l.w[0].session);
	ASSERT_EQ(q.q.out_begun_ns, l.w[0].begun_ns);
	ASSERT_EQ(1, l.w[0].slot);
	ASSERT_EQ(1, l.w[0].members);
	ASSERT_EQ(0, l.w[0].doomed);
	ASSERT_EQ(pid, l.w[0].pid);
	ASSERT_EQ(tid, l.w[0].tid);
	ASSERT_EQ(0, memcmp(q.q.out_comm, l.w[0].comm, sizeof(l.w[0].comm)));
	ASSERT_EQ(w2, l.w[1].window);
	ASSERT_EQ(1, l.w[1].device[0]);
	for (int i = 2; i < ROOM; i++)
		ASSERT_EQ(0xcccccccc, l.w[i].slot);

#define FINDS(which, ...) do {						\
	l = t_list(self->b, __VA_ARGS__);				\
	ASSERT_EQ(1, l.a.out_windows);					\
	ASSERT_EQ(1, l.a.out_open);					\
	ASSERT_EQ(which, l.w[0].window);				\
} while (0)
#define FINDS_NONE(...) do {						\
	l = t_list(self->b, __VA_ARGS__);				\
	ASSERT_EQ(0, l.a.out_windows);					\
	COUNTS(l, 0, 0, 0);						\
} while (0)
	FINDS(w1, .flags = CAPKM_WINDOW_LIST_F_STREAM, .stream = 1);
	FINDS(w1, .flags = CAPKM_WINDOW_LIST_F_STREAM, .stream = 4);
	FINDS(w2, .flags = CAPKM_WINDOW_LIST_F_STREAM, .stream = 2);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_STREAM, .stream = 3);
	FINDS(w1, .flags = CAPKM_WINDOW_LIST_F_DEVICE);
	FINDS(w2, .flags = CAPKM_WINDOW_LIST_F_DEVICE, .device[0] = 1);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_DEVICE, .device[0] = 2);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_SESSION, .session = l.a.session + 1000000);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_PROCESS, .pid = 0x7fffffff);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_THREAD, .tid = 0x7fffffff);
	FINDS(w2, .flags = CAPKM_WINDOW_LIST_F_PROCESS | CAPKM_WINDOW_LIST_F_THREAD |
	      CAPKM_WINDOW_LIST_F_SESSION | CAPKM_WINDOW_LIST_F_DEVICE |
	      CAPKM_WINDOW_LIST_F_STREAM, .pid = pid, .tid = tid,
	      .session = q.q.out_session, .device[0] = 1, .stream = 2);
	FINDS_NONE(.flags = CAPKM_WINDOW_LIST_F_PROCESS | CAPKM_WINDOW_LIST_F_STREAM,
		   .pid = pid, .stream = 3);
	l = t_list(self->b, .flags = CAPKM_WINDOW_LIST_F_SESSION, .session = q.q.out_session);
	COUNTS(l, 2, 2, 1);
	l = t_list(self->b, .flags = CAPKM_WINDOW_LIST_F_PROCESS | CAPKM_WINDOW_LIST_F_THREAD,
		   .pid = pid, .tid = tid);
	COUNTS(l, 2, 2, 1);
}

/* A filter without its flag, and a flag without its filter. */
TEST_F(open, refused)
{
	REFUSES(self->a, .stream = 1);
	REFUSES(self->a, .session = 1);
	REFUSES(self->a, .pid = 1);
	REFUSES(self->a, .tid = 1);
	REFUSES(self->a, .device[15] = 1);
	REFUSES(self->a, .flags = CAPKM_WINDOW_LIST_F_STREAM);
	REFUSES(self->a, .flags = CAPKM_WINDOW_LIST_F_SESSION);
	REFUSES(self->a, .flags = CAPKM_WINDOW_LIST_F_PROCESS);
	REFUSES(self->a, .flags = CAPKM_WINDOW_LIST_F_THREAD);
}

/* An array that is too short: the counts are of all, and the list goes on. */
TEST_F(open, goes_on)
{
	u_int64_t w[20], after = 0;
	unsigned int n = 0;
	struct listed l;

	for (int i = 0; i < 20; i++)
		w[i] = t_prepare(self->a, i + 1);
	for (;;) {
		l = t_list(self->b, .after = after);
		COUNTS(l, 20, 20, 0);
		for (unsigned int i = 0; i < l.a.out_windows; i++)
			ASSERT_EQ(w[n++], l.w[i].window);
		if (l.a.out_windows < ROOM)
			break;
		after = l.w[ROOM - 1].window;
	}
	ASSERT_EQ(20, n);
	/* Without room it only counts. */
	l.a = (struct capkm_window_list){ 0 };
	T_OK(self->b, WINDOW_LIST, &l.a);
	COUNTS(l, 20, 20, 0);
	ASSERT_EQ(0, l.a.out_windows);
}

/* The window of a process that has died is still there, and says whose it was. */
TEST_F(open, orphan)
{
	struct cl *p = t_process();
	u_int64_t w;
	struct listed l;

	t_attach(p, self->a->domain);
	w = t_record(p, t_stream(p));
	t_kill(p);
	l = t_list(self->a);
	COUNTS(l, 1, 0, 0);
	ASSERT_EQ(w, l.w[0].window);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, l.w[0].state);
	ASSERT_NE(0, l.w[0].comm[0]);
	t_abandon(self->a, w);
	l = t_list(self->a);
	COUNTS(l, 0, 0, 0);
}

struct asker {
	struct capkm *c;
	unsigned int tid;
	uint64_t stream;
	_Atomic int step;
};

/* Begins what another thread has prepared. */
static void *begin_there(void *arg)
{
	struct asker *k = arg;

	k->tid = (unsigned int)syscall(SYS_gettid);
	capkm_stream_pin(k->stream);
	if (capkm_window_begin(k->c, NULL, 0, NULL, NULL))
		t_die("begin");
	return NULL;
}

/* C10: it is the thread that has begun it, when that is another one than who prepared. */
TEST_F(open, begun_by_another_thread)
{
	struct capkm_open_window w;
	struct capkm_window_list list = {
		.size = sizeof(list), .windows_uptr = t_ptr(&w), .windows_len = 1,
		.flags = CAPKM_WINDOW_LIST_F_PROCESS | CAPKM_WINDOW_LIST_F_THREAD,
		.pid = (unsigned int)getpid(), .tid = (unsigned int)syscall(SYS_gettid),
	};
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	struct asker k = { 0 };
	pthread_t thread;

	ASSERT_EQ(0, capkm_open(t_transport(), NULL, &k.c, &e)) TH_LOG("%s", e.text);
	ASSERT_EQ(0, capkm_domain_open(k.c, "open_windows", NULL, &e)) TH_LOG("%s", e.text);
	k.stream = capkm_stream_current();
	ASSERT_EQ(0, capkm_window_prepare(k.c, NULL, NULL, NULL, &e)) TH_LOG("%s", e.text);
	ASSERT_EQ(0, capkm_window_list(k.c, &list, &e)) TH_LOG("%s", e.text);
	ASSERT_EQ(1, list.out_active);
	ASSERT_EQ(0, pthread_create(&thread, NULL, begin_there, &k));
	pthread_join(thread, NULL);
	ASSERT_EQ(0, capkm_window_list(k.c, &list, &e)) TH_LOG("%s", e.text);
	ASSERT_EQ(0, list.out_open);
	list.tid = k.tid;
	ASSERT_EQ(0, capkm_window_list(k.c, &list, &e)) TH_LOG("%s", e.text);
	ASSERT_EQ(1, list.out_recording);
	ASSERT_EQ(k.tid, w.tid);
	list.tid = 0;
	ASSERT_EQ(-EINVAL, capkm_window_list(k.c, &list, &e));
	ASSERT_NE(NULL, strstr(e.text, "a filter and its flag go together"));
	capkm_close(k.c);
}

/*
 * C18: whoever attaches, asks and detaches, at whatever moment, changes no window; the
 * graph is what it would have been.
 */
TEST_F(open, observers_come_and_go)
{
	u_int64_t x = t_buffer(self->a, 100), w = t_prepare(self->a, 1);
	struct capkm_window_end e;

	for (int i = 0; i < 40; i++) {
		struct cl *o = t_client();

		if (i == 10)
			t_begin(self->a, 1);
		if (i == 20)
			t_write(self->a, 1, C({ x, 0, 10 }));
		if (i == 30)
			e = t_end(self->a, 1);
		t_attach(o, self->a->domain);
		ASSERT_EQ(1, t_list(o).a.out_open);
		t_window(o, w);
		if (i % 2)
			t_close(o);
		else
			t_kill(o);
	}
	ASSERT_EQ(1, e.out_recorded);
	ASSERT_EQ(0, e.out_doomed);
	t_graph_is(self->a, t_seal(self->a, w), 0, C({ x, 0, 10 }));
}

TEST_HARNESS_MAIN
