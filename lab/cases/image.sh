#!/bin/sh
# An ext4 image in a file, served by weft and mounted by the kernel read-write: its files are the
# same before, during and after, through a remount and a restart of the target.
# lab: files=weft modules=nvme-tcp,ext4,loop pkgs=nvme-cli,e2fsprogs timeout=240
. /lab/lib.sh
mkdir -p /tmp/tree/deep/er
cp /lab/lib.sh /usr/bin/busybox /tmp/tree
head -c 5000000 /dev/urandom >/tmp/tree/deep/large
for i in $(seq 1 60); do head -c $((i * 137)) /dev/urandom >/tmp/tree/deep/er/$i; done
: >/tmp/tree/empty
ln -s deep/large /tmp/tree/link
sums() { (cd "$1" && find . -type f ! -path './lost+found/*' -exec sha256sum {} + | sort -k 2); }
sums /tmp/tree >/tmp/before
image=/tmp/image
truncate -s 40M $image
mke2fs -q -t ext4 -d /tmp/tree $image || fail "mke2fs"
same() { sums /mnt | cmp - "$1" || fail "files differ $2"; }

target_start "$(file_source $image 512)"
connect
mount "$disk" /mnt || fail "mount"
same /tmp/before "at first"
cp -r /mnt/deep /mnt/copy
rm /mnt/deep/er/7
head -c 3000000 /dev/urandom >/mnt/new
sums /mnt >/tmp/after
umount /mnt
note "mounted, read and written"

uncached "$disk"
mount "$disk" /mnt
same /tmp/after "after the remount"
umount /mnt
disconnect
target_stop
target_start "$(file_source $image 512)"
connect --data-digest
mount "$disk" /mnt
same /tmp/after "after the restart"
umount /mnt
disconnect
target_stop
note "remounted"

e2fsck -f -n $image >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
mount -o loop,ro $image /mnt
same /tmp/after "in the file itself"
umount /mnt
kernel_is_calm
