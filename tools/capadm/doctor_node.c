// SPDX-License-Identifier: GPL-2.0-only
/* The device node: is it there, is it the module's, may this user open it. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "doctor.h"

#define GIVE_NODE "docker run --device " DEVICE " IMAGE  # or as your runtime gives devices"

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

static char *make_node(const struct doctor *d, const char *before)
{
	dev_t dev = module_number();

	if (d->container)
		return format(GIVE_NODE);
	if (!dev)
		return format("udevadm trigger --subsystem-match=misc");
	return format("%smknod -m 666 %s c %u %u", before, DEVICE, major(dev), minor(dev));
}

static void no_node(struct doctor *d)
{
	found(d, WRONG, d->container ?
	      format("%s is not there: it was not given to this container", DEVICE) :
	      format("%s is not there, though the module is loaded", DEVICE),
	      make_node(d, ""));
}

/* It was made for a module that was loaded before, or for none. */
static bool is_other_device(struct doctor *d, const struct stat *st)
{
	dev_t dev = module_number();

	if (S_ISCHR(st->st_mode) && (!dev || st->st_rdev == dev))
		return false;
	found(d, WRONG, S_ISCHR(st->st_mode) ?
	      format("%s is device %u:%u; the module's is %u:%u", DEVICE, major(st->st_rdev),
		     minor(st->st_rdev), major(dev), minor(dev)) :
	      format("%s is no device", DEVICE),
	      make_node(d, "rm -r " DEVICE " && "));
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

/* A group that was chosen admits its members; else the rule was changed or lost. */
static char *admit(const struct stat *st)
{
	const struct passwd *pw = getpwuid(geteuid());
	const struct group *gr = getgrgid(st->st_gid);

	if (st->st_gid && gr && pw && (st->st_mode & 0060) == 0060)
		return format("usermod -aG %s %s  # as root; then log in anew", gr->gr_name,
			      pw->pw_name);
	return format("chmod 666 %s  # as root; for good: the rule 60-capkm.rules of udev", DEVICE);
}

static void not_permitted(struct doctor *d, const struct stat *st)
{
	char *text = owner(st);

	found(d, WRONG, format("%s does not let you open it (%s)", DEVICE, text), admit(st));
	free(text);
}

/* The node's mode would have it: it is the cgroup's rules for devices. */
static void not_allowed(struct doctor *d)
{
	found(d, WRONG, format("the rules for devices of this %s do not let you open %s",
			       d->container ? "container" : "service (its control group)", DEVICE),
	      d->container ? format(GIVE_NODE) :
			     format("systemctl edit UNIT  # DeviceAllow=%s rw", DEVICE));
}

static void only_root(struct doctor *d, const struct stat *st)
{
	char *text = owner(st);

	found(d, NOTE, format("you may open %s, most others may not (%s)", DEVICE, text),
	      format("chmod 666 %s  # for good: the rule 60-capkm.rules of udev", DEVICE));
	free(text);
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
		found(d, WRONG, format("%s: %s", DEVICE, strerror(d->authority.err)),
		      format("modprobe -r capkm && modprobe capkm"));
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
