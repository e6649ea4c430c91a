#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A build with O= and an installation with DESTDIR= write nothing into the source
# tree; what is installed is what is meant to be.  (The module is not built once
# more for this: its objects go where M= says, and that is in O.)

set -e
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir "$tmp/src"
scripts/files | cpio --quiet -pdm "$tmp/src"
cd "$tmp/src"
find . | sort >"$tmp/before"
make -j"$(nproc)" O="$tmp/out" CFLAGS=-O1 lib tools selftests
make O="$tmp/out" CFLAGS=-O1 DESTDIR="$tmp/root" prefix=/usr install
find . | sort | diff "$tmp/before" -

find "$tmp/root" ! -type d
ls "$tmp/root/usr/lib/libcapkm.a" "$tmp/root/usr/lib/libcapkm.so" >/dev/null
ls "$tmp"/root/usr/*bin/capadm "$tmp"/root/usr/*bin/capkm-bench >/dev/null
PKG_CONFIG_PATH=$tmp/root/usr/lib/pkgconfig pkg-config --exact-version="$(cat VERSION)" libcapkm
