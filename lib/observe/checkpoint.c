// SPDX-License-Identifier: MIT
/* Where a session is, and sessions that go on from there. */
#include "session.h"

#include <inttypes.h>
#include <string.h>

static uint64_t next_of(const struct position *at)
{
	return at->has_step ? at->prediction + 1 : 0;
}

/* checkpoints */

static int checkpoint(const struct capkm_observe *s,
		      const struct capkm_observe_discovery *discovery,
		      struct capkm_observe_checkpoint **out, struct fault *f)
{
	struct capkm_observe_checkpoint c = {
		.schema_version = CAPKM_OBSERVE_SCHEMA,
		.artifact_identity = discovery->artifact_identity,
		.plan = s->admitted->plan,
		.request = s->admitted->request,
		.plan_identity = s->admitted->identity,
		.at = s->at,
		.domain = s->domain,
		.ledger = s->ledger,
	};
	const struct capkm_intervene_admitted *a = s->interventions;
	struct kept kept;
	struct capkm_ledger_query query;
	void *copy;
	int rc;

	if (s->routes)
		return fault(f, -EINVAL, "a router was told what to do and has not been heard of");
	if (s->step)
		return fault(f, -EINVAL, "the records of prediction %" PRIu64 " are not taken",
			     s->at.prediction);
	if (!s->ready)
		return fault(f, -EINVAL, "the last step failed; restore an earlier checkpoint, or make another step");
	rc = readmit(s->admitted, discovery, f);
	if (!rc && a && strcmp(a->artifact_identity, discovery->artifact_identity))
		rc = fault(f, -EINVAL, "the interventions are of the model '%.80s', not '%.80s'",
			   a->artifact_identity, discovery->artifact_identity);
	if (a) {
		kept = (struct kept){
			.session_id = a->session_id, .plan = a->plan,
			.identity = a->identity,
		};
		c.interventions = &kept;
	}
	if (!rc)
		rc = session_usage(s, &query, f);
	if (rc)
		return rc;
	c.cumulative_usage = query.out_total;
	c.ledger_created_ns = query.out_created_ns;
	rc = copy_box(&type_checkpoint, &c, &copy, f);
	if (!rc) {
		*out = copy;
		(*out)->owner = s->owner;
	}
	return rc;
}

int capkm_observe_checkpoint(struct capkm_observe *session,
			     const struct capkm_observe_discovery *discovery,
			     struct capkm_observe_checkpoint **out,
			     struct capkm_error *err)
{
	struct fault f = { 0 };

	checkpoint(session, discovery, out, &f);
	return fault_tell(&f, "observe_checkpoint", err);
}

uint64_t capkm_observe_checkpoint_next(const struct capkm_observe_checkpoint *c)
{
	return next_of(&c->at);
}

const struct capkm_usage *
capkm_observe_checkpoint_usage(const struct capkm_observe_checkpoint *c)
{
	return &c->cumulative_usage;
}

/* going back */

static int may_restore(const struct capkm_observe *s,
		       const struct capkm_observe_checkpoint *c,
		       struct fault *f)
{
	int rc = session_here(s, f);

	if (rc)
		return rc;
	if (!c->owner)
		return fault(f, -EINVAL, "a checkpoint from JSON is for observe_resume");
	if (c->owner != s->owner)
		return fault(f, -EINVAL, "the checkpoint is another session's");
	if (strcmp(c->plan_identity, s->admitted->identity))
		return fault(f, -EINVAL, "the checkpoint is of another plan");
	if (strcmp(c->interventions ? c->interventions->identity : "",
		   s->interventions ? s->interventions->identity : ""))
		return fault(f, -EINVAL, "the checkpoint is of other interventions");
	if (s->routes)
		return fault(f, -EINVAL, "a router was told what to do and has not been heard of");
	if (s->step)
		return fault(f, -EINVAL, "the records of prediction %" PRIu64 " are not taken",
			     s->at.prediction);
	return 0;
}

int capkm_observe_may_restore(const struct capkm_observe *session,
			      const struct capkm_observe_checkpoint *checkpoint,
			      struct capkm_error *err)
{
	struct fault f = { 0 };

	may_restore(session, checkpoint, &f);
	return fault_tell(&f, "observe_restore", err);
}

int capkm_observe_restore(struct capkm_observe *session,
			  const struct capkm_observe_checkpoint *checkpoint,
			  struct capkm_error *err)
{
	int rc = capkm_observe_may_restore(session, checkpoint, err);

	if (!rc) {
		session->at = checkpoint->at;
		session->ready = true;
	}
	return rc;
}

/* going on */

/* Can one go on from it with this model? */
static int is_of(const struct capkm_observe_checkpoint *c,
		 const struct capkm_observe_discovery *discovery,
		 struct fault *f)
{
	int rc = encode_check(&type_discovery, discovery, SIZE_MAX,
			      "the discovery", f);

	/* It may come from a file. */
	if (!rc && c->schema_version != CAPKM_OBSERVE_SCHEMA)
		return fault(f, -EINVAL, "the schema_version of the checkpoint is %" PRIu32 ", not %u",
			     c->schema_version, CAPKM_OBSERVE_SCHEMA);
	if (!rc && c->at.prediction >= c->request.max_predictions)
		return fault(f, -EINVAL, "the checkpoint is at prediction %" PRIu64 " of a request of %" PRIu64,
			     c->at.prediction, c->request.max_predictions);
	if (rc || !strcmp(c->artifact_identity, discovery->artifact_identity))
		return rc;
	return fault(f, -EINVAL, "the checkpoint is of the model '%.80s', not '%.80s'",
		     c->artifact_identity, discovery->artifact_identity);
}

/* What is changed from there on, and by whose name: NULL if nothing is. */
static int bind(const struct capkm_observe_checkpoint *c,
		const struct capkm_intervene_opts *o,
		const struct capkm_observe_request *request,
		struct capkm_intervene_admitted **admitted, struct fault *f)
{
	const struct capkm_intervene_plan *plan = o->plan;

	if (!o->sz)
		return c->interventions ?
		       fault(f, -EINVAL, "the checkpoint has interventions, which must be bound anew") : 0;
	if (!o->discovery || !o->session_id || !*o->session_id)
		return fault(f, -EINVAL, "interventions need a discovery and the name of their session");
	if (!plan && c->interventions)
		plan = &c->interventions->plan;
	if (!plan)
		return fault(f, -EINVAL, "neither the checkpoint nor the caller has interventions");
	if (!o->discovery->artifact_identity ||
	    strcmp(o->discovery->artifact_identity, c->artifact_identity))
		return fault(f, -EINVAL, "the interventions are of another model than the checkpoint's '%.80s'",
			     c->artifact_identity);
	return intervene_admit(plan, o->discovery, request, o->session_id,
			       admitted, f);
}

/* Is it the ledger that the checkpoint means? It may have been charged since then. */
static int same_ledger(struct capkm *handle,
		       const struct capkm_observe_checkpoint *c,
		       struct fault *f)
{
	const struct capkm_observe s = { .c = handle, .ledger = c->ledger };
	const uint64_t domain = capkm_domain_id(handle);
	struct capkm_ledger_query query;
	int rc;

	if (domain != c->domain)
		return fault(f, -EINVAL, "the checkpoint's ledger is in domain %" PRIu64 ", the handle in %" PRIu64,
			     c->domain, domain);
	rc = session_usage(&s, &query, f);
	if (rc)
		return rc;
	if (query.out_created_ns != c->ledger_created_ns)
		return fault(f, -ENOENT, "ledger %" PRIu64 " is another one than the checkpoint's, which is gone",
			     c->ledger);
	return 0;
}

/* A session without a ledger. *@s is for session_free() also if that fails. */
static int session_for(struct capkm *handle,
		       const struct capkm_observe_admitted *admitted,
		       const struct capkm_intervene_admitted *interventions,
		       const struct capkm_observe_backend *backend,
		       struct capkm_observe **s, struct fault *f)
{
	int rc = session_new(handle, admitted, backend, s, f);

	return !rc && interventions ? session_intervene(*s, interventions, f) : rc;
}

static int resume(struct capkm *handle,
		  const struct capkm_observe_checkpoint *c,
		  const struct capkm_observe_discovery *discovery,
		  const struct capkm_observe_backend *backend,
		  const struct capkm_intervene_opts *o,
		  struct capkm_observe **out, struct fault *f)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_observe_admitted *admitted = NULL;
	struct capkm_intervene_admitted *interventions = NULL;
	struct capkm_observe *s = NULL;
	int rc = is_of(c, discovery, f);

	if (!rc)
		rc = admit(&c->plan, discovery, &c->request, &admitted, f);
	if (!rc && strcmp(admitted->identity, c->plan_identity))
		rc = fault(f, -EINVAL, "the plan was admitted to another catalog");
	if (!rc)
		rc = bind(c, o, &c->request, &interventions, f);
	if (!rc)
		rc = same_ledger(handle, c, f);
	if (!rc)
		rc = session_for(handle, admitted, interventions, backend, &s, f);
	box_free(admitted);
	box_free(interventions);
	if (!rc)
		rc = session_open(s, c->ledger, f);
	if (rc) {
		session_free(s);
		return rc;
	}
	if (capkm_ledger_adopt(handle, c->ledger, &err)) {
		capkm_observe_keep(s);
		capkm_observe_close(s);
		return fault_of(f, &err);
	}
	s->at = c->at;
	*out = s;
	return 0;
}

int capkm_intervene_resume(struct capkm *c,
			   const struct capkm_observe_checkpoint *checkpoint,
			   const struct capkm_observe_discovery *discovery,
			   const struct capkm_observe_backend *backend,
			   const struct capkm_intervene_opts *opts,
			   struct capkm_observe **session,
			   struct capkm_error *err)
{
	static const char call[] = "observe_resume";
	struct capkm_intervene_opts o;
	struct capkm_observe_backend b;
	struct fault f = { 0 };
	int rc = backend_get(&b, backend, call, err);

	if (!rc)
		rc = capkm_opts(&o, sizeof(o), opts, call, err);
	if (rc)
		return rc;
	resume(c, checkpoint, discovery, &b, &o, session, &f);
	return fault_tell(&f, call, err);
}

int capkm_observe_resume(struct capkm *c,
			 const struct capkm_observe_checkpoint *checkpoint,
			 const struct capkm_observe_discovery *discovery,
			 const struct capkm_observe_backend *backend,
			 struct capkm_observe **session,
			 struct capkm_error *err)
{
	return capkm_intervene_resume(c, checkpoint, discovery, backend, NULL,
				      session, err);
}

static int fork_session(struct capkm *handle,
			const struct capkm_observe_checkpoint *c,
			const struct capkm_observe_discovery *discovery,
			const struct capkm_observe_backend *backend,
			const struct capkm_observe_fork_opts *o,
			const struct capkm_intervene_opts *changes,
			struct capkm_observe **out, struct fault *f)
{
	struct capkm_observe_admitted *admitted = NULL;
	struct capkm_intervene_admitted *interventions = NULL;
	struct capkm_observe_plan plan = c->plan;
	struct capkm_observe_request request = c->request;
	struct capkm_observe *s = NULL;
	uint64_t ledger;
	int rc = is_of(c, discovery, f);

	plan.limits = o->limits;
	request.max_predictions = o->max_predictions;
	if (!rc)
		rc = admit(&plan, discovery, &request, &admitted, f);
	if (!rc)
		rc = preflight(admitted, NULL, backend, next_of(&c->at),
			       &c->cumulative_usage, f);
	if (!rc && c->interventions && changes->session_id &&
	    !strcmp(changes->session_id, c->interventions->session_id))
		rc = fault(f, -EINVAL, "the child needs another name than its parent '%.80s'",
			   changes->session_id);
	if (!rc)
		rc = bind(c, changes, &request, &interventions, f);
	if (!rc && interventions)
		rc = preflight(admitted, interventions, backend,
			       next_of(&c->at), &c->cumulative_usage, f);
	if (!rc)
		rc = session_for(handle, admitted, interventions, backend, &s, f);
	box_free(admitted);
	box_free(interventions);
	if (!rc)
		rc = session_ledger(handle, &o->limits, &c->cumulative_usage,
				    o->label, &ledger, f);
	if (!rc)
		rc = session_open(s, ledger, f);
	if (rc) {
		session_free(s);
		return rc;
	}
	s->at = c->at;
	*out = s;
	return 0;
}

int capkm_observe_fork(struct capkm *c,
		       const struct capkm_observe_checkpoint *checkpoint,
		       const struct capkm_observe_discovery *discovery,
		       const struct capkm_observe_backend *backend,
		       const struct capkm_observe_fork_opts *opts,
		       struct capkm_observe **session, struct capkm_error *err)
{
	static const char call[] = "observe_fork";
	struct capkm_observe_backend b;
	struct capkm_observe_fork_opts o;
	struct capkm_intervene_opts changes;
	struct fault f = { 0 };
	int rc = backend_get(&b, backend, call, err);

	if (!rc)
		rc = capkm_opts(&o, sizeof(o), opts, call, err);
	if (!rc)
		rc = capkm_opts(&changes, sizeof(changes), o.interventions,
				call, err);
	if (rc)
		return rc;
	fork_session(c, checkpoint, discovery, &b, &o, &changes, session, &f);
	return fault_tell(&f, call, err);
}
