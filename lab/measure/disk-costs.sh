#!/bin/sh
# What an operation on a remote disk costs this system, by counts: the kernel's own initiator beside weft's disks by ublk, NBD and iSCSI, on one target of
# weft. The machine's clock advances by 1 ns with each instruction, so processor times are counts of instructions. Each job runs with
# N and 2 N operations, as the difference has nothing of fio's start, and once under the kernel's tracing, which counts weft's system calls and copied bytes.
# usage: cargo xtask lab run lab/measure/disk-costs.sh [-- OPERATIONS]
# lab: files=weft,../iscsi.sh modules=nvme-tcp,ublk_drv,nbd,iscsi_tcp,sd_mod pkgs=nvme-cli,fio,jq,open-iscsi,nbd-client mem=1024 clock=instructions timeout=2400
. /lab/lib.sh
. /lab/iscsi.sh
operations=${1:-4000}
trace=/sys/kernel/tracing
mount -t tracefs trace $trace
echo 'p:received skb_copy_datagram_iter len=%cx:s32' >$trace/kprobe_events
# Bytes that these system calls of x86-64 move between a program and the kernel: read, write, pread64, pwrite64, readv, writev, sendto, recvfrom, sendmsg,
# recvmsg, preadv, pwritev.
MOVING=' 0 1 17 18 19 20 44 45 46 47 295 296 '

# threads PID FILE FIELD: the sum of a field over all threads
of_threads() { cat /proc/"$1"/task/*/"$2" | awk "$3"; }
instructions() { of_threads "$1" schedstat '{ sum += $1 } END { printf "%.0f", sum }'; }
waits() { of_threads "$1" status '/^voluntary/ { sum += $2 } END { printf "%.0f", sum }'; }
all_instructions() { awk '/^cpu0/ { printf "%.0f", $8 }' /proc/schedstat; }
all_switches() { awk '/^ctxt/ { print $2 }' /proc/stat; }
# count: instructions of all and of the target, of weft's process, context switches of all, waits of weft's process
count() {
    echo "$(all_instructions) $(instructions $target_pid) $([ -z "$pid" ] && echo 0 || instructions "$pid") $(all_switches) $([ -z "$pid" ] && echo 0 || waits "$pid")"
}
job() { # rw block depth [times]
    fio --name=job --filename="$disk" --rw="$1" --bs="${2%KiB}k" --iodepth="$3" --size=32m --io_size=$(($(bytes "$2") * operations * ${4:-1})) --direct=1 \
        --ioengine=libaio --norandommap --output=/tmp/fio.out || { cat /tmp/fio.out; fail "fio $*"; }
}
traced() { # on or off
    local mark=''
    [ "$1" = on ] || mark='!'
    echo "${mark}hist:keys=common_pid" >$trace/events/raw_syscalls/sys_enter/trigger
    echo "${mark}hist:keys=common_pid,id:vals=ret if ret > 0" >$trace/events/raw_syscalls/sys_exit/trigger
    echo "${mark}hist:keys=common_pid:vals=len" >$trace/events/kprobes/received/trigger
}
# threads PID...: their numbers, each between spaces
threads() {
    local of
    printf ' '
    for of in "$@"; do ls "/proc/$of/task" | tr '\n' ' '; done
}
# summed EVENT VALUE of|but THREADS [IDS]: the sum of a value over these threads, or over all others, of these system calls
summed() {
    sed -n 's/[{}:,]/ /g; / hitcount /p' $trace/events/"$1"/hist | awk -v value="$2" -v which="$3" -v threads="$4" -v ids="${5:-}" '
        { of = ""; id = ""; for (n = 1; n < NF; n++) { if ($n == "common_pid") of = $(n + 1); if ($n == "id") id = $(n + 1); if ($n == value) got = $(n + 1) } }
        (index(threads, " " of " ") > 0) != (which == "but") && (ids == "" || index(ids, " " id " ")) { sum += got }
        END { printf "%.0f", sum }'
}
row() { # kind rw block depth
    local before between after data
    job "$2" "$3" "$4"
    before=$(count)
    job "$2" "$3" "$4"
    between=$(count)
    job "$2" "$3" "$4" 2
    after=$(count)
    traced on
    job "$2" "$3" "$4"
    data=$(($(bytes "$3") * operations))
    # What sockets gave to others than weft's programs, the kernel has received.
    echo "$1|$2|$3|$4|$before $between $after $(summed raw_syscalls/sys_enter hitcount of "$(threads $pid)")" \
        "$(summed raw_syscalls/sys_exit ret of "$(threads $pid)" "$MOVING") $(summed kprobes/received len but "$(threads $target_pid $pid)") $data" >>/tmp/rows
    traced off
    tail -n 1 /tmp/rows
}
rows() { # kind
    row "$1" randread 4KiB 1
    row "$1" randread 4KiB 32
    row "$1" randwrite 4KiB 32
    row "$1" randread 64KiB 8
}

target_start ram:64MiB --threads 1
pid=
connect -i 1
rows nvme-tcp
disconnect
iscsid_start
for kind in ublk nbd iscsi; do
    /lab/weft connect nvme+tcp://$ADDR:$PORT/$NQN/1 --as $kind --name disk >/tmp/said 2>&1 || { cat /tmp/said; fail "weft connect --as $kind"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    pid=$(/lab/weft list -o json | jq -r '.Devices[0].Pid')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    rows $kind
    /lab/weft disconnect disk || fail "weft disconnect"
done
target_stop
awk -F'|' -v operations="$operations" '
    BEGIN {
        print "| disk | job | instructions | of them weft | beside nvme-tcp | system calls of weft | context switches | copies |"
        print "|---|---|---|---|---|---|---|---|"
    }
    {
        split($5, n, " ")
        # 1 to 5 before, 6 to 10 between, 11 to 15 after, then what was traced
        for (k = 1; k <= 5; k++) per[k] = ((n[k + 10] - n[k + 5]) - (n[k + 5] - n[k])) / operations
        own = per[1] - per[2]
        job = $2 " " $3 " at " $4
        if ($1 == "nvme-tcp") reference[job] = own
        printf "| %s | %s | %d | %d | %.2f | %.2f | %.2f | %.2f |\n", $1, job, own, per[3], own / reference[job], n[16] / operations, per[4],
            (n[17] + n[18]) / n[19]
    }' /tmp/rows
