#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What capadm lets through to a terminal, in which character set, in which colours and how
# wide, and its exit status where that is not that of others.  It needs no module.

set -u
cd "$(dirname "$0")/../.." || exit
capadm=$(realpath -m "${O:-build}")/tools/capadm
[ -x "$capadm" ] || exit 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

wrong() {
	echo "$*"
	failed=1
}

# shows LOCALE BYTES TEXT: bytes, as printf has them, in an error
shows() {
	local got
	# shellcheck disable=SC2059 # the bytes are a format
	got=$(LC_ALL=$1 "$capadm" "$(printf "x$2")" 2>&1)
	[ "$got" = "capadm: unknown command x$3; see capadm --help" ] ||
		wrong "$1: $2 is shown as $got, and not as $3"
}

utf8=$(locale -a 2>/dev/null | grep -ixE 'c\.utf-?8' | head -n 1)
for locale in C ${utf8:+"$utf8"}; do
	shows "$locale" '\033[2J' '\x1b[2J'
	shows "$locale" '\\x41' '\x5cx41'
	shows "$locale" '\177' '\x7f'
	shows "$locale" '\302\2332J' '\xc2\x9b2J'		# C1
	shows "$locale" '\2332J' '\x9b2J'			# and as one byte
	shows "$locale" '\342\200\216' '\xe2\x80\x8e'		# U+200E
	shows "$locale" '\342\200\250' '\xe2\x80\xa8'		# U+2028
	shows "$locale" '\342\200\256' '\xe2\x80\xae'		# U+202E
	shows "$locale" '\342\201\246' '\xe2\x81\xa6'		# U+2066
	shows "$locale" '\330\234' '\xd8\x9c'			# U+061C
	shows "$locale" '\357\273\277' '\xef\xbb\xbf'		# U+FEFF
	shows "$locale" '\363\240\200\201' '\xf3\xa0\x80\x81'	# U+E0001
	shows "$locale" '\300\257' '\xc0\xaf'			# too long
	shows "$locale" '\340\200\257' '\xe0\x80\xaf'
	shows "$locale" '\355\240\200' '\xed\xa0\x80'		# a surrogate
	shows "$locale" '\364\220\200\200' '\xf4\x90\x80\x80'	# too large
	shows "$locale" '\342\200' '\xe2\x80'			# cut off
	shows "$locale" '\377' '\xff'
done
shows C '\303\251' '\xc3\xa9'
[ -z "$utf8" ] || shows "$utf8" '\303\251\346\274\242' 'é漢'

# In JSON they are escapes; what was meant comes out again.
LC_ALL=C "$capadm" --json "$(printf 'x\033\302\233\342\200\256\303\251\360\237\230\200')" 2>"$tmp/err"
LC_ALL=C grep -q '[^ -~]' "$tmp/err" && wrong "JSON is not ASCII in the locale C"
/usr/bin/python3 - "$tmp/err" <<'EOF' || failed=1
import json
import sys

text = json.load(open(sys.argv[1], encoding="utf-8"))["error"]["message"]
assert "x\033\x9b\u202e\u00e9\U0001f600;" in text, ascii(text)
EOF

# status STATUS COMMAND...
status() {
	local want=$1 rc=0
	shift
	"$@" >/dev/null 2>"$tmp/err" || rc=$?
	[ "$rc" -eq "$want" ] || wrong "$*: exit status $rc, and not $want: $(cat "$tmp/err")"
}

status 2 "$capadm" --frob
status 2 "$capadm" failures x 0X10
status 2 "$capadm" failures x 0x10
status 2 "$capadm" abandon 1/0x1
status 2 "$capadm" taint 1 0X1
status 3 "$capadm" health --frob
status 3 "$capadm" --frob health
status 3 "$capadm" health a b
status 3 "$capadm" health --textfile x
status 0 "$capadm" health --help
# shellcheck disable=SC2016 # not here
status 1 sh -c '"$1" --help >/dev/full' - "$capadm"
# shellcheck disable=SC2016
status 1 sh -c '"$1" --help >&-' - "$capadm"
# shellcheck disable=SC2016
status 3 sh -c '"$1" health --help >/dev/full' - "$capadm"
# shellcheck disable=SC2016
status 0 sh -c '"$1" --help 2>&- <&-' - "$capadm"

# on_terminal COLUMNS COMMAND: what it prints, with ends of lines of ours
on_terminal() {
	TERM=xterm script -qec "stty cols $1; $2" /dev/null </dev/null 2>&1 | tr -d '\r'
}

doctor="'$capadm' doctor"
on_terminal 200 "$doctor" >"$tmp/out"
grep -q "$(printf '\033')\[" "$tmp/out" || wrong "there are no colours on a terminal"
NO_COLOR=1 on_terminal 200 "$doctor" >"$tmp/out"
grep -q "$(printf '\033')" "$tmp/out" && wrong "there are colours in spite of NO_COLOR"
for columns in 200 100 60 50; do
	NO_COLOR=1 on_terminal "$columns" "$doctor" | grep -v ' next: ' |
		awk -v n="$((columns < 100 ? columns : 100))" 'length > n { print; bad = 1 } END { exit bad }' ||
		wrong "lines do not fit $columns columns"
done
"$capadm" doctor | grep -q "$(printf '\033')" && wrong "there are colours without a terminal"
exit $failed
