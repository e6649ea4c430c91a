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
 * last two; host_wait() lets domain->lock go while it waits. Dumps, and what destroys
 * buffers and graphs, let it go after bounded pieces of work (host_let_in()): what is
 * destroyed is hidden first, so that nobody finds a half of it.
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

/*
 * Where a new domain begins to count: 0, but for tests, which want to see ids above 32
 * bits and sequences above 63. Ids stay below 2^63; a sequence is a multiple of
 * CAPKM_SEQUENCE_STEP.
 */
extern struct capkm_first {
	u64 id, sequence;
} capkm_first;

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
 * What can be mapped at an offset, CAPKM_MAP_*; NULL: there is nothing. It stays while
 * the session does. Takes no lock.
 */
struct host_region *capkm_session_region(struct capkm_session *s, u64 offset);

/*
 * Dumps. The records are structs of the ABI, or views of what those do not have,
 * filled for the reader. @emit is called under domain->lock and must neither sleep
 * nor allocate with reclaim; when it returns non-zero the dump stops, and goes on
 * with that record when it is called again with the same cursor. Domains that the
 * caller may not read, or that are not there for him (capkm_caller.net), are left out.
 * Returns 0 at the end, what @emit returned, -ENOENT (no such domain, buffer or
 * failure), -EINVAL (no such range) or -ENOMEM.
 */
enum capkm_dump {
	CAPKM_DUMP_DOMAINS,	/* struct capkm_domain_query */
	CAPKM_DUMP_SESSIONS,	/* struct capkm_session_view */
	CAPKM_DUMP_CLIENTS,	/* struct capkm_client_view */
	CAPKM_DUMP_WINDOWS,	/* struct capkm_window_view */
	CAPKM_DUMP_HISTORY,	/* struct capkm_window_view */
	CAPKM_DUMP_BUFFERS,	/* struct capkm_buffer_query, its id in buffer */
	CAPKM_DUMP_GRAPHS,	/* struct capkm_graph_view */
	CAPKM_DUMP_FAILURES,	/* struct capkm_report */
	CAPKM_DUMP_REPORTS,	/* struct capkm_report */
	CAPKM_DUMP_TAINT,	/* struct capkm_range_view: of the object, a buffer */
	CAPKM_DUMP_CARRIERS,	/* struct capkm_range_view: of the object, a failure */
	CAPKM_DUMP_LEDGERS,	/* struct capkm_ledger_view */
	CAPKM_DUMP_LIMITS,	/* struct capkm_limit_view */
	CAPKM_DUMP_DEFAULTS,	/* the same; of no domain */
	CAPKM_DUMP_USERS,	/* the same; of no domain */
};

/**
 * struct capkm_dump_query - what is to be dumped
 * @what: kind
 * @domain: id, or 0 for all that the caller may read
 * @from: id of the first object
 * @object: id of the buffer or failure, in @domain
 * @start: of a buffer, first byte
 * @end: first byte after it, or 0 for all
 */
struct capkm_dump_query {
	enum capkm_dump what;
	u64 domain;
	u64 from;
	u64 object;
	u64 start, end;
};

/**
 * struct capkm_cursor - where a dump goes on; zero it at the start
 * @domain: id of the domain reached
 * @last: id of the newest domain when it started, 0 if it is of one
 * @id: id of the object reached
 * @at: of that object, the byte or the part reached
 * @in_domain: count of changes of what is dumped in that domain
 * @among_domains: count of changes among all domains
 * @changes: how often the dump has noticed a change behind its back
 */
struct capkm_cursor {
	u64 domain, last;
	u64 id;
	u64 at;
	u64 in_domain, among_domains;
	u64 changes;
};

/*
 * A session, for a dump. What each member means is said of the attribute of its
 * name in Documentation/netlink/specs/capkm.yaml.
 */
struct capkm_session_view {
	u64 session;
	u64 attached_ns;
	u64 buffers, streams, scopes, windows, graphs, unconfirmed;
	u64 events_unread, events_lost;
	u64 entered, skipped, failed;
	u32 rights, backend, max_streams, shared, clients;
	u32 pid, uid;
	char comm[16];
};

/* A client, for a dump; the same. */
struct capkm_client_view {
	u64 client, session;
	u64 since_ns;
	u64 unconfirmed;
	u32 pid, uid, ended;
	u32 scopes, windows, recording, graphs, devices, faulted;
	char comm[16];
};

/**
 * struct capkm_window_view - a window, for a dump
 * @window: as WINDOW_QUERY gives it
 * @tid: thread that has begun it, before that the one that prepared it
 * @first: its first failure, if @window.out_failures is not 0
 */
struct capkm_window_view {
	struct capkm_window_query window;
	u32 tid;
	struct capkm_report first;
};

/**
 * struct capkm_graph_view - a graph, for a dump
 * @graph: id
 * @query: as GRAPH_QUERY gives it
 */
struct capkm_graph_view {
	u64 graph;
	struct capkm_graph_query query;
};

/**
 * struct capkm_range_view - a range of a buffer, for a dump
 * @buffer: id
 * @start: first byte
 * @end: first byte after it
 * @failure: that it carries, or 0
 * @result: enum capkm_result that CHECK would give; 0 in a dump of carriers
 * @cause: and its report; empty in a dump of carriers
 */
struct capkm_range_view {
	u64 buffer;
	u64 start, end;
	u64 failure;
	u32 result;
	struct capkm_report cause;
};

/**
 * struct capkm_ledger_view - a ledger, for a dump
 * @query: as LEDGER_QUERY gives it
 * @limit: what an administrator allows in its domain
 * @charged: what all ledgers of the domain were charged with, as DOMAIN_QUERY gives it
 * @orphaned: no living process holds it, so that it may be adopted
 * @pid: process that made it, or adopted it last
 * @uid: its user
 * @comm: its name
 */
struct capkm_ledger_view {
	struct capkm_ledger_query query;
	struct capkm_usage limit, charged;
	u32 orphaned, pid, uid;
	char comm[16];
};

#define CAPKM_NOT_COUNTED	U64_MAX
#define CAPKM_NO_USER		U32_MAX

/**
 * struct capkm_limit_view - a limit, for a dump
 * @value: the limit
 * @used: what is used of it, or CAPKM_NOT_COUNTED
 * @limit: enum capkm_limit
 * @uid: the user whose limit it is, or CAPKM_NO_USER
 */
struct capkm_limit_view {
	u64 value, used;
	u32 limit, uid;
};

typedef int (*capkm_emit_fn)(void *ctx, u64 domain, const void *record);

int capkm_dump(const struct capkm_dump_query *query,
	       const struct capkm_caller *who, struct capkm_cursor *cursor,
	       capkm_emit_fn emit, void *ctx);

/**
 * struct capkm_failure_view - all that is known of a failure
 * @report: as a dump gives it; buffer and hops of the buffer that was asked for
 * @skips: work that was skipped because of it
 * @dropped: of these, records that are not kept
 * @hops_n: of @hops
 * @stack_len: of @stack
 * @hops: from the buffer back to the root; without one, all that are kept
 * @stack: what its author gave as its stack
 */
struct capkm_failure_view {
	struct capkm_report report;
	u64 skips, dropped;
	u32 hops_n, stack_len;
	struct capkm_hop hops[16];
	u8 stack[CAPKM_STACK_MAX];
};

/* @buffer: id or 0; @view is zeroed. -ENOENT, also if the caller may not read it. */
int capkm_failure_get(u64 domain, u64 failure, u64 buffer,
		      const struct capkm_caller *who,
		      struct capkm_failure_view *view);

/* WINDOW_ABANDON for an administrator or the owner, without a session. */
int capkm_abandon(u64 domain, u64 window, const struct capkm_caller *who);

/*
 * LEDGER_DESTROY for the same of one that may be adopted. -EBUSY: a living process holds
 * it; -ENOENT, -EPERM.
 */
int capkm_ledger_del(u64 domain, u64 ledger, const struct capkm_caller *who);

/**
 * struct capkm_new_domain - a persistent domain that begins without a session
 * @name: not terminated
 * @name_len: bytes, at most CAPKM_NAME_MAX; 0: it has none
 * @mode: permission bits, 0 for 0600
 * @uid: owner, initial numbering; another than the caller takes an administrator
 * @gid: group; one that the caller is not in, too
 */
struct capkm_new_domain {
	const char *name;
	u32 name_len;
	u32 mode;
	u32 uid, gid;
};

/* -EPERM, -EINVAL, -EEXIST, -EDQUOT, -ENOMEM. */
int capkm_domain_new(const struct capkm_new_domain *n,
		     const struct capkm_caller *who, u64 *id);
/* DOMAIN_DESTROY. */
int capkm_domain_del(u64 id, bool force, const struct capkm_caller *who);

/*
 * For an administrator. -EINVAL (no limit of a domain), -EOPNOTSUPP (fixed when the
 * domain was created), -ENOENT, -EPERM.
 */
int capkm_limit_set(u64 domain, u32 limit, u64 value,
		    const struct capkm_caller *who);

/* DEVICE_FAULT; @text has @a->text_len bytes. */
int capkm_device_fault(struct capkm_device_fault *a, const char *text,
		       const struct capkm_caller *who);

#endif /* CAPKM_ENGINE_H */
