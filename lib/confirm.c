// SPDX-License-Identifier: MIT
/* What a device has finished, and what is lost with it. */
#include "internal.h"

#include <inttypes.h>
#include <string.h>

int capkm_stream_sequence(struct capkm *c, const struct capkm_where *where,
			  uint64_t *sequence, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_STREAM_QUERY;
	struct capkm_stream_query arg = { .size = sizeof(arg) };
	int rc = capkm_place(&arg.place, &arg.flags, where, nr, err);

	if (!rc)
		rc = capkm_do(c, nr, &arg, err, "stream %" PRIu64,
			      (uint64_t)arg.place.stream);
	if (!rc)
		*sequence = arg.out_sequence;
	return rc;
}

int capkm_sequence(struct capkm *c, uint64_t *sequence,
		   struct capkm_error *err)
{
	struct capkm_domain_query arg = { .size = sizeof(arg) };
	int rc = capkm_domain_query(c, &arg, err);

	if (!rc)
		*sequence = arg.out_sequence;
	return rc;
}

static int confirm(struct capkm *c, uint64_t client,
		   const struct capkm_where *where, uint32_t flags,
		   uint64_t sequence, uint64_t *left, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_STREAM_CONFIRM;
	struct capkm_stream_confirm arg = {
		.size = sizeof(arg),
		.flags = flags,
		.sequence = sequence,
		.client = client,
	};
	int rc = capkm_place(&arg.place, &arg.flags, where, nr, err);

	if (!rc && client)
		rc = capkm_do(c, nr, &arg, err,
			      "slot %" PRIu32 " of client %" PRIu64 " up to %" PRIu64,
			      arg.place.slot, client, sequence);
	else if (!rc)
		rc = capkm_do(c, nr, &arg, err,
			      "stream %" PRIu64 " up to %" PRIu64,
			      (uint64_t)arg.place.stream, sequence);
	if (!rc && left)
		*left = arg.out_unconfirmed;
	return rc;
}

int capkm_confirm(struct capkm *c, const struct capkm_where *where,
		  uint64_t sequence, uint64_t *left, struct capkm_error *err)
{
	return confirm(c, 0, where, 0, sequence, left, err);
}

int capkm_confirm_other(struct capkm *c, uint64_t client,
			const struct capkm_where *where, uint64_t sequence,
			uint64_t *left, struct capkm_error *err)
{
	return confirm(c, client, where, 0, sequence, left, err);
}

int capkm_confirm_device(struct capkm *c, const uint8_t device[16],
			 uint64_t sequence, uint64_t *left,
			 struct capkm_error *err)
{
	struct capkm_where where = { 0 };

	memcpy(where.device, device, sizeof(where.device));
	return confirm(c, 0, &where, CAPKM_STREAM_CONFIRM_F_DEVICE, sequence,
		       left, err);
}

int capkm_stream_fault(struct capkm *c, const struct capkm_where *where,
		       const struct capkm_cause *cause, uint64_t *failure,
		       uint64_t *epoch, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_STREAM_FAULT;
	struct capkm_stream_fault arg = { .size = sizeof(arg) };
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, nr, err);

	if (!rc)
		rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
	if (rc)
		return rc;
	arg.code = k.code;
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	rc = capkm_do(c, nr, &arg, err, "stream %" PRIu64,
		      (uint64_t)arg.place.stream);
	if (!rc && failure)
		*failure = arg.out_failure;
	if (!rc && epoch)
		*epoch = arg.out_epoch;
	return rc;
}

int capkm_context_renew(struct capkm *c, const uint8_t device[16],
			uint64_t *epoch, struct capkm_error *err)
{
	struct capkm_context_renew arg = { .size = sizeof(arg) };
	int rc;

	memcpy(arg.device, device, sizeof(arg.device));
	rc = capkm_do(c, CAPKM_NR_CONTEXT_RENEW, &arg, err, "%s", "");
	if (!rc && epoch)
		*epoch = arg.out_epoch;
	return rc;
}

int capkm_device_fault(struct capkm *c, const uint8_t device[16],
		       const struct capkm_cause *cause, uint32_t *clients,
		       struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_DEVICE_FAULT;
	struct capkm_device_fault arg = { .size = sizeof(arg) };
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, nr, err);

	if (rc)
		return rc;
	memcpy(arg.device, device, sizeof(arg.device));
	arg.code = k.code;
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	rc = capkm_do(c, nr, &arg, err, "%s", "");
	if ((!rc || rc == -ENOMEM) && clients)
		*clients = arg.out_clients;
	return rc;
}

int capkm_stream_flush(struct capkm *c, struct capkm_stream_flush *flush,
		       struct capkm_error *err)
{
	if (!flush->place.stream)
		flush->place.stream = capkm_stream_current();
	return capkm_do(c, CAPKM_NR_STREAM_FLUSH, flush, err,
			"stream %" PRIu64, (uint64_t)flush->place.stream);
}
