// SPDX-License-Identifier: MIT
/* Pages of the C library. */
#include "pool.h"

#include <stdlib.h>

#define ALIGNMENT	64

static int take(void *context, uint64_t bytes, uint64_t *address)
{
	void *p = bytes > SIZE_MAX ? NULL :
		aligned_alloc(ALIGNMENT, (size_t)bytes);

	(void)context;
	if (!p)
		return -ENOMEM;
	*address = uptr(p);
	return 0;
}

static void give(void *context, uint64_t address, uint64_t bytes)
{
	(void)context;
	(void)bytes;
	free((void *)(uintptr_t)address);
}

const struct capkm_pool_memory *capkm_pool_host_memory(void)
{
	static const struct capkm_pool_memory memory = {
		.sz = sizeof(memory),
		.alignment = ALIGNMENT,
		.alloc = take,
		.free = give,
	};

	return &memory;
}
