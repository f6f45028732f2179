#!/bin/sh
# A disk by ublk whose process and whose target are killed: the target may have lost what was not flushed, so the next flush of each
# queue fails once, and later ones do not.
# lab: files=weft modules=ublk_drv pkgs=util-linux timeout=240 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
truncate -s 32M /tmp/data
url=nvme+tcp://$ADDR:$PORT/$NQN/1
disk_start() {
    : >/tmp/disk.log
    /lab/weft serve $url --nqn $NQN-disk --listen ublk:1 >/tmp/disk.log 2>&1 &
    disk_pid=$!
    wait_for 60 grep -q '^listening on /dev/ublkb1$' /tmp/disk.log || { cat /tmp/disk.log; fail "no disk"; }
}
disk_kill() {
    kill -9 $disk_pid
    wait $disk_pid || :
}
# flushes CPU: writes and flushes from there
flushes() { taskset -c "$1" dd if=/dev/zero of=/dev/ublkb1 bs=4k count=1 oflag=direct conv=fsync 2>/tmp/said; }
target_start file:/tmp/data
disk_start
flushes 0 || { cat /tmp/said; fail "a flush failed before anything was lost"; }
disk_kill
target_kill
target_start file:/tmp/data
disk_start
grep -q 'the next flush of each queue fails' /tmp/disk.log || { cat /tmp/disk.log; fail "nothing is said of the loss"; }
refuses flushes 0
for cpu in 0 0 1 1; do flushes $cpu || :; done
for cpu in 0 1; do flushes $cpu || { cat /tmp/said; fail "flushes fail more than once"; }; done
note "one flush failed"
kill $disk_pid
wait $disk_pid || { cat /tmp/disk.log; fail "weft ended with status $?"; }
target_stop
