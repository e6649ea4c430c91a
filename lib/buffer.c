// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"

#include <inttypes.h>
#include <string.h>

int capkm_buffer_create(struct capkm *c, uint64_t bytes,
			const struct capkm_buffer_opts *opts, uint64_t *buffer,
			struct capkm_error *err)
{
	struct capkm_buffer_create arg = { .size = sizeof(arg), .bytes = bytes };
	struct capkm_buffer_opts o;
	int rc = capkm_opts(&o, sizeof(o), opts, "buffer_create", err);

	if (rc)
		return rc;
	if (capkm_fast_open(c))
		return capkm_no_memory("buffer_create", err);
	arg.flags = o.flags;
	memcpy(arg.device, o.device, sizeof(arg.device));
	arg.address = o.address;
	arg.label_uptr = uptr(o.label);
	arg.label_len = capkm_cut(o.label, CAPKM_LABEL_MAX);
	rc = capkm_do(c, CAPKM_NR_BUFFER_CREATE, &arg, err,
		      "%" PRIu64 " bytes", bytes);
	if (!rc)
		*buffer = arg.out_buffer;
	return rc;
}

int capkm_buffer_export(struct capkm *c, uint64_t buffer,
			struct capkm_error *err)
{
	struct capkm_buffer_export arg = {
		.size = sizeof(arg),
		.buffer = buffer,
	};

	return capkm_do(c, CAPKM_NR_BUFFER_EXPORT, &arg, err,
			"buffer %" PRIu64, buffer);
}

int capkm_buffer_open(struct capkm *c, uint64_t buffer, uint64_t *bytes,
		      struct capkm_error *err)
{
	struct capkm_buffer_open arg = { .size = sizeof(arg), .buffer = buffer };
	int rc = capkm_do(c, CAPKM_NR_BUFFER_OPEN, &arg, err,
			  "buffer %" PRIu64, buffer);

	if (!rc && bytes)
		*bytes = arg.out_bytes;
	return rc;
}

int capkm_buffer_close(struct capkm *c, uint64_t buffer,
		       struct capkm_error *err)
{
	struct capkm_buffer_close arg = {
		.size = sizeof(arg),
		.buffer = buffer,
	};

	return capkm_do(c, CAPKM_NR_BUFFER_CLOSE, &arg, err,
			"buffer %" PRIu64, buffer);
}

int capkm_buffer_reset(struct capkm *c, uint64_t buffer, uint64_t start,
		       uint64_t end, struct capkm_error *err)
{
	struct capkm_buffer_reset arg = {
		.size = sizeof(arg),
		.claim = { .buffer = buffer, .start = start, .end = end },
	};

	return capkm_do(c, CAPKM_NR_BUFFER_RESET, &arg, err,
			"buffer %" PRIu64 " [%" PRIu64 ", %" PRIu64 ")",
			buffer, start, end);
}

int capkm_buffer_query(struct capkm *c, struct capkm_buffer_query *query,
		       struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_BUFFER_QUERY, query, err,
			"buffer %" PRIu64, (uint64_t)query->buffer);
}
