//! weft: NVMe over Fabrics from user space.
//!
//! The program parses its arguments, calls the other crates and prints the results.
#![forbid(unsafe_code)]

mod agents;
mod args;
mod commands;
mod connection;
mod discovery_ports;
mod help;
mod limits;
mod login;
mod mdns;
mod nvme_verbs;
mod output;
mod process;
mod version;
mod visible_sources;

use std::process::ExitCode;

use args::{Cli, CliVerb};
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use weft_endpoint::Control;
use weft_server::secret::{conceal, when_held};

/// Runs the program; the exit status.
pub fn main() -> ExitCode {
    let matches = match help::command(Cli::command).try_get_matches() {
        Ok(matches) => matches,
        Err(e) => match nvme_verbs::explain(&e) {
            Some(failure) => return process::exit::end(failure.report()),
            None => e.exit(),
        },
    };
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let hosted = match &cli.command {
        CliVerb::Service(args) => args.hosted(),
        _ => None,
    };
    let status = match hosted {
        Some((name, words)) => {
            process::windows_service::StartedService { name, words }.run(execute)
        }
        None => execute(cli, &matches),
    };
    process::exit::end(status)
}

/// Does what a command line asks for; the exit status.
fn execute(cli: Cli, matches: &ArgMatches) -> u8 {
    if let Err(failure) = process::log::start(&cli.log) {
        return failure.report();
    }
    when_held(conceal);
    process::defect::watch();
    process::exit::tell_of_waits();
    process::descriptors::raise();
    let control = Control::new();
    let result = match cli.command {
        CliVerb::Serve(args) => commands::serve::run(*args, &control),
        CliVerb::Service(args) => commands::service::run(&args, &cli.log),
        CliVerb::Apply(args) => commands::manage::apply::run(&args),
        CliVerb::Namespace(args) => commands::manage::namespace::run(args),
        CliVerb::Host(args) => commands::manage::host::run(args),
        CliVerb::Ana(args) => commands::manage::ana::run(args),
        CliVerb::Gateway(args) => commands::manage::gateway::run(args),
        CliVerb::Config(args) => commands::config::run(&args, &control),
        CliVerb::Status(args) => commands::status::run(&args),
        CliVerb::Top(args) => commands::top::run(&args),
        CliVerb::Capture(args) => commands::manage::capture::run(&args),
        CliVerb::Control(args) => commands::manage::control::run(&args),
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
        CliVerb::GenDhchapKey(args) => commands::keys::dhchap::generate(&args),
        CliVerb::CheckDhchapKey(args) => commands::keys::dhchap::check(&args),
        CliVerb::Mirror(args) => commands::manage::mirror::run(&args, &control),
        CliVerb::Copy(args) => commands::copy::run(&args, &control),
        CliVerb::Bench(args) => commands::bench::run(*args, &control),
        CliVerb::Ceiling(args) => commands::ceiling::run(&args),
        CliVerb::Hosts(args) => commands::manage::hosts::run(&args, &control),
        CliVerb::Study(args) => commands::study::run(*args, &control),
        #[cfg(target_os = "linux")]
        CliVerb::StudyPeer(args) => commands::internal::study_peer::run(&args),
        #[cfg(target_os = "linux")]
        CliVerb::StudyKernel => commands::internal::study_kernel::run(),
        CliVerb::StudyRelay(args) => commands::internal::study_relay::run(&args),
        CliVerb::Agent(args) => commands::agent::run(*args, &control),
        CliVerb::GenTlsKey(args) => commands::keys::gen_tls::run(&args),
        CliVerb::CheckTlsKey(args) => commands::keys::check_tls::run(&args),
        CliVerb::Limits(args) => commands::limits::run(&args),
        CliVerb::UblkOwner(args) => commands::internal::ublk_owner::run(&args),
        CliVerb::Completions(args) => commands::completions::completions(&args, Cli::command()),
        CliVerb::Help(args) => help::run(&args, Cli::command()),
        CliVerb::Man(args) => commands::completions::man(&args, Cli::command()),
    };
    let status = result.err().map_or(0, |failure| failure.report());
    process::signals::finish(&control);
    args::pcap::end(&control, status)
}
