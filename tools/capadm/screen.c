// SPDX-License-Identifier: GPL-2.0-only
/*
 * A terminal's whole screen, for a time. The signals that end, stop, continue or resize
 * only come while screen_wait() waits, so no picture is cut in two by them; what they ask
 * for is done by it, outside of the handlers.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "screen.h"
#include "values.h"

/* The other screen, without a cursor, where long lines are cut. */
#define TAKE "\033[?1049h\033[?25l\033[?7l"
#define GIVE_BACK "\033[?7h\033[?25h\033[?1049l"

static bool is_open, has_keys;
static struct termios before;
static sigset_t caught, waiting;
static volatile sig_atomic_t ended, suspended, changed;

static void on_signal(int sig)
{
	if (sig == SIGTSTP)
		suspended = 1;
	else if (sig == SIGCONT || sig == SIGWINCH)
		changed = 1;
	else
		ended = 1;
}

/* What the parent had us ignore stays so. */
static void catch(int sig)
{
	const struct sigaction sa = { .sa_handler = on_signal };
	struct sigaction old;

	if (!sigaction(sig, NULL, &old) && old.sa_handler == SIG_IGN)
		return;
	sigaction(sig, &sa, NULL);
	sigaddset(&caught, sig);
}

/* Keys are not shown, and come one by one. */
static void take_keys(void)
{
	struct termios t;

	has_keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &t);
	if (!has_keys)
		return;
	/* A signal may have us take what is ours already. */
	if (!is_open)
		before = t;
	t.c_lflag &= ~(ICANON | ECHO);
	t.c_cc[VMIN] = 0;
	t.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
}

static void take(void)
{
	take_keys();
	fputs(TAKE, stdout);
	fflush(stdout);
	is_open = true;
}

static void give_back(void)
{
	fputs(GIVE_BACK, stdout);
	fflush(stdout);
	if (has_keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	is_open = false;
}

bool screen_open(void)
{
	static const int signals[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH,
	};
	const char *term = getenv("TERM");
	size_t i;

	if (!isatty(STDOUT_FILENO) || !term || !*term || !strcmp(term, "dumb"))
		return false;
	sigemptyset(&caught);
	for (i = 0; i < ARRAY_SIZE(signals); i++)
		catch(signals[i]);
	sigprocmask(SIG_BLOCK, &caught, &waiting);
	/* A picture at a time. */
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	atexit(screen_close);
	take();
	return true;
}

void screen_close(void)
{
	if (is_open)
		give_back();
}

void screen_begin(void)
{
	fputs("\033[H\033[2J", stdout);
}

size_t screen_rows(void)
{
	struct winsize w;

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) ? 0 : w.ws_row;
}

/* As if nobody had caught the signal, but that the shell gets its screen first. */
static void suspend(void)
{
	const struct sigaction ours = { .sa_handler = on_signal };
	const struct sigaction none = { .sa_handler = SIG_DFL };
	sigset_t only;

	suspended = 0;
	give_back();
	sigemptyset(&only);
	sigaddset(&only, SIGTSTP);
	sigaction(SIGTSTP, &none, NULL);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &only, NULL);	/* here it stops */
	sigprocmask(SIG_BLOCK, &only, NULL);
	sigaction(SIGTSTP, &ours, NULL);
	take();
	changed = 1;
}

static bool is_quit(void)
{
	char key;

	return read(STDIN_FILENO, &key, 1) == 1 && (key == 'q' || key == 'Q');
}

enum screen_event screen_wait(uint64_t ns)
{
	struct pollfd keys = { .fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN };
	struct timespec t;
	uint64_t now;

	for (;;) {
		now = monotonic_ns();
		now = ns > now ? ns - now : 0;
		t.tv_sec = now / 1000000000;
		t.tv_nsec = now % 1000000000;
		ppoll(&keys, 1, &t, &waiting);
		if (ended || (keys.revents & POLLIN && is_quit()) ||
		    keys.revents & (POLLHUP | POLLERR))
			return SCREEN_STOP;
		if (suspended)
			suspend();
		if (changed) {
			changed = 0;
			take();		/* a shell may have taken it while we were stopped */
			return SCREEN_REDRAW;
		}
		if (!now)
			return SCREEN_TIME;
		keys.revents = 0;
	}
}
