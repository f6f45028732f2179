#!/bin/sh
# Subsystems whose names are not NQNs, as test suites and tutorials have them: the kernel's host on weft's target,
# and weft's initiator on the kernel's target.
# A subsystem with the serial and model number of another target.
# lab: files=weft modules=nvme-tcp,nvmet-tcp pkgs=nvme-cli,fio,jq timeout=240
. /lab/lib.sh
for NQN in testnqn nvmet-test blktests-subsystem-1; do
    target_start ram:16MiB
    nvme discover -t tcp -a $ADDR -s $PORT | grep -q "subnqn: *$NQN\$" || fail "discovery does not show $NQN"
    connect
    fio_verify "$disk" 4m
    disconnect
    target_stop
    if [ "$TARGET" = weft ]; then expect "warnings about $NQN" "$(grep -c 'does not have the form' /tmp/target.log)" 1; fi
    note "the kernel's host on $NQN"

    nvmet_start ram:16MiB
    url=nvme+tcp://$ADDR:$PORT/$NQN
    /lab/weft id-ctrl $url -o json >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft id-ctrl $url"; }
    satisfies /tmp/out '.subnqn == $nqn'
    expect "warnings about $NQN" "$(grep -c 'does not have the form' /tmp/said)" 1
    /lab/weft bench $url --rw=randwrite --bs=4k --iodepth=16 --size=4m --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said \
        || { cat /tmp/said; fail "weft bench $url"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .read.io_bytes == 4194304'
    nvmet_clear
    note "weft's initiator on $NQN"
done

# serial and model number of a subsystem that came from another target, of which udev makes the names of its disks
if [ "$TARGET" = weft ]; then
    target_start ram:16MiB --serial 2b1dc6c0e2e47d5a8a40 --model 'SPDK bdev Controller'
    connect
    nvme id-ctrl "$disk" >/tmp/out || fail "nvme id-ctrl"
    grep -q '^sn *: 2b1dc6c0e2e47d5a8a40' /tmp/out || { cat /tmp/out; fail "another serial number"; }
    grep -q '^mn *: SPDK bdev Controller' /tmp/out || { cat /tmp/out; fail "another model number"; }
    disconnect
    target_stop
    note "serial and model number"
fi
kernel_is_calm
