/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The table of the ABI's operations: a row for each, with the shape of its struct and
 * of the arrays that the struct names. Who includes it says with OP_FN() what does the
 * operation: call.c here; a transport that carries calls elsewhere needs the shape only.
 */
#include "internal.h"

/* Of linux/kernel.h: too short for a name that others may not use. */
#undef READ
#undef WRITE

enum access {
	FREE,		/* needs no domain; called without a lock */
	READ,		/* right r */
	READ_CLIENT,	/* right r, and only from a client */
	WRITE,		/* right w, and only from a client */
};

enum direction {
	NONE,
	IN,
	OUT,
	IN_KEEP,	/* in; memory that the op may keep; left out if there is none */
	OUT_SPARE,	/* out; left out if there is no memory */
};

struct op_array {
	u16 ptr, len, elem;
	u16 max;
	enum direction direction;
};

static inline bool is_out(const struct op_array *desc)
{
	return desc->direction == OUT || desc->direction == OUT_SPARE;
}

struct op {
	int (*fn)(struct call *c);
	u16 size;
	u32 flags;
	enum access access;
	bool probe;		/* before the change: can the answer be written? */
	u16 place;		/* offset of its struct capkm_place, or 0 */
	u16 error;		/* offset of what it says about an error, or 0 */
	u16 limit;		/* offset of out_limit, or 0 */
	u16 left;		/* offset of the time that is left on EINTR, or 0 */
	u16 reserved[2];	/* offsets of members that must be 0, or 0 */
	struct op_array array[CALL_ARRAYS];
};

#define OP(NR, name, ...)						\
	[CAPKM_NR_##NR] = {						\
		OP_FN(name) .size = sizeof(struct capkm_##name), __VA_ARGS__ \
	}
#define AT(name, member) offsetof(struct capkm_##name, member)
#define ARRAY(name, member, type, most, way) {				\
		.ptr = AT(name, member##_uptr), .len = AT(name, member##_len), \
		.elem = sizeof(type), .max = (most), .direction = (way)	\
	}
#define CLAIMS_IN(name, member)						\
	ARRAY(name, member, struct capkm_claim, CAPKM_CLAIMS_MAX, IN)
#define CLAIMS_OUT(name, member)					\
	ARRAY(name, member, struct capkm_claim, CAPKM_CLAIMS_MAX, OUT)
#define TEXT_IN(name, member, most) ARRAY(name, member, char, most, IN)
#define REPORTS_OUT(name)						\
	ARRAY(name, reports, struct capkm_report, 64, OUT)
#define LIMITS_OUT(name)						\
	ARRAY(name, limits, struct capkm_limit_value, 64, OUT)
#define REPORTS_SPARE(name)						\
	ARRAY(name, reports, struct capkm_report, 64, OUT_SPARE)

static const struct op ops[] = {
	OP(INFO, info, .access = FREE, .array = { LIMITS_OUT(info) }),
	OP(DOMAIN_CREATE, domain_create, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_CREATE_F_ALL,
	   .limit = AT(domain_create, out_limit),
	   .array = { TEXT_IN(domain_create, name, CAPKM_NAME_MAX),
		      ARRAY(domain_create, limits, struct capkm_limit_value, 64,
			    IN) }),
	OP(DOMAIN_ATTACH, domain_attach, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_ATTACH_F_ALL,
	   .limit = AT(domain_attach, out_limit),
	   .array = { TEXT_IN(domain_attach, name, CAPKM_NAME_MAX) }),
	OP(DOMAIN_QUERY, domain_query, .access = READ,
	   .array = { LIMITS_OUT(domain_query) }),
	OP(DOMAIN_DESTROY, domain_destroy, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_DESTROY_F_ALL),
	OP(STREAM_CREATE, stream_create, .access = WRITE, .probe = true,
	   .limit = AT(stream_create, out_limit),
	   .array = { TEXT_IN(stream_create, label, CAPKM_LABEL_MAX) }),
	OP(STREAM_QUERY, stream_query, .access = READ_CLIENT,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(stream_query, place),
	   .reserved = { AT(stream_query, __reserved) }),
	OP(BUFFER_CREATE, buffer_create, .access = WRITE, .probe = true,
	   .flags = CAPKM_BUFFER_CREATE_F_ALL,
	   .limit = AT(buffer_create, out_limit),
	   .array = { TEXT_IN(buffer_create, label, CAPKM_LABEL_MAX) }),
	OP(BUFFER_EXPORT, buffer_export, .access = WRITE, .probe = true,
	   .limit = AT(buffer_export, out_limit),
	   .reserved = { AT(buffer_export, __reserved) }),
	OP(BUFFER_OPEN, buffer_open, .access = READ_CLIENT, .probe = true,
	   .limit = AT(buffer_open, out_limit),
	   .reserved = { AT(buffer_open, __reserved) }),
	OP(BUFFER_CLOSE, buffer_close, .access = READ_CLIENT, .probe = true),
	OP(BUFFER_RESET, buffer_reset, .access = WRITE, .probe = true),
	OP(BUFFER_QUERY, buffer_query, .access = READ,
	   .reserved = { AT(buffer_query, __reserved) },
	   .array = { ARRAY(buffer_query, ranges, struct capkm_range, 4096,
			    OUT),
		      ARRAY(buffer_query, writers, struct capkm_writer, 4096,
			    OUT) }),
	OP(WINDOW_PREPARE, window_prepare, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_PREPARE_F_ALL,
	   .place = AT(window_prepare, place),
	   .error = AT(window_prepare, out_state),
	   .limit = AT(window_prepare, out_limit),
	   .array = { TEXT_IN(window_prepare, mode, CAPKM_MODE_MAX) }),
	OP(WINDOW_BEGIN, window_begin, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_BEGIN_F_ALL, .place = AT(window_begin, place),
	   .error = AT(window_begin, out_state),
	   .reserved = { AT(window_begin, __reserved) }),
	OP(WINDOW_END, window_end, .access = WRITE,
	   .flags = CAPKM_WINDOW_END_F_ALL, .place = AT(window_end, place),
	   .error = AT(window_end, out_state),
	   .reserved = { AT(window_end, __reserved) }),
	OP(WINDOW_SEAL, window_seal, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_SEAL_F_ALL,
	   .limit = AT(window_seal, out_limit),
	   .array = { REPORTS_OUT(window_seal) }),
	OP(WINDOW_REFUSE, window_refuse, .access = WRITE, .probe = true,
	   .reserved = { AT(window_refuse, __reserved) },
	   .array = { TEXT_IN(window_refuse, text, CAPKM_TEXT_MAX),
		      REPORTS_SPARE(window_refuse) }),
	OP(WINDOW_TAKE, window_take, .access = WRITE,
	   .flags = CAPKM_WINDOW_TAKE_F_ALL,
	   .array = { CLAIMS_OUT(window_take, claims),
		      ARRAY(window_take, retained, struct capkm_retained, 1024,
			    OUT),
		      REPORTS_OUT(window_take) }),
	OP(WINDOW_RECORD, window_record, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_RECORD_F_ALL,
	   .error = AT(window_record, out_error_index),
	   .limit = AT(window_record, out_limit),
	   .array = { CLAIMS_IN(window_record, reads),
		      CLAIMS_IN(window_record, writes) }),
	OP(WINDOW_ABORT, window_abort, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(window_abort, place)),
	OP(WINDOW_FAIL, window_fail, .access = WRITE, .probe = true,
	   .array = { TEXT_IN(window_fail, label, CAPKM_LABEL_MAX),
		      TEXT_IN(window_fail, text, CAPKM_TEXT_MAX) }),
	OP(WINDOW_RETAIN, window_retain, .access = WRITE, .probe = true,
	   .limit = AT(window_retain, out_limit),
	   .reserved = { AT(window_retain, retained.__reserved),
			 AT(window_retain, __reserved) }),
	OP(WINDOW_QUERY, window_query, .access = READ,
	   .flags = CAPKM_WINDOW_QUERY_F_ALL, .place = AT(window_query, place),
	   .reserved = { AT(window_query, __reserved) },
	   .array = { REPORTS_OUT(window_query),
		      ARRAY(window_query, members, struct capkm_member, 1024,
			    OUT) }),
	OP(WINDOW_LIST, window_list, .access = READ,
	   .flags = CAPKM_WINDOW_LIST_F_ALL,
	   .reserved = { AT(window_list, __reserved) },
	   .array = { ARRAY(window_list, windows, struct capkm_open_window,
			    1024, OUT) }),
	OP(WINDOW_ABANDON, window_abandon, .access = WRITE, .probe = true),
	OP(SCOPE_ENTER, scope_enter, .access = WRITE,
	   .flags = CAPKM_SCOPE_ENTER_F_ALL, .place = AT(scope_enter, place),
	   .error = AT(scope_enter, out_error_index),
	   .limit = AT(scope_enter, out_limit),
	   .array = { CLAIMS_IN(scope_enter, reads),
		      CLAIMS_IN(scope_enter, writes),
		      TEXT_IN(scope_enter, label, CAPKM_LABEL_MAX),
		      REPORTS_OUT(scope_enter) }),
	OP(SCOPE_EXIT, scope_exit, .access = WRITE,
	   .flags = CAPKM_SCOPE_EXIT_F_ALL,
	   .array = { TEXT_IN(scope_exit, text, CAPKM_TEXT_MAX),
		      ARRAY(scope_exit, stack, char, CAPKM_STACK_MAX,
			    IN_KEEP) }),
	OP(CHECK, check, .access = READ, .flags = CAPKM_CHECK_F_ALL,
	   .error = AT(check, out_error_index),
	   .array = { CLAIMS_IN(check, claims), REPORTS_OUT(check) }),
	OP(TAINT, taint, .access = WRITE, .probe = true,
	   .error = AT(taint, out_error_index),
	   .limit = AT(taint, out_limit),
	   .array = { CLAIMS_IN(taint, claims),
		      TEXT_IN(taint, text, CAPKM_TEXT_MAX) }),
	OP(WRITTEN, written, .access = WRITE, .probe = true,
	   .error = AT(written, out_error_index),
	   .array = { CLAIMS_IN(written, claims) }),
	OP(GRAPH_REPLAY_BEGIN, graph_replay_begin, .access = WRITE,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(graph_replay_begin, place),
	   .limit = AT(graph_replay_begin, out_limit),
	   .array = { REPORTS_OUT(graph_replay_begin) }),
	OP(GRAPH_REPLAY_END, graph_replay_end, .access = WRITE,
	   .flags = CAPKM_SCOPE_EXIT_F_ALL,
	   .reserved = { AT(graph_replay_end, __reserved) },
	   .array = { TEXT_IN(graph_replay_end, text, CAPKM_TEXT_MAX) }),
	OP(GRAPH_DESTROY, graph_destroy, .access = WRITE, .probe = true),
	OP(GRAPH_QUERY, graph_query, .access = READ,
	   .flags = CAPKM_GRAPH_QUERY_F_ALL,
	   .array = { CLAIMS_OUT(graph_query, claims) }),
	OP(FAILURE_QUERY, failure_query, .access = READ,
	   .array = { REPORTS_OUT(failure_query),
		      ARRAY(failure_query, hops, struct capkm_hop, SKIPS_MAX,
			    OUT),
		      CLAIMS_OUT(failure_query, carriers),
		      ARRAY(failure_query, stack, char, CAPKM_STACK_MAX,
			    OUT) }),
	OP(SESSION_JOIN, session_join, .access = FREE, .probe = true,
	   .limit = AT(session_join, out_limit)),
	OP(STREAM_DESTROY, stream_destroy, .access = WRITE, .probe = true,
	   .reserved = { AT(stream_destroy, __reserved) }),
	OP(STREAM_CONFIRM, stream_confirm, .access = WRITE, .probe = true,
	   .flags = CAPKM_STREAM_CONFIRM_F_ALL,
	   .place = AT(stream_confirm, place)),
	OP(STREAM_FAULT, stream_fault, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(stream_fault, place),
	   .array = { TEXT_IN(stream_fault, text, CAPKM_TEXT_MAX) }),
	OP(STREAM_FLUSH, stream_flush, .access = WRITE, .probe = true,
	   .flags = CAPKM_STREAM_FLUSH_F_ALL, .place = AT(stream_flush, place),
	   .array = { REPORTS_OUT(stream_flush) }),
	OP(CONTEXT_RENEW, context_renew, .access = WRITE, .probe = true),
	OP(WINDOW_JOIN, window_join, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_JOIN_F_ALL, .place = AT(window_join, place),
	   .error = AT(window_join, out_state),
	   .limit = AT(window_join, out_limit),
	   .reserved = { AT(window_join, __reserved) }),
	OP(WINDOW_WAIT, window_wait, .access = READ, .probe = true,
	   .flags = CAPKM_WINDOW_WAIT_F_ALL, .place = AT(window_wait, place),
	   .left = AT(window_wait, timeout_ns)),
	OP(GRAPH_UPDATE, graph_update, .access = WRITE, .probe = true,
	   .flags = CAPKM_GRAPH_UPDATE_F_ALL,
	   .reserved = { AT(graph_update, __reserved) },
	   .array = { REPORTS_OUT(graph_update) }),
	OP(REFUSE, refuse, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(refuse, place),
	   .error = AT(refuse, out_error_index),
	   .limit = AT(refuse, out_limit),
	   .array = { CLAIMS_IN(refuse, claims), REPORTS_OUT(refuse) }),
	OP(LEDGER_CREATE, ledger_create, .access = WRITE, .probe = true,
	   .flags = CAPKM_LEDGER_F_ALL,
	   .limit = AT(ledger_create, out_limit),
	   .reserved = { AT(ledger_create, __reserved) },
	   .array = { TEXT_IN(ledger_create, label, CAPKM_LABEL_MAX) }),
	OP(LEDGER_BEGIN_STEP, ledger_begin_step, .access = WRITE,
	   .probe = true),
	OP(LEDGER_RESERVE, ledger_reserve, .access = WRITE, .probe = true,
	   .reserved = { AT(ledger_reserve, __reserved) }),
	OP(LEDGER_QUERY, ledger_query, .access = READ,
	   .flags = CAPKM_LEDGER_QUERY_F_ALL),
	OP(LEDGER_FORK, ledger_fork, .access = WRITE, .probe = true,
	   .flags = CAPKM_LEDGER_F_ALL,
	   .limit = AT(ledger_fork, out_limit),
	   .reserved = { AT(ledger_fork, __reserved) },
	   .array = { TEXT_IN(ledger_fork, label, CAPKM_LABEL_MAX) }),
	OP(LEDGER_ADOPT, ledger_adopt, .access = WRITE, .probe = true),
	OP(LEDGER_DESTROY, ledger_destroy, .access = WRITE, .probe = true),
	OP(DEVICE_FAULT, device_fault, .access = FREE, .probe = true,
	   .error = AT(device_fault, out_clients),
	   .reserved = { AT(device_fault, __reserved) },
	   .array = { TEXT_IN(device_fault, text, CAPKM_TEXT_MAX) }),
};
