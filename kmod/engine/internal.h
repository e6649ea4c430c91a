/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the rooms of the engine know of each other. Unless a comment says
 * otherwise, all fields are protected by the lock of their domain, and all
 * functions are called with it held.
 */
#ifndef CAPKM_INTERNAL_H
#define CAPKM_INTERNAL_H

#include "engine.h"
#include "id_map.h"
#include "list.h"
#include "range_map.h"

#define SLOTS_MAX		1024u		/* per device, of a client */
#define SLOTS_DEFAULT		32u
#define SKIPS_MAX		16u		/* remembered by a failure */
#define RECENT			64u		/* buffers, of a session */

struct array;
struct buffer;
struct call;
struct client;
struct client_device;
struct domain;
struct failure;
struct fast;
struct fast_entry;
struct graph;
struct ledger;
struct scope;
struct slot;
struct window;

/* ---- stock: memory that is bought before it is needed ---- */

enum stock_kind {
	STOCK_CLAIM,
	STOCK_CARRIER,
	STOCK_FAILURE,
	STOCK_SCOPE,
	STOCK_USE,
	STOCK_SKIP,
	STOCK_NOTE,
	STOCK_BLOCK,		/* of a range map; see ck_range_insert() */
	STOCK_KINDS,
};

/* How many of each are needed, or were bought and not used. */
struct need {
	u64 n[STOCK_KINDS];
};

/* The object that was given last is taken first: it is still in the cache. */
struct stock {
	struct spare *free[STOCK_KINDS];
	struct need spare;		/* of these, what is not promised to anybody */
	bool excess;			/* of some there are more than STOCK_KEEP */
};

void ck_stock_init(struct stock *st);
void ck_stock_free(struct stock *st);
/* Up to @most of it; true if that was all. */
bool ck_stock_free_some(struct stock *st, u32 most);
/* Without the lock: buys until @st holds @need. */
int ck_stock_buy(struct stock *st, const struct need *need);
/* What is not promised. */
static inline bool ck_stock_has(const struct stock *st, const struct need *need)
{
	u64 lack = 0;
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		lack |= st->spare.n[kind] - need->n[kind];
	return !(lack >> 63);
}

/*
 * Of what @st has, @need is for whoever holds the promise, and for nobody else until that
 * is released: so an open scope keeps what its exit may need, and nothing is moved.
 */
static inline void ck_stock_promise(struct stock *st, const struct need *need)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		st->spare.n[kind] -= need->n[kind];
}

static inline void ck_stock_release(struct stock *st, const struct need *need)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++)
		st->spare.n[kind] += need->n[kind];
}

/* Promises what is left of @need, now @rest, since @before was not promised; no blocks. */
static inline void ck_stock_promise_rest(struct stock *st, struct need *rest,
					 const struct need *need,
					 const struct need *before)
{
	int kind;

	for (kind = 0; kind < STOCK_KINDS; kind++) {
		rest->n[kind] = need->n[kind] -
				(before->n[kind] - st->spare.n[kind]);
		st->spare.n[kind] -= rest->n[kind];
	}
	/* More of these may have been taken, and whoever needs one can do without. */
	st->spare.n[STOCK_BLOCK] += rest->n[STOCK_BLOCK];
	rest->n[STOCK_BLOCK] = 0;
}

/* What @st has too little of that is not promised. */
struct need ck_stock_lack(const struct stock *st, const struct need *need);
/* Moves @need from @from, which has it, to @to. */
void ck_stock_move(struct stock *to, struct stock *from,
		   const struct need *need);
void ck_stock_move_all(struct stock *to, struct stock *from);
/* Of each kind, at most so many are kept for later calls. */
#define STOCK_KEEP	64u

void ck_stock_free_excess(struct stock *st);
/* Frees all but the few that are worth keeping for the next calls. */
static inline void ck_stock_trim(struct stock *st)
{
	if (unlikely(st->excess))
		ck_stock_free_excess(st);
}

/* What a free object is, whatever it was and will be. */
struct spare {
	struct spare *next;
};

static inline void ck_stock_put(struct stock *st, enum stock_kind kind, void *object)
{
	struct spare *spare = object;

	spare->next = st->free[kind];
	st->free[kind] = spare;
	if (unlikely(++st->spare.n[kind] > STOCK_KEEP))
		st->excess = true;
}

/* As it is; @st has one. */
static inline void *ck_stock_get(struct stock *st, enum stock_kind kind)
{
	struct spare *spare = st->free[kind];

	/* Too little was bought: a bug in the sums, and no way back. */
	host_check(spare);
	st->free[kind] = spare->next;
	st->spare.n[kind]--;
	return spare;
}

/* Back into @st, or freed if that is NULL. */
static inline void ck_stock_give(struct stock *st, enum stock_kind kind, void *object)
{
	if (st)
		ck_stock_put(st, kind, object);
	else
		host_free(object);
}

/* How much of each is zeroed: not what is behind the beginning of a text or an array. */
extern const size_t ck_stock_zeroed[STOCK_KINDS];

static inline void *ck_stock_take(struct stock *st, enum stock_kind kind)
{
	return memset(ck_stock_get(st, kind), 0, ck_stock_zeroed[kind]);
}

/* ---- who did it ---- */

struct who {
	struct host_proc *proc;		/* a reference */
	u64 session;
	u64 stream;
	u32 tid;
	u32 uid;
	char comm[16];
};

/*
 * A name or label is somebody else's bytes: what a terminal might take for more than a
 * character becomes a question mark. The rest of @to becomes 0.
 */
void ck_copy_clean(char *to, size_t size, const char *from, size_t len);
void ck_who_set(struct who *w, const struct capkm_caller *who, u64 session,
		u64 stream);
void ck_who_copy(struct who *w, const struct who *from);
void ck_who_put(struct who *w);
void ck_who_report(const struct who *w, struct capkm_report *r);

/* ---- error graph ---- */

struct failure {
	struct id_node node;	/* domain->failures while it has carriers */
	struct id_map carriers;	/* struct carrier by buffer id */
	struct link sib;	/* domain->reports */
	u64 report;		/* ordinal there */
	u64 stamp;		/* domain->stamp of the check that met it */
	u32 pins;		/* scopes, windows, reports: alive, not linked */
	u64 changes;		/* of what its carriers' claims have, so far */
	u32 kind;
	s32 code;
	u32 text_len;
	struct who who;
	u64 scope, graph, window;
	u64 sequence;
	u64 time_ns;
	struct link skips;	/* struct skip, newest last */
	u32 skips_kept;
	u64 skips_total;
	bool latent;		/* of a device: it has not happened, and may never */
	void *stack;
	u32 stack_len;
	char label[CAPKM_LABEL_MAX + 1];
	char text[CAPKM_TEXT_MAX + 1];
};

/* One for each (buffer, failure): the failure's tag on the buffer. */
struct carrier {
	struct id_node node;	/* failure->carriers */
	struct failure *failure;
	struct buffer *buffer;
	u64 claims;
};

#define SKIP_PRODUCED	14u

/* Work that did not run. Ids only: it keeps no memory alive. */
struct skip {
	struct link sib;	/* failure->skips */
	struct skip *more;	/* further ids of the same work */
	u64 needed;
	u64 time_ns;
	char label[CAPKM_LABEL_MAX + 1];
	u32 produced_n;
	u64 produced[SKIP_PRODUCED];
};

/* Mints an id. Not linked until a buffer carries it. One pin. */
struct failure *ck_failure_new(struct domain *d, struct stock *from);
/* It happens in this tick. */
void ck_failure_date(struct domain *d, struct failure *f, u32 kind, s32 code);
/* One of the caller's, bought in the session's stock, that happens in this tick. */
struct failure *ck_failure_by(struct call *c, u64 stream, u32 kind, s32 code);
/* One that may never happen: without an id, and never linked. One pin. */
struct failure *ck_failure_latent(struct stock *from);
void ck_failure_pin(struct failure *f);
void ck_failure_unpin(struct failure *f, struct stock *back);
void ck_failure_text(struct failure *f, const char *text, u32 len);
struct carrier *ck_failure_tag(struct domain *d, struct failure *f,
			       struct buffer *b, struct stock *from);
/* The same with the carrier that a private buffer has for it. */
struct carrier *ck_failure_tag_spare(struct domain *d, struct failure *f,
				     struct buffer *b);
/* A latent failure has happened: what carries it is tainted. */
void ck_failure_happened(struct domain *d, struct failure *f);
void ck_failure_untag(struct domain *d, struct carrier *c, struct stock *back);
struct skip *ck_skip_produced(struct skip *at, u64 buffer, struct stock *from);
/* The oldest of too many goes to @back. */
void ck_failure_skipped(struct failure *f, struct skip *s, struct stock *back);
void ck_failure_report(const struct failure *f, struct capkm_report *r);
/* The reason as any reader may see it, for the text of another failure. */
u32 ck_failure_reason(const struct failure *f, char *text, size_t size);
void ck_failure_keep(struct domain *d, struct failure *f);
struct failure *ck_failure_find(struct domain *d, u64 id);
/* The chain of skipped work from @buffer back to the root of @f. */
u32 ck_failure_hops(const struct failure *f, u64 buffer,
		    struct capkm_hop *hops, u32 len);
/* All skipped work that is remembered, newest first. */
u32 ck_failure_skips(const struct failure *f, struct capkm_hop *hops, u32 len);
void ck_skip_free(struct skip *s, struct stock *back);

/* ---- bytes ---- */

enum claim_state {
	CLAIM_OPEN,
	CLAIM_FAILED,
	CLAIM_RECORDED,
	CLAIM_UNCONFIRMED,
};

/*
 * What a scope, a failure, a window or a slot has on a range of a buffer
 * (Documentation/design/bytes.rst). Its date is span.date; none while it is
 * open. Also, with only its span in use, a claim key in the sets of a window or
 * graph; and in buffer->writers who wrote the range last (writer.c).
 */
struct claim {
	struct span span;	/* buffer->claims or ->writers, or a set of struct use */
	struct link sib;	/* scope->claims, window->claims, slot->unconfirmed */
	struct buffer *buffer;
	union {
		struct scope *scope;		/* OPEN */
		struct carrier *carrier;	/* FAILED, UNCONFIRMED */
		struct window *window;		/* RECORDED */
		u64 session;			/* a writer */
	};
	union {
		u64 enter;			/* OPEN, FAILED, RECORDED */
		struct slot *slot;		/* UNCONFIRMED */
		u64 stream;			/* a writer */
	};
	u64 done;		/* UNCONFIRMED: what its slot must confirm */
	enum claim_state state;
	bool keeps_writer;	/* OPEN: the exit has what ck_writer_set() needs */
};

struct buffer {
	struct id_node node;	/* domain->buffers */
	struct domain *domain;
	struct range_map claims;
	struct range_map writers;	/* disjoint; if it is shared or fresh */
	u64 dated;		/* claims that are not FAILED: dates matter */
	u64 unconfirmed;	/* of these claims */
	u64 changes;		/* claims that came, went or became others, so far */
	u64 failures;		/* carriers, but for latent ones */
	u64 dirty;		/* private: the last exit that left it unconfirmed */
	u64 fast_dirty;		/* the same, of fast scopes that we know of */
	struct fast *fast;	/* it has an index there, or NULL */
	struct link fast_left;	/* domain->fast_left: its word was taken back */
	bool has_word;		/* programs may rely on its word there */
	/*
	 * To taint all of it when nothing can be bought. A private buffer has
	 * them, or FAILED claims that will become them again.
	 */
	struct claim *spare_claim;
	struct carrier *spare_carrier;
	union {
		struct link uses;	/* struct use of windows and graphs */
		struct link dying;	/* domain->dying_buffers, without refs */
	};
	u32 uses_n;
	u32 holders;		/* references of sessions */
	u32 refs;		/* holders, open scopes, windows, graphs */
	u64 size;
	u64 address;
	u64 session;
	u64 sequence;
	u64 stamp;		/* domain->stamp of the check that met it */
	u8 device[16];
	bool exported, unallocated, shared, fresh;
	bool keep_reports;	/* of the failures that it carried when it was dying */
	char label[CAPKM_LABEL_MAX + 1];
};

/* A session's reference to a buffer. */
struct hold {
	struct id_node node;	/* session->holds */
	struct buffer *buffer;
	u32 count;
};

/* A window's or graph's reference to a buffer, and its claims there. */
struct use {
	struct id_node node;	/* window->uses or graph->uses, by buffer id */
	struct link sib;	/* buffer->uses */
	struct link busy;	/* graph->busy while the buffer has claims */
	struct link tracked;	/* graph->tracked if it is shared or fresh */
	struct buffer *buffer;	/* NULL once the window only remembers */
	struct graph *graph;	/* or NULL: a window's */
	bool writers_paid;	/* of what a replay will have written */
	bool refusal_paid;	/* the window's stock has the carrier */
	struct range_map writes;
	struct range_map inputs;
	struct range_map seen;
};

/* A range of a buffer that a call names, looked up. */
struct target {
	struct buffer *buffer;
	u64 start, end;
};

/* What is wrong with a range, at its lowest byte that is not clean. */
struct fault {
	u64 start, end;
	struct failure *failure;	/* tainted, or NULL */
	struct scope *scope;		/* in progress, or NULL */
	struct graph *graph;		/* in progress, or NULL */
	bool unallocated;
};

void ck_buffer_get(struct buffer *b);
/* The last one destroys it or, if it carries much, leaves that to ck_bury(). */
void ck_buffer_put(struct buffer *b, struct stock *back, bool keep_reports);
/* A piece of a buffer that is dying; false if there is none. */
bool ck_buffer_bury(struct domain *d);
void ck_buffer_touch(struct buffer *b);

/* How often an exit over the range may have to split a claim. */
u64 ck_taint_count_splits(const struct target *t);
static inline u64 ck_taint_splits(const struct target *t)
{
	return t->buffer->claims.count ? ck_taint_count_splits(t) : 0;
}

/* Rule 2: failed and recorded claims dated before @before go. */
void ck_taint_clear(const struct target *t, u64 before, struct stock *st);
/* Rule 3: recorded claims of @w dated before @before go. */
void ck_taint_clear_recorded(const struct target *t, struct window *w,
			     u64 before, struct stock *st);
void ck_taint_fail(const struct target *t, struct failure *f, u64 enter,
		   u64 date, struct stock *st);
void ck_taint_open(const struct target *t, struct scope *s, struct stock *st);
/*
 * Splits the claims dated before @before at the ends of the range, so that a
 * refusal, which happens when nothing can be bought, has nothing to split.
 */
void ck_taint_score(const struct target *t, u64 before, struct stock *st);
/* The open claim becomes an unconfirmed one of @slot, stays where it is. */
void ck_taint_unconfirm(struct claim *c, struct slot *slot, u64 date,
			struct stock *st);
/* Unconfirmed claims of @slot dated before @before go, no others. */
void ck_taint_clear_unconfirmed(const struct target *t, struct slot *slot,
				u64 before, struct stock *st);
/*
 * An unconfirmed claim of what a replay wrote or may have written, or of a
 * buffer's private past. It is dated now, whenever that was: scopes that are open
 * have not paid for the splits of older claims. It is confirmed with the slot's
 * last exit.
 */
void ck_taint_add_unconfirmed(const struct target *t, struct slot *slot,
			      struct stock *st);
/* If the slot has more of them than its limit, those on @b become one. */
void ck_taint_widen(struct buffer *b, struct slot *slot, u64 date,
		    struct stock *st);
/*
 * The claims of the slot for what was done up to @sequence go. @exported: those on
 * exported buffers.
 */
void ck_taint_confirm(struct slot *slot, u64 sequence, bool exported,
		      struct stock *st);
/* They become claims of their device's failure, which has happened. */
void ck_taint_unconfirmed_failed(struct slot *slot);
/* All of the private buffer, from its spare: a scope of zero length failed. */
void ck_taint_whole(struct buffer *b, struct failure *f, u64 tick);
/* The lowest unconfirmed claim on the range of a shared buffer, or NULL. */
const struct claim *ck_taint_unconfirmed(const struct target *t);
/* The open claim becomes a recorded one of @w, stays where it is. */
void ck_taint_record(struct claim *c, struct window *w, u64 date);
/* A recorded claim of work that had no scope. */
void ck_taint_add_recorded(const struct target *t, struct window *w, u64 tick,
			   struct stock *st);
/* Takes the claim off its buffer and list; gives it back to @st. */
void ck_claim_drop(struct claim *c, struct stock *st);
/*
 * @through: the recording window whose writes, and those of its ancestors, hide
 * failed claims, or NULL.
 */
bool ck_taint_find(const struct target *t, const struct window *through,
		   struct fault *fault);
void ck_fault_report(const struct fault *fault, const struct target *t,
		     struct capkm_report *r);
/*
 * The first bytes of the range that nobody has confirmed yet, and who wrote them, or may
 * just do so.
 * @s: the session that holds the buffer if that is private.
 */
bool ck_unconfirmed_report(const struct capkm_session *s,
			   const struct target *t, struct capkm_report *r);
bool ck_taint_busy(const struct target *t);

/* ---- last writers ---- */

/* Who wrote the range last; costs up to ck_writer_cost() claims of @st. */
void ck_writer_set(const struct target *t, u64 session, u64 stream, u64 tick,
		   struct stock *st);
/* Nobody did; costs up to one claim. */
void ck_writer_clear(const struct target *t, struct stock *st);
/* Those of a buffer that is dying go, but no more than @most of them. */
void ck_writers_drop(struct buffer *b, u32 most, struct stock *back);
/* The lowest byte not written after @since, or @t->end; who wrote it, or NULL. */
u64 ck_writer_stale(const struct target *t, u64 since,
		    const struct claim **writer);
static inline bool ck_writer_kept(const struct buffer *b)
{
	return b->shared || b->fresh;
}

/* Claims that keeping the writer of a range may cost: it, and a split. */
static inline u64 ck_writer_cost(const struct buffer *b)
{
	return ck_writer_kept(b) ? 2 : 0;
}

/* ---- sets of claims of a window or graph ---- */

struct use *ck_use_find(const struct id_map *uses, u64 buffer);
struct use *ck_use_get(struct id_map *uses, struct buffer *b,
		       struct graph *g, struct stock *from);
/* Adds the key unless it is there; true if it was added. */
bool ck_use_add(struct range_map *set, u64 start, u64 end, struct stock *from);
/* Frees all uses and their claims; drops their references to buffers. */
void ck_uses_free(struct id_map *uses, struct stock *back, bool keep_reports);
/* The same of about @most of them; true if there are more. */
bool ck_uses_free_some(struct id_map *uses, u32 most, struct stock *back,
		       bool keep_reports);
/* Keeps the claims, drops the references to buffers. */
void ck_uses_forget(struct id_map *uses, struct stock *back,
		    bool keep_reports);
/* The parts of @t that @use->writes does not cover: how many, or adds them. */
u32 ck_use_gaps(const struct use *use, u64 start, u64 end,
		void (*each)(void *ctx, u64 start, u64 end), void *ctx);

/* ---- domains, sessions, clients ---- */

/*
 * So many buffers, claims or other small things are destroyed in one hold of the lock,
 * or few more.
 */
#define PIECE			256u

struct domain {
	struct host_mutex lock;
	struct id_node node;		/* registry.domains; registry.lock */
	u32 refs;			/* registry.lock */
	bool listed;			/* in the registry; registry.lock */
	u64 id;
	u32 uid, gid, mode;
	u64 net;			/* its creator's, capkm_caller.net */
	char name[CAPKM_NAME_MAX + 1];	/* registry.lock */
	bool persistent;
	bool dead;			/* destroyed: calls are -ECANCELED */
	u64 created_ns, defunct_ns;
	u64 defunct_at;			/* the same by host_uptime_ns() */
	u64 limit[CAPKM_LIMITS];
	u64 sequence;			/* the clock of bytes.rst */
	struct host_region *region;	/* of page */
	struct capkm_domain_page *page;	/* what all sessions may see without a call */
	struct link fast_left;		/* buffers that may be fast again */
	u64 next_stream, next_buffer, next_window, next_scope, next_graph,
	    next_failure, next_client, next_ledger;
	struct id_map buffers, windows, scopes, graphs, failures, streams, ledgers;
	/*
	 * Destroyed, and hidden from all that could use them, but too large to be
	 * freed in the same hold of the lock: ck_bury().
	 */
	struct link dying_buffers, dying_graphs;
	struct ledger *ledger;		/* for what windows retain, or NULL */
	struct capkm_usage charged;	/* to all ledgers ever, but for what they inherit */
	u64 stamp;			/* of the last check */
	u64 claims;
	u64 paid;			/* claims that open scopes, replays may add */
	u64 unconfirmed;		/* of these claims */
	u64 writers;			/* ranges of buffer->writers */
	u64 orphans;
	u32 clients_n;			/* living, of all sessions */
	u32 faulted_n;			/* devices of clients, not renewed */
	u32 replaying;
	struct host_waitq waitq;	/* window_wait, read, poll */
	struct event *events;		/* a ring; see event.c */
	u64 events_total;
	u64 events_plain;		/* of these, not of failures */
	u64 events_told;		/* to the host: failures', too */
	u32 events_max;
	u32 failure_readers;		/* sessions that want events of failures */
	struct link sessions;		/* in the order of their ids */
	struct id_map session_ids;	/* the same, to find one */
	u32 sessions_n;
	u64 members_changed;		/* sessions and clients that came or went */
	struct link history;		/* struct window, newest last */
	u32 history_n;
	u64 history_total;
	u64 sealed, given_up;		/* of these: a graph, or a part of one; or not */
	struct link reports;		/* struct failure, newest last */
	u32 reports_n;
	u64 reports_total;
};

struct capkm_session {
	struct domain *domain;		/* set once by attach, under lock */
	struct host_mutex attach_lock;	/* serialises attaching */
	u64 id;
	struct id_node node;		/* domain->session_ids */
	struct link sib;		/* domain->sessions */
	u32 rights;
	u32 max_streams;
	u32 backend;
	struct id_map holds;
	struct hold *recent[RECENT];	/* of them, by the low bits of the id; or NULL */
	struct link streams;
	u64 streams_n;
	struct link ledgers;		/* that it holds */
	struct link clients;		/* attach_lock, and the domain's once it has one */
	u32 clients_n;			/* living */
	u32 clients_all;		/* those that have ended and are kept, too */
	bool shared;			/* it has had a second client */
	bool leaving;			/* nobody will use it any more */
	bool wants_failures;		/* events of them */
	u64 attached_ns;
	u64 events_read;		/* number of the last one */
	u64 plain_read;			/* of those, not of failures */
	u64 events_lost;		/* before the next one */
	u64 entered, skipped, failed;	/* scopes and replays of its clients, so far */
	struct stock stock;
	struct fast *fast;		/* set once, by SCOPE_TABLE, or NULL */
};

struct client {
	struct link sib;		/* session->clients */
	struct capkm_session *session;
	u64 id;				/* of the domain, 0 before there is one */
	struct who who;
	const void *image;
	u64 since_ns;
	bool dead;
	u32 calls;			/* under way: they may have dropped the lock */
	struct link scopes, windows, graphs;
	u32 scopes_n, windows_n, graphs_n;
	u32 recording_n;		/* windows in CAPTURE */
	u64 unconfirmed_n;		/* claims of its slots */
	u64 confirms;			/* that moved a slot's since, so far */
	struct id_map slots;
	struct slot *recent;		/* of them, that was looked for last; or NULL */
	struct link devices;
	u32 devices_n;
	struct link dirty;		/* slots with unconfirmed work, by since */
};

/* A client's context on a device. */
struct client_device {
	struct link sib;		/* client->devices */
	struct client *client;
	u8 uuid[16];
	u32 index;			/* high half of the ids of its slots */
	u64 epoch;			/* faults so far */
	bool faulted;			/* and not renewed */
	struct failure *fault;		/* the last one, or NULL; pinned */
	/*
	 * What its unconfirmed claims will carry if it faults or the client
	 * ends; and the note of that. Bought before work can enter.
	 */
	struct failure *latent;
	struct note *note;
};

/* An error that waits to be flushed. It pins the failure, and is no node. */
struct note {
	struct link sib;		/* slot->notes or ->shared, oldest first */
	struct id_node node;		/* slot->owners: its owner's oldest */
	struct link owned;		/* the notes of one owner, round */
	u32 count;			/* of them, if this is the oldest */
	bool shared;			/* for anybody */
	u64 number;
	u64 owner;			/* stream */
	struct failure *failure;
};

struct stream {
	struct id_node node;		/* domain->streams */
	struct link sib;		/* session->streams */
	struct capkm_session *session;
	char label[CAPKM_LABEL_MAX + 1];
};

struct slot {
	struct id_node node;		/* client->slots: device index, index */
	struct client *client;
	struct client_device *device;
	u32 index;
	struct window *window;		/* that holds the slot */
	u64 scopes;			/* open on it, and replays */
	u64 sequence;			/* of the last exit */

	struct window *member;		/* that it is a member of */
	struct link member_sib;		/* member->members */
	u64 member_stream, member_launches;

	struct link unconfirmed;	/* claims, by date */
	u64 unconfirmed_n;
	struct link dirty;		/* client->dirty while since is not 0 */
	u64 since;			/* bytes.rst, Unconfirmed private buffers */
	u64 last;			/* tick of the last unconfirmed exit */
	u64 confirmed;
	u64 settled;			/* last, when nothing was left unconfirmed */
	u64 fast;			/* the last fast exit that we know of */
	u64 finished;			/* the same, of finished work */
	struct capkm_status_slot *status; /* if it has a slot number, or NULL */

	struct link notes, shared;
	struct id_map owners;
	u32 notes_n, notes_shared;
	u64 notes_total, notes_dropped;
};

struct window {
	struct id_node node;		/* domain->windows until it is closed */
	struct link sib;		/* client->windows, or domain->history */
	u64 remembered;			/* ordinal in the history */
	struct client *client;		/* NULL once it is closed or orphaned */
	struct slot *slot;		/* that it holds, or NULL */
	u32 refs;			/* the table or history, bound scopes */
	u32 state, verdict;
	u64 closer;			/* stream that ended it */
	bool strict;
	struct window *parent;		/* NULL once this one is closed */
	struct link child_sib;		/* parent->children */
	struct link children;
	u32 children_n, depth;
	struct link members;		/* struct slot */
	u32 members_n;
	u64 parent_id;
	u64 escaped;
	bool lost;			/* its device has faulted */
	struct who opener;		/* its stream is the owner */
	u64 cookie, graph;
	u8 device[16];
	u32 slot_index;
	u64 scopes;			/* open scopes bound to it */
	struct id_map uses;
	struct link claims;		/* RECORDED claims */
	u64 recorded, bytes, inputs, seen;
	u64 pending;			/* that open scopes may still add */
	u64 launches, foreign_launches;
	struct link retained;
	u64 retained_n, retained_bytes;
	u64 taken_buffer, taken_start, taken_end; /* what TAKE gave out last */
	struct link *taken_retained;
	bool taken_failure;
	struct failure *first, *last;	/* pinned */
	u64 failures, failed_after;
	struct failure *refusal;	/* pinned; bought by PREPARE */
	bool refused;
	struct stock stock;		/* what its refusal may need */
	u64 prepared_ns, begun_ns, closed_ns;
	char mode[CAPKM_MODE_MAX + 1];
};

struct retained {
	struct link sib;
	struct capkm_retained data;
};

struct scope {
	struct id_node node;		/* domain->scopes */
	u64 id;				/* that its client has been given */
	struct link sib;		/* client->scopes */
	struct client *client;
	struct slot *slot;
	struct window *window;		/* recording at the enter, or NULL */
	struct link claims;		/* OPEN claims */
	struct link inputs;		/* claims not yet added to the window */
	struct fast_entry *entry;	/* that it was entered in, if it was fast */
	struct failure *poison;		/* what its inputs carry; pinned */
	struct need promised;		/* of its session's stock, for its exit */
	u64 paid;			/* claims that its exit may add, of the domain's */
	u64 keys;			/* of these, for the sets of its window */
	u64 epoch;			/* of the device at the enter */
	u64 enter;
	u64 stream;
	char label[CAPKM_LABEL_MAX + 1];
};

struct graph {
	struct id_node node;		/* domain->graphs */
	struct link sib;		/* client->graphs, or domain->dying_graphs */
	struct client *client;		/* NULL while it is dying */
	struct id_map uses;
	struct link busy;		/* uses whose buffers have claims */
	struct link tracked;		/* uses whose buffers are shared or fresh */
	bool keep_reports;		/* of its buffers, while it is dying */
	u64 dirty;			/* the last replay that left it unconfirmed */
	u64 window, owner, cookie;
	struct link retained;
	u64 retained_n, retained_bytes;
	u64 writes, inputs, seen;
	bool no_inputs;
	struct slot *slot;		/* while it is replayed */
	u64 enter, epoch;		/* of the replay */
	u64 paid;			/* ranges that it may add, of the domain's */
	u64 touched;			/* sequence of the last begin or end */
	u64 stream;			/* of the replay */
	struct failure *failure;	/* of the replay; pinned */
	struct stock stock;		/* what a failing replay needs */
	u64 replays, failed_replays, updates, failed_updates;
};

struct ledger {
	struct id_node node;		/* domain->ledgers */
	struct link sib;		/* holder->ledgers */
	struct capkm_session *holder;	/* NULL once it has gone */
	struct who who;			/* client that made it, or adopted it last */
	u64 parent;			/* that it was forked from, or 0 */
	u32 flags;			/* CAPKM_LEDGER_F_* */
	u32 on_limit;
	struct capkm_usage per_step, cumulative, inherited;
	struct capkm_usage step, total;	/* never above their limits, but see ledger.c */
	u64 steps, reserved, refused;
	bool told;			/* readers know of a refusal in this step */
	u64 created_ns;
	char label[CAPKM_LABEL_MAX + 1];
};

/* Every change begins with one, so this is where the lock is asserted. */
static inline u64 ck_tick(struct domain *d)
{
	host_assert_held(&d->lock);
	d->sequence += CAPKM_SEQUENCE_STEP;
	host_store(&d->page->sequence, d->sequence);
	return d->sequence;
}

/* ---- the fast path: fast.c ---- */

/*
 * Before anybody looks at the buffer, or changes it: what was promised of it is taken
 * back, and what fast scopes did to it is known. @why: enum capkm_fast_transition.
 */
void ck_fast_take_back(struct buffer *b, u32 why);
static inline void ck_fast_leave(struct buffer *b, u32 why)
{
	if (b->has_word)
		ck_fast_take_back(b, why);
}

/* The same of all scopes of the session; none can enter until the call ends, or for good. */
void ck_fast_stop(struct capkm_session *s, u32 why);
void ck_fast_end(struct capkm_session *s, u32 why);
/* What fast scopes have left unconfirmed on the slots of the session is known. */
void ck_fast_fold_all(struct capkm_session *s);
static inline void ck_fast_fold(struct capkm_session *s)
{
	if (s->fast)
		ck_fast_fold_all(s);
}

/* The same of one, once a tick is out: what is not known then is later. */
void ck_fast_fold_slot(struct slot *slot);
/* Something of the buffer has changed that may have kept it from being fast. */
void ck_fast_changed(struct buffer *b);
/* Whoever only looked is done; if it may be fast, it is. */
void ck_fast_back(struct buffer *b);
/* A call ends: what may be fast again is. */
void ck_fast_return_some(struct domain *d, struct capkm_session *s);
static inline void ck_fast_return(struct domain *d, struct capkm_session *s)
{
	if (s->fast || !link_empty(&d->fast_left))
		ck_fast_return_some(d, s);
}

/* Is there room for the word of a new buffer? Then it gets an index, if one is free. */
bool ck_fast_has_room(const struct capkm_session *s, u64 buffer);
bool ck_fast_fill(struct capkm_session *s, u64 buffer);	/* without the lock */
void ck_fast_add(struct capkm_session *s, struct buffer *b);
/* The session does not hold it any more. */
void ck_fast_forget(struct buffer *b);
void ck_fast_free(struct fast *f);
/* The scope with the id of a fast one, which is an ordinary one now, or NULL. */
struct scope *ck_fast_scope(struct capkm_session *s, u64 id);
void ck_fast_left(struct scope *s);	/* the end of one that was fast, or not */
/* Open fast scopes; NULL: of all slots. So far entered ones: the program says so. */
u32 ck_fast_open(const struct capkm_session *s, const struct slot *slot);
u64 ck_fast_entered(const struct capkm_session *s);
/* A scope in a text: the bit of a fast one is a word. */
#define CK_SCOPE_FMT	"%sscope %llu"
#define CK_SCOPE_ARG(id)						\
	(id) & CAPKM_SCOPE_FAST ? "fast " : "",				\
	(unsigned long long)((id) & ~CAPKM_SCOPE_FAST)
/* A stream of the session is no more. */
void ck_fast_stream_gone(struct capkm_session *s);
/* The state of the slot has changed. */
void ck_slot_publish(const struct slot *slot);
/*
 * A sequence with everything before it, fast exits too, and nothing after it. @last: of
 * the fast exits that matter; ck_fast_last(): all that leave something unconfirmed.
 */
u64 ck_sample(struct domain *d, u64 last);
u64 ck_fast_last(const struct capkm_session *s);

/* ---- devices, confirmation, faults: device.c ---- */

/* The client's context on a device, or NULL. */
struct client_device *ck_device_find(const struct client *c, const u8 *uuid);
/* 0, 1 look again (the lock was dropped), or an error. Made on first use. */
int ck_device_get(struct call *call, const u8 *uuid, struct client_device **out);
void ck_device_free(struct client_device *dev);
/* A scope or replay has left work on the slot that is not confirmed. */
void ck_slot_dirtied(struct slot *slot, u64 tick);
/* The same of several fast ones, the first and the last. */
void ck_slot_dirtied_since(struct slot *slot, u64 first, u64 last);
/* A slot through which the private buffer is unconfirmed, or NULL. */
struct slot *ck_buffer_dirty_slot(const struct buffer *b,
				  const struct client *c);
/* The client ends: what it has not confirmed is tainted. */
void ck_client_unconfirmed(struct client *c, u64 tick);
/* The failure that work carries whose device has faulted since, or NULL. */
struct failure *ck_device_failed(const struct client_device *dev, u64 epoch);

/* ---- queues of errors: flush.c ---- */

/* @note is bought. @shared: for anybody, whoever @owner is. */
void ck_note(struct slot *slot, struct note *note, struct failure *f,
	     u64 owner, bool shared, struct stock *back);
void ck_notes_disown(struct slot *slot, u64 owner, struct stock *back);
void ck_notes_free(struct slot *slot);
u32 ck_notes_for(const struct slot *slot, u64 owner);

/* ---- sharing: device.c, buffer.c ---- */

/* What it costs that the buffer becomes shared; then, in a new tick, make it so. */
void ck_share_need(const struct buffer *b, struct client *c,
		   struct need *need);
void ck_share(struct buffer *b, struct client *c, struct stock *st);
/* Nothing private is left to remember. */
void ck_buffer_set_shared(struct buffer *b, struct stock *back);
/* The client whose unconfirmed work private buffers of the session remember. */
struct client *ck_session_first_client(struct capkm_session *s);

/* The first session of the domain with at least that id, or NULL. */
struct capkm_session *ck_session_from(const struct domain *d, u64 id);
struct client *ck_session_find_client(struct capkm_session *s,
				      const struct capkm_caller *who);
static inline bool ck_client_is(const struct client *c,
				const struct capkm_caller *who)
{
	return c->who.proc == who->proc && c->image == who->image;
}

/* A living client, else a dead one: who has ended may have joined again. */
static inline struct client *ck_session_client(struct capkm_session *s,
					       const struct capkm_caller *who)
{
	struct client *first = link_first(&s->clients, struct client, sib);

	return likely(ck_client_is(first, who) && !first->dead) ? first :
	       ck_session_find_client(s, who);
}

/* Without a domain, too: is @who one of the session's clients? */
bool ck_session_opener(const struct capkm_session *s,
		       const struct capkm_caller *who);
void ck_client_end(struct client *c);
void ck_client_fill(const struct client *c, struct capkm_client_view *v);
void ck_session_fill(struct capkm_session *s, struct capkm_session_view *v);
/* A piece of the buffers that a session holds which has ended; false if it has none. */
bool ck_session_drop_holds(struct capkm_session *s);

/* A call looks for its few buffers again and again. */
struct hold *ck_session_find_hold(struct capkm_session *s, u64 id);
static inline struct hold *ck_session_hold(struct capkm_session *s, u64 id)
{
	struct hold *h = s->recent[id % RECENT];

	return likely(h && h->node.id == id) ? h : ck_session_find_hold(s, id);
}

/* The range of a buffer that a claim names; for those who do not look at its bytes. */
static inline int ck_session_range(struct capkm_session *s,
				   const struct capkm_claim *claim,
				   struct target *t)
{
	const struct hold *h = ck_session_hold(s, claim->buffer);

	if (!h)
		return -ENOENT;
	if (claim->start > claim->end || claim->end > h->buffer->size)
		return -EINVAL;
	t->buffer = h->buffer;
	t->start = claim->start;
	t->end = claim->end;
	return 0;
}

/* The same for those who do. */
static inline int ck_session_target(struct capkm_session *s,
				    const struct capkm_claim *claim,
				    struct target *t)
{
	int err = ck_session_range(s, claim, t);

	if (!err)
		ck_fast_leave(t->buffer, CAPKM_FAST_NAMED);
	return err;
}

/* Is it the session's own id, or one that it was given? */
int ck_stream_check(struct capkm_session *s, u64 stream);
/* NULL: the client has never used it. */
struct slot *ck_slot_at(struct client *c, const u8 *uuid, u32 index);
int ck_slot_find(struct client *c, const struct capkm_place *place, u32 flags,
		 struct slot **out, u32 *index);
int ck_slot_get(struct call *call, const struct capkm_place *place, u32 flags,
		struct slot **out);
void ck_slot_free(struct slot *slot);
bool ck_place_empty(const struct capkm_place *place);
/* The window on the slot, or that it is a member of; enum capkm_window_state. */
struct window *ck_slot_window(const struct slot *slot, u32 *state);

struct domain *ck_domain_find(u64 id);	/* takes a reference; no lock held */
/* The same for who has no session: NULL also for one that is not there for him. */
struct domain *ck_domain_find_for(u64 id, const struct capkm_caller *who);
/* The first from @id up to @last; the same. */
struct domain *ck_domain_next(u64 id, u64 last);
/*
 * The newest by now: who walks the domains goes no further, so that users who make them
 * all the time do not keep him.
 */
u64 ck_domain_last(void);
u64 ck_domains_changes(void);		/* that were listed or unlisted; the same */
/* The lowest user from *@uid up that has domains, and how many; the same. */
bool ck_domains_of(u64 *uid, u64 *domains, u64 *defunct);
void ck_bury_all(struct domain *d);
/* Frees what is dying; lets go of the lock now and then, so nothing may be kept over it. */
static inline void ck_bury(struct domain *d)
{
	if (!link_empty(&d->dying_graphs) || !link_empty(&d->dying_buffers))
		ck_bury_all(d);
}

/* Forgets the oldest, down to the limits. */
void ck_domain_trim(struct domain *d);
/* How it is may have changed. */
void ck_domain_publish(struct domain *d);
void ck_domain_put(struct domain *d);	/* no lock held */
u32 ck_domain_rights(const struct domain *d, const struct capkm_caller *who);
bool ck_domain_readable(const struct domain *d, const struct capkm_caller *who);
void ck_domain_fill(struct domain *d, const struct capkm_session *s,
		    const struct capkm_caller *who,
		    struct capkm_domain_query *q);
/*
 * The last session has left, or the last orphan: with the lock held, true if
 * nothing keeps the domain. Then, without it, ck_domain_unlist().
 */
bool ck_domain_idle(struct domain *d);
void ck_domain_unlist(struct domain *d);

void ck_buffer_fill(const struct buffer *b, struct capkm_buffer_query *q);
/* Or NULL if it has gone. */
struct capkm_session *ck_buffer_creator(const struct buffer *b);

/* ---- ranges that a call names ---- */

/*
 * Are all claims good? Then their targets are known, until the lock is dropped.
 * @base: number of the first, for @bad, which gets the number of the first that is
 * not. @writes: is there memory to write to?
 */
int ck_targets_check(struct call *c, const struct array *claims, u32 base,
		     bool writes, u32 *bad);
/*
 * Adds what the exit of a scope over @writes needs; -ENOSPC if the domain has
 * no room for that many claims.
 */
int ck_targets_need(struct call *c, const struct array *writes,
		    struct need *need);
/*
 * A scope of zero length over the claims, in this tick. @f: what they carry, or
 * NULL: they were written well.
 */
void ck_targets_taint(struct call *c, const struct array *claims,
		      struct failure *f);

/* ---- windows, scopes, graphs ---- */

/* Do the client's windows have one, which opens and closes in two calls? */
bool ck_has_driver(const struct client *c);
/* Is a driver opening or closing the window that holds @slot? */
bool ck_slot_driver_at_work(const struct slot *slot);
/* A window of the calling client, by id: any, or one that is CLOSING. */
int ck_window_own(struct call *c, u64 id, struct window **out);
int ck_window_closing(struct call *c, u64 id, struct window **out);
/* A graph of the calling client. */
int ck_graph_own(struct call *c, u64 id, struct graph **out);
/* Adds what recording the claims in @w needs on top. */
int ck_window_need(struct call *c, const struct window *w,
		   const struct array *reads, const struct array *writes,
		   struct need *need);
/*
 * Recorded work writes the range; reads it; reads it, and nothing before had
 * written any of it.
 */
void ck_window_wrote(struct window *w, struct buffer *b, u64 start, u64 end,
		     struct stock *st);
void ck_window_read(struct window *w, struct buffer *b, u64 start, u64 end,
		    struct stock *st);
void ck_window_input(struct window *w, struct buffer *b, u64 start, u64 end,
		     struct stock *st);

bool ck_window_doomed(const struct window *w);	/* it can only be refused */
bool ck_window_recording(const struct window *w);
void ck_window_doom(struct window *w, struct failure *f, struct stock *back);
void ck_window_refuse(struct domain *d, struct window *w, u32 kind, s32 code,
		      const char *text, u32 len, struct stock *back);
void ck_window_close(struct domain *d, struct window *w, u32 state,
		     struct stock *back);
void ck_window_orphan(struct domain *d, struct window *w, struct stock *back);
void ck_window_abandon(struct domain *d, struct window *w, struct stock *back);
/* Refused unless it is only prepared, kind ABORTED, and closed. */
void ck_window_abort(struct domain *d, struct window *w, struct stock *back);

/* ---- members, children, escaped work: member.c ---- */

void ck_member_leave(struct slot *slot);
/* Its owner, or one that has joined it. */
bool ck_window_has_stream(const struct window *w, u64 stream);
void ck_members_leave(struct window *w);
/* The window that records on the slot, its own or that it joined, or NULL. */
struct window *ck_slot_recording(const struct slot *slot);
/* A child that has begun and is not sealed suspends it; NULL if none has. */
struct window *ck_window_suspender(const struct window *w);
/* How many strict windows work of @stream on the slot would doom. */
u32 ck_escape_dooms_any(const struct client *c, const struct slot *slot,
			u64 stream);
static inline u32 ck_escape_dooms(const struct client *c,
				  const struct slot *slot, u64 stream)
{
	return c->recording_n ? ck_escape_dooms_any(c, slot, stream) : 0;
}

/* A window without children: @w, or one below it. */
struct window *ck_window_deepest(struct window *w);
/* The parent lets go of a child that is sealed or refused. */
void ck_child_leave(struct window *w);
/* What it costs that the parent takes in the sealed child; then do it. */
int ck_child_need(struct call *c, const struct window *w, struct need *need);
void ck_child_sealed(struct window *w, struct stock *st);

void ck_window_put(struct window *w, struct stock *back);
/* Any that is open or remembered, or NULL. */
struct window *ck_window_find(const struct domain *d, u64 id);
void ck_window_fill(const struct window *w, struct capkm_window_query *q);
/* The sets of @w's open scopes count as recorded (it is closed over them). */
void ck_scopes_count_recorded(struct window *w);
/* What a failing replay needs while nothing else is on its buffers. */
struct need ck_graph_need(u64 claims, u64 buffers);
void ck_graph_fill(const struct graph *g, struct capkm_graph_query *q);
/* A new one of the client, without content. */
void ck_graph_init(struct domain *d, struct graph *g, struct client *client);
/* The uses, retained bytes and counts of @w become those of @g, which has none. */
void ck_graph_from_window(struct graph *g, struct window *w);
/* What it gained by clearing the claims of others does not pile up there. */
void ck_graph_give_excess(struct graph *g, struct stock *back);
/* Takes them from it again. */
void ck_graph_strip(struct graph *g, struct stock *back, bool keep_reports);
void ck_scope_tear(struct domain *d, struct scope *s, u64 tick,
		   struct stock *back);
/* Its client ends: a replay that is under way is torn, then it goes. */
/* True if a replay was torn. */
bool ck_graph_end(struct domain *d, struct graph *g, u64 tick,
		  struct stock *back);
/* It is hidden at once; if it has many claims, ck_bury() frees them. */
void ck_graph_free(struct domain *d, struct graph *g, struct stock *back,
		   bool keep_reports);
/* A piece of a graph that is dying; false if there is none. */
bool ck_graph_bury(struct domain *d);
/*
 * Is a byte of the range written by a replay that is under way? It is the lowest
 * one that such a graph writes.
 */
struct graph *ck_graph_writing(const struct target *t, u64 *start, u64 *end);
/* The same of what such a graph was seen to be given: it may write that. */
struct graph *ck_graph_seeing(const struct target *t, u64 *start, u64 *end);
/* The last begin or end of a replay of any graph that writes to @b. */
u64 ck_graph_touched(const struct buffer *b);

/* ---- ledgers ---- */

/* Charges the domain's ledger, if there is one, with what a window retains. */
int ck_ledger_retain(struct call *c, u64 bytes);
void ck_ledger_fill(const struct domain *d, const struct ledger *l,
		    struct capkm_ledger_view *v);
/* What all of them were charged with on the axis of a CAPKM_LIMIT_LEDGER_*. */
u64 ck_ledgers_charged(const struct domain *d, u32 limit);
/* Nobody holds those of the session any more. */
void ck_ledgers_leave(struct capkm_session *s);
void ck_ledgers_free(struct domain *d);

/* ---- events ---- */

struct event_of {
	const struct who *who;		/* client, session, stream; or NULL */
	const struct window *window;
	const struct failure *failure;
	const u8 *device;
	u64 graph, count, ledger;
	u32 kind, axis, bound;
};

int ck_events_init(struct domain *d);
void ck_events_free(struct domain *d);
/* Tells the readers of the domain. Allocates nothing. */
void ck_event(struct domain *d, u32 type, const struct event_of *of);
void ck_event_window(struct domain *d, struct window *w, u32 type,
		     const struct failure *f);
void ck_event_failure(struct domain *d, u32 type, const struct failure *f);
/* How many the session has not read; *@lost: those that it cannot any more. */
u64 ck_events_unread(struct capkm_session *s, u64 *lost);

/* ---- limits ---- */

u64 ck_limit_default(u32 limit);
/* Is one more than @used too many? 0, or -EDQUOT or -ENOSPC, and says which. */
int ck_limit(struct call *c, const struct domain *d, u32 limit, u64 used);
/* The same, for one that is known to be reached. */
int ck_limit_reached(struct call *c, u32 limit);
/* The defaults, and what the caller asked for. */
int ck_limits_init(struct call *c, struct domain *d,
		   const struct array *values);
u32 ck_limits_fill(const u64 *limits, struct array *out);

/* ---- calls ---- */

#define CALL_ARRAYS	5

struct array {
	void *data;
	struct target *target;	/* of claims: by ck_targets_check() */
	u32 len;	/* elements there are, or there is room for */
	u32 used;	/* out: elements to copy out */
};

struct call {
	struct capkm_session *session;
	const struct capkm_caller *who;
	struct domain *domain;		/* locked, unless the op is unattached */
	struct client *client;		/* for ops that need one */
	void *arg;			/* the op's struct */
	struct array array[CALL_ARRAYS];
	bool say_error;			/* out_error_index or out_state is set */
	u32 limit;			/* enum capkm_limit that is reached */
};

/*
 * Makes sure that the session's stock holds @need. 0: it did. 1: it does now,
 * but the lock was dropped: look at everything again. Else an error.
 */
int ck_call_buy_now(struct call *c, const struct need *need);
static inline int ck_call_buy(struct call *c, const struct need *need)
{
	return ck_stock_has(&c->session->stock, need) ? 0 :
	       ck_call_buy_now(c, need);
}

/* -ENOSPC if the domain has no room for so many claims more. */
static inline int ck_domain_room(struct call *c, u64 claims)
{
	const struct domain *d = c->domain;
	const u64 max = d->limit[CAPKM_LIMIT_RANGES];
	const u64 used = d->claims + d->paid + d->writers;

	return used <= max && claims <= max - used ? 0 :
	       ck_limit_reached(c, CAPKM_LIMIT_RANGES);
}

/* A zeroed object, bought with the lock dropped; NULL and *err if not. */
void *ck_call_alloc(struct call *c, size_t bytes, int *err);

/* Counts work in all windows that it escapes, and dooms the strict ones. */
void ck_escape_all(struct call *c, const struct slot *slot, u64 stream);
static inline void ck_escape(struct call *c, const struct slot *slot, u64 stream)
{
	if (c->client->recording_n)
		ck_escape_all(c, slot, stream);
}

#define CAPKM_OPS(op)							\
	op(info) op(domain_create) op(domain_attach) op(domain_query)	\
	op(domain_destroy) op(stream_create) op(stream_query)		\
	op(buffer_create) op(buffer_export) op(buffer_open)		\
	op(buffer_close) op(buffer_reset) op(buffer_query)		\
	op(window_prepare) op(window_begin) op(window_end)		\
	op(window_seal) op(window_refuse) op(window_take)		\
	op(window_record) op(window_abort) op(window_fail)		\
	op(window_retain) op(window_query) op(window_list)	\
	op(window_abandon)						\
	op(scope_enter) op(scope_exit) op(check) op(taint) op(written)	\
	op(graph_replay_begin) op(graph_replay_end) op(graph_destroy)	\
	op(graph_query) op(failure_query)				\
	op(session_join) op(stream_destroy) op(stream_confirm)		\
	op(stream_fault) op(stream_flush) op(context_renew)		\
	op(window_join) op(window_wait) op(graph_update)		\
	op(device_fault) op(refuse)					\
	op(ledger_create) op(ledger_begin_step) op(ledger_reserve)	\
	op(ledger_query) op(ledger_fork) op(ledger_adopt)		\
	op(ledger_destroy) op(submit) op(scope_table)

#define CAPKM_DECLARE_OP(name) int ck_op_##name(struct call *c);
CAPKM_OPS(CAPKM_DECLARE_OP)
#undef CAPKM_DECLARE_OP

/* What host_trace() calls knows the structs above. */
#ifdef __KERNEL__
#include "../trace.h"
#endif

#endif /* CAPKM_INTERNAL_H */
