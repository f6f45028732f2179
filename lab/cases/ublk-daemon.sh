#!/bin/sh
# A disk by ublk that weft daemon holds: the four lines of the README make it; neither the end of the daemon nor that of the process of
# the disk, killed under verified I/O and under a mounted ext4, is seen by who uses it; a daemon that starts anew has it again.
# lab: files=weft,../../README.md modules=ublk_drv,ext4 pkgs=fio,e2fsprogs,jq timeout=240 mem=768
. /lab/lib.sh
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

held() { /lab/weft list -o json | jq -r '.Connections[0].State'; }
is_connected() { [ "$(held)" = connected ]; }
pid() { /lab/weft list -o json | jq -r '.Devices[0].Pid'; }
daemon_start() {
    : >/tmp/daemon.log
    /lab/weft daemon >/tmp/daemon.log 2>&1 &
    echo $! >/tmp/daemon.pid
    wait_for 30 grep -q ^listening /tmp/daemon.log || { cat /tmp/daemon.log; fail "weft daemon"; }
}
# verify_over ACTION...: verified I/O of a file of the mounted disk, while something happens
verify_over() {
    local before=$(awk '{print $5}' /sys/block/ublkb0/stat)
    fio --name=verify --filename=/mnt/file --size=8m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
        --verify=crc32c --do_verify=1 --verify_fatal=1 --rate_iops=500 --output=/tmp/fio.out &
    fio_pid=$!
    writes() { [ "$(awk '{print $5}' /sys/block/ublkb0/stat)" -gt $((before + 300)) ]; }
    wait_for 30 writes || fail "fio does not write"
    "$@"
    wait $fio_pid || { cat /tmp/fio.out /run/weft/*.log; fail "fio saw it: $*"; }
    grep -q '^/dev/ublkb0 /mnt ext4 rw' /proc/mounts || fail "the file system is not writable any more"
}
server=$(pid)
daemon_anew() {
    kill "$1" "$(cat /tmp/daemon.pid)"
    daemon_start
    wait_for 30 is_connected || { /lab/weft list; fail "the new daemon does not hold the disk"; }
}
verify_over daemon_anew -TERM
verify_over daemon_anew -KILL
expect "the process of the disk" "$(pid)" "$server"
note "the daemon ended, and was killed"

server_anew() {
    kill -9 "$server"
    other() { is_connected && [ "$(pid)" != "$server" ]; }
    wait_for 60 other || { /lab/weft list; cat /tmp/daemon.log; fail "the daemon does not start it again"; }
}
verify_over server_anew
expect "the disk" "$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')" /dev/ublkb0
note "the process of the disk was killed"

# all killed, and a daemon that starts anew
both_anew() {
    kill -9 "$(cat /tmp/daemon.pid)" "$(pid)"
    daemon_start
    wait_for 60 is_connected || { /lab/weft list; cat /tmp/daemon.log; fail "the disk does not come back"; }
}
verify_over both_anew
note "both were killed"
umount /mnt
e2fsck -f -n /dev/ublkb0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
/lab/weft disconnect /dev/ublkb0 --forget
[ ! -e /dev/ublkb0 ] || fail "the disk is there yet"
kill "$(cat /tmp/daemon.pid)"
kernel_is_sound
target_stop
