// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module comes and goes while programs use it. It goes only while nobody has a session,
 * a mapping of one or an answer under way; and whoever comes meanwhile finds it or not.
 *
 *   CAPKM_TEST_UNLOADS  how often it must have gone
 */
#include "choices.h"
#include "netlink.h"
#include "process.h"

#define USERS 4

/* Whoever opens it while it goes or comes is told so. */
static bool is_away(int rc)
{
	return rc == -ENOENT || rc == -ENODEV || rc == -ENXIO;
}

static void __attribute__((noreturn)) use(int *used, u_int64_t seed)
{
	struct choices choices = { .rng = seed };
	struct capkm_error err = CAPKM_OPTS(struct capkm_error);
	struct capkm_scope scope;
	struct capkm *c;
	u_int64_t buffer;
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		usleep(choose(&choices, 3000));
		rc = capkm_open(t_transport(), NULL, &c, &err);
		if (is_away(rc))
			continue;
		rc = rc || capkm_domain_open(c, NULL, NULL, &err) ||
		     capkm_buffer_create(c, 64, NULL, &buffer, &err);
		/* The first asks, the others are fast. */
		for (int i = 0; !rc && i < 4; i++)
			rc = capkm_scope_enter(c, NULL, NULL, 0,
					       C({ buffer, 0, 64 }), NULL, &scope, NULL,
					       &err) ||
			     capkm_scope_exit(c, &scope, 0, &err);
		if (rc)
			t_die("%s", err.text);
		__atomic_fetch_add(used, 1, __ATOMIC_SEQ_CST);
		if (!choose(&choices, 8))
			exit(0);	/* all that it has goes with it */
		capkm_close(c);
	}
}

/* An answer is under way while it asks. */
static void ask_by_netlink(void)
{
	struct nl nl = nl_open();

	nl_close(&nl);
}

FIXTURE(unload)
{
};

FIXTURE_SETUP(unload)
{
}

FIXTURE_TEARDOWN(unload)
{
}

#define ONLY_MODULE() do {							\
	if (t_embedded())							\
		SKIP(return, "needs the module");				\
	if (geteuid())								\
		SKIP(return, "needs root");					\
} while (0)

TEST_F_TIMEOUT(unload, under_traffic, 600)
{
	int *used, pid[USERS], left, refused = 0, status, rc;

	ONLY_MODULE();
	left = t_param("CAPKM_TEST_UNLOADS", 0, 25);
	used = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, used);
	for (int i = 0; i < USERS; i++) {
		fflush(NULL);
		pid[i] = fork();
		if (!pid[i])
			use(used, i * 7919 + left);
	}
	while (left) {
		ask_by_netlink();
		rc = t_unload();
		if (!rc) {
			left--;
			ASSERT_EQ(0, t_load());
		} else {
			refused++;
			ASSERT_EQ(-EWOULDBLOCK, rc);
			usleep(200);
		}
		for (int i = 0; i < USERS; i++) {
			if (waitpid(pid[i], &status, WNOHANG) != pid[i])
				continue;
			ASSERT_EQ(0, status);
			fflush(NULL);
			pid[i] = fork();
			if (!pid[i])
				use(used, i * 6007 + left);
		}
	}
	for (int i = 0; i < USERS; i++) {
		kill(pid[i], SIGKILL);
		waitpid(pid[i], &status, 0);
	}
	TH_LOG("refused %d times, %d sessions", refused, load(used));
	EXPECT_LT(0, load(used));
	munmap(used, 4096);
}

TEST_F(unload, not_under_a_session)
{
	struct capkm_scope_table table = { 0 };
	struct cl *a;
	void *page;
	int fd;

	ONLY_MODULE();
	a = t_client();
	ASSERT_EQ(-EWOULDBLOCK, t_unload());
	t_domain(a);
	ASSERT_EQ(0, t_call(a, CAPKM_NR_SCOPE_TABLE, &table));
	fd = dup(capkm_fd(a->c));
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, CAPKM_MAP_DOMAIN);
	ASSERT_NE(MAP_FAILED, page);
	t_close(a);
	ASSERT_EQ(-EWOULDBLOCK, t_unload());
	close(fd);
	/* The mapping alone keeps the session. */
	ASSERT_EQ(-EWOULDBLOCK, t_unload());
	munmap(page, 4096);
	ASSERT_EQ(0, t_unload());
	ASSERT_EQ(0, t_load());
}

/* A descriptor that nobody has received yet. */
TEST_F(unload, not_under_a_descriptor_on_its_way)
{
	int sock[2], fd;

	ONLY_MODULE();
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fd = open(t_transport(), O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	send_fd(sock[0], fd);
	close(fd);
	ASSERT_EQ(-EWOULDBLOCK, t_unload());
	close(sock[0]);
	close(sock[1]);
	ASSERT_EQ(0, t_unload());
	ASSERT_EQ(0, t_load());
}

TEST_HARNESS_MAIN
