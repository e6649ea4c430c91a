// SPDX-License-Identifier: GPL-2.0-only
/*
 * So many clean scopes over two buffers, so many checks of one: what clean_path.sh counts
 * the instructions of. All of them must be fast.
 */
#include <capkm/capkm.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES 4096

static struct capkm_error err = CAPKM_OPTS(struct capkm_error);

static int scope(struct capkm *c, const struct capkm_claim *claims)
{
	struct capkm_scope s;

	return capkm_scope_enter(c, NULL, NULL, 0, claims, 2, NULL, &s, NULL, &err) ||
	       capkm_scope_exit(c, &s, 0, &err);
}

int main(int argc, char **argv)
{
	struct capkm_fast_stats before = CAPKM_OPTS(struct capkm_fast_stats), after = before;
	struct capkm_answer answer = CAPKM_OPTS(struct capkm_answer);
	const unsigned long scopes = argc > 1 ? strtoul(argv[1], NULL, 0) : 0;
	const unsigned long checks = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	struct capkm_claim claims[2];
	struct capkm *c;
	uint64_t buffer;
	int rc;

	rc = capkm_open("embedded:", NULL, &c, &err) ||
	     capkm_domain_open(c, "clean path", NULL, &err);
	for (int i = 0; !rc && i < 2; i++) {
		rc = capkm_buffer_create(c, BYTES, NULL, &buffer, &err);
		claims[i] = (struct capkm_claim){ buffer, 0, BYTES };
	}
	/* The first ones ask. */
	for (int i = 0; !rc && i < 4; i++)
		rc = scope(c, claims);
	rc = rc || capkm_fast_query(c, &before, &err);
	for (unsigned long i = 0; !rc && i < scopes; i++)
		rc = scope(c, claims);
	for (unsigned long i = 0; !rc && i < checks; i++)
		rc = capkm_check(c, claims, 1, &answer, &err) || answer.out_result;
	rc = rc || capkm_fast_query(c, &after, &err);
	if (rc) {
		puts(err.text);
		return 1;
	}
	if (after.entered != before.entered + scopes || after.migrated != before.migrated) {
		puts("not all were fast");
		return 1;
	}
	capkm_close(c);
	return 0;
}
