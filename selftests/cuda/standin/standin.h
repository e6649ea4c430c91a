/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a test can ask of the stand-in for libcuda.so.1, beside CUDA's own functions:
 * kernels that are C functions, and errors at will. Found with dlsym().
 */
#ifndef CAPKM_STANDIN_H
#define CAPKM_STANDIN_H

#include <stddef.h>
#include <stdint.h>

/* What cuModuleLoadData() takes instead of PTX. */
#define STANDIN_MAGIC	"capkm stand-in"

struct standin_kernel {
	const char *name;
	/* 0, or a CUresult: then the context is lost. */
	int (*fn)(void **params);
	size_t bytes[8];	/* sizes of its parameters, up to the first 0 */
};

struct standin_image {
	char magic[16];
	const struct standin_kernel *kernels;	/* up to one without a name */
};

#define STANDIN_CALLS(X)						\
/*									\
 * The @n-th call of @name from now on (1: the next) does nothing and	\
 * returns @code; 0: no call does. But a capture ends whatever		\
 * cuStreamEndCapture() returns.					\
 */									\
X(void, fail, (const char *name, unsigned int n, int code))		\
/* Calls of it so far. */						\
X(uint64_t, calls, (const char *name))					\
/* Streams that capture now. */						\
X(unsigned int, capturing, (void))					\
/* Names of the calls that broke a capture, with spaces between them. */	\
X(void, broke, (char *text, size_t size))				\
/* 1: work rests until something synchronises or asks. 0: it runs at once. */ \
X(void, lazy, (int on))							\
/* 0: no stream gets the handle of one that was destroyed. */		\
X(void, reuse, (int on))						\
/* 1: a process can open memory that it has exported itself, as if it were another. */ \
X(void, ipc_here, (int on))						\
/* What runs for a kernel of a module of PTX, by its name; NULL: PTX is no image. */ \
X(void, kernels, (const struct standin_kernel *table))			\
/* Of a kernel that runs: how it was launched. */			\
X(void, launched, (unsigned int grid[3], unsigned int block[3]))

#define STANDIN_MEMBER(type, name, args) type (*name) args;
struct standin {
	STANDIN_CALLS(STANDIN_MEMBER)
};
#undef STANDIN_MEMBER

#endif /* CAPKM_STANDIN_H */
