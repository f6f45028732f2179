#!/bin/sh
# Disks of the machine as sources: a disk with discards behind NVMe/TCP, iSCSI and NBD, with a file system and verified I/O; a disk of 4096-byte
# blocks; disks in use are refused by what uses them, data is not overwritten without consent, and a disk that is removed is gone.
# lab: files=weft,../iscsi.sh modules=nvme-tcp,iscsi_tcp,nbd,sd_mod,scsi_debug,ext4,crc32c_generic pkgs=nvme-cli,open-iscsi,nbd-client,fio,e2fsprogs,fdisk,util-linux,diffutils timeout=240
. /lab/lib.sh
. /lab/iscsi.sh
rmmod scsi_debug
modprobe scsi_debug dev_size_mb=48 lbpu=1 lbprz=0 physblk_exp=3 delay=0 max_luns=1
# an earlier case of this machine may have loaded it without a disk
rmmod null_blk 2>/dev/null || :
modprobe null_blk nr_devices=1 gb=1 bs=4096 memory_backed=1
scsi() { ls -d /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/*; }
wait_for 10 scsi || fail "scsi_debug has no disk"
local_disk=/dev/$(basename "$(scsi)")
# that of iscsi.sh would take the local disk
scsi_disk() {
    local d
    for d in /sys/class/iscsi_session/session*/device/target*/*:"$1"/block/*; do
        [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
    done
    return 1
}
said() { grep -qF "$1" /tmp/said || { cat /tmp/said; fail "it did not say: $1"; }; }

# what is in use is refused, by what uses it
echo ',32M' | sfdisk -q "$local_disk"
wait_for 10 test -b "${local_disk}1" || fail "no partition"
mkfs.ext4 -q -F -L home "${local_disk}1"
mount "${local_disk}1" /mnt
refuses /lab/weft serve "$local_disk" --listen nvme+tcp://$ADDR:0
said "its partition $(basename "${local_disk}1") is mounted at /mnt"
refuses /lab/weft serve "${local_disk}1" --listen nvme+tcp://$ADDR:0
said "it is mounted at /mnt"
/lab/weft bench "readonly:${local_disk}1" --rw=read --size=1m >/tmp/out 2>&1 || { cat /tmp/out; fail "reading a mounted disk"; }
umount /mnt
note "in use"

# data is not overwritten without consent, here and over a network
refuses /lab/weft bench "$local_disk" --rw=write --size=1m
said "$local_disk holds a partition table (MBR); give --destroy-data to overwrite it"
refuses /lab/weft bench "${local_disk}1" --rw=randtrim --size=1m
said "holds an ext4 file system (label \"home\")"
target_start "${local_disk}1"
refuses /lab/weft bench nvme+tcp://$ADDR:$PORT/$NQN --rw=randwrite --size=1m
said "holds an ext4 file system (label \"home\")"
refuses mount "${local_disk}1" /mnt
target_stop
e2fsck -f -n "${local_disk}1" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "it was written to"; }
/lab/weft bench "$local_disk" --rw=write --bs=64k --verify=crc32c --destroy-data >/tmp/out 2>&1 || { cat /tmp/out; fail "with consent"; }
note "consent"

# blocks of 4096 bytes
/lab/weft bench /dev/nullb0 --rw=randwrite --bs=4k --iodepth=16 --size=8m --verify=crc32c >/tmp/out 2>&1 || { cat /tmp/out; fail "blocks of 4096 bytes"; }
refuses /lab/weft bench /dev/nullb0,block=512 --rw=read --size=1m
said "the disk has blocks of 4096 bytes"

# one disk behind three exports
blockdev --rereadpt "$local_disk" || :
/lab/weft serve "$local_disk" --nqn $NQN --iqn $IQN --name first --listen nvme+tcp://$ADDR:$PORT --listen iscsi://$PORTAL \
    --listen nbd://$ADDR:10809 >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 30 grep -q '^listening on nbd://' /tmp/target.log || fail "weft serve does not listen"
round() { # protocol, disk
    mkfs.ext4 -q -F "$2"
    mount "$2" /mnt
    fio_verify /mnt/file 1m
    umount /mnt
    e2fsck -f -n "$2" >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck over $1"; }
    fio_verify "$2" 2m --bsrange=4k-128k --iodepth=8
    note "$1"
}
connect
expect "the logical block size" "$(sys logical_block_size)" 512
expect "the preferred size" "$(sys minimum_io_size)" 4096
[ "$(sys discard_max_bytes)" -gt 0 ] || fail "no discard"
mapped() { cat /sys/bus/pseudo/drivers/scsi_debug/map | tr ',' '\n' | awk -F- 'NF {sum += ($2 == "" ? $1 : $2) - $1 + 1} END {print sum + 0}'; }
dd if=/dev/zero of="$disk" bs=256k count=192 oflag=direct status=none
full=$(mapped)
blkdiscard "$disk"
[ "$(mapped)" -lt $((full / 2)) ] || fail "discards do not reach the disk: $full blocks before, $(mapped) after"
round NVMe/TCP "$disk"
disconnect
iscsid_start
discover
login
round iSCSI "$disk"
logout
nbd-client $ADDR 10809 /dev/nbd0 -N first >/tmp/said 2>&1 || { cat /tmp/said; fail "nbd-client"; }
wait_for 10 sh -c "[ \$(cat /sys/block/nbd0/size) -gt 0 ]" || fail "nbd0 has no size"
round NBD /dev/nbd0
nbd-client -d /dev/nbd0 >/dev/null 2>&1
kernel_is_calm

# a disk that is removed is gone, and the server goes on
connect
echo 1 >"$(scsi | sed 's|/block/.*||')/delete"
wait_for 20 grep -q "the disk is gone" /tmp/target.log || fail "nobody noticed that the disk is gone"
target_runs
nvme disconnect -n $NQN >/dev/null
# it cannot make anything durable any more, and says so
kill $target_pid
if wait $target_pid; then fail "weft serve did not say that the flush failed"; fi
grep -q "flush failed: Gone" /tmp/target.log || fail "weft serve does not say what failed"
