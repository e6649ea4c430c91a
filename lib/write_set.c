// SPDX-License-Identifier: MIT
/*
 * The list of what a scope is going to write. A handle keeps one; whoever finds
 * it gone gets a new one, and whoever brings one back that is not needed frees
 * it. So one loop of scopes never allocates, whatever becomes of each of them.
 */
#include "internal.h"

#include <inttypes.h>
#include <stdlib.h>

#define FIRST_CAPACITY	8u

struct capkm_write_set {
	struct capkm *handle;
	struct capkm_claim *claims;
	uint32_t len;
	uint32_t capacity;
};

int capkm_write_set_get(struct capkm *c, struct capkm_write_set **out,
			struct capkm_error *err)
{
	int rc = capkm_not_inherited(c, "write_set_get", err);
	struct capkm_write_set *set;

	if (rc)
		return rc;
	set = atomic_exchange(&c->spare, NULL);
	if (!set) {
		set = calloc(1, sizeof(*set));
		if (!set)
			return capkm_no_memory("write_set_get", err);
		set->handle = c;
	}
	*out = set;
	return 0;
}

/* Doubles; the authority's limit on claims keeps it far from overflow. */
static int grow(struct capkm_write_set *set)
{
	uint32_t capacity = set->capacity ? set->capacity * 2 : FIRST_CAPACITY;
	void *claims = realloc(set->claims, capacity * sizeof(*set->claims));

	if (!claims)
		return -ENOMEM;
	set->claims = claims;
	set->capacity = capacity;
	return 0;
}

int capkm_write_set_add(struct capkm_write_set *set, uint64_t buffer,
			uint64_t start, uint64_t end, struct capkm_error *err)
{
	const uint32_t max = set->handle->info.out_claims_max;
	int rc = capkm_not_inherited(set->handle, "write_set_add", err);

	if (rc)
		return rc;
	if (set->len >= max)
		return capkm_error_set(err, -EMSGSIZE, set->len, 0,
			"write_set_add: a scope takes %" PRIu32 " claims", max);
	if (set->len == set->capacity && grow(set))
		return capkm_error_set(err, -ENOMEM, set->len, 0,
			"write_set_add: out of memory");
	set->claims[set->len++] = (struct capkm_claim){
		.buffer = buffer,
		.start = start,
		.end = end,
	};
	return 0;
}

const struct capkm_claim *
capkm_write_set_claims(const struct capkm_write_set *set, uint32_t *len)
{
	*len = set->len;
	return set->claims;
}

void capkm_write_set_put(struct capkm_write_set *set)
{
	struct capkm_write_set *none = NULL;

	if (!set)
		return;
	set->len = 0;
	if (!atomic_compare_exchange_strong(&set->handle->spare, &none, set))
		capkm_write_set_free(set);
}

void capkm_write_set_free(struct capkm_write_set *set)
{
	if (set)
		free(set->claims);
	free(set);
}
