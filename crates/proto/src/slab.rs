//! An engine's state of each command in flight: slots under tags.

use crate::stream::Tag;

/// A slot of a slab.
pub(crate) trait SlabSlot {
    /// A free slot that was never in use.
    fn new(tag: Tag) -> Self;

    /// The slot is taken: it forgets what it was about, as far as that matters.
    fn begin(&mut self);

    /// The slot is free again.
    fn end(&mut self);

    /// Returns whether the slot is free.
    fn is_free(&self) -> bool;
}

/// Slots under tags. The memory of slots that were never in use is not touched, and the slot that
/// became free last is taken first, as its memory is the warmest.
pub(crate) struct Slab<S> {
    slots: Vec<S>,
    free: Vec<Tag>,
    capacity: usize,
}

impl<S: SlabSlot> Slab<S> {
    /// Room for `capacity` slots, at least one. Their memory is taken as they are first used, or
    /// all at once by [`Self::reserve`].
    pub(crate) fn new(capacity: u16) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), capacity: usize::from(capacity.max(1)) }
    }

    /// Takes the memory for all slots.
    pub(crate) fn reserve(&mut self) {
        self.slots.reserve_exact(self.capacity - self.slots.len());
        self.free.reserve_exact(self.capacity - self.free.len());
    }

    /// Makes room for `capacity` slots, and takes their memory; never for fewer than there were.
    pub(crate) fn grow(&mut self, capacity: u16) {
        self.capacity = self.capacity.max(capacity.into());
        self.reserve();
    }

    /// Slots, at most.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Slots in use.
    pub(crate) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns whether all slots are in use.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.capacity
    }

    /// Takes a slot, unless all are in use.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(Tag, &mut S)> {
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None => self.push()?,
        };
        let slot = self.slots.get_mut(tag.index())?;
        slot.begin();
        Some((tag, slot))
    }

    #[cold]
    fn push(&mut self) -> Option<Tag> {
        if self.slots.len() == self.capacity {
            return None;
        }
        let tag = Tag(self.slots.len() as u16);
        self.slots.push(S::new(tag));
        Some(tag)
    }

    /// Gives a slot back, if it is in use.
    #[inline]
    pub(crate) fn give_back(&mut self, tag: Tag) {
        if let Some(slot) = self.slots.get_mut(tag.index()).filter(|slot| !slot.is_free()) {
            slot.end();
            self.free.push(tag);
        }
    }

    /// The slot of a tag, if it was ever in use.
    #[inline]
    pub(crate) fn at(&mut self, tag: Tag) -> Option<&mut S> {
        self.slots.get_mut(tag.index())
    }

    /// The slot of a tag, if it was ever in use.
    #[inline]
    pub(crate) fn peek(&self, tag: Tag) -> Option<&S> {
        self.slots.get(tag.index())
    }

    /// All tags that were ever in use.
    pub(crate) fn tags(&self) -> impl Iterator<Item = Tag> + use<S> {
        (0..self.slots.len() as u16).map(Tag)
    }

    /// The slots in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = (Tag, &S)> {
        (0..).map(Tag).zip(&self.slots).filter(|(_, slot)| !slot.is_free())
    }

    /// The slots in use.
    pub(crate) fn used_mut(&mut self) -> impl Iterator<Item = (Tag, &mut S)> {
        (0..).map(Tag).zip(&mut self.slots).filter(|(_, slot)| !slot.is_free())
    }
}

/// Further entries of the slots of a slab, the same number for each.
pub(crate) struct Entries<E> {
    entries: Vec<E>,
    per_slot: u8,
}

impl<E: Clone + Default> Entries<E> {
    /// `per_slot` entries, at least one, for each slot that [`Self::cover`] covers.
    pub(crate) fn new(per_slot: u8) -> Self {
        Self { entries: Vec::new(), per_slot: per_slot.max(1) }
    }

    /// Takes the memory for the entries of `slots` slots.
    pub(crate) fn reserve(&mut self, slots: usize) {
        self.entries
            .reserve_exact((slots * usize::from(self.per_slot)).saturating_sub(self.entries.len()));
    }

    /// Entries of a slot.
    #[inline]
    pub(crate) fn per_slot(&self) -> u8 {
        self.per_slot
    }

    /// The slot of this tag is in use, and has entries from now on.
    #[inline]
    pub(crate) fn cover(&mut self, tag: Tag) {
        if self.entries.len() <= self.place(tag) {
            self.extend(tag);
        }
    }

    #[cold]
    fn extend(&mut self, tag: Tag) {
        self.entries.resize(self.place(tag) + usize::from(self.per_slot), E::default());
    }

    #[inline]
    fn place(&self, tag: Tag) -> usize {
        tag.index() * usize::from(self.per_slot)
    }

    /// Entry `n` of a slot that was ever in use.
    #[inline]
    pub(crate) fn at(&mut self, tag: Tag, n: u8) -> Option<&mut E> {
        if n >= self.per_slot {
            return None;
        }
        let place = self.place(tag) + usize::from(n);
        self.entries.get_mut(place)
    }
}

/// Which of a slot's [`Entries`] are in use, when they are taken and given back in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EntriesInUse {
    first: u8,
    count: u8,
}

impl EntriesInUse {
    /// No entry is in use.
    pub(crate) const EMPTY: Self = Self { first: 0, count: 0 };

    /// Entries in use.
    #[inline]
    pub(crate) const fn len(self) -> u8 {
        self.count
    }

    /// The entry that was taken first, if any is in use.
    #[inline]
    pub(crate) fn first(self) -> Option<u8> {
        (self.count > 0).then_some(self.first)
    }

    /// Takes the next of `per_slot` entries, fewer than which are in use.
    #[inline]
    pub(crate) const fn push(&mut self, per_slot: u8) -> u8 {
        let next = (self.first + self.count) % per_slot;
        self.count += 1;
        next
    }

    /// Gives the entry back that was taken first, if any is in use.
    #[inline]
    pub(crate) const fn pop(&mut self, per_slot: u8) {
        if self.count > 0 {
            self.first = (self.first + 1) % per_slot;
            self.count -= 1;
        }
    }

    /// Gives all entries back.
    #[inline]
    pub(crate) const fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Use {
        times: u32,
        free: bool,
    }

    impl SlabSlot for Use {
        fn new(_: Tag) -> Self {
            Self { times: 0, free: true }
        }

        fn begin(&mut self) {
            *self = Self { times: self.times + 1, free: false };
        }

        fn end(&mut self) {
            self.free = true;
        }

        fn is_free(&self) -> bool {
            self.free
        }
    }

    #[test]
    fn memory_is_reserved_once() {
        let (mut slots, mut entries) = (Slab::<Use>::new(0), Entries::<u8>::new(3));
        assert_eq!(slots.capacity(), 1);
        slots.grow(1000);
        slots.grow(4);
        entries.reserve(slots.capacity());
        let before = (slots.slots.as_ptr(), slots.free.as_ptr(), entries.entries.as_ptr());
        for _ in 0..2 {
            let tags: Vec<_> = (0..1000).map(|_| slots.take().unwrap().0).collect();
            tags.iter().for_each(|tag| entries.cover(*tag));
            assert!(slots.take().is_none() && slots.is_full());
            tags.into_iter().for_each(|tag| slots.give_back(tag));
        }
        assert_eq!((slots.slots.as_ptr(), slots.free.as_ptr(), entries.entries.as_ptr()), before);
        assert_eq!((slots.capacity(), slots.in_use(), slots.tags().count()), (1000, 0, 1000));
    }

    #[test]
    fn a_slot_is_given_back_once_and_taken_again_first() {
        let mut slots = Slab::<Use>::new(3);
        let [a, b] = [(); 2].map(|()| slots.take().unwrap().0);
        slots.give_back(a);
        slots.give_back(a);
        slots.give_back(Tag(9));
        assert_eq!(
            (slots.in_use(), slots.used().map(|(tag, _)| tag).collect::<Vec<_>>()),
            (1, vec![b])
        );
        assert_eq!(slots.take(), Some((a, &mut Use { times: 2, free: false })));
        assert_eq!(slots.used_mut().count(), 2);
    }

    #[test]
    fn entries_belong_to_their_slots() {
        let mut entries = Entries::<u8>::new(2);
        assert_eq!(entries.at(Tag(1), 0), None);
        entries.cover(Tag(1));
        *entries.at(Tag(1), 1).unwrap() = 7;
        assert_eq!(
            [(0, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
                .map(|(tag, n)| entries.at(Tag(tag), n).copied()),
            [Some(0), Some(0), Some(7), None, None]
        );
    }

    #[test]
    fn entries_are_used_in_turn() {
        let mut turn = EntriesInUse::default();
        assert_eq!(
            (turn.first(), turn.push(2), turn.push(2), turn.first(), turn.len()),
            (None, 0, 1, Some(0), 2)
        );
        turn.pop(2);
        assert_eq!((turn.push(2), turn.first()), (0, Some(1)));
        turn.clear();
        turn.pop(2);
        assert_eq!((turn.len(), turn.first()), (0, None));
    }
}
