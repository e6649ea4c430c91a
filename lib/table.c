// SPDX-License-Identifier: MIT
#include "table.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

/* An id: tag, generation, index. */
#define INDEX_BITS	24
#define GENERATION_BITS	20
#define TAG_BITS	20
#define NONE		UINT32_MAX
#define FIRST_CAPACITY	16u

static atomic_uint last_tag;

int capkm_table_init(struct table *t)
{
	unsigned int tag = atomic_load(&last_tag);

	do {
		if (tag == (1u << TAG_BITS) - 1)
			return -ENOSPC;
	} while (!atomic_compare_exchange_weak(&last_tag, &tag, tag + 1));
	*t = (struct table){ .first_free = NONE, .tag = tag + 1 };
	return 0;
}

void capkm_table_free(struct table *t)
{
	free(t->entries);
	t->entries = NULL;
}

static int grow(struct table *t)
{
	uint32_t capacity = t->capacity ? t->capacity * 2 : FIRST_CAPACITY;
	void *entries;

	if (capacity > 1u << INDEX_BITS)
		return -ENOSPC;
	entries = realloc(t->entries, capacity * sizeof(*t->entries));
	if (!entries)
		return -ENOMEM;
	t->entries = entries;
	t->capacity = capacity;
	return 0;
}

static uint64_t id_of(const struct table *t, uint32_t index)
{
	return (uint64_t)t->tag << (INDEX_BITS + GENERATION_BITS) |
	       (uint64_t)t->entries[index].generation << INDEX_BITS | index;
}

int capkm_table_add(struct table *t, void *object, uint64_t *id)
{
	uint32_t index = t->first_free;

	if (index != NONE) {
		t->first_free = t->entries[index].next_free;
	} else {
		int rc = t->len == t->capacity ? grow(t) : 0;

		if (rc)
			return rc;
		index = t->len++;
		t->entries[index].generation = 0;
	}
	t->entries[index].object = object;
	t->count++;
	*id = id_of(t, index);
	return 0;
}

static struct table_entry *entry(const struct table *t, uint64_t id)
{
	uint32_t index = id & ((1u << INDEX_BITS) - 1);

	if (index >= t->len || !t->entries[index].object ||
	    id != id_of(t, index))
		return NULL;
	return &t->entries[index];
}

void *capkm_table_find(const struct table *t, uint64_t id)
{
	struct table_entry *e = entry(t, id);

	return e ? e->object : NULL;
}

/* An entry whose generations are used up is never used again. */
void capkm_table_remove(struct table *t, uint64_t id)
{
	struct table_entry *e = entry(t, id);

	if (!e)
		return;
	e->object = NULL;
	t->count--;
	if (++e->generation == 1u << GENERATION_BITS)
		return;
	e->next_free = t->first_free;
	t->first_free = (uint32_t)(e - t->entries);
}

bool capkm_table_is_foreign(const struct table *t, uint64_t id)
{
	return id >> (INDEX_BITS + GENERATION_BITS) != t->tag;
}

void *capkm_table_next(const struct table *t, uint32_t *at)
{
	while (*at < t->len) {
		void *object = t->entries[(*at)++].object;

		if (object)
			return object;
	}
	return NULL;
}
