#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The static checks that take less than a minute; make lint runs all.

cd "$(dirname "$0")/../.." || exit
# shellcheck disable=SC2046 # words
exec scripts/lint $(scripts/lint --quick)
