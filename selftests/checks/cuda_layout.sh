#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The driver's binary interface in lib/cuda/driver.h is that of CUDA's own headers, where
# there are any (CUDA_HOME, or in /usr/local/cuda*).

cd "$(dirname "$0")/../.." || exit

for dir in "${CUDA_HOME:-/nonexistent}" /usr/local/cuda*; do
	if [ -e "$dir/include/cudaTypedefs.h" ]; then
		exec "${CC:-gcc}" -fsyntax-only -Wall -Werror -I"$dir/include" -Ilib/cuda \
			selftests/checks/cuda_layout.c
	fi
done
echo "no headers of CUDA here"
exit 4
