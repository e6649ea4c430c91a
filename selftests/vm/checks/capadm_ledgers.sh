#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Budgets as an operator meets them: who may be charged with how much, and is; one whose
# process was killed in mid-step, with all that it was charged with; one that another
# process goes on with; what nobody needs any more.  "client --budget" is a run.

tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
holder=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	[ -z "$holder" ] || kill -9 "$holder"
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh

# run_budget [LEDGER]: in $domain; $ledger is its ledger
run_budget() {
	: >"$tmp/held"
	/selftests/programs/client --budget "$domain" "$@" >"$tmp/held" &
	holder=$!
	soon 200 test -s "$tmp/held" || exit 1
	read -r domain ledger <"$tmp/held"
}

orphaned() {
	capadm ledgers "$domain" 2>/dev/null | grep -q "^ *$domain/$ledger  orphaned"
}

kill_run() {
	kill -9 "$holder"
	wait "$holder" 2>/dev/null
	soon 100 orphaned || no "it has no holder any more"
}

# As long as nothing else was charged, what is left of it is the same.
usage() {
	capadm --json ledgers "$domain" | sed -n '/"per_step"/,$p'
}

# ---- bad input

run 2 capadm ledgers one two
run 1 capadm ledgers nosuch
complains '^capadm: no domain is named nosuch'
run 1 capadm ledgers 987654321
complains '^capadm: cannot read domain 987654321'
run 2 capadm ledgers --history
run 2 capadm ledger
complains 'ledger is a group of commands; right is one of: ledger rm'
run 2 capadm ledger rm
run 2 capadm ledger rm 7
complains '7 is no ledger; right is DOMAIN/LEDGER, as capadm ledgers shows it'
run 2 capadm ledger rm 7/x
run 2 capadm ledger rm 7/0
run 1 capadm ledger rm nosuch/1
run 1 capadm ledger rm 987654321/1
complains 'no such domain, or no such ledger in it'

# ---- a run

table domain create --mode 0604 budget
domain=$(capadm --json domains | sed -n 's/^ *"id": *\([0-9]*\),*$/\1/p' | tail -n 1)
table ledgers budget
lacks "^ *$domain/"
table domain limit budget ledger_host 3000000
capadm monitor --count 1 budget >"$tmp/events" &
monitor=$!
sleep 1
run_budget
wait "$monitor"
cp "$tmp/events" "$tmp/out"
has "domain $domain +ledger-refused +ledger $ledger +axis captures +bound step +session "

table ledgers budget
has '^LEDGER +STATE +ON LIMIT +STEPS +CHARGES +REFUSED +CREATED +PID +COMMAND +LABEL$'
has "^ *$domain/$ledger +held +skip +1 +2 +1 .* $holder +client +decode\$"
has '^    captures  step 8 of 10 \(80%\); total 8 of 1000 \(0%\)$'
has '^    retention step 0B of 0B \(100%\); total 0B of 0B \(100%\)$'
has '^    host      step 2\.0M of 4\.0M \(50%\); total 2\.0M of 64\.0M \(3%\); domain 2\.0M of 2\.9M \(69%\)$'
has '^    encoded   step 0B, no limit; total 0B, no limit$'
table --bytes ledgers
has '^    host      step 2097152 of 4194304 \(50%\); total 2097152 of 67108864 \(3%\)'
table ledgers --orphans
lacks "^ *$domain/$ledger "
json ledgers ledgers budget
has '"label": "decode"'
has '"orphaned": false'
has '"on_limit": "skip"'
has "\"pid\": $holder"
has '"encoded_bytes": 18446744073709551615'
json domains domains
has '"ledgers": 1'
run 1 capadm ledger rm "budget/$ledger"
complains 'cannot remove ledger [0-9/]+: .*a process holds it, and lives'
# Others may look, as the mode says, and no more.
as_nobody 0 ledgers "$domain"
has "^ *$domain/$ledger +held "
as_nobody 1 ledger rm "$domain/$ledger"
complains 'only the domain.s owner or CAP_SYS_ADMIN'
capadm status >"$tmp/out"
has "^ *$domain +root +ok "

# ---- it is killed

usage >"$tmp/before"
pid=$holder
kill_run
usage >"$tmp/after"
cmp "$tmp/before" "$tmp/after" || no "all is charged as it was"
table ledgers --orphans budget
has "^ *$domain/$ledger +orphaned +skip +1 +2 +1 .* $pid +client +decode\$"
table status
has "^ *$domain +root +ledgers "
has "^    capadm ledgers --orphans( $domain)?\$"
capadm doctor >"$tmp/out"
has "1 ledger that no process holds, domain $domain \\(budget\\)"
capadm health "$domain" >"$tmp/out" || no "that degrades nothing"
as_nobody 1 ledger rm "$domain/$ledger"

run 0 capadm metrics
has "^capkm_ledger_info\\{domain=\"$domain\",ledger=\"$ledger\",label=\"decode\"\\} 1\$"
has "^capkm_ledger_orphaned\\{domain=\"$domain\",ledger=\"$ledger\"\\} 1\$"
has "^capkm_ledger_refusals_total\\{domain=\"$domain\",ledger=\"$ledger\"\\} 1\$"
has "^capkm_ledger_used\\{domain=\"$domain\",ledger=\"$ledger\",axis=\"host\"\\} 2097152\$"
has "^capkm_ledger_limit\\{domain=\"$domain\",ledger=\"$ledger\",axis=\"captures\"\\} 1000\$"
lacks "^capkm_ledger_limit\\{domain=\"$domain\",.*axis=\"encoded\""
has "^capkm_domain_ledgers\\{domain=\"$domain\"\\} 1\$"
has "^capkm_domain_limit_used\\{domain=\"$domain\",limit=\"ledger_host\"\\} 2097152\$"
has '^capkm_ailments\{health="ledgers"\} [1-9]'

# ---- another process goes on with it

table domain limit budget ledger_host none
has "^domain $domain has no limit of ledger_host$"
first=$ledger
run_budget "$ledger"
[ "$ledger" = "$first" ] || no "it is the same ledger"
table ledgers budget
has "^ *$domain/$ledger +held +skip +2 +4 +2 .* $holder +client +decode\$"
has '^    captures  step 8 of 10 \(80%\); total 16 of 1000 \(1%\)$'
has '^    host      step 2\.0M of 4\.0M \(50%\); total 4\.0M of 64\.0M \(6%\)$'
kill_run

# ---- nobody does any more

json ledger_removed ledger rm "budget/$ledger"
has "\"id\": $ledger"
run 1 capadm ledger rm "budget/$ledger"
complains 'no such domain, or no such ledger in it'
table ledgers budget
lacks "^ *$domain/"
capadm status >"$tmp/out"
has "^ *$domain +root +ok "
# A new ledger is no new budget.
table domain limit budget ledger_host
has "^ *$domain +- +ledger_host +none +4194304 +-\$"
table domain limit budget ledger_host 4194304
table domain limit budget ledger_host
has "^ *$domain +- +ledger_host +4194304 +4194304 +100%$"
run 0 capadm health budget
table domain limit budget ledger_host 5000000
run_budget_fails() {
	/selftests/programs/client --budget "$domain" >"$tmp/held" 2>&1
}
run_budget_fails && no "two charges of 1 MiB do not fit"
table domain rm --force budget

# ---- a domain that is not persistent keeps its ledgers for a while, to be looked at


domain=0
run_budget
kill_run
table domains
has "^ *$domain +root +0?600 +defunct "
table status
has "^ *$domain +root +ledgers, defunct "
table ledgers "$domain"
has '^    captures  step 8 of 10 \(80%\); total 8 of 1000 \(0%\)$'
table ledger rm "$domain/$ledger"
has "^ledger $domain/$ledger is removed$"
table domains
lacks "^ *$domain "

holder=
all_so
