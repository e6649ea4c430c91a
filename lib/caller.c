// SPDX-License-Identifier: MIT
/*
 * Structs and texts of the caller: options in, errors out. Knows no state, so each
 * library that is made here has it.
 */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool all_zero(const unsigned char *p, size_t n)
{
	while (n--)
		if (*p++)
			return false;
	return true;
}

int capkm_opts(void *known, size_t size, const void *given, const char *call,
	       struct capkm_error *err)
{
	size_t sz;

	memset(known, 0, size);
	if (!given)
		return 0;
	memcpy(&sz, given, sizeof(sz));
	if (sz < sizeof(sz))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: a struct's sz is %zu; initialise it with CAPKM_OPTS()",
			call, sz);
	if (sz > size && !all_zero((const unsigned char *)given + size, sz - size))
		return capkm_error_set(err, -E2BIG, CAPKM_NO_INDEX, 0,
			"%s: a struct of %zu bytes sets members that libcapkm %s, which knows %zu, does not have; update libcapkm",
			call, sz, capkm_version(), size);
	memcpy(known, given, sz < size ? sz : size);
	return 0;
}

void capkm_opts_put(void *given, const void *known, size_t size)
{
	const size_t head = sizeof(size_t);
	size_t sz;

	memcpy(&sz, given, head);
	memcpy((char *)given + head, (const char *)known + head,
	       (sz < size ? sz : size) - head);
}

uint32_t capkm_cut(const char *text, uint32_t max)
{
	size_t len = text ? strnlen(text, (size_t)max + 1) : 0;

	if (len <= max)
		return (uint32_t)len;
	len = max;
	while (len && (text[len] & 0xc0) == 0x80)
		len--;
	return (uint32_t)len;
}

/* The caller's struct may be smaller, or larger, than the one known here. */
static void fill(struct capkm_error *err, int rc, uint32_t index,
		 uint64_t failure, const char *format, va_list args)
{
	struct capkm_error known = {
		.sz = err->sz,
		.err = rc,
		.index = index,
		.failure = failure,
	};
	const size_t size = err->sz < sizeof(known) ? err->sz : sizeof(known);

	vsnprintf(known.text, sizeof(known.text), format, args);
	if (size > offsetof(struct capkm_error, text))
		((char *)&known)[size - 1] = '\0';
	memcpy(err, &known, size);
}

int capkm_error_set(struct capkm_error *err, int rc, uint32_t index,
		    uint64_t failure, const char *format, ...)
{
	va_list args;

	if (err) {
		va_start(args, format);
		fill(err, rc, index, failure, format, args);
		va_end(args);
	}
	return rc;
}

int capkm_no_memory(const char *call, struct capkm_error *err)
{
	return capkm_error_set(err, -ENOMEM, CAPKM_NO_INDEX, 0,
			       "%s: out of memory", call);
}

void capkm_error_limit(struct capkm_error *err, uint32_t limit)
{
	if (err && err->sz >= offsetof(struct capkm_error, code))
		err->limit = limit;
}

void capkm_error_code(struct capkm_error *err, int32_t code)
{
	if (err && err->sz >= offsetof(struct capkm_error, text))
		err->code = code;
}
