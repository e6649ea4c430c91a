/* SPDX-License-Identifier: GPL-2.0-only */
/* A terminal's whole screen, for a time. */
#ifndef CAPADM_SCREEN_H
#define CAPADM_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Takes the screen, and the keyboard if that is the same terminal's. False: stdout is no
 * terminal, or one that cannot do that; then nothing has changed. What was there before
 * comes back with screen_close(), at exit, and while the process is stopped.
 */
bool screen_open(void);
void screen_close(void);

/* Begins a picture on an empty screen. */
void screen_begin(void);
size_t screen_rows(void);

enum screen_event {
	SCREEN_TIME,	/* it is @ns of CLOCK_MONOTONIC */
	SCREEN_REDRAW,	/* the picture is not there any more, or has another size */
	SCREEN_STOP,	/* by a signal, or the key q */
};

enum screen_event screen_wait(uint64_t ns);

#endif /* CAPADM_SCREEN_H */
