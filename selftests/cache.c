// SPDX-License-Identifier: GPL-2.0-only
/* The metadata cache and the fenced drop queue. */
#include "capkm_test.h"
#include "choices.h"
#include "fail_alloc.h"

#include <capkm/pool.h>
#include <pthread.h>

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

/* A call that fails with @rc and says @part. */
#define REFUSED(rc, part, call) do {					\
	err.text[0] = 0;						\
	err.err = 0;							\
	ASSERT_EQ(rc, (call));						\
	ASSERT_EQ(rc, err.err);						\
	ASSERT_NE(NULL, strstr(err.text, part)) {			\
		TH_LOG("no \"%s\" in: %s", part, err.text);		\
	}								\
} while (0)

/* ------------------------------------------------------------------- cache */

#define BLOCK_MAX	8192
#define VALUES		200000

/*
 * Where values come from. It has no lock: the cache calls with its own held,
 * which ThreadSanitizer sees.
 */
struct store {
	u_int64_t made, dropped;
	u_int64_t last_dropped;
	int fail;			/* what make says, if not 0 */
	bool live[VALUES + 1];
	unsigned char first[VALUES + 1];	/* byte of the block */
};

static int store_make(void *context, const void *block, uint32_t bytes, uint64_t *value)
{
	struct store *s = context;

	if (s->fail)
		return s->fail;
	if (s->made == VALUES)
		t_die("too many values");
	*value = ++s->made;
	s->live[*value] = true;
	s->first[*value] = bytes ? *(const unsigned char *)block : 0;
	return 0;
}

static void store_drop(void *context, uint64_t value)
{
	struct store *s = context;

	if (value < 1 || value > s->made || !s->live[value])
		t_die("value %" PRIu64 " was dropped, which is not there", value);
	s->live[value] = false;
	s->dropped++;
	s->last_dropped = value;
}

FIXTURE(cache)
{
	struct store *store;
	struct capkm_cache *cache;
};

static void new_cache(struct _test_data_cache *self, uint32_t entries, uint32_t bytes_max)
{
	const struct capkm_cache_opts opts = CAPKM_OPTS(struct capkm_cache_opts,
		.entries = entries, .bytes_max = bytes_max, .make = store_make,
		.drop = store_drop, .context = self->store);
	int rc;

	capkm_cache_destroy(self->cache);
	self->cache = NULL;
	rc = capkm_cache_create(&opts, &self->cache, &err);
	if (rc)
		t_die("cache_create: %d (%s)", rc, err.text);
}

FIXTURE_SETUP(cache)
{
	self->store = calloc(1, sizeof(*self->store));
	self->cache = NULL;
	new_cache(self, 2, 64);
}

/* Every value that was made is dropped, once. */
FIXTURE_TEARDOWN(cache)
{
	capkm_cache_destroy(self->cache);
	EXPECT_EQ(self->store->made, self->store->dropped);
	free(self->store);
}

/* The block of @bytes that is all @n. */
static const void *block(unsigned char n, uint32_t bytes)
{
	static __thread unsigned char data[BLOCK_MAX];

	return memset(data, n, bytes);
}

static int kept;

#define get_sized(self, window, n, bytes) (T_AT, get_sized_(self, window, n, bytes))
#define get(self, window, n) (T_AT, get_sized_(self, window, n, 16))
static u_int64_t get_sized_(struct _test_data_cache *self, u_int64_t window,
			    unsigned char n, uint32_t bytes)
{
	u_int64_t value = 0;
	int rc;

	kept = -1;
	rc = capkm_cache_get(self->cache, window, block(n, bytes), bytes, &value, &kept, &err);
	if (rc)
		t_die("cache_get: %d (%s)", rc, err.text);
	if (!self->store->live[value])
		t_die("value %" PRIu64 " is not there", value);
	if (!kept)
		store_drop(self->store, value);
	return value;
}

static struct capkm_cache_stats query(struct capkm_cache *cache)
{
	struct capkm_cache_stats stats = CAPKM_OPTS(struct capkm_cache_stats);
	int rc = capkm_cache_query(cache, &stats, &err);

	if (rc || stats.sz != sizeof(stats))
		t_die("cache_query: %d (%s)", rc, err.text);
	return stats;
}

#define ASSERT_STATS(e, p, s) do {					\
	const struct capkm_cache_stats now_ = query(self->cache);	\
									\
	ASSERT_EQ(e, now_.entries);					\
	ASSERT_EQ(p, now_.pinned);					\
	ASSERT_EQ(s, now_.pins);					\
	ASSERT_EQ(self->store->made - self->store->dropped, now_.entries); \
} while (0)

TEST_F(cache, create_refused)
{
	struct {
		struct capkm_cache_opts opts;
		uint64_t more;
	} opts = {
		.opts = { .sz = sizeof(opts.opts), .make = store_make, .drop = store_drop },
	};
	struct capkm_cache *cache = (void *)self;

	REFUSED(-EINVAL, "make is missing", capkm_cache_create(NULL, &cache, &err));
	opts.opts.drop = NULL;
	REFUSED(-EINVAL, "drop is missing", capkm_cache_create(&opts.opts, &cache, &err));
	opts.opts.drop = store_drop;
	opts.opts.sz = 0;
	REFUSED(-EINVAL, "sz is 0", capkm_cache_create(&opts.opts, &cache, &err));
	opts.opts.sz = sizeof(opts);
	opts.more = 1;
	REFUSED(-E2BIG, "update libcapkm", capkm_cache_create(&opts.opts, &cache, &err));
	opts.more = 0;
	t_fail_alloc = 1;
	REFUSED(-ENOMEM, "out of memory", capkm_cache_create(&opts.opts, &cache, &err));
	ASSERT_EQ((void *)self, cache);
	ASSERT_EQ(0, capkm_cache_create(&opts.opts, &cache, &err));
	capkm_cache_destroy(cache);
	capkm_cache_destroy(NULL);
}

TEST_F(cache, query_refused)
{
	struct capkm_cache_stats stats = { .sz = 0, .entries = 77 };
	size_t upto = offsetof(struct capkm_cache_stats, pinned);

	REFUSED(-EINVAL, "sz is 0", capkm_cache_query(self->cache, &stats, &err));
	get(self, 0, 1);
	stats = (struct capkm_cache_stats){ .sz = upto, .pinned = 77 };
	ASSERT_EQ(0, capkm_cache_query(self->cache, &stats, &err));
	ASSERT_EQ(upto, stats.sz);
	ASSERT_EQ(1, stats.entries);
	ASSERT_EQ(77, stats.pinned);
}

/* T-80 CM-11: 64 bytes are kept, 65 are not */
TEST_F(cache, size_gate)
{
	u_int64_t value;

	value = get_sized(self, 0, 1, 64);
	ASSERT_EQ(1, kept);
	ASSERT_EQ(value, get_sized(self, 0, 1, 64));
	ASSERT_STATS(1, 0, 0);

	value = get_sized(self, 0, 1, 65);
	ASSERT_EQ(0, kept);
	ASSERT_NE(value, get_sized(self, 0, 1, 65));
	ASSERT_EQ(0, kept);
	ASSERT_STATS(1, 0, 0);
}

/* T-80 CM-12: a window keeps any size, and what it keeps is found outside too */
TEST_F(cache, window_any_size)
{
	u_int64_t value = get_sized(self, 5, 1, BLOCK_MAX);

	ASSERT_EQ(1, kept);
	ASSERT_EQ(value, get_sized(self, 5, 1, BLOCK_MAX));
	ASSERT_EQ(value, get_sized(self, 0, 1, BLOCK_MAX));
	ASSERT_EQ(1, kept);
	ASSERT_STATS(1, 1, 1);
}

/* T-80: capacity 0 is no cache, but for windows */
TEST_F(cache, capacity_0)
{
	u_int64_t value;

	new_cache(self, 0, 64);
	value = get(self, 0, 1);
	ASSERT_EQ(0, kept);
	ASSERT_NE(value, get(self, 0, 1));
	ASSERT_STATS(0, 0, 0);
	value = get(self, 5, 1);
	ASSERT_EQ(1, kept);
	ASSERT_EQ(value, get(self, 0, 1));
	capkm_cache_commit(self->cache, 5, 50);
	capkm_cache_release(self->cache, 50);
	ASSERT_STATS(0, 0, 0);
}

/* T-81: the same bytes are the same value; other bytes or another size are not */
TEST_F(cache, hit)
{
	u_int64_t value = get_sized(self, 0, 1, 16);

	ASSERT_EQ(value, get_sized(self, 0, 1, 16));
	ASSERT_NE(value, get_sized(self, 0, 2, 16));
	ASSERT_EQ(2, query(self->cache).misses);
	ASSERT_EQ(1, query(self->cache).hits);
	ASSERT_NE(value, get_sized(self, 0, 1, 15));
	ASSERT_EQ(3, query(self->cache).misses);
}

/* A block of no bytes is a block. */
TEST_F(cache, empty_block)
{
	uint64_t value = 0, again = 0;

	ASSERT_EQ(0, capkm_cache_get(self->cache, 0, NULL, 0, &value, &kept, &err));
	ASSERT_EQ(1, kept);
	get(self, 0, 1);
	ASSERT_EQ(0, capkm_cache_get(self->cache, 5, NULL, 0, &again, &kept, &err));
	ASSERT_EQ(value, again);
	ASSERT_STATS(2, 1, 1);
}

/* T-82 CM-11: the least recently used one goes */
TEST_F(cache, evicts_least_recent)
{
	u_int64_t one = get(self, 0, 1), two = get(self, 0, 2), three;

	ASSERT_EQ(one, get(self, 0, 1));
	three = get(self, 0, 3);
	ASSERT_EQ(two, self->store->last_dropped);
	ASSERT_EQ(one, get(self, 0, 1));
	ASSERT_EQ(three, get(self, 0, 3));
	ASSERT_STATS(2, 0, 0);
}

/* T-83 CM-12: ten in a window where two may be kept outside */
TEST_F(cache, window_unbounded)
{
	u_int64_t value[10];

	for (int i = 0; i < 10; i++)
		value[i] = get(self, 5, i);
	for (int i = 0; i < 10; i++)
		ASSERT_EQ(value[i], get(self, 5, i));
	ASSERT_STATS(10, 10, 10);
}

/* T-84 CM-13: no flood drops what a graph pins; the graph's end does */
TEST_F(cache, pinned_survives_flood)
{
	u_int64_t value = get(self, 5, 1);

	for (int i = 10; i < 20; i++)
		get(self, 0, i);
	ASSERT_EQ(value, get(self, 0, 1));
	capkm_cache_commit(self->cache, 5, 50);
	for (int i = 20; i < 30; i++)
		get(self, 0, i);
	ASSERT_EQ(value, get(self, 0, 1));
	/* Two more are kept: what a graph pins takes no room from others. */
	ASSERT_STATS(3, 1, 1);
	capkm_cache_release(self->cache, 50);
	ASSERT_EQ(value, self->store->last_dropped);
	ASSERT_STATS(2, 0, 0);
	ASSERT_NE(value, get(self, 0, 1));
}

/* T-85 CM-12: a window that finds an entry pins it, and the graph's end drops it */
TEST_F(cache, window_hit_pins)
{
	u_int64_t value = get(self, 0, 1);

	ASSERT_EQ(value, get(self, 5, 1));
	ASSERT_STATS(1, 1, 1);
	for (int i = 10; i < 20; i++)
		get(self, 0, i);
	ASSERT_EQ(value, get(self, 5, 1));
	ASSERT_STATS(3, 1, 1);
	capkm_cache_commit(self->cache, 5, 50);
	capkm_cache_release(self->cache, 50);
	ASSERT_EQ(value, self->store->last_dropped);
}

/* T-86: of two graphs the later one's end drops it */
TEST_F(cache, two_graphs)
{
	u_int64_t value = get(self, 5, 1);

	ASSERT_EQ(value, get(self, 6, 1));
	ASSERT_STATS(1, 1, 2);
	capkm_cache_commit(self->cache, 5, 50);
	capkm_cache_commit(self->cache, 6, 60);
	capkm_cache_release(self->cache, 50);
	ASSERT_STATS(1, 1, 1);
	ASSERT_EQ(value, get(self, 0, 1));
	capkm_cache_release(self->cache, 60);
	ASSERT_STATS(0, 0, 0);
}

/* CM-12: however often a window touches it, it is pinned once */
TEST_F(cache, pinned_once)
{
	for (int i = 0; i < 5; i++)
		get(self, 5, 1);
	ASSERT_STATS(1, 1, 1);
	capkm_cache_commit(self->cache, 5, 50);
	capkm_cache_release(self->cache, 50);
	ASSERT_STATS(0, 0, 0);
}

/* T-87 CM-13: a discarded window's entries become ordinary ones */
TEST_F(cache, discard_keeps)
{
	u_int64_t value = get(self, 5, 1);

	get(self, 6, 2);
	for (int i = 10; i < 15; i++)
		get(self, 5, i);
	capkm_cache_discard(self->cache, 5);
	ASSERT_STATS(7, 1, 1);
	ASSERT_EQ(value, get(self, 0, 1));
	/* Outside of windows the capacity counts again. */
	get(self, 0, 3);
	ASSERT_STATS(3, 1, 1);
	ASSERT_EQ(value, get(self, 0, 1));
}

/* CM-13: a window whose entry is another graph's too does not unpin it there */
TEST_F(cache, discard_beside_graph)
{
	get(self, 5, 1);
	capkm_cache_commit(self->cache, 5, 50);
	get(self, 6, 1);
	ASSERT_STATS(1, 1, 2);
	capkm_cache_discard(self->cache, 6);
	ASSERT_STATS(1, 1, 1);
	capkm_cache_clear_unpinned(self->cache);
	ASSERT_STATS(1, 1, 1);
}

/* T-88 CM-14: exactly the entries without a pin go */
TEST_F(cache, clear_unpinned)
{
	u_int64_t value = get(self, 5, 1);

	get(self, 0, 2);
	get(self, 0, 3);
	get(self, 6, 4);
	capkm_cache_discard(self->cache, 6);
	ASSERT_STATS(4, 1, 1);
	capkm_cache_clear_unpinned(self->cache);
	ASSERT_STATS(1, 1, 1);
	ASSERT_EQ(value, get(self, 0, 1));
	capkm_cache_clear_unpinned(self->cache);
	ASSERT_STATS(1, 1, 1);
}

/* CM-13: unknown windows and graphs change nothing; nor does a second release */
TEST_F(cache, unknown)
{
	capkm_cache_clear_unpinned(self->cache);
	get(self, 5, 1);
	get(self, 0, 2);
	capkm_cache_commit(self->cache, 6, 60);
	capkm_cache_discard(self->cache, 6);
	capkm_cache_release(self->cache, 60);
	/* A window and a graph of one number are two. */
	capkm_cache_release(self->cache, 5);
	ASSERT_STATS(2, 1, 1);
	capkm_cache_commit(self->cache, 5, 50);
	capkm_cache_discard(self->cache, 5);
	capkm_cache_discard(self->cache, 50);
	capkm_cache_commit(self->cache, 5, 51);
	ASSERT_STATS(2, 1, 1);
	capkm_cache_release(self->cache, 50);
	capkm_cache_release(self->cache, 50);
	ASSERT_STATS(1, 0, 0);
}

/* A graph that was updated with another window has the pins of both. */
TEST_F(cache, updated_graph)
{
	get(self, 5, 1);
	capkm_cache_commit(self->cache, 5, 50);
	get(self, 6, 1);
	get(self, 6, 2);
	capkm_cache_commit(self->cache, 6, 50);
	ASSERT_STATS(2, 2, 3);
	capkm_cache_release(self->cache, 50);
	ASSERT_STATS(0, 0, 0);
}

/* What make says is what get says, and nothing has changed. */
TEST_F(cache, make_fails)
{
	uint64_t value = 77;
	int is_kept = 77;

	get(self, 0, 1);
	get(self, 0, 2);
	self->store->fail = -ENOSPC;
	for (u_int64_t window = 0; window < 2; window++)
		for (uint32_t bytes = 64; bytes <= 65; bytes++)
			REFUSED(-ENOSPC, "a block of 6", capkm_cache_get(self->cache,
				window, block(3, bytes), bytes, &value, &is_kept, &err));
	ASSERT_EQ(77, value);
	ASSERT_EQ(77, is_kept);
	ASSERT_EQ(2, query(self->cache).misses);
	/* What is there needs none. */
	get(self, 0, 1);
	get(self, 1, 2);
	ASSERT_STATS(2, 1, 1);
	capkm_cache_discard(self->cache, 1);
	ASSERT_STATS(2, 0, 0);
}

/* Each allocation of a call fails once: nothing has changed. */
TEST_F(cache, no_memory)
{
	unsigned long n;

	get(self, 0, 1);
	get(self, 0, 2);
	/* Outside of a window and in one, a block that is there and one that is not. */
	static const struct {
		u_int64_t window;
		unsigned char block;
		unsigned long allocations;
	} cases[] = {
		{ 0, 1, 0 },
		{ 0, 3, 2 },		/* entry, its node */
		{ 1, 1, 2 },		/* owner, node of the pin */
		{ 2, 4, 4 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct capkm_cache_stats before = query(self->cache);
		const u_int64_t two = self->store->live[2];
		uint64_t value = 77;

		for (n = 1;; n++) {
			struct capkm_cache_stats after;
			int rc;

			t_fail_alloc = n;
			rc = capkm_cache_get(self->cache, cases[i].window,
					     block(cases[i].block, 16), 16, &value, &kept,
					     &err);
			if (t_fail_alloc) {
				t_fail_alloc = 0;
				ASSERT_EQ(0, rc);
				break;
			}
			ASSERT_EQ(-ENOMEM, rc);
			ASSERT_EQ(77, value);
			ASSERT_EQ(two, self->store->live[2]);
			after = query(self->cache);
			ASSERT_EQ(0, memcmp(&before, &after, sizeof(after)));
			ASSERT_EQ(self->store->made - self->store->dropped, after.entries);
		}
		ASSERT_LT(cases[i].allocations, n);
	}
	t_fail_alloc = 1;
	capkm_cache_commit(self->cache, 1, 50);
	capkm_cache_release(self->cache, 50);
	capkm_cache_discard(self->cache, 2);
	capkm_cache_clear_unpinned(self->cache);
	ASSERT_EQ(1, t_fail_alloc);
	t_fail_alloc = 0;
	ASSERT_STATS(0, 0, 0);
}

/* Whatever is pinned, its end drops every value (see FIXTURE_TEARDOWN). */
TEST_F(cache, destroyed_full)
{
	for (int i = 0; i < 10; i++)
		get(self, 5 + i % 3, i);
	get(self, 0, 20);
	capkm_cache_commit(self->cache, 5, 50);
	ASSERT_STATS(11, 10, 10);
}

/*
 * Random calls, against arrays: which values are there, who pins what, and that
 * what goes is one that was not used for the longest time.
 */
#define KEYS	24
#define OWNERS	8

struct model {
	u_int64_t value[KEYS];		/* 0: not there */
	u_int64_t used[KEYS];		/* when */
	bool pinned[OWNERS][KEYS];
	u_int64_t id[OWNERS];		/* 0: no owner */
	bool is_graph[OWNERS];
	u_int64_t now, hits, misses, dropped;
};

/* Some are larger than what is kept outside of windows. */
static uint32_t key_bytes(int key)
{
	return 50 + key;
}

static bool is_pinned(const struct model *m, int key)
{
	for (int o = 0; o < OWNERS; o++)
		if (m->pinned[o][key])
			return true;
	return false;
}

static int model_unpinned(const struct model *m)
{
	int n = 0;

	for (int k = 0; k < KEYS; k++)
		n += m->value[k] && !is_pinned(m, k);
	return n;
}

/* Entries without a pin were dropped down to @left: those used the longest ago. */
static void model_evict(struct model *m, const struct store *s, int left)
{
	u_int64_t newest_gone = 0, oldest_left = UINT64_MAX;
	int over = model_unpinned(m) - left;

	for (int k = 0; k < KEYS; k++) {
		if (!m->value[k] || is_pinned(m, k))
			continue;
		if (s->live[m->value[k]]) {
			oldest_left = m->used[k] < oldest_left ? m->used[k] : oldest_left;
			continue;
		}
		newest_gone = m->used[k] > newest_gone ? m->used[k] : newest_gone;
		m->value[k] = 0;
		m->dropped++;
		over--;
		if (over < 0)
			t_die("more than needed was dropped");
	}
	if (over > 0 || newest_gone > oldest_left)
		t_die("wrong entries were dropped: %d too few, one used at %" PRIu64
		      " while one of %" PRIu64 " is left", over, newest_gone, oldest_left);
}

static void model_get(struct _test_data_cache *self, struct model *m, int owner, int key)
{
	const bool normal = key_bytes(key) <= 64;
	const u_int64_t value = get_sized_(self, owner < 0 ? 0 : m->id[owner],
					   key, key_bytes(key));

	if (m->value[key]) {
		if (value != m->value[key] || !kept)
			t_die("block %d: %" PRIu64 ", not %" PRIu64, key, value, m->value[key]);
		m->hits++;
	} else {
		if (value != self->store->made || kept != (owner >= 0 || normal))
			t_die("block %d: %" PRIu64 " kept %d", key, value, kept);
		m->misses++;
		if (kept)
			m->value[key] = value;
		else
			m->dropped++;
	}
	m->used[key] = ++m->now;
	if (owner >= 0)
		m->pinned[owner][key] = true;
}

/* An owner's pins go, and, if it was a graph, the entries that nobody else pins. */
static void model_end(struct _test_data_cache *self, struct model *m, int owner)
{
	m->now++;
	for (int k = 0; k < KEYS; k++) {
		if (!m->pinned[owner][k])
			continue;
		m->pinned[owner][k] = false;
		if (is_pinned(m, k))
			continue;
		if (m->is_graph[owner]) {
			m->value[k] = 0;
			m->dropped++;
		} else {
			m->used[k] = m->now;
		}
	}
	if (m->is_graph[owner])
		capkm_cache_release(self->cache, m->id[owner]);
	else
		capkm_cache_discard(self->cache, m->id[owner]);
	m->id[owner] = 0;
}

/* I-6 */
static void model_check(struct _test_data_cache *self, const struct model *m)
{
	const struct capkm_cache_stats stats = query(self->cache);
	u_int64_t entries = 0, pins = 0;

	for (int k = 0; k < KEYS; k++) {
		entries += !!m->value[k];
		if (m->value[k] && !self->store->live[m->value[k]])
			t_die("block %d is gone", k);
		for (int o = 0; o < OWNERS; o++)
			pins += m->pinned[o][k];
	}
	if (stats.entries != entries || stats.pins != pins || stats.hits != m->hits ||
	    stats.misses != m->misses || self->store->dropped != m->dropped ||
	    stats.pinned != entries - model_unpinned(m))
		t_die("entries %" PRIu64 "/%" PRIu64 " pins %" PRIu64 "/%" PRIu64, stats.entries,
		      entries, stats.pins, pins);
}

TEST_F(cache, random)
{
	const int capacity = 6;
	u_int64_t seed = t_param("CAPKM_TEST_SEED", 1, 1), ids = 0;
	struct model m = {};

	new_cache(self, capacity, 64);
	for (u_int64_t i = t_param("CAPKM_TEST_OPS", 50000, 50000); i; i--) {
		const int owner = choices_next(&seed) % OWNERS, key = choices_next(&seed) % KEYS;
		const u_int64_t what = choices_next(&seed) % 20;

		T_AT;
		if (!m.id[owner]) {
			m.id[owner] = ++ids;
			m.is_graph[owner] = false;
		}
		if (what < 8) {
			const u_int64_t made = self->store->made;

			model_get(self, &m, -1, key);
			if (kept && made != self->store->made)
				model_evict(&m, self->store, capacity);
		} else if (what < 17) {
			if (!m.is_graph[owner])
				model_get(self, &m, owner, key);
		} else if (what < 18 && !m.is_graph[owner]) {
			m.is_graph[owner] = true;
			capkm_cache_commit(self->cache, m.id[owner], ++ids);
			m.id[owner] = ids;
		} else if (what < 19) {
			model_end(self, &m, owner);
		} else if (!(choices_next(&seed) % 8)) {
			capkm_cache_clear_unpinned(self->cache);
			model_evict(&m, self->store, 0);
		}
		model_check(self, &m);
	}
	ASSERT_LT(100, m.hits);
	ASSERT_LT(100, m.dropped);
}

/* Threads with windows and graphs of their own over the same blocks. */
struct player {
	struct capkm_cache *cache;
	struct store *store;
	u_int64_t seed, ops;
	pthread_t thread;
	int rc;
};

static void *play(void *arg)
{
	struct player *p = arg;
	const u_int64_t window = p->seed;

	for (u_int64_t i = 0; i < p->ops && !p->rc; i++) {
		const unsigned char n = choices_next(&p->seed) % 32;
		struct capkm_cache_stats stats = CAPKM_OPTS(struct capkm_cache_stats);
		uint64_t value;
		int is_kept;

		switch (choices_next(&p->seed) % 16) {
		case 0:
			capkm_cache_commit(p->cache, window, window);
			break;
		case 1:
			capkm_cache_release(p->cache, window);
			break;
		case 2:
			capkm_cache_discard(p->cache, window);
			break;
		case 3:
			capkm_cache_clear_unpinned(p->cache);
			break;
		case 4:
			p->rc = capkm_cache_query(p->cache, &stats, NULL);
			break;
		case 5 ... 9:
			p->rc = capkm_cache_get(p->cache, 0, block(n, 16), 16, &value,
						&is_kept, NULL);
			break;
		default:
			p->rc = capkm_cache_get(p->cache, window, block(n, 16), 16, &value,
						&is_kept, NULL);
			/* It is pinned, so it can be looked at. */
			if (!p->rc && p->store->first[value] != n)
				p->rc = 1;
		}
	}
	return NULL;
}

TEST_F(cache, threads)
{
	struct player p[4];

	for (int i = 0; i < 4; i++) {
		p[i] = (struct player){ .cache = self->cache, .store = self->store,
					.seed = i + 1, .ops = t_param("CAPKM_TEST_OPS", 20000, 20000) };
		ASSERT_EQ(0, pthread_create(&p[i].thread, NULL, play, &p[i]));
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(p[i].thread, NULL);
		EXPECT_EQ(0, p[i].rc);
	}
	EXPECT_LT(1000, self->store->dropped);
}

/* -------------------------------------------------------------- drop queue */

/*
 * A device that works in the order of issue: a fence is how much was issued before
 * it. What is freed must have been issued before a fence that was waited for.
 */
struct device {
	pthread_mutex_t mutex;
	u_int64_t issued, done;
	u_int64_t fences, waits, freed, last_freed;
	int fail_fence, fail_wait;
	/* Who pushes while it waits or fails to set a fence, and then at a free. */
	struct capkm_drop_queue *push_to;
};

struct bytes {
	struct capkm_dropped dropped;
	struct device *device;
	u_int64_t number;
};

static void free_bytes(struct capkm_dropped *dropped);

static void push(struct capkm_drop_queue *queue, struct device *d, u_int64_t n)
{
	struct bytes *bytes = malloc(sizeof(*bytes));

	/* Whatever is in next when it is pushed. */
	*bytes = (struct bytes){ .dropped = { .next = &bytes->dropped, .bytes = n,
				 .free = free_bytes }, .device = d };
	pthread_mutex_lock(&d->mutex);
	bytes->number = ++d->issued;
	pthread_mutex_unlock(&d->mutex);
	capkm_drop_push(queue, &bytes->dropped);
}

static void free_bytes(struct capkm_dropped *dropped)
{
	struct bytes *bytes = (struct bytes *)((char *)dropped - offsetof(struct bytes, dropped));
	struct device *d = bytes->device;
	struct capkm_drop_queue *again;

	pthread_mutex_lock(&d->mutex);
	if (bytes->number > d->done)
		t_die("%" PRIu64 " is freed while %" PRIu64 " are done", bytes->number, d->done);
	d->freed++;
	d->last_freed = bytes->number;
	again = d->push_to;
	d->push_to = NULL;
	pthread_mutex_unlock(&d->mutex);
	free(bytes);
	if (again)
		push(again, d, 1);
}

static int set_fence(void *context, uint64_t *fence)
{
	struct device *d = context;
	struct capkm_drop_queue *during = NULL;
	int rc;

	pthread_mutex_lock(&d->mutex);
	rc = d->fail_fence;
	if (!rc) {
		d->fences++;
		*fence = d->issued;
	} else {
		during = d->push_to;
	}
	pthread_mutex_unlock(&d->mutex);
	if (during)
		push(during, d, 1);
	return rc;
}

static int wait_fence(void *context, uint64_t fence)
{
	struct device *d = context;
	struct capkm_drop_queue *during;
	int rc;

	pthread_mutex_lock(&d->mutex);
	during = d->push_to;
	rc = d->fail_wait;
	if (!rc) {
		d->waits++;
		if (fence > d->done)
			d->done = fence;
	}
	pthread_mutex_unlock(&d->mutex);
	if (during)
		push(during, d, 1);
	return rc;
}

FIXTURE(drop)
{
	struct device device;
	struct capkm_drop_queue *queue;
	uint64_t staged, pending;
};

FIXTURE_SETUP(drop)
{
	const struct capkm_drop_opts opts = CAPKM_OPTS(struct capkm_drop_opts,
		.fence = set_fence, .wait = wait_fence, .context = &self->device);

	T_AT;
	self->device = (struct device){ .mutex = PTHREAD_MUTEX_INITIALIZER };
	ASSERT_EQ(0, capkm_drop_create(&opts, &self->queue, &err));
}

/* All bytes are freed, once. */
FIXTURE_TEARDOWN(drop)
{
	self->device.done = self->device.issued;
	capkm_drop_destroy(self->queue);
	EXPECT_EQ(self->device.issued, self->device.freed);
}

#define ASSERT_COUNT(s, p) do {						\
	capkm_drop_count(self->queue, &self->staged, &self->pending);	\
	ASSERT_EQ(s, self->staged);					\
	ASSERT_EQ(p, self->pending);					\
	ASSERT_EQ(self->device.issued - self->device.freed,		\
		  self->staged + self->pending);			\
} while (0)

#define FLUSH() do {							\
	T_AT;								\
	ASSERT_EQ(0, capkm_drop_flush(self->queue, &err)) {		\
		TH_LOG("%s", err.text);					\
	}								\
} while (0)

TEST_F(drop, create_refused)
{
	struct {
		struct capkm_drop_opts opts;
		uint64_t more;
	} opts = {
		.opts = { .sz = sizeof(opts.opts), .fence = set_fence, .wait = wait_fence },
	};
	struct capkm_drop_queue *queue = (void *)self;

	REFUSED(-EINVAL, "fence is missing", capkm_drop_create(NULL, &queue, &err));
	opts.opts.wait = NULL;
	REFUSED(-EINVAL, "wait is missing", capkm_drop_create(&opts.opts, &queue, &err));
	opts.opts.wait = wait_fence;
	opts.opts.sz = 0;
	REFUSED(-EINVAL, "sz is 0", capkm_drop_create(&opts.opts, &queue, &err));
	opts.opts.sz = sizeof(opts);
	opts.more = 1;
	REFUSED(-E2BIG, "update libcapkm", capkm_drop_create(&opts.opts, &queue, &err));
	opts.more = 0;
	t_fail_alloc = 1;
	REFUSED(-ENOMEM, "out of memory", capkm_drop_create(&opts.opts, &queue, &err));
	ASSERT_EQ((void *)self, queue);
	ASSERT_EQ(0, capkm_drop_create(&opts.opts, &queue, &err));
	capkm_drop_destroy(queue);
	capkm_drop_destroy(NULL);
}

/* T-90 CM-16: 64 of them, whatever their size */
TEST_F(drop, count_threshold)
{
	for (int round = 0; round < 3; round++) {
		ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
		for (int i = 1; i < CAPKM_DROP_COUNT; i++)
			push(self->queue, &self->device, 0);
		ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
		push(self->queue, &self->device, 0);
		ASSERT_NE(0, capkm_drop_should_flush(self->queue));
		push(self->queue, &self->device, 0);
		ASSERT_NE(0, capkm_drop_should_flush(self->queue));
		FLUSH();
	}
	ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
}

/* T-90 CM-16: 64 MiB, in however few */
TEST_F(drop, bytes_threshold)
{
	ASSERT_EQ(64ull << 20, CAPKM_DROP_BYTES);
	push(self->queue, &self->device, CAPKM_DROP_BYTES - 1);
	ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
	push(self->queue, &self->device, 1);
	ASSERT_NE(0, capkm_drop_should_flush(self->queue));
	FLUSH();
	ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
	push(self->queue, &self->device, CAPKM_DROP_BYTES - 1);
	ASSERT_EQ(0, capkm_drop_should_flush(self->queue));
	FLUSH();
	/* More than can be counted. */
	push(self->queue, &self->device, UINT64_MAX);
	push(self->queue, &self->device, 1);
	ASSERT_NE(0, capkm_drop_should_flush(self->queue));
}

/* T-91 CM-17: the first flush waits for nothing, each later one for the one before */
TEST_F(drop, waits)
{
	for (u_int64_t i = 0; i < 10; i++) {
		push(self->queue, &self->device, 1);
		ASSERT_EQ(i, self->device.waits + !!i);
		FLUSH();
		ASSERT_EQ(i, self->device.waits);
		ASSERT_EQ(i, self->device.done);
		ASSERT_EQ(i + 1, self->device.fences);
	}
}

/* T-92 CM-15: what was staged is pending, and is freed by the next flush */
TEST_F(drop, generations)
{
	ASSERT_COUNT(0, 0);
	for (int i = 0; i < 3; i++)
		push(self->queue, &self->device, 1);
	ASSERT_COUNT(3, 0);
	FLUSH();
	ASSERT_COUNT(0, 3);
	push(self->queue, &self->device, 1);
	push(self->queue, &self->device, 1);
	ASSERT_COUNT(2, 3);
	ASSERT_EQ(0, self->device.freed);
	FLUSH();
	ASSERT_EQ(3, self->device.freed);
	ASSERT_EQ(3, self->device.last_freed);
	ASSERT_COUNT(0, 2);
	FLUSH();
	ASSERT_COUNT(0, 0);
	/* Nothing was staged, so there is nothing to wait for. */
	ASSERT_EQ(2, self->device.fences);
	ASSERT_EQ(2, self->device.waits);
}

/* T-92 CM-15: an empty flush sets no fence */
TEST_F(drop, empty)
{
	FLUSH();
	FLUSH();
	ASSERT_EQ(0, capkm_drop_drain(self->queue, &err));
	ASSERT_EQ(0, self->device.fences);
	ASSERT_EQ(0, self->device.waits);
}

/* CM-15: a drain leaves nothing, and no fence that nobody waited for */
TEST_F(drop, drain)
{
	push(self->queue, &self->device, 1);
	FLUSH();
	push(self->queue, &self->device, 1);
	push(self->queue, &self->device, 1);
	T_AT;
	ASSERT_EQ(0, capkm_drop_drain(self->queue, &err));
	ASSERT_COUNT(0, 0);
	ASSERT_EQ(3, self->device.done);
	ASSERT_EQ(self->device.fences, self->device.waits);
}

/* A fence that cannot be set: all stays staged, and is fenced by the next flush. */
TEST_F(drop, fence_fails)
{
	for (int i = 0; i < CAPKM_DROP_COUNT; i++)
		push(self->queue, &self->device, 1);
	self->device.fail_fence = -ENODEV;
	REFUSED(-ENODEV, "drop_flush: ", capkm_drop_flush(self->queue, &err));
	ASSERT_COUNT(CAPKM_DROP_COUNT, 0);
	ASSERT_NE(0, capkm_drop_should_flush(self->queue));
	REFUSED(-ENODEV, "drop_drain: ", capkm_drop_drain(self->queue, &err));
	ASSERT_COUNT(CAPKM_DROP_COUNT, 0);
	push(self->queue, &self->device, 1);
	self->device.fail_fence = 0;
	FLUSH();
	ASSERT_COUNT(0, CAPKM_DROP_COUNT + 1);
	FLUSH();
	ASSERT_COUNT(0, 0);
	ASSERT_EQ(self->device.issued, self->device.last_freed);
	ASSERT_EQ(1, self->device.fences);
}

/* What was pending and is done is freed, though the next fence cannot be set. */
TEST_F(drop, fence_fails_later)
{
	push(self->queue, &self->device, 1);
	FLUSH();
	push(self->queue, &self->device, 1);
	self->device.fail_fence = -ENODEV;
	T_AT;
	REFUSED(-ENODEV, "could not be set", capkm_drop_flush(self->queue, &err));
	ASSERT_COUNT(1, 0);
	self->device.fail_fence = 0;
	FLUSH();
	ASSERT_COUNT(0, 1);
}

/* A wait that fails: nothing is freed, no fence is set, and it is waited again. */
TEST_F(drop, wait_fails)
{
	push(self->queue, &self->device, 1);
	FLUSH();
	push(self->queue, &self->device, 1);
	self->device.fail_wait = -EIO;
	REFUSED(-EIO, "was not reached", capkm_drop_flush(self->queue, &err));
	REFUSED(-EIO, "drop_drain: ", capkm_drop_drain(self->queue, &err));
	ASSERT_COUNT(1, 1);
	ASSERT_EQ(1, self->device.fences);
	self->device.fail_wait = 0;
	FLUSH();
	ASSERT_COUNT(0, 1);
	ASSERT_EQ(1, self->device.done);
}

/* Nobody who pushes waits for a flush that waits. */
TEST_F(drop, push_while_waiting)
{
	push(self->queue, &self->device, 1);
	FLUSH();
	push(self->queue, &self->device, 1);
	self->device.push_to = self->queue;
	FLUSH();
	/* One while it waited, which was then fenced too; one at the free. */
	ASSERT_COUNT(1, 2);
}

/* What is staged again comes before what was pushed meanwhile. */
TEST_F(drop, push_while_fence_fails)
{
	push(self->queue, &self->device, CAPKM_DROP_BYTES - 1);
	self->device.push_to = self->queue;
	self->device.fail_fence = -ENODEV;
	REFUSED(-ENODEV, "stays so", capkm_drop_flush(self->queue, &err));
	self->device.push_to = NULL;
	self->device.fail_fence = 0;
	ASSERT_COUNT(2, 0);
	ASSERT_NE(0, capkm_drop_should_flush(self->queue));
	T_AT;
	ASSERT_EQ(0, capkm_drop_drain(self->queue, &err));
	ASSERT_EQ(2, self->device.last_freed);
}

/* Both generations are freed without a wait. */
TEST_F(drop, destroyed_full)
{
	push(self->queue, &self->device, 1);
	FLUSH();
	push(self->queue, &self->device, 1);
	ASSERT_COUNT(1, 1);
	self->device.fail_wait = -EIO;
}

/* Threads that push and flush, with fences and waits that fail now and then. */
struct pusher {
	struct capkm_drop_queue *queue;
	struct device *device;
	u_int64_t seed, ops;
	pthread_t thread;
};

static void *push_and_flush(void *arg)
{
	struct pusher *p = arg;

	for (u_int64_t i = 0; i < p->ops; i++) {
		push(p->queue, p->device, choices_next(&p->seed) % (1 << 22));
		switch (choices_next(&p->seed) % 64) {
		case 0:
			pthread_mutex_lock(&p->device->mutex);
			p->device->fail_wait = choices_next(&p->seed) % 3 ? 0 : -EIO;
			p->device->fail_fence = choices_next(&p->seed) % 3 ? 0 : -EIO;
			pthread_mutex_unlock(&p->device->mutex);
			break;
		case 1:
			capkm_drop_drain(p->queue, NULL);
			break;
		case 2 ... 6:
			capkm_drop_flush(p->queue, NULL);
			break;
		default:
			if (capkm_drop_should_flush(p->queue))
				capkm_drop_flush(p->queue, NULL);
		}
	}
	return NULL;
}

static void *watch(void *arg)
{
	struct pusher *p = arg;
	uint64_t staged, pending;

	for (u_int64_t i = 0; i < p->ops; i++)
		capkm_drop_count(p->queue, &staged, &pending);
	return NULL;
}

TEST_F(drop, threads)
{
	struct pusher p[5];

	T_AT;
	for (int i = 0; i < 5; i++) {
		p[i] = (struct pusher){ .queue = self->queue, .device = &self->device,
					.seed = i + 1, .ops = t_param("CAPKM_TEST_OPS", 20000, 20000) };
		ASSERT_EQ(0, pthread_create(&p[i].thread, NULL, i ? push_and_flush : watch,
					    &p[i]));
	}
	for (int i = 0; i < 5; i++)
		pthread_join(p[i].thread, NULL);
	self->device.fail_wait = 0;
	self->device.fail_fence = 0;
	ASSERT_EQ(0, capkm_drop_drain(self->queue, &err));
	ASSERT_COUNT(0, 0);
	ASSERT_EQ(self->device.fences, self->device.waits);
	ASSERT_LT(100, self->device.waits);
}

TEST_HARNESS_MAIN
