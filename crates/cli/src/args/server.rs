//! `--control` of the commands that ask a server.

use crate::process::exit::Failure;
use clap::Args;
use weft_server::management::client::ManagementClient;
use weft_server::management::place;

/// Environment variable with the control socket for commands without `--control`.
const VARIABLE: &str = "WEFT_CONTROL";

/// The server that a command asks.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerArgs {
    /// Control socket of the server, or its name [default: the only server of this user] [env:
    /// WEFT_CONTROL]
    #[arg(long, value_name = "PATH|NAME", help_heading = "Server")]
    pub control: Option<String>,
}

impl ServerArgs {
    /// A connection to the server that is meant.
    pub fn connect(&self) -> Result<ManagementClient, Failure> {
        let variable = || std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        let given = self.control.clone().or_else(variable);
        Ok(ManagementClient::connect(&place::resolve(given.as_deref())?)?)
    }
}
