// SPDX-License-Identifier: GPL-2.0-only
/* Dumps: a request becomes a query of the engine and filters, a record a message. */
#include <linux/slab.h>
#include <linux/string.h>
#include <net/netlink.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"
#include "netlink.h"

#define FILTERS	7

struct kind {
	const struct capkm_record *record;
	enum capkm_dump what;
	struct {
		u16 attr;
		enum capkm_dump what;
	} flags[2];			/* what is dumped if the request has it */
	u16 domain;			/* attributes, 0 if there is none */
	u16 id;				/* unique in a domain: needs it */
	u16 object, start, end;		/* the object is needed, with its domain */
	u16 filters[FILTERS];
	/* What is not in the table of the record, or NULL. */
	int (*more)(struct sk_buff *skb, const void *record);
};

static int put_first_failure(struct sk_buff *skb, const void *record)
{
	const struct capkm_window_view *view = record;

	return view->window.out_failures ?
		capkm_put_report(skb, CAPKM_A_WINDOW_FIRST_FAILURE,
				 &view->first) : 0;
}

static int put_cause(struct sk_buff *skb, const void *record)
{
	const struct capkm_range_view *view = record;

	return capkm_put_report(skb, CAPKM_A_RANGE_CAUSE, &view->cause);
}

static int put_usages(struct sk_buff *skb, const void *record)
{
	const struct capkm_ledger_view *view = record;
	const struct capkm_ledger_query *q = &view->query;

	return capkm_put_usage(skb, CAPKM_A_LEDGER_PER_STEP, &q->out_per_step) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_CUMULATIVE,
			       &q->out_cumulative) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_INHERITED,
			       &q->out_inherited) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_STEP, &q->out_step) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_TOTAL, &q->out_total) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_DOMAIN_LIMIT, &view->limit) ||
	       capkm_put_usage(skb, CAPKM_A_LEDGER_DOMAIN_TOTAL, &view->charged);
}

static const struct kind kinds[] = {
	[CAPKM_CMD_DOMAIN_GET] = {
		.record = &capkm_domain_record,
		.what = CAPKM_DUMP_DOMAINS,
		.domain = CAPKM_A_DOMAIN_ID,
		.filters = { CAPKM_A_DOMAIN_UID },
	},
	[CAPKM_CMD_SESSION_GET] = {
		.record = &capkm_session_record,
		.what = CAPKM_DUMP_SESSIONS,
		.domain = CAPKM_A_SESSION_DOMAIN,
		.filters = {
			CAPKM_A_SESSION_ID, CAPKM_A_SESSION_PID,
			CAPKM_A_SESSION_UID,
		},
	},
	[CAPKM_CMD_CLIENT_GET] = {
		.record = &capkm_client_record,
		.what = CAPKM_DUMP_CLIENTS,
		.domain = CAPKM_A_CLIENT_DOMAIN,
		.id = CAPKM_A_CLIENT_ID,
		.filters = {
			CAPKM_A_CLIENT_ID, CAPKM_A_CLIENT_SESSION,
			CAPKM_A_CLIENT_PID, CAPKM_A_CLIENT_UID,
		},
	},
	[CAPKM_CMD_WINDOW_GET] = {
		.record = &capkm_window_record,
		.what = CAPKM_DUMP_WINDOWS,
		.flags = { { CAPKM_A_WINDOW_HISTORY, CAPKM_DUMP_HISTORY } },
		.domain = CAPKM_A_WINDOW_DOMAIN,
		.id = CAPKM_A_WINDOW_ID,
		.filters = {
			CAPKM_A_WINDOW_ID, CAPKM_A_WINDOW_SESSION,
			CAPKM_A_WINDOW_DEVICE, CAPKM_A_WINDOW_SLOT,
			CAPKM_A_WINDOW_STATE, CAPKM_A_WINDOW_PID,
			CAPKM_A_WINDOW_UID,
		},
		.more = put_first_failure,
	},
	[CAPKM_CMD_BUFFER_GET] = {
		.record = &capkm_buffer_record,
		.what = CAPKM_DUMP_BUFFERS,
		.domain = CAPKM_A_BUFFER_DOMAIN,
		.id = CAPKM_A_BUFFER_ID,
		.filters = {
			CAPKM_A_BUFFER_ID, CAPKM_A_BUFFER_SESSION,
			CAPKM_A_BUFFER_DEVICE,
		},
	},
	[CAPKM_CMD_GRAPH_GET] = {
		.record = &capkm_graph_record,
		.what = CAPKM_DUMP_GRAPHS,
		.domain = CAPKM_A_GRAPH_DOMAIN,
		.id = CAPKM_A_GRAPH_ID,
		.filters = {
			CAPKM_A_GRAPH_ID, CAPKM_A_GRAPH_SESSION,
			CAPKM_A_GRAPH_PID,
		},
	},
	[CAPKM_CMD_FAILURE_GET] = {
		.record = &capkm_failure_record,
		.what = CAPKM_DUMP_FAILURES,
		.flags = { { CAPKM_A_FAILURE_REPORTS, CAPKM_DUMP_REPORTS } },
		.domain = CAPKM_A_FAILURE_DOMAIN,
		.id = CAPKM_A_FAILURE_ID,
		.filters = {
			CAPKM_A_FAILURE_ID, CAPKM_A_FAILURE_KIND,
			CAPKM_A_FAILURE_WINDOW, CAPKM_A_FAILURE_SESSION,
			CAPKM_A_FAILURE_PID, CAPKM_A_FAILURE_UID,
		},
	},
	[CAPKM_CMD_TAINT_GET] = {
		.record = &capkm_range_record,
		.what = CAPKM_DUMP_TAINT,
		.domain = CAPKM_A_RANGE_DOMAIN,
		.object = CAPKM_A_RANGE_BUFFER,
		.start = CAPKM_A_RANGE_START,
		.end = CAPKM_A_RANGE_END,
		.more = put_cause,
	},
	[CAPKM_CMD_CARRIER_GET] = {
		.record = &capkm_carrier_record,
		.what = CAPKM_DUMP_CARRIERS,
		.domain = CAPKM_A_RANGE_DOMAIN,
		.object = CAPKM_A_RANGE_FAILURE,
	},
	[CAPKM_CMD_LEDGER_GET] = {
		.record = &capkm_ledger_record,
		.what = CAPKM_DUMP_LEDGERS,
		.domain = CAPKM_A_LEDGER_DOMAIN,
		.id = CAPKM_A_LEDGER_ID,
		.filters = {
			CAPKM_A_LEDGER_ID, CAPKM_A_LEDGER_SESSION,
			CAPKM_A_LEDGER_ORPHANED, CAPKM_A_LEDGER_PID,
			CAPKM_A_LEDGER_UID,
		},
		.more = put_usages,
	},
	[CAPKM_CMD_LIMIT_GET] = {
		.record = &capkm_limit_record,
		.what = CAPKM_DUMP_LIMITS,
		.flags = {
			{ CAPKM_A_LIMIT_DEFAULTS, CAPKM_DUMP_DEFAULTS },
			{ CAPKM_A_LIMIT_USERS, CAPKM_DUMP_USERS },
		},
		.domain = CAPKM_A_LIMIT_DOMAIN,
		.filters = { CAPKM_A_LIMIT_LIMIT, CAPKM_A_LIMIT_UID },
	},
};

/* What must be equal, and to what; the lengths are those of the policy. */
struct filter {
	const struct capkm_field *field;
	const void *value;
	bool last;		/* no record after a lower one will be */
};

/* From the first part of a dump to the last one. */
struct state {
	const struct kind *kind;
	struct capkm_dump_query query;
	struct capkm_cursor cursor;
	struct filter filters[FILTERS];
	u32 filters_n;
	bool begun;
};

struct ctx {
	struct state *state;
};

static_assert(sizeof(struct ctx) <= sizeof_field(struct netlink_callback, ctx));

static struct state *state_of(struct netlink_callback *cb)
{
	return ((struct ctx *)cb->ctx)->state;
}

static u8 cmd_of(struct netlink_callback *cb)
{
	const struct genlmsghdr *hdr = nlmsg_data(cb->nlh);

	return hdr->cmd;
}

/* What is compared with that of the message before; 0 would be none. */
static u32 seq_of(const struct state *st)
{
	return st->cursor.changes % U32_MAX + 1;
}

/* ---- the request ---- */

static int get_flags(struct state *st, struct nlattr **attrs,
		     struct netlink_ext_ack *extack)
{
	const struct kind *kind = st->kind;
	const struct nlattr *attr, *before = NULL;
	size_t i;

	st->query.what = kind->what;
	for (i = 0; i < ARRAY_SIZE(kind->flags) && kind->flags[i].attr; i++) {
		attr = attrs[kind->flags[i].attr];
		if (attr && before) {
			NL_SET_ERR_MSG_ATTR(extack, attr,
					    "defaults and users: one at a time");
			return -EINVAL;
		}
		if (attr)
			st->query.what = kind->flags[i].what;
		before = before ? before : attr;
	}
	return 0;
}

/* What a request names in a domain, it must name with the domain. */
static int get_object(struct state *st, struct nlattr **attrs,
		      struct netlink_ext_ack *extack)
{
	const struct kind *kind = st->kind;

	if (attrs[kind->domain] && (st->query.what == CAPKM_DUMP_DEFAULTS ||
				    st->query.what == CAPKM_DUMP_USERS)) {
		NL_SET_ERR_MSG_ATTR(extack, attrs[kind->domain],
				    "domain: not with defaults or users, which are of none");
		return -EINVAL;
	}
	if (attrs[kind->domain])
		st->query.domain = nla_get_u64(attrs[kind->domain]);
	if (!st->query.domain && kind->id && attrs[kind->id]) {
		NL_SET_ERR_MSG_ATTR(extack, attrs[kind->id],
				    "id: needs the domain that it is in");
		return -EINVAL;
	}
	if (!kind->object)
		return 0;
	if (NL_REQ_ATTR_CHECK(extack, NULL, attrs, kind->domain)) {
		NL_SET_ERR_MSG(extack, "attribute missing: domain");
		return -EINVAL;
	}
	if (NL_REQ_ATTR_CHECK(extack, NULL, attrs, kind->object)) {
		if (kind->object == CAPKM_A_RANGE_BUFFER)
			NL_SET_ERR_MSG(extack, "attribute missing: buffer");
		else
			NL_SET_ERR_MSG(extack, "attribute missing: failure");
		return -EINVAL;
	}
	st->query.object = nla_get_u64(attrs[kind->object]);
	if (kind->start && attrs[kind->start])
		st->query.start = nla_get_u64(attrs[kind->start]);
	if (kind->end && attrs[kind->end])
		st->query.end = nla_get_u64(attrs[kind->end]);
	return 0;
}

static void get_filters(struct state *st, struct nlattr **attrs)
{
	const struct kind *kind = st->kind;
	const struct nlattr *attr;
	struct filter *f;
	size_t i;

	for (i = 0; i < FILTERS && kind->filters[i]; i++) {
		attr = attrs[kind->filters[i]];
		if (!attr)
			continue;
		f = &st->filters[st->filters_n++];
		f->field = capkm_find_field(kind->record, kind->filters[i]);
		f->value = nla_data(attr);
		/* The history and the reports are in another order. */
		if (kind->filters[i] == kind->id &&
		    st->query.what == kind->what &&
		    st->query.what != CAPKM_DUMP_CLIENTS) {
			f->last = true;
			st->query.from = nla_get_u64(attr);
		}
	}
}

/* The do of failure-get, which shares its policy with the dump, has one more. */
static int refuse_others(const struct kind *kind, struct nlattr **attrs,
			 struct netlink_ext_ack *extack)
{
	struct nlattr *attr = NULL;

	if (kind->record == &capkm_failure_record)
		attr = attrs[CAPKM_A_FAILURE_BUFFER];
	if (!attr)
		return 0;
	NL_SET_ERR_MSG_ATTR(extack, attr,
			    "buffer: not in a dump; taint-get has the failures of a buffer");
	return -EINVAL;
}

static void explain(const struct state *st, struct nlattr **attrs, int err,
		    struct netlink_ext_ack *extack)
{
	const struct kind *kind = st->kind;

	if (err == -ENOENT && kind->object == CAPKM_A_RANGE_BUFFER)
		NL_SET_ERR_MSG_ATTR(extack, attrs[kind->object],
				    "no such domain, or no such buffer in it");
	else if (err == -ENOENT && kind->object)
		NL_SET_ERR_MSG_ATTR(extack, attrs[kind->object],
				    "no such domain, or no such failure in it");
	else if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(extack, attrs[kind->domain],
				    "no such domain, or none that you may see");
	else if (err == -EINVAL)
		NL_SET_ERR_MSG(extack, "start and end are no range of the buffer");
}

static int begin(struct state *st, struct nlattr **attrs,
		 struct netlink_ext_ack *extack)
{
	int err;

	err = get_flags(st, attrs, extack);
	if (!err)
		err = get_object(st, attrs, extack);
	if (!err)
		err = refuse_others(st->kind, attrs, extack);
	if (!err)
		get_filters(st, attrs);
	st->begun = !err;
	return err;
}

/* ---- the records ---- */

struct emit {
	struct state *state;
	struct sk_buff *skb;
	struct netlink_callback *cb;
};

#define STOP 1

static int check_filters(const struct state *st, const void *record, bool *pass)
{
	const struct filter *f;
	u32 i;

	*pass = false;
	for (i = 0; i < st->filters_n; i++) {
		f = &st->filters[i];
		if (!memcmp(record + f->field->offset, f->value, f->field->size))
			continue;
		return f->last ? STOP : 0;
	}
	*pass = true;
	return 0;
}

/* Under the domain's lock; the message has its memory already. */
static int emit(void *ctx, u64 domain, const void *record)
{
	const struct emit *e = ctx;
	const struct kind *kind = e->state->kind;
	struct netlink_callback *cb = e->cb;
	void *hdr;
	bool pass;
	int err;

	err = check_filters(e->state, record, &pass);
	if (err || !pass)
		return err;
	hdr = genlmsg_put(e->skb, NETLINK_CB(cb->skb).portid,
			  cb->nlh->nlmsg_seq, &capkm_family, NLM_F_MULTI,
			  cmd_of(cb));
	if (!hdr)
		return -EMSGSIZE;
	cb->seq = seq_of(e->state);
	if ((domain && capkm_put_u64(e->skb, kind->domain, domain)) ||
	    capkm_put_record(e->skb, kind->record, record) ||
	    (kind->more && kind->more(e->skb, record))) {
		genlmsg_cancel(e->skb, hdr);
		return -EMSGSIZE;
	}
	genl_dump_check_consistent(cb, hdr);
	genlmsg_end(e->skb, hdr);
	return 0;
}

static bool ready;

void capkm_netlink_ready(void)
{
	WRITE_ONCE(ready, true);
}

/*
 * Other requests are over when the family is unregistered. A dump goes on later, and
 * keeps the module by a reference, which a module that fails to load does not look at.
 */
int capkm_dump_start(struct netlink_callback *cb)
{
	struct state *st;

	if (!READ_ONCE(ready))
		return -EAGAIN;
	st = kzalloc(sizeof(*st), GFP_KERNEL_ACCOUNT);
	if (!st)
		return -ENOMEM;
	st->kind = &kinds[cmd_of(cb)];
	/* Also the first message says what changed before it. */
	cb->prev_seq = seq_of(st);
	((struct ctx *)cb->ctx)->state = st;
	return 0;
}

int capkm_dump_done(struct netlink_callback *cb)
{
	kfree(state_of(cb));
	return 0;
}

int capkm_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct nlattr **attrs = capkm_dump_attrs(cb);
	struct state *st = state_of(cb);
	struct emit e = {
		.state = st,
		.skb = skb,
		.cb = cb,
	};
	struct capkm_caller who;
	int err;

	/* Again for each part: the reader may be another one by now. */
	err = capkm_sender_init(&who, cb->skb, cb->extack);
	/* Not at the start, where old kernels have no words for what is wrong. */
	if (!err && !st->begun)
		err = begin(st, attrs, cb->extack);
	if (err)
		return err;

	err = capkm_dump(&st->query, &who, &st->cursor, emit, &e);
	/* Also that of the message that says that this is the end. */
	cb->seq = seq_of(st);
	if (err == STOP)
		return 0;
	if (err == -EMSGSIZE && skb->len)
		return skb->len;
	if (err < 0)
		explain(st, attrs, err, cb->extack);
	return err;
}
