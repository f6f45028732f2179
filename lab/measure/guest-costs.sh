#!/bin/sh
# What an operation on a remote disk costs a guest, by counts: its disk by vhost-user, whose weft outside is the initiator, beside the kernel's NVMe/TCP
# host in the guest, over its network. One target of weft outside serves both. The guest's clock advances by 1 ns with each instruction, and instructions
# are those that the emulator counts, interrupts included. Each job runs with N and 2 N operations, as the difference has nothing of fio's start, and once
# while weft's system calls, the guest's notifications and what its kernel copies are counted. It needs strace on this machine.
# usage: cargo xtask lab run lab/measure/guest-costs.sh [-- OPERATIONS]
# lab: files=weft disk=vhost-user net=1 modules=virtio_blk,nvme-tcp,crc32c_generic pkgs=nvme-cli,fio mem=1024 clock=instructions timeout=2400
. /lab/lib.sh
operations=${1:-1000}
ADDR=10.0.2.2 PORT=$LAB_PORT
trace=/sys/kernel/tracing
mount -t tracefs trace $trace
# The write by which a driver tells a device of new requests, and what the kernel copies from a socket's packets.
echo 'p:kick vp_notify' >$trace/kprobe_events
echo 'p:received skb_copy_datagram_iter len=%cx:s32' >>$trace/kprobe_events

# outside CALLS: what the host counts (lab/crates/vm/src/disk.rs), system calls from now on if CALLS is 1
outside() {
    printf '\0lab-count:%d 0\n' "$1"
    read -r counted <&3
}
# interrupts: those of disks and networks so far
interrupts() {
    local n
    awk -v devices="$(devices)" '
        / virtio[0-9]+-/ { of = $NF; sub(/-.*/, "", of); if (index(devices, " " of " ")) for (n = 2; $n ~ /^[0-9]+$/; n++) sum += $n }
        END { printf "%.0f", sum }' /proc/interrupts
}
devices() { for n in /sys/bus/virtio/drivers/virtio_blk/virtio* /sys/bus/virtio/drivers/virtio_net/virtio*; do printf ' %s ' "${n##*/}"; done; }
job() { # rw block depth [times]
    fio --name=job --filename="$disk" --rw="$1" --bs="${2%KiB}k" --iodepth="$3" --size=32m --io_size=$(($(bytes "$2") * operations * ${4:-1})) --direct=1 \
        --ioengine=libaio --norandommap --allow_file_create=0 --output=/tmp/fio.out || { cat /tmp/fio.out; fail "fio $*"; }
}
traced() { # on or off
    local mark=''
    [ "$1" = on ] || mark='!'
    echo "${mark}hist:keys=common_pid" >$trace/events/kprobes/kick/trigger
    echo "${mark}hist:keys=common_pid:vals=len" >$trace/events/kprobes/received/trigger
}
# summed EVENT VALUE: over all of its lines
summed() { awk -v value="$2:" '/hitcount:/ { for (n = 1; n < NF; n++) if ($n == value) sum += $(n + 1) } END { printf "%.0f", sum }' $trace/events/kprobes/"$1"/hist; }
row() { # kind rw block depth
    local line before
    job "$2" "$3" "$4"
    outside 0
    line="$counted"
    job "$2" "$3" "$4"
    outside 0
    line="$line $counted"
    job "$2" "$3" "$4" 2
    outside 1
    line="$line $counted"
    traced on
    before=$(interrupts)
    job "$2" "$3" "$4"
    line="$line $(($(interrupts) - before)) $(summed kick hitcount) $(summed received len)"
    traced off
    outside 0
    echo "$1|$2|$3|$4|$line ${counted#* * * } $(($(bytes "$3") * operations))" >>/tmp/rows
    tail -n 1 /tmp/rows
}
rows() { # kind
    row "$1" randread 4KiB 1
    row "$1" randread 4KiB 32
    row "$1" randwrite 4KiB 32
    row "$1" randread 64KiB 8
}

disk=/dev/vda
wait_for 30 test -b $disk || fail "there is no disk"
rows vhost-user
# A slow guest may be late with keep-alives.
nvme connect -t tcp -a $ADDR -s "$PORT" -n $NQN -k 600 >/dev/null || fail "nvme connect"
wait_for 30 nvme_disk 2 || fail "there is no second namespace"
disk=$(nvme_disk 2)
rows nvme-tcp
disconnect
awk -F'|' -v operations="$operations" '
    {
        split($5, n, " ")
        # 1 to 5 before, 6 to 10 between, 11 to 15 after: instructions, time of weft and of the target, two of calls; then what was traced
        per[1] = ((n[11] - n[6]) - (n[6] - n[1])) / operations
        # What is outside has no part in the start of fio.
        for (k = 2; k <= 3; k++) per[k] = (n[k + 10] - n[k]) / (3 * operations)
        job = $2 " " $3 " at " $4
        own[$1, job] = per[1]
        is = $1 == "vhost-user"
        if (is) jobs[++count] = job
        # The bytes of weft are counted where it gives them to sockets or gets them, and once more between its memory and the guest.
        row[$1, job] = sprintf("%.2f | %.2f | %.2f | %s | %s | %.0f | %.2f | %s", n[17] / operations, n[16] / operations, (n[17] + n[16]) / operations,
            is ? sprintf("%.0f", per[2] / 1000) : "0", is ? sprintf("%.2f", n[19] / operations) : "0", per[3] / 1000,
            n[18] / n[21], is ? sprintf("%.2f", n[20] / n[21] + 1) : "0")
    }
    END {
        print "| lane | job | instructions | beside nvme-tcp | kicks | interrupts | both | weft µs | its system calls | target µs | copies of the guest | of weft |"
        print "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
        split("vhost-user nvme-tcp", kinds, " ")
        for (k = 1; k <= 2; k++) for (at = 1; at <= count; at++) {
            of = kinds[k]
            job = jobs[at]
            printf "| %s | %s | %d | %.2f | %s |\n", "guest-" of, job, own[of, job], own[of, job] / own["nvme-tcp", job], row[of, job]
        }
    }' /tmp/rows
