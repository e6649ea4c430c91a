// SPDX-License-Identifier: GPL-2.0-only
/* What the commands that list something have in common. */
#include "capadm.h"

struct list {
	const struct listing *listing;
	struct table *table;		/* or: */
	struct json_object *json;
};

static void add(struct nlattr **attrs, void *ctx)
{
	const struct list *l = ctx;

	if (l->listing->keep && !l->listing->keep(attrs))
		return;
	if (l->json)
		json_object_array_add(l->json, record_json(l->listing->fields, attrs));
	else
		l->listing->row(l->table, attrs);
}

int list_records(const struct request *rq, struct query query,
		 const struct listing *listing)
{
	struct list l = { .listing = listing };
	int status = EXIT_OK;

	if (rq->argc)
		status = find_domain(rq, rq->argv[0], &query.domain);
	if (status)
		return status;

	if (rq->json)
		l.json = must(json_object_new_array());
	else
		l.table = table_new(listing->columns, listing->columns_n);

	/* Nothing is printed before all of it is there. */
	status = kernel_dump(rq, &query, add, &l);
	if (status)
		return status;
	if (rq->json)
		return print_json(listing->key, l.json);
	table_print_and_free(l.table);
	return EXIT_OK;
}
