//! What packages are built with.

/// The feature of programs in packages, which have all that a build can leave out.
pub(super) const FULL: &str = "full";
