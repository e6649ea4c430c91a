/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR MIT */
/*
 * The ioctl ABI of /dev/capkm.
 *
 * Changelog, by ABI version:
 *  1  INFO to SCOPE_TABLE, the events that read() gives, and the mappings.
 */
#ifndef _UAPI_LINUX_CAPKM_H
#define _UAPI_LINUX_CAPKM_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * DOC: General ioctl format
 *
 * Every ioctl takes one struct. Its first member is ``__u32 size``, the size
 * of the struct as the caller knows it, its second ``__u32 flags``. The number
 * does not encode the size, so a struct can grow and keep its number. Bytes
 * that this kernel does not know must be zero. Members named ``out_`` are
 * written by the kernel, and only when the call returns 0, except those that
 * say more about an error and are left alone otherwise: ``out_error_index`` if
 * one element of an array is at fault, ``out_state`` if the state of a slot is
 * in the way, ``out_limit`` on EDQUOT and ENOSPC (enum capkm_limit).
 * Members named ``__reserved`` must be zero. An array is a pointer
 * (``x_uptr``) and a count (``x_len``); a null pointer goes with a count of 0.
 * A text is an array of bytes without a terminating NUL.
 *
 * An answer to a question is not an error: a check that finds taint returns 0
 * and says so in ``out_result``. An errno means that the call was wrong or
 * could not be done, and then nothing has changed:
 *
 *  - ENOTTY: this kernel does not know the number
 *  - E2BIG: bytes that this kernel does not know are not zero
 *  - EOPNOTSUPP: a flag or a value that this kernel, or this kind of slot,
 *    does not support
 *  - EINVAL: a wrong value or combination; an operation that the state of the
 *    slot or window does not allow because there is nothing to act on
 *  - ENOENT: no such id, or none that the caller may see
 *  - EEXIST: the name is taken
 *  - EBUSY: something is in the way: a window, an open scope, a replay,
 *    another session
 *  - EOVERFLOW: a size or sum does not fit
 *  - EFAULT: a bad user pointer. Where the answer depends on the change
 *    (WINDOW_END, WINDOW_TAKE, SCOPE_ENTER, SCOPE_EXIT, GRAPH_REPLAY_*) the
 *    change is made all the same when only an output cannot be written. Every
 *    other call that changes something has tried before whether it can write
 *    its answer
 *  - EPERM: the process is not a client of the session, or the object
 *    belongs to another one
 *  - EACCES: the domain's mode does not grant the right
 *  - EMSGSIZE: more elements than the limit that INFO names
 *  - EDQUOT: a limit on what one user, session, client or window may hold is
 *    reached; ``out_limit``, where there is one, says which
 *  - ENOSPC: a limit of the domain is reached, or one call needs more ranges than
 *    any may; ``out_limit`` says which
 *  - ENOMEM: out of memory
 *  - ENOTCONN: the session is not attached to a domain
 *  - EISCONN: the session is attached already, which is for life
 *  - ECANCELED: the domain was destroyed, or the client has ended
 *  - EINTR: a signal came while the call waited
 *  - ETIMEDOUT: the time of a call that waits is over
 *
 * EAGAIN (but from read()) and ESTALE are reserved for the library.
 */

#define CAPKM_ABI_VERSION	1
/* The oldest ABI of a library that this kernel serves, and the other way. */
#define CAPKM_ABI_OLDEST	1

#define CAPKM_TYPE		0xCA

/* Numbers are never reused. */
enum capkm_nr {
	CAPKM_NR_INFO			= 0x00,
	CAPKM_NR_DOMAIN_CREATE		= 0x01,
	CAPKM_NR_DOMAIN_ATTACH		= 0x02,
	CAPKM_NR_DOMAIN_QUERY		= 0x03,
	CAPKM_NR_DOMAIN_DESTROY		= 0x04,
	CAPKM_NR_STREAM_CREATE		= 0x05,
	CAPKM_NR_STREAM_QUERY		= 0x06,
	CAPKM_NR_BUFFER_CREATE		= 0x07,
	CAPKM_NR_BUFFER_EXPORT		= 0x08,
	CAPKM_NR_BUFFER_OPEN		= 0x09,
	CAPKM_NR_BUFFER_CLOSE		= 0x0a,
	CAPKM_NR_BUFFER_RESET		= 0x0b,
	CAPKM_NR_BUFFER_QUERY		= 0x0c,
	CAPKM_NR_WINDOW_PREPARE		= 0x0d,
	CAPKM_NR_WINDOW_BEGIN		= 0x0e,
	CAPKM_NR_WINDOW_END		= 0x0f,
	CAPKM_NR_WINDOW_SEAL		= 0x10,
	CAPKM_NR_WINDOW_REFUSE		= 0x11,
	CAPKM_NR_WINDOW_TAKE		= 0x12,
	CAPKM_NR_WINDOW_RECORD		= 0x13,
	CAPKM_NR_WINDOW_ABORT		= 0x14,
	CAPKM_NR_WINDOW_FAIL		= 0x15,
	CAPKM_NR_WINDOW_RETAIN		= 0x16,
	CAPKM_NR_WINDOW_QUERY		= 0x17,
	CAPKM_NR_WINDOW_ABANDON		= 0x18,
	CAPKM_NR_SCOPE_ENTER		= 0x19,
	CAPKM_NR_SCOPE_EXIT		= 0x1a,
	CAPKM_NR_CHECK			= 0x1b,
	CAPKM_NR_TAINT			= 0x1c,
	CAPKM_NR_WRITTEN		= 0x1d,
	CAPKM_NR_GRAPH_REPLAY_BEGIN	= 0x1e,
	CAPKM_NR_GRAPH_REPLAY_END	= 0x1f,
	CAPKM_NR_GRAPH_DESTROY		= 0x20,
	CAPKM_NR_GRAPH_QUERY		= 0x21,
	CAPKM_NR_FAILURE_QUERY		= 0x22,
	CAPKM_NR_SESSION_JOIN		= 0x23,
	CAPKM_NR_STREAM_DESTROY		= 0x24,
	CAPKM_NR_STREAM_CONFIRM		= 0x25,
	CAPKM_NR_STREAM_FAULT		= 0x26,
	CAPKM_NR_STREAM_FLUSH		= 0x27,
	CAPKM_NR_CONTEXT_RENEW		= 0x28,
	CAPKM_NR_WINDOW_JOIN		= 0x29,
	CAPKM_NR_WINDOW_WAIT		= 0x2a,
	CAPKM_NR_GRAPH_UPDATE		= 0x2b,
	CAPKM_NR_DEVICE_FAULT		= 0x2c,
	CAPKM_NR_REFUSE			= 0x2d,
	CAPKM_NR_LEDGER_CREATE		= 0x2e,
	CAPKM_NR_LEDGER_BEGIN_STEP	= 0x2f,
	CAPKM_NR_LEDGER_RESERVE		= 0x30,
	CAPKM_NR_LEDGER_QUERY		= 0x31,
	CAPKM_NR_LEDGER_FORK		= 0x32,
	CAPKM_NR_LEDGER_ADOPT		= 0x33,
	CAPKM_NR_LEDGER_DESTROY		= 0x34,
	CAPKM_NR_SUBMIT			= 0x35,
	CAPKM_NR_WINDOW_LIST		= 0x36,
	CAPKM_NR_SCOPE_TABLE		= 0x37,
};

/* Upper bounds of the ABI; what a kernel is set to is in INFO. */
#define CAPKM_NAME_MAX		63	/* bytes of a domain's name */
#define CAPKM_LABEL_MAX		63	/* bytes of a label */
#define CAPKM_MODE_MAX		31	/* bytes of a capture-mode text */
#define CAPKM_TEXT_MAX		255	/* bytes of a failure's text */
#define CAPKM_STACK_MAX		1024	/* bytes of a failure's stack blob */
#define CAPKM_CLAIMS_MAX	4096	/* claims in one array */
#define CAPKM_ELEMENTS_MAX	256	/* operations in one SUBMIT */
#define CAPKM_STREAM_FIRST	(1ULL << 32) /* first id STREAM_CREATE hands out */

/**
 * enum capkm_result - the answer to a question (``out_result``)
 * @CAPKM_CLEAN: CHECK: every byte was last written by work that succeeded.
 *	SCOPE_ENTER, GRAPH_REPLAY_BEGIN: entered. WINDOW_SEAL: sealed.
 *	LEDGER_RESERVE: charged
 * @CAPKM_TAINTED: CHECK: some byte was not; the reports say which and why
 * @CAPKM_CHANGED: CHECK with %CAPKM_CHECK_F_UNCHANGED: all clean, but a buffer
 *	has changed since the given sequence
 * @CAPKM_SKIPPED: SCOPE_ENTER, GRAPH_REPLAY_BEGIN: an input is tainted, or the
 *	device has faulted. The work must not run; its outputs now carry that
 *	failure. LEDGER_RESERVE: it does not fit, and the ledger is one that skips:
 *	nothing is charged, capture nothing
 * @CAPKM_IN_PROGRESS: SCOPE_ENTER, GRAPH_REPLAY_BEGIN: an input is being
 *	written by an open scope or replay. Nothing has changed, try again
 * @CAPKM_REFUSED: WINDOW_SEAL, GRAPH_UPDATE: the window was doomed or
 *	abandoned, what it recorded is tainted. GRAPH_REPLAY_BEGIN: the slot is
 *	recording in software; SCOPE_ENTER: a child window suspends the window
 *	that records there (WINDOW_PREPARE): the outputs are tainted, the window is doomed.
 *	WINDOW_JOIN: the driver has merged two windows: both are doomed.
 *	REFUSE: it must not be done now. LEDGER_RESERVE: it does not fit, and the
 *	ledger is one that fails: nothing is charged
 * @CAPKM_PENDING: CHECK with %CAPKM_CHECK_F_CONFIRMED: all clean, but some byte's
 *	last writer has not been confirmed, or a replay that may have written it, or
 *	may do so now; the reports say which and who
 * @CAPKM_STALE: CHECK with %CAPKM_CHECK_F_WRITTEN: all clean, but some byte was
 *	not written since the given sequence; the reports say which
 */
enum capkm_result {
	CAPKM_CLEAN		= 0,
	CAPKM_TAINTED		= 1,
	CAPKM_CHANGED		= 2,
	CAPKM_SKIPPED		= 3,
	CAPKM_IN_PROGRESS	= 4,
	CAPKM_REFUSED		= 5,
	CAPKM_PENDING		= 6,
	CAPKM_STALE		= 7,
};

/**
 * enum capkm_kind - why bytes cannot be trusted
 * @CAPKM_KIND_NONE: no failure
 * @CAPKM_KIND_GENERIC: of the caller: anything else
 * @CAPKM_KIND_VALIDATION: of the caller: wrong arguments of the work
 * @CAPKM_KIND_LAUNCH: of the caller: compile or launch failed
 * @CAPKM_KIND_IO: of the caller: copy or allocation failed
 * @CAPKM_KIND_TRANSPORT: of the caller: no transport between devices
 * @CAPKM_KIND_FOREIGN_HANDLE: of the caller: a handle of another runtime
 * @CAPKM_KIND_SERVICE_MISMATCH: of the caller: another kind of server
 * @CAPKM_KIND_DRIVER: of the caller: the driver refused
 * @CAPKM_KIND_TORN_DOWN: the client ended inside the scope or replay
 * @CAPKM_KIND_REFUSED: recorded in a window that will never be a graph; or it had
 *	to be refused while a window recorded (REFUSE)
 * @CAPKM_KIND_ABANDONED: recorded in a window that was closed by another
 *	stream than its owner, or by an administrator
 * @CAPKM_KIND_ABORTED: recorded in a window that was aborted
 * @CAPKM_KIND_INCOMPLETE: recorded in a window that was closed while a scope
 *	of it was open
 * @CAPKM_KIND_OWNER_DIED: recorded in a window whose client ended
 * @CAPKM_KIND_UNALLOCATED: the buffer never received memory
 * @CAPKM_KIND_DEVICE_FAULT: the device, or the client's context on it, was lost
 *	before the work was confirmed
 * @CAPKM_KIND_UNCONFIRMED: the client ended before it had confirmed the work;
 *	in the report of %CAPKM_PENDING: it has not confirmed it yet
 * @CAPKM_KIND_MERGE: the driver merged the window with another one
 * @CAPKM_KIND_ESCAPED: work of a strict window's streams ran outside of it
 * @CAPKM_KIND_IN_PROGRESS: only in reports: an open scope or a replay writes
 *	these bytes now
 * @CAPKM_KIND_STALE: only in reports: not written since the given sequence
 *
 * Values up to %CAPKM_KIND_DRIVER may be given by callers.
 */
enum capkm_kind {
	CAPKM_KIND_NONE			= 0,
	CAPKM_KIND_GENERIC		= 1,
	CAPKM_KIND_VALIDATION		= 2,
	CAPKM_KIND_LAUNCH		= 3,
	CAPKM_KIND_IO			= 4,
	CAPKM_KIND_TRANSPORT		= 5,
	CAPKM_KIND_FOREIGN_HANDLE	= 6,
	CAPKM_KIND_SERVICE_MISMATCH	= 7,
	CAPKM_KIND_DRIVER		= 8,
	CAPKM_KIND_TORN_DOWN		= 32,
	CAPKM_KIND_REFUSED		= 33,
	CAPKM_KIND_ABANDONED		= 34,
	CAPKM_KIND_ABORTED		= 35,
	CAPKM_KIND_INCOMPLETE		= 36,
	CAPKM_KIND_OWNER_DIED		= 37,
	CAPKM_KIND_UNALLOCATED		= 38,
	CAPKM_KIND_DEVICE_FAULT		= 39,
	CAPKM_KIND_UNCONFIRMED		= 40,
	CAPKM_KIND_MERGE		= 41,
	CAPKM_KIND_ESCAPED		= 42,
	CAPKM_KIND_IN_PROGRESS		= 64,
	CAPKM_KIND_STALE		= 65,
};

/**
 * enum capkm_backend - what the client's slots can do
 * @CAPKM_BACKEND_SOFTWARE: the runtime records by itself; a window opens and
 *	closes in one call
 * @CAPKM_BACKEND_HARDWARE: a driver records (CUDA, HIP); WINDOW_BEGIN and
 *	WINDOW_END are two calls each, around the driver's work
 * @CAPKM_BACKEND_NONE: no graphs: WINDOW_PREPARE does nothing, WINDOW_BEGIN
 *	and WINDOW_END are -EOPNOTSUPP
 */
enum capkm_backend {
	CAPKM_BACKEND_SOFTWARE	= 0,
	CAPKM_BACKEND_HARDWARE	= 1,
	CAPKM_BACKEND_NONE	= 2,
};

/**
 * enum capkm_window_state - the life of a window
 * @CAPKM_WINDOW_NONE: the slot has no window
 * @CAPKM_WINDOW_PREPARE: warm-up; work runs for real and is not recorded
 * @CAPKM_WINDOW_OPENING: hardware: between the two calls of WINDOW_BEGIN
 * @CAPKM_WINDOW_CAPTURE: recording
 * @CAPKM_WINDOW_CLOSING: closed, and neither sealed nor refused yet
 * @CAPKM_WINDOW_SEALED: became a graph
 * @CAPKM_WINDOW_REFUSED: will never be a graph (refused, aborted, abandoned)
 * @CAPKM_WINDOW_ORPHANED: its client ended; waits to be abandoned
 * @CAPKM_WINDOW_MEMBER: of a slot, not of a window: what runs on it is recorded
 *	in a window on another slot
 */
enum capkm_window_state {
	CAPKM_WINDOW_NONE	= 0,
	CAPKM_WINDOW_PREPARE	= 1,
	CAPKM_WINDOW_OPENING	= 2,
	CAPKM_WINDOW_CAPTURE	= 3,
	CAPKM_WINDOW_CLOSING	= 4,
	CAPKM_WINDOW_SEALED	= 5,
	CAPKM_WINDOW_REFUSED	= 6,
	CAPKM_WINDOW_ORPHANED	= 7,
	CAPKM_WINDOW_MEMBER	= 8,
};

/**
 * enum capkm_verdict - who closed a window
 * @CAPKM_VERDICT_NONE: nobody yet
 * @CAPKM_VERDICT_OWNED: its owner: it may be sealed unless it is doomed
 * @CAPKM_VERDICT_ABANDONED: another stream: it can only be refused
 */
enum capkm_verdict {
	CAPKM_VERDICT_NONE	= 0,
	CAPKM_VERDICT_OWNED	= 1,
	CAPKM_VERDICT_ABANDONED	= 2,
};

/**
 * enum capkm_limit - what can run out (EDQUOT, ENOSPC)
 * @CAPKM_LIMIT_NONE: nothing
 * @CAPKM_LIMIT_DOMAINS: domains of one user
 * @CAPKM_LIMIT_DEFUNCT: defunct domains of one user that linger; beyond it the
 *	oldest goes
 * @CAPKM_LIMIT_SESSIONS: sessions of a domain
 * @CAPKM_LIMIT_CLIENTS: living clients of a session
 * @CAPKM_LIMIT_STREAMS: streams that a session has created
 * @CAPKM_LIMIT_BUFFERS: buffers that a session holds
 * @CAPKM_LIMIT_SCOPES: open scopes of a client
 * @CAPKM_LIMIT_WINDOWS: open and CLOSING windows of a client
 * @CAPKM_LIMIT_GRAPHS: graphs of a client
 * @CAPKM_LIMIT_DEVICES: devices that a client has used
 * @CAPKM_LIMIT_CLAIMS: claims of a window
 * @CAPKM_LIMIT_RETAINED: retained host buffers of a window
 * @CAPKM_LIMIT_MEMBERS: member slots of a window
 * @CAPKM_LIMIT_DEPTH: windows above a child window
 * @CAPKM_LIMIT_RANGES: ranges that a domain keeps for all its buffers, writers
 *	included
 * @CAPKM_LIMIT_OPEN_WINDOWS: open, CLOSING and orphaned windows of a domain
 * @CAPKM_LIMIT_UNCONFIRMED: unconfirmed ranges of a slot; beyond it they widen
 *	to whole buffers
 * @CAPKM_LIMIT_QUEUED: errors that wait for one stream on a slot; beyond it, and
 *	beyond 4096 for all streams together, the oldest becomes shared
 * @CAPKM_LIMIT_QUEUED_SHARED: errors that wait for anybody on a slot; beyond it
 *	the oldest is only counted
 * @CAPKM_LIMIT_EVENTS: events that a domain keeps for its readers; more than
 *	65536 counts as 65536
 * @CAPKM_LIMIT_HISTORY: closed windows that a domain remembers
 * @CAPKM_LIMIT_REPORTS: failures of ended clients that a domain remembers
 * @CAPKM_LIMIT_LEDGERS: ledgers of a domain
 * @CAPKM_LIMIT_LEDGER_CAPTURES: captures that all ledgers a domain ever had were
 *	charged with together, and that any of them is charged with in all, what it
 *	inherited included
 * @CAPKM_LIMIT_LEDGER_RETAINED: the same, retained bytes
 * @CAPKM_LIMIT_LEDGER_HOST: the same, host bytes
 * @CAPKM_LIMIT_LEDGER_ENCODED: the same, encoded bytes
 * @CAPKM_LIMITS: how many there are
 */
enum capkm_limit {
	CAPKM_LIMIT_NONE		= 0,
	CAPKM_LIMIT_DOMAINS		= 1,
	CAPKM_LIMIT_DEFUNCT		= 2,
	CAPKM_LIMIT_SESSIONS		= 3,
	CAPKM_LIMIT_CLIENTS		= 4,
	CAPKM_LIMIT_STREAMS		= 5,
	CAPKM_LIMIT_BUFFERS		= 6,
	CAPKM_LIMIT_SCOPES		= 7,
	CAPKM_LIMIT_WINDOWS		= 8,
	CAPKM_LIMIT_GRAPHS		= 9,
	CAPKM_LIMIT_DEVICES		= 10,
	CAPKM_LIMIT_CLAIMS		= 11,
	CAPKM_LIMIT_RETAINED		= 12,
	CAPKM_LIMIT_MEMBERS		= 13,
	CAPKM_LIMIT_DEPTH		= 14,
	CAPKM_LIMIT_RANGES		= 15,
	CAPKM_LIMIT_OPEN_WINDOWS	= 16,
	CAPKM_LIMIT_UNCONFIRMED		= 17,
	CAPKM_LIMIT_QUEUED		= 18,
	CAPKM_LIMIT_QUEUED_SHARED	= 19,
	CAPKM_LIMIT_EVENTS		= 20,
	CAPKM_LIMIT_HISTORY		= 21,
	CAPKM_LIMIT_REPORTS		= 22,
	CAPKM_LIMIT_LEDGERS		= 23,
	CAPKM_LIMIT_LEDGER_CAPTURES	= 24,
	CAPKM_LIMIT_LEDGER_RETAINED	= 25,
	CAPKM_LIMIT_LEDGER_HOST		= 26,
	CAPKM_LIMIT_LEDGER_ENCODED	= 27,
	CAPKM_LIMITS			= 28,
};

/**
 * struct capkm_limit_value - a limit
 * @limit: enum capkm_limit
 * @__reserved: must be 0
 * @value: how many
 */
struct capkm_limit_value {
	__u32 limit;
	__u32 __reserved;
	__aligned_u64 value;
};

/**
 * struct capkm_claim - a range of bytes of a buffer
 * @buffer: id of a buffer that the session holds
 * @start: first byte, relative to the start of the buffer
 * @end: first byte after the range; at most the size of the buffer. An empty
 *	range (@start equal to @end) claims nothing
 */
struct capkm_claim {
	__aligned_u64 buffer;
	__aligned_u64 start;
	__aligned_u64 end;
};

/**
 * struct capkm_place - a logical stream on a slot
 * @stream: logical stream: an id of STREAM_CREATE, or any value below
 *	%CAPKM_STREAM_FIRST, which is the caller's own and qualified by its
 *	session
 * @device: UUID of the device, all zero for the host
 * @slot: index of the pooled stream, below the session's max_streams. Read
 *	only with the operation's F_SLOT flag, else it must be 0 and the slot
 *	is @stream modulo max_streams
 * @__reserved: must be 0
 */
struct capkm_place {
	__aligned_u64 stream;
	__u8 device[16];
	__u32 slot;
	__u32 __reserved;
};

/**
 * struct capkm_report - why bytes cannot be trusted, and who did it
 * @failure: id of the failure in the error graph; 0 if there is none
 *	(in progress, never allocated)
 * @kind: enum capkm_kind
 * @code: the caller's code, as it was given (a CUresult, an errno)
 * @buffer: the buffer that was asked about, 0 if none
 * @start: first byte of the asked range that cannot be trusted
 * @end: end of a run of bytes from @start with the same cause; the bytes after
 *	it may have it too
 * @scope: the scope that failed or is in progress, 0 if none
 * @graph: the graph whose replay failed or is in progress, 0 if none
 * @window: the window that was refused, or that the work was recorded in
 * @stream: logical stream of the work
 * @session: session of the work
 * @sequence: domain's sequence at which it happened
 * @time_ns: CLOCK_REALTIME, nanoseconds
 * @pid: process, in the reader's pid namespace; 0 if not visible there
 * @tid: thread, as it was seen by the failing call; evidence only
 * @uid: user of the process, in the reader's user namespace
 * @carriers: buffers that carry the failure now
 * @hops: skip records between the buffer and the root (FAILURE_QUERY gives
 *	them)
 * @text_len: bytes of @text, without the NUL
 * @comm: command name of the process, NUL-terminated, as it was
 * @label: label of the scope, NUL-terminated
 * @text: reason, NUL-terminated
 */
struct capkm_report {
	__aligned_u64 failure;
	__u32 kind;
	__s32 code;
	__aligned_u64 buffer;
	__aligned_u64 start;
	__aligned_u64 end;
	__aligned_u64 scope;
	__aligned_u64 graph;
	__aligned_u64 window;
	__aligned_u64 stream;
	__aligned_u64 session;
	__aligned_u64 sequence;
	__aligned_u64 time_ns;
	__u32 pid;
	__u32 tid;
	__u32 uid;
	__u32 carriers;
	__u32 hops;
	__u32 text_len;
	__u8 comm[16];
	__u8 label[64];
	__u8 text[256];
};

/**
 * struct capkm_info - ioctl(CAPKM_IOC_INFO): who answers, and its limits
 * @size: sizeof(struct capkm_info)
 * @flags: must be 0
 * @out_abi_version: ABI of this kernel
 * @out_abi_oldest: oldest ABI of a library that it serves
 * @out_features: bit set of CAPKM_FEATURE_*
 * @out_claims_max: most claims in one array
 * @out_streams_max: most slots that a session may ask for per device
 * @out_version: version text, NUL-terminated
 * @limits_uptr: array of struct capkm_limit_value: the limits of a new domain, by
 *	number, from %CAPKM_LIMIT_DOMAINS on
 * @limits_len: its length
 * @out_limits: limits written
 *
 * Needs no domain. Anybody who can open the device may call it.
 */
struct capkm_info {
	__u32 size;
	__u32 flags;
	__u32 out_abi_version;
	__u32 out_abi_oldest;
	__aligned_u64 out_features;
	__u32 out_claims_max;
	__u32 out_streams_max;
	__u8 out_version[32];
	__aligned_u64 limits_uptr;
	__u32 limits_len;
	__u32 out_limits;
};
#define CAPKM_IOC_INFO _IO(CAPKM_TYPE, CAPKM_NR_INFO)

/* The answers survive the process and are shared (not so in a library). */
#define CAPKM_FEATURE_AUTHORITY	(1ULL << 0)

/**
 * struct capkm_domain_create - ioctl(CAPKM_IOC_DOMAIN_CREATE)
 * @size: sizeof(struct capkm_domain_create)
 * @flags: CAPKM_DOMAIN_CREATE_F_*
 * @name_uptr: optional name, unique for the caller's user
 * @name_len: bytes of the name, at most %CAPKM_NAME_MAX; no '/' and no
 *	control characters
 * @mode: permission bits, r and w for user, group and others; 0 means 0600.
 *	r: attach, query, check, dump, open exported buffers; w: the rest
 * @max_streams: slots per device of this session, 0 for 32
 * @backend: enum capkm_backend of this session
 * @limits_uptr: array of struct capkm_limit_value: limits of this domain that
 *	differ from those that INFO names. Only CAP_SYS_ADMIN in the initial
 *	user namespace may raise one. Those of a user (DOMAINS, DEFUNCT) cannot
 *	be given
 * @limits_len: its length, at most 64
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit; on EINVAL and EPERM: the
 *	limit that is at fault, left alone if it is something else
 * @out_domain: id
 * @out_session: id of the session, which is now attached, for life
 *
 * The session that creates it has both rights, whatever the mode. Errors:
 * EEXIST, EISCONN, EPERM (not a client of the session; a limit may not be
 * raised), EDQUOT (domains of one user), ENOSPC (a limit of no sessions), ENOMEM,
 * EINVAL, EMSGSIZE, EOPNOTSUPP (@backend).
 */
struct capkm_domain_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 name_uptr;
	__u32 name_len;
	__u32 mode;
	__u32 max_streams;
	__u32 backend;
	__aligned_u64 limits_uptr;
	__u32 limits_len;
	__u32 out_limit;
	__aligned_u64 out_domain;
	__aligned_u64 out_session;
};
/* The domain lives without sessions, until DOMAIN_DESTROY. */
#define CAPKM_DOMAIN_CREATE_F_PERSISTENT	(1u << 0)
/* read() also gives %CAPKM_EVENT_FAILURE_MINTED and _PRUNED to this session. */
#define CAPKM_DOMAIN_CREATE_F_FAILURE_EVENTS	(1u << 1)
#define CAPKM_DOMAIN_CREATE_F_ALL		(3u << 0)
#define CAPKM_IOC_DOMAIN_CREATE _IO(CAPKM_TYPE, CAPKM_NR_DOMAIN_CREATE)

/**
 * struct capkm_domain_attach - ioctl(CAPKM_IOC_DOMAIN_ATTACH)
 * @size: sizeof(struct capkm_domain_attach)
 * @flags: CAPKM_DOMAIN_ATTACH_F_*
 * @domain: id; 0 to attach by name
 * @name_uptr: name, when @domain is 0
 * @name_len: bytes of the name
 * @owner_uid: user whose domain is meant, with F_OWNER; else 0, and the
 *	caller's own is meant
 * @max_streams: slots per device of this session, 0 for 32
 * @backend: enum capkm_backend of this session
 * @out_domain: id
 * @out_session: id of the session, which is now attached, for life
 * @out_rights: CAPKM_RIGHT_* that the session has
 * @out_limit: on ENOSPC: enum capkm_limit
 *
 * Errors: ENOENT (also for a defunct domain), EACCES (no right r), EISCONN,
 * EPERM (not a client of the session), ENOSPC (sessions of the domain), ENOMEM,
 * EINVAL, EMSGSIZE, EOPNOTSUPP (@backend).
 */
struct capkm_domain_attach {
	__u32 size;
	__u32 flags;
	__aligned_u64 domain;
	__aligned_u64 name_uptr;
	__u32 name_len;
	__u32 owner_uid;
	__u32 max_streams;
	__u32 backend;
	__aligned_u64 out_domain;
	__aligned_u64 out_session;
	__u32 out_rights;
	__u32 out_limit;
};
#define CAPKM_DOMAIN_ATTACH_F_OWNER	(1u << 0)
/* As CAPKM_DOMAIN_CREATE_F_FAILURE_EVENTS. */
#define CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS	(1u << 1)
#define CAPKM_DOMAIN_ATTACH_F_ALL	(3u << 0)
#define CAPKM_IOC_DOMAIN_ATTACH _IO(CAPKM_TYPE, CAPKM_NR_DOMAIN_ATTACH)

#define CAPKM_RIGHT_READ	(1u << 2)
#define CAPKM_RIGHT_WRITE	(1u << 1)

/**
 * struct capkm_usage - what an observation costs, or may cost, on each axis
 * @captures: values that are captured
 * @retained_bytes: memory of the device that the capture keeps, temporary memory
 *	included
 * @host_bytes: host memory: what is transferred, buffers, records
 * @encoded_bytes: bytes of the records, once they are encoded
 */
struct capkm_usage {
	__aligned_u64 captures;
	__aligned_u64 retained_bytes;
	__aligned_u64 host_bytes;
	__aligned_u64 encoded_bytes;
};

/**
 * struct capkm_domain_query - ioctl(CAPKM_IOC_DOMAIN_QUERY)
 * @size: sizeof(struct capkm_domain_query)
 * @flags: must be 0
 * @out_domain: id of the session's domain
 * @out_session: id of the session, 0 in dumps
 * @out_state: CAPKM_DOMAIN_*
 * @out_mode: permission bits
 * @out_uid: owner, in the reader's user namespace
 * @out_gid: group, in the reader's user namespace
 * @out_rights: CAPKM_RIGHT_* of the reader
 * @out_sessions: attached sessions
 * @out_sequence: advances with every change
 * @out_buffers: buffers
 * @out_streams: streams of STREAM_CREATE
 * @out_scopes: open scopes
 * @out_windows: windows that are open, CLOSING or orphaned
 * @out_orphans: orphaned windows
 * @out_graphs: graphs
 * @out_failures: nodes of the error graph
 * @out_claims: ranges kept for all buffers: open, recorded, unconfirmed, failed
 * @out_reports: failures kept as text because their client ended
 * @out_history: closed windows remembered
 * @out_created_ns: CLOCK_REALTIME, nanoseconds
 * @out_defunct_ns: when the last session left, 0 while there is one
 * @out_name: NUL-terminated, empty if it has none
 * @out_clients: living clients of all sessions
 * @out_faulted: devices of clients that have faulted and were not renewed
 * @out_unconfirmed: unconfirmed ranges, of @out_claims
 * @limits_uptr: array of struct capkm_limit_value: the domain's limits, by
 *	number, from %CAPKM_LIMIT_DOMAINS on
 * @limits_len: its length
 * @out_limits: limits written
 * @out_sealed: windows that became a graph, or a part of one, so far
 * @out_given_up: windows that were prepared and did not, so far: whatever they were
 *	for had to do without a graph
 * @out_ledgers: ledgers
 * @out_charged: what all ledgers were charged with so far, those that were destroyed
 *	included, without what they inherited; an axis stops at U64_MAX
 *
 * Needs right r.
 */
struct capkm_domain_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 out_domain;
	__aligned_u64 out_session;
	__u32 out_state;
	__u32 out_mode;
	__u32 out_uid;
	__u32 out_gid;
	__u32 out_rights;
	__u32 out_sessions;
	__aligned_u64 out_sequence;
	__aligned_u64 out_buffers;
	__aligned_u64 out_streams;
	__aligned_u64 out_scopes;
	__aligned_u64 out_windows;
	__aligned_u64 out_orphans;
	__aligned_u64 out_graphs;
	__aligned_u64 out_failures;
	__aligned_u64 out_claims;
	__aligned_u64 out_reports;
	__aligned_u64 out_history;
	__aligned_u64 out_created_ns;
	__aligned_u64 out_defunct_ns;
	__u8 out_name[64];
	__u32 out_clients;
	__u32 out_faulted;
	__aligned_u64 out_unconfirmed;
	__aligned_u64 limits_uptr;
	__u32 limits_len;
	__u32 out_limits;
	__aligned_u64 out_sealed;
	__aligned_u64 out_given_up;
	__aligned_u64 out_ledgers;
	struct capkm_usage out_charged;
};
#define CAPKM_IOC_DOMAIN_QUERY _IO(CAPKM_TYPE, CAPKM_NR_DOMAIN_QUERY)

#define CAPKM_DOMAIN_PERSISTENT	(1u << 0)	/* lives without sessions */
#define CAPKM_DOMAIN_DEFUNCT	(1u << 1)	/* only what is looked at is left */

/**
 * struct capkm_domain_destroy - ioctl(CAPKM_IOC_DOMAIN_DESTROY)
 * @size: sizeof(struct capkm_domain_destroy)
 * @flags: CAPKM_DOMAIN_DESTROY_F_*
 * @domain: id; 0 for the session's own. The session need not be attached
 *
 * The domain's owner, or CAP_SYS_ADMIN. EBUSY while other sessions are
 * attached, unless F_FORCE; then their later calls are ECANCELED.
 */
struct capkm_domain_destroy {
	__u32 size;
	__u32 flags;
	__aligned_u64 domain;
};
#define CAPKM_DOMAIN_DESTROY_F_FORCE	(1u << 0)
#define CAPKM_DOMAIN_DESTROY_F_ALL	(1u << 0)
#define CAPKM_IOC_DOMAIN_DESTROY _IO(CAPKM_TYPE, CAPKM_NR_DOMAIN_DESTROY)

/**
 * struct capkm_stream_create - ioctl(CAPKM_IOC_STREAM_CREATE)
 * @size: sizeof(struct capkm_stream_create)
 * @flags: must be 0
 * @label_uptr: optional label
 * @label_len: bytes of the label, at most %CAPKM_LABEL_MAX
 * @out_limit: on EDQUOT: enum capkm_limit
 * @out_stream: id, from %CAPKM_STREAM_FIRST up, never reused in the domain;
 *	only this session may use it
 *
 * Needs right w. Errors: EDQUOT (streams of one session), EMSGSIZE, ENOMEM.
 */
struct capkm_stream_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 label_uptr;
	__u32 label_len;
	__u32 out_limit;
	__aligned_u64 out_stream;
};
#define CAPKM_IOC_STREAM_CREATE _IO(CAPKM_TYPE, CAPKM_NR_STREAM_CREATE)

/**
 * struct capkm_stream_query - ioctl(CAPKM_IOC_STREAM_QUERY)
 * @size: sizeof(struct capkm_stream_query)
 * @flags: CAPKM_PLACE_F_SLOT
 * @place: stream and slot; it is looked up, never created
 * @out_slot: index of the slot
 * @out_state: enum capkm_window_state of the window on the slot, or
 *	%CAPKM_WINDOW_MEMBER
 * @out_window: id of that window, or of the window that it is a member of
 * @out_owner: owner stream of that window
 * @out_scopes: open scopes and replays on the slot
 * @out_sequence: the slot's sequence: of the last scope or replay left on it
 * @out_confirmed: up to which sequence its work is confirmed
 * @out_unconfirmed: ranges of shared buffers that it wrote and has not confirmed
 * @out_failure: the failure of the device's last fault if the client has not
 *	renewed its context since, else 0
 * @out_epoch: faults of the device that this client has seen
 * @out_queued: errors that STREAM_FLUSH would give to the stream
 * @__reserved: must be 0
 * @out_client: id of the calling client in the domain, for STREAM_CONFIRM by others
 *
 * Needs right r; only for a client. Errors: ENOENT, EPERM, EINVAL.
 */
struct capkm_stream_query {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__u32 out_slot;
	__u32 out_state;
	__aligned_u64 out_window;
	__aligned_u64 out_owner;
	__aligned_u64 out_scopes;
	__aligned_u64 out_sequence;
	__aligned_u64 out_confirmed;
	__aligned_u64 out_unconfirmed;
	__aligned_u64 out_failure;
	__aligned_u64 out_epoch;
	__u32 out_queued;
	__u32 __reserved;
	__aligned_u64 out_client;
};
/* Of every operation with a place: place.slot names the slot. */
#define CAPKM_PLACE_F_SLOT	(1u << 31)
#define CAPKM_IOC_STREAM_QUERY _IO(CAPKM_TYPE, CAPKM_NR_STREAM_QUERY)

/**
 * struct capkm_buffer_create - ioctl(CAPKM_IOC_BUFFER_CREATE)
 * @size: sizeof(struct capkm_buffer_create)
 * @flags: CAPKM_BUFFER_CREATE_F_*
 * @bytes: size of the allocation, not 0
 * @device: UUID of the device, all zero for the host
 * @address: device address, opaque to the kernel, shown to readers
 * @label_uptr: optional label
 * @label_len: bytes of the label, at most %CAPKM_LABEL_MAX
 * @out_limit: on EDQUOT: enum capkm_limit
 * @out_buffer: id, never reused
 * @out_sequence: the buffer's sequence
 *
 * New memory is clean. Needs right w. Errors: EDQUOT (buffers of one session),
 * ENOMEM, EINVAL, EMSGSIZE.
 */
struct capkm_buffer_create {
	__u32 size;
	__u32 flags;
	__aligned_u64 bytes;
	__u8 device[16];
	__aligned_u64 address;
	__aligned_u64 label_uptr;
	__u32 label_len;
	__u32 out_limit;
	__aligned_u64 out_buffer;
	__aligned_u64 out_sequence;
};
/* Shared from birth: sessions of the domain may open it. */
#define CAPKM_BUFFER_CREATE_F_EXPORT		(1u << 0)
/*
 * The allocation failed: there is no memory. Every check of it is tainted,
 * "never allocated", or with the reason that TAINT gives, until BUFFER_RESET.
 */
#define CAPKM_BUFFER_CREATE_F_UNALLOCATED	(1u << 1)
/* Of each byte it is kept when, and by whom, it was last written well. */
#define CAPKM_BUFFER_CREATE_F_FRESH		(1u << 2)
#define CAPKM_BUFFER_CREATE_F_ALL		(7u << 0)
#define CAPKM_IOC_BUFFER_CREATE _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_CREATE)

/**
 * struct capkm_buffer_export - ioctl(CAPKM_IOC_BUFFER_EXPORT)
 * @size: sizeof(struct capkm_buffer_export)
 * @flags: must be 0
 * @buffer: a buffer that the session holds; from now on sessions of the
 *	domain may open it. Exporting it again changes nothing
 * @out_limit: on ENOSPC: enum capkm_limit
 * @__reserved: must be 0
 *
 * If its client has not confirmed all that it wrote, the buffer is unconfirmed
 * as a whole. Needs right w. Errors: ENOENT, ENOSPC (ranges of the domain),
 * ENOMEM.
 */
struct capkm_buffer_export {
	__u32 size;
	__u32 flags;
	__aligned_u64 buffer;
	__u32 out_limit;
	__u32 __reserved;
};
#define CAPKM_IOC_BUFFER_EXPORT _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_EXPORT)

/**
 * struct capkm_buffer_open - ioctl(CAPKM_IOC_BUFFER_OPEN)
 * @size: sizeof(struct capkm_buffer_open)
 * @flags: must be 0
 * @buffer: an exported buffer of the domain. Opening it again adds a
 *	reference, which BUFFER_CLOSE gives back
 * @out_bytes: its size
 * @out_sequence: its sequence
 * @out_limit: on EDQUOT: enum capkm_limit
 * @__reserved: must be 0
 *
 * Needs right r. Errors: ENOENT, EACCES (not exported), EDQUOT (buffers of one
 * session), EOVERFLOW (too many references), ENOMEM.
 */
struct capkm_buffer_open {
	__u32 size;
	__u32 flags;
	__aligned_u64 buffer;
	__aligned_u64 out_bytes;
	__aligned_u64 out_sequence;
	__u32 out_limit;
	__u32 __reserved;
};
#define CAPKM_IOC_BUFFER_OPEN _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_OPEN)

/**
 * struct capkm_buffer_close - ioctl(CAPKM_IOC_BUFFER_CLOSE)
 * @size: sizeof(struct capkm_buffer_close)
 * @flags: must be 0
 * @buffer: a buffer that the session holds; one reference is given back. A
 *	buffer that nobody holds is hidden, and destroyed with its taint when
 *	no open scope, window or graph uses it any more
 */
struct capkm_buffer_close {
	__u32 size;
	__u32 flags;
	__aligned_u64 buffer;
};
#define CAPKM_IOC_BUFFER_CLOSE _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_CLOSE)

/**
 * struct capkm_buffer_reset - ioctl(CAPKM_IOC_BUFFER_RESET)
 * @size: sizeof(struct capkm_buffer_reset)
 * @flags: must be 0
 * @claim: a range whose memory now serves something else: its taint is shed.
 *	The whole range also ends CAPKM_BUFFER_CREATE_F_UNALLOCATED
 * @out_sequence: the buffer's sequence
 *
 * Needs right w. Errors: ENOENT, EINVAL, EBUSY (an open scope or a replay
 * writes these bytes), ENOMEM.
 */
struct capkm_buffer_reset {
	__u32 size;
	__u32 flags;
	struct capkm_claim claim;
	__aligned_u64 out_sequence;
};
#define CAPKM_IOC_BUFFER_RESET _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_RESET)

/**
 * struct capkm_range - a range of a buffer that is not simply clean
 * @start: first byte
 * @end: first byte after it
 * @id: failure, scope, window or session, by @state
 * @state: CAPKM_RANGE_*
 * @kind: enum capkm_kind of the failure, 0 for others
 */
struct capkm_range {
	__aligned_u64 start;
	__aligned_u64 end;
	__aligned_u64 id;
	__u32 state;
	__u32 kind;
};
#define CAPKM_RANGE_FAILED	1	/* carries failure @id */
#define CAPKM_RANGE_OPEN	2	/* scope @id is writing it */
#define CAPKM_RANGE_RECORDED	3	/* window @id recorded a write of it */
#define CAPKM_RANGE_UNCONFIRMED	4	/* session @id wrote it, or may have; not confirmed */

/**
 * struct capkm_writer - who wrote a range well, last
 * @start: first byte
 * @end: first byte after it
 * @session: session of the writer
 * @stream: logical stream, 0 for WRITTEN
 * @sequence: the domain's sequence at the exit
 */
struct capkm_writer {
	__aligned_u64 start;
	__aligned_u64 end;
	__aligned_u64 session;
	__aligned_u64 stream;
	__aligned_u64 sequence;
};

/**
 * struct capkm_buffer_query - ioctl(CAPKM_IOC_BUFFER_QUERY)
 * @size: sizeof(struct capkm_buffer_query)
 * @flags: must be 0
 * @buffer: a buffer that the session holds
 * @from: ranges that start below are left out
 * @skip: of the ranges that start at @from, so many are left out too: to read
 *	on, give the start of the last range that came, and how many with that
 *	start have come
 * @ranges_uptr: array of struct capkm_range, in order of their start
 * @ranges_len: its length
 * @out_ranges: ranges written
 * @out_bytes: size of the buffer
 * @out_device: UUID
 * @out_address: as given
 * @out_sequence: advances at enter, exit, taint, reset and replay
 * @out_claims: ranges in all
 * @out_failures: different failures that it carries
 * @out_session: session that created it
 * @out_state: CAPKM_BUFFER_*
 * @out_holders: sessions that hold it
 * @out_uses: windows and graphs that refer to it
 * @writers_len: length of writers
 * @out_label: NUL-terminated
 * @writers_uptr: array of struct capkm_writer, in order of their start, from the
 *	first that ends after @from on. Kept for buffers of
 *	%CAPKM_BUFFER_CREATE_F_FRESH, and for shared ones from then on
 * @out_writers: writers written
 * @__reserved: must be 0
 *
 * Needs right r. Errors: ENOENT, ENOMEM.
 */
struct capkm_buffer_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 buffer;
	__aligned_u64 from;
	__aligned_u64 skip;
	__aligned_u64 ranges_uptr;
	__u32 ranges_len;
	__u32 out_ranges;
	__aligned_u64 out_bytes;
	__u8 out_device[16];
	__aligned_u64 out_address;
	__aligned_u64 out_sequence;
	__aligned_u64 out_claims;
	__aligned_u64 out_failures;
	__aligned_u64 out_session;
	__u32 out_state;
	__u32 out_holders;
	__u32 out_uses;
	__u32 writers_len;
	__u8 out_label[64];
	__aligned_u64 writers_uptr;
	__u32 out_writers;
	__u32 __reserved;
};
#define CAPKM_BUFFER_EXPORTED		(1u << 0)
#define CAPKM_BUFFER_UNALLOCATED	(1u << 1)
#define CAPKM_BUFFER_HIDDEN		(1u << 2)	/* nobody holds it */
#define CAPKM_BUFFER_SHARED		(1u << 3)	/* tracked by range */
#define CAPKM_BUFFER_FRESH		(1u << 4)
#define CAPKM_BUFFER_DIRTY		(1u << 5)	/* some byte is unconfirmed */
/* The session that created it has no living client any more. */
#define CAPKM_BUFFER_ABANDONED		(1u << 6)
#define CAPKM_IOC_BUFFER_QUERY _IO(CAPKM_TYPE, CAPKM_NR_BUFFER_QUERY)

/**
 * struct capkm_window_prepare - ioctl(CAPKM_IOC_WINDOW_PREPARE)
 * @size: sizeof(struct capkm_window_prepare)
 * @flags: CAPKM_WINDOW_PREPARE_F_*, CAPKM_PLACE_F_SLOT
 * @place: its stream becomes the owner of the slot's new window
 * @cookie: the caller's, kept with window and graph
 * @mode_uptr: optional capture-mode text, shown to readers
 * @mode_len: bytes of it, at most %CAPKM_MODE_MAX
 * @out_state: state of the slot's window; also on EBUSY
 * @out_window: id, never reused; 0 on a slot without graphs
 * @out_slot: index of the slot
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @parent: 0, or a recording window of the client on another slot, of which this
 *	one records a part that may or may not run (the body of a conditional
 *	node). From its begin until it is sealed or refused, work on the parent is
 *	refused and dooms the parent, and the parent cannot be ended. Sealed, it becomes no graph
 *	of its own: what it wrote counts as seen by the parent, what it read from
 *	outside as read by it. Refused, it dooms the parent
 *
 * Needs right w. Errors: EBUSY (a window is prepared, opening, recording, or
 * holds the slot while the driver closes it; the slot is a member of a window),
 * ENOENT (@parent), EPERM (@parent is another client's; the stream is another
 * session's), EINVAL (@parent does not record or is doomed; the slot is out of
 * range), EDQUOT (windows or devices of one client; depth), ENOSPC
 * (windows of the domain), EMSGSIZE, ENOMEM.
 */
struct capkm_window_prepare {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 cookie;
	__aligned_u64 mode_uptr;
	__u32 mode_len;
	__u32 out_state;
	__aligned_u64 out_window;
	__u32 out_slot;
	__u32 out_limit;
	__aligned_u64 parent;
};
/*
 * Work of its owner, or of a stream that joined, on a slot outside of the window
 * while it records (a scope or a replay) dooms it, kind ESCAPED. Without this it
 * is only counted.
 */
#define CAPKM_WINDOW_PREPARE_F_STRICT	(1u << 0)
#define CAPKM_WINDOW_PREPARE_F_ALL	(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_WINDOW_PREPARE _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_PREPARE)

/**
 * struct capkm_window_begin - ioctl(CAPKM_IOC_WINDOW_BEGIN)
 * @size: sizeof(struct capkm_window_begin)
 * @flags: CAPKM_WINDOW_F_DRIVER_DONE, CAPKM_PLACE_F_SLOT
 * @place: slot of the prepared window; any stream of the client may begin,
 *	the owner stays
 * @out_state: state of the slot's window; also on EBUSY and EINVAL
 * @__reserved: must be 0
 * @out_window: id
 * @out_owner: owner stream
 *
 * A hardware slot takes two calls: the first, before the driver begins, turns
 * PREPARE into OPENING, the second, F_DRIVER_DONE, OPENING into CAPTURE. If
 * the driver fails: WINDOW_ABORT. Errors: EINVAL (nothing prepared), EBUSY
 * (recording already; a scope is open on the slot), EOPNOTSUPP (the slot has
 * no graphs).
 */
struct capkm_window_begin {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__u32 out_state;
	__u32 __reserved;
	__aligned_u64 out_window;
	__aligned_u64 out_owner;
};
/* The second of the two calls of BEGIN and END: the driver has done its part. */
#define CAPKM_WINDOW_F_DRIVER_DONE	(1u << 0)
#define CAPKM_WINDOW_BEGIN_F_ALL	(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_WINDOW_BEGIN _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_BEGIN)

/**
 * struct capkm_window_end - ioctl(CAPKM_IOC_WINDOW_END)
 * @size: sizeof(struct capkm_window_end)
 * @flags: CAPKM_WINDOW_F_DRIVER_DONE, CAPKM_PLACE_F_SLOT
 * @place: slot whose recording window is closed; its stream decides the
 *	verdict
 * @window: 0 for the window on the slot, else it must be that one
 * @out_state: state of the slot's window; also on EINVAL
 * @out_verdict: enum capkm_verdict
 * @out_window: id, for WINDOW_TAKE, WINDOW_SEAL, WINDOW_REFUSE
 * @out_owner: owner stream
 * @out_recorded: claims recorded
 * @out_doomed: 1 if it cannot be sealed
 * @__reserved: must be 0
 *
 * The window is CLOSING until it is sealed or refused. On a hardware slot it
 * holds the slot until the second call, F_DRIVER_DONE. If scopes of it are
 * open, it is doomed (kind INCOMPLETE). Its member slots are let go. Errors:
 * EINVAL (nothing recording), ENOENT (@window is not on the slot), EBUSY (the
 * driver opens or closes it; a child window is neither sealed nor refused yet),
 * EPERM (the stream is another session's), EOPNOTSUPP (the slot has no graphs).
 */
struct capkm_window_end {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 window;
	__u32 out_state;
	__u32 out_verdict;
	__aligned_u64 out_window;
	__aligned_u64 out_owner;
	__aligned_u64 out_recorded;
	__u32 out_doomed;
	__u32 __reserved;
};
#define CAPKM_WINDOW_END_F_ALL	(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_WINDOW_END _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_END)

/**
 * struct capkm_window_seal - ioctl(CAPKM_IOC_WINDOW_SEAL)
 * @size: sizeof(struct capkm_window_seal)
 * @flags: CAPKM_WINDOW_SEAL_F_*
 * @window: a CLOSING window of the client
 * @reports_uptr: array of struct capkm_report for a refusal: first why it
 *	cannot be sealed, then what doomed it, if anything did
 * @reports_len: its length; 2 is enough
 * @out_reports: reports written
 * @out_result: %CAPKM_CLEAN (sealed) or %CAPKM_REFUSED
 * @out_limit: on EDQUOT: enum capkm_limit
 * @out_graph: id of the graph; 0 for a child window, which its parent takes in
 *
 * A window that is doomed or abandoned is refused. Errors: ENOENT, EPERM,
 * EINVAL (not CLOSING), EBUSY (the driver has not closed it yet), EDQUOT
 * (graphs of one client; claims or retained buffers of the parent), EOVERFLOW
 * (retained bytes of the parent), ENOMEM.
 */
struct capkm_window_seal {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__u32 out_result;
	__u32 out_limit;
	__aligned_u64 out_graph;
};
/* Replays of the graph look neither at its external inputs nor at seen claims. */
#define CAPKM_WINDOW_SEAL_F_NO_INPUTS	(1u << 0)
#define CAPKM_WINDOW_SEAL_F_ALL		(1u << 0)
#define CAPKM_IOC_WINDOW_SEAL _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_SEAL)

/**
 * struct capkm_window_refuse - ioctl(CAPKM_IOC_WINDOW_REFUSE)
 * @size: sizeof(struct capkm_window_refuse)
 * @flags: must be 0
 * @window: a CLOSING window of the client, which will never be a graph
 * @kind: enum capkm_kind of the caller, 0 for %CAPKM_KIND_DRIVER
 * @code: the driver's code
 * @text_uptr: optional reason
 * @text_len: bytes of it, at most %CAPKM_TEXT_MAX
 * @reports_len: length of the array
 * @reports_uptr: array of struct capkm_report, as in WINDOW_SEAL
 * @out_reports: reports written
 * @__reserved: must be 0
 *
 * Also lets the slot go if the window still holds it. Cannot fail for memory:
 * without any, there are no reports. Errors: ENOENT, EPERM, EINVAL (not
 * CLOSING).
 */
struct capkm_window_refuse {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	__u32 kind;
	__s32 code;
	__aligned_u64 text_uptr;
	__u32 text_len;
	__u32 reports_len;
	__aligned_u64 reports_uptr;
	__u32 out_reports;
	__u32 __reserved;
};
#define CAPKM_IOC_WINDOW_REFUSE _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_REFUSE)

/**
 * struct capkm_retained - host bytes that recorded copies read
 * @address: the caller's, opaque
 * @bytes: size, not 0
 * @cookie: the caller's
 * @epoch: epoch of the caller's pool
 * @mode: CAPKM_RETAIN_*
 * @__reserved: must be 0
 */
struct capkm_retained {
	__aligned_u64 address;
	__aligned_u64 bytes;
	__aligned_u64 cookie;
	__aligned_u64 epoch;
	__u32 mode;
	__u32 __reserved;
};
#define CAPKM_RETAIN_READ	0	/* the graph reads the bytes */
#define CAPKM_RETAIN_WRITE	1	/* the graph only writes them */

/**
 * struct capkm_window_take - ioctl(CAPKM_IOC_WINDOW_TAKE)
 * @size: sizeof(struct capkm_window_take)
 * @flags: CAPKM_WINDOW_TAKE_F_*
 * @window: a CLOSING window of the client
 * @claims_uptr: array of struct capkm_claim: what was recorded as written,
 *	ascending by buffer, start, end, each once
 * @claims_len: its length
 * @out_claims: claims written
 * @retained_uptr: array of struct capkm_retained, in order
 * @retained_len: its length
 * @out_retained: elements written
 * @reports_uptr: array of struct capkm_report: the failure that doomed it
 * @reports_len: its length; 1 is enough
 * @out_reports: reports written
 *
 * Each element is handed out once: call again until nothing comes. The graph
 * or the refusal has all of it whether it was taken or not. Errors: ENOENT,
 * EPERM, EINVAL (not CLOSING), ENOMEM.
 */
struct capkm_window_take {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 out_claims;
	__aligned_u64 retained_uptr;
	__u32 retained_len;
	__u32 out_retained;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
};
#define CAPKM_WINDOW_TAKE_F_REWIND	(1u << 0)	/* from the start again */
#define CAPKM_WINDOW_TAKE_F_ALL		(1u << 0)
#define CAPKM_IOC_WINDOW_TAKE _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_TAKE)

/**
 * struct capkm_window_record - ioctl(CAPKM_IOC_WINDOW_RECORD)
 * @size: sizeof(struct capkm_window_record)
 * @flags: CAPKM_WINDOW_RECORD_F_*
 * @window: a window of the client, CAPTURE or CLOSING; in PREPARE the call
 *	does nothing
 * @reads_uptr: array of struct capkm_claim: read by the recorded work
 * @writes_uptr: array of struct capkm_claim: written by it
 * @reads_len: length of reads
 * @writes_len: length of writes
 * @out_error_index: on ENOENT and EINVAL: which claim, reads first
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 *
 * For work that the driver recorded and that had no scope. What is recorded
 * after a WINDOW_TAKE and has a lower key than what that gave out comes only
 * after a rewind. Errors: ENOENT, EPERM, EINVAL (also for a buffer that was
 * never allocated), EBUSY (a child window has begun and is neither sealed nor
 * refused), EMSGSIZE, EDQUOT (claims of one window), ENOSPC, ENOMEM.
 */
struct capkm_window_record {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	__aligned_u64 reads_uptr;
	__aligned_u64 writes_uptr;
	__u32 reads_len;
	__u32 writes_len;
	__u32 out_error_index;
	__u32 out_limit;
};
/*
 * The graph was merely seen to be given the buffers of @writes: checked before
 * a replay, tainted when it fails, never released by its success. A replay may
 * have written them: until it is confirmed, they are not.
 */
#define CAPKM_WINDOW_RECORD_F_SEEN	(1u << 0)
#define CAPKM_WINDOW_RECORD_F_ALL	(1u << 0)
#define CAPKM_IOC_WINDOW_RECORD _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_RECORD)

/**
 * struct capkm_window_abort - ioctl(CAPKM_IOC_WINDOW_ABORT)
 * @size: sizeof(struct capkm_window_abort)
 * @flags: CAPKM_PLACE_F_SLOT
 * @place: slot; if it has a window, it has none afterwards. What a recording
 *	one had recorded is tainted (kind ABORTED)
 * @window: 0 for whatever window is on the slot, else it must be that one
 * @out_window: id of that window, 0 if there was none
 *
 * Never fails on a valid place with @window 0. Errors: ENOENT (@window is not
 * on the slot).
 */
struct capkm_window_abort {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 window;
	__aligned_u64 out_window;
};
#define CAPKM_IOC_WINDOW_ABORT _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_ABORT)

/**
 * struct capkm_window_fail - ioctl(CAPKM_IOC_WINDOW_FAIL)
 * @size: sizeof(struct capkm_window_fail)
 * @flags: must be 0
 * @window: any window of the domain. In CAPTURE, OPENING and CLOSING it is
 *	doomed, in PREPARE the call does nothing
 * @stream: logical stream whose call failed
 * @kind: enum capkm_kind of the caller
 * @code: the driver's code
 * @label_uptr: optional: which operation failed
 * @text_uptr: optional reason
 * @label_len: bytes of the label
 * @text_len: bytes of the text
 * @out_state: state of the window
 * @out_failures: failures of the window so far; 1 means that this is the first
 *
 * The first failure is kept, the last one beside it, the others are counted.
 * Any session with right w. An orphan stays as it is. Errors: ENOENT (no such
 * window is open, or no such stream), EPERM (the stream is another session's),
 * EINVAL, ENOMEM.
 */
struct capkm_window_fail {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	__aligned_u64 stream;
	__u32 kind;
	__s32 code;
	__aligned_u64 label_uptr;
	__aligned_u64 text_uptr;
	__u32 label_len;
	__u32 text_len;
	__u32 out_state;
	__u32 out_failures;
};
#define CAPKM_IOC_WINDOW_FAIL _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_FAIL)

/**
 * struct capkm_window_retain - ioctl(CAPKM_IOC_WINDOW_RETAIN)
 * @size: sizeof(struct capkm_window_retain)
 * @flags: must be 0
 * @window: a window of the client, CAPTURE or CLOSING
 * @retained: host bytes that must live as long as the graph
 * @out_limit: on EDQUOT: enum capkm_limit
 * @__reserved: must be 0
 *
 * If the domain has a ledger of its own (%CAPKM_LEDGER_F_DOMAIN), the bytes are
 * reserved there, as host bytes. They are not given back with the graph, and if
 * they do not fit, the call fails whatever the ledger does on a limit: a graph
 * without them would read what is gone.
 *
 * Errors: ENOENT, EPERM, EINVAL, EOVERFLOW (their sum; that of the ledger), EDQUOT
 * (retained buffers of one window; CAPKM_LIMIT_LEDGER_*: a limit of the domain's
 * ledger, its own or the administrator's), ENOMEM.
 */
struct capkm_window_retain {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	struct capkm_retained retained;
	__u32 out_limit;
	__u32 __reserved;
};
#define CAPKM_IOC_WINDOW_RETAIN _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_RETAIN)

/**
 * struct capkm_member - a slot that joined a window
 * @device: UUID
 * @slot: index of the slot
 * @scopes: of the window, open on it
 * @stream: the stream that joined
 * @launches: scopes that were recorded there
 */
struct capkm_member {
	__u8 device[16];
	__u32 slot;
	__u32 scopes;
	__aligned_u64 stream;
	__aligned_u64 launches;
};

/**
 * struct capkm_window_query - ioctl(CAPKM_IOC_WINDOW_QUERY)
 * @size: sizeof(struct capkm_window_query)
 * @flags: CAPKM_PLACE_F_SLOT
 * @window: any window of the domain, also one of its history; 0 for the
 *	window on @place
 * @place: read when @window is 0, else must be zero
 * @reports_uptr: array of struct capkm_report: the first failure, then the
 *	last
 * @reports_len: its length; 2 is enough
 * @out_reports: reports written
 * @out_window: id; 0 if the slot has no window
 * @out_owner: owner stream
 * @out_session: session of the opener
 * @out_cookie: as given
 * @out_graph: the graph it became
 * @out_device: UUID of the slot
 * @out_slot: index of the slot
 * @out_state: enum capkm_window_state
 * @out_verdict: enum capkm_verdict
 * @out_capture_cache: 1 while caches must be in capture mode (CW-4)
 * @out_doomed: 1 if it cannot be sealed
 * @out_strict: 1 if prepared strict
 * @out_pid: opener, in the reader's pid namespace; 0 if not visible
 * @out_uid: user of the opener, in the reader's user namespace
 * @out_recorded: claims recorded, each once
 * @out_bytes: sum of their sizes
 * @out_inputs: external inputs
 * @out_retained: retained host buffers; 0 once the window is refused
 * @out_retained_bytes: their bytes
 * @out_launches: scopes recorded
 * @out_foreign_launches: of these, by other streams than the owner
 * @out_failures: failures, all
 * @out_failed_after: launches that were recorded before the first failure
 * @out_prepared_ns: CLOCK_REALTIME, nanoseconds
 * @out_begun_ns: the same, 0 if it never recorded
 * @out_closed_ns: when it was sealed or refused; 0 before, also while CLOSING
 * @out_comm: command name of the opener, NUL-terminated
 * @out_mode: capture-mode text, NUL-terminated
 * @out_parent: the window that it is a child of, 0 if none
 * @out_escaped: scopes and replays of its streams that ran outside of it
 * @out_children: child windows that are neither sealed nor refused
 * @out_members: member slots
 * @members_uptr: array of struct capkm_member
 * @members_len: its length, more than 1024 counts as 1024
 * @__reserved: must be 0
 *
 * Needs right r; by @place only for a client (EPERM). Errors: ENOENT, EINVAL,
 * EPERM, ENOMEM.
 */
struct capkm_window_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	struct capkm_place place;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__aligned_u64 out_window;
	__aligned_u64 out_owner;
	__aligned_u64 out_session;
	__aligned_u64 out_cookie;
	__aligned_u64 out_graph;
	__u8 out_device[16];
	__u32 out_slot;
	__u32 out_state;
	__u32 out_verdict;
	__u32 out_capture_cache;
	__u32 out_doomed;
	__u32 out_strict;
	__u32 out_pid;
	__u32 out_uid;
	__aligned_u64 out_recorded;
	__aligned_u64 out_bytes;
	__aligned_u64 out_inputs;
	__aligned_u64 out_retained;
	__aligned_u64 out_retained_bytes;
	__aligned_u64 out_launches;
	__aligned_u64 out_foreign_launches;
	__aligned_u64 out_failures;
	__aligned_u64 out_failed_after;
	__aligned_u64 out_prepared_ns;
	__aligned_u64 out_begun_ns;
	__aligned_u64 out_closed_ns;
	__u8 out_comm[16];
	__u8 out_mode[32];
	__aligned_u64 out_parent;
	__aligned_u64 out_escaped;
	__u32 out_children;
	__u32 out_members;
	__aligned_u64 members_uptr;
	__u32 members_len;
	__u32 __reserved;
};
#define CAPKM_WINDOW_QUERY_F_ALL	CAPKM_PLACE_F_SLOT
#define CAPKM_IOC_WINDOW_QUERY _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_QUERY)

/**
 * struct capkm_open_window - a window that is not closed
 * @window: id
 * @owner: owner stream
 * @session: session of the opener
 * @cookie: as given
 * @begun_ns: CLOCK_REALTIME, nanoseconds; 0 if it does not record yet
 * @device: UUID of the slot
 * @slot: index of the slot
 * @state: enum capkm_window_state
 * @doomed: 1 if it cannot be sealed
 * @members: member slots
 * @pid: process that has prepared it, in the reader's pid namespace; 0 if not
 *	visible
 * @tid: thread that has begun it (before that: prepared it), in the pid namespace
 *	of that process
 * @comm: command name of the process, NUL-terminated
 */
struct capkm_open_window {
	__aligned_u64 window;
	__aligned_u64 owner;
	__aligned_u64 session;
	__aligned_u64 cookie;
	__aligned_u64 begun_ns;
	__u8 device[16];
	__u32 slot;
	__u32 state;
	__u32 doomed;
	__u32 members;
	__u32 pid;
	__u32 tid;
	__u8 comm[16];
};

/**
 * struct capkm_window_list - ioctl(CAPKM_IOC_WINDOW_LIST): who captures?
 * @size: sizeof(struct capkm_window_list)
 * @flags: CAPKM_WINDOW_LIST_F_*: which of the members below filter; without
 *	flags, all open windows of the domain
 * @stream: with F_STREAM: its own windows, and those that it is a member of
 * @session: with F_SESSION: windows of its clients
 * @pid: with F_PROCESS: windows of this process, in the caller's pid namespace
 * @tid: with F_THREAD: windows that this thread has begun
 * @device: with F_DEVICE: windows on this device, all zero for the host
 * @after: windows with a greater id are written; 0 at first
 * @windows_uptr: array of struct capkm_open_window, by ascending id
 * @windows_len: its length, more than 1024 counts as 1024
 * @out_windows: windows written
 * @out_open: windows that pass the filters, wherever their id is; also closing
 *	and orphaned ones
 * @out_active: of these, those from the prepare to the close
 * @out_recording: of these, those that have begun
 * @__reserved: must be 0
 *
 * Changes nothing, and needs no call of a driver. What does not filter must be
 * zero. Needs right r. Errors: EINVAL, ENOMEM.
 */
struct capkm_window_list {
	__u32 size;
	__u32 flags;
	__aligned_u64 stream;
	__aligned_u64 session;
	__u32 pid;
	__u32 tid;
	__u8 device[16];
	__aligned_u64 after;
	__aligned_u64 windows_uptr;
	__u32 windows_len;
	__u32 out_windows;
	__u32 out_open;
	__u32 out_active;
	__u32 out_recording;
	__u32 __reserved;
};
#define CAPKM_WINDOW_LIST_F_STREAM	(1u << 0)
#define CAPKM_WINDOW_LIST_F_SESSION	(1u << 1)
#define CAPKM_WINDOW_LIST_F_PROCESS	(1u << 2)
#define CAPKM_WINDOW_LIST_F_THREAD	(1u << 3)
#define CAPKM_WINDOW_LIST_F_DEVICE	(1u << 4)
#define CAPKM_WINDOW_LIST_F_ALL		0x1fu
#define CAPKM_IOC_WINDOW_LIST _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_LIST)

/**
 * struct capkm_window_abandon - ioctl(CAPKM_IOC_WINDOW_ABANDON)
 * @size: sizeof(struct capkm_window_abandon)
 * @flags: must be 0
 * @window: any open, CLOSING or orphaned window; it moves to the history. What
 *	it had recorded is tainted (kind ABANDONED) unless it was already
 *
 * The opener's session, the domain's owner, or CAP_SYS_ADMIN in the initial
 * user namespace; else EPERM.
 */
struct capkm_window_abandon {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
};
#define CAPKM_IOC_WINDOW_ABANDON _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_ABANDON)

/**
 * struct capkm_scope_enter - ioctl(CAPKM_IOC_SCOPE_ENTER)
 * @size: sizeof(struct capkm_scope_enter)
 * @flags: CAPKM_SCOPE_ENTER_F_*, CAPKM_PLACE_F_SLOT
 * @place: stream and slot that the work is issued on
 * @reads_uptr: array of struct capkm_claim: what the work reads
 * @writes_uptr: array of struct capkm_claim: what it is going to write
 * @label_uptr: optional label of the work (a kernel's name)
 * @reads_len: length of reads
 * @writes_len: length of writes
 * @label_len: bytes of the label, at most %CAPKM_LABEL_MAX
 * @reports_len: length of the array
 * @reports_uptr: array of struct capkm_report: the input that is tainted or
 *	in progress
 * @out_reports: reports written, at most 1
 * @out_error_index: on ENOENT and EINVAL: which claim, reads first
 * @out_result: %CAPKM_CLEAN (entered), %CAPKM_SKIPPED, %CAPKM_IN_PROGRESS,
 *	%CAPKM_REFUSED
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @out_scope: id for SCOPE_EXIT; 0 if not entered
 * @out_sequence: the domain's sequence at the enter
 * @out_window: window that it is recorded in; 0 if it is none, or not entered
 * @out_failure: what the reads carry or, %CAPKM_REFUSED, the writes do now; or 0
 *
 * From an enter on, the written bytes belong to the scope, until the exit says
 * how the work went. If the client ends before, they are tainted (kind
 * TORN_DOWN). All that the exit will need is paid here. Needs right w. Errors:
 * ENOENT, EINVAL (also for a write to a buffer that was never allocated), EPERM
 * (the stream is another session's), EBUSY (the driver opens or closes a window
 * on the slot), EMSGSIZE, EDQUOT (open scopes of one client, claims of one
 * window, devices of one client), ENOSPC (ranges of the domain), ENOMEM.
 */
struct capkm_scope_enter {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 reads_uptr;
	__aligned_u64 writes_uptr;
	__aligned_u64 label_uptr;
	__u32 reads_len;
	__u32 writes_len;
	__u32 label_len;
	__u32 reports_len;
	__aligned_u64 reports_uptr;
	__u32 out_reports;
	__u32 out_error_index;
	__u32 out_result;
	__u32 out_limit;
	__aligned_u64 out_scope;
	__aligned_u64 out_sequence;
	__aligned_u64 out_window;
	__aligned_u64 out_failure;
};
/*
 * The work must run although an input is tainted: it enters, and when it is
 * left its outputs carry the input's failure.
 */
#define CAPKM_SCOPE_ENTER_F_POISON	(1u << 0)
#define CAPKM_SCOPE_ENTER_F_ALL		(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_SCOPE_ENTER _IO(CAPKM_TYPE, CAPKM_NR_SCOPE_ENTER)

/**
 * struct capkm_scope_exit - ioctl(CAPKM_IOC_SCOPE_EXIT)
 * @size: sizeof(struct capkm_scope_exit)
 * @flags: CAPKM_SCOPE_EXIT_F_*
 * @scope: id of SCOPE_ENTER, of this client
 * @kind: with F_FAILED: enum capkm_kind of the caller; else 0
 * @code: with F_FAILED: the caller's code; else 0
 * @text_uptr: with F_FAILED: optional reason
 * @stack_uptr: with F_FAILED: optional stack blob, opaque; it is dropped if
 *	there is no memory for it
 * @text_len: bytes of the text
 * @stack_len: bytes of the blob, at most %CAPKM_STACK_MAX
 * @out_failure: id of the failure that the written bytes carry now, 0 if none
 * @out_sequence: the slot's sequence
 *
 * If the device has faulted since the enter, the work counts as failed with that
 * failure. A failure also goes to the queue of the slot (STREAM_FLUSH). Cannot
 * fail for memory or limits. Errors: ENOENT, EPERM, EINVAL, EMSGSIZE.
 */
struct capkm_scope_exit {
	__u32 size;
	__u32 flags;
	__aligned_u64 scope;
	__u32 kind;
	__s32 code;
	__aligned_u64 text_uptr;
	__aligned_u64 stack_uptr;
	__u32 text_len;
	__u32 stack_len;
	__aligned_u64 out_failure;
	__aligned_u64 out_sequence;
};
/* The work failed. */
#define CAPKM_SCOPE_EXIT_F_FAILED	(1u << 0)
/* The work is finished, not only enqueued: there is nothing to confirm. */
#define CAPKM_SCOPE_EXIT_F_COMPLETE	(1u << 1)
#define CAPKM_SCOPE_EXIT_F_ALL		(3u << 0)
#define CAPKM_IOC_SCOPE_EXIT _IO(CAPKM_TYPE, CAPKM_NR_SCOPE_EXIT)

/**
 * struct capkm_check - ioctl(CAPKM_IOC_CHECK)
 * @size: sizeof(struct capkm_check)
 * @flags: CAPKM_CHECK_F_*
 * @claims_uptr: array of struct capkm_claim: may these bytes be read
 * @claims_len: its length
 * @reports_len: length of the array
 * @reports_uptr: array of struct capkm_report: in the order of the claims one
 *	for each different failure, plus one for each buffer that was never
 *	allocated and each claim whose first bad byte is in progress. Of clean
 *	claims for %CAPKM_PENDING and %CAPKM_STALE one for each that is so
 * @since: with F_UNCHANGED, F_WRITTEN: an earlier @out_sequence; else 0
 * @out_reports: reports found; more than @reports_len means that the rest was
 *	not written
 * @out_error_index: on ENOENT and EINVAL: which claim
 * @out_result: the first of these that holds: %CAPKM_TAINTED, %CAPKM_PENDING,
 *	%CAPKM_STALE, %CAPKM_CHANGED, else %CAPKM_CLEAN
 * @out_unconfirmed: claims with a byte that would make it %CAPKM_PENDING, if the
 *	answer is not %CAPKM_TAINTED. Also without F_CONFIRMED, but then the session's own
 *	work on its private buffers is not counted
 * @out_sequence: the domain's sequence now
 *
 * Each claim is judged by its first byte that cannot be trusted. Needs right
 * r. Errors: ENOENT, EINVAL (also F_UNCHANGED together with F_WRITTEN),
 * EOPNOTSUPP (F_WRITTEN of a buffer for which writers are not kept; also
 * @out_error_index), EMSGSIZE, ENOMEM.
 */
struct capkm_check {
	__u32 size;
	__u32 flags;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 reports_len;
	__aligned_u64 reports_uptr;
	__aligned_u64 since;
	__u32 out_reports;
	__u32 out_error_index;
	__u32 out_result;
	__u32 out_unconfirmed;
	__aligned_u64 out_sequence;
};
/* Has any of the buffers changed since @since? For readers that copy. */
#define CAPKM_CHECK_F_UNCHANGED	(1u << 0)
/* Is the work that wrote the bytes finished, as its client has confirmed? */
#define CAPKM_CHECK_F_CONFIRMED	(1u << 1)
/* Was each byte written, well, after @since? */
#define CAPKM_CHECK_F_WRITTEN	(1u << 2)
#define CAPKM_CHECK_F_ALL	(7u << 0)
#define CAPKM_IOC_CHECK _IO(CAPKM_TYPE, CAPKM_NR_CHECK)

/**
 * struct capkm_taint - ioctl(CAPKM_IOC_TAINT)
 * @size: sizeof(struct capkm_taint)
 * @flags: must be 0
 * @claims_uptr: array of struct capkm_claim: bytes that cannot be trusted
 * @claims_len: its length
 * @kind: for a new failure: enum capkm_kind of the caller
 * @code: for a new failure: the caller's code
 * @text_len: for a new failure: bytes of the text
 * @text_uptr: for a new failure: optional reason
 * @stream: logical stream that says so
 * @failure: 0 for a new failure, else an existing one of the domain, and then
 *	@kind, @code and @text_len must be 0
 * @out_error_index: on ENOENT and EINVAL: which claim
 * @out_limit: on ENOSPC: enum capkm_limit
 * @out_failure: id, 0 if the claims are empty
 * @out_sequence: the domain's sequence
 *
 * A scope of zero length that failed. Needs right w. Errors: ENOENT (also
 * @stream), EPERM (the stream is another session's), EINVAL, EMSGSIZE, ENOSPC
 * (ranges of the domain), ENOMEM.
 */
struct capkm_taint {
	__u32 size;
	__u32 flags;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 kind;
	__s32 code;
	__u32 text_len;
	__aligned_u64 text_uptr;
	__aligned_u64 stream;
	__aligned_u64 failure;
	__u32 out_error_index;
	__u32 out_limit;
	__aligned_u64 out_failure;
	__aligned_u64 out_sequence;
};
#define CAPKM_IOC_TAINT _IO(CAPKM_TYPE, CAPKM_NR_TAINT)

/**
 * struct capkm_written - ioctl(CAPKM_IOC_WRITTEN)
 * @size: sizeof(struct capkm_written)
 * @flags: must be 0
 * @claims_uptr: array of struct capkm_claim: bytes that were written well
 * @claims_len: its length
 * @out_error_index: on ENOENT and EINVAL: which claim
 * @out_sequence: the domain's sequence
 *
 * A scope of zero length that succeeded and is complete. Works at any limit.
 * Needs right w. Errors: ENOENT, EINVAL (also for a buffer that was never
 * allocated), EMSGSIZE, ENOMEM.
 */
struct capkm_written {
	__u32 size;
	__u32 flags;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 out_error_index;
	__aligned_u64 out_sequence;
};
#define CAPKM_IOC_WRITTEN _IO(CAPKM_TYPE, CAPKM_NR_WRITTEN)

/**
 * struct capkm_graph_replay_begin - ioctl(CAPKM_IOC_GRAPH_REPLAY_BEGIN)
 * @size: sizeof(struct capkm_graph_replay_begin)
 * @flags: CAPKM_PLACE_F_SLOT
 * @graph: a graph of the client
 * @place: stream and slot that it is launched on
 * @reports_uptr: array of struct capkm_report: the external input that is
 *	tainted or in progress
 * @reports_len: its length
 * @out_reports: reports written, at most 1
 * @out_result: %CAPKM_CLEAN (entered), %CAPKM_SKIPPED, %CAPKM_IN_PROGRESS,
 *	%CAPKM_REFUSED
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @out_sequence: the domain's sequence
 *
 * Costs the same for any number of claims while nothing is wrong with its
 * buffers, but for claims on shared buffers and on those of
 * %CAPKM_BUFFER_CREATE_F_FRESH. Errors: ENOENT, EPERM, EBUSY (the graph is being
 * replayed; the driver opens or closes a window on the slot), EOPNOTSUPP (the
 * slot is recording on a driver: record the child graph's claims instead),
 * EDQUOT (devices of one client), ENOSPC (too much is on its buffers), ENOMEM.
 */
struct capkm_graph_replay_begin {
	__u32 size;
	__u32 flags;
	__aligned_u64 graph;
	struct capkm_place place;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__u32 out_result;
	__u32 out_limit;
	__aligned_u64 out_sequence;
};
#define CAPKM_IOC_GRAPH_REPLAY_BEGIN \
	_IO(CAPKM_TYPE, CAPKM_NR_GRAPH_REPLAY_BEGIN)

/**
 * struct capkm_graph_replay_end - ioctl(CAPKM_IOC_GRAPH_REPLAY_END)
 * @size: sizeof(struct capkm_graph_replay_end)
 * @flags: CAPKM_SCOPE_EXIT_F_*; without F_COMPLETE what the graph writes, and what
 *	it was seen to be given, is unconfirmed
 * @graph: a graph that is being replayed
 * @kind: with F_FAILED: enum capkm_kind of the caller; else 0
 * @code: with F_FAILED: the caller's code; else 0
 * @text_uptr: with F_FAILED: optional reason
 * @text_len: bytes of the text
 * @__reserved: must be 0
 * @out_failure: id of the failure that its buffers carry now, 0 if none
 * @out_sequence: the slot's sequence
 *
 * Cannot fail for memory or limits. Errors: ENOENT, EPERM, EINVAL.
 */
struct capkm_graph_replay_end {
	__u32 size;
	__u32 flags;
	__aligned_u64 graph;
	__u32 kind;
	__s32 code;
	__aligned_u64 text_uptr;
	__u32 text_len;
	__u32 __reserved;
	__aligned_u64 out_failure;
	__aligned_u64 out_sequence;
};
#define CAPKM_IOC_GRAPH_REPLAY_END _IO(CAPKM_TYPE, CAPKM_NR_GRAPH_REPLAY_END)

/**
 * struct capkm_graph_destroy - ioctl(CAPKM_IOC_GRAPH_DESTROY)
 * @size: sizeof(struct capkm_graph_destroy)
 * @flags: must be 0
 * @graph: a graph of the client. 0 is EINVAL, an unknown one ENOENT: neither
 *	changes anything
 *
 * Errors: ENOENT, EPERM, EINVAL, EBUSY (it is being replayed).
 */
struct capkm_graph_destroy {
	__u32 size;
	__u32 flags;
	__aligned_u64 graph;
};
#define CAPKM_IOC_GRAPH_DESTROY _IO(CAPKM_TYPE, CAPKM_NR_GRAPH_DESTROY)

/**
 * struct capkm_graph_query - ioctl(CAPKM_IOC_GRAPH_QUERY)
 * @size: sizeof(struct capkm_graph_query)
 * @flags: CAPKM_GRAPH_QUERY_F_*
 * @graph: any graph of the domain
 * @from: claims with a lower key (buffer, start, end) are left out
 * @claims_uptr: array of struct capkm_claim: what it writes; with F_INPUTS its
 *	external inputs, with F_SEEN what it was seen to be given
 * @claims_len: its length
 * @out_claims: claims written to the array
 * @out_window: window that it was
 * @out_session: session of its client
 * @out_owner: owner stream
 * @out_cookie: of the window
 * @out_writes: claims that it writes
 * @out_inputs: external inputs
 * @out_seen: claims that it was seen to be given
 * @out_retained: retained host buffers
 * @out_retained_bytes: their bytes
 * @out_replays: replays that succeeded
 * @out_failed_replays: replays that failed, were skipped or refused
 * @out_pid: process, in the reader's pid namespace
 * @out_replaying: 1 while a replay is open
 * @out_updates: windows that have replaced its claims
 * @out_failed_updates: updates that the driver refused
 *
 * Needs right r.
 */
struct capkm_graph_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 graph;
	struct capkm_claim from;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 out_claims;
	__aligned_u64 out_window;
	__aligned_u64 out_session;
	__aligned_u64 out_owner;
	__aligned_u64 out_cookie;
	__aligned_u64 out_writes;
	__aligned_u64 out_inputs;
	__aligned_u64 out_seen;
	__aligned_u64 out_retained;
	__aligned_u64 out_retained_bytes;
	__aligned_u64 out_replays;
	__aligned_u64 out_failed_replays;
	__u32 out_pid;
	__u32 out_replaying;
	__aligned_u64 out_updates;
	__aligned_u64 out_failed_updates;
};
#define CAPKM_GRAPH_QUERY_F_INPUTS	(1u << 0)
#define CAPKM_GRAPH_QUERY_F_SEEN	(1u << 1)
#define CAPKM_GRAPH_QUERY_F_ALL		(3u << 0)
#define CAPKM_IOC_GRAPH_QUERY _IO(CAPKM_TYPE, CAPKM_NR_GRAPH_QUERY)

/**
 * struct capkm_hop - work that was skipped because of a failure
 * @needed: buffer that it needed and that carried the failure
 * @time_ns: CLOCK_REALTIME, nanoseconds
 * @label: label of the skipped scope, NUL-terminated
 */
struct capkm_hop {
	__aligned_u64 needed;
	__aligned_u64 time_ns;
	__u8 label[64];
};

/**
 * struct capkm_failure_query - ioctl(CAPKM_IOC_FAILURE_QUERY)
 * @size: sizeof(struct capkm_failure_query)
 * @flags: must be 0
 * @failure: a node of the error graph, or of the domain's reports
 * @buffer: whose chain of skipped work is asked, 0 for none
 * @reports_uptr: array of struct capkm_report: the failure
 * @reports_len: its length; 1 is enough
 * @out_reports: reports written
 * @hops_uptr: array of struct capkm_hop: from @buffer back to the root, newest
 *	first; at most 16 are remembered
 * @hops_len: its length
 * @out_hops: hops written
 * @carriers_uptr: array of struct capkm_claim: the buffers that carry it, by
 *	id, each from 0 to its size; BUFFER_QUERY gives the ranges
 * @carriers_len: its length
 * @out_carriers: carriers written
 * @out_skips: work skipped in all because of it
 * @out_dropped: of these, skip records that are no longer remembered
 * @stack_uptr: array of bytes: the stack blob
 * @stack_len: its length
 * @out_stack: bytes of the blob, at most @stack_len of which are written
 *
 * Needs right r. Errors: ENOENT (also when it was pruned).
 */
struct capkm_failure_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 failure;
	__aligned_u64 buffer;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__aligned_u64 hops_uptr;
	__u32 hops_len;
	__u32 out_hops;
	__aligned_u64 carriers_uptr;
	__u32 carriers_len;
	__u32 out_carriers;
	__aligned_u64 out_skips;
	__aligned_u64 out_dropped;
	__aligned_u64 stack_uptr;
	__u32 stack_len;
	__u32 out_stack;
};
#define CAPKM_IOC_FAILURE_QUERY _IO(CAPKM_TYPE, CAPKM_NR_FAILURE_QUERY)

/**
 * struct capkm_session_join - ioctl(CAPKM_IOC_SESSION_JOIN)
 * @size: sizeof(struct capkm_session_join)
 * @flags: must be 0
 * @out_domain: the session's domain, 0 if it is not attached yet
 * @out_session: id of the session, 0 if it is not attached yet
 * @out_rights: CAPKM_RIGHT_* of the session
 * @out_backend: enum capkm_backend of the session
 * @out_max_streams: slots per device of the session
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 *
 * The calling process, which got the descriptor from another one (fork, exec,
 * SCM_RIGHTS), becomes a client of the session, with the session's rights and
 * buffers, and slots, scopes, windows and graphs of its own. Joining again
 * changes nothing. With a second client all buffers of the session are shared;
 * if the first client has not confirmed what it wrote, they are unconfirmed as
 * a whole. A client that has ended is a new one when it joins again. Errors:
 * EDQUOT (clients of one session), ENOSPC (ranges of the domain; the other client
 * should confirm first), ECANCELED (the domain was destroyed), EINTR, ENOMEM.
 */
struct capkm_session_join {
	__u32 size;
	__u32 flags;
	__aligned_u64 out_domain;
	__aligned_u64 out_session;
	__u32 out_rights;
	__u32 out_backend;
	__u32 out_max_streams;
	__u32 out_limit;
};
#define CAPKM_IOC_SESSION_JOIN _IO(CAPKM_TYPE, CAPKM_NR_SESSION_JOIN)

/**
 * struct capkm_stream_destroy - ioctl(CAPKM_IOC_STREAM_DESTROY)
 * @size: sizeof(struct capkm_stream_destroy)
 * @flags: must be 0
 * @stream: id of STREAM_CREATE, which is gone for good, or one of the caller's
 *	own, which may be used again. Windows of the session that it owns and that
 *	are prepared, opening or recording are refused (kind ABORTED); slots that
 *	it joined to a window are let go, what they recorded stays; errors that
 *	wait for it become shared. Its scopes stay open
 * @out_windows: windows that were closed, children included
 * @__reserved: must be 0
 *
 * Needs right w. Cannot fail for memory or limits. Errors: ENOENT, EPERM (the
 * stream is another session's).
 */
struct capkm_stream_destroy {
	__u32 size;
	__u32 flags;
	__aligned_u64 stream;
	__u32 out_windows;
	__u32 __reserved;
};
#define CAPKM_IOC_STREAM_DESTROY _IO(CAPKM_TYPE, CAPKM_NR_STREAM_DESTROY)

/**
 * struct capkm_stream_confirm - ioctl(CAPKM_IOC_STREAM_CONFIRM)
 * @size: sizeof(struct capkm_stream_confirm)
 * @flags: CAPKM_STREAM_CONFIRM_F_*, CAPKM_PLACE_F_SLOT
 * @place: slot whose work is finished
 * @sequence: all that exited up to here is; the slot's sequence (SCOPE_EXIT,
 *	STREAM_QUERY) as it was before the stream was synchronised
 * @client: whose slot it is: 0, or an id of STREAM_QUERY. Of another client only
 *	what it wrote in exported buffers is confirmed, and the slot is named
 *	(F_SLOT): this is for who has seen that the work is finished, by an event of
 *	the driver that both processes have
 * @out_unconfirmed: ranges of shared buffers that are left unconfirmed there
 *
 * Needs right w. Cannot fail for memory or limits. Errors: ENOENT (no such stream;
 * @client has ended, or is none of the domain), EPERM (the stream is another
 * session's), EINVAL (@sequence has not been reached; F_DEVICE together with
 * F_SLOT or with another @client; another @client without F_SLOT).
 */
struct capkm_stream_confirm {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 sequence;
	__aligned_u64 client;
	__aligned_u64 out_unconfirmed;
};
/*
 * All slots of the client on the device: the context was synchronised. @sequence
 * is the domain's (out_sequence of CHECK, DOMAIN_QUERY) from before.
 */
#define CAPKM_STREAM_CONFIRM_F_DEVICE	(1u << 0)
#define CAPKM_STREAM_CONFIRM_F_ALL	(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_STREAM_CONFIRM _IO(CAPKM_TYPE, CAPKM_NR_STREAM_CONFIRM)

/**
 * struct capkm_stream_fault - ioctl(CAPKM_IOC_STREAM_FAULT)
 * @size: sizeof(struct capkm_stream_fault)
 * @flags: CAPKM_PLACE_F_SLOT
 * @place: its device has faulted, its stream noticed; the error also goes to the
 *	queue of its slot, for anybody
 * @text_uptr: optional reason
 * @text_len: bytes of it, at most %CAPKM_TEXT_MAX
 * @code: the driver's code
 * @out_failure: id of the failure (kind DEVICE_FAULT); of the last fault if the
 *	context has not been renewed since, and then nothing has changed
 * @out_epoch: faults of the device that this client has seen
 *
 * The client's context on the device is lost. Its unconfirmed ranges are
 * tainted, and its private buffers on the device as a whole; scopes and replays
 * that are open there fail when they are left; windows that are recording or
 * closing there are doomed; enters are skipped until CONTEXT_RENEW. Needs right
 * w. Errors: ENOENT, EPERM (the stream is another session's), EINVAL, EMSGSIZE;
 * EDQUOT (devices of one client) and ENOMEM only if the client has never used the
 * slot, or not since a DEVICE_FAULT.
 */
struct capkm_stream_fault {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 text_uptr;
	__u32 text_len;
	__s32 code;
	__aligned_u64 out_failure;
	__aligned_u64 out_epoch;
};
#define CAPKM_IOC_STREAM_FAULT _IO(CAPKM_TYPE, CAPKM_NR_STREAM_FAULT)

/**
 * struct capkm_stream_flush - ioctl(CAPKM_IOC_STREAM_FLUSH)
 * @size: sizeof(struct capkm_stream_flush)
 * @flags: CAPKM_STREAM_FLUSH_F_*, CAPKM_PLACE_F_SLOT
 * @place: slot, and the stream that asks. Without flags it gets its own errors
 *	and the shared ones
 * @reports_uptr: array of struct capkm_report, oldest first
 * @reports_len: its length; what does not fit stays in the queue
 * @out_reports: reports written
 * @out_left: errors that the stream could get and that are still queued
 * @out_dropped: shared errors that were only counted, since the last flush that
 *	took shared ones
 *
 * Each failed exit of a scope or replay on the slot is queued once, for its
 * stream, or, if it was recorded in a window, for the window's owner; a fault
 * for anybody. It blocks nothing. Needs right w. Errors: ENOENT, EPERM, EINVAL
 * (two of F_OWN, F_SHARED and F_EVERY), ENOMEM.
 */
struct capkm_stream_flush {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__aligned_u64 out_left;
	__aligned_u64 out_dropped;
};
#define CAPKM_STREAM_FLUSH_F_PEEK	(1u << 0)	/* take nothing */
#define CAPKM_STREAM_FLUSH_F_OWN	(1u << 1)	/* no shared errors */
#define CAPKM_STREAM_FLUSH_F_SHARED	(1u << 2)	/* only shared errors */
#define CAPKM_STREAM_FLUSH_F_EVERY	(1u << 3)	/* those of all streams */
#define CAPKM_STREAM_FLUSH_F_ALL	(CAPKM_PLACE_F_SLOT | 15u)
#define CAPKM_IOC_STREAM_FLUSH _IO(CAPKM_TYPE, CAPKM_NR_STREAM_FLUSH)

/**
 * struct capkm_context_renew - ioctl(CAPKM_IOC_CONTEXT_RENEW)
 * @size: sizeof(struct capkm_context_renew)
 * @flags: must be 0
 * @device: UUID of a device on which the client has a new context
 * @out_epoch: faults of the device that this client has seen
 *
 * Work can be entered there again. What was tainted stays so until it is written
 * or freed. Needs right w. Errors: ENOENT (the client has never used the device),
 * ENOMEM.
 */
struct capkm_context_renew {
	__u32 size;
	__u32 flags;
	__u8 device[16];
	__aligned_u64 out_epoch;
};
#define CAPKM_IOC_CONTEXT_RENEW _IO(CAPKM_TYPE, CAPKM_NR_CONTEXT_RENEW)

/**
 * struct capkm_window_join - ioctl(CAPKM_IOC_WINDOW_JOIN)
 * @size: sizeof(struct capkm_window_join)
 * @flags: CAPKM_WINDOW_JOIN_F_*, CAPKM_PLACE_F_SLOT
 * @window: a recording window of the client
 * @place: slot whose work it records from now on, and the stream that joins
 * @out_state: state of the slot; also on EBUSY and EINVAL
 * @out_result: %CAPKM_CLEAN (it is a member) or %CAPKM_REFUSED
 * @out_limit: on EDQUOT: enum capkm_limit
 * @__reserved: must be 0
 *
 * Joining the window's own slot, or a member again, changes nothing. A member
 * stays one until the window is closed or its stream destroyed. Needs right w.
 * Errors: ENOENT, EPERM, EINVAL (the window does not record, or is doomed), EBUSY
 * (the slot has a window or is a member of another one, STREAM_QUERY says which;
 * a scope is open on it), EDQUOT (members of one window; devices of one client),
 * ENOMEM.
 */
struct capkm_window_join {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	struct capkm_place place;
	__u32 out_state;
	__u32 out_result;
	__u32 out_limit;
	__u32 __reserved;
};
/*
 * The driver has already merged the capture of the slot's window, or of the one
 * that it is a member of, with this one: both are doomed (kind MERGE).
 */
#define CAPKM_WINDOW_JOIN_F_DRIVER_MERGED	(1u << 0)
#define CAPKM_WINDOW_JOIN_F_ALL		(CAPKM_PLACE_F_SLOT | 1u)
#define CAPKM_IOC_WINDOW_JOIN _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_JOIN)

/**
 * struct capkm_window_wait - ioctl(CAPKM_IOC_WINDOW_WAIT)
 * @size: sizeof(struct capkm_window_wait)
 * @flags: CAPKM_PLACE_F_SLOT
 * @window: any window of the domain; 0 for the window on @place
 * @place: read when @window is 0, else must be zero
 * @timeout_ns: at most so long, U64_MAX for ever; on EINTR what is left of it
 * @out_window: id, 0 if the slot has none
 * @out_state: enum capkm_window_state: %CAPKM_WINDOW_NONE if the slot has none;
 *	CLOSING, SEALED, REFUSED or ORPHANED once the window has left its slot. A
 *	window whose device has faulted is not waited for either, whatever its
 *	state
 * @out_kind: enum capkm_kind: why it was refused, or of the fault; else 0
 *
 * Waits until the window has left its slot. Needs right r; by @place only for a
 * client (EPERM). Errors: ENOENT (also if it is forgotten), EINVAL (also a place
 * or flags beside a window), EPERM, ETIMEDOUT, EINTR, ECANCELED (the domain was destroyed).
 */
struct capkm_window_wait {
	__u32 size;
	__u32 flags;
	__aligned_u64 window;
	struct capkm_place place;
	__aligned_u64 timeout_ns;
	__aligned_u64 out_window;
	__u32 out_state;
	__u32 out_kind;
};
#define CAPKM_WINDOW_WAIT_F_ALL	CAPKM_PLACE_F_SLOT
#define CAPKM_IOC_WINDOW_WAIT _IO(CAPKM_TYPE, CAPKM_NR_WINDOW_WAIT)

/**
 * struct capkm_graph_update - ioctl(CAPKM_IOC_GRAPH_UPDATE)
 * @size: sizeof(struct capkm_graph_update)
 * @flags: CAPKM_GRAPH_UPDATE_F_*
 * @graph: a graph of the client whose executable was updated
 * @window: the CLOSING window that it was updated with; its claims, inputs,
 *	retained host bytes and cookie replace those of the graph
 * @reports_uptr: array of struct capkm_report for a refusal, as in WINDOW_SEAL
 * @reports_len: its length; 2 is enough
 * @out_reports: reports written
 * @out_result: %CAPKM_CLEAN (the window is sealed) or %CAPKM_REFUSED (it was
 *	doomed or abandoned; the graph is as before)
 * @__reserved: must be 0
 *
 * Needs right w. Errors: ENOENT, EPERM, EINVAL (the window is not CLOSING, or a
 * child), EBUSY (the graph is being replayed; the driver has not closed the
 * window yet), ENOMEM.
 */
struct capkm_graph_update {
	__u32 size;
	__u32 flags;
	__aligned_u64 graph;
	__aligned_u64 window;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__u32 out_result;
	__u32 __reserved;
};
/* Replays look neither at external inputs nor at seen claims, as in WINDOW_SEAL. */
#define CAPKM_GRAPH_UPDATE_F_NO_INPUTS	(1u << 0)
/*
 * The driver refused the update: it is counted, nothing else changes. The window
 * can still be sealed or refused.
 */
#define CAPKM_GRAPH_UPDATE_F_FAILED	(1u << 1)
#define CAPKM_GRAPH_UPDATE_F_ALL	(3u << 0)
#define CAPKM_IOC_GRAPH_UPDATE _IO(CAPKM_TYPE, CAPKM_NR_GRAPH_UPDATE)

/**
 * struct capkm_device_fault - ioctl(CAPKM_IOC_DEVICE_FAULT)
 * @size: sizeof(struct capkm_device_fault)
 * @flags: must be 0
 * @device: UUID of the device, not the host
 * @text_uptr: optional reason
 * @text_len: bytes of it, at most %CAPKM_TEXT_MAX
 * @code: the number of the Xid, say
 * @out_clients: clients for which it is a fault
 * @__reserved: must be 0
 *
 * What STREAM_FAULT does, for every client of every domain that has used the
 * device or whose session holds a private buffer on it; each client in one step.
 * For a monitor that saw an Xid: needs CAP_SYS_ADMIN in the initial user
 * namespace, and no domain. Errors: EPERM, EINVAL (the host), EMSGSIZE; ENOMEM if
 * there was no memory to tell a client that has never used the device, or has just
 * renewed: all others have been told, out_clients says how many, and the call can be
 * made again.
 */
struct capkm_device_fault {
	__u32 size;
	__u32 flags;
	__u8 device[16];
	__aligned_u64 text_uptr;
	__u32 text_len;
	__s32 code;
	__u32 out_clients;
	__u32 __reserved;
};
#define CAPKM_IOC_DEVICE_FAULT _IO(CAPKM_TYPE, CAPKM_NR_DEVICE_FAULT)

/**
 * enum capkm_refuse_what - what a runtime asks before it does it
 * @CAPKM_REFUSE_READ: read device memory into host memory
 * @CAPKM_REFUSE_SYNC: wait on the host for the slot's work
 * @CAPKM_REFUSE_PROFILE: measure how long the slot's work takes
 * @CAPKM_REFUSE_WRITE: write host memory into device memory
 * @CAPKM_REFUSE_ALLOCATE: get more memory from the device
 */
enum capkm_refuse_what {
	CAPKM_REFUSE_READ	= 1,
	CAPKM_REFUSE_SYNC	= 2,
	CAPKM_REFUSE_PROFILE	= 3,
	CAPKM_REFUSE_WRITE	= 4,
	CAPKM_REFUSE_ALLOCATE	= 5,
};

/**
 * struct capkm_refuse - ioctl(CAPKM_IOC_REFUSE): must a runtime refuse this now
 * @size: sizeof(struct capkm_refuse)
 * @flags: CAPKM_PLACE_F_SLOT
 * @place: slot that it is asked of, and the stream that asks
 * @claims_uptr: with %CAPKM_REFUSE_WRITE: array of struct capkm_claim: what would be
 *	written; else none
 * @claims_len: its length
 * @what: enum capkm_refuse_what
 * @reports_uptr: array of struct capkm_report: why it is refused; it names the
 *	window and its owner
 * @reports_len: its length; 1 is enough
 * @out_reports: reports written
 * @out_result: %CAPKM_CLEAN (nothing is in the way) or %CAPKM_REFUSED
 * @out_error_index: on ENOENT and EINVAL: which claim
 * @out_limit: on ENOSPC: enum capkm_limit
 * @out_state: state of the slot
 * @out_window: window that records there, 0 if none does (also while its driver
 *	opens or closes it)
 * @out_failure: failure that the claims carry now, or that doomed the window; 0 if
 *	nothing was tainted and nothing doomed
 *
 * Nothing is refused but on a slot that records (also as a member). Reads, syncs
 * and profiles are: there is nothing yet to read or to wait for, and a driver would
 * throw its capture away; the window is none the worse for it. A write on a software
 * slot is refused, for it cannot be recorded: the claims are tainted with the refusal,
 * and if the stream is the window's owner the window is doomed. On a hardware slot a
 * write is recorded like any work. Memory that is allocated while a driver records is
 * not in its graph: on a hardware slot the window is doomed, on a software slot there
 * is nothing in the way. While the driver opens or closes the window, all but a write
 * is treated as if it recorded: nobody knows whether it does.
 *
 * Needs right w. Errors: ENOENT, EINVAL (@what; claims without
 * %CAPKM_REFUSE_WRITE), EPERM (the stream is another session's), EMSGSIZE, ENOSPC
 * (ranges of the domain), ENOMEM.
 */
struct capkm_refuse {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__aligned_u64 claims_uptr;
	__u32 claims_len;
	__u32 what;
	__aligned_u64 reports_uptr;
	__u32 reports_len;
	__u32 out_reports;
	__u32 out_result;
	__u32 out_error_index;
	__u32 out_limit;
	__u32 out_state;
	__aligned_u64 out_window;
	__aligned_u64 out_failure;
};
#define CAPKM_IOC_REFUSE _IO(CAPKM_TYPE, CAPKM_NR_REFUSE)

/**
 * enum capkm_axis - what is counted of an observation
 * @CAPKM_AXIS_NONE: nothing
 * @CAPKM_AXIS_CAPTURES: values that are captured
 * @CAPKM_AXIS_RETAINED: memory of the device that the capture keeps
 * @CAPKM_AXIS_HOST: host memory
 * @CAPKM_AXIS_ENCODED: bytes of the records, once they are encoded
 */
enum capkm_axis {
	CAPKM_AXIS_NONE		= 0,
	CAPKM_AXIS_CAPTURES	= 1,
	CAPKM_AXIS_RETAINED	= 2,
	CAPKM_AXIS_HOST		= 3,
	CAPKM_AXIS_ENCODED	= 4,
};

/**
 * enum capkm_bound - which limit a reservation does not fit into
 * @CAPKM_BOUND_NONE: it fits
 * @CAPKM_BOUND_STEP: what the ledger may be charged with in one step
 * @CAPKM_BOUND_TOTAL: what it may be charged with in all
 * @CAPKM_BOUND_DOMAIN: what an administrator has set (CAPKM_LIMIT_LEDGER_*): for any
 *	ledger of the domain, and for all that it ever had together
 */
enum capkm_bound {
	CAPKM_BOUND_NONE	= 0,
	CAPKM_BOUND_STEP	= 1,
	CAPKM_BOUND_TOTAL	= 2,
	CAPKM_BOUND_DOMAIN	= 3,
};

/**
 * enum capkm_on_limit - what a ledger answers when a reservation does not fit
 * @CAPKM_ON_LIMIT_FAIL: %CAPKM_REFUSED: the observation has failed
 * @CAPKM_ON_LIMIT_SKIP: %CAPKM_SKIPPED: go on without it
 */
enum capkm_on_limit {
	CAPKM_ON_LIMIT_FAIL	= 0,
	CAPKM_ON_LIMIT_SKIP	= 1,
};

/* Any session of the domain with right w may reserve, not the holder alone. */
#define CAPKM_LEDGER_F_SHARED		(1u << 0)
/*
 * It is the domain's: host bytes that windows retain are charged to it. Only for the
 * domain's owner; a domain has one at most.
 */
#define CAPKM_LEDGER_F_DOMAIN		(1u << 1)
#define CAPKM_LEDGER_F_ALL		(3u << 0)

/**
 * struct capkm_ledger_create - ioctl(CAPKM_IOC_LEDGER_CREATE): a budget
 * @size: sizeof(struct capkm_ledger_create)
 * @flags: CAPKM_LEDGER_F_*
 * @per_step: what it may be charged with in one step. A limit is reached, never
 *	passed; U64_MAX is as good as none
 * @cumulative: what it may be charged with in all
 * @inherited: what it is charged with from the start, in no step
 * @label_uptr: optional label
 * @label_len: bytes of the label, at most %CAPKM_LABEL_MAX
 * @on_limit: enum capkm_on_limit
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @__reserved: must be 0
 * @out_ledger: id, never reused in the domain
 *
 * The ledger is the domain's, and the session its holder. It outlives the holder:
 * then it keeps what it was charged with until it is adopted (LEDGER_ADOPT). Nothing
 * that was charged is ever given back. Needs right w. Errors: EINVAL (@on_limit),
 * EMSGSIZE, EDQUOT (CAPKM_LIMIT_LEDGER_*: on that axis @inherited is more than
 * @cumulative, or than the administrator allows), ENOSPC (ledgers of the domain),
 * EPERM and EEXIST (%CAPKM_LEDGER_F_DOMAIN), ENOMEM.
 */
struct capkm_ledger_create {
	__u32 size;
	__u32 flags;
	struct capkm_usage per_step;
	struct capkm_usage cumulative;
	struct capkm_usage inherited;
	__aligned_u64 label_uptr;
	__u32 label_len;
	__u32 on_limit;
	__u32 out_limit;
	__u32 __reserved;
	__aligned_u64 out_ledger;
};
#define CAPKM_IOC_LEDGER_CREATE _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_CREATE)

/**
 * struct capkm_ledger_begin_step - ioctl(CAPKM_IOC_LEDGER_BEGIN_STEP)
 * @size: sizeof(struct capkm_ledger_begin_step)
 * @flags: must be 0
 * @ledger: a ledger that the session holds
 * @out_steps: steps that have begun, this one included
 *
 * From now on nothing has been charged in this step; what has been in all stays.
 * What is reserved before the first step counts as one. Needs right w. Errors:
 * ENOENT, EPERM (another session holds it, or none).
 */
struct capkm_ledger_begin_step {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
	__aligned_u64 out_steps;
};
#define CAPKM_IOC_LEDGER_BEGIN_STEP _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_BEGIN_STEP)

/**
 * struct capkm_ledger_reserve - ioctl(CAPKM_IOC_LEDGER_RESERVE)
 * @size: sizeof(struct capkm_ledger_reserve)
 * @flags: must be 0
 * @ledger: a ledger that the session holds, or one of %CAPKM_LEDGER_F_SHARED
 * @usage: what the observation will cost, at most
 * @out_result: %CAPKM_CLEAN (charged), or, by the ledger's enum capkm_on_limit,
 *	%CAPKM_REFUSED or %CAPKM_SKIPPED: it does not fit and nothing is charged
 * @out_axis: enum capkm_axis: the first on which it does not fit
 * @out_bound: enum capkm_bound: the first that it does not fit into
 * @__reserved: must be 0
 * @out_used: what is used of that bound on that axis; of %CAPKM_BOUND_DOMAIN, the
 *	larger of what @ledger and what all of them together were charged with
 * @out_most: the bound
 *
 * All axes are charged or none. To be called before anything of the observation
 * is kept; whatever becomes of it, the charge stays. Needs right w. Errors: ENOENT,
 * EPERM (another session holds it, or none), EOVERFLOW (a sum, on any axis).
 */
struct capkm_ledger_reserve {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
	struct capkm_usage usage;
	__u32 out_result;
	__u32 out_axis;
	__u32 out_bound;
	__u32 __reserved;
	__aligned_u64 out_used;
	__aligned_u64 out_most;
};
#define CAPKM_IOC_LEDGER_RESERVE _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_RESERVE)

/**
 * struct capkm_ledger_query - ioctl(CAPKM_IOC_LEDGER_QUERY)
 * @size: sizeof(struct capkm_ledger_query)
 * @flags: CAPKM_LEDGER_QUERY_F_*
 * @ledger: any ledger of the domain
 * @out_ledger: its id
 * @out_holder: session that holds it, 0 if none does any more
 * @out_parent: ledger that it was forked from, 0 if none
 * @out_flags: CAPKM_LEDGER_F_*
 * @out_on_limit: enum capkm_on_limit
 * @out_per_step: what it may be charged with in one step
 * @out_cumulative: what it may be charged with in all
 * @out_inherited: what it was charged with from the start
 * @out_step: what it has been charged with in this step
 * @out_total: what it has been charged with in all, @out_inherited included
 * @out_steps: steps that have begun
 * @out_reserved: reservations that were charged
 * @out_refused: reservations that were refused or skipped
 * @out_created_ns: CLOCK_REALTIME, nanoseconds
 * @out_label: NUL-terminated, empty if it has none
 *
 * Needs right r. Errors: ENOENT.
 */
struct capkm_ledger_query {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
	__aligned_u64 out_ledger;
	__aligned_u64 out_holder;
	__aligned_u64 out_parent;
	__u32 out_flags;
	__u32 out_on_limit;
	struct capkm_usage out_per_step;
	struct capkm_usage out_cumulative;
	struct capkm_usage out_inherited;
	struct capkm_usage out_step;
	struct capkm_usage out_total;
	__aligned_u64 out_steps;
	__aligned_u64 out_reserved;
	__aligned_u64 out_refused;
	__aligned_u64 out_created_ns;
	__u8 out_label[64];
};
/* The one with the lowest id that is at least @ledger, to walk over all of them. */
#define CAPKM_LEDGER_QUERY_F_NEXT	(1u << 0)
#define CAPKM_LEDGER_QUERY_F_ALL	(1u << 0)
#define CAPKM_IOC_LEDGER_QUERY _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_QUERY)

/**
 * struct capkm_ledger_fork - ioctl(CAPKM_IOC_LEDGER_FORK)
 * @size: sizeof(struct capkm_ledger_fork)
 * @flags: CAPKM_LEDGER_F_*, of the new one
 * @ledger: a ledger that the session holds
 * @per_step: of the new one
 * @cumulative: of the new one, what it inherits included
 * @label_uptr: optional label
 * @label_len: bytes of the label, at most %CAPKM_LABEL_MAX
 * @on_limit: enum capkm_on_limit
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @__reserved: must be 0
 * @out_ledger: id of the new one, which the session holds
 * @out_inherited: what @ledger has been charged with in all: so has the new one
 *
 * From now on the two know nothing of each other. Needs right w. Errors: those of
 * LEDGER_CREATE; ENOENT, EPERM (another session holds @ledger, or none).
 */
struct capkm_ledger_fork {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
	struct capkm_usage per_step;
	struct capkm_usage cumulative;
	__aligned_u64 label_uptr;
	__u32 label_len;
	__u32 on_limit;
	__u32 out_limit;
	__u32 __reserved;
	__aligned_u64 out_ledger;
	struct capkm_usage out_inherited;
};
#define CAPKM_IOC_LEDGER_FORK _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_FORK)

/**
 * struct capkm_ledger_adopt - ioctl(CAPKM_IOC_LEDGER_ADOPT)
 * @size: sizeof(struct capkm_ledger_adopt)
 * @flags: must be 0
 * @ledger: a ledger whose holder has gone, or has no living client left
 *
 * The session holds it from now on, with all that it was charged with, also in the
 * step that it is in. Only for the domain's owner. One that the session holds
 * already stays as it is. Needs right w. Errors: ENOENT, EPERM (not the owner), EBUSY
 * (another session holds it).
 */
struct capkm_ledger_adopt {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
};
#define CAPKM_IOC_LEDGER_ADOPT _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_ADOPT)

/**
 * struct capkm_ledger_destroy - ioctl(CAPKM_IOC_LEDGER_DESTROY)
 * @size: sizeof(struct capkm_ledger_destroy)
 * @flags: must be 0
 * @ledger: a ledger that the session holds
 *
 * What it was charged with is forgotten, but in the sum of the domain. Needs right w. Errors:
 * ENOENT, EPERM (another session holds it, or none: adopt it first).
 */
struct capkm_ledger_destroy {
	__u32 size;
	__u32 flags;
	__aligned_u64 ledger;
};
#define CAPKM_IOC_LEDGER_DESTROY _IO(CAPKM_TYPE, CAPKM_NR_LEDGER_DESTROY)

/**
 * struct capkm_element - one operation of a SUBMIT
 * @nr: enum capkm_nr: any but SUBMIT, SESSION_JOIN, WINDOW_WAIT and DOMAIN_*
 * @__reserved: must be 0
 * @arg_uptr: its struct, in which its answer is written as if it had been called
 */
struct capkm_element {
	__u32 nr;
	__u32 __reserved;
	__aligned_u64 arg_uptr;
};

/*
 * In the struct of an element, instead of an id: the one that element @element, in front
 * of it, has given. Also as the buffer of a claim.
 */
#define CAPKM_REF_FIRST		(1ULL << 62)
#define CAPKM_REF(element)	(CAPKM_REF_FIRST + (element))

/**
 * struct capkm_submit - ioctl(CAPKM_IOC_SUBMIT): many operations in one call
 * @size: sizeof(struct capkm_submit)
 * @flags: must be 0
 * @elements_uptr: array of struct capkm_element, done one after the other
 * @elements_len: its length, at most %CAPKM_ELEMENTS_MAX
 * @from: the first that is done. Those in front of it were done by an earlier SUBMIT,
 *	with the answers that are in their structs, and are only referred to
 * @out_done: the elements in front of this one are done, those before @from included.
 *	Less than @elements_len if it has stopped there: because of @out_error or, if
 *	that is 0, because that element (SCOPE_ENTER, GRAPH_REPLAY_BEGIN) answers
 *	%CAPKM_IN_PROGRESS. The rest is left alone
 * @out_error: the errno with which it has stopped, 0 if there is none
 * @out_error_index: unless @out_error is 0: which element is at fault; also when the
 *	call fails with ENOTTY, EOPNOTSUPP, EINVAL or EFAULT because of one
 * @__reserved: must be 0
 *
 * Each element is what a call of its own would be: it happens or changes nothing, and
 * what is refused of it says more in its own struct (``out_error_index``, ``out_state``,
 * ``out_limit``). The elements together are not: others may come in between, and what is
 * done stays done. To go on, call again with @from at @out_done.
 *
 * An id of %CAPKM_REF is that of the answer that has the kind of the id, of the element
 * that it names: ``out_stream``, ``out_buffer``, ``out_window``, ``out_scope``,
 * ``out_graph``, ``out_failure``, ``out_ledger``; in GRAPH_REPLAY_END the graph of a
 * GRAPH_REPLAY_BEGIN. The struct keeps the reference. SCOPE_EXIT and GRAPH_REPLAY_END
 * of what was skipped or refused, and so not entered, do nothing: all that they answer
 * is 0. Any other reference to what was not given (the graph of a window that was
 * refused) is ENOENT; one to an element that is not in front, or never gives such an
 * id, EINVAL.
 *
 * What an element reads is read before those in front of it have written their answers:
 * they meet by references, not in memory. If an answer cannot be written when all
 * is done (@out_error EFAULT), the element is done, and those behind it may be: @out_done
 * says which.
 *
 * Needs what its elements need. Errors, with which nothing is done: ENOTTY (no such
 * operation), EOPNOTSUPP (one that cannot be here), EINVAL (@from; an element in front
 * of it that was not done so), EFAULT, EMSGSIZE, ENOMEM.
 */
struct capkm_submit {
	__u32 size;
	__u32 flags;
	__aligned_u64 elements_uptr;
	__u32 elements_len;
	__u32 from;
	__u32 out_done;
	__u32 out_error;
	__u32 out_error_index;
	__u32 __reserved;
};
#define CAPKM_IOC_SUBMIT _IO(CAPKM_TYPE, CAPKM_NR_SUBMIT)

/**
 * DOC: The fast path
 *
 * A session with one client can have three mappings, by which a scope over clean,
 * private buffers is entered and left, and such buffers are checked, without a call.
 * Documentation/design/fastpath.rst has the protocol. SCOPE_TABLE makes them and says
 * how large they are; mmap() of the descriptor, shared, at the offsets below maps them:
 *
 *  - %CAPKM_MAP_DOMAIN, read-only: struct capkm_domain_page
 *  - %CAPKM_MAP_STATUS, read-only: struct capkm_status_page, and from
 *    %CAPKM_STATUS_BUFFERS on a struct capkm_status_buffer for each buffer index
 *  - %CAPKM_MAP_TABLE, read-write: %CAPKM_TABLE_ENTRIES struct capkm_table_entry; from
 *    %CAPKM_TABLE_SLOTS on a struct capkm_table_slot for each slot number; from
 *    %CAPKM_TABLE_BUFFERS on a struct capkm_table_buffer for each buffer index
 *
 * Index of a buffer: its id modulo %CAPKM_FAST_BUFFERS. Its word while it is fast:
 * capkm_fast_word(). Whatever else is found there means "ask by a call". What stands in
 * the table is the client's own and is trusted by nobody: garbage there can harm its own
 * scopes only.
 *
 * None of them is inherited over fork(), unless the program undoes that (MADV_DOFORK), to
 * its own harm.
 */
#define CAPKM_MAP_DOMAIN	0ULL
#define CAPKM_MAP_STATUS	(1ULL << 30)
#define CAPKM_MAP_TABLE		(2ULL << 30)

#define CAPKM_FAST_BUFFERS	(1u << 18)	/* buffer indices */
#define CAPKM_FAST_SLOTS	128u		/* slot numbers */
#define CAPKM_FAST_CLAIMS	16u		/* claims of one scope */
#define CAPKM_TABLE_ENTRIES	64u		/* scopes open at once */

/* Fast exits between two sequences of the domain have those in between. */
#define CAPKM_SEQUENCE_STEP	4096u

/* Bit 0 says that it is a word; the rest tells one buffer of an index from the next. */
static inline __u32 capkm_fast_word(__u64 buffer)
{
	return (__u32)(buffer / CAPKM_FAST_BUFFERS) << 8 | 1u;
}

/* Beyond it a buffer is never fast: its word would come round. */
#define CAPKM_FAST_BUFFER_MAX	((__u64)CAPKM_FAST_BUFFERS << 24)

/**
 * struct capkm_domain_page - what all sessions of the domain see
 * @sequence: the domain's sequence; a multiple of %CAPKM_SEQUENCE_STEP
 * @events: number of the last event
 * @faulted: devices of living clients that have faulted and were not renewed
 * @orphans: windows whose client has ended
 * @destroyed: 1 once the domain was destroyed
 */
struct capkm_domain_page {
	__aligned_u64 sequence;
	__aligned_u64 events;
	__aligned_u64 orphans;
	__u32 faulted;
	__u32 destroyed;
};

/**
 * struct capkm_status_slot - a slot of the client
 * @settled: exits up to this sequence need no confirmation any more
 * @state: enum capkm_window_state, as STREAM_QUERY gives it
 * @__reserved: 0
 */
struct capkm_status_slot {
	__aligned_u64 settled;
	__u32 state;
	__u32 __reserved;
};

/**
 * enum capkm_fast_transition - what takes buffers, or the session, out of the fast state
 * @CAPKM_FAST_NAMED: a call names the buffer
 * @CAPKM_FAST_DUMPED: a dump of the domain shows it
 * @CAPKM_FAST_SWEPT: it is one of all that the session holds (a fault, a join, an end)
 * @CAPKM_FAST_CLOSED: the session does not hold it any more
 * @CAPKM_FAST_BESIDE: a scope that became the kernel's writes to it, too
 * @CAPKM_FAST_LEFT: SCOPE_EXIT of a fast scope; of one entry
 * @CAPKM_FAST_WINDOW: the session: a window is prepared
 * @CAPKM_FAST_FAULT: the session: a device of its client has faulted
 * @CAPKM_FAST_JOINED: the session: a second client joins it, for good
 * @CAPKM_FAST_ENDED: the session: its client has ended, or its domain, for good
 * @CAPKM_FAST_MISSED: none of these: a mistake of the kernel
 * @CAPKM_FAST_TRANSITIONS: how many there are
 */
enum capkm_fast_transition {
	CAPKM_FAST_NAMED	= 0,
	CAPKM_FAST_DUMPED	= 1,
	CAPKM_FAST_SWEPT	= 2,
	CAPKM_FAST_CLOSED	= 3,
	CAPKM_FAST_BESIDE	= 4,
	CAPKM_FAST_LEFT		= 5,
	CAPKM_FAST_WINDOW	= 6,
	CAPKM_FAST_FAULT	= 7,
	CAPKM_FAST_JOINED	= 8,
	CAPKM_FAST_ENDED	= 9,
	CAPKM_FAST_MISSED	= 10,
	CAPKM_FAST_TRANSITIONS
};

/**
 * struct capkm_status_page - the state of the session
 * @mode: 1 while scopes may be fast, else 0
 * @streams: changes when a stream of the session is destroyed
 * @migrated: fast scopes that became the kernel's
 * @revoked: of those that were about to enter, how many were never entered
 * @dropped: of these: they name what the session does not hold
 * @__reserved: 0
 * @transitions: how often each enum capkm_fast_transition has happened
 * @slot: by slot number
 */
struct capkm_status_page {
	__u32 mode;
	__u32 streams;
	__aligned_u64 migrated;
	__aligned_u64 revoked;
	__aligned_u64 dropped;
	__aligned_u64 __reserved[4];
	__aligned_u64 transitions[16];
	struct capkm_status_slot slot[CAPKM_FAST_SLOTS];
};

/**
 * struct capkm_status_buffer - a buffer of the session, by index
 * @bytes: its size
 * @word: capkm_fast_word() while it is private, clean, and in no window or graph, and no
 *	scope that the kernel knows of is open on it
 * @__reserved: 0
 */
struct capkm_status_buffer {
	__aligned_u64 bytes;
	__u32 word;
	__u32 __reserved;
};

/* Low bits of capkm_table_entry.state; the rest counts how often it became ENTERED. */
#define CAPKM_ENTRY_FREE	0u
#define CAPKM_ENTRY_ENTERED	1u	/* a fast scope, unless it is REVOKED */
#define CAPKM_ENTRY_MIGRATED	2u	/* entered, and left by SCOPE_EXIT: the kernel knows it */
#define CAPKM_ENTRY_REVOKED	3u	/* was never entered */
#define CAPKM_ENTRY_DRY		4u	/* what it had was used up: to be filled by SCOPE_TABLE */
#define CAPKM_ENTRY_STATE	7u
#define CAPKM_ENTRY_STEP	8u

/**
 * struct capkm_table_entry - a scope, in the hands of one thread at a time
 * @state: CAPKM_ENTRY_*, and a count
 * @stream: logical stream of the work
 * @entered: scopes so far, for statistics
 * @slot: slot number
 * @claims: of @claim
 * @label: of the work, bytes beyond it are 0
 * @claim: what it is going to write
 * @__reserved: 0
 */
struct capkm_table_entry {
	__aligned_u64 state;
	__aligned_u64 stream;
	__aligned_u64 entered;
	__u32 slot;
	__u32 claims;
	__aligned_u64 label[(CAPKM_LABEL_MAX + 1) / 8];
	struct capkm_claim claim[CAPKM_FAST_CLAIMS];
	__aligned_u64 __reserved[4];
};

/**
 * struct capkm_table_slot - what fast scopes have left on a slot
 * @sequence: of the last exit that is not known to be finished
 * @first: of the first such exit after capkm_status_slot.settled
 * @finished: of the last exit of work that was finished then
 * @__reserved: 0
 */
struct capkm_table_slot {
	__aligned_u64 sequence;
	__aligned_u64 first;
	__aligned_u64 finished;
	__aligned_u64 __reserved[5];
};

/**
 * struct capkm_table_buffer - what fast scopes do to a buffer, by index
 * @in_flight: 0, or 1 and the number of the entry whose scope writes to it
 * @__reserved: 0
 * @touched: sequence of the last exit
 * @dirty: sequence of the last exit that is not known to be finished
 * @__reserved2: 0
 */
struct capkm_table_buffer {
	__u32 in_flight;
	__u32 __reserved;
	__aligned_u64 touched;
	__aligned_u64 dirty;
	__aligned_u64 __reserved2;
};

#define CAPKM_STATUS_BUFFERS	4096u
#define CAPKM_STATUS_BYTES						\
	(CAPKM_STATUS_BUFFERS +						\
	 CAPKM_FAST_BUFFERS * sizeof(struct capkm_status_buffer))
#define CAPKM_TABLE_SLOTS						\
	(CAPKM_TABLE_ENTRIES * sizeof(struct capkm_table_entry))
#define CAPKM_TABLE_BUFFERS						\
	(CAPKM_TABLE_SLOTS + CAPKM_FAST_SLOTS * sizeof(struct capkm_table_slot))
#define CAPKM_TABLE_BYTES						\
	(CAPKM_TABLE_BUFFERS +						\
	 CAPKM_FAST_BUFFERS * sizeof(struct capkm_table_buffer))

/*
 * The id of a fast scope, which SCOPE_EXIT takes, too: this bit, the state of its entry
 * above its low bits, and in the lowest six the number of the entry.
 */
#define CAPKM_SCOPE_FAST	(1ULL << 63)

static inline __u64 capkm_fast_scope(__u64 state, __u32 entry)
{
	return CAPKM_SCOPE_FAST | state / CAPKM_ENTRY_STEP * CAPKM_TABLE_ENTRIES | entry;
}

/**
 * struct capkm_scope_table - ioctl(CAPKM_IOC_SCOPE_TABLE)
 * @size: sizeof(struct capkm_scope_table)
 * @flags: CAPKM_SCOPE_TABLE_F_*, CAPKM_PLACE_F_SLOT
 * @place: with %CAPKM_SCOPE_TABLE_F_SLOT: stream and slot, else all zero
 * @entry: with %CAPKM_SCOPE_TABLE_F_ENTRY: number of an entry that is DRY, or
 *	%CAPKM_ENTRY_NEW; else 0
 * @out_entry: with %CAPKM_SCOPE_TABLE_F_ENTRY: number of an entry that is FREE, and the
 *	caller's for good
 * @out_slot: with %CAPKM_SCOPE_TABLE_F_SLOT: number of the slot
 * @out_streams: with %CAPKM_SCOPE_TABLE_F_SLOT: capkm_status_page.streams; while that
 *	stays, so does the answer
 * @out_limit: on EDQUOT and ENOSPC: enum capkm_limit
 * @__reserved: must be 0
 *
 * Makes the session's scope table, so that buffers that are created from now on can be
 * fast; also without a flag. What a scope in the entry will need if it is torn is paid
 * here. Needs right w. Errors: EOPNOTSUPP (the session has, or had, a second client),
 * EINVAL (the entry is not DRY), EBUSY (all entries or slot numbers are taken), for the
 * slot ENOENT, EPERM and EINVAL as SCOPE_ENTER, EDQUOT (devices of one client), ENOSPC
 * (ranges of the domain), ENOMEM.
 */
struct capkm_scope_table {
	__u32 size;
	__u32 flags;
	struct capkm_place place;
	__u32 entry;
	__u32 out_entry;
	__u32 out_slot;
	__u32 out_streams;
	__u32 out_limit;
	__u32 __reserved;
};
#define CAPKM_SCOPE_TABLE_F_ENTRY	(1u << 0)
#define CAPKM_SCOPE_TABLE_F_SLOT	(1u << 1)
#define CAPKM_SCOPE_TABLE_F_ALL		(CAPKM_PLACE_F_SLOT | 3u)
#define CAPKM_ENTRY_NEW			(~0u)
#define CAPKM_IOC_SCOPE_TABLE _IO(CAPKM_TYPE, CAPKM_NR_SCOPE_TABLE)

/**
 * enum capkm_event_type - what has happened in the domain
 * @CAPKM_EVENT_WINDOW_PREPARED: a window was prepared
 * @CAPKM_EVENT_WINDOW_BEGUN: it records
 * @CAPKM_EVENT_WINDOW_DOOMED: its first failure, which may be that of its refusal;
 *	it cannot be sealed any more
 * @CAPKM_EVENT_WINDOW_SEALED: it became @graph, or a part of its parent
 * @CAPKM_EVENT_WINDOW_REFUSED: refused or aborted, @kind says why
 * @CAPKM_EVENT_WINDOW_ABANDONED: abandoned
 * @CAPKM_EVENT_WINDOW_ORPHANED: its client ended
 * @CAPKM_EVENT_CLIENT_JOINED: a second client of a session
 * @CAPKM_EVENT_CLIENT_ENDED: a client ended; @count: scopes and replays torn
 * @CAPKM_EVENT_DEVICE_FAULTED: a client's context is lost, @failure
 * @CAPKM_EVENT_CONTEXT_RENEWED: it has a new one
 * @CAPKM_EVENT_FAILURE_MINTED: a failure entered the error graph; only for a
 *	session that asked for it
 * @CAPKM_EVENT_FAILURE_PRUNED: a failure left the error graph; the same
 * @CAPKM_EVENT_LEDGER_REFUSED: a reservation did not fit into @ledger, by @axis and
 *	@bound, the first one of a step; those after it only count there
 */
enum capkm_event_type {
	CAPKM_EVENT_WINDOW_PREPARED	= 1,
	CAPKM_EVENT_WINDOW_BEGUN	= 2,
	CAPKM_EVENT_WINDOW_DOOMED	= 3,
	CAPKM_EVENT_WINDOW_SEALED	= 4,
	CAPKM_EVENT_WINDOW_REFUSED	= 5,
	CAPKM_EVENT_WINDOW_ABANDONED	= 6,
	CAPKM_EVENT_WINDOW_ORPHANED	= 7,
	CAPKM_EVENT_CLIENT_JOINED	= 8,
	CAPKM_EVENT_CLIENT_ENDED	= 9,
	CAPKM_EVENT_DEVICE_FAULTED	= 10,
	CAPKM_EVENT_CONTEXT_RENEWED	= 11,
	CAPKM_EVENT_FAILURE_MINTED	= 12,
	CAPKM_EVENT_FAILURE_PRUNED	= 13,
	CAPKM_EVENT_LEDGER_REFUSED	= 14,
};

/**
 * struct capkm_event - what read() on the session gives, one or more of them
 * @size: sizeof(struct capkm_event); the next one starts so many bytes further
 * @type: enum capkm_event_type
 * @number: of the event in its domain, from 1 on, without gaps
 * @lost: events before this one that the session would have got, and that were
 *	overwritten before it read them
 * @time_ns: CLOCK_REALTIME, nanoseconds
 * @sequence: the domain's sequence
 * @session: session of the client
 * @stream: owner stream of the window; stream of the failure
 * @window: window, 0 if none
 * @graph: graph, 0 if none
 * @failure: failure, 0 if none
 * @count: see the type, else 0
 * @kind: enum capkm_kind of the failure
 * @pid: process of the client, in the reader's pid namespace; 0 if not visible
 * @device: UUID of the slot or device
 * @ledger: ledger, 0 if none
 * @axis: enum capkm_axis, with @ledger
 * @bound: enum capkm_bound, with @ledger
 *
 * A session reads what has happened since it was attached. read() needs right r
 * and a client of the session, takes whole events only (EINVAL if the buffer is
 * too small for one), waits for the first unless the file is O_NONBLOCK
 * (EAGAIN), and returns 0 when the domain was destroyed. Other errors: ENOTCONN,
 * EACCES, EPERM, EFAULT, EINTR, ECANCELED (the client has ended). poll() says
 * EPOLLIN while there is something to read, EPOLLHUP when the domain was
 * destroyed, and EPOLLERR before the session is attached: add it to an epoll set
 * afterwards.
 */
struct capkm_event {
	__u32 size;
	__u32 type;
	__aligned_u64 number;
	__aligned_u64 lost;
	__aligned_u64 time_ns;
	__aligned_u64 sequence;
	__aligned_u64 session;
	__aligned_u64 stream;
	__aligned_u64 window;
	__aligned_u64 graph;
	__aligned_u64 failure;
	__aligned_u64 count;
	__u32 kind;
	__u32 pid;
	__u8 device[16];
	__aligned_u64 ledger;
	__u32 axis;
	__u32 bound;
};

#endif /* _UAPI_LINUX_CAPKM_H */
