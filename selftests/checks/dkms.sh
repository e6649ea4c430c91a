#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# dkms.conf does what DKMS will do with it: a copy of the sources, its MAKE line
# there, for the newest kernel that has headers here.

set -eu
shopt -s nullglob
cd "$(dirname "$0")/../.."
headers=(/lib/modules/*/build/Makefile)
[ ${#headers[@]} -gt 0 ] || exit 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# what DKMS has set when it reads the file
# shellcheck disable=SC2034
{
	dkms_tree=$tmp
	kernel_source_dir=$(printf '%s\n' "${headers[@]%/Makefile}" | sort -V | tail -n 1)
}
. ./dkms.conf
build=$tmp/$PACKAGE_NAME/$PACKAGE_VERSION/build
mkdir -p "$build"
scripts/files | cpio --quiet -pdm "$build"
eval "${MAKE[0]}"
[ "$(modinfo -F name "$build/${BUILT_MODULE_NAME[0]}.ko")" = capkm ]

for k in 6.1.0-57-cloud-amd64 6.12.1 7.3.0; do
	[[ $k =~ $BUILD_EXCLUSIVE_KERNEL ]] || { echo "$k is left out"; exit 1; }
done
for k in 5.10.0 6.0.1 8.1.0; do
	[[ ! $k =~ $BUILD_EXCLUSIVE_KERNEL ]] || { echo "$k is not left out"; exit 1; }
done
