#!/bin/sh
# Discard, write zeroes and flush from the kernel's host on a file of an ext4, with blocks of 512 B and 4 KiB.
# lab: files=weft modules=nvme-tcp,ext4 pkgs=nvme-cli,util-linux,diffutils,e2fsprogs timeout=240
. /lab/lib.sh
MIB=1048576
image=/srv/image
modprobe brd rd_nr=1 rd_size=32768
mkfs.ext4 -q /dev/ram0
mkdir /srv
mount /dev/ram0 /srv
head -c 16m /dev/urandom >/tmp/pattern

same() { # first, count: as the pattern, on the disk and in the file below it
    local side
    for side in "$disk" $image; do
        cmp -s -n "$2" /tmp/pattern "$side" "$1" "$1" || fail "$side differs within $2 bytes at $1"
    done
}
zero() { # what, first, count
    zeroes "$disk" "$2" "$3" || fail "after $1 the disk has other than zeroes at $2"
    zeroes $image "$2" "$3" || fail "after $1 the file has other than zeroes at $2"
}
flushes() { cat /sys/block/nvme*c*n*/stat | awk '{sum += $16} END {print sum}'; }

for block in 512 4096; do
    rm -f $image
    truncate -s 16M $image
    target_start "$(file_source $image $block)"
    connect
    expect "the logical block size" "$(sys logical_block_size)" $block
    [ "$(sys discard_max_bytes)" -gt 0 ] || fail "no discard"
    [ "$(sys write_zeroes_max_bytes)" -gt 0 ] || fail "no write zeroes"
    dd if=/tmp/pattern of="$disk" bs=256k oflag=direct status=none
    uncached "$disk"
    same 0 $((16 * MIB))
    full=$(stat -c %b $image)

    blkdiscard -o $((2 * MIB)) -l $((2 * MIB)) "$disk"
    blkdiscard -o $((5 * MIB + 3 * block)) -l $((5 * block)) "$disk"
    uncached "$disk"
    zero "a discard" $((2 * MIB)) $((2 * MIB))
    zero "an odd discard" $((5 * MIB + 3 * block)) $((5 * block))
    same $((4 * MIB)) $((MIB + 3 * block))
    same $((5 * MIB + 8 * block)) 65536
    [ "$(stat -c %b $image)" -lt "$full" ] || fail "discard gave nothing back to the file system"

    blkdiscard -z -o $((8 * MIB)) -l $((3 * MIB)) "$disk"
    fallocate -z -o $((12 * MIB + 7 * block)) -l $((9 * block)) "$disk"
    nvme write-zeroes "$disk" --start-block=$((14 * MIB / block)) --block-count=6 >/dev/null
    uncached "$disk"
    zero "blkdiscard -z" $((8 * MIB)) $((3 * MIB))
    zero "fallocate -z" $((12 * MIB + 7 * block)) $((9 * block))
    zero "nvme write-zeroes" $((14 * MIB)) $((7 * block))
    same $((11 * MIB)) $((MIB + 7 * block))
    same $((14 * MIB + 7 * block)) 65536

    if [ "$(sys write_cache)" = "write back" ]; then
        before=$(flushes)
        dd if=/tmp/pattern of="$disk" bs=64k count=1 conv=fsync status=none
        [ "$(flushes)" -gt "$before" ] || fail "fsync sent no flush"
    fi
    nvme flush "$disk" >/dev/null || fail "nvme flush"
    disconnect
    target_stop
    note "blocks of $block bytes"
done
kernel_is_calm
