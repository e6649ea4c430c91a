/* SPDX-License-Identifier: GPL-2.0-only */
/* Descriptors from process to process, with one byte that says nothing. */
#ifndef CAPKM_PASS_FD_H
#define CAPKM_PASS_FD_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

union pass_room {
	char room[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static inline bool pass_fd(int sock, int fd)
{
	union pass_room u = { 0 };
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = u.room, .msg_controllen = sizeof(u.room),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(sock, &m, MSG_NOSIGNAL) == 1;
}

/* -1: there is none, and there will be none. */
static inline int receive_fd(int sock)
{
	union pass_room u = { 0 };
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = u.room, .msg_controllen = sizeof(u.room),
	};
	int fd = -1;

	if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&m))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

#endif /* CAPKM_PASS_FD_H */
