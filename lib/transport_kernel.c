// SPDX-License-Identifier: MIT
/* The kernel module, through its device node. */
#include "internal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const char *hint(int error)
{
	switch (error) {
	case ENOENT:
		return "; is the module loaded (modprobe capkm)? In a container, is the node there?";
	case ENODEV:
	case ENXIO:
		return "; the node is there but no module answers it (modprobe capkm)";
	case EACCES:
	case EPERM:
		return "; the node's permissions, or a container's device rules, keep this process out";
	default:
		return "";
	}
}

static int kernel_open(const char *path, void **state, char *why, size_t size)
{
	int fd, error;

	do {
		fd = open(path, O_RDWR | O_CLOEXEC);
	} while (fd < 0 && errno == EINTR);
	if (fd >= 0) {
		*state = (void *)(intptr_t)fd;
		return 0;
	}
	error = errno;
	snprintf(why, size, "%s: %s%s", path, strerror(error), hint(error));
	return -error;
}

static int kernel_call(void *state, unsigned int nr, void *arg)
{
	int rc;

	do {
		rc = ioctl((int)(intptr_t)state, _IO(CAPKM_TYPE, nr), arg);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

/* The description, and with it the session, stays the parent's. */
static void kernel_close(void *state, bool inherited)
{
	(void)inherited;
	close((int)(intptr_t)state);
}

static int kernel_fd(void *state)
{
	return (int)(intptr_t)state;
}

const struct capkm_transport capkm_transport_kernel = {
	.name = "the kernel module",
	.open = kernel_open,
	.call = kernel_call,
	.close = kernel_close,
	.fd = kernel_fd,
};
