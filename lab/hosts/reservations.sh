#!/bin/sh
# Reservations of one namespace by the hosts of three gateways of a group, which run outside of the virtual machine: nvme-cli as two hosts, sg_persist as
# two initiators, each at gateways of its own. What one reserves at its gateway keeps the others out at all. crates/cli/tests/gateways/kernel.rs starts it.
# Arguments: the ports of gateways a, b and c for NVMe, then those for iSCSI.
# lab: modules=nvme-tcp,iscsi_tcp,sd_mod,sg pkgs=nvme-cli,open-iscsi,sg3-utils,jq files=../iscsi.sh net=1 timeout=300
. /lab/lib.sh
. /lab/iscsi.sh
NQN=nqn.2026-01.example:hall
IQN=iqn.2026-01.example:hall
GATEWAYS=10.0.2.2

# Each connection has a disk of its own: with multipath, all hosts of this kernel would share one.
rmmod nvme-tcp nvme-fabrics nvme-core || skip "nvme-core cannot be loaded anew, without multipath"
modprobe nvme-core multipath=N
modprobe nvme-tcp

id_of() { echo "0000000$1-0000-4000-8000-000000000000"; }
# reported N: its identifier in a report
reported() { id_of "$1" | tr -d -; }
# host N PORT: connects host N, and prints its disk for namespace 1 (nvme-cli of this version does not connect two hosts to one subsystem)
host() {
    local id=$(id_of "$1") instance
    exec 3<>/dev/nvme-fabrics
    echo "transport=tcp,traddr=$GATEWAYS,trsvcid=$2,nqn=$NQN,hostnqn=nqn.2014-08.org.nvmexpress:uuid:$id,hostid=$id" >&3 || return 1
    read -r instance <&3
    exec 3<&-
    instance=${instance#instance=}
    instance=nvme${instance%%,*}
    wait_for 30 first_of "$instance" || return 1
    first_of "$instance"
}
first_of() {
    local d
    for d in /sys/class/nvme/"$1"/nvme*n*; do
        if [ "$(cat "$d/nsid")" = 1 ] && [ -b "/dev/${d##*/}" ]; then echo "/dev/${d##*/}"; return 0; fi
    done
    return 1
}
# initiator NAME PORT: logs in under this name, and prints its disk for LUN 0
initiator() {
    local portal=$GATEWAYS:$2 record="-m node -T $IQN -p $GATEWAYS:$2 -I $1"
    iscsiadm -m iface -I "$1" >/dev/null 2>&1 || {
        iscsiadm -m iface -I "$1" -o new && iscsiadm -m iface -I "$1" -o update -n iface.initiatorname -v "$INITIATOR.$1"
    } >/tmp/said 2>&1 || return 1
    { iscsiadm $record -o new && iscsiadm $record --login; } >/tmp/said 2>&1 || return 1
    wait_for 30 lun_of "$1" "$2" || return 1
    lun_of "$1" "$2"
}
lun_of() {
    local s d
    for s in /sys/class/iscsi_session/session*; do
        [ "$(cat "$s/ifacename")" = "$1" ] && [ "$(cat /sys/class/iscsi_connection/connection"${s##*session}":0/persistent_port)" = "$2" ] || continue
        for d in "$s"/device/target*/*:0/block/*; do
            [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
        done
    done
    return 1
}

puts() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct conv=notrunc; }
gets() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct; }
# may DISK...: each reads and writes
may() {
    local d
    for d; do { gets "$d" && puts "$d"; } 2>/tmp/said || { cat /tmp/said; fail "$d is kept out"; }; done
}
# kept_out DISK...: each is refused because of a reservation
kept_out() {
    local d of
    for d; do
        for of in gets puts; do
            refuses $of "$d"
            grep -q 'Invalid exchange' /tmp/said || { cat /tmp/said; fail "$of $d fails, but by no reservation"; }
        done
    done
}
# says PATTERN COMMAND...: it succeeds, and its output has the pattern
says() {
    local pattern=$1
    shift
    "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$*"; }
    grep -qiE -e "$pattern" /tmp/said || { cat /tmp/said; fail "$* does not say $pattern"; }
}
# conflicts COMMAND...: it is refused because of a reservation
conflicts() {
    refuses "$@"
    grep -qiE 'reservation.conflict' /tmp/said || { cat /tmp/said; fail "$* fails, but by no reservation"; }
}
# report DISK EXPRESSION: the report satisfies jq's expression
report() {
    nvme resv-report "$1" --eds -o json >/tmp/json 2>/tmp/said || { cat /tmp/said; fail "nvme resv-report $1"; }
    satisfies /tmp/json "$2"
}
# asks COMMAND...: it succeeds
asks() { "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$*"; }; }
# told DISK KIND: the next notification of the controller is of this kind
told() { expect "the notification at $1" "$(nvme get-log "${1%n[0-9]*}" --log-id=0x80 --log-len=64 -b | od -An -t u1 -j 8 -N 1 | tr -d ' ')" "$2"; }

x_a=$(host 1 "$1") && x_c=$(host 1 "$3") && y_b=$(host 2 "$2") || fail "a host cannot connect"
iscsid_start
p_a=$(initiator p "$4") && p_c=$(initiator p "$6") && q_b=$(initiator q "$5") || { cat /tmp/said; fail "an initiator cannot log in"; }
may "$x_a" "$x_c" "$y_b" "$p_a" "$p_c" "$q_b"
note "two hosts and two initiators at three gateways"

# Type 4: exclusive access, registrants only.
asks nvme resv-register "$x_a" --nrkey=0xa --rrega=0
asks nvme resv-acquire "$x_a" --crkey=0xa --rtype=4 --racqa=0
may "$x_a" "$x_c"
kept_out "$y_b" "$p_a" "$p_c" "$q_b"
conflicts nvme write "$y_b" --data=/dev/zero --data-size=512 --start-block=0 --block-count=0
conflicts nvme resv-acquire "$y_b" --crkey=0xb --prkey=0xa --rtype=4 --racqa=1
asks nvme resv-register "$y_b" --nrkey=0xb --rrega=0
may "$y_b"
conflicts nvme resv-acquire "$y_b" --crkey=0xb --rtype=4 --racqa=0
report "$x_c" ".rtype == 4 and .regctl == 2 and ([.regctlext[] | [.rcsts, .rkey, .hostid]] | sort) == [[0, 11, \"$(reported 2)\"], [1, 10, \"$(reported 1)\"]]"
asks nvme resv-acquire "$y_b" --crkey=0xb --prkey=0xa --rtype=4 --racqa=2
kept_out "$x_a" "$x_c"
may "$y_b"
told "$x_a" 1
told "$x_c" 1
for disk in "$x_a" "$x_c" "$y_b"; do report "$disk" ".rtype == 4 and ([.regctlext[] | [.rcsts, .rkey]]) == [[1, 11]]"; done
asks nvme resv-release "$y_b" --crkey=0xb --rtype=4 --rrela=0
may "$x_a" "$x_c" "$q_b"
asks nvme resv-register "$y_b" --crkey=0xb --rrega=1
report "$x_c" ".regctl == 0 and .rtype == 0"
note "a host reserved at a, another one preempted it at b and released"

# The same in SCSI's numbers: type 6. Each session is an initiator port, and registers.
asks sg_persist --out --register --param-sark=0x1 "$p_a"
asks sg_persist --out --register --param-sark=0x1 "$p_c"
asks sg_persist --out --reserve --param-rk=0x1 --prout-type=6 "$p_a"
may "$p_a" "$p_c"
kept_out "$q_b" "$x_a" "$y_b"
asks sg_persist --out --register --param-sark=0x2 "$q_b"
may "$q_b"
conflicts sg_persist --out --reserve --param-rk=0x2 --prout-type=6 "$q_b"
says '3 registered' sg_persist --in --read-keys "$p_c"
says "$INITIATOR.q" sg_persist --in --read-full-status "$p_c"
says "$INITIATOR.p" sg_persist --in --read-full-status "$q_b"
asks sg_persist --out --preempt --param-rk=0x2 --param-sark=0x1 --prout-type=6 "$q_b"
for disk in "$p_a" "$p_c"; do sg_turs "$disk" >/dev/null 2>&1 || :; done
kept_out "$p_a" "$p_c"
may "$q_b"
says '1 registered' sg_persist --in --read-keys "$p_c"
says '0x2' sg_persist --in --read-reservation "$p_a"
asks sg_persist --out --release --param-rk=0x2 --prout-type=6 "$q_b"
may "$p_a" "$p_c" "$x_a" "$q_b"
asks sg_persist --out --clear --param-rk=0x2 "$q_b"
says 'there are NO registered' sg_persist --in --read-keys "$p_a"
note "an initiator reserved at a, another one preempted it at b and released"

# Between the protocols, at different gateways.
asks nvme resv-register "$y_b" --nrkey=0xb --rrega=0
asks nvme resv-acquire "$y_b" --crkey=0xb --rtype=2 --racqa=0
kept_out "$p_a" "$p_c" "$q_b" "$x_a"
asks sg_persist --out --register-ignore --param-sark=0x3 "$p_c"
asks sg_persist --out --preempt-abort --param-rk=0x3 --param-sark=0xb --prout-type=3 "$p_c"
kept_out "$y_b" "$x_a" "$p_a"
may "$p_c"
told "$y_b" 1
report "$x_a" ".rtype == 2 and ([.regctlext[] | [.rcsts, .rkey]]) == [[1, 3]]"
asks sg_persist --out --clear --param-rk=0x3 "$p_c"
may "$x_a" "$x_c" "$y_b" "$p_a" "$p_c" "$q_b"
note "an initiator at c preempted a host at b"

asks iscsiadm -m node -T $IQN --logoutall=all
asks nvme disconnect -n $NQN
kernel_is_sound
