// SPDX-License-Identifier: MIT
/* Bodies of conditional nodes: windows inside of a window. */
#include "window.h"

#include <inttypes.h>
#include <stdlib.h>

static int check_body(struct capkm_cuda *cuda, const struct capkm_cuda_body *b,
		      const char *call, struct capkm_error *err)
{
	const int version = cuda->cu.version;

	if (!cuda->cu.cuStreamBeginCaptureToGraph)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"%s: the driver is of CUDA %d.%d and lacks cuStreamBeginCaptureToGraph; CUDA 12.3 or newer is needed",
			call, version / 1000, version % 1000 / 10);
	if (!b->node || !b->graph || !b->bodies || b->__reserved)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a body has a node, a graph and the number of the node's bodies",
			call);
	return 0;
}

/* Was the graph recorded in the window before? Its nodes would count twice. */
static bool has_body(struct capkm_cuda *cuda, const struct window *w,
		     cu_graph graph)
{
	bool has = false;
	uint32_t i;

	pthread_mutex_lock(&cuda->lock);
	for (i = 0; i < w->children_len; i++)
		has |= w->children[i]->body.graph == graph;
	pthread_mutex_unlock(&cuda->lock);
	return has;
}

/* Can a body be captured on @s now, for the window that records on @p? */
static int check_parent(struct capkm_cuda *cuda, const struct stream *s,
			const struct stream *p, const struct capture *on,
			const struct capkm_cuda_body *b, const char *call,
			struct capkm_error *err)
{
	struct stream *other;

	if (s == p)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a body is captured on another stream than what it is in",
			call);
	if (on->how != RECORDS)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: no window records on the parent's stream", call);
	if (p->context != s->context)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the stream is of another context than the parent's",
			call);
	if (on->status != CU_CAPTURE_ACTIVE)
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: the parent's capture was invalidated; end it", call);
	if (has_body(cuda, on->window, b->graph))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the body was recorded already", call);
	other = capkm_window_body(cuda, on->window);
	if (!other)
		return 0;
	capkm_stream_put(cuda, other);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: another body of window %" PRIu64 " records; end it first",
		call, on->window->id);
}

/* No window begins there meanwhile; and one that is given up dooms its parent. */
static int check_scopes(struct capkm_cuda *cuda, const struct stream *s,
			const char *call, struct capkm_error *err)
{
	struct capkm_stream_query q;
	int rc = capkm_stream_state(cuda, s, &q, err);

	if (rc || !q.out_scopes)
		return rc;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: a scope or a replay is open on the stream", call);
}

/* The stream is claimed. */
static int body_begin(struct capkm_cuda *cuda, struct stream *s,
		      struct window *parent, const struct capkm_cuda_body *b,
		      uint64_t *window, const char *call,
		      struct capkm_error *err)
{
	struct window *w = calloc(1, sizeof(*w));
	uint64_t id;
	int rc;

	if (!w)
		return capkm_no_memory(call, err);
	w->flags = parent->flags;
	w->mode = parent->mode;
	w->parent = parent;
	w->body = (struct body){ b->graph, b->node, b->bodies };
	rc = capkm_window_prepare_on(cuda, s, w, 0, call, &id, err);
	if (rc)
		return rc;
	rc = capkm_window_begin_on(cuda, s, err);
	/* The authority may have refused it: the parent's end would wait for ever. */
	if (rc)
		capkm_stream_drop_window(cuda, s);
	else if (window)
		*window = id;
	return rc;
}

/* Nobody ends the parent's capture meanwhile: it is held. */
static int body_in(struct capkm_cuda *cuda, struct stream *s,
		   const struct capkm_cuda_body *b, uint64_t *window,
		   const char *call, struct capkm_error *err)
{
	struct capture on;
	struct stream *p;
	int rc = capkm_stream_get(cuda, b->parent, call, &p, &on, err);

	if (rc)
		return rc;
	rc = check_parent(cuda, s, p, &on, b, call, err);
	if (!rc)
		rc = body_begin(cuda, s, on.window, b, window, call, err);
	capkm_capture_put(cuda, &on);
	capkm_stream_put(cuda, p);
	return rc;
}

int capkm_cuda_body_begin(struct capkm_cuda *cuda, cu_stream handle,
			  const struct capkm_cuda_body *body, uint64_t *window,
			  struct capkm_error *err)
{
	const char *call = "cuda_body_begin";
	struct capkm_cuda_body b;
	struct stream *s;
	int rc = capkm_opts(&b, sizeof(b), body, call, err);

	if (!rc)
		rc = check_body(cuda, &b, call, err);
	if (!rc)
		rc = capkm_stream_claim_idle(cuda, handle, call, &s, err);
	if (rc)
		return rc;
	capkm_stream_clear(cuda, s);
	rc = check_scopes(cuda, s, call, err);
	if (!rc)
		rc = body_in(cuda, s, &b, window, call, err);
	capkm_stream_release(cuda, s);
	return rc;
}

static int keep_body(struct closing *c)
{
	int rc = capkm_end_inspect(c, c->window->body.graph);

	if (rc)
		return rc;
	c->graph->body = c->window->body;
	return capkm_window_keep(c->cuda, c->window->parent, c->graph) ?
		capkm_end_no_memory(c) : 0;
}

/* The parent keeps what it keeps, and knows what was found in it. */
static int finish_body(struct closing *c, void *context)
{
	cu_graph raw = NULL;	/* the body, which is its node's */
	int rc = capkm_end_capture(c, &raw);

	(void)context;
	if (!rc && !capkm_end_is_lost(c))
		rc = keep_body(c);
	if (!rc)
		rc = capkm_end_seal(c);
	if (rc)
		return rc;
	capkm_end_graph_keeps(c);
	capkm_end_drop_graph(c->cuda, c->graph);
	return 0;
}

static int check_is_body(struct capkm_cuda *cuda, const struct stream *s,
			 const struct window *w, const char *call, void *context,
			 struct capkm_error *err)
{
	(void)cuda;
	(void)s;
	(void)context;
	return w && w->parent ? 0 :
		capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: no body is captured on the stream", call);
}

int capkm_cuda_body_end(struct capkm_cuda *cuda, cu_stream handle,
			struct capkm_answer *answer, struct capkm_error *err)
{
	static const struct ending ending = {
		"cuda_body_end", CAPKM_NR_WINDOW_END, check_is_body, finish_body
	};

	return capkm_end_on(cuda, handle, &ending, NULL, answer, err);
}
