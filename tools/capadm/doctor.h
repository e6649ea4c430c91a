/* SPDX-License-Identifier: GPL-2.0-only */
/* What the files of doctor share. */
#ifndef CAPADM_DOCTOR_H
#define CAPADM_DOCTOR_H

#include <sys/utsname.h>

#include "snapshot.h"

struct doctor {
	const struct request *rq;
	const char *check;		/* that runs */
	struct authority authority;
	struct utsname uts;
	char *container;		/* by what it was started, "" if not known; NULL: none */
	unsigned int wrong;
	struct json_object *list;	/* NULL: text */
};

enum level {
	FINE,
	NOTE,	/* to be known; it may be meant so */
	WRONG,
};

/*
 * What was found, and the next command to run, or NULL. Takes both texts over, which
 * may have anything in them.
 */
void found(struct doctor *d, enum level level, char *text, char *next);

/* Why the module is not loaded, and perhaps cannot be. (doctor_module.c) */
void find_module(struct doctor *d);
/* Programs and the module, and the device between them. (doctor_node.c) */
void check_node(struct doctor *d);
/* (doctor_version.c) */
void check_tool(struct doctor *d);
void check_library(struct doctor *d);

/*
 * What differs from the module that is installed is said by find_installed(), of the one
 * that is loaded, in @version. (doctor_module.c)
 */
bool find_installed(struct doctor *d, const char *version);

/* The file's first line, or NULL; the caller frees it. */
char *read_line(const char *path);

#endif /* CAPADM_DOCTOR_H */
