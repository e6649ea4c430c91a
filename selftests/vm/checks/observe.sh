#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Those who only look: health, metrics, top, doctor; monitor.sh has the rest.  "client
# --hold" holds a domain with an orphan and a failure.

tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
holder=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	for pid in $holder; do
		kill -9 "$pid" 2>/dev/null
	done
	grep -q '^capkm ' /proc/modules || modprobe capkm
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh

loose=yes
shown=9

# ---- bad input

run 2 capadm monitor --count 0
complains 'right is'
run 2 capadm top --interval soon
complains 'right are'
run 2 capadm top extra
run 3 capadm health a b
complains 'right is: capadm health'
run 3 capadm --frob health
run 3 capadm health --count 3
run 3 capadm health 0
run 0 capadm health --help
has '2: no authority, 3: '
run 2 capadm metrics --textfile
run 2 capadm completion ksh
complains 'bash, zsh and fish'
run 1 capadm monitor nosuch
complains 'no domain is named nosuch'
run 1 capadm monitor 987654321
complains 'domain 987654321'

# ---- health: well, not well, nobody there

rmmod capkm || no "nobody uses the module yet"
modprobe capkm || no "the module is loaded anew"
run 0 capadm health
has '^healthy: domains: 0$'
run 0 capadm --json health
has '"status": *"healthy"'
run 0 capadm doctor
has '^ok +module +capkm [0-9]'
has '^ok +node +/dev/capkm answers'
has '^ok +library .*works with the module'
lacks '^(note|wrong)'

hold --hold
read -r domain orphan <"$tmp/held"
run 1 capadm health
has "^degraded: 1 orphaned window, domain $domain \\(held\\)"
run 1 capadm --json health held
has '"schema"'
has '"check": *"orphans"'
keep "$tmp/out" health
run 1 capadm health nosuch
has 'no domain is named nosuch'
as_nobody 0 health
run 1 capadm doctor
has "^wrong +domains +1 orphaned window, domain $domain \\(held\\)\$"
has "next: capadm abandon --orphans --dry-run $domain"
has '^note +domains +[0-9]+ failures? that buffers carry'
has "next: capadm failures --reports $domain\$"
run 1 capadm --json doctor
has '"level": *"wrong"'
keep "$tmp/out" doctor
capadm abandon "held/$orphan" >"$tmp/out" 2>"$tmp/err" ||
	capadm abandon held "$orphan" >"$tmp/out" 2>"$tmp/err" || no "the orphan is abandoned"
run 0 capadm health
run 1 capadm health --failures held
has 'failures that buffers carry'

# ---- metrics; a strict parser of the host reads what is left in /run

run 0 capadm metrics
has '^# TYPE capkm_domain_sealed_windows counter$'
has "^capkm_domain_info\\{domain=\"$domain\",name=\"held\",uid=\"0\",state=\"live\"\\} 1\$"
has '^capkm_degraded 0$'
has '^capkm_ailments\{health="orphans"\} 0$'
has '^capkm_ailments\{health="reports"\} 1$'
has "^capkm_domain_failures\\{domain=\"$domain\"\\} [1-9]"
has "^capkm_session_scopes_total\\{domain=\"$domain\""
has "^capkm_domain_limit\\{domain=\"$domain\",limit=\"ranges\"\\} 16777216\$"
has "^capkm_ledger_used\\{domain=\"$domain\",ledger=\"1\",axis=\"encoded\"\\} 3\$"
[ "$(tail -n 1 "$tmp/out")" = '# EOF' ] || no "it ends with EOF"
cp "$tmp/out" /run/metrics.txt
run 0 capadm metrics --textfile "$tmp/capkm.prom"
[ ! -s "$tmp/out" ] || no "a textfile is all"
cp "$tmp/capkm.prom" /run/metrics.prom
cp "$tmp/capkm.prom" "$tmp/out"
has '^# TYPE capkm_domain_sealed_windows_total counter$'
lacks '^# (EOF|UNIT)'
[ -z "$(find "$tmp" -name '.capadm*')" ] || no "no other file stays"
run 1 capadm metrics --textfile "$tmp/nosuch/capkm.prom"
complains 'nosuch'
run 2 capadm --json metrics --textfile "$tmp/x"
run 2 capadm metrics --textfile /dev/null
run 0 capadm --json metrics
has '"name": *"capkm_up"'
keep "$tmp/out" metrics

# ---- top

run 0 capadm top --count 1 --interval 0.2
has '^[0-9:]+  domains 1  sessions 1 '
has '^ *DOMAIN +SESSION .*SCOPES/s +SKIPS/s +FAILURES'
has "^ *$domain +[0-9]+ .* client\$"
run 0 capadm --json top --count 2 --interval 0.1
[ "$(grep -c '^{ *"schema": *1, *"top"' "$tmp/out")" -eq 2 ] || no "two lines of two looks"
has '"scopes_per_second": *[0-9]'
head -n 1 "$tmp/out" >"$tmp/look"
keep "$tmp/look" top

all_so
