#!/bin/sh
# What fails on an RDMA device: a peer that breaks the rules; memory that may not be locked, at either end; a network interface that goes down under weft's initiator and
# target. A connection that is idle, or lost, costs no CPU time.
# lab: files=weft,verbs,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvme-rdma,ib_uverbs,rdma_ucm timeout=200
# lab: pkgs=nvme-cli,iproute2,jq,util-linux,libgcc-s1,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
url=nvme+rdma://$ADDR:$PORT/$NQN
# COMMAND... with 64 KiB of memory that may be locked, and without the right to lock more
locked() { ulimit -l 64; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"; }
said() { grep -q "$1" "$2" || { cat "$2"; fail "it does not say: $1"; }; }
ticks() { awk '{ print $14 + $15 }' /proc/"$1"/stat; }
# sleeps PID WHAT: it uses no CPU time for some seconds
sleeps() {
    local from
    # what it does after the last command comes to its end
    sleep 2
    from=$(ticks "$1")
    sleep 4
    [ $(($(ticks "$1") - from)) -le 1 ] || fail "$2: $(($(ticks "$1") - from)) ticks of CPU time in 4 s"
    note "$2: no CPU time"
}

# count NAME: what the device has counted
count() { cat /sys/class/infiniband/$RDMA_DEVICE/ports/1/hw_counters/$1; }

target_start ram:16MiB
WEFT_RDMA_TARGET=$ADDR:$PORT /lab/verbs --ignored --test-threads 1 verbs::target:: || fail "a peer that breaks the rules"
target_runs
note "a peer that breaks the rules"
if (locked /lab/weft id-ctrl $url) >/tmp/said 2>&1; then fail "it locks memory that it may not"; fi
said "cannot be registered with $RDMA_DEVICE, as too little may be locked: raise \`ulimit -l\`" /tmp/said
cat /tmp/said
/lab/weft id-ctrl $url >/dev/null || fail "the target"
target_stop

# what an earlier one said would pass for this one
: >/tmp/target.log
locked /lab/weft serve ram:16MiB --listen nvme+rdma://$ADDR:$PORT --nqn $NQN >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 30 grep -q "^listening on nvme+rdma://" /tmp/target.log || fail "weft serve does not listen"
refuses /lab/weft id-ctrl $url
said 'No Resources' /tmp/said
said "cannot be registered with $RDMA_DEVICE, as too little may be locked: raise \`ulimit -l\`" /tmp/target.log
target_stop
note "memory that may not be locked"

# enough for a queue pair and for a part of the disk, but not for all of it
# what an earlier one said would pass for this one
: >/tmp/target.log
(ulimit -l 6144; exec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock /lab/weft serve ram:32MiB --listen nvme+rdma://$ADDR:$PORT --nqn $NQN) >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 30 grep -q "^listening on nvme+rdma://" /tmp/target.log || fail "weft serve does not listen"
/lab/weft bench $url --rw=randwrite --bs=4k --iodepth=4 --nr-io-queues=1 --size=16m --verify=crc32c >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "reads that are copied"; }
said 'memory of devices that cannot be registered is copied' /tmp/target.log
expect "how often it says so" "$(grep -c 'cannot be registered is copied' /tmp/target.log)" 1
target_stop
note "a RAM disk that may be locked in part"

target_start ram:16MiB
connect -i 2 -k 60
sleeps $target_pid "an idle connection"
disconnect
sleeps $target_pid "a connection that has ended"
/lab/weft bench $url --rw=randwrite --bs=4k --iodepth=4 --nr-io-queues=2 --rate_iops=100 --time_based --runtime=120 --reconnect-delay=1 \
    --keep-alive-tmo=60 >/tmp/out 2>/tmp/said &
load_pid=$!
more_than() { [ "$(count $1)" -gt "$2" ]; }
wait_for 30 more_than rdma_recvs $(($(count rdma_recvs) + 100)) || fail "no load"
downs=$(count link_downed)
# work fails at once, or when it was retried for half a minute
ip link set dum0 down
wait_for 90 grep -q 'the path is lost' /tmp/said || { cat /tmp/said; fail "the initiator does not notice"; }
cat /tmp/said
[ "$(count link_downed)" -gt "$downs" ] || fail "the device was not taken down"
# (That work is tried again, and how that ends, is shown by verbs.sh.)
expect "SENDs that found no receive" "$(count send_rnr_err)" 0
note "$(count retry_exceeded_err) times retries were exceeded"
sleeps $target_pid "a lost connection"
kill $load_pid
wait $load_pid || :
target_stop
# soft RoCE's queue pair for management has failed for good
rdma link delete $RDMA_DEVICE
ip link delete dum0
kernel_is_sound
