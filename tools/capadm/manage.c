// SPDX-License-Identifier: GPL-2.0-only
/* capadm domain create, domain rm, device-fault */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/capkm.h>
#include <linux/capkm_netlink.h>

#include "capadm.h"

#define NAME_MAX_BYTES 63
#define TEXT_MAX_BYTES 255

/* ---- domain create ---- */

static int parse_mode(const struct request *rq, uint64_t *mode)
{
	const char *s = rq->values[OPT_MODE];
	char *end;

	*mode = strtoul(s, &end, 8);
	if (*s < '0' || *s > '7' || *end || *mode & ~0666ul)
		return usage(rq, "%s is no mode of a domain; right are octal digits out of 0666, as 0640",
			     s);
	return EXIT_OK;
}

/* A name of this machine, or a number. */
static int parse_user(const struct request *rq, uint64_t *uid)
{
	const char *s = rq->values[OPT_UID];
	const struct passwd *pw = getpwnam(s);

	if (!pw)
		return parse_number(rq, "user", s, UINT32_MAX - 1, uid);
	*uid = pw->pw_uid;
	return EXIT_OK;
}

static int parse_group(const struct request *rq, uint64_t *gid)
{
	const char *s = rq->values[OPT_GID];
	const struct group *gr = getgrnam(s);

	if (!gr)
		return parse_number(rq, "group", s, UINT32_MAX - 1, gid);
	*gid = gr->gr_gid;
	return EXIT_OK;
}

static const struct {
	enum option_id option;
	int attr;
	int (*parse)(const struct request *rq, uint64_t *v);
} details[] = {
	{ OPT_MODE,	CAPKM_A_DOMAIN_MODE,	parse_mode },
	{ OPT_UID,	CAPKM_A_DOMAIN_UID,	parse_user },
	{ OPT_GID,	CAPKM_A_DOMAIN_GID,	parse_group },
};

/* What the kernel would refuse without a word, and what could not be typed again. */
static int check_name(const struct request *rq, const char *name)
{
	if (!*name || strlen(name) > NAME_MAX_BYTES || strchr(name, '/'))
		return usage(rq, "\"%s\" is no name of a domain; right are 1 to %d bytes without a slash",
			     name, NAME_MAX_BYTES);
	if (!name[strspn(name, "0123456789")])
		return usage(rq, "%s would be taken for an id; right is a name that is no number",
			     name);
	return EXIT_OK;
}

static void take_id(struct nlattr **attrs, void *ctx)
{
	*(uint64_t *)ctx = get_number(attrs[CAPKM_A_DOMAIN_ID]);
}

int cmd_domain_create(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_DOMAIN_NEW };
	const char *name = rq->argv[0];
	struct json_object *j;
	uint64_t v, id = 0;
	char *what;
	size_t i;
	int status = check_name(rq, name);

	if (status)
		return status;
	ask_text(&q, CAPKM_A_DOMAIN_NAME, name);
	for (i = 0; i < ARRAY_SIZE(details); i++) {
		if (!rq->values[details[i].option])
			continue;
		status = details[i].parse(rq, &v);
		if (status)
			return status;
		ask_u32(&q, details[i].attr, v);
	}
	what = format("create the domain %s", name);
	status = kernel_do(rq, &q, what, take_id, &id);
	free(what);
	if (status)
		return status;
	if (!rq->json) {
		printf("domain %" PRIu64 " is created, and lives until it is removed\n", id);
		return EXIT_OK;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "id", json_object_new_uint64(id));
	json_object_object_add(j, "name", json_text(name));
	return print_json("domain_created", j);
}

/* ---- domain rm ---- */

int cmd_domain_rm(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_DOMAIN_DEL };
	struct json_object *j;
	uint64_t id;
	char *what;
	int status = find_domain(rq, rq->argv[0], &id);

	if (status)
		return status;
	ask_u64(&q, CAPKM_A_DOMAIN_ID, id);
	if (rq->options & TAKES(FORCE))
		ask_flag(&q, CAPKM_A_DOMAIN_FORCE);
	what = format("remove domain %" PRIu64, id);
	status = kernel_do(rq, &q, what, NULL, NULL);
	free(what);
	if (status)
		return status;
	if (!rq->json) {
		printf("domain %" PRIu64 " is removed\n", id);
		return EXIT_OK;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "id", json_object_new_uint64(id));
	return print_json("domain_removed", j);
}

/* ---- device-fault ---- */

static void take_clients(struct nlattr **attrs, void *ctx)
{
	*(uint64_t *)ctx = get_number(attrs[CAPKM_A_FAULT_CLIENTS]);
}

/* The code is signed. */
static int parse_code(const struct request *rq, int32_t *code)
{
	const char *s = rq->values[OPT_CODE];
	long v;
	char *end;

	errno = 0;
	v = strtol(s, &end, 10);
	if (!*s || *s == ' ' || *end || errno || v < INT32_MIN || v > INT32_MAX)
		return usage(rq, "%s is no code; right is a number of 32 bits, as -5", s);
	*code = v;
	return EXIT_OK;
}

static int add_fault(const struct request *rq, struct query *q)
{
	const char *text = rq->values[OPT_TEXT];
	int32_t code = 0;
	int status;

	if (text && strlen(text) > TEXT_MAX_BYTES)
		return usage(rq, "that --text is too long; right are up to %d bytes",
			     TEXT_MAX_BYTES);
	if (text)
		ask_text(q, CAPKM_A_FAULT_TEXT, text);
	if (!rq->values[OPT_CODE])
		return EXIT_OK;
	status = parse_code(rq, &code);
	ask_u32(q, CAPKM_A_FAULT_CODE, code);
	return status;
}

int cmd_device_fault(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_DEVICE_FAULT };
	struct json_object *j;
	uint64_t clients = 0;
	uint8_t uuid[16];
	char *what;
	int status = parse_uuid(rq, rq->argv[0], uuid);

	if (!status)
		status = add_fault(rq, &q);
	if (status)
		return status;
	ask_uuid(&q, CAPKM_A_FAULT_DEVICE, uuid);
	what = format("declare device %s lost", rq->argv[0]);
	status = kernel_do(rq, &q, what, take_clients, &clients);
	free(what);
	if (status)
		return status;
	if (!rq->json) {
		printf("device %s is lost for %" PRIu64 " processes that use it\n", rq->argv[0],
		       clients);
		return EXIT_OK;
	}
	j = must(json_object_new_object());
	json_object_object_add(j, "device", json_text(rq->argv[0]));
	json_object_object_add(j, "clients", json_object_new_uint64(clients));
	return print_json("device_fault", j);
}
