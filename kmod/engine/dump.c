// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Dumps of all domains that a reader may see, in bounded holds of their locks.
 *
 * A cursor names what comes next by its id, which is never reused, not by a place in
 * a container: so a dump goes on whatever has come and gone in between. That
 * something has is noticed by a count of changes (struct kind).
 */
#include "dump.h"

/* In one hold of the lock, and one record more; and what a record counts for. */
#define STEPS_MAX	4096u
#define STEPS_RECORD	64u

int ck_dump_emit(struct dump *dump)
{
	const u64 domain = dump->domain ? dump->domain->id : 0;
	int err = dump->emit(dump->ctx, domain, &dump->record);

	memset(&dump->record, 0, sizeof(dump->record));
	return err;
}

/* ---- objects that the domain keeps by their ids ---- */

static void fill_window(struct dump *dump, const struct window *w)
{
	ck_window_fill(w, &dump->record.window.window);
	dump->record.window.tid = w->opener.tid;
	if (w->first)
		ck_failure_report(w->first, &dump->record.window.first);
}

/* How many steps it took beside a record's own. */
static u64 fill_node(struct dump *dump, struct id_node *node)
{
	struct buffer *b;

	switch (dump->query->what) {
	case CAPKM_DUMP_WINDOWS:
		fill_window(dump, container_of(node, struct window, node));
		break;
	case CAPKM_DUMP_BUFFERS:
		b = container_of(node, struct buffer, node);
		ck_fast_leave(b, CAPKM_FAST_DUMPED);
		ck_buffer_fill(b, &dump->record.buffer);
		ck_fast_back(b);
		return b->uses_n;
	case CAPKM_DUMP_GRAPHS:
		dump->record.graph.graph = node->id;
		ck_graph_fill(container_of(node, struct graph, node),
			      &dump->record.graph.query);
		break;
	case CAPKM_DUMP_LEDGERS:
		ck_ledger_fill(dump->domain,
			       container_of(node, struct ledger, node),
			       &dump->record.ledger);
		break;
	default:
		ck_failure_report(container_of(node, struct failure, node),
				  &dump->record.failure);
	}
	return 0;
}

static struct id_map *map_of(const struct dump *dump)
{
	struct domain *d = dump->domain;

	switch (dump->query->what) {
	case CAPKM_DUMP_WINDOWS:
		return &d->windows;
	case CAPKM_DUMP_BUFFERS:
		return &d->buffers;
	case CAPKM_DUMP_GRAPHS:
		return &d->graphs;
	case CAPKM_DUMP_LEDGERS:
		return &d->ledgers;
	default:
		return &d->failures;
	}
}

static u64 map_changes(const struct dump *dump)
{
	return map_of(dump)->changes;
}

static int dump_map(struct dump *dump)
{
	const struct id_map *map = map_of(dump);
	struct capkm_cursor *cursor = dump->cursor;
	struct id_node *node = ck_id_from(map, cursor->id);
	u64 steps;
	int err;

	while (node) {
		cursor->id = node->id;
		steps = fill_node(dump, node);
		err = ck_dump_emit(dump);
		if (err)
			return err;
		cursor->id++;
		err = ck_dump_breathe(dump, steps);
		if (err < 0)
			return err;
		node = err ? ck_id_from(map, cursor->id) : ck_id_next(node);
	}
	return 0;
}

/* ---- lists, in which ids and ordinals only grow ---- */

static int dump_history(struct dump *dump)
{
	const struct link *head = &dump->domain->history, *l, *next;
	struct window *w;
	int err;

	for (l = head->next; l != head; l = next) {
		next = l->next;
		w = link_entry(l, struct window, sib);
		if (w->remembered <= dump->cursor->id)
			continue;
		fill_window(dump, w);
		err = ck_dump_emit(dump);
		if (err)
			return err;
		dump->cursor->id = w->remembered;
		err = ck_dump_breathe(dump, 0);
		if (err < 0)
			return err;
		if (err)
			next = head->next;
	}
	return 0;
}

/* Those that came, and those that went. */
static u64 history_changes(const struct dump *dump)
{
	const struct domain *d = dump->domain;

	return d->history_total + (d->history_total - d->history_n);
}

static int dump_reports(struct dump *dump)
{
	const struct link *head = &dump->domain->reports, *l, *next;
	struct failure *f;
	int err;

	for (l = head->next; l != head; l = next) {
		next = l->next;
		f = link_entry(l, struct failure, sib);
		if (f->report <= dump->cursor->id)
			continue;
		ck_failure_report(f, &dump->record.failure);
		err = ck_dump_emit(dump);
		if (err)
			return err;
		dump->cursor->id = f->report;
		err = ck_dump_breathe(dump, 0);
		if (err < 0)
			return err;
		if (err)
			next = head->next;
	}
	return 0;
}

static u64 reports_changes(const struct dump *dump)
{
	const struct domain *d = dump->domain;

	return d->reports_total + (d->reports_total - d->reports_n);
}

struct capkm_session *ck_session_from(const struct domain *d, u64 id)
{
	return id_entry(ck_id_from(&d->session_ids, id), struct capkm_session,
			node);
}

static int dump_sessions(struct dump *dump)
{
	struct capkm_cursor *cursor = dump->cursor;
	struct capkm_session *s;
	int err;

	while ((s = ck_session_from(dump->domain, cursor->id))) {
		cursor->id = s->id;
		ck_session_fill(s, &dump->record.session);
		err = ck_dump_emit(dump);
		if (err)
			return err;
		cursor->id++;
		err = ck_dump_breathe(dump, s->clients_all);
		if (err < 0)
			return err;
	}
	return 0;
}

/* The first at the cursor or after it: in order of (session, client). */
static struct client *client_from(const struct dump *dump)
{
	struct capkm_cursor *cursor = dump->cursor;
	struct capkm_session *s;
	struct client *c;
	struct link *l;

	while ((s = ck_session_from(dump->domain, cursor->id))) {
		if (s->id != cursor->id) {
			cursor->id = s->id;
			cursor->at = 0;
		}
		link_for_each(l, &s->clients) {
			c = link_entry(l, struct client, sib);
			if (c->id >= cursor->at)
				return c;
		}
		cursor->id++;
		cursor->at = 0;
	}
	return NULL;
}

static int dump_clients(struct dump *dump)
{
	struct client *c = client_from(dump);
	struct link *next;
	int err;

	while (c) {
		ck_client_fill(c, &dump->record.client);
		err = ck_dump_emit(dump);
		if (err)
			return err;
		dump->cursor->at = c->id + 1;
		next = c->sib.next;
		err = ck_dump_breathe(dump, 0);
		if (err < 0)
			return err;
		/* Only from one session to another it has to be looked for. */
		c = err || next == &c->session->clients ? client_from(dump) :
			link_entry(next, struct client, sib);
	}
	return 0;
}

static u64 member_changes(const struct dump *dump)
{
	return dump->domain->members_changed;
}

static int dump_domain(struct dump *dump)
{
	int err;

	if (dump->cursor->id)
		return 0;
	ck_domain_fill(dump->domain, NULL, dump->who, &dump->record.domain);
	err = ck_dump_emit(dump);
	if (!err)
		dump->cursor->id = 1;
	return err;
}

/* ---- all kinds ---- */

/* How often what is dumped came or went, where that can be in one domain. */
static u64 none_changes(const struct dump *dump)
{
	return 0;
}

static const struct kind {
	int (*dump)(struct dump *dump);
	u64 (*changes)(const struct dump *dump);
} kinds[] = {
	[CAPKM_DUMP_DOMAINS]	= { dump_domain, none_changes },
	[CAPKM_DUMP_SESSIONS]	= { dump_sessions, member_changes },
	[CAPKM_DUMP_CLIENTS]	= { dump_clients, member_changes },
	[CAPKM_DUMP_WINDOWS]	= { dump_map, map_changes },
	[CAPKM_DUMP_HISTORY]	= { dump_history, history_changes },
	[CAPKM_DUMP_BUFFERS]	= { dump_map, map_changes },
	[CAPKM_DUMP_GRAPHS]	= { dump_map, map_changes },
	[CAPKM_DUMP_FAILURES]	= { dump_map, map_changes },
	[CAPKM_DUMP_REPORTS]	= { dump_reports, reports_changes },
	[CAPKM_DUMP_TAINT]	= { ck_dump_taint, ck_taint_changes },
	[CAPKM_DUMP_CARRIERS]	= { ck_dump_carriers, ck_carriers_changes },
	[CAPKM_DUMP_LEDGERS]	= { dump_map, map_changes },
	[CAPKM_DUMP_LIMITS]	= { ck_dump_limits, none_changes },
	/* These are of no domain. */
	[CAPKM_DUMP_DEFAULTS]	= { ck_dump_defaults, NULL },
	[CAPKM_DUMP_USERS]	= { ck_dump_users, NULL },
};

/* @seen: the count when it was looked at last, plus one; 0: never. */
static void note_changes(struct dump *dump, u64 *seen, u64 now)
{
	if (*seen && *seen != now + 1)
		dump->cursor->changes++;
	*seen = now + 1;
}

static void note_domain(struct dump *dump)
{
	note_changes(dump, &dump->cursor->in_domain,
		     kinds[dump->query->what].changes(dump));
}

int ck_dump_breathe(struct dump *dump, u64 steps)
{
	dump->steps += STEPS_RECORD + steps;
	if (dump->steps < STEPS_MAX)
		return 0;
	dump->steps = 0;
	host_let_in(&dump->domain->lock);
	note_domain(dump);
	return host_killed() ? -EINTR : 1;
}

/* @id: what the cursor reaches, in which nothing has been dumped yet. */
static void begin_domain(struct dump *dump, u64 id)
{
	struct capkm_cursor *cursor = dump->cursor;

	cursor->domain = id;
	cursor->id = dump->query->from;
	cursor->at = 0;
	cursor->in_domain = 0;
}

/* One domain, or -ENOENT: what the reader may not see is not there. */
static int dump_if_allowed(struct dump *dump)
{
	struct domain *d = dump->domain;
	int err;

	if (!ck_domain_readable(d, dump->who))
		return -ENOENT;
	if (dump->cursor->domain != d->id)
		begin_domain(dump, d->id);
	dump->steps = 0;
	host_lock(&d->lock);
	note_domain(dump);
	err = kinds[dump->query->what].dump(dump);
	host_unlock(&d->lock);
	return err;
}

static int dump_one(struct dump *dump)
{
	int err = -ENOENT;

	dump->domain = ck_domain_find(dump->query->domain);
	if (dump->domain) {
		err = dump_if_allowed(dump);
		ck_domain_put(dump->domain);
	}
	return err;
}

static int dump_all(struct dump *dump)
{
	struct capkm_cursor *cursor = dump->cursor;
	int err = 0;

	if (!cursor->last)
		cursor->last = ck_domain_last();
	while (!err && (dump->domain = ck_domain_next(cursor->domain,
						      cursor->last))) {
		note_changes(dump, &cursor->among_domains,
			     ck_domains_changes());
		err = dump_if_allowed(dump);
		if (err == -ENOENT)
			err = 0;
		if (!err)
			begin_domain(dump, dump->domain->id + 1);
		ck_domain_put(dump->domain);
		/* There may be many that are not for this reader. */
		host_relax();
		if (!err && host_killed())
			err = -EINTR;
	}
	/* The last one may have been there, and have gone. */
	note_changes(dump, &cursor->among_domains, ck_domains_changes());
	return err;
}

int capkm_dump(const struct capkm_dump_query *query,
	       const struct capkm_caller *who, struct capkm_cursor *cursor,
	       capkm_emit_fn emit, void *ctx)
{
	struct dump *dump;
	int err;

	dump = host_alloc(sizeof(*dump));
	if (!dump)
		return -ENOMEM;
	dump->query = query;
	dump->who = who;
	dump->cursor = cursor;
	dump->emit = emit;
	dump->ctx = ctx;
	if (!kinds[query->what].changes)
		err = kinds[query->what].dump(dump);
	else
		err = query->domain ? dump_one(dump) : dump_all(dump);
	host_free(dump);
	return err;
}

int capkm_abandon(u64 domain, u64 window, const struct capkm_caller *who)
{
	struct domain *d = ck_domain_find_for(domain, who);
	struct window *w;
	bool unlist = false;
	int err;

	if (!d)
		return -ENOENT;
	err = ck_domain_readable(d, who) ? -EPERM : -ENOENT;
	if (who->uid == d->uid || who->admin) {
		host_lock(&d->lock);
		w = id_entry(ck_id_find(&d->windows, window), struct window,
			     node);
		err = w ? 0 : -ENOENT;
		if (w) {
			ck_window_abandon(d, w, NULL);
			ck_bury(d);
			unlist = ck_domain_idle(d);
		}
		host_unlock(&d->lock);
	}
	if (unlist)
		ck_domain_unlist(d);
	ck_domain_put(d);
	return err;
}
