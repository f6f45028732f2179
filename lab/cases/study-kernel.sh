#!/bin/sh
# `weft study --peers kernel`: nvmet, LIO, nvme-tcp, open-iscsi and nbd-client are lanes of the suite `null` with few jobs, and of a file. Afterwards nothing is left of
# them, also if the study is killed, and modules that it loaded are gone. What nvmet, LIO or open-iscsi serve already is left alone.
# lab: long files=weft,../iscsi.sh mem=1024 timeout=600
# lab: modules=nvmet-tcp,nvme-tcp,iscsi_target_mod,target_core_iblock,target_core_file,iscsi_tcp,sd_mod,null_blk,nbd,ublk_drv,crc32c_generic
# lab: pkgs=jq,open-iscsi,nbd-client,procps
. /lab/lib.sh
. /lab/iscsi.sh
[ "$TARGET" != kernel ] || skip "the study has both"
CONFIG=/sys/kernel/config

modules() { cut -d' ' -f1 /proc/modules | sort | tr '\n' ' '; }
# objects: what a study makes in the kernel, and its processes
objects() {
    local path
    for path in $CONFIG/nvmet/subsystems/* $CONFIG/nvmet/ports/* $CONFIG/nullb/weft* $CONFIG/target/iscsi $CONFIG/target/core/*_[0-9]* \
        /sys/class/nvme/* /sys/class/iscsi_session/* /sys/block/nbd*/pid /sys/block/ublkb* /etc/iscsi/nodes/*; do
        [ ! -e "$path" ] || echo "$path"
    done
    pgrep -f /lab/weft || :
}
is_clean() { [ -z "$(objects)" ] && [ "$(modules)" = "$before" ]; }
clean() { wait_for 60 is_clean || { objects; modules; fail "something is left after $1"; }; }
# study ARGUMENT...: writes /tmp/study
study() {
    /lab/weft study --suite /tmp/small.toml --quick --time-budget 3s --output-dir /tmp/study "$@" >/tmp/out 2>/tmp/said || { cat /tmp/out /tmp/said; fail "weft study $*"; }
    cat /tmp/out
}
# has LANE...: each lane has a row, and no row of it is empty
has() {
    local lane
    for lane; do
        satisfies /tmp/study/results.json "[.rows[] | select(.lane == \"$lane\")] | length > 0 and all(.[]; .iops > 0 and .latency.mean_ns > 0)"
    done
}

# The suite without its counts and with few jobs: the machine is emulated.
/lab/weft study --suite null --print | sed 's/jobs = 256/jobs = 8/; s/256jobs/8jobs/; s/count = true/count = false/' >/tmp/small.toml
# the study loads them; the daemon of open-iscsi needs its own
for module in nvmet_tcp nvme_tcp nvmet nvme_fabrics nvme_core iscsi_target_mod target_core_iblock target_core_file target_core_mod null_blk nbd ublk_drv; do
    rmmod $module 2>/dev/null || :
done
before=$(modules)
for module in nvmet nvme_tcp target_core_mod null_blk nbd ublk_drv; do
    case " $before " in *" $module "*) fail "$module is still loaded" ;; esac
done
iscsid_start
clean "the start"

study --peers kernel --lanes iscsi,nvme+tcp,nbd --source null:64MiB "$@"
has iscsi nvme+tcp nbd nvmet lio nvme+tcp-nvme-tcp nvmet-nvme-tcp iscsi-open-iscsi lio-open-iscsi nbd-nbd-client nvme+tcp-ublk nvmet-ublk
satisfies /tmp/study/results.json '[.lanes[] | select(.name == "nvmet")][0].setup | any(startswith("mkdir /sys/kernel/config/nvmet/subsystems/"))'
clean "a study"
note "a null device"

head -c 16m /dev/zero >/tmp/disk
study --peers nvmet,lio,nvme-tcp --lanes nvme+tcp --source file:/tmp/disk,direct=off "$@"
has nvmet lio nvmet-nvme-tcp nvme+tcp-nvme-tcp
clean "a study of a file"
note "a file"

# killed, it leaves nothing behind
/lab/weft study --suite /tmp/small.toml --peers kernel --source ram:32MiB --time-budget 200s --output-dir /tmp/study >/tmp/out 2>&1 &
study=$!
attached_twice() { [ "$(ls /sys/class/nvme | wc -l)" -ge 2 ] && [ "$(ls /sys/class/iscsi_session | wc -l)" -ge 2 ]; }
wait_for 60 attached_twice || { cat /tmp/out; fail "the study attaches nothing"; }
kill -9 $study
wait $study || :
clean "a killed study"
note "killed"

# what is there already stays as it is
modprobe nvmet
mkdir $NVMET/subsystems/theirs
refuses /lab/weft study --suite null --quick --peers kernel --source null:64MiB
grep -q 'nvmet is in use, it has subsystems/theirs' /tmp/said || { cat /tmp/said; fail "nvmet"; }
[ -d $NVMET/subsystems/theirs ] || fail "the subsystem is gone"
rmdir $NVMET/subsystems/theirs
modprobe iscsi_target_mod
mkdir -p $CONFIG/target/iscsi/$IQN
refuses /lab/weft study --suite null --quick --peers nvmet,lio --source null:64MiB
grep -q "LIO is in use, it has the target $IQN" /tmp/said || { cat /tmp/said; fail "LIO"; }
[ -d $CONFIG/target/iscsi/$IQN ] || fail "the target is gone"
rmdir $CONFIG/target/iscsi/$IQN $CONFIG/target/iscsi
iscsi_start ram:16MiB
discover
login
refuses /lab/weft study --suite null --quick --peers open-iscsi --source null:64MiB
grep -q "to $ADDR already" /tmp/said || { cat /tmp/said; fail "open-iscsi"; }
is_logged_in || fail "the session is gone"
logout
iscsi_stop
kernel_is_sound
