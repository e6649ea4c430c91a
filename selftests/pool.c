// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory pools over a backend that only counts. What a test expects are numbers,
 * worked out by hand from the rules of each kind of area.
 */
#include "capkm_test.h"

#include <capkm/pool.h>
#include <pthread.h>

#define MIB	(1ull << 20)

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

#define OK(call) do {							\
	err.text[0] = 0;						\
	ASSERT_EQ(0, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
} while (0)

/* A call that fails with @rc and says @part. */
#define REFUSED(rc, part, call) do {					\
	err.text[0] = 0;						\
	err.err = 0;							\
	ASSERT_EQ(rc, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
	ASSERT_EQ(rc, err.err);						\
	ASSERT_NE(NULL, strstr(err.text, part)) {			\
		TH_LOG("no \"%s\" in: %s", part, err.text);		\
	}								\
} while (0)

/* ----------------------------------------------------------------- backend */

#define PAGES	4096

/* Addresses that nobody ever looks at, none given twice. */
struct backend {
	uint64_t next;
	uint64_t allocs, frees;		/* that went well */
	uint64_t pages, bytes;		/* given and not taken back */
	uint64_t tries, fail_at;	/* the n-th try fails */
	struct { uint64_t address, bytes; } live[PAGES];
};

static int backend_alloc(void *context, uint64_t bytes, uint64_t *address)
{
	struct backend *b = context;

	if (++b->tries == b->fail_at)
		return -ENOMEM;
	if (b->pages == PAGES)
		t_die("too many pages");
	b->next += 1ull << 32;
	*address = b->next;
	b->live[b->pages].address = *address;
	b->live[b->pages].bytes = bytes;
	b->pages++;
	b->bytes += bytes;
	b->allocs++;
	return 0;
}

static void backend_free(void *context, uint64_t address, uint64_t bytes)
{
	struct backend *b = context;
	uint64_t i;

	for (i = 0; i < b->pages; i++)
		if (b->live[i].address == address)
			break;
	if (i == b->pages || b->live[i].bytes != bytes)
		t_die("page %#" PRIx64 " of %" PRIu64 " bytes was not given", address, bytes);
	b->live[i] = b->live[--b->pages];
	b->bytes -= bytes;
	b->frees++;
}

/* ---------------------------------------------------------------- fixture */

FIXTURE(pool)
{
	struct capkm *c;
	struct backend *b;
	struct capkm_pool *p;
};

static struct capkm *new_handle(uint32_t backend)
{
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts, .backend = backend);
	struct capkm *c;
	int rc = capkm_open(t_transport(), NULL, &c, &err);

	if (!rc)
		rc = capkm_domain_open(c, NULL, &o, &err);
	if (rc)
		t_die("open: %d (%s)", rc, err.text);
	return c;
}

FIXTURE_SETUP(pool)
{
	T_AT;
	self->c = new_handle(CAPKM_BACKEND_SOFTWARE);
	self->b = calloc(1, sizeof(*self->b));
	self->p = NULL;
}

FIXTURE_TEARDOWN(pool)
{
	capkm_pool_destroy(self->p);
	ASSERT_EQ(0, self->b->pages);
	ASSERT_EQ(0, self->b->bytes);
	free(self->b);
	capkm_close(self->c);
	t_no_leaks();
}

static struct capkm_pool_memory memory(struct backend *b, uint64_t alignment, uint64_t page_max)
{
	struct capkm_pool_memory m = CAPKM_OPTS(struct capkm_pool_memory,
		.alignment = alignment, .page_max = page_max, .alloc = backend_alloc,
		.free = backend_free, .context = b);

	return m;
}

static int create(struct capkm *c, const struct capkm_pool_memory *m,
		  const struct capkm_pool_area *areas, uint32_t len, struct capkm_pool **p)
{
	struct capkm_pool_opts o = CAPKM_OPTS(struct capkm_pool_opts,
		.areas = areas, .areas_len = len, .label = "pages");

	return capkm_pool_create(c, m, &o, p, &err);
}

/* A pool over the fixture's backend: its alignment, then its areas. */
#define POOL(alignment, ...) do {					\
	const struct capkm_pool_area areas_[] = { __VA_ARGS__ };	\
	const struct capkm_pool_memory m_ = memory(self->b, alignment, 0); \
									\
	OK(create(self->c, &m_, areas_, sizeof(areas_) / sizeof(*areas_), &self->p)); \
} while (0)

#define SLICED(page, ...)						\
	{ .kind = CAPKM_POOL_SLICED, .page_bytes = page, ##__VA_ARGS__ }
#define EXCLUSIVE(page, ...)						\
	{ .kind = CAPKM_POOL_EXCLUSIVE, .page_bytes = page, ##__VA_ARGS__ }
#define DIRECT(...)	{ .kind = CAPKM_POOL_DIRECT, ##__VA_ARGS__ }

/* ----------------------------------------------------------------- helpers */

static uint64_t alloc_on(struct capkm_pool *p, uint32_t slot, uint64_t bytes)
{
	uint64_t m = 0;
	int rc = capkm_pool_alloc(p, slot, bytes, &m, &err);

	if (rc)
		t_die("alloc %" PRIu64 ": %d (%s)", bytes, rc, err.text);
	return m;
}

static uint64_t reserve(struct capkm_pool *p, uint64_t bytes)
{
	uint64_t m = 0;
	int rc = capkm_pool_reserve(p, 0, bytes, &m, &err);

	if (rc)
		t_die("reserve %" PRIu64 ": %d (%s)", bytes, rc, err.text);
	return m;
}

static struct capkm_pool_slice slice(struct capkm_pool *p, uint64_t m)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	int rc = capkm_pool_find(p, m, &s, &err);

	if (rc)
		t_die("find %#" PRIx64 ": %d (%s)", m, rc, err.text);
	return s;
}

static struct capkm_pool_stats stats_on(struct capkm_pool *p, uint32_t slot)
{
	struct capkm_pool_stats s = CAPKM_OPTS(struct capkm_pool_stats);
	int rc = capkm_pool_query(p, slot, &s, &err);

	if (rc)
		t_die("query: %d (%s)", rc, err.text);
	return s;
}

static void must_free(struct capkm_pool *p, uint64_t m)
{
	int rc = capkm_pool_free(p, m, &err);

	if (rc)
		t_die("free %#" PRIx64 ": %d (%s)", m, rc, err.text);
}

#define ALLOC(bytes)	(T_AT, alloc_on(self->p, 0, bytes))
#define RESERVE(bytes)	(T_AT, reserve(self->p, bytes))
#define FREE(m)		(T_AT, must_free(self->p, m))
#define SLICE(m)	(T_AT, slice(self->p, m))
#define START(m)	(SLICE(m).claim.start)
#define STATS		(T_AT, stats_on(self->p, 0))
#define GONE(m, why)	do {						\
	struct capkm_pool_slice s_ = CAPKM_OPTS(struct capkm_pool_slice); \
									\
	REFUSED(-ENOENT, why, capkm_pool_find(self->p, m, &s_, &err));	\
} while (0)

/* The claim of @m carries a failure from now on. */
static void taint(struct capkm *c, struct capkm_pool *p, uint64_t m)
{
	const struct capkm_pool_slice s = slice(p, m);
	int rc = capkm_taint(c, &s.claim, 1, 0, NULL, NULL, &err);

	if (rc)
		t_die("taint: %d (%s)", rc, err.text);
}

static bool tainted(struct capkm *c, struct capkm_claim claim)
{
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer);
	int rc = capkm_check(c, &claim, 1, &a, &err);

	if (rc)
		t_die("check: %d (%s)", rc, err.text);
	return a.out_result == CAPKM_TAINTED;
}

static uint64_t failures(struct capkm *c)
{
	struct capkm_domain_query q = { .size = sizeof(q) };

	if (capkm_domain_query(c, &q, &err))
		t_die("domain_query: %s", err.text);
	return q.out_failures;
}

#define TAINT(m)	(T_AT, taint(self->c, self->p, m))
#define TAINTED(m)	(T_AT, tainted(self->c, slice(self->p, m).claim))
#define FAILURES	(T_AT, failures(self->c))

/* ------------------------------------------------------------------ sliced */

/* T-75: a page is split, and merged again, and nothing that is used moves */
TEST_F(pool, sliced_scenario)
{
	uint64_t a, b, c, d, e, f, full;
	struct capkm_pool_stats s;

	POOL(4, SLICED(32 * MIB, .capacity = 32 * MIB));
	/* 4 15 8 4 (1) */
	a = ALLOC(4 * MIB);
	b = ALLOC(15 * MIB);
	c = ALLOC(8 * MIB);
	d = ALLOC(4 * MIB);
	ASSERT_EQ(0, START(a));
	ASSERT_EQ(4 * MIB, START(b));
	ASSERT_EQ(19 * MIB, START(c));
	ASSERT_EQ(27 * MIB, START(d));
	s = STATS;
	ASSERT_EQ(32 * MIB, s.bytes);
	ASSERT_EQ(31 * MIB, s.used);
	ASSERT_EQ(1 * MIB, s.free);
	ASSERT_EQ(0, s.padding);
	ASSERT_EQ(4, s.slices);
	ASSERT_EQ(1, s.pages);
	ASSERT_EQ(1, s.grown);
	REFUSED(-ENOSPC, "33554432", capkm_pool_alloc(self->p, 0, 8 * MIB, &full, &err));
	/* 4 9 (6) 8 4 (1) */
	FREE(b);
	e = ALLOC(9 * MIB);
	ASSERT_EQ(4 * MIB, START(e));
	REFUSED(-ENOSPC, "31457280", capkm_pool_alloc(self->p, 0, 30 * MIB, &full, &err));
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 9 * MIB, &full, &err));
	/* 4 9 (14) 4 (1) */
	FREE(c);
	ASSERT_EQ(15 * MIB, STATS.free);
	ASSERT_EQ(27 * MIB, START(d));
	/* 4 9 9 (5) 4 (1) */
	f = ALLOC(9 * MIB);
	ASSERT_EQ(13 * MIB, START(f));
	/* (4) 9 9 (10) */
	FREE(a);
	FREE(d);
	ASSERT_EQ(14 * MIB, STATS.free);
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 11 * MIB, &full, &err));
	c = ALLOC(10 * MIB);
	ASSERT_EQ(22 * MIB, START(c));
	ASSERT_EQ(4 * MIB, START(e));
	ASSERT_EQ(13 * MIB, START(f));
	ASSERT_EQ(SLICE(c).address - 22 * MIB, SLICE(f).address - 13 * MIB);
	ASSERT_EQ(1, self->b->allocs);
	FREE(c);
	FREE(e);
	FREE(f);
	s = STATS;
	ASSERT_EQ(0, s.slices);
	ASSERT_EQ(32 * MIB, s.free);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(0, STATS.pages);
	ASSERT_EQ(1, STATS.grown);
	ASSERT_EQ(1, self->b->frees);
}

/* ----------------------------------------------------------------- capture */

/* T-66: after the warm-up the area has as many slices as it used in all */
TEST_F(pool, working_set)
{
	uint64_t m[3];

	POOL(32, SLICED(4096));
	OK(capkm_pool_capture_begin(self->p, 0, &err));
	for (int i = 0; i < 3; i++)
		FREE(ALLOC(100));
	ASSERT_EQ(3, STATS.grown);
	ASSERT_EQ(384, STATS.bytes);
	OK(capkm_pool_priming_end(self->p, 0, &err));
	for (int i = 0; i < 3; i++)
		m[i] = ALLOC(100);
	ASSERT_EQ(3, STATS.grown);
	ASSERT_NE(SLICE(m[0]).claim.buffer, SLICE(m[1]).claim.buffer);
	OK(capkm_pool_capture_end(self->p, 0, NULL, &err));
}

TEST_HARNESS_MAIN
