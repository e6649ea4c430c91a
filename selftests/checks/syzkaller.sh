#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Documentation/syzkaller/dev_capkm.txt describes the header as it is: each ioctl, member,
# flag and value.

set -o pipefail
cd "$(dirname "$0")/../.." || exit
scripts/syzkaller | diff Documentation/syzkaller/dev_capkm.txt -
