#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Each shell script passes shellcheck.

cd "$(dirname "$0")/../.." || exit
scripts/files | while read -r f; do
	case $f in
	*.sh) echo "$f" ;;
	*) ! head -n 1 "$f" | grep -aEq '^#!.*[/ ](ba)?sh( |$)' || echo "$f" ;;
	esac
done | xargs shellcheck
