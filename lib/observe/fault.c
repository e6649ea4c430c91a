// SPDX-License-Identifier: MIT
#include "observe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static uint32_t reason_of(int rc)
{
	switch (rc) {
	case -EDQUOT:
		return CAPKM_REASON_LIMIT;
	case -EOPNOTSUPP:
		return CAPKM_REASON_UNSUPPORTED;
	case -ESTALE:
		return CAPKM_REASON_TAINTED;
	case -EINVAL:
	case -ENOENT:
	case -EOVERFLOW:
		return CAPKM_REASON_INVALID;
	default:
		return CAPKM_REASON_NATIVE;
	}
}

/*
 * It is one line of UTF-8, whatever a plan or a backend has put into it. What is cut
 * off at the end may be half a character.
 */
static void clean(char *text)
{
	size_t n;

	for (; *text; text += n) {
		n = utf8_char(text);
		if (n > 1)
			continue;
		if (!n || (unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
		n = 1;
	}
}

int fault(struct fault *f, int rc, const char *format, ...)
{
	va_list args;

	*f = (struct fault){
		.rc = rc,
		.index = CAPKM_NO_INDEX,
		.why = { .kind = reason_of(rc) },
	};
	va_start(args, format);
	vsnprintf(f->text, sizeof(f->text), format, args);
	va_end(args);
	clean(f->text);
	return rc;
}

int fault_no_memory(struct fault *f)
{
	return fault(f, -ENOMEM, "out of memory");
}

int fault_limit(struct fault *f, uint32_t axis, enum capkm_bound bound,
		uint64_t used, uint64_t most)
{
	static const char *const of[] = {
		[CAPKM_BOUND_STEP] = "in a step",
		[CAPKM_BOUND_TOTAL] = "in all (cumulative)",
		[CAPKM_BOUND_DOMAIN] = "in all (cumulative) of the domain, set by its administrator",
	};
	/* A newer authority may have more of them. */
	const char *where = bound <= CAPKM_BOUND_DOMAIN ? of[bound] : NULL;

	fault(f, -EDQUOT, "budget '%s' of %" PRIu64 " %s: %" PRIu64 " would be used",
	      capkm_axis_name(axis), most, where ? where : "elsewhere", used);
	f->why.budget = axis;
	f->why.cumulative = bound != CAPKM_BOUND_STEP;
	return f->rc;
}

int fault_of(struct fault *f, const struct capkm_error *err)
{
	return fault(f, err->err, "%s", err->text);
}

int fault_tell(const struct fault *f, const char *call, struct capkm_error *err)
{
	if (!f->rc)
		return 0;
	return capkm_error_set(err, f->rc, f->index, 0, "%s: %s", call, f->text);
}
