#!/bin/sh
# The null suite of `weft study` with the kernel's own pairs: nvme-tcp on nvmet beside open-iscsi on LIO, and weft's pairs in the
# same run. One null_blk device, 4 KiB random, 70 % reads, jobs at depth 1, each pair with its own defaults. The machine is
# emulated, so only the ratios mean anything. CPU is that of the whole machine, both ends and fio.
# usage: cargo xtask lab run lab/measure/null-pair.sh [-- SECONDS_EACH [ROUNDS [JOBS]]]; a small form is -- 2 1 16. JOBS are the kernel's;
# weft's pairs always have 256.
# lab: files=weft,../iscsi.sh modules=iscsi_target_mod,target_core_iblock,nvmet-tcp,nvme-tcp,iscsi_tcp,sd_mod,null_blk,crc32c_generic
# lab: pkgs=open-iscsi,nvme-cli,fio,jq mem=1024 timeout=400
. /lab/lib.sh
. /lab/iscsi.sh
TARGET=kernel
seconds=${1:-5} rounds=${2:-3} jobs=${3:-256}
rows=/tmp/rows
null=/dev/nothing

# busy: hundredths of a second that all CPUs have worked so far
busy() { awk '$1 == "cpu" {print $2 + $3 + $4 + $7 + $8}' /proc/stat; }
row() { # pair, reads/s, writes/s, mean latency in us, CPU us per operation
    echo "$*" >>$rows
    printf '%-16s %8d reads/s %8d writes/s %9d us %8.1f us CPU/IO\n' "$@"
}
load() { # disk, seconds
    fio --name=m --filename="$1" --size=1g --rw=randrw --rwmixread=70 --bs=4k --direct=1 --ioengine=psync --iodepth=1 \
        --numjobs="$jobs" --thread --group_reporting --time_based --runtime="$2" --norandommap \
        --output-format=json --output=/tmp/fio.json || fail "fio on $1"
}
kernel_pair() { # pair, disk
    local before after
    # not with fio's ramp_time, whose processor time would be counted and its operations not
    load "$2" 1
    before=$(busy)
    load "$2" "$seconds"
    after=$(busy)
    row "$1" $(jq -r --argjson ticks $((after - before)) '.jobs[0] | (.read.total_ios + .write.total_ios) as $n
        | [(.read.iops | floor), (.write.iops | floor),
           ((.read.lat_ns.mean * .read.total_ios + .write.lat_ns.mean * .write.total_ios) / $n / 1000 | floor),
           ($ticks * 10000 / $n)] | map(tostring) | join(" ")' /tmp/fio.json)
}
weft_pairs() {
    /lab/weft study --suite null --quick --time-budget "$((seconds * 4))s" --output-dir /tmp/study >/tmp/study.out || fail "weft study"
    for lane in iscsi nvme+tcp; do
        row "weft-$lane" $(jq -r --arg lane $lane '.rows[] | select(.lane == $lane)
            | [(.read_iops | floor), (.write_iops | floor), (.latency.mean_ns / 1000 | floor),
               ((.initiator.user_ns + .initiator.system_ns + .target.user_ns + .target.system_ns) / 1000)]
            | map(tostring) | join(" ")' /tmp/study/results.json)
    done
}
# ratio PAIR OF FIELD: the median of the rounds of PAIR by that of OF; field 0 is reads and writes together
ratio() {
    for pair in "$1" "$2"; do
        awk -v p="$pair" -v f="$3" '$1 == p {print f ? $f : $2 + $3}' $rows | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
    done | awk 'NR == 1 {a = $1} NR == 2 {printf "%.2f", a / $1}'
}

null_disk nothing 4096 0
target_start $null
lio_blocks $null
iscsid_start
discover
login
iscsi_disk=$disk
connect
nvme=$disk
for round in $(seq 1 "$rounds"); do
    kernel_pair kernel-iscsi "$iscsi_disk"
    kernel_pair kernel-nvme+tcp "$nvme"
    weft_pairs
done
for of in kernel weft; do
    echo "$of: NVMe/TCP does $(ratio $of-nvme+tcp $of-iscsi 0) times the operations of iSCSI," \
        "at $(ratio $of-nvme+tcp $of-iscsi 4) of its latency and $(ratio $of-nvme+tcp $of-iscsi 5) of its CPU per operation"
done
