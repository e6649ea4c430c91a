// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random sessions against a model: steps, tensors of all kinds, budgets that end anywhere,
 * checkpoints and restores. The model is what the specification says of one session, in
 * this file's own words; it shares no code with the library. CAPKM_SEED begins elsewhere.
 */
#include <capkm/observe.h>

#include "calls.h"

enum { SELECTIONS = 5, PATHS = 3, PREDICTIONS = 12, SAVED = 4, AXES = 4 };

/* What a tensor does when it is looked at. */
enum manner { GOOD, RECORDS, TAINTED, MISSHAPEN, NO_ESTIMATE, BREAKS, LATE_TAINT, MANNERS };

struct usage {
	u_int64_t on[AXES];
};

struct m_selection {
	char id[24];
	unsigned int path;
	bool prefill, decode, ends, preview;
	u_int64_t first, end, every, most;
};

enum m_state { M_NONE, M_SKIPPED, M_MISSING, M_CAPTURED, M_TRUNCATED, M_FAILED };

struct m_record {
	enum m_state state;
	unsigned int reason, budget;
	bool cumulative;
	struct usage charged;
	u_int64_t available, emitted;
};

struct saved {
	struct capkm_observe_checkpoint *cp;
	bool has_step;
	u_int64_t at;
	struct usage total;
};

struct world {
	u_int64_t seed, state;
	unsigned int len;
	struct m_selection s[SELECTIONS];
	struct usage per_step, cumulative, step, total;
	bool skips, pending, ready, has_step;
	u_int64_t at;
	unsigned int phase;
	struct m_record r[SELECTIONS];
	struct saved saved[SAVED];
	enum manner manner;
	unsigned int touched;
	struct capkm_observe *o;
	struct capkm_observe_discovery *d;
	char what[120];
};

static unsigned int roll(struct world *w, unsigned int n)
{
	w->state = w->state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned int)(w->state >> 33) % n;
}

#define DIE(w, ...) do {						\
	fprintf(stderr, "# seed %llu, %s: ", (unsigned long long)(w)->seed, (w)->what); \
	fprintf(stderr, __VA_ARGS__);					\
	fprintf(stderr, " (%s)\n", err.text);				\
	abort();							\
} while (0)

/* ------------------------------------------------------------ the backend */

struct shown {
	struct world *w;
	u_int64_t rows;
};

static int b_ready(void *context, const void *tensor, char *why, size_t size)
{
	const struct shown *t = tensor;

	snprintf(why, size, "so it is");
	return t->w->manner == RECORDS ? -EBUSY : t->w->manner == TAINTED ? -ESTALE : 0;
}

static int b_describe(void *context, const void *tensor, u_int64_t *shape,
		      u_int32_t *rank, u_int32_t *dtype, char *why, size_t size)
{
	const struct shown *t = tensor;

	t->w->touched++;
	*rank = 2;
	*dtype = CAPKM_DTYPE_F32;
	shape[0] = t->rows;
	shape[1] = t->w->manner == MISSHAPEN ? 5 : 4;
	return 0;
}

static u_int64_t give(const struct capkm_observe_geometry *g)
{
	const struct capkm_observe_transform *t = &g->selection->transform;

	return t->kind == CAPKM_TRANSFORM_PREVIEW && t->max_elements < g->elements ?
	       t->max_elements : g->elements;
}

static int b_estimate(void *context, const struct capkm_observe_geometry *g,
		      struct capkm_usage *usage, char *why, size_t size)
{
	struct world *w = context;

	*usage = (struct capkm_usage){ 1, 100 + give(g), 70, 512 + 42 + 32 * give(g) };
	snprintf(why, size, "so it is");
	return w->manner == NO_ESTIMATE ? -EOPNOTSUPP : 0;
}

static int b_transform(void *context, const void *tensor,
		       const struct capkm_observe_geometry *g,
		       struct capkm_observe_payload *payload, char *why, size_t size)
{
	struct world *w = context;

	for (u_int32_t i = 0; i < payload->values.len; i++)
		payload->values.f32[i] = (float)i;
	snprintf(why, size, "so it is");
	return w->manner == BREAKS ? -ENODEV : w->manner == LATE_TAINT ? -ESTALE : 0;
}

/* ------------------------------------------------------------ the model */

static bool add(struct world *w, const struct usage *u, unsigned int *axis, bool *cumulative)
{
	for (int all = 0; all < 2; all++) {
		for (unsigned int i = 0; i < AXES; i++) {
			const u_int64_t now = all ? w->total.on[i] : w->step.on[i];
			const u_int64_t most = all ? w->cumulative.on[i] : w->per_step.on[i];

			if (now + u->on[i] > most) {
				*axis = i + 1;
				*cumulative = all;
				return false;
			}
		}
	}
	for (unsigned int i = 0; i < AXES; i++) {
		w->step.on[i] += u->on[i];
		w->total.on[i] += u->on[i];
	}
	return true;
}

static bool is_due(const struct m_selection *s, unsigned int phase, u_int64_t p)
{
	if (phase ? !s->decode : !s->prefill)
		return false;
	for (u_int64_t q = s->first; q <= p; q += s->every)
		if (q == p)
			return !s->ends || p < s->end;
	return false;
}

/* "selection_id" + "path.N" + "node.N", two axes */
static struct usage of_record(const struct m_selection *s)
{
	const u_int64_t texts = strlen(s->id) + 6 + 6;

	return (struct usage){ { 0, 0, 512 + texts + 256, 2048 + 6 * texts + 128 } };
}

static int m_begin(struct world *w, unsigned int phase, u_int64_t p)
{
	unsigned int axis;
	bool all;

	if (w->pending || p >= PREDICTIONS)
		return -EINVAL;
	w->ready = false;
	w->has_step = true;
	w->step = (struct usage){ 0 };
	for (unsigned int i = 0; i < w->len; i++) {
		w->r[i] = (struct m_record){
			.state = is_due(&w->s[i], phase, p) ? M_MISSING : M_SKIPPED,
			.reason = CAPKM_REASON_SCHEDULE,
			.charged = of_record(&w->s[i]),
		};
		if (!add(w, &w->r[i].charged, &axis, &all))
			return -EDQUOT;
	}
	w->pending = true;
	w->phase = phase;
	w->at = p;
	return 0;
}

static int fail(struct m_record *r, unsigned int reason, int rc)
{
	r->state = M_FAILED;
	r->reason = reason;
	return rc;
}

static int m_observe(struct world *w, unsigned int i, u_int64_t rows)
{
	const struct m_selection *s = &w->s[i];
	struct m_record *r = &w->r[i];
	const u_int64_t expected = w->phase ? 1 : 3, n = rows * 4;
	const u_int64_t some = s->preview && s->most < n ? s->most : n;
	const struct usage cost = { { 1, 100 + some, 70, 512 + 42 + 32 * some } };

	if (r->state == M_SKIPPED)
		return 0;
	if (r->state != M_MISSING)
		return -EINVAL;
	if (w->manner == RECORDS) {
		r->state = M_SKIPPED;
		r->reason = CAPKM_REASON_RECORDING;
		return 0;
	}
	if (w->manner == TAINTED)
		return fail(r, CAPKM_REASON_TAINTED, -ESTALE);
	if (w->manner == MISSHAPEN || rows != expected)
		return fail(r, CAPKM_REASON_INVALID, -EINVAL);
	if (w->manner == NO_ESTIMATE)
		return fail(r, CAPKM_REASON_UNSUPPORTED, -EOPNOTSUPP);
	if (!add(w, &cost, &r->budget, &r->cumulative)) {
		if (!w->skips)
			return fail(r, CAPKM_REASON_LIMIT, -EDQUOT);
		r->state = M_SKIPPED;
		r->reason = CAPKM_REASON_LIMIT;
		return 0;
	}
	for (unsigned int k = 0; k < AXES; k++)
		r->charged.on[k] += cost.on[k];
	if (w->manner == BREAKS)
		return fail(r, CAPKM_REASON_NATIVE, -EIO);
	if (w->manner == LATE_TAINT)
		return fail(r, CAPKM_REASON_TAINTED, -ESTALE);
	r->state = some < n ? M_TRUNCATED : M_CAPTURED;
	r->available = n;
	r->emitted = some;
	return 0;
}

static int m_show(struct world *w, unsigned int path, u_int64_t rows)
{
	int rc;

	if (!w->pending)
		return -EINVAL;
	for (unsigned int i = 0; i < w->len; i++) {
		if (w->s[i].path != path)
			continue;
		rc = m_observe(w, i, rows);
		if (rc)
			return rc;
	}
	return 0;
}

/* ------------------------------------------------------------ both */

static bool same(const struct usage *m, const struct capkm_usage *u)
{
	return m->on[0] == u->captures && m->on[1] == u->retained_bytes &&
	       m->on[2] == u->host_bytes && m->on[3] == u->encoded_bytes;
}

static void same_record(struct world *w, unsigned int i, const struct capkm_observe_record *r)
{
	static const unsigned int kinds[] = {
		[M_SKIPPED] = CAPKM_OUTCOME_SKIPPED, [M_MISSING] = CAPKM_OUTCOME_MISSING,
		[M_CAPTURED] = CAPKM_OUTCOME_CAPTURED, [M_TRUNCATED] = CAPKM_OUTCOME_TRUNCATED,
		[M_FAILED] = CAPKM_OUTCOME_FAILED,
	};
	const struct m_record *m = &w->r[i];
	const bool whole = m->state == M_CAPTURED || m->state == M_TRUNCATED;

	if (r->outcome.kind != kinds[m->state])
		DIE(w, "record %u is %s", i, capkm_observe_outcome_name(r->outcome.kind));
	if ((m->state == M_SKIPPED || m->state == M_FAILED) && r->outcome.reason.kind != m->reason)
		DIE(w, "record %u: %s", i, capkm_observe_reason_name(r->outcome.reason.kind));
	if ((m->state == M_SKIPPED || m->state == M_FAILED) && m->reason == CAPKM_REASON_LIMIT &&
	    (r->outcome.reason.budget != m->budget || r->outcome.reason.cumulative != m->cumulative))
		DIE(w, "record %u: budget %u %d, not %u %d", i, r->outcome.reason.budget,
		    r->outcome.reason.cumulative, m->budget, m->cumulative);
	if (!same(&m->charged, &r->charged))
		DIE(w, "record %u is charged otherwise", i);
	if (whole != !!r->payload || (whole && r->payload->values.len != m->emitted))
		DIE(w, "record %u has another payload", i);
	if (m->state == M_TRUNCATED && (r->outcome.available_elements != m->available ||
					r->outcome.emitted_elements != m->emitted))
		DIE(w, "record %u is truncated otherwise", i);
}

/* Its JSON is what is read from it. */
static void same_json(struct world *w, const struct capkm_observe_step *step)
{
	struct capkm_observe_step *again;
	char *one, *two;

	if (capkm_observe_step_json(step, &one, NULL, &err) ||
	    capkm_observe_step_parse(one, strlen(one), &again, &err) ||
	    capkm_observe_step_json(again, &two, NULL, &err))
		DIE(w, "no JSON");
	if (strcmp(one, two))
		DIE(w, "other JSON");
	capkm_observe_step_free(again);
	free(one);
	free(two);
}

static void take(struct world *w)
{
	struct capkm_observe_step *step;

	if (capkm_observe_take_step(w->o, &step, &err))
		DIE(w, "not taken");
	if (!step != !w->pending)
		DIE(w, "there is %s step", step ? "a" : "no");
	if (!step)
		return;
	w->pending = false;
	w->ready = true;
	for (unsigned int i = 0; i < w->len; i++) {
		same_record(w, i, &step->records[i]);
		w->ready &= w->r[i].state != M_FAILED;
	}
	if (step->records_len != w->len || step->prediction_index != w->at || step->phase != w->phase)
		DIE(w, "another step");
	if (!same(&w->step, &step->step_usage) || !same(&w->total, &step->cumulative_usage))
		DIE(w, "the step is charged otherwise");
	same_json(w, step);
	capkm_observe_step_free(step);
}

static void save(struct world *w)
{
	struct saved *s = &w->saved[roll(w, SAVED)];
	const int want = w->pending || !w->ready ? -EINVAL : 0;
	struct capkm_observe_checkpoint *cp;
	int rc = capkm_observe_checkpoint(w->o, w->d, &cp, &err);

	if (rc != want)
		DIE(w, "checkpoint %d, not %d", rc, want);
	if (rc)
		return;
	capkm_observe_checkpoint_free(s->cp);
	*s = (struct saved){ cp, w->has_step, w->at, w->total };
	if (capkm_observe_checkpoint_next(cp) != (w->has_step ? w->at + 1 : 0) ||
	    !same(&w->total, capkm_observe_checkpoint_usage(cp)))
		DIE(w, "another checkpoint");
}

static void go_back(struct world *w)
{
	struct saved *s = &w->saved[roll(w, SAVED)];
	const int want = w->pending ? -EINVAL : 0;
	int rc;

	if (!s->cp)
		return;
	rc = capkm_observe_restore(w->o, s->cp, &err);
	if (rc != want)
		DIE(w, "restore %d, not %d", rc, want);
	if (rc)
		return;
	w->has_step = s->has_step;
	w->at = s->at;
	w->ready = true;
}

static void begin(struct world *w)
{
	const u_int64_t p = roll(w, PREDICTIONS + 1);
	const unsigned int phase = p ? CAPKM_DECODE : CAPKM_PREFILL;
	const bool pending = w->pending;
	int rc, want = m_begin(w, phase, p);

	if (want == -EINVAL)
		w->pending = pending;
	rc = capkm_observe_begin_step(w->o, phase, p, &err);
	if (rc != want)
		DIE(w, "begin %d, not %d", rc, want);
}

static void show(struct world *w)
{
	const unsigned int path = roll(w, PATHS);
	struct shown t = { w, w->phase ? 1 : 3 };
	char name[8];
	int rc, want;

	w->manner = roll(w, 3) ? GOOD : roll(w, MANNERS);
	if (!roll(w, 12))
		t.rows++;
	snprintf(name, sizeof(name), "path.%u", path);
	want = m_show(w, path, t.rows);
	rc = capkm_observe_tensor(w->o, name, &t, &err);
	if (rc != want)
		DIE(w, "shown %s, %d: %d, not %d", name, w->manner, rc, want);
}

/* ------------------------------------------------------------ worlds */

static struct capkm_observe_admitted *make_plan(struct world *w)
{
	static const struct capkm_observe_axis axes[] = {
		{ "token", { .kind = CAPKM_EXTENT_SEQUENCE } },
		{ "feature", { .kind = CAPKM_EXTENT_KNOWN, .value = 4 } },
	};
	static const char *const paths[] = { "path.0", "path.1", "path.2" };
	static const char *const nodes[] = { "node.0", "node.1", "node.2" };
	static const u_int32_t kinds[] = { CAPKM_TRANSFORM_PREVIEW, CAPKM_TRANSFORM_FULL_TENSOR };
	const struct capkm_observe_request request = { 1, 3, PREDICTIONS };
	struct capkm_observe_point points[PATHS] = { 0 };
	struct capkm_observe_point_support support[PATHS] = { 0 };
	struct capkm_observe_discovery d = {
		.artifact_identity = "random",
		.catalog = { .schema_version = 1, .points_len = PATHS, .points = points },
		.support_version = 1, .support_len = PATHS, .support = support,
		.capture = { .transformations = kinds, .transformations_len = 2 },
	};
	struct capkm_observe_selection s[SELECTIONS] = { 0 };
	struct capkm_observe_plan plan = { .schema_version = 1, .selections = s };
	struct capkm_observe_admitted *a;
	char *json;
	size_t len;

	for (unsigned int i = 0; i < PATHS; i++) {
		points[i] = (struct capkm_observe_point){
			.path = paths[i], .node_id = nodes[i], .meaning = "", .axes = axes,
			.axes_len = 2, .prefill = true, .decode = true,
		};
		support[i].path = paths[i];
	}
	w->len = plan.selections_len = roll(w, SELECTIONS + 1);
	for (unsigned int i = 0; i < w->len; i++) {
		struct m_selection *m = &w->s[i];

		snprintf(m->id, sizeof(m->id), "s%.*s%u", (int)roll(w, 5), "xxxx", i);
		m->path = roll(w, PATHS);
		m->prefill = roll(w, 4);
		m->decode = roll(w, 4);
		m->first = roll(w, 4);
		m->every = 1 + roll(w, 3);
		m->ends = roll(w, 2);
		m->end = m->first + 1 + roll(w, 9);
		m->preview = roll(w, 2);
		m->most = roll(w, 8);
		s[i] = (struct capkm_observe_selection){
			.id = m->id, .path = paths[m->path],
			.schedule = { m->prefill, m->decode, m->first, { m->end, m->ends }, m->every },
			.transform = { .kind = m->preview ? CAPKM_TRANSFORM_PREVIEW :
							    CAPKM_TRANSFORM_FULL_TENSOR,
				       .max_elements = m->most },
		};
	}
	for (unsigned int k = 0; k < AXES; k++) {
		static const u_int64_t scale[] = { 4, 400, 4000, 16000 };

		w->per_step.on[k] = roll(w, 4) ? scale[k] / 4 + roll(w, (unsigned int)scale[k]) : UINT64_MAX;
		w->cumulative.on[k] = roll(w, 4) ? 12 * scale[k] + roll(w, (unsigned int)(30 * scale[k])) : UINT64_MAX / 2;
	}
	w->skips = roll(w, 2);
	memcpy(&plan.limits.per_step, &w->per_step, sizeof(w->per_step));
	memcpy(&plan.limits.cumulative, &w->cumulative, sizeof(w->cumulative));
	plan.limits.on_limit = w->skips ? CAPKM_ON_LIMIT_SKIP : CAPKM_ON_LIMIT_FAIL;
	if (capkm_observe_admit(&plan, &d, &request, &a, &err) ||
	    capkm_observe_discovery_json(&d, &json, &len, &err) ||
	    capkm_observe_discovery_parse(json, len, &w->d, &err))
		DIE(w, "not admitted");
	free(json);
	return a;
}

static void live(struct capkm *c, u_int64_t seed, unsigned int operations)
{
	struct world w = { .seed = seed, .state = seed * 2654435761u + 1, .ready = true };
	const struct capkm_observe_backend b = {
		.sz = sizeof(b), .context = &w, .ready = b_ready, .describe = b_describe,
		.estimate = b_estimate, .transform = b_transform,
	};
	struct capkm_observe_admitted *a = make_plan(&w);

	if (capkm_observe_open(c, a, &b, NULL, &w.o, &err))
		DIE(&w, "not opened");
	capkm_observe_admitted_free(a);
	for (unsigned int i = 0; i < operations; i++) {
		snprintf(w.what, sizeof(w.what), "operation %u, step of %llu", i, (unsigned long long)w.at);
		switch (roll(&w, 12)) {
		case 0: case 1: case 2:
			begin(&w);
			break;
		case 3: case 4:
			take(&w);
			break;
		case 5:
			save(&w);
			break;
		case 6:
			if (!roll(&w, 3))
				go_back(&w);
			break;
		default:
			show(&w);
		}
	}
	for (int i = 0; i < SAVED; i++)
		capkm_observe_checkpoint_free(w.saved[i].cp);
	capkm_observe_close(w.o);
	capkm_observe_discovery_free(w.d);
}

/* I-7 to I-10, ER-10 to ER-20, ER-41 to ER-44 */
TEST(random_sessions)
{
	const u_int64_t first = t_param("CAPKM_SEED", 1, 1);
	const u_int64_t worlds = t_param("CAPKM_OBSERVE_WORLDS", 400, 25);
	struct cl *cl = t_client();

	t_domain(cl);
	for (u_int64_t seed = first; seed < first + worlds; seed++)
		live(cl->c, seed, 200);
	t_close(cl);
	t_no_leaks();
}

TEST_HARNESS_MAIN
