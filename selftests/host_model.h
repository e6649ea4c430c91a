/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What random programs over the executor are made of, and a model of what becomes
 * of them: an interpreter over arrays, which does at once what the executor does
 * later on several threads. For each byte it knows the value, and whether it may be
 * read, by the rules of Documentation/design/bytes.rst.
 *
 * What a function does is the same code for both; when it runs, over which memory,
 * and what its failure means is the model's own.
 */
#ifndef HOST_MODEL_H
#define HOST_MODEL_H

#include "capkm_test.h"
#include "choices.h"

#include <capkm/host.h>
#include <stdatomic.h>

#define BYTES_MAX	512	/* of one memory */
#define LIVE		14	/* memories that a world has at once */
#define ARGS		4
#define TASKS		24	/* recorded in one window */
#define TOUCHED		24	/* memories that they use */
#define GRAPHS		6
#define SLOTS		4	/* of one world */
#define EVENTS		6
#define STAMPS		2048
#define PAST		400
#define LOG		48
#define LATE		2	/* attempts that the kernel of that name needs */

/* ---------------------------------------------------------------- functions */

#define R CAPKM_HOST_READ
#define W CAPKM_HOST_WRITE

enum which {
	FILL, XOR, ADD, MIX, SCATTER, GRID, REFILL, PEEK, SPLIT, COPY, CHECKED, FAILS,
	EXITS, BROKEN, LATECOMER, KERNELS
};

/*
 * A function that writes less than all of an argument reads it, too: who leaves
 * bytes as they are depends on them.
 */
static const struct {
	const char *name;
	unsigned int args;
	uint32_t access[3];
} kernels[KERNELS] = {
	[FILL]		= { "fill", 1, { W } },
	[XOR]		= { "xor", 2, { R | W, R } },
	[ADD]		= { "add", 3, { W, R, R } },
	[MIX]		= { "mix", 2, { W, R } },
	[SCATTER]	= { "scatter", 2, { R | W, R } },
	[GRID]		= { "grid", 1, { R | W } },
	[REFILL]	= { "refill", 1, { W } },	/* all, or with an empty grid nothing */
	[PEEK]		= { "peek", 1, { R } },
	[SPLIT]		= { "split", 3, { W, W, R } },
	[COPY]		= { "copy", 2, { W, R } },	/* capkm_host_copy() */
	[CHECKED]	= { "checked", 2, { W, R } },	/* fails for some inputs */
	[FAILS]		= { "fails", 1, { W } },
	[EXITS]		= { "exits", 1, { W } },	/* ends its thread */
	[BROKEN]	= { "broken", 2, { W, R } },	/* does not compile */
	[LATECOMER]	= { "latecomer", 1, { W } },	/* nor does this at first */
};

/* Metadata of a launch; any number of bytes follow, each the low byte of @seed. */
struct info {
	uint32_t serial;	/* where it leaves its stamp, 0 for nowhere */
	uint32_t seed;
	uint32_t delay_us;
	uint32_t sizes;		/* valid elements of @size */
	uint32_t size[ARGS];
	uint8_t index[16];
};

#define INFO_MAX (sizeof(struct info) + 2500)

static uint64_t extent(const uint32_t grid[3])
{
	return grid[0] && grid[1] && grid[2] ?
		(uint64_t)grid[0] * grid[1] > UINT32_MAX ? UINT32_MAX :
		(uint64_t)grid[0] * grid[1] * grid[2] : 0;
}

/* What a function does, here and in the model. Other than 0: it failed. */
static int compute(enum which which, const uint32_t grid[3], unsigned char *const *a,
		   const uint64_t *n, const struct info *info)
{
	const uint32_t seed = info->seed;
	const uint64_t g = extent(grid);

	switch (which) {
	case FILL:
	case REFILL:
	case LATECOMER:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] = seed + i * 3;
		return 0;
	case XOR:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] ^= a[1][i % n[1]] + seed;
		return 0;
	case ADD:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] = a[1][i % n[1]] + a[2][(i + seed) % n[2]] + 1;
		return 0;
	case MIX:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] = a[1][(i * 7 + seed) % n[1]] * 5 + i;
		return 0;
	case SCATTER:
		for (uint64_t i = 0; i < sizeof(info->index); i++)
			a[0][info->index[i] % n[0]] += a[1][i % n[1]] ^ seed;
		return 0;
	case GRID:
		for (uint64_t i = 0; i < n[0] && i < g; i++)
			a[0][i] = a[0][i] * 3 + seed + 1;
		return 0;
	case SPLIT:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] = a[2][i % n[2]] >> 1;
		for (uint64_t i = 0; i < n[1]; i++)
			a[1][i] = a[2][i % n[2]] << 1;
		return 0;
	case COPY:
		memcpy(a[0], a[1], n[0]);
		return 0;
	case CHECKED:
		for (uint64_t i = 0; i < n[0]; i++)
			a[0][i] = a[1][i % n[1]] ^ seed;
		return a[1][n[1] - 1] % 4 == seed % 4 ? 5 : 0;
	case FAILS:
	case EXITS:
		memset(a[0], 0xee, n[0] / 2);
		return 7;
	default:
		return 0;
	}
}

/*
 * A stamp says when the function ran, by a clock that each begin and end ticks.
 * @before: what it had to wait for, if a test says so.
 */
struct stamp {
	atomic_uint runs, begin, end;
	struct stamp *before;
};

static atomic_uint ticks;

struct world;

struct kernel {
	struct world *w;
	enum which which;
	uint64_t id;
	unsigned int attempts, compiled;
};

/* ----------------------------------------------------------------- the model */

/* @taint: when the byte was tainted, 0 if it can be read. @known: so is its value. */
struct mem {
	struct mem *next;
	uint64_t id;
	unsigned int size;
	bool freed, never;	/* never: there was no memory for it */
	unsigned char value[BYTES_MAX];
	bool known[BYTES_MAX];
	unsigned int taint[BYTES_MAX];
};

struct arg {
	struct mem *m;
	unsigned int start, end;
	uint32_t access;
};

/* A launch, or a copy. With @dynamic the argument behind the others is the grid. */
struct op {
	enum which which;
	unsigned int args;
	bool dynamic, poison;
	struct arg arg[ARGS];
	uint32_t grid[3];
	struct info info;
	uint32_t info_bytes;
};

/*
 * What a window did to a memory. @date: when the byte was last recorded as
 * written, 0: not, or written by others since.
 */
struct touch {
	struct mem *m;
	unsigned int date[BYTES_MAX];
	bool write[BYTES_MAX], input[BYTES_MAX];
};

struct recording {
	unsigned int touches, tasks;
	struct touch touch[TOUCHED];
	struct op task[TASKS];
};

enum state { NONE, PREPARED, CAPTURE };

struct window {
	enum state state;
	uint64_t owner, id;
	bool doomed;
	struct recording *rec;
};

struct graph {
	uint64_t id;
	bool lost;		/* of a time before the reset */
	struct recording *rec;
};

/* @at: position on its slot; @window: it was recorded in, 0 for none. */
struct event {
	struct capkm_host_event e;
	bool used;
	unsigned int slot, at;
	uint64_t window;
};

struct past {
	unsigned int at, slot;
	struct op op;
};

/* What slot @slot runs from @at on comes after what @on had before @upto. */
struct wait {
	unsigned int slot, at, on, upto;
};

/* What has happened, so that a test can see that it tests something. */
struct counts {
	uint64_t reads, stale, skipped, refused, replays, sealed, missed;
};

struct world {
	uint64_t seed, rng, noise;
	unsigned int step;
	struct capkm *c;
	struct capkm_host *host;
	struct capkm_error err;
	unsigned int max_streams, base, slots;
	unsigned int queue_max;	/* 0: not looked at */
	bool failures;		/* of functions and of inputs, and wrong calls */
	bool alone;		/* nobody else has the executor */
	bool limits;		/* anything may fail for one, so the model says less */
	struct kernel kernel[KERNELS];

	struct mem *mems, *live[LIVE];
	unsigned int n;
	unsigned int now;	/* the model's clock */
	struct window window[SLOTS];
	int member[SLOTS];	/* of the window on that slot, or -1 */
	struct graph graph[GRAPHS];
	struct event event[EVENTS];

	unsigned int issued, serials, pasts, waits;
	struct past past[PAST];
	struct wait wait[PAST];
	struct stamp stamp[STAMPS];
	unsigned int runs[STAMPS], issues[STAMPS];
	bool any_runs[STAMPS];	/* a part of a replay that failed */
	atomic_uint wrong;

	struct counts count;
	char log[LOG][120];
	unsigned int logged;
};

static void __attribute__((format(printf, 2, 3))) note(struct world *w, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->log[w->logged++ % LOG], sizeof(w->log[0]), fmt, ap);
	va_end(ap);
}

static void __attribute__((format(printf, 2, 3), noreturn))
die(struct world *w, const char *fmt, ...)
{
	char text[900];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (unsigned int i = w->logged > LOG ? w->logged - LOG : 0; i < w->logged; i++)
		fprintf(stderr, "# %s\n", w->log[i % LOG]);
	t_die("again: CAPKM_TEST_SEED=%" PRIu64 " CAPKM_TEST_ROUNDS=1\n# step %u: %s",
	      w->seed, w->step, text);
}

#define OK(w, call) do {						\
	int rc_ = (call);						\
									\
	if (rc_)							\
		die(w, "%s: %d (%s)", #call, rc_, (w)->err.text);	\
} while (0)

static unsigned int roll(struct world *w, unsigned int n)
{
	return choices_next(&w->rng) % n;
}

/* Draws that must not change the program: who runs it, and how fast. */
static unsigned int toss(struct world *w, unsigned int n)
{
	return choices_next(&w->noise) % n;
}

static struct touch *touch_of(struct recording *rec, const struct mem *m)
{
	for (unsigned int i = 0; i < rec->touches; i++)
		if (rec->touch[i].m == m)
			return &rec->touch[i];
	return NULL;
}

/* Rule 2, of an exit: who recorded these bytes before has no say in them any more. */
static void settle(struct world *w, const struct arg *a, unsigned int taint)
{
	for (unsigned int s = 0; s < SLOTS; s++) {
		struct touch *t = w->window[s].rec ?
			touch_of(w->window[s].rec, a->m) : NULL;

		if (t)
			memset(&t->date[a->start], 0,
			       (a->end - a->start) * sizeof(*t->date));
	}
	for (unsigned int i = a->start; i < a->end; i++) {
		a->m->taint[i] = taint;
		if (taint)
			a->m->known[i] = false;
	}
}

static void settle_writes(struct world *w, const struct op *op, unsigned int taint)
{
	for (unsigned int i = 0; i < op->args; i++)
		if (op->arg[i].access & W)
			settle(w, &op->arg[i], taint);
}

/* All that a graph writes; with @taint 0 it went well. */
static void settle_graph(struct world *w, struct recording *rec, unsigned int taint)
{
	for (unsigned int i = 0; i < rec->touches; i++) {
		struct touch *t = &rec->touch[i];
		struct arg a = { .m = t->m };

		while (a.start < t->m->size) {
			a.end = a.start + 1;
			while (a.end < t->m->size && t->write[a.end] == t->write[a.start])
				a.end++;
			if (t->write[a.start])
				settle(w, &a, taint);
			a.start = a.end;
		}
	}
}

static unsigned int args_of(const struct op *op)
{
	return op->args + op->dynamic;
}

static bool all_known(const struct arg *a)
{
	for (unsigned int i = a->start; i < a->end; i++)
		if (!a->m->known[i])
			return false;
	return true;
}

/* May @a be read, by a scope that is recorded in @rec, or outside of windows? */
static bool readable(struct recording *rec, const struct arg *a)
{
	struct touch *t = rec ? touch_of(rec, a->m) : NULL;

	if (a->m->never)
		return false;
	for (unsigned int i = a->start; i < a->end; i++)
		if (a->m->taint[i] && !(t && t->date[i] > a->m->taint[i]))
			return false;
	return true;
}

static bool uses_never(const struct op *op)
{
	for (unsigned int i = 0; i < args_of(op); i++)
		if (op->arg[i].m->never)
			return true;
	return false;
}

/* May it run: its inputs can be read, and all has memory. */
static bool may_run(struct recording *rec, const struct op *op)
{
	for (unsigned int i = 0; i < args_of(op); i++)
		if (op->arg[i].access & R && !readable(rec, &op->arg[i]))
			return false;
	return !uses_never(op);
}

static bool writes_readable(const struct op *op)
{
	for (unsigned int i = 0; i < op->args; i++)
		if (op->arg[i].access & W && !readable(NULL, &op->arg[i]))
			return false;
	return true;
}

/* An empty grid, known when it is issued. */
static bool has_no_work(const struct op *op)
{
	return !op->dynamic && !extent(op->grid);
}

static void grid_of(const struct op *op, uint32_t grid[3])
{
	if (op->dynamic)
		memcpy(grid, &op->arg[op->args].m->value[op->arg[op->args].start], 12);
	else
		memcpy(grid, op->grid, 12);
}

/* Is what decides whether it runs and whether it fails known to the model? */
static bool is_sure(const struct op *op)
{
	if (op->dynamic && !all_known(&op->arg[op->args]))
		return false;
	return op->which != CHECKED || all_known(&op->arg[1]);
}

static bool compiles(struct world *w, enum which which)
{
	return which != BROKEN &&
	       (which != LATECOMER || w->kernel[which].attempts >= LATE);
}

/* Runs on the model's bytes; their taint is the caller's. */
static int interpret(struct world *w, const struct op *op, const uint32_t grid[3])
{
	unsigned char *a[ARGS];
	uint64_t n[ARGS];
	bool known = true;
	int rc;

	for (unsigned int i = 0; i < args_of(op); i++) {
		a[i] = &op->arg[i].m->value[op->arg[i].start];
		n[i] = op->arg[i].end - op->arg[i].start;
		if (op->arg[i].access & R && !all_known(&op->arg[i]))
			known = false;
	}
	if (op->info.serial)
		w->runs[op->info.serial]++;
	rc = compute(op->which, grid, a, n, &op->info);
	for (unsigned int i = 0; i < op->args; i++)
		if (op->arg[i].access & W)
			memset(&op->arg[i].m->known[op->arg[i].start], known && !rc, n[i]);
	return rc;
}

/* A launch outside of windows. */
static void m_launch(struct world *w, const struct op *op)
{
	const unsigned int now = ++w->now;
	const bool tainted = !may_run(NULL, op);
	uint32_t grid[3];

	if (has_no_work(op))
		return;
	if (op->dynamic && readable(NULL, &op->arg[op->args])) {
		grid_of(op, grid);
		if (!extent(grid))
			return;
	}
	if (tainted && !op->poison) {
		w->count.skipped++;
		settle_writes(w, op, now);
		return;
	}
	grid_of(op, grid);
	settle_writes(w, op, interpret(w, op, grid) || tainted ? now : 0);
}

static struct touch *touch_add(struct recording *rec, struct mem *m)
{
	struct touch *t = touch_of(rec, m);

	if (!t) {
		t = &rec->touch[rec->touches++];
		memset(t, 0, sizeof(*t));
		t->m = m;
	}
	return t;
}

static bool has_room(const struct recording *rec)
{
	return rec->tasks < TASKS && rec->touches + ARGS <= TOUCHED;
}

/* A launch in a window: CAPKM_CLEAN or CAPKM_SKIPPED. */
static uint32_t m_record(struct world *w, struct window *win, const struct op *op)
{
	struct recording *rec = win->rec;
	const unsigned int now = ++w->now;
	const bool tainted = !may_run(rec, op);

	if (has_no_work(op))
		return CAPKM_CLEAN;
	if (tainted) {
		settle_writes(w, op, now);
		win->doomed = true;
		return op->poison ? CAPKM_CLEAN : CAPKM_SKIPPED;
	}
	for (unsigned int i = 0; i < args_of(op); i++) {
		struct touch *t = touch_add(rec, op->arg[i].m);

		for (unsigned int at = op->arg[i].start; at < op->arg[i].end; at++)
			if (op->arg[i].access & R && !t->write[at])
				t->input[at] = true;
	}
	for (unsigned int i = 0; i < op->args; i++) {
		struct touch *t = touch_add(rec, op->arg[i].m);

		for (unsigned int at = op->arg[i].start; at < op->arg[i].end; at++) {
			if (!(op->arg[i].access & W))
				continue;
			t->write[at] = true;
			t->date[at] = now;
		}
	}
	rec->task[rec->tasks++] = *op;
	return CAPKM_CLEAN;
}

/* Rule 5. */
static void m_refuse(struct world *w, struct window *win)
{
	for (unsigned int i = 0; i < win->rec->touches; i++) {
		struct touch *t = &win->rec->touch[i];

		for (unsigned int at = 0; at < t->m->size; at++) {
			const unsigned int date = t->date[at];

			if (!date)
				continue;
			for (unsigned int s = 0; s < SLOTS; s++) {
				struct touch *o = w->window[s].rec ?
					touch_of(w->window[s].rec, t->m) : NULL;

				if (o && o != t && o->date[at] < date)
					o->date[at] = 0;
			}
			if (t->m->taint[at] < date)
				t->m->taint[at] = date;
			t->m->known[at] = false;
		}
	}
	w->count.refused++;
}

static void leave_window(struct world *w, unsigned int slot)
{
	for (unsigned int s = 0; s < SLOTS; s++)
		if (w->member[s] == (int)slot)
			w->member[s] = -1;
	free(w->window[slot].rec);
	w->window[slot] = (struct window){ 0 };
}

static bool is_stale(const struct graph *g)
{
	for (unsigned int i = 0; i < g->rec->touches; i++) {
		const struct touch *t = &g->rec->touch[i];

		for (unsigned int at = 0; t->m->freed && at < t->m->size; at++)
			if (t->input[at])
				return true;
	}
	return g->lost;
}

static bool has_tainted_input(const struct touch *t)
{
	for (unsigned int at = 0; at < t->m->size; at++)
		if (t->input[at] && t->m->taint[at])
			return true;
	return false;
}

/* Rule 7. False: it cannot be told what comes of it, and nothing has changed. */
static bool m_replay(struct world *w, struct graph *g)
{
	struct recording *rec = g->rec;
	struct mem before[TOUCHED];
	bool ran[TASKS] = { false }, stale[TASKS];
	unsigned int i, failed = 0;

	++w->now;
	for (i = 0; i < rec->touches; i++) {
		if (has_tainted_input(&rec->touch[i])) {
			w->count.skipped++;
			settle_graph(w, rec, w->now);
			return true;
		}
		before[i] = *rec->touch[i].m;
	}
	/* What it does not write must not have been waiting for it. */
	for (i = 0; i < rec->tasks; i++)
		stale[i] = !writes_readable(&rec->task[i]);
	for (i = 0; i < rec->tasks && !failed; i++) {
		uint32_t grid[3];

		if (!is_sure(&rec->task[i]))
			break;
		grid_of(&rec->task[i], grid);
		ran[i] = extent(grid);
		if (ran[i] ? interpret(w, &rec->task[i], grid) : stale[i])
			failed = w->now;
	}
	if (i < rec->tasks && !failed) {
		while (i--)
			w->runs[rec->task[i].info.serial] -= ran[i];
		for (i = 0; i < rec->touches; i++)
			*rec->touch[i].m = before[i];
		return false;
	}
	/* It is not said whether those behind the one that fails run. */
	for (; i < rec->tasks; i++)
		w->any_runs[rec->task[i].info.serial] = true;
	settle_graph(w, rec, failed);
	return true;
}

#endif /* HOST_MODEL_H */
