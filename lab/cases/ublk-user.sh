#!/bin/sh
# Disks by ublk of users who are not root, with udev and the rules of packaging/: verified I/O by weft serve and by weft connect; killed
# under verified I/O and made anew by the same user; in use when weft ends; another user is refused, and so is who lacks the rules.
# lab: files=weft,../../packaging modules=ublk_drv,ext4 pkgs=fio,e2fsprogs,udev,util-linux timeout=300 mem=768
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
cp /lab/weft /usr/bin/weft
# as everywhere but in a case
chmod 755 /run
truncate -s 64M /tmp/one
chown 1000:1000 /tmp/one

# by UID COMMAND...: as this user, who has no capabilities; a program, so that its process is that of the command
cat >/usr/bin/by <<-'EOF'
	#!/bin/sh
	uid=$1
	shift
	exec setpriv --reuid "$uid" --regid "$uid" --clear-groups --inh-caps=-all --bounding-set=-all env USER="user$uid" HOME=/tmp "$@"
	EOF
chmod 755 /usr/bin/by
# serve COMMAND...
serve() {
    : >/tmp/target.log
    "$@" --nqn $NQN >/tmp/target.log 2>&1 &
    target_pid=$!
}
here() { wait_for 60 grep -q "^listening on $1\$" /tmp/target.log || fail "weft serves no $1"; }
said() { grep -q "$1" /tmp/said || { cat /tmp/said; fail "this is not said: $1"; }; }
# status NUMBER COMMAND...: it must end with this status; what it said is in /tmp/said
status() {
    local wanted=$1 got=0
    shift
    "$@" >/tmp/said 2>&1 || got=$?
    [ $got = "$wanted" ] || { cat /tmp/said; fail "status $got and not $wanted: $*"; }
}
owner() { stat -c '%u:%g %a' "$1"; }

# without the rules: no access to the control device, and then none to what the kernel makes
chmod 600 /dev/ublk-control
status 4 by 1000 /lab/weft serve ram:1MiB --listen ublk:
said 'no permission for /dev/ublk-control'
chmod 666 /dev/ublk-control
status 4 by 1000 /lab/weft serve ram:1MiB --listen ublk:9
said 'udev did not give it to the user.*61-weft-users.rules'
note "without the rules"

mkdir -p /etc/udev/rules.d
cp /lab/packaging/*.rules /etc/udev/rules.d/
chmod 600 /dev/ublk-control
# udevadm is the daemon, too, by this name
ln -sf "$(command -v udevadm)" /run/systemd-udevd
/run/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=misc
udevadm settle
expect "the control device" "$(owner /dev/ublk-control)" "0:0 666"
note "udev"

# root removes what was left without the rules
serve /lab/weft serve ram:1MiB --listen ublk:9
here /dev/ublkb9
udevadm settle
expect "the owner of a disk of root" "$(stat -c %u /dev/ublkb9)" 0
if weft ublk-owner 9; then fail "a disk of root is taken for one of a user"; fi
status 4 by 1000 /lab/weft serve ram:1MiB --listen ublk:9
said 'belongs to another user'
target_stop
[ ! -e /dev/ublkc9 ] || fail "a device is left behind"

serve by 1000 /lab/weft serve file:/tmp/one --listen ublk:
here /dev/ublkb0
expect "the disk" "$(owner /dev/ublkb0)" "1000:1000 600"
expect "its device" "$(owner /dev/ublkc0)" "1000:1000 600"
by 1000 fio --name=verify --filename=/dev/ublkb0 --size=6m --rw=randwrite --bsrange=4k-128k --ioengine=libaio --iodepth=8 --direct=1 \
    --verify=crc32c --do_verify=1 --verify_fatal=1 --output=/tmp/fio-user.out || { cat /tmp/fio-user.out; fail "fio of the user"; }
refuses by 1001 dd if=/dev/ublkb0 of=/dev/null count=1
# udev gives the node its mode again after whoever wrote to it has closed it, and that may be after this chmod
refused_by_the_kernel() {
    chmod 666 /dev/ublkb0
    refuses by 1001 dd if=/dev/ublkb0 of=/dev/null count=1
    grep -q 'not permitted' /tmp/said
}
wait_for 30 refused_by_the_kernel || said 'not permitted'
chmod 600 /dev/ublkb0
status 4 by 1001 /lab/weft serve ram:1MiB --listen ublk:0
said 'belongs to another user'
status 5 by 1000 /lab/weft serve ram:1MiB --listen ublk:0
said 'is served by process'
kernel_is_calm
target_stop
[ ! -e /dev/ublkb0 ] && [ ! -e /dev/ublkc0 ] || fail "a disk is left behind"
note "verified, and refused to others"

# killed under I/O: the kernel ends the disk, and the same user makes it anew with what was written
serve by 1000 /lab/weft serve file:/tmp/one --listen ublk:
here /dev/ublkb0
by 1000 fio --name=kept --filename=/dev/ublkb0 --size=4m --rw=write --bs=64k --ioengine=libaio --iodepth=4 --direct=1 --end_fsync=1 \
    --verify=crc32c --do_verify=0 --output=/tmp/fio-user.out || { cat /tmp/fio-user.out; fail "fio of the user"; }
by 1000 fio --name=load --filename=/dev/ublkb0 --offset=16m --size=8m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
    --rate_iops=400 --time_based --runtime=200 --allow_file_create=0 --output=/tmp/fio.out &
fio_pid=$!
wait_for 30 sh -c '[ "$(awk "{print \$5}" /sys/block/ublkb0/stat)" -gt 300 ]' || fail "fio does not write"
target_kill
if wait $fio_pid; then fail "the disk should have ended with its process"; fi
status 4 by 1001 /lab/weft serve ram:1MiB --listen ublk:0
serve by 1000 /lab/weft serve file:/tmp/one --listen ublk:
here /dev/ublkb0
uncached /dev/ublkb0
by 1000 fio --name=kept --filename=/dev/ublkb0 --size=4m --rw=read --bs=64k --ioengine=libaio --iodepth=4 --direct=1 \
    --verify=crc32c --verify_fatal=1 --output=/tmp/fio-user.out || { cat /tmp/fio-user.out; fail "what was written is not there"; }
note "killed, and made anew"

# in use when weft ends: root has mounted it
mkfs.ext4 -q -F /dev/ublkb0
mount /dev/ublkb0 /mnt
kill $target_pid
got=0
wait $target_pid || got=$?
expect "the status" $got 5
grep -q 'was mounted at /mnt, and has ended' /tmp/target.log || { cat /tmp/target.log; fail "what is said of a mounted disk"; }
status 5 by 1000 /lab/weft serve file:/tmp/one --listen ublk:0
umount /mnt
serve by 1000 /lab/weft serve file:/tmp/one --listen ublk:0
here /dev/ublkb0
target_stop
[ ! -e /dev/ublkc0 ] || fail "a device is left behind"
note "mounted"

# a user's killed disk of a RAM disk is in nobody's way
serve by 1000 /lab/weft serve ram:8MiB --listen ublk:3
here /dev/ublkb3
target_kill
serve by 1000 /lab/weft serve ram:8MiB --listen ublk:3
here /dev/ublkb3
target_stop

# over NVMe/TCP by weft connect; killed, the same command makes it again
target_start ram:16MiB
url=nvme+tcp://$ADDR:$PORT/$NQN/1
run=/tmp/weft-user1000
attach() { status 0 by 1000 /lab/weft connect $url --as ublk --name disk; said /dev/ublkb0; }
attach
by 1000 mkfs.ext4 -q -F /dev/ublkb0
[ -f $run/ublk0.disk ] || { ls -l $run; fail "no record of the disk"; }
killed=$(sed -n 's/.*"pid": \([0-9]*\).*/\1/p' $run/disk.json)
kill -9 "$killed"
attach
by 1000 e2fsck -f -n /dev/ublkb0 >/tmp/fsck 2>&1 || { cat /tmp/fsck; fail "fsck"; }
status 0 by 1000 /lab/weft disconnect disk
[ ! -e /dev/ublkc0 ] || fail "a device is left behind"
target_stop
kernel_is_sound
modprobe -r ublk_drv
note "weft connect"
