// SPDX-License-Identifier: GPL-2.0-only
/* capadm buffers */
#include <stdlib.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const state_names[] = {
	"exported", "unallocated", "hidden", "shared", "fresh", "dirty", "abandoned", NULL
};

const struct field buffer_fields[] = {
	{ CAPKM_A_BUFFER_DOMAIN,	FIELD_NUMBER,	"domain" },
	{ CAPKM_A_BUFFER_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_BUFFER_BYTES,		FIELD_NUMBER,	"bytes" },
	{ CAPKM_A_BUFFER_DEVICE,	FIELD_UUID,	"device" },
	{ CAPKM_A_BUFFER_ADDRESS,	FIELD_NUMBER,	"address" },
	{ CAPKM_A_BUFFER_STATE,		FIELD_FLAGS,	"state", state_names },
	{ CAPKM_A_BUFFER_SEQUENCE,	FIELD_NUMBER,	"sequence" },
	{ CAPKM_A_BUFFER_CLAIMS,	FIELD_NUMBER,	"claims" },
	{ CAPKM_A_BUFFER_FAILURES,	FIELD_NUMBER,	"failures" },
	{ CAPKM_A_BUFFER_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_BUFFER_HOLDERS,	FIELD_NUMBER,	"holders" },
	{ CAPKM_A_BUFFER_USES,		FIELD_NUMBER,	"uses" },
	{ CAPKM_A_BUFFER_LABEL,		FIELD_TEXT,	"label" },
	{}
};

static char *state(struct nlattr **attrs)
{
	char *s = field_text(buffer_fields, CAPKM_A_BUFFER_STATE, attrs);

	if (*s)
		return s;
	free(s);
	return format("private");
}

static char *device(struct nlattr **attrs)
{
	char *s = field_text(buffer_fields, CAPKM_A_BUFFER_DEVICE, attrs);
	char *head = format("%.8s", s);

	free(s);
	return head;
}

static const struct column columns[] = {
	{ "DOMAIN", true, CAPKM_A_BUFFER_DOMAIN, CELL_ID },
	{ "BUFFER", true, CAPKM_A_BUFFER_ID, CELL_ID },
	{ "SIZE", true, CAPKM_A_BUFFER_BYTES, CELL_BYTES },
	{ "DEVICE", .make = device },
	{ "STATE", .make = state },
	{ "HOLDERS", true, CAPKM_A_BUFFER_HOLDERS, CELL_COUNT },
	{ "USES", true, CAPKM_A_BUFFER_USES, CELL_COUNT },
	{ "CLAIMS", true, CAPKM_A_BUFFER_CLAIMS, CELL_COUNT },
	{ "FAILURES", true, CAPKM_A_BUFFER_FAILURES, CELL_COUNT },
	{ "LABEL", false, CAPKM_A_BUFFER_LABEL },
};

static const struct listing listing = {
	.key = "buffers",
	.domain_attr = CAPKM_A_BUFFER_DOMAIN,
	.fields = buffer_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
};

int cmd_buffers(const struct request *rq)
{
	return list_records(rq, (struct query){ .cmd = CAPKM_CMD_BUFFER_GET }, &listing);
}
