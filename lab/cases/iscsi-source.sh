#!/bin/sh
# weft's iSCSI initiator on the kernel's target (LIO): verified I/O with every combination of digests, CHAP one-way and mutual, and
# what is refused.
# lab: files=weft,../iscsi.sh modules=iscsi_target_mod,target_core_file pkgs=jq timeout=240
. /lab/lib.sh
. /lab/iscsi.sh
TARGET=kernel
host=iscsi://$ADDR:$ISCSI_PORT
url=$host/$IQN/0
bench() { # URL, options
    /lab/weft bench "$@" --initiator-name $INITIATOR --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said \
        || { cat /tmp/said; fail "weft bench $*"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 4194304 and .read.io_bytes == 4194304'
    note "bench $*"
}
refused() {
    refuses /lab/weft bench "$@" --initiator-name $INITIATOR --rw=randread --bs=4k --size=4m
    cat /tmp/said
}

iscsi_start ram:32MiB ram:16MiB
for query in "" "?header_digest=crc32c" "?data_digest=crc32c" "?header_digest=crc32c&data_digest=crc32c"; do
    bench "$url$query" --rw=randwrite --bs=4k --iodepth=16 --size=4m
    bench "$host/$IQN/1$query" --rw=write --bs=128k --iodepth=4 --size=4m
done
refused $host/$IQN/9
refused $host/$IQN-absent/0
iscsi_stop

iscsi_start --chap ram:32MiB
refused $url
refused iscsi://$USER@$PORTAL/$IQN/0 --chap-secret-file /tmp/target-secret
bench iscsi://$USER@$PORTAL/$IQN/0 --chap-secret-file /tmp/secret --rw=randwrite --bs=4k --iodepth=16 --size=4m
iscsi_stop
iscsi_start --mutual ram:32MiB
refused iscsi://$USER@$PORTAL/$IQN/0 --chap-secret-file /tmp/secret --target-chap-user mallory --target-chap-secret-file /tmp/target-secret
bench iscsi://$USER@$PORTAL/$IQN/0 --chap-secret-file /tmp/secret --target-chap-secret-file /tmp/target-secret \
    --rw=randwrite --bs=4k --iodepth=16 --size=4m
iscsi_stop
kernel_is_calm
