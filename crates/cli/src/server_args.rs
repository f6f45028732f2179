//! `--control` of the commands that ask a server.

use crate::exit::Failure;
use clap::Args;
use weft_server::management::client::Client;
use weft_server::management::place;

/// Which server a command asks.
#[derive(Args, Clone, Debug, Default)]
pub struct ServerArgs {
    /// Control socket of the server, or its name [default: the only server of this user] [env:
    /// WEFT_CONTROL]
    #[arg(long, value_name = "PATH|NAME", help_heading = "Server")]
    pub control: Option<String>,
}

impl ServerArgs {
    /// A connection to the server that is meant.
    pub fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&place::meant(self.control.as_deref())?)?)
    }
}
