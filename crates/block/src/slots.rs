//! A table of operations in flight. Names are small numbers, used again as soon as they are free.

/// Values under the numbers that [`Slots::insert`] gave them.
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Values held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, value: T) -> u64 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(value);
                u64::from(index)
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() as u64 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, name: u64) -> Option<T> {
        let value = self.slots.get_mut(usize::try_from(name).ok()?)?.take()?;
        self.free.push(name as u32);
        Some(value)
    }

    /// Takes all values out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_once() {
        let mut slots = Slots::new();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_eq!((slots.remove(a), slots.remove(a), slots.remove(9), slots.len()), (Some('a'), None, None, 1));
        assert_eq!((slots.insert('c'), slots.remove(b)), (a, Some('b')));
        assert_eq!((slots.drain().collect::<String>(), slots.len()), ("c".into(), 0));
    }
}
