// SPDX-License-Identifier: MIT
/*
 * The fast path: scopes that are entered and left, and checks that are answered, in
 * memory that is shared with the authority (Documentation/design/fastpath.rst; the other
 * side is kmod/engine/fast.c). Whatever is not as it should be means "ask": the caller
 * then makes the call, which is right in any case.
 *
 * A thread has a seat at each handle that it uses: entries of the scope table, which are
 * its own until it ends, and what it knows of the places where it issues work. A scope may
 * be left by another thread than the one that has entered it. Who brings an entry's state
 * from ENTERED to FREE, alone clears the in-flight words, each once; SCOPE_EXIT does it
 * for those that were MIGRATED.
 *
 * Fences: publish() pairs with ck_fast_leave() and ck_fast_stop(); stamp() with
 * ck_sample(). All other orders are those of the acquires and releases as they stand.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "fast.h"

#include <linux/capkm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SEAT_ENTRIES	4u	/* scopes that a thread has open at once */
#define SEAT_PLACES	8u
#define PATIENCE	1000u	/* scopes, before an authority without room is asked again */

/* Of a handle. Constant but for what is said to be of @lock. */
struct fast {
	struct fast *next;		/* of all_lock */
	uint64_t serial;		/* of no other in this process */
	uint64_t generation;		/* the process that mapped it */
	struct capkm_domain_page *domain;
	struct capkm_status_page *status;
	struct capkm_status_buffer *word;
	struct capkm_table_entry *entry;
	struct capkm_table_slot *slot;
	struct capkm_table_buffer *buffer;
	pthread_mutex_t lock;
	uint32_t spare[CAPKM_TABLE_ENTRIES];	/* of threads that have ended; of @lock */
	uint32_t spare_n;
};

/* What SCOPE_TABLE has said of a stream on a slot. */
struct place {
	struct capkm_place key;
	uint32_t flags;
	uint32_t streams;		/* while status->streams is this */
	uint32_t number;
	bool known;
};

struct seat {
	struct seat *next;		/* of the same thread */
	struct seat *after, **before;	/* of all threads; of all_lock */
	uint64_t serial;		/* of its struct fast, which may have gone */
	uint32_t entries_n;
	uint32_t entry[SEAT_ENTRIES];
	uint32_t patience;
	struct place place[SEAT_PLACES];
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fast *all;		/* of all_lock */
static struct seat *all_seats;		/* the same: a child has them, but not their threads */
static uint64_t serials;		/* the same */

static pthread_key_t at_thread_end;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static bool has_key;

static HERE struct seat *seats;		/* of this thread; the one used last is the first */
static HERE bool never;			/* this thread is somebody else, for tests */

/* The tests call them, too: still each is a part of its public call. */
#define INLINE inline __attribute__((always_inline))

#define load(p)		__atomic_load_n(p, __ATOMIC_ACQUIRE)
#define look(p)		__atomic_load_n(p, __ATOMIC_RELAXED)
#define store(p, v)	__atomic_store_n(p, v, __ATOMIC_RELAXED)
#define release(p, v)	__atomic_store_n(p, v, __ATOMIC_RELEASE)

static uint32_t state_of(uint64_t state)
{
	return state & CAPKM_ENTRY_STATE;
}

static bool cas(__u64 *p, __u64 old, __u64 new)
{
	return __atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_ACQUIRE);
}

/* ---- seats ---- */

static void give_back(struct fast *f, const struct seat *s)
{
	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < s->entries_n; i++)
		f->spare[f->spare_n++] = s->entry[i];
	pthread_mutex_unlock(&f->lock);
}

static void before_fork(void)
{
	pthread_mutex_lock(&all_lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&all_lock);
}

static void list_seat(struct seat *s)
{
	pthread_mutex_lock(&all_lock);
	s->after = all_seats;
	s->before = &all_seats;
	if (s->after)
		s->after->before = &s->after;
	all_seats = s;
	pthread_mutex_unlock(&all_lock);
}

/* With all_lock. */
static void free_seat(struct seat *s)
{
	*s->before = s->after;
	if (s->after)
		s->after->before = s->before;
	free(s);
}

static void leave_seat(struct seat *s)
{
	struct fast *f;

	pthread_mutex_lock(&all_lock);
	for (f = all; f && f->serial != s->serial; f = f->next)
		;
	/* What a child has of its parent's may be locked for ever. */
	if (f && capkm_is_generation(f->generation))
		give_back(f, s);
	free_seat(s);
	pthread_mutex_unlock(&all_lock);
}

static void leave_seats(void *unused)
{
	struct seat *s;

	(void)unused;
	while ((s = seats)) {
		seats = s->next;
		leave_seat(s);
	}
}

static void make_key(void)
{
	has_key = !pthread_key_create(&at_thread_end, leave_seats) &&
		  !pthread_atfork(before_fork, after_fork, after_fork);
}

/* A library that is taken out of a process must not be called at the end of a thread. */
static __attribute__((destructor)) void delete_key(void)
{
	if (has_key)
		pthread_key_delete(at_thread_end);
}

/* With all_lock. */
static bool is_gone(uint64_t serial)
{
	struct fast *f;

	for (f = all; f && f->serial != serial; f = f->next)
		;
	return !f;
}

/* Of handles that were closed. */
static void forget_seats(void)
{
	struct seat **at = &seats, *s;

	pthread_mutex_lock(&all_lock);
	while ((s = *at)) {
		if (is_gone(s->serial)) {
			*at = s->next;
			free_seat(s);
		} else {
			at = &s->next;
		}
	}
	pthread_mutex_unlock(&all_lock);
}

static struct seat *new_seat(const struct fast *f)
{
	struct seat *s;

	forget_seats();
	s = calloc(1, sizeof(*s));
	/* Any value will do: it makes the thread come by when it ends. */
	if (!s || pthread_setspecific(at_thread_end, &seats)) {
		free(s);
		return NULL;
	}
	s->serial = f->serial;
	s->next = seats;
	seats = s;
	list_seat(s);
	return s;
}

static __attribute__((noinline)) struct seat *find_seat(const struct fast *f)
{
	struct seat **at = &seats, *s;

	if (never)
		return NULL;
	for (; (s = *at); at = &s->next)
		if (s->serial == f->serial)
			break;
	if (!s)
		return new_seat(f);
	*at = s->next;
	s->next = seats;
	seats = s;
	return s;
}

static inline struct seat *seat_of(const struct fast *f)
{
	struct seat *s = seats;

	return s && s->serial == f->serial ? s : find_seat(f);
}

void capkm_fast_never(bool is)
{
	static _Thread_local struct seat *aside;

	if (is == never)
		return;
	never = is;
	if (is) {
		aside = seats;
		seats = NULL;
	} else {
		seats = aside;
	}
}

/* ---- entries ---- */

/* @entry: that is dry, or CAPKM_ENTRY_NEW. */
static bool buy_entry(struct capkm *c, struct seat *s, uint32_t *entry)
{
	struct capkm_scope_table arg = {
		.size = sizeof(arg),
		.flags = CAPKM_SCOPE_TABLE_F_ENTRY,
		.entry = *entry,
	};

	if (s->patience) {
		s->patience--;
		return false;
	}
	if (capkm_call(c, CAPKM_NR_SCOPE_TABLE, &arg)) {
		s->patience = PATIENCE;
		return false;
	}
	*entry = arg.out_entry;
	return true;
}

static bool take_spare(struct fast *f, uint32_t *entry)
{
	bool got = false;

	pthread_mutex_lock(&f->lock);
	for (uint32_t i = 0; i < f->spare_n && !got; i++) {
		const uint32_t state = state_of(load(&f->entry[f->spare[i]].state));

		*entry = f->spare[i];
		/* Another thread may be about to leave the scope in it. */
		got = state == CAPKM_ENTRY_FREE || state == CAPKM_ENTRY_DRY;
		if (got)
			f->spare[i] = f->spare[--f->spare_n];
	}
	pthread_mutex_unlock(&f->lock);
	return got;
}

/* It may be used, or can be filled again. */
static bool is_free(struct capkm *c, const struct fast *f, struct seat *s, uint32_t entry)
{
	const uint32_t state = state_of(load(&f->entry[entry].state));

	return state == CAPKM_ENTRY_FREE ||
	       (state == CAPKM_ENTRY_DRY && buy_entry(c, s, &entry));
}

static __attribute__((noinline)) bool
find_entry(struct capkm *c, struct fast *f, struct seat *s, uint32_t *entry)
{
	for (uint32_t i = 0; i < s->entries_n; i++) {
		*entry = s->entry[i];
		if (is_free(c, f, s, *entry))
			return true;
	}
	if (s->entries_n == SEAT_ENTRIES)
		return false;
	*entry = CAPKM_ENTRY_NEW;
	if (!take_spare(f, entry) && !buy_entry(c, s, entry))
		return false;
	s->entry[s->entries_n++] = *entry;
	return is_free(c, f, s, *entry);
}

static inline bool free_entry(struct capkm *c, struct fast *f, struct seat *s,
			      uint32_t *entry)
{
	*entry = s->entry[0];
	if (s->entries_n &&
	    state_of(load(&f->entry[*entry].state)) == CAPKM_ENTRY_FREE)
		return true;
	return find_entry(c, f, s, entry);
}

/* ---- places ---- */

static const struct capkm_where nowhere;

/* capkm_stream_current(), which is a call into a library that others may put in front. */
static inline uint64_t stream_here(void)
{
	return capkm_stream_pinned ? capkm_stream_pinned :
	       capkm_stream_own ? capkm_stream_own : capkm_stream_current();
}

/* As capkm_place(), of what is sound. */
static inline struct place *place_of(struct seat *s, const struct capkm_where *w,
				     uint64_t stream)
{
	return &s->place[(stream ^ w->slot) % SEAT_PLACES];
}

static inline bool is_place(const struct place *p, const struct fast *f,
			    const struct capkm_where *w, uint64_t stream)
{
	uint64_t a[2], b[2];

	memcpy(a, p->key.device, sizeof(a));
	memcpy(b, w->device, sizeof(b));
	return p->known && p->key.stream == stream && p->key.slot == w->slot &&
	       p->flags == w->flags && p->streams == look(&f->status->streams) &&
	       a[0] == b[0] && a[1] == b[1];
}

/* The caller's mistake, which the call that follows will say. */
static bool is_mistake(int rc)
{
	return rc == -ENOENT || rc == -EPERM || rc == -EINVAL;
}

/* The next work there need not ask where that is. */
static void learn_place(struct capkm *c, struct seat *seat, struct place *p,
			const struct capkm_where *w)
{
	struct capkm_scope_table arg = {
		.size = sizeof(arg),
		.flags = CAPKM_SCOPE_TABLE_F_SLOT,
	};
	int rc;

	p->known = false;
	if (seat->patience) {
		seat->patience--;
		return;
	}
	rc = capkm_place(&arg.place, &arg.flags, w, CAPKM_NR_SCOPE_TABLE, NULL);
	if (!rc)
		rc = capkm_call(c, CAPKM_NR_SCOPE_TABLE, &arg);
	if (rc) {
		seat->patience = is_mistake(rc) ? 0 : PATIENCE;
		return;
	}
	p->key = arg.place;
	p->flags = w->flags;
	p->streams = arg.out_streams;
	p->number = arg.out_slot;
	p->known = true;
}

/* ---- looking at the words ---- */

static inline uint32_t index_of(uint64_t buffer)
{
	return buffer % CAPKM_FAST_BUFFERS;
}

/* Where a buffer's state stands, and what it says while the buffer is fast. */
struct spot {
	const struct capkm_status_buffer *status;
	struct capkm_table_buffer *table;
	uint32_t word;
};

/* A copy: what is loaded in order would be loaded again from the handle each time. */
struct areas {
	const struct capkm_status_buffer *word;
	struct capkm_table_buffer *buffer;
};

static inline struct areas areas_of(const struct fast *f)
{
	return (struct areas){ f->word, f->buffer };
}

static inline struct spot spot_of(struct areas a, uint64_t buffer)
{
	const uint32_t i = index_of(buffer);

	return (struct spot){ &a.word[i], &a.buffer[i], capkm_fast_word(buffer) };
}

static inline bool has_word(const struct spot *s)
{
	return load(&s->status->word) == s->word;
}

/* Of a buffer that has its word. */
static inline bool is_in(const struct spot *s, const struct capkm_claim *c)
{
	return c->start <= c->end && c->end <= look(&s->status->bytes) &&
	       c->buffer < CAPKM_FAST_BUFFER_MAX;
}

/* Does nobody write to it, or only the scope of entry @me? Before its word is looked at. */
static inline bool is_quiet(const struct spot *s, uint32_t me)
{
	const uint32_t in_flight = load(&s->table->in_flight);

	return !in_flight || in_flight == me;
}

/* A scope's sets, looked up. */
struct spots {
	uint32_t reads_len, writes_len;
	struct spot read[CAPKM_FAST_CLAIMS], write[CAPKM_FAST_CLAIMS];
};

/* Is it worth a try? */
static inline bool find_spots(const struct fast *f, const struct sets *s, struct spots *p)
{
	const struct capkm_claim *reads = s->reads, *writes = s->writes;
	const uint32_t reads_len = s->reads_len, writes_len = s->writes_len;
	const struct areas a = areas_of(f);

	if (writes_len - 1 >= CAPKM_FAST_CLAIMS || reads_len > CAPKM_FAST_CLAIMS ||
	    load(&f->status->mode) != 1)
		return false;
	for (uint32_t i = 0; i < reads_len; i++) {
		const struct capkm_claim c = reads[i];
		const struct spot at = spot_of(a, c.buffer);

		if (!is_quiet(&at, 0) || !has_word(&at) || !is_in(&at, &c))
			return false;
		p->read[i] = at;
	}
	for (uint32_t i = 0; i < writes_len; i++) {
		const struct capkm_claim c = writes[i];
		const struct spot at = spot_of(a, c.buffer);

		if (!has_word(&at) || !is_in(&at, &c) || c.start == c.end)
			return false;
		p->write[i] = at;
	}
	p->reads_len = reads_len;
	p->writes_len = writes_len;
	return true;
}

/* Once ENTERED can be seen: is all as it was? In this order. */
static inline bool still_good(const struct fast *f, const struct spots *p, uint32_t me)
{
	const uint32_t reads_len = p->reads_len, writes_len = p->writes_len;

	if (load(&f->status->mode) != 1)
		return false;
	for (uint32_t i = 0; i < reads_len; i++)
		if (!is_quiet(&p->read[i], me) || !has_word(&p->read[i]))
			return false;
	for (uint32_t i = 0; i < writes_len; i++)
		if (!has_word(&p->write[i]))
			return false;
	return true;
}

/* ---- entering ---- */

static inline void clear_words(const struct spots *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		release(&p->write[i].table->in_flight, 0);
}

static inline bool claim_words(const struct spots *p, uint32_t me)
{
	const uint32_t n = p->writes_len;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&p->write[i].table->in_flight, &none, me,
						false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		clear_words(p, i);
		return false;
	}
	return true;
}

static __attribute__((noinline)) void fill_label(struct capkm_table_entry *e,
						 const char *label)
{
	uint64_t words[(CAPKM_LABEL_MAX + 1) / 8] = { 0 };

	memcpy(words, label, capkm_cut(label, CAPKM_LABEL_MAX));
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		store(&e->label[i], words[i]);
}

static inline void fill(struct capkm_table_entry *e, const struct sets *s,
			uint64_t stream, uint32_t slot, const char *label)
{
	const struct capkm_claim *writes = s->writes;
	const uint32_t n = s->writes_len;

	store(&e->stream, stream);
	store(&e->slot, slot);
	store(&e->claims, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct capkm_claim c = writes[i];

		store(&e->claim[i].buffer, c.buffer);
		store(&e->claim[i].start, c.start);
		store(&e->claim[i].end, c.end);
	}
	if (label)
		fill_label(e, label);
	else
		store(&e->label[0], 0);
}

/* From now on whoever takes a word back sees the scope, or the scope sees that. */
static inline void publish(struct capkm_table_entry *e, uint64_t state)
{
	__atomic_exchange_n(&e->state, state, __ATOMIC_SEQ_CST);
}

/* The authority counts it as entered, and it must not run: it wrote nothing. */
static void leave_unrun(struct capkm *c, uint64_t id)
{
	struct capkm_scope_exit arg = {
		.size = sizeof(arg),
		.flags = CAPKM_SCOPE_EXIT_F_COMPLETE,
		.scope = id,
	};

	capkm_call(c, CAPKM_NR_SCOPE_EXIT, &arg);
}

/* It is not to be entered, whatever has become of @entered. */
static __attribute__((noinline)) void
retract(struct capkm *c, struct fast *f, uint32_t n, uint64_t entered,
	const struct spots *p)
{
	__u64 *state = &f->entry[n].state;
	const uint64_t free = entered - CAPKM_ENTRY_ENTERED;

	if (!cas(state, entered, free)) {
		if (state_of(load(state)) == CAPKM_ENTRY_MIGRATED) {
			leave_unrun(c, capkm_fast_scope(entered, n));
			return;
		}
		release(state, free);
	}
	clear_words(p, p->writes_len);
}

static inline struct fast *usable(struct capkm *c)
{
	struct fast *f = atomic_load_explicit(&c->fast, memory_order_acquire);

	if (!f || atomic_load_explicit(&c->fast_off, memory_order_relaxed) ||
	    !capkm_is_generation(f->generation))
		return NULL;
	return f;
}

static INLINE bool enter(struct capkm *c, const struct capkm_where *where,
			 const struct sets *s, const struct capkm_scope_opts *opts,
			 struct capkm_scope *scope)
{
	const struct capkm_where *w = where ? where : &nowhere;
	struct fast *f = usable(c);
	struct capkm_table_entry *e;
	struct place *place;
	uint64_t stream, state;
	struct spots spots;
	struct seat *seat;
	uint32_t n;

	if (!f || (opts && (opts->sz != sizeof(*opts) || opts->flags)) ||
	    !find_spots(f, s, &spots))
		return false;
	seat = seat_of(f);
	if (!seat)
		return false;
	stream = w->stream ? w->stream : stream_here();
	place = place_of(seat, w, stream);
	if (!is_place(place, f, w, stream)) {
		learn_place(c, seat, place, w);
		if (!place->known)
			return false;
	}
	if (!free_entry(c, f, seat, &n))
		return false;

	e = &f->entry[n];
	fill(e, s, stream, place->number, opts ? opts->label : NULL);
	if (!claim_words(&spots, n + 1))
		return false;
	state = (look(&e->state) & ~(uint64_t)CAPKM_ENTRY_STATE) + CAPKM_ENTRY_STEP +
		CAPKM_ENTRY_ENTERED;
	publish(e, state);
	/* If it was MIGRATED, it has entered all the same: the exit will find that. */
	if (!still_good(f, &spots, n + 1) ||
	    state_of(load(&e->state)) == CAPKM_ENTRY_REVOKED) {
		retract(c, f, n, state, &spots);
		return false;
	}
	store(&e->entered, look(&e->entered) + 1);
	*scope = (struct capkm_scope){
		.id = capkm_fast_scope(state, n),
		.sequence = look(&f->domain->sequence),
	};
	return true;
}

bool capkm_fast_enter(struct capkm *c, const struct capkm_where *where,
		      const struct sets *s, const struct capkm_scope_opts *opts,
		      struct capkm_scope *scope)
{
	return enter(c, where, s, opts, scope);
}

int capkm_scope_enter(struct capkm *c, const struct capkm_where *where,
		      const struct capkm_claim *reads, uint32_t reads_len,
		      const struct capkm_claim *writes, uint32_t writes_len,
		      const struct capkm_scope_opts *opts,
		      struct capkm_scope *scope, struct capkm_report *why,
		      struct capkm_error *err)
{
	const struct sets s = { reads, writes, reads_len, writes_len };

	if (enter(c, where, &s, opts, scope))
		return 0;
	return capkm_scope_enter_ask(c, where, &s, opts, scope, why, err);
}

/* ---- leaving ---- */

/* What a scope wrote to, copied before somebody else may use its entry. */
struct wrote {
	uint32_t n;
	struct capkm_table_buffer *at[CAPKM_FAST_CLAIMS];
};

static inline bool copy_wrote(const struct fast *f, const struct capkm_table_entry *e,
			      struct wrote *w)
{
	struct capkm_table_buffer *buffer = f->buffer;
	const uint32_t n = look(&e->claims);

	if (n > CAPKM_FAST_CLAIMS)
		return false;
	for (uint32_t i = 0; i < n; i++)
		w->at[i] = &buffer[index_of(look(&e->claim[i].buffer))];
	w->n = n;
	return true;
}

/*
 * The sequence of the exit, which becomes the slot's: after all exits on the slot and of
 * the buffers, before the domain's next one. 0: none is left. The domain's is looked at
 * again behind that: if somebody has sampled it before this, this exit is not in the
 * sample, whatever was already under way.
 */
static inline uint64_t stamp(struct fast *f, const struct wrote *w, uint32_t slot,
			     bool complete)
{
	struct capkm_table_slot *s = &f->slot[slot];
	__u64 *mine = complete ? &s->finished : &s->sequence;
	const __u64 *others = complete ? &s->sequence : &s->finished;
	uint64_t now = look(&f->domain->sequence), again, old, t;
	const uint32_t n = w->n;

	for (;;) {
		old = look(mine);
		t = look(others);
		t = old > t ? old : t;
		t = now > t ? now : t;
		for (uint32_t i = 0; i < n; i++) {
			const uint64_t touched = look(&w->at[i]->touched);

			t = touched > t ? touched : t;
		}
		if (++t >= now + CAPKM_SEQUENCE_STEP)
			return 0;
		if (!cas(mine, old, t))
			continue;
		again = __atomic_load_n(&f->domain->sequence, __ATOMIC_SEQ_CST);
		if (again == now)
			break;
		now = again;
	}
	if (!complete && old <= look(&f->status->slot[slot].settled))
		store(&s->first, t);
	return t;
}

static INLINE bool finish(struct fast *f, struct capkm_table_entry *e, uint64_t state,
			  const struct wrote *w, bool complete, uint64_t *sequence)
{
	const uint32_t slot = look(&e->slot) % CAPKM_FAST_SLOTS;
	const uint64_t t = stamp(f, w, slot, complete);
	const uint32_t n = w->n;

	if (!t)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		store(&w->at[i]->touched, t);
		if (!complete)
			store(&w->at[i]->dirty, t);
	}
	if (!cas(&e->state, state, state - CAPKM_ENTRY_ENTERED))
		return false;
	for (uint32_t i = 0; i < n; i++)
		release(&w->at[i]->in_flight, 0);
	*sequence = t;
	return true;
}

/* The open scope's entry, and its state; or NULL. */
static inline struct capkm_table_entry *entry_of(struct fast *f, uint64_t scope,
						 uint64_t *state)
{
	const uint32_t n = scope % CAPKM_TABLE_ENTRIES;
	struct capkm_table_entry *e = &f->entry[n];

	*state = load(&e->state);
	return capkm_fast_scope(*state, n) == scope ? e : NULL;
}

static INLINE bool leave(struct capkm *c, struct capkm_scope *scope, bool complete)
{
	struct fast *f = usable(c);
	struct capkm_table_entry *e;
	struct wrote w;
	uint64_t state;

	if (!f || never)
		return false;
	e = entry_of(f, scope->id, &state);
	if (!e || state_of(state) != CAPKM_ENTRY_ENTERED || !copy_wrote(f, e, &w))
		return false;
	if (!finish(f, e, state, &w, complete, &scope->sequence))
		return false;
	scope->id = 0;
	scope->failure = 0;
	return true;
}

bool capkm_fast_exit(struct capkm *c, struct capkm_scope *scope, bool complete)
{
	return leave(c, scope, complete);
}

int capkm_scope_exit(struct capkm *c, struct capkm_scope *scope, uint32_t flags,
		     struct capkm_error *err)
{
	if (!(scope->id & CAPKM_SCOPE_FAST) || flags & ~CAPKM_SCOPE_EXIT_F_COMPLETE ||
	    !leave(c, scope, flags))
		return capkm_scope_exit_ask(c, scope, flags, err);
	if (scope->set)
		capkm_write_set_put(scope->set);
	scope->set = NULL;
	return 0;
}

/* ---- checking ---- */

static INLINE bool check(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
			 struct capkm_answer *answer)
{
	struct fast *f = usable(c);
	uint64_t now, sequence;
	struct areas areas;

	if (!f || !len || (answer && answer->sz != sizeof(*answer)))
		return false;
	/* What changes from now on has a later one. */
	now = load(&f->domain->sequence);
	sequence = now;
	/* Before the words: a fault takes all back while the mode is off. */
	if (load(&f->status->mode) != 1)
		return false;
	areas = areas_of(f);
	for (uint32_t i = 0; i < len; i++) {
		const struct capkm_claim claim = claims[i];
		const struct spot p = spot_of(areas, claim.buffer);
		uint64_t touched;

		if (!is_quiet(&p, 0))
			return false;
		touched = load(&p.table->touched);
		if (!has_word(&p) || !is_in(&p, &claim))
			return false;
		sequence = touched > sequence ? touched : sequence;
	}
	/* The exits of two buffers are in no order before the next sequence of the domain. */
	if (len > 1 && sequence != now)
		return false;
	if (answer) {
		answer->out_reports = 0;
		answer->out_result = CAPKM_CLEAN;
		answer->out_unconfirmed = 0;
		answer->out_sequence = sequence;
	}
	return true;
}

bool capkm_fast_check(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
		      struct capkm_answer *answer)
{
	return check(c, claims, len, answer);
}

int capkm_check(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
		struct capkm_answer *answer, struct capkm_error *err)
{
	if (check(c, claims, len, answer))
		return 0;
	return capkm_check_ask(c, claims, len, answer, err);
}

bool capkm_fast_state(struct capkm *c, const struct capkm_where *where, uint32_t *state)
{
	const struct capkm_where *w = where ? where : &nowhere;
	const uint64_t stream = w->stream ? w->stream : stream_here();
	struct fast *f = usable(c);
	struct seat *seat = f ? seat_of(f) : NULL;
	struct place *p;

	if (!seat)
		return false;
	p = place_of(seat, w, stream);
	if (!is_place(p, f, w, stream))
		learn_place(c, seat, p, w);
	if (!p->known || load(&f->domain->destroyed))
		return false;
	*state = load(&f->status->slot[p->number].state);
	return true;
}

bool capkm_fast_health(struct capkm *c, struct capkm_health *h)
{
	struct fast *f = usable(c);

	if (!f || load(&f->domain->destroyed))
		return false;
	h->faulted = load(&f->domain->faulted);
	h->orphans = load(&f->domain->orphans);
	h->sequence = load(&f->domain->sequence);
	return true;
}

/* ---- of a handle ---- */

static bool map(struct capkm *c, struct fast *f)
{
	void *domain, *status, *table;

	domain = c->transport->map(c->state, CAPKM_MAP_DOMAIN,
				   sizeof(struct capkm_domain_page), false);
	status = c->transport->map(c->state, CAPKM_MAP_STATUS, CAPKM_STATUS_BYTES, false);
	table = c->transport->map(c->state, CAPKM_MAP_TABLE, CAPKM_TABLE_BYTES, true);
	f->domain = domain;
	f->status = status;
	f->entry = table;
	if (!domain || !status || !table)
		return false;
	f->word = (void *)((char *)status + CAPKM_STATUS_BUFFERS);
	f->slot = (void *)((char *)table + CAPKM_TABLE_SLOTS);
	f->buffer = (void *)((char *)table + CAPKM_TABLE_BUFFERS);
	return true;
}

static void unmap(struct capkm *c, const struct fast *f)
{
	c->transport->unmap(f->domain, sizeof(struct capkm_domain_page));
	c->transport->unmap(f->status, CAPKM_STATUS_BYTES);
	c->transport->unmap(f->entry, CAPKM_TABLE_BYTES);
}

static void list(struct fast *f)
{
	pthread_mutex_lock(&all_lock);
	f->serial = ++serials;
	f->next = all;
	all = f;
	pthread_mutex_unlock(&all_lock);
}

int capkm_fast_open(struct capkm *c)
{
	struct capkm_scope_table arg = { .size = sizeof(arg) };
	struct fast *f;
	int rc;

	if (!c->transport->map || never || c->fast_off ||
	    atomic_exchange(&c->fast_asked, true))
		return 0;
	pthread_once(&key_once, make_key);
	if (!has_key)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f) {
		c->fast_asked = false;
		return -ENOMEM;
	}
	f->generation = c->generation;
	pthread_mutex_init(&f->lock, NULL);
	rc = capkm_call(c, CAPKM_NR_SCOPE_TABLE, &arg);
	if (rc || !map(c, f)) {
		unmap(c, f);
		pthread_mutex_destroy(&f->lock);
		free(f);
		c->fast_asked = rc != -ENOMEM;
		return rc == -ENOMEM ? rc : 0;
	}
	list(f);
	c->fast = f;
	return 0;
}

void capkm_fast_close(struct capkm *c)
{
	struct fast *f = c->fast, **at;

	if (!f)
		return;
	pthread_mutex_lock(&all_lock);
	for (at = &all; *at != f; at = &(*at)->next)
		;
	*at = f->next;
	pthread_mutex_unlock(&all_lock);
	/* What the parent mapped is not mapped here. */
	if (capkm_is_generation(f->generation))
		unmap(c, f);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

void capkm_fast_path(struct capkm *c, bool on)
{
	c->fast_off = !on;
}

int capkm_fast_query(struct capkm *c, struct capkm_fast_stats *stats,
		     struct capkm_error *err)
{
	struct capkm_fast_stats s = CAPKM_OPTS(struct capkm_fast_stats);
	struct fast *f = atomic_load_explicit(&c->fast, memory_order_acquire);
	int rc = capkm_opts(&s, sizeof(s), stats, "fast_query", err);

	if (!rc)
		rc = capkm_not_inherited(c, "fast_query", err);
	if (rc)
		return rc;
	s = (struct capkm_fast_stats){ .sz = s.sz };
	if (f && capkm_is_generation(f->generation)) {
		s.on = !c->fast_off && load(&f->status->mode);
		s.migrated = load(&f->status->migrated);
		s.revoked = load(&f->status->revoked);
		s.dropped = load(&f->status->dropped);
		for (uint32_t i = 0; i < CAPKM_TABLE_ENTRIES; i++)
			s.entered += load(&f->entry[i].entered);
		for (uint32_t i = 0; i < CAPKM_FAST_TRANSITIONS; i++)
			s.transitions[i] = load(&f->status->transitions[i]);
	}
	capkm_opts_put(stats, &s, sizeof(s));
	return 0;
}
