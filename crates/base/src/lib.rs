//! What engines of protocols and I/O share, although neither knows of the other.
#![forbid(unsafe_code)]

pub mod lock;
pub mod verbs;
