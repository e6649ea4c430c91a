/* SPDX-License-Identifier: MIT */
/*
 * What the files of the executor know of each other.
 *
 * One lock, host->lock, for all that is here. Below it are those of the metadata
 * cache and of the pools, and the authority's. A drop queue's lock is above it:
 * its callbacks take host->lock, so it is called without. No function of a kernel
 * is called under a lock.
 */
#ifndef CAPKM_LIB_HOST_H
#define CAPKM_LIB_HOST_H

#include <capkm/host.h>
#include <pthread.h>
#include <stdbool.h>

#include "internal.h"
#include "table.h"

struct slot;

/* A place in the order of a slot; position 0 is before everything. */
struct mark {
	uint32_t slot;
	uint64_t position;
};

/*
 * Memory of the executor. The struct lives as long as anybody refers to it, the
 * bytes as long as its owner has not freed them or somebody uses them.
 */
struct memory {
	uint64_t id;
	uint64_t pooled;		/* handle of the pool; 0: never allocated */
	struct capkm_claim claim;	/* all of it */
	char *address;
	uint32_t refs, uses;
	bool freed;
	struct mark written;		/* the last task that writes it */
	uint64_t read[];		/* by slot: the last task that reads it since */
};

struct kernel {
	uint64_t id;
	uint32_t refs;
	enum { SOURCE, COMPILING, COMPILED } state;
	capkm_host_fn fn;		/* once it is COMPILED */
	int (*compile)(void *context, capkm_host_fn *fn, char *why,
		       size_t why_size);
	void *context;
	char name[CAPKM_LABEL_MAX + 1];
};

struct use {
	struct memory *memory;
	uint32_t access;
};

/* Host bytes of a write, from its issue until the drop queue frees them. */
struct staged {
	struct capkm_dropped dropped;
	char data[];
};

/* A launch with all that it needs to run, now or later, once or often. */
struct dispatch {
	struct kernel *kernel;		/* a reference */
	uint64_t stream;		/* that issued it */
	uint32_t poison;		/* CAPKM_SCOPE_ENTER_F_POISON or 0 */
	uint32_t grid[3];
	bool has_grid;			/* in memory, at grid_at ... */
	const uint32_t *grid_at;	/* ... unless that was never allocated */
	bool stale;			/* replayed: outputs were tainted before */
	uint64_t metadata;		/* handle of host->metadata, pinned, or 0 */
	const void *info;
	uint32_t info_bytes;
	uint32_t args_len, uses_len, reads_len, writes_len;
	void **args;			/* the arrays are behind the struct */
	uint64_t *bytes;
	struct use *uses;		/* each holds a reference and a use */
	struct capkm_claim *reads, *writes;
};

struct graph {
	uint64_t id, authority, epoch;
	uint32_t refs;			/* its owner's and those of queued replays */
	struct mark replayed;		/* the last replay; there is one at a time */
	struct dispatch **list;
	uint32_t len, uses_len;
	struct use *uses;		/* each memory once; a reference, ... */
	struct capkm_pool_pins *pins, *metadata_pins;
};
/* ... and a use if it is written. Freed inputs cannot be replayed. */
#define USE_INPUT	(1u << 8)

/* A read is a task, so it has its place in the order. */
struct read_task {
	struct capkm_claim claim;
	void *data;
	const void *from;
	const struct capkm_read_opts *opts;
	struct capkm_error *err;
	int rc;
};

/* One of dispatch, graph and read; or none: it only waits. */
struct task {
	struct task *next;
	uint64_t stream;
	struct dispatch *dispatch;
	struct graph *graph;
	struct read_task *read;
	bool uncompiled;		/* dispatch: must not run */
	uint32_t ran;			/* functions that it ran */
	char why[CAPKM_TEXT_MAX + 1];	/* why it failed */
	uint64_t waits[];		/* by slot: position to wait for */
};

/* A window that the executor has prepared. Its members share it. */
struct recording {
	uint64_t window;
	uint32_t slot;			/* its own, where it was prepared */
	bool begun;
	bool lost;			/* somebody took the window away */
	int missed;			/* why a launch is not in it, if it is not doomed */
	struct dispatch **list;
	uint32_t len, capacity;
};

struct slot {
	struct capkm_host *host;
	uint32_t index;
	bool running;			/* it has a thread */
	pthread_t thread;
	pthread_cond_t work;
	struct task *first, **last;	/* the first one runs, if any does */
	uint64_t issued, done;		/* positions */
	uint64_t failed, skipped;	/* tasks */
	struct capkm_scope scope;	/* of the running task, while it is open */
	struct graph *replaying;	/* the same */
	struct recording *recording;
	uint64_t window;		/* the last one that was prepared here */
	struct capkm_drop_queue *drops;
};

struct capkm_host {
	struct capkm *c;
	uint64_t generation;		/* of the process that made it, see fork.c */
	struct capkm_pool *pool;	/* one slot of it for each of ours */
	struct capkm_pool *metadata;	/* the same, for the cache */
	struct capkm_cache *cache;
	uint32_t making;		/* slot that the cache makes a value for */
	uint32_t queue_max;
	uint32_t slots_len;

	pthread_mutex_t lock;
	pthread_cond_t progress;	/* some slot->done, or a thread, changed */
	bool stopping;
	bool untold;			/* lost work that nobody could be told of, ... */
	uint32_t untold_slot;		/* ... of this slot */
	uint64_t epoch;			/* of the last fault that was told */
	struct table memories, kernels, graphs;
	uint64_t ran;
	struct slot *slots[];		/* made when they are first used */
};

/* host.c */

/* Takes the lock, unless the call is not allowed here: -ECANCELED, -EDEADLK. */
int capkm_host_enter(struct capkm_host *host, const char *call,
		     struct capkm_error *err);
void capkm_host_leave(struct capkm_host *host);
/*
 * Is this a child of the process that made the executor? Also when it has joined the
 * session: the threads are the parent's, and so is all that the authority knows.
 */
bool capkm_host_inherited(const struct capkm_host *host);
/*
 * The slot that serves a stream, whose thread runs; @stream: 0 becomes the current
 * one. -EPERM, -ENOENT, -EAGAIN, -ENOMEM, -EDQUOT.
 */
int capkm_host_slot(struct capkm_host *host, const char *call, uint64_t *stream,
		    struct slot **out, struct capkm_error *err);
struct capkm_where capkm_host_where(uint64_t stream);
/* There is none for work that a call has to wait for. @rc */
int capkm_host_no_thread(int rc, const char *call, struct capkm_error *err);
/* -EXDEV or -ENOENT for an id that was not found. */
int capkm_host_unknown(const struct table *t, uint64_t id, const char *call,
		       const char *what, uint32_t index,
		       struct capkm_error *err);

/* launch.c */

/* -EBUSY if @what (enum capkm_refuse_what) is refused, for the slot records. */
int capkm_host_refuse(struct slot *slot, uint64_t stream, uint32_t what,
		      const char *call, struct capkm_error *err);

/* queue.c */

/* Starts the slot's thread if it has none. 0; -EAGAIN */
int capkm_slot_start(struct slot *slot);
/* Releases the lock while it waits. 0; -EAGAIN: there is no thread to wait for. */
int capkm_slot_wait(struct capkm_host *host, struct mark mark);
int capkm_slot_drain(struct slot *slot);
/* Lets the lock go for a moment, for there was no thread to wait for. */
void capkm_host_pause(struct capkm_host *host);
/* NULL: out of memory. */
struct task *capkm_task_new(struct capkm_host *host, uint64_t stream);
void capkm_task_free(struct capkm_host *host, struct task *task);
/* Appends a task that uses @uses; the queue must have room. */
struct mark capkm_task_issue(struct slot *slot, struct task *task,
			     const struct use *uses, uint32_t len);
/*
 * These wait: for room in the queue; until @mark, or what @uses would have to wait
 * for, has run. 1: the lock was released meanwhile, so look again; 0: no need to
 * wait; -EAGAIN.
 */
int capkm_slot_room(struct slot *slot);
int capkm_mark_settle(struct capkm_host *host, struct mark mark);
int capkm_uses_settle(struct capkm_host *host, const struct use *uses,
		      uint32_t len);
/* Does the calling thread run a function of this executor? */
bool capkm_host_is_inside(const struct capkm_host *host);
/* Functions that the thread is inside of: one may call another executor's. */
struct inside {
	const struct capkm_host *host;
	struct inside *outer;
};
void capkm_host_go_inside(struct inside *frame, const struct capkm_host *host);
void capkm_host_come_out(const struct inside *frame);

/* memory.c */

void capkm_memory_use(struct memory *m);
void capkm_memory_unuse(struct capkm_host *host, struct memory *m);
void capkm_memory_get(struct memory *m);
void capkm_memory_put(struct memory *m);
/* @range, resolved; an end of 0 becomes that of the memory. No reference. */
int capkm_memory_range(struct capkm_host *host, struct capkm_host_range *range,
		       const char *call, uint32_t index, struct memory **out,
		       struct capkm_error *err);
struct capkm_claim capkm_memory_claim(const struct memory *m,
				      const struct capkm_host_range *range);
/* Work on the slot has not run: its outputs are tainted, or all on the host is. */
void capkm_host_lost(struct slot *slot, const struct capkm_claim *claims,
		     uint32_t len, int rc, const char *text);
/* If that could not be done it is tried again; nothing goes on before. -EIO */
int capkm_host_tell(struct capkm_host *host, const char *call,
		    struct capkm_error *err);
/* Ends all memory; the struct's, too, that nobody refers to. */
void capkm_memory_reset(struct capkm_host *host);

/* dispatch.c */

/*
 * A dispatch of a launch: checked, resolved, with references to what it needs.
 */
int capkm_dispatch_new(struct capkm_host *host, struct slot *slot,
		       struct kernel *kernel, uint64_t stream,
		       const struct capkm_host_launch *launch,
		       const char *call, struct dispatch **out,
		       struct capkm_error *err);
void capkm_dispatch_free(struct capkm_host *host, struct dispatch *d);
/* Lets the memory that it uses go: its graph has what it needs. */
void capkm_dispatch_forget(struct capkm_host *host, struct dispatch *d);
/* Runs the function; not under the lock. 0, or what it returned, and @why filled. */
int capkm_dispatch_run(struct capkm_host *host, struct dispatch *d,
		       char *why, size_t why_size);
/* The kernels of the executor itself. */
extern struct kernel capkm_kernel_copy, capkm_kernel_write;
void capkm_kernel_put(struct kernel *k);
/*
 * Compiles it if need be, once; releases the lock meanwhile, so hold a reference.
 * 0, or not and @why filled.
 */
int capkm_kernel_compile(struct capkm_host *host, struct kernel *k, char *why,
			 size_t why_size);

/* graph.c */

/* The recording that launches on the slot go into, or NULL. */
static inline struct recording *capkm_slot_records(const struct slot *slot)
{
	return slot->recording && slot->recording->begun ? slot->recording : NULL;
}

/*
 * Records a dispatch whose uses are settled; takes it over. @why: it does not
 * compile, else NULL.
 */
int capkm_recording_add(struct slot *slot, struct dispatch *d, const char *why,
			const char *call, uint32_t *result,
			struct capkm_error *err);
void capkm_graph_put(struct capkm_host *host, struct graph *g);
/* Runs a replay, on a worker; not under the lock. */
int capkm_graph_run(struct slot *slot, struct task *task);
/* Before a replay, on a worker: whose outputs are tainted? */
void capkm_graph_find_stale(struct slot *slot, struct graph *g);
/* The window that the slot's recording is of has gone. -ECANCELED */
int capkm_recording_lost(struct slot *slot, const char *call,
			 struct capkm_error *err);
/* What belongs in the window could not be recorded: a graph would lack it. */
void capkm_recording_doom(struct slot *slot, uint64_t stream,
			  const char *label, int rc);
/* Has the slot a window of its own, not as a member? */
static inline bool capkm_slot_is_origin(const struct slot *slot)
{
	return slot->recording && slot->recording->slot == slot->index;
}

/* Aborts the window that the slot is the origin of, and what it recorded. */
void capkm_recording_give_up(struct slot *slot);
/* A slot joins a recording. */
int capkm_recording_join(struct slot *slot, uint64_t stream,
			 struct recording *rec, struct capkm_error *err);

#endif /* CAPKM_LIB_HOST_H */
