#!/bin/sh
# open-iscsi with dm-multipath over two portals of weft, each on a network of its own, with a mounted file system under verified I/O: networks are
# cut one after the other, then the access states of the portals change (`prio alua`). No I/O error, no mismatch, a clean file system.
# lab: files=weft,../iscsi.sh,../paths.sh modules=iscsi_tcp,sd_mod,sg,veth,ext4,dm-multipath,dm-round-robin,dm-service-time,scsi_dh_alua timeout=400
# lab: pkgs=open-iscsi,fio,iproute2,e2fsprogs,mount,util-linux,multipath-tools,kpartx,dmsetup,udev,sg3-utils
. /lab/lib.sh
. /lab/iscsi.sh
. /lab/paths.sh
[ "$TARGET" != kernel ] || skip "LIO's portals cannot be in another network namespace than its initiator's here"

networks_start
truncate -s 64M $STORE
: >/tmp/target.log
nsenter --net=/run/netns/target /lab/weft serve "file:$STORE,block=512,uuid=$UUID" --iqn $IQN \
    --control /tmp/target.sock --listen iscsi://10.0.1.2:$ISCSI_PORT --listen iscsi://10.0.2.2:$ISCSI_PORT >/tmp/target.log 2>&1 &
target_pid=$!
listens() { [ "$(grep -c '^listening on iscsi://' /tmp/target.log)" = 2 ]; }
wait_for 30 listens || { cat /tmp/target.log; fail "weft serve does not listen"; }

# multipathd learns of disks from udev.
mkdir -p /run/udev /etc/multipath
cp /bin/udevadm /tmp/systemd-udevd
/tmp/systemd-udevd --daemon
cat >/etc/multipath.conf <<CONF
defaults {
    user_friendly_names yes
    find_multipaths no
    path_grouping_policy group_by_prio
    prio alua
    failback immediate
    no_path_retry queue
    polling_interval 1
    max_polling_interval 2
}
CONF
multipathd
iscsid_start
sed -i 's/replacement_timeout = 60/replacement_timeout = 3/' /etc/iscsi/iscsid.conf
for n in 1 2; do
    iscsiadm -m discovery -t sendtargets -p 10.0.$n.2:$ISCSI_PORT >/dev/null || fail "discovery on network $n"
    iscsiadm -m node -T $IQN -p 10.0.$n.2:$ISCSI_PORT --login >/tmp/said 2>&1 || { cat /tmp/said; fail "login on network $n"; }
done
map_is_there() { [ -b /dev/mapper/mpatha ]; }
wait_for 30 map_is_there || { multipath -v3 -ll | tail -60; fail "there is no multipath device"; }
paths_run() { [ "$(dmsetup status mpatha | grep -oE '8:[0-9]+ A' | wc -l)" = "$1" ]; }
wait_for 30 paths_run 2 || { multipath -ll; fail "there are not two paths"; }
multipath -ll
disk=/dev/$(basename "$(readlink -f /dev/mapper/mpatha)")
mkfs.ext4 -q /dev/mapper/mpatha
mount /dev/mapper/mpatha /mnt

fio --name=load --filename=/mnt/data --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 --direct=1 --rate_iops=150 \
    --verify=crc32c --verify_backlog=256 --verify_fatal=1 --time_based --runtime=300 --output=/tmp/load.out &
load_pid=$!
written=$(fio_writes)
wait_for 30 fio_wrote || fail "fio does not write"
for n in 1 2; do
    link_cut $n
    wait_for 60 paths_run 1 || { dmsetup status mpatha; fail "multipathd does not notice the cut of network $n"; }
    fio_goes_on "the cut of network $n"
    link_mend $n
    wait_for 60 paths_run 2 || { dmsetup status mpatha; fail "the path on network $n does not come back"; }
    fio_goes_on "the mending of network $n"
    note "network $n cut and mended"
done

# path N: the disk of the portal on network N
path() {
    local d s
    for d in /sys/block/sd*; do
        s=$(readlink -f "$d/device" | grep -oE 'session[0-9]+')
        [ "$(cat "/sys/class/iscsi_connection/connection${s#session}:0/persistent_address")" = 10.0.$1.2 ] && echo "${d##*/}"
    done
}
# access N STATE: at the portal on network N
access() { /lab/weft ana set 1 "$2" --listener 10.0.$1.2:$ISCSI_PORT --control /tmp/target.sock >/tmp/said 2>&1 || { cat /tmp/said; fail "weft ana set $2"; }; }
# reports N STATE: what the target tells of the group of the portal on network N, asked by both paths
reports() {
    local by
    for by in 1 2; do
        sg_rtpg -d "/dev/$(path $by)" | sed -n "/target port group id : 0x$1 /,/asymmetric access state/p" | grep -q "access state : $2" || return 1
    done
}
ios() { awk '{ print $1 + $5 }' "/sys/block/$(path "$1")/stat"; }
# only_by N: whether all I/O takes the portal on network N
only_by() {
    local other=$((3 - $1)) before_other before_this
    before_other=$(ios $other) before_this=$(ios "$1")
    sleep 2
    [ "$(ios $other)" = "$before_other" ] && [ "$(ios "$1")" -gt "$before_this" ]
}
for n in 1 2; do reports $n 0x00 || { sg_rtpg -d "/dev/$(path 1)"; fail "sg_rtpg does not show group $n as active/optimized"; }; done
for change in "1 non-optimized 0x01" "2 inaccessible 0x02" "1 persistent-loss 0x0e"; do
    set -- $change
    access "$1" "$2"
    reports "$1" "$3" || { sg_rtpg -d "/dev/$(path 1)"; fail "sg_rtpg does not show the state $2 of group $1"; }
    wait_for 60 only_by $((3 - $1)) || { multipath -ll; fail "I/O does not leave the portal on network $1, which is $2"; }
    fio_goes_on "the portal on network $1 becoming $2"
    multipath -ll
    access "$1" optimized
    wait_for 60 paths_run 2 || { multipath -ll; fail "the path on network $1 does not come back from $2"; }
    note "network $1: $2, and back"
done
fio_stop "networks cut and mended, and access states changed"
umount /mnt
e2fsck -fn /dev/mapper/mpatha >/tmp/fsck.out 2>&1 || { cat /tmp/fsck.out; fail "the file system is not clean"; }
# udev may look at the map for a moment longer.
wait_for 30 multipath -F || fail "the map stays in use"
for n in 1 2; do iscsiadm -m node -T $IQN -p 10.0.$n.2:$ISCSI_PORT --logout >/dev/null 2>&1; done
kill $target_pid
wait $target_pid || fail "weft serve ended with status $?"
networks_stop
if dmesg | grep -E 'EXT4-fs error|Buffer I/O error'; then fail "the kernel saw errors"; fi
kernel_is_sound
