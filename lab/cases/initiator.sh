#!/bin/sh
# weft's initiator on the kernel's target (nvmet): discover, identify, verified I/O with every
# combination of digests.
# lab: files=weft modules=nvmet-tcp pkgs=jq timeout=240
. /lab/lib.sh
nvmet_start ram:32MiB ram:16MiB
url=nvme+tcp://$ADDR:$PORT/$NQN
weft() { /lab/weft "$@" >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft $*"; }; }
is() { satisfies /tmp/out "$1"; }

weft discover -t tcp -a $ADDR -s $PORT -o json
is '[.records[] | select(.subnqn == $nqn and .trtype == "tcp")] | length == 1'
weft discover nvme+tcp://$ADDR:$PORT
grep -q $NQN /tmp/out || { cat /tmp/out; fail "no discovery by URL"; }
weft id-ctrl $url -o json
is '.subnqn == $nqn and (.mn | startswith("Linux"))'
weft id-ctrl -t tcp -a $ADDR -s $PORT -n $NQN -o json
is '.subnqn == $nqn'
weft list-ns $url -o json
is '[.nsid_list[].nsid] == [1, 2]'
weft id-ns $url/2 -o json
is '.nsze * pow(2; .lbafs[.flbas % 16].ds) == 16777216'
note "identify"

bench() { # options
    weft bench $url "$@" --verify=crc32c --output-format=json
    is '.jobs[0] | .error == 0 and .write.io_bytes == 4194304 and .read.io_bytes == 4194304'
    note "bench $*"
}
for digests in "" --hdr-digest --data-digest "--hdr-digest --data-digest"; do
    bench --rw=randwrite --bs=4k --iodepth=16 --size=4m --nr-io-queues=1 $digests
    bench --rw=write --bs=128k --iodepth=4 --size=4m --nr-io-queues=2 $digests
done
kernel_is_calm

# what the peer refuses is said in a sentence, with a status of its own
refuses /lab/weft id-ctrl nvme+tcp://$ADDR:$PORT/$NQN-absent
cat /tmp/said
refuses /lab/weft id-ns $url/9
cat /tmp/said
nvmet_clear
