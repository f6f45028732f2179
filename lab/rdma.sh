# Helpers of the guest's scripts for NVMe over RDMA, on top of those of lib.sh: `. /lab/lib.sh; . /lab/rdma.sh`. POSIX sh.
#
# The device is a soft one (RoCE v2, rdma_rxe) on a network interface of its own. Both ends are on this machine.

TRANSPORT=rdma
ADDR=192.168.7.1

[ -e /sys/class/net/dum0 ] || ip link add dum0 type dummy
ip addr replace $ADDR/24 dev dum0
ip link set dum0 up
rdma link show | grep -q rxe0 || rdma link add rxe0 type rxe netdev dum0
