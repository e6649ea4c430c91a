// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory. That of a device is a file, mapped page by page as it is allocated, with pages
 * between that nobody may touch: work that uses what was freed crashes, and another
 * process can map the same bytes.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE		4096ull
#define DEVICE_BYTES	(4ull << 30)
#define DEVICES_MAX	8
#define GRANULARITY	(2ull << 20)
#define GARBAGE_MAX	(1ull << 20)

struct arena {
	int fd;
	cu_address base;
};
static struct arena arenas[DEVICES_MAX];

/* By address. */
static SLIST_HEAD(, chunk) chunks = SLIST_HEAD_INITIALIZER(chunks);

static void *pointer(cu_address address)
{
	return (void *)(uintptr_t)address;
}

static size_t pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

struct chunk *chunk_at(cu_address address)
{
	struct chunk *c;

	SLIST_FOREACH(c, &chunks, next)
		if (c->address <= address && address < c->address + c->bytes)
			break;
	return c;
}

bool on_device(cu_address address)
{
	struct chunk *c = chunk_at(address);

	return c && c->kind != PINNED;
}

static struct chunk *chunk_add(cu_context context, cu_address address,
			       size_t bytes, enum kind kind)
{
	struct chunk *c = calloc(1, sizeof(*c)), *after = NULL, *i;

	*c = (struct chunk){
		.address = address, .bytes = bytes, .kind = kind,
		.context = context,
	};
	SLIST_FOREACH(i, &chunks, next)
		if (i->address < address)
			after = i;
	if (after)
		SLIST_INSERT_AFTER(after, c, next);
	else
		SLIST_INSERT_HEAD(&chunks, c, next);
	return c;
}

static void chunk_remove(struct chunk *c)
{
	SLIST_REMOVE(&chunks, c, chunk, next);
	free(c);
}

/* device memory */

static int arena_of(int device, struct arena **out)
{
	struct arena *a = &arenas[device];
	void *base;

	*out = a;
	if (a->base)
		return 0;
	a->fd = memfd_create("stand-in device", MFD_CLOEXEC);
	if (a->fd < 0 || ftruncate(a->fd, DEVICE_BYTES))
		return CU_OUT_OF_MEMORY;
	base = mmap(NULL, DEVICE_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE,
		    a->fd, 0);
	if (base == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	a->base = (uintptr_t)base;
	return 0;
}

/* The first place that is large enough, with a page to spare; 0 if there is none. */
static cu_address find_room(const struct arena *a, size_t bytes)
{
	cu_address at = a->base;
	struct chunk *c;

	SLIST_FOREACH(c, &chunks, next) {
		if (c->address < a->base)
			continue;
		if (c->address >= a->base + DEVICE_BYTES ||
		    c->address - at >= bytes + PAGE)
			break;
		at = c->address + pages(c->bytes) + PAGE;
	}
	return at + bytes + PAGE <= a->base + DEVICE_BYTES ? at : 0;
}

static void open_pages(const struct chunk *c)
{
	const size_t n = pages(c->bytes);

	mprotect(pointer(c->address), n, PROT_READ | PROT_WRITE);
	/* New memory holds anything. */
	if (n <= GARBAGE_MAX)
		memset(pointer(c->address), 0xcd, n);
}

static void close_pages(const struct chunk *c)
{
	const struct arena *a = &arenas[c->context->device];

	mprotect(pointer(c->address), pages(c->bytes), PROT_NONE);
	fallocate(a->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  c->address - a->base, pages(c->bytes));
}

static int device_alloc(cu_context context, size_t bytes, enum kind kind,
			struct chunk **out)
{
	struct arena *a;
	cu_address at;
	int rc = bytes ? arena_of(context->device, &a) : CU_INVALID_VALUE;

	if (rc)
		return rc;
	at = bytes < DEVICE_BYTES ? find_room(a, pages(bytes)) : 0;
	if (!at)
		return CU_OUT_OF_MEMORY;
	*out = chunk_add(context, at, bytes, kind);
	if (kind != ABSENT)
		open_pages(*out);
	return 0;
}

static void device_free(struct chunk *c)
{
	if (c->kind != ABSENT)
		close_pages(c);
	if (c->of_graph && c->kind != ABSENT)
		c->kind = ABSENT;
	else
		chunk_remove(c);
}

static struct chunk *begins_at(cu_address address, unsigned int kinds)
{
	struct chunk *c = chunk_at(address);

	return c && c->address == address && kinds & 1u << c->kind ? c : NULL;
}

CALL(cuMemAlloc, (cu_address *address, size_t bytes), (address, bytes))
{
	cu_context context;
	struct chunk *c;
	int rc = need_context(&context);

	if (!rc)
		rc = unsafe("cuMemAlloc");
	if (!rc)
		rc = device_alloc(context, bytes, DEVICE, &c);
	if (!rc)
		*address = c->address;
	return rc;
}

/* Waits for all that may use it. */
CALL(cuMemFree, (cu_address address), (address))
{
	struct chunk *c;
	int rc = unsafe("cuMemFree");

	if (rc || !address)
		return rc;
	c = begins_at(address, 1u << DEVICE | 1u << ASYNC | 1u << ABSENT);
	if (!c || (c->kind == ABSENT && !c->held))
		return CU_INVALID_VALUE;
	rc = c->context->lost ? c->context->lost : drain(c->context);
	c = rc ? NULL : begins_at(address, 1u << DEVICE | 1u << ASYNC);
	if (c) {
		c->held = false;
		device_free(c);
	}
	return rc;
}

CALL(cuMemAllocAsync, (cu_address *address, size_t bytes, cu_stream stream),
     (address, bytes, stream))
{
	struct action a = { .type = CU_NODE_MEM_ALLOC };
	struct stream *s;
	struct chunk *c;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = s->capture ? 0 : unsafe("cuMemAllocAsync");
	if (!rc)
		rc = device_alloc(s->context, bytes, s->capture ? ABSENT : ASYNC,
				  &c);
	if (rc)
		return rc;
	*address = c->address;
	if (!s->capture)
		return 0;
	c->of_graph = true;
	a.address = c->address;
	return issue(s, &a, "cuMemAllocAsync");
}

CALL(cuMemFreeAsync, (cu_address address, cu_stream stream), (address, stream))
{
	struct action a = { .type = CU_NODE_MEM_FREE };
	struct stream *s;
	struct chunk *c;
	int rc = stream_of(stream, &s);

	if (!rc && !s->capture)
		rc = unsafe("cuMemFreeAsync");
	if (rc)
		return rc;
	c = begins_at(address, 1u << DEVICE | 1u << ASYNC | 1u << ABSENT);
	if (!c || (c->kind == ABSENT && !s->capture && !c->held))
		return CU_INVALID_VALUE;
	if (!s->capture)
		c->held = false;
	a.address = address;
	return issue(s, &a, "cuMemFreeAsync");
}

int run_alloc(cu_address address)
{
	struct chunk *c;

	pthread_mutex_lock(&lock);
	c = chunk_at(address);
	if (c && c->kind == ABSENT) {
		c->kind = ASYNC;
		open_pages(c);
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

int run_free(cu_address address)
{
	struct chunk *c;

	pthread_mutex_lock(&lock);
	c = begins_at(address, 1u << DEVICE | 1u << ASYNC);
	if (c)
		device_free(c);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* host memory */

CALL(cuMemAllocHost, (void **address, size_t bytes), (address, bytes))
{
	cu_context context;
	int rc = need_context(&context);

	if (!rc)
		rc = unsafe("cuMemAllocHost");
	if (rc)
		return rc;
	*address = aligned_alloc(PAGE, pages(bytes));
	if (!*address)
		return CU_OUT_OF_MEMORY;
	chunk_add(context, (uintptr_t)*address, bytes, PINNED);
	return 0;
}

CALL(cuMemFreeHost, (void *address), (address))
{
	struct chunk *c = begins_at((uintptr_t)address, 1u << PINNED);
	int rc = c ? unsafe("cuMemFreeHost") : CU_INVALID_VALUE;

	if (rc)
		return rc;
	rc = drain(c->context);
	chunk_remove(c);
	free(address);
	return rc;
}

/* what there is */

struct reservation {
	SLIST_ENTRY(reservation) next;
	cu_address address;
	size_t bytes;
};
static SLIST_HEAD(, reservation) reservations =
	SLIST_HEAD_INITIALIZER(reservations);

CALL(cuMemGetAddressRange, (cu_address *base, size_t *bytes, cu_address address),
     (base, bytes, address))
{
	struct chunk *c = chunk_at(address);

	if (!c || c->kind == ABSENT)
		return NOT_FOUND;
	if (base)
		*base = c->address;
	if (bytes)
		*bytes = c->bytes;
	return 0;
}

/* A reservation is one range, however many chunks are mapped in it. */
static void range_of(const struct chunk *c, cu_address *start, size_t *bytes)
{
	struct reservation *r;

	*start = c->address;
	*bytes = c->bytes;
	SLIST_FOREACH(r, &reservations, next)
		if (r->address <= c->address &&
		    c->address < r->address + r->bytes) {
			*start = r->address;
			*bytes = r->bytes;
		}
}

static int attribute(const struct chunk *c, void *value, int attribute)
{
	cu_address start;
	size_t bytes;

	range_of(c, &start, &bytes);
	static int pool;	/* its address stands for one */

	switch (attribute) {
	case CU_POINTER_CONTEXT:
		*(cu_context *)value = c->context;
		return 0;
	case CU_POINTER_MEMORY_TYPE:
		*(unsigned int *)value = c->kind == PINNED ? CU_MEMORY_HOST :
							     CU_MEMORY_DEVICE;
		return 0;
	case CU_POINTER_DEVICE_ORDINAL:
		*(int *)value = c->context->device;
		return 0;
	case CU_POINTER_IS_LEGACY_IPC:
		*(unsigned int *)value = c->kind == DEVICE;
		return 0;
	case CU_POINTER_RANGE_START:
		*(cu_address *)value = start;
		return 0;
	case CU_POINTER_RANGE_SIZE:
		*(size_t *)value = bytes;
		return 0;
	case CU_POINTER_MEMPOOL:
		*(void **)value = c->kind == ASYNC ? &pool : NULL;
		return 0;
	default:
		return CU_INVALID_VALUE;
	}
}

CALL(cuPointerGetAttribute, (void *value, int what, cu_address address),
     (value, what, address))
{
	struct chunk *c = chunk_at(address);

	return c ? attribute(c, value, what) : CU_INVALID_VALUE;
}

/* copies and sets */

static bool is_pageable(cu_address address)
{
	return !chunk_at(address);
}

/*
 * Pageable memory is read when the copy is issued, and has been written when the call
 * comes back; but what is captured keeps the address for each replay.
 */
static int copy(cu_address to, cu_address from, size_t bytes, cu_stream stream,
		bool unified, const char *name)
{
	struct action a = { .type = CU_NODE_MEMCPY };
	struct stream *s;
	bool captured;
	int rc = stream_of(stream, &s);

	if (rc || !bytes)
		return rc;
	captured = s->capture;
	a.copy.to = to;
	a.copy.from = from;
	a.copy.bytes = bytes;
	a.copy.unified = unified;
	if (!captured && is_pageable(from)) {
		a.copy.staged = malloc(bytes);
		memcpy(a.copy.staged, pointer(from), bytes);
	}
	rc = issue(s, &a, name);
	if (rc || captured || !is_pageable(to))
		return rc;
	wait_for(s, s->queued);
	return know(s->context);
}

CALL(cuMemcpyAsync, (cu_address to, cu_address from, size_t bytes, cu_stream stream),
     (to, from, bytes, stream))
{
	return copy(to, from, bytes, stream, true, "cuMemcpyAsync");
}

CALL(cuMemcpyHtoDAsync, (cu_address to, const void *from, size_t bytes,
			 cu_stream stream), (to, from, bytes, stream))
{
	return copy(to, (uintptr_t)from, bytes, stream, false,
		    "cuMemcpyHtoDAsync");
}

CALL(cuMemcpyDtoHAsync, (void *to, cu_address from, size_t bytes, cu_stream stream),
     (to, from, bytes, stream))
{
	return copy((uintptr_t)to, from, bytes, stream, false,
		    "cuMemcpyDtoHAsync");
}

/* On the legacy stream, and done when it returns. */
static int copy_now(cu_address to, cu_address from, size_t bytes, const char *name)
{
	struct action a = { .type = CU_NODE_MEMCPY };
	struct stream *s;
	struct op *op;
	int rc = stream_of(CU_STREAM_IS_LEGACY, &s);

	if (!rc)
		rc = implicit_use(s, name);
	if (rc)
		return rc;
	a.copy.to = to;
	a.copy.from = from;
	a.copy.bytes = bytes;
	op = calloc(1, sizeof(*op));
	action_move(&op->action, &a);
	rc = enqueue(s, op);
	if (rc)
		return rc;
	wait_for(s, s->queued);
	return know(s->context);
}

CALL(cuMemcpyDtoH, (void *to, cu_address from, size_t bytes), (to, from, bytes))
{
	return copy_now((uintptr_t)to, from, bytes, "cuMemcpyDtoH");
}

CALL(cuMemcpyHtoD, (cu_address to, const void *from, size_t bytes),
     (to, from, bytes))
{
	return copy_now(to, (uintptr_t)from, bytes, "cuMemcpyHtoD");
}

static int set(cu_address to, unsigned int value, unsigned int width, size_t n,
	       cu_stream stream, const char *name)
{
	struct action a = { .type = CU_NODE_MEMSET };
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc && (!on_device(to) || to % width))
		rc = CU_INVALID_VALUE;
	if (rc || !n)
		return rc;
	a.set.to = to;
	a.set.value = value;
	a.set.width = width;
	a.set.n = n;
	return issue(s, &a, name);
}

CALL(cuMemsetD8Async, (cu_address to, unsigned char value, size_t n,
		       cu_stream stream), (to, value, n, stream))
{
	return set(to, value, 1, n, stream, "cuMemsetD8Async");
}

CALL(cuMemsetD16Async, (cu_address to, unsigned short value, size_t n,
			cu_stream stream), (to, value, n, stream))
{
	return set(to, value, 2, n, stream, "cuMemsetD16Async");
}

CALL(cuMemsetD32Async, (cu_address to, unsigned int value, size_t n,
			cu_stream stream), (to, value, n, stream))
{
	return set(to, value, 4, n, stream, "cuMemsetD32Async");
}

/* virtual memory */

/* A handle, and each mapping, is a reference. */
struct physical {
	SLIST_ENTRY(physical) next;
	unsigned int handles, mappings;
	int fd;
	size_t bytes;
	struct cu_allocation_prop prop;
};
static SLIST_HEAD(, physical) physicals = SLIST_HEAD_INITIALIZER(physicals);

static struct physical *physical_of(unsigned long long handle)
{
	struct physical *p;

	SLIST_FOREACH(p, &physicals, next)
		if ((uintptr_t)p == handle && p->handles)
			break;
	return p;
}

static void physical_put(struct physical *p)
{
	if (p->handles || p->mappings)
		return;
	SLIST_REMOVE(&physicals, p, physical, next);
	close(p->fd);
	free(p);
}

static struct physical *physical_new(int fd, size_t bytes,
				     const struct cu_allocation_prop *prop)
{
	struct physical *p = calloc(1, sizeof(*p));

	p->handles = 1;
	p->fd = fd;
	p->bytes = bytes;
	p->prop = *prop;
	memset(p->prop.room, 0, sizeof(p->prop.room));
	SLIST_INSERT_HEAD(&physicals, p, next);
	return p;
}

CALL(cuMemGetAllocationGranularity, (size_t *bytes,
				     const struct cu_allocation_prop *prop,
				     int option), (bytes, prop, option))
{
	*bytes = GRANULARITY;
	return 0;
}

/* @prop: CUmemAllocationProp, without what the bridge has room for behind it. */
CALL(cuMemCreate, (unsigned long long *handle, size_t bytes,
		   const struct cu_allocation_prop *prop,
		   unsigned long long flags), (handle, bytes, prop, flags))
{
	struct cu_allocation_prop p = { .type = 0 };
	int fd, rc = 0;

	memcpy(&p, prop, offsetof(struct cu_allocation_prop, room));
	if (!rc && (!bytes || bytes % GRANULARITY || p.type != 1))
		rc = CU_INVALID_VALUE;
	if (rc)
		return rc;
	fd = memfd_create("stand-in memory", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes)) {
		if (fd >= 0)
			close(fd);
		return CU_OUT_OF_MEMORY;
	}
	*handle = (uintptr_t)physical_new(fd, bytes, &p);
	return 0;
}

CALL(cuMemRelease, (unsigned long long handle), (handle))
{
	struct physical *p = physical_of(handle);

	if (!p)
		return CU_INVALID_VALUE;
	p->handles--;
	physical_put(p);
	return 0;
}

CALL(cuMemRetainAllocationHandle, (unsigned long long *handle, void *address),
     (handle, address))
{
	struct chunk *c = chunk_at((uintptr_t)address);

	if (!c || c->kind != MAPPED)
		return CU_INVALID_VALUE;
	c->physical->handles++;
	*handle = (uintptr_t)c->physical;
	return 0;
}

/* Only as much as CUDA 12 has. */
CALL(cuMemGetAllocationPropertiesFromHandle, (struct cu_allocation_prop *prop,
					      unsigned long long handle),
     (prop, handle))
{
	struct physical *p = physical_of(handle);

	if (!p)
		return CU_INVALID_VALUE;
	memcpy(prop, &p->prop, offsetof(struct cu_allocation_prop, room));
	return 0;
}

CALL(cuMemExportToShareableHandle, (void *out, unsigned long long handle, int type,
				    unsigned long long flags),
     (out, handle, type, flags))
{
	struct physical *p = physical_of(handle);

	if (!p || type != CU_HANDLE_POSIX_FD ||
	    !(p->prop.requested_handles & CU_HANDLE_POSIX_FD))
		return CU_INVALID_VALUE;
	*(int *)out = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
	return 0;
}

CALL(cuMemImportFromShareableHandle, (unsigned long long *handle, void *os_handle,
				      int type), (handle, os_handle, type))
{
	const struct cu_allocation_prop prop = {
		.type = 1, .requested_handles = CU_HANDLE_POSIX_FD,
		.location_type = 1,
	};
	int fd = fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
	struct stat st;

	if (fd < 0 || type != CU_HANDLE_POSIX_FD || fstat(fd, &st) || !st.st_size) {
		if (fd >= 0)
			close(fd);
		return CU_UNKNOWN;
	}
	*handle = (uintptr_t)physical_new(fd, (size_t)st.st_size, &prop);
	return 0;
}

/* mmap() does not align; nobody has asked for more than the granularity so far. */
CALL(cuMemAddressReserve, (cu_address *address, size_t bytes, size_t alignment,
			   cu_address hint, unsigned long long flags),
     (address, bytes, alignment, hint, flags))
{
	struct reservation *r;
	char *at;

	if (!bytes || bytes % GRANULARITY || alignment > GRANULARITY)
		return CU_INVALID_VALUE;
	at = mmap(NULL, bytes + GRANULARITY, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return CU_OUT_OF_MEMORY;
	*address = ((uintptr_t)at + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	munmap(at, *address - (uintptr_t)at);
	munmap(pointer(*address + bytes),
	       (uintptr_t)at + GRANULARITY - *address);
	r = calloc(1, sizeof(*r));
	r->address = *address;
	r->bytes = bytes;
	SLIST_INSERT_HEAD(&reservations, r, next);
	return 0;
}

static bool chunk_between(cu_address address, size_t bytes)
{
	struct chunk *c;

	SLIST_FOREACH(c, &chunks, next)
		if (c->address < address + bytes &&
		    address < c->address + c->bytes)
			return true;
	return false;
}

CALL(cuMemAddressFree, (cu_address address, size_t bytes), (address, bytes))
{
	struct reservation *r;

	SLIST_FOREACH(r, &reservations, next)
		if (r->address == address && r->bytes == bytes)
			break;
	if (!r || chunk_between(address, bytes))
		return CU_INVALID_VALUE;
	SLIST_REMOVE(&reservations, r, reservation, next);
	free(r);
	munmap(pointer(address), bytes);
	return 0;
}

CALL(cuMemMap, (cu_address address, size_t bytes, size_t offset,
		unsigned long long handle, unsigned long long flags),
     (address, bytes, offset, handle, flags))
{
	struct physical *p = physical_of(handle);
	cu_context context;
	struct chunk *c;

	if (!p || offset || bytes != p->bytes || chunk_at(address) ||
	    need_context(&context))
		return CU_INVALID_VALUE;
	if (mmap(pointer(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, p->fd,
		 0) == MAP_FAILED)
		return CU_INVALID_VALUE;
	c = chunk_add(context, address, bytes, MAPPED);
	c->physical = p;
	p->mappings++;
	return 0;
}

static void unmap(struct chunk *c)
{
	struct physical *p = c->physical;

	mmap(pointer(c->address), c->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
	     MAP_NORESERVE | MAP_FIXED, -1, 0);
	chunk_remove(c);
	p->mappings--;
	physical_put(p);
}

CALL(cuMemUnmap, (cu_address address, size_t bytes), (address, bytes))
{
	cu_address end = address + bytes;
	struct chunk *c;

	while (address < end) {
		c = begins_at(address, 1u << MAPPED);
		if (!c || c->bytes > end - address)
			return CU_INVALID_VALUE;
		address += c->bytes;
		unmap(c);
	}
	return 0;
}

CALL(cuMemSetAccess, (cu_address address, size_t bytes, const void *descs, size_t n),
     (address, bytes, descs, n))
{
	struct chunk *c = begins_at(address, 1u << MAPPED);

	if (!c || !n || mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE))
		return CU_INVALID_VALUE;
	return 0;
}

/* other processes */

#define MEMORY_MAGIC	0x6d656d6fu

struct told {
	unsigned int magic;
	int pid, fd, device;
	uint64_t offset, bytes;
};
_Static_assert(sizeof(struct told) <= sizeof(struct cu_ipc_handle), "it fits");

bool ipc_here;

EXPORT void capkm_standin_ipc_here(int on);
void capkm_standin_ipc_here(int on)
{
	pthread_mutex_lock(&lock);
	ipc_here = on;
	pthread_mutex_unlock(&lock);
}

CALL(cuIpcGetMemHandle, (struct cu_ipc_handle *handle, cu_address address),
     (handle, address))
{
	struct chunk *c = begins_at(address, 1u << DEVICE);
	struct told t = { .magic = MEMORY_MAGIC, .pid = getpid() };

	if (!c)
		return CU_INVALID_VALUE;
	t.device = c->context->device;
	t.fd = arenas[t.device].fd;
	t.offset = c->address - arenas[t.device].base;
	t.bytes = c->bytes;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &t, sizeof(t));
	return 0;
}

/* The same handle gives the same memory, and has to be closed as often. */
static struct chunk *opened(cu_context context, const struct cu_ipc_handle *handle)
{
	struct chunk *c;

	SLIST_FOREACH(c, &chunks, next)
		if (c->kind == OPENED && c->context == context &&
		    !memcmp(&c->handle, handle, sizeof(*handle)))
			break;
	return c;
}

CALL(cuIpcOpenMemHandle, (cu_address *address, struct cu_ipc_handle handle,
			  unsigned int flags), (address, handle, flags))
{
	struct chunk *c;
	struct told t;
	char path[64];
	cu_context context;
	void *at;
	int fd, rc = need_context(&context);

	memcpy(&t, &handle, sizeof(t));
	if (!rc && t.magic != MEMORY_MAGIC)
		rc = CU_INVALID_VALUE;
	/* A process cannot open what is its own. */
	if (!rc && t.pid == getpid() && !ipc_here)
		rc = CU_INVALID_CONTEXT;
	if (!rc && flags != CU_IPC_LAZY_PEER_ACCESS)
		rc = CU_INVALID_VALUE;
	if (rc)
		return rc;
	c = opened(context, &handle);
	if (c) {
		c->opens++;
		*address = c->address;
		return 0;
	}
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", t.pid, t.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return CU_INVALID_VALUE;
	at = mmap(NULL, pages(t.bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		  (off_t)t.offset);
	close(fd);
	if (at == MAP_FAILED)
		return CU_INVALID_VALUE;
	c = chunk_add(context, (uintptr_t)at, t.bytes, OPENED);
	c->handle = handle;
	c->opens = 1;
	*address = (uintptr_t)at;
	return 0;
}

CALL(cuIpcCloseMemHandle, (cu_address address), (address))
{
	struct chunk *c = begins_at(address, 1u << OPENED);

	if (!c)
		return CU_INVALID_VALUE;
	if (--c->opens)
		return 0;
	munmap(pointer(address), pages(c->bytes));
	chunk_remove(c);
	return 0;
}

/* With its context. */
static void end_chunk(struct chunk *c)
{
	switch (c->kind) {
	case PINNED:
		free(pointer(c->address));
		chunk_remove(c);
		return;
	case MAPPED:
		unmap(c);
		return;
	case OPENED:
		munmap(pointer(c->address), pages(c->bytes));
		chunk_remove(c);
		return;
	default:
		c->of_graph = false;
		device_free(c);
	}
}

void memory_end(cu_context context)
{
	struct chunk *c, *next;

	for (c = SLIST_FIRST(&chunks); c; c = next) {
		next = SLIST_NEXT(c, next);
		if (c->context == context)
			end_chunk(c);
	}
}
