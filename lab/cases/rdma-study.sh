#!/bin/sh
# RDMA against TCP on the same soft device: the lanes of a study, both of which count operations, CPU time, copies and system calls. The times of an
# emulated machine mean nothing, and are only printed.
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,ib_uverbs,rdma_ucm timeout=300
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
kernel_is_sound
note "RDMA against TCP"
