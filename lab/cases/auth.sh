#!/bin/sh
# DH-HMAC-CHAP with the kernel's host on weft's target: one way and both ways, hash functions and groups, a secret with and without transformation,
# a wrong one, none, a host that the target knows nothing of, verified I/O across a reconnect and resets, a new secret without an outage.
# With the argument "all" every hash function with every group. The same of weft's host on the kernel's target is in auth-initiator.
# lab: files=weft modules=nvme-tcp,nvme-auth pkgs=nvme-cli,fio timeout=600
. /lab/lib.sh
secrets=/root/secrets
mkdir -m 700 $secrets
key() { # NAME [option of gen-dhchap-key]...
    local name=$1
    shift
    rm -f $secrets/$name
    /lab/weft gen-dhchap-key --keyfile $secrets/$name "$@" || fail "gen-dhchap-key $*"
    nvme check-dhchap-key --key="$(cat $secrets/$name)" >/tmp/said 2>&1 || { cat /tmp/said; fail "nvme-cli does not take the key"; }
    /lab/weft check-dhchap-key --keyfile $secrets/$name >/tmp/own || fail "weft does not take its own key"
}
key host
key host384 --hmac 2 --nqn $HOSTNQN
key ctrl --hmac 3 --nqn $NQN
key other
umask 077
nvme gen-dhchap-key --hmac=1 --nqn=$HOSTNQN >$secrets/of-nvme-cli 2>/dev/null || fail "nvme gen-dhchap-key"
/lab/weft check-dhchap-key --keyfile $secrets/of-nvme-cli | grep -q "HMAC 1, length 32" || fail "weft does not take nvme-cli's key"
for hmac in 0 1 2 3; do
    digits=$(head -c 64 /dev/urandom | od -An -v -t x1 | tr -d ' \n' | head -c $((hmac < 2 ? 64 : hmac * 32 + 32)))
    echo "$digits" >$secrets/digits
    expect "the key of nvme-cli ($hmac)" "$(nvme gen-dhchap-key --secret="$digits" --key-length=$((${#digits} / 2)) --hmac=$hmac --nqn=$HOSTNQN 2>/dev/null)" \
        "$(/lab/weft gen-dhchap-key --secret @$secrets/digits --hmac $hmac --nqn $HOSTNQN)"
done
note "keys"

long="--keep-alive-tmo=120"
# what is written outlives the target
image=/tmp/image
truncate -s 32M $image
serve() { target_start "$(file_source $image 4096)" --dhchap-secret-file $HOSTNQN=$secrets/host "$@"; }
try() { # NAME-OF-KEY [option]...
    local name=$1
    shift
    nvme connect -t $TRANSPORT -a $ADDR -s $PORT -n $NQN $long --dhchap-secret="$(cat $secrets/$name)" "$@" >/tmp/said 2>&1
}

serve
if nvme connect -t $TRANSPORT -a $ADDR -s $PORT -n $NQN >/tmp/said 2>&1; then fail "connected without a key"; fi
if try other; then fail "connected with a wrong key"; fi
grep -q "host $HOSTNQN, subsystem $NQN: authentication refused: authentication failed" /tmp/target.log || fail "the log does not name host and reason"
note "no key and a wrong one are refused"
connect $long --dhchap-secret="$(cat $secrets/host)" -i 2
fio_verify "$disk" 4m
fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
nvme reset "/dev/$ctrl" || fail "nvme reset"
fio_goes_on "a reset"
target_kill
serve
wait_for 120 is_live || fail "no reconnect"
fio_goes_on "the reconnect"
fio_stop "reset and reconnect"
disconnect
target_stop
note "verified I/O across a reset and a reconnect"

# two combinations in each run; all of them on demand, which takes long under emulation
pairs="sha384:ffdhe2048 sha512:null"
if [ "${1:-}" = all ]; then
    pairs=
    for hash in sha256 sha384 sha512; do
        for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do pairs="$pairs $hash:$group"; done
    done
fi
for pair in $pairs; do
    target_start ram:32MiB --dhchap-secret-file $HOSTNQN=$secrets/host384 --dhchap-ctrl-secret-file $secrets/ctrl \
        --dhchap-hash ${pair%:*} --dhchap-dhgroup ${pair#*:}
    connect $long --dhchap-secret="$(cat $secrets/host384)" --dhchap-ctrl-secret="$(cat $secrets/ctrl)" -i 1
    fio_verify "$disk" 1m
    disconnect
    note "$pair, both ways"
    target_stop
done

target_start ram:32MiB --dhchap-secret-file $HOSTNQN=$secrets/of-nvme-cli --dhchap-secret-file $HOSTNQN=$secrets/host \
    --dhchap-ctrl-secret-file $secrets/ctrl --dhchap-discovery
for name in of-nvme-cli host; do
    connect $long --dhchap-secret="$(cat $secrets/$name)" -i 1
    disconnect
done
note "two secrets of one host"
if try host --dhchap-ctrl-secret="$(cat $secrets/other)"; then fail "accepted a wrong key of the controller"; fi
if nvme discover -t $TRANSPORT -a $ADDR -s $PORT >/tmp/said 2>&1; then fail "discovery without a key"; fi
note "a controller that cannot prove who it is, and discovery without a key, are refused"
target_stop
kernel_is_sound
