//! `weft capture`: captures what passes on the connections of a host to a running server.

use crate::args::server::ServerArgs;
use crate::process::exit::{Failure, printed};
use crate::process::signals::{end_soon, has_result};
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_server::management::capture::{CaptureState, NAMES, StartCapture};
use weft_server::management::methods::NoParams;

/// Time between two questions whether the capture is over.
const LOOK: Duration = Duration::from_millis(100);

/// Options of `weft capture`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft capture nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555 --for 10s
      what an NVMe host sends and receives, to capture.pcapng
  weft capture 192.0.2.20 --for 1min --pcap ./login.pcapng
      connections from an address, also those that do not get as far as to name their host")]
pub struct CaptureArgs {
    /// Host NQN, iSCSI initiator name, or IP address of a host
    host: String,
    /// Time for which traffic is captured; Ctrl-C ends it before
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = units::parse_duration)]
    time: Duration,
    /// File, which the server writes in the format pcapng
    #[arg(long, value_name = "FILE", default_value = "capture.pcapng")]
    pcap: PathBuf,
    /// Maximum size of the file; the capture ends then
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = units::parse_size)]
    pcap_bytes: u64,
    #[command(flatten)]
    server: ServerArgs,
}

/// Has the server capture, and waits for the end.
pub fn run(args: &CaptureArgs) -> Result<(), Failure> {
    let wrong = |e| Failure::of(ErrorKind::Usage, format!("{}: {e}", args.pcap.display()));
    let start = StartCapture {
        host: args.host.clone(),
        path: std::path::absolute(&args.pcap).map_err(wrong)?,
        bytes: args.pcap_bytes,
        time_ms: u64::try_from(args.time.as_millis()).unwrap_or(u64::MAX),
    };
    let mut server = args.server.connect()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&interrupted);
    // Without the handler a signal leaves the capture to its time limit.
    let _ = end_soon(move || signalled.store(true, Ordering::Relaxed));
    let mut state: CaptureState = server.ask(NAMES.start, start)?;
    while state.is_running {
        std::thread::sleep(LOOK);
        let method = if interrupted.load(Ordering::Relaxed) { NAMES.end } else { NAMES.status };
        state = server.ask(method, NoParams {})?;
    }
    has_result();
    if let Some(why) = state.error {
        return Err(Failure::of(ErrorKind::Io, why));
    }
    let CaptureState { path, packets, bytes, dropped, withheld_bytes, .. } = state;
    let mut text = format!("{}: {packets} packets, {bytes} bytes", path.display());
    if dropped > 0 {
        text += &format!("; {dropped} packets are missing, as writing lagged behind");
    }
    if withheld_bytes > 0 {
        text += &format!("; {withheld_bytes} bytes are left out that may contain secrets");
    }
    if packets == 0 {
        text += &format!("; nothing passed on a connection of {}", args.host);
        text += ": `weft control host.list` prints the hosts";
    }
    printed(writeln!(std::io::stdout().lock(), "{text}"))
}
