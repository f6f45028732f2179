#!/bin/sh
# nvme-cli on the kernel's device, and weft's verbs of the same names on the same target: the outputs are compared field by field, for the kernel's
# target (Linux 7.2, which has reservations) and for weft's. What may differ is listed with each verb; any other difference fails.
# lab: files=weft modules=nvme-tcp,nvmet-tcp,null_blk pkgs=nvme-cli,jq,diffutils kernel=backports timeout=500
. /lab/lib.sh

# both COMMAND DEVICE [option]...: runs it with nvme-cli on the device and with weft on the URL that stands for it
both() {
    local verb=$1 device=$2 url=$URL
    shift 2
    [ "$device" = "$dev" ] || url=$URL/1
    status=0
    nvme "$verb" "$device" "$@" >/tmp/nvme.out 2>/tmp/nvme.err || status=$?
    got=0
    /lab/weft "$verb" "$url" "$@" >/tmp/weft.out 2>/tmp/weft.err || got=$?
    what="$TARGET: $verb $*"
    compared=$((compared + 1))
}
differ() { cat /tmp/nvme.err /tmp/weft.err; diff /tmp/nvme.is /tmp/weft.is || :; fail "$what differs"; }
same() { cmp -s /tmp/nvme.is /tmp/weft.is || differ; }
# Exit status: 0 or not; weft's says more.
succeeded() { [ "$status $got" = "0 0" ] || { cat /tmp/nvme.err /tmp/weft.err; fail "$what: $status and $got"; }; }
# json EXPRESSION VERB...: both print the same JSON, with the keys in the same order, but for spaces, after sed's expression
json() {
    local hide=$1
    shift
    both "$@" -o json
    succeeded
    tr -d ' \n' </tmp/nvme.out | sed -E "$hide" >/tmp/nvme.is
    tr -d ' \n' </tmp/weft.out | sed -E "$hide" >/tmp/weft.is
    same
}
# text EXPRESSION VERB...: both print the same text after sed's expression
text() {
    local hide=$1
    shift
    both "$@"
    succeeded
    sed -E "$hide" /tmp/nvme.out >/tmp/nvme.is
    sed -E "$hide" /tmp/weft.out >/tmp/weft.is
    same
}
# raw VERB...: both print the same bytes
raw() {
    both "$@"
    succeeded
    cp /tmp/nvme.out /tmp/nvme.is
    cp /tmp/weft.out /tmp/weft.is
    same
}
# The status that a message names, with More and Do Not Retry
code() { grep -oE '\(0x[0-9a-f]+\)' "$1" | head -n 1; }
# refused VERB...: both fail with the same status of NVMe
refused() {
    both "$@"
    [ "$status" != 0 ] && [ "$got" != 0 ] || fail "$what: $status and $got"
    code /tmp/nvme.err >/tmp/nvme.is
    code /tmp/weft.err >/tmp/weft.is
    same
}

sequence() {
    local id feature
    URL=nvme+tcp://$ADDR:$PORT/$NQN
    connect
    dev=/dev/$ctrl
    # what may differ everywhere: the name of the device, where weft prints the URL
    name="s#$ctrl|nvme.tcp://$ADDR:$PORT/$NQN##"

    # SMART: weft's own connection counts no error, and reads nothing; the times are the target's
    json 's/"(num_err_log_entries|host_read_commands|data_units_read|power_on_hours)":"[0-9]+",//g' smart-log $dev
    text "$name;/^(num_err_log_entries|host_read_commands|Data Units Read|power_on_hours)/d" smart-log $dev
    # The errors are those of a controller, of which each connection has its own: only their form is compared
    json 's/:[0-9]+//g' error-log $dev -e 3
    text "$name;/^(error_count|sqid|cmdid|status_field|parm_err_loc|lba|nsid)/s/:.*//" error-log $dev -e 3
    json "$name" ana-log $dev
    text "$name" ana-log $dev -g
    # nvme-cli 2.3 does not know the names of later commands, nor that of Fabrics commands
    json 's/(ACS_56|ACS_127)\([A-Za-z-]*\)/\1/g' effects-log $dev -c 0
    text '/^(ACS56|ACS127) /s/\[.*\]//' effects-log $dev -c 0 -H
    json "$name;$name" changed-ns-list-log $dev
    # nvme-cli 2.3 does not know the names of later log pages (and aborts at -o json)
    text "$name;/^LID 0x1/s/\(.*\)//" supported-log-pages $dev
    raw supported-log-pages $dev -o binary
    raw get-log $dev -i 5 -l 4096 -b
    text "$name" get-log $dev --log-id=0 --log-len=1024
    refused get-log $dev --log-id=0x7e --log-len=64
    refused telemetry-log $dev --output-file=/tmp/telemetry
    note "$TARGET: log pages"

    # weft's host wants other events than the kernel's, and fewer queues
    events="/Notices|Warnings|NCQA|NSQA/s/: .*//;/^get-feature:0x0[7b]/s/value.*//"
    for feature in 1 2 4 5 6 7 0xa 0xb 0xf 0x16 0x19 0x81 0x82 0x83 0x84; do
        nvme get-feature "$disk" -f $feature -H 2>/dev/null || :
    done | sed -E "$events" >/tmp/nvme.is
    what="$TARGET: get-feature -H of all features"
    /lab/weft get-feature $URL/1 -H 2>/tmp/weft.err | sed -E "$events" >/tmp/weft.is
    same
    text "" get-feature $dev -f 0x81 -c 1
    raw get-feature $dev -f 0x81 -c 1 -b
    # weft answers with the current value, which differs by host; its bits are shown as capabilities
    text "/^get-feature:0x07/s/value.*//;/^ *Feature is /d" get-feature $dev -f 7 -s 3
    refused get-feature $dev -f 0x81
    refused get-feature $dev -f 0x7b
    # An event of the controller, which has no effect on weft's next connection
    text "" set-feature $dev -f 0xb --value=0x900
    refused set-feature $dev -f 0x7b --value=1
    note "$TARGET: features"

    # nvme-cli 2.3 reads what fabrics lack, and prints memory that it has freed: its get-property tells the same
    /lab/weft show-regs "$URL" >/tmp/regs || fail "show-regs"
    /lab/weft show-regs "$URL" -H >/tmp/regs.explained || fail "show-regs -H"
    for id in cap:0 version:8 cc:0x14 csts:0x1c; do
        # CC is what a host has written: the kernel's selects all command sets
        if [ $id != cc:0x14 ]; then
            expect "$TARGET: ${id%:*}" "$(sed -n "s/^${id%:*} *: //p" /tmp/regs)" "$(nvme get-property $dev --offset="${id#*:}" | sed 's/.*: //')"
        fi
        nvme get-property $dev --offset="${id#*:}" -H | sed '1d;/^$/d;/(CSS)/d' >/tmp/nvme.is
        awk -v of="${id%:*}" '/^[a-z]/ { on = ($1 == of); next } on && NF && !/\(CSS\)/' /tmp/regs.explained >/tmp/weft.is
        what="$TARGET: show-regs -H, ${id%:*}"
        same
    done
    /lab/weft show-regs "$URL" -o json >/tmp/json
    satisfies /tmp/json '.intms == -1 and .asq == 18446744073709551615 and .csts == 1 and (keys | length) == 25'
    note "$TARGET: properties"

    # it is the same host, which may do everything twice
    text "" resv-register "$disk" --rrega=0 --nrkey=0xa
    text "" resv-acquire "$disk" --racqa=0 --rtype=1 --crkey=0xa
    text "" resv-report "$disk" --eds
    json "" resv-report "$disk" --eds
    raw resv-report "$disk" --eds -b
    raw resv-report "$disk" -e -o binary -d 31
    refused resv-report "$disk"
    refused resv-acquire "$disk" --racqa=0 --rtype=2 --crkey=0xb
    text "" resv-release "$disk" --rrela=0 --rtype=1 --crkey=0xa
    /lab/weft resv-register $URL/1 --rrega=1 --crkey=0xa >/dev/null || fail "$TARGET: weft resv-register --rrega=1"
    expect "$TARGET: registrants" "$(nvme resv-report "$disk" --eds | sed -n 's/^regctl *: //p')" 0
    note "$TARGET: reservations"

    # The controller has another identifier (CNTLID) and number (CIRN); addresses of memory are nobody's
    text '/^(0040|0080):/d' admin-passthru $dev --opcode=0x06 --cdw10=1 --data-len=4096 -r
    raw admin-passthru $dev -o 6 -4 2 -l 4096 -r -b
    text '/^addr/d' admin-passthru $dev --opcode=0x0a --cdw10=0xf -s
    grep -qx "Admin Command Get Features is Success and result: $(printf '0x%08x' "$(sed 's/.*: //' /tmp/nvme.err)")" /tmp/weft.err || differ
    text '/^addr/d' admin-passthru $dev --opcode=0x0a --cdw10=7 --dry-run
    text '/^(addr|metadata) /d' admin-passthru $dev --opcode=0x0a --cdw10=7 -m 8 --dry-run
    refused admin-passthru $dev --opcode=0x14
    refused admin-passthru $dev --opcode=0x06 --cdw10=0x77 --data-len=4096 -r
    note "$TARGET: passthrough"

    # weft's message is nvme-cli's, too
    text "" write "$disk" -s 0 -c 0 -z 4096 -d /tmp/data
    cmp /tmp/nvme.err /tmp/weft.err || fail "$what: other words"
    /lab/weft write $URL/1 -s 1 -c 1 -z 8192 -d /tmp/two 2>/dev/null || fail "$TARGET: weft write of two blocks"
    if /lab/weft write $URL/1 -s 1 -c 1 -z 8192 -d /tmp/data 2>/tmp/said; then fail "$TARGET: weft wrote more than it had"; fi
    grep -q "4096 bytes of 8192" /tmp/said || { cat /tmp/said; fail "$TARGET: another reason"; }
    raw read "$disk" -s 1 -c 0 -z 4096
    cmp /tmp/weft.out /tmp/data || fail "$what: not what was written"
    raw read "$disk" -s 2 -c 0 -z 4096
    raw read "$disk" -s 3 -c 0 -z 4096
    refused read "$disk" -s 99999999 -c 0 -z 4096
    # Fields of protection information go through to a namespace without it, metadata do not
    protect="-p 7 -r 0x10 -a 0x21 -m 0x32"
    # nvme-cli 2.3 closes standard output with what it has printed there unless data go to a file
    text '/^(addr|metadata) /d' read "$disk" -s 1 -c 0 -z 4096 -d /dev/null $protect -T 1 -S 2 -D 3 -l -f --dry-run
    text '/^(addr|metadata) /d' read "$disk" -s 1 -c 0 -z 4096 -d /dev/null $protect --show-command
    cmp /tmp/nvme.err /tmp/weft.err || fail "$what: other words"
    # nvme-cli takes the bytes of data for an error there
    both write "$disk" -s 1 -c 0 -z 4096 -d /tmp/two -p 8 --dry-run
    expect "$what: status" "$status $got" "1 0"
    sed -E '/^(addr|metadata) /d' /tmp/nvme.out >/tmp/nvme.is
    sed -E '/^(addr|metadata) /d' /tmp/weft.out >/tmp/weft.is
    same
    both read "$disk" -s 1 -c 0 -z 4096 -y 64 -M /tmp/metadata
    [ "$status" != 0 ] && [ "$got" = 10 ] || fail "$what: $status and $got"
    grep -q "namespace 1 has no metadata" /tmp/weft.err || { cat /tmp/weft.err; fail "$what: another reason"; }
    text "" io-passthru "$disk" --opcode=2 --namespace-id=1 --data-len=4096 --read --cdw10=1
    cmp /tmp/nvme.err /tmp/weft.err || fail "$what: other words"
    # nvmet has neither Compare nor Verify
    if [ $TARGET = weft ]; then
        text "" compare "$disk" -s 1 -c 0 -z 4096 -d /tmp/data
        refused compare "$disk" -s 2 -c 0 -z 4096 -d /tmp/data
    else
        refused compare "$disk" -s 1 -c 0 -z 4096 -d /tmp/data
        refused verify "$disk" -s 0 -c 0
    fi
    # Copy, which nvmet lacks: blocks 1 and 2 to 8 and 9, in two ranges; then by weft's commands, too, from another namespace
    if [ $TARGET = weft ]; then
        nvme copy "$disk" --sdlba=8 --slbs=1,2 --blocks=0,0 >/tmp/said 2>&1 || { cat /tmp/said; fail "nvme copy"; }
        for block in 1 2; do
            nvme read "$disk" -s $block -c 0 -z 4096 -d /tmp/from >/dev/null 2>&1 || fail "nvme read"
            nvme read "$disk" -s $((block + 7)) -c 0 -z 4096 -d /tmp/copied >/dev/null 2>&1 || fail "nvme read of a copy"
            cmp /tmp/from /tmp/copied || fail "block $block was not copied"
        done
        grep -q '[^ ]' /tmp/copied && [ "$(tr -d '\0' </tmp/copied | wc -c)" = 4096 ] || fail "nothing was copied"
        for wrong in "--sdlba=1 --slbs=0 --blocks=3" "--sdlba=99999999 --slbs=0 --blocks=0"; do
            if nvme copy "$disk" $wrong >/tmp/said 2>&1; then fail "nvme copy $wrong"; fi
        done
        # Format 2h, which nvme-cli 2.3 does not know: two blocks from 1 of namespace 1, refused as Host Behavior Support (CDFE) has to enable it,
        # which Linux lets nobody do
        printf '\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >/tmp/range
        across="--opcode=0x19 --namespace-id=2 --data-len=32 --write -i /tmp/range --cdw10=4 --cdw12=0x200"
        if nvme io-passthru "$(nvme_disk 2)" $across >/tmp/said 2>&1; then fail "format 2h without CDFE"; fi
        grep -qi "invalid field" /tmp/said || { cat /tmp/said; fail "format 2h without CDFE: another error"; }
        { printf '\0\0\0\0\4'; head -c 507 /dev/zero; } >/tmp/behavior
        if nvme set-feature $dev -f 0x16 -l 512 -d /tmp/behavior >/tmp/said 2>&1; then fail "Linux enables format 2h by now: copy across namespaces here"; fi
        grep -q "Permission denied" /tmp/said || { cat /tmp/said; fail "set-feature 0x16: another error"; }
        note "$TARGET: nvme copy within a namespace"
    fi
    text "" write-zeroes "$disk" -s 1 -c 0 $protect
    text "" dsm "$disk" --ad -s 1,3 -b 1,1
    text "" flush "$disk"
    # What is recognised is not overwritten, whatever nvme-cli does
    printf XFSB >/tmp/xfs
    nvme write "$disk" -s 0 -c 0 -z 4096 -d /tmp/xfs 2>/dev/null || fail "nvme write"
    for verb in "write -z 4096 -d /tmp/data" write-zeroes "dsm --ad -s 0 -b 1" "io-passthru -o 1 -l 4096 -i /tmp/data"; do
        got=0
        /lab/weft $verb $URL/1 >/tmp/said 2>&1 || got=$?
        expect "$TARGET: weft $verb on XFS" $got 5
        grep -q "holds an XFS file system; give --destroy-data" /tmp/said || { cat /tmp/said; fail "$verb: another reason"; }
    done
    /lab/weft write-zeroes $URL/1 --destroy-data >/dev/null || fail "$TARGET: --destroy-data"
    note "$TARGET: blocks"

    # A connection of weft beside the kernel's: the same keys, and the same columns but for those of nodes
    /lab/weft connect $URL/1 --serve-only --name same >/tmp/said 2>&1 || { cat /tmp/said; fail "$TARGET: weft connect"; }
    keys='[.NameSpace, .Firmware, .ModelNumber, .SerialNumber, .UsedBytes, .MaximumLBA, .PhysicalSize, .SectorSize]'
    what="$TARGET: list -o json"
    nvme list -o json | jq -c ".Devices[] | select(.DevicePath == \"$disk\") | $keys" >/tmp/nvme.is
    /lab/weft list -o json | jq -c ".Devices[] | $keys" >/tmp/weft.is
    same
    what="$TARGET: list"
    nvme list | grep "^$disk " | tr -s ' ' | sed -E 's/^[^ ]+ [^ ]+ //;s/ $//' >/tmp/nvme.is
    /lab/weft list >/tmp/list || fail "weft list"
    sed 1,2d /tmp/list | tr -s ' ' | sed -E 's/^[^ ]+ [^ ]+ //;s/ same nvme.*//' >/tmp/weft.is
    same
    for part in Node Generic SN Model Namespace Usage Format "FW Rev"; do
        head -n 1 /tmp/list | grep -q "$part " || fail "$what: no $part"
    done
    /lab/weft disconnect same >/dev/null || fail "$TARGET: weft disconnect"
    compared=$((compared + 2))
    note "$TARGET: list"
    disconnect
}

tr '\0' x </dev/zero | head -c 4096 >/tmp/data
{ cat /tmp/data; tr '\0' y </dev/zero | head -c 4096; } >/tmp/two
for TARGET in kernel weft; do
    compared=0
    if [ $TARGET = kernel ]; then RESERVATIONS=1 nvmet_start ram:16MiB; else target_start ram:16MiB,block=4096 ram:16MiB,block=4096; fi
    sequence
    note "$TARGET: $compared outputs are the same"
    if [ $TARGET = kernel ]; then nvmet_clear; else target_stop; fi
done
kernel_is_sound
