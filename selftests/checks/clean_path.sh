#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# A clean scope over two buffers, and a check of one, take no more instructions than they
# did when the numbers here were written, and a tenth. Whoever makes them fewer writes the
# new ones, also into Documentation/userspace-api/performance.rst. They are those of
# Debian 12's gcc at -O2, through the shared library, of the loop around them too.

set -u
scope=591
check=108

cd "$(dirname "$0")/../.." || exit
O=$(realpath -m "${O:-build}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

[ -e "$O/lib/libcapkm.so" ] || {
	echo "no $O/lib/libcapkm.so: make lib"
	exit 4
}
command -v valgrind >/dev/null || {
	echo "no valgrind; scripts/setup installs it"
	exit 4
}
"${CC:-gcc}" -O2 -Ilib/include -Iinclude/uapi -o "$tmp/clean_path" \
	selftests/checks/clean_path.c -L"$O/lib" -lcapkm || exit

# count SCOPES CHECKS: instructions of a run
count() {
	LD_LIBRARY_PATH="$O/lib" valgrind --tool=callgrind --callgrind-out-file=/dev/null \
		"$tmp/clean_path" "$@" >"$tmp/out" 2>&1 || {
		cat "$tmp/out" >&2
		exit 1
	}
	sed -n 's/.*Collected : //p' "$tmp/out"
}

n=2000
none=$(count 0 0) && scopes=$(count $n 0) && checks=$(count 0 $n) || exit
rc=0
# is NAME NOW ALLOWED
is() {
	echo "$1: $2 instructions; written down: $3"
	[ "$2" -gt 0 ] && [ "$2" -le $(($3 * 11 / 10)) ] || rc=1
}
is "a clean scope over two buffers" $(((scopes - none) / n)) "$scope"
is "a clean check of one buffer" $(((checks - none) / n)) "$check"
exit $rc
