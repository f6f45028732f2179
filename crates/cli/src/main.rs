//! weft: NVMe over Fabrics from user space.
//!
//! The program parses, calls and prints; what it does is in the crates below it.
#![forbid(unsafe_code)]

mod args;
mod attach;
mod commands;
mod connection;
mod exit;
mod iscsi_args;
mod log;
mod login;
mod nvme_json;
mod progress;
mod secret;

use args::{Cli, Command};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(&cli.log);
    let result = match cli.command {
        Command::Serve(args) => commands::serve::run(*args),
        Command::Connect(args) => commands::connect::run(&args),
        Command::Disconnect(args) => commands::disconnect::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Discover(args) => commands::discover::run(&args),
        Command::IdCtrl(args) => commands::identify::id_ctrl(&args),
        Command::IdNs(args) => commands::identify::id_ns(&args),
        Command::ListNs(args) => commands::identify::list_ns(&args),
        Command::Bench(args) => commands::bench::run(*args),
        Command::Ceiling(args) => commands::ceiling::run(&args),
        Command::Hosts(args) => commands::hosts::run(&args),
        Command::Study(args) => commands::study::run(*args),
        Command::Limits(args) => commands::limits::run(&args),
    };
    weft_endpoint::finish();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
