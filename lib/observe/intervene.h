/* SPDX-License-Identifier: MIT */
/* Interventions, for the files that have to do with them. */
#ifndef CAPKM_LIB_OBSERVE_INTERVENE_H
#define CAPKM_LIB_OBSERVE_INTERVENE_H

#include "observe.h"

#define EVIDENCE_MAX	4u		/* records of an operation */

/* A record of evidence is that of a selection which nobody has made. */
struct evidence {
	struct capkm_observe_selection selection;
	struct capkm_observe_point point;
};

/* What follows from an operation and its point. */
struct operation {
	struct evidence region;		/* which its slices select */
	uint32_t evidence_len;
	struct evidence evidence[EVIDENCE_MAX];
};

struct capkm_intervene_admitted {
	struct capkm_intervene_plan plan;
	const struct capkm_intervene_point *points;	/* one for each operation */
	uint32_t points_len;
	struct capkm_observe_request request;
	const char *artifact_identity;
	const char *session_identity;	/* of the discovery */
	const char *session_id;		/* of the caller */
	char identity[CAPKM_INTERVENE_IDENTITY];
	const struct operation *operations;	/* one for each; not in JSON */
};

/* What an operation selects, as far as that is known: bit i is of axis i. */
struct region {
	uint64_t full[CAPKM_OBSERVE_RANK];
	uint64_t selected[CAPKM_OBSERVE_RANK];
	uint32_t full_known;
	uint32_t selected_known;
};

/* intervene_action.c */

static inline bool is_routing(const struct capkm_intervene_point *point)
{
	return point->stage == CAPKM_STAGE_ROUTING_BEFORE_DISPATCH;
}

/* What a tensor must have that an action is for. */
uint32_t dtype_of(const struct capkm_intervene_action *action);
/* Bytes of its values. */
uint64_t payload_of(const struct capkm_intervene_action *action);
/* Is it one of this point, whatever the geometry? */
int action_check(const struct capkm_intervene_action *action,
		 const struct capkm_intervene_point *point, struct fault *f);
/* Does it fit what is selected? */
int action_fits(const struct capkm_intervene_action *action,
		const struct capkm_intervene_point *point,
		const struct region *region, struct fault *f);
/* Index of an axis, or -1. */
int point_axis(const struct capkm_intervene_point *point, const char *name);

/* intervene_admit.c */

int intervene_admit(const struct capkm_intervene_plan *plan,
		    const struct capkm_intervene_discovery *discovery,
		    const struct capkm_observe_request *request,
		    const char *session_id,
		    struct capkm_intervene_admitted **admitted,
		    struct fault *f);
/* Admits it again: -EINVAL if that is not the same. */
int intervene_readmit(const struct capkm_intervene_admitted *admitted,
		      const struct capkm_intervene_discovery *discovery,
		      struct fault *f);
/* Another box with the same. */
int intervene_copy(const struct capkm_intervene_admitted *admitted,
		   struct capkm_intervene_admitted **copy, struct fault *f);
bool same_request(const struct capkm_observe_request *a,
		  const struct capkm_observe_request *b);

/* usage.c */

/* What the record of an operation costs, without its evidence (ER-30). */
int usage_of_operation(const struct capkm_intervene_admitted *admitted,
		       uint32_t i, struct capkm_usage *usage, struct fault *f);

#endif /* CAPKM_LIB_OBSERVE_INTERVENE_H */
