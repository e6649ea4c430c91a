// SPDX-License-Identifier: MIT
/* Is a step that was read one that can have been written? Its readers trust lengths. */
#include "session.h"

#include <inttypes.h>
#include <math.h>

static int check_tensor(const struct capkm_observe_payload *p, struct fault *f)
{
	uint64_t n;
	int rc = elements(p->shape, p->shape_len, &n, f);

	if (rc || n == p->values.len)
		return rc;
	return fault(f, -EINVAL, "a tensor's shape has %" PRIu64 " elements, its data %" PRIu32,
		     n, p->values.len);
}

static int check_summary(const struct capkm_observe_summary *s, struct fault *f)
{
	const bool absent = isnan(s->min) && isnan(s->max) && isnan(s->mean) &&
			    isnan(s->rms);
	const bool present = !isnan(s->min) && !isnan(s->max) &&
			     !isnan(s->mean) && !isnan(s->rms);

	if (!(s->finite ? present : absent))
		return fault(f, -EINVAL, "min, max, mean and rms of a summary are there if there are finite values, and only then");
	if (s->non_finite > s->elements ||
	    s->finite != s->elements - s->non_finite)
		return fault(f, -EINVAL, "the counts of a summary do not add up");
	return 0;
}

static int check_histogram(const struct capkm_observe_histogram *h,
			   struct fault *f)
{
	return h->edges_len && h->counts_len == h->edges_len - 1 ? 0 :
	       fault(f, -EINVAL, "a histogram has %" PRIu32 " counts between %" PRIu32 " edges",
		     h->counts_len, h->edges_len);
}

static int check_payload(const struct capkm_observe_payload *p, struct fault *f)
{
	switch (p->kind) {
	case CAPKM_PAYLOAD_TENSOR:
		return check_tensor(p, f);
	case CAPKM_PAYLOAD_SUMMARY:
		return check_summary(&p->summary, f);
	case CAPKM_PAYLOAD_HISTOGRAM:
		return check_histogram(&p->histogram, f);
	default:
		return 0;
	}
}

static int check_record(const struct capkm_observe_record *r, struct fault *f)
{
	const bool whole = r->outcome.kind == CAPKM_OUTCOME_CAPTURED ||
			   r->outcome.kind == CAPKM_OUTCOME_TRUNCATED;

	if (r->schema_version != CAPKM_OBSERVE_SCHEMA)
		return fault(f, -EINVAL, "the schema_version of a record is %" PRIu32 ", not %u",
			     r->schema_version, CAPKM_OBSERVE_SCHEMA);
	if (whole != !!r->payload)
		return fault(f, -EINVAL, "a record that is %s has %s payload",
			     capkm_observe_outcome_name(r->outcome.kind),
			     r->payload ? "a" : "no");
	return r->payload ? check_payload(r->payload, f) : 0;
}

static int check_records(const struct capkm_observe_record *records,
			 uint32_t len, struct fault *f)
{
	int rc = 0;

	for (; !rc && len--; records++)
		rc = check_record(records, f);
	return rc;
}

int step_check(const struct capkm_observe_step *step, struct fault *f)
{
	uint32_t i;
	int rc = check_records(step->records, step->records_len, f);

	for (i = 0; !rc && i < step->interventions_len; i++)
		rc = check_records(step->interventions[i].evidence,
				   step->interventions[i].evidence_len, f);
	return rc;
}
