#!/bin/sh
# No deadlock of memory: a file system on a disk that `weft connect` serves to its own machine takes dirty pages of twice the memory, while the target
# dies and comes back. The server's protection is in force: its pages are locked, the OOM killer leaves it alone, it is a part of the way to a disk.
# Here memory is first used up but for some; `-- all` uses the whole machine. The disk by ublk is one that weft daemon
# holds; that by loop has a file by FUSE below it.
# lab: long files=weft,../iscsi.sh,../daemon.sh modules=iscsi_tcp,sd_mod,nbd,ublk_drv,fuse,loop,zram,ext4 pkgs=open-iscsi,nbd-client,fio,e2fsprogs,mount,jq timeout=1900
. /lab/lib.sh
. /lab/iscsi.sh
. /lab/daemon.sh
[ "$TARGET" != kernel ] || skip "both ends are weft's"
AVAILABLE_MIB=${AVAILABLE_MIB:-256}

mib() { awk -v key="$1:" '$1 == key { print int($2 / 1024) }' /proc/meminfo; }
# The target's store keeps a page whose words are all the same in no memory, and fio's pattern (the block's offset) makes such pages.
modprobe zram
echo $(($(mib MemTotal) * 2 + 256))M >/sys/block/zram0/disksize
# The target shares the memory here, so it needs the same protection.
# The state directory is in memory, so nothing records the UUID of a disk without a WWID.
serve() { target_start --protect-memory --pool 32MiB file:/dev/zram0,uuid=0b007ab0-0000-4000-8000-000000000002; }
serve
iscsid_start

# protected PID: each thread is a part of the way to a disk (PF_MEMALLOC_NOIO, PF_LOCAL_THROTTLE), and so on
protected() {
    local task flags locked
    for task in /proc/"$1"/task/*; do
        flags=$(sed 's/.*) //' "$task/stat" | cut -d' ' -f7)
        [ $((flags & 0x180000)) = $((0x180000)) ] || fail "thread ${task##*/} ($(cat "$task/comm")) of $1 has the flags $(printf %x "$flags")"
    done
    locked=$(awk '/^VmLck/ { print $2 }' /proc/"$1"/status)
    [ "$locked" -gt 4096 ] || fail "only $locked KiB are locked"
    expect "oom_score_adj" "$(cat /proc/"$1"/oom_score_adj)" -1000
    note "$(ls /proc/"$1"/task | wc -l) threads, $locked KiB locked"
}

# eat: memory that nobody gets back, until so much is left
mkdir /tmp/eaten
eat() {
    local n=0 more
    mount -t tmpfs -o size=100% eaten /tmp/eaten
    while more=$(($(mib MemAvailable) - $1)) && [ $more -gt 4 ]; do
        n=$((n + 1))
        fallocate -l ${more}m /tmp/eaten/$n
    done
}
# written_back PROTOCOL MIB [MIB-LEFT]
written_back() {
    local size=$2m pid
    /lab/weft connect nvme+tcp://$ADDR:$PORT/$NQN/1 --as "$1" --name disk --reconnect-delay=1 >/tmp/said 2>&1 \
        || { cat /tmp/said /run/weft/disk.log; fail "weft connect --as $1"; }
    ! grep permit /tmp/said /run/weft/disk.log || fail "root has no permission"
    disk=$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')
    pid=$(/lab/weft list -o json | jq -r '.Devices[0].Pid')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    protected "$pid"
    mkfs.ext4 -q -F "$disk"
    mount "$disk" /mnt
    [ -z "${3:-}" ] || eat "$3"
    fio --name=dirty --filename=/mnt/data --size="$size" --rw=write --bs=64k --ioengine=psync --verify=pattern --verify_pattern=%o \
        --do_verify=0 --end_fsync=1 --output=/tmp/dirty.out &
    writer=$!
    third() { [ "$(awk '{print $7}' "/sys/block/${disk#/dev/}/stat")" -gt $(($1 * 2048 / 3)) ]; }
    wait_for 200 third "$2" || fail "no writes to $disk"
    target_kill
    note "the target is killed: $(mib MemAvailable) MiB available, $(mib Dirty) MiB dirty, $(mib Writeback) MiB in write-back"
    sleep 3
    note "still away: $(mib MemAvailable) MiB available, $(mib Dirty) MiB dirty, $(mib Writeback) MiB in write-back"
    kill -0 $writer || { cat /tmp/dirty.out; fail "the writer gave up"; }
    serve
    wait $writer || { cat /tmp/dirty.out; fail "fio"; }
    note "$2 MiB written with $(mib MemTotal) MiB of memory"
    protected "$pid"
    echo 3 >/proc/sys/vm/drop_caches
    fio --name=dirty --filename=/mnt/data --size="$size" --rw=read --bs=64k --ioengine=psync --verify=pattern --verify_pattern=%o \
        --verify_fatal=1 --output=/tmp/check.out || { cat /tmp/check.out; fail "other data than was written"; }
    umount /mnt
    e2fsck -fn "$disk" >/tmp/fsck.out 2>&1 || { cat /tmp/fsck.out; fail "the file system is not clean"; }
    /lab/weft disconnect disk || fail "weft disconnect"
    [ -z "${3:-}" ] || umount /tmp/eaten
}
# of_daemon COMMAND...: while a daemon holds what is connected
of_daemon() {
    daemon_start
    "$@"
    kill "$(cat /tmp/daemon.pid)"
}

if [ "${1:-}" = all ]; then
    for protocol in nbd iscsi loop; do written_back $protocol $(($(mib MemTotal) * 2)); done
    of_daemon written_back ublk $(($(mib MemTotal) * 2))
else
    written_back nbd $((AVAILABLE_MIB * 2)) "$AVAILABLE_MIB"
    of_daemon written_back ublk $((AVAILABLE_MIB * 2)) "$AVAILABLE_MIB"
    # The loop device writes to a file by FUSE, without the page cache between both.
    written_back loop $((AVAILABLE_MIB * 2)) "$AVAILABLE_MIB"
fi

target_stop
echo 1 >/sys/block/zram0/reset
if dmesg | grep -E 'EXT4-fs error|Buffer I/O error|rejecting I/O|Out of memory|blocked for more|page allocation failure'; then fail "the kernel complains"; fi
kernel_is_sound
