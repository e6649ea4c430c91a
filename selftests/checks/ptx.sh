#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The PTX of lib/observe is that of its source: by what it says itself and, where clang 14
# is, made anew. Where ptxas is, it makes something of it for GPUs old and new.

cd "$(dirname "$0")/../.." || exit
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

ptx=lib/observe/cuda_kernels.ptx
failed=0

of=$(cat lib/observe/cuda_kernels.h lib/observe/cuda_kernels.cu | sha256sum | cut -c 1-32)
if ! sed -n 2p $ptx | grep -qw "$of"; then
	echo "$ptx is of another source than $of; scripts/ptx makes it"
	failed=1
fi
if command -v "${CLANG:-clang-14}" >/dev/null; then
	scripts/ptx "$tmp/anew.ptx" && diff $ptx "$tmp/anew.ptx" || failed=1
fi
for dir in "${CUDA_HOME:-/nonexistent}" /usr/local/cuda; do
	[ -x "$dir/bin/ptxas" ] || continue
	for gpu in sm_75 sm_90; do
		"$dir/bin/ptxas" --gpu-name $gpu -o "$tmp/code" $ptx || failed=1
	done
	break
done
exit $failed
