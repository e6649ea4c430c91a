/* SPDX-License-Identifier: MIT */
/*
 * What the files of the pool know of each other.
 *
 *	pool		all of it; one mutex protects everything below it
 *	 part		of a slot
 *	  area		one way to serve sizes; the first is the persistent one
 *	   page		of the backend; one buffer of the authority
 *	    slice	a range of the page; slices tile it, by address
 *	     handle	who has the slice
 *
 * A slice is in use while its handle was not freed, or is pinned. If not, it is on
 * its area's free list and can be handed out, unless a capture keeps it.
 */
#ifndef CAPKM_LIB_POOL_H
#define CAPKM_LIB_POOL_H

#include "../internal.h"
#include "../table.h"

#include <capkm/pool.h>
#include <pthread.h>
#include <sys/queue.h>

struct slice;

struct handle {
	uint64_t id;
	struct slice *slice;	/* NULL: none yet, or it was lost */
	uint64_t epoch;		/* of the pool when it got the slice */
	uint32_t pins;		/* of callers; graphs pin the slice */
	bool freed;		/* by its owner; gone when nobody pins it */
	bool reservation;	/* waits to be bound */
};

struct slice {
	TAILQ_ENTRY(slice) in_page;
	TAILQ_ENTRY(slice) in_free;	/* while @free; freed last, listed last */
	struct page *page;
	uint64_t start, bytes;	/* multiples of the alignment */
	uint64_t asked;		/* by the handle that has it */
	/* NULL, or while a capture keeps the slice perhaps one that was freed. */
	struct handle *user;
	uint32_t graph_pins;	/* of struct capkm_pool_pins */
	bool free;		/* may be handed out */
	bool touched;		/* by the capture that is armed */
};
TAILQ_HEAD(slice_list, slice);

/* At most UINT32_MAX. */
static inline uint32_t handle_pins(const struct handle *h)
{
	return h->pins + (h->slice ? h->slice->graph_pins : 0);
}

struct page {
	TAILQ_ENTRY(page) in_area;	/* in the order in which they came */
	struct area *area;
	struct slice_list slices;
	uint64_t buffer, address, bytes;
	uint64_t room;		/* of free slices */
	uint32_t idle;		/* EXCLUSIVE: how long it has not been used */
};
TAILQ_HEAD(page_list, page);
#define PAGE_IDLE_MAX	5u

/* A struct capkm_pool_area in which every size is said, and aligned. */
struct shape {
	const struct area_kind *kind;
	uint64_t page_bytes;
	uint64_t slice_max;
	uint64_t capacity;
	uint64_t period;
	uint64_t reclaim;
};

struct area {
	struct part *part;
	const struct shape *shape;
	struct page_list pages;
	struct slice_list free;
	uint64_t bytes;		/* of pages */
	uint64_t room;		/* of free slices */
	uint64_t average;	/* EXCLUSIVE: a hundred times the size asked for */
	uint64_t checked;	/* EXCLUSIVE: reservations at the last check */
};

enum { CAPTURE_NONE, CAPTURE_PRIMING, CAPTURE_RECORDING };

struct part {
	struct capkm_pool *pool;
	uint32_t slot;
	uint32_t capture;	/* CAPTURE_* */
	uint32_t persistent;	/* depth of the caller's begins */
	uint64_t reservations;
	uint64_t grown;		/* pages that came so far */
	struct area areas[];	/* one for each shape */
};

struct capkm_pool {
	struct capkm *c;
	uint64_t generation;	/* of the process that made it, see fork.c */
	struct capkm_pool_memory memory;
	char label[CAPKM_LABEL_MAX + 1];
	pthread_mutex_t mutex;	/* protects all that follows */
	struct table handles;
	_Atomic uint64_t epoch;	/* read without the mutex */
	struct shape *shapes;	/* persistent first; constant */
	uint32_t shapes_len;
	uint32_t slots;
	struct part *parts[];	/* of each slot, made when it is first used */
};

/* What is asked of an area. */
struct request {
	const char *call;
	struct capkm_error *err;
	uint64_t asked;
	uint64_t bytes;		/* with padding */
	bool shed;		/* the taint too: it gets a new identity */
	struct slice *rest;	/* for what a split leaves */
};

/* How an area makes slices. */
struct area_kind {
	bool splits;
	/* The next free slice that is large enough, in order of preference. */
	struct slice *(*next)(struct area *a, uint64_t bytes,
			      struct slice *after);
	/* Size of a new page for @bytes. */
	uint64_t (*page_bytes)(const struct area *a, uint64_t bytes);
	/* May be NULL: at each reservation; for each size; it is used again. */
	void (*tidy)(struct area *a);
	void (*asked)(struct area *a, uint64_t bytes);
	void (*reused)(struct page *page);
};
extern const struct area_kind capkm_area_sliced, capkm_area_exclusive,
	capkm_area_exact;

/* shape.c */

/* Rounds up to the alignment; false: no such number. */
bool capkm_pool_align(const struct capkm_pool *pool, uint64_t *bytes);
/* Fills shapes and shapes_len. */
int capkm_pool_shape(struct capkm_pool *pool,
		     const struct capkm_pool_opts *opts,
		     struct capkm_error *err);

/* area.c */

void capkm_area_init(struct area *a, struct part *part,
		     const struct shape *shape);
/* One free slice more, one less. */
void capkm_slice_put(struct slice *s);
void capkm_slice_get(struct slice *s);
bool capkm_slice_used(const struct slice *s);
/*
 * Its first @bytes serve something else from now on. -EBUSY: somebody still writes
 * them; nothing has changed.
 */
int capkm_slice_shed(const struct slice *s, uint64_t bytes);
/*
 * A slice that is off the free list. 1: the cap is reached; or an error, and then
 * nothing has changed.
 */
int capkm_area_reserve(struct area *a, struct request *r, struct slice **out);
/* Merges @s with the free slices behind it, as far as their taint can be shed. */
void capkm_slice_merge(struct slice *s);
/*
 * Gives a page that nobody uses back to the backend; false: somebody still writes
 * it, it stays.
 */
bool capkm_page_drop(struct page *page);
/* Whoever uses it. Its slices must have no handle. */
void capkm_page_free(struct page *page);
/* Drops all pages that nobody uses, and merges what is free of the others. */
void capkm_area_cleanup(struct area *a);

#define for_each_area(a, part)						\
	for ((a) = (part)->areas;					\
	     (a) < (part)->areas + (part)->pool->shapes_len; (a)++)
/* All slices of a part. */
#define for_each_slice(s, page, a, part)				\
	for_each_area(a, part)						\
		TAILQ_FOREACH(page, &(a)->pages, in_area)		\
			TAILQ_FOREACH(s, &(page)->slices, in_page)

/* pool.c */

/* Takes the mutex. -ECANCELED in a forked child. */
int capkm_pool_lock(struct capkm_pool *pool, const char *call,
		    struct capkm_error *err);
void capkm_pool_unlock(struct capkm_pool *pool);
/* Is the process another one than that which made the pool? */
bool capkm_pool_inherited(const struct capkm_pool *pool);
/* *@part is NULL if nothing was done on the slot so far. -EINVAL. */
int capkm_pool_find_part(struct capkm_pool *pool, uint32_t slot,
			 const char *call, struct part **part,
			 struct capkm_error *err);
int capkm_pool_make_part(struct capkm_pool *pool, uint32_t slot,
			 const char *call, struct part **part,
			 struct capkm_error *err);
/* If its owner and all who pinned it are done with it, it goes, and the slice is free. */
void capkm_handle_settle(struct capkm_pool *pool, struct handle *h);

/* capture.c */

/* Handed out, or bound, while a capture is armed. */
void capkm_capture_touch(struct slice *s);
/* Must a slice that nobody uses any more wait for the end of a capture? */
bool capkm_capture_keeps(const struct slice *s);

/* query.c */

/* In debug builds: ends the program if something is not as this file says. */
void capkm_pool_assert(struct capkm_pool *pool);

#endif /* CAPKM_LIB_POOL_H */
