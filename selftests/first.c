// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ids above 32 bits, and sequences above 63: a domain that begins to count a little below.
 * The module can only do so if it was built with CAPKM_DEBUG=y.
 */
#include "calls.h"

static bool put_parameter(const char *name, u_int64_t value)
{
	char path[80], text[24];

	snprintf(path, sizeof(path), "/sys/module/capkm/parameters/%s", name);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	return t_put_file(path, text);
}

static bool begin_at(u_int64_t id, u_int64_t sequence)
{
	if (!t_embedded())
		return put_parameter("first_id", id) &&
		       put_parameter("first_sequence", sequence);
	capkm_test_first(id, sequence);
	return true;
}

FIXTURE(first)
{
	struct cl *a;
};

FIXTURE_VARIANT(first)
{
	u_int64_t id, sequence;
};

FIXTURE_VARIANT_ADD(first, bit_31)
{
	.id = (1ull << 31) - 3, .sequence = (1ull << 31) - 8 * CAPKM_SEQUENCE_STEP,
};

FIXTURE_VARIANT_ADD(first, bit_32)
{
	.id = (1ull << 32) - 3, .sequence = (1ull << 32) - 8 * CAPKM_SEQUENCE_STEP,
};

/* No id has the bit of a reference or of a fast scope. */
FIXTURE_VARIANT_ADD(first, bit_63)
{
	.id = (1ull << 63) - (1ull << 20), .sequence = (1ull << 63) - 8 * CAPKM_SEQUENCE_STEP,
};

FIXTURE_SETUP(first)
{
	if (!begin_at(variant->id, variant->sequence))
		return;
	self->a = t_client();
	t_domain(self->a);
	begin_at(0, 0);
}

FIXTURE_TEARDOWN(first)
{
	if (!self->a)
		return;
	t_close(self->a);
	if (t_embedded())
		t_no_leaks();
}

static void submit_one(struct cl *a)
{
	struct capkm_buffer_create create = { .bytes = 8 };
	struct capkm_buffer_close close = { .buffer = CAPKM_REF(0) };
	struct capkm_element e[] = {
		{ CAPKM_NR_BUFFER_CREATE, .arg_uptr = t_ptr(&create) },
		{ CAPKM_NR_BUFFER_CLOSE, .arg_uptr = t_ptr(&close) },
	};
	struct capkm_submit s = { .elements_uptr = t_ptr(e), .elements_len = 2 };

	create.size = sizeof(create);
	close.size = sizeof(close);
	if (t_call(a, CAPKM_NR_SUBMIT, &s) || s.out_error || s.out_done != 2)
		t_die("SUBMIT: %u done, error %u", s.out_done, s.out_error);
}

static unsigned int changed_since(struct cl *a, u_int64_t b, u_int64_t since)
{
	return t_check_flags(a, CAPKM_CHECK_F_UNCHANGED, since, C({ b, 0, 8 })).result;
}

/* By the library, and its fast path where that is. */
static void scopes(struct cl *a, u_int64_t b)
{
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	struct capkm_scope s;
	u_int64_t last = 0;

	for (int i = 0; i < 4; i++) {
		if (capkm_scope_enter(a->c, NULL, NULL, 0, C({ b, 0, 8 }), NULL, &s, NULL,
				      &err) ||
		    capkm_scope_exit(a->c, &s, CAPKM_SCOPE_EXIT_F_COMPLETE, &err) ||
		    capkm_check(a->c, C({ b, 0, 8 }), &answer, &err))
			t_die("%s", err.text);
		if (answer.out_result != CAPKM_CLEAN || s.sequence <= last ||
		    answer.out_sequence < s.sequence)
			t_die("result %u, sequence %" PRIx64 " after %" PRIx64,
			      answer.out_result, (u_int64_t)s.sequence, last);
		last = s.sequence;
	}
}

TEST_F(first, all_goes_on)
{
	struct cl *a = self->a;

	if (!a)
		SKIP(return, "needs a module that was built with CAPKM_DEBUG=y");
	for (int round = 0; round < 4; round++) {
		const u_int64_t s = t_stream(a), x = t_buffer(a, 8), y = t_shared(a, 8);
		u_int64_t f, before, g;

		ASSERT_LT(x, y);
		ASSERT_LT(variant->id, x);
		t_write_enqueued(a, s, C({ y, 0, 8 }));
		t_is_pending(a, y, 0, 8);
		t_confirm(a, s);
		t_is_confirmed(a, y, 0, 8);

		before = t_check(a, C({ x, 0, 8 })).sequence;
		ASSERT_LT(variant->sequence, before);
		ASSERT_EQ(CAPKM_CLEAN, changed_since(a, x, before));
		f = t_fail(a, s, C({ x, 2, 4 }), "first");
		t_is_failed(a, x, 2, 4, f);
		ASSERT_EQ(f, t_skip(a, s, "skipped", C({ x, 0, 8 }), C({ y, 0, 8 })));
		t_is_failed(a, y, 0, 8, f);
		scopes(a, x);
		ASSERT_EQ(CAPKM_CHANGED, changed_since(a, x, before));
		t_write(a, s, C({ y, 0, 8 }));

		/* An enter before an exit that fails, in this order of dates. */
		f = t_enter(a, s, NULL, 0, C({ x, 0, 4 }));
		t_fail(a, s, C({ x, 0, 8 }), "inside");
		t_exit(a, f);
		t_is_clean(a, y, 0, 8);
		t_is_tainted(a, x, 0, 8, CAPKM_KIND_LAUNCH);
		t_write(a, s, C({ x, 0, 8 }));

		g = t_graph(a, s, C({ x, 0, 8 }), C({ y, 0, 8 }));
		t_replay(a, g, s);
		ASSERT_EQ(0, t_destroy(a, g));
		submit_one(a);
		ASSERT_EQ(0, t_drop(a, x));
		ASSERT_EQ(0, t_drop(a, y));
		t_destroy_stream(a, s);
	}
	ASSERT_LT(variant->sequence + 8 * CAPKM_SEQUENCE_STEP,
		  t_domain_query(a).out_sequence);
	t_is_empty(a);
}

TEST_HARNESS_MAIN
