// SPDX-License-Identifier: GPL-2.0-only
/*
 * The mappings of a session: who may do what to them, and how long they are there. What
 * the kernel says in them cannot be forged by those to whom it is said.
 */
#include "process.h"

#include <sys/prctl.h>

FIXTURE(fast_map)
{
	struct cl *a, *b;	/* sessions of one domain */
	int fd;			/* of that of @a */
	size_t page;
};

FIXTURE_SETUP(fast_map)
{
	if (t_embedded())
		return;
	self->a = t_client();
	t_domain(self->a);
	self->b = t_client();
	t_attach(self->b, self->a->domain);
	self->fd = capkm_fd(self->a->c);
	self->page = sysconf(_SC_PAGESIZE);
}

FIXTURE_TEARDOWN(fast_map)
{
	if (self->a)
		t_close(self->a);
	if (self->b)
		t_close(self->b);
}

#define SELF FIXTURE_DATA(fast_map)

static const struct {
	const char *name;
	off_t at;
	size_t bytes;
	bool writable;
} maps[] = {
	{ "domain", CAPKM_MAP_DOMAIN, sizeof(struct capkm_domain_page), false },
	{ "status", CAPKM_MAP_STATUS, CAPKM_STATUS_BYTES, false },
	{ "table", CAPKM_MAP_TABLE, CAPKM_TABLE_BYTES, true },
};

/* What the kernel has them in, pages. */
static size_t size_of(SELF *self, unsigned int i)
{
	return (maps[i].bytes + self->page - 1) / self->page * self->page;
}

/* The library has asked for them with the first buffer. */
static u_int64_t make_fast(SELF *self)
{
	uint64_t x;

	if (capkm_buffer_create(self->a->c, 4096, NULL, &x, NULL))
		t_die("no buffer");
	return x;
}

/* 0, or why it cannot be mapped. */
static int try_map(SELF *self, off_t at, size_t bytes, int prot, int flags)
{
	void *p = mmap(NULL, bytes, prot, flags, self->fd, at);

	if (p == MAP_FAILED)
		return errno;
	munmap(p, bytes);
	return 0;
}

static void *map(SELF *self, unsigned int i)
{
	void *p = mmap(NULL, size_of(self, i), PROT_READ | (maps[i].writable ? PROT_WRITE : 0),
		       MAP_SHARED, self->fd, maps[i].at);

	if (p == MAP_FAILED)
		t_die("%s: %s", maps[i].name, strerror(errno));
	return p;
}

static int refused(int rc)
{
	return rc ? errno : 0;
}

/* ------------------------------------------------------------------ what there is */

TEST_F(fast_map, before_the_table)
{
	ONLY_KERNEL();
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++)
		ASSERT_EQ(ENXIO, try_map(self, maps[i].at, self->page, PROT_READ, MAP_SHARED));
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++)
		ASSERT_EQ(0, try_map(self, maps[i].at, self->page, PROT_READ, MAP_SHARED));
}

TEST_F(fast_map, unattached)
{
	ONLY_KERNEL();
	t_close(self->a);
	self->a = t_client();
	self->fd = capkm_fd(self->a->c);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++)
		ASSERT_EQ(ENXIO, try_map(self, maps[i].at, self->page, PROT_READ, MAP_SHARED));
}

TEST_F(fast_map, offsets)
{
	const off_t none[] = {
		self->page, CAPKM_MAP_STATUS - self->page, CAPKM_MAP_STATUS + self->page,
		CAPKM_MAP_TABLE - self->page, CAPKM_MAP_TABLE + self->page,
		CAPKM_MAP_TABLE + CAPKM_MAP_STATUS, 2 * CAPKM_MAP_TABLE,
		2 * CAPKM_MAP_TABLE + CAPKM_MAP_STATUS, (off_t)1 << 42,
	};

	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(none); i++)
		ASSERT_EQ(ENXIO, try_map(self, none[i], self->page, PROT_READ, MAP_SHARED));
}

TEST_F(fast_map, lengths)
{
	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		const size_t n = size_of(self, i);

		ASSERT_EQ(0, try_map(self, maps[i].at, n, PROT_READ, MAP_SHARED));
		ASSERT_EQ(EINVAL, try_map(self, maps[i].at, n + 1, PROT_READ, MAP_SHARED));
		ASSERT_EQ(EINVAL, try_map(self, maps[i].at, 16 * n, PROT_READ, MAP_SHARED));
	}
}

/* All of it is there, and nothing in it that nobody wrote. */
TEST_F(fast_map, every_page)
{
	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		const char *p = map(self, i);
		size_t others = 0;

		for (size_t at = self->page; at < size_of(self, i); at++)
			others += p[at] != 0;
		/* One buffer: its size and its word. */
		ASSERT_GE(16, others);
		munmap((void *)p, size_of(self, i));
	}
}

/* Two mappings are the same memory. */
TEST_F(fast_map, mapped_twice)
{
	struct capkm_table_entry *p, *q;

	ONLY_KERNEL();
	make_fast(self);
	p = map(self, 2);
	q = map(self, 2);
	p[CAPKM_TABLE_ENTRIES - 1].stream = 77;
	ASSERT_EQ(77, q[CAPKM_TABLE_ENTRIES - 1].stream);
	ASSERT_EQ(0, memcmp(p, q, size_of(self, 2)));
	munmap(p, size_of(self, 2));
	munmap(q, size_of(self, 2));
}

/* ------------------------------------------------------------------ protection */

TEST_F(fast_map, protection)
{
	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		const off_t at = maps[i].at;
		void *p;

		ASSERT_EQ(EINVAL, try_map(self, at, self->page, PROT_READ, MAP_PRIVATE));
		ASSERT_EQ(EINVAL, try_map(self, at, self->page, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE));
		ASSERT_EQ(EACCES, try_map(self, at, self->page, PROT_READ | PROT_EXEC,
					  MAP_SHARED));
		ASSERT_EQ(EACCES, try_map(self, at, self->page, PROT_EXEC, MAP_SHARED));
		ASSERT_EQ(maps[i].writable ? 0 : EACCES,
			  try_map(self, at, self->page, PROT_READ | PROT_WRITE, MAP_SHARED));
		ASSERT_EQ(maps[i].writable ? 0 : EACCES,
			  try_map(self, at, self->page, PROT_WRITE, MAP_SHARED));
		p = map(self, i);
		ASSERT_EQ(EACCES, refused(mprotect(p, size_of(self, i), PROT_READ | PROT_EXEC)));
		ASSERT_EQ(maps[i].writable ? 0 : EACCES,
			  refused(mprotect(p, size_of(self, i), PROT_READ | PROT_WRITE)));
		ASSERT_EQ(0, mprotect(p, size_of(self, i), PROT_READ));
		munmap(p, size_of(self, i));
	}
}

/* A debugger's way past the protection ends there, too. */
TEST_F(fast_map, not_by_force)
{
	const u_int64_t one = ~0ull;
	int mem;

	ONLY_KERNEL();
	make_fast(self);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_GE(mem, 0);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		u_int64_t *p = map(self, i);
		const u_int64_t before = p[0];

		if (!maps[i].writable) {
			ASSERT_EQ(-1, pwrite(mem, &one, sizeof(one), (off_t)(uintptr_t)p));
			ASSERT_EQ(before, p[0]);
		}
		munmap(p, size_of(self, i));
	}
	close(mem);
}

/* ------------------------------------------------------------------ pieces, copies */

TEST_F(fast_map, whole_or_not)
{
	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 1; i < ARRAY_SIZE(maps); i++) {
		const size_t n = size_of(self, i);
		char *p = map(self, i), *copy = malloc(n), *q;

		memcpy(copy, p, n);
		ASSERT_EQ(EINVAL, refused(munmap(p, self->page)));
		ASSERT_EQ(EINVAL, refused(munmap(p + self->page, self->page)));
		ASSERT_EQ(EINVAL, refused(munmap(p + n - self->page, self->page)));
		ASSERT_EQ(EINVAL, refused(mprotect(p + self->page, self->page, PROT_NONE)));
		ASSERT_EQ(MAP_FAILED, mremap(p, n, 2 * n, MREMAP_MAYMOVE));
		ASSERT_EQ(MAP_FAILED, mremap(p, 0, n, MREMAP_MAYMOVE));
		ASSERT_EQ(MAP_FAILED, mremap(p, n, n - self->page, 0));
		ASSERT_EQ(0, memcmp(copy, p, n));
		/* As a whole it goes where it is wanted. */
		q = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, (void *)q);
		ASSERT_EQ(q, mremap(p, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, q));
		ASSERT_EQ(0, memcmp(copy, q, n));
		ASSERT_EQ(0, munmap(q, n));
		free(copy);
	}
}

/* Who is forked has none of it. */
TEST_F(fast_map, not_over_fork)
{
	int status, pid;

	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		const volatile char *p = map(self, i);

		fflush(NULL);
		pid = fork();
		if (!pid)
			_exit(p[0] == 0 || p[0] != 0);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		ASSERT_TRUE(WIFSIGNALED(status));
		ASSERT_EQ(SIGSEGV, WTERMSIG(status));
		munmap((void *)p, size_of(self, i));
	}
}

/* The flags of the mapping at @p, as " xx yy ". */
static void flags_of(const void *p, char flags[256])
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long start, end;
	bool there = false;
	char line[256];

	flags[0] = 0;
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			there = start == (uintptr_t)p;
		else if (there && !strncmp(line, "VmFlags:", 8))
			strcpy(flags, line + 8);
	}
	if (!f || !flags[0])
		t_die("no flags of %p", p);
	fclose(f);
}

/* Nor a core; and nothing can be made of it later that it is not now. */
TEST_F(fast_map, flags)
{
	char flags[256];

	ONLY_KERNEL();
	make_fast(self);
	for (unsigned int i = 0; i < ARRAY_SIZE(maps); i++) {
		void *p = map(self, i);

		flags_of(p, flags);
		ASSERT_TRUE(strstr(flags, " dd"));
		ASSERT_TRUE(strstr(flags, " dc"));
		ASSERT_TRUE(strstr(flags, " de"));
		ASSERT_TRUE(strstr(flags, " sh"));
		ASSERT_FALSE(strstr(flags, " me"));
		ASSERT_FALSE(strstr(flags, " ex"));
		ASSERT_EQ(maps[i].writable, !!strstr(flags, " mw"));
		ASSERT_EQ(maps[i].writable, !!strstr(flags, " wr"));
		ASSERT_EQ(EINVAL, refused(madvise(p, size_of(self, i), MADV_DODUMP)));
		munmap(p, size_of(self, i));
	}
}

/* ------------------------------------------------------------------ how long */

TEST_F(fast_map, destroyed)
{
	const struct capkm_domain_page *domain;
	const struct capkm_status_page *status;

	ONLY_KERNEL();
	make_fast(self);
	domain = map(self, 0);
	status = map(self, 1);
	ASSERT_EQ(1, status->mode);
	ASSERT_EQ(0, domain->destroyed);
	ASSERT_EQ(0, capkm_domain_destroy(self->b->c, 0, CAPKM_DOMAIN_DESTROY_F_FORCE, NULL));
	ASSERT_EQ(1, domain->destroyed);
	ASSERT_EQ(0, status->mode);
	t_close(self->a);
	t_close(self->b);
	self->a = NULL;
	self->b = NULL;
	ASSERT_EQ(1, domain->destroyed);
	ASSERT_EQ(0, status->mode);
	munmap((void *)domain, size_of(self, 0));
	munmap((void *)status, size_of(self, 1));
}

/*
 * A mapping keeps the session, and is no client: who closes the last descriptor has
 * ended, with all that was open.
 */
TEST_F(fast_map, outlives_the_descriptor)
{
	const struct capkm_status_page *status;
	struct capkm_table_entry *table;
	struct capkm_claim c;
	struct capkm_scope s;
	u_int64_t other;

	ONLY_KERNEL();
	c = (struct capkm_claim){ make_fast(self), 0, 4096 };
	other = make_fast(self);
	ASSERT_EQ(0, capkm_buffer_export(self->a->c, other, NULL));
	t_open(self->b, other);
	for (int i = 0; i < 3; i++) {
		ASSERT_EQ(0, capkm_scope_enter(self->a->c, NULL, NULL, 0, &c, 1, NULL, &s, NULL,
					       NULL));
		if (i < 2)
			ASSERT_EQ(0, capkm_scope_exit(self->a->c, &s, 0, NULL));
	}
	ASSERT_TRUE(s.id & CAPKM_SCOPE_FAST);
	status = map(self, 1);
	table = map(self, 2);
	ASSERT_EQ(1, status->mode);
	ASSERT_EQ(2, t_domain_query(self->b).out_clients);
	ASSERT_EQ(1, t_domain_query(self->b).out_scopes);
	t_close(self->a);
	self->a = NULL;
	UNTIL(t_domain_query(self->b).out_clients == 1);
	ASSERT_EQ(0, status->mode);
	ASSERT_EQ(1, status->migrated);
	ASSERT_EQ(1, status->transitions[CAPKM_FAST_ENDED]);
	ASSERT_EQ(2, t_domain_query(self->b).out_sessions);
	ASSERT_EQ(0, t_domain_query(self->b).out_scopes);
	ASSERT_EQ(CAPKM_BUFFER_ABANDONED,
		  t_buffer_query(self->b, other).q.out_state & CAPKM_BUFFER_ABANDONED);
	/* What is written there is of no consequence any more. */
	memset(table, 0xff, size_of(self, 2));
	for (unsigned int i = 0; i < CAPKM_TABLE_ENTRIES; i++)
		table[i].state = CAPKM_ENTRY_ENTERED;
	ASSERT_EQ(0, t_domain_query(self->b).out_scopes);
	ASSERT_EQ(0, t_check(self->b, C({ other, 0, 1 })).reports);
	munmap((void *)status, size_of(self, 1));
	ASSERT_EQ(2, t_domain_query(self->b).out_sessions);
	munmap(table, size_of(self, 2));
	UNTIL(t_domain_query(self->b).out_sessions == 1);
}

TEST_HARNESS_MAIN
