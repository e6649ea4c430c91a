// SPDX-License-Identifier: MIT
#include "internal.h"

#include <string.h>

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
