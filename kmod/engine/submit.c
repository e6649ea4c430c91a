// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * SUBMIT: many operations in one call. They are copied in, done under one hold of the
 * domain's lock and copied out a batch at a time, so that the lock is held for a bounded
 * time. An operation that has to buy something lets the lock go, as it does on its own.
 *
 * What an id refers to is looked up when the one that gave it is done, by the rows of
 * ops.h.
 */
#include "call.h"

/*
 * Operations in a batch, and bytes of their arrays, but for those of a single one. What it
 * takes is bounded by the clock, but for a single one again.
 */
#define BATCH		16u
#define BATCH_BYTES	(64u << 10)

/* Room in a batch for each operation, and what one must have to be in it. */
#define ROOM_EACH	40u
#define ROOM_LEAST	(ARG_WORDS + 64u)

struct step {
	struct frame frame;
	bool refers;		/* then, as the caller gave them: */
	u64 named[OP_IDS];
	u64 stream;
};

/* What an operation is and, once it is done, the ids that it has given. */
struct done {
	const struct op *op;
	u64 given[OP_GIVES];
};

struct submit {
	struct call *call;
	const struct capkm_copier *copy;
	const struct capkm_element *element;
	u32 len;
	u32 at;			/* all before are done */
	u32 wrong;		/* with an error, the one that it is of */
	bool stopped;		/* with or without one */
	struct step *step;	/* of a batch */
	u64 *room;
	u32 words;
	struct done *done;	/* for each element */
};

/* ---- references ---- */

static bool is_ref(u64 id)
{
	return (id ^ CAPKM_REF_FIRST) < CAPKM_REF_FIRST;
}

/* Of element @i. 0, -EINVAL or, if that one has given none, -ENOENT. */
static int resolve(const struct submit *s, u32 i, enum id_kind kind, u64 *id)
{
	const u64 ref = *id ^ CAPKM_REF_FIRST;
	const struct op_id *gives;
	int k;

	if (!is_ref(*id))
		return 0;
	if (ref >= i)
		return -EINVAL;
	gives = s->done[ref].op->gives;
	for (k = 0; k < OP_GIVES && gives[k].kind; k++) {
		if (gives[k].kind != kind)
			continue;
		*id = s->done[ref].given[k];
		return *id ? 0 : -ENOENT;
	}
	return -EINVAL;
}

/* -ENOENT of ids[0]: there is nothing to leave, if it is an operation that leaves. */
static int resolve_struct(const struct submit *s, struct step *st, u32 i)
{
	const struct op *op = st->frame.op;
	u64 *id;
	int k, err;

	st->refers = false;
	if (op->place) {
		id = ck_frame_u64(&st->frame, op->place +
				  offsetof(struct capkm_place, stream));
		st->stream = *id;
		st->refers |= is_ref(*id);
		err = resolve(s, i, ID_STREAM, id);
		if (err)
			return err;
	}
	for (k = 0; k < OP_IDS && op->ids[k].kind; k++) {
		id = ck_frame_u64(&st->frame, op->ids[k].at);
		st->named[k] = *id;
		st->refers |= is_ref(*id);
		err = resolve(s, i, op->ids[k].kind, id);
		if (err)
			return err;
	}
	return 0;
}

/* The struct keeps its references. */
static void restore(struct step *st)
{
	const struct op *op = st->frame.op;
	int k;

	if (!st->refers)
		return;
	if (op->place)
		*ck_frame_u64(&st->frame, op->place +
			      offsetof(struct capkm_place, stream)) = st->stream;
	for (k = 0; k < OP_IDS && op->ids[k].kind; k++)
		*ck_frame_u64(&st->frame, op->ids[k].at) = st->named[k];
}

/* Of an operation, arrays of claims come first. */
static int resolve_claims(const struct submit *s, struct frame *f, u32 i)
{
	struct capkm_claim *claim;
	u32 a, k, n = 0;
	u64 buffer;
	int err;

	for (a = 0; a < CALL_ARRAYS && f->op->array[a].claims; a++) {
		claim = f->call.array[a].data;
		for (k = 0; k < f->call.array[a].len; k++, n++) {
			if (!is_ref(claim[k].buffer))
				continue;
			buffer = claim[k].buffer;
			err = resolve(s, i, ID_BUFFER, &buffer);
			claim[k].buffer = buffer;
			if (!err)
				continue;
			*ck_frame_u32(f, f->op->error) = n;
			f->call.say_error = true;
			return err;
		}
	}
	return 0;
}

/* What element @i has given, by its struct. */
static void remember(struct submit *s, struct frame *f, u32 i)
{
	const struct op *op = f->op;
	int k;

	if (op->entered && *ck_frame_u32(f, op->entered) != CAPKM_CLEAN)
		return;
	for (k = 0; k < OP_GIVES && op->gives[k].kind; k++)
		s->done[i].given[k] = *ck_frame_u64(f, op->gives[k].at);
}

/* ---- a batch ---- */

static void begin(struct submit *s, struct frame *f, u32 i)
{
	ck_frame_init(f, s->done[i].op, s->element[i].arg_uptr);
	f->call.session = s->call->session;
	f->call.who = s->call->who;
	f->copy = s->copy;
	f->room = s->room;
	f->words = s->words;
}

/* What is tried before is tried on what will be done, not on what comes after an error. */
static bool is_first(const struct op *op)
{
	int i;

	for (i = 0; op->probe && i < CALL_ARRAYS; i++)
		if (is_out(&op->array[i]))
			return true;
	return op->access == FREE;
}

/* Those from s->at on that go together: how many. *@err: of the one after them. */
static u32 get_batch(struct submit *s, int *err)
{
	u32 n, bytes = 0, words = s->words;
	struct frame *f = NULL;
	u64 *room = s->room;

	for (n = 0; n < BATCH && s->at + n < s->len; n++) {
		if (n && (f->op->access == FREE || f->words < ROOM_LEAST ||
			  bytes > BATCH_BYTES ||
			  is_first(s->done[s->at + n].op)))
			break;
		f = &s->step[n].frame;
		begin(s, f, s->at + n);
		*err = ck_frame_get_struct(f);
		if (!*err)
			*err = ck_frame_get_arrays(f);
		if (*err)
			break;
		bytes += f->bytes;
		s->room = f->room;
		s->words = f->words;
	}
	s->room = room;
	s->words = words;
	return n;
}

/* Of what was not entered, to be left. */
static void do_nothing(struct frame *f)
{
	memset(ck_frame_u64(f, f->op->leaves), 0, f->op->size - f->op->leaves);
}

static int do_step(struct submit *s, struct step *st, u32 i)
{
	struct frame *f = &st->frame;
	int err;

	err = resolve_struct(s, st, i);
	if (err == -ENOENT && f->op->leaves) {
		do_nothing(f);
		return 0;
	}
	if (!err)
		err = resolve_claims(s, f, i);
	if (!err)
		err = ck_frame_run(f);
	if (!err)
		remember(s, f, i);
	return err;
}

static bool in_progress(struct frame *f)
{
	return f->op->entered &&
	       *ck_frame_u32(f, f->op->entered) == CAPKM_IN_PROGRESS;
}

/*
 * How many were done; *@err: of the one after them. Not all if they take long: the rest
 * comes with the next batch.
 */
static u32 do_batch(struct submit *s, u32 n, int *err)
{
	struct frame *first = &s->step[0].frame, *f;
	const bool locked = first->op->access != FREE;
	const unsigned long begun = host_moment();
	u32 k;

	*err = locked ? ck_frame_lock(first) : 0;
	if (*err)
		return 0;
	for (k = 0; k < n; k++) {
		if (k && !(k % 4) && host_moment() != begun)
			break;
		f = &s->step[k].frame;
		f->call.domain = first->call.domain;
		*err = do_step(s, &s->step[k], s->at + k);
		if (*err)
			break;
		s->stopped = in_progress(f);
		if (s->stopped)
			break;
	}
	if (locked)
		ck_frame_unlock(first);
	return k;
}

/* What the first @n, which were done, answer. 0 or the first error. */
static int put_batch(struct submit *s, u32 n)
{
	int err, first = 0;
	u32 k;

	for (k = 0; k < n; k++) {
		restore(&s->step[k]);
		err = ck_frame_put(&s->step[k].frame, 0);
		if (!err || first)
			continue;
		first = err;
		s->wrong = s->at + k;
	}
	return first;
}

/* 0 or the error of element s->wrong. */
static int batch(struct submit *s)
{
	int get_err = 0, err = 0, lost;
	u32 n = get_batch(s, &get_err), done = 0, k;

	if (n)
		done = do_batch(s, n, &err);
	if (done == n && !s->stopped)
		err = get_err;
	lost = put_batch(s, done + s->stopped);
	if (err)
		ck_frame_put(&s->step[done].frame, err);
	for (k = 0; k < n + !!get_err; k++)
		ck_frame_free(&s->step[k].frame);
	s->at += done;
	if (lost)
		return lost;
	s->wrong = s->at;
	return err;
}

/* ---- the call ---- */

static int check_elements(struct submit *s)
{
	const struct op *op;
	u32 i;

	for (i = 0; i < s->len; i++) {
		s->wrong = i;
		op = ck_op(s->element[i].nr);
		s->done[i].op = op;
		if (!op)
			return -ENOTTY;
		if (op->alone)
			return -EOPNOTSUPP;
		if (s->element[i].__reserved)
			return -EINVAL;
	}
	return 0;
}

/* What those before @from have given is in their structs. */
static int remember_earlier(struct submit *s, u32 from)
{
	struct step *st = &s->step[0];
	int err;

	for (; s->at < from; s->at++) {
		s->wrong = s->at;
		begin(s, &st->frame, s->at);
		err = ck_frame_get_struct(&st->frame);
		if (!err)
			err = resolve_struct(s, st, s->at);
		if (err && !(err == -ENOENT && st->frame.op->leaves))
			return err == -EFAULT ? err : -EINVAL;
		if (!err)
			remember(s, &st->frame, s->at);
	}
	return 0;
}

/* One piece of memory for all of it. */
static void *get_memory(struct submit *s)
{
	const u32 steps = min(s->len, BATCH);
	size_t bytes;
	char *p;

	s->words = ROOM_LEAST + ROOM_EACH * steps;
	bytes = s->words * sizeof(*s->room) + s->len * sizeof(*s->done);
	p = host_alloc(bytes + steps * sizeof(*s->step));
	if (!p)
		return NULL;
	s->room = (u64 *)p;
	s->done = (void *)(s->room + s->words);
	s->step = (void *)(p + bytes);
	return p;
}

/* 0 or the error of element s->wrong. */
static int do_all(struct submit *s)
{
	int err = 0;

	while (!err && !s->stopped && s->at < s->len && !host_killed()) {
		err = batch(s);
		host_relax();
	}
	return err;
}

int ck_op_submit(struct call *c)
{
	struct capkm_submit *a = c->arg;
	struct submit s = {
		.call = c,
		.copy = container_of(c, struct frame, call)->copy,
		.element = c->array[0].data, .len = c->array[0].len,
	};
	void *memory;
	int err;

	if (a->from > s.len)
		return -EINVAL;
	memory = get_memory(&s);
	if (!memory)
		return -ENOMEM;
	err = check_elements(&s);
	if (!err)
		err = remember_earlier(&s, a->from);
	if (err) {
		a->out_error_index = s.wrong;
		c->say_error = true;
		goto out;
	}
	err = do_all(&s);
	a->out_done = s.at;
	a->out_error = -err;
	if (err)
		a->out_error_index = s.wrong;
	err = 0;
out:
	host_free(memory);
	return err;
}
