// SPDX-License-Identifier: GPL-2.0-only
/* Captures: who takes part, and what breaks them. */
#include "sim.h"

#include <unistd.h>

#include <stdio.h>

struct captures captures = SLIST_HEAD_INITIALIZER(captures);

static char broken[4096];
static __thread int mode;	/* the thread's own: CU_MODE_GLOBAL */

EXPORT void capkm_standin_broke(char *text, size_t size);
void capkm_standin_broke(char *text, size_t size)
{
	pthread_mutex_lock(&lock);
	snprintf(text, size, "%s", broken);
	pthread_mutex_unlock(&lock);
}

EXPORT unsigned int capkm_standin_capturing(void);
unsigned int capkm_standin_capturing(void)
{
	struct stream *s;
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	SLIST_FOREACH(s, &streams, next)
		n += s->capture != NULL;
	pthread_mutex_unlock(&lock);
	return n;
}

void invalidate(struct capture *c, const char *name)
{
	const size_t n = strlen(broken);

	if (c->status == CU_CAPTURE_INVALIDATED)
		return;
	c->status = CU_CAPTURE_INVALIDATED;
	snprintf(broken + n, sizeof(broken) - n, "%s%s", n ? " " : "", name);
}

/* What the thread's own mode lets it do beside the captures that there are. */
static bool is_in_the_way(const struct capture *c)
{
	const bool mine = c->thread == thread_number();

	if (mode == CU_MODE_RELAXED || c->mode == CU_MODE_RELAXED)
		return false;
	return mine || (mode == CU_MODE_GLOBAL && c->mode == CU_MODE_GLOBAL);
}

int unsafe(const char *name)
{
	struct capture *c;
	int rc = 0;

	SLIST_FOREACH(c, &captures, next)
		if (is_in_the_way(c)) {
			invalidate(c, name);
			rc = UNSUPPORTED;
		}
	return rc;
}

struct capture *implicit(cu_context context)
{
	struct stream *s;

	SLIST_FOREACH(s, &streams, next)
		if (s->context == context && s->capture && !(s->flags & 1))
			return s->capture;
	return NULL;
}

int implicit_use(struct stream *s, const char *name)
{
	struct capture *c = s->legacy ? implicit(s->context) : NULL;

	if (!c)
		return 0;
	invalidate(c, name);
	return IMPLICIT;
}

int forbidden(struct stream *s, const char *name)
{
	if (!s->capture)
		return 0;
	invalidate(s->capture, name);
	return UNSUPPORTED;
}

void set_ends(struct stream *s, const cu_node *ends, size_t n)
{
	cu_node *copy = calloc(n + 1, sizeof(*copy));

	if (n)
		memcpy(copy, ends, n * sizeof(*copy));
	free(s->ends);
	s->ends = copy;
	s->ends_len = n;
}

struct capture *capture_by_id(uint64_t id)
{
	struct capture *c;

	SLIST_FOREACH(c, &captures, next)
		if (c->id == id)
			break;
	return c;
}

/* Its graph is the caller's. */
void capture_end(struct capture *c)
{
	struct stream *s;

	if (c->given && c->graph)
		c->graph->captured = false;
	SLIST_FOREACH(s, &streams, next)
		if (s->capture == c) {
			s->capture = NULL;
			set_ends(s, NULL, 0);
		}
	SLIST_REMOVE(&captures, c, capture, next);
	free(c);
}

void capture_orphan(cu_graph graph)
{
	struct capture *c;

	SLIST_FOREACH(c, &captures, next)
		if (c->graph == graph)
			c->graph = NULL;
}

/* The stream is destroyed. What it has recorded still has to be joined. */
void capture_leave(struct stream *s)
{
	struct capture *c = s->capture;

	if (c->origin == s) {
		if (!c->given)
			graph_free(c->graph);
		capture_end(c);
	} else {
		s->capture = NULL;
	}
}

CALL(cuThreadExchangeStreamCaptureMode, (int *exchanged), (exchanged))
{
	int old = mode;

	if (*exchanged < CU_MODE_GLOBAL || *exchanged > CU_MODE_RELAXED)
		return CU_INVALID_VALUE;
	mode = *exchanged;
	*exchanged = old;
	return 0;
}

static int begin(cu_stream stream, int how, struct capture **out)
{
	static uint64_t last;
	struct capture *c;
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc && (how < CU_MODE_GLOBAL || how > CU_MODE_RELAXED))
		rc = CU_INVALID_VALUE;
	if (!rc && s->legacy)
		rc = UNSUPPORTED;
	if (!rc && s->capture)
		rc = ILLEGAL_STATE;
	if (rc)
		return rc;
	c = calloc(1, sizeof(*c));
	c->id = ++last;
	c->mode = how;
	c->status = CU_CAPTURE_ACTIVE;
	c->thread = thread_number();
	c->origin = s;
	SLIST_INSERT_HEAD(&captures, c, next);
	s->capture = c;
	set_ends(s, NULL, 0);
	*out = c;
	return 0;
}

CALL(cuStreamBeginCapture, (cu_stream stream, int how), (stream, how))
{
	struct capture *c;
	int rc = begin(stream, how, &c);

	if (!rc)
		c->graph = graph_new();
	return rc;
}

/* The graph stays its owner's, whatever becomes of the capture. */
CALL(cuStreamBeginCaptureToGraph, (cu_stream stream, cu_graph graph,
				   const cu_node *dependencies, const void *edges,
				   size_t len, int how),
     (stream, graph, dependencies, edges, len, how))
{
	struct capture *c;
	int rc = is_graph(graph) && !graph->captured ? begin(stream, how, &c) :
						       CU_INVALID_VALUE;

	if (rc)
		return rc;
	c->graph = graph;
	c->given = true;
	c->before = graph->len;
	graph->captured = true;
	set_ends(c->origin, dependencies, len);
	return 0;
}

static void mark(const cu_node *nodes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (!nodes[i]->mark) {
			nodes[i]->mark = true;
			mark(nodes[i]->after, nodes[i]->after_len);
		}
}

/* Does all that was recorded come before the end of the origin? */
static bool is_joined(struct capture *c)
{
	size_t i = 0;
	cu_node node;

	TAILQ_FOREACH(node, &c->graph->nodes, next)
		node->mark = i++ < c->before;
	mark(c->origin->ends, c->origin->ends_len);
	TAILQ_FOREACH(node, &c->graph->nodes, next)
		if (!node->mark)
			return false;
	return true;
}

static int end_state(const struct stream *s)
{
	struct capture *c = s->capture;

	if (!c)
		return ILLEGAL_STATE;
	if (c->origin != s)
		return UNMATCHED;
	if (c->mode != CU_MODE_RELAXED && c->thread != thread_number())
		return WRONG_THREAD;
	if (c->status == CU_CAPTURE_INVALIDATED)
		return INVALIDATED;
	return is_joined(c) ? 0 : UNJOINED;
}

/* Long enough for other threads to make their mistakes. */
static void take_time(struct capture *c)
{
	c->ending = true;
	c->ender = thread_number();
	pthread_mutex_unlock(&lock);
	usleep(50);
	pthread_mutex_lock(&lock);
	c->ending = false;
}

CALL(cuStreamEndCapture, (cu_stream stream, cu_graph *graph), (stream, graph))
{
	struct capture *c;
	struct stream *s;
	int rc = stream_of(stream, &s), wish = wished_end();

	if (rc)
		return rc;
	*graph = NULL;
	if (s->capture)
		take_time(s->capture);
	rc = end_state(s);
	if (!rc)
		rc = wish;
	if (rc == UNMATCHED)
		invalidate(s->capture, "cuStreamEndCapture");
	if (rc == ILLEGAL_STATE || rc == UNMATCHED)
		return rc;
	c = s->capture;
	if (!c->graph)
		gone("graph that a body belongs to", stream);
	if (!rc)
		*graph = c->graph;
	else if (!c->given)
		graph_free(c->graph);
	else
		c->graph->freed = true;	/* its parent does not know that */
	capture_end(c);
	return rc;
}

static int status_of(cu_stream stream, struct stream **s)
{
	int rc = stream_of(stream, s);

	if (!rc && (*s)->legacy && implicit((*s)->context))
		return IMPLICIT;
	return rc;
}

CALL(cuStreamIsCapturing, (cu_stream stream, int *status), (stream, status))
{
	struct stream *s;
	int rc = status_of(stream, &s);

	if (!rc)
		*status = s->capture ? s->capture->status : CU_CAPTURE_NONE;
	return rc;
}

CALL(cuStreamGetCaptureInfo, (cu_stream stream, int *status, uint64_t *id,
			      cu_graph *graph, const cu_node **dependencies,
			      size_t *len),
     (stream, status, id, graph, dependencies, len))
{
	struct stream *s;
	struct capture *c;
	int rc = status_of(stream, &s);

	if (rc)
		return rc;
	c = s->capture;
	*status = c ? c->status : CU_CAPTURE_NONE;
	if (!c || c->status != CU_CAPTURE_ACTIVE)
		return 0;
	if (id)
		*id = c->id;
	if (graph)
		*graph = c->graph;
	if (dependencies)
		*dependencies = s->ends;
	if (len)
		*len = s->ends_len;
	return 0;
}

#define SET_DEPENDENCIES	1u

CALL(cuStreamUpdateCaptureDependencies, (cu_stream stream, cu_node *dependencies,
					 size_t len, unsigned int flags),
     (stream, dependencies, len, flags))
{
	struct stream *s;
	cu_node *all;
	size_t n;
	int rc = stream_of(stream, &s);

	if (!rc && !s->capture)
		rc = ILLEGAL_STATE;
	if (!rc && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (rc)
		return rc;
	n = flags & SET_DEPENDENCIES ? 0 : s->ends_len;
	all = calloc(n + len + 1, sizeof(*all));
	if (n)
		memcpy(all, s->ends, n * sizeof(*all));
	if (len)
		memcpy(all + n, dependencies, len * sizeof(*all));
	set_ends(s, all, n + len);
	free(all);
	return 0;
}
