// SPDX-License-Identifier: GPL-2.0-only
/* capadm windows */
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const state_names[] = {
	"none", "prepare", "opening", "capture", "closing", "sealed", "refused",
	"orphaned", "member", NULL
};

static const char *const verdict_names[] = { "none", "owned", "abandoned", NULL };

static const struct field fields[] = {
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
	{ CAPKM_A_WINDOW_PREPARED_NS,	FIELD_NUMBER,	"prepared_ns" },
	{ CAPKM_A_WINDOW_BEGUN_NS,	FIELD_NUMBER,	"begun_ns" },
	{ CAPKM_A_WINDOW_CLOSED_NS,	FIELD_NUMBER,	"closed_ns" },
	{ CAPKM_A_WINDOW_FIRST_FAILURE,	FIELD_RECORD,	"first_failure",
	  .fields = failure_fields },
	{}
};

static const struct column columns[] = {
	{ "DOMAIN", true }, { "WINDOW", true }, { "STATE" }, { "OWNER", true },
	{ "SLOT", true }, { "CLAIMS", true }, { "BYTES", true }, { "FAILURES", true },
	{ "AGE", true },
	{ "PID", true }, { "COMMAND" },
};

/* "capture, doomed", "refused, abandoned"; an orphan is both by its nature. */
static char *state(struct nlattr **attrs)
{
	uint64_t v = get_number(attrs[CAPKM_A_WINDOW_STATE]);
	uint64_t verdict = get_number(attrs[CAPKM_A_WINDOW_VERDICT]);
	char *s = field_text(fields, CAPKM_A_WINDOW_STATE, attrs), *more;
	const char *extra = NULL;

	if (v == CAPKM_WINDOW_ORPHANED)
		return s;
	if (verdict == CAPKM_VERDICT_ABANDONED)
		extra = "abandoned";
	else if (v != CAPKM_WINDOW_REFUSED && get_number(attrs[CAPKM_A_WINDOW_DOOMED]))
		extra = "doomed";
	if (!extra)
		return s;
	more = format("%s, %s", s, extra);
	free(s);
	return more;
}

static void add_first_failure(struct table *t, struct nlattr *nest)
{
	struct nlattr *attrs[ATTR_MAX + 1];
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

/* Of a window in the history: since it was closed. */
static uint64_t since(struct nlattr **attrs)
{
	uint64_t closed = get_number(attrs[CAPKM_A_WINDOW_CLOSED_NS]);

	return closed ? closed : get_number(attrs[CAPKM_A_WINDOW_PREPARED_NS]);
}

static void add_row(struct table *t, struct nlattr **attrs)
{
	table_row(t,
		  format_id(get_number(attrs[CAPKM_A_WINDOW_DOMAIN])),
		  format_id(get_number(attrs[CAPKM_A_WINDOW_ID])),
		  state(attrs),
		  format_count(get_number(attrs[CAPKM_A_WINDOW_OWNER])),
		  format_count(get_number(attrs[CAPKM_A_WINDOW_SLOT])),
		  format_count(get_number(attrs[CAPKM_A_WINDOW_RECORDED])),
		  format_count(get_number(attrs[CAPKM_A_WINDOW_BYTES])),
		  format_count(get_number(attrs[CAPKM_A_WINDOW_FAILURES])),
		  format_age(since(attrs)),
		  format_id(get_number(attrs[CAPKM_A_WINDOW_PID])),
		  field_text(fields, CAPKM_A_WINDOW_COMM, attrs));
	add_first_failure(t, attrs[CAPKM_A_WINDOW_FIRST_FAILURE]);
}

static bool is_orphan(struct nlattr **attrs)
{
	return get_number(attrs[CAPKM_A_WINDOW_STATE]) == CAPKM_WINDOW_ORPHANED;
}

int cmd_windows(const struct request *rq)
{
	bool history = rq->options & TAKES(HISTORY), orphans = rq->options & TAKES(ORPHANS);
	struct query query = { .cmd = CAPKM_CMD_WINDOW_GET };
	const struct listing listing = {
		.key = "windows",
		.domain_attr = CAPKM_A_WINDOW_DOMAIN,
		.fields = fields,
		.columns = columns,
		.columns_n = ARRAY_SIZE(columns),
		.row = add_row,
		.keep = orphans ? is_orphan : NULL,
	};

	if (history && orphans)
		return usage(rq, "give --history or --orphans, not both: an orphan is not closed yet");
	if (history)
		ask_flag(&query, CAPKM_A_WINDOW_HISTORY);
	return list_records(rq, query, &listing);
}
