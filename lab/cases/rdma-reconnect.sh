#!/bin/sh
# weft's initiator over RDMA, under verified load on two queues: nvmet's port goes and comes back, a weft target dies and restarts, an
# initiator dies. No operation fails, and no block differs. (The network interface is not taken down: soft RoCE's queue pair for management
# fails for good if something is sent through it meanwhile, with the kernel's own pair, too.)
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvmet-rdma,null_blk,ib_uverbs,rdma_ucm timeout=300
# lab: pkgs=iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
url=nvme+rdma://$ADDR:$PORT/$NQN
port=$NVMET/ports/1/subsystems/$NQN
messages() { cat /sys/class/infiniband/$RDMA_DEVICE/ports/1/hw_counters/rdma_recvs; }
# load: a bench in the background, in $load_pid
load() {
    /lab/weft bench $url --rw=randwrite --bs=4k --iodepth=8 --nr-io-queues=2 --size=${1:-12m} --rate_iops=400 --verify=crc32c \
        --reconnect-delay=1 --quiesce-time=1s --keep-alive-tmo=3 --output-format=json >/tmp/out 2>/tmp/said &
    load_pid=$!
    goes_on "the start"
}
goes_on() { # WHEN: hundreds of messages come from now on
    local from
    from=$(messages)
    wait_for 60 more_than $((from + 400)) || { cat /tmp/said; fail "no I/O after $1"; }
    kill -0 $load_pid || { cat /tmp/said; fail "the load ended before $1"; }
}
more_than() { [ "$(messages)" -gt "$1" ]; }
# is_silent: nothing comes for a moment
is_silent() { local from; from=$(messages); usleep 500000; [ "$(messages)" = "$from" ]; }
verified() { # WHAT
    wait $load_pid || { cat /tmp/out /tmp/said; fail "the load failed: $1"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == .read.io_bytes and .read.io_bytes > 0'
    note "verified: $1"
}

nvmet_start ram:16MiB
load
rm $port
wait_for 30 is_silent || fail "I/O without a port"
ln -s $NVMET/subsystems/$NQN $port
goes_on "the port's return"
verified "nvmet's port"
load
kill -9 $load_pid
wait $load_pid || :
load 4m
verified "after an initiator's death"
nvmet_clear

truncate -s 16M /tmp/image
serve() { target_start "$(file_source /tmp/image 4096)"; }
serve
load 8m
target_kill
usleep 500000
serve
goes_on "the target's restart"
verified "a weft target's death"
load
kill -9 $load_pid
wait $load_pid || :
target_runs
load 4m
verified "after an initiator's death, on weft"
target_stop
kernel_is_sound
