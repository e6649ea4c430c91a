/* SPDX-License-Identifier: MIT */
/*
 * libcapkm: capture windows and taint around CUDA streams (driver API).
 *
 * CUDA's handles are named by their struct tags, so that this header needs none of
 * CUDA's; CUstream, CUcontext and the rest of cuda.h are the same types.
 */
#ifndef CAPKM_CUDA_H
#define CAPKM_CUDA_H

#include <capkm/capkm.h>
#include <capkm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUctx_st;
struct CUevent_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUgraphNode_st;
struct CUstream_st;

/**
 * DOC: The bridge
 *
 * A bridge joins a handle of %CAPKM_BACKEND_HARDWARE to the CUDA driver that the
 * process has. It makes streams known to the authority as slots, memory as buffers,
 * captures as windows, and brackets work with scopes. It links with nothing of CUDA:
 * the driver is found when a bridge is opened.
 *
 * Streams are bound before they are used (capkm_cuda_stream_bind()), memory is
 * allocated here or adopted. Work takes device addresses; those in no buffer of the
 * bridge are an error. A call on a stream takes CUDA's handle; the calling thread's
 * current logical stream (capkm_stream_current()) is who does it: it owns the windows
 * that it prepares. A stream is unbound before it is destroyed: CUDA does not survive the
 * use of a handle that is gone. When its handle has come back for another stream, that
 * is noticed (-ESTALE).
 *
 * Scopes: a scope ends when the work is issued. The work is confirmed, or known to
 * have failed, at a synchronise through the bridge (capkm_cuda_stream_sync() and the
 * like). An error of the driver that nothing can recover from becomes a fault of the
 * context (capkm_stream_fault()), with the error's name.
 *
 * Windows: what would break a capture of a bound stream (a synchronise, a read into
 * host memory) is refused with -EBUSY and the owner's name, before the driver sees it.
 * The bridge's own calls of the driver run with the thread's capture mode exchanged
 * for RELAXED, so they never break anybody's capture. While a stream captures, only
 * such of its properties are asked for as CUDA permits.
 *
 * Errors of the driver are -EREMOTEIO, -ENOMEM (out of memory), -EINVAL (invalid
 * value, handle or context), -EBUSY (a capture forbids it); err->code is the CUresult,
 * and the text has its name and the call.
 *
 * Threads: all functions but capkm_cuda_close() may be called by any number of threads
 * at once. Callbacks are called without a lock. In a forked child all are -ECANCELED.
 */

struct capkm_cuda;

/**
 * struct capkm_cuda_opts - for capkm_cuda_open()
 * @sz: sizeof(struct capkm_cuda_opts)
 * @library: file of the driver's library; NULL for the one that the process has, or
 *	else libcuda.so.1
 * @flags: CAPKM_CUDA_F_*
 * @__reserved: must be 0
 */
struct capkm_cuda_opts {
	size_t sz;
	const char *library;
	uint32_t flags;
	uint32_t __reserved;
};
/* The driver's functions for per-thread default streams. */
#define CAPKM_CUDA_F_PER_THREAD	(1u << 0)

/* As the caller's own calls of CUDA are compiled. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CAPKM_CUDA_FLAGS	CAPKM_CUDA_F_PER_THREAD
#else
#define CAPKM_CUDA_FLAGS	0u
#endif

/**
 * capkm_cuda_open() - a bridge between a handle and the CUDA driver
 * @c: attached handle of %CAPKM_BACKEND_HARDWARE, which must live longer; one bridge a
 *	handle
 * @opts: options or NULL; .flags should have %CAPKM_CUDA_FLAGS
 * @out: the bridge; untouched on error
 * @err: why not, or NULL
 *
 * Creates no context and starts no thread.
 *
 * Return: 0; -ENODEV (no driver, or it does not start), -EPROTONOSUPPORT (older than
 * CUDA 12.0; the text says which), -EOPNOTSUPP (the session has another kind of
 * backend), -EBUSY (the handle has a bridge), -ENOTCONN, -ENOMEM, -E2BIG
 */
CAPKM_API int capkm_cuda_open(struct capkm *c,
			      const struct capkm_cuda_opts *opts,
			      struct capkm_cuda **out, struct capkm_error *err);

/*
 * Aborts windows, waits for replays, destroys graphs, frees what capkm_cuda_alloc()
 * gave, forgets the rest. No other call may run or follow. NULL is fine.
 */
CAPKM_API void capkm_cuda_close(struct capkm_cuda *cuda);

/* Version of the driver, 13000 for 13.0. */
CAPKM_API int capkm_cuda_driver_version(const struct capkm_cuda *cuda);

/* streams */

/**
 * struct capkm_cuda_stream_opts - for capkm_cuda_stream_bind()
 * @sz: sizeof(struct capkm_cuda_stream_opts)
 * @flags: CAPKM_CUDA_STREAM_F_*
 * @slot: index of the slot, with %CAPKM_CUDA_STREAM_F_SLOT; else the first free one of
 *	its device
 */
struct capkm_cuda_stream_opts {
	size_t sz;
	uint32_t flags;
	uint32_t slot;
};
#define CAPKM_CUDA_STREAM_F_SLOT	(1u << 0)

/**
 * capkm_cuda_stream_bind() - makes a stream known
 * @cuda: bridge
 * @stream: CUDA's handle: of a stream that exists and does not capture. NULL is the
 *	legacy default stream of the current context, which cannot capture. The per-thread
 *	default stream (CU_STREAM_PER_THREAD, or NULL with %CAPKM_CUDA_F_PER_THREAD) is
 *	that of the calling thread, and usable by it only
 * @opts: options or NULL
 * @where: its device and slot, for calls of capkm.h; or NULL
 * @err: why not, or NULL
 *
 * The stream's unique id is read now, and never while it captures. A stream that is
 * destroyed and another one that gets its handle are told apart by it: bind that one
 * anew. Bound already: changes nothing.
 *
 * Return: 0; -EBUSY (it captures; the slot is taken), -EINVAL (no such stream or slot,
 * no current context), -ENOSPC (all slots of the device are taken), -EOPNOTSUPP (a stream
 * of a green context; while one is current, also a default stream), -ENOMEM, errors of
 * the driver
 */
CAPKM_API int capkm_cuda_stream_bind(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     const struct capkm_cuda_stream_opts *opts,
				     struct capkm_where *where,
				     struct capkm_error *err);

/**
 * capkm_cuda_stream_unbind() - forgets a stream
 * @cuda: bridge
 * @stream: CUDA's handle, before the stream is destroyed or, if it has no window that
 *	records, afterwards
 * @err: why not, or NULL
 *
 * Its window, if it has one, is aborted. Its slot is free for another stream once what
 * it has issued was seen to be done: so synchronise it first, or the context later.
 *
 * Return: 0; -ENOENT (not bound), -EBUSY (another call changes its window, or reads from
 * it and waits)
 */
CAPKM_API int capkm_cuda_stream_unbind(struct capkm_cuda *cuda,
				       struct CUstream_st *stream,
				       struct capkm_error *err);

/**
 * struct capkm_cuda_stream_query - a bound stream, as it is now
 * @sz: sizeof(struct capkm_cuda_stream_query)
 * @where: its device and slot
 * @context: that it is of
 * @window: that its slot records in, or 0
 * @captures: 1: the driver captures it, be it in a window or not
 * @__reserved: 0
 */
struct capkm_cuda_stream_query {
	size_t sz;
	struct capkm_where where;
	struct CUctx_st *context;
	uint64_t window;
	uint32_t captures;
	uint32_t __reserved;
};

/**
 * capkm_cuda_stream_query() - does a stream record
 * @cuda: bridge
 * @stream: a bound stream
 * @query: filled
 * @err: why not, or NULL
 *
 * Breaks no capture, dooms no window.
 *
 * Return: 0; -ENOENT (not bound), -ESTALE (the handle is another stream's now), -EBUSY
 * (the legacy default stream, while another one of its context captures), -E2BIG, errors
 * of the driver
 */
CAPKM_API int capkm_cuda_stream_query(struct capkm_cuda *cuda,
				      struct CUstream_st *stream,
				      struct capkm_cuda_stream_query *query,
				      struct capkm_error *err);

/* memory */

/* The memory can be opened by other processes (capkm_cuda_ipc_export()). */
#define CAPKM_CUDA_MEMORY_F_EXPORT	(1u << 0)

/**
 * capkm_cuda_alloc() - device memory that the authority knows
 * @cuda: bridge
 * @bytes: size, not 0
 * @label: shown to readers, or NULL
 * @flags: CAPKM_CUDA_MEMORY_F_*
 * @address: of the memory, in the current context
 * @err: why not, or NULL
 *
 * In a window of the caller's the allocation is not part of the graph: the window is doomed
 * (%CAPKM_REFUSE_ALLOCATE), the memory comes all the same. Memory that a graph is to use
 * is allocated before, or by a pool that the warm-up has primed.
 *
 * Return: 0; -EINVAL, -ENOMEM, errors of the driver, of capkm_buffer_create()
 */
CAPKM_API int capkm_cuda_alloc(struct capkm_cuda *cuda, uint64_t bytes,
			       const char *label, uint32_t flags,
			       uint64_t *address, struct capkm_error *err);

/**
 * capkm_cuda_free() - the memory is not needed any more
 * @cuda: bridge
 * @address: of capkm_cuda_alloc()
 * @err: why not, or NULL
 *
 * What a window or a graph refers to is freed with the last of them.
 *
 * Return: 0; -ENOENT (no such memory, or freed already), -EINVAL (adopted: forget it)
 */
CAPKM_API int capkm_cuda_free(struct capkm_cuda *cuda, uint64_t address,
			      struct capkm_error *err);

/**
 * capkm_cuda_adopt() - makes memory known that somebody else has allocated
 * @cuda: bridge
 * @address: anywhere in it, in the current context
 * @bytes: from @address on; 0: the allocation that @address lies in, as the driver
 *	knows it. Of memory that is mapped in several chunks each is a buffer
 * @label: shown to readers, or NULL
 * @flags: CAPKM_CUDA_MEMORY_F_*
 * @err: why not, or NULL
 *
 * Return: 0; -EEXIST (a part of it is known), -EINVAL (not memory of the device),
 * errors of the driver, of capkm_buffer_create()
 */
CAPKM_API int capkm_cuda_adopt(struct capkm_cuda *cuda, uint64_t address,
			       uint64_t bytes, const char *label,
			       uint32_t flags, struct capkm_error *err);

/* Forgets adopted memory, before its owner frees it. 0; -ENOENT, -EINVAL */
CAPKM_API int capkm_cuda_forget(struct capkm_cuda *cuda, uint64_t address,
				struct capkm_error *err);

/**
 * struct capkm_cuda_range - device memory
 * @address: of the first byte
 * @bytes: how many
 */
struct capkm_cuda_range {
	uint64_t address;
	uint64_t bytes;
};

/**
 * capkm_cuda_claims() - device memory as the authority knows it
 * @cuda: bridge
 * @range: known memory; over several buffers if these lie one behind the other
 * @claims: array that is filled
 * @len: its length, then how many there are
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (a part is in no known buffer; the text says which), -EMSGSIZE
 * (@len says how many)
 */
CAPKM_API int capkm_cuda_claims(struct capkm_cuda *cuda,
				const struct capkm_cuda_range *range,
				struct capkm_claim *claims, uint32_t *len,
				struct capkm_error *err);

/**
 * capkm_cuda_pool_memory() - the current context's memory, for capkm_pool_create()
 * @cuda: bridge, which must live longer than the pool
 * @memory: filled; what a pool hands out of it is known to the bridge
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (no current context), -ENOMEM
 */
CAPKM_API int capkm_cuda_pool_memory(struct capkm_cuda *cuda,
				     struct capkm_pool_memory *memory,
				     struct capkm_error *err);

/**
 * capkm_cuda_set_pool() - a pool whose capture goes with the windows of the bridge
 * @cuda: bridge
 * @pool: over capkm_cuda_pool_memory(), or NULL for none any more; prepare arms it,
 *	a graph keeps what its window touched
 * @cache: metadata cache that goes with it, or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -EBUSY (a window is active, or a graph has pins)
 */
CAPKM_API int capkm_cuda_set_pool(struct capkm_cuda *cuda,
				  struct capkm_pool *pool,
				  struct capkm_cache *cache,
				  struct capkm_error *err);

/**
 * struct capkm_cuda_ipc - device memory for another process: bytes to send as they are
 * @size: sizeof(struct capkm_cuda_ipc)
 * @kind: CAPKM_CUDA_IPC_*
 * @domain: of the authority
 * @buffer: id there
 * @bytes: size of the buffer
 * @offset: of the buffer in what the driver exports
 * @exported: bytes that the driver exports
 * @device: UUID
 * @handle: the driver's
 */
struct capkm_cuda_ipc {
	uint32_t size;
	uint32_t kind;
	uint64_t domain;
	uint64_t buffer;
	uint64_t bytes;
	uint64_t offset;
	uint64_t exported;
	uint8_t device[16];
	uint8_t handle[64];
};
#define CAPKM_CUDA_IPC_LEGACY	1	/* cuIpcGetMemHandle() */
#define CAPKM_CUDA_IPC_FD	2	/* a descriptor goes with it */

/**
 * capkm_cuda_ipc_export() - lets another process use memory
 * @cuda: bridge
 * @address: of known memory
 * @ipc: filled
 * @fd: with %CAPKM_CUDA_IPC_FD a descriptor to send, which the caller closes; else -1
 * @err: why not, or NULL
 *
 * The buffer is exported (capkm_buffer_export()).
 *
 * Return: 0; -ENOENT, -EOPNOTSUPP (CUDA cannot share this memory; the text says why),
 * errors of the driver, of capkm_buffer_export()
 */
CAPKM_API int capkm_cuda_ipc_export(struct capkm_cuda *cuda, uint64_t address,
				    struct capkm_cuda_ipc *ipc, int *fd,
				    struct capkm_error *err);

/**
 * capkm_cuda_ipc_open() - memory of another process
 * @cuda: bridge in the same domain
 * @ipc: received
 * @fd: received with it, stays the caller's; or -1
 * @address: of the memory here
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (not what ipc_export() gives), -EXDEV (another domain), -ENOENT
 * (the buffer is gone), -ENODEV (no such device here), errors of the driver
 */
CAPKM_API int capkm_cuda_ipc_open(struct capkm_cuda *cuda,
				  const struct capkm_cuda_ipc *ipc, int fd,
				  uint64_t *address, struct capkm_error *err);
/* Closes it. 0; -ENOENT, -EINVAL (not opened so) */
CAPKM_API int capkm_cuda_ipc_close(struct capkm_cuda *cuda, uint64_t address,
				   struct capkm_error *err);

/* work */

/**
 * struct capkm_cuda_work - what a unit of work touches
 * @sz: sizeof(struct capkm_cuda_work)
 * @label: name, shown in reports, or NULL
 * @reads: device memory that it reads
 * @writes: device memory that it writes
 * @reads_len: length of @reads
 * @writes_len: length of @writes
 * @flags: 0, or %CAPKM_SCOPE_ENTER_F_POISON: it must run although an input is tainted
 * @retry_ms: see struct capkm_scope_opts
 */
struct capkm_cuda_work {
	size_t sz;
	const char *label;
	const struct capkm_cuda_range *reads;
	const struct capkm_cuda_range *writes;
	uint32_t reads_len;
	uint32_t writes_len;
	uint32_t flags;
	uint32_t retry_ms;
};

/**
 * capkm_cuda_scope_begin() - before work that the bridge does not wrap (cuBLAS, NCCL)
 * @cuda: bridge
 * @stream: that it is issued on
 * @work: what it touches
 * @scope: filled, see capkm_scope_enter(): unless scope->result is %CAPKM_CLEAN the work
 *	must not be issued
 * @why: when it is skipped: the input; or NULL
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (the stream is not bound; memory is not known: err->index says
 * which, reads before writes), -ESTALE (the handle is another stream's now), -EBUSY (the
 * stream captures without a window: attach to it), see capkm_scope_enter()
 */
CAPKM_API int capkm_cuda_scope_begin(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     const struct capkm_cuda_work *work,
				     struct capkm_scope *scope,
				     struct capkm_report *why,
				     struct capkm_error *err);

/**
 * capkm_cuda_scope_end() - it was issued
 * @cuda: bridge
 * @stream: the same
 * @scope: of capkm_cuda_scope_begin()
 * @result: CUresult of issuing it (0: well). One that nothing can recover from becomes a
 *	fault of the context
 * @err: why not, or NULL
 *
 * Return: 0, also when @result is an error; -ENOENT, -EPERM, -EINVAL
 */
CAPKM_API int capkm_cuda_scope_end(struct capkm_cuda *cuda,
				   struct CUstream_st *stream,
				   struct capkm_scope *scope, int result,
				   struct capkm_error *err);

/*
 * The calls that issue work return 0 with *result %CAPKM_CLEAN (issued or recorded) or
 * %CAPKM_SKIPPED, %CAPKM_REFUSED (see capkm_scope_enter()); -errno of scope_begin(); or,
 * when the driver refused, its error: then what the work would have written is tainted
 * with it. result may be NULL.
 */

/**
 * struct capkm_cuda_launch - for capkm_cuda_launch(), as for cuLaunchKernel()
 * @sz: sizeof(struct capkm_cuda_launch)
 * @function: a CUfunction
 * @grid: an extent of 0 is no work at all: nothing is entered
 * @block: extent of a block
 * @shared: bytes of dynamic shared memory
 * @flags: CAPKM_CUDA_LAUNCH_F_*
 * @params: addresses of the arguments, or NULL
 * @extra: the other form, or NULL
 */
struct capkm_cuda_launch {
	size_t sz;
	struct CUfunc_st *function;
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared;
	uint32_t flags;
	void **params;
	void **extra;
};
/* Now or not at all: while the stream records it is -EBUSY, and leaves no trace there. */
#define CAPKM_CUDA_LAUNCH_F_NOW	(1u << 0)

/* Launches a kernel; @work says what it touches. */
CAPKM_API int capkm_cuda_launch(struct capkm_cuda *cuda,
				struct CUstream_st *stream,
				const struct capkm_cuda_launch *launch,
				const struct capkm_cuda_work *work,
				uint32_t *result, struct capkm_error *err);

/**
 * struct capkm_cuda_copy - for capkm_cuda_copy()
 * @sz: sizeof(struct capkm_cuda_copy)
 * @to: destination: known device memory, or host memory
 * @from: source, likewise; known device memory on either side or both
 * @bytes: how many
 * @label: shown in reports, or NULL
 * @flags: CAPKM_CUDA_COPY_F_*
 * @retry_ms: see struct capkm_scope_opts
 * @release: in a window: called once, with @context, when no replay can need the host
 *	memory any more; the memory is the graph's until then. It is called by a thread
 *	of the driver, or within a call that ends or destroys the graph, and must not call
 *	CUDA or the bridge. If the copy is not recorded
 *	(an error, or another result than %CAPKM_CLEAN) it is not called, and the memory
 *	stays the caller's. Or NULL
 * @context: its argument
 *
 * A recorded copy reads, or writes, its host memory at each replay. So in a window a
 * host address needs @release, or %CAPKM_CUDA_COPY_F_OWN_COPY; else the graph is refused
 * (struct capkm_cuda_graph_opts can say otherwise).
 */
struct capkm_cuda_copy {
	size_t sz;
	uint64_t to;
	uint64_t from;
	uint64_t bytes;
	const char *label;
	uint32_t flags;
	uint32_t retry_ms;
	void (*release)(void *context);
	void *context;
};
/* The source is host memory; the library copies it now and keeps the copy. */
#define CAPKM_CUDA_COPY_F_OWN_COPY	(1u << 0)
/* As %CAPKM_CUDA_LAUNCH_F_NOW. */
#define CAPKM_CUDA_COPY_F_NOW	(1u << 1)

/*
 * Copies on the stream; between devices too. From device to host it is refused unless
 * the source can be trusted (-ESTALE), but in a window, where each replay sees to that.
 */
CAPKM_API int capkm_cuda_copy(struct capkm_cuda *cuda,
			      struct CUstream_st *stream,
			      const struct capkm_cuda_copy *copy,
			      uint32_t *result, struct capkm_error *err);

/* Sets @bytes bytes, a multiple of @width (1, 2 or 4), to @value. */
CAPKM_API int capkm_cuda_set(struct capkm_cuda *cuda,
			     struct CUstream_st *stream, uint64_t address,
			     uint64_t bytes, uint32_t width, uint32_t value,
			     uint32_t *result, struct capkm_error *err);

/*
 * Calls @fn on the host in the order of the stream; it must not call CUDA. Not in a body
 * (capkm_cuda_body_begin()): CUDA allows no host nodes there.
 */
CAPKM_API int capkm_cuda_host_function(struct capkm_cuda *cuda,
				       struct CUstream_st *stream,
				       void (*fn)(void *context), void *context,
				       const struct capkm_cuda_work *work,
				       uint32_t *result,
				       struct capkm_error *err);

/**
 * capkm_cuda_read() - copies device memory that can be trusted into host memory
 * @cuda: bridge
 * @stream: that it is ordered with
 * @from: known device memory
 * @data: where to
 * @err: why not, or NULL
 *
 * Checks, copies, synchronises the stream, confirms, and checks again.
 *
 * Return: 0; -ESTALE (tainted), -EBUSY (the stream records), errors of the driver
 */
CAPKM_API int capkm_cuda_read(struct capkm_cuda *cuda,
			      struct CUstream_st *stream,
			      const struct capkm_cuda_range *from, void *data,
			      struct capkm_error *err);

/**
 * capkm_cuda_check() - can device memory be trusted
 * @cuda: bridge
 * @range: known device memory
 * @err: why not, or NULL; err->failure is the root failure
 *
 * Asks the authority only. What is issued and not done yet counts as done.
 *
 * Return: 0; -ESTALE (tainted; the text says by what), -ENOENT (a part is in no known
 * buffer)
 */
CAPKM_API int capkm_cuda_check(struct capkm_cuda *cuda,
			       const struct capkm_cuda_range *range,
			       struct capkm_error *err);

/* events, synchronisation */

/**
 * capkm_cuda_event_record() - cuEventRecord()
 * @cuda: bridge
 * @event: a CUevent, of the caller
 * @stream: a bound stream
 * @err: why not, or NULL
 *
 * The bridge remembers up to where the stream was, and in which window.
 *
 * Return: 0; -ENOENT, -ESTALE, -EBUSY (the stream captures without a window; the event was
 * exported as of another stream), -EINVAL (it is of another process), -ENOMEM, errors of
 * the driver
 */
CAPKM_API int capkm_cuda_event_record(struct capkm_cuda *cuda,
				      struct CUevent_st *event,
				      struct CUstream_st *stream,
				      struct capkm_error *err);

/**
 * capkm_cuda_stream_wait() - cuStreamWaitEvent()
 * @cuda: bridge
 * @stream: a bound stream that waits
 * @event: of capkm_cuda_event_record() or capkm_cuda_event_open()
 * @err: why not, or NULL
 *
 * If the event was recorded in a window, the stream joins it: what is issued there is
 * recorded, until the window ends.
 *
 * Return: 0; -ENOENT, -ESTALE, -EBUSY (the stream has a window of its own; it captures, and
 * the event was recorded outside; it would begin to capture, and another thread reads from it
 * and waits), errors of capkm_window_join() and of the driver
 */
CAPKM_API int capkm_cuda_stream_wait(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     struct CUevent_st *event,
				     struct capkm_error *err);

/**
 * struct capkm_cuda_event_ipc - an event for another process: bytes to send as they are
 * @size: sizeof(struct capkm_cuda_event_ipc)
 * @slot: of the stream that it was recorded on
 * @domain: of the authority
 * @client: whose slot it is
 * @sequence: up to where the slot was
 * @device: UUID
 * @handle: the driver's
 */
struct capkm_cuda_event_ipc {
	uint32_t size;
	uint32_t slot;
	uint64_t domain;
	uint64_t client;
	uint64_t sequence;
	uint8_t device[16];
	uint8_t handle[64];
};

/**
 * capkm_cuda_event_export() - lets another process wait for what was issued
 * @cuda: bridge
 * @event: of capkm_cuda_event_record(), created with CU_EVENT_INTERPROCESS and
 *	CU_EVENT_DISABLE_TIMING
 * @ipc: filled
 * @err: why not, or NULL
 *
 * From now on the event is recorded on the same stream only, until it is forgotten. It may
 * be recorded again: who has opened it then sees it happen later, and confirms what was
 * issued before it was exported; to confirm more it is exported again, and opened again.
 * Not while another thread records the event.
 *
 * Return: 0; -ENOENT (it was not recorded here), -EBUSY (recorded in a window), -EINVAL
 * (it is of another process), -EOPNOTSUPP (CUDA cannot share it; the text says why),
 * errors of the driver
 */
CAPKM_API int capkm_cuda_event_export(struct capkm_cuda *cuda,
				      struct CUevent_st *event,
				      struct capkm_cuda_event_ipc *ipc,
				      struct capkm_error *err);

/**
 * capkm_cuda_event_open() - an event of another process
 * @cuda: bridge in the same domain
 * @ipc: received
 * @event: a CUevent, the caller's: he forgets and destroys it, before the other process
 *	destroys the one that it has exported
 * @err: why not, or NULL
 *
 * For capkm_cuda_stream_wait(), capkm_cuda_event_sync() and capkm_cuda_event_query(). Once
 * one of the last two has seen that it has happened, what the other process had written in
 * exported memory is confirmed, also if it dies later (capkm_confirm_other()). If it died
 * before, what it had not confirmed is tainted and stays so, whatever the event says: check
 * the memory before it is read. Check it before waiting, too: CUDA does not define a wait
 * for an event whose exporter has destroyed it, or has died. A query that is repeated up to
 * a bound always comes back to that question.
 *
 * Return: 0; -EINVAL (not what event_export() gives), -EXDEV (another domain), -ENODEV (on
 * another device than the current context), -ENOMEM, errors of the driver
 */
CAPKM_API int capkm_cuda_event_open(struct capkm_cuda *cuda,
				    const struct capkm_cuda_event_ipc *ipc,
				    struct CUevent_st **event,
				    struct capkm_error *err);

/* The event will be destroyed: forgets it. Harmless if it is not known. */
CAPKM_API void capkm_cuda_event_forget(struct capkm_cuda *cuda,
				       struct CUevent_st *event);

/**
 * capkm_cuda_stream_sync() - waits for the stream, and confirms what it has done
 * @cuda: bridge
 * @stream: a bound stream
 * @err: why not, or NULL
 *
 * Return: 0; -EBUSY (it records), -ENOENT, -ESTALE, errors of the driver: one that
 * nothing can recover from is told to the authority first
 */
CAPKM_API int capkm_cuda_stream_sync(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     struct capkm_error *err);

/* The same for all streams of the current context; -EBUSY if any of them records. */
CAPKM_API int capkm_cuda_context_sync(struct capkm_cuda *cuda,
				      struct capkm_error *err);

/* The same for what was issued before the event was recorded. */
CAPKM_API int capkm_cuda_event_sync(struct capkm_cuda *cuda,
				    struct CUevent_st *event,
				    struct capkm_error *err);

/* Does not wait: *done 1 and confirmed, or 0. */
CAPKM_API int capkm_cuda_event_query(struct capkm_cuda *cuda,
				     struct CUevent_st *event, int *done,
				     struct capkm_error *err);

/* Is it an error after which the context is lost? 0 or 1. */
CAPKM_API int capkm_cuda_is_sticky(int result);

/**
 * struct capkm_cuda_profile - a measurement, the caller's
 * @ns: of the end: how long the stream worked, from begin to end
 * @timed: of the end: 1 if @ns says something; 0: it was refused, for a window was
 *	recording at the begin or at the end, so work did not run
 * @state: the bridge's
 * @stream: the bridge's
 * @start: the bridge's
 * @stop: the bridge's
 */
struct capkm_cuda_profile {
	uint64_t ns;
	uint32_t timed;
	uint32_t state;
	struct CUstream_st *stream;
	struct CUevent_st *start;
	struct CUevent_st *stop;
};

/**
 * capkm_cuda_profile_begin() - measures how long the work of a stream takes
 * @cuda: bridge
 * @stream: a bound stream
 * @profile: filled; to be ended
 * @err: why not, or NULL
 *
 * If it is refused, for a window records, the call succeeds all the same: work is recorded
 * as without it, and is reported untimed.
 *
 * Return: 0; -ENOENT, -ESTALE, -EBUSY (the legacy default stream, while another captures),
 * errors of the driver
 */
CAPKM_API int capkm_cuda_profile_begin(struct capkm_cuda *cuda,
				       struct CUstream_st *stream,
				       struct capkm_cuda_profile *profile,
				       struct capkm_error *err);

/* Waits for the stream, and confirms. 0; -EINVAL (not begun), as stream_sync(). */
CAPKM_API int capkm_cuda_profile_end(struct capkm_cuda *cuda,
				     struct capkm_cuda_profile *profile,
				     struct capkm_error *err);

/* graphs */

/**
 * struct capkm_cuda_graph_opts - for capkm_cuda_graph_prepare() and _attach()
 * @sz: sizeof(struct capkm_cuda_graph_opts)
 * @cookie: the caller's, kept with window and graph
 * @mode: CAPKM_CUDA_MODE_*
 * @flags: CAPKM_CUDA_GRAPH_F_*
 */
struct capkm_cuda_graph_opts {
	size_t sz;
	uint64_t cookie;
	uint32_t mode;
	uint32_t flags;
};
/* RELAXED, or with %CAPKM_CUDA_GRAPH_F_STRICT THREAD_LOCAL. */
#define CAPKM_CUDA_MODE_DEFAULT		0
#define CAPKM_CUDA_MODE_GLOBAL		1
#define CAPKM_CUDA_MODE_THREAD_LOCAL	2
#define CAPKM_CUDA_MODE_RELAXED		3
/* Work that escapes, and known memory that no scope named, make it no graph. */
#define CAPKM_CUDA_GRAPH_F_STRICT	(1u << 0)
/* The graph frees all memory that it allocates: memory nodes are fine. */
#define CAPKM_CUDA_GRAPH_F_FREES	(1u << 1)
/* Host memory of recorded copies that nobody retained is counted, not refused. */
#define CAPKM_CUDA_GRAPH_F_HOST_UNCHECKED	(1u << 2)

/**
 * capkm_cuda_graph_prepare() - a window; work still runs, as the warm-up
 * @cuda: bridge
 * @stream: a bound stream that can capture
 * @opts: options or NULL
 * @window: its id, or NULL
 * @err: why not ("graph_prepare: ..."), or NULL
 *
 * Return: 0; -ENOENT, -ESTALE, -EOPNOTSUPP (the legacy default stream), see
 * capkm_window_prepare()
 */
CAPKM_API int capkm_cuda_graph_prepare(struct capkm_cuda *cuda,
				       struct CUstream_st *stream,
				       const struct capkm_cuda_graph_opts *opts,
				       uint64_t *window,
				       struct capkm_error *err);

/**
 * capkm_cuda_graph_begin() - begins the capture
 * @cuda: bridge
 * @stream: of the prepared window
 * @err: why not ("begin_capture: ..."), or NULL
 *
 * Calls of other threads that issue on the stream at this moment are waited for, and are
 * not recorded. If the driver refuses, the window is aborted: prepare again.
 *
 * Return: 0; -EBUSY (another thread reads from the stream, and waits for its work; the
 * window stays prepared), see capkm_window_begin(); errors of the driver
 */
CAPKM_API int capkm_cuda_graph_begin(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     struct capkm_error *err);

/**
 * capkm_cuda_graph_attach() - a window for a capture that somebody else has begun
 * @cuda: bridge
 * @stream: a bound stream that captures
 * @opts: options or NULL; @opts->mode is what is shown
 * @window: its id, or NULL
 * @err: why not, or NULL
 *
 * Whoever began the capture ends it, and gives the graph to capkm_cuda_graph_seal().
 *
 * Return: 0; -EINVAL (it does not capture, or the capture is invalidated), see
 * capkm_window_prepare()
 */
CAPKM_API int capkm_cuda_graph_attach(struct capkm_cuda *cuda,
				      struct CUstream_st *stream,
				      const struct capkm_cuda_graph_opts *opts,
				      uint64_t *window,
				      struct capkm_error *err);

/**
 * capkm_cuda_graph_end() - ends the capture and makes a graph of it
 * @cuda: bridge
 * @stream: of the window; another logical stream than the owner closes it, and gets no
 *	graph
 * @graph: the authority's id; 0 on error
 * @answer: up to 2 reports if it was refused; or NULL
 * @err: why not ("end_capture: ..."), or NULL
 *
 * The driver's capture is ended whatever happens. Then: the graph must own no memory,
 * its nodes are looked at (capkm_cuda_graph_query()), it is instantiated and uploaded.
 *
 * Return: 0; -ESTALE (refused: doomed, closed by another stream, or taken away), -EINVAL
 * (nothing was recording; the graph owns memory; host memory that nobody retains), errors
 * of the driver
 */
CAPKM_API int capkm_cuda_graph_end(struct capkm_cuda *cuda,
				   struct CUstream_st *stream, uint64_t *graph,
				   struct capkm_answer *answer,
				   struct capkm_error *err);

/**
 * capkm_cuda_graph_seal() - the same for a capture that was attached to
 * @cuda: bridge
 * @stream: of the window
 * @raw: the CUgraph that the capture gave, or NULL: it failed, and the window is refused
 * @exec: its CUgraphExec, which stays the caller's; or NULL: he replays by other means,
 *	and brackets that with capkm_graph_replay_begin() and _end()
 * @graph: the authority's id; 0 on error
 * @answer: up to 2 reports if it was refused; or NULL
 * @err: why not, or NULL
 *
 * Return: see capkm_cuda_graph_end()
 */
CAPKM_API int capkm_cuda_graph_seal(struct capkm_cuda *cuda,
				    struct CUstream_st *stream,
				    struct CUgraph_st *raw,
				    struct CUgraphExec_st *exec,
				    uint64_t *graph,
				    struct capkm_answer *answer,
				    struct capkm_error *err);

/* Gives the stream's window up, and its capture. 0; -ENOENT, -ESTALE */
CAPKM_API int capkm_cuda_graph_abort(struct capkm_cuda *cuda,
				     struct CUstream_st *stream,
				     struct capkm_error *err);

/**
 * struct capkm_cuda_body - for capkm_cuda_body_begin()
 * @sz: sizeof(struct capkm_cuda_body)
 * @parent: a bound stream that records in the window that the node is in
 * @node: the conditional node, of cuGraphAddNode()
 * @graph: the body, one of the graphs that cuGraphAddNode() gave
 * @bodies: how many the node has (size in its parameters)
 * @__reserved: must be 0
 */
struct capkm_cuda_body {
	size_t sz;
	struct CUstream_st *parent;
	struct CUgraphNode_st *node;
	struct CUgraph_st *graph;
	uint32_t bodies;
	uint32_t __reserved;
};

/**
 * capkm_cuda_body_begin() - captures the body of a conditional node
 * @cuda: bridge
 * @stream: another bound stream of the parent's context, which does not capture
 * @body: where it belongs
 * @window: id of the body's window, a child of the parent's; or NULL
 * @err: why not, or NULL
 *
 * What is issued on @stream goes into the body. Until it has ended, work on the parent is
 * refused and dooms the parent, and the parent cannot be ended. Flags and mode are the
 * parent's. A body may have bodies itself; a window has one at a time, and each only once.
 * CUDA allows kernel, empty, child graph, memset, memcpy and conditional nodes in it.
 *
 * If the driver refuses, the parent is doomed.
 *
 * Return: 0; -EOPNOTSUPP (a driver older than CUDA 12.3; the legacy default stream),
 * -EINVAL (no window records on the parent's stream, or it is doomed; the same stream, or
 * one of another context; the body was recorded already), -EBUSY (the stream captures or has
 * a window; another body records; the parent's capture was invalidated), -ENOENT, -ESTALE,
 * -ENOMEM, see capkm_window_prepare(); errors of the driver
 */
CAPKM_API int capkm_cuda_body_begin(struct capkm_cuda *cuda,
				    struct CUstream_st *stream,
				    const struct capkm_cuda_body *body,
				    uint64_t *window, struct capkm_error *err);

/**
 * capkm_cuda_body_end() - ends the capture of a body
 * @cuda: bridge
 * @stream: of capkm_cuda_body_begin()
 * @answer: up to 2 reports if it was refused; or NULL
 * @err: why not ("end_capture: ..."), or NULL
 *
 * The driver's capture is ended whatever happens, and the body's nodes are looked at, as
 * with capkm_cuda_graph_end(). If it is refused, so is the parent when that ends.
 * capkm_cuda_graph_abort() gives a body up, and so dooms the parent.
 *
 * A replay may run the body, or not, or several times. So what it wrote counts as seen:
 * checked before a replay, tainted when it fails, never released by its success, and
 * unconfirmed until the replay is known to be done.
 *
 * Return: 0; -EINVAL (no body is captured on the stream), see capkm_cuda_graph_end()
 */
CAPKM_API int capkm_cuda_body_end(struct capkm_cuda *cuda,
				  struct CUstream_st *stream,
				  struct capkm_answer *answer,
				  struct capkm_error *err);

/**
 * capkm_cuda_graph_replay() - launches a graph
 * @cuda: bridge
 * @stream: a bound stream. If it records, the graph is added there as a child node, and
 *	what it reads and writes belongs to the window
 * @graph: id
 * @result: %CAPKM_CLEAN: launched. %CAPKM_SKIPPED: an input is tainted; or NULL
 * @why: the input; or NULL
 * @err: why not, or NULL
 *
 * If the driver refuses, all that the graph writes is tainted.
 *
 * Return: 0; -ENOENT (unknown or destroyed), -ESTALE (memory that it uses was freed, or
 * the pool was reset), -EINVAL (sealed without @exec), -EBUSY, -EOPNOTSUPP (the stream
 * records, and the graph was captured by somebody else), errors of the driver
 */
CAPKM_API int capkm_cuda_graph_replay(struct capkm_cuda *cuda,
				      struct CUstream_st *stream,
				      uint64_t graph, uint32_t *result,
				      struct capkm_report *why,
				      struct capkm_error *err);

/**
 * capkm_cuda_graph_update() - ends a capture and updates a graph with it
 * @cuda: bridge
 * @stream: of the window
 * @graph: id of a graph of capkm_cuda_graph_end()
 * @answer: up to 2 reports if it was refused; or NULL
 * @err: why not, or NULL
 *
 * If the driver cannot update (910), the graph is as it was, and the window becomes
 * none: capture again, and end it. If it fails in another way, what the graph writes is
 * tainted, and it can only be destroyed.
 *
 * Return: 0; -EREMOTEIO (err->code says which), see capkm_cuda_graph_end()
 */
CAPKM_API int capkm_cuda_graph_update(struct capkm_cuda *cuda,
				      struct CUstream_st *stream,
				      uint64_t graph,
				      struct capkm_answer *answer,
				      struct capkm_error *err);

/**
 * capkm_cuda_graph_destroy() - the graph is not needed any more
 * @cuda: bridge
 * @graph: id; one that is unknown or destroyed is harmless
 * @err: why not, or NULL
 *
 * Waits for its replays by an event; while the stream of the last one captures, it is
 * destroyed later. If the wait fails, what the graph writes is tainted.
 *
 * Return: 0; errors of the driver
 */
CAPKM_API int capkm_cuda_graph_destroy(struct capkm_cuda *cuda, uint64_t graph,
				       struct capkm_error *err);

/**
 * struct capkm_cuda_graph_query - what was found in a graph
 * @sz: sizeof(struct capkm_cuda_graph_query)
 * @nodes: all, also of child graphs and of bodies that windows recorded
 * @kernels: of these
 * @copies: of these
 * @opaque: nodes that could not be looked into, and conditional nodes with a body that no
 *	window recorded
 * @seen: known buffers that nodes were given and that no scope named; of each body anew
 * @retained: host buffers that the graph keeps
 * @host_unchecked: host addresses that nobody retained, and nodes that call the host
 * @exec: the CUgraphExec, NULL if it is not known
 */
struct capkm_cuda_graph_query {
	size_t sz;
	uint64_t nodes;
	uint64_t kernels;
	uint64_t copies;
	uint64_t opaque;
	uint64_t seen;
	uint64_t retained;
	uint64_t host_unchecked;
	struct CUgraphExec_st *exec;
};
/* 0; -ENOENT, -EINVAL, -E2BIG */
CAPKM_API int capkm_cuda_graph_query(struct capkm_cuda *cuda, uint64_t graph,
				     struct capkm_cuda_graph_query *query,
				     struct capkm_error *err);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_CUDA_H */
