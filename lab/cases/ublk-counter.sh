#!/bin/sh
# A disk by ublk over NVMe/TCP whose process is killed: no flush fails while the target runs. If its start counter is another one than
# was kept, the next flush of each queue fails once, also over a further kill. (A target of a file has the same one until its system
# starts again, so the case changes what was kept.)
# lab: files=weft modules=ublk_drv pkgs=util-linux timeout=240 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
truncate -s 32M /tmp/data
url=nvme+tcp://$ADDR:$PORT/$NQN/1
disk_start() {
    : >/tmp/disk.log
    /lab/weft serve $url --nqn $NQN-disk --listen ublk:1 --keep-alive-tmo=1 --quiesce-time=1s >/tmp/disk.log 2>&1 &
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
disk_start
for cpu in 0 1; do flushes $cpu || { cat /tmp/said /tmp/disk.log; fail "a flush failed although the target runs"; }; done
note "the process was killed"
kept() { grep -o '"epoch":[0-9]*' /run/weft/ublk1.disk; }
counter=$(kept)
disk_kill
sed -i 's/"epoch":[0-9]*/"epoch":1/' /run/weft/ublk1.disk
disk_start
grep -q 'the next flush of each queue fails' /tmp/disk.log || { cat /tmp/disk.log; fail "nothing is said of the loss"; }
refuses flushes 0
flushes 0 || { cat /tmp/said; fail "a queue fails more than once"; }
expect "what is kept as long as a queue has told nothing" "$(kept)" '"epoch":1'
disk_kill
disk_start
for cpu in 0 1; do refuses flushes $cpu; done
for cpu in 0 1; do flushes $cpu || { cat /tmp/said; fail "a queue fails more than once"; }; done
is_kept() { [ "$(kept)" = "$counter" ]; }
wait_for 10 is_kept || fail "all queues have told, and what is kept is $(kept)"
note "another counter: a flush of each queue failed"
disk_kill
disk_start
for cpu in 0 1; do flushes $cpu || { cat /tmp/said; fail "a flush failed again"; }; done
kill $disk_pid
wait $disk_pid || { cat /tmp/disk.log; fail "weft ended with status $?"; }
target_stop
