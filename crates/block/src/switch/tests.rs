use super::Switch;
use crate::testing::{Rig, TestPlan, conformance};
use crate::{Device, OpKind, OpenOptions, StatusKind, open};

const WRITE: OpKind = OpKind::Write { fua: false };

fn ram() -> Device {
    open("ram:8MiB", &OpenOptions::default()).unwrap()
}

#[test]
fn the_device_keeps_the_contract() {
    let (switch, device) = Switch::new(ram());
    conformance(&device, TestPlan::default());
    switch.set("delay:read=1us,write=1us").unwrap();
    conformance(&device, TestPlan::default());
}

#[test]
fn filters_are_exchanged_while_the_device_is_in_use() {
    let (switch, device) = Switch::new(ram());
    let rig = Rig::new(&device, TestPlan::default());
    let block = vec![7; 512];
    rig.write(0, 1, &block);
    switch.set("error:rate=1,kind=media,ops=read,").unwrap();
    rig.fails(0, rig.request(OpKind::Read, 1, vec![0; 512]), StatusKind::Media);
    rig.write(0, 2, &block);
    switch.set("limit:iops=1M,error:rate=1,kind=nospace,ops=write").unwrap();
    rig.fails(0, rig.request(WRITE, 1, vec![0; 512]), StatusKind::NoSpace);
    assert_eq!(rig.read(0, 2, 1), block);
    switch.set("").unwrap();
    rig.write(0, 3, &block);
    assert_eq!(rig.read(0, 1, 1), block);
    rig.end();
}

#[test]
fn operations_stay_under_the_filters_with_which_they_began() {
    let (switch, device) = Switch::new(ram());
    let rig = Rig::new(&device, TestPlan::default());
    switch.set("error:rate=1,kind=timeout,ops=read").unwrap();
    let held = rig.start(0, vec![rig.request(OpKind::Read, 3, vec![0; 512])]);
    // Submitted behind the read, on the same loop.
    rig.write(0, 3, &[1; 512]);
    switch.set("").unwrap();
    rig.write(0, 3, &[2; 512]);
    rig.cancel(0, held[0]);
    assert_eq!(rig.wait(0, &held)[0].outcome.status().kind, StatusKind::Aborted);
    rig.end();
}

#[test]
fn only_some_filters_are_exchanged_and_mistakes_change_nothing() {
    let (switch, device) = Switch::new(ram());
    for wrong in [
        "readonly:",
        "error:rate=7",
        "error:",
        "stripe:64KiB,ram:1MiB",
        "ram:1MiB",
        "delay:stats:",
        "x",
        ",",
    ] {
        assert!(switch.set(wrong).is_err(), "{wrong}");
    }
    let rig = Rig::new(&device, TestPlan::default());
    rig.write(0, 0, &[1; 512]);
    rig.end();
}
