// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"

#include <inttypes.h>
#include <string.h>

static int check(struct capkm *c, struct capkm_check *arg,
		 const struct capkm_claim *claims, uint32_t len,
		 struct capkm_error *err)
{
	const struct claims named = { claims, len, NULL, 0, "claims" };
	int rc;

	arg->size = sizeof(*arg);
	arg->claims_uptr = uptr(claims);
	arg->claims_len = len;
	arg->out_error_index = CAPKM_NO_INDEX;
	rc = capkm_call(c, CAPKM_NR_CHECK, arg);
	return rc ? capkm_refuse_claims(c, err, CAPKM_NR_CHECK, rc, arg,
					arg->out_error_index, &named) : 0;
}

static int check_answer(struct capkm *c, struct capkm_check *arg,
			const struct capkm_claim *claims, uint32_t len,
			struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_answer a;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_CHECK, err);

	if (rc)
		return rc;
	arg->reports_uptr = uptr(a.reports);
	arg->reports_len = a.reports_len;
	rc = check(c, arg, claims, len, err);
	if (rc)
		return rc;
	a.out_reports = arg->out_reports;
	a.out_result = arg->out_result;
	a.out_unconfirmed = arg->out_unconfirmed;
	a.out_sequence = arg->out_sequence;
	capkm_answer_put(answer, &a);
	return 0;
}

int capkm_check_ask(struct capkm *c, const struct capkm_claim *claims, uint32_t len,
		    struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_check arg = { 0 };

	return check_answer(c, &arg, claims, len, answer, err);
}

int capkm_check_unchanged(struct capkm *c, const struct capkm_claim *claims,
			  uint32_t len, uint64_t since,
			  struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_check arg = {
		.flags = CAPKM_CHECK_F_UNCHANGED,
		.since = since,
	};

	return check_answer(c, &arg, claims, len, answer, err);
}

int capkm_check_with(struct capkm *c, const struct capkm_claim *claims,
		     uint32_t len, const struct capkm_check_opts *opts,
		     struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_check_opts o;
	int rc = capkm_opts(&o, sizeof(o), opts, "check", err);
	struct capkm_check arg = { .flags = o.flags, .since = o.since };

	if (!rc && o.__reserved)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
				     "check: a reserved member is not 0");
	return rc ? rc : check_answer(c, &arg, claims, len, answer, err);
}

struct reading {
	struct capkm *c;
	const struct capkm_claim *claim;
	struct capkm_report *report;
	uint32_t flags;			/* CAPKM_CHECK_F_CONFIRMED or 0 */
	uint64_t sequence;		/* of the last check */
	bool changed;			/* why it has to be tried again */
};

/* 0 clean, 1 try again, or what capkm_read() returns. */
static int read_check(struct reading *r, uint32_t flags,
		      struct capkm_error *err)
{
	struct capkm_check arg = {
		.flags = r->flags | flags,
		.reports_len = 1,
		.reports_uptr = uptr(r->report),
		.since = flags ? r->sequence : 0,
	};
	char text[480];
	struct text t = { .data = text, .size = sizeof(text) };
	int rc = check(r->c, &arg, r->claim, 1, err);

	if (rc)
		return rc;
	r->sequence = arg.out_sequence;
	r->changed = arg.out_result == CAPKM_CHANGED;
	if (arg.out_result == CAPKM_CLEAN)
		return 0;
	if (r->changed || arg.out_result == CAPKM_PENDING ||
	    r->report->kind == CAPKM_KIND_IN_PROGRESS)
		return 1;
	capkm_report_add(&t, r->report);
	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX,
			       r->report->failure, "read: %s", text);
}

static int read_copy(const struct reading *r, void *dst, const void *src,
		     const struct capkm_read_opts *o, struct capkm_error *err)
{
	int rc;

	if (!o->copy) {
		memcpy(dst, src, r->claim->end - r->claim->start);
		return 0;
	}
	rc = o->copy(o->context, dst, src, r->claim);
	if (rc >= 0)
		return 0;
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"read: buffer %" PRIu64 ": the caller's copy gave %d (%s)",
		(uint64_t)r->claim->buffer, rc, strerror(-rc));
}

static int read_late(const struct reading *r, uint32_t ms,
		     struct capkm_error *err)
{
	char text[400];
	struct text t = { .data = text, .size = sizeof(text) };

	if (r->changed) {
		/* The check found nothing to report. */
		*r->report = (struct capkm_report){
			.kind = CAPKM_KIND_IN_PROGRESS,
			.buffer = r->claim->buffer,
			.start = r->claim->start,
			.end = r->claim->end,
		};
		capkm_text_add(&t, "buffer %" PRIu64
			       " was changed during each copy",
			       (uint64_t)r->claim->buffer);
	} else {
		capkm_report_add(&t, r->report);
	}
	return capkm_error_set(err, -EAGAIN, CAPKM_NO_INDEX, 0,
			       "read: after %" PRIu32 " ms: %s", ms, text);
}

int capkm_read(struct capkm *c, const struct capkm_claim *claim, void *dst,
	       const void *src, const struct capkm_read_opts *opts,
	       struct capkm_error *err)
{
	struct capkm_report own;
	struct reading r = { .c = c, .claim = claim };
	struct capkm_read_opts o;
	struct retry retry;
	int rc = capkm_opts(&o, sizeof(o), opts, "read", err);

	if (!rc && o.flags & ~CAPKM_READ_OPTS_CONFIRMED)
		rc = capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"read: flags has bits other than CAPKM_READ_OPTS_CONFIRMED");
	if (rc)
		return rc;
	if (o.flags & CAPKM_READ_OPTS_CONFIRMED)
		r.flags = CAPKM_CHECK_F_CONFIRMED;
	r.report = o.report ? o.report : &own;
	capkm_retry_init(&retry, c, o.retry_ms);
	do {
		rc = read_check(&r, 0, err);
		if (!rc)
			rc = read_copy(&r, dst, src, &o, err);
		if (!rc)
			rc = read_check(&r, CAPKM_CHECK_F_UNCHANGED, err);
		if (rc <= 0)
			return rc;
	} while (capkm_retry_wait(&retry));
	return read_late(&r, retry.ms, err);
}

static int taint(struct capkm *c, struct capkm_taint *arg,
		 const struct capkm_claim *claims, uint32_t len,
		 uint64_t stream, struct capkm_error *err)
{
	const struct claims named = { claims, len, NULL, 0, "claims" };
	int rc;

	arg->size = sizeof(*arg);
	arg->claims_uptr = uptr(claims);
	arg->claims_len = len;
	arg->stream = stream ? stream : capkm_stream_current();
	arg->out_error_index = CAPKM_NO_INDEX;
	rc = capkm_call(c, CAPKM_NR_TAINT, arg);
	if (rc && arg->failure && arg->out_error_index == CAPKM_NO_INDEX)
		return capkm_refuse(c, err, CAPKM_NR_TAINT, rc, arg,
				    "failure %" PRIu64, (uint64_t)arg->failure);
	return rc ? capkm_refuse_claims(c, err, CAPKM_NR_TAINT, rc, arg,
					arg->out_error_index, &named) : 0;
}

int capkm_taint(struct capkm *c, const struct capkm_claim *claims,
		uint32_t len, uint64_t stream, const struct capkm_cause *cause,
		uint64_t *failure, struct capkm_error *err)
{
	struct capkm_taint arg = { 0 };
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, CAPKM_NR_TAINT, err);

	if (rc)
		return rc;
	arg.kind = k.kind ? k.kind : CAPKM_KIND_GENERIC;
	arg.code = k.code;
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	rc = taint(c, &arg, claims, len, stream, err);
	if (!rc && failure)
		*failure = arg.out_failure;
	return rc;
}

int capkm_taint_with(struct capkm *c, const struct capkm_claim *claims,
		     uint32_t len, uint64_t stream, uint64_t failure,
		     struct capkm_error *err)
{
	struct capkm_taint arg = { .failure = failure };

	if (!failure)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"taint: 0 is no failure; capkm_taint() makes one");
	return taint(c, &arg, claims, len, stream, err);
}

int capkm_written(struct capkm *c, const struct capkm_claim *claims,
		  uint32_t len, struct capkm_error *err)
{
	const struct claims named = { claims, len, NULL, 0, "claims" };
	struct capkm_written arg = {
		.size = sizeof(arg),
		.claims_uptr = uptr(claims),
		.claims_len = len,
		.out_error_index = CAPKM_NO_INDEX,
	};
	int rc = capkm_call(c, CAPKM_NR_WRITTEN, &arg);

	return rc ? capkm_refuse_claims(c, err, CAPKM_NR_WRITTEN, rc, &arg,
					arg.out_error_index, &named) : 0;
}
