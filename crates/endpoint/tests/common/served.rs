//! Servers of a test, on loops of their own.

#![allow(dead_code, reason = "each test program uses what it needs")]

use std::ops::Deref;
use std::sync::Arc;
use weft_block::{BlockDevice, OpenOptions};
use weft_endpoint::export::{Exports, iscsi, nbd, nvme};
use weft_endpoint::loops::{Loops, LoopsConfig, ask};
use weft_io::RemoteLoop;

/// A server that stops listening and lets its connections end.
pub trait Stop {
    fn stop(self);
}

macro_rules! stops {
    ($($listening:ty),*) => {
        $(impl Stop for $listening {
            fn stop(self) {
                <$listening>::stop(self).unwrap();
            }
        })*
    };
}

stops!(nvme::Target, iscsi::Target, nbd::NbdServer);

impl Stop for Exports {
    fn stop(self) {
        Self::stop(&self).unwrap();
    }
}

/// Something that listens, and its loops. Both end with this value, whose loops' threads have not
/// panicked then and hold no payload.
pub struct Served<T: Stop> {
    listening: Option<T>,
    loops: Option<Loops>,
}

impl<T: Stop> Served<T> {
    /// Starts loops, and something on them.
    pub fn start(loops: &LoopsConfig, listen: impl FnOnce(&[RemoteLoop]) -> T) -> Self {
        let loops = Loops::start(loops).unwrap();
        Self { listening: Some(listen(loops.remotes())), loops: Some(loops) }
    }

    /// The loops.
    pub fn loops(&self) -> &Loops {
        self.loops.as_ref().unwrap()
    }
}

impl<T: Stop> Deref for Served<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.listening.as_ref().unwrap()
    }
}

impl<T: Stop> Drop for Served<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.listening.take().unwrap().stop();
        let loops = self.loops.take().unwrap();
        for remote in loops.remotes() {
            assert_eq!(
                ask(remote, |on| on.pool().taken_bytes()).unwrap(),
                0,
                "payload memory is left behind"
            );
        }
        loops.stop().unwrap();
    }
}

/// Returns the configuration of `threads` loops.
pub fn loops(threads: usize) -> LoopsConfig {
    LoopsConfig { threads: Some(threads), ..LoopsConfig::default() }
}

/// The devices of these URLs.
pub fn devices(urls: &[&str]) -> Vec<Arc<dyn BlockDevice>> {
    urls.iter().map(|url| weft_block::open(url, &OpenOptions::default()).unwrap()).collect()
}
