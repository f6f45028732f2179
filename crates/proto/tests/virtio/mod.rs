//! Rings and requests of virtio, with a driver of our own at the other side.

mod asking;
mod driver_model;
mod plain_memory;

use core::cell::Cell;
use driver_model::{DriverMemory, DriverModel, Part};
use plain_memory::PlainMemory;
use weft_proto::virtio::block::{self, BlockConfig, BlockRequest, BlockStatus};
use weft_proto::virtio::chain::{Chain, Piece, part};
use weft_proto::virtio::ring::{Ring, RingConfig};
use weft_proto::virtio::{Outside, RingFault, SharedMemory};

/// Memory of a guest, which may end in the middle of what is written to it.
pub struct Bytes {
    memory: PlainMemory,
    /// Writes after which the process ends.
    pub left: Cell<usize>,
}

impl Bytes {
    pub fn new(len: usize) -> Self {
        Self { memory: PlainMemory::new(len), left: Cell::new(usize::MAX) }
    }

    fn spend(&self) -> Result<(), Outside> {
        let left = self.left.get().checked_sub(1).ok_or(Outside)?;
        self.left.set(left);
        Ok(())
    }
}

impl DriverMemory for Bytes {
    fn put(&self, at: u64, from: &[u8]) {
        let at = at as usize;
        self.memory.0.borrow_mut()[at..at + from.len()].copy_from_slice(from);
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        self.read(at, into).unwrap();
    }
}

impl SharedMemory for Bytes {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        self.memory.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        self.spend()?;
        self.memory.write(at, from)
    }

    fn load(&self, at: u64) -> Result<u16, Outside> {
        self.memory.load(at)
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        self.spend()?;
        self.memory.store(at, value)
    }
}

fn model(is_packed: bool, events: bool) -> DriverModel<Bytes> {
    DriverModel::new(Bytes::new(1 << 16), 8, is_packed, events)
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

const PARTS: [Part; 3] = [(0, 16, false), (64, 512, true), (1024, 1, true)];

/// All layouts: packed or not, with events or not, indirect or not.
fn each(mut run: impl FnMut(DriverModel<Bytes>, bool)) {
    for bits in 0..8 {
        run(model(bits & 1 != 0, bits & 2 != 0), bits & 4 != 0);
    }
}

#[test]
fn chains_come_back_once_in_any_order_and_notifications_are_not_lost() {
    each(|mut driver, indirect| {
        let mut numbers = Numbers(7);
        let mut ring = Ring::open(&driver.memory, &driver.config, None).unwrap();
        let (mut taken, mut added, mut seen) = (Vec::<Chain>::new(), Vec::new(), 0);
        let mut asleep = false;
        for turn in 0..3000 {
            match numbers.below(4) {
                0 => added.extend(driver.add(&PARTS, indirect)),
                1 => {
                    let mut chain = Chain::default();
                    if ring.take(&driver.memory, None, &mut chain).unwrap() {
                        assert_eq!(chain.readable, [Piece { at: 0, len: 16 }]);
                        assert_eq!(chain.writable.len(), 2);
                        assert!(added.contains(&chain.id));
                        taken.push(chain);
                    }
                }
                2 if !taken.is_empty() => {
                    let chain = taken.swap_remove(numbers.below(taken.len() as u64) as usize);
                    let len = u32::from(chain.id) + 1;
                    ring.give(&driver.memory, None, &chain, len).unwrap();
                    let told = ring.notifies(&driver.memory).unwrap();
                    assert!(told || !asleep, "turn {turn}: the driver sleeps on");
                    asleep &= !told;
                }
                _ => {
                    while let Some((name, len)) = driver.used() {
                        assert_eq!(len, u32::from(name) + 1);
                        added.retain(|of| *of != name);
                        seen += 1;
                    }
                    asleep = numbers.below(2) == 0;
                    driver.listen(asleep);
                }
            }
        }
        assert!(seen > 100, "{seen}");
    });
}

#[test]
fn a_process_may_end_at_any_write_and_the_next_one_goes_on() {
    each(|mut driver, indirect| {
        let record = Bytes::new(4096);
        let open = |memory: &Bytes, config: &RingConfig| {
            Ring::open(memory, config, Some((&record as &dyn SharedMemory, 64))).unwrap()
        };
        let (mut numbers, mut added, mut done) = (Numbers(3), 0_u32, 0_u32);
        for life in 0..400 {
            driver.memory.left.set(usize::MAX);
            record.left.set(usize::MAX);
            let mut ring = open(&driver.memory, &driver.config);
            let mut taken = Vec::<Chain>::new();
            // It ends at some write to either memory.
            driver.memory.left.set(numbers.below(40) as usize);
            record.left.set(numbers.below(40) as usize);
            let mut run = || -> Result<(), RingFault> {
                for _ in 0..40 {
                    added += u32::from(driver.add(&PARTS, indirect).is_some());
                    let mut chain = Chain::default();
                    if ring.take(&driver.memory, Some(&record), &mut chain)? {
                        assert_eq!(chain.writable.len(), 2);
                        taken.push(chain);
                    }
                    if !taken.is_empty() && numbers.below(2) == 0 {
                        let at = numbers.below(taken.len() as u64) as usize;
                        let chain = taken.swap_remove(at);
                        ring.give(&driver.memory, Some(&record), &chain, 9)?;
                    }
                    while driver.used().is_some() {
                        done += 1;
                    }
                }
                Ok(())
            };
            let _ = run();
            // A used chain that the driver sees is not given back again: `used` checks that.
            while driver.used().is_some() {
                done += 1;
            }
            assert!(added - done <= 8, "life {life}");
        }
        driver.memory.left.set(usize::MAX);
        record.left.set(usize::MAX);
        let mut ring = open(&driver.memory, &driver.config);
        let mut chain = Chain::default();
        while ring.take(&driver.memory, Some(&record), &mut chain).unwrap() {
            ring.give(&driver.memory, Some(&record), &chain, 9).unwrap();
        }
        while driver.used().is_some() {
            done += 1;
        }
        assert_eq!((added, done > 200), (done, true));
    });
}

#[test]
fn a_queue_goes_on_elsewhere_from_its_base() {
    each(|mut driver, indirect| {
        for _ in 0..30 {
            let mut ring = Ring::open(&driver.memory, &driver.config, None).unwrap();
            driver.add(&PARTS, indirect).unwrap();
            let mut chain = Chain::default();
            assert!(ring.take(&driver.memory, None, &mut chain).unwrap());
            assert!(!ring.take(&driver.memory, None, &mut Chain::default()).unwrap());
            ring.give(&driver.memory, None, &chain, 1).unwrap();
            assert!(driver.used().is_some());
            driver.config.base = ring.base();
        }
    });
}

#[test]
fn a_new_packed_queue_may_begin_at_zero() {
    let mut driver = model(true, false);
    driver.config.base = 0;
    let mut ring = Ring::open(&driver.memory, &driver.config, None).unwrap();
    for _ in 0..30 {
        driver.add(&PARTS, false).unwrap();
        let mut chain = Chain::default();
        assert_eq!(ring.take(&driver.memory, None, &mut chain), Ok(true));
        ring.give(&driver.memory, None, &chain, 1).unwrap();
        assert!(driver.used().is_some());
    }
}

/// Returns the fault of a chain with these descriptors, in a queue of 8.
fn fault(is_packed: bool, put: impl Fn(&Bytes, &RingConfig)) -> Result<bool, RingFault> {
    let mut driver = model(is_packed, false);
    let mut ring = Ring::open(&driver.memory, &driver.config, None).unwrap();
    driver.add(&PARTS, false).unwrap();
    put(&driver.memory, &driver.config);
    ring.take(&driver.memory, None, &mut Chain::default())
}

#[test]
fn what_a_driver_must_not_do_is_a_fault() {
    let split = |at: u64, bytes: &[u8]| {
        fault(false, |memory, config| memory.put(config.parts.descriptors + at, bytes))
    };
    // The flags and the next one of a descriptor.
    assert_eq!(split(12, &[1, 0, 9, 0]), Err(RingFault::Number));
    assert_eq!(split(12, &[1, 0, 0, 0]), Err(RingFault::Long));
    assert_eq!(split(28, &[3, 0, 0, 0]), Err(RingFault::Order));
    assert_eq!(split(0, &[255; 12]), Err(RingFault::Outside));
    assert_eq!(split(12, &[5, 0, 1, 0]), Err(RingFault::Indirect));
    let table = |entry: [u8; 16]| {
        fault(false, |memory, config| {
            let mut of = [0; 16];
            of[..2].copy_from_slice(&8192_u16.to_le_bytes());
            (of[8], of[12]) = (16, 4);
            memory.put(config.parts.descriptors, &of);
            memory.put(8192, &entry);
        })
    };
    let entry = |flags: u8, next: u8| [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, flags, 0, next, 0];
    assert_eq!(table(entry(0, 0)), Ok(true));
    assert_eq!(table(entry(4, 0)), Err(RingFault::Indirect));
    assert_eq!(table(entry(1, 0)), Err(RingFault::Long));
    assert_eq!(table(entry(1, 1)), Err(RingFault::Number));
    let index = |index: u16, head: u16| {
        fault(false, |memory, config| {
            memory.put(config.parts.driver + 2, &index.to_le_bytes());
            memory.put(config.parts.driver + 4, &head.to_le_bytes());
        })
    };
    assert_eq!(index(9, 0), Err(RingFault::Index));
    assert_eq!(index(1, 8), Err(RingFault::Number));
    assert_eq!(index(0, 8), Ok(false));
    let packed = |at: u64, bytes: &[u8]| {
        fault(true, |memory, config| memory.put(config.parts.descriptors + at, bytes))
    };
    assert_eq!(packed(44, &[8, 0]), Err(RingFault::Number));
    assert_eq!(packed(14, &[0x85, 0]), Err(RingFault::Indirect));
    assert_eq!(packed(30, &[0x80 | 5, 0]), Err(RingFault::Indirect));
}

#[test]
fn a_chain_is_not_available_twice() {
    let mut driver = model(false, false);
    let mut ring = Ring::open(&driver.memory, &driver.config, None).unwrap();
    let head = driver.add(&PARTS, false).unwrap();
    assert_eq!(ring.take(&driver.memory, None, &mut Chain::default()), Ok(true));
    driver.memory.put(driver.config.parts.driver + 6, &head.to_le_bytes());
    driver.memory.put(driver.config.parts.driver + 2, &2_u16.to_le_bytes());
    assert_eq!(ring.take(&driver.memory, None, &mut Chain::default()), Err(RingFault::Twice));
}

#[test]
fn layouts_that_are_not_allowed_are_refused() {
    let driver = model(false, false);
    let open = |change: &dyn Fn(&mut RingConfig)| {
        let mut config = driver.config;
        change(&mut config);
        Ring::open(&driver.memory, &config, None).map(drop)
    };
    assert_eq!(open(&|_| {}), Ok(()));
    assert_eq!(open(&|config| config.size = 0), Err(RingFault::Layout));
    assert_eq!(open(&|config| config.size = 7), Err(RingFault::Layout));
    assert_eq!(open(&|config| config.size = 2048), Err(RingFault::Layout));
    assert_eq!(open(&|config| config.parts.driver += 1), Err(RingFault::Layout));
    assert_eq!(open(&|config| config.parts.device = 1 << 20), Err(RingFault::Outside));
    let far = u64::MAX - 3;
    assert_eq!(open(&|config| config.parts.device = far), Err(RingFault::Outside));
}

#[test]
fn parts_of_pieces_are_cut_where_asked() {
    let pieces = [Piece { at: 100, len: 10 }, Piece { at: 0, len: 0 }, Piece { at: 300, len: 5 }];
    let cut = |skip, len| part(&pieces, skip, len).map(|it| (it.at, it.len)).collect::<Vec<_>>();
    assert_eq!(cut(0, 100), [(100, 10), (300, 5)]);
    assert_eq!(cut(8, 4), [(108, 2), (300, 2)]);
    assert_eq!(cut(10, 1), [(300, 1)]);
    assert_eq!(cut(15, 1), []);
}

fn chain_of(readable: Vec<Piece>, writable: Vec<Piece>) -> Chain {
    let mut chain = Chain::default();
    (chain.readable, chain.writable) = (readable, writable);
    chain
}

#[test]
fn requests_of_block_devices_are_read_with_their_bounds() {
    let memory = Bytes::new(4096);
    let parse = |kind: u32, readable: &[u32], writable: &[u32]| {
        memory.put(0, &kind.to_le_bytes());
        memory.put(8, &5_u64.to_le_bytes());
        let pieces = |of: &[u32]| {
            let mut at = 0;
            let piece = |len: &u32| {
                let piece = Piece { at, len: *len };
                at += u64::from(*len);
                piece
            };
            of.iter().map(piece).collect()
        };
        let chain = chain_of(pieces(readable), pieces(writable));
        BlockRequest::parse(&memory, &chain)
    };
    let refused = |status| Some(BlockRequest::Refused(status));
    assert_eq!(parse(0, &[16], &[512, 1]), Some(BlockRequest::Read { sector: 5, bytes: 512 }));
    // A driver may divide the parts as it likes.
    assert_eq!(parse(0, &[8, 8], &[513]), Some(BlockRequest::Read { sector: 5, bytes: 512 }));
    assert_eq!(parse(1, &[16 + 512], &[1]), Some(BlockRequest::Write { sector: 5, bytes: 512 }));
    assert_eq!(parse(4, &[16], &[1]), Some(BlockRequest::Flush));
    assert_eq!(parse(8, &[16], &[20, 1]), Some(BlockRequest::GetId));
    assert_eq!(parse(11, &[16, 32], &[1]), Some(BlockRequest::Discard { ranges: 2 }));
    assert_eq!(parse(13, &[16, 16], &[1]), Some(BlockRequest::WriteZeroes { ranges: 1 }));
    assert_eq!(parse(0, &[16], &[]), None);
    assert_eq!(parse(0, &[16], &[0]), None);
    assert_eq!(parse(0, &[15], &[1]), refused(BlockStatus::IoError));
    assert_eq!(parse(0, &[17], &[1]), refused(BlockStatus::IoError));
    assert_eq!(parse(1, &[16], &[2]), refused(BlockStatus::IoError));
    assert_eq!(parse(8, &[16], &[20]), refused(BlockStatus::IoError));
    assert_eq!(parse(11, &[16, 15], &[1]), refused(BlockStatus::Unsupported));
    assert_eq!(parse(11, &[16, 17 * 16], &[1]), refused(BlockStatus::Unsupported));
    assert_eq!(parse(99, &[16], &[1]), refused(BlockStatus::Unsupported));
}

#[test]
fn the_status_is_the_last_byte_and_lengths_are_true() {
    let memory = Bytes::new(4096);
    let writable = vec![Piece { at: 100, len: 512 }, Piece { at: 700, len: 1 }];
    let chain = chain_of(Vec::new(), writable);
    assert_eq!(block::finish(&memory, &chain, BlockStatus::Ok, 512), Some(513));
    assert_eq!(memory.memory.0.borrow()[700], 0);
    assert_eq!(block::finish(&memory, &chain, BlockStatus::Unsupported, 0), Some(1));
    assert_eq!(memory.memory.0.borrow()[700], 2);
    let outside = chain_of(Vec::new(), vec![Piece { at: 4096, len: 1 }]);
    assert_eq!(block::finish(&memory, &outside, BlockStatus::Ok, 0), None);
}

#[test]
fn ranges_have_bounds() {
    let memory = Bytes::new(4096);
    let chain = chain_of(vec![Piece { at: 0, len: 32 }], Vec::new());
    let range = |sector: u64, sectors: u32, flags: u32, zeroes| {
        memory.put(16, &sector.to_le_bytes());
        memory.put(24, &sectors.to_le_bytes());
        memory.put(28, &flags.to_le_bytes());
        block::range(&memory, &chain, 0, zeroes)
    };
    let whole = block::Range { sector: 8, sectors: 16, unmap: true };
    assert_eq!(range(8, 16, 1, true), Ok(whole));
    assert_eq!(range(8, 16, 1, false), Err(BlockStatus::Unsupported));
    assert_eq!(range(8, 16, 2, true), Err(BlockStatus::Unsupported));
    assert_eq!(range(u64::MAX, 16, 0, true), Err(BlockStatus::IoError));
    assert_eq!(range(0, u32::MAX, 0, true), Err(BlockStatus::IoError));
    assert_eq!(block::range(&memory, &chain, 1, true), Err(BlockStatus::IoError));
}

#[test]
fn the_configuration_is_laid_out_as_the_structure() {
    let config = BlockConfig {
        capacity: 4096,
        size_max: 1 << 20,
        seg_max: 126,
        block_bytes: 4096,
        optimal_blocks: 2,
        writeback: true,
        queues: 3,
        may_unmap: true,
    };
    let bytes = config.encode();
    assert_eq!((BlockConfig::capacity_of(&bytes), BlockConfig::queues_of(&bytes)), (4096, 3));
    assert_eq!(
        (bytes[20..24].to_vec(), bytes[26], bytes[32], bytes[44], bytes[56]),
        (vec![0, 16, 0, 0], 2, 1, 8, 1)
    );
}
