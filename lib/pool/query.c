// SPDX-License-Identifier: MIT
/* Counts, for tests and tools; and in debug builds, for the pool itself. */
#include "pool.h"

#include <assert.h>
#include <string.h>

#define RANGES	64u

/* The slices of a page that its ranges, so far, have touched. */
struct tally {
	struct slice *at;	/* the first that does not end before the range */
	uint64_t counted;	/* end of the last slice that was counted */
	uint64_t carriers;
};

/* Ranges come in order of their start, so a slice is behind once it ends before one. */
static void count_range(struct tally *t, const struct capkm_range *r)
{
	struct slice *s;

	while (t->at && t->at->start + t->at->bytes <= r->start)
		t->at = TAILQ_NEXT(t->at, in_page);
	for (s = t->at; s && s->start < r->end; s = TAILQ_NEXT(s, in_page)) {
		if (s->start + s->bytes <= t->counted)
			continue;
		t->counted = s->start + s->bytes;
		t->carriers++;
	}
}

static int count_page(struct page *page, uint64_t *carriers,
		      struct capkm_error *err)
{
	struct capkm_range ranges[RANGES];
	struct capkm_buffer_query q = {
		.size = sizeof(q),
		.buffer = page->buffer,
		.ranges_uptr = uptr(ranges),
		.ranges_len = RANGES,
	};
	struct tally t = { .at = TAILQ_FIRST(&page->slices) };
	uint32_t i;
	int rc;

	do {
		rc = capkm_buffer_query(page->area->part->pool->c, &q, err);
		if (rc)
			return rc;
		for (i = 0; i < q.out_ranges; i++) {
			if (ranges[i].state == CAPKM_RANGE_FAILED)
				count_range(&t, &ranges[i]);
			q.skip = ranges[i].start == q.from ? q.skip + 1 : 1;
			q.from = ranges[i].start;
		}
	} while (q.out_ranges == RANGES);
	*carriers += t.carriers;
	return 0;
}

static void count_slice(const struct capkm_pool *pool, const struct slice *s,
			struct capkm_pool_stats *stats)
{
	uint64_t padded = s->asked;

	if (!capkm_slice_used(s)) {
		stats->free += s->bytes;
		return;
	}
	capkm_pool_align(pool, &padded);
	stats->slices++;
	stats->used += s->asked;
	stats->padding += padded - s->asked;
}

static int count(struct part *part, struct capkm_pool_stats *stats,
		 struct capkm_error *err)
{
	struct slice *s;
	struct page *page;
	struct area *a;
	int rc = 0;

	for_each_slice(s, page, a, part)
		count_slice(part->pool, s, stats);
	for_each_area(a, part) {
		stats->bytes += a->bytes;
		TAILQ_FOREACH(page, &a->pages, in_area) {
			stats->pages++;
			if (!rc)
				rc = count_page(page, &stats->carriers, err);
		}
	}
	stats->grown = part->grown;
	stats->persistent = part->persistent;
	stats->capture = part->capture;
	return rc;
}

int capkm_pool_query(struct capkm_pool *pool, uint32_t slot,
		     struct capkm_pool_stats *stats, struct capkm_error *err)
{
	struct capkm_pool_stats known;
	struct part *part;
	int rc = capkm_opts(&known, sizeof(known), stats, "pool_query", err);

	if (!rc)
		rc = capkm_pool_lock(pool, "pool_query", err);
	if (rc)
		return rc;
	known = (struct capkm_pool_stats){ .epoch = pool->epoch };
	rc = capkm_pool_find_part(pool, slot, "pool_query", &part, err);
	if (part)
		rc = count(part, &known, err);
	capkm_pool_unlock(pool);
	if (!rc)
		capkm_opts_put(stats, &known, sizeof(known));
	return rc;
}

#ifdef CAPKM_DEBUG
/* Above that it would cost more than what it watches. */
#define ASSERT_HANDLES	1024

static void assert_slice(const struct slice *s)
{
	const struct handle *h = s->user;

	assert(!h || h->slice == s);
	assert(!s->free || !capkm_slice_used(s));
	assert(s->free || capkm_slice_used(s) || capkm_capture_keeps(s));
	assert(!s->touched || (h && s->page->area->part->capture));
	assert(!h || s->asked <= s->bytes);
	assert(!s->graph_pins || (h && !s->free));
}

/* Slices tile the page. */
static void assert_page(const struct page *page)
{
	const struct slice *s;
	uint64_t at = 0, room = 0;

	TAILQ_FOREACH(s, &page->slices, in_page) {
		assert(s->page == page && s->start == at && s->bytes);
		at += s->bytes;
		room += s->free ? s->bytes : 0;
		assert_slice(s);
	}
	assert(at == page->bytes && room == page->room);
}

static void assert_area(const struct area *a)
{
	const struct page *page;
	const struct slice *s;
	uint64_t bytes = 0, room = 0, listed = 0;

	TAILQ_FOREACH(page, &a->pages, in_area) {
		assert(page->area == a);
		assert_page(page);
		bytes += page->bytes;
		room += page->room;
	}
	TAILQ_FOREACH(s, &a->free, in_free) {
		assert(s->free);
		listed += s->bytes;
	}
	assert(bytes == a->bytes && room == a->room && listed == room);
	assert(bytes <= a->shape->capacity);
}

void capkm_pool_assert(struct capkm_pool *pool)
{
	const struct handle *h;
	struct area *a;
	uint32_t i;

	if (pool->handles.count > ASSERT_HANDLES)
		return;
	for (i = 0; i < pool->slots; i++)
		if (pool->parts[i])
			for_each_area(a, pool->parts[i])
				assert_area(a);
	i = 0;
	while ((h = capkm_table_next(&pool->handles, &i)))
		assert(!h->slice || h->slice->user == h);
}
#else
void capkm_pool_assert(struct capkm_pool *pool)
{
	(void)pool;
}
#endif
