/* SPDX-License-Identifier: MIT */
/* A process, as the user-space host knows it. */
#ifndef CAPKM_HOST_PROC_H
#define CAPKM_HOST_PROC_H

#include "host.h"

struct host_proc {
	_Atomic u32 refs;
	u32 pid;
};

/* With one reference; NULL if there is no memory. */
struct host_proc *host_proc_new(u32 pid);

#endif /* CAPKM_HOST_PROC_H */
