/* SPDX-License-Identifier: GPL-2.0-only */
/* What is not well though the module answers: for health and for doctor. */
#ifndef CAPADM_AILING_H
#define CAPADM_AILING_H

#include "snapshot.h"

struct ailment;

/* @domain: id, or 0; @text: one line, escaped */
typedef void (*ailing_fn)(const struct ailment *a, uint64_t domain, const char *text,
			  void *ctx);

struct ailment {
	const char *key;
	void (*find)(const struct ailment *a, const struct snapshot *s, ailing_fn fn,
		     void *ctx);
	int attr;		/* a count of a domain, and what it counts */
	const char *what;
	const char *next;	/* command, with the domain behind it */
	unsigned int option;	/* only with this one */
};

/* The snapshot has limits. */
void find_ailments(const struct request *rq, const struct snapshot *s, ailing_fn fn,
		   void *ctx);

#endif /* CAPADM_AILING_H */
