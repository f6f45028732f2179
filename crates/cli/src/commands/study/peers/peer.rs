//! A target of another project: its programs, and how to start it.

use super::device::Device;
use std::net::SocketAddr;
use weft_bench::suite::Through;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    pub name: &'static str,
    /// Package of Debian and Ubuntu that contains it; none for a program of SPDK, which users build.
    pub package: Option<&'static str>,
}

/// A target of another project. Each is a file of this directory.
#[derive(Debug)]
pub struct Peer {
    /// Name of its lane, and in `--peers`.
    pub name: &'static str,
    /// Its protocol.
    pub through: Through,
    /// The programs that must be installed.
    pub programs: &'static [Program],
    /// Returns how to start it.
    ///
    /// # Errors
    /// It cannot serve this device: the reason, without a full stop.
    pub plan: fn(&Wish<'_>) -> Result<Plan, String>,
}

/// What a target must serve, and where.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub device: &'a Device,
    /// A file in memory, as large as the device, for targets without a RAM disk of their own.
    pub memory: &'a str,
    /// Address to listen on.
    pub address: SocketAddr,
    /// A directory of its own: its current directory.
    pub directory: &'a str,
    /// A name that no other target has.
    pub name: &'a str,
    /// Cores that it may use; empty: any.
    pub cpus: &'a [usize],
}

/// How a target is started.
#[derive(Debug, Default)]
pub struct Plan {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables of it and of the commands that follow.
    pub environment: Vec<(&'static str, String)>,
    /// Files in its directory, by name.
    pub files: Vec<(&'static str, String)>,
    /// Commands that configure it, once it listens.
    pub then: Vec<Vec<String>>,
    /// URL of its device.
    pub url: String,
    /// It has a process for each connection: their processor time is not known from outside.
    pub forks: bool,
    /// It uses its cores even while it is idle, so it is stopped while others are measured.
    pub polls: bool,
}

/// Words of a command line.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
