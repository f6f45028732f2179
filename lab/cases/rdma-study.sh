#!/bin/sh
# RDMA against TCP on the same soft device: the lanes of a study, both of which count operations, CPU time, copies and system calls. The times of an
# emulated machine mean nothing, and are only printed.
# lab: long files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,ib_uverbs,rdma_ucm mem=1536 timeout=400
# lab: pkgs=iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
refuses /lab/weft study --quick --lanes nvme+rdma
grep -q -- --address /tmp/said || { cat /tmp/said; fail "it does not say what is missing"; }
cd /tmp
/lab/weft study --suite null --lanes nvme+tcp,nvme+rdma --address $ADDR --time-budget 60s >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "the null suite"; }
cat /tmp/out
satisfies results.json '[.rows[] | select(.lane == "nvme+rdma" or .lane == "nvme+tcp") | select(.iops > 0)] | length == 2'
satisfies results.json '.rows[] | select(.lane == "nvme+rdma") | .counts.target.copied_bytes > 0'
# copied TRANSPORT: bytes that a target copies for each 4 KiB read from a RAM disk, which are sent from there
copied() {
    local before reads=8192 url=nvme+$1://$ADDR:$PORT/$NQN
    rm -f /tmp/in
    mkfifo /tmp/in
    # what an earlier one said would pass for this one
    : >/tmp/target.log
    /lab/weft serve ram:64MiB --listen nvme+$1://$ADDR:$PORT --nqn $NQN --until-eof </tmp/in >/tmp/target.log 2>&1 &
    target_pid=$!
    exec 3>/tmp/in
    wait_for 30 grep -q "^listening on" /tmp/target.log || fail "weft serve does not listen"
    /lab/weft bench $url --rw=write --bs=128k --iodepth=4 --size=32m --verify=crc32c >/tmp/out 2>&1 || { cat /tmp/out; fail "filling"; }
    before=$(counted)
    /lab/weft bench $url --rw=randread --bs=4k --iodepth=16 --size=32m >/tmp/out 2>&1 || { cat /tmp/out; fail "reading"; }
    of_read=$((($(counted) - before) / reads))
    exec 3>&-
    wait $target_pid || fail "weft serve ended with status $?"
    note "nvme+$1: the target copies $of_read bytes for each read of 4096"
}
counted() {
    local answers
    answers=$(grep -c '^counters' /tmp/target.log || :)
    echo counters >&3
    wait_for 30 sh -c "[ \$(grep -c '^counters' /tmp/target.log) -gt $answers ]" || fail "no counters"
    sed -n 's/^counters //p' /tmp/target.log | tail -n 1 | jq .copied_bytes
}
copied tcp
copied rdma
[ $of_read -lt 64 ] || fail "reads from a RAM disk are copied"
kernel_is_sound
note "RDMA against TCP"
