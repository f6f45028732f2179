//! `--exit-on-loss`: the loss of a source ends the server.

use clap::Args;
use weft_endpoint::ConnectOptions;
use weft_server::sources::paths_end;

use crate::process::exit::Failure;

/// The option.
#[derive(Args, Clone, Copy, Debug)]
pub struct LossArgs {
    /// End with status 13 when a source is lost for good, after --ctrl-loss-tmo (then 600 s by
    /// default); hosts are notified first, as on SIGTERM [default: go on]
    #[arg(long)]
    pub exit_on_loss: bool,
}

impl LossArgs {
    /// The options of sources: with --exit-on-loss a source is lost at some time.
    pub fn limit(self, mut options: ConnectOptions) -> ConnectOptions {
        if self.exit_on_loss {
            paths_end(&mut options);
        }
        options
    }
}

/// The outcome of a server: `stopped` after an order to end, or a failure for the loss of a source.
/// After a loss, a failed flush is only logged.
pub fn ended(lost: Option<String>, stopped: Result<(), Failure>) -> Result<(), Failure> {
    let Some(url) = lost else { return stopped };
    if let Err(e) = stopped {
        tracing::warn!("{e}");
    }
    Err(Failure::new(
        Failure::LOST,
        format!("{url}: the source is lost; this server ends because of --exit-on-loss"),
    ))
}
