// SPDX-License-Identifier: GPL-2.0-only
/* capadm ledgers, ledger rm */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const on_limit_names[] = { "fail", "skip", NULL };
static const char *const flag_names[] = { "shared", "domain", NULL };

const char *const axis_names[] = {
	[CAPKM_AXIS_NONE]	= "",
	[CAPKM_AXIS_CAPTURES]	= "captures",
	[CAPKM_AXIS_RETAINED]	= "retention",
	[CAPKM_AXIS_HOST]	= "host",
	[CAPKM_AXIS_ENCODED]	= "encoded",
	NULL
};

/* By enum capkm_axis, but for the first. */
static const struct field usage_fields[] = {
	{ CAPKM_A_USAGE_CAPTURES,	FIELD_NUMBER,	"captures" },
	{ CAPKM_A_USAGE_RETAINED_BYTES,	FIELD_NUMBER,	"retained_bytes" },
	{ CAPKM_A_USAGE_HOST_BYTES,	FIELD_NUMBER,	"host_bytes" },
	{ CAPKM_A_USAGE_ENCODED_BYTES,	FIELD_NUMBER,	"encoded_bytes" },
	{}
};

static const struct field ledger_fields[] = {
	{ CAPKM_A_LEDGER_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_LEDGER_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_LEDGER_LABEL,		FIELD_TEXT,	"label" },
	{ CAPKM_A_LEDGER_FLAGS,		FIELD_FLAGS,	"flags", flag_names },
	{ CAPKM_A_LEDGER_ON_LIMIT,	FIELD_ENUM,	"on_limit", on_limit_names },
	{ CAPKM_A_LEDGER_PARENT,	FIELD_NUMBER,	"parent" },
	{ CAPKM_A_LEDGER_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_LEDGER_ORPHANED,	FIELD_BOOL,	"orphaned" },
	{ CAPKM_A_LEDGER_PID,		FIELD_NUMBER,	"pid" },
	{ CAPKM_A_LEDGER_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_LEDGER_COMM,		FIELD_TEXT,	"comm" },
	{ CAPKM_A_LEDGER_CREATED_NS,	FIELD_NUMBER,	"created_ns" },
	{ CAPKM_A_LEDGER_STEPS,		FIELD_NUMBER,	"steps" },
	{ CAPKM_A_LEDGER_RESERVED,	FIELD_NUMBER,	"reserved" },
	{ CAPKM_A_LEDGER_REFUSED,	FIELD_NUMBER,	"refused" },
	{ CAPKM_A_LEDGER_PER_STEP,	FIELD_RECORD,	"per_step", .fields = usage_fields },
	{ CAPKM_A_LEDGER_CUMULATIVE,	FIELD_RECORD,	"cumulative", .fields = usage_fields },
	{ CAPKM_A_LEDGER_INHERITED,	FIELD_RECORD,	"inherited", .fields = usage_fields },
	{ CAPKM_A_LEDGER_STEP,		FIELD_RECORD,	"step", .fields = usage_fields },
	{ CAPKM_A_LEDGER_TOTAL,		FIELD_RECORD,	"total", .fields = usage_fields },
	{ CAPKM_A_LEDGER_DOMAIN_LIMIT,	FIELD_RECORD,	"domain_limit", .fields = usage_fields },
	{ CAPKM_A_LEDGER_DOMAIN_TOTAL,	FIELD_RECORD,	"domain_total", .fields = usage_fields },
	{}
};

bool get_usage(struct nlattr *nest, uint64_t usage[CAPKM_AXIS_ENCODED + 1])
{
	struct nlattr *attrs[ATTR_MAX + 1];
	unsigned int axis;

	if (!nest || nla_parse_nested(attrs, ATTR_MAX, nest, NULL) < 0)
		return false;
	for (axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++)
		usage[axis] = get_number(attrs[usage_fields[axis - 1].attr]);
	return true;
}

/* ---- ledgers ---- */

static char *name(struct nlattr **attrs)
{
	return format("%" PRIu64 "/%" PRIu64, get_number(attrs[CAPKM_A_LEDGER_DOMAIN]),
		      get_number(attrs[CAPKM_A_LEDGER_ID]));
}

/* "held", "orphaned, shared" */
static char *state(struct nlattr **attrs)
{
	bool orphaned = get_number(attrs[CAPKM_A_LEDGER_ORPHANED]);
	char *flags = field_text(ledger_fields, CAPKM_A_LEDGER_FLAGS, attrs);
	char *s = format("%s%s%s", orphaned ? "orphaned" : "held", *flags ? "," : "", flags);

	free(flags);
	return paint(orphaned ? COLOUR_WARN : COLOUR_NONE, s);
}

static char *refused(struct nlattr **attrs)
{
	uint64_t n = get_number(attrs[CAPKM_A_LEDGER_REFUSED]);

	return paint(n ? COLOUR_WARN : COLOUR_NONE, format_count(n));
}

static const struct column columns[] = {
	{ "LEDGER", true, .make = name },
	{ "STATE", .make = state },
	{ "ON LIMIT", false, CAPKM_A_LEDGER_ON_LIMIT },
	{ "STEPS", true, CAPKM_A_LEDGER_STEPS, CELL_COUNT },
	{ "CHARGES", true, CAPKM_A_LEDGER_RESERVED, CELL_COUNT },
	{ "REFUSED", true, .make = refused },
	{ "CREATED", true, CAPKM_A_LEDGER_CREATED_NS, CELL_TIME },
	{ "PID", true, CAPKM_A_LEDGER_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_LEDGER_COMM },
	{ "LABEL", false, CAPKM_A_LEDGER_LABEL },
};

static char *amount(unsigned int axis, uint64_t n)
{
	return axis == CAPKM_AXIS_CAPTURES ? format_count(n) : format_bytes(n);
}

/* "40 of 100 (40%)"; it is 100% when nothing more fits, not before. */
static char *share(unsigned int axis, uint64_t used, uint64_t most)
{
	char *have = amount(axis, used), *may = amount(axis, most), *s;

	if (most == UINT64_MAX)
		s = format("%s, no limit", have);
	else if (!most || used >= most)
		s = format("%s of %s (100%%)", have, may);
	else
		s = format("%s of %s (%u%%)", have, may,
			   (unsigned int)((long double)used * 100 / most));
	free(may);
	free(have);
	return s;
}

/* What bounds a ledger, and what is used of that. */
static const struct {
	const char *what;
	int used, most;
} bounds[] = {
	{ "step", CAPKM_A_LEDGER_STEP, CAPKM_A_LEDGER_PER_STEP },
	{ "total", CAPKM_A_LEDGER_TOTAL, CAPKM_A_LEDGER_CUMULATIVE },
	{ "domain", CAPKM_A_LEDGER_DOMAIN_TOTAL, CAPKM_A_LEDGER_DOMAIN_LIMIT },
};

/* An administrator's limit is only named where there is one. */
static char *axis_line(unsigned int axis, struct nlattr **attrs)
{
	uint64_t used[CAPKM_AXIS_ENCODED + 1], most[CAPKM_AXIS_ENCODED + 1];
	char *line = format("%-9s", axis_names[axis]), *more, *s;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bounds); i++) {
		if (!get_usage(attrs[bounds[i].used], used) ||
		    !get_usage(attrs[bounds[i].most], most) ||
		    (bounds[i].most == CAPKM_A_LEDGER_DOMAIN_LIMIT &&
		     most[axis] == UINT64_MAX))
			continue;
		s = share(axis, used[axis], most[axis]);
		more = format("%s%s %s %s", line, i ? ";" : "", bounds[i].what, s);
		free(s);
		free(line);
		line = more;
	}
	return line;
}

static void add_usage(struct table *t, struct nlattr **attrs)
{
	unsigned int axis;
	char *line;

	for (axis = CAPKM_AXIS_CAPTURES; axis <= CAPKM_AXIS_ENCODED; axis++) {
		line = axis_line(axis, attrs);
		table_note(t, line);
		free(line);
	}
}

static const struct listing listing = {
	.key = "ledgers",
	.domain_attr = CAPKM_A_LEDGER_DOMAIN,
	.fields = ledger_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_usage,
};

int cmd_ledgers(const struct request *rq)
{
	struct query query = { .cmd = CAPKM_CMD_LEDGER_GET };

	if (rq->options & TAKES(ORPHANS))
		ask_u32(&query, CAPKM_A_LEDGER_ORPHANED, 1);
	return list_records(rq, query, &listing);
}

/* ---- ledger rm ---- */

int cmd_ledger_rm(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_LEDGER_DEL };
	uint64_t domain, ledger;
	struct json_object *j;
	char *what;
	int status = parse_member(rq, "ledger", rq->argv[0], &domain, &ledger);

	if (status)
		return status;
	ask_u64(&q, CAPKM_A_LEDGER_DOMAIN, domain);
	ask_u64(&q, CAPKM_A_LEDGER_ID, ledger);
	what = format("remove ledger %" PRIu64 "/%" PRIu64, domain, ledger);
	status = kernel_do(rq, &q, what, NULL, NULL);
	free(what);
	if (status)
		return status;
	if (!rq->json) {
		printf("ledger %" PRIu64 "/%" PRIu64 " is removed\n", domain, ledger);
		return EXIT_OK;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "domain", json_object_new_uint64(domain));
	json_object_object_add(j, "id", json_object_new_uint64(ledger));
	return print_json("ledger_removed", j);
}
