//! A target of another project: its programs, and how to start it.

use super::device::PeerDevice;
use crate::commands::internal::study_kernel::step::KernelStep;
use std::net::SocketAddr;
use std::path::Path;
use weft_bench::suite::Through;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProgram {
    pub name: &'static str,
    /// Package of Debian and Ubuntu that contains it; none for a program of SPDK, which users
    /// build.
    pub package: Option<&'static str>,
}

/// A target of another project. Each is a file of this directory.
#[derive(Debug)]
pub struct PeerTarget {
    /// Name of its lane, and in `--peers`.
    pub name: &'static str,
    /// Its protocol.
    pub through: Through,
    /// The programs that must be installed.
    pub programs: &'static [PeerProgram],
    pub how: StartMethod,
}

/// The way to start a target. Each `plan` starts nothing; its error is the reason why the target
/// cannot serve a device, without a full stop.
#[derive(Debug)]
pub enum StartMethod {
    /// It is a program.
    Program(fn(&DeviceWish<'_>) -> Result<TargetPlan, String>),
    /// It is a part of the kernel.
    Kernel {
        /// The modules that the kernel must have.
        modules: &'static [&'static str],
        /// Returns why it must be left alone, as it serves something already; the argument is the
        /// directory of configfs.
        serves: fn(&Path) -> Option<String>,
        plan: fn(&DeviceWish<'_>) -> Result<KernelPlan, String>,
    },
}

impl PeerTarget {
    /// The modules that the kernel must have.
    pub fn modules(&self) -> &'static [&'static str] {
        match self.how {
            StartMethod::Program(_) => &[],
            StartMethod::Kernel { modules, .. } => modules,
        }
    }

    /// Returns why it must be left alone; see [`StartMethod::Kernel`].
    pub fn serves(&self, configfs: &Path) -> Option<String> {
        match self.how {
            StartMethod::Program(_) => None,
            StartMethod::Kernel { serves, .. } => serves(configfs),
        }
    }

    /// Returns why it cannot serve a device, without a full stop.
    pub fn refusal(&self, wish: &DeviceWish<'_>) -> Option<String> {
        match self.how {
            StartMethod::Program(plan) => plan(wish).err(),
            StartMethod::Kernel { plan, .. } => plan(wish).err(),
        }
    }
}

/// A server of NBD of another project, whose device is that of weft's target.
#[derive(Debug)]
pub struct NbdGateway {
    /// Name of its lane, and in `--peers`.
    pub name: &'static str,
    /// Name of the lane with weft in its place.
    pub own: &'static str,
    /// The protocol between it and the target.
    pub behind: Through,
    /// The programs that must be installed.
    pub programs: &'static [PeerProgram],
    /// Returns why the installed programs do not reach such a target.
    pub lacks: fn() -> Option<String>,
    /// Returns how to start it, for the URL of a target. The device is not used.
    ///
    /// # Errors
    /// It does not reach this target: the reason, without a full stop.
    pub plan: fn(&DeviceWish<'_>, &str) -> Result<TargetPlan, String>,
}

/// The device that a target must serve, and its place.
#[derive(Clone, Copy, Debug)]
pub struct DeviceWish<'a> {
    pub device: &'a PeerDevice,
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

/// The commands and files that start a target.
#[derive(Debug, Default)]
pub struct TargetPlan {
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

/// The configuration of a target of the kernel.
#[derive(Debug)]
pub struct KernelPlan {
    /// The changes, in their order.
    pub steps: Vec<KernelStep>,
    /// URL of its device.
    pub url: String,
}

/// Words of a command line.
pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
