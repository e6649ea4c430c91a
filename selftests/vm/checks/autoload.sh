#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Who asks for the netlink family gets the module, also without privilege, and finds
# it as it is after a load.

helper=/proc/sys/kernel/modprobe
old=$(cat "$helper") || exit
# The name alone is what the shell finds, which has it built in.
echo "/bin/modprobe" >"$helper" || exit
bad=0

rmmod capkm || bad=1
su -s /bin/sh -c 'exec /usr/sbin/capadm domains' nobody || bad=1
grep -q '^capkm ' /proc/modules || bad=1

echo "$old" >"$helper"
grep -q '^capkm ' /proc/modules || modprobe capkm
[ "$bad" -eq 0 ]
