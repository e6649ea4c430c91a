#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# DKMS needs the version spelt out; it is the one of the VERSION file.

cd "$(dirname "$0")/../.." || exit
grep -Fx "PACKAGE_VERSION=\"$(cat VERSION)\"" dkms.conf
