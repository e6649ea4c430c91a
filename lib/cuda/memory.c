// SPDX-License-Identifier: MIT
/* Device memory: which buffer of the authority an address is in. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY	64u

static uint64_t end_of(const struct region *r)
{
	return r->address + r->bytes;
}

/* The first region that ends above @address. Under the lock, as all of these. */
static uint32_t lower(const struct capkm_cuda *cuda, uint64_t address)
{
	uint32_t low = 0, high = cuda->regions_len;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (end_of(cuda->regions[middle]) > address)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* NULL also for memory that was freed. */
static struct region *at(const struct capkm_cuda *cuda, uint64_t address)
{
	uint32_t i = lower(cuda, address);

	if (i == cuda->regions_len || cuda->regions[i]->address > address ||
	    cuda->regions[i]->dying)
		return NULL;
	return cuda->regions[i];
}

static bool overlaps(const struct capkm_cuda *cuda, uint64_t address,
		     uint64_t bytes)
{
	uint32_t i = lower(cuda, address);

	return i < cuda->regions_len &&
	       cuda->regions[i]->address < address + bytes;
}

static int make_room(struct capkm_cuda *cuda)
{
	uint32_t capacity = cuda->regions_capacity ?
			    cuda->regions_capacity * 2 : FIRST_CAPACITY;
	void *regions;

	if (cuda->regions_len < cuda->regions_capacity)
		return 0;
	regions = realloc(cuda->regions, capacity * sizeof(*cuda->regions));
	if (!regions)
		return -ENOMEM;
	cuda->regions = regions;
	cuda->regions_capacity = capacity;
	return 0;
}

/* -ENOMEM, -EEXIST */
static int insert(struct capkm_cuda *cuda, struct region *r)
{
	uint32_t i;
	int rc = -EEXIST;

	pthread_mutex_lock(&cuda->lock);
	if (!overlaps(cuda, r->address, r->bytes))
		rc = make_room(cuda);
	if (!rc) {
		i = lower(cuda, r->address);
		memmove(&cuda->regions[i + 1], &cuda->regions[i],
			(cuda->regions_len - i) * sizeof(*cuda->regions));
		cuda->regions[i] = r;
		cuda->regions_len++;
	}
	pthread_mutex_unlock(&cuda->lock);
	return rc;
}

static void take_out(struct capkm_cuda *cuda, uint32_t i)
{
	cuda->ended++;
	cuda->regions_len--;
	memmove(&cuda->regions[i], &cuda->regions[i + 1],
		(cuda->regions_len - i) * sizeof(*cuda->regions));
}

static void mark_dying(struct capkm_cuda *cuda, struct region *r)
{
	cuda->ended++;
	r->dying = true;
}

/* Gives the memory back, and the buffer. The region is in no list. */
static void region_free(struct capkm_cuda *cuda, struct region *r)
{
	int mode = capkm_cu_relax(cuda);
	bool pushed = !capkm_cuda_push(cuda, r->context, "cuda_free", NULL);

	if (r->origin == ALLOCATED)
		cu_call(cuda, NULL, "cuda_free", cuMemFree, r->address);
	else if (r->origin == OPENED)
		capkm_ipc_close(cuda, r);
	if (pushed)
		capkm_cuda_pop(cuda);
	capkm_cu_restore(cuda, mode);
	if (r->origin != POOLED)
		capkm_buffer_close(cuda->c, r->buffer, NULL);
	free(r);
}

static int region_new(struct capkm_cuda *cuda, const char *call,
		      struct region **out, struct capkm_error *err)
{
	struct region *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return capkm_no_memory(call, err);
	rc = capkm_cuda_context(cuda, call, &r->context, err);
	if (rc)
		free(r);
	else
		*out = r;
	return rc;
}

static int make_buffer(struct capkm_cuda *cuda, struct region *r,
		       const char *label, uint32_t flags,
		       struct capkm_error *err)
{
	struct capkm_buffer_opts opts = CAPKM_OPTS(struct capkm_buffer_opts,
		.address = r->address, .label = label,
		.flags = flags & CAPKM_CUDA_MEMORY_F_EXPORT ?
			 CAPKM_BUFFER_CREATE_F_EXPORT : 0);

	memcpy(opts.device, r->context->uuid, sizeof(opts.device));
	return capkm_buffer_create(cuda->c, r->bytes, &opts, &r->buffer, err);
}

static int not_added(const struct region *r, int rc, const char *call,
		     struct capkm_error *err)
{
	if (rc == -EEXIST)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: a part of [0x%" PRIx64 ", 0x%" PRIx64 ") is known already",
			call, r->address, end_of(r));
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: out of memory",
			       call);
}

/* Makes it a buffer, and known by its address. */
static int publish(struct capkm_cuda *cuda, struct region *r,
		   const char *label, uint32_t flags, const char *call,
		   struct capkm_error *err)
{
	int rc = make_buffer(cuda, r, label, flags, err);

	if (rc)
		return rc;
	rc = insert(cuda, r);
	if (!rc)
		return 0;
	capkm_buffer_close(cuda->c, r->buffer, NULL);
	return not_added(r, rc, call, err);
}

static int check_flags(uint32_t flags, const char *call,
		       struct capkm_error *err)
{
	if (!(flags & ~CAPKM_CUDA_MEMORY_F_EXPORT))
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: flags 0x%x; only CAPKM_CUDA_MEMORY_F_EXPORT is known",
		call, flags);
}

/*
 * The caller's own windows there hear of memory that no driver records. It is outside of
 * others': and breaks no capture, whatever its mode (capkm_cu_relax()).
 */
static int announce(struct capkm_cuda *cuda, const struct context *context,
		    struct capkm_error *err)
{
	struct capkm_where where = { .flags = CAPKM_WHERE_SLOT };
	const uint64_t own = capkm_stream_current();
	const uint32_t slots = cuda->c->max_streams;
	bool *records = calloc(slots, sizeof(*records));
	struct stream *s;
	uint32_t i;
	int rc = 0;

	if (!records)
		return capkm_no_memory("cuda_alloc", err);
	memcpy(where.device, context->uuid, sizeof(where.device));
	pthread_mutex_lock(&cuda->lock);
	SLIST_FOREACH(s, &cuda->streams, next)
		if (s->window && s->window->begun && s->window->stream == own &&
		    s->context == context && s->window->origin == s)
			records[s->slot] = true;
	pthread_mutex_unlock(&cuda->lock);
	for (i = 0; i < slots && !rc; i++) {
		where.slot = i;
		if (records[i])
			rc = capkm_refused(cuda->c, &where,
					   CAPKM_REFUSE_ALLOCATE, NULL, 0, NULL,
					   err);
	}
	free(records);
	return rc;
}

int capkm_cuda_alloc(struct capkm_cuda *cuda, uint64_t bytes, const char *label,
		     uint32_t flags, uint64_t *address,
		     struct capkm_error *err)
{
	const char *call = "cuda_alloc";
	cu_address given = 0;
	struct region *r;
	int mode, rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = check_flags(flags, call, err);
	if (rc)
		return rc;
	rc = region_new(cuda, call, &r, err);
	if (rc)
		return rc;
	rc = announce(cuda, r->context, err);
	if (!rc) {
		mode = capkm_cu_relax(cuda);
		rc = cu_call(cuda, err, call, cuMemAlloc, &given, bytes);
		capkm_cu_restore(cuda, mode);
	}
	if (rc) {
		free(r);
		return rc;
	}
	r->address = given;
	r->bytes = bytes;
	rc = publish(cuda, r, label, flags, call, err);
	if (rc) {
		mode = capkm_cu_relax(cuda);
		cu_call(cuda, NULL, call, cuMemFree, given);
		capkm_cu_restore(cuda, mode);
		free(r);
		return rc;
	}
	*address = given;
	return 0;
}

/* How many windows and graphs refer to it; 1 if that cannot be known. */
static uint32_t uses_of(struct capkm_cuda *cuda, uint64_t buffer)
{
	struct capkm_buffer_query q = { .size = sizeof(q), .buffer = buffer };

	return capkm_buffer_query(cuda->c, &q, NULL) ? 1 : q.out_uses;
}

static const char *ended_by(int origin)
{
	static const char *const ends[] = {
		[ALLOCATED] = "cuda_free()",
		[ADOPTED] = "cuda_forget()",
		[OPENED] = "cuda_ipc_close()",
		[POOLED] = "its pool",
	};

	return ends[origin];
}

/* The owner's end of the region that begins at @address. */
static int end_region(struct capkm_cuda *cuda, uint64_t address, int origin,
		      const char *call, struct capkm_error *err)
{
	struct region *r;
	int real, rc = capkm_cuda_usable(cuda, call, err);

	if (rc)
		return rc;
	pthread_mutex_lock(&cuda->lock);
	r = at(cuda, address);
	real = r ? (int)r->origin : origin;
	if (!r || r->address != address)
		rc = -ENOENT;
	else if (real != origin)
		rc = -EINVAL;
	else if (origin == ADOPTED)
		take_out(cuda, lower(cuda, address));
	else
		mark_dying(cuda, r);
	pthread_mutex_unlock(&cuda->lock);
	if (rc == -ENOENT)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: no memory begins at 0x%" PRIx64 "; it was freed, or is not known",
			call, address);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: the memory at 0x%" PRIx64 " is given back by %s",
			call, address, ended_by(real));
	/* Its owner frees it, whatever uses it: the address may come again at once. */
	if (origin == ADOPTED)
		region_free(cuda, r);
	else
		capkm_cuda_sweep(cuda);
	return 0;
}

int capkm_cuda_free(struct capkm_cuda *cuda, uint64_t address,
		    struct capkm_error *err)
{
	return end_region(cuda, address, ALLOCATED, "cuda_free", err);
}

int capkm_cuda_ipc_close(struct capkm_cuda *cuda, uint64_t address,
			 struct capkm_error *err)
{
	return end_region(cuda, address, OPENED, "cuda_ipc_close", err);
}

int capkm_cuda_forget(struct capkm_cuda *cuda, uint64_t address,
		      struct capkm_error *err)
{
	return end_region(cuda, address, ADOPTED, "cuda_forget", err);
}

/*
 * The authority is asked without the lock, so it is asked of one after the other, and
 * the region is looked up again: only sweeps take dying ones out.
 */
void capkm_cuda_sweep(struct capkm_cuda *cuda)
{
	uint64_t from = 0;
	struct region *r;
	uint32_t i;

	for (;;) {
		uint64_t buffer, address;

		pthread_mutex_lock(&cuda->lock);
		for (i = lower(cuda, from); i < cuda->regions_len; i++)
			if (cuda->regions[i]->dying)
				break;
		r = i < cuda->regions_len ? cuda->regions[i] : NULL;
		buffer = r ? r->buffer : 0;
		address = r ? r->address : 0;
		from = r ? end_of(r) : 0;
		pthread_mutex_unlock(&cuda->lock);
		if (!buffer)
			return;
		if (uses_of(cuda, buffer))
			continue;
		pthread_mutex_lock(&cuda->lock);
		i = lower(cuda, address);
		r = i < cuda->regions_len ? cuda->regions[i] : NULL;
		if (r && (r->buffer != buffer || !r->dying))
			r = NULL;
		if (r)
			take_out(cuda, i);
		pthread_mutex_unlock(&cuda->lock);
		if (r)
			region_free(cuda, r);
	}
}

static bool is_alive(const struct capkm_cuda *cuda, uint64_t buffer)
{
	uint32_t i;

	for (i = 0; i < cuda->regions_len; i++)
		if (cuda->regions[i]->buffer == buffer &&
		    !cuda->regions[i]->dying)
			return true;
	return false;
}

uint64_t capkm_cuda_find_ended(struct capkm_cuda *cuda, const uint64_t *buffers,
			       uint32_t len, uint64_t *looked)
{
	uint64_t found = 0;
	uint32_t i;

	pthread_mutex_lock(&cuda->lock);
	for (i = 0; *looked != cuda->ended && i < len && !found; i++)
		if (!is_alive(cuda, buffers[i]))
			found = buffers[i];
	if (!found)
		*looked = cuda->ended;
	pthread_mutex_unlock(&cuda->lock);
	return found;
}

/* adopt */

/* One chunk, from @address on; @bytes: at most so many. */
static int adopt_one(struct capkm_cuda *cuda, uint64_t address, uint64_t bytes,
		     const char *label, uint32_t flags,
		     struct capkm_error *err)
{
	const char *call = "cuda_adopt";
	struct region *r;
	int rc = region_new(cuda, call, &r, err);

	if (rc)
		return rc;
	r->origin = ADOPTED;
	r->address = address;
	r->bytes = bytes;
	rc = publish(cuda, r, label, flags, call, err);
	if (rc)
		free(r);
	return rc;
}

static void undo(struct capkm_cuda *cuda, uint64_t from, uint64_t to)
{
	struct region *r;

	while (from < to) {
		pthread_mutex_lock(&cuda->lock);
		r = at(cuda, from);
		pthread_mutex_unlock(&cuda->lock);
		if (!r)
			return;
		from = end_of(r);
		capkm_cuda_forget(cuda, r->address, NULL);
	}
}

/* The driver knows the range of pinned host memory, too. */
static int check_device(struct capkm_cuda *cuda, uint64_t address,
			struct capkm_error *err)
{
	unsigned int type = 0;
	int rc = cu_call(cuda, err, "cuda_adopt", cuPointerGetAttribute, &type,
			 CU_POINTER_MEMORY_TYPE, address);

	if (!rc && type == CU_MEMORY_DEVICE)
		return 0;
	if (rc && rc != -EINVAL)
		return rc;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"cuda_adopt: 0x%" PRIx64 " is not memory of a device", address);
}

int capkm_cuda_adopt(struct capkm_cuda *cuda, uint64_t address, uint64_t bytes,
		     const char *label, uint32_t flags, struct capkm_error *err)
{
	const char *call = "cuda_adopt";
	uint64_t next, end;
	cu_address base;
	size_t size;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = check_flags(flags, call, err);
	if (!rc)
		rc = check_device(cuda, address, err);
	if (!rc)
		rc = cu_call(cuda, err, call, cuMemGetAddressRange, &base, &size,
			     address);
	if (rc)
		return rc;
	next = bytes ? address : base;
	end = bytes ? address + bytes : base + size;
	if (end < next)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: 0x%" PRIx64 " bytes do not fit behind 0x%" PRIx64,
			call, bytes, address);
	while (next < end) {
		uint64_t stop;

		rc = cu_call(cuda, err, call, cuMemGetAddressRange, &base, &size,
			     next);
		stop = base + size < end ? base + size : end;
		if (!rc)
			rc = adopt_one(cuda, next, stop - next, label, flags,
				       err);
		if (rc) {
			undo(cuda, bytes ? address : base, next);
			return rc;
		}
		next = stop;
	}
	return 0;
}

/* claims */

static int unknown(uint64_t address, uint32_t index, const char *call,
		   struct capkm_error *err)
{
	return capkm_error_set(err, -ENOENT, index, 0,
		"%s: the memory at 0x%" PRIx64 " is in no known buffer; cuda_alloc() or cuda_adopt() makes it known",
		call, address);
}

/* Claims of a range from claims[*n] on, as far as @max; *n counts all. */
static int add_claims(struct capkm_cuda *cuda,
		      const struct capkm_cuda_range *range, uint32_t index,
		      const char *call, struct capkm_claim *claims,
		      uint32_t *n, uint32_t max, struct capkm_error *err)
{
	uint64_t next = range->address, end = next + range->bytes;

	if (end < next)
		return capkm_error_set(err, -EINVAL, index, 0,
			"%s: 0x%" PRIx64 " bytes do not fit behind 0x%" PRIx64,
			call, range->bytes, range->address);
	while (next < end) {
		const struct region *r;
		uint64_t stop;

		pthread_mutex_lock(&cuda->lock);
		r = at(cuda, next);
		stop = r && end_of(r) < end ? end_of(r) : end;
		if (r && *n < max)
			claims[*n] = (struct capkm_claim){
				.buffer = r->buffer,
				.start = next - r->address,
				.end = stop - r->address,
			};
		pthread_mutex_unlock(&cuda->lock);
		if (!r)
			return unknown(next, index, call, err);
		++*n;
		next = stop;
	}
	return 0;
}

int capkm_cuda_claims(struct capkm_cuda *cuda,
		      const struct capkm_cuda_range *range,
		      struct capkm_claim *claims, uint32_t *len,
		      struct capkm_error *err)
{
	const char *call = "cuda_claims";
	const uint32_t max = *len;
	uint32_t n = 0;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = add_claims(cuda, range, CAPKM_NO_INDEX, call, claims, &n,
				max, err);
	if (rc)
		return rc;
	*len = n;
	return n <= max ? 0 : capkm_error_set(err, -EMSGSIZE, CAPKM_NO_INDEX, 0,
		"%s: the memory is in %" PRIu32 " buffers, the array has room for %" PRIu32,
		call, n, max);
}

int capkm_cuda_resolve(struct capkm_cuda *cuda,
		       const struct capkm_cuda_range *ranges, uint32_t len,
		       uint32_t index, const char *call, struct claims_of *out,
		       struct capkm_error *err)
{
	uint32_t i, room = CLAIMS_FEW;
	int rc = 0;

	out->claims = out->few;
	for (;;) {
		out->len = 0;
		for (i = 0; i < len && !rc; i++)
			rc = add_claims(cuda, &ranges[i], index + i, call,
					out->claims, &out->len, room, err);
		if (!rc && out->len <= room)
			return 0;
		capkm_cuda_unresolve(out);
		if (rc)
			return rc;
		/* Memory may have been adopted or freed before it is looked at again. */
		room = out->len;
		out->claims = calloc(room, sizeof(*out->claims));
		if (!out->claims)
			return capkm_no_memory(call, err);
	}
}

void capkm_cuda_unresolve(struct claims_of *of)
{
	if (of->claims != of->few)
		free(of->claims);
}

uint64_t capkm_cuda_buffer_at(struct capkm_cuda *cuda, uint64_t address,
			      struct capkm_claim *rest)
{
	const struct region *r;

	pthread_mutex_lock(&cuda->lock);
	r = at(cuda, address);
	if (r)
		*rest = (struct capkm_claim){
			.buffer = r->buffer, .start = address - r->address,
			.end = r->bytes,
		};
	pthread_mutex_unlock(&cuda->lock);
	return r ? r->buffer : 0;
}

int capkm_cuda_add_opened(struct capkm_cuda *cuda, struct region *r,
			  const char *call, struct capkm_error *err)
{
	int rc = insert(cuda, r);

	return rc ? not_added(r, rc, call, err) : 0;
}

/* pools */

/* A pool's page is announced when it is given, and known once it is a buffer. */
struct page_source {
	struct capkm_cuda *cuda;
	struct context *context;
	struct page_source *next;
};

static int give_page(void *context, uint64_t bytes, uint64_t *address)
{
	struct page_source *from = context;
	struct capkm_cuda *cuda = from->cuda;
	cu_address given = 0;
	int mode = capkm_cu_relax(cuda);
	int rc = capkm_cuda_push(cuda, from->context, "pool_alloc", NULL);

	if (!rc) {
		rc = cu_call(cuda, NULL, "pool_alloc", cuMemAlloc, &given,
			     bytes);
		capkm_cuda_pop(cuda);
	}
	capkm_cu_restore(cuda, mode);
	*address = given;
	return rc;
}

static int know_page(void *context, uint64_t address, uint64_t bytes,
		     uint64_t buffer)
{
	struct page_source *from = context;
	struct region *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	*r = (struct region){
		.address = address, .bytes = bytes, .buffer = buffer,
		.context = from->context, .origin = POOLED,
	};
	rc = insert(from->cuda, r);
	if (rc)
		free(r);
	return rc;
}

static void take_page(void *context, uint64_t address, uint64_t bytes)
{
	struct page_source *from = context;
	struct capkm_cuda *cuda = from->cuda;
	struct region *r;
	uint32_t i;
	int mode;

	(void)bytes;
	pthread_mutex_lock(&cuda->lock);
	r = at(cuda, address);
	i = lower(cuda, address);
	if (r && r->origin == POOLED && r->address == address)
		take_out(cuda, i);
	else
		r = NULL;
	pthread_mutex_unlock(&cuda->lock);
	free(r);
	mode = capkm_cu_relax(cuda);
	if (!capkm_cuda_push(cuda, from->context, "pool_cleanup", NULL)) {
		cu_call(cuda, NULL, "pool_cleanup", cuMemFree, address);
		capkm_cuda_pop(cuda);
	}
	capkm_cu_restore(cuda, mode);
}

int capkm_cuda_pool_memory(struct capkm_cuda *cuda,
			   struct capkm_pool_memory *memory,
			   struct capkm_error *err)
{
	const char *call = "cuda_pool_memory";
	struct page_source *from;
	struct context *context;
	int rc = capkm_cuda_usable(cuda, call, err);

	if (!rc)
		rc = capkm_cuda_context(cuda, call, &context, err);
	if (rc)
		return rc;
	from = malloc(sizeof(*from));
	if (!from)
		return capkm_no_memory(call, err);
	*from = (struct page_source){
		.cuda = cuda, .context = context, .next = cuda->sources
	};
	cuda->sources = from;
	*memory = (struct capkm_pool_memory){
		.sz = sizeof(*memory), .alignment = 256, .alloc = give_page,
		.known = know_page, .free = take_page, .context = from,
	};
	memcpy(memory->device, context->uuid, sizeof(memory->device));
	return 0;
}

void capkm_cuda_memory_close(struct capkm_cuda *cuda)
{
	struct page_source *from;

	while (cuda->regions_len)
		region_free(cuda, cuda->regions[--cuda->regions_len]);
	free(cuda->regions);
	while ((from = cuda->sources)) {
		cuda->sources = from->next;
		free(from);
	}
}
