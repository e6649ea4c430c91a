// SPDX-License-Identifier: MIT
/*
 * A page for each slice, not cut. Each page counts how idle it is: a check that
 * finds it free is one more, a use one less; at PAGE_IDLE_MAX it goes back. It begins
 * just below. So a burst is forgotten, while what is used over and over stays for a
 * period.
 */
#include "pool.h"

/* The one that is used most; of equal ones, which was freed first. */
static struct slice *next(struct area *a, uint64_t bytes, struct slice *after)
{
	struct slice *s, *best = NULL;
	bool behind = false;

	TAILQ_FOREACH(s, &a->free, in_free) {
		const uint32_t idle = s->page->idle;
		const bool tried = after && (idle < after->page->idle ||
			(idle == after->page->idle && !behind));

		if (s == after)
			behind = true;
		if (!tried && s->bytes >= bytes &&
		    (!best || idle < best->page->idle))
			best = s;
	}
	return best;
}

static void asked(struct area *a, uint64_t bytes)
{
	if (bytes < UINT64_MAX / 200)
		a->average += bytes - a->average / 100;
}

/* As large as sizes were lately, so that the page can serve the next one too. */
static uint64_t page_bytes(const struct area *a, uint64_t bytes)
{
	uint64_t lately = a->average / 100;

	if (lately <= bytes || !capkm_pool_align(a->part->pool, &lately))
		return bytes;
	return lately < a->shape->page_bytes ? lately : a->shape->page_bytes;
}

static void reused(struct page *page)
{
	if (page->idle)
		page->idle--;
}

static void tidy(struct area *a)
{
	struct slice *s, *n;

	if (!a->shape->period ||
	    a->part->reservations - a->checked < a->shape->period / PAGE_IDLE_MAX)
		return;
	a->checked = a->part->reservations;
	for (s = TAILQ_FIRST(&a->free); s; s = n) {
		n = TAILQ_NEXT(s, in_free);
		if (++s->page->idle >= PAGE_IDLE_MAX && !capkm_page_drop(s->page))
			s->page->idle = PAGE_IDLE_MAX;
	}
}

const struct area_kind capkm_area_exclusive = {
	.next = next,
	.page_bytes = page_bytes,
	.tidy = tidy,
	.asked = asked,
	.reused = reused,
};
