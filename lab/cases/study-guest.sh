#!/bin/sh
# The lanes `guest-vhost-user` and `guest-nvme-tcp` of the suite `protocols`: this guest's own disk by vhost-user, whose weft outside is the initiator, and the
# kernel's NVMe/TCP host in the guest over its network, on one target outside. The machine is emulated: the rows must be there and hold together, their numbers
# are only printed. Arguments go to the study: -- --time-budget 5m
# lab: long files=weft disk=vhost-user net=1 modules=virtio_blk,nvme-tcp,crc32c_generic pkgs=nvme-cli,jq mem=1024 timeout=900
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the kernel has no such disk"
ADDR=10.0.2.2 PORT=$LAB_PORT
disk=/dev/vda
wait_for 30 test -b $disk || fail "there is no disk"
# The second namespace is for the guest itself. An emulated machine may be late with keep-alives.
nvme connect -t tcp -a $ADDR -s "$PORT" -n $NQN -k 120 >/dev/null || fail "nvme connect"
wait_for 30 nvme_disk 2 || fail "there is no second namespace"
own=$(nvme_disk 2)
expect "the size" "$(cat /sys/block/"${own##*/}"/size)" "$(cat /sys/block/vda/size)"
[ $# -gt 0 ] || set -- --time-budget 15s
/lab/weft study --suite protocols --quick --source ram:16MiB --lanes guest-vhost-user,guest-nvme-tcp \
    --lane guest-vhost-user=$disk --lane guest-nvme-tcp="$own" --output-dir /tmp/study "$@" >/tmp/out 2>/tmp/said || { cat /tmp/out /tmp/said; fail "weft study"; }
cat /tmp/out
for lane in guest-vhost-user guest-nvme-tcp; do
    satisfies /tmp/study/results.json "[.rows[] | select(.lane == \"$lane\")] | length == 12 and all(.[]; .iops > 0 and .latency.mean_ns > 0)"
    satisfies /tmp/study/results.json ".lanes | any(.name == \"$lane\" and .title != null)"
done
satisfies /tmp/study/results.json '[.skipped[]?.name] | contains(["guest-vhost-user"]) | not'
disconnect
kernel_is_calm
