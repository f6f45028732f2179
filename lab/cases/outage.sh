#!/bin/sh
# Two disks that `weft connect` attaches, by open-iscsi and by nbd-client, each with a mounted file system under verified I/O, live through 90 s
# without their target, which is killed. Nothing is remounted, no I/O fails, the file systems are clean.
# lab: long files=weft,../iscsi.sh modules=nvme-tcp,iscsi_tcp,sd_mod,nbd,ext4 pkgs=open-iscsi,nbd-client,fio,e2fsprogs,mount,jq timeout=400
. /lab/lib.sh
. /lab/iscsi.sh
OUTAGE_S=${OUTAGE_S:-90}
[ "$TARGET" != kernel ] || skip "both ends are weft's"

truncate -s 48M /tmp/a /tmp/b
serve() { target_start "$(file_source /tmp/a 4096)" "$(file_source /tmp/b 4096)"; }
serve
iscsid_start
# attach N PROTOCOL: namespace N; sets disk_N
attach() {
    /lab/weft connect nvme+tcp://$ADDR:$PORT/$NQN/"$1" --as "$2" --name "disk$1" --reconnect-delay=2 >/tmp/said 2>&1 \
        || { cat /tmp/said "/run/weft/disk$1.log"; fail "weft connect --as $2"; }
    cat /tmp/said
    device=$(/lab/weft list -o json | jq -r ".Devices[] | select(.Name == \"disk$1\") | .DevicePath")
    wait_for 30 test -b "$device" || fail "there is no disk for namespace $1"
    mkdir -p "/mnt/$1"
    mkfs.ext4 -q -F "$device"
    mount "$device" "/mnt/$1"
    eval "disk_$1=$device"
}
attach 1 iscsi
attach 2 nbd
# load N: verified writes until load_end
load() {
    fio --name="load$1" --filename="/mnt/$1/data" --size=8m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --rate_iops=150 \
        --verify=crc32c --verify_backlog=128 --verify_fatal=1 --time_based --runtime=380 --output="/tmp/load$1.out" &
    eval "pid_$1=$!"
}
load 1
load 2
goes_on() {
    for disk in $disk_1 $disk_2; do fio_goes_on "$1"; done
}
goes_on "the start"
target_kill
note "the target is killed"
sleep "$OUTAGE_S"
for n in 1 2; do kill -0 "$(eval "echo \$pid_$n")" || { cat /tmp/load$n.out; fail "fio on disk $n gave up"; }; done
serve
note "the target is back"
goes_on "the outage"
for n in 1 2; do
    pid=$(eval "echo \$pid_$n")
    kill "$pid"
    wait "$pid" || :
    grep -q "err= 0:" /tmp/load$n.out || { cat /tmp/load$n.out; fail "fio saw errors on disk $n"; }
    grep " /mnt/$n " /proc/mounts | grep -q '[ ,]rw[ ,]' || fail "disk $n was mounted again, read only"
    umount "/mnt/$n"
    e2fsck -fn "$(eval "echo \$disk_$n")" >/tmp/fsck.out 2>&1 || { cat /tmp/fsck.out; fail "the file system of disk $n is not clean"; }
    /lab/weft disconnect "disk$n" || fail "weft disconnect"
done
target_stop
if dmesg | grep -E 'EXT4-fs error|Buffer I/O error|rejecting I/O'; then fail "the kernel saw errors"; fi
