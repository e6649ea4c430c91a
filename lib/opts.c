// SPDX-License-Identifier: MIT
#include "internal.h"

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

int capkm_cause(struct capkm_cause *known, const struct capkm_cause *given,
		unsigned int nr, struct capkm_error *err)
{
	return capkm_opts(known, sizeof(*known), given, capkm_op_name(nr), err);
}

int capkm_answer_get(struct capkm_answer *known,
		     const struct capkm_answer *given, unsigned int nr,
		     struct capkm_error *err)
{
	return capkm_opts(known, sizeof(*known), given, capkm_op_name(nr), err);
}

void capkm_answer_put(struct capkm_answer *given,
		      const struct capkm_answer *known)
{
	if (given)
		capkm_opts_put(given, known, sizeof(*known));
}

int capkm_place(struct capkm_place *place, uint32_t *flags,
		const struct capkm_where *where, unsigned int nr,
		struct capkm_error *err)
{
	static const struct capkm_where here;

	if (!where)
		where = &here;
	if (where->flags & ~CAPKM_WHERE_SLOT)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: where.flags 0x%x has bits other than CAPKM_WHERE_SLOT",
			capkm_op_name(nr), where->flags);
	memset(place, 0, sizeof(*place));
	place->stream = where->stream ? where->stream : capkm_stream_current();
	memcpy(place->device, where->device, sizeof(place->device));
	place->slot = where->slot;
	if (where->flags & CAPKM_WHERE_SLOT)
		*flags |= CAPKM_PLACE_F_SLOT;
	return 0;
}
