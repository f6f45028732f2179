# Helpers for cases with two paths: two networks to a network namespace that holds the targets, and two controllers of one subsystem over one
# file, one on each network: two weft processes, or with TARGET=kernel two ports of nvmet. Source lib.sh first.

STORE=/tmp/store
UUID=6e1cb2c2-0c86-4ee2-a5b5-0c2f0a6a9f02

# networks_start: 10.0.1.1 and 10.0.2.1 are this host's, 10.0.1.2 and 10.0.2.2 the targets'
networks_start() {
    local n
    ip netns add target
    ip -n target link set lo up
    for n in 1 2; do
        ip link add h$n type veth peer name t$n netns target
        ip addr add 10.0.$n.1/24 dev h$n
        ip link set h$n up
        ip -n target addr add 10.0.$n.2/24 dev t$n
        ip -n target link set t$n up
    done
}
networks_stop() { ip netns del target; wait_for 10 no_link; }
no_link() { ! ip link show h1 2>/dev/null; }
# link_cut N, link_mend N: the network between host and targets
link_cut() { ip link set h$1 down; }
link_mend() { ip link set h$1 up; }

# controller_start N: the controller on network N
controller_start() {
    if [ "$TARGET" = kernel ]; then port_start "$1"; return; fi
    : >/tmp/controller$1.log
    nsenter --net=/run/netns/target /lab/weft serve "file:$STORE,block=4096,uuid=$UUID" --shared --nqn $NQN --cntlid-range "$1"000-"$1"999 \
        --listen nvme+tcp://10.0.$1.2:4420 --control /tmp/controller$1.sock >/tmp/controller$1.log 2>&1 &
    echo $! >/tmp/controller$1.pid
    wait_for 30 grep -q '^listening on nvme+tcp://' /tmp/controller$1.log || { cat /tmp/controller$1.log; fail "controller $1 does not listen"; }
}
# controller_kill N: at once
controller_kill() {
    if [ "$TARGET" = kernel ]; then rm $NVMET/ports/$1/subsystems/$NQN; return; fi
    kill -9 "$(cat /tmp/controller$1.pid)"
    wait "$(cat /tmp/controller$1.pid)" || :
}
# controller_stop N: in order
controller_stop() {
    if [ "$TARGET" = kernel ]; then rm -f $NVMET/ports/$1/subsystems/$NQN; rmdir $NVMET/ports/$1; return; fi
    kill "$(cat /tmp/controller$1.pid)"
    wait "$(cat /tmp/controller$1.pid)" || { cat /tmp/controller$1.log; fail "controller $1 ended with status $?"; }
}
# managed N ARGUMENTS...: weft with these arguments, for the server on network N
managed() {
    local n=$1 group=$2 verb=$3
    shift 3
    /lab/weft "$group" "$verb" --control /tmp/controller$n.sock "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "weft $group $verb $*"; }
}
# ana_set N STATE: of all namespaces at the controller on network N
ana_set() {
    if [ "$TARGET" = kernel ]; then echo "$2" >$NVMET/ports/$1/ana_groups/1/ana_state; return; fi
    managed "$1" ana set 1 "$2"
}

# port_start N: a port of nvmet; the first one makes the subsystem
port_start() {
    local s=$NVMET/subsystems/$NQN p=$NVMET/ports/$1
    if [ ! -d "$s" ]; then
        mkdir "$s"
        echo 1 >"$s/attr_allow_any_host"
        mkdir "$s/namespaces/1"
        losetup -b 4096 -f --show $STORE >"$s/namespaces/1/device_path"
        echo $UUID >"$s/namespaces/1/device_uuid"
        echo 1 >"$s/namespaces/1/enable"
    fi
    if [ ! -d "$p" ]; then
        mkdir "$p"
        echo tcp >"$p/addr_trtype"
        echo ipv4 >"$p/addr_adrfam"
        echo 10.0.$1.2 >"$p/addr_traddr"
        echo 4420 >"$p/addr_trsvcid"
    fi
    # The port listens in the network namespace of whoever makes the link.
    nsenter --net=/run/netns/target ln -s "$s" "$p/subsystems/$NQN"
}
# controllers_clear: the rest of nvmet's configuration
controllers_clear() {
    [ "$TARGET" = kernel ] || return 0
    rmdir $NVMET/subsystems/$NQN/namespaces/* $NVMET/subsystems/$NQN
    losetup -D
}

# path_connect N [option of nvme connect]...
path_connect() {
    local n=$1
    shift
    nvme connect -t tcp -a 10.0.$n.2 -s 4420 -n $NQN -k 2 -c 1 -l 600 "$@" >/dev/null || fail "nvme connect on network $n"
}
# live_paths: how many controllers of the subsystem are live
live_paths() {
    local c live=0
    for c in /sys/class/nvme/nvme*; do
        [ "$(cat "$c/subsysnqn" 2>/dev/null)" = $NQN ] && [ "$(cat "$c/state")" = live ] && live=$((live + 1))
    done
    echo $live
}
lives() { [ "$(live_paths)" = "$1" ]; }
# ana_states: of the disk's paths, one a line
ana_states() { cat /sys/class/nvme-subsystem/*/nvme*/nvme*c*n*/ana_state; }
ana_shows() { ana_states | grep -q "^$1\$"; }
