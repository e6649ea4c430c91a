// SPDX-License-Identifier: GPL-2.0-only
/*
 * Events, by netlink, where an administrator is sent those of all domains, or from a
 * session of one domain. A session is attached for reading and makes nothing; it counts
 * as one of the domain's while we look.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "events.h"

/* What the kernel may keep for us while we write. */
#define RECEIVE_BUFFER (64 << 20)
#define READ_EVENTS 256
/* Domains whose last number is known, by id, which counts up. */
#define SEEN 65536

struct source {
	int fd;
	uint64_t domain;	/* 0 for all */
	bool failures, overrun;
	struct kernel kernel;	/* sock NULL: fd is a session */
	uint64_t newest;	/* domain when we began; later ones start at 1 */
	struct {
		uint64_t domain, number;
	} seen[SEEN];
};

/* ---- all domains ---- */

static void note_newest(struct nlattr **attrs, void *ctx)
{
	struct source *s = ctx;
	uint64_t id = get_number(attrs[CAPKM_A_DOMAIN_ID]);

	if (id > s->newest)
		s->newest = id;
}

/*
 * 0 or errno. Only a refusal is answered, and that answer is there before the request
 * is sent: so no event is taken for it, or lost to it.
 */
static int subscribe(struct source *s)
{
	struct nl_sock *sock = s->kernel.sock;
	int size = RECEIVE_BUFFER;
	struct {
		struct nlmsghdr hdr;
		struct nlmsgerr error;
	} answer;
	ssize_t n;

	s->fd = nl_socket_get_fd(sock);
	if (setsockopt(s->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(s->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	nl_socket_disable_auto_ack(sock);
	if (genl_send_simple(sock, s->kernel.family, CAPKM_CMD_EVENT_SUBSCRIBE,
			     CAPKM_FAMILY_VERSION, 0) < 0)
		return EIO;
	n = recv(s->fd, &answer, sizeof(answer), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN ? 0 : errno;
	return n == sizeof(answer) && answer.hdr.nlmsg_type == NLMSG_ERROR ?
		       -answer.error.error : 0;
}

static void leave(struct source *s)
{
	kernel_close(&s->kernel);
	s->kernel.sock = NULL;
	s->fd = -1;
}

/* A later domain than those that there are begins with number 1. */
static int open_all(const struct request *rq, struct source *s)
{
	const struct query domains = { .cmd = CAPKM_CMD_DOMAIN_GET };
	int err = subscribe(s);

	if (err == EPERM)
		return fail(rq, EPERM,
			    "events of all domains are for root (CAP_SYS_ADMIN) in the first network namespace; give a DOMAIN");
	if (err)
		return fail(rq, err, "cannot listen to the events of the module: %s",
			    strerror(err));
	return kernel_dump(rq, &domains, "read the domains", note_newest, s);
}

/* How many are missing before event @number of @domain. */
static uint64_t gap(struct source *s, uint64_t domain, uint64_t number)
{
	typeof(s->seen[0]) *last = &s->seen[domain % SEEN];
	uint64_t expected = number;

	if (last->domain == domain)
		expected = last->number + 1;
	else if (domain > s->newest)
		expected = 1;
	last->domain = domain;
	last->number = number;
	return number > expected ? number - expected : 0;
}

static bool is_of_failures(uint64_t type)
{
	return type == CAPKM_EVENT_FAILURE_MINTED || type == CAPKM_EVENT_FAILURE_PRUNED;
}

static void give_message(struct source *s, struct nlmsghdr *hdr, event_fn fn, void *ctx)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	uint64_t domain, lost;

	if (hdr->nlmsg_type < NLMSG_MIN_TYPE ||
	    genlmsg_parse(hdr, 0, attrs, ATTR_MAX, NULL) < 0)
		return;
	domain = get_number(attrs[CAPKM_A_EVENT_DOMAIN]);
	if (s->domain && domain != s->domain)
		return;
	lost = gap(s, domain, get_number(attrs[CAPKM_A_EVENT_NUMBER]));
	if (!s->failures && is_of_failures(get_number(attrs[CAPKM_A_EVENT_TYPE])))
		attrs[CAPKM_A_EVENT_TYPE] = NULL;
	if (lost || attrs[CAPKM_A_EVENT_TYPE])
		fn(attrs, lost, ctx);
}

static int read_all(const struct request *rq, struct source *s, event_fn fn, void *ctx)
{
	static char buffer[65536];
	struct nlmsghdr *hdr = (void *)buffer;
	struct sockaddr_nl from = {};
	socklen_t len = sizeof(from);
	int n;

	n = recvfrom(s->fd, buffer, sizeof(buffer), MSG_DONTWAIT, (void *)&from, &len);
	if (n < 0 && errno == ENOBUFS) {
		s->overrun = true;
		return EXIT_OK;
	}
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return EXIT_OK;
	if (n < 0)
		return fail(rq, errno, "cannot read events: %s", strerror(errno));
	if (from.nl_pid)
		return EXIT_OK;	/* not the kernel's */
	for (; nlmsg_ok(hdr, n); hdr = nlmsg_next(hdr, &n))
		give_message(s, hdr, fn, ctx);
	return EXIT_OK;
}

/* ---- a session ---- */

static int attach_failed(const struct request *rq, uint64_t domain)
{
	const char *why = strerror(errno);

	switch (errno) {
	case ENOENT:
		why = "it is defunct, or gone, or you may not read it; capadm domains lists those that you may";
		break;
	case EACCES:
		why = "it is yours, but its mode does not let you read it";
		break;
	}
	return fail(rq, errno, "cannot attach to domain %" PRIu64 ": %s", domain, why);
}

static int open_session(const struct request *rq, struct source *s)
{
	struct capkm_domain_attach attach = {
		.size = sizeof(attach),
		.flags = s->failures ? CAPKM_DOMAIN_ATTACH_F_FAILURE_EVENTS : 0,
		.domain = s->domain,
		.backend = CAPKM_BACKEND_NONE,
	};

	s->fd = open(DEVICE, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (s->fd < 0)
		return fail(rq, errno, "%s: %s; capadm doctor says why", DEVICE,
			    strerror(errno));
	if (ioctl(s->fd, CAPKM_IOC_DOMAIN_ATTACH, &attach))
		return attach_failed(rq, s->domain);
	return EXIT_OK;
}

static void put_event(struct nl_msg *msg, uint64_t domain, const struct capkm_event *e)
{
	static const uint8_t host[sizeof(e->device)];

	nla_put_u64(msg, CAPKM_A_EVENT_DOMAIN, domain);
	nla_put_u32(msg, CAPKM_A_EVENT_TYPE, e->type);
	nla_put_u64(msg, CAPKM_A_EVENT_NUMBER, e->number);
	nla_put_u64(msg, CAPKM_A_EVENT_TIME_NS, e->time_ns);
	nla_put_u64(msg, CAPKM_A_EVENT_SEQUENCE, e->sequence);
	nla_put_u64(msg, CAPKM_A_EVENT_SESSION, e->session);
	nla_put_u64(msg, CAPKM_A_EVENT_STREAM, e->stream);
	nla_put_u64(msg, CAPKM_A_EVENT_WINDOW, e->window);
	nla_put_u64(msg, CAPKM_A_EVENT_GRAPH, e->graph);
	nla_put_u64(msg, CAPKM_A_EVENT_FAILURE, e->failure);
	nla_put_u64(msg, CAPKM_A_EVENT_COUNT, e->count);
	nla_put_u32(msg, CAPKM_A_EVENT_KIND, e->kind);
	nla_put_u32(msg, CAPKM_A_EVENT_PID, e->pid);
	if (memcmp(e->device, host, sizeof(host)))
		nla_put(msg, CAPKM_A_EVENT_DEVICE, sizeof(e->device), e->device);
	nla_put_u64(msg, CAPKM_A_EVENT_LEDGER, e->ledger);
	nla_put_u32(msg, CAPKM_A_EVENT_AXIS, e->axis);
	nla_put_u32(msg, CAPKM_A_EVENT_BOUND, e->bound);
}

/* As if it had come by netlink, so that there is one way to show it. */
static void give_event(const struct source *s, const struct capkm_event *e, event_fn fn,
		       void *ctx)
{
	struct nlattr *attrs[ATTR_MAX + 1];
	struct nl_msg *msg = must(nlmsg_alloc());

	must(nlmsg_put(msg, 0, 0, NLMSG_MIN_TYPE, 0, 0));
	put_event(msg, s->domain, e);
	if (nlmsg_parse(nlmsg_hdr(msg), 0, attrs, ATTR_MAX, NULL) >= 0)
		fn(attrs, e->lost, ctx);
	nlmsg_free(msg);
}

static int read_session(const struct request *rq, struct source *s, event_fn fn,
			void *ctx, bool *ended)
{
	static struct capkm_event events[READ_EVENTS];
	const char *next = (const char *)events;
	struct capkm_event e;
	ssize_t n = read(s->fd, events, sizeof(events));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return EXIT_OK;
	if (n < 0)
		return fail(rq, errno, "cannot read the events of domain %" PRIu64 ": %s",
			    s->domain, strerror(errno));
	*ended = !n;
	/* Those of a newer module are longer. */
	for (; n >= (ssize_t)sizeof(e); next += e.size, n -= e.size) {
		memcpy(&e, next, sizeof(e));
		if (e.size < sizeof(e) || e.size > n)
			return fail(rq, EPROTO, "the module's events are not as expected");
		give_event(s, &e, fn, ctx);
	}
	return EXIT_OK;
}

/* ---- either ---- */

/* Of a domain that is not there nothing would ever come. */
static int check_domain(const struct request *rq, struct source *s)
{
	struct query q = { .cmd = CAPKM_CMD_DOMAIN_GET };
	char *what = format("read domain %" PRIu64, s->domain);
	int status;

	ask_u64(&q, CAPKM_A_DOMAIN_ID, s->domain);
	status = kernel_dump(rq, &q, what, note_newest, s);
	free(what);
	return status;
}

static int open_either(const struct request *rq, struct source *s)
{
	int status = kernel_open(rq, &s->kernel);

	if (status) {
		s->kernel.sock = NULL;
		return status;
	}
	if (!s->domain)
		return open_all(rq, s);
	if (!subscribe(s))
		return check_domain(rq, s);
	leave(s);
	return open_session(rq, s);
}

bool events_domain_lives(const struct request *rq, struct source *s)
{
	struct query q = { .cmd = CAPKM_CMD_DOMAIN_GET };
	struct request silent = *rq;
	char *error = NULL;
	bool gone = false;

	/* A session says it itself; netlink may not show the domain where we are. */
	if (!s->kernel.sock)
		return true;
	q.gone = &gone;
	silent.error = &error;
	ask_u64(&q, CAPKM_A_DOMAIN_ID, s->domain);
	kernel_dump(&silent, &q, "look for the domain", note_newest, s);
	free(error);
	return !gone;
}

int events_open(const struct request *rq, uint64_t domain, bool failures,
		struct source **out)
{
	struct source *s = must(calloc(1, sizeof(*s)));
	int status;

	s->fd = -1;
	s->domain = domain;
	s->failures = failures;
	status = open_either(rq, s);
	if (status)
		events_close(s);
	else
		*out = s;
	return status;
}

int events_fd(const struct source *s)
{
	return s->fd;
}

int events_read(const struct request *rq, struct source *s, event_fn fn, void *ctx,
		bool *ended)
{
	return s->kernel.sock ? read_all(rq, s, fn, ctx) :
			 read_session(rq, s, fn, ctx, ended);
}

bool events_overrun(struct source *s)
{
	bool overrun = s->overrun;

	s->overrun = false;
	return overrun;
}

void events_close(struct source *s)
{
	if (s->kernel.sock)
		kernel_close(&s->kernel);
	else if (s->fd >= 0)
		close(s->fd);
	free(s);
}
