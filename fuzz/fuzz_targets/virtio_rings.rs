//! Rings in memory that the driver fills as it likes, at any time, and a record of what is in
//! flight that somebody damages.

use std::cell::RefCell;
use weft_fuzz::Input;
use weft_proto::limits::VIRTIO_CHAIN_PIECES_MAX;
use weft_proto::virtio::block::{BlockRequest, BlockStatus, finish, range};
use weft_proto::virtio::chain::Chain;
use weft_proto::virtio::parts::Parts;
use weft_proto::virtio::ring::{Ring, RingConfig};
use weft_proto::virtio::{Outside, SharedMemory};

const BYTES: usize = 4096;

/// Memory of a guest.
struct Guest(RefCell<Vec<u8>>);

impl Guest {
    fn new() -> Self {
        Self(RefCell::new(vec![0; BYTES]))
    }

    fn scribble(&self, input: &mut Input) {
        let at = input.below(BYTES);
        let bytes = input.bytes(BYTES - at);
        self.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
    }
}

impl SharedMemory for Guest {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        let (bytes, at) = (self.0.borrow(), usize::try_from(at).map_err(|_| Outside)?);
        let end = at.checked_add(into.len()).ok_or(Outside)?;
        into.copy_from_slice(bytes.get(at..end).ok_or(Outside)?);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        let (mut bytes, at) = (self.0.borrow_mut(), usize::try_from(at).map_err(|_| Outside)?);
        let end = at.checked_add(from.len()).ok_or(Outside)?;
        bytes.get_mut(at..end).ok_or(Outside)?.copy_from_slice(from);
        Ok(())
    }

    fn load(&self, at: u64) -> Result<u16, Outside> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        if at.is_multiple_of(2) { Ok(u16::from_le_bytes(bytes)) } else { Err(Outside) }
    }

    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        if at.is_multiple_of(2) { self.write(at, &value.to_le_bytes()) } else { Err(Outside) }
    }
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (guest, record) = (Guest::new(), Guest::new());
    let is_packed = input.one_in(2);
    let with_record = input.one_in(2);
    let parts = Parts { descriptors: 0, driver: 1024, device: 2048 };
    let config = RingConfig {
        parts,
        size: 1 << input.below(5),
        is_packed,
        events: input.one_in(2),
        base: if is_packed { 0x8000_8000 } else { 0 },
    };
    let mut taken: Vec<Chain> = Vec::new();
    let records = with_record.then_some(&record as &dyn SharedMemory);
    let open = || Ring::open(&guest, &config, records.map(|of| (of, 64)));
    let Ok(mut ring) = open() else { return };
    while !input.is_empty() {
        let outcome = match input.below(8) {
            0 | 1 => Ok(guest.scribble(&mut input)),
            2 if with_record => Ok(record.scribble(&mut input)),
            3 if with_record => {
                // The process ends, and another one goes on.
                taken.clear();
                open().map(|next| ring = next)
            }
            4 if !taken.is_empty() => {
                let chain = taken.swap_remove(input.below(taken.len()));
                let written = finish(&guest, &chain, BlockStatus::Ok, 0).unwrap_or(0);
                ring.give(&guest, records, &chain, written)
            }
            5 => ring.notifies(&guest).map(drop),
            6 => ring.listen(&guest, input.one_in(2)),
            _ => {
                let mut chain = Chain::default();
                ring.take(&guest, records, &mut chain).map(|is_one| {
                    if is_one {
                        let pieces = chain.readable.len() + chain.writable.len();
                        assert!(pieces <= VIRTIO_CHAIN_PIECES_MAX);
                        if let Some(BlockRequest::Discard { ranges }) =
                            BlockRequest::parse(&guest, &chain)
                        {
                            (0..ranges).for_each(|n| _ = range(&guest, &chain, n, false));
                        }
                        taken.push(chain);
                    }
                })
            }
        };
        assert!(taken.len() <= usize::from(config.size));
        if outcome.is_err() {
            return;
        }
    }
}
