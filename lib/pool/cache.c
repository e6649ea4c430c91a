// SPDX-License-Identifier: MIT
/*
 * The metadata cache. Entries stand in a tree (tsearch(3)) by their bytes; those
 * without a pin are in a list too, the most recently used first. What a window
 * pins is a tree of its own, so that an entry is pinned once by each, and it
 * becomes the graph's as it is.
 */
#define _GNU_SOURCE	/* tdestroy() */
#include "../internal.h"

#include <capkm/pool.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

struct cache_entry {
	const void *block;	/* the key; a copy behind the struct */
	uint32_t bytes;
	uint64_t value;
	uint64_t pins;		/* windows and graphs */
	struct capkm_cache *cache;
	TAILQ_ENTRY(cache_entry) in_unpinned;	/* while pins is 0 */
};

/* A window or a graph. */
struct owner {
	struct owner *next;
	uint64_t id;
	void *pins;		/* tree of entries by address */
};

struct capkm_cache {
	struct capkm_cache_opts opts;
	pthread_mutex_t mutex;	/* protects all that follows */
	void *entries;		/* tree by block */
	TAILQ_HEAD(unpinned_list, cache_entry) unpinned;
	uint64_t unpinned_len;
	struct owner *windows, *graphs;
	struct capkm_cache_stats stats;
};

static int by_block(const void *a, const void *b)
{
	const struct cache_entry *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? -1 : 1;
	return x->bytes ? memcmp(x->block, y->block, x->bytes) : 0;
}

static int by_address(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return x < y ? -1 : x > y;
}

/* ---- entries without a pin ---- */

static void list_add(struct cache_entry *e)
{
	TAILQ_INSERT_HEAD(&e->cache->unpinned, e, in_unpinned);
	e->cache->unpinned_len++;
}

static void list_remove(struct cache_entry *e)
{
	TAILQ_REMOVE(&e->cache->unpinned, e, in_unpinned);
	e->cache->unpinned_len--;
}

/* @e, which has no pin, goes. */
static void drop(struct cache_entry *e)
{
	struct capkm_cache *cache = e->cache;

	list_remove(e);
	tdelete(e, &cache->entries, by_block);
	cache->stats.entries--;
	cache->opts.drop(cache->opts.context, e->value);
	free(e);
}

static void drop_down_to(struct capkm_cache *cache, uint64_t len)
{
	while (cache->unpinned_len > len)
		drop(TAILQ_LAST(&cache->unpinned, unpinned_list));
}

/* ---- pins ---- */

static struct owner *take_owner(struct owner **list, uint64_t id)
{
	struct owner *owner;

	for (; (owner = *list); list = &owner->next)
		if (owner->id == id) {
			*list = owner->next;
			return owner;
		}
	return NULL;
}

static void give_owner(struct owner **list, struct owner *owner)
{
	owner->next = *list;
	*list = owner;
}

static int pin(struct owner *owner, struct cache_entry *e)
{
	if (tfind(e, &owner->pins, by_address))
		return 0;
	if (!tsearch(e, &owner->pins, by_address))
		return -ENOMEM;
	if (!e->pins++)
		list_remove(e);
	e->cache->stats.pins++;
	return 0;
}

static int pin_for_window(uint64_t window, struct cache_entry *e)
{
	struct owner **windows = &e->cache->windows;
	struct owner *owner = take_owner(windows, window);
	int rc;

	if (!owner)
		owner = calloc(1, sizeof(*owner));
	if (!owner)
		return -ENOMEM;
	owner->id = window;
	rc = pin(owner, e);
	give_owner(windows, owner);
	return rc;
}

static void unpin(void *entry)
{
	struct cache_entry *e = entry;

	e->cache->stats.pins--;
	if (!--e->pins)
		list_add(e);
}

static void unpin_and_drop(void *entry)
{
	struct cache_entry *e = entry;

	unpin(e);
	if (!e->pins)
		drop(e);
}

static void owner_free(struct owner *owner, void (*let_go)(void *entry))
{
	tdestroy(owner->pins, let_go);
	free(owner);
}

/* ---- the cache ---- */

int capkm_cache_create(const struct capkm_cache_opts *opts,
		       struct capkm_cache **out, struct capkm_error *err)
{
	struct capkm_cache_opts known;
	struct capkm_cache *cache;
	int rc = capkm_opts(&known, sizeof(known), opts, "cache_create", err);

	if (rc)
		return rc;
	if (!known.make || !known.drop)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cache_create: opts.%s is missing; a cache needs make and drop",
			known.make ? "drop" : "make");
	cache = calloc(1, sizeof(*cache));
	if (!cache)
		return capkm_no_memory("cache_create", err);
	cache->opts = known;
	TAILQ_INIT(&cache->unpinned);
	pthread_mutex_init(&cache->mutex, NULL);
	*out = cache;
	return 0;
}

void capkm_cache_destroy(struct capkm_cache *cache)
{
	struct owner *owner;

	if (!cache)
		return;
	while ((owner = cache->windows)) {
		cache->windows = owner->next;
		owner_free(owner, unpin);
	}
	while ((owner = cache->graphs)) {
		cache->graphs = owner->next;
		owner_free(owner, unpin);
	}
	drop_down_to(cache, 0);
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

static struct cache_entry *find(struct capkm_cache *cache, const void *block,
				uint32_t bytes)
{
	const struct cache_entry key = { .block = block, .bytes = bytes };
	struct cache_entry **found = tfind(&key, &cache->entries, by_block);

	return found ? *found : NULL;
}

/* An entry without a pin, the most recently used one. NULL: out of memory. */
static struct cache_entry *add(struct capkm_cache *cache, const void *block,
			       uint32_t bytes, uint64_t value)
{
	struct cache_entry *e = calloc(1, sizeof(*e) + (size_t)bytes);

	if (!e)
		return NULL;
	e->block = bytes ? memcpy(e + 1, block, bytes) : NULL;
	e->bytes = bytes;
	e->value = value;
	e->cache = cache;
	if (!tsearch(e, &cache->entries, by_block)) {
		free(e);
		return NULL;
	}
	list_add(e);
	cache->stats.entries++;
	return e;
}

/* The entry for @value, which was made for the block; takes @value in any case. */
static int keep(struct capkm_cache *cache, uint64_t window, const void *block,
		uint32_t bytes, uint64_t value)
{
	struct cache_entry *e = add(cache, block, bytes, value);

	if (!e) {
		cache->opts.drop(cache->opts.context, value);
		return -ENOMEM;
	}
	if (!window) {
		drop_down_to(cache, cache->opts.entries);
	} else if (pin_for_window(window, e)) {
		drop(e);
		return -ENOMEM;
	}
	return 0;
}

static int hit(struct cache_entry *e, uint64_t window, uint64_t *value)
{
	if (window && pin_for_window(window, e))
		return -ENOMEM;
	if (!e->pins) {
		list_remove(e);
		list_add(e);
	}
	e->cache->stats.hits++;
	*value = e->value;
	return 0;
}

static int get(struct capkm_cache *cache, uint64_t window, const void *block,
	       uint32_t bytes, uint64_t *value, int *kept)
{
	struct cache_entry *e = find(cache, block, bytes);
	uint64_t made;
	int rc;

	if (e) {
		*kept = 1;
		return hit(e, window, value);
	}
	*kept = window || (cache->opts.entries && bytes <= cache->opts.bytes_max);
	rc = cache->opts.make(cache->opts.context, block, bytes, &made);
	if (!rc && *kept)
		rc = keep(cache, window, block, bytes, made);
	if (rc)
		return rc;
	cache->stats.misses++;
	*value = made;
	return 0;
}

int capkm_cache_get(struct capkm_cache *cache, uint64_t window,
		    const void *block, uint32_t bytes, uint64_t *value,
		    int *kept, struct capkm_error *err)
{
	uint64_t got;
	int rc, is_kept;

	pthread_mutex_lock(&cache->mutex);
	rc = get(cache, window, block, bytes, &got, &is_kept);
	pthread_mutex_unlock(&cache->mutex);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"cache_get: no value for a block of %u bytes: %s",
			bytes, strerror(-rc));
	*value = got;
	*kept = is_kept;
	return 0;
}

void capkm_cache_commit(struct capkm_cache *cache, uint64_t window,
			uint64_t graph)
{
	struct owner *owner;

	pthread_mutex_lock(&cache->mutex);
	owner = take_owner(&cache->windows, window);
	if (owner) {
		/* A graph that was updated has several. */
		owner->id = graph;
		give_owner(&cache->graphs, owner);
	}
	pthread_mutex_unlock(&cache->mutex);
}

void capkm_cache_discard(struct capkm_cache *cache, uint64_t window)
{
	struct owner *owner;

	pthread_mutex_lock(&cache->mutex);
	owner = take_owner(&cache->windows, window);
	if (owner)
		owner_free(owner, unpin);
	/* Where nothing is kept outside of windows nobody would trim the list. */
	if (!cache->opts.entries)
		drop_down_to(cache, 0);
	pthread_mutex_unlock(&cache->mutex);
}

void capkm_cache_release(struct capkm_cache *cache, uint64_t graph)
{
	struct owner *owner;

	pthread_mutex_lock(&cache->mutex);
	while ((owner = take_owner(&cache->graphs, graph)))
		owner_free(owner, unpin_and_drop);
	pthread_mutex_unlock(&cache->mutex);
}

void capkm_cache_clear_unpinned(struct capkm_cache *cache)
{
	pthread_mutex_lock(&cache->mutex);
	drop_down_to(cache, 0);
	pthread_mutex_unlock(&cache->mutex);
}

int capkm_cache_query(struct capkm_cache *cache,
		      struct capkm_cache_stats *stats, struct capkm_error *err)
{
	struct capkm_cache_stats known;
	int rc = capkm_opts(&known, sizeof(known), stats, "cache_query", err);

	if (rc)
		return rc;
	pthread_mutex_lock(&cache->mutex);
	known = cache->stats;
	known.pinned = known.entries - cache->unpinned_len;
	pthread_mutex_unlock(&cache->mutex);
	capkm_opts_put(stats, &known, sizeof(known));
	return 0;
}
