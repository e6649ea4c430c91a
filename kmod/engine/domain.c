// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Domains, and the registry that finds them. A domain is referred to by the
 * registry while it is listed, by its sessions, and by whoever walks it.
 */
#include "internal.h"

unsigned int capkm_linger_s = 600;
struct capkm_first capkm_first;

static struct {
	struct host_mutex lock;
	struct id_map domains;		/* listed */
	u64 next_domain, next_session;
} registry;

int capkm_engine_init(void)
{
	memset(&registry, 0, sizeof(registry));
	host_mutex_init(&registry.lock);
	return 0;
}

/* Nobody calls any more; what is left are persistent and defunct domains. */
void capkm_engine_exit(void)
{
	struct domain *d;

	while ((d = ck_domain_next(0, U64_MAX))) {
		ck_domain_unlist(d);
		ck_domain_put(d);
	}
	host_mutex_destroy(&registry.lock);
}

static struct domain *get(struct id_node *node)
{
	struct domain *d = id_entry(node, struct domain, node);

	if (d)
		d->refs++;
	return d;
}

struct domain *ck_domain_find(u64 id)
{
	struct domain *d;

	host_lock(&registry.lock);
	d = get(ck_id_find(&registry.domains, id));
	host_unlock(&registry.lock);
	return d;
}

/* Set when it is made, so no lock is needed. */
static bool is_there(const struct domain *d, const struct capkm_caller *who)
{
	return who->all_nets || d->net == who->net;
}

struct domain *ck_domain_find_for(u64 id, const struct capkm_caller *who)
{
	struct domain *d = ck_domain_find(id);

	if (!d || is_there(d, who))
		return d;
	ck_domain_put(d);
	return NULL;
}

struct domain *ck_domain_next(u64 id, u64 last)
{
	struct id_node *node;
	struct domain *d;

	host_lock(&registry.lock);
	node = ck_id_from(&registry.domains, id);
	d = get(node && node->id <= last ? node : NULL);
	host_unlock(&registry.lock);
	return d;
}

u64 ck_domain_last(void)
{
	u64 last;

	host_lock(&registry.lock);
	last = registry.next_domain;
	host_unlock(&registry.lock);
	return last;
}

u64 ck_domains_changes(void)
{
	u64 changes;

	host_lock(&registry.lock);
	changes = registry.domains.changes;
	host_unlock(&registry.lock);
	return changes;
}

bool ck_domains_of(u64 *uid, u64 *domains, u64 *defunct)
{
	u64 lowest = U64_MAX;
	struct id_node *node;
	struct domain *d;

	*domains = 0;
	*defunct = 0;
	host_lock(&registry.lock);
	for (node = ck_id_first(&registry.domains); node;
	     node = ck_id_next(node)) {
		d = container_of(node, struct domain, node);
		if (d->uid < *uid || d->uid > lowest)
			continue;
		if (d->uid < lowest) {
			lowest = d->uid;
			*domains = 0;
			*defunct = 0;
		}
		++*domains;
		*defunct += d->defunct_ns != 0;
	}
	host_unlock(&registry.lock);
	*uid = lowest;
	return *domains;
}

static void drop_history(struct domain *d, u32 keep)
{
	struct window *w;

	while (d->history_n > keep) {
		w = link_first(&d->history, struct window, sib);
		link_del(&w->sib);
		d->history_n--;
		ck_window_put(w, NULL);
	}
}

static void drop_reports(struct domain *d, u32 keep)
{
	struct failure *f;

	while (d->reports_n > keep) {
		f = link_first(&d->reports, struct failure, sib);
		link_del(&f->sib);
		d->reports_n--;
		ck_failure_unpin(f, NULL);
	}
}

void ck_domain_trim(struct domain *d)
{
	drop_history(d, min(d->limit[CAPKM_LIMIT_HISTORY], (u64)U32_MAX));
	drop_reports(d, min(d->limit[CAPKM_LIMIT_REPORTS], (u64)U32_MAX));
}

void ck_domain_publish(struct domain *d)
{
	host_store(&d->page->events, d->events_total);
	host_store(&d->page->orphans, d->orphans);
	host_store(&d->page->faulted, d->faulted_n);
}

void ck_bury_all(struct domain *d)
{
	while (ck_graph_bury(d) || ck_buffer_bury(d))
		host_let_in(&d->lock);
}

/*
 * All sessions have left or were cut off: nothing of it is needed any more. In between
 * a session may leave for good, so it is looked up anew.
 */
static void clear(struct domain *d)
{
	struct capkm_session *s;
	struct id_node *node;
	struct link *l, *k;
	u64 id = 0;

	link_for_each(l, &d->sessions) {
		s = link_entry(l, struct capkm_session, sib);
		link_for_each(k, &s->clients)
			ck_client_end(link_entry(k, struct client, sib));
	}
	host_wake(&d->waitq);
	while ((s = ck_session_from(d, id))) {
		id = s->id + !ck_session_drop_holds(s);
		host_let_in(&d->lock);
	}
	while ((node = ck_id_first(&d->windows))) {
		ck_window_close(d, container_of(node, struct window, node),
				CAPKM_WINDOW_REFUSED, NULL);
		host_let_in(&d->lock);
	}
	ck_ledgers_free(d);
	drop_history(d, 0);
	drop_reports(d, 0);
	ck_bury(d);
}

static void domain_free(struct domain *d)
{
	ck_events_free(d);
	host_region_free(d->region);
	host_mutex_destroy(&d->lock);
	host_free(d);
}

void ck_domain_put(struct domain *d)
{
	bool last;

	host_lock(&registry.lock);
	last = !--d->refs;
	host_unlock(&registry.lock);
	if (!last)
		return;
	host_lock(&d->lock);
	clear(d);
	host_unlock(&d->lock);
	domain_free(d);
}

void ck_domain_unlist(struct domain *d)
{
	bool listed;

	host_lock(&registry.lock);
	listed = d->listed;
	if (listed)
		ck_id_erase(&registry.domains, &d->node);
	d->listed = false;
	host_unlock(&registry.lock);
	if (listed)
		ck_domain_put(d);
}

/* Its name is free at once; with the lock of @d held. */
static void make_defunct(struct domain *d)
{
	d->defunct_ns = host_time_ns();
	d->defunct_at = host_uptime_ns();
	host_lock(&registry.lock);
	memset(d->name, 0, sizeof(d->name));
	host_unlock(&registry.lock);
}

bool ck_domain_idle(struct domain *d)
{
	if (d->sessions_n || d->persistent)
		return false;
	if (!d->orphans && !d->reports_n && !d->ledgers.count) {
		d->dead = true;		/* nobody attaches in between */
		return true;
	}
	if (!d->defunct_ns)
		make_defunct(d);
	return false;
}

/* A defunct domain that has lingered, or is one too many of its owner's. */
static bool lapsed(const struct domain *d, u64 now)
{
	const struct domain *o;
	struct id_node *node;
	u32 newer = 0;

	if (!d->defunct_ns)
		return false;
	if (now - d->defunct_at >= (u64)capkm_linger_s * 1000000000)
		return true;
	for (node = ck_id_first(&registry.domains); node;
	     node = ck_id_next(node)) {
		o = container_of(node, struct domain, node);
		newer += o->uid == d->uid && o->defunct_at > d->defunct_at;
	}
	return newer >= ck_limit_default(CAPKM_LIMIT_DEFUNCT);
}

void capkm_engine_reap(void)
{
	const u64 now = host_uptime_ns(), last = ck_domain_last();
	struct domain *d;
	bool gone;
	u64 id = 0;

	while ((d = ck_domain_next(id, last))) {
		id = d->id + 1;
		host_lock(&registry.lock);
		gone = lapsed(d, now);
		host_unlock(&registry.lock);
		if (gone)
			ck_domain_unlist(d);
		ck_domain_put(d);
	}
}

u32 ck_domain_rights(const struct domain *d, const struct capkm_caller *who)
{
	u32 mode = d->mode;

	if (who->admin)
		return CAPKM_RIGHT_READ | CAPKM_RIGHT_WRITE;
	if (who->uid == d->uid)
		mode >>= 6;
	else if (who->gid == d->gid || host_in_group(d->gid))
		mode >>= 3;
	return (mode & 4 ? CAPKM_RIGHT_READ : 0) |
	       (mode & 2 ? CAPKM_RIGHT_WRITE : 0);
}

bool ck_domain_readable(const struct domain *d, const struct capkm_caller *who)
{
	return is_there(d, who) &&
	       ck_domain_rights(d, who) & CAPKM_RIGHT_READ;
}

static int check_options(u32 max_streams, u32 backend)
{
	if (backend > CAPKM_BACKEND_NONE)
		return -EOPNOTSUPP;
	return max_streams > SLOTS_MAX ? -EINVAL : 0;
}

static int check_name(const struct array *name, u32 mode)
{
	const char *text = name->data;
	u32 i;

	if (mode & ~0666u)
		return -EINVAL;
	for (i = 0; i < name->len; i++)
		if (text[i] == '/' || (u8)text[i] < ' ' || text[i] == 0x7f)
			return -EINVAL;
	return 0;
}

/* With the registry's lock. */
static struct domain *find_name(u32 uid, const struct array *name)
{
	struct id_node *node;
	struct domain *d;

	for (node = ck_id_first(&registry.domains); node;
	     node = ck_id_next(node)) {
		d = container_of(node, struct domain, node);
		if (d->uid == uid && strlen(d->name) == name->len &&
		    !memcmp(d->name, name->data, name->len))
			return d;
	}
	return NULL;
}

/* @refs: the registry's, and its first session's if it begins with one. */
static int list_domain(struct call *c, struct domain *d,
		       const struct array *name, u32 refs)
{
	struct id_node *node;
	int err = 0;
	u32 n = 0;

	host_lock(&registry.lock);
	for (node = ck_id_first(&registry.domains); node;
	     node = ck_id_next(node))
		n += container_of(node, struct domain, node)->uid == d->uid;
	if (n >= ck_limit_default(CAPKM_LIMIT_DOMAINS))
		err = ck_limit_reached(c, CAPKM_LIMIT_DOMAINS);
	else if (name->len && find_name(d->uid, name))
		err = -EEXIST;
	if (!err) {
		memcpy(d->name, name->data, name->len);
		d->id = ++registry.next_domain;
		d->node.id = d->id;
		d->refs = refs;
		d->listed = true;
		ck_id_insert(&registry.domains, &d->node);
	}
	host_unlock(&registry.lock);
	return err;
}

/*
 * For life; with the lock of @d. The session brings the reference to @d that it
 * keeps.
 */
static int attach(struct call *c, struct domain *d, u32 rights,
		  u32 max_streams, u32 backend, bool wants_failures)
{
	struct capkm_session *s = c->session;
	struct client *client;
	struct link *l;
	int err;

	if (d->dead || d->defunct_ns)
		return -ENOENT;
	err = ck_limit(c, d, CAPKM_LIMIT_SESSIONS, d->sessions_n);
	if (err)
		return err;
	host_lock(&registry.lock);
	s->id = ++registry.next_session;
	host_unlock(&registry.lock);
	s->rights = rights;
	s->max_streams = max_streams ? max_streams : SLOTS_DEFAULT;
	s->backend = backend;
	link_for_each(l, &s->clients) {
		client = link_entry(l, struct client, sib);
		client->who.session = s->id;
		client->id = ++d->next_client;
		if (!client->dead)
			host_trace(client_join, d, client);
	}
	s->events_read = d->events_total;
	s->plain_read = d->events_plain;
	s->wants_failures = wants_failures;
	d->failure_readers += wants_failures;
	s->attached_ns = host_time_ns();
	link_add_tail(&s->sib, &d->sessions);
	s->node.id = s->id;
	ck_id_insert(&d->session_ids, &s->node);
	d->sessions_n++;
	d->clients_n += s->clients_n;
	d->members_changed++;
	ck_tick(d);
	WRITE_ONCE(s->domain, d);
	return 0;
}

static struct domain *domain_new(const struct capkm_caller *who, u32 uid,
				 u32 gid, u32 mode, bool persistent)
{
	struct domain *d = host_alloc(sizeof(*d));

	if (!d)
		return NULL;
	d->region = host_region_new(sizeof(*d->page));
	if (!d->region || !host_region_fill(d->region, 0)) {
		host_region_free(d->region);
		host_free(d);
		return NULL;
	}
	d->page = host_region_at(d->region, 0);
	link_init(&d->fast_left);
	host_mutex_init(&d->lock);
	host_waitq_init(&d->waitq);
	d->uid = uid;
	d->gid = gid;
	d->mode = mode ? mode : 0600;
	d->net = who->net;
	d->persistent = persistent;
	d->created_ns = host_time_ns();
	d->next_stream = CAPKM_STREAM_FIRST + capkm_first.id;
	d->next_buffer = capkm_first.id;
	d->next_window = capkm_first.id;
	d->next_scope = capkm_first.id;
	d->next_graph = capkm_first.id;
	d->next_failure = capkm_first.id;
	d->next_ledger = capkm_first.id;
	d->sequence = capkm_first.sequence;
	link_init(&d->sessions);
	link_init(&d->dying_buffers);
	link_init(&d->dying_graphs);
	link_init(&d->history);
	link_init(&d->reports);
	return d;
}

static int create(struct call *c, struct capkm_domain_create *a)
{
	const struct array *name = &c->array[0];
	struct domain *d;
	int err;

	err = check_options(a->max_streams, a->backend);
	if (!err)
		err = check_name(name, a->mode);
	if (err)
		return err;
	d = domain_new(c->who, c->who->uid, c->who->gid, a->mode,
		       a->flags & CAPKM_DOMAIN_CREATE_F_PERSISTENT);
	if (!d)
		return -ENOMEM;
	err = ck_limits_init(c, d, &c->array[1]);
	if (!err)
		err = ck_limit(c, d, CAPKM_LIMIT_SESSIONS, 0);
	if (!err)
		err = ck_events_init(d);
	if (err) {
		domain_free(d);
		return err;
	}
	/* Nobody can attach and leave before its creator is attached. */
	host_lock(&d->lock);
	err = list_domain(c, d, name, 2);
	if (!err)
		attach(c, d, CAPKM_RIGHT_READ | CAPKM_RIGHT_WRITE,
		       a->max_streams, a->backend,
		       a->flags & CAPKM_DOMAIN_CREATE_F_FAILURE_EVENTS);
	host_unlock(&d->lock);
	if (err) {
		domain_free(d);
		return err;
	}
	a->out_domain = d->id;
	a->out_session = c->session->id;
	return 0;
}

static struct domain *find(struct call *c, struct capkm_domain_attach *a,
			   int *err)
{
	const struct array *name = &c->array[0];
	u32 uid = c->who->uid;
	struct domain *d;

	*err = -EINVAL;
	if (!a->domain == !name->len)
		return NULL;
	if (a->flags & CAPKM_DOMAIN_ATTACH_F_OWNER) {
		if (a->domain || !host_uid_parse(a->owner_uid, &uid))
			return NULL;
	} else if (a->owner_uid) {
		return NULL;
	}
	*err = -ENOENT;
	if (a->domain)
		return ck_domain_find(a->domain);
	host_lock(&registry.lock);
	d = find_name(uid, name);
	if (d)
		d->refs++;
	host_unlock(&registry.lock);
	return d;
}

static int attach_to(struct call *c, struct capkm_domain_attach *a)
{
	struct domain *d;
	u32 rights;
	int err;

	err = check_options(a->max_streams, a->backend);
	if (err)
		return err;
	d = find(c, a, &err);
	if (!d)
		return err;
	rights = ck_domain_rights(d, c->who);
	if (rights & CAPKM_RIGHT_READ) {
		host_lock(&d->lock);
		err = attach(c, d, rights, a->max_streams, a->backend,
			     a->flags & CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS);
		host_unlock(&d->lock);
	} else {
		/* Of another user's: neither that it is there, nor how busy it is. */
		err = c->who->uid == d->uid ? -EACCES : -ENOENT;
	}
	if (err) {
		ck_domain_put(d);
		return err;
	}
	a->out_domain = d->id;
	a->out_session = c->session->id;
	a->out_rights = c->session->rights;
	return 0;
}

/* Both ways to attach: serialised, and only for a client of the session. */
static int attach_once(struct call *c, bool creating)
{
	struct capkm_session *s = c->session;
	int err = 0;

	host_lock(&s->attach_lock);
	if (s->domain)
		err = -EISCONN;
	else if (!ck_session_opener(s, c->who))
		err = -EPERM;
	else
		err = creating ? create(c, c->arg) : attach_to(c, c->arg);
	host_unlock(&s->attach_lock);
	return err;
}

int ck_op_domain_create(struct call *c)
{
	return attach_once(c, true);
}

int ck_op_domain_attach(struct call *c)
{
	return attach_once(c, false);
}

/* Also those that no call has told of. */
static u64 open_scopes(const struct domain *d)
{
	u64 n = d->scopes.count;
	const struct link *l;

	link_for_each(l, &d->sessions)
		n += ck_fast_open(link_entry(l, struct capkm_session, sib), NULL);
	return n;
}

void ck_domain_fill(struct domain *d, const struct capkm_session *s,
		    const struct capkm_caller *who,
		    struct capkm_domain_query *q)
{
	q->out_domain = d->id;
	q->out_session = s ? s->id : 0;
	q->out_state = (d->persistent ? CAPKM_DOMAIN_PERSISTENT : 0) |
		       (d->defunct_ns ? CAPKM_DOMAIN_DEFUNCT : 0);
	q->out_mode = d->mode;
	q->out_uid = host_uid_view(d->uid);
	q->out_gid = host_gid_view(d->gid);
	q->out_rights = s ? s->rights : ck_domain_rights(d, who);
	q->out_sessions = d->sessions_n;
	q->out_sequence = d->sequence;
	q->out_buffers = d->buffers.count;
	q->out_streams = d->streams.count;
	q->out_scopes = open_scopes(d);
	q->out_windows = d->windows.count;
	q->out_orphans = d->orphans;
	q->out_graphs = d->graphs.count;
	q->out_failures = d->failures.count;
	q->out_claims = d->claims;
	q->out_reports = d->reports_n;
	q->out_history = d->history_n;
	q->out_created_ns = d->created_ns;
	q->out_defunct_ns = d->defunct_ns;
	q->out_clients = d->clients_n;
	q->out_faulted = d->faulted_n;
	q->out_unconfirmed = d->unconfirmed;
	q->out_sealed = d->sealed;
	q->out_given_up = d->given_up;
	q->out_ledgers = d->ledgers.count;
	q->out_charged = d->charged;
	host_lock(&registry.lock);
	memcpy(q->out_name, d->name, sizeof(q->out_name));
	host_unlock(&registry.lock);
}

int ck_op_domain_query(struct call *c)
{
	struct capkm_domain_query *a = c->arg;

	ck_domain_fill(c->domain, c->session, c->who, a);
	a->out_sequence = ck_sample(c->domain, ck_fast_last(c->session));
	a->out_limits = ck_limits_fill(c->domain->limit, &c->array[0]);
	return 0;
}

static int destroy(struct domain *d, const struct capkm_session *own,
		   const struct capkm_caller *who, bool force)
{
	u32 others;

	if (who->uid != d->uid && !who->admin)
		return ck_domain_readable(d, who) ? -EPERM : -ENOENT;
	host_lock(&d->lock);
	others = d->sessions_n - (own ? 1 : 0);
	if (others && !force) {
		host_unlock(&d->lock);
		return -EBUSY;
	}
	d->dead = true;
	host_store(&d->page->destroyed, 1);
	d->persistent = false;
	clear(d);
	host_unlock(&d->lock);
	ck_domain_unlist(d);
	return 0;
}

int ck_op_domain_destroy(struct call *c)
{
	const struct capkm_domain_destroy *a = c->arg;
	struct domain *own = READ_ONCE(c->session->domain), *d;
	u64 id = a->domain;
	int err;

	if (!id && !own)
		return -ENOTCONN;
	d = ck_domain_find(id ? id : own->id);
	if (!d)
		return id ? -ENOENT : -ECANCELED;
	err = destroy(d, d == own ? c->session : NULL, c->who,
		      a->flags & CAPKM_DOMAIN_DESTROY_F_FORCE);
	ck_domain_put(d);
	return err;
}

/* ---- without a session ---- */

int capkm_domain_new(const struct capkm_new_domain *n,
		     const struct capkm_caller *who, u64 *id)
{
	struct call c = { .who = who };
	const struct array name = {
		.data = (void *)n->name, .len = n->name_len,
	};
	struct domain *d;
	int err;

	if (!who->admin && (n->uid != who->uid ||
			    (n->gid != who->gid && !host_in_group(n->gid))))
		return -EPERM;
	err = check_name(&name, n->mode);
	if (err)
		return err;
	d = domain_new(who, n->uid, n->gid, n->mode, true);
	if (!d)
		return -ENOMEM;
	err = ck_limits_init(&c, d, &c.array[0]);
	if (!err)
		err = ck_events_init(d);
	/* Once it is listed, it may be gone at any time. */
	if (!err)
		err = list_domain(&c, d, &name, 2);
	if (err) {
		domain_free(d);
		return err;
	}
	*id = d->id;
	ck_domain_put(d);
	return 0;
}

int capkm_domain_del(u64 id, bool force, const struct capkm_caller *who)
{
	struct domain *d = ck_domain_find_for(id, who);
	int err;

	if (!d)
		return -ENOENT;
	err = destroy(d, NULL, who, force);
	ck_domain_put(d);
	return err;
}
