//! Placeholder for a stream while it is replaced.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;

/// A stream that never was connected.
pub(crate) struct Placeholder;

fn not_connected<T>() -> io::Result<T> {
    Err(ErrorKind::NotConnected.into())
}

impl Stream for Placeholder {
    fn recv(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        not_connected()
    }

    fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        not_connected()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        not_connected()
    }

    fn connected(&mut self) -> io::Result<bool> {
        not_connected()
    }

    fn peer(&self) -> String {
        String::new()
    }

    fn local(&self) -> String {
        String::new()
    }

    fn register(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        not_connected()
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        not_connected()
    }
}
