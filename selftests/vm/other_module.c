// SPDX-License-Identifier: GPL-2.0-only
/*
 * Loaded before capadm, it lets the module be of another version: OTHER_MODULE is
 * "VERSION OLDEST-ABI NEWEST-ABI".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <linux/capkm.h>

int ioctl(int fd, unsigned long request, ...)
{
	int (*next)(int fd, unsigned long request, void *arg);
	const char *other = getenv("OTHER_MODULE");
	struct capkm_info *info;
	char version[16] = "";
	va_list ap;
	void *arg;
	int rc;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	next = (typeof(next))dlsym(RTLD_NEXT, "ioctl");
	rc = next(fd, request, arg);
	if (rc || request != CAPKM_IOC_INFO || !other)
		return rc;
	info = arg;
	if (sscanf(other, "%15s %u %u", version, &info->out_abi_oldest, &info->out_abi_version) == 3)
		memcpy(info->out_version, version, sizeof(version));
	return rc;
}
