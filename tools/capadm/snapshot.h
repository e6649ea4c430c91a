/* SPDX-License-Identifier: GPL-2.0-only */
/* All that status, top, health, metrics and doctor judge by: dumps, one after the other. */
#ifndef CAPADM_SNAPSHOT_H
#define CAPADM_SNAPSHOT_H

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

/* One record: its numbers by attribute, and its texts. */
struct record {
	struct record *next;
	bool has[ATTR_MAX + 1];
	uint64_t number[ATTR_MAX + 1];
	char *text;		/* name of the domain, process or limit, label, as it came, or "" */
	struct nlattr *all;	/* as attrs[0] of a record has it */
	bool near;		/* a limit of which calls will soon be refused */
};

struct records {
	struct record *first, **last;
	size_t n;
};

struct snapshot {
	struct records domains, sessions, limits, users, ledgers;
};

enum {
	SNAPSHOT_SESSIONS	= 1 << 0,
	SNAPSHOT_LIMITS		= 1 << 1,
	SNAPSHOT_LEDGERS	= 1 << 2,
	/* What ailing.c judges by. */
	SNAPSHOT_HEALTH		= SNAPSHOT_LIMITS | SNAPSHOT_LEDGERS,
};

/* @domain: id, or 0 for all that the user may read; @what: SNAPSHOT_* */
int snapshot_take(const struct request *rq, struct snapshot *s, uint64_t domain,
		  unsigned int what);
void snapshot_free(struct snapshot *s);

const struct record *snapshot_domain(const struct snapshot *s, uint64_t id);
/* All attributes of @r, as a record_fn gets them; false: they do not parse. */
bool snapshot_attrs(const struct record *r, struct nlattr **attrs);
/* "3 (inference)", not escaped; the caller frees it. */
char *snapshot_domain_text(const struct snapshot *s, uint64_t id);

/* "950 of 1000 ranges, domain 3 (inference)", not escaped; the caller frees it. */
char *limit_text(const struct snapshot *s, const struct record *r);

/*
 * Who answers. Asking loads no module: netlink would, so it is left alone where there
 * is none. The reason, of what is not, is one line.
 */
struct authority {
	bool loaded;
	struct capkm_info info;	/* if !err */
	int err;		/* of opening the node or asking it, errno */
	char *why;		/* there is no authority, or NULL */
};

void authority_ask(struct authority *a);
bool module_loaded(void);
int ask_info(struct capkm_info *info);	/* version.c: 0 or errno */

#endif /* CAPADM_SNAPSHOT_H */
