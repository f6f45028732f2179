#!/bin/sh
# The guest's own disk by vhost-user: QEMU is the front end, weft's source is a target over NVMe/TCP, and weft is killed and started again
# under load. Verified I/O, an xfs with the programs of this guest as root, discard, write zeroes: nothing fails, nothing is lost.
# lab: files=weft disk=vhost-user modules=virtio_blk,xfs,ext4 pkgs=fio,xfsprogs,e2fsprogs,util-linux timeout=400 mem=768
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the kernel has no such target"
disk=/dev/vda
wait_for 30 test -b $disk || fail "there is no disk"
expect "the size" "$(cat /sys/block/vda/size)" 1048576
[ "$(ls -d /sys/block/vda/mq/* | wc -l)" -ge 2 ] || fail "the disk has one queue"
serial=$(cat /sys/block/vda/serial)
[ -n "$serial" ] || fail "the disk has no serial number"
# killed COMMAND...: weft is killed three times meanwhile
killed() {
    "$@" >/tmp/killed.out 2>&1 &
    local pid=$! n
    for n in 1 2 3; do
        sleep 2
        kill -0 $pid || fail "it ended before weft was killed: $*"
        # lab/crates/vm/src/disk.rs does it
        printf '\0lab-kill:1 0\n'
    done
    wait $pid || { cat /tmp/killed.out; fail "$*"; }
}
killed fio --name=verify --filename=$disk --size=24m --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 --direct=1 --numjobs=2 \
    --offset_increment=32m --verify=crc32c --do_verify=1 --verify_fatal=1 --rate=2m
note "verified"
blkdiscard -z -o 4194304 -l 1048576 $disk
blkdiscard -o 1048576 -l 1048576 $disk
uncached $disk
zeroes $disk 4194304 1048576 || fail "zeroes are not there"
note "discarded and zeroed"
mkfs.xfs -q -f $disk
mount $disk /mnt
cp -a /usr /lib /lib64 /bin /sbin /etc /mnt/ 2>/dev/null || :
mkdir -p /mnt/lab /mnt/proc /mnt/dev /mnt/tmp
[ ! -d /lab/lib ] || cp -a /lab/lib /mnt/lab/
sync
mount -o bind /dev /mnt/dev
mount -o bind /proc /mnt/proc
(cd /usr && find . -type f -exec sha256sum {} + | sort) >/tmp/sums
uncached $disk
chroot /mnt sh -c 'cd /usr && find . -type f -exec sha256sum {} + | sort' >/tmp/sums.root || fail "the programs on the disk do not run"
cmp /tmp/sums /tmp/sums.root || fail "other programs than were copied"
killed chroot /mnt fio --name=verify --directory=/tmp --size=16m --rw=randwrite --bs=4k --ioengine=psync --fsync=64 --verify=crc32c --do_verify=1 \
    --verify_fatal=1 --rate=1m
umount /mnt/dev /mnt/proc
umount /mnt
xfs_repair -n $disk >/tmp/repair 2>&1 || { cat /tmp/repair; fail "xfs_repair"; }
note "a root of xfs"
expect "the serial number" "$(cat /sys/block/vda/serial)" "$serial"
kernel_is_calm
