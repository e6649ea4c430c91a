#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C88: a container had no node, and its user went to build the driver in there. A
# container here has a /dev of its own: without the node it is told how it is given one,
# with it all works, and without the module it is sent to the host. (That library and
# module are too far apart is cases_process.c's.)

tmp=$(mktemp -d) || exit

# shellcheck disable=SC2329 # the trap calls it
finish() {
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

# Followed, it keeps shellcheck busy for minutes.
# shellcheck source=/dev/null
. ./capadm_lib.sh

rmmod capkm && modprobe capkm || exit

node=$(tr : ' ' </sys/class/misc/capkm/dev)

# ask STATUS WITH COMMAND...: in a container with these nodes
ask() {
	want=$1
	with=$2
	shift 2
	rc=0
	# shellcheck disable=SC2016 # of the inner shell
	container=podman unshare -m -p -n -f --mount-proc sh -c '
		mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 || exit 99
		# shellcheck disable=SC2086 # two numbers
		[ -z "$0" ] || mknod -m 666 /dev/capkm c $0 || exit 99
		"$@"' "$with" "$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
	[ "$rc" -eq "$want" ] || no "$*: exit status $want (is $rc)"
}

ask 1 '' capadm doctor
has '^ok +module'
has '^wrong +node +/dev/capkm is not there: it was not given to this container'
has 'next: podman run --device /dev/capkm'
lacks 'make|dkms|headers|modprobe'
ask 2 '' capadm health
has '^no authority: /dev/capkm'
# To look needs no node.
ask 0 '' capadm domains

ask 0 "$node" capadm doctor
has '^ok +node'
ask 0 "$node" capadm health
if [ -x /usr/bin/transformer ]; then
	ask 1 '' transformer --rounds 0
	cat "$tmp/err" >>"$tmp/out"
	has '/dev/capkm: No such file'
	# The library's own authority is there for who asks for it.
	ask 0 '' env CAPKM_DEVICE=embedded: transformer --rounds 0
	ask 0 "$node" transformer --rounds 0
fi

soon 50 unloaded
ask 1 '' capadm doctor
has '^wrong +module +capkm is not loaded, and this is a container: the module is the'
has 'next: modprobe capkm  # on the host'
lacks 'make|dkms|headers|podman'
modprobe capkm || no "the module is loaded again"

all_so
