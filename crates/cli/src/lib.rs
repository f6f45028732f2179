//! weft: NVMe over Fabrics from user space.
//!
//! The program parses its arguments, calls the other crates and prints the results.
#![forbid(unsafe_code)]

mod agents;
mod announce;
mod args;
mod attach_args;
mod attached_process;
mod commands;
mod connection;
mod daemon_args;
mod defect;
mod descriptors;
mod dhchap_args;
mod discovery_ports;
mod exit;
mod exit_on_loss;
mod figures;
mod filename;
mod given;
mod group_args;
mod held_table;
mod help;
mod hex;
mod hosted;
mod iscsi_args;
mod limits;
mod log;
mod login;
mod mdns;
mod metrics_args;
mod nvme_bits;
mod nvme_json;
mod nvme_verbs;
mod path_args;
mod pcap_args;
mod progress;
mod scsi_args;
mod server_args;
mod sharing_args;
mod signals;
mod source_options;
mod table;
mod takeover_args;
mod version;
mod visible_sources;

use args::{Cli, CliVerb};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::process::ExitCode;
use weft_endpoint::Control;
use weft_server::secret::{conceal, when_held};

/// Runs the program; the exit status.
pub fn main() -> ExitCode {
    let matches = match help::command(Cli::command).try_get_matches() {
        Ok(matches) => matches,
        Err(e) => match nvme_verbs::explain(&e) {
            Some(failure) => return exit::end(failure.report()),
            None => e.exit(),
        },
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let hosted = match &cli.command {
        CliVerb::Service(args) => args.hosted(),
        _ => None,
    };
    let status = match hosted {
        Some((name, words)) => hosted::Hosted { name, words }.run(execute),
        None => execute(cli, &matches),
    };
    exit::end(status)
}

/// Does what a command line asks for; the exit status.
fn execute(cli: Cli, matches: &ArgMatches) -> u8 {
    if let Err(failure) = log::start(&cli.log) {
        return failure.report();
    }
    when_held(conceal);
    defect::watch();
    exit::tell_of_waits();
    descriptors::raise();
    let control = Control::new();
    let result = match cli.command {
        CliVerb::Serve(args) => commands::serve::run(*args, &control),
        CliVerb::Service(args) => commands::service::run(&args, &cli.log),
        CliVerb::Apply(args) => commands::apply::run(&args),
        CliVerb::Namespace(args) => commands::namespace::run(args),
        CliVerb::Host(args) => commands::host::run(args),
        CliVerb::Ana(args) => commands::ana::run(args),
        CliVerb::Gateway(args) => commands::gateway::run(args),
        CliVerb::Config(args) => commands::config::run(&args, &control),
        CliVerb::Status(args) => commands::status::run(&args),
        CliVerb::Top(args) => commands::top::run(&args),
        CliVerb::Capture(args) => commands::capture::run(&args),
        CliVerb::Control(args) => commands::control::run(&args),
        CliVerb::Connect(args) => commands::connect::run(&args, matches, &control),
        CliVerb::ConnectAll(args) => commands::connect_all::run(&args, matches, &control),
        CliVerb::Disconnect(args) => commands::disconnect::run(&args),
        CliVerb::Daemon(args) => commands::daemon::run(&args),
        CliVerb::List(args) => commands::list::run(&args),
        CliVerb::ListSubsys(args) => commands::list_subsys::run(&args),
        CliVerb::Discover(args) => commands::discover::run(&args, &control),
        CliVerb::IdCtrl(args) => commands::identify::id_ctrl(&args, cli.log.is_verbose(), &control),
        CliVerb::IdNs(args) => commands::identify::id_ns(&args, cli.log.is_verbose(), &control),
        CliVerb::ListNs(args) => commands::identify::list_ns(&args, &control),
        CliVerb::Nvme(verb) => commands::nvme::run(&verb, cli.log.is_verbose(), &control),
        CliVerb::GenDhchapKey(args) => commands::dhchap_key::generate(&args),
        CliVerb::CheckDhchapKey(args) => commands::dhchap_key::check(&args),
        CliVerb::Mirror(args) => commands::mirror::run(&args, &control),
        CliVerb::Copy(args) => commands::copy::run(&args, &control),
        CliVerb::Bench(args) => commands::bench::run(*args, &control),
        CliVerb::Ceiling(args) => commands::ceiling::run(&args),
        CliVerb::Hosts(args) => commands::hosts::run(&args, &control),
        CliVerb::Study(args) => commands::study::run(*args, &control),
        #[cfg(target_os = "linux")]
        CliVerb::StudyPeer(args) => commands::study_peer::run(&args),
        #[cfg(target_os = "linux")]
        CliVerb::StudyKernel => commands::study_kernel::run(),
        CliVerb::StudyRelay(args) => commands::study_relay::run(&args),
        CliVerb::Agent(args) => commands::agent::run(*args, &control),
        CliVerb::GenTlsKey(args) => commands::gen_tls_key::run(&args),
        CliVerb::CheckTlsKey(args) => commands::check_tls_key::run(&args),
        CliVerb::Limits(args) => commands::limits::run(&args),
        CliVerb::UblkOwner(args) => commands::ublk_owner::run(&args),
        CliVerb::Completions(args) => commands::completions::completions(&args, Cli::command()),
        CliVerb::Help(args) => help::run(&args, Cli::command()),
        CliVerb::Man(args) => commands::completions::man(&args, Cli::command()),
    };
    let status = result.err().map_or(0, |failure| failure.report());
    signals::finish(&control);
    pcap_args::end(&control, status)
}
