// SPDX-License-Identifier: MIT
#include "fast.h"
#include "internal.h"
#include "test_hooks.h"

#include <string.h>

void capkm_test_die(struct capkm *c, uint32_t pid)
{
	if (capkm_authority(c) == CAPKM_AUTHORITY_EMBEDDED)
		capkm_embedded_die(c->state, pid);
}

void *capkm_test_table(struct capkm *c)
{
	return c->transport->map ? c->transport->map(c->state, CAPKM_MAP_TABLE,
						     CAPKM_TABLE_BYTES, true) : NULL;
}

static uint64_t ranges(const struct capkm_claim **out, uint64_t uptr)
{
	*out = (const void *)(uintptr_t)uptr;
	return uptr;
}

static bool enter(struct capkm *c, struct capkm_scope_enter *a)
{
	struct capkm_scope_opts o = CAPKM_OPTS(struct capkm_scope_opts);
	struct capkm_where w = { .stream = a->place.stream, .slot = a->place.slot };
	struct sets s = { .reads_len = a->reads_len, .writes_len = a->writes_len };
	char label[CAPKM_LABEL_MAX + 1] = "";
	struct capkm_scope scope;

	if (a->size != sizeof(*a) || a->flags & ~CAPKM_PLACE_F_SLOT ||
	    a->place.__reserved || !a->place.stream || a->label_len > CAPKM_LABEL_MAX ||
	    !a->label_len != !a->label_uptr || (a->reports_len && !a->reports_uptr) ||
	    !ranges(&s.writes, a->writes_uptr) ||
	    (!ranges(&s.reads, a->reads_uptr) && a->reads_len))
		return false;
	memcpy(w.device, a->place.device, sizeof(w.device));
	w.flags = a->flags & CAPKM_PLACE_F_SLOT ? CAPKM_WHERE_SLOT : 0;
	if (a->label_len)
		memcpy(label, (const void *)(uintptr_t)a->label_uptr, a->label_len);
	o.label = a->label_len ? label : NULL;
	if (!capkm_fast_enter(c, &w, &s, &o, &scope))
		return false;
	a->out_reports = 0;
	a->out_result = CAPKM_CLEAN;
	a->out_scope = scope.id;
	a->out_sequence = scope.sequence;
	a->out_window = 0;
	a->out_failure = 0;
	return true;
}

static bool leave(struct capkm *c, struct capkm_scope_exit *a)
{
	struct capkm_scope s = { .id = a->scope };

	if (a->size != sizeof(*a) || !(a->scope & CAPKM_SCOPE_FAST) ||
	    a->flags & ~CAPKM_SCOPE_EXIT_F_COMPLETE || a->kind ||
	    a->code || a->text_uptr || a->text_len || a->stack_uptr || a->stack_len ||
	    !capkm_fast_exit(c, &s, a->flags))
		return false;
	a->out_failure = 0;
	a->out_sequence = s.sequence;
	return true;
}

static bool check(struct capkm *c, struct capkm_check *a)
{
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	const struct capkm_claim *claims;

	if (a->size != sizeof(*a) || a->flags || a->since || !ranges(&claims, a->claims_uptr) ||
	    (a->reports_len && !a->reports_uptr) ||
	    !capkm_fast_check(c, claims, a->claims_len, &answer))
		return false;
	a->out_reports = 0;
	a->out_result = answer.out_result;
	a->out_unconfirmed = answer.out_unconfirmed;
	a->out_sequence = answer.out_sequence;
	return true;
}

static _Thread_local uint64_t fast_count;

uint64_t capkm_test_fast_count(void)
{
	return fast_count;
}

int capkm_test_call(struct capkm *c, unsigned int nr, void *arg)
{
	bool fast = false;

	switch (nr) {
	case CAPKM_NR_BUFFER_CREATE:
		if (capkm_fast_open(c))
			return -ENOMEM;
		break;
	case CAPKM_NR_SCOPE_ENTER:
		fast = enter(c, arg);
		break;
	case CAPKM_NR_SCOPE_EXIT:
		fast = leave(c, arg);
		break;
	case CAPKM_NR_CHECK:
		fast = check(c, arg);
		break;
	}
	fast_count += fast;
	return fast ? 0 : capkm_call(c, nr, arg);
}
