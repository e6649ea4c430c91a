/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the rooms around the engine call: chardev.c, netlink.c and the embedded
 * transport of the library.
 *
 * Locks, in the order in which they are taken:
 *
 *	mmap_lock of the process
 *	session->attach_lock	attaching, once in a session's life
 *	  domain->lock		everything inside a domain
 *	    registry.lock	the table of domains, a leaf
 *
 * No user memory is touched, nothing is allocated and nothing waits under the
 * last two; host_wait() lets domain->lock go while it waits.
 */
#ifndef CAPKM_ENGINE_H
#define CAPKM_ENGINE_H

#include "host.h"
#include <linux/capkm.h>

struct capkm_session;

int capkm_engine_init(void);
void capkm_engine_exit(void);

/* Seconds that a domain lingers which only its reports and orphans keep. */
extern unsigned int capkm_linger_s;

/* By enum capkm_limit: what a new domain gets. A value may change at any time. */
extern u64 capkm_limits[CAPKM_LIMITS];

/* Frees domains whose linger time is over; called now and then. */
void capkm_engine_reap(void);

/* A session, with its opener as its first client. */
int capkm_session_open(const struct capkm_caller *who,
		       struct capkm_session **out);
/* The last reference to the description is gone: ends clients and session. */
void capkm_session_release(struct capkm_session *s);
/*
 * The process image (@proc, @image) is gone, or the whole process if @image is
 * NULL: ends its client of this session. Idempotent, allocates nothing, cannot
 * fail.
 */
void capkm_client_end(struct capkm_session *s, struct host_proc *proc,
		      const void *image);

/* Is the caller a client of the session, and alive? */
bool capkm_session_is_client(struct capkm_session *s,
			     const struct capkm_caller *who);

/*
 * The next event that the session has not read. 1: here it is, and it stays the
 * next one until capkm_event_taken(); 0: there will be none, the domain was
 * destroyed; -EAGAIN: none, and not @wait; -EINTR, -ENOTCONN, -EACCES, -EPERM,
 * -ECANCELED.
 */
int capkm_event_next(struct capkm_session *s, const struct capkm_caller *who,
		     bool wait, struct capkm_event *event);
/* The event was handed on. Unless somebody else took it before. */
void capkm_event_taken(struct capkm_session *s,
		       const struct capkm_event *event);

#define CAPKM_POLL_IN	(1u << 0)	/* capkm_event_next() would not wait */
#define CAPKM_POLL_HUP	(1u << 1)	/* the domain was destroyed */
#define CAPKM_POLL_ERR	(1u << 2)	/* the session is not attached */
u32 capkm_session_poll(struct capkm_session *s);
/* Woken whenever that may have changed; NULL before the session is attached. */
struct host_waitq *capkm_session_waitq(struct capkm_session *s);

/**
 * struct capkm_session_stats - a session's counts, for /proc/PID/fdinfo
 * @domain: id, 0 before the session is attached, and then all others are 0
 * @session: id
 * @rights: CAPKM_RIGHT_*
 * @clients: living ones
 * @buffers: that it holds
 * @streams: that it has created and not destroyed
 * @scopes: open, of its clients
 * @windows: open and CLOSING, of its clients
 * @graphs: of its clients
 * @unconfirmed: ranges of shared buffers, of its clients
 */
struct capkm_session_stats {
	u64 domain, session;
	u32 rights, clients;
	u64 buffers, streams, scopes, windows, graphs, unconfirmed;
};
void capkm_session_stats(struct capkm_session *s,
			 struct capkm_session_stats *stats);

/**
 * struct capkm_copier - how a transport reads and writes its caller's memory
 * @in: copies @n bytes from address @src; 0 or -EFAULT
 * @out: copies @n bytes to address @dst; 0 or -EFAULT
 *
 * Called only outside of all locks.
 */
struct capkm_copier {
	int (*in)(void *dst, u64 src, size_t n);
	int (*out)(u64 dst, const void *src, size_t n);
};

/* One operation of the ABI. @nr: enum capkm_nr, @arg: address of its struct. */
int capkm_call(struct capkm_session *s, unsigned int nr, u64 arg,
	       const struct capkm_copier *copy,
	       const struct capkm_caller *who);

/*
 * Dumps. The records are the structs of the ABI, filled for the reader. @emit
 * is called under domain->lock and must neither sleep nor allocate with
 * reclaim; when it returns non-zero the dump stops, and goes on with that
 * record when it is called again with the same cursor. Domains that the
 * caller may not read are left out. Returns 0 at the end, what @emit returned,
 * -ENOENT (no such domain) or -EACCES.
 */
enum capkm_dump {
	CAPKM_DUMP_DOMAINS,	/* struct capkm_domain_query */
	CAPKM_DUMP_WINDOWS,	/* struct capkm_window_view */
	CAPKM_DUMP_HISTORY,	/* struct capkm_window_view */
	CAPKM_DUMP_BUFFERS,	/* struct capkm_buffer_query, its id in buffer */
	CAPKM_DUMP_FAILURES,	/* struct capkm_report */
	CAPKM_DUMP_REPORTS,	/* struct capkm_report */
};

/**
 * struct capkm_window_view - a window, for a dump
 * @window: as WINDOW_QUERY gives it
 * @first: its first failure, if @window.out_failures is not 0
 */
struct capkm_window_view {
	struct capkm_window_query window;
	struct capkm_report first;
};

/**
 * struct capkm_cursor - where a dump goes on; zero it at the start
 * @domain: id of the domain reached
 * @id: id of the object reached
 */
struct capkm_cursor {
	u64 domain;
	u64 id;
};

typedef int (*capkm_emit_fn)(void *ctx, u64 domain, const void *record);

/* @domain: id, or 0 for all that the caller may read. */
int capkm_dump(enum capkm_dump what, u64 domain,
	       const struct capkm_caller *who, struct capkm_cursor *cursor,
	       capkm_emit_fn emit, void *ctx);

/* WINDOW_ABANDON for an administrator or the owner, without a session. */
int capkm_abandon(u64 domain, u64 window, const struct capkm_caller *who);

#endif /* CAPKM_ENGINE_H */
