//! Reads and writes that are longer than an operation of the device may be.

use super::host::{Host, READ, WRITE, blocks, serve};

const NAME: &str = "iqn.2026-01.example.weft:long";
const MIB: usize = 1 << 20;

/// Bytes that differ everywhere.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64 / 8).flat_map(|n| (n ^ 0x5a5a_0000).to_le_bytes()).collect()
}

/// MAXIMUM TRANSFER LENGTH, in blocks, as the page Block Limits tells it.
fn transfer_blocks_max(host: &mut Host) -> u32 {
    let mut cdb = [0; 16];
    cdb[..5].copy_from_slice(&[0x12, 1, 0xb0, 0, 64]);
    let page = host.command(&cdb, 64, &[], 0);
    assert_eq!(page.status, 0);
    u32::from_be_bytes(page.data[8..12].try_into().unwrap())
}

/// As ESXi sends them: Disk.DiskMaxIOSize is 32 MiB.
#[test]
fn thirty_two_mebibytes_in_one_command() {
    let served = serve(&["ram:64MiB"], 256 * MIB);
    let mut host = Host::logged_in(&served, NAME);
    assert_eq!(transfer_blocks_max(&mut host), 65_536);
    let data = bytes(32 * MIB);
    for immediate in [0, 8192] {
        let wrote = host.command(&blocks(WRITE, 7, 65_536), 0, &data, immediate);
        assert_eq!((wrote.status, wrote.code), (0, 0));
        let read = host.command(&blocks(READ, 7, 65_536), data.len() as u32, &[], 0);
        assert!(read.status == 0 && read.data == data, "what was written comes back");
    }
    let refused = host.command(&blocks(READ, 0, 65_537), 512 * 65_537, &[], 0);
    assert_eq!((refused.status, refused.code), (2, 0x2400));
}

/// A device that takes less at a time than comes unasked.
#[test]
fn a_device_of_short_operations_is_served_with_long_ones() {
    let dir = std::env::temp_dir().join(format!("weft-iscsi-long-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let source = format!("file:{},size=16MiB,block=4096", dir.join("disk").display());
    let served = serve(&[&source], 64 * MIB);
    let mut host = Host::logged_in(&served, NAME);
    let data = bytes(3 * MIB + 4096);
    let count = (data.len() / 4096) as u32;
    assert_eq!(host.command(&blocks(WRITE, 3, count), 0, &data, 4096).status, 0);
    assert!(host.command(&blocks(READ, 3, count), data.len() as u32, &[], 0).data == data);
    drop(host);
    drop(served);
    std::fs::remove_dir_all(dir).unwrap();
}

/// The memory of a loop bounds what a command may move, and the page says so.
#[test]
fn little_memory_is_told() {
    let served = serve(&["ram:16MiB"], 8 * MIB);
    let mut host = Host::logged_in(&served, NAME);
    assert_eq!(transfer_blocks_max(&mut host), 4096);
    let data = bytes(2 * MIB);
    // Data that comes unasked is taken while others have the memory.
    let mut others: Vec<Host> =
        (0..3).map(|n| Host::logged_in(&served, &format!("{NAME}{n}"))).collect();
    std::thread::scope(|scope| {
        for (n, other) in others.iter_mut().enumerate() {
            let data = &data;
            scope.spawn(move || {
                for _ in 0..5 {
                    assert_eq!(
                        other.command(&blocks(WRITE, 4096 * n as u64, 4096), 0, data, 4096).status,
                        0
                    );
                }
            });
        }
        for _ in 0..5 {
            assert_eq!(host.command(&blocks(WRITE, 3 * 4096, 4096), 0, &data, 8192).status, 0);
        }
    });
    let read = host.command(&blocks(READ, 0, 4096), data.len() as u32, &[], 0);
    assert!(read.status == 0 && read.data == data);
}

/// What is wrong in the middle fails the command, whose memory is given back.
#[test]
fn a_part_that_fails_fails_the_command() {
    let served = serve(&["error:rate=1,ram:64MiB"], 256 * MIB);
    let mut host = Host::logged_in(&served, NAME);
    let data = bytes(8 * MIB);
    for _ in 0..2 {
        assert_eq!(host.command(&blocks(WRITE, 0, 16_384), 0, &data, 0).status, 2);
        assert_eq!(host.command(&blocks(READ, 0, 16_384), data.len() as u32, &[], 0).status, 2);
    }
}
