#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# The example of observing, without the module: a strict parser of JSON reads each record,
# and one of XML the chart; what it records adds up; what is wrong with a plan is said with
# line and field, and changes nothing. Killing it is for the virtual machine (generate.sh).

set -u
cd "$(dirname "$0")/../.." || exit
program=$(realpath -m "${O:-build}")/example/observe-generate
plan=$PWD/tools/example/observe/plan.json
[ -x "$program" ] || {
	echo "no $program; make observe-example builds it"
	exit 4
}
export CAPKM_DEVICE=embedded:
. selftests/program.sh

has() {
	grep -Eq -- "$1" out || no "the output has: $1"
}

# wrong TEXT ARGUMENT...: one line, nothing else, and no file
wrong() {
	local text=$1
	shift
	run 2 "$@"
	[[ $(cat err) == "observe-generate: "*"$text"* && $(wc -l <err) -eq 1 ]] ||
		no "$*: the error is one line and has: $text"
	[ ! -s out ] || no "$*: prints nothing when it fails"
	if [ -e records ] || [ -e chart.svg ] || [ -e checkpoint ]; then
		no "$*: there is no file"
	fi
}

# edited FROM TO: the plan, with something else in it
edited() {
	sed "s/$1/$2/" "$plan" >edited.json
	! cmp -s "$plan" edited.json || no "the plan has: $1"
}

# ---- bad input

wrong 'give a plan' --records records
wrong 'nosuch.json: No such file' --plan nosuch.json
wrong '--predictions wants a number from 1 to 512' --plan "$plan" --predictions 0
wrong '--predictions wants a number from 1 to 512' --plan "$plan" --predictions 12x
wrong '--prompt is to have 1 to 512 bytes' --plan "$plan" --prompt ''
wrong 'exclude each other' --validate --discovery
wrong 'give --checkpoint FILE' --resume
wrong 'nothing can be resumed; --checkpoint needs the module' --plan "$plan" --checkpoint checkpoint
wrong 'is no checkpoint' --resume --checkpoint "$plan"
edited '"every": 3' '"evry": 3'
line=$(grep -n evry edited.json | cut -d: -f1)
wrong "line $line, selections[3].schedule: there is no field \"evry\"" --plan edited.json --records records
edited '"every": 3' '"every": 3, "every": 4'
wrong "line $line, selections[3].schedule: the field \"every\" is given twice" --plan edited.json --records records
edited '"count": 3' '"count": -3'
line=$(grep -n -e '-3' edited.json | cut -d: -f1)
wrong "line $line, selections[5].transform.count" --plan edited.json --chart chart.svg
edited '"every": 3' '"every": 0'
wrong "selection 'spread': observe_admit: every must not be 0" --plan edited.json --records records
edited 'model.logits' 'model.logit'
wrong "selection 'best': observe_admit: there is no point 'model.logit'" --plan edited.json
run 1 --plan "$plan" --records /dev/full
grep -q '/dev/full: No space left' err || no 'a full disk is an error'
for command in --help --discovery; do
	"$program" "$command" >/dev/full 2>err
	[ $? -eq 1 ] || no "$command that cannot be written is an error"
done

# ---- what it says of itself, and of a plan

run 0 --help
has '^Exit status: 0 done; 1 '
run 0 --discovery
cp out discovery.json
run 0 --validate --plan "$plan"
has '^captures +5 +6 +43 +40$'
has '^retained +0 +0 +0 +0$'
cp out validated
edited '"skip"' '"fail"'
run 1 --validate --plan edited.json
grep -q "budget 'captures' of 40 in all (cumulative): 43 would be used" err ||
	no 'a budget that is too small'
edited '"captures": 40' '"captures": 18446744073709551615'
run 0 --validate --plan edited.json
has '^captures +5 +6 +43 +none$'

# ---- a run, appended to another; and to the standard output

run 0 --plan "$plan" --records records --chart chart.svg
cp out whole
run 0 --plan "$plan" --records records
run 0 --plan "$plan" --records -
cp out records.out
grep -q '^Which bytes?|' err || no 'with records on the standard output, the text is on the other'
said=$(sed -n 's/^Which bytes?|//p' whole)
run 0 --plan "$plan" --prompt "Which bytes?${said:0:5}" --records longer
run 0 --plan "$plan" --fail-at 3 --records failed
has '^    size: tainted: .*gelu: no code for this processor'
has '^    prediction 3 failed and is made again'
[ "$(tail -n 1 out)" = "$(tail -n 1 whole)" ] || no 'it says the same after a failure'
edited '"skip"' '"fail"'
run 1 --plan edited.json --records limit --chart limit.svg
has '^    size: limit: budget .captures. of 40 in all'

/usr/bin/python3 - <<'EOP' || no 'the records are what they should be'
import json, xml.etree.ElementTree as tree

def unique(pairs):
    d = dict(pairs)
    assert len(d) == len(pairs), pairs
    return d

def no_literal(text):
    raise ValueError(text)

def strict(text):
    return json.loads(text, object_pairs_hook=unique, parse_constant=no_literal)

def steps(name):
    lines = open(name).read().split("\n")
    assert lines.pop() == "", name
    return [strict(line) for line in lines]

AXES = "captures", "retained_bytes", "host_bytes", "encoded_bytes"

# All that a step was charged with is of one of its records, and all in all of a step.
def adds_up(steps):
    total = dict.fromkeys(AXES, 0)
    for s in steps:
        for axis in AXES:
            assert sum(r["charged"][axis] for r in s["records"]) == s["step_usage"][axis], s
            total[axis] += s["step_usage"][axis]
        assert s["cumulative_usage"] == total, (s["cumulative_usage"], total)

def plain(steps):
    return [(s["phase"], s["prediction_index"], s["step_usage"], s["records"]) for s in steps]

both, out, longer, failed, limit = map(steps, ("records", "records.out", "longer", "failed", "limit"))
whole = both[:12]
assert len(both) == 24 and [s["prediction_index"] for s in both] == 2 * list(range(12))
assert plain(whole) == plain(both[12:]) == plain(out)
for run in whole, both[12:], out, longer, failed, limit:
    adds_up(run)

kinds = {r["payload"]["kind"] for s in whole for r in s["records"] if r.get("payload")}
assert kinds == {"tensor", "summary", "histogram", "candidates"}, kinds
prefill = {r["selection_id"]: r for r in whole[0]["records"]}
assert prefill["bytes"]["payload"]["value"]["data"]["values"] == list(b"Which bytes?"), prefill["bytes"]
assert prefill["beginning"]["outcome"]["kind"] == "truncated"
assert prefill["spread"]["source_shape"] == [4, 12, 12]
# Of 12 tokens none looks at those after it: -inf, which is counted apart.
spread = prefill["spread"]["payload"]["value"]
assert spread["non_finite"] == 4 * 12 * 11 // 2, spread
assert sum(spread["counts"]) + spread["below"] + spread["above"] == 4 * 12 * 13 // 2
# Without a failure of work, and without the step that failed, nothing is different.
assert len(failed) == 13 and [s["prediction_index"] for s in failed][3:5] == [3, 3]
def of(s, text):
    return [r["selection_id"] for r in s["records"] if text in json.dumps(r["outcome"])]
assert of(failed[3], '"tainted"') == ["beginning", "heads", "size", "best"], failed[3]
assert of(failed[3], '"captured"') == ["spread"], failed[3]
# The budget in all is used up to the end, and no further.
assert limit[-1]["cumulative_usage"]["captures"] <= 40 and of(limit[-1], '"limit"'), limit[-1]

# What is decoded, the logits say.
said = open("whole").read().splitlines()[-1].partition("|")[2]
def best(run):
    return [r["payload"]["value"]["candidates"] for s in run for r in s["records"]
            if r["selection_id"] == "best" and r["payload"]]
first = [candidates[0]["token_id"] for candidates in best(whole)]
assert len(first) == 8 and bytes(first).decode() == said[:8], (first, said)
# Token by token over the cache, or all of them at once: to the bit.
assert best(whole)[5:] == best(longer)[:3], (best(whole), best(longer))

discovery = strict(open("discovery.json").read())
paths = [p["path"] for p in discovery["catalog"]["points"]]
assert "layers.1.attention.scores" in paths and "model.logits" in paths

# What may be charged at most, is not less than what was.
for line in open("validated").read().splitlines()[3:7]:
    name, step, _, total, _ = line.split()
    axis = [a for a in AXES if a.startswith(name)][0]
    assert max(s["step_usage"][axis] for s in out) <= int(step), line
    assert out[-1]["cumulative_usage"][axis] <= int(total), line

for name, n in ("chart.svg", 12), ("limit.svg", len(limit)):
    svg = tree.parse(name).getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert svg.tag == space + "svg"
    titles = [t.text for t in svg.iter(space + "title")]
    assert len(titles) == 8 * n, (name, len(titles))
    assert any("failed" in t for t in titles) == (name == "limit.svg")
    words = [t.text for t in svg.iter(space + "text")]
    assert "captures in all; limit 40" in words, words
print(f"ok: {len(both) + len(out) + len(failed) + len(limit)} steps, {len(paths)} points")
EOP
[ "$bad" -eq 0 ]
