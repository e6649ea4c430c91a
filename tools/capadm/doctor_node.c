// SPDX-License-Identifier: GPL-2.0-only
/* The device node: is it there, is it the module's, may this user open it. */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "doctor.h"

#define RULE "60-capkm.rules"

/* By what the container was started decides how it is given a device. */
static char *give_node(const struct doctor *d)
{
	static const struct {
		const char *name, *how;
	} runtimes[] = {
		{ "kube", "kubectl describe pod  # the device is given by its device plugin, or CDI" },
		{ "docker", "docker run --device " DEVICE " IMAGE" },
		{ "podman", "podman run --device " DEVICE " IMAGE" },
		{ "lxc", "lxc config device add CONTAINER capkm unix-char path=" DEVICE },
		{ "systemd-nspawn",
		  "systemd-nspawn --bind=" DEVICE " --property='DeviceAllow=" DEVICE " rw'" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(runtimes); i++)
		if (!strcmp(d->container, runtimes[i].name))
			return format("%s", runtimes[i].how);
	return format("docker run --device " DEVICE " IMAGE  # or as your runtime gives devices");
}

/* The module's number, which it gets when it is loaded; 0: not known. */
static dev_t module_number(void)
{
	char *line = read_line("/sys/class/misc/capkm/dev");
	unsigned int major = 0, minor = 0;

	if (line && sscanf(line, "%u:%u", &major, &minor) != 2)
		major = minor = 0;
	free(line);
	return makedev(major, minor);
}

static bool has_udev(void)
{
	return !access("/run/udev/control", F_OK);
}

/* The file of the rule that counts, or NULL; the caller frees it. */
static char *rule_file(void)
{
	static const char *const dirs[] = {
		"/etc/udev/rules.d", "/run/udev/rules.d", "/usr/local/lib/udev/rules.d",
		"/usr/lib/udev/rules.d", "/lib/udev/rules.d",
	};
	char *path;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(dirs); i++) {
		path = format("%s/" RULE, dirs[i]);
		if (!access(path, F_OK))
			return path;
		free(path);
	}
	return NULL;
}

/*
 * Who may use it is the rule's to say, where there is udev. It makes no nodes: the kernel
 * does that once, when the module is loaded.
 */
static char *make_node(const char *before)
{
	dev_t dev = module_number();

	if (!dev)
		return format("ls -l /sys/class/misc  # capkm's number should be there");
	if (has_udev())
		return format("%smknod -m 600 %s c %u %u && udevadm trigger -c change /sys/class/misc/capkm",
			      before, DEVICE, major(dev), minor(dev));
	return format("%smknod -m 666 %s c %u %u", before, DEVICE, major(dev), minor(dev));
}

static void no_node(struct doctor *d)
{
	if (d->container)
		found(d, WRONG, format("%s is not there: it was not given to this container", DEVICE),
		      give_node(d));
	else
		found(d, WRONG, format("%s is not there, though the module is loaded", DEVICE),
		      make_node(""));
}

/* It was made for a module that was loaded before, or is none of ours to remove blindly. */
static bool is_other_device(struct doctor *d, const struct stat *st)
{
	dev_t dev = module_number();

	if (S_ISCHR(st->st_mode) && (!dev || st->st_rdev == dev))
		return false;
	if (S_ISCHR(st->st_mode))
		found(d, WRONG, format("%s is device %u:%u; the module's is %u:%u", DEVICE,
				       major(st->st_rdev), minor(st->st_rdev), major(dev), minor(dev)),
		      d->container ? give_node(d) : make_node("rm " DEVICE " && "));
	else if (S_ISDIR(st->st_mode))
		found(d, WRONG, format("%s is a directory: a container was started with it as a volume "
				       "while the module was not loaded", DEVICE),
		      d->container ? give_node(d) : make_node("rmdir " DEVICE " && "));
	else
		found(d, WRONG, format("%s is no device but a file: something wrote to it while the "
				       "module was not loaded", DEVICE),
		      d->container ? give_node(d) :
				     make_node("mv " DEVICE " /tmp/capkm.file && "));
	return true;
}

static char *owner(const struct stat *st)
{
	const struct passwd *pw = getpwuid(st->st_uid);
	const struct group *gr = getgrgid(st->st_gid);
	char *user = pw ? format("%s", pw->pw_name) : format_count(st->st_uid);
	char *group = gr ? format("%s", gr->gr_name) : format_count(st->st_gid);
	char *text = format("mode %04o, %s:%s", st->st_mode & 07777, user, group);

	free(group);
	free(user);
	return text;
}

static bool in_group(gid_t gid)
{
	int n = getgroups(0, NULL), i;
	gid_t *groups = must(calloc(n > 0 ? n : 1, sizeof(*groups)));
	bool in = getegid() == gid;

	n = n > 0 ? getgroups(n, groups) : 0;
	for (i = 0; i < n; i++)
		in |= groups[i] == gid;
	free(groups);
	return in;
}

/* As the database has it, for who logs in now. */
static bool is_member(const struct group *gr, const char *user)
{
	char **m;

	for (m = gr->gr_mem; *m; m++)
		if (!strcmp(*m, user))
			return true;
	return false;
}

static bool mode_admits(const struct stat *st)
{
	mode_t bits = geteuid() == st->st_uid ? st->st_mode >> 6 :
		      in_group(st->st_gid) ? st->st_mode >> 3 : st->st_mode;

	return !geteuid() || (bits & 06) == 06;
}

/* Of udev's rule, which sets it for good. */
static char *set_mode(void)
{
	char *rule = rule_file(), *next;

	if (!has_udev())
		next = format("chmod 666 %s  # as root", DEVICE);
	else if (!rule)
		next = format("make modules_install  # in capkm's sources: udev's rule " RULE
			      " is not installed");
	else
		next = format("udevadm trigger -c change /sys/class/misc/capkm  # as root: by %s", rule);
	free(rule);
	return next;
}

/* A group that was chosen admits its members; else the rule was changed or lost. */
static char *admit(const struct stat *st)
{
	const struct passwd *pw = getpwuid(geteuid());
	const struct group *gr = getgrgid(st->st_gid);

	if (!st->st_gid || !gr || !pw || (st->st_mode & 0060) != 0060)
		return set_mode();
	if (is_member(gr, pw->pw_name))
		return format("newgrp %s  # or log in anew: you are in it since then", gr->gr_name);
	return format("usermod -aG %s %s  # as root; then log in anew", gr->gr_name, pw->pw_name);
}

static void not_permitted(struct doctor *d, const struct stat *st)
{
	struct statvfs fs;
	char *text = owner(st);

	if (!statvfs(DEVICE, &fs) && fs.f_flag & ST_NODEV)
		found(d, WRONG, format("%s is on a file system that was mounted without devices (nodev)",
				       DEVICE),
		      d->container ? give_node(d) : format("findmnt -T %s", DEVICE));
	else if (mode_admits(st))
		found(d, WRONG, format("%s does not let you open it, though its mode would (%s): a "
				       "security module does not", DEVICE, text),
		      format("dmesg | grep -iE 'avc|apparmor|audit' | tail  # as root"));
	else
		found(d, WRONG, format("%s does not let you open it (%s)", DEVICE, text), admit(st));
	free(text);
}

/* "worker.service", or NULL; the caller frees it. */
static char *own_unit(void)
{
	char *line = read_line("/proc/self/cgroup"), *unit = NULL, *s, *save;

	for (s = line ? strtok_r(line, "/", &save) : NULL; s; s = strtok_r(NULL, "/", &save))
		if (strlen(s) > 8 && !strcmp(s + strlen(s) - 8, ".service")) {
			free(unit);
			unit = format("%s", s);
		}
	free(line);
	return unit;
}

/* The node's mode would have it: it is the cgroup's rules for devices. */
static void not_allowed(struct doctor *d)
{
	char *unit = own_unit();

	if (d->container)
		found(d, WRONG, format("the rules for devices of this container do not let you open %s",
				       DEVICE), give_node(d));
	else
		found(d, WRONG, format("the rules for devices of this service (its control group) do not "
				       "let you open %s", DEVICE),
		      format("systemctl edit %s  # [Service] DeviceAllow=%s rw", unit ? unit : "UNIT",
			     DEVICE));
	free(unit);
}

static void only_root(struct doctor *d, const struct stat *st)
{
	char *text = owner(st);

	found(d, NOTE, format("you may open %s, most others may not (%s)", DEVICE, text), set_mode());
	free(text);
}

/* What else opening it, or asking it who it is, may say. */
static void other_error(struct doctor *d)
{
	static const struct {
		int err;
		const char *why, *next;
	} errors[] = {
		{ ENXIO, "no driver serves its number", "ls -l " DEVICE " /sys/class/misc/capkm/" },
		{ ENODEV, "the module is being unloaded", "cat /sys/module/capkm/initstate" },
		{ ENOTTY, "what answers there is not capkm, or one that is too old",
		  "capadm version; modinfo -F version capkm" },
		{ EMFILE, "this process may have no more open files", "ulimit -n" },
		{ ENFILE, "this machine may have no more open files",
		  "sysctl fs.file-nr fs.file-max" },
		{ ENOMEM, "the kernel lacks memory", "free -m; dmesg | tail" },
		{ ELOOP, "it is a symbolic link that leads nowhere", "ls -l " DEVICE },
	};
	int err = d->authority.err;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(errors) && errors[i].err != err; i++)
		;
	if (i < ARRAY_SIZE(errors))
		found(d, WRONG, format("%s: %s: %s", DEVICE, strerror(err), errors[i].why),
		      format("%s", errors[i].next));
	else
		found(d, WRONG, format("%s: %s", DEVICE, strerror(err)),
		      format("dmesg | grep -i capkm | tail  # as root"));
}

static void judge(struct doctor *d, const struct stat *st)
{
	switch (d->authority.err) {
	case 0:
		if (st->st_gid || (st->st_mode & 0666) == 0666)
			found(d, FINE, format("%s answers", DEVICE), NULL);
		else
			only_root(d, st);
		break;
	case EACCES:
		not_permitted(d, st);
		break;
	case EPERM:
		not_allowed(d);
		break;
	default:
		other_error(d);
	}
}

void check_node(struct doctor *d)
{
	struct stat st;

	if (!d->authority.loaded && d->authority.err)
		return;		/* without a module there is none */
	if (stat(DEVICE, &st))
		no_node(d);
	else if (!is_other_device(d, &st))
		judge(d, &st);
}
