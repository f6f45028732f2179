#!/bin/sh
# Reservations of one namespace by NVMe and iSCSI: nvme-cli and sg_persist exclude each other; the calls of fence_scsi; preempt and
# abort; the state outlasts the death of the target.
# lab: files=weft,../iscsi.sh modules=nvme-tcp,iscsi_tcp,sd_mod,sg pkgs=nvme-cli,open-iscsi,sg3-utils,jq,diffutils timeout=300
. /lab/lib.sh
. /lab/iscsi.sh
[ "$TARGET" != kernel ] || skip "the kernel has no target of both protocols"
export WEFT_STATE_DIR=/tmp/state

serve() {
    : >/tmp/target.log
    /lab/weft serve "$(file_source /tmp/image 512)" --listen nvme+tcp://$ADDR:$PORT --nqn $NQN --listen iscsi://$PORTAL --iqn $IQN >/tmp/target.log 2>&1 &
    target_pid=$!
    wait_for 30 grep -q '^listening on iscsi://' /tmp/target.log || fail "weft serve does not listen"
}
truncate -s 16M /tmp/image
serve
connect
nvme=$disk
iscsid_start
discover
login
scsi=$disk

# says PATTERN COMMAND...: it succeeds, and its output has the pattern
says() {
    local pattern=$1
    shift
    "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$*"; }
    grep -qiE -e "$pattern" /tmp/said || { cat /tmp/said; fail "$* does not say $pattern"; }
}
pr() { sg_persist "$@" "$scsi"; }
puts() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct conv=notrunc; }
gets() { dd if="$1" of=/dev/null bs=4096 count=1 iflag=direct; }
# report EXPRESSION: the report satisfies jq's expression
report() {
    nvme resv-report "$nvme" --eds -o json >/tmp/json 2>/tmp/said || { cat /tmp/said; fail "nvme resv-report"; }
    satisfies /tmp/json "$1"
}

nvme id-ns "$nvme" -o json >/tmp/json
satisfies /tmp/json '.rescap == 255'
says 'Persist Through Power Loss Capable\(PTPL_C\): 1' pr --in --report-capabilities
report '.regctl == 0 and .rtype == 0'

# fence_scsi: each node registers, one reserves (5: write exclusive, registrants only)
says . pr --out --register --param-sark=0x5c51
says . pr --out --reserve --param-rk=0x5c51 --prout-type=5
refuses puts "$nvme"
gets "$nvme" 2>/dev/null || fail "the host cannot read under write exclusive"
puts "$scsi" 2>/dev/null || fail "the holder cannot write"
report '.regctl == 1 and .rtype == 3'
note "the initiator keeps the host out"

refuses nvme resv-acquire "$nvme" --crkey=0xabc --rtype=1 --racqa=0
nvme resv-register "$nvme" --nrkey=0xabc --rrega=0 --cptpl=3 || fail "nvme resv-register"
puts "$nvme" 2>/dev/null || fail "a registrant cannot write"
refuses nvme resv-acquire "$nvme" --crkey=0xabc --rtype=2 --racqa=0
nvme resv-acquire "$nvme" --crkey=0xabc --prkey=0x5c51 --rtype=2 --racqa=2 || fail "preempt and abort"
sg_turs "$scsi" >/dev/null 2>&1 || :
refuses puts "$scsi"
refuses gets "$scsi"
puts "$nvme" 2>/dev/null || fail "the new holder cannot write"
says '0xabc' pr --in --read-reservation
says 'Exclusive Access' pr --in --read-reservation
report '.regctl == 1 and .rtype == 2 and .ptpls == 1'
note "the host keeps the initiator out"

# It outlasts the death of the target.
target_kill
serve
wait_for 60 is_live || fail "the host does not come back"
wait_for 60 gets "$nvme" || fail "the holder cannot read"
report '.regctl == 1 and .rtype == 2'
wait_for 60 sg_turs "$scsi" || fail "the initiator does not come back"
refuses gets "$scsi"
note "kept through the death of the target"

# fence_scsi's other half: the initiator takes it back, and the host is out
says . pr --out --register-ignore --param-sark=0x5c52
says . pr --out --preempt-abort --param-rk=0x5c52 --param-sark=0xabc --prout-type=5
refuses puts "$nvme"
puts "$scsi" 2>/dev/null || fail "the new holder cannot write"
nvme get-log "${nvme%n[0-9]*}" --log-id=0x80 --log-len=64 -b >/tmp/page || fail "the log page of notifications"
expect "the notification" "$(od -An -t u1 -j 8 -N 1 /tmp/page | tr -d ' ')" 1
says . pr --out --clear --param-rk=0x5c52
puts "$nvme" 2>/dev/null || fail "the host cannot write after all is cleared"
report '.regctl == 0'
note "taken back and cleared"

nvme resv-register "$nvme" --nrkey=7 --rrega=0 || fail "nvme resv-register"
nvme resv-register "$nvme" --crkey=7 --nrkey=8 --rrega=2 || fail "another key"
nvme resv-acquire "$nvme" --crkey=8 --rtype=5 --racqa=0 || fail "nvme resv-acquire"
report '.rtype == 5'
nvme resv-release "$nvme" --crkey=8 --rtype=5 --rrela=0 || fail "nvme resv-release"
nvme resv-register "$nvme" --crkey=8 --rrega=1 || fail "nvme resv-register, unregister"
report '.regctl == 0 and .rtype == 0'

logout
disconnect
target_stop
kernel_is_sound
