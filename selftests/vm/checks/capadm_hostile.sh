#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Names and texts that would harm a terminal, in every command: what reaches it are
# printable characters and ends of lines. "client --hostile" has them.

tmp=$(mktemp -d) || exit
holder=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder"
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh

# printable FILE: nothing else; graphs for Graphviz are indented by tabs
printable() {
	LC_ALL=C tr -d '\t\n -~' <"$1" >"$tmp/rest"
	[ ! -s "$tmp/rest" ]
}

hold --hostile
read -r domain buffer <"$tmp/held"
name=$(printf -- '-\342\200\256\302\2332J\303\251')

for command in status domains sessions 'sessions --clients' windows failures \
	'failures --tree' 'failures --dot' buffers "taint $domain $buffer" graphs ledgers \
	'domain limit' 'top --count 1 --interval 0.1' 'health --failures' doctor \
	'abandon --dry-run --pid 1'; do
	for json in '' --json; do
		[ "$command$json" != 'failures --dot--json' ] || continue
		# shellcheck disable=SC2086 # words
		capadm $json $command >"$tmp/out" 2>"$tmp/err"
		printable "$tmp/out" || no "$command $json prints what is printable"
		[ ! -s "$tmp/err" ] || no "$command $json has no errors"
		[ -z "$json" ] || balanced "$tmp/out" || no "$command: JSON is balanced"
	done
done
table windows -- "$name"
has "^ *$domain/[0-9]+ +capture .* .\\[2J.*x$"
for json in '' --json; do
	capadm $json windows -- "$name$name" >"$tmp/out" 2>"$tmp/err" && no "there is no such domain"
	printable "$tmp/err" || no "an error is printable"
done
run 1 capadm failures -- "$name"x
complains '^capadm: no domain is named -\\xe2\\x80\\xae\\xc2\\x9b2J\\xc3\\xa9x;'
table failures "$domain"
has '^    \\x1b\[31mred\\x0d\\x0a\\x1b\[1A\\xe2\\x81\\xa6\\x5cx41$'
table domains
has ' -\\xe2\\x80[^ ]*\.\.\.$'
json failures failures
has '"text": "\\u001b\[31mred\\r\\n\\u001b\[1A\\u2066\\\\x41"'
json buffers buffers
capadm health --failures "$domain" >"$tmp/out"
has "domain $domain \\(-\\\\xe2\\\\x80\\\\xae"
capadm doctor >"$tmp/out"
has "domain $domain \\(-\\\\xe2\\\\x80\\\\xae"

# In metrics there are letters, and no escapes but those of the format.
capadm metrics >"$tmp/out"
LC_ALL=C tr -d '\n -~' <"$tmp/out" | sed "s/$(printf '\303\251')//g; s/$(printf '\357\277\275')//g" >"$tmp/rest"
[ ! -s "$tmp/rest" ] || no "metrics are harmless"

# Streams that are closed, or full, are an error, and nothing is written elsewhere.
for command in status domains metrics health doctor version 'top --count 1' --help; do
	# shellcheck disable=SC2086 # words
	capadm $command >&- 2>"$tmp/err" && no "$command: a closed stdout is an error"
	# shellcheck disable=SC2086 # words
	capadm --json $command >/dev/full 2>"$tmp/err" && no "$command: a full disk is an error"
done
capadm health "$domain" >&- 2>"$tmp/err"
[ $? -eq 3 ] || no "an answer that cannot be written is none"
# shellcheck disable=SC2188 # no command
capadm domains 2>&- <&- >"$tmp/out" || no "stdin and stderr are not needed"

# What it leaves is not there for who comes next.
table domain rm --force "$domain"

all_so
