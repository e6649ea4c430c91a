#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The version scripts of the two libraries, their dynamic symbols, those that an archive
# shows, their headers and the manual name the same functions; the installed headers
# compile by themselves, as C and as C++, without a warning.

set -e
cd "$(dirname "$0")/../.."
O=$(realpath -m "${O:-build}")
CC=${CC:-cc}
CXX=${CXX:-c++}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

make -s O="$O" lib

rc=0
compare() {
	echo "$1 and $2:"
	diff "$3" "$4" || rc=1
}
defined() {
	nm "$@" --defined-only --format=posix | awk 'NF > 2 && $2 != "A" { sub("@.*", "", $1); print $1 }' | sort
}

for map in lib/libcapkm.map lib/observe/libcapkm-observe.map; do
	name=$(basename "$map" .map)
	sed -n 's/^[[:space:]]*\(capkm_[a-z0-9_]*\);$/\1/p' "$map" | sort >"$tmp/$name"
	[ -s "$tmp/$name" ]
	defined -D "$O/lib/$name.so" >"$tmp/exported"
	compare "$map" "$name.so" "$tmp/$name" "$tmp/exported"
done
echo "what libcapkm-observe.a shows begins with capkm_:"
defined -g "$O/lib/libcapkm-observe.a" | grep -v '^capkm_' && rc=1
sort "$tmp"/libcapkm* >"$tmp/map"
# A prototype may have its name on the line after CAPKM_API.
cat lib/include/capkm/*.h | tr '\n' ' ' | grep -o 'CAPKM_API [^(;{}]*(' | grep -v __attribute__ |
	grep -o '[a-z0-9_]*[[:space:]]*($' | tr -d '( \t' | sort >"$tmp/header"
sed -n '/^\.SH NAME/,/^\.SH LIBRARY/{s/ \\- .*//p}' Documentation/man/*.3 |
	tr -s ', ' '\n' | sort >"$tmp/man"

for names in header man; do
	compare "the maps" "$names" "$tmp/map" "$tmp/$names"
done

make -s O="$O" DESTDIR="$tmp/root" prefix=/usr install >/dev/null
cat >"$tmp/include.c" <<'END'
#include <capkm/cuda.h>
#include <capkm/host.h>
#include <capkm/intervene.h>
#include <capkm/observe_cuda.h>
#include <capkm/observe_host.h>

int main(void)
{
#ifdef __cplusplus
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause);

	cause.code = 5;
#else
	struct capkm_cause cause = CAPKM_OPTS(struct capkm_cause, .code = 5);
#endif
	return cause.code != 5 || !capkm_version();
}
END
cp "$tmp/include.c" "$tmp/include.cc"
strict="-Wall -Wextra -Werror -I$tmp/root/usr/include"
for std in c99 c11 gnu17; do
	# shellcheck disable=SC2086 # several arguments
	"$CC" -std=$std $strict -c -o "$tmp/include.o" "$tmp/include.c" || rc=1
done
if command -v "$CXX" >/dev/null; then
	for std in c++11 c++17 c++20; do
		# shellcheck disable=SC2086 # several arguments
		"$CXX" -std=$std $strict -c -o "$tmp/include.o" "$tmp/include.cc" || rc=1
	done
else
	echo "no C++ compiler: the header was not tried with one"
fi
exit $rc
