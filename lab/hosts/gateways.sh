#!/bin/sh
# The kernel's host on the gateways of a group, which run outside of the virtual machine. Verified writes to two namespaces go on while gateways are
# killed, stopped and restarted and namespaces are added, by crates/cli/tests/gateways/kernel.rs: that writes N.fault when step N has begun, N.mended (with
# the identifier of the namespace that was added) when all gateways run again, and `end`; `ready`, N.went-on and N.whole are this side's answers. The
# longest I/O of each step is printed. Arguments: the ports of three gateways.
# lab: modules=nvme-tcp pkgs=nvme-cli,fio files=../paths.sh net=1 timeout=900
. /lab/lib.sh
. /lab/paths.sh
NQN=nqn.2026-01.example:hall
SHARE=/lab/share
# Writes to a disk that show that it works.
ENOUGH=60
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ] || fail "the kernel's multipath is off"

tell() { date +%s >"/tmp/$1.time"; : >"$SHARE/$1"; }
awaits() { wait_for 240 test -e "$SHARE/$1" || fail "the other side does not write $1"; }
# paths_of DISK: what each controller that has a connection says of its access to it, one a line
paths_of() {
    local c name=${1##*/}
    for c in /sys/class/nvme/nvme*; do
        [ "$(cat "$c/state")" != live ] || cat "$c"/nvme*c*n"${name##*n}"/ana_state
    done
}
# paths N: each disk has one that is optimized, and so many that are not
paths() {
    local disk
    for disk in $first $second; do
        [ "$(paths_of "$disk" | sort | uniq -c | awk '{ printf "%s %s, ", $1, $2 }')" = "$1 non-optimized, 1 optimized, " ] || return 1
    done
}
expect_paths() { wait_for 240 paths "$1" || { shows; fail "not one path is optimized, and $1 are not"; }; }
# goes_on WHEN: both disks get writes from now on
goes_on() {
    local disk before_first before_second
    before_first=$(disk=$first fio_writes)
    before_second=$(disk=$second fio_writes)
    wait_for 240 both_wrote $((before_first + ENOUGH)) $((before_second + ENOUGH)) || { shows; fail "no I/O $1"; }
}
both_wrote() { usleep 100000; [ "$(disk=$first fio_writes)" -ge "$1" ] && [ "$(disk=$second fio_writes)" -ge "$2" ]; }
# news: what the kernel has logged since the last time
news() {
    dmesg | tail -n +"$((logged + 1))" | sed 's/^/    /'
    logged=$(dmesg | wc -l)
}
shows() {
    for disk in $first $second; do nvme list-subsys "$disk" | grep -E 'nvme-subsys|traddr' | sed 's/^/    /'; done
}

logged=0
for port in "$@"; do
    nvme connect -t tcp -a 10.0.2.2 -s "$port" -n $NQN --keep-alive-tmo=5 --ctrl-loss-tmo=-1 --reconnect-delay=2 >/dev/null || fail "nvme connect to port $port"
done
wait_for 60 lives 3 || fail "there are not three paths"
wait_for 60 nvme_disk 1 && wait_for 60 nvme_disk 2 || fail "a disk is missing"
first=$(nvme_disk 1)
second=$(nvme_disk 2)
expect_paths 2
fio --allow_file_create=0 --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=4 --direct=1 --rate_iops=100 --verify=crc32c --verify_backlog=32 \
    --verify_fatal=1 --time_based --runtime=3600 --write_lat_log=/tmp/load --log_unix_epoch=1 --output=/tmp/load.out \
    --name=first --filename="$first" --name=second --filename="$second" &
load_pid=$!
goes_on "at first"
note "three paths, verified writes to $first and $second"
shows
news
tell ready

n=1
while awaits "$n.fault" && [ ! -e $SHARE/end ]; do
    note "step $n: $(cat "$SHARE/$n.fault")"
    goes_on "after it"
    expect_paths 1
    note "I/O goes on"
    shows
    tell "$n.went-on"
    awaits "$n.mended"
    # Also a gateway that is told to go on takes connections, until it finds that it was replaced; it says that it is inaccessible.
    expect_paths 2
    wait_for 240 nvme_disk "$(cat "$SHARE/$n.mended")" || fail "the namespace that was added is missing"
    goes_on "with all paths"
    note "all paths are back, namespace $(cat "$SHARE/$n.mended") is there"
    shows
    news
    tell "$n.whole"
    n=$((n + 1))
done

kill $load_pid
wait $load_pid || :
[ "$(grep -c 'err= 0:' /tmp/load.out)" = 2 ] || { cat /tmp/load.out; fail "fio saw errors"; }
# longest FROM TO: of all I/O that ended between these, in ms
longest() {
    cat /tmp/load_lat.*.log | awk -F, -v from="$(cat "/tmp/$1.time")" -v to="$(cat "/tmp/$2.time")" '
        { second = int($1 / 1000) } second >= from && second <= to && $2 > max { max = $2 } END { printf "%d ms", max / 1000000 }'
}
before=ready
for step in $(seq $((n - 1))); do
    note "step $step, $(cat "$SHARE/$step.fault"): the longest I/O took $(longest $before "$step.went-on"), until all paths were back $(longest "$step.went-on" "$step.whole")"
    before=$step.whole
done
expect "the number of paths in nvme list-subsys" "$(nvme list-subsys "$first" | grep -c ' live')" 3
for step in $(seq $((n - 1))); do fio_verify "$(nvme_disk "$(cat "$SHARE/$step.mended")")" 1m; done
nvme disconnect -n $NQN >/dev/null
if dmesg | grep -E 'I/O error|Buffer I/O'; then fail "the kernel saw errors"; fi
kernel_is_sound
