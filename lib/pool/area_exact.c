// SPDX-License-Identifier: MIT
/*
 * A page of exactly the size for each slice: the persistent area of each slot, and
 * direct areas, which may give pages back when too much of them is free.
 */
#include "pool.h"

static struct slice *next(struct area *a, uint64_t bytes, struct slice *after)
{
	struct slice *s = after ? TAILQ_NEXT(after, in_free) :
		TAILQ_FIRST(&a->free);

	while (s && s->bytes != bytes)
		s = TAILQ_NEXT(s, in_free);
	return s;
}

static uint64_t page_bytes(const struct area *a, uint64_t bytes)
{
	(void)a;
	return bytes;
}

/* Those that were freed first go first. */
static void tidy(struct area *a)
{
	struct slice *s = TAILQ_FIRST(&a->free), *n;

	if (!a->shape->reclaim)
		return;
	for (; s && a->room > a->shape->reclaim; s = n) {
		n = TAILQ_NEXT(s, in_free);
		capkm_page_drop(s->page);
	}
}

const struct area_kind capkm_area_exact = {
	.next = next,
	.page_bytes = page_bytes,
	.tidy = tidy,
};
