#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm monitor: each event is seen once and in order, or counted as lost.  "client --hold"
# holds a domain, "client --events" makes many events.

tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
holder=
watcher=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	for pid in $holder $watcher; do
		kill -9 "$pid" 2>/dev/null
	done
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh

loose=yes
shown=9

hold --hold
read -r domain _ <"$tmp/held"

# ---- all domains, one domain, one's own; many events

as_nobody 1 monitor
complains 'root'
as_nobody 1 monitor "$domain"
before=$(capadm --json domains | grep -c windows)
timeout 2 capadm monitor held >"$tmp/out" 2>"$tmp/err"
[ "$before" = "$(capadm --json domains | grep -c windows)" ] || no "who looks changes nothing"

# watched FILE: each event once, in order, or counted as lost
watched() {
	awk '
		/"lost": *\{/ { sub(/.*"events": */, ""); lost += $1; next }
		/"monitor": *\{/ { next }
		/"event": *\{/ {
			n = d = $0
			sub(/.*"number": */, "", n)
			sub(/.*"domain": */, "", d)
			n += 0; d += 0
			if (d in last && n <= last[d])
				exit 1
			last[d] = n
			seen++
		}
		END { print seen + 0, lost + 0, n + 0 }' "$1"
}

ended() {
	! kill -0 "$1" 2>/dev/null
}

watch() {
	"$@" >"$tmp/watched" 2>"$tmp/err" &
	watcher=$!
	sleep 2
}

# It has been slower than those who made the events.
unwatch() {
	sleep 2
	size=
	n=0
	until [ "$size" = "$(wc -c <"$tmp/watched")" ] || [ "$n" -ge 60 ]; do
		size=$(wc -c <"$tmp/watched")
		n=$((n + 1))
		sleep 1
	done
	kill -INT "$watcher"
	wait "$watcher" || no "a monitor that was stopped has done well"
	watcher=
}

# The first domain that it makes is the one that counts.
watch capadm --json monitor --failures
/selftests/programs/client --events 100000 >"$tmp/made"
unwatch
read -r many made <"$tmp/made"
grep "\"domain\": *${many}[,}]" "$tmp/watched" >"$tmp/out"
read -r seen lost last <<EOT
$(watched "$tmp/out")
EOT
echo "# of $made events $seen were seen, $lost said to be lost"
[ "$last" -ge "$made" ] || no "there were as many, and the last was seen"
[ $((seen + lost)) -eq "$last" ] || no "each is seen once and in order, or said to be lost"

# slowly N: many events of a domain, $many, that is there some seconds before they begin
slowly() {
	rm -f "$tmp/slowly"
	/selftests/programs/client --events "$1" --slow >"$tmp/slowly" &
	holder2=$!
	soon 100 test -s "$tmp/slowly"
	read -r many made <"$tmp/slowly"
}

# By a session: the same domain from the beginning, told when it ends.
slowly 3000
watch unshare -n capadm --json monitor "$many"
wait "$holder2"
unwatch
grep "\"domain\": *${many}[,}]" "$tmp/watched" >"$tmp/out"
read -r seen lost last <<EOT
$(watched "$tmp/out")
EOT
echo "# by a session: of $made events $seen were seen, $lost said to be lost"
[ "$last" -ge "$made" ] || no "a session gives events in another network namespace"
[ $((seen + lost)) -eq "$last" ] || no "each of them is seen, or said to be lost"
run 0 timeout 60 capadm monitor --help

# Who is stopped loses events, is told so, and what comes last are the sums.
slowly 2000
watch unshare -n capadm --json monitor "$many"
kill -STOP "$watcher"
wait "$holder2"
kill -CONT "$watcher"
unwatch
cp "$tmp/watched" "$tmp/out"
has '"lost": *\{ *"domain": *[0-9]+, *"events": *[1-9]'
for form in event lost monitor; do
	grep "\"$form\": *{" "$tmp/watched" | tail -n 1 >"$tmp/line"
	keep "$tmp/line" "$form"
done
[ "$(grep -c . "$tmp/line")" -eq 1 ] || no "the sums are there"
tail -n 1 "$tmp/watched" | grep -q '"monitor": *{ *"events": *[0-9]*, *"lost": *[1-9]' ||
	no "the sums come last"

# Who is stopped stops, though events keep coming, and does well.
/selftests/programs/client --events 2000000000 >/dev/null &
holder2=$!
watch capadm --json monitor --failures
kill -TERM "$watcher"
soon 300 ended "$watcher" || no "a monitor stops while events keep coming"
wait "$watcher" || no "a monitor that was stopped while events kept coming has done well"
watcher=
kill -9 "$holder2"
wait "$holder2" 2>/dev/null

# A domain that goes ends the watching of it, and nothing that came before is missing.
capadm domain create passing >"$tmp/out" || no "a domain to watch"
watch timeout 40 capadm --json monitor passing
capadm domain rm passing >"$tmp/out" || no "it is removed"
wait "$watcher" || no "a monitor of a domain that has gone ends, and well"
watcher=
cp "$tmp/watched" "$tmp/out"
has '"monitor": *\{ *"events": *0'

all_so
