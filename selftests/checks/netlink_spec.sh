#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Documentation/netlink/specs/capkm.yaml says what the header and the module do:
# names, numbers, operations, policies, records.

cd "$(dirname "$0")/../.." || exit
scripts/netlink-spec check
