//! A disk of tgt as a device.

use crate::tgt::{Tgt, options};
use weft_block::testing::{TestPlan, conformance};
use weft_block::{Error, Presence};
use weft_endpoint::source::ConnectOptions;
use weft_endpoint::{Control, Disk, PathOptions, open};
use weft_proto::iscsi::pdu::BHS_BYTES;
use weft_testing::wait::until;

/// More than loops: queues are dropped with commands under way, and their sessions come back when
/// those have ended.
const QUEUES: u16 = 8;

/// Without contention: tgt reads and writes on several threads without a lock, and now and then
/// half a block is another's.
fn plan() -> TestPlan {
    TestPlan { rounds: 0, ..TestPlan::default() }
}

#[test]
fn it_keeps_the_contract() {
    let Some(tgt) = Tgt::start() else { return };
    for (loops, digests) in [(1, false), (2, true)] {
        if digests {
            tgt.take_digests();
        }
        let options = ConnectOptions {
            nr_io_queues: QUEUES,
            hdr_digest: digests,
            data_digest: digests,
            ..options()
        };
        let device = open(&tgt.url(), &options).unwrap_or_else(|e| panic!("{e}"));
        conformance(&device, TestPlan { loops, ..plan() });
    }
}

#[test]
fn it_keeps_the_contract_with_thin_provisioning() {
    let Some(tgt) = Tgt::start() else { return };
    tgt.admin(&[
        "--op",
        "update",
        "--mode",
        "logicalunit",
        "--tid",
        "1",
        "--lun",
        "1",
        "--params",
        "thin_provisioning=1",
    ]);
    let options = ConnectOptions { nr_io_queues: QUEUES, ..options() };
    let device = open(&tgt.url(), &options).unwrap_or_else(|e| panic!("{e}"));
    assert!(device.features().discard, "{:?}", device.features());
    conformance(&device, plan());
}

#[test]
fn it_says_what_it_is() {
    let Some(tgt) = Tgt::start() else { return };
    let params = "vendor_id=WEFT,product_id=Test disk,scsi_sn=serial-1,readonly=1";
    tgt.admin(&[
        "--op",
        "update",
        "--mode",
        "logicalunit",
        "--tid",
        "1",
        "--lun",
        "1",
        "--params",
        params,
    ]);
    let device = open(&tgt.url(), &ConnectOptions { nr_io_queues: 3, ..options() }).unwrap();
    assert_eq!(device.max_queues(), 3);
    assert_eq!((device.geometry().block_bytes, device.geometry().bytes()), (512, 64 << 20));
    assert!(!device.features().write);
    let identity = device.identity();
    assert_eq!(
        (identity.serial.as_deref(), identity.model.as_deref()),
        (Some("serial-1"), Some("WEFT Test disk"))
    );
    assert_eq!(device.url(), tgt.url());
}

#[test]
fn queues_come_and_go() {
    let Some(tgt) = Tgt::start() else { return };
    // A loaded machine may leave a ping unanswered for so short a time: then another session does.
    until("a session lives on between its queues", || queues_come_and_go_on(&tgt).is_ok());
}

/// Tests that a session lives on between the queues of its device. An error is of a session that
/// was lost.
fn queues_come_and_go_on(tgt: &Tgt) -> Result<(), Error> {
    let control = Control::new();
    let options = ConnectOptions {
        keep_alive_ms: 500,
        control: control.clone(),
        paths: PathOptions::once(),
        ..options()
    };
    let device = open(&tgt.url(), &options)?;
    let received = || control.counters().map_or(0, |counted| counted.recv_bytes);
    for round in 0..3 {
        let disk = Disk::on(device.clone())?;
        let second = Disk::on(device.clone()).err().expect("it has one queue").to_string();
        if device.presence() == Presence::Here {
            assert!(second.contains("--nr-io-queues"), "{second}");
        }
        disk.write(round, &[round as u8; 512])?;
        drop(disk);
        // Meanwhile the session lives on, though its target is asked nothing: it is pinged.
        let before = received();
        until("the target answers a ping, or the session is lost", || {
            received() >= before + BHS_BYTES as u64 || device.presence() == Presence::Gone
        });
    }
    let disk = Disk::on(device)?;
    let mut back = [0; 1536];
    disk.read(0, &mut back)?;
    assert_eq!([back[0], back[512], back[1024]], [0, 1, 2]);
    Ok(())
}

#[test]
fn a_target_that_goes_away_is_noticed() {
    let Some(tgt) = Tgt::start() else { return };
    let options = ConnectOptions { paths: PathOptions::once(), ..options() };
    let disk = Disk::on(open(&tgt.url(), &options).unwrap()).unwrap();
    disk.write(0, &[7; 4096]).unwrap();
    let url = tgt.url();
    drop(tgt);
    assert!(disk.write(0, &[8; 512]).is_err());
    let error = open(&url, &options).err().unwrap().to_string();
    assert!(error.contains("check that a target listens there"), "{error}");
}
