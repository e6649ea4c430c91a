// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The fast path: scopes that a client enters and leaves in memory that it shares with
 * us, and checks that it answers from there (Documentation/design/fastpath.rst). Here is
 * the kernel's side: what such memory promises is taken back before anything changes.
 *
 * Every transition is in enum capkm_fast_transition, and is one of two:
 *
 *   a buffer	ck_fast_leave() publishes that its word is no word any more, then looks at
 *		the scope that is in flight on it, if there is one
 *   a session	ck_fast_stop() publishes that its mode is off, then looks at all entries
 *
 * A scope that was entered becomes an ordinary one (MIGRATED), as if it had been entered
 * by a call just before; one that was still about to enter is told that it never was
 * (REVOKED). Only then, and in the same hold of the lock, does the caller look at the
 * buffer, or change it. The fence between publishing and looking pairs with the one
 * between an enter's ENTERED and its second look at the words: one of both sees the
 * other. At the end of a call ck_fast_return() publishes the words of the buffers that
 * are private, clean and unused again, last of all.
 *
 * What is read from the table is the client's word about its own scopes. It is copied
 * once and then checked; nothing else of the domain depends on it.
 */
#include "internal.h"

struct fast_entry {
	bool full;			/* it was promised what a scope needs */
	struct scope *scope;		/* MIGRATED, or NULL */
};

/* Of a session while it has one client; made once, freed with the session. */
struct fast {
	struct capkm_session *session;
	struct host_region *status, *table;
	struct capkm_status_page *page;	/* the first of status */
	bool on;			/* what page->mode says */
	bool over;			/* for good */
	u32 entries_n;
	struct fast_entry entry[CAPKM_TABLE_ENTRIES];
	u32 slots_n;
	struct slot *slot[CAPKM_FAST_SLOTS];
};

/* What an entry's state promised, copied from there. */
struct copy {
	u64 state;
	u64 stream;
	u32 slot, claims;
	u64 label[(CAPKM_LABEL_MAX + 1) / 8];
	struct capkm_claim claim[CAPKM_FAST_CLAIMS];
};

static const struct need entry_need = {
	.n[STOCK_CLAIM] = CAPKM_FAST_CLAIMS,
	.n[STOCK_CARRIER] = CAPKM_FAST_CLAIMS,
	.n[STOCK_FAILURE] = 1,
	.n[STOCK_SCOPE] = 1,
	.n[STOCK_NOTE] = 1,
};

static size_t index_of(u64 buffer)
{
	return buffer % CAPKM_FAST_BUFFERS;
}

static size_t status_at(u64 buffer)
{
	return CAPKM_STATUS_BUFFERS +
	       index_of(buffer) * sizeof(struct capkm_status_buffer);
}

static struct capkm_status_buffer *status_of(const struct buffer *b)
{
	return host_region_at(b->fast->status, status_at(b->node.id));
}

/* NULL: no scope has ever been there. */
static struct capkm_table_buffer *table_at(const struct fast *f, u64 buffer)
{
	return host_region_at(f->table, CAPKM_TABLE_BUFFERS +
		index_of(buffer) * sizeof(struct capkm_table_buffer));
}

static struct capkm_table_buffer *table_of(const struct buffer *b)
{
	return table_at(b->fast, b->node.id);
}

static struct capkm_table_entry *entry_at(const struct fast *f, u32 n)
{
	return host_region_at(f->table, n * sizeof(struct capkm_table_entry));
}

static struct capkm_table_slot *slot_at(const struct fast *f, u32 n)
{
	return host_region_at(f->table, CAPKM_TABLE_SLOTS +
			      n * sizeof(struct capkm_table_slot));
}

static void count(__u64 *n)
{
	host_store(n, *n + 1);
}

/* A sequence that a program says it has had: no later than now. */
static u64 past(const struct domain *d, u64 said)
{
	return min(said, d->sequence + (CAPKM_SEQUENCE_STEP - 1));
}

/* ---- what fast scopes have left behind ---- */

static void fold_slot(struct fast *f, u32 n)
{
	const struct domain *d = f->session->domain;
	const struct capkm_table_slot *t = slot_at(f, n);
	struct slot *slot = f->slot[n];
	u64 last, first;

	slot->finished = max(slot->finished, past(d, host_load(&t->finished)));
	slot->sequence = max(slot->sequence, slot->finished);
	last = past(d, host_load(&t->sequence));
	if (last <= slot->fast)
		return;
	slot->fast = last;
	slot->sequence = max(slot->sequence, last);
	/* What is left on a device that has faulted has failed with it. */
	if (!slot->device->latent) {
		slot->settled = max(slot->settled, last);
		return;
	}
	first = past(d, host_load(&t->first));
	if (first <= slot->settled || first > last)
		first = slot->settled + 1;
	ck_slot_dirtied_since(slot, first, last);
}

/* While it is off nothing is left that was not there when it went off. */
void ck_fast_fold_all(struct capkm_session *s)
{
	u32 i;

	if (s->fast->on)
		for (i = 0; i < s->fast->slots_n; i++)
			fold_slot(s->fast, i);
}

void ck_fast_fold_slot(struct slot *slot)
{
	struct fast *f = slot->client->session->fast;

	if (!slot->status || !f->on)
		return;
	host_mb();	/* pairs with stamp() in lib/fast.c */
	fold_slot(f, slot->status - f->page->slot);
}

static void fold_buffer(struct buffer *b)
{
	const struct domain *d = b->domain;
	const struct capkm_table_buffer *t = table_of(b);
	u64 dirty;

	if (!t || b->shared)
		return;
	b->sequence = max(b->sequence, past(d, host_load(&t->touched)));
	dirty = past(d, host_load(&t->dirty));
	if (dirty > b->fast_dirty) {
		b->fast_dirty = dirty;
		b->dirty = max(b->dirty, dirty);
		ck_fast_fold(b->fast->session);
	}
}

u64 ck_fast_entered(const struct capkm_session *s)
{
	const struct fast *f = s->fast;
	u64 n = 0;
	u32 i;

	for (i = 0; f && i < f->entries_n; i++)
		n += host_load(&entry_at(f, i)->entered);
	return n;
}

static bool is_entered(const struct fast *f, u32 i)
{
	return (host_load(&entry_at(f, i)->state) & CAPKM_ENTRY_STATE) ==
	       CAPKM_ENTRY_ENTERED;
}

u32 ck_fast_open(const struct capkm_session *s, const struct slot *slot)
{
	const struct fast *f = s->fast;
	u32 i, n = 0, on;

	for (i = 0; f && f->on && i < f->entries_n; i++) {
		on = host_load(&entry_at(f, i)->slot);
		n += is_entered(f, i) &&
		     (!slot || (on < f->slots_n && f->slot[on] == slot));
	}
	return n;
}

/* ---- a scope becomes an ordinary one ---- */

static void copy_entry(struct copy *to, const struct capkm_table_entry *e)
{
	u32 i;

	to->stream = host_load(&e->stream);
	to->slot = host_load(&e->slot);
	to->claims = host_load(&e->claims);
	for (i = 0; i < ARRAY_SIZE(to->label); i++)
		to->label[i] = host_load(&e->label[i]);
	for (i = 0; i < min(to->claims, CAPKM_FAST_CLAIMS); i++) {
		to->claim[i].buffer = host_load(&e->claim[i].buffer);
		to->claim[i].start = host_load(&e->claim[i].start);
		to->claim[i].end = host_load(&e->claim[i].end);
	}
}

static bool names(const struct copy *c, const struct buffer *b)
{
	u32 i;

	for (i = 0; i < min(c->claims, CAPKM_FAST_CLAIMS); i++)
		if (c->claim[i].buffer == b->node.id)
			return true;
	return false;
}

static bool names_before(const struct copy *c, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (c->claim[i].buffer == c->claim[n].buffer)
			return true;
	return false;
}

/* Whose claims are, each once, the session's, and in flight in this entry. */
static bool is_sound(const struct fast *f, u32 n, const struct copy *c)
{
	const struct capkm_table_buffer *t;
	struct target target;
	u32 i;

	if (!f->entry[n].full || f->entry[n].scope || c->slot >= f->slots_n ||
	    !c->claims || c->claims > CAPKM_FAST_CLAIMS ||
	    ck_stream_check(f->session, c->stream) == -EPERM)
		return false;
	for (i = 0; i < c->claims; i++) {
		if (ck_session_range(f->session, &c->claim[i], &target) ||
		    target.start == target.end || names_before(c, i) ||
		    target.buffer->fast != f)
			return false;
		t = table_of(target.buffer);
		if (!t || host_load(&t->in_flight) != n + 1)
			return false;
	}
	return true;
}

/* @left: the buffer whose word is taken back just now, or NULL. */
static bool is_current(const struct fast *f, const struct copy *c,
		       const struct buffer *left)
{
	struct target t;
	u32 i;

	for (i = 0; i < c->claims; i++) {
		if (ck_session_range(f->session, &c->claim[i], &t) ||
		    (t.buffer != left && !t.buffer->has_word))
			return false;
	}
	return true;
}

static void put_off(struct buffer *b, u32 why)
{
	if (b->has_word)
		count(&b->fast->page->transitions[why]);
	b->has_word = false;
	host_store(&status_of(b)->word, 0);
	if (link_empty(&b->fast_left))
		link_add_tail(&b->fast_left, &b->domain->fast_left);
}

static void migrate(struct fast *f, u32 n, const struct copy *c)
{
	struct stock *st = &f->session->stock;
	struct fast_entry *e = &f->entry[n];
	struct domain *d = f->session->domain;
	struct need before;
	struct target t;
	struct scope *s;
	u32 i;

	ck_stock_release(st, &entry_need);
	before = st->spare;
	s = ck_stock_take(st, STOCK_SCOPE);

	s->node.id = ++d->next_scope;
	s->id = capkm_fast_scope(c->state, n);
	s->client = ck_session_first_client(f->session);
	s->slot = f->slot[c->slot];
	s->enter = ck_tick(d);
	s->epoch = s->slot->device->epoch;
	s->stream = c->stream;
	ck_copy_clean(s->label, sizeof(s->label), (const char *)c->label,
		      CAPKM_LABEL_MAX);
	link_init(&s->claims);
	link_init(&s->inputs);
	s->paid = CAPKM_FAST_CLAIMS;	/* when the entry was filled */
	for (i = 0; i < c->claims; i++) {
		if (ck_session_range(f->session, &c->claim[i], &t))
			continue;	/* not so: is_sound() */
		put_off(t.buffer, CAPKM_FAST_BESIDE);
		fold_buffer(t.buffer);
		ck_taint_open(&t, s, st);
		ck_buffer_touch(t.buffer);
	}
	ck_stock_promise_rest(st, &s->promised, &entry_need, &before);
	s->slot->scopes++;
	ck_id_insert(&d->scopes, &s->node);
	link_add_tail(&s->sib, &s->client->scopes);
	s->client->scopes_n++;
	s->entry = e;
	e->scope = s;
	e->full = false;
	count(&f->page->migrated);
	host_trace(scope_enter, s, 0, c->claims);
}

/*
 * Says to the scope in the entry what has become of it. @left: only if it names that
 * buffer. One look is enough: if the state changes under it, the scope has been left, or
 * has given up; and whoever publishes ENTERED after that sees what we have published.
 */
static void settle(struct fast *f, u32 n, const struct buffer *left)
{
	struct capkm_table_entry *e = entry_at(f, n);
	struct copy c;
	u64 state = host_load_acquire(&e->state), next;
	bool sound, entered;

	if ((state & CAPKM_ENTRY_STATE) != CAPKM_ENTRY_ENTERED)
		return;
	copy_entry(&c, e);
	c.state = state;
	if (left && !names(&c, left))
		return;
	sound = is_sound(f, n, &c);
	entered = f->on && sound && is_current(f, &c, left);
	next = state - CAPKM_ENTRY_ENTERED +
	       (entered ? CAPKM_ENTRY_MIGRATED : CAPKM_ENTRY_REVOKED);
	if (!host_cmpxchg(&e->state, state, next)) {
		/* Before its stamps are read: an exchange that fails orders nothing. */
		host_load_acquire(&e->state);
		return;
	}
	if (entered)
		migrate(f, n, &c);
	else
		count(&f->page->revoked);
	if (!sound)
		count(&f->page->dropped);
}

static void look(struct buffer *b)
{
	struct capkm_table_buffer *t = table_of(b);
	u32 n = t ? host_load_acquire(&t->in_flight) : 0;

	if (n && n <= b->fast->entries_n)
		settle(b->fast, n - 1, b);
}

/* What was stamped later than this is of scopes that are ordinary ones now. */
void ck_fast_take_back(struct buffer *b, u32 why)
{
	put_off(b, why);
	host_mb();	/* pairs with publish() in lib/fast.c */
	look(b);
	fold_buffer(b);
}

void ck_fast_forget(struct buffer *b)
{
	if (!b->fast)
		return;
	ck_fast_leave(b, CAPKM_FAST_CLOSED);
	host_store(&status_of(b)->bytes, 0);
	link_del(&b->fast_left);
	b->fast = NULL;
}

void ck_fast_changed(struct buffer *b)
{
	if (b->fast && link_empty(&b->fast_left))
		link_add_tail(&b->fast_left, &b->domain->fast_left);
}

void ck_fast_stop(struct capkm_session *s, u32 why)
{
	struct fast *f = s->fast;
	u32 i;

	if (!f || f->over)
		return;
	if (f->on) {
		count(&f->page->transitions[why]);
		host_store(&f->page->mode, 0);
		host_mb();	/* pairs with publish() in lib/fast.c */
		for (i = 0; i < f->entries_n; i++)
			settle(f, i, NULL);
		ck_fast_fold(s);
		f->on = false;
	}
}

/* The words stay until somebody names their buffers: with the mode off they are none. */
void ck_fast_end(struct capkm_session *s, u32 why)
{
	struct fast *f = s->fast;
	u32 i;

	if (!f || f->over)
		return;
	ck_fast_stop(s, why);
	f->over = true;
	f->slots_n = 0;		/* they go with their client */
	for (i = 0; i < f->entries_n; i++) {
		if (!f->entry[i].full)
			continue;
		ck_stock_release(&s->stock, &entry_need);
		s->domain->paid -= CAPKM_FAST_CLAIMS;
		f->entry[i].full = false;
	}
}

/* ---- and back ---- */

static bool may_be_fast(const struct buffer *b)
{
	return !b->shared && !b->unallocated && !b->claims.count &&
	       link_empty(&b->uses);
}

static bool may_go_on(const struct fast *f)
{
	struct capkm_session *s = f->session;
	const struct client *c = ck_session_first_client(s);
	const struct link *l;

	if (f->over || s->shared || c->dead || c->windows_n ||
	    s->domain->limit[CAPKM_LIMIT_SCOPES] <
	    (u64)c->scopes_n + CAPKM_TABLE_ENTRIES)
		return false;
	link_for_each(l, &c->devices)
		if (link_entry(l, struct client_device, sib)->faulted)
			return false;
	return true;
}

void ck_fast_back(struct buffer *b)
{
	link_del(&b->fast_left);
	if (!b->fast || !may_be_fast(b))
		return;
	b->has_word = true;
	host_store_release(&status_of(b)->word, capkm_fast_word(b->node.id));
}

/* Buffers that one call puts back; the next ones take the rest. */
#define RETURNS	64

void ck_fast_return_some(struct domain *d, struct capkm_session *s)
{
	struct fast *f = s->fast;
	u32 i;

	for (i = 0; i < RETURNS && !link_empty(&d->fast_left); i++)
		ck_fast_back(link_first(&d->fast_left, struct buffer, fast_left));
	if (f && !f->on && may_go_on(f)) {
		f->on = true;
		host_store_release(&f->page->mode, 1);
	}
}

/* ---- what the session has for it ---- */

bool ck_fast_has_room(const struct capkm_session *s, u64 buffer)
{
	return !s->fast || host_region_at(s->fast->status, status_at(buffer));
}

bool ck_fast_fill(struct capkm_session *s, u64 buffer)
{
	struct fast *f = READ_ONCE(s->fast);

	return !f || host_region_fill(f->status, status_at(buffer));
}

void ck_fast_add(struct capkm_session *s, struct buffer *b)
{
	struct capkm_status_buffer *status;
	struct capkm_table_buffer *table;
	struct fast *f = s->fast;

	if (!f || f->over || b->shared || b->fresh ||
	    b->node.id >= CAPKM_FAST_BUFFER_MAX)
		return;
	status = host_region_at(f->status, status_at(b->node.id));
	/* Another buffer of the index lives; or its page was not filled for it. */
	if (!status || status->bytes)
		return;
	b->fast = f;
	/* What was left to the last buffer of the index is nothing to this one. */
	table = table_of(b);
	b->fast_dirty = table ? past(b->domain, host_load(&table->dirty)) : 0;
	status->word = 0;
	host_store(&status->bytes, b->size);
	ck_fast_changed(b);
}

void ck_fast_free(struct fast *f)
{
	if (!f)
		return;
	host_region_free(f->status);
	host_region_free(f->table);
	host_free(f);
}

/* Without the lock. */
static struct fast *fast_new(struct capkm_session *s)
{
	struct fast *f = host_alloc(sizeof(*f));
	size_t at;
	bool ok;

	if (!f)
		return NULL;
	f->session = s;
	f->status = host_region_new(CAPKM_STATUS_BYTES);
	f->table = f->status ? host_region_new(CAPKM_TABLE_BYTES) : NULL;
	ok = f->table && host_region_fill(f->status, 0);
	for (at = 0; ok && at < CAPKM_TABLE_BUFFERS; at += 4096)
		ok = host_region_fill(f->table, at);
	if (!ok) {
		ck_fast_free(f);
		return NULL;
	}
	f->page = host_region_at(f->status, 0);
	return f;
}

/* 0, 1 look again, or an error. */
static int provide(struct call *c)
{
	struct capkm_session *s = c->session;
	struct fast *f;

	if (s->shared || (s->fast && s->fast->over))
		return -EOPNOTSUPP;
	if (s->fast)
		return 0;
	host_unlock(&c->domain->lock);
	f = fast_new(s);
	host_lock(&c->domain->lock);
	if (!f)
		return -ENOMEM;
	if (!s->fast && !s->shared && !c->client->dead)
		host_store_release(&s->fast, f);
	else
		ck_fast_free(f);
	return c->client->dead ? -ECANCELED : 1;
}

/* @n: the entry, or the next new one. */
static int fill_entry(struct call *c, u32 n)
{
	struct capkm_scope_table *a = c->arg;
	struct fast *f = c->session->fast;
	const bool is_new = n == CAPKM_ENTRY_NEW;
	struct fast_entry *e;
	int err;

	if (is_new && f->entries_n == CAPKM_TABLE_ENTRIES)
		return -EBUSY;
	if (!is_new && (n >= f->entries_n || f->entry[n].full ||
			f->entry[n].scope))
		return -EINVAL;
	err = ck_domain_room(c, CAPKM_FAST_CLAIMS);
	if (!err)
		err = ck_call_buy(c, &entry_need);
	if (err)
		return err;
	n = is_new ? f->entries_n : n;
	e = &f->entry[n];
	ck_stock_promise(&c->session->stock, &entry_need);
	e->full = true;
	c->domain->paid += CAPKM_FAST_CLAIMS;
	f->entries_n += is_new;
	host_store_release(&entry_at(f, n)->state,
			   host_load(&entry_at(f, n)->state) & ~(u64)CAPKM_ENTRY_STATE);
	a->out_entry = n;
	return 0;
}

static int number_slot(struct call *c)
{
	struct capkm_scope_table *a = c->arg;
	struct fast *f = c->session->fast;
	struct slot *slot;
	u32 i;
	int err;

	err = ck_slot_get(c, &a->place, a->flags, &slot);
	if (err)
		return err;
	for (i = 0; i < f->slots_n && f->slot[i] != slot; i++)
		;
	if (i == CAPKM_FAST_SLOTS)
		return -EBUSY;
	if (i == f->slots_n) {
		slot->status = &f->page->slot[i];
		f->slot[i] = slot;
		f->slots_n++;
		ck_slot_publish(slot);
	}
	a->out_slot = i;
	a->out_streams = f->page->streams;
	return 0;
}

int ck_op_scope_table(struct call *c)
{
	struct capkm_scope_table *a = c->arg;
	const bool slot = a->flags & CAPKM_SCOPE_TABLE_F_SLOT;
	const bool entry = a->flags & CAPKM_SCOPE_TABLE_F_ENTRY;
	int err;

	if ((!slot && (!ck_place_empty(&a->place) ||
		       a->flags & CAPKM_PLACE_F_SLOT)) || (!entry && a->entry))
		return -EINVAL;
	a->out_entry = 0;
	a->out_slot = 0;
	a->out_streams = 0;
	do {
		err = provide(c);
		/* A slot that is numbered and not used says nothing to anybody. */
		if (!err && slot)
			err = number_slot(c);
		if (!err && entry)
			err = fill_entry(c, a->entry);
	} while (err == 1);
	return err;
}

/* ---- SCOPE_EXIT of a fast one ---- */

struct scope *ck_fast_scope(struct capkm_session *s, u64 id)
{
	const u32 n = id % CAPKM_TABLE_ENTRIES;
	struct fast *f = s->fast;
	struct capkm_table_entry *e;
	u64 state;

	if (!f || n >= f->entries_n)
		return NULL;
	e = entry_at(f, n);
	state = host_load(&e->state);
	if (capkm_fast_scope(state, n) != id)
		return NULL;
	if ((state & CAPKM_ENTRY_STATE) == CAPKM_ENTRY_ENTERED) {
		count(&f->page->transitions[CAPKM_FAST_LEFT]);
		settle(f, n, NULL);
	}
	return f->entry[n].scope;
}

/* What the entry says that it writes to is not in flight there any more. */
static void clear_words(struct fast *f, u32 n)
{
	struct capkm_table_buffer *t;
	struct copy c;
	u32 i;

	copy_entry(&c, entry_at(f, n));
	for (i = 0; i < min(c.claims, CAPKM_FAST_CLAIMS); i++) {
		t = table_at(f, c.claim[i].buffer);
		if (t && host_load(&t->in_flight) == n + 1)
			host_store_release(&t->in_flight, 0);
	}
}

/* The migrated scope is left: what its entry had is used up. */
void ck_fast_left(struct scope *s)
{
	struct fast_entry *e = s->entry;
	struct fast *f;
	u32 n;
	u64 state;

	if (!e)
		return;
	f = s->client->session->fast;
	n = e - f->entry;
	e->scope = NULL;
	clear_words(f, n);
	state = host_load(&entry_at(f, n)->state);
	host_store_release(&entry_at(f, n)->state,
			   (state & ~(u64)CAPKM_ENTRY_STATE) | CAPKM_ENTRY_DRY);
}

void ck_fast_stream_gone(struct capkm_session *s)
{
	if (s->fast)
		host_store(&s->fast->page->streams, s->fast->page->streams + 1);
}

void ck_slot_publish(const struct slot *slot)
{
	u32 state;

	if (!slot->status)
		return;
	ck_slot_window(slot, &state);
	host_store(&slot->status->settled, slot->settled);
	host_store(&slot->status->state, state);
}

u64 ck_fast_last(const struct capkm_session *s)
{
	const struct fast *f = s->fast;
	u64 last = 0;
	u32 i;

	for (i = 0; f && i < f->slots_n; i++)
		last = max(last, max(f->slot[i]->fast, f->slot[i]->finished));
	return last;
}

/*
 * Exits that are fast have sequences between two of ours, and those of two slots in no
 * order. If there are any, the sample is the last that there can be, and those that come
 * have later ones, once our next one can be seen.
 */
u64 ck_sample(struct domain *d, u64 last)
{
	const u64 now = d->sequence;

	if (last <= now)
		return now;
	ck_tick(d);
	host_mb();	/* pairs with stamp() in lib/fast.c */
	return now + (CAPKM_SEQUENCE_STEP - 1);
}

struct host_region *capkm_session_region(struct capkm_session *s, u64 offset)
{
	const struct domain *d = READ_ONCE(s->domain);
	const struct fast *f = host_load_acquire(&s->fast);

	if (!f)
		return NULL;
	switch (offset) {
	case CAPKM_MAP_DOMAIN:
		return d->region;
	case CAPKM_MAP_STATUS:
		return f->status;
	case CAPKM_MAP_TABLE:
		return f->table;
	default:
		return NULL;
	}
}
