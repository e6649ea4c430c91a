// SPDX-License-Identifier: GPL-2.0-only
/*
 * capadm: its command line, and what the kernel answers. The input is the words of the
 * command line, one a line, up to a NUL; behind it the answers, in a short form of what
 * netlink has (see message()), and all else that the world says to capadm.
 *
 * The Makefile has capadm call the functions here in place of those of libc and libnl
 * that would reach beyond the process. Whatever the words and the answers are, nothing
 * that is printed may do more to a terminal than text does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <poll.h>
#include <unistd.h>

#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/handlers.h>
#include <netlink/netlink.h>

#include <linux/capkm.h>

#include "../choices.h"

int capadm_main(int argc, char **argv);

#define FAMILY	29
#define WORDS	24
#define MOST	8192	/* bytes of one answer */

static struct choices world;

static unsigned int byte(void)
{
	return choose(&world, 256);
}

/* ---- netlink */

static size_t bytes(unsigned char *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = byte();
	return n;
}

struct out {
	unsigned char *at;
	size_t n;
};

static bool put(struct out *o, unsigned int type, const void *data, size_t len)
{
	struct nlattr a = { .nla_len = NLA_HDRLEN + len, .nla_type = type };

	if (o->n + NLA_HDRLEN + NLA_ALIGN(len) > MOST)
		return false;
	memcpy(o->at + o->n, &a, sizeof(a));
	memset(o->at + o->n + NLA_HDRLEN, 0, NLA_ALIGN(len));
	if (len)
		memcpy(o->at + o->n + NLA_HDRLEN, data, len);
	o->n += NLA_HDRLEN + NLA_ALIGN(len);
	return true;
}

/*
 * Attributes: a type, 0 at the end, and what it has: up to 79 so many bytes as they come;
 * then a number of 32 or 64 bits of a byte or of all of its own; a nest.
 */
static void attributes(struct out *o, int depth)
{
	for (;;) {
		const unsigned int type = byte(), what = byte();
		unsigned char data[80];
		uint64_t number = 0;
		struct nlattr *nest = (void *)(o->at + o->n);
		const size_t start = o->n;

		if (!type || o->n + sizeof(data) + NLA_HDRLEN > MOST)
			return;
		if (what < sizeof(data)) {
			put(o, type, data, bytes(data, what));
		} else if (what < 208) {
			if (what % 2)
				bytes((void *)&number, 8);
			else
				number = byte();
			put(o, type, &number, what % 4 < 2 ? 4 : 8);
		} else if (depth < 5 && put(o, type, NULL, 0)) {
			attributes(o, depth + 1);
			nest->nla_len = o->n - start;
		}
	}
}

/* The next message that the kernel sends; when all has been said, the end of a dump. */
static size_t message(unsigned char *at)
{
	const unsigned int what = choices_are_over(&world) ? 3 : byte() % 8;
	struct nlmsghdr hdr = { .nlmsg_type = FAMILY, .nlmsg_flags = NLM_F_MULTI };
	const struct genlmsghdr genl = { .cmd = 1, .version = 1 };
	struct out o = { at, NLMSG_HDRLEN };
	struct nlmsgerr e = { 0 };
	int end = 0;

	switch (what) {
	case 0:			/* an error, or that it was done */
	case 1:
		hdr.nlmsg_type = NLMSG_ERROR;
		e.error = -(int)byte();
		hdr.nlmsg_flags = byte() % 2 ? NLM_F_CAPPED : 0;
		e.msg.nlmsg_len = NLMSG_HDRLEN + (hdr.nlmsg_flags ? 0 : byte() % 32);
		memcpy(at + o.n, &e, sizeof(e));
		o.n += sizeof(e);
		goto words;
	case 2:			/* bytes as they come */
		o.n += bytes(at + o.n, byte());
		break;
	case 3:
		hdr.nlmsg_type = NLMSG_DONE;
		end = -(int)byte();
		memcpy(at + o.n, &end, sizeof(end));
		o.n += sizeof(end);
words:
		if (byte() % 2) {
			hdr.nlmsg_flags |= NLM_F_ACK_TLVS;
			attributes(&o, 0);
		}
		break;
	default:
		memcpy(at + o.n, &genl, sizeof(genl));
		o.n += sizeof(genl);
		attributes(&o, 0);
	}
	hdr.nlmsg_len = o.n;
	memcpy(at, &hdr, sizeof(hdr));
	return NLMSG_ALIGN(o.n);
}

static int receive(struct nl_sock *sock, struct sockaddr_nl *from, unsigned char **buffer,
		   struct ucred **credentials)
{
	size_t n = 0;

	*from = (struct sockaddr_nl){ .nl_family = AF_NETLINK };
	*buffer = calloc(4, MOST + 64);
	for (int i = byte() % 3; i >= 0; i--)
		n += message(*buffer + n);
	return n;
}

int capadm_nl_recvmsgs(struct nl_sock *sock, struct nl_cb *cb);
int capadm_nl_recvmsgs(struct nl_sock *sock, struct nl_cb *cb)
{
	nl_cb_overwrite_recv(cb, receive);
	return nl_recvmsgs(sock, cb);
}

int capadm_genl_connect(struct nl_sock *sock);
int capadm_genl_connect(struct nl_sock *sock)
{
	/* Then sequence numbers are not looked at. */
	nl_socket_disable_auto_ack(sock);
	return byte() == 255 ? -NLE_NOMEM : 0;
}

int capadm_genl_ctrl_resolve(struct nl_sock *sock, const char *name);
int capadm_genl_ctrl_resolve(struct nl_sock *sock, const char *name)
{
	const unsigned int what = byte();

	return what < 254 ? FAMILY : what == 254 ? -NLE_OBJ_NOTFOUND : -NLE_PERM;
}

int capadm_nl_send_auto(struct nl_sock *sock, struct nl_msg *msg);
int capadm_nl_send_auto(struct nl_sock *sock, struct nl_msg *msg)
{
	return byte() == 255 ? -NLE_NOMEM : (int)nlmsg_hdr(msg)->nlmsg_len;
}

int capadm_genl_send_simple(struct nl_sock *sock, int family, int cmd, int version, int flags);
int capadm_genl_send_simple(struct nl_sock *sock, int family, int cmd, int version, int flags)
{
	return byte() == 255 ? -NLE_NOMEM : 0;
}

/* ---- the device, and waiting */

static bool fails(int err)
{
	errno = err;
	return byte() > 200;
}

ssize_t capadm_recv(int fd, void *to, size_t n, int flags);
ssize_t capadm_recv(int fd, void *to, size_t n, int flags)
{
	struct nlmsgerr e = { .error = -(int)byte() };
	struct nlmsghdr hdr = { .nlmsg_type = NLMSG_ERROR };

	if (!fails(EAGAIN) || n < sizeof(hdr) + sizeof(e))
		return -1;
	memcpy(to, &hdr, sizeof(hdr));
	memcpy((char *)to + sizeof(hdr), &e, sizeof(e));
	return sizeof(hdr) + sizeof(e);
}

ssize_t capadm_recvfrom(int fd, void *to, size_t n, int flags, void *from, void *len);
ssize_t capadm_recvfrom(int fd, void *to, size_t n, int flags, void *from, void *len)
{
	if (fails(byte() % 2 ? ENOBUFS : EINTR))
		return -1;
	return message(to);
}

ssize_t capadm_read(int fd, void *to, size_t n);
ssize_t capadm_read(int fd, void *to, size_t n)
{
	struct capkm_event e;
	size_t done = 0;

	if (fails(byte() % 2 ? EAGAIN : EIO))
		return -1;
	for (int i = byte() % 4; i && done + sizeof(e) <= n; i--) {
		bytes((void *)&e, sizeof(e));
		if (byte() % 8)
			e.size = sizeof(e);
		memcpy((char *)to + done, &e, sizeof(e));
		done += sizeof(e);
	}
	return done;
}

int capadm_open(const char *path, int flags, ...);
int capadm_open(const char *path, int flags, ...)
{
	if (!strcmp(path, "/"))
		return open(path, O_PATH | O_CLOEXEC);
	return fails(byte() % 2 ? ENOENT : EACCES) ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);
}

int capadm_ioctl(int fd, unsigned long request, ...);
int capadm_ioctl(int fd, unsigned long request, ...)
{
	return fails(byte() % 2 ? EACCES : ENOENT) ? -1 : 0;
}

int capadm_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask);
int capadm_ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask)
{
	const unsigned int what = byte() % 4;

	if (!what || !n)
		return 0;
	p->revents = POLLIN;
	return what == 3 ? -1 : 1;
}

/* Everybody stops when nothing comes any more. */
int capadm_sigpending(sigset_t *set);
int capadm_sigpending(sigset_t *set)
{
	sigemptyset(set);
	if (choices_are_over(&world))
		sigaddset(set, SIGINT);
	return 0;
}

static uint64_t seconds;

int capadm_clock_gettime(clockid_t clock, struct timespec *t);
int capadm_clock_gettime(clockid_t clock, struct timespec *t)
{
	*t = (struct timespec){ .tv_sec = 1600000000 + seconds++ };
	return 0;
}

int capadm_sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int capadm_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return 0;
}

int capadm_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int capadm_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return old ? sigemptyset(old) : 0;
}

/* ---- files, and who is who */

int capadm_mkstemp(char *template);
int capadm_mkstemp(char *template)
{
	return fails(EROFS) ? -1 : memfd_create("textfile", MFD_CLOEXEC);
}

int capadm_rename(const char *from, const char *to);
int capadm_rename(const char *from, const char *to)
{
	return fails(EACCES) ? -1 : 0;
}

int capadm_unlink(const char *path);
int capadm_unlink(const char *path)
{
	return 0;
}

FILE *capadm_fopen(const char *path, const char *mode);
FILE *capadm_fopen(const char *path, const char *mode)
{
	FILE *f = fails(ENOENT) ? NULL : tmpfile();

	if (!f)
		return NULL;
	for (int n = byte(); n > 128; n--)
		fputc(byte(), f);
	rewind(f);
	return f;
}

int capadm_access(const char *path, int mode);
int capadm_access(const char *path, int mode)
{
	return fails(ENOENT) ? -1 : 0;
}

int capadm_isatty(int fd);
int capadm_isatty(int fd)
{
	return 0;
}

void *capadm_dlopen(const char *name, int flags);
void *capadm_dlopen(const char *name, int flags)
{
	return NULL;
}

char *capadm_dlerror(void);
char *capadm_dlerror(void)
{
	return (char *)"there is no such library";
}

static struct passwd *somebody(void)
{
	static struct passwd pw = { .pw_name = (char *)"a\033[2Jb", .pw_uid = 7 };

	return byte() % 2 ? &pw : NULL;
}

struct passwd *capadm_getpwuid(uid_t uid);
struct passwd *capadm_getpwuid(uid_t uid)
{
	return somebody();
}

struct passwd *capadm_getpwnam(const char *name);
struct passwd *capadm_getpwnam(const char *name)
{
	return somebody();
}

/* ---- a run */

/* Bytes of the character at @s that is no control, 0 if it is none. UTF-8, without locale. */
static size_t character(const unsigned char *s, const unsigned char *end)
{
	const size_t n = *s < 0x80 ? 1 : *s >= 0xf0 ? 4 : *s >= 0xe0 ? 3 : 2;

	if (n == 1)
		return *s == '\n' || *s == '\t' || (*s >= ' ' && *s < 0x7f);
	if (*s < 0xc2 || *s > 0xf4 || n > (size_t)(end - s) || (*s == 0xc2 && s[1] < 0xa0))
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static void check_text(const char *what, const char *text, size_t n)
{
	const unsigned char *s = (const unsigned char *)text, *end = s + n;
	size_t more;

	for (; s < end; s += more) {
		more = character(s, end);
		if (more)
			continue;
		fprintf(stderr, "byte %02x at %zu of %s: %s\n", *s,
			s - (const unsigned char *)text, what, text);
		abort();
	}
}

/* The words of a copy of @line; 0: there are none, or too many. */
static int split(char *line, char **words)
{
	int n = 1;

	words[0] = (char *)"capadm";
	for (; *line; line += strcspn(line, "\n"), line += *line ? 1 : 0) {
		if (n == WORDS)
			return 0;
		words[n++] = line;
	}
	for (int i = 1; i < n; i++)
		words[i][strcspn(words[i], "\n")] = 0;
	words[n] = NULL;
	return n;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	return setenv("LC_ALL", "C", 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t length = strnlen((const char *)data, size);
	FILE *const out = stdout, *const err = stderr;
	char *line = strndup((const char *)data, size), *words[WORDS + 1];
	char *text[2];
	size_t n[2];
	int argc, status = 0;

	world.at = data + length + (length < size);
	world.end = data + size;
	seconds = 0;
	argc = split(line, words);
	if (argc) {
		stdout = open_memstream(&text[0], &n[0]);
		stderr = open_memstream(&text[1], &n[1]);
		status = capadm_main(argc, words);
		fclose(stdout);
		fclose(stderr);
		stdout = out;
		stderr = err;
		check_text("stdout", text[0], n[0]);
		check_text("stderr", text[1], n[1]);
		if (status < 0 || status > 3)
			abort();
		free(text[0]);
		free(text[1]);
	}
	free(line);
	return argc ? 0 : -1;
}
