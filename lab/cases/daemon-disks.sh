#!/bin/sh
# Disks by open-iscsi and by nbd-client that weft daemon holds: the end of the daemon is not seen by who uses them. A disk by iSCSI also
# goes on when its process is killed under verified I/O below a mounted ext4, with and without a daemon.
# lab: files=weft,../iscsi.sh,../daemon.sh modules=iscsi_tcp,sd_mod,nbd,ext4,crc32c_generic pkgs=open-iscsi,nbd-client,fio,e2fsprogs,jq timeout=600 mem=768
. /lab/lib.sh
. /lab/iscsi.sh
. /lab/daemon.sh
[ "$TARGET" != kernel ] || skip "the disk is weft's"
truncate -s 64M /tmp/data
target_start file:/tmp/data
iscsid_start
daemon_start
url=nvme+tcp://$ADDR:$PORT/$NQN/1
verify_size=3m

# begins PROTOCOL [OPTION]...: a new file system on a disk
begins() {
    /lab/weft connect $url --as "$@" --name disk >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "weft connect --as $*"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
}
# ends [OPTION]...: nothing of it is left
ends() {
    umount /mnt
    e2fsck -f -n "$disk" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
    /lab/weft disconnect "$disk" "$@"
    refuses ls /run/weft/disk.json
    refuses grep -q . /sys/class/iscsi_session/*/targetname
}

begins iscsi --persist
outlives
ends --forget
note "iSCSI"

begins nbd --persist
server=$(pid)
verify_over daemon_anew -TERM
verify_over daemon_anew -KILL
expect "the process of the disk" "$(pid)" "$server"
ends --forget
note "NBD"

# What a killed process has left is told, continued by the same command, and ended by the usual one.
kill "$(cat /tmp/daemon.pid)"
rm -f /run/weft/connections.daemon
begins iscsi
server_killed() {
    kill -9 "$(pid)"
    /lab/weft list >/tmp/said 2>&1
    grep -q 'was killed, and /dev/sd. waits' /tmp/said || { cat /tmp/said; fail "weft list does not tell it"; }
    /lab/weft connect $url --as iscsi --name disk >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "the disk is not continued"; }
    grep -q " is $disk;" /tmp/said || { cat /tmp/said; fail "it is another disk"; }
}
verify_over server_killed
kill -9 "$(pid)"
refuses /lab/weft disconnect disk
grep -q 'is mounted at /mnt' /tmp/said || { cat /tmp/said; fail "why it is not detached"; }
/lab/weft connect $url --as iscsi --name disk >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "the disk is not continued"; }
sync /mnt/file
umount /mnt
kill -9 "$(pid)"
/lab/weft disconnect disk
refuses grep -q . /sys/class/iscsi_session/*/targetname
refuses ls /run/weft/disk.json
note "without a daemon"
kernel_is_sound
target_stop
