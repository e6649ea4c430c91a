// SPDX-License-Identifier: GPL-2.0-only
/* capadm graphs */
#include <linux/capkm_netlink.h>

#include "capadm.h"

const struct field graph_fields[] = {
	{ CAPKM_A_GRAPH_DOMAIN,		FIELD_NUMBER,	"domain" },
	{ CAPKM_A_GRAPH_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_GRAPH_WINDOW,		FIELD_NUMBER,	"window" },
	{ CAPKM_A_GRAPH_SESSION,	FIELD_NUMBER,	"session" },
	{ CAPKM_A_GRAPH_OWNER,		FIELD_NUMBER,	"owner" },
	{ CAPKM_A_GRAPH_COOKIE,		FIELD_NUMBER,	"cookie" },
	{ CAPKM_A_GRAPH_WRITES,		FIELD_NUMBER,	"writes" },
	{ CAPKM_A_GRAPH_INPUTS,		FIELD_NUMBER,	"inputs" },
	{ CAPKM_A_GRAPH_SEEN,		FIELD_NUMBER,	"seen" },
	{ CAPKM_A_GRAPH_RETAINED,	FIELD_NUMBER,	"retained" },
	{ CAPKM_A_GRAPH_RETAINED_BYTES,	FIELD_NUMBER,	"retained_bytes" },
	{ CAPKM_A_GRAPH_REPLAYS,	FIELD_NUMBER,	"replays" },
	{ CAPKM_A_GRAPH_FAILED_REPLAYS,	FIELD_NUMBER,	"failed_replays" },
	{ CAPKM_A_GRAPH_UPDATES,	FIELD_NUMBER,	"updates" },
	{ CAPKM_A_GRAPH_FAILED_UPDATES,	FIELD_NUMBER,	"failed_updates" },
	{ CAPKM_A_GRAPH_REPLAYING,	FIELD_BOOL,	"replaying" },
	{ CAPKM_A_GRAPH_PID,		FIELD_NUMBER,	"pid" },
	{}
};

static char *failed(struct nlattr **attrs)
{
	uint64_t n = get_number(attrs[CAPKM_A_GRAPH_FAILED_REPLAYS]);

	return paint(n ? COLOUR_WARN : COLOUR_NONE, format_count(n));
}

static const struct column columns[] = {
	{ "DOMAIN", true, CAPKM_A_GRAPH_DOMAIN, CELL_ID },
	{ "GRAPH", true, CAPKM_A_GRAPH_ID, CELL_ID },
	{ "SESSION", true, CAPKM_A_GRAPH_SESSION, CELL_ID },
	{ "OWNER", true, CAPKM_A_GRAPH_OWNER, CELL_COUNT },
	{ "WRITES", true, CAPKM_A_GRAPH_WRITES, CELL_COUNT },
	{ "INPUTS", true, CAPKM_A_GRAPH_INPUTS, CELL_COUNT },
	{ "RETAINED", true, CAPKM_A_GRAPH_RETAINED_BYTES, CELL_BYTES },
	{ "REPLAYS", true, CAPKM_A_GRAPH_REPLAYS, CELL_COUNT },
	{ "FAILED", true, .make = failed },
	{ "UPDATES", true, CAPKM_A_GRAPH_UPDATES, CELL_COUNT },
	{ "PID", true, CAPKM_A_GRAPH_PID, CELL_ID },
};

static const struct listing listing = {
	.key = "graphs",
	.domain_attr = CAPKM_A_GRAPH_DOMAIN,
	.fields = graph_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
};

int cmd_graphs(const struct request *rq)
{
	return list_records(rq, (struct query){ .cmd = CAPKM_CMD_GRAPH_GET }, &listing);
}
