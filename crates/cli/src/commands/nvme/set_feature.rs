//! `weft set-feature`.

use super::feature::data_bytes;
use super::target::{VerbTarget, letters, number};
use super::{data, feature_fields, hex};
use crate::process::exit::Failure;
use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::ADMIN_DATA_BYTES_MAX;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::feature::FeatureId;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::types::Nsid;

/// Options of `weft set-feature`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nfcUlds")))]
#[command(after_help = "\
The namespace is that of the URL, or all. What is set lasts as long as the connection of this
command, unless the feature belongs to the subsystem or a namespace, or is saved.

Example:
  weft set-feature nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 -f 0x83 --value=1")]
pub struct SetFeatureArgs {
    /// Namespace ID
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Feature identifier
    #[arg(short = 'f', long, value_parser = number::<u8>)]
    feature_id: Option<u8>,
    /// Value: dword 11 of the command
    #[arg(long, value_parser = number::<u32>, default_value = "0")]
    value: u32,
    /// Dword 12 of the command
    #[arg(short = 'c', long, value_parser = number::<u32>, default_value = "0")]
    cdw12: u32,
    /// UUID index
    #[arg(short = 'U', long, value_parser = number::<u8>, default_value = "0")]
    uuid_index: u8,
    /// Bytes of data [default: as many as the feature has]
    #[arg(short = 'l', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    data_len: u32,
    /// File with the data [default: standard input]
    #[arg(short = 'd', long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Save the value, so that it survives a reset
    #[arg(short = 's', long)]
    save: bool,
    /// Set also features that keep all hosts from writing, perhaps permanently (0x84, 0x85), and
    /// features of a vendor
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Sets a feature.
pub fn set_feature(args: &SetFeatureArgs, control: &Control) -> Result<(), Failure> {
    let id = args.feature_id()?;
    if !args.destroy_data {
        refuse_lock(id, args.value)?;
    }
    let payload = args.payload(id)?;
    let connected = args.target.connect(control)?;
    let nsid = connected.namespace_or_all(args.namespace_id.filter(|nsid| *nsid != 0));
    connected.admin("Set Features", args.command(id, nsid), CommandData::Out(payload.clone()))?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", args.line(id))?;
    if !payload.is_empty() {
        hex::dump(&mut out, &payload)?;
    }
    Ok(())
}

/// Refuses to set a feature that takes data away from hosts: what is write protected may stay so
/// for ever. What those of a vendor do is not known.
pub(super) fn refuse_lock(id: FeatureId, value: u32) -> Result<(), Failure> {
    let does = match id.0 {
        0x84 | 0x85 if value != 0 => "keeps all hosts from writing, perhaps for ever",
        0xc0.. => "may destroy or lock data, for all that weft knows of it",
        _ => return Ok(()),
    };
    let text = format!(
        "the feature {:#04x} ({}) {does}: give --destroy-data if that is meant",
        id.0,
        feature_fields::name(id)
    );
    Err(Failure::of(ErrorKind::InUse, text))
}

impl SetFeatureArgs {
    fn feature_id(&self) -> Result<FeatureId, Failure> {
        let wrong = match self.feature_id {
            None | Some(0) => "--feature-id is missing: `weft get-feature` shows which there are",
            _ if self.uuid_index > 127 => "--uuid-index has 7 bits: give at most 127",
            Some(id) => return Ok(FeatureId(id)),
        };
        Err(Failure::of(ErrorKind::Usage, wrong))
    }

    fn payload(&self, id: FeatureId) -> Result<Vec<u8>, Failure> {
        let bytes = if self.data_len == 0 { data_bytes(id, self.value) } else { self.data_len };
        if bytes > ADMIN_DATA_BYTES_MAX {
            let text = format!("--data-len {bytes}: give at most {ADMIN_DATA_BYTES_MAX}");
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        if bytes == 0 {
            return Ok(Vec::new());
        }
        // A time fits into --value.
        let mut payload = match (id, self.value) {
            (FeatureId::TIMESTAMP, 1..) => self.value.to_le_bytes().to_vec(),
            _ => data::to_send(self.data.as_ref(), bytes)?,
        };
        payload.resize(bytes as usize, 0);
        Ok(payload)
    }

    /// Set Features (Base §5.27).
    fn command(&self, id: FeatureId, nsid: Nsid) -> Sqe {
        let mut sqe = Sqe::new(AdminOpcode::SET_FEATURES.0, nsid);
        sqe.set_dword(10, u32::from(id.0) | u32::from(self.save) << 31);
        sqe.set_dword(11, self.value);
        sqe.set_dword(12, self.cdw12);
        sqe.set_dword(14, self.uuid_index.into());
        sqe
    }

    fn line(&self, id: FeatureId) -> String {
        format!(
            "set-feature:{:#04x} ({}), value:{}, cdw12:{}, save:{}",
            id.0,
            feature_fields::name(id),
            hex::eight_digits(self.value),
            hex::eight_digits(self.cdw12),
            hex::alternate(self.save.into())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, CliVerb};
    use crate::commands::nvme::Verb;
    use clap::Parser;

    fn args(words: &[&str]) -> SetFeatureArgs {
        let words =
            [&["weft", "set-feature"], words, &["127.0.0.1/nqn.2014-08.org.example:a/1"]].concat();
        let CliVerb::Nvme(verb) = Cli::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        let Verb::SetFeature(args) = *verb else { panic!("another verb") };
        args
    }

    #[test]
    fn fields_and_line() {
        let args = args(&["-f", "0x0b", "--value=0x100", "-s", "-c", "2"]);
        let id = args.feature_id().unwrap();
        let sqe = args.command(id, Nsid(1));
        assert_eq!((sqe.opcode(), sqe.dword(10)), (9, 0x8000_000b));
        assert_eq!((sqe.dword(11), sqe.dword(12)), (0x100, 2));
        assert_eq!(
            args.line(id),
            "set-feature:0x0b (Async Event Configuration), value:0x00000100, cdw12:0x00000002, save:0x1"
        );
        assert!(args.payload(id).unwrap().is_empty());
    }

    #[test]
    fn what_locks_data_is_asked_for() {
        let refused = |id, value| refuse_lock(FeatureId(id), value).err().map(|e| e.status());
        assert_eq!(
            [(0x84, 0), (0x85, 0), (0x83, 1), (0x0b, 0x900), (0xbf, 1)]
                .map(|(id, value)| refused(id, value)),
            [None; 5]
        );
        assert_eq!(
            [(0x84, 1), (0x84, 3), (0x85, 9), (0xc0, 0), (0xff, 1)]
                .map(|(id, value)| refused(id, value)),
            [Some(5); 5]
        );
    }

    #[test]
    fn a_feature_has_to_be_named_and_a_time_may_be_a_value() {
        assert_eq!(args(&[]).feature_id().unwrap_err().status(), 2);
        let time = args(&["-f", "0xe", "--value=258"]);
        assert_eq!(time.payload(FeatureId::TIMESTAMP).unwrap(), [2, 1, 0, 0, 0, 0, 0, 0]);
    }
}
