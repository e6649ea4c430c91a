#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The example for authors of runtimes says of itself that all is well when the
# module is its authority.

[ -x /usr/bin/transformer ] || exit 4
CAPKM_DEVICE=/dev/capkm transformer --rounds 1 >/tmp/example || {
	cat /tmp/example
	exit 1
}
cat /tmp/example
grep -q 'the authority is the kernel module' /tmp/example
