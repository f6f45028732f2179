//! Golden bytes: each field at the byte that the specification's figure gives it, written here by
//! hand.

use super::*;
use crate::nvme::types::{Cntlid, Id128, Nqn, Nsid};
use crate::nvme::wire::{Ascii, DecodeError, NqnField};

/// Zeroes, with `parts` written over them.
fn image(bytes: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut out = vec![0; bytes];
    for (at, part) in parts {
        out[*at..*at + part.len()].copy_from_slice(part);
    }
    out
}

fn controller() -> IdentifyController {
    IdentifyController {
        vid: 0x1d1d,
        ssvid: 0x1af4,
        sn: Ascii::new("SN0001"),
        mn: Ascii::new("weft"),
        fr: Ascii::new("0.1.0"),
        cmic: IdentifyController::CMIC_CONTROLLERS,
        mdts: 8,
        cntlid: Cntlid(0x0102),
        ver: 0x0002_0000,
        oaes: 0x8000_0100,
        ctratt: IdentifyController::CTRATT_HOST_ID_128,
        cntrltype: ControllerType::IO,
        fguid: Id128([7; 16]),
        oacs: 0x0201,
        acl: 3,
        aerl: 4,
        frmw: 3,
        lpa: 0x26,
        elpe: 63,
        npss: 1,
        avscc: 1,
        wctemp: 343,
        cctemp: 373,
        kas: 10,
        sqes: 0x66,
        cqes: 0x44,
        maxcmd: 128,
        nn: 1024,
        oncs: 0x000d,
        fuses: 1,
        fna: 4,
        vwc: 7,
        awun: 0x00ff,
        awupf: 0x0011,
        icsvscc: 1,
        nwpc: 2,
        acwu: 0x0101,
        sgls: 0x0030_0001,
        mnan: 1024,
        subnqn: NqnField::from(&Nqn::discovery()),
        ioccsz: 0x0204,
        iorcsz: 1,
        icdoff: 2,
        fcatt: 1,
        msdbd: 16,
        ofcs: 1,
        psd: core::array::from_fn(|n| PowerState {
            mp: if n == 1 { 0x1234 } else { 0 },
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn controller_bytes() {
    let id = controller();
    let golden = image(
        4096,
        &[
            (0, &[0x1d, 0x1d, 0xf4, 0x1a]),
            (4, b"SN0001              weft                                    0.1.0   "),
            (76, &[2, 8, 0x02, 0x01, 0, 0, 2, 0]),
            (92, &[0, 1, 0, 0x80, 1, 0, 0, 0]),
            (111, &[1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
            (256, &[0x01, 0x02, 3, 4, 3, 0x26, 63, 1, 1, 0, 0x57, 0x01, 0x75, 0x01]),
            (320, &[10, 0]),
            (
                512,
                &[
                    0x66, 0x44, 128, 0, 0, 4, 0, 0, 0x0d, 0, 1, 0, 4, 7, 0xff, 0, 0x11, 0, 1, 2, 1,
                    1,
                ],
            ),
            (536, &[1, 0, 0x30, 0, 0, 4, 0, 0]),
            (768, b"nqn.2014-08.org.nvmexpress.discovery"),
            (1792, &[4, 2, 0, 0, 1, 0, 0, 0, 2, 0, 1, 16, 1, 0]),
            (2048 + 32, &[0x34, 0x12]),
        ],
    );
    assert_eq!(id.encode(), golden);
    assert_eq!(IdentifyController::decode(&golden).unwrap(), id);
}

#[test]
fn namespace_bytes() {
    let mut id = IdentifyNamespace {
        nsze: 0x0102_0304_0506_0708,
        ncap: 2,
        nuse: 3,
        nsfeat: 0x12,
        nlbaf: 1,
        flbas: 1,
        mc: 1,
        dpc: 2,
        dps: 3,
        nmic: 1,
        rescap: 4,
        fpi: 5,
        dlfeat: 9,
        nawun: 6,
        nawupf: 7,
        nacwu: 8,
        nabsn: 9,
        nabo: 10,
        nabspf: 11,
        noiob: 0x0201,
        nvmcap: 0x10,
        npwg: 1,
        npwa: 2,
        npdg: 3,
        npda: 4,
        nows: 5,
        mssrl: 6,
        mcl: 7,
        msrc: 8,
        anagrpid: 9,
        nsattr: 1,
        nvmsetid: 2,
        endgid: 3,
        nguid: Id128([0xab; 16]),
        eui64: [1, 2, 3, 4, 5, 6, 7, 8],
        ..Default::default()
    };
    id.lbaf[0] = LbaFormat { ms: 0, ds: 9, rp: 1 };
    id.lbaf[1] = LbaFormat { ms: 8, ds: 12, rp: 0 };
    let golden = image(
        4096,
        &[
            (0, &[8, 7, 6, 5, 4, 3, 2, 1, 2]),
            (16, &[3, 0, 0, 0, 0, 0, 0, 0, 0x12, 1, 1, 1, 2, 3, 1, 4, 5, 9]),
            (34, &[6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 0, 1, 2, 0x10]),
            (64, &[1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 0, 0, 8]),
            (92, &[9, 0, 0, 0, 0, 0, 0, 1, 2, 0, 3, 0]),
            (104, &[0xab; 16]),
            (120, &[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 9, 1, 8, 0, 12, 0]),
        ],
    );
    assert_eq!(id.encode(), golden);
    assert_eq!(IdentifyNamespace::decode(&golden).unwrap(), id);
    assert_eq!(id.format(), Some(&id.lbaf[1]));
}

#[test]
fn the_format_index_has_two_more_bits_only_with_many_formats() {
    let mut id = IdentifyNamespace { nlbaf: 1, flbas: 0x22, ..Default::default() };
    assert_eq!(id.format(), None);
    id.nlbaf = 40;
    id.flbas = 0x42;
    id.lbaf[0x22].ds = 12;
    assert_eq!(id.format().map(|format| format.ds), Some(12));
    id.flbas = 0x6f;
    assert_eq!(id.format(), None);
}

#[test]
fn smaller_namespace_structures() {
    let id = IdentifyIndependentNamespace {
        nsfeat: 8,
        nmic: 1,
        rescap: 2,
        fpi: 3,
        anagrpid: 4,
        nsattr: 1,
        nvmsetid: 5,
        endgid: 6,
        nstat: 1,
    };
    assert_eq!(id.encode(), image(4096, &[(0, &[8, 1, 2, 3, 4, 0, 0, 0, 1, 0, 5, 0, 6, 0, 1])]));
    assert_eq!(IdentifyIndependentNamespace::decode(&id.encode()).unwrap(), id);
    let mut nvm = IdentifyNvmNamespace { lbstm: 0x0102, pic: 7, ..Default::default() };
    nvm.elbaf[63] = 0x80;
    assert_eq!(nvm.encode(), image(4096, &[(0, &[2, 1]), (8, &[7]), (12 + 63 * 4, &[0x80])]));
    let limits = IdentifyNvmController { vsl: 1, wzsl: 2, wusl: 3, dmrl: 4, dmrsl: 5, dmsl: 6 };
    assert_eq!(limits.encode(), image(4096, &[(0, &[1, 2, 3, 4, 5, 0, 0, 0, 6])]));
    assert_eq!(IdentifyNvmController::decode(&limits.encode()).unwrap(), limits);
    let mut sets = CommandSetCombinations::default();
    sets.vectors[0] = 1;
    assert_eq!(sets.encode(), image(4096, &[(0, &[1])]));
}

#[test]
fn namespace_lists() {
    let list = NamespaceList(vec![Nsid(1), Nsid(0x0201)]);
    let golden = image(4096, &[(0, &[1, 0, 0, 0, 1, 2, 0, 0])]);
    assert_eq!(list.encode(), golden);
    assert_eq!(NamespaceList::decode(&golden).unwrap(), list);
    let full = NamespaceList::above((1..=3000).map(Nsid), Nsid(500));
    assert_eq!((full.0.len(), full.0[0], full.0[1023]), (1024, Nsid(501), Nsid(1524)));
    assert_eq!(NamespaceList::decode(&full.encode()).unwrap(), full);
    let falling = image(4096, &[(0, &[2, 0, 0, 0, 1])]);
    assert!(matches!(NamespaceList::decode(&falling), Err(DecodeError::Field { offset: 4, .. })));
    assert!(matches!(NamespaceList::decode(&golden[..4095]), Err(DecodeError::Short { .. })));
}

#[test]
fn controller_lists() {
    let list = ControllerList(vec![Cntlid(1), Cntlid(0x0302)]);
    assert_eq!(list.encode(), image(4096, &[(0, &[2, 0, 1, 0, 2, 3])]));
    assert_eq!(ControllerList::decode(&list.encode()).unwrap(), list);
    assert!(ControllerList::decode(&image(4096, &[(0, &[0, 8])])).is_err());
}

#[test]
fn descriptors() {
    let all = NamespaceDescriptors {
        eui64: Some([1; 8]),
        nguid: Some(Id128([2; 16])),
        uuid: Some(Id128([3; 16])),
        csi: Some(Csi::NVM),
    };
    let golden = image(
        4096,
        &[
            (0, &[1, 8, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]),
            (12, &[2, 16]),
            (16, &[2; 16]),
            (32, &[3, 16]),
            (36, &[3; 16]),
            (52, &[4, 1, 0, 0, 0]),
        ],
    );
    assert_eq!(all.encode(), golden);
    assert_eq!(NamespaceDescriptors::decode(&golden).unwrap(), all);
    assert_eq!(NamespaceDescriptors::decode(&[0; 4096]).unwrap(), NamespaceDescriptors::default());
}

#[test]
fn descriptors_of_other_kinds_and_lengths() {
    let unknown = image(4096, &[(0, &[9, 3, 0, 0, 1, 1, 1]), (7, &[4, 1, 0, 0, 2])]);
    assert_eq!(NamespaceDescriptors::decode(&unknown).unwrap().csi, Some(Csi::ZONED));
    let wrong = image(4096, &[(0, &[3, 15])]);
    assert!(matches!(
        NamespaceDescriptors::decode(&wrong),
        Err(DecodeError::Field { offset: 1, .. })
    ));
    let filled: Vec<u8> = core::iter::repeat_n([9, 251].into_iter().chain([0; 253]), 17)
        .flatten()
        .take(4096)
        .collect();
    assert!(matches!(
        NamespaceDescriptors::decode(&filled),
        Err(DecodeError::Field { offset: 4081, .. })
    ));
}

#[test]
fn short_buffers_are_refused() {
    assert_eq!(
        IdentifyController::decode(&[0; 100]).unwrap_err().to_string(),
        "IdentifyController has 4096 bytes, 100 were received"
    );
}
