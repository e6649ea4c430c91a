#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The documents say what there is: each ioctl is in the manual and in a test,
# each name in a page is in a header, what is linked to exists, the pages parse,
# the pages on the design name each file of the engine, and the README's program
# compiles (and runs, if the library has been built). That the pages parse is left
# out where python3-docutils or, for the manual pages, man is not installed.

set -u
shopt -s nullglob
cd "$(dirname "$0")/../.." || exit
O=$(realpath -m "${O:-build}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

uapi=include/uapi/linux/capkm.h
manual=Documentation/userspace-api/capkm.rst
headers=("$uapi" include/uapi/linux/capkm_netlink.h lib/include/capkm/capkm.h)
pages=(README.md Documentation/*/*.rst Documentation/*/*.md)
failed=0

wrong() {
	echo "$*"
	failed=1
}

names() {
	grep -ohE '\bCAPKM_[A-Z0-9_]+' "$@" | sort -u
}

# Each ioctl of the header: a heading of the manual, and a test.
calls=$(sed -n 's/^#define CAPKM_IOC_\([A-Z_]*\).*/\1/p' "$uapi")
[ -n "$calls" ] || wrong "$uapi defines no ioctl"
for call in $calls; do
	grep -qx "CAPKM_IOC_$call" "$manual" || wrong "$manual has no section on CAPKM_IOC_$call"
	grep -qE "CAPKM_(IOC|NR)_$call\b" selftests/*.[ch] ||
		wrong "no test in selftests/ calls CAPKM_IOC_$call"
done

# Each name of the pages is in a header; one that ends in _ stands for those that
# begin so.
names "${headers[@]}" >"$tmp/known"
names "${pages[@]}" | while read -r name; do
	case $name in
	CAPKM_DEVICE) ;;	# of the environment
	*_) grep -q "^$name" "$tmp/known" || echo "$name" ;;
	*) grep -qx "$name" "$tmp/known" || echo "$name" ;;
	esac
done >"$tmp/unknown"
while read -r name; do
	wrong "$name is in no header, but in $(grep -lw "$name" "${pages[@]}" | tr '\n' ' ')"
done <"$tmp/unknown"

# Each member of a struct stands in the section of its ioctl.
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

# What the README links to, and the two commands that it is about.
grep -oE '\]\([A-Za-z][^):]*\)' README.md | tr -d ']()' | while read -r link; do
	[ -e "$link" ] || echo "$link"
done >"$tmp/links"
while read -r link; do
	wrong "README.md links to $link, which is not there"
done <"$tmp/links"
for command in 'make demo' 'make check'; do
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

awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md >"$tmp/readme.c"
flags=(-std=gnu11 -Wall -Wextra -Werror -Iinclude/uapi -Ilib/include)
if [ ! -s "$tmp/readme.c" ]; then
	wrong "README.md has no program"
elif ! "${CC:-gcc}" "${flags[@]}" -c -o "$tmp/readme.o" "$tmp/readme.c"; then
	wrong "README.md's program does not compile"
elif [ -e "$O/lib/libcapkm.a" ]; then
	"${CC:-gcc}" -o "$tmp/taste" "$tmp/readme.o" "$O/lib/libcapkm.a" -lpthread ||
		wrong "README.md's program does not link"
	# What is shown but for who it was.
	who='s/(taste\[[0-9]*\] uid [0-9]*,/(/'
	CAPKM_DEVICE=embedded: "$tmp/taste" | sed "$who" >"$tmp/printed"
	grep '^read: ' README.md | sed "$who" | cmp -s "$tmp/printed" - ||
		wrong "README.md's program prints: $(cat "$tmp/printed")"
fi
exit $failed
