#!/bin/sh
# Boots with systemd and weft as its package for Debian installs it: weft-connections.service has the disk of a target in the network before an fstab entry
# with _netdev is mounted, and the machine goes off in order, twice; restarts and an upgrade below the mounted disk; weft.service by weft.socket; the package is removed and purged.
# lab: init=systemd net=1 files=weft,weft.deb modules=ublk_drv,ext4 pkgs=systemd,udev,mount,util-linux,e2fsprogs,jq,dpkg,tar timeout=600 mem=768
. /lab/lib.sh
uuid=0b007ab0-0000-4000-8000-000000000001
nqn=nqn.2026-01.example.weft:boot
kept=/var/lib/lab
mkdir -p $kept
stage=$(cat $kept/stage 2>/dev/null || echo 1)

property() { systemctl show -P "$2" "$1"; }
# journal OPTION...: what systemd and weft said
journal() { journalctl --no-pager -o short-monotonic "$@"; }
gives_up() { systemctl status --no-pager -l "$1" || :; journal -b -n 60; fail "$2"; }
is_mounted() { grep -q '^/dev/ublkb0 /data ext4 rw' /proc/mounts; }
held() { weft list -o json | jq -r "$1"; }
is_connected() { [ "$(held '.Connections[0].State')" = connected ]; }
# all_runs: systemd is done with starting, and nothing has failed
all_runs() {
    expect "the system" "$(systemctl is-system-running --wait || systemctl --failed --no-legend --plain)" running
    kernel_is_calm
    if dmesg | grep 'EXT4-fs.*recovery'; then fail "a file system was not unmounted in order"; fi
}
# writes NAME: 4 MiB, which nothing but the unmounting writes back
writes() {
    head -c 4m /dev/urandom >/data/"$1"
    (cd /data && sha256sum "$1") >$kept/"$1".sum
}

# package OPTION: dpkg, on a system that was not made by it
package() { dpkg --force-depends,bad-path "$@" >/tmp/dpkg 2>&1 || { cat /tmp/dpkg; return 1; }; }
install() {
    mkdir -p /var/lib/dpkg/info /var/lib/dpkg/updates /var/lib/dpkg/triggers /data
    : >>/var/lib/dpkg/status
    package -i /lab/weft.deb || fail "the package is not installed"
    expect "weft.service after the installation" "$(property weft.service ActiveState)" inactive
    cat >/etc/weft/weft.toml <<-EOF
	listen = ["nvme+tcp://0.0.0.0:4420"]
	[[subsystem]]
	nqn = "$nqn"
	[[subsystem.namespace]]
	nsid = 1
	source = "file:/var/lib/weft-server/disk,size=16MiB"
	EOF
    systemctl daemon-reload
    systemctl enable --now weft-connections >/dev/null 2>&1 || gives_up weft-connections "weft-connections does not start"
    note "installed"
}

connect_disk() {
    weft connect nvme+tcp://10.0.2.2:"$LAB_PORT"/$NQN --as ublk --persist >/tmp/said 2>&1 || { cat /tmp/said; gives_up weft-connections "weft connect"; }
    # udev sees what is written to a disk when it is done with the disk itself
    udevadm settle
    mkfs.ext4 -q -U $uuid /dev/ublkb0
    wait_for 30 test -b /dev/disk/by-uuid/$uuid || { udevadm info /dev/ublkb0; fail "the disk has no name by its UUID"; }
    echo "UUID=$uuid /data ext4 _netdev 0 2" >>/etc/fstab
    systemctl daemon-reload
    systemctl start data.mount || gives_up data.mount "/data is not mounted"
    writes one
    note "connected"
}

# below_the_disk COMMAND...: the daemon becomes another one, and neither the disk nor its file system notices
below_the_disk() {
    local daemon=$(property weft-connections MainPID) server=$(held '.Devices[0].Pid') mounted=$(property data.mount ActiveEnterTimestampMonotonic)
    "$@"
    other() { [ "$(property weft-connections MainPID)" != "$daemon" ] && [ "$(property weft-connections ActiveState)" = active ]; }
    wait_for 90 other || gives_up weft-connections "no other daemon"
    wait_for 30 is_connected || { weft list; gives_up weft-connections "the new daemon does not hold the disk"; }
    expect "the process of the disk" "$(held '.Devices[0].Pid')" "$server"
    expect "the mount" "$(property data.mount ActiveEnterTimestampMonotonic)" "$mounted"
    is_mounted || fail "/data is not mounted any more"
    dd if=/dev/zero of=/data/probe bs=64k count=1 conv=fsync 2>/dev/null || fail "/data cannot be written"
    note "another daemon: $*"
}
# stopped_daemon: systemd's watchdog has to find it
stopped_daemon() { kill -STOP "$(property weft-connections MainPID)"; }

# by_the_socket: nobody has started weft.service, and a host connects
by_the_socket() {
    systemctl enable weft.service >/dev/null 2>&1
    systemctl enable --now weft.socket >/dev/null 2>&1 || gives_up weft.socket "weft.socket"
    expect "weft.service without a host" "$(property weft.service ActiveState)" inactive
    weft id-ns --connect-timeout 60s nvme+tcp://127.0.0.1:4420/$nqn/1 >/tmp/said 2>&1 || { cat /tmp/said; gives_up weft.service "no answer at the socket"; }
    expect "weft.service with a host" "$(property weft.service ActiveState)" active
    note "socket"
}
# are_watched: they tell systemd when they are there, and that they live
are_watched() {
    local unit first_server=$(alive weft) first_daemon=$(alive weft-connections)
    for unit in weft weft-connections; do
        expect "the type of $unit" "$(property $unit Type)" notify
        expect "the watchdog of $unit" "$(property $unit WatchdogUSec)" 30s
    done
    both_told() { [ "$(alive weft)" -gt "$first_server" ] && [ "$(alive weft-connections)" -gt "$first_daemon" ]; }
    wait_for 40 both_told || gives_up "weft*" "they do not tell systemd that they live"
    note "watched"
}
# alive UNIT: when it said so for the last time
alive() { property "$1" WatchdogTimestampMonotonic; }

# booted: what is to be there after a boot, and nobody had a hand in it
booted() {
    is_mounted || { journal -b -u weft-connections -u data.mount; gives_up data.mount "/data is not mounted"; }
    all_runs
    local connections=$(property weft-connections ActiveEnterTimestampMonotonic) mounting=$(property data.mount InactiveExitTimestampMonotonic)
    local mounted=$(property data.mount ActiveEnterTimestampMonotonic) remote=$(property remote-fs.target ActiveEnterTimestampMonotonic)
    [ "$connections" -le "$mounting" ] && [ "$mounted" -le "$remote" ] \
        || fail "not in order: weft-connections $connections, mounting $mounting, mounted $mounted, remote-fs.target $remote"
    journal -b -u "systemd-fsck@*" | grep -q '/dev/ublkb0: clean' || { journal -b -u "systemd-fsck@*"; fail "it was not checked, or not clean"; }
    is_connected || { weft list; fail "the disk is not connected"; }
    (cd /data && sha256sum -c -s $kept/*.sum) || fail "data is lost"
    expect "weft.service" "$(property weft.service ActiveState)" active
    note "booted: weft-connections after $((connections / 1000)) ms, mounted after $((mounted / 1000)) ms, remote-fs.target after $((remote / 1000)) ms"
}
# went_off: what the boot before said when it ended
went_off() {
    journal -b -1 _PID=1 | awk '/Stopping lab.service/ { ends = 1 } ends' >/tmp/ended
    awk '
        /Unmounted data.mount/ && !step { step = 1 }
        /Stopped weft-connections.service/ && step == 1 { step = 2 }
        /Stopped systemd-networkd.service/ && step == 2 { step = 3 }
        END { exit step != 3 }' /tmp/ended || { cat /tmp/ended; fail "not stopped in order"; }
    # what systemd mounts for units of its own may be gone before it unmounts it
    if grep -E 'Failed|failed|imed out|left-over|remains running' /tmp/ended | grep -v 'run-credentials.*Mount disappeared' >/tmp/failed; then
        journal -b -1 -n 80
        cat /tmp/failed
        fail "something failed when the machine went off"
    fi
    note "went off in order"
}

# gone: the package goes, but not while a disk is mounted
gone() {
    if package -r weft; then fail "removed below a mounted disk"; fi
    is_mounted || fail "/data is not mounted after a removal that was refused"
    systemctl stop data.mount
    package -r weft || fail "the package is not removed"
    for path in /usr/bin/weft /usr/lib/systemd/system/weft.service /dev/ublkb0; do
        [ ! -e $path ] || fail "$path is left"
    done
    [ -e /etc/weft/weft.toml ] || fail "the configuration went without being purged"
    package -P weft || fail "the package is not purged"
    for path in /etc/weft /var/lib/weft /var/lib/weft-server/subsysnqn; do
        [ ! -e $path ] || { ls -lR $path; fail "$path is left"; }
    done
    [ -s /var/lib/weft-server/disk ] || fail "a served image is gone"
    note "removed and purged"
}

case $stage in
1)
    install
    connect_disk
    below_the_disk package -i /lab/weft.deb
    by_the_socket
    all_runs
    echo 2 >$kept/stage
    power_off
    ;;
2)
    went_off
    booted
    are_watched
    systemd-analyze security --no-pager --threshold=29 weft.service >/tmp/security || { cat /tmp/security; fail "weft.service is exposed"; }
    note "$(tail -n 1 /tmp/security)"
    below_the_disk stopped_daemon
    writes two
    echo 3 >$kept/stage
    power_off
    ;;
3)
    went_off
    booted
    gone
    ;;
esac
