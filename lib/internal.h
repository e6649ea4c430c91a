/* SPDX-License-Identifier: MIT */
/* What the files of the library know of each other. */
#ifndef CAPKM_LIB_INTERNAL_H
#define CAPKM_LIB_INTERNAL_H

#include <capkm/capkm.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "fork.h"
#include "thread.h"
#include "transport.h"

#define RETRY_MS	1000u
#define MAX_STREAMS	32u		/* of a session that does not say */
#define DEVICE_NODE	"/dev/capkm"

struct fast;

/* Written while it is opened and, the ids, once by the attaching call. */
struct capkm {
	const struct capkm_transport *transport;
	void *state;			/* the transport's */
	_Atomic uint64_t generation;	/* process whose handle it is, see fork.c */
	uint32_t retry_ms;
	struct capkm_info info;
	_Atomic uint64_t domain;
	_Atomic uint64_t session;
	_Atomic uint32_t backend;
	_Atomic uint32_t max_streams;
	_Atomic bool has_executor;
	_Atomic(struct capkm_write_set *) spare;
	_Atomic(struct fast *) fast;	/* set once, or NULL */
	_Atomic bool fast_asked;	/* somebody has made it, or tried */
	_Atomic bool fast_off;
};

/* Of capkm_stream_current(): 0 until it was asked for; 0 while none is. */
extern HERE uint64_t capkm_stream_own, capkm_stream_pinned;

static inline uint64_t uptr(const void *p)
{
	return (uintptr_t)p;
}

/* fork.c */

/* What is said of a handle that was inherited. */
extern const char capkm_inherited_words[];
/* Has that of this process; set before any handle is made. */
extern uint64_t *capkm_process_word;
/* Is it that of this process? */
static inline bool capkm_is_generation(uint64_t generation)
{
	return __atomic_load_n(capkm_process_word, __ATOMIC_RELAXED) == generation;
}

static inline bool capkm_inherited(const struct capkm *c)
{
	return !capkm_is_generation(c->generation);
}

/* -ECANCELED, and @err filled, if it is. */
int capkm_not_inherited(const struct capkm *c, const char *call,
			struct capkm_error *err);

/* caller.c */

/*
 * Copies the caller's struct, whose first member is its size, into the @size
 * bytes at @known; NULL is all zero. -EINVAL, -E2BIG, and @err filled.
 */
int capkm_opts(void *known, size_t size, const void *given, const char *call,
	       struct capkm_error *err);
/* The other way: gives back what the caller's struct has room for, but its size. */
void capkm_opts_put(void *given, const void *known, size_t size);
/* Bytes of @text up to @max, cut between characters; NULL has none. */
uint32_t capkm_cut(const char *text, uint32_t max);
/* Fills @err and returns @rc. */
__attribute__((format(printf, 5, 6)))
int capkm_error_set(struct capkm_error *err, int rc, uint32_t index,
		    uint64_t failure, const char *format, ...);
/* "call: out of memory". -ENOMEM */
int capkm_no_memory(const char *call, struct capkm_error *err);
/* @err, which has been filled, also says which limit. */
void capkm_error_limit(struct capkm_error *err, uint32_t limit);
/* @err, which has been filled, also says what a driver answered. */
void capkm_error_code(struct capkm_error *err, int32_t code);

/* opts.c */

int capkm_cause(struct capkm_cause *known, const struct capkm_cause *given,
		unsigned int nr, struct capkm_error *err);
/* @given may be NULL. What is put back is what the caller's struct has room for. */
int capkm_answer_get(struct capkm_answer *known,
		     const struct capkm_answer *given, unsigned int nr,
		     struct capkm_error *err);
void capkm_answer_put(struct capkm_answer *given,
		      const struct capkm_answer *known);
int capkm_place(struct capkm_place *place, uint32_t *flags,
		const struct capkm_where *where, unsigned int nr,
		struct capkm_error *err);

struct text {
	char *data;
	size_t size;
	size_t len;		/* without the NUL; at least @size if cut */
};

/* error.c */

/* Name of an operation as its messages begin. */
const char *capkm_op_name(unsigned int nr);
/* What an errno means for an operation; @arg is its struct, or NULL. */
void capkm_means(struct text *t, const struct capkm *c, unsigned int nr, int rc,
		 const void *arg);
/* Limit that the struct of a refused operation names, or CAPKM_LIMIT_NONE. */
uint32_t capkm_limit_of(unsigned int nr, int rc, const void *arg);
/* The same with "operation: subject: what the errno means there". */
__attribute__((format(printf, 6, 7)))
int capkm_refuse(const struct capkm *c, struct capkm_error *err,
		 unsigned int nr, int rc, const void *arg, const char *subject,
		 ...);
/* Does capkm_call() and, if it fails, capkm_refuse(). */
#define capkm_do(c, nr, arg, err, ...)					\
({									\
	int do_rc = capkm_call(c, nr, arg);				\
	do_rc ? capkm_refuse(c, err, nr, do_rc, arg, __VA_ARGS__) : 0;	\
})

struct claims {
	const struct capkm_claim *reads;	/* or the only array */
	uint32_t reads_len;
	const struct capkm_claim *writes;
	uint32_t writes_len;
	const char *reads_name;
};
int capkm_refuse_claims(const struct capkm *c, struct capkm_error *err,
			unsigned int nr, int rc, const void *arg,
			uint32_t index, const struct claims *claims);

/* window.c */

/*
 * Seals a window that was ended, or explains why not: "end_capture: ...", -ESTALE; one
 * that cannot be sealed for want of something is refused. @answer has been looked at.
 */
int capkm_window_finish(struct capkm *c, const struct capkm_window_end *closed,
			uint64_t *graph, struct capkm_answer *answer,
			struct capkm_error *err);

/*
 * Why a window will be no graph, by the first of its reports, into @text; the failure.
 * 0: nothing is known of it, and @text is empty.
 */
uint64_t capkm_window_why(struct capkm *c, uint64_t window, char *text, size_t size);

/* limit.c */

/* Of the handle's domain or, while it has none, of a new one. */
int capkm_find_limit(const struct capkm *c, uint32_t limit, uint64_t *value);
/* What to do when it is reached, or NULL. */
const char *capkm_limit_advice(uint32_t limit);

/* text.c */

__attribute__((format(printf, 2, 3)))
void capkm_text_add(struct text *t, const char *format, ...);
/* Bytes of another process: up to a NUL or @max, control characters as '?'. */
void capkm_text_add_raw(struct text *t, const void *bytes, size_t max);

/* graph.c */

/* Calls @f with each claim of a graph. @flags: CAPKM_GRAPH_QUERY_F_* */
int capkm_graph_each_claim(struct capkm *c, uint64_t graph, uint32_t flags,
			   void (*f)(void *context,
				     const struct capkm_claim *claim),
			   void *context, struct capkm_error *err);

/* report.c */

void capkm_report_add(struct text *t, const struct capkm_report *r);

/* retry.c */

/* CLOCK_MONOTONIC. */
uint64_t capkm_now_ns(void);

struct retry {
	uint32_t ms;
	uint32_t step_us;
	uint64_t until_ns;
};
void capkm_retry_init(struct retry *r, const struct capkm *c, uint32_t ms);
/* Sleeps a little and returns true, or false when the time is over. */
bool capkm_retry_wait(struct retry *r);
/* The time is over; @why says who writes. -EAGAIN. */
int capkm_late(struct capkm_error *err, unsigned int nr, uint32_t ms,
	       const struct capkm_report *why);

/* write_set.c */

void capkm_write_set_free(struct capkm_write_set *set);

#endif /* CAPKM_LIB_INTERNAL_H */
