#!/bin/sh
# weft's initiator over two ports of the kernel's target (nvmet), each on a network of its own: the namespace is attached to this system by
# `weft connect` and carries a mounted file system under verified I/O. Networks are cut, ANA states change, a port goes and comes back, both
# networks are away together for a while. No I/O error, no mismatch, a clean file system.
# lab: files=weft,../paths.sh modules=nvmet-tcp,loop,nbd,veth,ext4 pkgs=nbd-client,fio,iproute2,e2fsprogs,mount,util-linux,jq timeout=300
. /lab/lib.sh
. /lab/paths.sh
TARGET=kernel

truncate -s 64M $STORE
networks_start
controller_start 1
controller_start 2
url() { echo "nvme+tcp://10.0.$1.2:4420/$NQN"; }
/lab/weft connect "$(url 1)" --path "$(url 2)" --as nbd --name disk --keep-alive-tmo=2 --reconnect-delay=1 --io-timeout=5s >/tmp/connect.log 2>&1 \
    || { cat /tmp/connect.log; fail "weft connect"; }
disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
[ -b "$disk" ] || fail "there is no disk"
mkfs.ext4 -q "$disk" || fail mkfs
mount "$disk" /mnt || { cat /run/weft/disk.log; fail "mount"; }
# The I/O of the disk, as the target counts it, says that it goes on.
load() {
    fio --name=load --filename=/mnt/data --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --rate_iops=150 \
        --verify=crc32c --verify_backlog=256 --verify_fatal=1 --time_based --runtime=250 --output=/tmp/load.out &
    load_pid=$!
    written=$(fio_writes)
    wait_for 60 fio_wrote || fail "fio does not write"
}

load
link_cut 1
fio_goes_on "the cut of network 1"
link_mend 1
fio_goes_on "the mending of network 1"
link_cut 2
fio_goes_on "the cut of network 2"
link_mend 2
fio_goes_on "the mending of network 2"
note "networks cut and mended"
ana_set 1 inaccessible
fio_goes_on "inaccessible at port 1"
ana_set 1 optimized
ana_set 2 non-optimized
fio_goes_on "non-optimized at port 2"
ana_set 2 optimized
note "access states changed"
controller_kill 1
fio_goes_on "the end of port 1"
controller_start 1
fio_goes_on "the return of port 1"
note "a port gone and back"
link_cut 1
link_cut 2
sleep 10
link_mend 1
link_mend 2
fio_goes_on "an outage of both networks"
fio_stop "faults of the paths"
note "both networks away and back"

umount /mnt
e2fsck -fn "$disk" >/tmp/fsck.out 2>&1 || { cat /tmp/fsck.out; fail "the file system is not clean"; }
/lab/weft disconnect disk || fail "weft disconnect"
controller_stop 1
controller_stop 2
controllers_clear
networks_stop
if dmesg | grep -E 'EXT4-fs error|Buffer I/O error'; then fail "the kernel saw errors"; fi
kernel_is_sound
