#!/bin/sh
# How long the kernel's host waits for its I/O across a fault of one of two paths: over two controllers of weft and over two ports of nvmet,
# in turn, in the same machine. The longest write across each fault, and the median of the rounds.
# lab: long files=weft,../paths.sh modules=nvmet-tcp,nvme-tcp,loop,veth pkgs=nvme-cli,fio,iproute2,mount,util-linux,jq timeout=900
. /lab/lib.sh
. /lab/paths.sh
ROUNDS=${ROUNDS:-3}
echo 5 >/sys/module/nvme_core/parameters/io_timeout
echo 5 >/sys/module/nvme_core/parameters/admin_timeout

truncate -s 64M $STORE
networks_start

# across FAULT COMMAND...: writes, does it, waits until hundreds of writes have completed since, and notes the longest
across() {
    local fault=$1
    shift
    fio_load --rate_iops=400 --output-format=json
    "$@" || fail "$TARGET: $fault"
    fio_goes_on "$fault"
    kill $load_pid
    wait $load_pid || :
    sed -n '/^{/,$p' /tmp/load.out >/tmp/load.json
    [ "$(jq '.jobs[0].error' /tmp/load.json)" = 0 ] || { cat /tmp/load.out; fail "$TARGET: fio saw errors: $fault"; }
    jq '.jobs[0].write.clat_ns.max / 1000000 | floor' /tmp/load.json >>"/tmp/$fault.$TARGET"
}
link_lost() { link_cut 1 && wait_for 60 lives 1; }
access_lost() { ana_set 1 inaccessible && wait_for 30 ana_shows inaccessible; }
controller_lost() { controller_kill 1 && wait_for 60 lives 1; }

round() {
    controller_start 1
    controller_start 2
    path_connect 1
    path_connect 2
    wait_for 30 nvme_disk 1 || fail "there is no disk"
    disk=$(nvme_disk 1)
    wait_for 30 lives 2 || fail "there are not two paths"
    across inaccessible access_lost
    ana_set 1 optimized
    wait_for 30 no_inaccessible || fail "the host does not learn of optimized"
    across cut link_lost
    link_mend 1
    wait_for 60 lives 2 || fail "the path does not come back"
    across killed controller_lost
    nvme disconnect -n $NQN >/dev/null
    [ "$TARGET" != kernel ] || controller_stop 1
    controller_stop 2
    controllers_clear
}
no_inaccessible() { ! ana_shows inaccessible; }
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

for n in $(seq "$ROUNDS"); do
    for TARGET in weft kernel; do round; done
done
networks_stop
note "the longest write, median of $ROUNDS rounds, ms (keep alive 2 s, time-out of I/O 5 s)"
for fault in inaccessible cut killed; do
    note "$fault: weft $(median /tmp/$fault.weft) ($(xargs </tmp/$fault.weft)), nvmet $(median /tmp/$fault.kernel) ($(xargs </tmp/$fault.kernel))"
done
kernel_is_sound
