# Helpers of the guest's scripts for iSCSI, on top of those of lib.sh: `. /lab/lib.sh; . /lab/iscsi.sh`. POSIX sh.
#
# With TARGET=kernel in the environment the target is the kernel's own (LIO), as with NVMe.

ISCSI_PORT=3260
IQN=iqn.2026-11.example.weft:lab
INITIATOR=iqn.2026-11.example.weft:host
LIO=/sys/kernel/config/target
PORTAL=$ADDR:$ISCSI_PORT

# secrets of CHAP: of at least 12 bytes, and not the same
USER=alice SECRET=alices-long-secret
TARGET_USER=bob TARGET_SECRET=bobs-other-secret
printf %s $SECRET >/tmp/secret
printf %s $TARGET_SECRET >/tmp/target-secret
chmod 600 /tmp/secret /tmp/target-secret

# ---- the target

# iscsi_start [--chap|--mutual] SOURCE...: serves the sources as LUNs 0, 1, ... of $IQN
iscsi_start() {
    if [ "$TARGET" = kernel ]; then lio_start "$@"; return; fi
    set -- $(echo "$*" | sed "s/--mutual/--chap --login-target-user $TARGET_USER --login-target-secret-file \/tmp\/target-secret/
        s/--chap/--login-user $USER --login-secret-file \/tmp\/secret/")
    : >/tmp/target.log
    /lab/weft serve "$@" --listen iscsi://$PORTAL --iqn $IQN >/tmp/target.log 2>&1 &
    target_pid=$!
    wait_for 30 grep -q '^listening on iscsi://' /tmp/target.log || fail "weft serve does not listen"
}
# iscsi_kill: at once, as by a power cut of the target alone. LIO's portal goes away, and its sessions with it.
iscsi_kill() { if [ "$TARGET" = kernel ]; then lio_stop; else target_kill; fi; }
iscsi_stop() { if [ "$TARGET" = kernel ]; then lio_stop; else target_stop; fi; }

# lio_start: iscsi_start for LIO; its devices are files
lio_start() {
    local tpg=$LIO/iscsi/$IQN/tpgt_1 acl n=0 chap= mutual= at
    modprobe iscsi_target_mod
    modprobe target_core_file
    mkdir -p $tpg/np/$PORTAL
    acl=$tpg/acls/$INITIATOR
    mkdir -p "$acl"
    while [ $# -gt 0 ]; do
        case $1 in
        --chap) chap=1 ;;
        --mutual) chap=1 mutual=1 ;;
        *)
            at=$LIO/core/fileio_$n/disk
            mkdir -p "$at" $tpg/lun/lun_$n "$acl/lun_$n"
            lio_backing "$1" "$n" "$at"
            ln -s "$at" $tpg/lun/lun_$n/disk
            ln -s $tpg/lun/lun_$n "$acl/lun_$n/lun"
            n=$((n + 1))
            ;;
        esac
        shift
    done
    echo ${chap:-0} >$tpg/attrib/authentication
    if [ $chap ]; then
        # without a line end, which would be part of it
        printf %s $USER >"$acl/auth/userid"
        printf %s $SECRET >"$acl/auth/password"
    fi
    if [ $mutual ]; then
        printf %s $TARGET_USER >"$acl/auth/userid_mutual"
        printf %s $TARGET_SECRET >"$acl/auth/password_mutual"
    fi
    echo 1 >$tpg/enable
}
# lio_backing SOURCE N DIR: a file for one of weft's sources, as the storage object in DIR
lio_backing() {
    local file=/tmp/lio$2 block=512
    case $1 in
    ram:*) [ -e $file ] || truncate -s "$(bytes "${1#ram:}")" $file ;;
    file:*) file=${1#file:} block=${1##*,block=} file=${file%%,*} ;;
    *) fail "LIO cannot serve $1" ;;
    esac
    echo "fd_dev_name=$file,fd_dev_size=$(stat -c %s $file)" >"$3/control"
    echo 1 >"$3/enable"
    echo "$block" >"$3/attrib/block_size"
    echo 1 >"$3/attrib/emulate_tpu"
    echo 0000000-lab-$2 >"$3/wwn/vpd_unit_serial"
}
# lio_blocks DEVICE...: block devices as LUNs 0, 1, ... of LIO, for every initiator
lio_blocks() {
    local tpg=$LIO/iscsi/$IQN/tpgt_1 n=0 device at kv
    modprobe iscsi_target_mod
    modprobe target_core_iblock
    mkdir -p $tpg/np/$PORTAL
    for device; do
        at=$LIO/core/iblock_$n/disk
        mkdir -p "$at" $tpg/lun/lun_$n
        echo udev_path="$device" >"$at/control"
        echo 1 >"$at/enable"
        ln -s "$at" $tpg/lun/lun_$n/disk
        n=$((n + 1))
    done
    for kv in authentication=0 generate_node_acls=1 demo_mode_write_protect=0; do echo "${kv#*=}" >$tpg/attrib/"${kv%=*}"; done
    echo 1 >$tpg/enable
}
lio_stop() {
    local tpg=$LIO/iscsi/$IQN/tpgt_1 d
    echo 0 >$tpg/enable
    rm -f $tpg/acls/*/lun_*/lun
    rmdir $tpg/acls/*/lun_* $tpg/acls/* $tpg/np/*
    rm -f $tpg/lun/*/disk
    rmdir $tpg/lun/lun_*
    rmdir $tpg $LIO/iscsi/$IQN
    for d in $LIO/core/fileio_*/disk; do rmdir "$d" "${d%/disk}"; done
}

# ---- open-iscsi

# iscsid_start: the daemon that logs in, and in again
iscsid_start() {
    mkdir -p /etc/iscsi /run/lock/iscsi
    echo "InitiatorName=$INITIATOR" >/etc/iscsi/initiatorname.iscsi
    # Short patience with a path that is gone, so that a case need not wait for it.
    cat >>/etc/iscsi/iscsid.conf <<CONF
node.conn[0].timeo.noop_out_interval = 2
node.conn[0].timeo.noop_out_timeout = 3
node.session.timeo.replacement_timeout = 60
CONF
    iscsid || fail "iscsid"
}
# node_set NAME VALUE: of the target's record
node_set() { iscsiadm -m node -T $IQN -p $PORTAL -o update -n "$1" -v "$2" || fail "iscsiadm update $1"; }
# discover: makes the target's record anew
discover() {
    rm -rf /etc/iscsi/nodes /etc/iscsi/send_targets
    iscsiadm -m discovery -t sendtargets -p $PORTAL >/tmp/found || fail "discovery"
    grep -q " $IQN\$" /tmp/found || { cat /tmp/found; fail "discovery did not find $IQN"; }
}
# digests none|header|data|both: what the next login asks for
digests() {
    local header=None data=None
    case $1 in header | both) header=CRC32C ;; esac
    case $1 in data | both) data=CRC32C ;; esac
    node_set "node.conn[0].iscsi.HeaderDigest" $header
    node_set "node.conn[0].iscsi.DataDigest" $data
}
# login: waits for LUN 0 and sets $disk
login() {
    iscsiadm -m node -T $IQN -p $PORTAL --login >/tmp/said 2>&1 || { cat /tmp/said; fail "login"; }
    wait_for 30 scsi_disk 0 || fail "logged in, but there is no disk"
    disk=$(scsi_disk 0)
}
logout() {
    iscsiadm -m node -T $IQN -p $PORTAL --logout >/tmp/said 2>&1 || { cat /tmp/said; fail "logout"; }
    if scsi_disk 0; then fail "the disk is still there"; fi
}
# scsi_disk LUN: the block device of a LUN, when it is there
scsi_disk() {
    local d
    for d in /sys/class/scsi_disk/*:"$1"/device/block/*; do
        [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
    done
    return 1
}
# session ATTRIBUTE: of the one session
session() { cat /sys/class/iscsi_session/session*/"$1"; }
is_logged_in() { [ "$(session state 2>/dev/null)" = LOGGED_IN ]; }
