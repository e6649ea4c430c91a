// SPDX-License-Identifier: GPL-2.0-only
/*
 * Field cases of memory: a graph wrote to memory that somebody else had by then,
 * or that was not there any more. See cases.c. Here the test does what a replay
 * does: it writes where the capture wrote.
 */
#include "pages.h"

#define GPU	T_GPU(1)
#define STREAM	(GPU | 1)
#define SLOT	1
#define BYTES	1000

FIXTURE(cases_pool)
{
	struct cl *cl;
	struct pages *pages;
	struct capkm_pool *pool;
};

#define SELF FIXTURE_DATA(cases_pool)

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

#define OK(call) do {							\
	err.text[0] = 0;						\
	ASSERT_EQ(0, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
} while (0)

FIXTURE_SETUP(cases_pool)
{
	struct capkm_domain_opts opts = CAPKM_OPTS(struct capkm_domain_opts,
		.backend = CAPKM_BACKEND_SOFTWARE);

	self->cl = t_client();
	OK(capkm_domain_create(self->cl->c, NULL, &opts, &err));
	self->pages = pages_new(64, 1 << 20, 1);
	OK(capkm_pool_create(self->cl->c, &self->pages->memory, NULL, &self->pool, &err));
}

FIXTURE_TEARDOWN(cases_pool)
{
	capkm_pool_destroy(self->pool);
	pages_delete(self->pages);
	t_close(self->cl);
	t_no_leaks();
}

#define alloc(self) (T_AT, alloc_(self))
static u_int64_t alloc_(SELF *self)
{
	u_int64_t memory;
	int rc = capkm_pool_alloc(self->pool, SLOT, BYTES, &memory, &err);

	if (rc)
		t_die("alloc: %d (%s)", rc, err.text);
	return memory;
}

#define drop(self, memory) (T_AT, drop_(self, memory))
static void drop_(SELF *self, u_int64_t memory)
{
	int rc = capkm_pool_free(self->pool, memory, &err);

	if (rc)
		t_die("free: %d (%s)", rc, err.text);
}

#define find(self, memory) (T_AT, find_(self, memory))
static struct capkm_pool_slice find_(SELF *self, u_int64_t memory)
{
	struct capkm_pool_slice s = CAPKM_OPTS(struct capkm_pool_slice);
	int rc = capkm_pool_find(self->pool, memory, &s, &err);

	if (rc)
		t_die("find: %d (%s)", rc, err.text);
	return s;
}

static unsigned char *data(SELF *self, const struct capkm_pool_slice *s)
{
	return bytes_of(self->pages, s->address, BYTES);
}

/* A launch that fills the memory; while a window records, only its claim counts. */
#define launch(self, s) (T_AT, t_write_(self->cl, STREAM, &(s)->claim, 1))

#define prepare(self) (T_AT, prepare_(self))
static u_int64_t prepare_(SELF *self)
{
	u_int64_t w = t_prepare_(self->cl, STREAM, 0);
	int rc = capkm_pool_capture_begin(self->pool, SLOT, &err);

	if (rc)
		t_die("capture_begin: %d (%s)", rc, err.text);
	return w;
}

#define begin(self) (T_AT, begin_(self))
static void begin_(SELF *self)
{
	int rc;

	t_begin_(self->cl, STREAM);
	rc = capkm_pool_priming_end(self->pool, SLOT, &err);
	if (rc)
		t_die("priming_end: %d (%s)", rc, err.text);
}

struct graph {
	u_int64_t id, epoch;
	struct capkm_pool_pins *pins;
};

#define end(self, window) (T_AT, end_(self, window))
static struct graph end_(SELF *self, u_int64_t window)
{
	struct graph g = { .epoch = capkm_pool_epoch(self->pool) };
	int rc;

	t_end_(self->cl, STREAM);
	rc = capkm_pool_capture_end(self->pool, SLOT, &g.pins, &err);
	if (rc)
		t_die("capture_end: %d (%s)", rc, err.text);
	g.id = t_seal_(self->cl, window, 0);
	return g;
}

static void replay(SELF *self, const struct graph *g, const struct capkm_pool_slice *s)
{
	t_replay(self->cl, g->id, STREAM);
	memset(data(self, s), 0xee, BYTES);
}

/*
 * C44: a workspace that was to be kept was first allocated inside of a capture, and
 * got the memory of a temporary that the capture had freed before: each replay wrote
 * over it. Here the memory is not handed out again until the graph is gone.
 */
TEST_F(cases_pool, c44_workspace_is_no_temporary)
{
	const double canary = 1234.5;
	struct capkm_pool_slice t, s[3];
	u_int64_t w = prepare(self), temporary, warm, workspace[3];
	struct graph g = { 0 };

	/* The warm-up leaves a slice that the recorded run finds. */
	warm = alloc(self);
	t = find(self, warm);
	launch(self, &t);
	drop(self, warm);
	begin(self);
	temporary = alloc(self);
	ASSERT_EQ(t.address, find(self, temporary).address);
	t = find(self, temporary);
	launch(self, &t);
	drop(self, temporary);
	/* Inside of the capture, and when it is over, as often as it is asked for. */
	for (int i = 0; i < 3; i++) {
		if (i == 1)
			g = end(self, w);
		workspace[i] = alloc(self);
		s[i] = find(self, workspace[i]);
		ASSERT_NE(t.address, s[i].address);
	}
	ASSERT_EQ(1, find(self, workspace[0]).pins);
	ASSERT_EQ(0, find(self, workspace[1]).pins);
	for (int i = 0; i < 3; i++) {
		launch(self, &s[i]);
		memcpy(data(self, &s[i]), &canary, sizeof(canary));
	}
	for (int i = 0; i < 3; i++)
		replay(self, &g, &t);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, memcmp(data(self, &s[i]), &canary, sizeof(canary)));
		t_is_clean(self->cl, s[i].claim.buffer, s[i].claim.start, s[i].claim.end);
	}
	/* Nobody writes it any more: somebody may have it. */
	ASSERT_EQ(0, t_destroy(self->cl, g.id));
	capkm_pool_pins_put(g.pins);
	OK(capkm_pool_persistent_begin(self->pool, SLOT, &err));
	ASSERT_EQ(t.address, find(self, alloc(self)).address);
}

/*
 * C45: a memory pool gave its buffers back to the driver, and a replay wrote through
 * the addresses that it had captured. Here a clean-up leaves alone what a graph has;
 * when all is lost the epoch says so before the replay, and it can be captured again.
 */
TEST_F(cases_pool, c45_pool_is_flushed)
{
	struct capkm_pool_slice none = CAPKM_OPTS(struct capkm_pool_slice), s[2];
	u_int64_t memory[2];
	struct graph g[2];
	uint32_t n;

	for (int i = 0; i < 2; i++) {
		u_int64_t w = prepare(self);

		begin(self);
		memory[i] = alloc(self);
		s[i] = find(self, memory[i]);
		launch(self, &s[i]);
		drop(self, memory[i]);
		g[i] = end(self, w);
		OK(capkm_pool_cleanup(self->pool, SLOT, &err));
		ASSERT_EQ(1, self->pages->live);
		ASSERT_EQ(g[i].epoch, capkm_pool_epoch(self->pool));
		replay(self, &g[i], &s[i]);
		t_is_clean(self->cl, s[i].claim.buffer, 0, BYTES);
		if (i)
			break;
		OK(capkm_pool_reset(self->pool, &err));
		ASSERT_EQ(0, self->pages->live);
		/* Compared before a replay: this one must not run. */
		ASSERT_NE(g[i].epoch, capkm_pool_epoch(self->pool));
		ASSERT_EQ(-ENOENT, capkm_pool_find(self->pool, memory[i], &none, &err));
	}
	ASSERT_NE(g[0].epoch, g[1].epoch);
	ASSERT_NE(memory[0], memory[1]);
	/* What the stale graph had is not what another one has now. */
	capkm_pool_pins_put(g[0].pins);
	OK(capkm_pool_cleanup(self->pool, SLOT, &err));
	ASSERT_EQ(1, self->pages->live);
	ASSERT_EQ(memory[1], *capkm_pool_pins_list(g[1].pins, &n));
	ASSERT_EQ(1, n);
	capkm_pool_pins_put(g[1].pins);
	OK(capkm_pool_cleanup(self->pool, SLOT, &err));
	ASSERT_EQ(0, self->pages->live);
}

/*
 * C47: a cache was cleared and allocated anew, elsewhere; the captured graph went on
 * with the old addresses. Here the old handle is not found any more, whoever has the
 * memory now, so that the graph's runtime knows; and what the capture itself had
 * allocated nobody gets.
 */
TEST_F(cases_pool, c47_cache_is_allocated_anew)
{
	struct capkm_pool_slice none = CAPKM_OPTS(struct capkm_pool_slice), before, inside;
	u_int64_t cache[2] = { alloc(self) }, anew[2], w;
	struct graph g;

	before = find(self, cache[0]);
	launch(self, &before);
	w = prepare(self);
	begin(self);
	cache[1] = alloc(self);
	inside = find(self, cache[1]);
	launch(self, &before);
	launch(self, &inside);
	g = end(self, w);
	for (int i = 0; i < 2; i++) {
		OK(capkm_pool_pin(self->pool, cache[i], &err));
		drop(self, cache[i]);
		anew[i] = alloc(self);
		ASSERT_NE(cache[i], anew[i]);
		ASSERT_EQ(-ENOENT, capkm_pool_find(self->pool, cache[i], &none, &err));
		OK(capkm_pool_unpin(self->pool, cache[i], &err));
	}
	/* The first has been freed by the work that used it, the second has its graph. */
	OK(capkm_pool_persistent_begin(self->pool, SLOT, &err));
	for (int i = 0; i < 2; i++) {
		ASSERT_NE(inside.address, find(self, alloc(self)).address);
		ASSERT_EQ(-ENOENT, capkm_pool_find(self->pool, cache[i], &none, &err));
	}
	ASSERT_EQ(-ENOENT, capkm_pool_free(self->pool, cache[0], &err));
	ASSERT_EQ(-ENOENT, capkm_pool_free(self->pool, cache[1], &err));
	capkm_pool_pins_put(g.pins);
	ASSERT_EQ(inside.address, find(self, alloc(self)).address);
	ASSERT_EQ(-ENOENT, capkm_pool_find(self->pool, cache[1], &none, &err));
}

TEST_HARNESS_MAIN
