#!/bin/sh
# nvme-cli on weft: discovery, connect-all, identify, every log page that the controller says it
# has, every feature that it must have, properties.
# lab: files=weft modules=nvme-tcp pkgs=nvme-cli,jq timeout=240
. /lab/lib.sh
target_start ram:16MiB ram:32MiB

nvme discover -t tcp -a $ADDR -s $PORT -o json >/tmp/discovery || fail "nvme discover"
satisfies /tmp/discovery '[.records[] | select(.subnqn == $nqn)] | length == 1 and
    (.[0] | .trtype == "tcp" and .trsvcid == $port and .subtype == "nvme subsystem")'
nvme connect-all -t tcp -a $ADDR -s $PORT || fail "nvme connect-all"
wait_for 30 nvme_disk 2 || fail "connect-all made no disks"
disk=$(nvme_disk 1) ctrl=$(nvme_ctrl)
dev=/dev/$ctrl
note "connected by connect-all"

# json COMMAND DEVICE EXPRESSION: nvme-cli's JSON satisfies jq's expression
json() {
    nvme "$1" "$2" -o json >/tmp/json 2>/tmp/said || { cat /tmp/said; fail "nvme $1"; }
    satisfies /tmp/json "$3"
}
json id-ctrl $dev '.subnqn == $nqn and .cntlid > 0 and .cntlid < 65520 and .nn >= 2 and (.sgls % 4) > 0'
json id-ctrl $dev '.ioccsz >= 4 and .iorcsz == 1 and .ver >= 66304 and .kas >= 0 and (.sqes % 16) <= 6'
json list-ns $dev '[.nsid_list[].nsid] == [1, 2]'
json id-ns "$disk" '.nsze * pow(2; .lbafs[.flbas % 16].ds) == 16777216 and .nuse <= .nsze'
json id-ns "$(nvme_disk 2)" '.nsze * pow(2; .lbafs[.flbas % 16].ds) == 33554432'
json ns-descs "$disk" '[.. | .uuid? // empty] | length == 1'
uuid=$(jq -r '.. | .uuid? // empty' /tmp/json)
expect "the namespace's UUID" "$uuid" "$(cat /sys/block/"${disk##*/}"/uuid)"
nvme list -o json >/tmp/json
satisfies /tmp/json '[.. | .DevicePath? // empty] | length == 2'
note "identify"

# log pages: page 0 says which there are, four bytes each, bit 0 set
pages=2
if nvme get-log $dev --log-id=0 --log-len=1024 -b >/tmp/supported 2>/tmp/said; then
    pages=$(od -An -v -t u1 -w4 /tmp/supported | awk '$1 % 2 {print NR - 1}')
    for must in 0 1 2 3; do
        echo "$pages" | grep -qx $must || fail "log page $must is not advertised"
    done
elif [ "$TARGET" != kernel ]; then
    cat /tmp/said
    fail "no log page 0"
fi
for page in $pages; do
    nvme get-log $dev --log-id="$page" --log-len=512 -b >/tmp/page 2>/tmp/said || { cat /tmp/said; fail "log page $page"; }
    expect "the length of log page $page" "$(stat -c %s /tmp/page)" 512
done
nvme smart-log $dev >/dev/null || fail "nvme smart-log"
nvme fw-log $dev >/dev/null || fail "nvme fw-log"
nvme error-log $dev -e 1 >/dev/null || fail "nvme error-log"
nvme effects-log $dev >/dev/null 2>&1 || [ "$TARGET" = kernel ] || fail "nvme effects-log"
if nvme get-log $dev --log-id=0x7e --log-len=512 >/tmp/said 2>&1; then fail "log page 7Eh exists"; fi
grep -qiE "log page|invalid field" /tmp/said || { cat /tmp/said; fail "log page 7Eh: another error"; }
note "log pages:" $pages

# features: arbitration, power management, temperature threshold, error recovery, number of queues, write atomicity,
# asynchronous events, keep alive; of these nvmet has fewer
features="1 2 4 5 7 10 11 15"
[ "$TARGET" != kernel ] || features="7 11 15"
for feature in $features; do
    # error recovery is set for each namespace, the others for the controller
    [ "$feature" = 5 ] && nsid=1 || nsid=0
    nvme get-feature $dev --feature-id="$feature" --namespace-id=$nsid >/tmp/said 2>&1 || { cat /tmp/said; fail "feature $feature"; }
done
if nvme get-feature $dev --feature-id=0x7d >/tmp/said 2>&1; then fail "feature 7Dh exists"; fi
grep -qi "invalid" /tmp/said || { cat /tmp/said; fail "feature 7Dh: another error"; }
note "features: $features"

# nvme-cli 2.3 reads registers that no fabric has too, and gives up where the answer is more than a bare Invalid Field
nvme show-regs $dev >/tmp/regs 2>&1 || note "show-regs gave up at a register that fabrics lack"
property() { nvme get-property $dev --offset=$1 -H >/tmp/regs && grep -q "$2" /tmp/regs || { cat /tmp/regs; fail "property $1: no $2"; }; }
property 0x0 "Maximum Queue Entries Supported"
property 0x8 "[Vv]ersion"
property 0x14 "(EN): Yes"
property 0x1c "(RDY): Yes"
# as many Asynchronous Event Requests as the controller bears (the kernel has one outstanding), then one more
limit=$(nvme id-ctrl $dev -o json | jq .aerl)
for i in $(seq 0 "$limit"); do
    nvme admin-passthru $dev --opcode=0x0c --timeout=60000 >/tmp/event.$i 2>&1 &
done
one_refused() { cat /tmp/event.* | grep -qi limit; }
wait_for 30 one_refused || { cat /tmp/event.*; fail "no limit of event requests"; }
expect "the number of refused event requests" "$(cat /tmp/event.* | grep -ci limit)" 1
nvme reset $dev || fail "reset with event requests outstanding"
note "$((limit + 1)) event requests, and not one more"
# an opcode that is none
if nvme admin-passthru $dev --opcode=0x5c >/tmp/said 2>&1; then fail "opcode 5Ch works"; fi
grep -qi "opcode" /tmp/said || { cat /tmp/said; fail "opcode 5Ch: another error"; }
kernel_is_calm
disconnect
target_stop
