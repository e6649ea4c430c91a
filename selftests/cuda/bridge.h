/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the bridge share: a client with two bound streams, questions to the
 * authority about them, and what has to hold after whatever went wrong.
 */
#ifndef CAPKM_BRIDGE_H
#define CAPKM_BRIDGE_H

#include <pthread.h>

#include "cuda_test.h"

FIXTURE(bridge)
{
	struct gpu g;
	cu_stream s, t;			/* slots 0 and 1 */
	struct capkm_where on_s, on_t;
};

FIXTURE_SETUP(bridge)
{
	c_open(&self->g);
	CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	self->on_s = c_bind(&self->g, self->s);
	self->on_t = c_bind(&self->g, self->t);
}

FIXTURE_TEARDOWN(bridge)
{
	c_close(&self->g);
}

/* At the start of each test. */
#define G								\
	struct gpu *g = &self->g;					\
	const cu_stream s = self->s;					\
	const cu_stream t = self->t;					\
	(void)g; (void)s; (void)t

/* A stream that the test destroys itself. */
static T_UNUSED cu_stream b_stream_(struct gpu *g)
{
	cu_stream s = NULL;

	CU_DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	c_bind_(g, s);
	return s;
}
#define b_stream(g) (T_AT, b_stream_(g))

static T_UNUSED struct capkm_stream_query b_slot_(struct gpu *g, const struct capkm_where *where)
{
	struct capkm_stream_query q = {
		.size = sizeof(q), .flags = CAPKM_PLACE_F_SLOT,
		.place.slot = where->slot,
	};
	int rc;

	memcpy(q.place.device, where->device, sizeof(q.place.device));
	rc = capkm_stream_query(g->c, &q, &err);
	if (rc)
		t_die("stream_query: %d (%s)", rc, err.text);
	return q;
}
#define b_slot(g, where) (T_AT, b_slot_(g, where))
#define b_state(g, where) (T_AT, b_slot_(g, where).out_state)

static T_UNUSED struct capkm_window_query b_window_(struct gpu *g, uint64_t window)
{
	struct capkm_window_query q = { .size = sizeof(q), .window = window };
	int rc = capkm_window_query(g->c, &q, &err);

	if (rc)
		t_die("window_query: %d (%s)", rc, err.text);
	return q;
}
#define b_window(g, window) (T_AT, b_window_(g, window))

static T_UNUSED struct capkm_domain_query b_domain_(struct gpu *g)
{
	return t_domain_query_(g->cl);
}
#define b_domain(g) (T_AT, b_domain_(g))

/* Memory whose work counts as unconfirmed until somebody has waited for it. */
static T_UNUSED uint64_t b_shared_(struct gpu *g, cu_stream s, uint32_t v)
{
	uint64_t m = 0;
	int rc = capkm_cuda_alloc(g->b, BYTES, NULL, CAPKM_CUDA_MEMORY_F_EXPORT, &m, &err);

	if (rc)
		t_die("cuda_alloc: %d (%s)", rc, err.text);
	c_write_(g, s, m, v);
	return m;
}
#define b_shared(...) (T_AT, b_shared_(__VA_ARGS__))

/* 1: clean, but not known to be done; 0: clean and known. */
static T_UNUSED int b_pending_(struct gpu *g, uint64_t memory)
{
	struct capkm_claim claim = c_claim_(g, memory);
	struct capkm_check_opts opts = CAPKM_OPTS(struct capkm_check_opts,
		.flags = CAPKM_CHECK_F_CONFIRMED);
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	int rc = capkm_check_with(g->c, &claim, 1, &opts, &a, &err);

	if (rc || (a.out_result != CAPKM_CLEAN && a.out_result != CAPKM_PENDING))
		t_die("check: %d, %s, kind %s (%s)", rc, capkm_result_name(a.out_result),
		      capkm_kind_name(r.kind), (char *)r.text);
	return a.out_result == CAPKM_PENDING;
}
#define b_is_pending(g, memory) ASSERT_EQ(1, (T_AT, b_pending_(g, memory)))
#define b_is_confirmed(g, memory) ASSERT_EQ(0, (T_AT, b_pending_(g, memory)))

/*
 * After whatever went wrong: the stream does not capture, its slot has no window and no
 * open scope, work runs on it, and it can be captured and replayed.
 */
static T_UNUSED void b_usable_(struct gpu *g, cu_stream s, const struct capkm_where *where)
{
	const struct capkm_stream_query q = b_slot_(g, where);
	uint64_t m, graph;

	if (cu_status(s) != CU_CAPTURE_NONE)
		t_die("the stream captures: %d", cu_status(s));
	if (q.out_state != CAPKM_WINDOW_NONE || q.out_scopes)
		t_die("the slot has window %llu in state %s, %llu scopes", q.out_window,
		      capkm_state_name(q.out_state), q.out_scopes);
	m = c_new_(g, s, 5);
	c_record_(g, s, NULL);
	c_inc_(g, s, m);
	graph = c_end_(g, s);
	c_is_(g, s, m, 5);
	c_replay_(g, s, graph);
	c_replay_(g, s, graph);
	c_is_(g, s, m, 7);
	c_destroy_(g, graph);
	c_free_(g, m);
}
#define b_usable(g, s, where) (T_AT, b_usable_(g, s, where))

static T_UNUSED struct capkm_report b_taint_(struct gpu *g, uint64_t memory)
{
	const struct capkm_claim claim = c_claim_(g, memory);
	int rc = capkm_taint(g->c, &claim, 1, 0,
			     WITH(struct capkm_cause, .text = "it burns"), NULL, &err);

	if (rc)
		t_die("taint: %d (%s)", rc, err.text);
	return c_is_tainted_(g, memory, 0);
}
#define b_taint(g, memory) (T_AT, b_taint_(g, memory))

/* How many claims the graph has of the kind that @flags says; the first @n of them. */
static T_UNUSED uint32_t b_claims_(struct gpu *g, uint64_t graph, uint32_t flags,
				   struct capkm_claim *claims, uint32_t n)
{
	struct capkm_graph_query q = {
		.size = sizeof(q), .flags = flags, .graph = graph,
		.claims_uptr = t_ptr(claims), .claims_len = n,
	};
	int rc = capkm_graph_query(g->c, &q, &err);

	if (rc)
		t_die("graph_query: %d (%s)", rc, err.text);
	return q.out_claims;
}
#define b_claims(...) (T_AT, b_claims_(__VA_ARGS__))

/* A thread that works on a stream until it is stopped; whether that goes well or not. */
struct setter {
	struct gpu *g;
	cu_stream stream;
	uint64_t memory;
	bool ends_bodies;	/* it also ends a body there */
	_Atomic bool stop;
};

static T_UNUSED void *b_set_on(void *arg)
{
	struct setter *w = arg;
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);

	CU_DO(cuCtxSetCurrent(w->g->context));
	while (!w->stop) {
		capkm_cuda_set(w->g->b, w->stream, w->memory, BYTES, 4, 1, NULL, &e);
		if (w->ends_bodies)
			capkm_cuda_body_end(w->g->b, w->stream, NULL, &e);
	}
	return NULL;
}

/* What is done on another thread, of the same context, from the first to the last. */
struct elsewhere {
	struct gpu *g;
	void (*fn)(void *arg);
	void *arg;
};

static T_UNUSED void *b_run_there(void *arg)
{
	struct elsewhere *there = arg;

	CU_DO(cuCtxSetCurrent(there->g->context));
	there->fn(there->arg);
	return NULL;
}

static T_UNUSED void b_elsewhere(struct gpu *g, void (*fn)(void *arg), void *arg)
{
	struct elsewhere there = { g, fn, arg };
	pthread_t thread;

	if (pthread_create(&thread, NULL, b_run_there, &there) || pthread_join(thread, NULL))
		t_die("no thread");
}

/* Ends what @s captures as the logical stream that prepared it, on another thread. */
struct ending {
	struct gpu *g;
	cu_stream s;
	uint64_t stream, graph;
	bool body;
	int rc;
	struct capkm_error err;
};

static T_UNUSED void b_end_there(void *arg)
{
	struct ending *e = arg;

	capkm_stream_pin(e->stream);
	e->err.sz = sizeof(e->err);
	e->rc = e->body ? capkm_cuda_body_end(e->g->b, e->s, NULL, &e->err) :
		capkm_cuda_graph_end(e->g->b, e->s, &e->graph, NULL, &e->err);
}

static T_UNUSED struct ending b_end_elsewhere_(struct gpu *g, cu_stream s, bool body)
{
	struct ending e = {
		.g = g, .s = s, .stream = capkm_stream_current(), .body = body,
	};

	b_elsewhere(g, b_end_there, &e);
	return e;
}
#define b_end_elsewhere(...) (T_AT, b_end_elsewhere_(__VA_ARGS__))

/* A graph of one kernel: to = from. */
static T_UNUSED uint64_t b_graph_copy_(struct gpu *g, cu_stream s, uint64_t to, uint64_t from)
{
	c_record_(g, s, NULL);
	c_copy_(g, s, to, from);
	return c_end_(g, s);
}
#define b_graph_copy(...) (T_AT, b_graph_copy_(__VA_ARGS__))

/*
 * Does the authority mean process @pid? Where another process stands for it, that one's pid
 * is told, and its own at the beginning of the name.
 */
static T_UNUSED bool b_is_of(uint32_t told, const unsigned char *comm, int pid)
{
	char name[16];

	snprintf(name, sizeof(name), "%d:", pid);
	return told == (uint32_t)pid || !strncmp((const char *)comm, name, strlen(name));
}

/* A call that fails with @rc and says @part. */
#define FAILS(rc, part, call) do {					\
	REFUSED(rc, call);						\
	SAYS(part);							\
} while (0)

/* No capture was broken so far by anything. */
#define NOTHING_BROKE() do {						\
	char broke_[200] = "";						\
									\
	if (is_standin)							\
		standin.broke(broke_, sizeof(broke_));			\
	ASSERT_STREQ("", broke_);					\
} while (0)

/* Memory mapped in chunks that lie one behind the other: a buffer each. */
struct chunks {
	struct cu_allocation_prop prop;
	size_t bytes;
	cu_address at;
	unsigned long long handle[2];
};

static T_UNUSED bool map_chunks(struct gpu *g, struct chunks *c, bool shareable)
{
	const struct { int type, id; unsigned long long flags; } access = {
		1, g->device, 3
	};

	c->prop = (struct cu_allocation_prop){
		.type = 1, .location_type = 1, .location_id = g->device,
		.requested_handles = shareable ? CU_HANDLE_POSIX_FD : 0,
	};
	if (cu.cuMemGetAllocationGranularity(&c->bytes, &c->prop, 0))
		return false;
	CU_DO(cuMemAddressReserve(&c->at, 2 * c->bytes, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CU_DO(cuMemCreate(&c->handle[i], c->bytes, &c->prop, 0));
		CU_DO(cuMemMap(c->at + i * c->bytes, c->bytes, 0, c->handle[i], 0));
	}
	CU_DO(cuMemSetAccess(c->at, 2 * c->bytes, &access, 1));
	return true;
}

static T_UNUSED void unmap_chunks(struct chunks *c)
{
	for (int i = 0; i < 2; i++) {
		CU_DO(cuMemUnmap(c->at + i * c->bytes, c->bytes));
		CU_DO(cuMemRelease(c->handle[i]));
	}
	CU_DO(cuMemAddressFree(c->at, 2 * c->bytes));
}

struct pool {
	struct capkm_pool_memory memory;
	struct capkm_pool *pool;
};

static T_UNUSED struct pool new_pool(struct gpu *g)
{
	struct pool p = { .memory.sz = sizeof(p.memory) };

	if (capkm_cuda_pool_memory(g->b, &p.memory, &err) ||
	    capkm_pool_create(g->c, &p.memory, NULL, &p.pool, &err) ||
	    capkm_cuda_set_pool(g->b, p.pool, NULL, &err))
		t_die("pool: %s", err.text);
	return p;
}

static T_UNUSED void delete_pool(struct gpu *g, struct pool *p)
{
	if (capkm_cuda_set_pool(g->b, NULL, NULL, &err))
		t_die("set_pool: %s", err.text);
	capkm_pool_destroy(p->pool);
}

/* A slice of the pool for slot 0, and where it is. */
static T_UNUSED uint64_t slice(struct pool *p, uint64_t bytes, uint64_t *address)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	uint64_t memory;

	if (capkm_pool_alloc(p->pool, 0, bytes, &memory, &err) ||
	    capkm_pool_find(p->pool, memory, &s, &err))
		t_die("slice: %s", err.text);
	*address = s.address;
	return memory;
}

#endif /* CAPKM_BRIDGE_H */
