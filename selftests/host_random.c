// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random programs over the executor of libcapkm, compared with the model of
 * host_model.h.
 *
 * A world is one author of such programs, with memory, streams and kernels of its
 * own. Several may use one executor at once, each on its own slots.
 *
 *   CAPKM_TEST_ROUNDS  programs of each test
 *   CAPKM_TEST_SEED    of the first one; a program that fails says its own
 */
#include "host_model.h"

#include <pthread.h>
#include <sched.h>

/* Options on the spot. */
#define WITH(type, ...) (&(type)CAPKM_OPTS(type, __VA_ARGS__))

/* -------------------------------------------------------------- the executor */

/* Is what came with the launch what was given with it? */
static bool arrived(const struct capkm_host_call *call, const struct info *info)
{
	const unsigned char *rest = (const unsigned char *)call->info + sizeof(*info);

	for (uint32_t i = 0; i < info->sizes; i++)
		if (i >= call->args_len || call->bytes[i] != info->size[i])
			return false;
	for (uint32_t i = sizeof(*info); i < call->info_bytes; i++)
		if (*rest++ != (unsigned char)info->seed)
			return false;
	return true;
}

static int function(const struct capkm_host_call *call)
{
	struct kernel *k = call->context;
	struct world *w = k->w;
	struct info info;
	int rc;

	if (call->info_bytes < sizeof(info)) {
		w->wrong |= 1;
		return 1;
	}
	memcpy(&info, call->info, sizeof(info));
	if (!arrived(call, &info))
		w->wrong |= 2;
	if (info.seed % 16 == 0 && capkm_host_sync(w->host, 1, NULL) != -EDEADLK)
		w->wrong |= 4;
	w->stamp[info.serial].begin = ++ticks;
	w->stamp[info.serial].runs++;
	if (info.delay_us > 1)
		usleep(info.delay_us);
	else if (info.delay_us)
		sched_yield();
	rc = compute(k->which, call->grid, (unsigned char *const *)call->args, call->bytes,
		     &info);
	w->stamp[info.serial].end = ++ticks;
	if (k->which == EXITS)
		pthread_exit(NULL);
	if (rc)
		snprintf(call->why, call->why_size, "%s has failed", kernels[k->which].name);
	return rc;
}

static int compile(void *context, capkm_host_fn *fn, char *why, size_t why_size)
{
	struct kernel *k = context;

	if (k->which == BROKEN || (k->which == LATECOMER && k->attempts < LATE)) {
		k->attempts++;
		snprintf(why, why_size, "%s does not compile", kernels[k->which].name);
		return 1;
	}
	k->compiled++;
	*fn = function;
	return 0;
}

static void new_kernel(struct world *w, enum which which)
{
	struct kernel *k = &w->kernel[which];
	struct capkm_host_kernel desc = {
		.sz = sizeof(desc), .name = kernels[which].name, .context = k,
	};

	if (which == BROKEN || which == LATECOMER || toss(w, 2))
		desc.compile = compile;
	else
		desc.fn = function;
	if (k->compiled > 1)
		die(w, "%s was compiled %u times", kernels[which].name, k->compiled);
	k->attempts = k->compiled = 0;
	OK(w, capkm_host_kernel_create(w->host, &desc, &k->id, &w->err));
}

/* Streams come in pairs on each slot of the world. */
static uint64_t stream_on(struct world *w, unsigned int slot, unsigned int which)
{
	return w->base + slot + (uint64_t)w->max_streams * (1 + which);
}

static unsigned int slot_of(struct world *w, uint64_t stream)
{
	return stream % w->max_streams - w->base;
}

static struct window *recording_on(struct world *w, unsigned int slot)
{
	if (w->member[slot] >= 0)
		return &w->window[w->member[slot]];
	return w->window[slot].state == CAPTURE ? &w->window[slot] : NULL;
}

static uint64_t any_stream(struct world *w)
{
	unsigned int slot = roll(w, w->slots);

	return stream_on(w, slot, roll(w, 2));
}

/* One on a slot that does not record, 0 if there is none. */
static uint64_t free_stream(struct world *w)
{
	unsigned int slot = roll(w, w->slots), which = roll(w, 2);

	for (unsigned int i = 0; i < w->slots; i++, slot = (slot + 1) % w->slots)
		if (!recording_on(w, slot))
			return stream_on(w, slot, which);
	return 0;
}

static struct capkm_host_range range_of(const struct arg *a)
{
	return (struct capkm_host_range){ a->m->id, a->start, a->end };
}

static void say_args(const struct op *op, char *text, size_t size)
{
	size_t at = 0;

	*text = 0;
	for (unsigned int i = 0; i < args_of(op) && at < size; i++)
		at += snprintf(text + at, size - at, " %s%" PRIu64 "[%u,%u)",
			       op->arg[i].access == R ? "" : op->arg[i].access == W ?
			       "=" : "~", op->arg[i].m->id & 0xffffff, op->arg[i].start,
			       op->arg[i].end);
}

/* With @w->limits: may the call have failed so? What it was to do was not done. */
static bool is_missed(struct world *w, int rc)
{
	if (!w->limits || (rc != -EDQUOT && rc != -ENOSPC && rc != -ENOMEM))
		return false;
	w->count.missed++;
	return true;
}

/* The call itself: what it returns, and its result. */
static int call_launch(struct world *w, uint64_t stream, const struct op *op,
		       uint32_t flags, uint32_t *result)
{
	unsigned char info[INFO_MAX];
	struct capkm_host_arg args[ARGS];
	struct capkm_host_launch launch = {
		.sz = sizeof(launch), .kernel = w->kernel[op->which].id, .args = args,
		.args_len = op->args, .info = info, .info_bytes = op->info_bytes,
		.flags = flags | (op->poison ? CAPKM_HOST_LAUNCH_F_POISON : 0),
	};

	memset(info, op->info.seed, sizeof(info));
	memcpy(info, &op->info, sizeof(op->info));
	memcpy(launch.grid, op->grid, sizeof(launch.grid));
	for (unsigned int i = 0; i < op->args; i++)
		args[i] = (struct capkm_host_arg){
			range_of(&op->arg[i]), op->arg[i].access, 0,
		};
	if (op->dynamic)
		launch.grid_range = range_of(&op->arg[op->args]);
	if (op->which == COPY)
		return capkm_host_copy(w->host, stream, &args[0].range, &args[1].range,
				       result, &w->err);
	return capkm_host_launch(w->host, stream, &launch, result, &w->err);
}

static void remember(struct world *w, unsigned int slot, const struct op *op)
{
	w->issues[op->info.serial]++;
	if (op->info.serial && w->pasts < PAST)
		w->past[w->pasts++] = (struct past){ w->issued, slot, *op };
}

/* What it writes was never allocated: there is nothing to record. */
static bool writes_never(const struct op *op)
{
	for (unsigned int i = 0; i < op->args; i++)
		if (op->arg[i].access & W && op->arg[i].m->never && !has_no_work(op))
			return true;
	return false;
}

static void launch(struct world *w, uint64_t stream, const struct op *op)
{
	const unsigned int slot = slot_of(w, stream);
	struct window *win = recording_on(w, slot);
	const bool compiled = compiles(w, op->which);
	uint32_t result = 99, expected = CAPKM_CLEAN;
	char args[80];
	int rc;

	say_args(op, args, sizeof(args));
	note(w, "%u: %s on %" PRIu64 "%s%s:%s", w->step, kernels[op->which].name, stream,
	     win ? " recorded" : "", op->poison ? " poison" : "", args);
	if ((op->poison && uses_never(op)) || (win && writes_never(op))) {
		if (call_launch(w, stream, op, 0, &result) != -EINVAL)
			die(w, "a launch that would have to run has no memory");
		return;
	}
	rc = call_launch(w, stream, op, 0, &result);
	if (is_missed(w, rc) || (w->limits && win && result)) {
		if (win)
			win->doomed = true;
		return;
	}
	w->issued++;
	if (!compiled) {
		expected = CAPKM_TAINTED;
		settle_writes(w, op, ++w->now);
		if (win)
			win->doomed = true;
	} else if (win) {
		expected = m_record(w, win, op);
	} else {
		remember(w, slot, op);
		m_launch(w, op);
	}
	if (rc || result != expected)
		die(w, "launch: %d, result %u, expected %u (%s)", rc, result, expected,
		    rc || result ? w->err.text : "");
}

static void dry_run(struct world *w, uint64_t stream, const struct op *op)
{
	const int expected = compiles(w, op->which) ? 0 : -ENOEXEC;
	uint32_t result = 99;
	int rc = call_launch(w, stream, op, CAPKM_HOST_LAUNCH_F_DRY_RUN, &result);

	note(w, "%u: dry run of %s on %" PRIu64, w->step, kernels[op->which].name, stream);
	if (!is_missed(w, rc) && (rc != expected || (!rc && result != CAPKM_CLEAN)))
		die(w, "dry run: %d, result %u, expected %d (%s)", rc, result, expected,
		    rc ? w->err.text : "");
}

static struct mem *add_mem(struct world *w, uint64_t id, unsigned int size)
{
	struct mem *m = calloc(1, sizeof(*m));

	m->next = w->mems;
	m->id = id;
	m->size = size;
	return w->mems = m;
}

/* Did the handle come without memory? */
static bool is_never(struct world *w, uint64_t id)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_host_range all = { id, 0, 0 };

	OK(w, capkm_host_check(w->host, &all, 1, &answer, &w->err));
	return answer.out_result != CAPKM_CLEAN;
}

/* NULL: there is no more, which is allowed in a pool with a cap. */
static struct mem *alloc(struct world *w, uint64_t stream, unsigned int size)
{
	const uint32_t flags = w->failures && roll(w, 2) ? CAPKM_HOST_ALLOC_F_LAZY : 0;
	uint64_t id = 0;
	struct mem *m;
	int rc = capkm_host_alloc(w->host, stream, size, flags, &id, &w->err);

	if (is_missed(w, rc) || (rc == -ENOSPC && !flags))
		return NULL;
	if (rc)
		die(w, "alloc %u: %d (%s)", size, rc, w->err.text);
	m = add_mem(w, id, size);
	m->never = flags && is_never(w, id);
	note(w, "%u: alloc %" PRIu64 " of %u on %" PRIu64 "%s", w->step, id & 0xffffff,
	     size, stream, m->never ? ", in vain" : "");
	return m;
}

static void release(struct world *w, struct mem *m)
{
	note(w, "%u: free %" PRIu64, w->step, m->id & 0xffffff);
	OK(w, capkm_host_free(w->host, m->id, &w->err));
	m->freed = true;
}

static void release_live(struct world *w, unsigned int i)
{
	release(w, w->live[i]);
	w->live[i] = w->live[--w->n];
}

/* They were written or, in a window, refused. */
static void m_write(struct world *w, const struct window *win, const struct arg *to,
		    const unsigned char *data)
{
	const unsigned int len = to->end - to->start;

	settle(w, to, win ? ++w->now : 0);
	if (win)
		return;
	memcpy(&to->m->value[to->start], data, len);
	memset(&to->m->known[to->start], true, len);
}

static void write_bytes(struct world *w, uint64_t stream, const struct arg *to, unsigned int n)
{
	struct window *win = recording_on(w, slot_of(w, stream));
	unsigned char data[ARGS][BYTES_MAX], copy[ARGS][BYTES_MAX];
	struct capkm_host_write writes[ARGS];
	uint32_t result = 99;
	int rc;

	for (unsigned int i = 0; i < n; i++) {
		for (unsigned int b = 0; b < to[i].end - to[i].start; b++)
			data[i][b] = copy[i][b] = roll(w, 256);
		writes[i] = (struct capkm_host_write){ range_of(&to[i]), copy[i] };
		note(w, "%u: write on %" PRIu64 "%s: %" PRIu64 "[%u,%u)", w->step, stream,
		     win ? " refused" : "", to[i].m->id & 0xffffff, to[i].start, to[i].end);
	}
	rc = capkm_host_write(w->host, stream, writes, n, &result, &w->err);
	/* Whoever calls it may use its own memory again. */
	memset(copy, 0xdd, sizeof(copy));
	if (is_missed(w, rc))
		return;
	if (rc || result != (win ? CAPKM_REFUSED : CAPKM_CLEAN))
		die(w, "write: %d, result %u (%s)", rc, result, rc ? w->err.text : "");
	w->issued++;
	for (unsigned int i = 0; i < n; i++)
		m_write(w, win, &to[i], data[i]);
	if (win && win->owner == stream)
		win->doomed = true;
}

static void compare(struct world *w, const struct arg *a, const unsigned char *data)
{
	for (unsigned int i = a->start; i < a->end; i++)
		if (a->m->known[i] && a->m->value[i] != data[i - a->start])
			die(w, "byte %u of %" PRIu64 "[%u,%u) is %02x, the model says %02x", i,
			    a->m->id & 0xffffff, a->start, a->end, data[i - a->start],
			    a->m->value[i]);
}

static void read_bytes(struct world *w, uint64_t stream, const struct arg *a)
{
	const struct capkm_host_range from = range_of(a);
	const int expected = recording_on(w, slot_of(w, stream)) ? -EBUSY :
			     readable(NULL, a) ? 0 : -ESTALE;
	unsigned char data[BYTES_MAX];
	int rc = capkm_host_read(w->host, stream, &from, data, NULL, &w->err);

	note(w, "%u: read %" PRIu64 "[%u,%u) on %" PRIu64 ": %d", w->step,
	     a->m->id & 0xffffff, a->start, a->end, stream, rc);
	if (rc != expected && !(w->limits && (rc == -ESTALE || is_missed(w, rc))))
		die(w, "read: %d, expected %d (%s)", rc, expected, rc ? w->err.text : "");
	w->count.reads += !rc;
	w->count.stale += rc == -ESTALE;
	if (!rc)
		compare(w, a, data);
}

static void check_bytes(struct world *w, const struct arg *a, unsigned int n)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_host_range ranges[ARGS];
	uint32_t expected = CAPKM_CLEAN;

	for (unsigned int i = 0; i < n; i++) {
		ranges[i] = range_of(&a[i]);
		if (!readable(NULL, &a[i]))
			expected = CAPKM_TAINTED;
	}
	OK(w, capkm_host_check(w->host, ranges, n, &answer, &w->err));
	if (answer.out_result != expected && !w->limits)
		die(w, "check of %" PRIu64 "[%u,%u)...: result %u, expected %u",
		    a[0].m->id & 0xffffff, a[0].start, a[0].end, answer.out_result, expected);
}

static void sync_stream(struct world *w, uint64_t stream)
{
	const int expected = recording_on(w, slot_of(w, stream)) ? -EBUSY : 0;
	int rc = capkm_host_sync(w->host, stream, &w->err);

	if (rc != expected)
		die(w, "sync of %" PRIu64 ": %d, expected %d (%s)", stream, rc, expected,
		    rc ? w->err.text : "");
}

/* ---- windows and graphs ---- */

static void prepare(struct world *w, uint64_t stream)
{
	const unsigned int slot = slot_of(w, stream);
	struct window *win = &w->window[slot];
	const int expected = win->state != NONE || w->member[slot] >= 0 ? -EBUSY : 0;
	const uint64_t sizes[2] = { 1 + toss(w, BYTES_MAX), 64 };
	uint64_t id = 0;
	int rc = capkm_host_graph_prepare(w->host, stream, WITH(struct capkm_host_graph_opts,
					  .sizes = sizes, .sizes_len = toss(w, 3)), &id,
					  &w->err);

	note(w, "%u: prepare on %" PRIu64 ": %d", w->step, stream, rc);
	if (rc != expected && !is_missed(w, rc))
		die(w, "prepare: %d, expected %d (%s)", rc, expected, rc ? w->err.text : "");
	if (rc)
		return;
	win->state = PREPARED;
	win->owner = stream;
	win->id = id;
	win->rec = calloc(1, sizeof(*win->rec));
}

static void begin(struct world *w, uint64_t stream)
{
	const unsigned int slot = slot_of(w, stream);
	struct window *win = &w->window[slot];
	const int expected = win->state == CAPTURE ? -EBUSY :
			     win->state == PREPARED ? 0 : -EINVAL;
	int rc = capkm_host_graph_begin(w->host, stream, &w->err);

	note(w, "%u: begin on %" PRIu64 ": %d", w->step, stream, rc);
	if (w->limits && rc == -EIO)
		leave_window(w, slot);
	else if (rc != expected)
		die(w, "begin: %d, expected %d (%s)", rc, expected, rc ? w->err.text : "");
	if (!rc)
		win->state = CAPTURE;
}

static struct graph *free_graph(struct world *w)
{
	for (unsigned int i = 0; i < GRAPHS; i++)
		if (!w->graph[i].rec)
			return &w->graph[i];
	return NULL;
}

static void destroy_graph(struct world *w, struct graph *g)
{
	note(w, "%u: destroy graph %" PRIu64, w->step, g->id & 0xffffff);
	OK(w, capkm_host_graph_destroy(w->host, g->id, &w->err));
	free(g->rec);
	*g = (struct graph){ 0 };
}

/* The graph, or NULL if there is none. */
static struct graph *end(struct world *w, uint64_t stream)
{
	const unsigned int slot = slot_of(w, stream);
	struct window *win = &w->window[slot];
	const int expected = win->state != CAPTURE ? -EINVAL :
			     win->doomed || win->owner != stream ? -ESTALE : 0;
	struct graph *g = free_graph(w);
	uint64_t id = 99;
	int rc;

	if (!g)
		destroy_graph(w, g = &w->graph[toss(w, GRAPHS)]);
	rc = capkm_host_graph_end(w->host, stream, &id, NULL, &w->err);
	note(w, "%u: end on %" PRIu64 ": %d, graph %" PRIu64 " of %u", w->step, stream, rc,
	     id & 0xffffff, win->rec ? win->rec->tasks : 0);
	if (w->limits && rc && rc != expected)
		w->count.missed++;
	else if (rc != expected || !rc != !!id)
		die(w, "end: %d, graph %" PRIu64 ", expected %d (%s)", rc, id, expected,
		    rc ? w->err.text : "");
	if (!rc) {
		*g = (struct graph){ .id = id, .rec = win->rec };
		win->rec = NULL;
		w->count.sealed++;
	} else if (win->state == CAPTURE && !w->limits) {
		m_refuse(w, win);
	}
	leave_window(w, slot);
	return rc ? NULL : g;
}

static void abort_window(struct world *w, uint64_t stream)
{
	struct window *win = &w->window[slot_of(w, stream)];

	note(w, "%u: abort on %" PRIu64, w->step, stream);
	OK(w, capkm_host_graph_abort(w->host, stream, &w->err));
	if (win->state == CAPTURE)
		m_refuse(w, win);
	leave_window(w, slot_of(w, stream));
}

/* It ran, or not, and nothing is known of what it wrote. */
static void forget(struct world *w, struct recording *rec)
{
	for (unsigned int i = 0; i < rec->touches; i++)
		for (unsigned int at = 0; at < BYTES_MAX; at++)
			if (rec->touch[i].write[at])
				rec->touch[i].m->known[at] = false;
	for (unsigned int i = 0; i < rec->tasks; i++)
		w->any_runs[rec->task[i].info.serial] = true;
}

static void replay(struct world *w, uint64_t stream, struct graph *g)
{
	struct window *win = recording_on(w, slot_of(w, stream));
	uint32_t result = 99, expected = CAPKM_CLEAN;
	int rc, stale = is_stale(g) ? -ESTALE : 0;

	if (win && stale)
		return;
	if (win) {
		settle_graph(w, g->rec, ++w->now);
		win->doomed = true;
		expected = CAPKM_REFUSED;
	} else if (!stale && !w->limits && !m_replay(w, g)) {
		return;
	}
	w->issued++;
	w->count.replays += !stale && !win;
	rc = capkm_host_graph_replay(w->host, stream, g->id, &result, &w->err);
	note(w, "%u: replay %" PRIu64 " on %" PRIu64 ": %d, result %u", w->step,
	     g->id & 0xffffff, stream, rc, result);
	if (is_missed(w, rc))
		return;
	if (w->limits && !rc && !m_replay(w, g))
		forget(w, g->rec);
	if (rc != stale || (!rc && result != expected))
		die(w, "replay: %d, result %u, expected %d, %u (%s)", rc, result, stale,
		    expected, rc ? w->err.text : "");
}

/* ---- events ---- */

static void record_event(struct world *w, uint64_t stream, struct event *e)
{
	const unsigned int slot = slot_of(w, stream);
	struct window *win = recording_on(w, slot);

	e->used = true;
	e->slot = slot;
	e->at = w->issued;
	e->window = win ? win->id : 0;
	OK(w, capkm_host_event_record(w->host, stream, &e->e, &w->err));
	if (e->e.window != e->window)
		die(w, "an event of window %" PRIu64 " was recorded in %" PRIu64,
		    e->window, e->e.window);
}

static int window_of(struct world *w, const struct event *e)
{
	for (unsigned int s = 0; e->window && s < w->slots; s++)
		if (w->window[s].state == CAPTURE && w->window[s].id == e->window)
			return s;
	return -1;
}

static void wait_event(struct world *w, uint64_t stream, const struct event *e)
{
	const unsigned int slot = slot_of(w, stream);
	const struct window *win = recording_on(w, slot);
	const int of = window_of(w, e);
	int rc;

	/* Whether a doomed window takes new members is another test's. */
	if (of >= 0 && w->window[of].doomed && win != &w->window[of])
		return;
	rc = capkm_host_event_wait(w->host, stream, &e->e, &w->err);
	note(w, "%u: %" PRIu64 " waits for slot %u at %u, window %" PRIu64 ": %d", w->step,
	     stream, e->slot, e->at, e->window, rc);
	if (win && of >= 0 && win != &w->window[of]) {
		if (rc != -EBUSY)
			die(w, "wait for another window's event: %d", rc);
	} else if (win && of < 0 && !e->window) {
		if (rc != -EINVAL)
			die(w, "a recorded wait for an event from outside: %d", rc);
	} else if (!win && of >= 0 && w->window[slot].state == PREPARED) {
		if (rc != -EBUSY)
			die(w, "a prepared slot joins: %d", rc);
	} else if (!(win && of < 0)) {
		if (rc)
			die(w, "wait: %d (%s)", rc, w->err.text);
		if (of >= 0 && !win)
			w->member[slot] = of;
		else if (!e->window && w->waits < PAST)
			w->wait[w->waits++] = (struct wait){
				slot, w->issued, e->slot, e->at,
			};
	}
}

/* ------------------------------------------------------------- the generator */

static struct arg any_arg(struct world *w, struct mem *m, uint32_t access)
{
	struct arg a = { m, 0, m->size, access };

	if (roll(w, 2)) {
		a.start = roll(w, m->size);
		a.end = a.start + 1 + roll(w, m->size - a.start);
	}
	return a;
}

static struct mem *any_mem(struct world *w)
{
	return w->live[roll(w, w->n)];
}

/* A copy between memories, or inside of one if the two do not overlap. */
static bool copy_args(struct world *w, struct op *op)
{
	struct arg *to = &op->arg[0], *from = &op->arg[1];
	unsigned int len = to->end - to->start;

	if (len > from->end - from->start)
		len = from->end - from->start;
	to->end = to->start + len;
	from->end = from->start + len;
	return to->m != from->m || to->end <= from->start || from->end <= to->start;
}

/* Metadata is often the same again, and then without a serial number. */
static void any_info(struct world *w, struct op *op)
{
	op->info.seed = roll(w, 4) ? roll(w, 3) : roll(w, 1000);
	op->info_bytes = sizeof(op->info) + (roll(w, 8) ? 0 : roll(w, 2500));
	for (unsigned int i = 0; i < sizeof(op->info.index); i++)
		op->info.index[i] = op->info.seed * 7 + i * i;
	if (roll(w, 3) || w->serials + 1 == STAMPS)
		return;
	op->info.serial = ++w->serials;
	op->info.delay_us = toss(w, 4) ? toss(w, 2) : toss(w, 300);
	op->info.sizes = op->args;
	for (unsigned int i = 0; i < op->args; i++)
		op->info.size[i] = op->arg[i].end - op->arg[i].start;
}

static void any_grid(struct world *w, struct op *op)
{
	for (unsigned int i = 0; i < 3; i++)
		op->grid[i] = 1 + roll(w, 12);
	if (op->which != GRID && op->which != REFILL)
		return;
	if (!roll(w, 6)) {
		op->grid[roll(w, 3)] = 0;
	} else if (roll(w, 2)) {
		struct mem *m = any_mem(w);
		unsigned int at = 0;

		if (m->size < 12)
			return;
		/* Mostly where write_grid() puts one. */
		if (!roll(w, 4))
			at = roll(w, m->size - 11) & ~3;
		op->dynamic = true;
		op->arg[op->args] = (struct arg){ m, at, at + 12, R };
	}
}

/* A launch over memory that lives; false: not these arguments. */
static bool make_op(struct world *w, struct op *op, enum which which)
{
	*op = (struct op){ .which = which, .args = kernels[which].args };
	for (unsigned int i = 0; i < op->args; i++)
		op->arg[i] = any_arg(w, any_mem(w), kernels[which].access[i]);
	any_grid(w, op);
	if (which == COPY)
		return copy_args(w, op);
	any_info(w, op);
	return true;
}

static void any_write(struct world *w, uint64_t stream)
{
	struct arg to[3];
	unsigned int n = roll(w, 4) ? 1 : 1 + roll(w, 3);

	for (unsigned int i = 0; i < n; i++)
		to[i] = any_arg(w, any_mem(w), W);
	write_bytes(w, stream, to, n);
}

/* Twelve bytes that make sense as a grid, for a launch that finds it there. */
static void write_grid(struct world *w, uint64_t stream)
{
	struct mem *m = any_mem(w);
	uint32_t grid[3] = { roll(w, 4), 1 + roll(w, 5), 1 + roll(w, 9) };
	struct capkm_host_write write = { { m->id, 0, 12 }, grid };
	struct arg to = { m, 0, 12, W };
	int rc;

	if (m->size < 12 || m->never)
		return;
	note(w, "%u: write a grid on %" PRIu64 ": %" PRIu64 "[0,12)", w->step, stream,
	     m->id & 0xffffff);
	rc = capkm_host_write(w->host, stream, &write, 1, NULL, &w->err);
	if (is_missed(w, rc))
		return;
	if (rc)
		die(w, "write of a grid: %d (%s)", rc, w->err.text);
	w->issued++;
	m_write(w, NULL, &to, (const unsigned char *)grid);
}

static void any_alloc(struct world *w, uint64_t stream, bool fill)
{
	/* Some have no padding, so that they touch their neighbours. */
	struct mem *m = alloc(w, stream, roll(w, 3) ? 1 + roll(w, BYTES_MAX) :
			      64 * (1 + roll(w, BYTES_MAX / 64)));
	struct arg all = { .m = m, .access = W };

	if (!m)
		return;
	w->live[w->n++] = m;
	all.end = m->size;
	if (fill)
		write_bytes(w, stream, &all, 1);
}

static void any_read(struct world *w, uint64_t stream)
{
	struct arg a = any_arg(w, any_mem(w), R);

	read_bytes(w, stream, &a);
}

static void any_check(struct world *w)
{
	struct arg a[ARGS];
	unsigned int n = 1 + roll(w, ARGS);

	for (unsigned int i = 0; i < n; i++)
		a[i] = any_arg(w, any_mem(w), R);
	check_bytes(w, a, n);
}

static void renew_kernel(struct world *w, enum which which)
{
	OK(w, capkm_host_kernel_destroy(w->host, w->kernel[which].id, &w->err));
	new_kernel(w, which);
}

/* Calls that are wrong: each says so, and changes nothing. */
static void wrong_call(struct world *w, uint64_t stream)
{
	struct mem *m = any_mem(w), *gone = w->mems;
	const struct capkm_host_range beyond = { m->id, m->size / 2, m->size + 1 };
	struct capkm_host_write write = { beyond, "" };
	struct op op;
	int rc;

	while (gone && !gone->freed)
		gone = gone->next;
	while (!make_op(w, &op, ADD))
		;
	w->err.index = 99;
	switch (roll(w, 5)) {
	case 0:
		op.arg[2].end = op.arg[2].m->size + 1;
		rc = call_launch(w, stream, &op, 0, NULL);
		if (rc != -EINVAL || w->err.index != 2)
			die(w, "a range outside of its memory: %d, index %u", rc,
			    w->err.index);
		break;
	case 1:
		rc = capkm_host_write(w->host, stream, &write, 1, NULL, &w->err);
		if (rc != -EINVAL)
			die(w, "a write outside of the memory: %d", rc);
		break;
	case 2:
		if (!gone)
			break;
		op.arg[1] = (struct arg){ gone, 0, 1, R };
		rc = call_launch(w, stream, &op, 0, NULL);
		if (rc != -ENOENT)
			die(w, "a launch over freed memory: %d", rc);
		break;
	case 3:
		if (!gone)
			break;
		rc = capkm_host_free(w->host, gone->id, &w->err);
		if (rc != -ENOENT)
			die(w, "a second free: %d", rc);
		break;
	case 4:
		rc = capkm_host_graph_replay(w->host, stream, 1ull << 60, NULL, &w->err);
		if (rc != -ENOENT && rc != -EXDEV)
			die(w, "a replay of an unknown graph: %d", rc);
		break;
	}
}

/* --------------------------------------------------------------- of a world */

static struct capkm_host *new_host(struct capkm **c, const struct capkm_domain_opts *domain,
				   const struct capkm_host_opts *opts)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_host *host;
	int rc = capkm_open(t_transport(), NULL, c, &err);

	if (!rc)
		rc = capkm_domain_create(*c, NULL, domain, &err);
	if (!rc)
		rc = capkm_host_create(*c, opts, &host, &err);
	if (rc)
		t_die("no executor: %d (%s)", rc, err.text);
	return host;
}

/* Slots @base to @base + @slots - 1 are this world's alone. */
static struct world *new_world(struct capkm *c, struct capkm_host *host, uint64_t seed,
			       unsigned int max_streams, unsigned int base, unsigned int slots)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		t_die("out of memory");
	w->seed = seed;
	w->rng = seed + ((uint64_t)base << 32);
	w->noise = ~w->rng;
	w->err.sz = sizeof(w->err);
	w->c = c;
	w->host = host;
	w->max_streams = max_streams;
	w->base = base;
	w->slots = slots;
	for (int i = 0; i < SLOTS; i++)
		w->member[i] = -1;
	for (int i = 0; i < KERNELS; i++) {
		w->kernel[i].w = w;
		w->kernel[i].which = i;
		if (i != COPY)
			new_kernel(w, i);
	}
	return w;
}

static bool overlaps(const struct arg *a, const struct arg *b)
{
	return a->m == b->m && a->start < b->end && b->start < a->end &&
	       (a->access | b->access) & W;
}

static bool must_follow(struct world *w, const struct past *a, const struct past *b)
{
	if (a->slot == b->slot)
		return true;
	for (unsigned int i = 0; i < args_of(&a->op); i++)
		for (unsigned int j = 0; j < args_of(&b->op); j++)
			if (overlaps(&a->op.arg[i], &b->op.arg[j]))
				return true;
	for (unsigned int i = 0; i < w->waits; i++)
		if (w->wait[i].slot == b->slot && w->wait[i].at < b->at &&
		    w->wait[i].on == a->slot && a->at <= w->wait[i].upto)
			return true;
	return false;
}

static bool ran_once(struct world *w, unsigned int serial)
{
	return w->issues[serial] == 1 && w->stamp[serial].runs == 1;
}

/*
 * Nothing is queued: each function ran as often as it should have, and of those
 * that ran once none began before those that it comes after had ended.
 */
static void check_stamps(struct world *w)
{
	if (w->wrong)
		die(w, "a function got what was not meant for it: %u", w->wrong);
	for (unsigned int i = 1; i <= w->serials; i++)
		if (w->stamp[i].runs != w->runs[i] && !w->any_runs[i] &&
		    !(w->limits && w->stamp[i].runs < w->runs[i]))
			die(w, "function %u ran %u times, the model says %u", i,
			    w->stamp[i].runs, w->runs[i]);
	for (unsigned int b = 0; b < w->pasts; b++) {
		const unsigned int sb = w->past[b].op.info.serial;

		for (unsigned int a = 0; a < b && ran_once(w, sb); a++) {
			const unsigned int sa = w->past[a].op.info.serial;

			if (ran_once(w, sa) && must_follow(w, &w->past[a], &w->past[b]) &&
			    w->stamp[sa].end >= w->stamp[sb].begin)
				die(w, "function %u began before %u had ended", sb, sa);
		}
	}
}

static void sync_all(struct world *w)
{
	for (unsigned int s = 0; s < w->slots; s++)
		sync_stream(w, stream_on(w, s, 0));
}

/* At rest: no window, nothing queued, and each memory as a whole. */
static void come_to_rest(struct world *w)
{
	for (unsigned int s = 0; s < w->slots; s++)
		if (w->window[s].state != NONE)
			abort_window(w, stream_on(w, s, 0));
	sync_all(w);
	check_stamps(w);
	for (unsigned int i = 0; i < w->n; i++) {
		struct arg a = { w->live[i], 0, w->live[i]->size, R };

		read_bytes(w, stream_on(w, 0, 0), &a);
		for (; a.start < w->live[i]->size; a.start += 7) {
			a.end = a.start + 7 < w->live[i]->size ? a.start + 7 :
								 w->live[i]->size;
			read_bytes(w, stream_on(w, 0, 0), &a);
		}
	}
}

static void free_world(struct world *w)
{
	struct mem *m;

	while ((m = w->mems)) {
		w->mems = m->next;
		free(m);
	}
	for (unsigned int s = 0; s < SLOTS; s++)
		free(w->window[s].rec);
	for (int i = 0; i < GRAPHS; i++)
		free(w->graph[i].rec);
	free(w);
}

static void end_world(struct world *w)
{
	while (w->n)
		release_live(w, w->n - 1);
	for (int i = 0; i < GRAPHS; i++)
		if (w->graph[i].rec)
			destroy_graph(w, &w->graph[i]);
	sync_all(w);
	for (int i = 0; i < KERNELS; i++)
		if (i != COPY)
			OK(w, capkm_host_kernel_destroy(w->host, w->kernel[i].id, &w->err));
	free_world(w);
}

static void check_domain(struct capkm *c, const char *when)
{
	struct capkm_domain_query d = { .size = sizeof(d) };

	if (capkm_domain_query(c, &d, NULL) || d.out_buffers || d.out_failures ||
	    d.out_graphs || d.out_scopes || d.out_windows || d.out_claims)
		t_die("left %s: buffers %llu failures %llu graphs %llu scopes %llu "
		      "windows %llu claims %llu", when, d.out_buffers, d.out_failures,
		      d.out_graphs, d.out_scopes, d.out_windows, d.out_claims);
}

/* Nobody has anything of it any more, so neither has it, metadata included. */
static void end_host(struct capkm *c, struct capkm_host *host, unsigned int max_streams)
{
	struct capkm_host_stats stats = CAPKM_OPTS(struct capkm_host_stats);

	if (capkm_host_query(host, &stats, NULL) || stats.queued || stats.prepared ||
	    stats.recording || stats.graphs)
		t_die("left: %" PRIu64 " tasks, %" PRIu64 "+%" PRIu64 " windows, %" PRIu64
		      " graphs", stats.queued, stats.prepared, stats.recording, stats.graphs);
	for (unsigned int s = 0; s < max_streams; s++) {
		struct capkm_pool_stats pool = CAPKM_OPTS(struct capkm_pool_stats);
		const uint64_t stream = max_streams + s;

		if (capkm_host_cleanup(host, stream, NULL) ||
		    capkm_host_memory_query(host, stream, &pool, NULL) ||
		    pool.slices || pool.used || pool.bytes || pool.capture)
			t_die("slot %u: %" PRIu64 " slices, %" PRIu64 " of %" PRIu64
			      " bytes used, capture %u", s, pool.slices, pool.used,
			      pool.bytes, pool.capture);
	}
	check_domain(c, "after the cleanup");
	capkm_host_destroy(host);
	check_domain(c, "after the end");
	capkm_close(c);
}

/* With all that it has, and work queued: that runs, and then nothing is left. */
static void end_at_once(struct world *w, struct capkm *c)
{
	capkm_host_destroy(w->host);
	check_stamps(w);
	check_domain(c, "after an end at once");
	capkm_close(c);
	free_world(w);
}

/* Only so that a test may take its time: it makes as many executors as it needs. */
FIXTURE(host_random)
{
	int unused;
};

FIXTURE_SETUP(host_random)
{
	t_file = __FILE__;
	t_line = __LINE__;
}

FIXTURE_TEARDOWN(host_random)
{
	t_no_leaks();
}

static uint64_t first_seed(void)
{
	return t_param("CAPKM_TEST_SEED", 1, 1);
}

static uint64_t rounds(uint64_t native, uint64_t vm)
{
	return t_param("CAPKM_TEST_ROUNDS", native, vm);
}

/* --------------------------------------------------- eager against captured */

/*
 * A part of a program that runs several times: each time at once, or recorded
 * once and replayed. Memory that it allocates for itself is named by place
 * holders, which stand among the living memories while it is made up.
 */
#define TEMPS 3
#define ITEMS (TASKS + 2 * TEMPS)

enum item_kind { TASK, ALLOC, FREE };

struct item {
	enum item_kind kind;
	unsigned int temp;
	struct op op;
};

struct part {
	unsigned int items;
	struct item item[ITEMS];
	struct mem temp[TEMPS], *is[TEMPS];
};

static void add_task(struct world *w, struct part *p, enum which which)
{
	struct item *item = &p->item[p->items];

	item->kind = TASK;
	p->items += make_op(w, &item->op, which);
}

/* What it is worth is not known, so it is written as a whole before it is used. */
static void add_temp(struct world *w, struct part *p, unsigned int temp)
{
	struct item *item = &p->item[p->items++];

	p->temp[temp] = (struct mem){ .size = roll(w, 2) ? 64 : 12 + roll(w, 100) };
	*item = (struct item){ .kind = ALLOC, .temp = temp };
	w->live[w->n++] = &p->temp[temp];
	add_task(w, p, FILL);
	item[1].op.arg[0] = (struct arg){ &p->temp[temp], 0, p->temp[temp].size, W };
	item[1].op.info.sizes = 0;
}

static void remove_temp(struct world *w, struct part *p, unsigned int temp)
{
	for (unsigned int i = 0; i < w->n; i++) {
		if (w->live[i] != &p->temp[temp])
			continue;
		w->live[i] = w->live[--w->n];
		p->item[p->items++] = (struct item){ .kind = FREE, .temp = temp };
	}
}

static void make_part(struct world *w, struct part *p)
{
	const unsigned int tasks = 1 + roll(w, 10);
	unsigned int temps = 0;

	p->items = 0;
	for (unsigned int i = 0; i < tasks; i++) {
		if (temps < TEMPS && !roll(w, 4))
			add_temp(w, p, temps++);
		if (temps && !roll(w, 5))
			remove_temp(w, p, roll(w, temps));
		add_task(w, p, roll(w, COPY + 1));
	}
	while (temps)
		remove_temp(w, p, --temps);
}

/* On @stream, or with 0 on any. */
static void run_part(struct world *w, struct part *p, const uint64_t *streams, unsigned int n)
{
	for (unsigned int i = 0; i < p->items; i++) {
		struct item *item = &p->item[i];
		const uint64_t stream = streams[toss(w, n)];
		struct op op = item->op;

		if (item->kind == ALLOC) {
			p->is[item->temp] = alloc(w, stream, p->temp[item->temp].size);
			if (!p->is[item->temp])
				die(w, "no memory");
			continue;
		}
		if (item->kind == FREE) {
			release(w, p->is[item->temp]);
			continue;
		}
		for (unsigned int j = 0; j < args_of(&op); j++)
			if (op.arg[j].m >= p->temp && op.arg[j].m < p->temp + TEMPS)
				op.arg[j].m = p->is[op.arg[j].m - p->temp];
		launch(w, stream, &op);
		if (!toss(w, 8) && !recording_on(w, slot_of(w, stream)))
			sync_stream(w, stream);
	}
}

/* All of the world's streams, those of one slot before those of the next. */
static unsigned int all_streams(struct world *w, uint64_t *streams)
{
	for (unsigned int i = 0; i < 2 * w->slots; i++)
		streams[i] = stream_on(w, i / 2, i % 2);
	return 2 * w->slots;
}

/* Of the owner's slot, sometimes with a second slot that joins. */
static struct graph *record_part(struct world *w, struct part *p, uint64_t owner)
{
	const unsigned int slot = slot_of(w, owner), other = (slot + 1) % w->slots;
	uint64_t streams[3] = { owner, stream_on(w, slot, 0), stream_on(w, slot, 1) };
	struct event e;

	begin(w, owner);
	if (other != slot && !toss(w, 3)) {
		record_event(w, owner, &e);
		wait_event(w, stream_on(w, other, 0), &e);
		streams[2] = stream_on(w, other, 0);
	}
	run_part(w, p, streams, 3);
	return end(w, owner);
}

static void use_part(struct world *w, struct part *p, bool captured)
{
	const unsigned int times = 1 + roll(w, 3);
	uint64_t streams[2 * SLOTS], owner;
	const unsigned int n = all_streams(w, streams);
	struct graph *g = NULL;

	owner = streams[toss(w, n)];
	if (captured)
		prepare(w, owner);
	run_part(w, p, streams, n);
	if (captured)
		g = record_part(w, p, owner);
	for (unsigned int i = 0; i < times; i++) {
		for (unsigned int writes = roll(w, 3); writes; writes--)
			any_write(w, streams[toss(w, n)]);
		if (captured)
			replay(w, streams[toss(w, n)], g);
		else
			run_part(w, p, streams, n);
	}
	if (g && toss(w, 2))
		destroy_graph(w, g);
}

static void same_step(struct world *w, struct part *p, bool captured)
{
	const uint64_t stream = stream_on(w, toss(w, w->slots), toss(w, 2));
	const unsigned int draw = roll(w, 100);
	struct op op;

	w->step++;
	if (w->n < 3 || (draw < 12 && w->n + TEMPS < LIVE))
		any_alloc(w, stream, true);
	else if (draw < 20)
		release_live(w, roll(w, w->n));
	else if (draw < 45 && make_op(w, &op, roll(w, COPY + 1)))
		launch(w, stream, &op);
	else if (draw < 60)
		any_write(w, stream);
	else if (draw < 65)
		write_grid(w, stream);
	else if (draw < 75)
		any_read(w, stream);
	else if (draw < 80)
		any_check(w);
	else if (draw < 83)
		renew_kernel(w, roll(w, COPY));
	else if (draw < 95)
		make_part(w, p), use_part(w, p, captured);
}

/* What all memory of the world holds in the end. */
static uint64_t image(struct world *w)
{
	uint64_t sum = 14695981039346656037ull;

	for (unsigned int i = 0; i < w->n; i++) {
		struct capkm_host_range all = { w->live[i]->id, 0, 0 };
		unsigned char data[BYTES_MAX];

		OK(w, capkm_host_read(w->host, stream_on(w, 0, 0), &all, data, NULL,
				      &w->err));
		for (unsigned int at = 0; at < w->live[i]->size; at++)
			sum = (sum ^ data[at]) * 1099511628211ull;
	}
	return sum;
}

static uint64_t same_run(uint64_t seed, unsigned int slots, unsigned int queue_max,
			 bool captured)
{
	struct capkm *c;
	struct capkm_host *host = new_host(&c, WITH(struct capkm_domain_opts,
						     .max_streams = slots),
					   WITH(struct capkm_host_opts, .queue_max = queue_max,
						.preset = seed % 2));
	struct world *w = new_world(c, host, seed, slots, 0, slots);
	struct part *p = malloc(sizeof(*p));
	uint64_t sum;

	w->noise ^= captured;
	for (int step = 0; step < 40; step++)
		same_step(w, p, captured);
	come_to_rest(w);
	sum = image(w);
	free(p);
	end_world(w);
	end_host(c, host, slots);
	return sum;
}

/* T-100 T-102 T-103 T-104 T-105 T-110 T-111 */
TEST_F_TIMEOUT(host_random, same_bytes, 300)
{
	const uint64_t n = rounds(60, 6);

	for (uint64_t seed = first_seed(), i = 0; i < n; seed++, i++) {
		unsigned int slots = 1 + seed % SLOTS, queue_max = seed % 3 ? 0 : 1 + seed % 4;

		ASSERT_EQ(same_run(seed, slots, queue_max, false),
			  same_run(seed, slots, queue_max, true)) {
			TH_LOG("CAPKM_TEST_SEED=%" PRIu64, seed);
		}
	}
}

/* ------------------------------------------------------- failures of all sorts */

static void any_launch(struct world *w, uint64_t stream)
{
	enum which which = roll(w, w->failures && !roll(w, 3) ? KERNELS : CHECKED);
	struct window *win = recording_on(w, slot_of(w, stream));
	struct op op;

	if (!make_op(w, &op, which) || (win ? !has_room(win->rec) : !is_sure(&op)))
		return;
	op.poison = w->failures && !op.dynamic && which != CHECKED && which != COPY &&
		    !roll(w, 12);
	if (extent(op.grid) && which != COPY && !uses_never(&op) && !roll(w, 20))
		dry_run(w, stream, &op);
	launch(w, stream, &op);
}

/* A window is opened and closed on its own slot. On a member nothing changes. */
static void on_member(struct world *w, uint64_t stream)
{
	uint64_t graph = 99;

	switch (roll(w, 4)) {
	case 0:
		OK(w, capkm_host_graph_abort(w->host, stream, &w->err));
		break;
	case 1:
		if (!capkm_host_graph_end(w->host, stream, &graph, NULL, &w->err) || graph)
			die(w, "end on a member: graph %" PRIu64, graph);
		break;
	case 2:
		begin(w, stream);
		break;
	default:
		prepare(w, stream);
	}
}

static void any_window(struct world *w, uint64_t stream)
{
	const unsigned int slot = slot_of(w, stream);
	const unsigned int draw = w->failures ? roll(w, 10) : 9;
	const struct window *win = &w->window[slot];

	if (w->member[slot] >= 0)
		on_member(w, stream);
	else if (win->state == NONE && !draw)
		begin(w, stream);
	else if (win->state == NONE)
		prepare(w, stream);
	else if (!draw)
		abort_window(w, stream);
	else if (win->state == PREPARED && draw > 1)
		begin(w, stream);
	else if (draw == 1)
		prepare(w, stream);
	else
		end(w, draw == 2 ? stream : win->owner);
}

static void any_event(struct world *w, uint64_t stream)
{
	struct event *e = &w->event[roll(w, EVENTS)];

	if (!e->used || roll(w, 2)) {
		record_event(w, stream, e);
		stream = any_stream(w);
	}
	wait_event(w, stream, e);
}

/* In a window there is nothing to measure, which does no harm. */
static void any_profile(struct world *w, uint64_t stream)
{
	const bool recording = recording_on(w, slot_of(w, stream));
	struct capkm_host_profile profile = { 0 };

	OK(w, capkm_host_profile_begin(w->host, stream, &profile, &w->err));
	any_launch(w, stream);
	OK(w, capkm_host_profile_end(w->host, stream, &profile, &w->err));
	if (profile.timed == recording)
		die(w, "a profile %s a window is %stimed", recording ? "in" : "outside of",
		    profile.timed ? "" : "not ");
}

static void any_graph(struct world *w, uint64_t stream)
{
	struct graph *g = &w->graph[roll(w, GRAPHS)];

	if (!g->rec)
		return;
	if (!w->failures && !(stream = free_stream(w)))
		return;
	replay(w, stream, g);
	if (roll(w, 3))
		return;
	destroy_graph(w, g);
	/* What it kept may be had by somebody else now. */
	if (w->n < LIVE)
		any_alloc(w, stream, !recording_on(w, slot_of(w, stream)));
}

/* Rule 10: all bytes, and all that records. */
static void fault(struct world *w)
{
	static const uint8_t device[16];
	unsigned int now;

	for (unsigned int s = 0; s < w->slots; s++)
		sync_stream(w, stream_on(w, s, 0));
	note(w, "%u: fault", w->step);
	OK(w, capkm_stream_fault(w->c, &(struct capkm_where){ .stream = stream_on(w, 0, 0) },
				 NULL, NULL, NULL, &w->err));
	now = ++w->now;
	for (struct mem *m = w->mems; m; m = m->next)
		settle(w, &(struct arg){ m, 0, m->size, W }, now);
	for (unsigned int s = 0; s < w->slots; s++) {
		struct window *win = &w->window[s];

		win->doomed |= win->state == CAPTURE;
		if (win->state != PREPARED)
			continue;
		if (capkm_host_graph_begin(w->host, win->owner, &w->err) != -EIO)
			die(w, "begin on a faulted device");
		leave_window(w, s);
	}
	OK(w, capkm_context_renew(w->c, device, NULL, &w->err));
}

static void reset(struct world *w)
{
	note(w, "%u: reset", w->step);
	for (unsigned int s = 0; s < w->slots; s++)
		if (w->window[s].state != NONE)
			leave_window(w, s);
	OK(w, capkm_host_reset(w->host, &w->err));
	while (w->n)
		w->live[--w->n]->freed = true;
	for (int i = 0; i < GRAPHS; i++)
		w->graph[i].lost = true;
}

static void storm_step(struct world *w)
{
	const unsigned int draw = roll(w, 1000);
	uint64_t stream = any_stream(w);

	w->step++;
	/* Without failures only launches and what opens and closes goes to a window. */
	if (!w->failures && !(draw >= 130 && draw < 430) && !(draw >= 700 && draw < 830))
		stream = free_stream(w);
	if (!stream)
		any_window(w, any_stream(w));
	else if (w->n < 3 || (draw < 90 && w->n < LIVE))
		any_alloc(w, stream, !recording_on(w, slot_of(w, stream)) && roll(w, 8));
	else if (draw < 130)
		release_live(w, roll(w, w->n));
	else if (draw < 430)
		any_launch(w, stream);
	else if (draw < 530)
		any_write(w, stream);
	else if (draw < 560)
		recording_on(w, slot_of(w, stream)) ? (void)0 : write_grid(w, stream);
	else if (draw < 680)
		any_read(w, stream);
	else if (draw < 700)
		any_check(w);
	else if (draw < 830)
		any_window(w, stream);
	else if (draw < 920)
		any_graph(w, stream);
	else if (draw < 960)
		any_event(w, stream);
	else if (draw < 965)
		sync_stream(w, stream);
	else if (draw < 970)
		any_profile(w, stream);
	else if (draw < 980)
		renew_kernel(w, roll(w, 2) ? LATECOMER : (enum which)roll(w, COPY));
	else if (draw < 995 && w->failures)
		wrong_call(w, stream);
	else if (draw < 998 && w->alone)
		OK(w, capkm_host_cleanup(w->host, stream, &w->err));
	else if (draw == 998 && w->alone && w->failures)
		fault(w);
	else if (draw == 999 && w->alone && w->failures)
		reset(w);
}

static void storm(struct world *w, int steps)
{
	struct capkm_host_stats stats = CAPKM_OPTS(struct capkm_host_stats);

	while (steps--) {
		storm_step(w);
		OK(w, capkm_host_query(w->host, &stats, &w->err));
		if (w->queue_max && stats.queued > w->queue_max * w->slots)
			die(w, "%" PRIu64 " tasks wait, in queues of %u", stats.queued,
			    w->queue_max);
	}
}

/* Every third one runs out of memory. */
static void storm_run(uint64_t seed, unsigned int slots, bool failures, struct counts *all)
{
	static const struct capkm_pool_area few[] = {
		{ .kind = CAPKM_POOL_SLICED, .page_bytes = 1024, .capacity = 2048 },
		{ .kind = CAPKM_POOL_EXCLUSIVE, .page_bytes = 256, .capacity = 512, .period = 20 },
	};
	struct capkm_host_opts opts = CAPKM_OPTS(struct capkm_host_opts,
		.queue_max = seed % 5 ? 0 : 1, .preset = seed % 2,
		.areas = seed % 3 ? NULL : few, .areas_len = seed % 3 ? 0 : 2,
		.cache_entries = seed % 7 ? seed % 4 : CAPKM_HOST_NO_CACHE,
	);
	struct capkm *c;
	struct capkm_host *host = new_host(&c, WITH(struct capkm_domain_opts,
						     .max_streams = slots), &opts);
	struct world *w = new_world(c, host, seed, slots, 0, slots);

	w->failures = failures;
	w->alone = true;
	w->queue_max = opts.queue_max;
	storm(w, 250);
	all->reads += w->count.reads;
	all->stale += w->count.stale;
	all->skipped += w->count.skipped;
	all->refused += w->count.refused;
	all->replays += w->count.replays;
	all->sealed += w->count.sealed;
	if (seed % 4) {
		come_to_rest(w);
		end_world(w);
		end_host(c, host, slots);
	} else {
		end_at_once(w, c);
	}
}

/* T-107 to T-109, T-111 to T-113, T-116, T-120, T-121 */
TEST_F_TIMEOUT(host_random, failures, 300)
{
	const uint64_t n = rounds(60, 6);
	struct counts all = { 0 };

	for (uint64_t seed = first_seed(), i = 0; i < n; seed++, i++) {
		storm_run(seed, 1 + seed % SLOTS, true, &all);
		storm_run(seed, 1 + seed % SLOTS, false, &all);
	}
	TH_LOG("%" PRIu64 " reads, %" PRIu64 " refused; %" PRIu64 " skipped; %" PRIu64
	       " windows sealed, %" PRIu64 " refused; %" PRIu64 " replays", all.reads,
	       all.stale, all.skipped, all.sealed, all.refused, all.replays);
	if (n < 6)
		return;
	/* Else it has tested nothing. */
	ASSERT_LT(0, all.stale);
	ASSERT_LT(0, all.skipped);
	ASSERT_LT(0, all.refused);
	ASSERT_LT(0, all.replays);
}

/* ------------------------------------------------------------------- threads */

struct thread {
	pthread_t id;
	struct world *w;
	struct capkm_host *host;
	unsigned int max_streams, which, steps;
	uint64_t watched;
	atomic_bool *stop;
	struct mem *shared[2];
	struct chain *chain;
};

static void start(struct thread *t, void *(*run)(void *))
{
	int rc = pthread_create(&t->id, NULL, run, t);

	if (rc)
		t_die("no thread: %d", rc);
}

static void *run_storm(void *arg)
{
	struct thread *t = arg;

	storm(t->w, t->steps);
	come_to_rest(t->w);
	return NULL;
}

/* Asks all the time, and gives back what nobody uses. */
static void *run_watch(void *arg)
{
	struct thread *t = arg;
	struct capkm_host_range all = { t->watched, 0, 0 };

	for (unsigned int i = 0; !*t->stop; i++) {
		const uint64_t stream = t->max_streams + i % t->max_streams;
		struct capkm_host_stats stats = CAPKM_OPTS(struct capkm_host_stats);
		struct capkm_pool_stats pool = CAPKM_OPTS(struct capkm_pool_stats);
		struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
		struct capkm_error err = CAPKM_OPTS(struct capkm_error);

		if (capkm_host_query(t->host, &stats, &err) ||
		    capkm_host_memory_query(t->host, stream, &pool, &err) ||
		    capkm_host_cleanup(t->host, stream, &err) ||
		    capkm_host_check(t->host, &all, 1, &answer, &err) ||
		    answer.out_result != CAPKM_CLEAN)
			t_die("watched memory has result %u (%s)", answer.out_result, err.text);
		usleep(200);
	}
	return NULL;
}

static uint64_t new_memory(struct capkm_host *host, unsigned int size)
{
	static const unsigned char zero[BYTES_MAX];
	uint64_t id;
	struct capkm_host_write write = { { .end = size }, zero };

	if (capkm_host_alloc(host, 0, size, 0, &id, NULL))
		t_die("no memory");
	write.to.memory = id;
	if (capkm_host_write(host, 0, &write, 1, NULL, NULL))
		t_die("write");
	return id;
}

/* Worlds of several threads, each on slots of its own, in one executor. */
static void storms(uint64_t seed, unsigned int threads, unsigned int steps)
{
	const unsigned int slots = 2, max_streams = threads * slots;
	struct capkm *c;
	struct capkm_host *host = new_host(&c, WITH(struct capkm_domain_opts,
						     .max_streams = max_streams), NULL);
	struct thread t[8], watch;
	atomic_bool stop = false;

	watch = (struct thread){
		.host = host, .max_streams = max_streams, .stop = &stop,
		.watched = new_memory(host, 64),
	};
	start(&watch, run_watch);
	for (unsigned int i = 0; i < threads; i++) {
		t[i] = (struct thread){ .steps = steps };
		t[i].w = new_world(c, host, seed, max_streams, i * slots, slots);
		t[i].w->failures = i != 0;
		start(&t[i], run_storm);
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(t[i].id, NULL);
	stop = true;
	pthread_join(watch.id, NULL);
	for (unsigned int i = 0; i < threads; i++)
		end_world(t[i].w);
	if (capkm_host_free(host, watch.watched, NULL))
		t_die("free");
	end_host(c, host, max_streams);
}

TEST_F_TIMEOUT(host_random, many_threads, 300)
{
	const uint64_t n = rounds(6, 1);

	for (uint64_t seed = first_seed(), i = 0; i < n; seed++, i++)
		storms(seed, 4, 150);
}

/*
 * Threads that add to the same bytes, by xor, in any order: each keeps what it has
 * added, and in the end the bytes are all of that. They share two slots; the last
 * one has its own, where it records the same, and replays it.
 */
static void add_shared(struct thread *t, uint64_t stream)
{
	struct world *w = t->w;
	struct op op = { .which = XOR, .args = 2 };

	op.arg[0] = any_arg(w, t->shared[roll(w, 2)], R | W);
	op.arg[1] = any_arg(w, any_mem(w), R);
	any_grid(w, &op);
	any_info(w, &op);
	launch(w, stream, &op);
}

/* What it has of its own changes, too, so that what is added does. */
static void change_own(struct world *w, uint64_t stream)
{
	const unsigned int draw = roll(w, 10);

	if (w->n < 2 || (draw < 2 && w->n < LIVE))
		any_alloc(w, stream, true);
	else if (draw < 3)
		release_live(w, roll(w, w->n));
	else if (draw < 6)
		any_write(w, stream);
	else if (draw < 9)
		any_launch(w, stream);
	else
		any_read(w, stream);
}

static void *run_shared(void *arg)
{
	struct thread *t = arg;
	struct world *w = t->w;

	for (w->step = 0; w->step < t->steps; w->step++) {
		/* Two streams for each, on the slots that all have. */
		const uint64_t stream = stream_on(w, roll(w, w->slots), 2 * t->which + roll(w, 2));

		change_own(w, stream);
		if (w->n)
			add_shared(t, stream);
	}
	return NULL;
}

static void *run_shared_graphs(void *arg)
{
	struct thread *t = arg;
	struct world *w = t->w;
	const uint64_t stream = stream_on(w, 0, 0);

	for (w->step = 0; w->step < t->steps / 10; w->step++) {
		struct graph *g;

		while (w->n < 4)
			change_own(w, stream);
		prepare(w, stream);
		begin(w, stream);
		for (int i = 0; i < 4; i++) {
			any_launch(w, stream);
			add_shared(t, stream);
		}
		g = end(w, stream);
		for (int i = 0; i < 3; i++) {
			any_write(w, stream);
			replay(w, stream, g);
		}
		destroy_graph(w, g);
	}
	return NULL;
}

static void check_shared(struct capkm_host *host, uint64_t id, const struct thread *t,
			 unsigned int threads, unsigned int which)
{
	struct capkm_host_range all = { id, 0, 0 };
	unsigned char data[BYTES_MAX];

	if (capkm_host_read(host, 0, &all, data, NULL, NULL))
		t_die("shared memory cannot be read");
	for (unsigned int i = 0; i < threads; i++)
		for (unsigned int at = 0; at < BYTES_MAX; at++)
			data[at] ^= t[i].shared[which]->value[at];
	for (unsigned int at = 0; at < BYTES_MAX; at++)
		if (data[at])
			t_die("again: CAPKM_TEST_SEED=%" PRIu64 ": byte %u of shared memory "
			      "%u lacks something", t[0].w->seed, at, which);
}

static void share(uint64_t seed, unsigned int threads, unsigned int steps)
{
	struct capkm *c;
	struct capkm_host *host = new_host(&c, WITH(struct capkm_domain_opts,
						     .max_streams = 3),
					   WITH(struct capkm_host_opts, .queue_max = seed % 9));
	const uint64_t ids[2] = { new_memory(host, BYTES_MAX), new_memory(host, BYTES_MAX) };
	struct thread t[8];

	for (unsigned int i = 0; i < threads; i++) {
		const bool last = i == threads - 1;

		t[i] = (struct thread){ .steps = steps, .which = i };
		t[i].w = new_world(c, host, seed, 3, last ? 2 : 0, last ? 1 : 2);
		t[i].w->rng += i;
		for (int j = 0; j < 2; j++) {
			t[i].shared[j] = add_mem(t[i].w, ids[j], BYTES_MAX);
			memset(t[i].shared[j]->known, true, BYTES_MAX);
		}
		start(&t[i], last ? run_shared_graphs : run_shared);
	}
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(t[i].id, NULL);
	for (int j = 0; j < 2; j++)
		check_shared(host, ids[j], t, threads, j);
	for (unsigned int i = 0; i < threads; i++) {
		come_to_rest(t[i].w);
		end_world(t[i].w);
	}
	for (int j = 0; j < 2; j++)
		if (capkm_host_free(host, ids[j], NULL))
			t_die("free");
	end_host(c, host, 3);
}

TEST_F_TIMEOUT(host_random, shared_memory, 300)
{
	const uint64_t n = rounds(6, 1);

	for (uint64_t seed = first_seed(), i = 0; i < n; seed++, i++)
		share(seed, 4, 100);
}

/*
 * A chain of launches that have no memory in common, each by another thread on
 * another slot: only an event says that one comes after the other. Some threads
 * wait for it themselves.
 */
struct chain {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	unsigned int next, links;
	struct capkm_host_event event;
	struct stamp *last;
};

static void add_link(struct thread *t, struct chain *chain)
{
	struct world *w = t->w;
	const uint64_t stream = stream_on(w, roll(w, w->slots), 0);
	struct stamp *last = chain->last;
	struct op op;

	while (w->n < 2)
		any_alloc(w, stream, true);
	if (last && roll(w, 2)) {
		OK(w, capkm_host_event_sync(w->host, &chain->event, &w->err));
		if (!last->runs)
			t_die("an event came before the function that it is behind");
	} else if (last) {
		OK(w, capkm_host_event_wait(w->host, stream, &chain->event, &w->err));
	}
	make_op(w, &op, MIX);
	op.info.serial = ++w->serials;
	op.info.delay_us = toss(w, 500);
	op.info.sizes = 0;
	launch(w, stream, &op);
	OK(w, capkm_host_event_record(w->host, stream, &chain->event, &w->err));
	chain->last = &w->stamp[op.info.serial];
}

static void *run_chain(void *arg)
{
	struct thread *t = arg;
	struct chain *chain = t->chain;
	struct stamp *before;

	pthread_mutex_lock(&chain->lock);
	while (chain->next < chain->links) {
		if (chain->next % t->max_streams != t->which) {
			pthread_cond_wait(&chain->cond, &chain->lock);
			continue;
		}
		before = chain->last;
		add_link(t, chain);
		chain->last->before = before;
		chain->next++;
		pthread_cond_broadcast(&chain->cond);
	}
	pthread_mutex_unlock(&chain->lock);
	return NULL;
}

TEST_F_TIMEOUT(host_random, events_of_threads, 300)
{
	struct chain chain = {
		.lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER,
		.links = 40 * rounds(6, 1),
	};
	struct capkm *c;
	struct capkm_host *host = new_host(&c, WITH(struct capkm_domain_opts,
						     .max_streams = 4), NULL);
	struct thread t[4];

	for (unsigned int i = 0; i < 4; i++) {
		t[i] = (struct thread){ .which = i, .max_streams = 4, .chain = &chain };
		t[i].w = new_world(c, host, first_seed(), 4, i, 1);
		start(&t[i], run_chain);
	}
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(t[i].id, NULL);
	for (unsigned int i = 0; i < 4; i++)
		come_to_rest(t[i].w);
	for (struct stamp *s = chain.last; s->before; s = s->before)
		ASSERT_LT(s->before->end, s->begin);
	for (unsigned int i = 0; i < 4; i++)
		end_world(t[i].w);
	end_host(c, host, 4);
}

/* -------------------------------------------------------------------- limits */

/*
 * With a limit that is too small, some work cannot be entered when its turn comes.
 * The model then has every launch as done, and what is asked is little: bytes that
 * can be read are right. If the worst has come, everything is lost, and starts anew.
 */
static void recover(struct world *w)
{
	static const uint8_t device[16];
	struct capkm_stream_query q = { .size = sizeof(q), .place.stream = stream_on(w, 0, 0) };

	OK(w, capkm_stream_query(w->c, &q, &w->err));
	if (!q.out_failure)
		return;
	note(w, "%u: all is lost", w->step);
	w->count.missed++;
	sync_all(w);
	OK(w, capkm_context_renew(w->c, device, NULL, &w->err));
}

static void limited(struct __test_metadata *_metadata, uint32_t limit, uint64_t value)
{
	struct capkm_limit_value limits = { .limit = limit, .value = value };
	const uint64_t n = rounds(10, 4);
	uint64_t reads = 0, missed = 0;

	for (uint64_t seed = first_seed(), i = 0; i < n; seed++, i++) {
		struct capkm *c;
		struct capkm_host *host =
			new_host(&c, WITH(struct capkm_domain_opts, .max_streams = SLOTS,
					  .limits = &limits, .limits_len = 1), NULL);
		struct world *w = new_world(c, host, seed, SLOTS, 0, SLOTS);

		struct capkm_host_stats stats = CAPKM_OPTS(struct capkm_host_stats);

		w->limits = true;
		sync_all(w);		/* the executor knows its slots */
		for (int step = 0; step < 200; step++) {
			storm_step(w);
			recover(w);
		}
		come_to_rest(w);
		OK(w, capkm_host_query(host, &stats, &w->err));
		reads += w->count.reads;
		missed += w->count.missed + stats.failed;
		end_world(w);
		end_host(c, host, SLOTS);
	}
	ASSERT_LT(0, reads);
	ASSERT_LT(0, n < 4 ? 1 : missed);
}

TEST_F_TIMEOUT(host_random, limit_scopes, 300)
{
	limited(_metadata, CAPKM_LIMIT_SCOPES, 1);
}

TEST_F_TIMEOUT(host_random, limit_ranges, 300)
{
	limited(_metadata, CAPKM_LIMIT_RANGES, 4);
}

TEST_F_TIMEOUT(host_random, limit_claims, 300)
{
	limited(_metadata, CAPKM_LIMIT_CLAIMS, 5);
}

TEST_F_TIMEOUT(host_random, limit_graphs, 300)
{
	limited(_metadata, CAPKM_LIMIT_GRAPHS, 1);
}

TEST_F_TIMEOUT(host_random, limit_windows, 300)
{
	limited(_metadata, CAPKM_LIMIT_WINDOWS, 1);
}

TEST_F_TIMEOUT(host_random, limit_buffers, 300)
{
	limited(_metadata, CAPKM_LIMIT_BUFFERS, 3);
}

TEST_HARNESS_MAIN
