#!/bin/sh
# open-iscsi and the kernel's initiator on weft: discovery, login with every combination of digests, a file system, verified I/O
# of mixed sizes, two LUNs.
# lab: files=weft,../iscsi.sh modules=iscsi_tcp,sd_mod,ext4,crc32c_generic pkgs=open-iscsi,fio,e2fsprogs,diffutils timeout=300
. /lab/lib.sh
. /lab/iscsi.sh
iscsi_start ram:24MiB ram:4MiB
iscsid_start
discover

# the second LUN holds what must not change
head -c 4m /dev/urandom >/tmp/second
login
wait_for 30 scsi_disk 1 || fail "no second LUN"
dd if=/tmp/second of="$(scsi_disk 1)" bs=256k oflag=direct status=none
logout

for which in none header data both; do
    digests $which
    login
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
    fio_verify /mnt/file 1m
    umount /mnt
    e2fsck -f -n "$disk" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
    fio_verify "$disk" 3m --bsrange=4k-256k --iodepth=8
    cmp /tmp/second "$(scsi_disk 1)" || fail "LUN 1 changed"
    logout
    note "digests: $which"
done
kernel_is_calm
[ "$TARGET" = kernel ] || iscsi_stop
