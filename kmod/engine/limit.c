// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What a user, session, client, window or domain may hold. */
#include "internal.h"

u64 capkm_limits[CAPKM_LIMITS] = {
	[CAPKM_LIMIT_DOMAINS]		= 1024,
	[CAPKM_LIMIT_DEFUNCT]		= 16,
	[CAPKM_LIMIT_SESSIONS]		= 4096,
	[CAPKM_LIMIT_CLIENTS]		= 256,
	[CAPKM_LIMIT_STREAMS]		= 65536,
	[CAPKM_LIMIT_BUFFERS]		= 4194304,
	[CAPKM_LIMIT_SCOPES]		= 65536,
	[CAPKM_LIMIT_WINDOWS]		= 4096,
	[CAPKM_LIMIT_GRAPHS]		= 65536,
	[CAPKM_LIMIT_DEVICES]		= 64,
	[CAPKM_LIMIT_CLAIMS]		= 1048576,
	[CAPKM_LIMIT_RETAINED]		= 65536,
	[CAPKM_LIMIT_MEMBERS]		= 1024,
	[CAPKM_LIMIT_DEPTH]		= 16,
	[CAPKM_LIMIT_RANGES]		= 16777216,
	[CAPKM_LIMIT_OPEN_WINDOWS]	= 65536,
	[CAPKM_LIMIT_UNCONFIRMED]	= 65536,
	[CAPKM_LIMIT_QUEUED]		= 32,
	[CAPKM_LIMIT_QUEUED_SHARED]	= 256,
	[CAPKM_LIMIT_EVENTS]		= 256,
	[CAPKM_LIMIT_HISTORY]		= 64,
	[CAPKM_LIMIT_REPORTS]		= 64,
};

u64 ck_limit_default(u32 limit)
{
	return READ_ONCE(capkm_limits[limit]);
}

int ck_limit_reached(struct call *c, u32 limit)
{
	c->limit = limit;
	switch (limit) {
	case CAPKM_LIMIT_SESSIONS:
	case CAPKM_LIMIT_RANGES:
	case CAPKM_LIMIT_OPEN_WINDOWS:
		return -ENOSPC;		/* the domain's */
	default:
		return -EDQUOT;
	}
}

int ck_limit(struct call *c, const struct domain *d, u32 limit, u64 used)
{
	return used < d->limit[limit] ? 0 : ck_limit_reached(c, limit);
}

static bool is_of_user(u32 limit)
{
	return limit == CAPKM_LIMIT_DOMAINS || limit == CAPKM_LIMIT_DEFUNCT;
}

static int check_value(const struct capkm_limit_value *v, bool admin)
{
	if (!v->limit || v->limit >= CAPKM_LIMITS || v->__reserved ||
	    is_of_user(v->limit))
		return -EINVAL;
	return v->value > ck_limit_default(v->limit) && !admin ? -EPERM : 0;
}

int ck_limits_init(struct call *c, struct domain *d,
		   const struct array *values)
{
	const struct capkm_limit_value *v = values->data;
	u32 i;
	int err;

	for (i = 0; i < CAPKM_LIMITS; i++)
		d->limit[i] = ck_limit_default(i);
	for (i = 0; i < values->len; i++) {
		err = check_value(&v[i], c->who->admin);
		if (err) {
			c->limit = v[i].limit;
			return err;
		}
		d->limit[v[i].limit] = v[i].value;
	}
	return 0;
}

u32 ck_limits_fill(const u64 *limits, struct array *out)
{
	struct capkm_limit_value *v = out->data;
	u32 i;

	for (i = 1; i < CAPKM_LIMITS && out->used < out->len; i++) {
		v[out->used].limit = i;
		v[out->used].__reserved = 0;
		v[out->used].value = READ_ONCE(limits[i]);
		out->used++;
	}
	return out->used;
}
