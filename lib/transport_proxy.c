// SPDX-License-Identifier: MIT
/*
 * For tests: a module in another machine, through a process there for each that opens a
 * handle here (selftests/vm/proxy/). So work on a GPU is governed by a kernel that the
 * machine of the GPU does not run.
 *
 * One lock for all handles: it guards the connections, and is held across fork(), for a
 * child must not keep its parent's sessions alive. What waits for the other end with the
 * lock does so for a bounded time, lest a fork wait for ever.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "proxy_wire.h"
#include "test_hooks.h"
#include "transport.h"

#define CONNECTIONS	64

struct connection {
	int fd;			/* -1: none */
	bool busy;
};

struct proxy {
	struct proxy *next;
	struct sockaddr_in address;
	uint64_t key;
	int first;
	struct connection others[CONNECTIONS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t freed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct proxy *proxies;
static unsigned int patience;	/* seconds, with the lock */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void drop_all(struct proxy *p)
{
	int i;

	drop(&p->first);
	for (i = 0; i < CONNECTIONS; i++)
		drop(&p->others[i].fd);
}

static void in_child(void)
{
	struct proxy *p;

	for (p = proxies; p; p = p->next)
		drop_all(p);
	proxies = NULL;
	pthread_mutex_unlock(&lock);
}

static void set_up(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

/* HOST:PORT in digits. */
static int parse(const char *text, struct sockaddr_in *address)
{
	const char *colon = strrchr(text, ':');
	char host[INET_ADDRSTRLEN] = "";
	unsigned long port;
	char *end;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		return -EINVAL;
	memcpy(host, text, colon - text);
	port = strtoul(colon + 1, &end, 10);
	if (*end || !port || port > 65535)
		return -EINVAL;
	memset(address, 0, sizeof(*address));
	address->sin_family = AF_INET;
	address->sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &address->sin_addr) == 1 ? 0 : -EINVAL;
}

static void be_patient(int fd, int option, unsigned int seconds)
{
	const struct timeval t = { .tv_sec = seconds };

	setsockopt(fd, SOL_SOCKET, option, &t, sizeof(t));
}

/*
 * A connection that has said @hello, and @answer to it; its descriptor or -errno. It stays
 * impatient. A command's answer comes when that has ended, whenever that is.
 */
static int reach(const struct sockaddr_in *address, struct proxy_hello *hello,
		 const void *more, struct proxy_answer *answer)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	int rc;

	if (fd < 0)
		return -errno;
	hello->magic = PROXY_MAGIC;
	hello->pid = (uint32_t)getpid();
	prctl(PR_GET_NAME, hello->name);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	be_patient(fd, SO_SNDTIMEO, patience);
	if (hello->what != PROXY_RUN)
		be_patient(fd, SO_RCVTIMEO, patience);
	rc = connect(fd, (const void *)address, sizeof(*address)) ? -errno : 0;
	if (!rc)
		rc = proxy_send(fd, hello, sizeof(*hello));
	if (!rc)
		rc = proxy_send(fd, more, hello->bytes);
	if (!rc)
		rc = proxy_receive(fd, answer, sizeof(*answer));
	if (!rc)
		return fd;
	close(fd);
	return rc == -EINPROGRESS || rc == -EAGAIN ? -ETIMEDOUT : rc;
}

static int open_session(struct proxy *p)
{
	struct proxy_hello hello = { .what = PROXY_SESSION };
	struct proxy_answer answer;
	int rc;

	p->first = reach(&p->address, &hello, NULL, &answer);
	if (p->first < 0)
		return p->first;
	rc = answer.rc;
	p->key = answer.key;
	if (rc)
		drop(&p->first);
	return rc;
}

static struct proxy *new_proxy(void)
{
	struct proxy *p = calloc(1, sizeof(*p));
	int i;

	if (!p)
		return NULL;
	p->first = -1;
	for (i = 0; i < CONNECTIONS; i++)
		p->others[i].fd = -1;
	return p;
}

static int proxy_open(const char *path, void **state, char *why, size_t size)
{
	struct proxy *p = new_proxy();
	int rc = p ? parse(path, &p->address) : -ENOMEM;

	pthread_once(&once, set_up);
	pthread_mutex_lock(&lock);
	if (!rc)
		rc = open_session(p);
	if (!rc) {
		p->next = proxies;
		proxies = p;
	}
	pthread_mutex_unlock(&lock);
	if (rc) {
		free(p);
		snprintf(why, size, "proxy:%s: %s", path, strerror(-rc));
		return rc;
	}
	*state = p;
	return 0;
}

/* With the lock: one that nobody uses, else a new one, else NULL: none is left. */
static struct connection *find(struct proxy *p)
{
	struct connection *none = NULL;
	int i;

	for (i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &p->others[i];

		if (c->fd >= 0 && !c->busy)
			return c;
		if (c->fd < 0 && !none)
			none = c;
	}
	return none;
}

/* As long as it is busy it is the caller's. */
static int take(struct proxy *p, struct connection **out)
{
	struct proxy_hello hello = { .what = PROXY_MORE, .key = p->key };
	struct proxy_answer answer;
	struct connection *c;
	int rc = 0;

	pthread_mutex_lock(&lock);
	while (!(c = find(p)))
		pthread_cond_wait(&freed, &lock);
	if (c->fd < 0) {
		c->fd = reach(&p->address, &hello, NULL, &answer);
		rc = c->fd < 0 ? c->fd : answer.rc;
		if (rc)
			drop(&c->fd);
		/* A call waits for as long as it likes, without the lock. */
		be_patient(c->fd, SO_SNDTIMEO, 0);
		be_patient(c->fd, SO_RCVTIMEO, 0);
	}
	c->busy = !rc;
	pthread_mutex_unlock(&lock);
	*out = c;
	return rc;
}

/* @rc: what became of it; after an error it cannot be used any more. */
static void give(struct connection *c, int rc)
{
	pthread_mutex_lock(&lock);
	c->busy = false;
	if (rc)
		drop(&c->fd);
	pthread_cond_broadcast(&freed);
	pthread_mutex_unlock(&lock);
}

/* @call and the bytes at @data there, and as many, or those of events, back. */
static int carry(int fd, const struct proxy_call *call, void *data, size_t room,
		 struct proxy_answer *answer)
{
	int rc = proxy_send(fd, call, sizeof(*call));

	if (!rc)
		rc = proxy_send(fd, data, call->bytes);
	if (!rc)
		rc = proxy_receive(fd, answer, sizeof(*answer));
	if (!rc && answer->bytes > room)
		rc = -EPROTO;
	return rc ? rc : proxy_receive(fd, data, answer->bytes);
}

static int exchange(struct proxy *p, const struct proxy_call *call, void *data,
		    size_t room, struct proxy_answer *answer)
{
	struct connection *c;
	int rc = take(p, &c);

	answer->bytes = 0;
	if (rc)
		return rc;
	rc = carry(c->fd, call, data, room, answer);
	give(c, rc);
	if (rc)
		answer->bytes = 0;
	return rc ? rc : answer->rc;
}

/* Bytes of the struct and its arrays. */
static size_t measure(const struct op *op, const void *arg, uint32_t size)
{
	size_t bytes = size;
	uint64_t address;
	int i;

	for (i = 0; op && i < CALL_ARRAYS; i++)
		bytes += proxy_array(op, i, arg, size, &address);
	return bytes;
}

static void pack(const struct op *op, const void *arg, uint32_t size, char *data)
{
	uint64_t address;
	size_t bytes;
	int i;

	memcpy(data, arg, size);
	data += size;
	for (i = 0; op && i < CALL_ARRAYS; i++) {
		bytes = proxy_array(op, i, arg, size, &address);
		if (!bytes)
			continue;
		memcpy(data, (const void *)(uintptr_t)address, bytes);
		data += bytes;
	}
}

/* Input arrays come back as they were, and stay: they may be constants. */
static void unpack(const struct op *op, void *arg, uint32_t size, const char *data)
{
	const char *array = data + size;
	uint64_t address;
	size_t bytes;
	int i;

	for (i = 0; op && i < CALL_ARRAYS; i++) {
		bytes = proxy_array(op, i, arg, size, &address);
		if (bytes && is_out(&op->array[i]))
			memcpy((void *)(uintptr_t)address, array, bytes);
		array += bytes;
	}
	memcpy(arg, data, size);
}

static int proxy_call(void *state, unsigned int nr, void *arg)
{
	const struct op *op = proxy_op(nr);
	struct proxy_call call = { .nr = nr };
	struct proxy_answer answer;
	char few[4096], *data = few;
	int rc;

	memcpy(&call.size, arg, sizeof(call.size));
	/* Its elements have arrays of their own. */
	if (nr == CAPKM_NR_SUBMIT)
		return -EOPNOTSUPP;
	/* Of one that is too large the authority looks at the size only. */
	if (call.size > 4096 || call.size < sizeof(call.size))
		return call.size > 4096 ? -E2BIG : -EINVAL;
	call.bytes = (uint32_t)measure(op, arg, call.size);
	/* Not by malloc(), which tests let fail: a module's calls do without. */
	if (call.bytes > sizeof(few))
		data = mmap(NULL, call.bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return -ENOMEM;
	pack(op, arg, call.size, data);
	rc = exchange(state, &call, data, call.bytes, &answer);
	if (answer.bytes)
		unpack(op, arg, call.size, data);
	if (data != few)
		munmap(data, call.bytes);
	return rc;
}

static int proxy_events(void *state, struct capkm_event *events, uint32_t len,
			int timeout_ms)
{
	const struct proxy_call call = {
		.nr = PROXY_EVENTS, .len = len, .timeout_ms = timeout_ms,
	};
	struct proxy_answer answer;

	return exchange(state, &call, events, len * sizeof(*events), &answer);
}

static void forget(struct proxy *p)
{
	struct proxy **at;

	for (at = &proxies; *at && *at != p; at = &(*at)->next)
		;
	if (*at)
		*at = p->next;
}

/* When the answer comes the session has ended. A child's connections are gone. */
static void proxy_close(void *state, bool inherited)
{
	const struct proxy_call call = { .nr = PROXY_CLOSE };
	struct proxy_answer answer;
	struct proxy *p = state;

	pthread_mutex_lock(&lock);
	if (!inherited)
		carry(p->first, &call, NULL, 0, &answer);
	forget(p);
	drop_all(p);
	pthread_mutex_unlock(&lock);
	free(p);
}

static int proxy_fd(void *state)
{
	(void)state;
	return -EOPNOTSUPP;
}

static const struct capkm_transport transport_proxy = {
	.name = "the kernel module, by proxy,",
	.open = proxy_open,
	.call = proxy_call,
	.events = proxy_events,
	.close = proxy_close,
	.fd = proxy_fd,
};

void capkm_test_offer_proxy(unsigned int seconds)
{
	patience = seconds;
	capkm_proxy = &transport_proxy;
}

int capkm_test_proxy_run(const char *address, const char *command, char *out,
			 size_t size)
{
	struct proxy_hello hello = {
		.what = *command ? PROXY_RUN : PROXY_STOP,
		.bytes = (uint32_t)strlen(command),
	};
	struct proxy_answer answer;
	struct sockaddr_in to;
	int fd, rc = parse(address, &to);

	if (rc)
		return rc;
	fd = reach(&to, &hello, command, &answer);
	if (fd < 0)
		return fd;
	if (answer.bytes >= size)
		rc = -EMSGSIZE;
	if (!rc)
		rc = proxy_receive(fd, out, answer.bytes);
	if (!rc)
		out[answer.bytes] = '\0';
	close(fd);
	return rc ? rc : answer.rc;
}
