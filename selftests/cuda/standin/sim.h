/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A stand-in for the CUDA driver, for tests where there is no GPU. Device memory is
 * memory of the process, kernels are C functions, each stream has a thread that runs
 * what is queued there. What the driver answers, and what breaks a capture, is as it was
 * seen on a GPU.
 *
 * One lock for everything: CALL() takes it. Work runs without it.
 */
#ifndef CAPKM_STANDIN_SIM_H
#define CAPKM_STANDIN_SIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "../nodes.h"
#include "standin.h"

#define EXPORT __attribute__((visibility("default")))

/* More CUresults than the bridge tells apart. */
enum {
	NOT_INITIALIZED		= 3,
	INVALID_DEVICE		= 101,
	INVALID_IMAGE		= 200,
	ILLEGAL_STATE		= 401,
	NOT_FOUND		= 500,
	NOT_PERMITTED		= 800,
	UNSUPPORTED		= 900,
	INVALIDATED		= 901,
	MERGE			= 902,
	UNMATCHED		= 903,
	UNJOINED		= 904,
	ISOLATION		= 905,
	IMPLICIT		= 906,
	CAPTURED_EVENT		= 907,
	WRONG_THREAD		= 908,
};

#define DECLARE(name, version, args) EXPORT int name args;
CU_CALLS(DECLARE, DECLARE)
#undef DECLARE

/* A function of the driver, its body under the lock. */
#define CALL(name, params, args)					\
static int do_##name params;						\
EXPORT int name params;							\
int name params								\
{									\
	int rc = enter(#name);						\
									\
	return rc ? rc : leave(do_##name args);				\
}									\
static int do_##name params

/* call.c */

extern pthread_mutex_t lock;
extern pthread_cond_t changed;	/* work was queued, or is done, or is wanted */

/* Callbacks must not call the driver. */
void callback(void (*fn)(void *), void *context);
int enter(const char *name);
/* What cuStreamEndCapture() is to answer, or 0. */
int wished_end(void);
int leave(int rc);
int environment(const char *name, int otherwise);

/* A number for each thread. */
unsigned int thread_number(void);

/* A handle of something that is gone: CUDA would crash, or worse. */
void gone(const char *what, const void *handle) __attribute__((noreturn));

/* Callbacks of user objects: at the end of the call, or by a thread of their own. */
void call_later(void (*fn)(void *), void *context);

/* context.c */

struct CUctx_st {
	SLIST_ENTRY(CUctx_st) next;
	unsigned long long id;
	int device, users;
	bool primary, dead;
	int faulted;	/* work has failed; nobody knows yet */
	int lost;	/* somebody does, and all calls say so */
	int polls;	/* that said NOT_READY since the fault */
	void *green;	/* the green context that it is of, or NULL */
};

extern int devices;
cu_context context_new(int device);
void context_end(cu_context context);
cu_context current(void);
/* The calling thread's, or an error. */
int need_context(cu_context *context);

/* stream.c */

/* Work, of a stream or of a graph's node. */
struct action {
	int type;		/* CU_NODE_*, or one of these */
#define WAIT	100
#define MARK	101
#define AWAIT	102
	union {
		struct {
			cu_function function;
			unsigned int grid[3], block[3], shared;
			void **params, **extra;
			unsigned char *bytes;
			size_t size;
		} kernel;
		struct {
			cu_address to, from;
			size_t bytes;
			void *staged;
			bool unified;
		} copy;
		struct {
			cu_address to;
			unsigned int value, width;
			size_t n;
		} set;
		struct {
			void (*fn)(void *);
			void *context;
		} host;
		struct {
			struct stream *stream;
			uint64_t sequence;
		} wait;
		struct {
			struct progress *of;	/* a reference */
			uint64_t n;
		} mark;
		struct {
			int type;
			unsigned int value, size;
			cu_graph *bodies;
		} conditional;
		struct {
			cu_address to;
			uint32_t value;
		} write;
		cu_graph graph;
		cu_address address;
	};
};

struct op {
	TAILQ_ENTRY(op) next;
	struct action action;
	struct body *body;	/* of an executable graph, instead */
};

struct stream {
	SLIST_ENTRY(stream) next;
	cu_stream handle;
	unsigned long long id;
	cu_context context;
	unsigned int flags, refs, thread;
	bool legacy, per_thread, started, dying;
	TAILQ_HEAD(, op) queue;
	uint64_t queued, done, wanted;
	struct capture *capture;
	cu_node *ends;		/* what the next node depends on */
	size_t ends_len;
};
SLIST_HEAD(streams, stream);
extern struct streams streams;

extern bool lazy;
struct stream *stream_get(struct stream *s);
void stream_put(struct stream *s);
/* The stream that a handle means. */
int stream_of(cu_stream handle, struct stream **s);
/* Queues it, or makes a node of it. The action is the callee's, whatever it returns. */
int issue(struct stream *s, struct action *action, const char *name);
int enqueue(struct stream *s, struct op *op);
int enqueue_wait(struct stream *s, struct stream *on, uint64_t sequence);
/* MARK: its record has happened; AWAIT: wait for that. Takes a reference of its own. */
int enqueue_mark(struct stream *s, int type, struct progress *of, uint64_t n);
/* It does not rest up to there. */
void want(struct stream *s, uint64_t sequence);
/* Until it has done so much: 0, or the context's error. */
int wait_for(struct stream *s, uint64_t sequence);
/* 0, NOT_READY, or the context's error. */
int poll_for(struct stream *s, uint64_t sequence);
/* What a context's failed work makes all calls say, from now on; or 0. */
int know(cu_context c);
/* For all work of a context. */
int drain(cu_context context);
void streams_end(cu_context context);
struct stream *stream_new(cu_context context, unsigned int flags);
cu_stream stream_handle(struct stream *s);
/* Without the lock. A CUresult. */
int run(const struct action *action);
void action_free(struct action *action);
void action_copy(struct action *to, const struct action *from);
void action_move(struct action *to, const struct action *from);

/* capture.c */

struct capture {
	SLIST_ENTRY(capture) next;
	uint64_t id;
	int mode, status;
	unsigned int thread;
	struct stream *origin;
	cu_graph graph;
	bool given;		/* the graph is somebody's, */
	size_t before;		/* and had so many nodes */
	bool ending;		/* by that thread */
	unsigned int ender;
};
SLIST_HEAD(captures, capture);
extern struct captures captures;

/* A call that CUDA calls potentially unsafe: 0, or 900 and captures are broken. */
int unsafe(const char *name);
void invalidate(struct capture *c, const char *name);
/* A capture of a blocking stream of the context. */
struct capture *implicit(cu_context context);
/* Of the legacy stream: 0, or 906, and such captures are broken. */
int implicit_use(struct stream *s, const char *name);
/* The stream takes part in a capture: a call on it that must not be. */
int forbidden(struct stream *s, const char *name);
void set_ends(struct stream *s, const cu_node *ends, size_t n);
void capture_leave(struct stream *s);
void capture_end(struct capture *c);
/* What a body is captured into goes, with the graph that its node is in. */
void capture_orphan(cu_graph graph);
/* An active capture, or NULL. */
struct capture *capture_by_id(uint64_t id);

/* event.c */

void events_end(cu_context context);

/* How far an interprocess event is: memory that processes share. */
struct progress {
	unsigned int refs;
	int fd;
	struct {
		uint64_t recorded, done;	/* records so far; the last that happened */
	} *at;
};
void progress_put(struct progress *of);
/* Without the lock. */
void progress_mark(struct progress *of, uint64_t n);
void progress_await(struct progress *of, uint64_t n);

struct CUevent_st {
	SLIST_ENTRY(CUevent_st) next;
	cu_context context;
	struct stream *stream;	/* recorded there, or NULL */
	uint64_t sequence;
	bool timed;
	uint64_t ns;		/* when it was recorded */
	uint64_t capture;	/* recorded in a capture */
	cu_node *ends;
	size_t ends_len;
	struct progress *progress;	/* of an interprocess one, or NULL */
};

/* graph.c */

struct CUgraphNode_st {
	TAILQ_ENTRY(CUgraphNode_st) next;
	struct action action;
	cu_node *after;
	size_t after_len;
	bool mark;
};

struct held {
	SLIST_ENTRY(held) next;
	cu_user_object object;
	unsigned int n;
};
SLIST_HEAD(held_list, held);

struct CUgraph_st {
	SLIST_ENTRY(CUgraph_st) next;
	TAILQ_HEAD(, CUgraphNode_st) nodes;
	size_t len;
	struct held_list held;
	bool child;		/* a node's */
	bool instantiated;
	bool captured;		/* nodes are put into it */
	bool freed;		/* a body whose capture ended with an error */
};

/* What an executable graph runs; it may run on after the graph was destroyed. */
struct body {
	unsigned int refs;
	cu_graph graph;
};

bool is_graph(cu_graph graph);
cu_graph graph_new(void);
void graph_free(cu_graph graph);
cu_graph graph_copy(cu_graph graph);
cu_node graph_add(cu_graph graph, struct action *action, const cu_node *after,
		  size_t n);
/* Without the lock. */
int run_graph(cu_graph graph);
void body_put(struct body *body);

/* memory.c */

/* ABSENT: a graph's, which it has not allocated yet, or has freed. */
enum kind { DEVICE, ASYNC, ABSENT, PINNED, MAPPED, OPENED };
struct chunk {
	SLIST_ENTRY(chunk) next;
	cu_address address;
	size_t bytes;
	enum kind kind;
	bool of_graph;			/* its address stays */
	bool held;			/* a launch was issued, a free was not */
	cu_context context;
	struct physical *physical;	/* MAPPED */
	unsigned int opens;		/* OPENED: of the same handle */
	struct cu_ipc_handle handle;	/* OPENED */
};
/* A process may open what is its own. */
extern bool ipc_here;
struct chunk *chunk_at(cu_address address);
bool on_device(cu_address address);
/* What nodes do; without the lock. CUresults. */
int run_alloc(cu_address address);
int run_free(cu_address address);
void memory_end(cu_context context);

/* module.c */

struct CUfunc_st {
	SLIST_ENTRY(CUfunc_st) next;
	const struct standin_kernel *kernel;
	size_t n, offsets[8], bytes;
	cu_context context;
};
void modules_end(cu_context context);
int run_kernel(const struct action *action);

#endif /* CAPKM_STANDIN_SIM_H */
