// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family: dumps of what the caller may read, and abandon.
 * Documentation/netlink/specs/capkm.yaml is the text of record.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/netlink.h>
#include <linux/string.h>
#include <net/genetlink.h>
#include <net/netlink.h>
#include <net/sock.h>

#include <linux/capkm_netlink.h>

#include "capkm.h"
#include "compat.h"
#include "engine/engine.h"

static struct genl_family capkm_family;

/* ---- records of the engine as attributes ---- */

enum wire {
	WIRE_NUMBER,	/* u32, s32 or u64, by its size */
	WIRE_TEXT,	/* NUL-terminated; left out if empty */
	WIRE_UUID,	/* left out if all zero */
};

struct field {
	u16 attr;
	u16 offset;
	u16 size;
	u16 wire;
};

#define FIELD(a, w, type, member) {		\
	.attr = CAPKM_A_##a,			\
	.offset = offsetof(type, member),	\
	.size = sizeof_field(type, member),	\
	.wire = WIRE_##w,			\
}

#define DOMAIN(a, w, m)	FIELD(DOMAIN_##a, w, struct capkm_domain_query, m)
#define WINDOW(a, w, m)	FIELD(WINDOW_##a, w, struct capkm_window_view, window.m)
#define BUFFER(a, w, m)	FIELD(BUFFER_##a, w, struct capkm_buffer_query, m)
#define FAILURE(a, w, m) FIELD(FAILURE_##a, w, struct capkm_report, m)

static const struct field domain_fields[] = {
	DOMAIN(STATE,		NUMBER, out_state),
	DOMAIN(MODE,		NUMBER, out_mode),
	DOMAIN(UID,		NUMBER, out_uid),
	DOMAIN(GID,		NUMBER, out_gid),
	DOMAIN(RIGHTS,		NUMBER, out_rights),
	DOMAIN(SESSIONS,	NUMBER, out_sessions),
	DOMAIN(SEQUENCE,	NUMBER, out_sequence),
	DOMAIN(BUFFERS,		NUMBER, out_buffers),
	DOMAIN(STREAMS,		NUMBER, out_streams),
	DOMAIN(SCOPES,		NUMBER, out_scopes),
	DOMAIN(WINDOWS,		NUMBER, out_windows),
	DOMAIN(ORPHANS,		NUMBER, out_orphans),
	DOMAIN(GRAPHS,		NUMBER, out_graphs),
	DOMAIN(FAILURES,	NUMBER, out_failures),
	DOMAIN(CLAIMS,		NUMBER, out_claims),
	DOMAIN(REPORTS,		NUMBER, out_reports),
	DOMAIN(HISTORY,		NUMBER, out_history),
	DOMAIN(CREATED_NS,	NUMBER, out_created_ns),
	DOMAIN(DEFUNCT_NS,	NUMBER, out_defunct_ns),
	DOMAIN(NAME,		TEXT,	out_name),
	DOMAIN(SEALED,		NUMBER, out_sealed),
	DOMAIN(GIVEN_UP,	NUMBER, out_given_up),
};

static const struct field window_fields[] = {
	WINDOW(ID,		NUMBER, out_window),
	WINDOW(OWNER,		NUMBER, out_owner),
	WINDOW(SESSION,		NUMBER, out_session),
	WINDOW(COOKIE,		NUMBER, out_cookie),
	WINDOW(GRAPH,		NUMBER, out_graph),
	WINDOW(DEVICE,		UUID,	out_device),
	WINDOW(SLOT,		NUMBER, out_slot),
	WINDOW(STATE,		NUMBER, out_state),
	WINDOW(VERDICT,		NUMBER, out_verdict),
	WINDOW(CAPTURE_CACHE,	NUMBER, out_capture_cache),
	WINDOW(DOOMED,		NUMBER, out_doomed),
	WINDOW(STRICT,		NUMBER, out_strict),
	WINDOW(PID,		NUMBER, out_pid),
	WINDOW(UID,		NUMBER, out_uid),
	WINDOW(RECORDED,	NUMBER, out_recorded),
	WINDOW(BYTES,		NUMBER, out_bytes),
	WINDOW(INPUTS,		NUMBER, out_inputs),
	WINDOW(RETAINED,	NUMBER, out_retained),
	WINDOW(RETAINED_BYTES,	NUMBER, out_retained_bytes),
	WINDOW(LAUNCHES,	NUMBER, out_launches),
	WINDOW(FOREIGN_LAUNCHES, NUMBER, out_foreign_launches),
	WINDOW(FAILURES,	NUMBER, out_failures),
	WINDOW(FAILED_AFTER,	NUMBER, out_failed_after),
	WINDOW(PREPARED_NS,	NUMBER, out_prepared_ns),
	WINDOW(BEGUN_NS,	NUMBER, out_begun_ns),
	WINDOW(CLOSED_NS,	NUMBER, out_closed_ns),
	WINDOW(COMM,		TEXT,	out_comm),
	WINDOW(MODE,		TEXT,	out_mode),
};

static const struct field buffer_fields[] = {
	BUFFER(ID,		NUMBER, buffer),
	BUFFER(BYTES,		NUMBER, out_bytes),
	BUFFER(DEVICE,		UUID,	out_device),
	BUFFER(ADDRESS,		NUMBER, out_address),
	BUFFER(SEQUENCE,	NUMBER, out_sequence),
	BUFFER(CLAIMS,		NUMBER, out_claims),
	BUFFER(FAILURES,	NUMBER, out_failures),
	BUFFER(SESSION,		NUMBER, out_session),
	BUFFER(STATE,		NUMBER, out_state),
	BUFFER(HOLDERS,		NUMBER, out_holders),
	BUFFER(USES,		NUMBER, out_uses),
	BUFFER(LABEL,		TEXT,	out_label),
};

static const struct field failure_fields[] = {
	FAILURE(ID,		NUMBER, failure),
	FAILURE(KIND,		NUMBER, kind),
	FAILURE(CODE,		NUMBER, code),
	FAILURE(BUFFER,		NUMBER, buffer),
	FAILURE(START,		NUMBER, start),
	FAILURE(END,		NUMBER, end),
	FAILURE(SCOPE,		NUMBER, scope),
	FAILURE(GRAPH,		NUMBER, graph),
	FAILURE(WINDOW,		NUMBER, window),
	FAILURE(STREAM,		NUMBER, stream),
	FAILURE(SESSION,	NUMBER, session),
	FAILURE(SEQUENCE,	NUMBER, sequence),
	FAILURE(TIME_NS,	NUMBER, time_ns),
	FAILURE(PID,		NUMBER, pid),
	FAILURE(TID,		NUMBER, tid),
	FAILURE(UID,		NUMBER, uid),
	FAILURE(CARRIERS,	NUMBER, carriers),
	FAILURE(HOPS,		NUMBER, hops),
	FAILURE(COMM,		TEXT,	comm),
	FAILURE(LABEL,		TEXT,	label),
	FAILURE(TEXT,		TEXT,	text),
};

/* Every set has it in the same place. */
#define PAD 1
static_assert(PAD == (int)CAPKM_A_DOMAIN_PAD);
static_assert(PAD == (int)CAPKM_A_WINDOW_PAD);
static_assert(PAD == (int)CAPKM_A_BUFFER_PAD);
static_assert(PAD == (int)CAPKM_A_FAILURE_PAD);

static int put_field(struct sk_buff *skb, const struct field *f,
		     const void *value)
{
	switch (f->wire) {
	case WIRE_TEXT:
		return *(const char *)value ?
			nla_put_string(skb, f->attr, value) : 0;
	case WIRE_UUID:
		return memchr_inv(value, 0, f->size) ?
			nla_put(skb, f->attr, f->size, value) : 0;
	default:
		return f->size == sizeof(u32) ?
			nla_put_u32(skb, f->attr, *(const u32 *)value) :
			nla_put_u64_64bit(skb, f->attr, *(const u64 *)value, PAD);
	}
}

static int put_fields(struct sk_buff *skb, const struct field *fields,
		      size_t n, const void *record)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (put_field(skb, &fields[i], record + fields[i].offset))
			return -EMSGSIZE;
	return 0;
}

static int put_first_failure(struct sk_buff *skb,
			     const struct capkm_window_view *view)
{
	struct nlattr *nest;

	if (!view->window.out_failures)
		return 0;
	nest = nla_nest_start(skb, CAPKM_A_WINDOW_FIRST_FAILURE);
	if (!nest || put_fields(skb, failure_fields, ARRAY_SIZE(failure_fields),
				&view->first))
		return -EMSGSIZE;	/* the whole message is taken back */
	nla_nest_end(skb, nest);
	return 0;
}

/* ---- who asks ---- */

/*
 * A socket can be handed to a process that may do more than its opener: as the
 * output of a setuid program, say. So nobody speaks for another user, and the
 * privilege must be there on both sides.
 */
static int sender_init(struct capkm_caller *who, struct sk_buff *skb,
		       struct netlink_ext_ack *extack)
{
	const struct cred *opener = NETLINK_CB(skb).sk->sk_socket->file->f_cred;

	if (!uid_eq(opener->euid, current_euid()) ||
	    !gid_eq(opener->egid, current_egid())) {
		NL_SET_ERR_MSG(extack, "the socket was opened by another user or group");
		return -EPERM;
	}
	capkm_caller_init(who);
	who->admin = who->admin && netlink_capable(skb, CAP_SYS_ADMIN);
	return 0;
}

/* ---- dumps ---- */

struct dump_kind {
	enum capkm_dump what;
	enum capkm_dump flagged;	/* if the request has flag_attr */
	u16 domain_attr;
	u16 flag_attr;			/* 0 if there is none */
	u16 n;
	const struct field *fields;
};

static const struct dump_kind dump_kinds[] = {
	[CAPKM_CMD_DOMAIN_GET] = {
		.what = CAPKM_DUMP_DOMAINS,
		.domain_attr = CAPKM_A_DOMAIN_ID,
		.fields = domain_fields,
		.n = ARRAY_SIZE(domain_fields),
	},
	[CAPKM_CMD_WINDOW_GET] = {
		.what = CAPKM_DUMP_WINDOWS,
		.flagged = CAPKM_DUMP_HISTORY,
		.domain_attr = CAPKM_A_WINDOW_DOMAIN,
		.flag_attr = CAPKM_A_WINDOW_HISTORY,
		.fields = window_fields,
		.n = ARRAY_SIZE(window_fields),
	},
	[CAPKM_CMD_BUFFER_GET] = {
		.what = CAPKM_DUMP_BUFFERS,
		.domain_attr = CAPKM_A_BUFFER_DOMAIN,
		.fields = buffer_fields,
		.n = ARRAY_SIZE(buffer_fields),
	},
	[CAPKM_CMD_FAILURE_GET] = {
		.what = CAPKM_DUMP_FAILURES,
		.flagged = CAPKM_DUMP_REPORTS,
		.domain_attr = CAPKM_A_FAILURE_DOMAIN,
		.flag_attr = CAPKM_A_FAILURE_REPORTS,
		.fields = failure_fields,
		.n = ARRAY_SIZE(failure_fields),
	},
};

/* In netlink_callback.ctx, which is zero at the start. */
struct dump_ctx {
	struct capkm_cursor cursor;
	u64 domain;
	enum capkm_dump what;
};
static_assert(sizeof(struct dump_ctx) <=
	      sizeof_field(struct netlink_callback, ctx));

struct emit {
	struct sk_buff *skb;
	struct netlink_callback *cb;
	const struct dump_kind *kind;
	u8 cmd;
};

static u8 dump_cmd(struct netlink_callback *cb)
{
	const struct genlmsghdr *hdr = nlmsg_data(cb->nlh);

	return hdr->cmd;
}

/* Under the domain's lock; the message has its memory already. */
static int emit(void *ctx, u64 domain, const void *record)
{
	const struct emit *e = ctx;
	void *hdr;

	hdr = genlmsg_put(e->skb, NETLINK_CB(e->cb->skb).portid,
			  e->cb->nlh->nlmsg_seq, &capkm_family, NLM_F_MULTI,
			  e->cmd);
	if (!hdr)
		return -EMSGSIZE;

	if (nla_put_u64_64bit(e->skb, e->kind->domain_attr, domain, PAD) ||
	    put_fields(e->skb, e->kind->fields, e->kind->n, record) ||
	    (e->cmd == CAPKM_CMD_WINDOW_GET && put_first_failure(e->skb, record))) {
		genlmsg_cancel(e->skb, hdr);
		return -EMSGSIZE;
	}
	genlmsg_end(e->skb, hdr);
	return 0;
}

static int stop_at_first(void *ctx, u64 domain, const void *record)
{
	return 1;
}

/*
 * A domain that was asked for by id: is it there, and may he? An error of start
 * is answered as that of any request; 6.1 passes it no extack.
 */
static int check_domain(u64 domain, struct netlink_callback *cb,
			struct nlattr *attr)
{
	struct capkm_cursor cursor = {};
	struct capkm_caller who;
	int err;

	err = sender_init(&who, cb->skb, cb->extack);
	if (err)
		return err;

	err = capkm_dump(CAPKM_DUMP_DOMAINS, domain, &who, &cursor,
			 stop_at_first, NULL);
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(cb->extack, attr, "no such domain");
	else if (err == -EACCES)
		NL_SET_ERR_MSG_ATTR(cb->extack, attr,
				    "the domain's mode does not let you read it");
	return err < 0 ? err : 0;
}

static int dump_start(struct netlink_callback *cb)
{
	const struct dump_kind *kind = &dump_kinds[dump_cmd(cb)];
	struct nlattr **attrs = capkm_dump_attrs(cb);
	struct dump_ctx *ctx = (void *)cb->ctx;
	struct nlattr *attr = attrs[kind->domain_attr];

	ctx->what = kind->what;
	if (kind->flag_attr && attrs[kind->flag_attr])
		ctx->what = kind->flagged;
	if (!attr)
		return 0;
	ctx->domain = nla_get_u64(attr);
	return check_domain(ctx->domain, cb, attr);
}

static int dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct dump_ctx *ctx = (void *)cb->ctx;
	struct emit e = {
		.skb = skb,
		.cb = cb,
		.cmd = dump_cmd(cb),
	};
	struct capkm_caller who;
	int err;

	/* Again for each part: the reader may be another one by now. */
	err = sender_init(&who, cb->skb, cb->extack);
	if (err)
		return err;

	e.kind = &dump_kinds[e.cmd];
	err = capkm_dump(ctx->what, ctx->domain, &who, &ctx->cursor, emit, &e);
	if (err == -EMSGSIZE && skb->len)
		return skb->len;
	return err;
}

/* ---- abandon ---- */

static int abandon(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *domain = info->attrs[CAPKM_A_WINDOW_DOMAIN];
	struct nlattr *window = info->attrs[CAPKM_A_WINDOW_ID];
	struct capkm_caller who;
	int err;

	if (GENL_REQ_ATTR_CHECK(info, CAPKM_A_WINDOW_DOMAIN)) {
		NL_SET_ERR_MSG(info->extack, "attribute missing: domain");
		return -EINVAL;
	}
	if (GENL_REQ_ATTR_CHECK(info, CAPKM_A_WINDOW_ID)) {
		NL_SET_ERR_MSG(info->extack, "attribute missing: id");
		return -EINVAL;
	}

	err = sender_init(&who, skb, info->extack);
	if (err)
		return err;

	err = capkm_abandon(nla_get_u64(domain), nla_get_u64(window), &who);
	if (err == -ENOENT)
		NL_SET_ERR_MSG_ATTR(info->extack, window,
				    "no such domain, or no such window in it");
	else if (err == -EPERM || err == -EACCES)
		NL_SET_ERR_MSG_ATTR(info->extack, domain,
				    "only the domain's owner or CAP_SYS_ADMIN may abandon");
	return err;
}

/* ---- the family ---- */

static const struct nla_policy domain_policy[] = {
	[CAPKM_A_DOMAIN_ID]		= NLA_POLICY_MIN(NLA_U64, 1),
};

static const struct nla_policy window_policy[] = {
	[CAPKM_A_WINDOW_DOMAIN]		= NLA_POLICY_MIN(NLA_U64, 1),
	[CAPKM_A_WINDOW_HISTORY]	= { .type = NLA_FLAG },
};

static const struct nla_policy buffer_policy[] = {
	[CAPKM_A_BUFFER_DOMAIN]		= NLA_POLICY_MIN(NLA_U64, 1),
};

static const struct nla_policy failure_policy[] = {
	[CAPKM_A_FAILURE_DOMAIN]	= NLA_POLICY_MIN(NLA_U64, 1),
	[CAPKM_A_FAILURE_REPORTS]	= { .type = NLA_FLAG },
};

static const struct nla_policy abandon_policy[] = {
	[CAPKM_A_WINDOW_DOMAIN]		= NLA_POLICY_MIN(NLA_U64, 1),
	[CAPKM_A_WINDOW_ID]		= NLA_POLICY_MIN(NLA_U64, 1),
};

#define DUMP(c, p) {				\
	.cmd = CAPKM_CMD_##c,			\
	.start = dump_start,			\
	.dumpit = dumpit,			\
	.policy = p,				\
	.maxattr = ARRAY_SIZE(p) - 1,		\
}

static const struct genl_ops capkm_ops[] = {
	DUMP(DOMAIN_GET, domain_policy),
	DUMP(WINDOW_GET, window_policy),
	DUMP(BUFFER_GET, buffer_policy),
	DUMP(FAILURE_GET, failure_policy),
	{
		.cmd = CAPKM_CMD_ABANDON,
		.doit = abandon,
		.policy = abandon_policy,
		.maxattr = ARRAY_SIZE(abandon_policy) - 1,
	},
};

/*
 * resv_start_op stays 0: all operations are strict. In all network namespaces:
 * what is given depends on who asks, not on where.
 */
static struct genl_family capkm_family __ro_after_init = {
	.name		= CAPKM_FAMILY_NAME,
	.version	= CAPKM_FAMILY_VERSION,
	.module		= THIS_MODULE,
	.netnsok	= true,
	.parallel_ops	= true,
	.ops		= capkm_ops,
	.n_ops		= ARRAY_SIZE(capkm_ops),
};

MODULE_ALIAS_GENL_FAMILY(CAPKM_FAMILY_NAME);

int __init capkm_netlink_init(void)
{
	return genl_register_family(&capkm_family);
}

void capkm_netlink_exit(void)
{
	genl_unregister_family(&capkm_family);
}
