//! Changes of objects of the kernel, and what undoes each. Paths are absolute.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KernelStep {
    /// Loads a module with those that it needs, unless its driver is there.
    Load {
        /// Its name.
        module: String,
        /// Its parameters.
        parameters: Vec<String>,
    },
    /// Makes a directory, which must be new.
    Make(String),
    /// Makes a directory that may be there already, and then stays.
    Share(String),
    /// Writes a value to a file.
    Write {
        /// The file.
        path: String,
        /// The value.
        value: String,
        /// The value that undoes it.
        undo: Option<String>,
    },
    /// Makes a symbolic link.
    Link {
        /// The link.
        path: String,
        /// Its target.
        to: String,
    },
    /// Connects the kernel's NVMe host to a subsystem.
    Connect {
        /// Name of the subsystem, which nothing else connects to.
        nqn: String,
        /// The text for the kernel.
        options: String,
    },
    /// Runs a command.
    Run {
        /// The program and its arguments.
        command: Vec<String>,
        /// The command that undoes it; empty if there is none.
        undo: Vec<String>,
        /// A failed command may have done its work in part, so it is undone, too.
        in_part: bool,
    },
}

/// The way back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Undo {
    /// Unloads modules, in this order.
    Unload(Vec<String>),
    /// Removes a directory of the kernel's.
    Remove(String),
    /// Removes one that several groups use.
    RemoveShared(String),
    /// Writes a value to a file.
    Write {
        /// The file.
        path: String,
        /// The value.
        value: String,
    },
    /// Removes a link.
    Unlink(String),
    /// Deletes all controllers of a subsystem.
    Disconnect(String),
    /// Runs a command.
    Run(Vec<String>),
}

impl Undo {
    /// Returns whether it waits until all groups are undone, as others may use the object.
    pub fn is_common(&self) -> bool {
        matches!(self, Self::Unload(_) | Self::RemoveShared(_))
    }
}

/// The kernel's file by which its NVMe host connects.
pub const FABRICS: &str = "/dev/nvme-fabrics";

impl fmt::Display for KernelStep {
    /// As a command of a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Load { module, parameters } => {
                write!(f, "modprobe {module}")?;
                parameters.iter().try_for_each(|one| write!(f, " {one}"))
            }
            Self::Make(path) | Self::Share(path) => write!(f, "mkdir {path}"),
            Self::Write { path, value, .. } => write!(f, "echo {value} >{path}"),
            Self::Link { path, to } => write!(f, "ln -s {to} {path}"),
            Self::Connect { options, .. } => write!(f, "echo {options} >{FABRICS}"),
            Self::Run { command, .. } => f.write_str(&command.join(" ")),
        }
    }
}

impl fmt::Display for Undo {
    /// As a command of a shell.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unload(modules) => write!(f, "rmmod {}", modules.join(" ")),
            Self::Remove(path) | Self::RemoveShared(path) => write!(f, "rmdir {path}"),
            Self::Write { path, value } => write!(f, "echo {value} >{path}"),
            Self::Unlink(path) => write!(f, "rm {path}"),
            Self::Disconnect(nqn) => write!(f, "nvme disconnect -n {nqn}"),
            Self::Run(command) => f.write_str(&command.join(" ")),
        }
    }
}
