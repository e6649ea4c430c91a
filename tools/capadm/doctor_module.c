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

/* The module says for itself which kernel it is for; a signature stands at its end. */
static void look_into(struct scene *s, const char *bytes, size_t size)
{
	static const char mark[] = "vermagic=";
	size_t sig = strlen(SIGNATURE);
	const char *v = memmem(bytes, size, mark, strlen(mark));

	if (v) {
		v += strlen(mark);
		s->vermagic = must(strndup(v, strcspn(v, " ")));
	}
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

/* Where lockdown can be read it decides; a kernel need not care for Secure Boot. */
static bool wants_signature(void)
{
	static const char lockdown[] = "/sys/kernel/security/lockdown";

	if (says("/sys/module/module/parameters/sig_enforce", "Y"))
		return true;
	if (!access(lockdown, R_OK))
		return !says(lockdown, "[none]");
	return secure_boot();
}

static bool is_file(const char *fmt, const char *release)
{
	char *path = format(fmt, release);
	bool there = !access(path, F_OK);

	free(path);
	return there;
}

static bool is_debian(void)
{
	return !access("/etc/debian_version", F_OK);
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

/* The command that builds it for this kernel, the way it came here. */
static char *rebuild(const struct scene *s)
{
	char *dkms = match("/usr/src/capkm-*"), *command;

	if (dkms && !access("/usr/sbin/dkms", X_OK))
		command = format("dkms install --force capkm/%s -k %s",
				 dkms + strlen("/usr/src/capkm-"), s->release);
	else
		command = format("make modules modules_install && depmod  # in capkm's sources");
	free(dkms);
	return command;
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

static bool no_headers(struct scene *s)
{
	if (s->file || is_file("/lib/modules/%s/build/Makefile", s->release))
		return false;
	found(s->d, WRONG, format("capkm is not installed for Linux %s, and there are no headers to "
				  "build it with", s->release),
	      is_debian() ? format("apt install linux-headers-%s", s->release) :
			    format("dnf install kernel-devel-%s", s->release));
	return true;
}

/* DKMS leaves the log of a failed build where it built. */
static bool dkms_failed(struct scene *s)
{
	char *log = s->file ? NULL : match("/var/lib/dkms/capkm/*/build/make.log");

	if (!log)
		return false;
	found(s->d, WRONG, format("capkm is not installed for Linux %s: DKMS could not build it; "
				  "its log is %s", s->release, log),
	      format("tail -n 30 %s", log));
	free(log);
	return true;
}

static bool not_installed(struct scene *s)
{
	char *other;

	if (s->file)
		return false;
	other = match("/lib/modules/*/*/capkm.ko*");
	found(s->d, WRONG, format("capkm is not installed for Linux %s%s%s", s->release,
				  other ? ", only for another: " : "", other ? other : ""),
	      rebuild(s));
	free(other);
	return true;
}

static bool other_kernel(struct scene *s)
{
	if (!s->vermagic || !strcmp(s->vermagic, s->release))
		return false;
	found(s->d, WRONG, format("%s was built for Linux %s; this is %s", s->file, s->vermagic,
				  s->release), rebuild(s));
	return true;
}

static bool not_signed(struct scene *s)
{
	if (s->is_packed || s->is_signed || !wants_signature())
		return false;
	found(s->d, WRONG, format("%s is not signed, and this kernel loads signed modules only "
				  "(Secure Boot); DKMS signs what it builds", s->file),
	      rebuild(s));
	return true;
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
	found(s->d, WRONG, format("capkm is installed (%s) and not loaded", s->file),
	      format("modprobe capkm"));
	return true;
}

static bool (*const causes[])(struct scene *s) = {
	old_kernel, no_modules, container, loading_is_off, no_headers, dkms_failed,
	not_installed, other_kernel, not_signed, no_depmod, key_unknown, not_loaded,
};

void find_module(struct doctor *d)
{
	struct scene s = { .d = d, .release = d->uts.release };
	size_t i;

	s.file = module_file(s.release);
	if (s.file)
		read_module(&s);
	for (i = 0; i < ARRAY_SIZE(causes); i++)
		if (causes[i](&s))
			break;
	free(s.vermagic);
	free(s.file);
}
