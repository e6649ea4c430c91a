#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C90: a module that nobody had signed, under Secure Boot: "Key was rejected by service",
# and a container that was started again and again. In a machine of its own, since a
# kernel that is locked down stays so. doctor says what it is, without the kernel's log;
# and the module needs no symbol of another one that is not the kernel's.

lockdown=/sys/kernel/security/lockdown
tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"; echo "$passed $failed 0" >/run/counts' EXIT
passed=0
failed=1

# shellcheck source=/dev/null
. /selftests/capadm_lib.sh

mount -t securityfs none /sys/kernel/security || exit
[ -w "$lockdown" ] || {
	echo "this kernel cannot be locked down"
	exit 1
}
[ -z "$(sed -n 's,^extra/capkm.ko:,,p' /lib/modules/*/modules.dep | tr -d ' ')" ] ||
	no "it needs no other module"

rmmod capkm || exit
echo >/run/unloaded
capadm doctor >"$tmp/out" 2>"$tmp/err" && no "without the module doctor finds something"
has '^wrong +module +capkm is installed .* and not$'
lacks 'signed'

echo integrity >"$lockdown" || exit
rc=0
modprobe capkm >"$tmp/out" 2>&1 || rc=$?
[ "$rc" -ne 0 ] || no "a kernel that is locked down loads no module that is not signed"
grep -q '^capkm ' /proc/modules && no "it is not loaded"

capadm doctor >"$tmp/out" 2>"$tmp/err" && no "doctor finds it"
has '^wrong +module +/lib/modules/.*/extra/capkm.ko is not signed, and this kernel$'
has 'loads signed modules only .lockdown.'
has 'next: .*/sign-file sha256 KEY CERTIFICATE'
capadm health >"$tmp/out" 2>"$tmp/err" && no "there is no authority"
has '^no authority: the capkm module is not loaded$'

# Signed, as far as that can be seen: then it is the key.
file=$(find /lib/modules -name capkm.ko)
cp "$file" "$tmp/capkm.ko"
printf '~Module signature appended~\n' >>"$file"
modprobe capkm >"$tmp/out" 2>&1 && no "nor one whose key nobody knows"
capadm doctor >"$tmp/out" 2>"$tmp/err" && no "doctor finds that, too"
has 'the firmware has not been told of the'
has 'mokutil --import'
cp "$tmp/capkm.ko" "$file"

all_so && passed=1 failed=0
[ "$failed" -eq 0 ]
