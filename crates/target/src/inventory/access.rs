//! Access control by name.

use std::collections::BTreeSet;

/// The names that have access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Access<T> {
    /// All names.
    #[default]
    Any,
    /// Only these names.
    Only(BTreeSet<T>),
}

impl<T: Ord + Clone> Access<T> {
    /// Returns whether `name` has access.
    pub fn allows(&self, name: &T) -> bool {
        match self {
            Self::Any => true,
            Self::Only(names) => names.contains(name),
        }
    }

    /// Grants access to `name`. Changes nothing if all have access.
    pub fn allow(&mut self, name: T) {
        if let Self::Only(names) = self {
            names.insert(name);
        }
    }

    /// Removes the access of `name`; if all had access, nobody has it afterwards. Returns whether
    /// something changed.
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
