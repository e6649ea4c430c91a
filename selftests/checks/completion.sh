#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
#
# What capadm prints for shells completes commands, groups, options, their values and names
# of domains: in bash and, for real, in zsh and fish.  No name does harm.

set -u
cd "$(dirname "$0")/../.." || exit
capadm=$(realpath -m "${O:-build}")/tools/capadm
[ -x "$capadm" ] || exit 4
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

wrong() {
	echo "$*"
	failed=1
}

# As if there were a module, with a domain of each sort of name.
mkdir "$tmp/bin" "$tmp/module" "$tmp/functions"
cat >"$tmp/bin/capadm" <<'EOF'
#!/bin/sh
cat <<'END'
{ "schema": 1, "domains": [
      "id": 3,
      "name": "harmless.1",
      "id": 4,
      "name": "-option",
      "id": 5,
      "name": "harm$(touch harm)`touch harm`;touch harm",
      "id": 6,
      "name": ""
END
EOF
chmod +x "$tmp/bin/capadm"
PATH=$tmp/bin:$PATH

for shell in bash zsh fish; do
	"$capadm" completion "$shell" >"$tmp/$shell" || failed=1
	grep -q /sys/module/capkm "$tmp/$shell" ||
		wrong "$shell: domains are asked for where there is no module"
	sed -i "s|/sys/module/capkm|$tmp/module|g" "$tmp/$shell"
	command -v "$shell" >/dev/null || continue
	"$shell" -n "$tmp/$shell" || failed=1
done
# shellcheck source=/dev/null
. "$tmp/bash"

# completes WORDS... -- WHAT...: behind the last word, all of these are offered
completes() {
	COMP_WORDS=() COMPREPLY=()
	while [ "$1" != -- ]; do
		COMP_WORDS+=("$1")
		shift
	done
	shift
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	_capadm
	[ "${COMPREPLY[*]}" = "$*" ] ||
		wrong "${COMP_WORDS[*]}: '${COMPREPLY[*]}', and not '$*'"
}

completes capadm mon -- monitor
completes capadm he -- health
completes capadm --json me -- metrics
completes capadm domain c -- create
completes capadm domain create --mo -- --mode
completes capadm monitor --fail -- --failures
completes capadm monitor --count 3 --fa -- --failures
completes capadm top --in -- --interval
completes capadm top --interval '' --
completes capadm metrics --textfile READ -- README.md
completes capadm version x --
completes capadm nosuch '' --
completes capadm windows har -- harmless.1
completes capadm windows '' -- 3 harmless.1 4 5 6

# Each command that is not hidden is offered, and nothing else.
"$capadm" commands | awk -F '\t' '$1 == "command" { sub(/ .*/, "", $2); print $2 }' |
	sort -u >"$tmp/all"
COMP_WORDS=(capadm '') COMP_CWORD=1
_capadm
printf '%s\n' "${COMPREPLY[@]}" | sort | diff "$tmp/all" - || failed=1

# What is typed, and the only word that can come of it.
words='mon monitor
he health
domain|c create
domain|create|--mo --mode
monitor|--fail --failures
monitor|--count|3|--fail --failures
windows|har harmless.1
abandon|--orph --orphans'

# What fish offers behind $1.
in_fish() {
	HOME=$tmp timeout 60 fish -N -c "source $tmp/fish; complete -C '$1'" | cut -f 1
}

if command -v fish >/dev/null; then
	while read -r typed word; do
		got=$(in_fish "capadm ${typed//|/ }")
		[ "$got" = "$word" ] || wrong "fish: $typed becomes '$got', and not '$word'"
	done <<<"$words"
	in_fish 'capadm ' | sort | diff "$tmp/all" - || failed=1
	in_fish 'capadm windows ' | sort | diff <(printf '%s\n' 3 4 5 6 harmless.1) - || failed=1
fi

if command -v zsh >/dev/null; then
	cp "$tmp/zsh" "$tmp/functions/_capadm"
	timeout 120 /usr/bin/python3 - "$tmp" "$words" <<'EOF' || failed=1
"""Types into a zsh on a terminal; a key of its own tells what the line is then."""
import os
import pty
import sys
import time

tmp, words = sys.argv[1:]
line = os.path.join(tmp, "line")
pid, terminal = pty.fork()
if not pid:
    os.environ.update(HOME=tmp, TERM="dumb", ZDOTDIR=tmp)
    os.execvp("zsh", ["zsh", "-f", "-i"])
os.set_blocking(terminal, False)


def wait_for(path):
    """Its text, when it is there; the terminal is read, lest it be full."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            os.read(terminal, 65536)
        except OSError:
            pass
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                return f.read().rstrip("\n")
        time.sleep(0.02)
    return "no answer|0"


def typed(text):
    """What became of it: the line, and how many there were to choose from."""
    if os.path.exists(line):
        os.unlink(line)
    os.write(terminal, text.encode() + b"\x18")
    return wait_for(line).split("|")


SETUP = f"""PS1=; fpath=({tmp}/functions $fpath); autoload -U compinit; compinit -u -D
count() {{ matches=$compstate[nmatches] }}
begin() {{ matches=0; comppostfuncs=(count); BUFFER= }}
tell() {{ print -r -- "$BUFFER|$matches" >{line}.new; command mv {line}.new {line}; begin }}
zle -N tell; bindkey '^X' tell; bindkey '^I' complete-word; setopt NO_BEEP; begin
touch {tmp}/ready
"""
os.write(terminal, SETUP.encode())
wait_for(os.path.join(tmp, "ready"))
failed = False
for pair in words.split("\n"):
    given, word = pair.split()
    given = given.split("|")
    got = typed("capadm " + " ".join(given) + "\t")[0].rstrip()
    want = " ".join(["capadm"] + given[:-1] + [word])
    if got != want:
        print(f"zsh: {given} becomes '{got}', and not '{want}'")
        failed = True
with open(os.path.join(tmp, "all"), encoding="utf-8") as f:
    commands = len(f.readlines())
for given, n in (("capadm ", commands), ("capadm windows ", 5)):
    got = typed(given + "\t")[1]
    if got != str(n):
        print(f"zsh: '{given}' offers {got}, and not {n}")
        failed = True
os.write(terminal, b"exit\n")
sys.exit(failed)
EOF
fi

if [ -e harm ] || [ -e "$tmp/harm" ]; then
	wrong "a name of a domain was run"
fi
exit $failed
