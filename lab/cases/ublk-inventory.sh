#!/bin/sh
# What is served changes while it is a disk by ublk: it grows under a mounted ext4, which grows too; a namespace that is removed takes
# its disk away, and the others stay.
# lab: files=weft modules=ublk_drv,ext4 pkgs=fio,e2fsprogs kernel=backports timeout=240 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
rm -f /tmp/orders
mkfifo /tmp/orders
/lab/weft serve ram:64MiB ram:8MiB --nqn $NQN --listen ublk:0/1 --listen ublk:1/2 --until-eof </tmp/orders >/tmp/target.log 2>&1 &
target_pid=$!
exec 7>/tmp/orders
wait_for 30 grep -q '^listening on /dev/ublkb1$' /tmp/target.log || fail "weft does not serve"
answers() { [ "$(grep -c '^inventory: ' /tmp/target.log)" -ge "$1" ]; }
order() {
    local next=$(($(grep -c '^inventory: ' /tmp/target.log || :) + 1))
    echo "inventory $*" >&7
    wait_for 30 answers $next || fail "no answer to: $*"
    ! grep '^inventory: cannot' /tmp/target.log || fail "the order failed: $*"
}
has_blocks() { [ "$(cat /sys/block/"$1"/size)" = "$2" ]; }

order resize 1 65536
wait_for 30 has_blocks ublkb0 65536 || fail "the disk has $(cat /sys/block/ublkb0/size) sectors"
mkfs.ext4 -q -F /dev/ublkb0
mount /dev/ublkb0 /mnt
fio_verify /mnt/file 2m
order resize 1 131072
wait_for 30 has_blocks ublkb0 131072 || fail "the disk has $(cat /sys/block/ublkb0/size) sectors"
resize2fs /dev/ublkb0 >/tmp/said 2>&1 || { cat /tmp/said; fail "resize2fs"; }
fio_verify /mnt/more 8m
note "grown"

order remove 2
gone() { [ ! -e /dev/ublkb1 ]; }
wait_for 30 gone || fail "the disk of a removed namespace is there"
fio_verify /mnt/file 1m
umount /mnt
e2fsck -f -n /dev/ublkb0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
note "removed"
kernel_is_sound
exec 7>&-
wait $target_pid || fail "weft serve ended with status $?"
[ ! -e /dev/ublkb0 ] || fail "a disk is left behind"
