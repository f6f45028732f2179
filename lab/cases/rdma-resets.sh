#!/bin/sh
# weft's host over RDMA, under verified load on two queues, while its controllers are reset over and over: the kernel's target lets go of a host
# that pauses, and loses and regains its port; a weft target pauses, is killed, ends in order, and comes back. No operation fails, no block
# differs, and the host has no more memory and no more descriptors than after the first.
# lab: long files=weft,../rdma.sh,../resets.sh modules=crc32_generic,rdma_rxe,dummy,nvmet-rdma,null_blk,nbd,ib_uverbs,rdma_ucm timeout=500
# lab: pkgs=fio,nbd-client,iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
. /lab/resets.sh
ROUNDS=${ROUNDS:-2}
url=nvme+rdma://$ADDR:$PORT/$NQN AS=nbd OPTIONS=--nr-io-queues=2
resident() { awk '/^VmRSS/ { print $2 }' /proc/$host_pid/status; }
descriptors() { ls /proc/$host_pid/fd | wc -l; }
remember() { first_resident=$(resident) first_descriptors=$(descriptors); }
nothing_is_left() {
    note "$done resets; the host has $first_resident, then $(resident) KiB, and $first_descriptors, then $(descriptors) descriptors"
    [ "$(descriptors)" -le $((first_descriptors + 4)) ] || { ls -l /proc/$host_pid/fd; fail "descriptors are left"; }
    [ "$(resident)" -le $((first_resident + 16384)) ] || fail "memory is left"
}

nvmet_start ram:32MiB
host_start 2
for i in $(seq $ROUNDS); do
    reset "pause $i of the host" pause $host_pid
    [ $i -gt 1 ] || remember
    reset "return $i of the port" replug
done
nothing_is_left
host_stop "resets on the kernel's target"
nvmet_clear

serve
host_start 2
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
