/* SPDX-License-Identifier: GPL-2.0-only */
/* Where events come from. */
#ifndef CAPADM_EVENTS_H
#define CAPADM_EVENTS_H

#include "capadm.h"

/*
 * Of one event, attributes as by netlink; @lost events of its domain are missing before
 * it. An event without a type only says that.
 */
typedef void (*event_fn)(struct nlattr **attrs, uint64_t lost, void *ctx);

struct source;

/*
 * @domain: id, or 0 for all. By netlink if we may, else by a session of the domain.
 */
int events_open(const struct request *rq, uint64_t domain, bool failures,
		struct source **out);
int events_fd(const struct source *s);
/* Gives what is there, without waiting. *@ended is set: there will be no more. */
int events_read(const struct request *rq, struct source *s, event_fn fn, void *ctx,
		bool *ended);
/* False: there is no such domain any more. What cannot be found out is no end. */
bool events_domain_lives(const struct request *rq, struct source *s);
/* Events were lost, and nobody knows yet how many: gaps will say so. */
bool events_overrun(struct source *s);
void events_close(struct source *s);

#endif /* CAPADM_EVENTS_H */
