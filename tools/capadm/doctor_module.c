// SPDX-License-Identifier: GPL-2.0-only
/*
 * Why the module is not loaded. The causes are in the order in which they would be met:
 * the first one that is true is what has to be dealt with next.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"

#define OLDEST_KERNEL "6.1"
#define SIGNATURE "~Module signature appended~\n"
#define MOK "/var/lib/dkms/mok.pub"

/* What one cause looks at. */
struct scene {
	struct doctor *d;
	const char *release;
	char *file;		/* capkm.ko of this kernel, or NULL */
	char *vermagic;		/* its kernel, NULL: not known */
	char *version;		/* its own, NULL: not known */
	bool is_signed, is_packed;	/* packed: not looked into */
};

/* ---- the file ---- */

/* For nftw(), which has no argument for us. */
static char *found_file;

static int visit(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *name = path + ftw->base;

	(void)st;
	if (type != FTW_F || strncmp(name, "capkm.ko", 8) || (name[8] && name[8] != '.'))
		return 0;
	found_file = format("%s", path);
	return 1;
}

static char *module_file(const char *release)
{
	char *dir = format("/lib/modules/%s", release);

	found_file = NULL;
	nftw(dir, visit, 16, FTW_PHYS);
	free(dir);
	return found_file;
}

/* What the module says of itself: "@mark..." after a zero, to the next one of @ends. */
static char *find_info(const char *bytes, size_t size, const char *mark, const char *ends)
{
	size_t len = strlen(mark);
	const char *v = bytes, *end = bytes + size;

	while ((v = memmem(v, end - v, mark, len))) {
		if (v > bytes && !v[-1])
			return must(strndup(v + len, strcspn(v + len, ends)));
		v += len;
	}
	return NULL;
}

/* A signature stands at the end. */
static void look_into(struct scene *s, const char *bytes, size_t size)
{
	size_t sig = strlen(SIGNATURE);

	s->vermagic = find_info(bytes, size, "vermagic=", " ");
	s->version = find_info(bytes, size, "version=", "");
	s->is_signed = size > sig && !memcmp(bytes + size - sig, SIGNATURE, sig);
}

static void read_module(struct scene *s)
{
	int fd = open(s->file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *bytes;

	s->is_packed = strcmp(s->file + strlen(s->file) - 3, ".ko");
	if (fd < 0)
		return;
	/* A page more than the file, so that it ends with a zero. */
	if (!s->is_packed && !fstat(fd, &st) && st.st_size) {
		bytes = must(calloc(1, st.st_size + 1));
		if (read(fd, bytes, st.st_size) == st.st_size)
			look_into(s, bytes, st.st_size);
		free(bytes);
	}
	close(fd);
}

/* ---- small questions ---- */

static bool says(const char *path, const char *text)
{
	char *line = read_line(path);
	bool yes = line && strstr(line, text);

	free(line);
	return yes;
}

static bool secure_boot(void)
{
	static const char var[] =
		"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
	unsigned char bytes[5] = {};	/* attributes, and the value */
	int fd = open(var, O_RDONLY | O_CLOEXEC);
	bool on = fd >= 0 && read(fd, bytes, sizeof(bytes)) == sizeof(bytes) && bytes[4] == 1;

	if (fd >= 0)
		close(fd);
	return on;
}

/* Why it does, or NULL. Where lockdown can be read it decides; a kernel need not care for Secure Boot. */
static const char *wants_signature(void)
{
	static const char lockdown[] = "/sys/kernel/security/lockdown";

	if (says("/sys/module/module/parameters/sig_enforce", "Y"))
		return "module.sig_enforce";
	if (!access(lockdown, R_OK))
		return says(lockdown, "[none]") ? NULL : "lockdown";
	return secure_boot() ? "Secure Boot" : NULL;
}

static bool is_file(const char *fmt, const char *release)
{
	char *path = format(fmt, release);
	bool there = !access(path, F_OK);

	free(path);
	return there;
}

/* The last that the pattern gives, or NULL. */
static char *match(const char *pattern)
{
	glob_t g = {};
	char *path = NULL;

	if (!glob(pattern, 0, NULL, &g) && g.gl_pathc)
		path = format("%s", g.gl_pathv[g.gl_pathc - 1]);
	globfree(&g);
	return path;
}

static bool has_line(const char *path, const char *begin)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool yes = false;

	while (f && !yes && getline(&line, &size, f) >= 0)
		yes = !strncmp(line + strspn(line, " \t"), begin, strlen(begin));
	if (f)
		fclose(f);
	free(line);
	return yes;
}

static bool listed_by_depmod(const struct scene *s)
{
	char *path = format("/lib/modules/%s/modules.dep", s->release);
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;
	bool yes = false;

	while (f && !yes && getline(&line, &size, f) >= 0)
		yes = strstr(line, "capkm.ko");
	if (f)
		fclose(f);
	free(line);
	free(path);
	return yes;
}

static bool has_dkms(void)
{
	return !access("/usr/sbin/dkms", X_OK) || !access("/usr/bin/dkms", X_OK);
}

/*
 * The command that builds it for this kernel, the way it came here; @again: over what is there.
 * (What DKMS has built it installs again, --force or not; it has to be removed.)
 */
static char *build(const struct scene *s, bool again)
{
	char *dkms = match("/usr/src/capkm-*"), *command;
	const char *version = dkms ? dkms + strlen("/usr/src/capkm-") : NULL;

	if (dkms && has_dkms() && again)
		command = format("dkms remove capkm/%s -k %s; dkms install capkm/%s -k %s", version,
				 s->release, version, s->release);
	else if (dkms && has_dkms())
		command = format("dkms install capkm/%s -k %s", version, s->release);
	else
		command = format("make modules modules_install && depmod  # in capkm's sources");
	free(dkms);
	return command;
}

/* How this distribution has the headers of a kernel. */
static char *get_headers(const struct scene *s)
{
	static const struct {
		const char *like, *command;
		bool release;		/* stands behind it */
	} ways[] = {
		{ "debian", "apt install linux-headers-", true },
		{ "ubuntu", "apt install linux-headers-", true },
		{ "fedora", "dnf install kernel-devel-", true },
		{ "rhel", "dnf install kernel-devel-", true },
		{ "suse", "zypper install kernel-devel", false },
		{ "arch", "pacman -S linux-headers", false },
	};
	FILE *f = fopen("/etc/os-release", "re");
	char *line = NULL, *command = NULL;
	size_t size = 0, i;

	while (f && !command && getline(&line, &size, f) >= 0) {
		if (strncmp(line, "ID=", 3) && strncmp(line, "ID_LIKE=", 8))
			continue;
		for (i = 0; i < ARRAY_SIZE(ways) && !command; i++)
			if (strstr(line, ways[i].like))
				command = format("%s%s", ways[i].command,
						 ways[i].release ? s->release : "");
	}
	if (f)
		fclose(f);
	free(line);
	return command ? command :
		format("ls /lib/modules/%s/build  # the headers of this kernel have to be there",
		       s->release);
}

/* ---- causes ---- */

static bool old_kernel(struct scene *s)
{
	if (strverscmp(s->release, OLDEST_KERNEL) >= 0)
		return false;
	found(s->d, WRONG, format("Linux %s is too old: capkm needs %s or newer", s->release,
				  OLDEST_KERNEL), format("uname -r  # boot a newer one"));
	return true;
}

static bool no_modules(struct scene *s)
{
	if (!access("/proc/modules", F_OK) || access("/proc/version", F_OK))
		return false;
	found(s->d, WRONG,
	      format("Linux %s was built without loadable modules (CONFIG_MODULES), so capkm cannot "
		     "be loaded; programs can use the library's own authority, without this machine's",
		     s->release),
	      format("CAPKM_DEVICE=embedded: PROGRAM"));
	return true;
}

static bool container(struct scene *s)
{
	if (!s->d->container)
		return false;
	found(s->d, WRONG, format("capkm is not loaded, and this is a container: the module is the "
				  "host's to load"),
	      format("modprobe capkm  # on the host; or, there: capadm doctor"));
	return true;
}

static bool loading_is_off(struct scene *s)
{
	if (!says("/proc/sys/kernel/modules_disabled", "1"))
		return false;
	found(s->d, WRONG, format("capkm is not loaded, and no module can be until the next boot "
				  "(kernel.modules_disabled)"),
	      format("grep -r modules_disabled /etc/sysctl.conf /etc/sysctl.d  # then reboot"));
	return true;
}

/* As after an upgrade, which took the modules of the kernel that runs along. */
static bool kernel_gone(struct scene *s)
{
	char *other;

	if (is_file("/lib/modules/%s", s->release))
		return false;
	other = match("/lib/modules/*/modules.dep");
	found(s->d, WRONG, format("the modules of the running kernel, Linux %s, are not there any "
				  "more%s%s: it was replaced by another", s->release,
				  other ? "; there is " : "", other ? other : ""),
	      format("reboot  # into the kernel that is installed"));
	free(other);
	return true;
}

static bool no_headers(struct scene *s)
{
	if (s->file || is_file("/lib/modules/%s/build/Makefile", s->release))
		return false;
	found(s->d, WRONG, format("capkm is not installed for Linux %s, and there are no headers to "
				  "build it with", s->release), get_headers(s));
	return true;
}

/* "DKMS make.log for capkm-0.1.0 for kernel 6.1.0-57-amd64 (x86_64)" */
static bool is_log_of(const char *path, const char *release)
{
	char *line = read_line(path), *kernel = format(" kernel %s", release);
	const char *at = line ? strstr(line, kernel) : NULL;
	bool yes = at && strchr(" \t(", at[strlen(kernel)]);

	free(kernel);
	free(line);
	return yes;
}

/* DKMS leaves the log of a failed build where it built; it begins with the kernel's name. */
static bool dkms_failed(struct scene *s)
{
	glob_t g = {};
	bool failed = false;
	size_t i;

	if (s->file || glob("/var/lib/dkms/capkm/*/build/make.log", 0, NULL, &g))
		return false;
	for (i = 0; i < g.gl_pathc && !failed; i++) {
		failed = is_log_of(g.gl_pathv[i], s->release);
		if (failed)
			found(s->d, WRONG, format("capkm is not installed for Linux %s: DKMS could not "
						  "build it; its log is %s", s->release,
						  g.gl_pathv[i]),
			      format("grep -n -m 5 -iE 'error|failed' %s", g.gl_pathv[i]));
	}
	globfree(&g);
	return failed;
}

static bool not_installed(struct scene *s)
{
	char *other;

	if (s->file)
		return false;
	other = match("/lib/modules/*/*/capkm.ko*");
	found(s->d, WRONG, format("capkm is not installed for Linux %s%s%s", s->release,
				  other ? ", only for another: " : "", other ? other : ""),
	      build(s, false));
	free(other);
	return true;
}

static bool other_kernel(struct scene *s)
{
	if (!s->vermagic || !strcmp(s->vermagic, s->release))
		return false;
	found(s->d, WRONG, format("%s was built for Linux %s; this is %s", s->file, s->vermagic,
				  s->release), build(s, true));
	return true;
}

static bool not_signed(struct scene *s)
{
	const char *why = wants_signature();

	if (s->is_packed || s->is_signed || !why)
		return false;
	found(s->d, WRONG, format("%s is not signed, and this kernel loads signed modules only (%s); "
				  "DKMS signs what it builds", s->file, why),
	      has_dkms() ? build(s, true) :
			   format("/lib/modules/%s/build/scripts/sign-file sha256 KEY CERTIFICATE %s",
				  s->release, s->file));
	return true;
}

/* For what says that it is never to be loaded. */
static bool forbidden(struct scene *s)
{
	static const char *const dirs[] = {
		"/etc/modprobe.d/*.conf", "/run/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf",
		"/lib/modprobe.d/*.conf",
	};
	bool yes = false;
	glob_t g;
	size_t i, j;

	if (says("/proc/cmdline", "module_blacklist=") && says("/proc/cmdline", "capkm")) {
		found(s->d, WRONG, format("the kernel was started with module_blacklist=, which has capkm"),
		      format("cat /proc/cmdline  # then leave it out, and reboot"));
		return true;
	}
	for (i = 0; i < ARRAY_SIZE(dirs) && !yes; i++) {
		g = (glob_t){};
		if (!glob(dirs[i], 0, NULL, &g))
			for (j = 0; j < g.gl_pathc && !yes; j++)
				if (has_line(g.gl_pathv[j], "install capkm ")) {
					found(s->d, WRONG, format("%s has modprobe do something else than "
								  "load capkm", g.gl_pathv[j]),
					      format("grep -n capkm %s", g.gl_pathv[j]));
					yes = true;
				}
		globfree(&g);
	}
	return yes;
}

static bool no_depmod(struct scene *s)
{
	if (listed_by_depmod(s))
		return false;
	found(s->d, WRONG, format("%s is there, but modprobe does not know of it", s->file),
	      format("depmod"));
	return true;
}

/* Nobody can tell from here whether the firmware knows the key. */
static bool key_unknown(struct scene *s)
{
	if (!s->is_signed || !wants_signature())
		return false;
	found(s->d, WRONG, format("capkm is installed, signed, and not loaded; if modprobe says \"Key "
				  "was rejected by service\", the firmware has not been told of the "
				  "key: mokutil --import %s, then reboot", MOK),
	      format("modprobe capkm"));
	return true;
}

static bool not_loaded(struct scene *s)
{
	found(s->d, WRONG, format("capkm is installed (%s) and not loaded; if that fails, dmesg says "
				  "why", s->file),
	      format("modprobe capkm"));
	return true;
}

static bool (*const causes[])(struct scene *s) = {
	old_kernel, no_modules, container, loading_is_off, kernel_gone, no_headers, dkms_failed,
	not_installed, other_kernel, not_signed, no_depmod, forbidden, key_unknown, not_loaded,
};

static void init(struct scene *s, struct doctor *d)
{
	*s = (struct scene){ .d = d, .release = d->uts.release };
	s->file = module_file(s->release);
	if (s->file)
		read_module(s);
}

static void end(struct scene *s)
{
	free(s->version);
	free(s->vermagic);
	free(s->file);
}

void find_module(struct doctor *d)
{
	struct scene s;
	size_t i;

	init(&s, d);
	for (i = 0; i < ARRAY_SIZE(causes); i++)
		if (causes[i](&s))
			break;
	end(&s);
}

/* An update that nobody has loaded yet. */
bool find_installed(struct doctor *d, const char *version)
{
	bool other;
	struct scene s;

	init(&s, d);
	other = version && s.version && strcmp(version, s.version);
	if (other)
		found(d, NOTE, format("capkm %s is loaded, and %s installed (%s)", version, s.version,
				      s.file),
		      format("modprobe -r capkm && modprobe capkm  # when capadm sessions lists none"));
	end(&s);
	return other;
}
