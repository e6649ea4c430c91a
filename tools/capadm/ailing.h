/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is not well though the module answers: one table, by which status, health, doctor
 * and metrics judge.
 */
#ifndef CAPADM_AILING_H
#define CAPADM_AILING_H

#include "snapshot.h"

struct ailment;

struct finding {
	struct finding *next;
	const struct ailment *ailment;
	uint64_t domain;	/* 0: of a user */
	char *text;		/* one line, not escaped */
};

struct ailment {
	const char *key;
	enum colour colour;
	bool degrades;		/* work is refused, hangs or is lost: not for health alone */
	unsigned int option;	/* or health takes it for that with this one */
	struct finding **(*find)(const struct ailment *a, const struct snapshot *s,
				 struct finding **last);
	int attr;		/* a count of a domain, */
	uint64_t mask;		/* or a bit of it */
	const char *one, *many;	/* what it counts */
	const char *why;
	const char *command;	/* that is next; a domain may stand behind it, but for: */
	bool no_domain;
};

/* The worst first; key NULL at the end. */
extern const struct ailment ailments[];

/* By ailment, then by domain. The snapshot has SNAPSHOT_HEALTH. */
struct finding *find_ailments(const struct snapshot *s);
void free_findings(struct finding *f);
/* @options: health's */
bool is_degraded(const struct finding *f, unsigned int options);
/* What to do about it, in one domain, or, if that is 0, in all; the caller frees it. */
char *next_command(const struct ailment *a, uint64_t domain);

#endif /* CAPADM_AILING_H */
