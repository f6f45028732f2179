#!/bin/sh
# Disks of the kernel by ublk: verified I/O, a file system, discard, read-only, and what is said of a mounted disk; killed under
# verified I/O and under a mounted file system, and taken over.
# lab: files=weft modules=ublk_drv,ext4,xfs pkgs=fio,e2fsprogs,xfsprogs,util-linux,diffutils timeout=240 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
truncate -s 64M /tmp/first
truncate -s 320M /tmp/second
serve() { # options of weft serve
    : >/tmp/target.log
    /lab/weft serve "$@" --nqn $NQN >/tmp/target.log 2>&1 &
    target_pid=$!
}
here() { wait_for 30 grep -q "^listening on $1\$" /tmp/target.log || fail "weft serves no $1"; }

# any number, then given ones; the second namespace has blocks of 4096 bytes
serve file:/tmp/first file:/tmp/second,block=4096 --listen ublk: --listen ublk:7/2
here /dev/ublkb7
here /dev/ublkb0
expect "the size" "$(cat /sys/block/ublkb0/size)" 131072
expect "the block size" "$(cat /sys/block/ublkb7/queue/logical_block_size)" 4096
note "two disks"
fio_verify /dev/ublkb0 6m --bsrange=4k-128k --iodepth=8
note "verified"
blkdiscard -o 1048576 -l 1048576 /dev/ublkb0
blkdiscard -z -o 4194304 -l 1048576 /dev/ublkb0
uncached /dev/ublkb0
zeroes /dev/ublkb0 4194304 1048576 || fail "zeroes are not there"
mkfs.xfs -q -f /dev/ublkb7
mount /dev/ublkb7 /mnt
fio_verify /mnt/file 2m
umount /mnt
note "xfs"
kernel_is_calm
target_stop
[ ! -e /dev/ublkb0 ] && [ ! -e /dev/ublkb7 ] && [ ! -e /dev/ublkc0 ] || fail "a disk is left behind"

# read-only
serve readonly:file:/tmp/first --listen ublk:3
here /dev/ublkb3
expect "read-only" "$(cat /sys/block/ublkb3/ro)" 1
refuses dd if=/dev/zero of=/dev/ublkb3 bs=4k count=1 oflag=direct
refuses /lab/weft serve ram:1MiB --listen ublk:3
grep -q 'is served by process' /tmp/said || { cat /tmp/said; fail "why it is refused"; }
target_stop
note "read-only"

# killed under verified I/O
serve file:/tmp/first --listen ublk:1
here /dev/ublkb1
fio --name=verify --filename=/dev/ublkb1 --size=8m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --rate_iops=400 --output=/tmp/fio.out &
fio_pid=$!
disk=/dev/ublkb1
wait_for 30 sh -c '[ "$(cut -c 1-80 /sys/block/ublkb1/stat | awk "{print \$5}")" -gt 300 ]' || fail "fio does not write"
target_kill
note "killed"
serve file:/tmp/first --listen ublk:1
here /dev/ublkb1
note "taken over"
wait $fio_pid || { cat /tmp/fio.out; fail "fio saw the process end"; }
note "verified over the end of a process"

# killed under a mounted file system
mkfs.ext4 -q -F /dev/ublkb1
mount /dev/ublkb1 /mnt
head -c 1m /dev/urandom >/mnt/before
sum=$(sha256sum </mnt/before)
sync
target_kill
head -c 1m /dev/urandom >/mnt/during
serve file:/tmp/first --listen ublk:
here /dev/ublkb1
sync
uncached /dev/ublkb1
expect "content" "$(sha256sum </mnt/before)" "$sum"
fio_verify /mnt/file 2m
grep -q ' /mnt ext4 rw' /proc/mounts || fail "the file system is not writable any more"
note "ext4 over the end of a process"

# a mounted disk stays when weft ends, which says so
kill $target_pid
status=0
wait $target_pid || status=$?
[ $status != 0 ] || fail "no status tells that the disk is mounted"
grep -q 'is mounted at /mnt' /tmp/target.log || { cat /tmp/target.log; fail "why it stays"; }
serve file:/tmp/first --listen ublk:1
here /dev/ublkb1
fio_verify /mnt/file 1m
umount /mnt
e2fsck -f -n /dev/ublkb1 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
kernel_is_sound
target_stop
[ ! -e /dev/ublkb1 ] || fail "the disk is left behind"

# weft connect: what is mounted is not ended; killed, the same command takes the disk up
attach() { /lab/weft connect file:/tmp/first --as ublk --name disk >/tmp/said 2>&1 || { cat /tmp/said; fail "weft connect --as ublk"; }; }
attach
grep -q /dev/ublkb0 /tmp/said && [ -b /dev/ublkb0 ] || { cat /tmp/said; fail "the disk"; }
mount /dev/ublkb0 /mnt
refuses /lab/weft disconnect /dev/ublkb0
grep -q 'is mounted at /mnt' /tmp/said || { cat /tmp/said; fail "why it is not ended"; }
kill -9 "$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' /run/weft/disk.json)"
attach
fio_verify /mnt/file 1m
umount /mnt
/lab/weft disconnect disk
[ ! -e /dev/ublkb0 ] || fail "the disk is there yet"
note "weft connect"

# without the driver
modprobe -r ublk_drv
refuses /lab/weft serve ram:1MiB --listen ublk:
grep -q 'no ublk driver' /tmp/said || { cat /tmp/said; fail "why there is no disk"; }
