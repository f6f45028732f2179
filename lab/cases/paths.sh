#!/bin/sh
# The kernel's host over two weft controllers of one subsystem, each on a network of its own, with a mounted file system under verified I/O:
# networks are cut, ANA states change, a controller is killed and comes back, the namespace grows, another one is added. No I/O error, no mismatch, a clean file system. The longest
# wait of an I/O across each fault is printed.
# lab: files=weft,../paths.sh modules=nvme-tcp,veth,ext4 pkgs=nvme-cli,fio,iproute2,e2fsprogs,mount,util-linux timeout=300
. /lab/lib.sh
. /lab/paths.sh
echo 5 >/sys/module/nvme_core/parameters/io_timeout
echo 5 >/sys/module/nvme_core/parameters/admin_timeout

truncate -s 96M $STORE
networks_start
controller_start 1
controller_start 2
# It grows later.
if [ "$TARGET" != kernel ]; then for n in 1 2; do managed $n namespace resize 1 64MiB; done; fi
path_connect 1
path_connect 2
wait_for 30 nvme_disk 1 || fail "there is no disk"
disk=$(nvme_disk 1)
wait_for 30 lives 2 || fail "there are not two paths"
mkfs.ext4 -q "$disk"
mount "$disk" /mnt

# load WHAT: verified writes to a file until load_end; the log of latencies tells how long the longest took
load() {
    fio --name=load --filename=/mnt/data --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --rate_iops=400 \
        --verify=crc32c --verify_backlog=256 --verify_fatal=1 --time_based --runtime=200 --output=/tmp/load.out --output-format=json &
    load_pid=$!
    written=$(fio_writes)
    wait_for 30 fio_wrote || fail "fio does not write"
}
load_end() {
    fio_goes_on "$1"
    kill $load_pid
    wait $load_pid || :
    grep -q '"error" : 0' /tmp/load.out || { cat /tmp/load.out; fail "fio saw errors: $1"; }
    longest=$(awk '/"write" :/ { on = 1 } on && /"clat_ns"/ { in_clat = 1 } in_clat && /"max"/ { gsub(/[^0-9]/, ""); print int($0 / 1000000); exit }' /tmp/load.out)
    note "$1: the longest write took $longest ms"
}

load
link_cut 1
wait_for 60 lives 1 || fail "the host does not notice a cut"
fio_goes_on "the cut"
link_mend 1
wait_for 60 lives 2 || fail "the path does not come back"
load_end "a network cut and mended"

load
ana_set 1 inaccessible
wait_for 30 ana_shows inaccessible || fail "the host does not learn of inaccessible"
fio_goes_on "inaccessible"
ana_set 1 optimized
ana_set 2 non-optimized
wait_for 30 ana_shows non-optimized || fail "the host does not learn of non-optimized"
fio_goes_on "non-optimized"
ana_set 2 optimized
load_end "access states changed"

load
controller_kill 1
wait_for 60 lives 1 || fail "the host does not notice the death of a controller"
fio_goes_on "the death of a controller"
controller_start 1
wait_for 60 lives 2 || fail "the path does not come back"
load_end "a controller killed and started again"

if [ "$TARGET" != kernel ]; then
    load
    for n in 1 2; do managed $n namespace resize 1 all; done
    grown() { [ "$(blockdev --getsize64 "$disk")" = $((96 << 20)) ]; }
    wait_for 30 grown || fail "the disk does not grow"
    truncate -s 8M /tmp/more
    for n in 1 2; do managed $n namespace add "file:/tmp/more,block=4096,uuid=${UUID%2}3"; done
    wait_for 30 nvme_disk 2 || fail "the second namespace does not appear"
    load_end "a namespace grown and one added"
    fio_verify "$(nvme_disk 2)" 8m
fi

umount /mnt
e2fsck -fn "$disk" >/tmp/fsck.out 2>&1 || { cat /tmp/fsck.out; fail "the file system is not clean"; }
nvme disconnect -n $NQN >/dev/null
controller_stop 1
controller_stop 2
controllers_clear
networks_stop
if dmesg | grep -E 'I/O error|EXT4-fs error|Buffer I/O'; then fail "the kernel saw errors"; fi
kernel_is_sound
