#!/bin/sh
# A weft gateway in front of the kernel's target (nvmet), with the kernel's host behind it: a namespace that is disabled and enabled again while
# fio writes to it comes back without an error, with a new size; another volume under its identifier gets no write, and ends the gateway.
# lab: files=weft modules=nvme-tcp,nvmet-tcp,null_blk pkgs=nvme-cli,jq,fio,diffutils timeout=240
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the gateway is weft's"

nvmet_start ram:32MiB
upstream_nqn=$NQN
upstream=nvme+tcp://$ADDR:$PORT/$NQN
ns=$NVMET/subsystems/$NQN/namespaces/1
NQN=nqn.2026-01.example.weft:gateway
PORT=4421
: >/tmp/target.log
/lab/weft serve "$upstream" --listen nvme+tcp://$ADDR:$PORT --nqn $NQN --exit-on-loss --ctrl-loss-tmo 0 >/tmp/target.log 2>&1 &
target_pid=$!
wait_for 30 grep -q '^listening on nvme+tcp://' /tmp/target.log || { cat /tmp/target.log; fail "weft serve does not listen"; }
connect
says() { grep -q "$1" /tmp/target.log; }
counted() { [ "$(grep -c "$1" /tmp/target.log)" -ge "$2" ]; }

fio_load
for round in 1 2 3; do
    echo 0 >"$ns/enable"
    wait_for 30 counted "no longer exists" $round || { cat /tmp/target.log; fail "the gateway does not see that it is disabled"; }
    echo 1 >"$ns/enable"
    wait_for 30 counted "is back" $round || { cat /tmp/target.log; fail "the gateway does not see that it is enabled"; }
    fio_goes_on "disabling and enabling"
done
# too quick to be seen, perhaps
for round in 1 2 3; do
    echo 0 >"$ns/enable"
    echo 1 >"$ns/enable"
done
fio_goes_on "a short absence"
fio_stop "the namespace was away"
note "disabled and enabled"

# another volume of the same size, which nobody has ever written to
other=$(nvmet_backing ram:32MiB 9)
fio_load
seen=$(grep -c "no longer exists" /tmp/target.log)
echo 0 >"$ns/enable"
# a host can only hold back what it sends after it has heard of the change
wait_for 30 counted "no longer exists" $((seen + 1)) || { cat /tmp/target.log; fail "the gateway does not see that it is disabled"; }
echo "$other" >"$ns/device_path"
echo 00000000-0000-4000-8000-000000000009 >"$ns/device_uuid"
echo 00000000-0000-4000-8000-000000000009 >"$ns/device_nguid"
echo 1 >"$ns/enable"
wait_for 30 says "is not the one that was opened" || { cat /tmp/target.log; fail "the gateway goes on with another volume"; }
ended() { ! kill -0 $target_pid 2>/dev/null; }
wait_for 30 ended || fail "the gateway does not end"
status=0
wait $target_pid || status=$?
expect "the gateway's exit status" $status 13
kill $load_pid
disconnect
wait $load_pid || :
zeroes "$other" 0 33554432 || fail "a write has reached the other volume"
note "replaced"
NQN=$upstream_nqn
nvmet_clear
