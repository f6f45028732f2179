#!/bin/sh
# weft connect, list and disconnect: a namespace becomes a disk of the kernel by open-iscsi, then by nbd-client; a file system made by
# the one way is read by the other; what is mounted stays.
# lab: files=weft,../iscsi.sh modules=iscsi_tcp,sd_mod,nbd,ext4,crc32c_generic pkgs=open-iscsi,nbd-client,fio,e2fsprogs,jq timeout=300
. /lab/lib.sh
. /lab/iscsi.sh
target_start ram:48MiB
iscsid_start
url=nvme+tcp://$ADDR:$PORT/$NQN/1

attached() { # PROTOCOL, pattern of the device
    /lab/weft connect $url --as "$1" --name disk >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "weft connect --as $1"; }
    cat /tmp/said
    /lab/weft list
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    case $disk in $2) ;; *) fail "the disk is '$disk'" ;; esac
    wait_for 30 test -b "$disk" || fail "$disk is not there"
    expect size "$(($(cat /sys/block/"${disk#/dev/}"/size) * 512))" $((48 << 20))
}
detached() {
    /lab/weft disconnect "$1"
    expect connections "$(/lab/weft list -o json | jq '.Devices | length')" 0
}

attached iscsi '/dev/sd?'
# the secret is the initiator's and root's alone
record=$(find /etc/iscsi/nodes -type f)
expect "mode of the node record" "$(stat -c %a "$record")" 600
expect authentication "$(grep authmethod "$record" | tail -n 1)" 'node.session.auth.authmethod = CHAP'
expect "authentication of the target" "$(grep username_in "$record" | tail -n 1)" 'node.session.auth.username_in = weft'
expect "mode of the secrets" "$(stat -c %a /run/weft/disk.secret /run/weft/disk.target-secret | xargs)" '600 600'
mkfs.ext4 -q -F "$disk"
mount "$disk" /mnt
fio_verify /mnt/file 4m
head -c 1m /dev/urandom >/mnt/other
sum=$(sha256sum </mnt/other)
refuses /lab/weft disconnect "$disk"
grep -q 'is mounted at /mnt' /tmp/said || { cat /tmp/said; fail "why it is not detached"; }
umount /mnt
detached "$disk"
refuses grep -q . /sys/class/iscsi_session/*/targetname
refuses test -e /run/weft/disk.secret
refuses test -e /run/weft/disk.target-secret
refuses test -e "$record"

attached nbd '/dev/nbd*'
e2fsck -f -n "$disk" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
mount "$disk" /mnt
expect content "$(sha256sum </mnt/other)" "$sum"
fio_verify /mnt/file 4m
umount /mnt
detached disk
expect "size of a detached disk" "$(cat /sys/block/"${disk#/dev/}"/size)" 0

# a server that is killed is forgotten
attached nbd '/dev/nbd*'
kill -9 "$(/lab/weft list -o json | jq '.Devices[0].Pid')"
wait_for 30 sh -c '/lab/weft list -o json | jq -e ".Devices | length == 0"' || fail "the dead are listed"
nbd-client -d "$disk" >/dev/null 2>&1 || :
target_stop
