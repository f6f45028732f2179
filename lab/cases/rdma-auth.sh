#!/bin/sh
# DH-HMAC-CHAP over NVMe/RDMA on a soft device: the kernel's host on weft's target, weft's host on nvmet, and weft on weft; one way and both ways,
# wrong secrets and none.
# lab: files=weft,../rdma.sh modules=crc32_generic,rdma_rxe,dummy,nvme-rdma,nvmet-rdma,nvme-auth,ib_uverbs,rdma_ucm timeout=600
# lab: pkgs=nvme-cli,fio,iproute2,jq,ibverbs-providers,libibverbs1,librdmacm1
. /lab/lib.sh
. /lab/rdma.sh
url=nvme+rdma://$ADDR:$PORT/$NQN
secrets=/root/secrets
mkdir -m 700 $secrets
for name in host ctrl other; do /lab/weft gen-dhchap-key --hmac 1 --nqn $HOSTNQN --keyfile $secrets/$name; done
bench() { # options
    /lab/weft bench $url "$@" --connect-timeout=60s --rw=randwrite --bs=4k --iodepth=16 --size=1m --nr-io-queues=2 --verify=crc32c --output-format=json \
        >/tmp/out 2>/tmp/said || { cat /tmp/said; fail "weft bench $*"; }
    satisfies /tmp/out '.jobs[0] | .error == 0 and .write.io_bytes == 1048576 and .read.io_bytes == 1048576'
}

target_start ram:32MiB --dhchap-secret-file $HOSTNQN=$secrets/host --dhchap-ctrl-secret-file $secrets/ctrl
if nvme connect -t rdma -a $ADDR -s $PORT -n $NQN --dhchap-secret="$(cat $secrets/other)" >/tmp/said 2>&1; then fail "connected with a wrong key"; fi
connect --keep-alive-tmo=120 -i 2 --dhchap-secret="$(cat $secrets/host)" --dhchap-ctrl-secret="$(cat $secrets/ctrl)"
fio_verify "$disk" 4m
nvme reset "/dev/$ctrl" || fail "nvme reset"
fio_verify "$disk" 1m
disconnect
note "the kernel's host on weft"
bench -S @$secrets/host -C @$secrets/ctrl
refuses /lab/weft id-ctrl $url -S @$secrets/other
refuses /lab/weft id-ctrl $url
grep -q dhchap-secret-file /tmp/said || { cat /tmp/said; fail "it does not name the option"; }
target_stop
note "weft on weft"

nvmet_start ram:32MiB
subsystem=$NVMET/subsystems/$NQN host=$NVMET/hosts/$HOSTNQN
mkdir "$host"
cat $secrets/host >"$host/dhchap_key"
cat $secrets/ctrl >"$host/dhchap_ctrl_key"
echo ffdhe2048 >"$host/dhchap_dhgroup"
echo 0 >"$subsystem/attr_allow_any_host"
ln -s "$host" "$subsystem/allowed_hosts/$HOSTNQN"
bench -S @$secrets/host -C @$secrets/ctrl
refuses /lab/weft id-ctrl $url -S @$secrets/other
rm "$subsystem/allowed_hosts/$HOSTNQN"
rmdir "$host"
nvmet_clear
kernel_is_sound
note "weft's host on the kernel's target"
