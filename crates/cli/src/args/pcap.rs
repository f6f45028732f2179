//! `--pcap` of the commands that open or accept connections.

use crate::process::exit::Failure;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::capture::{Capture, CaptureConfig};

/// Capture of the connections of this process.
#[derive(Args, Clone, Debug)]
pub struct PcapArgs {
    /// Write what passes on all connections to FILE, for Wireshark and other analysers (pcapng):
    /// plain text also with TLS, secrets blanked
    #[arg(long, value_name = "FILE", help_heading = "Capture")]
    pcap: Option<PathBuf>,
    /// Maximum size of the file of --pcap, which ends then
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "64MiB",
        requires = "pcap",
        value_parser = units::parse_size,
        help_heading = "Capture"
    )]
    pcap_bytes: u64,
    /// Time after which --pcap ends
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1h",
        requires = "pcap",
        value_parser = units::parse_duration,
        help_heading = "Capture"
    )]
    pcap_for: Duration,
}

impl PcapArgs {
    /// Begins the capture that is asked for: connections of `control` and servers that have it are
    /// captured from now on.
    pub fn begin(&self, control: &Control) -> Result<(), Failure> {
        let Some(path) = &self.pcap else { return Ok(()) };
        let (bytes, time) = (self.pcap_bytes, self.pcap_for);
        let config = CaptureConfig { path: path.clone(), bytes, time, host: None };
        control.set_capture(Capture::start(&config)?);
        Ok(())
    }
}

/// Ends the capture of a process that ends. The status of the process, which was `status` before.
pub fn end(control: &Control, status: u8) -> u8 {
    match control.capture().map(|capture| capture.end()) {
        Some(Err(e)) if status == 0 => Failure::of(ErrorKind::Io, e.to_string()).report(),
        _ => status,
    }
}
