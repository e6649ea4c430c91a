/* SPDX-License-Identifier: GPL-2.0-only */
/* For tests with processes of their own: to wait for them, to pass descriptors. */
#ifndef CAPKM_PROCESS_H
#define CAPKM_PROCESS_H

#include "capkm_test.h"
#include "pass_fd.h"

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define ONLY_KERNEL() do {						\
	if (t_embedded())						\
		SKIP(return, "needs processes");			\
} while (0)

/* The end is noticed at once, or soon; the bound only ends a test that fails. */
#define UNTIL(cond) do {						\
	int left_ = 10000;						\
									\
	while (!(cond) && left_--)					\
		usleep(1000);						\
	ASSERT_GE(left_, 0) {						\
		TH_LOG("waited in vain for " #cond);			\
	}								\
} while (0)

static T_UNUSED int load(const int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static T_UNUSED void store(int *p, int v)
{
	__atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}

#define MEMORY_GROUPS	"/tmp/cgroup"
#define MEMORY_GROUP	MEMORY_GROUPS "/capkm"

static T_UNUSED void memory_group_end(void)
{
	rmdir(MEMORY_GROUP);
	umount(MEMORY_GROUPS);
}

/* Makes it, empty; false if the kernel has none for memory. */
static T_UNUSED bool memory_group(void)
{
	mkdir(MEMORY_GROUPS, 0700);
	if (mount("none", MEMORY_GROUPS, "cgroup2", 0, NULL))
		return false;
	if (t_put_file(MEMORY_GROUPS "/cgroup.subtree_control", "+memory") &&
	    !mkdir(MEMORY_GROUP, 0700))
		return true;
	memory_group_end();
	return false;
}

static void __attribute__((noreturn, unused)) rest(void)
{
	for (;;)
		pause();
}

static T_UNUSED void send_fd(int sock, int fd)
{
	if (!pass_fd(sock, fd))
		_exit(1);
}

static T_UNUSED int raw(int fd, unsigned int nr, void *arg)
{
	t_put32(arg, 0, t_ops[nr].size);
	return t_ioctl(fd, nr, arg);
}

/* All that changes something, or concerns what is a client's own. */
static const unsigned char mutating[] T_UNUSED = {
	CAPKM_NR_STREAM_CREATE, CAPKM_NR_STREAM_QUERY, CAPKM_NR_BUFFER_CREATE,
	CAPKM_NR_BUFFER_EXPORT, CAPKM_NR_BUFFER_OPEN, CAPKM_NR_BUFFER_CLOSE,
	CAPKM_NR_BUFFER_RESET, CAPKM_NR_WINDOW_PREPARE, CAPKM_NR_WINDOW_BEGIN,
	CAPKM_NR_WINDOW_END, CAPKM_NR_WINDOW_SEAL, CAPKM_NR_WINDOW_REFUSE,
	CAPKM_NR_WINDOW_TAKE, CAPKM_NR_WINDOW_RECORD, CAPKM_NR_WINDOW_ABORT,
	CAPKM_NR_WINDOW_FAIL, CAPKM_NR_WINDOW_RETAIN, CAPKM_NR_WINDOW_ABANDON,
	CAPKM_NR_SCOPE_ENTER, CAPKM_NR_SCOPE_EXIT, CAPKM_NR_TAINT, CAPKM_NR_WRITTEN,
	CAPKM_NR_GRAPH_REPLAY_BEGIN, CAPKM_NR_GRAPH_REPLAY_END,
	CAPKM_NR_GRAPH_DESTROY, CAPKM_NR_STREAM_DESTROY, CAPKM_NR_STREAM_CONFIRM,
	CAPKM_NR_STREAM_FAULT, CAPKM_NR_STREAM_FLUSH, CAPKM_NR_CONTEXT_RENEW,
	CAPKM_NR_WINDOW_JOIN, CAPKM_NR_WINDOW_WAIT, CAPKM_NR_GRAPH_UPDATE,
};

/* 0, or the first of them that was answered otherwise than with @rc. */
static T_UNUSED int try_mutating(int fd, int rc)
{
	u_int64_t room[T_ARG_MAX / 8];

	for (size_t i = 0; i < ARRAY_SIZE(mutating); i++) {
		memset(room, 0, sizeof(room));
		if (raw(fd, mutating[i], room) != rc)
			return mutating[i];
	}
	return 0;
}

/* The module itself; 0 or an error. */
static inline int t_unload(void)
{
	return syscall(SYS_delete_module, "capkm", O_NONBLOCK) ? -errno : 0;
}

static inline int t_load(void)
{
	char path[256];
	struct utsname u;
	int fd, rc;

	uname(&u);
	snprintf(path, sizeof(path), "/lib/modules/%s/extra/capkm.ko", u.release);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = syscall(SYS_finit_module, fd, "", 0) ? -errno : 0;
	close(fd);
	return rc;
}

#endif /* CAPKM_PROCESS_H */
