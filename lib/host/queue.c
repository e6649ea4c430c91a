// SPDX-License-Identifier: MIT
/*
 * Queues and the threads that serve them. A slot's tasks run in order; what a task
 * has to wait for on other slots is computed when it is issued, under the lock, from
 * the marks of the memory that it uses: it waits only for what was issued before, so
 * nobody waits in a circle.
 */
#define _GNU_SOURCE
#include "host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static __thread struct inside *inside;

bool capkm_host_is_inside(const struct capkm_host *host)
{
	const struct inside *i;

	for (i = inside; i; i = i->outer)
		if (i->host == host)
			return true;
	return false;
}

void capkm_host_go_inside(struct inside *frame, const struct capkm_host *host)
{
	*frame = (struct inside){ host, inside };
	inside = frame;
}

void capkm_host_come_out(const struct inside *frame)
{
	inside = frame->outer;
}

struct task *capkm_task_new(struct capkm_host *host, uint64_t stream)
{
	struct task *task = calloc(1, sizeof(*task) + host->slots_len *
				   sizeof(task->waits[0]));

	if (task)
		task->stream = stream;
	return task;
}

void capkm_task_free(struct capkm_host *host, struct task *task)
{
	uint32_t i;

	if (task->dispatch)
		capkm_dispatch_free(host, task->dispatch);
	if (task->graph) {
		for (i = 0; i < task->graph->uses_len; i++)
			capkm_memory_unuse(host, task->graph->uses[i].memory);
		capkm_graph_put(host, task->graph);
	}
	free(task);
}

/* Calls @f for each place that a use has to wait for. */
static void each_wait(const struct capkm_host *host, const struct use *use,
		      void (*f)(void *context, struct mark mark), void *context)
{
	const struct memory *m = use->memory;
	uint32_t i;

	f(context, m->written);
	if (use->access & CAPKM_HOST_WRITE)
		for (i = 0; i < host->slots_len; i++)
			f(context, (struct mark){ i, m->read[i] });
}

static void add_wait(void *context, struct mark mark)
{
	struct task *task = context;

	if (task->waits[mark.slot] < mark.position)
		task->waits[mark.slot] = mark.position;
}

struct mark capkm_task_issue(struct slot *slot, struct task *task,
			     const struct use *uses, uint32_t len)
{
	const struct mark mark = { slot->index, slot->issued + 1 };
	uint32_t i;

	for (i = 0; i < len; i++)
		each_wait(slot->host, &uses[i], add_wait, task);
	if (task->graph) {
		add_wait(task, task->graph->replayed);
		task->graph->replayed = mark;
	}
	/* What is before it in its own queue has run when its turn comes. */
	task->waits[slot->index] = 0;
	for (i = 0; i < len; i++) {
		struct memory *m = uses[i].memory;

		if (uses[i].access & CAPKM_HOST_WRITE) {
			m->written = mark;
			memset(m->read, 0, slot->host->slots_len *
			       sizeof(m->read[0]));
		} else {
			m->read[slot->index] = mark.position;
		}
	}
	slot->issued++;
	*slot->last = task;
	slot->last = &task->next;
	pthread_cond_signal(&slot->work);
	return mark;
}

static bool has_run(const struct capkm_host *host, struct mark mark)
{
	return !mark.position ||
	       host->slots[mark.slot]->done >= mark.position;
}

static bool is_ready(const struct capkm_host *host, const struct task *task)
{
	uint32_t i;

	for (i = 0; i < host->slots_len; i++)
		if (!has_run(host, (struct mark){ i, task->waits[i] }))
			return false;
	return true;
}

/* The scope or replay of the running task is left. 0: it went well. */
static void leave(struct slot *slot, struct task *task, int rc)
{
	struct capkm *c = slot->host->c;
	const struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause,
		.kind = CAPKM_KIND_LAUNCH, .code = rc, .text = task->why,
		.flags = CAPKM_SCOPE_EXIT_F_COMPLETE);
	const uint32_t done = CAPKM_SCOPE_EXIT_F_COMPLETE;

	if (slot->replaying) {
		const uint64_t id = slot->replaying->authority;

		if (rc)
			capkm_graph_replay_fail(c, id, &cause, NULL, NULL);
		else
			capkm_graph_replay_end(c, id, done, NULL);
		slot->replaying = NULL;
	} else if (slot->scope.id) {
		if (rc)
			capkm_scope_fail(c, &slot->scope, &cause, NULL);
		else
			capkm_scope_exit(c, &slot->scope, done, NULL);
		slot->scope.id = 0;
	}
}

enum outcome {
	DONE, FAILED, SKIPPED
};

/* The function runs between the two; it may end the thread. */
static enum outcome bracket(struct slot *slot, struct task *task,
			    int (*run)(struct slot *slot, struct task *task))
{
	int rc = run(slot, task);

	leave(slot, task, rc);
	return rc ? FAILED : DONE;
}

static int run_function(struct slot *slot, struct task *task)
{
	task->ran++;
	return capkm_dispatch_run(slot->host, task->dispatch, task->why,
				  sizeof(task->why));
}

/*
 * The grid is read before the scope is entered: without work there is no scope, so
 * claims on the outputs stay. 1: no work.
 */
static int find_grid(struct slot *slot, struct dispatch *d, int *rc)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	const struct capkm_claim *claim = &d->reads[d->reads_len - 1];

	*rc = capkm_read(slot->host->c, claim, d->grid, d->grid_at, NULL, &err);
	return !*rc && !(d->grid[0] && d->grid[1] && d->grid[2]);
}

static enum outcome run_dispatch(struct slot *slot, struct task *task)
{
	struct dispatch *d = task->dispatch;
	struct capkm *c = slot->host->c;
	const struct capkm_where where = capkm_host_where(task->stream);
	const struct capkm_scope_opts opts = CAPKM_OPTS(struct capkm_scope_opts,
		.label = d->kernel->name, .flags = d->poison);
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	int rc, grid = 0;

	if (d->has_grid && !task->uncompiled && find_grid(slot, d, &grid))
		return DONE;
	rc = capkm_scope_enter(c, &where, d->reads,
			       task->uncompiled ? 0 : d->reads_len, d->writes,
			       d->writes_len, &opts, &slot->scope, NULL, &err);
	if (rc) {
		slot->scope.id = 0;
		capkm_host_lost(slot, d->writes, d->writes_len, rc, err.text);
		return FAILED;
	}
	if (!slot->scope.id)
		return SKIPPED;
	if (task->uncompiled) {
		rc = -ENOEXEC;
	} else if (slot->scope.window) {
		rc = -ECANCELED;
		snprintf(task->why, sizeof(task->why),
			 "a window that the executor did not prepare records here");
	} else if (grid) {
		rc = grid;
		snprintf(task->why, sizeof(task->why),
			 "the grid cannot be trusted");
	} else {
		return bracket(slot, task, run_function);
	}
	leave(slot, task, rc);
	return FAILED;
}

static enum outcome run_graph(struct slot *slot, struct task *task)
{
	struct graph *g = task->graph;
	const struct capkm_where where = capkm_host_where(task->stream);
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	uint32_t result, i;
	int rc;

	capkm_graph_find_stale(slot, g);
	rc = capkm_graph_replay_begin(slot->host->c, g->authority, &where, NULL,
				      &result, NULL, &err);
	if (rc) {
		for (i = 0; i < g->len; i++)
			capkm_host_lost(slot, g->list[i]->writes,
					g->list[i]->writes_len, rc, err.text);
		return FAILED;
	}
	if (result != CAPKM_CLEAN)
		return SKIPPED;
	slot->replaying = g;
	return bracket(slot, task, capkm_graph_run);
}

static enum outcome run_read(struct slot *slot, struct read_task *r)
{
	pthread_mutex_lock(&slot->host->lock);
	r->rc = capkm_host_tell(slot->host, "host_read", r->err);
	pthread_mutex_unlock(&slot->host->lock);
	if (r->rc)
		return DONE;
	r->rc = capkm_read(slot->host->c, &r->claim, r->data, r->from, r->opts,
			   r->err);
	return DONE;
}

static enum outcome run(struct slot *slot, struct task *task)
{
	if (task->dispatch)
		return run_dispatch(slot, task);
	if (task->graph)
		return run_graph(slot, task);
	return task->read ? run_read(slot, task->read) : DONE;
}

/* The first task has run, whatever came of it. */
static void finish(struct slot *slot, enum outcome outcome)
{
	struct capkm_host *host = slot->host;
	struct task *task = slot->first;

	slot->first = task->next;
	if (!slot->first)
		slot->last = &slot->first;
	slot->failed += outcome == FAILED;
	slot->skipped += outcome == SKIPPED;
	host->ran += task->ran;
	capkm_task_free(host, task);
	slot->done++;
	pthread_cond_broadcast(&host->progress);
}

/* A function has ended its thread: the slot gets another one. */
static void torn_down(void *context)
{
	struct slot *slot = context;
	struct capkm_host *host = slot->host;
	struct task *task = slot->first;

	inside = NULL;
	snprintf(task->why, sizeof(task->why),
		 "torn down: the function ended its thread");
	leave(slot, task, -ECANCELED);
	pthread_mutex_lock(&host->lock);
	pthread_detach(pthread_self());
	slot->running = false;
	finish(slot, FAILED);
	capkm_slot_start(slot);		/* else the next one who waits does */
	pthread_mutex_unlock(&host->lock);
}

static void *serve(void *context)
{
	struct slot *slot = context;
	struct capkm_host *host = slot->host;
	int old;

	/* Only a kernel's function can be cancelled: there somebody cleans up. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_mutex_lock(&host->lock);
	for (;;) {
		enum outcome outcome;

		while (!slot->first && !host->stopping)
			pthread_cond_wait(&slot->work, &host->lock);
		if (!slot->first)
			break;
		while (!is_ready(host, slot->first))
			pthread_cond_wait(&host->progress, &host->lock);
		pthread_mutex_unlock(&host->lock);
		pthread_cleanup_push(torn_down, slot);
		outcome = run(slot, slot->first);
		pthread_cleanup_pop(0);
		pthread_mutex_lock(&host->lock);
		finish(slot, outcome);
	}
	pthread_mutex_unlock(&host->lock);
	return NULL;
}

/* Those that a thread's own instruction causes are for the thread. */
static void fill_signals(sigset_t *set)
{
	static const int own[] = {
		SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT
	};
	size_t i;

	sigfillset(set);
	for (i = 0; i < sizeof(own) / sizeof(*own); i++)
		sigdelset(set, own[i]);
}

/* Other signals are the program's: its own threads take them. */
int capkm_slot_start(struct slot *slot)
{
	sigset_t most, old;
	char name[16];
	int rc;

	if (slot->running)
		return 0;
	fill_signals(&most);
	pthread_sigmask(SIG_SETMASK, &most, &old);
	rc = pthread_create(&slot->thread, NULL, serve, slot);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return -EAGAIN;
	snprintf(name, sizeof(name), "capkm-slot%u", slot->index);
	pthread_setname_np(slot->thread, name);
	slot->running = true;
	return 0;
}

/* Threads for queues that lost theirs and could not get another one. */
static int start_all(struct capkm_host *host)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; i < host->slots_len && !rc; i++)
		if (host->slots[i] && host->slots[i]->first)
			rc = capkm_slot_start(host->slots[i]);
	return rc;
}

/* Some task has to run before it goes on. */
static int wait_for_progress(struct capkm_host *host)
{
	int rc = start_all(host);

	if (!rc)
		pthread_cond_wait(&host->progress, &host->lock);
	return rc;
}

int capkm_slot_wait(struct capkm_host *host, struct mark mark)
{
	int rc = 0;

	while (!rc && !has_run(host, mark))
		rc = wait_for_progress(host);
	return rc;
}

int capkm_slot_drain(struct slot *slot)
{
	return capkm_slot_wait(slot->host,
			       (struct mark){ slot->index, slot->issued });
}

void capkm_host_pause(struct capkm_host *host)
{
	const struct timespec moment = { .tv_nsec = 1000000 };

	pthread_mutex_unlock(&host->lock);
	nanosleep(&moment, NULL);
	pthread_mutex_lock(&host->lock);
}

int capkm_slot_room(struct slot *slot)
{
	int rc;

	if (slot->issued - slot->done < slot->host->queue_max)
		return 0;
	rc = wait_for_progress(slot->host);
	return rc ? rc : 1;
}

int capkm_mark_settle(struct capkm_host *host, struct mark mark)
{
	int rc;

	if (has_run(host, mark))
		return 0;
	rc = capkm_slot_wait(host, mark);
	return rc ? rc : 1;
}

struct unsettled {
	const struct capkm_host *host;
	struct mark mark;
};

static void find_unsettled(void *context, struct mark mark)
{
	struct unsettled *u = context;

	if (!has_run(u->host, mark))
		u->mark = mark;
}

int capkm_uses_settle(struct capkm_host *host, const struct use *uses,
		      uint32_t len)
{
	struct unsettled u = { .host = host };
	uint32_t i;

	for (i = 0; i < len && !u.mark.position; i++)
		each_wait(host, &uses[i], find_unsettled, &u);
	return capkm_mark_settle(host, u.mark);
}
