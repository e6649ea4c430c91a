/* SPDX-License-Identifier: MIT */
/*
 * Ids of the library's own objects. An id names its table, its entry, and which
 * user of the entry it was: a stale id is not found, and one of another table is
 * told from one that never was. The caller locks.
 */
#ifndef CAPKM_LIB_TABLE_H
#define CAPKM_LIB_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct table_entry {
	void *object;		/* NULL: free */
	uint32_t generation;	/* of the present or the next user */
	uint32_t next_free;
};

struct table {
	struct table_entry *entries;
	uint32_t len, capacity;
	uint32_t first_free;
	uint32_t tag;
	uint64_t count;		/* objects */
};

/* 0; -ENOSPC: this process has used up the tags. */
int capkm_table_init(struct table *t);
void capkm_table_free(struct table *t);
/* 0; -ENOMEM, -ENOSPC. The id is not 0. */
int capkm_table_add(struct table *t, void *object, uint64_t *id);
/* NULL: stale, or another table's. */
void *capkm_table_find(const struct table *t, uint64_t id);
void capkm_table_remove(struct table *t, uint64_t id);
/* Is it an id of another table? */
bool capkm_table_is_foreign(const struct table *t, uint64_t id);
/* The next object at or after entry *@at, which moves behind it; NULL at the end. */
void *capkm_table_next(const struct table *t, uint32_t *at);

#endif /* CAPKM_LIB_TABLE_H */
