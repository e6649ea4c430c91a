/* SPDX-License-Identifier: MIT */
/*
 * libcapkm: capture windows and the error graph of capkm.
 *
 * The structs of the ABI (struct capkm_claim, struct capkm_report, the queries)
 * and their enums come from linux/capkm.h and mean here what they mean there.
 */
#ifndef CAPKM_CAPKM_H
#define CAPKM_CAPKM_H

#include <linux/capkm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAPKM_API __attribute__((visibility("default")))

/**
 * DOC: Laws of the library
 *
 * Return: a function returns 0 or a negative errno, and does not set errno. An
 * answer to a question (tainted, skipped, refused) is not an error: the call
 * returns 0 and gives a result. Two functions that do a whole job, capkm_read()
 * and capkm_window_close(), turn such an answer into -ESTALE. Every function
 * may return, beside what it lists, what linux/capkm.h says of all operations.
 *
 * Errors: the last parameter, struct capkm_error, may be NULL. It is filled
 * when the function does not return 0, and left alone otherwise.
 *
 * Threads: every function may be called by any number of threads at once on
 * the same handle, except capkm_close(), which must be the last. A struct
 * capkm_scope and a struct capkm_write_set are used by one thread at a time,
 * not always the same.
 *
 * Fork: a handle belongs to the process that opened it. In a child every call
 * on an inherited handle is -ECANCELED and changes nothing; capkm_close() there
 * gives back the child's memory and file descriptor and ends nothing. The child
 * opens a handle of its own or, on the kernel, becomes a client of the same
 * session with capkm_join(). An inherited embedded handle stays -ECANCELED.
 * What returns no error (capkm_authority(), the ids, capkm_write_set_claims(),
 * capkm_write_set_put()) tells in a child what the parent's handle knew, and
 * capkm_fd() gives the descriptor that was inherited. A handle does not survive
 * exec; a descriptor that is left open over it can be given to capkm_open_fd().
 * Every descriptor of the library is close-on-exec.
 *
 * Growth: option structs and struct capkm_error begin with size_t sz, set by
 * CAPKM_OPTS(). A library that does not know the end of a larger struct
 * accepts it if that end is zero, and is -E2BIG else. NULL options are all 0.
 *
 * Structs of the ABI: functions that end in _query, and capkm_window_take(),
 * use the ABI's struct: the caller sets size and what it asks, and finds the
 * answer in the members out_.
 *
 * Texts: labels, reasons and modes may be NULL, and are cut at the length that
 * the ABI allows.
 */

/*
 * The initialiser of a struct that begins with sz; in C members may follow:
 *
 *	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
 *	struct capkm_cause why = CAPKM_OPTS(struct capkm_cause, .code = rc);
 */
#ifdef __cplusplus
#define CAPKM_OPTS(type) capkm_opts_of<type>()
#else
#define CAPKM_OPTS(type, ...) { .sz = sizeof(type), __VA_ARGS__ }
#endif

/* Version of the library that runs, such as "0.1.0". */
CAPKM_API const char *capkm_version(void);

/* errors */

#define CAPKM_NO_INDEX	UINT32_MAX

/**
 * struct capkm_error - why a call was refused
 * @sz: sizeof(struct capkm_error), set by the caller
 * @err: the negative errno that was returned
 * @index: element of the array that is wrong (reads before writes), else
 *	%CAPKM_NO_INDEX
 * @failure: failure in the error graph behind it, 0 if there is none
 * @limit: enum capkm_limit that is reached (-EDQUOT, -ENOSPC) or may not be set
 *	so (capkm_domain_create()), else 0
 * @code: what a driver answered (a CUresult), else 0
 * @text: one line, or one for each of several reasons: the call, the element,
 *	what would be right. NUL-terminated
 */
struct capkm_error {
	size_t sz;
	int err;
	uint32_t index;
	uint64_t failure;
	uint32_t limit;
	int32_t code;
	char text[512];
};

/* Names for messages; never NULL, static. "unknown" for other values. */
CAPKM_API const char *capkm_result_name(uint32_t result);
CAPKM_API const char *capkm_kind_name(uint32_t kind);
CAPKM_API const char *capkm_state_name(uint32_t window_state);
CAPKM_API const char *capkm_event_name(uint32_t event_type);
CAPKM_API const char *capkm_limit_name(uint32_t limit);
CAPKM_API const char *capkm_axis_name(uint32_t axis);

/* handles */

struct capkm;

/* retry_ms: answer at once instead of waiting. */
#define CAPKM_RETRY_NONE	UINT32_MAX

/**
 * struct capkm_open_opts - for capkm_open() and capkm_open_fd()
 * @sz: sizeof(struct capkm_open_opts)
 * @flags: capkm_open_fd(): CAPKM_OPEN_OPTS_*; else must be 0
 * @retry_ms: how long calls on the handle wait for bytes that somebody else is
 *	writing, in milliseconds; 0 for 1000, %CAPKM_RETRY_NONE for not at all
 */
struct capkm_open_opts {
	size_t sz;
	uint32_t flags;
	uint32_t retry_ms;
};
/* The process does not become a client: it can only ask. */
#define CAPKM_OPEN_OPTS_NO_JOIN	(1u << 0)

/**
 * capkm_open() - opens a handle: one session, one domain for life
 * @path: a device node; "embedded:" for the engine inside this library, which
 *	all embedded handles of a process share and which dies with it; "auto:"
 *	for /dev/capkm or, where that cannot be opened, "embedded:". NULL is
 *	$CAPKM_DEVICE or, if that is not set, "/dev/capkm". The kernel is never
 *	replaced by the library unless "auto:" asks for it
 * @opts: options or NULL
 * @out: the handle; untouched on error
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -ENODEV, -ENXIO (no node, no module), -EACCES,
 * -EPROTONOSUPPORT (library and kernel module do not fit; the text names both
 * versions), -ENOTTY (not a capkm device), -EOPNOTSUPP (built without the
 * engine), -EMFILE, -ENFILE, -ENOMEM, -EINVAL, -E2BIG
 */
CAPKM_API int capkm_open(const char *path, const struct capkm_open_opts *opts,
			 struct capkm **out, struct capkm_error *err);

/**
 * capkm_open_fd() - makes a handle from a descriptor of the kernel module
 * @fd: descriptor that was inherited or received; it stays the caller's, the
 *	handle has a close-on-exec duplicate
 * @opts: options or NULL. Unless %CAPKM_OPEN_OPTS_NO_JOIN is set the process
 *	becomes a client of the session, see capkm_join()
 * @out: the handle; untouched on error
 * @err: why not, or NULL
 *
 * Without joining only those calls work that ask about what has an id: queries,
 * checks, capkm_window_wait().
 *
 * Return: 0; -EBADF, -ENOTTY (not a capkm device), -EPROTONOSUPPORT, -EMFILE,
 * -ENOMEM, -EINVAL, -E2BIG; of joining, see capkm_join()
 */
CAPKM_API int capkm_open_fd(int fd, const struct capkm_open_opts *opts,
			    struct capkm **out, struct capkm_error *err);

/**
 * capkm_join() - makes the calling process a client of the handle's session
 * @c: handle that was inherited through fork, or made without joining; one that
 *	is a client already stays one
 * @err: why not, or NULL
 *
 * Afterwards the handle is the process' own: it has the session's rights and
 * buffers, and slots, scopes, windows and graphs of its own. With a second
 * client all buffers of the session become shared. No other thread of the
 * process may use the handle meanwhile.
 *
 * Return: 0; -ECANCELED (embedded: a session cannot be shared with another
 * process; or the domain was destroyed, or the client has ended), -EDQUOT
 * (clients of the session), -ENOSPC (ranges of the domain; the other client
 * should confirm first), -ENOMEM
 */
CAPKM_API int capkm_join(struct capkm *c, struct capkm_error *err);

/**
 * capkm_close() - closes the handle and ends its session
 * @c: handle or NULL
 *
 * What is open ends as if the process had died: scopes are torn down, windows
 * orphaned. Of a session whose descriptor other processes have too, only the
 * descriptor is closed: the session ends with the last one, this client with
 * its process. No other call on @c may run or follow.
 */
CAPKM_API void capkm_close(struct capkm *c);

/**
 * enum capkm_authority - who answers
 * @CAPKM_AUTHORITY_KERNEL: the kernel module: it outlives the process, and
 *	processes share it
 * @CAPKM_AUTHORITY_EMBEDDED: the engine in this process
 */
enum capkm_authority {
	CAPKM_AUTHORITY_KERNEL		= 1,
	CAPKM_AUTHORITY_EMBEDDED	= 2,
};
CAPKM_API enum capkm_authority capkm_authority(const struct capkm *c);

/**
 * capkm_info() - what the authority says of itself
 * @c: handle
 * @info: filled up to info->size, which the caller sets, with the array for
 *	limits of a new domain, if it wants them
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_info(const struct capkm *c, struct capkm_info *info,
			 struct capkm_error *err);

/**
 * capkm_limit() - how many of something there may be
 * @c: handle
 * @limit: enum capkm_limit
 * @value: the limit of the handle's domain or, while it has none, of a new one
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (no such limit), -ENOMEM
 */
CAPKM_API int capkm_limit(struct capkm *c, uint32_t limit, uint64_t *value,
			  struct capkm_error *err);

/*
 * The descriptor behind the handle, which keeps it; -EOPNOTSUPP: embedded. It
 * can be waited for (EPOLLIN: there are events), duplicated, and sent.
 */
CAPKM_API int capkm_fd(const struct capkm *c);

/**
 * capkm_call() - one operation of the ABI as it is
 * @c: handle
 * @nr: enum capkm_nr
 * @arg: its struct
 *
 * Everything else in this library is made of it. Starts again after a signal,
 * but for %CAPKM_NR_WINDOW_WAIT, which is -EINTR.
 *
 * Return: 0; what linux/capkm.h says of the operation
 */
CAPKM_API int capkm_call(struct capkm *c, unsigned int nr, void *arg);

/* domains */

/**
 * struct capkm_domain_opts - for capkm_domain_create(), _attach(), _open()
 * @sz: sizeof(struct capkm_domain_opts)
 * @flags: CAPKM_DOMAIN_OPTS_*
 * @mode: create: permission bits, 0 for 0600
 * @max_streams: slots per device of this session, 0 for 32
 * @backend: enum capkm_backend of this session
 * @domain: attach: id instead of a name, else 0
 * @owner_uid: attach: whose domain, with %CAPKM_DOMAIN_OPTS_OWNER
 * @limits_len: length of @limits
 * @limits: create: limits of the new domain that differ from those of
 *	capkm_info(); only an administrator may raise one
 */
struct capkm_domain_opts {
	size_t sz;
	uint32_t flags;
	uint32_t mode;
	uint32_t max_streams;
	uint32_t backend;
	uint64_t domain;
	uint32_t owner_uid;
	uint32_t limits_len;
	const struct capkm_limit_value *limits;
};
/* create: the domain lives without sessions, until it is destroyed */
#define CAPKM_DOMAIN_OPTS_PERSISTENT	(1u << 0)
/* attach: owner_uid's domain of that name, not the caller's */
#define CAPKM_DOMAIN_OPTS_OWNER		(1u << 1)
/* capkm_events_read() also gives failures that are minted and pruned */
#define CAPKM_DOMAIN_OPTS_FAILURE_EVENTS	(1u << 2)

/**
 * capkm_domain_create() - makes a domain and attaches the handle, for life
 * @c: handle that is not attached
 * @name: unique for the caller's user, at most %CAPKM_NAME_MAX bytes; or NULL
 * @opts: options or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -EEXIST, -EISCONN, -EINVAL, -EPERM (a limit may not be raised),
 * -EMSGSIZE, -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_domain_create(struct capkm *c, const char *name,
				  const struct capkm_domain_opts *opts,
				  struct capkm_error *err);

/**
 * capkm_domain_attach() - attaches the handle to a domain that exists, for life
 * @c: handle that is not attached
 * @name: name, or NULL with @opts->domain
 * @opts: options or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (also when only reports of it are left, or its mode does not let
 * this user in), -EACCES (that of the user's own does not), -EISCONN, -EINVAL, -ENOSPC
 * (too many sessions), -ENOMEM
 */
CAPKM_API int capkm_domain_attach(struct capkm *c, const char *name,
				  const struct capkm_domain_opts *opts,
				  struct capkm_error *err);

/**
 * capkm_domain_open() - attaches to the caller's domain of that name, or makes it
 * @c: handle that is not attached
 * @name: name; with NULL the domain is new and has none
 * @opts: options or NULL; not @opts->domain nor %CAPKM_DOMAIN_OPTS_OWNER. Mode,
 *	persistence and limits are for the one who makes it
 * @err: why not, or NULL
 *
 * Any number of processes may do so at once: they meet in one domain.
 *
 * Return: 0; -EACCES, -EISCONN, -EINVAL, -EDQUOT, -ENOSPC, -ENOMEM, -EAGAIN
 * (others made and destroyed it all the time)
 */
CAPKM_API int capkm_domain_open(struct capkm *c, const char *name,
				const struct capkm_domain_opts *opts,
				struct capkm_error *err);

/**
 * capkm_domain_query() - state, owner, counts, limits of the handle's domain
 * @c: attached handle
 * @query: size and the array for limits set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOTCONN, -EINVAL
 */
CAPKM_API int capkm_domain_query(struct capkm *c,
				 struct capkm_domain_query *query,
				 struct capkm_error *err);

/**
 * capkm_domain_destroy() - ends a domain
 * @c: handle, attached or not
 * @domain: id, 0 for the handle's own
 * @flags: 0 or %CAPKM_DOMAIN_DESTROY_F_FORCE
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM (not its owner), -EBUSY (other sessions are
 * attached, and @flags does not say that they do not matter)
 */
CAPKM_API int capkm_domain_destroy(struct capkm *c, uint64_t domain,
				   uint32_t flags, struct capkm_error *err);

/* Ids, 0 while the handle is not attached. */
CAPKM_API uint64_t capkm_domain_id(const struct capkm *c);
CAPKM_API uint64_t capkm_session_id(const struct capkm *c);

/* streams */

/**
 * struct capkm_where - a logical stream on a slot
 * @stream: logical stream; 0 for the current one of the calling thread
 * @device: UUID of the device, all zero for the host
 * @slot: index of the pooled stream, with %CAPKM_WHERE_SLOT; else it is @stream
 *	modulo the session's max_streams, and this must be 0
 * @flags: CAPKM_WHERE_*
 *
 * NULL is the current stream on the host.
 */
struct capkm_where {
	uint64_t stream;
	uint8_t device[16];
	uint32_t slot;
	uint32_t flags;
};
#define CAPKM_WHERE_SLOT	(1u << 0)

/**
 * capkm_stream_create() - a logical stream that no other session can use
 * @c: attached handle
 * @label: shown to readers, or NULL
 * @stream: its id, from %CAPKM_STREAM_FIRST up, never reused
 * @err: why not, or NULL
 *
 * Return: 0; -EACCES, -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_stream_create(struct capkm *c, const char *label,
				  uint64_t *stream, struct capkm_error *err);

/**
 * capkm_stream_destroy() - ends a logical stream
 * @c: attached handle
 * @stream: id of capkm_stream_create(), which is gone for good, or one of the
 *	caller's own, which may be used again; 0 for the current one
 * @windows: windows that were refused, or NULL
 * @err: why not, or NULL
 *
 * Windows that it owns and that are prepared, opening or recording are refused
 * (kind %CAPKM_KIND_ABORTED), slots that it joined to a window are let go, its
 * errors become shared. Its scopes stay open. It stays pinned where it is.
 *
 * Return: 0; -ENOENT, -EPERM (the stream is another session's), -EACCES
 */
CAPKM_API int capkm_stream_destroy(struct capkm *c, uint64_t stream,
				   uint32_t *windows, struct capkm_error *err);

/**
 * capkm_stream_query() - window, open scopes and sequence of a slot
 * @c: attached handle
 * @query: size, flags and place set by the caller; a place.stream of 0 becomes
 *	the current one
 * @err: why not, or NULL
 *
 * Return: 0; -EPERM, -EINVAL
 */
CAPKM_API int capkm_stream_query(struct capkm *c,
				 struct capkm_stream_query *query,
				 struct capkm_error *err);

/**
 * capkm_stream_current() - the calling thread's logical stream
 *
 * The one that capkm_stream_pin() named, else a small number of the thread's
 * own, below %CAPKM_STREAM_FIRST, which no other thread of the process has.
 *
 * Return: the id, never 0
 */
CAPKM_API uint64_t capkm_stream_current(void);

/**
 * capkm_stream_pin() - makes another stream the calling thread's current one
 * @stream: the stream, for work that moves between threads; 0 unpins
 *
 * Return: what was pinned before, 0 if nothing, to be pinned again afterwards
 */
CAPKM_API uint64_t capkm_stream_pin(uint64_t stream);

/* The calling thread goes back to its own stream. */
CAPKM_API void capkm_stream_unpin(void);

/* buffers */

/**
 * struct capkm_buffer_opts - for capkm_buffer_create()
 * @sz: sizeof(struct capkm_buffer_opts)
 * @device: UUID of the device, all zero for the host
 * @address: device address, opaque, shown to readers
 * @label: shown to readers, or NULL
 * @flags: CAPKM_BUFFER_CREATE_F_*
 * @__reserved: must be 0
 */
struct capkm_buffer_opts {
	size_t sz;
	uint8_t device[16];
	uint64_t address;
	const char *label;
	uint32_t flags;
	uint32_t __reserved;
};

/**
 * capkm_buffer_create() - registers one allocation
 * @c: attached handle
 * @bytes: its size, not 0
 * @opts: options or NULL
 * @buffer: its id, never reused
 * @err: why not, or NULL
 *
 * New memory is clean.
 *
 * Return: 0; -EINVAL, -EACCES, -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_buffer_create(struct capkm *c, uint64_t bytes,
				  const struct capkm_buffer_opts *opts,
				  uint64_t *buffer, struct capkm_error *err);

/**
 * capkm_buffer_export() - lets the other sessions of the domain open it
 * @c: attached handle
 * @buffer: a buffer that the session holds
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EACCES, -ENOSPC (ranges of the domain), -ENOMEM
 */
CAPKM_API int capkm_buffer_export(struct capkm *c, uint64_t buffer,
				  struct capkm_error *err);

/**
 * capkm_buffer_open() - takes a reference to an exported buffer
 * @c: attached handle
 * @buffer: id that another session exported
 * @bytes: its size, or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EACCES (not exported), -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_buffer_open(struct capkm *c, uint64_t buffer,
				uint64_t *bytes, struct capkm_error *err);

/**
 * capkm_buffer_close() - gives back one reference
 * @c: attached handle
 * @buffer: a buffer that the session holds
 * @err: why not, or NULL
 *
 * A buffer that nobody holds ends with its taint, as soon as no scope, window
 * or graph uses it.
 *
 * Return: 0; -ENOENT
 */
CAPKM_API int capkm_buffer_close(struct capkm *c, uint64_t buffer,
				 struct capkm_error *err);

/**
 * capkm_buffer_reset() - this memory serves something else now: sheds its taint
 * @c: attached handle
 * @buffer: a buffer that the session holds
 * @start: first byte
 * @end: first byte after the range
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EINVAL, -EBUSY (a scope or a replay writes these bytes),
 * -EACCES, -ENOMEM
 */
CAPKM_API int capkm_buffer_reset(struct capkm *c, uint64_t buffer,
				 uint64_t start, uint64_t end,
				 struct capkm_error *err);

/**
 * capkm_buffer_query() - state of a buffer, its ranges that are not clean, its writers
 * @c: attached handle
 * @query: size, buffer, from, skip and the arrays set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_buffer_query(struct capkm *c,
				 struct capkm_buffer_query *query,
				 struct capkm_error *err);

/* causes and answers */

/**
 * struct capkm_cause - why work failed, in the words of the caller
 * @sz: sizeof(struct capkm_cause)
 * @kind: enum capkm_kind up to %CAPKM_KIND_DRIVER; 0 for %CAPKM_KIND_GENERIC
 * @code: the caller's code (a CUresult, an errno)
 * @text: reason, or NULL
 * @stack: opaque blob, or NULL; used by capkm_scope_fail()
 * @stack_len: its bytes, at most %CAPKM_STACK_MAX
 * @flags: CAPKM_SCOPE_EXIT_F_COMPLETE for capkm_scope_fail() and
 *	capkm_graph_replay_fail(), else 0
 */
struct capkm_cause {
	size_t sz;
	uint32_t kind;
	int32_t code;
	const char *text;
	const void *stack;
	uint32_t stack_len;
	uint32_t flags;
};

/**
 * struct capkm_answer - the answer to a question
 * @sz: sizeof(struct capkm_answer)
 * @reports: array that the caller gives for reports, or NULL
 * @reports_len: its length
 * @out_reports: reports that there are; those beyond the array are lost
 * @out_result: enum capkm_result
 * @out_unconfirmed: of a check: claims with a byte that somebody wrote, or may have
 *	written, who has not been confirmed, if none is tainted. On buffers that only this
 *	session has they are counted by a check with %CAPKM_CHECK_F_CONFIRMED alone
 * @out_sequence: the domain's sequence, for capkm_check_unchanged()
 */
struct capkm_answer {
	size_t sz;
	struct capkm_report *reports;
	uint32_t reports_len;
	uint32_t out_reports;
	uint32_t out_result;
	uint32_t out_unconfirmed;
	uint64_t out_sequence;
};

/* confirmation, faults */

/**
 * capkm_stream_sequence() - sequence of a slot, to be sampled before it is synchronised
 * @c: attached handle
 * @where: slot, or NULL
 * @sequence: of the last scope or replay that was left on the slot
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_stream_sequence(struct capkm *c,
				    const struct capkm_where *where,
				    uint64_t *sequence,
				    struct capkm_error *err);

/**
 * capkm_sequence() - the domain's sequence, to be sampled before a device is synchronised
 * @c: attached handle
 * @sequence: of the domain
 * @err: why not, or NULL
 *
 * Return: 0
 */
CAPKM_API int capkm_sequence(struct capkm *c, uint64_t *sequence,
			     struct capkm_error *err);

/**
 * capkm_confirm() - the work of a slot is finished, up to a sequence
 * @c: attached handle
 * @where: slot, or NULL
 * @sequence: of capkm_stream_sequence() or scope->sequence of an exit, from
 *	before the stream was synchronised
 * @left: ranges of shared buffers that are left unconfirmed there, or NULL
 * @err: why not, or NULL
 *
 * Work that was left well without %CAPKM_SCOPE_EXIT_F_COMPLETE is unconfirmed
 * until this is called; if the process ends before, it is tainted
 * (%CAPKM_KIND_UNCONFIRMED). Does not fail for memory or limits.
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL (@sequence has not been reached), -EACCES
 */
CAPKM_API int capkm_confirm(struct capkm *c, const struct capkm_where *where,
			    uint64_t sequence, uint64_t *left,
			    struct capkm_error *err);

/**
 * capkm_confirm_other() - the same of another process
 * @c: attached handle
 * @client: whose slot it is: out_client of capkm_stream_query() there. The caller's own
 *	is fine
 * @where: slot, with %CAPKM_WHERE_SLOT
 * @sequence: of the other process, from before what the caller has seen to be finished
 * @left: ranges of shared buffers that are left unconfirmed there, or NULL
 * @err: why not, or NULL
 *
 * For who has seen it by an event of the driver that both processes have. Of another
 * process only what it wrote in exported buffers is confirmed.
 *
 * Return: 0; -ENOENT (the process has ended, and what it had not confirmed is tainted; or
 * it is in another domain), -EPERM, -EINVAL (@sequence has not been reached; no slot),
 * -EACCES
 */
CAPKM_API int capkm_confirm_other(struct capkm *c, uint64_t client,
				  const struct capkm_where *where,
				  uint64_t sequence, uint64_t *left,
				  struct capkm_error *err);

/**
 * capkm_confirm_device() - the same for all slots of this process on a device
 * @c: attached handle
 * @device: its UUID, all zero for the host
 * @sequence: of capkm_sequence(), from before the context was synchronised
 * @left: ranges of shared buffers that are left unconfirmed there, or NULL
 * @err: why not, or NULL
 *
 * Return: see capkm_confirm()
 */
CAPKM_API int capkm_confirm_device(struct capkm *c, const uint8_t device[16],
				   uint64_t sequence, uint64_t *left,
				   struct capkm_error *err);

/**
 * capkm_stream_fault() - the process' context on a device is lost
 * @c: attached handle
 * @where: stream that noticed, on the device that has faulted; or NULL
 * @cause: code and text; its kind is always %CAPKM_KIND_DEVICE_FAULT; or NULL
 * @failure: the failure; of the last fault if the context was not renewed since,
 *	and then nothing has changed; or NULL
 * @epoch: faults of the device that the process has seen, or NULL
 * @err: why not, or NULL
 *
 * What is unconfirmed there is tainted, what is open there fails, windows that
 * record there are doomed, and work is skipped until capkm_context_renew().
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL, -EACCES, -EDQUOT and -ENOMEM only if the
 * process has never used the slot
 */
CAPKM_API int capkm_stream_fault(struct capkm *c,
				 const struct capkm_where *where,
				 const struct capkm_cause *cause,
				 uint64_t *failure, uint64_t *epoch,
				 struct capkm_error *err);

/**
 * capkm_context_renew() - the process has a new context on a device
 * @c: attached handle
 * @device: its UUID
 * @epoch: faults of the device that the process has seen, or NULL
 * @err: why not, or NULL
 *
 * Work can be entered there again. What was tainted stays so.
 *
 * Return: 0; -ENOENT (the process has never used the device), -EACCES
 */
CAPKM_API int capkm_context_renew(struct capkm *c, const uint8_t device[16],
				  uint64_t *epoch, struct capkm_error *err);

/**
 * capkm_device_fault() - a device is lost, for all that use it in all domains
 * @c: handle, attached or not
 * @device: its UUID, not the host
 * @cause: code (the number of the Xid, say) and text, or NULL
 * @clients: clients for which it is a fault, or NULL; also set on -ENOMEM
 * @err: why not, or NULL
 *
 * For a monitor of the machine: needs an administrator (CAP_SYS_ADMIN in the
 * initial user namespace).
 *
 * Return: 0; -EPERM, -EINVAL (the host), -ENOMEM (for some clients, all others have
 * been told; call it again)
 */
CAPKM_API int capkm_device_fault(struct capkm *c, const uint8_t device[16],
				 const struct capkm_cause *cause,
				 uint32_t *clients, struct capkm_error *err);

/**
 * capkm_stream_flush() - takes the errors that wait for a stream on a slot
 * @c: attached handle
 * @flush: size, flags (CAPKM_STREAM_FLUSH_F_*, %CAPKM_PLACE_F_SLOT), place and
 *	the array set by the caller; a place.stream of 0 becomes the current one
 * @err: why not, or NULL
 *
 * Each scope and replay that failed on the slot is told once, to its stream or,
 * if it was recorded, to the owner of the window; a fault to anybody.
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL, -EACCES, -ENOMEM
 */
CAPKM_API int capkm_stream_flush(struct capkm *c,
				 struct capkm_stream_flush *flush,
				 struct capkm_error *err);

/* events */

/**
 * capkm_events_read() - what has happened in the domain
 * @c: attached handle
 * @events: array that is filled, oldest first
 * @len: its length, not 0
 * @timeout_ms: how long to wait for the first, 0 for not at all, -1 for ever
 * @got: how many came; 0 when the domain was destroyed: there will be no more
 * @err: why not, or NULL
 *
 * The session gets what happens from when it was attached on, each event once;
 * events->lost says how many were overwritten before it came. On the kernel,
 * capkm_fd() can be polled for EPOLLIN instead of waiting here. If several
 * threads or processes read one session at once, one of them may wait longer
 * than its time.
 *
 * Return: 0; -ETIMEDOUT, -EINTR (kernel only), -EACCES, -EINVAL, -ENOTCONN,
 * -EPERM
 */
CAPKM_API int capkm_events_read(struct capkm *c, struct capkm_event *events,
				uint32_t len, int timeout_ms, uint32_t *got,
				struct capkm_error *err);

/**
 * capkm_is_recording() - does what is issued there go into a window, instead of running
 * @c: attached handle
 * @where: stream and slot, or NULL
 * @err: why not, or NULL
 *
 * Costs no call once the thread has asked for the place before.
 *
 * Return: 1, 0; -ENOENT, -EPERM, -EINVAL, -ECANCELED
 */
CAPKM_API int capkm_is_recording(struct capkm *c, const struct capkm_where *where,
				 struct capkm_error *err);

/**
 * struct capkm_health - how a domain is
 * @sz: sizeof(struct capkm_health)
 * @faulted: devices of living clients that have faulted and were not renewed
 * @orphans: windows whose client has ended, and that nobody has abandoned
 * @sequence: of the domain
 */
struct capkm_health {
	size_t sz;
	uint64_t faulted;
	uint64_t orphans;
	uint64_t sequence;
};

/**
 * capkm_health() - how the domain is; costs no call while the handle has a fast path
 * @c: attached handle
 * @health: filled
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, -E2BIG, -ECANCELED (the domain was destroyed)
 */
CAPKM_API int capkm_health(struct capkm *c, struct capkm_health *health,
			   struct capkm_error *err);

/* windows */

/**
 * struct capkm_window_opts - for capkm_window_prepare()
 * @sz: sizeof(struct capkm_window_opts)
 * @cookie: the caller's, kept with window and graph
 * @mode: capture mode, shown to readers, or NULL
 * @flags: 0, or %CAPKM_WINDOW_PREPARE_F_STRICT: work of its streams that runs
 *	outside of it while it records dooms it
 * @__reserved: must be 0
 * @parent: 0, or a recording window of this process on another slot, of which
 *	the new one records a part that may or may not run
 */
struct capkm_window_opts {
	size_t sz;
	uint64_t cookie;
	const char *mode;
	uint32_t flags;
	uint32_t __reserved;
	uint64_t parent;
};

/**
 * capkm_window_prepare() - opens a window on a slot; work still runs for real
 * @c: attached handle
 * @where: stream, which becomes the owner, and slot; or NULL
 * @opts: options or NULL
 * @window: its id, or NULL; 0 on a slot without graphs
 * @err: why not ("graph_prepare: ..."), or NULL
 *
 * Return: 0; -EBUSY (already prepared, already recording, or a member of a
 * window), -ENOENT (no such parent), -EINVAL (the parent does not record, or is
 * doomed), -EACCES, -EPERM, -EDQUOT, -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_window_prepare(struct capkm *c,
				   const struct capkm_where *where,
				   const struct capkm_window_opts *opts,
				   uint64_t *window, struct capkm_error *err);

/**
 * capkm_window_begin() - starts to record
 * @c: attached handle
 * @where: slot of the prepared window, or NULL; the owner stays
 * @flags: 0, or %CAPKM_WINDOW_F_DRIVER_DONE for the second call on a hardware
 *	slot, when the driver has begun
 * @window: its id, or NULL
 * @err: why not ("begin_capture: ..."), or NULL
 *
 * Call it before the driver begins; if the driver fails, capkm_window_abort().
 *
 * Return: 0; -EINVAL (nothing prepared), -EBUSY (already recording; a scope is
 * open on the slot), -EOPNOTSUPP (no graphs)
 */
CAPKM_API int capkm_window_begin(struct capkm *c,
				 const struct capkm_where *where,
				 uint32_t flags, uint64_t *window,
				 struct capkm_error *err);

/**
 * capkm_window_end() - stops to record; the window waits for seal or refuse
 * @c: attached handle
 * @where: slot, and the stream that decides the verdict; or NULL
 * @window: 0 for the slot's, else it must be this one
 * @flags: 0, or %CAPKM_WINDOW_F_DRIVER_DONE for the second call on a hardware
 *	slot, when the driver has closed
 * @out: verdict, id and owner, out->size set by the caller; or NULL
 * @err: why not ("end_capture: ..."), or NULL
 *
 * Its member slots are let go.
 *
 * Return: 0; -EINVAL (nothing recording), -ENOENT (@window is not there),
 * -EBUSY (the driver opens or closes it, or a child window is neither sealed nor
 * refused), -EOPNOTSUPP (no graphs)
 */
CAPKM_API int capkm_window_end(struct capkm *c, const struct capkm_where *where,
			       uint64_t window, uint32_t flags,
			       struct capkm_window_end *out,
			       struct capkm_error *err);

/**
 * capkm_window_seal() - turns a closed window into a graph
 * @c: attached handle
 * @window: id
 * @flags: 0 or %CAPKM_WINDOW_SEAL_F_NO_INPUTS
 * @graph: the graph; 0 if it was refused, or taken in by its parent
 * @answer: %CAPKM_CLEAN or %CAPKM_REFUSED, with up to 2 reports: why, and what
 *	doomed it; or NULL
 * @err: why not, or NULL
 *
 * Return: 0, also when it was refused; -ENOENT, -EPERM, -EINVAL (not closed),
 * -EBUSY (the driver has not closed it), -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_window_seal(struct capkm *c, uint64_t window,
				uint32_t flags, uint64_t *graph,
				struct capkm_answer *answer,
				struct capkm_error *err);

/**
 * capkm_window_refuse() - a closed window will never be a graph
 * @c: attached handle
 * @window: id
 * @cause: why, or NULL; a kind of 0 is %CAPKM_KIND_DRIVER
 * @answer: up to 2 reports; or NULL
 * @err: why not, or NULL
 *
 * What it recorded is tainted.
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL (not closed)
 */
CAPKM_API int capkm_window_refuse(struct capkm *c, uint64_t window,
				  const struct capkm_cause *cause,
				  struct capkm_answer *answer,
				  struct capkm_error *err);

/**
 * capkm_window_close() - end and seal in one, for software slots
 * @c: attached handle of %CAPKM_BACKEND_SOFTWARE
 * @where: slot and stream, or NULL
 * @graph: the graph; 0 of a child window, which its parent takes in
 * @answer: when the window was refused: 1 report, why; or 2, what doomed it;
 *	or NULL
 * @err: why not ("end_capture: ..."), the explanation first and what doomed it
 *	second; or NULL
 *
 * Afterwards the slot has no window, whatever came of it: a window that was
 * only prepared is aborted, one that could not be sealed for want of memory is
 * refused. Only if a child window is neither sealed nor refused it stays as it is.
 *
 * Return: 0; -ESTALE (refused: doomed, or closed by another stream than its
 * owner), -EBUSY (a child window), -EINVAL (nothing was recording), -EOPNOTSUPP,
 * -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_window_close(struct capkm *c,
				 const struct capkm_where *where,
				 uint64_t *graph, struct capkm_answer *answer,
				 struct capkm_error *err);

/**
 * capkm_window_take() - reads what a closed window recorded, each element once
 * @c: attached handle
 * @take: size, window, flags and arrays set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL (not closed), -ENOMEM
 */
CAPKM_API int capkm_window_take(struct capkm *c, struct capkm_window_take *take,
				struct capkm_error *err);

/**
 * capkm_window_record() - adds claims of recorded work that had no scope
 * @c: attached handle
 * @window: id; does nothing while it is only prepared
 * @reads: what the work reads
 * @reads_len: length of @reads
 * @writes: what it writes
 * @writes_len: length of @writes
 * @flags: 0 or %CAPKM_WINDOW_RECORD_F_SEEN
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL, -EMSGSIZE, -EDQUOT, -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_window_record(struct capkm *c, uint64_t window,
				  const struct capkm_claim *reads,
				  uint32_t reads_len,
				  const struct capkm_claim *writes,
				  uint32_t writes_len, uint32_t flags,
				  struct capkm_error *err);

/**
 * capkm_window_retain() - host bytes that must live as long as the graph
 * @c: attached handle
 * @window: id
 * @retained: the bytes
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL, -EOVERFLOW, -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_window_retain(struct capkm *c, uint64_t window,
				  const struct capkm_retained *retained,
				  struct capkm_error *err);

/**
 * capkm_window_join() - another slot records in a window too
 * @c: attached handle
 * @window: a recording window of this process
 * @where: slot whose work it records from now on, and the stream that joins; or
 *	NULL
 * @flags: 0, or %CAPKM_WINDOW_JOIN_F_DRIVER_MERGED: the driver has merged the
 *	capture on the slot with this one already
 * @result: %CAPKM_CLEAN: it is a member. %CAPKM_REFUSED: two windows were merged,
 *	both are doomed; or NULL
 * @err: why not, or NULL
 *
 * A member stays one until the window is ended or its stream destroyed.
 *
 * Return: 0; -EBUSY (the slot has a window, is a member of another one, or has an
 * open scope), -EINVAL (the window does not record, or is doomed), -ENOENT,
 * -EPERM, -EACCES, -EDQUOT, -ENOMEM
 */
CAPKM_API int capkm_window_join(struct capkm *c, uint64_t window,
				const struct capkm_where *where, uint32_t flags,
				uint32_t *result, struct capkm_error *err);

/**
 * capkm_window_wait() - waits until a window has left its slot
 * @c: attached handle
 * @wait: size, timeout_ns (UINT64_MAX: for ever), and window or flags and place
 *	set by the caller; a place.stream of 0 becomes the current one when window
 *	is 0. On -EINTR timeout_ns is what is left, for another call
 * @err: why not, or NULL
 *
 * A window whose device has faulted is not waited for either.
 *
 * Return: 0; -ETIMEDOUT, -EINTR (kernel only), -ENOENT, -EINVAL, -EPERM,
 * -ECANCELED (the domain was destroyed)
 */
CAPKM_API int capkm_window_wait(struct capkm *c, struct capkm_window_wait *wait,
				struct capkm_error *err);

/**
 * capkm_window_abort() - the slot has no window afterwards
 * @c: attached handle
 * @where: slot, or NULL
 * @window: 0 for whatever window it has, else it must be this one
 * @aborted: the window that it had, 0 if none; or NULL
 * @err: why not, or NULL
 *
 * What a recording window had recorded is tainted.
 *
 * Return: 0; -ENOENT (@window is not on the slot)
 */
CAPKM_API int capkm_window_abort(struct capkm *c,
				 const struct capkm_where *where,
				 uint64_t window, uint64_t *aborted,
				 struct capkm_error *err);

/**
 * capkm_window_fail() - dooms a window
 * @c: attached handle; any session of the domain may
 * @window: id; does nothing while it is only prepared, or orphaned
 * @stream: stream whose call failed, 0 for the current one
 * @label: which operation failed, or NULL
 * @cause: why, or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (it is not open any more, or there is no such stream),
 * -EPERM (the stream is another session's), -EINVAL, -EACCES, -ENOMEM
 */
CAPKM_API int capkm_window_fail(struct capkm *c, uint64_t window,
				uint64_t stream, const char *label,
				const struct capkm_cause *cause,
				struct capkm_error *err);

/**
 * capkm_window_query() - state, owner, counts and members of a window
 * @c: attached handle
 * @query: size, the arrays, and window or flags and place, set by the caller; a
 *	place.stream of 0 becomes the current one when window is 0
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EINVAL
 */
CAPKM_API int capkm_window_query(struct capkm *c,
				 struct capkm_window_query *query,
				 struct capkm_error *err);

/**
 * capkm_window_list() - who captures: the open windows of the domain, and how many
 * @c: attached handle; a session with right r is enough
 * @list: size, flags, filters, after and the array set by the caller
 * @err: why not, or NULL
 *
 * Calls no driver and disturbs no capture, so it can be asked by code that does not know
 * whether its caller captures: with %CAPKM_WINDOW_LIST_F_PROCESS and
 * %CAPKM_WINDOW_LIST_F_THREAD, getpid() and gettid() for "does this thread?".
 *
 * Return: 0; -EINVAL
 */
CAPKM_API int capkm_window_list(struct capkm *c, struct capkm_window_list *list,
				struct capkm_error *err);

/**
 * capkm_window_abandon() - closes a window whose owner does not come back
 * @c: attached handle of its opener or of the domain's owner
 * @window: an open, closed or orphaned window
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM
 */
CAPKM_API int capkm_window_abandon(struct capkm *c, uint64_t window,
				   struct capkm_error *err);

/**
 * capkm_refused() - must a runtime refuse this now, because a window records
 * @c: attached handle
 * @where: slot that it is asked of, and the stream that asks; or NULL
 * @what: enum capkm_refuse_what
 * @claims: with %CAPKM_REFUSE_WRITE: what would be written, else NULL
 * @len: length of @claims
 * @answer: %CAPKM_CLEAN: nothing is in the way. %CAPKM_REFUSED: do not do it, with a
 *	report that names the window. A refused write has tainted the claims and, if
 *	the stream owns the window, doomed it; an allocation that a driver's graph
 *	does not know of has doomed it
 * @err: why not, or NULL
 *
 * Return: 0, also when it is refused; -ENOENT, -EINVAL, -EPERM, -EACCES, -EMSGSIZE,
 * -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_refused(struct capkm *c, const struct capkm_where *where,
			    uint32_t what, const struct capkm_claim *claims,
			    uint32_t len, struct capkm_answer *answer,
			    struct capkm_error *err);

/* write sets */

/*
 * What a unit of work is going to write. A handle keeps one list, which is
 * handed out empty and with its memory, and comes back by itself when the
 * scope is left or skipped: a loop of scopes allocates nothing.
 */
struct capkm_write_set;

/**
 * capkm_write_set_get() - an empty list
 * @c: handle
 * @out: the handle's list or, while that is out, a new one
 * @err: why not, or NULL
 *
 * Return: 0; -ENOMEM
 */
CAPKM_API int capkm_write_set_get(struct capkm *c,
				  struct capkm_write_set **out,
				  struct capkm_error *err);

/**
 * capkm_write_set_add() - adds a range
 * @set: list
 * @buffer: buffer
 * @start: first byte
 * @end: first byte after the range
 * @err: why not, or NULL
 *
 * Return: 0; -ENOMEM, -EMSGSIZE (the handle's authority does not take as many)
 */
CAPKM_API int capkm_write_set_add(struct capkm_write_set *set, uint64_t buffer,
				  uint64_t start, uint64_t end,
				  struct capkm_error *err);

/* The list's elements, valid until the next call on it. */
CAPKM_API const struct capkm_claim *
capkm_write_set_claims(const struct capkm_write_set *set, uint32_t *len);

/* Gives back a list that no scope took. NULL is fine. */
CAPKM_API void capkm_write_set_put(struct capkm_write_set *set);

/* the fast path */

/**
 * capkm_fast_path() - may scopes and checks on the handle be answered without a call
 * @c: handle
 * @on: they may; a new handle's may unless $CAPKM_FAST_PATH is "off"
 *
 * The answers are the same. What is open stays open. A session gets the memory for it with
 * the first buffer that is made while it is on; older buffers never use it.
 */
CAPKM_API void capkm_fast_path(struct capkm *c, bool on);

/**
 * struct capkm_fast_stats - how the fast path of a session goes
 * @sz: sizeof(struct capkm_fast_stats)
 * @on: scopes and checks may be fast just now
 * @entered: scopes that were
 * @migrated: of these, that became ordinary ones before they were left
 * @revoked: scopes that were about to enter when something changed, and had to ask
 * @dropped: of these, that named what the session does not hold
 * @transitions: how often each enum capkm_fast_transition has happened
 *
 * All 0: the session has none.
 */
struct capkm_fast_stats {
	size_t sz;
	uint64_t on;
	uint64_t entered;
	uint64_t migrated;
	uint64_t revoked;
	uint64_t dropped;
	uint64_t transitions[16];
};

/**
 * capkm_fast_query() - how the fast path of a session goes
 * @c: handle
 * @stats: filled
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, -E2BIG
 */
CAPKM_API int capkm_fast_query(struct capkm *c, struct capkm_fast_stats *stats,
			       struct capkm_error *err);

/* scopes */

/**
 * struct capkm_scope_opts - for capkm_scope_enter() and _enter_set()
 * @sz: sizeof(struct capkm_scope_opts)
 * @label: name of the work, shown in reports, or NULL
 * @flags: 0 or %CAPKM_SCOPE_ENTER_F_POISON
 * @retry_ms: how long to wait for an input that somebody else is writing, in
 *	milliseconds; 0 for the handle's, %CAPKM_RETRY_NONE for not at all
 */
struct capkm_scope_opts {
	size_t sz;
	const char *label;
	uint32_t flags;
	uint32_t retry_ms;
};

/**
 * struct capkm_scope - the bracket around one unit of work
 * @id: id while it is open, else 0
 * @sequence: the domain's sequence at the enter, the slot's at the exit
 * @failure: skipped: of the input. Left: that the written bytes carry, 0: none
 * @window: window that it is recorded in, 0 for none
 * @result: %CAPKM_CLEAN: entered. %CAPKM_SKIPPED, %CAPKM_REFUSED (a child window
 *	suspends the one that records there): the work must not run
 * @__reserved: not used
 * @set: the list that comes back at the exit
 */
struct capkm_scope {
	uint64_t id;
	uint64_t sequence;
	uint64_t failure;
	uint64_t window;
	uint32_t result;
	uint32_t __reserved;
	struct capkm_write_set *set;
};

/**
 * capkm_scope_enter() - before a unit of work
 * @c: attached handle
 * @where: stream and slot that the work is issued on, or NULL
 * @reads: what the work reads
 * @reads_len: length of @reads
 * @writes: what it is going to write
 * @writes_len: length of @writes
 * @opts: options or NULL
 * @scope: filled; look at scope->result: when it is not %CAPKM_CLEAN the work
 *	must not run and there is nothing to exit. Untouched on error
 * @why: when it is skipped, or -EAGAIN: the input; or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -EAGAIN (an input is still being written after retry_ms, nothing
 * has changed), -ENOENT, -EINVAL, -EPERM, -EACCES, -EBUSY (the driver opens or
 * closes a window on the slot), -EMSGSIZE, -EDQUOT, -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_scope_enter(struct capkm *c,
				const struct capkm_where *where,
				const struct capkm_claim *reads,
				uint32_t reads_len,
				const struct capkm_claim *writes,
				uint32_t writes_len,
				const struct capkm_scope_opts *opts,
				struct capkm_scope *scope,
				struct capkm_report *why,
				struct capkm_error *err);

/**
 * capkm_scope_enter_set() - the same with a pooled list
 * @c: attached handle
 * @where: stream and slot that the work is issued on, or NULL
 * @reads: what the work reads
 * @reads_len: length of @reads
 * @set: what it is going to write. Belongs to the scope from now on, and is
 *	given back when it is skipped or left; on error it stays the caller's
 * @opts: options or NULL
 * @scope: filled, see capkm_scope_enter()
 * @why: when it is skipped, or -EAGAIN: the input; or NULL
 * @err: why not, or NULL
 *
 * Return: see capkm_scope_enter()
 */
CAPKM_API int capkm_scope_enter_set(struct capkm *c,
				    const struct capkm_where *where,
				    const struct capkm_claim *reads,
				    uint32_t reads_len,
				    struct capkm_write_set *set,
				    const struct capkm_scope_opts *opts,
				    struct capkm_scope *scope,
				    struct capkm_report *why,
				    struct capkm_error *err);

/**
 * capkm_scope_exit() - the work was issued, or is done
 * @c: handle
 * @scope: an entered scope; one that was skipped is nothing to do
 * @flags: 0, or %CAPKM_SCOPE_EXIT_F_COMPLETE when it is finished; else
 *	capkm_confirm() says so later
 * @err: why not, or NULL
 *
 * Does not fail for memory or limits.
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_scope_exit(struct capkm *c, struct capkm_scope *scope,
			       uint32_t flags, struct capkm_error *err);

/**
 * capkm_scope_fail() - the work failed: what it writes carries the cause
 * @c: handle
 * @scope: an entered scope; one that was skipped is nothing to do
 * @cause: why, or NULL
 * @err: why not, or NULL
 *
 * Does not fail for memory or limits.
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_scope_fail(struct capkm *c, struct capkm_scope *scope,
			       const struct capkm_cause *cause,
			       struct capkm_error *err);

/* many operations at once */

/**
 * struct capkm_submit_opts - for capkm_submit()
 * @sz: sizeof(struct capkm_submit_opts)
 * @flags: must be 0
 * @retry_ms: how long it waits for bytes that somebody else is writing, for each
 *	element; 0 for the handle's value, %CAPKM_RETRY_NONE for not at all
 */
struct capkm_submit_opts {
	size_t sz;
	uint32_t flags;
	uint32_t retry_ms;
};

/**
 * capkm_submit() - does operations of the ABI one after the other, in one call
 * @c: handle
 * @elements: number and struct of each, see struct capkm_submit. A reference
 *	(CAPKM_REF()) stands for an id that one in front of it gives. The structs are the
 *	ABI's: a stream of 0 is stream 0, and what a struct points to is read, and written,
 *	before this returns
 * @len: length of @elements, at most %CAPKM_ELEMENTS_MAX
 * @done: in: elements that are done already, 0 at first. Out: those that are done now,
 *	all in front of that number; also when it does not return 0
 * @opts: options or NULL
 * @err: why not, or NULL; err->index is the element that is at fault
 *
 * Each element happens or changes nothing, as a call of its own would; all of them do
 * not: it stops at the first that is refused, and what is done stays done. Once the
 * reason is gone, the same call goes on with @done as it is. As capkm_scope_enter() and
 * capkm_graph_replay_begin() it waits for bytes that somebody else is writing. A scope
 * or replay that is skipped or refused, as its out_result says, is nothing to leave: an
 * exit that refers to it does nothing.
 *
 * Return: 0: all are done; what linux/capkm.h says of the element at fault; -EAGAIN (an
 * input of it is still being written after retry_ms); with nothing done -EOPNOTSUPP (an
 * operation that cannot be in a submit), -ENOTTY, -EINVAL, -EMSGSIZE, -ENOMEM
 */
CAPKM_API int capkm_submit(struct capkm *c,
			   const struct capkm_element *elements, uint32_t len,
			   uint32_t *done, const struct capkm_submit_opts *opts,
			   struct capkm_error *err);

/* bytes */

/**
 * capkm_check() - may these bytes be read
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @answer: %CAPKM_CLEAN or %CAPKM_TAINTED with reports
 * @err: why not, or NULL
 *
 * Return: 0, also when they are tainted; -ENOENT, -EINVAL, -EMSGSIZE, -ENOMEM
 */
CAPKM_API int capkm_check(struct capkm *c, const struct capkm_claim *claims,
			  uint32_t len, struct capkm_answer *answer,
			  struct capkm_error *err);

/**
 * capkm_check_unchanged() - and are they still as they were
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @since: out_sequence of an earlier check
 * @answer: also %CAPKM_CHANGED: clean, but a buffer was touched since
 * @err: why not, or NULL
 *
 * Return: see capkm_check()
 */
CAPKM_API int capkm_check_unchanged(struct capkm *c,
				    const struct capkm_claim *claims,
				    uint32_t len, uint64_t since,
				    struct capkm_answer *answer,
				    struct capkm_error *err);

/**
 * struct capkm_check_opts - for capkm_check_with()
 * @sz: sizeof(struct capkm_check_opts)
 * @flags: CAPKM_CHECK_F_*
 * @__reserved: must be 0
 * @since: with %CAPKM_CHECK_F_UNCHANGED or %CAPKM_CHECK_F_WRITTEN: out_sequence
 *	of an earlier check, or capkm_sequence(); else 0
 */
struct capkm_check_opts {
	size_t sz;
	uint32_t flags;
	uint32_t __reserved;
	uint64_t since;
};

/**
 * capkm_check_with() - a check with more questions
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @opts: which questions, or NULL
 * @answer: also %CAPKM_PENDING: clean, but not confirmed; %CAPKM_STALE: clean, but
 *	not written since; %CAPKM_CHANGED
 * @err: why not, or NULL
 *
 * Return: see capkm_check(); -EOPNOTSUPP (%CAPKM_CHECK_F_WRITTEN of a buffer whose
 * writers are not kept: neither shared nor %CAPKM_BUFFER_CREATE_F_FRESH)
 */
CAPKM_API int capkm_check_with(struct capkm *c,
			       const struct capkm_claim *claims, uint32_t len,
			       const struct capkm_check_opts *opts,
			       struct capkm_answer *answer,
			       struct capkm_error *err);

/**
 * struct capkm_read_opts - for capkm_read()
 * @sz: sizeof(struct capkm_read_opts)
 * @copy: copies the bytes of the claim from src to dst, instead of memcpy();
 *	0 or a negative errno, which ends the read
 * @context: first argument of @copy
 * @report: filled when the read is -ESTALE or -EAGAIN, if not NULL
 * @flags: CAPKM_READ_OPTS_*
 * @retry_ms: how long to try while somebody writes the bytes, or has not
 *	confirmed them, in milliseconds; 0 for the handle's, %CAPKM_RETRY_NONE for
 *	not at all
 */
struct capkm_read_opts {
	size_t sz;
	int (*copy)(void *context, void *dst, const void *src,
		    const struct capkm_claim *claim);
	void *context;
	struct capkm_report *report;
	uint32_t flags;
	uint32_t retry_ms;
};
/* Only bytes whose last writer has confirmed that its work is finished. */
#define CAPKM_READ_OPTS_CONFIRMED	(1u << 0)

/**
 * capkm_read() - copies bytes that can be trusted
 * @c: attached handle
 * @claim: which bytes
 * @dst: where to, as large as the claim. Its contents are undefined on error
 * @src: where the claim's first byte is, as @opts->copy or memcpy() needs it
 * @opts: options or NULL
 * @err: why not, or NULL
 *
 * Checks, copies, and checks that nobody has touched the buffer meanwhile,
 * else tries again.
 *
 * Return: 0; -ESTALE (tainted: err->failure and the text say why), -EAGAIN
 * (still being written, or not confirmed, after retry_ms), -ENOENT, -EINVAL, -ENOMEM, what copy
 * returned
 */
CAPKM_API int capkm_read(struct capkm *c, const struct capkm_claim *claim,
			 void *dst, const void *src,
			 const struct capkm_read_opts *opts,
			 struct capkm_error *err);

/**
 * capkm_taint() - these bytes cannot be trusted
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @stream: stream that says so, 0 for the current one
 * @cause: why, or NULL
 * @failure: the new failure, 0 if the claims are empty; or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM (the stream is another session's), -EINVAL,
 * -EACCES, -EMSGSIZE, -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_taint(struct capkm *c, const struct capkm_claim *claims,
			  uint32_t len, uint64_t stream,
			  const struct capkm_cause *cause, uint64_t *failure,
			  struct capkm_error *err);

/**
 * capkm_taint_with() - the same with a failure that exists
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @stream: stream that says so, 0 for the current one
 * @failure: a failure of the domain
 * @err: why not, or NULL
 *
 * Return: see capkm_taint()
 */
CAPKM_API int capkm_taint_with(struct capkm *c,
			       const struct capkm_claim *claims, uint32_t len,
			       uint64_t stream, uint64_t failure,
			       struct capkm_error *err);

/**
 * capkm_written() - these bytes were written well, without a scope
 * @c: attached handle
 * @claims: which bytes
 * @len: length of @claims
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EINVAL, -EACCES, -EMSGSIZE, -ENOMEM
 */
CAPKM_API int capkm_written(struct capkm *c, const struct capkm_claim *claims,
			    uint32_t len, struct capkm_error *err);

/* graphs */

/**
 * struct capkm_replay_opts - for capkm_graph_replay_begin()
 * @sz: sizeof(struct capkm_replay_opts)
 * @flags: must be 0
 * @retry_ms: how long to wait for an input that somebody else is writing, in
 *	milliseconds; 0 for the handle's, %CAPKM_RETRY_NONE for not at all
 */
struct capkm_replay_opts {
	size_t sz;
	uint32_t flags;
	uint32_t retry_ms;
};

/**
 * capkm_graph_replay_begin() - before a graph is launched
 * @c: attached handle
 * @graph: a graph of this process
 * @where: stream and slot that it is launched on, or NULL
 * @opts: options or NULL
 * @result: %CAPKM_CLEAN: launch it, then end. %CAPKM_SKIPPED (an input is
 *	tainted, or the device has faulted) and %CAPKM_REFUSED (the slot is recording): do neither
 * @why: when it is not clean, or -EAGAIN: the input, or why it was refused; or
 *	NULL
 * @err: why not, or NULL
 *
 * Return: 0; -EAGAIN (an input is still being written), -ENOENT (unknown or
 * destroyed), -EPERM, -EBUSY, -EOPNOTSUPP, -ENOMEM
 */
CAPKM_API int capkm_graph_replay_begin(struct capkm *c, uint64_t graph,
				       const struct capkm_where *where,
				       const struct capkm_replay_opts *opts,
				       uint32_t *result,
				       struct capkm_report *why,
				       struct capkm_error *err);

/**
 * capkm_graph_replay_end() - the graph was launched
 * @c: handle
 * @graph: a graph that is being replayed
 * @flags: 0, or %CAPKM_SCOPE_EXIT_F_COMPLETE when it is finished
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_graph_replay_end(struct capkm *c, uint64_t graph,
				     uint32_t flags, struct capkm_error *err);

/**
 * capkm_graph_replay_fail() - the launch failed: all that it writes is tainted
 * @c: handle
 * @graph: a graph that is being replayed
 * @cause: why, or NULL
 * @failure: that its buffers carry now, or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_graph_replay_fail(struct capkm *c, uint64_t graph,
				      const struct capkm_cause *cause,
				      uint64_t *failure,
				      struct capkm_error *err);

/**
 * capkm_graph_update() - a graph's executable was updated with a closed window
 * @c: attached handle
 * @graph: a graph of this process
 * @window: the closed window; what it recorded takes the place of what the graph
 *	had
 * @flags: 0, or CAPKM_GRAPH_UPDATE_F_*; with %CAPKM_GRAPH_UPDATE_F_FAILED the
 *	driver refused, which is counted, and the window can still be sealed
 * @answer: %CAPKM_CLEAN or %CAPKM_REFUSED, with up to 2 reports, as
 *	capkm_window_seal(); or NULL
 * @err: why not, or NULL
 *
 * Return: 0, also when it was refused; -ENOENT, -EPERM, -EINVAL (the window is
 * not closed, or a child), -EBUSY (the graph is being replayed; the driver has
 * not closed the window), -EACCES, -ENOMEM
 */
CAPKM_API int capkm_graph_update(struct capkm *c, uint64_t graph,
				 uint64_t window, uint32_t flags,
				 struct capkm_answer *answer,
				 struct capkm_error *err);

/**
 * capkm_graph_destroy() - forgets a graph
 * @c: handle
 * @graph: id, not 0; one that is unknown or destroyed already is harmless
 * @err: why not, or NULL
 *
 * Return: 0; -EPERM, -EINVAL, -EBUSY (it is being replayed)
 */
CAPKM_API int capkm_graph_destroy(struct capkm *c, uint64_t graph,
				  struct capkm_error *err);

/**
 * capkm_graph_query() - claims and counts of a graph
 * @c: attached handle
 * @query: size, graph, flags, from and the array set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_graph_query(struct capkm *c,
				struct capkm_graph_query *query,
				struct capkm_error *err);

/* ledgers */

/**
 * struct capkm_ledger_opts - for capkm_ledger_create() and capkm_ledger_fork()
 * @sz: sizeof(struct capkm_ledger_opts)
 * @flags: CAPKM_LEDGER_F_*
 * @on_limit: enum capkm_on_limit
 * @per_step: what it may be charged with in one step
 * @cumulative: what it may be charged with in all, @inherited included
 * @inherited: what it is charged with from the start; a fork has that of its parent,
 *	and here 0
 * @label: shown to readers, or NULL
 */
struct capkm_ledger_opts {
	size_t sz;
	uint32_t flags;
	uint32_t on_limit;
	struct capkm_usage per_step;
	struct capkm_usage cumulative;
	struct capkm_usage inherited;
	const char *label;
};

/**
 * struct capkm_reservation - what became of one
 * @sz: sizeof(struct capkm_reservation)
 * @out_result: %CAPKM_CLEAN (charged), %CAPKM_SKIPPED or %CAPKM_REFUSED
 * @out_axis: enum capkm_axis: the first on which it does not fit
 * @out_bound: enum capkm_bound: the first that it does not fit into
 * @__reserved: must be 0
 * @out_used: what is used of that
 * @out_most: the bound
 */
struct capkm_reservation {
	size_t sz;
	uint32_t out_result;
	uint32_t out_axis;
	uint32_t out_bound;
	uint32_t __reserved;
	uint64_t out_used;
	uint64_t out_most;
};

/**
 * capkm_ledger_create() - a budget of what may be observed
 * @c: attached handle
 * @opts: limits; NULL: nothing may be observed, and trying to has failed
 * @ledger: its id, never reused in the domain
 * @err: why not, or NULL
 *
 * It is the domain's, and this session its holder. What was charged is never given
 * back, and outlives the process: see capkm_ledger_adopt().
 *
 * Return: 0; -EINVAL, -EDQUOT (more is inherited than may be charged), -ENOSPC
 * (ledgers of the domain), -EPERM and -EEXIST (%CAPKM_LEDGER_F_DOMAIN), -ENOMEM, -EACCES
 */
CAPKM_API int capkm_ledger_create(struct capkm *c,
				  const struct capkm_ledger_opts *opts,
				  uint64_t *ledger, struct capkm_error *err);

/**
 * capkm_ledger_fork() - a budget that goes on from what another one has used
 * @c: attached handle
 * @parent: ledger that this session holds
 * @opts: limits, of the new one; NULL: nothing more may be observed
 * @ledger: its id
 * @inherited: what @parent has been charged with in all, and so the new one; or NULL
 * @err: why not, or NULL
 *
 * From then on neither changes the other.
 *
 * Return: 0; see capkm_ledger_create(), and -ENOENT, -EPERM (another session holds
 * @parent, or none)
 */
CAPKM_API int capkm_ledger_fork(struct capkm *c, uint64_t parent,
				const struct capkm_ledger_opts *opts,
				uint64_t *ledger, struct capkm_usage *inherited,
				struct capkm_error *err);

/**
 * capkm_ledger_begin_step() - nothing is charged in this step yet
 * @c: attached handle
 * @ledger: that this session holds
 * @steps: how many have begun, this one included; or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM (another session holds it, or none), -EACCES
 */
CAPKM_API int capkm_ledger_begin_step(struct capkm *c, uint64_t ledger,
				      uint64_t *steps,
				      struct capkm_error *err);

/**
 * capkm_ledger_reserve() - charges what an observation will cost, before it is made
 * @c: attached handle
 * @ledger: that this session holds, or one of %CAPKM_LEDGER_F_SHARED
 * @usage: what it will cost at most
 * @answer: what became of it, or NULL
 * @err: why not, or NULL
 *
 * All axes are charged or none. Only if they are may the observation be made, and
 * whatever becomes of that, the charge stays.
 *
 * Return: 0 (charged; or with %CAPKM_ON_LIMIT_SKIP, as @answer says, not: skip the
 * observation); -EDQUOT (%CAPKM_ON_LIMIT_FAIL: it does not fit, @err says into
 * what), -ENOENT, -EPERM (another session holds it, or none), -EOVERFLOW, -EACCES
 */
CAPKM_API int capkm_ledger_reserve(struct capkm *c, uint64_t ledger,
				   const struct capkm_usage *usage,
				   struct capkm_reservation *answer,
				   struct capkm_error *err);

/**
 * capkm_ledger_query() - limits and use of a ledger
 * @c: attached handle
 * @query: size, flags and ledger set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EACCES
 */
CAPKM_API int capkm_ledger_query(struct capkm *c,
				 struct capkm_ledger_query *query,
				 struct capkm_error *err);

/**
 * capkm_ledger_adopt() - takes over a ledger whose holder has gone
 * @c: attached handle, of the domain's owner
 * @ledger: that no living process holds
 * @err: why not, or NULL
 *
 * This session holds it, with all that it was charged with, also in its last step.
 *
 * Return: 0; -ENOENT, -EPERM (not the owner), -EBUSY (another session holds it),
 * -EACCES
 */
CAPKM_API int capkm_ledger_adopt(struct capkm *c, uint64_t ledger,
				 struct capkm_error *err);

/**
 * capkm_ledger_destroy() - forgets a ledger
 * @c: attached handle
 * @ledger: that this session holds
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EPERM (another session holds it, or none), -EACCES
 */
CAPKM_API int capkm_ledger_destroy(struct capkm *c, uint64_t ledger,
				   struct capkm_error *err);

/* failures */

/**
 * capkm_failure_query() - a failure, the work skipped for it, who carries it
 * @c: attached handle
 * @query: size, failure, buffer and the arrays set by the caller
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (also when nothing carries it any more), -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_failure_query(struct capkm *c,
				  struct capkm_failure_query *query,
				  struct capkm_error *err);

/**
 * capkm_report_text() - a report as text
 * @report: the report
 * @hops: work skipped between the buffer and the failure, newest first
 * @hops_len: length of @hops
 * @dropped: skip records that are no longer remembered
 * @text: one line for each hop, for the dropped ones, and for the failure;
 *	cut at @size, always NUL-terminated
 * @size: bytes of @text, not 0
 *
 * Return: 0; -EMSGSIZE (cut), -EINVAL
 */
CAPKM_API int capkm_report_text(const struct capkm_report *report,
				const struct capkm_hop *hops, uint32_t hops_len,
				uint64_t dropped, char *text, size_t size);

/**
 * capkm_failure_text() - asks for a failure and its chain, and gives the text
 * @c: attached handle
 * @failure: id, of a report
 * @buffer: buffer that the report was about, 0 for none
 * @text: see capkm_report_text()
 * @size: bytes of @text, not 0
 * @err: why not, or NULL
 *
 * Return: 0; -EMSGSIZE (cut), -ENOENT, -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_failure_text(struct capkm *c, uint64_t failure,
				 uint64_t buffer, char *text, size_t size,
				 struct capkm_error *err);

#ifdef __cplusplus
}

template <typename T> inline T capkm_opts_of()
{
	T opts = T();

	opts.sz = sizeof(T);
	return opts;
}
#endif

#endif /* CAPKM_CAPKM_H */
