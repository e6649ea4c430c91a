// SPDX-License-Identifier: GPL-2.0-only
/* What the commands that list something have in common. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "capadm.h"

struct list {
	const struct listing *listing;
	struct table *table;		/* or: */
	struct json_object *json;
};

char *make_cell(const struct column *c, const struct field *fields, struct nlattr **attrs)
{
	uint64_t v;

	if (c->make)
		return c->make(attrs);
	if (c->cell == CELL_TEXT)
		return field_text(fields, c->attr, attrs);
	v = get_number(attrs[c->attr]);
	switch (c->cell) {
	case CELL_ID:
		return format_id(v);
	case CELL_BYTES:
		return format_bytes(v);
	case CELL_TIME:
		return format_time(v);
	case CELL_USER:
		return user_name(v);
	default:
		return format_count(v);
	}
}

void list_row(struct table *t, const struct listing *listing, struct nlattr **attrs)
{
	char *cells[listing->columns_n];
	size_t i;

	for (i = 0; i < listing->columns_n; i++)
		cells[i] = make_cell(&listing->columns[i], listing->fields, attrs);
	table_cells(t, cells);
	if (listing->notes)
		listing->notes(t, attrs);
}

static void add(struct nlattr **attrs, void *ctx)
{
	const struct list *l = ctx;

	if (l->listing->keep && !l->listing->keep(attrs))
		return;
	if (l->json)
		json_object_array_add(l->json, record_json(l->listing->fields, attrs));
	else
		list_row(l->table, l->listing, attrs);
}

/* Nothing is printed before all of it is there. */
int list_query(const struct request *rq, const struct query *q, const char *what,
	       const char *none, const struct listing *listing)
{
	struct list l = { .listing = listing };
	int status;

	if (rq->json)
		l.json = must(json_object_new_array());
	else
		l.table = table_new(listing->columns, listing->columns_n);
	status = kernel_dump(rq, q, what, add, &l);
	if (status)
		return status;
	if (rq->json)
		return print_json(listing->key, l.json);
	if (none && !table_rows(l.table))
		puts(none);
	else
		table_print(l.table);
	table_free(l.table);
	return EXIT_OK;
}

char *read_domain(uint64_t id)
{
	return id ? format("read domain %" PRIu64, id) : format("read the domains");
}

int list_records(const struct request *rq, struct query query,
		 const struct listing *listing)
{
	uint64_t domain;
	char *what;
	int status;

	if (!rq->argc)
		return list_query(rq, &query, "read the domains", NULL, listing);
	status = find_domain(rq, rq->argv[0], &domain);
	if (status)
		return status;
	ask_u64(&query, listing->domain_attr, domain);
	what = read_domain(domain);
	status = list_query(rq, &query, what, NULL, listing);
	free(what);
	return status;
}
