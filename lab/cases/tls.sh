#!/bin/sh
# NVMe/TCP with TLS 1.3, with both cipher suites: the kernel's host on weft, with resets under
# verified load, and weft's host on nvmet. A wrong key, no key and no TLS are refused.
# lab: files=weft,../tls-handshake.c modules=nvme-tcp,nvmet-tcp,tls,nvme-keyring,gcm,ghash-generic pkgs=nvme-cli,fio,jq timeout=400
. /lab/lib.sh
umask 077
mkdir /tmp/keys
/lab/tls-handshake 2>/tmp/tls.log &
handshakes=$!
wait_for 10 grep -q ready /tmp/tls.log || { cat /tmp/tls.log; fail "no handshakes"; }

# make NAME HMAC IDENTITY_VERSION: a configured key, and with it the line of its identity and TLS PSK
make() {
    /lab/weft gen-tls-key --hmac "$2" -n $HOSTNQN -c $NQN -I "$3" -f "/tmp/keys/$1.derived" >"/tmp/keys/$1" || fail "gen-tls-key"
    /lab/weft check-tls-key -n $HOSTNQN -c $NQN -I "$3" <"/tmp/keys/$1" >/tmp/said || fail "check-tls-key"
    grep -q "^Key is valid (HMAC $2," /tmp/said || { cat /tmp/said; fail "check-tls-key"; }
}
# add NAME BYTES: puts the TLS PSK into the kernel's keyring, and sets $serial
add() {
    local line identity key
    line=$(tail -n 1 "/tmp/keys/$1.derived")
    identity=${line% *}
    key=${line##*:0?:}
    serial=$(/lab/tls-handshake --add "$identity" "$(echo "${key%:}" | base64 -d | head -c "$2" | od -An -v -tx1 | tr -d ' \n')")
}
# fabrics [,OPTION]...: connects the kernel's host
fabrics() {
    echo "transport=tcp,traddr=$ADDR,trsvcid=$PORT,nqn=$NQN,hostnqn=$HOSTNQN,hostid=$HOSTID,nr_io_queues=2,reconnect_delay=1$1" >/dev/nvme-fabrics
}
# says TEXT COMMAND...: it is refused, and says this in one line
says() {
    local text=$1
    shift
    refuses "$@"
    grep -q -- "$text" /tmp/said && [ "$(wc -l </tmp/said)" = 1 ] || { cat /tmp/said; fail "it does not say \"$text\" and nothing else"; }
}
connect_tls() {
    fabrics ",tls,tls_key=$serial" || { cat /tmp/tls.log; fail "no connection with TLS"; }
    wait_for 30 nvme_disk 1 || fail "connected, but there is no disk"
    disk=$(nvme_disk 1)
    ctrl=$(nvme_ctrl)
}

# ---- the kernel's host on weft
for suite in 1:32:0 2:48:1; do
    hmac=${suite%%:*}
    bytes=${suite#*:}
    bytes=${bytes%:*}
    make host$hmac "$hmac" "${suite##*:}"
    add host$hmac "$bytes"
    target_start --tls --tls-key-file /tmp/keys/host$hmac ram:32MiB
    connect_tls
    fio_verify "$disk" 4m
    fio_verify "$disk" 8m --bs=128k
    /lab/weft status --json | jq -e '[.connections[].tls] | length > 0 and all(. == "kernel")' >/dev/null || fail "weft's records are not the kernel's"
    note "the kernel's host, $bytes-byte PSK"
    if [ "$hmac" = 1 ]; then
        fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1
        for i in 1 2; do
            echo 1 >"/sys/class/nvme/$ctrl/reset_controller" || fail "reset"
            fio_goes_on "reset $i"
        done
        fio_stop "resets"
        target_runs
        note "two resets under load"
    fi
    disconnect
    if fabrics "" 2>/dev/null; then fail "connected without TLS"; fi
    note "without TLS: refused"
    [ "$hmac" = 1 ] || { target_stop; continue; }
    target_stop
    # the same keyring serves both ends
    /lab/weft check-tls-key -n $HOSTNQN -c $NQN -I 1 -i -d @/tmp/keys/host1 || fail "check-tls-key --insert"
    target_start --tls ram:32MiB
    connect_tls
    fio_verify "$disk" 1m
    disconnect
    target_stop
    note "weft with the keyring"
    target_start --tls --tls-key-file /tmp/keys/host$hmac ram:32MiB
    # an identity that weft knows, with another key
    make wrong 1 0
    add wrong 32
    if fabrics ",tls,tls_key=$serial" 2>/dev/null; then fail "connected with a wrong key"; fi
    grep -q "another key for this PSK identity" /tmp/target.log || { cat /tmp/target.log; fail "a wrong key: not this reason"; }
    note "a wrong key: refused"
    # an identity that weft does not know
    make unknown 1 1
    add unknown 32
    if fabrics ",tls,tls_key=$serial" 2>/dev/null; then fail "connected with an unknown key"; fi
    grep -q "for which there is no key here" /tmp/target.log || { cat /tmp/target.log; fail "an unknown key: not this reason"; }
    note "an unknown key: refused"
    target_stop
done
kernel_is_sound

# ---- weft's host on nvmet
TSAS=tls1.3 nvmet_start ram:32MiB
url=nvme+tcp://$ADDR:$PORT/$NQN
for suite in 1:32 2:48; do
    hmac=${suite%:*}
    make initiator$hmac "$hmac" 1
    add initiator$hmac "${suite#*:}"
    for size in 4k 128k; do
        /lab/weft bench $url --tls --tls-key-file /tmp/keys/initiator$hmac --rw=randwrite --bs=$size --iodepth=8 --size=4m --nr-io-queues=2 \
            --hostnqn=$HOSTNQN --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said || { cat /tmp/said /tmp/tls.log; fail "weft bench"; }
        satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 4194304 and .read.io_bytes == 4194304'
    done
    note "weft's host on nvmet, ${suite#*:}-byte PSK"
done
/lab/weft bench $url --tls --rw=randread --bs=4k --iodepth=8 --size=4m --hostnqn=$HOSTNQN >/tmp/out 2>/tmp/said || { cat /tmp/said /tmp/tls.log; fail "the keyring"; }
note "weft's host on nvmet, with the keyring"

# one key of the keyring, by its serial number as nvme-cli prints it, in both notations, or by its identity
make chosen 1 1
add chosen 32
chosen=$(tail -n 1 /tmp/keys/chosen.derived)
for key in "--tls-key=$serial" "--tls_key=$(printf 0x%x "$serial")" "--tls-key-identity=${chosen% *}"; do
    : >/tmp/tls.log
    /lab/weft bench $url --tls "$key" --rw=randwrite --bs=4k --iodepth=8 --size=1m --hostnqn=$HOSTNQN --verify=crc32c --output-format=json \
        >/tmp/out 2>/tmp/said || { cat /tmp/said /tmp/tls.log; fail "weft bench $key"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 1048576 and .read.io_bytes == 1048576'
done
# a server that knows this key only
port=$PORT
PORT=4421
target_start --tls --tls-key "$serial" ram:32MiB
/lab/weft connect nvme+tcp://$ADDR:$PORT/$NQN --tls --tls-key "$serial" --hostnqn=$HOSTNQN --as nbd --name chosen --serve-only >/tmp/out 2>/tmp/said ||
    { cat /tmp/said; fail "weft connect --tls-key"; }
/lab/weft disconnect chosen || fail "weft disconnect"
connect_tls
fio_verify "$disk" 1m
disconnect
target_stop
PORT=$port
says "there is no TLS PSK with the serial number 1 " /lab/weft id-ctrl $url --tls --tls-key 1 --hostnqn=$HOSTNQN
says "there is no TLS PSK with the serial number 1 " /lab/weft connect $url --tls --tls-key 1 --hostnqn=$HOSTNQN --as nbd --serve-only
says "no TLS PSK with the identity" /lab/weft id-ctrl $url --tls --tls-key-identity "NVMe1R01 $HOSTNQN $NQN none" --hostnqn=$HOSTNQN
# of another kind than a TLS PSK: the keyring itself
says "there is no TLS PSK with the serial number" /lab/weft id-ctrl $url --tls --hostnqn=$HOSTNQN --tls-key 0x$(awk '$9 == ".nvme:" { print $1 }' /proc/keys)
note "weft's host with one key of the keyring, by its serial number; wrong ones are named"
/lab/weft gen-tls-key >/tmp/keys/stranger
refuses /lab/weft id-ctrl $url --tls --tls-key-file /tmp/keys/stranger --hostnqn=$HOSTNQN
cat /tmp/said
refuses /lab/weft id-ctrl $url --hostnqn=$HOSTNQN
cat /tmp/said
nvmet_clear
kill $handshakes
sort /tmp/tls.log | uniq -c | sort -rn | head -n 8
kernel_is_sound
