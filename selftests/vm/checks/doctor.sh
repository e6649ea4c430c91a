#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm doctor where something is wrong, for real: with the node, with what may open it,
# with the library and with the module.  Each has the next command to run.

tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
file=$(find /lib/modules -name 'capkm.ko*')

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh
# shellcheck disable=SC2034 # capadm_lib.sh looks at them
loose=yes shown=9

# Texts are wrapped.
has() {
	awk '/^                [^ ]/ && !/^ *next: / { sub(/^ +/, " "); printf "%s", $0; next }
		{ printf "%s%s", end, $0; end = "\n" }
		END { print "" }' "$tmp/out" | grep -Eq -- "$1" || no "the output has: $1"
}

# What others have left in domains is not looked at here.
rmmod capkm || no "nobody uses the module"
modprobe capkm
node=$(tr : ' ' </sys/class/misc/capkm/dev)
run 0 capadm doctor
lacks '^(note|wrong)'

# ---- the node

rm /dev/capkm
run 1 capadm doctor
has '^wrong +node +/dev/capkm is not there'
has 'next: mknod -m 666 /dev/capkm c'
run 2 capadm health
has '^no authority'
touch /.dockerenv
run 1 capadm doctor
has 'not given to this container'
has 'next: docker run --device /dev/capkm IMAGE$'
rm /.dockerenv
mkdir -p /run/systemd
echo lxc >/run/systemd/container
run 1 capadm doctor
has 'next: lxc config device add CONTAINER capkm unix-char path=/dev/capkm$'
KUBERNETES_SERVICE_HOST=10.0.0.1 run 1 capadm doctor
has 'next: kubectl describe pod'
rm /run/systemd/container
mkdir /dev/capkm
run 1 capadm doctor
has '^wrong +node +/dev/capkm is a directory'
has 'next: rmdir /dev/capkm && mknod -m 666 /dev/capkm c'
rmdir /dev/capkm
echo oops >/dev/capkm
run 1 capadm doctor
has '^wrong +node +/dev/capkm is no device but a file'
has 'next: mv /dev/capkm /tmp/capkm.file && mknod'
rm /dev/capkm
mknod -m 666 /dev/capkm c 1 3
run 1 capadm doctor
has 'is device 1:3; the module'
has 'next: rm /dev/capkm && mknod'
rm /dev/capkm
# shellcheck disable=SC2086 # two numbers
mknod -m 600 /dev/capkm c $node
as_nobody 1 doctor
has '^wrong +node +/dev/capkm does not let you open it \(mode 0600, root:root\)'
has 'next: chmod 666 /dev/capkm  # as root$'
# where there is udev, its rule says who may
mkdir -p /run/udev /etc/udev/rules.d
touch /run/udev/control
as_nobody 1 doctor
has "next: make modules_install  # in capkm's sources: udev's rule"
touch /etc/udev/rules.d/60-capkm.rules
as_nobody 1 doctor
has 'next: udevadm trigger -c change /sys/class/misc/capkm .*: by /etc/udev/rules.d/60-capkm.rules'
rm -r /run/udev /etc/udev
chmod 660 /dev/capkm
chgrp 12345 /dev/capkm
echo video:x:12345: >>/etc/group
as_nobody 1 doctor
has 'does not let you open it \(mode 0660, root:video\)'
has 'next: usermod -aG video nobody '
sed -i '/^video:/d' /etc/group
chgrp root /dev/capkm
chmod 600 /dev/capkm
as_nobody 2 health
has '^no authority: /dev/capkm: Permission denied'
run 0 capadm doctor
has '^note +node'
chmod 666 /dev/capkm

# a file system without devices
mkdir "$tmp/nodev"
mount -t tmpfs -o nodev none "$tmp/nodev"
# shellcheck disable=SC2086 # two numbers
mknod -m 666 "$tmp/nodev/capkm" c $node
mount --bind "$tmp/nodev/capkm" /dev/capkm
run 1 capadm doctor
has '^wrong +node +/dev/capkm is on a file system that was mounted without devices'
has 'next: findmnt -T /dev/capkm$'
umount /dev/capkm
umount "$tmp/nodev"

# a control group that may not use it
mkdir "$tmp/cgroup"
if mount -t cgroup -o devices none "$tmp/cgroup" 2>/dev/null; then
	mkdir "$tmp/cgroup/worker.service"
	echo 'c 10:* rwm' >"$tmp/cgroup/worker.service/devices.deny"
	run 1 sh -c "echo 0 >$tmp/cgroup/worker.service/cgroup.procs && exec capadm doctor"
	has '^wrong +node +the rules for devices of this service'
	has 'next: systemctl edit worker.service  # \[Service\] DeviceAllow=/dev/capkm rw$'
	touch /run/.containerenv
	run 1 sh -c "echo 0 >$tmp/cgroup/worker.service/cgroup.procs && exec capadm doctor"
	has 'the rules for devices of this container do not let you open'
	has 'next: podman run --device /dev/capkm IMAGE$'
	rm /run/.containerenv
	rmdir "$tmp/cgroup/worker.service"
	umount "$tmp/cgroup"
else
	echo "# no control group of devices here"
fi

# another module than that which is loaded is installed
cp "$file" "$tmp/loaded.ko"
sed "s/\(version=\)0\.[0-9.]*/\19.8.7/" "$tmp/loaded.ko" >"$file"
run 0 capadm doctor
has '^note +module +capkm [0-9.]+ is loaded, and 9.8.7 installed'
has 'next: modprobe -r capkm && modprobe capkm '
cp "$tmp/loaded.ko" "$file"

# another module than the one that capadm and the library are of
version=$(capadm version | sed -n 's/^capadm //p')
other() {
	run "$1" env LD_PRELOAD=/usr/lib/capkm-old/other_module.so OTHER_MODULE="$2" capadm doctor
}
other 0 '9.8.7 1 1'
has "^note +tool +capadm $version and the module 9.8.7 differ, and understand each other\$"
has "^note +library .*, version $version, and the module 9.8.7 differ, and understand"
other 1 '9.8.7 99 99'
has "^wrong +tool +capadm $version speaks ABI 1 to 1, the module 9.8.7 speaks 99 to 99: update capadm\$"
has 'next: type -a capadm '
has '^wrong +library .*does not work with the module 9.8.7'
other 1 '0.0.1 0 0'
has 'speaks 0 to 0: update the module$'
has 'next: modinfo -F version capkm  # if that is newer: modprobe -r capkm && modprobe capkm$'

run 1 env LD_LIBRARY_PATH=/usr/lib/capkm-old capadm doctor
has '^wrong +library +/usr/lib/capkm-old/libcapkm.so.0, version 0.0.1, does not work'
CAPKM_DEVICE=embedded: run 0 capadm doctor
has 'next: unset CAPKM_DEVICE'

# ---- the module

soon 50 unloaded
run 1 capadm doctor
has '^wrong +module +capkm is installed \(.*capkm.ko\) and not loaded'
has 'next: modprobe capkm$'
mkdir -p /etc/modprobe.d
echo 'install capkm /bin/false' >/etc/modprobe.d/no.conf
run 1 capadm doctor
has '^wrong +module +/etc/modprobe.d/no.conf has modprobe do something else'
has 'next: grep -n capkm /etc/modprobe.d/no.conf$'
rm -r /etc/modprobe.d
grep -q '^capkm ' /proc/modules && no "who looks does not load the module"
run 2 capadm health
has '^no authority: the capkm module is not loaded$'
run 0 capadm metrics
has '^capkm_up 0$'
grep -q '^capkm ' /proc/modules && no "who looks does not load the module"
# what the kernel says of itself, as if it did
echo 1 >"$tmp/one"
mount --bind "$tmp/one" /proc/sys/kernel/modules_disabled
run 1 capadm doctor
has 'no module can be until the next boot \(kernel.modules_disabled\)'
has 'next: grep -r modules_disabled /etc/sysctl.conf /etc/sysctl.d  # then reboot$'
umount /proc/sys/kernel/modules_disabled
enforce=/sys/module/module/parameters/sig_enforce
if [ -e "$enforce" ]; then
	echo Y >"$tmp/one"
	mount --bind "$tmp/one" "$enforce"
	run 1 capadm doctor
	has 'is not signed, and this kernel loads signed modules only \(module.sig_enforce\)'
	has "next: /lib/modules/.*/build/scripts/sign-file sha256 KEY CERTIFICATE $file\$"
	umount "$enforce"
fi
dep=$(find /lib/modules -name modules.dep)
mv "$dep" "$tmp/dep"
run 1 capadm doctor
has 'but modprobe does not'
has 'next: depmod$'
mv "$tmp/dep" "$dep"
mv "$file" "$tmp/capkm.ko"
run 1 capadm doctor
has 'not installed for Linux .* no headers'
has 'next: ls /lib/modules/.*/build '
printf 'NAME=x\nID=linuxmint\nID_LIKE="ubuntu debian"\n' >/etc/os-release
run 1 capadm doctor
has "next: apt install linux-headers-$(uname -r)\$"
printf 'ID=rocky\nID_LIKE="rhel fedora"\n' >/etc/os-release
run 1 capadm doctor
has "next: dnf install kernel-devel-$(uname -r)\$"
rm /etc/os-release
mkdir -p "/lib/modules/$(uname -r)/build" /var/lib/dkms/capkm/0.1.0/build
touch "/lib/modules/$(uname -r)/build/Makefile"
log=/var/lib/dkms/capkm/0.1.0/build/make.log
echo "DKMS make.log for capkm-0.1.0 for kernel $(uname -r) (x86_64)" >"$log"
run 1 capadm doctor
has 'DKMS could not build it'
has "next: grep -n -m 5 -iE 'error|failed' $log\$"
mkdir -p /var/lib/dkms/capkm/0.2.0/build
touch /var/lib/dkms/capkm/0.2.0/build/make.log
run 1 capadm doctor
has "its log is $log\$"
echo "DKMS make.log for capkm-0.1.0 for kernel $(uname -r)-other (x86_64)" >"$log"
run 1 capadm doctor
has 'not installed for Linux'
lacks DKMS
mkdir -p /usr/src/capkm-0.1.0 /usr/sbin
ln -s /bin/true /usr/sbin/dkms
run 1 capadm doctor
has "next: dkms install capkm/0.1.0 -k $(uname -r)\$"
rm -r /var/lib/dkms /usr/src/capkm-0.1.0 /usr/sbin/dkms
run 1 capadm doctor
has 'not installed for Linux'
has "next: make modules modules_install && depmod"
mv "/lib/modules/$(uname -r)" "$tmp/modules"
mkdir -p /lib/modules/9.9.9
touch /lib/modules/9.9.9/modules.dep
run 1 capadm doctor
has 'the modules of the running kernel, Linux .*, are not there any more; there is /lib/modules/9.9.9'
has 'next: reboot '
rm -r /lib/modules/9.9.9
mv "$tmp/modules" "/lib/modules/$(uname -r)"
rm -r "/lib/modules/$(uname -r)/build"
sed 's/vermagic=[^ ]*/vermagic=5.0.0-old/' "$tmp/capkm.ko" >"$file"
run 1 capadm doctor
has 'was built for Linux 5.0.0-old'
mkdir -p /usr/src/capkm-0.1.0 /usr/sbin
ln -s /bin/true /usr/sbin/dkms
run 1 capadm doctor
has "next: dkms remove capkm/0.1.0 -k $(uname -r); dkms install capkm/0.1.0 -k $(uname -r)\$"
rm -r /usr/src/capkm-0.1.0 /usr/sbin/dkms
modprobe capkm 2>/dev/null && no "the kernel does not take it"
mv "$tmp/capkm.ko" "$file"
modprobe capkm || no "the module can be loaded again"
run 0 capadm doctor

all_so
