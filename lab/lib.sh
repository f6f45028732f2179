# Helpers of the guest's scripts: `. /lab/lib.sh` first. POSIX sh.
#
# The target is weft's, or with TARGET=kernel in the environment the kernel's own (nvmet): a case
# that fails on both is wrong itself.
set -eu
# before the real ones
PATH=/lab/bin:$PATH

TARGET=${TARGET:-weft}
TRANSPORT=tcp
ADDR=127.0.0.1
PORT=4420
NQN=nqn.2014-08.org.nvmexpress:uuid:6e1cb2c2-0c86-4ee2-a5b5-0c2f0a6a9f01
HOSTNQN=nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
HOSTID=11111111-2222-3333-4444-555555555555
NVMET=/sys/kernel/config/nvmet
mkdir -p /etc/nvme
echo $HOSTNQN >/etc/nvme/hostnqn
echo $HOSTID >/etc/nvme/hostid

note() { echo "[$(cut -d' ' -f1 /proc/uptime)] $*"; }
skip() { note "SKIP: $*"; exit 77; }
fail() {
    explained=1
    note "FAIL: $*"
    [ ! -s /tmp/target.log ] || { echo "--- the target's log"; tail -n 15 /tmp/target.log; }
    echo "--- the kernel's log"
    dmesg | tail -n 15
    exit 1
}
explained=
# ended STATUS: a case that ends by a command that nobody asked about (set -e), or by a signal, says so, too
ended() {
    case $1 in 0 | 77) return ;; esac
    [ -n "$explained" ] || fail "a command ended with status $1, or a signal ended the case"
}
trap 'ended $?' EXIT
trap 'exit 143' TERM
# expect WHAT GOT WANTED
expect() { [ "$2" = "$3" ] || fail "$1 is '$2' and not '$3'"; }
# refuses COMMAND...: it must fail; what it said is in /tmp/said
refuses() { if "$@" >/tmp/said 2>&1; then fail "this should have failed: $*"; fi; }
# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
    local left=$(($1 * 20)); shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || { note "gave up waiting for: $*"; return 1; }
        usleep 50000
    done
}
# power_off: with init=systemd; the host boots the machine again, and the case begins anew
power_off() {
    note "power off"
    cut -d' ' -f1 /proc/uptime >/run/lab-off
    # `systemctl poweroff` would ask logind first
    systemctl --no-block start poweroff.target
    sleep 600
}
# kernel_log: the kernel's log without a warning that is none of ours: the kernel ends an iSCSI session on a work queue meant for freeing memory, and
# waits there for one that is not.
kernel_log() {
    dmesg | awk '
        /cut here/ { block = 1; text = "" }
        { if (block) text = text $0 "\n"; else print }
        /end trace/ { if (!(text ~ /check_flush_dependency/ && text ~ /__iscsi_unbind_session/)) printf "%s", text; block = 0 }
        END { if (block) printf "%s", text }'
}
# kernel_is_sound: no warning, bug or oops in the kernel's log, for cases that break things on purpose.
kernel_is_sound() {
    if kernel_log | grep -E 'WARNING|BUG|Call Trace'; then
        fail "the kernel complains"
    fi
}
# kernel_is_calm: no complaint in the kernel's log (call it where nothing was broken on purpose). A keep-alive
# that a disconnect overtakes is none.
kernel_is_calm() {
    if kernel_log | grep -v keep_alive_end_io | grep -E 'WARNING|BUG|Call Trace|I/O error|nvme nvme[0-9].*(timeout|error|fail)' >/tmp/complaints; then
        cat /tmp/complaints
        fail "the kernel complains"
    fi
}

# ---- the target

# target_start [--allow-host NQN]... SOURCE...: serves the sources as namespaces 1, 2, ... of $NQN
target_start() {
    if [ "$TARGET" = kernel ]; then nvmet_start "$@"; return; fi
    # what an earlier one said would pass for this one
    : >/tmp/target.log
    /lab/weft serve "$@" --listen nvme+$TRANSPORT://$ADDR:$PORT --nqn $NQN >/tmp/target.log 2>&1 &
    target_pid=$!
    wait_for 30 grep -q "^listening on nvme+$TRANSPORT://" /tmp/target.log || fail "weft serve does not listen"
}
# target_kill: at once, as by a power cut of the target alone
target_kill() {
    if [ "$TARGET" = kernel ]; then nvmet_stop; return; fi
    kill -9 $target_pid
    wait $target_pid || :
}
# target_stop: orderly; it must end with status 0
target_stop() {
    if [ "$TARGET" = kernel ]; then nvmet_stop; return; fi
    kill $target_pid
    wait $target_pid || fail "weft serve ended with status $?"
}
# target_runs: it is still the process that was started
target_runs() { [ "$TARGET" = kernel ] || kill -0 $target_pid || fail "weft serve is gone"; }
# file_source PATH BLOCK_SIZE: the source for a file that is there
file_source() { echo "file:$1,uuid=$(file_uuid "$1"),block=$2"; }
# file_uuid PATH: a UUID for a file. weft records none here, as no directory of the guest outlasts it, and would give another one at each start.
file_uuid() { echo "$1" | sha256sum | sed 's/^\(.\{8\}\)\(.\{4\}\).\(.\{3\}\).\(.\{3\}\)\(.\{12\}\).*/\1-\2-4\3-8\4-\5/'; }

# nvmet_start: target_start for the kernel's target; a source may also be a block device's path. With TSAS=tls1.3 its port demands TLS,
# with TREQ="not required" besides it takes it.
nvmet_start() {
    local s=$NVMET/subsystems/$NQN n=0
    modprobe nvmet-$TRANSPORT
    mkdir -p "$s"
    echo 1 >"$s/attr_allow_any_host"
    echo weftlab >"$s/attr_serial"
    while [ $# -gt 0 ]; do
        case $1 in
        --allow-host)
            shift
            mkdir -p "$NVMET/hosts/$1"
            echo 0 >"$s/attr_allow_any_host"
            ln -s "$NVMET/hosts/$1" "$s/allowed_hosts/$1"
            ;;
        *)
            n=$((n + 1))
            mkdir "$s/namespaces/$n"
            nvmet_backing "$1" $n >"$s/namespaces/$n/device_path"
            # a host gives up a namespace that comes back with another identity
            echo 00000000-0000-4000-8000-00000000000$n >"$s/namespaces/$n/device_uuid"
            echo 00000000-0000-4000-8000-00000000000$n >"$s/namespaces/$n/device_nguid"
            [ -z "${RESERVATIONS:-}" ] || echo 1 >"$s/namespaces/$n/resv_enable"
            echo 1 >"$s/namespaces/$n/enable"
            ;;
        esac
        shift
    done
    mkdir $NVMET/ports/1
    echo $TRANSPORT >$NVMET/ports/1/addr_trtype
    echo ipv4 >$NVMET/ports/1/addr_adrfam
    echo $ADDR >$NVMET/ports/1/addr_traddr
    echo $PORT >$NVMET/ports/1/addr_trsvcid
    [ -z "${TSAS:-}" ] || echo "$TSAS" >$NVMET/ports/1/addr_tsas
    [ -z "${TREQ:-}" ] || echo "$TREQ" >$NVMET/ports/1/addr_treq
    ln -s "$s" $NVMET/ports/1/subsystems/$NQN
}
# nvmet_backing SOURCE N: a block device for one of weft's sources (a file needs losetup of the package mount)
nvmet_backing() {
    local path=${1#file:} d=/sys/kernel/config/nullb/ram$2
    case $1 in
    ram:*)
        modprobe null_blk nr_devices=0
        if [ ! -d $d ]; then
            mkdir $d
            echo $(($(bytes "${1#ram:}") >> 20)) >$d/size
            for kv in blocksize=4096 memory_backed=1 discard=1 power=1; do echo ${kv#*=} >$d/${kv%=*}; done
        fi
        echo /dev/ram$2
        ;;
    file:*) losetup -b "${path##*,block=}" -f --show "${path%%,*}" ;;
    /dev/*) echo "$1" ;;
    *) fail "nvmet cannot serve $1" ;;
    esac
}
# null_disk NAME MIB MEMORY: /dev/NAME of the kernel, which keeps what is written (1) or nothing (0)
null_disk() {
    local d=/sys/kernel/config/nullb/$1 kv
    modprobe null_blk nr_devices=0
    mkdir "$d"
    for kv in size="$2" blocksize=4096 irqmode=0 memory_backed="$3" power=1; do echo "${kv#*=}" >"$d/${kv%=*}"; done
    [ -b /dev/"$1" ] || fail "there is no /dev/$1"
}
nvmet_stop() {
    local s=$NVMET/subsystems/$NQN d
    rm $NVMET/ports/1/subsystems/$NQN
    rmdir $NVMET/ports/1
    for d in "$s"/allowed_hosts/*; do [ ! -e "$d" ] || rm "$d"; done
    for d in "$s"/namespaces/*; do [ ! -e "$d" ] || rmdir "$d"; done
    rmdir "$s"
    if [ -e /sbin/losetup ]; then losetup -D; fi
}
# nvmet_clear: nvmet_stop, and its memory goes too
nvmet_clear() {
    local d
    nvmet_stop
    for d in /sys/kernel/config/nullb/ram*; do [ ! -e "$d" ] || { echo 0 >"$d/power"; rmdir "$d"; }; done
}
# bytes 64MiB: the number
bytes() {
    case $1 in
    *GiB) echo $((${1%GiB} << 30)) ;;
    *MiB) echo $((${1%MiB} << 20)) ;;
    *KiB) echo $((${1%KiB} << 10)) ;;
    *) echo "$1" ;;
    esac
}

# ---- the kernel's host

# connect [option of nvme connect]...: waits for namespace 1 and sets $disk and $ctrl
connect() {
    nvme connect -t $TRANSPORT -a $ADDR -s $PORT -n $NQN "$@" >/dev/null || fail "nvme connect $*"
    wait_for 30 nvme_disk 1 || fail "connected, but there is no disk"
    disk=$(nvme_disk 1)
    ctrl=$(nvme_ctrl)
}
disconnect() {
    nvme disconnect -n $NQN >/dev/null || fail "nvme disconnect"
    if nvme_disk 1; then fail "the disk is still there"; fi
}
# nvme_disk NSID: the block device of a namespace of $NQN, when it is there. The number in its name
# is not the NSID: the kernel counts namespaces as it finds them, several at a time.
nvme_disk() {
    local s d
    for s in /sys/class/nvme-subsystem/nvme-subsys*; do
        [ "$(cat "$s/subsysnqn" 2>/dev/null)" = $NQN ] || continue
        for d in "$s"/nvme*n*; do
            [ "$(cat "$d/nsid" 2>/dev/null)" = "$1" ] && [ -b "/dev/${d##*/}" ] && { echo "/dev/${d##*/}"; return 0; }
        done
    done
    return 1
}
# nvme_ctrl: the name of a controller of $NQN
nvme_ctrl() {
    local c
    for c in /sys/class/nvme/nvme*; do
        [ "$(cat "$c/subsysnqn" 2>/dev/null)" = $NQN ] && { echo "${c##*/}"; return 0; }
    done
    return 1
}
# is_live: the controller's state
is_live() { [ "$(cat /sys/class/nvme/"$ctrl"/state)" = live ]; }
# sys ATTRIBUTE: of the disk's queue
sys() { cat /sys/block/"${disk##*/}"/queue/"$1"; }

# ---- data

# fio_verify FILE SIZE [option of fio]...: writes every block once in random order, then reads and checks them
fio_verify() {
    local file=$1 size=$2
    shift 2
    fio --name=verify --filename="$file" --size="$size" --rw=randwrite --bs=4k --ioengine=libaio --iodepth=16 \
        --direct=1 --verify=crc32c --do_verify=1 --verify_fatal=1 --randrepeat=1 --output=/tmp/fio.out "$@" \
        || { cat /tmp/fio.out; fail "fio $file $*"; }
}
# fio_load [option of fio]...: writes to $disk in the background until fio_stop
fio_load() {
    written=$(fio_writes)
    fio --name=load --allow_file_create=0 --filename="$disk" --size=16m --rw=randwrite --bs=4k --ioengine=libaio --iodepth=8 \
        --direct=1 --rate_iops=600 --time_based --runtime=200 --output=/tmp/load.out "$@" &
    load_pid=$!
    wait_for 30 fio_wrote || fail "fio does not write"
}
fio_writes() { awk '{print $5}' "/sys/block/${disk##*/}/stat"; }
fio_wrote() { [ "$(fio_writes)" -gt $((written + 300)) ]; }
# fio_goes_on WHEN: hundreds of writes complete from now on
fio_goes_on() { written=$(fio_writes); wait_for 30 fio_wrote || fail "no I/O after $1"; }
# fio_stop WHAT: there was no error until now
fio_stop() {
    kill $load_pid
    wait $load_pid || :
    grep -q "err= 0:" /tmp/load.out || { cat /tmp/load.out; fail "fio saw errors: $1"; }
}
# zeroes FILE FIRST COUNT: these bytes read as zero (cmp of the package diffutils: busybox's is slow)
zeroes() { cmp -s -n "$3" "$1" /dev/zero "$2" 0; }
# uncached FILE: the next reads come from the device
uncached() { blockdev --flushbufs "$1"; echo 3 >/proc/sys/vm/drop_caches; }
# satisfies FILE EXPRESSION: jq's expression holds of the JSON in it (jq of this version takes nothing for yes)
satisfies() {
    [ -s "$1" ] && jq -e --arg nqn $NQN --arg port $PORT "$2" "$1" >/dev/null || { cat "$1"; fail "not $2"; }
}
