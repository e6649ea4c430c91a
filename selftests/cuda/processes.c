// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two processes: what CUDA shares between them, and what the authority says of it. A
 * producer is a process of its own, in the same domain, and often killed.
 *
 *   processes --producer NAME DOMAIN   no test: one of the producers; its standard input
 *                                      is a socket of the test
 */
#include "../fail_alloc.h"
#include "bridge.h"

#include <sys/prctl.h>

#define LARGE	(8u << 20)
#define PART	4096u

static void tell(int sock, const void *data, size_t n)
{
	if (send(sock, data, n, MSG_NOSIGNAL) != (ssize_t)n)
		t_die("the other process is gone");
}

static void hear(int sock, void *data, size_t n)
{
	if (recv(sock, data, n, MSG_WAITALL) != (ssize_t)n)
		t_die("the other process is gone");
}

static void go(int sock)
{
	tell(sock, "", 1);
}

static void await(int sock)
{
	char c;

	hear(sock, &c, 1);
}

/* --------------------------------------------------------------- producers */

static struct gate gates[2] = { GATE, GATE };

/* All that one of them may have to tell; each fills a part. */
struct told {
	struct capkm_cuda_ipc memory[3];
	struct capkm_cuda_event_ipc event;
	struct cu_ipc_handle plain_memory, plain_event;
	uint64_t window, offset;
	bool chunks;
};

static int export_(struct gpu *g, uint64_t address, struct capkm_cuda_ipc *ipc)
{
	int fd = -1, rc = capkm_cuda_ipc_export(g->b, address, ipc, &fd, &err);

	if (rc)
		t_die("ipc_export: %d (%s)", rc, err.text);
	return fd;
}

static void export_event_(struct gpu *g, cu_event e, struct capkm_cuda_event_ipc *ipc)
{
	int rc = capkm_cuda_event_export(g->b, e, ipc, &err);

	if (rc)
		t_die("event_export: %d (%s)", rc, err.text);
}

static void put_words(cu_address at, uint32_t v)
{
	uint32_t words[WORDS];

	for (uint32_t i = 0; i < WORDS; i++)
		words[i] = v;
	CU_DO(cuMemcpyHtoD(at, words, BYTES));
}

/* Without an authority: memory of both kinds, and an event that rests at a gate. */
static void plain(uint64_t domain)
{
	struct gpu g = { 0 };
	struct told told = { .chunks = false };
	struct chunks c;
	cu_address m;
	cu_stream s;
	cu_event e;
	int fd = -1;

	c_context_(&g, 0);
	CU_DO(cuMemAlloc(&m, LARGE));
	put_words(m + PART, 5);
	CU_DO(cuIpcGetMemHandle(&told.plain_memory, m));
	told.chunks = map_chunks(&g, &c, true);
	if (told.chunks) {
		put_words(c.at, 7);
		CU_DO(cuMemExportToShareableHandle(&fd, c.handle[0], CU_HANDLE_POSIX_FD, 0));
	}
	CU_DO(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	e = c_event_(CU_EVENT_INTERPROCESS);
	c_gate_(s, &gates[0]);
	CU_DO(cuMemsetD32Async(m + PART, 6, WORDS, s));
	CU_DO(cuEventRecord(e, s));
	CU_DO(cuIpcGetEventHandle(&told.plain_event, e));
	tell(0, &told, sizeof(told));
	if (told.chunks)
		send_fd(0, fd);
	await(0);
	gate_open(&gates[0]);
	/* Until the other has closed what it has opened. */
	await(0);
	CU_DO(cuStreamSynchronize(s));
	CU_DO(cuEventDestroy(e));
	CU_DO(cuMemFree(m));
}

/* Memory of each kind that can be shared, and what it holds, when it is asked. */
static void owner(uint64_t domain)
{
	struct gpu g = { 0 };
	struct told told = { .chunks = false };
	struct capkm_cuda_range range;
	struct capkm_claim claim;
	uint64_t at[3] = { 0 };
	uint32_t words[WORDS], n = 1;
	struct chunks c;
	struct pool p;
	cu_address m;
	cu_stream s;
	int fd = -1;

	c_open_with_(&g, NULL, domain);
	s = c_stream_(&g);
	CU_DO(cuMemAlloc(&m, LARGE));
	at[0] = m + PART;
	if (capkm_cuda_adopt(g.b, at[0], 2 * BYTES, NULL, 0, &err))
		t_die("adopt: %s", err.text);
	p = new_pool(&g);
	slice(&p, BYTES, &at[1]);
	slice(&p, BYTES, &at[1]);
	told.chunks = map_chunks(&g, &c, true);
	if (told.chunks) {
		at[2] = c.at + c.bytes + PART;
		if (capkm_cuda_adopt(g.b, at[2], BYTES, NULL, 0, &err))
			t_die("adopt: %s", err.text);
	}
	for (uint32_t i = 0; i < 3 && at[i]; i++) {
		c_write_(&g, s, at[i], 5 + i);
		fd = export_(&g, at[i], &told.memory[i]);
	}
	range = (struct capkm_cuda_range){ at[1], BYTES };
	if (capkm_cuda_claims(g.b, &range, &claim, &n, &err))
		t_die("claims: %s", err.text);
	told.offset = claim.start;
	tell(0, &told, sizeof(told));
	if (told.chunks)
		send_fd(0, fd);
	for (;;) {
		hear(0, &n, sizeof(n));
		if (c_try_read(&g, s, at[n], words))
			t_die("read: %s", err.text);
		c_all_are_(words, words[0]);
		tell(0, &words[0], sizeof(words[0]));
	}
}

/* Increments memory, behind a gate each time, and records an event behind that. */
static void issuer(uint64_t domain)
{
	struct gpu g = { 0 };
	struct told told = { .chunks = false };
	uint64_t m[2];
	cu_stream s;
	cu_event e;

	c_open_with_(&g, NULL, domain);
	s = c_stream_(&g);
	e = c_event_(CU_EVENT_INTERPROCESS);
	for (int i = 0; i < 2; i++) {
		m[i] = b_shared_(&g, s, 5);
		export_(&g, m[i], &told.memory[i]);
	}
	for (int i = 0; i < 2; i++) {
		c_gate_(s, &gates[i]);
		c_inc_(&g, s, m[i]);
		c_event_record_(&g, e, s);
		if (!i)
			export_event_(&g, e, &told.event);
		tell(0, &told, sizeof(told));
		await(0);
		gate_open(&gates[i]);
		await(0);
	}
	/* Nobody here waits for it. */
	rest();
}

/* Has recorded into a window. */
static void recorder(uint64_t domain)
{
	struct gpu g = { 0 };
	struct told told = { .chunks = false };
	uint64_t m;
	cu_stream s;

	c_open_with_(&g, NULL, domain);
	s = c_stream_(&g);
	m = b_shared_(&g, s, 5);
	export_(&g, m, &told.memory[0]);
	told.window = c_record_(&g, s, NULL);
	c_inc_(&g, s, m);
	tell(0, &told, sizeof(told));
	rest();
}

/* Has issued a replay, which rests. */
static void replayer(uint64_t domain)
{
	struct gpu g = { 0 };
	struct told told = { .chunks = false };
	uint64_t m, graph;
	cu_stream s;

	c_open_with_(&g, NULL, domain);
	s = c_stream_(&g);
	m = b_shared_(&g, s, 5);
	export_(&g, m, &told.memory[0]);
	c_record_(&g, s, NULL);
	c_inc_(&g, s, m);
	graph = c_end_(&g, s);
	c_gate_(s, &gates[0]);
	c_replay_(&g, s, graph);
	tell(0, &told, sizeof(told));
	rest();
}

static const struct {
	const char *name;
	void (*fn)(uint64_t domain);
} producers[] = {
	{ "plain", plain }, { "owner", owner }, { "issuer", issuer },
	{ "recorder", recorder }, { "replayer", replayer },
};

static int produce(const char *name, const char *domain)
{
	for (size_t i = 0; i < ARRAY_SIZE(producers); i++)
		if (!strcmp(producers[i].name, name)) {
			producers[i].fn(strtoull(domain, NULL, 0));
			return 0;
		}
	return 1;
}

struct process {
	int pid, sock;
};

/* @domain: that it attaches to; 0: it creates one. */
static struct process start(const char *name, uint64_t domain)
{
	struct process p;
	char id[32];
	int ends[2];

	snprintf(id, sizeof(id), "%" PRIu64, domain);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		t_die("no socket");
	fflush(NULL);
	p.pid = fork();
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], 0);
		execl("/proc/self/exe", "processes", "--producer", name, id, NULL);
		_exit(1);
	}
	close(ends[1]);
	p.sock = ends[0];
	return p;
}

static void kill_it(const struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	close(p->sock);
}

/* Its end is noticed at once, or soon: nothing of it is left in the domain then. */
#define GONE(g) UNTIL(b_domain(g).out_clients == 1 && b_domain(g).out_sessions == 1)

static uint64_t open_(struct gpu *g, const struct capkm_cuda_ipc *ipc, int fd)
{
	uint64_t m = 0;
	int rc = capkm_cuda_ipc_open(g->b, ipc, fd, &m, &err);

	if (rc)
		t_die("ipc_open: %d (%s)", rc, err.text);
	return m;
}
#define p_open(...) (T_AT, open_(__VA_ARGS__))

static void close_(struct gpu *g, uint64_t m)
{
	int rc = capkm_cuda_ipc_close(g->b, m, &err);

	if (rc)
		t_die("ipc_close: %d (%s)", rc, err.text);
}
#define p_close(...) (T_AT, close_(__VA_ARGS__))

static cu_event open_event_(struct gpu *g, const struct capkm_cuda_event_ipc *ipc)
{
	cu_event e = NULL;
	int rc = capkm_cuda_event_open(g->b, ipc, &e, &err);

	if (rc)
		t_die("event_open: %d (%s)", rc, err.text);
	return e;
}
#define p_open_event(...) (T_AT, open_event_(__VA_ARGS__))

static void close_event(struct gpu *g, cu_event e)
{
	capkm_cuda_event_forget(g->b, e);
	CU_DO(cuEventDestroy(e));
}

/* 1: it has happened. */
static int ask_(struct gpu *g, cu_event e)
{
	int done = 77, rc = capkm_cuda_event_query(g->b, e, &done, &err);

	if (rc)
		t_die("event_query: %d (%s)", rc, err.text);
	return done;
}
#define p_ask(...) (T_AT, ask_(__VA_ARGS__))

static bool is_tainted_now(struct gpu *g, uint64_t m, struct capkm_report *r)
{
	return c_check_(g, m, r) == CAPKM_TAINTED;
}

/* -------------------------------------------------------- the driver alone */

/* What the bridge builds on, and the stand-in has to do as well. */
TEST_F(bridge, driver_alone)
{
	G;
	struct process p = start("plain", 0);
	struct told told;
	cu_address m = 0, again = 0, own = c_alloc(g), mapped = 0;
	const struct { int type, id; unsigned long long flags; } access = {
		1, g->device, 3
	};
	unsigned long long handle;
	struct chunks c = { .bytes = 0 };
	cu_event e = NULL;
	int status = 1, fd = -1;

	hear(p.sock, &told, sizeof(told));
	if (told.chunks)
		fd = receive_fd(p.sock);
	CU(cuIpcOpenMemHandle(&m, told.plain_memory, CU_IPC_LAZY_PEER_ACCESS));
	CU(cuIpcOpenMemHandle(&again, told.plain_memory, CU_IPC_LAZY_PEER_ACCESS));
	ASSERT_EQ(m, again);
	c_holds(m + PART, 5);
	if (told.chunks) {
		c.prop = (struct cu_allocation_prop){
			.type = 1, .location_type = 1, .location_id = g->device,
			.requested_handles = CU_HANDLE_POSIX_FD,
		};
		CU(cuMemGetAllocationGranularity(&c.bytes, &c.prop, 0));
		CU(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
						  CU_HANDLE_POSIX_FD));
		close(fd);
		CU(cuMemAddressReserve(&mapped, c.bytes, 0, 0, 0));
		CU(cuMemMap(mapped, c.bytes, 0, handle, 0));
		CU(cuMemSetAccess(mapped, c.bytes, &access, 1));
		c_holds(mapped, 7);
		CU(cuMemUnmap(mapped, c.bytes));
		CU(cuMemAddressFree(mapped, c.bytes));
		CU(cuMemRelease(handle));
	}
	CU(cuIpcOpenEventHandle(&e, told.plain_event));
	CU_IS(CU_NOT_READY, cuEventQuery(e));
	CU(cuStreamWaitEvent(s, e, 0));
	CU(cuMemcpyAsync(own, m + PART, BYTES, s));
	CU_IS(CU_NOT_READY, cuStreamQuery(s));
	c_holds(m + PART, 5);
	go(p.sock);
	CU(cuEventSynchronize(e));
	CU(cuEventQuery(e));
	CU(cuStreamSynchronize(s));
	c_holds(own, 6);
	c_holds(m + PART, 6);
	CU(cuEventDestroy(e));
	CU(cuIpcCloseMemHandle(m));
	c_holds(m + PART, 6);
	CU(cuIpcCloseMemHandle(m));
	ASSERT_NE(0, cu.cuIpcCloseMemHandle(m));
	go(p.sock);
	ASSERT_EQ(p.pid, waitpid(p.pid, &status, 0));
	ASSERT_EQ(0, status);
	close(p.sock);
	c_free(g, own);
}

/* What CUDA says that it does not do. */
TEST_F(bridge, driver_refuses)
{
	G;
	struct cu_ipc_handle handle;
	cu_address m = 0, other = 0;
	cu_event e = NULL;

	CU(cuMemAlloc(&m, LARGE));
	CU(cuIpcGetMemHandle(&handle, m));
	/* A process has its own memory by its address only. */
	ASSERT_NE(0, cu.cuIpcOpenMemHandle(&other, handle, CU_IPC_LAZY_PEER_ACCESS));
	CU(cuMemFree(m));
	ASSERT_NE(0, cu.cuEventCreate(&e, CU_EVENT_INTERPROCESS));
	e = c_event();
	ASSERT_NE(0, cu.cuIpcGetEventHandle(&handle, e));
	CU(cuEventDestroy(e));
	/* One that was never recorded has happened. */
	e = c_shared_event();
	CU(cuEventQuery(e));
	CU(cuIpcGetEventHandle(&handle, e));
	if (is_standin)
		CU_IS(CU_INVALID_CONTEXT, cuIpcOpenEventHandle(&e, handle));
	CU(cuEventDestroy(e));
}

/* ----------------------------------------------------------- events, here */

/* Another session of the domain, in this process. */
static struct gpu second(struct gpu *g)
{
	struct gpu other = *g;

	other.cl = c_client_(capkm_domain_id(g->c));
	other.c = other.cl->c;
	if (capkm_cuda_open(other.c, NULL, &other.b, &err))
		t_die("cuda_open: %s", err.text);
	return other;
}

static void end_second(struct gpu *other)
{
	capkm_cuda_close(other->b);
	t_close(other->cl);
}

TEST_F(bridge, event_cannot_be_exported)
{
	G;
	struct capkm_cuda_event_ipc ipc = { .size = 77 };
	cu_event e = c_shared_event(), plain = c_event();
	uint64_t m = c_new(g, s, 5);

	/* It would have happened, and nothing had. */
	FAILS(-ENOENT, "not recorded", capkm_cuda_event_export(g->b, e, &ipc, &err));
	c_event_record(g, plain, s);
	FAILS(-EOPNOTSUPP, "CU_EVENT_INTERPROCESS",
	      capkm_cuda_event_export(g->b, plain, &ipc, &err));
	ASSERT_NE(0, err.code);
	c_record(g, s);
	c_inc(g, s, m);
	c_event_record(g, plain, s);
	FAILS(-EBUSY, "window", capkm_cuda_event_export(g->b, plain, &ipc, &err));
	/* One that could be exported the driver does not record there. */
	REFUSED(-EBUSY, capkm_cuda_event_record(g->b, e, s, &err));
	ASSERT_EQ(900, err.code);
	NOTHING_BROKE();
	c_destroy(g, c_end(g, s));
	ASSERT_EQ(77, ipc.size);
	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &ipc, &err));
	ASSERT_EQ(sizeof(ipc), ipc.size);
	close_event(g, e);
	close_event(g, plain);
}

TEST_F(bridge, event_cannot_be_opened)
{
	G;
	struct capkm_cuda_event_ipc ipc = { 0 }, bad;
	struct gpu other = second(g);
	cu_event e = c_shared_event(), opened = e;

	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &ipc, &err));
	bad = ipc;
	bad.size--;
	REFUSED(-EINVAL, capkm_cuda_event_open(other.b, &bad, &opened, &err));
	bad = ipc;
	bad.client = 0;
	REFUSED(-EINVAL, capkm_cuda_event_open(other.b, &bad, &opened, &err));
	bad = ipc;
	bad.domain += 1000;
	REFUSED(-EXDEV, capkm_cuda_event_open(other.b, &bad, &opened, &err));
	bad = ipc;
	bad.device[3] ^= 1;
	REFUSED(-ENODEV, capkm_cuda_event_open(other.b, &bad, &opened, &err));
	bad = ipc;
	memset(bad.handle, 0x5a, sizeof(bad.handle));
	/* The stand-in says CU_INVALID_VALUE, an H200's driver CU_MAP_FAILED. */
	FAILS(-EINVAL, "cuIpcOpenEventHandle",
	      capkm_cuda_event_open(other.b, &bad, &opened, &err));
	ASSERT_EQ(0, b_domain(g).out_faulted);
	t_fail_alloc = 1;
	REFUSED(-ENOMEM, capkm_cuda_event_open(other.b, &ipc, &opened, &err));
	t_fail_alloc = 0;
	ASSERT_EQ(e, opened);
	close_event(g, e);
	end_second(&other);
}

/* An exported event stays with its stream: who has opened it confirms that one's work. */
TEST_F(bridge, event_stays_with_its_stream)
{
	G;
	struct capkm_cuda_event_ipc ipc = { 0 }, later = { 0 };
	uint64_t m = b_shared(g, s, 5);
	cu_event e = c_shared_event();

	c_event_record(g, e, t);
	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &ipc, &err));
	ASSERT_EQ(self->on_s.slot, ipc.slot);
	FAILS(-EBUSY, "another stream", capkm_cuda_event_record(g->b, e, t, &err));
	c_inc(g, s, m);
	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &later, &err));
	ASSERT_LT(ipc.sequence, later.sequence);
	ASSERT_EQ(ipc.client, later.client);
	ASSERT_EQ(0, memcmp(ipc.handle, later.handle, sizeof(ipc.handle)));
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_confirmed(g, m);
	capkm_cuda_event_forget(g->b, e);
	c_event_record(g, e, t);
	close_event(g, e);
}

/* To wait for what was recorded outside would break the capture. */
TEST_F(bridge, event_from_outside)
{
	G;
	uint64_t m = c_new(g, s, 5), graph;
	cu_event e = c_event();

	c_event_record(g, e, t);
	c_record(g, s);
	c_inc(g, s, m);
	FAILS(-EBUSY, "recorded outside", capkm_cuda_stream_wait(g->b, s, e, &err));
	NOTHING_BROKE();
	graph = c_end(g, s);
	c_replay(g, s, graph);
	c_is(g, s, m, 6);
	close_event(g, e);
}

/* The other session sees it happen: what was issued before it was exported is confirmed. */
TEST_F(bridge, event_confirms)
{
	G;
	struct capkm_cuda_event_ipc ipc = { 0 }, none;
	uint64_t m = b_shared(g, s, 5), n = b_shared(g, s, 5), own = c_new(g, s, 0);
	struct capkm_cuda_ipc memory = { 0 };
	cu_event e = c_shared_event(), opened;
	uint64_t there, kept;
	struct gpu other;
	cu_stream u;
	int fd;

	ONLY_STANDIN();
	standin.ipc_here(1);
	other = second(g);
	u = c_stream(&other);
	kept = c_new(&other, u, 0);
	OK(capkm_cuda_ipc_export(g->b, m, &memory, &fd, &err));
	there = p_open(&other, &memory, -1);
	c_gate(s, &gates[0]);
	c_inc(g, s, m);
	c_inc(g, s, own);
	c_event_record(g, e, s);
	OK(capkm_cuda_event_export(g->b, e, &ipc, &err));
	opened = p_open_event(&other, &ipc);
	/* It is not its to record, nor to give on. */
	REFUSED(-EINVAL, capkm_cuda_event_record(other.b, opened, u, &err));
	REFUSED(-EINVAL, capkm_cuda_event_export(other.b, opened, &none, &err));
	ASSERT_EQ(0, p_ask(&other, opened));
	b_is_pending(&other, there);
	c_wait(&other, u, opened);
	c_copy(&other, u, kept, there);
	gate_open(&gates[0]);
	OK(capkm_cuda_event_sync(other.b, opened, &err));
	b_is_confirmed(&other, there);
	/* Work of the same stream that came later, and its private memory, are not. */
	c_inc(g, s, n);
	ASSERT_EQ(1, p_ask(&other, opened));
	b_is_pending(g, n);
	b_is_pending(g, own);
	c_is(&other, u, kept, 6);
	close_event(&other, opened);
	close_event(g, e);
	p_close(&other, there);
	capkm_cuda_free(other.b, kept, NULL);
	capkm_cuda_stream_unbind(other.b, u, NULL);
	CU(cuStreamDestroy(u));
	end_second(&other);
}

/* The other one has gone before anybody asked: what it had not confirmed is tainted. */
TEST_F(bridge, event_of_one_that_is_gone)
{
	G;
	struct capkm_cuda_event_ipc ipc = { 0 };
	struct capkm_cuda_ipc memory = { 0 };
	cu_event e = c_shared_event(), opened;
	uint64_t m, there;
	struct gpu other;
	cu_stream u;
	int fd;

	ONLY_STANDIN();
	standin.ipc_here(1);
	other = second(g);
	u = c_stream(&other);
	m = b_shared(&other, u, 5);
	OK(capkm_cuda_ipc_export(other.b, m, &memory, &fd, &err));
	there = p_open(g, &memory, -1);
	c_inc(&other, u, m);
	c_event_record(&other, e, u);
	OK(capkm_cuda_event_export(other.b, e, &ipc, &err));
	opened = p_open_event(g, &ipc);
	end_second(&other);
	OK(capkm_cuda_event_sync(g->b, opened, &err));
	c_is_tainted(g, there, CAPKM_KIND_UNCONFIRMED);
	ASSERT_EQ(1, p_ask(g, opened));
	c_is_tainted(g, there, CAPKM_KIND_UNCONFIRMED);
	p_close(g, there);
	close_event(g, opened);
	CU(cuEventDestroy(e));
	CU(cuStreamDestroy(u));
}

/* A context that is lost is told of by an event of another process, too. */
TEST_F(bridge, event_of_another_and_fault)
{
	G;
	struct capkm_cuda_event_ipc ipc = { 0 };
	cu_event e = c_shared_event(), opened;
	uint64_t m = c_new(g, s, 5);
	struct gpu other;
	cu_stream u;

	ONLY_STANDIN();
	standin.ipc_here(1);
	other = second(g);
	u = c_stream(&other);
	c_event_record(&other, e, u);
	OK(capkm_cuda_event_export(other.b, e, &ipc, &err));
	opened = p_open_event(g, &ipc);
	standin.fail("cuEventSynchronize", 1, 719);
	FAILS(-EREMOTEIO, "LAUNCH_FAILED", capkm_cuda_event_sync(g->b, opened, &err));
	c_is_tainted(g, m, CAPKM_KIND_DEVICE_FAULT);
	OK(capkm_context_renew(g->c, self->on_s.device, NULL, &err));
	c_write(g, s, m, 5);
	close_event(g, opened);
	end_second(&other);
	CU(cuEventDestroy(e));
	CU(cuStreamDestroy(u));
}

/* ------------------------------------------------------------ two processes */

/* Each kind of memory is the same bytes on both sides, and both are believed. */
TEST_F(bridge, shared_memory)
{
	G;
	struct process p;
	struct told told;
	uint64_t m, again, offset;
	uint32_t v;
	int fd = -1;

	ONLY_KERNEL();
	p = start("owner", capkm_domain_id(g->c));
	hear(p.sock, &told, sizeof(told));
	if (told.chunks)
		fd = receive_fd(p.sock);
	ASSERT_EQ(PART, told.memory[0].offset);
	for (uint32_t i = 0; i < (told.chunks ? 3u : 2u); i++) {
		const bool by_fd = i == 2;

		ASSERT_EQ(by_fd ? CAPKM_CUDA_IPC_FD : CAPKM_CUDA_IPC_LEGACY,
			  told.memory[i].kind);
		if (by_fd)
			FAILS(-EINVAL, "descriptor",
			      capkm_cuda_ipc_open(g->b, &told.memory[i], -1, &m, &err));
		offset = i == 1 ? told.offset : 0;
		m = p_open(g, &told.memory[i], by_fd ? fd : -1);
		c_is(g, s, m + offset, 5 + i);
		c_inc(g, s, m + offset);
		c_sync(g, s);
		tell(p.sock, &i, sizeof(i));
		hear(p.sock, &v, sizeof(v));
		ASSERT_EQ(6 + i, v);
		/* CUDA gives the same address again, and the first stays. */
		if (!by_fd)
			REFUSED(-EEXIST, capkm_cuda_ipc_open(g->b, &told.memory[i], -1, &again,
							     &err));
		c_is(g, s, m + offset, 6 + i);
		p_close(g, m);
	}
	kill_it(&p);
	GONE(g);
}

/*
 * The consumer is told that the work is not known to be done, until it sees that itself;
 * then the producer's death takes nothing back.
 */
TEST_F(bridge, consumer_confirms)
{
	G;
	struct capkm_report r = { 0 };
	struct capkm_answer a = CAPKM_OPTS(struct capkm_answer, .reports = &r,
					   .reports_len = 1);
	struct capkm_claim claim;
	struct process p;
	struct told told;
	uint64_t m, n, own = c_new(g, s, 0);
	uint32_t words[WORDS];
	cu_event e;

	ONLY_KERNEL();
	p = start("issuer", capkm_domain_id(g->c));
	hear(p.sock, &told, sizeof(told));
	m = p_open(g, &told.memory[0], -1);
	n = p_open(g, &told.memory[1], -1);
	e = p_open_event(g, &told.event);
	claim = c_claim(g, m);
	OK(capkm_check(g->c, &claim, 1, &a, &err));
	ASSERT_EQ(CAPKM_CLEAN, a.out_result);
	ASSERT_EQ(1, a.out_unconfirmed);
	ASSERT_EQ(0, p_ask(g, e));
	b_is_pending(g, m);
	c_wait(g, s, e);
	c_copy(g, s, own, m);
	go(p.sock);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_confirmed(g, m);
	c_is(g, s, own, 6);
	c_is(g, s, m, 6);
	/* Recorded again, it has not happened; then it has, and says no more than before. */
	go(p.sock);
	hear(p.sock, &told, sizeof(told));
	ASSERT_EQ(0, p_ask(g, e));
	b_is_confirmed(g, m);
	b_is_pending(g, n);
	go(p.sock);
	OK(capkm_cuda_event_sync(g->b, e, &err));
	b_is_pending(g, n);
	close_event(g, e);
	kill_it(&p);
	UNTIL(is_tainted_now(g, n, &r));
	ASSERT_EQ(CAPKM_KIND_UNCONFIRMED, r.kind);
	ASSERT_TRUE(b_is_of(r.pid, r.comm, p.pid));
	c_is_clean(g, m);
	ASSERT_EQ(-ESTALE, c_try_read(g, s, n, words));
	p_close(g, n);
	p_close(g, m);
	GONE(g);
}

/* Its memory is read while it lives; afterwards what it had issued is not trusted. */
static void killed(struct __test_metadata *_metadata, FIXTURE_DATA(bridge) *self,
		   const char *name, uint32_t kind)
{
	G;
	struct capkm_report r = { 0 };
	struct process p;
	struct told told;
	uint64_t m;
	uint32_t words[WORDS];

	p = start(name, capkm_domain_id(g->c));
	hear(p.sock, &told, sizeof(told));
	m = p_open(g, &told.memory[0], -1);
	c_is_clean(g, m);
	if (told.window) {
		ASSERT_EQ(CAPKM_WINDOW_CAPTURE, b_window(g, told.window).out_state);
	} else {
		b_is_pending(g, m);
	}
	kill_it(&p);
	UNTIL(is_tainted_now(g, m, &r));
	ASSERT_EQ(kind, r.kind);
	ASSERT_TRUE(b_is_of(r.pid, r.comm, p.pid)) {
		TH_LOG("pid %u, comm %s, not %d", r.pid, (const char *)r.comm, p.pid);
	}
	ASSERT_EQ(-ESTALE, c_try_read(g, s, m, words));
	GONE(g);
	if (told.window) {
		ASSERT_EQ(CAPKM_WINDOW_ORPHANED, b_window(g, told.window).out_state);
		OK(capkm_window_abandon(g->c, told.window, &err));
	}
	p_close(g, m);
	b_usable(g, s, &self->on_s);
}

TEST_F(bridge, producer_is_killed)
{
	ONLY_KERNEL();
	killed(_metadata, self, "issuer", CAPKM_KIND_UNCONFIRMED);
}

TEST_F(bridge, producer_is_killed_recording)
{
	ONLY_KERNEL();
	killed(_metadata, self, "recorder", CAPKM_KIND_OWNER_DIED);
}

TEST_F(bridge, producer_is_killed_replaying)
{
	ONLY_KERNEL();
	killed(_metadata, self, "replayer", CAPKM_KIND_UNCONFIRMED);
}

/* What is of another domain is not opened. */
TEST_F(bridge, another_domain)
{
	G;
	struct process p;
	struct told told;
	uint64_t m = 77;
	cu_event e = NULL;

	ONLY_KERNEL();
	p = start("issuer", 0);
	hear(p.sock, &told, sizeof(told));
	ASSERT_NE(capkm_domain_id(g->c), told.memory[0].domain);
	FAILS(-EXDEV, "domain", capkm_cuda_ipc_open(g->b, &told.memory[0], -1, &m, &err));
	FAILS(-EXDEV, "domain", capkm_cuda_event_open(g->b, &told.event, &e, &err));
	/* Not by its number either. */
	told.memory[0].domain = capkm_domain_id(g->c);
	told.memory[0].buffer += 1000;
	REFUSED(-ENOENT, capkm_cuda_ipc_open(g->b, &told.memory[0], -1, &m, &err));
	ASSERT_EQ(77, m);
	kill_it(&p);
}

/* ------------------------------------------ where the module is, by its tools */

#define ONLY_PROXY() do {						\
	if (strncmp(t_transport(), "proxy:", 6))			\
		SKIP(return, "needs a machine that has the module to ask");	\
} while (0)

/* What a command there prints; it goes well. */
static const char *there_(const char *format, ...)
{
	static char out[1 << 16];
	char command[256];
	va_list args;
	int rc;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	rc = capkm_test_proxy_run(t_transport() + 6, command, out, sizeof(out));
	if (rc)
		t_die("%s: %d: %s", command, rc, out);
	return out;
}
#define there(...) (T_AT, there_(__VA_ARGS__))

/* A line of @out, of process @pid, says @what. */
static bool tells(const char *out, int pid, const char *what)
{
	char name[16], line[512];

	snprintf(name, sizeof(name), "%d:", pid);
	for (; *out; out += strcspn(out, "\n"), out += *out == '\n') {
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(out, "\n"), out);
		if (strstr(line, name) && strstr(line, what))
			return true;
	}
	return false;
}

#define TELLS(pid, what, ...) do {					\
	const char *out_ = there(__VA_ARGS__);				\
									\
	ASSERT_TRUE(tells(out_, pid, what)) {				\
		TH_LOG("no %s of %d in:\n%s", what, pid, out_);		\
	}								\
} while (0)

/* The administrator sees who captures, and ends it; the work here is refused, and says why. */
TEST_F(bridge, administrator_abandons)
{
	G;
	const uint64_t domain = capkm_domain_id(g->c);
	uint64_t m = c_new(g, s, 5), w;

	ONLY_PROXY();
	w = c_record(g, s);
	c_inc(g, s, m);
	TELLS(getpid(), "capture", "capadm windows %" PRIu64, domain);
	there("capadm abandon %" PRIu64 "/%" PRIu64, domain, w);
	c_is_tainted(g, m, CAPKM_KIND_ABANDONED);
	ASSERT_EQ(-EBUSY, c_try_set(g, s, m, 1).rc);
	SAYS("taken away");
	c_end_refused(g, s);
	SAYS("abandoned");
	TELLS(getpid(), "refused", "capadm windows --history %" PRIu64, domain);
	c_write(g, s, m, 5);
	b_usable(g, s, &self->on_s);
}

/* He sees whose window was left behind, and gives its slot back. */
TEST_F(bridge, administrator_clears_up)
{
	G;
	const uint64_t domain = capkm_domain_id(g->c);
	struct capkm_report r = { 0 };
	struct process p;
	struct told told;
	uint64_t m;

	ONLY_PROXY();
	p = start("recorder", domain);
	hear(p.sock, &told, sizeof(told));
	m = p_open(g, &told.memory[0], -1);
	TELLS(p.pid, "capture", "capadm windows %" PRIu64, domain);
	kill_it(&p);
	UNTIL(is_tainted_now(g, m, &r));
	GONE(g);
	TELLS(p.pid, "orphaned", "capadm windows --orphans %" PRIu64, domain);
	TELLS(p.pid, "owner", "capadm failures %" PRIu64, domain);
	there("capadm abandon %" PRIu64 "/%" PRIu64, domain, told.window);
	ASSERT_EQ(0, b_domain(g).out_orphans);
	c_is_tainted(g, m, CAPKM_KIND_OWNER_DIED);
	p_close(g, m);
	b_usable(g, s, &self->on_s);
}

static void *sleep_there(void *done)
{
	there("sleep 4");
	*(_Atomic bool *)done = true;
	return NULL;
}

/* A command that takes long keeps nobody waiting. */
TEST_F(bridge, proxy_serves_beside_a_command)
{
	G;
	_Atomic bool done = false;
	pthread_t thread;

	ONLY_PROXY();
	ASSERT_EQ(0, pthread_create(&thread, NULL, sleep_there, (void *)&done));
	usleep(500000);
	t_close(c_client(capkm_domain_id(g->c)));
	ASSERT_FALSE(done);
	pthread_join(thread, NULL);
	ASSERT_TRUE(done);
}

/* Room for more events than a call carries is no mistake. */
TEST_F(bridge, proxy_has_room)
{
	G;
	const uint32_t n = (32u << 20) / sizeof(struct capkm_event);
	struct capkm_event *events = calloc(n, sizeof(*events));
	uint32_t got = 0;

	ONLY_PROXY();
	ASSERT_NE(NULL, events);
	c_record(g, s);
	c_end(g, s);
	OK(capkm_events_read(g->c, events, n, 10000, &got, &err));
	ASSERT_LT(0, got);
	ASSERT_EQ(CAPKM_EVENT_WINDOW_PREPARED, events[0].type);
	free(events);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--producer"))
		return produce(argv[2], argv[3]);
	return cu_test_main(argc, argv);
}
