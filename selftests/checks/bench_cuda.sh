#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# capkm-bench-cuda beside the stand-in for the CUDA driver: it needs nothing of others but
# libc, says whose device it is, and measures each thing both bare and through the bridge, with
# as many samples as there have to be. What it measures says nothing of a GPU.

set -u
cd "$(dirname "$0")/../.." || exit
O=$(realpath -m "${O:-build}")
program=$O/bench/capkm-bench-cuda
for file in "$program" "$O/selftests-cuda/libcuda.so.1"; do
	[ -e "$file" ] || {
		echo "no $file; make cuda-bench cuda-selftests builds it"
		exit 4
	}
done
export LD_LIBRARY_PATH=$O/selftests-cuda
. selftests/program.sh

ldd "$program" | awk '{ print $1 }' | grep -vE '^(linux-vdso|libc|libm|/lib.*/ld-linux.*)\.so(\.|$)|^/lib.*/ld-linux' >out
[ ! -s out ] || no 'it needs only libc'

run 2 --transport ioctl
grep -q "wants embedded or kernel, not 'ioctl'" err || no 'the transport'
run 2 --json nosuch/json
grep -q 'nosuch/json: No such file' err || no 'the file'
run 2 quick
run 0 --help
run 0 --transport embedded --quick --json json --svg svg
grep -q '^device: stand-in' out || no 'whose device it is'
grep -q '^through the bridge' out || no 'what the bridge adds'

/usr/bin/python3 - <<'EOP' || no 'the results are what they should be'
import json, xml.etree.ElementTree as tree

top = json.load(open("json"))
assert top["machine"]["device"].startswith("stand-in"), top["machine"]
seen = {(r["operation"], r["through"], r["size"]): r for r in top["results"]}
pairs = [("cuLaunchKernel", 2)] + [(what, n) for n in (10, 100, 500, 1000, 2000)
                                   for what in ("cuGraphLaunch", "launch and wait")]
for what, size in pairs:
    for through in "bare", "embedded, fast":
        r = seen[what, through, size]
        assert r["median"] > 0 and r["samples"] >= top["least_samples"], r
for g in top["goals"]:
    assert g["verdict"] == ("holds" if g["value"] <= g["at_most"] else "missed"), g
by = {g["goal"]: g["value"] for g in top["goals"]}
for what in "cuLaunchKernel", "the scope alone", "the bridge's scope alone":
    assert (what, "embedded", 2) in seen, what
ratio = seen["the scope alone", "embedded, fast", 2]["median"] / seen["cuLaunchKernel", "bare", 2]["median"]
assert abs(by["clean scope over two buffers, of cuLaunchKernel"] - ratio) < 1e-3 * ratio, (by, ratio)
svg = tree.parse("svg").getroot()
assert len(list(svg.iter("{http://www.w3.org/2000/svg}title"))) == 25
print(f"ok: {len(seen)} results")
EOP
[ "$bad" -eq 0 ]
