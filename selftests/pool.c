// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory pools over a backend that only counts. What a test expects are numbers,
 * worked out by hand from the rules of each kind of area.
 */
#include "capkm_test.h"
#include "fail_alloc.h"

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
	if (self->b->pages || self->b->bytes)
		t_die("%" PRIu64 " pages were not given back", self->b->pages);
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

/* T-74: what the alignment costs, and which page serves what */
TEST_F(pool, sliced_pages)
{
	uint64_t a, b, c, d, e;
	struct capkm_pool_stats s;

	POOL(50, SLICED(100, .slice_max = 50), SLICED(1000));
	a = ALLOC(40);
	b = ALLOC(40);
	ASSERT_EQ(10, SLICE(a).padding);
	ASSERT_EQ(0, SLICE(a).claim.start);
	ASSERT_EQ(40, SLICE(a).claim.end);
	ASSERT_EQ(50, SLICE(b).claim.start);
	ASSERT_EQ(90, SLICE(b).claim.end);
	ASSERT_EQ(SLICE(a).claim.buffer, SLICE(b).claim.buffer);
	s = STATS;
	ASSERT_EQ(100, s.bytes);
	ASSERT_EQ(80, s.used);
	ASSERT_EQ(20, s.padding);
	ASSERT_EQ(0, s.free);
	ASSERT_EQ(2, s.slices);
	/* The page is full. */
	c = ALLOC(1);
	ASSERT_EQ(2, STATS.pages);
	ASSERT_EQ(49, SLICE(c).padding);
	/* Of the next area, where large and small share a page. */
	d = ALLOC(51);
	e = ALLOC(880);
	ASSERT_EQ(3, STATS.pages);
	ASSERT_EQ(1200, STATS.bytes);
	ASSERT_EQ(SLICE(d).claim.buffer, SLICE(e).claim.buffer);
	ASSERT_EQ(49, SLICE(d).padding);
	ASSERT_EQ(100, START(e));
	/* First fit, by page and address; and the page is used again. */
	FREE(a);
	FREE(b);
	a = ALLOC(50);
	ASSERT_NE(SLICE(a).claim.buffer, SLICE(c).claim.buffer);
	ASSERT_EQ(0, START(a));
	ASSERT_EQ(0, SLICE(a).padding);
	b = ALLOC(50);
	ASSERT_EQ(50, START(b));
	ASSERT_EQ(3, self->b->allocs);
	REFUSED(-EMSGSIZE, "1001 bytes; no area of the pool has slices of more than 1000",
		capkm_pool_alloc(self->p, 0, 1001, &a, &err));
	REFUSED(-EMSGSIZE, "", capkm_pool_alloc(self->p, 0, UINT64_MAX, &a, &err));
	REFUSED(-EINVAL, "at least one byte", capkm_pool_alloc(self->p, 0, 0, &a, &err));
	REFUSED(-EINVAL, "slots below 32, not 32", capkm_pool_alloc(self->p, 32, 1, &a, &err));
	ASSERT_EQ(3, self->b->allocs);
}

/* A slot has its own memory */
TEST_F(pool, slots)
{
	uint64_t a, b;

	POOL(32, SLICED(4096));
	a = ALLOC(32);
	b = alloc_on(self->p, 5, 32);
	ASSERT_NE(SLICE(a).claim.buffer, SLICE(b).claim.buffer);
	ASSERT_EQ(0, SLICE(a).slot);
	ASSERT_EQ(5, SLICE(b).slot);
	ASSERT_EQ(32, stats_on(self->p, 5).used);
	ASSERT_EQ(0, stats_on(self->p, 4).pages);
	FREE(b);
	OK(capkm_pool_cleanup(self->p, 4, &err));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(1, stats_on(self->p, 5).pages);
	ASSERT_EQ(1, stats_on(self->p, 0).pages);
	OK(capkm_pool_cleanup(self->p, 5, &err));
	ASSERT_EQ(0, stats_on(self->p, 5).pages);
	REFUSED(-EINVAL, "32", capkm_pool_cleanup(self->p, 32, &err));
	REFUSED(-EINVAL, "32", capkm_pool_capture_begin(self->p, 32, &err));
	REFUSED(-EINVAL, "32", capkm_pool_priming_end(self->p, 32, &err));
	REFUSED(-EINVAL, "32", capkm_pool_capture_end(self->p, 32, NULL, &err));
	REFUSED(-EINVAL, "32", capkm_pool_persistent_begin(self->p, 32, &err));
	REFUSED(-EINVAL, "32", capkm_pool_persistent_end(self->p, 32, &err));
	FREE(a);
}

/* T-72: a cap refuses and changes nothing, what is freed makes room; T-73: spill */
TEST_F(pool, capacity)
{
	uint64_t a, b, c = 77, d;
	struct capkm_pool_stats before, s;

	POOL(32, SLICED(1024, .capacity = 2100));
	a = ALLOC(1000);
	b = ALLOC(1000);
	before = STATS;
	REFUSED(-ENOSPC,
		"no room for 1000 bytes: the area's capacity is 2080 bytes, its pages have 2048, of which 2048 are in use",
		capkm_pool_alloc(self->p, 0, 1000, &c, &err));
	REFUSED(-ENOSPC, "", capkm_pool_reserve(self->p, 0, 1, &c, &err));
	ASSERT_EQ(77, c);
	s = STATS;
	ASSERT_EQ(0, memcmp(&before, &s, sizeof(s)));
	ASSERT_EQ(2, self->b->tries);
	FREE(a);
	a = ALLOC(500);
	c = ALLOC(500);
	ASSERT_EQ(2, self->b->tries);
	FREE(a);
	FREE(c);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(1024, STATS.bytes);
	a = ALLOC(1000);
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 1000, &c, &err));
	FREE(a);
	FREE(b);
	capkm_pool_destroy(self->p);

	/* Smaller than the page: the page shrinks, and what a slice may be. */
	POOL(32, SLICED(4096, .capacity = 1030), SLICED(8192, .capacity = 8192));
	a = ALLOC(1024);
	ASSERT_EQ(1024, STATS.bytes);
	/* The first area is full, and then does not accept the size. */
	b = ALLOC(1024);
	ASSERT_EQ(1024 + 8192, STATS.bytes);
	c = ALLOC(1025);
	ASSERT_EQ(SLICE(b).claim.buffer, SLICE(c).claim.buffer);
	REFUSED(-ENOSPC, "capacity is 8192", capkm_pool_alloc(self->p, 0, 8192, &d, &err));
	ASSERT_EQ(1024 + 8192, STATS.bytes);
	capkm_pool_destroy(self->p);
	POOL(32, SLICED(4096, .capacity = 1030));
	REFUSED(-EMSGSIZE, "1024", capkm_pool_alloc(self->p, 0, 1025, &d, &err));
	ASSERT_EQ(0, STATS.pages);
}

/* Idle pages of other sizes do not count against a cap */
TEST_F(pool, capacity_idle)
{
	uint64_t a, b, c;

	POOL(32, DIRECT(.capacity = 1024));
	a = ALLOC(512);
	b = ALLOC(256);
	FREE(a);
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 800, &c, &err));
	ASSERT_EQ(2, STATS.pages);
	c = ALLOC(768);
	ASSERT_EQ(1024, STATS.bytes);
	ASSERT_EQ(1, self->b->frees);
	ASSERT_EQ(256, SLICE(b).claim.end);
	ASSERT_EQ(0, START(c));
}

/* ------------------------------------------------------------- exact sizes */

/* T-76: one key for allocation and reservation, of exactly the size */
TEST_F(pool, persistent)
{
	uint64_t a, b, c, buffer;

	POOL(32, SLICED(4096));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	a = ALLOC(100);
	ASSERT_EQ(128, STATS.bytes);
	ASSERT_EQ(28, SLICE(a).padding);
	buffer = SLICE(a).claim.buffer;
	FREE(a);
	a = RESERVE(100);
	ASSERT_EQ(buffer, SLICE(a).claim.buffer);
	FREE(a);
	a = ALLOC(97);
	ASSERT_EQ(buffer, SLICE(a).claim.buffer);
	ASSERT_EQ(97, SLICE(a).claim.end);
	ASSERT_EQ(31, SLICE(a).padding);
	FREE(a);
	/* Neither smaller nor larger. */
	b = ALLOC(96);
	c = ALLOC(129);
	ASSERT_NE(buffer, SLICE(b).claim.buffer);
	ASSERT_EQ(128 + 96 + 160, STATS.bytes);
	ASSERT_EQ(3, STATS.grown);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(96 + 160, STATS.bytes);
	FREE(b);
	FREE(c);
}

/* T-69: windows for weights nest */
TEST_F(pool, persistent_nests)
{
	POOL(32, SLICED(4096));
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	ASSERT_EQ(2, STATS.persistent);
	ALLOC(32);
	ASSERT_EQ(32, STATS.bytes);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	ALLOC(32);
	ASSERT_EQ(64, STATS.bytes);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	ASSERT_EQ(0, STATS.persistent);
	ALLOC(32);
	ASSERT_EQ(64 + 4096, STATS.bytes);
	/* One end too many is none for the next begin. */
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	ALLOC(64);
	ASSERT_EQ(64 + 4096 + 64, STATS.bytes);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
}

/* A direct area gives back at the next reservation what is free above its mark */
TEST_F(pool, reclaim)
{
	uint64_t m[4];

	POOL(32, DIRECT(.reclaim = 200, .slice_max = 1000), SLICED(4096));
	for (int i = 0; i < 4; i++)
		m[i] = ALLOC(96);
	ASSERT_EQ(384, STATS.bytes);
	for (int i = 3; i >= 0; i--)
		FREE(m[i]);
	ASSERT_EQ(384, STATS.bytes);
	/* 384 free; two go, those that were freed first. */
	ALLOC(2000);
	ASSERT_EQ(192 + 4096, STATS.bytes);
	ASSERT_EQ(2, self->b->frees);
	m[2] = ALLOC(96);
	m[3] = ALLOC(65);
	ASSERT_EQ(5, STATS.grown);
	ASSERT_EQ(192 + 4096, STATS.bytes);
	REFUSED(-EMSGSIZE, "", capkm_pool_alloc(self->p, 0, 5000, &m[0], &err));
}

/* -------------------------------------------------------------- exclusive */

/* A page for each slice, as large as sizes were lately */
TEST_F(pool, exclusive)
{
	uint64_t a, b, c;
	struct capkm_pool_stats s;

	POOL(10, EXCLUSIVE(1000));
	/* Average 500, then 496. */
	a = ALLOC(101);
	ASSERT_EQ(500, STATS.bytes);
	ASSERT_EQ(101, SLICE(a).claim.end);
	ASSERT_EQ(9, SLICE(a).padding);
	b = ALLOC(600);
	s = STATS;
	ASSERT_EQ(1100, s.bytes);
	ASSERT_EQ(701, s.used);
	ASSERT_EQ(9, s.padding);
	ASSERT_EQ(0, s.free);
	FREE(b);
	ASSERT_EQ(600, STATS.free);
	FREE(a);
	ASSERT_EQ(1100, STATS.free);
	/* Both were used once: the one that was freed first. */
	c = ALLOC(100);
	ASSERT_EQ(500, STATS.free);
	FREE(c);
	/* Now it was used more. */
	c = ALLOC(100);
	ASSERT_EQ(500, STATS.free);
	/* None is large enough. */
	a = ALLOC(510);
	ASSERT_EQ(3, STATS.grown);
	ASSERT_EQ(500, STATS.free);
	b = ALLOC(490);
	ASSERT_EQ(3, STATS.grown);
	REFUSED(-EMSGSIZE, "1000", capkm_pool_alloc(self->p, 0, 1001, &a, &err));
}

/* Sizes of late decide, a hundredth each */
TEST_F(pool, exclusive_average)
{
	uint64_t m;

	POOL(1, EXCLUSIVE(2000));
	/* 1000 * 0.99^100 is 366; what remains of 1 is almost 1. */
	for (int i = 0; i < 99; i++)
		FREE(ALLOC(1));
	ASSERT_EQ(990, STATS.bytes);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	m = ALLOC(1);
	ASSERT_LE(360, STATS.bytes);
	ASSERT_GE(370, STATS.bytes);
	FREE(m);
}

/* T-78: idle pages go back after a period, with their taint; used ones stay */
TEST_F(pool, exclusive_period)
{
	uint64_t a, b;

	POOL(10, EXCLUSIVE(1000, .period = 25), SLICED(1 << 20));
	a = ALLOC(100);				/* 1 */
	TAINT(a);
	FREE(a);
	ASSERT_EQ(1, FAILURES);
	for (int i = 2; i < 5; i++)
		ALLOC(2000);
	ASSERT_EQ(2, STATS.pages);
	ASSERT_EQ(1, STATS.carriers);
	ALLOC(2000);				/* 5: checked */
	ASSERT_EQ(1, STATS.pages);
	ASSERT_EQ(0, STATS.carriers);
	ASSERT_EQ(0, FAILURES);
	/* Used twice: it stays for one check more. */
	a = ALLOC(100);				/* 6 */
	FREE(a);
	a = ALLOC(100);				/* 7 */
	FREE(a);
	for (int i = 8; i <= 14; i++)
		ALLOC(2000);
	ASSERT_EQ(2, STATS.pages);
	ALLOC(2000);				/* 15 */
	ASSERT_EQ(1, STATS.pages);
	/* In use it is never idle; and not while a capture is armed. */
	a = ALLOC(100);				/* 16 */
	for (int i = 17; i <= 30; i++)
		ALLOC(2000);
	ASSERT_EQ(2, STATS.pages);
	FREE(a);
	OK(capkm_pool_capture_begin(self->p, 0, &err));
	for (int i = 31; i <= 40; i++)
		FREE(ALLOC(100));
	ASSERT_EQ(2 + 10, STATS.pages);
	OK(capkm_pool_capture_end(self->p, 0, NULL, &err));
	b = ALLOC(2000);			/* 41: checked */
	ASSERT_EQ(1 + 10, STATS.pages);
	FREE(b);
}

/* ----------------------------------------------------------------- handles */

/* T-70, C38: an id that is wrong is never somebody else's memory */
TEST_F(pool, wrong_ids)
{
	const struct capkm_pool_memory m = memory(self->b, 32, 0);
	const struct capkm_pool_area area = SLICED(4096);
	struct capkm_pool *other;
	uint64_t a, b, c, empty;

	POOL(32, SLICED(4096));
	OK(create(self->c, &m, &area, 1, &other));
	a = ALLOC(100);
	b = alloc_on(other, 0, 100);
	FREE(a);
	c = ALLOC(100);
	ASSERT_EQ(0, START(c));
	/* Freed, and its place is c's now. */
	GONE(a, "was freed, or never allocated");
	REFUSED(-ENOENT, "was freed", capkm_pool_free(self->p, a, &err));
	REFUSED(-ENOENT, "was freed", capkm_pool_pin(self->p, a, &err));
	REFUSED(-ENOENT, "was freed", capkm_pool_unpin(self->p, a, &err));
	/* Another pool's. */
	GONE(b, "is not of this pool");
	REFUSED(-ENOENT, "is not of this pool", capkm_pool_free(self->p, b, &err));
	REFUSED(-ENOENT, "is not of this pool", capkm_pool_bind(self->p, b, c, &err));
	/* No id of any pool. */
	GONE(0, "");
	GONE(UINT64_MAX, "");
	GONE(c + 1, "");
	/* Never had memory. */
	OK(capkm_pool_handle(self->p, &empty, &err));
	GONE(empty, "has no memory");
	REFUSED(-ENOENT, "has no memory", capkm_pool_pin(self->p, empty, &err));
	REFUSED(-EINVAL, "not pinned", capkm_pool_unpin(self->p, empty, &err));
	REFUSED(-ENOENT, "has no memory", capkm_pool_bind(self->p, empty, empty, &err));
	OK(capkm_pool_free(self->p, empty, &err));
	REFUSED(-ENOENT, "was freed", capkm_pool_free(self->p, empty, &err));
	ASSERT_EQ(1, STATS.slices);
	ASSERT_EQ(0, START(c));
	/* The same id is not given twice. */
	for (int i = 0; i < 1000; i++) {
		FREE(c);
		c = ALLOC(100);
		ASSERT_NE(a, c);
	}
	capkm_pool_destroy(other);
}

/* I-5: pinned memory is not free, whoever freed it */
TEST_F(pool, pins)
{
	uint64_t a, b;

	POOL(32, SLICED(64, .capacity = 64));
	a = ALLOC(64);
	ASSERT_EQ(0, SLICE(a).pins);
	REFUSED(-EINVAL, "not pinned", capkm_pool_unpin(self->p, a, &err));
	OK(capkm_pool_pin(self->p, a, &err));
	OK(capkm_pool_pin(self->p, a, &err));
	ASSERT_EQ(2, SLICE(a).pins);
	FREE(a);
	GONE(a, "was freed");
	REFUSED(-ENOENT, "was freed", capkm_pool_free(self->p, a, &err));
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 64, &b, &err));
	ASSERT_EQ(64, STATS.used);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(1, STATS.pages);
	/* Pinned already: one more may. */
	OK(capkm_pool_pin(self->p, a, &err));
	OK(capkm_pool_unpin(self->p, a, &err));
	OK(capkm_pool_unpin(self->p, a, &err));
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 64, &b, &err));
	OK(capkm_pool_unpin(self->p, a, &err));
	REFUSED(-ENOENT, "was freed", capkm_pool_unpin(self->p, a, &err));
	REFUSED(-ENOENT, "was freed", capkm_pool_pin(self->p, a, &err));
	ASSERT_EQ(0, STATS.used);
	b = ALLOC(64);
	/* Pinned and unpinned, and still its owner's. */
	OK(capkm_pool_pin(self->p, b, &err));
	OK(capkm_pool_unpin(self->p, b, &err));
	ASSERT_EQ(64, SLICE(b).claim.end);
	FREE(b);
	b = ALLOC(64);
}

/* A handle first, its memory later */
TEST_F(pool, bind)
{
	uint64_t r, m, n, x;

	POOL(32, SLICED(4096));
	OK(capkm_pool_handle(self->p, &m, &err));
	OK(capkm_pool_handle(self->p, &n, &err));
	r = RESERVE(100);
	ASSERT_EQ(100, SLICE(r).claim.end);
	x = ALLOC(32);
	REFUSED(-EINVAL, "has memory", capkm_pool_bind(self->p, r, x, &err));
	REFUSED(-EINVAL, "has memory", capkm_pool_bind(self->p, r, r, &err));
	REFUSED(-EINVAL, "is not a reservation", capkm_pool_bind(self->p, x, m, &err));
	OK(capkm_pool_pin(self->p, r, &err));
	REFUSED(-EINVAL, "pinned", capkm_pool_bind(self->p, r, m, &err));
	OK(capkm_pool_unpin(self->p, r, &err));
	OK(capkm_pool_bind(self->p, r, m, &err));
	ASSERT_EQ(0, START(m));
	ASSERT_EQ(100, SLICE(m).claim.end);
	ASSERT_EQ(28, SLICE(m).padding);
	GONE(r, "was freed, or never allocated");
	REFUSED(-ENOENT, "never allocated", capkm_pool_bind(self->p, r, n, &err));
	REFUSED(-EINVAL, "is not a reservation", capkm_pool_bind(self->p, m, n, &err));
	/* A reservation that is not wanted. */
	r = RESERVE(100);
	ASSERT_EQ(160, START(r));
	FREE(n);
	REFUSED(-ENOENT, "was freed", capkm_pool_bind(self->p, r, n, &err));
	FREE(r);
	ASSERT_EQ(2, STATS.slices);
	FREE(m);
	FREE(x);
	ASSERT_EQ(4096, STATS.free);
}

/* ------------------------------------------------------------------- taint */

/* T-78, TA-11: what sheds taint, and what does not */
TEST_F(pool, shed)
{
	uint64_t a, b, r, m;
	struct capkm_claim old;

	POOL(32, SLICED(4096));
	a = ALLOC(64);
	b = ALLOC(64);
	TAINT(a);
	old = SLICE(a).claim;
	ASSERT_EQ(1, STATS.carriers);
	/* Not a free. */
	FREE(a);
	ASSERT_EQ(1, STATS.carriers);
	ASSERT_TRUE(tainted(self->c, old));
	/* Not a reservation. */
	r = RESERVE(64);
	ASSERT_EQ(0, START(r));
	ASSERT_TRUE(TAINTED(r));
	ASSERT_EQ(1, FAILURES);
	/* A new identity does. */
	OK(capkm_pool_handle(self->p, &m, &err));
	OK(capkm_pool_bind(self->p, r, m, &err));
	ASSERT_FALSE(TAINTED(m));
	ASSERT_EQ(0, STATS.carriers);
	ASSERT_EQ(0, FAILURES);
	TAINT(m);
	FREE(m);
	a = ALLOC(64);
	ASSERT_EQ(0, START(a));
	ASSERT_FALSE(TAINTED(a));
	ASSERT_EQ(0, FAILURES);
	/* Only what it gets: the rest of a free slice keeps it. */
	TAINT(a);
	FREE(a);
	m = ALLOC(32);
	ASSERT_EQ(0, START(m));
	ASSERT_FALSE(TAINTED(m));
	ASSERT_EQ(1, STATS.carriers);
	/* Merging does: 0..64 and nothing else, for b is in use. */
	TAINT(m);
	FREE(m);
	ASSERT_EQ(2, STATS.carriers);
	ASSERT_EQ(2, FAILURES);
	m = ALLOC(64);
	ASSERT_EQ(0, START(m));
	ASSERT_EQ(0, FAILURES);
	/* A page that goes back does. */
	TAINT(m);
	TAINT(b);
	FREE(m);
	FREE(b);
	ASSERT_EQ(2, FAILURES);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(0, FAILURES);
	ASSERT_EQ(0, STATS.pages);
	/* Cleanup also merges beside what is used. */
	a = ALLOC(32);
	b = ALLOC(32);
	m = ALLOC(32);
	TAINT(a);
	TAINT(b);
	FREE(a);
	FREE(b);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(0, FAILURES);
	ASSERT_EQ(1, STATS.pages);
	/* Pages of exactly the size. */
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	a = ALLOC(64);
	TAINT(a);
	FREE(a);
	ASSERT_EQ(1, FAILURES);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(0, FAILURES);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
}

/* TA-13: new memory is clean; TA-12: what is used does not lose its taint */
TEST_F(pool, taint_stays)
{
	uint64_t a, b, c;

	POOL(32, SLICED(128));
	a = ALLOC(32);
	b = ALLOC(32);
	c = ALLOC(32);
	ASSERT_FALSE(TAINTED(a));
	TAINT(b);
	FREE(a);
	FREE(c);
	ALLOC(64);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_TRUE(TAINTED(b));
	ASSERT_EQ(32, START(b));
	ASSERT_EQ(1, STATS.carriers);
	OK(capkm_pool_pin(self->p, b, &err));
	FREE(b);
	ALLOC(32);
	ASSERT_EQ(1, STATS.carriers);
	OK(capkm_pool_unpin(self->p, b, &err));
	ASSERT_EQ(1, STATS.carriers);
	b = ALLOC(32);
	ASSERT_EQ(32, START(b));
	ASSERT_EQ(0, STATS.carriers);
}

static struct capkm_scope enter(struct capkm *c, struct capkm_claim claim)
{
	struct capkm_scope s;

	if (capkm_scope_enter(c, NULL, NULL, 0, &claim, 1, NULL, &s, NULL, &err))
		t_die("enter: %s", err.text);
	return s;
}

/* Memory that a scope still writes is not handed out, merged, nor given back */
TEST_F(pool, busy)
{
	struct capkm_claim old;
	struct capkm_scope s;
	uint64_t a, b, c, r, m;

	POOL(32, SLICED(128, .capacity = 256), DIRECT());
	a = ALLOC(32);
	b = ALLOC(32);
	c = ALLOC(64);
	old = SLICE(a).claim;
	s = enter(self->c, old);
	FREE(a);
	/* The next that fits: a new page. */
	a = ALLOC(32);
	ASSERT_NE(old.buffer, SLICE(a).claim.buffer);
	/* No neighbour. */
	FREE(b);
	m = ALLOC(64);
	ASSERT_NE(old.buffer, SLICE(m).claim.buffer);
	b = ALLOC(32);
	ASSERT_EQ(old.buffer, SLICE(b).claim.buffer);
	ASSERT_EQ(32, START(b));
	/* Two pages of the first area are full, but for that. */
	ASSERT_EQ(96, START(r = ALLOC(32)));
	FREE(r);
	r = RESERVE(32);
	ASSERT_EQ(0, START(r));
	ASSERT_EQ(old.buffer, SLICE(r).claim.buffer);
	FREE(m);
	OK(capkm_pool_handle(self->p, &m, &err));
	REFUSED(-EBUSY, "buffer_reset", capkm_pool_bind(self->p, r, m, &err));
	ASSERT_EQ(32, SLICE(r).claim.end);
	GONE(m, "has no memory");
	FREE(r);
	FREE(b);
	FREE(c);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.pages);
	ASSERT_EQ(0, self->b->frees);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(1, STATS.pages);
	FREE(a);
	FREE(m);
}

/* The same for pages of one slice: of several, the next; a cap does not push it out */
TEST_F(pool, busy_exact)
{
	uint64_t a, b, c, buffer[2];
	struct capkm_scope s;

	POOL(32, DIRECT(.capacity = 192, .reclaim = 1));
	a = ALLOC(64);
	b = ALLOC(64);
	buffer[0] = SLICE(a).claim.buffer;
	buffer[1] = SLICE(b).claim.buffer;
	s = enter(self->c, SLICE(a).claim);
	FREE(a);
	FREE(b);
	c = ALLOC(64);
	ASSERT_NE(buffer[0], SLICE(c).claim.buffer);
	ASSERT_LE(1, STATS.pages);
	REFUSED(-ENOSPC, "", capkm_pool_alloc(self->p, 0, 128, &a, &err));
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	a = ALLOC(128);
	ASSERT_EQ(192, STATS.bytes);
}

TEST_F(pool, busy_exclusive)
{
	uint64_t m[3], buffer[3];
	struct capkm_scope s;

	POOL(32, EXCLUSIVE(64, .period = 5));
	for (int i = 0; i < 3; i++) {
		m[i] = ALLOC(64);
		buffer[i] = SLICE(m[i]).claim.buffer;
	}
	s = enter(self->c, SLICE(m[0]).claim);
	for (int i = 0; i < 2; i++)
		FREE(m[i]);
	/* The check would give both back; one is written. */
	FREE(m[2]);
	m[1] = ALLOC(64);
	ASSERT_NE(buffer[0], SLICE(m[1]).claim.buffer);
	ASSERT_EQ(2, self->b->frees);
	ASSERT_EQ(4, STATS.grown);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
	m[2] = ALLOC(64);
	ASSERT_EQ(3, self->b->frees);
	capkm_pool_destroy(self->p);

	/* Of pages that were used as often, the next. */
	POOL(32, EXCLUSIVE(64));
	for (int i = 0; i < 3; i++)
		m[i] = ALLOC(64);
	s = enter(self->c, SLICE(m[0]).claim);
	for (int i = 0; i < 3; i++)
		FREE(m[i]);
	ALLOC(64);
	ALLOC(64);
	ASSERT_EQ(3, STATS.grown);
	ALLOC(64);
	ASSERT_EQ(4, STATS.grown);
	OK(capkm_scope_exit(self->c, &s, 0, &err));
}

/* Carriers are counted through all the ranges that there are */
TEST_F(pool, carriers)
{
	struct capkm_claim c;
	uint64_t m[100];

	POOL(32, SLICED(8192), EXCLUSIVE(1 << 20));
	for (int i = 0; i < 100; i++)
		m[i] = ALLOC(64);
	/* Every second slice, in two places. */
	for (int i = 0; i < 100; i += 2) {
		c = SLICE(m[i]).claim;
		c.end = c.start + 1;
		OK(capkm_taint(self->c, &c, 1, 0, NULL, NULL, &err));
		c.start += 40;
		c.end = c.start + 8;
		OK(capkm_taint(self->c, &c, 1, 0, NULL, NULL, &err));
	}
	ASSERT_EQ(50, STATS.carriers);
	FREE(m[0]);
	ASSERT_EQ(50, STATS.carriers);
	/* One range over several. */
	c.start = 10 * 64;
	c.end = 20 * 64;
	OK(capkm_taint(self->c, &c, 1, 0, NULL, NULL, &err));
	ASSERT_EQ(55, STATS.carriers);
	/* What a scope writes is no failure yet. */
	c = SLICE(m[99]).claim;
	{
		struct capkm_scope s = enter(self->c, c);

		ASSERT_EQ(55, STATS.carriers);
		OK(capkm_scope_exit(self->c, &s, 0, &err));
	}
	ASSERT_EQ(55, STATS.carriers);
	c = SLICE(m[1]).claim;
	c.start = 0;
	c.end = 8192;
	OK(capkm_taint(self->c, &c, 1, 0, NULL, NULL, &err));
	/* 100 slices, and what is left of the page: 8192 - 6400. */
	ASSERT_EQ(101, STATS.carriers);
	ALLOC(10000);
	ASSERT_EQ(101, STATS.carriers);
}

/* Also where many ranges begin at one byte */
TEST_F(pool, carriers_behind)
{
	struct capkm_scope s[150];
	uint64_t a, b;

	POOL(32, SLICED(8192));
	a = ALLOC(64);
	b = ALLOC(64);
	for (int i = 0; i < 150; i++)
		s[i] = enter(self->c, SLICE(a).claim);
	TAINT(b);
	ASSERT_EQ(1, STATS.carriers);
	for (int i = 0; i < 150; i++)
		OK(capkm_scope_exit(self->c, &s[i], 0, &err));
	ASSERT_EQ(1, STATS.carriers);
}

/* T-71: what is held survives a cleanup */
TEST_F(pool, cleanup)
{
	uint64_t m[6], address;

	POOL(32, SLICED(64), DIRECT());
	for (int i = 0; i < 6; i++)
		m[i] = ALLOC(64);
	address = SLICE(m[4]).address;
	OK(capkm_pool_pin(self->p, m[2], &err));
	for (int i = 0; i < 4; i++)
		FREE(m[i]);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(3, STATS.pages);
	ASSERT_EQ(192, self->b->bytes);
	ASSERT_EQ(address, SLICE(m[4]).address);
	OK(capkm_pool_unpin(self->p, m[2], &err));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.pages);
	FREE(m[4]);
	FREE(m[5]);
}

/* ----------------------------------------------------------------- capture */

#define BEGIN		OK(capkm_pool_capture_begin(self->p, 0, &err))
#define PRIMED		OK(capkm_pool_priming_end(self->p, 0, &err))
#define END(pins)	OK(capkm_pool_capture_end(self->p, 0, pins, &err))

static uint32_t pinned(const struct capkm_pool_pins *pins)
{
	uint32_t len = 77;

	capkm_pool_pins_list(pins, &len);
	return len;
}

static bool has_pin(const struct capkm_pool_pins *pins, uint64_t m)
{
	uint32_t i, len;
	const uint64_t *list = capkm_pool_pins_list(pins, &len);

	for (i = 0; i < len; i++)
		if (list[i] == m)
			return true;
	return false;
}

/* CM-1, CM-2, CM-6, CM-7: what is served, and by whom, while a capture is armed */
TEST_F(pool, armed)
{
	struct capkm_pool_pins *pins = (void *)1;
	uint64_t a, b, c;

	POOL(32, SLICED(4096));
	/* Not armed: nothing happens. */
	PRIMED;
	END(&pins);
	ASSERT_EQ(NULL, pins);
	END(NULL);
	a = ALLOC(100);
	ASSERT_EQ(4096, STATS.bytes);
	BEGIN;
	ASSERT_EQ(1, STATS.capture);
	b = ALLOC(100);
	ASSERT_EQ(4096 + 128, STATS.bytes);
	ASSERT_EQ(0, SLICE(a).touched);
	ASSERT_EQ(1, SLICE(b).touched);
	/* For afterwards. */
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	c = ALLOC(100);
	ASSERT_EQ(4096 + 256, STATS.bytes);
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	PRIMED;
	ASSERT_EQ(2, STATS.capture);
	PRIMED;
	BEGIN;
	ASSERT_EQ(2, STATS.capture);
	FREE(a);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(3, STATS.pages);
	END(&pins);
	ASSERT_EQ(0, STATS.capture);
	ASSERT_EQ(2, pinned(pins));
	ASSERT_TRUE(has_pin(pins, b));
	ASSERT_TRUE(has_pin(pins, c));
	ASSERT_EQ(1, SLICE(b).pins);
	ASSERT_EQ(0, SLICE(b).touched);
	/* Persistent, as was said meanwhile. */
	a = ALLOC(100);
	ASSERT_EQ(4096 + 384, STATS.bytes);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	a = ALLOC(100);
	ASSERT_EQ(0, START(a));
	ASSERT_EQ(4096 + 384, STATS.bytes);
	/* CM-9: the graph's, whoever frees them, or unpins once too often. */
	REFUSED(-EINVAL, "not pinned, but by a graph", capkm_pool_unpin(self->p, b, &err));
	OK(capkm_pool_pin(self->p, b, &err));
	ASSERT_EQ(2, SLICE(b).pins);
	OK(capkm_pool_unpin(self->p, b, &err));
	FREE(b);
	REFUSED(-EINVAL, "but by a graph", capkm_pool_unpin(self->p, b, &err));
	FREE(c);
	ASSERT_EQ(400, STATS.used);
	capkm_pool_pins_put(pins);
	ASSERT_EQ(200, STATS.used);
	ASSERT_EQ(0, pinned(NULL));
	capkm_pool_pins_put(NULL);
	/* Another slot is not in the capture. */
	BEGIN;
	ASSERT_EQ(0, stats_on(self->p, 1).capture);
	alloc_on(self->p, 1, 100);
	ASSERT_EQ(4096, stats_on(self->p, 1).bytes);
	END(&pins);
	ASSERT_EQ(NULL, pins);
}

/* T-60: freed by one capture, reused and pinned by the next */
TEST_F(pool, pins_of_the_next_capture)
{
	struct capkm_pool_pins *pins;
	uint64_t a, b;

	POOL(32, SLICED(4096));
	BEGIN;
	FREE(ALLOC(100));
	PRIMED;
	END(NULL);
	ASSERT_EQ(0, STATS.used);
	BEGIN;
	PRIMED;
	a = ALLOC(100);
	ASSERT_EQ(1, STATS.grown);
	END(&pins);
	ASSERT_EQ(1, pinned(pins));
	ASSERT_EQ(1, SLICE(a).pins);
	FREE(a);
	/* While it is pinned the same size has to grow. */
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	b = ALLOC(100);
	ASSERT_EQ(2, STATS.grown);
	capkm_pool_pins_put(pins);
	ASSERT_NE(SLICE(b).claim.buffer, SLICE(ALLOC(100)).claim.buffer);
	ASSERT_EQ(2, STATS.grown);
}

/* T-61, T-62, T-65: those that were touched, and only those */
TEST_F(pool, pins_what_was_touched)
{
	struct capkm_pool_pins *pins;
	uint64_t live, reused, idle, other, again;

	POOL(32, SLICED(4096));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	live = ALLOC(100);
	reused = ALLOC(200);
	idle = ALLOC(300);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	other = ALLOC(100);
	FREE(idle);
	BEGIN;
	FREE(reused);
	again = ALLOC(200);
	ASSERT_EQ(4, STATS.grown);
	PRIMED;
	END(&pins);
	ASSERT_EQ(1, pinned(pins));
	ASSERT_TRUE(has_pin(pins, again));
	ASSERT_EQ(0, SLICE(live).pins);
	ASSERT_EQ(0, SLICE(other).pins);
	ASSERT_EQ(1, SLICE(again).pins);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(3, STATS.pages);
	capkm_pool_pins_put(pins);
}

/* T-63: a cleanup while it is armed; T-64: a second begin */
TEST_F(pool, pins_through_a_second_begin)
{
	struct capkm_pool_pins *pins, *none = (void *)1;
	uint64_t a, b;

	POOL(32, SLICED(4096));
	BEGIN;
	a = ALLOC(100);
	FREE(a);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(1, STATS.pages);
	BEGIN;
	b = ALLOC(200);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	END(&pins);
	ASSERT_EQ(2, pinned(pins));
	ASSERT_TRUE(has_pin(pins, a));
	ASSERT_TRUE(has_pin(pins, b));
	END(&none);
	ASSERT_EQ(NULL, none);
	/* The graph has what was freed, too. */
	GONE(a, "was freed");
	ASSERT_EQ(300, STATS.used);
	OK(capkm_pool_pin(self->p, a, &err));
	OK(capkm_pool_unpin(self->p, a, &err));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.pages);
	capkm_pool_pins_put(pins);
	REFUSED(-ENOENT, "was freed", capkm_pool_pin(self->p, a, &err));
	ASSERT_EQ(200, STATS.used);
	FREE(b);
}

/* CM-7: what is free while it is armed stays, too */
TEST_F(pool, no_cleanup_while_armed)
{
	POOL(32, SLICED(4096));
	FREE(ALLOC(100));
	BEGIN;
	FREE(ALLOC(100));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.pages);
	PRIMED;
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.pages);
	FREE(ALLOC(100));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(2, STATS.grown);
	END(NULL);
	ASSERT_EQ(0, self->b->frees);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(0, STATS.pages);
}

/* T-66: after the warm-up the area has as many slices as it used in all */
TEST_F(pool, working_set)
{
	struct capkm_pool_pins *pins;
	uint64_t m[3];

	POOL(32, SLICED(4096));
	BEGIN;
	for (int i = 0; i < 3; i++)
		FREE(ALLOC(100));
	/* T-67: nothing was recycled. */
	ASSERT_EQ(3, STATS.grown);
	ASSERT_EQ(384, STATS.bytes);
	PRIMED;
	for (int i = 0; i < 3; i++)
		m[i] = ALLOC(100);
	ASSERT_EQ(3, STATS.grown);
	ASSERT_NE(SLICE(m[0]).claim.buffer, SLICE(m[1]).claim.buffer);
	ASSERT_NE(SLICE(m[0]).claim.buffer, SLICE(m[2]).claim.buffer);
	ASSERT_NE(SLICE(m[1]).claim.buffer, SLICE(m[2]).claim.buffer);
	END(&pins);
	ASSERT_EQ(3, pinned(pins));
	for (int i = 0; i < 3; i++)
		ASSERT_TRUE(has_pin(pins, m[i]));
	for (int i = 0; i < 3; i++)
		FREE(m[i]);
	ASSERT_EQ(300, STATS.used);
	capkm_pool_pins_put(pins);
	ASSERT_EQ(0, STATS.used);
}

/* T-68: a capture that never left its warm-up */
TEST_F(pool, given_up)
{
	POOL(32, SLICED(4096));
	BEGIN;
	for (int i = 0; i < 3; i++)
		FREE(ALLOC(100));
	END(NULL);
	ASSERT_EQ(0, STATS.used);
	ASSERT_EQ(384, STATS.free);
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	ALLOC(100);
	ASSERT_EQ(3, STATS.grown);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ASSERT_EQ(128, STATS.bytes);
}

/* C44: what recorded work wrote is nobody else's within the recording */
TEST_F(pool, no_reuse_in_the_recording)
{
	struct capkm_pool_pins *pins;
	uint64_t before, t, w, x, buffer;

	POOL(32, SLICED(4096));
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	before = ALLOC(100);
	OK(capkm_pool_persistent_end(self->p, 0, &err));
	BEGIN;
	FREE(ALLOC(100));
	x = ALLOC(100);
	PRIMED;
	ASSERT_EQ(3, STATS.grown);
	/* The warm-up's slice, once. */
	t = ALLOC(100);
	ASSERT_EQ(3, STATS.grown);
	buffer = SLICE(t).claim.buffer;
	FREE(t);
	w = ALLOC(100);
	ASSERT_EQ(4, STATS.grown);
	ASSERT_NE(buffer, SLICE(w).claim.buffer);
	/* Nor what lived before, or through the warm-up. */
	FREE(x);
	FREE(before);
	FREE(w);
	w = ALLOC(100);
	ASSERT_EQ(5, STATS.grown);
	/* Nor through a pin. */
	OK(capkm_pool_pin(self->p, w, &err));
	FREE(w);
	OK(capkm_pool_unpin(self->p, w, &err));
	w = ALLOC(100);
	ASSERT_EQ(6, STATS.grown);
	END(&pins);
	/* t, x, two that were w, and w; before was not touched. */
	ASSERT_EQ(5, pinned(pins));
	ASSERT_TRUE(has_pin(pins, t));
	ASSERT_TRUE(has_pin(pins, x));
	ASSERT_TRUE(has_pin(pins, w));
	ASSERT_FALSE(has_pin(pins, before));
	/* Afterwards only before is free. */
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	ALLOC(100);
	ASSERT_EQ(6, STATS.grown);
	ALLOC(100);
	ASSERT_EQ(7, STATS.grown);
	capkm_pool_pins_put(pins);
	for (int i = 0; i < 4; i++)
		ALLOC(100);
	ASSERT_EQ(7, STATS.grown);
}

/* CM-3: a reservation from before is touched when it is bound */
TEST_F(pool, bound_in_the_capture)
{
	struct capkm_pool_pins *pins;
	uint64_t r, m, n, s;

	POOL(32, SLICED(4096));
	OK(capkm_pool_handle(self->p, &m, &err));
	OK(capkm_pool_handle(self->p, &n, &err));
	r = RESERVE(100);
	BEGIN;
	s = RESERVE(200);
	OK(capkm_pool_bind(self->p, r, m, &err));
	ASSERT_EQ(1, SLICE(m).touched);
	OK(capkm_pool_bind(self->p, s, n, &err));
	FREE(m);
	PRIMED;
	END(&pins);
	ASSERT_EQ(2, pinned(pins));
	ASSERT_TRUE(has_pin(pins, m));
	ASSERT_TRUE(has_pin(pins, n));
	ASSERT_NE(0, START(ALLOC(100)));
	capkm_pool_pins_put(pins);
	ASSERT_EQ(0, START(ALLOC(100)));
	FREE(n);
}

/* What is reserved in it can be bound when a graph has it */
TEST_F(pool, bound_after_the_capture)
{
	struct capkm_pool_pins *pins;
	uint64_t r, m;

	POOL(32, SLICED(4096));
	OK(capkm_pool_handle(self->p, &m, &err));
	BEGIN;
	r = RESERVE(100);
	PRIMED;
	END(&pins);
	ASSERT_TRUE(has_pin(pins, r));
	OK(capkm_pool_bind(self->p, r, m, &err));
	ASSERT_EQ(1, SLICE(m).pins);
	FREE(m);
	ASSERT_EQ(100, STATS.used);
	capkm_pool_pins_put(pins);
	ASSERT_EQ(0, STATS.used);
	REFUSED(-ENOENT, "was freed", capkm_pool_pin(self->p, m, &err));
}

/* ------------------------------------------------------------------- epoch */

/* capkm_pool_reset(): the memory is lost, the ids stay wrong for good */
TEST_F(pool, reset)
{
	struct capkm_pool_pins *pins;
	uint64_t a, b, c, d, n, r, t;

	POOL(32, SLICED(4096));
	ASSERT_EQ(0, capkm_pool_epoch(self->p));
	a = ALLOC(100);
	b = ALLOC(100);
	TAINT(b);
	OK(capkm_pool_pin(self->p, b, &err));
	c = alloc_on(self->p, 3, 100);
	BEGIN;
	t = ALLOC(100);
	END(&pins);
	BEGIN;
	d = ALLOC(100);
	FREE(d);
	r = RESERVE(100);
	FREE(t);
	OK(capkm_pool_reset(self->p, &err));
	ASSERT_EQ(1, capkm_pool_epoch(self->p));
	ASSERT_EQ(1, STATS.epoch);
	ASSERT_EQ(0, self->b->pages);
	ASSERT_EQ(0, STATS.pages);
	ASSERT_EQ(0, STATS.capture);
	ASSERT_EQ(0, FAILURES);
	GONE(a, "was lost when the pool was reset");
	GONE(c, "was lost");
	GONE(r, "was lost");
	GONE(d, "was freed, or never");
	REFUSED(-ENOENT, "was lost", capkm_pool_pin(self->p, a, &err));
	n = RESERVE(32);
	REFUSED(-EINVAL, "still pinned", capkm_pool_bind(self->p, n, b, &err));
	FREE(n);
	OK(capkm_pool_unpin(self->p, b, &err));
	REFUSED(-EINVAL, "not pinned", capkm_pool_unpin(self->p, b, &err));
	FREE(b);
	REFUSED(-ENOENT, "was freed", capkm_pool_free(self->p, b, &err));
	/* Given memory again. */
	OK(capkm_pool_bind(self->p, RESERVE(64), a, &err));
	ASSERT_EQ(1, SLICE(a).epoch);
	ASSERT_EQ(64, SLICE(a).claim.end);
	ASSERT_EQ(1, SLICE(ALLOC(32)).epoch);
	/* Pins of a graph that is stale count for nothing. */
	GONE(t, "was freed, or never");
	capkm_pool_pins_put(pins);
	FREE(c);
	FREE(r);
	FREE(a);
}

/* ------------------------------------------------------ threads, processes */

struct work {
	struct capkm_pool *p;
	int next, rounds;
};

#define WORKERS	6
#define HELD	16

static uint64_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return *state >> 33;
}

/* Any call at any time, on two slots; nobody gets what somebody else has. */
static const char *one_round(struct work *w, uint64_t held[HELD], uint64_t *state)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	struct capkm_pool_stats st = CAPKM_OPTS(struct capkm_pool_stats);
	struct capkm_error e = CAPKM_OPTS(struct capkm_error);
	const unsigned int i = draw(state) % HELD;
	const uint32_t slot = draw(state) % 2;
	struct capkm_pool_pins *pins = NULL;
	uint64_t reserved;

	switch (draw(state) % 16) {
	case 0:
		return capkm_pool_cleanup(w->p, slot, &e) ? "cleanup" : NULL;
	case 1:
		return capkm_pool_query(w->p, slot, &st, &e) ? "query" : NULL;
	case 2:
		return capkm_pool_capture_begin(w->p, slot, &e) ? "begin" : NULL;
	case 3:
		return capkm_pool_priming_end(w->p, slot, &e) ? "primed" : NULL;
	case 4:
		if (capkm_pool_capture_end(w->p, slot, draw(state) % 2 ? &pins : NULL, &e))
			return "end";
		capkm_pool_pins_put(pins);
		return NULL;
	}
	if (held[i]) {
		if (capkm_pool_find(w->p, held[i], &s, &e) || capkm_pool_pin(w->p, held[i], &e))
			return "find";
		/* Given out twice, two threads write here; ThreadSanitizer sees it. */
		memset((void *)(uintptr_t)s.address, (int)i, s.claim.end - s.claim.start);
		if (capkm_pool_free(w->p, held[i], &e) || capkm_pool_unpin(w->p, held[i], &e))
			return "free";
		held[i] = 0;
	} else if (draw(state) % 2) {
		if (capkm_pool_alloc(w->p, slot, 1 + draw(state) % 3000, &held[i], &e))
			return "alloc";
	} else {
		if (capkm_pool_handle(w->p, &held[i], &e) ||
		    capkm_pool_reserve(w->p, slot, 1 + draw(state) % 3000, &reserved, &e) ||
		    capkm_pool_bind(w->p, reserved, held[i], &e))
			return "bind";
	}
	return NULL;
}

static void *worker(void *arg)
{
	struct work *w = arg;
	uint64_t held[HELD] = { 0 };
	uint64_t state = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED);
	const char *wrong;

	for (int n = 0; n < w->rounds; n++) {
		wrong = one_round(w, held, &state);
		if (wrong)
			return (void *)wrong;
		capkm_pool_epoch(w->p);
	}
	for (int i = 0; i < HELD; i++)
		if (held[i] && capkm_pool_free(w->p, held[i], NULL))
			return "free in the end";
	return NULL;
}

/* Any number of threads at once */
TEST_F_TIMEOUT(pool, threads, 120)
{
	const struct capkm_pool_area areas[] = {
		SLICED(8192, .slice_max = 1024), EXCLUSIVE(2048, .period = 50), DIRECT(.reclaim = 9000),
	};
	struct work w = { .rounds = t_param("CAPKM_ROUNDS", 3000, 1000) };
	pthread_t t[WORKERS];
	void *wrong;

	OK(create(self->c, capkm_pool_host_memory(), areas, 3, &self->p));
	w.p = self->p;
	for (int i = 0; i < WORKERS; i++)
		ASSERT_EQ(0, pthread_create(&t[i], NULL, worker, &w));
	for (int i = 0; i < WORKERS; i++) {
		pthread_join(t[i], &wrong);
		ASSERT_EQ(NULL, wrong) {
			TH_LOG("%s", (char *)wrong);
		}
	}
	for (int slot = 0; slot < 2; slot++) {
		OK(capkm_pool_capture_end(self->p, slot, NULL, &err));
		ASSERT_EQ(0, stats_on(self->p, slot).used);
		OK(capkm_pool_cleanup(self->p, slot, &err));
		ASSERT_EQ(0, stats_on(self->p, slot).bytes);
	}
}

static int in_child(struct capkm_pool *p, uint64_t m, struct capkm_pool_pins *pins)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	struct capkm_pool_stats st = CAPKM_OPTS(struct capkm_pool_stats);
	struct capkm_pool_pins *none;
	uint64_t x = 0;
	const int rc[] = {
		capkm_pool_alloc(p, 0, 32, &x, &err), capkm_pool_reserve(p, 0, 32, &x, &err),
		capkm_pool_handle(p, &x, &err), capkm_pool_bind(p, m, m, &err),
		capkm_pool_free(p, m, &err), capkm_pool_pin(p, m, &err),
		capkm_pool_unpin(p, m, &err), capkm_pool_find(p, m, &s, &err),
		capkm_pool_cleanup(p, 0, &err), capkm_pool_reset(p, &err),
		capkm_pool_persistent_begin(p, 0, &err), capkm_pool_persistent_end(p, 0, &err),
		capkm_pool_capture_begin(p, 0, &err), capkm_pool_priming_end(p, 0, &err),
		capkm_pool_capture_end(p, 0, &none, &err), capkm_pool_query(p, 0, &st, &err),
	};

	for (unsigned int i = 0; i < sizeof(rc) / sizeof(*rc); i++)
		if (rc[i] != -ECANCELED)
			return 1 + i;
	if (err.err != -ECANCELED || !strstr(err.text, "pool_query: the pool was inherited"))
		return 30;
	if (capkm_pool_epoch(p) != 0 || x)
		return 31;
	capkm_pool_pins_put(pins);
	capkm_pool_destroy(p);
	return 0;
}

/* Fork: an inherited pool is useless and harmless */
TEST_F(pool, fork)
{
	struct capkm_pool_pins *pins;
	int status = -1;
	uint64_t m;
	pid_t pid;

	POOL(32, SLICED(4096));
	OK(capkm_pool_capture_begin(self->p, 0, &err));
	ALLOC(32);
	OK(capkm_pool_capture_end(self->p, 0, &pins, &err));
	m = ALLOC(32);
	/* The second child joins the session first, if it can. */
	for (int i = 0; i < 2; i++) {
		fflush(NULL);
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			if (i && !t_embedded() && capkm_join(self->c, &err))
				syscall(SYS_exit_group, 40);
			status = in_child(self->p, m, pins);
			if (self->b->frees)
				status = 41;
			fflush(NULL);
			syscall(SYS_exit_group, status);
		}
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_EQ(0, status);
	}
	ASSERT_EQ(32, SLICE(m).claim.end);
	ASSERT_EQ(2, STATS.slices);
	ASSERT_EQ(2, STATS.pages);
	capkm_pool_pins_put(pins);
}

/* ---------------------------------------------------------- configurations */

#define WRONG(rc, part, idx, ...) do {					\
	const struct capkm_pool_area wrong_[] = { SLICED(4096), __VA_ARGS__ }; \
									\
	REFUSED(rc, part, create(self->c, &m, wrong_, 2, &self->p));	\
	ASSERT_EQ(idx, err.index);					\
	ASSERT_EQ(NULL, self->p);					\
} while (0)

/* T-77: what is wrong is said, by area */
TEST_F(pool, create_refuses)
{
	struct capkm_pool_memory m = memory(self->b, 32, 1 << 20);
	struct capkm_pool_memory n = m;
	struct capkm_pool_area many[17];
	struct capkm_pool_opts o = CAPKM_OPTS(struct capkm_pool_opts);
	struct {
		struct capkm_pool_opts o;
		uint64_t more;
	} larger = { .o.sz = sizeof(larger), .more = 1 };
	struct capkm *c;

	REFUSED(-EINVAL, "areas and areas_len", create(self->c, &m, many, 0, &self->p));
	REFUSED(-EINVAL, "areas and areas_len", create(self->c, &m, NULL, 1, &self->p));
	for (int i = 0; i < 17; i++)
		many[i] = (struct capkm_pool_area)SLICED(4096);
	REFUSED(-EMSGSIZE, "17 areas, at most 16", create(self->c, &m, many, 17, &self->p));
	WRONG(-EINVAL, "areas[1]: kind", 1, { .kind = 0 });
	WRONG(-EINVAL, "areas[1]: kind", 1, { .kind = 4 });
	WRONG(-EINVAL, "areas[1]: a reserved", 1, { .kind = CAPKM_POOL_DIRECT, .__reserved = 1 });
	WRONG(-EINVAL, "areas[1]: page_bytes must not be 0", 1, SLICED(0));
	WRONG(-EINVAL, "slice_max is more than page_bytes", 1, SLICED(64, .slice_max = 65));
	WRONG(-EINVAL, "slice_max is more", 1, EXCLUSIVE(64, .slice_max = 96));
	WRONG(-EINVAL, "capacity is less than the alignment", 1, SLICED(64, .capacity = 31));
	WRONG(-EINVAL, "capacity is less than the alignment", 1, DIRECT(.capacity = 1));
	WRONG(-EINVAL, "page_max", 1, SLICED((1 << 20) + 1));
	WRONG(-EINVAL, "page_max", 1, EXCLUSIVE(2 << 20));
	WRONG(-EOVERFLOW, "64 bits", 1, EXCLUSIVE(UINT64_MAX));
	WRONG(-EOVERFLOW, "64 bits", 1, DIRECT(.slice_max = UINT64_MAX - 1));
	o.preset = 2;
	REFUSED(-EINVAL, "preset 2", capkm_pool_create(self->c, &m, &o, &self->p, &err));
	o.preset = 0;
	o.flags = 1;
	REFUSED(-EINVAL, "flags", capkm_pool_create(self->c, &m, &o, &self->p, &err));
	o.flags = 0;
	o.slots = 33;
	REFUSED(-EINVAL, "33 slots; the session has 32",
		capkm_pool_create(self->c, &m, &o, &self->p, &err));
	REFUSED(-E2BIG, "pool_create", capkm_pool_create(self->c, &m, &larger.o, &self->p, &err));
	REFUSED(-EINVAL, "alloc and free", capkm_pool_create(self->c, NULL, NULL, &self->p, &err));
	n.alloc = NULL;
	REFUSED(-EINVAL, "alloc and free", capkm_pool_create(self->c, &n, NULL, &self->p, &err));
	n = m;
	n.alignment = 0;
	REFUSED(-EINVAL, "alignment", capkm_pool_create(self->c, &n, NULL, &self->p, &err));
	n = m;
	n.page_max = 31;
	REFUSED(-EINVAL, "page_max", capkm_pool_create(self->c, &n, NULL, &self->p, &err));
	ASSERT_EQ(NULL, self->p);
	OK(capkm_open(t_transport(), NULL, &c, &err));
	REFUSED(-ENOTCONN, "no domain", capkm_pool_create(c, &m, NULL, &self->p, &err));
	capkm_close(c);
	ASSERT_EQ(0, self->b->tries);
	/* The last of the right ones. */
	o.slots = 2;
	o.label = "a label that is quite a bit longer than the sixty-three bytes that there are";
	OK(capkm_pool_create(self->c, &m, &o, &self->p, &err));
	ASSERT_EQ(0, self->b->tries);
	alloc_on(self->p, 1, 32);
	{
		struct capkm_buffer_query q = {
			.size = sizeof(q),
			.buffer = slice(self->p, alloc_on(self->p, 1, 32)).claim.buffer,
		};

		OK(capkm_buffer_query(self->c, &q, &err));
		ASSERT_EQ(0, strncmp((char *)q.out_label, o.label, 63));
		ASSERT_EQ(self->b->live[0].address, q.out_address);
		ASSERT_EQ(self->b->live[0].bytes, q.out_bytes);
	}
	capkm_pool_destroy(NULL);
}

static struct capkm_pool *preset(struct capkm *c, uint32_t which, const struct capkm_pool_memory *m)
{
	struct capkm_pool_opts o = CAPKM_OPTS(struct capkm_pool_opts, .preset = which);
	struct capkm_pool *p;

	if (capkm_pool_create(c, m, &o, &p, &err))
		t_die("preset %u: %s", which, err.text);
	return p;
}

/* The presets, over a backend of small pages */
TEST_F(pool, presets_small)
{
	struct capkm_pool_memory m = memory(self->b, 32, 128 << 10);
	uint64_t a, b;

	self->p = preset(self->c, CAPKM_POOL_PRESET_SLICES, &m);
	a = ALLOC(2048);
	b = ALLOC(65536);
	ASSERT_EQ(131072, STATS.bytes);
	ASSERT_EQ(SLICE(a).claim.buffer, SLICE(b).claim.buffer);
	ALLOC(65537);
	ASSERT_EQ(131072 + 65568, STATS.bytes);
	ALLOC(131072);
	REFUSED(-EMSGSIZE, "131072", capkm_pool_alloc(self->p, 0, 131073, &a, &err));
	capkm_pool_destroy(self->p);
	ASSERT_EQ(0, self->b->pages);

	self->p = preset(self->c, CAPKM_POOL_PRESET_EXCLUSIVE, &m);
	/* Half of 32 KiB, and a hundredth less. */
	ALLOC(32);
	ASSERT_EQ(16224, STATS.bytes);
	ALLOC(32768);
	ASSERT_EQ(16224 + 32768, STATS.bytes);
	ALLOC(32769);
	ASSERT_EQ(16224 + 32768 + 32800, STATS.bytes);
	ALLOC(131072);
	ASSERT_EQ(16224 + 32768 + 32800 + 131072, STATS.bytes);
	REFUSED(-EMSGSIZE, "131072", capkm_pool_alloc(self->p, 0, 131073, &a, &err));
}

/* Over one of large pages: a ladder */
TEST_F(pool, presets_large)
{
	struct capkm_pool_memory m = memory(self->b, 256, 1ull << 30);
	uint64_t a;

	self->p = preset(self->c, CAPKM_POOL_PRESET_SLICES, &m);
	/* 16 MiB (an eighth of it), 64 MiB (a quarter), 256 MiB (a half). */
	ALLOC(1);
	ALLOC(2 * MIB);
	ASSERT_EQ(16 * MIB, STATS.bytes);
	ALLOC(2 * MIB + 1);
	ALLOC(16 * MIB);
	ASSERT_EQ(80 * MIB, STATS.bytes);
	ALLOC(16 * MIB + 1);
	ALLOC(128 * MIB);
	ASSERT_EQ(336 * MIB, STATS.bytes);
	ALLOC(128 * MIB + 1);
	ASSERT_EQ(464 * MIB + 256, STATS.bytes);
	ALLOC(1024 * MIB);
	REFUSED(-EMSGSIZE, "", capkm_pool_alloc(self->p, 0, 1024 * MIB + 1, &a, &err));
	capkm_pool_destroy(self->p);
	self->p = preset(self->c, CAPKM_POOL_PRESET_EXCLUSIVE, &m);
	ALLOC(1024 * MIB);
	ASSERT_EQ(1024 * MIB, STATS.bytes);
}

/* Any backend has a preset that serves from one byte to its largest page */
TEST_F(pool, presets_any)
{
	static const struct { uint64_t alignment, page_max; } of[] = {
		{ 1, 1 }, { 1, 7 }, { 32, 32 }, { 32, 63 }, { 32, 100 }, { 50, 1000 },
		{ 64, 0 }, { 50, 0 }, { 4096, 33 << 20 }, { 2 << 20, 40 << 20 },
		{ 64 << 20, 1ull << 30 }, { 48 << 20, 33ull << 30 }, { 512, 1ull << 45 },
		{ 512, UINT64_MAX }, { 1ull << 41, 1ull << 42 }, { 3, UINT64_MAX },
		{ 1ull << 41, 0 },
	};

	for (unsigned int i = 0; i < sizeof(of) / sizeof(*of); i++) {
		struct capkm_pool_memory m = memory(self->b, of[i].alignment, of[i].page_max);
		/* All that is allocated is less than 2^64 bytes. */
		const uint64_t most = of[i].page_max ? of[i].page_max : UINT64_MAX;
		const uint64_t limit = most / of[i].alignment * of[i].alignment;
		const uint64_t largest = limit < 1ull << 60 ? limit : 1ull << 60;
		struct capkm_pool_slice s;
		uint64_t a;

		for (uint32_t which = 0; which < 2; which++) {
			self->p = preset(self->c, which, &m);
			for (int twice = 0; twice < 2; twice++) {
				for (uint64_t bytes = 1; bytes < largest; bytes *= 2) {
					a = ALLOC(bytes);
					s = SLICE(a);
					ASSERT_EQ(bytes, s.claim.end - s.claim.start);
					ASSERT_EQ(0, s.claim.start % of[i].alignment);
				}
				ALLOC(largest);
			}
			if (limit < UINT64_MAX)
				REFUSED(-EMSGSIZE, "",
					capkm_pool_alloc(self->p, 0, limit + 1, &a, &err));
			capkm_pool_destroy(self->p);
			ASSERT_EQ(0, self->b->pages);
		}
		self->p = NULL;
	}
}

/* capkm_pool_host_memory(): memory that can be used */
TEST_F(pool, host_memory)
{
	bool none = false;
	uint64_t m[3];
	int n = 1;

	OK(capkm_pool_create(self->c, capkm_pool_host_memory(), NULL, &self->p, &err));
	m[0] = ALLOC(1);
	m[1] = ALLOC(1000);
	m[2] = ALLOC(50 * MIB);
	for (int i = 0; i < 3; i++) {
		const struct capkm_pool_slice s = SLICE(m[i]);

		ASSERT_EQ(0, s.address % 64);
		memset((void *)(uintptr_t)s.address, i + 1, s.claim.end - s.claim.start);
	}
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(i + 1, *(unsigned char *)(uintptr_t)SLICE(m[i]).address);
	FREE(m[1]);
	OK(capkm_pool_persistent_begin(self->p, 0, &err));
	for (t_fail_alloc = n; capkm_pool_alloc(self->p, 0, 6400, &m[1], &err); t_fail_alloc = ++n) {
		ASSERT_EQ(-ENOMEM, err.err);
		none |= !!strstr(err.text, "the backend did not give a page of 6400 bytes");
	}
	t_fail_alloc = 0;
	ASSERT_TRUE(none);
}

/* Growth: structs of another library's size */
TEST_F(pool, sizes_of_structs)
{
	struct {
		struct capkm_pool_slice s;
		uint64_t more;
	} slice = { .s.sz = sizeof(slice) };
	struct {
		struct capkm_pool_stats s;
		uint64_t more;
	} stats = { .s.sz = sizeof(stats) };
	struct capkm_pool_slice small = { .sz = offsetof(struct capkm_pool_slice, padding), .padding = 7 };
	uint64_t m;

	POOL(32, SLICED(4096));
	m = ALLOC(33);
	OK(capkm_pool_find(self->p, m, &slice.s, &err));
	ASSERT_EQ(sizeof(slice), slice.s.sz);
	ASSERT_EQ(33, slice.s.claim.end);
	OK(capkm_pool_query(self->p, 0, &stats.s, &err));
	ASSERT_EQ(33, stats.s.used);
	slice.more = stats.more = 1;
	REFUSED(-E2BIG, "pool_find", capkm_pool_find(self->p, m, &slice.s, &err));
	REFUSED(-E2BIG, "pool_query", capkm_pool_query(self->p, 0, &stats.s, &err));
	slice.s.sz = 0;
	REFUSED(-EINVAL, "CAPKM_OPTS", capkm_pool_find(self->p, m, &slice.s, &err));
	OK(capkm_pool_find(self->p, m, &small, &err));
	ASSERT_EQ(33, small.claim.end);
	ASSERT_EQ(7, small.padding);
}

/* ---------------------------------------------------------------- failures */

/* The backend gives nothing: nothing changes, and the next time it may */
TEST_F(pool, backend_fails)
{
	struct capkm_pool_stats before, s;
	uint64_t a, b = 77;

	POOL(32, SLICED(128, .slice_max = 64), EXCLUSIVE(1024), DIRECT());
	a = ALLOC(64);
	FREE(a);
	for (int i = 0; i < 4; i++) {
		static const uint64_t sizes[] = { 96, 1000, 2000, 48 };
		const char *page = i == 0 ? "512" : i == 1 ? "1024" : i == 2 ? "2016" : "64";

		before = STATS;
		self->b->fail_at = self->b->tries + 1;
		if (i == 3)
			OK(capkm_pool_capture_begin(self->p, 0, &err));
		REFUSED(-ENOMEM, page, capkm_pool_alloc(self->p, 0, sizes[i], &b, &err));
		if (i == 3)
			OK(capkm_pool_capture_end(self->p, 0, NULL, &err));
		s = STATS;
		ASSERT_EQ(0, memcmp(&before, &s, sizeof(s)));
		ASSERT_EQ(77, b);
	}
	self->b->fail_at = 0;
	ALLOC(1000);
	ALLOC(2000);
}

/* One of everything that takes memory, each of which may fail. */
static int try_all(struct capkm_pool *p, uint64_t m[3])
{
	struct capkm_pool_pins *pins;
	uint64_t r;
	int rc = capkm_pool_alloc(p, 2, 100, &m[0], &err);

	if (rc)
		return rc;
	rc = capkm_pool_alloc(p, 2, 5000, &m[1], &err);
	if (rc)
		goto free_0;
	rc = capkm_pool_handle(p, &m[2], &err);
	if (rc)
		goto free_1;
	rc = capkm_pool_reserve(p, 2, 100, &r, &err);
	if (rc)
		goto free_2;
	rc = capkm_pool_bind(p, r, m[2], &err);
	if (rc) {
		capkm_pool_free(p, r, NULL);
		goto free_2;
	}
	rc = capkm_pool_capture_begin(p, 3, &err);
	if (rc)
		goto free_2;
	rc = capkm_pool_alloc(p, 3, 100, &r, &err);
	if (!rc) {
		capkm_pool_free(p, r, NULL);
		rc = capkm_pool_capture_end(p, 3, &pins, &err);
		if (!rc)
			capkm_pool_pins_put(pins);
		else if (stats_on(p, 3).capture != 1)
			t_die("disarmed by a failed end");
	}
	if (rc)
		capkm_pool_capture_end(p, 3, NULL, NULL);
	else
		return 0;
free_2:
	capkm_pool_free(p, m[2], NULL);
free_1:
	capkm_pool_free(p, m[1], NULL);
free_0:
	capkm_pool_free(p, m[0], NULL);
	return rc;
}

/* Memory runs out at each point, in the library and, embedded, in the engine */
TEST_F(pool, no_memory)
{
	const struct capkm_pool_memory mem = memory(self->b, 32, 0);
	const struct capkm_pool_area areas[] = { SLICED(4096), EXCLUSIVE(1 << 20) };
	uint64_t m[3];
	int rc, n;

	for (n = 1;; n++) {
		t_fail_alloc = n;
		rc = create(self->c, &mem, areas, 2, &self->p);
		t_fail_alloc = 0;
		if (!rc)
			break;
		ASSERT_EQ(-ENOMEM, rc);
		ASSERT_EQ(-ENOMEM, err.err);
		ASSERT_EQ(NULL, self->p);
	}
	ASSERT_LE(3, n);
	for (n = 1;; n++) {
		t_fail_alloc = n;
		rc = try_all(self->p, m);
		t_fail_alloc = 0;
		if (!rc)
			break;
		ASSERT_EQ(-ENOMEM, rc);
		ASSERT_EQ(-ENOMEM, err.err);
		for (int slot = 2; slot < 4; slot++) {
			ASSERT_EQ(0, stats_on(self->p, slot).used);
			ASSERT_EQ(0, stats_on(self->p, slot).capture);
			OK(capkm_pool_cleanup(self->p, slot, &err));
			ASSERT_EQ(0, stats_on(self->p, slot).pages);
		}
		ASSERT_EQ(0, self->b->pages);
	}
	/* Part, handle, slices, page, pins. */
	ASSERT_LE(15, n);
	for (int i = 0; i < 3; i++)
		FREE(m[i]);
	if (!t_embedded())
		return;
	for (n = 1;; n++) {
		capkm_test_fail_alloc(n);
		rc = try_all(self->p, m);
		capkm_test_fail_alloc(0);
		if (!rc)
			break;
		ASSERT_EQ(-ENOMEM, rc);
		ASSERT_EQ(0, stats_on(self->p, 2).used);
	}
	for (int i = 0; i < 3; i++)
		FREE(m[i]);
}

/* The authority has no buffer for the page: the backend gets it back */
TEST_F(pool, no_buffer)
{
	struct capkm_limit_value limit = { .limit = CAPKM_LIMIT_BUFFERS, .value = 2 };
	struct capkm_domain_opts o = CAPKM_OPTS(struct capkm_domain_opts,
		.limits = &limit, .limits_len = 1);
	const struct capkm_pool_memory m = memory(self->b, 32, 0);
	const struct capkm_pool_area area = DIRECT();
	struct capkm *c;
	uint64_t a, b;

	OK(capkm_open(t_transport(), NULL, &c, &err));
	OK(capkm_domain_create(c, NULL, &o, &err));
	OK(create(c, &m, &area, 1, &self->p));
	a = ALLOC(32);
	ALLOC(64);
	REFUSED(-EDQUOT, "buffers of a session", capkm_pool_alloc(self->p, 0, 96, &b, &err));
	ASSERT_EQ(2, self->b->pages);
	ASSERT_EQ(1, self->b->frees);
	ASSERT_EQ(2, STATS.pages);
	FREE(a);
	OK(capkm_pool_cleanup(self->p, 0, &err));
	ALLOC(96);
	/* The domain goes first: the memory still goes back. */
	OK(capkm_domain_destroy(c, 0, CAPKM_DOMAIN_DESTROY_F_FORCE, &err));
	REFUSED(-ECANCELED, "", capkm_pool_alloc(self->p, 0, 128, &b, &err));
	REFUSED(-ECANCELED, "", capkm_pool_alloc(self->p, 0, 32, &b, &err));
	capkm_pool_destroy(self->p);
	self->p = NULL;
	capkm_close(c);
}

/* ----------------------------------------------------------------- windows */

static struct capkm_window_query window(struct capkm *c, uint64_t id)
{
	struct capkm_window_query q = { .size = sizeof(q), .window = id };

	if (capkm_window_query(c, &q, &err))
		t_die("window_query: %s", err.text);
	return q;
}

/* CAPKM_REFUSE_ALLOCATE: memory from the backend dooms a window of a driver */
TEST_F(pool, growth_in_the_recording)
{
	const struct capkm_where where = { .stream = 1, .slot = 3, .flags = CAPKM_WHERE_SLOT };
	const struct capkm_pool_memory m = memory(self->b, 32, 0);
	const struct capkm_pool_area area = SLICED(4096);

	for (uint32_t backend = CAPKM_BACKEND_SOFTWARE; backend <= CAPKM_BACKEND_HARDWARE;
	     backend++) {
		struct capkm *c = new_handle(backend);
		uint64_t w, a;

		OK(create(c, &m, &area, 1, &self->p));
		OK(capkm_window_prepare(c, &where, NULL, &w, &err));
		OK(capkm_pool_capture_begin(self->p, 3, &err));
		/* The warm-up may. */
		a = alloc_on(self->p, 3, 100);
		must_free(self->p, a);
		OK(capkm_window_begin(c, &where, 0, NULL, &err));
		if (backend == CAPKM_BACKEND_HARDWARE)
			OK(capkm_window_begin(c, &where, CAPKM_WINDOW_F_DRIVER_DONE, NULL, &err));
		OK(capkm_pool_priming_end(self->p, 3, &err));
		/* Without a page, and on another slot. */
		a = alloc_on(self->p, 3, 100);
		alloc_on(self->p, 2, 100);
		ASSERT_EQ(0, window(c, w).out_doomed);
		alloc_on(self->p, 3, 100);
		ASSERT_EQ(2, stats_on(self->p, 3).pages);
		ASSERT_EQ(backend == CAPKM_BACKEND_HARDWARE, window(c, w).out_doomed);
		OK(capkm_pool_capture_end(self->p, 3, NULL, &err));
		capkm_pool_destroy(self->p);
		self->p = NULL;
		capkm_close(c);
	}
}

TEST_HARNESS_MAIN
