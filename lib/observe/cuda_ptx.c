// SPDX-License-Identifier: MIT
/* The kernels, a text in the library. */
#include "device.h"

__asm__(".pushsection .rodata\n"
	".globl capkm_observe_ptx\n"
	".hidden capkm_observe_ptx\n"
	".type capkm_observe_ptx, %object\n"
	"capkm_observe_ptx:\n"
	".incbin \"observe/cuda_kernels.ptx\"\n"
	".byte 0\n"
	".size capkm_observe_ptx, . - capkm_observe_ptx\n"
	".popsection\n");
