/* SPDX-License-Identifier: MIT */
/*
 * For tests; in libcapkm.a only. Of the embedded engine the counts are the process'
 * own, over all embedded handles.
 */
#ifndef CAPKM_TEST_HOOKS_H
#define CAPKM_TEST_HOOKS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct capkm;

/* The n-th allocation of the engine from now on fails, once; 0: none does. */
void capkm_test_fail_alloc(uint64_t n);
/* Allocations of the engine so far. */
uint64_t capkm_test_alloc_count(void);
/* Those of them that were not freed. */
uint64_t capkm_test_alloc_live(void);
/* Where the ids and the sequence of new domains begin, see struct capkm_first. */
void capkm_test_first(uint64_t id, uint64_t sequence);
/* Times that it let others in between two pieces of long work. */
uint64_t capkm_test_let_in_count(void);
/* Times that the engine found itself in a state that cannot be. */
uint64_t capkm_test_check_count(void);

/*
 * As capkm_call() with the struct of an operation, by the library's fast path where it
 * has one: the answers have to be the same.
 */
int capkm_test_call(struct capkm *c, unsigned int nr, void *arg);
/* Of those of this thread, how many were answered by the fast path. */
uint64_t capkm_test_fast_count(void);

/* The scope table of a session that has one, to be written at will; or NULL. */
void *capkm_test_table(struct capkm *c);

/*
 * Other processes, played: the calling thread calls embedded handles, and opens
 * them, as process @pid, until it says 0.
 */
void capkm_test_become(uint32_t pid);
/* The process @pid has died; its client of the embedded handle @c ends. */
void capkm_test_die(struct capkm *c, uint32_t pid);

/*
 * From now on capkm_open() takes "proxy:HOST:PORT", see transport_proxy.c. @seconds: how
 * long the other end may be silent before a session begins or has ended.
 */
void capkm_test_offer_proxy(unsigned int seconds);
/*
 * Runs a shell command where the proxy at HOST:PORT is, an empty one ends it; its
 * output, and its exit status or -errno.
 */
int capkm_test_proxy_run(const char *address, const char *command, char *out,
			 size_t size);

#ifdef __cplusplus
}
#endif

#endif /* CAPKM_TEST_HOOKS_H */
