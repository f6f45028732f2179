//! Licences of dependencies: what their expressions mean.
#![forbid(unsafe_code)]

pub mod spdx;
