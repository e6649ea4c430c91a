/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a host gives to the engine: memory, a mutex, time, and who calls. The
 * kernel module implements it in kmod/host.c and host_kernel.h, the library in
 * lib/host_user.c and host_user.h.
 */
#ifndef CAPKM_HOST_H
#define CAPKM_HOST_H

#ifdef __KERNEL__
#include "../host_kernel.h"
#else
#include "host_user.h"
#endif

/*
 * A host's header defines:
 *
 *	u8 u16 u32 u64 s32 s64 bool size_t, U32_MAX U64_MAX, offsetof,
 *	container_of, likely, unlikely, min, max, ARRAY_SIZE, READ_ONCE,
 *	WRITE_ONCE, check_add_overflow, memset, memcpy, memmove, memcmp, memchr, strlen,
 *	snprintf/scnprintf, the errno values
 *
 *	struct host_mutex, host_mutex_init(), host_mutex_destroy(),
 *	host_lock(), host_unlock(), host_assert_held()
 *
 *	struct host_waitq, host_waitq_init(), host_waitq_destroy(),
 *	host_wake()
 *
 *	host_relax(): lets others run between two bounded pieces of long work
 *
 *	host_load(), host_store() of memory that is shared with programs, which may write
 *	to it at any time: one access, in no order; host_load_acquire(),
 *	host_store_release(); host_cmpxchg(address, old, new): true if it was @old and is
 *	@new now, a full barrier then; host_mb(): a full barrier
 *
 *	host_trace(event, ...): tells who traces, if anybody does, of capkm_<event>,
 *	a tracepoint of kmod/trace.h, which has the arguments; they may be left alone
 *
 * host_lock() is not interruptible: the engine never sleeps under a mutex.
 */

/*
 * Lets go of @m, waits until host_wake(), which is called with @m held, or until
 * *@timeout_ns are over (U64_MAX: for ever), and takes @m again. May also wake
 * for nothing. 0, -ETIMEDOUT, or -EINTR for a signal. *@timeout_ns: what is left.
 */
int host_wait(struct host_waitq *q, struct host_mutex *m, u64 *timeout_ns);

/* Zeroed and accounted to the caller; NULL if there is none. May sleep. */
void *host_alloc(size_t bytes);
/* Also of NULL, and also where a mutex is held. */
void host_free(void *p);

/*
 * Memory that a host can map into a process, in pages that are there once they were
 * filled, or touched there, and then stay. What is in it does not straddle pages.
 */
struct host_region;
struct host_region *host_region_new(size_t bytes);	/* NULL: no memory. May sleep */
void host_region_free(struct host_region *r);		/* also of NULL */
/* There is a page at the offset from now on; false: no memory. May sleep. */
bool host_region_fill(struct host_region *r, size_t at);
/* NULL: there is none. */
void *host_region_at(const struct host_region *r, size_t at);

/* CLOCK_REALTIME and CLOCK_BOOTTIME, nanoseconds. */
u64 host_time_ns(void);
u64 host_uptime_ns(void);
/* Another one every few milliseconds; costs next to nothing, only to be compared. */
unsigned long host_moment(void);

/* CAPKM_FEATURE_* of this host: is it an authority for several processes. */
u64 host_features(void);

/*
 * host_relax() for whoever waits for @m, which is let go and taken again: what it protects
 * may be another afterwards.
 */
void host_let_in(struct host_mutex *m);
/* The caller is being killed: nobody waits for the rest of long work that may stop. */
bool host_killed(void);

/*
 * For whoever follows the events of all domains. @e->number counts those of the
 * domain, without gaps; @proc: the client, or NULL. With a domain's lock held:
 * neither of them waits, and what cannot be told is lost.
 */
struct capkm_event;
struct host_proc;
bool host_event_wanted(void);
void host_event(u64 domain, const struct capkm_event *e,
		const struct host_proc *proc);

/* Last resort for a state that cannot be: warns once, goes on. */
#define host_check(cond) do {						\
	if (unlikely(!(cond)))						\
		host_check_at(false, #cond, __func__);			\
} while (0)
bool host_check_at(bool ok, const char *what, const char *where);

/*
 * A process image. The engine holds references to tell dead processes from
 * living ones and to name them later; a pid number is only made for a reader.
 */
struct host_proc *host_proc_get(struct host_proc *proc);
void host_proc_put(struct host_proc *proc);
u32 host_proc_pid(const struct host_proc *proc);	/* for the reader, 0: not visible */

/* User and group ids are kept in the initial namespace's numbering. */
u32 host_uid_view(u32 uid);		/* as the reader sees it */
u32 host_gid_view(u32 gid);
bool host_uid_parse(u32 seen, u32 *uid); /* from the caller's numbering */
bool host_in_group(u32 gid);		/* is the caller a member */

/**
 * struct capkm_caller - who makes a call
 * @proc: thread group; borrowed for the call
 * @image: changes with exec; only compared
 * @tid: thread, evidence only
 * @uid: effective user, initial numbering
 * @gid: effective group, initial numbering
 * @net: network namespace, by a number that is never used again; 0: in none
 * @all_nets: domains that were made in other ones are there for him, too
 * @admin: CAP_SYS_ADMIN in the initial user namespace
 * @comm: command name, NUL-terminated
 */
struct capkm_caller {
	struct host_proc *proc;
	const void *image;
	u32 tid;
	u32 uid;
	u32 gid;
	u64 net;
	bool all_nets;
	bool admin;
	char comm[16];
};

#endif /* CAPKM_HOST_H */
