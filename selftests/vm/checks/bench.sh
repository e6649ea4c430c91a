#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capkm-bench measures each group through the module, too, with its null ioctl, and with
# processes. How long anything takes here says nothing of a machine.

[ -x /usr/bin/capkm-bench ] || exit 4
capkm-bench --quick --transport all >/tmp/bench || {
	cat /tmp/bench
	exit 1
}
cat /tmp/bench
grep -q '^null ioctl: an unknown number on /dev/capkm$' /tmp/bench || exit 1
for operation in 'scope ' 'check ' 'skip ' 'write stale bytes ' 'scope over two ' \
	'rewrite and fail one ' 'close ' 'begin and end ' 'scopes of threads ' \
	'scopes of processes ' 'a buffer '; do
	grep -q "^$operation .* ioctl " /tmp/bench || {
		echo "nothing through the module of: $operation"
		exit 1
	}
done
