// SPDX-License-Identifier: MIT
/*
 * While a capture is armed, the persistent area serves everything, and what it hands
 * out is touched. Nothing that is touched is reused in the warm-up, so that at its
 * end the area holds all of its working set, not the most of it that was in use at
 * one time; each slice of it can then be handed out once. What is freed while the
 * window records is not reused at all: work that was recorded writes it at each
 * replay. In the end everything touched can be pinned, for the graph.
 */
#include "pool.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * On slices, not on handles: a reservation can be bound when its slice is pinned. A
 * slice that is pinned stays where it is until the pool is reset.
 */
struct capkm_pool_pins {
	struct capkm_pool *pool;
	uint64_t epoch;
	struct slice **slices;
	uint32_t len;
	uint64_t handles[];
};

static struct part *part_of(const struct slice *s)
{
	return s->page->area->part;
}

void capkm_capture_touch(struct slice *s)
{
	if (part_of(s)->capture)
		s->touched = true;
}

bool capkm_capture_keeps(const struct slice *s)
{
	const uint32_t capture = part_of(s)->capture;

	return capture == CAPTURE_RECORDING ||
	       (capture == CAPTURE_PRIMING && s->touched);
}

int capkm_pool_capture_begin(struct capkm_pool *pool, uint32_t slot,
			     struct capkm_error *err)
{
	const char *call = "pool_capture_begin";
	struct part *part;
	int rc = capkm_pool_lock(pool, call, err);

	if (rc)
		return rc;
	rc = capkm_pool_make_part(pool, slot, call, &part, err);
	if (!rc && !part->capture)
		part->capture = CAPTURE_PRIMING;
	capkm_pool_unlock(pool);
	return rc;
}

/* They keep their handles, by which the graph's pins can name them. */
static void end_priming(struct part *part)
{
	struct slice *s;
	struct page *page;
	struct area *a;

	part->capture = CAPTURE_RECORDING;
	for_each_slice(s, page, a, part)
		if (s->touched && !capkm_slice_used(s))
			capkm_slice_put(s);
}

int capkm_pool_priming_end(struct capkm_pool *pool, uint32_t slot,
			   struct capkm_error *err)
{
	const char *call = "pool_priming_end";
	struct part *part;
	int rc = capkm_pool_lock(pool, call, err);

	if (rc)
		return rc;
	rc = capkm_pool_find_part(pool, slot, call, &part, err);
	if (part && part->capture == CAPTURE_PRIMING)
		end_priming(part);
	capkm_pool_unlock(pool);
	return rc;
}

/* Room for all that was touched; NULL if nothing was. */
static int make_pins(struct part *part, struct capkm_pool_pins **out,
		     struct capkm_error *err)
{
	const char *call = "pool_capture_end";
	struct slice *s;
	struct page *page;
	struct area *a;
	size_t n = 0;

	for_each_slice(s, page, a, part) {
		n += s->touched;
		if (s->touched && handle_pins(s->user) == UINT32_MAX)
			return capkm_error_set(err, -EOVERFLOW, CAPKM_NO_INDEX, 0,
				"%s: memory %" PRIu64 " is pinned %" PRIu32 " times",
				call, s->user->id, UINT32_MAX);
	}
	*out = NULL;
	if (!n)
		return 0;
	*out = calloc(1, sizeof(**out) + n * sizeof(*(*out)->handles));
	if (*out)
		(*out)->slices = calloc(n, sizeof(*(*out)->slices));
	if (!*out || !(*out)->slices) {
		free(*out);
		return capkm_no_memory(call, err);
	}
	(*out)->pool = part->pool;
	(*out)->epoch = part->pool->epoch;
	return 0;
}

static void end_slice(struct slice *s, struct capkm_pool_pins *pins)
{
	struct handle *h = s->user;

	if (h && s->free)
		capkm_slice_get(s);
	if (s->touched && pins) {
		s->graph_pins++;
		pins->slices[pins->len] = s;
		pins->handles[pins->len++] = h->id;
	}
	s->touched = false;
	if (h)
		capkm_handle_settle(part_of(s)->pool, h);
}

static int end_capture(struct part *part, struct capkm_pool_pins **out,
		       struct capkm_error *err)
{
	struct capkm_pool_pins *pins = NULL;
	struct slice *s;
	struct page *page;
	struct area *a;
	int rc = out ? make_pins(part, &pins, err) : 0;

	if (rc)
		return rc;
	part->capture = CAPTURE_NONE;
	for_each_slice(s, page, a, part)
		end_slice(s, pins);
	if (out)
		*out = pins;
	return 0;
}

int capkm_pool_capture_end(struct capkm_pool *pool, uint32_t slot,
			   struct capkm_pool_pins **pins,
			   struct capkm_error *err)
{
	const char *call = "pool_capture_end";
	struct part *part;
	int rc = capkm_pool_lock(pool, call, err);

	if (rc)
		return rc;
	rc = capkm_pool_find_part(pool, slot, call, &part, err);
	if (part && part->capture)
		rc = end_capture(part, pins, err);
	else if (!rc && pins)
		*pins = NULL;
	capkm_pool_unlock(pool);
	return rc;
}

const uint64_t *capkm_pool_pins_list(const struct capkm_pool_pins *pins,
				     uint32_t *len)
{
	*len = pins ? pins->len : 0;
	return pins ? pins->handles : NULL;
}

void capkm_pool_pins_put(struct capkm_pool_pins *pins)
{
	struct slice *s;
	uint32_t i;

	if (!pins)
		return;
	if (!capkm_pool_lock(pins->pool, "pool_pins_put", NULL)) {
		for (i = 0; i < pins->len && pins->epoch == pins->pool->epoch;
		     i++) {
			s = pins->slices[i];
			s->graph_pins--;
			capkm_handle_settle(pins->pool, s->user);
		}
		capkm_pool_unlock(pins->pool);
	}
	free(pins->slices);
	free(pins);
}
