//! Systems whose kernel has no TLS.

use super::direction::TlsDirection;
use std::io::{Error, ErrorKind, IoSliceMut, Result};
use weft_io::stream::Stream;

/// There is none.
pub(crate) type Socket<'a> = &'a core::convert::Infallible;

fn none<T>() -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "the kernel of this system has no TLS"))
}

pub(crate) fn socket(_: &dyn Stream) -> Option<Socket<'_>> {
    None
}

pub(crate) fn attach(_: Socket<'_>) -> Result<()> {
    none()
}

pub(super) fn set_keys(_: Socket<'_>, _: TlsDirection, _: &[u8]) -> Result<()> {
    none()
}

pub(super) fn keys(_: Socket<'_>, _: TlsDirection, _: &mut [u8]) -> Result<()> {
    none()
}

pub(crate) fn expect_no_padding(_: Socket<'_>) {}

pub(crate) fn send(_: Socket<'_>, _: u8, _: &[u8]) -> Result<usize> {
    none()
}

pub(crate) fn receive(_: Socket<'_>, _: &mut IoSliceMut<'_>) -> Result<(u8, usize)> {
    none()
}
