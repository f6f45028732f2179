//! The disks of the legs, and what their labels say.

use crate::config::Config;
use crate::stamp::UNIT_BYTES;
use crate::store::BlockStore;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::mirror::admin::{self, Holding, Label};
use weft_io::Time;
use weft_io::sim::Rng;

/// Bytes of a region of a small mirror.
const REGION_BYTES: u64 = 64 << 10;

/// What a mirror keeps of each leg.
const RESERVED_BYTES: u64 = 1 << 20;

/// Bytes of a state file.
const STATE_BYTES: usize = 64 << 10;

/// See the module.
pub(super) struct Disks {
    pub stores: Vec<Arc<BlockStore>>,
    pub state: Option<Arc<BlockStore>>,
    /// Legs that have to be in sync.
    pub min_legs: usize,
    /// Bytes of the data.
    pub data_bytes: u64,
    block_bytes: u32,
    /// By leg, in bytes.
    sizes: Vec<u64>,
}

impl Disks {
    /// Disks with the labels of a mirror that was made just now.
    pub fn new(config: &Config, rng: &mut Rng) -> Self {
        let block_bytes = config.block_bytes;
        let used = u64::from(config.blocks()) * u64::from(block_bytes);
        let data_bytes = used.next_multiple_of(REGION_BYTES) + REGION_BYTES;
        let sizes: Vec<u64> = (0..config.targets)
            .map(|_| data_bytes + RESERVED_BYTES + rng.below(2) * 4096)
            .collect();
        let min_legs = if rng.one_in(4) {
            rng.within(1, config.targets as u64) as usize
        } else {
            config.targets - 1
        };
        let uuid = Uuid::from_u128(u128::from(rng.bits()));
        let areas =
            admin::create(uuid, &sizes, Some(min_legs), block_bytes, rng.bits(), Holding::Anything)
                .expect("a mirror");
        let stores = sizes
            .iter()
            .map(|bytes| BlockStore::of(rng.bits(), config, bytes / u64::from(block_bytes)))
            .collect();
        let durable = Config { volatile: false, ..config.clone() };
        let state = (!rng.one_in(3)).then(|| {
            BlockStore::of(rng.bits(), &durable, STATE_BYTES as u64 / u64::from(block_bytes))
        });
        let disks = Self { stores, state, min_legs, data_bytes, block_bytes, sizes };
        for (leg, area) in areas.iter().enumerate() {
            let first = disks.area(leg).0;
            disks.stores[leg].put(first, area);
            disks.stores[leg].tears_from(first, Rng::new(uuid.as_u128() as u64 ^ leg as u64));
        }
        disks
    }

    /// The first block of an area, and its bytes.
    fn area(&self, leg: usize) -> (u64, usize) {
        let (offset, bytes) = admin::area(self.sizes[leg]).expect("the leg is large enough");
        (offset / u64::from(self.block_bytes), bytes)
    }

    /// The state file is lost.
    pub fn lose_state(&self) {
        if let Some(state) = &self.state {
            state.put(0, &vec![0; STATE_BYTES]);
        }
    }

    /// Returns the label of a leg, as far as it is executed.
    pub fn label(&self, leg: usize) -> Option<Label> {
        let (lba, bytes) = self.area(leg);
        let blocks = bytes as u64 / u64::from(self.block_bytes);
        let area = self.stores[leg].peek_all(lba..lba + blocks, Time::ZERO);
        admin::label("leg", &area, self.block_bytes).ok().flatten()
    }

    fn newest(&self) -> Option<Label> {
        let labels = (0..self.stores.len()).filter_map(|leg| self.label(leg));
        labels.filter(|label| !label.is_syncing).max_by_key(|label| label.generation)
    }

    /// The legs in sync, by the newest label.
    pub fn in_sync(&self) -> Vec<usize> {
        self.newest().map(|label| label.in_sync).unwrap_or_default()
    }

    /// Returns whether the labels of all legs in sync say that this one is not.
    pub fn is_excluded(&self, leg: usize) -> bool {
        let Some(newest) = self.newest() else { return false };
        let says = |other: &usize| {
            self.label(*other).is_some_and(|label| label.generation == newest.generation)
        };
        !newest.in_sync.contains(&leg) && newest.in_sync.iter().all(says)
    }

    /// Returns whether nothing is left of what any process has asked of the state file.
    pub fn is_state_idle(&self, now: Time) -> bool {
        self.state.iter().all(|store| store.is_idle(now))
    }

    /// The name of the oldest write of data that a leg has not executed yet.
    pub fn held_write(&self, leg: usize, now: Time) -> Option<u64> {
        let blocks = 0..self.data_bytes / u64::from(self.block_bytes);
        self.stores[leg].oldest_write(blocks, now)
    }

    /// The data of a leg, in units.
    pub fn data(&self, leg: usize, now: Time) -> Vec<u8> {
        self.stores[leg].peek_all(0..self.data_bytes / u64::from(self.block_bytes), now)
    }

    /// Units of the data.
    pub fn units(data: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
        (0..).zip(data.chunks(UNIT_BYTES))
    }
}
