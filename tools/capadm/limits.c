// SPDX-License-Identifier: GPL-2.0-only
/* capadm domain limit, and names of limits. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

/* As the module's parameters have them, without max_. */
static const char *const limit_names[] = {
	[CAPKM_LIMIT_NONE]		= "",
	[CAPKM_LIMIT_DOMAINS]		= "domains",
	[CAPKM_LIMIT_DEFUNCT]		= "defunct",
	[CAPKM_LIMIT_SESSIONS]		= "sessions",
	[CAPKM_LIMIT_CLIENTS]		= "clients",
	[CAPKM_LIMIT_STREAMS]		= "streams",
	[CAPKM_LIMIT_BUFFERS]		= "buffers",
	[CAPKM_LIMIT_SCOPES]		= "scopes",
	[CAPKM_LIMIT_WINDOWS]		= "windows",
	[CAPKM_LIMIT_GRAPHS]		= "graphs",
	[CAPKM_LIMIT_DEVICES]		= "devices",
	[CAPKM_LIMIT_CLAIMS]		= "claims",
	[CAPKM_LIMIT_RETAINED]		= "retained",
	[CAPKM_LIMIT_MEMBERS]		= "members",
	[CAPKM_LIMIT_DEPTH]		= "depth",
	[CAPKM_LIMIT_RANGES]		= "ranges",
	[CAPKM_LIMIT_OPEN_WINDOWS]	= "open_windows",
	[CAPKM_LIMIT_UNCONFIRMED]	= "unconfirmed",
	[CAPKM_LIMIT_QUEUED]		= "queued",
	[CAPKM_LIMIT_QUEUED_SHARED]	= "queued_shared",
	[CAPKM_LIMIT_EVENTS]		= "events",
	[CAPKM_LIMIT_HISTORY]		= "history",
	[CAPKM_LIMIT_REPORTS]		= "reports",
	[CAPKM_LIMIT_LEDGERS]		= "ledgers",
	[CAPKM_LIMIT_LEDGER_CAPTURES]	= "ledger_captures",
	[CAPKM_LIMIT_LEDGER_RETAINED]	= "ledger_retained",
	[CAPKM_LIMIT_LEDGER_HOST]	= "ledger_host",
	[CAPKM_LIMIT_LEDGER_ENCODED]	= "ledger_encoded",
	NULL
};

const struct field limit_fields[] = {
	{ CAPKM_A_LIMIT_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_LIMIT_UID,	FIELD_NUMBER,	"uid" },
	{ CAPKM_A_LIMIT_LIMIT,	FIELD_ENUM,	"limit", limit_names },
	{ CAPKM_A_LIMIT_VALUE,	FIELD_NUMBER,	"value" },
	{ CAPKM_A_LIMIT_USED,	FIELD_NUMBER,	"used" },
	{}
};

/*
 * Whether so much is used that calls are refused soon. A full history or store of
 * reports refuses nothing, nor do events: the oldest go. What ledgers may be charged with
 * is there to be used up, and stays so: that is no reason to start a job anew.
 */
bool limit_is_near(struct nlattr **attrs)
{
	uint64_t value = get_number(attrs[CAPKM_A_LIMIT_VALUE]);
	uint64_t used = get_number(attrs[CAPKM_A_LIMIT_USED]);

	switch (get_number(attrs[CAPKM_A_LIMIT_LIMIT])) {
	case CAPKM_LIMIT_EVENTS:
	case CAPKM_LIMIT_HISTORY:
	case CAPKM_LIMIT_REPORTS:
	case CAPKM_LIMIT_DEFUNCT:
	case CAPKM_LIMIT_LEDGER_CAPTURES:
	case CAPKM_LIMIT_LEDGER_RETAINED:
	case CAPKM_LIMIT_LEDGER_HOST:
	case CAPKM_LIMIT_LEDGER_ENCODED:
		return false;
	}
	return used && used >= value - value / 10;
}

/* The limits of ledgers are the highest number unless an administrator sets them. */
static bool is_none(struct nlattr **attrs)
{
	return get_number(attrs[CAPKM_A_LIMIT_VALUE]) == UINT64_MAX;
}

static char *percent(struct nlattr **attrs)
{
	double value = get_number(attrs[CAPKM_A_LIMIT_VALUE]);
	double used = get_number(attrs[CAPKM_A_LIMIT_USED]);

	if (!attrs[CAPKM_A_LIMIT_USED] || !value || is_none(attrs))
		return format("-");
	return paint(limit_is_near(attrs) ? COLOUR_WARN : COLOUR_NONE,
		     format("%.0f%%", 100 * used / value));
}

static char *used(struct nlattr **attrs)
{
	struct nlattr *attr = attrs[CAPKM_A_LIMIT_USED];

	return attr ? format_count(get_number(attr)) : format("-");
}

static char *value(struct nlattr **attrs)
{
	return is_none(attrs) ? format("none") :
				format_count(get_number(attrs[CAPKM_A_LIMIT_VALUE]));
}

/* Of a domain or of a user, whom the limit is for; "-" is a default. */
static char *whose(struct nlattr **attrs)
{
	return attrs[CAPKM_A_LIMIT_UID] ? user_name(get_number(attrs[CAPKM_A_LIMIT_UID])) :
					  format("-");
}

static const struct column columns[] = {
	{ "DOMAIN", true, CAPKM_A_LIMIT_DOMAIN, CELL_ID },
	{ "USER", .make = whose },
	{ "LIMIT", false, CAPKM_A_LIMIT_LIMIT },
	{ "VALUE", true, .make = value },
	{ "USED", true, .make = used },
	{ "USED/VALUE", true, .make = percent },
};

const struct listing limit_listing = {
	.key = "limits",
	.domain_attr = CAPKM_A_LIMIT_DOMAIN,
	.fields = limit_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
};

static int parse_limit(const struct request *rq, const char *arg, uint32_t *limit)
{
	char *all = format("%s", limit_names[1]), *more;
	uint32_t i;
	int status;

	for (i = 1; limit_names[i]; i++) {
		if (!strcmp(limit_names[i], arg)) {
			*limit = i;
			free(all);
			return EXIT_OK;
		}
		if (i == 1)
			continue;
		more = format("%s, %s", all, limit_names[i]);
		free(all);
		all = more;
	}
	status = usage(rq, "there is no limit %s; right is one of: %s", arg, all);
	free(all);
	return status;
}

static int set_limit(const struct request *rq, uint32_t limit)
{
	struct query q = { .cmd = CAPKM_CMD_LIMIT_SET };
	struct json_object *j;
	uint64_t domain, value;
	char *what;
	int status = EXIT_OK;

	if (!strcmp(rq->argv[2], "none"))
		value = UINT64_MAX;
	else
		status = parse_number(rq, "limit", rq->argv[2], UINT64_MAX, &value);
	if (!status)
		status = find_domain(rq, rq->argv[0], &domain);
	if (status)
		return status;
	ask_u64(&q, CAPKM_A_LIMIT_DOMAIN, domain);
	ask_u32(&q, CAPKM_A_LIMIT_LIMIT, limit);
	ask_u64(&q, CAPKM_A_LIMIT_VALUE, value);
	what = format("set the limit %s of domain %" PRIu64, limit_names[limit], domain);
	status = kernel_do(rq, &q, what, NULL, NULL);
	free(what);
	if (status)
		return status;
	if (!rq->json && value == UINT64_MAX) {
		printf("domain %" PRIu64 " has no limit of %s\n", domain, limit_names[limit]);
		return EXIT_OK;
	}
	if (!rq->json) {
		printf("domain %" PRIu64 " may have %" PRIu64 " %s\n", domain, value,
		       limit_names[limit]);
		return EXIT_OK;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "domain", json_object_new_uint64(domain));
	json_object_object_add(j, "limit", json_text(limit_names[limit]));
	json_object_object_add(j, "value", json_object_new_uint64(value));
	return print_json("limit_set", j);
}

int cmd_domain_limit(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_LIMIT_GET };
	struct request of_domain = *rq;
	unsigned int other = rq->options & (TAKES(DEFAULTS) | TAKES(USERS));
	uint32_t limit = CAPKM_LIMIT_NONE;
	int status;

	if (other && (rq->argc || other == (TAKES(DEFAULTS) | TAKES(USERS))))
		return usage(rq, "--defaults and --users are of no domain; give one of them alone");
	if (rq->argc > 1) {
		status = parse_limit(rq, rq->argv[1], &limit);
		if (status)
			return status;
		if (rq->argc > 2)
			return set_limit(rq, limit);
		ask_u32(&q, CAPKM_A_LIMIT_LIMIT, limit);
		of_domain.argc = 1;
	}
	if (other & TAKES(DEFAULTS))
		ask_flag(&q, CAPKM_A_LIMIT_DEFAULTS);
	if (other & TAKES(USERS))
		ask_flag(&q, CAPKM_A_LIMIT_USERS);
	return list_records(&of_domain, q, &limit_listing);
}
