#!/bin/sh
# 64 disks of the kernel by ublk at once, all written and read; weft ends and takes them away.
# lab: files=weft modules=ublk_drv pkgs=diffutils timeout=240 mem=1024
. /lab/lib.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
set --
for n in $(seq 64); do set -- "$@" ram:1MiB; done
for n in $(seq 64); do set -- "$@" --listen ublk:$n/$n; done
/lab/weft serve "$@" --nqn $NQN >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 60 grep -q '^listening on /dev/ublkb64$' /tmp/target.log || fail "weft does not serve 64 disks"
note "there"
head -c 64k /dev/urandom >/tmp/data
for n in $(seq 64); do dd if=/tmp/data of=/dev/ublkb$n bs=64k oflag=direct status=none; done
for n in $(seq 64); do cmp -n 65536 /tmp/data /dev/ublkb$n || fail "disk $n"; done
kernel_is_calm
target_stop
[ -z "$(ls -d /dev/ublk[bc][0-9]* 2>/dev/null)" ] || fail "disks are left behind"
