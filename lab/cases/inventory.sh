#!/bin/sh
# What is served changes while the kernel's NVMe host and iSCSI initiator are connected and busy: a namespace that grows, one that is
# added and removed, nvme list-ns and discover, a new LUN after a rescan, and what becomes of those who are denied.
# lab: files=weft,../iscsi.sh modules=nvme-tcp,iscsi_tcp,sd_mod,crc32c_generic pkgs=nvme-cli,jq,open-iscsi,fio timeout=240
. /lab/lib.sh
. /lab/iscsi.sh
[ "$TARGET" != kernel ] || skip "the orders are weft's"

rm -f /tmp/orders
mkfifo /tmp/orders
: >/tmp/target.log
/lab/weft serve ram:32MiB --listen nvme+tcp://$ADDR:$PORT --nqn $NQN --listen iscsi://$PORTAL --iqn $IQN --until-eof \
    </tmp/orders >/tmp/target.log 2>&1 &
target_pid=$!
exec 7>/tmp/orders
wait_for 30 grep -q '^listening on iscsi://' /tmp/target.log || fail "weft serve does not listen"

answers() { [ "$(grep -c '^inventory: ' /tmp/target.log)" -ge "$1" ]; }
# order WORD...: changes what is served, and waits until that is known
order() {
    local next=$(($(grep -c '^inventory: ' /tmp/target.log || :) + 1))
    echo "inventory $*" >&7
    wait_for 30 answers $next || fail "no answer to: $*"
    ! grep '^inventory: cannot' /tmp/target.log || fail "the order failed: $*"
}
# has_blocks DISK COUNT
has_blocks() { [ "$(cat /sys/block/"${1##*/}"/size)" = "$2" ]; }
lists() { nvme list-ns /dev/"$ctrl" -o json >/tmp/json && satisfies /tmp/json "[.nsid_list[].nsid] == $1"; }

order resize 1 40000
connect
has_blocks "$disk" 40000 || fail "the disk has $(cat /sys/block/"${disk##*/}"/size) blocks"
fio_load
order resize 1 50000
wait_for 30 has_blocks "$disk" 50000 || fail "the host does not see the new size"
fio_goes_on "growing"
lists '[1]'
order add 70000 ram:8MiB
wait_for 30 nvme_disk 70000 || fail "the host does not see the new namespace"
lists '[1, 70000]'
fio_verify "$(nvme_disk 70000)" 2m
fio_goes_on "adding"
order remove 70000
gone() { ! nvme_disk 70000; }
wait_for 30 gone || fail "the namespace is still there"
lists '[1]'
fio_goes_on "removing"
fio_stop "the inventory changed"
nvme discover -t tcp -a $ADDR -s $PORT -o json >/tmp/discovery || fail "nvme discover"
satisfies /tmp/discovery '[.records[] | select(.subnqn == $nqn)] | length == 1'
note "NVMe: grown, added, removed"

order deny
lost() { ! is_live; }
wait_for 30 lost || fail "a host that is denied is still connected"
nvme discover -t tcp -a $ADDR -s $PORT -o json >/tmp/discovery || fail "nvme discover"
satisfies /tmp/discovery '[.records[]? | select(.subnqn == $nqn)] | length == 0'
order allow
disconnect
note "NVMe: denied"

iscsid_start
discover
login
has_blocks "$disk" 50000 || fail "the LUN has $(cat /sys/block/"${disk##*/}"/size) blocks"
order add 2 ram:8MiB
iscsiadm -m session --rescan >/dev/null || fail "rescan"
wait_for 30 scsi_disk 1 || fail "no new LUN after a rescan"
fio_verify "$(scsi_disk 1)" 2m
order resize 1 60000
iscsiadm -m session --rescan >/dev/null || fail "rescan"
wait_for 30 has_blocks "$disk" 60000 || fail "the initiator does not see the new size"
logout
note "iSCSI: a new LUN, and a larger one"

target_stop
