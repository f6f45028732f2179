#!/bin/sh
# Kernel TLS on a kernel that changes keys: weft's own tests of TLS over sockets and with the
# program openssl; weft on weft with the records in the kernel at both ends, at one, at none.
# lab: files=weft,tls-tests,tls-openssl kernel=backports modules=tls,gcm pkgs=openssl,jq timeout=400
. /lab/lib.sh
umask 077
grep -qw tls /proc/sys/net/ipv4/tcp_available_ulp || fail "this kernel has no TLS"
/lab/tls-tests --test-threads 2 tests::sockets || fail "the tests over sockets"
/lab/tls-openssl --test-threads 2 --skip certificate || fail "the tests with openssl"

# records WHERE: whether that is whose the records are, of all connections of I/O queues
records() { /lab/weft status --json | jq -e --arg is "$1" '[.connections[].tls] | length > 0 and all(. == $is)' >/dev/null; }
/lab/weft gen-tls-key >/tmp/keys || fail "gen-tls-key"
for case in kernel::  'user space:--no-kernel-tls:' kernel::--no-kernel-tls; do
    where=${case%%:*} ends=${case#*:}
    target_start --tls --tls-key-file /tmp/keys ${ends%:*} ram:64MiB
    for size in 4k 128k; do
        /lab/weft bench nvme+tcp://$ADDR:$PORT/$NQN --tls --tls-key-file /tmp/keys ${ends#*:} --rw=randwrite --bs=$size --iodepth=32 --size=8m --nr-io-queues=2 \
            --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft bench"; }
        satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 8388608 and .read.io_bytes == 8388608'
    done
    /lab/weft bench nvme+tcp://$ADDR:$PORT/$NQN --tls --tls-key-file /tmp/keys ${ends#*:} --rw=randrw --bs=16k --iodepth=16 --runtime=4s >/tmp/out 2>&1 &
    load=$!
    wait_for 20 records "$where" || { /lab/weft status; fail "the records are not in: $where"; }
    wait $load || { cat /tmp/out; fail "load"; }
    target_stop
    note "target's records: $where; options of target and host: $ends"
done
kernel_is_sound
