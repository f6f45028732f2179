#!/bin/sh
# What weft reaches over a path with a delay, beside a bare TCP stream of the same bytes over the same path: 64 KiB reads and writes at depth
# 64, so that 4 MiB may be on their way. Host and target are in network namespaces of their own, with a link between them whose ends each
# hold back what they send for half of the delay. The machine is emulated, so only the ratios mean anything.
# usage: cargo xtask lab run lab/measure/path.sh [-- SECONDS [ROUNDS [DELAYS_MS]]]
# lab: files=weft modules=veth,sch_netem pkgs=iproute2,jq mem=1024 timeout=600
. /lab/lib.sh
seconds=${1:-3} rounds=${2:-3} delays=${3:-0 1 10}
rows=/tmp/rows
on() { ip netns exec "$@"; }
link() { # namespace, device, address
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$1" link set lo up
    ip -n "$1" link set "$2" up
}
delay() { # milliseconds, there and back
    for end in target:to_host host:to_target; do
        on ${end%:*} tc qdisc replace dev ${end#*:} root netem delay $(($1 * 500))us limit 100000
    done
}
bench() { # what, direction, options...
    local what=$1 direction=$2
    shift 2
    on host /lab/weft bench --rw="$direction" --bs=64k --iodepth=64 --runtime="${seconds}s" --ramp_time=1s --output-format=json "$@" \
        >/tmp/report.json || fail "weft bench, $what"
    local rate=$(jq -r '.iops // (.jobs[0] | .read.iops + .write.iops) | . / 16 | floor' /tmp/report.json)
    echo "$ms $direction $what $rate" >>$rows
    printf 'delay %3s ms  %-9s %-8s %6d MiB/s\n' "$ms" "$direction" "$what" "$rate"
}
# median DELAY DIRECTION WHAT
median() { awk -v m="$1" -v d="$2" -v w="$3" '$1 == m && $2 == d && $3 == w {print $4}' $rows | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

ip netns add target
ip netns add host
ip link add to_host netns target type veth peer name to_target netns host || skip "there are no virtual links"
link target to_host 192.0.2.1
link host to_target 192.0.2.2
on target /lab/weft serve ram:256MiB --listen nvme+tcp://192.0.2.1:$PORT --nqn $NQN >/tmp/target.log 2>&1 &
mkfifo /tmp/hold
on target /lab/weft ceiling --memory 256MiB --listen 192.0.2.1:0 </tmp/hold >/tmp/ceiling.log 2>&1 &
exec 9>/tmp/hold
wait_for 30 grep -q '^listening on nvme+tcp://' /tmp/target.log || fail "weft serve does not listen"
wait_for 30 grep -q '^listening on' /tmp/ceiling.log || fail "weft ceiling does not listen"
ceiling=$(sed -n 's/^listening on //p' /tmp/ceiling.log)
for round in $(seq 1 "$rounds"); do
    for ms in $delays; do
        delay "$ms"
        for direction in randread randwrite; do
            bench bare $direction --ceiling --ceiling-server "$ceiling" --ceiling-tuning default+copy
            bench weft $direction "nvme+tcp://192.0.2.1:$PORT/$NQN"
        done
    done
done
for ms in $delays; do
    for direction in randread randwrite; do
        bare=$(median $ms $direction bare) weft=$(median $ms $direction weft)
        echo "delay $ms ms  $direction  bare $bare  weft $weft  ratio $(awk -v b="$bare" -v w="$weft" 'BEGIN {printf "%.2f", w / b}')"
    done
done
