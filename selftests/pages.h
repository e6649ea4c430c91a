/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A backend for pools that are tested: real memory behind addresses of its own,
 * with every page accounted for. Addresses are used again, as those of a driver.
 */
#ifndef CAPKM_PAGES_H
#define CAPKM_PAGES_H

#include "capkm_test.h"
#include <capkm/pool.h>

#define PAGES 1024

struct page {
	u_int64_t address, bytes;	/* 0 bytes: there is none */
	unsigned char *data;
};

/* Under the lock of the one pool that takes pages here. */
struct pages {
	struct capkm_pool_memory memory;
	struct page page[PAGES];
	unsigned int live;
	u_int64_t bytes;
	u_int64_t given;
	int fail;		/* what is said instead of giving a page, or 0 */
};

static int pages_alloc(void *context, u_int64_t bytes, u_int64_t *address)
{
	struct pages *p = context;
	const struct capkm_pool_memory *m = &p->memory;
	unsigned int i = 0;

	if (!bytes || bytes % m->alignment || (m->page_max && bytes > m->page_max))
		t_die("a page of %" PRIu64 " bytes is asked for, alignment %" PRIu64
		      ", largest %" PRIu64, bytes, m->alignment, m->page_max);
	if (p->fail)
		return p->fail;
	while (i < PAGES && p->page[i].bytes)
		i++;
	if (i == PAGES)
		return -ENOMEM;
	/* Far apart, so that a range that leaves its page meets no other one. */
	*address = (i + 1ull) << 32;
	*address += m->alignment - *address % m->alignment;
	p->page[i] = (struct page){ *address, bytes, malloc(bytes) };
	memset(p->page[i].data, 0xdd, bytes);
	p->live++;
	p->bytes += bytes;
	p->given++;
	return 0;
}

static void pages_free(void *context, u_int64_t address, u_int64_t bytes)
{
	struct pages *p = context;

	for (unsigned int i = 0; i < PAGES; i++) {
		struct page *page = &p->page[i];

		if (!page->bytes || page->address != address)
			continue;
		if (page->bytes != bytes)
			t_die("a page of %" PRIu64 " bytes comes back as %" PRIu64,
			      page->bytes, bytes);
		free(page->data);
		*page = (struct page){ 0 };
		p->live--;
		p->bytes -= bytes;
		return;
	}
	t_die("the page at %" PRIx64 " comes back, which nobody has", address);
}

/* @device: first byte of its UUID, 0 for the host. */
static T_UNUSED struct pages *pages_new(u_int64_t alignment, u_int64_t page_max,
					unsigned char device)
{
	struct pages *p = calloc(1, sizeof(*p));

	p->memory = (struct capkm_pool_memory){
		.sz = sizeof(p->memory), .device[0] = device, .alignment = alignment,
		.page_max = page_max, .alloc = pages_alloc, .free = pages_free,
		.context = p,
	};
	return p;
}

static T_UNUSED void pages_delete(struct pages *p)
{
	if (p->live)
		t_die("%u pages did not come back", p->live);
	free(p);
}

/* The page that all these bytes lie in, NULL if there is none. */
static T_UNUSED const struct page *page_of(const struct pages *p, u_int64_t address,
					   u_int64_t bytes)
{
	for (unsigned int i = 0; i < PAGES; i++) {
		const struct page *page = &p->page[i];

		if (page->bytes && address >= page->address &&
		    address + bytes <= page->address + page->bytes)
			return page;
	}
	return NULL;
}

/* The memory itself. */
static T_UNUSED unsigned char *bytes_of(const struct pages *p, u_int64_t address,
					u_int64_t bytes)
{
	const struct page *page = page_of(p, address, bytes);

	if (!page)
		t_die("[%" PRIx64 ",%" PRIx64 ") is in no page", address,
		      address + bytes);
	return page->data + (address - page->address);
}

#endif /* CAPKM_PAGES_H */
