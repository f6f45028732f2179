#!/bin/sh
# The suites `protocols`, `null` and `mirror` beside the kernel: its initiators on its targets (NVMe over TCP, RDMA and Fibre Channel by fcloop, iSCSI by
# LIO in place of SCSI over FC) are lanes next to weft's pairs, and weft's initiator on the kernel's target is one; md over two disks of the kernel is one of `mirror`. The machine is emulated: the rows must be there and hold
# together, their numbers are only printed. Arguments go to each study: -- --time-budget 5m
# lab: long files=weft,../rdma.sh,../iscsi.sh mem=2048 timeout=900
# lab: modules=crc32_generic,rdma_rxe,dummy,ib_uverbs,rdma_ucm,nvmet-tcp,nvme-tcp,nvmet-rdma,nvme-rdma,nvme-fcloop,nvme-fc,nvmet-fc,iscsi_target_mod,target_core_iblock,iscsi_tcp,sd_mod,null_blk,crc32c_generic,md_mod,raid1
# lab: pkgs=iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1,nvme-cli,open-iscsi,fio,mdadm
. /lab/lib.sh
. /lab/rdma.sh
. /lab/iscsi.sh
h_nn=0x10001100ab000001 h_pn=0x20001100ab000001
t_nn=0x10001100aa000001 t_pn=0x20001100aa000001

# exported N MEMORY TRTYPE TRADDR TRSVCID: such a device as a subsystem of its own at a port of its own
exported() {
    local s=$NVMET/subsystems/$NQN-$1 p=$NVMET/ports/$1
    null_disk lane"$1" 64 "$2"
    mkdir -p "$s/namespaces/1" "$p"
    echo 1 >"$s/attr_allow_any_host"
    echo /dev/lane"$1" >"$s/namespaces/1/device_path"
    echo 1 >"$s/namespaces/1/enable"
    echo "$3" >"$p/addr_trtype"
    if [ "$3" = fc ]; then echo fc; else echo ipv4; fi >"$p/addr_adrfam"
    echo "$4" >"$p/addr_traddr"
    echo "$5" >"$p/addr_trsvcid"
    ln -s "$s" "$p/subsystems/$NQN-$1"
}
# attached N ARGUMENT...: connects the kernel's host and says which disk it got
attached() {
    local n=$1
    shift
    nvme connect -n $NQN-"$n" "$@" >/dev/null || fail "nvme connect $*"
    wait_for 30 disk_of "$n" >/dev/null || fail "there is no disk of $*"
    disk_of "$n"
}
disk_of() { (NQN=$NQN-$1 && nvme_disk 1); }

exported 1 1 tcp 127.0.0.1 4421
exported 2 0 tcp 127.0.0.1 4422
exported 3 1 rdma $ADDR 4423
exported 4 0 rdma $ADDR 4424
echo "wwnn=$t_nn,wwpn=$t_pn" >/sys/class/fcloop/ctl/add_target_port
exported 5 1 fc "nn-$t_nn:pn-$t_pn" none
echo "wwnn=$h_nn,wwpn=$h_pn" >/sys/class/fcloop/ctl/add_local_port
echo "wwnn=$t_nn,wwpn=$t_pn,lpwwnn=$h_nn,lpwwpn=$h_pn,roles=0x60" >/sys/class/fcloop/ctl/add_remote_port
tcp=$(attached 1 -t tcp -a 127.0.0.1 -s 4421)
tcp_null=$(attached 2 -t tcp -a 127.0.0.1 -s 4422)
rdma=$(attached 3 -t rdma -a $ADDR -s 4423)
rdma_null=$(attached 4 -t rdma -a $ADDR -s 4424)
fc=$(attached 5 -t fc -a "nn-$t_nn:pn-$t_pn" --host-traddr="nn-$h_nn:pn-$h_pn")
for n in 6 7; do null_disk lane$n 64 $((n == 6)); done
lio_blocks /dev/lane6 /dev/lane7
iscsid_start
discover
login
wait_for 30 scsi_disk 1 >/dev/null || fail "there is no second LUN"
iscsi=$(scsi_disk 0) iscsi_null=$(scsi_disk 1)
[ $# -gt 0 ] || set -- --time-budget 15s
note "the kernel's disks: TCP $tcp $tcp_null, RDMA $rdma $rdma_null, FC $fc, iSCSI $iscsi $iscsi_null"

# study SUITE ARGUMENT...: writes /tmp/SUITE
study() {
    local suite=$1
    shift
    /lab/weft study --suite "$suite" --quick --output-dir /tmp/"$suite" "$@" >/tmp/out 2>/tmp/said || { cat /tmp/out /tmp/said; fail "the suite $suite"; }
    cat /tmp/out
}
# has SUITE LANE...: each lane has a row, and no row of it is empty
has() {
    local suite=$1 lane
    shift
    for lane; do
        satisfies /tmp/"$suite"/results.json "[.rows[] | select(.lane == \"$lane\")] | length > 0 and all(.[]; .iops > 0 and .latency.mean_ns > 0)"
    done
}
study protocols --source ram:32MiB --lanes iscsi,nvme+tcp,hypervisor,two-paths,fc-nvme,fc-scsi \
    --lane fc-nvme="$fc" --lane fc-scsi="$iscsi" --lane linux-tcp="$tcp" --lane linux-rdma="$rdma" \
    --lane weft-on-nvmet=nvme+tcp://127.0.0.1:4421/$NQN-1 "$@"
has protocols iscsi nvme+tcp hypervisor two-paths fc-nvme fc-scsi linux-tcp linux-rdma weft-on-nvmet
study null --lane linux-tcp="$tcp_null" --lane linux-rdma="$rdma_null" --lane linux-iscsi="$iscsi_null" "$@"
has null iscsi nvme+tcp linux-tcp linux-rdma linux-iscsi
legs=
for n in 8 9 10; do
    exported $n 1 tcp 127.0.0.1 $((4420 + n))
    legs=$legs${legs:+,}nvme+tcp://127.0.0.1:$((4420 + n))/$NQN-$n
done
/lab/weft mirror create --assume-clean $(echo "$legs" | tr , ' ') || fail "weft mirror create"
# md over two disks that the kernel attached, each of a target of weft's
members=
for n in 11 12; do
    /lab/weft serve ram:32MiB --listen nvme+tcp://127.0.0.1:$((4420 + n)) --nqn $NQN-$n >/tmp/member-$n 2>&1 &
    wait_for 30 grep -q '^listening on ' /tmp/member-$n || { cat /tmp/member-$n; fail "weft serve does not listen"; }
    members="$members $(attached $n -t tcp -a 127.0.0.1 -s $((4420 + n)))"
done
MDADM_NO_UDEV=1 mdadm --create /dev/md0 --level=1 --raid-devices=2 --metadata=1.2 --assume-clean --run $members >/tmp/said 2>&1 || { cat /tmp/said; fail "mdadm"; }
study mirror --source ram:32MiB --lanes nvme+tcp,mirror-tcp,mirror-rdma,md-raid1 --address $ADDR --lane mirror-on-nvmet=mirror:"$legs" \
    --lane md-raid1=/dev/md0 "$@"
has mirror mirror-tcp mirror-rdma mirror-on-nvmet md-raid1
mdadm --stop /dev/md0 >/dev/null 2>&1 || fail "mdadm --stop"
kernel_is_sound
