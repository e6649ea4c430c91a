#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The documents say what there is: each call is in the manual, with each errno that
# the header names for it, and in a test; each limit, event and name of the ABI is in
# the manual; each name in a page is in a header, each command of capadm is one, what is
# linked to exists, the pages parse, the pages on the design name each file of the engine
# and no test that there is not, and the programs of the README and of the page on memory
# compile (and print what is shown, if the library has been built). That the pages parse is
# left out where python3-docutils or, for the manual pages, man is not installed.

set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit
O=$(realpath -m "${O:-build}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

uapi=include/uapi/linux/capkm.h
manual=Documentation/userspace-api/capkm.rst
guide=Documentation/admin-guide/authority.rst
headers=("$uapi" include/uapi/linux/capkm_netlink.h lib/include/capkm/*.h)
pages=(README.md Documentation/*/*.rst Documentation/*/*.md)
failed=0

wrong() {
	echo "$*"
	failed=1
}

names() {
	grep -ohE '\bCAPKM_[A-Z0-9_]+' "$@" | sort -u
}

# What is built of the enum of numbers, in the engine's table and with a struct of
# its own, is the same; each has a section of the manual, a row in its table of all
# calls, and a test.
nrs=$(sed -n '/^enum capkm_nr/,/reserved:/s/^\tCAPKM_NR_\([A-Z_]*\)[ \t]*= \(0x..\),/\1 \2/p' "$uapi")
calls=${nrs// 0x??/}
[ -n "$calls" ] || wrong "$uapi defines no call"
same() {
	[ "$(sort <<<"$2")" = "$(sort <<<"$calls")" ] ||
		wrong "$1 and enum capkm_nr differ in $(sort <<<"$2"$'\n'"$calls" | uniq -u | tr '\n' ' ')"
}
same "the ioctls of $uapi" "$(sed -n 's/^#define CAPKM_IOC_\([A-Z_]*\).*/\1/p' "$uapi")"
same kmod/engine/ops.h "$(sed -n 's/^\tOP(\([A-Z_]*\),.*/\1/p' kmod/engine/ops.h)"
same "$manual" "$(sed -n 's/^CAPKM_IOC_\([A-Z_]*\)$/\1/p' "$manual")"
while read -r call nr; do
	grep -qE "^$nr +$call +" "$manual" || wrong "$manual's table of all calls lacks $nr $call"
	grep -qE "CAPKM_(IOC|NR)_$call\b" selftests/*.[ch] ||
		wrong "no test in selftests/ calls CAPKM_IOC_$call"
done <<<"$nrs"

# Each name of the ABI is in the manual, but for sums of flags and the numbers.
names "$uapi" | grep -vE '^CAPKM_NR_|_ALL$|_$' | while read -r name; do
	grep -qw "$name" "$manual" || echo "$name"
done >"$tmp/unsaid"
while read -r name; do
	wrong "$manual does not say what $name is"
done <"$tmp/unsaid"

# Each errno that the header names for a call is in the table of its section, and
# each in a table is one that the header knows. A call without a table says so.
sed -n 's/^ \*  - \(E[A-Z0-9]*\):.*/\1/p' "$uapi" >"$tmp/errnos"
echo EAGAIN >>"$tmp/errnos"	# of read()
awk '
	FNR == NR { errno[$1]; next }
	/^\/\*\*/ { section = "" }
	/^ \* struct capkm_event -/ { section = "read()" }
	match($0, /ioctl\(CAPKM_IOC_[A-Z_]*/) {
		section = substr($0, RSTART + 6, RLENGTH - 6)
	}
	/^ \*\// { section = "" }
	section {
		gsub(/[^A-Z0-9]/, " ")
		for (i = 1; i <= NF; i++)
			if ($i in errno)
				print section, $i
	}
' "$tmp/errnos" "$uapi" | sort -u >"$tmp/named"
awk '
	/^----*$/ || /^====*$/ { section = last }
	/^errno +when$/ { bars = 1 }
	/^=+  =+$/ && bars { bars = (bars + 1) % 3 }
	bars == 2 && /^``/ {
		sub(/  .*/, "")
		gsub(/[`,]/, "")
		for (i = 1; i <= NF; i++)
			print section, $i
	}
	/^Errors: none of its own\.$/ { print section, "none" }
	{ last = $1 }
' "$manual" | sort -u >"$tmp/said"
comm -23 "$tmp/named" "$tmp/said" | while read -r call errno; do
	echo "the table of $call lacks $errno"
done >"$tmp/lacks"
for call in $calls; do
	grep -q "^CAPKM_IOC_$call " "$tmp/said" || echo "CAPKM_IOC_$call has no table of errors"
done >>"$tmp/lacks"
grep '^CAPKM_IOC_' "$tmp/said" | while read -r call errno; do
	[ "$errno" = none ] || grep -qx "$errno" "$tmp/errnos" ||
		echo "$call has $errno, which $uapi does not know"
done >>"$tmp/lacks"
while read -r what; do
	wrong "$manual: $what"
done <"$tmp/lacks"

# Each limit has a row with its parameter and its default, each event one too.
limits=$(sed -n '/^enum capkm_limit /,/^}/s/^\tCAPKM_LIMIT_\([A-Z_]*\)[ \t]*= [0-9]*,/\1/p' "$uapi" |
	grep -vx NONE)
[ -n "$limits" ] || wrong "$uapi defines no limit"
for limit in $limits; do
	grep -qE "^LIMIT\\(${limit,,}, $limit," kmod/main.c ||
		wrong "kmod/main.c has no parameter for CAPKM_LIMIT_$limit"
	value=$(sed -n "s/^\t\[CAPKM_LIMIT_$limit\][ \t]*= \([0-9A-Z_]*\),/\1/p" kmod/engine/limit.c)
	[ "$value" != U64_MAX ] || value=none
	for page in "$manual:\`\`CAPKM_LIMIT_$limit\`\`  *" "$guide:"; do
		grep -qE "^${page#*:}\`\`max_${limit,,}\`\` +$value  " "${page%%:*}" ||
			wrong "${page%%:*} has no row on max_${limit,,}, $value (CAPKM_LIMIT_$limit)"
	done
done
events=$(sed -n 's/^\t\(CAPKM_EVENT_[A-Z_]*\)[ \t]*= [0-9]*,/\1/p' "$uapi")
[ -n "$events" ] || wrong "$uapi defines no event"
for event in $events; do
	grep -q "^\`\`$event\`\`  " "$manual" || wrong "$manual has no row on $event"
done

# Each kind and state has a name for who traces.
names=$(sed -n -e '/^enum capkm_kind /,/^}/s/^\t\(CAPKM_[A-Z_]*\)[ \t]*=.*/\1/p' \
	-e '/^enum capkm_window_state /,/^}/s/^\t\(CAPKM_[A-Z_]*\)[ \t]*=.*/\1/p' "$uapi")
[ -n "$names" ] || wrong "$uapi defines no kind and no state"
for name in $names; do
	grep -qE "\<EMe?\($name," kmod/trace.h || wrong "kmod/trace.h has no name for $name"
done

# Each name of the pages is in a header; one that ends in _ stands for those that
# begin so.
names "${headers[@]}" >"$tmp/known"
names "${pages[@]}" | while read -r name; do
	case $name in
	CAPKM_DEVICE | CAPKM_TEST_*) ;;	# of the environment
	*_) grep -q "^$name" "$tmp/known" || echo "$name" ;;
	*) grep -qx "$name" "$tmp/known" || echo "$name" ;;
	esac
done >"$tmp/unknown"
while read -r name; do
	wrong "$name is in no header, but in $(grep -lw "$name" "${pages[@]}" | tr '\n' ' ')"
done <"$tmp/unknown"

# Each member of a struct and each flag stands in the section of its ioctl.
awk '
	FNR == NR {
		if (/^CAPKM_IOC_[A-Z_]*$/)
			section = $0
		said[section] = said[section] " " $0
		next
	}
	/^struct capkm_/ { n = 0 }
	/^\t(__|struct )[a-z0-9_ ]* [a-z_]+(\[[0-9]+\])?;$/ {
		name = $NF
		gsub(/\[.*|;/, "", name)
		member[++n] = name
	}
	/^#define CAPKM_[A-Z_]*_F_/ && $2 !~ /_ALL$/ { member[++n] = $2 }
	/^#define CAPKM_IOC_/ {
		text = said[$2]
		for (i = 1; i <= n; i++)
			if (member[i] !~ /^(size|flags|__reserved)$/ &&
			    index(text, "``" member[i] "``") == 0)
				print $2 ": " member[i]
	}
' "$manual" "$uapi" >"$tmp/members"
while read -r member; do
	wrong "$manual does not say what this is: $member"
done <"$tmp/members"

# What a page has somebody call is a command of capadm, with options that it takes.
capadm=$O/tools/capadm
if [ -x "$capadm" ]; then
	# shellcheck disable=SC2016 # as the pages have it
	cat Documentation/admin-guide/*.rst | tr '\n' ' ' | grep -oE '``capadm [^`]*``' | tr -d '`' |
		sort -u >"$tmp/called"
	[ -s "$tmp/called" ] || wrong "no page calls capadm"
	while read -r _ words; do
		# shellcheck disable=SC2086 # words
		"$capadm" $words --help >/dev/null 2>"$tmp/said" ||
			wrong "a page has: capadm $words, but: $(cat "$tmp/said")"
	done <"$tmp/called"
fi

# What the README links to, and the commands that it is about.
grep -oE '\]\([A-Za-z][^):]*\)' README.md | tr -d ']()' | while read -r link; do
	[ -e "$link" ] || echo "$link"
done >"$tmp/links"
while read -r link; do
	wrong "README.md links to $link, which is not there"
done <"$tmp/links"
for command in 'make demo' 'make check' 'make example'; do
	grep -q "^    $command\b" README.md || wrong "README.md does not show $command"
done

for rst2html in "$(command -v rst2html)" "$(command -v rst2html.py)"; do
	[ -z "$rst2html" ] || break
done
if [ -n "$rst2html" ]; then
	for page in Documentation/*/*.rst; do
		"$rst2html" --report=1 --exit-status=2 --halt=5 "$page" >/dev/null || wrong "$page does not parse"
	done
fi

if man --version >/dev/null 2>&1; then
	for page in Documentation/man/*.[1-9]; do
		said=$(LC_ALL=C man -l --warnings -E UTF-8 -Tutf8 -Z "$page" 2>&1 >/dev/null)
		[ -z "$said" ] || wrong "$page does not parse: $said"
	done
fi

for file in kmod/engine/*.c; do
	grep -qF "\`\`${file##*/}\`\`" Documentation/design/overview.rst ||
		wrong "Documentation/design/overview.rst does not name $file"
done

# The page on security names the test that shows it: program.test, or a script.
security=Documentation/design/security.rst
# shellcheck disable=SC2016 # no expansion
grep -oE '`[a-z_]+\.[a-z_0-9]+`' "$security" | tr -d '`' | sort -u >"$tmp/tests"
[ -s "$tmp/tests" ] || wrong "$security names no test"
while IFS=. read -r program test; do
	grep -qE "^TEST(_F|_F_TIMEOUT)?\((.*, )?${test}[,)]" "selftests/$program.c" ||
		wrong "$security names $program.$test, which is no test"
done <"$tmp/tests"
grep -oE 'checks/[a-z_]+\.sh' "$security" | sort -u >"$tmp/scripts"
while read -r script; do
	[ -e "selftests/vm/$script" ] || wrong "$security names $script, which is no script"
done <"$tmp/scripts"

# program NAME PAGE [ARCHIVE LIBS...]: $tmp/NAME.c, which the page has, becomes $tmp/NAME.
flags=(-std=gnu11 -Wall -Wextra -Werror -Iinclude/uapi -Ilib/include)
program() {
	if [ ! -s "$tmp/$1.c" ]; then
		wrong "$2 has no program"
	elif ! "${CC:-gcc}" "${flags[@]}" -c -o "$tmp/$1.o" "$tmp/$1.c"; then
		wrong "$2's program does not compile"
	elif [ -e "$O/lib/libcapkm.a" ]; then
		"${CC:-gcc}" -o "$tmp/$1" "$tmp/$1.o" "${@:3:1}" "$O/lib/libcapkm.a" "${@:4}" -lpthread && return 0
		wrong "$2's program does not link"
	fi
	return 1
}

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$tmp/taste.c"
if program taste README.md; then
	# What is shown but for who it was.
	who='s/(taste\[[0-9]*\] uid [0-9]*,/(/'
	CAPKM_DEVICE=embedded: "$tmp/taste" | sed "$who" >"$tmp/printed"
	grep '^read: ' README.md | sed "$who" | cmp -s "$tmp/printed" - ||
		wrong "README.md's program prints: $(cat "$tmp/printed")"
fi

# prints NAME PAGE [...]: the first program of a page, and what it is said to print.
prints() {
	awk '/^\t#include/ { on = 1 } /^[^\t]/ && on { exit } on { sub("^\t", ""); print }' "$2" >"$tmp/$1.c"
	program "$@" || return
	"$tmp/$1" >"$tmp/printed"
	awk '/^It prints::/ { on = 1; next } /^[^\t]/ && on { exit } on && /./ { sub("^\t", ""); print }' "$2" |
		cmp -s "$tmp/printed" - || wrong "$2's program prints: $(cat "$tmp/printed")"
}
prints memory Documentation/userspace-api/memory.rst
prints observe Documentation/userspace-api/observe.rst "$O/lib/libcapkm-observe.a" -ljson-c -lmd -lm
exit $failed
