#!/bin/sh
# A mirror whose legs the kernel's targets reserve, nvmet (Linux 7.x) and LIO: who takes it by force shuts out who had it, which says so and
# acknowledges no write any more; when it is closed in order, nothing is reserved.
# lab: files=weft,../iscsi.sh modules=nvmet-tcp,null_blk,iscsi_target_mod,target_core_file pkgs=mount kernel=backports timeout=400
. /lab/lib.sh
. /lab/iscsi.sh
TARGET=kernel
mkdir -p /etc/iscsi
echo "InitiatorName=$INITIATOR" >/etc/iscsi/initiatorname.iscsi
patience="--keep-alive-tmo 1 --quiesce-time 0s"

# owner N URL: serves a mirror, at port 4430 + N; sets pid
owner() {
    # what an earlier one said would pass for this one
    : >/tmp/owner$1
    /lab/weft serve "$2" $patience --listen nvme+tcp://$ADDR:443$1 --nqn nqn.2026-11.example.weft:owner$1 >/tmp/owner$1 2>&1 &
    pid=$!
    wait_for 60 grep -q '^listening' /tmp/owner$1 || { cat /tmp/owner$1; fail "the owner $1 does not open the mirror"; }
}
# puts URL: writes
puts() { /lab/weft bench "$1" --rw=write --bs=4k --size=1m --keep-alive-tmo 1; }
# leaves PID: an orderly end
leaves() {
    kill "$1"
    wait "$1" || :
}

# fences LEG LEG
fences() {
    local first second
    /lab/weft mirror create "$1" "$2" >/tmp/said 2>&1 || { cat /tmp/said; fail "weft mirror create"; }
    owner 1 "mirror:$1,$2"
    first=$pid
    puts nvme+tcp://$ADDR:4431/nqn.2026-11.example.weft:owner1/1 >/tmp/said 2>&1 || { cat /tmp/said /tmp/owner1; fail "the owner cannot write"; }
    refuses /lab/weft bench "$1" --rw=write --bs=4k --size=1m --destroy-data
    owner 2 "mirror:force=on,$1,$2"
    second=$pid
    refuses puts nvme+tcp://$ADDR:4431/nqn.2026-11.example.weft:owner1/1
    grep 'another opener has taken the mirror over' /tmp/owner1 || { cat /tmp/owner1; fail "the first owner does not say why it ends"; }
    puts nvme+tcp://$ADDR:4432/nqn.2026-11.example.weft:owner2/1 >/tmp/said 2>&1 || { cat /tmp/said /tmp/owner2; fail "the new owner cannot write"; }
    leaves $first
    leaves $second
    /lab/weft bench "$1" --rw=write --bs=4k --size=1m --destroy-data >/tmp/said 2>&1 || { cat /tmp/said; fail "the leg is still reserved"; }
}

note nvmet
RESERVATIONS=1 nvmet_start ram:16MiB ram:16MiB
fences nvme+tcp://$ADDR:$PORT/$NQN/1 nvme+tcp://$ADDR:$PORT/$NQN/2
nvmet_clear
note LIO
iscsi_start ram:16MiB ram:16MiB
fences iscsi://$PORTAL/$IQN/0 iscsi://$PORTAL/$IQN/1
# Who was killed keeps nobody of its host out.
for n in 1 2; do
    /lab/weft serve iscsi://$PORTAL/$IQN/0 --reserve --nr-io-queues 1 --listen nvme+tcp://$ADDR:444$n >/tmp/reserving$n 2>&1 &
    pid=$!
    wait_for 30 grep -q '^listening' /tmp/reserving$n || { cat /tmp/reserving$n; fail "the disk cannot be reserved"; }
    refuses /lab/weft bench iscsi://$PORTAL/$IQN/0 --rw=write --bs=4k --size=1m --destroy-data
    kill -9 $pid
    wait $pid || :
done
iscsi_stop
kernel_is_sound
