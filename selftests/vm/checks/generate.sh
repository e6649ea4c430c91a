#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The example of observing, killed in the middle of a step: another process goes on from
# its checkpoint, records what it would have recorded, and finds in the ledger all that was
# charged before. That it is in the middle, the example says itself: it stops there.

[ -x /usr/bin/observe-generate ] || exit 4
export CAPKM_DEVICE=/dev/capkm
tmp=$(mktemp -d) || exit
chmod 755 "$tmp"
pid=

# shellcheck disable=SC2317,SC2329 # the trap calls it
finish() {
	[ -z "$pid" ] || kill -9 "$pid"
	[ -z "${holder:-}" ] || kill -9 "$holder"
	capadm domain rm observe >/dev/null 2>&1
	rm -rf "$tmp"
}
trap finish EXIT

. ./capadm_lib.sh
cd "$tmp" || exit

axes='captures retained_bytes host_bytes encoded_bytes'

# ran STATUS COMMAND...: as run; it may have printed before it failed.
ran() {
	want=$1
	shift
	rc=0
	"$@" >"$tmp/out" 2>"$tmp/err" || rc=$?
	[ "$rc" -eq "$want" ] || no "$*: exit status $want (is $rc)"
}

# usage FILE LINE step|cumulative AXIS: a number
usage() {
	sed -n "$2s/.*\"$3_usage\":{\\([^}]*\\)}.*/,\\1,/p" "$1" |
		sed "s/.*,\"$4\":\\([0-9]*\\),.*/\\1/"
}

# What is recorded, without what was charged in all, and how long it took.
plain() {
	sed 's/"cumulative_usage":{[^}]*},"capture_seconds":[^}]*}$//' "$1"
}

# shellcheck disable=SC2317,SC2329 # soon calls it
stopped() {
	grep -q '^State:.T' "/proc/$pid/status" 2>/dev/null
}

# killed_at N OPTION...: at prediction N it stops, and is killed
killed_at() {
	at=$1
	shift
	observe-generate --pause-at "$at" "$@" >killed.txt 2>killed.err &
	pid=$!
	soon 300 stopped || no "it stops at prediction $at: $(cat killed.err)"
	grep -q "stops in the middle of prediction $at\$" killed.err || no "it says where it stops"
	[ "$at" -ne 8 ] || refused_while_alive
	kill -9 "$pid"
	wait "$pid" 2>/dev/null
	pid=
}

# Nobody can go on while it lives, nor is anything of it changed by trying to.
refused_while_alive() {
	cp checkpoint before
	cp killed.jsonl records
	ran 1 observe-generate --resume --checkpoint checkpoint --records killed.jsonl --chart other.svg
	complains 'checkpoint: observe_resume: .*lives'
	cmp -s checkpoint before || no 'the checkpoint is as it was'
	cmp -s killed.jsonl records || no 'the records are as they were'
	[ ! -e other.svg ] || no 'nothing is drawn'
}

# The sum of what these steps cost.
captures_of() {
	sum=0
	for line; do
		sum=$((sum + $(usage whole.jsonl "$line" step captures)))
	done
	echo "$sum"
}

# orphaned CAPTURES: the ledger that a killed process left, with all that it was charged with
orphaned() {
	run 0 capadm ledgers observe
	has '^ *[0-9]+/[0-9]+ +orphaned .* observe-generat '
	run 0 capadm --json ledgers observe
	tr -d ' \n' <"$tmp/out" | grep -q "\"total\":{\"captures\":$1," || no "it was charged with $1 captures"
}

# ---- the run that nobody disturbs, and more budget than it needs

sed '/"cumulative"/s/: [1-9][0-9]*/: 999999/g' /selftests/plan.json >plan.json
ran 0 observe-generate --plan plan.json --records whole.jsonl
cp out whole.txt
[ "$(wc -l <whole.jsonl)" -eq 12 ] || no 'a line for each of 12 predictions'
run 0 capadm domains
lacks ' observe$'

# ---- the same, killed in the middle of 0 and, each time gone on with, of 5, 5, 8 and 11

killed_at 0 --plan plan.json --checkpoint checkpoint --records killed.jsonl --chart chart.svg
[ ! -s killed.jsonl ] || no 'no step is recorded'
killed_at 5 --resume --checkpoint checkpoint --records killed.jsonl --chart chart.svg
[ "$(wc -l <killed.jsonl)" -eq 5 ] || no 'five steps are recorded'
run 0 capadm domains
has 'persistent .* observe$'
orphaned "$(captures_of 1 1 2 3 4 5 6)"
printf '{"phase":"decode","records":[{"schema' >>killed.jsonl	# as if it was in the middle of a line

ran 2 observe-generate --resume --checkpoint checkpoint --records whole.jsonl
complains 'whole.jsonl is not the file that the records were in'
ran 2 observe-generate --resume --checkpoint checkpoint --records nosuch.jsonl
complains 'nosuch.jsonl: No such file'
[ ! -e nosuch.jsonl ] || no 'no file is made'
ran 2 observe-generate --resume --checkpoint checkpoint --seed 2
complains "is of the model 'sha256:"
sed '1s/"made":\[\([0-9]*\),/"made":[255,/' checkpoint >wrong
ran 2 observe-generate --resume --checkpoint wrong
complains 'wrong: prediction 0 was another one'
sed '2s/"captures"/"capture"/' checkpoint >wrong
ran 2 observe-generate --resume --checkpoint wrong
complains 'wrong: second line: observe_checkpoint_parse: line 1, .*"capture"'
ran 1 su -s /bin/sh -c 'CAPKM_DEVICE=/dev/capkm exec observe-generate --resume --checkpoint checkpoint' nobody
complains 'its ledger cannot be had'

killed_at 5 --resume --checkpoint checkpoint --records killed.jsonl --chart chart.svg
killed_at 8 --resume --checkpoint checkpoint --records killed.jsonl --chart chart.svg
before=$(captures_of 1 1 2 3 4 5 6 6)
grep -q "^Goes on at prediction 5, with $before captures" killed.txt ||
	no "it knows of $before captures: $(cat killed.txt)"
killed_at 11 --resume --checkpoint checkpoint --records killed.jsonl --chart chart.svg
orphaned "$(captures_of 1 1 2 3 4 5 6 6 6 7 8 9 9 10 11 12)"
ran 0 observe-generate --resume --checkpoint checkpoint --records killed.jsonl --chart chart.svg
cp out rest.txt
tail -n 1 whole.txt >said
tail -n 1 rest.txt | cmp -s - said || no 'it says the same'

# ---- what was recorded is the same; what was charged is the sum

plain whole.jsonl >whole.plain
plain killed.jsonl >killed.plain
cmp whole.plain killed.plain || no 'the records are the same'
for axis in $axes; do
	want=$(usage whole.jsonl 12 cumulative "$axis")
	for line in 1 6 6 9 12; do
		want=$((want + $(usage whole.jsonl $line step "$axis")))
	done
	is=$(usage killed.jsonl 12 cumulative "$axis")
	[ "$is" -eq "$want" ] || no "$axis: $want in all, not $is"
done
[ "$want" -gt "$(usage whole.jsonl 12 cumulative encoded_bytes)" ] || no 'something was lost at all'
grep -q 'captures in all' chart.svg || no 'there is a chart'
# Beside the one of the legend: of four steps, on each axis but the retained bytes.
[ "$(grep -c 'stroke-dasharray' chart.svg)" -eq 13 ] || no 'it shows where steps were lost'
[ "$(ls checkpoint* ./*.new 2>/dev/null)" = '' ] || no 'no checkpoint is left'
run 0 capadm domains
has 'persistent .* observe$'
! capadm ledgers observe | grep -E 'held|orphaned' || no 'nor is its ledger'

# ---- with as much as the whole run needs, it ends where the lost step is missing

need=$(usage whole.jsonl 12 cumulative captures)
sed "s/\"captures\": 999999/\"captures\": $need/; s/\"skip\"/\"fail\"/" plan.json >tight.json
ran 0 observe-generate --validate --plan tight.json
rm killed.jsonl
killed_at 5 --plan tight.json --checkpoint checkpoint --records killed.jsonl
ran 1 observe-generate --resume --checkpoint checkpoint --records killed.jsonl
complains "'captures' of $need in all \\(cumulative\\): $((need + 1)) would be used"
[ "$(usage killed.jsonl "$(wc -l <killed.jsonl)" cumulative captures)" -eq "$need" ] ||
	no "all of $need captures are used, and no more"
tail -n 1 killed.jsonl | grep -q '"kind":"failed","value":{"reason":{"kind":"limit"' ||
	tail -n 1 killed.jsonl | grep -q '"failed"' || no 'the record says that it failed'

# ---- the domain has gone, and the ledger with it; or it would go with its sessions

orphaned "$need"
run 0 capadm domain rm observe
ran 1 observe-generate --resume --checkpoint checkpoint
complains 'checkpoint: its ledger cannot be had: '
ran 2 observe-generate --plan plan.json --checkpoint checkpoint
complains 'checkpoint is there already'
rm checkpoint
hold --hold
ran 2 observe-generate --plan plan.json --checkpoint checkpoint --domain held
complains "'held' is there and not persistent"
[ ! -e checkpoint ] || no 'no checkpoint is left'

# ---- work that fails: what it should have written is not observed, and it is made again

ran 0 observe-generate --plan plan.json --fail-at 3 --checkpoint checkpoint --records failed.jsonl
has '^    size: tainted: buffer .*gelu: no code for this processor'
has '^    prediction 3 failed and is made again: '
[ "$(wc -l <failed.jsonl)" -eq 13 ] || no 'it is recorded that it failed'
sed 4d failed.jsonl >again.jsonl
plain again.jsonl | cmp -s - whole.plain || no 'then the records are as if nothing had been'
sed -n 4p failed.jsonl | grep -q '"tainted"' || no 'the record says why it failed'

all_so
