#!/bin/sh
# Reservations by two hosts, with nvme-cli: the same commands to the kernel's target (Linux 7.x) and to weft, and their answers compared one by
# one. The differences that docs/reservations.md explains are listed here; any other one fails.
# lab: files=weft modules=nvme-tcp,nvmet-tcp,null_blk pkgs=nvme-cli,jq,diffutils kernel=backports timeout=900 long
. /lab/lib.sh
export WEFT_STATE_DIR=/tmp/state

# Each host has a disk of its own: without multipath, as one subsystem for both would share one
rmmod nvmet-tcp nvmet nvme-tcp nvme-fabrics nvme-core || skip "nvme-core cannot be loaded anew, without multipath"
modprobe nvme-core multipath=N
modprobe nvme-tcp

# host N: connects the host N and prints its disk (nvme-cli of this version does not connect two hosts to one subsystem)
host() {
    local id=0000000$1-0000-4000-8000-000000000000 instance
    exec 3<>/dev/nvme-fabrics
    echo "transport=tcp,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$id,hostid=$id" >&3 || return 1
    read -r instance <&3
    exec 3<&-
    instance=${instance#instance=}
    wait_for 30 test -b "/dev/nvme${instance%%,*}n1" || return 1
    echo "/dev/nvme${instance%%,*}n1"
}

# step NAME COMMAND...: notes how the command ended: 0, the status code of NVMe, or what the program said
step() {
    local name=$1 status
    shift
    if "$@" >/tmp/out 2>&1; then
        status=0
    else
        status=$(grep -oE '\(0x[0-9a-f]+\)' /tmp/out | head -n 1 | tr -d '()')
        # without More and Do Not Retry
        if [ -n "$status" ]; then status=$(printf '%x' $((status & 0x7ff))); else status="failed $(head -n 1 /tmp/out)"; fi
    fi
    echo "$name: $status" >>/tmp/answers.$TARGET
}
# value NAME TEXT: notes a value
value() { echo "$1: $2" >>/tmp/answers.$TARGET; }
puts() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct conv=notrunc; }
gets() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct; }
# io NAME DISK: what the host may do
io() {
    local can=
    if gets "$2" >/dev/null 2>&1; then can=r; fi
    if puts "$2" >/dev/null 2>&1; then can=${can}w; fi
    value "$1" "${can:-none}"
}
# report NAME DISK: who is registered and holds
report() {
    if nvme resv-report "$2" --eds -o json >/tmp/json 2>/tmp/out; then
        value "$1" "$(jq -c '[.rtype, .regctl, .ptpls, ([.regctlext[]? | [.rcsts, .rkey]] | sort)]' /tmp/json)"
    else
        value "$1" "$(head -n 1 /tmp/out)"
    fi
}
register() { step "$1" nvme resv-register "$2" --rrega="$3" --crkey="$4" --nrkey="$5" ${6:-}; }
acquire() { step "$1" nvme resv-acquire "$2" --racqa="$3" --rtype="$4" --crkey="$5" --prkey="$6" ${7:-}; }
release() { step "$1" nvme resv-release "$2" --rrela="$3" --rtype="$4" --crkey="$5"; }

# notification DISK: the kind of the next notification, 0: none; it is read by that
notification() { nvme get-log "${1%n[0-9]*}" --log-id=0x80 --log-len=64 -b 2>/dev/null | od -An -t u1 -j 8 -N 1 | tr -d ' '; }
no_notification() { [ "$(notification "$1")" = 0 ]; }

sequence() {
    local a b type
    a=$(host 1) || fail "$TARGET: the first host cannot connect"
    b=$(host 2) || fail "$TARGET: the second host cannot connect"
    value rescap "$(nvme id-ns "$a" -o json | jq .rescap)"
    value oncs-reservations "$(($(nvme id-ctrl "$a" -o json | jq .oncs) >> 5 & 1))"
    report "nobody" "$a"
    step "report of a 64-bit host" nvme resv-report "$a" -o json

    acquire "acquire unregistered" "$b" 0 1 0xb 0
    release "release unregistered" "$b" 0 1 0xb
    register "replace unregistered" "$b" 2 0xb 0xc
    register "unregister unregistered" "$b" 1 0xb 0
    register "register" "$a" 0 0 0xa
    register "register again" "$a" 0 0 0xa
    register "register another key" "$a" 0 0 0xaa
    register "replace with a wrong key" "$a" 2 0xff 0xaa
    register "replace" "$a" 2 0xa 0xaa
    register "replace, key ignored" "$a" 2 0 0xa --iekey
    register "rrega 3" "$a" 3 0xa 0xa
    register "keep through power loss" "$a" 2 0xa 0xa --cptpl=3
    register "forget at power loss" "$a" 2 0xa 0xa --cptpl=2
    register "cptpl 1" "$a" 2 0xa 0xa --cptpl=1
    report "one" "$a"

    acquire "acquire with a wrong key" "$a" 0 1 0xff 0
    acquire "acquire type 0" "$a" 0 0 0xa 0
    acquire "acquire type 7" "$a" 0 7 0xa 0
    acquire "racqa 3" "$a" 3 1 0xa 0
    for type in 1 2 3 4 5 6; do
        acquire "acquire $type" "$a" 0 $type 0xa 0
        acquire "acquire $type again" "$a" 0 $type 0xa 0
        io "holder $type" "$a"
        io "stranger $type" "$b"
        register "register beside $type" "$b" 0 0 0xb
        io "registrant $type" "$b"
        acquire "acquire beside $type" "$b" 0 $type 0xb 0
        acquire "acquire another type than $type" "$a" 0 $((type % 6 + 1)) 0xa 0
        report "held $type" "$a"
        release "release $type by a registrant" "$b" 0 $type 0xb
        register "unregister beside $type" "$b" 1 0xb 0
        report "left $type" "$a"
        release "release another type than $type" "$a" 0 $((type % 6 + 1)) 0xa
        release "release $type" "$a" 0 $type 0xa
        release "release $type again" "$a" 0 $type 0xa
    done

    wait_for 30 no_notification "$a" || fail "$TARGET: the notifications do not end"
    register "register b" "$b" 0 0 0xb
    acquire "reserve to preempt" "$a" 0 1 0xa 0
    acquire "preempt nobody's key" "$b" 1 2 0xb 0xff
    acquire "preempt key zero" "$b" 1 2 0xb 0
    acquire "preempt with a wrong key" "$b" 1 2 0xff 0xa
    acquire "preempt" "$b" 1 2 0xb 0xa
    report "after preempting" "$b"
    io "preempted" "$a"
    io "preempting" "$b"
    value "notification" "$(notification "$a")"
    register "register a" "$a" 0 0 0xa
    acquire "preempt and abort" "$a" 2 3 0xa 0xb
    report "preempted and aborted" "$a"
    register "register b again" "$b" 0 0 0xb
    acquire "preempt a registrant" "$a" 1 3 0xa 0xb
    report "a registrant is gone" "$a"
    register "register b once more" "$b" 0 0 0xb
    acquire "preempt itself" "$a" 1 4 0xa 0xa
    report "another type" "$a"
    release "clear with a wrong key" "$b" 1 4 0xff
    release "clear" "$b" 1 4 0xb
    report "cleared" "$a"
    release "rrela 2" "$a" 2 1 0xa

    register "register a, all" "$a" 0 0 0xa
    register "register b, all" "$b" 0 0 0xb
    acquire "all registrants" "$a" 0 5 0xa 0
    acquire "preempt all" "$b" 1 5 0xb 0
    report "the last one" "$b"
    register "the holder unregisters" "$b" 1 0xb 0
    report "nobody again" "$b"
    register "register, key zero" "$b" 0 0 0
    report "key zero" "$b"
    register "unregister key zero" "$b" 1 0 0
    step "notification mask" nvme get-feature "$a" --feature-id=0x82 --namespace-id=1
    step "persistence" nvme get-feature "$a" --feature-id=0x83 --namespace-id=1
    nvme disconnect -n $NQN >/dev/null
}

TARGET=kernel
RESERVATIONS=1 nvmet_start ram:16MiB
note "nvmet"
sequence
nvmet_clear
TARGET=weft
# the UUID: without one, no reservation of a RAM disk is kept through a loss of power
target_start ram:16MiB,block=4096,uuid=7d0f5c1e-2b8a-4c9d-9e61-3a5f0b7c8d21,volatile=on
note "weft"
sequence
target_stop

note "$(wc -l </tmp/answers.kernel) answers"
awk -F ': ' 'NR == FNR { kernel[$1] = $2; next } kernel[$1] != $2 { print $1 ": " kernel[$1] " | " $2 }' /tmp/answers.kernel /tmp/answers.weft >/tmp/differences
# nvmet's answer, and weft's
cat >/tmp/known <<'END'
rescap: 254 | 255
rrega 3: 1 | 2
cptpl 1: 0 | 2
racqa 3: 1 | 2
release another type than 1: 83 | 2
release another type than 2: 83 | 2
release another type than 3: 83 | 2
release another type than 4: 83 | 2
acquire beside 5: 83 | 0
left 5: [5,1,0,[[1,10]]] | [0,1,0,[[0,10]]]
release another type than 5: 83 | 0
acquire beside 6: 83 | 0
left 6: [6,1,0,[[1,10]]] | [0,1,0,[[0,10]]]
release another type than 6: 83 | 0
rrela 2: 83 | 2
register, key zero: 0 | 2
key zero: [0,1,0,[[0,0]]] | [0,0,0,[]]
unregister key zero: 0 | 83
persistence: 2 | 0
END
# What nvmet has mended since Linux 7.2: older ones have it
cat >/tmp/mended <<'END'
a registrant is gone: [3,2,0,[[0,11],[1,10]]] | [3,1,0,[[1,10]]]
END
grep -Fvxf /tmp/mended /tmp/differences >/tmp/left
cmp -s /tmp/known /tmp/left || { diff /tmp/known /tmp/left; fail "other differences than are known"; }
kernel_is_sound
