// SPDX-License-Identifier: GPL-2.0-only
/* capadm domains, and names of domains. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

static const char *const state_names[] = { "persistent", "defunct", NULL };
const char *const right_names[] = { "", "write", "read", NULL };

const struct field domain_fields[] = {
	{ CAPKM_A_DOMAIN_ID,		FIELD_NUMBER,	"id" },
	{ CAPKM_A_DOMAIN_NAME,		FIELD_TEXT,	"name" },
	{ CAPKM_A_DOMAIN_STATE,		FIELD_FLAGS,	"state", state_names },
	{ CAPKM_A_DOMAIN_MODE,		FIELD_MODE,	"mode" },
	{ CAPKM_A_DOMAIN_UID,		FIELD_NUMBER,	"uid" },
	{ CAPKM_A_DOMAIN_GID,		FIELD_NUMBER,	"gid" },
	{ CAPKM_A_DOMAIN_RIGHTS,	FIELD_FLAGS,	"rights", right_names },
	{ CAPKM_A_DOMAIN_SESSIONS,	FIELD_NUMBER,	"sessions" },
	{ CAPKM_A_DOMAIN_SEQUENCE,	FIELD_NUMBER,	"sequence" },
	{ CAPKM_A_DOMAIN_BUFFERS,	FIELD_NUMBER,	"buffers" },
	{ CAPKM_A_DOMAIN_STREAMS,	FIELD_NUMBER,	"streams" },
	{ CAPKM_A_DOMAIN_SCOPES,	FIELD_NUMBER,	"scopes" },
	{ CAPKM_A_DOMAIN_WINDOWS,	FIELD_NUMBER,	"windows" },
	{ CAPKM_A_DOMAIN_ORPHANS,	FIELD_NUMBER,	"orphans" },
	{ CAPKM_A_DOMAIN_GRAPHS,	FIELD_NUMBER,	"graphs" },
	{ CAPKM_A_DOMAIN_FAILURES,	FIELD_NUMBER,	"failures" },
	{ CAPKM_A_DOMAIN_CLAIMS,	FIELD_NUMBER,	"claims" },
	{ CAPKM_A_DOMAIN_REPORTS,	FIELD_NUMBER,	"reports" },
	{ CAPKM_A_DOMAIN_HISTORY,	FIELD_NUMBER,	"history" },
	{ CAPKM_A_DOMAIN_SEALED,	FIELD_NUMBER,	"sealed" },
	{ CAPKM_A_DOMAIN_GIVEN_UP,	FIELD_NUMBER,	"given_up" },
	{ CAPKM_A_DOMAIN_CLIENTS,	FIELD_NUMBER,	"clients" },
	{ CAPKM_A_DOMAIN_FAULTED,	FIELD_NUMBER,	"faulted" },
	{ CAPKM_A_DOMAIN_UNCONFIRMED,	FIELD_NUMBER,	"unconfirmed" },
	{ CAPKM_A_DOMAIN_LEDGERS,	FIELD_NUMBER,	"ledgers" },
	{ CAPKM_A_DOMAIN_CREATED_NS,	FIELD_NUMBER,	"created_ns" },
	{ CAPKM_A_DOMAIN_DEFUNCT_NS,	FIELD_NUMBER,	"defunct_ns" },
	{}
};

static const struct query query_all = { .cmd = CAPKM_CMD_DOMAIN_GET };

char *user_name(uint32_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	return pw ? escape(pw->pw_name) : format_count(uid);
}

static char *state(struct nlattr **attrs)
{
	char *s = field_text(domain_fields, CAPKM_A_DOMAIN_STATE, attrs);

	if (!*s) {
		free(s);
		s = format("live");
	}
	return paint(strstr(s, "defunct") ? COLOUR_WARN : COLOUR_NONE, s);
}

static const struct column columns[] = {
	{ "DOMAIN", true, CAPKM_A_DOMAIN_ID, CELL_ID },
	{ "USER", false, CAPKM_A_DOMAIN_UID, CELL_USER },
	{ "MODE", false, CAPKM_A_DOMAIN_MODE },
	{ "STATE", .make = state },
	{ "SESSIONS", true, CAPKM_A_DOMAIN_SESSIONS, CELL_COUNT },
	{ "BUFFERS", true, CAPKM_A_DOMAIN_BUFFERS, CELL_COUNT },
	{ "WINDOWS", true, CAPKM_A_DOMAIN_WINDOWS, CELL_COUNT },
	{ "FAILURES", true, CAPKM_A_DOMAIN_FAILURES, CELL_COUNT },
	{ "CREATED", true, CAPKM_A_DOMAIN_CREATED_NS, CELL_TIME },
	{ "NAME", false, CAPKM_A_DOMAIN_NAME },
};

/* What somebody should look at, and how. */
static void add_note(struct table *t, struct nlattr **attrs, int attr,
		     const char *what, const char *command)
{
	uint64_t n = get_number(attrs[attr]);
	char *note;

	if (!n)
		return;
	note = format("%s: %" PRIu64 "; see capadm %s %" PRIu64, what, n, command,
		      get_number(attrs[CAPKM_A_DOMAIN_ID]));
	table_note(t, note);
	free(note);
}

/* Who captures in vain runs without graphs, and may not know it. */
static void add_graphs(struct table *t, struct nlattr **attrs)
{
	uint64_t given_up = get_number(attrs[CAPKM_A_DOMAIN_GIVEN_UP]);
	char *note;

	if (!given_up)
		return;
	note = format("graphs: %" PRIu64 " sealed, %" PRIu64
		      " given up; see capadm windows --history %" PRIu64,
		      get_number(attrs[CAPKM_A_DOMAIN_SEALED]), given_up,
		      get_number(attrs[CAPKM_A_DOMAIN_ID]));
	table_note(t, note);
	free(note);
}

static void add_notes(struct table *t, struct nlattr **attrs)
{
	add_graphs(t, attrs);
	add_note(t, attrs, CAPKM_A_DOMAIN_ORPHANS, "orphaned windows", "windows --orphans");
	add_note(t, attrs, CAPKM_A_DOMAIN_REPORTS, "failures of ended processes",
		 "failures --reports");
}

static const struct listing listing = {
	.key = "domains",
	.domain_attr = CAPKM_A_DOMAIN_ID,
	.fields = domain_fields,
	.columns = columns,
	.columns_n = ARRAY_SIZE(columns),
	.notes = add_notes,
};

int cmd_domains(const struct request *rq)
{
	return list_records(rq, query_all, &listing);
}

/* ---- names ---- */

struct search {
	const char *name;
	uint64_t own, other;	/* ids found */
	unsigned int others;
};

static void match(struct nlattr **attrs, void *ctx)
{
	uint64_t id = get_number(attrs[CAPKM_A_DOMAIN_ID]);
	struct search *s = ctx;

	if (strcmp(get_text(attrs[CAPKM_A_DOMAIN_NAME]), s->name))
		return;
	if (get_number(attrs[CAPKM_A_DOMAIN_UID]) == geteuid()) {
		s->own = id;
	} else {
		s->other = id;
		s->others++;
	}
}

int find_domain(const struct request *rq, const char *arg, uint64_t *id)
{
	struct search s = { .name = arg };
	int status;

	if (*arg && !arg[strspn(arg, "0123456789")])
		return parse_id(rq, "domain", arg, id);

	status = kernel_dump(rq, &query_all, "read the domains", match, &s);
	if (status)
		return status;
	if (!s.own && !s.others)
		return fail(rq, ENOENT, "no domain is named %s; capadm domains lists them",
			    arg);
	if (!s.own && s.others > 1)
		return fail(rq, EINVAL,
			    "%u users have a domain named %s; give its id, which capadm domains shows",
			    s.others, arg);
	*id = s.own ? s.own : s.other;
	return EXIT_OK;
}
