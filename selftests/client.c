// SPDX-License-Identifier: GPL-2.0-only
/*
 * The end of a client, with real processes and the module: who is killed, who
 * replaces himself, who leaves the description to somebody else. What is left is
 * looked at from another session that holds the same buffer.
 *
 *   client --hold      no test: a domain with a bit of everything, for capadm
 *   client --scene     no test: three domains that ail, for capadm
 *   client --bodies    no test: an orphan with a body, for capadm
 *   client --budget DOMAIN [LEDGER]  no test: a run with a budget, or one that goes on with it
 *   client --hostile   no test: names and texts that would harm a terminal
 *   client --worker    no test: a worker that dies in mid-capture, for the operator's guide
 *   client --events N [--slow]  no test: a domain with so many events, for monitors
 *   client --captures SECONDS  no test: windows, for so long, for those who watch
 *   client --pause     no test: a program to exec
 *   client --mutate FD no test: a program to exec, that uses what it inherited
 */
#include "process.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <time.h>

#define BYTES 128
#define CHILDREN 50

/* What a process tells the test. */
struct shared {
	int step;
	int go;
	int scope_rc;
	u_int64_t scope, graph, window;
};

FIXTURE(client)
{
	struct cl *a;		/* who survives */
	u_int64_t x;		/* everybody holds it */
	struct shared *sh;
	int pid;		/* who dies */
	int hold[2];		/* a holder lives until the test closes it */
};

#define SELF FIXTURE_DATA(client)

FIXTURE_SETUP(client)
{
	/* The harness goes on after a setup that skips: the tests do. */
	if (t_embedded())
		return;
	self->sh = mmap(NULL, sizeof(*self->sh), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->sh);
	ASSERT_EQ(0, pipe(self->hold));
	self->a = t_client();
	t_domain(self->a);
	self->x = t_shared(self->a, BYTES);
}

/* Whatever was left can be mended by writing. */
FIXTURE_TEARDOWN(client)
{
	struct capkm_domain_query d;

	if (!self->a)
		return;
	t_write(self->a, 1, C({ self->x, 0, BYTES }));
	t_no_ranges(self->a, self->x);
	d = t_domain_query(self->a);
	EXPECT_EQ(0, d.out_failures);
	EXPECT_EQ(0, d.out_claims);
	EXPECT_EQ(0, d.out_scopes);
	EXPECT_EQ(0, d.out_graphs);
	t_close(self->a);
}

static struct cl *enter_domain(SELF *self)
{
	struct cl *cl = t_client();

	t_attach(cl, self->a->domain);
	t_open(cl, self->x);
	return cl;
}

static void enter_scope(SELF *self, struct cl *cl)
{
	self->sh->scope = t_enter(cl, 4711, NO_CLAIMS, C({ self->x, 0, 64 }));
}

#define START(body) do {						\
	ONLY_KERNEL();							\
	fflush(NULL);							\
	self->pid = fork();						\
	ASSERT_GE(self->pid, 0);					\
	if (!self->pid) {						\
		prctl(PR_SET_PDEATHSIG, SIGKILL);			\
		prctl(PR_SET_NAME, "victim");				\
		close(self->hold[1]);					\
		body(self);						\
		_exit(0);						\
	}								\
	UNTIL(load(&self->sh->step) == 1);				\
} while (0)

/* Keeps all that it inherited until the test lets it go. */
static void holder(SELF *self)
{
	char c;

	if (read(self->hold[0], &c, 1) < 0)
		_exit(1);
	_exit(0);
}

static void fork_holder(SELF *self)
{
	if (!fork()) {
		prctl(PR_SET_NAME, "holder");
		holder(self);
	}
}

#define SESSIONS(n) UNTIL(t_domain_query(self->a).out_sessions == (n))

/* The client in its scope is as alive as can be. */
static void in_progress(SELF *self)
{
	t_is_open(self->a, self->x, 0, 64, self->sh->scope);
}

static unsigned int kind_of(SELF *self, u_int64_t at)
{
	struct t_check c = t_check(self->a, C({ self->x, at, at + 1 }));

	return c.result == CAPKM_CLEAN ? CAPKM_KIND_NONE : c.r[0].kind;
}

/*
 * SC-15, C57, C69: what the scope writes is tainted for everybody, by a failure
 * that says who it was; its other bytes are not.
 */
static void is_torn(struct __test_metadata *_metadata, SELF *self)
{
	struct capkm_report r;
	char pid[16];

	UNTIL(kind_of(self, 0) != CAPKM_KIND_IN_PROGRESS);
	r = t_is_tainted(self->a, self->x, 0, 64, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(0, r.start);
	ASSERT_EQ(64, r.end);
	ASSERT_EQ(self->sh->scope, r.scope);
	ASSERT_EQ(4711, r.stream);
	ASSERT_EQ((unsigned int)self->pid, r.pid);
	ASSERT_STREQ("victim", (char *)r.comm);
	snprintf(pid, sizeof(pid), "%d", self->pid);
	ASSERT_NE(NULL, strstr((char *)r.text, "torn down"));
	ASSERT_NE(NULL, strstr((char *)r.text, "victim"));
	ASSERT_NE(NULL, strstr((char *)r.text, pid));
	t_is_clean(self->a, self->x, 64, BYTES);
	ASSERT_EQ(0, t_domain_query(self->a).out_scopes);
	ASSERT_EQ(1, t_failures(self->a));
}

#define IS_TORN() is_torn(_metadata, self)

static void scope_and_rest(SELF *self)
{
	enter_scope(self, enter_domain(self));
	store(&self->sh->step, 1);
	rest();
}

/* 5.1; a zombie is dead, whether its parent looks or not (C77) */
TEST_F(client, killed_in_scope)
{
	START(scope_and_rest);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
	ASSERT_EQ(self->pid, waitpid(self->pid, NULL, 0));
	SESSIONS(1);
}

static void scope_and_exit(SELF *self)
{
	enter_scope(self, enter_domain(self));
	store(&self->sh->step, 1);
}

/* An orderly exit without leaving the scope is not success (C57). */
TEST_F(client, exits_in_scope)
{
	START(scope_and_exit);
	IS_TORN();
	SESSIONS(1);
}

static void leave_to_child(SELF *self)
{
	enter_scope(self, enter_domain(self));
	fork_holder(self);
	store(&self->sh->step, 1);
	while (!load(&self->sh->go))
		usleep(1000);
}

/* A forked child keeps the description: the client ends all the same (C77, C79). */
TEST_F(client, child_keeps_descriptor)
{
	START(leave_to_child);
	in_progress(self);
	store(&self->sh->go, 1);
	IS_TORN();
	/* It is the client that has ended, not the session. */
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(self->hold[1]);
	SESSIONS(1);
}

/* The same by SIGKILL: no flush is different from that. */
TEST_F(client, killed_and_child_keeps_descriptor)
{
	START(leave_to_child);
	kill(self->pid, SIGKILL);
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(self->hold[1]);
	SESSIONS(1);
}

static void close_own(SELF *self)
{
	struct cl *cl = enter_domain(self);

	enter_scope(self, cl);
	fork_holder(self);
	close(capkm_fd(cl->c));
	store(&self->sh->step, 1);
	rest();
}

/* It has left, although it lives and its child keeps the description. */
TEST_F(client, closes_last_descriptor)
{
	START(close_own);
	IS_TORN();
	ASSERT_EQ(0, waitpid(self->pid, NULL, WNOHANG));
	kill(self->pid, SIGKILL);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(self->hold[1]);
	SESSIONS(1);
}

static void share_table(SELF *self)
{
	enter_scope(self, enter_domain(self));
	if (!syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0))
		holder(self);
	store(&self->sh->step, 1);
	rest();
}

/* The file table itself outlives it: nothing is closed at all. */
TEST_F(client, dies_and_file_table_lives)
{
	START(share_table);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(self->hold[1]);
	SESSIONS(1);
}

/* ------------------------------------------------------ passed descriptors */

static int pair[2];

static void pass(SELF *self)
{
	struct cl *cl = enter_domain(self);

	enter_scope(self, cl);
	send_fd(pair[1], capkm_fd(cl->c));
	store(&self->sh->step, 1);
	rest();
}

/* 0, or the first operation that a stranger was not refused, or may not read. */
static int try_all(SELF *self, int fd)
{
	struct capkm_claim claim = { self->x, 64, BYTES };
	struct capkm_domain_query d = { 0 };
	struct capkm_check c = { .claims_uptr = t_ptr(&claim), .claims_len = 1 };
	struct capkm_buffer_query b = { .buffer = self->x };
	struct capkm_scope_exit e = { .scope = self->sh->scope };
	int bad = try_mutating(fd, -EPERM);

	if (bad)
		return bad;
	if (raw(fd, CAPKM_NR_SCOPE_EXIT, &e) != -EPERM)
		return 1000 + CAPKM_NR_SCOPE_EXIT;
	if (raw(fd, CAPKM_NR_DOMAIN_QUERY, &d) || d.out_domain != self->a->domain)
		return 1000 + CAPKM_NR_DOMAIN_QUERY;
	if (raw(fd, CAPKM_NR_CHECK, &c) || c.out_result != CAPKM_CLEAN)
		return 1000 + CAPKM_NR_CHECK;
	if (raw(fd, CAPKM_NR_BUFFER_QUERY, &b) || b.out_bytes != BYTES)
		return 1000 + CAPKM_NR_BUFFER_QUERY;
	return 0;
}

/* The receiver of a descriptor may look and nothing else (C79). */
TEST_F(client, passed_descriptor)
{
	char *before;
	int fd;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	START(pass);
	fd = receive_fd(pair[0]);
	ASSERT_GE(fd, 0);
	before = t_dump(self->a);
	ASSERT_EQ(0, try_all(self, fd));
	t_unchanged(self->a, before);
	/* To close it here ends nobody. */
	close(dup(fd));
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(0, try_all(self, fd));
	close(fd);
	SESSIONS(1);
}

/* A description that is in a message under way, and in nobody's table. */
TEST_F(client, descriptor_under_way)
{
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	START(pass);
	kill(self->pid, SIGKILL);
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(pair[0]);
	close(pair[1]);
	SESSIONS(1);
}

static void child_tries(SELF *self)
{
	struct cl *cl = enter_domain(self);
	int status;

	enter_scope(self, cl);
	if (!fork())
		_exit(!!try_all(self, capkm_fd(cl->c)));
	wait(&status);
	self->sh->scope_rc = status;
	store(&self->sh->step, 1);
	rest();
}

/* A forked child may look and nothing else, and its exit ends nobody (C79, C81). */
TEST_F(client, child_is_no_client)
{
	START(child_tries);
	ASSERT_EQ(0, self->sh->scope_rc);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
}

/* -------------------------------------------------------------------- exec */

static void exec_self(SELF *self)
{
	enter_scope(self, enter_domain(self));
	fork_holder(self);
	store(&self->sh->step, 1);
	while (!load(&self->sh->go))
		usleep(1000);
	execl("/proc/self/exe", "client", "--pause", NULL);
	_exit(1);
}

/* Exec ends the client, though process, pid and description live on (C82). */
TEST_F(client, exec)
{
	START(exec_self);
	in_progress(self);
	store(&self->sh->go, 1);
	IS_TORN();
	ASSERT_EQ(0, waitpid(self->pid, NULL, WNOHANG));
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(self->hold[1]);
	SESSIONS(1);
	ASSERT_EQ(0, waitpid(self->pid, NULL, WNOHANG));
	kill(self->pid, SIGKILL);
}

static void exec_with_descriptor(SELF *self)
{
	struct cl *cl = enter_domain(self);
	char fd[16];

	enter_scope(self, cl);
	fcntl(capkm_fd(cl->c), F_SETFD, 0);
	snprintf(fd, sizeof(fd), "%d", capkm_fd(cl->c));
	store(&self->sh->step, 1);
	while (!load(&self->sh->go))
		usleep(1000);
	execl("/proc/self/exe", "client", "--mutate", fd, NULL);
	_exit(1);
}

/* The new program has the descriptor and is no client. */
TEST_F(client, exec_keeps_descriptor)
{
	int status;

	START(exec_with_descriptor);
	store(&self->sh->go, 1);
	ASSERT_EQ(self->pid, waitpid(self->pid, &status, WUNTRACED));
	ASSERT_TRUE(WIFSTOPPED(status));
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	kill(self->pid, SIGKILL);
	SESSIONS(1);
}

static void failed_exec(SELF *self)
{
	enter_scope(self, enter_domain(self));
	execl("/proc/self/status", "client", NULL);
	store(&self->sh->step, 1);
	rest();
}

TEST_F(client, exec_that_fails)
{
	START(failed_exec);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
}

static void spawn_other(SELF *self)
{
	char *argv[] = { "client", "--true", NULL }, *env[] = { NULL };
	struct cl *cl = enter_domain(self);
	int pid, status;

	enter_scope(self, cl);
	if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, env) ||
	    waitpid(pid, &status, 0) != pid || status)
		_exit(1);
	self->sh->scope_rc = t_try_exit(cl, self->sh->scope);
	enter_scope(self, cl);
	store(&self->sh->step, 1);
	rest();
}

/* A child that borrows the mm until it execs is not the client's exec. */
TEST_F(client, spawn)
{
	START(spawn_other);
	ASSERT_EQ(0, self->sh->scope_rc);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
}

/* ----------------------------------------------------------------- threads */

static struct cl *thread_cl;

static void *open_in_thread(void *arg)
{
	thread_cl = enter_domain(arg);
	enter_scope(arg, thread_cl);
	return NULL;
}

static void opener_thread_ends(SELF *self)
{
	pthread_t t;

	if (pthread_create(&t, NULL, open_in_thread, self) || pthread_join(t, NULL))
		_exit(1);
	self->sh->scope_rc = t_try_exit(thread_cl, self->sh->scope);
	enter_scope(self, thread_cl);
	store(&self->sh->step, 1);
	rest();
}

/* A client is a process: a thread that ends ends nothing, though it opened. */
TEST_F(client, thread_exits)
{
	START(opener_thread_ends);
	ASSERT_EQ(0, self->sh->scope_rc);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
}

static void *outlive_leader(void *arg)
{
	SELF *self = arg;
	char path[64], state = 0;

	/* Until the leader is a zombie. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", getpid());
	while (state != 'Z') {
		FILE *f = fopen(path, "r");

		if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
			_exit(1);
		fclose(f);
		usleep(1000);
	}
	prctl(PR_SET_NAME, "victim");
	self->sh->scope_rc = t_try_exit(thread_cl, self->sh->scope);
	enter_scope(self, thread_cl);
	store(&self->sh->step, 1);
	while (!load(&self->sh->go))
		usleep(1000);
	return NULL;
}

static void leader_ends(SELF *self)
{
	pthread_t t;

	thread_cl = enter_domain(self);
	enter_scope(self, thread_cl);
	if (pthread_create(&t, NULL, outlive_leader, self))
		_exit(1);
	/* Of this thread only. */
	syscall(SYS_exit, 0);
}

/* Nor the leader: the process ends with its last thread. */
TEST_F(client, leader_exits)
{
	START(leader_ends);
	ASSERT_EQ(0, self->sh->scope_rc);
	in_progress(self);
	/* The last thread ends of itself, no signal is involved. */
	store(&self->sh->go, 1);
	IS_TORN();
	SESSIONS(1);
}

TEST_F(client, killed_after_leader)
{
	START(leader_ends);
	in_progress(self);
	kill(self->pid, SIGKILL);
	IS_TORN();
	SESSIONS(1);
}

/* -------------------------------------------------------- windows and graphs */

static void record_and_rest(SELF *self)
{
	struct cl *cl = enter_domain(self);

	self->sh->window = t_record(cl, 2);
	t_write(cl, 2, C({ self->x, 0, 10 }));
	enter_scope(self, cl);
	store(&self->sh->step, 1);
	rest();
}

/* 5.2: orphaned, visible, and its user's to abandon (C69) */
TEST_F(client, killed_in_window)
{
	u_int64_t w;
	struct t_window q;
	struct cl *b;

	START(record_and_rest);
	w = self->sh->window;
	q = t_window(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, q.q.out_state);
	ASSERT_EQ(0, q.q.out_doomed);
	kill(self->pid, SIGKILL);
	UNTIL(t_domain_query(self->a).out_orphans == 1);
	SESSIONS(1);
	q = t_window(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, q.q.out_state);
	ASSERT_EQ(1, q.q.out_doomed);
	ASSERT_EQ(2, q.q.out_owner);
	ASSERT_EQ((unsigned int)self->pid, q.q.out_pid);
	ASSERT_EQ(CAPKM_KIND_OWNER_DIED, q.r[0].kind);
	ASSERT_NE(NULL, strstr((char *)q.r[0].text, "victim"));
	/* The open scope was on a stream of its own. */
	t_is_tainted(self->a, self->x, 10, 64, CAPKM_KIND_TORN_DOWN);
	/* Nobody's own any more, but not gone. */
	T_REFUSED(self->a, -EPERM, t_try_seal(self->a, w, 0).rc);
	b = t_process();
	t_attach(b, self->a->domain);
	ASSERT_EQ(0, t_abandon(b, w));
	t_close(b);
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	ASSERT_EQ(0, t_domain_query(self->a).out_orphans);
	ASSERT_EQ(1, t_domain_query(self->a).out_history);
	q = t_window(self->a, w);
	ASSERT_EQ(CAPKM_WINDOW_REFUSED, q.q.out_state);
}

static void record_only(SELF *self)
{
	struct cl *cl = enter_domain(self);

	self->sh->window = t_record(cl, 2);
	t_write(cl, 2, C({ self->x, 0, 10 }));
	fork_holder(self);
	store(&self->sh->step, 1);
	rest();
}

/* What was recorded only is tainted; the description does not keep the window. */
TEST_F(client, killed_in_window_and_child_keeps_descriptor)
{
	START(record_only);
	t_is_clean(self->a, self->x, 10, BYTES);
	kill(self->pid, SIGKILL);
	UNTIL(t_domain_query(self->a).out_orphans == 1);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	t_is_tainted(self->a, self->x, 0, 10, CAPKM_KIND_OWNER_DIED);
	t_is_clean(self->a, self->x, 10, BYTES);
	ASSERT_EQ(0, t_abandon(self->a, self->sh->window));
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	close(self->hold[1]);
	SESSIONS(1);
}

static void replay_and_rest(SELF *self)
{
	struct cl *cl = enter_domain(self);

	self->sh->graph = t_graph(cl, 2, NO_CLAIMS, C({ self->x, 0, 50 }));
	t_replay(cl, self->sh->graph, 2);
	t_replay_begin(cl, self->sh->graph, 2);
	store(&self->sh->step, 1);
	rest();
}

/* 5.3: a replay that was not ended is torn, then the graph goes */
TEST_F(client, killed_in_replay)
{
	struct capkm_report r;

	START(replay_and_rest);
	ASSERT_EQ(CAPKM_KIND_IN_PROGRESS, kind_of(self, 0));
	kill(self->pid, SIGKILL);
	UNTIL(kind_of(self, 0) != CAPKM_KIND_IN_PROGRESS);
	r = t_is_tainted(self->a, self->x, 0, 50, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(self->sh->graph, r.graph);
	ASSERT_NE(NULL, strstr((char *)r.text, "torn down"));
	ASSERT_NE(NULL, strstr((char *)r.text, "victim"));
	t_is_clean(self->a, self->x, 50, BYTES);
	SESSIONS(1);
	ASSERT_EQ(0, t_domain_query(self->a).out_graphs);
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	ASSERT_EQ(0, t_buffer_query(self->a, self->x).q.out_uses);
}

/* ------------------------------------------------------------------ in masses */

static void scope_loop(SELF *self, unsigned int seed)
{
	struct cl *cl = enter_domain(self);

	__atomic_add_fetch(&self->sh->step, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		u_int64_t at[2] = { rand_r(&seed) % 100, rand_r(&seed) % 100 };
		struct t_enter e[2];

		/* Two at a time, left in the wrong order; a read may be skipped. */
		for (int i = 0; i < 2; i++)
			e[i] = t_try_enter(cl, 1 + i, 0, NULL,
					   C({ self->x, at[!i], at[!i] + 1 }),
					   C({ self->x, at[i], at[i] + 1 +
					       rand_r(&seed) % 28 }));
		for (int i = 0; i < 2; i++)
			if (!e[i].rc && e[i].result == CAPKM_CLEAN)
				t_try_exit(cl, e[i].scope);
	}
}

/* SC-15, C78: at whatever point it comes */
TEST_F(client, killed_in_masses)
{
	unsigned int seed = time(NULL), bad = 0;
	int pids[CHILDREN];

	ONLY_KERNEL();
	TH_LOG("seed %u", seed);
	fflush(NULL);
	for (int i = 0; i < CHILDREN; i++) {
		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (!pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			scope_loop(self, seed + i);
		}
	}
	UNTIL(load(&self->sh->step) == CHILDREN);
	for (int i = 0; i < CHILDREN; i++) {
		usleep(rand_r(&seed) % 5000);
		kill(pids[i], SIGKILL);
	}
	for (int i = 0; i < CHILDREN; i++) {
		int status;

		ASSERT_EQ(pids[i], waitpid(pids[i], &status, 0));
		ASSERT_EQ(SIGKILL, WTERMSIG(status));
	}
	SESSIONS(1);
	UNTIL(!t_domain_query(self->a).out_scopes);
	for (u_int64_t i = 0; i < BYTES; i++) {
		struct t_check c = t_check(self->a, C({ self->x, i, i + 1 }));

		if (c.result == CAPKM_CLEAN)
			continue;
		ASSERT_EQ(CAPKM_TAINTED, c.result);
		if (c.r[0].kind != CAPKM_KIND_UNCONFIRMED)
			ASSERT_EQ(CAPKM_KIND_TORN_DOWN, c.r[0].kind);
		bad++;
	}
	TH_LOG("%u bytes of %u are tainted", bad, BYTES);
	ASSERT_EQ(0, t_domain_query(self->a).out_windows);
	ASSERT_EQ(0, t_domain_query(self->a).out_streams);
	ASSERT_EQ(1, t_buffer_query(self->a, self->x).q.out_holders);
}

/* -------------------------------------------------------- what is no test */

/* A domain named "held", with all that capadm has a table for. */
static void hold(void)
{
	struct capkm_domain_create d = { .name_uptr = t_ptr("held"), .name_len = 4 };
	struct capkm_buffer_create n = {
		.bytes = 4096, .flags = CAPKM_BUFFER_CREATE_F_EXPORT,
		.label_uptr = t_ptr("weights"), .label_len = 7,
	};
	struct cl *a = t_client(), *b;
	u_int64_t orphan, mine;

	T_OK(a, DOMAIN_CREATE, &d);
	a->domain = d.out_domain;
	T_OK(a, BUFFER_CREATE, &n);
	t_fail(a, 1, C({ n.out_buffer, 0, 100 }), "no kernel image");
	t_record(a, 2);
	t_write(a, 2, C({ n.out_buffer, 1000, 2000 }));
	b = t_process();
	t_attach(b, a->domain);
	t_open(b, n.out_buffer);
	mine = t_buffer(b, 64);
	t_fail(b, 3, C({ mine, 0, 64 }), "private to the dead");
	orphan = t_record(b, 4);
	t_write(b, 4, C({ n.out_buffer, 3000, 3500 }));
	t_kill(b);
	t_charge(a, t_ledger(a, 0, 100, CAPKM_ON_LIMIT_FAIL), 3);
	printf("%" PRIu64 " %" PRIu64 "\n", a->domain, orphan);
	fflush(stdout);
	rest();
}

static u_int64_t named_domain(struct cl *cl, const char *name, unsigned int limit,
			      u_int64_t value)
{
	struct capkm_limit_value v = { .limit = limit, .value = value };
	struct capkm_domain_create d = {
		.name_uptr = t_ptr(name), .name_len = strlen(name),
		.limits_uptr = t_ptr(&v), .limits_len = !!limit,
	};

	T_OK(cl, DOMAIN_CREATE, &d);
	cl->domain = d.out_domain;
	return d.out_domain;
}

static u_int64_t labelled(struct cl *cl, const char *label)
{
	struct capkm_buffer_create n = {
		.bytes = 4096, .flags = CAPKM_BUFFER_CREATE_F_EXPORT,
		.label_uptr = t_ptr(label), .label_len = strlen(label),
	};

	T_OK(cl, BUFFER_CREATE, &n);
	return n.out_buffer;
}

/* A root cause, and five layers that were skipped for it; two buffers of the last. */
static u_int64_t chain_of_five(struct cl *cl)
{
	static const char *const labels[] = {
		"embedding", "layer 1", "layer 2", "layer 3", "layer 4", "logits",
	};
	u_int64_t b[6], f;
	struct t_enter e;

	for (int i = 0; i < 6; i++)
		b[i] = labelled(cl, labels[i]);
	e = t_try_enter(cl, 1, 0, "gather", NO_CLAIMS, C({ b[0], 0, 100 }));
	f = t_exit_failed(cl, e.scope, "illegal \"address\"");
	for (int i = 0; i < 5; i++)
		t_skip(cl, 1, labels[i + 1], C({ b[i], 0, 10 }), C({ b[i + 1], 0, 4096 }));
	return f;
}

/* The process records, and ends. */
static u_int64_t leave_window(struct cl *cl, u_int64_t buffer, u_int64_t at)
{
	u_int64_t w = t_record(cl, 7);

	t_write(cl, 7, C({ buffer, at, at + 100 }));
	t_kill(cl);
	return w;
}

/*
 * Three domains, for capadm: one with a chain, two orphans on one slot and an open
 * window, one that is nearly full, and one whose process has ended.
 */
static void scene(void)
{
	u_int64_t training, inference, old, failure, b, w[3];
	struct cl *a = t_client(), *full = t_client(), *dead = t_process(), *o[2];

	training = named_domain(a, "training", 0, 0);
	failure = chain_of_five(a);
	b = labelled(a, "gradients");
	for (int i = 0; i < 2; i++) {
		o[i] = t_process();
		t_attach(o[i], training);
		t_open(o[i], b);
		w[i] = leave_window(o[i], b, 1000 * i);
	}
	t_record(a, 2);
	t_write(a, 2, C({ b, 3000, 3100 }));

	inference = named_domain(full, "inference", CAPKM_LIMIT_BUFFERS, 10);
	for (int i = 0; i < 10; i++)
		t_buffer(full, 64);

	old = named_domain(dead, "old", 0, 0);
	b = t_buffer(dead, 4096);
	t_fail(dead, 3, C({ b, 0, 64 }), "private to the dead");
	w[2] = leave_window(dead, b, 1000);

	for (int i = 0; i < 200 && t_domain_query(a).out_orphans < 2; i++)
		usleep(10000);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	       training, inference, old, failure, w[0], w[1], w[2]);
	fflush(stdout);
	rest();
}

/* A window, and one that records a body of it; and the same of a process that has ended. */
static void bodies(void)
{
	struct cl *a = t_client(), *dead = t_process();
	u_int64_t domain = named_domain(a, "bodies", 0, 0), parent, child;

	t_attach(dead, domain);
	parent = t_record(dead, 1);
	child = t_record_child(dead, 2, parent);
	t_kill(dead);
	for (int i = 0; i < 200 && t_domain_query(a).out_orphans < 2; i++)
		usleep(10000);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64, domain, parent, child);
	parent = t_record(a, 1);
	child = t_record_child(a, 2, parent);
	printf(" %d %" PRIu64 " %" PRIu64 "\n", getpid(), parent, child);
	fflush(stdout);
	rest();
}

/* What a run may observe: 1000 captures and 64 MiB of the host, 10 and 4 MiB in a step. */
static u_int64_t new_budget(struct cl *cl)
{
	struct capkm_ledger_create c = {
		.per_step = {
			.captures = 10, .host_bytes = 4 << 20, .encoded_bytes = UINT64_MAX,
		},
		.cumulative = {
			.captures = 1000, .host_bytes = 64 << 20, .encoded_bytes = UINT64_MAX,
		},
		.on_limit = CAPKM_ON_LIMIT_SKIP, .label_uptr = t_ptr("decode"), .label_len = 6,
	};

	T_OK(cl, LEDGER_CREATE, &c);
	return c.out_ledger;
}

/* In its next step it wants three times 4 captures and 1 MiB, of which two fit. */
static void observe_step(struct cl *cl, u_int64_t ledger)
{
	const struct capkm_usage each = { .captures = 4, .host_bytes = 1 << 20 };

	t_step(cl, ledger);
	for (int i = 0; i < 3; i++)
		if (t_reserve(cl, ledger, each).a.out_result !=
		    (i < 2 ? CAPKM_CLEAN : CAPKM_SKIPPED))
			t_die("charge %d of the step", i);
}

/*
 * A run in its first step; with the ledger of one that was killed, that run in its next
 * step; with domain 0, in a domain of its own.
 */
static void budget(u_int64_t domain, u_int64_t ledger)
{
	struct cl *a = t_client();

	if (domain)
		t_attach(a, domain);
	else
		domain = named_domain(a, "short", 0, 0);
	if (!ledger)
		ledger = new_budget(a);
	else if (t_adopt(a, ledger))
		t_die("ledger %" PRIu64 " is not adopted", ledger);
	observe_step(a, ledger);
	printf("%" PRIu64 " %" PRIu64 "\n", domain, ledger);
	fflush(stdout);
	rest();
}

/*
 * It clears the screen, sets the title, turns the text around, ends the line; with
 * controls of one byte, of two, and what is no UTF-8.
 */
static void hostile(void)
{
	struct capkm_ledger_create l = { 0 };
	struct cl *a;
	u_int64_t domain, b;

	prctl(PR_SET_NAME, "\033[2J\233\302\2332J\tx");
	a = t_client();
	domain = named_domain(a, "-\342\200\256\302\2332J\303\251", 0, 0);
	b = labelled(a, "\033]0;owned\a\n\342\200\250\377");
	t_fail(a, 1, C({ b, 0, 100 }), "\033[31mred\r\n\033[1A\342\201\246\\x41");
	t_record(a, 2);
	t_write(a, 2, C({ b, 200, 300 }));
	l.label_uptr = t_ptr("\033c\342\200\256\377");
	l.label_len = 6;
	T_OK(a, LEDGER_CREATE, &l);
	printf("%" PRIu64 " %" PRIu64 "\n", domain, b);
	fflush(stdout);
	rest();
}

/* ---- the operator's guide: each step waits for a line, and says when it is done ---- */

#define CARD T_GPU(0x4e)

/* What the engine shares with its worker. */
enum { WEIGHTS, KV_CACHE, HIDDEN, LOGITS, TOKENS, SHARED };

static const struct {
	const char *label;
	u_int64_t bytes;
} shared_buffers[SHARED] = {
	[WEIGHTS]	= { "weights", 48 << 20 },
	[KV_CACHE]	= { "kv cache", 16 << 20 },
	[HIDDEN]	= { "hidden", 1 << 20 },
	[LOGITS]	= { "logits", 512 << 10 },
	[TOKENS]	= { "tokens", 4096 },
};

static void step_done(void)
{
	char line[16];

	printf("set\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(0);
}

/* The name of a process is that under which it opened. */
static struct cl *named_process(const char *name)
{
	struct cl *cl;

	prctl(PR_SET_NAME, name);
	cl = t_process();
	prctl(PR_SET_NAME, "engine");
	return cl;
}

/* Needs all of one buffer and writes all of another; false if it is skipped. */
static bool does(struct cl *cl, u_int64_t stream, const char *label, const u_int64_t *b,
		 int reads, int writes)
{
	struct t_enter e = t_try_enter(cl, CARD | stream, 0, label,
				       C({ b[reads], 0, shared_buffers[reads].bytes }),
				       C({ b[writes], 0, shared_buffers[writes].bytes }));

	if (e.rc)
		t_die("%s: %d", label, e.rc);
	return e.result == CAPKM_CLEAN && !t_exit(cl, e.scope);
}

static struct cl *start_worker(u_int64_t domain, const u_int64_t *b)
{
	struct cl *cl = named_process("worker");

	t_attach(cl, domain);
	for (int i = 0; i < SHARED; i++)
		t_open(cl, b[i]);
	return cl;
}

/* One step of decoding, in a window of @stream. */
static u_int64_t record_step(struct cl *cl, u_int64_t stream, const u_int64_t *b)
{
	u_int64_t w = t_record(cl, CARD | stream);

	if (!does(cl, stream, "attention", b, KV_CACHE, HIDDEN) ||
	    !does(cl, stream, "unembed", b, HIDDEN, LOGITS))
		t_die("the step is not recorded");
	return w;
}

static void replay_step(struct cl *cl, u_int64_t stream, u_int64_t window)
{
	t_end(cl, CARD | stream);
	t_replay(cl, t_seal(cl, window), CARD | stream);
}

/* While it records, and while the next request is under way. */
static void killed_in_capture(struct cl *cl, struct cl *engine, const u_int64_t *b)
{
	record_step(cl, 7, b);
	if (t_try_enter(cl, CARD | 8, 0, "prefill", NO_CLAIMS,
			C({ b[KV_CACHE], 4 << 20, 6 << 20 })).rc)
		t_die("the next request does not come in");
	t_kill(cl);
	while (!t_domain_query(engine).out_orphans)
		usleep(1000);
	if (does(engine, 1, "sample", b, LOGITS, TOKENS))
		t_die("work that needs the logits is not skipped");
}

/* Beside it a domain that is well, and records: it is to be left alone. */
static u_int64_t start_trainer(void)
{
	struct cl *cl = named_process("trainer");
	u_int64_t domain = named_domain(cl, "training", 0, 0);

	t_record(cl, CARD | 3);
	t_write(cl, CARD | 3, C({ labelled(cl, "gradients"), 0, 4096 }));
	return domain;
}

/* Somebody wants to see what the trainer computes, and is killed in the third step. */
static void killed_in_step(u_int64_t domain)
{
	struct cl *cl = named_process("probe");
	u_int64_t ledger;

	t_attach(cl, domain);
	ledger = new_budget(cl);
	for (int i = 0; i < 3; i++)
		observe_step(cl, ledger);
	step_done();
	t_kill(cl);
}

static void worker(void)
{
	u_int64_t domain, training, b[SHARED];
	struct cl *engine, *cl;

	prctl(PR_SET_NAME, "engine");
	engine = t_client();
	domain = named_domain(engine, "inference", 0, 0);
	for (int i = 0; i < SHARED; i++) {
		struct capkm_buffer_create n = {
			.bytes = shared_buffers[i].bytes, .device[0] = CARD >> 56,
			.flags = CAPKM_BUFFER_CREATE_F_EXPORT,
			.label_uptr = t_ptr(shared_buffers[i].label),
			.label_len = strlen(shared_buffers[i].label),
		};

		T_OK(engine, BUFFER_CREATE, &n);
		b[i] = n.out_buffer;
	}
	t_write(engine, CARD | 1, C({ b[WEIGHTS], 0, shared_buffers[WEIGHTS].bytes }));
	cl = start_worker(domain, b);
	training = start_trainer();
	does(cl, 7, "prefill", b, WEIGHTS, KV_CACHE);
	replay_step(cl, 7, record_step(cl, 7, b));
	does(engine, 1, "sample", b, LOGITS, TOKENS);
	step_done();

	killed_in_capture(cl, engine, b);
	step_done();

	/* Its manager has started it again. */
	cl = start_worker(domain, b);
	does(cl, 7, "prefill", b, WEIGHTS, KV_CACHE);
	replay_step(cl, 7, record_step(cl, 7, b));
	if (!does(engine, 1, "sample", b, LOGITS, TOKENS) || t_failures(engine))
		t_die("all is not written again");
	step_done();

	killed_in_capture(cl, engine, b);
	step_done();

	killed_in_step(training);
	step_done();
}

/* The domain, and how many events there will be, at least: four of each window. */
static int events(unsigned int n, bool slow)
{
	struct capkm_domain_create d = { 0 };
	struct cl *a = t_client();

	T_OK(a, DOMAIN_CREATE, &d);
	a->domain = d.out_domain;
	printf("%" PRIu64 " %u\n", a->domain, n);
	fflush(stdout);
	if (slow)
		sleep(5);
	for (unsigned int i = 0; i < n; i += 4) {
		t_record(a, 1);
		t_abort(a, 1);
		if (slow)
			usleep(1000);
	}
	return 0;
}

/* Windows, for so long, each of which becomes the graph that it should; then it rests. */
static int captures(int seconds)
{
	time_t end = time(NULL) + seconds;
	struct capkm_domain_create d = {
		.name_uptr = t_ptr("watched"), .name_len = 7, .mode = 0644,
	};
	struct cl *a = t_client();
	unsigned int i;
	struct capkm_window_end e;
	u_int64_t x, w, g;

	T_OK(a, DOMAIN_CREATE, &d);
	a->domain = d.out_domain;
	x = labelled(a, "x");
	for (i = 0; time(NULL) < end; i++) {
		u_int64_t at = i % 4000;

		w = t_record(a, 1);
		t_write(a, 1, C({ x, at, at + 10 }));
		e = t_end(a, 1);
		if (e.out_recorded != 1 || e.out_doomed)
			t_die("window %u has %u claims", i, (unsigned int)e.out_recorded);
		g = t_seal(a, w);
		t_graph_is(a, g, 0, C({ x, at, at + 10 }));
		if (t_destroy(a, g))
			t_die("graph %u does not go", i);
	}
	printf("%u\n", i);
	fflush(stdout);
	rest();
}

static int mutate(int fd)
{
	struct capkm_stream_create a = { 0 };

	if (raw(fd, CAPKM_NR_STREAM_CREATE, &a) != -EPERM)
		return 1;
	raise(SIGSTOP);
	return 0;
}

/* The harness has a main of its own. */
#define main run_tests
TEST_HARNESS_MAIN
#undef main

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "--hold"))
		hold();
	if (!strcmp(what, "--scene"))
		scene();
	if (!strcmp(what, "--bodies"))
		bodies();
	if (!strcmp(what, "--budget") && argc > 2)
		budget(atoll(argv[2]), argc > 3 ? atoll(argv[3]) : 0);
	if (!strcmp(what, "--hostile"))
		hostile();
	if (!strcmp(what, "--worker"))
		worker();
	if (!strcmp(what, "--events") && argc > 2)
		return events(atoi(argv[2]), argc > 3);
	if (!strcmp(what, "--captures") && argc > 2)
		return captures(atoi(argv[2]));
	if (!strcmp(what, "--pause"))
		rest();
	if (!strcmp(what, "--true"))
		return 0;
	if (!strcmp(what, "--mutate") && argc > 2)
		return mutate(atoi(argv[2]));
	return run_tests(argc, argv);
}
