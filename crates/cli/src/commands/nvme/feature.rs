//! `weft get-feature`.

use super::connected::ConnectedSession;
use super::target::{VerbTarget, letters, number};
use super::{feature_fields, hex, refusal};
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::ADMIN_DATA_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::Nsid;

/// Select: the feature's capabilities.
const SUPPORTED: u8 = 3;

/// nvme-cli's number for features whose current value is not the default.
const CHANGED: u8 = 8;

/// Options of `weft get-feature`.
#[derive(Args, Debug)]
#[command(mut_args(letters("fnslbcUH")))]
#[command(after_help = "\
The namespace is that of the URL, or all.

Examples:
  weft get-feature nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk -f 7 -H
  weft get-feature nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -f 5")]
pub struct GetFeatureArgs {
    /// Feature identifier [default: each that the controller has]
    #[arg(short = 'f', long, value_parser = number::<u8>)]
    feature_id: Option<u8>,
    /// Namespace ID
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Value: 0 current, 1 default, 2 saved, 3 supported capabilities, 8 changed
    #[arg(short = 's', long, value_parser = number::<u8>, default_value = "0")]
    sel: u8,
    /// Bytes of data [default: as many as the feature has]
    #[arg(short = 'l', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    data_len: u32,
    /// Print the data as the controller sent it
    #[arg(short = 'b', long)]
    raw_binary: bool,
    /// Dword 11 of the command; 1 for the Host Identifier (0x81) of 128 bits
    #[arg(short = 'c', long, value_parser = number::<u32>, default_value = "0")]
    cdw11: u32,
    /// UUID index
    #[arg(short = 'U', long, value_parser = number::<u8>, default_value = "0")]
    uuid_index: u8,
    /// Explain the value
    #[arg(short = 'H', long)]
    human_readable: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Data of a feature in bytes (Base §5.27.1); 0 where its value is all.
pub fn data_bytes(id: FeatureId, dword11: u32) -> u32 {
    match id {
        FeatureId::LBA_RANGE_TYPE | FeatureId::HOST_MEMORY_BUFFER => 4096,
        FeatureId::AUTONOMOUS_POWER_STATE_TRANSITION => 256,
        FeatureId::TIMESTAMP => 8,
        FeatureId::PREDICTABLE_LATENCY_CONFIG | FeatureId::HOST_BEHAVIOR_SUPPORT => 512,
        FeatureId::ENHANCED_CONTROLLER_METADATA
        | FeatureId::CONTROLLER_METADATA
        | FeatureId::NAMESPACE_METADATA => 4096,
        FeatureId::HOST_IDENTIFIER if dword11 & 1 != 0 => 16,
        FeatureId::HOST_IDENTIFIER => 8,
        _ => 0,
    }
}

/// Prints a feature, or each that there is.
pub fn get_feature(args: &GetFeatureArgs, control: &Control) -> Result<(), Failure> {
    args.check()?;
    let connected = args.target.connect(control)?;
    let nsid = connected.namespace_or_all(args.namespace_id.filter(|nsid| *nsid != 0));
    let Some(id) = args.feature_id else {
        return args.print_all(&connected, nsid);
    };
    let (cqe, data) = args.read(&connected, nsid, FeatureId(id), args.first_selected())?;
    refusal::check(&connected.name, "Get Features", &cqe)?;
    args.print(&connected, nsid, FeatureId(id), &(cqe, data))
}

/// Get Features (Base §5.15).
fn command(id: FeatureId, nsid: Nsid, select: u8, dword11: u32, uuid_index: u8) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_FEATURES.0, nsid);
    sqe.set_dword(10, u32::from(id.0) | u32::from(select & 7) << 8);
    sqe.set_dword(11, dword11);
    sqe.set_dword(14, u32::from(uuid_index & 0x7f));
    sqe
}

/// A completion, and its data.
type Answer = (Cqe, Vec<u8>);

impl GetFeatureArgs {
    fn check(&self) -> Result<(), Failure> {
        let wrong = if self.sel > 3 && self.sel != CHANGED {
            format!("--sel is {}: give 0 to 3, or 8", self.sel)
        } else if self.uuid_index > 127 {
            "--uuid-index has 7 bits: give at most 127".to_owned()
        } else if self.data_len > ADMIN_DATA_BYTES_MAX {
            format!("--data-len {}: give at most {ADMIN_DATA_BYTES_MAX}", self.data_len)
        } else {
            return Ok(());
        };
        Err(Failure::of(ErrorKind::Usage, wrong))
    }

    fn first_selected(&self) -> u8 {
        if self.sel == CHANGED { 0 } else { self.sel }
    }

    fn read(
        &self,
        connected: &ConnectedSession,
        nsid: Nsid,
        id: FeatureId,
        select: u8,
    ) -> Result<Answer, Failure> {
        let bytes = match (select, id, self.data_len) {
            (SUPPORTED, ..) => 0,
            (_, FeatureId::HOST_IDENTIFIER, _) if self.cdw11 & 1 != 0 => 16,
            (_, _, 0) => data_bytes(id, self.cdw11),
            (_, _, given) => given,
        };
        let sqe = command(id, nsid, select, self.cdw11, self.uuid_index);
        Ok(connected.session.admin(sqe, CommandData::In(bytes))?)
    }

    /// Without an identifier those features are left out that the controller does not have.
    fn print_all(&self, connected: &ConnectedSession, nsid: Nsid) -> Result<(), Failure> {
        for id in (0..=u8::MAX).map(FeatureId) {
            let answer = self.read(connected, nsid, id, self.first_selected())?;
            if answer.0.status.is_success() {
                self.print(connected, nsid, id, &answer)?;
            } else if answer.0.status != Status::INVALID_FIELD {
                tracing::info!("{}: feature {:#04x}: {}", connected.name, id.0, answer.0.status);
            }
        }
        Ok(())
    }

    fn print(
        &self,
        connected: &ConnectedSession,
        nsid: Nsid,
        id: FeatureId,
        answer: &Answer,
    ) -> Result<(), Failure> {
        let (cqe, data) = answer;
        if self.sel == CHANGED {
            let default = self.read(connected, nsid, id, 1)?;
            let is_default = (default.0.result as u32, &default.1) == (cqe.result as u32, data);
            if default.0.status.is_success() && is_default {
                return Ok(());
            }
        }
        let mut out = std::io::stdout().lock();
        if self.raw_binary && !data.is_empty() {
            return Ok(out.write_all(data)?);
        }
        let value = cqe.result as u32;
        writeln!(out, "{}", line(id, self.sel, value))?;
        if self.sel == SUPPORTED {
            feature_fields::capabilities(&mut out, value)?;
        } else if self.human_readable {
            feature_fields::explain(&mut out, id, value, data)?;
        } else if !data.is_empty() {
            hex::dump(&mut out, data)?;
        }
        Ok(())
    }
}

/// What is said of a value: numbers as C prints them by `%#010x`, zero without a prefix.
fn line(id: FeatureId, select: u8, value: u32) -> String {
    let selected = match select {
        0 => "Current",
        1 => "Default",
        2 => "Saved",
        SUPPORTED => "Supported capabilities",
        CHANGED => "Changed",
        _ => "Reserved",
    };
    let value = hex::eight_digits(value);
    let number = if id.0 == 0 { "00".to_owned() } else { format!("{:#04x}", id.0) };
    format!("get-feature:{number} ({}), {selected} value:{value}", feature_fields::name(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_nvme_clis() {
        assert_eq!(
            line(FeatureId::NUMBER_OF_QUEUES, 0, 0x007f_007f),
            "get-feature:0x07 (Number of Queues), Current value:0x007f007f"
        );
        assert_eq!(
            line(FeatureId::ASYNC_EVENT_CONFIGURATION, 3, 0),
            "get-feature:0x0b (Async Event Configuration), Supported capabilities value:00000000"
        );
    }

    #[test]
    fn the_fields_of_get_features_are_where_the_figures_show() {
        let sqe = command(FeatureId::HOST_IDENTIFIER, Nsid(3), 2, 1, 5);
        assert_eq!((sqe.opcode(), sqe.nsid()), (0x0a, Nsid(3)));
        assert_eq!((sqe.dword(10), sqe.dword(11), sqe.dword(14)), (0x281, 1, 5));
        assert_eq!(data_bytes(FeatureId::HOST_IDENTIFIER, 1), 16);
        assert_eq!(data_bytes(FeatureId::HOST_IDENTIFIER, 0), 8);
    }
}
