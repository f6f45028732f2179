#!/bin/sh
# weft's host over RDMA, under verified load on two queues, while its controllers are reset over and over: the kernel's target lets go of a host
# that pauses, and loses and regains its port; a weft target pauses, is killed, ends in order, and comes back. No operation fails, no block
# differs, and the host has no more memory and no more descriptors than after the first.
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvmet-rdma,null_blk,nbd,ib_uverbs,rdma_ucm timeout=500
# lab: pkgs=fio,nbd-client,iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
ROUNDS=${ROUNDS:-2}
url=nvme+rdma://$ADDR:$PORT/$NQN
port=$NVMET/ports/1/subsystems/$NQN
OPTIONS="--reconnect-delay=1 --quiesce-time=1s --nr-io-queues=2"

# host_start KATO: the disk, as a client of NBD sees it, and fio on it
host_start() {
    /lab/weft connect $url --as nbd --name disk --keep-alive-tmo=$1 $OPTIONS >/tmp/said 2>&1 || { cat /tmp/said /run/weft/disk.log; fail "weft connect"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[] | select(.Name == "disk") | .DevicePath')
    host_pid=$(/lab/weft list -o json | jq -r '.Devices[] | select(.Name == "disk") | .Pid')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
}
host_stop() { # WHAT
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
    done=$((done + 1))
}
resident() { awk '/^VmRSS/ { print $2 }' /proc/$host_pid/status; }
descriptors() { ls /proc/$host_pid/fd | wc -l; }
remember() { first_resident=$(resident) first_descriptors=$(descriptors); }
nothing_is_left() {
    note "$done resets; the host has $first_resident, then $(resident) KiB, and $first_descriptors, then $(descriptors) descriptors"
    [ "$(descriptors)" -le $((first_descriptors + 4)) ] || { ls -l /proc/$host_pid/fd; fail "descriptors are left"; }
    [ "$(resident)" -le $((first_resident + 16384)) ] || fail "memory is left"
}
# pause PID: longer than the other end waits for it
pause() { kill -STOP $1; sleep 6; kill -CONT $1; }
replug() { rm $port; usleep 500000; ln -s $NVMET/subsystems/$NQN $port; }

nvmet_start ram:32MiB
host_start 2
done=0
for i in $(seq $ROUNDS); do
    reset "pause $i of the host" pause $host_pid
    [ $i -gt 1 ] || remember
    reset "return $i of the port" replug
done
nothing_is_left
host_stop "resets on the kernel's target"
nvmet_clear

truncate -s 32M /tmp/image
serve() { target_start "$(file_source /tmp/image 4096)"; }
killed() { target_kill; serve; }
restarted() { target_stop; serve; }
paused() { pause $target_pid; }
serve
host_start 2
done=0
for i in $(seq $ROUNDS); do
    reset "death $i of the target" killed
    [ $i -gt 1 ] || remember
    reset "restart $i of the target" restarted
    reset "pause $i of the target" paused
    target_runs
done
nothing_is_left
host_stop "resets on a weft target"
target_stop
kernel_is_sound
