//! Over a RAM disk.

use super::*;
use crate::testing::{Rig, TestOp, TestPlan};
use crate::{OpKind, OpenOptions, Refusal, open};
use weft_base::lock::Lock;

const WRITE: OpKind = OpKind::Write { fua: false };

fn stats(inner: &str) -> Arc<StatsDevice> {
    let shared = Arc::new(DeviceStatistics {
        url: format!("stats:{inner}"),
        every: Duration::from_secs(1000),
        log: Lock::default(),
    });
    Arc::new(StatsDevice { inner: open(inner, &OpenOptions::default()).unwrap(), shared })
}

#[test]
fn operations_are_counted_by_kind_over_all_queues() {
    let device = stats("error:rate=1,ops=discard,ram:1MiB");
    let rig =
        Rig::new(&(Arc::clone(&device) as Device), TestPlan { loops: 2, ..TestPlan::default() });
    for n in 0..20 {
        rig.write((n % 2) as usize, n, &[1; 1024]);
    }
    rig.read(0, 0, 8);
    rig.one(1, TestOp { kind: OpKind::Flush, lba: 0, blocks: 0, data: vec![], cuts: vec![] });
    rig.run(
        0,
        vec![TestOp { kind: OpKind::Discard, lba: 0, blocks: 8, data: vec![], cuts: vec![] }],
    );
    rig.reopen(0);
    rig.write(0, 0, &[2; 512]);
    rig.end();
    let totals = device.totals();
    let of = |kind| {
        let of = totals.of(kind);
        (of.operations, of.failed, of.bytes)
    };
    assert_eq!((of(WRITE), of(OpKind::Read)), ((21, 0, 20 * 1024 + 512), (1, 0, 4096)));
    assert_eq!((of(OpKind::Flush), of(OpKind::Discard)), ((1, 0, 0), (1, 1, 0)));
    let text = totals.text(Duration::from_secs(2)).unwrap();
    assert!(
        text.starts_with("read 1, ")
            && text.contains("; write 21, ")
            && text.contains("other 1, 0 per second, 1 failed"),
        "{text}"
    );
}

#[test]
fn times_are_those_of_the_device() {
    let device = stats("delay:read=2ms,ram:1MiB");
    let rig = Rig::new(&(Arc::clone(&device) as Device), TestPlan::default());
    rig.read(0, 0, 1);
    rig.end();
    let totals = device.totals();
    assert!(totals.of(OpKind::Read).mean() >= Duration::from_millis(2));
}

#[test]
fn mistakes_are_told() {
    let refusal =
        |url: &str| open(url, &OpenOptions::default()).err().unwrap().refusal().cloned().unwrap();
    assert!(matches!(
        refusal("stats:every=0s,ram:1MiB"),
        Refusal::OptionValue { name: "every", .. }
    ));
    assert!(
        matches!(refusal("stats:often=1s,ram:1MiB"), Refusal::UnknownOption { name, .. } if name == "often")
    );
}
