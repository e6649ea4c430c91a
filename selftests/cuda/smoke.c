// SPDX-License-Identifier: GPL-2.0-only
/* The bridge's shortest way: bind, allocate, write, launch, read; capture, replay. */
#include "cuda_test.h"

FIXTURE(smoke)
{
	struct gpu g;
	cu_stream s;
};

FIXTURE_SETUP(smoke)
{
	c_open(&self->g);
	self->s = c_stream(&self->g);
}

FIXTURE_TEARDOWN(smoke)
{
	capkm_cuda_stream_unbind(self->g.b, self->s, NULL);
	CU_DO(cuStreamDestroy(self->s));
	c_close(&self->g);
}

/* T-101/hw */
TEST_F(smoke, launch)
{
	uint64_t m = c_new(&self->g, self->s, 5);

	c_inc(&self->g, self->s, m);
	c_is(&self->g, self->s, m, 6);
	c_is_clean(&self->g, m);
	c_free(&self->g, m);
}

/* T-201/hw: recording does nothing, each replay does it once. */
TEST_F(smoke, replay)
{
	uint64_t m = c_new(&self->g, self->s, 5);
	uint64_t out = c_new(&self->g, self->s, 0), graph;
	struct capkm_cuda_graph_query q;

	c_prepare(&self->g, self->s);
	c_inc(&self->g, self->s, m);
	c_begin(&self->g, self->s);
	c_inc(&self->g, self->s, m);
	c_add(&self->g, self->s, out, m, m);
	graph = c_end(&self->g, self->s);
	c_is(&self->g, self->s, m, 6);
	c_replay(&self->g, self->s, graph);
	c_replay(&self->g, self->s, graph);
	c_is(&self->g, self->s, m, 8);
	c_is(&self->g, self->s, out, 16);
	q = c_query(&self->g, graph);
	ASSERT_EQ(2, q.nodes);
	ASSERT_EQ(2, q.kernels);
	c_destroy(&self->g, graph);
	c_free(&self->g, m);
	c_free(&self->g, out);
}

CUDA_TEST_MAIN
