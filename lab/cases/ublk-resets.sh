#!/bin/sh
# A disk by ublk under verified load while the controllers behind it are reset over and over: nvmet loses and regains its port; a weft target
# is killed, ends in order, and pauses for longer than the host waits. The disk stays, no operation fails, no block differs.
# lab: files=weft modules=ublk_drv,nvmet-tcp,null_blk pkgs=fio,jq timeout=300 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
ROUNDS=${ROUNDS:-1}
url=nvme+tcp://$ADDR:$PORT/$NQN/1
disk_start() {
    rm -f /run/weft/disk.log
    /lab/weft connect $url --as ublk --name disk --keep-alive-tmo=2 --reconnect-delay=1 --quiesce-time=1s >/tmp/said 2>&1 \
        || { cat /tmp/said /run/weft/disk.log; fail "weft connect"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
}
disk_stop() { # WHAT
    fio_stop "$1"
    fio_verify "$disk" 4m
    /lab/weft disconnect disk || fail "weft disconnect"
    note "verified by fio: $1"
}
resets() { grep -c 'the path is lost' /run/weft/disk.log || :; }
lost_again() { [ "$(resets)" -gt "$lost" ]; }
# reset HOW COMMAND...: does it, which costs the host its connections, and waits for I/O to go on
reset() {
    local how=$1
    shift
    lost=$(resets)
    "$@"
    wait_for 60 lost_again || { cat /run/weft/disk.log; fail "the host does not notice: $how"; }
    fio_goes_on "$how"
}
port=$NVMET/subsystems/$NQN
replug() { rm $NVMET/ports/1/subsystems/$NQN; usleep 500000; ln -s $port $NVMET/ports/1/subsystems/$NQN; }
nvmet_start ram:32MiB
disk_start
for i in $(seq $ROUNDS); do reset "return $i of the port" replug; done
disk_stop "nvmet's port came and went"
nvmet_clear

truncate -s 32M /tmp/data
killed() { target_kill; target_start file:/tmp/data; }
restarted() { target_stop; target_start file:/tmp/data; }
paused() { kill -STOP $target_pid; sleep 6; kill -CONT $target_pid; }
target_start file:/tmp/data
disk_start
for i in $(seq $ROUNDS); do
    reset "death $i of the target" killed
    reset "end $i of the target" restarted
    reset "pause $i of the target" paused
done
disk_stop "a weft target was killed, ended and paused"
target_stop
kernel_is_sound
