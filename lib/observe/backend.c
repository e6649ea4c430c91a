// SPDX-License-Identifier: MIT
/* Calls of a backend, and what its errors mean. */
#include "observe.h"

#define WHY		256

static int is_typed(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EINVAL || rc == -EOVERFLOW ||
	       rc == -EBUSY || rc == -ESTALE;
}

static int told(struct fault *f, int rc, const char *why)
{
	if (!rc)
		return 0;
	if (is_typed(rc))
		return fault(f, rc, "%s", why);
	return fault(f, -EIO, "native capture failed: %s", why);
}

int backend_get(struct capkm_observe_backend *known,
		const struct capkm_observe_backend *given, const char *call,
		struct capkm_error *err)
{
	int rc = capkm_opts(known, sizeof(*known), given, call, err);

	if (rc || (known->describe && known->estimate && known->transform))
		return rc;
	return capkm_error_set(err, -EINVAL, CAPKM_NO_INDEX, 0,
		"%s: a backend needs describe, estimate and transform", call);
}

int backend_ready(const struct capkm_observe_backend *b, const void *tensor,
		  struct fault *f)
{
	char why[WHY] = "";

	if (!b->ready)
		return 0;
	return told(f, b->ready(b->context, tensor, why, sizeof(why)), why);
}

/* Whatever is wrong here, it is the tensor's owner who has it wrong. */
int backend_describe(const struct capkm_observe_backend *b, const void *tensor,
		     struct shape *shape, uint32_t *dtype, struct fault *f)
{
	char why[WHY] = "";

	return told(f, b->describe(b->context, tensor, shape->extents,
				   &shape->rank, dtype, why, sizeof(why)) ?
		    -EIO : 0, why);
}

/* It only calculates: no error of a device. */
int backend_estimate(const struct capkm_observe_backend *b,
		     const struct capkm_observe_geometry *geometry,
		     struct capkm_usage *usage, struct fault *f)
{
	char why[WHY] = "";
	int rc;

	*usage = (struct capkm_usage){ 0 };
	rc = b->estimate(b->context, geometry, usage, why, sizeof(why));
	return told(f, !rc || is_typed(rc) ? rc : -EINVAL, why);
}

int backend_transform(const struct capkm_observe_backend *b, const void *tensor,
		      const struct capkm_observe_geometry *geometry,
		      struct capkm_observe_payload *payload, struct fault *f)
{
	char why[WHY] = "";

	return told(f, b->transform(b->context, tensor, geometry, payload, why,
				    sizeof(why)), why);
}
