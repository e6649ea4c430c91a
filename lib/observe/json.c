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

	decode_box(type, json, len, max, value, &f);
	return fault_tell(&f, call, err);
}

#define JSON(name, max)							\
int capkm_observe_##name##_parse(const char *json, size_t len,		\
				 struct capkm_observe_##name **name,	\
				 struct capkm_error *err)		\
{									\
	void *value;							\
	int rc = from_json(&type_##name, json, len, max, &value,	\
			   "observe_" #name "_parse", err);		\
									\
	if (!rc)							\
		*name = value;						\
	return rc;							\
}									\
									\
int capkm_observe_##name##_json(const struct capkm_observe_##name *name,	\
				char **json, size_t *len,		\
				struct capkm_error *err)		\
{									\
	return to_json(&type_##name, name, json, len,			\
		       "observe_" #name "_json", err);			\
}									\
									\
void capkm_observe_##name##_free(struct capkm_observe_##name *name)	\
{									\
	box_free(name);							\
}

JSON(plan, CAPKM_OBSERVE_JSON)
JSON(discovery, CAPKM_OBSERVE_JSON)
JSON(step, SIZE_MAX)
JSON(checkpoint, CAPKM_OBSERVE_JSON * 2)
