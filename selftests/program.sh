# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For a check that runs one program again and again: in a folder of its own, counting in bad
# what is not so. The caller has set program to its path.

: "${program:?}"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit
bad=0

no() {
	bad=$((bad + 1))
	echo "not so: $*"
	sed 's/^/    /' out err
}

# run STATUS ARGUMENT...
run() {
	local want=$1 rc=0
	shift
	"$program" "$@" >out 2>err || rc=$?
	[ "$rc" -eq "$want" ] || no "$*: exit status $want (is $rc)"
}
