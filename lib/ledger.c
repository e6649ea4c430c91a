// SPDX-License-Identifier: MIT
#include "internal.h"

#include <inttypes.h>

const char *capkm_axis_name(uint32_t axis)
{
	switch (axis) {
	case CAPKM_AXIS_NONE:
		return "none";
	case CAPKM_AXIS_CAPTURES:
		return "captures";
	case CAPKM_AXIS_RETAINED:
		return "retention";
	case CAPKM_AXIS_HOST:
		return "host";
	case CAPKM_AXIS_ENCODED:
		return "encoded";
	default:
		return "unknown";
	}
}

int capkm_ledger_create(struct capkm *c, const struct capkm_ledger_opts *opts,
			uint64_t *ledger, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_LEDGER_CREATE;
	struct capkm_ledger_create arg = { .size = sizeof(arg) };
	struct capkm_ledger_opts o;
	int rc = capkm_opts(&o, sizeof(o), opts, capkm_op_name(nr), err);

	if (rc)
		return rc;
	arg.flags = o.flags;
	arg.per_step = o.per_step;
	arg.cumulative = o.cumulative;
	arg.inherited = o.inherited;
	arg.on_limit = o.on_limit;
	arg.label_uptr = uptr(o.label);
	arg.label_len = capkm_cut(o.label, CAPKM_LABEL_MAX);
	rc = capkm_do(c, nr, &arg, err, "%s", "");
	if (!rc)
		*ledger = arg.out_ledger;
	return rc;
}

static bool is_zero(const struct capkm_usage *u)
{
	return !(u->captures | u->retained_bytes | u->host_bytes |
		 u->encoded_bytes);
}

int capkm_ledger_fork(struct capkm *c, uint64_t parent,
		      const struct capkm_ledger_opts *opts, uint64_t *ledger,
		      struct capkm_usage *inherited, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_LEDGER_FORK;
	struct capkm_ledger_fork arg = { .size = sizeof(arg), .ledger = parent };
	struct capkm_ledger_opts o;
	int rc = capkm_opts(&o, sizeof(o), opts, capkm_op_name(nr), err);

	if (rc)
		return rc;
	if (!is_zero(&o.inherited))
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: ledger %" PRIu64 ": it inherits what that was charged with; inherited must be 0",
			capkm_op_name(nr), parent);
	arg.flags = o.flags;
	arg.per_step = o.per_step;
	arg.cumulative = o.cumulative;
	arg.on_limit = o.on_limit;
	arg.label_uptr = uptr(o.label);
	arg.label_len = capkm_cut(o.label, CAPKM_LABEL_MAX);
	rc = capkm_do(c, nr, &arg, err, "ledger %" PRIu64, parent);
	if (rc)
		return rc;
	*ledger = arg.out_ledger;
	if (inherited)
		*inherited = arg.out_inherited;
	return 0;
}

int capkm_ledger_begin_step(struct capkm *c, uint64_t ledger, uint64_t *steps,
			    struct capkm_error *err)
{
	struct capkm_ledger_begin_step arg = {
		.size = sizeof(arg),
		.ledger = ledger,
	};
	int rc = capkm_do(c, CAPKM_NR_LEDGER_BEGIN_STEP, &arg, err,
			  "ledger %" PRIu64, ledger);

	if (!rc && steps)
		*steps = arg.out_steps;
	return rc;
}

static uint64_t on_axis(const struct capkm_usage *u, uint32_t axis)
{
	switch (axis) {
	case CAPKM_AXIS_CAPTURES:
		return u->captures;
	case CAPKM_AXIS_RETAINED:
		return u->retained_bytes;
	case CAPKM_AXIS_HOST:
		return u->host_bytes;
	default:
		return u->encoded_bytes;
	}
}

/* What does not fit, in numbers. -EDQUOT */
static int does_not_fit(const struct capkm_ledger_reserve *arg,
			struct capkm_error *err)
{
	static const char *const of[] = {
		[CAPKM_BOUND_STEP] = "in a step",
		[CAPKM_BOUND_TOTAL] = "in all",
		[CAPKM_BOUND_DOMAIN] = "in all ledgers of this domain",
	};
	const char *bound = arg->out_bound <= CAPKM_BOUND_DOMAIN ?
			    of[arg->out_bound] : NULL;

	return capkm_error_set(err, -EDQUOT, CAPKM_NO_INDEX, 0,
		"%s: ledger %" PRIu64 ": limit '%s' of %" PRIu64 " %s: %" PRIu64 " are used, and %" PRIu64 " more are asked for",
		capkm_op_name(CAPKM_NR_LEDGER_RESERVE), (uint64_t)arg->ledger,
		capkm_axis_name(arg->out_axis), (uint64_t)arg->out_most,
		bound ? bound : "of some kind", (uint64_t)arg->out_used,
		on_axis(&arg->usage, arg->out_axis));
}

int capkm_ledger_reserve(struct capkm *c, uint64_t ledger,
			 const struct capkm_usage *usage,
			 struct capkm_reservation *answer,
			 struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_LEDGER_RESERVE;
	struct capkm_ledger_reserve arg = {
		.size = sizeof(arg),
		.ledger = ledger,
		.usage = *usage,
	};
	struct capkm_reservation a;
	int rc = capkm_opts(&a, sizeof(a), answer, capkm_op_name(nr), err);

	if (!rc)
		rc = capkm_do(c, nr, &arg, err, "ledger %" PRIu64, ledger);
	if (rc)
		return rc;
	a.out_result = arg.out_result;
	a.out_axis = arg.out_axis;
	a.out_bound = arg.out_bound;
	a.out_used = arg.out_used;
	a.out_most = arg.out_most;
	if (answer)
		capkm_opts_put(answer, &a, sizeof(a));
	return arg.out_result == CAPKM_REFUSED ? does_not_fit(&arg, err) : 0;
}

int capkm_ledger_query(struct capkm *c, struct capkm_ledger_query *query,
		       struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_LEDGER_QUERY, query, err,
			"ledger %" PRIu64, (uint64_t)query->ledger);
}

int capkm_ledger_adopt(struct capkm *c, uint64_t ledger,
		       struct capkm_error *err)
{
	struct capkm_ledger_adopt arg = { .size = sizeof(arg), .ledger = ledger };

	return capkm_do(c, CAPKM_NR_LEDGER_ADOPT, &arg, err,
			"ledger %" PRIu64, ledger);
}

int capkm_ledger_destroy(struct capkm *c, uint64_t ledger,
			 struct capkm_error *err)
{
	struct capkm_ledger_destroy arg = {
		.size = sizeof(arg),
		.ledger = ledger,
	};

	return capkm_do(c, CAPKM_NR_LEDGER_DESTROY, &arg, err,
			"ledger %" PRIu64, ledger);
}
