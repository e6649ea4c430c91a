// SPDX-License-Identifier: MIT
/* Pages of one size, cut into slices: the first that fits, by page and address. */
#include "pool.h"

/* Free neighbours are merged on the way. */
static struct slice *fit(struct slice *s, uint64_t bytes)
{
	for (; s; s = TAILQ_NEXT(s, in_page)) {
		if (!s->free)
			continue;
		capkm_slice_merge(s);
		if (s->bytes >= bytes)
			return s;
	}
	return NULL;
}

static struct slice *next(struct area *a, uint64_t bytes, struct slice *after)
{
	struct page *page = after ? after->page : TAILQ_FIRST(&a->pages);
	struct slice *s = after ? fit(TAILQ_NEXT(after, in_page), bytes) : NULL;

	if (after)
		page = TAILQ_NEXT(page, in_area);
	for (; page && !s; page = TAILQ_NEXT(page, in_area))
		if (page->room >= bytes)
			s = fit(TAILQ_FIRST(&page->slices), bytes);
	return s;
}

static uint64_t page_bytes(const struct area *a, uint64_t bytes)
{
	(void)bytes;
	return a->shape->page_bytes;
}

const struct area_kind capkm_area_sliced = {
	.splits = true,
	.next = next,
	.page_bytes = page_bytes,
};
