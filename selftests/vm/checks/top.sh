#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm top on a terminal: what it takes it gives back, also while it is stopped, when it
# is ended by a signal and when it fails, and an error is read behind that.  What is on
# the screen is for an emulator to say, selftests/capadm_top, which gets /run/capadm-top.

tmp=$(mktemp -d) || exit
holder=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder"
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh
esc=$(printf '\033')
export TERM=xterm

# on STATUS DIR ROWS COLUMNS COMMAND...: with the steps of pty as its input
on() {
	want=$1 dir=$2
	shift
	mkdir -p "$dir"
	rc=0
	/selftests/pty "$@" 2>"$tmp/err" || rc=$?
	cat "$dir"/[0-9]* >"$tmp/out"
	[ "$rc" -eq "$want" ] || no "$4: exit status $want (is $rc)"
}

takes() {
	grep -qF "${esc}[?1049h${esc}[?25l${esc}[?7l" "$1" || no "the screen is taken in ${1##*/}"
}

gives_back() {
	grep -qF "${esc}[?7h${esc}[?25h${esc}[?1049l" "$1" || no "the screen is given back in ${1##*/}"
}

hold --hold
top=/run/capadm-top
on 0 $top 24 100 capadm top --interval 0.4 <<'EOT'
sleep 3000
size 12 60
sleep 1500
modes
kill 20
sleep 1500
state
modes
size 20 90
kill 18
sleep 1500
modes
keys q
EOT
takes $top/0
[ "$(cat $top/modes-3)" = '' ] || no "keys are not shown"
gives_back $top/5
[ "$(cat $top/state-6)" = T ] || no "it is stopped"
[ "$(cat $top/modes-7)" = 'echo canonical' ] || no "the keyboard is given back"
takes $top/10
[ "$(cat $top/modes-11)" = '' ] || no "the keyboard is taken again"
gives_back $top/13

for signal in 1 2 3 15; do
	on 0 "$tmp/signal-$signal" 24 80 capadm top --interval 30 <<-EOT
	sleep 2000
	kill $signal
	sleep 1000
	modes
	EOT
	gives_back "$tmp/signal-$signal/2"
	[ "$(cat "$tmp/signal-$signal/modes-3")" = 'echo canonical' ] ||
		no "the keyboard is given back after signal $signal"
done

# A terminal that can do nothing gets one table after the other.
# So does who wants so many.
TERM=dumb on 0 "$tmp/dumb" 24 80 capadm top --interval 0.1 <<'EOT'
sleep 3000
kill 2
EOT
lacks "$esc"
[ "$(grep -c SCOPES/s "$tmp/out")" -ge 2 ] || no "two tables"
NO_COLOR=1 on 0 "$tmp/count" 24 80 capadm top --interval 0.1 --count 2 </dev/null
lacks "$esc"
[ "$(grep -c SCOPES/s "$tmp/out")" -eq 2 ] || no "so many tables"

# The error comes behind the other screen.
kill -9 "$holder"
wait "$holder" 2>/dev/null
holder=
(
	sleep 2
	soon 50 unloaded
) &
on 1 "$tmp/fails" 24 80 capadm top --interval 0.3 </dev/null
wait
takes "$tmp/fails/0"
tail -n 1 "$tmp/fails/0" | grep -q "^.*${esc}\[?1049lcapadm: the capkm module is not loaded" ||
	no "the error can be read"

all_so
