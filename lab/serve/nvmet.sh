#!/bin/sh
# The kernel's target (nvmet) for programs outside of the virtual machine. Ends when a file `stop` appears in the share.
# lab: modules=nvmet-tcp net=1 timeout=300
. /lab/lib.sh
ADDR=0.0.0.0
nvmet_start ram:32MiB
echo $NQN >/lab/share/ready
wait_for 280 test -e /lab/share/stop || fail "nobody asked for the end"
kernel_is_calm
