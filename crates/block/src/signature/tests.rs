//! Images made by the programs of the formats, where they are installed, and fixed bytes for the
//! others.

use super::*;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicU32, Ordering};
#[cfg(target_os = "linux")]
use weft_testing::programs;

const BYTES: u64 = 32 << 20;

/// Bytes at a place, which is counted from the end if negative.
type Part<'a> = (i64, &'a [u8]);

fn disk(parts: &[Part<'_>]) -> Vec<u8> {
    let mut disk = vec![0; BYTES as usize];
    for (at, bytes) in parts {
        let at = if *at < 0 { (BYTES as i64 + at) as usize } else { *at as usize };
        disk[at..at + bytes.len()].copy_from_slice(bytes);
    }
    disk
}

fn found(disk: &[u8]) -> Option<String> {
    let (start, end) =
        (START_BYTES.min(disk.len() as u64) as usize, END_BYTES.min(disk.len() as u64) as usize);
    let ends = DiskEnds {
        start: &disk[..start],
        end: &disk[disk.len() - end..],
        bytes: disk.len() as u64,
    };
    find(&ends).map(|content| content.to_string())
}

#[test]
fn an_empty_disk_and_one_of_noise_hold_nothing() {
    assert_eq!(found(&disk(&[])), None);
    assert_eq!(found(&[]), None);
    assert_eq!(found(&[0x55; 700]), None);
    let mut state = 1_u32;
    let noise = core::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    assert_eq!(found(&noise.take(4 << 20).collect::<Vec<_>>()), None);
}

#[test]
fn signatures_are_recognised_where_they_belong() {
    let entry = [0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 0, 1, 0];
    let boot: Part<'_> = (510, &[0x55, 0xaa]);
    let cases: &[(&[Part<'_>], &str)] = &[
        (&[boot, (446, &entry)], "a partition table (MBR)"),
        (&[boot, (446, &[0; 64]), (512, b"EFI PART")], "a partition table (GPT)"),
        (&[(4096, b"EFI PART")], "a partition table (GPT)"),
        (&[(-512, b"EFI PART")], "a partition table (GPT, the copy at its end)"),
        (&[boot, (54, b"FAT16   "), (43, b"DATA       ")], "a FAT file system (label \"DATA\")"),
        (&[boot, (82, b"FAT32   "), (71, b"NO NAME    ")], "a FAT file system"),
        (&[boot, (3, b"NTFS    ")], "an NTFS file system"),
        (&[boot, (3, b"EXFAT   ")], "an exFAT file system"),
        (&[(3, b"ReFS\0\0\0\0")], "a ReFS file system"),
        (&[(0, b"XFSB"), (108, b"back\nup\"")], "an XFS file system (label \"back\\nup\\\"\")"),
        (&[(0x10040, b"_BHRfS_M"), (0x1012b, b"pool")], "a btrfs file system (label \"pool\")"),
        (&[(512, b"LABELONE"), (536, b"LVM2 001")], "an LVM physical volume"),
        (&[(0, b"LUKS\xba\xbe\0\x02"), (24, b"secret")], "a LUKS volume (label \"secret\")"),
        (&[(0, b"LUKS\xba\xbe\0\x01"), (24, b"xts")], "a LUKS volume"),
        (
            &[(4096, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]), (4128, b"host:0")],
            "a member of a Linux RAID (md) (label \"host:0\")",
        ),
        (&[(-8192, &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0])], "a member of a Linux RAID (md)"),
        (&[(-65_536, &[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0])], "a member of a Linux RAID (md)"),
        (&[(131_072 + 5 * 1024, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0])], "a member of a ZFS pool"),
        (&[(-131_072, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c])], "a member of a ZFS pool"),
        (
            &[(4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf7\x7f\x48\xba\x6d\x81")],
            "a bcache device",
        ),
        (&[(0, b"bluestore block device\n")], "a Ceph OSD (BlueStore)"),
        (&[(0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0])], "a VMFS volume"),
        (&[(0, b"dmvdo001")], "a VDO volume"),
        (&[(-4036, &[0x83, 0x74, 0x02, 0x6d])], "a DRBD volume"),
        (&[(-512, &[0xde, 0x11, 0xde, 0x11])], "a member of a RAID (DDF)"),
        (&[(-1024, b"Intel Raid ISM Cfg Sig. 1.3")], "a member of a RAID (Intel)"),
        (&[(-(300 << 10), b"WEFTMIRR")], "a member of a weft mirror"),
        (&[(4086, b"SWAPSPACE2"), (1024, &[1, 0, 0, 0])], "swap space"),
    ];
    for (parts, what) in cases {
        assert_eq!(found(&disk(parts)).as_deref(), Some(*what));
    }
}

#[test]
fn what_only_looks_like_a_signature_is_none() {
    let boot: Part<'_> = (510, &[0x55, 0xaa]);
    for parts in [
        &[boot][..],
        &[boot, (446, &[0x13; 64])],
        &[(512, b"LABELONE")],
        &[(1080, &[0x53, 0xef])],
        &[(4086, b"SWAPSPACE2")],
        &[(-513, b"EFI PART")],
        &[(2 << 20, b"WEFTMIRR")],
    ] {
        assert_eq!(found(&disk(parts)), None);
    }
}

/// Makes a file system, or the like, on a file.
#[cfg(target_os = "linux")]
fn made_by(program: &str, arguments: &[&str], input: &str) -> Vec<u8> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name =
        format!("weft-signature-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, vec![0; BYTES as usize]).unwrap();
    std::fs::write(path.with_extension("in"), input).unwrap();
    let stdin = std::fs::File::open(path.with_extension("in")).unwrap();
    let output = programs::command(program).args(arguments).arg(&path).stdin(stdin).output();
    let image = std::fs::read(&path).unwrap();
    for file in [&path, &path.with_extension("in")] {
        std::fs::remove_file(file).unwrap();
    }
    let output = output.unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    image
}

#[cfg(target_os = "linux")]
#[test]
fn what_programs_make_is_recognised() {
    let cases: &[(&str, &[&str], &str, &str)] = &[
        ("mkfs.ext4", &["-q", "-F", "-L", "home"], "", "an ext4 file system (label \"home\")"),
        ("mke2fs", &["-q", "-F", "-t", "ext3"], "", "an ext3 file system"),
        (
            "mke2fs",
            &["-q", "-F", "-t", "ext2", "-L", "old"],
            "",
            "an ext2 file system (label \"old\")",
        ),
        ("mkswap", &["--quiet"], "", "swap space"),
        ("sfdisk", &["--quiet"], "label: gpt\n,8M\n", "a partition table (GPT)"),
        ("sfdisk", &["--quiet"], "label: dos\n,8M\n", "a partition table (MBR)"),
        ("mkfs.vfat", &["-n", "STICK"], "", "a FAT file system (label \"STICK\")"),
        ("mkfs.ntfs", &["-Q", "-F", "-q"], "", "an NTFS file system"),
        (
            "cryptsetup",
            &["luksFormat", "--batch-mode", "--pbkdf", "pbkdf2", "--key-file", "-"],
            "key",
            "a LUKS volume",
        ),
    ];
    for (program, arguments, input, what) in cases {
        if programs::find(program).is_some() {
            let image = made_by(program, arguments, input);
            assert_eq!(found(&image).as_deref(), Some(*what), "{program}");
        }
    }
    let all: Vec<&str> = cases.iter().map(|(program, ..)| *program).collect();
    let _ = programs::have(&all);
}
