/* SPDX-License-Identifier: GPL-2.0-only */
/* Nodes that tests add to graphs themselves, as CUDA lays their parameters out. */
#ifndef CAPKM_NODES_H
#define CAPKM_NODES_H

#include "../../lib/cuda/driver.h"

#define CU_NODE_BATCH_MEM_OP	12

/* CUgraphConditionalNodeType */
enum { CU_COND_IF, CU_COND_WHILE, CU_COND_SWITCH };
#define CU_COND_ASSIGN_DEFAULT	1u

/* CUgraphNodeParams, of which tests need one kind. */
struct cu_node_params {
	int type;
	int reserved0[3];
	union {
		long long reserved1[29];
		struct {
			uint64_t handle;
			int type;
			unsigned int size;
			cu_graph *graphs;	/* the driver's array */
			cu_context context;
		} conditional;
	};
	long long reserved2;
};

/* CUstreamBatchMemOpParams, of which tests need one kind. */
struct cu_mem_op {
	int operation;
	cu_address address;
	uint64_t value;
	unsigned int flags;
	uint64_t rest[2];
};
#define CU_MEM_OP_WRITE_32	2

struct cu_mem_op_params {
	cu_context context;
	unsigned int count;
	struct cu_mem_op *ops;
	unsigned int flags;
};

#endif /* CAPKM_NODES_H */
