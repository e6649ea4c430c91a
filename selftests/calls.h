/* SPDX-License-Identifier: GPL-2.0-only */
/* Calls of the library in tests: the error that they fill, and what it must say. */
#ifndef CAPKM_CALLS_H
#define CAPKM_CALLS_H

#include "capkm_test.h"

/* Options on the spot. */
#define WITH(type, ...) (&(type)CAPKM_OPTS(type, __VA_ARGS__))

static __thread struct capkm_error err T_UNUSED = CAPKM_OPTS(struct capkm_error);

/* A call that goes well, and one that does not; if it is otherwise, the text is shown. */
#define OK(call) do {							\
	err.text[0] = 0;						\
	ASSERT_EQ(0, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
} while (0)

#define REFUSED(rc, call) do {						\
	err.text[0] = 0;						\
	err.err = 0;							\
	ASSERT_EQ(rc, (call)) {						\
		TH_LOG(#call ": %s", err.text);				\
	}								\
	ASSERT_EQ(rc, err.err);						\
	ASSERT_NE(0, err.text[0]);					\
} while (0)

#define HAS(text_, part)						\
	ASSERT_NE(NULL, strstr((const char *)(text_), part)) {		\
		TH_LOG("no \"%s\" in: %s", part, (const char *)(text_));	\
	}

#define SAYS(part) HAS(err.text, part)

#define BEGINS(part)							\
	ASSERT_EQ(0, strncmp(err.text, part, strlen(part))) {		\
		TH_LOG("no \"%s\" at the beginning of: %s", part, err.text);	\
	}

/* Memory that there is not must be refused, not reported as an error of the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "allocator_may_return_null=1";
}

#endif /* CAPKM_CALLS_H */
