/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files that make a dump share: dump.c, dump_bytes.c and limit.c. */
#ifndef CAPKM_DUMP_H
#define CAPKM_DUMP_H

#include "internal.h"

/* A piece of a dump: one call of capkm_dump(). */
struct dump {
	const struct capkm_dump_query *query;
	const struct capkm_caller *who;
	struct capkm_cursor *cursor;
	capkm_emit_fn emit;
	void *ctx;
	struct domain *domain;		/* locked; NULL for what is in none */
	u64 steps;			/* in this hold of the lock */
	union {
		struct capkm_domain_query domain;
		struct capkm_session_view session;
		struct capkm_client_view client;
		struct capkm_window_view window;
		struct capkm_buffer_query buffer;
		struct capkm_graph_view graph;
		struct capkm_report failure;
		struct capkm_range_view range;
		struct capkm_ledger_view ledger;
		struct capkm_limit_view limit;
	} record;			/* zeroed after each emit */
};

int ck_dump_emit(struct dump *dump);
/*
 * One record, or what was looked at in place of one, is done, with @steps in loops of
 * its own, and the cursor is behind it. 1: the lock was dropped to let others in, look
 * again from the cursor on; 0: it was not; or -EINTR.
 */
int ck_dump_breathe(struct dump *dump, u64 steps);

int ck_dump_taint(struct dump *dump);
u64 ck_taint_changes(const struct dump *dump);
int ck_dump_carriers(struct dump *dump);
u64 ck_carriers_changes(const struct dump *dump);

int ck_dump_limits(struct dump *dump);
int ck_dump_defaults(struct dump *dump);
int ck_dump_users(struct dump *dump);

#endif /* CAPKM_DUMP_H */
