#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# What the operator's guide shows is what its commands print, to the byte, where "client
# --worker" has staged what it tells of: a worker that is killed in mid-capture.
#
# Of the guide, a line "<tab># COMMAND" is run by root and "<tab>$ COMMAND" by the user
# of the job, each in a shell of its own; what follows, up to the next one or to the end
# of the block, is what it has printed. A comment ".. step: NAME" is where the story goes
# on. The guide with what was printed now stays in /run/operating.rst, and scripts/guide
# makes that the guide.
#
# So that there is nothing to overlook, the scene is always the same: a module just
# loaded counts from 1, processes have numbers that were chosen, and the clock is set.
# Of times the digits are not compared, but how many there are.

guide=/selftests/operating.rst
made=/run/operating.rst
user=ml

if [ "${1:-}" != inside ]; then
	start=$(date +%s)
	read -r up _ </proc/uptime
	cp /etc/passwd /run/passwd
	echo "$user:x:1000:1000::/:/bin/sh" >>/etc/passwd
	rmmod capkm || exit
	modprobe capkm || exit
	# With the shell its namespace ends, and all that is in it.
	# shellcheck disable=SC2016 # for that shell
	unshare -p -f --mount-proc sh -c 'timeout 100 "$0" inside; exit $?' "$0"
	rc=$?
	read -r now _ </proc/uptime
	date -s "@$((start + ${now%.*} - ${up%.*}))" >/dev/null
	cp /run/passwd /etc/passwd
	# What died in the scene would linger.
	rmmod capkm
	modprobe capkm || rc=1
	exit $rc
fi

tmp=$(mktemp -d) || exit
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit

# The last number that was given away; who is started next has the next one.
number() {
	echo "$1" >/proc/sys/kernel/ns_last_pid
}

# The scene is ready; who listens has heard of it; and two minutes have gone by.
await() {
	read -r said <&4
	[ "$said" = set ] || {
		echo "the scene is not set" >&2
		exit 1
	}
	sleep 1
	date -s "@$(($(date +%s) + 130))" >/dev/null
}

step() {
	number "$1"
	echo >&3
	await
}

stage() {
	case $1 in
	killed | killed-again) step 829 ;;
	restarted) step 901 ;;
	observing) step 953 ;;
	observer-killed) step 969 ;;
	*)
		echo "the scene has no step $1" >&2
		exit 1 ;;
	esac
}

# run WHO COMMAND
run() {
	if [ "$1" = '$' ]; then
		set -- su -s /bin/sh "$user" -c "$2"
	else
		set -- sh -c "$2"
	fi
	timeout 10 "$@" </dev/null 2>&1
	# What stays beside us is to be ready for what comes.
	case $line in
	*'&') sleep 2 ;;
	esac
}

mask() {
	sed -e 's/[0-9][0-9]:[0-9][0-9]:[0-9][0-9]/HH:MM:SS/g' \
		-e 's/HH:MM:SS\.[0-9]\{6\}/HH:MM:SS.ffffff/g' \
		-e 's/(\([0-9]*h\)\{0,1\}[0-9]*m[0-9][0-9]s)/(age)/g' "$1"
}

date -s '2026-03-02 16:40:00' >/dev/null || exit
mkfifo go set && chown "$user" . go set || exit
number 811
su -s /bin/sh "$user" -c 'exec /selftests/programs/client --worker' <"$tmp/go" >"$tmp/set" &
exec 3>"$tmp/go" 4<"$tmp/set"
await

tab=$(printf '\t')
printing=
bad=
while IFS= read -r line; do
	text=${line#"$tab"}
	case $line in
	"$tab# "* | "$tab\$ "*)
		printf '%s\n' "$line"
		run "${text%% *}" "${text#* }" >"$tmp/out"
		sed -e "s/^./$tab&/" "$tmp/out"
		printing=yes
		continue ;;
	'.. step: '*)
		stage "${line#.. step: }" ;;
	'' | "$tab"*)
		[ -z "$printing" ] || continue ;;
	esac
	[ -z "$printing" ] || echo
	printing=
	printf '%s\n' "$line"
done <"$guide" >"$made"

# What is worth an alert is counted.
capadm metrics >"$tmp/metrics"
grep -o 'capkm_[a-z][a-z_]*' "$guide" | sort -u >"$tmp/names"
while read -r name; do
	# It may be of nothing that is there now.
	grep -q "^# TYPE ${name%_total} " "$tmp/metrics" || {
		echo "there is no metric $name" >&2
		bad=1
	}
done <"$tmp/names"

mask "$guide" >"$tmp/is"
mask "$made" >"$tmp/made"
diff -u "$tmp/is" "$tmp/made" && [ -z "$bad" ]
