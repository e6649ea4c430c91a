// SPDX-License-Identifier: GPL-2.0-only
/*
 * A terminal for a program in the test machine, which has none: what would be on its
 * screen is for an emulator to say, elsewhere.
 *
 *   pty DIR ROWS COLUMNS PROGRAM [ARGUMENT...] <steps
 *
 * Each line of the steps is done, and what the program has written until then goes into
 * DIR/0, DIR/1 and so on:
 *
 *   sleep MILLISECONDS, size ROWS COLUMNS, keys TEXT, kill SIGNAL-NUMBER
 *   state: R, S, T of the program's /proc/PID/stat, into DIR/state-N
 *   modes: "echo", "canonical" of the terminal, as far as they are on, into DIR/modes-N
 *
 * At the end it waits for the program; its exit status is ours.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static const char *dir;
static int master, step;
static FILE *out;

static void die(const char *what)
{
	fprintf(stderr, "pty: %s: %s\n", what, strerror(errno));
	exit(126);
}

static FILE *file(const char *name)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s%d", dir, name, step);
	f = fopen(path, "we");
	if (!f)
		die(path);
	return f;
}

/* Takes what is written; 0: the terminal has been left by all. */
static int pump(int ms)
{
	struct timespec t;
	long long now, end;
	char bytes[4096];

	clock_gettime(CLOCK_MONOTONIC, &t);
	now = t.tv_sec * 1000ll + t.tv_nsec / 1000000;
	for (end = now + ms; now <= end;) {
		struct pollfd p = { .fd = master, .events = POLLIN };
		ssize_t n;

		poll(&p, 1, end - now);
		if (p.revents) {
			n = read(master, bytes, sizeof(bytes));
			if (n <= 0)
				return 0;
			fwrite(bytes, n, 1, out);
		}
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * 1000ll + t.tv_nsec / 1000000;
	}
	return 1;
}

static void set_size(int rows, int columns)
{
	const struct winsize w = { .ws_row = rows, .ws_col = columns };

	if (ioctl(master, TIOCSWINSZ, &w))
		die("size");
}

static void print_state(int pid)
{
	char path[64], text[512] = "";
	FILE *f, *to = file("state-");

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(text, sizeof(text), f) && strrchr(text, ')'))
		fprintf(to, "%c\n", strrchr(text, ')')[2]);
	if (f)
		fclose(f);
	fclose(to);
}

static void print_modes(void)
{
	FILE *to = file("modes-");
	struct termios t;

	if (tcgetattr(master, &t))
		die("modes");
	fprintf(to, "%s%s\n", t.c_lflag & ECHO ? "echo " : "", t.c_lflag & ICANON ? "canonical" : "");
	fclose(to);
}

static void do_step(const char *line, int pid)
{
	int a, b;

	if (sscanf(line, "sleep %d", &a) == 1) {
		pump(a);
	} else if (sscanf(line, "size %d %d", &a, &b) == 2) {
		set_size(a, b);
	} else if (sscanf(line, "kill %d", &a) == 1) {
		kill(pid, a);
	} else if (!strncmp(line, "keys ", 5)) {
		if (write(master, line + 5, strlen(line + 5)) < 0)
			die("keys");
	} else if (!strcmp(line, "state")) {
		print_state(pid);
	} else if (!strcmp(line, "modes")) {
		print_modes();
	} else {
		errno = EINVAL;
		die(line);
	}
}

/*
 * What is between: only a program whose parent is of its session, and of another group, is
 * stopped by the terminal.
 */
static void be_shell(int slave, char **argv, int ready)
{
	int pid, status;

	setsid();
	ioctl(slave, TIOCSCTTY, 0);
	for (int i = 0; i < 3; i++)
		dup2(slave, i);
	if (slave > 2)
		close(slave);
	signal(SIGTTOU, SIG_IGN);
	pid = fork();
	if (!pid) {
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		signal(SIGTTOU, SIG_DFL);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || write(ready, &pid, sizeof(pid)) < 0)
		_exit(127);
	close(ready);
	waitpid(pid, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

int main(int argc, char **argv)
{
	char line[256];
	int pid, shell, status, slave, ready[2];

	if (argc < 5)
		return 126;
	dir = argv[1];
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || grantpt(master) || unlockpt(master))
		die("a terminal");
	set_size(atoi(argv[2]), atoi(argv[3]));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (slave < 0)
		die("the other end");
	if (pipe2(ready, O_CLOEXEC))
		die("a pipe");
	shell = fork();
	if (!shell)
		be_shell(slave, argv + 4, ready[1]);
	if (read(ready[0], &pid, sizeof(pid)) != sizeof(pid))
		die("the program");
	for (step = 0, out = file(""); fgets(line, sizeof(line), stdin); step++, out = file("")) {
		line[strcspn(line, "\n")] = 0;
		do_step(line, pid);
		fclose(out);
	}
	close(slave);
	while (pump(200) && !waitpid(shell, &status, WNOHANG))
		;
	waitpid(shell, &status, 0);
	fclose(out);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
