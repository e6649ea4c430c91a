/* SPDX-License-Identifier: MIT */
/*
 * What the transport "proxy:" and its other end (selftests/vm/proxy/) say to each other,
 * for tests: numbers as the machines have them, both are x86-64. A process that opens a
 * handle is served by a process there with a session of its own, which ends when the
 * first connection does; each further one carries a call at a time.
 */
#ifndef CAPKM_PROXY_WIRE_H
#define CAPKM_PROXY_WIRE_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define OP_FN(name)
#include "../kmod/engine/ops.h"

#define PROXY_MAGIC	0x6d6b7063u
#define PROXY_BYTES_MAX	(16u << 20)	/* of a call, its arrays included */

enum proxy_what {
	PROXY_SESSION,		/* opens one; the answer's key names it */
	PROXY_MORE,		/* one more connection for the session @key */
	PROXY_RUN,		/* a shell command, of @bytes; the answer is its output */
	PROXY_STOP,		/* the other end ends */
};

/* Begins a connection. */
struct proxy_hello {
	uint32_t magic;
	uint32_t what;		/* enum proxy_what */
	uint64_t key;
	uint32_t pid;		/* of the process that is served: a label */
	uint32_t bytes;
	char name[16];		/* its name */
};

#define PROXY_EVENTS	0x100u	/* capkm_transport.events */
#define PROXY_CLOSE	0x101u	/* on the first connection: the session ends */

/* Then come the struct and its arrays, one after the other. */
struct proxy_call {
	uint32_t nr;		/* enum capkm_nr, or one of the above */
	uint32_t size;		/* of the struct */
	uint32_t bytes;		/* that follow */
	uint32_t len;		/* PROXY_EVENTS: how many there is room for, ... */
	int32_t timeout_ms;	/* ... and how long to wait for the first */
};

/* To a hello or a call. What follows a call's has the shape of what followed it. */
struct proxy_answer {
	int32_t rc;
	uint32_t bytes;
	uint64_t key;
};

static inline const struct op *proxy_op(uint32_t nr)
{
	return nr < ARRAY_SIZE(ops) && ops[nr].size ? &ops[nr] : NULL;
}

/*
 * Bytes of an array that the struct @arg names, and where; 0 if there is none, or not
 * even an address: that is for the authority to refuse. Elements that are too many for
 * it are not looked at by it either.
 */
static inline size_t proxy_array(const struct op *op, int i, const void *arg,
				 uint32_t size, uint64_t *address)
{
	const struct op_array *a = &op->array[i];
	uint32_t len;

	if (a->direction == NONE || size < op->size)
		return 0;
	memcpy(address, (const char *)arg + a->ptr, sizeof(*address));
	memcpy(&len, (const char *)arg + a->len, sizeof(len));
	return *address < 4096 ? 0 : (size_t)min(len, (u32)a->max) * a->elem;
}

static inline void proxy_set_array(const struct op *op, int i, void *arg,
				   uint64_t address)
{
	memcpy((char *)arg + op->array[i].ptr, &address, sizeof(address));
}

/* All of it, or -errno; a connection that ends before is -ECONNRESET. */
static inline int proxy_send(int fd, const void *data, size_t bytes)
{
	ssize_t n;

	for (; bytes; data = (const char *)data + n, bytes -= n) {
		do {
			n = send(fd, data, bytes, MSG_NOSIGNAL);
		} while (n < 0 && errno == EINTR);
		if (n < 0)
			return errno == EPIPE ? -ECONNRESET : -errno;
	}
	return 0;
}

static inline int proxy_receive(int fd, void *data, size_t bytes)
{
	ssize_t n;

	for (; bytes; data = (char *)data + n, bytes -= n) {
		do {
			n = recv(fd, data, bytes, MSG_WAITALL);
		} while (n < 0 && errno == EINTR);
		if (n <= 0)
			return n ? -errno : -ECONNRESET;
	}
	return 0;
}

#endif /* CAPKM_PROXY_WIRE_H */
