//! A table of operations in flight. Their names are small numbers, which are reused; it grows to
//! the greatest number of operations at a time.

/// Values under the numbers that [`Slots::insert`] returned.
pub struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slots<T> {
    /// Number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a value in, and gives its name.
    #[inline]
    pub fn insert(&mut self, value: T) -> u64 {
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

    /// Takes a value out. Its name is free for another one.
    #[inline]
    pub fn remove(&mut self, name: u64) -> Option<T> {
        let value = self.slots.get_mut(usize::try_from(name).ok()?)?.take()?;
        self.free.push(name as u32);
        Some(value)
    }

    /// The value of a name.
    pub fn get(&self, name: u64) -> Option<&T> {
        self.slots.get(usize::try_from(name).ok()?)?.as_ref()
    }

    /// The value of a name.
    #[inline]
    pub fn get_mut(&mut self, name: u64) -> Option<&mut T> {
        self.slots.get_mut(usize::try_from(name).ok()?)?.as_mut()
    }

    /// The values.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> + '_ {
        self.slots.iter_mut().flatten()
    }

    /// The values with their names.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> + '_ {
        (0..).zip(&mut self.slots).filter_map(|(name, slot)| Some((name, slot.as_mut()?)))
    }

    /// The names in use.
    pub fn names(&self) -> impl Iterator<Item = u64> + '_ {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.is_some()).map(|(name, _)| name)
    }

    /// The name of the first value that `is_it` accepts.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<u64> {
        let accepted = |slot: &Option<T>| slot.as_ref().is_some_and(&is_it);
        self.slots.iter().position(accepted).map(|index| index as u64)
    }

    /// Removes all values.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        self.free.clear();
        self.slots.drain(..).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_once() {
        let mut slots = Slots::default();
        let (a, b) = (slots.insert('a'), slots.insert('b'));
        assert_eq!(
            (slots.remove(a), slots.remove(a), slots.remove(9), slots.len()),
            (Some('a'), None, None, 1)
        );
        assert_eq!((slots.insert('c'), slots.remove(b)), (a, Some('b')));
        assert_eq!(
            (
                slots.find(|&v| v == 'c'),
                slots.find(|&v| v == 'b'),
                slots.names().collect::<Vec<_>>()
            ),
            (Some(a), None, vec![a])
        );
        assert_eq!((slots.drain().collect::<String>(), slots.len()), ("c".into(), 0));
    }
}
