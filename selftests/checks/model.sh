#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The model of the fast path holds, in configurations small enough for this; each way of
# doing it wrong, and each order of memory left out, breaks what Documentation/design/
# fastpath.rst says; and what may happen does. Larger configurations are on that page.

set -u
cd "$(dirname "$0")/../.." || exit
dir=$PWD/Documentation/design/fastpath
page=$PWD/Documentation/design/fastpath.rst
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export tmp

command -v spin >/dev/null || {
	echo "no spin; scripts/setup installs it"
	exit 4
}

for model in fastpath litmus; do
	mkdir "$tmp/$model"
	cd "$tmp/$model" || exit
	spin -a "$dir/$model.pml" >said || {
		cat said
		exit 1
	}
	"${CC:-gcc}" -w -DSAFETY -DCOLLAPSE -DMEMLIM=900 -o pan pan.c &
done
wait

scopes="W0=8 W1=10 K=2"
checks="W0=8 R1=0 K=2 CHECKS=1 ALL=1 FAULT=1"
reads="W0=2 D0=4 W1=4 D1=2"
other="R0=2 W0=2 W1=2 LEAVES=1"
again="R0=2 R1=0 W0=6 K=2 REUSE=1 LEAVES=1"
deaths="R0=2 W0=2 W1=2 DEATHS=1"

# shellcheck disable=SC2317 # xargs calls it
# run MODEL WANT VARIABLES...: a search of all states; WANT is holds, or the assertion that
# must break first, or any: it goes on to find all that break. States that end without an
# outcome are no errors of litmus.
run() {
	local model=$1 want=$2 got out options=(-n -m10000 -w20)
	shift 2
	[ "$model" = fastpath ] || options+=(-E)
	[ "$want" != any ] || options+=(-c0)
	out=$(mktemp -d "$tmp/out.XXXXXX")
	cd "$out" || exit
	env "$@" "$tmp/$model/pan" "${options[@]}" >said 2>&1
	got="nothing that pan says"
	if grep -q 'errors: 0' said && ! grep -qE 'max search depth|not completed|out of memory' said; then
		got=holds
	elif grep -q 'assertion violated' said; then
		got=$(sed -n 's/.*assertion violated .*\<not_\([a-z_]*\).*/\1/p' said | head -n 1)
		got=${got:-breaks}
	fi
	grep '^reached: ' said
	sed -n 's/.*assertion violated .*\<not_\([a-z_]*\).*/broken: \1/p' said
	[ "$want" = any ] || [ "$got" = "$want" ] || echo "wrong: $model $*: $want was to be seen, and was $got"
}
export -f run

{
	# What may be done: all of it holds, and all that may happen does.
	for how in "$scopes" "$checks" "$checks ORDER=1" "$reads" "$other" "$again" "$deaths"; do
		echo "fastpath holds $how"
	done
	for mutant in LOOK_AGAIN CLAIMS_UNSEEN PUBLISH_COVERED; do
		echo "fastpath holds R0=2 R1=0 W0=6 K=2 LEAVES=1 MUTANT=$mutant"
	done

	# What may not.
	echo "fastpath check_clean $checks ORDER=2"
	echo "fastpath check_up $checks ORDER=3"
	# shellcheck disable=SC2016 # as the page has it
	while read -r mutant in assertion; do
		echo "fastpath $assertion ${!in} MUTANT=$mutant"
	done < <(sed -n 's/^``\([A-Z_]*\)`` \+\([a-z]*\) \+``\([a-z_]*\)`` .*/\1 \2 \3/p' "$page" | tee "$tmp/mutants")

	# Each assertion can break.
	echo "fastpath any $reads MUTANT=READ_ONCE"
	echo "fastpath any W0=8 W1=2 DEATHS=1 MUTANT=CLEAR_FIRST"

	# Orders of memory.
	for test in enter reads leave check_left check_failed check_published revoked; do
		echo "litmus holds TEST=$test"
	done
	# shellcheck disable=SC2016
	while read -r order test; do
		echo "litmus breaks TEST=$test WITHOUT=$order"
	done < <(sed -n 's/^``\([a-z_]*\)`` \+\([a-z_]*\)  .*/\1 \2/p' "$page" | tee "$tmp/orders")
} >"$tmp/runs"
xargs -P "$(nproc)" -I{} bash -c 'run {}' <"$tmp/runs" >"$tmp/said"

failed=0
wrong() {
	echo "$*"
	failed=1
}

# The page has each mutant and each order.
# shellcheck disable=SC2034 # by their names, below
{
	mutants=$(sed -n '/^#define MUTANTS/,/not wrong/s/^\tM(\([A-Z_]*\)).*/\1/p' "$dir/fastpath.pml")
	orders=$(sed -n '/^#define ORDERS/,/^$/s/^\tO(\([a-z_]*\)).*/\1/p' "$dir/litmus.pml")
}
for kind in mutants orders; do
	if [ -z "${!kind}" ] || [ "$(sort <<<"${!kind}")" != "$(cut -d ' ' -f 1 "$tmp/$kind" | sort -u)" ]; then
		wrong "$page has other $kind than the model"
	fi
done
{
	sed -n '/^#define REACHABLE/,/^$/p' "$dir/fastpath.pml" | grep -o 'M([a-z_]*)' | sed 's/^M(/reached: /'
	sed -n '/^#define ASSERTIONS/,/^$/s/^\tA(\([a-z_]*)\).*/broken: \1/p' "$dir/fastpath.pml"
} | tr -d ')' >"$tmp/expected"
[ "$(cut -d : -f 1 "$tmp/expected" | sort -u | wc -l)" -eq 2 ] || wrong "the model has nothing to reach or to break"
while read -r line; do
	grep -qxF "$line" "$tmp/said" || wrong "not once $line"
done <"$tmp/expected"
! grep '^wrong: ' "$tmp/said" || failed=1
[ "$failed" -ne 0 ] || echo "ok: $(wc -l <"$tmp/runs") runs"
exit $failed
