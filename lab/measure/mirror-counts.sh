#!/bin/sh
# The suite `mirror` of `weft study` over TCP and over a soft RDMA device, by counts for each operation: instructions of the initiator and of the three
# targets, bytes on the wire, system calls and bytes copied. The machine's clock advances by 1 ns with each instruction, so its processor times are
# counts of instructions, and rates mean nothing: one CPU does the work of four machines and of the RDMA device.
# usage: cargo xtask lab run lab/measure/mirror-counts.sh [-- TIME [DIRECTORY]]; TIME is the study's (8s), DIRECTORY keeps its results (with --share)
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,ib_uverbs,rdma_ucm mem=1536 clock=instructions timeout=3000
# lab: pkgs=iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
time=${1:-8s} out=${2:-/tmp/study}
cd /tmp
{ echo 'count = true'; /lab/weft study --suite mirror --print; } >counted.toml
/lab/weft study --suite ./counted.toml --source ram:32MiB --lanes mirror-tcp,mirror-rdma --address $ADDR --time-budget "$time" --output-dir "$out" >/tmp/out 2>/tmp/said ||
    { cat /tmp/out /tmp/said; fail "the suite mirror"; }
cat /tmp/out
jq -r '.rows[] | "\(.lane): instructions of the initiator \(.initiator.user_ns + .initiator.system_ns | floor) (kernel \(.initiator.system_ns | floor)), of the targets "
    + "\(.target.user_ns + .target.system_ns | floor) (kernel \(.target.system_ns | floor)); counts \(.counts)"' "$out/results.json"
jq -r '.relations[] | select(.to == "mirror-tcp") | "\(.lane) beside \(.to), \(.quantity): \(.estimate)"' "$out/results.json"
