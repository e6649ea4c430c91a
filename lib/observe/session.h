/* SPDX-License-Identifier: MIT */
/* A session, for session.c and checkpoint.c. */
#ifndef CAPKM_LIB_OBSERVE_SESSION_H
#define CAPKM_LIB_OBSERVE_SESSION_H

#include "observe.h"

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
	uint64_t ledger;
	uint32_t flags;
	struct position at;
	bool ready;			/* for a checkpoint */
	struct capkm_observe_step *step;	/* a box; NULL: nothing to take */
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
	struct position at;
	struct capkm_usage cumulative_usage;
	uint64_t domain;
	uint64_t ledger;
	uint64_t ledger_created_ns;
};
extern const struct type type_checkpoint;

/* A session on a ledger that there is. */
int session_new(struct capkm *c, const struct capkm_observe_admitted *admitted,
		const struct capkm_observe_backend *backend, uint64_t ledger,
		uint32_t flags, struct capkm_observe **out, struct fault *f);
/* What a budget of @limits is called with. */
int session_ledger(struct capkm *c, const struct capkm_observe_limits *limits,
		   const struct capkm_usage *inherited, const char *label,
		   uint64_t *ledger, struct fault *f);
int session_usage(const struct capkm_observe *s,
		  struct capkm_ledger_query *query, struct fault *f);

#endif /* CAPKM_LIB_OBSERVE_SESSION_H */
