// SPDX-License-Identifier: MIT
/* The executor as a whole: its making and end, its slots, what every call begins with. */
#include "host.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_MAX	1024u
#define CACHE_ENTRIES	512u
#define METADATA_PAGE	(64ull << 10)

bool capkm_host_inherited(const struct capkm_host *host)
{
	return capkm_inherited(host->c) ||
	       host->c->generation != host->generation;
}

int capkm_host_enter(struct capkm_host *host, const char *call,
		     struct capkm_error *err)
{
	if (capkm_host_inherited(host))
		return capkm_error_set(err, -ECANCELED, CAPKM_NO_INDEX, 0,
			"%s: the executor was inherited through fork and belongs to the parent; make one in this process",
			call);
	if (capkm_host_is_inside(host))
		return capkm_error_set(err, -EDEADLK, CAPKM_NO_INDEX, 0,
			"%s: called by a function that the executor runs; it would wait for itself",
			call);
	pthread_mutex_lock(&host->lock);
	return 0;
}

void capkm_host_leave(struct capkm_host *host)
{
	pthread_mutex_unlock(&host->lock);
}

struct capkm_where capkm_host_where(uint64_t stream)
{
	return (struct capkm_where){ .stream = stream };
}

int capkm_host_unknown(const struct table *t, uint64_t id, const char *call,
		       const char *what, uint32_t index,
		       struct capkm_error *err)
{
	if (id && capkm_table_is_foreign(t, id))
		return capkm_error_set(err, -EXDEV, index, 0,
			"%s: %" PRIu64 " is not a %s of this executor",
			call, id, what);
	return capkm_error_set(err, -ENOENT, index, 0,
		"%s: there is no %s %" PRIu64 "; it was freed or destroyed, or never made",
		call, what, id);
}

int capkm_host_no_thread(int rc, const char *call, struct capkm_error *err)
{
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"%s: no thread could be started for work that it has to wait for",
		call);
}

/* A fence of the drop queue is a position. */
static int fence(void *context, uint64_t *position)
{
	struct slot *slot = context;

	pthread_mutex_lock(&slot->host->lock);
	*position = slot->issued;
	pthread_mutex_unlock(&slot->host->lock);
	return 0;
}

static int wait_fence(void *context, uint64_t position)
{
	struct slot *slot = context;
	int rc;

	pthread_mutex_lock(&slot->host->lock);
	rc = capkm_slot_wait(slot->host, (struct mark){ slot->index, position });
	pthread_mutex_unlock(&slot->host->lock);
	return rc;
}

/*
 * The authority gets to know the slot: from then on it can be told of a fault there
 * whatever else fails, see capkm_host_lost().
 */
static int introduce(struct capkm *c, uint64_t stream, struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	struct capkm_scope scope;
	int rc = capkm_scope_enter(c, &where, NULL, 0, NULL, 0, NULL, &scope,
				   NULL, err);

	return rc ? rc : capkm_scope_exit(c, &scope, CAPKM_SCOPE_EXIT_F_COMPLETE,
					  err);
}

static struct slot *slot_new(struct capkm_host *host, uint32_t index,
			     struct capkm_error *err)
{
	struct slot *slot = calloc(1, sizeof(*slot));
	const struct capkm_drop_opts drops = CAPKM_OPTS(struct capkm_drop_opts,
		.fence = fence, .wait = wait_fence, .context = slot);

	if (!slot || capkm_drop_create(&drops, &slot->drops, err)) {
		free(slot);
		return NULL;
	}
	slot->host = host;
	slot->index = index;
	slot->last = &slot->first;
	pthread_cond_init(&slot->work, NULL);
	return slot;
}

/* A stream of STREAM_CREATE may be another session's, or gone. */
static int check_stream(struct capkm *c, uint64_t stream,
			struct capkm_error *err)
{
	struct capkm_stream_query q = {
		.size = sizeof(q), .place.stream = stream
	};

	return stream < CAPKM_STREAM_FIRST ? 0 : capkm_stream_query(c, &q, err);
}

int capkm_host_slot(struct capkm_host *host, const char *call, uint64_t *stream,
		    struct slot **out, struct capkm_error *err)
{
	struct slot *slot;
	uint32_t index;
	int rc;

	if (!*stream)
		*stream = capkm_stream_current();
	rc = capkm_host_tell(host, call, err);
	if (rc)
		return rc;
	rc = check_stream(host->c, *stream, err);
	if (rc)
		return rc;
	index = *stream % host->slots_len;
	slot = host->slots[index];
	if (!slot) {
		rc = introduce(host->c, *stream, err);
		if (rc)
			return rc;
		slot = slot_new(host, index, err);
		if (!slot)
			return capkm_no_memory(call, err);
		host->slots[index] = slot;
	}
	rc = capkm_slot_start(slot);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: no thread could be started for slot %" PRIu32,
			call, index);
	*out = slot;
	return 0;
}

static int make_metadata(void *context, const void *block, uint32_t bytes,
			 uint64_t *value)
{
	struct capkm_host *host = context;
	struct capkm_pool_slice slice = CAPKM_OPTS(struct capkm_pool_slice);
	int rc = capkm_pool_alloc(host->metadata, host->making, bytes, value,
				  NULL);

	if (rc)
		return rc;
	rc = capkm_pool_find(host->metadata, *value, &slice, NULL);
	if (rc) {
		capkm_pool_free(host->metadata, *value, NULL);
		return rc;
	}
	memcpy((void *)(uintptr_t)slice.address, block, bytes);
	return 0;
}

static void drop_metadata(void *context, uint64_t value)
{
	struct capkm_host *host = context;

	capkm_pool_free(host->metadata, value, NULL);
}

static int make_pools(struct capkm_host *host,
		      const struct capkm_host_opts *o, struct capkm_error *err)
{
	static const struct capkm_pool_area metadata[] = {
		{ .kind = CAPKM_POOL_SLICED, .page_bytes = METADATA_PAGE },
		{ .kind = CAPKM_POOL_DIRECT },
	};
	const struct capkm_pool_opts device = CAPKM_OPTS(struct capkm_pool_opts,
		.areas = o->areas, .areas_len = o->areas_len,
		.preset = o->preset, .slots = host->slots_len,
		.label = "host memory");
	const struct capkm_pool_opts small = CAPKM_OPTS(struct capkm_pool_opts,
		.areas = metadata, .areas_len = 2, .slots = host->slots_len,
		.label = "host metadata");
	const struct capkm_cache_opts cache = CAPKM_OPTS(struct capkm_cache_opts,
		.entries = o->cache_entries == CAPKM_HOST_NO_CACHE ? 0 :
			   o->cache_entries ? o->cache_entries : CACHE_ENTRIES,
		.bytes_max = o->cache_bytes ? o->cache_bytes :
					      CAPKM_CACHE_BYTES_MAX,
		.make = make_metadata, .drop = drop_metadata, .context = host);
	int rc = capkm_pool_create(host->c, capkm_pool_host_memory(), &device,
				   &host->pool, err);

	if (!rc)
		rc = capkm_pool_create(host->c, capkm_pool_host_memory(), &small,
				       &host->metadata, err);
	if (!rc)
		rc = capkm_cache_create(&cache, &host->cache, err);
	return rc;
}

/* Of what has no threads, queues, windows any more, or never had. */
static void host_free(struct capkm_host *host)
{
	capkm_cache_destroy(host->cache);
	capkm_pool_destroy(host->metadata);
	capkm_pool_destroy(host->pool);
	capkm_table_free(&host->memories);
	capkm_table_free(&host->kernels);
	capkm_table_free(&host->graphs);
	atomic_store(&host->c->has_executor, false);
	free(host);
}

static int check_handle(struct capkm *c, struct capkm_error *err)
{
	int rc = capkm_not_inherited(c, "host_create", err);

	if (rc)
		return rc;
	if (!capkm_domain_id(c))
		return capkm_error_set(err, -ENOTCONN, CAPKM_NO_INDEX, 0,
			"host_create: the handle is not attached to a domain");
	if (atomic_load(&c->backend) != CAPKM_BACKEND_SOFTWARE)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"host_create: the session was attached for another kind of backend; attach one with CAPKM_BACKEND_SOFTWARE");
	if (atomic_exchange(&c->has_executor, true))
		return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0,
			"host_create: the handle has an executor already");
	return 0;
}

int capkm_host_create(struct capkm *c, const struct capkm_host_opts *opts,
		      struct capkm_host **out, struct capkm_error *err)
{
	struct capkm_host_opts o;
	struct capkm_host *host;
	uint32_t slots;
	int rc = capkm_opts(&o, sizeof(o), opts, "host_create", err);

	if (rc)
		return rc;
	if (o.flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"host_create: flags must be 0");
	rc = check_handle(c, err);
	if (rc)
		return rc;
	slots = atomic_load(&c->max_streams);
	host = calloc(1, sizeof(*host) + slots * sizeof(host->slots[0]));
	if (!host) {
		atomic_store(&c->has_executor, false);
		return capkm_no_memory("host_create", err);
	}
	host->c = c;
	host->generation = c->generation;
	host->slots_len = slots;
	host->queue_max = o.queue_max ? o.queue_max : QUEUE_MAX;
	pthread_mutex_init(&host->lock, NULL);
	pthread_cond_init(&host->progress, NULL);
	if (capkm_table_init(&host->memories) ||
	    capkm_table_init(&host->kernels) ||
	    capkm_table_init(&host->graphs))
		rc = capkm_error_set(err, -ENOSPC, CAPKM_NO_INDEX, 0,
			"host_create: this process has made too many executors");
	if (!rc)
		rc = make_pools(host, &o, err);
	if (rc) {
		host_free(host);
		return rc;
	}
	*out = host;
	return 0;
}

/* Runs what is queued and ends the threads. One that has none gets one for it. */
static void stop(struct capkm_host *host)
{
	uint32_t i;

	pthread_mutex_lock(&host->lock);
	for (i = 0; i < host->slots_len; i++)
		while (host->slots[i] && capkm_slot_drain(host->slots[i]))
			capkm_host_pause(host);
	host->stopping = true;
	for (i = 0; i < host->slots_len; i++)
		if (host->slots[i])
			pthread_cond_signal(&host->slots[i]->work);
	pthread_mutex_unlock(&host->lock);
	for (i = 0; i < host->slots_len; i++)
		if (host->slots[i] && host->slots[i]->running)
			pthread_join(host->slots[i]->thread, NULL);
}

static void abort_windows(struct capkm_host *host)
{
	uint32_t i;

	for (i = 0; i < host->slots_len; i++)
		if (host->slots[i] && capkm_slot_is_origin(host->slots[i]))
			capkm_recording_give_up(host->slots[i]);
}

static void slot_free(struct capkm_host *host, struct slot *slot)
{
	while (slot->first) {
		struct task *task = slot->first;

		slot->first = task->next;
		capkm_task_free(host, task);
	}
	capkm_drop_destroy(slot->drops);
	/* A child's would wait for threads that wait in the parent. */
	if (!capkm_host_inherited(host))
		pthread_cond_destroy(&slot->work);
	free(slot);
}

/*
 * In a forked child there are no threads, and whoever held the lock is not there
 * to release it: nothing is locked, and the authority answers -ECANCELED.
 */
void capkm_host_destroy(struct capkm_host *host)
{
	uint32_t i, at;
	struct graph *g;
	struct kernel *k;

	if (!host || capkm_host_is_inside(host))
		return;
	if (!capkm_host_inherited(host))
		stop(host);
	abort_windows(host);
	for (i = 0; i < host->slots_len; i++)
		if (host->slots[i])
			slot_free(host, host->slots[i]);
	for (at = 0; (g = capkm_table_next(&host->graphs, &at));)
		capkm_graph_put(host, g);
	for (at = 0; (k = capkm_table_next(&host->kernels, &at));)
		capkm_kernel_put(k);
	capkm_memory_reset(host);
	if (!capkm_host_inherited(host)) {
		pthread_mutex_destroy(&host->lock);
		pthread_cond_destroy(&host->progress);
	}
	host_free(host);
}

int capkm_host_reset(struct capkm_host *host, struct capkm_error *err)
{
	int rc = capkm_host_enter(host, "host_reset", err);
	uint32_t i;

	if (rc)
		return rc;
	/* Whoever issues meanwhile makes it begin again. */
	for (i = 0; i < host->slots_len && !rc; i++) {
		struct slot *slot = host->slots[i];

		if (!slot || slot->done == slot->issued)
			continue;
		rc = capkm_slot_drain(slot);
		i = UINT32_MAX;
	}
	if (rc) {
		capkm_host_leave(host);
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"host_reset: a slot has work and no thread could be started for it");
	}
	abort_windows(host);
	capkm_memory_reset(host);
	rc = capkm_pool_reset(host->pool, err);
	capkm_host_leave(host);
	return rc;
}

int capkm_host_query(struct capkm_host *host, struct capkm_host_stats *stats,
		     struct capkm_error *err)
{
	struct capkm_host_stats s;
	uint32_t i;
	int rc = capkm_opts(&s, sizeof(s), stats, "host_query", err);

	if (!rc)
		rc = capkm_host_enter(host, "host_query", err);
	if (rc)
		return rc;
	s = (struct capkm_host_stats){
		.graphs = host->graphs.count, .ran = host->ran
	};
	for (i = 0; i < host->slots_len; i++) {
		struct slot *slot = host->slots[i];
		uint64_t staged, pending;

		if (!slot)
			continue;
		if (capkm_slot_is_origin(slot))
			*(slot->recording->begun ? &s.recording : &s.prepared) += 1;
		s.queued += slot->issued - slot->done;
		s.failed += slot->failed;
		s.skipped += slot->skipped;
		s.threads += slot->running;
		capkm_drop_count(slot->drops, &staged, &pending);
		s.staged += staged + pending;
	}
	capkm_host_leave(host);
	capkm_opts_put(stats, &s, sizeof(s));
	return 0;
}
