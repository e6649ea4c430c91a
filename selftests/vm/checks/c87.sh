#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# C87: "systemctl daemon-reload" wrote the rules for devices of running containers anew,
# and they lost a node that they had been given. Who has the device open goes on; who
# comes later is told that it is the rules, and not that there is no module.

tmp=$(mktemp -d) || exit
cgroup=$tmp/devices
job=$cgroup/job
holder=

# shellcheck disable=SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder" 2>/dev/null
	rmdir "$job"
	umount "$cgroup"
	rm -rf "$tmp"
}
trap finish EXIT

# Followed, it keeps shellcheck busy for minutes.
# shellcheck source=/dev/null
. ./capadm_lib.sh

rmmod capkm && modprobe capkm || exit

mkdir "$cgroup"
mount -t cgroup -o devices none "$cgroup" || exit 4
mkdir "$job" || exit
node=$(cat /sys/class/misc/capkm/dev)

in_job() {
	# shellcheck disable=SC2016 # of the inner shell
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$job" "$@"
}

# run STATUS COMMAND..., but it may print something though it fails
ask() {
	want=$1
	shift
	rc=0
	"$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
	[ "$rc" -eq "$want" ] || no "$*: exit status $want (is $rc)"
}

# It opens, and works five seconds later.
in_job /selftests/programs/client --events 400 --slow >"$tmp/made" &
holder=$!
soon 100 test -s "$tmp/made" || exit 1
read -r domain _ <"$tmp/made"
ask 0 in_job capadm doctor
has '^ok +node +/dev/capkm answers'

echo "c $node rwm" >"$job/devices.deny" || exit
ask 1 in_job capadm doctor
has '^ok +module'
has '^wrong +node +the rules for devices of this service .* do not let you open'
has 'next: systemctl edit UNIT'
lacks 'not loaded'
ask 1 in_job env container=podman capadm doctor
has '^wrong +node +the rules for devices of this container do not let you open'
has 'next: podman run --device /dev/capkm'
ask 2 in_job capadm health
has '^no authority: /dev/capkm: Operation not permitted'
if [ -x /usr/bin/transformer ]; then
	CAPKM_DEVICE=/dev/capkm in_job transformer --rounds 0 >"$tmp/out" 2>&1 &&
		no "who comes later is kept out"
	has 'Operation not permitted'
	has 'device rules'
	lacks 'not loaded'
fi
# What needs no node works.
ask 0 in_job capadm windows "$domain"
ask 0 capadm doctor

wait "$holder" || no "who has it open goes on to its end"
holder=

echo "c $node rwm" >"$job/devices.allow" || exit
ask 0 in_job capadm doctor
ask 0 in_job capadm health

all_so
