/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * For tests of the CPU executor: functions whose results can be worked out by hand,
 * and short forms of its calls. Memory here is an array of N numbers that are all the
 * same, so that a result is one number.
 */
#ifndef CAPKM_HOST_TEST_H
#define CAPKM_HOST_TEST_H

#include "calls.h"
#include "gate.h"
#include "process.h"

#include <capkm/host.h>
#include <pthread.h>

#define N 8
#define SIZE (N * sizeof(uint64_t))

/* --------------------------------------------------------------- functions */

static uint64_t info_of(const struct capkm_host_call *call)
{
	uint64_t v = 0;

	if (call->info_bytes >= sizeof(v))
		memcpy(&v, call->info, sizeof(v));
	return v;
}

/* The first argument becomes the number in the metadata. */
static T_UNUSED int fn_set(const struct capkm_host_call *call)
{
	uint64_t *to = call->args[0], v = info_of(call);

	for (uint64_t i = 0; i < call->bytes[0] / sizeof(*to); i++)
		to[i] = v;
	if (call->context)
		__atomic_fetch_add((int *)call->context, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* The first becomes the sum of the others and of the number in the metadata. */
static T_UNUSED int fn_add(const struct capkm_host_call *call)
{
	uint64_t *to = call->args[0], v = info_of(call);

	for (uint64_t i = 0; i < call->bytes[0] / sizeof(*to); i++) {
		uint64_t sum = v;

		for (uint32_t a = 1; a < call->args_len; a++)
			sum += ((const uint64_t *)call->args[a])[i];
		to[i] = sum;
	}
	if (call->context)
		__atomic_fetch_add((int *)call->context, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/* fn_add() behind a gate, the context. */
static T_UNUSED int fn_gated(const struct capkm_host_call *call)
{
	struct capkm_host_call c = *call;

	gate_pass(call->context);
	c.context = NULL;
	return call->args_len ? fn_add(&c) : 0;
}

/* Writes, and then fails with a text, the context, or without. */
static T_UNUSED int fn_fail(const struct capkm_host_call *call)
{
	if (call->args_len)
		memset(call->args[0], 0x66, call->bytes[0]);
	if (call->context)
		snprintf(call->why, call->why_size, "%s", (char *)call->context);
	return 7;
}

/* Fails as long as its context, a number, is not 0. */
static T_UNUSED int fn_moody(const struct capkm_host_call *call)
{
	struct capkm_host_call c = *call;

	if (load(call->context)) {
		snprintf(call->why, call->why_size, "in a bad mood");
		return load(call->context);
	}
	c.context = NULL;
	return fn_add(&c);
}

/* ---------------------------------------------------------------- executor */

/* A domain of its own, or that of another client; the handle has to hear of it. */
static T_UNUSED void h_attach_(struct cl *cl, u_int64_t domain, unsigned int backend)
{
	const struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.domain = domain, .backend = backend);
	int rc = domain ? capkm_domain_attach(cl->c, NULL, &opts, &err) :
			  capkm_domain_create(cl->c, NULL, &opts, &err);

	if (rc)
		t_die("no domain: %d (%s)", rc, err.text);
	cl->domain = capkm_domain_id(cl->c);
	cl->session = capkm_session_id(cl->c);
}
#define h_domain(cl) (T_AT, h_attach_(cl, 0, CAPKM_BACKEND_SOFTWARE))
#define h_attach(cl, domain) (T_AT, h_attach_(cl, domain, CAPKM_BACKEND_SOFTWARE))
#define h_attach_backend(...) (T_AT, h_attach_(__VA_ARGS__))

struct ex {
	struct cl *cl;
	struct capkm_host *h;
	uint64_t set, add;	/* kernels that everybody needs */
	int ran;		/* functions of these that ran */
};

static T_UNUSED uint64_t h_kernel_(struct ex *x, const char *name, capkm_host_fn fn,
				   void *context)
{
	uint64_t k = 0;
	int rc = capkm_host_kernel_create(x->h, WITH(struct capkm_host_kernel,
		.name = name, .fn = fn, .context = context), &k, &err);

	if (rc)
		t_die("kernel_create: %d (%s)", rc, err.text);
	return k;
}
#define h_kernel(...) (T_AT, h_kernel_(__VA_ARGS__))

/* On a client of this process that has a domain. */
static T_UNUSED void h_create_(struct ex *x, struct cl *cl,
			       const struct capkm_host_opts *opts)
{
	int rc;

	x->cl = cl;
	x->ran = 0;
	rc = capkm_host_create(cl->c, opts, &x->h, &err);
	if (rc)
		t_die("host_create: %d (%s)", rc, err.text);
	x->set = h_kernel_(x, "set", fn_set, &x->ran);
	x->add = h_kernel_(x, "add", fn_add, &x->ran);
}
#define h_create(...) (T_AT, h_create_(__VA_ARGS__))

static T_UNUSED uint64_t h_alloc_bytes_(struct ex *x, uint64_t stream, uint64_t bytes)
{
	uint64_t m = 0;
	int rc = capkm_host_alloc(x->h, stream, bytes, 0, &m, &err);

	if (rc)
		t_die("host_alloc: %d (%s)", rc, err.text);
	return m;
}
#define h_alloc(x, stream) (T_AT, h_alloc_bytes_(x, stream, SIZE))
#define h_alloc_bytes(...) (T_AT, h_alloc_bytes_(__VA_ARGS__))

#define h_free(x, memory) (T_AT, h_free_(x, memory))
static T_UNUSED void h_free_(struct ex *x, uint64_t memory)
{
	int rc = capkm_host_free(x->h, memory, &err);

	if (rc)
		t_die("host_free: %d (%s)", rc, err.text);
}

/* Arguments of a launch: all of a memory, or elements of it. */
#define R(m) { .range.memory = m, .access = CAPKM_HOST_READ }
#define W(m) { .range.memory = m, .access = CAPKM_HOST_WRITE }
#define RW(m) { .range.memory = m, .access = CAPKM_HOST_READ | CAPKM_HOST_WRITE }
#define PART(m, from, to) { m, (from) * sizeof(uint64_t), (to) * sizeof(uint64_t) }
#define ARGS(...) (const struct capkm_host_arg[]){ __VA_ARGS__ }, \
	sizeof((const struct capkm_host_arg[]){ __VA_ARGS__ }) / sizeof(struct capkm_host_arg)
#define NO_ARGS ((const struct capkm_host_arg *)NULL), 0

struct h_launched {
	int rc;
	uint32_t result;
};

static T_UNUSED struct h_launched h_try_launch(struct ex *x, uint64_t stream,
					       uint64_t kernel, uint64_t v,
					       const struct capkm_host_arg *args,
					       uint32_t n, uint32_t flags)
{
	struct capkm_host_launch l = CAPKM_OPTS(struct capkm_host_launch,
		.kernel = kernel, .args = args, .args_len = n, .info = &v,
		.info_bytes = sizeof(v), .grid = { 1, 1, 1 }, .flags = flags);
	struct h_launched r = { .result = 0xcccccccc };

	err.text[0] = 0;
	err.err = 0;
	r.rc = capkm_host_launch(x->h, stream, &l, &r.result, &err);
	return r;
}

static T_UNUSED void h_launch_(struct ex *x, uint64_t stream, uint64_t kernel,
			       uint64_t v, const struct capkm_host_arg *args, uint32_t n)
{
	struct h_launched r = h_try_launch(x, stream, kernel, v, args, n, 0);

	if (r.rc || r.result != CAPKM_CLEAN)
		t_die("host_launch: %d, %s (%s)", r.rc, capkm_result_name(r.result),
		      err.text);
}
#define h_launch(...) (T_AT, h_launch_(__VA_ARGS__))
/* to = v; to = from + v */
#define h_set(x, stream, to, v) \
	(T_AT, h_launch_(x, stream, (x)->set, v, ARGS(W(to))))
#define h_add(x, stream, to, from, v) \
	(T_AT, h_launch_(x, stream, (x)->add, v, ARGS(W(to), R(from))))

/* All of it from host memory. */
static T_UNUSED struct h_launched h_try_write(struct ex *x, uint64_t stream,
					      uint64_t memory, uint64_t v)
{
	uint64_t data[N];
	struct capkm_host_write w = { .to.memory = memory, .data = data };
	struct h_launched r = { .result = 0xcccccccc };

	for (int i = 0; i < N; i++)
		data[i] = v;
	err.text[0] = 0;
	err.err = 0;
	r.rc = capkm_host_write(x->h, stream, &w, 1, &r.result, &err);
	return r;
}

#define h_write(...) (T_AT, h_write_(__VA_ARGS__))
static T_UNUSED void h_write_(struct ex *x, uint64_t stream, uint64_t memory, uint64_t v)
{
	struct h_launched r = h_try_write(x, stream, memory, v);

	if (r.rc || r.result != CAPKM_CLEAN)
		t_die("host_write: %d, %s (%s)", r.rc, capkm_result_name(r.result),
		      err.text);
}

/* New memory that holds @v. */
#define h_new(...) (T_AT, h_new_(__VA_ARGS__))
static T_UNUSED uint64_t h_new_(struct ex *x, uint64_t stream, uint64_t v)
{
	uint64_t m = h_alloc_bytes_(x, stream, SIZE);

	h_write_(x, stream, m, v);
	return m;
}

static T_UNUSED int h_try_read(struct ex *x, uint64_t stream, uint64_t memory,
			       uint64_t data[N])
{
	struct capkm_host_range all = { .memory = memory };

	memset(data, 0xcc, SIZE);
	err.text[0] = 0;
	err.err = 0;
	return capkm_host_read(x->h, stream, &all, data, NULL, &err);
}

/* It can be read, and holds @v. */
#define h_is(...) (T_AT, h_is_(__VA_ARGS__))
static T_UNUSED void h_is_(struct ex *x, uint64_t stream, uint64_t memory, uint64_t v)
{
	uint64_t data[N];
	int rc = h_try_read(x, stream, memory, data);

	if (rc)
		t_die("host_read: %d (%s)", rc, err.text);
	for (int i = 0; i < N; i++)
		if (data[i] != v)
			t_die("element %d is %" PRIu64 ", not %" PRIu64, i, data[i], v);
}

#define h_claim(...) (T_AT, h_claim_(__VA_ARGS__))
static T_UNUSED struct capkm_claim h_claim_(struct ex *x, uint64_t memory)
{
	struct capkm_host_range all = { .memory = memory };
	struct capkm_claim claim = { 0 };
	int rc = capkm_host_find(x->h, &all, &claim, &err);

	if (rc)
		t_die("host_find: %d (%s)", rc, err.text);
	return claim;
}

static T_UNUSED struct capkm_report h_report_(struct ex *x, struct capkm_host_range range,
					      uint32_t *result)
{
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	int rc = capkm_host_check(x->h, &range, 1, &a, &err);

	if (rc)
		t_die("host_check: %d (%s)", rc, err.text);
	*result = a.out_result;
	if ((a.out_result == CAPKM_CLEAN) != !a.out_reports)
		t_die("host_check: %s with %u reports",
		      capkm_result_name(a.out_result), a.out_reports);
	return r;
}

/* A kind that the executor may choose: work failed. */
#define FAILED 0

/*
 * These bytes, or all of a memory, are tainted, in the executor's words and in the
 * authority's, and read() says so as well.
 */
#define h_is_tainted(x, memory, kind) \
	(T_AT, h_is_tainted_(x, (struct capkm_host_range){ memory, 0, 0 }, kind))
#define h_range_is_tainted(x, range, kind) (T_AT, h_is_tainted_(x, range, kind))
static T_UNUSED struct capkm_report h_is_tainted_(struct ex *x,
						  struct capkm_host_range range,
						  uint32_t kind)
{
	struct capkm_claim claim = { 0 };
	uint32_t result;
	struct capkm_report r = h_report_(x, range, &result);
	char data[SIZE];
	struct t_check c;
	int rc;

	if (result != CAPKM_TAINTED ||
	    (kind ? r.kind != kind : !r.kind || r.kind > CAPKM_KIND_DRIVER))
		t_die("%s, kind %s (%s), not %s", capkm_result_name(result),
		      capkm_kind_name(r.kind), (char *)r.text, capkm_kind_name(kind));
	if (capkm_host_find(x->h, &range, &claim, &err))
		t_die("host_find: %s", err.text);
	c = t_check_(x->cl, &claim, 1);
	if (c.result != CAPKM_TAINTED || c.r[0].failure != r.failure)
		t_die("the authority says %s, failure %" PRIu64 ", not %" PRIu64,
		      capkm_result_name(c.result), (uint64_t)c.r[0].failure,
		      (uint64_t)r.failure);
	rc = claim.end - claim.start > SIZE ? -ESTALE :
	     /* Of a stream whose slot never records. */
	     capkm_host_read(x->h, 30, &range, data, NULL, &err);
	if (rc != -ESTALE)
		t_die("host_read: %d, not -ESTALE", rc);
	return r;
}

#define h_is_clean(x, memory) \
	(T_AT, h_is_clean_(x, (struct capkm_host_range){ memory, 0, 0 }))
#define h_range_is_clean(x, range) (T_AT, h_is_clean_(x, range))
static T_UNUSED void h_is_clean_(struct ex *x, struct capkm_host_range range)
{
	uint32_t result;
	struct capkm_report r = h_report_(x, range, &result);

	if (result != CAPKM_CLEAN)
		t_die("%s: %s (%s)", capkm_result_name(result), capkm_kind_name(r.kind),
		      (char *)r.text);
}

#define h_sync(x, stream) (T_AT, h_sync_(x, stream))
static T_UNUSED void h_sync_(struct ex *x, uint64_t stream)
{
	int rc = capkm_host_sync(x->h, stream, &err);

	if (rc)
		t_die("host_sync: %d (%s)", rc, err.text);
}

#define h_stats(x) (T_AT, h_stats_(x))
static T_UNUSED struct capkm_host_stats h_stats_(struct ex *x)
{
	struct capkm_host_stats s = CAPKM_OPTS(struct capkm_host_stats);
	int rc = capkm_host_query(x->h, &s, &err);

	if (rc)
		t_die("host_query: %d (%s)", rc, err.text);
	return s;
}

#define h_pool(x, stream) (T_AT, h_pool_(x, stream))
static T_UNUSED struct capkm_pool_stats h_pool_(struct ex *x, uint64_t stream)
{
	struct capkm_pool_stats s = CAPKM_OPTS(struct capkm_pool_stats);
	int rc = capkm_host_memory_query(x->h, stream, &s, &err);

	if (rc)
		t_die("memory_query: %d (%s)", rc, err.text);
	return s;
}

/* ----------------------------------------------------------------- windows */

#define h_prepare(x, stream) (T_AT, h_prepare_(x, stream))
static T_UNUSED uint64_t h_prepare_(struct ex *x, uint64_t stream)
{
	uint64_t w = 0;
	int rc = capkm_host_graph_prepare(x->h, stream, NULL, &w, &err);

	if (rc || !w)
		t_die("graph_prepare: %d (%s)", rc, err.text);
	return w;
}

#define h_begin(x, stream) (T_AT, h_begin_(x, stream))
static T_UNUSED void h_begin_(struct ex *x, uint64_t stream)
{
	int rc = capkm_host_graph_begin(x->h, stream, &err);

	if (rc)
		t_die("graph_begin: %d (%s)", rc, err.text);
}

#define h_record(x, stream) (T_AT, h_record_(x, stream))
static T_UNUSED uint64_t h_record_(struct ex *x, uint64_t stream)
{
	uint64_t w = h_prepare_(x, stream);

	h_begin_(x, stream);
	return w;
}

#define h_end(x, stream) (T_AT, h_end_(x, stream))
static T_UNUSED uint64_t h_end_(struct ex *x, uint64_t stream)
{
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	uint64_t g = 0;
	int rc = capkm_host_graph_end(x->h, stream, &g, &a, &err);

	if (rc || !g || a.out_result != CAPKM_CLEAN)
		t_die("graph_end: %d, graph %" PRIu64 " (%s)", rc, g, err.text);
	return g;
}

/* Closed, and there is no graph; why is in err. */
#define h_end_refused(x, stream) (T_AT, h_end_refused_(x, stream, -ESTALE))
#define h_end_fails(x, stream, rc) (T_AT, h_end_refused_(x, stream, rc))
static T_UNUSED void h_end_refused_(struct ex *x, uint64_t stream, int want)
{
	struct capkm_stream_query q;
	uint64_t g = 0xcccccccc;
	int rc;

	err.text[0] = 0;
	rc = capkm_host_graph_end(x->h, stream, &g, NULL, &err);
	if (rc != want || g)
		t_die("graph_end: %d, not %d, graph %" PRIu64 " (%s)", rc, want, g,
		      err.text);
	if (strncmp(err.text, "end_capture: ", 13))
		t_die("no \"end_capture: \" at the beginning of: %s", err.text);
	q = t_slot_(x->cl, stream);
	if (q.out_state != CAPKM_WINDOW_NONE || q.out_window)
		t_die("the slot still has window %" PRIu64, (uint64_t)q.out_window);
}

#define h_abort(x, stream) (T_AT, h_abort_(x, stream))
static T_UNUSED void h_abort_(struct ex *x, uint64_t stream)
{
	int rc = capkm_host_graph_abort(x->h, stream, &err);

	if (rc)
		t_die("graph_abort: %d (%s)", rc, err.text);
}

static T_UNUSED struct h_launched h_try_replay(struct ex *x, uint64_t stream,
					       uint64_t graph)
{
	struct h_launched r = { .result = 0xcccccccc };

	err.text[0] = 0;
	err.err = 0;
	r.rc = capkm_host_graph_replay(x->h, stream, graph, &r.result, &err);
	return r;
}

#define h_replay(x, stream, graph) (T_AT, h_replay_(x, stream, graph))
static T_UNUSED void h_replay_(struct ex *x, uint64_t stream, uint64_t graph)
{
	struct h_launched r = h_try_replay(x, stream, graph);

	if (r.rc || r.result != CAPKM_CLEAN)
		t_die("graph_replay: %d, %s (%s)", r.rc, capkm_result_name(r.result),
		      err.text);
}

#define h_destroy(x, graph) (T_AT, h_destroy_(x, graph))
static T_UNUSED void h_destroy_(struct ex *x, uint64_t graph)
{
	int rc = capkm_host_graph_destroy(x->h, graph, &err);

	if (rc)
		t_die("graph_destroy: %d (%s)", rc, err.text);
}

#define h_find_graph(x, graph) (T_AT, h_find_graph_(x, graph))
static T_UNUSED uint64_t h_find_graph_(struct ex *x, uint64_t graph)
{
	uint64_t id = 0;
	int rc = capkm_host_graph_find(x->h, graph, &id, &err);

	if (rc)
		t_die("graph_find: %d (%s)", rc, err.text);
	return id;
}

#endif /* CAPKM_HOST_TEST_H */
