// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The ranges that a call names: are they good, and what will an exit need. */
#include "internal.h"

int ck_targets_check(struct call *c, const struct array *claims, u32 base,
		     bool writes, u32 *bad)
{
	const struct capkm_claim *claim = claims->data;
	struct target *t = claims->target;
	u32 i;
	int err;

	for (i = 0; i < claims->len; i++) {
		err = ck_session_target(c->session, &claim[i], &t[i]);
		if (!err && writes && t[i].buffer->unallocated)
			err = -EINVAL;
		if (err) {
			*bad = base + i;
			c->say_error = true;
			return err;
		}
	}
	return 0;
}

int ck_targets_need(struct call *c, const struct array *writes,
		    struct need *need)
{
	const struct target *t = writes->target;
	u32 i, many = 0;
	int err;

	for (i = 0; i < writes->len; i++) {
		if (t[i].start == t[i].end)
			continue;
		many += t[i].buffer->claims.count >= RANGE_MANY;
		need->n[STOCK_CLAIM] += 1 + ck_taint_splits(&t[i]);
		need->n[STOCK_CARRIER]++;
		err = ck_domain_room(c, need->n[STOCK_CLAIM]);
		if (err)
			return err;
		host_relax();
	}
	/* Claims that follow each other share a block. */
	need->n[STOCK_BLOCK] += (many + 7) / 8;
	return 0;
}
