/* SPDX-License-Identifier: GPL-2.0-only */
/* One row for each operation of the ABI and, with other arguments, for each way it goes. */
#ifndef CAPKM_ROWS_H
#define CAPKM_ROWS_H

#include "capkm_test.h"

/* A domain with something of everything in it, and calls that would succeed. */
struct world {
	struct cl *a, *b;	/* sessions of the domain */
	struct cl *other;	/* of another domain */
	struct cl *u;		/* not attached */
	u_int64_t x, y, z;	/* y is b's and exported, z is only there */
	u_int64_t failure;	/* on x [0,10) */
	u_int64_t scope;	/* stream 1, x [50,60) */
	u_int64_t recorded;	/* stream 3, x [60,70), in the recording window */
	u_int64_t prepared;	/* stream 2 */
	u_int64_t recording;	/* stream 3 */
	u_int64_t closing;	/* was stream 4's; x [20,30), one retained */
	u_int64_t graph;	/* in z [0,10), out z [20,30) */
	u_int64_t tainted;	/* a graph with the input x [0,10) */
	u_int64_t replayed;	/* is being replayed on stream 6, z [50,60) */
	u_int64_t sealed;	/* the window that became the graph */
	u_int64_t stream;	/* of STREAM_CREATE */
	u_int64_t s;		/* a's and shared; GPU 1, stream 1 wrote [0,10) */
	u_int64_t second;	/* recording on GPU 1, stream 4 */
	u_int64_t ledger;	/* a's, charged; there is room */
	u_int64_t full;		/* a's; there is none, and it fails */
	u_int64_t left;		/* nobody's any more */
	/* Where arguments point to; three of each. */
	struct capkm_claim reads[3], writes[3];
	struct capkm_report reports[3];
	struct capkm_range ranges[3];
	struct capkm_retained retained[3];
	struct capkm_hop hops[3];
	struct capkm_open_window windows[3];
	char text[16], stack[16];
};

static void world_new(struct world *w)
{
	struct cl *left;

	memset(w, 0, sizeof(*w));
	w->b = t_client();
	w->a = t_client();
	w->u = t_client();
	w->other = t_client();
	t_domain_mode(w->a, 0644);
	t_domain(w->other);
	t_attach(w->b, w->a->domain);
	w->x = t_buffer(w->a, 100);
	w->y = t_shared(w->b, 100);
	w->z = t_buffer(w->a, 100);
	w->failure = t_fail(w->a, 9, C({ w->x, 0, 10 }), "the failure");
	t_skip(w->a, 9, "skipped", C({ w->x, 0, 10 }), C({ w->x, 5, 12 }));

	w->prepared = t_prepare(w->a, 2);
	w->closing = t_record(w->a, 4);
	t_write(w->a, 4, C({ w->x, 20, 30 }));
	if (t_retain(w->a, w->closing, 0x1000, 10, 0))
		t_die("WINDOW_RETAIN");
	t_end(w->a, 4);
	w->graph = t_graph(w->a, 5, C({ w->z, 0, 10 }), C({ w->z, 20, 30 }));
	w->replayed = t_graph(w->a, 6, NO_CLAIMS, C({ w->z, 50, 60 }));
	t_replay_begin(w->a, w->replayed, 6);
	t_written(w->a, C({ w->x, 0, 20 }));
	w->tainted = t_graph(w->a, 7, C({ w->x, 0, 10 }), C({ w->z, 70, 80 }));
	w->failure = t_fail(w->a, 9, C({ w->x, 0, 10 }), "the failure");
	t_skip(w->a, 9, "skipped", C({ w->x, 0, 10 }), C({ w->x, 5, 12 }));
	w->recording = t_record(w->a, 3);
	t_write(w->a, 3, C({ w->x, 60, 62 }));
	w->recorded = t_enter(w->a, 3, NO_CLAIMS, C({ w->x, 60, 70 }));
	w->scope = t_enter(w->a, 1, NO_CLAIMS, C({ w->x, 50, 60 }));
	w->sealed = t_graph_query(w->a, w->graph, 0).q.out_window;
	w->stream = t_stream(w->a);
	w->s = t_shared(w->a, 100);
	t_write_enqueued(w->a, T_GPU(1) | 1, C({ w->s, 0, 10 }));
	t_fail(w->a, T_GPU(1) | 2, C({ w->s, 20, 30 }), "queued");
	t_fault(w->a, T_GPU(2) | 1, "faulted");
	w->second = t_record(w->a, T_GPU(1) | 4);

	w->ledger = t_ledger(w->a, 0, 100, CAPKM_ON_LIMIT_SKIP);
	t_charge(w->a, w->ledger, 10);
	w->full = t_ledger(w->a, 0, 0, CAPKM_ON_LIMIT_FAIL);
	left = t_client();
	t_attach(left, w->a->domain);
	w->left = t_ledger(left, 0, 100, CAPKM_ON_LIMIT_FAIL);
	t_close(left);

	for (int i = 0; i < 3; i++) {
		w->reads[i] = (struct capkm_claim){ w->z, 5 * i, 5 * i + 5 };
		w->writes[i] = (struct capkm_claim){ w->x, 30 + 5 * i, 35 + 5 * i };
	}
	strcpy(w->text, "a text");
	strcpy(w->stack, "a stack");
}

static void world_free(struct world *w)
{
	struct capkm_domain_destroy d = {
		.domain = w->a->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};

	/* It would linger for its ledgers, unless it is gone already. */
	t_call(w->u, CAPKM_NR_DOMAIN_DESTROY, &d);
	t_close(w->u);
	t_close(w->other);
	t_close(w->b);
	t_close(w->a);
}

#define UNATTACHED	1	/* called by a session that is in no domain */
#define ANYBODY		2	/* needs no domain */
#define NO_FAIL		4	/* cannot fail for memory */
#define DONE		8	/* is done although an output cannot be written */
#define OPTIONAL	16	/* does without some of the memory it asks for */
#define LOOKS		32	/* needs right r, and need not be a client */
#define LOOKS_CLIENT	64	/* needs right r */
#define OWN		128	/* acts on something of one client, for that one */
#define OF_SESSION	256	/* or of one session, for all of its clients */

struct row {
	unsigned int nr;
	const char *variant;
	unsigned int flags;
	void (*make)(const struct world *w, void *arg);
	/* Members with ids: an unknown one is ENOENT. */
	unsigned short ids[3];
	int result;		/* out_result is expected to be this, if result_at */
	unsigned short result_at;
};

/* An array of the world as an argument. */
#define ARRAY(a, p, n) .a##_uptr = t_ptr(p), .a##_len = (n)
#define TEXT(a) ARRAY(a, w->text, 6)
#define REPORTS ARRAY(reports, w->reports, 1)

#define MAKE(name, type, ...)						\
static void make_##name(const struct world *w, void *arg)		\
{									\
	(void)w;							\
	*(struct capkm_##type *)arg = (struct capkm_##type){ __VA_ARGS__ }; \
}

MAKE(info, info, .size = 0)
MAKE(domain_create, domain_create, TEXT(name))
MAKE(domain_attach, domain_attach, .domain = w->a->domain)
MAKE(domain_query, domain_query, .size = 0)
MAKE(domain_destroy, domain_destroy, .domain = w->a->domain,
     .flags = CAPKM_DOMAIN_DESTROY_F_FORCE)
MAKE(stream_create, stream_create, TEXT(label))
MAKE(stream_query, stream_query, .place.stream = 2)
MAKE(buffer_create, buffer_create, .bytes = 10, TEXT(label))
MAKE(buffer_export, buffer_export, .buffer = w->x)
MAKE(buffer_open, buffer_open, .buffer = w->y)
MAKE(buffer_close, buffer_close, .buffer = w->x)
MAKE(buffer_reset, buffer_reset, .claim = { w->x, 0, 40 })
MAKE(buffer_reset_middle, buffer_reset, .claim = { w->x, 2, 3 })
MAKE(buffer_query, buffer_query, .buffer = w->x, ARRAY(ranges, w->ranges, 3))
MAKE(window_prepare, window_prepare, .place.stream = 8, TEXT(mode))
MAKE(window_begin, window_begin, .place.stream = 2)
MAKE(window_end, window_end, .place.stream = 3, .window = w->recording)
MAKE(window_seal, window_seal, .window = w->closing, REPORTS)
static void make_window_seal_refused(const struct world *w, void *arg)
{
	/* Doomed as the row is made: a row that is refused leaves that as it is. */
	struct capkm_window_query q = { .window = w->closing };

	if (!t_call(w->a, CAPKM_NR_WINDOW_QUERY, &q) && !q.out_doomed)
		t_window_fail(w->a, w->closing, 4, 900, "op", "doomed");
	make_window_seal(w, arg);
}
MAKE(window_refuse, window_refuse, .window = w->closing, TEXT(text), REPORTS)
MAKE(window_take, window_take, .window = w->closing,
     ARRAY(claims, w->writes, 3), ARRAY(retained, w->retained, 3), REPORTS)
MAKE(window_record, window_record, .window = w->recording,
     ARRAY(reads, w->reads, 3), ARRAY(writes, w->writes, 3))
MAKE(window_record_seen, window_record, .window = w->recording,
     ARRAY(writes, w->writes, 3), .flags = CAPKM_WINDOW_RECORD_F_SEEN)
MAKE(window_abort, window_abort, .place.stream = 3)
MAKE(window_fail, window_fail, .window = w->recording, .stream = 3,
     .kind = CAPKM_KIND_DRIVER, TEXT(label), TEXT(text))
MAKE(window_retain, window_retain, .window = w->recording, .retained.bytes = 10)
MAKE(window_query, window_query, .window = w->recording, REPORTS)
MAKE(window_list, window_list, .flags = CAPKM_WINDOW_LIST_F_STREAM, .stream = 3,
     ARRAY(windows, w->windows, 3))
MAKE(window_abandon, window_abandon, .window = w->recording)
MAKE(scope_enter, scope_enter, .place.stream = 1, ARRAY(reads, w->reads, 3),
     ARRAY(writes, w->writes, 3), TEXT(label), REPORTS)
static void make_scope_enter_poison(const struct world *w, void *arg)
{
	static struct capkm_claim bad;

	bad = (struct capkm_claim){ w->x, 0, 12 };
	*(struct capkm_scope_enter *)arg = (struct capkm_scope_enter){
		.place.stream = 1, ARRAY(reads, &bad, 1), ARRAY(writes, w->writes, 3),
		.flags = CAPKM_SCOPE_ENTER_F_POISON, REPORTS
	};
}
static void make_scope_enter_skipped(const struct world *w, void *arg)
{
	make_scope_enter_poison(w, arg);
	((struct capkm_scope_enter *)arg)->flags = 0;
}
MAKE(scope_enter_recorded, scope_enter, .place.stream = 3, ARRAY(reads, w->reads, 3),
     ARRAY(writes, w->writes, 3), TEXT(label), REPORTS)
MAKE(scope_exit, scope_exit, .scope = w->scope)
MAKE(scope_exit_recorded, scope_exit, .scope = w->recorded)
MAKE(scope_exit_failed, scope_exit, .scope = w->scope, .kind = CAPKM_KIND_IO,
     .flags = CAPKM_SCOPE_EXIT_F_FAILED, TEXT(text), ARRAY(stack, w->stack, 7))
MAKE(check, check, ARRAY(claims, w->reads, 3), REPORTS)
static void make_check_tainted(const struct world *w, void *arg)
{
	static struct capkm_claim bad[3];

	bad[0] = (struct capkm_claim){ w->x, 0, 12 };
	bad[1] = (struct capkm_claim){ w->x, 50, 60 };
	bad[2] = (struct capkm_claim){ w->z, 50, 60 };
	*(struct capkm_check *)arg = (struct capkm_check){
		ARRAY(claims, bad, 3), ARRAY(reports, w->reports, 3)
	};
}
MAKE(taint, taint, ARRAY(claims, w->writes, 3), .kind = CAPKM_KIND_IO, TEXT(text))
MAKE(taint_again, taint, ARRAY(claims, w->writes, 3), .failure = w->failure)
MAKE(written, written, ARRAY(claims, w->writes, 3))
MAKE(replay_begin, graph_replay_begin, .graph = w->graph, .place.stream = 5, REPORTS)
MAKE(replay_begin_skipped, graph_replay_begin, .graph = w->tainted,
     .place.stream = 5, REPORTS)
MAKE(replay_begin_refused, graph_replay_begin, .graph = w->graph,
     .place.stream = 3, REPORTS)
MAKE(replay_end, graph_replay_end, .graph = w->replayed)
MAKE(replay_end_failed, graph_replay_end, .graph = w->replayed,
     .flags = CAPKM_SCOPE_EXIT_F_FAILED, .kind = CAPKM_KIND_IO, TEXT(text))
MAKE(graph_destroy, graph_destroy, .graph = w->graph)
MAKE(graph_query, graph_query, .graph = w->graph, ARRAY(claims, w->writes, 3))
MAKE(failure_query, failure_query, .failure = w->failure, .buffer = w->x, REPORTS,
     ARRAY(hops, w->hops, 3), ARRAY(carriers, w->writes, 3),
     ARRAY(stack, w->stack, 7))

MAKE(stream_destroy, stream_destroy, .stream = 3)
MAKE(stream_destroy_created, stream_destroy, .stream = w->stream)
static void make_stream_confirm(const struct world *w, void *arg)
{
	struct capkm_stream_query q = { .place = t_place(T_GPU(1) | 1) };

	/* A domain that is gone has no sequence either. */
	if (t_call(w->a, CAPKM_NR_STREAM_QUERY, &q))
		q.out_sequence = 0;
	*(struct capkm_stream_confirm *)arg = (struct capkm_stream_confirm){
		.place = q.place, .sequence = q.out_sequence,
	};
}
static void make_stream_confirm_device(const struct world *w, void *arg)
{
	make_stream_confirm(w, arg);
	((struct capkm_stream_confirm *)arg)->flags = CAPKM_STREAM_CONFIRM_F_DEVICE;
}
/* What b has written on a slot that it has never used: nothing. */
static void make_stream_confirm_other(const struct world *w, void *arg)
{
	struct capkm_stream_query q = { .place = t_place(1) };

	/* A client that is gone has no id either. */
	if (t_call(w->b, CAPKM_NR_STREAM_QUERY, &q))
		q.out_client = 1000;
	*(struct capkm_stream_confirm *)arg = (struct capkm_stream_confirm){
		.flags = CAPKM_PLACE_F_SLOT, .place = q.place, .client = q.out_client,
	};
}
MAKE(stream_fault, stream_fault, .place = t_place(T_GPU(1) | 1), TEXT(text))
MAKE(stream_fault_again, stream_fault, .place = t_place(T_GPU(2) | 1), TEXT(text))
MAKE(stream_flush, stream_flush, .place = t_place(T_GPU(1) | 2), REPORTS)
MAKE(stream_flush_peek, stream_flush, .place = t_place(T_GPU(1) | 2), REPORTS,
     .flags = CAPKM_STREAM_FLUSH_F_PEEK)
MAKE(context_renew, context_renew, .device[0] = 2)
MAKE(window_join, window_join, .window = w->recording,
     .place = t_place(T_GPU(1) | 3))
MAKE(window_join_merged, window_join, .window = w->recording,
     .place = t_place(T_GPU(1) | 4), .flags = CAPKM_WINDOW_JOIN_F_DRIVER_MERGED)
MAKE(window_prepare_child, window_prepare, .place.stream = 8, .parent = w->recording)
MAKE(window_wait, window_wait, .window = w->sealed)
MAKE(window_wait_slot, window_wait, .place = t_place(T_GPU(1) | 2))
MAKE(window_query_slot, window_query, .place.stream = 3, REPORTS)
MAKE(graph_update, graph_update, .graph = w->graph, .window = w->closing, REPORTS)
MAKE(graph_update_failed, graph_update, .graph = w->graph, .window = w->closing,
     .flags = CAPKM_GRAPH_UPDATE_F_FAILED, REPORTS)
static void make_graph_update_refused(const struct world *w, void *arg)
{
	make_window_seal_refused(w, arg);
	make_graph_update(w, arg);
}
MAKE(session_join, session_join, .size = 0)
MAKE(device_fault, device_fault, .device[0] = 1, TEXT(text))
MAKE(refuse, refuse, .place.stream = 1, .what = CAPKM_REFUSE_WRITE,
     ARRAY(claims, w->writes, 3), REPORTS)
MAKE(refuse_read, refuse, .place.stream = 3, .what = CAPKM_REFUSE_READ, REPORTS)
MAKE(refuse_write, refuse, .place.stream = 3, .what = CAPKM_REFUSE_WRITE,
     ARRAY(claims, w->writes, 3), REPORTS)

#define USAGE(n) { (n), (n), (n), (n) }
MAKE(ledger_create, ledger_create, .per_step = USAGE(9), .cumulative = USAGE(20),
     .inherited = USAGE(5), TEXT(label))
MAKE(ledger_create_domain, ledger_create, .flags = CAPKM_LEDGER_F_DOMAIN)
MAKE(ledger_begin_step, ledger_begin_step, .ledger = w->ledger)
MAKE(ledger_reserve, ledger_reserve, .ledger = w->ledger, .usage = USAGE(90))
MAKE(ledger_reserve_skipped, ledger_reserve, .ledger = w->ledger, .usage = USAGE(91))
MAKE(ledger_reserve_refused, ledger_reserve, .ledger = w->full, .usage = USAGE(1))
MAKE(ledger_query, ledger_query, .ledger = w->ledger)
MAKE(ledger_query_next, ledger_query, .flags = CAPKM_LEDGER_QUERY_F_NEXT)
MAKE(ledger_fork, ledger_fork, .ledger = w->ledger, .per_step = USAGE(9),
     .cumulative = USAGE(20), TEXT(label))
MAKE(ledger_adopt, ledger_adopt, .ledger = w->left)
MAKE(ledger_destroy, ledger_destroy, .ledger = w->ledger)
MAKE(scope_table, scope_table, .flags = CAPKM_SCOPE_TABLE_F_SLOT | CAPKM_SCOPE_TABLE_F_ENTRY,
     .place.stream = 1, .entry = CAPKM_ENTRY_NEW)

/* What its elements may be is for submit.c. */
static void make_submit(const struct world *w, void *arg)
{
	static struct capkm_window_query q;
	static struct capkm_element e[2];

	(void)w;
	for (int i = 0; i < 2; i++) {
		q = (struct capkm_window_query){ .size = sizeof(q), .window = 1 };
		e[i] = (struct capkm_element){ CAPKM_NR_WINDOW_QUERY, .arg_uptr = t_ptr(&q) };
	}
	*(struct capkm_submit *)arg = (struct capkm_submit){ ARRAY(elements, e, 2) };
}

#define AT(s, f) offsetof(struct capkm_##s, f)
#define RESULT(s, r) .result = (r), .result_at = AT(s, out_result)

static const struct row rows[] = {
	{ CAPKM_NR_INFO, "", ANYBODY, make_info },
	{ CAPKM_NR_DOMAIN_CREATE, "", UNATTACHED | ANYBODY, make_domain_create },
	{ CAPKM_NR_DOMAIN_ATTACH, "", UNATTACHED | ANYBODY, make_domain_attach,
	  { AT(domain_attach, domain) } },
	{ CAPKM_NR_DOMAIN_QUERY, "", LOOKS, make_domain_query },
	{ CAPKM_NR_DOMAIN_DESTROY, "", ANYBODY, make_domain_destroy,
	  { AT(domain_destroy, domain) } },
	{ CAPKM_NR_STREAM_CREATE, "", 0, make_stream_create },
	{ CAPKM_NR_STREAM_QUERY, "", LOOKS_CLIENT, make_stream_query },
	{ CAPKM_NR_BUFFER_CREATE, "", 0, make_buffer_create },
	{ CAPKM_NR_BUFFER_EXPORT, "", 0, make_buffer_export,
	  { AT(buffer_export, buffer) } },
	{ CAPKM_NR_BUFFER_OPEN, "", LOOKS_CLIENT, make_buffer_open, { AT(buffer_open, buffer) } },
	{ CAPKM_NR_BUFFER_CLOSE, "", NO_FAIL | LOOKS_CLIENT, make_buffer_close,
	  { AT(buffer_close, buffer) } },
	{ CAPKM_NR_BUFFER_RESET, "", 0, make_buffer_reset, { AT(buffer_reset, claim) } },
	{ CAPKM_NR_BUFFER_RESET, "middle", 0, make_buffer_reset_middle,
	  { AT(buffer_reset, claim) } },
	{ CAPKM_NR_BUFFER_QUERY, "", LOOKS, make_buffer_query, { AT(buffer_query, buffer) } },
	{ CAPKM_NR_WINDOW_PREPARE, "", 0, make_window_prepare },
	{ CAPKM_NR_WINDOW_BEGIN, "", 0, make_window_begin },
	{ CAPKM_NR_WINDOW_END, "", NO_FAIL | DONE, make_window_end,
	  { AT(window_end, window) } },
	{ CAPKM_NR_WINDOW_SEAL, "", OWN, make_window_seal, { AT(window_seal, window) },
	  RESULT(window_seal, CAPKM_CLEAN) },
	{ CAPKM_NR_WINDOW_SEAL, "refused", OWN, make_window_seal_refused,
	  { AT(window_seal, window) }, RESULT(window_seal, CAPKM_REFUSED) },
	{ CAPKM_NR_WINDOW_REFUSE, "", NO_FAIL | OWN, make_window_refuse,
	  { AT(window_refuse, window) } },
	{ CAPKM_NR_WINDOW_TAKE, "", DONE | OWN, make_window_take, { AT(window_take, window) } },
	{ CAPKM_NR_WINDOW_RECORD, "", 0, make_window_record,
	  { AT(window_record, window) } },
	{ CAPKM_NR_WINDOW_RECORD, "seen", 0, make_window_record_seen,
	  { AT(window_record, window) } },
	{ CAPKM_NR_WINDOW_ABORT, "", NO_FAIL, make_window_abort },
	{ CAPKM_NR_WINDOW_FAIL, "", 0, make_window_fail, { AT(window_fail, window) } },
	{ CAPKM_NR_WINDOW_RETAIN, "", OWN, make_window_retain,
	  { AT(window_retain, window) } },
	{ CAPKM_NR_WINDOW_QUERY, "", LOOKS, make_window_query, { AT(window_query, window) } },
	{ CAPKM_NR_WINDOW_LIST, "", LOOKS, make_window_list },
	{ CAPKM_NR_WINDOW_ABANDON, "", NO_FAIL, make_window_abandon,
	  { AT(window_abandon, window) } },
	{ CAPKM_NR_SCOPE_ENTER, "", DONE, make_scope_enter, {},
	  RESULT(scope_enter, CAPKM_CLEAN) },
	{ CAPKM_NR_SCOPE_ENTER, "poison", DONE, make_scope_enter_poison, {},
	  RESULT(scope_enter, CAPKM_CLEAN) },
	{ CAPKM_NR_SCOPE_ENTER, "skipped", DONE, make_scope_enter_skipped, {},
	  RESULT(scope_enter, CAPKM_SKIPPED) },
	{ CAPKM_NR_SCOPE_ENTER, "recorded", DONE, make_scope_enter_recorded, {},
	  RESULT(scope_enter, CAPKM_CLEAN) },
	{ CAPKM_NR_SCOPE_EXIT, "", NO_FAIL | DONE | OWN, make_scope_exit,
	  { AT(scope_exit, scope) } },
	{ CAPKM_NR_SCOPE_EXIT, "recorded", NO_FAIL | DONE | OWN, make_scope_exit_recorded,
	  { AT(scope_exit, scope) } },
	{ CAPKM_NR_SCOPE_EXIT, "failed", NO_FAIL | DONE | OPTIONAL,
	  make_scope_exit_failed, { AT(scope_exit, scope) } },
	{ CAPKM_NR_CHECK, "", LOOKS, make_check, {}, RESULT(check, CAPKM_CLEAN) },
	{ CAPKM_NR_CHECK, "tainted", LOOKS, make_check_tainted, {},
	  RESULT(check, CAPKM_TAINTED) },
	{ CAPKM_NR_TAINT, "", 0, make_taint },
	{ CAPKM_NR_TAINT, "again", 0, make_taint_again, { AT(taint, failure) } },
	{ CAPKM_NR_WRITTEN, "", 0, make_written },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, "", DONE | OWN, make_replay_begin,
	  { AT(graph_replay_begin, graph) }, RESULT(graph_replay_begin, CAPKM_CLEAN) },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, "skipped", DONE | OWN, make_replay_begin_skipped,
	  { AT(graph_replay_begin, graph) }, RESULT(graph_replay_begin, CAPKM_SKIPPED) },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, "refused", DONE | OWN, make_replay_begin_refused,
	  { AT(graph_replay_begin, graph) }, RESULT(graph_replay_begin, CAPKM_REFUSED) },
	{ CAPKM_NR_GRAPH_REPLAY_END, "", NO_FAIL | DONE | OWN, make_replay_end,
	  { AT(graph_replay_end, graph) } },
	{ CAPKM_NR_GRAPH_REPLAY_END, "failed", NO_FAIL | DONE | OWN, make_replay_end_failed,
	  { AT(graph_replay_end, graph) } },
	{ CAPKM_NR_GRAPH_DESTROY, "", NO_FAIL | OWN, make_graph_destroy,
	  { AT(graph_destroy, graph) } },
	{ CAPKM_NR_GRAPH_QUERY, "", LOOKS, make_graph_query, { AT(graph_query, graph) } },
	{ CAPKM_NR_FAILURE_QUERY, "", LOOKS, make_failure_query,
	  { AT(failure_query, failure) } },
	{ CAPKM_NR_SESSION_JOIN, "", ANYBODY, make_session_join },
	{ CAPKM_NR_STREAM_DESTROY, "", NO_FAIL, make_stream_destroy },
	{ CAPKM_NR_STREAM_DESTROY, "created", NO_FAIL | OWN | OF_SESSION, make_stream_destroy_created,
	  { AT(stream_destroy, stream) } },
	{ CAPKM_NR_STREAM_CONFIRM, "", NO_FAIL, make_stream_confirm },
	{ CAPKM_NR_STREAM_CONFIRM, "device", NO_FAIL, make_stream_confirm_device },
	{ CAPKM_NR_STREAM_CONFIRM, "other", NO_FAIL, make_stream_confirm_other,
	  { AT(stream_confirm, client) } },
	{ CAPKM_NR_STREAM_FAULT, "", NO_FAIL, make_stream_fault },
	{ CAPKM_NR_STREAM_FAULT, "again", NO_FAIL, make_stream_fault_again },
	{ CAPKM_NR_STREAM_FLUSH, "", 0, make_stream_flush },
	{ CAPKM_NR_STREAM_FLUSH, "peek", 0, make_stream_flush_peek },
	{ CAPKM_NR_CONTEXT_RENEW, "", 0, make_context_renew },
	{ CAPKM_NR_WINDOW_JOIN, "", OWN, make_window_join, { AT(window_join, window) },
	  RESULT(window_join, CAPKM_CLEAN) },
	{ CAPKM_NR_WINDOW_JOIN, "merged", OWN, make_window_join_merged,
	  { AT(window_join, window) }, RESULT(window_join, CAPKM_REFUSED) },
	{ CAPKM_NR_WINDOW_PREPARE, "child", OWN, make_window_prepare_child,
	  { AT(window_prepare, parent) } },
	{ CAPKM_NR_WINDOW_WAIT, "", LOOKS, make_window_wait, { AT(window_wait, window) } },
	{ CAPKM_NR_WINDOW_WAIT, "slot", LOOKS_CLIENT, make_window_wait_slot },
	{ CAPKM_NR_WINDOW_QUERY, "slot", LOOKS_CLIENT, make_window_query_slot },
	{ CAPKM_NR_GRAPH_UPDATE, "", OWN, make_graph_update,
	  { AT(graph_update, graph), AT(graph_update, window) },
	  RESULT(graph_update, CAPKM_CLEAN) },
	{ CAPKM_NR_GRAPH_UPDATE, "failed", OWN, make_graph_update_failed,
	  { AT(graph_update, graph), AT(graph_update, window) } },
	{ CAPKM_NR_GRAPH_UPDATE, "refused", OWN, make_graph_update_refused,
	  { AT(graph_update, graph), AT(graph_update, window) },
	  RESULT(graph_update, CAPKM_REFUSED) },
	{ CAPKM_NR_DEVICE_FAULT, "", ANYBODY | NO_FAIL, make_device_fault },
	{ CAPKM_NR_REFUSE, "", 0, make_refuse, {}, RESULT(refuse, CAPKM_CLEAN) },
	{ CAPKM_NR_REFUSE, "read", 0, make_refuse_read, {},
	  RESULT(refuse, CAPKM_REFUSED) },
	{ CAPKM_NR_REFUSE, "write", 0, make_refuse_write, {},
	  RESULT(refuse, CAPKM_REFUSED) },
	{ CAPKM_NR_LEDGER_CREATE, "", 0, make_ledger_create },
	{ CAPKM_NR_LEDGER_CREATE, "domain", 0, make_ledger_create_domain },
	{ CAPKM_NR_LEDGER_BEGIN_STEP, "", NO_FAIL | OWN | OF_SESSION,
	  make_ledger_begin_step, { AT(ledger_begin_step, ledger) } },
	{ CAPKM_NR_LEDGER_RESERVE, "", NO_FAIL | OWN | OF_SESSION, make_ledger_reserve,
	  { AT(ledger_reserve, ledger) }, RESULT(ledger_reserve, CAPKM_CLEAN) },
	{ CAPKM_NR_LEDGER_RESERVE, "skipped", NO_FAIL | OWN | OF_SESSION,
	  make_ledger_reserve_skipped, { AT(ledger_reserve, ledger) },
	  RESULT(ledger_reserve, CAPKM_SKIPPED) },
	{ CAPKM_NR_LEDGER_RESERVE, "refused", NO_FAIL | OWN | OF_SESSION,
	  make_ledger_reserve_refused, { AT(ledger_reserve, ledger) },
	  RESULT(ledger_reserve, CAPKM_REFUSED) },
	{ CAPKM_NR_LEDGER_QUERY, "", LOOKS, make_ledger_query,
	  { AT(ledger_query, ledger) } },
	{ CAPKM_NR_LEDGER_QUERY, "next", LOOKS, make_ledger_query_next },
	{ CAPKM_NR_LEDGER_FORK, "", OWN | OF_SESSION, make_ledger_fork,
	  { AT(ledger_fork, ledger) } },
	{ CAPKM_NR_LEDGER_ADOPT, "", NO_FAIL, make_ledger_adopt,
	  { AT(ledger_adopt, ledger) } },
	{ CAPKM_NR_LEDGER_DESTROY, "", NO_FAIL | OWN | OF_SESSION, make_ledger_destroy,
	  { AT(ledger_destroy, ledger) } },
	{ CAPKM_NR_SUBMIT, "", ANYBODY, make_submit },
	{ CAPKM_NR_SCOPE_TABLE, "", 0, make_scope_table },
};

static T_UNUSED struct cl *who(struct world *w, const struct row *r)
{
	return r->flags & UNATTACHED ? w->u : w->a;
}

static const struct row *current_row;
#define WHAT t_ops[current_row->nr].name, current_row->variant

/* What goes wrong further down names the row. */
static void at_row(const struct row *r)
{
	static char where[64];

	current_row = r;
	if (r < rows + ARRAY_SIZE(rows))
		snprintf(where, sizeof(where), "%s %s", WHAT);
	t_file = where;
}

/* What everybody sees. */
struct state {
	char *a, *b, *other, *u;
};

/* All of it takes hundreds of calls: in the machine only one looks. */
static T_UNUSED struct state state(struct world *w)
{
	struct state s = { .a = t_dump(w->a) };

	if (t_embedded()) {
		s.b = t_dump(w->b);
		s.other = t_dump(w->other);
		s.u = t_dump(w->u);
	}
	return s;
}

static T_UNUSED void unchanged(struct world *w, struct state s)
{
	if (current_row)
		at_row(current_row);
	t_unchanged_(w->a, s.a);
	if (!s.b)
		return;
	t_unchanged_(w->b, s.b);
	t_unchanged_(w->other, s.other);
	t_unchanged_(w->u, s.u);
}

static void forget(struct state s)
{
	free(s.a);
	free(s.b);
	free(s.other);
	free(s.u);
}

#endif /* CAPKM_ROWS_H */
