// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"

#include <inttypes.h>

static int enter(struct capkm *c, struct capkm_scope_enter *arg,
		 uint32_t retry_ms, const struct claims *claims,
		 struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_SCOPE_ENTER;
	struct retry retry;
	int rc;

	capkm_retry_init(&retry, c, retry_ms);
	for (;;) {
		rc = capkm_call(c, nr, arg);
		if (rc)
			return capkm_refuse_claims(c, err, nr, rc, arg,
						   arg->out_error_index,
						   claims);
		if (arg->out_result != CAPKM_IN_PROGRESS)
			return 0;
		if (arg->reports_len && !capkm_retry_wait(&retry))
			return capkm_late(err, nr, retry.ms,
					  (void *)(uintptr_t)arg->reports_uptr);
		arg->reports_len = 1;	/* who waits wants to know for whom */
	}
}

int capkm_scope_enter_ask(struct capkm *c, const struct capkm_where *where,
			  const struct sets *s, const struct capkm_scope_opts *opts,
			  struct capkm_scope *scope, struct capkm_report *why,
			  struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_SCOPE_ENTER;
	const struct claims claims = {
		s->reads, s->reads_len, s->writes, s->writes_len, "reads"
	};
	struct capkm_report own;
	struct capkm_scope_opts o;
	struct capkm_scope_enter arg;
	int rc = capkm_opts(&o, sizeof(o), opts, capkm_op_name(nr), err);

	if (rc)
		return rc;
	arg.size = sizeof(arg);
	arg.flags = o.flags;
	rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
	arg.reads_uptr = uptr(s->reads);
	arg.writes_uptr = uptr(s->writes);
	arg.label_uptr = uptr(o.label);
	arg.reads_len = s->reads_len;
	arg.writes_len = s->writes_len;
	arg.label_len = capkm_cut(o.label, CAPKM_LABEL_MAX);
	arg.reports_len = !!why;
	arg.reports_uptr = uptr(why ? why : &own);
	arg.out_error_index = CAPKM_NO_INDEX;
	arg.out_limit = CAPKM_LIMIT_NONE;
	if (!rc)
		rc = enter(c, &arg, o.retry_ms, &claims, err);
	if (rc)
		return rc;
	*scope = (struct capkm_scope){
		.id = arg.out_scope,
		.sequence = arg.out_sequence,
		.window = arg.out_window,
		.failure = arg.out_failure,
		.result = arg.out_result,
	};
	return 0;
}

int capkm_scope_enter_set(struct capkm *c, const struct capkm_where *where,
			  const struct capkm_claim *reads, uint32_t reads_len,
			  struct capkm_write_set *set,
			  const struct capkm_scope_opts *opts,
			  struct capkm_scope *scope, struct capkm_report *why,
			  struct capkm_error *err)
{
	uint32_t len;
	const struct capkm_claim *writes = capkm_write_set_claims(set, &len);
	int rc = capkm_scope_enter(c, where, reads, reads_len, writes, len,
				   opts, scope, why, err);

	if (rc)
		return rc;
	if (scope->id)
		scope->set = set;
	else
		capkm_write_set_put(set);
	return 0;
}

/* The list comes back whatever the authority says. */
static int leave(struct capkm *c, struct capkm_scope *scope,
		 struct capkm_scope_exit *arg, struct capkm_error *err)
{
	int rc;

	arg->size = sizeof(*arg);
	arg->scope = scope->id;
	rc = capkm_do(c, CAPKM_NR_SCOPE_EXIT, arg, err,
		      "scope %" PRIu64, scope->id);
	capkm_write_set_put(scope->set);
	scope->set = NULL;
	if (rc)
		return rc;
	scope->id = 0;
	scope->failure = arg->out_failure;
	scope->sequence = arg->out_sequence;
	return 0;
}

/* 1 if there is a scope to leave. */
static int is_open(const struct capkm_scope *scope, struct capkm_error *err)
{
	if (scope->id)
		return 1;
	if (scope->result == CAPKM_SKIPPED || scope->result == CAPKM_REFUSED)
		return 0;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"scope_exit: the scope was left already, or never entered");
}

int capkm_scope_exit_ask(struct capkm *c, struct capkm_scope *scope, uint32_t flags,
			 struct capkm_error *err)
{
	struct capkm_scope_exit arg = { .flags = flags };
	int rc = is_open(scope, err);

	return rc > 0 ? leave(c, scope, &arg, err) : rc;
}

int capkm_scope_fail(struct capkm *c, struct capkm_scope *scope,
		     const struct capkm_cause *cause, struct capkm_error *err)
{
	struct capkm_scope_exit arg = { .flags = CAPKM_SCOPE_EXIT_F_FAILED };
	struct capkm_cause k;
	int rc = is_open(scope, err);

	if (rc <= 0)
		return rc;
	rc = capkm_cause(&k, cause, CAPKM_NR_SCOPE_EXIT, err);
	if (rc)
		return rc;
	arg.flags |= k.flags;
	arg.kind = k.kind ? k.kind : CAPKM_KIND_GENERIC;
	arg.code = k.code;
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	if (k.stack && k.stack_len <= CAPKM_STACK_MAX) {
		arg.stack_uptr = uptr(k.stack);
		arg.stack_len = k.stack_len;
	}
	return leave(c, scope, &arg, err);
}
