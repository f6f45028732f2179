#!/bin/sh
# The target, the daemon and the processes of its disks (by ublk, open-iscsi and nbd-client) are replaced one after the other, those of an
# earlier version by this tree's, and back, below a mounted ext4 under verified I/O: who uses the disks notices nothing.
# lab: files=weft,weft-earlier,../iscsi.sh,../daemon.sh modules=ublk_drv,iscsi_tcp,sd_mod,nbd,ext4,crc32c_generic
# lab: pkgs=open-iscsi,nbd-client,fio,e2fsprogs,jq timeout=1200 mem=1024 long
. /lab/lib.sh
. /lab/iscsi.sh
. /lab/daemon.sh
[ "$TARGET" != kernel ] || skip "the disk is weft's"
[ -c /dev/ublk-control ] || skip "no ublk driver"
mv /lab/weft /lab/weft-later

# becomes VERSION: what starts from now on is of that version, as after an upgrade of the package
becomes() {
    cp /lab/weft-"$1" /lab/weft.new
    mv /lab/weft.new /lab/weft
    version=$1
}
# target_anew: another process takes the target over
taken=0
target_anew() {
    local before=$target_pid
    taken=$((taken + 1))
    target_start "$source" --control t$taken --takeover t$((taken - 1))
    wait "$before" || fail "the target that was replaced ended with status $?"
}
# begins PROTOCOL [OPTION]...: a new file system on a disk
begins() {
    /lab/weft connect $url --as "$@" --name disk >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "weft connect --as $*"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
}
# ends: nothing of it is left
ends() {
    umount /mnt
    e2fsck -f -n "$disk" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
    /lab/weft disconnect "$disk" --forget
    refuses ls /run/weft/disk.json
}
# replaced PROTOCOL: all that can be replaced below a disk in use. The kernel's disk by NBD ends with its process.
replaced() {
    local server=$(pid)
    verify_over target_anew
    verify_over daemon_anew -TERM
    expect "the process of the disk" "$(pid)" "$server"
    [ "$1" = nbd ] || verify_over server_anew "$server"
    expect "the disk" "$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')" "$disk"
    note "$1: replaced by the $version version"
}

becomes earlier
truncate -s 64M /tmp/data
source=$(file_source /tmp/data 512)
target_start "$source" --control t0
iscsid_start
daemon_start
url=nvme+tcp://$ADDR:$PORT/$NQN/1
verify_size=3m
for protocol in ublk iscsi nbd; do
    begins $protocol --persist
    becomes later
    replaced $protocol
    becomes earlier
    replaced $protocol
    ends
done
kill "$(cat /tmp/daemon.pid)"
kernel_is_sound
target_stop
mv /lab/weft-later /lab/weft
