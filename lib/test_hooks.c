// SPDX-License-Identifier: MIT
#include "internal.h"
#include "test_hooks.h"

void capkm_test_die(struct capkm *c, uint32_t pid)
{
	if (capkm_authority(c) == CAPKM_AUTHORITY_EMBEDDED)
		capkm_embedded_die(c->state, pid);
}
