// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contract of every operation: one row each in rows.h, and each rule is
 * tried on each row. Whatever is refused changes nothing.
 */
#include "rows.h"

/* The state before the calls that must change nothing, of one row at most. */
static struct {
	bool taken;
	struct world *w;
	struct state s;
} before;

static void take_state(struct world *w)
{
	if (before.taken)
		return;
	before.taken = true;
	before.w = w;
	before.s = state(w);
}

static void compare_state(void)
{
	if (!before.taken)
		return;
	before.taken = false;
	unchanged(before.w, before.s);
}

/* After each call; in the machine, which is slow, after each row. */
static void called(void)
{
	if (t_embedded())
		compare_state();
}

static bool at_next_row(const struct row *r)
{
	compare_state();
	at_row(r);
	return r < rows + ARRAY_SIZE(rows);
}

/* t_call() through @cl must return @want and change nothing. */
#define REFUSED(w, cl, arg, want, fmt, ...) do {			\
	int rc_;							\
									\
	take_state(w);							\
	rc_ = t_call(cl, current_row->nr, arg);				\
	if (rc_ != (want))						\
		t_die("%s %s: " fmt ": %d, expected %d", WHAT, ##__VA_ARGS__, \
		      rc_, want);					\
	called();							\
} while (0)

#define FOR_EACH_ROW(r)	for (const struct row *r = rows; at_next_row(r); r++)

FIXTURE(abi)
{
	struct world w;
};

FIXTURE_SETUP(abi)
{
	world_new(&self->w);
}

FIXTURE_TEARDOWN(abi)
{
	world_free(&self->w);
	t_no_leaks();
}

/* An operation without a row is an operation without a test. */
TEST(every_operation_has_a_row)
{
	for (unsigned int nr = 0; nr < T_OPS; nr++) {
		bool found = false;

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			found |= rows[i].nr == nr;
		ASSERT_TRUE(found) {
			TH_LOG("no row for number 0x%02x", nr);
		}
		ASSERT_NE(NULL, t_ops[nr].name);
	}
	ASSERT_EQ(CAPKM_NR_SCOPE_TABLE + 1, T_OPS);
}

/* The rows say the truth: each call would succeed. */
TEST(valid)
{
	FOR_EACH_ROW(r) {
		struct world w;
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };
		int rc;

		world_new(&w);
		r->make(&w, arg);
		rc = t_call(who(&w, r), r->nr, arg);
		if (rc)
			t_die("%s %s: %d", WHAT, rc);
		if (r->result_at && t_get32(arg, r->result_at) != (unsigned int)r->result)
			t_die("%s %s: result %u", WHAT, t_get32(arg, r->result_at));
		world_free(&w);
	}
	t_no_leaks();
}

TEST_F(abi, unknown_flags)
{
	FOR_EACH_ROW(r) {
		for (int bit = 0; bit < 32; bit++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };

			if (t_ops[r->nr].known_flags & 1u << bit)
				continue;
			r->make(&self->w, arg);
			t_put32(arg, 4, t_get32(arg, 4) | 1u << bit);
			REFUSED(&self->w, who(&self->w, r), arg, -EOPNOTSUPP,
				"flag %d", bit);
		}
	}
}

TEST_F(abi, reserved_members)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int i = 0; i < 2 && op->reserved[i].size; i++) {
			for (unsigned int j = 0; j < op->reserved[i].size; j++) {
				u_int64_t arg[T_ARG_MAX / 8] = { 0 };

				r->make(&self->w, arg);
				((char *)arg)[op->reserved[i].at + j] = 1;
				REFUSED(&self->w, who(&self->w, r), arg, -EINVAL,
					"reserved at %u", op->reserved[i].at + j);
			}
		}
	}
}

/* A struct that is shorter than the first one was */
TEST_F(abi, short_struct)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int size = 0; size < op->size; size += 4) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 }, copy[T_ARG_MAX / 8];
			int rc;

			r->make(&self->w, arg);
			take_state(&self->w);
			t_put32(arg, 0, size);
			memcpy(copy, arg, sizeof(arg));
			rc = t_raw(who(&self->w, r), r->nr, arg, op->size);
			if (rc != -EINVAL || memcmp(arg, copy, sizeof(arg)))
				t_die("%s %s: size %u: %d", WHAT, size, rc);
			called();
		}
	}
}

/* Bytes that this kernel does not know must be zero. */
TEST_F(abi, long_struct)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		static const unsigned short at[] = { 0, 1, 7, 8, 100 };
		static char big[8192];

		for (unsigned int i = 0; i < ARRAY_SIZE(at); i++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };
			int rc;

			r->make(&self->w, arg);
			take_state(&self->w);
			t_put32(arg, 0, op->size + at[i] + 8);
			((char *)arg)[op->size + at[i]] = 1;
			rc = t_raw(who(&self->w, r), r->nr, arg, op->size + at[i] + 8);
			if (rc != -E2BIG)
				t_die("%s %s: tail at %u: %d", WHAT, at[i], rc);
			called();
		}
		/* Far away as well; the call is by a client of this process. */
		memset(big, 0, sizeof(big));
		r->make(&self->w, big);
		t_put32(big, 0, sizeof(big));
		big[sizeof(big) - 1] = 1;
		if (capkm_call(who(&self->w, r)->c, r->nr, big) != -E2BIG)
			t_die("%s %s: a long tail", WHAT);
	}
}

TEST(long_struct_zero_tail)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		char arg[4096] = { 0 };
		struct world w;
		int rc;

		world_new(&w);
		r->make(&w, arg);
		t_put32(arg, 0, sizeof(arg));
		rc = capkm_call(who(&w, r)->c, r->nr, arg);
		if (rc)
			t_die("%s %s: a zero tail: %d", WHAT, rc);
		for (size_t i = op->size; i < sizeof(arg); i++)
			if (arg[i])
				t_die("%s %s: wrote to the tail", WHAT);
		world_free(&w);
	}
	t_no_leaks();
}

/* A newer caller's larger elements do not exist: the size is of the struct. */
TEST_F(abi, unknown_numbers)
{
	static const unsigned int more[] = { 0x38, 0x7f, 0xff };

	for (unsigned int i = 0; i < ARRAY_SIZE(more); i++) {
		u_int64_t arg[T_ARG_MAX / 8] = { 256 };

		take_state(&self->w);
		ASSERT_EQ(-ENOTTY, t_raw(self->w.a, more[i], arg, 256)) {
			TH_LOG("number 0x%02x", more[i]);
		}
		ASSERT_EQ(-ENOTTY, t_raw(self->w.u, more[i], arg, 256));
	}
	compare_state();
}

TEST_F(abi, unattached)
{
	FOR_EACH_ROW(r) {
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };

		if (r->flags & ANYBODY)
			continue;
		r->make(&self->w, arg);
		REFUSED(&self->w, self->w.u, arg, -ENOTCONN, "unattached");
	}
}

/* A process that has the descriptor and has not joined may look, no more. */
TEST_F(abi, not_a_client)
{
	struct cl *stranger = t_second(self->w.a);

	FOR_EACH_ROW(r) {
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };

		if (r->flags & ANYBODY)
			continue;
		r->make(&self->w, arg);
		REFUSED(&self->w, stranger, arg, r->flags & LOOKS ? 0 : -EPERM,
			"not a client");
	}
	t_close(stranger);
}

/* Scopes, windows, graphs and streams are their client's. */
TEST_F(abi, not_yours)
{
	struct cl *second = t_join_session(self->w.a);

	FOR_EACH_ROW(r) {
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };

		if (!(r->flags & OWN))
			continue;
		r->make(&self->w, arg);
		REFUSED(&self->w, self->w.b, arg, -EPERM, "another session's");
		if (!(r->flags & OF_SESSION))
			REFUSED(&self->w, second, arg, -EPERM, "another client's");
	}
	t_close(second);
}

/* Who has only the right r */
TEST_F(abi, read_only)
{
	struct cl *reader;

	if (getuid())
		SKIP(return, "needs root");
	ASSERT_EQ(0, setegid(65534));
	ASSERT_EQ(0, seteuid(65534));
	reader = t_client();
	/* Who attaches decides, and in the library who has opened. */
	t_attach(reader, self->w.a->domain);
	ASSERT_EQ(0, seteuid(0));
	ASSERT_EQ(0, setegid(0));
	FOR_EACH_ROW(r) {
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };
		int rc;

		if (r->flags & ANYBODY)
			continue;
		r->make(&self->w, arg);
		if (!(r->flags & (LOOKS | LOOKS_CLIENT))) {
			REFUSED(&self->w, reader, arg, -EACCES, "right r");
			continue;
		}
		/* It may ask; that it holds nothing is another matter. */
		rc = t_call(reader, r->nr, arg);
		if (rc && rc != -ENOENT)
			t_die("%s %s: right r: %d", WHAT, rc);
	}
	t_close(reader);
}

/* The domain was destroyed under its sessions. */
TEST_F(abi, destroyed_domain)
{
	struct capkm_domain_destroy d = {
		.domain = self->w.a->domain, .flags = CAPKM_DOMAIN_DESTROY_F_FORCE,
	};

	T_OK(self->w.u, DOMAIN_DESTROY, &d);
	FOR_EACH_ROW(r) {
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };
		int rc;

		if (r->flags & ANYBODY && r->nr != CAPKM_NR_SESSION_JOIN)
			continue;
		r->make(&self->w, arg);
		rc = t_call(self->w.a, r->nr, arg);
		if (rc != -ECANCELED)
			t_die("%s %s: destroyed domain: %d", WHAT, rc);
	}
}

/* Ids that never were */
TEST_F(abi, unknown_ids)
{
	FOR_EACH_ROW(r) {
		for (unsigned int i = 0; i < 3 && r->ids[i]; i++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };

			r->make(&self->w, arg);
			t_put64(arg, r->ids[i], 1ull << 60);
			REFUSED(&self->w, who(&self->w, r), arg, -ENOENT, "id at %u",
				r->ids[i]);
			r->make(&self->w, arg);
			t_put64(arg, r->ids[i], UINT64_MAX);
			REFUSED(&self->w, who(&self->w, r), arg, -ENOENT, "id at %u",
				r->ids[i]);
		}
	}
}

/* Ids of another domain */
TEST_F(abi, another_domain)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };
		bool claims = false;

		if (r->flags & ANYBODY)
			continue;
		r->make(&self->w, arg);
		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays); i++)
			claims |= op->arrays[i].claims &&
				  t_get32(arg, op->arrays[i].len);
		if (!r->ids[0] && !claims)
			continue;
		REFUSED(&self->w, self->w.other, arg, -ENOENT, "another domain");
	}
}

/*
 * One bad claim among good ones, at each place of each array: which one it was,
 * and nothing has changed.
 */
TEST_F(abi, bad_claims)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		unsigned int base = 0;

		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays); i++) {
			const struct t_array *a = &op->arrays[i];
			const struct capkm_claim bad[] = {
				{ 1ull << 60, 0, 1 }, { 0, 0, 1 },
				{ self->w.y, 0, 1 },	/* b's */
				{ self->w.x, 2, 1 }, { self->w.x, 0, 101 },
				{ self->w.x, 101, 101 },
				{ self->w.x, 0, UINT64_MAX },
			};
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };
			unsigned int n;

			if (!a->claims)
				continue;
			r->make(&self->w, arg);
			n = t_get32(arg, a->len);
			for (unsigned int j = 0; j < ARRAY_SIZE(bad) * n; j++) {
				struct capkm_claim c[3];
				unsigned int at = j % n, index;

				memset(arg, 0, sizeof(arg));
				r->make(&self->w, arg);
				memcpy(c, (void *)(uintptr_t)t_get64(arg, a->ptr),
				       n * sizeof(*c));
				c[at] = bad[j / n];
				t_put64(arg, a->ptr, t_ptr(c));
				REFUSED(&self->w, who(&self->w, r), arg,
					j / n < 3 ? -ENOENT : -EINVAL,
					"claim %u of array %u, badness %u", at, i,
					j / n);
				index = t_get32(arg, op->always[0].at);
				if (index != base + at)
					t_die("%s %s: out_error_index %u, expected %u",
					      WHAT, index, base + at);
			}
			base += n;
		}
	}
}

/* A pointer goes with a length, and the other way round. */
TEST_F(abi, null_arrays)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays) &&
		     op->arrays[i].elem; i++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };

			r->make(&self->w, arg);
			if (!t_get32(arg, op->arrays[i].len))
				continue;
			t_put64(arg, op->arrays[i].ptr, 0);
			REFUSED(&self->w, who(&self->w, r), arg, -EINVAL, "null array %u",
				i);
		}
	}
}

/* More claims than INFO names; other arrays have limits of their own. */
TEST_F(abi, too_many)
{
	static struct capkm_claim many[CAPKM_CLAIMS_MAX + 1];
	struct capkm_info info = { 0 };

	T_OK(self->w.a, INFO, &info);
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct capkm_claim){ self->w.x, 30, 31 };
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays); i++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };

			if (!op->arrays[i].claims)
				continue;
			r->make(&self->w, arg);
			t_put64(arg, op->arrays[i].ptr, t_ptr(many));
			t_put32(arg, op->arrays[i].len, info.out_claims_max + 1);
			REFUSED(&self->w, who(&self->w, r), arg, -EMSGSIZE,
				"too many claims");
			t_put32(arg, op->arrays[i].len, UINT32_MAX);
			REFUSED(&self->w, who(&self->w, r), arg, -EMSGSIZE,
				"too many claims");
		}
	}
}

/* As many as there may be */
TEST_F(abi, as_many_as_allowed)
{
	static struct capkm_claim many[CAPKM_CLAIMS_MAX];
	struct capkm_info info = { 0 };
	u_int64_t b = t_buffer(self->w.a, 1 << 20), s, f;

	T_OK(self->w.a, INFO, &info);
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct capkm_claim){ b, 4 * i, 4 * i + 2 };
	s = t_enter(self->w.a, 1, NO_CLAIMS, many, info.out_claims_max);
	f = t_exit_failed(self->w.a, s, "x");
	ASSERT_EQ(info.out_claims_max, t_buffer_query(self->w.a, b).q.out_claims);
	s = t_enter(self->w.a, 1, NO_CLAIMS, many, info.out_claims_max);
	ASSERT_EQ(0, t_exit(self->w.a, s));
	t_no_ranges(self->w.a, b);
	ASSERT_EQ(-ENOENT, t_try_failure(self->w.a, f, 0).rc);
}

/* Texts that are too long */
TEST_F(abi, long_texts)
{
	static char text[4096];

	memset(text, 'x', sizeof(text));
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays) &&
		     op->arrays[i].elem; i++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };
			static const unsigned int n[] = {
				CAPKM_STACK_MAX + 1, sizeof(text),
			};

			if (op->arrays[i].elem != 1 || op->arrays[i].out)
				continue;
			r->make(&self->w, arg);
			if (!t_get32(arg, op->arrays[i].len))
				continue;
			for (unsigned int j = 0; j < ARRAY_SIZE(n); j++) {
				t_put64(arg, op->arrays[i].ptr, t_ptr(text));
				t_put32(arg, op->arrays[i].len, n[j]);
				REFUSED(&self->w, who(&self->w, r), arg, -EMSGSIZE,
					"a text of %u bytes", n[j]);
			}
		}
	}
}

/*
 * Pointers to nowhere. An input is read before anything is done; an output of
 * an answer that depends on the change is written after it.
 */
TEST(bad_pointers)
{
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];

		for (unsigned int i = 0; i < ARRAY_SIZE(op->arrays) &&
		     op->arrays[i].elem; i++) {
			const struct t_array *a = &op->arrays[i];
			u_int64_t arg[T_ARG_MAX / 8] = { 0 };
			struct state was;
			struct world w;
			int rc;

			world_new(&w);
			r->make(&w, arg);
			if (t_get32(arg, a->len)) {
				t_put64(arg, a->ptr, 8);
				t_put32(arg, 0, op->size);
				was = state(&w);
				rc = capkm_call(who(&w, r)->c, r->nr, arg);
				/* Nothing to write to the bad place is well. */
				if (rc != -EFAULT && !(a->out && !rc))
					t_die("%s %s: array %u: %d", WHAT, i, rc);
				if (rc && !(a->out && r->flags & DONE))
					unchanged(&w, was);
				else
					forget(was);
			}
			world_free(&w);
		}
	}
	t_no_leaks();
}

/* The struct itself; the library does not look at it before the kernel does. */
TEST_F(abi, bad_struct_pointers)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *p;

	if (t_embedded())
		SKIP(return, "needs a kernel");
	p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, mprotect(p + page, page, PROT_NONE));
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		int fd = capkm_fd(who(&self->w, r)->c);
		u_int64_t arg[T_ARG_MAX / 8] = { 0 };
		struct state was;

		r->make(&self->w, arg);
		was = state(&self->w);
		ASSERT_EQ(-1, ioctl(fd, _IO(CAPKM_TYPE, r->nr), NULL));
		ASSERT_EQ(EFAULT, errno);
		ASSERT_EQ(-1, ioctl(fd, _IO(CAPKM_TYPE, r->nr), p + page));
		ASSERT_EQ(EFAULT, errno);
		/* Its size is readable, its end is not. */
		t_put32(arg, 0, op->size);
		memcpy(p + page - 4, arg, 4);
		ASSERT_EQ(-1, ioctl(fd, _IO(CAPKM_TYPE, r->nr), p + page - 4));
		ASSERT_EQ(EFAULT, errno);
		unchanged(&self->w, was);
	}
	munmap(p, 2 * page);
}

/* The struct can be read and not be written: done or not done, as documented. */
TEST(read_only_struct)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *p;

	if (t_embedded())
		SKIP(return, "needs a kernel");
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	FOR_EACH_ROW(r) {
		const struct t_op *op = &t_ops[r->nr];
		struct state was;
		struct world w;
		int rc;

		if (!op->outs[0].size)
			continue;
		world_new(&w);
		memset(p, 0, page);
		r->make(&w, p);
		t_put32(p, 0, op->size);
		was = state(&w);
		ASSERT_EQ(0, mprotect(p, page, PROT_READ));
		rc = ioctl(capkm_fd(who(&w, r)->c), _IO(CAPKM_TYPE, r->nr), p);
		if (rc != -1 || errno != EFAULT)
			t_die("%s %s: read-only: %d", WHAT, rc);
		ASSERT_EQ(0, mprotect(p, page, PROT_READ | PROT_WRITE));
		if (r->flags & (DONE | UNATTACHED))
			forget(was);
		else
			unchanged(&w, was);
		world_free(&w);
	}
	munmap(p, page);
}

/*
 * No memory, at each allocation of each operation: ENOMEM exactly, and nothing
 * has changed. What is paid up front cannot fail.
 */
TEST(no_memory)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	if (getenv("CAPKM_TEST_SUBMIT"))
		SKIP(return, "a SUBMIT needs memory of its own");
	FOR_EACH_ROW(r) {
		for (unsigned int n = 1;; n++) {
			u_int64_t arg[T_ARG_MAX / 8] = { 0 }, taken;
			struct state was;
			struct world w;
			int rc;

			world_new(&w);
			r->make(&w, arg);
			was = state(&w);
			taken = capkm_test_alloc_count();
			capkm_test_fail_alloc(n);
			rc = t_call(who(&w, r), r->nr, arg);
			capkm_test_fail_alloc(0);
			taken = capkm_test_alloc_count() - taken;
			if (rc && rc != -ENOMEM)
				t_die("%s %s: allocation %u: %d", WHAT, n, rc);
			if (rc && r->flags & NO_FAIL)
				t_die("%s %s: allocation %u: cannot fail", WHAT, n);
			if (rc)
				unchanged(&w, was);
			else
				forget(was);
			/* It can be done when there is memory again. */
			if (rc) {
				memset(arg, 0, sizeof(arg));
				r->make(&w, arg);
				rc = t_call(who(&w, r), r->nr, arg);
				if (rc)
					t_die("%s %s: after allocation %u: %d", WHAT, n,
					      rc);
				rc = -ENOMEM;
			}
			world_free(&w);
			if (!rc && (taken < n || !(r->flags & OPTIONAL)))
				break;
			if (n > 1000)
				t_die("%s %s: takes memory for ever", WHAT);
		}
	}
	t_no_leaks();
}

/* The end of a client takes no memory. */
TEST(no_memory_at_death)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	for (int kill = 0; kill < 2; kill++) {
		u_int64_t taken, failures;
		struct world w;
		struct cl *a;

		world_new(&w);
		t_open(w.a, w.y);
		t_enter(w.a, 1, NO_CLAIMS, C({ w.y, 0, 10 }));
		a = t_client();
		t_attach(a, w.a->domain);
		t_open(a, w.y);
		taken = capkm_test_alloc_count();
		capkm_test_fail_alloc(1);
		if (kill)
			t_kill(w.a);
		else
			t_close(w.a);
		capkm_test_fail_alloc(0);
		ASSERT_EQ(taken, capkm_test_alloc_count());
		t_is_tainted(a, w.y, 0, 10, CAPKM_KIND_TORN_DOWN);
		failures = t_failures(a);
		ASSERT_NE(0, failures);
		w.a = a;
		world_free(&w);
	}
	t_no_leaks();
}

/* Opening a handle without memory */
TEST(no_memory_at_open)
{
	if (!t_embedded())
		SKIP(return, "needs the library's allocator");
	t_close(t_client());
	for (unsigned int n = 1; n < 100; n++) {
		struct capkm *c = NULL;
		int rc;

		capkm_test_fail_alloc(n);
		rc = capkm_open(t_transport(), NULL, &c, NULL);
		capkm_test_fail_alloc(0);
		if (!rc) {
			capkm_close(c);
			ASSERT_GT(n, 1);
			break;
		}
		ASSERT_EQ(-ENOMEM, rc);
		ASSERT_EQ(NULL, c);
	}
	t_no_leaks();
}

TEST_HARNESS_MAIN
