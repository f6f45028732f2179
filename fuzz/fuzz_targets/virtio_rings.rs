//! Rings in memory that the driver fills as it likes, at any time, and a record of what is in
//! flight that somebody damages.

#[path = "../../crates/proto/tests/virtio/plain_memory.rs"]
mod plain_memory;

use plain_memory::PlainMemory;
use weft_fuzz::Input;
use weft_proto::limits::VIRTIO_CHAIN_PIECES_MAX;
use weft_proto::virtio::SharedMemory;
use weft_proto::virtio::block::{BlockRequest, BlockStatus, finish, range};
use weft_proto::virtio::chain::Chain;
use weft_proto::virtio::parts::Parts;
use weft_proto::virtio::ring::{Ring, RingConfig};

const BYTES: usize = 4096;

fn scribble(memory: &PlainMemory, input: &mut Input) {
    let at = input.below(BYTES);
    let bytes = input.bytes(BYTES - at);
    memory.0.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let [guest, record] = [(); 2].map(|()| PlainMemory::new(BYTES));
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
            0 | 1 => Ok(scribble(&guest, &mut input)),
            2 if with_record => Ok(scribble(&record, &mut input)),
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
