#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C78: the module cannot be removed under a process that uses it, however busy that
# is; it can when the process has been killed in the middle of whatever it did.

tmp=$(mktemp -d) || exit
bad=0
pids=

# shellcheck disable=SC2329 # the trap calls it
finish() {
	for pid in $pids; do
		kill -9 "$pid" 2>/dev/null
	done
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

no() {
	bad=$((bad + 1))
	echo "not so: $*"
}

round() {
	pids=
	for i in 1 2 3; do
		/selftests/programs/cases_process --churn >"$tmp/$i" &
		pids="$pids $!"
	done
	n=0
	until [ -s "$tmp/1" ] && [ -s "$tmp/2" ] && [ -s "$tmp/3" ]; do
		n=$((n + 1))
		[ "$n" -lt 200 ] || return 1
		usleep 50000
	done
	for i in 1 2 3 4 5 6 7 8 9 10; do
		! rmmod capkm 2>/dev/null || no "a module in use is not removed"
	done
	for pid in $pids; do
		kill -0 "$pid" || no "who uses it has not noticed"
	done
	[ -c /dev/capkm ] || no "the device is still there"
	for pid in $pids; do
		kill -9 "$pid"
		wait "$pid" 2>/dev/null
	done
	pids=
	rm -f "$tmp"/[123]
	n=0
	until rmmod capkm 2>/dev/null; do
		n=$((n + 1))
		[ "$n" -lt 100 ] || {
			no "the module can be removed when nobody uses it"
			return 1
		}
		usleep 50000
	done
	modprobe capkm || no "the module can be loaded again"
}

for _ in 1 2 3 4 5; do
	round || {
		no "a round ends"
		break
	}
done

[ "$bad" -eq 0 ]
