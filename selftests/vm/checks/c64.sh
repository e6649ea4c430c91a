#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C64: the health page said 200 while the engine behind it was dead.  A probe that
# knows nothing but the domain's name asks capadm, which needs no answer of the
# engine: before the kill all is well, after it the window is an orphan, all three
# outputs carry a failure, and that stays until somebody has dealt with it.

tmp=$(mktemp -d) || exit
bad=0
engine=
front=

# shellcheck disable=SC2329 # the trap calls it
finish() {
	for pid in $engine $front; do
		kill -9 "$pid" 2>/dev/null
	done
	rm -rf "$tmp"
}
trap finish EXIT

no() {
	bad=$((bad + 1))
	echo "not so: $*"
	sed 's/^/    /' "$tmp/out"
}

# capadm's answer; a probe that gets none is not well either
ask() {
	capadm --json "$@" >"$tmp/out" || no "capadm $*: succeeds"
}

# the numbers of a key, in a line
numbers() {
	sed -n "s/.*\"$1\": *\\([0-9]*\\).*/\\1/p" "$tmp/out" | tr '\n' ' '
}

says() {
	grep -Eq -- "$1" "$tmp/out" || no "capadm says: $1"
}

# What a readiness probe would do: the domain is there, no window has lost its
# process, no output carries a failure.
healthy() {
	ask windows --orphans engine
	grep -q '"state": *"orphaned"' "$tmp/out" && return 1
	ask buffers engine
	case $(numbers failures) in
	*[1-9]*) return 1 ;;
	'') return 1 ;;
	esac
	return 0
}

# shellcheck disable=SC2329 # wait_for calls it
unhealthy() {
	! healthy
}

# wait_for COMMAND...
wait_for() {
	n=0
	until "$@"; do
		n=$((n + 1))
		[ "$n" -lt 200 ] || return 1
		usleep 50000
	done
}

/selftests/programs/cases_process --engine >"$tmp/held" &
wait_for test -s "$tmp/held" || exit
read -r domain engine front window <"$tmp/held"

healthy || no "the engine is well before it is killed"
ask windows engine
says '"state": *"capture"'
says "\"pid\": *$engine"

kill -9 "$engine"
wait "$engine" 2>/dev/null
engine=

wait_for unhealthy || no "the probe fails when the engine is dead"
ask windows engine
says "\"id\": *$window"
says '"state": *"orphaned"'
says '"kind": *"owner-died"'
ask buffers engine
[ "$(numbers id | wc -w)" -eq 3 ] || no "three outputs"
for n in $(numbers failures); do
	[ "$n" -gt 0 ] || no "each output carries a failure"
done
ask failures engine
says '"kind": *"torn-down"'
says '"kind": *"unconfirmed"'
# It does not go away by itself, nor because somebody has looked.
unhealthy || no "the probe goes on to fail"

ask abandon "engine/$window"
ask domains
says "\"id\": *$domain"
ask windows --orphans engine
! grep -q '"state": *"orphaned"' "$tmp/out" || no "no orphan is left"

[ "$bad" -eq 0 ]
