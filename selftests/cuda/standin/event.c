// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events: how far a stream was, or where in a capture. Of an interprocess one that is in
 * a file in memory too, which another process finds through /proc: nothing is left of it
 * when the processes have gone.
 */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIMING_OFF	2u
#define INTERPROCESS	4u

static SLIST_HEAD(, CUevent_st) events = SLIST_HEAD_INITIALIZER(events);

static bool exists(cu_event event)
{
	cu_event e;

	SLIST_FOREACH(e, &events, next)
		if (e == event)
			return true;
	return false;
}

/* NULL is an error, what was destroyed is a crash. */
static int check_event(cu_event event)
{
	if (!event)
		return CU_INVALID_HANDLE;
	if (!exists(event))
		gone("event", event);
	return 0;
}

static void forget(cu_event e)
{
	if (e->stream)
		stream_put(e->stream);
	free(e->ends);
	e->stream = NULL;
	e->ends = NULL;
	e->ends_len = 0;
	e->capture = 0;
}

/* interprocess events */

void progress_put(struct progress *of)
{
	if (--of->refs)
		return;
	munmap(of->at, sizeof(*of->at));
	close(of->fd);
	free(of);
}

/* The descriptor is the callee's. */
static struct progress *progress_of(int fd)
{
	struct progress *of;
	void *at = fd < 0 ? MAP_FAILED :
		   mmap(NULL, sizeof(*of->at), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	of = calloc(1, sizeof(*of));
	of->refs = 1;
	of->fd = fd;
	of->at = at;
	return of;
}

static struct progress *progress_new(void)
{
	int fd = memfd_create("stand-in event", MFD_CLOEXEC);

	if (fd >= 0 && ftruncate(fd, sizeof(*((struct progress *)0)->at))) {
		close(fd);
		fd = -1;
	}
	return progress_of(fd);
}

/* Records of several processes may happen in any order: the last counts. */
void progress_mark(struct progress *of, uint64_t n)
{
	uint64_t old = __atomic_load_n(&of->at->done, __ATOMIC_ACQUIRE);

	while (old < n && !__atomic_compare_exchange_n(&of->at->done, &old, n, false,
						       __ATOMIC_ACQ_REL,
						       __ATOMIC_ACQUIRE))
		;
}

void progress_await(struct progress *of, uint64_t n)
{
	while (__atomic_load_n(&of->at->done, __ATOMIC_ACQUIRE) < n)
		usleep(100);
}

static uint64_t recorded(struct progress *of)
{
	return __atomic_load_n(&of->at->recorded, __ATOMIC_ACQUIRE);
}

/* One that was never recorded has happened. */
static bool has_happened(struct progress *of)
{
	const uint64_t n = recorded(of);

	return __atomic_load_n(&of->at->done, __ATOMIC_ACQUIRE) >= n;
}

static cu_event event_new(cu_context context, struct progress *progress)
{
	cu_event e = calloc(1, sizeof(*e));

	e->context = context;
	e->progress = progress;
	SLIST_INSERT_HEAD(&events, e, next);
	return e;
}

CALL(cuEventCreate, (cu_event *event, unsigned int flags), (event, flags))
{
	struct progress *progress = NULL;
	cu_context context;
	int rc = need_context(&context);

	if (!rc && (flags > 7 || (flags & INTERPROCESS && !(flags & TIMING_OFF))))
		rc = CU_INVALID_VALUE;
	if (!rc && flags & INTERPROCESS) {
		progress = progress_new();
		rc = progress ? 0 : CU_OUT_OF_MEMORY;
	}
	if (!rc) {
		*event = event_new(context, progress);
		(*event)->timed = !(flags & TIMING_OFF);
	}
	return rc;
}

#define EVENT_MAGIC	0x746e6576u

struct told {
	unsigned int magic;
	int pid, fd;
	uint64_t inode;
};
_Static_assert(sizeof(struct told) <= sizeof(struct cu_ipc_handle), "it fits");

CALL(cuIpcGetEventHandle, (struct cu_ipc_handle *handle, cu_event event),
     (handle, event))
{
	struct told t = { .magic = EVENT_MAGIC, .pid = getpid() };
	struct stat st;
	int rc = check_event(event);

	if (!rc && (!event->progress || fstat(event->progress->fd, &st)))
		rc = CU_INVALID_HANDLE;
	if (rc)
		return rc;
	t.fd = event->progress->fd;
	t.inode = st.st_ino;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &t, sizeof(t));
	return 0;
}

/* The same file, if the event is still there. */
static int open_told(const struct told *t)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", t->pid, t->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) || st.st_ino != t->inode)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

CALL(cuIpcOpenEventHandle, (cu_event *event, struct cu_ipc_handle handle),
     (event, handle))
{
	struct progress *progress;
	struct told t;
	cu_context context;
	int rc = need_context(&context);

	memcpy(&t, &handle, sizeof(t));
	if (!rc && t.magic != EVENT_MAGIC)
		rc = CU_INVALID_VALUE;
	if (!rc && t.pid == getpid() && !ipc_here)
		rc = CU_INVALID_CONTEXT;
	if (rc)
		return rc;
	progress = progress_of(open_told(&t));
	if (!progress)
		return CU_INVALID_VALUE;
	*event = event_new(context, progress);
	return 0;
}

static void end(cu_event event)
{
	forget(event);
	if (event->progress)
		progress_put(event->progress);
	SLIST_REMOVE(&events, event, CUevent_st, next);
	free(event);
}

void events_end(cu_context context)
{
	cu_event e, next;

	for (e = SLIST_FIRST(&events); e; e = next) {
		next = SLIST_NEXT(e, next);
		if (e->context == context)
			end(e);
	}
}

CALL(cuEventDestroy, (cu_event event), (event))
{
	int rc = check_event(event);

	if (!rc)
		end(event);
	return rc;
}

static void record_in_capture(cu_event e, struct stream *s)
{
	e->capture = s->capture->id;
	e->ends_len = s->ends_len;
	e->ends = calloc(s->ends_len + 1, sizeof(*e->ends));
	if (s->ends_len)
		memcpy(e->ends, s->ends, s->ends_len * sizeof(*e->ends));
}

/* What other processes ask for nobody here may have asked for: it does not rest. */
static int record_for_all(cu_event e, struct stream *s)
{
	const uint64_t n = __atomic_add_fetch(&e->progress->at->recorded, 1,
					      __ATOMIC_ACQ_REL);
	int rc = enqueue_mark(s, MARK, e->progress, n);

	if (!rc)
		want(s, s->queued);
	return rc;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

CALL(cuEventRecord, (cu_event event, cu_stream stream), (event, stream))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = check_event(event);
	if (!rc)
		rc = implicit_use(s, "cuEventRecord");
	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	/* Which does not break the capture. */
	if (!rc && s->capture && event->progress)
		rc = UNSUPPORTED;
	if (rc)
		return rc;
	forget(event);
	if (s->capture) {
		record_in_capture(event, s);
	} else {
		rc = event->progress ? record_for_all(event, s) : 0;
		if (rc)
			return rc;
		event->stream = stream_get(s);
		event->sequence = s->queued;
		event->ns = now_ns();
	}
	return 0;
}

/* It does not happen, but at each replay. */
static int captured(cu_event e, const char *name)
{
	struct capture *c = capture_by_id(e->capture);

	if (!e->capture)
		return 0;
	if (!c)
		return CU_INVALID_VALUE;	/* one that has ended */
	invalidate(c, name);
	return CAPTURED_EVENT;
}

static int check(cu_event e, const char *name)
{
	int rc = check_event(e);

	if (!rc)
		rc = captured(e, name);
	if (!rc)
		rc = unsafe(name);
	if (!rc && e->stream)
		rc = e->stream->context->lost;
	return rc;
}

/* Of the calls that recorded them, not of what they are behind. */
CALL(cuEventElapsedTime, (float *ms, cu_event start, cu_event stop), (ms, start, stop))
{
	int rc = check(start, "cuEventElapsedTime");

	if (!rc)
		rc = check(stop, "cuEventElapsedTime");
	if (!rc && (!start->stream || !stop->stream || !start->timed || !stop->timed))
		rc = CU_INVALID_HANDLE;
	if (!rc)
		rc = poll_for(start->stream, start->sequence);
	if (!rc)
		rc = poll_for(stop->stream, stop->sequence);
	if (!rc)
		*ms = (float)((double)(stop->ns - start->ns) / 1e6);
	return rc;
}

CALL(cuEventQuery, (cu_event event), (event))
{
	int rc = check(event, "cuEventQuery");

	if (!rc && event->stream)
		rc = poll_for(event->stream, event->sequence);
	if (!rc && event->progress && !has_happened(event->progress))
		rc = CU_NOT_READY;
	return rc;
}

static void wait_for_others(struct progress *of)
{
	const uint64_t n = recorded(of);

	of->refs++;
	pthread_mutex_unlock(&lock);
	progress_await(of, n);
	pthread_mutex_lock(&lock);
	progress_put(of);
}

CALL(cuEventSynchronize, (cu_event event), (event))
{
	int rc = check(event, "cuEventSynchronize");
	const cu_context context = rc ? NULL : event->context;

	if (!rc && event->stream) {
		wait_for(event->stream, event->sequence);
		rc = know(context);
	}
	if (!rc && event->progress)
		wait_for_others(event->progress);
	return rc ? rc : know(context);
}

/* Both depend on the event from now on. */
static void join_ends(struct stream *s, const cu_event e)
{
	size_t i, k, n = s->ends_len;
	cu_node *all = calloc(n + e->ends_len + 1, sizeof(*all));

	for (i = 0; i < n; i++)
		all[i] = s->ends[i];
	for (i = 0; i < e->ends_len; i++) {
		for (k = 0; k < n && all[k] != e->ends[i]; k++)
			;
		if (k == n)
			all[n++] = e->ends[i];
	}
	set_ends(s, all, n);
	free(all);
}

static int wait_in_capture(struct stream *s, cu_event e)
{
	struct capture *c = capture_by_id(e->capture);

	if (!c) {
		if (s->capture)
			invalidate(s->capture, "cuStreamWaitEvent");
		return CU_INVALID_VALUE;	/* of one that has ended */
	}
	if (c->status == CU_CAPTURE_INVALIDATED)
		return INVALIDATED;
	if (s->capture && s->capture != c) {
		invalidate(c, "cuStreamWaitEvent");
		invalidate(s->capture, "cuStreamWaitEvent");
		return MERGE;
	}
	s->capture = c;
	join_ends(s, e);
	return 0;
}

CALL(cuStreamWaitEvent, (cu_stream stream, cu_event event, unsigned int flags),
     (stream, event, flags))
{
	struct stream *s;
	int rc = stream_of(stream, &s);

	if (!rc)
		rc = check_event(event);
	if (!rc && s->capture && s->capture->status == CU_CAPTURE_INVALIDATED)
		rc = INVALIDATED;
	if (rc)
		return rc;
	if (event->capture)
		return wait_in_capture(s, event);
	if (s->capture && (event->stream || event->progress)) {
		invalidate(s->capture, "cuStreamWaitEvent");
		return ISOLATION;
	}
	if (!event->stream && event->progress && !has_happened(event->progress))
		return enqueue_mark(s, AWAIT, event->progress,
				    recorded(event->progress));
	return event->stream ? enqueue_wait(s, event->stream, event->sequence) : 0;
}
