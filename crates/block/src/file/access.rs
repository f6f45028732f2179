//! Settings for opening files and disks, beyond their URLs.

use super::created::CreatedFiles;
use crate::url::naming::Naming;

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct FileAccess<'a> {
    /// A `readonly:` filter precedes.
    pub(crate) read_only: bool,
    /// Other processes serve it as well.
    pub(crate) shared: bool,
    /// List of the files that opening creates.
    pub(crate) created: Option<&'a CreatedFiles>,
    /// Whoever gives names to those that have none.
    pub(crate) names: &'a dyn Naming,
}
