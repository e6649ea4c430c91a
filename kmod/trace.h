/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints, for host_trace() of the engine. Names and fields are stable: see
 * Documentation/admin-guide/tracing.rst. They are given the engine's own objects,
 * under the lock of the domain, so that nothing is looked up while they are off;
 * engine/internal.h, which defines these, includes this file at its end.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM capkm

#if !defined(CAPKM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define CAPKM_TRACE_H

#include <linux/pid.h>
#include <linux/tracepoint.h>

#define CAPKM_TRACE_STATES						\
	EM(CAPKM_WINDOW_NONE,		"none")				\
	EM(CAPKM_WINDOW_PREPARE,	"prepare")			\
	EM(CAPKM_WINDOW_OPENING,	"opening")			\
	EM(CAPKM_WINDOW_CAPTURE,	"capture")			\
	EM(CAPKM_WINDOW_CLOSING,	"closing")			\
	EM(CAPKM_WINDOW_SEALED,		"sealed")			\
	EM(CAPKM_WINDOW_REFUSED,	"refused")			\
	EM(CAPKM_WINDOW_ORPHANED,	"orphaned")			\
	EMe(CAPKM_WINDOW_MEMBER,	"member")

#define CAPKM_TRACE_KINDS						\
	EM(CAPKM_KIND_NONE,		"none")				\
	EM(CAPKM_KIND_GENERIC,		"generic")			\
	EM(CAPKM_KIND_VALIDATION,	"validation")			\
	EM(CAPKM_KIND_LAUNCH,		"launch")			\
	EM(CAPKM_KIND_IO,		"io")				\
	EM(CAPKM_KIND_TRANSPORT,	"transport")			\
	EM(CAPKM_KIND_FOREIGN_HANDLE,	"foreign-handle")		\
	EM(CAPKM_KIND_SERVICE_MISMATCH,	"service-mismatch")		\
	EM(CAPKM_KIND_DRIVER,		"driver")			\
	EM(CAPKM_KIND_TORN_DOWN,	"torn-down")			\
	EM(CAPKM_KIND_REFUSED,		"refused")			\
	EM(CAPKM_KIND_ABANDONED,	"abandoned")			\
	EM(CAPKM_KIND_ABORTED,		"aborted")			\
	EM(CAPKM_KIND_INCOMPLETE,	"incomplete")			\
	EM(CAPKM_KIND_OWNER_DIED,	"owner-died")			\
	EM(CAPKM_KIND_UNALLOCATED,	"unallocated")			\
	EM(CAPKM_KIND_DEVICE_FAULT,	"device-fault")			\
	EM(CAPKM_KIND_UNCONFIRMED,	"unconfirmed")			\
	EM(CAPKM_KIND_MERGE,		"merge")			\
	EM(CAPKM_KIND_ESCAPED,		"escaped")			\
	EM(CAPKM_KIND_IN_PROGRESS,	"in-progress")			\
	EMe(CAPKM_KIND_STALE,		"stale")

#define CAPKM_TRACE_AXES						\
	EM(CAPKM_AXIS_NONE,		"none")				\
	EM(CAPKM_AXIS_CAPTURES,		"captures")			\
	EM(CAPKM_AXIS_RETAINED,		"retention")			\
	EM(CAPKM_AXIS_HOST,		"host")				\
	EMe(CAPKM_AXIS_ENCODED,		"encoded")

#define CAPKM_TRACE_BOUNDS						\
	EM(CAPKM_BOUND_NONE,		"none")				\
	EM(CAPKM_BOUND_STEP,		"step")				\
	EM(CAPKM_BOUND_TOTAL,		"total")			\
	EMe(CAPKM_BOUND_DOMAIN,		"domain")

/* What reads a format without the kernel's headers is told the values. */
#undef EM
#undef EMe
#define EM(value, name)		TRACE_DEFINE_ENUM(value);
#define EMe(value, name)	TRACE_DEFINE_ENUM(value);
CAPKM_TRACE_STATES
CAPKM_TRACE_KINDS
CAPKM_TRACE_AXES
CAPKM_TRACE_BOUNDS

#undef EM
#undef EMe
#define EM(value, name)		{ value, name },
#define EMe(value, name)	{ value, name }
#define show_state(state)	__print_symbolic(state, CAPKM_TRACE_STATES)
#define show_kind(kind)		__print_symbolic(kind, CAPKM_TRACE_KINDS)
#define show_axis(axis)		__print_symbolic(axis, CAPKM_TRACE_AXES)
#define show_bound(bound)	__print_symbolic(bound, CAPKM_TRACE_BOUNDS)

/* In the initial namespace, like the pid that is common to all events. */
#define capkm_trace_pid(who)						\
	((who)->proc ? pid_nr((struct pid *)(who)->proc) : 0)

/* ---- windows ---- */

DECLARE_EVENT_CLASS(capkm_window,

	TP_PROTO(const struct domain *d, const struct window *w),

	TP_ARGS(d, w),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, window)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u32, slot)
		__field(u64, parent)
		__field(u32, state)
		__field(u32, kind)
		__field(u64, failure)
		__field(u64, failures)
		__field(u64, launches)
		__field(u64, recorded)
		__field(u64, graph)
	),

	TP_fast_assign(
		const struct failure *f = w->refused ? w->refusal : w->first;

		__entry->domain = d->id;
		__entry->window = w->node.id;
		__entry->session = w->opener.session;
		__entry->stream = w->opener.stream;
		__entry->pid = capkm_trace_pid(&w->opener);
		__entry->slot = w->slot_index;
		__entry->parent = w->parent_id;
		__entry->state = w->state;
		__entry->kind = f ? f->kind : CAPKM_KIND_NONE;
		__entry->failure = f ? f->node.id : 0;
		__entry->failures = w->failures;
		__entry->launches = w->launches;
		__entry->recorded = w->recorded;
		__entry->graph = w->graph;
	),

	TP_printk("domain=%llu window=%llu session=%llu stream=%llu pid=%d slot=%u parent=%llu state=%s kind=%s failure=%llu failures=%llu launches=%llu recorded=%llu graph=%llu",
		  __entry->domain, __entry->window, __entry->session,
		  __entry->stream, __entry->pid, __entry->slot,
		  __entry->parent, show_state(__entry->state),
		  show_kind(__entry->kind), __entry->failure,
		  __entry->failures, __entry->launches, __entry->recorded,
		  __entry->graph)
);

#define CAPKM_WINDOW_EVENT(name)					\
	DEFINE_EVENT(capkm_window, name,				\
		TP_PROTO(const struct domain *d, const struct window *w), \
		TP_ARGS(d, w))

CAPKM_WINDOW_EVENT(capkm_window_prepare);
CAPKM_WINDOW_EVENT(capkm_window_begin);
CAPKM_WINDOW_EVENT(capkm_window_end);
CAPKM_WINDOW_EVENT(capkm_window_abort);
CAPKM_WINDOW_EVENT(capkm_window_abandon);
CAPKM_WINDOW_EVENT(capkm_window_orphan);
CAPKM_WINDOW_EVENT(capkm_window_close);

/* ---- failures ---- */

DECLARE_EVENT_CLASS(capkm_failure,

	TP_PROTO(const struct domain *d, const struct failure *f),

	TP_ARGS(d, f),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, failure)
		__field(u32, kind)
		__field(s32, code)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u64, window)
		__field(u64, scope)
		__field(u64, graph)
		__field(u64, skips)
		__array(char, label, CAPKM_LABEL_MAX + 1)
	),

	TP_fast_assign(
		__entry->domain = d->id;
		__entry->failure = f->node.id;
		__entry->kind = f->kind;
		__entry->code = f->code;
		__entry->session = f->who.session;
		__entry->stream = f->who.stream;
		__entry->pid = capkm_trace_pid(&f->who);
		__entry->window = f->window;
		__entry->scope = f->scope;
		__entry->graph = f->graph;
		__entry->skips = f->skips_total;
		ck_copy_clean(__entry->label, sizeof(__entry->label),
			      f->label, sizeof(f->label));
	),

	TP_printk("domain=%llu failure=%llu kind=%s code=%d session=%llu stream=%llu pid=%d window=%llu scope=%llu graph=%llu skips=%llu label=%s",
		  __entry->domain, __entry->failure, show_kind(__entry->kind),
		  __entry->code, __entry->session, __entry->stream,
		  __entry->pid, __entry->window, __entry->scope,
		  __entry->graph, __entry->skips, __entry->label)
);

#define CAPKM_FAILURE_EVENT(name)					\
	DEFINE_EVENT(capkm_failure, name,				\
		TP_PROTO(const struct domain *d, const struct failure *f), \
		TP_ARGS(d, f))

CAPKM_FAILURE_EVENT(capkm_failure_mint);
CAPKM_FAILURE_EVENT(capkm_failure_prune);

TRACE_EVENT(capkm_window_doom,

	TP_PROTO(const struct window *w, const struct failure *f),

	TP_ARGS(w, f),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, window)
		__field(u32, state)
		__field(u64, launches)
		__field(u64, failure)
		__field(u32, kind)
		__field(s32, code)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u64, scope)
		__field(u64, graph)
		__array(char, label, CAPKM_LABEL_MAX + 1)
	),

	TP_fast_assign(
		__entry->domain = w->client->session->domain->id;
		__entry->window = w->node.id;
		__entry->state = w->state;
		__entry->launches = w->launches;
		__entry->failure = f->node.id;
		__entry->kind = f->kind;
		__entry->code = f->code;
		__entry->session = f->who.session;
		__entry->stream = f->who.stream;
		__entry->pid = capkm_trace_pid(&f->who);
		__entry->scope = f->scope;
		__entry->graph = f->graph;
		ck_copy_clean(__entry->label, sizeof(__entry->label),
			      f->label, sizeof(f->label));
	),

	TP_printk("domain=%llu window=%llu state=%s launches=%llu failure=%llu kind=%s code=%d session=%llu stream=%llu pid=%d scope=%llu graph=%llu label=%s",
		  __entry->domain, __entry->window, show_state(__entry->state),
		  __entry->launches, __entry->failure,
		  show_kind(__entry->kind), __entry->code, __entry->session,
		  __entry->stream, __entry->pid, __entry->scope,
		  __entry->graph, __entry->label)
);

/* ---- scopes ---- */

TRACE_EVENT(capkm_scope_enter,

	TP_PROTO(const struct scope *s, u32 reads, u32 writes),

	TP_ARGS(s, reads, writes),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, scope)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u32, slot)
		__field(u64, window)
		__field(u32, reads)
		__field(u32, writes)
		__array(char, label, CAPKM_LABEL_MAX + 1)
	),

	TP_fast_assign(
		__entry->domain = s->client->session->domain->id;
		__entry->scope = s->id;
		__entry->session = s->client->session->id;
		__entry->stream = s->stream;
		__entry->pid = capkm_trace_pid(&s->client->who);
		__entry->slot = s->slot->index;
		__entry->window = s->window ? s->window->node.id : 0;
		__entry->reads = reads;
		__entry->writes = writes;
		ck_copy_clean(__entry->label, sizeof(__entry->label),
			      s->label, sizeof(s->label));
	),

	TP_printk("domain=%llu scope=%llu session=%llu stream=%llu pid=%d slot=%u window=%llu reads=%u writes=%u label=%s",
		  __entry->domain, __entry->scope, __entry->session,
		  __entry->stream, __entry->pid, __entry->slot,
		  __entry->window, __entry->reads, __entry->writes,
		  __entry->label)
);

/* Work that did not run, neither as a scope nor as a replay of @graph. */
TRACE_EVENT(capkm_scope_skip,

	TP_PROTO(const struct slot *slot, u64 stream, const struct window *w,
		 const struct failure *f, const struct array *label),

	TP_ARGS(slot, stream, w, f, label),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u32, slot)
		__field(u64, window)
		__field(u64, failure)
		__field(u32, kind)
		__array(char, label, CAPKM_LABEL_MAX + 1)
	),

	TP_fast_assign(
		__entry->domain = slot->client->session->domain->id;
		__entry->session = slot->client->session->id;
		__entry->stream = stream;
		__entry->pid = capkm_trace_pid(&slot->client->who);
		__entry->slot = slot->index;
		__entry->window = w ? w->node.id : 0;
		__entry->failure = f->node.id;
		__entry->kind = f->kind;
		ck_copy_clean(__entry->label, sizeof(__entry->label),
			      label->data, label->len);
	),

	TP_printk("domain=%llu session=%llu stream=%llu pid=%d slot=%u window=%llu failure=%llu kind=%s label=%s",
		  __entry->domain, __entry->session, __entry->stream,
		  __entry->pid, __entry->slot, __entry->window,
		  __entry->failure, show_kind(__entry->kind),
		  __entry->label)
);

DECLARE_EVENT_CLASS(capkm_scope_end,

	TP_PROTO(const struct scope *s, const struct failure *f, bool complete),

	TP_ARGS(s, f, complete),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, scope)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u32, slot)
		__field(u64, window)
		__field(u64, failure)
		__field(u32, kind)
		__field(s32, code)
		__field(bool, complete)
	),

	TP_fast_assign(
		__entry->domain = s->client->session->domain->id;
		__entry->scope = s->id;
		__entry->session = s->client->session->id;
		__entry->stream = s->stream;
		__entry->pid = capkm_trace_pid(&s->client->who);
		__entry->slot = s->slot->index;
		__entry->window = s->window ? s->window->node.id : 0;
		__entry->failure = f ? f->node.id : 0;
		__entry->kind = f ? f->kind : CAPKM_KIND_NONE;
		__entry->code = f ? f->code : 0;
		__entry->complete = complete;
	),

	TP_printk("domain=%llu scope=%llu session=%llu stream=%llu pid=%d slot=%u window=%llu failure=%llu kind=%s code=%d complete=%d",
		  __entry->domain, __entry->scope, __entry->session,
		  __entry->stream, __entry->pid, __entry->slot,
		  __entry->window, __entry->failure,
		  show_kind(__entry->kind), __entry->code, __entry->complete)
);

#define CAPKM_SCOPE_END_EVENT(name)					\
	DEFINE_EVENT(capkm_scope_end, name,				\
		TP_PROTO(const struct scope *s, const struct failure *f, \
			 bool complete),				\
		TP_ARGS(s, f, complete))

CAPKM_SCOPE_END_EVENT(capkm_scope_exit);
CAPKM_SCOPE_END_EVENT(capkm_scope_torn);

/* ---- graphs ---- */

DECLARE_EVENT_CLASS(capkm_graph_replay,

	TP_PROTO(const struct graph *g, const struct slot *slot, u64 stream,
		 const struct failure *f, bool complete),

	TP_ARGS(g, slot, stream, f, complete),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, graph)
		__field(u64, session)
		__field(u64, stream)
		__field(pid_t, pid)
		__field(u32, slot)
		__field(u64, writes)
		__field(u64, inputs)
		__field(u64, failure)
		__field(u32, kind)
		__field(s32, code)
		__field(bool, complete)
	),

	TP_fast_assign(
		__entry->domain = g->client->session->domain->id;
		__entry->graph = g->node.id;
		__entry->session = g->client->session->id;
		__entry->stream = stream;
		__entry->pid = capkm_trace_pid(&g->client->who);
		__entry->slot = slot->index;
		__entry->writes = g->writes;
		__entry->inputs = g->inputs;
		__entry->failure = f ? f->node.id : 0;
		__entry->kind = f ? f->kind : CAPKM_KIND_NONE;
		__entry->code = f ? f->code : 0;
		__entry->complete = complete;
	),

	TP_printk("domain=%llu graph=%llu session=%llu stream=%llu pid=%d slot=%u writes=%llu inputs=%llu failure=%llu kind=%s code=%d complete=%d",
		  __entry->domain, __entry->graph, __entry->session,
		  __entry->stream, __entry->pid, __entry->slot,
		  __entry->writes, __entry->inputs, __entry->failure,
		  show_kind(__entry->kind), __entry->code, __entry->complete)
);

#define CAPKM_GRAPH_REPLAY_EVENT(name)					\
	DEFINE_EVENT(capkm_graph_replay, name,				\
		TP_PROTO(const struct graph *g, const struct slot *slot, \
			 u64 stream, const struct failure *f,		\
			 bool complete),				\
		TP_ARGS(g, slot, stream, f, complete))

CAPKM_GRAPH_REPLAY_EVENT(capkm_graph_replay_begin);
CAPKM_GRAPH_REPLAY_EVENT(capkm_graph_replay_skip);
CAPKM_GRAPH_REPLAY_EVENT(capkm_graph_replay_end);
CAPKM_GRAPH_REPLAY_EVENT(capkm_graph_replay_torn);

DECLARE_EVENT_CLASS(capkm_graph,

	TP_PROTO(const struct graph *g, const struct window *w),

	TP_ARGS(g, w),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, graph)
		__field(u64, session)
		__field(pid_t, pid)
		__field(u64, window)
		__field(u64, replays)
		__field(u64, failed_replays)
		__field(u64, updates)
		__field(u64, failed_updates)
	),

	TP_fast_assign(
		__entry->domain = g->client->session->domain->id;
		__entry->graph = g->node.id;
		__entry->session = g->client->session->id;
		__entry->pid = capkm_trace_pid(&g->client->who);
		__entry->window = w ? w->node.id : g->window;
		__entry->replays = g->replays;
		__entry->failed_replays = g->failed_replays;
		__entry->updates = g->updates;
		__entry->failed_updates = g->failed_updates;
	),

	TP_printk("domain=%llu graph=%llu session=%llu pid=%d window=%llu replays=%llu failed_replays=%llu updates=%llu failed_updates=%llu",
		  __entry->domain, __entry->graph, __entry->session,
		  __entry->pid, __entry->window, __entry->replays,
		  __entry->failed_replays, __entry->updates,
		  __entry->failed_updates)
);

#define CAPKM_GRAPH_EVENT(name)						\
	DEFINE_EVENT(capkm_graph, name,					\
		TP_PROTO(const struct graph *g, const struct window *w), \
		TP_ARGS(g, w))

CAPKM_GRAPH_EVENT(capkm_graph_update);
CAPKM_GRAPH_EVENT(capkm_graph_destroy);

/* ---- clients ---- */

DECLARE_EVENT_CLASS(capkm_client,

	TP_PROTO(const struct domain *d, const struct client *c),

	TP_ARGS(d, c),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, session)
		__field(u64, client)
		__field(pid_t, pid)
		__field(u32, uid)
		__field(u32, scopes)
		__field(u32, windows)
		__field(u32, graphs)
		__array(char, comm, TASK_COMM_LEN)
	),

	TP_fast_assign(
		__entry->domain = d->id;
		__entry->session = c->session->id;
		__entry->client = c->id;
		__entry->pid = capkm_trace_pid(&c->who);
		__entry->uid = c->who.uid;
		__entry->scopes = c->scopes_n;
		__entry->windows = c->windows_n;
		__entry->graphs = c->graphs_n;
		memcpy(__entry->comm, c->who.comm, sizeof(c->who.comm));
	),

	TP_printk("domain=%llu session=%llu client=%llu pid=%d uid=%u scopes=%u windows=%u graphs=%u comm=%s",
		  __entry->domain, __entry->session, __entry->client,
		  __entry->pid, __entry->uid, __entry->scopes,
		  __entry->windows, __entry->graphs, __entry->comm)
);

#define CAPKM_CLIENT_EVENT(name)					\
	DEFINE_EVENT(capkm_client, name,				\
		TP_PROTO(const struct domain *d, const struct client *c), \
		TP_ARGS(d, c))

CAPKM_CLIENT_EVENT(capkm_client_join);
CAPKM_CLIENT_EVENT(capkm_client_leave);

/* ---- ledgers ---- */

DECLARE_EVENT_CLASS(capkm_ledger,

	TP_PROTO(const struct domain *d, const struct ledger *l),

	TP_ARGS(d, l),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, ledger)
		__field(u64, session)
		__field(u64, parent)
		__field(u64, steps)
		__field(u64, reserved)
		__field(u64, refused)
		__field(u64, captures)
		__field(u64, retained_bytes)
		__field(u64, host_bytes)
		__field(u64, encoded_bytes)
		__array(char, label, CAPKM_LABEL_MAX + 1)
	),

	TP_fast_assign(
		__entry->domain = d->id;
		__entry->ledger = l->node.id;
		__entry->session = l->holder ? l->holder->id : 0;
		__entry->parent = l->parent;
		__entry->steps = l->steps;
		__entry->reserved = l->reserved;
		__entry->refused = l->refused;
		__entry->captures = l->total.captures;
		__entry->retained_bytes = l->total.retained_bytes;
		__entry->host_bytes = l->total.host_bytes;
		__entry->encoded_bytes = l->total.encoded_bytes;
		memcpy(__entry->label, l->label, sizeof(l->label));
	),

	TP_printk("domain=%llu ledger=%llu session=%llu parent=%llu steps=%llu reserved=%llu refused=%llu captures=%llu retained_bytes=%llu host_bytes=%llu encoded_bytes=%llu label=%s",
		  __entry->domain, __entry->ledger, __entry->session,
		  __entry->parent, __entry->steps, __entry->reserved,
		  __entry->refused, __entry->captures,
		  __entry->retained_bytes, __entry->host_bytes,
		  __entry->encoded_bytes, __entry->label)
);

#define CAPKM_LEDGER_EVENT(name)					\
	DEFINE_EVENT(capkm_ledger, name,				\
		TP_PROTO(const struct domain *d, const struct ledger *l), \
		TP_ARGS(d, l))

CAPKM_LEDGER_EVENT(capkm_ledger_create);
CAPKM_LEDGER_EVENT(capkm_ledger_step);
CAPKM_LEDGER_EVENT(capkm_ledger_adopt);
CAPKM_LEDGER_EVENT(capkm_ledger_destroy);

TRACE_EVENT(capkm_ledger_reserve,

	TP_PROTO(const struct domain *d, const struct ledger *l, u64 session,
		 const struct capkm_usage *u, u32 axis, u32 bound),

	TP_ARGS(d, l, session, u, axis, bound),

	TP_STRUCT__entry(
		__field(u64, domain)
		__field(u64, ledger)
		__field(u64, session)
		__field(u64, captures)
		__field(u64, retained_bytes)
		__field(u64, host_bytes)
		__field(u64, encoded_bytes)
		__field(u32, axis)
		__field(u32, bound)
	),

	TP_fast_assign(
		__entry->domain = d->id;
		__entry->ledger = l->node.id;
		__entry->session = session;
		__entry->captures = u->captures;
		__entry->retained_bytes = u->retained_bytes;
		__entry->host_bytes = u->host_bytes;
		__entry->encoded_bytes = u->encoded_bytes;
		__entry->axis = axis;
		__entry->bound = bound;
	),

	TP_printk("domain=%llu ledger=%llu session=%llu captures=%llu retained_bytes=%llu host_bytes=%llu encoded_bytes=%llu axis=%s bound=%s",
		  __entry->domain, __entry->ledger, __entry->session,
		  __entry->captures, __entry->retained_bytes,
		  __entry->host_bytes, __entry->encoded_bytes,
		  show_axis(__entry->axis), show_bound(__entry->bound))
);

#endif /* CAPKM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_PATH .
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
