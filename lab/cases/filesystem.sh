#!/bin/sh
# The kernel's host on weft: every combination of digests with one and with several I/O queues;
# a file system on one namespace, raw verified I/O of mixed sizes on the next.
# lab: files=weft modules=nvme-tcp,ext4 pkgs=nvme-cli,fio,e2fsprogs,diffutils timeout=240
. /lab/lib.sh
target_start ram:48MiB ram:24MiB ram:8MiB

# the third namespace holds what must not change
head -c 8m /dev/urandom >/tmp/third
connect
wait_for 30 nvme_disk 3
dd if=/tmp/third of="$(nvme_disk 3)" bs=256k oflag=direct status=none
disconnect

round() { # queues, options of connect
    local queues=$1
    shift
    connect "$@"
    expect "the number of queues with $*" "$(cat /sys/class/nvme/"$ctrl"/queue_count)" $((queues + 1))
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
    fio_verify /mnt/file 2m
    umount /mnt
    e2fsck -f -n "$disk" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
    fio_verify "$(nvme_disk 2)" 6m --bsrange=4k-128k --iodepth=8
    cmp /tmp/third "$(nvme_disk 3)" || fail "namespace 3 changed"
    disconnect
    note "$queues queues $*"
}
for digests in "" --hdr-digest --data-digest "--hdr-digest --data-digest"; do
    round 1 --nr-io-queues=1 $digests
    round 2 --nr-io-queues=2 $digests
done
# queues of their own for writes and for polled I/O
round 5 --nr-io-queues=2 --nr-write-queues=2 --nr-poll-queues=1
kernel_is_calm
target_stop
