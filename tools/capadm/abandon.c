// SPDX-License-Identifier: GPL-2.0-only
/* capadm abandon */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <linux/capkm_netlink.h>

#include "capadm.h"

int cmd_abandon(const struct request *rq)
{
	struct query q = { .cmd = CAPKM_CMD_ABANDON };
	struct json_object *j;
	uint64_t domain, window;
	char *what;
	int status;

	/* The window first: a wrong command line needs no kernel to be wrong. */
	status = parse_id(rq, "window", rq->argv[1], &window);
	if (status)
		return status;
	status = find_domain(rq, rq->argv[0], &domain);
	if (status)
		return status;
	ask_u64(&q, CAPKM_A_WINDOW_DOMAIN, domain);
	ask_u64(&q, CAPKM_A_WINDOW_ID, window);
	what = format("abandon window %" PRIu64 " of domain %" PRIu64, window, domain);
	status = kernel_do(rq, &q, what, NULL, NULL);
	free(what);
	if (status)
		return status;

	if (rq->json) {
		j = must(json_object_new_object());
		json_object_object_add(j, "domain", json_object_new_uint64(domain));
		json_object_object_add(j, "window", json_object_new_uint64(window));
		return print_json("abandoned", j);
	}
	printf("window %" PRIu64 " of domain %" PRIu64 " is abandoned\n", window, domain);
	return EXIT_OK;
}
