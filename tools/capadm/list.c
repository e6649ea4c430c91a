// SPDX-License-Identifier: GPL-2.0-only
/* What the commands that list something have in common. */
#include <inttypes.h>
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

static int dump(const struct request *rq, struct query *query, const struct list *l)
{
	uint64_t domain;
	char *what;
	int status;

	if (!rq->argc)
		return kernel_dump(rq, query, "read the domains", add, (void *)l);
	status = find_domain(rq, rq->argv[0], &domain);
	if (status)
		return status;
	ask_u64(query, l->listing->domain_attr, domain);
	what = format("read domain %" PRIu64, domain);
	status = kernel_dump(rq, query, what, add, (void *)l);
	free(what);
	return status;
}

int list_records(const struct request *rq, struct query query,
		 const struct listing *listing)
{
	struct list l = { .listing = listing };
	int status;

	if (rq->json)
		l.json = must(json_object_new_array());
	else
		l.table = table_new(listing->columns, listing->columns_n);

	/* Nothing is printed before all of it is there. */
	status = dump(rq, &query, &l);
	if (status)
		return status;
	if (rq->json)
		return print_json(listing->key, l.json);
	table_print_and_free(l.table);
	return EXIT_OK;
}
