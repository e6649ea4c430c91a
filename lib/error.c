// SPDX-License-Identifier: MIT
/* Words for what went wrong: the call, the element, what would be right. */
#include "internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const op_names[] = {
	[CAPKM_NR_INFO] = "info",
	[CAPKM_NR_DOMAIN_CREATE] = "domain_create",
	[CAPKM_NR_DOMAIN_ATTACH] = "domain_attach",
	[CAPKM_NR_DOMAIN_QUERY] = "domain_query",
	[CAPKM_NR_DOMAIN_DESTROY] = "domain_destroy",
	[CAPKM_NR_STREAM_CREATE] = "stream_create",
	[CAPKM_NR_STREAM_QUERY] = "stream_query",
	[CAPKM_NR_BUFFER_CREATE] = "buffer_create",
	[CAPKM_NR_BUFFER_EXPORT] = "buffer_export",
	[CAPKM_NR_BUFFER_OPEN] = "buffer_open",
	[CAPKM_NR_BUFFER_CLOSE] = "buffer_close",
	[CAPKM_NR_BUFFER_RESET] = "buffer_reset",
	[CAPKM_NR_BUFFER_QUERY] = "buffer_query",
	[CAPKM_NR_WINDOW_PREPARE] = "graph_prepare",
	[CAPKM_NR_WINDOW_BEGIN] = "begin_capture",
	[CAPKM_NR_WINDOW_END] = "end_capture",
	[CAPKM_NR_WINDOW_SEAL] = "window_seal",
	[CAPKM_NR_WINDOW_REFUSE] = "window_refuse",
	[CAPKM_NR_WINDOW_TAKE] = "window_take",
	[CAPKM_NR_WINDOW_RECORD] = "window_record",
	[CAPKM_NR_WINDOW_ABORT] = "window_abort",
	[CAPKM_NR_WINDOW_FAIL] = "window_fail",
	[CAPKM_NR_WINDOW_RETAIN] = "window_retain",
	[CAPKM_NR_WINDOW_QUERY] = "window_query",
	[CAPKM_NR_WINDOW_ABANDON] = "window_abandon",
	[CAPKM_NR_WINDOW_LIST] = "window_list",
	[CAPKM_NR_SCOPE_ENTER] = "scope_enter",
	[CAPKM_NR_SCOPE_EXIT] = "scope_exit",
	[CAPKM_NR_CHECK] = "check",
	[CAPKM_NR_TAINT] = "taint",
	[CAPKM_NR_WRITTEN] = "written",
	[CAPKM_NR_GRAPH_REPLAY_BEGIN] = "graph_replay_begin",
	[CAPKM_NR_GRAPH_REPLAY_END] = "graph_replay_end",
	[CAPKM_NR_GRAPH_DESTROY] = "graph_destroy",
	[CAPKM_NR_GRAPH_QUERY] = "graph_query",
	[CAPKM_NR_FAILURE_QUERY] = "failure_query",
	[CAPKM_NR_SESSION_JOIN] = "join",
	[CAPKM_NR_STREAM_DESTROY] = "stream_destroy",
	[CAPKM_NR_STREAM_CONFIRM] = "confirm",
	[CAPKM_NR_STREAM_FAULT] = "stream_fault",
	[CAPKM_NR_STREAM_FLUSH] = "stream_flush",
	[CAPKM_NR_CONTEXT_RENEW] = "context_renew",
	[CAPKM_NR_WINDOW_JOIN] = "window_join",
	[CAPKM_NR_WINDOW_WAIT] = "window_wait",
	[CAPKM_NR_GRAPH_UPDATE] = "graph_update",
	[CAPKM_NR_DEVICE_FAULT] = "device_fault",
	[CAPKM_NR_REFUSE] = "refuse",
	[CAPKM_NR_LEDGER_CREATE] = "ledger_create",
	[CAPKM_NR_LEDGER_BEGIN_STEP] = "ledger_begin_step",
	[CAPKM_NR_LEDGER_RESERVE] = "ledger_reserve",
	[CAPKM_NR_LEDGER_QUERY] = "ledger_query",
	[CAPKM_NR_LEDGER_FORK] = "ledger_fork",
	[CAPKM_NR_LEDGER_ADOPT] = "ledger_adopt",
	[CAPKM_NR_LEDGER_DESTROY] = "ledger_destroy",
	[CAPKM_NR_SUBMIT] = "submit",
	[CAPKM_NR_SCOPE_TABLE] = "scope_table",
};

struct meaning {
	unsigned int nr;
	int error;
	const char *text;
};

/* What an errno means for one operation. */
static const struct meaning meanings[] = {
	{ CAPKM_NR_DOMAIN_CREATE, EEXIST, "this user has a domain of that name already; attach to it, or use domain_open" },
	{ CAPKM_NR_DOMAIN_CREATE, EINVAL, "a name has 1 to 63 bytes without '/' and control characters, a mode no bits but 0666, max_streams and backend are in the ranges of info" },
	{ CAPKM_NR_DOMAIN_CREATE, EPERM, "the handle is another process's" },
	{ CAPKM_NR_DOMAIN_CREATE, EMSGSIZE, "a name has up to 63 bytes, and there are up to 64 limits" },
	{ CAPKM_NR_DOMAIN_ATTACH, ENOENT, "there is none whose mode lets this user in, or only reports of it are left" },
	{ CAPKM_NR_DOMAIN_ATTACH, EACCES, "its mode does not even let its owner in; create it with a wider one" },
	{ CAPKM_NR_DOMAIN_ATTACH, EINVAL, "give a name or an id, and max_streams and backend in the ranges of info" },
	{ CAPKM_NR_DOMAIN_DESTROY, EBUSY, "other sessions are attached; CAPKM_DOMAIN_DESTROY_F_FORCE ends them" },
	{ CAPKM_NR_DOMAIN_DESTROY, EPERM, "only its owner or an administrator may" },
	{ CAPKM_NR_STREAM_QUERY, EINVAL, "place.slot must be below max_streams, and 0 without CAPKM_PLACE_F_SLOT" },
	{ CAPKM_NR_BUFFER_CREATE, EINVAL, "bytes must not be 0, and flags only CAPKM_BUFFER_CREATE_F_*" },
	{ CAPKM_NR_BUFFER_EXPORT, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_OPEN, ENOENT, "no such buffer in this domain" },
	{ CAPKM_NR_BUFFER_OPEN, EACCES, "it is not exported; the session that created it must export it first" },
	{ CAPKM_NR_BUFFER_OPEN, EOVERFLOW, "the session has opened it too often; close some" },
	{ CAPKM_NR_BUFFER_CLOSE, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_RESET, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_RESET, EINVAL, "start must not be above end, nor end above the buffer's size" },
	{ CAPKM_NR_BUFFER_RESET, EBUSY, "an open scope or a replay writes these bytes; wait for its end" },
	{ CAPKM_NR_BUFFER_QUERY, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_WINDOW_PREPARE, ENOENT, "there is no such parent, or no such stream" },
	{ CAPKM_NR_WINDOW_PREPARE, EPERM, "the parent is another process's, or the stream another session's" },
	{ CAPKM_NR_WINDOW_BEGIN, EOPNOTSUPP, "this backend has no graphs" },
	{ CAPKM_NR_WINDOW_END, EOPNOTSUPP, "this backend has no graphs" },
	{ CAPKM_NR_WINDOW_END, ENOENT, "that window is not on the slot" },
	{ CAPKM_NR_WINDOW_SEAL, EINVAL, "the window is not closed; end it first" },
	{ CAPKM_NR_WINDOW_SEAL, EBUSY, "the driver has not closed it; end it with CAPKM_WINDOW_F_DRIVER_DONE first" },
	{ CAPKM_NR_WINDOW_REFUSE, EINVAL, "the window is not closed (end it first), or the kind is not one that a caller may give" },
	{ CAPKM_NR_WINDOW_TAKE, EINVAL, "the window is not closed; end it first" },
	{ CAPKM_NR_WINDOW_ABORT, ENOENT, "that window is not on the slot" },
	{ CAPKM_NR_WINDOW_RETAIN, EINVAL, "the window must be recording or closed, the bytes not 0, the mode one of CAPKM_RETAIN_*" },
	{ CAPKM_NR_WINDOW_FAIL, EINVAL, "the window is not open any more, or the kind is not one that a caller may give" },
	{ CAPKM_NR_WINDOW_LIST, EINVAL, "a filter and its flag go together, and none but the host's device is 0" },
	{ CAPKM_NR_WINDOW_ABANDON, EPERM, "only its opener's session, the domain's owner or an administrator may" },
	{ CAPKM_NR_SCOPE_ENTER, EINVAL, "a slot must be below max_streams, and 0 without CAPKM_WHERE_SLOT; flags only CAPKM_SCOPE_ENTER_F_POISON" },
	{ CAPKM_NR_SCOPE_ENTER, EBUSY, "the driver opens or closes a window on the slot; try again afterwards" },
	{ CAPKM_NR_SCOPE_ENTER, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_SCOPE_EXIT, ENOENT, "no such scope is open" },
	{ CAPKM_NR_SCOPE_EXIT, EPERM, "another process entered it" },
	{ CAPKM_NR_SCOPE_EXIT, EINVAL, "the kind must be one that a caller may give, up to CAPKM_KIND_DRIVER" },
	{ CAPKM_NR_CHECK, EINVAL, "CAPKM_CHECK_F_UNCHANGED and CAPKM_CHECK_F_WRITTEN are two questions, and since is for them" },
	{ CAPKM_NR_CHECK, EOPNOTSUPP, "writers are kept for shared buffers and those of CAPKM_BUFFER_CREATE_F_FRESH only" },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, ENOENT, "unknown or already-destroyed graph" },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, EINVAL, "a slot must be below max_streams, and 0 without CAPKM_WHERE_SLOT" },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, EBUSY, "it is being replayed already, or the driver opens or closes a window on the slot" },
	{ CAPKM_NR_GRAPH_REPLAY_BEGIN, EOPNOTSUPP, "the slot is recording on a driver; record the child graph's claims instead" },
	{ CAPKM_NR_GRAPH_REPLAY_END, ENOENT, "unknown or already-destroyed graph" },
	{ CAPKM_NR_GRAPH_REPLAY_END, EINVAL, "it is not being replayed, or the kind is not one that a caller may give" },
	{ CAPKM_NR_GRAPH_DESTROY, EINVAL, "0 is no graph" },
	{ CAPKM_NR_GRAPH_DESTROY, EBUSY, "it is being replayed; end the replay first" },
	{ CAPKM_NR_GRAPH_QUERY, ENOENT, "unknown or already-destroyed graph" },
	{ CAPKM_NR_FAILURE_QUERY, ENOENT, "no such failure; one that no buffer carries any more is forgotten" },
	{ CAPKM_NR_SESSION_JOIN, EOPNOTSUPP, "the authority does not let processes share a session" },
	{ CAPKM_NR_STREAM_DESTROY, ENOENT, "no such stream" },
	{ CAPKM_NR_STREAM_DESTROY, EPERM, "the stream is another session's" },
	{ CAPKM_NR_STREAM_CONFIRM, ENOENT, "no such stream, or no such client any more" },
	{ CAPKM_NR_STREAM_CONFIRM, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_STREAM_CONFIRM, EINVAL, "the sequence has not been reached, the slot is not below max_streams, or that of another client is not named" },
	{ CAPKM_NR_STREAM_FAULT, ENOENT, "no such stream" },
	{ CAPKM_NR_STREAM_FAULT, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_STREAM_FAULT, EINVAL, "a slot must be below max_streams, and 0 without CAPKM_WHERE_SLOT" },
	{ CAPKM_NR_STREAM_FLUSH, ENOENT, "no such stream" },
	{ CAPKM_NR_STREAM_FLUSH, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_STREAM_FLUSH, EINVAL, "of F_OWN, F_SHARED and F_EVERY only one, and a slot below max_streams" },
	{ CAPKM_NR_CONTEXT_RENEW, ENOENT, "this process has never used the device" },
	{ CAPKM_NR_WINDOW_JOIN, ENOENT, "no such window is open, or no such stream" },
	{ CAPKM_NR_WINDOW_JOIN, EPERM, "the window is another process's, or the stream another session's" },
	{ CAPKM_NR_WINDOW_WAIT, ENOENT, "no such window, or it is forgotten" },
	{ CAPKM_NR_WINDOW_WAIT, EINVAL, "give a window or a place, not both, and a slot below max_streams" },
	{ CAPKM_NR_WINDOW_WAIT, EPERM, "this process is not a client of the session, or the stream is another session's" },
	{ CAPKM_NR_WINDOW_WAIT, ETIMEDOUT, "it is still on its slot, and the time is over" },
	{ CAPKM_NR_WINDOW_WAIT, EINTR, "a signal came; timeout_ns is what is left of the time" },
	{ CAPKM_NR_GRAPH_UPDATE, ENOENT, "unknown or already-destroyed graph, or no such window" },
	{ CAPKM_NR_GRAPH_UPDATE, EPERM, "graph or window is another process's" },
	{ CAPKM_NR_GRAPH_UPDATE, EINVAL, "the window is not closed (end it first), or is a child window" },
	{ CAPKM_NR_GRAPH_UPDATE, EBUSY, "the graph is being replayed, or the driver has not closed the window" },
	{ CAPKM_NR_DEVICE_FAULT, EPERM, "only an administrator (CAP_SYS_ADMIN in the initial user namespace) may" },
	{ CAPKM_NR_DEVICE_FAULT, EINVAL, "the host is no device that is lost" },
	{ CAPKM_NR_DEVICE_FAULT, ENOMEM, "out of memory for some clients; all others have been told, call it again" },
	{ CAPKM_NR_REFUSE, ENOENT, "no such stream" },
	{ CAPKM_NR_REFUSE, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_REFUSE, EINVAL, "what must be one of CAPKM_REFUSE_*, claims are for CAPKM_REFUSE_WRITE only, and a slot must be below max_streams, and 0 without CAPKM_WHERE_SLOT" },
	{ CAPKM_NR_LEDGER_CREATE, EINVAL, "on_limit must be one of CAPKM_ON_LIMIT_*" },
	{ CAPKM_NR_LEDGER_CREATE, EPERM, "CAPKM_LEDGER_F_DOMAIN is for the domain's owner, or this process is not a client of the session" },
	{ CAPKM_NR_LEDGER_CREATE, EEXIST, "the domain has a ledger of its own already" },
	{ CAPKM_NR_LEDGER_BEGIN_STEP, EPERM, "another session holds it, or none: then its domain's owner can adopt it" },
	{ CAPKM_NR_LEDGER_RESERVE, EPERM, "another session holds it, or none, and it is not one of CAPKM_LEDGER_F_SHARED" },
	{ CAPKM_NR_LEDGER_RESERVE, EOVERFLOW, "what is charged already and this do not fit into 64 bits" },
	{ CAPKM_NR_LEDGER_FORK, EINVAL, "on_limit must be one of CAPKM_ON_LIMIT_*" },
	{ CAPKM_NR_LEDGER_FORK, EPERM, "another session holds it, or none, or CAPKM_LEDGER_F_DOMAIN is for the domain's owner" },
	{ CAPKM_NR_LEDGER_FORK, EEXIST, "the domain has a ledger of its own already" },
	{ CAPKM_NR_LEDGER_ADOPT, EPERM, "only the domain's owner may" },
	{ CAPKM_NR_LEDGER_ADOPT, EBUSY, "another session holds it, and a process of that lives" },
	{ CAPKM_NR_LEDGER_DESTROY, EPERM, "another session holds it, or none: then its domain's owner can adopt it" },
	{ CAPKM_NR_SUBMIT, EOPNOTSUPP, "not in a submit; call it on its own" },
	{ CAPKM_NR_SUBMIT, EINVAL, "reserved members must be 0, done not above len, and what is in front of it must be as it was when it was done" },
	{ CAPKM_NR_SUBMIT, EMSGSIZE, "more than CAPKM_ELEMENTS_MAX elements" },
};

/* What an errno means for every operation, see linux/capkm.h. */
static const struct meaning general[] = {
	{ 0, ENOTTY, "the authority does not know this operation; its version is older than this library's" },
	{ 0, E2BIG, "the authority does not know all that is asked for; its version is older than this program's" },
	{ 0, EOPNOTSUPP, "a flag or value that the authority, or this kind of slot, does not support" },
	{ 0, EINVAL, "a wrong value or combination" },
	{ 0, ENOENT, "no such id in this domain" },
	{ 0, EBUSY, "something is in the way: a window, an open scope, a replay, another session" },
	{ 0, EOVERFLOW, "a size or sum does not fit into 64 bits" },
	{ 0, EFAULT, "a pointer is wrong" },
	{ 0, EPERM, "it belongs to another process or session, or this process did not open the handle" },
	{ 0, EACCES, "the domain's mode does not grant this session the right" },
	{ 0, EMSGSIZE, "more elements than out_claims_max of info" },
	{ 0, EDQUOT, "a limit on what one session or user may hold is reached" },
	{ 0, ENOSPC, "a limit of the domain is reached" },
	{ 0, ENOMEM, "out of memory" },
	{ 0, EINTR, "a signal came while the call waited" },
	{ 0, ETIMEDOUT, "the time is over" },
	{ 0, ENOTCONN, "the handle has no domain yet; create, attach or open one first" },
	{ 0, EISCONN, "the handle has its domain, for life; open another handle" },
	{ 0, ECANCELED, "the domain was destroyed, or this client has ended" },
};

/* Where the struct of an operation says which limit it is. */
#define LIMIT(NR, name) [CAPKM_NR_##NR] = offsetof(struct capkm_##name, out_limit)
static const uint16_t limits[] = {
	LIMIT(DOMAIN_CREATE, domain_create),
	LIMIT(DOMAIN_ATTACH, domain_attach),
	LIMIT(STREAM_CREATE, stream_create),
	LIMIT(BUFFER_CREATE, buffer_create),
	LIMIT(BUFFER_EXPORT, buffer_export),
	LIMIT(BUFFER_OPEN, buffer_open),
	LIMIT(WINDOW_PREPARE, window_prepare),
	LIMIT(WINDOW_SEAL, window_seal),
	LIMIT(WINDOW_RECORD, window_record),
	LIMIT(WINDOW_RETAIN, window_retain),
	LIMIT(SCOPE_ENTER, scope_enter),
	LIMIT(TAINT, taint),
	LIMIT(GRAPH_REPLAY_BEGIN, graph_replay_begin),
	LIMIT(SESSION_JOIN, session_join),
	LIMIT(WINDOW_JOIN, window_join),
	LIMIT(REFUSE, refuse),
	LIMIT(LEDGER_CREATE, ledger_create),
	LIMIT(LEDGER_FORK, ledger_fork),
};

uint32_t capkm_limit_of(unsigned int nr, int rc, const void *arg)
{
	const bool reached = rc == -EDQUOT || rc == -ENOSPC;
	const bool wrong = nr == CAPKM_NR_DOMAIN_CREATE &&
			   (rc == -EINVAL || rc == -EPERM);
	uint32_t limit;

	if (!arg || !(reached || wrong) ||
	    nr >= sizeof(limits) / sizeof(*limits) || !limits[nr])
		return CAPKM_LIMIT_NONE;
	memcpy(&limit, (const char *)arg + limits[nr], sizeof(limit));
	return limit;
}

const char *capkm_op_name(unsigned int nr)
{
	const size_t n = sizeof(op_names) / sizeof(op_names[0]);

	return nr < n && op_names[nr] ? op_names[nr] : "call";
}

static const char *find(const struct meaning *m, size_t n, unsigned int nr,
			int error)
{
	for (; n; n--, m++)
		if (m->nr == nr && m->error == error)
			return m->text;
	return NULL;
}

static const char *words(const struct capkm *c, unsigned int nr, int rc)
{
	const char *text;

	if (rc == -ECANCELED && capkm_inherited(c))
		return capkm_inherited_words;
	text = find(meanings, sizeof(meanings) / sizeof(*meanings), nr, -rc);
	if (!text)
		text = find(general, sizeof(general) / sizeof(*general), 0, -rc);
	return text ? text : strerror(-rc);
}

/* "limit 'windows of a client' (4096) is reached; ..." */
static void add_limit(struct text *t, const struct capkm *c, unsigned int nr,
		      int rc, uint32_t limit)
{
	const char *advice = capkm_limit_advice(limit);
	uint64_t value;

	capkm_text_add(t, "limit '%s'", capkm_limit_name(limit));
	/*
	 * The domain that could not be entered may have another one, and a ledger
	 * lower ones of its own.
	 */
	if (nr != CAPKM_NR_DOMAIN_ATTACH && limit < CAPKM_LIMIT_LEDGER_CAPTURES &&
	    !capkm_find_limit(c, limit, &value))
		capkm_text_add(t, " (%" PRIu64 ")", value);
	if (rc == -EINVAL)
		capkm_text_add(t, " cannot be given to a domain, or not so");
	else if (rc == -EPERM)
		capkm_text_add(t, " may only be raised by an administrator");
	else
		capkm_text_add(t, " is reached%s%s", advice ? "; " : "",
			       advice ? advice : "");
}

void capkm_means(struct text *t, const struct capkm *c, unsigned int nr, int rc,
		 const void *arg)
{
	const uint32_t limit = capkm_limit_of(nr, rc, arg);

	if (limit)
		add_limit(t, c, nr, rc, limit);
	else
		capkm_text_add(t, "%s", words(c, nr, rc));
}

int capkm_refuse(const struct capkm *c, struct capkm_error *err,
		 unsigned int nr, int rc, const void *arg, const char *subject,
		 ...)
{
	char about[256] = "", why[300] = "";
	struct text t = { .data = why, .size = sizeof(why) };
	va_list args;

	if (!err)
		return rc;
	va_start(args, subject);
	vsnprintf(about, sizeof(about), subject, args);
	va_end(args);
	capkm_means(&t, c, nr, rc, arg);
	capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: %s%s%s",
			capkm_op_name(nr), about, *about ? ": " : "", why);
	capkm_error_limit(err, capkm_limit_of(nr, rc, arg));
	return rc;
}

static const char *claim_means(unsigned int nr, int rc)
{
	if (rc == -ENOENT)
		return "no such buffer, or this session does not hold it";
	if (rc == -EOPNOTSUPP)
		return words(NULL, nr, rc);
	return "start must not be above end, nor end above the buffer's size";
}

int capkm_refuse_claims(const struct capkm *c, struct capkm_error *err,
			unsigned int nr, int rc, const void *arg,
			uint32_t index, const struct claims *claims)
{
	const struct capkm_claim *claim;
	const char *name = claims->reads_name;
	uint32_t i = index;

	if (rc != -ENOENT && rc != -EINVAL && rc != -EOPNOTSUPP)
		i = CAPKM_NO_INDEX;
	if (i < claims->reads_len) {
		claim = &claims->reads[i];
	} else if (i - claims->reads_len < claims->writes_len) {
		i -= claims->reads_len;
		claim = &claims->writes[i];
		name = "writes";
	} else {
		return capkm_refuse(c, err, nr, rc, arg, "%s", "");
	}
	return capkm_error_set(err, rc, index, 0,
		"%s: %s[%" PRIu32 "], buffer %" PRIu64 " [%" PRIu64 ", %" PRIu64 "): %s",
		capkm_op_name(nr), name, i, (uint64_t)claim->buffer,
		(uint64_t)claim->start, (uint64_t)claim->end,
		claim_means(nr, rc));
}
