// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls as the module's device gets them, out of bytes: any number, size, flags, values,
 * arrays and pointers, by several processes of several users on several sessions, with
 * memory that changes between two looks and a scope table full of garbage.
 *
 * It has no model: what may be written, and what has to be gone in the end, is checked.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "../abi_table.h"
#include "../choices.h"
#include "engine.h"

#include "host_proc.h"
#include "test_hooks.h"

#define SESSIONS	4
#define PROCESSES	3
#define IDS		16	/* that were given last */

/* The memory of whoever calls: what is not in it is no memory. */
#define MEMORY		0x10000000ull
#define MEMORY_BYTES	0x8000u

static struct {
	struct choices choices;
	struct host_proc *proc[PROCESSES];
	struct capkm_session *session[SESSIONS];
	int owner[SESSIONS];
	u64 ids[IDS];
	unsigned int last;
	unsigned char *memory;
} f;

/* The call that is made, as its struct was when it was read. */
static struct {
	const struct t_op *op;
	u64 at;
	unsigned char seen[T_ARG_MAX];
	bool was_seen, submit;
	bool changing;		/* the caller writes to what was just read */
	unsigned int refuse;	/* so many more accesses, and there is no memory; 0: never */
} now;

static void __attribute__((noreturn)) wrong(const char *what)
{
	fprintf(stderr, "%s: %s\n", now.op ? now.op->name : "call", what);
	abort();
}

static bool pick(unsigned int one_of)
{
	return !choose(&f.choices, one_of);
}

static unsigned int byte(void)
{
	return choose(&f.choices, 256);
}

/* ---- the caller's memory */

static unsigned char *at(u64 address, size_t n)
{
	if (now.refuse && !--now.refuse)
		return NULL;
	if (address < MEMORY || n > MEMORY_BYTES || address - MEMORY > MEMORY_BYTES - n)
		return NULL;
	return f.memory + (address - MEMORY);
}

static int copy_in(void *dst, u64 src, size_t n)
{
	unsigned char *p = at(src, n);

	if (!p)
		return -EFAULT;
	memcpy(dst, p, n);
	if (now.op && src == now.at && n == now.op->size) {
		memcpy(now.seen, dst, n);
		now.was_seen = true;
	}
	if (now.changing && n)
		p[choose(&f.choices, n < 256 ? n : 256)] = byte();
	return 0;
}

static bool is_in(u64 at, size_t n, u64 start, u64 bytes)
{
	return at >= start && at - start <= bytes && n <= bytes - (at - start);
}

/* Of a SUBMIT the elements have structs of their own: anywhere. */
static bool may_write(u64 dst, size_t n)
{
	const struct t_op *op = now.op;

	if (now.submit || is_in(dst, n, now.at, op->size))
		return true;
	for (size_t i = 0; i < T_LEN(op->arrays) && op->arrays[i].elem; i++) {
		const struct t_array *a = &op->arrays[i];

		if (a->out && is_in(dst, n, t_get64(now.seen, a->ptr),
				    (u64)t_get32(now.seen, a->len) * a->elem))
			return true;
	}
	return false;
}

static int copy_out(u64 dst, const void *src, size_t n)
{
	unsigned char *p;

	if (!now.op || !now.was_seen || !may_write(dst, n))
		wrong("writes to what is no output");
	p = at(dst, n);
	if (!p)
		return -EFAULT;
	memcpy(p, src, n);
	return 0;
}

static const struct capkm_copier copier = { .in = copy_in, .out = copy_out };

/* ---- who calls */

static struct capkm_caller caller(int process)
{
	struct capkm_caller who = {
		.proc = f.proc[process], .image = f.proc[process], .tid = 7 + process,
		.uid = process == 2 ? 1001 : 1000 * (process % 2),
		.gid = process, .all_nets = !process, .admin = !process,
		.net = 1 + process / 2, .comm = "fuzz",
	};

	return who;
}

static void open_session(int s)
{
	const int process = choose(&f.choices, PROCESSES);
	const struct capkm_caller who = caller(process);

	capkm_test_fail_alloc(0);
	if (capkm_session_open(&who, &f.session[s]))
		wrong("a session cannot be opened");
	f.owner[s] = process;
}

/* ---- a struct */

static u64 any_value(void)
{
	static const u64 special[] = {
		0, 1, U64_MAX, U32_MAX, 1ull << 63, 1ull << 32, CAPKM_SCOPE_FAST, 0x7fffffff,
		4096, CAPKM_SEQUENCE_STEP, CAPKM_STREAM_FIRST, CAPKM_REF(0), CAPKM_REF(1),
		CAPKM_FAST_BUFFER_MAX, CAPKM_MAP_TABLE, 1ull << 62,
	};

	switch (choose(&f.choices, 8)) {
	case 0:
	case 1:
	case 2:
		return f.ids[choose(&f.choices, IDS)];
	case 3:
		return special[choose(&f.choices, ARRAY_SIZE(special))];
	case 4:
		return MEMORY + choose(&f.choices, MEMORY_BYTES + 64);
	case 5:
		return choose(&f.choices, 1ull << 32) << 32 | choose(&f.choices, 1ull << 32);
	default:
		return byte();
	}
}

/* Bytes of an array: ids and ranges more often than anything. */
static void fill(u64 address, size_t n)
{
	for (size_t i = 0; i + 8 <= n && !choices_are_over(&f.choices); i += 8)
		t_put64(f.memory + (address - MEMORY), i, pick(3) ? any_value() :
			i % 24 ? byte() : f.ids[choose(&f.choices, IDS)]);
}

static void make_arrays(const struct t_op *op, unsigned char *arg, u64 room)
{
	for (size_t i = 0; i < T_LEN(op->arrays) && op->arrays[i].elem; i++) {
		const struct t_array *a = &op->arrays[i];
		const unsigned int len = choose(&f.choices, 6);
		const size_t bytes = len * a->elem;

		if (!len || room + bytes > MEMORY + MEMORY_BYTES)
			continue;
		t_put64(arg, a->ptr, room);
		t_put32(arg, a->len, len);
		if (!a->out)
			fill(room, bytes);
		room += (bytes + 7) & ~7ull;
	}
}

/* Members that the kernel reads, some of them; then anything anywhere, now and then. */
static void make_members(const struct t_op *op, unsigned int nr, unsigned char *arg)
{
	for (unsigned int i = 8; i < op->size; i += 8) {
		bool is_array = false;

		for (size_t j = 0; j < T_LEN(op->arrays) && op->arrays[j].elem; j++)
			is_array |= op->arrays[j].ptr == i ||
				    (op->arrays[j].len & ~7u) == i;
		if (is_array || t_bytes[nr][i] != T_INPUT)
			continue;
		switch (choose(&f.choices, 4)) {
		case 0:
			t_put64(arg, i, any_value());
			break;
		case 1:
			t_put64(arg, i, f.ids[choose(&f.choices, IDS)]);
			break;
		case 2:
			t_put32(arg, i, choose(&f.choices, 16));
			break;
		}
	}
	for (int n = choose(&f.choices, 8); n > 5; n--)
		arg[choose(&f.choices, op->size)] = byte();
}

static u32 make_struct(unsigned int nr, u64 address)
{
	const struct t_op *op = &t_ops[nr];
	unsigned char *arg = f.memory + (address - MEMORY);
	u32 size = op->size;

	memset(arg, 0, op->size + 64);
	if (pick(16))
		size = choose(&f.choices, 65536);
	else if (pick(16))
		size += choose(&f.choices, 64);
	t_put32(arg, 4, byte() & op->known_flags);
	if (pick(32))
		t_put32(arg, 4, any_value());
	make_arrays(op, arg, address + 1024);
	make_members(op, nr, arg);
	t_put32(arg, 0, size);
	return size;
}

static void make_elements(u64 address)
{
	struct capkm_element *e = (void *)(f.memory + 0x1000);
	const unsigned int n = choose(&f.choices, 5);

	for (unsigned int i = 0; i < n; i++) {
		const unsigned int nr = choose(&f.choices, T_OPS + 1);
		const u64 arg = MEMORY + 0x2000 + 0x1000 * i;

		e[i] = (struct capkm_element){ .nr = nr, .arg_uptr = arg };
		if (nr < T_OPS && t_ops[nr].name)
			make_struct(nr, arg);
	}
	t_put64(f.memory + (address - MEMORY), offsetof(struct capkm_submit, elements_uptr),
		MEMORY + 0x1000);
	t_put32(f.memory + (address - MEMORY), offsetof(struct capkm_submit, elements_len), n);
}

/* ---- what is done */

static void learn(const struct t_op *op, const unsigned char *arg)
{
	for (size_t i = 0; i < T_LEN(op->outs) && op->outs[i].size; i++)
		if (op->outs[i].size == 8 && t_get64(arg, op->outs[i].at))
			f.ids[f.last++ % IDS] = t_get64(arg, op->outs[i].at);
}

/* Of the caller's own making: then it cannot be told what wrote to the struct. */
static bool arrays_lie_in_it(void)
{
	for (size_t i = 0; i < T_LEN(now.op->arrays) && now.op->arrays[i].elem; i++) {
		const struct t_array *a = &now.op->arrays[i];
		const u64 start = t_get64(now.seen, a->ptr);
		const u64 bytes = (u64)t_get32(now.seen, a->len) * a->elem;

		if (a->out && start < now.at + now.op->size && now.at < start + bytes)
			return true;
	}
	return false;
}

/* The rules of every call, as t_call() has them. */
static void check_struct(unsigned int nr, const unsigned char *before,
			 const unsigned char *arg, int rc)
{
	for (unsigned int i = 0; i < now.op->size; i++) {
		if (arg[i] == before[i] || t_bytes[nr][i] == T_ALWAYS)
			continue;
		if (t_bytes[nr][i] != T_OUTPUT)
			wrong("an input was written to");
		if (rc)
			wrong("an output was written to, and the call failed");
	}
}

static void do_call(int s, int process)
{
	static unsigned char before[T_ARG_MAX];
	const struct capkm_caller who = caller(process);
	const unsigned int nr = choose(&f.choices, T_OPS + 1);
	const bool known = nr < T_OPS && t_ops[nr].name;
	const u64 address = pick(32) ? any_value() : MEMORY;
	unsigned char *arg = NULL;
	int rc;

	memset(&now, 0, sizeof(now));
	if (known)
		make_struct(nr, MEMORY);
	if (nr == CAPKM_NR_SUBMIT)
		make_elements(MEMORY);
	if (known)
		now.op = &t_ops[nr];
	now.at = address;
	now.submit = nr == CAPKM_NR_SUBMIT;
	now.changing = pick(8);
	now.refuse = pick(16) ? 1 + choose(&f.choices, 8) : 0;
	if (known && is_in(address, now.op->size, MEMORY, MEMORY_BYTES)) {
		arg = f.memory + (address - MEMORY);
		/* Nobody waits here. */
		memset(arg + now.op->rest.at, 0, now.op->rest.size);
		memcpy(before, arg, now.op->size);
	}
	rc = capkm_call(f.session[s], nr, address, &copier, &who);
	if (rc > 0)
		wrong("a result that is no errno");
	if (!known && rc != -ENOTTY)
		wrong("an operation that there is not");
	if (!arg)
		return;
	if (!now.changing && !now.submit && now.was_seen && !arrays_lie_in_it())
		check_struct(nr, before, arg, rc);
	if (!rc)
		learn(now.op, arg);
}

static void garbage(int s)
{
	struct host_region *r = capkm_session_region(f.session[s], CAPKM_MAP_TABLE);
	const size_t where = choose(&f.choices, 3) ?
			     choose(&f.choices, 4 * sizeof(struct capkm_table_entry)) :
			     choose(&f.choices, 2) ?
			     CAPKM_TABLE_BUFFERS + choose(&f.choices, 4096) :
			     CAPKM_TABLE_SLOTS + choose(&f.choices, 256);
	char *p;

	if (!r || !host_region_fill(r, where & ~7ull))
		return;
	p = host_region_at(r, where & ~7ull);
	if (pick(2))
		memset(p, byte(), 1 + choose(&f.choices, 7));
	else
		t_put64(p, 0, any_value());
}

static int count_record(void *ctx, u64 domain, const void *record)
{
	if (domain)
		*(u64 *)ctx = domain;
	return 0;
}

/* All dumps, of all domains. Returns the last domain that there is. */
static u64 dump(int process)
{
	const struct capkm_caller who = caller(process);
	u64 last = 0;

	for (int what = CAPKM_DUMP_DOMAINS; what <= CAPKM_DUMP_USERS; what++) {
		struct capkm_dump_query q = { .what = what };
		struct capkm_cursor cursor = { 0 };

		if (what == CAPKM_DUMP_TAINT || what == CAPKM_DUMP_CARRIERS) {
			q.domain = last;
			q.object = f.ids[what % IDS];
		}
		capkm_dump(&q, &who, &cursor, count_record, &last);
	}
	return last;
}

static void do_event(int s, int process)
{
	const struct capkm_caller who = caller(process);
	struct capkm_event e;

	if (capkm_event_next(f.session[s], &who, false, &e) == 1)
		capkm_event_taken(f.session[s], &e);
	capkm_session_poll(f.session[s]);
}

static void operate(void)
{
	const unsigned int what = byte();
	const int s = what % SESSIONS;
	const int process = pick(4) ? (int)choose(&f.choices, PROCESSES) : f.owner[s];

	switch (what / SESSIONS) {
	case 0:
		capkm_session_release(f.session[s]);
		open_session(s);
		return;
	case 1:
		capkm_client_end(f.session[s], f.proc[process], pick(2) ? f.proc[process] : NULL);
		return;
	case 2:
	case 3:
		garbage(s);
		return;
	case 4:
		do_event(s, process);
		return;
	case 5:
		dump(process);
		return;
	case 6:
		if (pick(4))
			capkm_test_fail_alloc(1 + choose(&f.choices, 32));
		return;
	default:
		do_call(s, process);
	}
}

static void end(void)
{
	const struct capkm_caller root = caller(0);
	u64 domain;

	capkm_test_fail_alloc(0);
	memset(&now, 0, sizeof(now));
	for (int s = 0; s < SESSIONS; s++)
		capkm_session_release(f.session[s]);
	/* Those that linger, and those that are there without a session. */
	while ((domain = dump(0)))
		if (capkm_domain_del(domain, true, &root))
			wrong("a domain cannot be destroyed");
	capkm_engine_reap();
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	f.memory = calloc(1, MEMORY_BYTES);
	for (int i = 0; i < PROCESSES; i++)
		f.proc[i] = host_proc_new(100 + i);
	return !f.memory || capkm_engine_init();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const u64 live = capkm_test_alloc_live();

	f.choices.at = data;
	f.choices.end = data + size;
	if (!size)
		return -1;
	memset(f.memory, 0, MEMORY_BYTES);
	memset(f.ids, 0, sizeof(f.ids));
	f.last = 0;
	for (int s = 0; s < SESSIONS; s++)
		open_session(s);
	while (!choices_are_over(&f.choices))
		operate();
	end();
	if (capkm_test_alloc_live() != live)
		wrong("allocations are left");
	if (capkm_test_check_count())
		wrong("the engine found itself in an impossible state");
	return 0;
}
