// SPDX-License-Identifier: MIT
/* JSON in and out of what a caller may keep in a file. */
#include "session.h"

static int to_json(const struct type *type, const void *value, char **json,
		   size_t *len, const char *call, struct capkm_error *err)
{
	struct fault f = { 0 };

	encode_text(type, value, json, len, &f);
	return fault_tell(&f, call, err);
}

static int from_json(const struct type *type, const char *json, size_t len,
		     size_t max, void **value, const char *call,
		     struct capkm_error *err)
{
	struct fault f = { 0 };

	if (!decode_box(type, json, len, max, value, &f) &&
	    type == &type_step && step_check(*value, &f))
		box_free(*value);
	return fault_tell(&f, call, err);
}

#define JSON(room, type, name, max)					\
int capkm_##room##_##name##_parse(const char *json, size_t len,	\
				  struct capkm_##room##_##name **name,	\
				  struct capkm_error *err)		\
{									\
	void *value;							\
	int rc = from_json(&type, json, len, max, &value,		\
			   #room "_" #name "_parse", err);		\
									\
	if (!rc)							\
		*name = value;						\
	return rc;							\
}									\
									\
int capkm_##room##_##name##_json(const struct capkm_##room##_##name *name, \
				 char **json, size_t *len,		\
				 struct capkm_error *err)		\
{									\
	return to_json(&type, name, json, len, #room "_" #name "_json",	\
		       err);						\
}									\
									\
void capkm_##room##_##name##_free(struct capkm_##room##_##name *name)	\
{									\
	box_free(name);							\
}

JSON(observe, type_plan, plan, CAPKM_OBSERVE_JSON)
JSON(observe, type_discovery, discovery, CAPKM_OBSERVE_JSON)
JSON(observe, type_step, step, SIZE_MAX)
JSON(observe, type_checkpoint, checkpoint,
     CAPKM_OBSERVE_JSON * 2 + CAPKM_INTERVENE_JSON)
JSON(intervene, type_intervene_plan, plan, CAPKM_INTERVENE_JSON)
JSON(intervene, type_intervene_discovery, discovery, CAPKM_OBSERVE_JSON)
