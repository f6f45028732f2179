//! `weft get-log`, and how log pages are read.

use super::connected::ConnectedSession;
use super::hex;
use super::target::{VerbTarget, letters, number};
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use weft_block::{ErrorKind, units};
use weft_endpoint::Control;
use weft_endpoint::limits::ADMIN_DATA_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::log_page::LogPageId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Most of a log page that is read.
const BYTES_MAX: u32 = 64 << 20;

/// Options of `weft get-log`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nilaosSrUbyO")))]
#[command(after_help = "\
Examples:
  weft get-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk --log-id=2 --log-len=512
  weft get-log nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -i 0 -l 1024 -b >pages")]
pub struct GetLogArgs {
    /// Namespace ID [default: 0xffffffff]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Log page identifier
    #[arg(short = 'i', long, value_parser = number::<u8>, default_value = "0xff", hide_default_value = true)]
    log_id: u8,
    /// Bytes to read, a multiple of 4
    #[arg(short = 'l', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    log_len: u32,
    /// Result of an asynchronous event: 4,096 bytes of the log page that it names
    #[arg(short = 'a', long, value_parser = number::<u32>)]
    aen: Option<u32>,
    /// Log page offset, bytes
    #[arg(short = 'o', long, value_parser = offset, default_value = "0")]
    lpo: u64,
    /// Log specific field
    #[arg(short = 's', long, value_parser = number::<u8>, default_value = "0")]
    lsp: u8,
    /// Log specific identifier
    #[arg(short = 'S', long, value_parser = number::<u16>, default_value = "0")]
    lsi: u16,
    /// Retain the asynchronous event
    #[arg(short = 'r', long)]
    rae: bool,
    /// UUID index
    #[arg(short = 'U', long, value_parser = number::<u8>, default_value = "0")]
    uuid_index: u8,
    /// Print what the controller sent
    #[arg(short = 'b', long)]
    raw_binary: bool,
    /// Command set identifier
    #[arg(short = 'y', long, value_parser = number::<u8>, default_value = "0")]
    csi: u8,
    /// The offset is an index
    #[arg(short = 'O', long)]
    ot: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// An offset: a number, or one with a unit.
fn offset(text: &str) -> Result<u64, String> {
    number::<u64>(text).or_else(|_| units::parse_size(text).map_err(|e| e.to_string()))
}

/// A log page, and the part of it to read.
#[derive(Clone, Copy, Debug)]
pub struct LogPageRequest {
    pub id: u8,
    pub nsid: Nsid,
    pub bytes: u32,
    pub offset: u64,
    pub specific: u8,
    pub specific_identifier: u16,
    pub uuid_index: u8,
    pub command_set: u8,
    pub offset_is_index: bool,
    /// Reading does not count as having heard of the event.
    pub retain: bool,
}

impl LogPageRequest {
    /// The first bytes of a log page of the controller.
    pub fn of(id: LogPageId, bytes: usize) -> Self {
        Self {
            id: id.0,
            nsid: Nsid::ALL,
            bytes: bytes as u32,
            offset: 0,
            specific: 0,
            specific_identifier: 0,
            uuid_index: 0,
            command_set: 0,
            offset_is_index: false,
            retain: false,
        }
    }

    /// Get Log Page (Base §5.16) for `bytes` from `at` on.
    fn command(&self, at: u64, bytes: u32, retain: bool) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, self.nsid);
        let dwords = bytes / 4 - 1;
        let retain = if retain { 1 << 15 } else { 0 };
        let specific = u32::from(self.specific & 0x7f) << 8;
        sqe.set_dword(10, u32::from(self.id) | specific | retain | dwords << 16);
        sqe.set_dword(11, dwords >> 16 | u32::from(self.specific_identifier) << 16);
        sqe.set_qword(12, at);
        let index = if self.offset_is_index { 1 << 23 } else { 0 };
        let uuid = u32::from(self.uuid_index & 0x7f);
        sqe.set_dword(14, uuid | index | u32::from(self.command_set) << 24);
        sqe
    }
}

/// Reads a log page, in as many commands as the controller's limit on their data asks for. All but
/// the last retain the event: the page is not to change in between.
pub fn read(connected: &ConnectedSession, request: &LogPageRequest) -> Result<Vec<u8>, Failure> {
    let most = connected.session.controller().transfer_bytes_max().min(ADMIN_DATA_BYTES_MAX) & !3;
    let most = most.max(4);
    if request.offset_is_index && request.bytes > most {
        let text = format!("with --ot one command has to do: give a --log-len up to {most}");
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let mut page = Vec::new();
    while page.len() < request.bytes as usize {
        let left = request.bytes - page.len() as u32;
        let bytes = left.min(most);
        let sqe = request.command(
            request.offset + page.len() as u64,
            bytes,
            request.retain || bytes < left,
        );
        let (_, data) = connected.admin("Get Log Page", sqe, CommandData::In(bytes))?;
        if data.len() != bytes as usize {
            let text = format!("{} bytes of {bytes} came", data.len());
            return Err(connected.malformed(&text));
        }
        page.extend(data);
    }
    Ok(page)
}

/// Reads and prints a log page.
pub fn get_log(args: &GetLogArgs, control: &Control) -> Result<(), Failure> {
    let request = args.request()?;
    let connected = args.target.connect(control)?;
    let page = read(&connected, &request)?;
    let mut out = std::io::stdout().lock();
    if args.raw_binary {
        return Ok(out.write_all(&page)?);
    }
    let nsid = hex::alternate(request.nsid.0.into());
    writeln!(out, "Device:{} log-id:{} namespace-id:{nsid}", connected.name, request.id)?;
    Ok(hex::dump(&mut out, &page)?)
}

impl GetLogArgs {
    fn request(&self) -> Result<LogPageRequest, Failure> {
        let (id, bytes) = match self.aen {
            Some(event) if event != 0 => ((event >> 16) as u8, 4096),
            _ => (self.log_id, self.log_len),
        };
        let wrong = if bytes == 0 {
            "--log-len is missing: say how many bytes to read, 512 for example".to_owned()
        } else if bytes % 4 != 0 || bytes > BYTES_MAX {
            format!("--log-len {bytes} is not a multiple of 4 up to {BYTES_MAX}")
        } else if self.lsp > 127 {
            "--lsp has 7 bits: give at most 127".to_owned()
        } else if self.uuid_index > 127 {
            "--uuid-index has 7 bits: give at most 127".to_owned()
        } else if self.ot && bytes > ADMIN_DATA_BYTES_MAX {
            format!(
                "with --ot one command has to do: give a --log-len up to {ADMIN_DATA_BYTES_MAX}"
            )
        } else if self.lpo.checked_add(bytes.into()).is_none() {
            "--lpo is too large: an offset and a length have 64 bits together".to_owned()
        } else {
            return Ok(LogPageRequest {
                id,
                nsid: self.namespace_id.map_or(Nsid::ALL, Nsid),
                bytes,
                offset: self.lpo,
                specific: self.lsp,
                specific_identifier: self.lsi,
                uuid_index: self.uuid_index,
                command_set: self.csi,
                offset_is_index: self.ot,
                retain: self.rae,
            });
        };
        Err(Failure::of(ErrorKind::Usage, wrong))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_get_log_page_are_where_the_figures_show() {
        let request = LogPageRequest {
            nsid: Nsid(3),
            specific: 5,
            specific_identifier: 0x0102,
            uuid_index: 7,
            command_set: 2,
            offset_is_index: true,
            ..LogPageRequest::of(LogPageId::ANA, 512)
        };
        let sqe = request.command(0x1_0000_0008, 4 * 0x1_0003, true);
        assert_eq!((sqe.opcode(), sqe.nsid()), (2, Nsid(3)));
        assert_eq!((sqe.dword(10), sqe.dword(11)), (0x0002_850c, 0x0102_0001));
        assert_eq!((sqe.dword(12), sqe.dword(13), sqe.dword(14)), (8, 1, 0x0280_0007));
        assert_eq!(request.command(0, 4, false).dword(10), 0x050c);
    }

    #[test]
    fn offsets_may_have_units() {
        assert_eq!((offset("0x10"), offset("4KiB")), (Ok(16), Ok(4096)));
        assert!(offset("x").is_err());
    }
}
