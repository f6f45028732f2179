# Helpers for cases that reset the controllers behind a disk of `weft connect` under verified load. Source lib.sh first, and say in $url what is
# connected, in $AS how, and in $OPTIONS what else.

# host_start KATO: the disk, and fio on it; $done counts the resets from now on
host_start() {
    rm -f /run/weft/disk.log
    done=0
    /lab/weft connect $url --as $AS --name disk --keep-alive-tmo=$1 --reconnect-delay=1 --quiesce-time=1s $OPTIONS >/tmp/said 2>&1 \
        || { cat /tmp/said /run/weft/disk.log; fail "weft connect"; }
    disk=$(/lab/weft list -o json | jq -r '.Devices[] | select(.Name == "disk") | .DevicePath')
    host_pid=$(/lab/weft list -o json | jq -r '.Devices[] | select(.Name == "disk") | .Pid')
    wait_for 30 test -b "$disk" || fail "there is no disk"
    fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
}
host_stop() { # WHAT
    fio_stop "$1"
    fio_verify "$disk" 4m
    /lab/weft disconnect disk || fail "weft disconnect"
    note "verified by fio: $1"
}
resets() { grep -c 'the path is lost' /run/weft/disk.log || :; }
lost_again() { [ "$(resets)" -gt "$lost" ]; }
# reset HOW COMMAND...: does it, which costs the host its connections, and waits for I/O to go on
reset() {
    local how=$1
    shift
    lost=$(resets)
    "$@"
    wait_for 60 lost_again || { cat /run/weft/disk.log; fail "the host does not notice: $how"; }
    fio_goes_on "$how"
    done=$((done + 1))
}
# pause PID: longer than the other end waits for it
pause() { kill -STOP $1; sleep 6; kill -CONT $1; }
# replug: nvmet's port loses the subsystem, and gets it back
replug() {
    local at=$NVMET/ports/1/subsystems/$NQN
    rm $at
    usleep 500000
    ln -s $NVMET/subsystems/$NQN $at
}

# A weft target of a file, which is killed, ends in order, and pauses.
serve() {
    [ -e /tmp/image ] || truncate -s 32M /tmp/image
    target_start "$(file_source /tmp/image 4096)"
}
killed() { target_kill; serve; }
restarted() { target_stop; serve; }
paused() { pause $target_pid; }
