// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"

#include <inttypes.h>

HERE uint64_t capkm_stream_own, capkm_stream_pinned;

/* 1 to CAPKM_STREAM_FIRST - 1; comes round after as many threads. */
static uint64_t next_own(void)
{
	static _Atomic uint64_t threads;

	return 1 + threads++ % (CAPKM_STREAM_FIRST - 1);
}

uint64_t capkm_stream_current(void)
{
	if (capkm_stream_pinned)
		return capkm_stream_pinned;
	if (!capkm_stream_own)
		capkm_stream_own = next_own();
	return capkm_stream_own;
}

uint64_t capkm_stream_pin(uint64_t stream)
{
	const uint64_t before = capkm_stream_pinned;

	capkm_stream_pinned = stream;
	return before;
}

void capkm_stream_unpin(void)
{
	capkm_stream_pinned = 0;
}

int capkm_stream_create(struct capkm *c, const char *label, uint64_t *stream,
			struct capkm_error *err)
{
	struct capkm_stream_create arg = {
		.size = sizeof(arg),
		.label_uptr = uptr(label),
		.label_len = capkm_cut(label, CAPKM_LABEL_MAX),
	};
	int rc = capkm_do(c, CAPKM_NR_STREAM_CREATE, &arg, err, "%s", "");

	if (!rc)
		*stream = arg.out_stream;
	return rc;
}

int capkm_stream_destroy(struct capkm *c, uint64_t stream, uint32_t *windows,
			 struct capkm_error *err)
{
	struct capkm_stream_destroy arg = {
		.size = sizeof(arg),
		.stream = stream ? stream : capkm_stream_current(),
	};
	int rc = capkm_do(c, CAPKM_NR_STREAM_DESTROY, &arg, err,
			  "stream %" PRIu64, (uint64_t)arg.stream);

	if (!rc && windows)
		*windows = arg.out_windows;
	return rc;
}

int capkm_stream_query(struct capkm *c, struct capkm_stream_query *query,
		       struct capkm_error *err)
{
	if (!query->place.stream)
		query->place.stream = capkm_stream_current();
	return capkm_do(c, CAPKM_NR_STREAM_QUERY, query, err,
			"stream %" PRIu64, (uint64_t)query->place.stream);
}

int capkm_is_recording(struct capkm *c, const struct capkm_where *where,
		       struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_STREAM_QUERY;
	struct capkm_stream_query arg = { .size = sizeof(arg) };
	uint32_t state;
	int rc;

	if (!capkm_fast_state(c, where, &state)) {
		rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
		if (!rc)
			rc = capkm_do(c, nr, &arg, err, "stream %" PRIu64,
				      (uint64_t)arg.place.stream);
		if (rc)
			return rc;
		state = arg.out_state;
	}
	return state == CAPKM_WINDOW_OPENING || state == CAPKM_WINDOW_CAPTURE ||
	       state == CAPKM_WINDOW_MEMBER;
}
