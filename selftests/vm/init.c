// SPDX-License-Identifier: GPL-2.0-only
/*
 * Process 1 of the test machine: loads capkm, runs /command, unloads capkm,
 * reads the kernel's log, and says on the second serial port how it went.
 *
 * The host believes nothing but that line, and only with the nonce it put on the
 * kernel command line: a panic, a hang or a lost console cannot look like
 * success.  Arguments that the kernel does not know reach us as environment.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define CONSOLE "/dev/ttyS0"
#define VERDICT "/dev/ttyS1"
#define FILES "/dev/ttyS2"

#define MARK "vm: log starts here"
#define KMEMLEAK "/sys/kernel/debug/kmemleak"
#define SLABS "/sys/kernel/debug/slab"

static const struct {
	const char *type, *dir, *opts;
	mode_t mode;
} mounts[] = {
	{ "devtmpfs", "/dev", "mode=0755", 0755 },
	{ "devpts", "/dev/pts", "ptmxmode=0666", 0755 },
	{ "tmpfs", "/dev/shm", "mode=1777", 01777 },
	{ "proc", "/proc", NULL, 0555 },
	{ "sysfs", "/sys", NULL, 0555 },
	{ "debugfs", "/sys/kernel/debug", NULL, 0700 },
	{ "tracefs", "/sys/kernel/tracing", NULL, 0700 },
	{ "tmpfs", "/tmp", "mode=1777", 01777 },
	{ "tmpfs", "/run", "mode=0755", 0755 },
};

/* What a kernel says when something is wrong with it. */
static const char *const splats[] = {
	"WARNING: ", "BUG: ", "Oops", "Call Trace:", "INFO: task ", "INFO: rcu",
	"rcu: INFO:", "KASAN:", "KCSAN:", "KFENCE:", "UBSAN:", "refcount_t:",
	"lockdep", "INFO: possible", "possible circular locking",
	"possible recursive locking", "inconsistent lock state",
	"leak", "Unknown symbol",
};

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "vm: %s: %s\n", path, strerror(errno));
	close(fd);
}

static void open_console(void)
{
	int fd = open(CONSOLE, O_RDWR | O_NOCTTY);

	for (int i = 0; fd >= 0 && i < 3; i++)
		dup2(fd, i);
	if (fd > 2)
		close(fd);
}

static int open_port(const char *path)
{
	struct termios t;
	int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0 && !tcgetattr(fd, &t)) {
		cfmakeraw(&t);
		tcsetattr(fd, TCSANOW, &t);
	}
	return fd;
}

/* The program's exit status, or 128 plus the signal that ended it. */
static int run(int out, const char *path, ...)
{
	char *argv[16] = { (char *)path };
	int status, i = 0;
	va_list ap;
	pid_t pid;

	va_start(ap, path);
	while (argv[i++] && i < 15)
		argv[i] = va_arg(ap, char *);
	va_end(ap);

	pid = fork();
	if (!pid) {
		if (out >= 0)
			dup2(out, 1);
		execv(path, argv);
		fprintf(stderr, "vm: %s: %s\n", path, strerror(errno));
		_exit(127);
	}
	/* Orphans are ours as well. */
	for (;;) {
		pid_t dead = wait(&status);

		if (dead == pid)
			break;
		if (dead < 0 && errno == ECHILD)
			return 127;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool is_splat(const char *line)
{
	for (size_t i = 0; i < sizeof(splats) / sizeof(splats[0]); i++)
		if (strstr(line, splats[i]))
			return true;
	return false;
}

/* How many lines of the kernel's log, since the mark, look like trouble. */
static int scan_log(void)
{
	int size = klogctl(10, NULL, 0), n, found = 0;
	bool expected = false;
	char *log, *line;

	log = size > 0 ? malloc(size + 1) : NULL;
	n = log ? klogctl(3, log, size) : -1;
	if (n < 0)
		return 1;
	log[n] = '\0';
	line = strstr(log, MARK);
	if (!line) {
		printf("vm: the kernel's log was too small to keep the whole run\n");
		return 1;
	}
	for (line = strtok(line, "\n"); line; line = strtok(NULL, "\n")) {
		/* Tests make memory run out; then the kernel says where that was. */
		if (strstr(line, "invoked oom-killer"))
			expected = true;
		if (!is_splat(line))
			continue;
		if (expected && strstr(line, "Call Trace:")) {
			expected = false;
			continue;
		}
		printf("vm: the kernel says: %s\n", line);
		found++;
	}
	return found;
}

/* Only debug kernels have it; it needs two scans and some seconds of age. */
static int scan_leaks(void)
{
	char line[256];
	int found = 0;
	FILE *f;

	if (access(KMEMLEAK, F_OK))
		return 0;
	sleep(6);
	write_file(KMEMLEAK, "scan");
	write_file(KMEMLEAK, "scan");
	f = fopen(KMEMLEAK, "r");
	while (f && fgets(line, sizeof(line), f)) {
		printf("vm: %s", line);
		found = 1;
	}
	if (f)
		fclose(f);
	return found;
}

/* Functions of a module that is gone have no names any more. */
static bool is_nameless(const char *line)
{
	line += strspn(line, " ");
	return !strncmp(line, "0x", 2);
}

/*
 * What the module has asked for and not given back, by the stacks that debug kernels keep
 * of each object. What KASAN holds back is free.
 */
static int scan_slab(const char *cache)
{
	char path[512], line[512], count[16] = "";
	int found = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/kernel/slab/%s/shrink", cache);
	write_file(path, "1");
	snprintf(path, sizeof(path), SLABS "/%s/alloc_traces", cache);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (strspn(line, " ") < 8)
			sscanf(line, "%15s", count);
		else if (is_nameless(line) && count[0]) {
			printf("vm: leak: %s objects of %s\n", count, cache);
			count[0] = '\0';
			found++;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static int scan_slabs(void)
{
	DIR *d = opendir(SLABS);
	struct dirent *e;
	int found = 0;

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "kmalloc", 7) || !strncmp(e->d_name, "skb", 3))
			found += scan_slab(e->d_name);
	if (d)
		closedir(d);
	return found;
}

static void verdict(int rc, int unload, int splats)
{
	const char *nonce = getenv("vm_nonce");
	char counts[64] = "0 0 0";
	int fd = open_port(VERDICT);
	FILE *f = fopen("/run/counts", "r");

	if (f && fgets(counts, sizeof(counts), f))
		counts[strcspn(counts, "\n")] = '\0';
	/* run waits for exactly this line */
	dprintf(fd, "%s rc %d unload %d splats %d counts %s\n", nonce ? nonce : "",
		rc, unload, splats, counts);
	tcdrain(fd);
	close(fd);
}

static void __attribute__((noreturn)) power_off(void)
{
	sync();
	/* A machine of QEMU is told not to come back from a reboot. */
	reboot(getenv("vm_power_off") ? RB_POWER_OFF : RB_AUTOBOOT);
	for (;;)
		pause();
}

int main(void)
{
	int rc, unload, splats, fd;

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		mkdir(mounts[i].dir, mounts[i].mode);
		if (mount(mounts[i].type, mounts[i].dir, mounts[i].type, 0, mounts[i].opts) &&
		    errno != EBUSY)
			fprintf(stderr, "vm: %s: %s\n", mounts[i].dir, strerror(errno));
	}
	open_console();
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	setenv("HOME", "/root", 1);
	setenv("TERM", "linux", 0);

	/* The host only wants to know whether this accelerator works. */
	if (getenv("vm_probe")) {
		verdict(0, 0, 0);
		power_off();
	}

	/* From here on the kernel's warnings are of interest. */
	klogctl(8, NULL, 5);
	write_file("/dev/kmsg", "<6>" MARK "\n");
	write_file(KMEMLEAK, "clear");

	rc = run(-1, "/bin/modprobe", "capkm", NULL);
	if (rc) {
		printf("vm: modprobe capkm: exit status %d\n", rc);
	} else {
		rc = run(-1, "/bin/sh", "/command", NULL);
		/* A shell that owned the terminal has hung it up by leaving. */
		open_console();
		printf("vm: command: exit status %d\n", rc);
	}
	/* A command after which no module can be loaded has unloaded ours itself. */
	unload = access("/run/unloaded", F_OK) ? run(-1, "/bin/rmmod", "capkm", NULL) : 0;
	if (unload)
		printf("vm: rmmod capkm: exit status %d\n", unload);
	splats = scan_leaks() + scan_slabs() + scan_log();

	if (!access("/get", F_OK)) {
		fd = open_port(FILES);
		if (run(fd, "/bin/sh", "/get", NULL))
			printf("vm: some of the files that were asked for are not there\n");
		tcdrain(fd);
	}
	fflush(stdout);
	tcdrain(1);
	verdict(rc, unload, splats);
	power_off();
}
