//! The stream of nobody: what holds the place of one that changes hands.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;

/// A stream that never was connected.
pub(crate) struct Nowhere;

fn nowhere<T>() -> io::Result<T> {
    Err(ErrorKind::NotConnected.into())
}

impl Stream for Nowhere {
    fn recv(&mut self, _: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        nowhere()
    }

    fn send(&mut self, _: &[IoSlice<'_>]) -> io::Result<usize> {
        nowhere()
    }

    fn shutdown(&mut self) -> io::Result<()> {
        nowhere()
    }

    fn connected(&mut self) -> io::Result<bool> {
        nowhere()
    }

    fn peer(&self) -> String {
        String::new()
    }

    fn local(&self) -> String {
        String::new()
    }

    fn register(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        nowhere()
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        nowhere()
    }
}
