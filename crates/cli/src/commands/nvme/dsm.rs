//! `weft dsm`: Dataset Management.

use super::blocks::{bare, guard};
use super::target::{VerbTarget, letters, number};
use crate::process::exit::Failure;
use clap::Args;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::source::nvme::CommandData;
use weft_proto::nvme::host::command::{ATTRIBUTE_DEALLOCATE, RANGE_BYTES, RANGES_MAX};
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;

/// Options of `weft dsm`.
#[derive(Args, Debug)]
#[command(mut_args(letters("nabsdwrc")))]
#[command(after_help = "\
Example:
  weft dsm nvme+tcp://127.0.0.1:4420/nqn.2014-08.org.example:disk/1 --ad -s 0,64 -b 8,8")]
pub struct DsmArgs {
    /// Namespace ID [default: the one in the URL, or the first active one]
    #[arg(short = 'n', long, value_parser = number::<u32>)]
    namespace_id: Option<u32>,
    /// Context attributes of the ranges
    #[arg(short = 'a', long, value_parser = number::<u32>, value_delimiter = ',')]
    ctx_attrs: Vec<u32>,
    /// Number of blocks of each range
    #[arg(short = 'b', long, value_parser = number::<u32>, value_delimiter = ',')]
    blocks: Vec<u32>,
    /// First block of each range
    #[arg(short = 's', long, value_parser = number::<u64>, value_delimiter = ',')]
    slbs: Vec<u64>,
    /// Deallocate
    #[arg(short = 'd', long)]
    ad: bool,
    /// The ranges will be written as a whole
    #[arg(short = 'w', long)]
    idw: bool,
    /// The ranges will be read as a whole
    #[arg(short = 'r', long)]
    idr: bool,
    /// Dword 11, instead of --ad, --idr and --idw
    #[arg(short = 'c', long, value_parser = number::<u32>, default_value = "0", hide_default_value = true)]
    cdw11: u32,
    /// Deallocate also where a partition table, a file system or the like is recognised
    #[arg(long)]
    destroy_data: bool,
    #[command(flatten)]
    target: VerbTarget,
}

/// Deallocates ranges, or announces how they will be used.
pub fn dsm(args: &DsmArgs, control: &Control) -> Result<(), Failure> {
    let ranges = args.ranges()?;
    let mut given = args.namespace_id;
    if args.attributes() & ATTRIBUTE_DEALLOCATE != 0 && !args.destroy_data {
        given = guard(&args.target, given, control)?;
    }
    let command = |nsid| {
        let mut sqe = Sqe::new(NvmOpcode::DATASET_MANAGEMENT.0, nsid);
        sqe.set_dword(10, (ranges.len() / RANGE_BYTES) as u32 - 1);
        sqe.set_dword(11, args.attributes());
        (sqe, CommandData::Out(ranges))
    };
    let what = ("Dataset Management", "NVMe DSM: success");
    bare(&args.target, what, given, command, control)
}

impl DsmArgs {
    fn attributes(&self) -> u32 {
        match self.cdw11 {
            0 => {
                let deallocate = if self.ad { ATTRIBUTE_DEALLOCATE } else { 0 };
                deallocate | u32::from(self.idw) << 1 | u32::from(self.idr)
            }
            given => given,
        }
    }

    /// The data of the command: a range for each of the longest list; what others lack is 0.
    fn ranges(&self) -> Result<Vec<u8>, Failure> {
        let count = self.ctx_attrs.len().max(self.blocks.len()).max(self.slbs.len());
        if count == 0 || count > usize::from(RANGES_MAX) {
            let text = format!(
                "No range definition provided: give --slbs and --blocks of 1 to {RANGES_MAX} ranges"
            );
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let of = |list: &[u32], n: usize| list.get(n).copied().unwrap_or_default();
        let range = |n: usize| {
            let start = self.slbs.get(n).copied().unwrap_or_default();
            let words = [of(&self.ctx_attrs, n), of(&self.blocks, n)].map(u32::to_le_bytes);
            [words.concat(), start.to_le_bytes().to_vec()].concat()
        };
        Ok((0..count).flat_map(range).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: DsmArgs,
    }

    fn dsm(words: &[&str]) -> DsmArgs {
        let words = [&["dsm"], words, &["127.0.0.1/nqn.2014-08.org.example:a/1"]].concat();
        Line::try_parse_from(words).unwrap().args
    }

    #[test]
    fn ranges_are_those_of_the_lists() {
        let args = dsm(&["-d", "-r", "-s", "16,32", "-b", "8", "-a", "1"]);
        assert_eq!(args.attributes(), 5);
        let ranges = args.ranges().unwrap();
        assert_eq!(ranges[..16], [1, 0, 0, 0, 8, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ranges[16..], [0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(dsm(&["--ad"]).ranges().unwrap_err().status(), 2);
    }
}
