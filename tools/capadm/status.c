// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm status: what somebody needs who has one minute. For each domain whether it
 * ails, then of what, then what to do about it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

#define RECENT 5

struct kept {
	uint64_t time;
	struct nlattr *all;	/* a record, as attrs[0] has it */
};

struct status {
	const struct request *rq;
	struct table *domains, *orphans, *failures, *limits;
	struct json_object *json, *health;
	uint64_t *near;		/* domains that a limit is near in, once for each limit */
	size_t near_n;
	struct kept *kept;	/* failures */
	size_t kept_n;
	unsigned int domains_n, ailing_n;
	unsigned int ails[8];	/* domains, by ailment */
	uint64_t where[8];	/* the last of these */
};

/* ---- ailments ---- */

static bool counts(const struct status *s, struct nlattr **attrs, int attr)
{
	(void)s;
	return get_number(attrs[attr]);
}

static bool is_near(const struct status *s, struct nlattr **attrs, int attr)
{
	uint64_t id = get_number(attrs[attr]);
	size_t i;

	for (i = 0; i < s->near_n; i++)
		if (s->near[i] == id)
			return true;
	return false;
}

static bool is_defunct(const struct status *s, struct nlattr **attrs, int attr)
{
	(void)s;
	return get_number(attrs[attr]) & CAPKM_DOMAIN_DEFUNCT;
}

/* The worst first. */
static const struct ailment {
	const char *key;
	bool (*has)(const struct status *s, struct nlattr **attrs, int attr);
	int attr;
	enum colour colour;
	const char *why;
	const char *command;	/* of one domain, or without one of all */
	bool all;		/* it takes no domain here */
} ailments[] = {
	{ "faulted", counts, CAPKM_A_DOMAIN_FAULTED, COLOUR_BAD,
	  "devices have faulted; who used them has to begin anew", "capadm sessions --clients" },
	{ "orphans", counts, CAPKM_A_DOMAIN_ORPHANS, COLOUR_BAD,
	  "windows have lost their process; without --dry-run it closes them",
	  "capadm abandon --orphans --dry-run" },
	{ "tainted", counts, CAPKM_A_DOMAIN_FAILURES, COLOUR_WARN,
	  "bytes are not to be read; this shows which, and why", "capadm failures --tree" },
	{ "limit", is_near, CAPKM_A_DOMAIN_ID, COLOUR_WARN,
	  "calls are soon refused", "capadm domain limit" },
	{ "reports", counts, CAPKM_A_DOMAIN_REPORTS, COLOUR_WARN,
	  "processes have ended with failures nobody else has seen",
	  "capadm failures --reports" },
	{ "defunct", is_defunct, CAPKM_A_DOMAIN_STATE, COLOUR_WARN,
	  "nobody uses it any more; it goes by itself, or by capadm domain rm",
	  "capadm domains", .all = true },
};

static void note_ailment(struct status *s, size_t i, struct nlattr **attrs)
{
	s->ails[i]++;
	s->where[i] = get_number(attrs[CAPKM_A_DOMAIN_ID]);
	json_object_array_add(s->health, json_text(ailments[i].key));
}

/* "orphans, tainted"; the colour is that of the worst. */
static char *find_ailments(struct status *s, struct nlattr **attrs)
{
	enum colour colour = COLOUR_GOOD;
	char *text = format("%s", ""), *more;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ailments); i++) {
		const struct ailment *a = &ailments[i];

		if (!a->has(s, attrs, a->attr))
			continue;
		note_ailment(s, i, attrs);
		if (!*text)
			colour = a->colour;
		more = format("%s%s%s", text, *text ? ", " : "", a->key);
		free(text);
		text = more;
	}
	if (*text)
		s->ailing_n++;
	return paint(colour, *text ? text : format("ok"));
}

/* ---- what there is ---- */

static const struct column domain_columns[] = {
	{ "DOMAIN", true }, { "USER" }, { "HEALTH" }, { "SESSIONS", true },
	{ "WINDOWS", true }, { "ORPHANS", true }, { "FAILURES", true }, { "NAME" },
};

static void add_domain(struct nlattr **attrs, void *ctx)
{
	struct json_object *j = record_json(domain_fields, attrs), *list;
	struct status *s = ctx;
	char *health;

	s->domains_n++;
	s->health = must(json_object_new_array());
	health = find_ailments(s, attrs);
	json_object_object_add(j, "health", s->health);
	json_object_object_get_ex(s->json, "domains", &list);
	json_object_array_add(list, j);
	table_row(s->domains,
		  format_id(get_number(attrs[CAPKM_A_DOMAIN_ID])),
		  user_name(get_number(attrs[CAPKM_A_DOMAIN_UID])), health,
		  format_count(get_number(attrs[CAPKM_A_DOMAIN_SESSIONS])),
		  format_count(get_number(attrs[CAPKM_A_DOMAIN_WINDOWS])),
		  format_count(get_number(attrs[CAPKM_A_DOMAIN_ORPHANS])),
		  format_count(get_number(attrs[CAPKM_A_DOMAIN_FAILURES])),
		  field_text(domain_fields, CAPKM_A_DOMAIN_NAME, attrs));
}

/* Whose they are. */
static const struct column orphan_columns[] = {
	{ "WINDOW", true, .make = window_name },
	{ "SLOT", true, CAPKM_A_WINDOW_SLOT, CELL_COUNT },
	{ "BYTES", true, CAPKM_A_WINDOW_BYTES, CELL_BYTES },
	{ "PREPARED", true, CAPKM_A_WINDOW_PREPARED_NS, CELL_TIME },
	{ "USER", false, CAPKM_A_WINDOW_UID, CELL_USER },
	{ "PID", true, CAPKM_A_WINDOW_PID, CELL_ID },
	{ "COMMAND", false, CAPKM_A_WINDOW_COMM },
};

static const struct listing orphan_listing = {
	.key = "orphans",
	.fields = window_fields,
	.columns = orphan_columns,
	.columns_n = ARRAY_SIZE(orphan_columns),
};

static void add_to(struct status *s, struct table *t, const struct listing *listing,
		   struct nlattr **attrs)
{
	json_object_array_add(json_object_object_get(s->json, listing->key),
			      record_json(listing->fields, attrs));
	list_row(t, listing, attrs);
}

static void add_orphan(struct nlattr **attrs, void *ctx)
{
	struct status *s = ctx;

	add_to(s, s->orphans, &orphan_listing, attrs);
}

static void add_limit(struct nlattr **attrs, void *ctx)
{
	struct status *s = ctx;

	if (!limit_is_near(attrs))
		return;
	add_to(s, s->limits, &limit_listing, attrs);
	s->near = must(realloc(s->near, (s->near_n + 1) * sizeof(*s->near)));
	s->near[s->near_n++] = get_number(attrs[CAPKM_A_LIMIT_DOMAIN]);
}

/* ---- recent failures ---- */

static void keep_failure(struct nlattr **attrs, void *ctx)
{
	size_t len = NLA_HDRLEN + nla_len(attrs[0]);
	struct status *s = ctx;
	struct kept *k;

	s->kept = must(realloc(s->kept, (s->kept_n + 1) * sizeof(*s->kept)));
	k = &s->kept[s->kept_n++];
	k->time = get_number(attrs[CAPKM_A_FAILURE_TIME_NS]);
	k->all = must(malloc(len));
	memcpy(k->all, attrs[0], len);
}

static int newest_first(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->time < y->time) - (x->time > y->time);
}

static void add_recent(struct status *s)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	size_t i;

	if (s->kept_n)
		qsort(s->kept, s->kept_n, sizeof(*s->kept), newest_first);
	for (i = 0; i < s->kept_n; i++) {
		if (i < RECENT &&
		    nla_parse_nested(attrs, ATTR_MAX, s->kept[i].all, NULL) >= 0)
			add_to(s, s->failures, &failure_listing, attrs);
		free(s->kept[i].all);
	}
	free(s->kept);
}

/* ---- to show it ---- */

static char *command_for(const struct status *s, size_t i)
{
	const struct ailment *a = &ailments[i];

	if (a->all || s->ails[i] > 1)
		return format("%s", a->command);
	return format("%s %" PRIu64, a->command, s->where[i]);
}

static struct json_object *next_json(const struct status *s)
{
	struct json_object *list = must(json_object_new_array()), *j;
	char *command;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ailments); i++) {
		if (!s->ails[i])
			continue;
		command = command_for(s, i);
		j = must(json_object_new_object());
		json_object_object_add(j, "health", json_text(ailments[i].key));
		json_object_object_add(j, "domains", json_object_new_uint64(s->ails[i]));
		json_object_object_add(j, "why", json_text(ailments[i].why));
		json_object_object_add(j, "command", json_text(command));
		json_object_array_add(list, j);
		free(command);
	}
	return list;
}

static void print_next(const struct status *s)
{
	char *command, *line;
	size_t i;

	print_title("What to do");
	for (i = 0; i < ARRAY_SIZE(ailments); i++) {
		if (!s->ails[i])
			continue;
		line = format("%s: %s", ailments[i].key, ailments[i].why);
		print_cut(line, ailments[i].colour);
		free(line);
		command = command_for(s, i);
		printf("    %s\n", command);
		free(command);
	}
}

static void print_part(const char *title, const struct table *t)
{
	if (!table_rows(t))
		return;
	print_title(title);
	table_print(t);
}

static void print(const struct status *s)
{
	if (!s->domains_n) {
		printf("no domains: no process uses capkm, or none that you may look at\n");
		return;
	}
	printf("%u %s, %u ailing, %zu failures\n\n", s->domains_n,
	       s->domains_n == 1 ? "domain" : "domains", s->ailing_n, s->kept_n);
	table_print(s->domains);
	print_part("Orphaned windows", s->orphans);
	print_part(s->kept_n > RECENT ? "Recent failures (capadm failures lists all)" :
					"Recent failures", s->failures);
	print_part("Limits that are near", s->limits);
	if (s->ailing_n)
		print_next(s);
}

static struct table *new_part(struct status *s, const struct listing *listing)
{
	json_object_object_add(s->json, listing->key, json_object_new_array());
	return table_new(listing->columns, listing->columns_n);
}

static void init(struct status *s, const struct request *rq)
{
	*s = (struct status){ .rq = rq, .json = must(json_object_new_object()) };
	json_object_object_add(s->json, "domains", json_object_new_array());
	s->domains = table_new(domain_columns, ARRAY_SIZE(domain_columns));
	s->orphans = new_part(s, &orphan_listing);
	s->failures = new_part(s, &failure_listing);
	s->limits = new_part(s, &limit_listing);
}

/* Limits first: domains ail of them. */
static int ask_all(struct status *s)
{
	struct query limits = { .cmd = CAPKM_CMD_LIMIT_GET };
	struct query users = { .cmd = CAPKM_CMD_LIMIT_GET };
	struct query domains = { .cmd = CAPKM_CMD_DOMAIN_GET };
	struct query windows = { .cmd = CAPKM_CMD_WINDOW_GET };
	struct query failures = { .cmd = CAPKM_CMD_FAILURE_GET };
	int status;

	ask_flag(&users, CAPKM_A_LIMIT_USERS);
	ask_u32(&windows, CAPKM_A_WINDOW_STATE, CAPKM_WINDOW_ORPHANED);
	status = kernel_dump(s->rq, &limits, "read the limits", add_limit, s);
	if (!status)
		status = kernel_dump(s->rq, &users, "read the limits of users", add_limit, s);
	if (!status)
		status = kernel_dump(s->rq, &domains, "read the domains", add_domain, s);
	if (!status)
		status = kernel_dump(s->rq, &windows, "read the windows", add_orphan, s);
	if (!status)
		status = kernel_dump(s->rq, &failures, "read the failures", keep_failure, s);
	return status;
}

int cmd_status(const struct request *rq)
{
	struct status s;
	int status;

	init(&s, rq);
	status = ask_all(&s);
	if (status)
		return status;
	add_recent(&s);
	if (rq->json) {
		json_object_object_add(s.json, "next", next_json(&s));
		return print_json("status", s.json);
	}
	print(&s);
	return EXIT_OK;
}
