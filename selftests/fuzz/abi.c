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

#include "../any_call.h"
#include "engine.h"

#include "host_proc.h"
#include "test_hooks.h"

#define SESSIONS	4
#define PROCESSES	3

/* The memory of whoever calls: what is not in it is no memory. */
#define MEMORY		0x10000000ull

static struct any any;

static struct {
	struct host_proc *proc[PROCESSES];
	struct capkm_session *session[SESSIONS];
	int owner[SESSIONS];
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

/* ---- the caller's memory */

static unsigned char *at(u64 address, size_t n)
{
	if (now.refuse && !--now.refuse)
		return NULL;
	if (address < MEMORY || n > ANY_BYTES || address - MEMORY > ANY_BYTES - n)
		return NULL;
	return any.memory + (address - MEMORY);
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
		p[choose(&any.choices, n < 256 ? n : 256)] = any_byte(&any);
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
	const int process = choose(&any.choices, PROCESSES);
	const struct capkm_caller who = caller(process);

	capkm_test_fail_alloc(0);
	if (capkm_session_open(&who, &f.session[s]))
		wrong("a session cannot be opened");
	f.owner[s] = process;
}

/* ---- what is done */

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
	const unsigned int nr = any_call(&any);
	const bool known = nr < T_OPS && t_ops[nr].name;
	const u64 address = any_pick(&any, 32) ? any_value(&any) : MEMORY;
	unsigned char *arg = NULL;
	int rc;

	memset(&now, 0, sizeof(now));
	if (known)
		now.op = &t_ops[nr];
	now.at = address;
	now.submit = nr == CAPKM_NR_SUBMIT;
	now.changing = any_pick(&any, 8);
	now.refuse = any_pick(&any, 16) ? 1 + choose(&any.choices, 8) : 0;
	if (known && is_in(address, now.op->size, MEMORY, ANY_BYTES)) {
		arg = any.memory + (address - MEMORY);
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
		any_learn(&any, now.op, arg);
}

static void garbage(int s)
{
	struct host_region *r = capkm_session_region(f.session[s], CAPKM_MAP_TABLE);
	const size_t where = choose(&any.choices, 3) ?
			     choose(&any.choices, 4 * sizeof(struct capkm_table_entry)) :
			     choose(&any.choices, 2) ?
			     CAPKM_TABLE_BUFFERS + choose(&any.choices, 4096) :
			     CAPKM_TABLE_SLOTS + choose(&any.choices, 256);
	char *p;

	if (!r || !host_region_fill(r, where & ~7ull))
		return;
	p = host_region_at(r, where & ~7ull);
	if (any_pick(&any, 2))
		memset(p, any_byte(&any), 1 + choose(&any.choices, 7));
	else
		t_put64(p, 0, any_value(&any));
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
			q.object = any.ids[what % ANY_IDS];
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
	const unsigned int what = any_byte(&any);
	const int s = what % SESSIONS;
	const int process = any_pick(&any, 4) ? (int)choose(&any.choices, PROCESSES) : f.owner[s];

	switch (what / SESSIONS) {
	case 0:
		capkm_session_release(f.session[s]);
		open_session(s);
		return;
	case 1:
		capkm_client_end(f.session[s], f.proc[process], any_pick(&any, 2) ? f.proc[process] : NULL);
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
		if (any_pick(&any, 4))
			capkm_test_fail_alloc(1 + choose(&any.choices, 32));
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
	any.memory = calloc(1, ANY_BYTES);
	any.base = MEMORY;
	for (int i = 0; i < PROCESSES; i++)
		f.proc[i] = host_proc_new(100 + i);
	return !any.memory || capkm_engine_init();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const u64 live = capkm_test_alloc_live();

	any.choices.at = data;
	any.choices.end = data + size;
	if (!size)
		return -1;
	memset(any.memory, 0, ANY_BYTES);
	memset(any.ids, 0, sizeof(any.ids));
	any.last = 0;
	for (int s = 0; s < SESSIONS; s++)
		open_session(s);
	while (!choices_are_over(&any.choices))
		operate();
	end();
	if (capkm_test_alloc_live() != live)
		wrong("allocations are left");
	if (capkm_test_check_count())
		wrong("the engine found itself in an impossible state");
	return 0;
}
