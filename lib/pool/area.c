// SPDX-License-Identifier: MIT
/* Pages and slices, the same in all kinds of areas. */
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void capkm_area_init(struct area *a, struct part *part,
		     const struct shape *shape)
{
	a->part = part;
	a->shape = shape;
	TAILQ_INIT(&a->pages);
	TAILQ_INIT(&a->free);
	/* Halfway, until it is known what is asked for. */
	if (shape->page_bytes < UINT64_MAX / 100)
		a->average = shape->page_bytes / 2 * 100;
}

void capkm_slice_put(struct slice *s)
{
	s->free = true;
	TAILQ_INSERT_TAIL(&s->page->area->free, s, in_free);
	s->page->room += s->bytes;
	s->page->area->room += s->bytes;
}

void capkm_slice_get(struct slice *s)
{
	s->free = false;
	TAILQ_REMOVE(&s->page->area->free, s, in_free);
	s->page->room -= s->bytes;
	s->page->area->room -= s->bytes;
}

bool capkm_slice_used(const struct slice *s)
{
	return s->user && (!s->user->freed || handle_pins(s->user));
}

int capkm_slice_shed(const struct slice *s, uint64_t bytes)
{
	return capkm_buffer_reset(s->page->area->part->pool->c, s->page->buffer,
				  s->start, s->start + bytes, NULL);
}

/*
 * That the neighbour's end is the end of both is all that changes: the taint of
 * the two goes with one call, or stays.
 */
void capkm_slice_merge(struct slice *s)
{
	struct slice *n = TAILQ_NEXT(s, in_page);

	while (n && n->free && !capkm_slice_shed(s, s->bytes + n->bytes)) {
		capkm_slice_get(n);
		capkm_slice_get(s);
		s->bytes += n->bytes;
		capkm_slice_put(s);
		TAILQ_REMOVE(&s->page->slices, n, in_page);
		free(n);
		n = TAILQ_NEXT(s, in_page);
	}
}

/* Cuts @s, which is off the free list, down to what is asked for. */
static void cut(struct slice *s, struct request *r)
{
	struct slice *rest = r->rest;

	if (!s->page->area->shape->kind->splits || s->bytes == r->bytes)
		return;
	r->rest = NULL;
	rest->page = s->page;
	rest->start = s->start + r->bytes;
	rest->bytes = s->bytes - r->bytes;
	s->bytes = r->bytes;
	TAILQ_INSERT_AFTER(&s->page->slices, s, rest, in_page);
	capkm_slice_put(rest);
}

static uint64_t served(const struct slice *s, const struct request *r)
{
	return s->page->area->shape->kind->splits ? r->bytes : s->bytes;
}

/* 1: none is free. A slice that somebody still writes is left alone. */
static int take(struct area *a, struct request *r, struct slice **out)
{
	const struct area_kind *kind = a->shape->kind;
	struct slice *s = NULL;
	int rc;

	while ((s = kind->next(a, r->bytes, s))) {
		rc = r->shed ? capkm_slice_shed(s, served(s, r)) : 0;
		if (rc == -EBUSY)
			continue;
		if (rc)
			return capkm_refuse(a->part->pool->c, r->err,
				CAPKM_NR_BUFFER_RESET, rc, NULL, "buffer %" PRIu64,
				s->page->buffer);
		capkm_slice_get(s);
		cut(s, r);
		if (kind->reused)
			kind->reused(s->page);
		*out = s;
		return 0;
	}
	return 1;
}

/* Is there room for @bytes under the cap, if idle pages go back? Then they do. */
static bool make_room(struct area *a, uint64_t bytes)
{
	const uint64_t most = a->shape->capacity;
	struct page *page, *next;
	uint64_t idle = 0;

	TAILQ_FOREACH(page, &a->pages, in_area)
		idle += page->room == page->bytes ? page->bytes : 0;
	if (bytes > most || a->bytes - idle > most - bytes)
		return false;
	for (page = TAILQ_FIRST(&a->pages); page && a->bytes > most - bytes;
	     page = next) {
		next = TAILQ_NEXT(page, in_area);
		if (page->room == page->bytes)
			capkm_page_drop(page);
	}
	return a->bytes <= most - bytes;
}

/* A driver does not put memory into the graph that it records. */
static int ask(const struct part *part, struct capkm_error *err)
{
	struct capkm_where where = {
		.slot = part->slot,
		.flags = CAPKM_WHERE_SLOT,
	};

	if (part->capture != CAPTURE_RECORDING)
		return 0;
	memcpy(where.device, part->pool->memory.device, sizeof(where.device));
	return capkm_refused(part->pool->c, &where, CAPKM_REFUSE_ALLOCATE, NULL,
			     0, NULL, err);
}

static int back(struct page *page, const struct request *r)
{
	struct capkm_pool *pool = page->area->part->pool;
	struct capkm_buffer_opts opts = CAPKM_OPTS(struct capkm_buffer_opts,
		.label = pool->label);
	int rc;

	rc = pool->memory.alloc(pool->memory.context, page->bytes,
				&page->address);
	if (rc)
		return capkm_error_set(r->err, rc < 0 ? rc : -EIO, CAPKM_NO_INDEX, 0,
			"%s: the backend did not give a page of %" PRIu64 " bytes: %s",
			r->call, page->bytes, strerror(abs(rc)));
	opts.address = page->address;
	memcpy(opts.device, pool->memory.device, sizeof(opts.device));
	rc = capkm_buffer_create(pool->c, page->bytes, &opts, &page->buffer,
				 r->err);
	if (!rc && pool->memory.known) {
		rc = pool->memory.known(pool->memory.context, page->address,
					page->bytes, page->buffer);
		if (rc) {
			capkm_error_set(r->err, rc, CAPKM_NO_INDEX, 0,
				"%s: the backend does not take note of a page of %" PRIu64 " bytes: %s",
				r->call, page->bytes, strerror(abs(rc)));
			capkm_buffer_close(pool->c, page->buffer, NULL);
		}
	}
	if (rc)
		pool->memory.free(pool->memory.context, page->address,
				  page->bytes);
	return rc;
}

static int add_page(struct area *a, struct request *r, struct page *page,
		    struct slice *s)
{
	int rc = ask(a->part, r->err);

	page->area = a;
	if (!rc)
		rc = back(page, r);
	if (rc)
		return rc;
	TAILQ_INIT(&page->slices);
	TAILQ_INSERT_TAIL(&page->slices, s, in_page);
	TAILQ_INSERT_TAIL(&a->pages, page, in_area);
	s->page = page;
	s->bytes = page->bytes;
	page->idle = PAGE_IDLE_MAX - 1;
	a->bytes += page->bytes;
	a->part->grown++;
	cut(s, r);
	return 0;
}

/* 1: the cap is reached. New memory is clean. */
static int grow(struct area *a, struct request *r, struct slice **out)
{
	const uint64_t bytes = a->shape->kind->page_bytes(a, r->bytes);
	struct page *page;
	struct slice *s;
	int rc;

	if (!make_room(a, bytes))
		return 1;
	page = calloc(1, sizeof(*page));
	s = calloc(1, sizeof(*s));
	if (!page || !s) {
		rc = capkm_no_memory(r->call, r->err);
	} else {
		page->bytes = bytes;
		rc = add_page(a, r, page, s);
	}
	if (rc) {
		free(page);
		free(s);
	} else {
		*out = s;
	}
	return rc;
}

int capkm_area_reserve(struct area *a, struct request *r, struct slice **out)
{
	const struct area_kind *kind = a->shape->kind;
	int rc;

	if (kind->asked)
		kind->asked(a, r->asked);
	if (kind->splits && !r->rest) {
		r->rest = calloc(1, sizeof(*r->rest));
		if (!r->rest)
			return capkm_no_memory(r->call, r->err);
	}
	rc = take(a, r, out);
	return rc == 1 ? grow(a, r, out) : rc;
}

void capkm_page_free(struct page *page)
{
	struct area *a = page->area;
	struct capkm_pool *pool = a->part->pool;
	struct slice *s;

	while ((s = TAILQ_FIRST(&page->slices))) {
		if (s->free)
			capkm_slice_get(s);
		TAILQ_REMOVE(&page->slices, s, in_page);
		free(s);
	}
	TAILQ_REMOVE(&a->pages, page, in_area);
	a->bytes -= page->bytes;
	/* Fails only if the buffer is gone already, with its domain. */
	capkm_buffer_close(pool->c, page->buffer, NULL);
	pool->memory.free(pool->memory.context, page->address, page->bytes);
	free(page);
}

/*
 * The buffer would go with its taint anyway; but memory that a scope which is
 * still open writes must not be given to somebody else.
 */
bool capkm_page_drop(struct page *page)
{
	struct capkm *c = page->area->part->pool->c;

	if (capkm_buffer_reset(c, page->buffer, 0, page->bytes, NULL) == -EBUSY)
		return false;
	capkm_page_free(page);
	return true;
}

void capkm_area_cleanup(struct area *a)
{
	struct page *page, *next;
	struct slice *s;

	for (page = TAILQ_FIRST(&a->pages); page; page = next) {
		next = TAILQ_NEXT(page, in_area);
		if (page->room == page->bytes && capkm_page_drop(page))
			continue;
		TAILQ_FOREACH(s, &page->slices, in_page)
			if (s->free)
				capkm_slice_merge(s);
	}
}
