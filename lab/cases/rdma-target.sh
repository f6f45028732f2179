#!/bin/sh
# The kernel's host on weft's target over RDMA, on a soft device: discovery, a file system, verified I/O of mixed sizes on several queues,
# discard, resets under load, the death and restart of the target.
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvme-rdma,ib_uverbs,rdma_ucm,ext4,crc32c_generic timeout=400
# lab: pkgs=nvme-cli,fio,e2fsprogs,diffutils,iproute2,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
image=/tmp/image
truncate -s 32M $image
serve() { target_start "$(file_source $image 4096)"; }

serve
nvme discover -t rdma -a $ADDR -s $PORT >/tmp/out || { cat /tmp/out; fail "nvme discover"; }
grep -q "trtype:  rdma" /tmp/out && grep -q $NQN /tmp/out || { cat /tmp/out; fail "discovery does not tell the port"; }
nvme connect-all -t rdma -a $ADDR -s $PORT >/dev/null || fail "nvme connect-all"
wait_for 30 nvme_disk 1 || fail "connect-all connects nothing"
disconnect
note "discovered"

for queues in 1 2; do
    connect -i $queues
    fio_verify "$disk" 4m
    fio_verify "$disk" 8m --bsrange=4k-256k
    disconnect
    note "verified on $queues queues"
done

connect -i 2
mkfs.ext4 -q "$disk" || fail "mkfs"
mount "$disk" /mnt
head -c 8m /dev/urandom >/tmp/data
cp /tmp/data /mnt/data
umount /mnt
uncached "$disk"
mount "$disk" /mnt
cmp /mnt/data /tmp/data || fail "the file is another one"
umount /mnt
note "file system"
blkdiscard -o 1048576 -l 4194304 "$disk" || fail "blkdiscard"
uncached "$disk"
zeroes "$disk" 1048576 4194304 || fail "discarded blocks do not read as zero"
disconnect
note "discard"
kernel_is_calm

connect -i 2 --reconnect-delay=1 --ctrl-loss-tmo=60
fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
for i in 1 2; do
    nvme reset "/dev/$ctrl" || fail "nvme reset"
    fio_goes_on "reset $i"
done
fio_stop "resets"
target_runs
note "resets under load"

fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
target_kill
wait_for 30 sh -c "! grep -q live /sys/class/nvme/$ctrl/state" || fail "the host did not notice"
serve
wait_for 60 is_live || fail "no reconnect"
fio_goes_on "the reconnect"
fio_stop "kill and reconnect"
fio_verify "$disk" 4m
disconnect
target_stop
kernel_is_sound
note "killed and back under load"
