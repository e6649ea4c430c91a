#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Attaches to a capture that PyTorch makes itself: attach.py [libcapkm.so]

PyTorch begins and ends the capture, and replays the graph; capkm is told of it. Nobody says
what the operations read and write: that is found in the kernels' arguments. Then an input is
tainted, and the replay is skipped until it is written anew.
"""
import ctypes
import os
import sys
from ctypes import byref, c_int32, c_uint8, c_uint32, c_uint64, c_void_p

SKIP = 4
BACKEND_HARDWARE = 1
MODE_GLOBAL = 1
GRAPH_SEEN = 2


class Struct(ctypes.Structure):
    """All of them say how large they are in their first member."""

    def __init__(self, **members):
        super().__init__(ctypes.sizeof(self), **members)


class Error(Struct):
    _fields_ = [("sz", ctypes.c_size_t), ("err", c_int32), ("index", c_uint32),
                ("failure", c_uint64), ("limit", c_uint32), ("code", c_int32),
                ("text", ctypes.c_char * 512)]


class DomainOpts(Struct):
    _fields_ = [("sz", ctypes.c_size_t), ("flags", c_uint32), ("mode", c_uint32),
                ("max_streams", c_uint32), ("backend", c_uint32), ("domain", c_uint64),
                ("owner_uid", c_uint32), ("limits_len", c_uint32), ("limits", c_void_p)]


class GraphOpts(Struct):
    _fields_ = [("sz", ctypes.c_size_t), ("cookie", c_uint64), ("mode", c_uint32),
                ("flags", c_uint32)]


class Cause(Struct):
    _fields_ = [("sz", ctypes.c_size_t), ("kind", c_uint32), ("code", c_int32),
                ("text", ctypes.c_char_p), ("stack", c_void_p), ("stack_len", c_uint32),
                ("flags", c_uint32)]


class Found(Struct):
    """struct capkm_cuda_graph_query"""
    _fields_ = [("sz", ctypes.c_size_t)] + [(name, c_uint64) for name in (
        "nodes", "kernels", "copies", "opaque", "seen", "retained",
        "host_unchecked")] + [("exec", c_void_p)]


class Where(ctypes.Structure):
    _fields_ = [("stream", c_uint64), ("device", c_uint8 * 16), ("slot", c_uint32),
                ("flags", c_uint32)]


class Range(ctypes.Structure):
    _fields_ = [("address", c_uint64), ("bytes", c_uint64)]


class Claim(ctypes.Structure):
    _fields_ = [("buffer", c_uint64), ("start", c_uint64), ("end", c_uint64)]


class Report(ctypes.Structure):
    _fields_ = [("failure", c_uint64), ("kind", c_uint32), ("code", c_int32)] + [
        (name, c_uint64) for name in (
            "buffer", "start", "end", "scope", "graph", "window", "stream", "session",
            "sequence", "time_ns")] + [(name, c_uint32) for name in (
                "pid", "tid", "uid", "carriers", "hops", "text_len")] + [
        ("comm", ctypes.c_char * 16), ("label", ctypes.c_char * 64),
        ("text", ctypes.c_char * 256)]


class GraphQuery(Struct):
    """struct capkm_graph_query; what is not looked at here is room"""
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("graph", c_uint64),
                ("first", Claim), ("claims", c_void_p), ("claims_len", c_uint32),
                ("out_claims", c_uint32), ("room", c_uint64 * 14)]


class WindowQuery(Struct):
    """struct capkm_window_query"""
    _fields_ = [("size", c_uint32), ("flags", c_uint32), ("window", c_uint64),
                ("place", Where), ("reports", c_void_p), ("reports_len", c_uint32),
                ("out_reports", c_uint32), ("out_window", c_uint64),
                ("out_owner", c_uint64), ("out_session", c_uint64),
                ("out_cookie", c_uint64), ("out_graph", c_uint64),
                ("out_device", c_uint8 * 16)] + [(name, c_uint32) for name in (
                    "out_slot", "out_state", "out_verdict", "out_capture_cache",
                    "out_doomed", "out_strict", "out_pid", "out_uid")] + [
        (name, c_uint64) for name in (
            "out_recorded", "out_bytes", "out_inputs", "out_retained",
            "out_retained_bytes", "out_launches", "out_foreign_launches",
            "out_failures", "out_failed_after", "out_prepared_ns", "out_begun_ns",
            "out_closed_ns")] + [
        ("out_comm", ctypes.c_char * 16), ("out_mode", ctypes.c_char * 32),
        ("out_parent", c_uint64), ("out_escaped", c_uint64), ("out_children", c_uint32),
        ("out_members", c_uint32), ("members", c_void_p), ("members_len", c_uint32),
        ("reserved", c_uint32)]


class Capkm:
    """The library: each call ends with the struct for its error."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.capkm_state_name.restype = ctypes.c_char_p
        self.lib.capkm_result_name.restype = ctypes.c_char_p
        self.c, self.cuda = c_void_p(), c_void_p()
        device = None if "CAPKM_DEVICE" in os.environ else b"auto:"
        self("open", device, None, byref(self.c))
        self("domain_create", self.c, None, byref(DomainOpts(backend=BACKEND_HARDWARE)))
        self("cuda_open", self.c, None, byref(self.cuda))

    def __call__(self, name, *args):
        error = Error()
        if getattr(self.lib, "capkm_" + name)(*args, byref(error)):
            sys.exit("attach.py: " + error.text.decode())

    def close(self):
        self.lib.capkm_cuda_close(self.cuda)
        self.lib.capkm_close(self.c)

    def name(self, kind, value):
        return getattr(self.lib, f"capkm_{kind}_name")(c_uint32(value)).decode()


def memory_of(tensor):
    return Range(tensor.data_ptr(), tensor.numel() * tensor.element_size())


class Known:
    """Tensors that the authority knows, and by what name."""

    def __init__(self, capkm):
        self.capkm = capkm
        self.names, self.tensors = {}, []

    def add(self, name, tensor):
        memory = memory_of(tensor)
        self.capkm("cuda_adopt", self.capkm.cuda, c_uint64(memory.address),
                   c_uint64(memory.bytes), name.encode(), c_uint32(0))
        self.names[self.claim(tensor).buffer] = name
        self.tensors.append(tensor)

    def claim(self, tensor):
        claim, one = Claim(), c_uint32(1)
        self.capkm("cuda_claims", self.capkm.cuda, byref(memory_of(tensor)), byref(claim),
                   byref(one))
        return claim

    def forget(self):
        for tensor in self.tensors:
            self.capkm("cuda_forget", self.capkm.cuda, c_uint64(tensor.data_ptr()))


def show_window(capkm, window):
    query = WindowQuery(window=window.value)
    capkm("window_query", capkm.c, byref(query))
    print(f"window {window.value}: {capkm.name('state', query.out_state)}, "
          f"mode {query.out_mode.decode()}, by {query.out_comm.decode()}")


def show_graph(capkm, graph, known):
    found = Found()
    capkm("cuda_graph_query", capkm.cuda, graph, byref(found))
    print(f"graph {graph.value}: {found.nodes} nodes, {found.kernels} kernels, "
          f"{found.opaque} that could not be looked into")
    claims = (Claim * 16)()
    query = GraphQuery(flags=GRAPH_SEEN, graph=graph.value, claims_len=16,
                       claims=ctypes.addressof(claims))
    capkm("graph_query", capkm.c, byref(query))
    for claim in claims[:query.out_claims]:
        print(f"    was seen to be given {known.names[claim.buffer]}, "
              f"bytes {claim.start} to {claim.end}")


def replay(torch, capkm, graph, captured, stream, where):
    """PyTorch's own replay, in brackets."""
    result, why = c_uint32(), Report()
    capkm("graph_replay_begin", capkm.c, graph, byref(where), None, byref(result),
          byref(why))
    text = capkm.name("result", result.value)
    if result.value == 0:
        with torch.cuda.stream(stream):
            captured.replay()
        capkm("graph_replay_end", capkm.c, graph, c_uint32(0))
        capkm("cuda_stream_sync", capkm.cuda, c_void_p(stream.cuda_stream))
    else:
        text += f": {why.text.decode()}"
    print("replay:", text)
    return result.value == 0


def expect(condition, what):
    if not condition:
        sys.exit("attach.py: " + what)


def example(torch, capkm):
    known, stream = Known(capkm), torch.cuda.Stream()
    window, graph, where = c_uint64(), c_uint64(), Where()
    handle = c_void_p(stream.cuda_stream)
    x, w = torch.randn(64, 256, device="cuda"), torch.randn(256, 256, device="cuda")

    def operation():
        return torch.relu(x @ w)

    with torch.cuda.stream(stream):
        operation()     # the warm-up
    torch.cuda.synchronize()
    capkm("cuda_stream_bind", capkm.cuda, handle, None, byref(where))
    known.add("x", x)
    known.add("w", w)

    captured = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(captured, stream=stream):
        capkm("cuda_graph_attach", capkm.cuda, handle,
              byref(GraphOpts(mode=MODE_GLOBAL)), byref(window))
        y = operation()
        show_window(capkm, window)
    known.add("y", y)
    # Without an executable graph: PyTorch makes it, and replays.
    capkm("cuda_graph_seal", capkm.cuda, handle, c_void_p(captured.raw_cuda_graph()), None,
          byref(graph), None)
    show_graph(capkm, graph, known)

    expect(replay(torch, capkm, graph, captured, stream, where), "it was not replayed")
    expect(torch.equal(y, operation()), "the replay computed something else")

    why = Cause(code=7, text=b"the loader of x got half of its file")
    capkm("taint", capkm.c, byref(known.claim(x)), c_uint32(1), c_uint64(0), byref(why), None)
    print("x is tainted")
    before = y.clone()
    expect(not replay(torch, capkm, graph, captured, stream, where), "it was replayed")
    expect(torch.equal(y, before), "what was skipped has run")

    x.copy_(torch.randn(64, 256))
    torch.cuda.synchronize()
    capkm("written", capkm.c, byref(known.claim(x)), c_uint32(1))
    print("x is written anew")
    expect(replay(torch, capkm, graph, captured, stream, where), "it was not replayed")
    expect(torch.equal(y, operation()), "the replay computed something else")

    capkm("cuda_graph_destroy", capkm.cuda, graph)
    known.forget()
    capkm("cuda_stream_unbind", capkm.cuda, handle)


def main():
    try:
        import torch
    except ImportError:
        print("attach.py: skipped: there is no PyTorch")
        return SKIP
    if not torch.cuda.is_available() or not hasattr(torch.cuda.CUDAGraph, "raw_cuda_graph"):
        print("attach.py: skipped: needs a CUDA device, and a PyTorch that gives its graphs")
        return SKIP
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}")
    capkm = Capkm(sys.argv[1] if len(sys.argv) > 1 else "libcapkm.so")
    example(torch, capkm)
    capkm.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
