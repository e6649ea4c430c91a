// SPDX-License-Identifier: GPL-2.0-only
/* Records of the engine as netlink attributes, by table. */
#include <linux/build_bug.h>
#include <linux/netlink.h>
#include <linux/string.h>
#include <net/netlink.h>

#include "engine/engine.h"
#include "netlink.h"

#define FIELD(a, w, type, member) {		\
	.attr = CAPKM_A_##a,			\
	.offset = offsetof(type, member),	\
	.size = sizeof_field(type, member),	\
	.wire = WIRE_##w,			\
}

#define DOMAIN(a, w, m)	FIELD(DOMAIN_##a, w, struct capkm_domain_query, m)
#define SESSION(a, w, m) FIELD(SESSION_##a, w, struct capkm_session_view, m)
#define CLIENT(a, w, m)	FIELD(CLIENT_##a, w, struct capkm_client_view, m)
#define WINDOW(a, w, m)	FIELD(WINDOW_##a, w, struct capkm_window_view, window.m)
#define WINDOW_VIEW(a, w, m) FIELD(WINDOW_##a, w, struct capkm_window_view, m)
#define BUFFER(a, w, m)	FIELD(BUFFER_##a, w, struct capkm_buffer_query, m)
#define GRAPH(a, w, m)	FIELD(GRAPH_##a, w, struct capkm_graph_view, m)
#define FAILURE(a, w, m) FIELD(FAILURE_##a, w, struct capkm_report, m)
#define RANGE(a, w, m)	FIELD(RANGE_##a, w, struct capkm_range_view, m)
#define LEDGER(a, w, m)	FIELD(LEDGER_##a, w, struct capkm_ledger_view, m)
#define USAGE(a, w, m)	FIELD(USAGE_##a, w, struct capkm_usage, m)
#define LIMIT(a, w, m)	FIELD(LIMIT_##a, w, struct capkm_limit_view, m)
#define EVENT(a, w, m)	FIELD(EVENT_##a, w, struct capkm_event, m)
#define HOP(a, w, m)	FIELD(HOP_##a, w, struct capkm_hop, m)

static const struct capkm_field domain_fields[] = {
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
	DOMAIN(CLIENTS,		NUMBER, out_clients),
	DOMAIN(FAULTED,		NUMBER, out_faulted),
	DOMAIN(UNCONFIRMED,	NUMBER, out_unconfirmed),
	DOMAIN(LEDGERS,		NUMBER, out_ledgers),
};

static const struct capkm_field window_fields[] = {
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
	WINDOW(PARENT,		NUMBER, out_parent),
	WINDOW(CHILDREN,	NUMBER, out_children),
	WINDOW(MEMBERS,		NUMBER, out_members),
	WINDOW(ESCAPED,		NUMBER, out_escaped),
	WINDOW_VIEW(TID,	NUMBER, tid),
};

static const struct capkm_field buffer_fields[] = {
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

static const struct capkm_field failure_fields[] = {
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

static const struct capkm_field session_fields[] = {
	SESSION(ID,		NUMBER, session),
	SESSION(RIGHTS,		NUMBER, rights),
	SESSION(BACKEND,	NUMBER, backend),
	SESSION(MAX_STREAMS,	NUMBER, max_streams),
	SESSION(SHARED,		NUMBER, shared),
	SESSION(CLIENTS,	NUMBER, clients),
	SESSION(PID,		NUMBER, pid),
	SESSION(UID,		NUMBER, uid),
	SESSION(COMM,		TEXT,	comm),
	SESSION(ATTACHED_NS,	NUMBER, attached_ns),
	SESSION(BUFFERS,	NUMBER, buffers),
	SESSION(STREAMS,	NUMBER, streams),
	SESSION(SCOPES,		NUMBER, scopes),
	SESSION(WINDOWS,	NUMBER, windows),
	SESSION(GRAPHS,		NUMBER, graphs),
	SESSION(UNCONFIRMED,	NUMBER, unconfirmed),
	SESSION(EVENTS_UNREAD,	NUMBER, events_unread),
	SESSION(EVENTS_LOST,	NUMBER, events_lost),
	SESSION(ENTERED,	NUMBER, entered),
	SESSION(SKIPPED,	NUMBER, skipped),
	SESSION(FAILED,		NUMBER, failed),
};

static const struct capkm_field client_fields[] = {
	CLIENT(ID,		NUMBER, client),
	CLIENT(SESSION,		NUMBER, session),
	CLIENT(PID,		NUMBER, pid),
	CLIENT(UID,		NUMBER, uid),
	CLIENT(COMM,		TEXT,	comm),
	CLIENT(ENDED,		NUMBER, ended),
	CLIENT(SINCE_NS,	NUMBER, since_ns),
	CLIENT(SCOPES,		NUMBER, scopes),
	CLIENT(WINDOWS,		NUMBER, windows),
	CLIENT(RECORDING,	NUMBER, recording),
	CLIENT(GRAPHS,		NUMBER, graphs),
	CLIENT(DEVICES,		NUMBER, devices),
	CLIENT(FAULTED,		NUMBER, faulted),
	CLIENT(UNCONFIRMED,	NUMBER, unconfirmed),
};

static const struct capkm_field graph_fields[] = {
	GRAPH(ID,		NUMBER, graph),
	GRAPH(WINDOW,		NUMBER, query.out_window),
	GRAPH(SESSION,		NUMBER, query.out_session),
	GRAPH(OWNER,		NUMBER, query.out_owner),
	GRAPH(COOKIE,		NUMBER, query.out_cookie),
	GRAPH(WRITES,		NUMBER, query.out_writes),
	GRAPH(INPUTS,		NUMBER, query.out_inputs),
	GRAPH(SEEN,		NUMBER, query.out_seen),
	GRAPH(RETAINED,		NUMBER, query.out_retained),
	GRAPH(RETAINED_BYTES,	NUMBER, query.out_retained_bytes),
	GRAPH(REPLAYS,		NUMBER, query.out_replays),
	GRAPH(FAILED_REPLAYS,	NUMBER, query.out_failed_replays),
	GRAPH(PID,		NUMBER, query.out_pid),
	GRAPH(REPLAYING,	NUMBER, query.out_replaying),
	GRAPH(UPDATES,		NUMBER, query.out_updates),
	GRAPH(FAILED_UPDATES,	NUMBER, query.out_failed_updates),
};

static const struct capkm_field range_fields[] = {
	RANGE(BUFFER,		NUMBER, buffer),
	RANGE(START,		NUMBER, start),
	RANGE(END,		NUMBER, end),
	RANGE(FAILURE,		NUMBER, failure),
	RANGE(RESULT,		NUMBER, result),
};

static const struct capkm_field ledger_fields[] = {
	LEDGER(ID,		NUMBER, query.out_ledger),
	LEDGER(LABEL,		TEXT,	query.out_label),
	LEDGER(FLAGS,		NUMBER, query.out_flags),
	LEDGER(ON_LIMIT,	NUMBER, query.out_on_limit),
	LEDGER(PARENT,		NUMBER, query.out_parent),
	LEDGER(SESSION,		NUMBER, query.out_holder),
	LEDGER(ORPHANED,	NUMBER, orphaned),
	LEDGER(PID,		NUMBER, pid),
	LEDGER(UID,		NUMBER, uid),
	LEDGER(COMM,		TEXT,	comm),
	LEDGER(CREATED_NS,	NUMBER, query.out_created_ns),
	LEDGER(STEPS,		NUMBER, query.out_steps),
	LEDGER(RESERVED,	NUMBER, query.out_reserved),
	LEDGER(REFUSED,		NUMBER, query.out_refused),
};

static const struct capkm_field usage_fields[] = {
	USAGE(CAPTURES,		NUMBER, captures),
	USAGE(RETAINED_BYTES,	NUMBER, retained_bytes),
	USAGE(HOST_BYTES,	NUMBER, host_bytes),
	USAGE(ENCODED_BYTES,	NUMBER, encoded_bytes),
};

static const struct capkm_field limit_fields[] = {
	LIMIT(LIMIT,		NUMBER, limit),
	LIMIT(VALUE,		NUMBER, value),
	LIMIT(USED,		MAYBE,	used),
	LIMIT(UID,		MAYBE,	uid),
};

static const struct capkm_field event_fields[] = {
	EVENT(TYPE,		NUMBER, type),
	EVENT(NUMBER,		NUMBER, number),
	EVENT(TIME_NS,		NUMBER, time_ns),
	EVENT(SEQUENCE,		NUMBER, sequence),
	EVENT(SESSION,		NUMBER, session),
	EVENT(STREAM,		NUMBER, stream),
	EVENT(WINDOW,		NUMBER, window),
	EVENT(GRAPH,		NUMBER, graph),
	EVENT(FAILURE,		NUMBER, failure),
	EVENT(COUNT,		NUMBER, count),
	EVENT(KIND,		NUMBER, kind),
	EVENT(PID,		NUMBER, pid),
	EVENT(DEVICE,		UUID,	device),
	EVENT(LEDGER,		NUMBER, ledger),
	EVENT(AXIS,		NUMBER, axis),
	EVENT(BOUND,		NUMBER, bound),
};

static const struct capkm_field hop_fields[] = {
	HOP(NEEDED,		NUMBER, needed),
	HOP(TIME_NS,		NUMBER, time_ns),
	HOP(LABEL,		TEXT,	label),
};

#define RECORD(name)						\
const struct capkm_record capkm_##name##_record = {		\
	.fields = name##_fields,				\
	.n = ARRAY_SIZE(name##_fields),				\
}

RECORD(domain);
RECORD(session);
RECORD(client);
RECORD(window);
RECORD(buffer);
RECORD(graph);
RECORD(failure);
RECORD(range);
RECORD(ledger);
RECORD(limit);
RECORD(event);
static RECORD(hop);
static RECORD(usage);

/* A range without what CHECK would say of it. */
const struct capkm_record capkm_carrier_record = {
	.fields = range_fields,
	.n = ARRAY_SIZE(range_fields) - 1,
};

/* Every set has it in the same place. */
#define PAD 1
static_assert(PAD == (int)CAPKM_A_DOMAIN_PAD);
static_assert(PAD == (int)CAPKM_A_SESSION_PAD);
static_assert(PAD == (int)CAPKM_A_CLIENT_PAD);
static_assert(PAD == (int)CAPKM_A_WINDOW_PAD);
static_assert(PAD == (int)CAPKM_A_BUFFER_PAD);
static_assert(PAD == (int)CAPKM_A_GRAPH_PAD);
static_assert(PAD == (int)CAPKM_A_FAILURE_PAD);
static_assert(PAD == (int)CAPKM_A_HOP_PAD);
static_assert(PAD == (int)CAPKM_A_RANGE_PAD);
static_assert(PAD == (int)CAPKM_A_LIMIT_PAD);
static_assert(PAD == (int)CAPKM_A_LEDGER_PAD);
static_assert(PAD == (int)CAPKM_A_USAGE_PAD);
static_assert(PAD == (int)CAPKM_A_EVENT_PAD);

const struct capkm_field *capkm_find_field(const struct capkm_record *record,
					   u16 attr)
{
	size_t i;

	for (i = 0; i < record->n; i++)
		if (record->fields[i].attr == attr)
			return &record->fields[i];
	return NULL;
}

int capkm_put_u64(struct sk_buff *skb, int attr, u64 value)
{
	return nla_put_u64_64bit(skb, attr, value, PAD);
}

static bool is_left_out(const struct capkm_field *f, const void *value)
{
	switch (f->wire) {
	case WIRE_TEXT:
		return !*(const char *)value;
	case WIRE_UUID:
		return !memchr_inv(value, 0, f->size);
	case WIRE_MAYBE:
		return !memchr_inv(value, 0xff, f->size);
	default:
		return false;
	}
}

static int put_field(struct sk_buff *skb, const struct capkm_field *f,
		     const void *value)
{
	if (is_left_out(f, value))
		return 0;
	switch (f->wire) {
	case WIRE_TEXT:
		return nla_put_string(skb, f->attr, value);
	case WIRE_UUID:
		return nla_put(skb, f->attr, f->size, value);
	default:
		return f->size == sizeof(u32) ?
			nla_put_u32(skb, f->attr, *(const u32 *)value) :
			capkm_put_u64(skb, f->attr, *(const u64 *)value);
	}
}

int capkm_put_record(struct sk_buff *skb, const struct capkm_record *record,
		     const void *data)
{
	const struct capkm_field *f = record->fields;
	size_t i;

	for (i = 0; i < record->n; i++)
		if (put_field(skb, &f[i], data + f[i].offset))
			return -EMSGSIZE;
	return 0;
}

static int put_nest(struct sk_buff *skb, int attr,
		    const struct capkm_record *record, const void *data)
{
	struct nlattr *nest = nla_nest_start(skb, attr);

	if (!nest || capkm_put_record(skb, record, data))
		return -EMSGSIZE;
	nla_nest_end(skb, nest);
	return 0;
}

int capkm_put_report(struct sk_buff *skb, int attr,
		     const struct capkm_report *report)
{
	return put_nest(skb, attr, &capkm_failure_record, report);
}

int capkm_put_usage(struct sk_buff *skb, int attr,
		    const struct capkm_usage *usage)
{
	return put_nest(skb, attr, &capkm_usage_record, usage);
}

int capkm_put_failure(struct sk_buff *skb,
		      const struct capkm_failure_view *view)
{
	u32 i;

	if (capkm_put_record(skb, &capkm_failure_record, &view->report) ||
	    capkm_put_u64(skb, CAPKM_A_FAILURE_SKIPS, view->skips) ||
	    capkm_put_u64(skb, CAPKM_A_FAILURE_DROPPED, view->dropped))
		return -EMSGSIZE;
	for (i = 0; i < view->hops_n; i++)
		if (put_nest(skb, CAPKM_A_FAILURE_HOP, &capkm_hop_record,
			     &view->hops[i]))
			return -EMSGSIZE;
	return view->stack_len ? nla_put(skb, CAPKM_A_FAILURE_STACK,
					 view->stack_len, view->stack) : 0;
}
