#!/bin/sh
# CHAP between open-iscsi and weft: none, one-way and mutual; wrong secrets and names of either end are refused.
# lab: files=weft,../iscsi.sh modules=iscsi_tcp,sd_mod pkgs=open-iscsi,fio timeout=240
. /lab/lib.sh
. /lab/iscsi.sh
iscsid_start
# login that must fail, within its time
no_login() {
    if iscsiadm -m node -T $IQN -p $PORTAL --login >/tmp/said 2>&1; then fail "login with $*"; fi
    # It is the initiator that refuses a target without the right secret; it says no more of that than error 19.
    grep -qE '[Aa]uth|error [(](19|24) ' /tmp/said || { cat /tmp/said; fail "$*: another failure"; }
    note "refused: $*"
}
one_way() {
    node_set node.session.auth.authmethod CHAP
    node_set node.session.auth.username "$1"
    node_set node.session.auth.password "$2"
}
mutual() {
    node_set node.session.auth.username_in "$1"
    node_set node.session.auth.password_in "$2"
}

# discovery that asks for CHAP like a login (LIO has secrets of its own for it, or none)
discovery_set() { iscsiadm -m discoverydb -t sendtargets -p $PORTAL -o update -n discovery.sendtargets.auth."$1" -v "$2"; }
discover_by_chap() {
    rm -rf /etc/iscsi/nodes /etc/iscsi/send_targets
    iscsiadm -m discoverydb -t sendtargets -p $PORTAL -o new >/dev/null || fail "discoverydb"
    if [ "$TARGET" != kernel ]; then
        refuses iscsiadm -m discoverydb -t sendtargets -p $PORTAL --discover
        grep -qi auth /tmp/said || { cat /tmp/said; fail "discovery without a secret: another failure"; }
        discovery_set authmethod CHAP
        discovery_set username $USER
        discovery_set password $SECRET
    fi
    iscsiadm -m discoverydb -t sendtargets -p $PORTAL --discover >/tmp/found || fail "discovery"
    grep -q " $IQN\$" /tmp/found || { cat /tmp/found; fail "discovery did not find $IQN"; }
}

iscsi_start --chap ram:16MiB
discover_by_chap
no_login "no secret"
one_way $USER another-long-secret
no_login "a wrong secret"
one_way mallory $SECRET
no_login "a wrong name"
one_way $USER $SECRET
login
fio_verify "$disk" 1m
logout
note "one-way"
mutual $TARGET_USER $TARGET_SECRET
no_login "a target without a secret of its own"
iscsi_stop

iscsi_start --mutual ram:16MiB
discover_by_chap
one_way $USER $SECRET
mutual $TARGET_USER another-long-secret
no_login "a target with a wrong secret"
mutual $TARGET_USER $TARGET_SECRET
login
fio_verify "$disk" 1m
logout
note "mutual"
iscsi_stop
