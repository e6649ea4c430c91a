/* SPDX-License-Identifier: MIT */
/* How operations of the ABI reach an authority. */
#ifndef CAPKM_LIB_TRANSPORT_H
#define CAPKM_LIB_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

/**
 * struct capkm_transport - one kind of authority
 * @name: for messages
 * @open: a new session; 0 and its state, or -errno and a text in @why
 * @call: one operation; 0 or -errno
 * @close: ends the session; @inherited: only gives back this process' share,
 *	the session is the parent's
 * @fd: its descriptor or -EOPNOTSUPP
 */
struct capkm_transport {
	const char *name;
	int (*open)(const char *path, void **state, char *why, size_t why_size);
	int (*call)(void *state, unsigned int nr, void *arg);
	void (*close)(void *state, bool inherited);
	int (*fd)(void *state);
};

extern const struct capkm_transport capkm_transport_kernel;
extern const struct capkm_transport capkm_transport_embedded;

/* For tests: the process @pid that they play has died, for this session. */
void capkm_embedded_die(void *state, unsigned int pid);

#endif /* CAPKM_LIB_TRANSPORT_H */
