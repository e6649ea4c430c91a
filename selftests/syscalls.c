// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device from below, by system calls that make no sense: processes of two users, with
 * threads that share memory and descriptors, make any calls with any structs, map, unmap
 * and write to what is mapped, fork, pass descriptors, close them in each other's back,
 * and are killed. Nothing is compared: what the kernel says of itself is the verdict
 * (its log, a sanitizer, a hang), and that a client that behaves is served as ever after
 * each round, and nothing is left.
 *
 * For a machine of its own: each domain that it meets is destroyed, each device faults.
 *
 * CAPKM_TEST_SEED: of the first round, printed; the same one draws the same calls, though
 * threads and kills meet as they like. CAPKM_TEST_SECONDS: how long.
 */
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include "any_call.h"
#include "capkm_test.h"

#define WORKERS	4
#define THREADS	3
#define FILES	6
#define STEPS	400	/* of a thread, at most */
#define ROUND	2	/* seconds, at most */

/* Of a worker; its threads use all of it as they like. */
static struct {
	int file[FILES];
	int left, right;		/* neighbours, who get and give descriptors */
	unsigned char *memory;
	void *map[FILES];		/* what was mapped last, by file */
	size_t mapped[FILES];
} w;

struct thread {
	pthread_t id;
	struct any any;
};

static const struct {
	unsigned long long offset;
	size_t bytes;
} maps[] = {
	{ CAPKM_MAP_DOMAIN, 4096 }, { CAPKM_MAP_STATUS, CAPKM_STATUS_BYTES },
	{ CAPKM_MAP_TABLE, CAPKM_TABLE_BYTES },
};

static void replace(int f, int fd)
{
	int old = __atomic_exchange_n(&w.file[f], fd, __ATOMIC_SEQ_CST);

	if (old >= 0)
		close(old);
}

/* With a domain of its own, of which others in this program may learn by its number. */
static void open_file(struct any *a, int f)
{
	struct capkm_domain_create create = { .size = sizeof(create) };
	struct capkm_domain_attach attach = { .size = sizeof(attach) };
	struct capkm_scope_table table = { .size = sizeof(table) };
	int fd = open("/dev/capkm", O_RDWR | O_CLOEXEC | (any_pick(a, 2) ? O_NONBLOCK : 0));

	create.mode = any_pick(a, 2) ? 0666 : 0600;
	create.backend = choose(&a->choices, 3);
	attach.domain = any_id(a);
	attach.backend = choose(&a->choices, 3);
	if (any_pick(a, 2) || ioctl(fd, CAPKM_IOC_DOMAIN_ATTACH, &attach))
		ioctl(fd, CAPKM_IOC_DOMAIN_CREATE, &create);
	a->ids[a->last++ % ANY_IDS] = create.out_domain;
	if (any_pick(a, 2))
		ioctl(fd, CAPKM_IOC_SCOPE_TABLE, &table);
	replace(f, fd);
}

/* What the call found in memory that others write to is not known; a wait is short. */
static void call(struct any *a, int f)
{
	const unsigned int nr = any_call(a);
	const struct t_op *op = nr < T_OPS && t_ops[nr].name ? &t_ops[nr] : NULL;
	unsigned char *arg = a->memory;
	int rc;

	if (nr == CAPKM_NR_WINDOW_WAIT)
		t_put64(arg, op->rest.at, 1000000);
	if (any_pick(a, 24))
		arg += choose(&a->choices, ANY_BYTES);
	else if (any_pick(a, 24))
		arg = (void *)(uintptr_t)any_value(a);
	rc = ioctl(w.file[f], _IO(CAPKM_TYPE, nr), arg);
	if (!rc && op && arg == a->memory)
		any_learn(a, op, arg);
}

static void map(struct any *a, int f)
{
	const unsigned int which = choose(&a->choices, ARRAY_SIZE(maps));
	const size_t bytes = any_pick(a, 4) ? 4096 * (1 + choose(&a->choices, 9000)) :
					      maps[which].bytes;
	const size_t page = 4096 * choose(&a->choices, 4);
	void *p;

	p = mmap(NULL, bytes, any_pick(a, 3) ? PROT_READ : PROT_READ | PROT_WRITE,
		 any_pick(a, 8) ? MAP_PRIVATE : MAP_SHARED, w.file[f],
		 any_pick(a, 8) ? maps[which].offset + page : maps[which].offset);
	if (p == MAP_FAILED)
		return;
	/* Nobody else may have it: then only its number is lost. */
	w.mapped[f] = bytes;
	w.map[f] = p;
}

/*
 * By a call, so that memory that is not there, or not ours to write to, kills nobody.
 * Behind the mapping is the stack of a thread.
 */
static void touch(struct any *a, int f)
{
	char *p = w.map[f];
	size_t at = w.mapped[f];
	uint64_t v = any_value(a);
	struct iovec from = { &v, 8 }, to = { .iov_len = 8 };

	if (!p)
		return;
	if (at > 65536 && choose(&a->choices, 2))
		at = 65536;
	to.iov_base = p + (choose(&a->choices, at) & ~7ul);
	switch (choose(&a->choices, 6)) {
	case 0:
		syscall(SYS_process_vm_readv, getpid(), &from, 1, &to, 1, 0);
		break;
	case 1:
		madvise(p, w.mapped[f], any_pick(a, 2) ? MADV_DONTNEED : MADV_DOFORK);
		break;
	case 2:
		mprotect(p, 4096, any_pick(a, 2) ? PROT_READ : PROT_READ | PROT_WRITE);
		break;
	case 3:
		if (any_pick(a, 4))
			munmap(p, w.mapped[f]);
		break;
	default:
		syscall(SYS_process_vm_writev, getpid(), &from, 1, &to, 1, 0);
	}
}

static void pass(struct any *a, int f)
{
	char token = 0, room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &token, 1 };
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = room, .msg_controllen = sizeof(room),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fd;

	if (any_pick(a, 2)) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &w.file[f], sizeof(int));
		sendmsg(w.right, &m, MSG_DONTWAIT);
		return;
	}
	if (recvmsg(w.left, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0 ||
	    m.msg_controllen < CMSG_LEN(sizeof(int)))
		return;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	replace(f, fd);
	ioctl(fd, CAPKM_IOC_SESSION_JOIN,
	      &(struct capkm_session_join){ .size = sizeof(struct capkm_session_join) });
}

static void look(struct any *a, int f)
{
	struct pollfd p = { .fd = w.file[f], .events = POLLIN };
	char text[64];

	poll(&p, 1, 0);
	switch (choose(&a->choices, 3)) {
	case 0:
		if (p.revents & POLLIN || any_pick(a, 2))
			fcntl(w.file[f], F_SETFL, O_NONBLOCK);
		break;
	case 1:
		snprintf(text, sizeof(text), "/proc/self/fdinfo/%d", w.file[f]);
		f = open(text, O_RDONLY | O_CLOEXEC);
		if (f >= 0 && read(f, a->memory, 4096) >= 0)
			close(f);
		break;
	default:
		if (fcntl(w.file[f], F_GETFL) & O_NONBLOCK &&
		    read(w.file[f], a->memory, choose(&a->choices, 4096)) < 0)
			return;
	}
}

static void step(struct any *a);

/* What a child inherits is not its own. */
static void bear(struct any *a)
{
	pid_t pid = fork();

	if (!pid) {
		a->choices.rng ^= 1;
		for (int i = 0; i < 20; i++)
			step(a);
		_exit(0);
	}
	if (pid > 0 && any_pick(a, 2))
		kill(pid, SIGKILL);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void step(struct any *a)
{
	const int f = choose(&a->choices, FILES);
	const unsigned int what = any_byte(a);

	if (what < 4)
		open_file(a, f);
	else if (what < 6)
		replace(f, -1);
	else if (what < 8)
		replace(f, dup(w.file[choose(&a->choices, FILES)]));
	else if (what < 14)
		map(a, f);
	else if (what < 40)
		touch(a, f);
	else if (what < 48)
		pass(a, f);
	else if (what < 54)
		look(a, f);
	else if (what == 54)
		bear(a);
	else
		call(a, f);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;

	for (int i = 0; i < STEPS; i++)
		step(&t->any);
	return NULL;
}

/* A page that nobody may touch is behind it. */
static unsigned char *memory(void)
{
	unsigned char *p = mmap(NULL, ANY_BYTES + 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + ANY_BYTES, 4096, PROT_NONE))
		_exit(1);
	return p;
}

static void __attribute__((noreturn)) run_worker(uint64_t seed, int left, int right)
{
	struct thread t[THREADS] = { 0 };
	const gid_t none = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Of the second user every other one, and then with no right to more. */
	if (seed % 2 && (setgroups(0, &none) || setresgid(1000, 1000, 1000) ||
			 setresuid(1000, 1000, 1000)))
		_exit(1);
	w.left = left;
	w.right = right;
	w.memory = memory();
	for (int i = 0; i < FILES; i++)
		w.file[i] = -1;
	for (int i = 0; i < THREADS; i++) {
		t[i].any.choices.rng = seed * THREADS + i;
		/* Two of them write to the same structs. */
		t[i].any.memory = i ? w.memory : memory();
		t[i].any.base = t_ptr(t[i].any.memory);
	}
	for (int i = 0; i < FILES; i++)
		open_file(&t[0].any, i);
	for (int i = 1; i < THREADS; i++)
		pthread_create(&t[i].id, NULL, run_thread, &t[i]);
	run_thread(&t[0]);
	for (int i = 1; i < THREADS; i++)
		pthread_join(t[i].id, NULL);
	_exit(0);
}

/* ---- a round */

static uint64_t milliseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ull + t.tv_nsec / 1000000;
}

/* One is killed early, who is not done in time as well. */
static void round_of_workers(uint64_t seed)
{
	int ring[WORKERS][2];
	pid_t pid[WORKERS];
	uint64_t rng = seed, end = milliseconds() + 1000 * ROUND;
	const unsigned int victim = choices_next(&rng) % WORKERS;
	const useconds_t when = choices_next(&rng) % 300000;

	for (int i = 0; i < WORKERS; i++)
		if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ring[i]))
			t_die("no sockets");
	fflush(NULL);
	for (int i = 0; i < WORKERS; i++) {
		pid[i] = fork();
		if (!pid[i])
			run_worker(seed * WORKERS + i, ring[i][0], ring[(i + 1) % WORKERS][1]);
		if (pid[i] < 0)
			t_die("no processes");
	}
	for (int i = 0; i < WORKERS; i++) {
		close(ring[i][0]);
		close(ring[i][1]);
	}
	usleep(when);
	kill(pid[victim], SIGKILL);
	for (int i = 0; i < WORKERS; i++) {
		while (!waitpid(pid[i], NULL, WNOHANG)) {
			if (milliseconds() > end)
				kill(pid[i], SIGKILL);
			usleep(1000);
		}
	}
}

/* Served as ever: what is written is clean, what fails is not, and all goes with us. */
static void behave(void)
{
	struct cl *cl = t_client();
	u_int64_t b;

	t_domain(cl);
	b = t_buffer(cl, 64);
	t_write(cl, 1, C({ b, 0, 64 }));
	t_is_clean(cl, b, 0, 64);
	t_fail(cl, 1, C({ b, 8, 16 }), "fails");
	t_is_clean(cl, b, 16, 64);
	t_is_clean(cl, b, 0, 8);
	if (t_failures(cl) != 1)
		t_die("%llu failures, not one", t_failures(cl));
	if (t_drop(cl, b))
		t_die("BUFFER_CLOSE");
	t_is_empty(cl);
	t_close(cl);
}

/* What was made to stay, or lingers, since then: nobody else is at work here. */
static u_int64_t sweep(u_int64_t from)
{
	struct cl *cl = t_client();
	const u_int64_t last = t_domain(cl);

	for (; from < last; from++) {
		struct capkm_domain_destroy d = {
			.flags = CAPKM_DOMAIN_DESTROY_F_FORCE, .domain = from,
		};
		int rc = t_call(cl, CAPKM_NR_DOMAIN_DESTROY, &d);

		if (rc && rc != -ENOENT)
			t_die("DOMAIN_DESTROY of %" PRIu64 ": %d", from, rc);
	}
	t_close(cl);
	return last;
}

FIXTURE(syscalls)
{
	u_int64_t first;
};

FIXTURE_SETUP(syscalls)
{
}

FIXTURE_TEARDOWN(syscalls)
{
}

TEST_F_TIMEOUT(syscalls, any, 4000)
{
	u_int64_t seconds = t_param("CAPKM_TEST_SECONDS", 20, 20), seed, end;
	unsigned int rounds = 0;

	if (strncmp(t_transport(), "/dev/", 5))
		SKIP(return, "needs the module");
	if (geteuid())
		SKIP(return, "needs root, who is two users");
	if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
		t_die("no random numbers");
	seed = t_param("CAPKM_TEST_SEED", seed % 1000000, seed % 1000000);
	TH_LOG("CAPKM_TEST_SEED=%" PRIu64, seed);
	self->first = sweep(UINT64_MAX);
	for (end = milliseconds() + 1000 * seconds; milliseconds() < end; rounds++) {
		round_of_workers(seed + rounds);
		behave();
		self->first = sweep(self->first);
	}
	TH_LOG("%u rounds of %d processes with %d threads", rounds, WORKERS, THREADS);
	ASSERT_LT(0, rounds);
}

TEST_HARNESS_MAIN
