#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm(8) has a section for each command of capadm's table, with the arguments and
# options that it takes there, and nothing else; the options that all take are in OPTIONS.

set -u
cd "$(dirname "$0")/../.." || exit
O=$(realpath -m "${O:-build}")
capadm=$O/tools/capadm
page=Documentation/man/capadm.8
everywhere=$(printf '%s\n' --json --bytes --help --version)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

[ -x "$capadm" ] || {
	echo "no $capadm; make tools builds it"
	exit 4
}

# "command<TAB>name args" and "option<TAB>name<TAB>--option VALUE" lines, of both.
"$capadm" commands | awk -F '\t' -v everywhere="$everywhere" '
	BEGIN {
		n = split(everywhere, all, "\n")
		for (i = 1; i <= n; i++)
			common[all[i]]
	}
	$1 == "command" { print "command\t" $2 ($3 == "" ? "" : " " $3) }
	$1 == "option" && $3 in common { print "option\t\t" $3 }
	$1 == "option" && !($3 in common) { print "option\t" $2 "\t" $3 }
' | sort -u >"$tmp/table"

sed 's/\\-/-/g; s/\\fR//g' "$page" | awk '
	/^\.SH / { part = $2; name = "" }
	part != "COMMANDS" && part != "OPTIONS" { next }
	/^\.SS / {
		sub(/^\.SS /, "")
		print "command\t" $0
		name = $0
		sub(/ [^a-z].*/, "", name)
		next
	}
	heading && /^\.BI? / {
		text = $0
		gsub(/^\.B[IR]? |"/, "", text)
		sub(/ , .*/, "", text)
		gsub(/  +/, " ", text)
		if (text ~ /^--/)
			print "option\t" name "\t" text
	}
	heading && /^\.BR --/ { print "option\t" name "\t" $2 }
	{ heading = /^\.TP/ }
' | sort -u >"$tmp/page"

diff -u --label "$capadm" --label "$page" "$tmp/table" "$tmp/page" || exit
echo "ok: $(wc -l <"$tmp/page") commands and options"
