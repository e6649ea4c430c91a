/* SPDX-License-Identifier: MIT */
/* What the files of lib/observe know of each other. */
#ifndef CAPKM_LIB_OBSERVE_H
#define CAPKM_LIB_OBSERVE_H

#include <capkm/observe.h>

#include "internal.h"

#endif /* CAPKM_LIB_OBSERVE_H */
