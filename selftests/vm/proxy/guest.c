// SPDX-License-Identifier: GPL-2.0-only
/*
 * The other end of the library's transport "proxy:", in the machine that has the module.
 * Each process that opens a handle there gets one here, with a session of its own, whose
 * name is the other's number and name; when its first connection ends it dies at once, as
 * that one may have, and the kernel does the rest.
 *
 *	guest PORT
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proxy_wire.h"
#include "transport.h"
#include "../../pass_fd.h"

#define DEVICE	"/dev/capkm"
#define SERVED	256	/* processes at once */

static void __attribute__((format(printf, 1, 2), noreturn)) die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "proxy: ");
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	va_end(args);
	exit(1);
}

static int reply(int fd, int rc, uint64_t key, const void *data, size_t bytes)
{
	const struct proxy_answer answer = {
		.rc = rc, .bytes = (uint32_t)bytes, .key = key,
	};

	rc = proxy_send(fd, &answer, sizeof(answer));
	return rc ? rc : proxy_send(fd, data, bytes);
}

/* ---- the process that is one of theirs ---- */

static void *session;

/* Arrays of the struct at @data follow it; theirs are addresses of the other machine. */
static int swap_arrays(const struct proxy_call *call, char *data, uint64_t *theirs)
{
	const struct op *op = proxy_op(call->nr);
	char *array = data + call->size;
	size_t bytes;

	for (int i = 0; op && i < CALL_ARRAYS; i++) {
		bytes = proxy_array(op, i, data, call->size, &theirs[i]);
		if (!bytes)
			continue;
		if (bytes > (size_t)(data + call->bytes - array))
			return -EPROTO;
		proxy_set_array(op, i, data, (uintptr_t)array);
		array += bytes;
	}
	return array == data + call->bytes ? 0 : -EPROTO;
}

static void swap_back(const struct proxy_call *call, char *data, const uint64_t *theirs)
{
	const struct op *op = proxy_op(call->nr);

	for (int i = 0; op && i < CALL_ARRAYS; i++)
		if (theirs[i] >= 4096)
			proxy_set_array(op, i, data, theirs[i]);
}

static int do_call(int fd, const struct proxy_call *call)
{
	uint64_t theirs[CALL_ARRAYS] = { 0 };
	char *data;
	int rc;

	if (call->size > call->bytes || call->size < 4 || call->bytes > PROXY_BYTES_MAX)
		return -EPROTO;
	data = malloc(call->bytes);
	if (!data)
		return -ENOMEM;
	rc = proxy_receive(fd, data, call->bytes);
	if (!rc)
		rc = swap_arrays(call, data, theirs);
	if (!rc) {
		rc = capkm_transport_kernel.call(session, call->nr, data);
		swap_back(call, data, theirs);
		rc = reply(fd, rc, 0, data, call->bytes);
	}
	free(data);
	return rc;
}

/* Of much room only a part is used; of none the kernel says what is wrong with it. */
static int do_events(int fd, const struct proxy_call *call)
{
	struct capkm_event *events;
	const uint32_t max = PROXY_BYTES_MAX / sizeof(*events), len = min(call->len, max);
	int rc;

	events = calloc(len + 1, sizeof(*events));
	if (!events)
		return -ENOMEM;
	rc = capkm_transport_kernel.events(session, events, len, call->timeout_ms);
	rc = reply(fd, rc, 0, events, rc > 0 ? rc * sizeof(*events) : 0);
	free(events);
	return rc;
}

static void *serve(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	struct proxy_call call;
	int rc = reply(fd, 0, 0, NULL, 0);

	while (!rc) {
		rc = proxy_receive(fd, &call, sizeof(call));
		if (!rc)
			rc = call.nr == PROXY_EVENTS ? do_events(fd, &call) :
						       do_call(fd, &call);
	}
	close(fd);
	return NULL;
}

/* The first connection: all that comes is the end, told or not. */
static void *watch(void *arg)
{
	const int fd = (int)(intptr_t)arg;
	struct proxy_call call;

	if (!proxy_receive(fd, &call, sizeof(call)) && call.nr == PROXY_CLOSE) {
		capkm_transport_kernel.close(session, false);
		reply(fd, 0, 0, NULL, 0);
	}
	_exit(0);
}

static void start(void *(*f)(void *arg), int fd)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, f, (void *)(intptr_t)fd))
		_exit(1);
	pthread_detach(thread);
}

/* @control: where further connections come from. */
static void __attribute__((noreturn))
be_one_of_theirs(const struct proxy_hello *hello, int first, int control)
{
	char name[32], why[400] = "";
	int fd, rc;

	snprintf(name, sizeof(name), "%u:%.15s", hello->pid, hello->name);
	prctl(PR_SET_NAME, name);
	rc = capkm_transport_kernel.open(DEVICE, &session, why, sizeof(why));
	if (reply(first, rc, (uint64_t)getpid(), NULL, 0) || rc)
		_exit(1);
	start(watch, first);
	while ((fd = receive_fd(control)) >= 0)
		start(serve, fd);
	/* Nobody will bring another one; the session is not over for that. */
	for (;;)
		pause();
}

/* ---- the one that all of them come to ---- */

static struct served {
	int pid;		/* and key; 0: free */
	int control;
} served[SERVED];

static struct served *find(int pid)
{
	for (int i = 0; i < SERVED; i++)
		if (served[i].pid == pid)
			return &served[i];
	return NULL;
}

static void reap(void)
{
	struct served *s;
	int pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		s = find(pid);
		if (s) {
			close(s->control);
			s->pid = 0;
		}
	}
}

static void new_session(const struct proxy_hello *hello, int fd)
{
	struct served *s = find(0);
	int pair[2], pid;

	if (!s || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
		reply(fd, -EMFILE, 0, NULL, 0);
		return;
	}
	pid = fork();
	if (!pid) {
		for (int i = 0; i < SERVED; i++)
			if (served[i].pid)
				close(served[i].control);
		close(pair[0]);
		be_one_of_theirs(hello, fd, pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		reply(fd, -EAGAIN, 0, NULL, 0);
		close(pair[0]);
		return;
	}
	*s = (struct served){ pid, pair[0] };
}

static void more(const struct proxy_hello *hello, int fd)
{
	struct served *s = find((int)hello->key);

	if (!s || !hello->key || !pass_fd(s->control, fd))
		reply(fd, -ECONNRESET, 0, NULL, 0);
}

/*
 * What it prints is the answer; its exit status, or 128 and the signal. In a process of
 * its own: others come meanwhile.
 */
static void run(const struct proxy_hello *hello, int fd)
{
	static char command[4096], out[1 << 16];
	size_t n = 0, got;
	int status = -1;
	FILE *f;

	signal(SIGCHLD, SIG_DFL);
	if (hello->bytes >= sizeof(command) || proxy_receive(fd, command, hello->bytes))
		return;
	command[hello->bytes] = '\0';
	f = popen(command, "r");
	while (f && (got = fread(out + n, 1, sizeof(out) - n, f)) > 0)
		n += got;
	if (f)
		status = pclose(f);
	reply(fd, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), 0, out, n);
}

static void start_command(const struct proxy_hello *hello, int fd)
{
	const int pid = fork();

	if (!pid) {
		run(hello, fd);
		_exit(0);
	}
	if (pid < 0)
		reply(fd, -EAGAIN, 0, NULL, 0);
}

static bool is_over;

static void meet(int fd)
{
	const struct timeval patience = { .tv_sec = 10 }, none = { 0 };
	struct proxy_hello hello;
	const int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (proxy_receive(fd, &hello, sizeof(hello)) || hello.magic != PROXY_MAGIC)
		return;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
	hello.name[sizeof(hello.name) - 1] = '\0';
	switch (hello.what) {
	case PROXY_SESSION:
		new_session(&hello, fd);
		break;
	case PROXY_MORE:
		more(&hello, fd);
		break;
	case PROXY_RUN:
		start_command(&hello, fd);
		break;
	case PROXY_STOP:
		is_over = true;
		reply(fd, 0, 0, NULL, 0);
		break;
	}
}

static void on_child(int signal)
{
	(void)signal;
}

static int listen_at(const char *port)
{
	const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)),
		.sin_addr.s_addr = htonl(INADDR_ANY),
	};

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (void *)&address, sizeof(address)) || listen(fd, SERVED))
		die("port %s: %s", port, strerror(errno));
	return fd;
}

int main(int argc, char **argv)
{
	struct sigaction child = { .sa_handler = on_child };
	int at, fd;

	if (argc != 2)
		die("one argument, a port");
	sigaction(SIGCHLD, &child, NULL);
	at = listen_at(argv[1]);
	printf("proxy: ready\n");
	fflush(stdout);
	while (!is_over) {
		fd = accept4(at, NULL, NULL, SOCK_CLOEXEC);
		reap();
		if (fd < 0)
			continue;
		meet(fd);
		close(fd);
	}
	for (int i = 0; i < SERVED; i++)
		if (served[i].pid)
			kill(served[i].pid, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
	return 0;
}
