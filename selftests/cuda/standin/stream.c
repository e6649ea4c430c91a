// SPDX-License-Identifier: GPL-2.0-only
/*
 * Streams: a queue and a thread each. A handle is a small thing of its own, so that it
 * can come back, as CUDA's do, while what it meant still runs.
 */
#include "sim.h"

struct CUstream_st {
	struct stream *stream;
	cu_stream next_free, next;
};

struct streams streams = SLIST_HEAD_INITIALIZER(streams);
bool lazy;

static cu_stream free_handles, handles;
static bool reuses = true;

EXPORT void capkm_standin_lazy(int on);
void capkm_standin_lazy(int on)
{
	pthread_mutex_lock(&lock);
	lazy = on;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

EXPORT void capkm_standin_reuse(int on);
void capkm_standin_reuse(int on)
{
	pthread_mutex_lock(&lock);
	reuses = on;
	pthread_mutex_unlock(&lock);
}

/* work */

/* Its value stays what it is, so a loop ends at once, or when the context does. */
static int run_conditional(const struct action *a)
{
	const unsigned int value = a->conditional.value;
	cu_graph *bodies = a->conditional.bodies;
	int rc = 0;

	switch (a->conditional.type) {
	case CU_COND_IF:
		if (value)
			return run_graph(bodies[0]);
		return a->conditional.size == 2 ? run_graph(bodies[1]) : 0;
	case CU_COND_WHILE:
		while (value && !rc)
			rc = run_graph(bodies[0]);
		return rc;
	default:
		return value < a->conditional.size ? run_graph(bodies[value]) : 0;
	}
}

int run(const struct action *a)
{
	size_t i;

	switch (a->type) {
	case CU_NODE_KERNEL:
		return run_kernel(a);
	case CU_NODE_MEMCPY:
		memmove((void *)(uintptr_t)a->copy.to,
			a->copy.staged ? a->copy.staged :
					 (void *)(uintptr_t)a->copy.from,
			a->copy.bytes);
		return 0;
	case CU_NODE_MEMSET:
		for (i = 0; i < a->set.n; i++)
			memcpy((char *)(uintptr_t)a->set.to + i * a->set.width,
			       &a->set.value, a->set.width);
		return 0;
	case CU_NODE_HOST:
		callback(a->host.fn, a->host.context);
		return 0;
	case CU_NODE_GRAPH:
		return run_graph(a->graph);
	case MARK:
		progress_mark(a->mark.of, a->mark.n);
		return 0;
	case AWAIT:
		progress_await(a->mark.of, a->mark.n);
		return 0;
	case CU_NODE_CONDITIONAL:
		return run_conditional(a);
	case CU_NODE_BATCH_MEM_OP:
		memcpy((void *)(uintptr_t)a->write.to, &a->write.value,
		       sizeof(a->write.value));
		return 0;
	case CU_NODE_MEM_ALLOC:
		return run_alloc(a->address);
	case CU_NODE_MEM_FREE:
		return run_free(a->address);
	default:
		return 0;
	}
}

static void conditional_free(struct action *a)
{
	unsigned int i;

	for (i = 0; i < a->conditional.size; i++)
		graph_free(a->conditional.bodies[i]);
	free(a->conditional.bodies);
}

static void conditional_copy(struct action *to, const struct action *from)
{
	unsigned int i;

	to->conditional.bodies = calloc(from->conditional.size, sizeof(cu_graph));
	for (i = 0; i < from->conditional.size; i++) {
		to->conditional.bodies[i] = graph_copy(from->conditional.bodies[i]);
		to->conditional.bodies[i]->child = true;
	}
}

void action_free(struct action *a)
{
	if (a->type == CU_NODE_KERNEL) {
		free(a->kernel.params);
		free(a->kernel.extra);
		free(a->kernel.bytes);
	} else if (a->type == CU_NODE_MEMCPY) {
		free(a->copy.staged);
	} else if (a->type == CU_NODE_GRAPH) {
		graph_free(a->graph);
	} else if (a->type == CU_NODE_CONDITIONAL) {
		conditional_free(a);
	} else if (a->type == WAIT) {
		stream_put(a->wait.stream);
	} else if (a->type == MARK || a->type == AWAIT) {
		progress_put(a->mark.of);
	}
}

static void *copy_of(const void *from, size_t bytes)
{
	void *to = malloc(bytes ? bytes : 1);

	return bytes ? memcpy(to, from, bytes) : to;
}

/* Pointers into the block of arguments go with it. */
static void kernel_copy(struct action *to, const struct action *from)
{
	size_t i;

	to->kernel.bytes = copy_of(from->kernel.bytes, from->kernel.size);
	if (from->kernel.params) {
		to->kernel.params = calloc(9, sizeof(void *));
		for (i = 0; i < to->kernel.function->n; i++)
			to->kernel.params[i] = to->kernel.bytes +
				to->kernel.function->offsets[i];
	}
	if (from->kernel.extra)
		to->kernel.extra = calloc(5, sizeof(void *));
}

/* In the order that libraries use. */
static void point_extra(struct action *a)
{
	void **e = a->kernel.extra;

	if (!e)
		return;
	e[0] = CU_EXTRA_SIZE;
	e[1] = &a->kernel.size;
	e[2] = CU_EXTRA_POINTER;
	e[3] = a->kernel.bytes;
}

/* Both stay where they are: a part of it is pointed at. */
void action_move(struct action *to, const struct action *from)
{
	*to = *from;
	if (to->type == CU_NODE_KERNEL)
		point_extra(to);
}

void action_copy(struct action *to, const struct action *from)
{
	*to = *from;
	if (from->type == CU_NODE_KERNEL) {
		kernel_copy(to, from);
		point_extra(to);
	} else if (from->type == CU_NODE_GRAPH) {
		to->graph = graph_copy(from->graph);
		to->graph->child = true;
	} else if (from->type == CU_NODE_CONDITIONAL) {
		conditional_copy(to, from);
	}
}

/* life */

struct stream *stream_get(struct stream *s)
{
	s->refs++;
	return s;
}

static void op_free(struct op *op)
{
	if (op->body)
		body_put(op->body);
	else
		action_free(&op->action);
	free(op);
}

void stream_put(struct stream *s)
{
	struct op *op;

	if (--s->refs)
		return;
	while ((op = TAILQ_FIRST(&s->queue))) {
		TAILQ_REMOVE(&s->queue, op, next);
		op_free(op);
	}
	free(s->ends);
	free(s);
}

static cu_stream handle_new(struct stream *s)
{
	cu_stream h = reuses ? free_handles : NULL;

	if (h) {
		free_handles = h->next_free;
	} else {
		h = calloc(1, sizeof(*h));
		h->next = handles;
		handles = h;
	}
	h->stream = s;
	return h;
}

struct stream *stream_new(cu_context context, unsigned int flags)
{
	static unsigned long long last;
	struct stream *s = calloc(1, sizeof(*s));

	s->id = ++last;
	s->refs = 1;
	s->context = context;
	s->flags = flags;
	TAILQ_INIT(&s->queue);
	SLIST_INSERT_HEAD(&streams, s, next);
	return s;
}

cu_stream stream_handle(struct stream *s)
{
	s->handle = handle_new(s);
	return s->handle;
}

static bool is_blocking(const struct stream *s)
{
	return !s->legacy && !(s->flags & 1);
}

/* NULL and 1 are the legacy stream, 2 the thread's own. */
static int default_of(cu_stream handle, struct stream **out)
{
	const bool per_thread = handle == CU_STREAM_IS_PER_THREAD;
	cu_context context;
	struct stream *s;
	int rc = need_context(&context);

	/* A green context has no stream for each thread. */
	if (!rc && per_thread && context->green)
		rc = CU_INVALID_HANDLE;
	if (rc)
		return rc;
	SLIST_FOREACH(s, &streams, next)
		if (s->context == context && !s->dying &&
		    (per_thread ? s->per_thread && s->thread == thread_number() :
				  s->legacy))
			break;
	if (!s) {
		s = stream_new(context, 0);
		s->handle = per_thread ? handle : CU_STREAM_IS_LEGACY;
		s->per_thread = per_thread;
		s->legacy = !per_thread;
		s->thread = thread_number();
	}
	*out = s;
	return 0;
}

int stream_of(cu_stream handle, struct stream **out)
{
	struct stream *s;

	if (!handle || handle == CU_STREAM_IS_LEGACY ||
	    handle == CU_STREAM_IS_PER_THREAD)
		return default_of(handle, out);
	SLIST_FOREACH(s, &streams, next)
		if (s->handle == handle && !s->dying)
			break;
	if (!s)
		gone("stream", handle);
	/* Seen on an H200: cuStreamGetCaptureInfo() reads what the end frees. */
	if (s->capture && s->capture->ending &&
	    s->capture->ender != thread_number())
		gone("capture (another thread ends it) on the stream", handle);
	*out = s;
	return s->context->lost;
}

static void stream_end(struct stream *s)
{
	cu_stream h = s->handle;

	if (s->capture)
		capture_leave(s);
	s->dying = true;
	SLIST_REMOVE(&streams, s, stream, next);
	if (!s->legacy && !s->per_thread) {
		h->stream = NULL;
		h->next_free = free_handles;
		free_handles = h;
	}
	pthread_cond_broadcast(&changed);
	stream_put(s);
}

void streams_end(cu_context context)
{
	struct stream *s, *next;

	for (s = SLIST_FIRST(&streams); s; s = next) {
		next = SLIST_NEXT(s, next);
		if (s->context == context)
			stream_end(s);
	}
}

/* the thread */

static bool is_runnable(const struct stream *s)
{
	return !TAILQ_EMPTY(&s->queue) && !s->context->faulted &&
	       (!lazy || s->dying || s->wanted > s->done);
}

void want(struct stream *s, uint64_t sequence)
{
	if (s->wanted >= sequence)
		return;
	s->wanted = sequence;
	pthread_cond_broadcast(&changed);
}

static int run_op(struct op *op)
{
	int rc;

	if (!op->body && op->action.type == WAIT)
		return wait_for(op->action.wait.stream,
				op->action.wait.sequence);
	pthread_mutex_unlock(&lock);
	rc = op->body ? run_graph(op->body->graph) : run(&op->action);
	pthread_mutex_lock(&lock);
	return rc;
}

/* Work that fails is never done, nor what is behind it. */
static void run_first(struct stream *s)
{
	struct op *op = TAILQ_FIRST(&s->queue);
	int rc = run_op(op);

	if (rc && !s->context->faulted)
		s->context->faulted = rc;
	if (!rc) {
		TAILQ_REMOVE(&s->queue, op, next);
		op_free(op);
		s->done++;
	}
	pthread_cond_broadcast(&changed);
}

static void *serve(void *context)
{
	struct stream *s = context;

	pthread_mutex_lock(&lock);
	for (;;) {
		if (is_runnable(s))
			run_first(s);
		else if (s->dying)
			break;
		else
			pthread_cond_wait(&changed, &lock);
	}
	stream_put(s);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int start(struct stream *s)
{
	pthread_t thread;

	if (s->started)
		return 0;
	if (pthread_create(&thread, NULL, serve, s))
		return CU_OUT_OF_MEMORY;
	pthread_detach(thread);
	stream_get(s);
	s->started = true;
	return 0;
}

/* queues */

static int append(struct stream *s, struct op *op)
{
	int rc = start(s);

	if (rc) {
		op_free(op);
		return rc;
	}
	TAILQ_INSERT_TAIL(&s->queue, op, next);
	s->queued++;
	pthread_cond_broadcast(&changed);
	return 0;
}

int enqueue_wait(struct stream *s, struct stream *on, uint64_t sequence)
{
	struct op *op;

	if (on == s || on->done >= sequence)
		return 0;
	op = calloc(1, sizeof(*op));
	op->action.type = WAIT;
	op->action.wait.stream = stream_get(on);
	op->action.wait.sequence = sequence;
	return append(s, op);
}

int enqueue_mark(struct stream *s, int type, struct progress *of, uint64_t n)
{
	struct op *op = calloc(1, sizeof(*op));

	of->refs++;
	op->action.type = type;
	op->action.mark.of = of;
	op->action.mark.n = n;
	return enqueue(s, op);
}

/* The legacy stream waits for blocking streams, and these for it. */
static int order(struct stream *s)
{
	struct stream *other;
	int rc = 0;

	SLIST_FOREACH(other, &streams, next)
		if (!rc && other->context == s->context &&
		    ((s->legacy && is_blocking(other)) ||
		     (is_blocking(s) && other->legacy)))
			rc = enqueue_wait(s, other, other->queued);
	return rc;
}

int enqueue(struct stream *s, struct op *op)
{
	int rc = order(s);

	if (!rc)
		return append(s, op);
	op_free(op);
	return rc;
}

int issue(struct stream *s, struct action *action, const char *name)
{
	int rc = implicit_use(s, name);
	cu_node node;
	struct op *op;

	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (rc) {
		action_free(action);
		return rc;
	}
	if (s->capture) {
		node = graph_add(s->capture->graph, action, s->ends,
				 s->ends_len);
		set_ends(s, &node, 1);
		return 0;
	}
	op = calloc(1, sizeof(*op));
	action_move(&op->action, action);
	return enqueue(s, op);
}

/* waiting */

int know(cu_context c)
{
	if (c->faulted)
		c->lost = c->faulted;
	return c->lost;
}

int wait_for(struct stream *s, uint64_t sequence)
{
	int rc;

	stream_get(s);
	want(s, sequence);
	while (s->done < sequence && !s->context->faulted &&
	       !(s->dying && !s->started))
		pthread_cond_wait(&changed, &lock);
	rc = s->done < sequence ? s->context->faulted : 0;
	stream_put(s);
	return rc;
}

int poll_for(struct stream *s, uint64_t sequence)
{
	want(s, sequence);
	if (s->done >= sequence)
		return s->context->lost;
	/* Not at once does the driver hear of it. */
	if (s->context->faulted && s->context->polls++)
		return know(s->context);
	return CU_NOT_READY;
}

int drain(cu_context context)
{
	struct stream *s;
	bool more = true;

	while (more && !context->faulted) {
		more = false;
		SLIST_FOREACH(s, &streams, next)
			if (s->context == context && s->done < s->queued)
				break;
		if (s) {
			more = true;
			wait_for(s, s->queued);
		}
	}
	return know(context);
}

/* calls */

CALL(cuStreamCreate, (cu_stream *stream, unsigned int flags), (stream, flags))
{
	cu_context context;
	struct stream *s;
	int rc = need_context(&context);

	if (rc)
		return rc;
	s = stream_new(context, flags);
	*stream = stream_handle(s);
	return 0;
}

CALL(cuStreamDestroy, (cu_stream stream), (stream))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc && (s->legacy || s->per_thread))
		rc = CU_INVALID_HANDLE;
	if (!rc)
		stream_end(s);
	return rc;
}

CALL(cuStreamGetId, (cu_stream stream, unsigned long long *id), (stream, id))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = forbidden(s, "cuStreamGetId");
	if (!rc)
		*id = s->id;
	return rc;
}

CALL(cuStreamGetFlags, (cu_stream stream, unsigned int *flags), (stream, flags))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = forbidden(s, "cuStreamGetFlags");
	if (!rc)
		*flags = s->flags;
	return rc;
}

CALL(cuStreamGetDevice, (cu_stream stream, cu_device *device), (stream, device))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = forbidden(s, "cuStreamGetDevice");
	if (!rc)
		*device = s->context->device;
	return rc;
}

CALL(cuStreamGetCtx, (cu_stream stream, cu_context *context), (stream, context))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (!rc)
		*context = s->context;
	return rc;
}

CALL(cuStreamGetGreenCtx, (cu_stream stream, void **green), (stream, green))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		*green = s->context->green;
	return rc;
}

/* May the stream be asked, or waited for, now? */
static int disturb(struct stream *s, const char *name)
{
	int rc = forbidden(s, name);

	if (!rc)
		rc = implicit_use(s, name);
	return rc ? rc : unsafe(name);
}

CALL(cuStreamQuery, (cu_stream stream), (stream))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = disturb(s, "cuStreamQuery");
	return rc ? rc : poll_for(s, s->queued);
}

/* Waits, and says what has become of the context. */
static int synchronize(struct stream *s)
{
	const cu_context context = s->context;
	struct stream *other;

	if (s->legacy)
		SLIST_FOREACH(other, &streams, next)
			if (other->context == context && is_blocking(other))
				enqueue_wait(s, other, other->queued);
	wait_for(s, s->queued);
	return know(context);
}

CALL(cuStreamSynchronize, (cu_stream stream), (stream))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = disturb(s, "cuStreamSynchronize");
	return rc ? rc : synchronize(s);
}

CALL(cuLaunchHostFunc, (cu_stream stream, void (*fn)(void *), void *context),
     (stream, fn, context))
{
	struct action a = { .type = CU_NODE_HOST };
	struct stream *s;
	int rc = stream_of(stream, &s);

	a.host.fn = fn;
	a.host.context = context;
	return rc ? rc : issue(s, &a, "cuLaunchHostFunc");
}
