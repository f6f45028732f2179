#!/bin/sh
# Live migration of the guest to another qemu, and to a third, whose disk another weft serves by vhost-user from the same namespace. Meanwhile
# data is written and verified, and a file is read into the page cache: what weft writes into the guest's memory while that is copied goes
# with it. Afterwards that weft is killed, too.
# lab: files=weft disk=vhost-user modules=virtio_blk,xfs pkgs=fio,xfsprogs timeout=300 mem=768
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the kernel has no such target"
disk=/dev/vda
MIB=32
wait_for 30 test -b $disk || fail "there is no disk"
mkfs.xfs -q -f $disk
mount $disk /mnt
dd if=/dev/urandom of=/mnt/0 bs=1M count=$MIB 2>/dev/null
dd if=/dev/urandom of=/mnt/1 bs=1M count=$MIB 2>/dev/null
sync
sums() { sha256sum /mnt/0 /mnt/1; }
sum=$(sums)
# moved: has this machine moved to another qemu (lab/crates/vm/src/migration.rs does it), which says so when it runs there
moved() {
    printf '\0lab-move:1 0\n'
    read -r word <&3
    expect "what the other machine says" "$word" moved
}
# into_cache: reads one file and then the other into the memory that the first one had, until the machine has moved, so that pages change at
# each time of the move
into_cache() {
    local n file=0
    rm -f /tmp/is_there
    until [ -e /tmp/is_there ]; do
        echo 1 >/proc/sys/vm/drop_caches
        n=0
        while [ $n -lt $MIB ] && [ ! -e /tmp/is_there ]; do
            dd if=/mnt/$file of=/dev/null bs=1M count=1 skip=$n 2>/dev/null
            n=$((n + 1))
        done
        file=$((1 - file))
    done
}
for n in 1 2; do
    fio --name=verify --directory=/mnt --size=24m --rw=randwrite --bsrange=4k-64k --ioengine=libaio --iodepth=8 --direct=1 --verify=crc32c \
        --do_verify=1 --verify_fatal=1 --rate=2m >/tmp/fio.out 2>&1 &
    fio=$!
    into_cache &
    reader=$!
    sleep 1
    moved
    touch /tmp/is_there
    wait $reader
    kill -0 $fio || fail "the load ended before the machine had moved"
    expect "the files in memory" "$(sums)" "$sum"
    uncached $disk
    expect "the files on the disk" "$(sums)" "$sum"
    wait $fio || { cat /tmp/fio.out; fail "fio"; }
    note "moved $n times"
done
fio --name=after --directory=/mnt --size=8m --rw=randwrite --bs=16k --ioengine=libaio --iodepth=4 --direct=1 --verify=crc32c --do_verify=1 \
    --verify_fatal=1 --rate=2m >/tmp/fio.out 2>&1 &
fio=$!
sleep 1
printf '\0lab-kill:1 0\n'
wait $fio || { cat /tmp/fio.out; fail "fio after the death of weft"; }
umount /mnt
xfs_repair -n $disk >/tmp/repair 2>&1 || { cat /tmp/repair; fail "xfs_repair"; }
kernel_is_calm
