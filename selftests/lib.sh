# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Counting test results, for the host and for the virtual machine's busybox.
# The caller has set tmp to a folder for logs.

: "${tmp:?}"

passed=0
failed=0
skipped=0

count() {
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
}

result() {
	echo "$passed passed, $failed failed, $skipped skipped"
}

# tap NAME COMMAND...: run a program that prints TAP, count its points; one that
# dies before it finished its plan, or fails without saying where, is one failure
# more.
tap() {
	name=$1
	shift
	echo "# $name"
	start=$(date +%s)
	{
		rc=0
		"$@" || rc=$?
		echo "$rc" >"$tmp/rc"
	} 2>&1 | tee "$tmp/log"
	rc=$(cat "$tmp/rc")
	counts=$(awk -v rc="$rc" '
		/^1\.\.[0-9]+/		{ plan = substr($1, 4); planned = 1 }
		/^1\.\.0.*# *[Ss][Kk][Ii][Pp]/	{ skip++; plan = 1 }
		/^ok .*# *[Ss][Kk][Ii][Pp]/	{ skip++; next }
		/^ok /			{ pass++ }
		/^not ok .*# *[Ss][Kk][Ii][Pp]/	{ skip++; next }
		/^not ok /		{ fail++ }
		END {
			if (!planned || pass + fail + skip != plan ||
			    (rc != 0 && rc != 4 && !fail))
				fail++
			print pass + 0, fail + 0, skip + 0
		}' "$tmp/log")
	# shellcheck disable=SC2086 # three numbers
	count $counts
	echo "# $name: $(($(date +%s) - start)) s"
	case $counts in
	*" 0 "*) ;;
	*) echo "not ok - $name: exit status $rc, passed failed skipped: $counts" ;;
	esac
}

# script NAME COMMAND...: one test; exit status 0 is a pass, 4 a skip.  What it
# printed is shown if it did not pass.
script() {
	name=$1
	shift
	start=$(date +%s)
	rc=0
	"$@" >"$tmp/log" 2>&1 || rc=$?
	echo "# $name: $(($(date +%s) - start)) s"
	case $rc in
	0)
		count 1 0 0
		echo "ok - $name"
		;;
	4)
		count 0 0 1
		sed 's/^/# /' "$tmp/log"
		echo "ok - $name # SKIP"
		;;
	*)
		count 0 1 0
		sed 's/^/# /' "$tmp/log"
		echo "not ok - $name: exit status $rc"
		return 1
		;;
	esac
}
