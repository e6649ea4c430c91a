// SPDX-License-Identifier: MIT
/*
 * The fenced drop queue. Its invariant: what is pending has a fence behind its
 * readers, so a batch whose fence could not be set is staged again.
 */
#include "../internal.h"

#include <capkm/pool.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct batch {
	struct capkm_dropped *first, **end;
	uint64_t count;
	uint64_t bytes;		/* at most CAPKM_DROP_BYTES: more is not asked for */
};

struct capkm_drop_queue {
	struct capkm_drop_opts opts;
	/*
	 * Who flushes holds the first one over the caller's functions, the second
	 * one only for the batches: nobody who pushes waits for a fence.
	 */
	pthread_mutex_t flushing;
	pthread_mutex_t mutex;
	struct batch staged;		/* under mutex */
	struct batch pending;		/* changed under both, read under either */
	uint64_t fence;			/* of pending, if there is any; under flushing */
};

static void batch_init(struct batch *b)
{
	*b = (struct batch){ .end = &b->first };
}

static void batch_add(struct batch *b, struct capkm_dropped *dropped)
{
	const uint64_t room = CAPKM_DROP_BYTES - b->bytes;

	dropped->next = NULL;
	*b->end = dropped;
	b->end = &dropped->next;
	b->count++;
	b->bytes += dropped->bytes < room ? dropped->bytes : room;
}

/* All of @from goes behind @to. */
static void batch_move(struct batch *to, struct batch *from)
{
	const uint64_t room = CAPKM_DROP_BYTES - to->bytes;

	if (!from->first)
		return;
	*to->end = from->first;
	to->end = from->end;
	to->count += from->count;
	to->bytes += from->bytes < room ? from->bytes : room;
	batch_init(from);
}

static void batch_free(struct batch *b)
{
	struct capkm_dropped *dropped = b->first, *next;

	for (; dropped; dropped = next) {
		next = dropped->next;
		dropped->free(dropped);
	}
	batch_init(b);
}

int capkm_drop_create(const struct capkm_drop_opts *opts,
		      struct capkm_drop_queue **out, struct capkm_error *err)
{
	struct capkm_drop_opts known;
	struct capkm_drop_queue *queue;
	int rc = capkm_opts(&known, sizeof(known), opts, "drop_create", err);

	if (rc)
		return rc;
	if (!known.fence || !known.wait)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"drop_create: opts.%s is missing; a queue needs fence and wait",
			known.fence ? "wait" : "fence");
	queue = calloc(1, sizeof(*queue));
	if (!queue)
		return capkm_no_memory("drop_create", err);
	queue->opts = known;
	batch_init(&queue->staged);
	batch_init(&queue->pending);
	pthread_mutex_init(&queue->flushing, NULL);
	pthread_mutex_init(&queue->mutex, NULL);
	*out = queue;
	return 0;
}

void capkm_drop_destroy(struct capkm_drop_queue *queue)
{
	if (!queue)
		return;
	batch_free(&queue->pending);
	batch_free(&queue->staged);
	pthread_mutex_destroy(&queue->flushing);
	pthread_mutex_destroy(&queue->mutex);
	free(queue);
}

void capkm_drop_push(struct capkm_drop_queue *queue,
		     struct capkm_dropped *dropped)
{
	pthread_mutex_lock(&queue->mutex);
	batch_add(&queue->staged, dropped);
	pthread_mutex_unlock(&queue->mutex);
}

int capkm_drop_should_flush(struct capkm_drop_queue *queue)
{
	int should;

	pthread_mutex_lock(&queue->mutex);
	should = queue->staged.count >= CAPKM_DROP_COUNT ||
		 queue->staged.bytes >= CAPKM_DROP_BYTES;
	pthread_mutex_unlock(&queue->mutex);
	return should;
}

/* What is pending is done, and is moved to @done. */
static int wait_for_pending(struct capkm_drop_queue *queue, struct batch *done,
			    const char *call, struct capkm_error *err)
{
	int rc;

	if (!queue->pending.first)
		return 0;
	rc = queue->opts.wait(queue->opts.context, queue->fence);
	if (rc)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: the fence of the flush before was not reached: %s; what is pending stays so",
			call, strerror(-rc));
	pthread_mutex_lock(&queue->mutex);
	batch_move(done, &queue->pending);
	pthread_mutex_unlock(&queue->mutex);
	return 0;
}

/*
 * What is staged becomes pending first, and then gets its fence: what is pushed
 * meanwhile may have readers that are issued behind it.
 */
static int set_fence(struct capkm_drop_queue *queue, const char *call,
		     struct capkm_error *err)
{
	int rc;

	pthread_mutex_lock(&queue->mutex);
	batch_move(&queue->pending, &queue->staged);
	pthread_mutex_unlock(&queue->mutex);
	if (!queue->pending.first)
		return 0;
	rc = queue->opts.fence(queue->opts.context, &queue->fence);
	if (!rc)
		return 0;
	pthread_mutex_lock(&queue->mutex);
	batch_move(&queue->pending, &queue->staged);
	batch_move(&queue->staged, &queue->pending);
	pthread_mutex_unlock(&queue->mutex);
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"%s: the fence could not be set: %s; what is staged stays so",
		call, strerror(-rc));
}

static int flush(struct capkm_drop_queue *queue, const char *call,
		 struct capkm_error *err)
{
	struct batch done;
	int rc;

	batch_init(&done);
	pthread_mutex_lock(&queue->flushing);
	rc = wait_for_pending(queue, &done, call, err);
	if (!rc)
		rc = set_fence(queue, call, err);
	pthread_mutex_unlock(&queue->flushing);
	batch_free(&done);
	return rc;
}

int capkm_drop_flush(struct capkm_drop_queue *queue, struct capkm_error *err)
{
	return flush(queue, "drop_flush", err);
}

/* All that was pushed before is pending after one flush, and done after two. */
int capkm_drop_drain(struct capkm_drop_queue *queue, struct capkm_error *err)
{
	int rc = flush(queue, "drop_drain", err);

	return rc ? rc : flush(queue, "drop_drain", err);
}

void capkm_drop_count(struct capkm_drop_queue *queue, uint64_t *staged,
		      uint64_t *pending)
{
	pthread_mutex_lock(&queue->mutex);
	*staged = queue->staged.count;
	*pending = queue->pending.count;
	pthread_mutex_unlock(&queue->mutex);
}
