/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A call on its way: from the caller's memory to the operation and back. */
#ifndef CAPKM_CALL_H
#define CAPKM_CALL_H

#include "op.h"

struct frame {
	struct call call;
	const struct op *op;
	const struct capkm_copier *copy;
	u64 addr;		/* of the caller's struct */
	u32 size;		/* as the caller knows it */
	u32 words;		/* that are left at room */
	u64 *room;		/* for the struct, then for its arrays */
	u32 bytes;		/* of all its arrays */
	u8 on_heap;		/* bit for each array */
	u8 outs;		/* the same of those that there may be an answer in */
};

/* Words that the struct of any operation fits in. */
#define ARG_WORDS	64u

/* NULL: there is no such operation. */
const struct op *ck_op(u32 nr);

static inline u32 *ck_frame_u32(struct frame *f, u16 offset)
{
	return (u32 *)((char *)f->call.arg + offset);
}

static inline u64 *ck_frame_u64(struct frame *f, u16 offset)
{
	return (u64 *)((char *)f->call.arg + offset);
}

/*
 * All but the arrays, of which those that the operation has are set with it: it is too
 * large to be cleared for each call.
 */
static inline void ck_frame_init(struct frame *f, const struct op *op, u64 addr)
{
	f->call.domain = NULL;
	f->call.client = NULL;
	f->call.say_error = false;
	f->call.limit = CAPKM_LIMIT_NONE;
	f->op = op;
	f->addr = addr;
	f->bytes = 0;
	f->on_heap = 0;
	f->outs = 0;
}

/*
 * Copies in the struct, to @f->room, which has place for it; then its arrays, those
 * that do not fit there on the heap, and tries whether the answer can be written.
 */
int ck_frame_get_struct(struct frame *f);
int ck_frame_get_arrays(struct frame *f);
/* Of an operation that needs a domain: takes its lock, gives it back. */
int ck_frame_lock(struct frame *f);
void ck_frame_unlock(struct frame *f);
/* With that lock, if it needs one. */
int ck_frame_run(struct frame *f);
/* Copies out what there is to say after @err; 0 or an error. */
int ck_frame_put(struct frame *f, int err);
/* Frees its arrays. */
void ck_frame_free_heap(struct frame *f);
static inline void ck_frame_free(struct frame *f)
{
	if (f->on_heap)
		ck_frame_free_heap(f);
}

#endif /* CAPKM_CALL_H */
