#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What capadm prints for shells is right in their eyes, and in bash it completes commands,
# groups, options and their values.

set -u
cd "$(dirname "$0")/../.." || exit
capadm=$(realpath -m "${O:-build}")/tools/capadm
[ -x "$capadm" ] || exit 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

for shell in bash zsh fish; do
	"$capadm" completion "$shell" >"$tmp/$shell" || failed=1
	command -v "$shell" >/dev/null || continue
	"$shell" -n "$tmp/$shell" || failed=1
done
# shellcheck source=/dev/null
. "$tmp/bash"

# completes WORDS... -- WHAT...: behind the last word, all of these are offered
completes() {
	COMP_WORDS=() COMPREPLY=()
	while [ "$1" != -- ]; do
		COMP_WORDS+=("$1")
		shift
	done
	shift
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_capadm
	[ "${COMPREPLY[*]}" = "$*" ] || {
		echo "${COMP_WORDS[*]}: '${COMPREPLY[*]}', and not '$*'"
		failed=1
	}
}

completes capadm mon -- monitor
completes capadm he -- health
completes capadm --json me -- metrics
completes capadm domain c -- create
completes capadm domain create --mo -- --mode
completes capadm monitor --fail -- --failures
completes capadm monitor --count 3 --fa -- --failures
completes capadm top --in -- --interval
completes capadm top --interval '' --
completes capadm metrics --textfile READ -- README.md
completes capadm version x --
completes capadm nosuch '' --

# Each command that is not hidden is offered, and nothing else.
"$capadm" commands | awk -F '\t' '$1 == "command" { sub(/ .*/, "", $2); print $2 }' |
	sort -u >"$tmp/all"
COMP_WORDS=(capadm '') COMP_CWORD=1
_capadm
printf '%s\n' "${COMPREPLY[@]}" | sort | diff "$tmp/all" - || failed=1
exit $failed
