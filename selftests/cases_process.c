// SPDX-License-Identifier: GPL-2.0-only
/*
 * Field cases of processes: they are killed, forked, left as zombies, put into
 * containers, and hand their descriptors around. See cases.c.
 *
 *   cases_process --engine   no test: a named domain with an engine that has a
 *                            window, work under way and three outputs, and a
 *                            front end that holds the outputs (for checks/c64.sh)
 *   cases_process --churn    no test: calls of all kinds, for ever (checks/c78.sh)
 *   cases_process --pause    no test: a program to exec
 *   cases_process --inherited   no test: status 1 if a descriptor of capkm came
 *                            through exec
 */
#include "process.h"
#include "transport.h"

#include <dirent.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#define BYTES 100
#define GPU T_GPU(1)

/* What processes tell the test. */
struct shared {
	int step;
	int go;
	int pid[2];
	u_int64_t window[2];
	unsigned int own_pid[2], other_pid[2], report_pid;
};

FIXTURE(process)
{
	struct cl *a;		/* who looks */
	u_int64_t x, y;
	struct shared *sh;
};

#define SELF FIXTURE_DATA(process)

FIXTURE_SETUP(process)
{
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->sh);
	self->a = t_client();
	t_domain(self->a);
	self->x = t_shared(self->a, BYTES);
	self->y = t_shared(self->a, BYTES);
}

FIXTURE_TEARDOWN(process)
{
	t_close(self->a);
	t_no_leaks();
}

static void attach(SELF *self, struct cl *cl)
{
	t_attach(cl, self->a->domain);
	t_open(cl, self->x);
	t_open(cl, self->y);
}

/* Another process of the domain, that holds both buffers. */
static struct cl *enter_domain(SELF *self)
{
	struct cl *cl = t_process();

	attach(self, cl);
	return cl;
}

static unsigned int kind_of(SELF *self, u_int64_t buffer)
{
	struct t_check c = t_check(self->a, C({ buffer, 0, BYTES }));

	return c.result == CAPKM_CLEAN ? CAPKM_KIND_NONE : c.r[0].kind;
}

/* Whoever died: nothing of him is in the way, and writing mends the rest. */
static void is_mended(struct __test_metadata *_metadata, SELF *self)
{
	struct capkm_domain_query d;

	t_written(self->a, C({ self->x, 0, BYTES }, { self->y, 0, BYTES }));
	d = t_domain_query(self->a);
	ASSERT_EQ(0, d.out_scopes);
	ASSERT_EQ(0, d.out_windows);
	ASSERT_EQ(0, d.out_orphans);
	ASSERT_EQ(0, d.out_graphs);
	ASSERT_EQ(0, d.out_streams);
	ASSERT_EQ(0, d.out_claims);
	ASSERT_EQ(0, d.out_failures);
	ASSERT_EQ(0, d.out_unconfirmed);
	ASSERT_EQ(0, d.out_faulted);
	ASSERT_EQ(2, d.out_buffers);
	ASSERT_EQ(1, d.out_sessions);
	ASSERT_EQ(1, d.out_clients);
	t_no_ranges(self->a, self->x);
	t_no_ranges(self->a, self->y);
}

#define IS_MENDED() is_mended(_metadata, self)

/* ------------------------------------------------------------------- deaths */

static char state_of(int pid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state;
}

/*
 * C77: killed workers stayed as zombies under a parent that did not reap them, and
 * kept what they had. A zombie is dead: its scope is torn and its window orphaned
 * while nobody has waited for it.
 */
TEST_F(process, c77_zombie)
{
	struct cl *p;
	u_int64_t w;

	ONLY_KERNEL();
	p = enter_domain(self);
	w = t_record(p, 1);
	t_enter(p, 2, NO_CLAIMS, C({ self->x, 0, 10 }));
	kill(p->pid, SIGKILL);
	UNTIL(state_of(p->pid) == 'Z');
	UNTIL(t_window(self->a, w).q.out_state == CAPKM_WINDOW_ORPHANED);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(0, t_abandon(self->a, w));
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	ASSERT_EQ('Z', state_of(p->pid));
	t_kill(p);
	IS_MENDED();
}

/*
 * C77: an orphan of the killed process still had its descriptor, so that what it
 * owned was held by a process that does not exist. The session lives on with the
 * descriptor, its client does not: that it is dead can be seen, and the window can
 * be abandoned. (Others would leave the window open.)
 */
TEST_F(process, c77_descriptor_in_a_sleeping_child)
{
	struct cl *p = enter_domain(self), *sleeper = t_second(p);
	u_int64_t w = t_record(p, 1), session = p->session;
	unsigned int pid = t_pid(p);
	struct t_window q;

	t_write(p, 1, C({ self->x, 0, 10 }));
	t_kill(p);
	UNTIL(t_window(self->a, w).q.out_state == CAPKM_WINDOW_ORPHANED);
	q = t_window(self->a, w);
	ASSERT_EQ(session, q.q.out_session);
	ASSERT_EQ(pid, q.q.out_pid);
	ASSERT_EQ(CAPKM_KIND_OWNER_DIED, q.r[0].kind);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_kill(sleeper);
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	IS_MENDED();
}

/*
 * C64: the health page said that all was well while the engine behind it was dead.
 * Whoever holds the outputs sees that their maker is gone, its window left behind,
 * and no output to be trusted; the dead process has to answer nothing for that.
 * (checks/c64.sh does the same with nothing but capadm.)
 */
TEST_F(process, c64_engine_is_dead_and_its_front_end_is_not)
{
	struct cl *engine = enter_domain(self);
	u_int64_t out[3], w;

	for (int i = 0; i < 3; i++) {
		out[i] = t_shared(engine, BYTES);
		t_open(self->a, out[i]);
		t_write(engine, 3, C({ out[i], 0, BYTES }));
	}
	w = t_record(engine, 1);
	t_write(engine, 1, C({ out[0], 0, 10 }));
	t_enter(engine, 2, NO_CLAIMS, C({ out[1], 0, BYTES }));
	t_write_enqueued(engine, 3, C({ out[2], 90, BYTES }));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, t_buffer_query(self->a, out[i]).q.out_state &
			     CAPKM_BUFFER_ABANDONED);
	t_kill(engine);

	UNTIL(t_domain_query(self->a).out_clients == 1);
	ASSERT_EQ(1, t_domain_query(self->a).out_orphans);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	for (int i = 0; i < 3; i++)
		ASSERT_NE(0, t_buffer_query(self->a, out[i]).q.out_state &
			     CAPKM_BUFFER_ABANDONED);
	t_is_tainted(self->a, out[0], 0, BYTES, CAPKM_KIND_OWNER_DIED);
	t_is_tainted(self->a, out[1], 0, BYTES, CAPKM_KIND_TORN_DOWN);
	t_is_tainted(self->a, out[2], 0, BYTES, CAPKM_KIND_UNCONFIRMED);
	ASSERT_EQ(0, t_abandon(self->a, w));
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, t_drop(self->a, out[i]));
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	IS_MENDED();
}

/* ------------------------------------------------------- of another version */

/* An authority that says nothing but which versions it speaks. */
static struct capkm_info other;
static int other_closed;

static int other_open(const char *path, void **state, char *why, size_t size)
{
	*state = NULL;
	return 0;
}

static int other_call(void *state, unsigned int nr, void *arg)
{
	if (nr != CAPKM_NR_INFO)
		return -ENOSYS;
	memcpy(arg, &other, sizeof(other));
	return 0;
}

static void other_close(void *state, bool inherited)
{
	other_closed++;
}

static const struct capkm_transport other_transport = {
	.name = "the module", .open = other_open, .call = other_call, .close = other_close,
};

static int open_other(unsigned int version, unsigned int oldest, char *text, size_t size)
{
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	struct capkm *c = NULL;
	int rc;

	other = (struct capkm_info){
		.size = sizeof(other), .out_abi_version = version, .out_abi_oldest = oldest,
		.out_version = "9.9.9",
	};
	capkm_proxy = &other_transport;
	rc = capkm_open("proxy:", NULL, &c, &e);
	capkm_proxy = NULL;
	snprintf(text, size, "%s", e.text);
	if (!rc)
		capkm_close(c);
	return rc;
}

/*
 * C88: the library comes with the image of a container and the module with the host, so one
 * may be older than the other. They get on as long as each still serves the other; else
 * the error says which of them is to be updated, and there is no handle.
 */
TEST(c88_library_and_module_of_other_versions)
{
	char text[512];

	/* A newer module that still serves this library, and one that does not. */
	ASSERT_EQ(0, open_other(CAPKM_ABI_VERSION + 5, CAPKM_ABI_VERSION, text, sizeof(text)));
	ASSERT_EQ(1, other_closed);
	ASSERT_EQ(-EPROTONOSUPPORT, open_other(CAPKM_ABI_VERSION + 5, CAPKM_ABI_VERSION + 1,
					       text, sizeof(text)));
	ASSERT_NE(NULL, strstr(text, "version 9.9.9"));
	ASSERT_NE(NULL, strstr(text, "update the library"));
	ASSERT_EQ(2, other_closed);
	/* An older one that this library does not take any more. */
	ASSERT_EQ(-EPROTONOSUPPORT, open_other(CAPKM_ABI_OLDEST - 1, CAPKM_ABI_OLDEST - 1,
					       text, sizeof(text)));
	ASSERT_NE(NULL, strstr(text, "update the module"));
	ASSERT_EQ(3, other_closed);
}

/* ------------------------------------------------ killed at every boundary */

/* What a process that does a bit of everything has in its hands. */
struct churn {
	struct cl *cl;
	u_int64_t x, y;
	u_int64_t stream, own, fresh, scope, window, child, graph, failure;
};

/* The @k-th call of a long life; false after the last one. */
static bool churn_step(struct churn *c, unsigned int k)
{
	struct cl *cl = c->cl;

	switch (k) {
	/* On a device of its own, so that its slot is in nobody's way. */
	case 0: c->stream = T_GPU(2) | t_stream(cl); break;
	case 1: c->own = t_buffer_on(cl, GPU, BYTES, 0); break;
	case 2: c->fresh = t_fresh(cl, BYTES); break;
	case 3: t_open(cl, c->x); break;
	case 4: c->scope = t_enter(cl, c->stream, NO_CLAIMS, C({ c->x, 0, 60 })); break;
	case 5: t_exit_enqueued(cl, c->scope); break;
	case 6: t_confirm(cl, c->stream); break;
	case 7:
		c->scope = t_enter(cl, GPU | 1, C({ c->x, 0, 9 }),
				   C({ c->own, 0, 60 }, { c->y, 0, 5 }, { c->y, 50, 60 }));
		break;
	case 8: t_exit_enqueued(cl, c->scope); break;
	case 9: t_export(cl, c->own); break;
	case 10:
		c->scope = t_enter(cl, c->stream, NO_CLAIMS,
				   C({ c->fresh, 0, 50 }, { c->y, 40, 45 }));
		break;
	case 11: c->failure = t_exit_failed(cl, c->scope, "launch"); break;
	case 12: t_flush(cl, c->stream, 0); break;
	case 13: t_taint_with(cl, c->failure, C({ c->x, 20, 30 })); break;
	case 14: t_written(cl, C({ c->x, 25, 35 })); break;
	case 15: t_check(cl, C({ c->x, 0, BYTES }, { c->y, 0, BYTES })); break;
	case 16: c->window = t_prepare(cl, 7); break;
	case 17: t_begin(cl, 7); break;
	case 18: t_join(cl, c->window, c->stream); break;
	case 19:
		c->scope = t_enter(cl, c->stream, C({ c->x, 60, 70 }), C({ c->x, 70, 80 }));
		break;
	case 20: t_exit(cl, c->scope); break;
	case 21: t_retain(cl, c->window, 4096, 64, CAPKM_RETAIN_READ); break;
	case 22:
		t_try_record(cl, c->window, 0, NO_CLAIMS, C({ c->y, 70, 80 }));
		break;
	case 23: c->child = t_prepare_child(cl, 8, c->window); break;
	case 24: t_begin(cl, 8); break;
	case 25: t_write(cl, 8, C({ c->y, 80, 90 })); break;
	case 26: t_end(cl, 8); break;
	case 27: t_try_seal(cl, c->child, 0); break;
	case 28: t_end(cl, 7); break;
	case 29: t_take(cl, c->window, 0); break;
	case 30: c->graph = t_seal(cl, c->window); break;
	case 31: t_replay_begin(cl, c->graph, c->stream); break;
	case 32: t_replay_end(cl, c->graph, NULL); break;
	case 33: c->window = t_record(cl, 7); break;
	case 34: t_write(cl, 7, C({ c->y, 60, 70 })); break;
	case 35: t_end(cl, 7); break;
	case 36: t_update(cl, c->graph, c->window); break;
	case 37: t_replay_begin(cl, c->graph, 7); break;
	case 38: t_replay_end(cl, c->graph, "replay"); break;
	case 39: c->window = t_record(cl, 7); break;
	case 40: t_window_fail(cl, c->window, 7, 901, "launch", "no"); break;
	case 41: t_end(cl, 7); break;
	case 42: t_refuse(cl, c->window, "no"); break;
	case 43: c->window = t_record(cl, c->stream); break;
	case 44: t_write(cl, c->stream, C({ c->x, 90, BYTES })); break;
	case 45: t_abort(cl, c->stream); break;
	case 46: c->scope = t_enter(cl, GPU | 1, NO_CLAIMS, C({ c->x, 0, BYTES })); break;
	case 47: t_fault(cl, GPU | 1, "lost"); break;
	case 48: t_try_exit(cl, c->scope); break;
	case 49: t_renew(cl, GPU); break;
	case 50: t_destroy(cl, c->graph); break;
	case 51: t_destroy_stream(cl, c->stream & ~T_GPU(255)); break;
	case 52: t_reset(cl, c->own, 0, BYTES); break;
	case 53: t_drop(cl, c->own); break;
	case 54: t_drop(cl, c->fresh); break;
	case 55: t_drop(cl, c->x); break;
	case 56: t_written(cl, C({ c->x, 0, BYTES }, { c->y, 0, BYTES })); break;
	default: return false;
	}
	return true;
}

/* Windows that were left as orphans since the one with id @before. */
static u_int64_t abandon_all(SELF *self, u_int64_t before)
{
	u_int64_t last = t_prepare(self->a, 31);

	t_abort(self->a, 31);
	for (u_int64_t w = before + 1; w < last; w++) {
		int rc = t_abandon(self->a, w);

		if (rc && rc != -ENOENT)
			t_die("WINDOW_ABANDON: %d", rc);
	}
	return last;
}

/*
 * C78: the way out of a driver met what was set up half, or a lock that a dead
 * process held, and the machine with it. Here a process is killed after each call
 * of a long life, between two and inside of many; whatever it had is taken apart.
 */
TEST_F_TIMEOUT(process, c78_killed_after_each_call, 120)
{
	u_int64_t last = abandon_all(self, 0);
	bool more = true;

	for (unsigned int n = 0; more; n++) {
		struct cl *p = enter_domain(self);
		struct churn c = { .cl = p, .x = self->x, .y = self->y };

		for (unsigned int k = 0; more && k <= n; k++)
			more = churn_step(&c, k);
		t_kill(p);
		last = abandon_all(self, last);
		UNTIL(t_domain_query(self->a).out_sessions == 1);
		IS_MENDED();
	}
}

static void churn_for_ever(struct cl *cl, u_int64_t x, u_int64_t y)
{
	for (;;) {
		struct churn c = { .cl = cl, .x = x, .y = y };

		for (unsigned int k = 0; churn_step(&c, k); k++)
			;
	}
}

/* C78: the same at any instant, 300 times, while somebody has the descriptor. */
TEST_F_TIMEOUT(process, c78_killed_at_any_instant, 240)
{
	unsigned int seed = time(NULL);
	u_int64_t last;

	ONLY_KERNEL();
	TH_LOG("seed %u", seed);
	last = abandon_all(self, 0);
	fflush(NULL);
	for (int n = 0; n < 300; n++) {
		int hold[2], pid, status;
		char c;

		store(&self->sh->step, 0);
		ASSERT_EQ(0, pipe(hold));
		pid = fork();
		ASSERT_GE(pid, 0);
		if (!pid) {
			struct cl *cl = t_client();

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(hold[1]);
			attach(self, cl);
			/* A child keeps the descriptor until the test says so. */
			if (!fork())
				_exit(read(hold[0], &c, 1) < 0);
			store(&self->sh->step, 1);
			churn_for_ever(cl, self->x, self->y);
		}
		close(hold[0]);
		UNTIL(load(&self->sh->step) == 1);
		usleep(rand_r(&seed) % 8000);
		kill(pid, SIGKILL);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		/* A churn that found something wrong would have aborted. */
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_EQ(SIGKILL, WTERMSIG(status));
		UNTIL(t_domain_query(self->a).out_clients == 1);
		ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
		ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
		ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
		last = abandon_all(self, last);
		close(hold[1]);
		UNTIL(t_domain_query(self->a).out_sessions == 1);
		IS_MENDED();
	}
}

/* -------------------------------------------------- descriptors in other hands */

enum who { ANYBODY, CLIENT };

/* Who may call what on the descriptor of a session that is attached, for life. */
static const unsigned char policy[T_OPS] = {
	[CAPKM_NR_STREAM_CREATE] = CLIENT,	[CAPKM_NR_STREAM_QUERY] = CLIENT,
	[CAPKM_NR_BUFFER_CREATE] = CLIENT,	[CAPKM_NR_BUFFER_EXPORT] = CLIENT,
	[CAPKM_NR_BUFFER_OPEN] = CLIENT,	[CAPKM_NR_BUFFER_CLOSE] = CLIENT,
	[CAPKM_NR_BUFFER_RESET] = CLIENT,	[CAPKM_NR_WINDOW_PREPARE] = CLIENT,
	[CAPKM_NR_WINDOW_BEGIN] = CLIENT,	[CAPKM_NR_WINDOW_END] = CLIENT,
	[CAPKM_NR_WINDOW_SEAL] = CLIENT,	[CAPKM_NR_WINDOW_REFUSE] = CLIENT,
	[CAPKM_NR_WINDOW_TAKE] = CLIENT,	[CAPKM_NR_WINDOW_RECORD] = CLIENT,
	[CAPKM_NR_WINDOW_ABORT] = CLIENT,	[CAPKM_NR_WINDOW_FAIL] = CLIENT,
	[CAPKM_NR_WINDOW_RETAIN] = CLIENT,	[CAPKM_NR_WINDOW_ABANDON] = CLIENT,
	[CAPKM_NR_SCOPE_ENTER] = CLIENT,	[CAPKM_NR_SCOPE_EXIT] = CLIENT,
	[CAPKM_NR_TAINT] = CLIENT,		[CAPKM_NR_WRITTEN] = CLIENT,
	[CAPKM_NR_GRAPH_REPLAY_BEGIN] = CLIENT,	[CAPKM_NR_GRAPH_REPLAY_END] = CLIENT,
	[CAPKM_NR_GRAPH_DESTROY] = CLIENT,	[CAPKM_NR_STREAM_DESTROY] = CLIENT,
	[CAPKM_NR_STREAM_CONFIRM] = CLIENT,	[CAPKM_NR_STREAM_FAULT] = CLIENT,
	[CAPKM_NR_STREAM_FLUSH] = CLIENT,	[CAPKM_NR_CONTEXT_RENEW] = CLIENT,
	[CAPKM_NR_WINDOW_JOIN] = CLIENT,	[CAPKM_NR_GRAPH_UPDATE] = CLIENT,
};

/*
 * All that changes something, or concerns what is a client's own, is EPERM: neither
 * EBADF, the descriptor is good, nor ENOTTY, the operation exists (C80).
 */
static void may_only_look(struct cl *cl, SELF *self, u_int64_t scope)
{
	u_int64_t room[T_ARG_MAX / 8];
	int rc;

	for (unsigned int nr = 0; nr < T_OPS; nr++) {
		if (policy[nr] != CLIENT)
			continue;
		memset(room, 0, sizeof(room));
		t_put32(room, 0, t_ops[nr].size);
		rc = t_raw(cl, nr, room, t_ops[nr].size);
		if (rc != -EPERM)
			t_die("%s by a stranger: %d", t_ops[nr].name, rc);
	}
	rc = t_try_exit(cl, scope);
	if (rc != -EPERM)
		t_die("SCOPE_EXIT of another process' scope: %d", rc);
	if (t_domain_query(cl).out_domain != self->a->domain)
		t_die("another domain");
	t_is_clean(cl, self->x, 50, BYTES);
	if (t_buffer_query(cl, self->x).q.out_bytes != BYTES)
		t_die("another buffer");
}

/*
 * C79: a descriptor that had come by fork or over a socket let another process use
 * what was the creator's. Here it is for looking only. Who wants to work says so
 * with SESSION_JOIN, and is then a client of its own, with its own scopes, windows
 * and death; never does it act for the one that opened the session.
 */
TEST_F(process, c79_descriptor_in_other_hands)
{
	struct cl *p = enter_domain(self), *q = t_second(p);
	u_int64_t scope, mine, w;
	char *before;

	scope = t_enter(p, 1, NO_CLAIMS, C({ self->x, 0, 10 }));
	w = t_record(p, 2);
	before = t_dump(self->a);
	may_only_look(q, self, scope);
	t_unchanged(self->a, before);

	ASSERT_EQ(0, t_try_join_session(q));
	ASSERT_EQ(p->session, q->session);
	T_REFUSED(self->a, -EPERM, t_try_exit(q, scope));
	T_REFUSED(self->a, -EPERM, t_try_seal(q, w, 0).rc);
	/* Its slots are its own: nothing records there. */
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(q, 2).out_state);
	t_write(q, 2, C({ self->y, 0, 10 }));
	ASSERT_EQ(0, t_window(self->a, w).q.out_recorded);

	mine = t_enter(q, 1, NO_CLAIMS, C({ self->x, 20, 30 }));
	t_kill(p);
	UNTIL(t_window(self->a, w).q.out_state == CAPKM_WINDOW_ORPHANED);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_TORN_DOWN);
	t_is_open(self->a, self->x, 20, 30, mine);
	ASSERT_EQ(0, t_exit(q, mine));
	t_is_clean(self->a, self->x, 20, 30);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_kill(q);
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	IS_MENDED();
}

/* C79: nor when the creator is gone and nobody has joined. */
TEST_F(process, c79_creator_is_gone)
{
	struct cl *p = enter_domain(self), *q = t_second(p);
	u_int64_t scope = t_enter(p, 1, NO_CLAIMS, C({ self->x, 0, 10 }));

	t_kill(p);
	UNTIL(kind_of(self, self->x) == CAPKM_KIND_TORN_DOWN);
	may_only_look(q, self, scope);
	t_kill(q);
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	IS_MENDED();
}

static int fd_of(struct capkm *c, void *arg)
{
	return capkm_fd(c);
}

/*
 * C80: another driver binds a descriptor to the process that opened it, EBADF for
 * all others, with an exception for tools that save and restore processes. Here
 * nobody needs an exception: to look is allowed, the descriptor's fdinfo names whom
 * it belongs to, and what he holds is in capadm's tables for who may read the
 * domain.
 */
TEST_F(process, c80_tool_looks_at_a_descriptor)
{
	char path[64], text[4096] = "", want[64], none = 0;
	struct cl *p;
	FILE *f;

	ONLY_KERNEL();
	p = enter_domain(self);
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", p->pid,
		 t_run(p, fd_of, &none, 1));
	f = fopen(path, "r");
	ASSERT_NE(NULL, f);
	ASSERT_LT(0, fread(text, 1, sizeof(text) - 1, f));
	fclose(f);
	snprintf(want, sizeof(want), "capkm-opener:\t%d\n", p->pid);
	ASSERT_NE(NULL, strstr(text, want)) {
		TH_LOG("%s", text);
	}
	t_close(p);
}

static int child_status(int pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/*
 * C81: after a fork a library went on with a descriptor and with flags that were
 * its parent's. The handle in the child knows that it was inherited: its calls are
 * ECANCELED, to close it ends nobody, and a handle of the child's own works.
 */
TEST_F(process, c81_library_in_a_forked_child)
{
	u_int64_t w = t_record(self->a, 2), scope;
	char *before;
	int pid;

	scope = t_enter(self->a, 1, NO_CLAIMS, C({ self->x, 0, 10 }));
	before = t_dump(self->a);
	fflush(NULL);
	pid = fork();
	ASSERT_GE(pid, 0);
	/* What it inherits of an embedded engine stays where it is: no look for leaks. */
	if (!pid) {
		struct capkm_domain_query d = { .size = sizeof(d) };
		struct capkm_scope_exit e = { .size = sizeof(e), .scope = scope };
		struct capkm *own;

		if (capkm_call(self->a->c, CAPKM_NR_DOMAIN_QUERY, &d) != -ECANCELED)
			syscall(SYS_exit_group, 1);
		if (capkm_call(self->a->c, CAPKM_NR_SCOPE_EXIT, &e) != -ECANCELED)
			syscall(SYS_exit_group, 2);
		capkm_close(self->a->c);
		if (capkm_open(t_transport(), NULL, &own, NULL))
			syscall(SYS_exit_group, 3);
		if (capkm_domain_open(own, "child", NULL, NULL) ||
		    capkm_call(own, CAPKM_NR_DOMAIN_QUERY, &d))
			syscall(SYS_exit_group, 4);
		capkm_close(own);
		syscall(SYS_exit_group, 0);
	}
	ASSERT_EQ(0, child_status(pid));
	t_unchanged(self->a, before);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(self->a, w).q.out_state);
	ASSERT_EQ(0, t_exit(self->a, scope));
	t_abort(self->a, 2);
	IS_MENDED();
}

/* How many descriptors of this process are capkm's. */
static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *d;
	int n = 0;

	while (dir && (d = readdir(dir))) {
		char path[300], to[300];
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", d->d_name);
		len = readlink(path, to, sizeof(to) - 1);
		to[len < 0 ? 0 : len] = '\0';
		n += !!strstr(to, "capkm");
	}
	if (dir)
		closedir(dir);
	return n;
}

/*
 * C82: descriptors leaked into programs that were executed, and kept objects alive
 * that nobody knew of. Those of the library are close-on-exec: a helper has none,
 * and when its parent dies the session is gone although the helper lives.
 */
TEST_F(process, c82_helper_program_inherits_nothing)
{
	int pid, status;

	ONLY_KERNEL();
	ASSERT_NE(0, fcntl(capkm_fd(self->a->c), F_GETFD) & FD_CLOEXEC);
	ASSERT_NE(0, count_fds());
	fflush(NULL);
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		execl("/proc/self/exe", "cases_process", "--inherited", NULL);
		_exit(9);
	}
	ASSERT_EQ(0, child_status(pid));

	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		struct cl *cl = t_client();

		attach(self, cl);
		pid = fork();
		if (!pid) {
			execl("/proc/self/exe", "cases_process", "--pause", NULL);
			_exit(9);
		}
		store(&self->sh->pid[0], pid);
		store(&self->sh->step, 1);
		rest();
	}
	UNTIL(load(&self->sh->step) == 1);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	ASSERT_LT(0, self->sh->pid[0]);
	ASSERT_EQ(0, kill(self->sh->pid[0], SIGKILL));
	IS_MENDED();
}

/* --------------------------------------------------------------- containers */

/* In a pid namespace of its own, in which it is process 1. */
static void contained(SELF *self, int i)
{
	struct cl *cl = t_client();
	struct shared *sh = self->sh;

	attach(self, cl);
	sh->window[i] = t_record(cl, 1 + i);
	t_write(cl, 1 + i, C({ self->x, 10 * i, 10 * i + 5 }));
	if (i == 0)
		t_fail(cl, 9, C({ self->y, 0, 10 }), "in container 0");
	__atomic_add_fetch(&sh->step, 1, __ATOMIC_SEQ_CST);
	while (load(&sh->step) < 2)
		usleep(1000);
	sh->own_pid[i] = t_window(cl, sh->window[i]).q.out_pid;
	sh->other_pid[i] = t_window(cl, sh->window[!i]).q.out_pid;
	if (i == 1)
		sh->report_pid = t_is_tainted(cl, self->y, 0, 10, CAPKM_KIND_LAUNCH).pid;
	__atomic_add_fetch(&sh->step, 1, __ATOMIC_SEQ_CST);
	rest();
}

/*
 * C84: processes of two containers were refused each other's memory since code
 * compared pids of different namespaces. Here two processes are both number 1 where
 * they live, share a buffer, and are never taken for one another: sessions tell them
 * apart, and a pid is that of the reader's namespace, 0 where it has none. (The
 * buffer is opened by its id; no descriptor has to cross.)
 */
TEST_F(process, c84_two_pid_namespaces)
{
	struct t_window w[2];
	int keeper[2];

	ONLY_KERNEL();
	fflush(NULL);
	for (int i = 0; i < 2; i++) {
		keeper[i] = fork();
		ASSERT_GE(keeper[i], 0);
		if (!keeper[i]) {
			int pid;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (unshare(CLONE_NEWPID))
				_exit(4);
			pid = fork();
			if (!pid) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				contained(self, i);
			}
			store(&self->sh->pid[i], pid);
			rest();
		}
	}
	UNTIL(load(&self->sh->step) == 4);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(1, self->sh->own_pid[i]);
		ASSERT_EQ(0, self->sh->other_pid[i]);
		w[i] = t_window(self->a, self->sh->window[i]);
		ASSERT_EQ((unsigned int)self->sh->pid[i], w[i].q.out_pid);
	}
	ASSERT_EQ(0, self->sh->report_pid);
	ASSERT_NE(w[0].q.out_session, w[1].q.out_session);

	/* The death of one 1 is not the other's. */
	kill(self->sh->pid[0], SIGKILL);
	UNTIL(t_window(self->a, self->sh->window[0]).q.out_state == CAPKM_WINDOW_ORPHANED);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE,
		  t_window(self->a, self->sh->window[1]).q.out_state);
	t_is_tainted(self->a, self->x, 0, 5, CAPKM_KIND_OWNER_DIED);
	t_is_clean(self->a, self->x, 10, 15);
	kill(self->sh->pid[1], SIGKILL);
	UNTIL(t_domain_query(self->a).out_sessions == 1);
	for (int i = 0; i < 2; i++) {
		kill(keeper[i], SIGKILL);
		waitpid(keeper[i], NULL, 0);
		ASSERT_EQ(0, t_abandon(self->a, self->sh->window[i]));
	}
	IS_MENDED();
}

/*
 * C85: a tool that saves processes cannot save an open device it does not know, and
 * a restore that failed left the process stuck. The rule here: close the handle
 * before the dump. What was open ends as in death, what others share keeps its taint,
 * and the restored process opens a new session, for which the old ids mean nothing;
 * a step of that which fails changes nothing and can be made again.
 */
TEST_F(process, c85_close_before_the_dump)
{
	struct cl *p = enter_domain(self);
	u_int64_t w = t_record(p, 1), scope, gone = p->session;
	struct capkm_domain_attach nowhere = { .domain = ~0ull };
	struct capkm *c = NULL;

	t_write(p, 1, C({ self->y, 0, 10 }));
	scope = t_enter(p, 2, NO_CLAIMS, C({ self->x, 0, 10 }));
	t_close(p);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_TORN_DOWN);
	t_is_tainted(self->a, self->y, 0, 10, CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);

	/* Restored where there is no module. */
	ASSERT_EQ(-ENOENT, capkm_open("/dev/there-is-no-capkm", NULL, &c, NULL));
	ASSERT_EQ(NULL, c);

	p = t_process();
	ASSERT_EQ(-ENOENT, t_call(p, CAPKM_NR_DOMAIN_ATTACH, &nowhere));
	attach(self, p);
	ASSERT_NE(gone, p->session);
	T_REFUSED(self->a, -ENOENT, t_try_exit(p, scope));
	T_REFUSED(self->a, -EPERM, t_try_seal(p, w, 0).rc);
	t_is_tainted(p, self->x, 0, 10, CAPKM_KIND_TORN_DOWN);
	/* The slot is free: it is another client's. */
	ASSERT_EQ(CAPKM_WINDOW_NONE, t_slot(p, 1).out_state);
	t_record(p, 1);
	t_abort(p, 1);
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_close(p);
	IS_MENDED();
}

/* -------------------------------------------------------- what is no test */

/* Says "DOMAIN ENGINE WINDOW" and stays; is to be killed together with its child. */
static void engine(void)
{
	struct capkm_domain_create d = { .name_uptr = t_ptr("engine"), .name_len = 6 };
	struct cl *a = t_client();
	u_int64_t out[3], window;
	int ready[2], pid;
	char c;

	T_OK(a, DOMAIN_CREATE, &d);
	for (int i = 0; i < 3; i++)
		out[i] = t_shared(a, 4096);
	if (pipe(ready))
		t_die("pipe");
	/* The front end stays when the engine is killed. */
	pid = fork();
	if (!pid) {
		struct cl *b = t_client();

		t_attach(b, d.out_domain);
		for (int i = 0; i < 3; i++)
			t_open(b, out[i]);
		close(capkm_fd(a->c));
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		rest();
	}
	if (pid < 0 || read(ready[0], &c, 1) != 1)
		t_die("no front end");
	window = t_record(a, 1);
	t_write(a, 1, C({ out[0], 0, 100 }));
	t_enter(a, 2, NO_CLAIMS, C({ out[1], 0, 4096 }));
	t_write_enqueued(a, 3, C({ out[2], 0, 10 }));
	printf("%llu %d %d %" PRIu64 "\n", d.out_domain, getpid(), pid, window);
	fflush(stdout);
	rest();
}

static void churn(void)
{
	struct cl *cl = t_client();
	u_int64_t x, y;

	t_domain(cl);
	x = t_shared(cl, BYTES);
	y = t_shared(cl, BYTES);
	printf("%d\n", getpid());
	fflush(stdout);
	churn_for_ever(cl, x, y);
}

/* The harness has a main of its own. */
#define main run_tests
TEST_HARNESS_MAIN
#undef main

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "--engine"))
		engine();
	if (!strcmp(what, "--churn"))
		churn();
	if (!strcmp(what, "--pause"))
		rest();
	if (!strcmp(what, "--inherited"))
		return !!count_fds();
	return run_tests(argc, argv);
}
