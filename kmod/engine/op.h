/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a row of the table in ops.h says of an operation. */
#ifndef CAPKM_OP_H
#define CAPKM_OP_H

#include "internal.h"

/* Of linux/kernel.h: too short for a name that others may not use. */
#undef READ
#undef WRITE

enum access {
	FREE,		/* needs no domain; called without a lock */
	READ,		/* right r */
	READ_CLIENT,	/* right r, and only from a client */
	WRITE,		/* right w, and only from a client */
};

enum direction {
	NONE,
	IN,
	OUT,
	IN_KEEP,	/* in; memory that the op may keep; left out if there is none */
	OUT_SPARE,	/* out; left out if there is no memory */
};

struct op_array {
	u16 ptr, len, elem;
	u16 max;
	enum direction direction;
	bool claims;		/* each names a buffer */
};

static inline bool is_out(const struct op_array *desc)
{
	return desc->direction == OUT || desc->direction == OUT_SPARE;
}

/* What an id is of. In a SUBMIT one may refer to what an operation before has given. */
enum id_kind {
	ID_NONE,
	ID_STREAM,
	ID_BUFFER,
	ID_WINDOW,
	ID_SCOPE,
	ID_GRAPH,
	ID_REPLAY,		/* a graph that is being replayed */
	ID_FAILURE,
	ID_LEDGER,
};

struct op_id {
	enum id_kind kind;
	u16 at;			/* offset of the member */
};

#define OP_IDS		2
#define OP_GIVES	2

struct op {
	int (*fn)(struct call *c);
	u16 size;
	u32 flags;
	enum access access;
	bool probe;		/* before the change: can the answer be written? */
	u16 place;		/* offset of its struct capkm_place, or 0 */
	u16 error;		/* offset of what it says about an error, or 0 */
	u16 limit;		/* offset of out_limit, or 0 */
	u16 left;		/* offset of the time that is left on EINTR, or 0 */
	u16 reserved[2];	/* offsets of members that must be 0, or 0 */
	bool alone;		/* not in a SUBMIT */
	struct op_id ids[OP_IDS];	/* members, besides the stream of the place */
	struct op_id gives[OP_GIVES];	/* members that an id may refer to */
	u16 entered;		/* offset of a result: unless it is CLEAN, gives nothing */
	u16 leaves;		/* ids[0] was not entered: nothing to do. Offset of its outputs */
	struct op_array array[CALL_ARRAYS + 1];	/* the last of all has no direction */
};

#endif /* CAPKM_OP_H */
