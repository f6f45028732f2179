//! `weft hosts`: hosts that are connected to a target and ask nothing of it. What they cost is measured with it.

use super::child::wait_for_end_of_input;
use crate::connection::ConnectArgs;
use crate::exit::Failure;
use clap::Args;
use std::io::Write;
use weft_endpoint::Control;

/// Options of `weft hosts`.
#[derive(Args, Debug)]
pub struct HostsArgs {
    /// The namespace, as in nvme+tcp://192.0.2.1:4420/NQN/1
    url: String,
    /// Hosts, each with an admin connection and --nr-io-queues others
    #[arg(long, default_value_t = 1)]
    count: usize,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Holds the connections until standard input closes.
pub fn run(args: &HostsArgs, control: &Control) -> Result<(), Failure> {
    let options = args.connect.options(1, control)?;
    let hosts = (0..args.count).map(|_| weft_endpoint::open(&args.url, &options)).collect::<Result<Vec<_>, _>>()?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "holding {} hosts", hosts.len())?;
    out.flush()?;
    drop(out);
    wait_for_end_of_input();
    Ok(())
}
