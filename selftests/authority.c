// SPDX-License-Identifier: GPL-2.0-only
/*
 * Several processes and the module: sessions with more than one client, whatever
 * may keep a description when its client is gone, containers, rights, events.
 *
 *   authority --ready   no test: a program to exec; says that it runs, and rests
 */
#include "process.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define BYTES 128
#define NS_LAST_PID "/proc/sys/kernel/ns_last_pid"
#define PARAMETERS "/sys/module/capkm/parameters/"

FIXTURE(authority)
{
	struct cl *a;		/* who survives */
	u_int64_t x;		/* everybody holds it */
};

#define SELF FIXTURE_DATA(authority)

FIXTURE_SETUP(authority)
{
	/* The harness goes on after a setup that skips: the tests do. */
	if (t_embedded())
		return;
	self->a = t_client();
	t_domain_mode(self->a, 0606);
	self->x = t_shared(self->a, BYTES);
}

/* Whatever was left can be mended by writing, and by abandoning the orphans. */
FIXTURE_TEARDOWN(authority)
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
	EXPECT_EQ(0, d.out_windows);
	EXPECT_EQ(0, d.out_unconfirmed);
	t_close(self->a);
}

static int with(SELF *self, struct cl *cl)
{
	t_attach(cl, self->a->domain);
	t_open(cl, self->x);
	return 0;
}

/* A process with a session of its own in the domain. */
static struct cl *process(SELF *self)
{
	struct cl *b = t_process();

	with(self, b);
	return b;
}

#define SESSIONS(n) UNTIL(t_domain_query(self->a).out_sessions == (n))
#define CLIENTS(n) UNTIL(t_domain_query(self->a).out_clients == (n))
#define IS_OPEN(scope) t_is_open(self->a, self->x, 0, 64, scope)
/* Now, not soon. */
#define IS_TORN() t_is_tainted(self->a, self->x, 0, 64, CAPKM_KIND_TORN_DOWN)

static u_int64_t scope_of(SELF *self, struct cl *cl)
{
	return t_enter(cl, 4711, NO_CLAIMS, C({ self->x, 0, 64 }));
}

/* Dead, and not reaped. */
static void kill_zombie(struct cl *cl)
{
	siginfo_t si;

	kill(cl->pid, SIGKILL);
	if (waitid(P_PID, cl->pid, &si, WEXITED | WNOWAIT))
		t_die("waitid: %s", strerror(errno));
}

static int number(struct cl *cl, int (*fn)(struct capkm *c, void *arg))
{
	int n = 0;

	T_AT;
	t_run(cl, fn, &n, sizeof(n));
	return n;
}

/* A child that keeps all descriptors; its pid. */
static int fork_keeper(struct capkm *c, void *arg)
{
	int pid = fork();

	if (!pid) {
		close(3);	/* not what the test talks through */
		rest();
	}
	*(int *)arg = pid;
	return 0;
}

static void kill_keeper(int pid)
{
	kill(pid, SIGKILL);
}

static int close_fd(struct capkm *c, void *arg)
{
	return close(t_fd_fn(c, NULL));
}

/* ------------------------------------------------ what keeps the description */

/* C77: a zombie is dead, whoever keeps its description. */
TEST_F(authority, zombie)
{
	int keeper;
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	IS_OPEN(scope_of(self, b));
	keeper = number(b, fork_keeper);
	kill_zombie(b);
	IS_TORN();
	t_is_clean(self->a, self->x, 64, BYTES);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	t_kill(b);
	kill_keeper(keeper);
	SESSIONS(1);
}

static int dup_and_close(struct capkm *c, void *arg)
{
	*(int *)arg = dup(capkm_fd(c));
	return close(capkm_fd(c));
}

static int close_that(struct capkm *c, void *arg)
{
	return close(*(int *)arg);
}

/* The last of the process's descriptors is an end, whoever else has one. */
TEST_F(authority, last_close)
{
	int keeper, fd = 0;
	u_int64_t scope;
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	scope = scope_of(self, b);
	keeper = number(b, fork_keeper);
	ASSERT_EQ(0, t_run(b, dup_and_close, &fd, sizeof(fd)));
	IS_OPEN(scope);
	ASSERT_EQ(0, t_run(b, close_that, &fd, sizeof(fd)));
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	t_kill(b);
	kill_keeper(keeper);
	SESSIONS(1);
}

static int close_all(struct capkm *c, void *arg)
{
	int fd = capkm_fd(c);

	dup(fd);
	return syscall(SYS_close_range, fd, ~0u, 0);
}

TEST_F(authority, close_range)
{
	char none = 0;
	int keeper;
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	scope_of(self, b);
	keeper = number(b, fork_keeper);
	ASSERT_EQ(0, t_run(b, close_all, &none, 1));
	IS_TORN();
	t_kill(b);
	kill_keeper(keeper);
	SESSIONS(1);
}

/*
 * Somebody to whom the process gave a descriptor by SCM_RIGHTS keeps it when the
 * process is gone, and has closed his own before.
 */
TEST_F(authority, passed_to_the_test)
{
	char *before;
	u_int64_t scope;
	struct cl *b;
	int fd, pidfd;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	scope = scope_of(self, b);
	pidfd = syscall(SYS_pidfd_open, b->pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, t_run(b, t_fd_fn, &none, 1), 0);
	ASSERT_GE(fd, 0);
	close(pidfd);
	before = t_dump(self->a);
	ASSERT_EQ(0, try_mutating(fd, -EPERM));
	t_unchanged(self->a, before);
	IS_OPEN(scope);
	kill_zombie(b);
	IS_TORN();
	ASSERT_EQ(0, try_mutating(fd, -EPERM));
	t_kill(b);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(fd);
	SESSIONS(1);
}

static int ring_with(int fd)
{
	struct io_uring_params p = { 0 };
	int ring = syscall(SYS_io_uring_setup, 1, &p);

	if (ring < 0)
		return -errno;
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1))
		return -errno;
	return close(fd);
}

/* A child that keeps the description in a ring, and in no file table. */
static int fork_ring(struct capkm *c, void *arg)
{
	int told[2], pid, err;

	if (pipe(told))
		return -errno;
	pid = fork();
	if (!pid) {
		close(3);
		err = ring_with(capkm_fd(c));
		if (write(told[1], &err, sizeof(err)) == sizeof(err))
			rest();
		_exit(1);
	}
	close(told[1]);
	if (read(told[0], &err, sizeof(err)) != sizeof(err))
		err = -EPIPE;
	close(told[0]);
	*(int *)arg = pid;
	return err;
}

#define NEEDS_RING(rc) do {						\
	int rc_ = (rc);							\
									\
	if (rc_ == -ENOSYS || rc_ == -EPERM)				\
		SKIP(return, "this kernel gives no io_uring: %s", strerror(-rc_)); \
	ASSERT_EQ(0, rc_);						\
} while (0)

TEST_F(authority, ring)
{
	u_int64_t scope;
	struct cl *b;
	int child = 0;

	ONLY_KERNEL();
	b = process(self);
	scope = scope_of(self, b);
	NEEDS_RING(t_run(b, fork_ring, &child, sizeof(child)));
	IS_OPEN(scope);
	kill_zombie(b);
	IS_TORN();
	t_kill(b);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	kill(child, SIGKILL);
	SESSIONS(1);
}

static int own_ring(struct capkm *c, void *arg)
{
	return ring_with(capkm_fd(c));
}

/* A ring is no descriptor: who has only that has left. */
TEST_F(authority, ring_of_its_own)
{
	struct cl *b;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	scope_of(self, b);
	NEEDS_RING(t_run(b, own_ring, &none, 1));
	IS_TORN();
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	t_kill(b);
	SESSIONS(1);
}

/* ------------------------------------------------------------------------ exec */

/* The new program takes the process's turn in the talk with the test. */
static int exec_ready(struct capkm *c, void *arg)
{
	fcntl(capkm_fd(c), F_SETFD, *(int *)arg);
	execl("/proc/self/exe", "authority", "--ready", NULL);
	return -errno;
}

static void exec_in_window(struct __test_metadata *_metadata, SELF *self, int flags)
{
	struct cl *b = process(self);
	int keeper = number(b, fork_keeper);
	u_int64_t w = t_record(b, 2);

	t_write(b, 2, C({ self->x, 64, 100 }));
	IS_OPEN(scope_of(self, b));
	t_run(b, exec_ready, &flags, sizeof(flags));
	/* It has made no call. */
	IS_TORN();
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	t_is_tainted(self->a, self->x, 64, 100, CAPKM_KIND_OWNER_DIED);
	t_is_clean(self->a, self->x, 100, BYTES);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	ASSERT_EQ(0, t_abandon(self->a, w));
	kill_keeper(keeper);
	if (flags)
		SESSIONS(1);
	t_kill(b);
	SESSIONS(1);
}

/* C82: an exec is seen when it happens, also if the descriptors stay open. */
TEST_F(authority, exec_keeps_descriptors)
{
	ONLY_KERNEL();
	exec_in_window(_metadata, self, 0);
}

TEST_F(authority, exec_closes_descriptors)
{
	ONLY_KERNEL();
	exec_in_window(_metadata, self, FD_CLOEXEC);
}

/* ------------------------------------------------------------ threads and tables */

static int other_fd, other_step;
static pthread_t other;

static void *own_table(void *arg)
{
	if (unshare(CLONE_FILES))
		_exit(1);
	store(&other_step, 1);
	while (load(&other_step) != 2)
		usleep(1000);
	close(other_fd);
	store(&other_step, 3);
	rest();
}

static int start_own_table(struct capkm *c, void *arg)
{
	other_fd = capkm_fd(c);
	if (pthread_create(&other, NULL, own_table, NULL))
		return -1;
	while (load(&other_step) != 1)
		usleep(1000);
	return 0;
}

static int end_own_table(struct capkm *c, void *arg)
{
	store(&other_step, 2);
	while (load(&other_step) != 3)
		usleep(1000);
	return 0;
}

/* A thread's own table says nothing about the process's. */
TEST_F(authority, thread_closes_own_table)
{
	u_int64_t scope;
	struct cl *b;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	scope = scope_of(self, b);
	ASSERT_EQ(0, t_run(b, start_own_table, &none, 1));
	ASSERT_EQ(0, t_run(b, end_own_table, &none, 1));
	IS_OPEN(scope);
	ASSERT_EQ(0, t_exit(b, scope));
	scope_of(self, b);
	kill_zombie(b);
	IS_TORN();
	t_kill(b);
	SESSIONS(1);
}

/* With several tables the last close is not looked for: its exit counts. */
TEST_F(authority, threads_close_all_tables)
{
	u_int64_t scope;
	struct cl *b;
	char none = 0;
	int keeper;

	ONLY_KERNEL();
	b = process(self);
	keeper = number(b, fork_keeper);
	scope = scope_of(self, b);
	ASSERT_EQ(0, t_run(b, start_own_table, &none, 1));
	ASSERT_EQ(0, t_run(b, close_fd, &none, 1));
	IS_OPEN(scope);
	ASSERT_EQ(0, t_run(b, end_own_table, &none, 1));
	IS_OPEN(scope);
	kill_zombie(b);
	IS_TORN();
	t_kill(b);
	kill_keeper(keeper);
	SESSIONS(1);
}

/* Another process with the same table closes what is left in it. */
static int close_by_other(struct capkm *c, void *arg)
{
	int status, pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);

	if (!pid) {
		close(capkm_fd(c));
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST_F(authority, shared_table)
{
	struct cl *b;
	char none = 0;
	int keeper;

	ONLY_KERNEL();
	b = process(self);
	keeper = number(b, fork_keeper);
	scope_of(self, b);
	ASSERT_EQ(0, t_run(b, close_by_other, &none, 1));
	IS_TORN();
	ASSERT_EQ(0, waitpid(b->pid, NULL, WNOHANG));
	t_kill(b);
	kill_keeper(keeper);
	SESSIONS(1);
}

/* ------------------------------------------------------- clients of one session */

/* C79, C81: a stranger may look; when he has joined he has what is his own. */
TEST_F(authority, child_joins)
{
	u_int64_t mine, its, w;
	struct cl *b, *c;
	char none = 0;
	int fd;

	ONLY_KERNEL();
	b = process(self);
	mine = t_enter(b, 4711, NO_CLAIMS, C({ self->x, 0, 64 }));
	c = t_second(b);
	T_REFUSED(self->a, -EPERM, t_try_exit(c, mine));
	fd = t_run(c, t_fd_fn, &none, 1);
	ASSERT_EQ(T_RPC_FD, fd);
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);

	ASSERT_EQ(0, t_try_join_session(c));
	ASSERT_EQ(3, t_domain_query(self->a).out_clients);
	T_REFUSED(self->a, 0, t_try_join_session(c));
	T_REFUSED(self->a, 0, t_try_join_session(b));
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);

	/* Not the other client's, though of the same session. */
	T_REFUSED(self->a, -EPERM, t_try_exit(c, mine));
	its = t_enter(c, 4711, NO_CLAIMS, C({ self->x, 64, BYTES }));
	w = t_record(c, 2);
	T_REFUSED(self->a, -EPERM, t_try_exit(b, its));
	T_REFUSED(self->a, -EPERM, t_try_seal(b, w, 0).rc);

	/* Each dies alone. */
	kill_zombie(c);
	t_is_tainted(self->a, self->x, 64, BYTES, CAPKM_KIND_TORN_DOWN);
	IS_OPEN(mine);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(self->a, w).q.out_state);
	t_kill(c);
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	ASSERT_EQ(0, t_exit(b, mine));
	ASSERT_EQ(0, t_abandon(b, w));
	t_kill(b);
	SESSIONS(1);
}

/* The opener goes, the session lives on with the client that it has left. */
TEST_F(authority, opener_dies)
{
	u_int64_t its, w;
	struct cl *b, *c;

	ONLY_KERNEL();
	b = process(self);
	c = t_join_session(b);
	w = t_record(b, 2);
	scope_of(self, b);
	its = t_enter(c, 4711, NO_CLAIMS, C({ self->x, 64, BYTES }));
	kill_zombie(b);
	IS_TORN();
	t_is_open(self->a, self->x, 64, BYTES, its);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(0, t_exit(c, its));
	ASSERT_EQ(0, t_abandon(c, w));
	t_kill(b);
	t_write(c, 1, C({ self->x, 0, 64 }));
	t_close(c);
	SESSIONS(1);
}

/*
 * Who has left by his last close has left, though he gets a descriptor back; he
 * may join as anybody else.
 */
TEST_F(authority, comes_back)
{
	struct capkm_stream_create create = { 0 };
	struct capkm_session_join j = { 0 };
	int back, sock[2];
	struct cl *b;

	ONLY_KERNEL();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	b = t_client();
	with(self, b);
	scope_of(self, b);
	send_fd(sock[1], capkm_fd(b->c));
	ASSERT_EQ(0, close(capkm_fd(b->c)));
	IS_TORN();
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	back = receive_fd(sock[0]);
	ASSERT_GE(back, 0);
	ASSERT_EQ(-ECANCELED, raw(back, CAPKM_NR_STREAM_CREATE, &create));
	ASSERT_EQ(0, raw(back, CAPKM_NR_SESSION_JOIN, &j));
	ASSERT_EQ(b->session, j.out_session);
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	ASSERT_EQ(0, raw(back, CAPKM_NR_STREAM_CREATE, &create));
	/* And leave again. */
	send_fd(sock[1], back);
	close(back);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	close(sock[0]);
	close(sock[1]);
	SESSIONS(1);
}

struct wrong_join {
	u_int64_t at;
	int rc;
};

static int join_at(struct capkm *c, void *arg)
{
	struct wrong_join *j = arg;

	j->rc = t_ioctl(T_RPC_FD, CAPKM_NR_SESSION_JOIN, (void *)(uintptr_t)j->at);
	return 0;
}

/* A join that fails leaves a stranger, and nobody's end behind. */
TEST_F(authority, failed_join)
{
	struct wrong_join j = { .at = 8 };
	struct cl *b, *c;
	u_int64_t scope;

	ONLY_KERNEL();
	b = process(self);
	scope = scope_of(self, b);
	c = t_second(b);
	for (int i = 0; i < 3; i++) {
		t_run(c, join_at, &j, sizeof(j));
		ASSERT_EQ(-EFAULT, j.rc);
	}
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	kill_zombie(c);
	IS_OPEN(scope);
	t_kill(c);
	t_kill(b);
}

/* An image that was replaced and its successor are two clients. */
static int exec_then_join(struct capkm *c, void *arg)
{
	char fd[16];

	fcntl(capkm_fd(c), F_SETFD, 0);
	snprintf(fd, sizeof(fd), "%d", capkm_fd(c));
	execl("/proc/self/exe", "authority", "--join", fd, NULL);
	return -errno;
}

TEST_F(authority, exec_and_join)
{
	struct cl *b;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	scope_of(self, b);
	t_run(b, exec_then_join, &none, 1);
	IS_TORN();
	/* The new image has joined; nothing that comes later ends it. */
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	for (int i = 0; i < 3; i++) {
		usleep(1000);
		ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	}
	kill_zombie(b);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	t_kill(b);
	SESSIONS(1);
}

/*
 * A service is killed, its manager keeps the descriptor, the next instance joins:
 * it finds the session's buffers and what is to be thought of them, and its
 * predecessor's window.
 */
TEST_F(authority, service_restarts)
{
	u_int64_t done, dirty, confirmed, w;
	int fd, pidfd;
	struct cl *b, *c;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	pidfd = syscall(SYS_pidfd_open, b->pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, t_run(b, t_fd_fn, &none, 1), 0);
	ASSERT_GE(fd, 0);
	close(pidfd);
	done = t_buffer(b, BYTES);
	dirty = t_buffer(b, BYTES);
	confirmed = t_buffer(b, BYTES);
	t_write(b, 1, C({ done, 0, BYTES }));
	t_write_enqueued(b, 1, C({ confirmed, 0, 10 }));
	t_confirm(b, 1);
	t_write_enqueued(b, 3, C({ dirty, 0, 10 }));
	t_write_enqueued(b, 3, C({ self->x, 64, 100 }));
	w = t_record(b, 2);
	t_write(b, 2, C({ self->x, 100, BYTES }));
	scope_of(self, b);
	t_kill(b);

	IS_TORN();
	t_is_tainted(self->a, self->x, 64, 100, CAPKM_KIND_UNCONFIRMED);
	t_is_tainted(self->a, self->x, 100, BYTES, CAPKM_KIND_OWNER_DIED);
	ASSERT_EQ(2, t_domain_query(self->a).out_sessions);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);

	c = t_spawn(fd);
	close(fd);
	ASSERT_EQ(0, t_try_join_session(c));
	t_is_confirmed(c, done, 0, BYTES);
	t_is_confirmed(c, confirmed, 0, BYTES);
	/* Private, so as a whole. */
	t_is_tainted(c, dirty, 0, BYTES, CAPKM_KIND_UNCONFIRMED);
	t_is_tainted(c, dirty, 100, BYTES, CAPKM_KIND_UNCONFIRMED);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED, t_window(c, w).q.out_state);
	ASSERT_EQ(c->session, t_window(c, w).q.out_session);
	T_REFUSED(c, -EPERM, t_try_seal(c, w, 0).rc);
	ASSERT_EQ(0, t_abandon(c, w));
	t_write(c, 1, C({ dirty, 0, BYTES }, { self->x, 0, BYTES }));
	t_is_confirmed(c, dirty, 0, BYTES);
	ASSERT_EQ(0, t_failures(c));
	t_close(c);
	SESSIONS(1);
}

/* ---------------------------------------------------------------- pids and users */

struct inside {
	int pid, rc, step;
	u_int64_t scope, window;
	unsigned int seen[2], window_pid[2];
};

struct spaces {
	struct inside in[2];
	int look;
};

/* Process 2 of a pid namespace; it shares nothing with process 2 of another. */
static void namesake(SELF *self, struct spaces *sp, int i)
{
	struct inside *in = &sp->in[i];
	struct cl *cl = t_client();

	with(self, cl);
	in->pid = getpid();
	in->scope = t_enter(cl, 1, NO_CLAIMS,
			    C({ self->x, (u_int64_t)i * 64, (u_int64_t)i * 64 + 64 }));
	in->window = t_record(cl, 2);
	store(&in->step, 1);
	while (!load(&sp->look))
		usleep(1000);
	for (int j = 0; j < 2; j++) {
		struct t_check c = t_check(cl, C({ self->x, (u_int64_t)j * 64,
						   (u_int64_t)j * 64 + 64 }));

		in->seen[j] = c.r[0].pid;
		in->window_pid[j] = t_window(cl, sp->in[j].window).q.out_pid;
	}
	store(&in->step, 2);
	rest();
}

/* Of a new namespace; killing it kills all that is in there. */
static int start_space(SELF *self, struct spaces *sp, int i)
{
	int pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(CLONE_NEWPID))
		_exit(1);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!fork())
			namesake(self, sp, i);
		rest();
	}
	rest();
}

/* Both are process 2. Each sees itself and not the other, and one dies alone. */
TEST_F(authority, pid_namespaces)
{
	unsigned int pids[2];
	struct spaces *sp;
	int outer[2];

	ONLY_KERNEL();
	sp = mmap(NULL, sizeof(*sp), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		  -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)sp);
	for (int i = 0; i < 2; i++)
		outer[i] = start_space(self, sp, i);
	for (int i = 0; i < 2; i++)
		UNTIL(load(&sp->in[i].step) == 1);
	ASSERT_EQ(2, sp->in[0].pid);
	ASSERT_EQ(2, sp->in[1].pid);
	for (int i = 0; i < 2; i++)
		pids[i] = t_check(self->a, C({ self->x, (u_int64_t)i * 64,
					       (u_int64_t)i * 64 + 64 })).r[0].pid;
	ASSERT_GT(pids[0], 2);
	ASSERT_GT(pids[1], 2);
	ASSERT_NE(pids[0], pids[1]);
	store(&sp->look, 1);
	for (int i = 0; i < 2; i++) {
		UNTIL(load(&sp->in[i].step) == 2);
		ASSERT_EQ(2, sp->in[i].seen[i]);
		ASSERT_EQ(0, sp->in[i].seen[!i]);
		ASSERT_EQ(2, sp->in[i].window_pid[i]);
		ASSERT_EQ(0, sp->in[i].window_pid[!i]);
	}
	kill(pids[0], SIGKILL);
	UNTIL(t_check(self->a, C({ self->x, 0, 64 })).r[0].kind == CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(pids[0], IS_TORN().pid);
	t_is_open(self->a, self->x, 64, BYTES, sp->in[1].scope);
	ASSERT_EQ(CAPKM_WINDOW_ORPHANED,
		  t_window(self->a, sp->in[0].window).q.out_state);
	ASSERT_EQ(CAPKM_WINDOW_CAPTURE, t_window(self->a, sp->in[1].window).q.out_state);
	for (int i = 0; i < 2; i++) {
		kill(outer[i], SIGKILL);
		waitpid(outer[i], NULL, 0);
	}
	SESSIONS(1);
	for (int i = 0; i < 2; i++)
		ASSERT_EQ(0, t_abandon(self->a, sp->in[i].window));
	munmap(sp, sizeof(*sp));
}

static int become(struct capkm *c, void *arg)
{
	int id = *(int *)arg;

	if (setgroups(0, NULL) || setresgid(id, id, id) || setresuid(id, id, id))
		return -errno;
	return 0;
}

static void as_user(struct cl *cl, int id)
{
	T_AT;
	if (t_run(cl, become, &id, sizeof(id)))
		t_die("cannot become user %d", id);
}

struct in_container {
	int uid;		/* of the user outside */
	int rc;
	unsigned int seen_uid, seen_owner;
	u_int64_t domain;
};

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2] = { 0 };

	return syscall(SYS_capset, &h, d);
}

/* In a user namespace, without a capability, by the name of its own domain. */
static int attach_from_container(struct capkm *unused, void *arg)
{
	struct capkm_domain_attach a = { .name_uptr = t_ptr("mine"), .name_len = 4 };
	struct capkm_domain_query q = { 0 };
	struct in_container *in = arg;
	int up[2], down[2], pid, status, fd;
	char path[64], map[64], token;

	if (pipe(up) || pipe(down))
		return -errno;
	pid = fork();
	if (!pid) {
		if (setresgid(in->uid, in->uid, in->uid) ||
		    setresuid(in->uid, in->uid, in->uid) || unshare(CLONE_NEWUSER) ||
		    write(up[1], "", 1) != 1 || read(down[0], &token, 1) != 1 ||
		    drop_capabilities())
			_exit(100);
		if (getuid())
			_exit(101);
		fd = open("/dev/capkm", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			_exit(102);
		in->rc = raw(fd, CAPKM_NR_DOMAIN_ATTACH, &a);
		if (!in->rc)
			in->rc = raw(fd, CAPKM_NR_DOMAIN_QUERY, &q);
		if (write(up[1], &in->rc, 4) != 4 || write(up[1], &q.out_domain, 8) != 8 ||
		    write(up[1], &q.out_uid, 4) != 4)
			_exit(103);
		_exit(0);
	}
	if (read(up[0], &token, 1) != 1)
		return -1;
	/* By root, since its user may no longer. */
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	snprintf(map, sizeof(map), "0 %d 1", in->uid);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, map, strlen(map)) < 0 || write(down[1], "", 1) != 1)
		return -errno;
	close(fd);
	if (read(up[0], &in->rc, 4) != 4 || read(up[0], &in->domain, 8) != 8 ||
	    read(up[0], &in->seen_uid, 4) != 4)
		return -1;
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

static int create_named(struct capkm *c, void *arg)
{
	struct capkm_domain_create a = {
		.size = sizeof(a), .name_uptr = t_ptr("mine"), .name_len = 4,
	};
	int rc = capkm_call(c, CAPKM_NR_DOMAIN_CREATE, &a);

	*(u_int64_t *)arg = a.out_domain;
	return rc;
}

/* A user is the same inside of a container as outside; another one is another. */
TEST_F(authority, user_namespaces)
{
	struct in_container in = { .uid = 1000 };
	u_int64_t domain = 0;
	struct cl *owner;

	ONLY_KERNEL();
	owner = t_process();
	as_user(owner, 1000);
	ASSERT_EQ(0, t_run(owner, create_named, &domain, sizeof(domain)));
	ASSERT_EQ(0, attach_from_container(NULL, &in));
	ASSERT_EQ(0, in.rc);
	ASSERT_EQ(domain, in.domain);
	ASSERT_EQ(0, in.seen_uid);
	in = (struct in_container){ .uid = 2000 };
	ASSERT_EQ(0, attach_from_container(NULL, &in));
	ASSERT_EQ(-ENOENT, in.rc);
	t_close(owner);
}

/* C78: the next process with the number of a dead client is not the client. */
TEST_F(authority, pid_reuse)
{
	struct capkm_report r;
	u_int64_t scope;
	struct cl *b, *c;
	int fd, pid, pidfd;
	char none = 0;

	ONLY_KERNEL();
	if (access(NS_LAST_PID, W_OK))
		SKIP(return, "this kernel cannot choose a pid");
	b = process(self);
	pid = b->pid;
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, t_run(b, t_fd_fn, &none, 1), 0);
	ASSERT_GE(fd, 0);
	close(pidfd);
	scope = scope_of(self, b);
	t_kill(b);
	r = IS_TORN();
	ASSERT_EQ((unsigned int)pid, r.pid);

	/* Until somebody of that number has the descriptor. */
	for (int tries = 0;; tries++) {
		FILE *f = fopen(NS_LAST_PID, "w");

		ASSERT_NE(NULL, f);
		fprintf(f, "%d", pid - 1);
		fclose(f);
		c = t_spawn(fd);
		if (c->pid == pid)
			break;
		t_kill(c);
		ASSERT_LT(tries, 1000);
	}
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	T_REFUSED(self->a, -EPERM, t_try_exit(c, scope));
	ASSERT_EQ(0, t_try_join_session(c));
	ASSERT_EQ(2, t_domain_query(self->a).out_clients);
	t_enter(c, 1, NO_CLAIMS, C({ self->x, 64, BYTES }));
	IS_TORN();
	t_kill(c);
	t_is_tainted(self->a, self->x, 64, BYTES, CAPKM_KIND_TORN_DOWN);
	ASSERT_EQ(1, t_domain_query(self->a).out_clients);
	close(fd);
	SESSIONS(1);
}

/* -------------------------------------------------------------------- waiting */

struct waiter {
	pthread_t thread;
	struct cl *cl;
	u_int64_t window;
	struct t_wait got;
	int tid;
};

static void *wait_for_window(void *arg)
{
	struct waiter *w = arg;

	store(&w->tid, gettid());
	w->got = t_wait(w->cl, w->window, 0, UINT64_MAX);
	return NULL;
}

static bool sleeps(int tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

#define START_WAITER(w) do {						\
	ASSERT_EQ(0, pthread_create(&(w)->thread, NULL, wait_for_window, w)); \
	UNTIL(load(&(w)->tid) && sleeps((w)->tid));			\
} while (0)

/* C65, C67: who waits for the window of a process that dies is told so. */
TEST_F(authority, wait_for_the_dying)
{
	struct waiter w[2] = { 0 };
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	w[0].window = t_record(b, 2);
	w[1].window = t_prepare(b, 3);
	for (int i = 0; i < 2; i++) {
		w[i].cl = t_client();
		t_attach(w[i].cl, self->a->domain);
		START_WAITER(&w[i]);
	}
	t_kill(b);
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
		ASSERT_EQ(0, w[i].got.rc);
		ASSERT_EQ(w[i].window, w[i].got.window);
		ASSERT_EQ(CAPKM_WINDOW_ORPHANED, w[i].got.state);
		ASSERT_EQ(CAPKM_KIND_OWNER_DIED, w[i].got.kind);
		ASSERT_EQ(0, t_abandon(self->a, w[i].window));
		t_close(w[i].cl);
	}
}

/* The same for one whose domain goes. */
TEST_F(authority, wait_in_destroyed_domain)
{
	struct capkm_domain_destroy d = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };
	struct cl *owner, *b;
	struct waiter w = { 0 };

	ONLY_KERNEL();
	owner = t_client();
	d.domain = t_domain(owner);
	b = t_process();
	t_attach(b, d.domain);
	w.window = t_record(b, 2);
	w.cl = t_client();
	t_attach(w.cl, d.domain);
	START_WAITER(&w);
	ASSERT_EQ(0, t_call(self->a, CAPKM_NR_DOMAIN_DESTROY, &d));
	ASSERT_EQ(0, pthread_join(w.thread, NULL));
	ASSERT_EQ(-ECANCELED, w.got.rc);
	t_close(w.cl);
	t_close(b);
	t_close(owner);
}

/* ------------------------------------------------------------------------ many */

#define MANY_SCOPES 25
#define MANY (MANY_SCOPES * CAPKM_CLAIMS_MAX)

static int dead_now;

static void *reap(void *arg)
{
	struct cl *cl = arg;
	siginfo_t si;

	kill(cl->pid, SIGKILL);
	waitid(P_PID, cl->pid, &si, WEXITED | WNOWAIT);
	store(&dead_now, 1);
	return NULL;
}

static void fill_claims(struct capkm_claim *c, u_int64_t buffer, int i)
{
	for (u_int64_t j = 0; j < CAPKM_CLAIMS_MAX; j++) {
		u_int64_t at = (u_int64_t)i * CAPKM_CLAIMS_MAX + j;

		c[j] = (struct capkm_claim){ buffer, at, at + 1 };
	}
}

/* At no moment of a long death is any of its bytes clean. */
TEST_F(authority, dies_with_many_claims)
{
	static struct capkm_claim claims[CAPKM_CLAIMS_MAX];
	unsigned int seed = 1, progress = 0, torn = 0;
	pthread_t reaper;
	u_int64_t big;
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	big = t_shared(self->a, MANY);
	t_open(b, big);
	for (int i = 0; i < MANY_SCOPES; i++) {
		fill_claims(claims, big, i);
		t_enter(b, 1, NO_CLAIMS, claims, CAPKM_CLAIMS_MAX);
	}
	dead_now = 0;
	ASSERT_EQ(0, pthread_create(&reaper, NULL, reap, b));
	for (int after = 0; after < 100;) {
		u_int64_t at = rand_r(&seed) % MANY;
		struct t_check c = t_check(self->a, C({ big, at, at + 1 }));

		after += load(&dead_now);
		ASSERT_EQ(CAPKM_TAINTED, c.result);
		if (c.r[0].kind == CAPKM_KIND_IN_PROGRESS) {
			/* Once dead, dead for everybody. */
			ASSERT_EQ(0, torn);
			progress++;
			continue;
		}
		ASSERT_EQ(CAPKM_KIND_TORN_DOWN, c.r[0].kind);
		torn++;
	}
	ASSERT_EQ(0, pthread_join(reaper, NULL));
	t_kill(b);
	TH_LOG("%u checks in progress, %u torn", progress, torn);
	for (int i = 0; i < MANY_SCOPES; i++) {
		fill_claims(claims, big, i);
		t_write(self->a, 1, claims, CAPKM_CLAIMS_MAX);
	}
	t_no_ranges(self->a, big);
	ASSERT_EQ(0, t_drop(self->a, big));
}

#define HUNDRED 100

/* Each domain hears of the death of its own process, and only of that. */
TEST_F(authority, hundred_domains)
{
	struct cl *a[HUNDRED], *b[HUNDRED];
	u_int64_t x[HUNDRED], scope[HUNDRED];

	ONLY_KERNEL();
	for (int i = 0; i < HUNDRED; i++) {
		a[i] = t_client();
		t_domain(a[i]);
		x[i] = t_shared(a[i], BYTES);
		b[i] = t_process();
		t_attach(b[i], a[i]->domain);
		t_open(b[i], x[i]);
		scope[i] = t_enter(b[i], 1, NO_CLAIMS, C({ x[i], 0, BYTES }));
	}
	for (int i = 0; i < HUNDRED; i += 2)
		t_kill(b[i]);
	for (int i = 0; i < HUNDRED; i++) {
		if (i % 2)
			t_is_open(a[i], x[i], 0, BYTES, scope[i]);
		else
			t_is_tainted(a[i], x[i], 0, BYTES, CAPKM_KIND_TORN_DOWN);
	}
	for (int i = 1; i < HUNDRED; i += 2)
		t_close(b[i]);
	for (int i = 0; i < HUNDRED; i++) {
		UNTIL(t_domain_query(a[i]).out_sessions == 1);
		t_write(a[i], 1, C({ x[i], 0, BYTES }));
		ASSERT_EQ(0, t_domain_query(a[i]).out_claims);
		t_close(a[i]);
	}
}

struct hundred {
	u_int64_t first, buffer;	/* of the first domain; the others follow */
};

/* Sessions in all of the domains; a scope over the buffer of each. */
static int attach_hundred(struct capkm *unused, void *arg)
{
	const struct hundred *h = arg;

	for (int i = 0; i < HUNDRED; i++) {
		struct capkm_domain_attach a = { .domain = h->first + i };
		struct capkm_buffer_open o = { .buffer = h->buffer };
		struct capkm_claim claim = { h->buffer, 0, BYTES };
		struct capkm_scope_enter e = {
			.writes_uptr = t_ptr(&claim), .writes_len = 1,
		};
		int fd = open("/dev/capkm", O_RDWR | O_CLOEXEC), rc;

		rc = fd < 0 ? -errno : raw(fd, CAPKM_NR_DOMAIN_ATTACH, &a);
		if (!rc)
			rc = raw(fd, CAPKM_NR_BUFFER_OPEN, &o);
		if (!rc)
			rc = raw(fd, CAPKM_NR_SCOPE_ENTER, &e);
		if (rc)
			return rc;
	}
	return 0;
}

TEST_F(authority, one_process_in_hundred_domains)
{
	struct hundred h = { 0 };
	struct cl *a[HUNDRED], *b;
	u_int64_t x = 0;

	ONLY_KERNEL();
	for (int i = 0; i < HUNDRED; i++) {
		a[i] = t_client();
		t_domain(a[i]);
		x = t_shared(a[i], BYTES);
		if (!i)
			h = (struct hundred){ a[i]->domain, x };
		/* Nobody else creates any meanwhile. */
		ASSERT_EQ(h.first + i, a[i]->domain);
		ASSERT_EQ(h.buffer, x);
	}
	b = t_process();
	ASSERT_EQ(0, t_run(b, attach_hundred, &h, sizeof(h)));
	for (int i = 0; i < HUNDRED; i++)
		t_is_tainted(a[i], x, 0, BYTES, CAPKM_KIND_IN_PROGRESS);
	kill_zombie(b);
	for (int i = 0; i < HUNDRED; i++)
		t_is_tainted(a[i], x, 0, BYTES, CAPKM_KIND_TORN_DOWN);
	t_kill(b);
	for (int i = 0; i < HUNDRED; i++)
		t_close(a[i]);
}

/* ---------------------------------------------------------------------- rights */

#define NOBODY 65534

/* Right r and no other: whatever changes something is refused. */
TEST_F(authority, right_r)
{
	struct cl *a, *b;
	u_int64_t x;
	char *before;
	char none = 0;
	int fd, pidfd;

	ONLY_KERNEL();
	a = t_client();
	t_domain_mode(a, 0604);
	x = t_shared(a, BYTES);
	b = t_process();
	as_user(b, NOBODY);
	t_attach(b, a->domain);
	t_open(b, x);
	t_is_clean(b, x, 0, BYTES);
	before = t_dump(a);
	pidfd = syscall(SYS_pidfd_open, b->pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, t_run(b, t_fd_fn, &none, 1), 0);
	close(pidfd);
	ASSERT_GE(fd, 0);
	for (size_t i = 0; i < ARRAY_SIZE(mutating); i++) {
		char arg[T_ARG_MAX] = { 0 };
		int rc;

		switch (mutating[i]) {
		case CAPKM_NR_STREAM_QUERY:
		case CAPKM_NR_BUFFER_OPEN:
		case CAPKM_NR_BUFFER_CLOSE:
		case CAPKM_NR_WINDOW_WAIT:
			continue;	/* these need r only */
		}
		rc = t_call(b, mutating[i], arg);
		ASSERT_EQ(-EACCES, rc) {
			TH_LOG("%s", t_ops[mutating[i]].name);
		}
	}
	t_unchanged(a, before);
	close(fd);
	t_close(b);
	t_close(a);
}

static int try_attach(struct cl *cl, u_int64_t domain)
{
	struct capkm_domain_attach a = { .domain = domain };

	return t_call(cl, CAPKM_NR_DOMAIN_ATTACH, &a);
}

/* Without right r there is no way in, with w neither, and for strangers no domain. */
TEST_F(authority, no_right_r)
{
	static const unsigned int modes[] = { 0600, 0660, 0602 };
	struct cl *a, *b;

	ONLY_KERNEL();
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++) {
		a = t_client();
		t_domain_mode(a, modes[i]);
		b = t_process();
		as_user(b, NOBODY);
		T_REFUSED(a, -ENOENT, try_attach(b, a->domain));
		t_close(b);
		t_close(a);
	}
}

/* A stranger is told the same of a domain that is there and of one that is not. */
static int guess(struct capkm *c, void *arg)
{
	static const char * const names[] = { "mine", "theirs" };
	struct capkm_domain_attach by_id = { .size = sizeof(by_id) };
	struct capkm_domain_attach by_name = {
		.size = sizeof(by_name), .flags = CAPKM_DOMAIN_ATTACH_F_OWNER, .name_len = 4,
	};
	struct capkm_domain_destroy destroy = { .size = sizeof(destroy) };
	const u_int64_t *domain = arg;
	int rc = 0;

	for (size_t i = 0; !rc && i < ARRAY_SIZE(names); i++) {
		by_id.domain = domain[i];
		destroy.domain = domain[i];
		by_name.name_uptr = t_ptr(names[i]);
		by_name.name_len = strlen(names[i]);
		if (capkm_call(c, CAPKM_NR_DOMAIN_ATTACH, &by_id) != -ENOENT ||
		    capkm_call(c, CAPKM_NR_DOMAIN_ATTACH, &by_name) != -ENOENT ||
		    capkm_call(c, CAPKM_NR_DOMAIN_DESTROY, &destroy) != -ENOENT)
			rc = 1 + i;
	}
	return rc;
}

TEST_F(authority, hidden)
{
	u_int64_t domain[2] = { 0, 1ull << 40 };
	struct cl *a, *b;

	ONLY_KERNEL();
	a = t_client();
	ASSERT_EQ(0, create_named(a->c, &domain[0]));
	b = t_process();
	as_user(b, NOBODY);
	ASSERT_EQ(0, t_run(b, guess, domain, sizeof(domain)));
	t_close(b);
	t_close(a);
}

/* The owner is not told that his own domain is not there. */
TEST_F(authority, own_without_right_r)
{
	struct capkm_domain_destroy destroy = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };
	struct cl *a, *b;

	ONLY_KERNEL();
	a = t_process();
	as_user(a, NOBODY);
	destroy.domain = t_domain_mode(a, 0200);
	b = t_process();
	as_user(b, NOBODY);
	T_REFUSED(self->a, -EACCES, try_attach(b, a->domain));
	ASSERT_EQ(0, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &destroy));
	t_close(b);
	t_close(a);
}

/* What only the owner or an administrator may do. */
TEST_F(authority, owner_and_admin)
{
	struct capkm_limit_value more = { .limit = CAPKM_LIMIT_HISTORY, .value = 1 << 20 };
	struct capkm_domain_create create = {
		.limits_uptr = t_ptr(&more), .limits_len = 1,
	};
	struct capkm_domain_destroy destroy = { .domain = self->a ? self->a->domain : 0 };
	struct capkm_device_fault fault = { .device[0] = 9 };
	struct cl *b, *c;
	u_int64_t w, unexported;
	struct capkm_buffer_open o = { 0 };

	ONLY_KERNEL();
	w = t_record(self->a, 2);
	unexported = t_buffer(self->a, BYTES);
	o.buffer = unexported;
	b = process(self);
	as_user(b, NOBODY);
	T_REFUSED(self->a, -EPERM, t_abandon(b, w));
	T_REFUSED(self->a, -EPERM, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &destroy));
	destroy.flags = CAPKM_DOMAIN_DESTROY_F_FORCE;
	T_REFUSED(self->a, -EPERM, t_call(b, CAPKM_NR_DOMAIN_DESTROY, &destroy));
	T_REFUSED(self->a, -EPERM, t_call(b, CAPKM_NR_DEVICE_FAULT, &fault));
	T_REFUSED(self->a, -EACCES, t_call(b, CAPKM_NR_BUFFER_OPEN, &o));
	c = t_process();
	as_user(c, NOBODY);
	T_REFUSED(self->a, -EPERM, t_call(c, CAPKM_NR_DOMAIN_CREATE, &create));
	ASSERT_EQ(CAPKM_LIMIT_HISTORY, c->limit);
	t_close(c);
	t_close(b);
	ASSERT_EQ(0, t_drop(self->a, unexported));
	t_abort(self->a, 2);
}

/* ---------------------------------------------------------------------- events */

struct reader {
	pthread_t thread;
	int fd, tid;
	ssize_t got;
	int error;
	struct capkm_event event;
};

static void *read_one(void *arg)
{
	struct reader *r = arg;

	store(&r->tid, gettid());
	r->got = read(r->fd, &r->event, sizeof(r->event));
	r->error = errno;
	return NULL;
}

#define START_READER(r) do {						\
	ASSERT_EQ(0, pthread_create(&(r)->thread, NULL, read_one, r));	\
	UNTIL(load(&(r)->tid) && sleeps((r)->tid));			\
} while (0)

static short polled(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) < 0 ? -1 : p.revents;
}

/* Of the current session's events none is left. */
static void drain(int fd)
{
	struct capkm_event e;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while (read(fd, &e, sizeof(e)) > 0)
		;
	fcntl(fd, F_SETFL, 0);
}

TEST_F(authority, read_waits)
{
	struct reader r = { 0 };
	struct cl *b;
	u_int64_t w;

	ONLY_KERNEL();
	b = t_client();
	t_attach(b, self->a->domain);
	r.fd = capkm_fd(b->c);
	drain(r.fd);
	ASSERT_EQ(0, polled(r.fd));
	START_READER(&r);
	w = t_prepare(self->a, 2);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ((ssize_t)sizeof(r.event), r.got);
	ASSERT_EQ(sizeof(r.event), r.event.size);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, r.event.type);
	ASSERT_EQ(w, r.event.window);
	ASSERT_EQ(2, r.event.stream);
	ASSERT_EQ((unsigned int)getpid(), r.event.pid);
	ASSERT_EQ(0, r.event.lost);
	t_abort(self->a, 2);
	t_close(b);
}

static void on_signal(int sig)
{
}

static void handle_usr1(int flags)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = flags };

	sigaction(SIGUSR1, &sa, NULL);
}

/* A signal ends a read, or with SA_RESTART it goes on and nothing is lost. */
TEST_F(authority, read_is_interrupted)
{
	struct reader r = { 0 };
	struct cl *b;

	ONLY_KERNEL();
	b = t_client();
	t_attach(b, self->a->domain);
	r.fd = capkm_fd(b->c);
	drain(r.fd);
	handle_usr1(0);
	START_READER(&r);
	pthread_kill(r.thread, SIGUSR1);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ(-1, r.got);
	ASSERT_EQ(EINTR, r.error);

	handle_usr1(SA_RESTART);
	r.tid = 0;
	START_READER(&r);
	pthread_kill(r.thread, SIGUSR1);
	UNTIL(sleeps(r.tid));
	t_prepare(self->a, 2);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ((ssize_t)sizeof(r.event), r.got);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, r.event.type);
	t_abort(self->a, 2);
	t_close(b);
}

/* A wait for a window says how much of its time is left. */
static struct capkm_window_wait interrupted;

static void *wait_raw(void *arg)
{
	struct reader *r = arg;

	store(&r->tid, gettid());
	r->error = raw(r->fd, CAPKM_NR_WINDOW_WAIT, &interrupted);
	return NULL;
}

TEST_F(authority, wait_is_interrupted)
{
	const u_int64_t hour = 3600ull * 1000000000;
	struct reader r = { 0 };
	u_int64_t w;

	ONLY_KERNEL();
	w = t_prepare(self->a, 2);
	r.fd = capkm_fd(self->a->c);
	interrupted = (struct capkm_window_wait){ .window = w, .timeout_ns = hour };
	handle_usr1(0);
	ASSERT_EQ(0, pthread_create(&r.thread, NULL, wait_raw, &r));
	UNTIL(load(&r.tid) && sleeps(r.tid));
	pthread_kill(r.thread, SIGUSR1);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ(-EINTR, r.error);
	ASSERT_LT(interrupted.timeout_ns, hour);
	ASSERT_GT(interrupted.timeout_ns, 0);
	ASSERT_EQ(0, interrupted.out_window);
	interrupted.timeout_ns = 1000000;
	ASSERT_EQ(-ETIMEDOUT, raw(r.fd, CAPKM_NR_WINDOW_WAIT, &interrupted));
	t_abort(self->a, 2);
}

/* Whole events only, and one that could not be copied is not lost. */
TEST_F(authority, read_errors)
{
	const size_t n = sizeof(struct capkm_event);
	struct capkm_event e[4];
	char *page, *two;
	u_int64_t w;
	struct cl *b;
	int fd;

	ONLY_KERNEL();
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, page);
	ASSERT_EQ(0, mprotect(page + 4096, 4096, PROT_NONE));
	two = page + 4096 - n;	/* only the first of two can be written */
	b = t_client();
	fd = capkm_fd(b->c);
	ASSERT_EQ(-1, read(fd, e, sizeof(e)));
	ASSERT_EQ(ENOTCONN, errno);
	ASSERT_TRUE(polled(fd) & POLLERR);
	t_attach(b, self->a->domain);
	drain(fd);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	ASSERT_EQ(-1, read(fd, e, n));
	ASSERT_EQ(EAGAIN, errno);
	ASSERT_EQ(-1, read(fd, e, n - 1));
	ASSERT_EQ(EINVAL, errno);
	ASSERT_EQ(-1, read(fd, e, 0));
	ASSERT_EQ(EINVAL, errno);

	w = t_record(self->a, 2);
	t_abort(self->a, 2);
	ASSERT_EQ(POLLIN, polled(fd));
	ASSERT_EQ(-1, read(fd, page + 4096, n));
	ASSERT_EQ(EFAULT, errno);
	ASSERT_EQ((ssize_t)n, read(fd, two, 2 * n));
	memcpy(e, two, n);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, e[0].type);
	/* Room for one and a half. */
	ASSERT_EQ((ssize_t)n, read(fd, &e[1], n + n / 2));
	ASSERT_EQ(CAPKM_EVENT_WINDOW_BEGUN, e[1].type);
	ASSERT_EQ(POLLIN, polled(fd));
	memset(&e[2], 0, 2 * n);
	ASSERT_GT(read(fd, &e[2], 2 * n), 0);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(w, e[i].window);
		ASSERT_EQ(e[0].number + i, e[i].number);
		ASSERT_EQ(0, e[i].lost);
	}
	drain(fd);
	ASSERT_EQ(0, polled(fd));
	t_close(b);
	munmap(page, 8192);
}

/* Events are for a client; a stranger takes none. */
static int read_fails(struct capkm *c, void *arg)
{
	struct capkm_event e;

	return read(t_fd_fn(c, NULL), &e, sizeof(e)) < 0 ? errno : 0;
}

TEST_F(authority, read_by_stranger)
{
	struct cl *b, *c;
	char none = 0;

	ONLY_KERNEL();
	b = process(self);
	c = t_second(b);
	t_prepare(self->a, 2);
	ASSERT_EQ(EPERM, t_run(c, read_fails, &none, 1));
	ASSERT_EQ(0, t_try_join_session(c));
	ASSERT_EQ(0, t_run(c, read_fails, &none, 1));
	t_abort(self->a, 2);
	t_close(c);
	t_close(b);
}

/* A domain that goes wakes everybody: end of file, and for good. */
TEST_F(authority, hang_up)
{
	struct capkm_domain_destroy d = { .flags = CAPKM_DOMAIN_DESTROY_F_FORCE };
	struct reader r = { 0 };
	struct pollfd p = { .events = POLLIN };
	struct cl *owner, *b;

	ONLY_KERNEL();
	owner = t_client();
	d.domain = t_domain(owner);
	b = t_client();
	t_attach(b, d.domain);
	r.fd = p.fd = capkm_fd(b->c);
	drain(r.fd);
	START_READER(&r);
	ASSERT_EQ(0, t_call(self->a, CAPKM_NR_DOMAIN_DESTROY, &d));
	ASSERT_EQ(1, poll(&p, 1, -1));
	ASSERT_TRUE(p.revents & POLLHUP);
	ASSERT_EQ(0, pthread_join(r.thread, NULL));
	ASSERT_EQ(0, r.got);
	ASSERT_EQ(0, read(r.fd, &r.event, sizeof(r.event)));
	t_close(b);
	t_close(owner);
}

/* The death of a client is an event, with what it left behind. */
TEST_F(authority, death_is_an_event)
{
	struct capkm_event e[8];
	bool ended = false, orphaned = false;
	ssize_t got;
	struct cl *b, *r;
	u_int64_t w;
	int pid;

	ONLY_KERNEL();
	r = t_client();
	t_attach(r, self->a->domain);
	b = process(self);
	pid = b->pid;
	w = t_record(b, 2);
	scope_of(self, b);
	drain(capkm_fd(r->c));
	t_kill(b);
	got = read(capkm_fd(r->c), e, sizeof(e));
	ASSERT_GT(got, 0);
	for (int i = 0; i < (int)(got / sizeof(e[0])); i++) {
		if (e[i].type == CAPKM_EVENT_WINDOW_ORPHANED)
			orphaned = e[i].window == w;
		if (e[i].type == CAPKM_EVENT_CLIENT_ENDED) {
			ended = true;
			ASSERT_EQ(1, e[i].count);
			ASSERT_EQ((unsigned int)pid, e[i].pid);
		}
	}
	ASSERT_TRUE(ended);
	ASSERT_TRUE(orphaned);
	ASSERT_EQ(0, t_abandon(self->a, w));
	t_close(r);
}

/* --------------------------------------------------------------------- /proc, /sys */

/* The value of a line of fdinfo, or -1. */
static long long fdinfo(int fd, const char *name)
{
	char path[64], line[128];
	long long value = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = atoll(line + strlen(name) + 1);
	if (f)
		fclose(f);
	return value;
}

TEST_F(authority, fdinfo)
{
	struct cl *b;
	int fd;

	ONLY_KERNEL();
	b = t_client();
	fd = capkm_fd(b->c);
	ASSERT_EQ(getpid(), fdinfo(fd, "capkm-opener"));
	ASSERT_EQ(0, fdinfo(fd, "capkm-domain"));
	with(self, b);
	ASSERT_EQ((long long)b->domain, fdinfo(fd, "capkm-domain"));
	ASSERT_EQ((long long)b->session, fdinfo(fd, "capkm-session"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-clients"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-buffers"));
	ASSERT_EQ(0, fdinfo(fd, "capkm-streams"));
	t_stream(b);
	scope_of(self, b);
	t_record(b, 2);
	t_graph(b, 3, NO_CLAIMS, C({ self->x, 64, 65 }));
	t_write_enqueued(b, 4, C({ self->x, 66, 67 }));
	ASSERT_EQ(1, fdinfo(fd, "capkm-streams"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-scopes"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-windows"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-graphs"));
	ASSERT_EQ(1, fdinfo(fd, "capkm-unconfirmed"));
	t_abort(b, 2);
	t_close(b);
}

static const struct {
	const char *name;
	unsigned int limit;
} parameters[] = {
	{ "domains", CAPKM_LIMIT_DOMAINS }, { "defunct", CAPKM_LIMIT_DEFUNCT },
	{ "sessions", CAPKM_LIMIT_SESSIONS }, { "clients", CAPKM_LIMIT_CLIENTS },
	{ "streams", CAPKM_LIMIT_STREAMS }, { "buffers", CAPKM_LIMIT_BUFFERS },
	{ "scopes", CAPKM_LIMIT_SCOPES }, { "windows", CAPKM_LIMIT_WINDOWS },
	{ "graphs", CAPKM_LIMIT_GRAPHS }, { "devices", CAPKM_LIMIT_DEVICES },
	{ "claims", CAPKM_LIMIT_CLAIMS }, { "retained", CAPKM_LIMIT_RETAINED },
	{ "members", CAPKM_LIMIT_MEMBERS }, { "depth", CAPKM_LIMIT_DEPTH },
	{ "ranges", CAPKM_LIMIT_RANGES }, { "open_windows", CAPKM_LIMIT_OPEN_WINDOWS },
	{ "unconfirmed", CAPKM_LIMIT_UNCONFIRMED }, { "queued", CAPKM_LIMIT_QUEUED },
	{ "queued_shared", CAPKM_LIMIT_QUEUED_SHARED }, { "events", CAPKM_LIMIT_EVENTS },
	{ "history", CAPKM_LIMIT_HISTORY }, { "reports", CAPKM_LIMIT_REPORTS },
	{ "ledgers", CAPKM_LIMIT_LEDGERS },
	{ "ledger_captures", CAPKM_LIMIT_LEDGER_CAPTURES },
	{ "ledger_retained", CAPKM_LIMIT_LEDGER_RETAINED },
	{ "ledger_host", CAPKM_LIMIT_LEDGER_HOST },
	{ "ledger_encoded", CAPKM_LIMIT_LEDGER_ENCODED },
};

static u_int64_t parameter(const char *name)
{
	unsigned long long value = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), PARAMETERS "max_%s", name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &value) != 1)
		t_die("%s: %s", path, strerror(errno));
	fclose(f);
	return value;
}

static void set_parameter(const char *name, u_int64_t value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), PARAMETERS "max_%s", name);
	f = fopen(path, "w");
	if (!f || fprintf(f, "%" PRIu64, value) < 0 || fclose(f))
		t_die("%s: %s", path, strerror(errno));
}

/* Each parameter is that limit, of domains that are created from then on. */
TEST_F(authority, parameters)
{
	struct cl *b;

	ONLY_KERNEL();
	ASSERT_EQ(CAPKM_LIMITS - 1, ARRAY_SIZE(parameters));
	for (size_t i = 0; i < ARRAY_SIZE(parameters); i++) {
		u_int64_t was = parameter(parameters[i].name), is;

		ASSERT_EQ(was, t_limit(self->a, parameters[i].limit)) {
			TH_LOG("max_%s", parameters[i].name);
		}
		set_parameter(parameters[i].name, was - 1);
		b = t_client();
		t_domain(b);
		is = t_limit(b, parameters[i].limit);
		set_parameter(parameters[i].name, was);
		ASSERT_EQ(was - 1, is) {
			TH_LOG("max_%s", parameters[i].name);
		}
		if (parameters[i].limit != CAPKM_LIMIT_DOMAINS &&
		    parameters[i].limit != CAPKM_LIMIT_DEFUNCT)
			ASSERT_EQ(was, t_limit(self->a, parameters[i].limit));
		t_close(b);
	}
}

/* ---------------------------------------------------------------------- limits */

/* Living clients of a session: the next one comes in when one has died. */
TEST_F(authority, limit_of_clients)
{
	struct cl *b, *c, *d;

	ONLY_KERNEL();
	b = t_process();
	t_domain_limit(b, CAPKM_LIMIT_CLIENTS, 2);
	c = t_join_session(b);
	d = t_second(b);
	T_REFUSED(b, -EDQUOT, t_try_join_session(d));
	ASSERT_EQ(CAPKM_LIMIT_CLIENTS, d->limit);
	/* Who is in is no further one. */
	ASSERT_EQ(0, t_try_join_session(c));
	t_kill(c);
	ASSERT_EQ(0, t_try_join_session(d));
	t_kill(d);
	t_close(b);
}

TEST_F(authority, limit_of_sessions)
{
	struct cl *a, *b, *c;

	ONLY_KERNEL();
	a = t_client();
	t_domain_limit(a, CAPKM_LIMIT_SESSIONS, 2);
	b = t_process();
	t_attach(b, a->domain);
	c = t_process();
	T_REFUSED(a, -ENOSPC, try_attach(c, a->domain));
	ASSERT_EQ(CAPKM_LIMIT_SESSIONS, c->limit);
	t_kill(b);
	UNTIL(t_domain_query(a).out_sessions == 1);
	ASSERT_EQ(0, try_attach(c, a->domain));
	t_close(c);
	t_close(a);
}

static int create_domain(struct cl *cl)
{
	struct capkm_domain_create a = { 0 };

	return t_call(cl, CAPKM_NR_DOMAIN_CREATE, &a);
}

/* Domains of one user, not of all. */
TEST_F(authority, limit_of_domains)
{
	struct cl *b[3], *c;
	u_int64_t was;
	int rc[3], other;

	ONLY_KERNEL();
	was = parameter("domains");
	for (int i = 0; i < 3; i++) {
		b[i] = t_process();
		as_user(b[i], 3000);
	}
	c = t_process();
	as_user(c, 3001);
	set_parameter("domains", 2);
	for (int i = 0; i < 3; i++)
		rc[i] = create_domain(b[i]);
	other = create_domain(c);
	t_kill(b[0]);
	/* It had nothing to be remembered for. */
	if (!rc[0] && !rc[1] && rc[2] == -EDQUOT)
		for (int left = 1000; left-- && create_domain(b[2]);)
			usleep(1000);
	set_parameter("domains", was);
	ASSERT_EQ(0, rc[0]);
	ASSERT_EQ(0, rc[1]);
	ASSERT_EQ(-EDQUOT, rc[2]);
	ASSERT_EQ(0, other);
	ASSERT_NE(0, t_domain_query(b[2]).out_domain);
	t_close(b[1]);
	t_close(b[2]);
	t_close(c);
}

/* Scopes of a client: what it has lost by its death, another one may have. */
TEST_F(authority, limit_of_scopes)
{
	struct cl *b, *c;
	u_int64_t x, s;
	struct t_enter e;

	ONLY_KERNEL();
	b = t_process();
	t_domain_limit(b, CAPKM_LIMIT_SCOPES, 1);
	x = t_shared(b, BYTES);
	c = t_join_session(b);
	s = t_enter(b, 1, NO_CLAIMS, C({ x, 0, 1 }));
	e = t_try_enter(b, 1, 0, NULL, NO_CLAIMS, C({ x, 1, 2 }));
	ASSERT_EQ(-EDQUOT, e.rc);
	ASSERT_EQ(CAPKM_LIMIT_SCOPES, b->limit);
	t_enter(c, 1, NO_CLAIMS, C({ x, 1, 2 }));
	t_kill(c);
	ASSERT_EQ(0, t_exit(b, s));
	t_write(b, 1, C({ x, 0, BYTES }));
	t_close(b);
}

/* Moves process @pid into a cgroup of its own; false if the kernel has none for memory. */
static bool group_of(int pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", pid);
	return memory_group() && t_put_file(MEMORY_GROUP "/cgroup.procs", text);
}

static u_int64_t charged(void)
{
	unsigned long long bytes = 0;
	FILE *f = fopen(MEMORY_GROUP "/memory.current", "r");

	if (f) {
		if (fscanf(f, "%llu", &bytes) != 1)
			bytes = 0;
		fclose(f);
	}
	return bytes;
}

#define BUFFERS 5000

static int make_buffers(struct capkm *c, void *arg T_UNUSED)
{
	u_int64_t b;
	int rc = 0;

	for (int i = 0; i < BUFFERS && !rc; i++)
		rc = capkm_buffer_create(c, 64, NULL, &b, NULL);
	return rc;
}

/* What a process makes the module keep is charged to the process's cgroup. */
TEST_F(authority, memory_is_charged)
{
	u_int64_t before, after;
	struct cl *b;

	ONLY_KERNEL();
	b = t_process();
	t_domain(b);
	if (!group_of(t_pid(b)))
		SKIP(return, "needs root and cgroups of memory");
	before = charged();
	ASSERT_EQ(0, t_run(b, make_buffers, NULL, 0));
	after = charged();
	ASSERT_GT(after, before + BUFFERS * 400) {
		TH_LOG("%" PRIu64 " bytes, then %" PRIu64, before, after);
	}
	t_kill(b);
	UNTIL(charged() < before + BUFFERS * 200);
	memory_group_end();
}

#define DOMAINS 200

/* Persistent: they outlive the session that made them. */
static int make_domains(struct capkm *unused, void *arg T_UNUSED)
{
	struct capkm_domain_create a = { .flags = CAPKM_DOMAIN_CREATE_F_PERSISTENT };
	int fd, rc = 0;

	(void)unused;
	for (int i = 0; i < DOMAINS && !rc; i++) {
		fd = open("/dev/capkm", O_RDWR | O_CLOEXEC);
		rc = raw(fd, CAPKM_NR_DOMAIN_CREATE, &a);
		close(fd);
	}
	return rc;
}

/* Also what stays without a process. */
TEST_F(authority, domains_are_charged)
{
	struct capkm_domain_destroy destroy = { 0 };
	u_int64_t before;
	struct cl *b;

	ONLY_KERNEL();
	b = t_process();
	t_domain(b);
	if (!group_of(t_pid(b)))
		SKIP(return, "needs root and cgroups of memory");
	before = charged();
	ASSERT_EQ(0, t_run(b, make_domains, NULL, 0));
	ASSERT_GT(charged(), before + DOMAINS * 4096);
	destroy.domain = b->domain;
	t_kill(b);
	/* No process is left in it, and it is charged all the same. */
	ASSERT_GT(charged(), DOMAINS * 4096);
	for (int i = 0; i < DOMAINS; i++) {
		destroy.domain++;
		ASSERT_EQ(0, t_call(self->a, CAPKM_NR_DOMAIN_DESTROY, &destroy));
	}
	UNTIL(charged() < DOMAINS * 4096 / 2);
	memory_group_end();
}

/* Buffers without end, for which the process needs no memory of its own. */
static int make_too_much(void)
{
	struct capkm_buffer_create a = { .bytes = 64 };
	struct cl *b = t_client();
	int rc = 0;

	t_domain(b);
	while (!rc)
		rc = t_call(b, CAPKM_NR_BUFFER_CREATE, &a);
	return rc == -ENOMEM ? 0 : 1;
}

/* Whoever makes the module keep more than he may have is told so, and nobody is killed. */
TEST_F(authority, memory_is_bounded)
{
	int pid, status, go[2];
	char c;

	ONLY_KERNEL();
	ASSERT_EQ(0, pipe(go));
	pid = fork();
	if (!pid) {
		close(go[1]);
		_exit(read(go[0], &c, 1) == 1 ? make_too_much() : 2);
	}
	if (!group_of(pid)) {
		close(go[1]);
		SKIP(return, "needs root and cgroups of memory");
	}
	ASSERT_TRUE(t_put_file(MEMORY_GROUP "/memory.max", "16M"));
	ASSERT_EQ(1, write(go[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	UNTIL(charged() < 4 << 20);
	t_is_clean(self->a, self->x, 0, BYTES);
	memory_group_end();
}

/* A session that goes in good order takes its private work along, unreported. */
TEST_F(authority, close_reports_nothing)
{
	struct cl *b;

	ONLY_KERNEL();
	b = process(self);
	t_write_enqueued(b, 1, C({ t_buffer(b, BYTES), 0, 10 }));
	t_close(b);
	SESSIONS(1);
	ASSERT_EQ(0, t_domain_query(self->a).out_reports);
	ASSERT_EQ(0, t_failures(self->a));
}

/* -------------------------------------------------------- what is no test */

static int ready(void)
{
	if (write(3, "", 1) != 1)
		return 1;
	rest();
}

static int join_and_ready(int fd)
{
	struct capkm_session_join j = { 0 };
	int rc = raw(fd, CAPKM_NR_SESSION_JOIN, &j);

	if (rc)
		fprintf(stderr, "# SESSION_JOIN: %d\n", rc);
	return ready();
}

/* The harness has a main of its own. */
#define main run_tests
TEST_HARNESS_MAIN
#undef main

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "--ready"))
		return ready();
	if (!strcmp(what, "--join") && argc > 2)
		return join_and_ready(atoi(argv[2]));
	return run_tests(argc, argv);
}
