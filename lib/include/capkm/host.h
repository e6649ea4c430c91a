/* SPDX-License-Identifier: MIT */
/*
 * libcapkm: a CPU executor with streams, windows and graphs: C functions over
 * buffers, run by worker threads, recorded in a window, and replayed.
 */
#ifndef CAPKM_HOST_H
#define CAPKM_HOST_H

#include <capkm/capkm.h>
#include <capkm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: The executor
 *
 * An executor has the slots of its handle on the host, each with a worker thread
 * and a queue of tasks in order. A call names a logical stream (0: the calling
 * thread's current one), which is served by slot stream % max_streams.
 *
 * Order: tasks of one slot run one after the other. A task on another slot waits
 * for those that were issued before it and touch the same memory, if one of them
 * writes. Nothing else is ordered, but by events.
 *
 * Scopes: a task enters its scope when its turn comes, not when it is issued:
 * until then the bytes are what they were. It exits complete. So a check, here or
 * in another process, speaks of work that has run; capkm_host_check() and
 * capkm_host_read() first wait for the tasks issued before them that write the
 * bytes. Nothing that a function does is confirmed separately.
 *
 * Windows: while a window records on a slot, launches and copies there are
 * prepared, recorded and not run; writes from host memory, reads and syncs are
 * refused (capkm_refused()). What is recorded, refused or tainted by a call waits
 * for tasks issued before on other slots that use the same memory. A replay runs what
 * was recorded, in order, as one task with one replay of the graph; replays of one
 * graph wait for each other. If somebody takes the window away (abandons it), launches,
 * copies and replays there are -ECANCELED, and what they would write may be tainted,
 * until capkm_host_graph_end() or _abort().
 * A launch that cannot be recorded for want of memory or for a limit dooms the window:
 * its graph would lack it.
 *
 * Functions: kernels' functions must not call the executor (each call is -EDEADLK
 * there), nor leave by longjmp() or an exception. If one ends its thread, its scope
 * fails, "torn down", and the slot gets another thread. If it takes the process with
 * it, the authority tears the scope down.
 *
 * Failures are on the bytes: a launch that is queued returns 0, and what reads its
 * outputs later is told. capkm_stream_flush() has them too, once. A task that cannot be
 * entered when its turn comes (an input is being written by another process for longer
 * than retry_ms, a limit, no memory) has not run, and what it would write is tainted
 * with the reason; if not even that can be done, all on the host is, as by
 * capkm_stream_fault(), and calls that use memory are -EIO until that is done.
 *
 * Memory is named by ids, never reused. A wrong one (freed, never allocated, of
 * another executor) is an error that says which, and changes nothing. A range whose
 * start is its end is no bytes. Memory at its start, and metadata, are aligned to 64
 * bytes.
 *
 * Threads: all functions but capkm_host_destroy() may be called by any number of
 * threads at once. In a forked child they are -ECANCELED. Structs grow as those of
 * capkm.h do.
 */

struct capkm_host;

/**
 * struct capkm_host_opts - for capkm_host_create()
 * @sz: sizeof(struct capkm_host_opts)
 * @areas: of its memory pool, or NULL for the preset
 * @areas_len: length of @areas
 * @preset: enum capkm_pool_preset
 * @queue_max: tasks that wait on one slot; issuing one more waits, and so does a write
 *	when the bytes of the last %CAPKM_DROP_COUNT are not read yet. 0 for 1024
 * @flags: must be 0
 * @cache_entries: of the metadata cache; 0 for 512, %CAPKM_HOST_NO_CACHE for none
 * @cache_bytes: see struct capkm_cache_opts; 0 for %CAPKM_CACHE_BYTES_MAX
 */
struct capkm_host_opts {
	size_t sz;
	const struct capkm_pool_area *areas;
	uint32_t areas_len;
	uint32_t preset;
	uint32_t queue_max;
	uint32_t flags;
	uint32_t cache_entries;
	uint32_t cache_bytes;
};
#define CAPKM_HOST_NO_CACHE	UINT32_MAX

/**
 * capkm_host_create() - an executor on a handle
 * @c: attached handle of %CAPKM_BACKEND_SOFTWARE, which must live longer; one
 *	executor a handle
 * @opts: options or NULL
 * @out: the executor; untouched on error
 * @err: why not, or NULL
 *
 * Starts no thread yet.
 *
 * Return: 0; -ENOTCONN, -EOPNOTSUPP (the session's backend is another one), -EBUSY
 * (the handle has an executor), -ENOSPC (executors of one process), -ENOMEM, the
 * errors of capkm_pool_create()
 */
CAPKM_API int capkm_host_create(struct capkm *c,
				const struct capkm_host_opts *opts,
				struct capkm_host **out,
				struct capkm_error *err);

/*
 * Runs what is queued, aborts its windows, destroys its graphs and its memory.
 * In a forked child it only gives back the child's copy; a kernel's function (which has
 * called exit(), say) does nothing by it. NULL is fine.
 */
CAPKM_API void capkm_host_destroy(struct capkm_host *host);

/* memory */

/*
 * If there is no memory, a handle comes all the same. Checks and reads of it are told
 * the reason; a launch that reads it is skipped, and one that writes it taints what it
 * would write or, in a window, is -EINVAL.
 */
#define CAPKM_HOST_ALLOC_F_LAZY	(1u << 0)

/**
 * capkm_host_alloc() - memory of the executor
 * @host: executor
 * @stream: stream that will mostly use it
 * @bytes: size, not 0
 * @flags: 0 or CAPKM_HOST_ALLOC_F_*
 * @memory: its id
 * @err: why not, or NULL
 *
 * New memory is clean, and its contents are arbitrary.
 *
 * Return: 0; see capkm_pool_alloc()
 */
CAPKM_API int capkm_host_alloc(struct capkm_host *host, uint64_t stream,
			       uint64_t bytes, uint32_t flags,
			       uint64_t *memory, struct capkm_error *err);

/**
 * capkm_host_free() - the caller does not need the memory any more
 * @host: executor
 * @memory: id
 * @err: why not, or NULL
 *
 * Tasks that use it still run. A graph keeps what it writes; one that reads it as
 * an input cannot be replayed any more.
 *
 * Return: 0; -ENOENT (freed already, or unknown), -EXDEV (another executor's)
 */
CAPKM_API int capkm_host_free(struct capkm_host *host, uint64_t memory,
			      struct capkm_error *err);

/**
 * capkm_host_cleanup() - gives memory that nobody uses back to the system
 * @host: executor
 * @stream: of the slot that serves this stream
 * @err: why not, or NULL
 *
 * Also drops metadata that no graph needs. Does nothing while a window is prepared or
 * records there.
 *
 * Return: 0; -EDEADLK
 */
CAPKM_API int capkm_host_cleanup(struct capkm_host *host, uint64_t stream,
				 struct capkm_error *err);

/* Counts of the slot's part of the memory pool. 0; -EINVAL, -E2BIG, -ENOMEM */
CAPKM_API int capkm_host_memory_query(struct capkm_host *host, uint64_t stream,
				      struct capkm_pool_stats *stats,
				      struct capkm_error *err);

/**
 * capkm_host_reset() - gives all memory back, used or not
 * @host: executor
 * @err: why not, or NULL
 *
 * Waits for all tasks, aborts all windows. Ids of memory are gone; graphs cannot be
 * replayed any more (-ESTALE) and wait to be destroyed. What a runtime does when its
 * memory is full of fragments, or its device was lost.
 *
 * Return: 0; -EDEADLK, -EAGAIN
 */
CAPKM_API int capkm_host_reset(struct capkm_host *host,
			       struct capkm_error *err);

/**
 * struct capkm_host_range - bytes of memory
 * @memory: id
 * @start: first byte
 * @end: first byte after the range; not above the size. 0 with @start 0: all
 */
struct capkm_host_range {
	uint64_t memory;
	uint64_t start;
	uint64_t end;
};

/**
 * capkm_host_find() - bytes of memory as the authority knows them
 * @host: executor
 * @range: bytes
 * @claim: filled, for calls of capkm.h
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EXDEV, -EINVAL
 */
CAPKM_API int capkm_host_find(struct capkm_host *host,
			      const struct capkm_host_range *range,
			      struct capkm_claim *claim,
			      struct capkm_error *err);

/* functions */

/**
 * struct capkm_host_arg - bytes that a launch uses
 * @range: which
 * @access: CAPKM_HOST_READ, CAPKM_HOST_WRITE, or both
 * @__reserved: must be 0
 */
struct capkm_host_arg {
	struct capkm_host_range range;
	uint32_t access;
	uint32_t __reserved;
};
#define CAPKM_HOST_READ		(1u << 0)
#define CAPKM_HOST_WRITE	(1u << 1)

/**
 * struct capkm_host_call - what a function is called with
 * @context: of the kernel
 * @grid: of the launch
 * @args_len: arguments of the launch
 * @args: address of the first byte of each
 * @bytes: size of each
 * @info: metadata of the launch, read only
 * @info_bytes: size of it
 * @why: where a function that fails may say why, of @why_size bytes, NUL-terminated
 * @why_size: size of @why
 */
struct capkm_host_call {
	void *context;
	uint32_t grid[3];
	uint32_t args_len;
	void *const *args;
	const uint64_t *bytes;
	const void *info;
	uint32_t info_bytes;
	uint32_t why_size;
	char *why;
};

/* The work of a launch, all of its grid. 0, or any other number: it failed. */
typedef int (*capkm_host_fn)(const struct capkm_host_call *call);

/**
 * struct capkm_host_kernel - a function that can be launched
 * @sz: sizeof(struct capkm_host_kernel)
 * @name: label of its scopes
 * @fn: function, or NULL with @compile
 * @compile: gives the function, at the first launch; once it has succeeded it is
 *	not called again. 0, or any other number and @why filled
 * @context: first argument of @compile, and in struct capkm_host_call
 */
struct capkm_host_kernel {
	size_t sz;
	const char *name;
	capkm_host_fn fn;
	int (*compile)(void *context, capkm_host_fn *fn, char *why,
		       size_t why_size);
	void *context;
};

/**
 * capkm_host_kernel_create() - makes a function known
 * @host: executor
 * @desc: name and function, copied
 * @kernel: its id
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (no name, neither or both of the functions), -ENOSPC, -ENOMEM
 */
CAPKM_API int capkm_host_kernel_create(struct capkm_host *host,
				       const struct capkm_host_kernel *desc,
				       uint64_t *kernel,
				       struct capkm_error *err);

/* Queued tasks and graphs keep it as long as they need. 0; -ENOENT, -EXDEV */
CAPKM_API int capkm_host_kernel_destroy(struct capkm_host *host,
					uint64_t kernel,
					struct capkm_error *err);

/**
 * struct capkm_host_launch - one launch
 * @sz: sizeof(struct capkm_host_launch)
 * @kernel: id
 * @args: bytes that it uses, in the order in which the function gets them
 * @args_len: length of @args
 * @info_bytes: size of @info
 * @info: metadata, copied, through the metadata cache; or NULL
 * @grid: an extent of 0 is no work at all: nothing is entered
 * @flags: CAPKM_HOST_LAUNCH_F_*
 * @grid_range: twelve bytes, aligned to 4, that hold the grid when the launch runs,
 *	which it reads; memory 0: @grid counts. An empty grid enters nothing. In a
 *	graph the replay enters for all: if such a launch turns out to be empty, and
 *	what it would write was tainted before, the replay fails
 *
 * Arguments may overlap.
 */
struct capkm_host_launch {
	size_t sz;
	uint64_t kernel;
	const struct capkm_host_arg *args;
	uint32_t args_len;
	uint32_t info_bytes;
	const void *info;
	uint32_t grid[3];
	uint32_t flags;
	struct capkm_host_range grid_range;
};
/* Compiles and checks, runs and records nothing, and taints nothing when that fails. */
#define CAPKM_HOST_LAUNCH_F_DRY_RUN	(1u << 0)
/* Runs although an input is tainted; its outputs carry the input's failure. */
#define CAPKM_HOST_LAUNCH_F_POISON	(1u << 1)

/**
 * capkm_host_launch() - queues a launch or, in a window, records it
 * @host: executor
 * @stream: stream
 * @launch: the launch
 * @result: %CAPKM_CLEAN: queued or recorded. %CAPKM_TAINTED: it does not compile;
 *	what it would write carries that. Recorded only: %CAPKM_SKIPPED,
 *	%CAPKM_REFUSED: see capkm_scope_enter(). Or NULL
 * @err: why not, also when it does not compile; or NULL
 *
 * Return: 0; -ENOENT, -EXDEV, -EINVAL (a range outside of its memory: err->index
 * says which argument), -EMSGSIZE (arguments), -ENOEXEC (a dry run: it does not
 * compile), -EDEADLK (called by a function), -EAGAIN (a thread could not be
 * started), -ECANCELED (the window that recorded here was taken away), -ENOMEM.
 * Recorded only: see capkm_scope_enter()
 */
CAPKM_API int capkm_host_launch(struct capkm_host *host, uint64_t stream,
				const struct capkm_host_launch *launch,
				uint32_t *result, struct capkm_error *err);

/**
 * capkm_host_copy() - a launch that copies between memory
 * @host: executor
 * @stream: stream
 * @to: destination
 * @from: source, of the same size; the two must not overlap
 * @result: see capkm_host_launch()
 * @err: why not, or NULL
 *
 * Return: see capkm_host_launch()
 */
CAPKM_API int capkm_host_copy(struct capkm_host *host, uint64_t stream,
			      const struct capkm_host_range *to,
			      const struct capkm_host_range *from,
			      uint32_t *result, struct capkm_error *err);

/**
 * struct capkm_host_write - bytes to write
 * @to: destination
 * @data: source, as large as the destination; copied before the call returns
 */
struct capkm_host_write {
	struct capkm_host_range to;
	const void *data;
};

/**
 * capkm_host_write() - queues copies from the caller's memory
 * @host: executor
 * @stream: stream
 * @writes: each is a task, and fails, by itself
 * @len: length of @writes
 * @result: %CAPKM_CLEAN or, while a window records there, %CAPKM_REFUSED: nothing is
 *	written, the destinations are tainted with the refusal and, if it was the
 *	window's owner who wrote, the window is doomed. Or NULL
 * @err: why not, or why it was refused; or NULL
 *
 * Return: 0; -ENOENT, -EXDEV, -EINVAL (err->index says which), -EDEADLK, -ENOMEM:
 * nothing was queued; -EAGAIN (a thread could not be started): maybe some were;
 * -ECANCELED
 */
CAPKM_API int capkm_host_write(struct capkm_host *host, uint64_t stream,
			       const struct capkm_host_write *writes,
			       uint32_t len, uint32_t *result,
			       struct capkm_error *err);

/**
 * capkm_host_read() - copies bytes that can be trusted into the caller's memory
 * @host: executor
 * @stream: stream
 * @from: source
 * @data: destination, as large
 * @opts: report, retry_ms and %CAPKM_READ_OPTS_CONFIRMED, copy must be NULL; or NULL
 * @err: why not, or NULL
 *
 * Waits for the tasks issued before that write the bytes.
 *
 * Return: 0; -EBUSY (a window records there), -ESTALE (tainted), -EAGAIN (somebody
 * else writes them), -ENOENT, -EXDEV, -EINVAL, -EDEADLK, -ENOMEM
 */
CAPKM_API int capkm_host_read(struct capkm_host *host, uint64_t stream,
			      const struct capkm_host_range *from, void *data,
			      const struct capkm_read_opts *opts,
			      struct capkm_error *err);

/**
 * capkm_host_check() - may these bytes be read
 * @host: executor
 * @ranges: which
 * @len: length of @ranges
 * @answer: see capkm_check()
 * @err: why not, or NULL
 *
 * Waits for the tasks issued before that write the bytes.
 *
 * Return: 0, also when they are tainted; -ENOENT, -EXDEV, -EINVAL, -EDEADLK,
 * -EMSGSIZE, -ENOMEM
 */
CAPKM_API int capkm_host_check(struct capkm_host *host,
			       const struct capkm_host_range *ranges,
			       uint32_t len, struct capkm_answer *answer,
			       struct capkm_error *err);

/**
 * capkm_host_sync() - waits until all that was issued on the slot has run
 * @host: executor
 * @stream: stream
 * @err: why not, or NULL
 *
 * Return: 0, also when something failed; -EBUSY (a window records there), -EDEADLK,
 * -EAGAIN (a thread could not be started)
 */
CAPKM_API int capkm_host_sync(struct capkm_host *host, uint64_t stream,
			      struct capkm_error *err);

/* events */

/**
 * struct capkm_host_event - a place in the order of a slot; a value, nobody owns it
 * @host: executor
 * @window: window that recorded there, 0 if none did
 * @position: of the last task that was issued there
 * @slot: index of the slot
 * @__reserved: 0
 */
struct capkm_host_event {
	uint64_t host;
	uint64_t window;
	uint64_t position;
	uint32_t slot;
	uint32_t __reserved;
};

/**
 * capkm_host_event_record() - remembers what has been issued
 * @host: executor
 * @stream: stream
 * @event: filled
 * @err: why not, or NULL
 *
 * Return: 0; -EDEADLK
 */
CAPKM_API int capkm_host_event_record(struct capkm_host *host, uint64_t stream,
				      struct capkm_host_event *event,
				      struct capkm_error *err);

/**
 * capkm_host_event_wait() - what is issued from now on waits for an event
 * @host: executor
 * @stream: stream that waits
 * @event: of this executor
 * @err: why not, or NULL
 *
 * An event that was recorded in a window makes the stream's slot join that window
 * (capkm_window_join()): what is issued there is recorded too, until the window
 * is closed. If the window is closed already, there is nothing to wait for. A slot
 * that records cannot wait for an event from outside of its window: what the
 * window records does not run now.
 *
 * Return: 0; -EXDEV, -EINVAL (not an event; outside of the window; the window is doomed
 * or only prepared), -EBUSY (the slot has a window of its own, or is a member of
 * another one), -EDEADLK, -EAGAIN, -ENOMEM
 */
CAPKM_API int capkm_host_event_wait(struct capkm_host *host, uint64_t stream,
				    const struct capkm_host_event *event,
				    struct capkm_error *err);

/* Waits here. 0; -EXDEV, -EINVAL, -EBUSY (recorded in a window), -EDEADLK, -EAGAIN */
CAPKM_API int capkm_host_event_sync(struct capkm_host *host,
				    const struct capkm_host_event *event,
				    struct capkm_error *err);

/* profiles */

/**
 * struct capkm_host_profile - a measurement, the caller's
 * @start_ns: begin, CLOCK_MONOTONIC
 * @ns: how long it took, from begin to end
 * @failures: launches, copies and replays that failed or were skipped meanwhile
 * @before: those before the begin
 * @slot: index of the slot
 * @timed: 1 if @ns says something; 0: it was refused, for a window was recording at
 *	the begin or at the end
 */
struct capkm_host_profile {
	uint64_t start_ns;
	uint64_t ns;
	uint64_t failures;
	uint64_t before;
	uint32_t slot;
	uint32_t timed;
};
/* Waits for what was issued, then starts. 0, also when refused; -EDEADLK, -EAGAIN */
CAPKM_API int capkm_host_profile_begin(struct capkm_host *host, uint64_t stream,
				       struct capkm_host_profile *profile,
				       struct capkm_error *err);
/*
 * Waits for what was issued since; again, measures again from the begin on. 0; -EINVAL
 * (not begun there), -EDEADLK, -EAGAIN
 */
CAPKM_API int capkm_host_profile_end(struct capkm_host *host, uint64_t stream,
				     struct capkm_host_profile *profile,
				     struct capkm_error *err);

/* graphs */

/**
 * struct capkm_host_graph_opts - for capkm_host_graph_prepare()
 * @sz: sizeof(struct capkm_host_graph_opts)
 * @cookie: the caller's, kept with window and graph
 * @mode: shown to readers, or NULL
 * @flags: 0 or %CAPKM_WINDOW_PREPARE_F_STRICT
 * @sizes_len: length of @sizes
 * @sizes: working set that the recording will allocate, beside what the warm-up
 *	does; or NULL
 */
struct capkm_host_graph_opts {
	size_t sz;
	uint64_t cookie;
	const char *mode;
	uint32_t flags;
	uint32_t sizes_len;
	const uint64_t *sizes;
};

/**
 * capkm_host_graph_prepare() - a window; work still runs, as the warm-up
 * @host: executor
 * @stream: stream, which becomes the owner
 * @opts: options or NULL
 * @window: its id, or NULL
 * @err: why not ("graph_prepare: ..."), or NULL
 *
 * If the declared sizes cannot be had, there is no window, and what was had is
 * given back.
 *
 * Return: 0; see capkm_window_prepare() and capkm_pool_alloc(); -EDEADLK, -EAGAIN
 */
CAPKM_API int capkm_host_graph_prepare(struct capkm_host *host, uint64_t stream,
				       const struct capkm_host_graph_opts *opts,
				       uint64_t *window,
				       struct capkm_error *err);

/**
 * capkm_host_graph_begin() - runs the warm-up to its end, then records
 * @host: executor
 * @stream: stream
 * @err: why not ("begin_capture: ..."), or NULL
 *
 * If the warm-up cannot be run to its end (no thread, the context has faulted), the
 * window is aborted: prepare again.
 *
 * Return: 0; see capkm_window_begin(); -EIO (a fault), -EDEADLK, -EAGAIN
 */
CAPKM_API int capkm_host_graph_begin(struct capkm_host *host, uint64_t stream,
				     struct capkm_error *err);

/**
 * capkm_host_graph_end() - closes the window and makes a graph of it
 * @host: executor
 * @stream: stream; another one than the owner closes the window, and gets no graph
 * @graph: its id; 0 on error
 * @answer: see capkm_window_close(); or NULL
 * @err: why not ("end_capture: ..."), or NULL
 *
 * Afterwards the slot has no window, whatever came of it.
 *
 * Return: see capkm_window_close(); -EDEADLK
 */
CAPKM_API int capkm_host_graph_end(struct capkm_host *host, uint64_t stream,
				   uint64_t *graph, struct capkm_answer *answer,
				   struct capkm_error *err);

/* Gives the slot's window up, if it has one. 0; -EDEADLK */
CAPKM_API int capkm_host_graph_abort(struct capkm_host *host, uint64_t stream,
				     struct capkm_error *err);

/**
 * capkm_host_graph_replay() - queues what a graph recorded
 * @host: executor
 * @stream: any stream
 * @graph: id
 * @result: %CAPKM_CLEAN: queued. %CAPKM_REFUSED: a window records on the slot; what the
 *	graph writes is tainted, and the window is doomed. Or NULL
 * @err: why not, or NULL
 *
 * It runs with what its inputs hold then. If one of them is tainted it is skipped;
 * if one of its functions fails, all that it writes is tainted.
 *
 * Return: 0; -ENOENT (unknown or destroyed; 0, and the last window of the slot was
 * refused: the text has its first failure), -EXDEV, -ESTALE (an input was freed, or
 * the executor was reset: nothing has changed, capture again), -EDEADLK, -EAGAIN, -ENOMEM
 */
CAPKM_API int capkm_host_graph_replay(struct capkm_host *host, uint64_t stream,
				      uint64_t graph, uint32_t *result,
				      struct capkm_error *err);

/**
 * capkm_host_graph_destroy() - the caller does not need the graph any more
 * @host: executor
 * @graph: id; one that is unknown or destroyed is harmless
 * @err: why not, or NULL
 *
 * Replays that are queued still run.
 *
 * Return: 0; -EXDEV
 */
CAPKM_API int capkm_host_graph_destroy(struct capkm_host *host, uint64_t graph,
				       struct capkm_error *err);

/**
 * capkm_host_graph_find() - a graph as the authority knows it
 * @host: executor
 * @graph: id
 * @authority: its id there, for capkm_graph_query() and as capadm shows it
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT, -EXDEV
 */
CAPKM_API int capkm_host_graph_find(struct capkm_host *host, uint64_t graph,
				    uint64_t *authority,
				    struct capkm_error *err);

/**
 * struct capkm_host_stats - what an executor has
 * @sz: sizeof(struct capkm_host_stats)
 * @prepared: windows that are prepared
 * @recording: windows that record
 * @graphs: graphs that were not destroyed
 * @queued: tasks that wait or run
 * @ran: functions that ran
 * @failed: tasks that failed
 * @skipped: tasks that were skipped
 * @staged: host bytes of writes that wait to be freed, elements
 * @threads: worker threads
 */
struct capkm_host_stats {
	size_t sz;
	uint64_t prepared;
	uint64_t recording;
	uint64_t graphs;
	uint64_t queued;
	uint64_t ran;
	uint64_t failed;
	uint64_t skipped;
	uint64_t staged;
	uint64_t threads;
};
/* 0; -EINVAL, -E2BIG */
CAPKM_API int capkm_host_query(struct capkm_host *host,
			       struct capkm_host_stats *stats,
			       struct capkm_error *err);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_HOST_H */
