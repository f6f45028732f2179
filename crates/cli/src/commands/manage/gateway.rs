//! `weft gateway`: the gateways of a group, as one of them sees it.

use crate::args::server::ServerArgs;
use crate::output::table::{named, room};
use crate::process::exit::{Failure, printed};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use weft_block::{Error, ErrorKind};
use weft_server::group::verbs::{Forget, ShownGroup};
use weft_server::management::methods::NoParams;

/// Options of `weft gateway`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft gateway list
      the gateways of the group that the gateway on this machine belongs to
  weft gateway forget old
      a gateway that is gone for ever")]
pub struct GatewayArgs {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Subcommand, Debug)]
enum GatewayCommand {
    /// List the gateways of a group, and what each of them serves
    #[command(after_help = "\
Example:
  weft gateway list --json
      for programs")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Forget a gateway that is gone for ever, so that another one can take its place in the group
    #[command(after_help = "\
Example:
  weft gateway forget old
      which has ended, and will not come back")]
    Forget {
        /// Name of the gateway
        gateway: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Asks a gateway.
pub fn run(args: GatewayArgs) -> Result<(), Failure> {
    match args.command {
        GatewayCommand::List { json, server } => {
            let group: ShownGroup = ask(&server, "gateway.list", NoParams {})?;
            printed(if json { print_json(&group) } else { print(&group) })
        }
        GatewayCommand::Forget { gateway, server } => {
            ask(&server, "gateway.forget", Forget { gateway })
        }
    }
}

/// Servers that are no gateways of a group do not have these methods.
fn ask<T: DeserializeOwned>(
    server: &ServerArgs,
    method: &str,
    params: impl Serialize,
) -> Result<T, Failure> {
    let explain = |e: Error| match e.kind() {
        ErrorKind::Unsupported => {
            let text =
                "this server belongs to no group: `weft serve --group` makes gateways of one";
            Failure::of(ErrorKind::Unsupported, text)
        }
        _ => e.into(),
    };
    server.connect()?.ask(method, params).map_err(explain)
}

fn print_json(group: &ShownGroup) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string_pretty(group)?)
}

fn print(group: &ShownGroup) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "group {}, configuration {}, as {} sees it",
        group.group, group.configuration, group.gateway
    )?;
    if !group.serves {
        writeln!(
            out,
            "{} serves nothing: it has had no answer of the cluster for too long",
            group.gateway
        )?;
    }
    if let Some(why) = &group.behind {
        writeln!(out, "{} does not serve the last configuration: {why}", group.gateway)?;
    }
    let head =
        ["Gateway", "State", "Controllers", "Optimized for ANA groups", "By order", "Listens at"];
    let row = |gateway: &weft_server::group::verbs::ShownGateway| {
        let (first, last) = gateway.cntlids;
        vec![
            gateway.name.clone(),
            gateway.state.clone(),
            format!("{first}-{last}"),
            ranges(&gateway.ana_groups),
            ranges(&gateway.pinned),
            gateway.listeners.join(" "),
        ]
    };
    named(&head, group.gateways.iter().map(row).collect()).print(&mut out, room(false)).map(|_| ())
}

/// Numbers in ascending order, as in `1-8,25`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[u32]| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    runs.map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3,7,9-10");
        assert_eq!(ranges(&[]), "");
    }
}
