/* SPDX-License-Identifier: MIT */
/* The fast path, for the calls that have one: fast.c. False: ask. */
#ifndef CAPKM_LIB_FAST_H
#define CAPKM_LIB_FAST_H

#include <stdbool.h>
#include <stdint.h>

struct capkm;
struct capkm_answer;
struct capkm_claim;
struct capkm_error;
struct capkm_health;
struct capkm_report;
struct capkm_scope;
struct capkm_scope_opts;
struct capkm_where;

struct sets {
	const struct capkm_claim *reads, *writes;
	uint32_t reads_len, writes_len;
};

bool capkm_fast_enter(struct capkm *c, const struct capkm_where *where,
		      const struct sets *s, const struct capkm_scope_opts *opts,
		      struct capkm_scope *scope);
/* Of a scope whose id has CAPKM_SCOPE_FAST. */
bool capkm_fast_exit(struct capkm *c, struct capkm_scope *scope, bool complete);
bool capkm_fast_check(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
		      struct capkm_answer *answer);
/* enum capkm_window_state of the slot. */
bool capkm_fast_state(struct capkm *c, const struct capkm_where *where, uint32_t *state);
bool capkm_fast_health(struct capkm *c, struct capkm_health *h);

/* The calls themselves, for those that cannot be answered so. */
int capkm_scope_enter_ask(struct capkm *c, const struct capkm_where *where,
			  const struct sets *s, const struct capkm_scope_opts *opts,
			  struct capkm_scope *scope, struct capkm_report *why,
			  struct capkm_error *err);
int capkm_scope_exit_ask(struct capkm *c, struct capkm_scope *scope, uint32_t flags,
			 struct capkm_error *err);
int capkm_check_ask(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
		    struct capkm_answer *answer, struct capkm_error *err);

/*
 * Before the first buffer of the handle is made; then the handle has it, or never will.
 * 0 or -ENOMEM.
 */
int capkm_fast_open(struct capkm *c);
void capkm_fast_close(struct capkm *c);

/* For tests: this thread plays another process from now on, or does not any more. */
void capkm_fast_never(bool is);

#endif /* CAPKM_LIB_FAST_H */
