#!/bin/sh
# Flush and FUA reach the disk: weft serves a disk of dm-log-writes, which logs what a loss of power cannot take any more. The log is replayed up to
# each point at which the host was told that something is safe: all of it is there, and the file system is clean, as it is after every flush.
# lab: files=weft,lab-vm modules=nvme-tcp,dm-mod,dm-log-writes,loop,ext4 pkgs=nvme-cli,dmsetup,e2fsprogs,mount,coreutils timeout=300
. /lab/lib.sh
[ "$TARGET" != kernel ] || modprobe nvmet-tcp
export DM_DISABLE_UDEV=1
BLOCKS=${BLOCKS:-4}
FILES=${FILES:-3}
MIB=16

# A disk with a volatile cache: else the kernel has no use for flushes.
modprobe null_blk nr_devices=0
d=/sys/kernel/config/nullb/ram9
mkdir $d
for kv in size=$MIB blocksize=4096 memory_backed=1 cache_size=4 power=1; do echo ${kv#*=} >$d/${kv%=*}; done
truncate -s 128M /tmp/log
log=$(losetup -b 4096 -f --show /tmp/log)
echo "0 $((MIB * 2048)) log-writes /dev/ram9 $log" | dmsetup create logged || fail "dmsetup"
target_start /dev/mapper/logged
connect
expect "the cache" "$(sys write_cache)" "write back"
mark() { dmsetup message logged 0 mark "$1" || fail "no mark $1"; }
# put BLOCK TEXT OFLAGS: a block of the disk becomes this text
put() { printf %-4096s "$2" | dd of="$disk" bs=4096 seek="$1" count=1 iflag=fullblock conv=notrunc oflag="$3" status=none || fail "cannot write block $1"; }

# blocks of the disk: with FUA; with a flush behind; and with none, which may be lost
for i in $(seq $BLOCKS); do
    put "$i" "fua $i" direct,dsync
    mark "fua-$i"
done
for i in $(seq $BLOCKS); do
    put $((100 + i)) "flush $i" direct
    blockdev --flushbufs "$disk"
    nvme flush "$disk" -n 1 >/dev/null || fail "nvme flush"
    mark "flush-$i"
done
put 200 "not safe yet" direct
mark unsafe
nvme flush "$disk" -n 1 >/dev/null || fail "nvme flush"
mark raw-end

mkfs.ext4 -q -F -E nodiscard -b 4096 "$disk"
mount "$disk" /mnt
sync -f /mnt
mark files-0
mkdir /tmp/sums
for i in $(seq $FILES); do
    head -c $((i * 10000)) /dev/urandom >/tmp/content
    dd if=/tmp/content of="/mnt/file$i" bs=4096 conv=fsync status=none || fail "cannot write file $i"
    mark "files-$i"
    sha256sum </tmp/content >"/tmp/sums/$i"
done
umount /mnt
mark unmounted
disconnect
target_stop
dmsetup remove logged
/lab/lab-vm replay "$log" >/tmp/entries || fail "the log cannot be read"
note "$(wc -l </tmp/entries) entries, $(grep -c flush /tmp/entries) flushes, $(grep -c fua /tmp/entries) with FUA, $(grep -c mark /tmp/entries) marks"

truncate -s ${MIB}M /tmp/disk
done_to=0
# replay_to ENTRY: the entries before it
replay_to() {
    /lab/lab-vm replay "$log" --onto /tmp/disk --from $done_to --to "$1" || fail "replay to $1"
    done_to=$1
}
has() { [ "$(dd if=/tmp/disk bs=4096 skip="$1" count=1 status=none | tr -d '\0' | sed 's/ *$//')" = "$2" ]; }
at_mark() { awk -v mark="$1" '$5 == mark { print $1 }' /tmp/entries; }
for i in $(seq $BLOCKS); do
    replay_to "$(at_mark "fua-$i")"
    has "$i" "fua $i" || fail "block $i, written with FUA, is lost"
done
for i in $(seq $BLOCKS); do
    replay_to "$(at_mark "flush-$i")"
    has $((100 + i)) "flush $i" || fail "block $((100 + i)), flushed, is lost"
done
replay_to "$(at_mark unsafe)"
! has 200 "not safe yet" || fail "every write is made safe at once, so this shows nothing"
replay_to "$(at_mark raw-end)"
has 200 "not safe yet" || fail "block 200, flushed, is lost"
for i in $(seq $BLOCKS); do
    has "$i" "fua $i" && has $((100 + i)) "flush $i" || fail "a block of before is lost"
done
note "blocks: all are there"

# clean WHERE: after its journal, as after a loss of power, the file system needs no repair
clean() {
    cp /tmp/disk /tmp/copy
    e2fsck -E journal_only -fy /tmp/copy >/tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; fail "the journal $1"; }
    e2fsck -fn /tmp/copy >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "the file system is not clean $1"; }
}
# replayed N: at its mark all files up to this one are there
replayed() {
    local i
    replay_to "$(at_mark "files-$1")"
    clean "at the mark of file $1"
    mount -o loop /tmp/copy /mnt || fail "cannot mount what file $1 left"
    for i in $(seq "$1"); do expect "file $i at the mark of $1" "$(sha256sum <"/mnt/file$i")" "$(cat "/tmp/sums/$i")"; done
    umount /mnt
}
replayed 0
flushes=0
for n in $(seq $FILES); do
    for entry in $(awk -v from=$done_to -v to="$(at_mark "files-$n")" '$1 >= from && $1 < to && $2 ~ /flush|fua/ { print $1 + 1 }' /tmp/entries); do
        replay_to "$entry"
        clean "after entry $entry"
        flushes=$((flushes + 1))
    done
    replayed "$n"
done
replay_to "$(at_mark unmounted)"
e2fsck -fn /tmp/disk >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "the file system is not clean after umount"; }
note "files: all are there, clean after each of $flushes flushes"

losetup -d "$log"
echo 0 >$d/power
rmdir $d
kernel_is_sound
