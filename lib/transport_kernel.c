// SPDX-License-Identifier: MIT
/* The kernel module, through its device node. */
#define _FILE_OFFSET_BITS 64
#include "internal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
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

int capkm_kernel_adopt(int fd, void **state)
{
	const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (own < 0)
		return -errno;
	*state = (void *)(intptr_t)own;
	return 0;
}

/* A call that waits is its caller's to start again, with the time that is left. */
static int kernel_call(void *state, unsigned int nr, void *arg)
{
	int rc;

	do {
		rc = ioctl((int)(intptr_t)state, _IO(CAPKM_TYPE, nr), arg);
	} while (rc < 0 && errno == EINTR && nr != CAPKM_NR_WINDOW_WAIT);
	return rc < 0 ? -errno : 0;
}

/* A newer kernel's events are longer: they are cut to what is known here. */
static int pack(struct capkm_event *events, size_t bytes)
{
	const char *next = (const char *)events;
	int n = 0;
	uint32_t size;

	for (; bytes >= sizeof(*events); next += size, bytes -= size) {
		memcpy(&size, next, sizeof(size));
		if (size < sizeof(*events) || size > bytes)
			return -EPROTO;
		memmove(&events[n], next, sizeof(*events));
		events[n++].size = sizeof(*events);
	}
	return n;
}

/* read() says what poll() only hints at. */
static int kernel_events(void *state, struct capkm_event *events, uint32_t len,
			 int timeout_ms)
{
	struct pollfd p = { .fd = (int)(intptr_t)state, .events = POLLIN };
	ssize_t bytes;
	int rc;

	do {
		rc = poll(&p, 1, timeout_ms);
		if (!rc)
			return -ETIMEDOUT;
		bytes = rc < 0 ? rc : read(p.fd, events, len * sizeof(*events));
	} while (rc > 0 && bytes < 0 && errno == EAGAIN);
	return bytes < 0 ? -errno : pack(events, bytes);
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

static void *kernel_map(void *state, uint64_t offset, size_t bytes, bool writable)
{
	void *p = mmap(NULL, bytes, PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED,
		       (int)(intptr_t)state, (off_t)offset);

	return p == MAP_FAILED ? NULL : p;
}

static void kernel_unmap(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

const struct capkm_transport capkm_transport_kernel = {
	.name = "the kernel module",
	.open = kernel_open,
	.call = kernel_call,
	.events = kernel_events,
	.close = kernel_close,
	.fd = kernel_fd,
	.map = kernel_map,
	.unmap = kernel_unmap,
};
