#!/bin/sh
# Secure channel concatenation: the kernel's host on weft, with a reset under verified load, a reconnect, authentication anew and a secret of the
# controller; hosts that want no secure channel, or know no secret, are refused. Then weft's host on nvmet, with both hash functions, and with a secret of
# nvmet's controllers, which have to prove that they know it: then nvmet makes no key (to Linux 7.3 at least), and nothing goes on in plain text.
# lab: files=weft,../tls-handshake.c modules=nvme-tcp,nvmet-tcp,tls,nvme-keyring,nvme-auth,gcm pkgs=nvme-cli,fio,jq kernel=backports timeout=900 mem=768
. /lab/lib.sh
umask 077
secrets=/root/secrets
mkdir -m 700 $secrets
for name in host new ctrl other; do /lab/weft gen-dhchap-key --keyfile $secrets/$name >/dev/null || fail "gen-dhchap-key"; done
/lab/tls-handshake 2>/tmp/tls.log &
handshakes=$!
wait_for 10 grep -q ready /tmp/tls.log || { cat /tmp/tls.log; fail "no handshakes"; }

# fabrics NAME-OF-SECRET [,OPTION]...: connects the kernel's host
fabrics() {
    echo "transport=tcp,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,hostnqn=$HOSTNQN,hostid=$HOSTID,nr_io_queues=2,reconnect_delay=1,keep_alive_tmo=120,dhchap_secret=$(cat $secrets/$1)$2" >/dev/nvme-fabrics
}
connect_concat() {
    fabrics "$@" || { cat /tmp/tls.log /tmp/target.log; dmesg | tail -n 20; fail "no connection"; }
    wait_for 60 nvme_disk 1 || fail "connected, but there is no disk"
    disk=$(nvme_disk 1)
    ctrl=$(nvme_ctrl)
}
# generated: the identities of the keys that authentications made
generated() { grep -o 'NVMe1G.*' /proc/keys | sort; }
clients() { grep -c "client done" /tmp/tls.log || :; }
image=/tmp/image
truncate -s 32M $image
serve() {
    target_start "$(file_source $image 4096)" --concat --dhchap-secret-file $HOSTNQN=$secrets/host --dhchap-secret-file $HOSTNQN=$secrets/new \
        --dhchap-ctrl-secret-file $secrets/ctrl "$@"
}

# ---- the kernel's host on weft
serve
connect_concat host ",concat"
expect "connections with TLS" "$(clients)" 3
[ -n "$(generated)" ] || fail "no generated key"
fio_verify "$disk" 4m
fio_verify "$disk" 8m --bs=128k
# records WHERE: whether that is whose the records of all connections of I/O queues are, at weft's end
records() { /lab/weft status --json | jq -e --arg is "$1" '[.connections[].tls] | length > 0 and all(. == $is)' >/dev/null; }
records kernel || { /lab/weft status; fail "the kernel does not have weft's records"; }
note "the kernel's host: verified I/O with TLS on 3 queues"
first=$(generated)
fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
echo 1 >"/sys/class/nvme/$ctrl/reset_controller" || fail "reset"
fio_goes_on "the reset"
[ "$(clients)" -ge 6 ] || fail "the reset made no connections with TLS"
second=$(generated)
[ "$first" != "$second" ] || fail "the reset made no new key"
target_kill
serve
wait_for 240 is_live || fail "no reconnect"
fio_goes_on "the reconnect"
fio_stop "reset and reconnect"
note "a reset and a restart of the target under verified load: a new key each"
before=$(generated)
cat $secrets/new >"/sys/class/nvme/$ctrl/dhchap_secret" || fail "the new secret is not taken"
another() { [ "$(generated)" != "$before" ]; }
wait_for 60 another || { dmesg | tail -n 20; cat /tmp/target.log; fail "no new key by the new authentication"; }
fio_verify "$disk" 1m
note "authentication anew replaces the key"
disconnect
connect_concat host ",concat,dhchap_ctrl_secret=$(cat $secrets/ctrl)"
fio_verify "$disk" 1m
disconnect
note "with a secret of the controller"
if fabrics host "" 2>/dev/null; then fail "connected without a secure channel"; fi
if fabrics other ",concat" 2>/dev/null; then fail "connected with a wrong secret"; fi
grep -q "authentication refused: authentication failed" /tmp/target.log || { cat /tmp/target.log; fail "a wrong secret: not this reason"; }
nvme discover -t tcp -a $ADDR -s $PORT >/tmp/said 2>&1 || { cat /tmp/said; fail "discovery"; }
grep -q "sectype: *tls13" /tmp/said || { cat /tmp/said; fail "SECTYPE"; }
# this nvme-cli does not know that value together with another bit
/lab/weft discover nvme+tcp://$ADDR:$PORT >/tmp/said || fail "weft discover"
grep -q "treq: *not required" /tmp/said || { cat /tmp/said; fail "TREQ"; }
note "without a secure channel, and with a wrong secret: refused"
url=nvme+tcp://$ADDR:$PORT/$NQN
/lab/weft bench $url --concat -S @$secrets/host -C @$secrets/ctrl --hostnqn=$HOSTNQN --rw=randwrite --bs=4k --iodepth=8 --size=1m --verify=crc32c \
    --connect-timeout=60s >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft on weft"; }
target_stop
# the same with the records in user space
serve --no-kernel-tls
connect_concat host ",concat"
fio_verify "$disk" 1m
records "user space" || { /lab/weft status; fail "the kernel has weft's records"; }
disconnect
target_stop
note "with weft's records in user space"
kernel_is_sound

# ---- weft's host on nvmet
TSAS=tls1.3 TREQ="not required" nvmet_start ram:32MiB
subsystem=$NVMET/subsystems/$NQN host=$NVMET/hosts/$HOSTNQN
mkdir -p "$host"
cat $secrets/host >"$host/dhchap_key"
echo 0 >"$subsystem/attr_allow_any_host"
ln -s "$host" "$subsystem/allowed_hosts/$HOSTNQN"
echo ffdhe2048 >"$host/dhchap_dhgroup"
for hash in sha256 sha384; do
    echo "hmac($hash)" >"$host/dhchap_hash"
    : >/tmp/tls.log
    for size in 4k 128k; do
        /lab/weft bench $url --concat -S @$secrets/host --hostnqn=$HOSTNQN --rw=randwrite --bs=$size --iodepth=8 --size=2m --nr-io-queues=2 \
            --connect-timeout=60s --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said || { cat /tmp/said /tmp/tls.log; dmesg | tail -n 20; fail "weft bench"; }
        satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 2097152 and .read.io_bytes == 2097152'
    done
    grep -q "server done" /tmp/tls.log || fail "no TLS"
    note "weft's host on nvmet, $hash"
done
refuses /lab/weft id-ctrl $url --concat -S @$secrets/other --hostnqn=$HOSTNQN --connect-timeout=60s
cat /tmp/said

# Both ends prove who they are. nvmet forgets of what it would make the key before the last message comes, so it has none: that is said, and weft neither
# goes on in plain text nor does without the proof.
says() { # TEXT COMMAND...: it is refused, and says this
    local text=$1
    shift
    refuses "$@"
    grep -q -- "$text" /tmp/said || { cat /tmp/said; fail "it does not say \"$text\""; }
}
both() { says "$1" /lab/weft id-ctrl $url --concat -S @$secrets/host -C @$secrets/$2 --hostnqn=$HOSTNQN --connect-timeout=60s; }
both "the controller refused this host" ctrl
cat $secrets/ctrl >"$host/dhchap_ctrl_key"
both "does not know the secret of --dhchap-ctrl-secret-file" other
if /lab/weft bench $url --concat -S @$secrets/host -C @$secrets/ctrl --hostnqn=$HOSTNQN --rw=randwrite --bs=4k --iodepth=8 --size=2m --nr-io-queues=2 \
    --connect-timeout=60s --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said; then
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 2097152 and .read.io_bytes == 2097152'
    note "weft's host on nvmet with a secret of the controllers"
else
    grep -q "Linux's target (to 7.3 at least) makes none" /tmp/said || { cat /tmp/said; fail "not this reason"; }
    dmesg | grep -q "failed to generate PSK" || fail "nvmet has another reason"
    note "nvmet makes no key where its controllers prove who they are: that is said"
fi
# so the proof is to be had without TLS
/lab/weft id-ctrl $url -S @$secrets/host -C @$secrets/ctrl --hostnqn=$HOSTNQN --connect-timeout=60s >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "both ways without TLS"; }
rm "$subsystem/allowed_hosts/$HOSTNQN"
rmdir "$host"
nvmet_clear
kill $handshakes
kernel_is_sound
