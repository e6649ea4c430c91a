// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Dumps of all domains that a reader may see, in bounded holds of their locks. */
#include "internal.h"

#define BATCH	64u

struct dump {
	struct domain *domain;
	const struct capkm_caller *who;
	struct capkm_cursor *cursor;
	capkm_emit_fn emit;
	void *ctx;
	u32 batch;
	union {
		struct capkm_domain_query domain_query;
		struct capkm_window_view view;
		struct capkm_buffer_query buffer_query;
		struct capkm_report report;
	} record;
};

static int emit(struct dump *dump)
{
	return dump->emit(dump->ctx, dump->domain->id, &dump->record);
}

static int dump_domain(struct dump *dump)
{
	int err;

	if (dump->cursor->id)
		return 0;
	memset(&dump->record, 0, sizeof(dump->record));
	ck_domain_fill(dump->domain, NULL, dump->who,
		       &dump->record.domain_query);
	err = emit(dump);
	if (!err)
		dump->cursor->id = 1;
	return err;
}

static int emit_window(struct dump *dump, const struct window *w)
{
	memset(&dump->record, 0, sizeof(dump->record));
	ck_window_fill(w, &dump->record.view.window);
	if (w->first)
		ck_failure_report(w->first, &dump->record.view.first);
	return emit(dump);
}

static int emit_node(struct dump *dump, enum capkm_dump what,
		     struct id_node *node)
{
	switch (what) {
	case CAPKM_DUMP_WINDOWS:
		return emit_window(dump,
				   container_of(node, struct window, node));
	case CAPKM_DUMP_BUFFERS:
		memset(&dump->record, 0, sizeof(dump->record));
		ck_buffer_fill(container_of(node, struct buffer, node),
			       &dump->record.buffer_query);
		return emit(dump);
	default:
		ck_failure_report(container_of(node, struct failure, node),
				  &dump->record.report);
		return emit(dump);
	}
}

/* Lets others in between two batches; ids are never reused. */
static void breathe(struct dump *dump)
{
	if (++dump->batch % BATCH)
		return;
	host_unlock(&dump->domain->lock);
	host_relax();
	host_lock(&dump->domain->lock);
}

static int dump_map(struct dump *dump, enum capkm_dump what,
		    const struct id_map *map)
{
	struct id_node *node;
	int err;

	while ((node = ck_id_from(map, dump->cursor->id))) {
		dump->cursor->id = node->id;
		err = emit_node(dump, what, node);
		if (err)
			return err;
		dump->cursor->id++;
		breathe(dump);
	}
	return 0;
}

/* The history and the reports are short lists with ordinals that only grow. */
static int dump_history(struct dump *dump)
{
	struct window *w;
	struct link *l;
	int err;

	link_for_each(l, &dump->domain->history) {
		w = link_entry(l, struct window, sib);
		if (w->remembered <= dump->cursor->id)
			continue;
		err = emit_window(dump, w);
		if (err)
			return err;
		dump->cursor->id = w->remembered;
	}
	return 0;
}

static int dump_reports(struct dump *dump)
{
	struct failure *f;
	struct link *l;
	int err;

	link_for_each(l, &dump->domain->reports) {
		f = link_entry(l, struct failure, sib);
		if (f->report <= dump->cursor->id)
			continue;
		ck_failure_report(f, &dump->record.report);
		err = emit(dump);
		if (err)
			return err;
		dump->cursor->id = f->report;
	}
	return 0;
}

static int dump_one(struct dump *dump, enum capkm_dump what)
{
	struct domain *d = dump->domain;

	switch (what) {
	case CAPKM_DUMP_DOMAINS:
		return dump_domain(dump);
	case CAPKM_DUMP_WINDOWS:
		return dump_map(dump, what, &d->windows);
	case CAPKM_DUMP_HISTORY:
		return dump_history(dump);
	case CAPKM_DUMP_BUFFERS:
		return dump_map(dump, what, &d->buffers);
	case CAPKM_DUMP_FAILURES:
		return dump_map(dump, what, &d->failures);
	case CAPKM_DUMP_REPORTS:
		return dump_reports(dump);
	}
	return -EINVAL;
}

/* One domain, or nothing if the reader may not see it. */
static int dump_if_allowed(struct dump *dump, enum capkm_dump what)
{
	struct domain *d = dump->domain;
	int err;

	if (!(ck_domain_rights(d, dump->who) & CAPKM_RIGHT_READ))
		return -EACCES;
	if (dump->cursor->domain != d->id) {
		dump->cursor->domain = d->id;
		dump->cursor->id = 0;
	}
	host_lock(&d->lock);
	err = dump_one(dump, what);
	host_unlock(&d->lock);
	return err;
}

int capkm_dump(enum capkm_dump what, u64 domain,
	       const struct capkm_caller *who, struct capkm_cursor *cursor,
	       capkm_emit_fn emit, void *ctx)
{
	struct dump *dump;
	int err = 0;

	dump = host_alloc(sizeof(*dump));
	if (!dump)
		return -ENOMEM;
	dump->who = who;
	dump->cursor = cursor;
	dump->emit = emit;
	dump->ctx = ctx;
	if (domain) {
		dump->domain = ck_domain_find(domain);
		err = dump->domain ? dump_if_allowed(dump, what) : -ENOENT;
		if (dump->domain)
			ck_domain_put(dump->domain);
	}
	while (!domain && (dump->domain = ck_domain_next(cursor->domain))) {
		err = dump_if_allowed(dump, what);
		if (err == -EACCES)
			err = 0;
		if (!err) {
			cursor->domain = dump->domain->id + 1;
			cursor->id = 0;
		}
		ck_domain_put(dump->domain);
		if (err)
			break;
	}
	host_free(dump);
	return err;
}

int capkm_abandon(u64 domain, u64 window, const struct capkm_caller *who)
{
	struct domain *d = ck_domain_find(domain);
	struct window *w;
	bool unlist = false;
	int err = -EPERM;

	if (!d)
		return -ENOENT;
	if (!ck_domain_rights(d, who))
		err = -ENOENT;
	if (who->uid == d->uid || who->admin) {
		host_lock(&d->lock);
		w = id_entry(ck_id_find(&d->windows, window), struct window,
			     node);
		err = w ? 0 : -ENOENT;
		if (w) {
			ck_window_abandon(d, w, NULL);
			unlist = ck_domain_idle(d);
		}
		host_unlock(&d->lock);
	}
	if (unlist)
		ck_domain_unlist(d);
	ck_domain_put(d);
	return err;
}
