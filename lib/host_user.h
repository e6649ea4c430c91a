/* SPDX-License-Identifier: MIT */
/* User space as the engine's host: see kmod/engine/host.h. */
#ifndef CAPKM_HOST_USER_H
#define CAPKM_HOST_USER_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#define U32_MAX		UINT32_MAX
#define U64_MAX		UINT64_MAX

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)
#define fallthrough	__attribute__((fallthrough))

#define READ_ONCE(x)	(*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value)						\
	(*(volatile __typeof__(x) *)&(x) = (value))

#define host_load(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define host_store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define host_load_acquire(p)	__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define host_store_release(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define host_cmpxchg(p, old, new)					\
({									\
	__typeof__(*(p)) was = (old);					\
	__atomic_compare_exchange_n(p, &was, new, false,		\
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
})

/* TSan knows no fences, but what is in a sequence of all such exchanges. */
static inline void host_mb(void)
{
#ifdef __SANITIZE_THREAD__
	static int all;

	__atomic_exchange_n(&all, 1, __ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define BUILD_BUG_ON(cond) _Static_assert(!(cond), #cond)

#define container_of(ptr, type, member)					\
	((type *)((char *)(ptr) - offsetof(type, member)))

/* __COUNTER__ gives names of their own to a min() in an argument of a max(). */
#define min(a, b)	host_pick(a, b, <, __COUNTER__)
#define max(a, b)	host_pick(a, b, >, __COUNTER__)
#define host_pick(a, b, op, n) host_pick_named(a, b, op, n)
#define host_pick_named(a, b, op, n)					\
({									\
	__auto_type pick_a##n = (a);					\
	__auto_type pick_b##n = (b);					\
	pick_a##n op pick_b##n ? pick_a##n : pick_b##n;			\
})

#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)
#define check_mul_overflow(a, b, product) __builtin_mul_overflow(a, b, product)

/* Bytes written, without the NUL. */
__attribute__((format(printf, 3, 4)))
int scnprintf(char *buf, size_t size, const char *format, ...);

/*
 * @waiting: how many do not get it at once. @owner is only kept in debug builds, for
 * host_assert_held().
 */
struct host_mutex {
	pthread_mutex_t mutex;
	u32 waiting;
#ifdef CAPKM_DEBUG
	pthread_t owner;
	bool held;
#endif
};

void host_mutex_init(struct host_mutex *m);
void host_mutex_destroy(struct host_mutex *m);
void host_lock(struct host_mutex *m);
void host_unlock(struct host_mutex *m);
#ifdef CAPKM_DEBUG
void host_assert_held(const struct host_mutex *m);
#else
static inline void host_assert_held(const struct host_mutex *m)
{
	(void)m;
}
#endif

/* Threads of user space are preempted anyway. */
static inline void host_relax(void)
{
}

struct host_waitq {
	pthread_cond_t cond;
};

void host_waitq_init(struct host_waitq *q);
void host_waitq_destroy(struct host_waitq *q);
void host_wake(struct host_waitq *q);

#define host_trace(event, ...) do { } while (0)

#endif /* CAPKM_HOST_USER_H */
