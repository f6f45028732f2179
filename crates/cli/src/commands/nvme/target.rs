//! Options that all verbs share: the target, the output format, and numbers.

use super::connected::ConnectedSession;
use crate::args::pcap::PcapArgs;
use crate::commands::identify::NvmeOutputFormat;
use crate::connection::{Address, ConnectArgs};
use crate::process::exit::Failure;
use clap::{Arg, Args};
use weft_block::units;
use weft_endpoint::Control;

/// The controller or namespace that a verb works on.
#[derive(Args, Debug)]
pub struct VerbTarget {
    #[command(flatten)]
    pub address: Address,
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    pub pcap: PcapArgs,
}

impl VerbTarget {
    /// Connects to it.
    pub fn connect(&self, control: &Control) -> Result<ConnectedSession, Failure> {
        self.pcap.begin(control)?;
        ConnectedSession::new(self.address.url()?, &self.connect.options(1, control)?)
    }
}

/// Output options.
#[derive(Args, Debug)]
pub struct OutputOptions {
    /// Output format
    #[arg(short = 'o', long, value_enum, default_value_t)]
    output_format: NvmeOutputFormat,
    /// Print what the controller sent, like -o binary
    #[arg(short = 'b', long)]
    raw_binary: bool,
}

impl OutputOptions {
    /// The format that the options ask for.
    pub fn output(&self) -> NvmeOutputFormat {
        if self.raw_binary { NvmeOutputFormat::Binary } else { self.output_format }
    }
}

/// Leaves letters to a verb's own options, which scripts for nvme-cli use: options of the address
/// and of the connection that have one of them keep their long names.
pub fn letters(own: &'static str) -> impl FnMut(Arg) -> Arg {
    const ADDRESS: [&str; 4] = ["transport", "traddr", "trsvcid", "nqn"];
    move |arg| {
        let is_shared =
            ADDRESS.contains(&arg.get_id().as_str()) || arg.get_help_heading().is_some();
        match arg.get_short() {
            Some(letter) if is_shared && own.contains(letter) => arg.short(None::<char>),
            _ => arg,
        }
    }
}

/// A number as nvme-cli takes it: decimal, hexadecimal after 0x, or octal after 0.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let (digits, radix) = match (text.strip_prefix("0x").or(text.strip_prefix("0X")), text) {
        (Some(digits), _) => (digits, 16),
        (None, "0") => (text, 10),
        (None, _) => text.strip_prefix('0').map_or((text, 10), |digits| (digits, 8)),
    };
    let bits = size_of::<T>() * 8;
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| !digits.starts_with('+'))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| format!("give a number of at most {bits} bits, such as 12 or 0xc"))
}

/// A number, also with a unit.
pub fn with_unit(text: &str) -> Result<u64, String> {
    number::<u64>(text).or_else(|e| units::parse_size(text).map_err(|_| e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_c() {
        for (text, value) in
            [("0", 0), ("12", 12), ("0x1F", 31), ("017", 15), ("255", 255), ("0XfF", 255)]
        {
            assert_eq!(number::<u8>(text), Ok(value), "{text}");
        }
        for text in ["", "256", "-1", "0x", "+1", "0x+1", "08", "1k"] {
            assert!(number::<u8>(text).is_err(), "{text}");
        }
        assert_eq!(number::<u64>("0xffffffffffffffff"), Ok(u64::MAX));
    }
}
