//! `weft ana`: sets how well hosts reach namespaces by a running server.

use super::apply::print;
use crate::args::server::ServerArgs;
use crate::process::exit::Failure;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use weft_server::config::check::STATES;
use weft_server::group::verbs::BY_RULE;
use weft_server::served::verbs::SetState;

/// Options of `weft ana`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft ana set 1 inaccessible
      hosts use another path to the namespaces of group 1
  weft ana set 1 non-optimized --listener 192.0.2.1:4420
      only those that come by this address")]
pub struct AnaArgs {
    #[command(subcommand)]
    command: AnaCommand,
}

#[derive(Subcommand, Debug)]
enum AnaCommand {
    /// Set the ANA state of a group of namespaces
    #[command(after_help = "\
Example:
  weft ana set 1 non-optimized --listener 192.0.2.1:4420
      for hosts that come by this address")]
    Set {
        /// ANA group
        group: u32,
        /// State; of a group of gateways, optimized at the one that is to have it, or by-rule
        #[arg(value_parser = PossibleValuesParser::new(STATES.map(|(word, _)| word).into_iter().chain([BY_RULE])))]
        state: String,
        /// For hosts that come by this listener only
        #[arg(long, value_name = "ADDR:PORT")]
        listener: Option<String>,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Asks the server.
pub fn run(args: AnaArgs) -> Result<(), Failure> {
    let AnaCommand::Set { group, state, listener, server } = args.command;
    print(&server.connect()?.ask("ana.set", SetState { group, state, listener })?, false)
}
