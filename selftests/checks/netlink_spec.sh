#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# The names of Documentation/netlink/specs/capkm.yaml, in their order, are the
# enumerators of include/uapi/linux/capkm_netlink.h, in theirs.

set -eu

cd "$(dirname "$0")/../.."
spec=Documentation/netlink/specs/capkm.yaml
header=include/uapi/linux/capkm_netlink.h

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# "enum: name" and "name = value" lines; both count from 1.
awk '
	function c(name) {
		gsub(/-/, "_", name)
		return toupper(name)
	}
	/^[a-z]/ { part = $1 }
	/^    enum-name:|^  enum-name:/ { sub(/.*: /, ""); gsub(/-/, "_"); print "enum " $0; n = 0 }
	/^    name-prefix:|^  name-prefix:/ { prefix = $2 }
	part == "attribute-sets:" && /^        name: / { print c(prefix $2), ++n }
	part == "operations:" && /^      name: / { print c(prefix $2), ++n }
' "$spec" >"$tmp/spec"

awk '
	/^enum / { print "enum " $2; n = 0 }
	/^\t__/ { n = -1000 }
	/^\tCAPKM_[A-Z_]+( = 1)?,$/ { sub(/[ ,].*/, ""); sub(/^\t/, ""); sub(/,/, ""); print $0, ++n }
' "$header" >"$tmp/header"

[ -s "$tmp/spec" ]
diff -u --label "$spec" --label "$header" "$tmp/spec" "$tmp/header"
echo "ok: $(grep -vc enum "$tmp/spec") names of $spec are in $header"
