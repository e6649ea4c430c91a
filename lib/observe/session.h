/* SPDX-License-Identifier: MIT */
/* A session, for session.c and checkpoint.c. */
#ifndef CAPKM_LIB_OBSERVE_SESSION_H
#define CAPKM_LIB_OBSERVE_SESSION_H

#include "intervene.h"

/* Where a session is; a checkpoint has a copy. */
struct position {
	uint32_t phase;
	bool has_step;			/* one was begun: this is it */
	uint64_t prediction;
};

/* Used by one thread at a time, which is for the caller to see to. */
struct capkm_observe {
	struct capkm *c;
	uint64_t owner;			/* of this session only, never written anywhere */
	struct capkm_observe_admitted *admitted;
	struct capkm_observe_backend backend;
	uint64_t domain;
	uint64_t ledger;		/* in it */
	bool keeps;			/* closing leaves the ledger */
	uint64_t generation;		/* process that opened it, see lib/fork.h */
	struct capkm_observe *next;	/* session.c: of all that are open */
	struct capkm_usage last;	/* that the ledger was known to be charged with */
	struct position at;
	bool ready;			/* for a checkpoint */
	struct capkm_observe_step *step;	/* a box; NULL: nothing to take */
	struct capkm_intervene_admitted *interventions;	/* a box; NULL: none */
	bool routes;			/* a router was told of an operation: */
	uint32_t routed;		/* this one. It has not been heard of yet */
};

/* What a checkpoint has of interventions. */
struct kept {
	const char *session_id;
	struct capkm_intervene_plan plan;
	const char *identity;
};

/*
 * The ledger is named by its domain, its id there and, since a domain and an id come
 * again when the machine has been started anew, by its date.
 */
struct capkm_observe_checkpoint {
	uint32_t schema_version;
	uint64_t owner;			/* 0: it came from JSON */
	const char *artifact_identity;
	struct capkm_observe_plan plan;
	struct capkm_observe_request request;
	const char *plan_identity;
	const struct kept *interventions;	/* NULL: none */
	struct position at;
	struct capkm_usage cumulative_usage;
	uint64_t domain;
	uint64_t ledger;
	uint64_t ledger_created_ns;
};
extern const struct type type_checkpoint;

/* A session without a ledger. */
int session_new(struct capkm *c, const struct capkm_observe_admitted *admitted,
		const struct capkm_observe_backend *backend,
		struct capkm_observe **out, struct fault *f);
/* What session_new() has made. NULL is fine. */
void session_free(struct capkm_observe *s);
/*
 * It has its ledger now. -EBUSY: an open session of this process has it. The authority
 * cannot see that if both have the same handle.
 */
int session_open(struct capkm_observe *s, uint64_t ledger, struct fault *f);
/* -ECANCELED in a forked child. */
int session_here(const struct capkm_observe *s, struct fault *f);
/* What a budget of @limits is called with. */
int session_ledger(struct capkm *c, const struct capkm_observe_limits *limits,
		   const struct capkm_usage *inherited, const char *label,
		   uint64_t *ledger, struct fault *f);
int session_usage(const struct capkm_observe *s,
		  struct capkm_ledger_query *query, struct fault *f);
/* -EDQUOT, also if the ledger says to skip: that is for the caller to know. */
int session_charge(const struct capkm_observe *s,
		   const struct capkm_usage *usage, struct fault *f);

/* A record before there is a value, charged. Its texts are the selection's and point's. */
int record_begin(const struct capkm_observe *s,
		 const struct capkm_observe_selection *selection,
		 const struct capkm_observe_point *point, uint32_t phase,
		 uint64_t prediction, struct capkm_observe_record *record,
		 struct fault *f);
/* A step outlives its session: it gets the texts, too. */
int record_own(struct capkm_observe_step *step,
	       struct capkm_observe_record *record, struct fault *f);
int own_texts(struct capkm_observe_step *step, const char **const *texts,
	      size_t n, struct fault *f);
/* Observes a tensor, as the record then says. 0: also if that was skipped. */
int record_capture(struct capkm_observe *s,
		   const struct capkm_observe_selection *selection,
		   const struct capkm_observe_point *point,
		   struct capkm_observe_record *record, const void *tensor,
		   struct fault *f);
/* What a record can have of a message. */
const char *message_of(struct arena *arena, const char *message);

/* record.c */

/* Of a step that was read. -EINVAL */
int step_check(const struct capkm_observe_step *step, struct fault *f);

/* intervene.c */

/* The session's from now on: a copy of what was admitted. None of an empty plan. */
int session_intervene(struct capkm_observe *s,
		      const struct capkm_intervene_admitted *admitted,
		      struct fault *f);
/* Records of the step's operations. */
int intervene_begin(struct capkm_observe *s, struct fault *f);
/* Has everything been done? */
int intervene_check(const struct capkm_observe *s, struct fault *f);
/* The record of an operation in the step. */
static inline struct capkm_intervene_record *
intervention(const struct capkm_observe *s, uint32_t i)
{
	return (struct capkm_intervene_record *)&s->step->interventions[i];
}
/* May operation @i be done now? */
int operation_is_due(const struct capkm_observe *s, uint32_t i, struct fault *f);
/* Has the step records of operations? */
int operations_have_begun(const struct capkm_observe *s, struct fault *f);
/* Sets what became of operation @i. Returns @rc. */
int operation_settle(struct capkm_observe *s, uint32_t i, int rc,
		     struct fault *f);
/* Record @j of the evidence of operation @i. */
int operation_witness(struct capkm_observe *s, uint32_t i, uint32_t j,
		      const void *tensor, struct fault *f);

#endif /* CAPKM_LIB_OBSERVE_SESSION_H */
