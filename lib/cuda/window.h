/* SPDX-License-Identifier: MIT */
/*
 * What the files that open and end windows know of each other:
 *
 *	window.c	whose a window is, and how it goes
 *	capture.c	prepare, begin, attach
 *	end.c		a window ends; what it recorded becomes a graph, or not
 *	update.c	... or is what another graph replays from now on
 *	body.c		windows of the bodies of conditional nodes
 *
 * Where a stream is passed together with its own window, it is claimed.
 */
#ifndef CAPKM_LIB_CUDA_WINDOW_H
#define CAPKM_LIB_CUDA_WINDOW_H

#include "cuda.h"

/* window.c */

/*
 * The authority has said that the stream is free: so @w is its own window now, and what it
 * had joined it has left. False: its last own window is still on its way out.
 */
bool capkm_window_set(struct capkm_cuda *cuda, struct stream *s,
		      struct window *w);
/* The window that has begun on the stream, or is prepared there: a reference, or NULL. */
struct window *capkm_window_own(struct capkm_cuda *cuda, struct stream *s);
/* No stream records in it any more. */
void capkm_window_detach(struct capkm_cuda *cuda, struct window *w);
/* The pool does not record any more what the stream's slot allocates. */
void capkm_window_disarm(struct capkm_cuda *cuda, const struct stream *s);
/* Waits for work that is being issued into the capture; no more will be. */
void capkm_window_stop_issue(struct window *w);
/* Ends it. CUresult; @raw: the graph, if there is one that may be touched. */
int capkm_window_end_capture(struct capkm_cuda *cuda, struct window *w,
			     cu_graph *raw);
/* Ends it, and destroys the graph. */
void capkm_window_discard_capture(struct capkm_cuda *cuda, struct window *w);
/* Aborts the window, ends its capture and those of its bodies, takes it off its stream. */
void capkm_window_drop(struct capkm_cuda *cuda, struct window *w);
/* Where a body of the window is prepared or records; a reference, or NULL. */
struct stream *capkm_window_body(struct capkm_cuda *cuda,
				 const struct window *w);
/* Awaits the claims of the bodies' streams; none begins meanwhile: issue was stopped. */
void capkm_window_drop_bodies(struct capkm_cuda *cuda, const struct window *w);

/* capture.c */

/*
 * Claims a stream whose capture, if it has one, is that of its own window; a reference,
 * which with the claim capkm_stream_release() gives back. -ENOENT, -EOPNOTSUPP, -EBUSY
 */
int capkm_stream_claim_idle(struct capkm_cuda *cuda, cu_stream handle,
			    const char *call, struct stream **s,
			    struct capkm_error *err);
void capkm_stream_release(struct capkm_cuda *cuda, struct stream *s);
/* Drops its window if the authority does not have that any more: it was abandoned. */
void capkm_stream_clear(struct capkm_cuda *cuda, struct stream *s);
/* Prepares @w, filled but for its id; it is the callee's. */
int capkm_window_prepare_on(struct capkm_cuda *cuda, struct stream *s,
			    struct window *w, uint64_t cookie, const char *call,
			    uint64_t *window, struct capkm_error *err);
/* Begins what was prepared. */
int capkm_window_begin_on(struct capkm_cuda *cuda, struct stream *s,
			  struct capkm_error *err);

/* end.c */

/* A closed window, on its way to be a graph. */
struct closing {
	struct capkm_cuda *cuda;
	struct window *window;
	struct capkm_window_end closed;
	struct graph *graph;	/* what it becomes; NULL: no memory */
	struct found found;
	struct capkm_answer *answer;
	struct capkm_error *err;
};

/* How a public function ends the own window of a stream. */
struct ending {
	const char *call;
	unsigned int nr;	/* CAPKM_NR_*, which knows the answer's results */
	/* Before the authority hears of it. @w: NULL if the bridge has prepared none. */
	int (*check)(struct capkm_cuda *cuda, const struct stream *s,
		     const struct window *w, const char *call, void *context,
		     struct capkm_error *err);
	/* Makes of the closed window what the caller wants. */
	int (*finish)(struct closing *c, void *context);
};

/* @answer gets what there is to say, also of a window that was refused. */
int capkm_end_on(struct capkm_cuda *cuda, cu_stream handle,
		 const struct ending *ending, void *context,
		 struct capkm_answer *answer, struct capkm_error *err);
/* -EINVAL: it is a body's. */
int capkm_end_check_no_body(const struct window *w, const char *call,
			    struct capkm_error *err);

/* These are for @finish. */

/*
 * Ends the driver's capture; the authority hears that, and why not if it failed, or if
 * there is no memory for what the window becomes.
 */
int capkm_end_capture(struct closing *c, cu_graph *raw);
/* Doomed or abandoned: sealing says so, and nothing else needs to be looked at. */
bool capkm_end_is_lost(const struct closing *c);
/* What the driver recorded is looked at before it is trusted. */
int capkm_end_inspect(struct closing *c, cu_graph raw);
int capkm_end_seal(struct closing *c);
/* After the seal: what the window kept, the graph keeps. */
void capkm_end_graph_keeps(struct closing *c);
/* It will be no graph: the authority hears why, and so does the caller. */
int capkm_end_refuse(struct closing *c, int rc, int code, const char *text);
int capkm_end_refuse_driver(struct closing *c, int result,
			    const char *function);
int capkm_end_refuse_found(struct closing *c, const char *text);
int capkm_end_no_memory(struct closing *c);
/* A graph that the authority does not have. */
void capkm_end_drop_graph(struct capkm_cuda *cuda, struct graph *g);

#endif /* CAPKM_LIB_CUDA_WINDOW_H */
