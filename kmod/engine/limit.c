// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What a user, session, client, window or domain may hold. */
#include "dump.h"

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
	[CAPKM_LIMIT_LEDGERS]		= 1024,
	[CAPKM_LIMIT_LEDGER_CAPTURES]	= U64_MAX,
	[CAPKM_LIMIT_LEDGER_RETAINED]	= U64_MAX,
	[CAPKM_LIMIT_LEDGER_HOST]	= U64_MAX,
	[CAPKM_LIMIT_LEDGER_ENCODED]	= U64_MAX,
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
	case CAPKM_LIMIT_LEDGERS:
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

static int set(struct domain *d, u32 limit, u64 value)
{
	host_lock(&d->lock);
	d->limit[limit] = value;
	ck_domain_trim(d);
	ck_tick(d);
	host_unlock(&d->lock);
	return 0;
}

int capkm_limit_set(u64 domain, u32 limit, u64 value,
		    const struct capkm_caller *who)
{
	struct domain *d;
	int err = -EPERM;

	if (!limit || limit >= CAPKM_LIMITS || is_of_user(limit))
		return -EINVAL;
	if (limit == CAPKM_LIMIT_EVENTS)
		return -EOPNOTSUPP;	/* the ring has its size */
	d = ck_domain_find_for(domain, who);
	if (!d)
		return -ENOENT;
	if (who->admin)
		err = set(d, limit, value);
	else if (!ck_domain_readable(d, who))
		err = -ENOENT;
	ck_domain_put(d);
	return err;
}

/* ---- what is used of them ---- */

static u64 scopes_of(const struct client *c)
{
	return c->scopes_n;
}

static u64 windows_of(const struct client *c)
{
	return c->windows_n;
}

static u64 graphs_of(const struct client *c)
{
	return c->graphs_n;
}

static u64 devices_of(const struct client *c)
{
	return c->devices_n;
}

static u64 clients_of(const struct capkm_session *s)
{
	return s->clients_n;
}

static u64 streams_of(const struct capkm_session *s)
{
	return s->streams_n;
}

static u64 buffers_of(const struct capkm_session *s)
{
	return s->holds.count;
}

/* Who has most counts. Of what is a window's or a slot's, nothing is here. */
static const struct {
	u64 (*session)(const struct capkm_session *s);
	u64 (*client)(const struct client *c);
} holders[CAPKM_LIMITS] = {
	[CAPKM_LIMIT_CLIENTS]	= { .session = clients_of },
	[CAPKM_LIMIT_STREAMS]	= { .session = streams_of },
	[CAPKM_LIMIT_BUFFERS]	= { .session = buffers_of },
	[CAPKM_LIMIT_SCOPES]	= { .client = scopes_of },
	[CAPKM_LIMIT_WINDOWS]	= { .client = windows_of },
	[CAPKM_LIMIT_GRAPHS]	= { .client = graphs_of },
	[CAPKM_LIMIT_DEVICES]	= { .client = devices_of },
};

static u64 most_of(const struct capkm_session *s, u32 limit)
{
	const struct link *l;
	u64 n = 0;

	if (holders[limit].session)
		return holders[limit].session(s);
	link_for_each(l, &s->clients)
		n = max(n, holders[limit].client(link_entry(l, struct client,
							    sib)));
	return n;
}

/* The lock is dropped now and then: what has gone by then has counted. */
static int most(struct dump *dump, u32 limit, u64 *n)
{
	struct capkm_session *s;
	u64 id = 0;
	int err;

	*n = 0;
	while ((s = ck_session_from(dump->domain, id))) {
		*n = max(*n, most_of(s, limit));
		id = s->id + 1;
		err = ck_dump_breathe(dump, s->clients_all);
		if (err < 0)
			return err;
	}
	return 0;
}

static int used(struct dump *dump, u32 limit, u64 *n)
{
	const struct domain *d = dump->domain;

	switch (limit) {
	case CAPKM_LIMIT_SESSIONS:
		*n = d->sessions_n;
		break;
	case CAPKM_LIMIT_RANGES:
		*n = d->claims + d->paid + d->writers;
		break;
	case CAPKM_LIMIT_OPEN_WINDOWS:
		*n = d->windows.count;
		break;
	case CAPKM_LIMIT_EVENTS:
		*n = min(d->events_total, (u64)d->events_max);
		break;
	case CAPKM_LIMIT_HISTORY:
		*n = d->history_n;
		break;
	case CAPKM_LIMIT_REPORTS:
		*n = d->reports_n;
		break;
	case CAPKM_LIMIT_LEDGERS:
		*n = d->ledgers.count;
		break;
	case CAPKM_LIMIT_LEDGER_CAPTURES:
	case CAPKM_LIMIT_LEDGER_RETAINED:
	case CAPKM_LIMIT_LEDGER_HOST:
	case CAPKM_LIMIT_LEDGER_ENCODED:
		*n = ck_ledgers_charged(d, limit);
		break;
	default:
		if (holders[limit].session || holders[limit].client)
			return most(dump, limit, n);
		*n = CAPKM_NOT_COUNTED;
	}
	return 0;
}

static int emit_limit(struct dump *dump, u32 limit, u64 value, u64 n, u32 uid)
{
	struct capkm_limit_view *v = &dump->record.limit;

	v->limit = limit;
	v->value = value;
	v->used = n;
	v->uid = uid;
	return ck_dump_emit(dump);
}

int ck_dump_limits(struct dump *dump)
{
	u64 *limit = &dump->cursor->id;
	int err = 0;
	u64 n;

	for (; !err && *limit < CAPKM_LIMITS; *limit += !err) {
		if (!*limit || is_of_user(*limit))
			continue;
		err = used(dump, *limit, &n);
		if (!err)
			err = emit_limit(dump, *limit,
					 dump->domain->limit[*limit], n,
					 CAPKM_NO_USER);
	}
	return err;
}

int ck_dump_defaults(struct dump *dump)
{
	u64 *limit = &dump->cursor->id;
	int err = 0;

	for (*limit = max(*limit, (u64)1); !err && *limit < CAPKM_LIMITS;
	     *limit += !err)
		err = emit_limit(dump, *limit, ck_limit_default(*limit),
				 CAPKM_NOT_COUNTED, CAPKM_NO_USER);
	return err;
}

/* The cursor's id is the user; at, whether his domains have been given. */
int ck_dump_users(struct dump *dump)
{
	struct capkm_cursor *cursor = dump->cursor;
	const struct capkm_caller *who = dump->who;
	const bool all = who->admin && who->all_nets;
	u64 domains, defunct;
	u32 uid;
	int err;

	if (!all)
		cursor->id = max(cursor->id, (u64)who->uid);
	while (ck_domains_of(&cursor->id, &domains, &defunct)) {
		if (!all && cursor->id != who->uid)
			break;
		uid = host_uid_view(cursor->id);
		err = cursor->at ? 0 :
			emit_limit(dump, CAPKM_LIMIT_DOMAINS,
				   ck_limit_default(CAPKM_LIMIT_DOMAINS),
				   domains, uid);
		if (err)
			return err;
		cursor->at = 1;
		err = emit_limit(dump, CAPKM_LIMIT_DEFUNCT,
				 ck_limit_default(CAPKM_LIMIT_DEFUNCT),
				 defunct, uid);
		if (err)
			return err;
		cursor->id++;
		cursor->at = 0;
	}
	return 0;
}
