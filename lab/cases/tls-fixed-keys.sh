#!/bin/sh
# Kernel TLS on a kernel that does not change keys (before 6.14): weft's own tests of TLS over
# sockets and with the program openssl. Where keys have to be changed the connection ends in order.
# Then hosts on targets, verified, with OpenSSL in between, which changes keys in the middle of each
# connection: weft's host ends the connection and makes another one, and so has weft's target its host do.
# lab: files=weft,tls-tests,tls-openssl,../tls-renewing.c modules=tls,gcm,ghash-generic pkgs=openssl,jq timeout=400
. /lab/lib.sh
umask 077
grep -qw tls /proc/sys/net/ipv4/tcp_available_ulp || fail "this kernel has no TLS"
/lab/tls-tests --test-threads 2 tests::sockets || fail "the tests over sockets"
/lab/tls-openssl --test-threads 2 --skip certificate --skip new_keys || fail "the tests with openssl"

/lab/weft gen-tls-key --hmac 1 -n $HOSTNQN -c $NQN -I 1 -f /tmp/derived >/tmp/key || fail "gen-tls-key"
line=$(tail -n 1 /tmp/derived)
key=${line##*:0?:}
hex=$(echo "${key%:}" | base64 -d | head -c 32 | od -An -v -tx1 | tr -d ' \n')
between=4430
# between ROLE PORT: OpenSSL in front of this port; each connection has new keys after 4 MiB
between() {
    : >/tmp/between.log
    /lab/tls-renewing "$1" $between "$2" "${line% *}" "$hex" 4194304 2>/tmp/between.log &
    renewing=$!
    wait_for 10 grep -q ready /tmp/between.log || { cat /tmp/between.log; fail "nothing in between"; }
}
# goes_on [OPTION]...: a host writes 12 MiB through what is in between, and reads them back, without an error
goes_on() {
    /lab/weft bench nvme+tcp://$ADDR:$between/$NQN "$@" --hostnqn=$HOSTNQN --rw=randwrite --bs=16k --iodepth=8 --size=12m --nr-io-queues=1 --reconnect-delay=1 \
        --connect-timeout=60s --verify=crc32c --output-format=json >/tmp/out 2>/tmp/said || { cat /tmp/said /tmp/between.log; fail "weft bench $*"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 12582912 and .read.io_bytes == 12582912'
    cat /tmp/said
    [ "$(grep -c "new keys" /tmp/between.log)" -ge 2 ] || { cat /tmp/between.log; fail "no connection has had new keys, and no other came after it"; }
    grep -q "ended the connection in order" /tmp/between.log || { cat /tmp/between.log; fail "not in order"; }
    kill $renewing
    wait $renewing || :
}
target_start ram:32MiB
between server $PORT
goes_on --tls --tls-key-file /tmp/key
grep -q "this kernel cannot do" /tmp/said || fail "weft's host does not say why it connects anew"
target_stop
note "weft's host connects anew when its peer changes keys"
target_start --tls --tls-key-file /tmp/key ram:32MiB
between client $PORT
goes_on
grep -q "this kernel cannot do" /tmp/target.log || fail "weft's target does not say why it ends the connection"
target_stop
note "weft's target has its host connect anew when that changes keys"
kernel_is_sound
