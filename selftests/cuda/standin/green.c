// SPDX-License-Identifier: GPL-2.0-only
/* Green contexts: each is a context of its device with streams of its own. */
#include "sim.h"

#define SMS		132u
#define SM_GROUP	8u
#define RESOURCE_SM	1
#define DEFAULT_STREAM	1u

/* CUdevResource */
struct resource {
	int type;
	unsigned char internal[92];
	unsigned int sms, smallest, alignment;
	unsigned char room[36];
};

/* CUDA has no call that frees one. */
struct description {
	SLIST_ENTRY(description) next;
};
static SLIST_HEAD(, description) descriptions = SLIST_HEAD_INITIALIZER(descriptions);

struct green {
	SLIST_ENTRY(green) next;
	cu_context context;
};
static SLIST_HEAD(, green) greens = SLIST_HEAD_INITIALIZER(greens);

static struct green *green_of(const void *handle)
{
	struct green *g;

	SLIST_FOREACH(g, &greens, next)
		if (g == handle)
			break;
	return g;
}

CALL(cuDeviceGetDevResource, (cu_device device, struct resource *out, int type),
     (device, out, type))
{
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	if (type != RESOURCE_SM)
		return CU_INVALID_VALUE;
	*out = (struct resource){
		.type = type, .sms = SMS, .smallest = SM_GROUP, .alignment = SM_GROUP,
	};
	return 0;
}

CALL(cuDevSmResourceSplitByCount, (struct resource *out, unsigned int *n,
				   const struct resource *in, struct resource *rest,
				   unsigned int flags, unsigned int least),
     (out, n, in, rest, flags, least))
{
	const unsigned int sms = (least + SM_GROUP - 1) / SM_GROUP * SM_GROUP;
	unsigned int i, most;

	if (in->type != RESOURCE_SM || least > in->sms)
		return CU_INVALID_VALUE;
	most = in->sms / (sms ? sms : SM_GROUP);
	if (!out || *n > most)
		*n = most;
	for (i = 0; out && i < *n; i++) {
		out[i] = *in;
		out[i].sms = sms ? sms : SM_GROUP;
	}
	if (rest) {
		*rest = *in;
		rest->sms -= *n * (sms ? sms : SM_GROUP);
	}
	return 0;
}

CALL(cuDevResourceGenerateDesc, (void **out, struct resource *resources, unsigned int n),
     (out, resources, n))
{
	struct description *d;

	if (!n || resources->type != RESOURCE_SM)
		return CU_INVALID_VALUE;
	d = calloc(1, sizeof(*d));
	SLIST_INSERT_HEAD(&descriptions, d, next);
	*out = d;
	return 0;
}

CALL(cuGreenCtxCreate, (void **green, void *description, cu_device device,
			unsigned int flags), (green, description, device, flags))
{
	struct description *d;
	struct green *g;

	SLIST_FOREACH(d, &descriptions, next)
		if (d == description)
			break;
	if (!d || flags != DEFAULT_STREAM)
		return CU_INVALID_VALUE;
	if (device < 0 || device >= devices)
		return INVALID_DEVICE;
	g = calloc(1, sizeof(*g));
	g->context = context_new(device);
	g->context->green = g;
	SLIST_INSERT_HEAD(&greens, g, next);
	*green = g;
	return 0;
}

CALL(cuGreenCtxDestroy, (void *green), (green))
{
	struct green *g = green_of(green);

	if (!g)
		return CU_INVALID_CONTEXT;
	context_end(g->context);
	SLIST_REMOVE(&greens, g, green, next);
	free(g);
	return 0;
}

CALL(cuCtxFromGreenCtx, (cu_context *context, void *green), (context, green))
{
	struct green *g = green_of(green);

	if (!g)
		return CU_INVALID_CONTEXT;
	*context = g->context;
	return 0;
}

CALL(cuGreenCtxStreamCreate, (cu_stream *stream, void *green, unsigned int flags,
			      int priority), (stream, green, flags, priority))
{
	struct green *g = green_of(green);

	if (!g)
		return CU_INVALID_CONTEXT;
	if (flags != 1)		/* CU_STREAM_NON_BLOCKING */
		return CU_INVALID_VALUE;
	*stream = stream_handle(stream_new(g->context, flags));
	return 0;
}
