#!/bin/sh
# DH-HMAC-CHAP of weft's host on the kernel's target: hash functions and groups, one way and both ways, wrong secrets and none, and what is said then;
# verified I/O. With the argument "all" every hash function with every group.
# lab: files=weft modules=nvmet-tcp,nvme-auth pkgs=jq timeout=600
. /lab/lib.sh
nvmet_start ram:32MiB
url=nvme+tcp://$ADDR:$PORT/$NQN
secrets=/root/secrets
mkdir -m 700 $secrets
for name in host ctrl other; do /lab/weft gen-dhchap-key --hmac 1 --nqn $HOSTNQN --keyfile $secrets/$name; done

subsystem=$NVMET/subsystems/$NQN host=$NVMET/hosts/$HOSTNQN
mkdir "$host"
cat $secrets/host >"$host/dhchap_key"
echo 0 >"$subsystem/attr_allow_any_host"
ln -s "$host" "$subsystem/allowed_hosts/$HOSTNQN"
bench() { # options
    /lab/weft bench $url "$@" --connect-timeout=60s --rw=randwrite --bs=4k --iodepth=16 --size=1m --nr-io-queues=2 --verify=crc32c --output-format=json \
        >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft bench $*"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 1048576 and .read.io_bytes == 1048576'
}
says() { # TEXT COMMAND...
    local text=$1
    shift
    refuses "$@"
    grep -q -- "$text" /tmp/said || { cat /tmp/said; fail "it does not say \"$text\""; }
}

says "dhchap-secret-file" /lab/weft id-ctrl $url
says "refused this host" /lab/weft id-ctrl $url -S @$secrets/other
chmod 644 $secrets/other
says "other users can read" /lab/weft id-ctrl $url -S @$secrets/other
says "must not be on the command line" /lab/weft id-ctrl $url -S "$(cat $secrets/host)"
note "what is missing or wrong is said"

pairs="sha256:ffdhe2048 sha512:null"
if [ "${1:-}" = all ]; then
    pairs=
    for hash in sha256 sha384 sha512; do
        for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do pairs="$pairs $hash:$group"; done
    done
fi
for pair in $pairs; do
    echo "hmac(${pair%:*})" >"$host/dhchap_hash"
    echo ${pair#*:} >"$host/dhchap_dhgroup"
    bench --dhchap-secret-file $secrets/host
    note "$pair"
done
cat $secrets/ctrl >"$host/dhchap_ctrl_key"
bench -S @$secrets/host -C @$secrets/ctrl
chmod 600 $secrets/other
says "dhchap-ctrl-secret-file" /lab/weft id-ctrl $url -S @$secrets/host -C @$secrets/other
note "both ways"
rm "$subsystem/allowed_hosts/$HOSTNQN"
rmdir "$host"
nvmet_clear
kernel_is_sound
