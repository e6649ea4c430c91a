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

#include "ailing.h"

#define RECENT 5

struct kept {
	uint64_t time;
	struct nlattr *all;	/* a record, as attrs[0] has it */
};

struct status {
	const struct request *rq;
	struct snapshot snapshot;
	struct finding *findings;
	struct table *domains, *orphans, *failures, *limits;
	struct json_object *json;
	struct kept *kept;	/* failures */
	size_t kept_n;
	unsigned int ailing_n;	/* domains */
};

/* ---- what there is ---- */

static const struct column domain_columns[] = {
	{ "DOMAIN", true }, { "USER" }, { "HEALTH" }, { "SESSIONS", true },
	{ "WINDOWS", true }, { "ORPHANS", true }, { "FAILURES", true }, { "NAME" },
};

/* "orphans, tainted", and the same into @list; the colour is that of the worst. */
static char *health_text(const struct status *s, uint64_t domain, struct json_object *list)
{
	const struct ailment *last = NULL;
	enum colour colour = COLOUR_GOOD;
	char *text = format("%s", ""), *more;
	const struct finding *f;

	for (f = s->findings; f; f = f->next) {
		if (f->domain != domain || f->ailment == last)
			continue;
		if (!last)
			colour = f->ailment->colour;
		last = f->ailment;
		json_object_array_add(list, json_text(last->key));
		more = format("%s%s%s", text, *text ? ", " : "", last->key);
		free(text);
		text = more;
	}
	if (last)
		return paint(colour, text);
	free(text);
	return paint(COLOUR_GOOD, format("ok"));
}

static void add_domain(struct status *s, struct nlattr **attrs)
{
	struct json_object *j = record_json(domain_fields, attrs);
	struct json_object *list = must(json_object_new_array());
	char *health = health_text(s, get_number(attrs[CAPKM_A_DOMAIN_ID]), list);

	s->ailing_n += json_object_array_length(list) != 0;
	json_object_object_add(j, "health", list);
	json_object_array_add(json_object_object_get(s->json, "domains"), j);
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

static void add_near(struct status *s, const struct records *limits)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	const struct record *r;

	for (r = limits->first; r; r = r->next)
		if (r->near && snapshot_attrs(r, attrs))
			add_to(s, s->limits, &limit_listing, attrs);
}

static void add_snapshot(struct status *s)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	const struct record *r;

	s->findings = find_ailments(&s->snapshot);
	for (r = s->snapshot.domains.first; r; r = r->next)
		if (snapshot_attrs(r, attrs))
			add_domain(s, attrs);
	add_near(s, &s->snapshot.limits);
	add_near(s, &s->snapshot.users);
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

/* One ailment, and where it is. */
struct next {
	const struct ailment *ailment;
	unsigned int domains;
	char *command;
};

/* From *@f on, which is moved behind its findings. The caller frees the command. */
static struct next take_next(const struct finding **f)
{
	struct next n = { .ailment = (*f)->ailment };
	uint64_t domain = 0;

	for (; *f && (*f)->ailment == n.ailment; *f = (*f)->next) {
		n.domains += (*f)->domain != domain;
		domain = (*f)->domain;
	}
	n.command = next_command(n.ailment, n.domains == 1 ? domain : 0);
	return n;
}

static struct json_object *next_json(const struct status *s)
{
	struct json_object *list = must(json_object_new_array()), *j;
	const struct finding *f = s->findings;

	while (f) {
		struct next n = take_next(&f);

		j = must(json_object_new_object());
		json_object_object_add(j, "health", json_text(n.ailment->key));
		json_object_object_add(j, "domains", json_object_new_uint64(n.domains));
		json_object_object_add(j, "why", json_text(n.ailment->why));
		json_object_object_add(j, "command", json_text(n.command));
		json_object_array_add(list, j);
		free(n.command);
	}
	return list;
}

static void print_next(const struct status *s)
{
	const struct finding *f = s->findings;
	char *line;

	print_title("What to do");
	while (f) {
		struct next n = take_next(&f);

		line = format("%s: %s", n.ailment->key, n.ailment->why);
		print_cut(line, n.ailment->colour);
		free(line);
		printf("    %s\n", n.command);
		free(n.command);
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
	size_t n = s->snapshot.domains.n;

	if (n) {
		printf("%zu %s, %u ailing, %zu %s\n\n", n, n == 1 ? "domain" : "domains",
		       s->ailing_n, s->kept_n, s->kept_n == 1 ? "failure" : "failures");
		table_print(s->domains);
	} else {
		printf("no domains: no process uses capkm, or none that you may look at\n");
	}
	print_part("Orphaned windows", s->orphans);
	print_part(s->kept_n > RECENT ? "Recent failures (capadm failures lists all)" :
					"Recent failures", s->failures);
	print_part("Limits that are near", s->limits);
	if (s->findings)
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

static int ask_all(struct status *s)
{
	struct query windows = { .cmd = CAPKM_CMD_WINDOW_GET };
	struct query failures = { .cmd = CAPKM_CMD_FAILURE_GET };
	int status;

	ask_u32(&windows, CAPKM_A_WINDOW_STATE, CAPKM_WINDOW_ORPHANED);
	status = snapshot_take(s->rq, &s->snapshot, 0, SNAPSHOT_HEALTH);
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
	add_snapshot(&s);
	add_recent(&s);
	if (rq->json) {
		json_object_object_add(s.json, "next", next_json(&s));
		return print_json("status", s.json);
	}
	print(&s);
	return EXIT_OK;
}
