#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The kernel-doc comments of the module and of its user-space headers are well
# formed and complete.

cd "$(dirname "$0")/../.." || exit
for kernel_doc in /usr/lib/linux-kbuild-*/scripts/kernel-doc; do :; done
[ -x "$kernel_doc" ] || exit 4
scripts/files | grep -E '^(include/uapi|kmod|lib/include)/.*\.[ch]$' | xargs "$kernel_doc" -none -Werror
