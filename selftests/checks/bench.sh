#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# capkm-bench without the module: what is wrong on its command line is said in one line; what
# it prints, its JSON and its SVG tell the same, each figure with as many samples as there have
# to be, each ratio and each verdict what its own numbers make it; the manual has the groups
# and options that it has. What it measures is not judged.

set -u
cd "$(dirname "$0")/../.." || exit
program=$(realpath -m "${O:-build}")/bench/capkm-bench
page=$PWD/Documentation/man/capkm-bench.1
[ -x "$program" ] || {
	echo "no $program; make bench builds it"
	exit 4
}
. selftests/program.sh

# wrong STATUS TEXT ARGUMENT...: one line, nothing else, and no file
wrong() {
	local status=$1 text=$2
	shift 2
	run "$status" "$@"
	[[ $(cat err) == *"$text"* && $(wc -l <err) -eq 1 ]] ||
		no "$*: the error is one line and has: $text"
	[ ! -s out ] || no "$*: prints nothing when it fails"
	if [ -e json ] || [ -e svg ]; then
		no "$*: there is no file"
	fi
}

wrong 2 "no group 'scope'; --list" --only scope --json json
wrong 2 "--transport wants embedded, kernel or all, not 'ioctl'" --transport ioctl --svg svg
wrong 2 "'quick' is not an option; see --help" quick
wrong 2 'unrecognized option' --fast
wrong 2 'requires an argument' --json
wrong 2 'nosuch/json: No such file' --quick --json nosuch/json
if [ ! -e /dev/capkm ]; then
	wrong 1 '/dev/capkm: No such file' --transport kernel --quick
fi
for command in --help --list --version; do
	"$program" "$command" >/dev/full 2>err
	[ $? -eq 1 ] || no "$command that cannot be written is an error"
done

run 0 --version
grep -qx "capkm-bench $(cat "$OLDPWD/VERSION")" out || no 'its version'

# The manual: a group and its words, an option.
run 0 --list
awk '{ name = $1; sub(/^[^ ]+ +/, ""); print name ": " $0 }' out >groups
[ -s groups ] || no 'there are groups'
awk '/^\.SH /{ on = $2 == "GROUPS" } on && /^\.B /{ name = $2; next }
	on && name { print name ": " $0; name = "" }' "$page" | diff groups - >out || no 'the manual has the groups'
run 0 --help
grep -oE '^  --[a-z]+|, --[a-z]+' out | grep -oE -e '--[a-z]+' | sort >options
sed 's/\\-/-/g' "$page" | awk '/^\.SH /{ on = $2 == "OPTIONS" } on && /^\.BI? --/{ print $2 }' |
	sort | diff options - >out || no 'the manual has the options'

# All that it can do, and one part of it.
run 0 --quick --transport embedded --json json --svg svg
cp out table
run 0 --quick --transport embedded --only replay --json part --svg part.svg
cut -d: -f1 groups >names

/usr/bin/python3 - <<'EOP' || no 'the results are what they should be'
import json, xml.etree.ElementTree as tree

def unique(pairs):
    d = dict(pairs)
    assert len(d) == len(pairs), pairs
    return d

def no_literal(text):
    raise ValueError(text)

def strict(name):
    return json.load(open(name), object_pairs_hook=unique, parse_constant=no_literal)

def close(a, b):
    return abs(a - b) <= 1e-4 * abs(b)

def grouped(n):
    return f"{n:,}".replace(",", " ")

whole, part = strict("json"), strict("part")
groups = open("names").read().split()
assert sorted({r["group"] for r in whole["results"]}) == sorted(groups), groups
assert {r["group"] for r in part["results"]} == {"replay"}
assert whole["version"] == 1 and whole["quick"] is True
assert "/dev/null" in whole["machine"]["null_ioctl"], whole["machine"]

seen = {}
for r in whole["results"] + part["results"]:
    least = whole["least_samples"] if r["batch"] > 1 else whole["least_events"]
    assert r["samples"] >= least >= 5, r
    assert 0 <= r["least"] <= r["quartile_low"] <= r["median"] <= r["quartile_high"], r
    assert r["through"].split(",")[0] == "embedded" or not r["through"], r
    if r["unit"] == "ns":
        assert r["median"] > 0 and close(r["ratio"], r["median"] / r["null_ioctl_ns"]), r
for r in whole["results"]:
    key = r["group"], r["operation"], r["through"], r["size"]
    assert key not in seen, key
    seen[key] = r
    if r["operation"] == "null ioctl":
        assert r["ratio"] == 1, r

# What a group is to have at least, with all sizes.
for size in 1, 2, 4, 16:
    r = seen["scopes", "scope", "embedded, submit", size]
    assert r["batch"] % 64 == 0, r
    assert ("scopes", "scope", "embedded, fast", size) in seen, size
for group, operation, sizes in (
        ("scopes", "scope", (1, 2, 4, 16)), ("scopes", "check", (1,)), ("scopes", "skip", (2,)),
        ("scopes", "fail and rewrite", (1,)), ("ranges", "write stale bytes", (10, 100, 1000)),
        ("buffers", "scope over two", (1000,)), ("failures", "skip for one", (1000,)),
        ("release", "close", (1000,)), ("replay", "begin and end", (10, 100, 500, 2000)),
        ("contention", "scopes of threads", (1, 2, 4, 8)), ("memory", "a range", (1000,))):
    for size in sizes:
        assert (group, operation, "embedded", size) in seen, (group, operation, size)

# A range takes at least what says where it is; a buffer, its size; nothing takes pages.
for what in "a buffer", "a range", "a failure with its range":
    assert 16 <= seen["memory", what, "embedded", 1000]["median"] < 4096, what

# The verdicts follow from the values, and those from the results.
by = {(g["goal"], g["through"]): g for g in whole["goals"]}
assert len(by) == len(whole["goals"]) > 10
for g in whole["goals"]:
    assert ("value" in g) == (g["verdict"] != "not_measured"), g
    if "value" in g:
        assert g["verdict"] == ("holds" if g["value"] <= g["at_most"] else "missed"), g
    if g["through"].startswith("ioctl"):
        assert g["verdict"] == "not_measured", g
def agrees(goal, r):
    assert close(by[goal, "embedded"]["value"], r["ratio"]), goal
agrees("clean scope over two buffers", seen["scopes", "scope", "embedded", 2])
agrees("skip", seen["scopes", "skip", "embedded", 2])
agrees("begin and end of a replay, 2 000 claims", seen["replay", "begin and end", "embedded", 2000])
of_replay = {g["goal"] for g in part["goals"] if g["verdict"] != "not_measured"}
assert len(of_replay) == 3 and "begin and end of a replay, 10 claims" in of_replay, of_replay

# The table has each of them.
lines = open("table").read().splitlines()
for r in whole["results"]:
    assert any(l.startswith(r["operation"] + " ") and r["through"] in l and
               (not r["size"] or " " + grouped(r["size"]) + " " in l) for l in lines), r
words = {"holds": "holds", "missed": "missed", "not_measured": "not measured here"}
for g in whole["goals"]:
    assert any(l.startswith(g["goal"] + " ") and " " + g["through"] + " " in l and
               l.endswith(words[g["verdict"]]) for l in lines), g

# A point of the chart for each time that has a size in a group that is drawn.
space = "{http://www.w3.org/2000/svg}"
drawn = {"ranges", "buffers", "failures", "release", "replay", "contention"}
for name, results in ("svg", whole["results"]), ("part.svg", part["results"]):
    svg = tree.parse(name).getroot()
    assert svg.tag == space + "svg"
    points = [t.text for t in svg.iter(space + "title")]
    sized = [r for r in results if r["size"] and r["unit"] == "ns" and r["group"] in drawn]
    assert len(points) == len(sized) > 0, (name, len(points), len(sized))
    for r in sized:
        said = f"{r['operation']}, {r['through']}, {grouped(r['size'])}: {r['ratio']:.4g} null ioctls"
        assert any(p.rsplit(":", 1)[0] == said.rsplit(":", 1)[0] for p in points), said
print(f"ok: {len(seen)} results, {len(by)} goals")
EOP
[ "$bad" -eq 0 ]
