// SPDX-License-Identifier: MIT
/* Calls of a backend, and what its errors mean. */
#include "backend.h"
#include "intervene.h"

#define WHY		256

static int is_typed(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EINVAL || rc == -EOVERFLOW ||
	       rc == -EBUSY || rc == -ESTALE;
}

/* @why has WHY bytes, which a backend may have filled to the last. */
static int told_of(struct fault *f, int rc, const char *what, char *why)
{
	why[WHY - 1] = '\0';
	if (!rc)
		return 0;
	if (is_typed(rc))
		return fault(f, rc, "%s", why);
	return fault(f, -EIO, "native %s failed: %s", what, why);
}

static int told(struct fault *f, int rc, char *why)
{
	return told_of(f, rc, "capture", why);
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

/*
 * It only calculates: no error of a device. The arrays of the payload are the session's,
 * and are charged whatever a backend says.
 */
int backend_estimate(const struct capkm_observe_backend *b,
		     const struct capkm_observe_geometry *geometry,
		     struct capkm_usage *usage, struct fault *f)
{
	char why[WHY] = "";
	__u64 arrays;
	int rc;

	*usage = (struct capkm_usage){ 0 };
	rc = b->estimate(b->context, geometry, usage, why, sizeof(why));
	if (rc)
		return told(f, is_typed(rc) ? rc : -EINVAL, why);
	why[WHY - 1] = '\0';
	if (!capkm_observe_arrays(geometry, &arrays))
		return fault(f, -EOVERFLOW, "the bytes of a payload do not fit into 64 bits");
	if (usage->host_bytes < arrays)
		usage->host_bytes = arrays;
	if (!usage->captures)
		usage->captures = 1;
	return 0;
}

int backend_transform(const struct capkm_observe_backend *b, const void *tensor,
		      const struct capkm_observe_geometry *geometry,
		      struct capkm_observe_payload *payload, struct fault *f)
{
	char why[WHY] = "";

	return told(f, b->transform(b->context, tensor, geometry, payload, why,
				    sizeof(why)), why);
}

int backend_apply(const struct capkm_observe_backend *b, const void *tensor,
		  const struct capkm_observe_geometry *geometry,
		  const struct capkm_intervene_action *action, void **out,
		  struct fault *f)
{
	char why[WHY] = "";

	*out = NULL;
	return told_of(f, b->apply(b->context, tensor, geometry, action, out,
				   why, sizeof(why)), "intervention", why);
}

void backend_release(const struct capkm_observe_backend *b, void *tensor)
{
	if (tensor)
		b->release(b->context, tensor);
}

int backend_estimate_routes(const struct capkm_observe_backend *b,
			    const struct capkm_intervene_point *point,
			    uint64_t rows, struct capkm_usage *usage,
			    struct fault *f)
{
	char why[WHY] = "";
	int rc;

	*usage = (struct capkm_usage){ 0 };
	if (!b->estimate_routes)
		return fault(f, -EOPNOTSUPP, "the backend does not say what keeping the original choice of a router costs");
	rc = b->estimate_routes(b->context, point, rows, usage, why,
				sizeof(why));
	if (rc)
		return told(f, is_typed(rc) ? rc : -EINVAL, why);
	return !usage->captures && !usage->encoded_bytes ? 0 :
	       fault(f, -EINVAL, "keeping the original choice of a router is no capture and has no JSON");
}
