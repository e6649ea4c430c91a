/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the test programs share: clients, calls that check the contract of every
 * call, short forms of the operations, a dump of the whole state.
 *
 * A client is a session of its own. t_client() makes one in this process,
 * t_process() makes one in a process of its own, so that t_kill() is a SIGKILL.
 * On the embedded transport processes are played with the library's test hooks.
 *
 * A helper that finds something wrong prints the line of the test that called
 * it and aborts; the harness counts that as a failure.
 */
#ifndef CAPKM_TEST_H
#define CAPKM_TEST_H

#include <capkm/capkm.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capkm.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lib/test_hooks.h"
#include "abi_table.h"
#include "kselftest_harness.h"

/* Of seconds: a kernel that looks at itself, on a machine that others use too, is slow. */
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT 120

static const char *t_file T_UNUSED = "";
static int t_line T_UNUSED;

/* Remembers which line of the test called the helper. */
#define T_AT (t_file = __FILE__, t_line = __LINE__)

static void __attribute__((format(printf, 1, 2), noreturn, unused))
t_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "# %s:%d: ", t_file, t_line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

static T_UNUSED const char *t_transport(void)
{
	const char *t = getenv("CAPKM_TEST_TRANSPORT");

	if (t && !strncmp(t, "proxy:", 6))
		capkm_test_offer_proxy(10);
	return t && *t ? t : "embedded:";
}

static T_UNUSED bool t_embedded(void)
{
	return !strncmp(t_transport(), "embedded:", 9);
}

/* A number of the environment, else @native, or @vm against the module. */
static T_UNUSED u_int64_t t_param(const char *name, u_int64_t native, u_int64_t vm)
{
	const char *s = getenv(name);

	return s && *s ? strtoull(s, NULL, 0) : t_embedded() ? native : vm;
}

/* Of /proc, /sys, or a cgroup: what is written at once. */
static T_UNUSED bool t_put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

/* ----------------------------------------------------------------- clients */

#define T_ROOM (1 << 20)

/* What a client in a process of its own shares with the test. */
struct t_rpc {
	unsigned int nr;
	int (*fn)(struct capkm *c, void *arg);
	int ret;
	int err;		/* of capkm_open() */
	char arg[T_ARG_MAX];
	char room[T_ROOM];
};

struct cl {
	struct capkm *c;	/* in this process */
	int pid;		/* in a process of its own */
	int played;		/* the same, on the embedded transport */
	int sock;
	struct t_rpc *rpc;
	int *users;		/* clients of @c, on the embedded transport */
	unsigned int limit;	/* out_limit of its last call, 0 if none */
	u_int64_t domain;
	u_int64_t session;
};

/* A call on a descriptor that is no handle's. */
static T_UNUSED int t_ioctl(int fd, unsigned int nr, void *arg)
{
	return ioctl(fd, _IO(CAPKM_TYPE, nr), arg) ? -errno : 0;
}

/* How a call is made. */
enum t_way {
	T_FAST,		/* by the fast path where there is one */
	T_CALL,		/* never so */
	T_SUBMIT,	/* as a SUBMIT of it alone, if it is one that may be there */
};

/*
 * With CAPKM_TEST_SUBMIT every test is one of SUBMIT, too. $CAPKM_TEST_FAST: "off" is
 * without the fast path, "random" with it now and then.
 */
static T_UNUSED enum t_way t_way_of_environment(void)
{
	static _Thread_local unsigned int seed = 1;
	const char *fast = getenv("CAPKM_TEST_FAST");

	if (getenv("CAPKM_TEST_SUBMIT"))
		return T_SUBMIT;
	return fast && (!strcmp(fast, "off") ||
			(!strcmp(fast, "random") && rand_r(&seed) % 2)) ? T_CALL : T_FAST;
}

static enum t_way (*t_way)(void) T_UNUSED = t_way_of_environment;

static T_UNUSED int t_do(struct capkm *c, unsigned int nr, void *arg)
{
	struct capkm_element e = { .nr = nr, .arg_uptr = (uintptr_t)arg };
	struct capkm_submit s = {
		.size = sizeof(s), .elements_uptr = (uintptr_t)&e, .elements_len = 1,
	};
	const enum t_way way = t_way();
	int rc;

	if (way != T_SUBMIT)
		return way == T_FAST ? capkm_test_call(c, nr, arg) : capkm_call(c, nr, arg);
	rc = capkm_call(c, CAPKM_NR_SUBMIT, &s);
	if (rc == -EOPNOTSUPP || rc == -ENOTTY)
		return capkm_call(c, nr, arg);
	return rc ? rc : -(int)s.out_error;
}

#define T_RPC_FD 4		/* of a session that the process did not open */

/* With a session of its own, or as one that was given @session. */
static T_UNUSED void t_rpc_serve(int sock, int session, struct t_rpc *rpc)
{
	struct capkm *c = NULL;
	char token;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Sessions of the test must not live on in here. */
	session = session < 0 ? -1 : fcntl(session, F_DUPFD, 64);
	if (sock != 3)
		dup2(sock, 3);
	close(T_RPC_FD);
	if (session >= 0)
		dup2(session, T_RPC_FD);
	for (int fd = T_RPC_FD + 1; fd < 256; fd++)
		close(fd);
	rpc->err = session < 0 ? capkm_open(t_transport(), NULL, &c, NULL) : 0;
	if (write(3, "", 1) != 1)
		_exit(1);
	while (read(3, &token, 1) == 1) {
		rpc->ret = rpc->fn ? rpc->fn(c, rpc->arg) :
			   c ? t_do(c, rpc->nr, rpc->arg) :
			   t_ioctl(T_RPC_FD, rpc->nr, rpc->arg);
		if (write(3, "", 1) != 1)
			break;
	}
	_exit(0);
}

static T_UNUSED void t_rpc_turn(struct cl *cl)
{
	char token;

	if (write(cl->sock, "", 1) != 1 || read(cl->sock, &token, 1) != 1)
		t_die("the process of a client is gone");
}

#define t_client() (T_AT, t_client_())
static T_UNUSED struct cl *t_client_(void)
{
	struct cl *cl = calloc(1, sizeof(*cl));
	int rc = capkm_open(t_transport(), NULL, &cl->c, NULL);

	if (rc)
		t_die("capkm_open(%s): %d", t_transport(), rc);
	cl->users = calloc(1, sizeof(*cl->users));
	*cl->users = 1;
	return cl;
}

/* @session: -1, or the descriptor that the process gets. */
static T_UNUSED struct cl *t_spawn(int session)
{
	struct cl *cl = calloc(1, sizeof(*cl));
	int pair[2];
	char token;

	cl->rpc = mmap(NULL, sizeof(*cl->rpc), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (cl->rpc == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		t_die("no memory for a client");
	fflush(NULL);
	cl->pid = fork();
	if (!cl->pid)
		t_rpc_serve(pair[1], session, cl->rpc);
	close(pair[1]);
	cl->sock = pair[0];
	if (cl->pid < 0 || read(cl->sock, &token, 1) != 1 || cl->rpc->err)
		t_die("no process for a client: %d", cl->rpc->err);
	return cl;
}

/* The last one that was played. */
static int t_pids T_UNUSED = 5000000;

static T_UNUSED int t_new_pid(void)
{
	return ++t_pids;
}

#define t_process() (T_AT, t_process_())
static T_UNUSED struct cl *t_process_(void)
{
	struct cl *cl;
	int pid;

	if (!t_embedded())
		return t_spawn(-1);
	pid = t_new_pid();
	capkm_test_become(pid);
	cl = t_client_();
	capkm_test_become(0);
	cl->played = pid;
	return cl;
}

/* Runs @fn where the client is; @arg is copied there and back. */
static T_UNUSED int t_run(struct cl *cl, int (*fn)(struct capkm *c, void *arg),
			  void *arg, size_t n)
{
	if (!cl->rpc) {
		int rc;

		capkm_test_become(cl->played);
		rc = fn(cl->c, arg);
		capkm_test_become(0);
		return rc;
	}
	memcpy(cl->rpc->arg, arg, n);
	cl->rpc->fn = fn;
	t_rpc_turn(cl);
	memcpy(arg, cl->rpc->arg, n);
	return cl->rpc->ret;
}

/* The pid of the client's process. */
static T_UNUSED int t_pid(const struct cl *cl)
{
	return cl->pid ? cl->pid : cl->played ? cl->played : getpid();
}

static T_UNUSED int t_fd_fn(struct capkm *c, void *arg)
{
	return c ? capkm_fd(c) : T_RPC_FD;
}

/* A process that has the descriptor of @cl's session, and has not joined it. */
#define t_second(cl) (T_AT, t_second_(cl))
static T_UNUSED struct cl *t_second_(struct cl *of)
{
	struct cl *cl;
	char none = 0;
	int fd;

	if (t_embedded()) {
		cl = calloc(1, sizeof(*cl));
		cl->c = of->c;
		cl->played = t_new_pid();
		cl->users = of->users;
		++*cl->users;
	} else {
		fd = t_run(of, t_fd_fn, &none, 1);
		if (of->pid) {
			int pidfd = syscall(SYS_pidfd_open, of->pid, 0);

			fd = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
			close(pidfd);
		}
		if (fd < 0)
			t_die("no descriptor of the session: %d", errno);
		cl = t_spawn(fd);
		if (of->pid)
			close(fd);
	}
	cl->domain = of->domain;
	cl->session = of->session;
	return cl;
}

/* Its process is gone, and with the last one its session. */
static T_UNUSED void t_played_end(struct cl *cl)
{
	if (cl->played)
		capkm_test_die(cl->c, cl->played);
	if (--*cl->users) {
		if (!cl->played)
			t_die("only processes can be played to leave a session");
		return;
	}
	capkm_close(cl->c);
	free(cl->users);
}

/* The client dies: SIGKILL, or its handle is closed. */
static T_UNUSED void t_kill(struct cl *cl)
{
	if (cl->pid) {
		kill(cl->pid, SIGKILL);
		waitpid(cl->pid, NULL, 0);
		close(cl->sock);
		munmap(cl->rpc, sizeof(*cl->rpc));
	} else {
		t_played_end(cl);
	}
	free(cl);
}

/* The client closes its handle. */
static T_UNUSED int t_close_fn(struct capkm *c, void *arg)
{
	if (c)
		capkm_close(c);
	else
		close(T_RPC_FD);
	return 0;
}

static T_UNUSED void t_close(struct cl *cl)
{
	char none = 0;

	if (cl->pid) {
		t_run(cl, t_close_fn, &none, 1);
		/* Its loop ends when nobody talks to it any more. */
		close(cl->sock);
		waitpid(cl->pid, NULL, 0);
		munmap(cl->rpc, sizeof(*cl->rpc));
	} else if (*cl->users > 1) {
		t_played_end(cl);
	} else {
		capkm_close(cl->c);
		free(cl->users);
	}
	free(cl);
}

/* The call as it is, wherever the client lives. */
static T_UNUSED int t_raw(struct cl *cl, unsigned int nr, void *arg, size_t size)
{
	const struct t_op *op = nr < T_OPS && t_ops[nr].name ? &t_ops[nr] : NULL;
	u_int64_t saved[ARRAY_SIZE(op->arrays)];
	struct t_rpc *rpc = cl->rpc;
	char *room;

	if (!rpc) {
		int rc;

		if (!cl->played)
			return t_do(cl->c, nr, arg);
		capkm_test_become(cl->played);
		rc = t_do(cl->c, nr, arg);
		capkm_test_become(0);
		return rc;
	}

	/* Arrays move to the shared memory and back. */
	memcpy(rpc->arg, arg, size);
	room = rpc->room;
	for (size_t i = 0; op && i < ARRAY_SIZE(op->arrays) && op->arrays[i].elem; i++) {
		const struct t_array *a = &op->arrays[i];
		size_t n;

		if (size < op->size)
			break;
		saved[i] = t_get64(arg, a->ptr);
		n = (size_t)t_get32(arg, a->len) * a->elem;
		if (!saved[i])
			continue;
		if (room + n > rpc->room + T_ROOM)
			t_die("%s: arrays are too long for a client in a process",
			      op->name);
		memcpy(room, (void *)(uintptr_t)saved[i], n);
		t_put64(rpc->arg, a->ptr, (uintptr_t)room);
		room += (n + 7) & ~7ul;
	}
	rpc->fn = NULL;
	rpc->nr = nr;
	t_rpc_turn(cl);
	room = rpc->room;
	for (size_t i = 0; op && i < ARRAY_SIZE(op->arrays) && op->arrays[i].elem; i++) {
		const struct t_array *a = &op->arrays[i];
		size_t n;

		if (size < op->size)
			break;
		n = (size_t)t_get32(arg, a->len) * a->elem;
		if (!saved[i])
			continue;
		if (a->out)
			memcpy((void *)(uintptr_t)saved[i], room, n);
		t_put64(rpc->arg, a->ptr, saved[i]);
		room += (n + 7) & ~7ul;
	}
	memcpy(arg, rpc->arg, size);
	return rpc->ret;
}

/*
 * The call, with the rules of every call checked: outputs are filled with 0xcc
 * before; on an error none of them is written but out_error_index, out_state and,
 * where a limit is reached, out_limit; inputs are never written, but for a time
 * that is left on EINTR.
 */
static T_UNUSED int t_call(struct cl *cl, unsigned int nr, void *arg)
{
	const struct t_op *op = &t_ops[nr];
	unsigned char before[T_ARG_MAX], *a = arg;
	int rc;

	t_put32(arg, 0, op->size);
	for (size_t i = 0; i < ARRAY_SIZE(op->outs) && op->outs[i].size; i++)
		memset(a + op->outs[i].at, 0xcc, op->outs[i].size);
	for (size_t i = 0; i < ARRAY_SIZE(op->always) && op->always[i].size; i++)
		memset(a + op->always[i].at, 0xcc, op->always[i].size);
	memset(a + op->limit.at, 0xcc, op->limit.size);
	memcpy(before, a, op->size);
	rc = t_raw(cl, nr, arg, op->size);
	if (rc > 0)
		t_die("%s: returned %d", op->name, rc);
	for (unsigned int at = 0; at < op->size; at++) {
		const enum t_byte what = t_bytes[nr][at];

		if (a[at] == before[at] || what == T_ALWAYS ||
		    (what == T_TIME_LEFT && rc == -EINTR))
			continue;
		if (what != T_OUTPUT)
			t_die("%s: wrote to its input at offset %u", op->name, at);
		if (rc)
			t_die("%s: wrote to an output at offset %u and returned %d",
			      op->name, at, rc);
	}
	cl->limit = 0;
	if (op->limit.size && t_get32(arg, op->limit.at) != 0xcccccccc) {
		cl->limit = t_get32(arg, op->limit.at);
		if (rc != -EDQUOT && rc != -ENOSPC &&
		    (nr != CAPKM_NR_DOMAIN_CREATE || (rc != -EINVAL && rc != -EPERM)))
			t_die("%s: returned %d and limit %u", op->name, rc, cl->limit);
	}
	if (op->limit.size && (rc == -EDQUOT || rc == -ENOSPC) &&
	    (!cl->limit || cl->limit >= CAPKM_LIMITS))
		t_die("%s: returned %d and limit %u", op->name, rc, cl->limit);
	/* A whole output that was not written stands out. */
	for (size_t i = 0; !rc && i < ARRAY_SIZE(op->outs) && op->outs[i].size; i++) {
		const struct t_field *f = &op->outs[i];
		unsigned int j = 0;

		while (j < f->size && a[f->at + j] == 0xcc)
			j++;
		if (j == f->size)
			t_die("%s: did not write the output at offset %u", op->name,
			      f->at);
	}
	return rc;
}

#define T_OK(cl, nr, arg) do {						\
	int rc_ = t_call(cl, CAPKM_NR_##nr, arg);			\
									\
	if (rc_)							\
		t_die(#nr ": %d (%s)", rc_, strerror(-rc_));		\
} while (0)

static T_UNUSED u_int64_t t_ptr(const void *p)
{
	return (uintptr_t)p;
}

/* ------------------------------------------------- short forms of operations */

/*
 * The streams of the short forms may be T_GPU(n) | stream: on a slot of that
 * device instead of the host's.
 */
#define T_GPU(n) ((u_int64_t)(n) << 56)

static T_UNUSED struct capkm_place t_place(u_int64_t stream)
{
	return (struct capkm_place){
		.stream = stream & ~T_GPU(255), .device[0] = stream >> 56,
	};
}

/* An array literal of claims and its length: C({ b, 0, 8 }, { b, 10, 12 }). */
#define C(...) (const struct capkm_claim[]){ __VA_ARGS__ }, \
	sizeof((const struct capkm_claim[]){ __VA_ARGS__ }) / sizeof(struct capkm_claim)
#define NO_CLAIMS ((const struct capkm_claim *)NULL), 0

#define t_domain(cl) (T_AT, t_domain_(cl, CAPKM_BACKEND_SOFTWARE, 0, 0))
#define t_domain_backend(cl, backend) (T_AT, t_domain_(cl, backend, 0, 0))
#define t_domain_mode(cl, mode) (T_AT, t_domain_(cl, CAPKM_BACKEND_SOFTWARE, mode, 0))
static T_UNUSED u_int64_t t_domain_(struct cl *cl, int backend, unsigned int mode,
				    unsigned int streams)
{
	struct capkm_domain_create a = {
		.backend = backend, .mode = mode, .max_streams = streams,
	};

	T_OK(cl, DOMAIN_CREATE, &a);
	cl->domain = a.out_domain;
	cl->session = a.out_session;
	return a.out_domain;
}

/* A domain in which one limit is another one. */
#define t_domain_limit(cl, limit, value) (T_AT, t_domain_limit_(cl, limit, value))
static T_UNUSED void t_domain_limit_(struct cl *cl, unsigned int limit, u_int64_t value)
{
	struct capkm_limit_value l = { .limit = limit, .value = value };
	struct capkm_domain_create a = { .limits_uptr = t_ptr(&l), .limits_len = 1 };

	T_OK(cl, DOMAIN_CREATE, &a);
	cl->domain = a.out_domain;
	cl->session = a.out_session;
}

#define t_attach(cl, domain) (T_AT, t_attach_(cl, domain, CAPKM_BACKEND_SOFTWARE))
#define t_attach_backend(cl, domain, backend) (T_AT, t_attach_(cl, domain, backend))
static T_UNUSED u_int64_t t_attach_(struct cl *cl, u_int64_t domain, int backend)
{
	struct capkm_domain_attach a = { .domain = domain, .backend = backend };

	T_OK(cl, DOMAIN_ATTACH, &a);
	cl->domain = a.out_domain;
	cl->session = a.out_session;
	return a.out_session;
}

#define t_domain_query(cl) (T_AT, t_domain_query_(cl))
static T_UNUSED struct capkm_domain_query t_domain_query_(struct cl *cl)
{
	struct capkm_domain_query a = { 0 };

	T_OK(cl, DOMAIN_QUERY, &a);
	return a;
}

/* What the domain's limit is. */
#define t_limit(cl, limit) (T_AT, t_limit_(cl, limit))
static T_UNUSED u_int64_t t_limit_(struct cl *cl, unsigned int limit)
{
	struct capkm_limit_value l[CAPKM_LIMITS];
	struct capkm_domain_query a = {
		.limits_uptr = t_ptr(l), .limits_len = CAPKM_LIMITS,
	};

	T_OK(cl, DOMAIN_QUERY, &a);
	for (unsigned int i = 0; i < a.out_limits; i++)
		if (l[i].limit == limit)
			return l[i].value;
	t_die("the domain has no limit %u", limit);
}

static T_UNUSED int t_try_join_session(struct cl *cl)
{
	struct capkm_session_join a = { 0 };
	int rc = t_call(cl, CAPKM_NR_SESSION_JOIN, &a);

	if (!rc) {
		cl->domain = a.out_domain;
		cl->session = a.out_session;
	}
	return rc;
}

/* A second client of @cl's session, in a process of its own. */
#define t_join_session(cl) (T_AT, t_join_session_(cl))
static T_UNUSED struct cl *t_join_session_(struct cl *of)
{
	struct cl *cl = t_second_(of);
	int rc = t_try_join_session(cl);

	if (rc)
		t_die("SESSION_JOIN: %d (%s)", rc, strerror(-rc));
	return cl;
}

/* Nodes of the error graph. */
#define t_failures(cl) (T_AT, t_domain_query_(cl).out_failures)

#define t_stream(cl) (T_AT, t_stream_(cl))
static T_UNUSED u_int64_t t_stream_(struct cl *cl)
{
	struct capkm_stream_create a = { 0 };

	T_OK(cl, STREAM_CREATE, &a);
	return a.out_stream;
}

static T_UNUSED int t_try_destroy_stream(struct cl *cl, u_int64_t stream)
{
	struct capkm_stream_destroy a = { .stream = stream };

	return t_call(cl, CAPKM_NR_STREAM_DESTROY, &a);
}

/* Returns how many windows were refused. */
#define t_destroy_stream(cl, stream) (T_AT, t_destroy_stream_(cl, stream))
static T_UNUSED unsigned int t_destroy_stream_(struct cl *cl, u_int64_t stream)
{
	struct capkm_stream_destroy a = { .stream = stream };

	T_OK(cl, STREAM_DESTROY, &a);
	return a.out_windows;
}

#define t_slot(cl, stream) (T_AT, t_slot_(cl, stream))
static T_UNUSED struct capkm_stream_query t_slot_(struct cl *cl, u_int64_t stream)
{
	struct capkm_stream_query a = { .place = t_place(stream) };

	T_OK(cl, STREAM_QUERY, &a);
	return a;
}

#define t_buffer(cl, bytes) (T_AT, t_buffer_(cl, bytes, 0))
#define t_shared(cl, bytes) (T_AT, t_buffer_(cl, bytes, CAPKM_BUFFER_CREATE_F_EXPORT))
#define t_unallocated(cl, bytes) \
	(T_AT, t_buffer_(cl, bytes, CAPKM_BUFFER_CREATE_F_UNALLOCATED))
#define t_fresh(cl, bytes) (T_AT, t_buffer_(cl, bytes, CAPKM_BUFFER_CREATE_F_FRESH))
/* Memory of the device T_GPU(n). */
#define t_buffer_on(cl, gpu, bytes, flags) (T_AT, t_buffer_on_(cl, gpu, bytes, flags))
static T_UNUSED u_int64_t t_buffer_on_(struct cl *cl, u_int64_t gpu, u_int64_t bytes,
				       unsigned int flags)
{
	struct capkm_buffer_create a = {
		.bytes = bytes, .flags = flags, .device[0] = gpu >> 56,
	};

	T_OK(cl, BUFFER_CREATE, &a);
	return a.out_buffer;
}

#define t_open(cl, buffer) (T_AT, t_open_(cl, buffer))
static T_UNUSED void t_open_(struct cl *cl, u_int64_t buffer)
{
	struct capkm_buffer_open a = { .buffer = buffer };

	T_OK(cl, BUFFER_OPEN, &a);
}

static T_UNUSED u_int64_t t_buffer_(struct cl *cl, u_int64_t bytes, unsigned int flags)
{
	return t_buffer_on_(cl, 0, bytes, flags);
}

static T_UNUSED int t_export(struct cl *cl, u_int64_t buffer)
{
	struct capkm_buffer_export a = { .buffer = buffer };

	return t_call(cl, CAPKM_NR_BUFFER_EXPORT, &a);
}

static T_UNUSED int t_drop(struct cl *cl, u_int64_t buffer)
{
	struct capkm_buffer_close a = { .buffer = buffer };

	return t_call(cl, CAPKM_NR_BUFFER_CLOSE, &a);
}

static T_UNUSED int t_reset(struct cl *cl, u_int64_t buffer, u_int64_t start,
			    u_int64_t end)
{
	struct capkm_buffer_reset a = { .claim = { buffer, start, end } };

	return t_call(cl, CAPKM_NR_BUFFER_RESET, &a);
}

#define T_RANGES 64
struct t_buffer {
	struct capkm_buffer_query q;
	struct capkm_range r[T_RANGES];
};

#define t_buffer_query(cl, buffer) (T_AT, t_buffer_query_(cl, buffer))
static T_UNUSED struct t_buffer t_buffer_query_(struct cl *cl, u_int64_t buffer)
{
	struct t_buffer b = { .q.buffer = buffer, .q.ranges_len = T_RANGES };

	b.q.ranges_uptr = t_ptr(b.r);
	T_OK(cl, BUFFER_QUERY, &b.q);
	b.q.ranges_uptr = 0;
	return b;
}

/* The buffer has exactly these ranges (start, end, id, state; kind as is). */
#define t_ranges_are(cl, buffer, ...) (T_AT, t_ranges_are_(cl, buffer,		\
	(const struct capkm_range[]){ __VA_ARGS__ },				\
	sizeof((const struct capkm_range[]){ __VA_ARGS__ }) / sizeof(struct capkm_range)))
#define t_no_ranges(cl, buffer) (T_AT, t_ranges_are_(cl, buffer, NULL, 0))
static T_UNUSED void t_ranges_are_(struct cl *cl, u_int64_t buffer,
				   const struct capkm_range *want, size_t n)
{
	struct t_buffer b = t_buffer_query_(cl, buffer);
	bool same = b.q.out_ranges == n && b.q.out_claims == n;

	for (size_t i = 1; same && i < n; i++)
		same = b.r[i - 1].start <= b.r[i].start;
	/* Ranges with the same start come in any order. */
	for (size_t i = 0; same && i < n; i++) {
		same = false;
		for (size_t j = 0; !same && j < n; j++)
			same = b.r[j].start == want[i].start &&
			       b.r[j].end == want[i].end && b.r[j].id == want[i].id &&
			       b.r[j].state == want[i].state;
	}
	if (same)
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "# expected [%llu,%llu) id %llu state %u\n", want[i].start,
			want[i].end, want[i].id, want[i].state);
	for (size_t i = 0; i < b.q.out_ranges && i < T_RANGES; i++)
		fprintf(stderr, "# found    [%llu,%llu) id %llu state %u\n", b.r[i].start,
			b.r[i].end, b.r[i].id, b.r[i].state);
	t_die("buffer %" PRIu64 " has other ranges", buffer);
}

/* The last writers are exactly these (start, end, session, stream, sequence). */
#define t_writers_are(cl, buffer, ...) (T_AT, t_writers_are_(cl, buffer,		\
	(const struct capkm_writer[]){ __VA_ARGS__ },				\
	sizeof((const struct capkm_writer[]){ __VA_ARGS__ }) /			\
	sizeof(struct capkm_writer)))
#define t_no_writers(cl, buffer) (T_AT, t_writers_are_(cl, buffer, NULL, 0))
static T_UNUSED void t_writers_are_(struct cl *cl, u_int64_t buffer,
				    const struct capkm_writer *want, size_t n)
{
	struct capkm_writer got[32];
	struct capkm_buffer_query a = {
		.buffer = buffer, .writers_len = ARRAY_SIZE(got),
		.writers_uptr = t_ptr(got),
	};
	bool same;

	T_OK(cl, BUFFER_QUERY, &a);
	same = a.out_writers == n;
	for (size_t i = 0; same && i < n; i++)
		same = !memcmp(&got[i], &want[i], sizeof(*want));
	if (same)
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "# expected [%llu,%llu) session %llu stream %llu at %llu\n",
			want[i].start, want[i].end, want[i].session, want[i].stream,
			want[i].sequence);
	for (size_t i = 0; i < a.out_writers && i < ARRAY_SIZE(got); i++)
		fprintf(stderr, "# found    [%llu,%llu) session %llu stream %llu at %llu\n",
			got[i].start, got[i].end, got[i].session, got[i].stream,
			got[i].sequence);
	t_die("buffer %" PRIu64 " has other writers", buffer);
}

struct t_enter {
	int rc;
	unsigned int result;
	unsigned int error_index;
	u_int64_t scope;
	u_int64_t sequence;
	unsigned int reports;
	struct capkm_report r;
};

static T_UNUSED struct t_enter t_try_enter(struct cl *cl, u_int64_t stream,
					   unsigned int flags, const char *label,
					   const struct capkm_claim *reads, size_t n_reads,
					   const struct capkm_claim *writes,
					   size_t n_writes)
{
	struct t_enter e;
	struct capkm_scope_enter a = {
		.flags = flags, .place = t_place(stream),
		.reads_uptr = t_ptr(reads), .reads_len = n_reads,
		.writes_uptr = t_ptr(writes), .writes_len = n_writes,
		.label_uptr = t_ptr(label), .label_len = label ? strlen(label) : 0,
		.reports_uptr = t_ptr(&e.r), .reports_len = 1,
	};

	memset(&e, 0xcc, sizeof(e));
	e.rc = t_call(cl, CAPKM_NR_SCOPE_ENTER, &a);
	e.result = a.out_result;
	e.error_index = a.out_error_index;
	e.scope = a.out_scope;
	e.sequence = a.out_sequence;
	e.reports = a.out_reports;
	return e;
}

/* Enters and must be let in; returns the scope. */
#define t_enter(...) (T_AT, t_enter_(__VA_ARGS__))
static T_UNUSED u_int64_t t_enter_(struct cl *cl, u_int64_t stream,
				   const struct capkm_claim *reads, size_t n_reads,
				   const struct capkm_claim *writes, size_t n_writes)
{
	struct t_enter e = t_try_enter(cl, stream, 0, NULL, reads, n_reads, writes,
				       n_writes);

	if (e.rc)
		t_die("SCOPE_ENTER: %d (%s)", e.rc, strerror(-e.rc));
	if (e.result != CAPKM_CLEAN)
		t_die("SCOPE_ENTER: result %u, kind %u, failure %llu", e.result, e.r.kind,
		      e.r.failure);
	if (!e.scope || e.reports)
		t_die("SCOPE_ENTER: scope %" PRIu64 ", %u reports", e.scope, e.reports);
	return e.scope;
}

/* Enters and must be skipped; returns the failure. */
#define t_skip(...) (T_AT, t_skip_(__VA_ARGS__))
static T_UNUSED u_int64_t t_skip_(struct cl *cl, u_int64_t stream, const char *label,
				  const struct capkm_claim *reads, size_t n_reads,
				  const struct capkm_claim *writes, size_t n_writes)
{
	struct t_enter e = t_try_enter(cl, stream, 0, label, reads, n_reads, writes,
				       n_writes);

	if (e.rc)
		t_die("SCOPE_ENTER: %d (%s)", e.rc, strerror(-e.rc));
	if (e.result != CAPKM_SKIPPED || e.scope || e.reports != 1)
		t_die("SCOPE_ENTER: result %u, scope %" PRIu64 ", %u reports", e.result,
		      e.scope, e.reports);
	return e.r.failure;
}

static T_UNUSED int t_try_exit(struct cl *cl, u_int64_t scope)
{
	struct capkm_scope_exit a = { .scope = scope };

	return t_call(cl, CAPKM_NR_SCOPE_EXIT, &a);
}

/*
 * Well, and finished or only enqueued; returns the failure that the bytes carry
 * all the same, 0 if none.
 */
#define t_exit(cl, scope) (T_AT, t_exit_(cl, scope))
#define t_exit_enqueued(cl, scope) (T_AT, t_exit_flags_(cl, scope, 0))
static T_UNUSED u_int64_t t_exit_flags_(struct cl *cl, u_int64_t scope,
					unsigned int flags)
{
	struct capkm_scope_exit a = { .scope = scope, .flags = flags };

	T_OK(cl, SCOPE_EXIT, &a);
	return a.out_failure;
}

static T_UNUSED u_int64_t t_exit_(struct cl *cl, u_int64_t scope)
{
	return t_exit_flags_(cl, scope, CAPKM_SCOPE_EXIT_F_COMPLETE);
}

/* Badly; returns the failure. */
#define t_exit_failed(cl, scope, text) (T_AT, t_exit_failed_(cl, scope, text))
static T_UNUSED u_int64_t t_exit_failed_(struct cl *cl, u_int64_t scope,
					 const char *text)
{
	struct capkm_scope_exit a = {
		.scope = scope, .flags = CAPKM_SCOPE_EXIT_F_FAILED,
		.kind = CAPKM_KIND_LAUNCH, .code = -700,
		.text_uptr = t_ptr(text), .text_len = text ? strlen(text) : 0,
	};

	T_OK(cl, SCOPE_EXIT, &a);
	return a.out_failure;
}

/* A scope that is entered and left well, or badly. Returns the slot's sequence. */
#define t_write(...) (T_AT, t_write_(__VA_ARGS__))
#define t_write_enqueued(cl, stream, ...) \
	(T_AT, t_write_flags_(cl, stream, 0, __VA_ARGS__))
static T_UNUSED u_int64_t t_write_flags_(struct cl *cl, u_int64_t stream,
					 unsigned int flags,
					 const struct capkm_claim *writes, size_t n)
{
	struct capkm_scope_exit a = {
		.scope = t_enter_(cl, stream, NULL, 0, writes, n), .flags = flags,
	};

	T_OK(cl, SCOPE_EXIT, &a);
	if (a.out_failure)
		t_die("a scope that went well carries failure %llu", a.out_failure);
	return a.out_sequence;
}

static T_UNUSED u_int64_t t_write_(struct cl *cl, u_int64_t stream,
				   const struct capkm_claim *writes, size_t n)
{
	return t_write_flags_(cl, stream, CAPKM_SCOPE_EXIT_F_COMPLETE, writes, n);
}

#define t_fail(...) (T_AT, t_fail_(__VA_ARGS__))
static T_UNUSED u_int64_t t_fail_(struct cl *cl, u_int64_t stream,
				  const struct capkm_claim *writes, size_t n,
				  const char *text)
{
	u_int64_t f = t_exit_failed_(cl, t_enter_(cl, stream, NULL, 0, writes, n), text);

	if (!f)
		t_die("a scope that failed has no failure");
	return f;
}

#define T_REPORTS 16
struct t_check {
	unsigned int result;
	unsigned int reports;
	unsigned int unconfirmed;
	u_int64_t sequence;
	struct capkm_report r[T_REPORTS];
};

#define t_check(...) (T_AT, t_check_(__VA_ARGS__))
/* With CAPKM_CHECK_F_* and their sequence, 0 if none. */
#define t_check_flags(...) (T_AT, t_check_flags_(__VA_ARGS__))
static T_UNUSED struct t_check t_check_flags_(struct cl *cl, unsigned int flags,
					      u_int64_t since,
					      const struct capkm_claim *claims, size_t n)
{
	struct t_check c;
	struct capkm_check a = {
		.flags = flags, .since = since,
		.claims_uptr = t_ptr(claims), .claims_len = n,
		.reports_uptr = t_ptr(c.r), .reports_len = T_REPORTS,
	};

	memset(&c, 0xcc, sizeof(c));
	T_OK(cl, CHECK, &a);
	c.result = a.out_result;
	c.reports = a.out_reports;
	c.unconfirmed = a.out_unconfirmed;
	c.sequence = a.out_sequence;
	if ((c.result == CAPKM_CLEAN || c.result == CAPKM_CHANGED) != !c.reports)
		t_die("CHECK: result %u with %u reports", c.result, c.reports);
	return c;
}

static T_UNUSED struct t_check t_check_(struct cl *cl, const struct capkm_claim *claims,
					size_t n)
{
	return t_check_flags_(cl, 0, 0, claims, n);
}

/* The range may be read. */
#define t_is_clean(cl, b, start, end) (T_AT, t_is_clean_(cl, b, start, end))
static T_UNUSED void t_is_clean_(struct cl *cl, u_int64_t b, u_int64_t start,
				 u_int64_t end)
{
	struct capkm_claim claim = { b, start, end };
	struct t_check c = t_check_(cl, &claim, 1);

	if (c.result != CAPKM_CLEAN)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64
		      " is not clean: failure %llu, kind %u, \"%s\"",
		      start, end, b, c.r[0].failure, c.r[0].kind, c.r[0].text);
}

/* The range is clean, and some of it is not confirmed; the report names who. */
#define t_is_pending(cl, b, start, end) (T_AT, t_is_pending_(cl, b, start, end))
static T_UNUSED struct capkm_report t_is_pending_(struct cl *cl, u_int64_t b,
						  u_int64_t start, u_int64_t end)
{
	struct capkm_claim claim = { b, start, end };
	struct t_check c = t_check_flags_(cl, CAPKM_CHECK_F_CONFIRMED, 0, &claim, 1);

	if (c.result != CAPKM_PENDING || c.reports != 1 || c.unconfirmed != 1 ||
	    c.r[0].kind != CAPKM_KIND_UNCONFIRMED || c.r[0].buffer != b)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64 ": result %u, %u reports, %u "
		      "unconfirmed, kind %u, expected PENDING", start, end, b, c.result,
		      c.reports, c.unconfirmed, c.r[0].kind);
	return c.r[0];
}

/* The range is clean and confirmed. */
#define t_is_confirmed(cl, b, start, end) (T_AT, t_is_confirmed_(cl, b, start, end))
static T_UNUSED void t_is_confirmed_(struct cl *cl, u_int64_t b, u_int64_t start,
				     u_int64_t end)
{
	struct capkm_claim claim = { b, start, end };
	struct t_check c = t_check_flags_(cl, CAPKM_CHECK_F_CONFIRMED, 0, &claim, 1);

	if (c.result != CAPKM_CLEAN || c.unconfirmed)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64 ": result %u, failure %llu, "
		      "kind %u, %u unconfirmed", start, end, b, c.result, c.r[0].failure,
		      c.r[0].kind, c.unconfirmed);
}

/* The range is tainted by @failure and nothing else decides; its report. */
#define t_is_failed(cl, b, start, end, failure) \
	(T_AT, t_is_failed_(cl, b, start, end, failure))
static T_UNUSED struct capkm_report t_is_failed_(struct cl *cl, u_int64_t b,
						 u_int64_t start, u_int64_t end,
						 u_int64_t failure)
{
	struct capkm_claim claim = { b, start, end };
	struct t_check c = t_check_(cl, &claim, 1);

	if (c.result != CAPKM_TAINTED || c.reports != 1)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64 ": result %u, %u reports",
		      start, end, b, c.result, c.reports);
	if (!c.r[0].failure || c.r[0].failure != failure || c.r[0].buffer != b)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64 ": failure %llu (kind %u, "
		      "\"%s\") of buffer %llu, expected %" PRIu64, start, end, b,
		      c.r[0].failure, c.r[0].kind, c.r[0].text, c.r[0].buffer, failure);
	return c.r[0];
}

/* The range is tainted, by whatever; its report. */
#define t_is_tainted(cl, b, start, end, kind) (T_AT, t_is_tainted_(cl, b, start, end, kind))
static T_UNUSED struct capkm_report t_is_tainted_(struct cl *cl, u_int64_t b,
						  u_int64_t start, u_int64_t end,
						  unsigned int kind)
{
	struct capkm_claim claim = { b, start, end };
	struct t_check c = t_check_(cl, &claim, 1);

	if (c.result != CAPKM_TAINTED || c.reports != 1 || c.r[0].kind != kind)
		t_die("[%" PRIu64 ",%" PRIu64 ") of %" PRIu64
		      ": result %u, %u reports, kind %u \"%s\", expected kind %u",
		      start, end, b, c.result, c.reports, c.r[0].kind, c.r[0].text, kind);
	return c.r[0];
}

/* The range is being written by @scope. */
#define t_is_open(cl, b, start, end, scope) (T_AT, t_is_open_(cl, b, start, end, scope))
static T_UNUSED void t_is_open_(struct cl *cl, u_int64_t b, u_int64_t start,
				u_int64_t end, u_int64_t scope)
{
	struct capkm_report r = t_is_tainted_(cl, b, start, end, CAPKM_KIND_IN_PROGRESS);

	if (r.scope != scope || r.failure || r.graph)
		t_die("in progress: scope %llu, graph %llu, failure %llu, expected scope %"
		      PRIu64, r.scope, r.graph, r.failure, scope);
}

static T_UNUSED int t_try_taint(struct cl *cl, const struct capkm_claim *claims,
				size_t n, u_int64_t failure, const char *text,
				u_int64_t *out)
{
	struct capkm_taint a = {
		.claims_uptr = t_ptr(claims), .claims_len = n, .failure = failure,
		.kind = failure ? 0 : CAPKM_KIND_IO, .code = failure ? 0 : -5,
		.text_uptr = t_ptr(text), .text_len = text ? strlen(text) : 0,
	};
	int rc = t_call(cl, CAPKM_NR_TAINT, &a);

	*out = rc ? 0 : a.out_failure;
	return rc;
}

/* A new failure with @text, or an existing one; returns it. */
#define t_taint(cl, text, ...) (T_AT, t_taint_(cl, __VA_ARGS__, 0, text))
#define t_taint_with(cl, failure, ...) (T_AT, t_taint_(cl, __VA_ARGS__, failure, NULL))
static T_UNUSED u_int64_t t_taint_(struct cl *cl, const struct capkm_claim *claims,
				   size_t n, u_int64_t failure, const char *text)
{
	u_int64_t out;
	int rc = t_try_taint(cl, claims, n, failure, text, &out);

	if (rc)
		t_die("TAINT: %d (%s)", rc, strerror(-rc));
	return out;
}

#define t_written(...) (T_AT, t_written_(__VA_ARGS__))
static T_UNUSED void t_written_(struct cl *cl, const struct capkm_claim *claims, size_t n)
{
	struct capkm_written a = { .claims_uptr = t_ptr(claims), .claims_len = n };

	T_OK(cl, WRITTEN, &a);
}

/* ------------------------------------------- confirmation, faults and errors */

static T_UNUSED int t_try_confirm(struct cl *cl, u_int64_t stream, u_int64_t sequence,
				  unsigned int flags)
{
	struct capkm_stream_confirm a = {
		.place = t_place(stream), .sequence = sequence, .flags = flags,
	};

	return t_call(cl, CAPKM_NR_STREAM_CONFIRM, &a);
}

/* Up to @sequence; returns the ranges that are left. */
#define t_confirm_to(cl, stream, sequence) (T_AT, t_confirm_to_(cl, stream, sequence))
static T_UNUSED u_int64_t t_confirm_to_(struct cl *cl, u_int64_t stream,
					u_int64_t sequence)
{
	struct capkm_stream_confirm a = {
		.place = t_place(stream), .sequence = sequence,
	};

	T_OK(cl, STREAM_CONFIRM, &a);
	return a.out_unconfirmed;
}

/* By @cl, of the work of the client with that id. */
static T_UNUSED int t_try_confirm_other(struct cl *cl, u_int64_t client, u_int64_t slot,
					u_int64_t sequence, u_int64_t *left)
{
	struct capkm_stream_confirm a = {
		.place = t_place(slot), .sequence = sequence, .client = client,
		.flags = CAPKM_PLACE_F_SLOT,
	};
	int rc;

	a.place.slot = a.place.stream;
	a.place.stream = 0;
	rc = t_call(cl, CAPKM_NR_STREAM_CONFIRM, &a);
	if (left)
		*left = a.out_unconfirmed;
	return rc;
}

/* All that the slot has done so far. */
#define t_confirm(cl, stream) (T_AT, t_confirm_(cl, stream))
static T_UNUSED void t_confirm_(struct cl *cl, u_int64_t stream)
{
	u_int64_t left = t_confirm_to_(cl, stream, t_slot_(cl, stream).out_sequence);

	if (left)
		t_die("%" PRIu64 " ranges are left after all was confirmed", left);
}

/* All that the client has done so far on the device of the stream. */
#define t_confirm_device(cl, stream) (T_AT, t_confirm_device_(cl, stream))
static T_UNUSED void t_confirm_device_(struct cl *cl, u_int64_t stream)
{
	struct capkm_stream_confirm a = {
		.flags = CAPKM_STREAM_CONFIRM_F_DEVICE, .place = t_place(stream),
		.sequence = t_domain_query_(cl).out_sequence,
	};

	T_OK(cl, STREAM_CONFIRM, &a);
	if (a.out_unconfirmed)
		t_die("%llu ranges are left after all was confirmed", a.out_unconfirmed);
}

static T_UNUSED int t_try_fault(struct cl *cl, u_int64_t stream)
{
	struct capkm_stream_fault a = { .place = t_place(stream) };

	return t_call(cl, CAPKM_NR_STREAM_FAULT, &a);
}

/* Returns the failure. */
#define t_fault(cl, stream, text) (T_AT, t_fault_(cl, stream, text))
static T_UNUSED u_int64_t t_fault_(struct cl *cl, u_int64_t stream, const char *text)
{
	struct capkm_stream_fault a = {
		.place = t_place(stream), .code = 700, .text_uptr = t_ptr(text),
		.text_len = text ? strlen(text) : 0,
	};

	T_OK(cl, STREAM_FAULT, &a);
	if (!a.out_failure || !a.out_epoch)
		t_die("STREAM_FAULT: failure %llu, epoch %llu", a.out_failure, a.out_epoch);
	return a.out_failure;
}

/* @gpu: T_GPU(n), 0 for the host. */
static T_UNUSED int t_try_renew(struct cl *cl, u_int64_t gpu)
{
	struct capkm_context_renew a = { .device[0] = gpu >> 56 };

	return t_call(cl, CAPKM_NR_CONTEXT_RENEW, &a);
}

/* Returns the epoch. */
#define t_renew(cl, gpu) (T_AT, t_renew_(cl, gpu))
static T_UNUSED u_int64_t t_renew_(struct cl *cl, u_int64_t gpu)
{
	struct capkm_context_renew a = { .device[0] = gpu >> 56 };

	T_OK(cl, CONTEXT_RENEW, &a);
	return a.out_epoch;
}

static T_UNUSED int t_device_fault(struct cl *cl, u_int64_t gpu, const char *text,
				   unsigned int *clients)
{
	struct capkm_device_fault a = {
		.device[0] = gpu >> 56, .code = 79, .text_uptr = t_ptr(text),
		.text_len = text ? strlen(text) : 0,
	};
	int rc = t_call(cl, CAPKM_NR_DEVICE_FAULT, &a);

	*clients = rc ? 0 : a.out_clients;
	return rc;
}

#define T_ERRORS 48
struct t_flush {
	int rc;
	unsigned int reports;
	u_int64_t left, dropped;
	struct capkm_report r[T_ERRORS];
};

/* With room for @n errors. */
static T_UNUSED struct t_flush t_try_flush(struct cl *cl, u_int64_t stream,
					   unsigned int flags, unsigned int n)
{
	struct t_flush f;
	struct capkm_stream_flush a = {
		.flags = flags, .place = t_place(stream), .reports_len = n,
		.reports_uptr = n ? t_ptr(f.r) : 0,
	};

	memset(&f, 0xcc, sizeof(f));
	f.rc = t_call(cl, CAPKM_NR_STREAM_FLUSH, &a);
	f.reports = a.out_reports;
	f.left = a.out_left;
	f.dropped = a.out_dropped;
	return f;
}

#define t_flush(cl, stream, flags) (T_AT, t_flush_(cl, stream, flags, T_ERRORS))
#define t_flush_some(cl, stream, flags, n) (T_AT, t_flush_(cl, stream, flags, n))
static T_UNUSED struct t_flush t_flush_(struct cl *cl, u_int64_t stream,
					unsigned int flags, unsigned int n)
{
	struct t_flush f = t_try_flush(cl, stream, flags, n);

	if (f.rc)
		t_die("STREAM_FLUSH: %d (%s)", f.rc, strerror(-f.rc));
	if (f.reports > n)
		t_die("STREAM_FLUSH: %u reports in room for %u", f.reports, n);
	return f;
}

/* ------------------------------------------------------------------ windows */

#define t_prepare(cl, stream) (T_AT, t_prepare_(cl, stream, 0))
#define t_prepare_cookie(cl, stream, cookie) (T_AT, t_prepare_(cl, stream, cookie))
static T_UNUSED u_int64_t t_prepare_(struct cl *cl, u_int64_t stream, u_int64_t cookie)
{
	struct capkm_window_prepare a = { .place = t_place(stream), .cookie = cookie };

	T_OK(cl, WINDOW_PREPARE, &a);
	if (a.out_state != CAPKM_WINDOW_PREPARE || !a.out_window)
		t_die("WINDOW_PREPARE: state %u, window %llu", a.out_state, a.out_window);
	return a.out_window;
}

struct t_state {
	int rc;
	unsigned int state;
};

static T_UNUSED struct t_state t_try_prepare(struct cl *cl, u_int64_t stream)
{
	struct capkm_window_prepare a = { .place = t_place(stream) };
	int rc = t_call(cl, CAPKM_NR_WINDOW_PREPARE, &a);

	return (struct t_state){ rc, a.out_state };
}

static T_UNUSED struct t_state t_try_begin(struct cl *cl, u_int64_t stream,
					   unsigned int flags)
{
	struct capkm_window_begin a = { .place = t_place(stream), .flags = flags };
	int rc = t_call(cl, CAPKM_NR_WINDOW_BEGIN, &a);

	return (struct t_state){ rc, a.out_state };
}

static T_UNUSED struct t_state t_try_end(struct cl *cl, u_int64_t stream,
					 unsigned int flags)
{
	struct capkm_window_end a = { .place = t_place(stream), .flags = flags };
	int rc = t_call(cl, CAPKM_NR_WINDOW_END, &a);

	return (struct t_state){ rc, a.out_state };
}

#define t_begin(cl, stream) (T_AT, t_begin_(cl, stream))
static T_UNUSED u_int64_t t_begin_(struct cl *cl, u_int64_t stream)
{
	struct capkm_window_begin a = { .place = t_place(stream) };

	T_OK(cl, WINDOW_BEGIN, &a);
	return a.out_window;
}

/* Prepares and begins on a software slot. */
#define t_record(cl, stream) (T_AT, t_record_(cl, stream))
static T_UNUSED u_int64_t t_record_(struct cl *cl, u_int64_t stream)
{
	u_int64_t w = t_prepare_(cl, stream, 0);

	if (t_begin_(cl, stream) != w)
		t_die("WINDOW_BEGIN: another window than WINDOW_PREPARE's");
	return w;
}

static T_UNUSED struct capkm_window_prepare
t_try_prepare_flags(struct cl *cl, u_int64_t stream, u_int64_t parent,
		    unsigned int flags, int *rc)
{
	struct capkm_window_prepare a = {
		.flags = flags, .place = t_place(stream), .parent = parent,
	};

	*rc = t_call(cl, CAPKM_NR_WINDOW_PREPARE, &a);
	return a;
}

/* A child of the recording window @parent; a strict window. */
#define t_prepare_child(cl, stream, parent) \
	(T_AT, t_prepare_flags_(cl, stream, parent, 0))
#define t_prepare_strict(cl, stream) \
	(T_AT, t_prepare_flags_(cl, stream, 0, CAPKM_WINDOW_PREPARE_F_STRICT))
static T_UNUSED u_int64_t t_prepare_flags_(struct cl *cl, u_int64_t stream,
					   u_int64_t parent, unsigned int flags)
{
	struct capkm_window_prepare a;
	int rc;

	a = t_try_prepare_flags(cl, stream, parent, flags, &rc);
	if (rc)
		t_die("WINDOW_PREPARE: %d (%s)", rc, strerror(-rc));
	return a.out_window;
}

/* Prepares and begins it. */
#define t_record_child(cl, stream, parent) (T_AT, t_record_child_(cl, stream, parent))
static T_UNUSED u_int64_t t_record_child_(struct cl *cl, u_int64_t stream,
					  u_int64_t parent)
{
	u_int64_t w = t_prepare_flags_(cl, stream, parent, 0);

	t_begin_(cl, stream);
	return w;
}

struct t_joined {
	int rc;
	unsigned int state;
	unsigned int result;
};

static T_UNUSED struct t_joined t_try_join(struct cl *cl, u_int64_t window,
					   u_int64_t stream, unsigned int flags)
{
	struct capkm_window_join a = {
		.flags = flags, .window = window, .place = t_place(stream),
	};
	int rc = t_call(cl, CAPKM_NR_WINDOW_JOIN, &a);

	return (struct t_joined){ rc, a.out_state, a.out_result };
}

/* The slot of @stream records in @window from now on. */
#define t_join(cl, window, stream) (T_AT, t_join_(cl, window, stream))
static T_UNUSED void t_join_(struct cl *cl, u_int64_t window, u_int64_t stream)
{
	struct t_joined j = t_try_join(cl, window, stream, 0);

	if (j.rc)
		t_die("WINDOW_JOIN: %d (%s), state %u", j.rc, strerror(-j.rc), j.state);
	if (j.result != CAPKM_CLEAN)
		t_die("WINDOW_JOIN: result %u, state %u", j.result, j.state);
}

#define t_end(cl, stream) (T_AT, t_end_(cl, stream))
static T_UNUSED struct capkm_window_end t_end_(struct cl *cl, u_int64_t stream)
{
	struct capkm_window_end a = { .place = t_place(stream) };

	T_OK(cl, WINDOW_END, &a);
	return a;
}

struct t_seal {
	int rc;
	unsigned int result;
	unsigned int reports;
	u_int64_t graph;
	struct capkm_report r[4];
};

static T_UNUSED struct t_seal t_try_seal(struct cl *cl, u_int64_t window,
					 unsigned int flags)
{
	struct t_seal s;
	struct capkm_window_seal a = {
		.window = window, .flags = flags, .reports_len = 4,
		.reports_uptr = t_ptr(s.r),
	};

	memset(&s, 0xcc, sizeof(s));
	s.rc = t_call(cl, CAPKM_NR_WINDOW_SEAL, &a);
	s.result = a.out_result;
	s.reports = a.out_reports;
	s.graph = a.out_graph;
	return s;
}

/* Must be sealed; returns the graph. */
#define t_seal(cl, window) (T_AT, t_seal_(cl, window, 0))
#define t_seal_flags(cl, window, flags) (T_AT, t_seal_(cl, window, flags))
static T_UNUSED u_int64_t t_seal_(struct cl *cl, u_int64_t window, unsigned int flags)
{
	struct t_seal s = t_try_seal(cl, window, flags);

	if (s.rc)
		t_die("WINDOW_SEAL: %d (%s)", s.rc, strerror(-s.rc));
	if (s.result != CAPKM_CLEAN || !s.graph || s.reports)
		t_die("WINDOW_SEAL: result %u, graph %" PRIu64 ", %u reports \"%s\"",
		      s.result, s.graph, s.reports, s.r[0].text);
	return s.graph;
}

/* Must be refused; the reports say why. */
#define t_seal_refused(cl, window) (T_AT, t_seal_refused_(cl, window))
static T_UNUSED struct t_seal t_seal_refused_(struct cl *cl, u_int64_t window)
{
	struct t_seal s = t_try_seal(cl, window, 0);

	if (s.rc)
		t_die("WINDOW_SEAL: %d (%s)", s.rc, strerror(-s.rc));
	if (s.result != CAPKM_REFUSED || s.graph)
		t_die("WINDOW_SEAL: result %u, graph %" PRIu64, s.result, s.graph);
	return s;
}

/* Records one scope over the claims and seals; returns the graph. */
#define t_graph(...) (T_AT, t_graph_(__VA_ARGS__))
static T_UNUSED u_int64_t t_graph_(struct cl *cl, u_int64_t stream,
				   const struct capkm_claim *reads, size_t n_reads,
				   const struct capkm_claim *writes, size_t n_writes)
{
	u_int64_t w = t_record_(cl, stream);

	t_exit_(cl, t_enter_(cl, stream, reads, n_reads, writes, n_writes));
	t_end_(cl, stream);
	return t_seal_(cl, w, 0);
}

#define t_refuse(cl, window, text) (T_AT, t_refuse_(cl, window, text))
static T_UNUSED struct t_seal t_refuse_(struct cl *cl, u_int64_t window,
					const char *text)
{
	struct t_seal s;
	struct capkm_window_refuse a = {
		.window = window, .code = 901, .text_uptr = t_ptr(text),
		.text_len = text ? strlen(text) : 0,
		.reports_len = 4, .reports_uptr = t_ptr(s.r),
	};

	memset(&s, 0xcc, sizeof(s));
	T_OK(cl, WINDOW_REFUSE, &a);
	s.rc = 0;
	s.reports = a.out_reports;
	return s;
}

#define t_abort(cl, stream) (T_AT, t_abort_(cl, stream))
static T_UNUSED u_int64_t t_abort_(struct cl *cl, u_int64_t stream)
{
	struct capkm_window_abort a = { .place = t_place(stream) };

	T_OK(cl, WINDOW_ABORT, &a);
	return a.out_window;
}

static T_UNUSED int t_abandon(struct cl *cl, u_int64_t window)
{
	struct capkm_window_abandon a = { .window = window };

	return t_call(cl, CAPKM_NR_WINDOW_ABANDON, &a);
}

struct t_wait {
	int rc;
	u_int64_t window, left;
	unsigned int state, kind;
};

/* By id, or with @window 0 by the slot of @stream. */
static T_UNUSED struct t_wait t_wait(struct cl *cl, u_int64_t window, u_int64_t stream,
				     u_int64_t timeout_ns)
{
	struct capkm_window_wait a = {
		.window = window, .place = t_place(stream), .timeout_ns = timeout_ns,
	};
	int rc = t_call(cl, CAPKM_NR_WINDOW_WAIT, &a);

	return (struct t_wait){
		rc, a.out_window, a.timeout_ns, a.out_state, a.out_kind
	};
}

#define T_MEMBERS 16
struct t_window {
	struct capkm_window_query q;
	struct capkm_report r[4];
	struct capkm_member m[T_MEMBERS];
};

#define t_window(cl, window) (T_AT, t_window_(cl, window))
static T_UNUSED struct t_window t_window_(struct cl *cl, u_int64_t window)
{
	struct t_window w = {
		.q.window = window, .q.reports_len = 4, .q.members_len = T_MEMBERS,
	};

	w.q.reports_uptr = t_ptr(w.r);
	w.q.members_uptr = t_ptr(w.m);
	T_OK(cl, WINDOW_QUERY, &w.q);
	w.q.reports_uptr = 0;
	w.q.members_uptr = 0;
	return w;
}

struct t_take {
	int rc;
	unsigned int claims, retained, reports;
	struct capkm_claim c[32];
	struct capkm_retained h[8];
	struct capkm_report r[2];
};

static T_UNUSED struct t_take t_try_take(struct cl *cl, u_int64_t window,
					 unsigned int flags)
{
	struct t_take t;
	struct capkm_window_take a = {
		.window = window, .flags = flags,
		.claims_uptr = t_ptr(t.c), .claims_len = ARRAY_SIZE(t.c),
		.retained_uptr = t_ptr(t.h), .retained_len = ARRAY_SIZE(t.h),
		.reports_uptr = t_ptr(t.r), .reports_len = ARRAY_SIZE(t.r),
	};

	memset(&t, 0xcc, sizeof(t));
	t.rc = t_call(cl, CAPKM_NR_WINDOW_TAKE, &a);
	t.claims = a.out_claims;
	t.retained = a.out_retained;
	t.reports = a.out_reports;
	return t;
}

#define t_take(cl, window, flags) (T_AT, t_take_(cl, window, flags))
static T_UNUSED struct t_take t_take_(struct cl *cl, u_int64_t window,
				      unsigned int flags)
{
	struct t_take t = t_try_take(cl, window, flags);

	if (t.rc)
		t_die("WINDOW_TAKE: %d (%s)", t.rc, strerror(-t.rc));
	return t;
}

/* What was recorded is exactly this, in this order. */
#define t_take_is(cl, window, ...) (T_AT, t_take_is_(cl, window, __VA_ARGS__))
static T_UNUSED void t_take_is_(struct cl *cl, u_int64_t window,
				const struct capkm_claim *want, size_t n)
{
	struct t_take t = t_take_(cl, window, CAPKM_WINDOW_TAKE_F_REWIND);
	bool same = t.claims == n;

	for (size_t i = 0; same && i < n; i++)
		same = !memcmp(&t.c[i], &want[i], sizeof(*want));
	if (same)
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "# expected %llu [%llu,%llu)\n", want[i].buffer,
			want[i].start, want[i].end);
	for (size_t i = 0; i < t.claims; i++)
		fprintf(stderr, "# found    %llu [%llu,%llu)\n", t.c[i].buffer, t.c[i].start,
			t.c[i].end);
	t_die("window %" PRIu64 " recorded something else", window);
}

static T_UNUSED int t_try_record(struct cl *cl, u_int64_t window, unsigned int flags,
				 const struct capkm_claim *reads, size_t n_reads,
				 const struct capkm_claim *writes, size_t n_writes)
{
	struct capkm_window_record a = {
		.window = window, .flags = flags,
		.reads_uptr = t_ptr(reads), .reads_len = n_reads,
		.writes_uptr = t_ptr(writes), .writes_len = n_writes,
	};

	return t_call(cl, CAPKM_NR_WINDOW_RECORD, &a);
}

#define t_window_fail(cl, window, stream, code, label, text) \
	(T_AT, t_window_fail_(cl, window, stream, code, label, text))
static T_UNUSED struct capkm_window_fail
t_window_fail_(struct cl *cl, u_int64_t window, u_int64_t stream, int code,
	       const char *label, const char *text)
{
	struct capkm_window_fail a = {
		.window = window, .stream = stream, .kind = CAPKM_KIND_DRIVER,
		.code = code, .label_uptr = t_ptr(label),
		.label_len = label ? strlen(label) : 0,
		.text_uptr = t_ptr(text), .text_len = text ? strlen(text) : 0,
	};

	T_OK(cl, WINDOW_FAIL, &a);
	return a;
}

static T_UNUSED int t_retain(struct cl *cl, u_int64_t window, u_int64_t address,
			     u_int64_t bytes, unsigned int mode)
{
	struct capkm_window_retain a = {
		.window = window,
		.retained = {
			.address = address, .bytes = bytes, .cookie = address + 1,
			.epoch = 3, .mode = mode,
		},
	};

	return t_call(cl, CAPKM_NR_WINDOW_RETAIN, &a);
}

/* ------------------------------------------------------------------- graphs */

struct t_replay {
	int rc;
	unsigned int result;
	unsigned int reports;
	struct capkm_report r;
};

static T_UNUSED struct t_replay t_try_replay(struct cl *cl, u_int64_t graph,
					     u_int64_t stream)
{
	struct t_replay t;
	struct capkm_graph_replay_begin a = {
		.graph = graph, .place = t_place(stream), .reports_len = 1,
		.reports_uptr = t_ptr(&t.r),
	};

	memset(&t, 0xcc, sizeof(t));
	t.rc = t_call(cl, CAPKM_NR_GRAPH_REPLAY_BEGIN, &a);
	t.result = a.out_result;
	t.reports = a.out_reports;
	return t;
}

#define t_replay_begin(cl, graph, stream) (T_AT, t_replay_begin_(cl, graph, stream))
static T_UNUSED void t_replay_begin_(struct cl *cl, u_int64_t graph, u_int64_t stream)
{
	struct t_replay t = t_try_replay(cl, graph, stream);

	if (t.rc || t.result != CAPKM_CLEAN || t.reports)
		t_die("GRAPH_REPLAY_BEGIN: %d, result %u, %u reports", t.rc, t.result,
		      t.reports);
}

static T_UNUSED int t_try_replay_end(struct cl *cl, u_int64_t graph)
{
	struct capkm_graph_replay_end a = { .graph = graph };

	return t_call(cl, CAPKM_NR_GRAPH_REPLAY_END, &a);
}

/* Well, and finished, or with @text badly; returns the failure, 0 if none. */
#define t_replay_end(cl, graph, text) (T_AT, t_replay_end_(cl, graph, text))
#define t_replay_end_enqueued(cl, graph) (T_AT, t_replay_end_flags_(cl, graph, NULL, 0))
static T_UNUSED u_int64_t t_replay_end_flags_(struct cl *cl, u_int64_t graph,
					      const char *text, unsigned int flags)
{
	struct capkm_graph_replay_end a = {
		.graph = graph, .flags = text ? CAPKM_SCOPE_EXIT_F_FAILED : flags,
		.kind = text ? CAPKM_KIND_DRIVER : 0, .code = text ? 719 : 0,
		.text_uptr = t_ptr(text), .text_len = text ? strlen(text) : 0,
	};

	T_OK(cl, GRAPH_REPLAY_END, &a);
	return a.out_failure;
}

static T_UNUSED u_int64_t t_replay_end_(struct cl *cl, u_int64_t graph, const char *text)
{
	return t_replay_end_flags_(cl, graph, text, CAPKM_SCOPE_EXIT_F_COMPLETE);
}

#define t_replay(cl, graph, stream) \
	(T_AT, t_replay_(cl, graph, stream, CAPKM_SCOPE_EXIT_F_COMPLETE))
#define t_replay_enqueued(cl, graph, stream) (T_AT, t_replay_(cl, graph, stream, 0))
static T_UNUSED void t_replay_(struct cl *cl, u_int64_t graph, u_int64_t stream,
			       unsigned int flags)
{
	t_replay_begin_(cl, graph, stream);
	if (t_replay_end_flags_(cl, graph, NULL, flags))
		t_die("a replay that went well has a failure");
}

/* Replaces the claims of @graph with those of @window, or is refused. */
static T_UNUSED struct t_seal t_try_update(struct cl *cl, u_int64_t graph,
					   u_int64_t window, unsigned int flags)
{
	struct t_seal s;
	struct capkm_graph_update a = {
		.flags = flags, .graph = graph, .window = window, .reports_len = 4,
		.reports_uptr = t_ptr(s.r),
	};

	memset(&s, 0xcc, sizeof(s));
	s.rc = t_call(cl, CAPKM_NR_GRAPH_UPDATE, &a);
	s.result = a.out_result;
	s.reports = a.out_reports;
	s.graph = graph;
	return s;
}

#define t_update(cl, graph, window) (T_AT, t_update_(cl, graph, window))
static T_UNUSED void t_update_(struct cl *cl, u_int64_t graph, u_int64_t window)
{
	struct t_seal s = t_try_update(cl, graph, window, 0);

	if (s.rc)
		t_die("GRAPH_UPDATE: %d (%s)", s.rc, strerror(-s.rc));
	if (s.result != CAPKM_CLEAN || s.reports)
		t_die("GRAPH_UPDATE: result %u, %u reports \"%s\"", s.result, s.reports,
		      s.r[0].text);
}

static T_UNUSED int t_destroy(struct cl *cl, u_int64_t graph)
{
	struct capkm_graph_destroy a = { .graph = graph };

	return t_call(cl, CAPKM_NR_GRAPH_DESTROY, &a);
}

struct t_graph {
	struct capkm_graph_query q;
	struct capkm_claim c[32];
};

#define t_graph_query(cl, graph, flags) (T_AT, t_graph_query_(cl, graph, flags))
static T_UNUSED struct t_graph t_graph_query_(struct cl *cl, u_int64_t graph,
					      unsigned int flags)
{
	struct t_graph g = { .q.graph = graph, .q.flags = flags, .q.claims_len = 32 };

	g.q.claims_uptr = t_ptr(g.c);
	T_OK(cl, GRAPH_QUERY, &g.q);
	g.q.claims_uptr = 0;
	return g;
}

/* The graph's writes, inputs or seen claims are exactly these. */
#define t_graph_is(cl, graph, flags, ...) \
	(T_AT, t_graph_is_(cl, graph, flags, __VA_ARGS__))
static T_UNUSED void t_graph_is_(struct cl *cl, u_int64_t graph, unsigned int flags,
				 const struct capkm_claim *want, size_t n)
{
	struct t_graph g = t_graph_query_(cl, graph, flags);
	bool same = g.q.out_claims == n;

	for (size_t i = 0; same && i < n; i++)
		same = !memcmp(&g.c[i], &want[i], sizeof(*want));
	if (same)
		return;
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "# expected %llu [%llu,%llu)\n", want[i].buffer,
			want[i].start, want[i].end);
	for (size_t i = 0; i < g.q.out_claims; i++)
		fprintf(stderr, "# found    %llu [%llu,%llu)\n", g.c[i].buffer, g.c[i].start,
			g.c[i].end);
	t_die("graph %" PRIu64 " has other claims", graph);
}

struct t_failure {
	int rc;
	struct capkm_failure_query q;
	struct capkm_report r;
	struct capkm_hop h[20];
	struct capkm_claim c[32];
	char stack[CAPKM_STACK_MAX];
};

static T_UNUSED struct t_failure t_try_failure(struct cl *cl, u_int64_t failure,
					       u_int64_t buffer)
{
	struct t_failure f;

	memset(&f, 0xcc, sizeof(f));
	f.q = (struct capkm_failure_query){
		.failure = failure, .buffer = buffer,
		.reports_uptr = t_ptr(&f.r), .reports_len = 1,
		.hops_uptr = t_ptr(f.h), .hops_len = ARRAY_SIZE(f.h),
		.carriers_uptr = t_ptr(f.c), .carriers_len = ARRAY_SIZE(f.c),
		.stack_uptr = t_ptr(f.stack), .stack_len = sizeof(f.stack),
	};
	f.rc = t_call(cl, CAPKM_NR_FAILURE_QUERY, &f.q);
	return f;
}

#define t_failure(cl, failure, buffer) (T_AT, t_failure_(cl, failure, buffer))
static T_UNUSED struct t_failure t_failure_(struct cl *cl, u_int64_t failure,
					    u_int64_t buffer)
{
	struct t_failure f = t_try_failure(cl, failure, buffer);

	if (f.rc || f.q.out_reports != 1 || f.r.failure != failure)
		t_die("FAILURE_QUERY %" PRIu64 ": %d, %u reports, failure %llu", failure,
		      f.rc, f.q.out_reports, f.r.failure);
	return f;
}

/* ----------------------------------------------------------------- ledgers */

/* The same on each axis. */
static T_UNUSED struct capkm_usage t_usage(u_int64_t n)
{
	return (struct capkm_usage){ n, n, n, n };
}

/* A ledger with the same limit for a step and in all, and on each axis. */
static T_UNUSED u_int64_t t_ledger(struct cl *cl, unsigned int flags, u_int64_t most,
				   unsigned int on_limit)
{
	struct capkm_ledger_create a = {
		.flags = flags, .per_step = t_usage(most), .cumulative = t_usage(most),
		.on_limit = on_limit,
	};
	int rc = t_call(cl, CAPKM_NR_LEDGER_CREATE, &a);

	if (rc)
		t_die("LEDGER_CREATE: %d", rc);
	return a.out_ledger;
}

struct t_reserve {
	int rc;
	struct capkm_ledger_reserve a;
};

static T_UNUSED struct t_reserve t_reserve(struct cl *cl, u_int64_t ledger,
					   struct capkm_usage u)
{
	struct t_reserve r = { .a = { .ledger = ledger, .usage = u } };

	r.rc = t_call(cl, CAPKM_NR_LEDGER_RESERVE, &r.a);
	return r;
}

/* On each axis; there is room. */
#define t_charge(cl, ledger, n) (T_AT, t_charge_(cl, ledger, n))
static T_UNUSED void t_charge_(struct cl *cl, u_int64_t ledger, u_int64_t n)
{
	struct t_reserve r = t_reserve(cl, ledger, t_usage(n));

	if (r.rc || r.a.out_result != CAPKM_CLEAN)
		t_die("LEDGER_RESERVE: %d, result %u", r.rc, r.a.out_result);
}

#define t_step(cl, ledger) (T_AT, t_step_(cl, ledger))
static T_UNUSED u_int64_t t_step_(struct cl *cl, u_int64_t ledger)
{
	struct capkm_ledger_begin_step a = { .ledger = ledger };
	int rc = t_call(cl, CAPKM_NR_LEDGER_BEGIN_STEP, &a);

	if (rc)
		t_die("LEDGER_BEGIN_STEP: %d", rc);
	return a.out_steps;
}

#define t_ledger_query(cl, ledger) (T_AT, t_ledger_query_(cl, ledger))
static T_UNUSED struct capkm_ledger_query t_ledger_query_(struct cl *cl, u_int64_t ledger)
{
	struct capkm_ledger_query q = { .ledger = ledger };
	int rc = t_call(cl, CAPKM_NR_LEDGER_QUERY, &q);

	if (rc)
		t_die("LEDGER_QUERY: %d", rc);
	return q;
}

static T_UNUSED int t_adopt(struct cl *cl, u_int64_t ledger)
{
	struct capkm_ledger_adopt a = { .ledger = ledger };

	return t_call(cl, CAPKM_NR_LEDGER_ADOPT, &a);
}

static T_UNUSED int t_ledger_destroy(struct cl *cl, u_int64_t ledger)
{
	struct capkm_ledger_destroy a = { .ledger = ledger };

	return t_call(cl, CAPKM_NR_LEDGER_DESTROY, &a);
}

/* --------------------------------------------------------------- whole state */

/*
 * Everything that the client can see, as text. Two dumps are equal if and only
 * if nothing happened between them. Ids are small here; a buffer that the
 * client does not hold shows as its error.
 */
#define T_DUMP_IDS (t_embedded() ? 32u : 12u)	/* the machine is slow */

static T_UNUSED void t_dump_report(FILE *f, const struct capkm_report *r)
{
	fprintf(f, "\treport %llu kind %u code %d of %llu [%llu,%llu) scope %llu graph %llu "
		"window %llu stream %llu session %llu at %llu carriers %u hops %u "
		"\"%s\" \"%s\"\n", r->failure, r->kind, r->code, r->buffer, r->start,
		r->end, r->scope, r->graph, r->window, r->stream, r->session, r->sequence,
		r->carriers, r->hops, r->label, r->text);
}

/* A slot of @cl, and the errors that wait there, each with its stream. */
static T_UNUSED void t_dump_slot(FILE *f, struct cl *cl, u_int64_t id)
{
	struct capkm_stream_query s = { .place = t_place(id) };
	int e = t_call(cl, CAPKM_NR_STREAM_QUERY, &s);
	struct t_flush x;

	if (e) {
		fprintf(f, "slot of %" PRIx64 ": %d\n", id, e);
		return;
	}
	fprintf(f, "slot %u of %" PRIx64 ": state %u window %llu owner %llu scopes %llu "
		"sequence %llu confirmed %llu unconfirmed %llu failure %llu epoch %llu "
		"queued %u\n", s.out_slot, id, s.out_state, s.out_window, s.out_owner,
		s.out_scopes, s.out_sequence, s.out_confirmed, s.out_unconfirmed,
		s.out_failure, s.out_epoch, s.out_queued);
	x = t_try_flush(cl, id, CAPKM_STREAM_FLUSH_F_PEEK | CAPKM_STREAM_FLUSH_F_EVERY,
			T_ERRORS);
	if (x.rc)
		return;
	fprintf(f, "\terrors %u left %" PRIu64 " dropped %" PRIu64 "\n", x.reports,
		x.left, x.dropped);
	for (unsigned int i = 0; i < x.reports; i++)
		t_dump_report(f, &x.r[i]);
}

static T_UNUSED void t_dump_usage(FILE *f, const char *what, struct capkm_usage u)
{
	fprintf(f, " %s %llu/%llu/%llu/%llu", what, u.captures, u.retained_bytes,
		u.host_bytes, u.encoded_bytes);
}

static T_UNUSED void t_dump_ledgers(FILE *f, struct cl *cl)
{
	struct capkm_ledger_query q = { .flags = CAPKM_LEDGER_QUERY_F_NEXT };

	for (; !t_call(cl, CAPKM_NR_LEDGER_QUERY, &q); q.ledger = q.out_ledger + 1) {
		fprintf(f, "ledger %llu: holder %llu parent %llu flags %u on limit %u "
			"steps %llu reserved %llu refused %llu label %s", q.out_ledger,
			q.out_holder, q.out_parent, q.out_flags, q.out_on_limit,
			q.out_steps, q.out_reserved, q.out_refused,
			(char *)q.out_label);
		t_dump_usage(f, "per step", q.out_per_step);
		t_dump_usage(f, "cumulative", q.out_cumulative);
		t_dump_usage(f, "inherited", q.out_inherited);
		t_dump_usage(f, "step", q.out_step);
		t_dump_usage(f, "total", q.out_total);
		fprintf(f, "\n");
	}
}

static T_UNUSED char *t_dump_once(struct cl *cl)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	struct capkm_domain_query d = { 0 };
	int rc = t_call(cl, CAPKM_NR_DOMAIN_QUERY, &d);

	fprintf(f, "domain %d", rc);
	if (!rc)
		fprintf(f, ": %llu session %llu state %u mode %o sessions %u sequence %llu "
			"buffers %llu streams %llu scopes %llu windows %llu orphans %llu "
			"graphs %llu failures %llu claims %llu reports %llu history %llu "
			"clients %u faulted %u unconfirmed %llu sealed %llu "
			"given up %llu",
			d.out_domain, d.out_session, d.out_state, d.out_mode, d.out_sessions,
			d.out_sequence, d.out_buffers, d.out_streams, d.out_scopes,
			d.out_windows, d.out_orphans, d.out_graphs, d.out_failures,
			d.out_claims, d.out_reports, d.out_history, d.out_clients,
			d.out_faulted, d.out_unconfirmed, d.out_sealed,
			d.out_given_up);
	if (!rc)
		t_dump_usage(f, "charged", d.out_charged);
	fprintf(f, "\n");
	for (u_int64_t id = 1; !rc && id <= T_DUMP_IDS; id++) {
		struct capkm_writer writers[16];
		struct t_buffer b = {
			.q = { .buffer = id, .ranges_len = T_RANGES,
			       .ranges_uptr = t_ptr(b.r),
			       .writers_len = ARRAY_SIZE(writers),
			       .writers_uptr = t_ptr(writers) },
		};
		struct t_window w = {
			.q = { .window = id, .reports_len = 2,
			       .reports_uptr = t_ptr(w.r),
			       .members_len = T_MEMBERS, .members_uptr = t_ptr(w.m) },
		};
		struct t_failure x = t_try_failure(cl, id, 0);
		int e;

		e = t_call(cl, CAPKM_NR_BUFFER_QUERY, &b.q);
		if (!e) {
			fprintf(f, "buffer %llu: %llu sequence %llu claims %llu failures %llu "
				"session %llu state %u holders %u uses %u\n", b.q.buffer,
				b.q.out_bytes, b.q.out_sequence, b.q.out_claims,
				b.q.out_failures, b.q.out_session, b.q.out_state,
				b.q.out_holders, b.q.out_uses);
			for (u_int32_t i = 0; i < b.q.out_ranges; i++)
				fprintf(f, "\t[%llu,%llu) %llu state %u kind %u\n",
					b.r[i].start, b.r[i].end, b.r[i].id, b.r[i].state,
					b.r[i].kind);
			for (u_int32_t i = 0; i < b.q.out_writers; i++)
				fprintf(f, "\t[%llu,%llu) writer %llu %llu at %llu\n",
					writers[i].start, writers[i].end,
					writers[i].session, writers[i].stream,
					writers[i].sequence);
		} else if (e != -ENOENT) {
			fprintf(f, "buffer %" PRIu64 ": %d\n", id, e);
		}
		e = t_call(cl, CAPKM_NR_WINDOW_QUERY, &w.q);
		if (!e) {
			fprintf(f, "window %llu: owner %llu session %llu cookie %llu graph "
				"%llu slot %u state %u verdict %u cache %u doomed %u "
				"recorded %llu bytes %llu inputs %llu retained %llu/%llu "
				"launches %llu foreign %llu failures %llu after %llu closed "
				"%d parent %llu escaped %llu children %u members %u\n", w.q.window, w.q.out_owner, w.q.out_session,
				w.q.out_cookie, w.q.out_graph, w.q.out_slot, w.q.out_state,
				w.q.out_verdict, w.q.out_capture_cache, w.q.out_doomed,
				w.q.out_recorded, w.q.out_bytes, w.q.out_inputs,
				w.q.out_retained, w.q.out_retained_bytes, w.q.out_launches,
				w.q.out_foreign_launches, w.q.out_failures,
				w.q.out_failed_after, !!w.q.out_closed_ns, w.q.out_parent,
				w.q.out_escaped, w.q.out_children, w.q.out_members);
			for (u_int32_t i = 0; i < w.q.out_members && i < T_MEMBERS; i++)
				fprintf(f, "\tmember %u on %u: scopes %u stream %llu "
					"launches %llu\n", w.m[i].slot, w.m[i].device[0],
					w.m[i].scopes, w.m[i].stream, w.m[i].launches);
			for (u_int32_t i = 0; i < w.q.out_reports && i < 2; i++)
				t_dump_report(f, &w.r[i]);
		} else if (e != -ENOENT) {
			fprintf(f, "window %" PRIu64 ": %d\n", id, e);
		}
		for (unsigned int set = 0; set < 3; set++) {
			struct t_graph g = {
				.q = { .graph = id, .flags = set, .claims_len = 32,
				       .claims_uptr = t_ptr(g.c) },
			};

			e = t_call(cl, CAPKM_NR_GRAPH_QUERY, &g.q);
			if (e) {
				if (e != -ENOENT)
					fprintf(f, "graph %" PRIu64 ": %d\n", id, e);
				break;
			}
			if (!set)
				fprintf(f, "graph %llu: window %llu writes %llu inputs %llu "
					"seen %llu retained %llu replays %llu failed %llu "
					"replaying %u updates %llu/%llu\n",
					g.q.graph, g.q.out_window,
					g.q.out_writes, g.q.out_inputs, g.q.out_seen,
					g.q.out_retained, g.q.out_replays,
					g.q.out_failed_replays, g.q.out_replaying,
					g.q.out_updates, g.q.out_failed_updates);
			for (u_int32_t i = 0; i < g.q.out_claims && i < 32; i++)
				fprintf(f, "\tset %u: %llu [%llu,%llu)\n", set,
					g.c[i].buffer, g.c[i].start, g.c[i].end);
		}
		if (!x.rc) {
			fprintf(f, "failure %" PRIu64 ": skips %llu dropped %llu stack %u\n",
				id, x.q.out_skips, x.q.out_dropped, x.q.out_stack);
			t_dump_report(f, &x.r);
			for (u_int32_t i = 0; i < x.q.out_carriers && i < 32; i++)
				fprintf(f, "\tcarrier %llu [%llu,%llu)\n", x.c[i].buffer,
					x.c[i].start, x.c[i].end);
		}
		if (id <= 8)
			t_dump_slot(f, cl, id);
		if (id <= 4)
			t_dump_slot(f, cl, T_GPU(1) | id);
	}
	t_dump_ledgers(f, cl);
	fclose(f);
	return text;
}

/* To look makes ordinary scopes of fast ones, and takes samples: the second look is plain. */
static T_UNUSED char *t_dump(struct cl *cl)
{
	free(t_dump_once(cl));
	return t_dump_once(cl);
}

/* Nothing has happened since @before, which is freed. */
#define t_unchanged(cl, before) (T_AT, t_unchanged_(cl, before))
static T_UNUSED void t_unchanged_(struct cl *cl, char *before)
{
	char *now = t_dump(cl), *a = before, *b = now;

	if (strcmp(before, now)) {
		/* The first line that differs says it. */
		while (*a && *b && !strncmp(a, b, strcspn(a, "\n") + 1)) {
			a += strcspn(a, "\n") + 1;
			b += strcspn(b, "\n") + 1;
		}
		t_die("something has changed:\n# was %.*s\n# is  %.*s",
		      (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b);
	}
	free(before);
	free(now);
}

/* A call that must fail with @errno and change nothing for any of the clients. */
#define T_REFUSED(cl, rc, call) do {					\
	char *before_ = (T_AT, t_dump(cl));				\
	int got_ = (call);						\
									\
	T_AT;								\
	if (got_ != (rc))						\
		t_die(#call ": %d, expected %d", got_, rc);		\
	t_unchanged_(cl, before_);					\
} while (0)

/* The domain is as it was when it was created, but for its history. */
#define t_is_empty(cl) (T_AT, t_is_empty_(cl))
static T_UNUSED void t_is_empty_(struct cl *cl)
{
	struct capkm_domain_query d = t_domain_query_(cl);

	if (d.out_scopes || d.out_windows || d.out_graphs || d.out_failures ||
	    d.out_claims || d.out_buffers)
		t_die("left over: scopes %llu windows %llu graphs %llu failures %llu claims "
		      "%llu buffers %llu", d.out_scopes, d.out_windows, d.out_graphs,
		      d.out_failures, d.out_claims, d.out_buffers);
}

/*
 * The engine has never been in a state that cannot be and, under LeakSanitizer,
 * everything that was taken has been given back.
 */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

#define t_no_leaks() (T_AT, t_no_leaks_())
static T_UNUSED void t_no_leaks_(void)
{
	if (capkm_test_check_count())
		t_die("the engine found itself in an impossible state");
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		t_die("memory has leaked");
}

#endif /* CAPKM_TEST_H */
