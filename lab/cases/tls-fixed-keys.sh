#!/bin/sh
# Kernel TLS on a kernel that does not change keys (before 6.14): weft's own tests of TLS over
# sockets and with the program openssl. Where keys have to be changed the connection ends in order.
# lab: files=tls-tests,tls-openssl modules=tls,gcm,ghash-generic pkgs=openssl timeout=300
. /lab/lib.sh
grep -qw tls /proc/sys/net/ipv4/tcp_available_ulp || fail "this kernel has no TLS"
/lab/tls-tests --test-threads 2 tests::sockets || fail "the tests over sockets"
/lab/tls-openssl --test-threads 2 --skip certificate --skip new_keys || fail "the tests with openssl"
kernel_is_sound
