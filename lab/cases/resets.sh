#!/bin/sh
# A minute of controller resets, one after the other, under verified writes on two I/O queues: no error, no mismatch, and the target has no more memory
# and no more descriptors than after the first.
# lab: long files=weft modules=nvme-tcp pkgs=nvme-cli,fio timeout=300
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "what is counted is weft's"
SECONDS_IN_ALL=${SECONDS_IN_ALL:-60}
truncate -s 32M /tmp/image
target_start "$(file_source /tmp/image 4096)"
connect -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
resident() { awk '/^VmRSS/ { print $2 }' /proc/$target_pid/status; }
descriptors() { ls /proc/$target_pid/fd | wc -l; }
now() { cut -d. -f1 /proc/uptime; }
# live for long enough that I/O has gone on
reset_once() {
    nvme reset "/dev/$ctrl" || fail "nvme reset $resets"
    written=$(fio_writes)
    wait_for 30 writes_again || fail "no I/O after reset $resets"
}
writes_again() { [ "$(fio_writes)" -gt $((written + 20)) ]; }
resets=1
reset_once
first_resident=$(resident) first_descriptors=$(descriptors) end=$(($(now) + SECONDS_IN_ALL))
while [ "$(now)" -lt $end ]; do
    resets=$((resets + 1))
    reset_once
done
fio_stop "$resets resets"
target_runs
note "$resets resets; the target has $first_resident, then $(resident) KiB, and $first_descriptors, then $(descriptors) descriptors"
[ "$(descriptors)" -le $((first_descriptors + 4)) ] || { ls -l /proc/$target_pid/fd; fail "descriptors are left"; }
[ "$(resident)" -le $((first_resident + 16384)) ] || fail "memory is left"
fio_verify "$disk" 4m
disconnect
target_stop
kernel_is_sound
