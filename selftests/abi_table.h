/* SPDX-License-Identifier: GPL-2.0-only */
/* Each operation's struct: what the kernel reads of it, and what it may write to. */
#ifndef ABI_TABLE_H
#define ABI_TABLE_H

#include <linux/capkm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/* Literals of the ABI's structs name what matters. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

#define T_UNUSED __attribute__((unused))
#define T_LEN(a) (sizeof(a) / sizeof((a)[0]))

struct t_field {
	unsigned short at, size;
};

struct t_array {
	unsigned short ptr, len, elem;
	bool out;
	bool claims;	/* its elements are checked one by one */
};

/*
 * One row per operation. @outs: what the kernel writes, and only on success,
 * but for @always, which it may also write on an error. @limit: out_limit, which
 * it writes on EDQUOT and ENOSPC and leaves alone otherwise. @rest: a time that
 * is written back on EINTR.
 */
struct t_op {
	const char *name;
	unsigned short size;
	struct t_field outs[30];
	struct t_field always[2];
	struct t_field limit, rest;
	struct t_field reserved[2];
	struct t_array arrays[4];
	unsigned int known_flags;
};

#define T_S(s) struct capkm_##s
#define T_O(s, f) { offsetof(T_S(s), f), sizeof(((T_S(s) *)0)->f) }
#define T_IN(s, a, t) { offsetof(T_S(s), a##_uptr), offsetof(T_S(s), a##_len), \
	sizeof(t), false, false }
#define T_CLAIMS(s, a) { offsetof(T_S(s), a##_uptr), offsetof(T_S(s), a##_len), \
	sizeof(struct capkm_claim), false, true }
#define T_OUT(s, a, t) { offsetof(T_S(s), a##_uptr), offsetof(T_S(s), a##_len), \
	sizeof(t), true, false }
#define T_PLACE_RESERVED(s) { offsetof(T_S(s), place) + \
	offsetof(struct capkm_place, __reserved), 4 }

static const struct t_op t_ops[] T_UNUSED = {
	[CAPKM_NR_INFO] = {
		"INFO", sizeof(T_S(info)),
		.outs = {
			T_O(info, out_abi_version), T_O(info, out_abi_oldest),
			T_O(info, out_features), T_O(info, out_claims_max),
			T_O(info, out_streams_max), T_O(info, out_version),
			T_O(info, out_limits),
		},
		.arrays = { T_OUT(info, limits, struct capkm_limit_value) },
	},
	[CAPKM_NR_DOMAIN_CREATE] = {
		"DOMAIN_CREATE", sizeof(T_S(domain_create)),
		.outs = {
			T_O(domain_create, out_domain), T_O(domain_create, out_session),
		},
		.limit = T_O(domain_create, out_limit),
		.arrays = {
			T_IN(domain_create, name, char),
			T_IN(domain_create, limits, struct capkm_limit_value),
		},
		.known_flags = CAPKM_DOMAIN_CREATE_F_ALL,
	},
	[CAPKM_NR_DOMAIN_ATTACH] = {
		"DOMAIN_ATTACH", sizeof(T_S(domain_attach)),
		.outs = {
			T_O(domain_attach, out_domain), T_O(domain_attach, out_session),
			T_O(domain_attach, out_rights),
		},
		.limit = T_O(domain_attach, out_limit),
		.arrays = { T_IN(domain_attach, name, char) },
		.known_flags = CAPKM_DOMAIN_ATTACH_F_ALL,
	},
	[CAPKM_NR_DOMAIN_QUERY] = {
		"DOMAIN_QUERY", sizeof(T_S(domain_query)),
		.outs = {
			T_O(domain_query, out_domain), T_O(domain_query, out_session),
			T_O(domain_query, out_state), T_O(domain_query, out_mode),
			T_O(domain_query, out_uid), T_O(domain_query, out_gid),
			T_O(domain_query, out_rights), T_O(domain_query, out_sessions),
			T_O(domain_query, out_sequence), T_O(domain_query, out_buffers),
			T_O(domain_query, out_streams), T_O(domain_query, out_scopes),
			T_O(domain_query, out_windows), T_O(domain_query, out_orphans),
			T_O(domain_query, out_graphs), T_O(domain_query, out_failures),
			T_O(domain_query, out_claims), T_O(domain_query, out_reports),
			T_O(domain_query, out_history), T_O(domain_query, out_created_ns),
			T_O(domain_query, out_defunct_ns), T_O(domain_query, out_name),
			T_O(domain_query, out_clients), T_O(domain_query, out_faulted),
			T_O(domain_query, out_unconfirmed), T_O(domain_query, out_limits),
			T_O(domain_query, out_sealed), T_O(domain_query, out_given_up),
			T_O(domain_query, out_ledgers), T_O(domain_query, out_charged),
		},
		.arrays = { T_OUT(domain_query, limits, struct capkm_limit_value) },
	},
	[CAPKM_NR_DOMAIN_DESTROY] = {
		"DOMAIN_DESTROY", sizeof(T_S(domain_destroy)),
		.known_flags = CAPKM_DOMAIN_DESTROY_F_ALL,
	},
	[CAPKM_NR_STREAM_CREATE] = {
		"STREAM_CREATE", sizeof(T_S(stream_create)),
		.outs = { T_O(stream_create, out_stream) },
		.limit = T_O(stream_create, out_limit),
		.arrays = { T_IN(stream_create, label, char) },
	},
	[CAPKM_NR_STREAM_QUERY] = {
		"STREAM_QUERY", sizeof(T_S(stream_query)),
		.outs = {
			T_O(stream_query, out_slot), T_O(stream_query, out_state),
			T_O(stream_query, out_window), T_O(stream_query, out_owner),
			T_O(stream_query, out_scopes), T_O(stream_query, out_sequence),
			T_O(stream_query, out_confirmed),
			T_O(stream_query, out_unconfirmed),
			T_O(stream_query, out_failure), T_O(stream_query, out_epoch),
			T_O(stream_query, out_queued), T_O(stream_query, out_client),
		},
		.reserved = {
			T_O(stream_query, __reserved), T_PLACE_RESERVED(stream_query),
		},
		.known_flags = CAPKM_PLACE_F_SLOT,
	},
	[CAPKM_NR_BUFFER_CREATE] = {
		"BUFFER_CREATE", sizeof(T_S(buffer_create)),
		.outs = {
			T_O(buffer_create, out_buffer), T_O(buffer_create, out_sequence),
		},
		.limit = T_O(buffer_create, out_limit),
		.arrays = { T_IN(buffer_create, label, char) },
		.known_flags = CAPKM_BUFFER_CREATE_F_ALL,
	},
	[CAPKM_NR_BUFFER_EXPORT] = {
		"BUFFER_EXPORT", sizeof(T_S(buffer_export)),
		.limit = T_O(buffer_export, out_limit),
		.reserved = { T_O(buffer_export, __reserved) },
	},
	[CAPKM_NR_BUFFER_OPEN] = {
		"BUFFER_OPEN", sizeof(T_S(buffer_open)),
		.outs = { T_O(buffer_open, out_bytes), T_O(buffer_open, out_sequence) },
		.limit = T_O(buffer_open, out_limit),
		.reserved = { T_O(buffer_open, __reserved) },
	},
	[CAPKM_NR_BUFFER_CLOSE] = { "BUFFER_CLOSE", sizeof(T_S(buffer_close)) },
	[CAPKM_NR_BUFFER_RESET] = {
		"BUFFER_RESET", sizeof(T_S(buffer_reset)),
		.outs = { T_O(buffer_reset, out_sequence) },
	},
	[CAPKM_NR_BUFFER_QUERY] = {
		"BUFFER_QUERY", sizeof(T_S(buffer_query)),
		.outs = {
			T_O(buffer_query, out_ranges), T_O(buffer_query, out_bytes),
			T_O(buffer_query, out_device), T_O(buffer_query, out_address),
			T_O(buffer_query, out_sequence), T_O(buffer_query, out_claims),
			T_O(buffer_query, out_failures), T_O(buffer_query, out_session),
			T_O(buffer_query, out_state), T_O(buffer_query, out_holders),
			T_O(buffer_query, out_uses), T_O(buffer_query, out_label),
			T_O(buffer_query, out_writers),
		},
		.reserved = { T_O(buffer_query, __reserved) },
		.arrays = {
			T_OUT(buffer_query, ranges, struct capkm_range),
			T_OUT(buffer_query, writers, struct capkm_writer),
		},
	},
	[CAPKM_NR_WINDOW_PREPARE] = {
		"WINDOW_PREPARE", sizeof(T_S(window_prepare)),
		.outs = {
			T_O(window_prepare, out_window), T_O(window_prepare, out_slot),
		},
		.always = { T_O(window_prepare, out_state) },
		.limit = T_O(window_prepare, out_limit),
		.reserved = { T_PLACE_RESERVED(window_prepare) },
		.arrays = { T_IN(window_prepare, mode, char) },
		.known_flags = CAPKM_WINDOW_PREPARE_F_ALL,
	},
	[CAPKM_NR_WINDOW_BEGIN] = {
		"WINDOW_BEGIN", sizeof(T_S(window_begin)),
		.outs = { T_O(window_begin, out_window), T_O(window_begin, out_owner) },
		.always = { T_O(window_begin, out_state) },
		.reserved = {
			T_O(window_begin, __reserved), T_PLACE_RESERVED(window_begin),
		},
		.known_flags = CAPKM_WINDOW_BEGIN_F_ALL,
	},
	[CAPKM_NR_WINDOW_END] = {
		"WINDOW_END", sizeof(T_S(window_end)),
		.outs = {
			T_O(window_end, out_verdict), T_O(window_end, out_window),
			T_O(window_end, out_owner), T_O(window_end, out_recorded),
			T_O(window_end, out_doomed),
		},
		.always = { T_O(window_end, out_state) },
		.reserved = {
			T_O(window_end, __reserved), T_PLACE_RESERVED(window_end),
		},
		.known_flags = CAPKM_WINDOW_END_F_ALL,
	},
	[CAPKM_NR_WINDOW_SEAL] = {
		"WINDOW_SEAL", sizeof(T_S(window_seal)),
		.outs = {
			T_O(window_seal, out_reports), T_O(window_seal, out_result),
			T_O(window_seal, out_graph),
		},
		.limit = T_O(window_seal, out_limit),
		.arrays = { T_OUT(window_seal, reports, struct capkm_report) },
		.known_flags = CAPKM_WINDOW_SEAL_F_ALL,
	},
	[CAPKM_NR_WINDOW_REFUSE] = {
		"WINDOW_REFUSE", sizeof(T_S(window_refuse)),
		.outs = { T_O(window_refuse, out_reports) },
		.reserved = { T_O(window_refuse, __reserved) },
		.arrays = {
			T_IN(window_refuse, text, char),
			T_OUT(window_refuse, reports, struct capkm_report),
		},
	},
	[CAPKM_NR_WINDOW_TAKE] = {
		"WINDOW_TAKE", sizeof(T_S(window_take)),
		.outs = {
			T_O(window_take, out_claims), T_O(window_take, out_retained),
			T_O(window_take, out_reports),
		},
		.arrays = {
			T_OUT(window_take, claims, struct capkm_claim),
			T_OUT(window_take, retained, struct capkm_retained),
			T_OUT(window_take, reports, struct capkm_report),
		},
		.known_flags = CAPKM_WINDOW_TAKE_F_ALL,
	},
	[CAPKM_NR_WINDOW_RECORD] = {
		"WINDOW_RECORD", sizeof(T_S(window_record)),
		.always = { T_O(window_record, out_error_index) },
		.limit = T_O(window_record, out_limit),
		.arrays = { T_CLAIMS(window_record, reads), T_CLAIMS(window_record, writes) },
		.known_flags = CAPKM_WINDOW_RECORD_F_ALL,
	},
	[CAPKM_NR_WINDOW_ABORT] = {
		"WINDOW_ABORT", sizeof(T_S(window_abort)),
		.outs = { T_O(window_abort, out_window) },
		.reserved = { T_PLACE_RESERVED(window_abort) },
		.known_flags = CAPKM_PLACE_F_SLOT,
	},
	[CAPKM_NR_WINDOW_FAIL] = {
		"WINDOW_FAIL", sizeof(T_S(window_fail)),
		.outs = { T_O(window_fail, out_failures) },
		.always = { T_O(window_fail, out_state) },
		.arrays = { T_IN(window_fail, label, char), T_IN(window_fail, text, char) },
	},
	[CAPKM_NR_WINDOW_RETAIN] = {
		"WINDOW_RETAIN", sizeof(T_S(window_retain)),
		.limit = T_O(window_retain, out_limit),
		.reserved = {
			T_O(window_retain, __reserved), {
				offsetof(T_S(window_retain), retained) +
				offsetof(struct capkm_retained, __reserved), 4
			},
		},
	},
	[CAPKM_NR_WINDOW_QUERY] = {
		"WINDOW_QUERY", sizeof(T_S(window_query)),
		.outs = {
			T_O(window_query, out_reports), T_O(window_query, out_window),
			T_O(window_query, out_owner), T_O(window_query, out_session),
			T_O(window_query, out_cookie), T_O(window_query, out_graph),
			T_O(window_query, out_device), T_O(window_query, out_slot),
			T_O(window_query, out_state), T_O(window_query, out_verdict),
			T_O(window_query, out_capture_cache), T_O(window_query, out_doomed),
			T_O(window_query, out_strict), T_O(window_query, out_pid),
			T_O(window_query, out_uid), T_O(window_query, out_recorded),
			T_O(window_query, out_bytes), T_O(window_query, out_inputs),
			T_O(window_query, out_retained), T_O(window_query, out_retained_bytes),
			T_O(window_query, out_launches),
			T_O(window_query, out_foreign_launches),
			T_O(window_query, out_failures), T_O(window_query, out_failed_after),
			/* The rest lies together. */
			{
				offsetof(T_S(window_query), out_prepared_ns),
				offsetof(T_S(window_query), members_uptr) -
				offsetof(T_S(window_query), out_prepared_ns)
			},
		},
		.reserved = {
			T_O(window_query, __reserved), T_PLACE_RESERVED(window_query),
		},
		.arrays = {
			T_OUT(window_query, reports, struct capkm_report),
			T_OUT(window_query, members, struct capkm_member),
		},
		.known_flags = CAPKM_WINDOW_QUERY_F_ALL,
	},
	[CAPKM_NR_WINDOW_ABANDON] = { "WINDOW_ABANDON", sizeof(T_S(window_abandon)) },
	[CAPKM_NR_SCOPE_ENTER] = {
		"SCOPE_ENTER", sizeof(T_S(scope_enter)),
		.outs = {
			T_O(scope_enter, out_reports), T_O(scope_enter, out_result),
			T_O(scope_enter, out_scope), T_O(scope_enter, out_sequence),
			T_O(scope_enter, out_window), T_O(scope_enter, out_failure),
		},
		.always = { T_O(scope_enter, out_error_index) },
		.limit = T_O(scope_enter, out_limit),
		.reserved = { T_PLACE_RESERVED(scope_enter) },
		.arrays = {
			T_CLAIMS(scope_enter, reads), T_CLAIMS(scope_enter, writes),
			T_IN(scope_enter, label, char),
			T_OUT(scope_enter, reports, struct capkm_report),
		},
		.known_flags = CAPKM_SCOPE_ENTER_F_ALL,
	},
	[CAPKM_NR_SCOPE_EXIT] = {
		"SCOPE_EXIT", sizeof(T_S(scope_exit)),
		.outs = { T_O(scope_exit, out_failure), T_O(scope_exit, out_sequence) },
		.arrays = { T_IN(scope_exit, text, char), T_IN(scope_exit, stack, char) },
		.known_flags = CAPKM_SCOPE_EXIT_F_ALL,
	},
	[CAPKM_NR_CHECK] = {
		"CHECK", sizeof(T_S(check)),
		.outs = {
			T_O(check, out_reports), T_O(check, out_result),
			T_O(check, out_unconfirmed), T_O(check, out_sequence),
		},
		.always = { T_O(check, out_error_index) },
		.arrays = {
			T_CLAIMS(check, claims), T_OUT(check, reports, struct capkm_report),
		},
		.known_flags = CAPKM_CHECK_F_ALL,
	},
	[CAPKM_NR_TAINT] = {
		"TAINT", sizeof(T_S(taint)),
		.outs = { T_O(taint, out_failure), T_O(taint, out_sequence) },
		.always = { T_O(taint, out_error_index) },
		.limit = T_O(taint, out_limit),
		.arrays = { T_CLAIMS(taint, claims), T_IN(taint, text, char) },
	},
	[CAPKM_NR_WRITTEN] = {
		"WRITTEN", sizeof(T_S(written)),
		.outs = { T_O(written, out_sequence) },
		.always = { T_O(written, out_error_index) },
		.arrays = { T_CLAIMS(written, claims) },
	},
	[CAPKM_NR_GRAPH_REPLAY_BEGIN] = {
		"GRAPH_REPLAY_BEGIN", sizeof(T_S(graph_replay_begin)),
		.outs = {
			T_O(graph_replay_begin, out_reports),
			T_O(graph_replay_begin, out_result),
			T_O(graph_replay_begin, out_sequence),
		},
		.limit = T_O(graph_replay_begin, out_limit),
		.reserved = { T_PLACE_RESERVED(graph_replay_begin) },
		.arrays = { T_OUT(graph_replay_begin, reports, struct capkm_report) },
		.known_flags = CAPKM_PLACE_F_SLOT,
	},
	[CAPKM_NR_GRAPH_REPLAY_END] = {
		"GRAPH_REPLAY_END", sizeof(T_S(graph_replay_end)),
		.outs = {
			T_O(graph_replay_end, out_failure),
			T_O(graph_replay_end, out_sequence),
		},
		.reserved = { T_O(graph_replay_end, __reserved) },
		.arrays = { T_IN(graph_replay_end, text, char) },
		.known_flags = CAPKM_SCOPE_EXIT_F_ALL,
	},
	[CAPKM_NR_GRAPH_DESTROY] = { "GRAPH_DESTROY", sizeof(T_S(graph_destroy)) },
	[CAPKM_NR_GRAPH_QUERY] = {
		"GRAPH_QUERY", sizeof(T_S(graph_query)),
		.outs = {
			T_O(graph_query, out_claims), T_O(graph_query, out_window),
			T_O(graph_query, out_session), T_O(graph_query, out_owner),
			T_O(graph_query, out_cookie), T_O(graph_query, out_writes),
			T_O(graph_query, out_inputs), T_O(graph_query, out_seen),
			T_O(graph_query, out_retained), T_O(graph_query, out_retained_bytes),
			T_O(graph_query, out_replays), T_O(graph_query, out_failed_replays),
			T_O(graph_query, out_pid), T_O(graph_query, out_replaying),
			T_O(graph_query, out_updates),
			T_O(graph_query, out_failed_updates),
		},
		.arrays = { T_OUT(graph_query, claims, struct capkm_claim) },
		.known_flags = CAPKM_GRAPH_QUERY_F_ALL,
	},
	[CAPKM_NR_FAILURE_QUERY] = {
		"FAILURE_QUERY", sizeof(T_S(failure_query)),
		.outs = {
			T_O(failure_query, out_reports), T_O(failure_query, out_hops),
			T_O(failure_query, out_carriers), T_O(failure_query, out_skips),
			T_O(failure_query, out_dropped), T_O(failure_query, out_stack),
		},
		.arrays = {
			T_OUT(failure_query, reports, struct capkm_report),
			T_OUT(failure_query, hops, struct capkm_hop),
			T_OUT(failure_query, carriers, struct capkm_claim),
			T_OUT(failure_query, stack, char),
		},
	},
	[CAPKM_NR_SESSION_JOIN] = {
		"SESSION_JOIN", sizeof(T_S(session_join)),
		.outs = {
			T_O(session_join, out_domain), T_O(session_join, out_session),
			T_O(session_join, out_rights), T_O(session_join, out_backend),
			T_O(session_join, out_max_streams),
		},
		.limit = T_O(session_join, out_limit),
	},
	[CAPKM_NR_STREAM_DESTROY] = {
		"STREAM_DESTROY", sizeof(T_S(stream_destroy)),
		.outs = { T_O(stream_destroy, out_windows) },
		.reserved = { T_O(stream_destroy, __reserved) },
	},
	[CAPKM_NR_STREAM_CONFIRM] = {
		"STREAM_CONFIRM", sizeof(T_S(stream_confirm)),
		.outs = { T_O(stream_confirm, out_unconfirmed) },
		.reserved = { T_PLACE_RESERVED(stream_confirm) },
		.known_flags = CAPKM_STREAM_CONFIRM_F_ALL,
	},
	[CAPKM_NR_STREAM_FAULT] = {
		"STREAM_FAULT", sizeof(T_S(stream_fault)),
		.outs = {
			T_O(stream_fault, out_failure), T_O(stream_fault, out_epoch),
		},
		.reserved = { T_PLACE_RESERVED(stream_fault) },
		.arrays = { T_IN(stream_fault, text, char) },
		.known_flags = CAPKM_PLACE_F_SLOT,
	},
	[CAPKM_NR_STREAM_FLUSH] = {
		"STREAM_FLUSH", sizeof(T_S(stream_flush)),
		.outs = {
			T_O(stream_flush, out_reports), T_O(stream_flush, out_left),
			T_O(stream_flush, out_dropped),
		},
		.reserved = { T_PLACE_RESERVED(stream_flush) },
		.arrays = { T_OUT(stream_flush, reports, struct capkm_report) },
		.known_flags = CAPKM_STREAM_FLUSH_F_ALL,
	},
	[CAPKM_NR_CONTEXT_RENEW] = {
		"CONTEXT_RENEW", sizeof(T_S(context_renew)),
		.outs = { T_O(context_renew, out_epoch) },
	},
	[CAPKM_NR_WINDOW_JOIN] = {
		"WINDOW_JOIN", sizeof(T_S(window_join)),
		.outs = { T_O(window_join, out_result) },
		.always = { T_O(window_join, out_state) },
		.limit = T_O(window_join, out_limit),
		.reserved = {
			T_O(window_join, __reserved), T_PLACE_RESERVED(window_join),
		},
		.known_flags = CAPKM_WINDOW_JOIN_F_ALL,
	},
	[CAPKM_NR_WINDOW_WAIT] = {
		"WINDOW_WAIT", sizeof(T_S(window_wait)),
		.outs = {
			T_O(window_wait, out_window), T_O(window_wait, out_state),
			T_O(window_wait, out_kind),
		},
		.rest = T_O(window_wait, timeout_ns),
		.reserved = { T_PLACE_RESERVED(window_wait) },
		.known_flags = CAPKM_WINDOW_WAIT_F_ALL,
	},
	[CAPKM_NR_GRAPH_UPDATE] = {
		"GRAPH_UPDATE", sizeof(T_S(graph_update)),
		.outs = {
			T_O(graph_update, out_reports), T_O(graph_update, out_result),
		},
		.reserved = { T_O(graph_update, __reserved) },
		.arrays = { T_OUT(graph_update, reports, struct capkm_report) },
		.known_flags = CAPKM_GRAPH_UPDATE_F_ALL,
	},
	[CAPKM_NR_DEVICE_FAULT] = {
		"DEVICE_FAULT", sizeof(T_S(device_fault)),
		.outs = { T_O(device_fault, out_clients) },
		.reserved = { T_O(device_fault, __reserved) },
		.arrays = { T_IN(device_fault, text, char) },
	},
	[CAPKM_NR_REFUSE] = {
		"REFUSE", sizeof(T_S(refuse)),
		.outs = {
			T_O(refuse, out_reports), T_O(refuse, out_result),
			T_O(refuse, out_state), T_O(refuse, out_window),
			T_O(refuse, out_failure),
		},
		.always = { T_O(refuse, out_error_index) },
		.limit = T_O(refuse, out_limit),
		.reserved = { T_PLACE_RESERVED(refuse) },
		.arrays = {
			T_CLAIMS(refuse, claims),
			T_OUT(refuse, reports, struct capkm_report),
		},
		.known_flags = CAPKM_PLACE_F_SLOT,
	},
	[CAPKM_NR_LEDGER_CREATE] = {
		"LEDGER_CREATE", sizeof(T_S(ledger_create)),
		.outs = { T_O(ledger_create, out_ledger) },
		.limit = T_O(ledger_create, out_limit),
		.reserved = { T_O(ledger_create, __reserved) },
		.arrays = { T_IN(ledger_create, label, char) },
		.known_flags = CAPKM_LEDGER_F_ALL,
	},
	[CAPKM_NR_LEDGER_BEGIN_STEP] = {
		"LEDGER_BEGIN_STEP", sizeof(T_S(ledger_begin_step)),
		.outs = { T_O(ledger_begin_step, out_steps) },
	},
	[CAPKM_NR_LEDGER_RESERVE] = {
		"LEDGER_RESERVE", sizeof(T_S(ledger_reserve)),
		.outs = {
			T_O(ledger_reserve, out_result), T_O(ledger_reserve, out_axis),
			T_O(ledger_reserve, out_bound), T_O(ledger_reserve, out_used),
			T_O(ledger_reserve, out_most),
		},
		.reserved = { T_O(ledger_reserve, __reserved) },
	},
	[CAPKM_NR_LEDGER_QUERY] = {
		"LEDGER_QUERY", sizeof(T_S(ledger_query)),
		.outs = {
			T_O(ledger_query, out_ledger), T_O(ledger_query, out_holder),
			T_O(ledger_query, out_parent), T_O(ledger_query, out_flags),
			T_O(ledger_query, out_on_limit), T_O(ledger_query, out_per_step),
			T_O(ledger_query, out_cumulative),
			T_O(ledger_query, out_inherited), T_O(ledger_query, out_step),
			T_O(ledger_query, out_total), T_O(ledger_query, out_steps),
			T_O(ledger_query, out_reserved), T_O(ledger_query, out_refused),
			T_O(ledger_query, out_created_ns), T_O(ledger_query, out_label),
		},
		.known_flags = CAPKM_LEDGER_QUERY_F_ALL,
	},
	[CAPKM_NR_LEDGER_FORK] = {
		"LEDGER_FORK", sizeof(T_S(ledger_fork)),
		.outs = {
			T_O(ledger_fork, out_ledger), T_O(ledger_fork, out_inherited),
		},
		.limit = T_O(ledger_fork, out_limit),
		.reserved = { T_O(ledger_fork, __reserved) },
		.arrays = { T_IN(ledger_fork, label, char) },
		.known_flags = CAPKM_LEDGER_F_ALL,
	},
	[CAPKM_NR_LEDGER_ADOPT] = { "LEDGER_ADOPT", sizeof(T_S(ledger_adopt)) },
	[CAPKM_NR_LEDGER_DESTROY] = { "LEDGER_DESTROY", sizeof(T_S(ledger_destroy)) },
	[CAPKM_NR_SCOPE_TABLE] = {
		"SCOPE_TABLE", sizeof(T_S(scope_table)),
		.outs = {
			T_O(scope_table, out_entry), T_O(scope_table, out_slot),
			T_O(scope_table, out_streams),
		},
		.limit = T_O(scope_table, out_limit),
		.reserved = { T_O(scope_table, __reserved) },
		.known_flags = CAPKM_SCOPE_TABLE_F_ALL,
	},
	[CAPKM_NR_WINDOW_LIST] = {
		"WINDOW_LIST", sizeof(T_S(window_list)),
		.outs = {
			T_O(window_list, out_windows), T_O(window_list, out_open),
			T_O(window_list, out_active), T_O(window_list, out_recording),
		},
		.reserved = { T_O(window_list, __reserved) },
		.arrays = { T_OUT(window_list, windows, struct capkm_open_window) },
		.known_flags = CAPKM_WINDOW_LIST_F_ALL,
	},
	[CAPKM_NR_SUBMIT] = {
		"SUBMIT", sizeof(T_S(submit)),
		.outs = { T_O(submit, out_done), T_O(submit, out_error) },
		.always = { T_O(submit, out_error_index) },
		.reserved = { T_O(submit, __reserved) },
		.arrays = { T_IN(submit, elements, struct capkm_element) },
	},
};

#define T_OPS ((unsigned int)T_LEN(t_ops))
#define T_ARG_MAX 512

static T_UNUSED u_int64_t t_get64(const void *arg, unsigned int at)
{
	u_int64_t v;

	memcpy(&v, (const char *)arg + at, sizeof(v));
	return v;
}

static T_UNUSED u_int32_t t_get32(const void *arg, unsigned int at)
{
	u_int32_t v;

	memcpy(&v, (const char *)arg + at, sizeof(v));
	return v;
}

static T_UNUSED void t_put64(void *arg, unsigned int at, u_int64_t v)
{
	memcpy((char *)arg + at, &v, sizeof(v));
}

static T_UNUSED void t_put32(void *arg, unsigned int at, u_int32_t v)
{
	memcpy((char *)arg + at, &v, sizeof(v));
}

/* What a call may do to a byte of its struct. */
enum t_byte {
	T_INPUT,	/* nothing */
	T_OUTPUT,	/* write to it if all went well */
	T_ALWAYS,	/* write to it */
	T_TIME_LEFT,	/* write to it on EINTR */
};

static unsigned char t_bytes[T_OPS][T_ARG_MAX] T_UNUSED;

static T_UNUSED void t_bytes_are(unsigned char *bytes, const struct t_field *f, size_t n,
				 enum t_byte what)
{
	for (size_t i = 0; i < n && f[i].size; i++)
		memset(bytes + f[i].at, what, f[i].size);
}

static void __attribute__((constructor)) T_UNUSED t_bytes_fill(void)
{
	for (unsigned int nr = 0; nr < T_OPS; nr++) {
		const struct t_op *op = &t_ops[nr];

		t_bytes_are(t_bytes[nr], op->outs, T_LEN(op->outs), T_OUTPUT);
		t_bytes_are(t_bytes[nr], op->always, T_LEN(op->always), T_ALWAYS);
		t_bytes_are(t_bytes[nr], &op->limit, 1, T_ALWAYS);
		t_bytes_are(t_bytes[nr], &op->rest, 1, T_TIME_LEFT);
	}
}

#endif /* ABI_TABLE_H */
