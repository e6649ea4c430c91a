// SPDX-License-Identifier: MIT
#include "internal.h"

#include <inttypes.h>
#include <string.h>

static const char *clash_of_join(bool busy, uint32_t state)
{
	if (!busy)
		return "the window does not record, or is doomed";
	switch (state) {
	case CAPKM_WINDOW_NONE:
		return "a scope is open on the slot; leave it first";
	case CAPKM_WINDOW_MEMBER:
		return "the slot is a member of another window already";
	default:
		return "the slot has a window of its own";
	}
}

/* Why prepare, begin, end and join do not fit the state of the slot. */
static const char *clash(unsigned int nr, int rc, uint32_t state)
{
	const bool busy = rc == -EBUSY;

	if (nr == CAPKM_NR_WINDOW_JOIN)
		return clash_of_join(busy, state);
	if (!busy && nr == CAPKM_NR_WINDOW_PREPARE)
		return "the parent does not record, or is doomed";
	if (!busy && nr == CAPKM_NR_WINDOW_BEGIN)
		return "not prepared; call graph_prepare first";
	if (!busy)
		return state == CAPKM_WINDOW_PREPARE ?
			"nothing recording; the window was only prepared" :
			"nothing recording";
	switch (state) {
	case CAPKM_WINDOW_PREPARE:
		return nr == CAPKM_NR_WINDOW_PREPARE ?
			"already prepared; begin, end or abort that window first" :
			"a scope is open on the slot; leave it first";
	case CAPKM_WINDOW_CAPTURE:
		return nr == CAPKM_NR_WINDOW_END ?
			"a child window is neither sealed nor refused yet; end it first" :
			"already recording; end or abort that window first";
	case CAPKM_WINDOW_OPENING:
		return nr == CAPKM_NR_WINDOW_PREPARE ?
			"already recording: the driver is opening that window" :
			"the driver is opening the window; say CAPKM_WINDOW_F_DRIVER_DONE when it has";
	case CAPKM_WINDOW_MEMBER:
		return "the slot is a member of another slot's window; end that window first";
	default:
		return "the driver is closing the slot's window; say CAPKM_WINDOW_F_DRIVER_DONE to end when it has";
	}
}

/* "window 5 of stream 7, python[812]" or, if it has gone meanwhile, nothing. */
static void add_holder(struct text *t, struct capkm *c,
		       const struct capkm_place *place, uint32_t flags)
{
	struct capkm_window_query q = {
		.size = sizeof(q),
		.flags = flags & CAPKM_PLACE_F_SLOT,
		.place = *place,
	};

	if (capkm_call(c, CAPKM_NR_WINDOW_QUERY, &q) || !q.out_window)
		return;
	capkm_text_add(t, " (window %" PRIu64 " of stream %" PRIu64 ", ",
		       (uint64_t)q.out_window, (uint64_t)q.out_owner);
	capkm_text_add_raw(t, q.out_comm, sizeof(q.out_comm));
	capkm_text_add(t, "[%" PRIu32 "])", (uint32_t)q.out_pid);
}

static bool bad_slot(const struct capkm *c, const struct capkm_place *place,
		     uint32_t flags)
{
	return flags & CAPKM_PLACE_F_SLOT ? place->slot >= c->max_streams :
					    place->slot != 0;
}

static int refuse_place(struct capkm *c, struct capkm_error *err,
			unsigned int nr, int rc, const void *arg,
			const struct capkm_place *place, uint32_t flags,
			uint32_t state)
{
	char about[200];
	struct text t = { .data = about, .size = sizeof(about) };

	if (!err)
		return rc;
	capkm_text_add(&t, "stream %" PRIu64, (uint64_t)place->stream);
	if (flags & CAPKM_PLACE_F_SLOT)
		capkm_text_add(&t, ", slot %" PRIu32, (uint32_t)place->slot);
	if (rc == -EINVAL && bad_slot(c, place, flags))
		return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
			"%s: %s: a slot must be below %" PRIu32 ", and 0 without CAPKM_WHERE_SLOT",
			capkm_op_name(nr), about, c->max_streams);
	if (rc != -EBUSY && rc != -EINVAL)
		return capkm_refuse(c, err, nr, rc, arg, "%s", about);
	add_holder(&t, c, place, flags);
	return capkm_error_set(err, rc, CAPKM_NO_INDEX, 0, "%s: %s: %s",
			       capkm_op_name(nr), about, clash(nr, rc, state));
}

int capkm_window_prepare(struct capkm *c, const struct capkm_where *where,
			 const struct capkm_window_opts *opts,
			 uint64_t *window, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_PREPARE;
	struct capkm_window_prepare arg = { .size = sizeof(arg) };
	struct capkm_window_opts o;
	int rc = capkm_opts(&o, sizeof(o), opts, capkm_op_name(nr), err);

	if (rc)
		return rc;
	arg.flags = o.flags;
	arg.parent = o.parent;
	arg.cookie = o.cookie;
	arg.mode_uptr = uptr(o.mode);
	arg.mode_len = capkm_cut(o.mode, CAPKM_MODE_MAX);
	rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
	if (rc)
		return rc;
	rc = capkm_call(c, nr, &arg);
	if (rc)
		return refuse_place(c, err, nr, rc, &arg, &arg.place, arg.flags,
				    arg.out_state);
	if (window)
		*window = arg.out_window;
	return 0;
}

int capkm_window_begin(struct capkm *c, const struct capkm_where *where,
		       uint32_t flags, uint64_t *window,
		       struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_BEGIN;
	struct capkm_window_begin arg = { .size = sizeof(arg), .flags = flags };
	int rc = capkm_place(&arg.place, &arg.flags, where, nr, err);

	if (rc)
		return rc;
	rc = capkm_call(c, nr, &arg);
	if (rc)
		return refuse_place(c, err, nr, rc, &arg, &arg.place, arg.flags,
				    arg.out_state);
	if (window)
		*window = arg.out_window;
	return 0;
}

/* @arg: size, flags and window set. */
static int end(struct capkm *c, const struct capkm_where *where,
	       struct capkm_window_end *arg, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_END;
	int rc = capkm_place(&arg->place, &arg->flags, where, nr, err);

	if (rc)
		return rc;
	rc = capkm_call(c, nr, arg);
	return rc ? refuse_place(c, err, nr, rc, arg, &arg->place, arg->flags,
				 arg->out_state) : 0;
}

int capkm_window_end(struct capkm *c, const struct capkm_where *where,
		     uint64_t window, uint32_t flags,
		     struct capkm_window_end *out, struct capkm_error *err)
{
	struct capkm_window_end own = { .size = sizeof(own) };
	struct capkm_window_end *arg = out ? out : &own;

	arg->flags = flags;
	arg->window = window;
	return end(c, where, arg, err);
}

/* @limit: on an error, which; or NULL. */
static int seal(struct capkm *c, uint64_t window, uint32_t flags,
		uint64_t *graph, struct capkm_answer *a, uint32_t *limit,
		struct capkm_error *err)
{
	struct capkm_window_seal arg = {
		.size = sizeof(arg),
		.flags = flags,
		.window = window,
		.reports_uptr = uptr(a->reports),
		.reports_len = a->reports_len,
	};
	int rc = capkm_do(c, CAPKM_NR_WINDOW_SEAL, &arg, err,
			  "window %" PRIu64, window);

	if (limit)
		*limit = arg.out_limit;
	if (rc)
		return rc;
	a->out_reports = arg.out_reports;
	a->out_result = arg.out_result;
	*graph = arg.out_graph;
	return 0;
}

int capkm_window_seal(struct capkm *c, uint64_t window, uint32_t flags,
		      uint64_t *graph, struct capkm_answer *answer,
		      struct capkm_error *err)
{
	struct capkm_answer a;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_SEAL, err);

	if (!rc)
		rc = seal(c, window, flags, graph, &a, NULL, err);
	if (!rc)
		capkm_answer_put(answer, &a);
	return rc;
}

static int refuse_window(struct capkm *c, uint64_t window,
			 const struct capkm_cause *cause,
			 struct capkm_answer *a, struct capkm_error *err)
{
	struct capkm_window_refuse arg = {
		.size = sizeof(arg),
		.window = window,
		.kind = cause->kind,
		.code = cause->code,
		.text_uptr = uptr(cause->text),
		.text_len = capkm_cut(cause->text, CAPKM_TEXT_MAX),
		.reports_uptr = uptr(a->reports),
		.reports_len = a->reports_len,
	};
	int rc = capkm_do(c, CAPKM_NR_WINDOW_REFUSE, &arg, err,
			  "window %" PRIu64, window);

	if (rc)
		return rc;
	a->out_reports = arg.out_reports;
	a->out_result = CAPKM_REFUSED;
	return 0;
}

int capkm_window_refuse(struct capkm *c, uint64_t window,
			const struct capkm_cause *cause,
			struct capkm_answer *answer, struct capkm_error *err)
{
	struct capkm_answer a;
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, CAPKM_NR_WINDOW_REFUSE, err);

	if (!rc)
		rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_REFUSE, err);
	if (!rc)
		rc = refuse_window(c, window, &k, &a, err);
	if (!rc)
		capkm_answer_put(answer, &a);
	return rc;
}

uint64_t capkm_window_why(struct capkm *c, uint64_t window, char *text, size_t size)
{
	struct capkm_report why;
	struct capkm_window_query q = {
		.size = sizeof(q), .window = window,
		.reports_uptr = uptr(&why), .reports_len = 1,
	};
	struct text t = { .data = text, .size = size };

	*text = '\0';
	if (!window || capkm_window_query(c, &q, NULL) || !q.out_reports)
		return 0;
	capkm_report_add(&t, &why);
	return why.failure;
}

/* The explanation first, and what doomed the window second. */
static int explain_refusal(const struct capkm_window_end *closed,
			   const struct capkm_answer *a,
			   struct capkm_error *err)
{
	char why[sizeof(err->text)] = "";
	struct text t = { .data = why, .size = sizeof(why) };
	const uint32_t n = a->out_reports < a->reports_len ? a->out_reports :
							     a->reports_len;
	uint32_t doom = n > 1;

	if (closed->out_verdict == CAPKM_VERDICT_ABANDONED)
		capkm_text_add(&t, "window %" PRIu64 " was prepared by stream %"
			       PRIu64 " and is closed by stream %" PRIu64
			       ", which may not seal it; the recording is discarded",
			       (uint64_t)closed->out_window,
			       (uint64_t)closed->out_owner,
			       (uint64_t)closed->place.stream);
	else
		capkm_text_add(&t, "window %" PRIu64 " of stream %" PRIu64
			       " cannot be sealed: an operation inside it failed or was skipped; the recording is discarded",
			       (uint64_t)closed->out_window,
			       (uint64_t)closed->out_owner);
	if (doom) {
		capkm_text_add(&t, "\n");
		capkm_report_add(&t, &a->reports[1]);
	}
	return capkm_error_set(err, -ESTALE, CAPKM_NO_INDEX,
			       n ? a->reports[doom].failure : 0,
			       "end_capture: %s", why);
}

/*
 * END has found a window that was only prepared: after a failed warm-up this is
 * the only call that its caller has left, so it disarms the slot.
 */
static void disarm(struct capkm *c, const struct capkm_window_end *closed)
{
	struct capkm_window_abort arg = {
		.size = sizeof(arg),
		.flags = closed->flags & CAPKM_PLACE_F_SLOT,
		.place = closed->place,
		.window = closed->window,
	};

	if (closed->out_state == CAPKM_WINDOW_PREPARE)
		capkm_call(c, CAPKM_NR_WINDOW_ABORT, &arg);
}

/* A window that could not be sealed must not wait for ever. */
static int give_up(struct capkm *c, uint64_t window, int rc, uint32_t limit,
		   struct capkm_error *err)
{
	char why[300] = "";
	struct text t = { .data = why, .size = sizeof(why) };
	const struct capkm_cause cause = {
		.kind = CAPKM_KIND_GENERIC,
		.code = rc,
		.text = "the window could not be sealed",
	};
	struct capkm_answer a = { .sz = sizeof(a) };

	refuse_window(c, window, &cause, &a, NULL);
	capkm_means(&t, c, CAPKM_NR_WINDOW_SEAL, rc, &(struct capkm_window_seal){
		.out_limit = limit,
	});
	capkm_error_set(err, rc, CAPKM_NO_INDEX, 0,
		"end_capture: window %" PRIu64 " could not be sealed and is refused: %s",
		window, why);
	capkm_error_limit(err, limit);
	return rc;
}

static void copy_reports(struct capkm_answer *to,
			 const struct capkm_answer *from)
{
	uint32_t n = from->out_reports < to->reports_len ? from->out_reports :
							   to->reports_len;

	if (n > from->reports_len)
		n = from->reports_len;
	if (n)
		memcpy(to->reports, from->reports, n * sizeof(*to->reports));
	to->out_reports = from->out_reports;
	to->out_result = from->out_result;
}

int capkm_window_finish(struct capkm *c, const struct capkm_window_end *closed,
			uint64_t *graph, struct capkm_answer *answer,
			struct capkm_error *err)
{
	struct capkm_report reports[2];
	struct capkm_answer a = {
		.sz = sizeof(a),
		.reports = reports,
		.reports_len = 2,
	};
	uint32_t limit;
	int rc = seal(c, closed->out_window, 0, graph, &a, &limit, NULL);

	if (rc)
		return give_up(c, closed->out_window, rc, limit, err);
	copy_reports(answer, &a);
	return a.out_result == CAPKM_REFUSED ?
		explain_refusal(closed, &a, err) : 0;
}

static int close_window(struct capkm *c, const struct capkm_where *where,
			uint64_t *graph, struct capkm_answer *answer,
			struct capkm_error *err)
{
	struct capkm_window_end closed = { .size = sizeof(closed) };
	int rc = end(c, where, &closed, err);

	if (!rc)
		return capkm_window_finish(c, &closed, graph, answer, err);
	disarm(c, &closed);
	return rc;
}

int capkm_window_close(struct capkm *c, const struct capkm_where *where,
		       uint64_t *graph, struct capkm_answer *answer,
		       struct capkm_error *err)
{
	struct capkm_answer a;
	int rc = capkm_answer_get(&a, answer, CAPKM_NR_WINDOW_END, err);

	if (rc)
		return rc;
	if (c->backend == CAPKM_BACKEND_HARDWARE)
		return capkm_error_set(err, -EOPNOTSUPP, CAPKM_NO_INDEX, 0,
			"end_capture: on a hardware slot the driver closes between two calls; use window_end and window_seal");
	rc = close_window(c, where, graph, &a, err);
	if (!rc || rc == -ESTALE)
		capkm_answer_put(answer, &a);
	return rc;
}

int capkm_window_take(struct capkm *c, struct capkm_window_take *take,
		      struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_WINDOW_TAKE, take, err,
			"window %" PRIu64, (uint64_t)take->window);
}

int capkm_window_record(struct capkm *c, uint64_t window,
			const struct capkm_claim *reads, uint32_t reads_len,
			const struct capkm_claim *writes, uint32_t writes_len,
			uint32_t flags, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_RECORD;
	const struct claims claims = {
		reads, reads_len, writes, writes_len, "reads"
	};
	struct capkm_window_record arg = {
		.size = sizeof(arg),
		.flags = flags,
		.window = window,
		.reads_uptr = uptr(reads),
		.writes_uptr = uptr(writes),
		.reads_len = reads_len,
		.writes_len = writes_len,
		.out_error_index = CAPKM_NO_INDEX,
	};
	int rc = capkm_call(c, nr, &arg);

	if (rc && arg.out_error_index == CAPKM_NO_INDEX)
		return capkm_refuse(c, err, nr, rc, &arg, "window %" PRIu64,
				    window);
	return rc ? capkm_refuse_claims(c, err, nr, rc, &arg,
					arg.out_error_index, &claims) : 0;
}

int capkm_window_retain(struct capkm *c, uint64_t window,
			const struct capkm_retained *retained,
			struct capkm_error *err)
{
	struct capkm_window_retain arg = {
		.size = sizeof(arg),
		.window = window,
		.retained = *retained,
	};

	return capkm_do(c, CAPKM_NR_WINDOW_RETAIN, &arg, err,
			"window %" PRIu64, window);
}

int capkm_window_abort(struct capkm *c, const struct capkm_where *where,
		       uint64_t window, uint64_t *aborted,
		       struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_ABORT;
	struct capkm_window_abort arg = {
		.size = sizeof(arg),
		.window = window,
	};
	int rc = capkm_place(&arg.place, &arg.flags, where, nr, err);

	if (!rc)
		rc = capkm_do(c, nr, &arg, err, "stream %" PRIu64,
			      (uint64_t)arg.place.stream);
	if (!rc && aborted)
		*aborted = arg.out_window;
	return rc;
}

int capkm_window_join(struct capkm *c, uint64_t window,
		      const struct capkm_where *where, uint32_t flags,
		      uint32_t *result, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_JOIN;
	struct capkm_window_join arg = {
		.size = sizeof(arg),
		.flags = flags,
		.window = window,
	};
	int rc = capkm_place(&arg.place, &arg.flags, where, nr, err);

	if (rc)
		return rc;
	rc = capkm_call(c, nr, &arg);
	if (rc)
		return refuse_place(c, err, nr, rc, &arg, &arg.place, arg.flags,
				    arg.out_state);
	if (result)
		*result = arg.out_result;
	return 0;
}

int capkm_window_wait(struct capkm *c, struct capkm_window_wait *wait,
		      struct capkm_error *err)
{
	if (!wait->window && !wait->place.stream)
		wait->place.stream = capkm_stream_current();
	return capkm_do(c, CAPKM_NR_WINDOW_WAIT, wait, err,
			"window %" PRIu64, (uint64_t)wait->window);
}

int capkm_window_fail(struct capkm *c, uint64_t window, uint64_t stream,
		      const char *label, const struct capkm_cause *cause,
		      struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_WINDOW_FAIL;
	struct capkm_window_fail arg = { .size = sizeof(arg), .window = window };
	struct capkm_cause k;
	int rc = capkm_cause(&k, cause, nr, err);

	if (rc)
		return rc;
	arg.stream = stream ? stream : capkm_stream_current();
	arg.kind = k.kind ? k.kind : CAPKM_KIND_GENERIC;
	arg.code = k.code;
	arg.label_uptr = uptr(label);
	arg.label_len = capkm_cut(label, CAPKM_LABEL_MAX);
	arg.text_uptr = uptr(k.text);
	arg.text_len = capkm_cut(k.text, CAPKM_TEXT_MAX);
	return capkm_do(c, nr, &arg, err, "window %" PRIu64, window);
}

int capkm_window_query(struct capkm *c, struct capkm_window_query *query,
		       struct capkm_error *err)
{
	if (!query->window && !query->place.stream)
		query->place.stream = capkm_stream_current();
	return capkm_do(c, CAPKM_NR_WINDOW_QUERY, query, err,
			"window %" PRIu64, (uint64_t)query->window);
}

int capkm_window_list(struct capkm *c, struct capkm_window_list *list,
		      struct capkm_error *err)
{
	return capkm_do(c, CAPKM_NR_WINDOW_LIST, list, err, "%s", "");
}

int capkm_refused(struct capkm *c, const struct capkm_where *where,
		  uint32_t what, const struct capkm_claim *claims, uint32_t len,
		  struct capkm_answer *answer, struct capkm_error *err)
{
	const unsigned int nr = CAPKM_NR_REFUSE;
	const struct claims named = { claims, len, NULL, 0, "claims" };
	struct capkm_refuse arg = {
		.size = sizeof(arg),
		.claims_uptr = uptr(claims),
		.claims_len = len,
		.what = what,
		.out_error_index = CAPKM_NO_INDEX,
	};
	struct capkm_answer a;
	int rc = capkm_answer_get(&a, answer, nr, err);

	if (!rc)
		rc = capkm_place(&arg.place, &arg.flags, where, nr, err);
	if (rc)
		return rc;
	arg.reports_uptr = uptr(a.reports);
	arg.reports_len = a.reports_len;
	rc = capkm_call(c, nr, &arg);
	if (rc)
		return capkm_refuse_claims(c, err, nr, rc, &arg,
					   arg.out_error_index, &named);
	a.out_reports = arg.out_reports;
	a.out_result = arg.out_result;
	capkm_answer_put(answer, &a);
	return 0;
}

int capkm_window_abandon(struct capkm *c, uint64_t window,
			 struct capkm_error *err)
{
	struct capkm_window_abandon arg = {
		.size = sizeof(arg),
		.window = window,
	};

	return capkm_do(c, CAPKM_NR_WINDOW_ABANDON, &arg, err,
			"window %" PRIu64, window);
}
