#!/bin/sh
# What kernel TLS gives, beside TLS in user space and no TLS: weft on weft over loopback, in one run. The machine is emulated, and AES costs far more than on a real
# one, so only the order of the ratios means anything.
# usage: cargo xtask lab run lab/measure/tls.sh [-- SECONDS [ROUNDS]]
# lab: files=weft kernel=backports modules=tls,gcm,aesni-intel pkgs=openssl,jq mem=1024 timeout=600
. /lab/lib.sh
seconds=${1:-3} rounds=${2:-3}
rows=/tmp/rows
umask 077
/lab/weft gen-tls-key >/tmp/keys
tls="--tls --tls-key-file /tmp/keys"
run() { # what, options of both ends
    local what=$1 options=$2 job
    target_start $options --threads 1 ram:64MiB
    for job in 'randread 4k 1' 'randread 4k 32' 'randread 64k 32' 'randwrite 64k 32'; do
        measure "$what" "$options" $job
    done
    target_stop
}
measure() { # what, options, direction, size, depth
    local rate
    /lab/weft bench nvme+tcp://$ADDR:$PORT/$NQN $2 --rw="$3" --bs="$4" --iodepth="$5" --runtime="${seconds}s" --ramp_time=500ms \
        --nr-io-queues=1 --output-format=json >/tmp/report.json || fail "weft bench, $1"
    rate=$(jq '.jobs[0] | .read.iops + .write.iops | floor' /tmp/report.json)
    echo "$3-$4-$5 $1 $rate" >>$rows
    printf '%-10s %-4s depth %-3s %-12s %8d IOPS\n' "$3" "$4" "$5" "$1" "$rate"
}
# median JOB WHAT
median() { awk -v j="$1" -v w="$2" '$1 == j && $2 == w {print $3}' $rows | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }

for round in $(seq 1 "$rounds"); do
    run plain ''
    run user-space "$tls --no-kernel-tls"
    run kernel "$tls"
done
for job in $(cut -d ' ' -f 1 $rows | sort -u); do
    plain=$(median $job plain) user=$(median $job user-space) kernel=$(median $job kernel)
    echo "$job  plain $plain  user space $user  kernel $kernel  kernel/user space $(awk -v k="$kernel" -v u="$user" 'BEGIN {printf "%.2f", k / u}')"
done
