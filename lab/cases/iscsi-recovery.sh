#!/bin/sh
# open-iscsi under verified load on weft: the connection is cut, the target is killed and comes back, a LUN is reset; then a
# logout in the middle of it.
# lab: files=weft,../iscsi.sh modules=iscsi_tcp,sd_mod,sg pkgs=open-iscsi,fio,sg3-utils,iproute2 timeout=300
. /lab/lib.sh
. /lab/iscsi.sh
image=/tmp/image
truncate -s 32M $image
serve() { iscsi_start "$(file_source $image 512)"; }
serve
iscsid_start
discover
digests both
login
load() { fio_load --verify=crc32c --verify_backlog=128 --verify_fatal=1; }

# a reservation of this session outlives its connections
sg_persist --out --register --param-sark=0xabc "$disk" >/dev/null || fail "sg_persist --register"
sg_persist --out --reserve --param-rk=0xabc --prout-type=3 "$disk" >/dev/null || fail "sg_persist --reserve"
load
for i in 1 2; do
    ss -K dst $ADDR dport = $ISCSI_PORT >/dev/null || fail "ss -K"
    fio_goes_on "cut $i"
done
wait_for 30 is_logged_in || fail "no session"
sg_persist --out --clear --param-rk=0xabc "$disk" >/dev/null || fail "the reservation is gone"
note "cut twice under load"
sg_reset --device "$disk" || fail "sg_reset"
fio_goes_on "the reset"
note "reset under load"
iscsi_kill
wait_for 30 sh -c "! grep -q LOGGED_IN /sys/class/iscsi_session/session*/state" || fail "the initiator did not notice"
serve
wait_for 60 is_logged_in || fail "no login after the kill"
fio_goes_on "the kill"
fio_stop "cuts, reset and kill"
fio_verify "$disk" 4m
note "killed and back under load"

fio_load
logout
if wait $load_pid; then fail "fio went on without a disk"; fi
note "logged out under load"
login
fio_verify "$disk" 4m
logout
kernel_is_sound
iscsi_stop
