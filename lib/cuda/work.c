// SPDX-License-Identifier: MIT
/* Work under scopes: what it reads is checked, what it writes is claimed, then it is issued. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The authority and the driver do not agree on what the stream does. */
static int mismatch(struct capkm_cuda *cuda, struct capkm_scope *scope,
		    const struct capture *capture, const char *call,
		    struct capkm_error *err)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.text = "it was not issued: its window is not what the driver captures");

	capkm_scope_fail(cuda->c, scope, &cause, NULL);
	if (capture->window)
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: window %" PRIu64 " was taken away while the stream captures; end or abort it",
			call, capture->window->id);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: a window that the bridge did not begin records on the stream's slot",
		call);
}

int capkm_work_enter(struct capkm_cuda *cuda, struct stream *stream,
		     const struct capture *capture, const char *call,
		     const struct capkm_claim *reads, uint32_t reads_len,
		     const struct capkm_claim *writes, uint32_t writes_len,
		     const struct capkm_scope_opts *opts,
		     struct capkm_scope *scope, struct capkm_report *why,
		     struct capkm_error *err)
{
	const struct capkm_where where = capkm_stream_place(stream);
	struct window *w = capture->window;
	int rc = 0;

	if (w)
		rc = capkm_window_name(cuda, w, reads, reads_len);
	if (!rc && w)
		rc = capkm_window_name(cuda, w, writes, writes_len);
	if (rc)
		return capkm_no_memory(call, err);
	rc = capkm_scope_enter(cuda->c, &where, reads, reads_len, writes,
			       writes_len, opts, scope, why, err);
	if (rc || !scope->id || scope->window == (w ? w->id : 0))
		return rc;
	return mismatch(cuda, scope, capture, call, err);
}

static int begin(struct capkm_cuda *cuda, struct stream *stream,
		 const struct capture *capture, const char *call,
		 const struct capkm_cuda_work *work, struct capkm_scope *scope,
		 struct capkm_report *why, struct capkm_error *err)
{
	const struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = work->label, .flags = work->flags,
		.retry_ms = work->retry_ms);
	struct claims_of reads, writes;
	int rc = capkm_cuda_resolve(cuda, work->reads, work->reads_len, 0, call,
				    &reads, err);

	if (rc)
		return rc;
	rc = capkm_cuda_resolve(cuda, work->writes, work->writes_len,
				work->reads_len, call, &writes, err);
	if (!rc) {
		rc = capkm_work_enter(cuda, stream, capture, call,
				      reads.claims, reads.len, writes.claims,
				      writes.len, &opts, scope, why, err);
		capkm_cuda_unresolve(&writes);
	}
	capkm_cuda_unresolve(&reads);
	return rc;
}

int capkm_work_end(struct capkm_cuda *cuda, struct stream *stream,
		   struct capkm_scope *scope, int result, const char *call,
		   const char *function, struct capkm_error *err)
{
	struct capkm_cause cause;
	char text[CAPKM_TEXT_MAX + 1];

	if (!result)
		return capkm_scope_exit(cuda->c, scope, 0, err);
	capkm_cu_cause(cuda, result, function, &cause, text, sizeof(text));
	capkm_scope_fail(cuda->c, scope, &cause, NULL);
	return capkm_cu_error_on(cuda, stream, result, call, function, err);
}

/* A reference to a stream that work can be issued on. */
static int get(struct capkm_cuda *cuda, cu_stream handle, const char *call,
	       struct stream **s, struct capture *capture,
	       struct capkm_error *err)
{
	int rc = capkm_stream_get(cuda, handle, call, s, capture, err);

	if (rc || capture->how != CAPTURES)
		return rc;
	capkm_stream_put(cuda, *s);
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: the stream captures without a window; cuda_graph_attach() makes one",
		call);
}

int capkm_cuda_scope_begin(struct capkm_cuda *cuda, cu_stream handle,
			   const struct capkm_cuda_work *work,
			   struct capkm_scope *scope, struct capkm_report *why,
			   struct capkm_error *err)
{
	const char *call = "cuda_scope_begin";
	struct capkm_cuda_work w;
	struct capture capture;
	struct stream *s;
	int rc = capkm_opts(&w, sizeof(w), work, call, err);

	if (!rc)
		rc = get(cuda, handle, call, &s, &capture, err);
	if (rc)
		return rc;
	rc = begin(cuda, s, &capture, call, &w, scope, why, err);
	capkm_capture_put(cuda, &capture);
	capkm_stream_put(cuda, s);
	return rc;
}

int capkm_cuda_scope_end(struct capkm_cuda *cuda, cu_stream handle,
			 struct capkm_scope *scope, int result,
			 struct capkm_error *err)
{
	const char *call = "cuda_scope_end";
	struct stream *s;
	int rc = capkm_stream_find(cuda, handle, call, &s, err);

	if (rc)
		return rc;
	if (!scope->id || !result)
		rc = capkm_scope_exit(cuda->c, scope, 0, err);
	else
		capkm_work_end(cuda, s, scope, result, call, "the work", NULL);
	capkm_stream_put(cuda, s);
	return rc;
}

/* One call of the driver under a scope: begin, issue, end. */
struct job {
	struct capkm_cuda *cuda;
	struct stream *stream;
	const char *call, *function;
	void *args;
	int (*issue)(struct job *job);
	struct capture capture;
	struct capkm_error *err;
};

static int get_job(struct job *job, cu_stream handle, struct capkm_error *err)
{
	job->err = err;
	return get(job->cuda, handle, job->call, &job->stream, &job->capture,
		   err);
}

/* What must run now is not recorded. The job's look keeps it from being until it is put. */
static int check_now(const struct job *job, struct capkm_error *err)
{
	if (!job->capture.window)
		return 0;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
		"%s: the stream records in window %" PRIu64 ", and this is to run now",
		job->call, job->capture.window->id);
}

static void put_job(struct job *job)
{
	capkm_capture_put(job->cuda, &job->capture);
	capkm_stream_put(job->cuda, job->stream);
}

static int run(struct job *job, const struct capkm_cuda_work *work,
	       uint32_t *result, struct capkm_error *err)
{
	struct capkm_scope scope;
	bool was_lost;
	int issued;
	int rc = begin(job->cuda, job->stream, &job->capture, job->call, work,
		       &scope, NULL, err);

	if (rc)
		return rc;
	if (result)
		*result = scope.result;
	if (!scope.id)
		return 0;
	was_lost = atomic_load(&job->stream->context->lost);
	issued = job->issue(job);
	/* Of what is recorded the device has not heard. */
	if (!issued && !job->capture.window)
		capkm_context_works(job->stream->context, was_lost);
	return capkm_work_end(job->cuda, job->stream, &scope, issued, job->call,
			      job->function, err);
}

static int issue_launch(struct job *job)
{
	const struct capkm_cuda_launch *l = job->args;

	return job->cuda->cu.cuLaunchKernel(l->function, l->grid[0], l->grid[1],
		l->grid[2], l->block[0], l->block[1], l->block[2], l->shared,
		job->stream->handle, l->params, l->extra);
}

int capkm_cuda_launch(struct capkm_cuda *cuda, cu_stream handle,
		      const struct capkm_cuda_launch *launch,
		      const struct capkm_cuda_work *work, uint32_t *result,
		      struct capkm_error *err)
{
	struct capkm_cuda_launch l;
	struct capkm_cuda_work w;
	struct job job = {
		.cuda = cuda, .call = "cuda_launch",
		.function = "cuLaunchKernel", .args = &l, .issue = issue_launch,
	};
	int rc = capkm_opts(&l, sizeof(l), launch, job.call, err);

	if (!rc)
		rc = capkm_opts(&w, sizeof(w), work, job.call, err);
	if (!rc && !l.function)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				     "cuda_launch: function is NULL");
	if (!rc && l.flags & ~CAPKM_CUDA_LAUNCH_F_NOW)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_launch: flags 0x%x; only CAPKM_CUDA_LAUNCH_F_NOW is known",
			l.flags);
	if (!rc)
		rc = get_job(&job, handle, err);
	if (rc)
		return rc;
	if (result)
		*result = CAPKM_CLEAN;
	if (l.flags & CAPKM_CUDA_LAUNCH_F_NOW)
		rc = check_now(&job, err);
	if (!rc && l.grid[0] && l.grid[1] && l.grid[2])
		rc = run(&job, &w, result, err);
	put_job(&job);
	return rc;
}

/* copies */

struct copying {
	struct capkm_cuda_copy copy;
	bool to_device, from_device;
	bool keep;		/* the host side, for the graph */
};

void capkm_retained_free(struct retained_list *list)
{
	struct retained *r;

	while ((r = SLIST_FIRST(list))) {
		SLIST_REMOVE_HEAD(list, next);
		free(r);
	}
}

/* What the driver calls when no graph can need the memory any more. */
struct keeper {
	void (*release)(void *context);
	void *context;
};

static void let_go(void *context)
{
	struct keeper *k = context;

	k->release(k->context);
	free(k);
}

/* It stays the caller's: the driver would not take it over. */
static void nobody(void *context)
{
	(void)context;
}

/*
 * The graph that is being captured, of bodies the outermost one: that is what is
 * instantiated. It is there as long as the window of a body is held.
 */
static int captured_graph(struct job *job, cu_graph *graph)
{
	const struct window *w = job->capture.window;
	cu_stream stream = job->stream->handle;
	uint64_t id;
	int status, result;

	for (; w->parent; w = w->parent)
		stream = w->parent->origin->handle;
	*graph = NULL;
	result = job->cuda->cu.cuStreamGetCaptureInfo(stream, &status, &id,
						      graph, NULL, NULL);
	return result || *graph ? result : CU_CAPTURE_INVALID;
}

/*
 * The graph that is being captured holds a reference, and so do all that come of it.
 * 0: the driver has @k. Else it is gone.
 */
static int give_to_graph(struct job *job, struct keeper *k)
{
	struct cu_driver *cu = &job->cuda->cu;
	cu_user_object object;
	cu_graph graph;
	int result = captured_graph(job, &graph);

	if (!result)
		result = cu->cuUserObjectCreate(&object, k, let_go, 1,
			CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	if (result) {
		free(k);
		return result;
	}
	result = cu->cuGraphRetainUserObject(graph, object, 1,
					     CU_GRAPH_USER_OBJECT_MOVE);
	if (result) {
		k->release = nobody;
		cu_call_on(job->cuda, job->stream, NULL, job->call,
			   cuUserObjectRelease, object, 1);
	}
	return result;
}

static int tell_authority(struct job *job, uint64_t address, uint64_t bytes,
			  bool read)
{
	const struct capkm_retained retained = {
		.address = address, .bytes = bytes,
		.mode = read ? CAPKM_RETAIN_READ : CAPKM_RETAIN_WRITE,
	};

	return capkm_window_retain(job->cuda->c, job->capture.window->id,
				   &retained, NULL);
}

/*
 * In a window the host side of a copy lives as long as the graph. Within the scope of
 * the copy: what fails here fails the copy, and dooms the window, which would lack it.
 */
static int retain(struct job *job, struct copying *c, struct keeper **out)
{
	const bool own = c->copy.flags & CAPKM_CUDA_COPY_F_OWN_COPY;
	struct window *w = job->capture.window;
	struct retained *r = calloc(1, sizeof(*r));
	struct keeper *k = malloc(sizeof(*k));
	void *copy = own ? malloc(c->copy.bytes ? c->copy.bytes : 1) : NULL;
	uint64_t *host = c->to_device ? &c->copy.from : &c->copy.to;
	int result;

	if (!r || !k || (own && !copy)) {
		free(r);
		free(k);
		free(copy);
		return CU_OUT_OF_MEMORY;
	}
	*k = (struct keeper){ c->copy.release, c->copy.context };
	if (own) {
		memcpy(copy, (const void *)(uintptr_t)*host, c->copy.bytes);
		*k = (struct keeper){ free, copy };
		*host = (uintptr_t)copy;
	}
	if (tell_authority(job, *host, c->copy.bytes, c->to_device)) {
		free(k);
		result = CU_OUT_OF_MEMORY;
	} else {
		result = give_to_graph(job, k);
	}
	if (result) {
		free(copy);
		free(r);
		return result;
	}
	*r = (struct retained){ .address = *host, .bytes = c->copy.bytes };
	pthread_mutex_lock(&job->cuda->lock);
	SLIST_INSERT_HEAD(&w->retained, r, next);
	w->retained_len++;
	pthread_mutex_unlock(&job->cuda->lock);
	*out = own ? NULL : k;
	return 0;
}

static int check_copy(struct capkm_cuda *cuda, struct copying *c,
		      struct capkm_error *err)
{
	const uint32_t own = CAPKM_CUDA_COPY_F_OWN_COPY;
	const uint32_t known = own | CAPKM_CUDA_COPY_F_NOW;
	struct capkm_claim rest;

	c->to_device = capkm_cuda_buffer_at(cuda, c->copy.to, &rest);
	c->from_device = capkm_cuda_buffer_at(cuda, c->copy.from, &rest);
	if (!c->to_device && !c->from_device)
		return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
			"cuda_copy: neither 0x%" PRIx64 " nor 0x%" PRIx64 " is in a known buffer; cuda_alloc() or cuda_adopt() makes memory known",
			c->copy.to, c->copy.from);
	if (c->copy.flags & ~known)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_copy: flags 0x%x; only 0x%x is known",
			c->copy.flags, known);
	if (c->copy.flags & own && (c->from_device || c->copy.release))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_copy: CAPKM_CUDA_COPY_F_OWN_COPY is for a source in host memory, without a release callback");
	return 0;
}

/*
 * Outside of a window the caller keeps host memory until the copy is done, as CUDA
 * wants it; a release then has nothing to wait for but the stream.
 */
static bool has_keeper(const struct copying *c)
{
	return c->copy.release || c->copy.flags & CAPKM_CUDA_COPY_F_OWN_COPY;
}

/* A copy that is not recorded keeps nothing: the memory stays the caller's. */
static int issue_copy(struct job *job)
{
	struct copying *c = job->args;
	struct keeper *k = NULL;
	int result = c->keep ? retain(job, c, &k) : 0;

	if (result)
		return result;
	result = job->cuda->cu.cuMemcpyAsync(c->copy.to, c->copy.from,
					     c->copy.bytes,
					     job->stream->handle);
	if (result && k)
		k->release = nobody;
	return result;
}

/* -ESTALE, with the root cause, unless all of it can be trusted. */
static int trust(struct capkm_cuda *cuda, const struct capkm_claim *claims,
		 uint32_t n, const char *call, struct capkm_error *err)
{
	struct capkm_report why;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &why, .reports_len = 1);
	char text[400];
	struct text t = { .data = text, .size = sizeof(text) };
	int rc = capkm_check(cuda->c, claims, n, &answer, err);

	if (rc || answer.out_result == CAPKM_CLEAN)
		return rc;
	capkm_report_add(&t, &why);
	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX, why.failure,
			       "%s: %s", call, text);
}

int capkm_cuda_check(struct capkm_cuda *cuda,
		     const struct capkm_cuda_range *range,
		     struct capkm_error *err)
{
	const char *call = "cuda_check";
	struct claims_of claims;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_cuda_resolve(cuda, range, 1, CAPKM_NO_INDEX, call,
					&claims, err);
	if (rc)
		return rc;
	rc = trust(cuda, claims.claims, claims.len, call, err);
	capkm_cuda_unresolve(&claims);
	return rc;
}

/* Into host memory only what can be trusted; recorded, each replay looks. */
static int check_source(struct job *job, const struct capkm_cuda_work *work,
			struct capkm_error *err)
{
	struct claims_of reads;
	int rc = capkm_cuda_resolve(job->cuda, work->reads, work->reads_len, 0,
				    job->call, &reads, err);

	if (rc)
		return rc;
	rc = trust(job->cuda, reads.claims, reads.len, job->call, err);
	capkm_cuda_unresolve(&reads);
	return rc;
}

static int do_copy(struct job *job, struct copying *c, uint32_t *result,
		   struct capkm_error *err)
{
	const struct capkm_cuda_range to = { c->copy.to, c->copy.bytes };
	const struct capkm_cuda_range from = { c->copy.from, c->copy.bytes };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = c->copy.label ? c->copy.label : "copy",
		.reads = &from, .reads_len = c->from_device,
		.writes = &to, .writes_len = c->to_device,
		.retry_ms = c->copy.retry_ms);
	int rc = 0;

	if (!c->to_device && !job->capture.window)
		rc = check_source(job, &work, err);
	c->keep = job->capture.window && has_keeper(c) &&
		  (!c->to_device || !c->from_device);
	return rc ? rc : run(job, &work, result, err);
}

int capkm_cuda_copy(struct capkm_cuda *cuda, cu_stream handle,
		    const struct capkm_cuda_copy *copy, uint32_t *result,
		    struct capkm_error *err)
{
	struct copying c;
	struct job job = {
		.cuda = cuda, .call = "cuda_copy", .function = "cuMemcpyAsync",
		.args = &c, .issue = issue_copy,
	};
	int rc = capkm_opts(&c.copy, sizeof(c.copy), copy, job.call, err);

	if (!rc)
		rc = get_job(&job, handle, err);
	if (rc)
		return rc;
	if (result)
		*result = CAPKM_CLEAN;
	rc = check_copy(cuda, &c, err);
	if (!rc && c.copy.flags & CAPKM_CUDA_COPY_F_NOW)
		rc = check_now(&job, err);
	if (!rc && !job.capture.window && has_keeper(&c))
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_copy: outside of a window nobody keeps the host memory but the caller, until the stream is synchronised");
	if (!rc)
		rc = do_copy(&job, &c, result, err);
	put_job(&job);
	return rc;
}

/* set, host function */

struct setting {
	uint64_t address, n;
	uint32_t width, value;
};

static int issue_set(struct job *job)
{
	const struct setting *s = job->args;
	const struct cu_driver *cu = &job->cuda->cu;
	cu_stream stream = job->stream->handle;

	switch (s->width) {
	case 1:
		return cu->cuMemsetD8Async(s->address, s->value, s->n, stream);
	case 2:
		return cu->cuMemsetD16Async(s->address, s->value, s->n, stream);
	default:
		return cu->cuMemsetD32Async(s->address, s->value, s->n, stream);
	}
}

int capkm_cuda_set(struct capkm_cuda *cuda, cu_stream handle, uint64_t address,
		   uint64_t bytes, uint32_t width, uint32_t value,
		   uint32_t *result, struct capkm_error *err)
{
	const struct capkm_cuda_range to = { address, bytes };
	const struct capkm_cuda_work work = CAPKM_OPTS(struct capkm_cuda_work,
		.label = "set", .writes = &to, .writes_len = 1);
	struct setting setting = {
		address, width ? bytes / width : 0, width, value
	};
	struct job job = {
		.cuda = cuda, .call = "cuda_set", .function = "cuMemsetAsync",
		.args = &setting, .issue = issue_set,
	};
	int rc;

	if ((width != 1 && width != 2 && width != 4) || bytes % width ||
	    address % width)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_set: width is 1, 2 or 4, and address and bytes multiples of it");
	rc = get_job(&job, handle, err);
	if (rc)
		return rc;
	rc = run(&job, &work, result, err);
	put_job(&job);
	return rc;
}

struct calling {
	void (*fn)(void *context);
	void *context;
};

static int issue_call(struct job *job)
{
	const struct calling *c = job->args;

	return job->cuda->cu.cuLaunchHostFunc(job->stream->handle, c->fn,
					      c->context);
}

int capkm_cuda_host_function(struct capkm_cuda *cuda, cu_stream handle,
			     void (*fn)(void *context), void *context,
			     const struct capkm_cuda_work *work,
			     uint32_t *result, struct capkm_error *err)
{
	struct calling calling = { fn, context };
	struct capkm_cuda_work w;
	struct job job = {
		.cuda = cuda, .call = "cuda_host_function",
		.function = "cuLaunchHostFunc", .args = &calling,
		.issue = issue_call,
	};
	int rc = capkm_opts(&w, sizeof(w), work, job.call, err);

	if (!rc && !fn)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				     "cuda_host_function: fn is NULL");
	if (!rc)
		rc = get_job(&job, handle, err);
	if (rc)
		return rc;
	rc = run(&job, &w, result, err);
	put_job(&job);
	return rc;
}

/* read */

struct reading {
	struct capkm_cuda *cuda;
	struct stream *stream;
	const char *call;
	struct capkm_error said;	/* why the copy failed */
};

/* Between the two checks of capkm_read(). */
static int copy_out(void *context, void *dst, const void *src,
		    const struct capkm_claim *claim)
{
	struct reading *r = context;
	struct capkm_cuda *cuda = r->cuda;
	struct capture on;
	int rc = capkm_stream_look(cuda, r->stream, r->call, &on, &r->said);

	if (rc)
		return rc;
	if (on.how != NOT_CAPTURING) {
		capkm_capture_put(cuda, &on);
		return capkm_error_set(&r->said, -EBUSY, CAPKM_NO_INDEX, 0,
			"%s: another thread has begun to capture on the stream",
			r->call);
	}
	/* If the host memory is pageable, the driver waits. */
	capkm_capture_waits(cuda, &on);
	rc = cu_call_on(cuda, r->stream, &r->said, r->call, cuMemcpyAsync,
			(uintptr_t)dst, (uintptr_t)src,
			claim->end - claim->start, r->stream->handle);
	if (!rc)
		return capkm_stream_finish(cuda, r->stream, &on, r->call,
					   &r->said);
	capkm_capture_put(cuda, &on);
	return rc;
}

/* That the copy failed says less than what the driver said. */
static int explain(const struct reading *r, int rc, struct capkm_error *err)
{
	if (!rc || rc != r->said.err)
		return rc;
	capkm_error_set(err, rc, CAPKM_NO_INDEX, r->said.failure, "%s",
			r->said.text);
	capkm_error_code(err, r->said.code);
	return rc;
}

static int read_claims(struct reading *r, const struct capkm_claim *claims,
		       uint32_t n, uint64_t at, char *data, struct capkm_error *err)
{
	const struct capkm_read_opts opts = CAPKM_OPTS(struct capkm_read_opts,
		.copy = copy_out, .context = r);
	uint32_t i;
	int rc = 0;

	for (i = 0; !rc && i < n; i++) {
		rc = capkm_read(r->cuda->c, &claims[i], data,
				(const void *)(uintptr_t)at, &opts, err);
		data += claims[i].end - claims[i].start;
		at += claims[i].end - claims[i].start;
	}
	return explain(r, rc, err);
}

/* Of a context that is lost the bytes say why; the driver only says that it is. */
int capkm_cuda_read(struct capkm_cuda *cuda, cu_stream handle,
		    const struct capkm_cuda_range *from, void *data,
		    struct capkm_error *err)
{
	const char *call = "cuda_read";
	struct reading r = {
		.cuda = cuda, .call = call,
		.said = CAPKM_OPTS(struct capkm_error),
	};
	struct claims_of reads;
	struct capture capture;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_cuda_resolve(cuda, from, 1, CAPKM_NO_INDEX, call,
					&reads, err);
	if (rc)
		return rc;
	rc = get(cuda, handle, call, &r.stream, &capture, err);
	if (rc == -EREMOTEIO &&
	    trust(cuda, reads.claims, reads.len, call, err) == -ESTALE)
		rc = -ESTALE;
	if (rc) {
		capkm_cuda_unresolve(&reads);
		return rc;
	}
	if (capture.window)
		rc = capkm_stream_refuse(cuda, r.stream, CAPKM_REFUSE_READ,
					 call, err);
	capkm_capture_put(cuda, &capture);
	if (!rc)
		rc = read_claims(&r, reads.claims, reads.len, from->address,
				 data, err);
	capkm_cuda_unresolve(&reads);
	capkm_stream_put(cuda, r.stream);
	return rc;
}
