// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kill storm. In two lanes, which share buffers and no bytes, processes run
 * random programs of correct calls and are killed at random points. Who has
 * started such a process then looks at each byte of the lane from a session that
 * survives, and knows what it must find: the victim keeps a model of its bytes,
 * by the rules of Documentation/design/bytes.rst, in memory that both share, as
 * it was before the call that it makes and as it will be after it. Meanwhile a
 * third session works on bytes between the lanes and must not notice anything.
 *
 *   CAPKM_TEST_KILLS  how many are killed (2000)
 *   CAPKM_TEST_SEED   what to repeat
 */
#include "process.h"

#include <sched.h>
#include <time.h>

#define KILLS 2000
#define LANES 2
#define BUFFERS 2
#define LANE 20			/* bytes of a lane in each buffer */
#define BYTES ((LANES + 1) * LANE)
#define SLOTS 4			/* streams of a victim, each on a slot of its own */
#define SCOPES 5
#define WINDOWS 4
#define GRAPHS 3
#define CLAIMS 32
#define LOG 24
#define STEPS 400		/* calls of a victim that nobody kills */

/* ---------------------------------------------------------------- the model */

/* What a byte carries; of one client. */
enum what { OPEN, REPLAYED, FAILED, RECORDED, UNCONFIRMED };

struct claim {
	unsigned char what;
	unsigned char ref;	/* scope, graph, window or slot */
	unsigned int enter, date;
};

struct byte {
	unsigned int n;
	struct claim c[CLAIMS];
};

/* A bit for each byte of the lane: LANE for each buffer. */
typedef u_int64_t mask;

struct scope {
	bool used, faulted;
	int slot, window;
	unsigned int enter;
	mask writes, inputs;
	u_int64_t id;
};

enum state { FREE, PREPARED, CAPTURE, CLOSING, REFUSED };

struct window {
	enum state state;
	bool doomed;
	int slot, scopes;
	mask written, inputs;
	u_int64_t id;
};

struct graph {
	bool used, replayed, faulted;
	int slot;
	unsigned int enter;
	mask writes, inputs;
	u_int64_t id;
};

struct model {
	unsigned int now;
	bool faulted;
	struct byte byte[BUFFERS * LANE];
	struct scope scope[SCOPES];
	struct window window[WINDOWS];
	struct graph graph[GRAPHS];
	int member[SLOTS];		/* window that the slot is a member of, or -1 */
	u_int64_t sequence[SLOTS];	/* of the slot */
};

#define FOR_EACH(i, m) for (int i = 0; i < BUFFERS * LANE; i++) if ((m) >> (i) & 1)

static void add(struct byte *b, enum what what, int ref, unsigned int enter,
		unsigned int date)
{
	if (b->n == CLAIMS)
		t_die("a byte has too many claims for the model");
	b->c[b->n++] = (struct claim){ what, ref, enter, date };
}

static bool is_dated(const struct claim *c)
{
	return c->what != OPEN && c->what != REPLAYED;
}

static void remove_open(struct byte *b, enum what what, int ref)
{
	for (unsigned int i = 0; i < b->n; i++)
		if (b->c[i].what == what && b->c[i].ref == ref)
			b->c[i--] = b->c[--b->n];
}

/* Rule 2: all that is older than the enter goes. */
static void remove_older(struct byte *b, unsigned int enter)
{
	for (unsigned int i = 0; i < b->n; i++)
		if (is_dated(&b->c[i]) && b->c[i].date < enter)
			b->c[i--] = b->c[--b->n];
}

/* Rule 2, of a scope of zero length. */
static void at_once(struct model *m, mask writes, bool failed)
{
	unsigned int t = ++m->now;

	FOR_EACH(i, writes) {
		remove_older(&m->byte[i], t);
		if (failed)
			add(&m->byte[i], FAILED, 0, t, t);
	}
}

/* Rule 3: only what the same window has recorded before goes. */
static void record(struct model *m, mask writes, int window, unsigned int enter,
		   unsigned int date)
{
	FOR_EACH(i, writes) {
		struct byte *b = &m->byte[i];

		for (unsigned int j = 0; j < b->n; j++)
			if (b->c[j].what == RECORDED && b->c[j].ref == window &&
			    b->c[j].date < enter)
				b->c[j--] = b->c[--b->n];
		add(b, RECORDED, window, enter, date);
	}
	m->window[window].written |= writes;
}

/* Rule 4. */
static void seal(struct model *m, int window)
{
	for (int i = 0; i < BUFFERS * LANE; i++)
		remove_open(&m->byte[i], RECORDED, window);
}

static bool take_recorded(struct byte *b, int window, struct claim *r)
{
	for (unsigned int i = 0; i < b->n; i++) {
		if (b->c[i].what != RECORDED || b->c[i].ref != window)
			continue;
		*r = b->c[i];
		b->c[i] = b->c[--b->n];
		return true;
	}
	return false;
}

/* Rule 5. */
static void refuse(struct model *m, int window)
{
	struct claim r;

	m->now++;
	for (int i = 0; i < BUFFERS * LANE; i++) {
		struct byte *b = &m->byte[i];

		while (take_recorded(b, window, &r)) {
			for (unsigned int j = 0; j < b->n; j++)
				if (is_dated(&b->c[j]) && b->c[j].date < r.enter &&
				    (b->c[j].what != RECORDED || b->c[j].ref != window))
					b->c[j--] = b->c[--b->n];
			add(b, FAILED, 0, r.enter, r.date);
		}
	}
}

static bool has(const struct byte *b, enum what what)
{
	for (unsigned int i = 0; i < b->n; i++)
		if (b->c[i].what == what)
			return true;
	return false;
}

/* A failed claim that the window does not see through. */
static bool is_tainted(const struct byte *b, int window)
{
	for (unsigned int i = 0; i < b->n; i++) {
		bool hidden = false;

		if (b->c[i].what != FAILED)
			continue;
		for (unsigned int j = 0; window >= 0 && j < b->n; j++)
			if (b->c[j].what == RECORDED && b->c[j].ref == window &&
			    b->c[j].date > b->c[i].date)
				hidden = true;
		if (!hidden)
			return true;
	}
	return false;
}

/* Of the lowest byte that is not clean. */
static unsigned int judge(const struct model *m, mask reads, int window)
{
	FOR_EACH(i, reads) {
		const struct byte *b = &m->byte[i];

		if (has(b, OPEN) || has(b, REPLAYED))
			return CAPKM_IN_PROGRESS;
		if (is_tainted(b, window))
			return CAPKM_SKIPPED;
	}
	return CAPKM_CLEAN;
}

/* After the death of its client a byte is clean if nothing at all is on it. */
static mask tainted_by_death(const struct model *m)
{
	mask bad = 0;

	for (int i = 0; i < BUFFERS * LANE; i++)
		if (m->byte[i].n)
			bad |= 1ull << i;
	return bad;
}

/* ------------------------------------------------------------------ operations */

enum kind {
	ENTER, EXIT, CONFIRM, CONFIRM_DEVICE, PREPARE, BEGIN, JOIN, END, SEAL, REFUSE,
	ABORT, RECORD, REPLAY_BEGIN, REPLAY_END, DESTROY, TAINT, WRITTEN, RESET, FAULT,
	RENEW, KINDS
};

static const char *const kind_names[] = {
	"enter", "exit", "confirm", "confirm-device", "prepare", "begin", "join", "end",
	"seal", "refuse", "abort", "record", "replay-begin", "replay-end", "destroy",
	"taint", "written", "reset", "fault", "renew",
};

enum how { COMPLETE, ENQUEUED, BADLY };

struct op {
	enum kind kind;
	int slot, scope, window, graph;
	enum how how;
	mask reads, writes;
	unsigned int want, got;	/* result of an enter, a seal; is there a failure */
	int rc;
};

/* The window that work on the slot is recorded in, or -1. */
static int recording(const struct model *m, int slot)
{
	if (m->member[slot] >= 0)
		return m->member[slot];
	for (int w = 0; w < WINDOWS; w++)
		if (m->window[w].state == CAPTURE && m->window[w].slot == slot)
			return w;
	return -1;
}

static int window_on(const struct model *m, int slot, enum state state)
{
	for (int w = 0; w < WINDOWS; w++)
		if (m->window[w].state == state && m->window[w].slot == slot)
			return w;
	return -1;
}

static bool is_idle(const struct model *m, int slot)
{
	return m->member[slot] < 0 && window_on(m, slot, PREPARED) < 0 &&
	       window_on(m, slot, CAPTURE) < 0;
}

static int scopes_on(const struct model *m, int slot)
{
	int n = 0;

	for (int s = 0; s < SCOPES; s++)
		n += m->scope[s].used && m->scope[s].slot == slot;
	for (int g = 0; g < GRAPHS; g++)
		n += m->graph[g].replayed && m->graph[g].slot == slot;
	return n;
}

static void let_go(struct model *m, int window)
{
	for (int i = 0; i < SLOTS; i++)
		if (m->member[i] == window)
			m->member[i] = -1;
}

static void close_refused(struct model *m, int window)
{
	refuse(m, window);
	let_go(m, window);
	m->window[window].state = REFUSED;
}

static void doom(struct model *m, int window)
{
	if (window >= 0)
		m->window[window].doomed = true;
}

static void do_enter(struct model *m, struct op *o)
{
	struct scope *s = &m->scope[o->scope];
	int w = recording(m, o->slot);

	o->want = m->faulted ? CAPKM_SKIPPED : judge(m, o->reads, w);
	if (o->want == CAPKM_SKIPPED) {
		at_once(m, o->writes, true);
		doom(m, w);
	}
	if (o->want != CAPKM_CLEAN)
		return;
	*s = (struct scope){
		.used = true, .slot = o->slot, .window = w, .enter = ++m->now,
		.writes = o->writes,
		.inputs = w < 0 ? 0 : o->reads & ~m->window[w].written,
	};
	FOR_EACH(i, o->writes)
		add(&m->byte[i], OPEN, o->scope, s->enter, 0);
	if (w >= 0)
		m->window[w].scopes++;
}

/* Rule 2 for what is left at last. */
static void leave(struct model *m, mask writes, enum what what, int ref,
		  unsigned int enter, int slot, enum how how)
{
	unsigned int t = ++m->now;

	FOR_EACH(i, writes) {
		struct byte *b = &m->byte[i];

		remove_open(b, what, ref);
		remove_older(b, enter);
		if (how == BADLY)
			add(b, FAILED, 0, enter, t);
		if (how == ENQUEUED)
			add(b, UNCONFIRMED, slot, enter, t);
	}
}

static void do_exit(struct model *m, struct op *o)
{
	struct scope *s = &m->scope[o->scope];
	int w = s->window;
	bool bad = o->how == BADLY || s->faulted ||
		   (w >= 0 && m->window[w].state == REFUSED);

	o->want = bad;
	if (w >= 0 && !bad) {
		unsigned int t = ++m->now;

		FOR_EACH(i, s->writes)
			remove_open(&m->byte[i], OPEN, o->scope);
		record(m, s->writes, w, s->enter, t);
		m->window[w].inputs |= s->inputs;
	} else {
		leave(m, s->writes, OPEN, o->scope, s->enter, s->slot,
		      bad ? BADLY : o->how);
		doom(m, w);
	}
	if (w >= 0)
		m->window[w].scopes--;
	s->used = false;
}

/* Rule 9; up to whatever the slot has left so far. */
static void do_confirm(struct model *m, int slot)
{
	for (int i = 0; i < BUFFERS * LANE; i++)
		remove_open(&m->byte[i], UNCONFIRMED, slot);
}

/* Rule 10, on shared buffers. */
static void do_fault(struct model *m)
{
	if (m->faulted)
		return;
	m->faulted = true;
	m->now++;
	for (int i = 0; i < BUFFERS * LANE; i++)
		for (unsigned int j = 0; j < m->byte[i].n; j++)
			if (m->byte[i].c[j].what == UNCONFIRMED)
				m->byte[i].c[j].what = FAILED;
	for (int s = 0; s < SCOPES; s++)
		m->scope[s].faulted = m->scope[s].used;
	for (int g = 0; g < GRAPHS; g++)
		m->graph[g].faulted = m->graph[g].replayed;
	for (int w = 0; w < WINDOWS; w++)
		if (m->window[w].state == CAPTURE || m->window[w].state == CLOSING)
			doom(m, w);
}

static void do_seal(struct model *m, struct op *o)
{
	struct window *w = &m->window[o->window];

	o->want = w->doomed ? CAPKM_REFUSED : CAPKM_CLEAN;
	if (w->doomed) {
		close_refused(m, o->window);
		return;
	}
	seal(m, o->window);
	m->graph[o->graph] = (struct graph){
		.used = true, .writes = w->written, .inputs = w->inputs,
	};
	w->state = FREE;
}

static void do_replay_begin(struct model *m, struct op *o)
{
	struct graph *g = &m->graph[o->graph];

	o->want = judge(m, g->inputs, -1);
	if (o->want == CAPKM_SKIPPED)
		at_once(m, g->writes, true);
	if (o->want != CAPKM_CLEAN)
		return;
	g->replayed = true;
	g->faulted = false;
	g->slot = o->slot;
	g->enter = ++m->now;
	FOR_EACH(i, g->writes)
		add(&m->byte[i], REPLAYED, o->graph, g->enter, 0);
}

static void do_replay_end(struct model *m, struct op *o)
{
	struct graph *g = &m->graph[o->graph];

	o->want = o->how == BADLY || g->faulted;
	leave(m, g->writes, REPLAYED, o->graph, g->enter, g->slot,
	      o->want ? BADLY : o->how);
	g->replayed = false;
}

/* What the call does to the model, and what it must answer. */
static void apply(struct model *m, struct op *o)
{
	struct window *w = &m->window[o->window];

	o->want = 0;
	switch (o->kind) {
	case ENTER:
		do_enter(m, o);
		break;
	case EXIT:
		do_exit(m, o);
		break;
	case CONFIRM:
		do_confirm(m, o->slot);
		break;
	case CONFIRM_DEVICE:
		for (int i = 0; i < SLOTS; i++)
			do_confirm(m, i);
		break;
	case PREPARE:
		*w = (struct window){ .state = PREPARED, .slot = o->slot };
		break;
	case BEGIN:
		w->state = CAPTURE;
		break;
	case JOIN:
		m->member[o->slot] = o->window;
		break;
	case END:
		if (w->scopes)
			doom(m, o->window);
		let_go(m, o->window);
		w->state = CLOSING;
		break;
	case SEAL:
		do_seal(m, o);
		break;
	case REFUSE:
	case ABORT:
		close_refused(m, o->window);
		break;
	case RECORD:
		m->now++;
		w->inputs |= o->reads & ~w->written;
		record(m, o->writes, o->window, m->now, m->now);
		break;
	case REPLAY_BEGIN:
		do_replay_begin(m, o);
		break;
	case REPLAY_END:
		do_replay_end(m, o);
		break;
	case DESTROY:
		m->graph[o->graph].used = false;
		break;
	case TAINT:
		at_once(m, o->writes, true);
		break;
	case WRITTEN:
	case RESET:
		at_once(m, o->writes, false);
		break;
	case FAULT:
		do_fault(m);
		break;
	case RENEW:
		m->faulted = false;
		break;
	case KINDS:
		break;
	}
	/* One that no scope knows of any more is nobody's. */
	for (int i = 0; i < WINDOWS; i++)
		if (m->window[i].state == REFUSED && !m->window[i].scopes)
			m->window[i].state = FREE;
}

/* --------------------------------------------------------------- random programs */

static unsigned int dice;

static int roll(int n)
{
	return rand_r(&dice) % n;
}

static mask some_range(void)
{
	int start = roll(LANE), n = 1 + roll(LANE - start < 6 ? LANE - start : 6);

	return ((1ull << n) - 1) << (start + LANE * roll(BUFFERS));
}

static mask some_ranges(void)
{
	mask m = some_range();

	while (!roll(3))
		m |= some_range();
	return m;
}

#define PICK(i, n, cond) do {						\
	int first_ = roll(n);						\
									\
	(i) = -1;							\
	for (int k_ = 0; k_ < (n); k_++) {				\
		int x_ = (first_ + k_) % (n);				\
									\
		if (cond) {						\
			(i) = x_;					\
			break;						\
		}							\
	}								\
	if ((i) < 0)							\
		return false;						\
} while (0)

static bool is_open(const struct model *m, mask bytes)
{
	FOR_EACH(i, bytes)
		if (has(&m->byte[i], OPEN) || has(&m->byte[i], REPLAYED))
			return true;
	return false;
}

/* A correct call of that kind, if there is one. */
static bool choose(const struct model *m, struct op *o)
{
	o->slot = roll(SLOTS);
	o->how = roll(3);
	o->reads = 0;
	o->writes = some_ranges();
	switch (o->kind) {
	case ENTER:
		PICK(o->scope, SCOPES, !m->scope[x_].used);
		if (!m->faulted && !roll(3))
			o->reads = some_range();
		return true;
	case EXIT:
		PICK(o->scope, SCOPES, m->scope[x_].used);
		return true;
	case CONFIRM:
		return m->sequence[o->slot];
	case PREPARE:
		PICK(o->window, WINDOWS, m->window[x_].state == FREE);
		return !m->faulted && is_idle(m, o->slot);
	case BEGIN:
		PICK(o->window, WINDOWS, m->window[x_].state == PREPARED &&
		     !scopes_on(m, m->window[x_].slot));
		o->slot = m->window[o->window].slot;
		return !m->faulted;
	case JOIN:
		PICK(o->window, WINDOWS, m->window[x_].state == CAPTURE &&
		     !m->window[x_].doomed);
		return is_idle(m, o->slot) && !scopes_on(m, o->slot);
	case END:
		PICK(o->window, WINDOWS, m->window[x_].state == CAPTURE);
		o->slot = m->window[o->window].slot;
		return true;
	case SEAL:
		/* A graph that writes nothing tells nothing. */
		PICK(o->window, WINDOWS, m->window[x_].state == CLOSING &&
		     (m->window[x_].doomed || m->window[x_].written));
		PICK(o->graph, GRAPHS, !m->graph[x_].used);
		return true;
	case REFUSE:
		PICK(o->window, WINDOWS, m->window[x_].state == CLOSING);
		return !roll(4);
	case ABORT:
		PICK(o->window, WINDOWS, m->window[x_].state == PREPARED ||
		     m->window[x_].state == CAPTURE);
		o->slot = m->window[o->window].slot;
		return !roll(4);
	case RECORD:
		PICK(o->window, WINDOWS, m->window[x_].state == CAPTURE &&
		     !m->window[x_].doomed);
		if (!roll(3))
			o->reads = some_range();
		return true;
	case REPLAY_BEGIN:
		PICK(o->graph, GRAPHS, m->graph[x_].used && !m->graph[x_].replayed);
		/* The order in which the inputs are judged is the graph's. */
		return !m->faulted && is_idle(m, o->slot) &&
		       (!is_open(m, m->graph[o->graph].inputs) ||
			judge(m, m->graph[o->graph].inputs, -1) != CAPKM_SKIPPED);
	case REPLAY_END:
		PICK(o->graph, GRAPHS, m->graph[x_].replayed);
		return true;
	case DESTROY:
		PICK(o->graph, GRAPHS, m->graph[x_].used && !m->graph[x_].replayed);
		return !roll(2);
	case RESET:
		o->writes = some_range();
		return !is_open(m, o->writes);
	case FAULT:
		return !roll(8);
	case RENEW:
		return m->faulted;
	default:
		return true;
	}
}

/* ----------------------------------------------------------------------- victims */

/* What a victim shares with who kills it. */
struct shared {
	/* Twice the model that holds, plus 1 while a call makes the other one of it. */
	int state;
	int steps;
	int fd;			/* of its session */
	int wrong;		/* it did not get the answer that it had to */
	char text[128];
	u_int64_t windows;	/* the highest id that it has seen */
	struct model model[2];
	struct op log[LOG];
};

struct lane {
	int nr;
	u_int64_t domain, buffer[BUFFERS];
	struct shared *sh;
	struct cl *a;		/* who looks */
	struct cl *j;		/* his session that victims join */
	int fd;			/* of a victim */
	struct cl *played;	/* a victim on the embedded transport */
};

static int call(const struct lane *l, unsigned int nr, void *arg)
{
	int rc;

	if (!l->played)
		return raw(l->fd, nr, arg);
	t_put32(arg, 0, t_ops[nr].size);
	capkm_test_become(l->played->played);
	rc = capkm_call(l->played->c, nr, arg);
	capkm_test_become(0);
	return rc;
}

static int claims_of(const struct lane *l, mask m, struct capkm_claim *c)
{
	int n = 0;

	for (int b = 0; b < BUFFERS; b++)
		for (int i = 0; i < LANE; i++) {
			u_int64_t at = l->nr * LANE + i;

			if (!(m >> (b * LANE + i) & 1))
				continue;
			if (n && c[n - 1].buffer == l->buffer[b] && c[n - 1].end == at)
				c[n - 1].end++;
			else
				c[n++] = (struct capkm_claim){ l->buffer[b], at, at + 1 };
		}
	return n;
}

#define GPU T_GPU(1)

static u_int64_t stream(int slot)
{
	return GPU | (slot + 1);
}

/* Makes the call; what it answered goes to the op and, for ids, to the model. */
static void perform(const struct lane *l, struct model *m, struct op *o)
{
	struct capkm_claim r[LANE * BUFFERS], w[LANE * BUFFERS];
	unsigned int r_n = claims_of(l, o->reads, r), w_n = claims_of(l, o->writes, w);
	const u_int64_t window = m->window[o->window].id;
	const u_int64_t graph = m->graph[o->graph].id;
	const struct capkm_place place = t_place(stream(o->slot));
	const unsigned int flags = o->how == COMPLETE ? CAPKM_SCOPE_EXIT_F_COMPLETE :
				   o->how == BADLY ? CAPKM_SCOPE_EXIT_F_FAILED : 0;
	const unsigned int kind = o->how == BADLY ? CAPKM_KIND_LAUNCH : 0;

#define CALL(NR, name, ...)						\
	struct capkm_##name a = { __VA_ARGS__ };			\
									\
	o->rc = call(l, CAPKM_NR_##NR, &a)

	switch (o->kind) {
	case ENTER: {
		CALL(SCOPE_ENTER, scope_enter, .place = place, .reads_uptr = r_n ? t_ptr(r) : 0,
		     .reads_len = r_n, .writes_uptr = t_ptr(w), .writes_len = w_n);
		m->scope[o->scope].id = a.out_scope;
		o->got = a.out_result;
		break;
	}
	case EXIT: {
		CALL(SCOPE_EXIT, scope_exit, .scope = m->scope[o->scope].id, .flags = flags,
		     .kind = kind);
		m->sequence[m->scope[o->scope].slot] = a.out_sequence;
		o->got = !!a.out_failure;
		break;
	}
	case CONFIRM: {
		CALL(STREAM_CONFIRM, stream_confirm, .place = place,
		     .sequence = m->sequence[o->slot]);
		o->got = a.out_unconfirmed;
		break;
	}
	case CONFIRM_DEVICE: {
		u_int64_t last = 0;

		for (int i = 0; i < SLOTS; i++)
			if (m->sequence[i] > last)
				last = m->sequence[i];
		CALL(STREAM_CONFIRM, stream_confirm, .place = place, .sequence = last,
		     .flags = CAPKM_STREAM_CONFIRM_F_DEVICE);
		/* A client that has never been on the device. */
		if (o->rc == -ENOENT && !last)
			o->rc = 0;
		else
			o->got = a.out_unconfirmed;
		break;
	}
	case PREPARE: {
		CALL(WINDOW_PREPARE, window_prepare, .place = place);
		m->window[o->window].id = a.out_window;
		break;
	}
	case BEGIN: {
		CALL(WINDOW_BEGIN, window_begin, .place = place);
		break;
	}
	case JOIN: {
		CALL(WINDOW_JOIN, window_join, .place = place, .window = window);
		o->got = a.out_result;
		break;
	}
	case END: {
		CALL(WINDOW_END, window_end, .place = place, .window = window);
		break;
	}
	case SEAL: {
		CALL(WINDOW_SEAL, window_seal, .window = window);
		m->graph[o->graph].id = a.out_graph;
		o->got = a.out_result;
		break;
	}
	case REFUSE: {
		CALL(WINDOW_REFUSE, window_refuse, .window = window);
		break;
	}
	case ABORT: {
		CALL(WINDOW_ABORT, window_abort, .place = place, .window = window);
		break;
	}
	case RECORD: {
		CALL(WINDOW_RECORD, window_record, .window = window,
		     .reads_uptr = r_n ? t_ptr(r) : 0, .reads_len = r_n,
		     .writes_uptr = t_ptr(w), .writes_len = w_n);
		break;
	}
	case REPLAY_BEGIN: {
		CALL(GRAPH_REPLAY_BEGIN, graph_replay_begin, .graph = graph, .place = place);
		o->got = a.out_result;
		break;
	}
	case REPLAY_END: {
		CALL(GRAPH_REPLAY_END, graph_replay_end, .graph = graph, .flags = flags,
		     .kind = kind);
		m->sequence[m->graph[o->graph].slot] = a.out_sequence;
		o->got = !!a.out_failure;
		break;
	}
	case DESTROY: {
		CALL(GRAPH_DESTROY, graph_destroy, .graph = graph);
		break;
	}
	case TAINT: {
		CALL(TAINT, taint, .claims_uptr = t_ptr(w), .claims_len = w_n,
		     .kind = CAPKM_KIND_IO);
		break;
	}
	case WRITTEN: {
		CALL(WRITTEN, written, .claims_uptr = t_ptr(w), .claims_len = w_n);
		break;
	}
	case RESET: {
		CALL(BUFFER_RESET, buffer_reset, .claim = w[0]);
		break;
	}
	case FAULT: {
		CALL(STREAM_FAULT, stream_fault, .place = place);
		break;
	}
	case RENEW: {
		CALL(CONTEXT_RENEW, context_renew, .device[0] = GPU >> 56);
		break;
	}
	case KINDS:
		break;
	}
#undef CALL
}

/* Who kills it says so. */
static void __attribute__((format(printf, 2, 3)))
wrong(struct shared *sh, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(sh->text, sizeof(sh->text), fmt, ap);
	va_end(ap);
	store(&sh->wrong, 1);
}

/* The model that it will be is there before the call. */
static bool step(const struct lane *l, int n)
{
	struct shared *sh = l->sh;
	int cur = sh->state >> 1;
	struct model *m = &sh->model[cur], *next = &sh->model[!cur];
	struct op *o = &sh->log[n % LOG];

	do {
		memset(o, 0, sizeof(*o));
		o->kind = roll(KINDS);
	} while (!choose(m, o));
	*next = *m;
	apply(next, o);
	store(&sh->state, cur << 1 | 1);
	/* What it reads of the model is as before; ids are what the call adds. */
	perform(l, m, o);
	if (o->rc || o->got != o->want) {
		wrong(sh, "%s: %d, result %u, expected %u", kind_names[o->kind], o->rc,
		      o->got, o->want);
		return false;
	}
	memcpy(next->sequence, m->sequence, sizeof(m->sequence));
	for (int i = 0; i < SCOPES; i++)
		next->scope[i].id = m->scope[i].id;
	for (int i = 0; i < WINDOWS; i++)
		next->window[i].id = m->window[i].id;
	for (int i = 0; i < GRAPHS; i++)
		next->graph[i].id = m->graph[i].id;
	if (o->kind == PREPARE)
		sh->windows = m->window[o->window].id;
	store(&sh->state, !cur << 1);
	store(&sh->steps, n + 1);
	return true;
}

static void __attribute__((noreturn)) victim(struct lane *l, bool joins)
{
	struct capkm_domain_attach a = { .domain = l->domain };
	struct capkm_session_join s = { 0 };
	struct shared *sh = l->sh;
	int fd, rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The sessions of who kills it must end with him. */
	fd = joins ? dup(capkm_fd(l->j->c)) : open(t_transport(), O_RDWR | O_CLOEXEC);
	close(capkm_fd(l->a->c));
	close(capkm_fd(l->j->c));
	rc = joins ? raw(fd, CAPKM_NR_SESSION_JOIN, &s) :
		     raw(fd, CAPKM_NR_DOMAIN_ATTACH, &a);
	for (int b = 0; !rc && !joins && b < BUFFERS; b++) {
		struct capkm_buffer_open o = { .buffer = l->buffer[b] };

		rc = raw(fd, CAPKM_NR_BUFFER_OPEN, &o);
	}
	if (rc) {
		wrong(sh, "cannot begin: %d", rc);
		rest();
	}
	l->fd = fd;
	store(&sh->fd, fd);
	for (int n = 0; n < STEPS && step(l, n); n++)
		;
	rest();
}

/* ----------------------------------------------------------------- who kills them */

static void print_log(const struct shared *sh)
{
	for (int n = sh->steps < LOG ? 0 : sh->steps - LOG + 1; n <= sh->steps; n++) {
		const struct op *o = &sh->log[n % LOG];

		fprintf(stderr, "# %d: %s slot %d scope %d window %d graph %d how %d reads %"
			PRIx64 " writes %" PRIx64 " rc %d result %u of %u\n", n,
			kind_names[o->kind], o->slot, o->scope, o->window, o->graph, o->how,
			o->reads, o->writes, o->rc, o->got, o->want);
	}
}

static mask found(struct lane *l)
{
	mask bad = 0;

	for (int i = 0; i < BUFFERS * LANE; i++) {
		u_int64_t at = l->nr * LANE + i % LANE;
		struct t_check c = t_check_flags(l->a, CAPKM_CHECK_F_CONFIRMED, 0,
						 C({ l->buffer[i / LANE], at, at + 1 }));

		if (c.result == CAPKM_CLEAN && !c.unconfirmed)
			continue;
		if (c.result != CAPKM_TAINTED || c.r[0].kind == CAPKM_KIND_IN_PROGRESS)
			t_die("byte %d of a dead client: result %u, kind %u", i, c.result,
			      c.r[0].kind);
		bad |= 1ull << i;
	}
	return bad;
}

static void compare(struct lane *l)
{
	const struct shared *sh = l->sh;
	mask is = found(l), before, after;

	before = tainted_by_death(&sh->model[sh->state >> 1]);
	after = sh->state & 1 ? tainted_by_death(&sh->model[!(sh->state >> 1)]) : before;
	if (sh->wrong || (is != before && is != after)) {
		print_log(sh);
		t_die("lane %d, step %d, in a call %d: %s tainted %" PRIx64 ", expected %"
		      PRIx64 " or %" PRIx64, l->nr, sh->steps, sh->state & 1, sh->text, is,
		      before, after);
	}
}

/* Bytes can be mended by writing, orphans by abandoning. */
static void mend(struct lane *l)
{
	struct capkm_claim c[BUFFERS * LANE];
	int n = claims_of(l, (1ull << BUFFERS * LANE) - 1, c);

	t_write(l->a, 1, c, n);
	for (int i = 0; i < n; i++)
		t_is_confirmed(l->a, c[i].buffer, c[i].start, c[i].end);
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < WINDOWS; i++)
			if (l->sh->model[m].window[i].id)
				t_abandon(l->a, l->sh->model[m].window[i].id);
}

static int steal_fd(int pid, int fd)
{
	int pidfd = syscall(SYS_pidfd_open, pid, 0), copy;

	copy = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	close(pidfd);
	return copy;
}

/* By itself, which is a mistake of the victim's. */
static bool is_dead(int pid)
{
	siginfo_t si = { 0 };

	return waitid(P_PID, pid, &si, WEXITED | WNOHANG | WNOWAIT) || si.si_pid;
}

static void clear(struct shared *sh)
{
	memset(sh, 0, sizeof(*sh));
	for (int m = 0; m < 2; m++)
		for (int i = 0; i < SLOTS; i++)
			sh->model[m].member[i] = -1;
	sh->fd = -1;
}

static int some_steps(void)
{
	return roll(4) ? roll(80) : roll(8);
}

static void kill_one(struct lane *l)
{
	const int steps = some_steps(), spin = roll(3000);
	const unsigned int seed = roll(RAND_MAX);
	bool joins = !roll(3), keeps = !roll(3);
	struct shared *sh = l->sh;
	int pid, status, fd = -1;

	clear(sh);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		t_die("fork: %s", strerror(errno));
	if (!pid) {
		dice = seed;
		victim(l, joins);
	}
	while (load(&sh->steps) < steps && !load(&sh->wrong) && !is_dead(pid))
		sched_yield();
	for (volatile int i = 0; i < spin; i++)
		;
	/* The description lives on. */
	if (keeps && load(&sh->fd) >= 0)
		fd = steal_fd(pid, sh->fd);
	kill(pid, SIGKILL);
	if (waitpid(pid, &status, 0) != pid || WTERMSIG(status) != SIGKILL)
		t_die("a victim died by itself: %x", status);
	compare(l);
	mend(l);
	if (fd >= 0)
		close(fd);
}

static struct cl *survivor(const struct lane *l)
{
	struct cl *cl = t_client();

	t_attach(cl, l->domain);
	for (int b = 0; b < BUFFERS; b++)
		t_open(cl, l->buffer[b]);
	return cl;
}

/* The same in one process, where nobody is killed inside of a call. */
static void play_one(struct lane *l)
{
	int steps = some_steps();

	clear(l->sh);
	l->played = roll(3) ? t_process() : t_join_session(l->j);
	if (!l->played->domain) {
		t_attach(l->played, l->domain);
		for (int b = 0; b < BUFFERS; b++)
			t_open(l->played, l->buffer[b]);
	}
	for (int n = 0; n < steps && step(l, n); n++)
		;
	t_kill(l->played);
	compare(l);
	mend(l);
}

static void __attribute__((noreturn)) run_lane(struct lane *l, int kills)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	l->sh = mmap(NULL, sizeof(*l->sh), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l->sh == MAP_FAILED)
		t_die("no memory");
	l->a = survivor(l);
	l->j = survivor(l);
	while (kills--)
		kill_one(l);
	t_close(l->j);
	t_close(l->a);
	/* Not through the harness. */
	_exit(0);
}

/* -------------------------------------------------------------------------- test */

FIXTURE(storm)
{
};

FIXTURE_SETUP(storm)
{
}

FIXTURE_TEARDOWN(storm)
{
}

static void work_between(struct cl *a, const u_int64_t *buffer)
{
	for (int b = 0; b < BUFFERS; b++) {
		t_write(a, 1, C({ buffer[b], LANES * LANE, BYTES }));
		t_is_confirmed(a, buffer[b], LANES * LANE, BYTES);
	}
}

#define IS_EMPTY(a, buffers) do {						\
	struct capkm_domain_query d_ = t_domain_query(a);		\
									\
	EXPECT_EQ(1, d_.out_clients);					\
	EXPECT_EQ(0, d_.out_orphans);					\
	EXPECT_EQ(0, d_.out_windows);					\
	EXPECT_EQ(0, d_.out_failures);					\
	EXPECT_EQ(0, d_.out_claims);					\
	EXPECT_EQ(0, d_.out_graphs);					\
	EXPECT_EQ(0, d_.out_scopes);					\
	EXPECT_EQ(0, d_.out_faulted);					\
	EXPECT_EQ(0, d_.out_unconfirmed);				\
	for (int b_ = 0; b_ < BUFFERS; b_++)				\
		EXPECT_EQ(0, t_drop(a, (buffers)[b_]));			\
	t_is_empty(a);							\
} while (0)

static struct lane new_domain(struct cl *a)
{
	struct lane l = { .a = a, .domain = t_domain(a) };

	for (int b = 0; b < BUFFERS; b++)
		l.buffer[b] = t_shared(a, BYTES);
	return l;
}

#define PLAYED 500

/* Whether the model is right can be seen without a kernel. */
TEST_F_TIMEOUT(storm, played, 280)
{
	const int n = t_param("CAPKM_TEST_PLAYED", PLAYED, 0);
	struct lane l;

	if (!t_embedded())
		SKIP(return, "plays processes");
	dice = t_param("CAPKM_TEST_SEED", time(NULL), 0);
	TH_LOG("seed %u", dice);
	l = new_domain(t_client());
	l.j = survivor(&l);
	l.sh = calloc(1, sizeof(*l.sh));
	for (int i = 0; i < n; i++) {
		l.nr = i % LANES;
		play_one(&l);
		work_between(l.a, l.buffer);
	}
	t_close(l.j);
	free(l.sh);
	IS_EMPTY(l.a, l.buffer);
	t_close(l.a);
	t_no_leaks();
}

/* 5.1 to 5.4, C69, C78 */
TEST_F_TIMEOUT(storm, kills, 600)
{
	const int kills = t_param("CAPKM_TEST_KILLS", 0, KILLS);
	int pids[LANES], left = LANES, status;
	struct lane lane[LANES];
	u_int64_t worked = 0, last;
	struct cl *a;

	ONLY_KERNEL();
	dice = t_param("CAPKM_TEST_SEED", 0, time(NULL));
	TH_LOG("seed %u, %d kills", dice, kills);
	a = t_client();
	lane[0] = new_domain(a);
	fflush(NULL);
	for (int i = 0; i < LANES; i++) {
		lane[i] = lane[0];
		lane[i].nr = i;
		dice += i;
		pids[i] = fork();
		ASSERT_GE(pids[i], 0);
		if (!pids[i]) {
			/* Its sessions are its own. */
			close(capkm_fd(a->c));
			run_lane(&lane[i], kills / LANES);
		}
	}
	while (left) {
		int pid = waitpid(-1, &status, WNOHANG);

		if (pid > 0) {
			EXPECT_EQ(0, status);
			left--;
		}
		work_between(a, lane[0].buffer);
		worked++;
		usleep(10000);
	}
	TH_LOG("worked %" PRIu64 " times meanwhile", worked);

	/* Nobody knows the ids of those that died before they were told. */
	last = t_prepare(a, 2);
	t_abort(a, 2);
	for (u_int64_t w = 1; w < last; w++)
		t_abandon(a, w);
	ASSERT_EQ(1, t_domain_query(a).out_sessions);
	IS_EMPTY(a, lane[0].buffer);
	t_close(a);
}

TEST_HARNESS_MAIN
