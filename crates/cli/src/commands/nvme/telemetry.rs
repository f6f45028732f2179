//! `weft telemetry-log`.

use super::connected::ConnectedSession;
use super::log::{self, LogPageRequest};
use super::target::{VerbTarget, letters, number};
use crate::process::exit::{Failure, tell};
use clap::Args;
use std::path::PathBuf;
use weft_block::{Error, ErrorKind};
use weft_endpoint::Control;
use weft_io::output;
use weft_proto::nvme::log_page::LogPageId;

/// Bytes of a data block, and of the header.
const BLOCK_BYTES: usize = 512;

/// Most of the log page that is read.
const BYTES_MAX: u64 = 64 << 20;

/// Log Specific Parameter of the host-initiated log page: the controller is to capture its state.
const CREATE: u8 = 1;

/// LPA bit 6 of Identify Controller: there is data area 4.
const LPA_AREA_4: u8 = 1 << 6;

/// Options of `weft telemetry-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("ogcd")))]
#[command(after_help = "\
Example:
  weft telemetry-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --output-file=telemetry")]
pub struct TelemetryLogArgs {
    /// File for the log page, with its header
    #[arg(short = 'o', long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// Make the controller capture its state now (1), or not (0)
    #[arg(short = 'g', long, value_parser = number::<u32>, default_value = "1")]
    host_generate: u32,
    /// The log page that the controller has begun of itself
    #[arg(short = 'c', long)]
    controller_init: bool,
    /// Data areas up to this one, 1 to 4
    #[arg(short = 'd', long, value_parser = number::<u32>, default_value = "3")]
    data_area: u32,
    #[command(flatten)]
    target: VerbTarget,
}

/// Keeps a telemetry log page in a file.
pub fn telemetry_log(args: &TelemetryLogArgs, control: &Control) -> Result<(), Failure> {
    let Some(path) = &args.output_file else {
        let text = "--output-file is missing: name a file for the log page";
        return Err(Failure::of(ErrorKind::Usage, text));
    };
    if !(1..=4).contains(&args.data_area) {
        let text = format!("--data-area is {}: give 1 to 4", args.data_area);
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let connected = args.target.connect(control)?;
    let page = args.read(&connected)?;
    output::write(path, page)
        .map_err(|e| Error::io(format!("cannot write {}: {e}", path.display()), e).into())
}

impl TelemetryLogArgs {
    fn read(&self, connected: &ConnectedSession) -> Result<Vec<u8>, Failure> {
        let id = match self.controller_init {
            true => LogPageId::TELEMETRY_CONTROLLER,
            false => LogPageId::TELEMETRY_HOST,
        };
        let creates = !self.controller_init && self.host_generate != 0;
        let first = LogPageRequest {
            specific: if creates { CREATE } else { 0 },
            retain: self.controller_init,
            ..LogPageRequest::of(id, BLOCK_BYTES)
        };
        let header = log::read(connected, &first)?;
        if self.controller_init && header[382] == 0 {
            tell("Warning: Telemetry Controller-Initiated Data Not Available.");
            return Ok(header);
        }
        let has_area_4 = connected.session.controller().identify.lpa & LPA_AREA_4 != 0;
        if self.data_area == 4 && !has_area_4 {
            let text = format!("{}: there is no data area 4; give --data-area=3", connected.name);
            return Err(Failure::of(ErrorKind::Unsupported, text));
        }
        let bytes = bytes(&header, self.data_area);
        if bytes == BLOCK_BYTES as u64 {
            let text = format!("{}: the telemetry log page has no data block", connected.name);
            return Err(Failure::of(ErrorKind::NotFound, text));
        }
        if bytes > BYTES_MAX {
            let text = format!(
                "{}: the telemetry log page has {bytes} bytes, and weft reads at most {BYTES_MAX}; give a smaller --data-area",
                connected.name
            );
            return Err(Failure::of(ErrorKind::Unsupported, text));
        }
        log::read(
            connected,
            &LogPageRequest {
                retain: self.controller_init,
                ..LogPageRequest::of(id, bytes as usize)
            },
        )
    }
}

/// Bytes of the log page with its header (Base §5.16.1.8): up to the last block of this data area,
/// 1 to 4.
fn bytes(header: &[u8], area: u32) -> u64 {
    let short = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let last = match area {
        1 => short(8),
        2 => short(10),
        3 => short(12),
        _ => u64::from(u32::from_le_bytes([header[16], header[17], header[18], header[19]])),
    };
    (last + 1) * BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_tells_the_length() {
        let mut header = [0; BLOCK_BYTES];
        assert_eq!(bytes(&header, 3), 512);
        header[12..14].copy_from_slice(&0x0102_u16.to_le_bytes());
        header[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(bytes(&header, 3), 0x103 * 512);
        header[8] = 4;
        assert_eq!([bytes(&header, 1), bytes(&header, 2)], [5 * 512, 512]);
        assert_eq!(bytes(&header, 4), 512 << 32);
    }
}
