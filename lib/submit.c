// SPDX-License-Identifier: MIT
#include "internal.h"

#include <inttypes.h>
#include <string.h>

static void *struct_of(const struct capkm_element *e)
{
	return (void *)(uintptr_t)e->arg_uptr;
}

/* Why it is in progress, if the caller has left room for that. */
static const struct capkm_report *report_of(const struct capkm_element *e)
{
	const struct capkm_graph_replay_begin *replay = struct_of(e);
	const struct capkm_scope_enter *enter = struct_of(e);
	const bool is_enter = e->nr == CAPKM_NR_SCOPE_ENTER;
	const uint64_t reports = is_enter ? enter->reports_uptr :
					    replay->reports_uptr;

	return (is_enter ? enter->out_reports : replay->out_reports) ?
		(const void *)(uintptr_t)reports : NULL;
}

static int late(const struct capkm_element *e, uint32_t index, uint32_t ms,
		struct capkm_error *err)
{
	const struct capkm_report *why = report_of(e);
	char text[400] = "";
	struct text t = { .data = text, .size = sizeof(text) };

	if (why)
		capkm_report_add(&t, why);
	return capkm_error_set(err, -EAGAIN, index, 0,
		"submit: elements[%" PRIu32 "], %s: an input is still being written after %" PRIu32 " ms%s%s",
		index, capkm_op_name(e->nr), ms, why ? ": " : "", text);
}

/* What the authority says of one element; @nr: whose errno it is, its or SUBMIT's. */
static int refuse(const struct capkm *c, const struct capkm_element *e,
		  uint32_t index, unsigned int nr, int rc,
		  struct capkm_error *err)
{
	const void *arg = nr == CAPKM_NR_SUBMIT ? NULL : struct_of(e);
	char why[300] = "";
	struct text t = { .data = why, .size = sizeof(why) };

	if (!err)
		return rc;
	capkm_means(&t, c, nr, rc, arg);
	capkm_error_set(err, rc, index, 0,
			"submit: elements[%" PRIu32 "], %s: %s", index,
			capkm_op_name(e->nr), why);
	capkm_error_limit(err, capkm_limit_of(nr, rc, arg));
	return rc;
}

/* One SUBMIT, from arg->from on; 0 also if it stops at what is in progress. */
static int submit(struct capkm *c, struct capkm_submit *arg,
		  struct capkm_error *err)
{
	const struct capkm_element *elements =
		(const void *)(uintptr_t)arg->elements_uptr;
	const unsigned int nr = CAPKM_NR_SUBMIT;
	int rc;

	arg->out_error_index = CAPKM_NO_INDEX;
	rc = capkm_call(c, nr, arg);
	if (rc && arg->out_error_index < arg->elements_len)
		return refuse(c, &elements[arg->out_error_index],
			      arg->out_error_index, nr, rc, err);
	if (rc == -EOPNOTSUPP)
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"submit: %s does not take operations together; call each on its own",
			c->transport->name);
	if (rc)
		return capkm_refuse(c, err, nr, rc, NULL, "%s", "");
	if (!arg->out_error)
		return 0;
	rc = -(int)arg->out_error;
	return refuse(c, &elements[arg->out_error_index], arg->out_error_index,
		      elements[arg->out_error_index].nr, rc, err);
}

int capkm_submit(struct capkm *c, const struct capkm_element *elements,
		 uint32_t len, uint32_t *done,
		 const struct capkm_submit_opts *opts, struct capkm_error *err)
{
	const char *const name = capkm_op_name(CAPKM_NR_SUBMIT);
	struct capkm_submit arg = {
		.size = sizeof(arg),
		.elements_uptr = uptr(elements),
		.elements_len = len,
	};
	struct capkm_submit_opts o;
	struct retry retry;
	int rc = capkm_opts(&o, sizeof(o), opts, name, err);

	if (rc)
		return rc;
	if (o.flags)
		return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
			"%s: opts->flags must be 0", name);
	capkm_retry_init(&retry, c, o.retry_ms);
	do {
		arg.from = *done;
		arg.out_done = *done;
		rc = submit(c, &arg, err);
		/* Each element has the whole time for itself. */
		if (arg.out_done != *done)
			capkm_retry_init(&retry, c, o.retry_ms);
		*done = arg.out_done;
		if (rc || *done == len)
			return rc;
	} while (capkm_retry_wait(&retry));
	return late(&elements[*done], *done, retry.ms, err);
}
