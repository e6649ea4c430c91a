// SPDX-License-Identifier: GPL-2.0-only
/* capadm version */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "snapshot.h"

/* 0 or errno. */
int ask_info(struct capkm_info *info)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), err = 0;

	if (fd < 0)
		return errno;
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	if (ioctl(fd, CAPKM_IOC_INFO, info))
		err = errno;
	close(fd);
	info->out_version[sizeof(info->out_version) - 1] = 0;
	return err;
}

static struct json_object *module_json(const struct capkm_info *info)
{
	struct json_object *j = must(json_object_new_object());

	json_object_object_add(j, "version", json_text((const char *)info->out_version));
	json_object_object_add(j, "abi_version", json_object_new_uint64(info->out_abi_version));
	json_object_object_add(j, "abi_oldest", json_object_new_uint64(info->out_abi_oldest));
	json_object_object_add(j, "features", json_object_new_uint64(info->out_features));
	return j;
}

int cmd_version(const struct request *rq)
{
	struct capkm_info info;
	struct json_object *j;
	int err = ask_info(&info);

	if (rq->json) {
		j = must(json_object_new_object());
		json_object_object_add(j, "capadm", json_text(CAPKM_VERSION));
		json_object_object_add(j, "module", err ? NULL : module_json(&info));
		return print_json("version", j);
	}

	printf("capadm %s\n", CAPKM_VERSION);
	if (!err)
		printf("module %s, ABI %u (serves libraries from ABI %u)\n",
		       info.out_version, info.out_abi_version, info.out_abi_oldest);
	else if (err == ENOENT)
		printf("module not loaded; load it with: modprobe capkm\n");
	else
		printf("module does not answer on %s: %s\n", DEVICE, strerror(err));
	return EXIT_OK;
}
