// SPDX-License-Identifier: MIT
/* What there may be only so many of. */
#include "internal.h"

#include <inttypes.h>

static const char its_own[] = "one that it was created with, or an administrator's";

static const struct {
	const char *name;
	const char *advice;		/* when it is reached */
} limits[CAPKM_LIMITS] = {
	[CAPKM_LIMIT_NONE] = { "none", NULL },
	[CAPKM_LIMIT_DOMAINS] = { "domains of a user", "destroy one" },
	[CAPKM_LIMIT_DEFUNCT] = { "defunct domains of a user", NULL },
	[CAPKM_LIMIT_SESSIONS] = { "sessions of a domain", "close one" },
	[CAPKM_LIMIT_CLIENTS] = { "clients of a session", "open a session of its own" },
	[CAPKM_LIMIT_STREAMS] = { "streams of a session", "destroy some" },
	[CAPKM_LIMIT_BUFFERS] = { "buffers of a session", "close some" },
	[CAPKM_LIMIT_SCOPES] = { "open scopes of a client", "leave some" },
	[CAPKM_LIMIT_WINDOWS] = { "windows of a client", "seal or refuse some" },
	[CAPKM_LIMIT_GRAPHS] = { "graphs of a client", "destroy some, or refuse the window" },
	[CAPKM_LIMIT_DEVICES] = { "devices of a client", NULL },
	[CAPKM_LIMIT_CLAIMS] = { "claims of a window", NULL },
	[CAPKM_LIMIT_RETAINED] = { "retained host buffers of a window", NULL },
	[CAPKM_LIMIT_MEMBERS] = { "member slots of a window", NULL },
	[CAPKM_LIMIT_DEPTH] = { "windows above a child window", NULL },
	[CAPKM_LIMIT_RANGES] = { "ranges of a domain", "confirm work, and write or reset what is tainted" },
	[CAPKM_LIMIT_OPEN_WINDOWS] = { "open windows of a domain", "abandon orphans" },
	[CAPKM_LIMIT_UNCONFIRMED] = { "unconfirmed ranges of a slot", NULL },
	[CAPKM_LIMIT_QUEUED] = { "queued errors of a stream on a slot", NULL },
	[CAPKM_LIMIT_QUEUED_SHARED] = { "shared queued errors of a slot", NULL },
	[CAPKM_LIMIT_EVENTS] = { "events of a domain", NULL },
	[CAPKM_LIMIT_HISTORY] = { "remembered windows of a domain", NULL },
	[CAPKM_LIMIT_REPORTS] = { "remembered failures of a domain", NULL },
	[CAPKM_LIMIT_LEDGERS] = { "ledgers of a domain", "destroy some; adopt those that nobody holds" },
	[CAPKM_LIMIT_LEDGER_CAPTURES] = { "captures of a ledger", its_own },
	[CAPKM_LIMIT_LEDGER_RETAINED] = { "retained bytes of a ledger", its_own },
	[CAPKM_LIMIT_LEDGER_HOST] = { "host bytes of a ledger", its_own },
	[CAPKM_LIMIT_LEDGER_ENCODED] = { "encoded bytes of a ledger", its_own },
};

const char *capkm_limit_name(uint32_t limit)
{
	return limit < CAPKM_LIMITS && limits[limit].name ?
		limits[limit].name : "unknown";
}

const char *capkm_limit_advice(uint32_t limit)
{
	return limit < CAPKM_LIMITS ? limits[limit].advice : NULL;
}

/* The array of limits of DOMAIN_QUERY or, without a domain, of INFO. */
static int get_limits(const struct capkm *c, struct capkm_limit_value *values,
		      uint32_t *len)
{
	struct capkm_domain_query domain = {
		.size = sizeof(domain),
		.limits_uptr = uptr(values),
		.limits_len = *len,
	};
	struct capkm_info info = {
		.size = sizeof(info),
		.limits_uptr = uptr(values),
		.limits_len = *len,
	};
	int rc = c->transport->call(c->state, CAPKM_NR_DOMAIN_QUERY, &domain);

	*len = domain.out_limits;
	if (rc != -ENOTCONN)
		return rc;
	rc = c->transport->call(c->state, CAPKM_NR_INFO, &info);
	*len = info.out_limits;
	return rc;
}

int capkm_find_limit(const struct capkm *c, uint32_t limit, uint64_t *value)
{
	struct capkm_limit_value values[64];
	uint32_t i, len = 64;
	int rc = get_limits(c, values, &len);

	if (rc)
		return rc;
	for (i = 0; i < len; i++)
		if (values[i].limit == limit) {
			*value = values[i].value;
			return 0;
		}
	return -EINVAL;
}

int capkm_limit(struct capkm *c, uint32_t limit, uint64_t *value,
		struct capkm_error *err)
{
	int rc = capkm_not_inherited(c, "limit", err);

	if (rc)
		return rc;
	rc = capkm_find_limit(c, limit, value);
	if (rc == -EINVAL)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"limit: %" PRIu32 " is no limit", limit);
	return rc ? capkm_refuse(c, err, CAPKM_NR_DOMAIN_QUERY, rc, NULL, "%s",
				 "") : 0;
}
