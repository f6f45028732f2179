# Helpers of the guest's scripts for NVMe over RDMA, on top of those of lib.sh: `. /lab/lib.sh; . /lab/rdma.sh`. POSIX sh.
#
# The device is a soft one on a network interface of its own: RoCE v2 (rdma_rxe), or iWARP where the kernel has it and the run loads its module
# (`lab run CASE --modules siw`). Both ends are on this machine.

TRANSPORT=rdma
ADDR=192.168.7.1

[ -e /sys/class/net/dum0 ] || ip link add dum0 type dummy
ip addr replace $ADDR/24 dev dum0
ip link set dum0 up
if [ -d /sys/module/siw ]; then RDMA_KIND=siw; else RDMA_KIND=rxe; fi
RDMA_DEVICE=${RDMA_KIND}0
rdma link show | grep -q $RDMA_DEVICE || rdma link add $RDMA_DEVICE type $RDMA_KIND netdev dum0
