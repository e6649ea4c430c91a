#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Kbuild lists each source file of the module: a forgotten one would only be
# missed by who uses it.

cd "$(dirname "$0")/../.." || exit
lacking=0
for f in kmod/*.c kmod/engine/*.c; do
	grep -qw "$(basename "$f" .c)\.o" Kbuild || {
		echo "$f is not in Kbuild"
		lacking=1
	}
done
exit $lacking
