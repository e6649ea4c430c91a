// SPDX-License-Identifier: GPL-2.0-only
/* capadm sessions */
#include <inttypes.h>
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const backend_names[] = { "software", "hardware", "none", NULL };

const struct field session_fields[] = {
	{ CAPKM_A_SESSION_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_SESSION_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_SESSION_RIGHTS,	FIELD_FLAGS,	"rights", right_names },
	{ CAPKM_A_SESSION_BACKEND,	FIELD_ENUM,	"backend", backend_names },
	{ CAPKM_A_SESSION_MAX_STREAMS,	FIELD_NUMBER,	"max_streams" },
	{ CAPKM_A_SESSION_SHARED,	FIELD_BOOL,	"shared" },
	{ CAPKM_A_SESSION_CLIENTS,	FIELD_NUMBER,	"clients" },
	{ CAPKM_A_SESSION_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_SESSION_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_SESSION_COMM,		FIELD_TEXT,	"comm" },
	{ CAPKM_A_SESSION_ATTACHED_NS,	FIELD_NUMBER,	"attached_ns" },
	{ CAPKM_A_SESSION_BUFFERS,	FIELD_NUMBER,	"buffers" },
	{ CAPKM_A_SESSION_STREAMS,	FIELD_NUMBER,	"streams" },
	{ CAPKM_A_SESSION_SCOPES,	FIELD_NUMBER,	"scopes" },
	{ CAPKM_A_SESSION_WINDOWS,	FIELD_NUMBER,	"windows" },
	{ CAPKM_A_SESSION_GRAPHS,	FIELD_NUMBER,	"graphs" },
	{ CAPKM_A_SESSION_UNCONFIRMED,	FIELD_NUMBER,	"unconfirmed" },
	{ CAPKM_A_SESSION_ENTERED,	FIELD_NUMBER,	"entered" },
	{ CAPKM_A_SESSION_SKIPPED,	FIELD_NUMBER,	"skipped" },
	{ CAPKM_A_SESSION_FAILED,	FIELD_NUMBER,	"failed" },
	{ CAPKM_A_SESSION_EVENTS_UNREAD, FIELD_NUMBER,	"events_unread" },
	{ CAPKM_A_SESSION_EVENTS_LOST,	FIELD_NUMBER,	"events_lost" },
	{}
};

static const struct column columns[] = {
	{ "SESSION", true, CAPKM_A_SESSION_ID, CELL_ID },
	{ "DOMAIN", true, CAPKM_A_SESSION_DOMAIN, CELL_ID },
	{ "USER", false, CAPKM_A_SESSION_UID, CELL_USER },
	{ "CLIENTS", true, CAPKM_A_SESSION_CLIENTS, CELL_COUNT },
	{ "BUFFERS", true, CAPKM_A_SESSION_BUFFERS, CELL_COUNT },
	{ "WINDOWS", true, CAPKM_A_SESSION_WINDOWS, CELL_COUNT },
	{ "GRAPHS", true, CAPKM_A_SESSION_GRAPHS, CELL_COUNT },
	{ "ATTACHED", true, CAPKM_A_SESSION_ATTACHED_NS, CELL_TIME },
	{ "PID", true, CAPKM_A_SESSION_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_SESSION_COMM },
};

static void note_count(struct table *t, struct nlattr *attr, const char *what)
{
	uint64_t n = get_number(attr);
	char *note;

	if (!n)
		return;
	note = format("%s: %" PRIu64, what, n);
	table_note(t, note);
	free(note);
}

/* What it has done so far. */
static void note_work(struct table *t, struct nlattr **attrs)
{
	uint64_t entered = get_number(attrs[CAPKM_A_SESSION_ENTERED]);
	uint64_t skipped = get_number(attrs[CAPKM_A_SESSION_SKIPPED]);
	char *note;

	if (!entered && !skipped)
		return;
	note = format("scopes and replays: %" PRIu64 " entered, %" PRIu64 " skipped, %" PRIu64
		      " failed", entered, skipped,
		      get_number(attrs[CAPKM_A_SESSION_FAILED]));
	table_note(t, note);
	free(note);
}

static void add_notes(struct table *t, struct nlattr **attrs)
{
	note_work(t, attrs);
	if (!(get_number(attrs[CAPKM_A_SESSION_RIGHTS]) & CAPKM_RIGHT_WRITE))
		table_note(t, "may only read");
	note_count(t, attrs[CAPKM_A_SESSION_UNCONFIRMED], "ranges not confirmed");
	note_count(t, attrs[CAPKM_A_SESSION_EVENTS_LOST], "events lost");
}

static const struct listing session_listing = {
	.key = "sessions",
	.domain_attr = CAPKM_A_SESSION_DOMAIN,
	.fields = session_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_notes,
};

/* ---- the processes in them ---- */

const struct field client_fields[] = {
	{ CAPKM_A_CLIENT_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_CLIENT_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_CLIENT_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_CLIENT_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_CLIENT_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_CLIENT_COMM,		FIELD_TEXT,	"comm" },
	{ CAPKM_A_CLIENT_ENDED,		FIELD_BOOL,	"ended" },
	{ CAPKM_A_CLIENT_SINCE_NS,	FIELD_NUMBER,	"since_ns" },
	{ CAPKM_A_CLIENT_SCOPES,	FIELD_NUMBER,	"scopes" },
	{ CAPKM_A_CLIENT_WINDOWS,	FIELD_NUMBER,	"windows" },
	{ CAPKM_A_CLIENT_RECORDING,	FIELD_NUMBER,	"recording" },
	{ CAPKM_A_CLIENT_GRAPHS,	FIELD_NUMBER,	"graphs" },
	{ CAPKM_A_CLIENT_DEVICES,	FIELD_NUMBER,	"devices" },
	{ CAPKM_A_CLIENT_FAULTED,	FIELD_NUMBER,	"faulted" },
	{ CAPKM_A_CLIENT_UNCONFIRMED,	FIELD_NUMBER,	"unconfirmed" },
	{}
};

static char *client_state(struct nlattr **attrs)
{
	if (get_number(attrs[CAPKM_A_CLIENT_ENDED]))
		return paint(COLOUR_WARN, format("ended"));
	if (get_number(attrs[CAPKM_A_CLIENT_FAULTED]))
		return paint(COLOUR_BAD, format("faulted"));
	return format(get_number(attrs[CAPKM_A_CLIENT_RECORDING]) ? "recording" : "living");
}

static const struct column client_columns[] = {
	{ "SESSION", true, CAPKM_A_CLIENT_SESSION, CELL_ID },
	{ "DOMAIN", true, CAPKM_A_CLIENT_DOMAIN, CELL_ID },
	{ "USER", false, CAPKM_A_CLIENT_UID, CELL_USER },
	{ "STATE", .make = client_state },
	{ "SCOPES", true, CAPKM_A_CLIENT_SCOPES, CELL_COUNT },
	{ "WINDOWS", true, CAPKM_A_CLIENT_WINDOWS, CELL_COUNT },
	{ "GRAPHS", true, CAPKM_A_CLIENT_GRAPHS, CELL_COUNT },
	{ "SINCE", true, CAPKM_A_CLIENT_SINCE_NS, CELL_TIME },
	{ "PID", true, CAPKM_A_CLIENT_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_CLIENT_COMM },
};

static void add_client_notes(struct table *t, struct nlattr **attrs)
{
	note_count(t, attrs[CAPKM_A_CLIENT_UNCONFIRMED], "ranges not confirmed");
	note_count(t, attrs[CAPKM_A_CLIENT_FAULTED], "devices that have faulted and are not renewed");
}

static const struct listing client_listing = {
	.key = "clients",
	.domain_attr = CAPKM_A_CLIENT_DOMAIN,
	.fields = client_fields,
	.columns = client_columns,
	.columns_n = ARRAY_SIZE(client_columns),
	.notes = add_client_notes,
};

int cmd_sessions(const struct request *rq)
{
	if (rq->options & TAKES(CLIENTS))
		return list_records(rq, (struct query){ .cmd = CAPKM_CMD_CLIENT_GET },
				    &client_listing);
	return list_records(rq, (struct query){ .cmd = CAPKM_CMD_SESSION_GET },
			    &session_listing);
}
