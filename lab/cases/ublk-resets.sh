#!/bin/sh
# A disk by ublk under verified load while the controllers behind it are reset over and over: nvmet loses and regains its port; a weft target
# is killed, ends in order, and pauses for longer than the host waits. The disk stays, no operation fails, no block differs.
# lab: files=weft,../resets.sh modules=ublk_drv,nvmet-tcp,null_blk pkgs=fio,jq timeout=300 mem=768
. /lab/lib.sh
. /lab/resets.sh
[ -c /dev/ublk-control ] || skip "no ublk driver"
ROUNDS=${ROUNDS:-1}
url=nvme+tcp://$ADDR:$PORT/$NQN/1 AS=ublk OPTIONS=
nvmet_start ram:32MiB
host_start 2
for i in $(seq $ROUNDS); do reset "return $i of the port" replug; done
host_stop "nvmet's port came and went"
nvmet_clear

serve
host_start 2
for i in $(seq $ROUNDS); do
    reset "death $i of the target" killed
    reset "end $i of the target" restarted
    reset "pause $i of the target" paused
done
host_stop "a weft target was killed, ended and paused"
target_stop
kernel_is_sound
