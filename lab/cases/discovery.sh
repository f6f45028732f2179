#!/bin/sh
# Persistent discovery controllers: nvme connect-all finds two targets, one through the other's referral, and keeps a controller for each, the first
# by a name of its own; the host hears of a new subsystem, of a new referral and of what goes, and connects to what is new; the controllers outlast their targets.
# lab: files=weft modules=nvme-tcp pkgs=nvme-cli,jq,diffutils timeout=240
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the orders are weft's"
export WEFT_RUNTIME_DIR=/tmp/run WEFT_STATE_DIR=/tmp/state
FAR=nqn.2026-01.example.lab:far
LATE=nqn.2026-01.example.lab:late
FINDER=nqn.2026-01.example.lab:finder

# configured NAME PORT NQN...: a server's configuration, a RAM disk for each subsystem
configured() {
    local name=$1 port=$2 nqn
    shift 2
    printf 'name = "%s"\nlisten = ["nvme+tcp://%s:%s"]\n' "$name" $ADDR "$port"
    for nqn; do
        printf '[[subsystem]]\nnqn = "%s"\n[[subsystem.namespace]]\nnsid = 1\nsource = "ram:8MiB"\n' "$nqn"
    done
}
# serve NAME [OPTION...]: sets pid_NAME
serve() {
    local name=$1
    shift
    : >"/tmp/$name.log"
    /lab/weft serve --config "/tmp/$name.toml" "$@" >"/tmp/$name.log" 2>&1 &
    eval "pid_$name=$!"
    wait_for 30 grep -q '^listening on nvme+tcp://' "/tmp/$name.log" || { cat "/tmp/$name.log"; fail "$name does not listen"; }
}
configured near $PORT $NQN >/tmp/near.toml
configured far 4421 $FAR >/tmp/far.toml
serve far
serve near --referral nvme+tcp://$ADDR:4421 --discovery-nqn $FINDER

# What udev's rule 70-nvmf-autoconnect does, from the kernel's own messages.
cat >/tmp/heard <<'EOF'
#!/bin/sh
[ "$SUBSYSTEM" = nvme ] || exit 0
[ -n "${NVME_AEN:-}${NVME_EVENT:-}" ] && echo "$NVME_AEN $NVME_EVENT ${DEVPATH##*/} $(cut -d" " -f1 /proc/uptime)" >>/tmp/events
if [ "${NVME_AEN:-}" = 0x70f002 ] || [ "${NVME_EVENT:-}" = rediscover ]; then
    nvme connect-all --device="${DEVPATH##*/}" -t "$NVME_TRTYPE" -a "$NVME_TRADDR" -s "$NVME_TRSVCID" >>/tmp/heard.log 2>&1
    # This nvme-cli reads the log with Retain Asynchronous Event: without a plain read no further event comes.
    nvme get-log "/dev/${DEVPATH##*/}" --log-id=0x70 --log-len=1024 -b >/dev/null 2>>/tmp/heard.log
    echo "connected ${DEVPATH##*/}" >>/tmp/events
fi
exit 0
EOF
chmod +x /tmp/heard
: >/tmp/events
uevent /tmp/heard &
listener=$!

# attribute CONTROLLER NAME
attribute() { cat "/sys/class/nvme/$1/$2" 2>/dev/null; }
# controllers KIND: discovery or io, one a line
controllers() {
    local c
    for c in /sys/class/nvme/nvme*; do
        [ "$(cat "$c/cntrltype" 2>/dev/null)" = "$1" ] && [ "$(cat "$c/state")" = live ] && echo "${c##*/}"
    done
    return 0
}
# reached NQN: there is a live controller of this subsystem
reached() {
    local c
    for c in $(controllers io); do [ "$(attribute "$c" subsysnqn)" != "$1" ] || return 0; done
    return 1
}
not_reached() { ! reached "$1"; }
# keeps N: live discovery controllers
keeps() { [ "$(controllers discovery | wc -l)" = "$1" ]; }

nvme connect-all -t tcp -a $ADDR -s $PORT || fail "nvme connect-all"
wait_for 30 reached $NQN || fail "no connection to the subsystem"
wait_for 30 reached $FAR || fail "no connection through the referral"
keeps 0 || { nvme list-subsys; fail "discovery controllers that nobody asked to keep"; }
nvme disconnect-all
note "connect-all by a referral"

nvme connect-all -t tcp -a $ADDR -s $PORT --persistent || fail "nvme connect-all --persistent"
wait_for 30 reached $NQN || fail "no connection to the subsystem"
wait_for 30 reached $FAR || fail "no connection through the referral"
wait_for 30 keeps 2 || { nvme list-subsys; fail "not two discovery controllers"; }
names=$(for c in $(controllers discovery); do attribute "$c" subsysnqn; done | sort -r)
note "discovery controllers of" $names
expect "the names" "$(echo $names)" "$(echo $FINDER nqn.2014-08.org.nvmexpress.discovery)"
nvme discover -t tcp -a $ADDR -s $PORT -o json >/tmp/log || fail "nvme discover"
satisfies /tmp/log "[.records[] | .subtype, .subnqn] == [\"nvme subsystem\", \$nqn, \"discovery subsystem referral\",
    \"nqn.2014-08.org.nvmexpress.discovery\", \"current discovery subsystem\", \"$FINDER\"]"
for c in $(controllers discovery); do [ "$(attribute "$c" kato)" -gt 0 ] || fail "$c has no keep alive timer"; done

: >/tmp/events
configured near $PORT $NQN $LATE >/tmp/near.toml
/lab/weft apply /tmp/near.toml --control near >/dev/null || fail "weft apply"
wait_for 30 reached $LATE || { cat /tmp/events /tmp/heard.log; fail "the host did not connect to the new subsystem"; }
grep -q '^0x70f002 ' /tmp/events || { cat /tmp/events; fail "no event"; }
wait_for 30 grep -q '^connected ' /tmp/events || fail "the log was not read"
note "heard of a new subsystem: $(grep -m 1 '^0x70f002 ' /tmp/events)"
keeps 2 || { nvme list-subsys; fail "another discovery controller"; }

: >/tmp/events
nvme disconnect -n $LATE >/dev/null
configured near $PORT $NQN >/tmp/near.toml
/lab/weft apply /tmp/near.toml --control near >/dev/null || fail "weft apply"
wait_for 30 grep -q '^0x70f002 ' /tmp/events || { cat /tmp/events /tmp/heard.log; ps; fail "no event of what is gone"; }
nvme discover -t tcp -a $ADDR -s $PORT -o json >/tmp/log || fail "nvme discover"
satisfies /tmp/log "[.records[] | select(.subnqn == \"$LATE\")] | length == 0"
not_reached $LATE || fail "connected to what is gone"
note "heard that it is gone"

# The target dies, and comes back with one more subsystem: the controller is of the same name, and tells of it.
kill -9 $pid_near
wait $pid_near || :
configured near $PORT $NQN $LATE >/tmp/near.toml
serve near --referral nvme+tcp://$ADDR:4421 --discovery-nqn $FINDER
wait_for 60 keeps 2 || { nvme list-subsys; fail "the discovery controller did not come back"; }
wait_for 60 reached $LATE || { cat /tmp/events /tmp/heard.log; fail "what came with the restart is not connected"; }
expect "the names" "$(for c in $(controllers discovery); do attribute "$c" subsysnqn; done | sort -r)" "$names"
note "back after the death of the target"

# In order: hosts are told that nothing is to be found here any more.
: >/tmp/events
kill $pid_far
wait $pid_far || fail "weft serve ended with status $?"
wait_for 30 grep -q '^0x70f002 ' /tmp/events || fail "no event of the end"
kill $listener
nvme disconnect-all
kill $pid_near
wait $pid_near || fail "weft serve ended with status $?"
kernel_is_sound
