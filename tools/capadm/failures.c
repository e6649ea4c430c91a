// SPDX-License-Identifier: GPL-2.0-only
/* capadm failures */
#include <inttypes.h>
#include <stdio.h>
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
static char *join(char *label, char *text)
{
	char *s = format("%s%s%s", label, *label && *text ? ": " : "", text);

	free(text);
	free(label);
	return s;
}

static char *reason(struct nlattr **attrs)
{
	return join(field_text(failure_fields, CAPKM_A_FAILURE_LABEL, attrs),
		    field_text(failure_fields, CAPKM_A_FAILURE_TEXT, attrs));
}

static char *line(char *kind, int64_t code, char *reason)
{
	char number[32] = "", *s;

	if (code)
		sprintf(number, ", code %" PRId64, code);
	s = format("%s%s%s%s", kind, number, *reason ? ": " : "", reason);
	free(reason);
	free(kind);
	return s;
}

char *failure_line(struct nlattr **attrs)
{
	return line(field_text(failure_fields, CAPKM_A_FAILURE_KIND, attrs),
		    (int32_t)get_number(attrs[CAPKM_A_FAILURE_CODE]), reason(attrs));
}

char *failure_json_line(struct json_object *f)
{
	return line(format("%s", json_object_get_string(json_object_object_get(f, "kind"))),
		    json_object_get_int64(json_object_object_get(f, "code")),
		    join(escape(json_object_get_string(json_object_object_get(f, "label"))),
			 escape(json_object_get_string(json_object_object_get(f, "text")))));
}

static void add_reason(struct table *t, struct nlattr **attrs)
{
	char *note = reason(attrs);

	if (*note)
		table_note(t, note);
	free(note);
}

const struct listing failure_listing = {
	.key = "failures",
	.fields = failure_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_reason,
};

/* The command's arguments, as filters. */
static int add_filters(const struct request *rq, struct query *q, uint64_t *domain)
{
	uint64_t id = 0;
	int status = EXIT_OK;

	if (rq->argc > 1)
		status = parse_id(rq, "failure", rq->argv[1], &id);
	if (!status && rq->argc)
		status = find_domain(rq, rq->argv[0], domain);
	if (status || !rq->argc)
		return status;
	ask_u64(q, CAPKM_A_FAILURE_DOMAIN, *domain);
	if (id)
		ask_u64(q, CAPKM_A_FAILURE_ID, id);
	return EXIT_OK;
}

int cmd_failures(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_FAILURE_GET };
	unsigned int drawn = rq->options & (TAKES(TREE) | TAKES(DOT));
	uint64_t domain = 0;
	char *what;
	int status;

	if (drawn == (TAKES(TREE) | TAKES(DOT)))
		return usage(rq, "give --tree or --dot, not both");
	if (drawn & TAKES(DOT) && rq->json)
		return usage(rq, "give --dot or --json, not both; --tree --json has the same as --dot");
	status = add_filters(rq, &q, &domain);
	if (status)
		return status;
	if (rq->options & TAKES(REPORTS))
		ask_flag(&q, CAPKM_A_FAILURE_REPORTS);
	what = read_domain(domain);
	if (drawn)
		status = show_failures(rq, &q, what);
	else
		status = list_query(rq, &q, what, NULL, &failure_listing);
	free(what);
	return status;
}
