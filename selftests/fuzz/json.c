// SPDX-License-Identifier: GPL-2.0-only
/*
 * What libcapkm-observe reads as JSON: plans, discoveries, steps, checkpoints. The first
 * byte says what the text is. What was taken is written, read again and written again:
 * both texts have to be the same. A plan that stands before a NUL and a discovery is held
 * against that, and the same plan read again is admitted in the same way.
 */
#include <capkm/intervene.h>
#include <capkm/observe.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void __attribute__((noreturn)) wrong(const char *what, const char *text)
{
	fprintf(stderr, "%s: %s\n", what, text);
	abort();
}

#define BOTH_WAYS(room, name)						\
static void room##_##name(const char *text, size_t len)		\
{									\
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);	\
	struct capkm_##room##_##name *value, *again;			\
	char *first, *second;						\
	size_t first_len, second_len;					\
									\
	if (capkm_##room##_##name##_parse(text, len, &value, &err)) {	\
		if (!err.text[0])					\
			wrong(#name, "refused without a word");		\
		return;							\
	}								\
	if (capkm_##room##_##name##_json(value, &first, &first_len, NULL)) \
		wrong(#name, "taken, and cannot be written");		\
	if (capkm_##room##_##name##_parse(first, first_len, &again, NULL)) \
		wrong("written, and not taken", first);			\
	if (capkm_##room##_##name##_json(again, &second, &second_len, NULL) || \
	    first_len != second_len || memcmp(first, second, first_len)) \
		wrong("written in another way", first);			\
	free(first);							\
	free(second);							\
	capkm_##room##_##name##_free(value);				\
	capkm_##room##_##name##_free(again);				\
}

BOTH_WAYS(observe, plan)
BOTH_WAYS(observe, discovery)
BOTH_WAYS(observe, step)
BOTH_WAYS(observe, checkpoint)
BOTH_WAYS(intervene, plan)
BOTH_WAYS(intervene, discovery)

static const struct capkm_observe_request request = {
	.batch = 2, .prompt_tokens = 5, .max_predictions = 3,
};

/* Two texts, with a NUL in between; each in memory of its own, so that nobody reads on. */
static char *behind_nul(const char *text, size_t len, size_t *first, size_t *rest)
{
	const char *nul = memchr(text, 0, len);
	char *second;

	if (!nul)
		return NULL;
	*first = nul - text;
	*rest = len - *first - 1;
	second = malloc(*rest + !*rest);
	memcpy(second, nul + 1, *rest);
	return second;
}

#define ADMIT(room, ...)						\
static void room##_admit(const char *text, size_t len)			\
{									\
	struct capkm_##room##_admitted *admitted, *same;		\
	struct capkm_##room##_discovery *discovery = NULL;		\
	struct capkm_##room##_plan *plan = NULL;			\
	size_t plan_len, rest;						\
	char *second = behind_nul(text, len, &plan_len, &rest);		\
									\
	if (!second)							\
		return;							\
	if (!capkm_##room##_plan_parse(text, plan_len, &plan, NULL) &&	\
	    !capkm_##room##_discovery_parse(second, rest, &discovery, NULL) && \
	    !capkm_##room##_admit(plan, discovery, &request,		\
				  __VA_ARGS__ &admitted, NULL)) {	\
		if (capkm_##room##_admit(capkm_##room##_admitted_plan(admitted), \
					 discovery, &request,		\
					 __VA_ARGS__ &same, NULL) ||	\
		    strcmp(capkm_##room##_admitted_identity(admitted),	\
			   capkm_##room##_admitted_identity(same)))	\
			wrong(#room, "admitted in another way");	\
		capkm_##room##_admitted_free(admitted);			\
		capkm_##room##_admitted_free(same);			\
	}								\
	capkm_##room##_plan_free(plan);					\
	capkm_##room##_discovery_free(discovery);			\
	free(second);							\
}

ADMIT(observe,)
ADMIT(intervene, "session",)

static void (*const readers[])(const char *text, size_t len) = {
	observe_plan, observe_discovery, observe_step, observe_checkpoint,
	intervene_plan, intervene_discovery, observe_admit, intervene_admit,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size || data[0] >= sizeof(readers) / sizeof(readers[0]))
		return -1;
	readers[data[0]]((const char *)data + 1, size - 1);
	return 0;
}
