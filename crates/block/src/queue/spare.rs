//! Lists of operations and completions that are empty between two turns of their owner. In the
//! meantime their memory belongs to all owners on the thread. So a thousand quiet connections hold
//! none, and those that are busy work in memory that is still in the caches.

use crate::op::{Completion, Op};
use std::cell::RefCell;
use std::collections::VecDeque;

/// A list with room for at most this many entries keeps its memory.
const KEPT_ENTRIES: usize = 8;

/// Lists that a thread keeps for whoever needs one, of each kind; further ones are freed.
const SPARES_MAX: usize = 8;

thread_local! {
    static COMPLETIONS: RefCell<Vec<Vec<Completion>>> = const { RefCell::new(Vec::new()) };
    static OPS: RefCell<Vec<VecDeque<Op>>> = const { RefCell::new(Vec::new()) };
}

/// A list whose memory can be passed on.
pub trait Spare: Sized {
    #[doc(hidden)]
    fn room(&self) -> usize;
    #[doc(hidden)]
    fn has_none(&self) -> bool;
    #[doc(hidden)]
    fn with_spares<R>(use_them: impl FnOnce(&mut Vec<Self>) -> R) -> Option<R>;
}

macro_rules! spares {
    ($($list:ty: $spares:ident),*) => {$(
        impl Spare for $list {
            #[inline]
            fn room(&self) -> usize {
                self.capacity()
            }

            #[inline]
            fn has_none(&self) -> bool {
                self.is_empty()
            }

            #[inline]
            fn with_spares<R>(use_them: impl FnOnce(&mut Vec<Self>) -> R) -> Option<R> {
                $spares.try_with(|spares| use_them(&mut spares.borrow_mut())).ok()
            }
        }
    )*};
}

spares!(Vec<Completion>: COMPLETIONS, VecDeque<Op>: OPS);

/// Gives the list memory, if there is some and it has none. Call it before entries are added.
#[inline]
pub fn provide<L: Spare>(list: &mut L) {
    if list.room() == 0
        && let Some(Some(spare)) = L::with_spares(Vec::pop)
    {
        *list = spare;
    }
}

/// Takes the memory of a list that is empty, but for that of a short one. Call it after entries
/// were taken.
#[inline]
pub fn release<L: Spare + Default>(list: &mut L) {
    if list.has_none() && list.room() > KEPT_ENTRIES {
        let spare = core::mem::take(list);
        L::with_spares(|spares| {
            if spares.len() < SPARES_MAX {
                spares.push(spare);
            }
        });
    }
}

/// Appends all of `from` to `to`, and releases `from`.
#[inline]
pub fn append(to: &mut Vec<Completion>, from: &mut Vec<Completion>) {
    if to.is_empty() && !from.is_empty() {
        core::mem::swap(to, from);
    } else {
        to.append(from);
    }
    release(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{OpKind, Outcome};
    use weft_io::Segments;

    fn completions(count: u64) -> Vec<Completion> {
        let op = |user| Op::new(OpKind::Flush, 0, 0, user, Segments::new());
        (0..count).map(|user| op(user).done(Outcome::SUCCESS)).collect()
    }

    fn users(list: &[Completion]) -> Vec<u64> {
        list.iter().map(|completion| completion.op.user).collect()
    }

    #[test]
    fn memory_of_an_empty_list_goes_to_the_next_owner() {
        let (mut first, mut second) = (completions(100), Vec::new());
        release(&mut first);
        assert_eq!(first.len(), 100, "it is in use");
        let memory = first.as_ptr();
        first.clear();
        release(&mut first);
        assert_eq!(first.capacity(), 0);
        provide(&mut second);
        assert_eq!((second.as_ptr(), second.is_empty()), (memory, true));
        provide(&mut first);
        assert_eq!(first.capacity(), 0, "there is none");
    }

    #[test]
    fn a_short_list_keeps_its_memory() {
        let mut list = completions(1);
        list.clear();
        release(&mut list);
        assert!(list.capacity() > 0);
    }

    #[test]
    fn spares_are_bounded() {
        for _ in 0..2 * SPARES_MAX {
            release(&mut Vec::<Completion>::with_capacity(100));
            release(&mut VecDeque::<Op>::with_capacity(100));
        }
        let (mut lists, mut ops) = (0, 0);
        while Vec::<Completion>::with_spares(Vec::pop).flatten().is_some() {
            lists += 1;
        }
        while VecDeque::<Op>::with_spares(Vec::pop).flatten().is_some() {
            ops += 1;
        }
        assert_eq!((lists, ops), (SPARES_MAX, SPARES_MAX));
    }

    #[test]
    fn all_entries_are_appended_in_order() {
        let (mut to, mut from) = (Vec::new(), completions(20));
        append(&mut to, &mut from);
        assert_eq!(users(&to), (0..20).collect::<Vec<_>>());
        let mut more = completions(3);
        append(&mut to, &mut more);
        assert_eq!((users(&to[20..]), more.len()), (vec![0, 1, 2], 0));
        to.clear();
        append(&mut to, &mut Vec::new());
        assert!(to.capacity() > 0, "nothing came, so it keeps its memory");
    }
}
