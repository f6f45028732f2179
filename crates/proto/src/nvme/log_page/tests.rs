//! Golden bytes of the log pages.

use super::*;
use crate::nvme::types::{Cntlid, Nqn};
use crate::nvme::wire::NqnField;

fn image(bytes: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; bytes];
    for (at, part) in parts {
        out[*at..*at + part.len()].copy_from_slice(part);
    }
    out
}

#[test]
fn error_entry_bytes() {
    let entry = ErrorEntry {
        error_count: 5,
        sq_id: 1,
        cid: 2,
        status_field: 0x4004,
        parameter_location: 40,
        lba: 7,
        nsid: Nsid(8),
        vendor_page: 0,
        trtype: TransportType::TCP,
        csi: 0,
        opcode: 0x02,
        command_specific: 9,
        transport_specific: 10,
        version: 1,
    };
    let golden = image(
        64,
        &[
            (0, &[5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 4, 0x40, 40, 0, 7]),
            (24, &[8, 0, 0, 0, 0, 3, 0, 2, 9]),
            (40, &[10]),
            (63, &[1]),
        ],
    );
    assert_eq!(entry.encode(), golden);
    assert_eq!(ErrorEntry::decode(&golden).unwrap(), entry);
    assert_eq!(
        (entry.queue(), ErrorEntry { sq_id: 0xffff, ..entry }.queue()),
        (Some(Qid(1)), None)
    );
}

#[test]
fn smart_bytes() {
    let log = SmartLog {
        critical_warning: 4,
        temperature: 0x0136,
        available_spare: 100,
        available_spare_threshold: 10,
        percentage_used: 1,
        data_units_read: 2,
        data_units_written: 3,
        host_reads: 4,
        host_writes: 5,
        power_on_hours: 6,
        unsafe_shutdowns: 7,
        media_errors: 8,
        error_entries: 9,
        warning_temperature_minutes: 10,
        temperature_sensors: [0x0135, 0, 0, 0, 0, 0, 0, 0],
        thermal_2_seconds: 11,
        ..Default::default()
    };
    let golden = image(
        512,
        &[
            (0, &[4, 0x36, 1, 100, 10, 1]),
            (32, &[2]),
            (48, &[3]),
            (64, &[4]),
            (80, &[5]),
            (128, &[6]),
            (144, &[7]),
            (160, &[8]),
            (176, &[9]),
            (192, &[10]),
            (200, &[0x35, 1]),
            (228, &[11]),
        ],
    );
    assert_eq!(log.encode(), golden);
    assert_eq!(SmartLog::decode(&golden).unwrap(), log);
}

#[test]
fn tables_by_number() {
    let mut pages = SupportedLogPages::default();
    pages.pages[0x70] = SupportedLogPages::SUPPORTED;
    assert_eq!(pages.encode(), image(1024, &[(0x1c0, &[1])]));
    let mut effects = EffectsLog::default();
    effects.admin[0x7f] = EffectsLog::SUPPORTED;
    effects.io[0x01] = EffectsLog::SUPPORTED | EffectsLog::CONTENT_CHANGE;
    assert_eq!(effects.encode(), image(4096, &[(0x1fc, &[1]), (1028, &[3])]));
    let mut features = FeatureEffectsLog::default();
    features.features[0x0f] = FeatureEffectsLog::SUPPORTED | FeatureEffectsLog::SCOPE_CONTROLLER;
    assert_eq!(features.encode(), image(1024, &[(60, &[1, 0, 0x20, 0])]));
    let mut slots = FirmwareSlotLog { afi: 1, ..Default::default() };
    slots.frs[0] = Ascii::new("0.1.0");
    assert_eq!(slots.encode(), image(512, &[(0, &[1]), (8, b"0.1.0   ")]));
}

#[test]
fn discovery_bytes() {
    let header = DiscoveryHeader { genctr: 3, numrec: 2, recfmt: 0 };
    assert_eq!(header.encode(), image(1024, &[(0, &[3, 0, 0, 0, 0, 0, 0, 0, 2])]));
    let nqn = Nqn::new("nqn.2014-08.org.example:disk1").unwrap();
    let entry = DiscoveryEntry {
        trtype: TransportType::TCP,
        adrfam: AddressFamily::IPV4,
        subtype: SubsystemType::NVME,
        treq: 2,
        portid: 1,
        cntlid: Cntlid::DYNAMIC,
        asqsz: 128,
        eflags: 0,
        trsvcid: Ascii::new("4420"),
        subnqn: NqnField::from(&nqn),
        traddr: Ascii::new("127.0.0.1"),
        tsas: [0; 256],
    };
    let mut golden = image(
        1024,
        &[
            (0, &[3, 1, 2, 2, 1, 0, 0xff, 0xff, 128, 0]),
            (32, &[b' '; 32]),
            (256, nqn.as_str().as_bytes()),
            (512, &[b' '; 256]),
        ],
    );
    golden[32..36].copy_from_slice(b"4420");
    golden[512..521].copy_from_slice(b"127.0.0.1");
    assert_eq!(entry.encode(), golden);
    assert_eq!(DiscoveryEntry::decode(&golden).unwrap(), entry);
    assert_eq!(
        (entry.traddr.text(), entry.secure_channel()),
        ("127.0.0.1".to_owned(), SecureChannelNeed::NOT_REQUIRED)
    );
}
