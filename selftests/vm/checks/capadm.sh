#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm as its user meets it: tables, JSON, exit status, errors; what somebody
# else may see and do.  "client --hold" holds a domain with a buffer, a window, an
# orphan, a failure and the failure of a dead process.

tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
holder=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder"
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh

# ---- versions and help, before there is anything

table version
has '^capadm [0-9]'
has '^module [0-9].*ABI'
table --version
json version version
has '"abi_version"'
table --help
has '^Usage: capadm'
table windows --help
has '--orphans'

# ---- a domain to look at

hold --hold
read -r domain orphan <"$tmp/held"

table
has "^ *$domain +root +orphans, tainted, reports .* held$"
table domains
has "^ *$domain +root +0?600 +.* held$"
has "orphaned windows: 1; see capadm windows --orphans $domain"
has 'failures of ended processes: 1; see capadm failures --reports'
lacks "given up; see capadm windows --history $domain\$"
table windows held
has "^ *$domain/[0-9]+ +capture"
has "^ *$domain/$orphan +orphaned"
has 'first failure: owner-died'
table windows --orphans "$domain"
has "^ *$domain/$orphan +orphaned"
lacks 'capture'
table windows
table failures held
has '^ *[0-9]+ +[0-9]+ +launch +-700 '
has 'no kernel image'
has 'owner-died'
lacks 'private to the dead'
table failures --reports held
has 'private to the dead'
table failures
table buffers held
has ' 4\.0K '
has 'exported.* weights$'
table buffers

json domains
has '"name": "held"'
has '"orphans": 1'
json windows windows held
has '"state": "orphaned"'
has '"first_failure"'
has '"recorded": 1'
json windows windows --orphans held
lacks '"state": "capture"'
json windows windows --history held
json failures failures held
has '"kind": "owner-died"'
has '"code": -700'
json failures failures --reports held
json buffers buffers held
has '"label": "weights"'

# ---- errors: 1 it cannot be done, 2 the command line is wrong

for command in windows failures buffers; do
	run 1 capadm "$command" nosuch
	complains '^capadm: no domain is named nosuch'
	run 1 capadm "$command" 987654321
	complains '^capadm: cannot read domain 987654321'
	run 2 capadm "$command" one two
done
json_error 1 windows nosuch
complains '"message".*nosuch'
complains '"errno": *"ENOENT"'
json_error 2 windows --frobnicate
run 1 capadm abandon held/987654321
run 1 capadm abandon --dry-run held/987654321
complains 'no window of domain [0-9]+ has the id 987654321; capadm windows [0-9]+ lists them'
run 1 capadm abandon held 4000000
complains 'no window of domain [0-9]+ is on slot 4000000; capadm windows [0-9]+ lists them'
run 1 capadm abandon "nosuch/$orphan"
run 2 capadm frobnicate
run 2 capadm --frobnicate
run 2 capadm domains held
run 2 capadm buffers --orphans
run 2 capadm windows --orphans --history
run 2 capadm abandon
complains 'right is DOMAIN/WINDOW, DOMAIN SLOT, --orphans or --pid PID'
run 2 capadm abandon held
complains 'held is no window; right is DOMAIN/WINDOW'
run 2 capadm abandon held x
run 2 capadm abandon held/0
run 2 capadm abandon held -1
run 2 capadm abandon held/1x
run 2 capadm abandon --pid 1x
run 2 capadm abandon --pid
run 2 capadm abandon --orphans held 3
run 2 capadm abandon --orphans=yes
run 2 capadm windows 0
run 2 capadm windows 99999999999999999999
run 2 capadm version extra
run 2 capadm --json frobnicate
# a full device is an error, not an empty table
rc=0
capadm domains >/dev/full 2>"$tmp/err" || rc=$?
[ "$rc" -eq 1 ] || no "a full disk is an error"

# ---- somebody else

as_nobody 0 domains
lacks 'held'
as_nobody 0 --json domains
lacks 'held'
as_nobody 0 windows
lacks "^ *$domain/"
as_nobody 0 failures
lacks 'no kernel image'
as_nobody 0 buffers
lacks 'weights'
as_nobody 1 windows held
# What he may not see is there no more for him than what is not there.
as_nobody 1 abandon "held/$orphan"
as_nobody 1 abandon "$domain/$orphan"
complains "no such domain, or no such window"
as_nobody 0 version
for command in windows failures buffers; do
	as_nobody 1 "$command" "$domain"
done
table windows --orphans held
has "^ *$domain/$orphan +orphaned"

# ---- abandon

table abandon --dry-run "held/$orphan"
has "^ *$domain/$orphan +orphaned"
has '^1 window would be abandoned$'
table windows held
has "^ *$domain/$orphan "
table abandon "held/$orphan"
has "^window $domain/$orphan is abandoned$"
table windows held
lacks "^ *$domain/$orphan "
has 'capture'
table windows --history held
has "^ *$domain/$orphan +refused"
run 1 capadm abandon "held/$orphan"
table abandon --orphans held
has '^0 abandoned, 0 already gone$'
table domains
# other tests may have left domains that linger
lacks "windows --orphans $domain\$"
has "graphs: 0 sealed, 1 given up; see capadm windows --history $domain\$"
window=$(capadm windows held | awk '$2 ~ /capture/ { sub(".*/", "", $1); print $1 }')
json abandon abandon "$domain/$window"
has "\"id\": $window"
has '"dry_run": false'

# ---- the module

rc=0
rmmod capkm 2>"$tmp/err" || rc=$?
[ "$rc" -ne 0 ] || no "a module in use is not removed"
[ -c /dev/capkm ] || no "the device is still there"
table domains
has 'held'

kill -9 "$holder"
wait "$holder" 2>/dev/null
holder=
# It lingers: something died in it, and that may be looked at.
table domains
has "^ *$domain +root +0?600 +.*defunct"
table failures --reports "$domain"
has 'private to the dead'

# A lingering domain is no user of the module.
soon 50 unloaded || no "the module can be removed when nobody uses it"
if ! grep -q '^capkm ' /proc/modules; then
	for command in domains windows failures buffers 'abandon 1/1'; do
		# shellcheck disable=SC2086 # words
		run 1 capadm $command
		complains 'module is not loaded; load it with: modprobe capkm'
	done
	run 1 capadm --json domains
	balanced "$tmp/err" || no "an error is JSON"
	table version
	has 'module not loaded; load it with: modprobe capkm'
	json version version
	has '"module": null'
	run 2 capadm frobnicate
	modprobe capkm || no "the module can be loaded again"
	run 0 capadm domains
	lacks 'held'
fi

all_so
