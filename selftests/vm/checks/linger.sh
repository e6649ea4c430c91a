#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A domain whose last process died is kept for linger_s, so that it can be looked
# at; then it goes by itself.

linger=/sys/module/capkm/parameters/linger_s
tmp=$(mktemp -d) || exit
usual=$(cat "$linger") || exit
bad=0
holder=

# shellcheck disable=SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder"
	echo "$usual" >"$linger"
	rm -rf "$tmp"
}
trap finish EXIT

no() {
	bad=$((bad + 1))
	echo "not so: $*"
	capadm domains
}

# until COMMAND...: within 20 seconds; it is looked at every 5
until_so() {
	n=0
	until "$@"; do
		n=$((n + 1))
		[ "$n" -lt 200 ] || return 1
		usleep 100000
	done
}

listed() {
	capadm domains 2>/dev/null | grep -Eq "^ *$domain "
}

defunct() {
	capadm domains | grep -Eq "^ *$domain .*defunct"
}

# shellcheck disable=SC2329 # until_so calls it
gone() {
	! listed
}

/selftests/programs/client --hold >"$tmp/held" &
holder=$!
until_so test -s "$tmp/held" || no 'the domain is made'
read -r domain _ <"$tmp/held"
listed || no 'a living domain is listed'

kill -9 "$holder"
wait "$holder" 2>/dev/null
holder=
until_so defunct || no 'it lingers'
sleep 6
defunct || no "it lingers for $usual seconds, not 6"
echo 0 >"$linger"
until_so gone || no 'it goes when its time is over'

[ "$bad" -eq 0 ]
