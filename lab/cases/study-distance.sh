#!/bin/sh
# `weft study --suite distance --shape netem`: each far target is in a network namespace of its own, an operation takes at least its round trip, and nothing is left of the
# namespaces, interfaces and modules, also if the study is killed. Addresses that are in use are refused.
# lab: long files=weft mem=1024 timeout=300
# lab: modules=veth,sch_netem
# lab: pkgs=jq,iproute2,procps
. /lab/lib.sh
[ "$TARGET" != kernel ] || skip "the study has its own targets"

modules() { cut -d' ' -f1 /proc/modules | sort | tr '\n' ' '; }
objects() {
    ip netns list
    ip -o link show type veth
    pgrep -f /lab/weft || :
}
is_clean() { [ -z "$(objects)" ] && [ "$(modules)" = "$before" ]; }
clean() { wait_for 60 is_clean || { objects; modules; fail "something is left after $1"; }; }

rmmod sch_netem veth 2>/dev/null || :
before=$(modules)
case " $before " in *" veth "* | *" sch_netem "*) fail "the modules are still loaded" ;; esac

/lab/weft study --suite distance --shape netem --lanes local,nvme+tcp,nvme+tcp-1ms,iscsi-1ms --source ram:16MiB --quick --time-budget 10s --output-dir /tmp/study \
    >/tmp/out 2>/tmp/said || { cat /tmp/out /tmp/said; fail "weft study"; }
cat /tmp/out
for lane in nvme+tcp-1ms iscsi-1ms; do
    satisfies /tmp/study/results.json "[.rows[] | select(.lane == \"$lane\")] | length > 0 and all(.[]; .failed == 0 and .latency.p50_ns >= 990000)"
    satisfies /tmp/study/results.json "[.lanes[] | select(.name == \"$lane\")][0].setup | any(test(\"netem limit [0-9]+ delay 500us\")) and any(startswith(\"ip netns exec \"))"
done
satisfies /tmp/study/results.json '.notes | any(contains("netem"))'
satisfies /tmp/study/results.json '.notes | all(contains("relay") | not)'
clean "a study"
note "two protocols at 1 ms"

# killed, it leaves nothing behind
/lab/weft study --suite distance --shape netem --lanes nvme+tcp-1ms --source ram:16MiB --time-budget 200s --output-dir /tmp/study >/tmp/out 2>&1 &
study=$!
is_made() { ip -o link show type veth | grep -q . && [ "$(pgrep -f /lab/weft | wc -l)" -ge 3 ]; }
wait_for 60 is_made || { cat /tmp/out; fail "the study makes no network"; }
kill -9 $study
wait $study || :
clean "a killed study"
note "killed"

ip link add busy type dummy 2>/dev/null || ip link add busy type veth peer name other
ip address add 198.18.9.1/24 dev busy
refuses /lab/weft study --suite distance --shape netem --lanes nvme+tcp-1ms --source ram:16MiB --quick
grep -q '198.18.0.0/15, which it takes, are in use' /tmp/said || { cat /tmp/said; fail "the refusal of addresses"; }
ip link delete busy
kernel_is_sound
