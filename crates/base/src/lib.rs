//! Types that the engines of protocols and the I/O share, although neither knows of the other.
#![forbid(unsafe_code)]

pub mod lock;
pub mod verbs;
