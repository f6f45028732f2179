use super::mapping::{Mapping, shared_memory};
use super::memory::{GuestMemory, GuestRegion};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::os::fd::{AsFd, OwnedFd};

fn file(len: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file
}

fn region(guest: u64, bytes: u64, user: u64, offset: u64) -> GuestRegion {
    GuestRegion { guest, bytes, user, offset }
}

#[test]
fn regions_are_found_by_both_addresses_and_accesses_may_cross_them() {
    let (file, mut memory) = (file(3 << 16), GuestMemory::default());
    memory.add(region(0, 1 << 16, 1 << 40, 1 << 16), file.as_fd()).unwrap();
    memory.add(region(1 << 16, 1 << 16, 1 << 41, 1 << 17), file.as_fd()).unwrap();
    let border = (1 << 16) - 2;
    assert!(memory.write(border, &[1, 2, 3, 4]));
    let mut bytes = [0; 4];
    assert!(memory.read(border, &mut bytes));
    assert_eq!((bytes, memory.load(1 << 16)), ([1, 2, 3, 4], Some(0x0403)));
    assert_eq!(memory.guest_address((1 << 41) + 16, 16), Some((1 << 16) + 16));
    assert_eq!(memory.guest_address((1 << 41) + 16, 1 << 16), None);
    assert!(!memory.write((1 << 17) - 1, &[0; 2]) && !memory.read(u64::MAX, &mut [0; 2]));
    assert!(memory.load(1).is_none() && !memory.store((1 << 17) - 1, 0));
    assert!(memory.add(region(100, 10, 0, 0), file.as_fd()).is_err(), "it overlaps");
    assert!(memory.remove(&region(0, 1 << 16, 1 << 40, 0)));
    assert!(memory.load(0).is_none() && memory.load(1 << 16).is_some());
}

#[test]
fn only_files_of_memory_that_are_long_enough_are_taken() {
    assert!(Mapping::of(file(4096).as_fd(), 0, 4097).is_err());
    assert!(Mapping::of(file(4096).as_fd(), u64::MAX, 2).is_err());
    assert!(Mapping::of(file(4096).as_fd(), 0, 0).is_err());
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(Mapping::of(null.as_fd(), 0, 1).is_err());
    let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(Mapping::of(program.as_fd(), 0, 1).is_err());
}

#[test]
fn memory_that_is_truncated_under_us_is_lost_and_nothing_else_happens() {
    let (file, other) = (file(1 << 20), shared_memory("other", 4096).unwrap());
    let mapping = Mapping::of(file.as_fd(), 4096, 1 << 16).unwrap();
    let safe = Mapping::of(other.as_fd(), 0, 4096).unwrap();
    assert!(mapping.write(1 << 15, &[7]) && safe.write(0, &[9]));
    ftruncate(&file, 4096).unwrap();
    assert!(!mapping.is_lost());
    let mut bytes = [1; 4];
    assert!(mapping.read(1 << 15, &mut bytes));
    assert_eq!((bytes, mapping.is_lost()), ([0; 4], true));
    assert!(mapping.write(0, &[3; 100]) && mapping.store(0, 1));
    assert!(safe.read(0, &mut bytes) && !safe.is_lost());
    assert_eq!(bytes, [9, 0, 0, 0]);
    assert!(ftruncate(&other, 0).is_err(), "what we make does not shrink");
}

#[test]
fn what_is_written_is_logged() {
    let (file, log, mut memory) = (file(1 << 20), file(4096), GuestMemory::default());
    memory.add(region(0, 1 << 20, 0, 0), file.as_fd()).unwrap();
    assert!(memory.write(0, &[1]));
    memory.log_to(Some(Mapping::of(log.as_fd(), 0, 32).unwrap()));
    assert!(memory.write(4096 * 9 + 4095, &[1, 2]) && memory.store(4096 * 17, 1));
    let mut bytes = [0; 4];
    assert!(Mapping::of(log.as_fd(), 0, 32).unwrap().read(0, &mut bytes));
    assert_eq!(bytes, [0, 6, 2, 0]);
    memory.log_to(None);
    assert!(memory.write(0, &[1]) && !memory.is_lost());
}
