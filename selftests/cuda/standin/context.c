// SPDX-License-Identifier: GPL-2.0-only
/* Devices and contexts. A context's struct stays: its handle may still be asked for. */
#include "sim.h"

#include <stdio.h>

#define DEVICES_MAX	8
#define DEPTH_MAX	16

int devices;

static SLIST_HEAD(, CUctx_st) contexts = SLIST_HEAD_INITIALIZER(contexts);
static cu_context primary[DEVICES_MAX];
static __thread cu_context stack[DEPTH_MAX];
static __thread unsigned int depth;

cu_context current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

int need_context(cu_context *context)
{
	*context = current();
	if (!*context)
		return CU_INVALID_CONTEXT;
	return (*context)->dead ? CU_CONTEXT_IS_DESTROYED : 0;
}

static bool exists(cu_context context)
{
	cu_context c;

	SLIST_FOREACH(c, &contexts, next)
		if (c == context)
			return true;
	return false;
}

cu_context context_new(int device)
{
	static unsigned long long last;
	cu_context c = calloc(1, sizeof(*c));

	c->id = ++last;
	c->device = device;
	c->users = 1;
	SLIST_INSERT_HEAD(&contexts, c, next);
	return c;
}

void context_end(cu_context c)
{
	drain(c);
	c->dead = true;
	streams_end(c);
	events_end(c);
	memory_end(c);
	modules_end(c);
}

CALL(cuDeviceGetCount, (int *count), (count))
{
	*count = devices;
	return 0;
}

CALL(cuDeviceGet, (cu_device *device, int ordinal), (device, ordinal))
{
	*device = ordinal;
	return ordinal >= 0 && ordinal < devices ? 0 : INVALID_DEVICE;
}

CALL(cuDeviceGetName, (char *name, int len, cu_device device), (name, len, device))
{
	snprintf(name, len, "stand-in %d", device);
	return 0;
}

CALL(cuDeviceGetUuid, (struct cu_uuid *uuid, cu_device device), (uuid, device))
{
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	memset(uuid, 0x51, sizeof(*uuid));
	uuid->bytes[15] = device;
	return 0;
}

CALL(cuDevicePrimaryCtxRetain, (cu_context *context, cu_device device),
     (context, device))
{
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	if (primary[device] && primary[device]->lost)
		return primary[device]->lost;
	if (primary[device] && primary[device]->users) {
		primary[device]->users++;
	} else {
		primary[device] = context_new(device);
		primary[device]->primary = true;
	}
	*context = primary[device];
	return 0;
}

CALL(cuDevicePrimaryCtxRelease, (cu_device device), (device))
{
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	if (!primary[device] || !primary[device]->users)
		return CU_INVALID_CONTEXT;
	if (!--primary[device]->users)
		context_end(primary[device]);
	return 0;
}

CALL(cuCtxCreate, (cu_context *context, unsigned int flags, cu_device device),
     (context, flags, device))
{
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	if (depth == DEPTH_MAX)
		return CU_OUT_OF_MEMORY;
	*context = context_new(device);
	stack[depth++] = *context;
	return 0;
}

CALL(cuCtxDestroy, (cu_context context), (context))
{
	if (!exists(context) || context->dead || context->primary)
		return CU_INVALID_CONTEXT;
	context_end(context);
	if (current() == context)
		depth--;
	return 0;
}

CALL(cuCtxSetCurrent, (cu_context context), (context))
{
	if (context && (!exists(context) || context->dead))
		return CU_INVALID_CONTEXT;
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return 0;
}

CALL(cuCtxGetCurrent, (cu_context *context), (context))
{
	*context = current();
	return 0;
}

CALL(cuCtxPushCurrent, (cu_context context), (context))
{
	if (!exists(context) || context->dead)
		return CU_INVALID_CONTEXT;
	if (depth == DEPTH_MAX)
		return CU_INVALID_VALUE;
	stack[depth++] = context;
	return 0;
}

CALL(cuCtxPopCurrent, (cu_context *context), (context))
{
	if (!depth)
		return CU_INVALID_CONTEXT;
	*context = stack[--depth];
	return 0;
}

CALL(cuCtxGetDevice, (cu_device *device), (device))
{
	cu_context c;
	int rc = need_context(&c);

	if (!rc)
		*device = c->device;
	return rc;
}

CALL(cuCtxGetId, (cu_context context, unsigned long long *id), (context, id))
{
	cu_context c = context ? context : current();

	if (!c || !exists(c))
		return CU_INVALID_CONTEXT;
	*id = c->id;
	return 0;
}

CALL(cuCtxSynchronize, (void), ())
{
	struct capture *c;
	cu_context context;
	bool captures_here = false;
	int rc = need_context(&context);

	if (rc)
		return rc;
	SLIST_FOREACH(c, &captures, next)
		if (c->origin->context == context) {
			captures_here = true;
			invalidate(c, "cuCtxSynchronize");
		}
	if (captures_here)
		return UNSUPPORTED;
	rc = unsafe("cuCtxSynchronize");
	return rc ? rc : drain(context);
}
