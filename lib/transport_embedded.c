// SPDX-License-Identifier: MIT
/*
 * The engine itself, compiled into the library: one instance for all embedded
 * handles of a process, and a new one in a child that opens its own.
 */
#define _GNU_SOURCE
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engine.h"
#include "fast.h"
#include "fork.h"
#include "host_proc.h"
#include "test_hooks.h"
#include "thread.h"
#include "transport.h"

struct embedded {
	struct capkm_session *session;
	struct capkm_caller opener;	/* holds a reference to its proc */
	pthread_mutex_t reading;	/* an event is taken by one thread */
};

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static u64 started_in;		/* generation of the process, see fork.c */
static struct host_proc *self;

/* Memory of the caller is memory of ours; only what cannot be one is refused. */
static bool is_address(u64 address)
{
	return address >= 4096 && address == (uintptr_t)address;
}

static int copy_in(void *dst, u64 src, size_t n)
{
	if (!is_address(src))
		return -EFAULT;
	memcpy(dst, (const void *)(uintptr_t)src, n);
	return 0;
}

static int copy_out(u64 dst, const void *src, size_t n)
{
	if (!is_address(dst))
		return -EFAULT;
	memcpy((void *)(uintptr_t)dst, src, n);
	return 0;
}

static const struct capkm_copier copier = { .in = copy_in, .out = copy_out };

static void before_fork(void)
{
	pthread_mutex_lock(&starting);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&starting);
}

/* With @starting held. What a child inherits of the engine it leaves alone. */
static int start(void)
{
	const u64 generation = capkm_generation();
	struct host_proc *proc;
	int rc;

	if (started_in == generation)
		return 0;
	proc = host_proc_new((u32)getpid());
	if (!proc)
		return -ENOMEM;
	rc = capkm_engine_init();
	if (rc) {
		host_proc_put(proc);
		return rc;
	}
	if (!started_in)
		pthread_atfork(before_fork, after_fork, after_fork);
	self = proc;
	started_in = generation;
	return 0;
}

static u32 thread_id(void)
{
	static HERE u64 known_in;
	static HERE u32 tid;

	if (known_in != started_in) {
		known_in = started_in;
		tid = (u32)syscall(SYS_gettid);
	}
	return tid;
}

/* ---- other processes, played by tests ---- */

struct player {
	struct player *next;
	struct host_proc *proc;
};

static pthread_mutex_t playing = PTHREAD_MUTEX_INITIALIZER;
static struct player *players;	/* never freed: threads may still be one */
static HERE struct host_proc *played;

static struct player *find_player(u32 pid)
{
	struct player *p;

	for (p = players; p; p = p->next)
		if (p->proc->pid == pid)
			break;
	return p;
}

static struct player *new_player(u32 pid)
{
	struct player *p = calloc(1, sizeof(*p));

	if (!p)
		abort();
	p->proc = host_proc_new(pid);
	if (!p->proc)
		abort();
	p->next = players;
	players = p;
	return p;
}

void capkm_test_become(uint32_t pid)
{
	struct player *p = NULL;

	pthread_mutex_lock(&playing);
	if (pid) {
		p = find_player(pid);
		if (!p)
			p = new_player(pid);
	}
	pthread_mutex_unlock(&playing);
	played = p ? p->proc : NULL;
	/* What is mapped is the session's first client's. */
	capkm_fast_never(played);
}

void capkm_embedded_die(void *state, uint32_t pid)
{
	struct embedded *e = state;
	struct player *p;

	pthread_mutex_lock(&playing);
	p = find_player(pid);
	pthread_mutex_unlock(&playing);
	if (p)
		capkm_client_end(e->session, p->proc, NULL);
}

void capkm_test_first(uint64_t id, uint64_t sequence)
{
	capkm_first = (struct capkm_first){ .id = id, .sequence = sequence };
}

static struct host_proc *current_proc(void)
{
	return played ? played : self;
}

/* ---- transport ---- */

/* Credentials are those of the open, as with a file. */
static void caller_init(struct capkm_caller *who)
{
	memset(who, 0, sizeof(*who));
	who->proc = host_proc_get(current_proc());
	who->image = who->proc;
	who->tid = thread_id();
	who->uid = geteuid();
	who->gid = getegid();
	who->all_nets = true;
	who->admin = !who->uid;
	prctl(PR_GET_NAME, who->comm);
}

static int open_session(struct embedded *e)
{
	int rc = start();

	if (rc)
		return rc;
	capkm_engine_reap();
	caller_init(&e->opener);
	rc = capkm_session_open(&e->opener, &e->session);
	if (rc)
		host_proc_put(e->opener.proc);
	else
		pthread_mutex_init(&e->reading, NULL);
	return rc;
}

static int embedded_open(const char *path, void **state, char *why, size_t size)
{
	struct embedded *e = calloc(1, sizeof(*e));
	int rc = -ENOMEM;

	if (e) {
		pthread_mutex_lock(&starting);
		rc = open_session(e);
		pthread_mutex_unlock(&starting);
	}
	if (rc) {
		free(e);
		snprintf(why, size, "%s: %s", path, strerror(-rc));
		return rc;
	}
	*state = e;
	return 0;
}

static void set_caller(struct capkm_caller *who, const struct embedded *e)
{
	*who = e->opener;
	who->proc = current_proc();
	who->image = who->proc;
	who->tid = thread_id();
}

static int embedded_call(void *state, unsigned int nr, void *arg)
{
	const struct embedded *e = state;
	struct capkm_caller who;

	set_caller(&who, e);
	return capkm_call(e->session, nr, (uintptr_t)arg, &copier, &who);
}

static int take_event(struct embedded *e, const struct capkm_caller *who,
		      struct capkm_event *event)
{
	int rc;

	pthread_mutex_lock(&e->reading);
	rc = capkm_event_next(e->session, who, false, event);
	if (rc == 1)
		capkm_event_taken(e->session, event);
	pthread_mutex_unlock(&e->reading);
	return rc;
}

/*
 * The engine waits for ever or not at all: for a time in between we look again
 * and again. What a wait finds, another thread may take first.
 */
static int wait_event(struct embedded *e, const struct capkm_caller *who,
		      struct capkm_event *event, int timeout_ms)
{
	const struct timespec step = { .tv_nsec = 1000000 };
	const u64 until = host_uptime_ns() + (u64)timeout_ms * 1000000;
	int rc;

	for (;;) {
		rc = take_event(e, who, event);
		if (rc != -EAGAIN)
			return rc;
		if (timeout_ms < 0) {
			rc = capkm_event_next(e->session, who, true, event);
			if (rc != 1)
				return rc;
		} else {
			if (host_uptime_ns() >= until)
				return -ETIMEDOUT;
			nanosleep(&step, NULL);
		}
	}
}

static int embedded_events(void *state, struct capkm_event *events, uint32_t len,
			   int timeout_ms)
{
	struct embedded *e = state;
	struct capkm_caller who;
	u32 n = 1;
	int rc;

	set_caller(&who, e);
	rc = wait_event(e, &who, events, timeout_ms);
	if (rc != 1)
		return rc;
	while (n < len && take_event(e, &who, &events[n]) == 1)
		n++;
	return n;
}

/* The engine that an inherited session belongs to is the parent's. */
static void embedded_close(void *state, bool inherited)
{
	struct embedded *e = state;

	if (!inherited) {
		capkm_session_release(e->session);
		pthread_mutex_destroy(&e->reading);
		host_proc_put(e->opener.proc);
		capkm_engine_reap();
	}
	free(e);
}

static int embedded_fd(void *state)
{
	(void)state;
	return -EOPNOTSUPP;
}

static void *embedded_map(void *state, uint64_t offset, size_t bytes, bool writable)
{
	const struct embedded *e = state;
	struct host_region *r = capkm_session_region(e->session, offset);

	(void)bytes;
	(void)writable;
	return r ? host_region_at(r, 0) : NULL;
}

/* It is the session's. */
static void embedded_unmap(void *p, size_t bytes)
{
	(void)p;
	(void)bytes;
}

const struct capkm_transport capkm_transport_embedded = {
	.name = "the embedded engine",
	.open = embedded_open,
	.call = embedded_call,
	.events = embedded_events,
	.close = embedded_close,
	.fd = embedded_fd,
	.map = embedded_map,
	.unmap = embedded_unmap,
};
