#!/bin/sh
# Queue pairs of user space over soft RoCE: weft's own tests of them, with rdma-core loaded at run time.
# lab: files=verbs,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,ib_uverbs,rdma_ucm pkgs=iproute2,ibverbs-providers,libibverbs1,librdmacm1,libgcc-s1 timeout=300
. /lab/lib.sh
. /lab/rdma.sh
wait_for 30 test -c /dev/infiniband/uverbs0 || fail "there is no device"
export WEFT_RDMA_ADDRESS=$ADDR
[ $# -gt 0 ] || set -- verbs::
/lab/verbs --include-ignored --test-threads 1 --skip verbs::target:: "$@" || fail "the tests"
rdma link delete $RDMA_DEVICE
ip link delete dum0
kernel_is_sound
