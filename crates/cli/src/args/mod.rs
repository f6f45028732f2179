//! The command line.

pub(super) mod attach;
pub(super) mod daemon;
pub(super) mod dhchap;
pub(super) mod filename;
pub(super) mod given_options;
pub(super) mod group;
pub(super) mod iscsi;
pub(super) mod metrics;
pub(super) mod path;
pub(super) mod pcap;
pub(super) mod scsi;
pub(super) mod server;
pub(super) mod sharing;
pub(super) mod source_options;
pub(super) mod takeover;

use crate::commands::agent::AgentArgs;
use crate::commands::bench::BenchArgs;
use crate::commands::ceiling::CeilingArgs;
use crate::commands::completions::{CompletionsArgs, ManArgs};
use crate::commands::config::ConfigArgs;
use crate::commands::connect::ConnectCommand;
use crate::commands::connect_all::ConnectAllArgs;
use crate::commands::copy::CopyArgs;
use crate::commands::daemon::DaemonCommand;
use crate::commands::disconnect::DisconnectArgs;
use crate::commands::discover::DiscoverArgs;
use crate::commands::identify::{IdCtrlArgs, IdNsArgs, ListNsArgs};
#[cfg(target_os = "linux")]
use crate::commands::internal::study_peer::StudyPeerArgs;
use crate::commands::internal::study_relay::StudyRelayArgs;
use crate::commands::internal::ublk_owner::UblkOwnerArgs;
use crate::commands::keys::check_tls::CheckTlsKeyArgs;
use crate::commands::keys::dhchap::{CheckDhchapKeyArgs, GenDhchapKeyArgs};
use crate::commands::keys::gen_tls::GenTlsKeyArgs;
use crate::commands::limits::LimitsArgs;
use crate::commands::list::ListArgs;
use crate::commands::manage::ana::AnaArgs;
use crate::commands::manage::apply::ApplyArgs;
use crate::commands::manage::capture::CaptureArgs;
use crate::commands::manage::control::ControlArgs;
use crate::commands::manage::gateway::GatewayArgs;
use crate::commands::manage::host::HostArgs;
use crate::commands::manage::hosts::HostsArgs;
use crate::commands::manage::mirror::MirrorArgs;
use crate::commands::manage::namespace::NamespaceArgs;
use crate::commands::nvme;
use crate::commands::serve::ServeArgs;
use crate::commands::service::ServiceArgs;
use crate::commands::status::StatusArgs;
use crate::commands::study::StudyArgs;
use crate::commands::top::TopArgs;
use crate::help::HelpArgs;
use crate::process::exit;
use crate::process::log::LogArgs;
use crate::version;
use clap::{Parser, Subcommand};

/// NVMe over Fabrics from user space: serve, use and measure block storage over the network
#[derive(Parser, Debug)]
#[command(version, long_version = version::LONG, after_help = exit::TABLE, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,
    #[command(subcommand)]
    pub command: CliVerb,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum CliVerb {
    /// Serve block devices over the network
    Serve(Box<ServeArgs>),
    /// Install and control a server as a service of Windows
    Service(ServiceArgs),
    /// Make a running server serve what a configuration asks for
    Apply(ApplyArgs),
    /// Add, remove and resize namespaces of a running server
    Namespace(NamespaceArgs),
    /// Allow and deny hosts of a running server
    Host(HostArgs),
    /// Set ANA states of a running server
    Ana(AnaArgs),
    /// Show the gateways of a group
    Gateway(GatewayArgs),
    /// Check, make and import configurations for weft serve --config
    Config(ConfigArgs),
    /// Show the state of a running server, and what it has done
    Status(StatusArgs),
    /// Show what a running server does now, refreshed each second
    Top(TopArgs),
    /// Capture what passes on the connections of a host to a running server
    Capture(CaptureArgs),
    /// Send one request to the control socket of a running server
    Control(ControlArgs),
    /// Attach any source to this system as a disk
    Connect(Box<ConnectCommand>),
    /// Attach all namespaces that discovery controllers tell
    ConnectAll(Box<ConnectAllArgs>),
    /// Detach devices that weft connect attached
    Disconnect(DisconnectArgs),
    /// Hold connections that last, and make them again after a restart
    Daemon(DaemonCommand),
    /// List the devices that weft connect attached
    List(ListArgs),
    /// List the NVMe subsystems of these devices, with the path to each
    ListSubsys(ListArgs),
    /// List the subsystems or iSCSI targets at an address
    Discover(DiscoverArgs),
    /// Show Identify Controller of a subsystem
    IdCtrl(IdCtrlArgs),
    /// Show Identify Namespace of a namespace
    IdNs(IdNsArgs),
    /// List the active namespaces of a subsystem
    ListNs(ListNsArgs),
    #[command(flatten)]
    Nvme(Box<nvme::Verb>),
    /// Make a secret for NVMe in-band authentication (DH-HMAC-CHAP)
    GenDhchapKey(GenDhchapKeyArgs),
    /// Check a secret for NVMe in-band authentication
    CheckDhchapKey(CheckDhchapKeyArgs),
    /// Make mirrors (RAID 1 of two or three sources), and look after them
    Mirror(Box<MirrorArgs>),
    /// Copy one device to another
    Copy(Box<CopyArgs>),
    /// Run a workload on a device, with fio's options
    Bench(Box<BenchArgs>),
    /// Measure what a fabric costs on this machine, in one report
    Study(Box<StudyArgs>),
    /// Let studies of other machines put load on devices from this one
    Agent(Box<AgentArgs>),
    /// Serve the bare TCP ceiling, the study's reference
    #[command(hide = true)]
    Ceiling(CeilingArgs),
    /// Connect idle hosts, to measure their cost
    #[command(hide = true)]
    Hosts(HostsArgs),
    /// Run a target of another project for a study
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    StudyPeer(StudyPeerArgs),
    /// Change objects of the kernel for a study
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    StudyKernel,
    /// Pass TCP connections on with a delay, for a study
    #[command(hide = true)]
    StudyRelay(StudyRelayArgs),
    /// Print user and group of a disk by ublk, for the rules of udev
    #[command(hide = true)]
    UblkOwner(UblkOwnerArgs),
    /// Make a pre-shared key for TLS, as nvme-cli does
    GenTlsKey(GenTlsKeyArgs),
    /// Check a pre-shared key for TLS, and show its identity
    CheckTlsKey(CheckTlsKeyArgs),
    /// Print all limits with their units
    Limits(LimitsArgs),
    /// Print completions for a shell [needs: a build with --features full]
    Completions(CompletionsArgs),
    /// Write manual pages for man(1) [needs: a build with --features full]
    Man(ManArgs),
    /// Explain a command with all its options, or a topic
    Help(HelpArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    /// Names of commands whose help has no example.
    fn without_example(command: &clap::Command, path: &str) -> Vec<String> {
        let shown =
            command.get_subcommands().filter(|of| !of.is_hide_set() && of.get_name() != "help");
        let below: Vec<String> = shown
            .flat_map(|of| without_example(of, &format!("{path} {}", of.get_name())))
            .collect();
        let has_example =
            command.get_after_help().is_some_and(|help| help.to_string().contains("Example"));
        if command.has_subcommands() || has_example { below } else { vec![path.to_owned()] }
    }

    #[test]
    fn the_help_of_each_command_has_an_example() {
        assert_eq!(without_example(&Cli::command(), "weft"), [""; 0]);
    }
}
