/* SPDX-License-Identifier: GPL-2.0-only */
/* Kernels of the tests: as PTX for the driver, and as functions for the stand-in. */
#ifndef CAPKM_KERNELS_H
#define CAPKM_KERNELS_H

#include "standin/standin.h"

/* An argument of k_hidden. */
struct hidden {
	uint64_t n;
	uint64_t to;		/* device memory */
	uint32_t value, rest;
};

/* Each thread has one word, %r1 of them; %rd9 is its offset. */
#define PTX_INDEX							\
	"mov.u32 %r2, %ctaid.x;\n"					\
	"mov.u32 %r3, %ntid.x;\n"					\
	"mov.u32 %r4, %tid.x;\n"					\
	"mad.lo.s32 %r5, %r2, %r3, %r4;\n"				\
	"setp.ge.u32 %p1, %r5, %r1;\n"					\
	"@%p1 bra done;\n"						\
	"mul.wide.u32 %rd9, %r5, 4;\n"
#define PTX_REGISTERS							\
	".reg .pred %p<4>;\n.reg .b32 %r<16>;\n.reg .b64 %rd<16>;\n"
#define PTX_POINTER(reg, param)						\
	"ld.param.u64 " reg ", [" param "];\n"				\
	"cvta.to.global.u64 " reg ", " reg ";\n"

static const char kernels_ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry k_inc(.param .u64 to, .param .u32 n)\n{\n"
	PTX_REGISTERS
	"ld.param.u32 %r1, [n];\n"
	PTX_INDEX
	PTX_POINTER("%rd1", "to")
	"add.s64 %rd1, %rd1, %rd9;\n"
	"ld.global.u32 %r6, [%rd1];\n"
	"add.s32 %r6, %r6, 1;\n"
	"st.global.u32 [%rd1], %r6;\n"
	"done:\nret;\n}\n"
	".visible .entry k_add(.param .u64 to, .param .u64 a, .param .u64 b, .param .u32 n)\n{\n"
	PTX_REGISTERS
	"ld.param.u32 %r1, [n];\n"
	PTX_INDEX
	PTX_POINTER("%rd1", "to")
	PTX_POINTER("%rd2", "a")
	PTX_POINTER("%rd3", "b")
	"add.s64 %rd1, %rd1, %rd9;\n"
	"add.s64 %rd2, %rd2, %rd9;\n"
	"add.s64 %rd3, %rd3, %rd9;\n"
	"ld.global.u32 %r6, [%rd2];\n"
	"ld.global.u32 %r7, [%rd3];\n"
	"add.s32 %r6, %r6, %r7;\n"
	"st.global.u32 [%rd1], %r6;\n"
	"done:\nret;\n}\n"
	".visible .entry k_copy(.param .u64 to, .param .u64 from, .param .u32 n)\n{\n"
	PTX_REGISTERS
	"ld.param.u32 %r1, [n];\n"
	PTX_INDEX
	PTX_POINTER("%rd1", "to")
	PTX_POINTER("%rd2", "from")
	"add.s64 %rd1, %rd1, %rd9;\n"
	"add.s64 %rd2, %rd2, %rd9;\n"
	"ld.global.u32 %r6, [%rd2];\n"
	"st.global.u32 [%rd1], %r6;\n"
	"done:\nret;\n}\n"
	".visible .entry k_hidden(.param .align 8 .b8 h[24])\n{\n"
	PTX_REGISTERS
	"ld.param.u32 %r1, [h];\n"
	PTX_INDEX
	PTX_POINTER("%rd1", "h+8")
	"ld.param.u32 %r6, [h+16];\n"
	"add.s64 %rd1, %rd1, %rd9;\n"
	"st.global.u32 [%rd1], %r6;\n"
	"done:\nret;\n}\n"
	".visible .entry k_bad()\n{\n"
	".reg .b64 %rd<2>;\n"
	"mov.u64 %rd1, 16;\n"
	"st.global.u32 [%rd1], 0;\n"
	"ret;\n}\n"
	".visible .entry k_empty()\n{\nret;\n}\n";

static inline uint32_t *k_words(void *param)
{
	return *(uint32_t **)param;
}

static int k_inc(void **params)
{
	for (uint32_t i = 0; i < *(uint32_t *)params[1]; i++)
		k_words(params[0])[i]++;
	return 0;
}

static int k_add(void **params)
{
	for (uint32_t i = 0; i < *(uint32_t *)params[3]; i++)
		k_words(params[0])[i] = k_words(params[1])[i] +
					k_words(params[2])[i];
	return 0;
}

static int k_copy(void **params)
{
	for (uint32_t i = 0; i < *(uint32_t *)params[2]; i++)
		k_words(params[0])[i] = k_words(params[1])[i];
	return 0;
}

static int k_hidden(void **params)
{
	const struct hidden *h = params[0];

	for (uint64_t i = 0; i < h->n; i++)
		((uint32_t *)(uintptr_t)h->to)[i] = h->value;
	return 0;
}

static int k_bad(void **params)
{
	return 700;
}

static int k_empty(void **params)
{
	return 0;
}

static const struct standin_kernel kernels_standin[] = {
	{ "k_inc", k_inc, { 8, 4 } },
	{ "k_add", k_add, { 8, 8, 8, 4 } },
	{ "k_copy", k_copy, { 8, 8, 4 } },
	{ "k_hidden", k_hidden, { sizeof(struct hidden) } },
	{ "k_bad", k_bad, { 0 } },
	{ "k_empty", k_empty, { 0 } },
	{ NULL, NULL, { 0 } },
};

static const struct standin_image kernels_image = {
	STANDIN_MAGIC, kernels_standin
};

#endif /* CAPKM_KERNELS_H */
