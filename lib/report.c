// SPDX-License-Identifier: MIT
/* Reports as text, and the names of the ABI's enums. */
#define _GNU_SOURCE
#include "internal.h"

#include <inttypes.h>
#include <string.h>

#define NAME(names, i) \
	((i) < sizeof(names) / sizeof((names)[0]) && (names)[i] ? \
	 (names)[i] : "unknown")

const char *capkm_result_name(uint32_t result)
{
	static const char *const names[] = {
		[CAPKM_CLEAN] = "clean",
		[CAPKM_TAINTED] = "tainted",
		[CAPKM_CHANGED] = "changed",
		[CAPKM_SKIPPED] = "skipped",
		[CAPKM_IN_PROGRESS] = "in progress",
		[CAPKM_REFUSED] = "refused",
		[CAPKM_PENDING] = "pending",
		[CAPKM_STALE] = "stale",
	};

	return NAME(names, result);
}

const char *capkm_kind_name(uint32_t kind)
{
	static const char *const names[] = {
		[CAPKM_KIND_NONE] = "none",
		[CAPKM_KIND_GENERIC] = "generic",
		[CAPKM_KIND_VALIDATION] = "validation",
		[CAPKM_KIND_LAUNCH] = "launch",
		[CAPKM_KIND_IO] = "io",
		[CAPKM_KIND_TRANSPORT] = "transport",
		[CAPKM_KIND_FOREIGN_HANDLE] = "foreign handle",
		[CAPKM_KIND_SERVICE_MISMATCH] = "service mismatch",
		[CAPKM_KIND_DRIVER] = "driver",
		[CAPKM_KIND_TORN_DOWN] = "torn down",
		[CAPKM_KIND_REFUSED] = "refused",
		[CAPKM_KIND_ABANDONED] = "abandoned",
		[CAPKM_KIND_ABORTED] = "aborted",
		[CAPKM_KIND_INCOMPLETE] = "incomplete",
		[CAPKM_KIND_OWNER_DIED] = "owner died",
		[CAPKM_KIND_UNALLOCATED] = "never allocated",
		[CAPKM_KIND_DEVICE_FAULT] = "device fault",
		[CAPKM_KIND_UNCONFIRMED] = "unconfirmed",
		[CAPKM_KIND_MERGE] = "merged",
		[CAPKM_KIND_ESCAPED] = "escaped",
		[CAPKM_KIND_IN_PROGRESS] = "in progress",
		[CAPKM_KIND_STALE] = "stale",
	};

	return NAME(names, kind);
}

const char *capkm_state_name(uint32_t window_state)
{
	static const char *const names[] = {
		[CAPKM_WINDOW_NONE] = "none",
		[CAPKM_WINDOW_PREPARE] = "prepare",
		[CAPKM_WINDOW_OPENING] = "opening",
		[CAPKM_WINDOW_CAPTURE] = "capture",
		[CAPKM_WINDOW_CLOSING] = "closing",
		[CAPKM_WINDOW_SEALED] = "sealed",
		[CAPKM_WINDOW_REFUSED] = "refused",
		[CAPKM_WINDOW_ORPHANED] = "orphaned",
		[CAPKM_WINDOW_MEMBER] = "member",
	};

	return NAME(names, window_state);
}

const char *capkm_event_name(uint32_t event_type)
{
	static const char *const names[] = {
		[CAPKM_EVENT_WINDOW_PREPARED] = "window prepared",
		[CAPKM_EVENT_WINDOW_BEGUN] = "window begun",
		[CAPKM_EVENT_WINDOW_DOOMED] = "window doomed",
		[CAPKM_EVENT_WINDOW_SEALED] = "window sealed",
		[CAPKM_EVENT_WINDOW_REFUSED] = "window refused",
		[CAPKM_EVENT_WINDOW_ABANDONED] = "window abandoned",
		[CAPKM_EVENT_WINDOW_ORPHANED] = "window orphaned",
		[CAPKM_EVENT_CLIENT_JOINED] = "client joined",
		[CAPKM_EVENT_CLIENT_ENDED] = "client ended",
		[CAPKM_EVENT_DEVICE_FAULTED] = "device faulted",
		[CAPKM_EVENT_CONTEXT_RENEWED] = "context renewed",
		[CAPKM_EVENT_FAILURE_MINTED] = "failure minted",
		[CAPKM_EVENT_FAILURE_PRUNED] = "failure pruned",
		[CAPKM_EVENT_LEDGER_REFUSED] = "ledger refused",
	};

	return NAME(names, event_type);
}

static void add_label(struct text *t, const uint8_t label[64])
{
	if (!label[0])
		return;
	capkm_text_add(t, " \"");
	capkm_text_add_raw(t, label, 64);
	capkm_text_add(t, "\"");
}

static void add_id(struct text *t, const char *what, uint64_t id)
{
	if (id)
		capkm_text_add(t, ", %s %" PRIu64, what, id);
}

/* "python[812] uid 1000, session 3, stream 7, scope 12 "relu"" */
static void add_who(struct text *t, const struct capkm_report *r)
{
	if (!r->session)
		return;
	capkm_text_add(t, " (");
	capkm_text_add_raw(t, r->comm, sizeof(r->comm));
	capkm_text_add(t, "[%" PRIu32 "] uid %" PRIu32 ", session %" PRIu64,
		       (uint32_t)r->pid, (uint32_t)r->uid,
		       (uint64_t)r->session);
	add_id(t, "stream", r->stream);
	add_id(t, "window", r->window);
	add_id(t, "graph", r->graph);
	if (r->scope & CAPKM_SCOPE_FAST)
		add_id(t, "fast scope", r->scope & ~CAPKM_SCOPE_FAST);
	else
		add_id(t, "scope", r->scope);
	add_label(t, r->label);
	capkm_text_add(t, ")");
}

/* "launch, code 719: reason"; the authority's reasons name their kind. */
static void add_reason(struct text *t, const struct capkm_report *r)
{
	const char *kind = capkm_kind_name(r->kind);
	const bool named = r->kind >= CAPKM_KIND_TORN_DOWN &&
		memmem(r->text, strnlen((const char *)r->text, sizeof(r->text)),
		       kind, strlen(kind));

	if (!named)
		capkm_text_add(t, "%s", kind);
	if (r->code)
		capkm_text_add(t, "%scode %" PRId32, named ? "" : ", ",
			       (int32_t)r->code);
	if (r->text[0]) {
		if (!named || r->code)
			capkm_text_add(t, ": ");
		capkm_text_add_raw(t, r->text, sizeof(r->text));
	}
}

void capkm_report_add(struct text *t, const struct capkm_report *r)
{
	if (r->buffer)
		capkm_text_add(t, "buffer %" PRIu64 " [%" PRIu64 ", %" PRIu64
			       "): ", (uint64_t)r->buffer, (uint64_t)r->start,
			       (uint64_t)r->end);
	if (r->failure)
		capkm_text_add(t, "failure %" PRIu64 ": ",
			       (uint64_t)r->failure);
	add_reason(t, r);
	add_who(t, r);
	if (r->carriers)
		capkm_text_add(t, "; carried by %" PRIu32 " buffer(s)",
			       (uint32_t)r->carriers);
}

static void add_hop(struct text *t, const struct capkm_hop *hop)
{
	capkm_text_add(t, "skipped");
	add_label(t, hop->label);
	capkm_text_add(t, ", which needed buffer %" PRIu64 "\n",
		       (uint64_t)hop->needed);
}

int capkm_report_text(const struct capkm_report *report,
		      const struct capkm_hop *hops, uint32_t hops_len,
		      uint64_t dropped, char *text, size_t size)
{
	struct text t = { .data = text, .size = size };
	uint32_t i;

	if (!text || !size)
		return -EINVAL;
	for (i = 0; i < hops_len; i++)
		add_hop(&t, &hops[i]);
	if (hops_len && dropped)
		capkm_text_add(&t, "%" PRIu64
			       " older skip record(s) were dropped\n", dropped);
	capkm_report_add(&t, report);
	return t.len < t.size ? 0 : -EMSGSIZE;
}

int capkm_failure_query(struct capkm *c, struct capkm_failure_query *query,
			struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_FAILURE_QUERY, query, err,
			"failure %" PRIu64, (uint64_t)query->failure);
}

int capkm_failure_text(struct capkm *c, uint64_t failure, uint64_t buffer,
		       char *text, size_t size, struct capkm_error *err)
{
	struct capkm_report report;
	struct capkm_hop hops[16];
	struct capkm_failure_query query = {
		.size = sizeof(query),
		.failure = failure,
		.buffer = buffer,
		.reports_uptr = uptr(&report),
		.reports_len = 1,
		.hops_uptr = uptr(hops),
		.hops_len = 16,
	};
	int rc = capkm_failure_query(c, &query, err);

	if (rc)
		return rc;
	rc = capkm_report_text(&report, hops, query.out_hops,
			       query.out_dropped, text, size);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, failure,
			"failure_text: %zu bytes are not enough", size);
	return 0;
}
