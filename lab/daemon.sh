# Helpers of the guest's scripts for weft daemon, on top of those of lib.sh. POSIX sh. $disk is the device of the one connection.

held() { /lab/weft list -o json | jq -r '.Connections[0].State'; }
is_connected() { [ "$(held)" = connected ]; }
# pid: that of the process of the disk
pid() { /lab/weft list -o json | jq -r '.Devices[0].Pid'; }
daemon_start() {
    : >/tmp/daemon.log
    /lab/weft daemon >/tmp/daemon.log 2>&1 &
    echo $! >/tmp/daemon.pid
    wait_for 30 grep -q ^listening /tmp/daemon.log || { cat /tmp/daemon.log; fail "weft daemon"; }
}
# verify_over ACTION...: verified I/O of a file of the disk, which is mounted at /mnt, while something happens
verify_over() {
    local stat=/sys/block/${disk#/dev/}/stat
    local before=$(awk '{print $5}' "$stat")
    fio --name=verify --filename=/mnt/file --size=${verify_size:-8m} --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 \
        --verify=crc32c --do_verify=1 --verify_fatal=1 --rate_iops=500 --output=/tmp/fio.out &
    fio_pid=$!
    writes() { [ "$(awk '{print $5}' "$stat")" -gt $((before + 300)) ]; }
    wait_for 30 writes || fail "fio does not write"
    "$@"
    wait $fio_pid || { cat /tmp/fio.out /run/weft/*.log; fail "fio saw it: $*"; }
    grep -q "^$disk /mnt ext4 rw" /proc/mounts || fail "the file system is not writable any more"
}
# daemon_anew SIGNAL: the daemon ends by it, and another one begins
daemon_anew() {
    kill "$1" "$(cat /tmp/daemon.pid)"
    daemon_start
    wait_for 30 is_connected || { /lab/weft list; fail "the new daemon does not hold the disk"; }
}
# server_anew PID: the process of the disk is killed; the daemon starts another one
server_anew() {
    kill -9 "$1"
    other() { is_connected && [ "$(pid)" != "$1" ]; }
    wait_for 60 other "$1" || { /lab/weft list; cat /tmp/daemon.log; fail "the daemon does not start it again"; }
}
# both_anew: all are killed, and a daemon starts anew
both_anew() {
    kill -9 "$(cat /tmp/daemon.pid)" "$(pid)"
    daemon_start
    wait_for 60 is_connected || { /lab/weft list; cat /tmp/daemon.log; fail "the disk does not come back"; }
}
# outlives: the disk goes on through all of that
outlives() {
    local server=$(pid)
    verify_over daemon_anew -TERM
    verify_over daemon_anew -KILL
    expect "the process of the disk" "$(pid)" "$server"
    note "the daemon ended, and was killed"
    verify_over server_anew "$server"
    expect "the disk" "$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')" "$disk"
    note "the process of the disk was killed"
    verify_over both_anew
    expect "the disk" "$(/lab/weft list -o json | jq -r '.Devices[0].DevicePath')" "$disk"
    note "both were killed"
}
