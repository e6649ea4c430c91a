/* SPDX-License-Identifier: GPL-2.0-only */
/* Structs of any call, well made or not: for programs that look for what harms. */
#ifndef ANY_CALL_H
#define ANY_CALL_H

#include "abi_table.h"
#include "choices.h"

#define ANY_IDS		16		/* that were given last */
#define ANY_BYTES	0x8000u		/* of the memory in which calls are made */

/* @base: address of @memory, as the other side is told. */
struct any {
	struct choices choices;
	uint64_t ids[ANY_IDS];
	unsigned int last;
	unsigned char *memory;
	uint64_t base;
};

static bool any_pick(struct any *a, unsigned int one_of)
{
	return !choose(&a->choices, one_of);
}

static unsigned int any_byte(struct any *a)
{
	return choose(&a->choices, 256);
}

static uint64_t any_id(struct any *a)
{
	return a->ids[choose(&a->choices, ANY_IDS)];
}

static uint64_t any_value(struct any *a)
{
	static const uint64_t special[] = {
		0, 1, UINT64_MAX, UINT32_MAX, 1ull << 63, 1ull << 32, CAPKM_SCOPE_FAST,
		0x7fffffff, 4096, CAPKM_SEQUENCE_STEP, CAPKM_STREAM_FIRST, CAPKM_REF(0),
		CAPKM_REF(1), CAPKM_FAST_BUFFER_MAX, CAPKM_MAP_TABLE, 1ull << 62,
	};
	uint64_t high;

	switch (choose(&a->choices, 8)) {
	case 0:
	case 1:
	case 2:
		return any_id(a);
	case 3:
		return special[choose(&a->choices, T_LEN(special))];
	case 4:
		return a->base + choose(&a->choices, ANY_BYTES + 64);
	case 5:
		high = choose(&a->choices, 1ull << 32) << 32;
		return high | choose(&a->choices, 1ull << 32);
	default:
		return any_byte(a);
	}
}

/* Bytes of an array: ids and ranges more often than anything. */
static void any_fill(struct any *a, unsigned int at, size_t n)
{
	for (size_t i = 0; i + 8 <= n && !choices_are_over(&a->choices); i += 8)
		t_put64(a->memory + at, i, any_pick(a, 3) ? any_value(a) :
			i % 24 ? any_byte(a) : any_id(a));
}

static void any_arrays(struct any *a, const struct t_op *op, unsigned char *arg,
		       unsigned int room)
{
	for (size_t i = 0; i < T_LEN(op->arrays) && op->arrays[i].elem; i++) {
		const struct t_array *array = &op->arrays[i];
		const unsigned int len = choose(&a->choices, 6);
		const size_t bytes = len * array->elem;

		if (!len || room + bytes > ANY_BYTES)
			continue;
		t_put64(arg, array->ptr, a->base + room);
		t_put32(arg, array->len, len);
		if (!array->out)
			any_fill(a, room, bytes);
		room += (bytes + 7) & ~7u;
	}
}

static bool any_is_array(const struct t_op *op, unsigned int at)
{
	for (size_t i = 0; i < T_LEN(op->arrays) && op->arrays[i].elem; i++)
		if (op->arrays[i].ptr == at || (op->arrays[i].len & ~7u) == at)
			return true;
	return false;
}

/* Members that the kernel reads, some of them; then anything anywhere, now and then. */
static void any_members(struct any *a, unsigned int nr, unsigned char *arg)
{
	const struct t_op *op = &t_ops[nr];

	for (unsigned int i = 8; i < op->size; i += 8) {
		if (any_is_array(op, i) || t_bytes[nr][i] != T_INPUT)
			continue;
		switch (choose(&a->choices, 4)) {
		case 0:
			t_put64(arg, i, any_value(a));
			break;
		case 1:
			t_put64(arg, i, any_id(a));
			break;
		case 2:
			t_put32(arg, i, choose(&a->choices, 16));
			break;
		}
	}
	for (int n = choose(&a->choices, 8); n > 5; n--)
		arg[choose(&a->choices, op->size)] = any_byte(a);
}

/* Of operation @nr, at @at of the memory; its arrays behind it. */
static void any_struct(struct any *a, unsigned int nr, unsigned int at)
{
	const struct t_op *op = &t_ops[nr];
	unsigned char *arg = a->memory + at;
	uint32_t size = op->size;

	memset(arg, 0, op->size + 64);
	if (any_pick(a, 16))
		size = choose(&a->choices, 65536);
	else if (any_pick(a, 16))
		size += choose(&a->choices, 64);
	t_put32(arg, 4, any_byte(a) & op->known_flags);
	if (any_pick(a, 32))
		t_put32(arg, 4, any_value(a));
	any_arrays(a, op, arg, at + 1024);
	any_members(a, nr, arg);
	t_put32(arg, 0, size);
}

/* For a SUBMIT at the beginning of the memory. */
static void any_elements(struct any *a)
{
	struct capkm_element *e = (void *)(a->memory + 0x1000);
	const unsigned int n = choose(&a->choices, 5);

	for (unsigned int i = 0; i < n; i++) {
		const unsigned int nr = choose(&a->choices, T_OPS + 1), at = 0x2000 + 0x1000 * i;

		e[i] = (struct capkm_element){ .nr = nr, .arg_uptr = a->base + at };
		if (nr < T_OPS && t_ops[nr].name)
			any_struct(a, nr, at);
	}
	t_put64(a->memory, offsetof(struct capkm_submit, elements_uptr), a->base + 0x1000);
	t_put32(a->memory, offsetof(struct capkm_submit, elements_len), n);
}

/* A number, at most one too high, and its struct at the beginning of the memory. */
static unsigned int any_call(struct any *a)
{
	const unsigned int nr = choose(&a->choices, T_OPS + 1);

	if (nr < T_OPS && t_ops[nr].name)
		any_struct(a, nr, 0);
	if (nr == CAPKM_NR_SUBMIT)
		any_elements(a);
	return nr;
}

/* Ids that were answered. */
static void any_learn(struct any *a, const struct t_op *op, const unsigned char *arg)
{
	for (size_t i = 0; i < T_LEN(op->outs) && op->outs[i].size; i++)
		if (op->outs[i].size == 8 && t_get64(arg, op->outs[i].at))
			a->ids[a->last++ % ANY_IDS] = t_get64(arg, op->outs[i].at);
}

#endif /* ANY_CALL_H */
