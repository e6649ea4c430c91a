// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a shell command where the proxy's guest is, and prints what it prints; without one
 * the guest ends.
 *
 *	ask HOST:PORT [COMMAND]
 */
#include <stdio.h>
#include <string.h>

#include "test_hooks.h"

int main(int argc, char **argv)
{
	static char out[1 << 17];
	int rc;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "ask: HOST:PORT and perhaps a command, please\n");
		return 125;
	}
	rc = capkm_test_proxy_run(argv[1], argc == 3 ? argv[2] : "", out, sizeof(out));
	fputs(out, stdout);
	if (rc >= 0)
		return rc;
	fprintf(stderr, "ask: %s: %s\n", argv[1], strerror(-rc));
	return 125;
}
