// SPDX-License-Identifier: MIT
/* Device memory between processes: the driver's handle with the authority's id. */
#include "cuda.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* CUmemAccessDesc for one device, read and write. */
struct access_desc {
	int location_type, location_id;
	unsigned long long flags;
};
#define LOCATION_DEVICE	1
#define ACCESS_READ_WRITE	3ull

/* How opened memory is closed again. */
struct mapping {
	cu_address address;		/* as the driver gave it */
	size_t bytes;			/* mapped by us; 0: by a legacy handle */
	unsigned long long handle;
};

void capkm_ipc_close(struct capkm_cuda *cuda, struct region *r)
{
	const char *call = "cuda_free";
	struct mapping *m = r->extra;

	if (m->bytes) {
		cu_call(cuda, NULL, call, cuMemUnmap, m->address, m->bytes);
		cu_call(cuda, NULL, call, cuMemAddressFree, m->address,
			m->bytes);
		cu_call(cuda, NULL, call, cuMemRelease, m->handle);
	} else {
		cu_call(cuda, NULL, call, cuIpcCloseMemHandle, m->address);
	}
	free(m);
}

static int cannot_share(struct capkm_error *err, const char *why)
{
	return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
		"cuda_ipc_export: CUDA cannot share this memory: %s", why);
}

/* Memory of the virtual memory management functions goes as a descriptor. */
static int export_mapped(struct capkm_cuda *cuda, unsigned long long handle,
			 struct capkm_cuda_ipc *ipc, int *fd,
			 struct capkm_error *err)
{
	struct cu_allocation_prop prop = { .type = 0 };
	int rc = cu_call(cuda, err, "cuda_ipc_export",
			 cuMemGetAllocationPropertiesFromHandle, &prop, handle);

	if (!rc && !(prop.requested_handles & CU_HANDLE_POSIX_FD))
		rc = cannot_share(err, "it was created without a POSIX file descriptor handle type");
	if (!rc)
		rc = cu_call(cuda, err, "cuda_ipc_export",
			     cuMemExportToShareableHandle, fd, handle,
			     CU_HANDLE_POSIX_FD, 0);
	if (!rc)
		ipc->kind = CAPKM_CUDA_IPC_FD;
	return rc;
}

static int export_legacy(struct capkm_cuda *cuda, cu_address base,
			 struct capkm_cuda_ipc *ipc, struct capkm_error *err)
{
	const char *call = "cuda_ipc_export";
	struct cu_ipc_handle handle;
	void *mempool = NULL;
	unsigned int capable = 1;
	int rc;

	cu_call(cuda, NULL, call, cuPointerGetAttribute, &mempool,
		CU_POINTER_MEMPOOL, base);
	if (mempool)
		return cannot_share(err, "it is of a stream-ordered memory pool; allocate what is shared by cuda_alloc()");
	cu_call(cuda, NULL, call, cuPointerGetAttribute, &capable,
		CU_POINTER_IS_LEGACY_IPC, base);
	if (!capable)
		return cannot_share(err, "it is of another process, managed, or of no call that cuIpcGetMemHandle() knows; allocate what is shared by cuda_alloc()");
	rc = cu_call(cuda, err, call, cuIpcGetMemHandle, &handle, base);
	if (rc)
		return rc;
	memcpy(ipc->handle, handle.bytes, sizeof(ipc->handle));
	ipc->kind = CAPKM_CUDA_IPC_LEGACY;
	return 0;
}

/* The driver exports whole allocations, of which the buffer may be a part. */
static int export(struct capkm_cuda *cuda, uint64_t address,
		  struct capkm_cuda_ipc *ipc, int *fd, struct capkm_error *err)
{
	const char *call = "cuda_ipc_export";
	unsigned long long handle;
	cu_address base;
	size_t bytes;
	int rc = cu_call(cuda, err, call, cuMemGetAddressRange, &base, &bytes,
			 address);

	if (rc)
		return rc;
	ipc->offset = address - base;
	ipc->exported = bytes;
	if (cu_call(cuda, NULL, call, cuMemRetainAllocationHandle, &handle,
		    (void *)(uintptr_t)base))
		return export_legacy(cuda, base, ipc, err);
	rc = export_mapped(cuda, handle, ipc, fd, err);
	cu_call(cuda, NULL, call, cuMemRelease, handle);
	return rc;
}

int capkm_cuda_ipc_export(struct capkm_cuda *cuda, uint64_t address,
			  struct capkm_cuda_ipc *ipc, int *fd,
			  struct capkm_error *err)
{
	struct capkm_cuda_ipc out = { .size = sizeof(out) };
	struct capkm_claim rest;
	struct context *context;
	int descriptor = -1, mode, rc;

	rc = capkm_cuda_usable(cuda, "cuda_ipc_export", err);
	if (!rc)
		rc = capkm_cuda_context(cuda, "cuda_ipc_export", &context, err);
	if (rc)
		return rc;
	if (!capkm_cuda_buffer_at(cuda, address, &rest))
		return capkm_error_set(err, -ENOENT, CAPKM_NO_INDEX, 0,
			"cuda_ipc_export: the memory at 0x%" PRIx64 " is in no known buffer",
			address);
	mode = capkm_cu_relax(cuda);
	rc = export(cuda, address - rest.start, &out, &descriptor, err);
	capkm_cu_restore(cuda, mode);
	if (!rc)
		rc = capkm_buffer_export(cuda->c, rest.buffer, err);
	if (rc) {
		if (descriptor >= 0)
			close(descriptor);
		return rc;
	}
	out.domain = capkm_domain_id(cuda->c);
	out.buffer = rest.buffer;
	out.bytes = rest.end;
	memcpy(out.device, context->uuid, sizeof(out.device));
	*ipc = out;
	*fd = descriptor;
	return 0;
}

static int check_ipc(struct capkm_cuda *cuda, const struct capkm_cuda_ipc *ipc,
		     int fd, const struct context *context,
		     struct capkm_error *err)
{
	if (ipc->size != sizeof(*ipc) || ipc->offset > ipc->exported ||
	    ipc->bytes > ipc->exported - ipc->offset ||
	    (ipc->kind != CAPKM_CUDA_IPC_LEGACY &&
	     (ipc->kind != CAPKM_CUDA_IPC_FD || fd < 0)))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"cuda_ipc_open: that is not what cuda_ipc_export() gives%s",
			ipc->kind == CAPKM_CUDA_IPC_FD ?
			"; its descriptor is missing" : "");
	if (ipc->domain != capkm_domain_id(cuda->c))
		return capkm_error_set(err, -EXDEV, CAPKM_NO_INDEX, 0,
			"cuda_ipc_open: the memory is of domain %" PRIu64 ", this handle of %" PRIu64,
			ipc->domain, capkm_domain_id(cuda->c));
	if (memcmp(ipc->device, context->uuid, sizeof(ipc->device)))
		return capkm_error_set(err, -ENODEV, CAPKM_NO_INDEX, 0,
			"cuda_ipc_open: the memory is on another device than the current context");
	return 0;
}

static int open_legacy(struct capkm_cuda *cuda, const struct capkm_cuda_ipc *ipc,
		       struct mapping *m, struct capkm_error *err)
{
	struct cu_ipc_handle handle;
	int result;

	memcpy(handle.bytes, ipc->handle, sizeof(handle.bytes));
	result = cuda->cu.cuIpcOpenMemHandle(&m->address, handle,
					     CU_IPC_LAZY_PEER_ACCESS);
	return capkm_cu_error_sent(cuda, result, "cuda_ipc_open",
		"cuIpcOpenMemHandle",
		"the handle is not what cuda_ipc_export() gives", err);
}

static int map(struct capkm_cuda *cuda, struct mapping *m, int device,
	       struct capkm_error *err)
{
	const struct access_desc desc = {
		LOCATION_DEVICE, device, ACCESS_READ_WRITE
	};
	const char *call = "cuda_ipc_open";
	int rc = cu_call(cuda, err, call, cuMemAddressReserve, &m->address,
			 m->bytes, 0, 0, 0);

	if (rc)
		return rc;
	rc = cu_call(cuda, err, call, cuMemMap, m->address, m->bytes, 0,
		     m->handle, 0);
	if (!rc) {
		rc = cu_call(cuda, err, call, cuMemSetAccess, m->address,
			     m->bytes, &desc, 1);
		if (rc)
			cu_call(cuda, NULL, call, cuMemUnmap, m->address,
				m->bytes);
	}
	if (rc)
		cu_call(cuda, NULL, call, cuMemAddressFree, m->address,
			m->bytes);
	return rc;
}

static int import(struct capkm_cuda *cuda, int fd, unsigned long long *handle,
		  struct capkm_error *err)
{
	int result = cuda->cu.cuMemImportFromShareableHandle(handle,
		(void *)(intptr_t)fd, CU_HANDLE_POSIX_FD);

	return capkm_cu_error_sent(cuda, result, "cuda_ipc_open",
		"cuMemImportFromShareableHandle",
		"the descriptor is not what cuda_ipc_export() gives", err);
}

static int open_mapped(struct capkm_cuda *cuda, const struct capkm_cuda_ipc *ipc,
		       int fd, struct mapping *m, int device,
		       struct capkm_error *err)
{
	int rc = import(cuda, fd, &m->handle, err);

	if (rc)
		return rc;
	m->bytes = ipc->exported;
	rc = map(cuda, m, device, err);
	if (rc)
		cu_call(cuda, NULL, "cuda_ipc_open", cuMemRelease, m->handle);
	return rc;
}

static int open_memory(struct capkm_cuda *cuda, const struct capkm_cuda_ipc *ipc,
		       int fd, struct region *r, struct capkm_error *err)
{
	struct mapping *m = calloc(1, sizeof(*m));
	int mode, rc;

	if (!m)
		return capkm_no_memory("cuda_ipc_open", err);
	mode = capkm_cu_relax(cuda);
	rc = ipc->kind == CAPKM_CUDA_IPC_LEGACY ?
		open_legacy(cuda, ipc, m, err) :
		open_mapped(cuda, ipc, fd, m, r->context->ordinal, err);
	if (rc) {
		free(m);
	} else {
		r->extra = m;
		r->address = m->address + ipc->offset;
		rc = capkm_cuda_add_opened(cuda, r, "cuda_ipc_open", err);
		if (rc)
			capkm_ipc_close(cuda, r);
	}
	capkm_cu_restore(cuda, mode);
	return rc;
}

int capkm_cuda_ipc_open(struct capkm_cuda *cuda,
			const struct capkm_cuda_ipc *ipc, int fd,
			uint64_t *address, struct capkm_error *err)
{
	struct context *context;
	struct region *r;
	uint64_t bytes;
	int rc = capkm_cuda_usable(cuda, "cuda_ipc_open", err);

	if (!rc)
		rc = capkm_cuda_context(cuda, "cuda_ipc_open", &context, err);
	if (!rc)
		rc = check_ipc(cuda, ipc, fd, context, err);
	if (!rc)
		rc = capkm_buffer_open(cuda->c, ipc->buffer, &bytes, err);
	if (rc)
		return rc;
	r = calloc(1, sizeof(*r));
	if (!r) {
		rc = capkm_no_memory("cuda_ipc_open", err);
	} else {
		*r = (struct region){
			.bytes = bytes, .buffer = ipc->buffer,
			.context = context, .origin = OPENED,
		};
		rc = open_memory(cuda, ipc, fd, r, err);
	}
	if (rc) {
		capkm_buffer_close(cuda->c, ipc->buffer, NULL);
		free(r);
		return rc;
	}
	*address = r->address;
	return 0;
}
