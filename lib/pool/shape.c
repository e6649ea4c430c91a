// SPDX-License-Identifier: MIT
/* The areas of a pool: what the caller wants, or a preset, with every size said. */
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIB		(1ull << 20)
#define GIB		(1ull << 30)
/* The largest page that sliced areas are planned for, and if page_max is not known. */
#define PLAN_MAX	(1ull << 40)
#define PLAN_UNKNOWN	(256 * MIB)
#define PRESET_MAX	24u

bool capkm_pool_align(const struct capkm_pool *pool, uint64_t *bytes)
{
	const uint64_t over = *bytes % pool->memory.alignment;

	return !over || !__builtin_add_overflow(*bytes,
		pool->memory.alignment - over, bytes);
}

static uint64_t align_down(const struct capkm_pool *pool, uint64_t bytes)
{
	return bytes - bytes % pool->memory.alignment;
}

static uint64_t page_limit(const struct capkm_pool *pool)
{
	return align_down(pool, pool->memory.page_max ?
			  pool->memory.page_max : UINT64_MAX);
}

/* ---- presets ---- */

static uint64_t plan_max(const struct capkm_pool *pool)
{
	const uint64_t most = page_limit(pool);

	if (!pool->memory.page_max)
		return PLAN_UNKNOWN;
	if (most < PLAN_MAX || pool->memory.alignment > PLAN_MAX)
		return most;
	return align_down(pool, PLAN_MAX);
}

/*
 * Sliced pages, each a quarter of the next larger one, from about 8 MiB to a quarter
 * of the largest. The smaller the page, the smaller the part of it that one slice
 * may be, so that much fits into each. What is larger than a slice of the largest
 * gets a page of its own. A backend with small pages has one sliced area.
 */
static uint32_t plan_slices(struct capkm_pool *pool,
			    struct capkm_pool_area *areas)
{
	uint64_t pages[PRESET_MAX], page = plan_max(pool), smaller;
	uint32_t n = 0, i;

	while (page >= 32 * MIB && n < PRESET_MAX - 1) {
		smaller = page / 4;
		if (!capkm_pool_align(pool, &smaller) || smaller == page)
			break;
		page = smaller;
		pages[n++] = page;
	}
	if (!n)
		pages[n++] = page;
	for (i = 0; i < n; i++) {
		page = pages[n - 1 - i];
		areas[i].kind = CAPKM_POOL_SLICED;
		areas[i].page_bytes = page;
		areas[i].slice_max = page >> (n - i);
		if (areas[i].slice_max < pool->memory.alignment)
			areas[i].slice_max = page;
	}
	areas[n].kind = CAPKM_POOL_DIRECT;
	return n + 1;
}

/* From 32 KiB on, twice as large each; what is large stays longer. */
static uint32_t plan_exclusive(struct capkm_pool *pool,
			       struct capkm_pool_area *areas)
{
	const uint64_t most = page_limit(pool);
	uint64_t page = 32 << 10;
	uint32_t n;

	for (n = 0; n < PRESET_MAX; n++, page *= 2) {
		areas[n].kind = CAPKM_POOL_EXCLUSIVE;
		areas[n].page_bytes = n < PRESET_MAX - 1 ? page : most;
		if (!capkm_pool_align(pool, &areas[n].page_bytes) ||
		    areas[n].page_bytes > most)
			areas[n].page_bytes = most;
		areas[n].period = 5000 *
			(1 + (areas[n].page_bytes / (GIB / 2) + 1) / 2);
		if (areas[n].page_bytes == most)
			return n + 1;
	}
	return n;
}

/* ---- shapes ---- */

static int wrong(struct capkm_error *err, int rc, uint32_t i, const char *why)
{
	return capkm_error_set(err, rc, i, 0,
			       "pool_create: areas[%" PRIu32 "]: %s", i, why);
}

static const char *shape_sizes(const struct capkm_pool *pool, struct shape *s)
{
	if (s->page_bytes > page_limit(pool))
		return "page_bytes is more than the backend's page_max";
	if (s->slice_max > s->page_bytes)
		return "slice_max is more than page_bytes; a slice lies in one page";
	if (s->capacity < pool->memory.alignment)
		return "capacity is less than the alignment; it has no room for anything";
	s->capacity = align_down(pool, s->capacity);
	if (s->page_bytes > s->capacity)
		s->page_bytes = s->capacity;
	if (s->slice_max > s->page_bytes)
		s->slice_max = s->page_bytes;
	return NULL;
}

static int shape(const struct capkm_pool *pool, const struct capkm_pool_area *a,
		 uint32_t i, struct shape *s, struct capkm_error *err)
{
	static const struct area_kind *const kinds[] = {
		[CAPKM_POOL_SLICED] = &capkm_area_sliced,
		[CAPKM_POOL_EXCLUSIVE] = &capkm_area_exclusive,
		[CAPKM_POOL_DIRECT] = &capkm_area_exact,
	};
	const char *why;

	if (a->kind >= sizeof(kinds) / sizeof(*kinds) || !kinds[a->kind])
		return wrong(err, -EINVAL, i,
			     "kind must be one of CAPKM_POOL_SLICED, _EXCLUSIVE, _DIRECT");
	if (a->__reserved)
		return wrong(err, -EINVAL, i, "a reserved member is not 0");
	if (a->kind == CAPKM_POOL_SLICED && !a->page_bytes)
		return wrong(err, -EINVAL, i,
			     "page_bytes must not be 0 for sliced pages");
	s->kind = kinds[a->kind];
	s->page_bytes = a->page_bytes ? a->page_bytes : page_limit(pool);
	s->slice_max = a->slice_max ? a->slice_max : s->page_bytes;
	s->capacity = a->capacity ? a->capacity : UINT64_MAX;
	s->period = a->period;
	s->reclaim = a->kind == CAPKM_POOL_DIRECT ? a->reclaim : 0;
	if (!capkm_pool_align(pool, &s->page_bytes) ||
	    !capkm_pool_align(pool, &s->slice_max))
		return wrong(err, -EOVERFLOW, i,
			     "a size, rounded up to the alignment, does not fit into 64 bits");
	why = shape_sizes(pool, s);
	return why ? wrong(err, -EINVAL, i, why) : 0;
}

static int shape_all(struct capkm_pool *pool,
		     const struct capkm_pool_area *areas, uint32_t len,
		     struct capkm_error *err)
{
	static const struct capkm_pool_area persistent = {
		.kind = CAPKM_POOL_DIRECT,
	};
	uint32_t i;
	int rc;

	pool->shapes = calloc(1, (len + 1) * sizeof(*pool->shapes));
	if (!pool->shapes)
		return capkm_no_memory("pool_create", err);
	pool->shapes_len = len + 1;
	rc = shape(pool, &persistent, 0, &pool->shapes[0], err);
	for (i = 0; i < len && !rc; i++)
		rc = shape(pool, &areas[i], i, &pool->shapes[i + 1], err);
	return rc;
}

int capkm_pool_shape(struct capkm_pool *pool, const struct capkm_pool_opts *o,
		     struct capkm_error *err)
{
	struct capkm_pool_area areas[PRESET_MAX] = { 0 };

	if (o->areas ? !o->areas_len : o->areas_len)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"pool_create: areas and areas_len must both be given, or none for the preset");
	if (o->areas_len > CAPKM_POOL_AREAS_MAX)
		return capkm_error_set(err, -EMSGSIZE, CAPKM_NO_INDEX, 0,
			"pool_create: %" PRIu32 " areas, at most %d",
			o->areas_len, CAPKM_POOL_AREAS_MAX);
	if (o->areas)
		return shape_all(pool, o->areas, o->areas_len, err);
	switch (o->preset) {
	case CAPKM_POOL_PRESET_SLICES:
		return shape_all(pool, areas, plan_slices(pool, areas), err);
	case CAPKM_POOL_PRESET_EXCLUSIVE:
		return shape_all(pool, areas, plan_exclusive(pool, areas), err);
	}
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"pool_create: preset %" PRIu32 " is not one of CAPKM_POOL_PRESET_*",
		o->preset);
}
