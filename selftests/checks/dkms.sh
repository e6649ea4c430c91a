#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# DKMS itself, with the commands of install.rst: capkm is added, built, signed and installed
# for two kernels that have headers here, left out for those that it is not for, and removed.
# A build that fails leaves what was installed, and says where its log is.  All of that
# happens in layers over DKMS's folders, which only this script sees.

set -eu
shopt -s nullglob
cd "$(dirname "$0")/../.."
version=$(cat VERSION)

command -v dkms >/dev/null || { echo "no dkms"; exit 4; }
headers=(/lib/modules/*/build/Makefile)
[ ${#headers[@]} -gt 0 ] || { echo "no kernel headers"; exit 4; }
mapfile -t releases < <(printf '%s\n' "${headers[@]}" | cut -d/ -f4 | sort -V | sed -n '1p;$p' | uniq)

if [ -z "${1:-}" ]; then
	tmp=$(mktemp -d)
	trap 'rm -rf "$tmp"' EXIT
	user=
	[ "$(id -u)" -eq 0 ] || user=--map-root-user
	rc=0
	# shellcheck disable=SC2086 # an option, or none
	unshare --mount $user "$0" "$tmp" || rc=$?
	exit $rc
fi

tmp=$1
for dir in /lib/modules /usr/src /var/lib/dkms; do
	mkdir -p "$tmp$dir/upper" "$tmp$dir/work"
	mount -t overlay -o "lowerdir=$dir,upperdir=$tmp$dir/upper,workdir=$tmp$dir/work" overlay "$dir" || {
		echo "no layer over $dir"
		exit 4
	}
done
mount --bind /dev/null /etc/dkms/framework.conf

die() {
	echo "$*"
	cat "$tmp/log"
	exit 1
}

# dkms_says STATUS WORDS COMMAND...: it ends so, and says that
dkms_says() {
	local want=$1 words=$2 rc=0
	shift 2
	dkms "$@" >"$tmp/log" 2>&1 || rc=$?
	[ "$rc" -eq "$want" ] || die "dkms $*: exit status $rc, and not $want"
	grep -q -e "$words" "$tmp/log" || die "dkms $*: does not say '$words'"
}

status_is() {
	dkms status capkm | sort >"$tmp/log"
	printf '%s' "$1" | sort | diff "$tmp/log" - || die "the status is another"
}

# What is behind a module: its signature in DER, how that is coded in 12 bytes, of which the
# last four are its length, and 28 bytes of text.
signature_fits() {
	local size length
	size=$(stat -c %s "$1")
	length=$((16#$(tail -c 32 "$1" | head -c 4 | od -An -tx1 | tr -d ' ')))
	tail -c $((length + 40)) "$1" | head -c "$length" >"$tmp/signature"
	head -c $((size - length - 40)) "$1" >"$tmp/signed"
	openssl x509 -inform DER -in /var/lib/dkms/mok.pub -out "$tmp/mok.pem"
	openssl cms -verify -binary -inform DER -in "$tmp/signature" -content "$tmp/signed" \
		-certfile "$tmp/mok.pem" -nointern -noverify -out /dev/null 2>"$tmp/log"
}

[ ! -e /usr/src/capkm-"$version" ] || { echo "capkm is installed here"; exit 4; }
make -s dkms-install DESTDIR="$tmp/root"
cp -r "$tmp/root/usr/src/." /usr/src
dkms_says 0 "Creating symlink" add "capkm/$version"
status_is "capkm/$version: added
"

installed=
for release in "${releases[@]}"; do
	dkms_says 0 "Signing module" build "capkm/$version" -k "$release"
	dkms_says 0 "Installing to" install "capkm/$version" -k "$release"
	installed+="capkm/$version, $release, x86_64: installed"$'\n'
	modinfo -k "$release" capkm >"$tmp/log"
	grep -qx "version: *$version" "$tmp/log" || die "$release: another version"
	grep -qx "vermagic: *$release .*" "$tmp/log" || die "$release: built for another kernel"
	grep -qx "depends: *" "$tmp/log" || die "$release: it needs another module"
	grep -qx "signer: *DKMS module signing key" "$tmp/log" || die "$release: not signed by DKMS"
	ko=$(modinfo -k "$release" -n capkm)
	signature_fits "$ko" || die "$release: the signature does not fit"
	sed 's/capkm/kcapm/' "$ko" >"$tmp/other.ko"
	! signature_fits "$tmp/other.ko" || die "a signature fits whatever it is behind"
done
status_is "$installed"

# left_out RELEASE REASON
left_out() {
	dkms_says 77 "^capkm: left out for Linux $1: $2\$" build "capkm/$version" -k "$1" \
		--kernelsourcedir "$tmp/headers"
	grep -q BUILD_EXCLUSIVE "$tmp/log" || die "$1 is left out by something else"
}
mkdir -p "$tmp/headers/include"
for release in 5.10.0-9-amd64 6.0.1 8.1.0; do
	left_out $release "it is for Linux 6\.1 to 7\.x"
done
printf '%s\n' CONFIG_64BIT=y CONFIG_MMU=y '# CONFIG_NET is not set' >"$tmp/headers/.config"
left_out 6.12.1 "it has no CONFIG_NET"
echo CONFIG_NET=y >>"$tmp/headers/.config"
for release in 6.1.0-9-amd64 6.12.1 7.3.0; do
	rc=0
	dkms build "capkm/$version" -k $release --kernelsourcedir "$tmp/headers" >"$tmp/log" 2>&1 || rc=$?
	[ $rc -ne 77 ] || die "$release is left out"
	! grep "left out" "$tmp/log" || die "$release is said to be left out"
done
status_is "$installed"

# The next version does not compile.
next=$version.1
cp -r "/usr/src/capkm-$version" "/usr/src/capkm-$next"
sed -i "s/^PACKAGE_VERSION=.*/PACKAGE_VERSION=\"$next\"/" "/usr/src/capkm-$next/dkms.conf"
for f in "/usr/src/capkm-$next"/kmod/*.c; do
	echo '#error "does not compile"' >"$f"
done
log=/var/lib/dkms/capkm/$next/build/make.log
dkms_says 10 "Consult $log for more information" install "capkm/$next" -k "${releases[0]}"
grep -q 'error: #error "does not compile"' "$log"
status_is "capkm/$next: added
$installed"
[ "$(modinfo -k "${releases[0]}" -F version capkm)" = "$version" ]
dkms_says 0 completely remove "capkm/$next" --all

dkms_says 0 completely remove "capkm/$version" --all
status_is ""
find /lib/modules /var/lib/dkms -name '*capkm*' >"$tmp/log"
[ ! -s "$tmp/log" ] || die "something is left"
