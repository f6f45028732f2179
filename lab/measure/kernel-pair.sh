#!/bin/sh
# The kernel's pair (nvme-tcp on nvmet) beside the kernel's host on weft and weft's host on nvmet:
# 4 KiB random reads at depth 1 and 32 over loopback, in one run. The machine is emulated, so only
# the ratios mean anything, and a user-space end pays more for emulation than a kernel one.
# usage: cargo xtask lab run lab/measure/kernel-pair.sh [-- SECONDS_EACH [ROUNDS]]
# lab: files=weft modules=nvmet-tcp,nvme-tcp pkgs=nvme-cli,fio,jq timeout=300
. /lab/lib.sh
seconds=${1:-3} rounds=${2:-3}
rows=/tmp/rows

row() { # pair, depth, IOPS
    echo "$1 $2 $3" >>$rows
    printf '%-24s depth %-3s %9d IOPS\n' "$1" "$2" "$3"
}
kernel_host() { # pair
    local depth iops
    connect -i 1
    for depth in 1 32; do
        fio --name=m --filename="$disk" --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth=$depth --time_based \
            --runtime="$seconds" --ramp_time=1 --norandommap --output-format=json --output=/tmp/fio.json
        iops=$(jq '.jobs[0].read.iops | floor' /tmp/fio.json)
        row "$1" $depth "$iops"
    done
    disconnect
}
weft_host() { # pair
    local depth
    for depth in 1 32; do
        /lab/weft bench nvme+tcp://$ADDR:$PORT/$NQN --rw=randread --bs=4k --iodepth=$depth --runtime="$seconds" --ramp_time=1 \
            --nr-io-queues=1 --output-format=json >/tmp/weft.json
        row "$1" $depth "$(jq '.jobs[0].read.iops | floor' /tmp/weft.json)"
    done
}
for round in $(seq 1 "$rounds"); do
    TARGET=kernel
    target_start ram:64MiB
    kernel_host kernel-on-nvmet
    weft_host weft-on-nvmet
    target_stop
    TARGET=weft
    target_start ram:64MiB --threads 1
    kernel_host kernel-on-weft
    weft_host weft-on-weft
    target_stop
done
# the median of each, as a share of the kernel's pair
for depth in 1 32; do
    for pair in kernel-on-nvmet kernel-on-weft weft-on-nvmet weft-on-weft; do
        echo "$pair $(awk -v p=$pair -v d=$depth '$1 == p && $2 == d {print $3}' $rows | sort -n \
            | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)], v[1], v[NR]}')"
    done | awk -v d=$depth 'NR == 1 {reference = $2} {printf "depth %-3d %-18s %.2f of the kernel pair (%d-%d IOPS)\n", d, $1, $2 / reference, $3, $4}'
done
