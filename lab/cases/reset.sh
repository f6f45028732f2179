#!/bin/sh
# Under verified load: controller resets, a target that is killed and comes back; then a disconnect
# in the middle of I/O, which must end the I/O and not hang.
# lab: files=weft modules=nvme-tcp pkgs=nvme-cli,fio timeout=240
. /lab/lib.sh
image=/tmp/image
truncate -s 32M $image
serve() { target_start "$(file_source $image 4096)"; }
load() { # fio's run time, options
    local runtime=$1
    shift
    written=$(writes)
    fio --name=load --allow_file_create=0 --filename="$disk" --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
        --rate_iops=1500 --time_based --runtime="$runtime" --output=/tmp/load.out "$@" &
    load_pid=$!
    wait_for 30 busy || fail "fio does not write"
}
writes() { awk '{print $5}' "/sys/block/${disk##*/}/stat"; }
busy() { [ "$(writes)" -gt $written ]; }
progress() { written=$(writes); wait_for 30 busy || fail "no I/O after $1"; }
finished() { wait $load_pid || { cat /tmp/load.out; fail "fio saw errors: $1"; }; }
verified="--verify=crc32c --verify_backlog=128 --verify_fatal=1"

serve
connect -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
load 6 $verified
for i in 1 2 3; do
    nvme reset "/dev/$ctrl" || fail "nvme reset"
    progress "reset $i"
done
finished "resets"
target_runs
note "three resets under load"

load 6 $verified
target_kill
wait_for 30 sh -c "! grep -q live /sys/class/nvme/$ctrl/state" || fail "the host did not notice"
note "killed: the controller is $(cat /sys/class/nvme/"$ctrl"/state)"
serve
wait_for 30 is_live || fail "no reconnect"
progress "the reconnect"
finished "kill and reconnect"
fio_verify "$disk" 4m
note "killed and back under load"

load 20
disconnect
if wait $load_pid; then fail "fio went on without a disk"; fi
note "disconnected under load"
target_runs
connect
fio_verify "$disk" 4m
disconnect
target_stop
if dmesg | grep -E 'WARNING|BUG|Call Trace'; then fail "the kernel complains"; fi
