#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The project stands alone: no file names a path of some developer's machine.
# (The brackets keep this file out of its own net.)

cd "$(dirname "$0")/../.." || exit
! scripts/files | xargs grep -n -e '/wor[k]/' -e '\.\./share[d]' -e '/hom[e]/'
