//! Operations in flight, under names that are not reused while a completion for them may still
//! arrive.

/// Values under keys. A key is an index and the number of times that the index was used before.
pub(super) struct Slab<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Values held.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, value: T) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(value);
        u64::from(index) | u64::from(slot.0) << 32
    }

    pub(super) fn value_mut(&mut self, key: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        if slot.0 == (key >> 32) as u32 { slot.1.as_mut() } else { None }
    }

    pub(super) fn remove(&mut self, key: u64) -> Option<T> {
        self.value_mut(key)?;
        let slot = &mut self.slots[key as u32 as usize];
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(key as u32);
        slot.1.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_die_with_their_values() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.len(), slab.remove(a), slab.remove(a)), (2, Some('a'), None));
        let c = slab.insert('c');
        assert_ne!(c, a);
        assert_eq!([a, c, 99].map(|key| slab.value_mut(key).copied()), [None, Some('c'), None]);
        assert_eq!((slab.remove(b), slab.len()), (Some('b'), 1));
    }
}
