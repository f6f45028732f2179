//! Who may do something.

use std::collections::BTreeSet;

/// Names that may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access<T> {
    /// Whoever it is.
    #[default]
    Any,
    /// These, and nobody else.
    Only(BTreeSet<T>),
}

impl<T: Ord + Clone> Access<T> {
    /// Whether `name` may.
    pub fn allows(&self, name: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(name),
        }
    }

    /// `name` may from now on. Where anybody may, nothing changes.
    pub fn allow(&mut self, name: T) {
        if let Self::Only(names) = self {
            names.insert(name);
        }
    }

    /// `name` may not any more; where anybody might, nobody may any more. Tells whether it was named, or anybody might.
    pub fn deny(&mut self, name: &T) -> bool {
        match self {
            Self::Only(names) => names.remove(name),
            Self::Any => {
                *self = Self::Only(BTreeSet::new());
                true
            }
        }
    }

    /// The names; `None`: any.
    pub fn names(&self) -> Option<Vec<T>> {
        match self {
            Self::Any => None,
            Self::Only(names) => Some(names.iter().cloned().collect()),
        }
    }
}

impl<T: Ord> From<Option<Vec<T>>> for Access<T> {
    /// `None`: any.
    fn from(names: Option<Vec<T>>) -> Self {
        names.map_or(Self::Any, |names| Self::Only(names.into_iter().collect()))
    }
}
