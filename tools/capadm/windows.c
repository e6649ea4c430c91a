// SPDX-License-Identifier: GPL-2.0-only
/* capadm windows */
#include <inttypes.h>
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const state_names[] = {
	"none", "prepare", "opening", "capture", "closing", "sealed", "refused",
	"orphaned", "member", NULL
};

static const char *const verdict_names[] = { "none", "owned", "abandoned", NULL };

const struct field window_fields[] = {
	{ CAPKM_A_WINDOW_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_WINDOW_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_WINDOW_STATE,		FIELD_ENUM,	"state", state_names },
	{ CAPKM_A_WINDOW_VERDICT,	FIELD_ENUM,	"verdict", verdict_names },
	{ CAPKM_A_WINDOW_DOOMED,	FIELD_BOOL,	"doomed" },
	{ CAPKM_A_WINDOW_STRICT,	FIELD_BOOL,	"strict" },
	{ CAPKM_A_WINDOW_CAPTURE_CACHE,	FIELD_BOOL,	"capture_cache" },
	{ CAPKM_A_WINDOW_OWNER,		FIELD_NUMBER,	"owner" },
	{ CAPKM_A_WINDOW_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_WINDOW_COOKIE,	FIELD_NUMBER,	"cookie" },
	{ CAPKM_A_WINDOW_GRAPH,		FIELD_NUMBER,	"graph" },
	{ CAPKM_A_WINDOW_DEVICE,	FIELD_UUID,	"device" },
	{ CAPKM_A_WINDOW_SLOT,		FIELD_NUMBER,	"slot" },
	{ CAPKM_A_WINDOW_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_WINDOW_TID,		FIELD_NUMBER,	"tid" },
	{ CAPKM_A_WINDOW_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_WINDOW_COMM,		FIELD_TEXT,	"comm" },
	{ CAPKM_A_WINDOW_MODE,		FIELD_TEXT,	"mode" },
	{ CAPKM_A_WINDOW_RECORDED,	FIELD_NUMBER,	"recorded" },
	{ CAPKM_A_WINDOW_BYTES,		FIELD_NUMBER,	"bytes" },
	{ CAPKM_A_WINDOW_INPUTS,	FIELD_NUMBER,	"inputs" },
	{ CAPKM_A_WINDOW_RETAINED,	FIELD_NUMBER,	"retained" },
	{ CAPKM_A_WINDOW_RETAINED_BYTES, FIELD_NUMBER,	"retained_bytes" },
	{ CAPKM_A_WINDOW_LAUNCHES,	FIELD_NUMBER,	"launches" },
	{ CAPKM_A_WINDOW_FOREIGN_LAUNCHES, FIELD_NUMBER, "foreign_launches" },
	{ CAPKM_A_WINDOW_FAILURES,	FIELD_NUMBER,	"failures" },
	{ CAPKM_A_WINDOW_FAILED_AFTER,	FIELD_NUMBER,	"failed_after" },
	{ CAPKM_A_WINDOW_PARENT,	FIELD_NUMBER,	"parent" },
	{ CAPKM_A_WINDOW_CHILDREN,	FIELD_NUMBER,	"children" },
	{ CAPKM_A_WINDOW_MEMBERS,	FIELD_NUMBER,	"members" },
	{ CAPKM_A_WINDOW_ESCAPED,	FIELD_NUMBER,	"escaped" },
	{ CAPKM_A_WINDOW_PREPARED_NS,	FIELD_NUMBER,	"prepared_ns" },
	{ CAPKM_A_WINDOW_BEGUN_NS,	FIELD_NUMBER,	"begun_ns" },
	{ CAPKM_A_WINDOW_CLOSED_NS,	FIELD_NUMBER,	"closed_ns" },
	{ CAPKM_A_WINDOW_FIRST_FAILURE,	FIELD_RECORD,	"first_failure",
	  .fields = failure_fields },
	{}
};

/* "capture, doomed", "refused, abandoned"; an orphan is both by its nature. */
static char *state(struct nlattr **attrs)
{
	uint64_t v = get_number(attrs[CAPKM_A_WINDOW_STATE]);
	uint64_t verdict = get_number(attrs[CAPKM_A_WINDOW_VERDICT]);
	char *s = field_text(window_fields, CAPKM_A_WINDOW_STATE, attrs), *more;
	const char *extra = NULL;

	if (v == CAPKM_WINDOW_ORPHANED)
		return paint(COLOUR_BAD, s);
	if (verdict == CAPKM_VERDICT_ABANDONED)
		extra = "abandoned";
	else if (v != CAPKM_WINDOW_REFUSED && get_number(attrs[CAPKM_A_WINDOW_DOOMED]))
		extra = "doomed";
	if (!extra)
		return s;
	more = format("%s, %s", s, extra);
	free(s);
	return paint(COLOUR_WARN, more);
}

static void add_first_failure(struct table *t, struct nlattr **window)
{
	struct nlattr *nest = window[CAPKM_A_WINDOW_FIRST_FAILURE], *attrs[ATTR_MAX + 1];
	char *kind, *text, *note;

	if (!nest || nla_parse_nested(attrs, ATTR_MAX, nest, NULL) < 0)
		return;
	kind = field_text(failure_fields, CAPKM_A_FAILURE_KIND, attrs);
	text = field_text(failure_fields, CAPKM_A_FAILURE_TEXT, attrs);
	note = format("first failure: %s%s%s", kind, *text ? ": " : "", text);
	table_note(t, note);
	free(note);
	free(text);
	free(kind);
}

/* Of a window in the history: when it was closed. */
static char *since(struct nlattr **attrs)
{
	uint64_t closed = get_number(attrs[CAPKM_A_WINDOW_CLOSED_NS]);

	return format_time(closed ? closed : get_number(attrs[CAPKM_A_WINDOW_PREPARED_NS]));
}

char *window_name(struct nlattr **attrs)
{
	return format("%" PRIu64 "/%" PRIu64, get_number(attrs[CAPKM_A_WINDOW_DOMAIN]),
		      get_number(attrs[CAPKM_A_WINDOW_ID]));
}

static const struct column columns[] = {
	{ "WINDOW", true, .make = window_name },
	{ "STATE", .make = state },
	{ "OWNER", true, CAPKM_A_WINDOW_OWNER, CELL_COUNT },
	{ "SLOT", true, CAPKM_A_WINDOW_SLOT, CELL_COUNT },
	{ "CLAIMS", true, CAPKM_A_WINDOW_RECORDED, CELL_COUNT },
	{ "BYTES", true, CAPKM_A_WINDOW_BYTES, CELL_BYTES },
	{ "FAILURES", true, CAPKM_A_WINDOW_FAILURES, CELL_COUNT },
	{ "SINCE", true, .make = since },
	{ "PID", true, CAPKM_A_WINDOW_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_WINDOW_COMM },
};

const struct listing window_listing = {
	.key = "windows",
	.domain_attr = CAPKM_A_WINDOW_DOMAIN,
	.fields = window_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_first_failure,
};

int cmd_windows(const struct request *rq)
{
	bool history = rq->options & TAKES(HISTORY), orphans = rq->options & TAKES(ORPHANS);
	struct query query = { .cmd = CAPKM_CMD_WINDOW_GET };

	if (history && orphans)
		return usage(rq, "give --history or --orphans, not both: an orphan is not closed yet");
	if (history)
		ask_flag(&query, CAPKM_A_WINDOW_HISTORY);
	if (orphans)
		ask_u32(&query, CAPKM_A_WINDOW_STATE, CAPKM_WINDOW_ORPHANED);
	return list_records(rq, query, &window_listing);
}
