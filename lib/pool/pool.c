// SPDX-License-Identifier: MIT
/* Handles, and the calls on them. */
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool capkm_pool_inherited(const struct capkm_pool *pool)
{
	return capkm_inherited(pool->c) ||
	       pool->c->generation != pool->generation;
}

/* A child that has joined the session has a handle, and still no pool. */
int capkm_pool_lock(struct capkm_pool *pool, const char *call,
		    struct capkm_error *err)
{
	if (capkm_pool_inherited(pool))
		return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0,
			"%s: the pool was inherited through fork and belongs to the parent; make one in this process",
			call);
	pthread_mutex_lock(&pool->mutex);
	return 0;
}

void capkm_pool_unlock(struct capkm_pool *pool)
{
	capkm_pool_assert(pool);
	pthread_mutex_unlock(&pool->mutex);
}

/* ---- parts ---- */

int capkm_pool_find_part(struct capkm_pool *pool, uint32_t slot,
			 const char *call, struct part **part,
			 struct capkm_error *err)
{
	*part = NULL;
	if (slot >= pool->slots)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: the pool serves slots below %" PRIu32 ", not %" PRIu32,
			call, pool->slots, slot);
	*part = pool->parts[slot];
	return 0;
}

int capkm_pool_make_part(struct capkm_pool *pool, uint32_t slot,
			 const char *call, struct part **out,
			 struct capkm_error *err)
{
	int rc = capkm_pool_find_part(pool, slot, call, out, err);
	struct part *part;
	uint32_t i;

	if (rc || *out)
		return rc;
	part = calloc(1, sizeof(*part) +
				 pool->shapes_len * sizeof(*part->areas));
	if (!part)
		return capkm_no_memory(call, err);
	part->pool = pool;
	part->slot = slot;
	for (i = 0; i < pool->shapes_len; i++)
		capkm_area_init(&part->areas[i], part, &pool->shapes[i]);
	pool->parts[slot] = part;
	*out = part;
	return 0;
}

/* ---- handles ---- */

static int handle_add(struct capkm_pool *pool, const char *call,
		      struct handle **out, struct capkm_error *err)
{
	struct handle *h = calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return capkm_no_memory(call, err);
	rc = capkm_table_add(&pool->handles, h, &h->id);
	if (!rc) {
		*out = h;
		return 0;
	}
	free(h);
	if (rc == -ENOMEM)
		return capkm_no_memory(call, err);
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"%s: the pool has %" PRIu64 " handles, more than it can name",
		call, pool->handles.count);
}

static void handle_remove(struct capkm_pool *pool, struct handle *h)
{
	capkm_table_remove(&pool->handles, h->id);
	free(h);
}

void capkm_handle_settle(struct capkm_pool *pool, struct handle *h)
{
	struct slice *s = h->slice;

	if (!h->freed || handle_pins(h) || (s && capkm_capture_keeps(s)))
		return;
	if (s) {
		s->user = NULL;
		capkm_slice_put(s);
	}
	handle_remove(pool, h);
}

static int no_entry(struct capkm_error *err, const char *call,
		    uint64_t id, const char *why)
{
	return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
			       "%s: memory %" PRIu64 " %s", call, id, why);
}

/* Any that there is: freed ones are, while something pins them. */
static int handle_any(struct capkm_pool *pool, uint64_t id, const char *call,
		      struct handle **out, struct capkm_error *err)
{
	*out = capkm_table_find(&pool->handles, id);
	if (*out)
		return 0;
	return no_entry(err, call, id,
			capkm_table_is_foreign(&pool->handles, id) ?
			"is not of this pool" :
			"was freed, or never allocated");
}

/* One that its owner has not freed. */
static int handle_own(struct capkm_pool *pool, uint64_t id, const char *call,
		      struct handle **out, struct capkm_error *err)
{
	int rc = handle_any(pool, id, call, out, err);

	if (!rc && (*out)->freed)
		return no_entry(err, call, id, "was freed");
	return rc;
}

static int handle_slice(const struct capkm_pool *pool, const struct handle *h,
			const char *call, struct capkm_error *err)
{
	if (h->slice)
		return 0;
	return no_entry(err, call, h->id, h->epoch == pool->epoch ?
			"has no memory; bind a reservation to it" :
			"was lost when the pool was reset");
}

/* The slice is off the free list. */
static void install(struct capkm_pool *pool, struct handle *h, struct slice *s)
{
	/* Freed, and kept by a capture until now. */
	if (s->user)
		handle_remove(pool, s->user);
	s->user = h;
	h->slice = s;
	h->epoch = pool->epoch;
	capkm_capture_touch(s);
}

/* ---- reservations ---- */

static bool accepts(const struct area *a, uint64_t bytes)
{
	return bytes <= a->shape->slice_max;
}

static int too_large(const struct part *part, const struct request *r,
		     bool persistent)
{
	const struct area *a;
	uint64_t largest = 0;

	for_each_area(a, part)
		if ((a == part->areas) == persistent &&
		    a->shape->slice_max > largest)
			largest = a->shape->slice_max;
	return capkm_error_set(r->err, -EMSGSIZE, CAPKM_NO_INDEX, 0,
		"%s: %" PRIu64 " bytes; no area of the pool has slices of more than %" PRIu64,
		r->call, r->asked, largest);
}

static int full(const struct area *a, const struct request *r)
{
	return capkm_error_set(r->err, -ENOSPC, CAPKM_NO_INDEX, 0,
		"%s: no room for %" PRIu64 " bytes: the area's capacity is %" PRIu64
		" bytes, its pages have %" PRIu64 ", of which %" PRIu64 " are in use",
		r->call, r->asked, a->shape->capacity, a->bytes,
		a->bytes - a->room);
}

/* The first area that accepts the size and has room; the persistent one is alone. */
static int choose(struct part *part, struct request *r, struct slice **out)
{
	const bool persistent = part->persistent || part->capture;
	struct area *a, *last = NULL;
	int rc = 1;

	if (!capkm_pool_align(part->pool, &r->bytes))
		return too_large(part, r, persistent);
	for_each_area(a, part) {
		if ((a == part->areas) != persistent || !accepts(a, r->bytes))
			continue;
		rc = capkm_area_reserve(a, r, out);
		if (rc <= 0)
			return rc;
		last = a;
	}
	return last ? full(last, r) : too_large(part, r, persistent);
}

static void tidy(struct part *part)
{
	struct area *a;

	part->reservations++;
	if (part->capture)
		return;
	for_each_area(a, part)
		if (a->shape->kind->tidy)
			a->shape->kind->tidy(a);
}

static int reserve(struct part *part, struct request *r, struct handle **out)
{
	struct capkm_pool *pool = part->pool;
	struct slice *s;
	int rc = handle_add(pool, r->call, out, r->err);

	if (rc)
		return rc;
	tidy(part);
	rc = choose(part, r, &s);
	free(r->rest);
	if (rc) {
		handle_remove(pool, *out);
		return rc;
	}
	s->asked = r->asked;
	(*out)->reservation = !r->shed;
	install(pool, *out, s);
	return 0;
}

static int get(struct capkm_pool *pool, uint32_t slot, struct request *r,
	       uint64_t *memory)
{
	struct handle *h;
	struct part *part;
	int rc;

	if (!r->asked)
		return capkm_error_set(r->err, -EINVAL, CAPKM_NO_INDEX, 0,
				       "%s: memory has at least one byte", r->call);
	rc = capkm_pool_lock(pool, r->call, r->err);
	if (rc)
		return rc;
	rc = capkm_pool_make_part(pool, slot, r->call, &part, r->err);
	if (!rc)
		rc = reserve(part, r, &h);
	if (!rc)
		*memory = h->id;
	capkm_pool_unlock(pool);
	return rc;
}

int capkm_pool_alloc(struct capkm_pool *pool, uint32_t slot, uint64_t bytes,
		     uint64_t *memory, struct capkm_error *err)
{
	struct request r = {
		.call = "pool_alloc",
		.err = err,
		.asked = bytes,
		.bytes = bytes,
		.shed = true,
	};

	return get(pool, slot, &r, memory);
}

int capkm_pool_reserve(struct capkm_pool *pool, uint32_t slot, uint64_t bytes,
		       uint64_t *reserved, struct capkm_error *err)
{
	struct request r = {
		.call = "pool_reserve",
		.err = err,
		.asked = bytes,
		.bytes = bytes,
	};

	return get(pool, slot, &r, reserved);
}

/* ---- calls on handles ---- */

int capkm_pool_handle(struct capkm_pool *pool, uint64_t *memory,
		      struct capkm_error *err)
{
	struct handle *h;
	int rc = capkm_pool_lock(pool, "pool_handle", err);

	if (rc)
		return rc;
	rc = handle_add(pool, "pool_handle", &h, err);
	if (!rc) {
		h->epoch = pool->epoch;
		*memory = h->id;
	}
	capkm_pool_unlock(pool);
	return rc;
}

static int bind_wrong(const struct handle *from, const struct handle *to,
		      struct capkm_error *err)
{
	const char *why;
	uint64_t id = to->id;

	if (to->slice) {
		why = "has memory";
	} else if (to->pins) {
		why = "is still pinned from before the pool was reset";
	} else if (!from->reservation) {
		id = from->id;
		why = "is not a reservation";
	} else if (from->pins) {
		id = from->id;
		why = "is a reservation that is pinned; unpin it first";
	} else {
		return 0;
	}
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			       "pool_bind: memory %" PRIu64 " %s", id, why);
}

static int bind(struct capkm_pool *pool, uint64_t reserved, uint64_t memory,
		struct capkm_error *err)
{
	struct handle *from, *to;
	struct slice *s;
	int rc = handle_own(pool, reserved, "pool_bind", &from, err);

	if (!rc)
		rc = handle_own(pool, memory, "pool_bind", &to, err);
	if (!rc)
		rc = handle_slice(pool, from, "pool_bind", err);
	if (!rc)
		rc = bind_wrong(from, to, err);
	if (rc)
		return rc;
	s = from->slice;
	rc = capkm_slice_shed(s, s->bytes);
	if (rc)
		return capkm_refuse(pool->c, err, CAPKM_NR_BUFFER_RESET, rc, NULL,
			"memory %" PRIu64 ", buffer %" PRIu64 " [%" PRIu64 ", %" PRIu64 ")",
			reserved, s->page->buffer, s->start,
			s->start + s->bytes);
	install(pool, to, s);
	return 0;
}

int capkm_pool_bind(struct capkm_pool *pool, uint64_t reserved,
		    uint64_t memory, struct capkm_error *err)
{
	int rc = capkm_pool_lock(pool, "pool_bind", err);

	if (rc)
		return rc;
	rc = bind(pool, reserved, memory, err);
	capkm_pool_unlock(pool);
	return rc;
}

int capkm_pool_free(struct capkm_pool *pool, uint64_t memory,
		    struct capkm_error *err)
{
	struct handle *h;
	int rc = capkm_pool_lock(pool, "pool_free", err);

	if (rc)
		return rc;
	rc = handle_own(pool, memory, "pool_free", &h, err);
	if (!rc) {
		h->freed = true;
		capkm_handle_settle(pool, h);
	}
	capkm_pool_unlock(pool);
	return rc;
}

/* What a capture keeps after it was freed is nobody's to pin. */
static int pin(struct capkm_pool *pool, uint64_t memory,
	       struct capkm_error *err)
{
	struct handle *h;
	int rc = handle_any(pool, memory, "pool_pin", &h, err);

	if (!rc && h->freed && !handle_pins(h))
		rc = no_entry(err, "pool_pin", memory, "was freed");
	if (!rc)
		rc = handle_slice(pool, h, "pool_pin", err);
	if (rc)
		return rc;
	if (handle_pins(h) == UINT32_MAX)
		return capkm_error_set(err, -EOVERFLOW, CAPKM_NO_INDEX, 0,
			"pool_pin: memory %" PRIu64 " is pinned %" PRIu32 " times",
			memory, UINT32_MAX);
	h->pins++;
	return 0;
}

int capkm_pool_pin(struct capkm_pool *pool, uint64_t memory,
		   struct capkm_error *err)
{
	int rc = capkm_pool_lock(pool, "pool_pin", err);

	if (rc)
		return rc;
	rc = pin(pool, memory, err);
	capkm_pool_unlock(pool);
	return rc;
}

static int unpin(struct capkm_pool *pool, uint64_t memory,
		 struct capkm_error *err)
{
	struct handle *h;
	int rc = handle_any(pool, memory, "pool_unpin", &h, err);

	if (rc)
		return rc;
	if (!h->pins)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"pool_unpin: memory %" PRIu64 " is not pinned%s", memory,
			handle_pins(h) ? ", but by a graph" : "");
	h->pins--;
	capkm_handle_settle(pool, h);
	return 0;
}

int capkm_pool_unpin(struct capkm_pool *pool, uint64_t memory,
		     struct capkm_error *err)
{
	int rc = capkm_pool_lock(pool, "pool_unpin", err);

	if (rc)
		return rc;
	rc = unpin(pool, memory, err);
	capkm_pool_unlock(pool);
	return rc;
}

static void slice_fill(const struct handle *h, struct capkm_pool_slice *out)
{
	const struct slice *s = h->slice;
	const struct page *page = s->page;
	uint64_t padded = s->asked;

	capkm_pool_align(page->area->part->pool, &padded);
	out->claim.buffer = page->buffer;
	out->claim.start = s->start;
	out->claim.end = s->start + s->asked;
	out->address = page->address + s->start;
	out->padding = padded - s->asked;
	out->epoch = h->epoch;
	out->slot = page->area->part->slot;
	out->pins = handle_pins(h);
	out->touched = s->touched;
}

int capkm_pool_find(struct capkm_pool *pool, uint64_t memory,
		    struct capkm_pool_slice *slice, struct capkm_error *err)
{
	struct capkm_pool_slice known;
	struct handle *h;
	int rc = capkm_opts(&known, sizeof(known), slice, "pool_find", err);

	if (!rc)
		rc = capkm_pool_lock(pool, "pool_find", err);
	if (rc)
		return rc;
	memset(&known, 0, sizeof(known));
	rc = handle_own(pool, memory, "pool_find", &h, err);
	if (!rc)
		rc = handle_slice(pool, h, "pool_find", err);
	if (!rc)
		slice_fill(h, &known);
	capkm_pool_unlock(pool);
	if (!rc)
		capkm_opts_put(slice, &known, sizeof(known));
	return rc;
}

/* ---- calls on a part, and on all of it ---- */

int capkm_pool_cleanup(struct capkm_pool *pool, uint32_t slot,
		       struct capkm_error *err)
{
	struct part *part;
	struct area *a;
	int rc = capkm_pool_lock(pool, "pool_cleanup", err);

	if (rc)
		return rc;
	rc = capkm_pool_find_part(pool, slot, "pool_cleanup", &part, err);
	if (part && !part->capture)
		for_each_area(a, part)
			capkm_area_cleanup(a);
	capkm_pool_unlock(pool);
	return rc;
}

int capkm_pool_persistent_begin(struct capkm_pool *pool, uint32_t slot,
				struct capkm_error *err)
{
	const char *call = "pool_persistent_begin";
	struct part *part;
	int rc = capkm_pool_lock(pool, call, err);

	if (rc)
		return rc;
	rc = capkm_pool_make_part(pool, slot, call, &part, err);
	if (!rc && part->persistent == UINT32_MAX)
		rc = capkm_error_set(err, -EOVERFLOW, CAPKM_NO_INDEX, 0,
			"%s: begun %" PRIu32 " times", call, part->persistent);
	else if (!rc)
		part->persistent++;
	capkm_pool_unlock(pool);
	return rc;
}

int capkm_pool_persistent_end(struct capkm_pool *pool, uint32_t slot,
			      struct capkm_error *err)
{
	const char *call = "pool_persistent_end";
	struct part *part;
	int rc = capkm_pool_lock(pool, call, err);

	if (rc)
		return rc;
	rc = capkm_pool_find_part(pool, slot, call, &part, err);
	if (part && part->persistent)
		part->persistent--;
	capkm_pool_unlock(pool);
	return rc;
}

/* Its handles stay until they are freed and unpinned, without memory. */
static void lose(struct capkm_pool *pool, struct page *page)
{
	struct slice *s;
	struct handle *h;

	TAILQ_FOREACH(s, &page->slices, in_page) {
		h = s->user;
		if (!h)
			continue;
		s->user = NULL;
		h->slice = NULL;
		capkm_handle_settle(pool, h);
	}
	capkm_page_free(page);
}

static void lose_all(struct capkm_pool *pool)
{
	struct part *part;
	struct page *page;
	struct area *a;
	uint32_t i;

	for (i = 0; i < pool->slots; i++) {
		part = pool->parts[i];
		if (!part)
			continue;
		part->capture = CAPTURE_NONE;
		for_each_area(a, part)
			while ((page = TAILQ_FIRST(&a->pages)))
				lose(pool, page);
	}
}

int capkm_pool_reset(struct capkm_pool *pool, struct capkm_error *err)
{
	int rc = capkm_pool_lock(pool, "pool_reset", err);

	if (rc)
		return rc;
	lose_all(pool);
	pool->epoch++;
	capkm_pool_unlock(pool);
	return 0;
}

uint64_t capkm_pool_epoch(struct capkm_pool *pool)
{
	return pool->epoch;
}

static int check_memory(const struct capkm_pool_memory *m,
			struct capkm_error *err)
{
	const char *why;

	if (!m->alloc || !m->free)
		why = "alloc and free must be there";
	else if (!m->alignment)
		why = "the alignment must not be 0";
	else if (m->page_max && m->page_max < m->alignment)
		why = "page_max must be at least the alignment";
	else
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			       "pool_create: memory: %s", why);
}

static int check_opts(const struct capkm *c, struct capkm_pool_opts *o,
		      struct capkm_error *err)
{
	if (!c->domain)
		return capkm_error_set(err, -ENOTCONN, CAPKM_NO_INDEX, 0,
			"pool_create: the handle has no domain yet; create, attach or open one first");
	if (!o->slots)
		o->slots = c->max_streams;
	if (o->slots > c->max_streams)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"pool_create: %" PRIu32 " slots; the session has %" PRIu32,
			o->slots, c->max_streams);
	if (o->flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				       "pool_create: flags must be 0");
	return 0;
}

static int create(struct capkm_pool *pool, const struct capkm_pool_opts *o,
		  struct capkm_error *err)
{
	int rc = capkm_pool_shape(pool, o, err);

	if (rc)
		return rc;
	rc = capkm_table_init(&pool->handles);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"pool_create: this process has made as many pools as it can name");
	pool->generation = pool->c->generation;
	memcpy(pool->label, o->label ? o->label : "",
	       capkm_cut(o->label, CAPKM_LABEL_MAX));
	pool->slots = o->slots;
	pthread_mutex_init(&pool->mutex, NULL);
	return 0;
}

int capkm_pool_create(struct capkm *c, const struct capkm_pool_memory *memory,
		      const struct capkm_pool_opts *opts,
		      struct capkm_pool **out, struct capkm_error *err)
{
	struct capkm_pool_memory m;
	struct capkm_pool_opts o;
	struct capkm_pool *pool;
	int rc = capkm_not_inherited(c, "pool_create", err);

	if (!rc)
		rc = capkm_opts(&m, sizeof(m), memory, "pool_create", err);
	if (!rc)
		rc = capkm_opts(&o, sizeof(o), opts, "pool_create", err);
	if (!rc)
		rc = check_memory(&m, err);
	if (!rc)
		rc = check_opts(c, &o, err);
	if (rc)
		return rc;
	pool = calloc(1, sizeof(*pool) +
				 o.slots * sizeof(*pool->parts));
	if (!pool)
		return capkm_no_memory("pool_create", err);
	pool->c = c;
	pool->memory = m;
	rc = create(pool, &o, err);
	if (rc) {
		free(pool->shapes);
		free(pool);
	} else {
		*out = pool;
	}
	return rc;
}

/* A child's copy of the pages goes with its process; the backend is the parent's. */
static void forget_all(struct capkm_pool *pool)
{
	struct slice *s;
	struct page *page;
	struct area *a;
	uint32_t i;

	for (i = 0; i < pool->slots; i++) {
		if (!pool->parts[i])
			continue;
		for_each_area(a, pool->parts[i])
			while ((page = TAILQ_FIRST(&a->pages))) {
				TAILQ_REMOVE(&a->pages, page, in_area);
				while ((s = TAILQ_FIRST(&page->slices))) {
					TAILQ_REMOVE(&page->slices, s, in_page);
					free(s);
				}
				free(page);
			}
	}
}

void capkm_pool_destroy(struct capkm_pool *pool)
{
	struct handle *h;
	uint32_t i = 0;

	if (!pool)
		return;
	if (capkm_pool_inherited(pool))
		forget_all(pool);
	else
		lose_all(pool);
	while ((h = capkm_table_next(&pool->handles, &i)))
		free(h);
	for (i = 0; i < pool->slots; i++)
		free(pool->parts[i]);
	pthread_mutex_destroy(&pool->mutex);
	capkm_table_free(&pool->handles);
	free(pool->shapes);
	free(pool);
}
