//! `--takeover`.

use clap::Args;
use weft_server::service::takeover::Takeover;

/// Options of the handover.
#[derive(Args, Clone, Debug, Default)]
pub struct TakeoverArgs {
    /// Take over the listening sockets of a running server, which drains and ends: its control
    /// socket, or its name
    #[arg(long, value_name = "PATH|NAME")]
    takeover: Option<String>,
}

impl TakeoverArgs {
    /// The server that is taken over, if there is one. With `insecure` it may demand more of its
    /// hosts.
    pub fn takeover(&self, insecure: bool) -> Takeover {
        Takeover { from: self.takeover.clone(), insecure, has_failed: false }
    }

    /// The control socket of that server, or its name.
    pub fn from(&self) -> Option<&str> {
        self.takeover.as_deref()
    }
}
