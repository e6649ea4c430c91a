/* SPDX-License-Identifier: GPL-2.0-only */
/* Options that take a number, and waiting between two looks. */
#ifndef CAPADM_VALUES_H
#define CAPADM_VALUES_H

#include <signal.h>

#include "capadm.h"

/* --count: 0 if it is not given, which is: without an end. */
int option_count(const struct request *rq, uint64_t *count);
/* --interval in nanoseconds. */
int option_interval(const struct request *rq, uint64_t *ns);

/*
 * From now on SIGINT and SIGTERM only come while a ppoll() with *@waiting waits, and
 * make stop_asked() true.
 */
void stop_catch(sigset_t *waiting);
bool stop_asked(void);

uint64_t monotonic_ns(void);
/* Until then, or until it is to stop. */
void sleep_until(uint64_t ns, const sigset_t *waiting);

#endif /* CAPADM_VALUES_H */
