#!/bin/sh
# nvme-cli reads what the target logs: ANA states as they change, namespaces that have changed, and errors that it provoked, with the queue, the block,
# the namespace and the parameter at fault.
# lab: files=weft modules=nvme-tcp,dm-mod,loop pkgs=nvme-cli,jq,dmsetup,mount timeout=240
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the orders are weft's"
export WEFT_RUNTIME_DIR=/tmp/run WEFT_STATE_DIR=/tmp/state

export DM_DISABLE_UDEV=1
# A disk whose last mebibyte cannot be read or written.

truncate -s 8M /tmp/image
loop=$(losetup -f --show /tmp/image)
{ echo "0 14336 linear $loop 0"; echo "14336 2048 error"; } | dmsetup create bad
target_start ram:16MiB /dev/mapper/bad --control near
connect
wait_for 30 nvme_disk 2
dev=/dev/$ctrl
managed() { /lab/weft "$@" --control near >/tmp/said 2>&1 || { cat /tmp/said; fail "weft $*"; }; }
# log NAME EXPRESSION: nvme-cli's JSON of a log page satisfies jq's expression
log() {
    nvme "$1" $dev -o json >/tmp/json 2>/tmp/said || { cat /tmp/said; fail "nvme $1"; }
    satisfies /tmp/json "$2"
}

states='[."ANA DESC LIST "[] | select(.grpid == 1) | .state]'
log ana-log "$states == [\"optimized\"]"
changes=$(jq .chgcnt /tmp/json)
managed ana set 1 non-optimized
log ana-log "$states == [\"non-optimized\"] and .chgcnt > $changes"
managed ana set 1 optimized
log ana-log "$states == [\"optimized\"]"
note "ana-log"

# The kernel reads this log itself when it hears of a change: so it is not to hear.
nvme set-feature $dev --feature-id=0x0b --value=0 >/tmp/said 2>&1 || { cat /tmp/said; fail "nvme set-feature"; }
listed() { od -An -v -t u4 -w4 /tmp/page | awk '$1 { printf "%d ", $1 }'; }
taken() { nvme get-log $dev --log-id=4 --log-len=4096 -b >/tmp/page || fail "nvme get-log"; }
taken
managed namespace add ram:8MiB --nsid 7
nvme changed-ns-list-log $dev -b >/tmp/page || fail "nvme changed-ns-list-log"
expect "the changed namespaces" "$(listed)" "7 "
taken
expect "the changed namespaces, which nvme-cli has retained" "$(listed)" "7 "
taken
expect "the changed namespaces after that" "$(listed)" ""
note "changed-ns-list-log"

log error-log '[.errors[] | select(.error_count > 0)] == []'
refuses nvme admin-passthru $dev --opcode=0x5c
refuses nvme read "$disk" --start-block=99999999 --block-count=0 --data-size=4096
bad=$(nvme_disk 2)
refuses dd if=/dev/zero of="$bad" bs=4096 count=1 seek=1900 oflag=direct conv=notrunc
refuses dd if="$bad" of=/dev/null bs=4096 count=1 skip=1900 iflag=direct
# the newest first: Unrecovered Read Error, Write Fault, LBA Out of Range with the parameter at fault, Invalid Command Opcode
# with More, as the log page tells it
log error-log '.errors[] | select(.error_count > 0) | .status_field >= 8192'
fields='[.error_count, .status_field % 2048, .nsid, .lba, .parm_error_location, .sqid > 0]'
log error-log "[.errors[] | select(.error_count > 0) | $fields] == [
    [4, 641, 2, 15200, 65535, true], [3, 640, 2, 15200, 65535, true], [2, 128, 1, 99999999, 40, true], [1, 1, 0, 0, 0, false]]"
log smart-log '.num_err_log_entries == "4"'
note "error-log"
disconnect
target_stop
dmsetup remove bad
losetup -D
kernel_is_sound
