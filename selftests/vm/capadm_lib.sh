# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# For checks of capadm: they run it and look at what it prints. The caller has set tmp
# to a folder, and asks all_so at its end. What is printed as JSON is kept in
# /run/capadm-json, for who has a parser.

: "${tmp:?}"
bad=0

kept=/run/capadm-json
mkdir -p "$kept"

no() {
	bad=$((bad + 1))
	echo "not so: $*"
	head -n "${shown:-999}" "$tmp/out" "$tmp/err" | sed 's/^/    /'
}

# run STATUS COMMAND...: an error is one line and nothing else, success is silent
# on stderr.  With $loose set it only fits 100 columns, but for commands and JSON: what
# looks and answers by its exit status may print anything.
run() {
	want=$1
	shift
	rc=0
	"$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
	[ "$rc" -eq "$want" ] || no "$*: exit status $want (is $rc)"
	if [ -n "${loose:-}" ]; then
		awk 'length > 100 && !/next: |^ *[{"]/ { exit 1 }' "$tmp/out" || no "$*: fits 100 columns"
		return
	fi
	if [ "$want" -eq 0 ]; then
		[ -s "$tmp/out" ] || no "$*: it prints something"
		[ ! -s "$tmp/err" ] || no "$*: no errors"
	else
		[ ! -s "$tmp/out" ] || no "$*: prints nothing when it fails"
		[ "$(wc -l <"$tmp/err")" -eq 1 ] || no "$*: its error is one line"
	fi
}

has() {
	grep -Eq -- "$1" "$tmp/out" || no "the output has: $1"
}

lacks() {
	! grep -Eq -- "$1" "$tmp/out" || no "the output lacks: $1"
}

complains() {
	[ "$(wc -l <"$tmp/err")" -eq 1 ] || no "the error is one line"
	grep -Eq -- "$1" "$tmp/err" || no "the error has: $1"
}

fits() {
	awk 'length > 100 { exit 1 }' "$tmp/out" || no "it fits 100 columns"
}

table() {
	run 0 capadm "$@"
	fits
}

# Braces and quotes outside of strings balance: as much of a parser as there is.
json() {
	key=$1
	shift
	run 0 capadm --json "$@"
	balanced "$tmp/out" || no "$*: JSON is balanced"
	has '"schema": 1'
	has "\"$key\": *[[{]"
	keep "$tmp/out" "$key"
}

# keep FILE WHAT
keep() {
	kept_n=$((${kept_n:-0} + 1))
	cp "$1" "$kept/${0##*/}-$kept_n-$2.json"
}

# An error as JSON: of run, with its exit status.
json_error() {
	run "$1" capadm --json "$2" "$3"
	balanced "$tmp/err" || no "an error is JSON"
	keep "$tmp/err" error
}

balanced() {
	awk '{
		gsub(/\\./, "")
		gsub(/"[^"]*"/, "")
		if (/"/)
			exit 1
		opened += gsub(/[{[]/, "")
		closed += gsub(/[]}]/, "")
	}
	END { exit !(opened && opened == closed) }' "$1"
}

as_nobody() {
	want=$1
	shift
	run "$want" su -s /bin/sh -c "exec /usr/sbin/capadm $*" nobody
}

# soon N COMMAND...: it is tried so often, ten times a second, until it succeeds
soon() {
	tries=$1
	shift
	until "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		usleep 100000
	done
}

unloaded() {
	rmmod capkm 2>/dev/null
}

# Starts "client $1", which prints ids when it is ready: $held has that line.
hold() {
	/selftests/programs/client "$1" >"$tmp/held" &
	# shellcheck disable=SC2034 # the caller kills it
	holder=$!
	soon 200 test -s "$tmp/held" || exit 1
}

all_so() {
	[ "$bad" -eq 0 ]
}
