// SPDX-License-Identifier: MIT
/* Launches, copies, writes and reads: queued or, in a window, recorded or refused. */
#include "host.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The work of one launch, from the check of its arguments on. */
struct work {
	const char *call;
	struct slot *slot;
	struct dispatch *dispatch;
	struct task *task;
	const char *why;	/* it does not compile, else NULL */
};

/* It is recorded, in the order of the calls, once what it uses has settled. */
static int record(struct work *w, uint32_t *result, struct capkm_error *err)
{
	int rc = capkm_uses_settle(w->slot->host, w->dispatch->uses,
				   w->dispatch->uses_len);

	if (rc > 0)
		return rc;
	if (rc)
		return capkm_host_no_thread(rc, w->call, err);
	rc = capkm_recording_add(w->slot, w->dispatch, w->why, w->call, result,
				 err);
	w->dispatch = NULL;
	return rc;
}

static int enqueue(struct work *w, struct capkm_error *err)
{
	struct dispatch *d = w->dispatch;
	int rc = capkm_slot_room(w->slot);

	if (rc)
		return rc > 0 ? rc : capkm_host_no_thread(rc, w->call, err);
	w->task->dispatch = d;
	if (w->why) {
		w->task->uncompiled = true;
		snprintf(w->task->why, sizeof(w->task->why), "%s", w->why);
	}
	capkm_task_issue(w->slot, w->task, d->uses, d->uses_len);
	w->task = NULL;
	w->dispatch = NULL;
	return 0;
}

/* Takes dispatch and task over. */
static int issue(struct work *w, uint32_t *result, struct capkm_error *err)
{
	struct capkm_host *host = w->slot->host;
	int rc;

	*result = w->why ? CAPKM_TAINTED : CAPKM_CLEAN;
	do {
		if (capkm_slot_records(w->slot))
			rc = record(w, result, err);
		else
			rc = enqueue(w, err);
	} while (rc > 0);
	if (w->dispatch)
		capkm_dispatch_free(host, w->dispatch);
	if (w->task)
		capkm_task_free(host, w->task);
	return rc;
}

static bool has_no_work(const struct capkm_host_launch *l)
{
	return !l->grid_range.memory &&
	       !(l->grid[0] && l->grid[1] && l->grid[2]);
}

static int check_launch(const struct capkm_host_launch *l, const char *call,
			struct capkm_error *err)
{
	const uint32_t known = CAPKM_HOST_LAUNCH_F_DRY_RUN |
			       CAPKM_HOST_LAUNCH_F_POISON;

	if (l->flags & ~known)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: flags 0x%x; known are CAPKM_HOST_LAUNCH_F_DRY_RUN and _F_POISON",
			call, l->flags);
	if ((l->args_len && !l->args) || (l->info_bytes && !l->info))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: %s is NULL", call, l->args ? "info" : "args");
	return 0;
}

/* Wrong calls change nothing; but what should have been recorded is missed. */
static bool is_missed(int rc)
{
	return rc == -ENOMEM || rc == -EDQUOT || rc == -ENOSPC || rc == -EAGAIN;
}

/* @why: of the compiler, or NULL. */
static int try_launch(struct capkm_host *host, struct slot *slot,
		      uint64_t stream, struct kernel *kernel,
		      const struct capkm_host_launch *l, const char *call,
		      const char *why, uint32_t *result,
		      struct capkm_error *err)
{
	struct work w = { .call = call, .slot = slot, .why = why };
	int rc = capkm_dispatch_new(host, slot, kernel, stream, l, call,
				    &w.dispatch, err);

	if (rc)
		return rc;
	*result = CAPKM_CLEAN;
	if (l->flags & CAPKM_HOST_LAUNCH_F_DRY_RUN || has_no_work(l)) {
		capkm_dispatch_free(host, w.dispatch);
		return 0;
	}
	w.task = capkm_task_new(host, stream);
	if (!w.task) {
		capkm_dispatch_free(host, w.dispatch);
		return capkm_no_memory(call, err);
	}
	return issue(&w, result, err);
}

static int launch(struct capkm_host *host, struct slot *slot, uint64_t stream,
		  struct kernel *kernel, const struct capkm_host_launch *l,
		  const char *call, const char *why, uint32_t *result,
		  struct capkm_error *err)
{
	int rc = try_launch(host, slot, stream, kernel, l, call, why, result,
			    err);

	if (is_missed(rc) && capkm_slot_records(slot))
		capkm_recording_doom(slot, stream, kernel->name, rc);
	return rc;
}

static int does_not_compile(const struct kernel *k, const char *why, int rc,
			    struct capkm_error *err)
{
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			       "host_launch: %s: %s", k->name, why);
}

static int compile_and_launch(struct capkm_host *host, struct slot *slot,
			      uint64_t stream, struct kernel *k,
			      const struct capkm_host_launch *l,
			      uint32_t *result, struct capkm_error *err)
{
	char why[CAPKM_TEXT_MAX + 1];
	int broken = has_no_work(l) ? 0 :
		capkm_kernel_compile(host, k, why, sizeof(why));
	int rc = launch(host, slot, stream, k, l, "host_launch",
			broken ? why : NULL, result, err);

	if (rc || !broken)
		return rc;
	rc = l->flags & CAPKM_HOST_LAUNCH_F_DRY_RUN ? -ENOEXEC : 0;
	does_not_compile(k, why, rc, err);
	return rc;
}

int capkm_host_launch(struct capkm_host *host, uint64_t stream,
		      const struct capkm_host_launch *given, uint32_t *result,
		      struct capkm_error *err)
{
	const char *call = "host_launch";
	struct capkm_host_launch l;
	struct kernel *k;
	struct slot *slot;
	uint32_t own;
	int rc = capkm_opts(&l, sizeof(l), given, call, err);

	if (!rc)
		rc = check_launch(&l, call, err);
	if (!rc)
		rc = capkm_host_enter(host, call, err);
	if (rc)
		return rc;
	k = capkm_table_find(&host->kernels, l.kernel);
	if (!k)
		rc = capkm_host_unknown(&host->kernels, l.kernel, call,
					"kernel", CAPKM_NO_INDEX, err);
	else
		rc = capkm_host_slot(host, call, &stream, &slot, err);
	if (!rc) {
		k->refs++;
		rc = compile_and_launch(host, slot, stream, k, &l,
					result ? result : &own, err);
		capkm_kernel_put(k);
	}
	capkm_host_leave(host);
	return rc;
}

/* @r, with its end; 0; -ENOENT, -EXDEV, -EINVAL */
static int resolve(struct capkm_host *host, struct capkm_host_range *r,
		   const char *call, uint32_t index, struct capkm_error *err)
{
	struct memory *m;

	return capkm_memory_range(host, r, call, index, &m, err);
}

static int check_copy(struct capkm_host *host, struct capkm_host_range *to,
		      struct capkm_host_range *from, struct capkm_error *err)
{
	int rc = resolve(host, to, "host_copy", 0, err);

	if (!rc)
		rc = resolve(host, from, "host_copy", 1, err);
	if (rc)
		return rc;
	if (to->end - to->start != from->end - from->start)
		return capkm_error_set(err, -EINVAL, 1, 0,
			"host_copy: %" PRIu64 " bytes do not fit in %" PRIu64,
			from->end - from->start, to->end - to->start);
	if (to->memory == from->memory && to->start < from->end &&
	    from->start < to->end)
		return capkm_error_set(err, -EINVAL, 1, 0,
			"host_copy: source and destination overlap");
	return 0;
}

int capkm_host_copy(struct capkm_host *host, uint64_t stream,
		    const struct capkm_host_range *to,
		    const struct capkm_host_range *from, uint32_t *result,
		    struct capkm_error *err)
{
	struct capkm_host_arg args[] = {
		{ .range = *to, .access = CAPKM_HOST_WRITE },
		{ .range = *from, .access = CAPKM_HOST_READ },
	};
	const struct capkm_host_launch l = {
		.args = args, .args_len = 2, .grid = { 1, 1, 1 }
	};
	struct slot *slot;
	uint32_t own;
	int rc = capkm_host_enter(host, "host_copy", err);

	if (rc)
		return rc;
	rc = check_copy(host, &args[0].range, &args[1].range, err);
	if (!rc)
		rc = capkm_host_slot(host, "host_copy", &stream, &slot, err);
	if (!rc)
		rc = launch(host, slot, stream, &capkm_kernel_copy, &l,
			    "host_copy", NULL, result ? result : &own, err);
	capkm_host_leave(host);
	return rc;
}

/* writes */

static void free_staged(struct capkm_dropped *dropped)
{
	free(dropped);		/* the first member of struct staged */
}

struct write {
	struct dispatch *dispatch;
	struct task *task;
	struct staged *staged;
};

static void write_free(struct capkm_host *host, struct write *w)
{
	if (w->dispatch)
		capkm_dispatch_free(host, w->dispatch);
	if (w->task)
		capkm_task_free(host, w->task);
	free(w->staged);
}

static int write_new(struct capkm_host *host, struct slot *slot,
		     uint64_t stream, const struct capkm_host_write *given,
		     uint32_t index, struct write *w, struct capkm_error *err)
{
	struct capkm_host_arg arg = {
		.range = given->to, .access = CAPKM_HOST_WRITE
	};
	const struct capkm_host_launch l = {
		.args = &arg, .args_len = 1, .grid = { 1, 1, 1 }
	};
	uint64_t bytes;
	int rc = resolve(host, &arg.range, "host_write", index, err);

	if (rc)
		return rc;
	bytes = arg.range.end - arg.range.start;
	if (bytes && !given->data)
		return capkm_error_set(err, -EINVAL, index, 0,
				       "host_write: data is NULL");
	rc = capkm_dispatch_new(host, slot, &capkm_kernel_write, stream, &l,
				"host_write", &w->dispatch, err);
	if (rc)
		return rc;
	w->task = capkm_task_new(host, stream);
	w->staged = calloc(1, sizeof(*w->staged) + bytes);
	if (!w->task || !w->staged)
		return capkm_error_set(err, -ENOMEM, index, 0,
				       "host_write: out of memory");
	w->staged->dropped.bytes = bytes;
	w->staged->dropped.free = free_staged;
	memcpy(w->staged->data, given->data, bytes);
	w->dispatch->info = w->staged->data;
	return 0;
}

/*
 * What a window cannot record is not done. The authority taints the destinations
 * at once: tasks that were issued before and write them have run by then. 1: the
 * lock was released meanwhile.
 */
static int refuse(struct slot *slot, uint64_t stream, struct write *writes,
		  uint32_t len, uint32_t *result, struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	struct capkm_host *host = slot->host;
	struct capkm_report why;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &why, .reports_len = 1);
	struct capkm_claim *claims;
	uint32_t i, n = 0;
	int rc = 0;

	for (i = 0; i < len && !rc; i++)
		rc = capkm_uses_settle(host, writes[i].dispatch->uses, 1);
	if (rc)
		return rc;
	claims = calloc(len, sizeof(*claims));
	if (!claims)
		return capkm_no_memory("host_write", err);
	/* What was never allocated cannot be read anyway. */
	for (i = 0; i < len; i++)
		if (writes[i].dispatch->uses[0].memory->address)
			claims[n++] = writes[i].dispatch->writes[0];
	rc = capkm_refused(host->c, &where, CAPKM_REFUSE_WRITE, claims, n,
			   &answer, err);
	free(claims);
	if (rc)
		return rc;
	if (answer.out_result == CAPKM_CLEAN)
		return capkm_recording_lost(slot, "host_write", err);
	*result = CAPKM_REFUSED;
	capkm_error_set(err, 0, CAPKM_NO_INDEX, why.failure, "%s",
			(const char *)why.text);
	return 0;
}

/* All of them or, on error, none. */
static int issue_writes(struct slot *slot, uint64_t stream,
			struct write *writes, uint32_t len, uint32_t *result,
			struct capkm_error *err)
{
	uint32_t i;
	int rc;

	*result = CAPKM_CLEAN;
	for (i = 0; i < len;) {
		struct dispatch *d = writes[i].dispatch;

		if (capkm_slot_records(slot)) {
			rc = refuse(slot, stream, writes + i, len - i, result,
				    err);
			if (rc <= 0)
				return rc;
			continue;
		}
		rc = capkm_slot_room(slot);
		if (rc < 0)
			return capkm_host_no_thread(rc, "host_write", err);
		if (rc)
			continue;
		writes[i].task->dispatch = d;
		capkm_task_issue(slot, writes[i].task, d->uses, d->uses_len);
		writes[i].task = NULL;
		writes[i].dispatch = NULL;
		i++;
	}
	return 0;
}

/* Without the lock. Bytes are staged after their copy was issued, not before. */
static void stage(struct slot *slot, struct write *w)
{
	if (w->dispatch || !w->staged)
		return;
	capkm_drop_push(slot->drops, &w->staged->dropped);
	w->staged = NULL;
	/* An error leaves them where they are, for the next flush. */
	if (capkm_drop_should_flush(slot->drops))
		capkm_drop_flush(slot->drops, NULL);
}

int capkm_host_write(struct capkm_host *host, uint64_t stream,
		     const struct capkm_host_write *writes, uint32_t len,
		     uint32_t *result, struct capkm_error *err)
{
	struct slot *slot = NULL;
	struct write *w;
	uint32_t own, i;
	int rc = capkm_host_enter(host, "host_write", err);

	if (rc)
		return rc;
	w = calloc(len ? len : 1, sizeof(*w));
	rc = w ? capkm_host_slot(host, "host_write", &stream, &slot, err) :
		 capkm_no_memory("host_write", err);
	for (i = 0; i < len && !rc; i++)
		rc = write_new(host, slot, stream, &writes[i], i, &w[i], err);
	if (!rc)
		rc = issue_writes(slot, stream, w, len,
				  result ? result : &own, err);
	capkm_host_leave(host);
	for (i = 0; i < len && w && slot; i++)
		stage(slot, &w[i]);
	pthread_mutex_lock(&host->lock);
	for (i = 0; i < len && w; i++)
		write_free(host, &w[i]);
	pthread_mutex_unlock(&host->lock);
	free(w);
	return rc;
}

/* reads */

static int refuse_read(struct capkm_host *host, uint64_t stream, uint32_t what,
		       const char *call, struct capkm_error *err)
{
	const struct capkm_where where = capkm_host_where(stream);
	struct capkm_report why;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer,
		.reports = &why, .reports_len = 1);
	int rc = capkm_refused(host->c, &where, what, NULL, 0, &answer, err);

	if (rc || answer.out_result == CAPKM_CLEAN)
		return rc;
	return capkm_error_set(err, -EBUSY, CAPKM_NO_INDEX, 0, "%s: %s", call,
			       (const char *)why.text);
}

int capkm_host_refuse(struct slot *slot, uint64_t stream, uint32_t what,
		      const char *call, struct capkm_error *err)
{
	if (!capkm_slot_records(slot))
		return 0;
	return refuse_read(slot->host, stream, what, call, err);
}

static int read_range(struct capkm_host *host, struct slot *slot,
		      uint64_t stream, struct capkm_host_range *range,
		      struct read_task *r, struct capkm_error *err)
{
	struct use use = { .access = CAPKM_HOST_READ };
	struct task *task;
	struct mark mark;
	int rc = capkm_memory_range(host, range, "host_read", CAPKM_NO_INDEX,
				    &use.memory, err);

	if (rc)
		return rc;
	task = capkm_task_new(host, stream);
	if (!task)
		return capkm_no_memory("host_read", err);
	r->claim = capkm_memory_claim(use.memory, range);
	r->from = use.memory->address ? use.memory->address + range->start :
					NULL;
	task->read = r;
	capkm_memory_get(use.memory);
	capkm_memory_use(use.memory);
	do {
		rc = capkm_host_refuse(slot, stream, CAPKM_REFUSE_READ,
				       "host_read", err);
		if (!rc)
			rc = capkm_slot_room(slot);
	} while (rc > 0);
	if (!rc) {
		mark = capkm_task_issue(slot, task, &use, 1);
		/* The task writes to the caller's memory: it has to end. */
		while (capkm_slot_wait(host, mark))
			capkm_host_pause(host);
		rc = r->rc;
	} else {
		if (rc == -EAGAIN)
			capkm_host_no_thread(rc, "host_read", err);
		capkm_task_free(host, task);
	}
	capkm_memory_unuse(host, use.memory);
	capkm_memory_put(use.memory);
	return rc;
}

int capkm_host_read(struct capkm_host *host, uint64_t stream,
		    const struct capkm_host_range *from, void *data,
		    const struct capkm_read_opts *opts, struct capkm_error *err)
{
	struct capkm_host_range range = *from;
	struct capkm_read_opts o;
	struct read_task r = { .data = data, .opts = &o, .err = err };
	struct slot *slot;
	int rc = capkm_opts(&o, sizeof(o), opts, "host_read", err);

	if (rc)
		return rc;
	if (o.copy)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"host_read: the executor copies by itself; copy must be NULL");
	o.sz = sizeof(o);
	rc = capkm_host_enter(host, "host_read", err);
	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_read", &stream, &slot, err);
	if (!rc)
		rc = read_range(host, slot, stream, &range, &r, err);
	capkm_host_leave(host);
	return rc;
}

/* Claims of ranges whose memory stays until it is put. 0; *@len: how many. */
static int hold(struct capkm_host *host, const struct capkm_host_range *ranges,
		uint32_t *len, struct memory **held, struct capkm_claim *claims,
		struct capkm_error *err)
{
	const uint32_t n = *len;
	int rc = 0;

	for (*len = 0; *len < n && !rc; *len += !rc) {
		struct capkm_host_range r = ranges[*len];
		struct memory *m;

		rc = capkm_memory_range(host, &r, "host_check", *len, &m, err);
		if (rc)
			break;
		capkm_memory_get(m);
		capkm_memory_use(m);
		held[*len] = m;
		claims[*len] = capkm_memory_claim(m, &r);
	}
	return rc;
}

static void let_go(struct capkm_host *host, struct memory **held, uint32_t len)
{
	while (len) {
		capkm_memory_unuse(host, held[--len]);
		capkm_memory_put(held[len]);
	}
}

/* What writes the memory has run. */
static int wait_for_writers(struct capkm_host *host, struct memory *const *held,
			    uint32_t len, struct capkm_error *err)
{
	uint32_t i;
	int rc = 0;

	for (i = 0; i < len && !rc; i++) {
		rc = capkm_slot_wait(host, held[i]->written);
		if (rc)
			capkm_error_set(err, rc, i, 0,
				"host_check: no thread could be started for the work that writes memory %" PRIu64,
				held[i]->id);
	}
	/* The work that was waited for may be what was lost. */
	return rc ? rc : capkm_host_tell(host, "host_check", err);
}

int capkm_host_check(struct capkm_host *host,
		     const struct capkm_host_range *ranges, uint32_t len,
		     struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_claim *claims;
	struct memory **held;
	int rc = capkm_host_enter(host, "host_check", err);

	if (rc)
		return rc;
	claims = calloc(len + 1ul, sizeof(*claims));
	held = calloc(len + 1ul, sizeof(*held));
	if (!claims || !held) {
		rc = capkm_no_memory("host_check", err);
		len = 0;
	} else {
		rc = hold(host, ranges, &len, held, claims, err);
	}
	if (!rc)
		rc = wait_for_writers(host, held, len, err);
	capkm_host_leave(host);
	if (!rc)
		rc = capkm_check(host->c, claims, len, answer, err);
	pthread_mutex_lock(&host->lock);
	let_go(host, held, len);
	pthread_mutex_unlock(&host->lock);
	free(held);
	free(claims);
	return rc;
}

int capkm_host_sync(struct capkm_host *host, uint64_t stream,
		    struct capkm_error *err)
{
	struct slot *slot;
	int rc = capkm_host_enter(host, "host_sync", err);

	if (rc)
		return rc;
	rc = capkm_host_slot(host, "host_sync", &stream, &slot, err);
	if (!rc)
		rc = capkm_host_refuse(slot, stream, CAPKM_REFUSE_SYNC,
				       "host_sync", err);
	if (!rc) {
		rc = capkm_slot_drain(slot);
		if (rc)
			capkm_host_no_thread(rc, "host_sync", err);
	}
	capkm_host_leave(host);
	return rc;
}
