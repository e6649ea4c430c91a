/* SPDX-License-Identifier: MIT */
#ifndef CAPKM_LIB_FORK_H
#define CAPKM_LIB_FORK_H

#include <stdint.h>

/* A number of this process, not 0, that no ancestor had. */
uint64_t capkm_generation(void);

#endif /* CAPKM_LIB_FORK_H */
