//! `weft control`: sends one request to a running server.

use crate::args::server::ServerArgs;
use crate::process::exit::{Failure, printed};
use clap::Args;
use serde_json::Value;
use std::io::Write;
use weft_block::ErrorKind;

/// Options of `weft control`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft control server.info
      the methods of the only server of this user
  weft control inventory.show --control /run/weft/disks.control
      what a server serves, as JSON")]
pub struct ControlArgs {
    /// Method of the protocol, as in inventory.show; server.info lists them
    method: String,
    /// Parameters of the method, as a JSON object
    params: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Asks, and prints the result, if there is one.
pub fn run(args: &ControlArgs) -> Result<(), Failure> {
    let wrong = |e| Failure::of(ErrorKind::Usage, format!("the parameters are not JSON: {e}"));
    let params: Value = args
        .params
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .map_err(wrong)?
        .unwrap_or_default();
    let result: Value = args.server.connect()?.ask(&args.method, params)?;
    // There is nothing to tell of what was only to be done.
    if result.is_null() {
        return Ok(());
    }
    printed(writeln!(std::io::stdout().lock(), "{result:#}"))
}
