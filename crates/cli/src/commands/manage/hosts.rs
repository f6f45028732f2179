//! `weft hosts`: idle hosts connected to a target, to measure their cost.

use super::super::internal::child::wait_for_end_of_input;
use crate::connection::ConnectArgs;
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use weft_endpoint::Control;

/// Options of `weft hosts`.
#[derive(Args, Debug)]
pub struct HostsArgs {
    /// Namespace, as in nvme+tcp://192.0.2.1:4420/NQN/1
    url: String,
    /// Number of hosts, each with an admin connection and --nr-io-queues I/O connections
    #[arg(long, default_value_t = 1)]
    count: usize,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Holds the connections until standard input is closed.
pub fn run(args: &HostsArgs, control: &Control) -> Result<(), Failure> {
    let options = args.connect.options(1, control)?;
    let hosts = (0..args.count)
        .map(|_| weft_endpoint::open(&args.url, &options))
        .collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holding {} hosts", hosts.len())?;
    out.flush()?;
    drop(out);
    wait_for_end_of_input();
    Ok(())
}
