#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# A strict parser reads what capadm metrics prints: here without an authority or, given
# files, what was brought along from a machine that has one.
#   openmetrics.sh [OPENMETRICS TEXTFILE]

set -eu
cd "$(dirname "$0")/../.."
capadm=$(realpath -m "${O:-build}")/tools/capadm
/usr/bin/python3 -c 'import prometheus_client' 2>/dev/null || exit 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

if [ $# -eq 0 ]; then
	[ -x "$capadm" ] || exit 4
	"$capadm" metrics >"$tmp/metrics"
	"$capadm" metrics --textfile "$tmp/capkm.prom"
	set -- "$tmp/metrics" "$tmp/capkm.prom"
fi
/usr/bin/python3 - "$1" "$2" <<'EOP'
import sys
from prometheus_client import parser
import prometheus_client.openmetrics.parser as strict

def samples(families):
    return {(s.name, tuple(sorted(s.labels.items()))): s.value
            for f in families for s in f.samples}

new = samples(strict.text_string_to_metric_families(open(sys.argv[1]).read()))
old = samples(parser.text_string_to_metric_families(open(sys.argv[2]).read()))
assert ("capkm_up", ()) in new
assert new.keys() == old.keys(), new.keys() ^ old.keys()
print(f"ok: {len(new)} samples, the same in both formats")
EOP
