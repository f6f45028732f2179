//! Commands that make and check keys.

pub mod check_tls;
pub mod dhchap;
pub mod gen_tls;
