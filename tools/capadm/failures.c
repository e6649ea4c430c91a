// SPDX-License-Identifier: GPL-2.0-only
/* capadm failures */
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

const char *const kind_names[] = {
	[CAPKM_KIND_NONE]		= "none",
	[CAPKM_KIND_GENERIC]		= "generic",
	[CAPKM_KIND_VALIDATION]		= "validation",
	[CAPKM_KIND_LAUNCH]		= "launch",
	[CAPKM_KIND_IO]			= "io",
	[CAPKM_KIND_TRANSPORT]		= "transport",
	[CAPKM_KIND_FOREIGN_HANDLE]	= "foreign-handle",
	[CAPKM_KIND_SERVICE_MISMATCH]	= "service-mismatch",
	[CAPKM_KIND_DRIVER]		= "driver",
	[CAPKM_KIND_DRIVER + 1 ... CAPKM_KIND_TORN_DOWN - 1] = "",
	[CAPKM_KIND_TORN_DOWN]		= "torn-down",
	[CAPKM_KIND_REFUSED]		= "refused",
	[CAPKM_KIND_ABANDONED]		= "abandoned",
	[CAPKM_KIND_ABORTED]		= "aborted",
	[CAPKM_KIND_INCOMPLETE]		= "incomplete",
	[CAPKM_KIND_OWNER_DIED]		= "owner-died",
	[CAPKM_KIND_UNALLOCATED]	= "unallocated",
	[CAPKM_KIND_DEVICE_FAULT]	= "device-fault",
	[CAPKM_KIND_UNCONFIRMED]	= "unconfirmed",
	[CAPKM_KIND_MERGE]		= "merge",
	[CAPKM_KIND_ESCAPED]		= "escaped",
	[CAPKM_KIND_ESCAPED + 1 ... CAPKM_KIND_IN_PROGRESS - 1] = "",
	[CAPKM_KIND_IN_PROGRESS]	= "in-progress",
	[CAPKM_KIND_STALE]		= "stale",
	NULL
};

const struct field failure_fields[] = {
	{ CAPKM_A_FAILURE_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_FAILURE_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_FAILURE_KIND,		FIELD_ENUM,	"kind", kind_names },
	{ CAPKM_A_FAILURE_CODE,		FIELD_SIGNED,	"code" },
	{ CAPKM_A_FAILURE_TEXT,		FIELD_TEXT,	"text" },
	{ CAPKM_A_FAILURE_LABEL,	FIELD_TEXT,	"label" },
	{ CAPKM_A_FAILURE_BUFFER,	FIELD_NUMBER,	"buffer" },
	{ CAPKM_A_FAILURE_START,	FIELD_NUMBER,	"start" },
	{ CAPKM_A_FAILURE_END,		FIELD_NUMBER,	"end" },
	{ CAPKM_A_FAILURE_SCOPE,	FIELD_NUMBER,	"scope" },
	{ CAPKM_A_FAILURE_GRAPH,	FIELD_NUMBER,	"graph" },
	{ CAPKM_A_FAILURE_WINDOW,	FIELD_NUMBER,	"window" },
	{ CAPKM_A_FAILURE_STREAM,	FIELD_NUMBER,	"stream" },
	{ CAPKM_A_FAILURE_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_FAILURE_SEQUENCE,	FIELD_NUMBER,	"sequence" },
	{ CAPKM_A_FAILURE_TIME_NS,	FIELD_NUMBER,	"time_ns" },
	{ CAPKM_A_FAILURE_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_FAILURE_TID,		FIELD_NUMBER,	"tid" },
	{ CAPKM_A_FAILURE_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_FAILURE_COMM,		FIELD_TEXT,	"comm" },
	{ CAPKM_A_FAILURE_CARRIERS,	FIELD_NUMBER,	"carriers" },
	{ CAPKM_A_FAILURE_HOPS,		FIELD_NUMBER,	"hops" },
	{}
};

static char *kind(struct nlattr **attrs)
{
	return paint(COLOUR_BAD, field_text(failure_fields, CAPKM_A_FAILURE_KIND, attrs));
}

static const struct column columns[] = {
	{ "DOMAIN", true, CAPKM_A_FAILURE_DOMAIN, CELL_ID },
	{ "FAILURE", true, CAPKM_A_FAILURE_ID, CELL_ID },
	{ "KIND", .make = kind },
	{ "CODE", true, CAPKM_A_FAILURE_CODE },
	{ "STREAM", true, CAPKM_A_FAILURE_STREAM, CELL_COUNT },
	{ "CARRIERS", true, CAPKM_A_FAILURE_CARRIERS, CELL_COUNT },
	{ "TIME", true, CAPKM_A_FAILURE_TIME_NS, CELL_TIME },
	{ "PID", true, CAPKM_A_FAILURE_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_FAILURE_COMM },
};

/* "gemm: cuLaunchKernel: invalid argument" */
static void add_reason(struct table *t, struct nlattr **attrs)
{
	char *label = field_text(failure_fields, CAPKM_A_FAILURE_LABEL, attrs);
	char *text = field_text(failure_fields, CAPKM_A_FAILURE_TEXT, attrs);
	char *note = format("%s%s%s", label, *label && *text ? ": " : "", text);

	if (*note)
		table_note(t, note);
	free(note);
	free(text);
	free(label);
}

static const struct listing listing = {
	.key = "failures",
	.domain_attr = CAPKM_A_FAILURE_DOMAIN,
	.fields = failure_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_reason,
};

int cmd_failures(const struct request *rq)
{
	struct query query = { .cmd = CAPKM_CMD_FAILURE_GET };

	if (rq->options & TAKES(REPORTS))
		ask_flag(&query, CAPKM_A_FAILURE_REPORTS);
	return list_records(rq, query, &listing);
}
