#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The tracepoints and their fields are those of the page on them, no more and no less.
# A section of it has one or more rows ``capkm_...``, and then "Fields:" and a paragraph.

page=/selftests/tracing.rst
events=/sys/kernel/tracing/events/capkm
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT

[ -d "$events" ] || exit 4

awk '
	/^Fields: / { fields = 1 }
	/^$/ && fields {
		for (i = 1; i <= n; i++)
			print name[i] said
		n = fields = 0
		said = ""
	}
	/^``capkm_[a-z_]*``  / {
		gsub("`", "", $1)
		name[++n] = $1
	}
	fields {
		while (match($0, /``[a-z_]*``/)) {
			said = said " " substr($0, RSTART + 2, RLENGTH - 4)
			$0 = substr($0, RSTART + RLENGTH)
		}
	}
' "$page" | sort >"$tmp/said"

for dir in "$events"/*/; do
	awk '
		/^name: / { line = $2 }
		/^\tfield:/ && !/ common_/ {
			gsub(/;.*|\[.*/, "")
			line = line " " $NF
		}
		END { print line }
	' "$dir/format"
done | sort >"$tmp/is"

[ -s "$tmp/is" ] && diff "$tmp/said" "$tmp/is"
