#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Build a kernel that looks at itself, once, into the cache; print its folder.
#
#   debug.sh uml       User-mode Linux: a kernel that is a process of this machine
#
# Out of Debian's linux-source package: all that Kconfig can leave out, plus debug.config,
# plus what the machine needs.  The folder has kernel and, for modules,
# lib/modules/<release>/build.

set -euo pipefail
shopt -s nullglob

here=$(dirname "$(realpath "$0")")
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/capkm
package=linux-source-6.1
export CC=${CC:-gcc}

die() {
	echo "debug.sh: $*" >&2
	exit 1
}

[ $# -eq 1 ] || die "one machine, please"
machine=$1
case $machine in
uml) arch=um image=vmlinux ;;
--help) sed -n '/^#   debug/,/^$/s/^# \{0,1\}//p' "$0"; exit ;;
*) die "unknown machine $machine" ;;
esac

configure() {
	local line lost=''
	case $machine in
	uml)
		# Preemption is not for it, counting it is, for DEBUG_ATOMIC_SLEEP;
		# nothing in it asks for the notifiers that the module uses.
		sed -i 's/select ARCH_NO_PREEMPT/select MMU_NOTIFIER/' arch/um/Kconfig
		grep -q 'select MMU_NOTIFIER' arch/um/Kconfig
		# Registers are given back whole or not at all: on a CPU with AMX they are
		# more than it knows.  What it does not know nobody in it can use.
		sed -i '/^int restore_fp_registers/,/^}/ {
			s/^{/{\n\tstatic unsigned long all[2048];\n/
			s/iov.iov_base = fp_regs;/__builtin_memcpy(all, fp_regs, FP_SIZE * sizeof(*all));\n\t\tiov.iov_base = all;/
			s/iov.iov_len = .*/iov.iov_len = sizeof(all);/
		}' arch/x86/um/os-Linux/registers.c
		grep -q 'iov_len = sizeof(all)' arch/x86/um/os-Linux/registers.c
		# A child walks its mappings without their lock, and before it may sleep.
		sed -i '/^void force_flush_all/,/^}/ {
			s/^\tfor_each_vma/\tmmap_read_lock(mm);\n&/
			s/^}/\tmmap_read_unlock(mm);\n}/
		}' arch/um/kernel/tlb.c
		grep -q 'mmap_read_lock(mm)' arch/um/kernel/tlb.c
		sed -i -e '/^\tforce_flush_all();/d' \
			-e 's/^\tschedule_tail(.*/&\n\tforce_flush_all();/' arch/um/kernel/process.c
		grep -q '^	force_flush_all();' arch/um/kernel/process.c
		;;
	esac
	cat "$here/debug.config" "$here/$machine.config" >wanted
	make -s KCONFIG_ALLCONFIG=wanted allnoconfig
	while read -r line; do
		[[ $line != CONFIG_* ]] || grep -qxF "$line" .config || lost+=" $line"
	done <wanted
	[ -z "$lost" ] || die "Kconfig does not give$lost"
}

# What a module is built with, without the sources and objects of the kernel.
prune() {
	find . -type f ! -path './scripts/*' ! -path './include/*' ! -path './arch/*/include/*' \
		! -path './arch/x86/um/*' ! -name 'Makefile*' ! -name 'Kbuild*' \
		! -name 'Kconfig*' ! -path ./.config ! -path ./Module.symvers \
		! -path './arch/*.lds' ! -path ./tools/objtool/objtool -delete
	find . \( -name '*.o' -o -name '.*.cmd' \) ! -path './scripts/*' -delete
	find . -type d -empty -delete
	# With W=1 gcc warns of a folder for headers that is not there.
	mkdir -p "arch/$arch/include/generated/uapi"
	# UBSan is not for all of this architecture's kernel: for the module it is.
	printf '%s\n' "export ARCH := $arch" 'export UBSAN_SANITIZE := y' \
		'include Makefile' >GNUmakefile
}

build() {
	local release
	tar --strip-components=1 -xJf "/usr/src/$package.tar.xz"
	configure
	make -s -j"$(nproc)" all
	release=$(make -s kernelrelease)
	mkdir -p "$new/lib/modules/$release"
	mv "$image" "$new/kernel"
	mv modules.order modules.builtin modules.builtin.modinfo "$new/lib/modules/$release/"
	prune
	cd "$new"
	mv build "lib/modules/$release/build"
}

hash=$({
	dpkg-query -W -f='${Version}\n' "$package"
	"$CC" --version
	cat "$here"/{debug.config,"$machine.config"}
	declare -f configure prune build
} | sha256sum | cut -c1-16)
dir=$cache/debug-$machine-$hash
if [ -d "$dir" ]; then
	echo "$dir"
	exit
fi

mkdir -p "$cache"
new=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
mkdir "$new/build"
# A subshell as a condition would not stop at what fails.
(
	cd "$new/build"
	export ARCH=$arch
	unset MAKEFLAGS MFLAGS MAKELEVEL O W C
	build
) >"$new/log" 2>&1 </dev/null &
if ! wait $!; then
	tail -n 30 "$new/log" >&2
	die "no kernel"
fi
# Two of us may have met here; the first one wins.
mv -T "$new" "$dir" 2>/dev/null || [ -d "$dir" ]
echo "$dir"
