/* SPDX-License-Identifier: MIT */
/*
 * What the files of the bridge know of each other.
 *
 * One lock, cuda->lock, for the lists of this file and the references in them; it is a
 * leaf: under it neither the driver nor the authority is called. Streams, windows and
 * graphs carry references, so what a call has found stays while it works with it.
 * Contexts stay until the close. Whoever issues work into a capture holds window->issue
 * for reading, so that nobody ends the capture meanwhile: a driver does not survive that.
 * Whoever goes by a stream's not capturing is counted in stream->looks, so that no capture
 * begins there meanwhile; who is so does not look at another stream.
 *
 * A stream's own window is set, changed and taken by one call at a time, which has claimed
 * the stream; a second one is told -EBUSY. The windows of bodies go with their parent, so
 * what ends that awaits the claims of their streams, always from the outer to the inner
 * and with no issue held. (A body that could not begin is dropped with its parent's held,
 * but has no bodies to await.) The window that a stream has joined comes and goes under
 * the lock alone.
 */
#ifndef CAPKM_LIB_CUDA_H
#define CAPKM_LIB_CUDA_H

#include <capkm/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "driver.h"
#include "internal.h"

/* A context is known by its id: the handle may come back. Kept until the close. */
struct context {
	SLIST_ENTRY(context) next;
	cu_context handle;
	unsigned long long id;
	cu_device ordinal;
	uint8_t uuid[16];
	atomic_bool lost;	/* the authority knows; set under cuda->faulting */
};

struct stream {
	SLIST_ENTRY(stream) next;
	uint32_t refs;
	cu_stream handle;
	unsigned long long id;
	struct context *context;
	uint32_t slot;
	bool legacy;		/* the default stream, which cannot capture */
	bool per_thread;	/* of @thread only */
	pthread_t thread;
	/*
	 * Unbound, but it keeps its slot: it records in somebody's window, or its work is
	 * not confirmed.
	 */
	bool unbound;
	bool listed;
	bool changing;		/* claimed: a call changes its own window's state */
	uint32_t looks;		/* calls that found no begun window, and go by that ... */
	uint32_t waits;		/* ... of which some wait for the stream's work */
	bool beginning;		/* to capture, or it is unbound; none looks */
	struct window *window;	/* a reference: its own, or that it joined; or NULL */
};

/* How a stream is captured. */
struct capture {
	enum {
		NOT_CAPTURING,
		RECORDS,	/* in a window */
		CAPTURES,	/* without one */
	} how;
	struct window *window;	/* RECORDS: a reference, with its @issue */
	struct stream *looked;	/* else: counted in its @looks, ... */
	bool waits;		/* ... and @waits */
	int status;		/* CU_CAPTURE_*, as the driver has said */
	uint64_t id;		/* the driver's, of an active one */
};

/* Host memory that recorded copies may use, until the graph goes. */
struct retained {
	SLIST_ENTRY(retained) next;
	uint64_t address, bytes;
};
SLIST_HEAD(retained_list, retained);

/* Of which node a graph is a body. */
struct body {
	cu_graph graph;		/* the driver's, and its node's; NULL: it is none */
	cu_node node;
	uint32_t bodies;	/* that the node has */
};

/* A window that the bridge has prepared or attached to. */
struct window {
	uint32_t refs;		/* of streams that record in it, and of calls */
	uint64_t id;
	uint64_t stream;	/* the logical stream that owns it */
	struct stream *origin;
	struct window *parent;	/* a reference, of a body; or NULL */
	struct body body;
	uint32_t flags;		/* CAPKM_CUDA_GRAPH_F_* */
	int mode;		/* CU_MODE_* */
	bool attached;		/* somebody else ends the capture */
	bool begun;
	pthread_rwlock_t issue;
	bool ending;		/* its capture will be ended; by @issue */
	bool lacks_body;	/* its graph is not to be touched, see capkm_window_end_capture() */
	uint64_t capture;	/* the driver's id of it, once begun */
	struct retained_list retained;
	uint32_t retained_len;
	uint64_t *named;	/* buffers that scopes have named, sorted */
	uint32_t named_len, named_capacity;
	struct graph **children;	/* graphs and bodies in it, references */
	uint32_t children_len;
};

struct found {
	uint64_t nodes, kernels, copies, opaque, seen;
	uint64_t host_unchecked;	/* addresses ... */
	uint64_t host_unchecked_calls;	/* ... and nodes that call the host */
};

/* Also a body that has ended: what it keeps, for the graph that it is a part of. */
struct graph {
	SLIST_ENTRY(graph) next;
	uint32_t refs;		/* the list's, and of calls at work */
	uint64_t id;		/* the authority's; 0: a body */
	struct body body;
	uint64_t epoch;		/* of the pool */
	cu_graph raw;		/* NULL: its capture's owner has it */
	cu_exec exec;
	bool owned;		/* exec is ours */
	bool gone;		/* destroyed by the caller */
	bool broken;		/* half updated: it can only be destroyed */
	struct stream *stream;	/* of the last replay, a reference; or NULL */
	cu_event replayed;	/* behind it, ... */
	struct context *event_context;	/* ... of this context */
	bool unsure;		/* the event could not be recorded */
	struct retained_list retained;
	uint32_t retained_len;
	struct found found;
	uint64_t *inputs;	/* buffers that it needs from outside */
	uint32_t inputs_len;
	uint64_t looked;	/* when they were all there: cuda->ended */
	struct graph **children;	/* a reference each */
	uint32_t children_len;
	struct capkm_pool_pins *pins;
};

/* One buffer of the authority: device memory, known by its address. */
struct region {
	uint64_t address, bytes;
	uint64_t buffer;
	struct context *context;
	enum { ALLOCATED, ADOPTED, OPENED, POOLED } origin;
	bool dying;		/* freed, but a window or a graph uses it */
	void *extra;		/* OPENED: how it is closed again */
};

/* An event that the bridge has recorded, or that another process has, and exported. */
struct event {
	SLIST_ENTRY(event) next;
	cu_event handle;
	struct stream *stream;	/* a reference; NULL: of another process */
	uint64_t sequence;	/* of its slot */
	uint64_t window;	/* that it was recorded in, or 0 */
	bool exported;		/* so it stays with its stream */
	uint64_t client;	/* of another process: whose it is, ... */
	struct capkm_where where;	/* ... the slot, ... */
	struct context *context;	/* ... and where it was opened */
};

struct capkm_cuda {
	struct capkm *c;
	uint64_t generation;	/* of the process that opened it */
	struct cu_driver cu;
	bool per_thread;
	pthread_mutex_t lock;
	pthread_cond_t settled;	/* a stream's claim, looks or begin are over; with @lock */
	pthread_mutex_t faulting;	/* telling the authority of a lost context */
	pthread_mutex_t binding;	/* a stream; outside of all the others */
	SLIST_HEAD(context_list, context) contexts;
	SLIST_HEAD(stream_list, stream) streams;
	SLIST_HEAD(graph_list, graph) graphs;	/* that were not destroyed */
	SLIST_HEAD(, graph) late;	/* destroyed, while their stream captured */
	SLIST_HEAD(event_list, event) events;
	struct region **regions;	/* by address */
	uint32_t regions_len, regions_capacity;
	uint64_t ended;			/* times that memory was freed or taken out */
	struct page_source *sources;	/* of pools, until the close */
	struct capkm_pool *pool;
	struct capkm_cache *cache;
};

/* open.c */

/* -ECANCELED in a forked child. Every public function begins with it. */
int capkm_cuda_usable(struct capkm_cuda *cuda, const char *call,
		      struct capkm_error *err);
/*
 * What the driver answered: 0 for 0; else fills @err ("call: function: NAME (code):
 * text") and gives the errno of cuda.h's DOC. An answer after which the context is lost is
 * told to the authority first: so whatever a call that may see one has answered goes through
 * here, even if nobody else wants to know it. The context is the calling thread's, if the
 * bridge knows it, also where @stream is NULL; or that of @stream; or @context. Of a stream
 * that is not bound yet nothing is told: it may be another context's. A context is told
 * once: what is left of it says the same for ever, and may be destroyed when the device has
 * a new one.
 */
int capkm_cu_error(struct capkm_cuda *cuda, int result, const char *call,
		   const char *function, struct capkm_error *err);
int capkm_cu_error_on(struct capkm_cuda *cuda, const struct stream *stream,
		      int result, const char *call, const char *function,
		      struct capkm_error *err);
int capkm_cu_error_at(struct capkm_cuda *cuda, struct context *context,
		      int result, const char *call, const char *function,
		      struct capkm_error *err);
/*
 * The same of a call that was given what another process has sent, @what: if it is none
 * such, an H200's says CU_UNKNOWN or CU_MAP_FAILED, and the context is none the worse.
 */
int capkm_cu_error_sent(struct capkm_cuda *cuda, int result, const char *call,
			const char *function, const char *what,
			struct capkm_error *err);
/*
 * Work was issued in the context, or waited for, and the driver said 0: so it is not lost,
 * whatever it once said. @was_lost: context->lost from before the call, for a success that is
 * older than the loss says nothing.
 */
void capkm_context_works(struct context *context, bool was_lost);
#define cu_call(cuda, err, call, function, ...)				\
	capkm_cu_error(cuda, (cuda)->cu.function(__VA_ARGS__), call,	\
		       #function, err)
#define cu_call_on(cuda, stream, err, call, function, ...)		\
	capkm_cu_error_on(cuda, stream, (cuda)->cu.function(__VA_ARGS__), \
			  call, #function, err)
/* The driver's name of a result; never NULL. */
const char *capkm_cu_name(struct capkm_cuda *cuda, int result);
/* A cause of work that the driver refused or lost. @text: of @size bytes. */
void capkm_cu_cause(struct capkm_cuda *cuda, int result, const char *function,
		    struct capkm_cause *cause, char *text, size_t size);
/*
 * The calls between the two do not break a capture, whatever its mode and whoever's it
 * is; the value is for the second.
 */
int capkm_cu_relax(struct capkm_cuda *cuda);
void capkm_cu_restore(struct capkm_cuda *cuda, int mode);
/* An event without times, of that context. */
int capkm_cuda_event_new(struct capkm_cuda *cuda, struct context *context,
			 const char *call, cu_event *event,
			 struct capkm_error *err);
/* The calling thread's context. -EINVAL: it has none. */
int capkm_cuda_context(struct capkm_cuda *cuda, const char *call,
		       struct context **out, struct capkm_error *err);
/* Makes it current until the pop. */
int capkm_cuda_push(struct capkm_cuda *cuda, struct context *context,
		    const char *call, struct capkm_error *err);
void capkm_cuda_pop(struct capkm_cuda *cuda);

/* stream.c */

/*
 * A reference to a bound stream, which is still the one that was bound, and how it is
 * captured, which capkm_capture_put() gives back. A stream that the driver has made part
 * of a window's capture by itself joins the window. -ENOENT, -ESTALE, -EBUSY (the legacy
 * default stream while another one of the context captures), errors of the driver.
 */
int capkm_stream_get(struct capkm_cuda *cuda, cu_stream handle,
		     const char *call, struct stream **out,
		     struct capture *capture, struct capkm_error *err);
void capkm_capture_put(struct capkm_cuda *cuda, struct capture *capture);
/* Takes the window's @issue, until the put. -EBUSY: its end has begun; the put is done. */
int capkm_capture_hold(struct capkm_cuda *cuda, struct capture *capture,
		       const char *call, struct capkm_error *err);
/* The two halves of it: without a look at the driver, and only that. */
int capkm_stream_find(struct capkm_cuda *cuda, cu_stream handle,
		      const char *call, struct stream **out,
		      struct capkm_error *err);
int capkm_stream_look(struct capkm_cuda *cuda, struct stream *stream,
		      const char *call, struct capture *capture,
		      struct capkm_error *err);
/* Only whether it captures, CU_CAPTURE_*; what the stream is part of stays as it is. */
int capkm_stream_status(struct capkm_cuda *cuda, struct stream *stream,
			const char *call, int *status, struct capkm_error *err);
/* After a look that found no window: the caller is going to wait for the stream's work. */
void capkm_capture_waits(struct capkm_cuda *cuda, struct capture *capture);
/*
 * Around what makes the stream capture, or unbinds it: those who think that it does not
 * capture are done, and new ones wait. -EBUSY: one of those waits for the stream's work,
 * which may be long. The caller has no look at the stream.
 */
int capkm_stream_begins(struct capkm_cuda *cuda, struct stream *stream,
			const char *call, struct capkm_error *err);
void capkm_stream_begun(struct capkm_cuda *cuda, struct stream *stream);
void capkm_stream_put(struct capkm_cuda *cuda, struct stream *stream);
/* Not the default stream of another thread: a handle means the calling thread's. */
bool capkm_stream_is_mine(const struct stream *stream);
/*
 * Does it capture, and in which capture? Does not touch it. For whoever has claimed the
 * stream, or if it is not bound; others hold what they ask about, as above.
 */
int capkm_stream_ask(struct capkm_cuda *cuda, const struct stream *stream,
		     const char *call, int *status, uint64_t *id,
		     struct capkm_error *err);
/* The calling thread's logical stream on its slot. */
struct capkm_where capkm_stream_place(const struct stream *stream);
/* A stream of a window's capture records there, from now on. */
int capkm_stream_join(struct capkm_cuda *cuda, struct stream *stream,
		      struct window *window, struct capkm_error *err);
/* All bound and unbound streams of a context, references; malloc()ed. */
int capkm_streams_of(struct capkm_cuda *cuda, const struct context *context,
		     const char *call, struct stream ***out, uint32_t *len,
		     struct capkm_error *err);
void capkm_streams_put(struct capkm_cuda *cuda, struct stream **streams,
		       uint32_t len);
/* Unbound streams that have nothing to keep their slot for give it up. */
void capkm_streams_sweep(struct capkm_cuda *cuda);
/* Takes the right to change the stream's window. -EBUSY */
int capkm_stream_claim(struct capkm_cuda *cuda, struct stream *s,
		       const char *call, struct capkm_error *err);
/* The same, when whoever has it is done. */
void capkm_stream_await(struct capkm_cuda *cuda, struct stream *s);
void capkm_stream_unclaim(struct capkm_cuda *cuda, struct stream *s);
/* What the authority knows of the stream's slot. */
int capkm_stream_state(struct capkm_cuda *cuda, const struct stream *stream,
		       struct capkm_stream_query *q, struct capkm_error *err);
/* -EBUSY, with the owner's name, if the authority refuses @what now. */
int capkm_stream_refuse(struct capkm_cuda *cuda, const struct stream *stream,
			uint32_t what, const char *call,
			struct capkm_error *err);

/* memory.c */

/* Claims of several ranges. A launch has few, and allocates nothing for them. */
#define CLAIMS_FEW	16u
struct claims_of {
	struct capkm_claim *claims;	/* @few, or malloc()ed */
	uint32_t len;
	struct capkm_claim few[CLAIMS_FEW];
};

/* @index: of the first range in messages. After a success it is unresolved again. */
int capkm_cuda_resolve(struct capkm_cuda *cuda,
		       const struct capkm_cuda_range *ranges, uint32_t len,
		       uint32_t index, const char *call, struct claims_of *out,
		       struct capkm_error *err);
void capkm_cuda_unresolve(struct claims_of *of);
/* Is @address in known memory? Which buffer, or 0; from there to the buffer's end. */
uint64_t capkm_cuda_buffer_at(struct capkm_cuda *cuda, uint64_t address,
			      struct capkm_claim *rest);
/* Memory of another process, which ipc.c has opened. -EEXIST, -ENOMEM */
int capkm_cuda_add_opened(struct capkm_cuda *cuda, struct region *r,
			  const char *call, struct capkm_error *err);
/*
 * The first of @buffers that is freed or not there any more, or 0. If there was none at
 * @looked, and nothing has been freed since, none is looked for.
 */
uint64_t capkm_cuda_find_ended(struct capkm_cuda *cuda, const uint64_t *buffers,
			       uint32_t len, uint64_t *looked);
/* Windows or graphs have gone: frees what only they used. */
void capkm_cuda_sweep(struct capkm_cuda *cuda);
/* All of it, at the close. */
void capkm_cuda_memory_close(struct capkm_cuda *cuda);

/* ipc.c */

/* The driver's part of memory that was opened; its context is current. */
void capkm_ipc_close(struct capkm_cuda *cuda, struct region *r);

/* work.c */

/*
 * Enters a scope with claims. If the authority does not record it where the driver does,
 * or the other way, it must not be issued: -EBUSY.
 */
int capkm_work_enter(struct capkm_cuda *cuda, struct stream *stream,
		     const struct capture *capture, const char *call,
		     const struct capkm_claim *reads, uint32_t reads_len,
		     const struct capkm_claim *writes, uint32_t writes_len,
		     const struct capkm_scope_opts *opts,
		     struct capkm_scope *scope, struct capkm_report *why,
		     struct capkm_error *err);
/* The driver said @result when @function issued it. */
int capkm_work_end(struct capkm_cuda *cuda, struct stream *stream,
		   struct capkm_scope *scope, int result, const char *call,
		   const char *function, struct capkm_error *err);
void capkm_retained_free(struct retained_list *list);

/* sync.c */

/*
 * Waits for what the stream has been given, which is confirmed then, or lost. @on: the
 * caller's look at it, which found no capture; it is put before the wait.
 */
int capkm_stream_finish(struct capkm_cuda *cuda, struct stream *stream,
			struct capture *on, const char *call,
			struct capkm_error *err);
void capkm_cuda_events_close(struct capkm_cuda *cuda);

/* window.c */

void capkm_window_put(struct capkm_cuda *cuda, struct window *window);
/* What the graph keeps is the window's too, as long as it has the graph. -ENOMEM */
int capkm_window_keep(struct capkm_cuda *cuda, struct window *window,
		      struct graph *graph);
/*
 * Lets the own window of a stream go, if there is one: aborts it, and ends its capture and
 * those of its bodies. The stream is claimed.
 */
void capkm_stream_drop_window(struct capkm_cuda *cuda, struct stream *stream);

/* walk.c */

/* Adds buffers to those that the window's scopes have named. -ENOMEM */
int capkm_window_name(struct capkm_cuda *cuda, struct window *window,
		      const struct capkm_claim *claims, uint32_t len);
/*
 * Looks at all nodes of a graph: counts, and records known buffers that no scope of the
 * window named as seen. 1: the graph has memory nodes (@found is filled all the same).
 */
int capkm_graph_walk(struct capkm_cuda *cuda, struct window *window,
		     cu_graph graph, const char *call, struct found *found,
		     struct capkm_error *err);

/* graph.c */

/* Makes a graph known that the authority has just sealed; cannot fail. */
void capkm_cuda_graph_add(struct capkm_cuda *cuda, struct graph *g);
/* Which buffers it needs from outside. */
int capkm_cuda_graph_inputs(struct capkm_cuda *cuda, struct graph *g,
			    struct capkm_error *err);
/* A reference to a graph that was not destroyed. -ENOENT */
int capkm_cuda_graph_get(struct capkm_cuda *cuda, uint64_t id, const char *call,
			 struct graph **out, struct capkm_error *err);
void capkm_cuda_graph_put(struct capkm_cuda *cuda, struct graph *g);
void capkm_cuda_graphs_close(struct capkm_cuda *cuda);

#endif /* CAPKM_LIB_CUDA_H */
