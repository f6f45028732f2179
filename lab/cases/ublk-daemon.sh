#!/bin/sh
# A disk by ublk that weft daemon holds: the four lines of the README make it; neither the end of the daemon nor that of the process of
# the disk, killed under verified I/O and under a mounted ext4, is seen by who uses it; a daemon that starts anew has it again.
# lab: files=weft,../daemon.sh,../../README.md modules=ublk_drv,ext4 pkgs=fio,e2fsprogs,jq timeout=240 mem=768
. /lab/lib.sh
. /lab/daemon.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
truncate -s 128M /tmp/data
target_start file:/tmp/data
mkfs.ext4 -q -F /tmp/data

# the lines of the README, with the address of this target
sed -n '/^modprobe ublk_drv$/,/^mount /p' /lab/README.md | sed "s|nvme+tcp://[^ ]*|nvme+tcp://$ADDR:$PORT/$NQN|" >/tmp/lines
expect "the number of lines" "$(wc -l </tmp/lines)" 4
{
    echo 'PATH=/lab:$PATH'
    sed 's|^weft daemon &$|weft daemon >/tmp/daemon.log 2>\&1 \& echo $! >/tmp/daemon.pid|' /tmp/lines
} >/tmp/script
sh -e /tmp/script >/tmp/said 2>&1 || { cat /tmp/said /tmp/daemon.log; fail "the lines of the README"; }
grep -q '^/dev/ublkb0 /mnt ext4' /proc/mounts || fail "nothing is mounted"
note "four lines"

disk=/dev/ublkb0
outlives
umount /mnt
e2fsck -f -n /dev/ublkb0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
/lab/weft disconnect /dev/ublkb0 --forget
[ ! -e /dev/ublkb0 ] || fail "the disk is there yet"
kill "$(cat /tmp/daemon.pid)"
kernel_is_sound
target_stop
