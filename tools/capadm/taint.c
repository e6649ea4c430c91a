// SPDX-License-Identifier: GPL-2.0-only
/* capadm taint */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const result_names[] = {
	[CAPKM_CLEAN]		= "clean",
	[CAPKM_TAINTED]		= "tainted",
	[CAPKM_CHANGED]		= "changed",
	[CAPKM_SKIPPED]		= "skipped",
	[CAPKM_IN_PROGRESS]	= "in-progress",
	[CAPKM_REFUSED]		= "refused",
	[CAPKM_PENDING]		= "pending",
	[CAPKM_STALE]		= "stale",
	NULL
};

static const struct field fields[] = {
	{ CAPKM_A_RANGE_DOMAIN,		FIELD_NUMBER,	"domain" },
	{ CAPKM_A_RANGE_BUFFER,		FIELD_NUMBER,	"buffer" },
	{ CAPKM_A_RANGE_START,		FIELD_NUMBER,	"start" },
	{ CAPKM_A_RANGE_END,		FIELD_NUMBER,	"end" },
	{ CAPKM_A_RANGE_RESULT,		FIELD_ENUM,	"result", result_names },
	{ CAPKM_A_RANGE_FAILURE,	FIELD_NUMBER,	"failure" },
	{ CAPKM_A_RANGE_CAUSE,		FIELD_RECORD,	"cause", .fields = failure_fields },
	{}
};

static char *size(struct nlattr **attrs)
{
	return format_bytes(get_number(attrs[CAPKM_A_RANGE_END]) -
			    get_number(attrs[CAPKM_A_RANGE_START]));
}

static char *result(struct nlattr **attrs)
{
	bool bad = get_number(attrs[CAPKM_A_RANGE_RESULT]) == CAPKM_TAINTED;

	return paint(bad ? COLOUR_BAD : COLOUR_WARN,
		     field_text(fields, CAPKM_A_RANGE_RESULT, attrs));
}

static char *reason(struct nlattr **attrs)
{
	struct nlattr *nest = attrs[CAPKM_A_RANGE_CAUSE], *cause[ATTR_MAX + 1];

	if (!nest || nla_parse_nested(cause, ATTR_MAX, nest, NULL) < 0)
		return format("-");
	return failure_line(cause);
}

static const struct column columns[] = {
	{ "START", true, CAPKM_A_RANGE_START, CELL_COUNT },
	{ "END", true, CAPKM_A_RANGE_END, CELL_COUNT },
	{ "SIZE", true, .make = size },
	{ "RESULT", .make = result },
	{ "FAILURE", true, CAPKM_A_RANGE_FAILURE, CELL_ID },
	{ "REASON", .make = reason },
};

static const struct listing listing = {
	.key = "taint",
	.fields = fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
};

static int parse(const struct request *rq, struct query *q, uint64_t *domain,
		 uint64_t *buffer)
{
	uint64_t start = 0, length = 0;
	int status = parse_id(rq, "buffer", rq->argv[1], buffer);

	if (!status && rq->argc == 3)
		status = usage(rq, "a range is OFFSET and LENGTH; right is: capadm taint %s %s %s LENGTH",
			       rq->argv[0], rq->argv[1], rq->argv[2]);
	if (!status && rq->argc > 2)
		status = parse_size(rq, "offset", rq->argv[2], &start);
	if (!status && rq->argc > 2)
		status = parse_size(rq, "length", rq->argv[3], &length);
	if (!status && rq->argc > 2 && (!length || start + length < start))
		status = usage(rq, "a range of %s bytes from byte %s on is none; right is a length from 1 up",
			       rq->argv[3], rq->argv[2]);
	if (!status)
		status = find_domain(rq, rq->argv[0], domain);
	if (status)
		return status;
	ask_u64(q, CAPKM_A_RANGE_DOMAIN, *domain);
	ask_u64(q, CAPKM_A_RANGE_BUFFER, *buffer);
	if (rq->argc > 2) {
		ask_u64(q, CAPKM_A_RANGE_START, start);
		ask_u64(q, CAPKM_A_RANGE_END, start + length);
	}
	return EXIT_OK;
}

int cmd_taint(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_TAINT_GET };
	uint64_t domain, buffer;
	char *what, *none;
	int status = parse(rq, &q, &domain, &buffer);

	if (status)
		return status;
	what = format("read buffer %" PRIu64 " of domain %" PRIu64, buffer, domain);
	none = format("buffer %" PRIu64 " of domain %" PRIu64 " is clean%s", buffer, domain,
		      rq->argc > 2 ? " there" : "");
	status = list_query(rq, &q, what, none, &listing);
	free(none);
	free(what);
	return status;
}
