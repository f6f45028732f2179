//! A discovery controller or a subsystem with its options, as a line of nvme-cli's discovery.conf
//! has them.

use super::kept_keys::in_files;
use crate::connection::{Address, ConnectArgs};
use crate::exit::Failure;
use crate::given::Given;
use crate::limits::CONTROLLERS_FILE_BYTES_MAX;
use clap::{Args, Command, FromArgMatches};
use std::io::Read;
use std::path::Path;
use weft_block::ErrorKind;
use weft_endpoint::url::NvmeUrl;
use weft_proto::nvme::types::Nqn;

/// See the module.
#[derive(Debug)]
pub struct DiscoveryLine {
    /// Its origin, for messages: a URL, or a line of a file.
    pub origin: String,
    pub address: Address,
    pub connect: ConnectArgs,
    /// The options in it, and of the command.
    pub given: Given,
}

/// Options of nvme-cli that are about the kernel's host, or about what is printed.
#[derive(Args, Debug)]
struct Foreign {
    #[arg(short = 'w', long)]
    host_traddr: Option<String>,
    #[arg(short = 'f', long)]
    host_iface: Option<String>,
    #[arg(short = 'W', long)]
    nr_write_queues: Option<String>,
    #[arg(short = 'P', long)]
    nr_poll_queues: Option<String>,
    #[arg(short = 'T', long)]
    tos: Option<String>,
    #[arg(short = 'p', long, num_args = 0..=1, default_missing_value = "true")]
    persistent: Option<String>,
    #[arg(short = 'D', long)]
    duplicate_connect: bool,
    #[arg(short = 'd', long)]
    disable_sqflow: bool,
    #[arg(long)]
    quiet: bool,
    #[arg(short = 'm', long)]
    matching: bool,
}

impl Foreign {
    /// Those that would change how a connection is made.
    fn ignored(&self) -> Vec<&'static str> {
        let all = [
            (self.host_traddr.is_some(), "--host-traddr"),
            (self.host_iface.is_some(), "--host-iface"),
            (self.tos.is_some(), "--tos"),
            (self.matching, "--matching"),
        ];
        all.into_iter().filter_map(|(given, name)| given.then_some(name)).collect()
    }
}

impl DiscoveryLine {
    /// That of a command.
    pub fn of(address: &Address, connect: &Given) -> Result<Self, Failure> {
        let origin = address.discovery_url()?.to_string();
        let words: Vec<String> = connect.words().map(str::to_owned).collect();
        Ok(Self { address: address.clone(), ..Self::parse(&words, origin, connect)? })
    }

    /// Reads the words of a file; keys in them come into files of their own.
    pub fn in_file(words: &[String], origin: String, others: &Given) -> Result<Self, Failure> {
        let words = in_files(words).map_err(|e| e.about(&origin))?;
        Self::parse(&words, origin, others)
    }

    /// Reads the words of a line; `others` stand for options that are not among them.
    pub fn parse(words: &[String], origin: String, others: &Given) -> Result<Self, Failure> {
        let command = Command::new("weft").no_binary_name(true).disable_help_flag(true);
        let command =
            Foreign::augment_args(ConnectArgs::augment_args(Address::augment_args(command)));
        let wrong = |e: clap::Error| {
            let said = e.to_string();
            let first = said.lines().next().unwrap_or_default();
            let text = format!("{origin}: {}", first.trim_start_matches("error: "));
            Failure::of(ErrorKind::Usage, text)
        };
        let matches = command.clone().try_get_matches_from(words).map_err(wrong)?;
        let foreign = Foreign::from_arg_matches(&matches).map_err(wrong)?.ignored();
        if !foreign.is_empty() {
            tracing::warn!("{origin}: weft has no {}", foreign.join(", "));
        }
        let given = Given::of::<ConnectArgs>(&matches).or(others);
        let all = given.words().map(str::to_owned);
        let of_address = Given::of::<Address>(&matches);
        let all: Vec<String> = of_address.words().map(str::to_owned).chain(all).collect();
        let matches = command.try_get_matches_from(all).map_err(wrong)?;
        let address = Address::from_arg_matches(&matches).map_err(wrong)?;
        let connect = ConnectArgs::from_arg_matches(&matches).map_err(wrong)?;
        Ok(Self { address, connect, given, origin })
    }

    /// The same, if it says where to connect.
    fn checked(self) -> Result<Self, Failure> {
        match self.address.url() {
            Ok(_) => Ok(self),
            Err(e) => Err(e.about(&self.origin)),
        }
    }

    /// The subsystem that it names, if it is not a discovery controller.
    pub fn subsystem(&self) -> Result<Option<NvmeUrl>, Failure> {
        let url = self.address.url()?;
        let is_other = |nqn: &Nqn| nqn.as_str() != Nqn::DISCOVERY;
        Ok(url.subsystem.as_ref().is_some_and(is_other).then_some(url))
    }
}

/// The bytes of a file, as many as it may have.
pub fn bytes_of(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |e: std::io::Error| {
        weft_block::Error::io(format!("cannot read {}: {e}", path.display()), e)
    };
    let (mut bytes, most) = (Vec::new(), CONTROLLERS_FILE_BYTES_MAX);
    let file = std::fs::File::open(path).map_err(cannot)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > most {
        let text = format!("{} is longer than {most} bytes", path.display());
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    Ok(bytes)
}

/// A line of a file, unless it cannot be used: then the log says why, and the other lines count.
pub fn used(line: Result<DiscoveryLine, Failure>) -> Option<DiscoveryLine> {
    let skip = |why: &Failure| {
        tracing::warn!("{}; this is skipped", without_keys(&why.to_string()));
    };
    line.and_then(DiscoveryLine::checked).inspect_err(skip).ok()
}

/// Beginnings of keys, each of which can stand where none is expected.
const KEYS: [&str; 3] = ["DHHC-1:", "NVMeTLSkey-1:", "NVMeTLSkey-0:"];

/// A text for the log, with an ellipsis in place of each key.
pub fn without_keys(text: &str) -> String {
    let is_of_key = |c: char| c.is_ascii_alphanumeric() || "+/=:".contains(c);
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = KEYS.iter().filter_map(|start| Some(rest.find(start)? + start.len())).min()
    {
        shown.push_str(&rest[..at]);
        shown.push('…');
        rest = rest[at..].trim_start_matches(is_of_key);
    }
    shown + rest
}

/// The lines of a file in the format of discovery.conf that can be used.
pub fn of_file(path: &Path, others: &Given) -> Result<Vec<DiscoveryLine>, Failure> {
    let bytes = bytes_of(path)?;
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"));
    let parse = |(n, line): (usize, &[u8])| {
        let origin = format!("{}:{}", path.display(), n + 1);
        let Ok(text) = str::from_utf8(line) else {
            return Err(Failure::of(ErrorKind::Usage, format!("{origin}: this is not UTF-8")));
        };
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        DiscoveryLine::in_file(&words, origin, others)
    };
    Ok(lines.filter_map(|line| used(parse(line))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_in_a_wrong_place_is_not_in_the_message() {
        for (line, shown) in [
            ("nvme+tcp://192.0.2.1 DHHC-1:00:c2Vj+/ZXQ=:", "'DHHC-1:…'"),
            ("-t DHHC-1:00:c2VjcmV0: -a 192.0.2.1", "'DHHC-1:…'"),
            ("-t tcp NVMeTLSkey-1:01:c2VjcmV0:", ""),
            ("-t tcp -a DHHC-1:00:c2VjcmV0:", ""),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let parsed = DiscoveryLine::parse(&words, "discovery.conf:1".into(), &Given::default());
            let said =
                without_keys(&parsed.and_then(DiscoveryLine::checked).unwrap_err().to_string());
            assert!(said.contains(shown) && !said.contains("c2V"), "{said}");
        }
        assert_eq!(without_keys("DHHC-1:a DHHC-1: x"), "DHHC-1:… DHHC-1:… x");
        assert_eq!(without_keys("discovery.conf:1: no key"), "discovery.conf:1: no key");
    }
}
