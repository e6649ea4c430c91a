// SPDX-License-Identifier: GPL-2.0-only
/* A driver of CUDA that is too old: all that the bridge asks of it is its version. */
#include <stdlib.h>

int cuDriverGetVersion(int *version);

int cuDriverGetVersion(int *version)
{
	*version = atoi(getenv("OLD_CUDA_VERSION"));
	return 0;
}
