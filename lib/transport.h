/* SPDX-License-Identifier: MIT */
/* How operations of the ABI reach an authority. */
#ifndef CAPKM_LIB_TRANSPORT_H
#define CAPKM_LIB_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capkm_event;

/**
 * struct capkm_transport - one kind of authority
 * @name: for messages
 * @open: a new session; 0 and its state, or -errno and a text in @why
 * @call: one operation; 0 or -errno
 * @events: up to @len events, the first waited for up to @timeout_ms (-1: for
 *	ever); how many, 0 if there will be none any more, or -errno
 * @close: ends the session; @inherited: only gives back this process' share,
 *	the session is the parent's
 * @fd: its descriptor or -EOPNOTSUPP
 * @map: what there is at an offset, CAPKM_MAP_*, in memory; NULL: it cannot be had. The
 *	method is NULL where there is no memory to share
 * @unmap: gives it back; NULL is fine
 */
struct capkm_transport {
	const char *name;
	int (*open)(const char *path, void **state, char *why, size_t why_size);
	int (*call)(void *state, unsigned int nr, void *arg);
	int (*events)(void *state, struct capkm_event *events, uint32_t len,
		      int timeout_ms);
	void (*close)(void *state, bool inherited);
	int (*fd)(void *state);
	void *(*map)(void *state, uint64_t offset, size_t bytes, bool writable);
	void (*unmap)(void *p, size_t bytes);
};

extern const struct capkm_transport capkm_transport_kernel;
/* The state of a duplicate of @fd, which is close-on-exec; 0 or -errno. */
int capkm_kernel_adopt(int fd, void **state);
extern const struct capkm_transport capkm_transport_embedded;
/* The one for tests, once a test has offered it, see transport_proxy.c. */
extern const struct capkm_transport *capkm_proxy;

/* For tests: the process @pid that they play has died, for this session. */
void capkm_embedded_die(void *state, unsigned int pid);

#endif /* CAPKM_LIB_TRANSPORT_H */
