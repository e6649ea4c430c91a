// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * From the bytes of a call to the function that does it: one table row for each
 * operation of the ABI. Both transports come through here, so that they answer
 * alike. Memory of the caller is only touched through the transport's copier.
 */
#include "internal.h"

enum access {
	FREE,		/* needs no domain; called without a lock */
	READ,		/* right r */
	READ_CLIENT,	/* right r, and only from a client */
	WRITE,		/* right w, and only from a client */
};

enum direction {
	NONE,
	IN,
	OUT,
	IN_KEEP,	/* in; memory that the op may keep; left out if there is none */
	OUT_SPARE,	/* out; left out if there is no memory */
};

struct op_array {
	u16 ptr, len, elem;
	u16 max;
	enum direction direction;
};

struct op {
	int (*fn)(struct call *c);
	u16 size;
	u32 flags;
	enum access access;
	bool probe;		/* before the change: can the answer be written? */
	u16 place;		/* offset of its struct capkm_place, or 0 */
	u16 error;		/* offset of what it says about an error, or 0 */
	u16 limit;		/* offset of out_limit, or 0 */
	u16 left;		/* offset of the time that is left on EINTR, or 0 */
	u16 reserved[2];	/* offsets of members that must be 0, or 0 */
	struct op_array array[CALL_ARRAYS];
};

#define OP(NR, name, ...)						\
	[CAPKM_NR_##NR] = {						\
		.fn = ck_op_##name, .size = sizeof(struct capkm_##name),	\
		__VA_ARGS__						\
	}
#define AT(name, member) offsetof(struct capkm_##name, member)
#define ARRAY(name, member, type, most, way) {				\
		.ptr = AT(name, member##_uptr), .len = AT(name, member##_len), \
		.elem = sizeof(type), .max = (most), .direction = (way)	\
	}
#define CLAIMS_IN(name, member)						\
	ARRAY(name, member, struct capkm_claim, CAPKM_CLAIMS_MAX, IN)
#define CLAIMS_OUT(name, member)					\
	ARRAY(name, member, struct capkm_claim, CAPKM_CLAIMS_MAX, OUT)
#define TEXT_IN(name, member, most) ARRAY(name, member, char, most, IN)
#define REPORTS_OUT(name)						\
	ARRAY(name, reports, struct capkm_report, 64, OUT)
#define LIMITS_OUT(name)						\
	ARRAY(name, limits, struct capkm_limit_value, 64, OUT)
#define REPORTS_SPARE(name)						\
	ARRAY(name, reports, struct capkm_report, 64, OUT_SPARE)

static const struct op ops[] = {
	OP(INFO, info, .access = FREE, .array = { LIMITS_OUT(info) }),
	OP(DOMAIN_CREATE, domain_create, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_CREATE_F_ALL,
	   .limit = AT(domain_create, out_limit),
	   .array = { TEXT_IN(domain_create, name, CAPKM_NAME_MAX),
		      ARRAY(domain_create, limits, struct capkm_limit_value, 64,
			    IN) }),
	OP(DOMAIN_ATTACH, domain_attach, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_ATTACH_F_ALL,
	   .limit = AT(domain_attach, out_limit),
	   .array = { TEXT_IN(domain_attach, name, CAPKM_NAME_MAX) }),
	OP(DOMAIN_QUERY, domain_query, .access = READ,
	   .array = { LIMITS_OUT(domain_query) }),
	OP(DOMAIN_DESTROY, domain_destroy, .access = FREE, .probe = true,
	   .flags = CAPKM_DOMAIN_DESTROY_F_ALL),
	OP(STREAM_CREATE, stream_create, .access = WRITE, .probe = true,
	   .limit = AT(stream_create, out_limit),
	   .array = { TEXT_IN(stream_create, label, CAPKM_LABEL_MAX) }),
	OP(STREAM_QUERY, stream_query, .access = READ_CLIENT,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(stream_query, place),
	   .reserved = { AT(stream_query, __reserved) }),
	OP(BUFFER_CREATE, buffer_create, .access = WRITE, .probe = true,
	   .flags = CAPKM_BUFFER_CREATE_F_ALL,
	   .limit = AT(buffer_create, out_limit),
	   .array = { TEXT_IN(buffer_create, label, CAPKM_LABEL_MAX) }),
	OP(BUFFER_EXPORT, buffer_export, .access = WRITE, .probe = true,
	   .limit = AT(buffer_export, out_limit),
	   .reserved = { AT(buffer_export, __reserved) }),
	OP(BUFFER_OPEN, buffer_open, .access = READ_CLIENT, .probe = true,
	   .limit = AT(buffer_open, out_limit),
	   .reserved = { AT(buffer_open, __reserved) }),
	OP(BUFFER_CLOSE, buffer_close, .access = READ_CLIENT, .probe = true),
	OP(BUFFER_RESET, buffer_reset, .access = WRITE, .probe = true),
	OP(BUFFER_QUERY, buffer_query, .access = READ,
	   .reserved = { AT(buffer_query, __reserved) },
	   .array = { ARRAY(buffer_query, ranges, struct capkm_range, 4096,
			    OUT),
		      ARRAY(buffer_query, writers, struct capkm_writer, 4096,
			    OUT) }),
	OP(WINDOW_PREPARE, window_prepare, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_PREPARE_F_ALL,
	   .place = AT(window_prepare, place),
	   .error = AT(window_prepare, out_state),
	   .limit = AT(window_prepare, out_limit),
	   .array = { TEXT_IN(window_prepare, mode, CAPKM_MODE_MAX) }),
	OP(WINDOW_BEGIN, window_begin, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_BEGIN_F_ALL, .place = AT(window_begin, place),
	   .error = AT(window_begin, out_state),
	   .reserved = { AT(window_begin, __reserved) }),
	OP(WINDOW_END, window_end, .access = WRITE,
	   .flags = CAPKM_WINDOW_END_F_ALL, .place = AT(window_end, place),
	   .error = AT(window_end, out_state),
	   .reserved = { AT(window_end, __reserved) }),
	OP(WINDOW_SEAL, window_seal, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_SEAL_F_ALL,
	   .limit = AT(window_seal, out_limit),
	   .array = { REPORTS_OUT(window_seal) }),
	OP(WINDOW_REFUSE, window_refuse, .access = WRITE, .probe = true,
	   .reserved = { AT(window_refuse, __reserved) },
	   .array = { TEXT_IN(window_refuse, text, CAPKM_TEXT_MAX),
		      REPORTS_SPARE(window_refuse) }),
	OP(WINDOW_TAKE, window_take, .access = WRITE,
	   .flags = CAPKM_WINDOW_TAKE_F_ALL,
	   .array = { CLAIMS_OUT(window_take, claims),
		      ARRAY(window_take, retained, struct capkm_retained, 1024,
			    OUT),
		      REPORTS_OUT(window_take) }),
	OP(WINDOW_RECORD, window_record, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_RECORD_F_ALL,
	   .error = AT(window_record, out_error_index),
	   .limit = AT(window_record, out_limit),
	   .array = { CLAIMS_IN(window_record, reads),
		      CLAIMS_IN(window_record, writes) }),
	OP(WINDOW_ABORT, window_abort, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(window_abort, place)),
	OP(WINDOW_FAIL, window_fail, .access = WRITE, .probe = true,
	   .array = { TEXT_IN(window_fail, label, CAPKM_LABEL_MAX),
		      TEXT_IN(window_fail, text, CAPKM_TEXT_MAX) }),
	OP(WINDOW_RETAIN, window_retain, .access = WRITE, .probe = true,
	   .limit = AT(window_retain, out_limit),
	   .reserved = { AT(window_retain, retained.__reserved),
			 AT(window_retain, __reserved) }),
	OP(WINDOW_QUERY, window_query, .access = READ,
	   .flags = CAPKM_WINDOW_QUERY_F_ALL, .place = AT(window_query, place),
	   .reserved = { AT(window_query, __reserved) },
	   .array = { REPORTS_OUT(window_query),
		      ARRAY(window_query, members, struct capkm_member, 1024,
			    OUT) }),
	OP(WINDOW_ABANDON, window_abandon, .access = WRITE, .probe = true),
	OP(SCOPE_ENTER, scope_enter, .access = WRITE,
	   .flags = CAPKM_SCOPE_ENTER_F_ALL, .place = AT(scope_enter, place),
	   .error = AT(scope_enter, out_error_index),
	   .limit = AT(scope_enter, out_limit),
	   .array = { CLAIMS_IN(scope_enter, reads),
		      CLAIMS_IN(scope_enter, writes),
		      TEXT_IN(scope_enter, label, CAPKM_LABEL_MAX),
		      REPORTS_OUT(scope_enter) }),
	OP(SCOPE_EXIT, scope_exit, .access = WRITE,
	   .flags = CAPKM_SCOPE_EXIT_F_ALL,
	   .array = { TEXT_IN(scope_exit, text, CAPKM_TEXT_MAX),
		      ARRAY(scope_exit, stack, char, CAPKM_STACK_MAX,
			    IN_KEEP) }),
	OP(CHECK, check, .access = READ, .flags = CAPKM_CHECK_F_ALL,
	   .error = AT(check, out_error_index),
	   .array = { CLAIMS_IN(check, claims), REPORTS_OUT(check) }),
	OP(TAINT, taint, .access = WRITE, .probe = true,
	   .error = AT(taint, out_error_index),
	   .limit = AT(taint, out_limit),
	   .array = { CLAIMS_IN(taint, claims),
		      TEXT_IN(taint, text, CAPKM_TEXT_MAX) }),
	OP(WRITTEN, written, .access = WRITE, .probe = true,
	   .error = AT(written, out_error_index),
	   .array = { CLAIMS_IN(written, claims) }),
	OP(GRAPH_REPLAY_BEGIN, graph_replay_begin, .access = WRITE,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(graph_replay_begin, place),
	   .limit = AT(graph_replay_begin, out_limit),
	   .array = { REPORTS_OUT(graph_replay_begin) }),
	OP(GRAPH_REPLAY_END, graph_replay_end, .access = WRITE,
	   .flags = CAPKM_SCOPE_EXIT_F_ALL,
	   .reserved = { AT(graph_replay_end, __reserved) },
	   .array = { TEXT_IN(graph_replay_end, text, CAPKM_TEXT_MAX) }),
	OP(GRAPH_DESTROY, graph_destroy, .access = WRITE, .probe = true),
	OP(GRAPH_QUERY, graph_query, .access = READ,
	   .flags = CAPKM_GRAPH_QUERY_F_ALL,
	   .array = { CLAIMS_OUT(graph_query, claims) }),
	OP(FAILURE_QUERY, failure_query, .access = READ,
	   .array = { REPORTS_OUT(failure_query),
		      ARRAY(failure_query, hops, struct capkm_hop, SKIPS_MAX,
			    OUT),
		      CLAIMS_OUT(failure_query, carriers),
		      ARRAY(failure_query, stack, char, CAPKM_STACK_MAX,
			    OUT) }),
	OP(SESSION_JOIN, session_join, .access = FREE, .probe = true,
	   .limit = AT(session_join, out_limit)),
	OP(STREAM_DESTROY, stream_destroy, .access = WRITE, .probe = true,
	   .reserved = { AT(stream_destroy, __reserved) }),
	OP(STREAM_CONFIRM, stream_confirm, .access = WRITE, .probe = true,
	   .flags = CAPKM_STREAM_CONFIRM_F_ALL,
	   .place = AT(stream_confirm, place)),
	OP(STREAM_FAULT, stream_fault, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(stream_fault, place),
	   .array = { TEXT_IN(stream_fault, text, CAPKM_TEXT_MAX) }),
	OP(STREAM_FLUSH, stream_flush, .access = WRITE, .probe = true,
	   .flags = CAPKM_STREAM_FLUSH_F_ALL, .place = AT(stream_flush, place),
	   .array = { REPORTS_OUT(stream_flush) }),
	OP(CONTEXT_RENEW, context_renew, .access = WRITE, .probe = true),
	OP(WINDOW_JOIN, window_join, .access = WRITE, .probe = true,
	   .flags = CAPKM_WINDOW_JOIN_F_ALL, .place = AT(window_join, place),
	   .error = AT(window_join, out_state),
	   .limit = AT(window_join, out_limit),
	   .reserved = { AT(window_join, __reserved) }),
	OP(WINDOW_WAIT, window_wait, .access = READ, .probe = true,
	   .flags = CAPKM_WINDOW_WAIT_F_ALL, .place = AT(window_wait, place),
	   .left = AT(window_wait, timeout_ns)),
	OP(GRAPH_UPDATE, graph_update, .access = WRITE, .probe = true,
	   .flags = CAPKM_GRAPH_UPDATE_F_ALL,
	   .reserved = { AT(graph_update, __reserved) },
	   .array = { REPORTS_OUT(graph_update) }),
	OP(REFUSE, refuse, .access = WRITE, .probe = true,
	   .flags = CAPKM_PLACE_F_SLOT, .place = AT(refuse, place),
	   .error = AT(refuse, out_error_index),
	   .limit = AT(refuse, out_limit),
	   .array = { CLAIMS_IN(refuse, claims), REPORTS_OUT(refuse) }),
	OP(DEVICE_FAULT, device_fault, .access = FREE, .probe = true,
	   .reserved = { AT(device_fault, __reserved) },
	   .array = { TEXT_IN(device_fault, text, CAPKM_TEXT_MAX) }),
};

/* Room for the arrays of a common call, so that it allocates nothing. */
#define SCRATCH		96
#define ARG_WORDS	64

struct frame {
	struct call call;
	const struct op *op;
	const struct capkm_copier *copy;
	u64 addr;			/* of the caller's struct */
	u32 size;			/* as the caller knows it */
	u32 scratch_used;
	u8 on_heap;			/* bit for each array */
	u64 arg[ARG_WORDS];
	u64 scratch[SCRATCH];
};

static u32 *u32_at(struct frame *f, u16 offset)
{
	return (u32 *)((char *)f->arg + offset);
}

static u64 *u64_at(struct frame *f, u16 offset)
{
	return (u64 *)((char *)f->arg + offset);
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
	place = (const void *)((char *)f->arg + f->op->place);
	if (place->__reserved)
		return -EINVAL;
	return !(flags & CAPKM_PLACE_F_SLOT) && place->slot ? -EINVAL : 0;
}

static int get_struct(struct frame *f)
{
	const struct op *op = f->op;
	int i, err;

	if (f->copy->in(&f->size, f->addr, sizeof(f->size)))
		return -EFAULT;
	if (f->size < op->size)
		return -EINVAL;
	if (f->size > 4096)
		return -E2BIG;
	if (f->copy->in(f->arg, f->addr, op->size))
		return -EFAULT;
	err = check_tail(f);
	if (err)
		return err;
	if (*u32_at(f, offsetof(struct capkm_info, flags)) & ~op->flags)
		return -EOPNOTSUPP;
	for (i = 0; i < 2; i++)
		if (op->reserved[i] && *u32_at(f, op->reserved[i]))
			return -EINVAL;
	return check_place(f, *u32_at(f, offsetof(struct capkm_info, flags)));
}

static void *room(struct frame *f, int i, size_t bytes)
{
	size_t words = (bytes + 7) / 8;
	void *p;

	if (f->op->array[i].direction != IN_KEEP &&
	    words <= SCRATCH - f->scratch_used) {
		p = &f->scratch[f->scratch_used];
		f->scratch_used += words;
		return p;
	}
	f->on_heap |= 1u << i;
	return host_alloc(bytes);
}

static bool is_out(const struct op_array *desc)
{
	return desc->direction == OUT || desc->direction == OUT_SPARE;
}

static int get_array(struct frame *f, int i)
{
	const struct op_array *desc = &f->op->array[i];
	struct array *array = &f->call.array[i];
	u64 addr = *u64_at(f, desc->ptr);
	u32 len = *u32_at(f, desc->len);
	size_t bytes;

	if (len && !addr)
		return -EINVAL;
	if (len > desc->max) {
		if (!is_out(desc))
			return -EMSGSIZE;
		len = desc->max;
	}
	bytes = (size_t)len * desc->elem;
	array->data = len ? room(f, i, bytes) : f->scratch;
	if (!array->data && (desc->direction == IN_KEEP ||
			     desc->direction == OUT_SPARE))
		return 0;
	if (!array->data)
		return -ENOMEM;
	array->len = len;
	if (!is_out(desc) && len &&
	    f->copy->in(array->data, addr, bytes))
		return -EFAULT;
	return 0;
}

static int get_arrays(struct frame *f)
{
	int i, err;

	for (i = 0; i < CALL_ARRAYS; i++) {
		if (f->op->array[i].direction == NONE)
			break;
		err = get_array(f, i);
		if (err)
			return err;
	}
	return 0;
}

static void free_arrays(struct frame *f)
{
	int i;

	for (i = 0; i < CALL_ARRAYS; i++)
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

	if (f->copy->out(f->addr, f->arg, f->op->size))
		return -EFAULT;
	for (i = 0; i < CALL_ARRAYS; i++) {
		desc = &f->op->array[i];
		array = &f->call.array[i];
		if (!is_out(desc) || !array->len)
			continue;
		bytes = (size_t)array->len * desc->elem;
		memset(array->data, 0, bytes);
		if (f->copy->out(*u64_at(f, desc->ptr), array->data, bytes))
			return -EFAULT;
	}
	return 0;
}

static int put_arrays(struct frame *f)
{
	const struct op_array *desc;
	struct array *array;
	int i;

	for (i = 0; i < CALL_ARRAYS; i++) {
		desc = &f->op->array[i];
		array = &f->call.array[i];
		if (is_out(desc) && array->used &&
		    f->copy->out(*u64_at(f, desc->ptr), array->data,
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
		f->copy->out(f->addr + op->error, u32_at(f, op->error),
			     sizeof(u32));
	if (f->call.limit && op->limit) {
		*u32_at(f, op->limit) = f->call.limit;
		f->copy->out(f->addr + op->limit, u32_at(f, op->limit),
			     sizeof(u32));
	}
	if (err == -EINTR && op->left)
		f->copy->out(f->addr + op->left, u64_at(f, op->left),
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

static int run(struct frame *f)
{
	struct call *c = &f->call;
	int err;

	if (f->op->access == FREE)
		return f->op->fn(c);
	c->domain = READ_ONCE(c->session->domain);
	if (!c->domain)
		return -ENOTCONN;
	host_lock(&c->domain->lock);
	err = allowed(c, f->op->access);
	if (c->client)
		c->client->calls++;
	if (!err)
		err = f->op->fn(c);
	if (c->client)
		c->client->calls--;
	ck_stock_trim(&c->session->stock);
	host_unlock(&c->domain->lock);
	return err;
}

static int call(struct frame *f)
{
	int err;

	err = get_struct(f);
	if (!err)
		err = get_arrays(f);
	if (!err && f->op->probe)
		err = probe(f);
	if (!err)
		err = run(f);
	if (err)
		put_error(f, err);
	else
		err = put_arrays(f);
	if (!err && f->copy->out(f->addr, f->arg, f->op->size))
		err = -EFAULT;
	free_arrays(f);
	return err;
}

int capkm_call(struct capkm_session *s, unsigned int nr, u64 arg,
	       const struct capkm_copier *copy,
	       const struct capkm_caller *who)
{
	struct frame f;

	if (nr >= ARRAY_SIZE(ops) || !ops[nr].fn)
		return -ENOTTY;
	memset(&f, 0, offsetof(struct frame, arg));
	f.call.session = s;
	f.call.who = who;
	f.call.arg = f.arg;
	f.op = &ops[nr];
	f.copy = copy;
	f.addr = arg;
	return call(&f);
}

/* Claims that one call may need. */
#define BUY_MAX		(1u << 24)

/* While the lock was dropped, the domain or the client may have ended. */
static bool is_over(const struct call *c)
{
	return c->domain->dead || (c->client && c->client->dead);
}

int ck_call_buy(struct call *c, const struct need *need)
{
	struct stock *stock = &c->session->stock, bought;
	struct need lack;
	int err;

	if (need->n[STOCK_CLAIM] > BUY_MAX)
		return ck_limit_reached(c, CAPKM_LIMIT_RANGES);
	if (ck_stock_has(stock, need))
		return 0;
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
