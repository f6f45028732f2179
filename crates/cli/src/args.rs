//! The command line.

use crate::commands::bench::BenchArgs;
use crate::commands::ceiling::CeilingArgs;
use crate::commands::connect::ConnectCommand;
use crate::commands::disconnect::DisconnectArgs;
use crate::commands::discover::DiscoverArgs;
use crate::commands::hosts::HostsArgs;
use crate::commands::identify::{IdCtrlArgs, IdNsArgs, ListNsArgs};
use crate::commands::limits::LimitsArgs;
use crate::commands::list::ListArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::study::StudyArgs;
use crate::exit;
use crate::log::LogArgs;
use clap::{Parser, Subcommand};

/// NVMe over Fabrics from user space: serve, use and measure block storage over the network
#[derive(Parser, Debug)]
#[command(version, after_help = exit::TABLE, arg_required_else_help = true)]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Serve block devices over the network
    Serve(Box<ServeArgs>),
    /// Attach a device of any source to this system, by its own iSCSI initiator or by NBD
    Connect(Box<ConnectCommand>),
    /// End what weft connect began
    Disconnect(DisconnectArgs),
    /// List what is connected, and as what
    List(ListArgs),
    /// List the subsystems or iSCSI targets that an address offers
    Discover(DiscoverArgs),
    /// Show Identify Controller of a subsystem
    IdCtrl(IdCtrlArgs),
    /// Show Identify Namespace of a namespace
    IdNs(IdNsArgs),
    /// List the active namespaces of a subsystem
    ListNs(ListNsArgs),
    /// Run a workload on a device, in fio's terms
    Bench(Box<BenchArgs>),
    /// Measure what a fabric costs on this machine: local disk against NVMe/TCP, in one report
    Study(Box<StudyArgs>),
    /// Serve the bare TCP ceiling that the study compares with
    #[command(hide = true)]
    Ceiling(CeilingArgs),
    /// Connect hosts that ask nothing, to measure what they cost
    #[command(hide = true)]
    Hosts(HostsArgs),
    /// Print every limit, with its unit
    Limits(LimitsArgs),
}
