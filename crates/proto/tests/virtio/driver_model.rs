//! A driver with its memory, as simple as can be: the other side of rings in tests.

use weft_proto::virtio::parts::Parts;
use weft_proto::virtio::ring::{RingConfig, part_bytes};

/// Memory of a guest, as its driver has it: all of it is there.
pub(super) trait DriverMemory {
    fn put(&self, at: u64, from: &[u8]);
    fn get(&self, at: u64, into: &mut [u8]);

    fn get16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.get(at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn get32(&self, at: u64) -> u32 {
        u32::from(self.get16(at)) | u32::from(self.get16(at + 2)) << 16
    }
}

/// A part of a chain: address, bytes, and whether the device writes to it.
pub(super) type Part = (u64, u32, bool);

/// See the module.
pub(super) struct DriverModel<M> {
    pub memory: M,
    pub config: RingConfig,
    /// Descriptors of each chain under way, by its name.
    chains: Vec<Option<u16>>,
    free: u16,
    next: (u16, bool),
    used: (u16, bool),
    available: u16,
    tables: u64,
}

impl<M: DriverMemory> DriverModel<M> {
    pub(super) fn new(memory: M, size: u16, is_packed: bool, events: bool) -> Self {
        let [(d, _), (v, _), _] = part_bytes(size, is_packed);
        let driver = (4096 + d).next_multiple_of(16);
        let parts = Parts { descriptors: 4096, driver, device: (driver + v).next_multiple_of(16) };
        let base = if is_packed { 0x8000_8000 } else { 0 };
        Self {
            memory,
            config: RingConfig { parts, size, is_packed, events, base },
            chains: vec![None; size.into()],
            free: size,
            next: (0, true),
            used: (0, true),
            available: 0,
            tables: 16384,
        }
    }

    fn descriptor(&self, at: u64, part: Part, next: Option<u16>, more: u16) {
        let (address, len, writes) = part;
        let flags = u16::from(next.is_some()) | u16::from(writes) << 1 | more;
        let number = next.unwrap_or_default();
        self.memory.put(at, &address.to_le_bytes());
        self.memory.put(at + 8, &len.to_le_bytes());
        let last = if self.config.is_packed { [number, flags] } else { [flags, number] };
        self.memory.put(at + 12, &last[0].to_le_bytes());
        self.memory.put(at + 14, &last[1].to_le_bytes());
    }

    /// Makes a chain available; its name, unless there is no room.
    pub(super) fn add(&mut self, parts: &[Part], indirect: bool) -> Option<u16> {
        let count = if indirect { 1 } else { parts.len() as u16 };
        if count > self.free {
            return None;
        }
        let table = self.tables;
        let place = |n: usize| table + 16 * n as u64;
        let whole = [(table, 16 * parts.len() as u32, false)];
        if indirect {
            self.tables = 16384 + (table - 16384 + 1024) % 32768;
            for (n, part) in parts.iter().enumerate() {
                let next = (n + 1 < parts.len()).then_some(n as u16 + 1);
                self.descriptor(place(n), *part, next.filter(|_| !self.config.is_packed), 0);
            }
        }
        let (parts, more) = if indirect { (&whole[..], 4) } else { (parts, 0) };
        let name = match self.config.is_packed {
            true => self.put_packed(parts, more),
            false => self.put_split(parts, more),
        };
        self.free -= count;
        self.chains[usize::from(name)] = Some(count);
        Some(name)
    }

    fn put_split(&mut self, parts: &[Part], more: u16) -> u16 {
        // Chains have as many descriptors as they need from a place that no other chain has.
        let size = self.config.size;
        let taken: Vec<u16> = (0..size)
            .filter(|at| {
                self.chains.iter().enumerate().any(|(head, count)| {
                    count.is_some_and(|count| (head as u16..head as u16 + count).contains(at))
                })
            })
            .collect();
        let count = parts.len() as u16;
        let head = (0..=size - count)
            .find(|head| (*head..head + count).all(|at| !taken.contains(&at)))
            .expect("tests keep to chains of one length");
        for (n, part) in parts.iter().enumerate() {
            let at = head + n as u16;
            let next = (n + 1 < parts.len()).then_some(at + 1);
            self.descriptor(self.config.parts.descriptors + 16 * u64::from(at), *part, next, more);
        }
        let driver = self.config.parts.driver;
        self.memory.put(driver + 4 + 2 * u64::from(self.available % size), &head.to_le_bytes());
        self.available = self.available.wrapping_add(1);
        self.memory.put(driver + 2, &self.available.to_le_bytes());
        head
    }

    fn put_packed(&mut self, parts: &[Part], more: u16) -> u16 {
        let name = self.chains.iter().position(Option::is_none).unwrap() as u16;
        let mut flags_of_first = None;
        for (n, part) in parts.iter().enumerate() {
            let (index, wrap) = self.next;
            let at = self.config.parts.descriptors + 16 * u64::from(index);
            let turn = if wrap { 1 << 7 } else { 1 << 15 };
            let flags = turn | more | u16::from(part.2) << 1 | u16::from(n + 1 < parts.len());
            self.memory.put(at, &part.0.to_le_bytes());
            self.memory.put(at + 8, &part.1.to_le_bytes());
            self.memory.put(at + 12, &name.to_le_bytes());
            match n {
                0 => flags_of_first = Some((at + 14, flags)),
                _ => self.memory.put(at + 14, &flags.to_le_bytes()),
            }
            self.next = step(self.next, 1, self.config.size);
        }
        let (at, flags) = flags_of_first.unwrap();
        self.memory.put(at, &flags.to_le_bytes());
        name
    }

    /// The next chain that was used, and its length.
    pub(super) fn used(&mut self) -> Option<(u16, u32)> {
        let Parts { descriptors, device, .. } = self.config.parts;
        let size = self.config.size;
        let (name, len) = if self.config.is_packed {
            let at = descriptors + 16 * u64::from(self.used.0);
            let flags = self.memory.get16(at + 14);
            let wrap = self.used.1;
            if (flags >> 7 & 1 != 0, flags >> 15 != 0) != (wrap, wrap) {
                return None;
            }
            (self.memory.get16(at + 12), self.memory.get32(at + 8))
        } else {
            if self.memory.get16(device + 2) == self.used.0 {
                return None;
            }
            let at = device + 4 + 8 * u64::from(self.used.0 % size);
            self.used.0 = self.used.0.wrapping_add(1);
            (self.memory.get32(at) as u16, self.memory.get32(at + 4))
        };
        let count = self.chains[usize::from(name)].take().expect("it is used once");
        self.free += count;
        if self.config.is_packed {
            self.used = step(self.used, count, size);
        }
        Some((name, len))
    }

    /// Returns whether the device is notified of the chain that is added next.
    #[allow(dead_code, reason = "monitors always notify")]
    pub(super) fn is_asked(&self) -> bool {
        let Parts { device, .. } = self.config.parts;
        match (self.config.is_packed, self.config.events) {
            (false, false) => self.memory.get16(device) & 1 == 0,
            (false, true) => {
                self.memory.get16(device + 4 + 8 * u64::from(self.config.size)) == self.available
            }
            (true, false) => self.memory.get16(device + 2) == 0,
            (true, true) => {
                let next = self.next.0 | u16::from(self.next.1) << 15;
                (self.memory.get16(device), self.memory.get16(device + 2)) == (next, 2)
            }
        }
    }

    /// Wants to be notified of the next used chain, or of none.
    pub(super) fn listen(&self, wanted: bool) {
        let Parts { driver, .. } = self.config.parts;
        match (self.config.is_packed, self.config.events, wanted) {
            (false, false, _) => self.memory.put(driver, &u16::from(!wanted).to_le_bytes()),
            (false, true, true) => {
                let event = driver + 4 + 2 * u64::from(self.config.size);
                self.memory.put(event, &self.used.0.to_le_bytes());
            }
            (false, true, false) => {}
            (true, true, true) => {
                let bits = self.used.0 | u16::from(self.used.1) << 15;
                self.memory.put(driver, &bits.to_le_bytes());
                self.memory.put(driver + 2, &2_u16.to_le_bytes());
            }
            (true, _, _) => self.memory.put(driver + 2, &u16::from(!wanted).to_le_bytes()),
        }
    }
}

fn step((index, wrap): (u16, bool), by: u16, size: u16) -> (u16, bool) {
    let next = index + by;
    if next >= size { (next - size, !wrap) } else { (next, wrap) }
}
