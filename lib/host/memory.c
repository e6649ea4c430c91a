// SPDX-License-Identifier: MIT
/* Memory of the executor: who refers to it, who uses its bytes, what is told when work is lost. */
#include "host.h"

#include <inttypes.h>
#include <stdlib.h>

void capkm_memory_get(struct memory *m)
{
	m->refs++;
}

void capkm_memory_put(struct memory *m)
{
	if (!--m->refs)
		free(m);
}

/* Nobody needs the bytes any more. Memory that never had any is a buffer of its own. */
static void give_back(struct capkm_host *host, struct memory *m)
{
	if (m->pooled)
		capkm_pool_free(host->pool, m->pooled, NULL);
	else if (m->claim.buffer && !capkm_host_inherited(host))
		capkm_buffer_close(host->c, m->claim.buffer, NULL);
	m->pooled = 0;
	m->claim.buffer = 0;
}

void capkm_memory_use(struct memory *m)
{
	m->uses++;
}

void capkm_memory_unuse(struct capkm_host *host, struct memory *m)
{
	if (!--m->uses && m->freed)
		give_back(host, m);
}

/* The owner's reference goes. */
static void end(struct capkm_host *host, struct memory *m)
{
	capkm_table_remove(&host->memories, m->id);
	m->freed = true;
	if (!m->uses)
		give_back(host, m);
	capkm_memory_put(m);
}

void capkm_memory_reset(struct capkm_host *host)
{
	struct memory *m;
	uint32_t at = 0;

	while ((m = capkm_table_next(&host->memories, &at)))
		end(host, m);
}

static int find_slice(struct capkm_host *host, struct memory *m,
		      struct capkm_error *err)
{
	struct capkm_pool_slice slice = CAPKM_OPTS(struct capkm_pool_slice);
	int rc = capkm_pool_find(host->pool, m->pooled, &slice, err);

	if (rc)
		return rc;
	m->claim = slice.claim;
	m->address = (char *)(uintptr_t)slice.address;
	return 0;
}

/* A buffer without memory, which every check refuses with the reason. */
static int never_allocated(struct capkm_host *host, struct memory *m,
			   uint64_t bytes, int rc, const char *text,
			   struct capkm_error *err)
{
	const struct capkm_buffer_opts opts = CAPKM_OPTS(struct capkm_buffer_opts,
		.flags = CAPKM_BUFFER_CREATE_F_UNALLOCATED,
		.label = "never allocated");
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_IO, .code = rc, .text = text);

	uint64_t buffer;

	rc = capkm_buffer_create(host->c, bytes, &opts, &buffer, err);
	if (rc)
		return rc;
	m->claim = (struct capkm_claim){ .buffer = buffer, .end = bytes };
	/* Without the reason it is refused all the same. */
	capkm_taint(host->c, &m->claim, 1, 0, &cause, NULL, NULL);
	return 0;
}

static int find_bytes(struct capkm_host *host, struct memory *m,
		      uint32_t slot, uint64_t bytes, uint32_t flags,
		      struct capkm_error *err)
{
	struct capkm_error why = CAPKM_OPTS(struct capkm_error);
	int rc = capkm_pool_alloc(host->pool, slot, bytes, &m->pooled, &why);

	if (!rc)
		return find_slice(host, m, err);
	if (flags & CAPKM_HOST_ALLOC_F_LAZY && bytes)
		return never_allocated(host, m, bytes, rc, why.text, err);
	return capkm_error_set(err, rc, why.index, why.failure, "%s", why.text);
}

static int alloc(struct capkm_host *host, struct slot *slot, uint64_t bytes,
		 uint32_t flags, uint64_t *memory, struct capkm_error *err)
{
	struct memory *m = calloc(1, sizeof(*m) + host->slots_len *
				  sizeof(m->read[0]));
	int rc;

	if (!m)
		return capkm_no_memory("host_alloc", err);
	m->refs = 1;
	rc = find_bytes(host, m, slot->index, bytes, flags, err);
	if (!rc) {
		rc = capkm_table_add(&host->memories, m, &m->id);
		if (rc)
			capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
				"host_alloc: no room for another id");
	}
	if (rc) {
		give_back(host, m);
		free(m);
		return rc;
	}
	*memory = m->id;
	return 0;
}

int capkm_host_alloc(struct capkm_host *host, uint64_t stream, uint64_t bytes,
		     uint32_t flags, uint64_t *memory, struct capkm_error *err)
{
	struct slot *slot;
	int rc;

	if (flags & ~CAPKM_HOST_ALLOC_F_LAZY)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"host_alloc: flags 0x%x; only CAPKM_HOST_ALLOC_F_LAZY is known",
			flags);
	rc = capkm_host_enter(host, "host_alloc", err);
	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_alloc", &stream, &slot, err);
	if (!rc)
		rc = alloc(host, slot, bytes, flags, memory, err);
	capkm_host_leave(host);
	return rc;
}

static int find(struct capkm_host *host, uint64_t id, const char *call,
		uint32_t index, struct memory **out, struct capkm_error *err)
{
	*out = capkm_table_find(&host->memories, id);
	if (*out)
		return 0;
	return capkm_host_unknown(&host->memories, id, call, "memory", index,
				  err);
}

int capkm_host_free(struct capkm_host *host, uint64_t memory,
		    struct capkm_error *err)
{
	struct memory *m;
	int rc = capkm_host_enter(host, "host_free", err);

	if (rc)
		return rc;
	rc = find(host, memory, "host_free", CAPKM_NO_INDEX, &m, err);
	if (!rc)
		end(host, m);
	capkm_host_leave(host);
	return rc;
}

int capkm_memory_range(struct capkm_host *host, struct capkm_host_range *range,
		       const char *call, uint32_t index, struct memory **out,
		       struct capkm_error *err)
{
	uint64_t size;
	int rc = find(host, range->memory, call, index, out, err);

	if (rc)
		return rc;
	size = (*out)->claim.end - (*out)->claim.start;
	if (!range->start && !range->end)
		range->end = size;
	if (range->start > range->end || range->end > size)
		return capkm_error_set(err, -EINVAL, index, 0,
			"%s: [%" PRIu64 ", %" PRIu64 ") is not a range of memory %" PRIu64 ", which has %" PRIu64 " bytes",
			call, range->start, range->end, range->memory, size);
	return 0;
}

struct capkm_claim capkm_memory_claim(const struct memory *m,
				      const struct capkm_host_range *range)
{
	return (struct capkm_claim){
		.buffer = m->claim.buffer,
		.start = m->claim.start + range->start,
		.end = m->claim.start + range->end,
	};
}

int capkm_host_find(struct capkm_host *host,
		    const struct capkm_host_range *range,
		    struct capkm_claim *claim, struct capkm_error *err)
{
	struct capkm_host_range r = *range;
	struct memory *m;
	int rc = capkm_host_enter(host, "host_find", err);

	if (rc)
		return rc;
	rc = capkm_memory_range(host, &r, "host_find", CAPKM_NO_INDEX, &m, err);
	if (!rc)
		*claim = capkm_memory_claim(m, &r);
	capkm_host_leave(host);
	return rc;
}

/*
 * Nothing on the host can be trusted. A fault needs no memory, for the authority knows
 * the slot; but a second one in a row would change nothing, also not for memory that is
 * new since the first, and the renewal before it may fail. The epoch tells. Under the lock.
 */
static void fault_all(struct capkm_host *host, uint32_t slot,
		      const struct capkm_cause *cause)
{
	const struct capkm_where where = {
		.slot = slot, .flags = CAPKM_WHERE_SLOT
	};
	uint64_t epoch = host->epoch;
	int rc;

	capkm_context_renew(host->c, where.device, NULL, NULL);
	rc = capkm_stream_fault(host->c, &where, cause, NULL, &epoch, NULL);
	/* A domain that is gone says nothing clean any more. */
	host->untold = rc != -ECANCELED && (rc || epoch == host->epoch);
	host->untold_slot = slot;
	host->epoch = epoch;
}

int capkm_host_tell(struct capkm_host *host, const char *call,
		    struct capkm_error *err)
{
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.text = "work was lost that the authority could not be told of");

	if (host->untold)
		fault_all(host, host->untold_slot, &cause);
	return host->untold ? capkm_error_set(err, -EIO, CAPKM_NO_INDEX, 0,
		"%s: work was lost, and the authority has no memory to be told of it; try again later",
		call) : 0;
}

/* Work could not be entered, so it has not run. */
void capkm_host_lost(struct slot *slot, const struct capkm_claim *claims,
		     uint32_t len, int rc, const char *text)
{
	struct capkm_host *host = slot->host;
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_LAUNCH, .code = rc, .text = text);

	if (!capkm_taint(host->c, claims, len, 0, &cause, NULL, NULL))
		return;
	pthread_mutex_lock(&host->lock);
	fault_all(host, slot->index, &cause);
	pthread_mutex_unlock(&host->lock);
}

int capkm_host_cleanup(struct capkm_host *host, uint64_t stream,
		       struct capkm_error *err)
{
	struct slot *slot;
	int rc = capkm_host_enter(host, "host_cleanup", err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_cleanup", &stream, &slot, err);
	if (!rc && !slot->recording) {
		capkm_cache_clear_unpinned(host->cache);
		rc = capkm_pool_cleanup(host->metadata, slot->index, err);
		if (!rc)
			rc = capkm_pool_cleanup(host->pool, slot->index, err);
	}
	capkm_host_leave(host);
	return rc;
}

int capkm_host_memory_query(struct capkm_host *host, uint64_t stream,
			    struct capkm_pool_stats *stats,
			    struct capkm_error *err)
{
	struct slot *slot;
	int rc = capkm_host_enter(host, "host_memory_query", err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_memory_query", &stream, &slot, err);
	if (!rc)
		rc = capkm_pool_query(host->pool, slot->index, stats, err);
	capkm_host_leave(host);
	return rc;
}
