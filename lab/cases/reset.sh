#!/bin/sh
# Under verified load: controller resets, a target that is killed and comes back; then a disconnect
# in the middle of I/O, which must end the I/O and not hang.
# lab: files=weft modules=nvme-tcp pkgs=nvme-cli,fio timeout=240
. /lab/lib.sh
image=/tmp/image
truncate -s 32M $image
serve() { target_start "$(file_source $image 4096)"; }

serve
connect -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
for i in 1 2 3; do
    nvme reset "/dev/$ctrl" || fail "nvme reset"
    fio_goes_on "reset $i"
done
fio_stop "resets"
target_runs
note "three resets under load"

fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
target_kill
wait_for 30 sh -c "! grep -q live /sys/class/nvme/$ctrl/state" || fail "the host did not notice"
note "killed: the controller is $(cat /sys/class/nvme/"$ctrl"/state)"
serve
wait_for 30 is_live || fail "no reconnect"
fio_goes_on "the reconnect"
fio_stop "kill and reconnect"
fio_verify "$disk" 4m
note "killed and back under load"

fio_load
disconnect
if wait $load_pid; then fail "fio went on without a disk"; fi
note "disconnected under load"
target_runs
connect
fio_verify "$disk" 4m
disconnect
target_stop
kernel_is_sound
