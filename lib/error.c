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
	{ CAPKM_NR_DOMAIN_CREATE, EDQUOT, "this user may not have more domains" },
	{ CAPKM_NR_DOMAIN_ATTACH, ENOENT, "there is none, or only reports of it are left" },
	{ CAPKM_NR_DOMAIN_ATTACH, EACCES, "its mode does not let this user in; its owner may create it with a wider one" },
	{ CAPKM_NR_DOMAIN_ATTACH, EINVAL, "give a name or an id, and max_streams and backend in the ranges of info" },
	{ CAPKM_NR_DOMAIN_DESTROY, EBUSY, "other sessions are attached; CAPKM_DOMAIN_DESTROY_F_FORCE ends them" },
	{ CAPKM_NR_DOMAIN_DESTROY, EPERM, "only its owner or an administrator may" },
	{ CAPKM_NR_STREAM_CREATE, EDQUOT, "the session may not have more streams" },
	{ CAPKM_NR_STREAM_QUERY, EINVAL, "place.slot must be below max_streams, and 0 without CAPKM_PLACE_F_SLOT" },
	{ CAPKM_NR_BUFFER_CREATE, EINVAL, "bytes must not be 0, and flags only CAPKM_BUFFER_CREATE_F_*" },
	{ CAPKM_NR_BUFFER_CREATE, EDQUOT, "the session may not hold more buffers; close some" },
	{ CAPKM_NR_BUFFER_EXPORT, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_OPEN, ENOENT, "no such buffer in this domain" },
	{ CAPKM_NR_BUFFER_OPEN, EACCES, "it is not exported; the session that created it must export it first" },
	{ CAPKM_NR_BUFFER_OPEN, EDQUOT, "the session may not hold more buffers; close some" },
	{ CAPKM_NR_BUFFER_CLOSE, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_RESET, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_BUFFER_RESET, EINVAL, "start must not be above end, nor end above the buffer's size" },
	{ CAPKM_NR_BUFFER_RESET, EBUSY, "an open scope or a replay writes these bytes; wait for its end" },
	{ CAPKM_NR_BUFFER_QUERY, ENOENT, "no such buffer, or this session does not hold it" },
	{ CAPKM_NR_WINDOW_PREPARE, EDQUOT, "the client may not have more windows" },
	{ CAPKM_NR_WINDOW_BEGIN, EOPNOTSUPP, "this backend has no graphs" },
	{ CAPKM_NR_WINDOW_END, EOPNOTSUPP, "this backend has no graphs" },
	{ CAPKM_NR_WINDOW_END, ENOENT, "that window is not on the slot" },
	{ CAPKM_NR_WINDOW_SEAL, EINVAL, "the window is not closed; end it first" },
	{ CAPKM_NR_WINDOW_SEAL, EBUSY, "the driver has not closed it; end it with CAPKM_WINDOW_F_DRIVER_DONE first" },
	{ CAPKM_NR_WINDOW_SEAL, EDQUOT, "the client may not have more graphs; destroy some, or refuse the window" },
	{ CAPKM_NR_WINDOW_REFUSE, EINVAL, "the window is not closed (end it first), or the kind is not one that a caller may give" },
	{ CAPKM_NR_WINDOW_TAKE, EINVAL, "the window is not closed; end it first" },
	{ CAPKM_NR_WINDOW_RECORD, EDQUOT, "the window may not record more claims" },
	{ CAPKM_NR_WINDOW_RETAIN, EINVAL, "the window must be recording or closed, the bytes not 0, the mode one of CAPKM_RETAIN_*" },
	{ CAPKM_NR_WINDOW_RETAIN, EDQUOT, "the window may not retain more host buffers" },
	{ CAPKM_NR_WINDOW_FAIL, EINVAL, "the window is not open any more, or the kind is not one that a caller may give" },
	{ CAPKM_NR_WINDOW_ABANDON, EPERM, "only its opener's session, the domain's owner or an administrator may" },
	{ CAPKM_NR_SCOPE_ENTER, EINVAL, "a slot must be below max_streams, and 0 without CAPKM_WHERE_SLOT; flags only CAPKM_SCOPE_ENTER_F_POISON" },
	{ CAPKM_NR_SCOPE_ENTER, EBUSY, "the driver opens or closes a window on the slot; try again afterwards" },
	{ CAPKM_NR_SCOPE_ENTER, EPERM, "the stream is another session's, or this process is not a client of the session" },
	{ CAPKM_NR_SCOPE_ENTER, EDQUOT, "the client may not have more open scopes; leave some" },
	{ CAPKM_NR_SCOPE_EXIT, ENOENT, "no such scope is open" },
	{ CAPKM_NR_SCOPE_EXIT, EPERM, "another process entered it" },
	{ CAPKM_NR_SCOPE_EXIT, EINVAL, "the kind must be one that a caller may give, up to CAPKM_KIND_DRIVER" },
	{ CAPKM_NR_TAINT, ENOSPC, "the domain holds as many failures and ranges as it may" },
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
	{ 0, ENOTCONN, "the handle has no domain yet; create, attach or open one first" },
	{ 0, EISCONN, "the handle has its domain, for life; open another handle" },
	{ 0, ECANCELED, "the domain was destroyed, or this client has ended" },
};

static const char *const inherited =
	"the handle was inherited through fork and belongs to the parent; open one in this process";

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

const char *capkm_means(const struct capkm *c, unsigned int nr, int rc)
{
	const char *text;

	if (rc == -ECANCELED && capkm_inherited(c))
		return inherited;
	text = find(meanings, sizeof(meanings) / sizeof(*meanings), nr, -rc);
	if (!text)
		text = find(general, sizeof(general) / sizeof(*general), 0, -rc);
	return text ? text : strerror(-rc);
}

/* The caller's struct may be smaller, or larger, than the one known here. */
static void fill(struct capkm_error *err, int rc, uint32_t index,
		 uint64_t failure, const char *format, va_list args)
{
	struct capkm_error known = {
		.sz = err->sz,
		.err = rc,
		.index = index,
		.failure = failure,
	};
	const size_t size = err->sz < sizeof(known) ? err->sz : sizeof(known);

	vsnprintf(known.text, sizeof(known.text), format, args);
	if (size > offsetof(struct capkm_error, text))
		((char *)&known)[size - 1] = '\0';
	memcpy(err, &known, size);
}

int capkm_error_set(struct capkm_error *err, int rc, uint32_t index,
		    uint64_t failure, const char *format, ...)
{
	va_list args;

	if (err) {
		va_start(args, format);
		fill(err, rc, index, failure, format, args);
		va_end(args);
	}
	return rc;
}

int capkm_refuse(const struct capkm *c, struct capkm_error *err,
		 unsigned int nr, int rc, const char *subject, ...)
{
	char about[256] = "";
	va_list args;

	if (!err)
		return rc;
	va_start(args, subject);
	vsnprintf(about, sizeof(about), subject, args);
	va_end(args);
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: %s%s%s",
			       capkm_op_name(nr), about, *about ? ": " : "",
			       capkm_means(c, nr, rc));
}

static const char *claim_means(const struct capkm *c, unsigned int nr, int rc)
{
	if (rc == -ENOENT)
		return "no such buffer, or this session does not hold it";
	if (rc == -EINVAL)
		return "start must not be above end, nor end above the buffer's size";
	return capkm_means(c, nr, rc);
}

int capkm_refuse_claims(const struct capkm *c, struct capkm_error *err,
			unsigned int nr, int rc, uint32_t index,
			const struct claims *claims)
{
	const struct capkm_claim *claim;
	const char *name = claims->reads_name;
	uint32_t i = index;

	if (rc != -ENOENT && rc != -EINVAL)
		i = CAPKM_NO_INDEX;
	if (i < claims->reads_len) {
		claim = &claims->reads[i];
	} else if (i - claims->reads_len < claims->writes_len) {
		i -= claims->reads_len;
		claim = &claims->writes[i];
		name = "writes";
	} else {
		return capkm_refuse(c, err, nr, rc, "%s", "");
	}
	return capkm_error_set(err, rc, index, 0,
		"%s: %s[%" PRIu32 "], buffer %" PRIu64 " [%" PRIu64 ", %" PRIu64 "): %s",
		capkm_op_name(nr), name, i, (uint64_t)claim->buffer,
		(uint64_t)claim->start, (uint64_t)claim->end,
		claim_means(c, nr, rc));
}
