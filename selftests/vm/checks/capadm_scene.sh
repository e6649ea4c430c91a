#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# capadm where much is not well: "client --scene" holds the domains "training", with a
# chain of five, two orphans on one slot and an open window, "inference", which is
# nearly full, and "old", whose process has ended.

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

hold --scene
read -r training inference old failure first second third <"$tmp/held"

# ---- in one minute

table status
has '^[0-9]+ domains, 3 ailing, '
has "^ *$training +root +orphans, tainted +[0-9]+ +3 +2 +3 +training$"
has "^ *$inference +root +limit +1 .* inference$"
# its name is free
has "^ *$old +root +orphans, reports, defunct +0 +1 +1 +0 *$"
has '^Orphaned windows$'
has "^ *$training/$first +7 +100B .* root +[0-9]+ +client$"
has "^ *$old/$third +7 "
has '^Recent failures$'
has 'gather: illegal "address"$'
has '^Limits that are near$'
has "^ *$inference +- +buffers +10 +10 +100%$"
has '^What to do$'
has '^    capadm abandon --orphans --dry-run$'
has "^    capadm failures --tree $training\$"
has "^    capadm domain limit $inference\$"
has "^    capadm failures --reports $old\$"
table
has '^What to do$'
json status status
has '"command": "capadm abandon --orphans --dry-run"'

table domains
has "^ *$old .* defunct "
json domains domains

# ---- who

table sessions
has '^    scopes and replays: [1-9][0-9]* entered, [0-9]+ skipped, [0-9]+ failed$'
has "^ *[0-9]+ +$training +root +1 +7 +1 +0 .* client$"
table sessions --clients training
has "^ *[0-9]+ +$training +root +recording "
lacks " $inference +root "
json sessions sessions training
has '"backend": "[a-z]+"'
has '"entered": [1-9]'
has '"skipped": 5'
json clients sessions --clients
has '"recording": 1'
run 1 capadm sessions nosuch
run 2 capadm sessions training more

# ---- windows

table windows
has "^ *$training/$second +orphaned +7 +7 "
has "^ *$training/[0-9]+ +capture +2 "
has "^ *$old/$third +orphaned "
table windows --orphans training
lacks "^ *$old/"
json windows windows --orphans
has '"parent": 0'
table --bytes windows training
has ' 100 +1 '
table graphs
json graphs graphs training
json buffers buffers training
table --bytes buffers training
has ' 4096 .* logits$'

# ---- failures

table failures training
has "^ *$training +$failure +launch +-700 .* client$"
table failures training "$failure"
lacks owner-died
run 2 capadm failures training x
run 2 capadm failures --tree --dot
run 2 capadm failures --dot --json
run 1 capadm failures --tree nosuch

table failures --tree training "$failure"
has "^failure $failure of domain $training: launch, code -700: gather: illegal \"address\"$"
has '^    .* by client \(pid [0-9]+\) of root, on stream 1$'
has '^    5 times work was skipped for it; 0 of these are forgotten$'
has '^`- buffer [0-9]+ \(embedding\), bytes 0 to 100$'
has '^   `- layer 1 was skipped: buffer [0-9]+ \(layer 1\), bytes 0 to 4096$'
has '^ {15}`- logits was skipped: buffer [0-9]+ \(logits\), bytes 0 to 4096$'
[ "$(wc -l <"$tmp/out")" -eq 9 ] || no "a tree of nine lines"
table failures --tree
has owner-died
table failures --tree --reports "$old"
has 'private to the dead'
table failures --tree inference
has '^no failures$'
json failures failures --tree training "$failure"
has '"label": "logits"'
has '"skips": 5'
run 0 capadm failures --dot training
has '^digraph failures \{$'
has "\"f$training\\.$failure\" \\[label=\"launch, .*illegal \\\\\"address\\\\\"\", shape=box, color=red\\];"
has '^\}$'
[ "$(grep -c ' -> ' "$tmp/out")" -ge 6 ] || no "an arrow for each buffer of the chain"
cp "$tmp/out" /run/capadm-json/failures.dot

# ---- taint

logits=$(capadm buffers training | awk '/ logits$/ { print $2 }')
table taint training "$logits"
has "^ *0 +4096 +4\\.0K +tainted +$failure +launch, code -700: gather: illegal"
embedding=$(capadm buffers training | awk '/ embedding$/ { print $2 }')
table taint training "$embedding" 0x64 1K
has "^buffer $embedding of domain $training is clean there$"
run 1 capadm taint training "$logits" 4K 1
json taint taint "$training" "$logits" 0x10 16
has '"start": 16'
has '"end": 32'
has '"cause": *\{'
run 1 capadm taint training 987654321
run 1 capadm taint nosuch 1
run 2 capadm taint training
run 2 capadm taint training "$logits" 0
complains 'right is: capadm taint training [0-9]+ 0 LENGTH'
run 2 capadm taint training "$logits" 0 0
run 2 capadm taint training "$logits" 0 1Q
complains '1Q is no length; right is a number of bytes, as 4096, 0x1000 or 4K'
run 2 capadm taint training "$logits" -1 1
run 2 capadm taint training "$logits" 16E 1

# ---- limits

table domain limit inference
has "^ *$inference +- +buffers +10 +10 +100%$"
table domain limit inference buffers
[ "$(wc -l <"$tmp/out")" -eq 2 ] || no "one limit"
json limit_set domain limit inference buffers 20
table domain limit inference buffers
has ' 20 +10 +50%$'
table status
lacks "domain limit"
json limits domain limit inference
has '"limit": "open_windows"'
table domain limit --defaults
has '^ *- +- +sessions +4096 +- '
table domain limit --users
has ' root +domains +1024 +3 '
run 2 capadm domain limit inference puffers
complains 'there is no limit puffers; right is one of: domains, defunct, '
run 2 capadm domain limit inference buffers many
complains 'many is no limit; right is a number from 0 to '
run 2 capadm domain limit --users --defaults
run 1 capadm domain limit inference events 5
as_nobody 1 domain limit "$inference" buffers 5
as_nobody 0 domain limit --users

# ---- domains

json domain_created domain create --mode 0640 --uid nobody made
has '"name": "made"'
table domains
has 'nobody +0640 +persistent .* made$'
as_nobody 0 domain limit made
run 1 capadm domain create --uid nobody made
complains '^capadm: cannot create the domain made: '
# A name is one user's: root, who has none of it, has to say which, unless there is one.
run 0 capadm domain create --uid nobody twin
run 0 capadm domain create --uid 12345 twin
run 1 capadm windows twin
complains '2 users have a domain named twin; give its id'
run 1 capadm domain rm twin
complains '2 users have a domain named twin'
as_nobody 0 domain rm twin
run 0 capadm domain rm twin
run 2 capadm domain create 12
complains 'would be taken for an id'
run 2 capadm domain create a/b
run 2 capadm domain create --mode 0999 x
complains '0999 is no mode of a domain; right are octal digits out of 0666'
run 2 capadm domain create --uid nosuchuser x
run 2 capadm domain create
run 2 capadm domain
complains 'domain is a group of commands; right is one of: domain create, domain rm, domain limit'
run 2 capadm domain frob
as_nobody 1 domain create --uid root mine
as_nobody 0 domain create mine
as_nobody 0 domain rm mine
run 1 capadm domain rm inference
complains '^capadm: cannot remove domain [0-9]+: '
json domain_removed domain rm made
run 1 capadm domain rm made
complains 'no domain is named made'
table domain rm --force inference
has "^domain $inference is removed$"
table domains
lacks ' inference$'

# ---- a device

gpu=0123abcd-4567-89ab-cdef-0123456789ab
table device-fault --code -7 --text 'fell off the bus' "$gpu"
has "^device $gpu is lost for 0 processes that use it$"
json device_fault device-fault "GPU-$gpu"
has '"clients": 0'
run 2 capadm device-fault "$gpu-"
complains 'is no UUID of a device; right is xxxxxxxx-xxxx-'
run 2 capadm device-fault 0
run 2 capadm device-fault --code x "$gpu"
run 1 capadm device-fault 00000000-0000-0000-0000-000000000000
as_nobody 1 device-fault "$gpu"

# ---- abandon

run 1 capadm abandon training 7
complains "2 windows are on slot 7 of domain $training, .*: $training/$first, $training/$second$"
table abandon --dry-run training 2
has '^ *[0-9/]+ +capture '
has '^1 window would be abandoned$'
table abandon --dry-run --orphans
has '^3 windows would be abandoned$'
json abandon abandon --dry-run --orphans training
has '"dry_run": true'
pid=$(capadm windows training | awk -v w="$training/$first" '$1 == w { print $(NF - 1) }')
table abandon --pid "$pid"
has "^window $training/$first is abandoned$"
has '^1 abandoned, 0 already gone$'
run 1 capadm abandon "training/$first"
table abandon training 7
has "^window $training/$second is abandoned$"
as_nobody 0 abandon --orphans
has '^0 abandoned, 0 already gone$'
json abandon abandon --orphans
has "\"id\": $third"
table windows
lacks orphaned
table status
lacks 'Orphaned windows'

# The bodies of a window go with it, and count as abandoned.
/selftests/programs/client --bodies >"$tmp/bodies" &
second=$!
soon 200 test -s "$tmp/bodies"
read -r bodies parent child pid window body <"$tmp/bodies"
table abandon --dry-run --orphans bodies
has "^ *$bodies/$child +orphaned"
has '^2 windows would be abandoned$'
table abandon --orphans bodies
has "^window $bodies/$parent is abandoned$"
has "^window $bodies/$child is abandoned"
has '^2 abandoned, 0 already gone$'
table abandon --pid "$pid" bodies
has "^window $bodies/$window is abandoned$"
has "^window $bodies/$body is abandoned, with its parent$"
has '^2 abandoned, 0 already gone$'
table windows bodies
lacks "^ *$bodies/"
kill -9 "$second"

all_so
