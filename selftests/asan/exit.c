// SPDX-License-Identifier: GPL-2.0-only
/*
 * The harness runs each test in a child that leaves by _exit(), past the leak
 * checker's hook at exit(). Linked with --wrap=_exit, a test that leaks fails.
 */
#include <sanitizer/lsan_interface.h>
#include <stdlib.h>

void __real__exit(int status) __attribute__((noreturn));
void __wrap__exit(int status) __attribute__((noreturn));

void __wrap__exit(int status)
{
	if (!status && __lsan_do_recoverable_leak_check())
		status = EXIT_FAILURE;
	__real__exit(status);
}
