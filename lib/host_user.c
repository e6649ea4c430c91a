// SPDX-License-Identifier: MIT
/* User space as the engine's host: memory, a mutex, time, and who calls. */
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "host.h"
#include "host_proc.h"
#include "test_hooks.h"

/* ---- time ---- */

static u64 clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (u64)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* ---- memory ---- */

static _Atomic u64 allocs, frees, fail_at;

void *host_alloc(size_t bytes)
{
	const u64 nth = ++allocs;
	void *p = nth == fail_at ? NULL : calloc(1, bytes);

	if (!p)
		frees++;
	return p;
}

void host_free(void *p)
{
	if (p)
		frees++;
	free(p);
}

void capkm_test_fail_alloc(uint64_t n)
{
	fail_at = n ? allocs + n : 0;
}

uint64_t capkm_test_alloc_count(void)
{
	return allocs;
}

uint64_t capkm_test_alloc_live(void)
{
	return allocs - frees;
}

/* The kernel brings the pages when they are touched. */
struct host_region {
	char *memory;
	size_t bytes;
};

struct host_region *host_region_new(size_t bytes)
{
	struct host_region *r = host_alloc(sizeof(*r));
	void *p;

	if (!r)
		return NULL;
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) {
		host_free(r);
		return NULL;
	}
	r->memory = p;
	r->bytes = bytes;
	return r;
}

void host_region_free(struct host_region *r)
{
	if (r)
		munmap(r->memory, r->bytes);
	host_free(r);
}

bool host_region_fill(struct host_region *r, size_t at)
{
	(void)r;
	(void)at;
	return true;
}

void *host_region_at(const struct host_region *r, size_t at)
{
	return r->memory + at;
}

/* ---- mutex ---- */

void host_mutex_init(struct host_mutex *m)
{
	memset(m, 0, sizeof(*m));
	pthread_mutex_init(&m->mutex, NULL);
}

void host_mutex_destroy(struct host_mutex *m)
{
	pthread_mutex_destroy(&m->mutex);
}

/* Counted only while it waits, so that host_let_in() sees whom to let in. */
static void lock_mutex(struct host_mutex *m)
{
	if (likely(!pthread_mutex_trylock(&m->mutex)))
		return;
	__atomic_fetch_add(&m->waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&m->mutex);
	__atomic_fetch_sub(&m->waiting, 1, __ATOMIC_RELAXED);
}

static _Atomic u64 lets_in;

/*
 * Whoever waits is asleep, and the mutex goes to the first who comes: that would be us
 * again, so we sleep, too.
 */
void host_let_in(struct host_mutex *m)
{
	const struct timespec moment = { .tv_nsec = 50000 };

	lets_in++;
	host_unlock(m);
	if (__atomic_load_n(&m->waiting, __ATOMIC_RELAXED))
		nanosleep(&moment, NULL);
	host_lock(m);
}

uint64_t capkm_test_let_in_count(void)
{
	return lets_in;
}

#ifdef CAPKM_DEBUG
static bool is_mine(const struct host_mutex *m)
{
	return m->held && pthread_equal(m->owner, pthread_self());
}

void host_lock(struct host_mutex *m)
{
	lock_mutex(m);
	m->owner = pthread_self();
	m->held = true;
}

void host_unlock(struct host_mutex *m)
{
	host_check(is_mine(m));
	m->held = false;
	pthread_mutex_unlock(&m->mutex);
}

void host_assert_held(const struct host_mutex *m)
{
	host_check(is_mine(m));
}
#else
void host_lock(struct host_mutex *m)
{
	lock_mutex(m);
}

void host_unlock(struct host_mutex *m)
{
	pthread_mutex_unlock(&m->mutex);
}
#endif

/* ---- waiting ---- */

void host_waitq_init(struct host_waitq *q)
{
	pthread_condattr_t attr;

	memset(q, 0, sizeof(*q));
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->cond, &attr);
	pthread_condattr_destroy(&attr);
}

void host_waitq_destroy(struct host_waitq *q)
{
	pthread_cond_destroy(&q->cond);
}

void host_wake(struct host_waitq *q)
{
	pthread_cond_broadcast(&q->cond);
}

/* Longer is for ever: thirty years, which seconds of 32 bits can still count. */
#define LONGEST_WAIT	((u64)1 << 60)

static int wait_until(struct host_waitq *q, pthread_mutex_t *m, u64 until)
{
	struct timespec ts = {
		.tv_sec = until / 1000000000,
		.tv_nsec = until % 1000000000,
	};

	return pthread_cond_timedwait(&q->cond, m, &ts) ? -ETIMEDOUT : 0;
}

/* A signal does not end it: a condition variable goes on waiting. */
int host_wait(struct host_waitq *q, struct host_mutex *m, u64 *timeout_ns)
{
	const u64 start = clock_ns(CLOCK_MONOTONIC);
	u64 spent;
	int err = 0;

#ifdef CAPKM_DEBUG
	host_check(is_mine(m));
	m->held = false;
#endif
	if (*timeout_ns >= LONGEST_WAIT)
		pthread_cond_wait(&q->cond, &m->mutex);
	else
		err = wait_until(q, &m->mutex, start + *timeout_ns);
#ifdef CAPKM_DEBUG
	m->owner = pthread_self();
	m->held = true;
#endif
	spent = clock_ns(CLOCK_MONOTONIC) - start;
	if (*timeout_ns != U64_MAX)
		*timeout_ns -= min(*timeout_ns, spent);
	return err;
}

/* ---- the rest ---- */

u64 host_time_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

u64 host_uptime_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

/* The kernel's tick, which the process can look at without a call. */
unsigned long host_moment(void)
{
	return (unsigned long)clock_ns(CLOCK_MONOTONIC_COARSE);
}

u64 host_features(void)
{
	return 0;
}

bool host_killed(void)
{
	return false;
}

/* There are no domains but this process' own, and nobody who could follow them. */
bool host_event_wanted(void)
{
	return false;
}

void host_event(u64 domain, const struct capkm_event *e,
		const struct host_proc *proc)
{
	(void)domain;
	(void)e;
	(void)proc;
}

static _Atomic u64 failed_checks;

bool host_check_at(bool ok, const char *what, const char *where)
{
	if (ok)
		return true;
	if (!failed_checks++)
		fprintf(stderr, "capkm: not so in %s: %s\n", where, what);
#ifdef CAPKM_DEBUG
	abort();
#endif
	return false;
}

uint64_t capkm_test_check_count(void)
{
	return failed_checks;
}

int scnprintf(char *buf, size_t size, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(buf, size, format, args);
	va_end(args);
	if (n < 0 || !size)
		return 0;
	return (size_t)n < size ? n : (int)(size - 1);
}

/* ---- who calls ---- */

struct host_proc *host_proc_new(u32 pid)
{
	struct host_proc *proc = calloc(1, sizeof(*proc));

	if (proc) {
		proc->refs = 1;
		proc->pid = pid;
	}
	return proc;
}

struct host_proc *host_proc_get(struct host_proc *proc)
{
	proc->refs++;
	return proc;
}

void host_proc_put(struct host_proc *proc)
{
	if (!--proc->refs)
		free(proc);
}

u32 host_proc_pid(const struct host_proc *proc)
{
	return proc->pid;
}

u32 host_uid_view(u32 uid)
{
	return uid;
}

u32 host_gid_view(u32 gid)
{
	return gid;
}

bool host_uid_parse(u32 seen, u32 *uid)
{
	*uid = seen;
	return seen != U32_MAX;
}

bool host_in_group(u32 gid)
{
	gid_t groups[256];
	int n = getgroups(256, groups);

	while (n-- > 0)
		if (groups[n] == gid)
			return true;
	return getegid() == gid;
}
