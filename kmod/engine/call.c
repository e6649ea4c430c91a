// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * From the bytes of a call to the function that does it, by the table in ops.h. Both
 * transports come through here, so that they answer alike. Memory of the caller is only
 * touched through the transport's copier.
 */
#define OP_FN(name) .fn = ck_op_##name,
#include "ops.h"
#include "call.h"

/* Room for the arrays of a common call, so that it allocates nothing. */
#define SCRATCH		96

const struct op *ck_op(u32 nr)
{
	return nr < ARRAY_SIZE(ops) && ops[nr].fn ? &ops[nr] : NULL;
}

/* Bytes that we do not know must be zero. */
static int check_tail(struct frame *f)
{
	u64 zero[8] = {}, bytes[8], at = f->addr + f->op->size;
	u32 left = f->size - f->op->size, n;

	for (; left; left -= n, at += n) {
		n = min(left, (u32)sizeof(bytes));
		if (f->copy->in(bytes, at, n))
			return -EFAULT;
		if (memcmp(bytes, zero, n))
			return -E2BIG;
	}
	return 0;
}

static int check_place(struct frame *f, u32 flags)
{
	const struct capkm_place *place;

	if (!f->op->place)
		return 0;
	place = f->call.arg + f->op->place;
	if (place->__reserved)
		return -EINVAL;
	return !(flags & CAPKM_PLACE_F_SLOT) && place->slot ? -EINVAL : 0;
}

int ck_frame_get_struct(struct frame *f)
{
	const struct op *op = f->op;
	const u32 words = (op->size + 7) / 8;
	int i, err;

	f->call.arg = f->room;
	f->room += words;
	f->words -= words;
	if (f->copy->in(&f->size, f->addr, sizeof(f->size)))
		return -EFAULT;
	if (f->size < op->size)
		return -EINVAL;
	if (f->size > 4096)
		return -E2BIG;
	if (f->copy->in(f->call.arg, f->addr, op->size))
		return -EFAULT;
	if (f->size > op->size) {
		err = check_tail(f);
		if (err)
			return err;
	}
	if (*ck_frame_u32(f, offsetof(struct capkm_info, flags)) & ~op->flags)
		return -EOPNOTSUPP;
	for (i = 0; i < 2; i++)
		if (op->reserved[i] && *ck_frame_u32(f, op->reserved[i]))
			return -EINVAL;
	return check_place(f, *ck_frame_u32(f, offsetof(struct capkm_info, flags)));
}

static void *room(struct frame *f, const struct array *array,
		  const struct op_array *desc, size_t bytes)
{
	size_t words = (bytes + 7) / 8;
	void *p = f->room;

	if (desc->direction != IN_KEEP && words <= f->words) {
		f->room += words;
		f->words -= words;
		return p;
	}
	f->on_heap |= 1u << (array - f->call.array);
	return host_alloc(bytes);
}

/* @len is not 0. */
static int get_elements(struct frame *f, struct array *array,
			const struct op_array *desc, u32 len)
{
	u64 addr = *ck_frame_u64(f, desc->ptr);
	size_t bytes, looked_up;

	if (!addr)
		return -EINVAL;
	if (len > desc->max) {
		if (!is_out(desc))
			return -EMSGSIZE;
		len = desc->max;
	}
	bytes = (size_t)len * desc->elem;
	f->bytes += bytes;
	looked_up = desc->claims ? len * sizeof(struct target) : 0;
	array->data = room(f, array, desc, bytes + looked_up);
	if (!array->data && (desc->direction == IN_KEEP ||
			     desc->direction == OUT_SPARE))
		return 0;
	if (!array->data)
		return -ENOMEM;
	array->target = array->data + bytes;
	array->len = len;
	if (is_out(desc)) {
		f->outs |= 1u << (array - f->call.array);
		return 0;
	}
	return f->copy->in(array->data, addr, bytes) ? -EFAULT : 0;
}

void ck_frame_free_heap(struct frame *f)
{
	int i;

	for (i = 0; f->on_heap >> i; i++)
		if (f->on_heap & (1u << i))
			host_free(f->call.array[i].data);
}

/*
 * Before a change: can the answer be written? A struct is written as it was, an
 * array with zeros, which the answer overwrites.
 */
static int probe(struct frame *f)
{
	const struct op_array *desc;
	struct array *array;
	size_t bytes;
	int i;

	if (f->copy->out(f->addr, f->call.arg, f->op->size))
		return -EFAULT;
	for (i = 0; i < CALL_ARRAYS; i++) {
		desc = &f->op->array[i];
		array = &f->call.array[i];
		if (!is_out(desc) || !array->len)
			continue;
		bytes = (size_t)array->len * desc->elem;
		memset(array->data, 0, bytes);
		if (f->copy->out(*ck_frame_u64(f, desc->ptr), array->data, bytes))
			return -EFAULT;
	}
	return 0;
}

int ck_frame_get_arrays(struct frame *f)
{
	const struct op_array *desc = f->op->array;
	struct array *array = f->call.array;
	u32 len;
	int err;

	for (; desc->direction != NONE; desc++, array++) {
		array->data = f->call.arg;	/* nobody looks at it */
		array->len = 0;
		array->used = 0;
		len = *ck_frame_u32(f, desc->len);
		err = len ? get_elements(f, array, desc, len) : 0;
		if (err)
			return err;
	}
	return f->op->probe ? probe(f) : 0;
}

static int put_arrays(struct frame *f)
{
	const struct op_array *desc;
	struct array *array;
	int i;

	for (i = 0; f->outs >> i; i++) {
		array = &f->call.array[i];
		if (!(f->outs & (1u << i)) || !array->used)
			continue;
		desc = &f->op->array[i];
		if (f->copy->out(*ck_frame_u64(f, desc->ptr), array->data,
				 (size_t)array->used * desc->elem))
			return -EFAULT;
	}
	return 0;
}

/* Of a refused call only what says more about the error. */
static void put_error(struct frame *f, int err)
{
	const struct op *op = f->op;

	if (f->call.say_error && op->error)
		f->copy->out(f->addr + op->error, ck_frame_u32(f, op->error),
			     sizeof(u32));
	if (f->call.limit && op->limit) {
		*ck_frame_u32(f, op->limit) = f->call.limit;
		f->copy->out(f->addr + op->limit, ck_frame_u32(f, op->limit),
			     sizeof(u32));
	}
	if (err == -EINTR && op->left)
		f->copy->out(f->addr + op->left, ck_frame_u64(f, op->left),
			     sizeof(u64));
}

/* With the lock. */
static int allowed(struct call *c, enum access access)
{
	struct capkm_session *s = c->session;

	if (c->domain->dead)
		return -ECANCELED;
	c->client = ck_session_client(s, c->who);
	if (!(s->rights & CAPKM_RIGHT_READ))
		return -EACCES;
	if (access == READ)
		return 0;
	if (!c->client)
		return -EPERM;
	if (c->client->dead)
		return -ECANCELED;
	if (access == WRITE && !(s->rights & CAPKM_RIGHT_WRITE))
		return -EACCES;
	return 0;
}

int ck_frame_lock(struct frame *f)
{
	struct call *c = &f->call;

	c->domain = READ_ONCE(c->session->domain);
	if (!c->domain)
		return -ENOTCONN;
	host_lock(&c->domain->lock);
	return 0;
}

void ck_frame_unlock(struct frame *f)
{
	struct call *c = &f->call;

	ck_stock_trim(&c->session->stock);
	ck_fast_return(c->domain, c->session);
	host_unlock(&c->domain->lock);
}

int ck_frame_run(struct frame *f)
{
	struct call *c = &f->call;
	int err;

	if (f->op->access == FREE)
		return f->op->fn(c);
	err = allowed(c, f->op->access);
	ck_fast_fold(c->session);
	if (c->client)
		c->client->calls++;
	if (!err)
		err = f->op->fn(c);
	ck_bury(c->domain);
	if (c->client)
		c->client->calls--;
	return err;
}

static int run(struct frame *f)
{
	int err;

	if (f->op->access == FREE)
		return ck_frame_run(f);
	err = ck_frame_lock(f);
	if (err)
		return err;
	err = ck_frame_run(f);
	ck_frame_unlock(f);
	return err;
}

int ck_frame_put(struct frame *f, int err)
{
	if (err)
		put_error(f, err);
	else
		err = put_arrays(f);
	if (!err && f->copy->out(f->addr, f->call.arg, f->op->size))
		err = -EFAULT;
	return err;
}

static int call(struct frame *f)
{
	int err;

	err = ck_frame_get_struct(f);
	if (!err)
		err = ck_frame_get_arrays(f);
	if (!err)
		err = run(f);
	err = ck_frame_put(f, err);
	ck_frame_free(f);
	return err;
}

int capkm_call(struct capkm_session *s, unsigned int nr, u64 arg,
	       const struct capkm_copier *copy,
	       const struct capkm_caller *who)
{
	const struct op *op = ck_op(nr);
	u64 room[ARG_WORDS + SCRATCH];
	struct frame f;

	if (!op)
		return -ENOTTY;
	ck_frame_init(&f, op, arg);
	f.call.session = s;
	f.call.who = who;
	f.copy = copy;
	f.room = room;
	f.words = ARRAY_SIZE(room);
	return call(&f);
}

/* Claims that one call may need. */
#define BUY_MAX		(1u << 24)

/* While the lock was dropped, the domain or the client may have ended. */
static bool is_over(const struct call *c)
{
	return c->domain->dead || (c->client && c->client->dead);
}

int ck_call_buy_now(struct call *c, const struct need *need)
{
	struct stock *stock = &c->session->stock, bought;
	struct need lack;
	int err;

	if (need->n[STOCK_CLAIM] > BUY_MAX)
		return ck_limit_reached(c, CAPKM_LIMIT_RANGES);
	lack = ck_stock_lack(stock, need);
	ck_stock_init(&bought);
	host_unlock(&c->domain->lock);
	err = ck_stock_buy(&bought, &lack);
	host_lock(&c->domain->lock);
	ck_stock_move_all(stock, &bought);
	if (err)
		return err;
	return is_over(c) ? -ECANCELED : 1;
}

void *ck_call_alloc(struct call *c, size_t bytes, int *err)
{
	void *p;

	host_unlock(&c->domain->lock);
	p = host_alloc(bytes);
	host_lock(&c->domain->lock);
	*err = p ? 0 : -ENOMEM;
	if (p && is_over(c)) {
		host_free(p);
		p = NULL;
		*err = -ECANCELED;
	}
	return p;
}

int ck_op_info(struct call *c)
{
	struct capkm_info *a = c->arg;

	a->out_abi_version = CAPKM_ABI_VERSION;
	a->out_abi_oldest = CAPKM_ABI_OLDEST;
	a->out_features = host_features();
	a->out_claims_max = CAPKM_CLAIMS_MAX;
	a->out_streams_max = SLOTS_MAX;
	memset(a->out_version, 0, sizeof(a->out_version));
	memcpy(a->out_version, CAPKM_VERSION,
	       min(sizeof(CAPKM_VERSION), sizeof(a->out_version)) - 1);
	a->out_limits = ck_limits_fill(capkm_limits, &c->array[0]);
	return 0;
}
