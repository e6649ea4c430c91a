/* SPDX-License-Identifier: GPL-2.0-only */
/* The kernel as the engine's host: see engine/host.h. */
#ifndef CAPKM_HOST_KERNEL_H
#define CAPKM_HOST_KERNEL_H

#include <linux/atomic.h>
#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/container_of.h>
#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/lockdep.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/wait.h>

#define host_load(p)		READ_ONCE(*(p))
#define host_store(p, v)	WRITE_ONCE(*(p), v)
#define host_load_acquire(p)	smp_load_acquire(p)	/* host_store_release(), a client's too */
#define host_store_release(p, v) smp_store_release(p, v) /* host_load_acquire(), a client's too */
#define host_cmpxchg(p, old, new) (cmpxchg(p, old, new) == (old))
#define host_mb()		smp_mb()		/* said where it is called */

struct host_mutex {
	struct mutex mutex;	/* who takes it, and in which order: engine/internal.h */
};

/* A macro, so that lockdep sees a class for each kind of lock. */
#define host_mutex_init(m) mutex_init(&(m)->mutex)

static inline void host_mutex_destroy(struct host_mutex *m)
{
	mutex_destroy(&m->mutex);
}

static inline void host_lock(struct host_mutex *m)
{
	mutex_lock(&m->mutex);
}

static inline void host_unlock(struct host_mutex *m)
{
	mutex_unlock(&m->mutex);
}

/* The mutex is handed over to whoever has waited for long. */
static inline void host_let_in(struct host_mutex *m)
{
	mutex_unlock(&m->mutex);
	cond_resched();
	mutex_lock(&m->mutex);
}

static inline void host_relax(void)
{
	cond_resched();
}

static inline void host_assert_held(const struct host_mutex *m)
{
	lockdep_assert_held(&m->mutex);
}

struct host_waitq {
	wait_queue_head_t head;
};

#define host_waitq_init(q) init_waitqueue_head(&(q)->head)

static inline void host_waitq_destroy(struct host_waitq *q)
{
}

static inline void host_wake(struct host_waitq *q)
{
	/* The sleeper queues itself before it lets the mutex go that we hold. */
	if (waitqueue_active(&q->head))
		wake_up_all(&q->head);
}

/* A branch that is patched in while somebody traces; see trace.h. */
#define host_trace(event, ...) trace_capkm_##event(__VA_ARGS__)

#endif /* CAPKM_HOST_KERNEL_H */
