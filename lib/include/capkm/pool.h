/* SPDX-License-Identifier: MIT */
/*
 * libcapkm: memory pools, the metadata cache and the fenced drop queue: what a
 * runtime needs beside windows to make a capture replayable. They work over any
 * backend's memory (host, CUDA).
 */
#ifndef CAPKM_POOL_H
#define CAPKM_POOL_H

#include <capkm/capkm.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * DOC: Memory
 *
 * A pool takes pages from a backend and hands out slices of them. A page is one
 * buffer of the authority; a slice is a range of it, and so is its taint.
 *
 * Memory is named by an id, never reused: a handle. It is made by
 * capkm_pool_alloc(), or by capkm_pool_handle() and given a slice later by
 * capkm_pool_bind(). It is freed once, by its owner; an id that was freed, that
 * never had a slice, or that is another pool's is an error and nothing else.
 *
 * A slice is free when its handle was freed and nobody pins it. Work that was
 * issued and is not finished pins what it uses, and so does a graph. Freeing
 * sheds no taint: a free slice keeps it until the slice gets another handle, is
 * merged with its neighbours, or its page goes back to the backend.
 *
 * A pool has as many parts as a client has slots on the device: what is reserved
 * for slot n is used by work issued there, and its capture is armed by the window
 * there. Within a slot, the first area that accepts the size serves it.
 *
 * Threads: all functions may be called by any number of threads at once. A
 * pool's lock is held while the backend's functions run: they must not call the
 * pool. In a forked child they are -ECANCELED, as for the handle of the pool.
 */

struct capkm_pool;

/**
 * struct capkm_pool_memory - where a pool's pages come from
 * @sz: sizeof(struct capkm_pool_memory)
 * @device: UUID of the device, all zero for the host
 * @alignment: of every slice, not 0. A size is rounded up to a multiple of it
 * @page_max: largest page that the backend gives, 0 for any
 * @alloc: gives @bytes, a multiple of @alignment; 0 or a negative errno
 * @free: takes back what @alloc gave
 * @known: the page that @alloc gave is a buffer of the authority now; 0, or a negative
 *	errno, and then it is given back. Or NULL
 * @context: first argument of all three
 */
struct capkm_pool_memory {
	size_t sz;
	uint8_t device[16];
	uint64_t alignment;
	uint64_t page_max;
	int (*alloc)(void *context, uint64_t bytes, uint64_t *address);
	void (*free)(void *context, uint64_t address, uint64_t bytes);
	int (*known)(void *context, uint64_t address, uint64_t bytes,
		     uint64_t buffer);
	void *context;
};

/* Memory of the C library, aligned to 64 bytes; addresses are pointers. */
CAPKM_API const struct capkm_pool_memory *capkm_pool_host_memory(void);

/**
 * enum capkm_pool_kind - how an area makes slices
 * @CAPKM_POOL_SLICED: fixed pages, first fit; slices are split, and merged again
 * @CAPKM_POOL_EXCLUSIVE: a page for each slice, as large as sizes were lately;
 *	pages that stay free for long go back
 * @CAPKM_POOL_DIRECT: a page of exactly the size for each slice, reused for the
 *	same size
 *
 * Beside its areas each slot has a persistent area: pages of exactly the size,
 * reused for the same size only, which serves all that is asked for while a
 * capture is armed, or between capkm_pool_persistent_begin() and _end().
 */
enum capkm_pool_kind {
	CAPKM_POOL_SLICED	= 1,
	CAPKM_POOL_EXCLUSIVE	= 2,
	CAPKM_POOL_DIRECT	= 3,
};

/**
 * struct capkm_pool_area - one way to serve sizes
 * @kind: enum capkm_pool_kind
 * @__reserved: must be 0
 * @page_bytes: SLICED: of each page. EXCLUSIVE, DIRECT: of the largest page, 0 for
 *	the backend's page_max
 * @slice_max: largest size that it accepts, 0 for a whole page
 * @capacity: most bytes of all its pages, 0 for no cap. At least one page; a
 *	page that is larger than the cap shrinks to it
 * @period: EXCLUSIVE: reservations after which pages that stayed free are given
 *	back, 0 for never
 * @reclaim: DIRECT: free bytes above which a freed page goes back at the next
 *	reservation, 0 for never
 */
struct capkm_pool_area {
	uint32_t kind;
	uint32_t __reserved;
	uint64_t page_bytes;
	uint64_t slice_max;
	uint64_t capacity;
	uint64_t period;
	uint64_t reclaim;
};
#define CAPKM_POOL_AREAS_MAX	16

/**
 * enum capkm_pool_preset - areas for those who do not want to choose
 * @CAPKM_POOL_PRESET_SLICES: sliced pages of growing size, then direct
 * @CAPKM_POOL_PRESET_EXCLUSIVE: exclusive pages of growing size
 */
enum capkm_pool_preset {
	CAPKM_POOL_PRESET_SLICES	= 0,
	CAPKM_POOL_PRESET_EXCLUSIVE	= 1,
};

/**
 * struct capkm_pool_opts - for capkm_pool_create()
 * @sz: sizeof(struct capkm_pool_opts)
 * @areas: in the order in which they are asked, or NULL for the preset
 * @areas_len: length of @areas, at most %CAPKM_POOL_AREAS_MAX
 * @preset: enum capkm_pool_preset, read without @areas
 * @slots: slots that it serves, 0 for the session's max_streams
 * @flags: must be 0
 * @label: of its pages, shown to readers, or NULL
 */
struct capkm_pool_opts {
	size_t sz;
	const struct capkm_pool_area *areas;
	uint32_t areas_len;
	uint32_t preset;
	uint32_t slots;
	uint32_t flags;
	const char *label;
};

/**
 * capkm_pool_create() - a pool over a backend's memory
 * @c: attached handle, which must live longer; its pages are buffers there
 * @memory: where pages come from, copied
 * @opts: options or NULL
 * @out: the pool; untouched on error
 * @err: which area is wrong and why (err->index), or NULL
 *
 * Allocates no page yet.
 *
 * Return: 0; -EINVAL (no areas, a size of 0, a slice larger than its page, a cap
 * smaller than the alignment, a page larger than the backend's, more slots than the
 * session has), -EMSGSIZE (too many areas), -EOVERFLOW, -ENOSPC (pools of one
 * process), -ENOMEM, -E2BIG
 */
CAPKM_API int capkm_pool_create(struct capkm *c,
				const struct capkm_pool_memory *memory,
				const struct capkm_pool_opts *opts,
				struct capkm_pool **out,
				struct capkm_error *err);

/*
 * Gives all pages back, whoever has memory of it. No other call on the pool may
 * run or follow. NULL is fine.
 */
CAPKM_API void capkm_pool_destroy(struct capkm_pool *pool);

/**
 * capkm_pool_alloc() - memory: a reservation that is bound to a new handle
 * @pool: pool
 * @slot: which slot is going to use it
 * @bytes: size, not 0
 * @memory: handle
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL (size 0, slot out of range), -EMSGSIZE (no area accepts the
 * size), -ENOSPC (the cap of the last area that accepts it: size, capacity and
 * bytes in use are in the text), -ENOMEM, what the backend said. On error no memory
 * is taken; free slices may have been merged, and idle pages given back
 */
CAPKM_API int capkm_pool_alloc(struct capkm_pool *pool, uint32_t slot,
			       uint64_t bytes, uint64_t *memory,
			       struct capkm_error *err);

/**
 * capkm_pool_reserve() - a slice, for a handle that exists
 * @pool: pool
 * @slot: which slot is going to use it
 * @bytes: size, not 0
 * @reserved: a handle of its own, to be bound to another one, or freed. Its bytes
 *	carry what they carried before
 * @err: why not, or NULL
 *
 * Return: see capkm_pool_alloc()
 */
CAPKM_API int capkm_pool_reserve(struct capkm_pool *pool, uint32_t slot,
				 uint64_t bytes, uint64_t *reserved,
				 struct capkm_error *err);

/**
 * capkm_pool_handle() - a handle that has no memory yet
 * @pool: pool
 * @memory: handle
 * @err: why not, or NULL
 *
 * Return: 0; -ENOSPC (too many handles), -ENOMEM
 */
CAPKM_API int capkm_pool_handle(struct capkm_pool *pool, uint64_t *memory,
				struct capkm_error *err);

/**
 * capkm_pool_bind() - gives the slice of a reservation to a handle
 * @pool: pool
 * @reserved: of capkm_pool_reserve(), which is gone afterwards
 * @memory: of capkm_pool_handle(), without memory
 * @err: why not, or NULL
 *
 * The slice has a new identity: its taint is shed before.
 *
 * Return: 0; -ENOENT (which of the two, and why), -EINVAL (@memory has memory, or
 * @reserved is pinned), -EBUSY (an open scope writes the bytes), -ENOMEM
 */
CAPKM_API int capkm_pool_bind(struct capkm_pool *pool, uint64_t reserved,
			      uint64_t memory, struct capkm_error *err);

/**
 * capkm_pool_free() - its owner does not need the memory any more
 * @pool: pool
 * @memory: handle
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (freed already, never allocated, or another pool's)
 */
CAPKM_API int capkm_pool_free(struct capkm_pool *pool, uint64_t memory,
			      struct capkm_error *err);

/**
 * capkm_pool_pin() - the memory is in use: it is not reused before the unpin
 * @pool: pool
 * @memory: handle that was not freed, or that is pinned already
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT (no memory, or freed), -EOVERFLOW
 */
CAPKM_API int capkm_pool_pin(struct capkm_pool *pool, uint64_t memory,
			     struct capkm_error *err);

/**
 * capkm_pool_unpin() - undoes one capkm_pool_pin()
 * @pool: pool
 * @memory: handle, freed or not
 * @err: why not, or NULL
 *
 * Return: 0, also if capkm_pool_reset() took the memory away; -ENOENT, -EINVAL
 * (not pinned)
 */
CAPKM_API int capkm_pool_unpin(struct capkm_pool *pool, uint64_t memory,
			       struct capkm_error *err);

/**
 * struct capkm_pool_slice - what is behind a handle
 * @sz: sizeof(struct capkm_pool_slice)
 * @claim: the bytes in the authority: a range of the page's buffer, as long as
 *	was asked for
 * @address: of the first byte, as the backend counts
 * @padding: bytes behind it that the alignment costs
 * @epoch: of the pool when it was bound
 * @slot: that it was reserved for
 * @pins: how often it is pinned; 0: the owner alone has it, and may overwrite it
 *	in place
 * @touched: 1 if a capture that is armed has touched it
 * @__reserved: 0
 */
struct capkm_pool_slice {
	size_t sz;
	struct capkm_claim claim;
	uint64_t address;
	uint64_t padding;
	uint64_t epoch;
	uint32_t slot;
	uint32_t pins;
	uint32_t touched;
	uint32_t __reserved;
};

/**
 * capkm_pool_find() - the bytes behind a handle
 * @pool: pool
 * @memory: handle that was not freed
 * @slice: filled
 * @err: why not, or NULL
 *
 * Return: 0; -ENOENT: it never had memory, was freed, or is another pool's; never
 * the slice of somebody else
 */
CAPKM_API int capkm_pool_find(struct capkm_pool *pool, uint64_t memory,
			      struct capkm_pool_slice *slice,
			      struct capkm_error *err);

/**
 * capkm_pool_cleanup() - merges free slices and gives free pages back
 * @pool: pool
 * @slot: of this slot
 * @err: why not, or NULL
 *
 * Free pages of every area go back to the backend, with their taint. Does nothing
 * while a capture is armed on the slot. Without being asked, each reservation
 * gives back exclusive pages that stayed free for long.
 *
 * Return: 0; -EINVAL (slot out of range)
 */
CAPKM_API int capkm_pool_cleanup(struct capkm_pool *pool, uint32_t slot,
				 struct capkm_error *err);

/**
 * capkm_pool_reset() - the memory is lost: gives back all of it, used or not
 * @pool: pool
 * @err: why not, or NULL
 *
 * For a device that was reset. Handles have no memory any more, pins count for
 * nothing, captures are disarmed, and the epoch advances: graphs that were
 * captured before must not be replayed (capkm_pool_epoch()).
 *
 * Return: 0
 */
CAPKM_API int capkm_pool_reset(struct capkm_pool *pool,
			       struct capkm_error *err);

/* How often capkm_pool_reset() was called: a graph of another epoch is stale. */
CAPKM_API uint64_t capkm_pool_epoch(struct capkm_pool *pool);

/**
 * capkm_pool_persistent_begin() - from now on, of the persistent area
 * @pool: pool
 * @slot: of this slot
 * @err: why not, or NULL
 *
 * For weights and the like. Nests: it ends with as many _end() as there were
 * begins. While a capture is armed it counts for afterwards.
 *
 * Return: 0; -EINVAL, -EOVERFLOW
 */
CAPKM_API int capkm_pool_persistent_begin(struct capkm_pool *pool,
					  uint32_t slot,
					  struct capkm_error *err);
/* One begin less; without any it changes nothing. */
CAPKM_API int capkm_pool_persistent_end(struct capkm_pool *pool, uint32_t slot,
					struct capkm_error *err);

/**
 * capkm_pool_capture_begin() - arms a capture: a window was prepared on the slot
 * @pool: pool
 * @slot: of the window
 * @err: why not, or NULL
 *
 * Everything is now served by the persistent area and noted as touched. Until
 * capkm_pool_priming_end() what is freed is not reused either, so that the
 * warm-up leaves as many slices as the recorded run will ask for. Armed already:
 * changes nothing.
 *
 * Return: 0; -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_pool_capture_begin(struct capkm_pool *pool, uint32_t slot,
				       struct capkm_error *err);

/**
 * capkm_pool_priming_end() - the warm-up is over, the window records now
 * @pool: pool
 * @slot: of the window
 * @err: why not, or NULL
 *
 * What the warm-up freed can be reused, each slice once: what the recorded run
 * frees is not handed out again before the window is closed, for a replay will
 * write it whoever has it then. If the area has to grow from now on, the
 * authority is asked (%CAPKM_REFUSE_ALLOCATE): on a hardware slot that dooms the
 * window. Not armed, or ended already: changes nothing.
 *
 * Return: 0; -EINVAL
 */
CAPKM_API int capkm_pool_priming_end(struct capkm_pool *pool, uint32_t slot,
				     struct capkm_error *err);

/* Slices that a graph keeps. */
struct capkm_pool_pins;

/**
 * capkm_pool_capture_end() - disarms: the window is closed
 * @pool: pool
 * @slot: of the window
 * @pins: pins on all slices that the capture touched, also those whose handle was
 *	freed, for the graph to keep; NULL to give them up. NULL comes back if
 *	nothing was touched or no capture is armed
 * @err: why not, or NULL
 *
 * The area is chosen as before the capture.
 *
 * Return: 0; -EINVAL; -ENOMEM: still armed
 */
CAPKM_API int capkm_pool_capture_end(struct capkm_pool *pool, uint32_t slot,
				     struct capkm_pool_pins **pins,
				     struct capkm_error *err);

/* Handles of the slices, valid as long as the pins, or until they are bound. NULL has none. */
CAPKM_API const uint64_t *
capkm_pool_pins_list(const struct capkm_pool_pins *pins, uint32_t *len);

/* Lets the slices go: before capkm_pool_destroy(). NULL is fine. */
CAPKM_API void capkm_pool_pins_put(struct capkm_pool_pins *pins);

/**
 * struct capkm_pool_stats - what a slot's part of a pool has
 * @sz: sizeof(struct capkm_pool_stats)
 * @bytes: of all pages
 * @used: of slices that are not free, without padding
 * @padding: of these slices
 * @free: of free slices, with padding
 * @pages: pages
 * @slices: slices that are not free
 * @carriers: slices, free or not, that carry a failure
 * @grown: pages that the backend has given so far
 * @epoch: see capkm_pool_epoch()
 * @persistent: depth of capkm_pool_persistent_begin()
 * @capture: 0, 1: armed and priming, 2: armed and recording
 */
struct capkm_pool_stats {
	size_t sz;
	uint64_t bytes;
	uint64_t used;
	uint64_t padding;
	uint64_t free;
	uint64_t pages;
	uint64_t slices;
	uint64_t carriers;
	uint64_t grown;
	uint64_t epoch;
	uint32_t persistent;
	uint32_t capture;
};

/**
 * capkm_pool_query() - counts of a slot's part of a pool
 * @pool: pool
 * @slot: of this slot
 * @stats: filled
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, -ENOMEM
 */
CAPKM_API int capkm_pool_query(struct capkm_pool *pool, uint32_t slot,
			       struct capkm_pool_stats *stats,
			       struct capkm_error *err);

/**
 * DOC: Metadata cache
 *
 * Small blocks of metadata (shapes, strides) that launches need on the device are
 * the same again and again. The cache keeps one value, such as a handle of a
 * pool, for each different block. A window's launches must find theirs at the
 * same place at each replay, so while a window is active (prepared or recording)
 * nothing that it touches is evicted, and its graph pins all of it.
 */

struct capkm_cache;

/**
 * struct capkm_cache_opts - for capkm_cache_create()
 * @sz: sizeof(struct capkm_cache_opts)
 * @entries: capacity outside of windows; 0 for no cache there
 * @bytes_max: largest block that is kept outside of windows
 * @make: a value for a block that the cache does not have; 0 or a negative errno
 * @drop: the cache does not need the value any more
 * @context: first argument of both
 */
struct capkm_cache_opts {
	size_t sz;
	uint32_t entries;
	uint32_t bytes_max;
	int (*make)(void *context, const void *block, uint32_t bytes,
		    uint64_t *value);
	void (*drop)(void *context, uint64_t value);
	void *context;
};
#define CAPKM_CACHE_ENTRIES	4096
#define CAPKM_CACHE_BYTES_MAX	2048

/**
 * capkm_cache_create() - an empty cache
 * @opts: options; @make and @drop must be there
 * @out: the cache
 * @err: why not, or NULL
 *
 * @make and @drop are called with the cache's lock held: they must not call it.
 *
 * Return: 0; -EINVAL, -ENOMEM, -E2BIG
 */
CAPKM_API int capkm_cache_create(const struct capkm_cache_opts *opts,
				 struct capkm_cache **out,
				 struct capkm_error *err);

/* Drops every value. NULL is fine. */
CAPKM_API void capkm_cache_destroy(struct capkm_cache *cache);

/**
 * capkm_cache_get() - the value for a block
 * @cache: cache
 * @window: window that is active where the launch is issued, 0 for none
 * @block: exactly these bytes are the key
 * @bytes: how many
 * @value: the value
 * @kept: 1: it is the cache's, and may be dropped at its next call, so pin it;
 *	0: nobody keeps it, the caller must drop it
 * @err: why not, or NULL
 *
 * Without a window: kept if it has at most bytes_max bytes; the least recently
 * used entry without a pin goes when the cache is full. With one: always kept,
 * and pinned for the graph that the window may become.
 *
 * Return: 0; -ENOMEM, what @make said
 */
CAPKM_API int capkm_cache_get(struct capkm_cache *cache, uint64_t window,
			      const void *block, uint32_t bytes,
			      uint64_t *value, int *kept,
			      struct capkm_error *err);

/* The window became a graph, which keeps its pins. Cannot fail. */
CAPKM_API void capkm_cache_commit(struct capkm_cache *cache, uint64_t window,
				  uint64_t graph);
/* The window did not: its pins go, the entries stay. */
CAPKM_API void capkm_cache_discard(struct capkm_cache *cache, uint64_t window);
/* The graph is gone: entries that nobody pins any more go. */
CAPKM_API void capkm_cache_release(struct capkm_cache *cache, uint64_t graph);
/* Drops all entries without a pin. */
CAPKM_API void capkm_cache_clear_unpinned(struct capkm_cache *cache);

/**
 * struct capkm_cache_stats - what a cache has
 * @sz: sizeof(struct capkm_cache_stats)
 * @entries: blocks kept
 * @pinned: of these, pinned
 * @pins: of all graphs and windows
 * @hits: values found
 * @misses: values made
 */
struct capkm_cache_stats {
	size_t sz;
	uint64_t entries;
	uint64_t pinned;
	uint64_t pins;
	uint64_t hits;
	uint64_t misses;
};
/* 0; -EINVAL, -E2BIG */
CAPKM_API int capkm_cache_query(struct capkm_cache *cache,
				struct capkm_cache_stats *stats,
				struct capkm_error *err);

/**
 * DOC: Fenced drop queue
 *
 * Host bytes that queued copies read can be freed when these copies are done. The
 * queue has two generations: what is pushed is staged; a flush waits for the
 * fence of the flush before, frees what was pending then, makes the staged bytes
 * pending, and sets a fence behind them. So it never waits for work that was
 * just issued. While a window records on a driver's stream it must not be flushed
 * (%CAPKM_REFUSE_SYNC); what recorded copies read is retained by the window
 * instead (capkm_window_retain()).
 */

struct capkm_drop_queue;

/**
 * struct capkm_dropped - host bytes that wait to be freed; part of the caller's struct
 * @next: the queue's
 * @bytes: how many, for the threshold
 * @free: frees them, and this struct with them
 */
struct capkm_dropped {
	struct capkm_dropped *next;
	uint64_t bytes;
	void (*free)(struct capkm_dropped *dropped);
};

/**
 * struct capkm_drop_opts - for capkm_drop_create()
 * @sz: sizeof(struct capkm_drop_opts)
 * @fence: sets a fence behind all work that was issued; 0 or a negative errno
 * @wait: waits for it, after which it is gone; 0 or a negative errno, and then it
 *	is waited for again at the next flush
 * @context: first argument of both
 */
struct capkm_drop_opts {
	size_t sz;
	int (*fence)(void *context, uint64_t *fence);
	int (*wait)(void *context, uint64_t fence);
	void *context;
};
#define CAPKM_DROP_COUNT	64
#define CAPKM_DROP_BYTES	(64ull << 20)

/**
 * capkm_drop_create() - an empty queue
 * @opts: options; @fence and @wait must be there
 * @out: the queue
 * @err: why not, or NULL
 *
 * Return: 0; -EINVAL, -ENOMEM, -E2BIG
 */
CAPKM_API int capkm_drop_create(const struct capkm_drop_opts *opts,
				struct capkm_drop_queue **out,
				struct capkm_error *err);

/* Frees all bytes without waiting: their readers must be done. NULL is fine. */
CAPKM_API void capkm_drop_destroy(struct capkm_drop_queue *queue);

/* The bytes are staged. Cannot fail. */
CAPKM_API void capkm_drop_push(struct capkm_drop_queue *queue,
			       struct capkm_dropped *dropped);

/* Have %CAPKM_DROP_COUNT or %CAPKM_DROP_BYTES been staged since the last flush? */
CAPKM_API int capkm_drop_should_flush(struct capkm_drop_queue *queue);

/**
 * capkm_drop_flush() - frees what was pending and is done
 * @queue: queue
 * @err: why not, or NULL
 *
 * Empty: sets no fence.
 *
 * Return: 0; what fence and wait said, and then nothing was freed that might
 * still be read
 */
CAPKM_API int capkm_drop_flush(struct capkm_drop_queue *queue,
			       struct capkm_error *err);
/* Flushes until it is empty: waits for all work issued so far. */
CAPKM_API int capkm_drop_drain(struct capkm_drop_queue *queue,
			       struct capkm_error *err);

/* Elements staged, and pending. */
CAPKM_API void capkm_drop_count(struct capkm_drop_queue *queue,
				uint64_t *staged, uint64_t *pending);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_POOL_H */
