#!/bin/sh
# weft's initiator on the kernel's target over RDMA, on a soft device: discovery, identify, verified I/O of mixed sizes, several queues;
# then weft on weft.
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvmet-rdma,ib_uverbs,rdma_ucm timeout=300
# lab: pkgs=iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
url=nvme+rdma://$ADDR:$PORT/$NQN
weft() { /lab/weft "$@" >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft $*"; }; }
is() { satisfies /tmp/out "$1"; }
bench() { # options
    weft bench $url "$@" --size=4m --verify=crc32c --output-format=json
    is '.jobs[0] | .error == 0 and .write.io_bytes == 4194304 and .read.io_bytes == 4194304'
    note "bench $*"
}
check() {
    weft discover -t rdma -a $ADDR -s $PORT -o json
    is '[.records[] | select(.subnqn == $nqn and .trtype == "rdma")] | length == 1'
    weft discover nvme+rdma://$ADDR
    grep -q $NQN /tmp/out || { cat /tmp/out; fail "no discovery by URL"; }
    weft id-ctrl $url -o json
    is '.subnqn == $nqn'
    weft list-ns $url -o json
    is '[.nsid_list[].nsid] == [1, 2]'
    note "identify"
    bench --rw=randwrite --bs=4k --iodepth=16 --nr-io-queues=1
    bench --rw=randwrite --bs=8k --iodepth=64 --nr-io-queues=2 --numjobs=1
    bench --rw=write --bs=128k --iodepth=4 --nr-io-queues=2
    bench --rw=write --bs=1m --iodepth=4 --nr-io-queues=1
}

nvmet_start ram:32MiB ram:16MiB
check
refuses /lab/weft id-ctrl nvme+rdma://$ADDR:$PORT/$NQN-absent
grep -q "there is no subsystem $NQN-absent" /tmp/said || { cat /tmp/said; fail "it does not say that there is no such subsystem"; }
kernel_is_calm
nvmet_clear
refuses /lab/weft id-ctrl $url
grep -q "nobody listens on RDMA at $ADDR:$PORT" /tmp/said || { cat /tmp/said; fail "it does not say that nobody listens"; }
note "the kernel's target"

target_start ram:32MiB ram:16MiB
check
target_stop
kernel_is_sound
note "weft on weft"
