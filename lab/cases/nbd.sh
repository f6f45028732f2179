#!/bin/sh
# NBD against the kernel and nbd-server: the kernel's client on weft's exports, over one and several connections, with a file system
# and verified I/O; weft's client on nbd-server.
# lab: files=weft modules=nbd,ext4 pkgs=nbd-client,nbd-server,fio,e2fsprogs,diffutils timeout=240
. /lab/lib.sh
modprobe nbd nbds_max=2
head -c 8m /dev/urandom >/tmp/third
socket=/tmp/weft.sock
/lab/weft serve ram:48MiB ram:24MiB,block=4096 ram:8MiB --name first --name second --name third \
    --listen nbd://$ADDR:10809 --listen "nbd+unix:///?socket=$socket" >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 30 grep -q '^listening on nbd+unix://' /tmp/target.log || fail "weft serve does not listen"

attach() { # device, options of nbd-client
    local device=$1
    shift
    nbd-client "$@" /dev/$device >/tmp/said 2>&1 || { cat /tmp/said; fail "nbd-client $*"; }
    wait_for 10 sh -c "[ \$(cat /sys/block/$device/size) -gt 0 ]" || fail "$device has no size"
}
detach() { nbd-client -d /dev/$1 >/dev/null 2>&1 || fail "cannot detach $1"; }

attach nbd1 $ADDR 10809 -N third
dd if=/tmp/third of=/dev/nbd1 bs=256k oflag=direct status=none
round() { # options of nbd-client for the first export
    attach nbd0 "$@" -N first
    expect "the size with $*" "$(cat /sys/block/nbd0/size)" 98304
    mkfs.ext4 -q -F /dev/nbd0
    mount /dev/nbd0 /mnt
    fio_verify /mnt/file 2m
    umount /mnt
    e2fsck -f -n /dev/nbd0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
    fio_verify /dev/nbd0 6m --bsrange=4k-128k --iodepth=8
    detach nbd0
    note "round $*"
}
round $ADDR 10809
round $ADDR 10809 -connections 4
round -unix $socket
attach nbd0 $ADDR 10809 -N second -block-size 4096
fio_verify /dev/nbd0 6m --bsrange=4k-128k --iodepth=8
detach nbd0
cmp -n 8388608 /tmp/third /dev/nbd1 || fail "the third export changed"
detach nbd1
kernel_is_calm
target_stop
[ ! -e $socket ] || fail "the socket is left behind"

# the other way: weft's client on nbd-server
truncate -s 32M /tmp/served
printf '[generic]\nlistenaddr = %s\nport = 10810\n[disk]\nexportname = /tmp/served\nflush = true\nfua = true\ntrim = false\n' $ADDR >/tmp/nbd.conf
nbd-server -C /tmp/nbd.conf -p /tmp/nbd-server.pid
url=nbd://$ADDR:10810/disk
wait_for 30 /lab/weft bench $url --rw=read --bs=4k --size=4k || fail "no nbd-server"
for options in "--bs=4k --iodepth=16" "--bs=128k --iodepth=4"; do
    /lab/weft bench $url --rw=randwrite --size=4m --verify=crc32c $options >/tmp/out 2>&1 || { cat /tmp/out; fail "bench $options"; }
    note "bench $options"
done
kill $(cat /tmp/nbd-server.pid)
