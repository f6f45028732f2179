#!/bin/sh
# sg3_utils on weft's iSCSI target: inquiry and its pages, capacity, mode pages, persistent reservations, discard, write zeroes, names that were set, and
# what the kernel makes of them.
# lab: files=weft,../iscsi.sh modules=iscsi_tcp,sd_mod,sg pkgs=open-iscsi,sg3-utils,fio,diffutils,util-linux timeout=240
. /lab/lib.sh
. /lab/iscsi.sh
image=/tmp/image
truncate -s 32M $image
iscsi_start "$(file_source $image 512)"
iscsid_start
discover
login
# says PATTERN COMMAND...: it succeeds, and its output has the pattern
says() {
    local pattern=$1
    shift
    "$@" >/tmp/said 2>&1 || { cat /tmp/said; fail "$*"; }
    grep -qiE -e "$pattern" /tmp/said || { cat /tmp/said; fail "$* does not say $pattern"; }
}

says 'Peripheral device type: disk' sg_inq "$disk"
for page in sv sn di ei bl bdc lbpv; do says . sg_vpd --page=$page "$disk"; done
says 'Unmap command supported \(LBPU\): 1' sg_vpd --page=lbpv "$disk"
says 'Number of logical blocks=65536' sg_readcap --long "$disk"
says 'Caching' sg_modes "$disk"
says '\(Lun list length = 8|report luns' sg_luns "$disk"
says 'Read\(10\)' sg_opcodes "$disk"
says 'asymmetric access state' sg_rtpg --decode "$disk"
sg_turs "$disk" || fail "sg_turs"
sg_sync "$disk" || fail "sg_sync"
sg_verify --lba=0 --count=64 "$disk" || fail "sg_verify"
note "asked"

pr() { sg_persist "$@" "$disk"; }
says 'there are NO registered' pr --in --read-keys
says . pr --out --register --param-sark=0xabc
says '0xabc' pr --in --read-keys
says . pr --out --reserve --param-rk=0xabc --prout-type=3
says 'Exclusive Access' pr --in --read-reservation
says "$INITIATOR" pr --in --read-full-status
refuses pr --out --release --param-rk=0xdef --prout-type=3
says . pr --out --release --param-rk=0xabc --prout-type=3
says . pr --out --clear --param-rk=0xabc
says 'there are NO registered' pr --in --read-keys
note "reserved and released"

# A registration outlives its session. The next login is another initiator port, as open-iscsi gives it another ISID.
says . pr --out --register --param-sark=0x77
logout
login
says '0x77' pr --in --read-keys
refuses pr --out --register --param-rk=0x77
says . pr --out --register-ignore --param-sark=0x78
says . pr --out --preempt --param-rk=0x78 --param-sark=0x77 --prout-type=1
# LIO tells of it to the initiator that did it, too
sg_turs "$disk" >/dev/null 2>&1 || :
says '1 registered reservation key' pr --in --read-keys
says . pr --out --clear --param-rk=0x78
note "registered across a login"

[ "$(sys discard_max_bytes)" -gt 0 ] || fail "the kernel sees no discard"
expect "the block size" "$(sys logical_block_size)" 512
fio_verify "$disk" 8m
head -c 32m /dev/urandom >/tmp/random
dd if=/tmp/random of="$disk" bs=1M oflag=direct status=none
blkdiscard -o 4194304 -l 1048576 "$disk" || fail "blkdiscard"
blkdiscard -z -o 8388608 -l 1048576 "$disk" || fail "blkdiscard -z"
uncached "$disk"
zeroes "$disk" 4194304 1048576 || fail "discarded blocks are not zero"
zeroes "$disk" 8388608 1048576 || fail "zeroed blocks are not zero"
cmp -n 4194304 /tmp/random "$disk" || fail "what is before the discard changed"
cmp -i 9437184 /tmp/random "$disk" || fail "what is behind changed"
sg_write_same --16 --lba=0 --num=8 --xferlen=512 --in=/dev/zero "$disk" || fail "sg_write_same"
uncached "$disk"
zeroes "$disk" 0 4096 || fail "WRITE SAME"
note "discarded and zeroed"

# A disk that had names at another target keeps them: what udev and multipath make theirs of.
if [ "$TARGET" = weft ]; then
    naa=60000000000000000e00000000010001
    /lab/weft namespace add null:16MiB --scsi-serial beaf11 --scsi-vendor IET --scsi-product VIRTUAL-DISK --scsi-naa $naa \
        --scsi-t10-id 'IET     00010001' >/tmp/said 2>&1 || { cat /tmp/said; fail "weft namespace add"; }
    iscsiadm -m session --rescan >/dev/null
    wait_for 30 scsi_disk 1 || fail "no disk that was added"
    moved=$(scsi_disk 1)
    says 'Vendor identification: IET' sg_inq "$moved"
    says 'Unit serial number: beaf11' sg_vpd --page=sn "$moved"
    says "0x$naa" sg_vpd --page=di "$moved"
    says '00010001' sg_vpd --page=di "$moved"
    expect "the kernel's name of it" "$(cat "/sys/block/${moved##*/}/device/wwid")" naa.$naa
    note "kept its names"
fi
logout
kernel_is_calm
[ "$TARGET" = kernel ] || iscsi_stop
