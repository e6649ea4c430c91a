#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C18: a profiler was started and stopped around graphs, which crashed, hung or came out
# otherwise. While "client --captures" makes one graph after the other, all that can watch
# it comes and goes, at any moment, by SIGKILL: each window becomes the graph that
# it would have been, and none of the watchers is left in the domain.

tmp=$(mktemp -d) || exit
bad=0
watched=
events=/sys/kernel/tracing/events/capkm/enable

# shellcheck disable=SC2329 # the trap calls it
finish() {
	[ -z "$watched" ] || kill -9 "$watched"
	[ ! -e "$events" ] || echo 0 >"$events"
	rm -rf "$tmp"
}
trap finish EXIT

no() {
	bad=$((bad + 1))
	echo "not so: $*"
	sed 's/^/    /' "$tmp/made" "$tmp/out"
}

/selftests/programs/client --captures 20 >"$tmp/made" 2>&1 &
watched=$!
rounds=0
until capadm sessions watched >"$tmp/out" 2>&1; do
	rounds=$((rounds + 1))
	[ $rounds -lt 200 ] || exit 1
	usleep 50000
done

# The group, a session of the domain, a table again and again; and dumps, and traces.
rounds=0
until [ -s "$tmp/made" ]; do
	rounds=$((rounds + 1))
	[ $rounds -lt 400 ] || { no "all windows come to their end"; break; }
	capadm monitor --failures watched >/dev/null 2>&1 &
	a=$!
	su -s /bin/sh -c 'exec /usr/sbin/capadm monitor watched' nobody >/dev/null 2>&1 &
	b=$!
	capadm top --interval 0.1 >/dev/null 2>&1 &
	c=$!
	[ ! -e "$events" ] || echo $((rounds % 2)) >"$events"
	usleep $((rounds * 7919 % 150000))
	capadm windows watched >"$tmp/out" 2>&1 || no "capadm windows"
	capadm failures --tree watched >"$tmp/out" 2>&1 || no "capadm failures"
	kill -9 $a $b
	kill -TERM $c
	wait $a $b $c 2>/dev/null
done
echo "# $rounds rounds"
[ $rounds -ge 2 ] || no "watchers came and went while it captured"

kill -0 $watched || no "who is watched has not noticed"
n=$(cat "$tmp/made")
echo "# $n windows"
[ "$n" -gt 100 ] || no "each window became its graph"
capadm --json domains >"$tmp/out"
grep -q "\"sealed\": *$n,*\$" "$tmp/out" || no "each is known to have"
grep -q "\"given_up\": *0,*\$" "$tmp/out" || no "none was given up"
capadm windows --history watched >"$tmp/out"
[ "$(grep -c ' sealed ' "$tmp/out")" -gt 0 ] || no "the history has sealed windows"
! grep -Eq 'refused|abandoned|orphaned|doomed' "$tmp/out" || no "and no others"
capadm sessions watched >"$tmp/out"
[ "$(grep -Ec '^ +[0-9]+ ' "$tmp/out")" -eq 1 ] || no "the session that was watched is the only one"
capadm failures watched >"$tmp/out"
[ "$(wc -l <"$tmp/out")" -eq 1 ] || no "there are no failures"

[ "$bad" -eq 0 ]
