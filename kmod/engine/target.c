// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The ranges that a call names: are they good, and what will an exit need. */
#include "internal.h"

static bool empty(const struct capkm_claim *claim)
{
	return claim->start == claim->end;
}

struct target ck_target(struct call *c, const struct capkm_claim *claim)
{
	struct target t = {};

	ck_session_target(c->session, claim, &t);
	return t;
}

int ck_targets_check(struct call *c, const struct array *claims, u32 base,
		     bool writes, u32 *bad)
{
	const struct capkm_claim *claim = claims->data;
	struct target t;
	u32 i;
	int err;

	for (i = 0; i < claims->len; i++) {
		err = ck_session_target(c->session, &claim[i], &t);
		if (!err && writes && t.buffer->unallocated)
			err = -EINVAL;
		if (err) {
			*bad = base + i;
			c->say_error = true;
			return err;
		}
	}
	return 0;
}

int ck_domain_room(struct call *c, u64 claims)
{
	const struct domain *d = c->domain;
	const u64 max = d->limit[CAPKM_LIMIT_RANGES], used = d->claims + d->paid + d->writers;

	return used <= max && claims <= max - used ? 0 :
		ck_limit_reached(c, CAPKM_LIMIT_RANGES);
}

int ck_targets_need(struct call *c, const struct array *writes,
		    struct need *need)
{
	const struct capkm_claim *claim = writes->data;
	struct target t;
	u32 i;
	int err;

	for (i = 0; i < writes->len; i++) {
		if (empty(&claim[i]))
			continue;
		t = ck_target(c, &claim[i]);
		need->n[STOCK_CLAIM] += 1 + ck_taint_splits(&t);
		need->n[STOCK_CARRIER]++;
		err = ck_domain_room(c, need->n[STOCK_CLAIM]);
		if (err)
			return err;
		host_relax();
	}
	return 0;
}
