// SPDX-License-Identifier: GPL-2.0-only
/* The tracepoints, made of trace.h. */
#define CREATE_TRACE_POINTS
#include "engine/internal.h"
