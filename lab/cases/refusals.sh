#!/bin/sh
# A host that is not allowed, and a subsystem that is not there: the connection fails with the right
# error, and the host that is connected and busy notices nothing.
# lab: files=weft modules=nvme-tcp pkgs=nvme-cli,fio timeout=240
. /lab/lib.sh
stranger=nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555
stranger_id=99999999-2222-3333-4444-555555555555
other=nqn.2014-08.org.nvmexpress:uuid:88888888-2222-3333-4444-555555555555
other_id=88888888-2222-3333-4444-555555555555
target_start --allow-host $HOSTNQN --allow-host $other ram:16MiB

# fabrics NQN HOSTNQN HOSTID: connects without nvme-cli, which in this version takes a second host's
# connection to a subsystem for the first's
fabrics() { echo "transport=tcp,traddr=$ADDR,trsvcid=$PORT,nqn=$1,hostnqn=$2,hostid=$3" >/dev/nvme-fabrics; }
refused() { # what, what the kernel logs, command
    local what=$1 logged=$2
    shift 2
    dmesg -c >/dev/null
    refuses "$@"
    dmesg | grep -q "$logged" || { cat /tmp/said; fail "$what: not this error"; }
    note "$what: $(dmesg | grep "$logged" | head -n 1)"
}
not_allowed="Connect for subsystem $NQN is not allowed, hostnqn: $stranger"
not_there="Connect Invalid Data Parameter, subsysnqn \"$NQN-absent\""
cli() { nvme connect -t tcp -a $ADDR -s $PORT "$@"; }
refused "a strange host" "$not_allowed" cli -n $NQN --hostnqn=$stranger --hostid=$stranger_id
refused "a strange subsystem" "$not_there" cli -n $NQN-absent
refuses nvme connect -t tcp -a $ADDR -s 4421 -n $NQN
grep -qi refused /tmp/said || { cat /tmp/said; fail "a closed port: not this error"; }
# whoever may not connect does not see the subsystem either
nvme discover -t tcp -a $ADDR -s $PORT --hostnqn=$stranger --hostid=$stranger_id >/tmp/said 2>&1 || :
if grep -q $NQN /tmp/said; then cat /tmp/said; fail "a strange host sees the subsystem"; fi
nvme discover -t tcp -a $ADDR -s $PORT | grep -q $NQN || fail "the host that is allowed does not see the subsystem"

connect
fio_load --verify=crc32c --verify_backlog=64 --verify_fatal=1
for i in 1 2 3; do
    refused "a strange host beside I/O" "$not_allowed" fabrics $NQN $stranger $stranger_id
    refused "a strange subsystem beside I/O" "$not_there" fabrics $NQN-absent $HOSTNQN $HOSTID
done
fabrics $NQN $other $other_id || fail "the other allowed host"
fio_goes_on "the refusals"
fio_stop "refusals"
is_live || fail "the controller is not live"
nvme disconnect -n $NQN >/dev/null
target_stop
